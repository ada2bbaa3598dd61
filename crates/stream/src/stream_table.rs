//! Tables of the log, prepared for streaming.

use std::sync::Arc;

use binlog::events::Rows;
use binlog::{EventFormat, Table};
use logs::WalkedTable;

use crate::catalogue_names::CatalogueNames;
use crate::change::EventCoordinates;
use crate::column_catalogue::{ColumnCatalogue, TableSchema};
use crate::error::{EventError, StreamError};
use crate::settings::{SchemaPolicy, StreamSettings};
use crate::table_plan::{PlanSettings, TablePlan, UnnamedColumnPolicy};

/// A table from the log, prepared for streaming.
#[derive(Debug)]
pub(crate) struct StreamTable {
    /// Table with names from a catalogue, if the log does not have them.
    pub(crate) named: Option<CatalogueNames>,
    pub(crate) decision: TableDecision,
}

/// Decision on streaming a table's rows.
#[derive(Clone, Debug)]
pub(crate) enum TableDecision {
    Selected(Arc<TablePlan>),
    Excluded,
    /// Error: its columns have no names.
    Unnamed(MissingNames),
}

/// Source of names that lacks those of a table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingNames {
    /// The log, which is the only source.
    Log,
    /// The server, after the log.
    Server,
    /// The DDL statements in the log.
    Definitions,
}

/// Preparer of tables.
#[derive(Debug)]
pub(crate) struct TablePreparer<'p> {
    pub(crate) settings: &'p StreamSettings,
    /// Catalogue of the names that the log lacks.
    pub(crate) catalogue: Option<&'p mut ColumnCatalogue>,
    pub(crate) format: &'p EventFormat,
}

impl TablePreparer<'_> {
    /// Decides on a table.
    pub(crate) fn prepare(mut self, table: &Table) -> Result<StreamTable, EventError> {
        let (settings, flavour) = (self.settings, self.format.flavour);
        let unnamed = |decision| Ok(StreamTable { named: None, decision });
        let selected =
            |named, plan| Ok(StreamTable { named, decision: TableDecision::Selected(Arc::new(plan)) });
        let filter = &settings.filter;
        if !filter.accepts_database(&table.database)
            || !filter.accepts_tables([(&*table.database, &*table.name)])
        {
            return unnamed(TableDecision::Excluded);
        }
        let defined = self.defined_table(table)?;
        let plan_settings = |unnamed_columns| plan_settings(settings, unnamed_columns, defined.as_ref());
        if let Some(plan) = TablePlan::new(table, flavour, plan_settings(UnnamedColumnPolicy::Refuse)) {
            return selected(None, plan);
        }
        if let Some(catalogue) = &mut self.catalogue
            && let Some(named) = catalogue.with_names(table).map_err(EventError::Error)?
            && let Some(plan) = TablePlan::new(&named, flavour, plan_settings(UnnamedColumnPolicy::Refuse))
        {
            return selected(Some(CatalogueNames::new(named)), plan);
        }
        if let Some(plan) = TablePlan::new(table, flavour, plan_settings(settings.unnamed_columns)) {
            return selected(None, plan);
        }
        unnamed(TableDecision::Unnamed(MissingNames::after(self.catalogue.as_deref())))
    }

    /// Names the columns of a table whose map lists columns that no row has.
    pub(crate) fn name_by_rows(
        mut self,
        known: &mut WalkedTable<StreamTable>,
        rows: &Rows<'_>,
    ) -> Result<(), EventError> {
        if matches!(known.prepared.decision, TableDecision::Unnamed(_))
            && self.format.shows_hidden_columns()
            && let Some(catalogue) = &mut self.catalogue
            && let Some(named) =
                catalogue.with_names_by_rows(&known.logged, rows).map_err(EventError::Error)?
            && let defined = self.defined_table(&known.logged)?
            && let Some(plan) = TablePlan::new(
                &named,
                self.format.flavour,
                plan_settings(self.settings, UnnamedColumnPolicy::Refuse, defined.as_ref()),
            )
        {
            let (named, decision) =
                (Some(CatalogueNames::new(named)), TableDecision::Selected(Arc::new(plan)));
            known.prepared = StreamTable { named, decision };
        }
        Ok(())
    }

    /// Returns the catalogue's definition of a table, if schemas need its default values.
    fn defined_table(&mut self, table: &Table) -> Result<Option<TableSchema>, EventError> {
        match &mut self.catalogue {
            Some(catalogue) if self.settings.schemas == SchemaPolicy::Describe => {
                catalogue.table_schema(table).map_err(EventError::Error)
            }
            _ => Ok(None),
        }
    }
}

impl TableDecision {
    /// Returns the plan of a selected table; `None` if the table is excluded.
    pub(crate) fn plan(
        &self,
        table: &Table,
        at: &EventCoordinates<'_>,
    ) -> Result<Option<&Arc<TablePlan>>, StreamError> {
        match self {
            Self::Selected(plan) => Ok(Some(plan)),
            Self::Excluded => Ok(None),
            Self::Unnamed(missing) => Err(missing.error(table, at.log, at.offset)),
        }
    }
}

impl MissingNames {
    /// Returns the source that was searched last for the names of a table.
    pub fn after(catalogue: Option<&ColumnCatalogue>) -> Self {
        match catalogue {
            None => Self::Log,
            Some(catalogue) if catalogue.definitions().is_some() => Self::Definitions,
            Some(_) => Self::Server,
        }
    }

    /// Returns the error of rows at `offset` in a log.
    pub fn error(self, table: &Table, log: &str, offset: u64) -> StreamError {
        let (log, table) = (log.to_owned(), qualified_name(table));
        match self {
            Self::Log => StreamError::UnnamedColumns { log, offset, table },
            Self::Server => StreamError::NotOnServer { log, offset, table },
            Self::Definitions => StreamError::UndefinedTable { log, offset, table },
        }
    }
}

fn plan_settings<'s>(
    settings: &'s StreamSettings,
    unnamed_columns: UnnamedColumnPolicy,
    definition: Option<&'s TableSchema>,
) -> PlanSettings<'s> {
    let unknown_members = settings.unnamed_columns;
    PlanSettings {
        unnamed_columns,
        unknown_members,
        modes: settings.modes,
        rules: &settings.rules,
        definition,
    }
}

fn qualified_name(table: &Table) -> String {
    let name = [&*table.database, b".", &*table.name].concat();
    String::from_utf8_lossy(&name).into_owned()
}
