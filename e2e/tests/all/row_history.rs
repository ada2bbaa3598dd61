//! `bintide history` on logs of a real server: the history has the changes that statements made to the row.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::command::address;
use e2e::program::bintide;
use serde_json::{Value, json};
use testkit::{Launch, TestServer, workspace_root};

/// Two earlier and one later row have the same key as the row of the history, and its key changes twice.
const SCRIPT: &str = "
    create database shop; use shop;
    create table orders (id int primary key, status varchar(20), total decimal(10,2));
    create table other (id int primary key, status varchar(20));
    insert into orders values (4711, 'old', 1); update orders set status = 'older' where id = 4711;
    delete from orders where id = 4711;
    flush binary logs;
    insert into orders values (1, 'a', 1), (4700, 'new', 10.5), (2, 'b', 2);
    insert into other values (4700, 'x'), (4711, 'y');
    update orders set status = 'paid' where id in (1, 4700);
    flush binary logs;
    begin; update orders set total = total + 1; update orders set id = 4711 where id = 4700;
    update orders set status = 'sent' where id = 4711; commit;
    update other set status = 'z' where id = 4711;
    flush binary logs;
    update orders set id = 4720 where id = 4711; update orders set status = null where id = 4720;
    delete from orders where id = 4720; insert into orders values (4720, 'late', 0);";

/// Changes of the row, in the form of [`changes`].
fn expected_changes() -> Value {
    json!([
        ["INSERT", {"id": [null, 4700], "status": [null, "new"], "total": [null, "10.50"]}],
        ["UPDATE", {"status": ["new", "paid"]}],
        ["UPDATE", {"total": ["10.50", "11.50"]}],
        ["UPDATE", {"id": [4700, 4711]}],
        ["UPDATE", {"status": ["paid", "sent"]}],
        ["UPDATE", {"id": [4711, 4720]}],
        ["UPDATE", {"status": ["sent", null]}],
        ["DELETE", {"id": [4720, null], "status": [null, null], "total": ["11.50", null]}],
    ])
}

#[test]
fn histories_follow_the_key() -> Result<()> {
    for more in [&[][..], &["--binlog-transaction-compression=ON"]] {
        let server = Launch::mysql().option("--binlog-row-metadata=FULL").options(more.to_vec()).start()?;
        server.sql(SCRIPT)?;
        let logs = server.binlogs()?;
        let found = changes(&history(&logs, &["--where", "id=4711"])?)?;
        ensure!(found == expected_changes(), "{more:?}: {found:#}");
        // Any value of the row that only this row had leads to the same row.
        let found = changes(&history(&logs, &["--where", "status=sent"])?)?;
        ensure!(found == expected_changes(), "{more:?}: {found:#}");
        check_origins(&server, &logs)?;
    }
    Ok(())
}

/// The older log has no column names: the row is found there by the position of its key.
#[test]
fn names_may_begin_within_the_logs() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=MINIMAL").start()?;
    server.sql(
        "create database d; create table d.t (v int, id int primary key); insert into d.t values (1, 7), (1, 8);
        set global binlog_row_metadata = FULL; flush binary logs",
    )?;
    server.sql("update d.t set v = 2")?;
    let logs = server.binlogs()?;
    for condition in ["@2=7", "id=7"] {
        let output = run(&logs, &["history", "--json", "--table", "d.t", "--where", condition])?;
        let text = String::from_utf8_lossy(&output.stdout);
        let changes: Vec<&str> = text.lines().collect();
        ensure!(output.status.success() && changes.len() == 2, "{condition}: {output:?}");
        ensure!(changes[0].contains("INSERT") && changes[1].contains("UPDATE"), "{text}");
    }
    Ok(())
}

#[test]
fn temporal_values_and_decimals_are_compared_by_value() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(
        "create database shop; use shop; set time_zone = '+00:00'; create table orders (id int primary key, d datetime(3), \
         tm time(2), ts timestamp(6), n decimal(10,2), day date); insert into orders values \
         (1, '2024-01-02 03:04:05', '01:02:03', '2024-01-02 03:04:05.5', 1.5, '2024-01-02'), \
         (2, '2024-01-02 03:04:05.25', '-00:00:03.5', '2024-01-03 03:04:05', -0.5, '2024-01-03')",
    )?;
    let logs = server.binlogs()?;
    let check = |condition: &str, expected: u64| -> Result<()> {
        let found = changes(&history(&logs, &["--where", condition])?)?;
        let id = &found[0][1]["id"][1];
        ensure!(*id == json!(expected), "{condition}: {found:#}");
        Ok(())
    };
    check("d=2024-01-02 03:04:05", 1)?;
    check("d=2024-01-02T03:04:05.250000", 2)?;
    check("tm=01:02:03", 1)?;
    check("tm=-00:00:03.5", 2)?;
    check("ts=2024-01-02 03:04:05.5", 1)?;
    check("ts=2024-01-02 05:04:05.500+02:00", 1)?;
    check("ts=2024-01-03T03:04:05Z", 2)?;
    check("n=1.5", 1)?;
    check("n=-.5", 2)?;
    check("day=2024-01-03", 2)?;
    let refused = |condition: &str, expected: &str| -> Result<()> {
        let output = run(&logs, &["history", "--table", "shop.orders", "--where", condition])?;
        let error = String::from_utf8_lossy(&output.stderr);
        let is_refused = !output.status.success() && error.contains("cannot have this value: expected");
        ensure!(is_refused && error.contains(expected), "{condition}: {error}");
        Ok(())
    };
    refused("d=2024-01-02", "a date and time such as")?;
    refused("tm=01:02:03.125", "at most 2 digits")?;
    refused("ts=yesterday", "in UTC")?;
    refused("n=1.234", "at most 2 digits after the point")?;
    refused("id=one", "a whole number")
}

#[test]
fn columns_have_numbers_without_names() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql(SCRIPT)?;
    let logs = server.binlogs()?;
    let found = changes(&history(&logs, &["--where", "@1=4711"])?)?;
    let named = found.to_string().replace("@1", "id").replace("@2", "status").replace("@3", "total");
    ensure!(serde_json::from_str::<Value>(&named)? == expected_changes(), "{found:#}");
    let refused = run(&logs, &["history", "--table", "shop.orders", "--where", "id=4711"])?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(1) && error.contains("--schema"), "{error}");
    Ok(())
}

#[test]
fn columns_have_the_names_of_a_server() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql(SCRIPT)?;
    let logs = server.binlogs()?;
    let schema = format!("--schema={}", address("root", &server));
    for condition in ["id=4711", "status=sent", "@1=4711"] {
        let found = changes(&history(&logs, &["--where", condition, &schema, "--no-defaults"])?)?;
        ensure!(found == expected_changes(), "{condition}: {found:#}");
    }
    let args = ["history", "--table=shop.orders", "--json", "--no-defaults", &schema];
    let check = |condition: &str, logs: &[PathBuf], code: i32, expected: &str| -> Result<Vec<u8>> {
        let output = run(logs, &[&args[..], &["--where", condition]].concat())?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(code) && error.contains(expected), "{condition}: {error}");
        Ok(output.stdout)
    };
    check("number=4711", &logs, 1, "has the column of --where=number=4711")?;
    // Logs from before the ALTER TABLE have other columns, but the row was created after it.
    server.sql(
        "use shop; flush binary logs; alter table orders add column state enum('open', 'closed') first;
        insert into orders values ('closed', 9, 'late', 1)",
    )?;
    let both = server.binlogs()?;
    let line: Value = serde_json::from_slice(&check("state=closed", &both, 0, "")?)?;
    ensure!(line["values"][0] == json!({"column": "state", "after": "closed"}), "{line}");
    check("id=4711", &both, 0, "the table has other columns here than on the server of --schema")?;
    server.sql("drop table shop.orders")?;
    check("id=4711", &both, 2, "the server has no table shop.orders").map(drop)
}

#[test]
fn changes_of_documents_are_shown_without_the_documents() -> Result<()> {
    let log = [workspace_root().join("samples/json-partial-minimal.binlog")];
    let output =
        |more: &[&str]| run(&log, &[&["history", "--table=docs.changes", "--where=@1=1"], more].concat());
    let json = output(&["--json"])?.stdout;
    let lines: Vec<Value> =
        json.split_inclusive(|byte| *byte == b'\n').map(read_line).collect::<Result<_>>()?;
    let replaced =
        |value: i32| json!([{"column": "@2", "changes": [{"op": "replace", "path": "$.a", "value": value}]}]);
    ensure!(lines[1]["values"] == replaced(2), "{}", lines[1]);
    // The other document was set to its own value.
    ensure!(lines[8]["values"] == replaced(3), "{}", lines[8]);
    let text = String::from_utf8(output(&[])?.stdout)?;
    let shown = "@2 changes: [{\"op\":\"remove\",\"path\":\"$.c.e\"}], @4: [9, 2, 3]";
    ensure!(text.contains(shown), "{text}");
    Ok(())
}

#[test]
fn minimal_images_show_what_the_log_has() -> Result<()> {
    let server =
        Launch::mysql().options(["--binlog-row-metadata=FULL", "--binlog-row-image=MINIMAL"]).start()?;
    server.sql(SCRIPT)?;
    let found = changes(&history(&server.binlogs()?, &["--where", "id=4711"])?)?;
    let expected = json!([
        ["INSERT", {"id": [null, 4700], "status": [null, "new"], "total": [null, "10.50"]}],
        ["UPDATE", {"status": [null, "paid"]}],
        ["UPDATE", {"total": [null, "11.50"]}],
        ["UPDATE", {"id": [4700, 4711]}],
        ["UPDATE", {"status": [null, "sent"]}],
        ["UPDATE", {"id": [4711, 4720]}],
        ["UPDATE", {"status": [null, null]}],
        ["DELETE", {"id": [4720, null]}],
    ]);
    ensure!(found == expected, "{found:#}");
    Ok(())
}

#[test]
fn encrypted_logs_and_early_ends() -> Result<()> {
    let server = Launch::mysql()
        .keyring()
        .options(["--binlog-encryption=ON", "--binlog-row-metadata=FULL"])
        .start()?;
    server.sql(SCRIPT)?;
    let logs = server.binlogs()?;
    let keyring = server.datadir().join("keyring");
    let keyring = keyring.to_str().context("the path is not UTF-8")?;
    let found = changes(&history(&logs, &["--where", "id=4711", "--keyring", keyring])?)?;
    ensure!(found == expected_changes(), "{found:#}");
    // The first log is not needed, because the row was created in the second: damage in it does not matter.
    std::fs::write(&logs[0], "no log")?;
    let found = changes(&history(&logs, &["--where", "id=4711", "--keyring", keyring])?)?;
    ensure!(found == expected_changes(), "{found:#}");
    Ok(())
}

/// Statements before a search; the conditions of the search; the changes that it finds; texts of its warnings.
type GapCase = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const GAP_CASES: [GapCase; 14] = [
    (
        "update orders set total = 2",
        "status=a",
        &["INSERT", "UPDATE"],
        &["--where=status=a cannot be tested"],
    ),
    ("update orders set total = 2", "id=1", &["INSERT", "UPDATE"], &[]),
    ("update orders set status = 'b'", "status=b", &["INSERT", "UPDATE"], &[]),
    (
        "rename table orders to old; rename table old to orders; update orders set total = 2",
        "id=1",
        &["INSERT", "UPDATE"],
        &["rename table orders to old", "rename table old to orders"],
    ),
    (
        "alter table orders rename column id to number; update orders set total = 2",
        "number=1",
        &["INSERT", "UPDATE"],
        &[],
    ),
    (
        "alter table orders rename column id to number; update orders set total = 2",
        "id=1",
        &["INSERT", "UPDATE"],
        &[
            "alter table orders rename column id to number",
            "the table does not have this column; for these rows, give the name or the number that the column has there",
        ],
    ),
    (
        "alter table orders rename column status to state; update orders set state = 'b'",
        "state=b",
        &["INSERT", "UPDATE"],
        &[],
    ),
    (
        "alter table orders drop column status; update orders set total = 2",
        "status=a",
        &["INSERT", "UPDATE"],
        &["alter table orders drop column status", "--where=status=a cannot be tested on some rows"],
    ),
    (
        "alter table orders add column first_one int first; update orders set total = 2",
        "@1=1",
        &["INSERT", "UPDATE"],
        &["alter table orders add column first_one int first", "--where=@1=1 cannot be tested on some rows"],
    ),
    (
        "set binlog_format = STATEMENT; update orders set total = 2; set binlog_format = ROW; \
         alter table orders add index (status)",
        "id=1",
        &["INSERT"],
        &["update orders set total = 2"],
    ),
    ("truncate orders", "id=1", &["INSERT"], &["truncate orders"]),
    (
        "set binlog_format = STATEMENT; /*!80000 insert into orders values (2, 'b', 2) */",
        "id=1",
        &["INSERT"],
        &["/*!80000 insert into orders"],
    ),
    (
        "set binlog_format = STATEMENT; with c as (select 1 x) update other join c on other.id = c.x set other.n = 2",
        "id=1",
        &["INSERT"],
        &[],
    ),
    ("set binlog_format = STATEMENT; select f()", "id=1", &["INSERT"], &["SELECT `shop`.`f`()"]),
];

#[test]
fn gaps_are_reported() -> Result<()> {
    let server =
        Launch::mysql().options(["--binlog-row-metadata=FULL", "--binlog-row-image=MINIMAL"]).start()?;
    for (statements, condition, expected, warnings) in GAP_CASES {
        server.sql(&format!(
            "drop database if exists shop; create database shop; use shop;
            create table orders (id int primary key, status varchar(20), total int);
            create table other (id int primary key, n int); insert into other values (1, 1);

delimiter //
create function f() returns int deterministic begin update orders set total = 3; return 1; end//
delimiter ;
            flush binary logs; insert into orders values (1, 'a', 1); {statements};"
        ))?;
        let logs = server.binlogs()?;
        let logs = &logs[logs.len() - 1..];
        let output = run(logs, &["history", "--table=shop.orders", "--json", "--where", condition])?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let found = String::from_utf8_lossy(&output.stdout);
        let found: Vec<Value> = found.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let found: Vec<&str> = found.iter().filter_map(|line| line["change"].as_str()).collect();
        let is_right = output.status.success()
            && found == expected
            && warnings.iter().all(|warning| errors.contains(warning))
            && errors
                .lines()
                .filter(|line| {
                    !line.contains("no change of this row") && !line.contains("other rows may match")
                })
                .count()
                == warnings.len();
        ensure!(is_right, "{statements}; {condition}: {found:?}\n{errors}");
    }
    Ok(())
}

/// Without a primary key, the changes of all rows that match are listed, with a warning.
#[test]
fn rows_without_a_key_are_listed_together() -> Result<()> {
    for metadata in ["FULL", "MINIMAL"] {
        let server = Launch::mysql().option(format!("--binlog-row-metadata={metadata}")).start()?;
        server.sql(
            "create database shop; use shop; create table orders (a int, b int);
            insert into orders values (1, 1), (1, 2); update orders set b = b + 10;
            flush binary logs; delete from orders where a = 1;
            insert into orders values (5, 1), (5, 2); update orders set b = b + 10 where b = 1;
            update orders set b = b + 100 where b = 2",
        )?;
        let logs = server.binlogs()?;
        let schema = format!("--schema={}", address("root", &server));
        for (condition, expected) in [
            ("a=1", "INSERT INSERT UPDATE UPDATE DELETE DELETE"),
            ("@1=1", "INSERT INSERT UPDATE UPDATE DELETE DELETE"),
            ("a=5", "INSERT INSERT UPDATE UPDATE"),
            ("b=12", "UPDATE DELETE"),
        ] {
            let args = ["history", "--table=shop.orders", "--no-defaults", &schema, "--where", condition];
            let output = run(&logs, &[&args[..], &["--json"]].concat())?;
            let errors = String::from_utf8_lossy(&output.stderr);
            let lines = String::from_utf8(output.stdout)?;
            let lines: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
            let found: Vec<&str> = lines.iter().filter_map(|line| line["change"].as_str()).collect();
            ensure!(found.join(" ") == expected, "{metadata}: {condition}: {found:?}");
            ensure!(errors.contains("shop.orders has no primary key"), "{metadata}: {condition}: {errors}");
            let text = String::from_utf8(run(&logs, &args)?.stdout)?;
            ensure!(!text.contains("this row"), "{metadata}: {condition}: {text}");
        }
    }
    Ok(())
}

/// Statements of several connections: in one with a prepared XA transaction, no log can be flushed. A DELETE and an INSERT
/// that were rolled back neither end the history nor begin it.
const XA_SCRIPTS: [&str; 3] = [
    "create database shop; use shop;
    create table orders (id int primary key, status varchar(20));
    insert into orders values (1, 'new');
    xa start 'a'; update orders set status = 'paid' where id = 1; xa end 'a'; xa prepare 'a'; xa commit 'a';
    xa start 'b'; delete from orders where id = 1; insert into orders values (1, 'wrong'); xa end 'b'; xa prepare 'b'",
    "flush binary logs; xa rollback 'b'; use shop;
    xa start 'a'; update orders set status = 'lost' where id = 1; xa end 'a'; xa prepare 'a'; xa rollback 'a';
    xa start 'c'; update orders set status = 'sent' where id = 1; xa end 'c'; xa commit 'c' one phase;
    flush binary logs; update orders set id = 2 where id = 1; update orders set status = 'done' where id = 2;
    xa start 'd'; delete from orders where id = 2; xa end 'd'; xa prepare 'd'",
    "flush binary logs; xa commit 'd'",
];

/// Only changes of XA transactions that were committed belong to a history.
#[test]
fn changes_of_xa_transactions_depend_on_their_outcome() -> Result<()> {
    let compressing = Launch::mysql().option("--binlog-transaction-compression=ON");
    for launch in [Launch::mysql(), compressing, Launch::mariadb()] {
        let server = launch.option("--binlog-row-metadata=FULL").option("--binlog-format=ROW").start()?;
        for script in XA_SCRIPTS {
            server.sql(script)?;
        }
        let logs = server.binlogs()?;
        let expected = json!([
            ["INSERT", {"id": [null, 1], "status": [null, "new"]}],
            ["UPDATE", {"status": ["new", "paid"]}],
            ["UPDATE", {"status": ["paid", "sent"]}],
            ["UPDATE", {"id": [1, 2]}],
            ["UPDATE", {"status": ["sent", "done"]}],
            ["DELETE", {"id": [2, null], "status": ["done", null]}],
        ]);
        for condition in ["id=2", "status=paid"] {
            let found = changes(&history(&logs, &["--where", condition])?)?;
            ensure!(found == expected, "{condition}: {found:#}");
        }
        // Without the last log, it is unknown whether the DELETE was committed.
        let args = ["history", "--table=shop.orders", "--json", "--where=id=2"];
        let output = run(&logs[..logs.len() - 1], &args)?;
        let (lines, errors) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
        ensure!(lines.lines().count() == 5, "{lines}");
        ensure!(errors.contains("of the XA transaction X'64',X'',1: the logs neither commit it"), "{errors}");
    }
    Ok(())
}

/// Checks the GTIDs, connections and texts of a history.
fn check_origins(server: &TestServer, logs: &[PathBuf]) -> Result<()> {
    server.sql("set binlog_rows_query_log_events = on; insert into shop.other values (1, 'n')")?;
    let args = ["history", "--table", "shop.other", "--where", "id=1", "--json"];
    let logs = [logs, &server.binlogs()?[logs.len()..]].concat();
    let line: Value = serde_json::from_slice(&run(&logs, &args)?.stdout)?;
    ensure!(line["statement"] == "insert into shop.other values (1, 'n')", "{line}");
    ensure!(line["connection"].as_u64().is_some_and(|number| number > 0), "{line}");
    let executed = server.sql("select @@gtid_executed")?;
    let last = executed.trim().rsplit(['-', ':']).next().context("no GTIDs")?.to_owned();
    ensure!(line["gtid"].as_str().is_some_and(|gtid| gtid.ends_with(&format!(":{last}"))), "{line}");
    Ok(())
}

/// Returns each change and the values before and after it.
fn changes(lines: &[Value]) -> Result<Value> {
    let mut all = Vec::new();
    for line in lines {
        let mut values = serde_json::Map::new();
        for value in line["values"].as_array().context("no values")? {
            let name = value["column"].as_str().context("no column")?;
            values.insert(name.to_owned(), json!([value["before"], value["after"]]));
        }
        all.push(json!([line["change"], values]));
    }
    Ok(all.into())
}

fn history(logs: &[PathBuf], args: &[&str]) -> Result<Vec<Value>> {
    let output = run(logs, &[&["history", "--table", "shop.orders", "--json"], args].concat())?;
    ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(read_line).collect()
}

fn read_line(line: &[u8]) -> Result<Value> {
    Ok(serde_json::from_slice(line)?)
}

fn run(logs: &[impl AsRef<Path>], args: &[&str]) -> Result<std::process::Output> {
    let logs = logs.iter().map(|log| log.as_ref().as_os_str());
    Ok(Command::new(bintide()?).env_clear().env("TZ", "UTC").args(args).args(logs).output()?)
}
