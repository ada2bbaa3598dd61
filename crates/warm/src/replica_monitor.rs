//! Status queries on a replica.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use binlog::Flavour;
use binlog::gtid::{Gtid, GtidSet};
use binlog::server_error::{PARSE_ERROR, UNKNOWN_SYSTEM_VARIABLE};
use servers::{GTIDS_SINCE, NamedRow, ResultRow, ServerAddress, ServerFacts, SqlConnection};
use sql::{FilterRule, ReplicationFilter};

use crate::error::WarmError;
use crate::relay_position::RelayPosition;
use crate::search_plan::ChangeBuffering;
use crate::statement::FunctionSet;

/// Connection to a replica for status queries.
#[derive(Debug)]
pub(crate) struct ReplicaMonitor {
    connection: SqlConnection,
    status: &'static str,
    /// True as long as the server reports the rows changed by open transactions.
    reports_rows: bool,
    /// The previous report: transactions of the log by InnoDB's transaction ID.
    reported_transactions: HashMap<String, String>,
    /// Properties of the replica.
    pub(crate) properties: ReplicaFacts,
}

/// Properties of a replica.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaFacts {
    pub(crate) flavour: Flavour,
    /// Change buffering.
    pub(crate) buffering: ChangeBuffering,
    /// Built-in functions of the server.
    pub(crate) functions: FunctionSet,
    /// Number of pages in the old sublist of the replica's buffer pool.
    pub(crate) old_pages: u64,
    /// Number of applier threads.
    pub(crate) workers: u64,
    data_directory: PathBuf,
    relay_index: Option<PathBuf>,
}

/// A channel, and the position of its applier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaChannel {
    /// Name; empty for the default channel.
    pub(crate) name: String,
    /// Position of the applier; `None` while the replica does not report it.
    pub(crate) position: Option<RelayPosition>,
    /// Name of the applier's relay log, as reported.
    pub(crate) log: String,
    /// True if the applier runs.
    pub(crate) is_applying: bool,
    /// Lag that the replica reports, in seconds.
    pub(crate) lag_s: Option<u64>,
    /// Replication filter and database rewrites.
    pub(crate) filter: ReplicationFilter,
    /// Known uncommitted changes beyond the position; `None` if they were not queried.
    pub(crate) uncommitted: Option<Vec<UncommittedRows>>,
}

/// Rows that an applier has changed beyond its reported position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UncommittedRows {
    /// Number of rows.
    pub(crate) rows: u64,
    /// Transaction of the rows; `None` if the rows are the next ones in the log, in any transaction.
    pub(crate) gtid: Option<Gtid>,
}

/// Statements that show the replication status, newest first. Each server has at least one of them.
const STATUS_STATEMENTS: [&str; 3] = ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS", "SHOW ALL SLAVES STATUS"];

/// Query for the rows changed by open transactions of applier threads. InnoDB counts rows like the log. A transaction
/// without a GTID has the GTID `ANONYMOUS`. The answer may be old: InnoDB repeats its last answer to queries within a
/// tenth of a second.
const UNCOMMITTED_QUERY: &str = "SELECT w.channel_name, w.applying_transaction, x.trx_rows_modified, x.trx_id
     FROM performance_schema.replication_applier_status_by_worker w
     JOIN performance_schema.threads t ON t.thread_id = w.thread_id
     JOIN information_schema.innodb_trx x ON x.trx_mysql_thread_id = t.processlist_id";
const ANONYMOUS: &str = "ANONYMOUS";

impl ReplicaMonitor {
    /// Connects to a replica, and queries its properties.
    ///
    /// # Errors
    ///
    /// Fails if the connection or a query fails.
    pub(crate) fn open(address: &ServerAddress) -> Result<Self, WarmError> {
        let mut connection =
            SqlConnection::open(address).map_err(WarmError::server("log in to the replica"))?;
        let properties =
            query_properties(&mut connection).map_err(WarmError::server("query the replica's properties"))?;
        // MariaDB's SHOW REPLICA STATUS shows the default channel alone.
        let order: &[usize] = match properties.flavour {
            Flavour::MariaDb => &[2, 1],
            Flavour::MySql => &[0, 1],
        };
        for (at, number) in order.iter().enumerate() {
            match connection.named_rows(STATUS_STATEMENTS[*number]) {
                Ok(_) => {
                    return Ok(Self {
                        connection,
                        status: STATUS_STATEMENTS[*number],
                        reports_rows: true,
                        reported_transactions: HashMap::new(),
                        properties,
                    });
                }
                Err(error) if error.code() == Some(PARSE_ERROR) && at + 1 < order.len() => {}
                Err(cause) => return Err(WarmError::Server { doing: "query the replication status", cause }),
            }
        }
        Err(WarmError::Unsuitable(
            "the server supports no statement that shows its replication status".into(),
        ))
    }

    /// Connects to a server whose replication status is not needed.
    ///
    /// # Errors
    ///
    /// Fails if the connection or a query fails.
    pub(crate) fn open_without_replication(address: &ServerAddress) -> Result<Self, WarmError> {
        let mut connection =
            SqlConnection::open(address).map_err(WarmError::server("log in to the server"))?;
        let properties =
            query_properties(&mut connection).map_err(WarmError::server("query the server's properties"))?;
        Ok(Self {
            connection,
            status: STATUS_STATEMENTS[0],
            reports_rows: true,
            reported_transactions: HashMap::new(),
            properties,
        })
    }

    /// Queries the channels and their positions.
    ///
    /// # Errors
    ///
    /// Fails if the query fails.
    pub(crate) fn channels(&mut self) -> Result<Vec<ReplicaChannel>, WarmError> {
        let rows = self
            .connection
            .named_rows(self.status)
            .map_err(WarmError::server("query the replication status"))?;
        Ok(rows.iter().map(channel).collect())
    }

    /// Queries `gtid_executed`; returns an empty set for MariaDB.
    ///
    /// # Errors
    ///
    /// Fails if the query fails, or its result is no GTID set.
    pub(crate) fn executed_gtids(&mut self) -> Result<GtidSet, WarmError> {
        if self.properties.flavour == Flavour::MariaDb {
            return Ok(GtidSet::new());
        }
        let failed = WarmError::server("query gtid_executed");
        let found =
            self.connection.value("SELECT @@GLOBAL.gtid_executed").map_err(&failed)?.unwrap_or_default();
        found.parse().map_err(|_| failed(unexpected("gtid_executed", found, "a GTID set")))
    }

    /// Queries the rows that the channels' appliers have changed in open transactions. This needs MySQL 8.0 or later,
    /// and the privilege PROCESS; otherwise no rows are reported.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost.
    pub(crate) fn load_uncommitted(&mut self, channels: &mut [ReplicaChannel]) -> Result<(), WarmError> {
        if !self.reports_rows || self.properties.flavour == Flavour::MariaDb {
            return Ok(());
        }
        for channel in channels.iter_mut() {
            channel.uncommitted = Some(Vec::new());
        }
        let before = std::mem::take(&mut self.reported_transactions);
        for row in self.query_uncommitted(UNCOMMITTED_QUERY)? {
            let text = |at: usize| {
                String::from_utf8_lossy(row.get(at).and_then(|text| text.as_deref()).unwrap_or_default())
            };
            let (name, transaction) = (text(0), text(1));
            let gtid = transaction.parse::<Gtid>().ok();
            let id = text(3).into_owned();
            let reported = before.get(&id).cloned().unwrap_or_else(|| transaction.to_string());
            let is_old = reported != transaction;
            self.reported_transactions.insert(id, reported);
            if is_old {
                continue; // The thread now applies another transaction.
            }
            let channel = channels.iter_mut().find(|channel| channel.name == name);
            let under_way = channel.and_then(|channel| channel.uncommitted.as_mut());
            if let (Some(under_way), Ok(rows)) = (under_way, text(2).parse())
                && (gtid.is_some() || transaction == ANONYMOUS)
            {
                under_way.push(UncommittedRows { rows, gtid });
            }
        }
        for under_way in channels.iter_mut().filter_map(|channel| channel.uncommitted.as_mut()) {
            // Several transactions without a GTID cannot be distinguished.
            let is_known = under_way.len() == 1;
            under_way.retain(|under_way| under_way.gtid.is_some() || is_known);
        }
        Ok(())
    }

    /// Queries the rows that these sessions have changed in open transactions, in total. The sessions apply roughly in
    /// log order.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost.
    pub(crate) fn uncommitted_in(&mut self, sessions: &[u32]) -> Result<UncommittedRows, WarmError> {
        if !self.reports_rows || sessions.is_empty() {
            return Ok(UncommittedRows::default());
        }
        let ids: Vec<String> = sessions.iter().map(u32::to_string).collect();
        let query = format!(
            "SELECT IFNULL(SUM(trx_rows_modified), 0) FROM information_schema.innodb_trx
             WHERE trx_mysql_thread_id IN ({})",
            ids.join(",")
        );
        let rows = self.query_uncommitted(&query)?.into_iter().flatten().flatten().next();
        let rows = rows.and_then(|rows| String::from_utf8(rows).ok()?.parse().ok());
        Ok(UncommittedRows { rows: rows.unwrap_or(0), gtid: None })
    }

    /// Queries uncommitted rows. If the server refuses, returns no rows, and sends no further queries.
    fn query_uncommitted(&mut self, query: &str) -> Result<Vec<ResultRow>, WarmError> {
        match self.connection.rows(query) {
            Ok(rows) => Ok(rows),
            Err(servers::ConnectionError::Refused { .. }) => {
                self.reports_rows = false;
                Ok(Vec::new())
            }
            Err(cause) => Err(WarmError::Server { doing: "query uncommitted rows", cause }),
        }
    }

    /// Queries a status variable.
    ///
    /// # Errors
    ///
    /// Fails if the query fails, or the variable is no number.
    pub(crate) fn counter(&mut self, name: &'static str) -> Result<u64, WarmError> {
        let failed = WarmError::server("query the server's status");
        let rows = self.connection.rows(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).map_err(&failed)?;
        let value = rows.into_iter().next().and_then(|row| row.into_iter().nth(1)).flatten();
        let value = String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        value.parse().map_err(|_| failed(unexpected(name, value, "a number")))
    }

    /// Returns the connection for further queries.
    pub(crate) const fn connection(&mut self) -> &mut SqlConnection {
        &mut self.connection
    }
}

impl ReplicaChannel {
    /// Returns a channel without an applier: all logs from this position on are ahead.
    pub(crate) fn without_applier(position: RelayPosition) -> Self {
        let (name, log) = (String::new(), String::new());
        let (filter, under_way) = (ReplicationFilter::default(), None);
        Self {
            name,
            position: Some(position),
            log,
            is_applying: false,
            lag_s: None,
            filter,
            uncommitted: under_way,
        }
    }

    /// Returns a name for error messages.
    pub(crate) fn title(&self) -> String {
        match self.name.as_str() {
            "" => "the default channel (empty name)".to_owned(),
            name => name.to_owned(),
        }
    }
}

impl ReplicaFacts {
    /// Returns the index of a channel's relay logs.
    ///
    /// # Errors
    ///
    /// Fails if the replica does not report their location.
    pub(crate) fn relay_index(&self, channel: &ReplicaChannel) -> Result<PathBuf, WarmError> {
        let reported = self.relay_index.as_deref().map(|index| channel_relay_index(index, &channel.name));
        let index = reported.or_else(|| unset_relay_index(&self.data_directory, &channel.log));
        index.ok_or_else(|| {
            WarmError::Unsuitable(
                "the replica does not report the location of its relay logs: give it with --relay-logs"
                    .into(),
            )
        })
    }
}

/// Returns the index beside a channel's relay log of this name. MariaDB without the option `relay_log` leaves its
/// variables empty, and writes the logs into its data directory.
fn unset_relay_index(data_directory: &Path, log: &str) -> Option<PathBuf> {
    let (stem, _) = log.rsplit_once('.')?;
    Some(data_directory.join(format!("{stem}.index")))
}

/// Returns the index of a channel: `relay.index` becomes `relay-NAME.index` for a named channel.
fn channel_relay_index(index: &Path, channel: &str) -> PathBuf {
    if channel.is_empty() {
        return index.to_owned();
    }
    let stem = index.file_stem().unwrap_or_default().to_string_lossy();
    index.with_file_name(format!("{stem}-{}.index", encode_file_name(&channel.to_lowercase())))
}

/// Encodes a name for file names as MySQL does: characters other than letters, digits and underscores become `@` and
/// four hexadecimal digits.
fn encode_file_name(name: &str) -> String {
    let mut out = String::new();
    for character in name.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => out.push(character),
            other => out.push_str(&format!("@{:04x}", u32::from(other))),
        }
    }
    out
}

fn query_properties(connection: &mut SqlConnection) -> Result<ReplicaFacts, servers::ConnectionError> {
    let server = ServerFacts::query(connection)?;
    server.require_version(GTIDS_SINCE)?;
    let page_size = number(connection, "innodb_page_size")?.max(1);
    let pages = number(connection, "innodb_buffer_pool_size")? / page_size;
    let free = free_pages(connection, pages)?;
    let old_percent = number(connection, "innodb_old_blocks_pct")?;
    let buffering = variable(connection, "innodb_change_buffering")?;
    let flavour = match server.is_mariadb {
        true => Flavour::MariaDb,
        false => Flavour::MySql,
    };
    let workers = match flavour {
        Flavour::MariaDb => variable(connection, "slave_parallel_threads")?,
        Flavour::MySql => match variable(connection, "replica_parallel_workers")? {
            None => variable(connection, "slave_parallel_workers")?,
            workers => workers,
        },
    };
    let index = variable(connection, "relay_log_index")?.filter(|index| !index.is_empty());
    let basename = variable(connection, "relay_log_basename")?.filter(|name| !name.is_empty());
    let data_directory = PathBuf::from(variable(connection, "datadir")?.unwrap_or_default());
    let index = index.or_else(|| basename.map(|name| format!("{name}.index")));
    Ok(ReplicaFacts {
        flavour,
        functions: FunctionSet::for_version(&server.version),
        buffering: ChangeBuffering::from_setting(buffering.as_deref().unwrap_or("none")),
        old_pages: (pages - free) * old_percent / 100,
        workers: workers.and_then(|workers| workers.parse().ok()).unwrap_or(0).max(1),
        relay_index: index.map(|index| data_directory.join(index)),
        data_directory,
    })
}

/// Returns the number of buffer pool pages that the page cleaner keeps free: `innodb_lru_scan_depth` per instance. In a
/// small pool, these are a large part of the pages.
fn free_pages(connection: &mut SqlConnection, pages: u64) -> Result<u64, servers::ConnectionError> {
    let number =
        |found: Option<String>, otherwise| found.and_then(|found| found.parse().ok()).unwrap_or(otherwise);
    let each: u64 = number(variable(connection, "innodb_lru_scan_depth")?, 0);
    // MariaDB has one instance, and no variable for the number of instances.
    let instances: u64 = number(variable(connection, "innodb_buffer_pool_instances")?, 1);
    Ok(each.saturating_mul(instances).min(pages / 2))
}

/// Queries a global variable; `None` if the server does not have it.
fn variable(connection: &mut SqlConnection, name: &str) -> Result<Option<String>, servers::ConnectionError> {
    match connection.value(&format!("SELECT @@GLOBAL.{name}")) {
        Err(error) if error.code() == Some(UNKNOWN_SYSTEM_VARIABLE) => Ok(None),
        result => result,
    }
}

fn number(connection: &mut SqlConnection, name: &'static str) -> Result<u64, servers::ConnectionError> {
    let found = variable(connection, name)?.unwrap_or_default();
    found.parse().map_err(|_| unexpected(name, found, "a number"))
}

fn unexpected(query: &'static str, found: String, expected: &'static str) -> servers::ConnectionError {
    servers::ConnectionError::UnexpectedAnswer { query, found, expected }
}

fn channel(row: &NamedRow) -> ReplicaChannel {
    let value = |names: [&str; 2]| {
        let found = row.iter().find(|(name, _)| names.contains(&name.as_str()));
        found.and_then(|(_, value)| value.as_deref()).map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let log = value(["Relay_Log_File"; 2]).unwrap_or_default();
    let offset = value(["Relay_Log_Pos"; 2]).and_then(|offset| offset.parse().ok());
    ReplicaChannel {
        name: value(["Channel_Name", "Connection_name"]).unwrap_or_default(),
        position: offset.and_then(|offset| RelayPosition::of(&log, offset)),
        log,
        is_applying: value(["Replica_SQL_Running", "Slave_SQL_Running"]).is_some_and(|is| is == "Yes"),
        lag_s: value(["Seconds_Behind_Source", "Seconds_Behind_Master"]).and_then(|lag| lag.parse().ok()),
        filter: filter(&value),
        uncommitted: None,
    }
}

/// Returns the channel's replication filter from the lists in its status. If the lists cannot be parsed, the filter is
/// empty, and there are more searches than the applier needs.
fn filter(value: &dyn Fn([&str; 2]) -> Option<String>) -> ReplicationFilter {
    type RuleConstructor = fn(String) -> FilterRule;
    const RULES: [(&str, RuleConstructor); 6] = [
        ("Replicate_Do_DB", FilterRule::DoDatabase),
        ("Replicate_Ignore_DB", FilterRule::IgnoreDatabase),
        ("Replicate_Do_Table", FilterRule::DoTable),
        ("Replicate_Ignore_Table", FilterRule::IgnoreTable),
        ("Replicate_Wild_Do_Table", FilterRule::WildDoTable),
        ("Replicate_Wild_Ignore_Table", FilterRule::WildIgnoreTable),
    ];
    let mut rules = Vec::new();
    for (column, rule) in RULES {
        let names = value([column; 2]).unwrap_or_default();
        rules.extend(names.split(',').filter(|name| !name.is_empty()).map(|name| rule(name.to_owned())));
    }
    // MySQL: `(from,to),(from,to)`; MariaDB: `from->to,from->to`.
    let rewrites = value(["Replicate_Rewrite_DB"; 2]).unwrap_or_default();
    let names = rewrites.replace("->", ",").replace(['(', ')'], "");
    let names: Vec<&str> = names.split(',').collect();
    let pairs = names.chunks_exact(2).map(|pair| FilterRule::RewriteDatabase(pair[0].into(), pair[1].into()));
    rules.extend(pairs);
    ReplicationFilter::new(rules).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{channel, channel_relay_index, unset_relay_index};
    use crate::relay_position::RelayPosition;

    #[test]
    fn channels_have_separate_logs() {
        let check = |channel, expected: &str| {
            assert_eq!(channel_relay_index(Path::new("/d/relay.index"), channel), Path::new(expected));
        };
        check("", "/d/relay.index");
        check("East_1", "/d/relay-east_1.index");
        check("a-b", "/d/relay-a@002db.index");
    }

    #[test]
    fn logs_of_unset_options_are_in_the_data_directory() {
        let index = |log| unset_relay_index(Path::new("/d"), log);
        assert_eq!(index("db.example-relay-bin.000002"), Some("/d/db.example-relay-bin.index".into()));
        assert_eq!(index(""), None);
    }

    #[test]
    fn replication_rules_become_a_filter() {
        let check = |rewrites: &str| {
            let row: Vec<_> = [
                ("Replicate_Do_DB", "x,y"),
                ("Replicate_Ignore_Table", ""),
                ("Replicate_Wild_Ignore_Table", "x.old%"),
                ("Replicate_Rewrite_DB", rewrites),
            ]
            .map(|(name, value)| (name.to_owned(), Some(value.as_bytes().to_vec())))
            .into();
            let filter = channel(&row).filter;
            let takes = |database: &str, table: &str| {
                let database = filter.target_database(database.as_bytes());
                filter.accepts_database(database) && filter.accepts_tables([(database, table.as_bytes())])
            };
            [takes("a", "t"), takes("b", "t"), takes("a", "old_t"), takes("y", "t"), takes("z", "t")]
        };
        assert_eq!(check("(a,x),(b,y)"), [true, true, false, true, false]);
        assert_eq!(check("a->x,b->y"), [true, true, false, true, false]);
        assert_eq!(check(""), [false, false, false, true, false]);
    }

    #[test]
    fn old_and_new_status_columns_are_equivalent() {
        let row = |words: [&str; 4]| {
            let values = ["relay.000007", "4711", "Yes", "12"];
            let named = words.iter().zip(values);
            named.map(|(name, value)| ((*name).to_owned(), Some(value.as_bytes().to_vec()))).collect()
        };
        let new: Vec<_> =
            row(["Relay_Log_File", "Relay_Log_Pos", "Replica_SQL_Running", "Seconds_Behind_Source"]);
        let old: Vec<_> =
            row(["Relay_Log_File", "Relay_Log_Pos", "Slave_SQL_Running", "Seconds_Behind_Master"]);
        let found = channel(&new);
        assert_eq!(found, channel(&old));
        assert_eq!(found.position, Some(RelayPosition { log: 7.into(), offset: 4711 }));
        assert_eq!((found.is_applying, found.lag_s), (true, Some(12)));
    }
}
