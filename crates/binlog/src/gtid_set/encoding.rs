//! Binary encoding of GTID sets, in Previous_gtids events and in the protocol.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::cursor::{Cursor, put_varlen};
use crate::error::{DecodeError, DecodeReason};
use crate::gtid::{Gno, GtidTag, Tsid, Uuid};
use crate::gtid_set::{GtidInterval, GtidSet};

/// Binary format of a GTID set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GtidSetFormat {
    /// Format of all servers, without tags.
    Untagged,
    /// Format of MySQL 8.3 and later, used if the set has tags.
    Tagged,
}

/// First eight bytes of a tagged set: a 1 in the lowest and in the highest byte, and the number of sources between
/// them.
const TAGGED: u64 = 1 << 56 | 1;
/// Position of the number of sources in the first eight bytes of a tagged set.
const TAGGED_COUNT_SHIFT: u32 = 8;
const TAGGED_COUNT_MAX: u64 = (1 << 48) - 1;

// size  field
//    8  number of sources; tagged: 1 << 56 | number << 8 | 1
//       for each source, in order:
//   16  its UUID
//    *  tagged only: the tag's size (variable-length integer) and the tag
//    8  number of intervals
//       for each interval, in order:
//    8  its first number
//    8  the number after its last
impl GtidSet {
    /// Decodes a set in either format, as in a Previous_gtids event.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are truncated or continue after the set, or if the format is unknown. Also fails if an
    /// interval is empty, out of range or out of order.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes);
        let head = cursor.u64()?;
        let (format, count) = match head.to_be_bytes()[0] {
            0 => (GtidSetFormat::Untagged, head),
            1 if head & 0xff == 1 => (GtidSetFormat::Tagged, head >> TAGGED_COUNT_SHIFT & TAGGED_COUNT_MAX),
            1 => {
                let reason =
                    DecodeReason::Differs { field: "GTID set format", found: head & 0xff, expected: 1 };
                return Err(DecodeError::new(0, reason));
            }
            _ => {
                return Err(DecodeError::new(
                    7,
                    DecodeReason::Unsupported { what: "a GTID set of an unknown format" },
                ));
            }
        };
        let mut lists: BTreeMap<Tsid, Vec<GtidInterval>> = BTreeMap::new();
        for _ in 0..count {
            let tsid = decode_tsid(&mut cursor, format)?;
            let list = decode_intervals(&mut cursor)?;
            match lists.entry(tsid) {
                Entry::Vacant(entry) => drop(entry.insert(list)),
                // Servers list each source once. Sort later, so that input that often repeats a source takes linear
                // time.
                Entry::Occupied(mut entry) => entry.get_mut().extend(list),
            }
        }
        cursor.finish()?;
        Ok(Self::from_lists(lists))
    }

    /// Appends the set as in a Previous_gtids event. The untagged format omits sources with tags.
    pub fn encode(&self, format: GtidSetFormat, out: &mut Vec<u8>) {
        let is_written = |tsid: &Tsid| format == GtidSetFormat::Tagged || tsid.tag.is_none();
        let count = self.lists.keys().filter(|tsid| is_written(tsid)).count() as u64;
        let head = match format {
            GtidSetFormat::Untagged => count,
            GtidSetFormat::Tagged => TAGGED | count << TAGGED_COUNT_SHIFT,
        };
        out.extend_from_slice(&head.to_le_bytes());
        for (tsid, list) in self.lists.iter().filter(|(tsid, _)| is_written(tsid)) {
            out.extend_from_slice(tsid.uuid.as_bytes());
            if format == GtidSetFormat::Tagged {
                put_varlen(out, tsid.tag.as_str().len() as u64);
                out.extend_from_slice(tsid.tag.as_str().as_bytes());
            }
            out.extend_from_slice(&(list.len() as u64).to_le_bytes());
            for interval in list {
                out.extend_from_slice(&interval.start.to_le_bytes());
                out.extend_from_slice(&interval.end.to_le_bytes());
            }
        }
    }

    /// Returns the format that can hold the whole set.
    pub fn format(&self) -> GtidSetFormat {
        match self.lists.keys().all(|tsid| tsid.tag.is_none()) {
            true => GtidSetFormat::Untagged,
            false => GtidSetFormat::Tagged,
        }
    }
}

fn decode_tsid(cursor: &mut Cursor<'_>, format: GtidSetFormat) -> Result<Tsid, DecodeError> {
    let uuid = Uuid::from_bytes(cursor.array()?);
    if format == GtidSetFormat::Untagged {
        return Ok(Tsid { uuid, tag: GtidTag::NONE });
    }
    let start = cursor.clone();
    let size = cursor.varlen()?;
    let tag = cursor.bytes(usize::try_from(size).unwrap_or(usize::MAX))?;
    let expected = "a letter or underscore, then letters, digits, underscores, 32 at most";
    let tag = GtidTag::new(tag)
        .ok_or_else(|| start.error(DecodeReason::Unexpected { field: "tag", found: size, expected }))?;
    Ok(Tsid { uuid, tag })
}

fn decode_intervals(cursor: &mut Cursor<'_>) -> Result<Vec<GtidInterval>, DecodeError> {
    let count = cursor.u64()?;
    // The count may be wrong: allocate only for existing bytes.
    let room = usize::try_from(count).unwrap_or(usize::MAX).min(cursor.rest().len() / 16);
    let mut list: Vec<GtidInterval> = Vec::with_capacity(room);
    for _ in 0..count {
        let at = cursor.clone();
        let (start, end) = (cursor.u64()?, cursor.u64()?);
        let after = list.last().map_or(0, |last| last.end);
        if start <= after {
            let expected = "more than the end of the previous interval";
            return Err(at.error(DecodeReason::Unexpected {
                field: "interval start",
                found: start,
                expected,
            }));
        }
        if end <= start || end > Gno::MAX + 1 {
            let expected = "more than its start, and less than 2^63";
            return Err(at.error(DecodeReason::Unexpected { field: "interval end", found: end, expected }));
        }
        list.push(GtidInterval { start, end });
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{GtidSet, GtidSetFormat};

    fn check(text: &str, format: GtidSetFormat, bytes: &[u8]) {
        let set: GtidSet = text.parse().unwrap();
        assert_eq!(set.format(), format);
        let mut out = Vec::new();
        set.encode(format, &mut out);
        assert_eq!(out, bytes, "{text}");
        assert_eq!(GtidSet::decode(bytes), Ok(set.clone()));
        out.clear();
        set.encode(GtidSetFormat::Tagged, &mut out);
        assert_eq!(GtidSet::decode(&out), Ok(set));
    }

    const A: [u8; 16] = [0xaa; 16];

    fn tagged_with(tag: &[u8], intervals: &[[u64; 2]]) -> Vec<u8> {
        let mut bytes = vec![1, 1, 0, 0, 0, 0, 0, 1];
        bytes.extend(A);
        bytes.extend(tag);
        bytes.extend((intervals.len() as u64).to_le_bytes());
        intervals.as_flattened().iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes
    }

    #[test]
    fn both_formats() {
        let uuid = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";
        check("", GtidSetFormat::Untagged, &[0; 8]);
        let mut bytes = vec![1, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend(A);
        bytes.extend([2, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
        check(&format!("{uuid}:1-5:7"), GtidSetFormat::Untagged, &bytes);
        let bytes = tagged_with(&[6, b't', b'a', b'g'], &[[1, 4]]);
        check(&format!("{uuid}:tag:1-3"), GtidSetFormat::Tagged, &bytes);
    }

    /// Repeating a source must not walk its list each time.
    #[test]
    fn one_source_repeated_a_hundred_thousand_times() {
        let count = 100_000_u64;
        for is_ascending in [true, false] {
            let mut bytes = count.to_le_bytes().to_vec();
            for number in 0..count {
                let start = 2 * if is_ascending { number } else { count - number } + 1;
                bytes.extend(A);
                [1, start, start + 1].iter().for_each(|field: &u64| bytes.extend(field.to_le_bytes()));
            }
            let set = GtidSet::decode(&bytes).unwrap();
            assert_eq!((set.count(), set.intervals().count()), (u128::from(count), 100_000));
        }
    }

    #[test]
    fn untagged_format_leaves_tags_out() {
        let set: GtidSet = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:1-3:tag:5".parse().unwrap();
        let mut out = Vec::new();
        set.encode(GtidSetFormat::Untagged, &mut out);
        assert_eq!(
            GtidSet::decode(&out),
            "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:1-3".parse().map_err(|_| unreachable!())
        );
    }

    #[test]
    fn faults() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(GtidSet::decode(bytes).unwrap_err().to_string(), expected);
        };
        let none = [0_u8].as_slice();
        let good = tagged_with(none, &[[1, 4]]);
        check(&good[..7], "byte 0: expected 8 more bytes, found 7");
        check(&good[..good.len() - 1], "byte 41: expected 8 more bytes, found 7");
        check(&[&good[..], none].concat(), "byte 49: expected the end, found 1 extra bytes");
        check(&[2, 0, 0, 0, 0, 0, 0, 2], "byte 7: a GTID set of an unknown format cannot be read");
        check(&[2, 0, 0, 0, 0, 0, 0, 1], "byte 0: GTID set format is 2, expected 1");
        // False counts: 2^48 - 1 sources, and 2^64 - 1 intervals.
        check(&[1, 255, 255, 255, 255, 255, 255, 1], "byte 8: expected 16 more bytes, found 0");
        let mut large = good.clone();
        large[25..33].fill(255);
        check(&large, "byte 49: expected 8 more bytes, found 0");
        check(
            &tagged_with(none, &[[0, 4]]),
            "byte 33: interval start is 0, expected more than the end of the previous interval",
        );
        check(
            &tagged_with(none, &[[1, 4], [4, 5]]),
            "byte 49: interval start is 4, expected more than the end of the previous interval",
        );
        check(
            &tagged_with(none, &[[1, 4], [2, 9]]),
            "byte 49: interval start is 2, expected more than the end of the previous interval",
        );
        check(
            &tagged_with(none, &[[4, 4]]),
            "byte 33: interval end is 4, expected more than its start, and less than 2^63",
        );
        check(
            &tagged_with(none, &[[4, 1 << 63]]),
            "byte 33: interval end is 9223372036854775808, expected more than its start, and less than 2^63",
        );
        check(
            &tagged_with(&[2, b'1'], &[[1, 4]]),
            "byte 24: tag is 1, expected a letter or underscore, then letters, digits, underscores, 32 at most",
        );
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in vec(any::<u8>(), 0..100), head in 0_usize..3) {
            let heads: [&[u8]; 3] = [&[], &[1, 0, 0, 0, 0, 0, 0, 0], &[1, 2, 0, 0, 0, 0, 0, 1]];
            let bytes = [heads[head], &bytes].concat();
            if let Ok(set) = GtidSet::decode(&bytes) {
                let mut out = Vec::new();
                set.encode(GtidSetFormat::Tagged, &mut out);
                prop_assert_eq!(GtidSet::decode(&out), Ok(set));
            }
        }
    }
}
