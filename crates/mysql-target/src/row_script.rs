//! Row changes as an SQL script.

use std::fmt;

use binlog::events::RowsKind;
use binlog::{Flavour, Table};
use replay::{RowEvents, SessionVariables, TargetFailure};
use servers::{ServerAddress, SqlConnection};

use crate::cascade_finder::CascadeFinder;
use crate::logged_actions::LoggedActions;
use crate::row_sql::{
    ForeignKeyChecks, RowMatch, RowSessionSettings, RowStatement, StatementRunner, StatementWriter,
    TargetTable, inline_parameters, load_table,
};
use crate::server_failure::server_failure;
use crate::session_state::SessionState;

/// Writes row changes as an SQL script, with one statement for each row. A statement finds its row by all values in the
/// log, and changes nothing if the row has other values.
#[derive(Debug)]
pub struct RowScript {
    writer: StatementWriter,
    session: ScriptSession,
    cascades: CascadeFinder,
}

/// Session of the client that runs the script.
struct ScriptSession {
    /// Server that has the definitions of the tables; without a server, the log must have them.
    server: Option<SqlConnection>,
    variables: SessionState,
    settings: Option<RowSessionSettings>,
    /// Statements not taken yet.
    text: String,
}

impl fmt::Debug for ScriptSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptSession").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl RowScript {
    /// Creates a script for MySQL. `server` has the definitions of the tables. Without a server, the log must have
    /// column names, and the tables must have no generated columns.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached.
    pub fn new(server: Option<&ServerAddress>) -> Result<Self, TargetFailure> {
        let server = server.map(SqlConnection::open).transpose().map_err(server_failure)?;
        let session =
            ScriptSession { server, variables: SessionState::default(), settings: None, text: String::new() };
        let writer = StatementWriter::new(Flavour::MySql, RowMatch::WholeImage);
        Ok(Self { writer, session, cascades: CascadeFinder::default() })
    }

    /// Begins a statement with these table maps. `actions` tells whether the log contains the cascaded changes of
    /// foreign keys. Without a server, this is not certain: then foreign keys are not checked.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be queried.
    pub fn begin_statement(&mut self, actions: LoggedActions, maps: &RowEvents) -> Result<(), TargetFailure> {
        let checks = match (&mut self.session.server, actions) {
            (Some(server), _) => self.cascades.checks(server, actions, maps)?,
            (None, LoggedActions::Absent) => ForeignKeyChecks::On,
            (None, LoggedActions::Present) => ForeignKeyChecks::ByFlags,
        };
        self.writer.set_foreign_keys(checks);
        Ok(())
    }

    /// Appends the statements of these row changes, each on a line.
    ///
    /// # Errors
    ///
    /// Fails if an event cannot be decoded, or the columns of its table are unknown.
    pub fn append(&mut self, rows: &RowEvents, out: &mut String) -> Result<(), TargetFailure> {
        self.writer.write(rows, &mut self.session)?;
        out.push_str(&std::mem::take(&mut self.session.text));
        Ok(())
    }
}

impl StatementRunner for ScriptSession {
    fn load_table(&mut self, log: &Table) -> Result<TargetTable, TargetFailure> {
        match &mut self.server {
            Some(server) => load_table(server, log),
            None => TargetTable::from_log(log, Flavour::MySql).ok_or_else(|| {
                TargetFailure::refused(
                    "the log has no column names (binlog_row_metadata=MINIMAL). Name a server that has \
                     these tables: --to mysql://…",
                )
            }),
        }
    }

    fn check_table(&self, table: &TargetTable, kind: RowsKind) -> Result<(), TargetFailure> {
        check_table(table, kind)
    }

    fn run(&mut self, statement: RowStatement) -> Result<u64, TargetFailure> {
        let RowStatement { settings, sql, parameters } = statement;
        if self.settings != Some(settings) {
            let context = settings.context_of(&self.variables);
            // The script is for MySQL, which does not have this variable.
            let changes =
                self.variables.adopt(&SessionVariables { check_constraint_checks: None, ..context });
            if !changes.is_empty() {
                self.text.push_str(&format!("SET {changes};\n"));
            }
            self.settings = Some(settings);
        }
        self.text.push_str(&inline_parameters(&sql, &parameters));
        self.text.push_str(";\n");
        Ok(1)
    }
}

fn check_table(table: &TargetTable, kind: RowsKind) -> Result<(), TargetFailure> {
    match table.trigger_of(kind) {
        Some(trigger) => Err(TargetFailure::refused(format!(
            "{} has the trigger {trigger}: a statement would fire it, but the log already contains its changes. Drop \
             the trigger while the script runs, or write the inverse as a binary log and apply the log with bintide \
             replay",
            table.name
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use binlog::events::RowsKind;

    use super::check_table;
    use crate::row_sql::TargetTable;

    #[test]
    fn scripts_must_not_fire_triggers() {
        let mut table = TargetTable::named("`d`.`t`");
        table.triggers = vec![("UPDATE".into(), "log_it".into())];
        check_table(&table, RowsKind::Delete).unwrap();
        assert_eq!(
            check_table(&table, RowsKind::Update).unwrap_err().message,
            "`d`.`t` has the trigger log_it: a statement would fire it, but the log already contains its changes. \
             Drop the trigger while the script runs, or write the inverse as a binary log and apply the log with \
             bintide replay"
        );
    }
}
