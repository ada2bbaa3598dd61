//! Checks of a MySQL server before a replay. They change nothing on the server.

use binlog::ColumnType;
use binlog::gtid::GtidSet;
use binlog::server_error::TABLEACCESS_DENIED_ERROR;
use replay::row_reader::HiddenColumns;
use replay::{
    AppliedState, LogSurvey, LogTable, PreflightCheck, PreflightFinding, ReplayError, TableDefinitions,
    TargetFailure, TargetTableDefinition, TargetTableName,
};
use servers::{GtidMode, ServerAddress, ServerCatalogue, ServerColumn, ServerFacts, SqlConnection, row_text};
use sql::quote;

use crate::account_grants::AccountGrants;
use crate::apply_as::ApplyAs;
use crate::log_readers::LogReaders;
use crate::progress_rows::{read_progress, read_source};
use crate::server_failure::{LOG_IN, server_failure};
use crate::target_logging::TargetLogChoice;
use crate::versions::{APPLIER_STATUS_SINCE, MYSQL_8};
use crate::{row_sql, table_definition};

/// A server to inspect before a replay.
#[derive(Debug)]
pub struct TargetInspector {
    connection: SqlConnection,
    facts: ServerFacts,
    applied: Option<AppliedState>,
    /// `server_id` of the server whose logs were applied last.
    source: Option<u32>,
    /// Reasons why the target's binary log may have undetected readers.
    unknown_readers: Option<String>,
}

/// A requirement that any one of several privileges meets.
struct PrivilegeRequirement {
    any: &'static [&'static str],
    why: &'static str,
}

/// The only requirement before MySQL 8.0.
const SUPER: PrivilegeRequirement =
    PrivilegeRequirement { any: &["SUPER"], why: "to apply row events and set variables" };

const ROW_EVENTS: PrivilegeRequirement = PrivilegeRequirement {
    any: &["BINLOG_ADMIN", "REPLICATION_APPLIER", "SUPER"],
    why: "to apply row events",
};
const SESSION_VARIABLES: PrivilegeRequirement = PrivilegeRequirement {
    any: &["SESSION_VARIABLES_ADMIN", "SYSTEM_VARIABLES_ADMIN", "SUPER"],
    why: "to set sql_log_bin and the variables that statements depend on",
};
const GTID_PURGED: PrivilegeRequirement =
    PrivilegeRequirement { any: &["SYSTEM_VARIABLES_ADMIN", "SUPER"], why: "to add to gtid_purged" };
const GTID_TAGS: PrivilegeRequirement =
    PrivilegeRequirement { any: &["TRANSACTION_GTID_TAG"], why: "to add GTIDs with tags" };

/// Privileges required on each table if REPLICATION_APPLIER is the account's only privilege to apply row events: the
/// server then checks each change.
const ROW_PRIVILEGES: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

/// Privileges needed on the database of the progress table.
const PROGRESS_PRIVILEGES: [&str; 5] = ["CREATE", "SELECT", "INSERT", "UPDATE", "DELETE"];

impl TargetInspector {
    /// Connects, and reads the server's facts and progress.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, or does not answer.
    pub fn connect(address: &ServerAddress) -> Result<Self, ReplayError> {
        let mut connection =
            SqlConnection::open(address).map_err(|error| server_failure(error).into_error(LOG_IN))?;
        let read_failure = |error| server_failure(error).into_error("read the server's settings");
        let facts = ServerFacts::query(&mut connection).map_err(read_failure)?;
        let mut applied =
            read_progress(&mut connection).map_err(|failure| failure.into_error("read the progress"))?;
        if let Some(applied) = &mut applied {
            applied.executed = facts.gtid_executed.clone();
        }
        let source = match applied {
            Some(_) => {
                read_source(&mut connection).map_err(|failure| failure.into_error("read the progress"))?
            }
            None => None,
        };
        Ok(Self { connection, facts, applied, source, unknown_readers: None })
    }

    /// Returns the applied transactions; without a progress table, only `gtid_executed`.
    pub fn applied(&self) -> AppliedState {
        let executed = self.facts.gtid_executed.clone();
        self.applied.clone().unwrap_or(AppliedState { executed, ..AppliedState::default() })
    }

    /// Returns true if there is a progress table.
    pub const fn has_progress(&self) -> bool {
        self.applied.is_some()
    }

    /// Returns the `server_id` of the server whose logs were applied last.
    pub const fn source_server_id(&self) -> Option<u32> {
        self.source
    }

    /// Returns true if the target's binary log is on, but `choice` keeps applied transactions out of it: replicas of
    /// the target would not get them.
    pub const fn cannot_have_replicas(&self, choice: TargetLogChoice) -> bool {
        self.facts.log_bin && matches!(choice, TargetLogChoice::Unset)
    }

    /// Returns the reasons why the target's binary log may have readers that [`TargetInspector::findings`] did not
    /// detect.
    pub fn unknown_readers(&self) -> Option<&str> {
        self.unknown_readers.as_deref()
    }

    /// Returns all obstacles to applying the surveyed logs.
    ///
    /// # Errors
    ///
    /// Fails if the server does not answer.
    pub fn findings(
        &mut self,
        survey: &LogSurvey,
        apply_as: ApplyAs,
        choice: TargetLogChoice,
    ) -> Result<Vec<PreflightFinding>, ReplayError> {
        self.inspect(survey, apply_as, choice).map_err(|failure| failure.into_error("inspect the target"))
    }

    fn inspect(
        &mut self,
        survey: &LogSurvey,
        apply_as: ApplyAs,
        choice: TargetLogChoice,
    ) -> Result<Vec<PreflightFinding>, TargetFailure> {
        let mut findings = Vec::new();
        if !self.facts.is_mariadb {
            let grants = AccountGrants::query(&mut self.connection).map_err(server_failure)?;
            self.check_privileges(survey, apply_as, &grants, &mut findings)?;
            self.check_read_only(&grants, &mut findings)?;
        }
        self.check_limits(survey, &mut findings)?;
        self.check_gap(survey, &mut findings);
        if !self.facts.is_mariadb {
            // MariaDB's column types are compared when rows are applied.
            self.check_tables(survey, &mut findings)?;
        }
        if choice == TargetLogChoice::Write && apply_as == ApplyAs::Sql {
            self.check_engines(survey, &mut findings)?;
        }
        if self.cannot_have_replicas(choice) {
            self.check_readers(&mut findings)?;
        }
        Ok(findings)
    }

    fn check_privileges(
        &mut self,
        survey: &LogSurvey,
        apply_as: ApplyAs,
        grants: &AccountGrants,
        out: &mut Vec<PreflightFinding>,
    ) -> Result<(), TargetFailure> {
        let account =
            self.connection.value("SELECT CURRENT_USER()").map_err(server_failure)?.unwrap_or_default();
        let account = quoted_account(&account);
        let may_send_events = ROW_EVENTS.any.iter().any(|name| grants.has_globally(name));
        let sends_events = match apply_as {
            ApplyAs::Binlog => true,
            // Without row events, the account needs only privileges on the tables.
            ApplyAs::Auto => may_send_events,
            ApplyAs::Sql => false,
        };
        if sends_events {
            self.check_event_privileges(survey, grants, &account, out);
        }
        self.check_appliers(sends_events, &account, out)?;
        let lacking =
            PROGRESS_PRIVILEGES.into_iter().filter(|name| !grants.has_on_database(b"bintide", name));
        let lacking: Vec<&str> = lacking.collect();
        if !lacking.is_empty() {
            let found = format!("{} on the database bintide, to save progress", lacking.join(" and "));
            let remedy = format!("GRANT {} ON bintide.* TO {account}", lacking.join(", "));
            out.push(PreflightFinding::new(PreflightCheck::Privileges, found, remedy));
        }
        Ok(())
    }

    fn check_event_privileges(
        &self,
        survey: &LogSurvey,
        grants: &AccountGrants,
        account: &str,
        out: &mut Vec<PreflightFinding>,
    ) {
        let mut needs = Vec::new();
        if self.facts.is_older_than(MYSQL_8) {
            needs.push(SUPER);
        } else {
            needs.extend([ROW_EVENTS, SESSION_VARIABLES]);
            if self.facts.gtid_mode == GtidMode::On {
                needs.push(GTID_PURGED);
                if survey.has_tags() {
                    needs.push(GTID_TAGS);
                }
            }
        }
        for need in needs.iter().filter(|need| !need.any.iter().any(|name| grants.has_globally(name))) {
            let names = need.any.join(" or ");
            let remedy = format!("GRANT {} ON *.* TO {account}", need.any[0]);
            out.push(PreflightFinding::new(
                PreflightCheck::Privileges,
                format!("{names}, {}", need.why),
                remedy,
            ));
        }
        if !["BINLOG_ADMIN", "SUPER"].iter().any(|name| grants.has_globally(name))
            && grants.has_globally("REPLICATION_APPLIER")
        {
            check_row_privileges(survey, grants, account, out);
        }
    }

    fn check_read_only(
        &mut self,
        grants: &AccountGrants,
        out: &mut Vec<PreflightFinding>,
    ) -> Result<(), TargetFailure> {
        let is_read_only =
            self.connection.value("SELECT @@GLOBAL.read_only").map_err(server_failure)?.as_deref()
                == Some("1");
        if self.facts.super_read_only {
            let remedy = "run SET GLOBAL super_read_only = 0";
            out.push(PreflightFinding::new(
                PreflightCheck::ReadOnly,
                "the target is super_read_only",
                remedy,
            ));
        } else if is_read_only && !grants.has_globally("CONNECTION_ADMIN") && !grants.has_globally("SUPER") {
            let lacking = if self.facts.is_older_than(MYSQL_8) { "SUPER" } else { "CONNECTION_ADMIN" };
            let found = format!("the target is read_only, and the account lacks {lacking}");
            out.push(PreflightFinding::new(
                PreflightCheck::ReadOnly,
                found,
                format!("run SET GLOBAL read_only = 0, or grant the account {lacking}"),
            ));
        }
        Ok(())
    }

    /// Finds channels with a running applier. An account that sends no events need not be allowed to see channels.
    fn check_appliers(
        &mut self,
        must_know: bool,
        account: &str,
        out: &mut Vec<PreflightFinding>,
    ) -> Result<(), TargetFailure> {
        let question = match self.facts.is_older_than(APPLIER_STATUS_SINCE) {
            true => {
                "SELECT '' FROM information_schema.global_status \
                 WHERE variable_name = 'Slave_running' AND variable_value = 'ON'"
            }
            false => {
                "SELECT channel_name FROM performance_schema.replication_applier_status \
                 WHERE service_state = 'ON'"
            }
        };
        let channels = match self.connection.rows(question) {
            Ok(channels) => channels,
            Err(servers::ConnectionError::Refused { code: TABLEACCESS_DENIED_ERROR, message }) => {
                if must_know {
                    let remedy =
                        format!("GRANT SELECT ON performance_schema.replication_applier_status TO {account}");
                    out.push(PreflightFinding::new(PreflightCheck::Privileges, message, remedy));
                }
                return Ok(());
            }
            Err(error) => return Err(server_failure(error)),
        };
        for channel in &channels {
            let name = row_text(channel, 0);
            let found = format!("the target is a replica whose applier is running, in the channel '{name}'");
            let remedy = format!("STOP REPLICA SQL_THREAD FOR CHANNEL '{name}'");
            out.push(PreflightFinding::new(PreflightCheck::Applier, found, remedy));
        }
        Ok(())
    }

    fn check_limits(
        &mut self,
        survey: &LogSurvey,
        out: &mut Vec<PreflightFinding>,
    ) -> Result<(), TargetFailure> {
        let takes_files =
            self.connection.value("SELECT @@GLOBAL.local_infile").map_err(server_failure)?.as_deref()
                == Some("1");
        if survey.loads_files && !takes_files {
            let found = "the logs contain LOAD DATA, but the target has local_infile = OFF";
            out.push(PreflightFinding::new(
                PreflightCheck::LocalInfile,
                found,
                "SET GLOBAL local_infile = 1",
            ));
        }
        if let Some((size, unit)) = survey.longest.as_ref().filter(|(size, _)| *size >= self.facts.packet_max)
        {
            let found = format!(
                "{unit} has a statement of {size} bytes, but the target's max_allowed_packet is {}",
                self.facts.packet_max
            );
            let required = size.next_multiple_of(1 << 20) + (1 << 20);
            out.push(PreflightFinding::new(
                PreflightCheck::Packet,
                found,
                format!("SET GLOBAL max_allowed_packet = {required}"),
            ));
        }
        Ok(())
    }

    fn check_gap(&self, survey: &LogSurvey, out: &mut Vec<PreflightFinding>) {
        let applied = self.applied();
        let has = applied.executed.union(&applied.progress.gtids);
        out.extend(PreflightFinding::gap(survey, &applied));
        let (Some(before), Some(now)) = (self.source, survey.writer) else { return };
        if before != now && !knows_source(survey, &has, &applied) {
            let found = format!(
                "these logs are from the server with server_id {now}, but the logs applied before are from {before}"
            );
            let remedy = "give that server's logs, or discard the progress with --forget";
            out.push(PreflightFinding::new(PreflightCheck::OtherSource, found, remedy));
        }
    }

    /// Finds replicas and other readers of the target's binary log: they would not get the changes.
    fn check_readers(&mut self, out: &mut Vec<PreflightFinding>) -> Result<(), TargetFailure> {
        let readers = LogReaders::query(&mut self.connection, &self.facts).map_err(server_failure)?;
        self.unknown_readers = readers.unknown();
        if let Some(found) = readers.describe() {
            let found = format!("{found}, and would not contain these changes");
            let remedy = "--log writes the changes to it under the source's GTIDs, for replicas of the target; \
                          --no-log applies them without";
            out.push(PreflightFinding::new(PreflightCheck::ReplicasBelow, found, remedy));
        }
        Ok(())
    }

    /// Finds tables whose engine has no transactions. Several statements form one logged transaction. If each statement
    /// commits at once, the first statement takes the GTID, and the other statements get none.
    fn check_engines(
        &mut self,
        survey: &LogSurvey,
        out: &mut Vec<PreflightFinding>,
    ) -> Result<(), TargetFailure> {
        for name in survey.tables.keys() {
            if let Some(engine) =
                row_sql::nontransactional_engine(&mut self.connection, &name.database, &name.table)?
            {
                let table = format!(
                    "`{}`.`{}` uses {engine}, whose changes cannot be rolled back: applied as SQL, one transaction would \
                     become several in the target's binary log",
                    String::from_utf8_lossy(&name.database),
                    String::from_utf8_lossy(&name.table)
                );
                out.push(PreflightFinding::new(
                    PreflightCheck::Transactions,
                    table,
                    "use --apply-as binlog, or convert the table to InnoDB",
                ));
            }
        }
        Ok(())
    }

    fn check_tables(
        &mut self,
        survey: &LogSurvey,
        out: &mut Vec<PreflightFinding>,
    ) -> Result<(), TargetFailure> {
        for (name, shown) in &survey.tables {
            let there = self.read_columns(name)?;
            let hidden = match shown.hidden == HiddenColumns::Shown && shown.columns.len() > there.len() {
                true => self.count_index_expressions(name)?,
                false => 0,
            };
            if let Some(found) = difference(shown, &there, hidden) {
                let table = format!(
                    "`{}`.`{}` {found}",
                    String::from_utf8_lossy(&name.database),
                    String::from_utf8_lossy(&name.table)
                );
                out.push(PreflightFinding::new(
                    PreflightCheck::Tables,
                    table,
                    "restore the table as it was at the start of these logs",
                ));
            }
        }
        Ok(())
    }

    /// Reads a table's columns; empty if there is no such table.
    fn read_columns(&mut self, name: &TargetTableName) -> Result<Vec<InspectedColumn>, TargetFailure> {
        let columns = ServerCatalogue::new(&mut self.connection)
            .columns(&name.database, &name.table)
            .map_err(server_failure)?;
        Ok(columns.into_iter().map(InspectedColumn::new).collect())
    }

    /// Counts the expressions in a table's indexes. Each has a hidden column.
    fn count_index_expressions(&mut self, name: &TargetTableName) -> Result<usize, TargetFailure> {
        let parts = ServerCatalogue::new(&mut self.connection)
            .index_parts(&name.database, &name.table)
            .map_err(server_failure)?;
        Ok(parts.iter().filter(|part| part.column.is_none()).count())
    }
}

/// Reads the current definitions, which a dry run does not change.
impl TableDefinitions for TargetInspector {
    fn definition(
        &mut self,
        database: &[u8],
        table: &[u8],
    ) -> Result<Option<TargetTableDefinition>, TargetFailure> {
        table_definition::read_definition(&mut self.connection, database, table)
    }
}

/// Finds the privileges that the account lacks on the tables.
fn check_row_privileges(
    survey: &LogSurvey,
    grants: &AccountGrants,
    account: &str,
    out: &mut Vec<PreflightFinding>,
) {
    for name in survey.tables.keys() {
        let (database, table) =
            (String::from_utf8_lossy(&name.database), String::from_utf8_lossy(&name.table));
        let lacking = ROW_PRIVILEGES
            .into_iter()
            .filter(|right| !grants.has_on_table(&name.database, &name.table, right));
        let lacking: Vec<&str> = lacking.collect();
        if !lacking.is_empty() {
            let found = format!("{} on `{database}`.`{table}`, to apply row events", lacking.join(" and "));
            let remedy = format!(
                "GRANT {} ON `{database}`.`{table}` TO {account} (or BINLOG_ADMIN on all)",
                lacking.join(", ")
            );
            out.push(PreflightFinding::new(PreflightCheck::Privileges, found, remedy));
        }
    }
}

/// Returns true if the target has, or may have, transactions of a server in these logs.
fn knows_source(survey: &LogSurvey, has: &GtidSet, applied: &AppliedState) -> bool {
    let all = survey.previous.union(&survey.gtids).union(&survey.passed_over);
    let ours = || all.iter().map(|(tsid, _)| tsid.uuid);
    let is_of_one = has.iter().any(|(tsid, _)| ours().any(|uuid| uuid == tsid.uuid));
    // Without GTIDs, a saved position does not show whether transactions of another server are applied.
    is_of_one || applied.progress.position.is_none() && has.is_empty()
}

/// A column on the target, as `information_schema` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct InspectedColumn {
    /// For example `decimal`.
    data_type: String,
    is_unsigned: bool,
    /// Precision and scale of a decimal.
    digits: (u8, u8),
    /// Digits of fractional seconds.
    fraction: u8,
}

impl InspectedColumn {
    fn new(column: ServerColumn) -> Self {
        let small = |number: u64| u8::try_from(number).unwrap_or(0);
        Self {
            is_unsigned: column.is_unsigned(),
            digits: (small(column.precision), small(column.scale)),
            fraction: small(column.fraction),
            data_type: column.data_type,
        }
    }

    /// Returns the target's type and the log's type if they differ: first the type itself, then attributes that would
    /// make the target silently store another value.
    fn difference(&self, (column, is_unsigned): (ColumnType, Option<bool>)) -> Option<(String, String)> {
        let (names, name) = (column.data_types(), &self.data_type);
        if !names.is_empty() && !names.contains(&name.as_str()) {
            return Some((name.clone(), names[0].to_owned()));
        }
        let signed = |is_unsigned| format!("{name} {}", if is_unsigned { "unsigned" } else { "signed" });
        // Logs mark YEAR as unsigned; definitions do not.
        let is_unsigned = is_unsigned.filter(|_| column != ColumnType::Year);
        if let Some(logged) = is_unsigned.filter(|logged| *logged != self.is_unsigned) {
            return Some((signed(self.is_unsigned), signed(logged)));
        }
        match column {
            ColumnType::Decimal { precision, scale } if (precision, scale) != self.digits => {
                let (total, after_point) = self.digits;
                Some((format!("{name}({total},{after_point})"), format!("{name}({precision},{scale})")))
            }
            ColumnType::Timestamp { fraction }
            | ColumnType::DateTime { fraction }
            | ColumnType::Time { fraction }
                if fraction != self.fraction =>
            {
                Some((format!("{name}({})", self.fraction), format!("{name}({fraction})")))
            }
            _ => None,
        }
    }
}

/// Describes the first difference between a table and the columns in the logs. `hidden` is the number of trailing
/// columns that only the logs have.
fn difference(shown: &LogTable, there: &[InspectedColumn], hidden: usize) -> Option<String> {
    if there.is_empty() {
        return Some("does not exist on the target, or this account cannot see it".into());
    }
    let (logged, count) = (shown.columns.len(), there.len());
    if logged == count + hidden + 1 && shown.has_invisible_key {
        // The source generated an invisible primary key; on the target, generation is off.
        return None;
    }
    if logged != count && logged != count + hidden {
        let columns = if count == 1 { "column" } else { "columns" };
        return Some(format!("has {count} {columns} on the target, but {logged} in the logs"));
    }
    shown.columns.iter().zip(there).enumerate().find_map(|(index, (column, there))| {
        let (there, logged) = there.difference(*column)?;
        Some(format!("has a column {} that is {there} on the target, but {logged} in the logs", index + 1))
    })
}

/// Quotes `user@host` for SQL.
fn quoted_account(account: &str) -> String {
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    format!("{}@{}", quote::quote_plain_text(user), quote::quote_plain_text(host))
}

#[cfg(test)]
mod tests {
    use binlog::ColumnType;
    use replay::LogTable;
    use replay::row_reader::HiddenColumns;

    use super::{InspectedColumn, difference};

    /// Parses a column of the target: its data type, and for `decimal:4:2` also precision and scale.
    fn there(word: &str) -> InspectedColumn {
        let mut parts = word.split(':');
        let data_type = parts.next().unwrap().to_owned();
        let mut number = || parts.next().map_or(0, |number| number.parse().unwrap());
        match data_type.as_str() {
            "decimal" => {
                InspectedColumn { data_type, digits: (number(), number()), ..InspectedColumn::default() }
            }
            _ => InspectedColumn { data_type, fraction: number(), ..InspectedColumn::default() },
        }
    }

    fn check(columns: &[ColumnType], types: &str, expected: Option<&str>) {
        for has_invisible_key in [false, true] {
            let columns = columns.iter().map(|column| (*column, None)).collect();
            let shown = LogTable { columns, has_invisible_key, hidden: HiddenColumns::LeftOut };
            let types: Vec<InspectedColumn> = types.split_whitespace().map(there).collect();
            let found = difference(&shown, &types, 0);
            let is_lacking_key = has_invisible_key && types.len() + 1 == shown.columns.len();
            let expected = expected.filter(|_| !is_lacking_key);
            assert_eq!(found.as_deref(), expected, "{shown:?} {types:?}");
        }
    }

    #[test]
    fn numbers_and_times_differ_in_more_than_their_type() {
        let (decimal, time) =
            (ColumnType::Decimal { precision: 10, scale: 2 }, ColumnType::DateTime { fraction: 3 });
        check(&[decimal, time], "decimal:10:2 datetime:3", None);
        check(
            &[decimal],
            "decimal:8:1",
            Some("has a column 1 that is decimal(8,1) on the target, but decimal(10,2) in the logs"),
        );
        check(
            &[time],
            "datetime",
            Some("has a column 1 that is datetime(0) on the target, but datetime(3) in the logs"),
        );
        let signed = |is_unsigned, logged| {
            let there =
                InspectedColumn { data_type: "int".into(), is_unsigned, ..InspectedColumn::default() };
            there.difference((ColumnType::Int, logged))
        };
        assert_eq!(signed(true, Some(true)), None);
        assert_eq!(signed(true, None), None, "logs before 8.0.1 do not state it");
        assert_eq!(signed(true, Some(false)), Some(("int unsigned".into(), "int signed".into())));
        assert_eq!(signed(false, Some(true)), Some(("int signed".into(), "int unsigned".into())));
        let year = InspectedColumn { data_type: "year".into(), ..InspectedColumn::default() };
        assert_eq!(year.difference((ColumnType::Year, Some(true))), None);
    }

    #[test]
    fn expressions_of_indexes_are_columns_of_the_logs_alone() {
        let check = |hidden, expected: Option<&str>| {
            let columns = vec![(ColumnType::Int, None), (ColumnType::Int, None), (ColumnType::BigInt, None)];
            let shown = LogTable { columns, has_invisible_key: false, hidden: HiddenColumns::Shown };
            assert_eq!(difference(&shown, &[there("int"), there("int")], hidden).as_deref(), expected);
        };
        let differs = Some("has 2 columns on the target, but 3 in the logs");
        check(0, differs);
        check(1, None);
        check(2, differs);
    }

    #[test]
    fn tables_differ_in_number_and_type_of_columns() {
        let (int, text) = (ColumnType::Int, ColumnType::Varchar { size_max: 80 });
        check(&[int, text], "int varchar", None);
        check(&[int, text], "int varbinary", None);
        check(&[int, ColumnType::Unknown], "int geometry", None);
        check(&[int], "bigint", Some("has a column 1 that is bigint on the target, but int in the logs"));
        check(
            &[int, text],
            "int text",
            Some("has a column 2 that is text on the target, but varchar in the logs"),
        );
        check(&[int, text], "int", Some("has 1 column on the target, but 2 in the logs"));
        check(&[int], "int int", Some("has 2 columns on the target, but 1 in the logs"));
        check(&[int, int, int], "", Some("does not exist on the target, or this account cannot see it"));
    }
}
