//! How far ahead to stay, and with how many connections, from what is measured. Time is handed in.

use std::time::Duration;

use crate::report::Waits;

/// Decides how far ahead to stay, and with how many connections.
#[derive(Clone, Debug)]
pub struct Controller {
    bounds: Bounds,
    distance: u64,
    workers: usize,
    /// A read of the applier, at its best so far.
    read_min: Option<Duration>,
    gain: Gain,
    state: State,
}

/// What it keeps within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Pages that the old part of the buffer pool holds.
    pub pages_old: u64,
    /// Connections, at most.
    pub threads: usize,
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

/// So long it must have gone on, with so many searches, before it is said that nothing is gained.
const PATIENCE: Duration = Duration::from_secs(15);
const TOUCHES_TO_JUDGE: u64 = 500;
/// Less of the applier's time than one part in so many is nothing.
const GAIN_MIN: u32 = 50;
/// An applier whose reads take so many times as long as they once did has to wait for ours.
const SLOWER_MAX: u32 = 4;
/// With fewer reads, their mean says little.
const READS_TO_JUDGE: u64 = 20;
/// The share of searches that found no page is taken for no less than one in so many: pages differ.
const MISSES_MIN: u64 = 8;

impl Controller {
    /// As far ahead as may be, with all connections.
    pub fn new(bounds: Bounds) -> Self {
        let gain = Gain::default();
        let (distance, workers) = (bounds.distance(), bounds.threads);
        Self { bounds, distance, workers, read_min: None, gain, state: State::default() }
    }

    /// Searches that may be ahead of the applier.
    pub const fn distance(&self) -> u64 {
        self.distance
    }

    /// Connections that may search.
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// This was measured: goes nearer or farther.
    pub fn step(&mut self, reading: &Reading) -> State {
        let (gains_nothing, is_in_the_way) = (self.gains_nothing(reading), self.is_in_the_way(reading));
        self.state = match (self.state, gains_nothing, is_in_the_way, is_too_far(reading)) {
            (State::NoGain, ..) | (_, true, ..) => State::NoGain,
            (_, _, Some(busy), _) => State::BackingOff(busy),
            (.., true) => State::TooFar,
            _ => State::Ahead,
        };
        match self.state {
            State::Ahead => {
                self.workers = (self.workers + 1).min(self.bounds.threads);
                let max = self.bounds.distance_with(reading);
                self.distance = (self.distance + self.distance / 8 + 1).min(max);
            }
            State::TooFar => self.distance = (self.distance / 2).max(self.bounds.distance_min()),
            State::BackingOff(_) => self.workers = (self.workers / 2).max(1),
            State::NoGain | State::Unmeasured | State::Fixed => {}
        }
        self.state
    }

    /// Is what we read for the applier worth next to none of its time?
    fn gains_nothing(&mut self, reading: &Reading) -> bool {
        if !reading.is_behind {
            return false; // There was nothing to gain.
        }
        let each = reading.ours.each().unwrap_or_default();
        let pages = u32::try_from(reading.ours.pages).unwrap_or(u32::MAX);
        self.gain.time += reading.elapsed;
        self.gain.saved += each * pages / u32::try_from(self.bounds.appliers.max(1)).unwrap_or(u32::MAX);
        self.gain.touches += reading.touches;
        if self.gain.time < PATIENCE || self.gain.touches < TOUCHES_TO_JUDGE {
            return false;
        }
        let gain = std::mem::take(&mut self.gain);
        gain.saved * GAIN_MIN < gain.time
    }

    /// Is there too much to do for the server, or do its disks keep the applier waiting?
    fn is_in_the_way(&mut self, reading: &Reading) -> Option<Busy> {
        let each = reading.applier.each().filter(|_| reading.applier.pages >= READS_TO_JUDGE);
        let is_slower = each.is_some_and(|each| {
            let min = self.read_min.map_or(each, |min| min.min(each));
            self.read_min = Some(min);
            each > min * SLOWER_MAX
        });
        match (reading.others_running > 2 * self.bounds.cores, is_slower) {
            (true, _) => Some(Busy::Server),
            (false, true) => Some(Busy::Disks),
            (false, false) => None,
        }
    }
}

impl Bounds {
    /// What the applier reads itself, and what others read, goes into the old part of the buffer pool, too.
    fn distance(&self) -> u64 {
        (self.pages_old / 2).max(self.distance_min())
    }

    /// A search that finds its page in memory takes no room: then more of them may be ahead.
    fn distance_with(&self, reading: &Reading) -> u64 {
        let (pages, touches) = (reading.ours.pages.max(1), reading.touches.max(1));
        let scale = (touches / pages).clamp(1, MISSES_MIN);
        self.distance() * scale
    }

    const fn distance_min(&self) -> u64 {
        // So that each connection has a statement or two to run.
        32 * self.threads as u64
    }
}

/// Does the applier read much of what was searched for?
fn is_too_far(reading: &Reading) -> bool {
    reading.passed >= READS_TO_JUDGE && reading.applier.pages > reading.passed / 4
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bounds, Busy, Controller, Reading, State};
    use crate::report::Waits;

    const BOUNDS: Bounds = Bounds { pages_old: 8000, threads: 10, cores: 4, appliers: 1 };

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
        steps(&mut controller, &evicted, 10);
        assert_eq!(controller.distance(), 320);
        steps(&mut controller, &useful(), 30);
        assert_eq!((controller.distance(), controller.workers()), (4000, 10));
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
