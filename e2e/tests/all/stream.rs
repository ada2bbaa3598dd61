//! `bintide stream` compared with the server: its records describe the server's rows, each transaction once.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::alterations::{ALTERATIONS, alteration_script};
use e2e::command::{ChildGuard, address};
use e2e::program::bintide;
use e2e::received::write_keyring;
use serde_json::Value;
use servers::{ServerAddress, SqlConnection};
use tempfile::TempDir;
use testkit::{Launch, SeededRandom, TestPackage, TestServer, seed_from_env};

fn command(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("stream").args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// Returns the output of a successful run.
fn printed(arguments: &[&str]) -> Result<String> {
    let output = command(arguments)?.output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn connect(server: &TestServer) -> Result<SqlConnection> {
    Ok(SqlConnection::open(&ServerAddress::parse(&address("root", server))?)?)
}

fn sample_path(name: &str) -> String {
    format!("{}/../samples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn sample(name: &str) -> Result<String> {
    Ok(fs::read_to_string(sample_path(name))?)
}

/// Applies Maxwell's records; returns the final rows by `database.table`.
fn applied(records: &str) -> Result<BTreeMap<String, Vec<Value>>> {
    let mut tables: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in records.lines() {
        let record: Value = serde_json::from_str(line)?;
        let table = format!("{}.{}", text(&record["database"]), text(&record["table"]));
        let rows = tables.entry(table).or_default();
        let data = &record["data"];
        match record["type"].as_str() {
            Some("insert") => rows.push(data.clone()),
            Some("update") => {
                let mut before = data.clone();
                for (name, value) in record["old"].as_object().into_iter().flatten() {
                    before[name] = value.clone();
                }
                let at =
                    rows.iter().position(|row| *row == before).context("an update without a matching row")?;
                rows[at] = data.clone();
            }
            Some("delete") => {
                let at =
                    rows.iter().position(|row| row == data).context("a delete without a matching row")?;
                rows.remove(at);
            }
            _ => {}
        }
    }
    Ok(tables)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns an expression that selects a column's value as JSON in Maxwell's form.
fn selected(name: &str, data_type: &str) -> String {
    match data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" => format!("`{name}`"),
        "float" | "double" => format!("CAST(`{name}` AS DOUBLE)"),
        "bit" => format!("CAST(`{name}` AS UNSIGNED)"),
        "year" => format!("CAST(`{name}` AS SIGNED)"),
        // Inside another document, the nesting may be too deep.
        "json" | "date" | "time" | "datetime" | "timestamp" => format!("CAST(`{name}` AS CHAR)"),
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "enum" | "set" => {
            format!("CONVERT(`{name}` USING utf8mb4)")
        }
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" | "geomcollection" => format!("ST_AsText(`{name}`, 'axis-order=long-lat')"),
        _ => format!("REPLACE(TO_BASE64(`{name}`), '\\n', '')"),
    }
}

/// Removes text that only the server adds: zero fractions, and the types of bytes in base64.
fn plain_document(text: &str) -> String {
    let mut plain = text.replace(".000000\"", "\"");
    if plain.contains("\"base64:type") {
        // The server inserts line breaks into base64.
        plain = plain.replace("\\n", "");
    }
    while let Some(at) = plain.find("\"base64:type") {
        let end = plain[at + 8..].find(':').map_or(plain.len(), |colon| at + 8 + colon + 1);
        plain.replace_range(at + 1..end, "");
    }
    plain
}

/// Compares a value of the server with Maxwell's.
fn same(data_type: &str, server: &Value, recorded: &Value) -> bool {
    match data_type {
        "float" => {
            server.as_f64().map(|number| number as f32) == recorded.as_f64().map(|number| number as f32)
        }
        "set" => {
            let texts = recorded.as_array().map(|texts| texts.iter().map(text).collect::<Vec<_>>().join(","));
            server.as_str() == texts.as_deref()
        }
        "json" => match server.as_str().map(|text| serde_json::from_str::<Value>(&plain_document(text))) {
            Some(Ok(document)) => document == *recorded,
            Some(Err(_)) => false,
            None => recorded.is_null(),
        },
        // Parsing the text here may lose the last digit.
        "decimal" | "double" => match (server.as_f64(), recorded.as_f64()) {
            (Some(server), Some(recorded)) => (server - recorded).abs() <= server.abs() * 1e-15,
            (server, recorded) => server == recorded,
        },
        _ if server.is_string() && data_type.contains(['g', 'p']) && text(recorded).contains('(') => {
            text(server).replace(' ', "") == text(recorded).replace(' ', "")
        }
        _ => server == recorded,
    }
}

/// Compares the rows of a table; returns the number of compared values.
fn compare(connection: &mut SqlConnection, name: &str, recorded: &[Value]) -> Result<usize> {
    let (database, table) = name.split_once('.').context("a table name without a database")?;
    let columns = connection.rows(&format!(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = '{database}' AND table_name = '{table}'"
    ))?;
    let word = |cell: Option<&Option<Vec<u8>>>| Some(String::from_utf8_lossy(cell?.as_deref()?).into_owned());
    let columns: Vec<(String, String)> =
        columns.into_iter().filter_map(|row| Some((word(row.first())?, word(row.get(1))?))).collect();
    if columns.is_empty() {
        return Ok(0);
    }
    let parts: Vec<String> =
        columns.iter().map(|(name, kind)| format!("'{name}', {}", selected(name, kind))).collect();
    let rows =
        connection.rows(&format!("SELECT JSON_OBJECT({}) FROM `{database}`.`{table}`", parts.join(", ")))?;
    ensure!(
        rows.len() == recorded.len(),
        "{name}: {} rows in the records, {} on the server",
        recorded.len(),
        rows.len()
    );
    let mut recorded: Vec<&Value> = recorded.iter().collect();
    for row in rows {
        let row: Value =
            serde_json::from_slice(row.first().cloned().flatten().as_deref().unwrap_or(b"null"))?;
        let equal =
            |recorded: &&Value| columns.iter().all(|(name, kind)| same(kind, &row[name], &recorded[name]));
        let at = recorded
            .iter()
            .position(equal)
            .with_context(|| format!("{name}: {row} is not among {recorded:?}"))?;
        recorded.remove(at);
    }
    Ok(columns.len())
}

#[test]
fn records_equal_the_servers_rows() -> Result<()> {
    for compression in ["OFF", "ON"] {
        let options = [
            "--binlog-row-metadata=FULL".to_owned(),
            "--binlog-row-value-options=PARTIAL_JSON".to_owned(),
            format!("--binlog-transaction-compression={compression}"),
        ];
        let server = Launch::mysql().options(options).start()?;
        server.sql(&sample("types.sql")?)?;
        server.sql(&sample("json.sql")?)?;
        let store = server.datadir().join("binlog.index");
        let records = printed(&["--format", "maxwell", &store.display().to_string()])?;
        let mut connection = connect(&server)?;
        connection.run("SET time_zone = '+00:00'")?;
        let mut values = 0;
        for (table, rows) in applied(&records)? {
            values += compare(&mut connection, &table, &rows)?;
        }
        ensure!(values > 100, "only {values} columns were compared");
    }
    Ok(())
}

/// Forms of values are chosen on the command line or in the settings file.
#[test]
fn forms_of_values_are_chosen() -> Result<()> {
    let log = sample_path("types-full-metadata.binlog");
    let settings = TempDir::new()?;
    let file = settings.path().join("bintide.toml");
    fs::write(&file, "[stream]\ndecimal-handling-mode = \"string\"\ntime-precision-mode = \"isostring\"\n")?;
    let config = format!("--config={}", file.display());
    let filter = ["--format=debezium", "--do-table=types.decimals", "--do-table=types.temporals", &log];
    for (option, expected) in [
        (&*config, ["\"d5\":\"-999.99\"", "\"t6\":\"10:20:30.5Z\""]),
        ("--decimal-handling-mode=double", ["\"d5\":-999.99", "\"t6\":37230500000"]),
    ] {
        let records = printed(&[&filter[..], &[option]].concat())?;
        ensure!(expected.iter().all(|expected| records.contains(expected)), "{option}: {records}");
    }
    Ok(())
}

/// Starts a server with this number of transactions; also returns the path of its index.
fn busy(transactions: usize) -> Result<(TestServer, PathBuf)> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql("create database d; create table d.t (a int primary key auto_increment, b text)")?;
    let insert = "insert into d.t (b) values (repeat('x', 300)), ('two'), ('three');\n";
    server.sql(&insert.repeat(transactions))?;
    server.sql("flush binary logs")?;
    let index = server.datadir().join("binlog.index");
    Ok((server, index))
}

#[test]
fn killed_streams_write_each_transaction_once() -> Result<()> {
    let (_server, index) = busy(1500)?;
    let index = index.display().to_string();
    let expected = printed(&["--format", "maxwell", &index])?;
    let directory = TempDir::new()?;
    let out = directory.path().join("out");
    let arguments =
        ["--format", "maxwell", &index, "--file-size", "100000", "--out", &out.display().to_string()]
            .map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let seed = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {seed}");
    let mut random = SeededRandom::new(seed);
    let mut kills = 0;
    loop {
        let mut child = ChildGuard::start(&mut command(&arguments)?)?;
        thread::sleep(Duration::from_micros(random.below(40_000) as u64));
        let ended = child.try_wait()?;
        child.kill()?;
        child.wait()?;
        match ended {
            Some(status) if status.success() => break,
            Some(status) => ensure!(false, "{status}"),
            None => kills += 1,
        }
        if kills > 200 {
            ensure!(command(&arguments)?.status()?.success());
            break;
        }
    }
    println!("{kills} kills");
    ensure!(joined(&out)? == expected, "the files differ from the output of one run");
    Ok(())
}

/// A store with compressed closed logs, and a stream of it to files.
struct CompressedStore {
    directory: TempDir,
    /// Options for encryption, and for reading encrypted logs.
    encryption: [Vec<String>; 2],
}

impl CompressedStore {
    fn new(encryption: [Vec<String>; 2]) -> Result<Self> {
        Ok(Self { directory: TempDir::new()?, encryption })
    }

    fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    /// Receives up to the server's last event.
    fn receive(&self, server: &TestServer) -> Result<()> {
        let mut command = Command::new(bintide()?);
        command.env_clear().arg("receive").arg(self.directory.path().join("logs"));
        command.args(["--compress", "3", "--stop-at-end", "-q", "--from", &address("root", server)]);
        let ran = command.args(&self.encryption[0]).output()?;
        ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Ok(())
    }

    /// Streams up to the store's last event.
    fn stream(&self, more: &[&str]) -> Result<String> {
        let index = self.directory.path().join("logs/binlog.index").display().to_string();
        let key: Vec<&str> = self.encryption[1].iter().map(String::as_str).collect();
        printed(&[&["--format", "maxwell", &index], &key[..], more].concat())
    }

    /// Returns the number of compressed logs.
    fn compressed(&self) -> Result<usize> {
        let entries = fs::read_dir(self.directory.path().join("logs"))?;
        let names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
        Ok(names.iter().filter(|name| name.to_string_lossy().starts_with("positions.")).count())
    }
}

/// Rows of several sizes, and a transaction that the source itself compresses.
const CHANGES: &str = "insert into d.t (b, c) values (repeat('x', 300), '[1]'), ('two', '{}'), ('three', null);
    begin; update d.t set b = 'four', c = json_array(a); delete from d.t where a % 3 = 0; commit;
    set session binlog_transaction_compression = on; insert into d.t (b) values (repeat('y', 3000));
    set session binlog_transaction_compression = off; insert into d.t (b) select repeat(b, 9) from d.t limit 20;";

/// `receive --compress` compresses logs in which a stream has stopped: the stream resumes in them.
#[test]
fn streams_resume_in_a_log_that_was_compressed_meanwhile() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    let directory = TempDir::new()?;
    let keyring = directory.path().join("keyring");
    write_keyring(&keyring)?;
    let key = ["--keyring".to_owned(), keyring.display().to_string()];
    let encrypted = [&["--encrypt".to_owned()], &key[..]].concat();
    let stores =
        [CompressedStore::new([Vec::new(), Vec::new()])?, CompressedStore::new([encrypted, key.to_vec()])?];
    let rest = |store: &CompressedStore| {
        store.receive(&server)?;
        store.stream(&["--out", &store.out().display().to_string()])
    };
    server.sql(&sample("types.sql")?)?;
    server.sql("create database d; create table d.t (a int primary key auto_increment, b text, c json)")?;
    for closed in 1..=3 {
        server.sql(&CHANGES.repeat(6))?;
        stores.iter().try_for_each(|store| rest(store).map(drop))?;
        server.sql(&format!("{CHANGES} {CHANGES} flush binary logs"))?;
        for store in &stores {
            store.receive(&server)?;
            ensure!(store.compressed()? >= closed, "{} logs are compressed", store.compressed()?);
        }
    }
    let expected =
        printed(&["--format", "maxwell", &server.datadir().join("binlog.index").display().to_string()])?;
    let seed = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {seed}");
    let mut random = SeededRandom::new(seed);
    let tokens: Vec<_> = expected.match_indices("\"resume\":\"").collect();
    for store in &stores {
        rest(store)?;
        ensure!(joined(&store.out())? == expected, "the files differ from one run over the source's logs");
        // Every resume point gives the same result.
        for _ in 0..8 {
            let (start, _) = tokens[random.below(tokens.len())];
            let token = expected[start + 10..].split('"').next().unwrap_or_default();
            let next_line = start + expected[start..].find('\n').context("no end of line")? + 1;
            ensure!(
                store.stream(&["--resume", token])? == expected[next_line..],
                "a different rest after {token}"
            );
        }
    }
    Ok(())
}

/// Statement with about 40 MiB of rows, about 21 MiB compressed: a payload too large to be kept in memory.
const LARGE: &str = "set session cte_max_recursion_depth = 20000;
    insert into d.t (b) with recursive n (i) as (select 1 union all select i + 1 from n where i < 20000)
        select hex(random_bytes(1024)) from n;";

/// The same with payloads too large to be kept in memory: one that `receive` compresses, and one of the source.
#[test]
fn streams_resume_around_a_large_payload_that_was_compressed_meanwhile() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(
        "create database d; create table d.t (a int primary key auto_increment, b mediumtext, c json)",
    )?;
    let store = CompressedStore::new([Vec::new(), Vec::new()])?;
    let out = store.out().display().to_string();
    for (log, compression) in [("binlog.000001", "off"), ("binlog.000002", "on")] {
        // The stream has stopped in the uncompressed log, before the large transaction.
        server.sql("insert into d.t (b) values ('first')")?;
        store.receive(&server)?;
        store.stream(&["--out", &out])?;
        server.sql(&format!("set session binlog_transaction_compression = {compression}; {LARGE}"))?;
        server.sql("insert into d.t (b) values ('last'); flush binary logs")?;
        store.receive(&server)?;
        let size = fs::metadata(store.directory.path().join("logs").join(log))?.len();
        ensure!((18 << 20..30 << 20).contains(&size), "{log} has {size} bytes");
    }
    ensure!(store.compressed()? > 0, "no log is compressed");
    store.stream(&["--out", &out])?;
    let expected =
        printed(&["--format", "maxwell", &server.datadir().join("binlog.index").display().to_string()])?;
    ensure!(joined(&store.out())? == expected, "the files differ from one run over the source's logs");
    let tokens: Vec<usize> = expected.match_indices("\"resume\":\"").map(|(start, _)| start).collect();
    let large = tokens.windows(2).filter(|ends| ends[1] - ends[0] > 16 << 20);
    let around: Vec<usize> = large.flatten().copied().collect();
    ensure!(around.len() == 4, "{around:?}");
    for start in around {
        let token = expected[start + 10..].split('"').next().unwrap_or_default();
        let next_line = start + expected[start..].find('\n').context("no end of line")? + 1;
        ensure!(
            store.stream(&["--resume", token])? == expected[next_line..],
            "a different rest after {token}"
        );
    }
    Ok(())
}

/// Returns the contents of all finished files of a directory.
fn joined(directory: &Path) -> Result<String> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths.into_iter().map(|path| Ok(fs::read_to_string(path)?)).collect()
}

#[test]
fn running_servers_are_followed_and_resumed() -> Result<()> {
    for launch in [Launch::mysql(), Launch::mariadb()] {
        let server = launch.option("--binlog-row-metadata=FULL").option("--binlog-format=ROW").start()?;
        server.sql("create database d; create table d.t (a int primary key, b text); insert into d.t values (1, 'one')")?;
        server.sql(
            "flush binary logs; insert into d.t values (2, 'two'); update d.t set b = 'zwei' where a = 2",
        )?;
        let from = address("root", &server);
        let index = server.datadir().join("binlog.index").display().to_string();
        let live = ["--format", "maxwell", "--from", &from, "--do-db", "d"];
        let there = printed(&[&live[..], &["--stop-at-end"]].concat())?;
        ensure!(there == printed(&["--format", "maxwell", "--do-db", "d", &index])?, "{there}");
        let directory = TempDir::new()?;
        let progress = directory.path().join("progress").display().to_string();
        let kept = [&live[..], &["--progress", &progress]].concat();
        let mut child = ChildGuard::start(command(&kept)?.stdout(Stdio::piped()))?;
        let mut lines = BufReader::new(child.stdout.take().context("standard output is not piped")?).lines();
        for expected in there.lines() {
            ensure!(lines.next().context("no record")?? == expected);
        }
        server.sql("insert into d.t values (3, 'drei')")?;
        let record: Value = serde_json::from_str(&lines.next().context("no record")??)?;
        ensure!(record["data"]["b"] == "drei", "{record}");
        stop(child)?;
        ensure!(fs::read_to_string(&progress)?.lines().next() == record["resume"].as_str());
        server.sql("delete from d.t where a = 1")?;
        let more = printed(&[&kept[..], &["--stop-at-end"]].concat())?;
        ensure!(more.lines().count() == 1 && more.contains("\"delete\""), "{more}");
    }
    Ok(())
}

#[test]
fn system_versioned_tables_have_their_names_and_history_columns() -> Result<()> {
    const HIDDEN: &str = "v (a int, b text) with system versioning";
    const OWN: &str = "v (a int, b text, s timestamp(6) generated always as row start, e timestamp(6) generated always as \
        row end, period for system_time (s, e)) with system versioning";
    for (definition, names) in [(HIDDEN, ["a", "b", "row_start", "row_end"]), (OWN, ["a", "b", "s", "e"])] {
        let server = Launch::mariadb().option("--binlog-format=ROW").start()?;
        server.sql(&format!("create database d; create table d.{definition}"))?;
        server.sql("insert into d.v (a, b) values (1, 'one'); update d.v set b = 'eins'; delete from d.v")?;
        let index = server.datadir().join("binlog.index").display().to_string();
        let records = printed(&["--format", "maxwell", "--schema", "ddl", "--do-db", "d", &index])?;
        for record in records.lines().map(serde_json::from_str::<Value>) {
            let record = record?;
            if let Some(data) = record["data"].as_object() {
                ensure!(
                    data.len() == names.len() && names.iter().all(|name| data.contains_key(*name)),
                    "{record}"
                );
            }
        }
        ensure!(records.contains("\"b\":\"eins\""), "{records}");
        let target = TempDir::new()?;
        let to = format!("sqlite:{}", target.path().join("d.sqlite").display());
        let output = Command::new(bintide()?).args(["replay", "--to", &to, &index]).output()?;
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(messages.contains("cannot translate this statement for SQLite"), "{messages}");
    }
    Ok(())
}

/// Versioned tables of MariaDB that are altered, and a sequence.
const MARIADB_DEFINITIONS: &str = "create database d; use d; set system_versioning_alter_history = keep;
    create table v (id int primary key, a int) with system versioning; insert into v values (1, 1);
    alter table v add b int; insert into v values (2, 2, 2); delete from v where id = 1;
    alter table v drop system versioning; insert into v values (3, 3, 3); update v set b = 4;
    alter table v add system versioning, drop primary key, add primary key (a); delete from v where id = 3;
    create table p (id int primary key, s timestamp(6) generated always as row start,
      e timestamp(6) generated always as row end, period for system_time (s, e)) with system versioning;
    insert into p (id) values (1); alter table p drop primary key, add primary key (id);
    insert into p (id) values (2); delete from p;
    create table u (id int primary key, row_start timestamp, row_end timestamp);
    alter table u add b int; insert into u (id, b) values (1, 2);
    create sequence q; do nextval(q); alter sequence q restart 7; do nextval(q)";

/// Definitions from the DDL statements of MariaDB give the columns and keys that its metadata has.
#[test]
fn definitions_of_mariadb_match_its_metadata() -> Result<()> {
    let shapes = |metadata: &str, more: &[&str]| -> Result<Vec<[String; 3]>> {
        let server = Launch::mariadb().options(["--binlog-format=ROW", metadata]).start()?;
        server.sql(MARIADB_DEFINITIONS)?;
        let index = server.datadir().join("binlog.index").display().to_string();
        let records = printed(
            &[&["--format", "debezium", "--do-db", "d", "--ignore-db", "mysql", &index], more].concat(),
        )?;
        let records = records.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
        let rows = records.iter().filter(|record| record["op"].is_string());
        Ok(rows
            .map(|record| {
                let image = record["after"].as_object().or(record["before"].as_object());
                let names: Vec<&str> =
                    image.into_iter().flat_map(|image| image.keys()).map(|name| &**name).collect();
                [text(&record["source"]["table"]).to_owned(), text(&record["op"]).to_owned(), names.join(" ")]
            })
            .collect())
    };
    let by_metadata = shapes("--binlog-row-metadata=FULL", &[])?;
    let by_definitions = shapes("--binlog-row-metadata=NO_LOG", &["--schema", "ddl"])?;
    ensure!(by_metadata == by_definitions, "{by_metadata:#?}, not {by_definitions:#?}");
    ensure!(by_metadata.len() > 12, "{by_metadata:?}");
    Ok(())
}

/// The statements of `--queries` would reveal what other options hide.
#[test]
fn statements_are_not_written_beside_hidden_columns() -> Result<()> {
    for hiding in
        [["--column-mask", "3:.*"], ["--column-exclude-list", "d.t.a"], ["--column-truncate", "3:.*"]]
    {
        let sample = sample_path("types.binlog");
        let ran =
            command(&[&["--format", "debezium", "--queries"], &hiding[..], &[&sample]].concat())?.output()?;
        let messages = String::from_utf8_lossy(&ran.stderr);
        let is_named = messages.contains(&format!("--queries and {} exclude each other", hiding[0]));
        ensure!(ran.status.code() == Some(2) && ran.stdout.is_empty() && is_named, "{ran:?}");
    }
    Ok(())
}

/// Sends SIGINT, as Ctrl-C does, and checks the exit code.
fn stop(child: ChildGuard) -> Result<()> {
    child.interrupt()?;
    let status = child.output()?.status;
    ensure!(status.code() == Some(130), "{status}");
    Ok(())
}

/// Returns the records of a table's two rows; the log names the columns of the second only.
fn both(records: &str) -> Result<[Value; 2]> {
    let rows = records.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let mut rows = rows.into_iter().filter_map(|mut record| {
        let row = if record["data"].is_object() { record["data"].take() } else { record["after"].take() };
        row.is_object().then_some(row)
    });
    Ok([rows.next().context("no row")?, rows.next().context("no second row")?])
}

/// Columns with values that the log alone does not determine, and values to insert.
const MYSQL: [&str; 2] = [
    "a int unsigned, b enum('x','it''s','ä') character set latin1, c set('p','q'), e varchar(9) character set latin1,
     f varbinary(9), g blob, h point, i decimal(9,2), j bigint unsigned, k datetime(3), l char(3), `m\"n` json",
    "4000000000, 'ä', 'p,q', 'é', 'ab', x'00ff', st_geomfromtext('POINT(1 2)'), -1.5, 18446744073709551615,
     '2026-01-02 03:04:05.678', 'ö', '[1]'",
];
const MARIADB: [&str; 2] = [
    "a int unsigned, b enum('x','it''s','ä') character set latin1, c set('p','q'), e varchar(9) character set latin1,
     f varbinary(9), g blob, h point, i decimal(9,2), j bigint unsigned, k datetime(3), l char(3)",
    "4000000000, 'ä', 'p,q', 'é', 'ab', x'00ff', st_geomfromtext('POINT(1 2)'), -1.5, 18446744073709551615,
     '2026-01-02 03:04:05.678', 'ö'",
];

#[test]
fn column_names_come_from_the_server() -> Result<()> {
    let mariadb = Launch::mariadb().option("--binlog-format=ROW");
    for (launch, [columns, values]) in [(Launch::mysql(), MYSQL), (mariadb, MARIADB)] {
        let server = launch.start()?;
        let insert = |id: u8| format!("set names utf8mb4; insert into d.t values ({values}, {id});");
        server.sql(&format!(
            "set names utf8mb4; create database d; create table d.t ({columns}, id int, primary key (e, id)); {}
             set global binlog_row_metadata = FULL; {}",
            insert(1),
            insert(2)
        ))?;
        let (from, index) = (address("root", &server), server.datadir().join("binlog.index"));
        let index = index.display().to_string();
        for form in ["maxwell", "debezium"] {
            let there = printed(&["--format", form, "--from", &from, "--stop-at-end"])?;
            let [mut first, second] = both(&there)?;
            ensure!(first["id"] == 1 && second["id"] == 2, "{there}");
            first["id"] = second["id"].clone();
            ensure!(first == second, "{first}\n{second}");
            let again = printed(&["--format", form, "--schema", &from, &index])?;
            ensure!(both(&again)? == both(&there)?, "{again}");
        }
        let nameless = command(&["--format", "maxwell", &index])?.output()?;
        ensure!(!nameless.status.success());
        changed_since(&server, &from, &index)?;
    }
    Ok(())
}

/// Tests tables whose definition has changed since the log was written.
fn changed_since(server: &TestServer, from: &str, index: &str) -> Result<()> {
    server.sql(
        "set global binlog_row_metadata = default; create table d.u (a int, b int); insert into d.u values (1, 2);
         alter table d.u change b c int",
    )?;
    let run = || {
        Ok::<_, anyhow::Error>(
            command(&["--format", "maxwell", "--do-table", "d.u", "--schema", from, index])?.output()?,
        )
    };
    let ran = run()?;
    let [out, messages] = [&ran.stdout, &ran.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    ensure!(ran.status.success() && out.contains(r#""data":{"a":1,"c":2}"#), "{out} {messages}");
    let messages = messages.trim_end();
    let is_whole = messages.starts_with("bintide: binlog.0")
        && messages.contains(": d.u was altered here: ")
        && messages.ends_with("may be wrong. Use --schema=ddl");
    ensure!(is_whole && messages.lines().count() == 1, "{messages}");
    let recorded = printed(&["--format", "maxwell", "--do-table", "d.u", "--schema=ddl", index])?;
    ensure!(recorded.contains(r#""data":{"a":1,"b":2}"#), "{recorded}");
    server.sql("alter table d.u add d int")?;
    let ran = run()?;
    let messages = String::from_utf8_lossy(&ran.stderr);
    ensure!(!ran.status.success() && messages.contains("the server has no matching table"), "{messages}");
    let numbered = printed(&[
        "--format",
        "maxwell",
        "--do-table",
        "d.u",
        "--schema",
        from,
        index,
        "--columns",
        "numbered",
    ])?;
    ensure!(numbered.contains(r#""data":{"@1":1,"@2":2}"#), "{numbered}");
    Ok(())
}

/// Tables with functional indexes before, between and after other columns.
const FUNCTIONAL: &str = "create database f; use f; create table one (id int primary key, a int, key ((a * 2)));
    insert into one values (1, 2), (2, null); update one set a = 3 where id = 1; delete from one where id = 2;
    create table mid (id int primary key, a varchar(10), key ((upper(a))), b int, unique key ((b + 1), a),
      v int generated always as (id + 1) virtual, w int generated always as (id + 2) stored);
    insert into mid (id, a, b) values (1, 'x', 5); update mid set b = 6;
    alter table mid add column c int, add column d int first; insert into mid (id, a, b, c, d) values (2, 'y', 7, 8, 9);
    alter table mid add key ((c + d)); update mid set d = 10; create index late on mid ((d * 2)); update mid set c = 3;
    alter table mid drop index late; update mid set c = 4; set binlog_row_image = minimal;
    update mid set a = 'z' where id = 1; delete from mid where id = 2; set binlog_row_image = full;
    create table no_key (a int, key ((a + 1)), b json, key ((cast(b ->> '$.x' as unsigned))));
    insert into no_key values (1, '{\"x\": 5}'); update no_key set a = 2; delete from no_key;
    create table li like one; insert into li values (5, 6); rename table li to li2;
    alter table li2 add column z int after id; insert into li2 values (6, 7, 8); flush binary logs";

/// MySQL 8.0.15 lists the hidden columns of functional indexes in table maps, and names them in full metadata.
#[test]
fn hidden_columns_of_functional_indexes_are_in_no_record() -> Result<()> {
    let server = Launch::of(TestPackage::Mysql8_0_15).start()?;
    let mut recorded = Vec::new();
    for metadata in ["full", "minimal"] {
        server.sql(&format!("set global binlog_row_metadata = {metadata}"))?;
        server.sql("drop database if exists f; flush binary logs")?;
        server.sql(FUNCTIONAL)?;
        let logs = server.binlogs()?;
        let log = logs[logs.len() - 2].display().to_string();
        let changes = |more: &[&str]| -> Result<Vec<[Value; 4]>> {
            let printed = printed(&[&["--format", "maxwell", &log], more].concat())?;
            let records = printed.lines().map(serde_json::from_str::<Value>);
            let records = records.collect::<Result<Vec<_>, _>>()?;
            let rows = records.into_iter().filter(|record| record["data"].is_object());
            Ok(rows.map(|record| ["table", "type", "data", "old"].map(|name| record[name].clone())).collect())
        };
        recorded.push(changes(&["--schema", "ddl"])?);
        let by_server = changes(&["--schema", &address("root", &server), "--do-table", "f.one"])?;
        let of_one = recorded[0].iter().filter(|change| change[0] == "one").cloned().collect::<Vec<_>>();
        ensure!(by_server == of_one && of_one.len() == 4, "{metadata}: {by_server:?}, not {of_one:?}");
    }
    ensure!(
        recorded[0] == recorded[1] && recorded[0].len() == 20,
        "{:?}, not {:?}",
        recorded[1],
        recorded[0]
    );
    Ok(())
}

/// Columns that exchange their names in one statement, and positions after new names.
#[test]
fn names_follow_changes_of_several_columns() -> Result<()> {
    let mariadb = Launch::mariadb().option("--binlog-format=ROW");
    for launch in [Launch::mysql(), mariadb] {
        let server = launch.option("--binlog-row-metadata=MINIMAL").start()?;
        server.sql(&alteration_script())?;
        let index = server.datadir().join("binlog.index").display().to_string();
        let records = printed(&["--format", "maxwell", "--schema", "ddl", "--do-db", "h", &index])?;
        let (mut connection, tables) = (connect(&server)?, applied(&records)?);
        for (number, changes) in ALTERATIONS.iter().enumerate() {
            let name = format!("h.k{number}");
            let rows = tables.get(&name).with_context(|| format!("no rows of {name}: {changes}"))?;
            let columns = compare(&mut connection, &name, rows).with_context(|| changes.to_string())?;
            ensure!(columns > 2, "{changes}: {columns} columns");
        }
    }
    Ok(())
}

/// Statements that change rows of `d.t` (id, v), and are in the log as statements.
const ROW_STATEMENTS: [&str; 7] = [
    "insert into t values (2, 2)",
    "/*! update t set v = 3 */",
    "select f()",
    "do f()",
    "set @a = f()",
    "create table cs select * from t",
    "create table cs (id int) engine = innodb (select id from t)",
];

/// As [`ROW_STATEMENTS`], on MySQL and on MariaDB.
const ROW_STATEMENTS_MYSQL: [&str; 4] = [
    "/*!80000 insert into t values (2, 2) */",
    "/*!80000 create table cs as table t */",
    "with c as (select 1 x) update t join c on c.x = t.id set t.v = 77",
    "with c as (select 1 x) delete from t where id in (select x from c)",
];
const ROW_STATEMENTS_MARIADB: [&str; 5] = [
    "/*M! insert into t values (2, 2) */",
    "/*!100000 insert into t values (2, 2) */",
    "/*M!100100 set statement max_statement_time = 10 for */ insert into t values (2, 2)",
    "analyze update t set v = 9",
    "analyze format = json delete from t",
];

/// Statements that change no rows, or only definitions.
const OTHER_STATEMENTS: [&str; 6] = [
    "/*!40000 drop database if exists x */",
    "/*!40000 alter table t disable keys */",
    "create temporary table p select * from t; drop temporary table p",
    "/*!50001 create view w as select * from t */",
    "analyze table t",
    "set binlog_format = row; create table cs select * from t",
];

#[test]
fn row_changes_in_statements_are_errors() -> Result<()> {
    let mariadb = Launch::mariadb();
    for (launch, more) in [(Launch::mysql(), &ROW_STATEMENTS_MYSQL[..]), (mariadb, &ROW_STATEMENTS_MARIADB)] {
        let server =
            launch.options(["--binlog-row-metadata=FULL", "--log-bin-trust-function-creators=1"]).start()?;
        let row_statements = ROW_STATEMENTS.iter().chain(more).map(|statement| (*statement, true));
        for (statement, is_error) in
            row_statements.chain(OTHER_STATEMENTS.map(|statement| (statement, false)))
        {
            server.sql(
                "drop database if exists d; create database d; use d; create table t (id int primary key, v int);
delimiter //
create function f() returns int deterministic begin insert into t values (9, 9); return 1; end//
delimiter ;",
            )?;
            server.sql(&format!(
                "set session binlog_format = row; insert into d.t values (1, 1); flush binary logs; use d;
                 set session binlog_format = statement; {statement}"
            ))?;
            let logs = server.binlogs()?;
            let log = logs.last().context("no log")?.display().to_string();
            let ran = command(&["--format", "maxwell", "--schema", "ddl", &log])?.output()?;
            let messages = String::from_utf8_lossy(&ran.stderr);
            let is_refused = !ran.status.success() && messages.contains("--skip-statements");
            ensure!(is_refused == is_error, "{statement}: {} {messages}", ran.status);
            let records = printed(&["--format", "maxwell", "--schema", "ddl", "--skip-statements", &log])?;
            let expected: &[&str] = match statement {
                _ if statement.contains("create table cs") => &["table-create"],
                _ if statement.contains("drop database") => &["database-drop"],
                _ if statement.contains("alter table") => &["table-alter"],
                _ => &[],
            };
            let kinds = records.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
            let kinds: Vec<&str> = kinds.iter().map(|record| text(&record["type"])).collect();
            ensure!(kinds.iter().filter(|kind| **kind != "insert").eq(expected), "{statement}: {records}");
        }
    }
    Ok(())
}
