//! Index of a buffer of records: bounds, kinds and keys.

use std::ops::Range;

use crate::broker_sink::{KeyedRecord, KeyedRecordKind, OtherKey};

/// Bounds, kinds and keys of the records in a buffer.
#[derive(Debug, Default)]
pub(crate) struct RecordIndex {
    entries: Vec<RecordIndexEntry>,
    /// Keys of all records.
    pub(crate) keys: Vec<u8>,
}

/// Entry of an index.
#[derive(Debug)]
pub(crate) enum RecordIndexEntry {
    Record(RecordBounds),
    TransactionEnd,
}

/// Bounds of a record and its keys.
#[derive(Debug)]
pub(crate) struct RecordBounds {
    kind: KeyedRecordKind,
    /// End of the record in the buffer, after its newline; `None` for a tombstone.
    end: Option<usize>,
    key: Option<Range<usize>>,
    other_key: Option<OtherKeyBounds>,
}

/// Bounds of the key before or after an update of the primary key.
#[derive(Clone, Debug)]
pub(crate) struct OtherKeyBounds {
    pub(crate) header: &'static str,
    pub(crate) key: Range<usize>,
}

/// Keys of a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordKeys {
    pub(crate) key: Option<Range<usize>>,
    pub(crate) other_key: Option<OtherKeyBounds>,
}

impl RecordIndex {
    /// Adds the record that ends at `end`.
    pub(crate) fn push(&mut self, kind: KeyedRecordKind, keys: RecordKeys, end: usize) {
        let RecordKeys { key, other_key } = keys;
        self.entries.push(RecordIndexEntry::Record(RecordBounds { kind, end: Some(end), key, other_key }));
    }

    /// Adds the row that ends at `end`, with its key, which is empty for a table without a primary key.
    pub(crate) fn push_row(&mut self, kind: KeyedRecordKind, key: &[u8], end: usize) {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        let key = (!key.is_empty()).then_some(start..self.keys.len());
        self.push(kind, RecordKeys { key, other_key: None }, end);
    }

    /// Adds a tombstone.
    pub(crate) fn push_tombstone(&mut self, kind: KeyedRecordKind, keys: RecordKeys) {
        let RecordKeys { key, other_key } = keys;
        self.entries.push(RecordIndexEntry::Record(RecordBounds { kind, end: None, key, other_key }));
    }

    /// Adds a key of one field, whose value is JSON.
    pub(crate) fn put_key(&mut self, label: &str, value: &[u8]) -> RecordKeys {
        let start = self.keys.len();
        self.keys.extend_from_slice(b"{\"");
        self.keys.extend_from_slice(label.as_bytes());
        self.keys.extend_from_slice(b"\":");
        self.keys.extend_from_slice(value);
        self.keys.push(b'}');
        RecordKeys { key: Some(start..self.keys.len()), other_key: None }
    }

    /// Adds the end of a transaction.
    pub(crate) fn end_transaction(&mut self) {
        self.entries.push(RecordIndexEntry::TransactionEnd);
    }

    /// Moves the end of the last record, which was extended.
    pub(crate) fn extend_last(&mut self, new_end: usize) {
        if let Some(RecordIndexEntry::Record(RecordBounds { end: Some(end), .. })) = self.entries.last_mut() {
            *end = new_end;
        }
    }

    /// Keeps the first `count` entries. Returns the size of their records in the buffer.
    pub(crate) fn keep_first(&mut self, count: usize) -> usize {
        self.entries.truncate(count);
        let ends = self.entries.iter().rev().filter_map(|entry| match entry {
            RecordIndexEntry::Record(bounds) => bounds.end,
            RecordIndexEntry::TransactionEnd => None,
        });
        ends.max().unwrap_or(0)
    }

    /// Returns the number of entries up to the last end of a transaction.
    pub(crate) fn complete_entries(&self) -> usize {
        let is_end = |entry: &RecordIndexEntry| matches!(entry, RecordIndexEntry::TransactionEnd);
        self.entries.iter().rposition(is_end).map_or(0, |index| index + 1)
    }

    pub(crate) fn entries(&self) -> &[RecordIndexEntry] {
        &self.entries
    }

    /// Returns the record with these bounds, which starts at `start`.
    pub(crate) fn record<'r>(
        &'r self,
        bounds: &'r RecordBounds,
        bytes: &'r [u8],
        start: usize,
    ) -> KeyedRecord<'r> {
        let key = |range: &Range<usize>| &self.keys[range.clone()];
        KeyedRecord {
            kind: &bounds.kind,
            key: bounds.key.as_ref().map(key),
            // Without its newline.
            value: bounds.end.map(|end| &bytes[start..end - 1]),
            other_key: bounds
                .other_key
                .as_ref()
                .map(|other| OtherKey { header: other.header, key: key(&other.key) }),
        }
    }

    /// Removes the first `count` entries, whose records are the first `size` bytes of the buffer.
    pub(crate) fn remove_first(&mut self, count: usize, size: usize) {
        self.entries.drain(..count);
        if self.entries.is_empty() {
            self.keys.clear();
            return;
        }
        for entry in &mut self.entries {
            if let RecordIndexEntry::Record(RecordBounds { end: Some(end), .. }) = entry {
                *end -= size;
            }
        }
    }
}

impl RecordBounds {
    /// Returns the end of the record in the buffer, for a record that starts at `start`.
    pub(crate) fn end(&self, start: usize) -> usize {
        self.end.unwrap_or(start)
    }
}
