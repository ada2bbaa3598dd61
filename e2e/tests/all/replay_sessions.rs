//! Effects of statements, triggers and functions on the replay's sessions, and errors that stop a replay.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::as_sql::are_equal;
use e2e::command::{CommandOutput, replay};
use e2e::replays::{checksum, target};
use rusqlite::Connection;
use tempfile::TempDir;
use testkit::{Launch, TestServer};

const ORDERS: [&str; 3] = ["grouped", "strict", "any"];

fn source(sql: &str) -> Result<TestServer> {
    let source = Launch::mysql().option("--server-id=1").start()?;
    source.sql(sql)?;
    source.sql("flush binary logs")?;
    Ok(source)
}

/// Replays all of a server's logs into an empty target, in each order.
fn ends_equal(source: &TestServer, orders: &[&str], more: &[&str]) -> Result<()> {
    let target = target("--skip-log-bin")?;
    let databases =
        source.sql("select schema_name from information_schema.schemata where schema_name like 'd%'")?;
    for order in orders {
        let ran = replay(&source.binlogs()?, &target, &[&["--commit-order", *order], more].concat())?;
        ensure!(ran.code == Some(0), "{order}: {ran:?}");
        are_equal(source, &target, checksum).with_context(|| (*order).to_owned())?;
        for database in databases.lines() {
            target.sql(&format!("drop database {database}"))?;
        }
        target.sql("drop database bintide; reset binary logs and gtids")?;
    }
    Ok(())
}

#[test]
fn load_data_uses_the_original_character_set() -> Result<()> {
    let directory = TempDir::new()?;
    let file = directory.path().join("latin1.txt");
    fs::write(&file, b"\xe9t\xe9\n\xfcber\n")?;
    let load = format!("load data infile '{}' into table d.t (a);", file.display());
    // USE and ALTER DATABASE must restore the default database's collation.
    let source = source(&format!(
        "create database d character set utf8mb4; create database d2 character set koi8r; use d;
         create table t (id int primary key auto_increment, a varchar(20));
         set session binlog_format = statement; set character_set_database = latin1; {load} {load} {load}
         alter database d character set greek; set character_set_database = latin1; {load} {load}
         use d2; {load} set character_set_database = latin1; {load} {load}"
    ))?;
    ends_equal(&source, &ORDERS, &[])
}

/// The session with the temporary table ends with the replay. A statement must not use another table of the same name.
#[test]
fn a_replay_does_not_continue_without_its_temporary_tables() -> Result<()> {
    let source = source(
        "create database d; use d; create table x (a int); insert into x values (99); create table r (a int);
         set session binlog_format = statement; create temporary table x (a int); insert into x values (1);
         insert into r select a from x; update x set a = a + 1; insert into r select a from x;
         drop temporary table x; insert into r values (7)",
    )?;
    let executed = source.sql("select @@gtid_executed")?;
    let (uuid, last) = executed.trim().split_once(":1-").context("no GTIDs")?;
    let last: u64 = last.parse()?;
    let logs = source.binlogs()?;
    let target = target("--skip-log-bin")?;
    let stop = format!("{uuid}:{}", last - 3);
    let ran = replay(&logs, &target, &["--stop-gtid", &stop])?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let before = target.sql("select * from d.r; select * from d.x")?;
    ensure!(before == "1\n99\n", "{before}");
    let ran = replay(&logs, &target, &[])?;
    ensure!(ran.code == Some(1) && ran.stderr.contains("the temporary table d.x of connection"), "{ran:?}");
    ensure!(target.sql("select * from d.r; select * from d.x")? == before, "a table was changed");
    // Once the table is dropped, nothing is lost.
    let ran =
        replay(&logs, &target, &["--start-after-gtid", &format!("{uuid}:{}", last - 1), "--allow-gap"])?;
    ensure!(ran.code == Some(0) && target.sql("select a from d.r where a = 7")?.trim() == "7", "{ran:?}");
    Ok(())
}

/// The log has the time zone only of statements that depend on it.
#[test]
fn variables_set_by_functions_are_restored() -> Result<()> {
    let source = source(
        "set global log_bin_trust_function_creators = 1;
         create database d; use d; create table t (id int primary key auto_increment, a varchar(60), n int);
         create table child (id int primary key, p int, foreign key (p) references t (id));
         delimiter //
         create function f() returns int deterministic begin
           set session time_zone = '+09:00'; set session lc_time_names = 'de_DE'; set session foreign_key_checks = 0;
           set session auto_increment_increment = 5; set session collation_connection = 'utf8mb4_bin';
           set session sql_require_primary_key = 1; return 1;
         end //
         delimiter ;
         set session binlog_format = statement;
         set session time_zone = '+00:00'; insert into t (a, n) values (from_unixtime(1000000000), 1);
         insert into t (a, n) values ('not of a time', f());
         set session time_zone = '+00:00', lc_time_names = 'en_US', foreign_key_checks = 1,
           auto_increment_increment = 1, collation_connection = 'utf8mb4_0900_ai_ci', sql_require_primary_key = 0;
         insert into t (a, n) values (from_unixtime(1000000000), 1), (date_format('2026-01-01', '%M'), 'A' = 'a');
         insert into t (a, n) values (date_format('2026-03-01', '%M'), 'A' = 'a');
         insert into t (a, n) select concat(a, 'x'), 2 from t; create table keyless (n int);",
    )?;
    ends_equal(&source, &ORDERS, &[])
}

#[test]
fn tables_created_from_queries_keep_engines_and_partitions() -> Result<()> {
    let source = source(
        "create database d; use d; create table a (i int primary key); insert into a values (1), (2);
         create table b engine = innodb select * from a; create table c comment 'START TRANSACTION' select * from a;
         create table e (i int) partition by hash (i) partitions 3 select * from a;
         create table f (k int, key (k)) engine = innodb row_format = compressed as select i as k from a;
         set names latin1; create table `é漢` (b varchar(9) comment 'é') select * from a; set names utf8mb4;
         insert into b select * from a;",
    )?;
    ends_equal(&source, &ORDERS, &[])?;
    ends_equal(&source, &["grouped"], &["--apply-as", "sql"])?;
    // With only the log that uses the table, the replay does not query its definition in advance.
    let target = target("--skip-log-bin")?;
    target.sql("create database d; create table d.a (i int primary key); insert into d.a values (1), (2)")?;
    let uuid = source.sql("select @@server_uuid")?;
    let start = format!("{}:4", uuid.trim());
    let ran = replay(&source.binlogs()?, &target, &["--start-gtid", &start, "--allow-gap"])?;
    ensure!(ran.code == Some(0), "{ran:?}");
    are_equal(&source, &target, checksum)
}

#[test]
fn rolled_back_xa_transactions_are_counted() -> Result<()> {
    let source = source(
        "create database d; use d; create table t (id int primary key, n int);
         create table log (id int primary key auto_increment, what varchar(20));
         create trigger tr after insert on t for each row insert into log (what) values (new.n);
         set session binlog_format = statement; insert into t values (1, 1);
         xa start 'x'; insert into t values (2, 2), (3, 3); xa end 'x'; xa prepare 'x'; xa rollback 'x';
         insert into t values (4, 4);",
    )?;
    ensure!(
        source.sql("select group_concat(id) from d.log")?.trim() == "1,4",
        "AUTO_INCREMENT reused the values of the rollback"
    );
    ends_equal(&source, &ORDERS, &[])
}

#[test]
fn failed_transactions_of_a_group_are_named_and_can_be_skipped() -> Result<()> {
    let source = source("create database d; create table d.t (id int primary key, n int)")?;
    source.sql(
        "insert into d.t values (1, 1); insert into d.t values (2, 2); insert into d.t values (3, 3);
         update d.t set n = 5 where id = 1; insert into d.t values (4, 4); flush binary logs",
    )?;
    let logs = &source.binlogs()?[1..2];
    let culprit = format!("{}:5", source.sql("select @@server_uuid")?.trim());
    for workers in ["1", "4"] {
        let target = target("--skip-log-bin")?;
        target.sql(
            "create database d; create table d.t (id int primary key, n int); insert into d.t values (3, 30)",
        )?;
        let options = ["--allow-gap", "--workers", workers];
        let ran = replay(logs, &target, &options)?;
        ensure!(ran.code == Some(1) && ran.stderr.contains("Duplicate entry '3'"), "{ran:?}");
        ensure!(ran.stderr.contains(&culprit), "{culprit}: {ran:?}");
        let ran = replay(logs, &target, &[&options[..], &["--exclude-gtids", &culprit]].concat())?;
        ensure!(ran.code == Some(0), "{ran:?}");
        let found = target.sql("select group_concat(id, '=', n order by id) from d.t")?;
        ensure!(found.trim() == "1=5,2=2,3=30,4=4", "{found}");
    }
    Ok(())
}

#[test]
fn commit_order_any_is_refused_without_gtids() -> Result<()> {
    let source = Launch::mysql().options(["--server-id=1", "--gtid-mode=OFF"]).start()?;
    source.sql("create database d; create table d.t (id int primary key); flush binary logs")?;
    let target = target("--skip-log-bin")?;
    let any = ["--commit-order", "any"];
    let ran: CommandOutput = replay(&source.binlogs()?, &target, &any)?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("commit-order: "), "{ran:?}");
    ensure!(ran.stderr.contains("nothing was changed"), "{ran:?}");
    ensure!(target.sql("show databases like 'bintide'")?.is_empty(), "the target has progress");
    let ran: CommandOutput = replay(&source.binlogs()?, &target, &[&any[..], &["--dry-run"]].concat())?;
    ensure!(ran.code == Some(1) && ran.stdout.contains("commit-order"), "{ran:?}");
    Ok(())
}

#[test]
fn partial_updates_of_a_different_document_stop_the_replay() -> Result<()> {
    let documents = r#"create database d; create table d.j (id int primary key, j json);
        insert into d.j values (1, '{"a": 1, "l": [1, 2, 3], "o": {"x": 1}}');"#;
    let updates = [
        "json_set(j, '$.a', 2)",
        "json_remove(j, '$.l[0]')",
        "json_remove(json_set(j, '$.l[1]', 9), '$.l[0]')",
        "json_set(json_remove(j, '$.o.x'), '$.o.y', 5)",
        "json_set(j, '$.o.y', 5, '$.a', 1)",
    ];
    let source =
        Launch::mysql().options(["--server-id=1", "--binlog-row-value-options=PARTIAL_JSON"]).start()?;
    source.sql(documents)?;
    for number in 0..updates.len() {
        source
            .sql(&format!("create table d.j{number} like d.j; insert into d.j{number} select * from d.j"))?;
    }
    for (number, update) in updates.iter().enumerate() {
        let minimal = "flush binary logs; set binlog_row_image = minimal";
        source.sql(&format!("{minimal}; update d.j{number} set j = {update}"))?;
    }
    source.sql("flush binary logs")?;
    ends_equal(&source, &["strict"], &["--apply-as", "sql"])?;
    // The update of each table is in a separate log.
    let (logs, target) = (source.binlogs()?, target("--skip-log-bin")?);
    for (number, update) in updates.iter().enumerate() {
        for document in [r#"'{}'"#, r#"'{"a": 1, "l": 5, "o": 7}'"#, "null"] {
            let server_too = if document == "null" { &["sql"][..] } else { &["sql", "binlog"] };
            for apply_as in server_too {
                target.sql(&format!(
                    "drop database if exists d; drop database if exists bintide; reset binary logs and gtids;
                     create database d; create table d.j{number} (id int primary key, j json);
                     insert into d.j{number} values (1, {document})"
                ))?;
                let options = ["--apply-as", apply_as, "--allow-gap", "--commit-order", "strict"];
                let ran = replay(&logs[number + 1..number + 2], &target, &options)?;
                let is_fit = document.contains("\"a\"") && *update == "json_set(j, '$.a', 2)";
                ensure!((ran.code == Some(0)) == is_fit, "{apply_as} {update} {document}: {ran:?}");
                let is_named = ran.stderr.contains(&format!("j{number}"));
                ensure!(is_fit || is_named, "{apply_as} {update} {document}: {ran:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn sqlite_columns_removed_from_the_primary_key_accept_null() -> Result<()> {
    let source = source(
        "create database d; use d; create table t (a int primary key, b int); insert into t values (1, 1);
         alter table t modify a int, drop primary key; insert into t values (null, 2);
         create table u (a int primary key); alter table u drop primary key;",
    )?;
    let directory = TempDir::new()?;
    let file = directory.path().join("copy.db");
    let mut command = std::process::Command::new(e2e::program::bintide()?);
    command.env_clear().arg("replay").args(source.binlogs()?);
    let ran: CommandOutput = command.arg("--to").arg(format!("sqlite:{}", file.display())).output()?.into();
    ensure!(ran.code == Some(0), "{ran:?}");
    let copy = Connection::open(file)?;
    let closed = "select group_concat(name) from pragma_table_info(?1) where \"notnull\"";
    let closed = |table: &str| copy.query_row(closed, [table], |row| row.get::<_, Option<String>>(0));
    // A column that the key made NOT NULL remains NOT NULL, unless it is defined again.
    ensure!((closed("d.t")?, closed("d.u")?) == (None, Some("a".to_owned())), "{:?}", closed("d.t"));
    Ok(())
}
