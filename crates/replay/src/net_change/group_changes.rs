//! Row changes of a commit group: the net change where it has provably the same result, otherwise the changes as
//! logged.

use binlog::events::{Rows, RowsFlags, TableMap};
use binlog::{
    DecodeError, EncodeError, Event, EventFormat, EventRole, EventType, Flavour, NextPosition, RawEvent,
};
use hashbrown::HashSet;

use super::{FoldRefusal, NetChangeError, NetChanges, NetRows, NetRowsForm};
use crate::target_table_definition::TargetTableDefinition;

/// Row changes of the transactions in a commit group.
///
/// Folds changes of foldable tables. Keeps events of other tables unchanged, to be applied first. If a single event
/// cannot be folded, writes all changes folded so far, and then the event's transaction unchanged.
#[derive(Debug)]
pub struct GroupChanges {
    net: NetChanges,
    form: NetRowsForm,
    /// Events to apply before the folded changes, in this order.
    events: Vec<u8>,
    report: ChangesReport,
}

/// Result for the transactions taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangesReport {
    /// Rows of the net change.
    pub net: NetRows,
    /// Rows events that were not folded.
    pub plain_events: u64,
    /// Transactions with a row that could not be folded.
    pub plain_transactions: u64,
    /// Reason why the last of these transactions could not be folded.
    pub refusal: Option<FoldRefusal>,
}

/// Reason why no part of a transaction was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupChangesError {
    /// The transaction does more than change rows.
    #[error("a transaction with row changes also has an event of type {}", .0.name())]
    NotRows(EventType),
    /// An event cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An event cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Reason why a transaction was not folded.
enum FoldError {
    Refused(FoldRefusal),
    Failed(GroupChangesError),
}

impl<E: Into<GroupChangesError>> From<E> for FoldError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl GroupChanges {
    /// Creates an empty set of changes for logs of this flavour. `form` is the form of the written events.
    pub fn new(flavour: Flavour, form: NetRowsForm) -> Self {
        Self { net: NetChanges::new(flavour), form, events: Vec::new(), report: ChangesReport::default() }
    }

    /// Returns the bytes in memory.
    pub fn size(&self) -> usize {
        self.net.size() + self.events.len()
    }

    /// Takes a transaction that only changes rows. `events` are all its events, from a log of this format or from a
    /// payload. `define` returns a table by its name in the log.
    ///
    /// # Errors
    ///
    /// Fails if an event is of another type or cannot be decoded. No part of the transaction is taken then.
    pub fn take<'d>(
        &mut self,
        events: &[RawEvent<'_>],
        format: &EventFormat,
        define: &dyn Fn(&TableMap<'_>) -> Option<&'d TargetTableDefinition>,
    ) -> Result<(), GroupChangesError> {
        for raw in events {
            has_rows(raw, format)?;
        }
        let mut refused = None;
        // The first attempt folds into the present changes. The second starts a new net change after them.
        for _ in 0..2 {
            let start = (self.events.len(), self.report);
            let unfolded = match self.fold(events, format, define) {
                Ok(()) => {
                    self.net.commit_transaction();
                    return Ok(());
                }
                Err(unfolded) => unfolded,
            };
            self.net.undo();
            assert!(start.0 <= self.events.len(), "ours: a failed attempt only adds events");
            self.events.truncate(start.0);
            self.report = start.1;
            match unfolded {
                FoldError::Failed(error) => return Err(error),
                FoldError::Refused(refusal) => refused = Some(refusal),
            }
            self.flush()?;
        }
        assert!(refused.is_some(), "ours: a transaction is left unfolded for a reason");
        self.report.plain_transactions += 1;
        self.report.refusal = refused;
        self.take_unfolded(events, format)
    }

    /// Appends all events to apply, in this order, and empties the set. Each statement's last rows event ends it.
    ///
    /// # Errors
    ///
    /// Fails if an event cannot be encoded.
    pub fn write(&mut self, out: &mut Vec<u8>) -> Result<ChangesReport, EncodeError> {
        self.flush()?;
        out.append(&mut self.events);
        Ok(std::mem::take(&mut self.report))
    }

    /// Moves the folded changes after the finished events.
    fn flush(&mut self) -> Result<(), EncodeError> {
        let rows = self.net.write(&self.form, &mut self.events)?;
        self.report.net.add(rows);
        self.net.clear();
        assert_eq!(self.net.size(), 0, "ours: changes that are written are written once");
        Ok(())
    }

    fn fold<'d>(
        &mut self,
        events: &[RawEvent<'_>],
        format: &EventFormat,
        define: &dyn Fn(&TableMap<'_>) -> Option<&'d TargetTableDefinition>,
    ) -> Result<(), FoldError> {
        let mut statement = StatementMode::default();
        let mut plain = HashSet::new();
        for raw in events {
            if !has_rows(raw, format)? {
                continue;
            }
            match raw.decode(format)? {
                Event::TableMap(map) => self.map(raw, &map, define(&map), &mut plain)?,
                event => match event.rows() {
                    Some(rows) => self.rows(raw, rows, &plain, &mut statement)?,
                    None => return Err(GroupChangesError::NotRows(raw.event_type()).into()),
                },
            }
        }
        Ok(())
    }

    fn map(
        &mut self,
        raw: &RawEvent<'_>,
        map: &TableMap<'_>,
        definition: Option<&TargetTableDefinition>,
        plain: &mut HashSet<u64>,
    ) -> Result<(), FoldError> {
        match self.net.add_map(map, definition) {
            Ok(()) => drop(plain.remove(&map.table_id)),
            Err(NetChangeError::Decode(error)) => return Err(error.into()),
            Err(NetChangeError::Refused(refusal)) if refusal.is_of_table() => {
                plain.insert(map.table_id);
                self.put(raw)?;
            }
            Err(NetChangeError::Refused(refusal)) => return Err(FoldError::Refused(refusal)),
        }
        Ok(())
    }

    fn rows(
        &mut self,
        raw: &RawEvent<'_>,
        rows: &Rows<'_>,
        plain: &HashSet<u64>,
        statement: &mut StatementMode,
    ) -> Result<(), FoldError> {
        let ends = rows.flags.contains(RowsFlags::STATEMENT_END);
        let mode = match rows.column_count {
            // An event without rows only ends the statement: folded or not, like its rows.
            0 => *statement,
            _ if plain.contains(&rows.table_id) => StatementMode::Plain,
            _ => StatementMode::Folded,
        };
        if *statement != StatementMode::Empty && *statement != mode {
            return Err(FoldError::Refused(FoldRefusal::Mixed));
        }
        *statement = if ends { StatementMode::Empty } else { mode };
        match mode {
            StatementMode::Empty => Ok(()),
            StatementMode::Plain => {
                self.report.plain_events += 1;
                Ok(self.put(raw)?)
            }
            StatementMode::Folded => match self.net.rows(rows) {
                Ok(()) => Ok(()),
                Err(NetChangeError::Decode(error)) => Err(error.into()),
                Err(NetChangeError::Refused(refusal)) => Err(FoldError::Refused(refusal)),
            },
        }
    }

    /// Takes the events without folding them.
    fn take_unfolded(
        &mut self,
        events: &[RawEvent<'_>],
        format: &EventFormat,
    ) -> Result<(), GroupChangesError> {
        for raw in events {
            if has_rows(raw, format)? {
                self.report.plain_events += u64::from(raw.event_type() != EventType::TableMap);
                self.put(raw)?;
            }
        }
        Ok(())
    }

    /// Appends an event to the finished ones; only its position changes.
    fn put(&mut self, raw: &RawEvent<'_>) -> Result<(), EncodeError> {
        let checksum = self.form.format.checksum.for_events();
        raw.rewrite(raw.header().origin(), NextPosition::Fixed(0), checksum, &mut self.events)
    }
}

/// Treatment of the open statement's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StatementMode {
    /// No rows yet.
    #[default]
    Empty,
    Plain,
    Folded,
}

/// Returns whether the event is a table map or a rows event. Fails for events other than these and the frame of a
/// transaction.
fn has_rows(raw: &RawEvent<'_>, format: &EventFormat) -> Result<bool, GroupChangesError> {
    match EventRole::of(raw, format)? {
        EventRole::Rows | EventRole::RowsEnd => Ok(true),
        EventRole::RowsBegin => Ok(raw.event_type() == EventType::TableMap),
        EventRole::Aside
        | EventRole::Gtid
        | EventRole::GtidAndBegin
        | EventRole::Begin
        | EventRole::Commit => Ok(false),
        _ => Err(GroupChangesError::NotRows(raw.event_type())),
    }
}

impl NetRows {
    fn add(&mut self, more: Self) {
        self.deleted += more.deleted;
        self.updated += more.updated;
        self.inserted += more.inserted;
        self.counted += more.counted;
    }
}
