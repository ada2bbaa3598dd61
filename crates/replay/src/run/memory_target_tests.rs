//! Replays to a target in memory, with random dependencies, locks, deadlocks and delays. Each changed row is compared
//! with its state on the source.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use binlog::events::{
    FormatDescription, GtidEvent, GtidLayout, LogicalClock, Query, RowsKind, StatusVars, Xid,
};
use binlog::gtid::{GtidSet, Uuid};
use binlog::{ChecksumAlgorithm, Event, EventFlags, EventFormat, EventOrigin, Flavour, MAGIC, NextPosition};
use logs::lock;
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, TestRunner};
use sql::ReplicationFilter;

use super::group_queue::GroupQueue;
use super::transaction_batch::TransactionBatch;
use super::transaction_reader::{self, ReadRules, SourceState};
use super::{ReplayObserver, limits, replay};
use crate::applied_check::AppliedCheck;
use crate::apply_plan::SourceStatement;
use crate::commit_order::CommitOrder;
use crate::lost_temporary_tables::LostTemporaryTables;
use crate::replay_error::{TargetFailure, TargetFailureKind};
use crate::replay_log::ReplayLog;
use crate::replay_options::{GapPolicy, ReplayOptions};
use crate::replay_progress::{AppliedState, ReplayProgress, StatementIntent};
use crate::replay_report::ReplayStatus;
use crate::replay_target::{CommitSignal, CommitSignalCause, IntentOutcome, ReplayTarget, TargetSession};
use crate::row_events::RowEvents;
use crate::row_reader::RowReader;
use crate::sample_table::{SampleTable, definition, image, int};
use crate::schedule::ParallelMode;
use crate::session_variables::SessionVariables;
use crate::target_table_definition::TargetTableDefinition;
use crate::transaction_selection::{TransactionSelection, TransactionSelector};
use crate::transaction_source::TransactionSource;

/// Content of the table.
type TableRows = BTreeMap<i32, i32>;

/// The table after each number of transactions, and the log of these transactions.
struct SourceHistory {
    states: Vec<TableRows>,
    log: tempfile::NamedTempFile,
}

fn format() -> EventFormat {
    let (server_version, checksum) = (b"9.7.4".to_vec(), ChecksumAlgorithm::Off);
    EventFormat { server_version, post_header_sizes: Vec::new(), checksum, flavour: Flavour::MySql }
}

fn uuid() -> Uuid {
    "5ea5ca5e-0001-4000-8000-000000000001".parse().unwrap()
}

fn put(event: &Event<'_>, out: &mut Vec<u8>) {
    let origin = EventOrigin { timestamp: 1, server_id: 1, flags: EventFlags(0) };
    event.write(origin, NextPosition::Fixed(0), &format(), out).unwrap();
}

impl SourceHistory {
    /// Creates transactions from the keys that they change. An existing row is updated, or deleted if the flag is set.
    fn new(transactions: &[Vec<(u8, bool)>]) -> Self {
        let mut bytes = begin_log();
        let (table, mut states) = (SampleTable::new("int int").named("t", 1), vec![TableRows::new()]);
        let mut last_changed: BTreeMap<i32, usize> = BTreeMap::new();
        for (index, changes) in (1..).zip(transactions) {
            let keys = changes.iter().map(|(key, _)| i32::from(*key));
            let needed =
                keys.filter_map(|key| last_changed.insert(key, index)).filter(|at| *at < index).max();
            put_gtid(index, needed.unwrap_or(1), &mut bytes);
            put_query(index as u32 % 3, b"BEGIN", &mut bytes);
            let mut state = states.last().cloned().unwrap();
            for (key, removes) in changes {
                let key = i32::from(*key);
                let value = (!removes || !state.contains_key(&key)).then_some(index as i32);
                change(&table, &mut state, key, value, &mut bytes);
            }
            put(&Event::Xid(Xid { xid: index as u64 }), &mut bytes);
            states.push(state);
        }
        Self { states, log: end_log(&bytes) }
    }
}

fn begin_log() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let mut version = [0; 50];
    version[..5].copy_from_slice(b"9.7.4");
    let description = FormatDescription {
        binlog_version: 4,
        server_version: &version,
        created: 0,
        header_size: 19,
        post_header_sizes: &[],
        checksum_algorithm: Some(0),
    };
    put(&Event::FormatDescription(description), &mut bytes);
    bytes
}

fn end_log(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut log = tempfile::NamedTempFile::new().unwrap();
    log.write_all(bytes).unwrap();
    log
}

/// Writes the GTID event of a transaction that depends on `needed`.
fn put_gtid(index: usize, needed: usize, out: &mut Vec<u8>) {
    let clock = LogicalClock { last_committed: needed.min(index - 1) as i64, sequence_number: index as i64 };
    let gtid = GtidEvent {
        flags: 0,
        uuid: uuid(),
        gno: index as i64,
        clock: Some(clock),
        stamps: None,
        layout: GtidLayout::default(),
        rest: &[],
    };
    put(&Event::Gtid(gtid), out);
}

fn put_query(thread_id: u32, sql: &[u8], out: &mut Vec<u8>) {
    let (status, database) = (StatusVars { bytes: &[] }, b"d");
    put(&Event::Query(Query { thread_id, exec_time: 0, error_code: 0, status, database, sql }), out);
}

/// Sets the value of a key, or removes the key if `value` is `None`. A key that does not exist is inserted.
fn change(table: &SampleTable, state: &mut TableRows, key: i32, value: Option<i32>, out: &mut Vec<u8>) {
    put(&Event::TableMap(table.map()), out);
    let row = |value| image(&[int(key), int(value)]);
    match (state.get(&key).copied(), value) {
        (None, value) => {
            let value = value.unwrap_or_default();
            state.insert(key, value);
            put(&Event::WriteRows(table.rows(RowsKind::Write, &row(value))), out);
        }
        (Some(before), None) => {
            state.remove(&key);
            put(&Event::DeleteRows(table.rows(RowsKind::Delete, &row(before))), out);
        }
        (Some(before), Some(value)) => {
            state.insert(key, value);
            let rows = [row(before), row(value)].concat();
            put(&Event::UpdateRows(table.rows(RowsKind::Update, &rows)), out);
        }
    }
}

/// A target in memory. A session that changes a row locks it.
struct MemoryTarget {
    state: Mutex<MemoryState>,
    changed: Condvar,
    states: Vec<TableRows>,
    order: CommitOrder,
}

#[derive(Default)]
struct MemoryState {
    rows: TableRows,
    /// The session that holds the lock of a row.
    locks: BTreeMap<i32, usize>,
    progress: BTreeMap<usize, ReplayProgress>,
    sessions: usize,
    chance: u64,
    /// The first difference from the source.
    wrong: Option<String>,
    commits: usize,
    statements: usize,
}

impl MemoryTarget {
    fn state(&self) -> MutexGuard<'_, MemoryState> {
        lock(&self.state)
    }
}

impl MemoryState {
    fn roll(&mut self, below: u64) -> u64 {
        self.chance =
            (self.chance ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(23);
        self.chance % below
    }

    fn gtids(&self) -> GtidSet {
        self.progress.values().fold(GtidSet::new(), |all, part| all.union(&part.gtids))
    }
}

struct SharedTarget(Arc<MemoryTarget>);

impl ReplayTarget for SharedTarget {
    fn applied(&self) -> Result<AppliedState, TargetFailure> {
        let progress = ReplayProgress { gtids: self.0.state().gtids(), ..ReplayProgress::default() };
        Ok(AppliedState { progress, ..AppliedState::default() })
    }

    fn session(&self) -> Result<Box<dyn TargetSession>, TargetFailure> {
        let mut state = self.0.state();
        state.sessions += 1;
        let (number, world) = (state.sessions, Arc::clone(&self.0));
        let signal = Arc::new(MemorySignal { chance: state.roll(1 << 32), ..MemorySignal::default() });
        Ok(Box::new(MemorySession { world, number, part: 0, own: BTreeMap::new(), signal, sent: None }))
    }

    fn definition(&self, _: &[u8], _: &[u8]) -> Result<Option<TargetTableDefinition>, TargetFailure> {
        Ok(Some(definition("0")))
    }

    fn settle(&self, _: &StatementIntent) -> Result<IntentOutcome, TargetFailure> {
        Ok(IntentOutcome::NotDone)
    }

    fn save(&self, _: &ReplayProgress) -> Result<(), TargetFailure> {
        Ok(())
    }

    fn checkpoint(&self, progress: &ReplayProgress) -> Result<AppliedState, TargetFailure> {
        Ok(AppliedState { progress: progress.clone(), ..AppliedState::default() })
    }
}

struct MemorySession {
    world: Arc<MemoryTarget>,
    number: usize,
    part: usize,
    /// Uncommitted changes; `None` for a deleted row.
    own: BTreeMap<i32, Option<i32>>,
    signal: Arc<MemorySignal>,
    /// Progress of a commit that was sent.
    sent: Option<ReplayProgress>,
}

/// The signal of a session. Some waits end without a reason.
#[derive(Default)]
struct MemorySignal {
    /// An answer has come, and a thread has ended the wait.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
    chance: u64,
}

impl MemorySignal {
    fn state(&self) -> MutexGuard<'_, (bool, bool)> {
        lock(&self.state)
    }
}

impl CommitSignal for MemorySignal {
    fn wait(&self) -> CommitSignalCause {
        if self.chance.is_multiple_of(4) {
            thread::sleep(Duration::from_micros(self.chance % 300));
            return if self.chance.is_multiple_of(8) {
                CommitSignalCause::Answer
            } else {
                CommitSignalCause::Woken
            };
        }
        let mut state = self.state();
        while !state.0 && !state.1 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match std::mem::take(&mut state.1) {
            true => CommitSignalCause::Woken,
            false => CommitSignalCause::Answer,
        }
    }

    fn wake(&self) {
        self.state().1 = true;
        self.changed.notify_all();
    }
}

impl MemorySession {
    /// Changes a row that must equal `before`, after locking it.
    fn change(&mut self, key: i32, before: Option<i32>, after: Option<i32>) -> Result<(), TargetFailure> {
        let world = Arc::clone(&self.world);
        let mut state = world.state();
        if state.roll(50) == 0 {
            return Err(locked(1213));
        }
        let mut waits = 0;
        while state.locks.get(&key).is_some_and(|holder| *holder != self.number) {
            waits += 1;
            if waits > 20 {
                return Err(locked(1205));
            }
            let waited = world.changed.wait_timeout(state, Duration::from_millis(1));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let now = self.own.get(&key).copied().unwrap_or_else(|| state.rows.get(&key).copied());
        if now != before {
            let wrong = format!("row {key} is {now:?}, was {before:?} on the source");
            state.wrong.get_or_insert(wrong.clone());
            return Err(TargetFailure { code: Some(1032), ..TargetFailure::refused(wrong) });
        }
        state.locks.insert(key, self.number);
        self.own.insert(key, after);
        Ok(())
    }

    fn release(&mut self, state: &mut MemoryState) {
        state.locks.retain(|_, holder| *holder != self.number);
        self.own.clear();
        self.world.changed.notify_all();
    }
}

fn locked(code: u16) -> TargetFailure {
    TargetFailure { message: "locked".to_owned(), kind: TargetFailureKind::Locked, code: Some(code) }
}

impl TargetSession for MemorySession {
    fn save_apart(&mut self, part: usize) -> Result<(), TargetFailure> {
        self.part = part;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), TargetFailure> {
        Ok(())
    }

    fn announce(&mut self, _: StatementIntent, _: Option<&Arc<EventFormat>>) -> Result<(), TargetFailure> {
        Ok(())
    }

    fn apply_rows(&mut self, _: &SessionVariables, rows: &RowEvents) -> Result<(), TargetFailure> {
        let mut changes = Vec::new();
        RowReader::new().read(rows, &mut |event| {
            for row in event.rows() {
                let row = row?;
                let values = |image: &binlog::RowImage<'_, '_>| {
                    let mut fields = image.fields().filter_map(|field| field.bytes()?.try_into().ok());
                    (fields.next().map(i32::from_le_bytes), fields.next().map(i32::from_le_bytes))
                };
                let (before, after) = (row.before.as_ref().map(values), row.after.as_ref().map(values));
                let key = before.or(after).and_then(|(key, _)| key).unwrap_or_default();
                changes.push((key, before.and_then(|(_, n)| n), after.and_then(|(_, n)| n)));
            }
            Ok(())
        })?;
        changes.into_iter().try_for_each(|(key, before, after)| self.change(key, before, after))
    }

    /// Always fails with a deadlock.
    fn run_statement(&mut self, _: &SourceStatement) -> Result<(), TargetFailure> {
        self.world.state().statements += 1;
        Err(locked(1213))
    }

    fn flush(&mut self) -> Result<(), TargetFailure> {
        let micros = self.world.state().roll(200);
        thread::sleep(Duration::from_micros(micros));
        Ok(())
    }

    fn commit(
        &mut self,
        progress: &ReplayProgress,
        on_ordered: &mut dyn FnMut(),
    ) -> Result<(), TargetFailure> {
        let world = Arc::clone(&self.world);
        let mut state = world.state();
        if state.roll(100) == 0 {
            return Err(locked(1213));
        }
        for (key, value) in std::mem::take(&mut self.own) {
            match value {
                Some(value) => drop(state.rows.insert(key, value)),
                None => drop(state.rows.remove(&key)),
            }
        }
        state.progress.insert(self.part, progress.clone());
        state.commits += 1;
        let count = state.gtids().count() as usize;
        if world.order != CommitOrder::Any && state.rows != world.states[count] {
            let wrong =
                format!("after {count} transactions: {:?}, not {:?}", state.rows, world.states[count]);
            state.wrong.get_or_insert(wrong);
        }
        self.release(&mut state);
        drop(state);
        on_ordered();
        Ok(())
    }

    /// Sessions of two kinds: one half of them commits in two steps.
    fn commit_signal(&self) -> Option<Arc<dyn CommitSignal>> {
        let signal: Arc<dyn CommitSignal> = Arc::clone(&self.signal) as _;
        self.number.is_multiple_of(2).then_some(signal)
    }

    fn can_send_commit(&self) -> bool {
        !self.own.is_empty()
    }

    fn send_commit(&mut self, progress: &ReplayProgress) -> Result<(), TargetFailure> {
        let is_lost = self.world.state().roll(100) == 0;
        if is_lost {
            return Err(locked(1213));
        }
        assert!(self.sent.is_none(), "a commit is sent once");
        self.sent = Some(progress.clone());
        self.signal.state().0 = true;
        self.signal.changed.notify_all();
        Ok(())
    }

    fn finish_commit(&mut self, on_ordered: &mut dyn FnMut()) -> Result<(), TargetFailure> {
        self.signal.state().0 = false;
        let progress = self.sent.take().expect("a commit that ends was sent");
        self.commit(&progress, on_ordered)
    }

    fn rollback(&mut self) -> Result<(), TargetFailure> {
        assert!(self.sent.is_none(), "a commit that was sent ends");
        let world = Arc::clone(&self.world);
        self.release(&mut world.state());
        Ok(())
    }
}

/// Stops a replay after this number of commits.
struct CommitLimit(u64);

impl ReplayObserver for CommitLimit {
    fn on_status(&mut self, status: &ReplayStatus<'_>) -> ControlFlow<()> {
        if status.report.groups < self.0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

const ORDERS_AND_MODES: [(CommitOrder, ParallelMode); 8] = [
    (CommitOrder::Grouped, ParallelMode::Writeset),
    (CommitOrder::Grouped, ParallelMode::LogicalClock),
    (CommitOrder::Strict, ParallelMode::LogicalClock),
    (CommitOrder::Strict, ParallelMode::Writeset),
    (CommitOrder::Strict, ParallelMode::WritesetSession),
    (CommitOrder::Any, ParallelMode::LogicalClock),
    (CommitOrder::Any, ParallelMode::Writeset),
    (CommitOrder::Any, ParallelMode::Database),
];

impl SourceHistory {
    /// Returns a target that expects these states.
    fn target(&self, order: CommitOrder, chance: u64) -> SharedTarget {
        let state = Mutex::new(MemoryState { chance, ..MemoryState::default() });
        SharedTarget(Arc::new(MemoryTarget {
            state,
            changed: Condvar::new(),
            states: self.states.clone(),
            order,
        }))
    }

    fn log(&self) -> ReplayLog {
        ReplayLog::File(self.log.path().to_owned())
    }
}

fn options(order: CommitOrder, mode: ParallelMode, workers: usize) -> ReplayOptions {
    ReplayOptions {
        order,
        group_max: 4,
        memory: 1 << 20,
        workers: NonZeroUsize::new(workers).unwrap(),
        mode,
        selection: TransactionSelection::default(),
        filter: ReplicationFilter::default(),
        gap: GapPolicy::Refuse,
    }
}

/// Replays in every order and mode, on several workers, interrupted once. Each changed row has the same state as on the
/// source. Each committed state is one of the source's states, if the order guarantees that. The final state is
/// complete.
#[test]
fn random_graphs_have_the_result_of_a_serial_run() {
    let mut runner = TestRunner::new(Config { cases: 24, ..Config::default() });
    let transaction = vec((0..12_u8, any::<bool>()), 1..4);
    let case = (vec(transaction, 1..60), 2..6_usize, 1..20_u64, any::<u64>());
    let result = runner.run(&case, |(transactions, workers, interrupted, seed)| {
        let history = SourceHistory::new(&transactions);
        for (order, mode) in ORDERS_AND_MODES {
            let target = history.target(order, seed);
            let options = options(order, mode, workers);
            for until in [interrupted, u64::MAX] {
                let mut source = TransactionSource::new(vec![history.log()], None, 1 << 20);
                let result = replay(&mut source, &target, &options, &mut CommitLimit(until));
                let state = target.0.state();
                assert_eq!(state.wrong, None, "{order:?} by {mode:?}");
                assert!(result.is_ok(), "{order:?} by {mode:?}: {result:?}");
            }
            let state = target.0.state();
            assert_eq!(Some(&state.rows), history.states.last(), "{order:?} by {mode:?}");
            assert_eq!(state.gtids().count() as usize, transactions.len());
            assert!(state.commits <= transactions.len() && state.locks.is_empty());
        }
        Ok(())
    });
    result.unwrap();
}

#[test]
fn repeated_transactions_are_applied_once() {
    let history = SourceHistory::new(&[vec![(1, false)], vec![(2, false), (1, false)], vec![(2, true)]]);
    for (order, mode) in ORDERS_AND_MODES {
        let target = history.target(order, 1);
        let mut source = TransactionSource::new(vec![history.log(), history.log()], None, 1 << 20);
        let report =
            replay(&mut source, &target, &options(order, mode, 2), &mut CommitLimit(u64::MAX)).unwrap();
        assert_eq!((report.transactions, report.skipped), (3, 3), "{order:?} by {mode:?}");
        assert_eq!(Some(&target.0.state().rows), history.states.last());
    }
}

fn rules(applied: AppliedState, filter: &ReplicationFilter) -> ReadRules<'_> {
    ReadRules {
        selector: TransactionSelector::new(&TransactionSelection::default(), &[]).unwrap(),
        skip: AppliedCheck::new(applied, &[]),
        filter,
        unmatched: filter.unmatched_rules(),
        gap: GapPolicy::Refuse,
        lost_tables: LostTemporaryTables::default(),
    }
}

/// Without these batches, progress would stand still and a stop would wait for the end of the logs.
#[test]
fn skipped_transactions_end_batches() {
    let history = SourceHistory::new(&vec![vec![(1, false)]; 9]);
    let mut source = TransactionSource::new(vec![history.log()], None, 1 << 20);
    let executed = format!("{}:1-9", uuid()).parse().unwrap();
    let filter = ReplicationFilter::default();
    let mut rules = rules(AppliedState { executed, ..AppliedState::default() }, &filter);
    let (mut opener, mut skipped) = (source.opener(), Vec::new());
    loop {
        let mut batch = TransactionBatch::default();
        let state =
            transaction_reader::fill_batch(&mut source, &mut rules, &mut opener, &mut batch, 1).unwrap();
        assert!(batch.units.is_empty());
        skipped.push(batch.so_far.skipped);
        if state != SourceState::More {
            break;
        }
    }
    // The first batch reads the whole small log from the file.
    assert_eq!(skipped, [1, 8]);
}

/// Each transaction has a file open until it is applied.
#[test]
fn spooled_transactions_are_read_one_by_one() {
    let history = SourceHistory::new(&vec![vec![(1, false)]; 9]);
    let mut source = TransactionSource::new(vec![history.log()], None, 0);
    let (out, batches) = transaction_reader::channel();
    let (queue, _groups) = GroupQueue::new(limits(&options(CommitOrder::Strict, ParallelMode::None, 1)));
    let filter = ReplicationFilter::default();
    let read = thread::scope(|scope| {
        let rules = rules(AppliedState::default(), &filter);
        let queue = &queue;
        scope.spawn(move || transaction_reader::read(&mut source, rules, &out, queue));
        batches.iter().map(|batch| batch.units.len()).collect::<Vec<_>>()
    });
    assert_eq!(read, [1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
}

/// The effects of a definition that failed cannot be undone.
#[test]
fn a_definition_that_fails_is_not_tried_again() {
    let mut bytes = begin_log();
    put_gtid(1, 0, &mut bytes);
    put_query(1, b"ALTER TABLE t ADD n INT", &mut bytes);
    let history = SourceHistory { states: vec![TableRows::new()], log: end_log(&bytes) };
    for workers in [1, 3] {
        let target = history.target(CommitOrder::Strict, 1);
        let options = options(CommitOrder::Strict, ParallelMode::Writeset, workers);
        let mut source = TransactionSource::new(vec![history.log()], None, 1 << 20);
        let error = replay(&mut source, &target, &options, &mut CommitLimit(u64::MAX)).unwrap_err();
        assert!(error.to_string().ends_with("locked"), "{error}");
        assert_eq!(target.0.state().statements, 1);
    }
}

/// A target that panics at the second call of one method.
struct PanickingTarget {
    inner: SharedTarget,
    calls: PanicTrigger,
}

#[derive(Clone)]
struct PanicTrigger {
    method: &'static str,
    count: Arc<AtomicUsize>,
}

impl PanicTrigger {
    fn enter(&self, method: &str) {
        if self.method == method {
            assert!(self.count.fetch_add(1, Ordering::Relaxed) == 0, "injected in {method}");
        }
    }
}

impl ReplayTarget for PanickingTarget {
    fn applied(&self) -> Result<AppliedState, TargetFailure> {
        self.inner.applied()
    }

    fn session(&self) -> Result<Box<dyn TargetSession>, TargetFailure> {
        self.calls.enter("session");
        Ok(Box::new(PanickingSession { inner: self.inner.session()?, calls: self.calls.clone() }))
    }

    fn definition(
        &self,
        database: &[u8],
        table: &[u8],
    ) -> Result<Option<TargetTableDefinition>, TargetFailure> {
        // `definition` is called only once per table, so its first call counts as the second.
        self.calls.enter("definition");
        self.calls.enter("definition");
        self.inner.definition(database, table)
    }

    fn settle(&self, intent: &StatementIntent) -> Result<IntentOutcome, TargetFailure> {
        self.inner.settle(intent)
    }

    fn save(&self, progress: &ReplayProgress) -> Result<(), TargetFailure> {
        self.inner.save(progress)
    }

    fn checkpoint(&self, progress: &ReplayProgress) -> Result<AppliedState, TargetFailure> {
        self.inner.checkpoint(progress)
    }
}

struct PanickingSession {
    inner: Box<dyn TargetSession>,
    calls: PanicTrigger,
}

impl Drop for PanickingSession {
    /// A server rolls back the open transaction of a lost session.
    fn drop(&mut self) {
        let _ = self.inner.rollback();
    }
}

impl TargetSession for PanickingSession {
    fn save_apart(&mut self, part: usize) -> Result<(), TargetFailure> {
        self.inner.save_apart(part)
    }

    fn begin(&mut self) -> Result<(), TargetFailure> {
        self.calls.enter("begin");
        self.inner.begin()
    }

    fn announce(
        &mut self,
        intent: StatementIntent,
        format: Option<&Arc<EventFormat>>,
    ) -> Result<(), TargetFailure> {
        self.inner.announce(intent, format)
    }

    fn apply_rows(&mut self, context: &SessionVariables, rows: &RowEvents) -> Result<(), TargetFailure> {
        self.calls.enter("rows");
        self.inner.apply_rows(context, rows)
    }

    fn run_statement(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        self.inner.run_statement(statement)
    }

    fn flush(&mut self) -> Result<(), TargetFailure> {
        self.calls.enter("flush");
        self.inner.flush()
    }

    fn commit(
        &mut self,
        progress: &ReplayProgress,
        on_ordered: &mut dyn FnMut(),
    ) -> Result<(), TargetFailure> {
        self.calls.enter("commit");
        self.inner.commit(progress, on_ordered)
    }

    fn rollback(&mut self) -> Result<(), TargetFailure> {
        self.inner.rollback()
    }
}

/// An observer that panics.
struct PanickingObserver;

impl ReplayObserver for PanickingObserver {
    fn on_status(&mut self, _: &ReplayStatus<'_>) -> ControlFlow<()> {
        panic!("injected in at")
    }
}

/// Returns the error of a replay. Aborts the test if the replay hangs.
fn replay_error(
    history: &SourceHistory,
    target: &PanickingTarget,
    options: &ReplayOptions,
    mut observer: impl ReplayObserver + Send,
) -> String {
    thread::scope(|scope| {
        let (sender, ended) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let mut source = TransactionSource::new(vec![history.log()], None, 1 << 20);
            let result = replay(&mut source, target, options, &mut observer);
            let _ = sender.send(result.expect_err("a panic ends the replay").to_string());
        });
        match ended.recv_timeout(Duration::from_secs(30)) {
            Ok(error) => error,
            Err(_) => {
                eprintln!("the replay hangs after a panic in {}", target.calls.method);
                std::process::abort()
            }
        }
    })
}

/// Panics in every thread, and in each step of a transaction. Transactions committed before are complete.
#[test]
fn a_panic_ends_the_replay_with_an_error() {
    let transactions: Vec<_> = (0..200).map(|number| vec![(number % 5, false)]).collect();
    let history = SourceHistory::new(&transactions);
    for (order, mode) in ORDERS_AND_MODES {
        for workers in [1, 3] {
            for method in ["session", "begin", "rows", "flush", "commit", "definition", "at"] {
                let has_one_session = workers == 1 && order != CommitOrder::Any;
                let is_never_called = (workers == 1 && method == "session")
                    || (method == "definition"
                        && (has_one_session
                            || mode == ParallelMode::LogicalClock
                            || mode == ParallelMode::Database));
                if is_never_called {
                    continue;
                }
                let inner = history.target(order, 1);
                let calls = PanicTrigger { method, count: Arc::default() };
                let target = PanickingTarget { inner, calls };
                let options = options(order, mode, workers);
                let error = match method {
                    "at" => replay_error(&history, &target, &options, PanickingObserver),
                    _ => replay_error(&history, &target, &options, CommitLimit(u64::MAX)),
                };
                let expected = format!("panicked: injected in {method}; please report this defect");
                assert!(
                    error.starts_with("internal error") && error.ends_with(&expected),
                    "{order:?} {mode:?}: {error}"
                );
                let state = target.inner.0.state();
                assert_eq!((&state.wrong, state.locks.len()), (&None, 0), "{order:?} {mode:?}");
            }
        }
    }
}
