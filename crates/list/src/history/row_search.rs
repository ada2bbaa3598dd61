//! Searches a log for changes of a row.

use std::sync::Arc;

use binlog::events::{Query, Rows};
use binlog::{DecodeError, Event, EventFormat, RowChange, RowDecoder, RowField, Table, TransactionId};
use logs::InnerPosition;

use super::history_gap::{HistoryGap, HistoryGaps};
use super::row_history::{HistoryChange, HistoryEntry, HistoryValue, RowKey};
use super::table_completion::{CompletedTable, TableCompletion};
use super::table_statement::SearchedTable;
use crate::event_context::EventContext;
use crate::json::rows::{field_changes_json, field_json};
use crate::list_output::ListOutput;
use crate::located_event::{ListedEvent, LocatedEvent, OutputRefusal};
use crate::row_condition::{
    ConditionCoverage, RowCondition, RowStates, RowTest, condition_of, has_column_names,
};

/// Conditions that identify a row at some time.
pub(super) type RowIdentity = Vec<RowCondition>;

/// Searches for changes of rows that have this identity before or after the change.
pub(super) struct RowSearch<'s> {
    pub(super) searched: SearchedTable<'s>,
    pub(super) completion: Option<&'s TableCompletion>,
    pub(super) sightings: &'s ConditionCoverage,
}

/// Position of a change in its log; positions increase from change to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChangePosition {
    position: u64,
    inner: Option<u64>,
    row: u64,
}

/// A change that was found.
pub(super) struct FoundChange {
    pub(super) position: ChangePosition,
    pub(super) entry: HistoryEntry,
    pub(super) states: RowStates,
    /// Identity of the row before the change. Uses the primary key if the log names it, otherwise the columns of the
    /// identity that was found.
    pub(super) before: Option<RowIdentity>,
    pub(super) after: Option<RowIdentity>,
    /// Key of the table.
    pub(super) key: RowKey,
    /// True if the conditions of the search name all columns of the primary key.
    pub(super) names_key: bool,
}

/// Finding of a search.
pub(super) enum SearchFinding {
    /// A change of a row with the identity.
    Change(Box<FoundChange>),
    /// Reasons why changes near this position may be missing.
    Gaps(ChangePosition, HistoryGaps),
}

impl SearchFinding {
    pub(super) const fn position(&self) -> ChangePosition {
        match self {
            Self::Change(change) => change.position,
            Self::Gaps(position, _) => *position,
        }
    }
}

/// State of a worker.
#[derive(Default)]
pub(super) struct SearchWorker<'s> {
    log_name: Arc<str>,
    /// The table of the rows before.
    prepared: Option<SearchTable<'s>>,
}

/// A table, prepared for the search.
struct SearchTable<'s> {
    table: Arc<Table>,
    searched: TableSearch<'s>,
}

/// Search in the rows of a table.
enum TableSearch<'s> {
    /// Another table than the searched one.
    OtherTable,
    /// The log has no column names, and the columns are not those of the completion.
    OtherColumns,
    Rows(Box<SearchedRows<'s>>),
}

/// Rows of the searched table.
struct SearchedRows<'s> {
    test: RowTest<'s>,
    key: KeyColumns,
    /// The table with its names, if the log lacks them.
    completed: Option<CompletedTable>,
}

/// A rows event of the searched table.
#[derive(Clone, Copy)]
struct RowsEvent<'e> {
    located: &'e LocatedEvent<'e>,
    rows: &'e Rows<'e>,
    table: &'e Table,
    decoder: &'e RowDecoder,
    log_name: &'e Arc<str>,
}

/// Columns that identify a row.
struct KeyColumns {
    columns: Vec<usize>,
    kind: RowKey,
    /// See [`FoundChange::names_key`].
    is_named: bool,
}

impl<'s> ListOutput for RowSearch<'s> {
    const NEEDS_ORIGIN: bool = true;

    type ListWorker = SearchWorker<'s>;
    type Part = Vec<SearchFinding>;

    fn worker(&self) -> SearchWorker<'s> {
        SearchWorker::default()
    }

    fn put(
        &self,
        worker: &mut SearchWorker<'s>,
        context: &mut EventContext,
        listed: ListedEvent<'_>,
        part: &mut Vec<SearchFinding>,
    ) -> Result<(), OutputRefusal> {
        let query = match listed.event {
            Event::TableMap(map) => {
                context.tables.map(map)?;
                return Ok(());
            }
            Event::Query(query) => query,
            Event::ExecuteLoadQuery(load) => &load.query,
            _ => return self.put_rows(worker, context, listed, part),
        };
        let flavour = listed.located.format.flavour;
        if self.searched.is_hidden_by(query, context.origin.sql_mode, flavour) {
            put_statement(worker, listed.located, query, part);
        }
        Ok(())
    }

    fn put_damaged(
        &self,
        _: &EventContext,
        _: &LocatedEvent<'_>,
        _: DecodeError,
        _: &mut Vec<SearchFinding>,
    ) {
        // A history ends at damage: its changes would be incomplete.
    }

    fn size(part: &Vec<SearchFinding>) -> usize {
        let size = |finding: &SearchFinding| match finding {
            SearchFinding::Change(found) => {
                FOUND_SIZE + found.entry.values.iter().map(HistoryValue::size).sum::<usize>()
            }
            SearchFinding::Gaps(..) => FOUND_SIZE,
        };
        part.iter().map(size).sum()
    }
}

/// Approximate size of a finding in memory without its values, in bytes.
const FOUND_SIZE: usize = 512;

impl<'s> RowSearch<'s> {
    /// Adds the changes of a rows event. Ignores other events.
    fn put_rows(
        &self,
        worker: &mut SearchWorker<'s>,
        context: &mut EventContext,
        ListedEvent { located, event }: ListedEvent<'_>,
        part: &mut Vec<SearchFinding>,
    ) -> Result<(), OutputRefusal> {
        let Some(rows) = event.rows() else { return Ok(()) };
        let (table, decoder) = context.tables.decoder(rows)?;
        let Some(table) = table else { return Ok(()) };
        let log_name = worker.log_name(located);
        let position = located.position;
        let searched = match &mut worker.prepared(&table, self)?.searched {
            TableSearch::Rows(searched) => &mut **searched,
            TableSearch::OtherTable => return Ok(()),
            TableSearch::OtherColumns => {
                let gap = HistoryGap::OtherColumns { log_name, position };
                add_gap(part, ChangePosition::new(located, 0), gap);
                return Ok(());
            }
        };
        if let Some(condition) = condition_of(self.searched.identity, searched.test.missing()) {
            let gap = HistoryGap::MissingColumn { condition: condition.clone(), log_name, position };
            add_gap(part, ChangePosition::new(located, 0), gap);
            return Ok(());
        }
        if !searched.test.may_pass(rows) {
            return Ok(());
        }
        let (table, decoder) = match &mut searched.completed {
            Some(completed) => (Arc::clone(&completed.table), completed.decoder(rows)?),
            None => (table, decoder),
        };
        let event = RowsEvent { located, rows, table: &table, decoder: &decoder, log_name: &log_name };
        self.put_changes(&event, searched, context, part)
    }

    /// Adds the changes of the searched row in a rows event of its table.
    fn put_changes(
        &self,
        event: &RowsEvent<'_>,
        searched: &SearchedRows<'_>,
        context: &EventContext,
        part: &mut Vec<SearchFinding>,
    ) -> Result<(), OutputRefusal> {
        let RowsEvent { located, rows, table, decoder, log_name } = *event;
        let SearchedRows { test, key, .. } = searched;
        for (number, row) in (0..).zip(decoder.rows(rows)) {
            let row = row?;
            let states = test.states(&row, located.format)?;
            let is_found = states.before || states.after;
            if !is_found && states.untested == 0 {
                continue;
            }
            let position = ChangePosition::new(located, number);
            let before = key.identity_of(&row, located.format, RowMoment::Before)?;
            // A found row is followed by its key, if the log has it.
            if (!is_found || before.is_none())
                && let Some(condition) = condition_of(self.searched.identity, states.untested)
            {
                add_gap(part, position, HistoryGap::UntestedRows(condition.clone()));
            }
            if !is_found {
                continue;
            }
            part.push(SearchFinding::Change(Box::new(FoundChange {
                position,
                before,
                after: key.identity_of(&row, located.format, RowMoment::After)?,
                key: key.kind,
                names_key: key.is_named,
                states,
                entry: HistoryEntry {
                    log_name: Arc::clone(log_name),
                    position: located.position,
                    id: context.id.unwrap_or(TransactionId::Unsaid),
                    origin: context.origin.clone(),
                    change: change_of(&row),
                    values: values(&row, table, located.format)?,
                },
            })));
        }
        Ok(())
    }
}

/// Adds a statement that can hide changes as a gap.
fn put_statement(
    worker: &mut SearchWorker<'_>,
    located: &LocatedEvent<'_>,
    query: &Query<'_>,
    part: &mut Vec<SearchFinding>,
) {
    let log_name = worker.log_name(located);
    let text = statement_line(&sql::query_text(query, located.format.flavour));
    let gap = HistoryGap::Statement { log_name, position: located.position, text };
    add_gap(part, ChangePosition::new(located, 0), gap);
}

/// Adds a gap to the gaps since the last change.
fn add_gap(part: &mut Vec<SearchFinding>, position: ChangePosition, gap: HistoryGap) {
    match part.last_mut() {
        Some(SearchFinding::Gaps(_, gaps)) => gaps.add(gap),
        _ => {
            let mut gaps = HistoryGaps::default();
            gaps.add(gap);
            part.push(SearchFinding::Gaps(position, gaps));
        }
    }
}

impl<'s> SearchWorker<'s> {
    fn log_name(&mut self, located: &LocatedEvent<'_>) -> Arc<str> {
        if *self.log_name != *located.log_name {
            self.log_name = located.log_name.into();
        }
        Arc::clone(&self.log_name)
    }

    fn prepared(
        &mut self,
        table: &Arc<Table>,
        search: &RowSearch<'s>,
    ) -> Result<&mut SearchTable<'s>, OutputRefusal> {
        let known = self.prepared.take().filter(|known| Arc::ptr_eq(&known.table, table));
        let prepared = match known {
            Some(known) => known,
            None => SearchTable { table: Arc::clone(table), searched: search.prepare(table)? },
        };
        Ok(self.prepared.insert(prepared))
    }
}

impl<'s> RowSearch<'s> {
    fn prepare(&self, table: &Table) -> Result<TableSearch<'s>, OutputRefusal> {
        let SearchedTable { database, table: name, identity, .. } = self.searched;
        if *table.database != *database || *table.name != *name {
            return Ok(TableSearch::OtherTable);
        }
        let completion = self.completion.filter(|_| !has_column_names(table));
        let completed = completion.and_then(|completion| completion.complete(table));
        let has_numbers = identity.iter().all(RowCondition::has_column_number);
        if completion.is_some() && completed.is_none() && !has_numbers {
            return Ok(TableSearch::OtherColumns);
        }
        let named = completed.as_ref().map_or(table, |completed| &completed.table);
        let test = RowTest::new(identity, named, self.sightings)?;
        let key = KeyColumns::new(named, identity)?;
        Ok(TableSearch::Rows(Box::new(SearchedRows { test, key, completed })))
    }
}

impl ChangePosition {
    fn new(located: &LocatedEvent<'_>, row: u64) -> Self {
        let inner = located.inner.map(|inner: InnerPosition| inner.number);
        Self { position: located.position, inner, row }
    }

    #[cfg(test)]
    pub(super) const fn at(position: u64) -> Self {
        Self { position, inner: None, row: 0 }
    }
}

/// Moment at which a row has an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowMoment {
    Before,
    After,
}

impl KeyColumns {
    fn new(table: &Table, identity: &[RowCondition]) -> Result<Self, OutputRefusal> {
        let mut named = Vec::new();
        for condition in identity {
            named.extend(condition.column_index(table)?);
        }
        match table.primary_key.as_deref() {
            Some(parts) if !parts.is_empty() => {
                let columns: Vec<usize> = parts.iter().map(|part| part.column).collect();
                let is_named = columns.iter().all(|column| named.contains(column));
                Ok(Self { columns, kind: RowKey::Primary, is_named })
            }
            // The log, or the server of --schema, states the primary key together with the names.
            _ if has_column_names(table) => {
                Ok(Self { columns: named, kind: RowKey::Missing, is_named: false })
            }
            _ => Ok(Self { columns: named, kind: RowKey::Unknown, is_named: false }),
        }
    }

    /// Returns the identity of a row; `None` if the log does not have all key columns.
    fn identity_of(
        &self,
        row: &RowChange<'_, '_>,
        format: &EventFormat,
        moment: RowMoment,
    ) -> Result<Option<RowIdentity>, DecodeError> {
        let (image, earlier) = match moment {
            RowMoment::Before => (&row.before, None),
            RowMoment::After => (&row.after, row.before.as_ref()),
        };
        let Some(image) = image else { return Ok(None) };
        let mut identity = Vec::new();
        for (part, column) in self.columns.iter().enumerate() {
            let old = || earlier?.field(*column);
            let Some(field) = image.field(*column).or_else(old) else { return Ok(None) };
            let condition = match self.kind {
                RowKey::Primary => RowCondition::of_key_part(part, &field, format)?,
                RowKey::Missing | RowKey::Unknown => RowCondition::of_field(&field, format)?,
            };
            let Some(condition) = condition else { return Ok(None) };
            identity.push(condition);
        }
        Ok(Some(identity))
    }
}

/// Returns the start of a statement's text, on one line.
fn statement_line(sql: &str) -> String {
    /// Number of characters that are kept.
    const LENGTH_MAX: usize = 120;
    // Only a part of the words is needed: a statement can be large.
    let words: Vec<&str> = sql.split_whitespace().take(LENGTH_MAX).collect();
    let line = words.join(" ");
    match line.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => line[..end].to_owned() + "…",
        None => line,
    }
}

const fn change_of(row: &RowChange<'_, '_>) -> HistoryChange {
    match (&row.before, &row.after) {
        (None, _) => HistoryChange::Insert,
        (Some(_), Some(_)) => HistoryChange::Update,
        (Some(_), None) => HistoryChange::Delete,
    }
}

/// Returns the values of a change; of an update, only the changed values.
fn values(
    row: &RowChange<'_, '_>,
    table: &Table,
    format: &EventFormat,
) -> Result<Vec<HistoryValue>, DecodeError> {
    let is_update = row.before.is_some() && row.after.is_some();
    let mut values = Vec::new();
    for (index, column) in table.columns.iter().enumerate() {
        let json = |field: &Option<RowField<'_, '_>>| -> Result<Option<String>, DecodeError> {
            let Some(field) = field else { return Ok(None) };
            Ok(field_json(field, row.before.as_ref(), format)?.map(json_text))
        };
        let old = row.before.as_ref().and_then(|image| image.field(index));
        let new = row.after.as_ref().and_then(|image| image.field(index));
        let (before, after) = (json(&old)?, json(&new)?);
        let changes = match (&after, &new) {
            (None, Some(new)) => field_changes_json(new)?.map(json_text),
            _ => None,
        };
        // A missing column in the image means that the column did not change.
        let is_unchanged = is_update && changes.is_none() && (after.is_none() || before == after);
        if is_unchanged || (before.is_none() && after.is_none() && changes.is_none()) {
            continue;
        }
        let name = column.name.as_deref().map(|name| String::from_utf8_lossy(name).into_owned());
        let column = name.unwrap_or_else(|| format!("@{}", index + 1));
        values.push(HistoryValue { column, before, after, changes });
    }
    Ok(values)
}

fn json_text(json: Vec<u8>) -> String {
    String::from_utf8_lossy(&json).into_owned()
}
