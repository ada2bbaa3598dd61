//! `bintide stream --snapshot` with concurrent writers: the snapshot's rows and the following changes give the
//! table, without a gap and without a duplicate.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::command::{ChildGuard, address};
use e2e::program::bintide;
use serde_json::{Value, json};
use servers::{ServerAddress, SqlConnection};
use tempfile::TempDir;
use testkit::{Launch, Proxy, SeededRandom, TestPackage, TestServer, seed_from_env, wait_until};

fn stream(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("stream").args(arguments).stdin(Stdio::null());
    Ok(command)
}

fn printed(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

fn connect(user: &str, server: &TestServer) -> Result<SqlConnection> {
    Ok(SqlConnection::open(&ServerAddress::parse(&address(user, server))?)?)
}

/// Returns all records in a directory's files, finished or not, up to the last complete one.
fn records(directory: &Path) -> Result<Vec<Value>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.to_string_lossy().contains("changes."));
    paths.sort();
    let texts: Vec<String> = paths.iter().map(fs::read_to_string).collect::<Result<_, _>>()?;
    texts.concat().lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Ends a run with SIGINT, as Ctrl-C does; returns its messages.
fn interrupted(child: ChildGuard) -> Result<String> {
    child.interrupt()?;
    let ran = child.output()?;
    ensure!(ran.status.code() == Some(130), "{}: {}", ran.status, printed(&ran));
    Ok(printed(&ran))
}

/// Returns the images of a record of either format: before and after.
fn images(record: &Value) -> Option<[Option<Value>; 2]> {
    let some = |value: &Value| Some(value.clone()).filter(|value| !value.is_null());
    if record.get("op").is_some() {
        return Some([some(&record["before"]), some(&record["after"])]);
    }
    let data = some(&record["data"]);
    match record["type"].as_str()? {
        "insert" | "bootstrap-insert" => Some([None, data]),
        "delete" => Some([data, None]),
        "update" => {
            let mut before = data.clone()?;
            for (name, value) in record["old"].as_object().into_iter().flatten() {
                before[name] = value.clone();
            }
            Some([Some(before), data])
        }
        _ => None,
    }
}

fn table(record: &Value) -> String {
    let of = if record["source"].is_object() { &record["source"] } else { record };
    let word =
        |names: [&str; 2]| names.iter().find_map(|name| of[name].as_str()).unwrap_or_default().to_owned();
    format!("{}.{}", word(["db", "database"]), word(["table", "table"]))
}

/// Applies records, checking that each change finds its row; returns the tables by `id`.
fn applied(records: &[Value]) -> Result<BTreeMap<String, BTreeMap<String, Value>>> {
    let mut tables: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for record in records {
        let Some([before, after]) = images(record) else { continue };
        let rows = tables.entry(table(record)).or_default();
        if let Some(before) = before {
            let was = rows.remove(&before["id"].to_string());
            ensure!(was.as_ref() == Some(&before), "{was:?} was there: {record}");
        }
        if let Some(after) = after {
            let was = rows.insert(after["id"].to_string(), after);
            ensure!(was.is_none(), "{was:?} was there: {record}");
        }
    }
    Ok(tables)
}

/// Number of rows. Moves between rows keep the sum.
const ROWS: u64 = 400;

/// Error of a transaction that the server has rolled back because of a deadlock.
const DEADLOCK: u16 = 1213;

fn fill(server: &TestServer) -> Result<()> {
    server.sql(
        "create database d; create table d.t (id int primary key, n int, b text); create table d.u like d.t",
    )?;
    for table in ["t", "u"] {
        server.sql(&format!(
            "insert into d.{table} with recursive r as (select 1 i union all select i + 1 from r where i < {ROWS})
               select i, 100, repeat('x', 300) from r"
        ))?;
    }
    Ok(())
}

/// Moves an amount from one table to the other, or changes the id of a row, until it is stopped.
///
/// The pauses in between grow: on a slow machine too, some pause is long enough for a snapshot without a lock.
fn write(
    server: &TestServer,
    random: &mut SeededRandom,
    (mut pause, is_over): (Duration, &AtomicBool),
) -> Result<()> {
    let mut connection = connect("root", server)?;
    while !is_over.load(Ordering::Relaxed) {
        let [one, other] = [0; 2].map(|_| 1 + random.below(ROWS as usize));
        let away = ROWS as usize + 1 + random.below(1_000_000);
        let ran = connection.run(&format!(
            "begin; update d.t set n = n - 1 where id = {one}; update d.u set n = n + 1 where id = {other};
             insert ignore into d.t values ({away}, 0, 'new'); delete from d.u where id = {away}; commit"
        ));
        // Two writers may deadlock: the server rolls one back.
        if let Err(error) = ran
            && error.code() != Some(DEADLOCK)
        {
            return Err(error.into());
        }
        thread::sleep(pause);
        pause = pause.mul_f64(1.03);
    }
    Ok(())
}

fn rows_of(server: &TestServer, table: &str) -> Result<Vec<String>> {
    let rows = connect("root", server)?.rows(&format!("select id, n, b from {table} order by id"))?;
    let word = |cell: Option<Vec<u8>>| String::from_utf8_lossy(&cell.unwrap_or_default()).into_owned();
    Ok(rows.into_iter().map(|row| row.into_iter().map(word).collect::<Vec<_>>().join(" ")).collect())
}

/// Takes a snapshot with this account while other sessions write, then streams their later changes; returns the
/// messages.
fn beside_writers(
    server: &TestServer,
    user: &str,
    form: &str,
    (writers, pause): (usize, Duration),
) -> Result<String> {
    let seed = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {seed}");
    let directory = TempDir::new()?;
    let out = directory.path().join("out");
    let (from, path) = (address(user, server), out.display().to_string());
    let arguments = ["--format", form, "--from", &from, "--out", &path, "--snapshot"];
    let is_over = AtomicBool::new(false);
    let child = thread::scope(|scope| -> Result<ChildGuard> {
        let mut write_all = Vec::new();
        for number in 0..writers {
            let (mut random, is_over) = (SeededRandom::new(seed + number as u64), &is_over);
            write_all.push(scope.spawn(move || write(server, &mut random, (pause, is_over))));
        }
        thread::sleep(Duration::from_millis(200));
        let child = ChildGuard::start(stream(&arguments)?.stderr(Stdio::piped()));
        // Progress is saved at intervals: after the snapshot, some changes are pending.
        let begun = wait_until("a change", || {
            let records = if out.exists() { records(&out).unwrap_or_default() } else { Vec::new() };
            Ok(records.iter().any(|record| record["op"] == "u" || record["type"] == "update"))
        });
        thread::sleep(Duration::from_millis(300));
        is_over.store(true, Ordering::Relaxed);
        for writer in write_all {
            writer.join().map_err(|_| anyhow!("a writer panicked"))??;
        }
        begun?;
        child
    })?;
    let expected: Vec<Vec<String>> =
        ["d.t", "d.u"].map(|table| rows_of(server, table)).into_iter().collect::<Result<_>>()?;
    wait_until("the last change", || {
        let Ok(records) = records(&out) else { return Ok(false) };
        let tables = applied(&records)?;
        let found = ["d.t", "d.u"].map(|table| {
            let mut rows: Vec<&Value> = tables.get(table).into_iter().flat_map(BTreeMap::values).collect();
            rows.sort_by_key(|row| row["id"].as_u64());
            let line =
                |row: &Value| format!("{} {} {}", row["id"], row["n"], row["b"].as_str().unwrap_or_default());
            rows.into_iter().map(line).collect::<Vec<_>>()
        });
        Ok(found.as_slice() == expected.as_slice())
    })?;
    interrupted(child)
}

/// With an account that may lock writers, and with one that has to find a moment between commits.
#[test]
fn snapshots_and_later_changes_give_the_table() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    fill(&server)?;
    server.sql(
        "create user few; grant replication slave, replication client, xa_recover_admin on *.* to few;
         grant select on d.* to few",
    )?;
    let printed = beside_writers(&server, "root", "debezium", (6, Duration::ZERO))?;
    ensure!(printed.contains("snapshot of 2 tables at binlog."), "{printed}");
    let printed = beside_writers(&server, "few", "maxwell", (2, Duration::from_millis(8)))?;
    ensure!(printed.contains("(without a lock)") && !printed.contains("XA_RECOVER_ADMIN"), "{printed}");
    Ok(())
}

/// Without GTIDs, visibility cannot be determined, so writers are locked.
#[test]
fn snapshots_without_gtids_lock_writers_briefly() -> Result<()> {
    let server = Launch::mysql()
        .options(["--binlog-row-metadata=FULL", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"])
        .start()?;
    fill(&server)?;
    let printed = beside_writers(&server, "root", "maxwell", (3, Duration::ZERO))?;
    ensure!(printed.contains("(writers were locked briefly)"), "{printed}");
    server.sql("create user few; grant replication slave, replication client, select on *.* to few")?;
    let from = address("few", &server);
    let ran = stream(&["--format", "maxwell", "--from", &from, "--snapshot"])?.output()?;
    ensure!(
        ran.status.code() == Some(2)
            && printed_ends(&ran, "so that the snapshot can lock the tables for a moment"),
        "{ran:?}"
    );
    // The error names the missing privilege.
    server.sql("revoke replication client on *.* from few; grant reload on *.* to few")?;
    let ran = stream(&["--format", "maxwell", "--from", &from, "--snapshot"])?.output()?;
    ensure!(
        ran.status.code() == Some(2) && printed_ends(&ran, "grant the account REPLICATION CLIENT"),
        "{ran:?}"
    );
    Ok(())
}

fn printed_ends(ran: &Output, end: &str) -> bool {
    printed(ran).trim_end().ends_with(end)
}

#[test]
fn mariadb_returns_the_position_of_its_snapshot() -> Result<()> {
    let server = Launch::mariadb().options(["--binlog-row-metadata=FULL", "--binlog-format=ROW"]).start()?;
    fill(&server)?;
    let printed = beside_writers(&server, "root", "maxwell", (6, Duration::ZERO))?;
    ensure!(printed.contains("(without a lock)"), "{printed}");
    Ok(())
}

/// An XA transaction is prepared after the first XA RECOVER, and committed before the second: the snapshot in
/// between does not contain its rows, but the stream has them, once.
#[test]
fn xa_transactions_committed_during_the_snapshot_are_not_lost() -> Result<()> {
    let server = Launch::mariadb().options(["--binlog-row-metadata=FULL", "--binlog-format=ROW"]).start()?;
    server.sql("create database d; create table d.t (id int primary key); insert into d.t values (1)")?;
    let proxy = Proxy::to(server.port())?;
    let mut other = connect("root", &server)?;
    let mut steps = vec![
        ("XA RECOVER", "xa commit 'x'"),
        ("START TRANSACTION WITH", "xa start 'x'; insert into d.t values (2); xa end 'x'; xa prepare 'x'"),
    ];
    proxy.tap_client(move |printed| {
        if let Some((words, sql)) = steps.last()
            && printed.windows(words.len()).any(|found| found == words.as_bytes())
        {
            other.run(sql).expect("the other session fails");
            steps.pop();
        }
    });
    let from = format!("mysql://root@127.0.0.1:{}/?tls=off", proxy.port());
    let ran = stream(&["--format", "maxwell", "--from", &from, "--snapshot", "--stop-at-end"])?.output()?;
    ensure!(ran.status.success(), "{}", printed(&ran));
    let lines = String::from_utf8(ran.stdout)?;
    let records: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let found = applied(&records)?;
    ensure!(found["d.t"].keys().eq(["1", "2"]), "{lines}");
    Ok(())
}

/// Global variables of a server that would leave out rows, refuse queries, or hide columns have no effect.
#[test]
fn global_variables_do_not_change_the_snapshot() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(
        "set sql_generate_invisible_primary_key = on; create database d; create table d.t (a int);
         insert into d.t values (1), (2), (3);
         set global sql_select_limit = 1, completion_type = 'RELEASE', max_join_size = 1,
           show_gipk_in_create_table_and_information_schema = off",
    )?;
    ensure!(compare_with_log(&server, &[])? == 1, "the number of tables differs");
    Ok(())
}

/// Rows of a snapshot equal the rows in the log, for all types.
#[test]
fn snapshot_rows_equal_logged_rows() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    for name in ["types.sql", "json.sql"] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples").join(name);
        server.sql(&fs::read_to_string(script)?)?;
    }
    server.sql(
        "create database members; create table members.empty (id int primary key, s set('', 'a', 'b'));
         insert into members.empty values (1, ''), (2, 1), (3, 'a'), (4, 3), (5, 7), (6, null)",
    )?;
    ensure!(compare_with_log(&server, &[])? > 15, "too few tables");
    Ok(())
}

/// Compares the rows of a snapshot with those of the log, in both formats; returns the number of tables.
fn compare_with_log(server: &TestServer, options: &[&str]) -> Result<usize> {
    let from = address("root", server);
    let mut tables = 0;
    for form in ["debezium", "maxwell"] {
        let told = |more: &[&str]| -> Result<BTreeMap<String, Vec<Value>>> {
            let arguments = [&["--format", form, "--from", &from, "--stop-at-end"], options, more].concat();
            rows(&read_lines(&stream(&arguments)?.output()?)?)
        };
        let (changes, snapshot) = (told(&[])?, told(&["--snapshot"])?);
        tables = snapshot.len();
        for (name, expected) in &changes {
            let found = snapshot.get(name).with_context(|| format!("{name} is not in the snapshot"))?;
            ensure!(
                found.len() == expected.len(),
                "{form} {name}: {} rows, not {}",
                found.len(),
                expected.len()
            );
            for (found, expected) in found.iter().zip(expected) {
                ensure!(plain(found) == plain(expected), "{form} {name}:\n{found}\n{expected}");
            }
        }
    }
    Ok(tables)
}

/// Types that only MariaDB has, and that SQL shows in another form than the log. UUIDs of versions 1, 4 and 7 are
/// stored in different byte orders. The log omits zero bytes at the end.
const OWN_TYPES: &str = "create database d; use d;
    create table addresses (id int primary key, four inet4, six inet6 not null default '::1');
    insert into addresses values (1, '1.2.3.4', '2001:db8::1'), (2, '0.0.0.0', '::'), (3, '32.32.32.0', '2001:db8::2000'),
        (4, null, '::ffff:1.2.3.4');
    create table ids (id uuid primary key, n int, other uuid default '5a3812c4-ece0-11f1-8736-02fc00000001');
    insert into ids (id, n) values ('5a3812c4-ece0-11f1-8736-02fc00000001', 1), ('9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb00', 2),
        ('018f4e2a-7b1c-7def-8abc-123456789abc', 3), ('00000000-0000-0000-0000-000000000000', 4);
    update ids set n = 7 where n = 1; delete from ids where n = 2;";

/// A type of MariaDB 11.7.
const OWN_VECTORS: &str = "create table d.vectors (id int primary key, v vector(2) not null);
    insert into d.vectors values (1, vec_fromtext('[0.5,-1]')), (2, vec_fromtext('[0,0]'));
    update d.vectors set v = vec_fromtext('[1,2]') where id = 1;";

/// A snapshot has types of MariaDB in the form of the log, which has their bytes.
#[test]
fn mariadb_snapshot_rows_equal_logged_rows() -> Result<()> {
    for package in [TestPackage::MariaDb, TestPackage::MariaDb11_8] {
        for metadata in ["--binlog-row-metadata=FULL", "--binlog-row-metadata=NO_LOG"] {
            let server = Launch::of(package).options([metadata, "--binlog-format=ROW"]).start()?;
            server.sql(OWN_TYPES)?;
            if package == TestPackage::MariaDb11_8 {
                server.sql(OWN_VECTORS)?;
            }
            for options in [&[][..], &["--schema", "ddl"]] {
                let compared = compare_with_log(&server, options);
                let tables = compared.with_context(|| format!("{package:?} {metadata} {options:?}"))?;
                ensure!(tables >= 2, "{package:?}: {tables} tables");
            }
        }
    }
    Ok(())
}

/// Applies records; returns the rows in a fixed order.
fn rows(records: &[Value]) -> Result<BTreeMap<String, Vec<Value>>> {
    let mut tables: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in records {
        let Some([before, after]) = images(record) else { continue };
        let rows = tables.entry(table(record)).or_default();
        if let Some(before) = before {
            let at = rows.iter().position(|row| *row == before).context("a change without a matching row")?;
            rows.remove(at);
        }
        rows.extend(after);
    }
    tables.retain(|_, rows| !rows.is_empty());
    for rows in tables.values_mut() {
        rows.sort_by_key(|row| (row["id"].to_string(), row.to_string()));
    }
    Ok(tables)
}

/// Removes text that only the server adds to a document: zero fractions, the types of bytes in base64, and
/// different digits of the same numbers.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(plain).collect()),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(document) => plain(&document),
            Err(_) => {
                let text = text.strip_suffix(".000000").unwrap_or(text).replace('\n', "");
                let bytes = text.strip_prefix("base64:type").and_then(|rest| rest.split_once(':'));
                Value::String(bytes.map_or(text.clone(), |(_, bytes)| bytes.to_owned()))
            }
        },
        Value::Number(number) => number.as_f64().map_or(value.clone(), Value::from),
        other => other.clone(),
    }
}

/// System-versioned tables: with hidden and declared columns for the period of a row, partitioned, and without a key.
const VERSIONED: &str = "create database d; use d;
    create table hidden (id int primary key, n int) with system versioning;
    insert into hidden values (1, 1), (2, 2), (3, 3); set system_versioning_alter_history = keep;
    create table declared (id int primary key, n int, s timestamp(6) generated always as row start,
        e timestamp(6) generated always as row end, period for system_time (s, e)) with system versioning;
    insert into declared (id, n) values (1, 1), (2, 2);
    create table parts (id int primary key, n int) with system versioning
        partition by system_time (partition past history, partition present current);
    insert into parts values (1, 1); create table bare (n int) with system versioning; insert into bare values (1);
    create sequence numbers; create view seen as select * from hidden";

/// The snapshot of a system-versioned table has its current rows, with the columns and the key of the log.
#[test]
fn system_versioned_tables_are_in_the_snapshot() -> Result<()> {
    for (package, metadata) in [
        (TestPackage::MariaDb, "--binlog-row-metadata=FULL"),
        (TestPackage::MariaDb11_8, "--binlog-row-metadata=NO_LOG"),
    ] {
        let server = Launch::of(package).options([metadata, "--binlog-format=ROW"]).start()?;
        server.sql(VERSIONED)?;
        ensure!(compare_with_log(&server, &[])? == 4, "{package:?}");
        server.sql("use d; update hidden set n = 9 where id = 1; delete from hidden where id = 2; update parts set n = 2")?;
        let ran = stream(&[
            "--format",
            "maxwell",
            "--from",
            &address("root", &server),
            "--snapshot",
            "--stop-at-end",
        ])?
        .output()?;
        let found = rows(&read_lines(&ran)?)?;
        let shown = |name: &str| found[name].iter().map(|row| (&row["id"], &row["n"])).collect::<Vec<_>>();
        ensure!(shown("d.hidden") == [(&json!(1), &json!(9)), (&json!(3), &json!(3))], "{found:?}");
        ensure!(shown("d.parts") == [(&json!(1), &json!(2))], "{found:?}");
    }
    Ok(())
}

/// Returns the records that a run printed.
fn read_lines(ran: &Output) -> Result<Vec<Value>> {
    ensure!(ran.status.success(), "{}", printed(ran));
    let lines = str::from_utf8(&ran.stdout)?;
    Ok(lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// A killed snapshot starts over: files have each row once. After the snapshot, a run resumes.
#[test]
fn interrupted_snapshots_start_over() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(MANY)?;
    let directory = TempDir::new()?;
    let out = directory.path().join("out");
    let (from, path) = (address("root", &server), out.display().to_string());
    let arguments =
        ["--format", "maxwell", "--from", &from, "--out", &path, "--file-size", "100000", "--snapshot"];
    let mut child = ChildGuard::start(&mut stream(&arguments)?)?;
    let growing = out.join("changes.000001.json.part");
    wait_until("a part of the snapshot", || {
        Ok(fs::metadata(&growing).is_ok_and(|file| file.len() > 300_000))
    })?;
    child.kill()?;
    child.wait()?;
    ensure!(!out.join("progress").exists(), "progress was saved before the end of the snapshot");
    let once = stream(&[&arguments[..], &["--stop-at-end"]].concat())?.output()?;
    ensure!(once.status.success(), "{}", printed(&once));
    ensure!(applied(&records(&out)?)?["d.t"].len() == 60_000);
    server.sql("insert into d.t values (0, 'after it')")?;
    let again = stream(&[&arguments[..], &["--stop-at-end"]].concat())?.output()?;
    ensure!(again.status.success() && !printed(&again).contains("snapshot of"), "{}", printed(&again));
    ensure!(applied(&records(&out)?)?["d.t"].len() == 60_001);
    Ok(())
}

#[test]
fn unsupported_snapshots_are_refused_by_name() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql("create database d; create table d.t (id int primary key); create table d.old (id int) engine = myisam")?;
    let check = |user: &str, more: &[&str], code: i32, expected: &str| -> Result<()> {
        let from = address(user, &server);
        let arguments =
            [&["--format", "debezium", "--from", &from, "--snapshot", "--stop-at-end"], more].concat();
        let ran = stream(&arguments)?.output()?;
        ensure!(ran.status.code() == Some(code) && printed(&ran).contains(expected), "{expected}: {ran:?}");
        Ok(())
    };
    check("root", &[], 2, "d.old uses MyISAM")?;
    check("root", &["--ignore-table", "d.old"], 0, "snapshot of 1 table at")?;
    server.sql("drop table d.old; create user few; grant replication slave, select on *.* to few")?;
    check("few", &[], 2, "grant the account REPLICATION CLIENT")?;
    server.sql("grant replication client on *.* to few")?;
    check("few", &[], 0, "lacks XA_RECOVER_ADMIN")?;
    // The catalogue shows only the columns that the account may read.
    server.sql(
        "create table d.part (id int primary key, secret text); create table d.blind (id int primary key);
         create user some; grant replication slave, replication client on *.* to some; grant select on d.t to some;
         grant select (id) on d.part to some; grant insert on d.blind to some; insert into d.t values (7);
         insert into d.part values (8, 'x')",
    )?;
    check("some", &[], 0, "d.part is not part of the snapshot: SELECT command denied")?;
    check("some", &[], 0, "d.blind is not part of the snapshot: SELECT command denied")?;
    server.sql("drop table d.part; drop table d.blind; delete from d.t")?;
    server.sql("xa start 'x'; insert into d.t values (1); xa end 'x'; xa prepare 'x'")?;
    check("root", &[], 2, "commit them or roll them back: XA RECOVER lists them")?;
    Ok(())
}

#[test]
fn the_progress_table_of_a_replay_is_left_out() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    let table = "(id int primary key); insert into";
    server.sql(&format!(
        "create database bintide; create table bintide.progress {table} bintide.progress values (1);
         create table bintide.other {table} bintide.other values (2)"
    ))?;
    for (more, expected) in [
        (&[][..], &["bintide.other"][..]),
        (&["--do-table", "bintide.progress"], &["bintide.progress"]),
        (&["--do-db", "bintide"], &["bintide.other", "bintide.progress"]),
    ] {
        let out = TempDir::new()?;
        let (from, path) = (address("root", &server), out.path().join("out").display().to_string());
        let arguments = ["--format", "debezium", "--from", &from, "--out", &path, "--snapshot"];
        let mut child = ChildGuard::start(&mut stream(&[&arguments[..], more].concat())?)?;
        let progress = Path::new(&path).join("progress");
        wait_until("the snapshot", || Ok(progress.exists() || child.try_wait()?.is_some()))?;
        server.sql(
            "replace into bintide.progress values (1), (3); replace into bintide.other values (2), (4)",
        )?;
        interrupted(child)?;
        let again = stream(&[&arguments[..], more, &["--stop-at-end"]].concat())?.output()?;
        ensure!(again.status.success(), "{}", printed(&again));
        let tables = applied(&records(Path::new(&path))?)?;
        ensure!(tables.keys().eq(expected), "{more:?}: {tables:?}");
        ensure!(tables.values().all(|rows| rows.len() == 2), "{more:?}: {tables:?}");
        server.sql("delete from bintide.progress where id = 3; delete from bintide.other where id = 4")?;
    }
    Ok(())
}

/// Statements that create a table whose rows do not fit into a pipe.
const MANY: &str = "create database d; create table d.t (id int primary key, b text);
    set cte_max_recursion_depth = 1000000;
    insert into d.t with recursive r as (select 1 i union all select i + 1 from r where i < 60000)
      select i, repeat('x', 100) from r";

/// Definitions from the source are saved for later runs with fewer privileges, and updated from the log.
#[test]
fn definitions_are_tracked_from_a_snapshot_on() -> Result<()> {
    let mariadb = Launch::mariadb().option("--binlog-format=ROW");
    for launch in [Launch::mysql(), mariadb] {
        let server = launch.start()?;
        let directory = TempDir::new()?;
        let out = directory.path().join("out");
        let insert = |id: u8| format!("set names utf8mb4; insert into d.t values ({id}, 'é', 'ä', 1 << 63);");
        server.sql(&format!(
            "create user first; grant select, replication slave, replication client on *.* to first;
             create user second; grant replication slave on *.* to second; create database d;
             create table d.t (id int primary key, a varchar(9) collate latin1_bin,
                 b enum('x', 'ä') character set latin1, c bigint unsigned); {}",
            insert(1)
        ))?;
        let run = |user: &str, more: &[&str]| {
            let (from, path) = (address(user, &server), out.display().to_string());
            let common = ["--format", "maxwell", "--from", &from, "--out", &path];
            let ran =
                stream(&[&common[..], &["--schema", "ddl", "--stop-at-end"], more].concat())?.output()?;
            ensure!(ran.status.success(), "{}", printed(&ran));
            let told: Vec<Value> = records(&out)?.iter().map(|record| record["data"].clone()).collect();
            let is_row = |data: &Value| data.get("id").is_some();
            Ok::<_, anyhow::Error>(told.into_iter().filter(is_row).collect::<Vec<_>>())
        };
        let row = |id: u8| json!({"id": id, "a": "é", "b": "ä", "c": 1_u64 << 63});
        let told = run("first", &["--snapshot"])?;
        ensure!(told == [row(1)], "{told:?}");
        server.sql(&insert(2))?;
        let told = run("second", &[])?;
        ensure!(told == [row(1), row(2)], "{told:?}");
        server.sql("alter table d.t rename column a to k, add column e int first, drop c")?;
        server.sql("set names utf8mb4; insert into d.t values (7, 3, 'é', 'ä')")?;
        let told = run("second", &[])?;
        ensure!(told[2..] == [json!({"e": 7, "id": 3, "k": "é", "b": "ä"})], "{told:?}");
    }
    Ok(())
}

/// Definitions after a snapshot have the same effect as from the start of the log.
#[test]
fn definitions_after_a_snapshot_change_columns() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql(
        "create database d character set latin2; use d;
         create table t (id int unsigned auto_increment primary key, a varchar(9) not null default 'x', b decimal(5,2),
             c timestamp default current_timestamp, e enum('p','q'), f text character set latin1, g bit(3), h char(2),
             i double default -1.5, j datetime(3), k set('r') not null, l bigint default 7) charset koi8r;
         create table u (id int primary key, a varchar(3))",
    )?;
    let run = |more: &[&str]| {
        let from = address("root", &server);
        let common = ["--format", "debezium", "--from", &from, "--schema", "ddl", "--stop-at-end"];
        let ran = stream(&[&common[..], more].concat())?.output()?;
        ensure!(ran.status.success(), "{}", printed(&ran));
        let lines = String::from_utf8(ran.stdout)?;
        let told = lines.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
        let changes = told.iter().filter_map(|record| record.get("tableChanges").cloned());
        Ok::<_, anyhow::Error>(changes.collect::<Vec<_>>())
    };
    let directory = TempDir::new()?;
    let progress = directory.path().join("progress").display().to_string();
    ensure!(run(&["--snapshot", "--progress", &progress])?.is_empty());
    server.sql(
        "alter table d.t add m tinytext, drop b; alter table d.u modify a varchar(4);
         create table d.v (a char(3)); drop table d.u",
    )?;
    let (later, all) = (run(&["--progress", &progress])?, run(&[])?);
    ensure!(later.len() == 4 && later.iter().all(|changes| changes[0]["type"].is_string()), "{later:?}");
    for (later, all) in later.iter().zip(&all[all.len() - later.len()..]) {
        ensure!(later == all, "{later}\n{all}");
    }
    Ok(())
}

/// SIGINT while rows arrive: the query on the server is killed, however slow connecting is.
#[test]
fn interrupted_snapshots_kill_their_query() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(MANY)?;
    // Connecting takes longer than the interval at which a wait polls for SIGINT.
    server.sql(
        "create user slow; grant replication slave, replication client, xa_recover_admin, select on *.* to slow;
         set global init_connect = 'do sleep(0.5)'",
    )?;
    let from = address("slow", &server);
    let mut command = stream(&["--format", "maxwell", "--from", &from, "--snapshot"])?;
    let mut child = ChildGuard::start(command.stdout(Stdio::piped()).stderr(Stdio::null()))?;
    let mut reader = BufReader::new(child.stdout.take().context("standard output is not piped")?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    // The command waits for its reader, because there are more rows.
    child.interrupt()?;
    std::io::copy(&mut reader, &mut std::io::sink())?;
    let code = child.wait()?.code();
    ensure!(code == Some(130), "{code:?}");
    let killed = server.sql("show global status like 'Com_kill'")?;
    ensure!(killed.trim() == "Com_kill\t1", "{killed}");
    Ok(())
}

/// A table is renamed to the name of another while the rows of a third are read: it has different rows, and must
/// not be streamed in its place.
#[test]
fn renamed_tables_are_noticed_during_a_snapshot() -> Result<()> {
    let servers = [Launch::mysql().option("--binlog-row-metadata=FULL").start()?, Launch::mariadb().start()?];
    for server in servers {
        // Creation times differ by more than a second.
        server.sql(
            "create database d; create table d.a (id int primary key); create table d.t (id int primary key);
             insert into d.t values (1), (2); do sleep(1.1); create table d.z like d.t; insert into d.z values (1)",
        )?;
        let from = address("root", &server);
        let mut command = stream(&["--format", "maxwell", "--from", &from, "--snapshot", "--stop-at-end"])?;
        let mut holder = connect("root", &server)?;
        holder.run("lock tables d.a write")?;
        let child = ChildGuard::start(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
        wait_until("a waiting session", || {
            let waiting = "select count(*) from information_schema.processlist where state like 'Waiting for table metadata%'
                and info like 'SELECT * FROM %'";
            Ok(server.sql(waiting)?.trim() != "0")
        })?;
        server.sql("rename table d.t to d.old, d.z to d.t")?;
        holder.run("unlock tables")?;
        let ran = child.output()?;
        ensure!(ran.status.code() == Some(1), "{ran:?}");
        ensure!(
            printed_ends(
                &ran,
                "the definition of d.t has changed; run the command again: it starts the snapshot over"
            ),
            "{ran:?}"
        );
    }
    Ok(())
}

/// SIGINT ends a run that waits for a locked table, or for a moment without commits.
#[test]
fn waiting_snapshots_can_be_stopped() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(
        "create database d; create table d.t (id int primary key); insert into d.t values (1);
         create user few; grant replication slave, replication client, xa_recover_admin, select on *.* to few",
    )?;
    let run = || -> Result<ChildGuard> {
        let from = address("few", &server);
        let mut command = stream(&["--format", "maxwell", "--from", &from, "--snapshot"])?;
        ChildGuard::start(command.stdout(Stdio::null()).stderr(Stdio::piped()))
    };
    let stopped = |mut child: ChildGuard, expected: &str| -> Result<()> {
        child.interrupt()?;
        wait_until("the end of the command", || Ok(child.try_wait()?.is_some()))?;
        let ran = child.output()?;
        let printed = printed(&ran);
        ensure!(
            ran.status.code() == Some(130) && printed.lines().count() == expected.lines().count(),
            "{ran:?}"
        );
        ensure!(printed.contains(expected), "{printed}");
        Ok(())
    };
    let mut holder = connect("root", &server)?;
    holder.run("lock tables d.t write")?;
    let child = run()?;
    let waiting =
        "select count(*) from performance_schema.processlist where state = 'Waiting for table metadata lock'";
    wait_until("a waiting session", || Ok(server.sql(waiting)?.trim() != "0"))?;
    stopped(child, "snapshot of 1 table at")?;
    let flushes = || server.sql("show global status like 'Com_flush'");
    let before = flushes()?;
    holder.run("unlock tables; set gtid_next = '5ea5ca5e-0001-4000-8000-000000000001:1'; begin")?;
    let child = run()?;
    // The run tries to lock writers, lacks the privilege, and continues to wait.
    wait_until("an attempt to lock", || Ok(flushes()? != before))?;
    stopped(child, "")
}
