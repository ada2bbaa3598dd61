//! What the threads share: how far the applier is, what is to be searched for, and what came of it.

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

/// What the threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// There is something to search for, or it is over.
    work: Condvar,
    /// The applier has moved, a search was taken up, or it is over.
    room: Condvar,
    /// How often definitions of tables may have changed.
    definitions: AtomicU64,
    slow: Mutex<Slow>,
    pace: Pace,
    /// Is there one to stay ahead of?
    has_applier: bool,
    queue_max: usize,
}

/// A statement to run.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) lane: usize,
    pub(crate) epoch: u64,
    /// Behind all the changes that it is for.
    pub(crate) place: Place,
    pub(crate) search: Search,
}

/// What is searched for.
#[derive(Debug)]
pub(crate) enum Search {
    /// What changes of rows need.
    Batch(Batch),
    /// What a statement will read.
    Text(TextSearch),
}

/// A statement that reads what one of the log will, and the session that it needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextSearch {
    /// The statements that set the session.
    pub(crate) session: Arc<str>,
    /// Not always UTF-8.
    pub(crate) sql: Vec<u8>,
    /// The tables that it reads, by database and name.
    pub(crate) tables: Vec<String>,
}

#[derive(Debug, Default)]
struct State {
    lanes: Vec<Lane>,
    queue: VecDeque<Job>,
    counts: Counts,
    distance: u64,
    workers: usize,
    /// One statement in so many is run.
    one_in: u32,
    /// The server's numbers for the connections that search.
    connections: Vec<u32>,
    is_over: bool,
    failure: Option<Error>,
}

/// One channel.
#[derive(Debug)]
struct Lane {
    channel: Channel,
    /// How often its relay logs began anew.
    epoch: u64,
    lead: Lead,
    place: Option<Place>,
    /// The transaction that is being read.
    gtid: Option<Gtid>,
    /// Where the applier is by its own account: several workers tell it from time to time only.
    reported: Option<Place>,
    /// Transactions ahead of the applier, and where they end: it has come there once it counts them as executed.
    transactions: VecDeque<(Gtid, Place)>,
    /// Where definitions of tables change that the applier has not come to.
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

/// What a reader is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Go on.
    Go,
    /// Begin anew, where the applier is.
    Jump,
    /// Stop.
    Over,
}

/// Where to begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    pub(crate) place: Place,
    pub(crate) epoch: u64,
}

/// How long to wait for anything before it is looked at again.
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

    /// How often definitions of tables may have changed.
    pub(crate) fn definitions(&self) -> u64 {
        self.definitions.load(Ordering::SeqCst)
    }

    /// Definitions of tables may have changed.
    pub(crate) fn forget_definitions(&self) {
        self.definitions.fetch_add(1, Ordering::SeqCst);
    }

    /// A search of these tables took too long.
    pub(crate) fn was_slow(&self, tables: &[String]) {
        self.slow().add(tables, Instant::now());
    }

    /// Is one of these tables left alone for a while, as its searches took too long?
    pub(crate) fn is_slow(&self, tables: &[String]) -> bool {
        self.slow().has(tables, Instant::now())
    }

    /// So far ahead, with so many connections, and one statement in so many.
    pub(crate) fn set_limits(&self, distance: u64, workers: usize, one_in: u32) {
        let mut state = self.state();
        (state.distance, state.workers, state.one_in) = (distance, workers, one_in);
        drop(state);
        self.room.notify_all();
        self.work.notify_all();
    }

    /// Has all that is ahead of the appliers searched for again: some of it was left out.
    pub(crate) fn begin_anew(&self) {
        for lane in &mut self.state().lanes {
            lane.epoch += 1;
        }
        self.room.notify_all();
    }

    /// The replica says that its channels are there, and what it has executed.
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

    /// Calls everything off.
    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.room.notify_all();
        self.work.notify_all();
    }

    /// Calls everything off: this went wrong.
    pub(crate) fn fail(&self, error: Error) {
        self.state().failure.get_or_insert(error);
        self.end();
    }

    /// Runs a thread's work; a panic calls everything off.
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

    /// A statement that was to be searched for is left alone after all: others of its tables took too long meanwhile.
    pub(crate) fn leave_slow(&self) {
        self.count(|counts| {
            counts.statements -= 1;
            counts.discarded += 1;
            *counts.left.entry(Left::Slow).or_default() += 1;
        });
    }

    /// Waits a little, less if it is over.
    pub(crate) fn rest(&self, time: Duration) {
        let state = self.state();
        if !state.is_over {
            drop(self.room.wait_timeout_while(state, time, |state| !state.is_over));
        }
    }

    // What readers ask and say.

    /// Where a channel's applier is; waits until it is known. `None` when it is over.
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

    /// Which changes the applier makes, and in which databases.
    pub(crate) fn filter(&self, lane: usize) -> Filter {
        self.state().lanes[lane].channel.filter.clone()
    }

    /// Is there anything else to do than to read on?
    pub(crate) fn turn(&self, lane: usize, begin: Begin) -> Turn {
        self.state().turn(lane, begin)
    }

    /// Is it useful to read on from here?
    pub(crate) fn has_room(&self, lane: usize) -> bool {
        self.state().has_room(lane, self.pace)
    }

    /// Waits until it is useful to read on from here.
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

    /// Has the applier passed this place?
    pub(crate) fn is_passed(&self, lane: usize, place: Place) -> bool {
        self.state().lanes[lane].channel.place.is_some_and(|applier| place <= applier)
    }

    /// Has the applier changed these rows already, though their transaction has not ended? They come next.
    pub(crate) fn is_begun(&self, lane: usize, rows: u64) -> bool {
        let lane = &self.state().lanes[lane];
        lane.lead.is_behind(rows, lane.rows_under_way())
    }

    /// Would the applier be there first, by the rules of a fixed pace?
    pub(crate) fn is_too_close(&self, lane: usize) -> bool {
        match self.pace {
            Pace::Fixed(fixed) if self.has_applier => {
                self.state().lanes[lane].lead.ahead().events < fixed.offset_events
            }
            Pace::Measured | Pace::Fixed(_) => false,
        }
    }

    /// Searches were made up to there.
    pub(crate) fn mark(&self, lane: usize, mark: Mark, count: impl FnOnce(&mut Counts)) {
        let mut state = self.state();
        count(&mut state.counts);
        let lane = &mut state.lanes[lane];
        lane.place = Some(mark.place);
        // What nobody ever passes is not kept.
        if self.has_applier {
            lane.lead.add(mark);
            lane.pass();
        }
    }

    /// A transaction begins there; the one in front of it has ended.
    pub(crate) fn transaction(&self, lane: usize, gtid: Option<Gtid>, place: Place) {
        if self.has_applier {
            let lane = &mut self.state().lanes[lane];
            if let Some(ended) = std::mem::replace(&mut lane.gtid, gtid) {
                lane.transactions.push_back((ended, place));
            }
        }
    }

    /// Definitions of tables change there.
    pub(crate) fn definition_changes(&self, lane: usize, place: Place) {
        if self.has_applier {
            self.state().lanes[lane].changes.push_back(place);
        }
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.state().counts);
    }

    /// Has something searched for, unless it is one of those that are left out.
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

    // What workers ask and say.

    /// The next statement to run; `None` when it is over.
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

    // What whoever watches asks.

    pub(crate) fn connections(&self) -> Vec<u32> {
        self.state().connections.clone()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Searches that the appliers have passed, in all.
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

/// Events ahead of the applier, at most, even if all that they need is in memory. Bounds our own.
const EVENTS_AHEAD_MAX: u64 = 1 << 20;
/// Transactions, and changes of definitions, ahead of the applier, at most. Bounds our own memory.
const PLACES_AHEAD_MAX: usize = 1 << 18;

/// Statements that wait, for each connection: enough that none is idle, few enough that they are not old when their turn
/// comes.
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

    /// Is as much ahead of the applier as may be kept?
    fn is_full(&self) -> bool {
        self.lead.ahead().events > EVENTS_AHEAD_MAX
            || self.transactions.len() >= PLACES_AHEAD_MAX
            || self.changes.len() >= PLACES_AHEAD_MAX
    }

    /// Is a change of definitions passed?
    fn follow(&mut self, found: &Channel, executed: &GtidSet) -> bool {
        let has_gone_back = found.place < self.reported;
        let (before, under_way) = (self.channel.place, self.channel.under_way.take());
        let has_moved = found.place != self.reported;
        if found.filter != self.channel.filter {
            // What was read is not what it will make of it.
            self.epoch += 1;
        }
        self.reported = found.place;
        self.channel.clone_from(found);
        if !has_moved && self.channel.under_way.is_none() {
            self.channel.under_way = under_way; // It is asked for less often.
        }
        if let Some(lag) = found.lag_s {
            self.lag.sum += lag as f64;
            self.lag.count += 1;
        }
        if has_gone_back {
            // Its relay logs were removed, and begin anew.
            self.epoch += 1;
            self.transactions.clear();
            return true;
        }
        let mut applier = found.place.max(before);
        // One that was skipped is passed, and never executed.
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

    /// What the applier has come to is not ahead of it.
    fn pass(&mut self) {
        if let Some(applier) = self.channel.place {
            self.passed += self.lead.pass(applier, self.rows_under_way()).touches;
        }
    }

    /// Rows that the applier has changed beyond its place, if it is known that they come next.
    fn rows_under_way(&self) -> u64 {
        let next = self.transactions.front().map(|(gtid, _)| *gtid).or(self.gtid);
        let is_next = |under_way: &&UnderWay| under_way.gtid.is_none() || under_way.gtid == next;
        self.channel.under_way.iter().flatten().find(is_next).map_or(0, |under_way| under_way.rows)
    }

    /// The last place that the applier has come to, within a transaction, too.
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
        // Its own word comes late.
        check(100, "1-3", 400, 0);
        check(250, "1-3", 400, 0);
        // The fourth is under way still.
        check(250, "1-3:5", 400, 0);
        check(550, "1-5", 600, 0);
        // Its logs begin anew.
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
                // Without an applier nothing is kept, and nothing waited for.
                assert_eq!(shared.has_room(0), !has_applier, "{number}");
            }
        }
    }
}
