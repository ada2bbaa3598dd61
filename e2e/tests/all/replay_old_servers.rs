//! Logs of new servers replayed to old ones, and logs of old servers to the newest.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::as_sql::rows;
use e2e::command::{CommandOutput, address, begin, replay};
use e2e::program;
use rusqlite::Connection;
use tempfile::TempDir;
use testkit::{Launch, TestPackage, TestServer, wait_until};

/// Returns statements and row changes of all kinds, in a database of their own.
fn script(database: &str, charset: &str) -> String {
    format!(
        "create database {database}{charset}; use {database};
         create table t (id int primary key auto_increment, a varchar(20) character set utf8, n decimal(5,2), u datetime);
         insert into t (a, n, u) values ('é', 1.5, '2026-01-02 03:04:05'), ('b', -1, null), (null, 0, null);
         update t set n = n + 1 where id < 3; delete from t where id = 3; alter table t add index (a), add c int;
         set time_zone = '+03:00'; set session binlog_format = statement;
         insert into t (a, u) values ('s', from_unixtime(1000000000)); update t set c = 7;
         create table w as select id, a from t; create table e (a int) engine = innodb;"
    )
}

/// The kernel limits asynchronous I/O requests for all servers of a machine, and old servers reserve many.
const SYNCHRONOUS: &str = "--innodb-use-native-aio=OFF";

fn target(package: TestPackage) -> Result<TestServer> {
    Launch::of(package).options(["--server-id=2", "--local-infile=1", SYNCHRONOUS]).start()
}

fn source(package: TestPackage, options: &[&str], sql: &str) -> Result<TestServer> {
    let source = Launch::of(package)
        .options(["--server-id=1", SYNCHRONOUS])
        .options(options.iter().copied())
        .start()?;
    source.sql(sql).with_context(|| package.name())?;
    source.sql("flush logs")?;
    Ok(source)
}

/// Applies a server's logs twice: the second run must find nothing to apply. Then removes the progress from the
/// target, so that it accepts another server's logs.
fn applies(source: &TestServer, target: &TestServer, more: &[&str]) -> Result<CommandOutput> {
    let first = replay(&source.binlogs()?, target, more)?;
    ensure!(first.code == Some(0), "{more:?}: {first:?}");
    let again = replay(&source.binlogs()?, target, more)?;
    ensure!(again.code == Some(0) && again.stdout.starts_with("0 transactions"), "{more:?}: {again:?}");
    target.sql("drop database bintide")?;
    Ok(first)
}

/// Compares the rows of all tables of a database.
fn is_equal(source: &TestServer, target: &TestServer, database: &str) -> Result<()> {
    let names = |server: &TestServer| {
        let names = format!("show tables in {database}");
        server.sql(&names)
    };
    let (theirs, ours) = (names(source)?, names(target)?);
    ensure!(theirs == ours && !theirs.is_empty(), "{database}: {theirs}\n{ours}");
    for name in theirs.lines() {
        let table = format!("`{database}`.`{name}`");
        let (theirs, ours) = (rows(source, &table)?, rows(target, &table)?);
        ensure!(theirs == ours, "{table}: the source has\n{theirs}\nthe target\n{ours}");
    }
    Ok(())
}

#[test]
fn logs_of_new_servers_replay_to_old_ones() -> Result<()> {
    let targets = [target(TestPackage::Mysql5_7)?, target(TestPackage::Mysql8_0_15)?];
    let sources = [
        (TestPackage::Mysql, "newest", "", ""),
        (TestPackage::Mysql8_0, "eight", "", " character set latin1"),
        (TestPackage::MariaDb11_8, "maria", "", " character set latin1"),
    ];
    for (package, database, option, charset) in sources {
        let options: Vec<&str> = option.split_whitespace().collect();
        let source = source(package, &options, &script(database, charset))?;
        for target in &targets {
            for more in [&["--apply-as", "auto"][..], &["--apply-as", "sql", "--commit-order", "strict"]] {
                let ran = applies(&source, target, more).with_context(|| package.name())?;
                let is_old = target.sql("select @@version")?.starts_with("5.7");
                let is_substituted = ran.stderr.contains("`newest` with utf8mb4_general_ci instead of");
                ensure!(
                    is_substituted == (is_old && package == TestPackage::Mysql),
                    "{}: {ran:?}",
                    package.name()
                );
                let is_left = ran.stderr.contains("gtid_executed was not changed");
                ensure!(is_left == is_old, "{}: {ran:?}", package.name());
                is_equal(&source, target, database).with_context(|| package.name())?;
                // With the GTIDs of this run, the next one would skip all transactions.
                target.sql(&format!("drop database {database}; reset master"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn the_privilege_that_5_7_lacks_is_not_recommended() -> Result<()> {
    let source = source(TestPackage::Mysql5_7, &["--binlog-format=ROW", "--log-bin=binlog"], CHANGES)?;
    let target = target(TestPackage::Mysql5_7)?;
    target.sql(
        "create user r@localhost; grant all on d.* to r@localhost; grant all on bintide.* to r@localhost",
    )?;
    let run = |more: &[&str]| -> Result<CommandOutput> {
        let mut command = Command::new(program::bintide()?);
        command.env_clear().arg("replay").args(source.binlogs()?).args(["--to", &address("r", &target)]);
        Ok(command.args(more).output()?.into())
    };
    let refused = run(&["--apply-as", "binlog", "--allow-missing-privileges"])?;
    let expected = "the account may not send row events. GRANT it SUPER, or use --apply-as sql";
    ensure!(refused.code == Some(2) && refused.stderr.contains(expected), "{refused:?}");
    let remarked = run(&[])?;
    let expected = "rows were applied as SQL statements: the account does not have SUPER";
    ensure!(remarked.code == Some(0) && remarked.stderr.contains(expected), "{remarked:?}");
    for ran in [refused, remarked] {
        ensure!(!ran.stderr.contains("REPLICATION_APPLIER"), "{ran:?}");
    }
    Ok(())
}

#[test]
fn accounts_with_unknown_plugins_have_a_remedy() -> Result<()> {
    let sql = "create database d character set latin1; create table d.t (id int primary key) engine = innodb;
        create user u@localhost identified with caching_sha2_password by 'secret'; insert into d.t values (7)";
    let source = source(TestPackage::Mysql8_0, &["--gtid-mode=ON", "--enforce-gtid-consistency=ON"], sql)?;
    for package in [TestPackage::Mysql5_7, TestPackage::MariaDb11_8] {
        let target = target(package)?;
        let stopped = replay(&source.binlogs()?, &target, &[])?;
        for expected in ["caching_sha2_password", "create the account on the target", "--exclude-gtids"] {
            ensure!(
                stopped.code == Some(1) && stopped.stderr.contains(expected),
                "{}: {stopped:?}",
                package.name()
            );
        }
        let gtid = stopped.stderr.split_once(" (").and_then(|(_, rest)| rest.split_once(')'));
        let (gtid, _) = gtid.with_context(|| stopped.stderr.clone())?;
        target.sql("create user u@localhost identified by 'secret'")?;
        let ran = replay(&source.binlogs()?, &target, &["--exclude-gtids", gtid])?;
        ensure!(ran.code == Some(0), "{}: {ran:?}", package.name());
        is_equal(&source, &target, "d")?;
    }
    Ok(())
}

/// Row changes that 5.5 supports.
const CHANGES: &str = "create database d character set latin1; use d;
    create table t (id int primary key, a varchar(20), b blob, f double, n decimal(9,4)) engine = innodb;
    insert into t values (1, 'é', x'00ff', 0.1, 1.5), (2, null, null, null, null), (3, 'c', '', -1, 0);
    update t set a = 'x', n = 2 where id = 1; update t set b = 'y'; delete from t where id = 3;
    create table keyless (a int, b char(5)) engine = innodb; insert into keyless values (1, 'a'), (1, 'a'), (2, 'b');
    delete from keyless where a = 1 limit 1; update keyless set b = 'c' where a = 2;";

#[test]
fn logs_of_old_servers_replay_to_the_newest() -> Result<()> {
    let target = target(TestPackage::Mysql)?;
    let sources = [
        (TestPackage::Mysql5_5, "--binlog-format=ROW"),
        (TestPackage::Mysql5_6, "--log-bin-use-v1-row-events=ON"),
        (TestPackage::Mysql5_7, "--log-bin-use-v1-row-events=ON"),
    ];
    for (package, option) in sources {
        let source = source(package, &["--binlog-format=ROW", option], CHANGES)?;
        for more in
            [&["--commit-order", "grouped"][..], &["--commit-order", "strict"], &["--apply-as", "sql"]]
        {
            applies(&source, &target, more).with_context(|| package.name())?;
            is_equal(&source, &target, "d").with_context(|| format!("{} {more:?}", package.name()))?;
            target.sql("drop database d; reset binary logs and gtids")?;
        }
    }
    Ok(())
}

/// Before MySQL 5.7.5, a session has one lock. A replay that waits for the sessions of an earlier one must keep its
/// own.
#[test]
fn replays_keep_their_lock() -> Result<()> {
    let source = source(TestPackage::Mysql5_6, &["--binlog-format=ROW"], CHANGES)?;
    let target = target(TestPackage::Mysql5_6)?;
    let first = replay(&source.binlogs()?, &target, &[])?;
    ensure!(first.code == Some(0), "{first:?}");
    // As after a replay that was killed.
    target.sql("update bintide.progress set sessions = 2 where stream = 1")?;
    let mut child = begin(&[source.datadir().join("binlog.index")], &target, &["--follow", "--quiet"])?;
    source.sql("insert into d.t values (9, 'z', null, 0, 0)")?;
    let is_applied = || Ok(target.sql("select count(*) from d.t where id = 9")?.trim() == "1");
    let result = wait_until("the new row", is_applied);
    let owner = target.sql("select is_used_lock('bintide.replay')");
    child.kill()?;
    child.wait()?;
    result?;
    ensure!(owner?.trim() != "NULL", "no session holds the lock");
    Ok(())
}

#[test]
fn hidden_columns_of_functional_indexes_are_skipped() -> Result<()> {
    let changes = "create database d; use d; create table f (id int primary key, a int, key ((a * 2)));
        create table g (a int, b varchar(10), key ((a * 2), b, (a + 3)));
        insert into f values (1, 2), (2, 3); update f set a = 5 where id = 1; delete from f where id = 2;
        insert into g values (1, 'x'), (2, 'y'); update g set b = 'z' where a = 1; delete from g where a = 2;
        set session binlog_row_image = minimal; insert into f values (3, 4); update f set a = 6 where id = 3;";
    let source = source(TestPackage::Mysql8_0_15, &[], changes)?;
    let target = target(TestPackage::Mysql)?;
    for apply_as in ["binlog", "sql"] {
        for order in ["strict", "grouped"] {
            applies(&source, &target, &["--apply-as", apply_as, "--commit-order", order])?;
            is_equal(&source, &target, "d").with_context(|| format!("{apply_as} {order}"))?;
            target.sql("drop database d; reset binary logs and gtids")?;
        }
    }
    let directory = TempDir::new()?;
    let file = directory.path().join("copy.db");
    let mut command = Command::new(program::bintide()?);
    command.env_clear().arg("replay").args(source.binlogs()?);
    let ran: CommandOutput = command.arg("--to").arg(format!("sqlite:{}", file.display())).output()?.into();
    ensure!(ran.code == Some(0), "{ran:?}");
    let copy = Connection::open(file)?;
    let sum =
        |table: &str| copy.query_row(&format!("select sum(a) from \"d.{table}\""), [], |row| row.get(0));
    let (f, g): (i64, i64) = (sum("f")?, sum("g")?);
    ensure!((f, g) == (11, 1), "{f} {g}");
    check_hidden_columns_of_existing_tables(&source, &target)
}

/// Replays a log from a point after the definitions of its tables, which the target already has.
fn check_hidden_columns_of_existing_tables(source: &TestServer, target: &TestServer) -> Result<()> {
    let definitions = "create database d; use d; create table f (id int primary key, a int, key ((a * 2)));
        create table g (a int, b varchar(10), key ((a * 2), b, (a + 3)));";
    let (logs, later) =
        (source.binlogs()?.len(), "insert into d.f values (7, 8); insert into d.g values (7, 'x')");
    source.sql(&format!("truncate d.f; truncate d.g; flush logs; {later}; flush logs"))?;
    target.sql(definitions)?;
    let later = source.binlogs()?.split_off(logs);
    let ran = replay(&later, target, &["--allow-gap"])?;
    ensure!(ran.code == Some(0), "{ran:?}");
    is_equal(source, target, "d")?;
    target.sql("drop database d; drop database bintide; reset binary logs and gtids")?;
    target.sql(&definitions.replace(", (a + 3)", ""))?;
    let refused = replay(&later, target, &["--allow-gap"])?;
    let expected = "`d`.`g` has 2 columns on the target, but 4 in the logs";
    ensure!(refused.code == Some(2) && refused.stderr.contains(expected), "{refused:?}");
    Ok(())
}

#[test]
fn documents_with_generated_columns_replay_to_5_7_as_sql() -> Result<()> {
    let sql = "create database d; use d;
        create table g (id int primary key, d json, e varchar(30) as (json_unquote(json_extract(d, '$.n'))) virtual,
          f varchar(30) as (concat('e', e)) stored, key (e));
        insert into g (id, d) values (1, '{\"n\": \"é\"}'), (2, '{}'), (3, '{\"n\": 1.5}');
        update g set d = '{\"n\": \"x\"}' where id = 2; delete from g where id = 1;";
    let source = source(TestPackage::Mysql5_7, &[], sql)?;
    let target = target(TestPackage::Mysql5_7)?;
    applies(&source, &target, &["--apply-as", "sql"])?;
    is_equal(&source, &target, "d")
}
