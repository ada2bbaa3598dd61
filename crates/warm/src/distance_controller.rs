//! Control of the distance to the applier and of the number of connections, from measurements. The caller passes the
//! time.

use std::time::Duration;

use crate::report::DiskWaits;
use crate::settings::SearchConnections;

/// Controller of the distance to the applier and of the number of connections.
#[derive(Clone, Debug)]
pub struct DistanceController {
    limits: ControlLimits,
    distance: u64,
    /// Distance above which growth is slow: a little less than the last distance that was too far.
    too_far_distance: u64,
    workers: usize,
    /// Shortest mean read time of the applier so far.
    read_min: Option<Duration>,
    /// Gain since the last decision on stopping.
    gain: ApplierGain,
    /// Gain since the last decision on sampling.
    sample: ApplierGain,
    /// True after the first decision on sampling.
    is_judged: bool,
    state: WarmState,
}

/// Limits of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLimits {
    /// Number of pages in the old sublist of the buffer pool.
    pub old_pages: u64,
    /// Number of connections.
    pub threads: SearchConnections,
    /// Number of CPU cores.
    pub cores: u64,
    /// Number of applier threads of the replica.
    pub appliers: u64,
}

/// Measurements since the previous step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlReading {
    /// Time since the previous step.
    pub elapsed: Duration,
    /// Number of searches.
    pub searches: u64,
    /// Searches that the applier has passed.
    pub passed: u64,
    /// Reads by the searches.
    pub ours: DiskWaits,
    /// Reads by the applier.
    pub applier: DiskWaits,
    /// True if the applier has work and its position has moved.
    pub is_lagging: bool,
    /// Threads of the server that run statements of other clients.
    pub others_running: u64,
}

/// State of warming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum WarmState {
    /// No measurements: distance and connections do not change.
    #[default]
    Unmeasured,
    /// No controller: the pace is fixed, or there is no applier.
    Fixed,
    /// Pages are read ahead of the applier.
    Ahead,
    /// The applier reads pages again that were evicted before it needed them.
    TooFar,
    /// The server or its disks are busy with other work.
    BackingOff(BusyResource),
    /// Nearly all pages are in memory: only a sample of the searches runs, to detect a change.
    Sampling,
    /// Warming saves no time.
    NoGain,
}

/// Resource that is busy with other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BusyResource {
    /// The server runs many statements of other clients.
    Server,
    /// The applier's reads take several times as long as the shortest mean so far.
    Disks,
}

/// Time saved over a period in which the applier had work.
#[derive(Clone, Copy, Debug, Default)]
struct ApplierGain {
    time: Duration,
    saved: Duration,
    searches: u64,
}

/// While sampling, one in this many statements runs. On a busy server without a spare core, all statements would cost a
/// tenth of the applier's time.
const SAMPLING_DIVISOR: u32 = 16;
/// Smallest useful number of searches ahead of the applier.
const DISTANCE_MIN: u64 = 32;
/// Smallest useful lead in time: the known position of the applier is up to this old.
const LEAD_MIN: Duration = Duration::from_millis(100);
/// Reads per second that determine the number of connections. More reads would take too much room in the buffer pool,
/// and few disks are faster.
const READS_PER_SECOND_GOAL: u32 = 6400;
/// Sequential reads for which a search may have to wait: the reads of two statements.
const READS_PER_SEARCH_MAX: u32 = 32;
/// Time without gain after which warming stops.
const NO_GAIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Searches needed before warming stops for lack of gain.
const GAIN_SEARCHES_MIN: u64 = 500;
/// Searches needed for a decision on sampling.
const SAMPLE_SEARCHES_MIN: u64 = 100;
/// A gain of less than this fraction (one in 50) of the applier's time counts as none.
const GAIN_DIVISOR: u32 = 50;
/// A gain of more than this fraction (one in 12) of the time ends sampling.
const RESUME_DIVISOR: u32 = 12;
/// Factor by which the applier's reads may slow down. Beyond it, the applier waits for the reads of the searches.
const READ_SLOWDOWN_MAX: u32 = 4;
/// Reads needed for a meaningful mean.
const MEAN_READS_MIN: u64 = 20;
/// Factor by which the distance may grow when most searches find their page in memory.
const DISTANCE_SCALE_MAX: u64 = 8;

impl DistanceController {
    /// Starts at the maximum distance, with the usual number of connections.
    pub fn new(bounds: ControlLimits) -> Self {
        let (distance, workers) = (bounds.distance_max(), bounds.threads.usual);
        Self {
            limits: bounds,
            distance,
            too_far_distance: u64::MAX,
            workers,
            read_min: None,
            gain: ApplierGain::default(),
            sample: ApplierGain::default(),
            is_judged: false,
            state: WarmState::default(),
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
    pub const fn sampling_divisor(&self) -> u32 {
        match self.state {
            WarmState::Sampling => SAMPLING_DIVISOR,
            _ => 1,
        }
    }

    /// Returns whether enough was measured to decide on sampling.
    pub const fn is_judged(&self) -> bool {
        self.is_judged
    }

    /// Adjusts distance and connections to new measurements.
    pub fn step(&mut self, reading: &ControlReading) -> WarmState {
        self.state = self.next_state(reading);
        match self.state {
            WarmState::Ahead | WarmState::Sampling => {
                self.workers = self.limits.connections(reading, self.workers);
                self.increase_distance(self.limits.distance_for_reading(reading));
            }
            WarmState::TooFar => {
                self.too_far_distance = self.distance - self.distance / 4;
                self.distance = (self.distance / 2).max(self.limits.distance_min(reading));
            }
            WarmState::BackingOff(_) => self.workers = (self.workers / 2).max(1),
            WarmState::NoGain | WarmState::Unmeasured | WarmState::Fixed => {}
        }
        self.state
    }

    fn next_state(&mut self, reading: &ControlReading) -> WarmState {
        if self.state == WarmState::NoGain {
            return WarmState::NoGain;
        }
        let saved = self.saved_time(reading);
        let (is_in_the_way, is_too_far) = (self.busy_resource(reading), self.is_too_far(reading));
        let is_sampling = self.state == WarmState::Sampling;
        if let (Some(busy), false) = (is_in_the_way, is_sampling) {
            // While backing off, a small gain says nothing about warming.
            self.gain = ApplierGain::default();
            return WarmState::BackingOff(busy);
        }
        if self.gains_nothing(reading, saved) {
            return WarmState::NoGain;
        }
        match is_sampling {
            true if is_too_far || saved * RESUME_DIVISOR > reading.elapsed => WarmState::Ahead,
            true => WarmState::Sampling,
            false if is_too_far => WarmState::TooFar,
            false if self.reads_little(reading, saved) => WarmState::Sampling,
            false => WarmState::Ahead,
        }
    }

    /// Increases the distance: quickly up to the last distance that was too far, and slowly beyond.
    fn increase_distance(&mut self, max: u64) {
        let step = if self.distance < self.too_far_distance { 8 } else { 64 };
        self.distance = (self.distance + self.distance / step + 1).min(max);
    }

    /// Returns the time saved for the applier. While sampling, extrapolates from the sample to all searches.
    fn saved_time(&self, reading: &ControlReading) -> Duration {
        let each = reading.ours.mean().unwrap_or_default();
        let pages =
            u32::try_from(reading.ours.pages).unwrap_or(u32::MAX).saturating_mul(self.sampling_divisor());
        each * pages / u32::try_from(self.limits.appliers.max(1)).unwrap_or(u32::MAX)
    }

    /// Returns whether almost nothing is read. Returns `false` if the applier has no work, or there are few searches.
    fn reads_little(&mut self, reading: &ControlReading, saved: Duration) -> bool {
        if !reading.is_lagging {
            return false;
        }
        self.sample.add(reading, saved);
        if self.sample.searches < SAMPLE_SEARCHES_MIN {
            return false;
        }
        self.is_judged = true;
        std::mem::take(&mut self.sample).is_little()
    }

    /// Returns whether warming saves next to none of the applier's time.
    fn gains_nothing(&mut self, reading: &ControlReading, saved: Duration) -> bool {
        if !reading.is_lagging {
            return false; // The applier had no work.
        }
        self.gain.add(reading, saved);
        if self.gain.time < NO_GAIN_TIMEOUT || self.gain.searches < GAIN_SEARCHES_MIN {
            return false;
        }
        std::mem::take(&mut self.gain).is_little()
    }

    /// Returns whether the applier reads many of the pages itself, and the distance can shrink.
    fn is_too_far(&self, reading: &ControlReading) -> bool {
        let reads_much = reading.passed >= MEAN_READS_MIN && reading.applier.pages > reading.passed / 4;
        reads_much && self.distance > self.limits.distance_min(reading)
    }

    /// Returns the resource that is too busy, if any: the server, or the disks on which the applier waits.
    fn busy_resource(&mut self, reading: &ControlReading) -> Option<BusyResource> {
        let each = reading.applier.mean().filter(|_| reading.applier.pages >= MEAN_READS_MIN);
        let is_slower = each.is_some_and(|each| {
            let min = self.read_min.map_or(each, |min| min.min(each));
            let is_slower = each > min * READ_SLOWDOWN_MAX;
            // With only one connection, the searches are not the cause: the disk has become slower.
            self.read_min = Some(if is_slower && self.workers == 1 { min + min / 4 } else { min });
            is_slower
        });
        match (reading.others_running > 2 * self.limits.cores, is_slower) {
            (true, _) => Some(BusyResource::Server),
            (false, true) => Some(BusyResource::Disks),
            (false, false) => None,
        }
    }
}

impl ApplierGain {
    fn add(&mut self, reading: &ControlReading, saved: Duration) {
        self.time += reading.elapsed;
        self.saved += saved;
        self.searches += reading.searches;
    }

    /// Returns whether the gain is next to none of the applier's time.
    fn is_little(&self) -> bool {
        self.saved * GAIN_DIVISOR < self.time
    }
}

impl ControlLimits {
    /// Returns the maximum distance: half of the old sublist, which reads of the applier and of other clients use, too.
    fn distance_max(&self) -> u64 {
        (self.old_pages / 2).max(DISTANCE_MIN)
    }

    /// Returns the number of connections: one more up to the usual number, then as many as needed for
    /// [`READS_PER_SECOND_GOAL`], each reading one page at a time.
    fn connections(&self, reading: &ControlReading, now: usize) -> usize {
        let SearchConnections { usual, max } = self.threads;
        if now < usual {
            return now + 1;
        }
        match reading.ours.mean().filter(|_| reading.ours.pages >= MEAN_READS_MIN) {
            Some(each) => ((each * READS_PER_SECOND_GOAL).as_secs_f64().ceil() as usize).clamp(usual, max),
            None => now,
        }
    }

    /// Returns the minimum distance, at which searches still finish before the applier needs their pages.
    fn distance_min(&self, reading: &ControlReading) -> u64 {
        let lead = LEAD_MIN.max(reading.ours.mean().unwrap_or_default() * READS_PER_SEARCH_MAX);
        let passed =
            reading.passed as f64 * lead.as_secs_f64() / reading.elapsed.as_secs_f64().max(f64::EPSILON);
        (passed as u64).clamp(DISTANCE_MIN, self.distance_max())
    }

    /// Returns the maximum distance for these measurements. Searches that find their page in memory read no page, so
    /// more of them may be ahead.
    fn distance_for_reading(&self, reading: &ControlReading) -> u64 {
        let (pages, searches) = (reading.ours.pages.max(1), reading.searches.max(1));
        let scale = (searches / pages).clamp(1, DISTANCE_SCALE_MAX);
        self.distance_max() * scale
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BusyResource, ControlLimits, ControlReading, DistanceController, WarmState};
    use crate::report::DiskWaits;
    use crate::settings::SearchConnections;

    const BOUNDS: ControlLimits =
        ControlLimits { old_pages: 8000, threads: SearchConnections::MEASURED, cores: 4, appliers: 1 };

    fn waits(pages: u64, each_us: u64) -> DiskWaits {
        DiskWaits { pages, time: Duration::from_micros(pages * each_us) }
    }

    /// Returns a reading of half a second with many reads, ahead of an applier with work.
    fn useful() -> ControlReading {
        ControlReading {
            elapsed: Duration::from_millis(500),
            searches: 2000,
            passed: 1800,
            ours: waits(1900, 1000),
            applier: waits(50, 1000),
            is_lagging: true,
            others_running: 1,
        }
    }

    fn steps(controller: &mut DistanceController, reading: &ControlReading, count: usize) -> Vec<WarmState> {
        (0..count).map(|_| controller.step(reading)).collect()
    }

    #[test]
    fn distance_stays_within_the_old_sublist() {
        let mut controller = DistanceController::new(BOUNDS);
        assert!(steps(&mut controller, &useful(), 200).iter().all(|state| *state == WarmState::Ahead));
        assert_eq!((controller.distance(), controller.workers()), (4000, 10));
        // Most pages are in memory, but the remaining reads are worth it.
        let hits = ControlReading { searches: 20_000, ours: waits(1000, 1000), ..useful() };
        steps(&mut controller, &hits, 200);
        assert_eq!(controller.distance(), 32_000);
        steps(&mut controller, &useful(), 1);
        assert_eq!(controller.distance(), 4000);
    }

    #[test]
    fn evicted_pages_reduce_the_distance() {
        let mut controller = DistanceController::new(BOUNDS);
        let evicted = ControlReading { applier: waits(900, 1000), ..useful() };
        assert_eq!(steps(&mut controller, &evicted, 2), [WarmState::TooFar; 2]);
        assert_eq!(controller.distance(), 1000);
        // 1800 passed in half a second: the minimum is a tenth of a second.
        steps(&mut controller, &evicted, 10);
        assert!((270..=405).contains(&controller.distance()), "{}", controller.distance());
        steps(&mut controller, &useful(), 300);
        assert_eq!((controller.distance(), controller.workers()), (4000, 10));
    }

    #[test]
    fn connections_grow_with_read_latency() {
        let check = |threads, each_us, expected| {
            let mut controller = DistanceController::new(ControlLimits { threads, ..BOUNDS });
            steps(&mut controller, &ControlReading { ours: waits(1900, each_us), ..useful() }, 3);
            assert_eq!(controller.workers(), expected, "{each_us}");
        };
        for (each_us, expected) in [(200, 10), (1000, 10), (3000, 20), (5000, 32), (50_000, 32)] {
            check(SearchConnections::MEASURED, each_us, expected);
            check(SearchConnections::fixed(4), each_us, 4);
        }
    }

    #[test]
    fn distance_grows_slowly_beyond_the_last_limit() {
        let mut controller = DistanceController::new(BOUNDS);
        steps(&mut controller, &ControlReading { applier: waits(900, 1000), ..useful() }, 1);
        assert_eq!(controller.distance(), 2000);
        let distances: Vec<u64> = (0..40)
            .map(|_| {
                controller.step(&useful());
                controller.distance()
            })
            .collect();
        let until = |expected: u64| distances.iter().position(|distance| *distance >= expected).unwrap();
        assert_eq!((until(3000), until(4000)), (3, 18));
    }

    #[test]
    fn connections_are_halved_while_the_server_is_busy() {
        let mut controller = DistanceController::new(BOUNDS);
        steps(&mut controller, &useful(), 3);
        let slow = ControlReading { applier: waits(50, 9000), ..useful() };
        assert_eq!(steps(&mut controller, &slow, 2), [WarmState::BackingOff(BusyResource::Disks); 2]);
        assert_eq!(controller.workers(), 2);
        let busy = ControlReading { others_running: 9, ..useful() };
        assert_eq!(steps(&mut controller, &busy, 2), [WarmState::BackingOff(BusyResource::Server); 2]);
        assert_eq!(controller.workers(), 1);
        steps(&mut controller, &useful(), 20);
        assert_eq!(controller.workers(), 10);
    }

    #[test]
    fn permanently_slow_disks_get_more_connections() {
        let mut controller = DistanceController::new(BOUNDS);
        steps(&mut controller, &useful(), 3);
        let slow = ControlReading { applier: waits(50, 9000), ours: waits(1900, 9000), ..useful() };
        let states = steps(&mut controller, &slow, 40);
        let back = states.iter().position(|state| *state == WarmState::Ahead).unwrap();
        assert!((5..12).contains(&back), "{states:?}");
        assert_eq!((states.last(), controller.workers()), (Some(&WarmState::Ahead), 32));
    }

    #[test]
    fn backing_off_does_not_count_as_no_gain() {
        let mut controller = DistanceController::new(BOUNDS);
        let busy = ControlReading { others_running: 9, ours: waits(2, 100), ..useful() };
        let states = steps(&mut controller, &busy, 100);
        assert!(
            states.iter().all(|state| *state == WarmState::BackingOff(BusyResource::Server)),
            "{states:?}"
        );
        assert_eq!(controller.step(&useful()), WarmState::Ahead);
    }

    #[test]
    fn searches_are_sampled_while_all_pages_are_cached() {
        let in_memory = ControlReading { ours: waits(2, 100), applier: DiskWaits::default(), ..useful() };
        let idle = ControlReading { is_lagging: false, ..in_memory };
        let few = ControlReading { searches: 30, ..in_memory };
        let mut controller = DistanceController::new(BOUNDS);
        // An applier without work, or a few searches, change nothing. The searches of several readings add up.
        assert_eq!(controller.step(&idle), WarmState::Ahead);
        assert_eq!(steps(&mut controller, &few, 3), [WarmState::Ahead; 3]);
        assert!(!controller.is_judged());
        assert_eq!((controller.step(&few), controller.sampling_divisor()), (WarmState::Sampling, 16));
        assert!(controller.is_judged());
        let busy = ControlReading { others_running: 9, ..in_memory };
        assert_eq!(controller.step(&busy), WarmState::Sampling);
        // Extrapolated by 16: 2 ms and 3 ms of 500 ms.
        assert_eq!(
            controller.step(&ControlReading { ours: waits(2, 1000), ..in_memory }),
            WarmState::Sampling
        );
        let cold = ControlReading { ours: waits(3, 1000), ..in_memory };
        assert_eq!((controller.step(&cold), controller.sampling_divisor()), (WarmState::Ahead, 1));
        // The applier reads the pages of skipped searches.
        steps(&mut controller, &in_memory, 1);
        let reads_itself = ControlReading { applier: waits(900, 1000), ..in_memory };
        assert_eq!(controller.step(&reads_itself), WarmState::Ahead);
    }

    #[test]
    fn warming_stops_without_a_gain() {
        let in_memory = ControlReading { ours: waits(2, 100), applier: DiskWaits::default(), ..useful() };
        let mut controller = DistanceController::new(BOUNDS);
        let states = steps(&mut controller, &in_memory, 40);
        assert_eq!(states.iter().position(|state| *state == WarmState::NoGain), Some(29));
        assert_eq!(states.last(), Some(&WarmState::NoGain));
        // An applier without work does not count as no gain, nor do a few searches.
        for reading in
            [ControlReading { is_lagging: false, ..in_memory }, ControlReading { searches: 1, ..in_memory }]
        {
            let mut controller = DistanceController::new(BOUNDS);
            assert!(!steps(&mut controller, &reading, 300).contains(&WarmState::NoGain), "{reading:?}");
        }
    }
}
