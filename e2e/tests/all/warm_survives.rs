//! Events on a replica beside `bintide warm`: warm continues, and does not affect the replica.

use anyhow::{Context, Result, ensure};
use e2e::replays::ends_equal;
use e2e::warming::{Warming, pair, wait_until_received};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{Launch, TestServer, wait_until};

const TABLES: &str = "create database d;
    create table d.t (id int primary key, n int not null, pad varchar(300) not null, key n (n));
    create table d.u (id int primary key auto_increment, n int);
    set cte_max_recursion_depth = 10000;
    insert into d.t with recursive n as (select 1 i union all select i + 1 from n where i < 5000)
      select i, i, repeat('x', 300) from n;
    create user warm@'%' identified by '';
    grant select, replication client on *.* to warm@'%';";

/// A replica, and `bintide warm` beside it.
struct WarmedReplica {
    source: TestServer,
    replica: TestServer,
    warming: Warming,
    /// Number of changed rows.
    changed: usize,
}

impl WarmedReplica {
    fn begin() -> Result<Self> {
        Self::begin_with(&[])
    }

    /// Starts warm with options that make every search run, even if the pages are in memory.
    fn begin_with_all() -> Result<Self> {
        Self::begin_with(&["--offset-events=0", "--seconds-prefetch=86400"])
    }

    fn begin_with(options: &[&str]) -> Result<Self> {
        let (source, replica) = pair(&Launch::mysql(), &Launch::mysql(), TABLES)?;
        let warming = Warming::begin(&replica, "warm", options)?;
        Ok(Self { source, replica, warming, changed: 0 })
    }

    /// Returns updates of rows that were not updated before.
    fn updates(&mut self) -> String {
        let first = self.changed + 1;
        self.changed += 40;
        (first..=self.changed).map(|id| format!("update d.t set n = -n where id = {id};")).collect()
    }

    /// Checks that warm searches for changes ahead of the applier, and that the applier applies them.
    fn check(&mut self, what: &str) -> Result<()> {
        self.replica.sql("stop replica sql_thread")?;
        let before = self.warming.searches()?;
        let updates = self.updates();
        self.source.sql(&updates)?;
        // The row, and its old and new index entries. The applier's position is sometimes reported late, so some of
        // these were already searched for when the rows were inserted.
        wait_until(what, || Ok(self.warming.searches()? >= before + 3 * 40))?;
        self.replica.sql("start replica")?;
        self.replica.wait_until_applied(&self.source)
    }

    fn end(self) -> Result<serde_json::Value> {
        ends_equal(&self.source, &self.replica)?;
        self.warming.end()
    }
}

#[test]
fn warming_continues_after_rotations_purges_and_resets() -> Result<()> {
    let mut replica = WarmedReplica::begin()?;
    replica.check("the first changes")?;
    replica.replica.sql("flush relay logs; flush relay logs")?;
    replica.check("changes after rotated relay logs")?;
    replica.source.sql("flush binary logs")?;
    replica.check("changes in the next log of the source")?;
    replica.replica.sql("stop replica; start replica")?;
    replica.check("changes after a stop of the replica")?;
    replica.replica.sql("stop replica; reset replica; start replica")?;
    replica.check("changes in relay logs after a reset")?;
    replica.end().map(drop)
}

#[test]
fn warming_skips_to_an_applier_that_overtakes() -> Result<()> {
    let mut replica = WarmedReplica::begin()?;
    replica.check("the first changes")?;
    replica.warming.signal(Signal::SIGSTOP)?;
    for _ in 0..3 {
        let updates = replica.updates();
        replica.source.sql(&updates)?;
        replica.replica.wait_until_applied(&replica.source)?;
        // The replica purges applied relay logs.
        replica.replica.sql("flush relay logs")?;
    }
    replica.warming.signal(Signal::SIGCONT)?;
    replica.check("changes after those that the applier has passed")?;
    replica.end().map(drop)
}

#[test]
fn warming_waits_for_a_killed_replica() -> Result<()> {
    let mut replica = WarmedReplica::begin()?;
    replica.check("the first changes")?;
    replica.replica.kill()?;
    wait_until("the report of the lost connection", || Ok(replica.warming.figure("connected")? == 0))?;
    replica.replica.start_again(&[])?;
    replica.replica.sql("start replica")?;
    replica.check("changes after a crash of the replica")?;
    replica.end().map(drop)
}

/// A query on a frozen replica neither returns nor fails for a long time.
#[test]
fn a_frozen_replica_does_not_respond() -> Result<()> {
    let replica = WarmedReplica::begin()?;
    let server = Pid::from_raw(i32::try_from(replica.replica.pid().context("no server")?)?);
    wait_until("the first answer", || Ok(replica.warming.figure("connected")? == 1))?;
    kill(server, Signal::SIGSTOP)?;
    let noticed = wait_until("a lost replica", || Ok(replica.warming.figure("connected")? == 0));
    kill(server, Signal::SIGCONT)?;
    noticed?;
    wait_until("another answer", || Ok(replica.warming.figure("connected")? == 1))?;
    replica.end().map(drop)
}

#[test]
fn warming_continues_after_changed_definitions() -> Result<()> {
    let mut replica = WarmedReplica::begin()?;
    replica.check("the first changes")?;
    replica.replica.sql("stop replica sql_thread")?;
    replica.source.sql(
        "insert into d.u (n) values (1), (2), (3);
         alter table d.t add column first int first, drop index n, add index m (first, n);
         update d.t set first = id where id < 40;
         drop table d.u;
         create table d.u (name varchar(20) primary key, n int);
         insert into d.u values ('one', 1), ('two', 2)",
    )?;
    wait_until_received(&replica.source, &replica.replica)?;
    // The tables differ from those in the changes: such rows are counted and skipped.
    wait_until("rows of changed tables", || Ok(replica.warming.figure("rows_not_searched_total")? >= 39))?;
    replica.replica.sql("start replica")?;
    replica.replica.wait_until_applied(&replica.source)?;
    replica.replica.sql("stop replica sql_thread")?;
    let before = replica.warming.searches()?;
    replica.source.sql("insert into d.u values ('three', 3)")?;
    // warm detects late that the applier has changed the tables, and skips their rows until then.
    let searched = || {
        replica
            .source
            .sql("update d.t set first = coalesce(first, 0) - 1000 where id between 100 and 110")?;
        Ok(replica.warming.searches()? >= before + 1 + 3 * 11)
    };
    wait_until("searches in the changed tables", searched)?;
    replica.replica.sql("start replica")?;
    replica.replica.wait_until_applied(&replica.source)?;
    let report = replica.end()?;
    ensure!(report["rows_not_searched"].as_u64() >= Some(39), "{report}");
    Ok(())
}

/// Secondary index entries contain the columns of the clustered index: searches use these columns, and no others.
#[test]
fn searches_use_the_servers_clustered_index() -> Result<()> {
    let mut replica = WarmedReplica::begin_with_all()?;
    replica.source.sql(
        "create table d.first (z int not null, a int not null, n int, unique key z (z), unique key a (a), key n (n));
         create table d.front (name varchar(40) not null, a int not null, n int, primary key (name(20)),
           unique key a (a), key n (n));",
    )?;
    replica.check("the first changes")?;
    replica.replica.sql("stop replica sql_thread")?;
    let before = replica.warming.searches()?;
    replica
        .source
        .sql("insert into d.front values ('x', 1, 1), ('y', 2, 2); insert into d.first values (1, 2, 3)")?;
    wait_until("searches for a row", || Ok(replica.warming.searches()? >= before + 3))?;
    let statements =
        "select group_concat(digest_text) from performance_schema.events_statements_summary_by_digest
         where digest_text like '%`first`%FORCE INDEX%' or digest_text like '%`front`%FORCE INDEX%'";
    let clustered = "select i.name from information_schema.innodb_indexes i
         join information_schema.innodb_tables t using (table_id) where t.name = 'd/first' and i.type in (1, 3)";
    ensure!(replica.replica.sql(clustered)?.trim() == "z", "InnoDB uses a different index");
    wait_until("the search in the other index", || {
        Ok(replica.replica.sql(statements)?.contains("WHERE `n` = ? AND `z` = ?"))
    })?;
    let statements = replica.replica.sql(statements)?;
    ensure!(!statements.contains("`front`"), "{statements}");
    replica.replica.sql("start replica")?;
    replica.replica.wait_until_applied(&replica.source)?;
    let report = replica.end()?;
    ensure!(report["errors"] == 0 && report["rows_not_searched"] == 2, "{report}");
    Ok(())
}

/// DDL never waits for warm's sessions: they hold no locks, and give up when they have to wait.
#[test]
fn ddl_never_waits_for_searches() -> Result<()> {
    let mut replica = WarmedReplica::begin_with_all()?;
    replica.check("the first changes")?;
    // The session that queries definitions has a longer lock timeout.
    let sessions = replica.replica.sql(
        "select distinct v.variable_name, v.variable_value from performance_schema.variables_by_thread v
         join performance_schema.threads t using (thread_id)
         where t.processlist_user = 'warm' and v.variable_name in ('transaction_read_only', 'autocommit',
           'transaction_isolation', 'lock_wait_timeout', 'innodb_lock_wait_timeout', 'max_execution_time')
           and t.processlist_id in (select processlist_id from performance_schema.threads
             join performance_schema.events_statements_summary_by_thread_by_event_name using (thread_id)
             where event_name = 'statement/sql/set_option' and count_star > 1)
           and (v.variable_name <> 'max_execution_time' or v.variable_value <> 0)
         order by 1",
    )?;
    let expected = "autocommit\tON\ninnodb_lock_wait_timeout\t1\nlock_wait_timeout\t1\nmax_execution_time\t1000\n\
                  transaction_isolation\tREAD-UNCOMMITTED\ntransaction_read_only\tON\n";
    ensure!(sessions == expected, "{sessions}");
    let held = "select count(*) from performance_schema.metadata_locks l
         join performance_schema.threads t on t.thread_id = l.owner_thread_id
         where t.processlist_user = 'warm' and t.processlist_command = 'Sleep' and l.object_schema = 'd'";
    ensure!(replica.replica.sql(held)?.trim() == "0", "an idle session holds a lock");
    // Another session locks the table: searches give up, and are counted.
    let mut locker = replica.replica.client().command()?;
    locker.args(["--execute", "lock tables d.t write; select sleep(1000)"]);
    let mut locker = locker.stdout(std::process::Stdio::null()).spawn()?;
    let has_lock = "select count(*) from performance_schema.metadata_locks
         where object_name = 't' and lock_type = 'SHARED_NO_READ_WRITE' and lock_status = 'GRANTED'";
    wait_until("the lock", || Ok(replica.replica.sql(has_lock)?.trim() == "1"))?;
    replica.replica.sql("stop replica sql_thread")?;
    let updates = replica.updates();
    replica.source.sql(&updates)?;
    wait_until("a search that gives up", || Ok(replica.warming.figure("errors_total")? > 0))?;
    locker.kill()?;
    locker.wait()?;
    replica.replica.sql(
        "set @id = (select processlist_id from performance_schema.threads
           where processlist_user = 'root' and processlist_info like 'select sleep(1000)%');
         set @kill = ifnull(concat('kill ', @id), 'do 0'); prepare kill_it from @kill; execute kill_it;
         start replica",
    )?;
    replica.replica.wait_until_applied(&replica.source)?;
    let report = replica.end()?;
    ensure!(report["refusals"][0]["code"] == 1205, "{report}");
    Ok(())
}

/// All pages are in memory: warm reports this and ends.
#[test]
fn warming_stops_without_a_gain() -> Result<()> {
    let mut replica = WarmedReplica::begin()?;
    let updates = "update d.t set n = n + 1 where id <= 400;";
    while replica.warming.is_running()? {
        replica.source.sql(&updates.repeat(20))?;
    }
    replica.replica.wait_until_applied(&replica.source)?;
    ends_equal(&replica.source, &replica.replica)?;
    let report = replica.warming.ended()?;
    ensure!(report["stopped"] == "no gain", "{report}");
    let controller = &report["controller"];
    ensure!(
        controller["state"] == "no gain" && controller["seconds"]["sampling"].as_f64() > Some(5.0),
        "{report}"
    );
    Ok(())
}

#[test]
fn mariadb_replicas_are_warmed() -> Result<()> {
    let source = Launch::mariadb().options(["--binlog-format=row", "--log-bin-compress=ON"]).start()?;
    // Without --relay-log, as most replicas are.
    let options = ["--server-id=2", "--skip-log-bin", "--skip-slave-start"];
    let replica = Launch::mariadb().options(options).start()?;
    replica.sql(&format!(
        "change master to master_host = '127.0.0.1', master_port = {}, master_user = 'root',
           master_use_gtid = slave_pos; start slave",
        source.port()
    ))?;
    source.sql(
        "create database d; create table d.t (id int primary key, k varchar(20), key k (k));
         create table d.u (id int primary key);
         set max_recursive_iterations = 10000;
         insert into d.t with recursive n as (select 1 i union all select i + 1 from n where i < 2000)
           select i, concat('key', i) from n",
    )?;
    let rows = |server: &TestServer| server.sql("select count(*), sum(crc32(k)) from d.t");
    wait_until("the rows", || {
        Ok(rows(&replica).is_ok_and(|found| rows(&source).is_ok_and(|all| all == found)))
    })?;
    let warming = Warming::begin(&replica, "root", &[])?;
    replica.sql("stop slave sql_thread")?;
    let before = warming.searches()?;
    source.sql("update d.t set k = concat('other', id) where id between 1000 and 1099")?;
    wait_until("searches for changes", || Ok(warming.searches()? >= before + 300))?;
    source.sql(
        "set binlog_format = statement, names latin1; use d;
         update t set k = 'one' where k = 'key17'; delete from t where id = 20 and k <> '\u{e4}' limit 3;
         insert into u select id from t where k = 'key40'",
    )?;
    wait_until("statements", || Ok(warming.figure("statements_total")? >= 3))?;
    replica.sql("start slave sql_thread")?;
    wait_until("the changed rows", || Ok(rows(&source)? == rows(&replica)?))?;
    let report = warming.end()?;
    ensure!(report["errors"] == 0 && report["executed"].as_u64() > Some(10), "{report}");
    // performance_schema is off, so the number of read pages is unknown, not zero.
    let read = &report["pages_read"];
    ensure!(read["warm"].is_null() && read["applier"].is_null(), "{report}");
    ensure!(report["controller"]["state"] == "unmeasured", "{report}");
    Ok(())
}
