//! `bintide export` read back with DuckDB and pyarrow, and compared with the events of the same logs and with the
//! tables of a real server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::bounded;
use e2e::command::{CommandOutput, address};
use e2e::large;
use e2e::program::bintide;
use e2e::readers::read_back;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, SeededRandom, TestServer, seed_from_env, workspace_root};

fn command(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().env("TZ", "UTC").args(arguments).stdin(Stdio::null());
    Ok(command)
}

fn export(directory: &Path, logs: &[PathBuf], more: &[&str]) -> Result<CommandOutput> {
    let mut command = command(&["export"])?;
    Ok(command.arg("--to").arg(directory).args(more).args(logs).output()?.into())
}

/// Exports logs, and returns the document of `--json`.
fn exported(directory: &Path, logs: &[PathBuf], more: &[&str]) -> Result<Value> {
    let ran = export(directory, logs, &[more, &["--json"]].concat())?;
    ensure!(ran.code == Some(0), "{logs:?}: {}", ran.stderr);
    Ok(serde_json::from_str(&ran.stdout)?)
}

/// Returns the rows of a query with DuckDB, one per line. `{}` in it is the pattern of a table's files.
fn query(directory: &Path, table: &str, sql: &str) -> Result<String> {
    let (database, table) = table.split_once('.').context("no database")?;
    let pattern = format!("{}/database={database}/table={table}/**/*.parquet", directory.display());
    let read = format!("read_parquet('{pattern}', union_by_name = true, hive_partitioning = true)");
    read_back("query.py", &[sql.replace("{}", &read)])
}

/// Writes the events of logs as JSON lines.
fn write_events(path: &Path, logs: &[PathBuf]) -> Result<()> {
    let mut events = Vec::new();
    for log in logs {
        let output = command(&["dump", "--json"])?.arg(log).output()?;
        ensure!(output.status.success(), "{}: {}", log.display(), String::from_utf8_lossy(&output.stderr));
        events.extend(output.stdout);
    }
    Ok(fs::write(path, events)?)
}

/// Samples that cannot be exported, and the reason.
const REFUSED: [(&str, &str); 3] = [
    ("incident", "an incident event"),
    ("json-partial-minimal.binlog", "the log has only changes of the JSON column"),
    ("torn.binlog", "torn.binlog"),
];

/// Returns the logs of all samples: name, and files.
fn samples() -> Result<Vec<(String, Vec<PathBuf>)>> {
    let mut samples = Vec::new();
    for entry in fs::read_dir(workspace_root().join("samples"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_directory = path.join("binlog.index").exists();
        // Encrypted logs need their key.
        if name.contains("encrypted") || !is_directory && !name.ends_with(".binlog") {
            continue;
        }
        samples.push((name, vec![path]));
    }
    samples.sort();
    ensure!(samples.len() > 50, "only {} samples", samples.len());
    Ok(samples)
}

/// The export of a log replaces its earlier files, so another selection would remove changes.
#[test]
fn another_selection_is_refused() -> Result<()> {
    let directory = TempDir::new()?;
    let logs = [workspace_root().join("samples/types.binlog")];
    let selection = ["--columns=numbered", "--table=types.integers"];
    exported(directory.path(), &logs, &selection)?;
    exported(directory.path(), &logs, &selection)?;
    for other in [&["--columns=numbered", "--table=types.decimals"][..], &["--columns=numbered"]] {
        let ran = export(directory.path(), &logs, other)?;
        let expected =
            "has an export of --table types.integers: a different selection would replace its files";
        ensure!(ran.code == Some(2) && ran.stderr.contains(expected), "{ran:?}");
    }
    ensure!(directory.path().join("database=types/table=integers").is_dir());
    Ok(())
}

#[test]
fn samples_read_back_as_their_events() -> Result<()> {
    let directory = TempDir::new()?;
    let (mut pairs, mut rows, mut refused) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (name, logs) in samples()? {
        let target = directory.path().join(&name);
        let options = ["--columns=numbered", "--skip-statements", "--json"];
        let ran = export(&target, &logs, &options)?;
        if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            ensure!(ran.code == Some(1) && ran.stderr.contains(reason), "{name}: {ran:?}");
            refused.insert(name);
            continue;
        }
        ensure!(ran.code == Some(0), "{name}: {}", ran.stderr);
        let document: Value = serde_json::from_str(&ran.stdout)?;
        rows.push(document["row_changes"].as_u64().context("no number of row changes")?);
        let events = directory.path().join(format!("{name}.json"));
        write_events(&events, &logs)?;
        pairs.extend([target, events]);
    }
    ensure!(refused.len() == REFUSED.len(), "{refused:?}");
    let found = read_back("compare.py", &pairs)?;
    let found: Vec<u64> = found.lines().map(str::parse).collect::<Result<_, _>>()?;
    ensure!(found == rows, "{found:?} instead of {rows:?}");
    ensure!(rows.iter().sum::<u64>() > 2000, "{rows:?}");
    Ok(())
}

const TYPES: &str = "
    create database shop; use shop;
    create table orders (
        id int unsigned primary key, big bigint unsigned, tiny tinyint, price decimal(20,4), wide decimal(38,10),
        f float, d double, name varchar(50) character set latin1, note text, bin varbinary(20), fixed binary(4),
        day date, at datetime(6), ts timestamp(3) null, clock time(2), y year,
        status enum('new', 'paid', 'sent'), tags set('a', 'b', 'c'), doc json, bits bit(10),
        place point srid 4326, v vector(3));";

/// Columns of the table as texts that are equal in both programs: in MySQL, and in DuckDB.
const SELECTED: [(&str, &str); 22] = [
    ("id", "after.id"),
    ("big", "after.big"),
    ("tiny", "after.tiny"),
    ("price", "after.price"),
    ("wide", "after.wide"),
    ("cast(f as double)", "after.f::double"),
    ("d", "after.d"),
    ("convert(name using utf8mb4)", "after.name"),
    ("note", "after.note"),
    ("hex(bin)", "hex(after.bin)"),
    ("hex(fixed)", "hex(after.fixed)"),
    ("day", "coalesce(after.day::varchar, after_exact['day'])"),
    (
        "date_format(at, '%Y-%m-%d %H:%i:%s.%f')",
        "coalesce(strftime(after.at, '%Y-%m-%d %H:%M:%S.%f'), after_exact['at'])",
    ),
    ("round(unix_timestamp(ts) * 1000)", "epoch_ms(after.ts)"),
    (
        "if(clock between '00:00:00' and '23:59:59.99', time_to_sec(clock), cast(clock as char))",
        "coalesce((epoch_us(after.clock) // 1000000)::varchar, after_exact['clock'])",
    ),
    ("y + 0", "after.y"),
    ("status", "after.status"),
    ("cast(tags as char)", "array_to_string(after.tags, ',')"),
    ("cast(doc as char)", "after.doc"),
    ("bits + 0", "after.bits"),
    (
        "concat(st_srid(place), hex(substr(cast(place as binary), 5)))",
        "after.place.srid || hex(after.place.wkb)",
    ),
    ("vector_to_string(v)", "after.v"),
];

/// Returns the values of a row as SQL.
fn random_values(id: usize, random: &mut SeededRandom) -> String {
    let mut pick = |texts: &[&str]| (*random.pick(texts)).to_owned();
    let values = [
        pick(&["0", "18446744073709551615", "null", "42"]),
        pick(&["-128", "127", "null"]),
        pick(&["0", "-9999999999999999.9999", "0.0001", "null"]),
        pick(&["9999999999999999999999999999.9999999999", "-0.0000000001", "null"]),
        pick(&["1.5", "-0.25", "null"]),
        pick(&["0.5", "-1234.0625", "null"]),
        pick(&["'é'", "''", "'a, b'", "null"]),
        pick(&["'日本語 🚀'", "repeat('x', 3000)", "null"]),
        pick(&["x'00ff'", "''", "null"]),
        pick(&["x'01'", "'abcd'", "null"]),
        pick(&["'0000-00-00'", "'1000-01-01'", "'9999-12-31'", "'2026-02-00'", "null"]),
        pick(&[
            "'2026-11-22 01:02:03.456789'",
            "'0000-00-00 00:00:00'",
            "'9999-12-31 23:59:59.999999'",
            "null",
        ]),
        pick(&["'2026-11-22 01:02:03.456'", "'1970-01-01 00:00:01.001'", "null"]),
        pick(&["'838:59:59'", "'-00:00:01'", "'23:59:59.99'", "'00:00:00'", "null"]),
        pick(&["1901", "2155", "0", "null"]),
        pick(&["'new'", "'sent'", "null"]),
        pick(&["''", "'a,c'", "'a,b,c'", "null"]),
        pick(&["'{\"a\": [1, null, \"é\"]}'", "'17'", "null"]),
        pick(&["b'1111111111'", "0", "null"]),
        pick(&["st_geomfromtext('point(1 2)', 4326)", "null"]),
        pick(&["to_vector('[1,-2.5,0.25]')", "null"]),
    ];
    format!("({id}, {})", values.join(", "))
}

/// Returns statements that insert, update and delete rows.
fn random_changes(random: &mut SeededRandom) -> String {
    let mut sql = String::from("set sql_mode = '', time_zone = '+00:00';");
    for _ in 0..200 {
        let id = 1 + random.below(40);
        let statement = match random.below(4) {
            0 => format!("delete from orders where id = {id};"),
            1 => format!("update orders set big = id, at = now(6), status = 'paid' where id <= {id};"),
            _ => format!("replace into orders values {};", random_values(id, random)),
        };
        sql += &statement;
    }
    sql
}

/// Returns the rows of a server's table, as texts with tabs between them.
fn rows_on_server(server: &TestServer, table: &str) -> Result<String> {
    let columns: Vec<&str> = SELECTED.iter().map(|(mysql, _)| *mysql).collect();
    server.sql(&format!("set time_zone = '+00:00'; select {} from {table} order by id", columns.join(", ")))
}

/// Returns the rows of a table at the end of its changes, by DuckDB.
fn rows_of_changes(directory: &Path, table: &str) -> Result<String> {
    let columns: Vec<String> =
        SELECTED.iter().map(|(_, duckdb)| format!("coalesce(({duckdb})::varchar, 'NULL')")).collect();
    let sql = format!(
        "select {} from (select *, row_number() over (partition by coalesce(after.id, before.id)
             order by log_name desc, log_position desc, change_number desc) as age from {{}})
         where age = 1 and operation <> 'delete' order by after.id",
        columns.join(", ")
    );
    query(directory, table, &sql)
}

/// Compares the tables of the server with the changes, value by value. Numbers may have other digits.
fn compare_rows(server: &str, changes: &str) -> Result<()> {
    let cells = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    };
    let (expected, found) = (cells(server), cells(changes));
    ensure!(
        expected.len() == found.len() && expected.len() > 10,
        "{} of {} rows",
        found.len(),
        expected.len()
    );
    for (row, (expected, found)) in expected.iter().zip(&found).enumerate() {
        for ((expected, found), (mysql, _)) in expected.iter().zip(found).zip(SELECTED) {
            let number = |text: &str| text.parse::<f64>().ok();
            let vector = |text: &str| -> Option<Vec<f64>> {
                let list = text.strip_prefix('[')?.strip_suffix(']')?;
                list.split(',').map(|item| item.trim().parse().ok()).collect()
            };
            let is_equal = expected == found
                || (mysql.contains("double") || mysql == "d") && number(expected) == number(found)
                || mysql.contains("vector")
                    && vector(expected).is_some()
                    && vector(expected) == vector(found);
            ensure!(is_equal, "row {row}, {mysql}: {found:?} instead of {expected:?}");
        }
    }
    Ok(())
}

#[test]
fn changes_end_with_the_rows_of_the_server() -> Result<()> {
    let seed = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {seed}");
    let server = Launch::mysql().options(["--binlog-row-metadata=FULL"]).start()?;
    server.sql(TYPES)?;
    let mut random = SeededRandom::new(seed);
    server.sql(&format!("use shop; {}", random_changes(&mut random)))?;
    server.sql(&format!(
        "use shop; set binlog_transaction_compression = on; begin; {} commit;",
        random_changes(&mut random)
    ))?;
    let (directory, logs) = (TempDir::new()?, server.binlogs()?);
    let document = exported(directory.path(), &logs, &[])?;
    ensure!(document["row_changes"].as_u64() > Some(300), "{document}");
    compare_rows(
        &rows_on_server(&server, "shop.orders")?,
        &rows_of_changes(directory.path(), "shop.orders")?,
    )?;
    let uuid = server.sql("select @@server_uuid")?.trim().to_owned();
    let facts = query(
        directory.path(),
        "shop.orders",
        "select count(distinct gtid) > 100, min(gtid) like 'UUID:%', max(thread_id) > 0, min(change_number),
             count(*) = count(distinct (log_name, log_position, change_number)),
             bool_and(commit_time > now() - interval 1 hour)
         from {}"
            .replace("UUID", &uuid)
            .as_str(),
    )?;
    ensure!(facts == "True\tTrue\tTrue\t1\tTrue\tTrue\n", "{facts}");
    Ok(())
}

/// Logs without names, from a server with MINIMAL metadata; names from the server, the DDL statements, or numbers.
#[test]
fn names_come_from_a_server_or_from_definitions() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=MINIMAL").start()?;
    server.sql(TYPES)?;
    server.sql(&format!("use shop; {}", random_changes(&mut SeededRandom::new(1))))?;
    let (directory, logs) = (TempDir::new()?, server.binlogs()?);
    let expected = rows_on_server(&server, "shop.orders")?;
    let address = address("root", &server);
    for (name, schema) in [("server", address.as_str()), ("ddl", "ddl")] {
        let target = directory.path().join(name);
        exported(&target, &logs, &["--schema", schema])?;
        compare_rows(&expected, &rows_of_changes(&target, "shop.orders")?).context(name)?;
    }
    let refused = export(&directory.path().join("none"), &logs, &[])?;
    ensure!(refused.code == Some(1) && refused.stderr.contains("--schema=ddl"), "{refused:?}");
    let numbered = directory.path().join("numbered");
    exported(&numbered, &logs, &["--columns=numbered"])?;
    let count = query(&numbered, "shop.orders", "select count(after.\"@1\") > 50 from {}")?;
    ensure!(count == "True\n", "{count}");
    Ok(())
}

#[test]
fn row_changes_in_statements_are_errors() -> Result<()> {
    let server =
        Launch::mysql().options(["--binlog-row-metadata=FULL", "--binlog-format=STATEMENT"]).start()?;
    server.sql("create database d; create table d.t (id int primary key, v int)")?;
    let directory = TempDir::new()?;
    for (number, statement) in [
        "insert into d.t values (1, 1)",
        "/*!80000 insert into d.t values (2, 2) */",
        "with c as (select 1 x) update d.t join c on c.x = t.id set t.v = 77",
        "create table d.cs select * from d.t",
    ]
    .into_iter()
    .enumerate()
    {
        server.sql(&format!("flush binary logs; {statement}"))?;
        let logs = server.binlogs()?;
        let target = directory.path().join(number.to_string());
        let refused = export(&target, &logs[logs.len() - 1..], &[])?;
        let is_refused = refused.code == Some(1) && refused.stderr.contains("--skip-statements");
        ensure!(is_refused, "{statement}: {refused:?}");
    }
    Ok(())
}

#[test]
fn definitions_open_another_directory_unless_they_can_be_read_together() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(
        "create database d; use d; create table t (id int primary key, a int, b varchar(5));
         insert into t values (1, 10, 'x');
         alter table t add column c datetime first, modify a bigint;
         insert into t values (null, 2, 20, 'y');
         alter table t drop column b, modify a decimal(10,2);
         insert into t values (now(), 3, 30.5);
         alter table t modify a int;
         insert into t values (null, 4, 40);
         alter table t modify a bigint unsigned; insert into t values (null, 5, 18446744073709551615);
         create table `odd/name` (a int primary key); insert into `odd/name` values (1)",
    )?;
    let (directory, logs) = (TempDir::new()?, server.binlogs()?);
    // Twice: the columns of earlier files are known, and files are replaced.
    for _ in 0..2 {
        exported(directory.path(), &logs, &[])?;
        let sql = "select after.id, after.a, after.b, after.c from {} order by 1";
        let first = query(directory.path(), "d.t", sql)?;
        ensure!(first == "1\t10\tx\tNULL\n2\t20\ty\tNULL\n4\t40\tNULL\tNULL\n", "{first}");
        let second = query(directory.path(), "d.t@2", "select after.id, after.a from {}")?;
        ensure!(second == "3\t30.50\n", "{second}");
        let third = query(directory.path(), "d.t@3", "select after.id, after.a from {}")?;
        ensure!(third == "5\t18446744073709551615\n", "{third}");
        let odd = query(directory.path(), "d.odd%2Fname", "select \"table\", after.a from {}")?;
        ensure!(odd == "odd/name\t1\n", "{odd}");
    }
    Ok(())
}

#[test]
fn images_and_documents_in_parts() -> Result<()> {
    let server =
        Launch::mysql().options(["--binlog-row-metadata=FULL", "--binlog-row-image=MINIMAL"]).start()?;
    server.sql(
        "create database d; use d; create table t (id int primary key, a int, j json);
         insert into t values (1, 10, json_object('a', 1, 'b', repeat('x', 200))); update t set a = 11;
         set binlog_row_image = full, binlog_row_value_options = partial_json;
         update t set j = json_set(j, '$.a', 2);",
    )?;
    let (directory, logs) = (TempDir::new()?, server.binlogs()?);
    exported(directory.path(), &logs, &[])?;
    let rows = query(
        directory.path(),
        "d.t",
        "select operation, before.id, before_omitted, after.id, after.a, left(after.j, 7), after_omitted from {}
         order by log_position",
    )?;
    let expected = "insert\tNULL\tNULL\t1\t10\t{\"a\": 1\tNULL\n\
        update\t1\t['a', 'j']\tNULL\t11\tNULL\t['id', 'j']\n\
        update\t1\tNULL\t1\t11\t{\"a\": 2\tNULL\n";
    ensure!(rows == expected, "{rows}");
    server
        .sql("use d; set binlog_row_value_options = partial_json; update t set j = json_set(j, '$.a', 3);")?;
    let refused = export(&directory.path().join("again"), &server.binlogs()?, &[])?;
    ensure!(refused.code == Some(1) && refused.stderr.contains("JSON column j of d.t"), "{refused:?}");
    Ok(())
}

/// Exports of chosen tables, transactions and periods have no other changes.
#[test]
fn selected_changes_are_exported() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(
        "create database d; use d; create table t (id int primary key); create table u (id int primary key);
         begin; insert into t values (1), (2); insert into u values (1); insert into t values (3); commit;
         insert into u values (2)",
    )?;
    let (directory, logs) = (TempDir::new()?, server.binlogs()?);
    let exported = |name: &str, more: &[&str]| exported(&directory.path().join(name), &logs, more);
    ensure!(exported("all", &[])?["row_changes"] == 5);
    ensure!(exported("table", &["--table=d.t"])?["row_changes"] == 3);
    let table = directory.path().join("table");
    let numbers = query(&table, "d.t", "select list(change_number order by after.id) from {}")?;
    ensure!(numbers == "[1, 2, 4]\n", "{numbers}");
    let other = query(&table, "d.u", "select count(*) from {}");
    ensure!(other.is_err(), "changes of another table were exported");
    let uuid = server.sql("select @@server_uuid")?.trim().to_owned();
    let last = format!("--gtid={uuid}:5");
    ensure!(exported("transaction", &[&last])?["row_changes"] == 1);
    ensure!(exported("period", &["--stop-datetime=2020-01-01 00:00:00"])?["row_changes"] == 0);
    Ok(())
}

/// A log of many chunks: small files, few of them open, little memory.
#[test]
fn large_logs_need_little_memory() -> Result<()> {
    let directory = TempDir::new()?;
    large::record(&["--binlog-row-metadata=FULL"], "large", directory.path())?;
    let (log, target) = (directory.path().join("large.binlog"), directory.path().join("changes"));
    let mut command = command(&["export", "--json", "--memory=8M", "--row-group-size=2k", "--file-size=5k"])?;
    let run = bounded::run(command.arg("--to").arg(&target).arg(&log), Duration::from_secs(120))?;
    ensure!(run.ran.code == Some(0), "{}", run.ran.stderr);
    ensure!(run.peak_kib < 250 << 10, "{} KiB", run.peak_kib);
    let document: Value = serde_json::from_str(&run.ran.stdout)?;
    ensure!(document["files"].as_u64() > Some(2), "{document}");
    let facts =
        query(&target, "large.t", "select count(*), count(distinct (log_position, change_number)) from {}")?;
    let rows = document["row_changes"].as_u64().context("no row changes")?;
    ensure!(facts == format!("{rows}\t{rows}\n") && rows > 240_000, "{facts} {document}");
    Ok(())
}
