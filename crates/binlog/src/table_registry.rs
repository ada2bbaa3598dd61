//! Tables of the current log, by their numbers.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::DecodeError;
use crate::events::{Rows, TableMap};
use crate::row::RowDecoder;
use crate::table::Table;

/// Number of tables that are always kept; up to twice as many may be kept. Bounds memory: table numbers are never
/// reused, so a long log has any number of them. One statement has only the tables that it names.
const TABLES_KEPT: usize = 4096;

/// Keeps table maps and their row decoders, to find the table of each rows event.
///
/// Servers repeat the map for every statement. An unchanged map costs only a comparison.
///
/// ```
/// # use bintide_binlog::{DecodeError, Event, TableRegistry};
/// # fn show(tables: &mut TableRegistry, event: &Event<'_>) -> Result<(), DecodeError> {
/// match event {
///     Event::TableMap(map) => drop(tables.register(map)?),
///     Event::WriteRows(rows) => {
///         for row in tables.decoder(rows)?.rows(rows) {
///             println!("{:?}", row?.after);
///         }
///     }
///     _ => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct TableRegistry {
    /// Tables used since `older` was last replaced.
    newer: HashMap<u64, KnownTable>,
    /// Tables not used since then.
    older: HashMap<u64, KnownTable>,
}

#[derive(Clone, Debug)]
struct KnownTable {
    table: Arc<Table>,
    /// Bytes of the map that the table does not hold, concatenated.
    written: Box<[u8]>,
    /// Size of the columns' metadata in these bytes.
    metadata_size: usize,
    /// Decoders by kind of event and column sets.
    decoders: Vec<Arc<RowDecoder>>,
}

/// Maximum number of decoders per table. MINIMAL images have a column set for each set of columns that a statement
/// changes.
const DECODERS_MAX: usize = 32;

impl TableRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a table map for the rows events that follow with its number.
    ///
    /// # Errors
    ///
    /// Fails if the map is invalid. The number then refers to no table.
    pub fn register(&mut self, map: &TableMap<'_>) -> Result<Arc<Table>, DecodeError> {
        if let Some(known) = self.known(map.table_id).filter(|known| known.matches(map)) {
            return Ok(Arc::clone(&known.table));
        }
        // The rows of an invalid map must not be decoded with an older map.
        self.newer.remove(&map.table_id);
        let table = Arc::new(Table::new(map)?);
        let written = map_parts(map).concat().into();
        let metadata_size = map.metadata.len();
        let known = KnownTable { table: Arc::clone(&table), written, metadata_size, decoders: Vec::new() };
        self.keep(map.table_id, known);
        Ok(table)
    }

    /// Returns the table with this number.
    pub fn table(&mut self, table_id: u64) -> Option<Arc<Table>> {
        self.known(table_id).map(|known| Arc::clone(&known.table))
    }

    /// Returns the decoder for the event's rows. Events without columns, which servers write only to end a statement,
    /// need no table.
    ///
    /// # Errors
    ///
    /// Fails if there is no map with the event's number, or if the event does not match the map.
    pub fn decoder(&mut self, rows: &Rows<'_>) -> Result<Arc<RowDecoder>, DecodeError> {
        let Some(known) = self.known(rows.table_id) else {
            return match rows.column_count {
                0 => Ok(Arc::new(RowDecoder::new(Arc::new(Table::nameless(rows.table_id)), rows)?)),
                _ => Err(DecodeError::unmapped_table(rows.table_id)),
            };
        };
        if let Some(decoder) = known.decoders.iter().find(|decoder| decoder.fits(rows)) {
            return Ok(Arc::clone(decoder));
        }
        let decoder = Arc::new(RowDecoder::new(Arc::clone(&known.table), rows)?);
        if known.decoders.len() == DECODERS_MAX {
            known.decoders.clear();
        }
        known.decoders.push(Arc::clone(&decoder));
        Ok(decoder)
    }

    fn known(&mut self, table_id: u64) -> Option<&mut KnownTable> {
        if !self.older.is_empty()
            && let Some(known) = self.older.remove(&table_id)
        {
            self.keep(table_id, known);
        }
        self.newer.get_mut(&table_id)
    }

    fn keep(&mut self, table_id: u64, known: KnownTable) {
        if self.newer.len() >= TABLES_KEPT {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(table_id, known);
    }
}

impl KnownTable {
    fn matches(&self, map: &TableMap<'_>) -> bool {
        let mut rest = &*self.written;
        let same = map_parts(map).iter().all(|part| match rest.strip_prefix(*part) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        });
        same && rest.is_empty()
            && self.metadata_size == map.metadata.len()
            && self.table.columns.len() == map.column_types.len()
            && self.table.flags == map.flags
            && *self.table.database == *map.database
            && *self.table.name == *map.table
    }
}

fn map_parts<'a>(map: &TableMap<'a>) -> [&'a [u8]; 4] {
    [map.column_types, map.metadata, map.nullable, map.optional]
}

#[cfg(test)]
mod tests {
    use super::{TABLES_KEPT, TableRegistry};
    use crate::error::{DecodeError, DecodeReason};
    use crate::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
    use crate::format::Flavour;

    fn map(table_id: u64, column_types: &'static [u8]) -> TableMap<'static> {
        TableMap {
            table_id,
            flags: 1,
            database: b"d",
            table: b"t",
            column_types,
            metadata: &[],
            nullable: &[0],
            optional: &[],
            flavour: Flavour::MySql,
        }
    }

    fn rows(table_id: u64, column_count: u64, rows: &'static [u8]) -> Rows<'static> {
        Rows {
            kind: RowsKind::Write,
            table_id,
            flags: RowsFlags::STATEMENT_END,
            extra: Some(&[]),
            column_count,
            columns: ColumnSet { bits: if column_count == 0 { &[] } else { &[0xff] } },
            columns_after: None,
            rows,
        }
    }

    fn check(tables: &mut TableRegistry, event: &Rows<'_>, expected: Result<u64, DecodeError>) {
        assert_eq!(tables.decoder(event).and_then(|decoder| decoder.count(event)), expected, "{event:?}");
    }

    #[test]
    fn numbers_reused_for_another_table() {
        let mut tables = TableRegistry::new();
        tables.register(&map(7, &[1])).unwrap();
        check(&mut tables, &rows(7, 1, &[0, 5, 0, 6]), Ok(2));
        tables.register(&map(7, &[1])).unwrap();
        check(&mut tables, &rows(7, 1, &[0, 5, 0, 6]), Ok(2));
        tables.register(&map(7, &[2])).unwrap();
        check(&mut tables, &rows(7, 1, &[0, 5, 5]), Ok(1));
        // VARCHAR without metadata: an invalid map.
        assert!(tables.register(&map(7, &[15])).is_err());
        check(&mut tables, &rows(7, 1, &[0, 5, 5]), Err(DecodeError::unmapped_table(7)));
    }

    #[test]
    fn event_that_only_ends_a_statement_needs_no_table() {
        check(&mut TableRegistry::new(), &rows(0xff_ffff, 0, &[]), Ok(0));
        let trailing = DecodeReason::Trailing { count: 1 };
        check(&mut TableRegistry::new(), &rows(0xff_ffff, 0, &[1]), Err(DecodeError::new(30, trailing)));
    }

    #[test]
    fn column_counts_must_equal_the_tables() {
        let mut tables = TableRegistry::new();
        tables.register(&map(7, &[1, 1])).unwrap();
        let differs = DecodeReason::Differs { field: "column count", found: 1, expected: 2 };
        check(&mut tables, &rows(7, 1, &[0, 5]), Err(DecodeError::new(29, differs)));
    }

    #[test]
    fn tables_in_use_are_kept_while_many_others_are_added() {
        let mut tables = TableRegistry::new();
        for table_id in 0..10 * TABLES_KEPT as u64 {
            tables.register(&map(table_id + 1, &[1])).unwrap();
            tables.register(&map(0, &[1])).unwrap();
            assert!(tables.newer.len() + tables.older.len() <= 2 * TABLES_KEPT + 1);
        }
        check(&mut tables, &rows(0, 1, &[0, 5]), Ok(1));
        assert!(tables.table(1).is_none());
    }
}
