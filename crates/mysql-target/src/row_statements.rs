//! Row changes of a session as statements with parameters.

use binlog::Table;
use binlog::events::RowsKind;
use replay::{RowEvents, SourceStatement, TargetFailure};
use servers::check_fit;
use sql::quote::{put_hex, split_name};

use crate::binlog_statement::{PACKET_MARGIN, row_too_large_message};
use crate::mysql_session::{MysqlSession, TableCreation, TransactionState};
use crate::progress_sql::PROGRESS_TABLE;
use crate::row_sql::{RowMatch, RowStatement, StatementRunner, StatementWriter, TargetTable, load_table};
use crate::server_failure::{server_failure, unchecked_change_failure};
use crate::target_logging::TargetLogging;

/// Prefix of the fingerprint in an intent for a table whose rows follow. If the rows do not follow, the next replay
/// drops the table.
pub(crate) const CREATED_PREFIX: &str = "created ";

impl MysqlSession {
    pub(crate) fn write_rows_as_sql(&mut self, rows: &RowEvents) -> Result<(), TargetFailure> {
        if matches!(self.state, TransactionState::ImplicitCommit(_)) {
            // These rows follow their new table, and commit together with the progress.
            self.state = TransactionState::BeginPending;
        }
        self.begin_if_due();
        let mut writer =
            self.writer.take().unwrap_or_else(|| StatementWriter::new(self.adapter.target(), RowMatch::Key));
        let definitions = self.definition_version();
        if definitions != self.writer_definition_version {
            writer.forget();
            self.writer_definition_version = definitions;
        }
        let result = writer.write(rows, self);
        self.writer = Some(writer);
        result
    }

    /// Returns the statement that creates only the table, if `statement` is a `CREATE TABLE … SELECT` and its rows are
    /// sent as statements: the server allows no statements after the original text. Adds the table to the intent.
    pub(crate) fn table_creation_sql(
        &mut self,
        statement: &SourceStatement,
    ) -> Result<Option<Vec<u8>>, TargetFailure> {
        let is_in_parts = self.as_sql || self.table_creation == TableCreation::InParts;
        let creation = statement.table_creation().filter(|_| is_in_parts);
        if !std::mem::take(&mut self.rows_follow) {
            return Ok(creation);
        }
        let creation = creation.unwrap_or_else(|| statement.sql.clone());
        let malformed = || TargetFailure::refused("CREATE TABLE … SELECT: cannot find the name of the table");
        let (database, table) = parse_created_table(&creation).ok_or_else(malformed)?;
        // The intent's second word, in hexadecimal, is the state before the statement. It becomes the prefix, the
        // table's names in hexadecimal, and the present fingerprint.
        let mut before = CREATED_PREFIX.to_owned();
        for name in [database.unwrap_or_else(|| statement.database.clone()), table] {
            put_hex(&mut before, &name);
            before.push(' ');
        }
        let mut words = String::new();
        put_hex(&mut words, before.as_bytes());
        self.send()?;
        self.connection.run(&format!(
            "UPDATE {PROGRESS_TABLE} SET intent = INSERT(intent, LOCATE(' ', intent) + 1, 0, '{words}') WHERE stream = 1"
        )).map_err(server_failure)?;
        Ok(Some(creation))
    }
}

/// Returns the database, if named, and the table that a statement creates, in the form that servers write: ``CREATE
/// TABLE `d`.`t` (``.
fn parse_created_table(sql: &[u8]) -> Option<(Option<Vec<u8>>, Vec<u8>)> {
    let rest =
        sql.strip_prefix(b"CREATE TABLE ").or_else(|| sql.strip_prefix(b"CREATE OR REPLACE TABLE "))?;
    let (first, rest) = split_name(rest)?;
    match rest.strip_prefix(b".") {
        Some(rest) => split_name(rest).map(|(second, _)| (Some(first), second)),
        None => Some((None, first)),
    }
}

impl StatementRunner for MysqlSession {
    fn load_table(&mut self, log: &Table) -> Result<TargetTable, TargetFailure> {
        self.send()?;
        load_table(&mut self.connection, log)
    }

    fn check_table(&self, table: &TargetTable, kind: RowsKind) -> Result<(), TargetFailure> {
        check_table(table, kind, self.logging)
    }

    fn run(&mut self, statement: RowStatement) -> Result<u64, TargetFailure> {
        let RowStatement { settings, sql, parameters } = statement;
        if self.settings != Some(settings) {
            self.adopt(&settings.context_of(&self.variables))?;
            self.settings = Some(settings);
        }
        self.send()?;
        let max = self.packet_max.saturating_sub(PACKET_MARGIN);
        check_fit(&parameters, max)
            .map_err(|size| TargetFailure::refused(row_too_large_message(size, max)))?;
        self.connection.execute(&sql, parameters).map_err(|error| match settings.checks_constraints() {
            true => server_failure(error),
            false => unchecked_change_failure(error),
        })
    }
}

fn check_table(table: &TargetTable, kind: RowsKind, logging: TargetLogging) -> Result<(), TargetFailure> {
    if let Some(trigger) = table.trigger_of(kind) {
        return Err(TargetFailure::refused(format!(
            "{} has the trigger {trigger}: a statement would fire it, but the log already contains its changes. \
             Drop the trigger during the replay, or, from MySQL to MySQL, use --apply-as binlog",
            table.name
        )));
    }
    match &table.nontransactional_engine {
        Some(engine) if logging == TargetLogging::BySourceGtids => Err(TargetFailure::refused(format!(
            "{} uses {engine}, whose changes cannot be rolled back: applied as SQL, one transaction would become \
             several in the target's binary log. Use --apply-as binlog, or convert the table to InnoDB",
            table.name
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use binlog::events::RowsKind;

    use super::{check_table, parse_created_table};
    use crate::row_sql::TargetTable;
    use crate::target_logging::TargetLogging;

    #[test]
    fn tables_without_triggers_are_changed() {
        let mut table = TargetTable::named("`d`.`t`");
        table.triggers = vec![("DELETE".into(), "log_it".into())];
        check_table(&table, RowsKind::Write, TargetLogging::Off).unwrap();
        assert_eq!(
            check_table(&table, RowsKind::Delete, TargetLogging::Off).unwrap_err().message,
            "`d`.`t` has the trigger log_it: a statement would fire it, but the log already contains its changes. \
             Drop the trigger during the replay, or, from MySQL to MySQL, use --apply-as binlog"
        );
    }

    #[test]
    fn tables_are_named_by_servers() {
        let check = |sql: &str, expected: Option<(Option<&str>, &str)>| {
            let expected = expected.map(|(database, table)| (database.map(Vec::from), Vec::from(table)));
            assert_eq!(parse_created_table(sql.as_bytes()), expected, "{sql}");
        };
        check("CREATE TABLE `t` (\n `a` int)", Some((None, "t")));
        check("CREATE TABLE `d`.`t``x` (\n `a` int)", Some((Some("d"), "t`x")));
        check("CREATE TABLE \"a`b\" (a int)", Some((None, "a`b")));
        check("CREATE OR REPLACE TABLE `t` (a int)", Some((None, "t")));
        check("CREATE TABLE t (a int)", None);
        check("CREATE TABLE `t", None);
    }
}
