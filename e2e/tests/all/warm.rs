//! `bintide warm` beside real replicas: the pages that it reads into memory, and the statements that it skips.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::command::address;
use e2e::replays::ends_equal;
use e2e::warming::{
    Warming, cold, cold_as, command, has_no_errors, leave_behind, pages_by_applier, pages_cached, pair,
};
use servers::{ServerAddress, SqlConnection};
use testkit::{Launch, SeededRandom, TestServer, seed_from_env, wait_until};

/// Number of rows, a few to a page.
const ROWS: usize = 6000;

const TABLE: &str = "create database d;
    create table d.t (id int primary key, n int not null, pad varchar(3000) not null) stats_auto_recalc=0;
    set cte_max_recursion_depth = 10000;
    insert into d.t with recursive n as (select 1 i union all select i + 1 from n where i < 6000)
      select i, i, repeat('x', 3000) from n;
    create table d.none (id int primary key);
    create user warm@'%' identified by '';
    grant replication client on *.* to warm@'%';
    grant select on d.* to warm@'%';
    grant select on performance_schema.* to warm@'%';";

/// Query for the rows that the server examined for searches.
const EXAMINED: &str = "select ifnull(sum(sum_rows_examined), 0)
    from performance_schema.events_statements_summary_by_digest where digest_text like 'SELECT ? FROM `d` . `t` FORCE%'";

/// Starts the applier of a cold replica; returns the pages that it reads until it has applied all transactions.
fn apply(source: &TestServer, replica: &TestServer) -> Result<u64> {
    replica.sql("start replica sql_thread")?;
    replica.wait_until_applied(source)?;
    let pages = pages_by_applier(replica)?;
    ends_equal(source, replica)?;
    Ok(pages)
}

#[test]
fn pages_are_in_memory_before_the_applier_needs_them() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let (source, mut replica) = pair(&Launch::mysql(), &Launch::mysql(), TABLE)?;
    let updates: String = (0..400)
        .map(|_| format!("update d.t set n = n + 1 where id = {};", 1 + random.below(ROWS)))
        .collect();
    let data = leave_behind(&source, &mut replica, &updates)?;
    let alone = cold(&data, &[])?;
    let pages_alone = apply(&source, &alone)?;
    drop(alone);
    let replica = cold(&data, &[])?;
    let executed = replica.sql("select @@global.gtid_executed, @@global.innodb_buffer_pool_size")?;
    let warming = Warming::begin(&replica, "warm", &[])?;
    warming.wait_for(400)?;
    let again = replica.sql("select @@global.gtid_executed, @@global.innodb_buffer_pool_size")?;
    ensure!(executed == again, "{again}");
    let pages = apply(&source, &replica)?;
    // According to its statistics, the table is as empty as after its creation.
    let examined: u64 = replica.sql(EXAMINED)?.trim().parse()?;
    ensure!(examined <= 400, "the searches examined {examined} rows: a full table scan");
    ensure!(pages_alone > 200, "the applier alone read {pages_alone} pages only");
    ensure!(pages < pages_alone / 5, "{pages} of {pages_alone} pages were left to the applier");
    let report = warming.end()?;
    ensure!(has_no_errors(&report) && report["rows_not_searched"] == 0 && report["rows"] == 400, "{report}");
    let ours = report["pages_read"]["warm"]["pages"].as_u64().unwrap_or(0);
    ensure!(ours > 200, "{report}");
    Ok(())
}

const INDEXES: &str = "create database d;
    create table d.p (id int primary key, pad varchar(3000) not null);
    create table d.t (id int primary key, k varchar(600) not null, u varchar(600) not null, p int, b longblob,
      key k (k), unique key u (u), key p (p), foreign key (p) references d.p (id));
    set cte_max_recursion_depth = 10000;
    insert into d.p with recursive n as (select 1 i union all select i + 1 from n where i < 2000)
      select i, repeat('x', 3000) from n;
    insert into d.t with recursive n as (select 1 i union all select i + 1 from n where i < 4000)
      select i * 10, concat(sha2(i, 256), repeat('k', 500)), concat(sha2(-i, 256), repeat('u', 500)), 1 + i % 10,
        repeat('b', 20000 * (i % 100 = 0)) from n;";

/// Number of changes of each kind, in rows that are far apart.
const CHANGES: usize = 100;

/// Returns updates of secondary indexes, inserts between other rows with foreign keys, and deletes.
fn changes_of_indexes(random: &mut SeededRandom) -> String {
    let (mut sql, first) = (String::new(), random.below(4000));
    for number in 0..CHANGES {
        let id = |kind: usize| 10 * (1 + (first + number * 33 + kind * 11) % 4000);
        let key = |word: &str| format!("concat(sha2('{word}{number}', 256), repeat('{word}', 500))");
        let parent = 1 + random.below(2000);
        sql += &format!("update d.t set k = {} where id = {};", key("k"), id(0));
        sql +=
            &format!("insert into d.t values ({}, {}, {}, {parent}, null);", id(1) + 1, key("i"), key("v"));
        sql += &format!("delete from d.t where id = {};", id(2));
    }
    sql
}

#[test]
fn secondary_indexes_neighbours_and_parents_are_read_for_compressed_and_encrypted_logs() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let compressed = Launch::mysql().option("--binlog-transaction-compression=ON");
    let encrypted = Launch::mysql().keyring().option("--binlog-encryption=ON");
    let (source, mut replica) = pair(&compressed, &encrypted, INDEXES)?;
    let data = leave_behind(&source, &mut replica, &changes_of_indexes(&mut random))?;
    let encryption = ["--binlog-encryption=ON"];
    let alone = cold_as(&Launch::mysql().keyring(), &data, &encryption)?;
    let pages_alone = apply(&source, &alone)?;
    let keyring = alone.datadir().join("keyring");
    let keyring = keyring.to_str().context("the keyring's path is not UTF-8")?;
    let replica = cold_as(&Launch::mysql().keyring(), &data, &encryption)?;
    let cached = |index: &str| pages_cached(&replica, index);
    let before = [cached("d.t.k")?, cached("d.t.u")?, cached("d.p.PRIMARY")?];
    ensure!(before.iter().all(|pages| *pages < 10), "{before:?} pages are in memory at once");
    let warming = Warming::begin(&replica, "root", &["--keyring", keyring])?;
    warming.wait_for(3 * CHANGES as u64)?;
    let after = [cached("d.t.k")?, cached("d.t.u")?, cached("d.p.PRIMARY")?];
    ensure!(after.iter().all(|pages| *pages > 60), "{after:?} pages are in memory");
    let pages = apply(&source, &replica)?;
    ensure!(pages < pages_alone / 5, "{pages} of {pages_alone} pages were left to the applier");
    let report = warming.end()?;
    ensure!(has_no_errors(&report) && report["rows_not_searched"] == 0, "{report}");
    Ok(())
}

#[test]
fn servers_that_are_no_replicas_are_refused() -> Result<()> {
    let server = Launch::mysql().start()?;
    let ran = command(&server, "root")?.output()?;
    let printed = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.code() == Some(2) && printed.contains("the server is not a replica"), "{printed}");
    Ok(())
}

const STATEMENTS: &str = "create database d;
    create table d.t (id int primary key, k int not null, n int not null, pad varchar(3000) not null, key k (k));
    create table d.u (id int primary key, pad varchar(3000) not null);
    create table d.log (id int auto_increment primary key, what int);
    create view d.v as select * from d.u;
    create function d.f(a int) returns int deterministic no sql return a;
    set cte_max_recursion_depth = 10000, binlog_format = row;
    insert into d.t with recursive n as (select 1 i union all select i + 1 from n where i < 6000)
      select i, i * 7, i, repeat('x', 3000) from n;
    insert into d.u with recursive n as (select 1 i union all select i + 1 from n where i < 2000)
      select i, repeat('x', 3000) from n;";

/// Returns statements of each kind that warm converts to searches, of rows that are far apart.
fn statements(random: &mut SeededRandom) -> String {
    let (mut sql, first) = (String::from("set sql_log_bin = 1; use d;"), random.below(ROWS));
    for number in 0..CHANGES {
        let id = |kind: usize| 1 + (first + number * 49 + kind * 12) % ROWS;
        sql += &format!("update t set n = n + 1 where k = {};", 7 * id(0));
        sql += &format!("delete from d.t where id = {} limit 1;", id(1));
        sql += &format!("insert into log (what) select n from t where id = {};", id(2));
        let other = 1 + (first + number * 16) % 2000;
        sql += &format!("update t join u on u.id = {other} set t.n = 0 where t.id = {};", id(3));
    }
    sql
}

#[test]
fn rows_of_logged_statements_are_read_ahead() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let source = Launch::mysql().option("--binlog-format=STATEMENT");
    let (source, mut replica) = pair(&source, &Launch::mysql(), STATEMENTS)?;
    let data = leave_behind(&source, &mut replica, &statements(&mut random))?;
    let alone = cold(&data, &[])?;
    let pages_alone = apply(&source, &alone)?;
    drop(alone);
    let replica = cold(&data, &[])?;
    let warming = Warming::begin(&replica, "root", &[])?;
    let all = 4 * CHANGES as u64;
    wait_until("the last statement", || {
        let ended = warming.figure("executed_total")? + warming.figure("errors_total")?;
        Ok(warming.figure("statements_total")? >= all && ended == warming.figure("pushed_total")?)
    })?;
    let pages = apply(&source, &replica)?;
    ensure!(pages_alone > 400, "the applier alone read {pages_alone} pages only");
    ensure!(pages < pages_alone / 4, "{pages} of {pages_alone} pages were left to the applier");
    let report = warming.end()?;
    ensure!(has_no_errors(&report) && report["statements"] == all, "{report}");
    Ok(())
}

/// Statements whose search could have effects, or cannot be built, are counted and skipped.
#[test]
fn statements_whose_search_may_have_effects_are_skipped() -> Result<()> {
    let source =
        Launch::mysql().options(["--binlog-format=STATEMENT", "--log-bin-trust-function-creators=ON"]);
    let replica = Launch::mysql().option("--log-bin-trust-function-creators=ON");
    let (source, replica) = pair(&source, &replica, STATEMENTS)?;
    let warming = Warming::begin(&replica, "root", &[])?;
    replica.sql("stop replica sql_thread")?;
    source.sql(
        "use d; set @a = 3;
         update t set n = 1 where id = @a;
         update t set n = 2 where id = f(3);
         update t set n = 3 where id = 3 and sleep(0.01) = 0;
         update v set pad = 'y' where id = 3;
         insert into log (what) values (1);
         set names latin1; update t set pad = '\u{e4}' where pad = '\u{f6}' and id = 4;
         set names utf8mb4, sql_mode = 'ANSI_QUOTES'; update t set \"n\" = 4 where \"k\" = 35;
         update t set n = 5 where id = 6",
    )?;
    wait_until("the last statement", || {
        Ok(warming.figure("statements_total")? >= 3 && warming.figure("executed_total")? >= 3)
    })?;
    let slept = "select count(*) from performance_schema.events_statements_summary_by_digest
         where digest_text like '%warm%' and (digest_text like '%sleep%' or digest_text like '%f (%')";
    ensure!(replica.sql(slept)?.trim() == "0", "a function was called");
    replica.sql("start replica sql_thread")?;
    replica.wait_until_applied(&source)?;
    ends_equal(&source, &replica)?;
    let report = warming.end()?;
    ensure!(has_no_errors(&report) && report["statements"] == 3, "{report}");
    let left = |why: &str| report["discarded_for"][why].as_u64().unwrap_or(0);
    ensure!([left("variable"), left("function"), left("table")] == [1, 2, 1], "{report}");
    // The applier's position is sometimes reported late: then earlier DDL is included.
    ensure!(left("kind") >= 1 && report["discarded"].as_u64() == Some(4 + left("kind")), "{report}");
    Ok(())
}

const NONE: &str =
    "create database d; create table d.t (id int primary key, n int); insert into d.t values (5, 5);
    create table d.u (id int primary key, n int); insert into d.u values (5, 5); create table d.none (id int primary key);";

/// The replica has rows that the source does not have, so that a search without an index takes more than a second.
#[test]
fn tables_with_slow_searches_are_skipped() -> Result<()> {
    let source = Launch::mysql().option("--binlog-format=STATEMENT");
    let (source, replica) = pair(&source, &Launch::mysql(), NONE)?;
    replica.sql(
        "stop replica sql_thread; set sql_log_bin = 0, cte_max_recursion_depth = 10000;
         insert into d.none with recursive n as (select 1 i union all select i + 1 from n where i < 6000)
           select i from n",
    )?;
    let warming = Warming::begin(&replica, "root", &[])?;
    source.sql(
        "update d.t set n = 1
         where id = 5 and (select count(*) from d.none a, d.none b, d.none c where a.id + b.id > c.id) < 1",
    )?;
    wait_until("the search that takes too long", || Ok(warming.figure("errors_total")? >= 1))?;
    source.sql("update d.t set n = 2 where id = 5; update d.u set n = 1 where id = 5")?;
    wait_until("the last search", || Ok(warming.figure("executed_total")? >= 1))?;
    let report = warming.end()?;
    ensure!(report["discarded_for"]["slow"] == 1 && report["statements"] == 2, "{report}");
    Ok(())
}

/// Another session locks a row in the middle of a transaction that is larger than the maximum lead, so the applier
/// stops there: warm does not search for rows before this row, and does for rows after it.
#[test]
fn searches_in_a_large_transaction_start_at_the_applier() -> Result<()> {
    for compression in ["OFF", "ON"] {
        let source = Launch::mysql().option(format!("--binlog-transaction-compression={compression}"));
        let (source, mut replica) = pair(&source, &Launch::mysql(), TABLE)?;
        // 1,200 rows, each in a separate page.
        let data = leave_behind(&source, &mut replica, "update d.t set n = n + 1 where id % 5 = 0")?;
        let replica = cold(&data, &["--innodb-buffer-pool-size=32M", "--innodb-lru-scan-depth=128"])?;
        let mut holder = SqlConnection::open(&ServerAddress::parse(&address("root", &replica))?)?;
        holder.run("begin; select n from d.t where id = 3000 for update")?;
        replica.sql("start replica sql_thread")?;
        wait_until("the rows before the locked one", || {
            // The server updates this value at most every tenth of a second.
            thread::sleep(Duration::from_millis(150));
            let changed = "select ifnull(max(trx_rows_modified), 0) from information_schema.innodb_trx";
            Ok(replica.sql(changed)?.trim() == "599")
        })?;
        let warming = Warming::begin(&replica, "root", &[])?;
        warming.wait_for(300)?;
        holder.run("rollback")?;
        replica.wait_until_applied(&source)?;
        ends_equal(&source, &replica)?;
        let report = warming.end()?;
        // The applier has read the pages before that row itself.
        let ours = report["pages_read"]["warm"]["pages"].as_u64();
        ensure!(has_no_errors(&report) && ours > Some(200), "{compression}: {report}");
        // This includes rows of an event whose last row was not yet changed.
        ensure!(report["rows"].as_u64() <= Some(620), "{compression}: {report}");
    }
    Ok(())
}
