//! Filtering of whole transactions by database and table.

mod named;

use std::collections::HashSet;
use std::sync::Arc;

use binlog::events::{RowsFlags, TableMap};
use binlog::{EncodeError, Event, Format, NextPosition, RawEvent};
use filter::{Filter, Kind, kind};

use crate::spooled::{SpooledRows, Spooler, end_statement};
use crate::work::{RowEvents, Shape, Statement, Step, Work, WorkError};

/// Removes from transactions the statements and row events that a filter excludes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filtering<'f>(pub(crate) &'f Filter);

impl Filtering<'_> {
    /// Returns the rest of a transaction, under the rewritten database names. If the filter excludes all of it, the
    /// result changes nothing and counts as applied.
    ///
    /// # Errors
    ///
    /// When its row events cannot be decoded.
    pub(crate) fn apply(self, work: Work) -> Result<Work, WorkError> {
        if self.0.is_empty() {
            return Ok(work);
        }
        let mut steps = Vec::with_capacity(work.steps.len());
        for step in work.steps {
            match step {
                Step::Statement(statement) => steps.extend(self.statement(statement).map(Step::Statement)),
                Step::Spooled(context, rows) => {
                    let left = self.spooled(&rows)?;
                    if left.parts().next().is_some() {
                        steps.push(Step::Spooled(context, left));
                    }
                }
                Step::Rows(context, rows) => {
                    let bytes = self.rows(&rows)?;
                    if !bytes.is_empty() {
                        steps
                            .push(Step::Rows(context, RowEvents { format: Arc::clone(&rows.format), bytes }));
                    }
                }
            }
        }
        let shape = match work.shape {
            Shape::Alone { .. } if steps.is_empty() => Shape::Rows,
            Shape::Alone { databases } => Shape::Alone { databases: self.both_names(databases) },
            Shape::Statements if steps.is_empty() => Shape::Rows,
            shape => shape,
        };
        Ok(Work { shape, steps, session: work.session })
    }

    /// Returns the databases under old and new names: a statement may use the old one.
    fn both_names(self, databases: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = databases
            .iter()
            .map(|name| self.0.rewritten(name).to_vec())
            .chain(databases.iter().cloned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn statement(self, mut statement: Box<Statement>) -> Option<Box<Statement>> {
        let default = self.0.rewritten(&statement.default_database).to_vec();
        let kind = kind(&statement.sql);
        let is_meant = is_savepoint(&statement.sql) || self.0.takes_statement(&kind, &default);
        if let (Kind::DropsTrigger(Some(at)), true) = (kind, self.0.has_table_rules()) {
            // The trigger's table may be excluded: then the trigger does not exist.
            statement.sql.splice(at..at, *b" IF EXISTS");
        }
        if !statement.database.is_empty() {
            statement.database = self.0.rewritten(&statement.database).to_vec();
        }
        statement.default_database = default;
        is_meant.then_some(statement)
    }

    /// Filters row events of a file; the rest goes to another file.
    fn spooled(self, rows: &SpooledRows) -> Result<SpooledRows, WorkError> {
        let mut spooler = Spooler::new(rows.format())?;
        for part in rows.parts() {
            let part = part?;
            let left = RowEvents { format: Arc::clone(&part.format), bytes: self.rows(&part)? };
            for raw in left.events() {
                spooler.push(&raw)?;
            }
        }
        Ok(spooler.finish()?)
    }

    /// Returns the row events that the filter keeps.
    fn rows(self, rows: &RowEvents) -> Result<Vec<u8>, WorkError> {
        let mut left = Left {
            filter: self.0,
            format: &rows.format,
            out: Vec::new(),
            dropped: HashSet::new(),
            last: None,
        };
        for raw in rows.events() {
            left.take(&raw)?;
        }
        Ok(left.out)
    }
}

/// Savepoints belong to the transaction itself: no filter applies to them.
fn is_savepoint(sql: &[u8]) -> bool {
    use binlog::Verb;
    matches!(Verb::of(sql), Verb::Savepoint | Verb::RollbackTo)
}

/// Row events that the filter keeps, as they are collected.
struct Left<'f> {
    filter: &'f Filter,
    format: &'f Format,
    out: Vec<u8>,
    /// Numbers of the open statement's excluded tables.
    dropped: HashSet<u64>,
    /// Offset in `out` of the open statement's last rows event.
    last: Option<usize>,
}

impl Left<'_> {
    fn take(&mut self, raw: &RawEvent<'_>) -> Result<(), WorkError> {
        let event = raw.decode(self.format)?;
        if let Event::TableMap(map) = &event {
            return self.map(raw, map);
        }
        let Some(rows) = event.rows() else {
            self.out.extend_from_slice(raw.bytes());
            return Ok(());
        };
        let ends = rows.flags.contains(RowsFlags::STATEMENT_END);
        if !self.dropped.contains(&rows.table_id) {
            self.last = Some(self.out.len());
            self.out.extend_from_slice(raw.bytes());
        } else if let (true, Some(last)) = (ends, self.last) {
            end_statement(&mut self.out[last..], self.format);
        }
        if ends {
            self.dropped.clear();
            self.last = None;
        }
        Ok(())
    }

    fn map(&mut self, raw: &RawEvent<'_>, map: &TableMap<'_>) -> Result<(), WorkError> {
        let database = self.filter.rewritten(map.database);
        if !self.filter.takes_database(database) || !self.filter.takes_tables([(database, map.table)]) {
            self.dropped.insert(map.table_id);
            return Ok(());
        }
        self.dropped.remove(&map.table_id);
        if database == map.database {
            self.out.extend_from_slice(raw.bytes());
            return Ok(());
        }
        let event = Event::TableMap(TableMap { database, ..*map });
        let written = event.write(raw.header().origin(), NextPosition::Is(0), self.format, &mut self.out);
        written.map_err(|error: EncodeError| WorkError::Encode(error))
    }
}

#[cfg(test)]
mod tests;
