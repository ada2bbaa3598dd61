//! GTID sets: a decoded set encodes to one that decodes to the same, and unions and differences are consistent.

use binlog::Event;
use binlog::gtid::{GtidSet, GtidSetFormat};

use crate::seeds::{Sample, format_of, raw_events};

pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    let format = format_of("9.7.4", 8);
    let mut seeds = Vec::new();
    for raw in raw_events(sample) {
        if let Ok(Event::PreviousGtids(previous)) = raw.decode(&format)
            && let Ok(set) = GtidSet::decode(previous.set)
        {
            seeds.push([&[0], previous.set].concat());
            seeds.push(format!("\u{1}{set}").into_bytes());
            seeds.push(format!("\u{1}{set}:1-9:x:4 ,; {{{set}:3}}").into_bytes());
        }
    }
    seeds
}

/// Checks the bytes of one set, or the texts of two sets, selected by the first byte.
pub(super) fn check(bytes: &[u8]) {
    match bytes {
        [kind, rest @ ..] if kind % 2 == 0 => {
            if let Ok(set) = GtidSet::decode(rest) {
                check_one(&set);
            }
        }
        [_, rest @ ..] => {
            let half = rest.iter().position(|byte| *byte == b';').unwrap_or(rest.len());
            let (one, two) = rest.split_at(half);
            let two = two.strip_prefix(b";").unwrap_or(two);
            let (Ok(one), Ok(two)) = (GtidSet::parse(one), GtidSet::parse(two)) else { return };
            check_one(&one);
            check_one(&two);
            check_two(&one, &two);
        }
        [] => {}
    }
}

fn check_one(set: &GtidSet) {
    let text = set.to_string();
    assert_eq!(text.parse().as_ref(), Ok(set));
    assert!(set.to_comment().to_string().starts_with("# "));
    let mut bytes = Vec::new();
    set.encode(GtidSetFormat::Tagged, &mut bytes);
    assert_eq!(GtidSet::decode(&bytes).as_ref(), Ok(set));
    assert!(!set.gaps().intersects(set));
    assert_eq!(set.is_empty(), set.count() == 0);
}

fn check_two(one: &GtidSet, two: &GtidSet) {
    let (both, either, rest) = (one.intersection(two), one.union(two), one.difference(two));
    assert_eq!(rest.union(&both), *one);
    assert_eq!(either.difference(two), rest);
    assert_eq!(either.count() + both.count(), one.count() + two.count());
    assert_eq!(one.is_subset(two), rest.is_empty());
    assert!(both.is_subset(one) && both.is_subset(two) && one.is_subset(&either));
}
