//! Records that are not committed yet, kept to send them again after an abort.

use std::collections::BTreeSet;

use stream::{KeyedRecord, OtherKey};

use crate::dead_letter::{DeadLetter, LetterPart};

/// Uncommitted records, in order. Their number and size are bounded by the commits.
#[derive(Debug, Default)]
pub(crate) struct PendingRecords {
    /// Key, value and other key of each record.
    bytes: Vec<u8>,
    entries: Vec<PendingEntry>,
    /// Number of records up to the last mark.
    marked: usize,
}

/// Bounds of a record in the bytes.
#[derive(Clone, Debug)]
struct PendingEntry {
    topic: usize,
    start: usize,
    key_size: Option<usize>,
    value_size: Option<usize>,
    other: Option<(&'static str, usize)>,
    dead_letter: Option<Box<LetterPart>>,
    encoding: Option<usize>,
}

/// A record to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingRecord<'p> {
    /// Number of its topic.
    pub(crate) topic: usize,
    pub(crate) key: Option<&'p [u8]>,
    pub(crate) value: Option<&'p [u8]>,
    /// Name and value of its header.
    pub(crate) header: Option<(&'static str, &'p [u8])>,
    /// Set for a part of a dead letter.
    pub(crate) dead_letter: Option<&'p LetterPart>,
    /// Number of the encoding of key and value; `None` to send them as they are.
    pub(crate) encoding: Option<usize>,
}

impl PendingRecords {
    pub(crate) fn push(&mut self, topic: usize, encoding: Option<usize>, record: &KeyedRecord<'_>) {
        let header = record.other_key.map(|OtherKey { header, key }| (header, key));
        let (key, value) = (record.key, record.value);
        self.push_pending(PendingRecord { topic, key, value, header, dead_letter: None, encoding });
    }

    pub(crate) fn push_pending(&mut self, record: PendingRecord<'_>) {
        let PendingRecord { topic, key, value, header, dead_letter, encoding } = record;
        let start = self.bytes.len();
        for part in [key, value, header.map(|(_, value)| value)].into_iter().flatten() {
            self.bytes.extend_from_slice(part);
        }
        let [key_size, value_size] = [key, value].map(|part| part.map(<[u8]>::len));
        let other = header.map(|(name, value)| (name, value.len()));
        let dead_letter = dead_letter.cloned().map(Box::new);
        self.entries.push(PendingEntry { topic, start, key_size, value_size, other, dead_letter, encoding });
    }

    /// Replaces records by dead letters.
    pub(crate) fn replace_by_dead_letters(
        &mut self,
        numbers: &BTreeSet<usize>,
        letter_of: impl Fn(&PendingRecord<'_>) -> DeadLetter,
    ) {
        let Some(&first) = numbers.first() else { return };
        let rest = self.split_off(first);
        for index in 0..rest.len() {
            let Some(record) = rest.get(index) else { break };
            match numbers.contains(&(first + index)) {
                true => self.push_dead_letter(&record, &letter_of(&record)),
                false => self.push_pending(record),
            }
            if rest.marked == index + 1 {
                self.mark();
            }
        }
    }

    /// Pushes a dead letter: the record in parts that the brokers take.
    fn push_dead_letter(&mut self, record: &PendingRecord<'_>, letter: &DeadLetter) {
        let parts: Vec<Option<&[u8]>> = match record.value {
            Some(value) if !value.is_empty() => value.chunks(letter.part_size.max(1)).map(Some).collect(),
            value => vec![value],
        };
        for (index, value) in parts.iter().enumerate() {
            let part = LetterPart { headers: letter.headers.clone(), number: index + 1, count: parts.len() };
            self.push_pending(PendingRecord {
                topic: letter.topic,
                value: *value,
                dead_letter: Some(&part),
                encoding: None,
                ..*record
            });
        }
    }

    /// Removes all records from this number on, and returns them.
    fn split_off(&mut self, first: usize) -> Self {
        let start = self.entries.get(first).map_or(self.bytes.len(), |entry| entry.start);
        let bytes = self.bytes.split_off(start);
        let mut entries = self.entries.split_off(first.min(self.entries.len()));
        entries.iter_mut().for_each(|entry| entry.start -= start);
        let marked = self.marked.saturating_sub(first);
        self.marked = self.marked.min(first);
        Self { bytes, entries, marked }
    }

    /// Removes all records, and keeps their memory.
    pub(crate) fn cleared(mut self) -> Self {
        self.bytes.clear();
        self.entries.clear();
        self.marked = 0;
        self
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the size of all keys and values in bytes.
    pub(crate) const fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<PendingRecord<'_>> {
        let PendingEntry { topic, start, key_size, value_size, other, ref dead_letter, encoding } =
            *self.entries.get(index)?;
        let mut rest = &self.bytes[start..];
        let mut take = |size: usize| {
            let (part, after) = rest.split_at(size);
            rest = after;
            part
        };
        let (key, value) = (key_size.map(&mut take), value_size.map(&mut take));
        let header = other.map(|(name, size)| (name, take(size)));
        Some(PendingRecord { topic, key, value, header, dead_letter: dead_letter.as_deref(), encoding })
    }

    /// Marks the end of a source transaction.
    pub(crate) const fn mark(&mut self) {
        self.marked = self.entries.len();
    }

    /// Returns the number of records up to the last mark.
    pub(crate) const fn marked(&self) -> usize {
        self.marked
    }

    /// Removes all records from this number on.
    pub(crate) fn truncate(&mut self, count: usize) {
        if let Some(entry) = self.entries.get(count) {
            self.bytes.truncate(entry.start);
            self.entries.truncate(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PendingRecord, PendingRecords};
    use crate::dead_letter::DeadLetter;

    /// Returns records of a letter each; `|` marks, and a capital letter is a dead letter in parts of two.
    fn shown(pending: &PendingRecords) -> String {
        let mut text = String::new();
        for index in 0..pending.len() {
            let record = pending.get(index).unwrap();
            text.push_str(std::str::from_utf8(record.value.unwrap()).unwrap());
            if let Some(letter) = record.dead_letter {
                text.push_str(&format!("({}/{})", letter.number, letter.count));
            }
            if index + 1 == pending.marked() {
                text.push('|');
            }
        }
        text
    }

    #[test]
    fn refused_records_become_dead_letters() {
        let check = |numbers: &[usize], expected: &str| {
            let mut pending = PendingRecords::default();
            for (index, value) in ["ab", "cde", "fg"].iter().enumerate() {
                let (key, value) = (Some(&b"k"[..]), Some(value.as_bytes()));
                pending.push_pending(PendingRecord {
                    topic: 0,
                    key,
                    value,
                    header: None,
                    dead_letter: None,
                    encoding: None,
                });
                if index == 1 {
                    pending.mark();
                }
            }
            let letter = DeadLetter { topic: 9, part_size: 2, headers: [].into() };
            pending.replace_by_dead_letters(&numbers.iter().copied().collect(), |_| letter.clone());
            assert_eq!(shown(&pending), expected, "{numbers:?}");
        };
        check(&[], "abcde|fg");
        check(&[0], "ab(1/1)cde|fg");
        check(&[1], "abcd(1/2)e(2/2)|fg");
        check(&[2], "abcde|fg(1/1)");
        check(&[0, 1, 2], "ab(1/1)cd(1/2)e(2/2)|fg(1/1)");
    }

    #[test]
    fn records_are_kept_as_they_were_pushed() {
        let records = [
            PendingRecord {
                topic: 1,
                key: Some(b"k"),
                value: Some(b"value"),
                header: None,
                dead_letter: None,
                encoding: None,
            },
            PendingRecord {
                topic: 2,
                key: None,
                value: Some(b""),
                header: Some(("h", b"other")),
                dead_letter: None,
                encoding: Some(3),
            },
            PendingRecord {
                topic: 1,
                key: Some(b""),
                value: None,
                header: None,
                dead_letter: None,
                encoding: None,
            },
        ];
        let mut pending = PendingRecords::default();
        for record in records {
            pending.push_pending(record);
            pending.mark();
        }
        for (index, record) in records.into_iter().enumerate() {
            assert_eq!(pending.get(index), Some(record));
        }
        pending.truncate(1);
        assert_eq!((pending.len(), pending.size(), pending.get(1)), (1, 6, None));
    }
}
