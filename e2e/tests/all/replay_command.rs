//! The command line of `bintide replay`: preflight checks, filters, messages.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::command::{self, CommandOutput, address};
use e2e::program::bintide;
use e2e::replays::checksums;
use testkit::{Launch, SeededRandom, TestServer};

fn replay(logs: &[PathBuf], to: &str, more: &[&str]) -> Result<CommandOutput> {
    let mut command = Command::new(bintide()?);
    command.env_clear().env("MYSQL_PWD", "secret").arg("replay").args(logs).args(["--to", to]).args(more);
    Ok(command.output()?.into())
}

fn succeeds(ran: &CommandOutput) -> Result<()> {
    ensure!(ran.code == Some(0), "{ran:?}");
    Ok(())
}

fn source(options: &[&str], sql: &str) -> Result<TestServer> {
    let source = Launch::mysql().option("--server-id=1").options(options.iter().copied()).start()?;
    source.sql(sql)?;
    source.sql("flush binary logs")?;
    Ok(source)
}

fn target_of(options: &[&str]) -> Result<TestServer> {
    Launch::mysql().option("--server-id=2").options(options.iter().copied()).start()
}

fn has_progress(target: &TestServer) -> Result<bool> {
    Ok(!target.sql("show databases like 'bintide'")?.is_empty())
}

const TABLE: &str = "create database d; create table d.t (id int primary key, n varchar(20));";

#[test]
fn missing_privileges_are_listed_completely() -> Result<()> {
    let source = source(&[], TABLE)?;
    source.sql(
        "insert into d.t values (1, 'a'); set gtid_next = 'AUTOMATIC:tag'; insert into d.t values (2, 'b')",
    )?;
    source.sql("flush binary logs")?;
    let target = target_of(&["--log-bin=binlog"])?;
    target.sql(&format!(
        "set sql_log_bin = 0; {TABLE} create user r@localhost identified by 'secret';
        grant select on d.* to r@localhost"
    ))?;
    let logs = &source.binlogs()?[1..2];
    let run = || replay(logs, &address("r", &target), &["--allow-gap", "--apply-as", "binlog"]);
    let first = run()?;
    ensure!(first.code == Some(2), "{first:?}");
    for expected in [
        "BINLOG_ADMIN",
        "SESSION_VARIABLES_ADMIN",
        "SYSTEM_VARIABLES_ADMIN",
        "TRANSACTION_GTID_TAG",
        "on the database bintide",
        "replication_applier_status",
    ] {
        ensure!(first.stderr.contains(expected), "{expected}: {}", first.stderr);
    }
    let findings = || first.stderr.lines().filter(|line| !line.contains("allowed by --allow-"));
    ensure!(findings().count() == 6, "{}", first.stderr);
    ensure!(first.stderr.trim_end().ends_with("nothing was changed") && !has_progress(&target)?, "{first:?}");
    // Without one of them, the server refuses too.
    let anyway = ["--allow-gap", "--allow-missing-privileges", "--apply-as", "binlog"];
    let anyway = replay(logs, &address("r", &target), &anyway)?;
    ensure!(anyway.code == Some(2) && anyway.stderr.contains("REPLICATION_APPLIER (or"), "{anyway:?}");
    for line in findings() {
        let (_, grant) = line.split_once("GRANT ").with_context(|| line.to_owned())?;
        let grant = grant.split("; to replay anyway").next().unwrap_or(grant);
        target.sql(&format!("set sql_log_bin = 0; GRANT {grant}"))?;
    }
    let told = run()?;
    ensure!(told.code == Some(0), "{told:?}");
    // For this account, the server checks the privileges of each change.
    source.sql("insert into d.t values (3, 'c'); update d.t set n = 'x'; delete from d.t where id = 1; flush binary logs")?;
    target.sql(
        "set sql_log_bin = 0; revoke binlog_admin on *.* from r@localhost; grant replication_applier on *.* to r@localhost",
    )?;
    let all = source.binlogs()?;
    let rows = |more: &[&str]| replay(&all[2..3], &address("r", &target), more);
    let refused = rows(&["--allow-gap"])?;
    ensure!(
        refused.code == Some(2) && refused.stderr.contains("INSERT and UPDATE and DELETE on `d`.`t`"),
        "{refused:?}"
    );
    ensure!(rows(&["--allow-gap", "--allow-missing-privileges"])?.code == Some(1));
    target.sql("set sql_log_bin = 0; grant insert, update, delete on d.t to r@localhost")?;
    succeeds(&rows(&["--allow-gap"])?)?;
    ensure!(checksums(&source)? == checksums(&target)?);
    Ok(())
}

#[test]
fn all_obstacles_are_reported_together() -> Result<()> {
    let source = source(&["--binlog-format=STATEMENT"], TABLE)?;
    let file = source.datadir().join("file.tsv");
    fs::write(&file, "7\tseven\n")?;
    source.sql("create table d.u (id int primary key); flush binary logs")?;
    let load = format!("load data infile '{}' into table d.t;", file.display());
    let rows = "set binlog_format = ROW; insert into d.t values (1, 'a'); insert into d.u values (1);";
    source.sql(&format!(
        "{load} {rows} set binlog_format = STATEMENT; insert into d.t values (2, repeat('x', 9))"
    ))?;
    source.sql("flush binary logs")?;
    let target = target_of(&["--local-infile=0", "--skip-log-bin"])?;
    target.sql("create database d; create table d.t (id int primary key, n text)")?;
    target.sql("change replication source to source_host = '127.0.0.1', source_port = 1 for channel 'c'")?;
    target.sql("start replica sql_thread for channel 'c'; set global super_read_only = 1")?;
    let log = &source.binlogs()?[2..3];
    let ran = command::replay(log, &target, &[])?;
    ensure!(ran.code == Some(2), "{ran:?}");
    let expected = [
        "read-only: the target is super_read_only; run SET GLOBAL super_read_only = 0",
        "applier: the target is a replica whose applier is running, in the channel 'c'",
        "local-infile: the logs contain LOAD DATA",
        "gap: the target lacks ",
        "different-tables: `d`.`t` has a column 2 that is text on the target, but varchar in the logs",
        "different-tables: `d`.`u` does not exist on the target",
    ];
    for expected in expected {
        ensure!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
    ensure!(ran.stderr.lines().count() == expected.len(), "{}", ran.stderr);
    ensure!(!has_progress(&target)?);
    // Obstacles removed or allowed.
    target
        .sql("set global super_read_only = 0; stop replica for channel 'c'; set global local_infile = 1")?;
    target.sql("create table d.u (id int primary key)")?;
    let ran = command::replay(log, &target, &["--allow-gap"])?;
    ensure!(ran.code == Some(2) && ran.stderr.lines().count() == 2, "{ran:?}");
    ensure!(
        ran.stderr.contains("allowed by --allow-gap: ") && ran.stderr.contains("--allow-different-tables"),
        "{ran:?}"
    );
    target.sql("alter table d.t modify n varchar(20)")?;
    succeeds(&command::replay(log, &target, &["--allow-gap"])?)?;
    ensure!(checksums(&source)? == checksums(&target)?);
    Ok(())
}

/// Rules on databases and tables, as options of a replica; bintide's have the same names without `replicate-`.
const RULES: [&[&str]; 10] = [
    &["do-db=d"],
    &["ignore-db=d"],
    &["do-db=d", "do-db=e", "ignore-table=d.T1", "ignore-table=d.t2"],
    &["do-table=d.t1", "do-table=e.t2", "ignore-table=f.t1"],
    &["wild-do-table=D.%", "wild-do-table=d.s%", "wild-ignore-table=e.%"],
    &["wild-ignore-table=%.t_", "do-table=f.t3"],
    &["rewrite-db=d->e"],
    &["rewrite-db=d->f", "do-db=f", "wild-ignore-table=f.t2"],
    &["rewrite-db=e->x", "wild-do-table=x.%", "wild-do-table=g.%"],
    &["ignore-db=g", "ignore-table=e.s1", "wild-ignore-table=d.s%"],
];

/// Databases that all servers have at the start, with the same tables: rows of `t…` are logged as rows, those of
/// `s…` as statements. Other tables are created and dropped, without rows.
const DATABASES: [&str; 4] = ["d", "e", "f", "x"];

fn tables() -> String {
    let mut sql = String::new();
    for database in DATABASES {
        sql.push_str(&format!("create database {database};"));
        for table in ["t1", "t2", "t3", "s1", "s2"] {
            sql.push_str(&format!("create table {database}.{table} (id int primary key, n int);"));
        }
    }
    sql
}

/// Returns random changes. Each row is in one database only, so that no rewrite makes two rows collide.
fn changes(random: &mut SeededRandom) -> String {
    let (mut sql, mut id) = (String::new(), 0);
    for _ in 0..150 {
        let pick = |random: &mut SeededRandom| *random.pick(&["d", "e", "f"]);
        let (default, one, other) = (pick(random), pick(random), pick(random));
        let number = random.below(3) + 1;
        id += 10;
        sql.push_str(&format!("use {default}; set binlog_format = ROW;"));
        let statement = match random.below(12) {
            0 => format!(
                "begin; insert into {one}.t1 values ({id}, 1); insert into {other}.t2 values ({id}, 2);
                 savepoint a; insert into {default}.t3 values ({id}, 3); commit;"
            ),
            1 => format!("insert into {one}.t{number} values ({id}, 1), ({id} + 1, 2);"),
            2 => format!(
                "insert into {one}.t1 values ({id}, 1); insert into {other}.t2 values ({id}, 1);
                 update {one}.t1 a, {other}.t2 b set a.n = 7, b.n = 8 where a.id = {id} and b.id = {id};"
            ),
            3 => format!("insert into {one}.t3 values ({id}, 1); delete from {one}.t3 where id = {id};"),
            4 => format!("set binlog_format = STATEMENT; insert into {one}.s1 values ({id}, 1);"),
            5 => format!(
                "set binlog_format = STATEMENT; insert into s2 values ({id}, 1); update s2 set n = n + 1;"
            ),
            6 => format!("create table if not exists {one}.x{number} (a int);"),
            7 => format!("drop table if exists {one}.x{number}, x{};", number % 3 + 1),
            8 => format!("create or replace view {one}.v{number} as select 1 as one;"),
            9 => format!("create table if not exists x{number} (a int);"),
            10 => "create database if not exists g; drop database if exists h;".to_owned(),
            _ => format!(
                "set binlog_format = STATEMENT; delete a from {one}.s1 a join {default}.s2 b where a.id = b.id + 10;"
            ),
        };
        sql.push_str(&statement);
        sql.push('\n');
    }
    sql
}

/// Returns names of tables and views, and the rows of the tables.
fn contents(server: &TestServer) -> Result<Vec<String>> {
    let views = server.sql(
        "select concat(table_schema, '.', table_name) from information_schema.views
         where table_schema not in ('sys', 'information_schema', 'performance_schema') order by 1",
    )?;
    let databases = server.sql("show databases where `Database` not in ('bintide')")?;
    let mut all = checksums(server)?;
    all.extend([views, databases]);
    Ok(all)
}

#[test]
fn rules_on_databases_and_tables_equal_a_replicas() -> Result<()> {
    let seed = testkit::seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {seed}");
    let mut random = SeededRandom::new(seed);
    let source = source(&[], &format!("set sql_log_bin = 0; {}", tables()))?;
    source.sql(&changes(&mut random))?;
    source.sql("flush binary logs")?;
    let everything = contents(&source)?;
    let mut outcomes = HashSet::new();
    let target = target_of(&["--skip-log-bin"])?;
    for rules in RULES {
        let options: Vec<String> = rules.iter().map(|rule| format!("--replicate-{rule}")).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let replica = target_of(&[&options[..], &["--skip-log-bin", "--skip-replica-start"]].concat())?;
        replica.sql(&tables())?;
        follow(&replica, &source)?;
        target
            .sql("drop database if exists g; drop database if exists bintide; reset binary logs and gtids")?;
        target.sql(&DATABASES.map(|name| format!("drop database if exists {name};")).concat())?;
        target.sql(&tables())?;
        let rules: Vec<String> = rules.iter().map(|rule| format!("--{rule}")).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let ran = command::replay(&source.binlogs()?, &target, &rules)?;
        ensure!(ran.code == Some(0), "seed {seed}: {rules:?}: {ran:?}");
        let (ours, theirs) = (contents(&target)?, contents(&replica)?);
        let differing: Vec<_> = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).collect();
        ensure!(ours == theirs, "seed {seed}: {rules:?}: ours and the replica's: {differing:?}");
        ensure!(ours != everything, "seed {seed}: {rules:?} changes nothing");
        outcomes.insert(ours);
        let lacks = "select gtid_subtract(@@global.gtid_executed, '') = '' from dual";
        ensure!(target.sql(lacks)?.trim() == "0", "filtered transactions do not count as applied");
    }
    ensure!(outcomes.len() > 7, "the rules give {} outcomes", outcomes.len());
    Ok(())
}

/// Starts replication, and waits until the replica has applied all transactions of the source.
fn follow(replica: &TestServer, source: &TestServer) -> Result<()> {
    replica.replicate_from(source)?;
    replica.wait_until_applied(source)
}

#[test]
fn logs_of_another_server_are_refused_until_progress_is_removed() -> Result<()> {
    let one = source(&["--gtid-mode=OFF"], TABLE)?;
    let other = Launch::mysql().options(["--server-id=3", "--gtid-mode=OFF"]).start()?;
    other.sql("create database e; create table e.t (id int); flush binary logs")?;
    let target = target_of(&["--gtid-mode=OFF", "--skip-log-bin"])?;
    let none = command::replay(&[], &target, &["--status"])?;
    ensure!(none.code == Some(0) && none.stdout.contains("No progress is saved"), "{none:?}");
    succeeds(&command::replay(&one.binlogs()?, &target, &[])?)?;
    let status = command::replay(&[], &target, &["--status"])?;
    ensure!(status.stdout.contains("up to binlog.") && status.stdout.contains("server_id 1"), "{status:?}");
    let logs = other.binlogs()?;
    let refused = command::replay(&logs, &target, &[])?;
    ensure!(refused.code == Some(2) && refused.stderr.contains("other-source: "), "{refused:?}");
    let forgotten = command::replay(&[], &target, &["--forget"])?;
    ensure!(forgotten.code == Some(0) && !has_progress(&target)?, "{forgotten:?}");
    succeeds(&command::replay(&logs, &target, &[])?)?;
    ensure!(checksums(&target)?.len() == 2);
    Ok(())
}

/// A replay adds GTIDs to `gtid_executed` when it begins and ends, and to `bintide.progress` between.
#[test]
fn the_status_has_all_applied_gtids() -> Result<()> {
    let source = source(&["--gtid-mode=ON", "--enforce-gtid-consistency=ON"], TABLE)?;
    let uuid = source.sql("select @@server_uuid")?.trim().to_owned();
    for id in 0..9 {
        source.sql(&format!("create table d.status_{id} (id int primary key)"))?;
    }
    let target = target_of(&["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--skip-log-bin"])?;
    let logs = source.binlogs()?;
    let gtid = |number: u32| format!("{uuid}:{number}");
    succeeds(&command::replay(&logs, &target, &["--stop-gtid", &gtid(4)])?)?;
    let middle = ["--start-gtid", &gtid(6), "--stop-gtid", &gtid(8), "--allow-gap"];
    succeeds(&command::replay(&logs, &target, &middle)?)?;
    let status = command::replay(&[], &target, &["--status"])?;
    let applied = format!("applied        {uuid}:1-3:6-7\n");
    ensure!(status.stdout.contains(&applied), "{status:?}");
    // A stop before a transaction that the target has already.
    let late = command::replay(&logs, &target, &["--stop-gtid", &gtid(6)])?;
    succeeds(&late)?;
    ensure!(late.stderr.contains(&format!("the target already has {}", gtid(6))), "{late:?}");
    Ok(())
}

#[test]
fn logs_can_be_given_one_by_one() -> Result<()> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples");
    let source = source(&[], "select 1")?;
    for script in
        ["types", "json", "triggers", "partitions", "ddl", "invisible-keys", "charsets", "foreign-keys"]
    {
        source.sql(&fs::read_to_string(samples.join(script).with_extension("sql"))?)?;
        source.sql("flush binary logs")?;
        // Again, without definitions before the rows.
        source.sql(&all_rows_again(&source)?)?;
        source.sql("flush binary logs")?;
    }
    let target = target_of(&["--skip-log-bin", "--local-infile=1"])?;
    let logs = source.binlogs()?;
    for count in 1..=logs.len() {
        succeeds(&command::replay(&logs[count - 1..count], &target, &[])?)?;
    }
    ensure!(checksums(&source)? == checksums(&target)?);
    Ok(())
}

/// Returns statements that delete some rows of each table.
fn all_rows_again(server: &TestServer) -> Result<String> {
    server.sql(
        "select concat('set foreign_key_checks = 0; delete from `', table_schema, '`.`', table_name, '` limit 1;')
         from information_schema.tables where table_type = 'BASE TABLE' and create_options not like '%partitioned%'
           and table_schema not in ('mysql', 'sys', 'performance_schema', 'information_schema')",
    )
}

/// Pipes the log to the standard input of a replay.
fn piped(log: &Path, target: &TestServer, more: &[&str]) -> Result<CommandOutput> {
    let mut command = command::command(&[PathBuf::from("-")], target, more)?;
    Ok(command.stdin(fs::File::open(log)?).output()?.into())
}

#[test]
fn selected_gtids_and_logs_must_exist() -> Result<()> {
    let source = source(&[], TABLE)?;
    source.sql("insert into d.t values (1, 'a'); drop table d.t; flush binary logs")?;
    let uuid = source.sql("select @@server_uuid")?;
    let (there, missing) = (format!("{}:4", uuid.trim()), format!("{}:44", uuid.trim()));
    let logs = source.binlogs()?;
    let target = target_of(&["--skip-log-bin"])?;
    for option in ["--stop-gtid", "--stop-after-gtid"] {
        let ran = command::replay(&logs, &target, &[option, &missing])?;
        ensure!(ran.code == Some(2) && ran.stderr.contains(&missing), "{ran:?}");
    }
    let log = logs[0].file_name().context("a log without a name")?.to_string_lossy().into_owned();
    for option in ["--start-position", "--stop-position"] {
        let ran = command::replay(&logs, &target, &[option, &format!("{log}:88888888")])?;
        ensure!(ran.code == Some(2) && ran.stderr.contains("88888888"), "{ran:?}");
    }
    let end = fs::metadata(&logs[0])?.len();
    ensure!(!has_progress(&target)?, "the target was changed");
    succeeds(&command::replay(&logs[..1], &target, &["--start-position", &format!("{log}:{end}")])?)?;
    succeeds(&command::replay(&logs, &target, &["--stop-gtid", &there])?)?;
    ensure!(target.sql("select count(*) from d.t")?.trim() == "1", "the drop was applied");
    // Piped transactions are applied before the end of the input shows what is missing.
    let other = target_of(&["--skip-log-bin"])?;
    let ran = piped(&logs[0], &other, &["--stop-gtid", &missing])?;
    ensure!(ran.code == Some(1) && ran.stderr.contains(&missing), "{ran:?}");
    Ok(())
}

#[test]
fn other_logs_without_gtids_from_standard_input_are_refused() -> Result<()> {
    let source = source(&["--gtid-mode=OFF"], TABLE)?;
    source.sql("insert into d.t values (1, 'a'); flush binary logs; insert into d.t values (2, 'b'); flush binary logs")?;
    let logs = source.binlogs()?;
    let target = target_of(&["--gtid-mode=OFF", "--skip-log-bin"])?;
    let first = piped(&logs[0], &target, &["--stop-position", "standard input:500"]);
    ensure!(first?.code == Some(0), "the first part failed");
    succeeds(&piped(&logs[0], &target, &[])?)?;
    let again = piped(&logs[0], &target, &["--json"])?;
    ensure!(again.code == Some(0) && again.stdout.contains("\"transactions\": 0"), "{again:?}");
    for log in &logs[1..3] {
        let ran = piped(log, &target, &[])?;
        ensure!(ran.code == Some(1) && ran.stderr.contains("of a different log"), "{ran:?}");
    }
    let count = || -> Result<String> { Ok(target.sql("select count(*) from d.t")?.trim().to_owned()) };
    ensure!(count()? == "0", "another log was applied");
    succeeds(&command::replay(&[], &target, &["--forget"])?)?;
    succeeds(&piped(&logs[1], &target, &[])?)?;
    ensure!(count()? == "1", "the log was not applied");
    Ok(())
}

#[test]
fn tables_without_transactions_are_not_logged_as_sql() -> Result<()> {
    let table = "create table d.m (id int primary key, n int) engine = MyISAM;";
    let source = source(&[], &format!("create database d; {table} insert into d.m values (1, 1), (2, 2)"))?;
    source.sql("update d.m set n = n + 1; flush binary logs")?;
    let logs = source.binlogs()?;
    let log = &["--log", "--apply-as", "sql"];
    // The logs create the table: the replay stops before its first row.
    let target = target_of(&["--log-bin=binlog"])?;
    let ran = command::replay(&logs, &target, log)?;
    ensure!(ran.code == Some(1) && ran.stderr.contains("`d`.`m` uses MyISAM"), "{ran:?}");
    ensure!(target.sql("select count(*) from d.m")?.trim() == "0", "a row was applied");
    // The table exists: nothing is changed.
    let before = target.sql("select @@global.gtid_executed")?;
    let ran = command::replay(&logs[1..], &target, log)?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("no-transactions: `d`.`m`"), "{ran:?}");
    ensure!(target.sql("select @@global.gtid_executed")? == before, "the target was changed");
    succeeds(&command::replay(&logs, &target, &["--log", "--apply-as", "binlog"])?)?;
    ensure!(checksums(&source)? == checksums(&target)?);
    Ok(())
}

#[test]
fn column_types_that_would_change_values_are_refused() -> Result<()> {
    let columns = ["i int", "e decimal(10,2)", "t datetime(3)"];
    let others = ["i int unsigned", "e decimal(8,1)", "t datetime"];
    let table = |columns: &[&str]| format!("create table d.t (id int primary key, {})", columns.join(", "));
    let source = source(&[], &format!("create database d; {}", table(&columns)))?;
    source.sql("insert into d.t values (1, -1, 1.25, '2026-11-22 01:02:03.123'); flush binary logs")?;
    let logs = &source.binlogs()?[1..2];
    let target = target_of(&["--skip-log-bin"])?;
    target.sql("create database d")?;
    let says = [
        "column 2 that is int unsigned on the target, but int signed",
        "column 3 that is decimal(8,1) on the target, but decimal(10,2)",
        "column 4 that is datetime(0) on the target, but datetime(3)",
    ];
    for (number, expected) in says.iter().enumerate() {
        let mut made = columns;
        made[number] = others[number];
        target.sql(&format!("drop table if exists d.t; {}", table(&made)))?;
        for way in ["binlog", "sql"] {
            let ran = command::replay(logs, &target, &["--allow-gap", "--apply-as", way])?;
            ensure!(ran.code == Some(2) && ran.stderr.contains(expected), "{ran:?}");
        }
        // Without the preflight check, the server itself refuses.
        if number == 1 {
            let anyway = ["--allow-gap", "--allow-different-tables", "--apply-as", "binlog"];
            let ran = command::replay(logs, &target, &anyway)?;
            ensure!(ran.code == Some(1) && ran.stderr.contains("replica_type_conversions"), "{ran:?}");
        }
    }
    target.sql(&format!("drop table d.t; {}", table(&columns)))?;
    succeeds(&command::replay(logs, &target, &["--allow-gap"])?)?;
    ensure!(checksums(&source)? == checksums(&target)?);
    Ok(())
}

#[test]
fn a_replicas_log_of_applied_transactions_is_accepted() -> Result<()> {
    let one = source(&[], TABLE)?;
    let logs = one.binlogs()?;
    // The same transactions, in the log of a replica.
    let replica = target_of(&["--log-replica-updates"])?;
    follow(&replica, &one)?;
    replica.sql("flush binary logs")?;
    let target = target_of(&["--skip-log-bin"])?;
    succeeds(&command::replay(&logs, &target, &[])?)?;
    let ran = command::replay(&replica.binlogs()?[..1], &target, &["--json"])?;
    ensure!(ran.code == Some(0) && ran.stdout.contains("\"transactions\": 0"), "{ran:?}");
    Ok(())
}

#[test]
fn xa_transactions_prepared_twice_are_refused_until_the_first_is_skipped() -> Result<()> {
    let source = source(&[], TABLE)?;
    source.sql(
        "xa start 'a'; insert into d.t values (1, 'a'); xa end 'a'; xa prepare 'a';
         set sql_log_bin = 0; xa rollback 'a'; set sql_log_bin = 1;
         xa start 'a'; insert into d.t values (2, 'b'); xa end 'a'; xa prepare 'a'; xa commit 'a'",
    )?;
    let target = target_of(&["--skip-log-bin"])?;
    let logs = source.binlogs()?;
    let ran = command::replay(&logs, &target, &[])?;
    ensure!(ran.code == Some(1), "{ran:?}");
    ensure!(ran.stderr.contains("prepares the XA transaction 'a','',1 again"), "{ran:?}");
    let uuid = source.sql("select @@server_uuid")?;
    succeeds(&command::replay(&logs, &target, &["--exclude-gtids", &format!("{}:3", uuid.trim())])?)?;
    ensure!(checksums(&source)? == checksums(&target)?);
    Ok(())
}

#[test]
fn logs_missing_from_an_index_are_named() -> Result<()> {
    let source = source(&[], TABLE)?;
    source.sql("insert into d.t values (1, 'a')")?;
    let (directory, target) = (tempfile::tempdir()?, target_of(&["--skip-log-bin"])?);
    for log in source.binlogs()? {
        fs::copy(&log, directory.path().join(log.file_name().context("a log without a name")?))?;
    }
    let index = directory.path().join("binlog.index");
    fs::write(&index, "./binlog.000001\n")?;
    let ran = command::replay(std::slice::from_ref(&index), &target, &[])?;
    ensure!(
        ran.code == Some(0) && ran.stderr.contains("binlog.000002 is not listed in the index"),
        "{ran:?}"
    );
    fs::write(&index, "./binlog.000001\n./binlog.000002\n")?;
    let ran = command::replay(&[index], &target, &[])?;
    ensure!(ran.code == Some(0) && ran.stderr.is_empty(), "{ran:?}");
    Ok(())
}

/// Returns the warnings of a command, one a line.
fn warnings(ran: &CommandOutput) -> Result<Vec<&str>> {
    ensure!(ran.code == Some(0), "{ran:?}");
    let messages = ran.stderr.lines().filter_map(|line| line.strip_prefix("bintide: "));
    Ok(messages.filter(|message| message.starts_with("nothing in ")).collect())
}

fn stream(more: &[&str]) -> Result<CommandOutput> {
    let mut command = Command::new(bintide()?);
    Ok(command.env_clear().args(["stream", "--format", "maxwell"]).args(more).output()?.into())
}

#[test]
fn rules_that_match_nothing_are_named() -> Result<()> {
    let source = source(&["--binlog-row-metadata=FULL"], TABLE)?;
    source.sql("insert into d.t values (1, 'a'); create database e; flush binary logs")?;
    let (logs, target) = (source.binlogs()?, target_of(&["--skip-log-bin"])?);
    let nothing = ["--do-db", "nosuch", "--do-db", "d", "--do-table", "d.t", "--do-table", "d.u"];
    let expected = ["nothing in the logs matches --do-db nosuch, --do-table d.u"];
    let first = command::replay(&logs, &target, &nothing)?;
    ensure!(warnings(&first)? == expected, "{first:?}");
    // The target has the transactions that might have matched.
    for rules in [&nothing[..], &["--do-db", "d"]] {
        let again = command::replay(&logs, &target, rules)?;
        ensure!(warnings(&again)?.is_empty(), "{again:?}");
    }
    let other = target_of(&["--skip-log-bin"])?;
    let matching = ["--do-db", "d", "--do-db", "e", "--wild-do-table", "d.%"];
    let ran = command::replay(&logs, &other, &matching)?;
    ensure!(warnings(&ran)?.is_empty(), "{ran:?}");
    let paths: Vec<String> = logs.iter().map(|log| log.display().to_string()).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let from = address("root", &source);
    let live = ["--from", from.as_str(), "--stop-at-end"];
    for source in [paths.as_slice(), &live] {
        let ran = stream(&[source, &nothing].concat())?;
        ensure!(warnings(&ran)? == expected, "{ran:?}");
        let ran = stream(&[source, &matching].concat())?;
        ensure!(warnings(&ran)?.is_empty(), "{ran:?}");
    }
    let ran = stream(&[&live[..], &["--snapshot"], &nothing].concat())?;
    ensure!(warnings(&ran)? == ["nothing in the snapshot matches --do-db nosuch, --do-table d.u"], "{ran:?}");
    let ran = stream(&[&live[..], &["--snapshot", "--do-db", "d"]].concat())?;
    ensure!(warnings(&ran)?.is_empty(), "{ran:?}");
    Ok(())
}

#[test]
fn encrypted_logs_without_keys_are_refused() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("copy.db");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples");
    let (plain, encrypted) = (samples.join("gtids/binlog.000001"), samples.join("encrypted/binlog.000001"));
    let to = format!("sqlite:{}", file.display());
    for logs in [vec![encrypted.clone()], vec![plain.clone(), encrypted]] {
        for more in [&["--allow-gap"][..], &["--dry-run"]] {
            let ran = replay(&logs, &to, more)?;
            ensure!(ran.code == Some(2) && ran.stderr.contains("--keyring"), "{more:?}: {ran:?}");
            ensure!(!file.exists(), "a file was created");
        }
    }
    let missing = [plain, samples.join("gtids/nothing.000001")];
    let ran = replay(&missing, &to, &[])?;
    ensure!(ran.code == Some(2) && !file.exists(), "{ran:?}");
    Ok(())
}
