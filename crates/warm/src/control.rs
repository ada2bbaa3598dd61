//! Control of the distance to the applier and of the number of connections, from measurements. The caller passes the
//! time.

use std::time::Duration;

use crate::report::Waits;
use crate::settings::Threads;

/// Controller of the distance to the applier and of the number of connections.
#[derive(Clone, Debug)]
pub struct Controller {
    bounds: Bounds,
    distance: u64,
    /// Distance above which growth is slow: a little less than the distance that was too far last.
    far: u64,
    workers: usize,
    /// Shortest mean read time of the applier so far.
    read_min: Option<Duration>,
    /// Gain since the last decision on stopping.
    gain: Gain,
    /// Gain since the last decision on sampling.
    sample: Gain,
    /// True after the first decision on sampling.
    is_judged: bool,
    state: State,
}

/// Limits of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Number of pages in the old sublist of the buffer pool.
    pub pages_old: u64,
    /// Number of connections.
    pub threads: Threads,
    /// Number of CPU cores.
    pub cores: u64,
    /// Number of applier threads of the replica.
    pub appliers: u64,
}

/// Measurements since the previous step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time since the previous step.
    pub elapsed: Duration,
    /// Searches made.
    pub touches: u64,
    /// Searches that the applier has passed.
    pub passed: u64,
    /// Reads by the searches.
    pub ours: Waits,
    /// Reads by the applier.
    pub applier: Waits,
    /// True if the applier has work and its position has moved.
    pub is_behind: bool,
    /// Threads of the server that run statements of other clients.
    pub others_running: u64,
}

/// State of warming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No measurements: distance and connections stay as they are.
    #[default]
    Unmeasured,
    /// No controller: the pace is fixed, or there is no applier.
    Fixed,
    /// Pages are read ahead of the applier.
    Ahead,
    /// The applier reads pages again that were evicted before it needed them.
    TooFar,
    /// The server or its disks are busy with other work.
    BackingOff(Busy),
    /// Nearly all pages are in memory: only a sample of the searches runs, to notice when that changes.
    Sampling,
    /// Warming saves no time.
    NoGain,
}

/// Resource that is busy with other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// The server runs many statements of other clients.
    Server,
    /// The applier's reads take several times as long as the shortest mean so far.
    Disks,
}

/// Time saved over a period in which the applier had work.
#[derive(Clone, Copy, Debug, Default)]
struct Gain {
    time: Duration,
    saved: Duration,
    touches: u64,
}

/// While sampling, one of this many statements runs. On a busy server without a spare core, running all of them would
/// take a tenth of the applier's time.
const SAMPLED: u32 = 16;
/// Smallest useful number of searches ahead of the applier.
const DISTANCE_MIN: u64 = 32;
/// Smallest useful lead in time: the applier's position is known this late.
const LEAD_MIN: Duration = Duration::from_millis(100);
/// Reads per second that the connections are sized for. More would cost the server too much room in its buffer pool,
/// and few disks are faster.
const READS_PER_SECOND: u32 = 6400;
/// Sequential reads that a search may have to wait for: those of two statements.
const READS_BEFORE: u32 = 32;
/// Time without gain after which warming stops.
const PATIENCE: Duration = Duration::from_secs(15);
/// Searches needed before warming stops for lack of gain.
const TOUCHES_TO_JUDGE: u64 = 500;
/// Searches needed for a decision on sampling.
const TOUCHES_TO_SAMPLE: u64 = 100;
/// A gain of less than this fraction (one in 50) of the applier's time counts as none.
const GAIN_MIN: u32 = 50;
/// A gain of more than this fraction (one in 12) of the time ends sampling.
const AWAKENING: u32 = 12;
/// Factor by which the applier's reads may slow down. Beyond it, the applier waits for the reads of the searches.
const SLOWER_MAX: u32 = 4;
/// Reads needed for a meaningful mean.
const READS_TO_JUDGE: u64 = 20;
/// Factor by which the distance may grow when most searches find their page in memory.
const MISSES_MIN: u64 = 8;

impl Controller {
    /// Starts at the maximum distance, with the usual number of connections.
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

    /// Returns the number of searches that may be ahead of the applier.
    pub const fn distance(&self) -> u64 {
        self.distance
    }

    /// Returns the number of connections that may search.
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the sampling divisor `n`: one statement in `n` runs.
    pub const fn one_in(&self) -> u32 {
        match self.state {
            State::Sampling => SAMPLED,
            _ => 1,
        }
    }

    /// Returns whether enough was measured to decide on sampling.
    pub const fn is_judged(&self) -> bool {
        self.is_judged
    }

    /// Adjusts distance and connections to new measurements.
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
            // A small gain while backing off proves nothing.
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

    /// Increases the distance: quickly up to the one that was too far last, and slowly beyond.
    fn go_farther(&mut self, max: u64) {
        let step = if self.distance < self.far { 8 } else { 64 };
        self.distance = (self.distance + self.distance / step + 1).min(max);
    }

    /// Returns the time saved for the applier. While sampling, extrapolates from the sample to all searches.
    fn saved(&self, reading: &Reading) -> Duration {
        let each = reading.ours.each().unwrap_or_default();
        let pages = u32::try_from(reading.ours.pages).unwrap_or(u32::MAX).saturating_mul(self.one_in());
        each * pages / u32::try_from(self.bounds.appliers.max(1)).unwrap_or(u32::MAX)
    }

    /// Returns whether next to nothing is read. Without work for the applier, or with few searches, it returns `false`.
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

    /// Returns whether warming saves next to none of the applier's time.
    fn gains_nothing(&mut self, reading: &Reading, saved: Duration) -> bool {
        if !reading.is_behind {
            return false; // The applier had no work.
        }
        self.gain.add(reading, saved);
        if self.gain.time < PATIENCE || self.gain.touches < TOUCHES_TO_JUDGE {
            return false;
        }
        std::mem::take(&mut self.gain).is_little()
    }

    /// Returns whether the applier reads many of the pages itself, and the distance can shrink.
    fn is_too_far(&self, reading: &Reading) -> bool {
        let reads_much = reading.passed >= READS_TO_JUDGE && reading.applier.pages > reading.passed / 4;
        reads_much && self.distance > self.bounds.distance_min(reading)
    }

    /// Returns the resource that is too busy, if any: the server, or the disks on which the applier waits.
    fn is_in_the_way(&mut self, reading: &Reading) -> Option<Busy> {
        let each = reading.applier.each().filter(|_| reading.applier.pages >= READS_TO_JUDGE);
        let is_slower = each.is_some_and(|each| {
            let min = self.read_min.map_or(each, |min| min.min(each));
            let is_slower = each > min * SLOWER_MAX;
            // With one connection left, the searches are not the cause: the disk has become slower.
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

    /// Returns whether the gain is next to none of the applier's time.
    fn is_little(&self) -> bool {
        self.saved * GAIN_MIN < self.time
    }
}

impl Bounds {
    /// Returns the maximum distance: half of the old sublist, which reads of the applier and of other clients use, too.
    fn distance(&self) -> u64 {
        (self.pages_old / 2).max(DISTANCE_MIN)
    }

    /// Returns the number of connections: one more up to the usual number, then as many as needed for
    /// [`READS_PER_SECOND`], each reading one page at a time.
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

    /// Returns the minimum distance, at which searches still finish before the applier needs their pages.
    fn distance_min(&self, reading: &Reading) -> u64 {
        let lead = LEAD_MIN.max(reading.ours.each().unwrap_or_default() * READS_BEFORE);
        let passed =
            reading.passed as f64 * lead.as_secs_f64() / reading.elapsed.as_secs_f64().max(f64::EPSILON);
        (passed as u64).clamp(DISTANCE_MIN, self.distance())
    }

    /// Returns the maximum distance for these measurements. Searches that find their page in memory take no room, so
    /// more of them may be ahead.
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

    /// Half a second with many reads, ahead of an applier that has work.
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
        // Most pages are in memory, but the remaining reads are worth it.
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
        // 1800 passed in half a second: the minimum is a tenth of a second.
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
        // An applier without work, or few searches, decide nothing; few searches add up.
        assert_eq!(controller.step(&idle), State::Ahead);
        assert_eq!(steps(&mut controller, &few, 3), [State::Ahead; 3]);
        assert!(!controller.is_judged());
        assert_eq!((controller.step(&few), controller.one_in()), (State::Sampling, 16));
        assert!(controller.is_judged());
        let busy = Reading { others_running: 9, ..in_memory };
        assert_eq!(controller.step(&busy), State::Sampling);
        // Extrapolated by 16: 2 ms and 3 ms of 500 ms.
        assert_eq!(controller.step(&Reading { ours: waits(2, 1000), ..in_memory }), State::Sampling);
        let cold = Reading { ours: waits(3, 1000), ..in_memory };
        assert_eq!((controller.step(&cold), controller.one_in()), (State::Ahead, 1));
        // The applier reads the pages of skipped searches.
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
        // An applier without work proves nothing, nor do few searches.
        for reading in [Reading { is_behind: false, ..in_memory }, Reading { touches: 1, ..in_memory }] {
            let mut controller = Controller::new(BOUNDS);
            assert!(!steps(&mut controller, &reading, 300).contains(&State::NoGain), "{reading:?}");
        }
    }
}
