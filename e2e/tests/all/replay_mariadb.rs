//! MariaDB as target and as source: the same rows on both sides, value by value.

use ::replay::CommitOrder;
use anyhow::{Context, Result, ensure};
use e2e::as_sql::{TYPES, address, are_equal, replay, replay_killed, rows};
use e2e::replays::{checksum, run_repeat_sensitive_changes, source, target};
use e2e::workload;
use mysql_target::ApplyAs;
use tempfile::TempDir;
use testkit::{Launch, TestPackage, TestServer, seed_from_env};

/// Returns a MySQL whose default settings MariaDB supports.
fn mysql() -> Launch {
    Launch::mysql().options(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"])
}

fn mariadb() -> Result<TestServer> {
    Launch::mariadb().options(["--server-id=3", "--skip-log-bin"]).start()
}

#[test]
fn mysql_to_mariadb_ends_equal() -> Result<()> {
    for option in ["--binlog-row-image=FULL", "--binlog-row-image=MINIMAL"] {
        let source = source(&mysql().option(option), &["savepoints", "xa", "rotation"])?;
        source.sql(TYPES)?;
        source.sql("use d; create table j (id int primary key, j json); insert into j values (1, '{\"b\": 1.5, \"a\": [1, \"é\"]}'), (2, null);
            update j set j = json_set(j, '$.c', 1) where id = 1; create table copied as select id, a from n; flush binary logs")?;
        let target = mariadb()?;
        for order in [CommitOrder::Strict, CommitOrder::Grouped] {
            replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Auto, order)?;
            are_equal(&source, &target, rows).context(option)?;
        }
        let again =
            replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Grouped)?;
        ensure!(again.transactions == 0 && again.skipped > 20, "{again:?}");
    }
    Ok(())
}

/// Returns a line of random SQL as both support it; `None` if only MySQL does.
fn known_to_both(line: &str) -> Option<String> {
    // The client sends UTF-8 regardless of SET NAMES, which MariaDB checks.
    const ONLY_MYSQL: [&str; 9] = [
        " TRIGGER ",
        "SET binlog_format",
        " USER ",
        "GRANT ",
        "invisible_primary",
        "gtid_next",
        " VIEW ",
        "SET NAMES gbk",
        "SET NAMES binary",
    ];
    let is_known = !ONLY_MYSQL.iter().any(|only| line.contains(only));
    // MariaDB lacks MySQL's default collation, and SHOW CREATE statements name it.
    let general = "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci";
    let line = line.replace(" VECTOR(3)", " VARBINARY(12)").replace("CHARACTER SET utf8mb4", general);
    is_known.then(|| line.replace(" COLLATE utf8mb4_general_ci COLLATE", " COLLATE"))
}

#[test]
fn random_mysql_to_mariadb_ends_equal() -> Result<()> {
    const MORE: [&str; 3] =
        ["--binlog-format=ROW", "--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"];
    let directory = TempDir::new()?;
    let first = seed_from_env("BINTIDE_E2E_SEED");
    for seed in first..first + 2 {
        let source =
            workload::record_some_on(seed, &format!("maria-{seed}"), directory.path(), &MORE, known_to_both)?;
        let target = mariadb()?;
        replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Grouped)
            .with_context(|| format!("seed {seed}"))?;
        are_equal(&source, &target, rows).with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

#[test]
fn features_that_mariadb_lacks_are_refused_by_name() -> Result<()> {
    let check = |launch: Launch, sql: &str, apply_as, expected: &str| -> Result<()> {
        let source = source(&launch, &[])?;
        source.sql(&format!("{sql}; flush binary logs"))?;
        let target = mariadb()?;
        let result = replay(&source.binlogs()?, address(&target, "root")?, apply_as, CommitOrder::Strict);
        let message = format!("{:#}", result.err().context("not refused")?);
        ensure!(message.contains(expected), "{sql}: {message}");
        Ok(())
    };
    check(
        Launch::mysql(),
        "create database d",
        ApplyAs::Auto,
        "collation_server, utf8mb4_0900_ai_ci, which the target does not have",
    )?;
    let table = "create database d; create table d.t (a varchar(9) collate utf8mb4_0900_as_cs)";
    check(mysql(), table, ApplyAs::Auto, "Unknown collation: 'utf8mb4_0900_as_cs'")?;
    check(
        mysql(),
        "create database d",
        ApplyAs::Binlog,
        "the target is MariaDB, which does not accept MySQL's row events. Use --apply-as sql",
    )
}

#[test]
fn killed_replays_resume() -> Result<()> {
    // Also without GTIDs that the target records: transactions of MariaDB are identified by position.
    for launch in [mysql(), Launch::mariadb().option("--binlog-format=ROW")] {
        let source = source(&launch, &[])?;
        run_repeat_sensitive_changes(&source, 80, 5)?;
        let target = mariadb()?;
        replay_killed(&source, &target, &["--commit-order", "strict"])?;
        are_equal(&source, &target, rows)?;
    }
    Ok(())
}

/// MariaDB's own types, kinds of tables, and log formats.
const OWN: &str = "create database m; use m;
    create table own (id int primary key, u uuid, i6 inet6, i4 inet4, j json, t varchar(500) compressed, b blob compressed,
      s varchar(9) collate utf8mb4_uca1400_ai_ci);
    insert into own values (1, '123e4567-e89b-12d3-a456-426655440000', '2001:db8::1', '192.0.2.1', '{\"a\": 1}', repeat('abc', 150),
      repeat('x', 300), 'é'), (2, null, null, null, null, null, null, null);
    update own set i6 = '::', u = 'ffffffff-0000-0000-0000-000000000001' where id = 1; delete from own where id = 2;
    create sequence seq; alter sequence seq restart 50;";

#[test]
fn mariadb_to_mariadb_ends_equal() -> Result<()> {
    let ways: [&[&str]; 4] = [
        &["--binlog-format=ROW"],
        &[
            "--binlog-format=ROW",
            "--log-bin-compress=ON",
            "--log-bin-compress-min-len=10",
            "--binlog-row-image=MINIMAL",
        ],
        &[
            "--binlog-format=ROW",
            "--binlog-row-metadata=FULL",
            "--gtid-domain-id=7",
            "--binlog-row-image=NOBLOB",
        ],
        &["--binlog-format=MIXED"],
    ];
    for options in ways {
        let source = source(&Launch::mariadb().options(options.iter().copied()), &[])?;
        source.sql(TYPES)?;
        source.sql(OWN)?;
        source.sql("use d; create table copied as select id, a from n; begin; insert into n (id) values (70); savepoint s;
            insert into n (id) values (71); rollback to s; commit; xa start 'x'; insert into n (id) values (72); xa end 'x';
            xa prepare 'x'; xa commit 'x'; flush binary logs")?;
        let target = mariadb()?;
        let first =
            replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Grouped)?;
        ensure!(first.transactions > 20, "{first:?}");
        are_equal(&source, &target, checksum).with_context(|| format!("{options:?}"))?;
        let again =
            replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Grouped)?;
        ensure!(again.transactions == 0 && again.skipped >= first.transactions, "{again:?}");
    }
    Ok(())
}

/// Statements and rows that depend on variables that only MariaDB has.
const OWN_VARIABLES: &str = "create database v character set utf8mb4 collate utf8mb4_general_ci; use v;
    set explicit_defaults_for_timestamp = 0; create table implicit (id int primary key, a timestamp, b timestamp);
    set binlog_format = statement, timestamp = 1700000000; insert into implicit (id, a) values (1, null);
    set explicit_defaults_for_timestamp = 1; create table explicit (id int primary key, a timestamp);
    set check_constraint_checks = 0; create table checked (id int primary key, a int check (a > 5));
    insert into checked values (1, 1); set binlog_format = row; insert into checked values (2, 2), (3, 3);
    update checked set a = 4 where id = 3; set check_constraint_checks = 1; insert into checked values (4, 6);
    set sql_if_exists = 1; drop view missing; drop table missing; set sql_if_exists = 0;
    set character_set_collations = 'utf8mb4=utf8mb4_bin';
    create table collated (a varchar(10) character set utf8mb4, n int); set character_set_collations = default;
    insert into collated values ('x', 1), ('X', 2); set binlog_format = statement; delete from collated where a = 'x';
    set binlog_format = statement, sql_mode = 'ORACLE'; set @a = 'x'; create table oracle (id int primary key, a varchar(9));
    insert into oracle values (1, @a || 'y'); insert into oracle values (2, 'z');
    set sql_mode = default; insert into oracle values (3, @a)";

#[test]
fn statements_get_the_variables_of_mariadb() -> Result<()> {
    let newest = || Launch::of(TestPackage::MariaDb11_8).options(["--server-id=3", "--binlog-format=ROW"]);
    let source = newest().start()?;
    source.sql(OWN_VARIABLES)?;
    source.sql("flush binary logs")?;
    let target = newest().start()?;
    replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Strict)?;
    for table in ["implicit", "explicit", "checked", "collated", "oracle"] {
        let content = |server: &TestServer| {
            server.sql(&format!("select * from v.{table}; show create table v.{table}"))
        };
        let (found, expected) = (content(&target)?, content(&source)?);
        ensure!(found == expected, "{table}: {found}, not {expected}");
    }
    Ok(())
}

#[test]
fn unchecked_rows_of_mariadb_are_refused_by_name() -> Result<()> {
    let source =
        Launch::of(TestPackage::MariaDb11_8).options(["--server-id=3", "--binlog-format=ROW"]).start()?;
    source.sql(
        "create database v character set utf8mb4 collate utf8mb4_general_ci; use v;
        create table checked (id int primary key, a int check (a > 5)); set check_constraint_checks = 0;
        insert into checked values (1, 1); flush binary logs",
    )?;
    let target = target("--skip-log-bin")?;
    let result = replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Strict);
    let message = format!("{:#}", result.err().context("not refused")?);
    ensure!(message.contains("made this change with check_constraint_checks=0, which MySQL"), "{message}");
    Ok(())
}

/// MariaDB logs VECTOR as VARBINARY. MySQL's vectors have the same bytes.
#[test]
fn vectors_end_equal() -> Result<()> {
    const ROWS: &str = "create database v default character set utf8mb4 collate utf8mb4_general_ci; use v;
        create table keyed (id int primary key, v vector(2) not null); create table bare (n int, v vector(2) not null);
        insert into keyed values (1, to_vector('[1,2]')), (2, to_vector('[3,4]')); insert into bare select * from keyed;
        update keyed set v = to_vector('[7,-8]') where id = 1; delete from keyed where id = 2;
        update bare set v = to_vector('[5,6]') where n = 1; delete from bare where n = 2; flush binary logs";
    let newest = || Launch::of(TestPackage::MariaDb11_8).options(["--server-id=3", "--binlog-format=ROW"]);
    let sources = [
        (newest().option("--binlog-row-metadata=NO_LOG"), "vec_fromtext"),
        (newest().option("--binlog-row-metadata=FULL"), "vec_fromtext"),
        (mysql(), "string_to_vector"),
    ];
    for (launch, function) in sources {
        let source = launch.start()?;
        source.sql(&ROWS.replace("to_vector", function))?;
        let target = Launch::of(TestPackage::MariaDb11_8).option("--skip-log-bin").start()?;
        replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Strict)?;
        for table in ["keyed", "bare"] {
            let content = |server: &TestServer| server.sql(&format!("select hex(v) from v.{table}"));
            let (found, expected) = (content(&target)?, content(&source)?);
            ensure!(found == expected && found.lines().count() == 1, "{table}: {found}, not {expected}");
        }
    }
    Ok(())
}

#[test]
fn mariadb_to_mysql_ends_equal() -> Result<()> {
    for options in [
        &["--binlog-format=ROW"][..],
        &["--binlog-format=ROW", "--log-bin-compress=ON", "--log-bin-compress-min-len=10"],
    ] {
        let launch = Launch::mariadb().options(options.iter().copied());
        let launch =
            launch.options(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"]);
        let source = source(&launch, &[])?;
        source.sql(TYPES)?;
        source.sql("use d; create table j (id int primary key, j json); insert into j values (1, '{\"a\": [1, 2.5]}');
            xa start 'x'; insert into n (id) values (72); xa end 'x'; xa prepare 'x'; xa commit 'x';
            set binlog_format = statement; begin; insert into n (id) values (73);
            create temporary table own (a timestamp, id int); insert into own values (now(), 74);
            insert into n (id) select id from own; commit; flush binary logs")?;
        let target = target("--skip-log-bin")?;
        let first =
            replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Strict)?;
        are_equal(&source, &target, rows).with_context(|| format!("{options:?}"))?;
        let again =
            replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Auto, CommitOrder::Strict)?;
        ensure!(again.transactions == 0 && again.skipped >= first.transactions, "{again:?}");
    }
    Ok(())
}
