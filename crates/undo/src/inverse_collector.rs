//! Collector of the inverse of transactions, in the order of the log.

use std::io;
use std::path::Path;

use binlog::events::{Rows, RowsFlags, RowsKind, TableMap};
use binlog::{DecodeError, EncodeError, Event, EventFormat, EventOrigin, NextPosition, RawEvent, RowChange};

use crate::inverse_log::InverseLog;
use crate::inverse_refusal::InverseError;
use crate::inverted_rows::InvertedRows;
use crate::reverse_spool::ReverseSpool;
use crate::row_inverter::RowInverter;

/// Choice of the row changes to undo.
pub trait RowChoice {
    /// Returns whether rows of this table may be chosen.
    fn selects_table(&mut self, map: &TableMap<'_>) -> bool;

    /// Begins an event. Its rows follow, all of one table.
    fn begin_event(&mut self);

    /// Returns whether a row change is chosen.
    ///
    /// # Errors
    ///
    /// Fails if the row cannot be decoded.
    fn selects_row(&mut self, row: &RowChange<'_, '_>) -> Result<bool, DecodeError>;
}

/// Error of collecting an inverse.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// A change has no inverse, or cannot be decoded.
    #[error(transparent)]
    Inverse(#[from] InverseError),
    /// An event of the inverse cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The temporary file cannot be written.
    #[error("could not write to a temporary file: {0}")]
    Spool(#[from] io::Error),
}

impl From<DecodeError> for CollectError {
    fn from(error: DecodeError) -> Self {
        Self::Inverse(error.into())
    }
}

/// Row changes of an inverse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InverseCounts {
    /// Transactions with at least one chosen row change.
    pub transactions: u64,
    /// Inserted rows that the inverse deletes.
    pub deleted: u64,
    /// Updates that the inverse reverses.
    pub updated: u64,
    /// Deleted rows that the inverse inserts.
    pub inserted: u64,
}

/// Collector of the inverse of transactions, in the order of the log.
#[derive(Debug)]
pub struct InverseCollector {
    inverter: RowInverter,
    spool: ReverseSpool,
    /// Table maps of the open statement.
    maps: Vec<StatementMap>,
    /// True if the open statement has a chosen row change.
    has_chosen: bool,
    /// True if the server executes foreign key actions of the open statement: the server then needs all table maps.
    needs_all_maps: bool,
    /// `server_id` of the last event: the server on which the transaction originated.
    server_id: u32,
    /// Bytes of the open transaction's inverse, with checksums.
    size: u64,
    counts: InverseCounts,
}

/// Table map of the open statement.
#[derive(Debug)]
struct StatementMap {
    table_id: u64,
    event: Vec<u8>,
    is_selected: bool,
    /// True if the statement has a chosen row change of this table.
    is_needed: bool,
}

// Records in the spool:
// size  field
//    1  kind
//    *  events; of a transaction instead:
//    4  server on which it originated
//    8  size of its events in bytes, with checksums
//    *  its name
//
/// Kinds of records in the spool.
pub(crate) const TRANSACTION_RECORD: u8 = 0;
pub(crate) const ROWS_RECORD: u8 = 1;
pub(crate) const STATEMENT_RECORD: u8 = 2;
/// A statement whose foreign key actions are in the log.
pub(crate) const CASCADE_STATEMENT_RECORD: u8 = 3;

impl InverseCounts {
    fn add(&mut self, inverted: &InvertedRows) {
        *match inverted.kind {
            RowsKind::Write => &mut self.inserted,
            RowsKind::Delete => &mut self.deleted,
            RowsKind::Update | RowsKind::PartialUpdate => &mut self.updated,
        } += inverted.row_count;
    }
}

impl InverseCollector {
    /// Creates a collector. Beyond `memory_max` bytes, writes the inverse to an encrypted temporary file in
    /// `directory`.
    ///
    /// # Errors
    ///
    /// Fails if the system has no random bytes for the file's password.
    pub fn new(directory: &Path, memory_max: usize) -> io::Result<Self> {
        Ok(Self {
            inverter: RowInverter::new(),
            spool: ReverseSpool::new_in(directory, memory_max)?,
            maps: Vec::new(),
            has_chosen: false,
            needs_all_maps: false,
            server_id: 0,
            size: 0,
            counts: InverseCounts::default(),
        })
    }

    /// Adds a table map or rows event of the open transaction. `format` has no checksums.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be decoded or inverted, or the temporary file cannot be written.
    pub fn push(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        choice: &mut dyn RowChoice,
    ) -> Result<(), CollectError> {
        let event = raw.decode(format)?;
        if let Event::TableMap(map) = &event {
            self.inverter.register(map)?;
            self.maps.push(StatementMap {
                table_id: map.table_id,
                event: raw.bytes().to_vec(),
                is_selected: choice.selects_table(map),
                is_needed: false,
            });
        }
        let Some(rows) = event.rows() else { return Ok(()) };
        self.push_rows(rows, raw, format, choice)?;
        if rows.flags.contains(RowsFlags::STATEMENT_END) {
            self.end_statement()?;
        }
        Ok(())
    }

    /// Ends the open transaction. `name` is its GTID or position, for people.
    ///
    /// # Errors
    ///
    /// Fails if the temporary file cannot be written.
    pub fn end_transaction(&mut self, name: &str) -> Result<(), CollectError> {
        self.end_statement()?;
        let size = std::mem::take(&mut self.size);
        if size > 0 {
            self.counts.transactions += 1;
            let (server_id, size) = (self.server_id.to_le_bytes(), size.to_le_bytes());
            self.spool.push(&[&[TRANSACTION_RECORD][..], &server_id, &size, name.as_bytes()].concat())?;
        }
        Ok(())
    }

    /// Returns the row changes so far.
    pub const fn counts(&self) -> InverseCounts {
        self.counts
    }

    /// Returns the inverse of all transactions, the last transaction first.
    pub fn into_log(self) -> InverseLog {
        assert!(self.size == 0 && self.maps.is_empty(), "ours: each transaction is ended");
        InverseLog::new(self.spool.into_records())
    }

    fn push_rows(
        &mut self,
        rows: &Rows<'_>,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        choice: &mut dyn RowChoice,
    ) -> Result<(), CollectError> {
        let Some(map) = self.maps.iter_mut().find(|map| map.table_id == rows.table_id) else {
            // Servers write rows events without columns only to end a statement.
            return if rows.column_count == 0 {
                Ok(())
            } else {
                Err(DecodeError::unmapped_table(rows.table_id).into())
            };
        };
        if !map.is_selected {
            return Ok(());
        }
        choice.begin_event();
        let Some(mut inverted) = self.inverter.invert(rows, &mut |row| choice.selects_row(row))? else {
            return Ok(());
        };
        map.is_needed = true;
        self.needs_all_maps |= inverted.flags.contains(RowsFlags::USE_SQL_FOREIGN_KEY);
        self.counts.add(&inverted);
        // The first event of a statement is the last event of its inverse.
        if !std::mem::replace(&mut self.has_chosen, true) {
            inverted.flags.0 |= RowsFlags::STATEMENT_END.0;
        }
        self.server_id = raw.header().server_id;
        let origin = EventOrigin { timestamp: 0, ..raw.header().origin() };
        let mut record = vec![ROWS_RECORD];
        inverted.event(format).write(origin, NextPosition::Fixed(0), format, &mut record)?;
        self.put_events(&record, 1)
    }

    /// Appends the table maps of the open statement after its rows: records are read back in reverse order.
    fn end_statement(&mut self) -> Result<(), CollectError> {
        let maps = std::mem::take(&mut self.maps);
        let needs_all = std::mem::take(&mut self.needs_all_maps);
        if !std::mem::take(&mut self.has_chosen) {
            return Ok(());
        }
        let has_cascades = needs_all && maps.iter().filter(|map| map.is_needed).count() > 1;
        let mut record = vec![if has_cascades { CASCADE_STATEMENT_RECORD } else { STATEMENT_RECORD }];
        let mut count = 0;
        for map in maps.iter().filter(|map| map.is_needed || needs_all) {
            record.extend_from_slice(&map.event);
            count += 1;
        }
        self.put_events(&record, count)
    }

    fn put_events(&mut self, record: &[u8], count: usize) -> Result<(), CollectError> {
        const CHECKSUM_SIZE: usize = 4;
        self.size += (record.len() - 1 + count * CHECKSUM_SIZE) as u64;
        Ok(self.spool.push(record)?)
    }
}
