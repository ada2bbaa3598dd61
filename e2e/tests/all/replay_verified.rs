//! `bintide replay --verify`: equal tables are reported as equal, and different tables are named, for every kind of
//! target.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::as_sql::TYPES;
use e2e::command::{CommandOutput, address, replay};
use e2e::program::bintide;
use e2e::replays::{source, target};
use rusqlite::Connection as Sqlite;
use tempfile::TempDir;
use testkit::{Launch, TestPackage, TestServer};

const SCRIPTS: [&str; 8] = [
    "types",
    "json",
    "triggers",
    "foreign-keys",
    "partitions",
    "charsets",
    "invisible-keys",
    "mixed-engines",
];

fn verified(source: &TestServer, target: &TestServer, more: &[&str]) -> Result<CommandOutput> {
    let with = address("root", source);
    replay(&source.binlogs()?, target, &[&["--verify", &with], more].concat())
}

/// Replays to a SQLite database with --verify.
fn verified_file(source: &TestServer, file: &Path, more: &[&str]) -> Result<CommandOutput> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("replay").args(source.binlogs()?);
    command.args(["--to", &format!("sqlite:{}", file.display()), "--verify", &address("root", source)]);
    Ok(command.args(more).output()?.into())
}

/// Checks that all tables are equal; returns their number.
fn all_equal(ran: &CommandOutput, by: &str) -> Result<usize> {
    let equal = ran.stdout.lines().filter(|line| line.starts_with("equal ")).count();
    let sum = ran.stdout.lines().last().unwrap_or_default();
    ensure!(ran.code == Some(0) && sum.ends_with(&format!("{equal} equal")), "{ran:?}");
    ensure!(sum.starts_with(&format!("{equal} table")) && sum.contains(by), "{ran:?}");
    Ok(equal)
}

fn differs(ran: &CommandOutput, expected: &[&str]) -> Result<()> {
    ensure!(ran.code == Some(1), "{ran:?}");
    for expected in expected {
        ensure!(ran.stdout.lines().any(|line| line.starts_with(expected)), "{expected}: {ran:?}");
    }
    let others = ran.stdout.lines().filter(|line| line.starts_with("differs") || line.starts_with("missing"));
    ensure!(others.count() == expected.len(), "{ran:?}");
    Ok(())
}

#[test]
fn servers_of_the_same_release_are_compared_by_checksums() -> Result<()> {
    let source = source(&Launch::mysql(), &SCRIPTS)?;
    source
        .sql("create database d; create table d.a (id int primary key, n int); create table d.b like d.a")?;
    source.sql(
        "insert into d.a values (1, 1), (2, 2); insert into d.b values (1, 1); create table d.c (id int)",
    )?;
    source.sql("create view d.v as select 1; create table d.gone (id int); drop table d.gone")?;
    let target = target("--skip-log-bin")?;
    let ran = verified(&source, &target, &[])?;
    ensure!(all_equal(&ran, "CHECKSUM TABLE")? > 10, "{ran:?}");
    ensure!(!ran.stdout.contains("`v`") && !ran.stdout.contains("`gone`"), "{ran:?}");
    // A second run with nothing to apply verifies the same tables of the logs.
    ensure!(all_equal(&verified(&source, &target, &[])?, "CHECKSUM TABLE")? > 10);
    target.sql("update d.a set n = 3 where id = 2; drop table d.b; alter table d.c add column n int")?;
    let expected = [
        "differs  `d`.`a`: the server has the checksum ",
        "missing  `d`.`b`: the target does not have it",
        "differs  `d`.`c`: the server has the columns id, but the target id, n",
    ];
    differs(&verified(&source, &target, &[])?, &expected)?;
    source.sql("set sql_log_bin = 0; drop table d.c")?;
    let ran = verified(&source, &target, &["--json"])?;
    let json: String = ran.stdout.split_whitespace().collect();
    ensure!(
        ran.code == Some(1) && json.contains("\"by\":\"CHECKSUMTABLE\",\"executed_besides\":\"\""),
        "{ran:?}"
    );
    for expected in [
        "\"is_equal\":false",
        "\"server_table\":\"`d`.`c`\",\"target_table\":\"`d`.`c`\",\"verdict\":\"missing\"",
        "\"verdict\":\"equal\"",
        "\"found\":\"theserverdoesnothaveit\"",
    ] {
        ensure!(json.contains(expected), "{expected}: {ran:?}");
    }
    Ok(())
}

/// MySQL computes another checksum at each call for a table with a multi-valued index.
#[test]
fn tables_with_multi_valued_indexes_are_compared_by_their_rows() -> Result<()> {
    let source = Launch::mysql().start()?;
    source.sql(
        "create database d; create table d.m (id int primary key, j json,
            key values_of_a ((cast(j->'$.a' as unsigned array))));
        create table d.e (id int primary key, n int, key next ((n + 1)));
        insert into d.m values (1, '{\"a\": [1, 2, 3]}'), (2, '{\"a\": [4]}'), (3, null);
        insert into d.e values (1, 1), (2, 2)",
    )?;
    let target = target("--skip-log-bin")?;
    for _ in 0..3 {
        ensure!(all_equal(&verified(&source, &target, &[])?, "CHECKSUM TABLE")? == 2);
    }
    target.sql("update d.m set j = '{\"a\": [5]}' where id = 2; update d.e set n = 3 where id = 2")?;
    let expected = [
        "differs  `d`.`e`: the server has 2 rows with the digest ",
        "differs  `d`.`m`: the server has 3 rows with the digest ",
    ];
    differs(&verified(&source, &target, &[])?, &expected)
}

#[test]
fn filtered_tables_are_not_compared_and_renamed_tables_have_their_new_names() -> Result<()> {
    let tables =
        "create table d.t (id int primary key, n int); create table d.u like d.t; create table e.t like d.t;";
    let source = source(&Launch::mysql(), &[])?;
    source.sql(&format!("set sql_log_bin = 0; create database d; create database e; {tables}"))?;
    source
        .sql("insert into d.t values (1, 1); insert into d.u values (1, 1); insert into e.t values (7, 7)")?;
    source.sql("set binlog_format = STATEMENT; use d; update t set n = n + 1")?;
    let target = target("--skip-log-bin")?;
    target.sql("create database d; create database e; create database x; create table x.t (id int primary key, n int)")?;
    target.sql("create table e.t like x.t")?;
    let rules = ["--rewrite-db", "d->x", "--ignore-table", "x.u"];
    let ran = verified(&source, &target, &rules)?;
    ensure!(all_equal(&ran, "CHECKSUM TABLE")? == 2, "{ran:?}");
    ensure!(ran.stdout.contains("equal    `d`.`t` as `x`.`t`\n"), "{ran:?}");
    target.sql("delete from x.t")?;
    differs(&verified(&source, &target, &rules)?, &["differs  `d`.`t` as `x`.`t`"])?;
    ensure!(all_equal(&verified(&source, &target, &[&rules[..], &["--do-db", "e"]].concat())?, "")? == 1);
    // For transactions after the stop position, only their existence is reported.
    let uuid = source.sql("select @@server_uuid")?;
    target.sql(
        "drop database bintide; reset binary logs and gtids; delete from e.t; insert into x.t values (9, 2)",
    )?;
    let stop = format!("{}:4", uuid.trim());
    let ran = verified(
        &source,
        &target,
        &["--rewrite-db", "d->x", "--do-db", "x", "--ignore-table", "x.u", "--stop-gtid", &stop],
    )?;
    ensure!(
        ran.code == Some(1)
            && ran.stderr.contains("has executed transactions that these logs do not contain"),
        "{ran:?}"
    );
    Ok(())
}

#[test]
fn sqlite_databases_are_compared_by_a_digest() -> Result<()> {
    let source = source(&Launch::mysql(), &SCRIPTS)?;
    source.sql(TYPES)?;
    source.sql("create table d.z (id int(6) zerofill primary key, d decimal(6,2) zerofill, f float zerofill, e enum('a', 'b'))")?;
    source.sql("insert into d.z values (1, 2.5, 1, 'b'); flush binary logs")?;
    let directory = TempDir::new()?;
    let file = directory.path().join("copy.db");
    let ran = verified_file(&source, &file, &[])?;
    ensure!(all_equal(&ran, "row digest")? > 15, "{ran:?}");
    // A run that applies nothing knows what earlier runs have applied.
    for ran in [ran, verified_file(&source, &file, &[])?] {
        ensure!(!ran.stderr.contains("executed transactions that these logs do not contain"), "{ran:?}");
    }
    let changed = [
        ("s", "UPDATE \"d.s\" SET g = g || 'x' WHERE id = 1"),
        ("n", "UPDATE \"d.n\" SET j = j * 1.0000001"),
        ("keyless", "INSERT INTO \"d.keyless\" SELECT * FROM \"d.keyless\" LIMIT 1"),
        ("z", "UPDATE \"d.z\" SET e = 'a'"),
    ];
    for (table, sql) in changed {
        let copy = directory.path().join(format!("{table}.db"));
        Sqlite::open(&file)?.execute("VACUUM INTO ?1", [copy.display().to_string()])?;
        let count = Sqlite::open(&copy)?.execute(sql, [])?;
        ensure!(count > 0, "{sql} changes nothing");
        differs(
            &verified_file(&source, &copy, &[])?,
            &[&format!("differs  `d`.`{table}`: the server has ")],
        )?;
    }
    // The logs have rows of this table, but not its definition.
    source.sql("create database k; create table k.e (id int primary key, e enum('a','b'), s set('p','q'), t tinyint unsigned)")?;
    source.sql(
        "flush binary logs; insert into k.e values (1, 'b', 'p,q', 200), (2, null, '', 0); flush binary logs",
    )?;
    let mut command = Command::new(bintide()?);
    let made = directory.path().join("made.db");
    let log = source.binlogs()?.into_iter().rev().nth(1).context("no logs")?;
    command.env_clear().arg("replay").arg(log).args(["--allow-gap", "--verify", &address("root", &source)]);
    let ran = CommandOutput::from(command.args(["--to", &format!("sqlite:{}", made.display())]).output()?);
    ensure!(all_equal(&ran, "row digest")? == 1, "{ran:?}");
    Ok(())
}

#[test]
fn mariadb_is_compared_by_a_digest() -> Result<()> {
    let general = ["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"];
    let source = source(&Launch::mysql().options(general), &[])?;
    source.sql(TYPES)?;
    source.sql("create table d.j (id int primary key, j json); insert into d.j values (1, '{\"b\": 1.5, \"a\": [1, \"é\"]}')")?;
    let target = Launch::mariadb().options(["--server-id=3", "--skip-log-bin"]).start()?;
    let ran = verified(&source, &target, &[])?;
    ensure!(all_equal(&ran, "row digest")? > 6, "{ran:?}");
    target.sql("update d.j set j = '{\"a\":[1,\"é\"],\"b\":1.5}'")?;
    all_equal(&verified(&source, &target, &[])?, "row digest")?;
    target.sql(
        "update d.j set j = '{\"a\":[1,\"e\"],\"b\":1.5}'; update d.t set c = '12:00:00.51' where id = 2",
    )?;
    let (j, t) =
        ("differs  `d`.`j`: the server has 1 row with", "differs  `d`.`t`: the server has 2 rows with");
    differs(&verified(&source, &target, &[])?, &[j, t])
}

#[test]
fn impossible_comparisons_are_refused_before_anything_is_applied() -> Result<()> {
    let source = source(&Launch::mysql(), &[])?;
    source.sql("create database d; create table d.t (id int)")?;
    let target = target("--skip-log-bin")?;
    let nowhere = ["--verify", "mysql://root@localhost/?socket=/nowhere/at/all"];
    let check = |logs: &[PathBuf], options: &[&str], expected: &str| -> Result<()> {
        let ran = replay(logs, &target, options)?;
        ensure!(ran.code == Some(2) && ran.stderr.contains(expected), "{ran:?}");
        ensure!(target.sql("show databases like 'd'")?.is_empty(), "something was applied");
        Ok(())
    };
    check(&source.binlogs()?, &nowhere, "--verify: the connection to the server at /nowhere/at/all")?;
    check(&[PathBuf::from("-")], &["--verify", &address("root", &source)], "give the logs as files")?;
    check(&source.binlogs()?, &["--follow", "--verify", "mysql://x@y/"], "cannot be used with")
}

/// `CHECKSUM TABLE` of 5.7 differs between equal documents, and 8.0 prints some numbers differently.
#[test]
fn documents_of_old_servers_are_compared() -> Result<()> {
    let options = ["--server-id=1", "--log-bin=binlog", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"];
    let old = Launch::of(TestPackage::Mysql5_7).options(options).options(["--binlog-format=ROW"]).start()?;
    old.sql(
        "create database d; create table d.t (id int primary key, j json); \
         insert into d.t values (1, '{\"a\": [30.0, 1.5], \"b\": \"x\"}'), (2, cast(30.0 as json)), (3, null)",
    )?;
    let logs = old.binlogs()?;
    for package in [TestPackage::Mysql5_7, TestPackage::Mysql8_0] {
        let target =
            Launch::of(package).options(["--server-id=2", "--log-bin=binlog", "--log-slave-updates=ON"]);
        let target = target.options(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]).start()?;
        let run = || replay(&logs, &target, &["--verify", &address("root", &old)]);
        let ran = run()?;
        ensure!(ran.code == Some(0) && ran.stdout.contains("row digest"), "{package:?}: {ran:?}");
        target.sql("update d.t set j = '{\"a\": [31.0, 1.5], \"b\": \"x\"}' where id = 1")?;
        differs(&run()?, &["differs  `d`.`t`"])?;
    }
    Ok(())
}

#[test]
fn tables_that_triggers_and_functions_change_are_compared() -> Result<()> {
    let launch =
        Launch::mysql().options(["--binlog-format=STATEMENT", "--log-bin-trust-function-creators=1"]);
    let source = source(&launch, &[])?;
    source.sql(
        "create database d; create table d.t (id int primary key);
         create table d.by_trigger (id int primary key); create table d.by_function (id int primary key);
         create trigger d.tr after insert on d.t for each row insert into d.by_trigger values (new.id)",
    )?;
    source.sql("delimiter //\ncreate function d.f(id int) returns int begin insert into d.by_function values (id); return id; end//")?;
    source.sql("create database e; create table e.unseen (id int primary key); flush binary logs")?;
    source.sql("insert into d.t values (1), (2); select d.f(3)")?;
    let target = target("--skip-log-bin")?;
    ensure!(replay(&source.binlogs()?, &target, &[])?.code == Some(0));
    // The logs with the definitions are not needed any more.
    let logs = &source.binlogs()?[1..];
    let with = address("root", &source);
    let verify = |options: &[&str]| replay(logs, &target, &[&["--verify", &with], options].concat());
    ensure!(all_equal(&verify(&[])?, "CHECKSUM TABLE")? == 3);
    target.sql("delete from d.by_trigger; update d.by_function set id = 4; drop table e.unseen")?;
    let expected = ["differs  `d`.`by_function`", "differs  `d`.`by_trigger`"];
    differs(&verify(&[])?, &expected)?;
    differs(&verify(&["--ignore-table", "d.by_function"])?, &expected[1..])?;
    // A table that only one side has.
    target.sql("create table d.extra (id int primary key)")?;
    differs(
        &verify(&[])?,
        &["differs  `d`.`by_function`", "differs  `d`.`by_trigger`", "missing  `d`.`extra`"],
    )
}
