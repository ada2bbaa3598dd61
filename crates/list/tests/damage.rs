//! Samples cut at every byte and changed at many: no list panics or omits an event without an error.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use binlog::{Framer, FramerOutput, MAGIC};
use list::{ChecksumPolicy, ListDamagePolicy, ListError, ListFormat, ListSettings, ListSource, list};

/// Logs of all kinds: plain, compressed, statements, XA, partial JSON, without checksums, MariaDB's.
const SAMPLES: [&str; 7] = [
    "in-use.binlog",
    "invisible-keys-full-metadata.binlog",
    "xa-compressed.binlog",
    "savepoints.binlog",
    "gtids/binlog.000002",
    "relay-compressed/relay.000002",
    "mariadb-statements-compressed.binlog",
];

const FORMS: [ListFormat; 4] =
    [ListFormat::Events, ListFormat::Json, ListFormat::Transactions, ListFormat::TransactionsJson];

fn sample(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)).unwrap()
}

fn listed(form: ListFormat, bytes: &[u8], damage: ListDamagePolicy) -> (Vec<u8>, Result<usize, ListError>) {
    let source = ListSource::Bytes("log".to_owned(), bytes.into());
    let mut settings = ListSettings::new(form, vec![source]);
    settings.jobs = NonZeroUsize::MIN;
    settings.damage = damage;
    let mut out = Vec::new();
    let result = list(&settings, &mut out).map(|warnings| warnings.len());
    (out, result)
}

/// Returns the start of each event, and the end of the last one.
fn bounds(bytes: &[u8]) -> Vec<usize> {
    let (mut framer, mut bounds) = (Framer::new(), vec![MAGIC.len()]);
    let mut position = MAGIC.len();
    while let Ok(FramerOutput::Event(raw)) = framer.next(&bytes[position..]) {
        position += raw.bytes().len();
        bounds.push(position);
    }
    bounds
}

/// Returns the size of the list of a log cut at each of `bounds`.
fn lines_up_to(bytes: &[u8], bounds: &[usize], form: ListFormat) -> Vec<usize> {
    let lines = |end: &usize| listed(form, &bytes[..*end], ListDamagePolicy::Stop).0.len();
    bounds.iter().map(lines).collect()
}

#[test]
fn cut_at_every_byte() {
    for name in SAMPLES {
        let bytes = sample(name);
        let bounds = bounds(&bytes);
        for form in [ListFormat::Events, ListFormat::Json] {
            let (full, _) = listed(form, &bytes, ListDamagePolicy::Stop);
            let sizes = lines_up_to(&bytes, &bounds, form);
            for end in MAGIC.len()..bytes.len() {
                let (out, result) = listed(form, &bytes[..end], ListDamagePolicy::Stop);
                let whole = bounds.iter().rposition(|bound| *bound <= end).unwrap();
                assert!(full.starts_with(&out), "{name} {form:?} {end}");
                assert_eq!(out.len(), sizes[whole], "{name} {form:?} {end}");
                // A log without any event is an error, too.
                let is_torn = end == MAGIC.len() || !bounds.contains(&end);
                let told = match result {
                    Ok(warnings) => warnings > 0,
                    Err(error) => matches!(error, ListError::Log(_)),
                };
                assert_eq!(is_torn, told, "{name} {form:?} {end}");
            }
        }
    }
}

#[test]
fn changed_bytes_are_found_by_their_checksums() {
    for name in SAMPLES {
        let bytes = sample(name);
        let bounds = bounds(&bytes);
        for form in FORMS {
            let (full, _) = listed(form, &bytes, ListDamagePolicy::Stop);
            let sizes = lines_up_to(&bytes, &bounds, form);
            for at in (MAGIC.len()..bytes.len()).step_by(3) {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << (at % 8);
                // No checksum covers this bit, because the server clears it in place.
                if at == 21 && at % 8 == 0 {
                    continue;
                }
                let (out, result) = listed(form, &changed, ListDamagePolicy::Stop);
                let index = bounds.iter().rposition(|bound| *bound <= at).unwrap();
                // A torn tail of a log in use is a warning, and a changed size may look like one.
                assert!(!matches!(result, Ok(0)), "{name} {form:?} {at}");
                if matches!(form, ListFormat::Events | ListFormat::Json) {
                    assert!(full.starts_with(&out) || out.len() >= sizes[index], "{name} {form:?} {at}");
                    assert_eq!(out[..sizes[index]], full[..sizes[index]], "{name} {form:?} {at}");
                }
            }
        }
    }
}

#[test]
fn damaged_events_are_shown_on_request() {
    for name in SAMPLES {
        let bytes = sample(name);
        for at in (MAGIC.len()..bytes.len()).step_by(5) {
            let mut changed = bytes.clone();
            changed[at] = changed[at].wrapping_add(1 + (at % 7) as u8);
            let (table, table_result) = listed(ListFormat::Events, &changed, ListDamagePolicy::Show);
            let (lines, lines_result) = listed(ListFormat::Json, &changed, ListDamagePolicy::Show);
            let count = |out: &[u8]| out.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(count(&table), count(&lines) + 1, "{name} {at}");
            assert_eq!(table_result.is_ok(), lines_result.is_ok(), "{name} {at}");
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                assert!(serde_json::from_slice::<serde_json::Value>(line).is_ok(), "{name} {at}");
            }
            listed(ListFormat::Transactions, &changed, ListDamagePolicy::Show).1.ok();
        }
    }
}

#[test]
fn checksums_can_be_ignored() {
    let mut bytes = sample("savepoints.binlog");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let mut settings =
        ListSettings::new(ListFormat::Events, vec![ListSource::Bytes("log".to_owned(), bytes.into())]);
    assert!(list(&settings, &mut Vec::new()).is_err());
    settings.checksums = ChecksumPolicy::Ignore;
    assert!(list(&settings, &mut Vec::new()).is_ok());
}
