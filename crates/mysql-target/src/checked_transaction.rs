//! One transaction of checked row changes: each is applied only if the row has the values in the log.

use binlog::Table;
use binlog::events::RowsKind;
use replay::{RowEvents, TargetFailure};
use servers::{ServerAddress, ServerFacts, SqlConnection, check_fit};

use crate::binlog_statement::{PACKET_MARGIN, row_too_large_message};
use crate::cascade_finder::CascadeFinder;
use crate::context_adapter::{ContextAdapter, TargetCollations};
use crate::logged_actions::LoggedActions;
use crate::row_sql::{
    AppliedChanges, CheckedResults, RowConflict, RowMatch, RowSessionSettings, RowStatement, StatementRunner,
    StatementWriter, TargetTable, load_table,
};
use crate::server_failure::server_failure;
use crate::session_state::SessionState;

/// One transaction of checked row changes on a server: each is applied only if the row has the values in the log.
///
/// The changes are statements of an ordinary session: the server writes them to its binary log under its own GTID.
/// Without [`CheckedTransaction::commit`], the server rolls them back.
#[derive(Debug)]
pub struct CheckedTransaction {
    session: CheckedSession,
    writer: StatementWriter,
    cascades: CascadeFinder,
}

/// Result of writing row changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenRows {
    /// Changes that were made.
    pub applied: AppliedChanges,
    /// Rows that differ from the log and were not changed.
    pub conflicts: Vec<RowConflict>,
}

/// Session of a checked transaction.
struct CheckedSession {
    connection: SqlConnection,
    adapter: ContextAdapter,
    /// `max_allowed_packet`, in bytes.
    packet_max: usize,
    variables: SessionState,
    /// Settings of the last statement.
    settings: Option<RowSessionSettings>,
}

impl std::fmt::Debug for CheckedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckedSession").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl CheckedTransaction {
    /// Connects to a server and begins the transaction.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached or read.
    pub fn begin(address: &ServerAddress) -> Result<Self, TargetFailure> {
        let mut connection = SqlConnection::open(address).map_err(server_failure)?;
        let facts = ServerFacts::query(&mut connection).map_err(server_failure)?;
        let collations = TargetCollations::ask(&mut connection, &facts).map_err(server_failure)?;
        let adapter = ContextAdapter::new(&mut connection, &facts, &collations).map_err(server_failure)?;
        connection.set_packet_max(facts.packet_max);
        connection.run("START TRANSACTION").map_err(server_failure)?;
        let writer = StatementWriter::new(adapter.target(), RowMatch::WholeImage);
        let session = CheckedSession {
            connection,
            adapter,
            packet_max: facts.packet_max,
            variables: SessionState::default(),
            settings: None,
        };
        Ok(Self { session, writer, cascades: CascadeFinder::default() })
    }

    /// Skips rows that differ from the log, with all their changes. A row of which only a part of the changes could be
    /// skipped is an error.
    pub fn with_skipping(mut self) -> Self {
        self.writer.refuse_partial_skips();
        self
    }

    /// Begins a statement with these table maps. `actions` tells whether the log contains the cascaded changes of
    /// foreign keys.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be queried.
    pub fn begin_statement(&mut self, actions: LoggedActions, maps: &RowEvents) -> Result<(), TargetFailure> {
        let checks = self.cascades.checks(&mut self.session.connection, actions, maps)?;
        self.writer.set_foreign_keys(checks);
        Ok(())
    }

    /// Applies these row changes, in order. A row that differs from the log is not changed, not even by the following
    /// changes of the same row.
    ///
    /// # Errors
    ///
    /// Fails if an event cannot be decoded, a table cannot be changed by statements, or the server refuses a statement
    /// for another reason.
    pub fn write(&mut self, rows: &RowEvents) -> Result<WrittenRows, TargetFailure> {
        self.writer.write(rows, &mut self.session)?;
        let CheckedResults { applied, conflicts } = self.writer.take_results();
        let conflicts = conflicts.into_iter().map(|one| one.compare(&mut self.session.connection));
        Ok(WrittenRows { applied, conflicts: conflicts.collect::<Result<_, _>>()? })
    }

    /// Commits the changes.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses, or the connection is lost. After a lost connection, the changes may be committed.
    pub fn commit(mut self) -> Result<(), TargetFailure> {
        self.session.connection.ignore_cancel();
        self.session.connection.run("COMMIT").map_err(server_failure)
    }

    /// Rolls the changes back.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost. The server then rolls them back by itself.
    pub fn roll_back(mut self) -> Result<(), TargetFailure> {
        self.session.connection.run("ROLLBACK").map_err(server_failure)
    }
}

impl StatementRunner for CheckedSession {
    fn load_table(&mut self, log: &Table) -> Result<TargetTable, TargetFailure> {
        load_table(&mut self.connection, log)
    }

    fn check_table(&self, table: &TargetTable, kind: RowsKind) -> Result<(), TargetFailure> {
        check_table(table, kind)
    }

    fn run(&mut self, statement: RowStatement) -> Result<u64, TargetFailure> {
        let RowStatement { settings, sql, parameters } = statement;
        if self.settings != Some(settings) {
            let context = self.adapter.fit(&settings.context_of(&self.variables));
            let changes = self.variables.adopt(&context);
            if !changes.is_empty() {
                self.connection.run(&format!("SET {changes}")).map_err(server_failure)?;
            }
            self.settings = Some(settings);
        }
        let max = self.packet_max.saturating_sub(PACKET_MARGIN);
        check_fit(&parameters, max)
            .map_err(|size| TargetFailure::refused(row_too_large_message(size, max)))?;
        self.connection.execute(&sql, parameters).map_err(server_failure)
    }
}

fn check_table(table: &TargetTable, kind: RowsKind) -> Result<(), TargetFailure> {
    if let Some(trigger) = table.trigger_of(kind) {
        return Err(TargetFailure::refused(format!(
            "{} has the trigger {trigger}: a statement would fire it, but the log already contains its changes. Drop \
             the trigger during the undo, or write the inverse to a file and apply the file with bintide replay",
            table.name
        )));
    }
    match &table.nontransactional_engine {
        Some(engine) => Err(TargetFailure::refused(format!(
            "{} uses {engine}, whose changes cannot be rolled back. Convert the table to InnoDB",
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
    fn tables_without_triggers_and_with_transactions_are_changed() {
        let mut table = TargetTable::named("`d`.`t`");
        check_table(&table, RowsKind::Write).unwrap();
        let check = |table: &TargetTable, expected: &str| {
            assert_eq!(check_table(table, RowsKind::Write).unwrap_err().message, expected);
        };
        table.nontransactional_engine = Some("MyISAM".into());
        check(
            &table,
            "`d`.`t` uses MyISAM, whose changes cannot be rolled back. Convert the table to InnoDB",
        );
        table.triggers = vec![("INSERT".into(), "log_it".into())];
        check(
            &table,
            "`d`.`t` has the trigger log_it: a statement would fire it, but the log already contains its changes. \
             Drop the trigger during the undo, or write the inverse to a file and apply the file with bintide replay",
        );
    }
}
