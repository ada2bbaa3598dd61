//! Filters of a list: by server, transaction, database, table, and row values.

use binlog::events::{ExecuteLoadQuery, Query, Rows};
use binlog::{DecodeError, Event, EventFormat, Table, TransactionVerb};
use logs::GtidSelection;
use sql::TableSelection;

use super::event_context::EventContext;
use super::row_condition::{ConditionCoverage, RowCondition, RowTest};
use crate::located_event::{LocatedEvent, OutputRefusal};

/// Filters of a list. A filter that is not set selects all events.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EventSelection {
    /// Only events first written by this server.
    pub server_id: Option<ServerIdFilter>,
    /// Only events of these transactions.
    pub gtids: GtidSelection,
    /// Only table maps and rows of these tables, and statements with this default database.
    pub tables: TableSelection,
    /// Only rows for which all conditions hold, in the image before or in the image after.
    pub conditions: Vec<RowCondition>,
    /// Conditions whose columns were found.
    pub(crate) sightings: ConditionCoverage,
}

/// A server id, and the bits of it that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerIdFilter {
    /// The server id.
    pub number: u32,
    /// Mask of the compared bits.
    pub mask: u32,
}

impl EventSelection {
    /// Returns the error for the first condition that no row can meet: whose column no table of the listed logs had, or
    /// whose value no table's column can have. `None` also if the logs had no table.
    pub fn unusable_condition_error(&self) -> Option<String> {
        self.sightings.unusable_condition_error(&self.conditions)
    }

    /// Returns the warning for the first condition that could not be tested on some row of the listed logs.
    pub fn untested_rows_warning(&self) -> Option<String> {
        self.sightings.untested_rows_error(&self.conditions)
    }

    /// Returns whether the selection filters by table or row.
    pub(crate) fn filters_rows(&self) -> bool {
        !self.tables.patterns.is_empty() || !self.conditions.is_empty()
    }

    /// Returns whether an event passes all filters except the conditions on rows.
    pub(crate) fn selects(
        &self,
        context: &mut EventContext,
        located: &LocatedEvent<'_>,
        event: &Event<'_>,
    ) -> Result<bool, DecodeError> {
        Ok(self.selects_server(located)
            && self.selects_transaction(context)
            && self.selects_table(context, event)?)
    }

    pub(crate) fn selects_server(&self, located: &LocatedEvent<'_>) -> bool {
        let found = located.header.server_id;
        self.server_id.is_none_or(|selected| found & selected.mask == selected.number & selected.mask)
    }

    pub(crate) fn selects_transaction(&self, context: &EventContext) -> bool {
        self.gtids.selects(context.id)
    }

    fn selects_table(&self, context: &mut EventContext, event: &Event<'_>) -> Result<bool, DecodeError> {
        if self.tables.selects_all() && self.conditions.is_empty() {
            return Ok(true);
        }
        match event {
            Event::TableMap(map) => {
                context.tables.map(map)?;
                Ok(self.conditions.is_empty() && self.tables.selects(map.database, map.table))
            }
            Event::Query(query) | Event::ExecuteLoadQuery(ExecuteLoadQuery { query, .. }) => {
                let is_transaction_statement = TransactionVerb::of(query.sql) != TransactionVerb::Other;
                Ok(self.selects_statement(query) || is_transaction_statement && !self.filters_rows())
            }
            _ => match event.rows() {
                Some(rows) => {
                    let (table, _) = context.tables.decoder(rows)?;
                    Ok(table.is_some_and(|table| self.tables.selects(&table.database, &table.name)))
                }
                None => Ok(!self.filters_rows()),
            },
        }
    }

    /// Returns whether a statement passes because of its default database.
    pub(crate) fn selects_statement(&self, query: &Query<'_>) -> bool {
        !self.filters_rows() && self.tables.selects_statement(query.database)
    }

    /// Returns whether the selection filters by row values.
    pub(crate) fn filters_values(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Returns the number of an event's rows that meet the conditions.
    pub(crate) fn count_rows(
        &self,
        context: &mut EventContext,
        format: &EventFormat,
        rows: &Rows<'_>,
    ) -> Result<u64, OutputRefusal> {
        let (table, decoder) = context.tables.decoder(rows)?;
        let Some(table) = table else { return Ok(0) };
        let Some(test) = self.row_test(&table)? else { return Ok(decoder.count(rows)?) };
        let mut count = 0;
        for row in decoder.rows(rows) {
            count += u64::from(test.passes(&row?, format)?);
        }
        Ok(count)
    }

    /// Returns the conditions for the rows of a table; `None` if there are none.
    ///
    /// # Errors
    ///
    /// Fails if a condition names a column, but the log has no column names.
    pub(crate) fn row_test(&self, table: &Table) -> Result<Option<RowTest<'_>>, OutputRefusal> {
        match self.conditions.is_empty() {
            true => Ok(None),
            false => RowTest::new(&self.conditions, table, &self.sightings).map(Some),
        }
    }
}
