//! Every command on every server: the servers in `BINTIDE_SERVERS`, or six by default. docs/reference/servers.md
//! has the results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use ::replay::CommitOrder;
use anyhow::{Context, Result, ensure};
use e2e::archived::check_restored_logs;
use e2e::as_sql::{address, are_equal, replay, rows};
use e2e::command;
use e2e::compare::{LOGS, Run};
use e2e::identity;
use e2e::logs::Logs;
use e2e::matrix::{changes_shown, check_each, log_printer, shown_by};
use e2e::program::bintide;
use e2e::received::same_logs;
use e2e::relayed::RelayProcess;
use e2e::replays::source;
use e2e::warming::{Warming, has_no_errors};
use mysql_target::ApplyAs;
use serde_json::{Value, json};
use servers::{ServerCatalogue, ServerColumn, ServerIndexPart, SqlConnection};
use tempfile::TempDir;
use testkit::{Launch, ServerFlavour, TestPackage, TestServer, wait_until};

fn bintide_on(arguments: &[&str], logs: &[PathBuf]) -> Result<Output> {
    let mut command = Command::new(bintide()?);
    command.env_clear().args(arguments).args(logs);
    Ok(command.output()?)
}

/// Returns the standard output of a successful run.
fn printed(output: Output) -> Result<Vec<u8>> {
    let (text, end) = (String::from_utf8_lossy(&output.stderr), output.stdout.len().saturating_sub(2000));
    let shown = String::from_utf8_lossy(&output.stdout[end..]);
    ensure!(output.status.success(), "{}: {text}{shown}", output.status);
    Ok(output.stdout)
}

fn document(output: Output) -> Result<Value> {
    Ok(serde_json::from_slice(&printed(output)?)?)
}

/// Returns the chosen MySQL servers.
fn mysql_servers() -> Result<Vec<TestPackage>> {
    let chosen = TestPackage::from_env()?.into_iter();
    Ok(chosen.filter(|package| package.flavour() == Some(ServerFlavour::Mysql)).collect())
}

#[test]
fn catalogues_of_all_servers_have_the_same_columns_and_indexes() -> Result<()> {
    check_each(&TestPackage::from_env()?, |matrix| {
        let server = matrix.target()?;
        server.sql(
            "create database c; create table c.t (
               a int unsigned not null auto_increment, b varchar(20) character set latin1, c decimal(5,2),
               d timestamp not null default current_timestamp on update current_timestamp,
               primary key (a), unique key u (c, d), key k (b(3))) engine=innodb",
        )?;
        let mut connection = SqlConnection::open(&address(&server, "root")?)?;
        let mut catalogue = ServerCatalogue::new(&mut connection);
        let table = catalogue.table(b"c", b"t")?.context("the catalogue has no table c.t")?;
        ensure!(
            (table.engine.as_deref(), table.table_type.as_str()) == (Some("InnoDB"), "BASE TABLE"),
            "{table:?}"
        );
        ensure!(catalogue.table(b"c", b"none")?.is_none() && catalogue.columns(b"c", b"none")?.is_empty());
        let columns = catalogue.columns(b"c", b"t")?;
        let shown = |column: &ServerColumn| {
            format!(
                "{} {} {} {} {} {:?} {} {}.{} {} {}",
                column.index,
                column.name,
                column.data_type,
                column.is_unsigned(),
                column.is_nullable,
                column.collation_id,
                column.octets,
                column.precision,
                column.scale,
                column.extra.contains("auto_increment"),
                column.extra.contains("on update")
            )
        };
        let found: Vec<String> = columns.iter().map(shown).collect();
        let expected = [
            "0 a int true false None 0 10.0 true false",
            "1 b varchar false true Some(8) 20 0.0 false false",
            "2 c decimal false true None 0 5.2 false false",
            "3 d timestamp false false None 0 0.0 false true",
        ];
        ensure!(found == expected, "{found:#?}");
        let parts = catalogue.index_parts(b"c", b"t")?;
        let shown = |part: &ServerIndexPart| {
            let column = part.column.as_deref().unwrap_or("?");
            format!("{} {} {column} {:?} {}", part.index, part.is_unique, part.prefix, part.is_nullable)
        };
        let found: Vec<String> = parts.iter().map(shown).collect();
        let expected = [
            "PRIMARY true a None false",
            "k false b Some(3) true",
            "u true c None true",
            "u true d None false",
        ];
        ensure!(found == expected, "{found:#?}");
        ensure!(catalogue.invisible_indexes(b"c", b"t")?.is_empty());
        Ok(())
    })
}

#[test]
fn archives_restore_each_log() -> Result<()> {
    check_each(&TestPackage::from_env()?, |server| check_restored_logs(&server.logs))
}

#[test]
fn dump_prints_what_mysqlbinlog_prints() -> Result<()> {
    check_each(&TestPackage::from_env()?, |server| {
        let mut runs = Vec::new();
        for log in &server.logs {
            let name = log.file_name().context("a log without a name")?.to_string_lossy().into_owned();
            for options in
                [&[][..], &["-vv", "--base64-output=decode-rows"], &["--hexdump"], &["--short-form"]]
            {
                let log = format!("{LOGS}/{name}");
                runs.push(Run::new(options.iter().map(|option| (*option).to_owned()).chain([log])));
            }
        }
        identity::check_all(server.package.name(), &Logs::read(&server.directory)?, &runs)
    })
}

#[test]
fn dumps_restore_equal_rows() -> Result<()> {
    // The output of mysqlbinlog 9.7 for MySQL 5.6 and MariaDB does not run on those servers.
    let servers: Vec<TestPackage> =
        mysql_servers()?.into_iter().filter(|package| package.version() >= (5, 7)).collect();
    check_each(&servers, |server| {
        let target = server.target()?;
        let text = printed(bintide_on(&["dump"], &server.logs)?)?;
        target.client().sql_bytes(&text)?;
        are_equal(&server.server, &target, rows)
    })
}

#[test]
fn verify_finds_no_damage() -> Result<()> {
    check_each(&TestPackage::from_env()?, |server| printed(bintide_on(&["verify"], &server.logs)?).map(drop))
}

#[test]
fn stats_counts_the_rows_that_mysqlbinlog_prints() -> Result<()> {
    check_each(&TestPackage::from_env()?, |server| {
        let report = document(bintide_on(&["stats", "--json"], &server.logs)?)?;
        let expected = changes_shown(&shown_by(log_printer(server.package), &server.logs)?);
        let found = ["insert", "update", "delete"].map(|kind| report["totals"][kind]["rows"].as_u64());
        let expected = expected.map(|count| u64::try_from(count).ok());
        ensure!(found == expected && expected[0] > Some(20), "{found:?}, not {expected:?}");
        Ok(())
    })
}

/// `undo` restores the rows of each server, and `history` lists the changes of a row with the server's column names.
#[test]
fn changes_are_listed_and_undone() -> Result<()> {
    const ROWS: &str = "select * from u.t order by id";
    check_each(&mysql_servers()?, |matrix| {
        let server = matrix.target()?;
        server.sql(
            "create database u; use u; flush logs;
            create table t (id int primary key, a varchar(20), n int unsigned, d decimal(8,2)) engine=innodb;
            insert into t values (1, 'one', 1, 1.5), (2, 'two', 4000000000, -2.5), (3, null, 3, null); flush logs",
        )?;
        let (kept, before) = (server.binlogs()?.len(), server.sql(ROWS)?);
        server.sql(
            "use u; begin; insert into t values (4, 'four', 4, 4); update t set a = 'new', n = n - 1 where id < 3;
            commit; delete from t where id = 3; update t set d = null where id = 2; flush logs",
        )?;
        let after = server.sql(ROWS)?;
        let logs = server.binlogs()?;
        let (logs, undone) = (&logs[1..logs.len() - 1], &logs[kept - 1..logs.len() - 1]);
        check_history(&server, logs)?;
        let to = command::address("root", &server);
        if is_too_old(matrix.package) {
            // This server does not support the row events of an inverse.
            let script = printed(bintide_on(
                &["undo", "--table=u.t", "--no-defaults", "--sql", "--to", &to],
                undone,
            )?)?;
            server.client().sql_bytes(&script)?;
        } else {
            printed(bintide_on(&["undo", "--table=u.t", "--no-defaults", "--to", &to], undone)?)?;
        }
        let restored = server.sql(ROWS)?;
        ensure!(restored == before && after != before, "{restored}\ninstead of\n{before}");
        Ok(())
    })
}

fn check_history(server: &TestServer, logs: &[PathBuf]) -> Result<()> {
    let to = command::address("root", server);
    let arguments = ["history", "--json", "--table=u.t", "--where=id=2", "--no-defaults", "--schema", &to];
    let lines = String::from_utf8(printed(bintide_on(&arguments, logs)?)?)?;
    let lines: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let changes: Vec<_> = lines.iter().map(|line| line["change"].as_str().unwrap_or_default()).collect();
    ensure!(changes == ["INSERT", "UPDATE", "UPDATE"], "{lines:?}");
    let expected = json!([
        {"column": "a", "before": "two", "after": "new"},
        {"column": "n", "before": 4_000_000_000_u32, "after": 3_999_999_999_u32}
    ]);
    ensure!(lines[1]["values"] == expected, "{}", lines[1]);
    Ok(())
}

/// Returns the final rows of a stream, ordered by `id`: one column as text.
fn left(records: &[u8], table: &str, column: &str) -> Result<Vec<String>> {
    let mut rows = std::collections::BTreeMap::new();
    for line in records.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let record: Value = serde_json::from_slice(line)?;
        // The table `larger` was called `large` when its rows were logged.
        if !record["table"]
            .as_str()
            .is_some_and(|name| name == table || name.len() > 4 && table.starts_with(name))
        {
            continue;
        }
        let id = record["data"]["id"].as_i64();
        match record["type"].as_str() {
            Some("delete") => drop(rows.remove(&id)),
            Some("insert" | "update" | "bootstrap-insert") => {
                rows.insert(id, record["data"][column].to_string());
            }
            _ => {}
        }
    }
    Ok(rows.into_values().collect())
}

/// Tables and columns whose values have the same text in SQL and in JSON.
const STREAMED: [(&str, &str); 4] = [("n", "g"), ("n", "l"), ("account", "n"), ("larger", "t")];

fn check_streamed(server: &TestServer, records: &[u8]) -> Result<()> {
    for (table, column) in STREAMED {
        let database = if table == "n" { "d" } else { "w" };
        let found = left(records, table, column)?;
        let expected = server.sql(&format!("select {column} from {database}.{table} order by id"))?;
        let expected: Vec<&str> =
            expected.lines().map(|line| if line == "NULL" { "null" } else { line }).collect();
        let found: Vec<&str> = found.iter().map(|text| text.trim_matches('"')).collect();
        ensure!(found == expected, "{table}.{column}: {:.300?}, not {:.300?}", found, expected);
    }
    Ok(())
}

#[test]
fn streams_with_definitions_end_at_the_servers_rows() -> Result<()> {
    check_each(&TestPackage::from_env()?, |server| {
        let arguments = ["stream", "--format", "maxwell", "--schema", "ddl", "--skip-statements"];
        let records = printed(bintide_on(&arguments, &server.logs)?)?;
        check_streamed(&server.server, &records)
    })
}

#[test]
fn received_logs_equal_the_servers() -> Result<()> {
    check_each(&TestPackage::from_env()?, |server| {
        let directory = TempDir::new()?;
        let from = command::address("root", &server.server) + "&timeout=8";
        // Some time after a rotation, MariaDB writes an event to the new log when the old one is synced.
        wait_until("the server's logs", || {
            let mut command = Command::new(bintide()?);
            command.env_clear().arg("receive").arg(directory.path()).args(["--from", &from, "--stop-at-end"]);
            printed(command.output()?)?;
            Ok(same_logs(&server.server, directory.path()).is_ok())
        })?;
        same_logs(&server.server, directory.path())
    })
}

/// The program of each version reads the logs of its own server: an older program refuses a newer server.
#[test]
fn mysqlbinlog_prints_the_same_from_a_relay_as_from_the_server() -> Result<()> {
    check_each(&TestPackage::from_env()?, |server| {
        let home = server.server.home();
        let program = if server.is_mariadb() { "mariadb-binlog" } else { "mysqlbinlog" };
        if !home.has(program) {
            return Ok(());
        }
        let relay = RelayProcess::of(&server.server, &[])?;
        let (logs, mut size) = (server.server.binlogs()?, 0);
        for log in &logs[..logs.len() - 1] {
            let name = log.file_name().and_then(|name| name.to_str()).context("a log without a name")?;
            let read = |port: u16| -> Result<Vec<u8>> {
                let mut command = home.command(program)?;
                command.args(["--no-defaults", "-R", "-v", "--host=127.0.0.1", "--user=root", name]);
                command.args(server.is_mariadb().then_some("--skip-ssl")).arg(format!("--port={port}"));
                printed(command.output()?)
            };
            let (found, expected) = (read(relay.port)?, read(server.server.port())?);
            ensure!(found == expected, "{name} differs");
            size += found.len();
        }
        ensure!(size > 100_000, "{program} has printed {size} bytes");
        Ok(())
    })
}

/// Checks for MySQL 5.5, which is supported as a source only, not as a target and not by `warm`.
fn is_too_old(package: TestPackage) -> bool {
    package.version() < (5, 6)
}

fn refused_by_name<T>(result: Result<T>) -> Result<()> {
    let message = format!("{:#}", result.err().context("the server is not refused")?);
    let is_named = message.contains("is MySQL 5.5.") && message.contains("expected MySQL 5.6.5 or later");
    ensure!(is_named, "{message}");
    Ok(())
}

#[test]
fn replay_into_the_same_version_ends_equal() -> Result<()> {
    check_each(&TestPackage::from_env()?, |server| {
        for order in [CommitOrder::Strict, CommitOrder::Grouped] {
            let target = server.target()?;
            let first = replay(&server.logs, address(&target, "root")?, ApplyAs::Auto, order);
            if is_too_old(server.package) {
                return refused_by_name(first);
            }
            let first = first?;
            are_equal(&server.server, &target, rows)?;
            let again = replay(&server.logs, address(&target, "root")?, ApplyAs::Auto, order)?;
            ensure!(again.transactions == 0 && again.skipped >= first.transactions, "{again:?}");
        }
        Ok(())
    })
}

#[test]
fn replay_into_the_newest_mysql_ends_equal() -> Result<()> {
    check_each(&mysql_servers()?, |server| {
        let target = Launch::mysql().option("--server-id=2").start()?;
        replay(&server.logs, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Grouped)?;
        are_equal(&server.server, &target, rows)
    })
}

#[test]
fn replay_of_the_newest_mysql_ends_equal() -> Result<()> {
    check_each(&mysql_servers()?, |server| {
        let newest = source(&Launch::mysql(), &[])?;
        newest.sql(e2e::matrix::PLAIN)?;
        newest.sql("flush binary logs")?;
        let target = server.target()?;
        let ran = replay(&newest.binlogs()?, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Grouped);
        if is_too_old(server.package) {
            return refused_by_name(ran);
        }
        ran?;
        are_equal(&newest, &target, rows)
    })
}

/// Copies logs, so that a test can rewrite them.
fn copies(logs: &[PathBuf], directory: &Path) -> Result<Vec<PathBuf>> {
    let copy = |log: &PathBuf| {
        let copy = directory.join(log.file_name().context("a log without a name")?);
        fs::copy(log, &copy)?;
        Ok(copy)
    };
    logs.iter().map(copy).collect()
}

/// Returns the lines for rows, without positions and sizes, which depend on compression.
fn rows_printed(text: &[u8]) -> Vec<&[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"### ")).collect()
}

#[test]
fn compressed_logs_are_read_by_mysqlbinlog_8_0() -> Result<()> {
    check_each(&mysql_servers()?, |server| {
        let directory = TempDir::new()?;
        let logs = copies(&server.logs, directory.path())?;
        let report = document(bintide_on(&["compress", "--json", "--upgrade-format"], &logs)?)?;
        printed(bintide_on(&["verify"], &logs)?)?;
        let sizes =
            |logs: &[PathBuf]| logs.iter().map(|log| Ok(fs::metadata(log)?.len())).sum::<Result<u64>>();
        // MySQL 5.6 and 5.5 log no transactions that `compress` can compress.
        let is_smaller = sizes(&logs)? < sizes(&server.logs)? / 2;
        ensure!(is_smaller == (server.package.version() >= (5, 7)), "{report}");
        let (before, after) =
            (shown_by(TestPackage::Mysql8_0, &server.logs)?, shown_by(TestPackage::Mysql8_0, &logs)?);
        ensure!(rows_printed(&before) == rows_printed(&after), "the rows differ");
        ensure!(changes_shown(&after)[0] > 20, "too few rows");
        Ok(())
    })
}

/// Returns the servers with GTIDs that are older than 8.0.20.
fn without_payloads() -> Result<Vec<TestPackage>> {
    let old = [TestPackage::Mysql8_0_15, TestPackage::Mysql8_0_12, TestPackage::Mysql5_7];
    Ok(TestPackage::from_env()?.into_iter().filter(|package| old.contains(package)).collect())
}

#[test]
fn upgraded_logs_are_served_to_a_replica_of_8_0() -> Result<()> {
    check_each(&without_payloads()?, |server| {
        let mut source = Launch::of(TestPackage::Mysql8_0).option("--server-id=1").start()?;
        source.stop()?;
        for log in source.binlogs()? {
            fs::remove_file(log)?;
        }
        let mut index = String::new();
        for (number, log) in server.logs.iter().enumerate() {
            let name = format!("binlog.{:06}", number + 1);
            fs::copy(log, source.datadir().join(&name))?;
            index += &format!("./{name}\n");
        }
        fs::write(source.datadir().join("binlog.index"), index)?;
        let logs = source.binlogs()?;
        let refused = bintide_on(&["compress"], &logs)?;
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        ensure!(!refused.status.success() && message.contains("event types"), "{message}");
        printed(bintide_on(&["compress", "--upgrade-format"], &logs)?)?;
        printed(bintide_on(&["verify"], &logs)?)?;
        source.start_again(&[])?;
        let replica = Launch::of(TestPackage::Mysql8_0).option("--server-id=2").start()?;
        replica.replicate_from(&source)?;
        replica.wait_until_applied(&source)?;
        are_equal(&server.server, &replica, rows)
    })
}

#[test]
fn decompressed_logs_are_read_by_old_mysqlbinlogs() -> Result<()> {
    let newest = Launch::mysql().option("--binlog-transaction-compression=ON").start()?;
    newest.sql(&e2e::matrix::work(TestPackage::Mysql))?;
    newest.sql("flush binary logs")?;
    let directory = TempDir::new()?;
    let logs = copies(&newest.binlogs()?[..1], directory.path())?;
    let expected = shown_by(TestPackage::Mysql, &logs)?;
    document(bintide_on(&["decompress", "--json"], &logs)?)?;
    for package in TestPackage::from_env()? {
        let home = testkit::PackageHome::find(package)?;
        let name =
            if package.flavour() == Some(ServerFlavour::MariaDb) { "mariadb-binlog" } else { "mysqlbinlog" };
        // mysqlbinlog 5.5 stops at the first GTID event, and MariaDB's 10.5 at the collations of MySQL 8.0.
        let is_too_old = is_too_old(package) || package == TestPackage::MariaDb10_5;
        if home.has(name) && !is_too_old {
            let found = shown_by(package, &logs).with_context(|| package.name())?;
            ensure!(changes_shown(&found) == changes_shown(&expected), "{}: the rows differ", package.name());
        }
    }
    Ok(())
}

#[test]
fn advise_reads_the_servers_version() -> Result<()> {
    check_each(&mysql_servers()?, |server| {
        let from = command::address("root", &server.server);
        let arguments = ["advise", "--from", &from, "--levels", "3", "--time", "1", "--json"];
        let report = document(bintide_on(&arguments, &[])?)?;
        let version = server.server.sql("select @@version")?;
        ensure!(report["server"]["version"] == version.trim(), "{report}");
        Ok(())
    })
}

#[test]
fn snapshots_have_the_rows_of_the_server() -> Result<()> {
    check_each(&TestPackage::from_env()?, |server| {
        let from = command::address("root", &server.server);
        let arguments = [
            "stream",
            "--format",
            "maxwell",
            "--from",
            &from,
            "--snapshot",
            "--stop-at-end",
            "--skip-statements",
        ];
        let ran = printed(bintide_on(&arguments, &[])?);
        if is_too_old(server.package) {
            return refused_by_name(ran);
        }
        check_streamed(&server.server, &ran?)
    })
}

/// Returns the statement that makes a server a replica of another one and starts it.
fn follow(package: TestPackage, port: u16) -> String {
    let key = match (package.flavour(), package.version()) {
        (Some(ServerFlavour::Mysql), version) if version >= (8, 4) => {
            let source = format!("source_host = '127.0.0.1', source_port = {port}, source_user = 'root'");
            return format!(
                "change replication source to {source}, get_source_public_key = 1; start replica"
            );
        }
        (Some(ServerFlavour::Mysql), (8, 0)) => ", get_master_public_key = 1",
        (Some(ServerFlavour::MariaDb), _) => ", master_ssl_verify_server_cert = 0",
        _ => "",
    };
    let source = format!("master_host = '127.0.0.1', master_port = {port}, master_user = 'root'{key}");
    format!("change master to {source}; start slave")
}

#[test]
fn warm_searches_for_rows_that_a_replica_will_change() -> Result<()> {
    check_each(&TestPackage::from_env()?, |server| {
        let package = server.package;
        let source = server.target()?;
        if is_too_old(package) {
            let ended = e2e::warming::command(&source, "root")?.output()?;
            return refused_by_name(printed(ended));
        }
        let replica = Launch::of(package).options(["--server-id=3", "--relay-log=relay"]).start()?;
        source.sql("create database w; create table w.t (id int primary key, n int) engine = innodb")?;
        source.sql("insert into w.t values (1, 1), (2, 2), (3, 3)")?;
        replica.sql(&follow(package, source.port()))?;
        let count = |server: &TestServer| server.sql("select count(*) from w.t");
        wait_until("all rows", || Ok(count(&replica).is_ok_and(|found| found == "3\n")))?;
        let is_new = package.flavour() == Some(ServerFlavour::Mysql) && package.version() >= (8, 4);
        replica.sql(if is_new { "stop replica sql_thread" } else { "stop slave sql_thread" })?;
        source.sql(
            "update w.t set n = n + 1; set binlog_format = statement; update w.t set n = n - 1 where id = 1",
        )?;
        let warming = Warming::begin(&replica, "root", &[])?;
        wait_until("all searches", || {
            thread::sleep(Duration::from_millis(200));
            Ok(warming.figure("executed_total").is_ok_and(|searches| searches >= 2))
        })?;
        let report = warming.end()?;
        ensure!(has_no_errors(&report) && report["rows"] == 3 && report["statements"] == 1, "{report}");
        Ok(())
    })
}
