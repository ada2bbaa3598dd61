//! Records that are not committed yet, kept to send them again after an abort.

use stream::{KeyedRecord, OtherKey};

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
#[derive(Clone, Copy, Debug)]
struct PendingEntry {
    topic: usize,
    start: usize,
    key_size: Option<usize>,
    value_size: Option<usize>,
    other: Option<(&'static str, usize)>,
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
}

impl PendingRecords {
    pub(crate) fn push(&mut self, topic: usize, record: &KeyedRecord<'_>) {
        let header = record.other_key.map(|OtherKey { header, key }| (header, key));
        self.push_pending(PendingRecord { topic, key: record.key, value: record.value, header });
    }

    pub(crate) fn push_pending(&mut self, record: PendingRecord<'_>) {
        let PendingRecord { topic, key, value, header } = record;
        let start = self.bytes.len();
        for part in [key, value, header.map(|(_, value)| value)].into_iter().flatten() {
            self.bytes.extend_from_slice(part);
        }
        let [key_size, value_size] = [key, value].map(|part| part.map(<[u8]>::len));
        let other = header.map(|(name, value)| (name, value.len()));
        self.entries.push(PendingEntry { topic, start, key_size, value_size, other });
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the size of all keys and values in bytes.
    pub(crate) const fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<PendingRecord<'_>> {
        let PendingEntry { topic, start, key_size, value_size, other } = *self.entries.get(index)?;
        let mut rest = &self.bytes[start..];
        let mut take = |size: usize| {
            let (part, after) = rest.split_at(size);
            rest = after;
            part
        };
        let (key, value) = (key_size.map(&mut take), value_size.map(&mut take));
        Some(PendingRecord { topic, key, value, header: other.map(|(name, size)| (name, take(size))) })
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

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.marked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{PendingRecord, PendingRecords};

    #[test]
    fn records_are_kept_as_they_were_pushed() {
        let records = [
            PendingRecord { topic: 1, key: Some(b"k"), value: Some(b"value"), header: None },
            PendingRecord { topic: 2, key: None, value: Some(b""), header: Some(("h", b"other")) },
            PendingRecord { topic: 1, key: Some(b""), value: None, header: None },
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
