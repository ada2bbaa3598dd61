//! Keys of whole transactions.

use std::sync::Arc;

use binlog::events::TableMap;
use binlog::{
    DecodeError, Event, EventFormat, EventRole, EventType, Flavour, RawEvent, Table, TableRegistry,
};
use hashbrown::HashMap;

use super::KeyReader;
use crate::schedule::{CLAIM_KEYS_MAX, ChangedKeys, KeySet};
use crate::target_table_definition::TargetTableDefinition;

/// Finder of the keys of whole transactions. Remembers the tables between transactions.
#[derive(Clone, Debug)]
pub struct TransactionKeys {
    flavour: Flavour,
    tables: TableRegistry,
    /// Key readers by table number.
    readers: HashMap<u64, (Arc<Table>, Arc<KeyReader>)>,
}

/// Maximum number of readers. Bounds memory: a long log has any number of table numbers.
const READERS_MAX: usize = 4096;

impl TransactionKeys {
    /// Creates a finder for logs of this flavour.
    pub fn new(flavour: Flavour) -> Self {
        Self { flavour, tables: TableRegistry::new(), readers: HashMap::new() }
    }

    /// Adds the keys of a transaction. `events` are all its events, from a log of this format or from a payload. The
    /// keys become unknown if the transaction does more than change rows. `define` returns a table by its name in the
    /// log.
    ///
    /// # Errors
    ///
    /// Fails if an event cannot be decoded.
    pub fn read<'d>(
        &mut self,
        events: &[RawEvent<'_>],
        format: &EventFormat,
        define: &dyn Fn(&TableMap<'_>) -> Option<&'d TargetTableDefinition>,
        keys: &mut ChangedKeys,
    ) -> Result<(), DecodeError> {
        for raw in events {
            let ChangedKeys::Known(known) = keys else { return Ok(()) };
            let coverage = match EventRole::of(raw, format)? {
                EventRole::Rows | EventRole::RowsEnd => self.rows(raw, format, known)?,
                EventRole::RowsBegin if raw.event_type() == EventType::TableMap => {
                    self.map(raw, format, define)?;
                    KeyCoverage::All
                }
                EventRole::RowsBegin
                | EventRole::Aside
                | EventRole::Gtid
                | EventRole::GtidAndBegin
                | EventRole::Begin => KeyCoverage::All,
                EventRole::Commit => KeyCoverage::All,
                _ => KeyCoverage::NotAll,
            };
            // A transaction with too many keys runs alone anyway.
            if coverage == KeyCoverage::NotAll || known.len() > CLAIM_KEYS_MAX {
                *keys = ChangedKeys::Unknown;
            }
        }
        Ok(())
    }

    /// Forgets all table definitions, because they may have changed.
    pub fn forget(&mut self) {
        self.readers.clear();
    }

    fn map<'d>(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        define: &dyn Fn(&TableMap<'_>) -> Option<&'d TargetTableDefinition>,
    ) -> Result<(), DecodeError> {
        let Event::TableMap(map) = raw.decode(format)? else { return Ok(()) };
        let table = self.tables.register(&map)?;
        let known = self.readers.get(&map.table_id);
        if known.is_none_or(|(known, _)| !Arc::ptr_eq(known, &table)) {
            if self.readers.len() >= READERS_MAX {
                self.readers.clear();
            }
            let reader = Arc::new(KeyReader::new(&table, define(&map), self.flavour));
            self.readers.insert(map.table_id, (table, reader));
        }
        Ok(())
    }

    fn rows(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        keys: &mut KeySet,
    ) -> Result<KeyCoverage, DecodeError> {
        let event = raw.decode(format)?;
        let Some(rows) = event.rows() else { return Ok(KeyCoverage::NotAll) };
        if rows.column_count == 0 {
            return Ok(KeyCoverage::All); // Only ends the statement.
        }
        let decoder = self.tables.decoder(rows)?;
        let Some((_, reader)) = self.readers.get(&rows.table_id) else { return Ok(KeyCoverage::NotAll) };
        reader.read(rows, &decoder, keys)?;
        Ok(KeyCoverage::All)
    }
}

/// Completeness of the keys of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyCoverage {
    All,
    NotAll,
}

#[cfg(test)]
mod tests {
    use binlog::events::{Intvar, IntvarKind, Rows, RowsFlags, RowsKind, Xid};
    use binlog::{
        ChecksumAlgorithm, Event, EventChecksum, EventFlags, EventFormat, EventOrigin, Flavour, NextPosition,
        RawEvent,
    };

    use super::TransactionKeys;
    use crate::sample_table::{SampleTable, definition, image, int};
    use crate::schedule::{ChangedKeys, KeySet};
    use crate::target_table_definition::{TargetTableDefinition, TargetTableName};

    fn format() -> EventFormat {
        let (server_version, post_header_sizes) = (b"9.7.4".to_vec(), Vec::new());
        let checksum = ChecksumAlgorithm::Off;
        EventFormat { server_version, post_header_sizes, checksum, flavour: Flavour::MySql }
    }

    fn bytes(event: &Event<'_>) -> Vec<u8> {
        let origin = EventOrigin { timestamp: 1, server_id: 1, flags: EventFlags(0) };
        let mut out = Vec::new();
        event.write(origin, NextPosition::Fixed(0), &format(), &mut out).unwrap();
        out
    }

    struct KeysFixture {
        keys: TransactionKeys,
        tables: [SampleTable; 2],
        definition: TargetTableDefinition,
    }

    impl KeysFixture {
        /// Table `a` has a definition, `b` has none.
        fn new() -> Self {
            let sample = SampleTable::new("int int");
            let name = TargetTableName { database: b"d".as_slice().into(), table: b"a".as_slice().into() };
            Self {
                keys: TransactionKeys::new(Flavour::MySql),
                tables: [sample.named("a", 1), sample.named("b", 2)],
                definition: TargetTableDefinition { name, ..definition("0") },
            }
        }

        fn map(&self, table: usize) -> Vec<u8> {
            bytes(&Event::TableMap(self.tables[table].map()))
        }

        fn insert(&self, table: usize, key: i32) -> Vec<u8> {
            bytes(&Event::WriteRows(self.tables[table].rows(RowsKind::Write, &image(&[int(key), int(0)]))))
        }

        fn read(&mut self, events: &[Vec<u8>]) -> ChangedKeys {
            let raws: Vec<RawEvent<'_>> =
                events.iter().map(|event| RawEvent::new(event, EventChecksum::Absent).unwrap()).collect();
            let mut keys = ChangedKeys::Known(KeySet::default());
            let definition = &self.definition;
            let define = |map: &binlog::events::TableMap<'_>| (map.table == b"a").then_some(definition);
            self.keys.read(&raws, &format(), &define, &mut keys).unwrap();
            keys
        }

        /// Returns the numbers of exclusive and shared keys.
        fn count(&mut self, events: &[Vec<u8>]) -> Option<(usize, usize)> {
            match self.read(events) {
                ChangedKeys::Known(keys) => Some((keys.exclusive.len(), keys.shared.len())),
                ChangedKeys::Unknown => None,
            }
        }
    }

    #[test]
    fn keys_of_all_rows_are_found() {
        let mut world = KeysFixture::new();
        let (a, b) = (world.map(0), world.map(1));
        let xid = bytes(&Event::Xid(Xid { xid: 1 }));
        assert_eq!(
            world.count(&[a.clone(), world.insert(0, 1), world.insert(0, 2), xid.clone()]),
            Some((2, 1))
        );
        assert_eq!(world.count(&[b.clone(), world.insert(1, 1), xid.clone()]), Some((1, 1)));
        assert_eq!(world.count(&[a.clone(), b, world.insert(0, 1), world.insert(1, 1), xid]), Some((2, 2)));
        assert_eq!(world.count(&[]), Some((0, 0)));
        // Definitions change, and must be read again.
        let before = world.read(&[a.clone(), world.insert(0, 1)]);
        world.definition.primary_key = None;
        assert_eq!(world.read(&[a.clone(), world.insert(0, 1)]), before);
        world.keys.forget();
        assert_ne!(world.read(&[a, world.insert(0, 1)]), before);
    }

    #[test]
    fn keys_of_other_events_are_unknown() {
        let mut world = KeysFixture::new();
        let statement = bytes(&Event::Intvar(Intvar { kind: IntvarKind::InsertId, value: 1 }));
        assert_eq!(world.count(&[world.map(0), world.insert(0, 1), statement]), None);
        // After `forget`, each transaction needs a table map.
        assert_eq!(world.count(&[world.map(0), world.insert(0, 1)]), Some((1, 1)));
        world.keys.forget();
        assert_eq!(world.count(&[world.insert(0, 1)]), None);
        let end = Rows {
            column_count: 0,
            columns: binlog::events::ColumnSet { bits: &[] },
            table_id: 99,
            ..world.tables[0].rows(RowsKind::Write, &[])
        };
        assert!(end.flags.contains(RowsFlags::STATEMENT_END));
        assert_eq!(world.count(&[bytes(&Event::WriteRows(end))]), Some((0, 0)));
        let many: Vec<Vec<u8>> = (0..5)
            .map(|_| {
                let rows = image(&[int(1), int(0)]).repeat(1 << 18);
                bytes(&Event::WriteRows(world.tables[0].rows(RowsKind::Write, &rows)))
            })
            .collect();
        assert_eq!(world.count(&[vec![world.map(0)], many].concat()), None);
    }
}
