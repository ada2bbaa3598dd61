//! How far ahead to stay, and with how many connections, from what is measured. Time is handed in.

use std::time::Duration;

use crate::report::Waits;
use crate::settings::Threads;

/// Decides how far ahead to stay, and with how many connections.
#[derive(Clone, Debug)]
pub struct Controller {
    bounds: Bounds,
    distance: u64,
    /// Nearer than this it was too far lately.
    far: u64,
    workers: usize,
    /// A read of the applier, at its best so far.
    read_min: Option<Duration>,
    gain: Gain,
    /// The same since it was last seen whether next to nothing is read.
    sample: Gain,
    /// Was it ever seen?
    is_judged: bool,
    state: State,
}

/// What it keeps within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Pages that the old part of the buffer pool holds.
    pub pages_old: u64,
    /// Connections.
    pub threads: Threads,
    /// Threads of others that the machine can run at once.
    pub cores: u64,
    /// Threads of the replica that apply.
    pub appliers: u64,
}

/// What was measured since the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// How long that is.
    pub elapsed: Duration,
    /// Searches that were made.
    pub touches: u64,
    /// Searches that the applier has passed.
    pub passed: u64,
    /// What they read.
    pub ours: Waits,
    /// What the applier read.
    pub applier: Waits,
    /// Is the applier behind, and has it moved?
    pub is_behind: bool,
    /// Threads of the server that run statements of others.
    pub others_running: u64,
}

/// How it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing was measured: it goes on as it began.
    #[default]
    Unmeasured,
    /// Nobody decides: the pace is fixed, or there is no applier to stay ahead of.
    Fixed,
    /// Pages come in ahead of the applier.
    Ahead,
    /// The applier reads what was brought in: it has gone out of memory by then.
    TooFar,
    /// The server or its disks have much else to do.
    BackingOff(Busy),
    /// Next to nothing has to be read: a few searches are made, to notice when there is.
    Sampling,
    /// Nothing is gained.
    NoGain,
}

/// What has much else to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// The server: it runs many statements of others.
    Server,
    /// Its disks: the applier's own reads take many times as long as at their best.
    Disks,
}

/// What was gained lately, while there was something to gain.
#[derive(Clone, Copy, Debug, Default)]
struct Gain {
    time: Duration,
    saved: Duration,
    touches: u64,
}

/// Where next to nothing has to be read, one statement in so many is made. In a busy server without a core to spare, all
/// of them take a tenth of the applier's time.
const SAMPLED: u32 = 16;
/// Fewer searches ahead of the applier are of no use,
const DISTANCE_MIN: u64 = 32;
/// nor are as many as it passes in this time: that is how late its place is known.
const LEAD_MIN: Duration = Duration::from_millis(100);
/// Reads in a second that there are connections for: more are a server's to make room for, and few disks give more.
const READS_PER_SECOND: u32 = 6400;
/// Reads, one after another, that a search may have to wait for: those of two statements.
const READS_BEFORE: u32 = 32;
/// So long it must have gone on, with so many searches, before it is said that nothing is gained.
const PATIENCE: Duration = Duration::from_secs(15);
const TOUCHES_TO_JUDGE: u64 = 500;
/// With fewer searches, it is not said either that there is next to nothing to read.
const TOUCHES_TO_SAMPLE: u64 = 100;
/// Less of the applier's time than one part in so many is nothing.
const GAIN_MIN: u32 = 50;
/// More than one part in so many is something again, when a few searches are made.
const AWAKENING: u32 = 12;
/// An applier whose reads take so many times as long as they once did has to wait for ours.
const SLOWER_MAX: u32 = 4;
/// With fewer reads, their mean says little.
const READS_TO_JUDGE: u64 = 20;
/// The share of searches that found no page is taken for no less than one in so many: pages differ.
const MISSES_MIN: u64 = 8;

impl Controller {
    /// As far ahead as may be, with the usual connections.
    pub fn new(bounds: Bounds) -> Self {
        let (distance, workers) = (bounds.distance(), bounds.threads.usual);
        Self {
            bounds,
            distance,
            far: u64::MAX,
            workers,
            read_min: None,
            gain: Gain::default(),
            sample: Gain::default(),
            is_judged: false,
            state: State::default(),
        }
    }

    /// Searches that may be ahead of the applier.
    pub const fn distance(&self) -> u64 {
        self.distance
    }

    /// Connections that may search.
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// One statement in so many is to be made.
    pub const fn one_in(&self) -> u32 {
        match self.state {
            State::Sampling => SAMPLED,
            _ => 1,
        }
    }

    /// Is it known by now whether there is anything to read?
    pub const fn is_judged(&self) -> bool {
        self.is_judged
    }

    /// This was measured: goes nearer or farther.
    pub fn step(&mut self, reading: &Reading) -> State {
        self.state = self.next(reading);
        match self.state {
            State::Ahead | State::Sampling => {
                self.workers = self.bounds.threads(reading, self.workers);
                self.go_farther(self.bounds.distance_with(reading));
            }
            State::TooFar => {
                self.far = self.distance - self.distance / 4;
                self.distance = (self.distance / 2).max(self.bounds.distance_min(reading));
            }
            State::BackingOff(_) => self.workers = (self.workers / 2).max(1),
            State::NoGain | State::Unmeasured | State::Fixed => {}
        }
        self.state
    }

    fn next(&mut self, reading: &Reading) -> State {
        if self.state == State::NoGain {
            return State::NoGain;
        }
        let saved = self.saved(reading);
        let (is_in_the_way, is_too_far) = (self.is_in_the_way(reading), self.is_too_far(reading));
        let is_sampling = self.state == State::Sampling;
        if let (Some(busy), false) = (is_in_the_way, is_sampling) {
            // That little is gained by then proves nothing.
            self.gain = Gain::default();
            return State::BackingOff(busy);
        }
        if self.gains_nothing(reading, saved) {
            return State::NoGain;
        }
        match is_sampling {
            true if is_too_far || saved * AWAKENING > reading.elapsed => State::Ahead,
            true => State::Sampling,
            false if is_too_far => State::TooFar,
            false if self.is_little(reading, saved) => State::Sampling,
            false => State::Ahead,
        }
    }

    /// Quickly to where it was too far lately, and slowly beyond.
    fn go_farther(&mut self, max: u64) {
        let step = if self.distance < self.far { 8 } else { 64 };
        self.distance = (self.distance + self.distance / step + 1).min(max);
    }

    /// How much of the applier's time what we read for it is worth; of all that is ahead, where a few searches are made.
    fn saved(&self, reading: &Reading) -> Duration {
        let each = reading.ours.each().unwrap_or_default();
        let pages = u32::try_from(reading.ours.pages).unwrap_or(u32::MAX).saturating_mul(self.one_in());
        each * pages / u32::try_from(self.bounds.appliers.max(1)).unwrap_or(u32::MAX)
    }

    /// Is next to nothing read, just now? An applier that has caught up, and a few searches, do not tell.
    fn is_little(&mut self, reading: &Reading, saved: Duration) -> bool {
        if !reading.is_behind {
            return false;
        }
        self.sample.add(reading, saved);
        if self.sample.touches < TOUCHES_TO_SAMPLE {
            return false;
        }
        self.is_judged = true;
        std::mem::take(&mut self.sample).is_little()
    }

    /// Is what we read for the applier worth next to none of its time?
    fn gains_nothing(&mut self, reading: &Reading, saved: Duration) -> bool {
        if !reading.is_behind {
            return false; // There was nothing to gain.
        }
        self.gain.add(reading, saved);
        if self.gain.time < PATIENCE || self.gain.touches < TOUCHES_TO_JUDGE {
            return false;
        }
        std::mem::take(&mut self.gain).is_little()
    }

    /// Does the applier read much of what was searched for, and would it be of use to come nearer?
    fn is_too_far(&self, reading: &Reading) -> bool {
        let reads_much = reading.passed >= READS_TO_JUDGE && reading.applier.pages > reading.passed / 4;
        reads_much && self.distance > self.bounds.distance_min(reading)
    }

    /// Is there too much to do for the server, or do its disks keep the applier waiting?
    fn is_in_the_way(&mut self, reading: &Reading) -> Option<Busy> {
        let each = reading.applier.each().filter(|_| reading.applier.pages >= READS_TO_JUDGE);
        let is_slower = each.is_some_and(|each| {
            let min = self.read_min.map_or(each, |min| min.min(each));
            let is_slower = each > min * SLOWER_MAX;
            // With one connection left, it is not ours that it waits for: that is how the disk is now.
            self.read_min = Some(if is_slower && self.workers == 1 { min + min / 4 } else { min });
            is_slower
        });
        match (reading.others_running > 2 * self.bounds.cores, is_slower) {
            (true, _) => Some(Busy::Server),
            (false, true) => Some(Busy::Disks),
            (false, false) => None,
        }
    }
}

impl Gain {
    fn add(&mut self, reading: &Reading, saved: Duration) {
        self.time += reading.elapsed;
        self.saved += saved;
        self.touches += reading.touches;
    }

    /// Is it next to none of the applier's time?
    fn is_little(&self) -> bool {
        self.saved * GAIN_MIN < self.time
    }
}

impl Bounds {
    /// What the applier reads itself, and what others read, goes into the old part of the buffer pool, too.
    fn distance(&self) -> u64 {
        (self.pages_old / 2).max(DISTANCE_MIN)
    }

    /// Back to the usual ones, one at a time; then as many as read [`READS_PER_SECOND`] pages, each one at a time.
    fn threads(&self, reading: &Reading, now: usize) -> usize {
        let Threads { usual, max } = self.threads;
        if now < usual {
            return now + 1;
        }
        match reading.ours.each().filter(|_| reading.ours.pages >= READS_TO_JUDGE) {
            Some(each) => ((each * READS_PER_SECOND).as_secs_f64().ceil() as usize).clamp(usual, max),
            None => now,
        }
    }

    /// So many that they are made before the applier is there.
    fn distance_min(&self, reading: &Reading) -> u64 {
        let lead = LEAD_MIN.max(reading.ours.each().unwrap_or_default() * READS_BEFORE);
        let passed =
            reading.passed as f64 * lead.as_secs_f64() / reading.elapsed.as_secs_f64().max(f64::EPSILON);
        (passed as u64).clamp(DISTANCE_MIN, self.distance())
    }

    /// A search that finds its page in memory takes no room: then more of them may be ahead.
    fn distance_with(&self, reading: &Reading) -> u64 {
        let (pages, touches) = (reading.ours.pages.max(1), reading.touches.max(1));
        let scale = (touches / pages).clamp(1, MISSES_MIN);
        self.distance() * scale
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bounds, Busy, Controller, Reading, State};
    use crate::report::Waits;
    use crate::settings::Threads;

    const BOUNDS: Bounds = Bounds { pages_old: 8000, threads: Threads::MEASURED, cores: 4, appliers: 1 };

    fn waits(pages: u64, each_us: u64) -> Waits {
        Waits { pages, time: Duration::from_micros(pages * each_us) }
    }

    /// Half a second in which much was read ahead of an applier that is behind.
    fn useful() -> Reading {
        Reading {
            elapsed: Duration::from_millis(500),
            touches: 2000,
            passed: 1800,
            ours: waits(1900, 1000),
            applier: waits(50, 1000),
            is_behind: true,
            others_running: 1,
        }
    }

    fn steps(controller: &mut Controller, reading: &Reading, count: usize) -> Vec<State> {
        (0..count).map(|_| controller.step(reading)).collect()
    }

    #[test]
    fn it_stays_within_the_old_part_of_the_pool() {
        let mut controller = Controller::new(BOUNDS);
        assert!(steps(&mut controller, &useful(), 200).iter().all(|state| *state == State::Ahead));
        assert_eq!((controller.distance(), controller.workers()), (4000, 10));
        // Most is in memory, and what is not is worth it.
        let hits = Reading { touches: 20_000, ours: waits(1000, 1000), ..useful() };
        steps(&mut controller, &hits, 200);
        assert_eq!(controller.distance(), 32_000);
        steps(&mut controller, &useful(), 1);
        assert_eq!(controller.distance(), 4000);
    }

    #[test]
    fn what_goes_out_of_memory_was_too_far_ahead() {
        let mut controller = Controller::new(BOUNDS);
        let evicted = Reading { applier: waits(900, 1000), ..useful() };
        assert_eq!(steps(&mut controller, &evicted, 2), [State::TooFar; 2]);
        assert_eq!(controller.distance(), 1000);
        // 1800 in half a second, of which a tenth is the least.
        steps(&mut controller, &evicted, 10);
        assert!((270..=405).contains(&controller.distance()), "{}", controller.distance());
        steps(&mut controller, &useful(), 300);
        assert_eq!((controller.distance(), controller.workers()), (4000, 10));
    }

    #[test]
    fn there_are_connections_for_as_many_pages_as_are_wanted() {
        let check = |threads, each_us, wanted| {
            let mut controller = Controller::new(Bounds { threads, ..BOUNDS });
            steps(&mut controller, &Reading { ours: waits(1900, each_us), ..useful() }, 3);
            assert_eq!(controller.workers(), wanted, "{each_us}");
        };
        for (each_us, wanted) in [(200, 10), (1000, 10), (3000, 20), (5000, 32), (50_000, 32)] {
            check(Threads::MEASURED, each_us, wanted);
            check(Threads::fixed(4), each_us, 4);
        }
    }

    #[test]
    fn it_comes_back_slowly_to_where_it_was_too_far() {
        let mut controller = Controller::new(BOUNDS);
        steps(&mut controller, &Reading { applier: waits(900, 1000), ..useful() }, 1);
        assert_eq!(controller.distance(), 2000);
        let distances: Vec<u64> = (0..40)
            .map(|_| {
                controller.step(&useful());
                controller.distance()
            })
            .collect();
        let until = |wanted: u64| distances.iter().position(|distance| *distance >= wanted).unwrap();
        assert_eq!((until(3000), until(4000)), (3, 18));
    }

    #[test]
    fn it_backs_off_where_others_wait() {
        let mut controller = Controller::new(BOUNDS);
        steps(&mut controller, &useful(), 3);
        let slow = Reading { applier: waits(50, 9000), ..useful() };
        assert_eq!(steps(&mut controller, &slow, 2), [State::BackingOff(Busy::Disks); 2]);
        assert_eq!(controller.workers(), 2);
        let busy = Reading { others_running: 9, ..useful() };
        assert_eq!(steps(&mut controller, &busy, 2), [State::BackingOff(Busy::Server); 2]);
        assert_eq!(controller.workers(), 1);
        steps(&mut controller, &useful(), 20);
        assert_eq!(controller.workers(), 10);
    }

    #[test]
    fn a_disk_that_has_become_slower_is_one_whose_reads_are_worth_more() {
        let mut controller = Controller::new(BOUNDS);
        steps(&mut controller, &useful(), 3);
        let slow = Reading { applier: waits(50, 9000), ours: waits(1900, 9000), ..useful() };
        let states = steps(&mut controller, &slow, 40);
        let back = states.iter().position(|state| *state == State::Ahead).unwrap();
        assert!((5..12).contains(&back), "{states:?}");
        assert_eq!((states.last(), controller.workers()), (Some(&State::Ahead), 32));
    }

    #[test]
    fn little_is_gained_while_it_backs_off_and_that_is_no_reason_to_stop() {
        let mut controller = Controller::new(BOUNDS);
        let busy = Reading { others_running: 9, ours: waits(2, 100), ..useful() };
        let states = steps(&mut controller, &busy, 100);
        assert!(states.iter().all(|state| *state == State::BackingOff(Busy::Server)), "{states:?}");
        assert_eq!(controller.step(&useful()), State::Ahead);
    }

    #[test]
    fn where_all_is_in_memory_a_few_searches_are_made() {
        let in_memory = Reading { ours: waits(2, 100), applier: Waits::default(), ..useful() };
        let idle = Reading { is_behind: false, ..in_memory };
        let few = Reading { touches: 30, ..in_memory };
        let mut controller = Controller::new(BOUNDS);
        // An applier that has nothing to do, and a few searches, do not tell; many few do.
        assert_eq!(controller.step(&idle), State::Ahead);
        assert_eq!(steps(&mut controller, &few, 3), [State::Ahead; 3]);
        assert!(!controller.is_judged());
        assert_eq!((controller.step(&few), controller.one_in()), (State::Sampling, 16));
        assert!(controller.is_judged());
        let busy = Reading { others_running: 9, ..in_memory };
        assert_eq!(controller.step(&busy), State::Sampling);
        // Sixteen times 2 ms, and 3 ms, of 500.
        assert_eq!(controller.step(&Reading { ours: waits(2, 1000), ..in_memory }), State::Sampling);
        let cold = Reading { ours: waits(3, 1000), ..in_memory };
        assert_eq!((controller.step(&cold), controller.one_in()), (State::Ahead, 1));
        // The applier reads what was left out.
        steps(&mut controller, &in_memory, 1);
        let reads_itself = Reading { applier: waits(900, 1000), ..in_memory };
        assert_eq!(controller.step(&reads_itself), State::Ahead);
    }

    #[test]
    fn it_stops_where_nothing_is_gained() {
        let in_memory = Reading { ours: waits(2, 100), applier: Waits::default(), ..useful() };
        let mut controller = Controller::new(BOUNDS);
        let states = steps(&mut controller, &in_memory, 40);
        assert_eq!(states.iter().position(|state| *state == State::NoGain), Some(29));
        assert_eq!(states.last(), Some(&State::NoGain));
        // An applier that has nothing to do proves nothing, nor do a few searches.
        for reading in [Reading { is_behind: false, ..in_memory }, Reading { touches: 1, ..in_memory }] {
            let mut controller = Controller::new(BOUNDS);
            assert!(!steps(&mut controller, &reading, 300).contains(&State::NoGain), "{reading:?}");
        }
    }
}
