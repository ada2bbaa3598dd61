//! State shared by the threads: the applier's positions, the queue of searches, and the counters.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use binlog::gtid::{Gtid, GtidSet};
use logs::{ThreadPanic, lock};
use sql::ReplicationFilter;

use crate::applier_lead::{ApplierLead, LeadMark};
use crate::error::WarmError;
use crate::relay_position::RelayPosition;
use crate::replica_monitor::{ReplicaChannel, UncommittedRows};
use crate::report::{ChannelStatus, WarmCounts};
use crate::search_window::SearchBatch;
use crate::settings::WarmPace;
use crate::slow_tables::SlowTables;
use crate::statement::SkipReason;

/// Present limits of the searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SearchLimits {
    /// Number of searches that may be ahead of the appliers, for all channels together.
    pub(crate) distance: u64,
    /// Number of workers that search.
    pub(crate) workers: usize,
}

/// State shared by the threads.
#[derive(Debug)]
pub(crate) struct WarmShared {
    state: Mutex<SharedState>,
    /// Signals a queued search, or the end.
    work: Condvar,
    /// Notified when the number of enabled workers changes, and at the end.
    enabled: Condvar,
    /// Signals progress of the applier, a search taken from the queue, or the end.
    room: Condvar,
    /// Version of the table definitions: counts possible changes.
    definitions: AtomicU64,
    slow: Mutex<SlowTables>,
    pace: WarmPace,
    /// True if there is an applier to stay ahead of.
    has_applier: bool,
    queue_max: usize,
}

/// A queued search statement.
#[derive(Debug)]
pub(crate) struct SearchJob {
    pub(crate) channel: usize,
    pub(crate) epoch: u64,
    /// End of the changes that the search is for.
    pub(crate) position: RelayPosition,
    pub(crate) search: SearchQuery,
}

/// Contents of a search statement.
#[derive(Debug)]
pub(crate) enum SearchQuery {
    /// Searches for row changes.
    Batch(SearchBatch),
    /// Search for the rows that a statement will read.
    Statement(StatementSearch),
}

/// A statement that reads the same rows as a statement in the log, with its session state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StatementSearch {
    /// SQL statements that set the session state.
    pub(crate) session: Arc<str>,
    /// SQL text, not always UTF-8.
    pub(crate) sql: Vec<u8>,
    /// Tables that the search reads, as `database.table`.
    pub(crate) tables: Vec<String>,
}

#[derive(Debug, Default)]
struct SharedState {
    channels: Vec<ChannelState>,
    queue: VecDeque<SearchJob>,
    counts: WarmCounts,
    distance: u64,
    workers: usize,
    /// Sampling divisor: one in this many statements runs.
    sampling_divisor: u32,
    /// IDs of the connections that search.
    connections: Vec<u32>,
    is_over: bool,
    failure: Option<WarmError>,
}

/// State of one channel.
#[derive(Debug)]
struct ChannelState {
    channel: ReplicaChannel,
    /// Number of restarts of reading. Searches of earlier epochs are dropped.
    epoch: u64,
    lead: ApplierLead,
    position: Option<RelayPosition>,
    /// Transaction being read.
    gtid: Option<Gtid>,
    /// Last position that the replica reported. With several workers, the replica reports only at intervals.
    reported: Option<RelayPosition>,
    /// Transactions ahead of the applier, with the position of their end. The applier has reached the end once the GTID
    /// is executed.
    transactions: VecDeque<(Gtid, RelayPosition)>,
    /// Positions of changes to table definitions ahead of the applier.
    definition_changes: VecDeque<RelayPosition>,
    lag: LagMean,
    /// Searches that the applier has passed.
    passed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct LagMean {
    sum: f64,
    count: u32,
}

/// Next action of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderAction {
    /// Continue.
    Continue,
    /// Restart at the applier's position.
    Restart,
    /// Stop.
    Stop,
}

/// Start of a pass over the logs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassStart {
    pub(crate) position: RelayPosition,
    pub(crate) epoch: u64,
}

/// Longest wait on a condition variable before the condition is checked again.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl WarmShared {
    pub(crate) fn new(
        channels: Vec<ReplicaChannel>,
        pace: WarmPace,
        threads: usize,
        has_applier: bool,
    ) -> Self {
        let states = channels.into_iter().map(ChannelState::new).collect();
        let state = SharedState {
            channels: states,
            workers: threads,
            distance: u64::MAX,
            sampling_divisor: 1,
            ..SharedState::default()
        };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            enabled: Condvar::new(),
            room: Condvar::new(),
            definitions: AtomicU64::new(0),
            slow: Mutex::default(),
            pace,
            has_applier,
            queue_max: threads * QUEUED_PER_CONNECTION_MAX,
        }
    }

    /// Returns the version of the table definitions.
    pub(crate) fn definitions_version(&self) -> u64 {
        self.definitions.load(Ordering::SeqCst)
    }

    /// Starts a new version of the table definitions, which may have changed.
    pub(crate) fn invalidate_definitions(&self) {
        self.definitions.fetch_add(1, Ordering::SeqCst);
    }

    /// Records that a search of these tables took too long.
    pub(crate) fn mark_slow(&self, tables: &[String]) {
        self.slow_tables().add(tables, Instant::now());
    }

    /// Returns whether one of these tables is temporarily excluded, because a search of it took too long.
    pub(crate) fn is_slow(&self, tables: &[String]) -> bool {
        self.slow_tables().contains_any(tables, Instant::now())
    }

    /// Sets the limits: distance, number of connections, and sampling divisor.
    pub(crate) fn set_limits(&self, distance: u64, workers: usize, one_in: u32) {
        let mut state = self.state();
        (state.distance, state.workers, state.sampling_divisor) = (distance, workers, one_in);
        drop(state);
        self.room.notify_all();
        self.work.notify_all();
        self.enabled.notify_all();
    }

    /// Restarts all readers at the applier's position, because sampling has skipped searches.
    pub(crate) fn restart_readers(&self) {
        for channel in &mut self.state().channels {
            channel.epoch += 1;
        }
        self.room.notify_all();
    }

    /// Updates the channels' positions and the executed GTIDs.
    pub(crate) fn update_channels(&self, channels: &[ReplicaChannel], executed: &GtidSet) {
        let mut state = self.state();
        for channel in &mut state.channels {
            let Some(found) = channels.iter().find(|found| found.name == channel.channel.name) else {
                continue;
            };
            if channel.update(found, executed) {
                self.invalidate_definitions();
            }
        }
        drop(state);
        self.room.notify_all();
    }

    /// Ends all threads.
    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.room.notify_all();
        self.work.notify_all();
        self.enabled.notify_all();
    }

    /// Ends all threads because of an error. The first error counts.
    pub(crate) fn fail(&self, error: WarmError) {
        self.state().failure.get_or_insert(error);
        self.end();
    }

    /// Runs a thread's work. A panic ends all threads.
    pub(crate) fn run_thread(&self, task: &'static str, work: impl FnOnce()) {
        if let Err(panic) = ThreadPanic::catch(task, work) {
            self.fail(panic.into());
        }
    }

    pub(crate) fn take_failure(&self) -> Option<WarmError> {
        self.state().failure.take()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Counts a queued statement as skipped: searches of its tables took too long meanwhile.
    pub(crate) fn skip_slow(&self) {
        self.count(|counts| {
            counts.statements -= 1;
            counts.discarded += 1;
            *counts.skip_reasons.entry(SkipReason::Slow).or_default() += 1;
        });
    }

    /// Waits for this time, or until the end.
    pub(crate) fn sleep(&self, time: Duration) {
        let state = self.state();
        if !state.is_over {
            drop(self.room.wait_timeout_while(state, time, |state| !state.is_over));
        }
    }

    // Methods for readers.

    /// Waits until the position of a channel's applier is known, and starts a pass there. `None` at the end.
    pub(crate) fn wait_for_start(&self, index: usize) -> Option<PassStart> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            let found = &mut state.channels[index];
            if let Some(position) = found.channel.position {
                found.lead.clear();
                found.definition_changes.clear();
                found.transactions.clear();
                found.gtid = None;
                found.position = Some(position);
                return Some(PassStart { position, epoch: found.epoch });
            }
            state = self.wait(state);
        }
    }

    /// Returns the channel's replication filter.
    pub(crate) fn filter(&self, index: usize) -> ReplicationFilter {
        self.state().channels[index].channel.filter.clone()
    }

    /// Returns the next action of a reader.
    pub(crate) fn reader_action(&self, index: usize, begin: PassStart) -> ReaderAction {
        self.state().reader_action(index, begin)
    }

    /// Returns whether more searches may be ahead of the applier.
    pub(crate) fn has_room(&self, index: usize) -> bool {
        self.state().has_room(index, self.pace)
    }

    /// Waits until more searches may be ahead of the applier. Returns the next action of the reader.
    pub(crate) fn wait_for_room(&self, index: usize, begin: PassStart) -> ReaderAction {
        let mut state = self.state();
        loop {
            let turn = state.reader_action(index, begin);
            if turn != ReaderAction::Continue || state.has_room(index, self.pace) {
                return turn;
            }
            let pause = match self.pace {
                WarmPace::Measured => POLL_INTERVAL,
                WarmPace::Fixed(fixed) => Duration::from_millis(fixed.millis_sleep),
            };
            state = self.room.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns whether the applier has passed this position.
    pub(crate) fn is_passed(&self, index: usize, position: RelayPosition) -> bool {
        self.state().channels[index].channel.position.is_some_and(|applier| position <= applier)
    }

    /// Returns whether the applier has already changed the next `rows` rows, in a transaction that has not ended.
    pub(crate) fn are_rows_changed(&self, index: usize, rows: u64) -> bool {
        let channel = &self.state().channels[index];
        channel.lead.is_already_changed(rows, channel.uncommitted_rows())
    }

    /// Returns whether the applier would be faster than a search, by the limits of a fixed pace.
    pub(crate) fn is_too_close(&self, index: usize) -> bool {
        match self.pace {
            WarmPace::Fixed(fixed) if self.has_applier => {
                self.state().channels[index].lead.ahead().events < fixed.offset_events
            }
            WarmPace::Measured | WarmPace::Fixed(_) => false,
        }
    }

    /// Adds a mark for the end of the searched changes.
    pub(crate) fn add_mark(&self, index: usize, mark: LeadMark, count: impl FnOnce(&mut WarmCounts)) {
        let mut state = self.state();
        count(&mut state.counts);
        let channel = &mut state.channels[index];
        channel.position = Some(mark.position);
        // Without an applier, the mark would never be removed.
        if self.has_applier {
            channel.lead.add(mark);
            channel.drop_passed();
        }
    }

    /// Starts a transaction at this position, which ends the previous one.
    pub(crate) fn begin_transaction(&self, index: usize, gtid: Option<Gtid>, position: RelayPosition) {
        if self.has_applier {
            let channel = &mut self.state().channels[index];
            if let Some(ended) = std::mem::replace(&mut channel.gtid, gtid) {
                channel.transactions.push_back((ended, position));
            }
        }
    }

    /// Adds a change of table definitions at this position.
    pub(crate) fn add_definition_change(&self, index: usize, position: RelayPosition) {
        if self.has_applier {
            self.state().channels[index].definition_changes.push_back(position);
        }
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut WarmCounts)) {
        count(&mut self.state().counts);
    }

    /// Queues a search, unless sampling skips it.
    pub(crate) fn push(&self, job: SearchJob) {
        let mut state = self.state();
        let batches = state.counts.pushed + state.counts.skipped;
        if !batches.is_multiple_of(u64::from(state.sampling_divisor)) {
            state.counts.skipped += 1;
            return;
        }
        while state.queue.len() >= self.queue_max && !state.is_over {
            state = self.wait(state);
        }
        state.counts.pushed += 1;
        state.queue.push_back(job);
        drop(state);
        self.work.notify_one();
    }

    // Methods for workers.

    /// Returns the next search to run; `None` at the end.
    pub(crate) fn next_job(&self, worker: usize) -> Option<SearchJob> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            if worker < state.workers
                && let Some(job) = state.queue.pop_front()
            {
                state.counts.popped += 1;
                self.room.notify_all();
                let channel = &state.channels[job.channel];
                let is_passed = channel.reached().is_some_and(|applier| job.position <= applier);
                if !is_passed && job.epoch == channel.epoch {
                    return Some(job);
                }
                state.counts.expired += 1;
                continue;
            }
            // A disabled worker must not wait for work: it would receive the notification of a job that it may not
            // take.
            let condition = if worker < state.workers { &self.work } else { &self.enabled };
            let waited = condition.wait_timeout(state, POLL_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn add_connection(&self, id: u32) {
        self.state().connections.push(id);
    }

    pub(crate) fn remove_connection(&self, id: u32) {
        self.state().connections.retain(|other| *other != id);
    }

    // Methods for the supervisor.

    pub(crate) fn connections(&self) -> Vec<u32> {
        self.state().connections.clone()
    }

    pub(crate) fn counts(&self) -> WarmCounts {
        self.state().counts.clone()
    }

    /// Returns the number of searches that the appliers have passed.
    pub(crate) fn passed(&self) -> u64 {
        self.state().channels.iter().map(|channel| channel.passed).sum()
    }

    pub(crate) fn queued(&self) -> usize {
        self.state().queue.len()
    }

    pub(crate) fn limits(&self) -> SearchLimits {
        let state = self.state();
        SearchLimits { distance: state.distance, workers: state.workers }
    }

    pub(crate) fn channels(&self) -> Vec<ChannelStatus> {
        self.state().channels.iter().map(ChannelState::status).collect()
    }

    fn wait<'s>(&self, state: MutexGuard<'s, SharedState>) -> MutexGuard<'s, SharedState> {
        self.room.wait_timeout(state, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0
    }

    fn slow_tables(&self) -> MutexGuard<'_, SlowTables> {
        lock(&self.slow)
    }

    fn state(&self) -> MutexGuard<'_, SharedState> {
        lock(&self.state)
    }
}

impl SharedState {
    fn reader_action(&self, index: usize, begin: PassStart) -> ReaderAction {
        match (self.is_over, self.channels[index].epoch == begin.epoch) {
            (true, _) => ReaderAction::Stop,
            (false, false) => ReaderAction::Restart,
            (false, true) => ReaderAction::Continue,
        }
    }

    fn has_room(&self, index: usize, pace: WarmPace) -> bool {
        let (lead, is_full) = (&self.channels[index].lead, self.channels[index].is_full());
        match pace {
            _ if is_full => false,
            WarmPace::Measured => {
                // If there are more channels than rows in the distance, each channel still gets one row.
                lead.ahead().searches < (self.distance / self.channels.len() as u64).max(1)
            }
            WarmPace::Fixed(fixed) => lead.seconds() <= fixed.seconds_prefetch,
        }
    }
}

/// Maximum events ahead of the applier, even if all their pages are in memory. Bounds memory.
const EVENTS_AHEAD_MAX: u64 = 1 << 20;
/// Maximum transactions, and changes of definitions, ahead of the applier. Bounds memory.
const POSITIONS_AHEAD_MAX: usize = 1 << 18;

/// Maximum queued search statements per connection: enough to keep all connections busy, and few enough that statements
/// are not outdated when they run.
const QUEUED_PER_CONNECTION_MAX: usize = 4;

impl ChannelState {
    fn new(channel: ReplicaChannel) -> Self {
        let (lead, changes, transactions) = (ApplierLead::default(), VecDeque::new(), VecDeque::new());
        let reported = channel.position;
        Self {
            channel,
            epoch: 0,
            lead,
            position: None,
            gtid: None,
            reported,
            transactions,
            definition_changes: changes,
            lag: LagMean::default(),
            passed: 0,
        }
    }

    /// Returns whether a limit of events or transactions ahead of the applier is reached.
    fn is_full(&self) -> bool {
        self.lead.ahead().events > EVENTS_AHEAD_MAX
            || self.transactions.len() >= POSITIONS_AHEAD_MAX
            || self.definition_changes.len() >= POSITIONS_AHEAD_MAX
    }

    /// Updates the channel. Returns whether the applier has passed a change of table definitions.
    fn update(&mut self, found: &ReplicaChannel, executed: &GtidSet) -> bool {
        let has_gone_back = found.position < self.reported;
        let (before, under_way) = (self.channel.position, self.channel.uncommitted.take());
        let has_moved = found.position != self.reported;
        if found.filter != self.channel.filter {
            // The earlier changes were read with another filter.
            self.epoch += 1;
        }
        self.reported = found.position;
        self.channel.clone_from(found);
        if !has_moved && self.channel.uncommitted.is_none() {
            self.channel.uncommitted = under_way; // Uncommitted rows are queried less often than the position.
        }
        if let Some(lag) = found.lag_s {
            self.lag.sum += lag as f64;
            self.lag.count += 1;
        }
        if has_gone_back {
            // The channel's relay logs were removed, and restart.
            self.epoch += 1;
            self.transactions.clear();
            return true;
        }
        let mut applier = found.position.max(before);
        // The applier passes a skipped transaction without executing it.
        let is_over = |(gtid, position): &&(Gtid, RelayPosition)| {
            executed.contains(*gtid) || Some(*position) <= found.position
        };
        while let Some((_, position)) = self.transactions.front().filter(is_over) {
            applier = applier.max(Some(*position));
            self.transactions.pop_front();
        }
        self.channel.position = applier;
        self.drop_passed();
        let Some(applier) = applier else { return false };
        let passed = self.definition_changes.iter().take_while(|position| **position <= applier).count();
        self.definition_changes.drain(..passed);
        passed > 0
    }

    /// Removes the marks that the applier has passed.
    fn drop_passed(&mut self) {
        if let Some(applier) = self.channel.position {
            self.passed += self.lead.pass(applier, self.uncommitted_rows()).searches;
        }
    }

    /// Returns the number of rows that the applier has changed beyond its position, if they are the next ones in the
    /// log.
    fn uncommitted_rows(&self) -> u64 {
        let next = self.transactions.front().map(|(gtid, _)| *gtid).or(self.gtid);
        let is_next = |under_way: &&UncommittedRows| under_way.gtid.is_none() || under_way.gtid == next;
        self.channel.uncommitted.iter().flatten().find(is_next).map_or(0, |under_way| under_way.rows)
    }

    /// Returns the last position that the applier has reached, including positions within a transaction.
    fn reached(&self) -> Option<RelayPosition> {
        self.channel.position.max(self.lead.reached_in_transaction())
    }

    fn status(&self) -> ChannelStatus {
        ChannelStatus {
            name: self.channel.name.clone(),
            log: self.channel.log.clone(),
            applier: self.channel.position,
            is_applying: self.channel.is_applying,
            position: self.position,
            searches_ahead: self.lead.ahead().searches,
            events_ahead: self.lead.ahead().events,
            lag_s: self.channel.lag_s,
            lag_average_s: (self.lag.count > 0).then(|| self.lag.sum / f64::from(self.lag.count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use binlog::gtid::GtidSet;

    use super::{ChannelState, EVENTS_AHEAD_MAX, POSITIONS_AHEAD_MAX, WarmShared};
    use crate::applier_lead::LeadMark;
    use crate::relay_position::RelayPosition;
    use crate::replica_monitor::{ReplicaChannel, UncommittedRows};
    use crate::settings::WarmPace;

    const UUID: &str = "00000000-0000-0000-0000-000000000001";

    fn set(intervals: &str) -> GtidSet {
        format!("{UUID}:{intervals}").parse().unwrap()
    }

    fn at(offset: u64) -> ReplicaChannel {
        ReplicaChannel::without_applier(RelayPosition { log: 1.into(), offset })
    }

    #[test]
    fn panics_of_a_thread_end_the_others_with_its_message() {
        let shared = WarmShared::new(vec![at(100)], WarmPace::Measured, 2, true);
        thread::scope(|scope| {
            scope.spawn(|| while shared.next_job(0).is_some() {});
            scope.spawn(|| shared.run_thread("searches", || panic!("injected")));
        });
        let error = shared.take_failure().unwrap().to_string();
        assert!(error.ends_with("panicked: injected; please report this defect"), "{error}");
    }

    #[test]
    fn each_of_many_channels_may_be_ahead() {
        let channels = (0..33).map(|_| at(100)).collect();
        let shared = WarmShared::new(channels, WarmPace::Measured, 2, true);
        shared.set_limits(32, 2, 1);
        let state = shared.state();
        assert!((0..33).all(|index| state.has_room(index, WarmPace::Measured)));
    }

    #[test]
    fn executed_transactions_count_before_workers_report() {
        let mut state = ChannelState::new(at(100));
        for (gtid, offset) in set("1-5").gtids().zip([200, 300, 400, 500, 600]) {
            state.transactions.push_back((gtid, RelayPosition { log: 1.into(), offset }));
        }
        let mut check = |reported, executed, expected, epoch| {
            state.update(&at(reported), &set(executed));
            assert_eq!(
                (state.channel.position.unwrap().offset, state.epoch),
                (expected, epoch),
                "{executed}"
            );
        };
        check(100, "1-2", 300, 0);
        // The GTID is executed before the replica reports the position.
        check(100, "1-3", 400, 0);
        check(250, "1-3", 400, 0);
        // The fourth transaction has not ended.
        check(250, "1-3:5", 400, 0);
        check(550, "1-5", 600, 0);
        // The numbers of the channel's logs restart.
        check(120, "1-5", 120, 1);
    }

    #[test]
    fn uncommitted_rows_count_for_the_next_transaction_only() {
        let gtids: Vec<_> = set("1-3").gtids().collect();
        let mut state = ChannelState::new(at(100));
        state.transactions.push_back((gtids[0], RelayPosition { log: 1.into(), offset: 200 }));
        state.gtid = Some(gtids[1]);
        let mut check = |executed, under_way: Option<usize>, expected| {
            let gtid = under_way.map(|number| gtids[number]);
            let channel =
                ReplicaChannel { uncommitted: Some(vec![UncommittedRows { rows: 50, gtid }]), ..at(100) };
            state.update(&channel, &set(executed));
            assert_eq!(state.uncommitted_rows(), expected, "{executed} {under_way:?}");
        };
        check("3", Some(0), 50);
        check("3", Some(1), 0);
        check("3", None, 50);
        check("1:3", Some(1), 50);
        check("1:3", Some(0), 0);
    }

    #[test]
    fn skipped_transactions_are_dropped() {
        let mut state = ChannelState::new(at(100));
        for (gtid, offset) in set("1-3").gtids().zip([200, 300, 400]) {
            state.transactions.push_back((gtid, RelayPosition { log: 1.into(), offset }));
        }
        state.update(&at(200), &set("2"));
        assert_eq!((state.channel.position.unwrap().offset, state.transactions.len()), (300, 1));
    }

    #[test]
    fn the_lead_is_limited() {
        let position = |number: usize| RelayPosition { log: 1.into(), offset: number as u64 };
        let gtid = set("1").gtids().next();
        let fill: [&dyn Fn(&WarmShared); 3] = [
            &|shared| {
                (0..POSITIONS_AHEAD_MAX).for_each(|number| shared.add_definition_change(0, position(number)))
            },
            &|shared| {
                (0..=POSITIONS_AHEAD_MAX)
                    .for_each(|number| shared.begin_transaction(0, gtid, position(number)))
            },
            &|shared| {
                let mark = LeadMark {
                    position: position(9),
                    events: EVENTS_AHEAD_MAX + 1,
                    searches: 0,
                    rows: 0,
                    timestamp: 1,
                };
                shared.add_mark(0, mark, |_| ());
            },
        ];
        for (number, fill) in fill.iter().enumerate() {
            for has_applier in [true, false] {
                let shared = WarmShared::new(vec![at(4)], WarmPace::Measured, 1, has_applier);
                assert!(shared.has_room(0), "{number}");
                fill(&shared);
                // Without an applier, no marks are kept, and readers do not wait.
                assert_eq!(shared.has_room(0), !has_applier, "{number}");
            }
        }
    }
}
