//! Row changes replayed as SQL statements: to servers that do not accept row events, and with accounts without the
//! privilege for them.

use ::replay::CommitOrder;
use anyhow::{Context, Result, ensure};
use e2e::as_sql::{address, are_equal, replay, replay_killed};
use e2e::replays::{checksum, run_repeat_sensitive_changes, source};
use e2e::workload;
use mysql_target::ApplyAs;
use tempfile::TempDir;
use testkit::{Launch, TestServer, seed_from_env};

/// Sample scripts that give the same rows on every server, without triggers, which are refused.
const SCRIPTS: [&str; 10] = [
    "types",
    "json",
    "savepoints",
    "partitions",
    "gtids",
    "xa",
    "charsets",
    "invisible-keys",
    "mixed-engines",
    "rotation",
];

/// Privileges that an account needs for row changes as statements, and no others.
const LOW: &str = "create user low@localhost identified by '';
    grant select, insert, update, delete, create, drop, references, index, alter, trigger, create view on *.*
      to low@localhost";

fn target(options: &[&str]) -> Result<TestServer> {
    Launch::mysql().options(["--server-id=2", "--local-infile=1"]).options(options.iter().copied()).start()
}

/// Applies the logs twice: the second run must find nothing to apply.
fn applies(
    source: &TestServer,
    target: &TestServer,
    user: &str,
    apply_as: ApplyAs,
    order: CommitOrder,
) -> Result<()> {
    let first = replay(&source.binlogs()?, address(target, user)?, apply_as, order)?;
    ensure!(first.transactions > 5 && first.skipped == 0, "{first:?}");
    are_equal(source, target, checksum)?;
    let again = replay(&source.binlogs()?, address(target, user)?, apply_as, order)?;
    ensure!(again.transactions == 0 && again.skipped >= first.transactions, "{again:?}");
    are_equal(source, target, checksum)
}

#[test]
fn samples_end_equal() -> Result<()> {
    let source = source(&Launch::mysql(), &SCRIPTS)?;
    applies(&source, &target(&["--skip-log-bin"])?, "root", ApplyAs::Sql, CommitOrder::Strict)?;
    applies(&source, &target(&["--skip-log-bin"])?, "root", ApplyAs::Sql, CommitOrder::Grouped)
}

#[test]
fn samples_with_minimal_images_end_equal() -> Result<()> {
    for option in ["--binlog-row-image=MINIMAL", "--binlog-row-image=NOBLOB"] {
        let launch = Launch::mysql().options([option, "--binlog-row-value-options=PARTIAL_JSON"]);
        let source =
            source(&launch.option("--binlog-row-metadata=FULL"), &["types", "json", "invisible-keys"])?;
        applies(&source, &target(&["--skip-log-bin"])?, "root", ApplyAs::Sql, CommitOrder::Grouped)?;
    }
    Ok(())
}

#[test]
fn documents_keep_the_types_of_their_values() -> Result<()> {
    let source = source(&Launch::mysql().option("--binlog-row-value-options=PARTIAL_JSON"), &[])?;
    source.sql(
        "create database d; use d; create table j (id int primary key, j json);
         insert into j values (1, json_object('u', cast(5 as unsigned), 'd', 1.50, 'f', 1e0, 't', cast('-10:11:12.5' as time(1)), 'n', cast('10:11:12' as time),
           'x', cast('2020-01-02' as date), 'y', cast('2020-01-02 03:04:05.6' as datetime(1)), 'b', x'00ff', 's', '1.5',
           'odd \\\"\\n key', json_array(cast(7 as unsigned), 1.5))), (2, cast(1.5 as json)), (3, 'null'), (4, null);
         update j set j = json_set(j, '$.d', 2.25, '$.new', cast('2021-01-01' as date)) where id = 1;
         update j set j = json_array_insert(json_set(j, '$.list', json_array(1, 2)), '$.list[1]', cast(9 as unsigned)) where id = 1;
         update j set j = json_remove(j, '$.list[0]', '$.f') where id = 1; flush binary logs",
    )?;
    let target = target(&["--skip-log-bin"])?;
    applies(&source, &target, "root", ApplyAs::Sql, CommitOrder::Strict)?;
    let types = "select json_type(j), json_type(j->'$.u'), json_type(j->'$.d'), json_type(j->'$.t'), json_type(j->'$.x'),
        json_type(j->'$.y'), json_type(j->'$.b'), json_type(j->'$.s'), json_type(j->'$.list[0]'), json_type(j->'$.new'),
        j->'$.\"odd \\\\\"\\\\n key\"', j from d.j order by id";
    let (theirs, ours) = (source.sql(types)?, target.sql(types)?);
    ensure!(
        theirs == ours && theirs.contains("UNSIGNED INTEGER\tDECIMAL\tTIME\tDATE\tDATETIME"),
        "{theirs}\n{ours}"
    );
    Ok(())
}

fn without_triggers(line: &str) -> Option<String> {
    (!line.contains(" TRIGGER ")).then(|| line.to_owned())
}

#[test]
fn random_sql_ends_equal() -> Result<()> {
    let directory = TempDir::new()?;
    let first = seed_from_env("BINTIDE_E2E_SEED");
    for seed in first..first + 3 {
        let name = format!("random-{seed}");
        let source = workload::record_some_on(seed, &name, directory.path(), &[], without_triggers)?;
        let target = target(&["--skip-log-bin"])?;
        let report =
            replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Sql, CommitOrder::Grouped);
        report.with_context(|| format!("seed {seed}"))?;
        are_equal(&source, &target, checksum).with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

#[test]
fn table_privileges_suffice_for_statements() -> Result<()> {
    let source = source(&Launch::mysql(), &["types", "json", "savepoints", "partitions", "gtids"])?;
    for log in ["--skip-log-bin", "--log-bin=binlog"] {
        let target = target(&[log])?;
        target.sql(LOW)?;
        applies(&source, &target, "low", ApplyAs::Auto, CommitOrder::Grouped)?;
    }
    let target = target(&[])?;
    target.sql(LOW)?;
    let refused = replay(&[], address(&target, "low")?, ApplyAs::Binlog, CommitOrder::Grouped);
    let message = format!("{:#}", refused.err().context("the account could send row events")?);
    ensure!(message.contains("REPLICATION_APPLIER (or BINLOG_ADMIN)"), "{message}");
    Ok(())
}

const FAMILY: &str = "create database f; use f; create table parent (id int primary key, n int);
    create table child (id int primary key, p int, foreign key (p) references parent (id) on delete cascade on update set null);
    create table grandchild (id int primary key, c int, foreign key (c) references child (id) on delete cascade);
    insert into parent values (1, 1), (2, 2), (3, 3); insert into child values (1, 1), (2, 1), (3, 2), (4, 3);
    insert into grandchild values (1, 1), (2, 2), (3, 3), (4, 4);
    delete from parent where id = 1; update parent set id = 20 where id = 2; delete from parent; flush binary logs";

#[test]
fn foreign_key_actions_run_once() -> Result<()> {
    for (log, target_log) in [(false, false), (true, false), (false, true), (true, true)] {
        let native =
            |is_native| format!("--innodb-native-foreign-keys={}", if is_native { "ON" } else { "OFF" });
        let source = source(&Launch::mysql().option(native(log)), &[])?;
        source.sql(FAMILY)?;
        let target = target(&["--skip-log-bin", &native(target_log)])?;
        applies(&source, &target, "root", ApplyAs::Sql, CommitOrder::Strict)
            .with_context(|| format!("native on the source: {log}, on the target: {target_log}"))?;
        ensure!(
            target.sql("select count(*) from f.child")?.trim() == "1",
            "the orphaned child row is missing"
        );
    }
    Ok(())
}

/// Replays the log of `change` after the target was changed with `drift`; returns the error.
fn refused(before: &str, drift: &str, change: &str) -> Result<String> {
    let source = source(&Launch::mysql(), &[])?;
    source.sql(&format!("create database d; use d; {before}; flush binary logs"))?;
    let target = target(&["--skip-log-bin"])?;
    let order = CommitOrder::Strict;
    replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Sql, order)?;
    target.sql(&format!("use d; {drift}"))?;
    source.sql(&format!("use d; {change}; flush binary logs"))?;
    let result = replay(&source.binlogs()?, address(&target, "root")?, ApplyAs::Sql, order);
    Ok(format!("{:#}", result.err().context("not refused")?))
}

#[test]
fn conflicting_changes_are_refused_by_name() -> Result<()> {
    let check = |before: &str, drift: &str, change: &str, expected: &str| -> Result<()> {
        let message = refused(before, drift, change)?;
        ensure!(message.contains(expected), "{change}: {message}");
        Ok(())
    };
    let table = "create table t (id int primary key, n int); insert into t values (1, 1), (2, 2), (3, 3)";
    check(
        table,
        "delete from t where id = 2",
        "update t set n = 5",
        "an UPDATE in `d`.`t` matched 0 rows, but 1 on the source",
    )?;
    check(table, "delete from t where id = 2", "delete from t", "a DELETE in `d`.`t` matched")?;
    check(table, "insert into t values (9, 9)", "insert into t values (9, 1)", "Duplicate entry '9'")?;
    check(
        table,
        "alter table t add column m int",
        "delete from t",
        "`d`.`t` has 2 columns in the log, but 3 on the target",
    )?;
    check(
        table,
        "alter table t modify n varchar(9)",
        "delete from t",
        "column `n` of `d`.`t` is int in the log, but varchar",
    )?;
    check(table, "drop table t", "delete from t", "the target has no table `d`.`t`")?;
    check(
        table,
        "select 1",
        "create trigger g before delete on t for each row set @x = 1; delete from t",
        "`d`.`t` has the trigger g",
    )?;
    let keyless = "create table k (n int, s varchar(9)); insert into k values (1, 'a'), (1, 'a'), (2, 'b')";
    check(
        keyless,
        "update k set s = 'A' where n = 2",
        "delete from k where n = 2",
        "a DELETE in `d`.`k` matched 0 rows",
    )
}

#[test]
fn killed_replays_resume() -> Result<()> {
    let source = source(&Launch::mysql(), &[])?;
    run_repeat_sensitive_changes(&source, 200, 15)?;
    for (log, order) in [("--skip-log-bin", "grouped"), ("--log-bin=binlog", "strict")] {
        let target = target(&[log])?;
        replay_killed(&source, &target, &["--apply-as", "sql", "--commit-order", order])?;
        are_equal(&source, &target, checksum)?;
    }
    Ok(())
}
