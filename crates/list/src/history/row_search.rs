//! Searches a log for changes of a row.

use std::sync::Arc;

use binlog::events::Rows;
use binlog::{DecodeError, Event, EventFormat, RowChange, Table, TransactionId};
use logs::InnerPosition;

use super::row_history::{HistoryChange, HistoryEntry, HistoryValue};
use crate::event_context::EventContext;
use crate::json::rows::field_json;
use crate::list_output::ListOutput;
use crate::located_event::{ListedEvent, LocatedEvent, OutputRefusal};
use crate::row_condition::{ColumnSightings, RowCondition, RowStates, RowTest};

/// Conditions that identify a row at some time.
pub(super) type RowIdentity = Vec<RowCondition>;

/// Searches for changes of rows that have this identity before or after the change.
pub(super) struct RowSearch<'s> {
    pub(super) database: &'s [u8],
    pub(super) table: &'s [u8],
    pub(super) identity: &'s RowIdentity,
    pub(super) sightings: &'s ColumnSightings,
}

/// Place of a change in its log; places increase from change to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChangePlace {
    position: u64,
    inner: Option<u64>,
    row: u64,
}

/// A change that was found.
pub(super) struct FoundChange {
    pub(super) place: ChangePlace,
    pub(super) entry: HistoryEntry,
    pub(super) states: RowStates,
    /// Identity of the row before and after the change, by its primary key if the log says which that is, otherwise by
    /// the columns of the identity that was found.
    pub(super) before: Option<RowIdentity>,
    pub(super) after: Option<RowIdentity>,
}

impl ListOutput for RowSearch<'_> {
    const NEEDS_ORIGIN: bool = true;

    type ListWorker = Arc<str>;
    type Part = Vec<FoundChange>;

    fn worker(&self) -> Arc<str> {
        "".into()
    }

    fn put(
        &self,
        log_name: &mut Arc<str>,
        context: &mut EventContext,
        ListedEvent { located, event }: ListedEvent<'_>,
        part: &mut Vec<FoundChange>,
    ) -> Result<(), OutputRefusal> {
        if let Event::TableMap(map) = event {
            context.tables.map(map)?;
        }
        let Some(rows) = event.rows() else { return Ok(()) };
        if **log_name != *located.log_name {
            *log_name = located.log_name.into();
        }
        part.extend(self.find_changes(log_name, context, located, rows)?);
        Ok(())
    }

    fn put_damaged(&self, _: &EventContext, _: &LocatedEvent<'_>, _: DecodeError, _: &mut Vec<FoundChange>) {
        // A history ends at damage: its changes would be incomplete.
    }

    fn size(part: &Vec<FoundChange>) -> usize {
        part.iter().map(|found| FOUND_SIZE + found.entry.values.len() * VALUE_SIZE).sum()
    }
}

/// Approximate sizes in memory, in bytes.
const FOUND_SIZE: usize = 512;
const VALUE_SIZE: usize = 128;

impl RowSearch<'_> {
    /// Returns the changes of a rows event.
    fn find_changes(
        &self,
        log_name: &Arc<str>,
        context: &mut EventContext,
        located: &LocatedEvent<'_>,
        rows: &Rows<'_>,
    ) -> Result<Vec<FoundChange>, OutputRefusal> {
        let mut found = Vec::new();
        let (table, decoder) = context.tables.decoder(rows)?;
        let Some(table) =
            table.filter(|table| *table.database == *self.database && *table.name == *self.table)
        else {
            return Ok(found);
        };
        let test = RowTest::new(self.identity, &table, self.sightings)?;
        let key = key_columns(&table, self.identity)?;
        for (number, row) in (0..).zip(decoder.rows(rows)) {
            let row = row?;
            let states = test.states(&row, located.format)?;
            if !states.before && !states.after {
                continue;
            }
            let identity_of = |is_after| identity_of(&row, &key, located.format, is_after);
            found.push(FoundChange {
                place: ChangePlace {
                    position: located.position,
                    inner: located.inner.map(|inner: InnerPosition| inner.number),
                    row: number,
                },
                before: identity_of(false)?,
                after: identity_of(true)?,
                states,
                entry: HistoryEntry {
                    log_name: Arc::clone(log_name),
                    position: located.position,
                    id: context.id.unwrap_or(TransactionId::Unsaid),
                    origin: context.origin.clone(),
                    change: change_of(&row),
                    values: values(&row, &table, located.format)?,
                },
            });
        }
        Ok(found)
    }
}

/// Returns the columns that identify a row.
fn key_columns(table: &Table, identity: &RowIdentity) -> Result<Vec<usize>, OutputRefusal> {
    match table.primary_key.as_deref() {
        Some(parts) if !parts.is_empty() => Ok(parts.iter().map(|part| part.column).collect()),
        _ => {
            let mut columns = Vec::new();
            for condition in identity {
                columns.extend(condition.column_index(table)?);
            }
            Ok(columns)
        }
    }
}

/// Returns the identity of a row before or after the change; `None` if the log does not have all key columns.
fn identity_of(
    row: &RowChange<'_, '_>,
    key: &[usize],
    format: &EventFormat,
    is_after: bool,
) -> Result<Option<RowIdentity>, DecodeError> {
    let image = if is_after { &row.after } else { &row.before };
    let Some(image) = image else { return Ok(None) };
    let mut identity = Vec::new();
    for column in key {
        let old = || row.before.as_ref().filter(|_| is_after).and_then(|before| before.field(*column));
        let Some(field) = image.field(*column).or_else(old) else { return Ok(None) };
        let Some(condition) = RowCondition::of_field(&field, format)? else { return Ok(None) };
        identity.push(condition);
    }
    Ok(Some(identity))
}

const fn change_of(row: &RowChange<'_, '_>) -> HistoryChange {
    match (&row.before, &row.after) {
        (None, _) => HistoryChange::Insert,
        (Some(_), Some(_)) => HistoryChange::Update,
        (Some(_), None) => HistoryChange::Delete,
    }
}

/// Returns the values of a change; of an update, only those that changed.
fn values(
    row: &RowChange<'_, '_>,
    table: &Table,
    format: &EventFormat,
) -> Result<Vec<HistoryValue>, DecodeError> {
    let mut values = Vec::new();
    for (index, column) in table.columns.iter().enumerate() {
        let json = |image: &Option<binlog::RowImage<'_, '_>>| -> Result<Option<String>, DecodeError> {
            let Some(field) = image.as_ref().and_then(|image| image.field(index)) else { return Ok(None) };
            let json = field_json(&field, row.before.as_ref(), format)?;
            Ok(json.map(|json| String::from_utf8_lossy(&json).into_owned()))
        };
        let (before, after) = (json(&row.before)?, json(&row.after)?);
        let is_update = row.before.is_some() && row.after.is_some();
        // An image without the column says that the column did not change.
        let is_unchanged = is_update && (after.is_none() || before == after);
        if is_unchanged || (before.is_none() && after.is_none()) {
            continue;
        }
        let name = column.name.as_deref().map(|name| String::from_utf8_lossy(name).into_owned());
        let column = name.unwrap_or_else(|| format!("@{}", index + 1));
        values.push(HistoryValue { column, before, after });
    }
    Ok(values)
}
