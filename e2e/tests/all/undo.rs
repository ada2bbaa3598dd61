//! `bintide undo` on logs of real servers: applied to the server, the inverse of transactions restores the tables, and
//! the inverse of the inverse changes them again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use e2e::command;
use e2e::program::bintide;
use tempfile::TempDir;
use testkit::{Launch, SeededRandom, TestServer, seed_from_env, workspace_root};

const TABLES: &str = "create database d; use d;
    create table customers (id int primary key auto_increment, name varchar(50) unique, note json,
        name_size int generated always as (length(name)) stored, updated timestamp(3) default current_timestamp(3)
        on update current_timestamp(3));
    create table orders (id int primary key auto_increment, customer int, total decimal(10,2), state enum('new','paid'),
        foreign key (customer) references customers (id));
    create table items (a int, b varchar(300), key (a)) partition by hash (a) partitions 3;";

/// Method that applies an inverse to a server.
#[derive(Clone, Copy, Debug)]
enum ApplyMethod {
    Mysqlbinlog,
    Target,
    Script,
}

impl ApplyMethod {
    /// Methods, one for each run of the test.
    const ALL: [Self; OPTIONS.len()] =
        [Self::Target, Self::Script, Self::Target, Self::Mysqlbinlog, Self::Target];
}

/// Rows of all tables, in an order that does not depend on their pages.
const ROWS: &str = "use d; select * from customers order by id; select * from orders order by id;
    select * from items order by a, b";

/// Server options, each for a run of the test.
const OPTIONS: [&[&str]; 5] = [
    &[],
    &["--binlog-transaction-compression=ON", "--binlog-row-value-options=PARTIAL_JSON"],
    &["--binlog-row-metadata=FULL", "--max-binlog-size=8192"],
    &["--gtid-mode=OFF", "--binlog-checksum=NONE"],
    &["--binlog-encryption=ON", "--binlog-transaction-compression=ON"],
];

#[test]
fn inverses_of_random_transactions_restore_the_tables() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    for (options, method) in OPTIONS.into_iter().zip(ApplyMethod::ALL) {
        let with_gtids = !options.contains(&"--gtid-mode=OFF");
        let launch = Launch::mysql().option("--server-id=7");
        let launch = if with_gtids {
            launch.options(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"])
        } else {
            launch
        };
        let is_encrypted = options.contains(&"--binlog-encryption=ON");
        let launch = if is_encrypted { launch.keyring() } else { launch };
        let server = launch.options(options.to_vec()).start()?;
        server.sql(TABLES)?;
        server.sql(&transactions(&mut random, 40))?;
        server.sql("flush binary logs")?;
        let (kept, before) = (server.binlogs()?, server.sql(ROWS)?);
        server.sql(&transactions(&mut random, 60))?;
        let after = server.sql(ROWS)?;
        ensure!(before != after, "the transactions changed nothing");
        let logs = server.binlogs()?;
        let undone = &logs[kept.len() - 1..];
        let directory = TempDir::new()?;
        let inverse = directory.path().join("inverse.binlog");
        let start = format!("{}:4", undone[0].file_name().context("no name")?.to_string_lossy());
        let keyring = server.datadir().join("keyring").display().to_string();
        let mut args = vec!["--start-position", &start];
        if is_encrypted {
            args.extend(["--keyring", &keyring]);
        }
        undo(&logs, &args, &inverse)?;
        undo_and_apply(&server, &logs, &args, method)?;
        let restored = server.sql(ROWS)?;
        ensure!(restored == before, "{options:?}: {restored}\ninstead of\n{before}");
        let again = directory.path().join("again.binlog");
        undo(&[inverse], &["--start-position", "inverse.binlog:4"], &again)?;
        let ran = command::replay(&[again], &server, &[])?;
        ensure!(ran.code == Some(0), "{options:?}: {}", ran.stderr);
        ensure!(server.sql(ROWS)? == after, "{options:?}: the inverse of the inverse is not the change");
    }
    Ok(())
}

/// A compressed log has other positions than the source's log: `dump` and `undo` use those of the file.
#[test]
fn positions_are_those_of_the_file() -> Result<()> {
    let directory = TempDir::new()?;
    let log = directory.path().join("types.binlog");
    fs::copy(workspace_root().join("samples/types-full-metadata.binlog"), &log)?;
    let run = |args: &[&str]| -> Result<String> {
        let output = Command::new(bintide()?).env_clear().args(args).arg(&log).output()?;
        ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    run(&["compress"])?;
    ensure!(directory.path().join("positions.types.binlog").exists(), "compress has changed no position");
    let listed = run(&["dump", "--transactions", "--json"])?;
    let mut compared = 0;
    for line in listed.lines() {
        let transaction: serde_json::Value = serde_json::from_str(line)?;
        let number = |name: &str| transaction[name].as_u64().with_context(|| format!("{line} has no {name}"));
        if number("rows")? == 0 {
            continue;
        }
        let (start, stop) = (number("pos")?, number("end_pos")?);
        let (start, stop) = (
            format!("--start-position=types.binlog:{start}"),
            format!("--stop-position=types.binlog:{stop}"),
        );
        let gtid = format!("--gtid={}", transaction["gtid"].as_str().context("no GTID")?);
        ensure!(run(&["undo", "--sql", &start, &stop])? == run(&["undo", "--sql", &gtid])?, "{line}");
        compared += 1;
    }
    ensure!(compared > 2, "{listed}");
    Ok(())
}

/// Transactions that changed their rows last are undone: the tables are as if these transactions had never run. Other
/// transactions are refused, and nothing is changed.
#[test]
fn random_subsets_are_undone_or_refused() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(TABLES)?;
    server.sql(&transactions(&mut random, 30))?;
    let first = last_gtid(&server)?.1 + 1;
    server.sql(&transactions(&mut random, 30))?;
    server.sql("flush binary logs")?;
    let ((uuid, last), logs, before) = (last_gtid(&server)?, server.binlogs()?, server.sql(ROWS)?);
    let logs = &logs[..logs.len() - 1];
    let other = Launch::mysql().start()?;
    let mut accepted = 0;
    for draw in 0..60 {
        let size = 1 + draw % 3;
        let chosen = (0..size).map(|_| first + random.below((last + 1 - first) as usize) as u64);
        let chosen: Vec<String> = chosen.map(|number| format!("{uuid}:{number}")).collect();
        let chosen = chosen.join(",");
        let mut start = last_gtid(&server)?.1;
        let output = undo_on(&server, logs, &["--gtid", &chosen])?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(1) && error.contains("nothing was changed"), "{error}");
            ensure!(server.sql(ROWS)? == before, "{chosen}: a refused inverse changed rows");
            continue;
        }
        let expected = rows_without(&other, logs, &chosen)?;
        check_and_restore(&server, start, &expected, &before).context(chosen.clone())?;
        for method in [ApplyMethod::Script, ApplyMethod::Mysqlbinlog] {
            start = last_gtid(&server)?.1;
            undo_and_apply(&server, logs, &["--gtid", &chosen], method)?;
            let checked = check_and_restore(&server, start, &expected, &before);
            checked.with_context(|| format!("{chosen}, {method:?}"))?;
        }
        accepted += 1;
        if accepted == ACCEPTED_MAX {
            break;
        }
    }
    ensure!(accepted > 0, "all subsets were refused");
    Ok(())
}

/// Number of random subsets that are undone with each method.
const ACCEPTED_MAX: usize = 3;

/// Returns the rows after all transactions but these. The server is empty before and afterwards.
fn rows_without(server: &TestServer, logs: &[PathBuf], gtids: &str) -> Result<String> {
    let ran = command::replay(logs, server, &["--exclude-gtids", gtids, "--no-log"])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    let rows = server.sql(ROWS)?;
    // Without its progress, the next replay begins at the first transaction.
    server.sql("drop database d; drop database bintide; reset binary logs and gtids")?;
    Ok(rows)
}

/// Checks the rows after an inverse, and undoes all transactions after this number, which are the inverse.
fn check_and_restore(server: &TestServer, start: u64, expected: &str, before: &str) -> Result<()> {
    let found = server.sql(ROWS)?;
    ensure!(found == expected, "{found}\ninstead of\n{expected}");
    let (uuid, newest) = last_gtid(server)?;
    let inverse = format!("{uuid}:{}-{newest}", start + 1);
    let output = undo_on(server, &server.binlogs()?, &["--gtid", &inverse])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let restored = server.sql(ROWS)?;
    ensure!(restored == before, "restored {restored}\ninstead of\n{before}");
    Ok(())
}

/// Returns the GTID of the server's last transaction.
fn newest(server: &TestServer) -> Result<String> {
    last_gtid(server).map(|(uuid, number)| format!("{uuid}:{number}"))
}

/// Returns the UUID of the server's GTIDs, and the number of the last one.
fn last_gtid(server: &TestServer) -> Result<(String, u64)> {
    let set = server.sql("select @@gtid_executed")?;
    let (uuid, numbers) = set.trim().split_once(':').context("no GTIDs")?;
    let last = numbers.rsplit(['-', ':']).next().context("no numbers")?;
    Ok((uuid.to_owned(), last.parse()?))
}

#[test]
fn chosen_transactions_and_rows_are_undone() -> Result<()> {
    let options = ["--binlog-row-metadata=FULL", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"];
    let server = Launch::mysql().options(options).start()?;
    server.sql(TABLES)?;
    server.sql("use d; insert into customers (id, name) values (1, 'a'), (2, 'b'), (3, 'c')")?;
    server
        .sql("use d; begin; update customers set note = '{}'; insert into items values (1, 'x'); commit")?;
    let gtid = server.sql("select @@gtid_executed")?.trim().to_owned();
    let (uuid, last) = gtid.rsplit_once(['-', ':']).context("no GTIDs")?;
    let gtid = format!("{}:{last}", &uuid[..36]);
    server.sql("use d; insert into items values (2, 'y')")?;
    let (logs, directory) = (server.binlogs()?, TempDir::new()?);
    let inverse = directory.path().join("rows.binlog");
    undo(&logs, &["--gtid", &gtid, "--table=customers", "--where=id=2"], &inverse)?;
    apply(&server, &inverse)?;
    let notes = server.sql("select group_concat(id order by id) from d.customers where note is null")?;
    ensure!(notes.trim() == "2", "{notes}");
    let inverse = directory.path().join("transaction.binlog");
    undo(&logs, &["--gtid", &gtid, "--database=d", "--table=items"], &inverse)?;
    apply(&server, &inverse)?;
    ensure!(server.sql("select b from d.items")?.trim() == "y");
    server.sql(
        "xa start 'x'; insert into d.items values (3, 'xa'); xa end 'x'; xa prepare 'x'; xa commit 'x'",
    )?;
    let (logs, inverse) = (server.binlogs()?, directory.path().join("beside-xa.binlog"));
    let start = format!("{}:4", logs[0].file_name().context("no name")?.to_string_lossy());
    undo(&logs, &["--table=customers", "--start-position", &start], &inverse)?;
    let refused =
        run(&logs, &["--table=items", "--start-position", &start], &directory.path().join("xa.binlog"))?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(1) && error.contains("is a part of an XA transaction"), "{error}");
    Ok(())
}

#[test]
fn undo_logs_of_one_name_are_applied_each_once() -> Result<()> {
    let options = ["--server-id=7", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"];
    let server = Launch::mysql().options(options).start()?;
    // The target has progress of another server, without GTIDs.
    let ran = command::replay(&[workspace_root().join("samples/anonymous.binlog")], &server, &["--no-log"])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    server.sql("create database d; create table d.t (a int primary key, b int)")?;
    server.sql("insert into d.t values (1, 0), (2, 0); flush binary logs")?;
    let (mut inverses, directory) = (Vec::new(), TempDir::new()?);
    for (step, name) in ["a/undo.binlog", "b/undo.binlog", "other.binlog"].into_iter().enumerate() {
        server.sql(&format!(
            "flush binary logs; update d.t set b = b + {} where a = 1",
            10_u32.pow(step as u32)
        ))?;
        let inverse = directory.path().join(name);
        std::fs::create_dir_all(inverse.parent().context("no directory")?)?;
        let newest = server.binlogs()?.pop().context("no log")?;
        undo(&[newest], &["--table=d.t"], &inverse)?;
        inverses.push(inverse);
    }
    let value = || Ok::<_, anyhow::Error>(server.sql("select b from d.t where a = 1")?.trim().to_owned());
    ensure!(value()? == "111");
    for (inverse, expected) in inverses.iter().rev().zip(["11", "1", "0"]) {
        for _ in 0..2 {
            let ran = command::replay(std::slice::from_ref(inverse), &server, &["--log"])?;
            ensure!(ran.code == Some(0), "{}", ran.stderr);
            ensure!(value()? == expected, "{inverse:?}: {} instead of {expected}", value()?);
        }
    }
    let logged = Command::new(bintide()?).args(["dump", "-v"]).args(server.binlogs()?.last()).output()?;
    ensure!(String::from_utf8_lossy(&logged.stdout).contains("### UPDATE `d`.`t`"), "{logged:?}");
    let status = command::replay(&[], &server, &["--status", "--json"])?;
    let status: serde_json::Value = serde_json::from_str(&status.stdout)?;
    ensure!(status["source"] == 1, "the source of the earlier replay was replaced: {status}");
    Ok(())
}

#[test]
fn compressed_inverses_are_applied() -> Result<()> {
    let options = ["--binlog-row-metadata=FULL", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"];
    let server = Launch::mysql().options(options).start()?;
    server.sql(TABLES)?;
    server.sql(
        "flush binary logs; use d; insert into items select n, repeat('x', 20) from
        (with recursive c as (select 1 n union all select n + 1 from c where n < 500) select * from c) c",
    )?;
    let rows = || server.sql("select count(*) from d.items");
    let directory = TempDir::new()?;
    let logs = server.binlogs()?;
    let start = format!("{}:4", logs[1].file_name().context("no name")?.to_string_lossy());
    let mut sizes = Vec::new();
    for (level, name) in [("--compress=19", "slow.binlog"), ("--compress", "inverse.binlog")] {
        let inverse = directory.path().join(name);
        undo(&logs, &["--start-position", &start, level], &inverse)?;
        let events = Command::new(bintide()?).args(["dump", "--events"]).arg(&inverse).output()?;
        let events = String::from_utf8_lossy(&events.stdout).into_owned();
        ensure!(events.contains("Transaction_payload"), "{events}");
        sizes.push(std::fs::metadata(&inverse)?.len());
    }
    ensure!(sizes[0] != sizes[1] && sizes.iter().all(|size| *size < 5000), "{sizes:?}");
    let inverse = directory.path().join("inverse.binlog");
    ensure!(std::fs::read_dir(directory.path())?.count() == 2, "temporary files were left");
    apply(&server, &inverse)?;
    ensure!(rows()?.trim() == "0", "mysqlbinlog did not apply it: {}", rows()?);
    let again = directory.path().join("again.binlog");
    undo(&[inverse], &["--start-position", "inverse.binlog:4", "--compress"], &again)?;
    let ran = command::replay(&[again], &server, &[])?;
    ensure!(ran.code == Some(0) && rows()?.trim() == "500", "{} {}", rows()?, ran.stderr);
    Ok(())
}

#[test]
fn changes_without_an_inverse_are_refused() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-image=MINIMAL").start()?;
    server.sql(TABLES)?;
    server.sql("use d; insert into customers (id, name) values (1, 'a')")?;
    server.sql("use d; insert into orders values (1, 1, 1, 'new')")?;
    server.sql("flush binary logs; update d.orders set total = 2")?;
    server.sql("truncate table d.items")?;
    let logs = server.binlogs()?;
    let updates = &logs[1..];
    let check = |logs: &[PathBuf], args: &[&str], code: i32, expected: &str| -> Result<()> {
        let directory = TempDir::new()?;
        let result = directory.path().join("inverse.binlog");
        let output = run(logs, args, &result)?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(code) && error.contains(expected), "{args:?}: {error}");
        ensure!(directory.path().read_dir()?.next().is_none(), "{args:?} leaves a file");
        Ok(())
    };
    check(&logs, &["--table=customers"], 1, "the inserted rows cannot be identified")?;
    check(&logs, &["--table=orders"], 1, "the log lacks the values before the update (@3)")?;
    check(&logs, &["--table=items"], 1, "inverse of this statement is not known: truncate table d.items")?;
    check(&logs, &["--table=missing"], 1, "nothing to undo")?;
    check(&logs, &["--table=orders", "--where=state=new"], 1, "no column names")?;
    check(updates, &["--table=orders", "--where=@2=1"], 1, "cannot be tested on some rows")?;
    check(updates, &["--table=orders", "--where=@1=7"], 1, "nothing to undo")?;
    check(&logs, &[], 2, "choose what to undo")?;
    let gtid = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7";
    check(&logs, &["--gtid", gtid], 1, "the logs do not contain these transactions")?;
    server.sql("flush binary logs; insert into d.items values (1, 'x')")?;
    check(&server.binlogs()?[2..], &["--table=items", "--sql"], 1, "no column names")?;
    Ok(())
}

#[test]
fn changed_rows_are_listed_and_nothing_is_changed() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(TABLES)?;
    server.sql(
        "use d; insert into customers (id, name) values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')",
    )?;
    server.sql("use d; insert into orders values (1, 1, 1, 'new'), (2, 1, 1, 'new')")?;
    server.sql("flush binary logs")?;
    server.sql(
        "use d; begin; update orders set state = 'paid', total = 2.5; delete from customers where id = 4;
        update customers set name = concat(name, 'x') where id = 2; insert into customers (id, name) values (9, 'z');
        delete from customers where id = 5; commit",
    )?;
    let (logs, end) = (server.binlogs()?, end_position(&server)?);
    let undone = [logs.last().context("no log")?.clone()];
    server.sql(
        "use d; update orders set total = 9 where id = 2; insert into customers (id, name) values (4, 'new d');
        delete from customers where id = 2; insert into orders values (7, 9, 1, 'new')",
    )?;
    let before = server.sql(ROWS)?;
    let log = undone[0].file_name().context("no name")?.to_string_lossy().into_owned();
    let (start, stop) = (format!("{log}:4"), format!("{log}:{end}"));
    let args = ["--start-position", &start, "--stop-position", &stop];
    let refused = undo_on(&server, &undone, &args)?;
    let listed = String::from_utf8_lossy(&refused.stdout).into_owned();
    ensure!(refused.status.code() == Some(1), "{refused:?}");
    for line in [
        "`d`.`orders` `id`=2: cannot undo the UPDATE: the row was changed since\n  `total` is '9.00', expected '2.50'\n",
        "`d`.`customers` `id`=4: cannot undo the DELETE: the row exists\n  `name` is 'new d', expected 'd'\n",
        "`d`.`customers` `id`=2: cannot undo the UPDATE: no such row\n",
        "`d`.`customers` `id`=9: cannot undo the INSERT: ",
    ] {
        ensure!(listed.contains(line), "{listed}\nlacks\n{line}");
    }
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(error.contains("the changes of 4 rows cannot be undone: nothing was changed"), "{error}");
    ensure!(server.sql(ROWS)? == before, "a refused inverse changed rows");
    let skipped = undo_on(&server, &undone, &[&args[..], &["--skip-changed", "--json"]].concat())?;
    ensure!(skipped.status.success(), "{skipped:?}");
    let document: serde_json::Value = serde_json::from_slice(&skipped.stdout)?;
    ensure!(document["conflicts"] == 4 && document["applied"] == true, "{document}");
    let rows = server
        .sql("use d; select group_concat(id order by id) from customers; select state, total from orders")?;
    ensure!(rows == "1,3,4,5,9\nnew\t1.00\npaid\t9.00\nnew\t1.00\n", "{rows}");
    Ok(())
}

/// A row has the values of an undone change again, because of a later change: it is skipped, and its later values stay.
#[test]
fn all_changes_of_a_skipped_row_are_skipped() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(
        "create database d; create table d.keyed (id int primary key, flag int);
        create table d.bare (id int, flag int); create table d.moved (id int primary key, flag int);
        insert into d.keyed values (1, 0), (2, 0); insert into d.bare values (1, 0), (2, 0);
        insert into d.moved values (1, 0), (2, 0); flush binary logs",
    )?;
    server.sql(
        "update d.keyed set flag = 1; update d.bare set flag = 1; update d.moved set flag = 1, id = id + 10",
    )?;
    server.sql(
        "update d.keyed set flag = 0; update d.bare set flag = 0; update d.moved set flag = 0, id = id - 10",
    )?;
    let (undone, end) = (server.binlogs()?, end_position(&server)?);
    let undone = [undone.last().context("no log")?.clone()];
    server.sql("update d.keyed set flag = 1 where id = 1; update d.bare set flag = 1 where id = 1")?;
    server.sql("update d.moved set flag = 1, id = 11 where id = 1")?;
    let log = undone[0].file_name().context("no name")?.to_string_lossy().into_owned();
    let (start, stop) = (format!("{log}:4"), format!("{log}:{end}"));
    let rows = "select * from d.keyed order by id; select * from d.bare order by id; select * from d.moved order by id";
    let before = server.sql(rows)?;
    let args = ["--start-position", &start, "--stop-position", &stop];
    let refused = undo_on(&server, &undone, &[&args[..], &["--json"]].concat())?;
    let document: serde_json::Value = serde_json::from_slice(&refused.stdout)?;
    ensure!(refused.status.code() == Some(1) && document["conflicts"] == 3, "{document}");
    ensure!(document["updates_undone"] == 0 && document["transactions"] == 0, "{document}");
    let difference = serde_json::json!([{ "column": "`flag`", "expected": "0", "found": "1" }]);
    ensure!(
        document["rows"]
            .as_array()
            .is_some_and(|rows| rows.iter().any(|row| row["differences"] == difference)),
        "{document}"
    );
    ensure!(server.sql(rows)? == before, "a refused inverse changed rows");
    let skipped = undo_on(&server, &undone, &[&args[..], &["--skip-changed", "--json"]].concat())?;
    let document: serde_json::Value = serde_json::from_slice(&skipped.stdout)?;
    ensure!(skipped.status.success() && document["conflicts"] == 3, "{document}");
    // Two changes of each row that is not skipped.
    ensure!(document["updates_undone"] == 6 && document["transactions"] == 6, "{document}");
    let error = String::from_utf8_lossy(&skipped.stderr);
    ensure!(error.contains("6 UPDATEs; skipped 3 rows"), "{error}");
    let found = server.sql(rows)?;
    ensure!(found == "1\t1\n2\t0\n1\t1\n2\t0\n2\t0\n11\t1\n", "{found}");
    Ok(())
}

/// Another transaction has changed the row between two chosen ones: the later one is undone, the earlier one cannot be.
#[test]
fn a_row_is_not_skipped_in_part() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(
        "create database d; create table d.t (id int primary key, v int); insert into d.t values (1, 1)",
    )?;
    let mut gtids = Vec::new();
    for change in ["v = 2", "v = 3", "v = v + 10"] {
        server.sql(&format!("update d.t set {change}"))?;
        gtids.push(newest(&server)?);
    }
    let chosen = format!("{},{}", gtids[0], gtids[2]);
    let refused = undo_on(&server, &server.binlogs()?, &["--gtid", &chosen, "--skip-changed"])?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(1) && error.contains("only a part of its changes"), "{error}");
    ensure!(server.sql("select v from d.t")?.trim() == "13", "a refused inverse changed the row");
    Ok(())
}

/// A server since 9.6 marks all statements as if they had cascades. Foreign keys are checked unless there are some.
#[test]
fn foreign_keys_are_checked_unless_they_have_changed_rows() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(
        "create database d; use d; create table q (id int primary key); create table x (id int primary key);
        create table p (id int primary key, qid int, foreign key (qid) references q (id));
        create table c (id int primary key, pid int, foreign key (pid) references p (id) on update cascade);
        insert into q values (1); insert into x values (1); insert into p values (1, 1), (2, null);
        insert into c values (1, 2)",
    )?;
    let rows = "use d; select * from p order by id; select * from c";
    server.sql("use d; update p set id = 3 where id = 2")?;
    let cascade = newest(&server)?;
    let undone = undo_on(&server, &server.binlogs()?, &["--gtid", &cascade])?;
    ensure!(undone.status.success(), "{undone:?}");
    ensure!(server.sql(rows)? == "1\t1\n2\tNULL\n1\t2\n", "{}", server.sql(rows)?);
    server.sql("use d; delete p, x from p join x on p.id = x.id")?;
    let deletion = newest(&server)?;
    server.sql("delete from d.q")?;
    let refused = undo_on(&server, &server.binlogs()?, &["--gtid", &deletion])?;
    let listed = String::from_utf8_lossy(&refused.stdout);
    ensure!(
        refused.status.code() == Some(1) && listed.contains("`d`.`p` `id`=1: cannot undo the DELETE"),
        "{listed}"
    );
    // A cascade whose row was changed since is not skipped, because its other row would lose its reference.
    server.sql("use d; update p set id = 4 where id = 2")?;
    let cascade = newest(&server)?;
    server.sql("insert into d.q values (7); update d.p set qid = 7")?;
    let refused = undo_on(&server, &server.binlogs()?, &["--gtid", &cascade, "--skip-changed"])?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(1) && error.contains("--skip-changed cannot skip it"), "{error}");
    ensure!(server.sql(rows)? == "4\t7\n1\t4\n", "{}", server.sql(rows)?);
    Ok(())
}

#[test]
fn a_script_is_printed_only_if_it_is_whole() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql("create database d; create table d.t (a int); create table d.u (a int)")?;
    server.sql("flush binary logs; insert into d.t values (1)")?;
    server.sql("set global binlog_row_metadata = full")?;
    server.sql("insert into d.u values (1); grant select on d.u to root@localhost")?;
    let logs = server.binlogs()?;
    let printed = |args: &[&str]| {
        let mut command = Command::new(bintide()?);
        command.env_clear().args(["undo", "--sql"]).args(args).args(&logs[1..]);
        Ok::<_, anyhow::Error>(command.output()?)
    };
    // The last change comes first in the script, and has column names.
    let refused = printed(&["--database=d"])?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(1) && error.contains("no column names"), "{error}");
    ensure!(refused.stdout.is_empty(), "{}", String::from_utf8_lossy(&refused.stdout));
    let whole = printed(&["--table=`d`.`u`", "--table=d.none"])?;
    let (script, error) = (String::from_utf8_lossy(&whole.stdout), String::from_utf8_lossy(&whole.stderr));
    ensure!(whole.status.success() && script.ends_with("COMMIT;\n"), "{script}{error}");
    ensure!(script.contains("shows neither generated columns nor triggers"), "{script}");
    ensure!(error.contains("the chosen transactions change no row of --table d.none"), "{error}");
    ensure!(!error.contains("--table d.u"), "{error}");
    Ok(())
}

/// The server has a default log, without column names. `undo` reads them from the server that it changes.
#[test]
fn conditions_have_the_column_names_of_the_target() -> Result<()> {
    let server = Launch::mysql().start()?;
    // The server logs a prepared statement with its comment.
    server.sql(
        "create database d; use d; flush binary logs;
        set @sql = '/* a tool */ create table notes (id int primary key, state enum(''new'', ''paid''))';
        prepare s from @sql; execute s; insert into notes values (1, 'new'), (2, 'new'), (3, 'new');
        update notes set state = 'paid'; flush binary logs",
    )?;
    let logs = server.binlogs()?;
    let logs = &logs[1..logs.len() - 1];
    let events = Command::new(bintide()?).args(["dump", "--events"]).args(logs).output()?;
    ensure!(String::from_utf8_lossy(&events.stdout).contains("/* a tool */ create table"), "{events:?}");
    let check = |args: &[&str], expected: &str| -> Result<()> {
        let output = undo_on(&server, logs, &[&["--table=notes"], args].concat())?;
        let rows = server.sql("select * from d.notes")?;
        ensure!(output.status.success() && rows == expected, "{args:?}: {rows}{output:?}");
        Ok(())
    };
    check(&["--where=id=2"], "1\tpaid\n3\tpaid\n")?;
    check(&["--where=state=paid", "--skip-changed"], "1\tnew\n3\tnew\n")?;
    server.sql("alter table d.notes add column late int")?;
    let refused = undo_on(&server, logs, &["--where=id=1"])?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(error.contains("the server of --to has no table d.notes with the columns of the log"), "{error}");
    Ok(())
}

/// Without column names, a log has only the numbers of columns: after a reordering, values would go to other columns.
#[test]
fn reordered_columns_are_noticed() -> Result<()> {
    let server = Launch::mysql().options(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]).start()?;
    server.sql(
        "create database d; use d; flush binary logs;
        create table notes (id int primary key, a int, b int); insert into notes values (1, 10, 20), (2, 30, 40);
        delete from notes where id = 1",
    )?;
    let (deletion, end) = (newest(&server)?, end_position(&server)?);
    server.sql(
        "alter table d.notes add key (a), modify b int not null; alter table d.notes modify b int after id;
        update d.notes set a = 31; flush binary logs",
    )?;
    let update = newest(&server)?;
    let logs = server.binlogs()?;
    let logs = &logs[1..logs.len() - 1];
    let name = logs[0].file_name().context("no name")?.to_string_lossy();
    let refused = undo_on(&server, logs, &[&format!("--gtid={deletion}")])?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(error.contains("the columns of d.notes were reordered later"), "{refused:?}");
    let stopped = undo_on(&server, logs, &["--table=notes", &format!("--stop-position={name}:{end}")])?;
    ensure!(stopped.stderr == refused.stderr, "{stopped:?}");
    let directory = TempDir::new()?;
    let log = directory.path().join("inverse");
    let written = run(logs, &[&format!("--gtid={deletion}")], &log)?;
    let warning = String::from_utf8_lossy(&written.stderr);
    ensure!(
        written.status.success() && warning.contains("the columns of d.notes were reordered"),
        "{written:?}"
    );
    let undone = undo_on(&server, logs, &[&format!("--gtid={update}")])?;
    let rows = server.sql("select id, a, b from d.notes")?;
    ensure!(undone.status.success() && rows == "2\t30\t40\n", "{rows}{undone:?}");
    Ok(())
}

#[test]
fn logs_that_are_missing_are_noticed() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql("create database d; create table d.t (a int); flush binary logs")?;
    for value in 1..=3 {
        server.sql(&format!("insert into d.t values ({value}); flush binary logs"))?;
    }
    let directory = TempDir::new()?;
    let logs = server.binlogs()?;
    let (mut index, mut names) = (String::new(), Vec::new());
    for log in [&logs[1], &logs[3]] {
        let name = log.file_name().context("no name")?.to_string_lossy().into_owned();
        std::fs::copy(log, directory.path().join(&name))?;
        index += &format!("./{name}\n");
        names.push(name);
    }
    std::fs::write(directory.path().join("binlog.index"), index)?;
    let check = |logs: &[PathBuf], start: Option<&str>, code: i32, expected: &str| -> Result<()> {
        let results = TempDir::new()?;
        let start = start.map(|name| format!("--start-position={name}:4"));
        let mut args = vec!["--table=d.t"];
        args.extend(start.as_deref());
        let output = run(logs, &args, &results.path().join("inverse.binlog"))?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(code), "{error}");
        ensure!(
            error.contains("is missing between") != expected.is_empty() && error.contains(expected),
            "{error}"
        );
        Ok(())
    };
    let store = [directory.path().to_owned()];
    check(&store, None, 1, ": the inverse would be incomplete; give the missing logs")?;
    check(&store, Some(&names[1]), 0, "")?;
    check(&[logs[1].clone(), logs[3].clone()], None, 0, ": the inverse is incomplete")?;
    let mut history = Command::new(bintide()?);
    history.args(["history", "--table=d.t", "--where=@1=1"]).arg(directory.path());
    let output = history.output()?;
    let warning = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && warning.contains(": the history may lack changes"), "{warning}");
    let writes = |args: &[&str], logs: &[PathBuf], code: i32, expected: &str| -> Result<()> {
        let results = TempDir::new()?;
        let to = results.path().join("out");
        let output = Command::new(bintide()?).args(args).arg(to).args(logs).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(code) && error.contains(expected), "{args:?}: {output:?}");
        Ok(())
    };
    let (stream, single) =
        (["stream", "--format=maxwell", "--columns=numbered", "--out"], [logs[1].clone(), logs[3].clone()]);
    writes(
        &stream,
        &store,
        2,
        ": no later run could write the records of missing logs; give the missing logs",
    )?;
    writes(&stream, &single, 0, ": their records are not written")?;
    writes(&["export", "--columns=numbered", "--to"], &store, 0, ": their row changes are not exported")
}

/// Returns random transactions with inserts, updates and deletes of all tables.
fn transactions(random: &mut SeededRandom, count: usize) -> String {
    let mut script = "use d; set foreign_key_checks = 1;".to_owned();
    for _ in 0..count {
        script += "begin;";
        for _ in 0..=random.below(4) {
            let [a, b] = [random.below(30), random.below(1000)];
            script += &match random.below(9) {
                0 | 1 => format!(
                    "insert ignore into customers (name, note) values ('c{b}', '{{\"n\": {a}, \"text\": \"{}\"}}');",
                    "x".repeat(b)
                ),
                2 => format!(
                    "insert into orders (customer, total, state) select id, {b}.5, 'new' from customers
                    order by id desc limit {};",
                    a % 5 + 1
                ),
                3 => {
                    format!("update orders set state = 'paid', total = total + {a} where id % 4 = {};", b % 4)
                }
                4 => format!(
                    "update customers set note = json_set(note, '$.n', {b}) where id % 3 = {};",
                    a % 3
                ),
                5 => format!("update ignore customers set name = 'd{a}' where id % 7 = {};", b % 7),
                6 => format!("delete from orders where id % 11 = {};", b % 11),
                7 => format!(
                    "insert into items values ({a}, repeat('l', {})), ({b}, null), ({b}, null);",
                    b % 300
                ),
                _ => format!(
                    "update items set a = a + {a} where a % 5 = {}; delete from items where a % 9 = 1;",
                    b % 5
                ),
            };
        }
        script += "savepoint s; insert into items values (77, 'after the savepoint');";
        script += if random.below(2) == 0 { "rollback to s;" } else { "" };
        script += if random.below(8) == 0 { "rollback;" } else { "commit;" };
    }
    script
}

fn undo(logs: &[PathBuf], args: &[&str], result: &Path) -> Result<()> {
    let output = run(logs, args, result)?;
    ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn run(logs: &[PathBuf], args: &[&str], result: &Path) -> Result<Output> {
    let mut command = Command::new(bintide()?);
    command.env_clear().env("TZ", "UTC").arg("undo").args(args).arg("--result-file").arg(result);
    Ok(command.args(logs).output()?)
}

/// Undoes transactions of the logs on their server.
fn undo_and_apply(server: &TestServer, logs: &[PathBuf], args: &[&str], method: ApplyMethod) -> Result<()> {
    let directory = TempDir::new()?;
    let result = directory.path().join("inverse");
    match method {
        ApplyMethod::Mysqlbinlog => {
            undo(logs, args, &result)?;
            apply(server, &result)
        }
        ApplyMethod::Target => {
            let output = undo_on(server, logs, args)?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            ensure!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
            Ok(())
        }
        ApplyMethod::Script => {
            let to = command::address("root", server);
            undo(logs, &[args, &["--sql", "--to", &to]].concat(), &result)?;
            server.client().sql_bytes(&std::fs::read(&result)?).map(drop)
        }
    }
}

/// Returns the end of the server's newest log.
fn end_position(server: &TestServer) -> Result<String> {
    let status = server.sql("show binary log status")?;
    Ok(status.split_whitespace().nth(1).context("no position")?.to_owned())
}

/// Runs `undo --to`.
fn undo_on(server: &TestServer, logs: &[PathBuf], args: &[&str]) -> Result<Output> {
    let mut command = Command::new(bintide()?);
    command.env_clear().env("TZ", "UTC").args([
        "undo",
        "--no-defaults",
        "--to",
        &command::address("root", server),
    ]);
    Ok(command.args(args).args(logs).output()?)
}

/// Applies a log to a server with mysqlbinlog.
fn apply(server: &TestServer, log: &Path) -> Result<()> {
    let mut reader = server.home().command("mysqlbinlog")?;
    let output = reader.args(["--no-defaults", "--skip-gtids"]).arg(log).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.client().sql_bytes(&output.stdout).map(drop)
}
