//! State shared by the threads: the applier's positions, the queue of searches, and the counters.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use binlog::gtid::{Gtid, GtidSet};
use filter::Filter;
use logs::ThreadPanic;

use crate::error::Error;
use crate::lead::{Lead, Mark};
use crate::place::Place;
use crate::replica::{Channel, UnderWay};
use crate::report::{ChannelStatus, Counts};
use crate::settings::Pace;
use crate::slow::Slow;
use crate::statement::Left;
use crate::window::Batch;

/// State shared by the threads.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Signals a queued search, or the end.
    work: Condvar,
    /// Signals progress of the applier, a search taken from the queue, or the end.
    room: Condvar,
    /// Version of the table definitions: counts possible changes.
    definitions: AtomicU64,
    slow: Mutex<Slow>,
    pace: Pace,
    /// True if there is an applier to stay ahead of.
    has_applier: bool,
    queue_max: usize,
}

/// A queued search statement.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) lane: usize,
    pub(crate) epoch: u64,
    /// End of the changes that it is for.
    pub(crate) place: Place,
    pub(crate) search: Search,
}

/// Contents of a search statement.
#[derive(Debug)]
pub(crate) enum Search {
    /// Searches for row changes.
    Batch(Batch),
    /// Search for the rows that a statement will read.
    Text(TextSearch),
}

/// A statement that reads the same rows as one in the log, with its session state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextSearch {
    /// SQL statements that set the session state.
    pub(crate) session: Arc<str>,
    /// SQL text, not always UTF-8.
    pub(crate) sql: Vec<u8>,
    /// Tables that it reads, as `database.table`.
    pub(crate) tables: Vec<String>,
}

#[derive(Debug, Default)]
struct State {
    lanes: Vec<Lane>,
    queue: VecDeque<Job>,
    counts: Counts,
    distance: u64,
    workers: usize,
    /// Sampling divisor: one of this many statements runs.
    one_in: u32,
    /// IDs of the connections that search.
    connections: Vec<u32>,
    is_over: bool,
    failure: Option<Error>,
}

/// State of one channel.
#[derive(Debug)]
struct Lane {
    channel: Channel,
    /// Number of restarts of reading. Searches of earlier epochs are dropped.
    epoch: u64,
    lead: Lead,
    place: Option<Place>,
    /// Transaction being read.
    gtid: Option<Gtid>,
    /// Last position that the replica reported. With several workers, it reports only from time to time.
    reported: Option<Place>,
    /// Transactions ahead of the applier, with the position of their end. The applier has reached it once the GTID is
    /// executed.
    transactions: VecDeque<(Gtid, Place)>,
    /// Positions of changes to table definitions ahead of the applier.
    changes: VecDeque<Place>,
    lag: Mean,
    /// Searches that the applier has passed.
    passed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

/// Next action of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Continue.
    Go,
    /// Restart at the applier's position.
    Jump,
    /// Stop.
    Over,
}

/// Start of a pass over the logs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    pub(crate) place: Place,
    pub(crate) epoch: u64,
}

/// Longest wait on a condition variable before the condition is checked again.
const GLANCE: Duration = Duration::from_millis(100);

impl Shared {
    pub(crate) fn new(channels: Vec<Channel>, pace: Pace, threads: usize, has_applier: bool) -> Self {
        let lanes = channels.into_iter().map(Lane::new).collect();
        let state = State { lanes, workers: threads, distance: u64::MAX, one_in: 1, ..State::default() };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            room: Condvar::new(),
            definitions: AtomicU64::new(0),
            slow: Mutex::default(),
            pace,
            has_applier,
            queue_max: threads * QUEUED_EACH,
        }
    }

    /// Returns the version of the table definitions.
    pub(crate) fn definitions(&self) -> u64 {
        self.definitions.load(Ordering::SeqCst)
    }

    /// Starts a new version of the table definitions, which may have changed.
    pub(crate) fn forget_definitions(&self) {
        self.definitions.fetch_add(1, Ordering::SeqCst);
    }

    /// Records that a search of these tables took too long.
    pub(crate) fn was_slow(&self, tables: &[String]) {
        self.slow().add(tables, Instant::now());
    }

    /// Returns whether one of these tables is excluded for a while, because a search of it took too long.
    pub(crate) fn is_slow(&self, tables: &[String]) -> bool {
        self.slow().has(tables, Instant::now())
    }

    /// Sets the limits: distance, number of connections, and sampling divisor.
    pub(crate) fn set_limits(&self, distance: u64, workers: usize, one_in: u32) {
        let mut state = self.state();
        (state.distance, state.workers, state.one_in) = (distance, workers, one_in);
        drop(state);
        self.room.notify_all();
        self.work.notify_all();
    }

    /// Restarts all readers at their applier's position, because sampling has skipped searches.
    pub(crate) fn begin_anew(&self) {
        for lane in &mut self.state().lanes {
            lane.epoch += 1;
        }
        self.room.notify_all();
    }

    /// Updates the channels' positions and the executed GTIDs.
    pub(crate) fn applied(&self, channels: &[Channel], executed: &GtidSet) {
        let mut state = self.state();
        for lane in &mut state.lanes {
            let Some(found) = channels.iter().find(|channel| channel.name == lane.channel.name) else {
                continue;
            };
            if lane.follow(found, executed) {
                self.forget_definitions();
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
    }

    /// Ends all threads because of an error. The first error counts.
    pub(crate) fn fail(&self, error: Error) {
        self.state().failure.get_or_insert(error);
        self.end();
    }

    /// Runs a thread's work. A panic ends all threads.
    pub(crate) fn run_thread(&self, task: &'static str, work: impl FnOnce()) {
        if let Err(panic) = ThreadPanic::catch(task, work) {
            self.fail(panic.into());
        }
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.state().failure.take()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Counts a statement as skipped after all: searches of its tables took too long meanwhile.
    pub(crate) fn leave_slow(&self) {
        self.count(|counts| {
            counts.statements -= 1;
            counts.discarded += 1;
            *counts.left.entry(Left::Slow).or_default() += 1;
        });
    }

    /// Waits for this time, or until the end.
    pub(crate) fn rest(&self, time: Duration) {
        let state = self.state();
        if !state.is_over {
            drop(self.room.wait_timeout_while(state, time, |state| !state.is_over));
        }
    }

    // Methods for readers.

    /// Waits until the position of a channel's applier is known, and starts a pass there. `None` at the end.
    pub(crate) fn begin(&self, lane: usize) -> Option<Begin> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            let found = &mut state.lanes[lane];
            if let Some(place) = found.channel.place {
                found.lead.clear();
                found.changes.clear();
                found.transactions.clear();
                found.gtid = None;
                found.place = Some(place);
                return Some(Begin { place, epoch: found.epoch });
            }
            state = self.waited(state);
        }
    }

    /// Returns the channel's replication filter.
    pub(crate) fn filter(&self, lane: usize) -> Filter {
        self.state().lanes[lane].channel.filter.clone()
    }

    /// Returns the next action of a reader.
    pub(crate) fn turn(&self, lane: usize, begin: Begin) -> Turn {
        self.state().turn(lane, begin)
    }

    /// Returns whether more searches may be ahead of the applier.
    pub(crate) fn has_room(&self, lane: usize) -> bool {
        self.state().has_room(lane, self.pace)
    }

    /// Waits until more searches may be ahead of the applier. Returns the next action of the reader.
    pub(crate) fn wait_for_room(&self, lane: usize, begin: Begin) -> Turn {
        let mut state = self.state();
        loop {
            let turn = state.turn(lane, begin);
            if turn != Turn::Go || state.has_room(lane, self.pace) {
                return turn;
            }
            let pause = match self.pace {
                Pace::Measured => GLANCE,
                Pace::Fixed(fixed) => Duration::from_millis(fixed.millis_sleep),
            };
            state = self.room.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns whether the applier has passed this place.
    pub(crate) fn is_passed(&self, lane: usize, place: Place) -> bool {
        self.state().lanes[lane].channel.place.is_some_and(|applier| place <= applier)
    }

    /// Returns whether the applier has already changed the next `rows` rows, in a transaction that has not ended.
    pub(crate) fn is_begun(&self, lane: usize, rows: u64) -> bool {
        let lane = &self.state().lanes[lane];
        lane.lead.is_behind(rows, lane.rows_under_way())
    }

    /// Returns whether the applier would be faster than a search, by the limits of a fixed pace.
    pub(crate) fn is_too_close(&self, lane: usize) -> bool {
        match self.pace {
            Pace::Fixed(fixed) if self.has_applier => {
                self.state().lanes[lane].lead.ahead().events < fixed.offset_events
            }
            Pace::Measured | Pace::Fixed(_) => false,
        }
    }

    /// Adds a mark: searches were made up to there.
    pub(crate) fn mark(&self, lane: usize, mark: Mark, count: impl FnOnce(&mut Counts)) {
        let mut state = self.state();
        count(&mut state.counts);
        let lane = &mut state.lanes[lane];
        lane.place = Some(mark.place);
        // Without an applier, nothing would ever remove the mark.
        if self.has_applier {
            lane.lead.add(mark);
            lane.pass();
        }
    }

    /// Starts a transaction at this place, which ends the previous one.
    pub(crate) fn transaction(&self, lane: usize, gtid: Option<Gtid>, place: Place) {
        if self.has_applier {
            let lane = &mut self.state().lanes[lane];
            if let Some(ended) = std::mem::replace(&mut lane.gtid, gtid) {
                lane.transactions.push_back((ended, place));
            }
        }
    }

    /// Adds a change of table definitions at this place.
    pub(crate) fn definition_changes(&self, lane: usize, place: Place) {
        if self.has_applier {
            self.state().lanes[lane].changes.push_back(place);
        }
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.state().counts);
    }

    /// Queues a search, unless sampling skips it.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.state();
        let batches = state.counts.pushed + state.counts.skipped;
        if !batches.is_multiple_of(u64::from(state.one_in)) {
            state.counts.skipped += 1;
            return;
        }
        while state.queue.len() >= self.queue_max && !state.is_over {
            state = self.waited(state);
        }
        state.counts.pushed += 1;
        state.queue.push_back(job);
        drop(state);
        self.work.notify_one();
    }

    // Methods for workers.

    /// Returns the next search to run; `None` at the end.
    pub(crate) fn next(&self, worker: usize) -> Option<Job> {
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
                let lane = &state.lanes[job.lane];
                let is_passed = lane.reached().is_some_and(|applier| job.place <= applier);
                if !is_passed && job.epoch == lane.epoch {
                    return Some(job);
                }
                state.counts.old += 1;
                continue;
            }
            let waited = self.work.wait_timeout(state, GLANCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn connected(&self, id: u32) {
        self.state().connections.push(id);
    }

    pub(crate) fn disconnected(&self, id: u32) {
        self.state().connections.retain(|other| *other != id);
    }

    // Methods for the supervisor.

    pub(crate) fn connections(&self) -> Vec<u32> {
        self.state().connections.clone()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Returns the number of searches that the appliers have passed.
    pub(crate) fn passed(&self) -> u64 {
        self.state().lanes.iter().map(|lane| lane.passed).sum()
    }

    pub(crate) fn queued(&self) -> usize {
        self.state().queue.len()
    }

    pub(crate) fn limits(&self) -> (u64, usize) {
        let state = self.state();
        (state.distance, state.workers)
    }

    pub(crate) fn channels(&self) -> Vec<ChannelStatus> {
        self.state().lanes.iter().map(Lane::status).collect()
    }

    fn waited<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.room.wait_timeout(state, GLANCE).unwrap_or_else(PoisonError::into_inner).0
    }

    fn slow(&self) -> MutexGuard<'_, Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn turn(&self, lane: usize, begin: Begin) -> Turn {
        match (self.is_over, self.lanes[lane].epoch == begin.epoch) {
            (true, _) => Turn::Over,
            (false, false) => Turn::Jump,
            (false, true) => Turn::Go,
        }
    }

    fn has_room(&self, lane: usize, pace: Pace) -> bool {
        let (lead, is_full) = (&self.lanes[lane].lead, self.lanes[lane].is_full());
        match pace {
            _ if is_full => false,
            Pace::Measured => lead.ahead().touches < self.distance / self.lanes.len() as u64,
            Pace::Fixed(fixed) => lead.seconds() <= fixed.seconds_prefetch,
        }
    }
}

/// Events ahead of the applier, even if all their pages are in memory. Bounds our own memory.
const EVENTS_AHEAD_MAX: u64 = 1 << 20;
/// Transactions, and changes of definitions, ahead of the applier. Bounds our own memory.
const PLACES_AHEAD_MAX: usize = 1 << 18;

/// Queued search statements per connection: enough that no connection is idle, few enough that they are not out of date
/// when they run.
const QUEUED_EACH: usize = 4;

impl Lane {
    fn new(channel: Channel) -> Self {
        let (lead, changes, transactions) = (Lead::default(), VecDeque::new(), VecDeque::new());
        let reported = channel.place;
        Self {
            channel,
            epoch: 0,
            lead,
            place: None,
            gtid: None,
            reported,
            transactions,
            changes,
            lag: Mean::default(),
            passed: 0,
        }
    }

    /// Returns whether the limits of what may be ahead of the applier are reached.
    fn is_full(&self) -> bool {
        self.lead.ahead().events > EVENTS_AHEAD_MAX
            || self.transactions.len() >= PLACES_AHEAD_MAX
            || self.changes.len() >= PLACES_AHEAD_MAX
    }

    /// Updates the channel. Returns whether the applier has passed a change of table definitions.
    fn follow(&mut self, found: &Channel, executed: &GtidSet) -> bool {
        let has_gone_back = found.place < self.reported;
        let (before, under_way) = (self.channel.place, self.channel.under_way.take());
        let has_moved = found.place != self.reported;
        if found.filter != self.channel.filter {
            // The changes so far were read with another filter.
            self.epoch += 1;
        }
        self.reported = found.place;
        self.channel.clone_from(found);
        if !has_moved && self.channel.under_way.is_none() {
            self.channel.under_way = under_way; // This is queried less often than the position.
        }
        if let Some(lag) = found.lag_s {
            self.lag.sum += lag as f64;
            self.lag.count += 1;
        }
        if has_gone_back {
            // Its relay logs were removed, and start again.
            self.epoch += 1;
            self.transactions.clear();
            return true;
        }
        let mut applier = found.place.max(before);
        // A transaction that was skipped is passed without being executed.
        let is_over =
            |(gtid, place): &&(Gtid, Place)| executed.contains(*gtid) || Some(*place) <= found.place;
        while let Some((_, place)) = self.transactions.front().filter(is_over) {
            applier = applier.max(Some(*place));
            self.transactions.pop_front();
        }
        self.channel.place = applier;
        self.pass();
        let Some(applier) = applier else { return false };
        let passed = self.changes.iter().take_while(|place| **place <= applier).count();
        self.changes.drain(..passed);
        passed > 0
    }

    /// Removes the marks that the applier has passed.
    fn pass(&mut self) {
        if let Some(applier) = self.channel.place {
            self.passed += self.lead.pass(applier, self.rows_under_way()).touches;
        }
    }

    /// Returns the number of rows that the applier has changed beyond its place, if they are the next ones in the log.
    fn rows_under_way(&self) -> u64 {
        let next = self.transactions.front().map(|(gtid, _)| *gtid).or(self.gtid);
        let is_next = |under_way: &&UnderWay| under_way.gtid.is_none() || under_way.gtid == next;
        self.channel.under_way.iter().flatten().find(is_next).map_or(0, |under_way| under_way.rows)
    }

    /// Returns the last place that the applier has reached, including places within a transaction.
    fn reached(&self) -> Option<Place> {
        self.channel.place.max(self.lead.reached())
    }

    fn status(&self) -> ChannelStatus {
        ChannelStatus {
            name: self.channel.name.clone(),
            log: self.channel.log.clone(),
            applier: self.channel.place,
            is_applying: self.channel.is_applying,
            place: self.place,
            touches_ahead: self.lead.ahead().touches,
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

    use super::{EVENTS_AHEAD_MAX, Lane, PLACES_AHEAD_MAX, Shared};
    use crate::lead::Mark;
    use crate::place::Place;
    use crate::replica::{Channel, UnderWay};
    use crate::settings::Pace;

    const UUID: &str = "00000000-0000-0000-0000-000000000001";

    fn set(intervals: &str) -> GtidSet {
        format!("{UUID}:{intervals}").parse().unwrap()
    }

    fn at(offset: u64) -> Channel {
        Channel::without_applier(Place { log: 1.into(), offset })
    }

    #[test]
    fn a_panic_of_a_thread_ends_the_others_with_its_message() {
        let shared = Shared::new(vec![at(100)], Pace::Measured, 2, true);
        thread::scope(|scope| {
            scope.spawn(|| while shared.next(0).is_some() {});
            scope.spawn(|| shared.run_thread("searches", || panic!("injected")));
        });
        let error = shared.take_failure().unwrap().to_string();
        assert!(error.ends_with("panicked: injected; please report this defect"), "{error}");
    }

    #[test]
    fn what_was_executed_is_passed_before_workers_tell() {
        let mut lane = Lane::new(at(100));
        for (gtid, offset) in set("1-5").gtids().zip([200, 300, 400, 500, 600]) {
            lane.transactions.push_back((gtid, Place { log: 1.into(), offset }));
        }
        let mut check = |reported, executed, wanted, epoch| {
            lane.follow(&at(reported), &set(executed));
            assert_eq!((lane.channel.place.unwrap().offset, lane.epoch), (wanted, epoch), "{executed}");
        };
        check(100, "1-2", 300, 0);
        // The reported position is late.
        check(100, "1-3", 400, 0);
        check(250, "1-3", 400, 0);
        // The fourth transaction has not ended.
        check(250, "1-3:5", 400, 0);
        check(550, "1-5", 600, 0);
        // Its logs start again.
        check(120, "1-5", 120, 1);
    }

    #[test]
    fn rows_count_of_the_transaction_that_comes_next() {
        let gtids: Vec<_> = set("1-3").gtids().collect();
        let mut lane = Lane::new(at(100));
        lane.transactions.push_back((gtids[0], Place { log: 1.into(), offset: 200 }));
        lane.gtid = Some(gtids[1]);
        let mut check = |executed, under_way: Option<usize>, wanted| {
            let gtid = under_way.map(|number| gtids[number]);
            let channel = Channel { under_way: Some(vec![UnderWay { rows: 50, gtid }]), ..at(100) };
            lane.follow(&channel, &set(executed));
            assert_eq!(lane.rows_under_way(), wanted, "{executed} {under_way:?}");
        };
        check("3", Some(0), 50);
        check("3", Some(1), 0);
        check("3", None, 50);
        check("1:3", Some(1), 50);
        check("1:3", Some(0), 0);
    }

    #[test]
    fn one_that_was_skipped_does_not_stay() {
        let mut lane = Lane::new(at(100));
        for (gtid, offset) in set("1-3").gtids().zip([200, 300, 400]) {
            lane.transactions.push_back((gtid, Place { log: 1.into(), offset }));
        }
        lane.follow(&at(200), &set("2"));
        assert_eq!((lane.channel.place.unwrap().offset, lane.transactions.len()), (300, 1));
    }

    #[test]
    fn what_is_ahead_is_bounded_whatever_it_is() {
        let place = |number: usize| Place { log: 1.into(), offset: number as u64 };
        let gtid = set("1").gtids().next();
        let fill: [&dyn Fn(&Shared); 3] = [
            &|shared| (0..PLACES_AHEAD_MAX).for_each(|number| shared.definition_changes(0, place(number))),
            &|shared| (0..=PLACES_AHEAD_MAX).for_each(|number| shared.transaction(0, gtid, place(number))),
            &|shared| {
                let mark =
                    Mark { place: place(9), events: EVENTS_AHEAD_MAX + 1, touches: 0, rows: 0, timestamp: 1 };
                shared.mark(0, mark, |_| ());
            },
        ];
        for (number, fill) in fill.iter().enumerate() {
            for has_applier in [true, false] {
                let shared = Shared::new(vec![at(4)], Pace::Measured, 1, has_applier);
                assert!(shared.has_room(0), "{number}");
                fill(&shared);
                // Without an applier, nothing is kept, and readers do not wait.
                assert_eq!(shared.has_room(0), !has_applier, "{number}");
            }
        }
    }
}
