//! What a commit group does to the target's rows: the net change where that is provably the same, else all changes
//! as they are, in an order that comes to the same.

use binlog::events::{Rows, RowsFlags, TableMap};
use binlog::{DecodeError, EncodeError, Event, EventType, Flavour, Format, NextPosition, RawEvent, Role};
use hashbrown::HashSet;

use super::{Net, NetError, NetForm, NetRows, Refusal};
use crate::definition::Definition;

/// The rows that the transactions of a commit group change.
///
/// Tables whose rows can be folded are folded; events of other tables stay as they are, in front. When an event
/// cannot be folded for reasons of its own, what was folded before is done first, and then its transaction as it is.
#[derive(Debug)]
pub struct Changes {
    net: Net,
    form: NetForm,
    /// Events to be applied, in this order, before what is folded.
    done: Vec<u8>,
    report: ChangesReport,
}

/// What became of the transactions taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangesReport {
    /// Rows left to be changed of those that were folded.
    pub net: NetRows,
    /// Rows events left as they were.
    pub plain_events: u64,
    /// Transactions that could not be folded for reasons of their own.
    pub plain_transactions: u64,
    /// Why the last of them could not.
    pub refusal: Option<Refusal>,
}

/// Why a transaction was not taken: nothing of it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangesError {
    /// It does more than change rows.
    #[error("a transaction that changes rows has an event of type {}", .0.name())]
    NotRows(EventType),
    /// An event cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An event cannot be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Why a transaction was not folded.
enum Unfolded {
    Refused(Refusal),
    Failed(ChangesError),
}

impl<E: Into<ChangesError>> From<E> for Unfolded {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Changes {
    /// None yet, from logs of this flavour, to be written in this form.
    pub fn new(flavour: Flavour, form: NetForm) -> Self {
        Self { net: Net::new(flavour), form, done: Vec::new(), report: ChangesReport::default() }
    }

    /// How many bytes they take.
    pub fn size(&self) -> usize {
        self.net.size() + self.done.len()
    }

    /// Takes a transaction that only changes rows: all its events, as they are in a log of this format, or inside a
    /// payload. `define` finds a table by its name in the log.
    ///
    /// # Errors
    ///
    /// When one of its events is something else, or cannot be read; nothing of it is taken then.
    pub fn take<'d>(
        &mut self,
        events: &[RawEvent<'_>],
        format: &Format,
        define: &dyn Fn(&TableMap<'_>) -> Option<&'d Definition>,
    ) -> Result<(), ChangesError> {
        for raw in events {
            has_rows(raw, format)?;
        }
        let mut refused = None;
        // Once beside what is there, and once behind it.
        for _ in 0..2 {
            let start = (self.done.len(), self.report);
            let unfolded = match self.fold(events, format, define) {
                Ok(()) => {
                    self.net.keep();
                    return Ok(());
                }
                Err(unfolded) => unfolded,
            };
            self.net.undo();
            self.done.truncate(start.0);
            self.report = start.1;
            match unfolded {
                Unfolded::Failed(error) => return Err(error),
                Unfolded::Refused(refusal) => refused = Some(refusal),
            }
            self.flush()?;
        }
        self.report.plain_transactions += 1;
        self.report.refusal = refused;
        self.as_they_are(events, format)
    }

    /// Appends all events to be applied, in this order, and starts anew. Each statement's last rows event ends it.
    ///
    /// # Errors
    ///
    /// When an event cannot be encoded.
    pub fn write(&mut self, out: &mut Vec<u8>) -> Result<ChangesReport, EncodeError> {
        self.flush()?;
        out.append(&mut self.done);
        Ok(std::mem::take(&mut self.report))
    }

    /// Puts what is folded behind what is done.
    fn flush(&mut self) -> Result<(), EncodeError> {
        let rows = self.net.write(&self.form, &mut self.done)?;
        self.report.net.add(rows);
        self.net.clear();
        Ok(())
    }

    fn fold<'d>(
        &mut self,
        events: &[RawEvent<'_>],
        format: &Format,
        define: &dyn Fn(&TableMap<'_>) -> Option<&'d Definition>,
    ) -> Result<(), Unfolded> {
        let mut statement = Statement::default();
        let mut plain = HashSet::new();
        for raw in events {
            if !has_rows(raw, format)? {
                continue;
            }
            match raw.decode(format)? {
                Event::TableMap(map) => self.map(raw, &map, define(&map), &mut plain)?,
                event => match event.rows() {
                    Some(rows) => self.rows(raw, rows, &plain, &mut statement)?,
                    None => return Err(ChangesError::NotRows(raw.event_type()).into()),
                },
            }
        }
        Ok(())
    }

    fn map(
        &mut self,
        raw: &RawEvent<'_>,
        map: &TableMap<'_>,
        definition: Option<&Definition>,
        plain: &mut HashSet<u64>,
    ) -> Result<(), Unfolded> {
        match self.net.map(map, definition) {
            Ok(()) => drop(plain.remove(&map.table_id)),
            Err(NetError::Decode(error)) => return Err(error.into()),
            Err(NetError::Refused(refusal)) if refusal.is_of_table() => {
                plain.insert(map.table_id);
                self.put(raw)?;
            }
            Err(NetError::Refused(refusal)) => return Err(Unfolded::Refused(refusal)),
        }
        Ok(())
    }

    fn rows(
        &mut self,
        raw: &RawEvent<'_>,
        rows: &Rows<'_>,
        plain: &HashSet<u64>,
        statement: &mut Statement,
    ) -> Result<(), Unfolded> {
        let ends = rows.flags.contains(RowsFlags::STATEMENT_END);
        let way = match rows.column_count {
            // It does nothing but end a statement, in whatever way that went.
            0 => *statement,
            _ if plain.contains(&rows.table_id) => Statement::Plain,
            _ => Statement::Folded,
        };
        if *statement != Statement::Empty && *statement != way {
            return Err(Unfolded::Refused(Refusal::Mixed));
        }
        *statement = if ends { Statement::Empty } else { way };
        match way {
            Statement::Empty => Ok(()),
            Statement::Plain => {
                self.report.plain_events += 1;
                Ok(self.put(raw)?)
            }
            Statement::Folded => match self.net.rows(rows) {
                Ok(()) => Ok(()),
                Err(NetError::Decode(error)) => Err(error.into()),
                Err(NetError::Refused(refusal)) => Err(Unfolded::Refused(refusal)),
            },
        }
    }

    /// Takes the events as they are.
    fn as_they_are(&mut self, events: &[RawEvent<'_>], format: &Format) -> Result<(), ChangesError> {
        for raw in events {
            if has_rows(raw, format)? {
                self.report.plain_events += u64::from(raw.event_type() != EventType::TableMap);
                self.put(raw)?;
            }
        }
        Ok(())
    }

    /// Puts an event behind what is done, as it is but for its place.
    fn put(&mut self, raw: &RawEvent<'_>) -> Result<(), EncodeError> {
        let checksum = self.form.format.checksum.for_events();
        raw.rewrite(raw.header().origin(), NextPosition::Is(0), checksum, &mut self.done)
    }
}

/// How the rows of the statement under way are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Statement {
    /// There are none yet.
    #[default]
    Empty,
    Plain,
    Folded,
}

/// Is it a table map or rows? Else it may only be something that frames a transaction of rows.
fn has_rows(raw: &RawEvent<'_>, format: &Format) -> Result<bool, ChangesError> {
    match Role::of(raw, format)? {
        Role::Rows | Role::RowsEnd => Ok(true),
        Role::RowsBegin => Ok(raw.event_type() == EventType::TableMap),
        Role::Aside | Role::Gtid | Role::GtidAndBegin | Role::Begin | Role::Commit => Ok(false),
        _ => Err(ChangesError::NotRows(raw.event_type())),
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
