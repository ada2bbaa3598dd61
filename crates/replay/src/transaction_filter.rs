//! Filtering of whole transactions by database and table.

use std::collections::HashSet;
use std::sync::Arc;

use binlog::events::{RowsFlags, TableMap};
use binlog::{EncodeError, Event, EventFormat, EventType, NextPosition, RawEvent};
use sql::{ReplicationFilter, StatementKind, UnmatchedRules, classify_statement};

use crate::apply_plan::{ApplyPlan, ApplyPlanError, ApplyStep, SourceStatement, TransactionShape};
use crate::row_events::RowEvents;
use crate::spooled_rows::{RowSpooler, SpooledRows};

/// Removes from transactions the statements and row events that a filter excludes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionFilter<'f>(pub(crate) &'f ReplicationFilter);

impl TransactionFilter<'_> {
    /// Returns the rest of a transaction, under the rewritten database names. If the filter excludes all of it, the
    /// result changes nothing and counts as applied.
    ///
    /// # Errors
    ///
    /// Fails if its row events cannot be decoded.
    pub(crate) fn apply(self, plan: ApplyPlan) -> Result<ApplyPlan, ApplyPlanError> {
        if self.0.is_empty() {
            return Ok(plan);
        }
        let mut steps = Vec::with_capacity(plan.steps.len());
        for step in plan.steps {
            match step {
                ApplyStep::Statement(statement) => steps.extend(
                    self.filter_statement(*statement).map(|left| ApplyStep::Statement(Box::new(left))),
                ),
                ApplyStep::SpooledStatements(statements) => {
                    steps.push(ApplyStep::SpooledStatements(statements.filtered(self.0)));
                }
                ApplyStep::Spooled(context, rows) => {
                    let left = self.filter_spooled(&rows)?;
                    if left.parts().next().is_some() {
                        steps.push(ApplyStep::Spooled(context, left));
                    }
                }
                ApplyStep::Rows(context, rows) => {
                    let bytes = self.filter_rows(&rows)?;
                    if !bytes.is_empty() {
                        steps.push(ApplyStep::Rows(
                            context,
                            RowEvents { format: Arc::clone(&rows.format), bytes },
                        ));
                    }
                }
            }
        }
        let shape = match plan.shape {
            TransactionShape::ImplicitCommit { .. } if steps.is_empty() => TransactionShape::Rows,
            TransactionShape::ImplicitCommit { databases } => {
                TransactionShape::ImplicitCommit { databases: self.old_and_new_names(databases) }
            }
            TransactionShape::Statements if steps.is_empty() => TransactionShape::Rows,
            shape => shape,
        };
        Ok(ApplyPlan { shape, steps, session: plan.session })
    }

    /// Records the names of all tables and databases of a transaction, excluded or not.
    pub(crate) fn note_names(self, plan: &ApplyPlan, unmatched: &mut UnmatchedRules) {
        for step in &plan.steps {
            match step {
                ApplyStep::Rows(_, rows) => self.note_tables_of_rows(rows, unmatched),
                // A file that cannot be read is reported when its rows are filtered.
                ApplyStep::Spooled(_, rows) => {
                    rows.parts().flatten().for_each(|part| self.note_tables_of_rows(&part, unmatched))
                }
                ApplyStep::Statement(statement) => self.note_tables_of_statement(statement, unmatched),
                ApplyStep::SpooledStatements(statements) => statements
                    .parts()
                    .flatten()
                    .flatten()
                    .for_each(|statement| self.note_tables_of_statement(&statement, unmatched)),
            }
        }
    }

    fn note_tables_of_statement(self, statement: &SourceStatement, unmatched: &mut UnmatchedRules) {
        let default = self.0.target_database(&statement.default_database);
        unmatched.record_statement(&statement.kind(), default);
    }

    fn note_tables_of_rows(self, rows: &RowEvents, unmatched: &mut UnmatchedRules) {
        for raw in rows.events().filter(|raw| raw.event_type() == EventType::TableMap) {
            if let Ok(Event::TableMap(map)) = raw.decode(&rows.format) {
                unmatched.record_table(self.0.target_database(map.database), map.table);
            }
        }
    }

    /// Returns the databases under old and new names: a statement may use the old name.
    fn old_and_new_names(self, databases: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = databases
            .iter()
            .map(|name| self.0.target_database(name).to_vec())
            .chain(databases.iter().cloned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns a statement under the rewritten database names; `None` if the filter excludes it.
    pub(crate) fn filter_statement(self, mut statement: SourceStatement) -> Option<SourceStatement> {
        let default = self.0.target_database(&statement.default_database).to_vec();
        let is_accepted =
            is_savepoint(&statement.sql) || self.0.accepts_statement(&statement.kind(), &default);
        // `DropTrigger` has an offset into the undecoded bytes, so classify these.
        if self.0.has_table_rules()
            && let StatementKind::DropTrigger(Some(at)) = classify_statement(&statement.sql)
        {
            // The filter may exclude the trigger's table; the trigger does not exist then.
            statement.sql.splice(at..at, *b" IF EXISTS");
        }
        if !statement.database.is_empty() {
            statement.database = self.0.target_database(&statement.database).to_vec();
        }
        statement.default_database = default;
        is_accepted.then_some(statement)
    }

    /// Filters row events of a file; the rest goes to another file.
    fn filter_spooled(self, rows: &SpooledRows) -> Result<SpooledRows, ApplyPlanError> {
        let mut spooler = RowSpooler::new(rows.format())?;
        for part in rows.parts() {
            let part = part?;
            let left = RowEvents { format: Arc::clone(&part.format), bytes: self.filter_rows(&part)? };
            for raw in left.events() {
                spooler.push(&raw)?;
            }
        }
        Ok(spooler.finish()?)
    }

    /// Returns the row events that the filter keeps.
    fn filter_rows(self, rows: &RowEvents) -> Result<Vec<u8>, ApplyPlanError> {
        let mut left = RowEventFilter {
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
    use binlog::TransactionVerb;
    matches!(TransactionVerb::of(sql), TransactionVerb::Savepoint | TransactionVerb::RollbackTo)
}

/// Collector of the row events that the filter keeps.
struct RowEventFilter<'f> {
    filter: &'f ReplicationFilter,
    format: &'f EventFormat,
    out: Vec<u8>,
    /// Numbers of the open statement's excluded tables.
    dropped: HashSet<u64>,
    /// Offset in `out` of the open statement's last rows event.
    last: Option<usize>,
}

impl RowEventFilter<'_> {
    fn take(&mut self, raw: &RawEvent<'_>) -> Result<(), ApplyPlanError> {
        let event = raw.decode(self.format)?;
        if let Event::TableMap(map) = &event {
            return self.map(raw, map);
        }
        let Some(rows) = event.rows() else {
            self.out.extend_from_slice(raw.bytes());
            return Ok(());
        };
        debug_assert!(
            self.last.is_none_or(|last| last < self.out.len()),
            "ours: the last event is in the output"
        );
        let ends = rows.flags.contains(RowsFlags::STATEMENT_END);
        if !self.dropped.contains(&rows.table_id) {
            self.last = Some(self.out.len());
            self.out.extend_from_slice(raw.bytes());
        } else if let (true, Some(last)) = (ends, self.last) {
            RowEvents::end_statement(&mut self.out[last..], self.format);
        }
        if ends {
            self.dropped.clear();
            self.last = None;
        }
        Ok(())
    }

    fn map(&mut self, raw: &RawEvent<'_>, map: &TableMap<'_>) -> Result<(), ApplyPlanError> {
        let database = self.filter.target_database(map.database);
        if !self.filter.accepts_database(database) || !self.filter.accepts_tables([(database, map.table)]) {
            self.dropped.insert(map.table_id);
            return Ok(());
        }
        self.dropped.remove(&map.table_id);
        if database == map.database {
            self.out.extend_from_slice(raw.bytes());
            return Ok(());
        }
        let event = Event::TableMap(TableMap { database, ..*map });
        let written = event.write(raw.header().origin(), NextPosition::Fixed(0), self.format, &mut self.out);
        written.map_err(|error: EncodeError| ApplyPlanError::Encode(error))
    }
}

#[cfg(test)]
mod tests;
