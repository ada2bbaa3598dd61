//! Session state of a statement in the log, as far as it determines which rows the statement reads.

use binlog::events::{Query, StatusVar};
use binlog::{Collation, Flavour, sql_mode};
use sql::quote::{quote_name, quote_time_zone};

use crate::statement::{FunctionSet, LoggedStatement, SkipReason};

/// Session state of a statement in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatementSession {
    /// Default database; empty for none.
    pub(crate) database: String,
    sql_mode: u64,
    /// `character_set_client` and `collation_connection`, as collation IDs.
    charset: Option<(u16, u16)>,
    flavour: Flavour,
    /// Time zone, as a string literal.
    time_zone: Option<String>,
    /// Current time for the statement, if it calls a clock function.
    timestamp: Option<u32>,
}

/// Statements that reset a session to the state that searches for rows need.
pub(crate) const RESET_SESSION: &str = "SET NAMES utf8mb4; \
    SET @@session.sql_mode = '', @@session.time_zone = '+00:00', @@session.timestamp = DEFAULT";

/// Prefixes of clock functions.
const CLOCK_PREFIXES: [&[u8]; 6] = [b"NOW", b"CUR", b"LOCALTIME", b"UTC_", b"UNIX_TIMESTAMP", b"SYSDATE"];

impl StatementSession {
    /// Reads the session state from a query event.
    pub(crate) fn from_query(
        query: &Query<'_>,
        timestamp: u32,
        flavour: Flavour,
    ) -> Result<Self, SkipReason> {
        let database = str::from_utf8(query.database).map_err(|_| SkipReason::Charset)?.to_owned();
        let asks = |name: &&[u8]| query.sql.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name));
        let timestamp = CLOCK_PREFIXES.iter().any(asks).then_some(timestamp);
        let mut session = Self { database, sql_mode: 0, charset: None, flavour, time_zone: None, timestamp };
        for variable in query.status.iter() {
            match variable.map_err(|_| SkipReason::Session)? {
                StatusVar::SqlMode(mode) => session.sql_mode = mode & sql_mode::PARSING_MODES,
                StatusVar::Charset { client, connection, .. } => session.charset = Some((client, connection)),
                StatusVar::TimeZone(name) if !name.is_empty() => {
                    let zone = quote_time_zone(name).ok_or(SkipReason::Session)?;
                    session.time_zone = Some(zone);
                }
                _ => {}
            }
        }
        Ok(session)
    }

    /// Returns a statement with this session state.
    pub(crate) fn statement<'a>(&self, sql: &'a [u8], functions: FunctionSet) -> LoggedStatement<'a> {
        let client = self.charset.and_then(|(client, _)| Collation::new(client, self.flavour));
        let charset = client.map(|collation| collation.charset());
        LoggedStatement { sql, sql_mode: self.sql_mode, charset, functions }
    }

    /// Returns the SQL statements that set this session state.
    pub(crate) fn sql(&self) -> String {
        let mut out = String::from("SET NAMES utf8mb4; ");
        if !self.database.is_empty() {
            out += &format!("USE {}; ", quote_name(&self.database));
        }
        let zone = self.time_zone.as_deref().unwrap_or("'+00:00'");
        let timestamp = self.timestamp.map_or("DEFAULT".to_owned(), |timestamp| timestamp.to_string());
        out += &format!(
            "SET @@session.sql_mode = {}, @@session.time_zone = {zone}, @@session.timestamp = {timestamp}",
            self.sql_mode
        );
        if let Some((client, connection)) = self.charset {
            out += &format!(
                ", @@session.character_set_client = {}, @@session.collation_connection = {connection}",
                Collation::client_setting(client)
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use binlog::Flavour;
    use binlog::events::{Query, StatusVars};

    use super::StatementSession;
    use crate::statement::SkipReason;

    fn sql(status: &[u8], database: &[u8], sql: &[u8]) -> Result<String, SkipReason> {
        let status = StatusVars { bytes: status };
        let query = Query { thread_id: 1, exec_time: 0, error_code: 0, status, database, sql };
        StatementSession::from_query(&query, 4711, Flavour::MySql).map(|session| session.sql())
    }

    #[test]
    fn mariadb_gets_only_its_new_character_set_names() {
        let found = sql(&[4, 0, 9, 0, 9, 45, 0], b"d", b"delete from t").unwrap();
        let expected = "@@session.character_set_client = utf8mb4, @@session.collation_connection = 2304";
        assert!(found.ends_with(expected), "{found}");
    }

    #[test]
    fn sessions_set_the_variables_that_affect_results() {
        let mode_and_charset = [1, 0x26, 0, 0x10, 0, 0, 0, 0, 0, 4, 8, 0, 48, 0, 255, 0];
        let names = "SET NAMES utf8mb4; ";
        let expected = format!(
            "{names}USE `d``x`; SET @@session.sql_mode = 1048582, @@session.time_zone = '+00:00', \
             @@session.timestamp = DEFAULT, @@session.character_set_client = 8, @@session.collation_connection = 48"
        );
        assert_eq!(sql(&mode_and_charset, b"d`x", b"delete from t"), Ok(expected));
        let expected = format!(
            "{names}SET @@session.sql_mode = 0, @@session.time_zone = 'Asia/Tokyo', @@session.timestamp = 4711"
        );
        assert_eq!(sql(b"\x05\x0aAsia/Tokyo", b"", b"delete from t where a < now()"), Ok(expected));
        assert_eq!(sql(b"\x05\x05';-- ", b"", b""), Err(SkipReason::Session));
        assert_eq!(sql(b"\x05\x0aAsia", b"", b""), Err(SkipReason::Session));
    }
}
