//! Several workers in parallel: equal tables in every order and mode, and readers of the target find only states
//! that the source had.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use e2e::as_sql::address;
use e2e::replays::{SCRIPTS, checksums, ends_equal, options, replay_to, source, target};
use e2e::workload;
use mysql_target::MysqlTarget;
use replay::CommitOrder;
use replay::schedule::ParallelMode;
use replay::{ReplayOptions, ReplayProgress, ReplayTarget as _, TargetSession};
use servers::SqlConnection;
use tempfile::TempDir;
use testkit::{Launch, SeededRandom, TestServer, seed_from_env};

/// Every commit order with every parallel mode that applies to it.
const SCHEDULES: [(CommitOrder, ParallelMode); 9] = [
    (CommitOrder::Grouped, ParallelMode::Writeset),
    (CommitOrder::Grouped, ParallelMode::Database),
    (CommitOrder::Strict, ParallelMode::LogicalClock),
    (CommitOrder::Strict, ParallelMode::Writeset),
    (CommitOrder::Strict, ParallelMode::WritesetSession),
    (CommitOrder::Strict, ParallelMode::Database),
    (CommitOrder::Any, ParallelMode::LogicalClock),
    (CommitOrder::Any, ParallelMode::Writeset),
    (CommitOrder::Any, ParallelMode::None),
];

/// Returns options with small groups, so that a replay forms many.
fn small(order: CommitOrder, mode: ParallelMode) -> ReplayOptions {
    let workers = NonZeroUsize::MIN.saturating_add(3);
    ReplayOptions { group_max: 4, workers, mode, ..options(order) }
}

#[test]
fn samples_end_equal_in_every_order_and_mode() -> Result<()> {
    let source = source(&Launch::mysql(), &SCRIPTS)?;
    for (order, mode) in SCHEDULES {
        let target = target("--skip-log-bin")?;
        let report = replay_to(&source.binlogs()?, target.socket(), &small(order, mode));
        report.with_context(|| format!("{order:?} by {mode:?}"))?;
        ends_equal(&source, &target).with_context(|| format!("{order:?} by {mode:?}"))?;
        let again = replay_to(&source.binlogs()?, target.socket(), &options(CommitOrder::Strict))?;
        ensure!(again.transactions == 0, "{again:?}");
    }
    Ok(())
}

#[test]
fn random_sql_ends_equal() -> Result<()> {
    let directory = TempDir::new()?;
    let schedules = SCHEDULES.into_iter().filter(|(_, mode)| *mode == ParallelMode::Writeset);
    for (seed, (order, mode)) in (seed_from_env("BINTIDE_E2E_SEED")..).zip(schedules) {
        // Without GTIDs, `any` is refused: see any_order_is_refused_without_gtids.
        let more: &[&str] = if order == CommitOrder::Any { &["--gtid-mode=ON"] } else { &[] };
        let name = format!("random-{seed}");
        let as_drawn = |line: &str| Some(line.to_owned());
        let source = workload::record_some_on(seed, &name, directory.path(), more, as_drawn)?;
        let target = target("--skip-log-bin")?;
        let run_name = || format!("seed {seed}, {order:?} by {mode:?}");
        replay_to(&source.binlogs()?, target.socket(), &small(order, mode)).with_context(run_name)?;
        let (ours, theirs) = (checksums(&target)?, checksums(&source)?);
        ensure!(ours == theirs, "{}: the target has {ours:?}, the source {theirs:?}", run_name());
    }
    Ok(())
}

/// Maximum duration of the replay of [`unique_key_changes`]. If each transaction waited for the target's lock timeout (5
/// s), four conflicts would take longer.
const STALL_LIMIT: Duration = Duration::from_secs(20);

/// Returns transactions on small tables with several unique keys. With several workers, they lock entries of the same
/// keys, although they change different rows.
fn unique_key_changes(random: &mut SeededRandom) -> String {
    let transaction = |number: u32| {
        let mut draw = |below: usize| random.below(below);
        let (table, rows) = (draw(2), 1 + draw(3));
        let statements = (0..rows).map(|_| {
            let (row, a, b, c) = (draw(40), draw(60), draw(60), draw(60));
            match draw(4) {
                0 => format!("delete from t{table} where id = {row};"),
                1 => format!("insert ignore into t{table} values ({row}, {a}, {b}, {c}, {number});"),
                2 => format!("update ignore t{table} set a = {a}, n = {number} where id = {row};"),
                _ => format!("update ignore t{table} set b = {b}, c = {c} where id = {row};"),
            }
        });
        format!("begin; {} commit;\n", statements.collect::<String>())
    };
    (0..2000).map(transaction).collect()
}

/// A transaction that waits for its turn to commit releases its locks for the first one.
#[test]
fn locks_of_waiting_transactions_do_not_stall_the_first_one() -> Result<()> {
    let source = source(&Launch::mysql(), &[])?;
    let columns = "id int primary key, a int unique, b int unique, c int unique, n int";
    source
        .sql(&format!("create database d; create table d.t0 ({columns}); create table d.t1 ({columns})"))?;
    let changes = unique_key_changes(&mut SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED")));
    source.sql(&format!("use d; {changes} flush binary logs"))?;
    let target = target("--skip-log-bin")?;
    let workers = NonZeroUsize::MIN.saturating_add(15);
    let began = Instant::now();
    let options = ReplayOptions { workers, ..options(CommitOrder::Strict) };
    let report = replay_to(&source.binlogs()?, target.socket(), &options)?;
    ensure!(began.elapsed() < STALL_LIMIT, "{:?}: {report:?}", began.elapsed());
    ends_equal(&source, &target)
}

/// Number of counters.
const COUNTERS: i64 = 60;

/// Starts a source whose transactions set one counter after the other to their own number: adjacent transactions
/// may run in parallel, and a state shows exactly which transactions it contains.
fn counters() -> Result<TestServer> {
    let source = source(&Launch::mysql(), &[])?;
    let rows: Vec<String> = (0..COUNTERS).map(|id| format!("({id}, 0)")).collect();
    source.sql(&format!(
        "create database d; create table d.c (id int primary key, n int); create table d.e (n int); insert into d.c values {}",
        rows.join(",")
    ))?;
    let changes = (1..4000).map(|n| format!("update d.c set n = {n} where id = {};", n % COUNTERS));
    source.sql(&changes.collect::<String>())?;
    source.sql("flush binary logs")?;
    Ok(source)
}

#[test]
fn readers_see_only_states_that_the_source_had() -> Result<()> {
    let source = counters()?;
    for (order, mode) in SCHEDULES.into_iter().filter(|(order, _)| *order != CommitOrder::Any) {
        let target = target("--skip-log-bin")?;
        let (report, seen) = watched(&source, &target, &small(order, mode))?;
        let at_once = matches!(mode, ParallelMode::Writeset);
        ensure!(!at_once || report.at_once > 1, "{order:?} by {mode:?}: {report:?}");
        ensure!(seen.len() > 2, "{order:?} by {mode:?}: the reader saw {} states", seen.len());
        for state in &seen {
            let last = state.values().copied().max().unwrap_or(0);
            for (id, n) in state {
                let expected = last - (last - id).rem_euclid(COUNTERS);
                ensure!(*n == expected.max(0), "{order:?} by {mode:?}: the source never had {state:?}");
            }
        }
        ends_equal(&source, &target)?;
    }
    Ok(())
}

#[test]
fn dependent_transactions_keep_their_order_in_order_any() -> Result<()> {
    let source = counters()?;
    let target = target("--skip-log-bin")?;
    let (report, seen) = watched(&source, &target, &small(CommitOrder::Any, ParallelMode::Writeset))?;
    ensure!(report.at_once > 1 && seen.len() > 2, "{report:?}, {} states", seen.len());
    for pair in seen.windows(2) {
        for (id, n) in &pair[1] {
            let before = pair[0].get(id).copied().unwrap_or(0);
            ensure!(before <= *n, "counter {id} went back from {before} to {n}");
        }
    }
    ends_equal(&source, &target)
}

/// MyISAM changes cannot be rolled back, so such a transaction must not be the victim of a deadlock.
#[test]
fn transactions_of_myisam_tables_run_alone() -> Result<()> {
    let source = source(&Launch::mysql(), &[])?;
    source.sql("create database d; create table d.m (id int primary key, n int) engine = MyISAM")?;
    let inserts = (0..600).map(|id| format!("insert into d.m values ({id}, 0);"));
    source.sql(&inserts.collect::<String>())?;
    source.sql("flush binary logs")?;
    let target = target("--skip-log-bin")?;
    let report =
        replay_to(&source.binlogs()?, target.socket(), &small(CommitOrder::Strict, ParallelMode::Writeset))?;
    ensure!(report.at_once == 1, "{report:?}");
    let checksum = "checksum table d.m extended";
    ensure!(source.sql(checksum)? == target.sql(checksum)?, "the tables differ");
    Ok(())
}

#[test]
fn any_order_is_refused_without_gtids() -> Result<()> {
    let source = source(&Launch::mysql().option("--gtid-mode=OFF"), &[])?;
    source.sql("create database d; flush binary logs")?;
    let target = target("--skip-log-bin")?;
    let refused = replay_to(&source.binlogs()?, target.socket(), &options(CommitOrder::Any));
    let error = format!("{:#}", refused.err().context("not refused")?);
    ensure!(error.contains("has no MySQL GTID"), "{error}");
    ensure!(!target.sql("show databases")?.lines().any(|name| name == "d"), "the target was changed");
    Ok(())
}

/// Two transactions in order wait for the same row of progress. If the server rolls back the first one at its
/// commit, the second must not commit, because its progress would include the first one.
#[test]
fn transactions_after_a_failed_commit_are_not_committed() -> Result<()> {
    for server in [target("--skip-log-bin")?, Launch::mariadb().start()?] {
        for sql_mode in ["", "NO_UNSIGNED_SUBTRACTION", "TRADITIONAL"] {
            server.sql(&format!("set global sql_mode = '{sql_mode}'; drop database if exists bintide"))?;
            let opened = MysqlTarget::open(address(&server, "root")?)?;
            let (mut first, mut second) = (opened.session()?, opened.session()?);
            let commit = |session: &mut Box<dyn TargetSession>, commits| {
                session.begin()?;
                session.commit(
                    &ReplayProgress { commits: Some(commits), ..ReplayProgress::default() },
                    &mut || (),
                )
            };
            let refused = commit(&mut second, 2).err().context("not refused")?;
            ensure!(refused.message.contains("the previous transaction was not committed"), "{refused}");
            second.rollback()?;
            commit(&mut first, 1)?;
            commit(&mut second, 2)?;
            let commits = server.sql("select commits from bintide.progress")?;
            ensure!(commits.trim() == "2", "{sql_mode}: {commits}");
        }
    }
    Ok(())
}

/// Replays while a reader polls; returns the report and the states that the reader saw.
fn watched(
    source: &TestServer,
    target: &TestServer,
    options: &ReplayOptions,
) -> Result<(replay::ReplayReport, Vec<BTreeMap<i64, i64>>)> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read(target, &over));
        let replayed = replay_to(&source.binlogs()?, target.socket(), options);
        over.store(true, Ordering::SeqCst);
        let seen = reader.join().map_err(|_| anyhow!("the reader panicked"))?;
        Ok((replayed?, seen?))
    })
}

fn read(target: &TestServer, over: &AtomicBool) -> Result<Vec<BTreeMap<i64, i64>>> {
    let mut connection = SqlConnection::open(&address(target, "root")?)?;
    let mut seen: Vec<BTreeMap<i64, i64>> = Vec::new();
    while !over.load(Ordering::SeqCst) {
        // The table may not exist yet.
        let Ok(rows) = connection.rows("select id, n from d.c") else { continue };
        let mut state = BTreeMap::new();
        for row in rows {
            let [Some(id), Some(n)] = row.as_slice() else { continue };
            state.insert(str::from_utf8(id)?.parse()?, str::from_utf8(n)?.parse()?);
        }
        if seen.last() != Some(&state) {
            seen.push(state);
        }
    }
    Ok(seen)
}
