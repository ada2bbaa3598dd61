//! Tables whose columns got other numbers after undone changes. A log without column names has only the numbers.

use std::collections::BTreeSet;

use binlog::events::Query;
use binlog::{DecodeError, Event, Flavour, Table, TransactionKind};
use replay::{SizedTransaction, TransactionHead};
use sql::ddl::{DdlStatement, NamedTable};
use sql::query_ddl;

/// Database and table.
type TableName = [Box<[u8]>; 2];

/// Tables whose columns got other numbers after undone changes.
#[derive(Debug, Default)]
pub(super) struct RenumberedTables {
    /// Undone tables whose columns have no names in the log.
    unnamed: BTreeSet<TableName>,
    /// First undone table with a later statement that renumbers columns, and the transaction of the statement.
    renumbered: Option<(TableName, String)>,
}

impl RenumberedTables {
    /// Adds a table with undone changes.
    pub(super) fn add_undone(&mut self, table: &Table) {
        if table.columns.iter().any(|column| column.name.is_none()) {
            self.unnamed.insert([table.database.clone(), table.name.clone()]);
        }
    }

    /// Returns whether later statements matter.
    pub(super) fn needs_statements(&self) -> bool {
        !self.unnamed.is_empty() && self.renumbered.is_none()
    }

    /// Adds a transaction that is not undone.
    pub(super) fn add_later(
        &mut self,
        found: &SizedTransaction,
        head: &TransactionHead,
    ) -> Result<(), DecodeError> {
        // Statements that define tables fit into memory, and are not compressed.
        let SizedTransaction::Held(found) = found else { return Ok(()) };
        let transaction = &found.transaction;
        if !self.needs_statements() || transaction.outline().kind != TransactionKind::Statement {
            return Ok(());
        }
        let format = transaction.format();
        for raw in transaction.events() {
            if let Event::Query(query) = raw.decode(format)? {
                self.add_statement(&query, format.flavour, head);
            }
        }
        Ok(())
    }

    /// Returns the reason not to apply the inverse to the tables as they are now, if there is one.
    pub(super) fn finding(&self) -> Option<String> {
        let ([database, table], statement) = self.renumbered.as_ref()?;
        let [database, table] = [database, table].map(|name| String::from_utf8_lossy(name));
        Some(format!(
            "the columns of {database}.{table} were reordered later, by {statement}, and the logs have no column names: \
             the inverse would restore values into the wrong columns"
        ))
    }

    fn add_statement(&mut self, query: &Query<'_>, flavour: Flavour, head: &TransactionHead) {
        let table = match query_ddl(query, flavour) {
            DdlStatement::AlterTable { name, changes } => {
                Some(name).filter(|_| changes.iter().any(|change| change.renumbers_columns()))
            }
            // The table of this name may have other columns than the undone one.
            DdlStatement::CreateTable { name, .. } => Some(name),
            _ => None,
        };
        if let Some(table) = table.and_then(|table| self.find_unnamed(&table, query.database)) {
            self.renumbered = Some((table, head.to_string()));
        }
    }

    /// Returns the undone table of this name. A statement can write a name in another case than the log's rows.
    fn find_unnamed(&self, named: &NamedTable, default: &[u8]) -> Option<TableName> {
        let database = named.database.as_deref().map_or(default, str::as_bytes);
        let name = [database, named.table.as_bytes()];
        let is_named =
            |table: &&TableName| table.iter().zip(name).all(|(own, other)| own.eq_ignore_ascii_case(other));
        self.unnamed.iter().find(is_named).cloned()
    }
}
