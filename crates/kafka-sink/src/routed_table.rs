//! Tables whose records share a topic with those of other tables.

use std::sync::Arc;

use stream::{ConnectField, ConnectKind, ConnectSchema, KeyedRecordKind, RecordTable};

/// Field of keys that tells the tables of a topic apart, as Debezium's `ByLogicalTableRouter` names it. Its value is the
/// topic that the table would have alone.
const TABLE_FIELD: &str = "__dbz__physicalTableIdentifier";

/// Table whose records share a topic with those of other tables. The keys of the tables differ.
#[derive(Debug)]
pub(crate) struct RoutedTable {
    /// Number among the routed tables of the stream.
    pub(crate) number: usize,
    original: Arc<RecordTable>,
    /// Kind of its records, with the field in their keys.
    kind: KeyedRecordKind,
    /// Bytes at the end of its keys: `,"NAME":"TOPIC"}`.
    key_end: String,
}

impl RoutedTable {
    /// Creates a table that would have the topic `own_topic` alone.
    pub(crate) fn new(original: Arc<RecordTable>, own_topic: &str, number: usize) -> Self {
        let mut routed = RecordTable::clone(&original);
        if !routed.key.is_empty() {
            let schema = ConnectSchema::new(ConnectKind::Text);
            routed.key.push(ConnectField { name: TABLE_FIELD.to_owned(), schema });
        }
        // Names of topics have no characters that JSON escapes.
        let key_end = format!(",\"{TABLE_FIELD}\":\"{own_topic}\"}}");
        Self { number, original, kind: KeyedRecordKind::Row(Arc::new(routed)), key_end }
    }

    /// Returns whether this is the form of a table.
    pub(crate) fn is_of(&self, table: &Arc<RecordTable>) -> bool {
        Arc::ptr_eq(&self.original, table) || self.original == *table
    }

    /// Returns whether equal keys of the two tables stay equal: the topics that they would have alone are the same.
    pub(crate) fn has_keys_of(&self, other: &Self) -> bool {
        self.key_end == other.key_end
    }

    pub(crate) const fn kind(&self) -> &KeyedRecordKind {
        &self.kind
    }

    /// Writes a key with the field at its end.
    pub(crate) fn put_key(&self, out: &mut Vec<u8>, key: &[u8]) {
        out.clear();
        out.extend_from_slice(key.strip_suffix(b"}").unwrap_or(key));
        out.extend_from_slice(self.key_end.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stream::{KeyedRecordKind, RecordTable};

    use super::RoutedTable;

    #[test]
    fn keys_name_their_table() {
        let table =
            Arc::new(RecordTable { database: "d".into(), table: "t_1".into(), ..RecordTable::default() });
        let routed = RoutedTable::new(Arc::clone(&table), "p.d.t_1", 0);
        let mut key = b"earlier".to_vec();
        routed.put_key(&mut key, br#"{"id":1}"#);
        assert_eq!(key, br#"{"id":1,"__dbz__physicalTableIdentifier":"p.d.t_1"}"#);
        assert!(routed.is_of(&table));
        // A table without a key gets none.
        assert_eq!(*routed.kind(), KeyedRecordKind::Row(table));
    }
}
