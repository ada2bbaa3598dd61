//! `TRUNCATE TABLE` of tables with sums: resets the sums.

use wire::ServerError;

use super::fact_table::{FACT_TABLES, find_database};
use super::refusals::{command_denied, no_database, unknown_table};
use super::{SqlStatement, done};
use crate::relay_account::AccountRight;
use crate::sql_answer::{SqlAnswer, SqlSession};

pub(super) fn truncate(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let mut name = statement.words.take_name().ok_or_else(|| statement.syntax_error())?;
    let mut database = session.database.clone();
    if statement.words.take_sign(".") {
        let table = statement.words.take_name().ok_or_else(|| statement.syntax_error())?;
        database = Some(std::mem::replace(&mut name, table));
    }
    statement.expect_end()?;
    let database = database.ok_or_else(no_database)?;
    let database = find_database(&database).ok_or_else(|| unknown_table(&database, &name))?;
    let table = FACT_TABLES
        .iter()
        .find(|table| table.database == database && table.name.eq_ignore_ascii_case(&name))
        .ok_or_else(|| unknown_table(database, &name))?;
    if !session.role.may(AccountRight::ChangeRelay) {
        return Err(command_denied("DROP", &session.account, table.name));
    }
    match table.name {
        "binary_log_transaction_compression_stats" => statement.relay.reset_compression_counters(),
        "events_stages_summary_global_by_event_name" => statement.relay.reset_stage_totals(),
        // The same error as for a server's own read-only tables.
        _ => return Err(command_denied("DROP", &session.account, table.name)),
    }
    Ok(done())
}
