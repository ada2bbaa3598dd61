//! A run of warming: readers, workers, and the supervision of both.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use binlog::gtid::GtidSet;
use logs::{Store, starts_as_log};
use servers::ServerAddress;

use crate::distance_controller::{ControlLimits, ControlReading, DistanceController, WarmState};
use crate::error::WarmError;
use crate::external_applier::{AppliedLogs, ExternalApplier, first_position};
use crate::read_counters::{self, ReadTotals};
use crate::relay_log_reader::RelayLogReader;
use crate::relay_position::RelayPosition;
use crate::replica_monitor::{ReplicaChannel, ReplicaFacts, ReplicaMonitor};
use crate::report::{DiskReads, WarmEndReason, WarmRate, WarmReport, WarmStatus};
use crate::search_window::SearchWindow;
use crate::search_worker;
use crate::settings::{ExternalApplierSettings, NonReplicaPolicy, SearchConnections, WarmPace, WarmSettings};
use crate::warm_shared::{SearchLimits, WarmShared};

/// Observer of a run.
pub trait WarmObserver {
    /// Receives the current status; `Break` cancels the run.
    fn observe(&mut self, status: &WarmStatus) -> ControlFlow<()>;
}

/// Interval at which the applier's position is queried.
const POSITION_POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Interval at which rows changed by open transactions are queried. The server does not update this information more
/// often.
const ROWS_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Interval at which disk reads are queried.
const MEASURE_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which disk reads are queried before the first decision on sampling.
const FIRST_MEASURE_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which the applier's position is queried while sampling: each query costs the server time.
const SAMPLING_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Pause before another attempt to connect to the replica.
const RETRY_BACKOFF: Duration = Duration::from_millis(500);

/// Warms a replica ahead of its applier until cancelled.
///
/// # Errors
///
/// Fails if the first connection fails, the server is no replica or refuses, or its relay logs cannot be read. Later
/// temporary errors are retried.
pub fn warm(settings: &WarmSettings, observer: &mut dyn WarmObserver) -> Result<WarmReport, WarmError> {
    let mut replica = ReplicaMonitor::open(&settings.admin)?;
    let mut channels = channels(settings, &mut replica)?;
    // Rows that are changed already need no search.
    replica.load_uncommitted(&mut channels)?;
    let logs = relay_log_paths(settings, &replica.properties, &channels)?;
    check_logs(&logs)?;
    search_worker::read_only(&settings.address)
        .map_err(WarmError::server("log in to the replica for searches"))?;
    let has_applier = settings.non_replica == NonReplicaPolicy::Refuse || !replica.channels()?.is_empty();
    let warm_run = WarmRun {
        address: &settings.address,
        admin: &settings.admin,
        keyring: settings.keyring.as_deref(),
        threads: settings.threads,
        pace: settings.pace,
        appliers: replica.properties.workers,
        has_applier,
        applier_kind: ApplierKind::Replica,
    };
    warm_run.run(replica, channels, logs.into_iter().map(AppliedLogs::Store).collect(), observer)
}

/// Warms a server ahead of an applier outside of it, until the applier ends or the run is cancelled.
///
/// # Errors
///
/// Fails if the first connection fails, the server refuses, or the logs cannot be read. Later temporary errors are
/// retried.
pub fn warm_for(
    applier: &ExternalApplier,
    settings: &ExternalApplierSettings,
    observer: &mut dyn WarmObserver,
) -> Result<WarmReport, WarmError> {
    let server = ReplicaMonitor::open_without_replication(&settings.address)?;
    let channels = vec![applier.channel(settings)?];
    let warm_run = WarmRun {
        address: &settings.address,
        admin: &settings.address,
        keyring: settings.keyring.as_deref(),
        threads: settings.threads,
        pace: WarmPace::Measured,
        appliers: settings.sessions,
        has_applier: true,
        applier_kind: ApplierKind::External(applier, settings),
    };
    warm_run.run(server, channels, vec![settings.logs.clone()], observer)
}

/// Parameters of a run.
struct WarmRun<'a> {
    address: &'a ServerAddress,
    admin: &'a ServerAddress,
    keyring: Option<&'a Path>,
    threads: SearchConnections,
    pace: WarmPace,
    appliers: u64,
    has_applier: bool,
    applier_kind: ApplierKind<'a>,
}

/// The applier to warm for.
#[derive(Clone, Copy)]
enum ApplierKind<'a> {
    /// The replica's own applier.
    Replica,
    /// An applier outside of the server, which reports its progress.
    External(&'a ExternalApplier, &'a ExternalApplierSettings),
}

impl WarmRun<'_> {
    fn run(
        &self,
        replica: ReplicaMonitor,
        channels: Vec<ReplicaChannel>,
        logs: Vec<AppliedLogs>,
        observer: &mut dyn WarmObserver,
    ) -> Result<WarmReport, WarmError> {
        let properties = replica.properties.clone();
        let shared = WarmShared::new(channels, self.pace, self.threads.max, self.has_applier);
        let mut controller = self.controller(&properties);
        let distance = controller.as_ref().map_or(u64::MAX, DistanceController::distance);
        shared.set_limits(distance, self.threads.usual, 1);
        let state = if controller.is_some() { WarmState::Unmeasured } else { WarmState::Fixed };
        let watched = thread::scope(|scope| {
            let _end = EndOnDrop(&shared);
            for (channel, logs) in logs.into_iter().enumerate() {
                let (shared, mut reader) = (&shared, self.reader(&shared, channel, logs, &properties));
                scope.spawn(move || shared.run_thread("reads relay logs", || reader.run()));
            }
            for number in 0..self.threads.max {
                let (shared, flavour, address) = (&shared, properties.flavour, self.address);
                scope.spawn(move || {
                    shared.run_thread("searches", || {
                        search_worker::run_worker(shared, number, address, flavour)
                    });
                });
            }
            let mut watcher = WarmSupervisor {
                shared: &shared,
                run: self,
                controller: controller.as_mut(),
                began: Instant::now(),
                rows_due: Instant::now(),
                read_totals: ReadTotals::default(),
                state,
                is_lost: false,
                times: BTreeMap::new(),
                rate: WarmRate::default(),
                measured: None,
            };
            watcher.watch(replica, observer)
        });
        if let Some(error) = shared.take_failure() {
            return Err(error);
        }
        watched
    }

    /// Returns a controller; `None` if the pace is fixed, or there is no applier.
    fn controller(&self, properties: &ReplicaFacts) -> Option<DistanceController> {
        (self.has_applier && self.pace == WarmPace::Measured).then(|| {
            DistanceController::new(ControlLimits {
                old_pages: properties.old_pages,
                threads: self.threads,
                cores: thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
                appliers: self.appliers,
            })
        })
    }

    /// Opens the connection for status queries.
    fn open_monitor(&self) -> Result<ReplicaMonitor, WarmError> {
        match self.applier_kind {
            ApplierKind::Replica => ReplicaMonitor::open(self.admin),
            ApplierKind::External(..) => ReplicaMonitor::open_without_replication(self.admin),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.applier_kind, ApplierKind::External(applier, _) if applier.is_finished())
    }

    fn reader<'s>(
        &self,
        shared: &'s WarmShared,
        channel: usize,
        logs: AppliedLogs,
        properties: &ReplicaFacts,
    ) -> RelayLogReader<'s> {
        RelayLogReader {
            shared,
            channel,
            logs,
            keyring: self.keyring.map(Path::to_owned),
            address: self.address.clone(),
            buffering: properties.buffering,
            functions: properties.functions,
            window: SearchWindow::new(usize::try_from(properties.old_pages).unwrap_or(usize::MAX)),
            connection: None,
            columns: HashMap::new(),
        }
    }
}

/// Ends all threads when the supervising thread ends, even by a panic.
struct EndOnDrop<'s>(&'s WarmShared);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn channels(settings: &WarmSettings, replica: &mut ReplicaMonitor) -> Result<Vec<ReplicaChannel>, WarmError> {
    let mut channels = replica.channels()?;
    if let Some(name) = &settings.channel {
        let all: Vec<String> = channels.iter().map(ReplicaChannel::title).collect();
        // Channel names are not case sensitive.
        channels.retain(|channel| channel.name.eq_ignore_ascii_case(name));
        if channels.is_empty() && !all.is_empty() {
            let all = all.join(", ");
            return Err(WarmError::Unsuitable(format!(
                "the replica has no channel {name}: its channels are {all}"
            )));
        }
    }
    if channels.is_empty() {
        match (settings.non_replica, &settings.relay_logs) {
            (NonReplicaPolicy::Refuse, _) => {
                return Err(WarmError::Unsuitable(
                    "the server is not a replica, so it has no applier: to search for the rows of all changes in given \
                     logs, use --force and --relay-logs"
                        .into(),
                ));
            }
            (NonReplicaPolicy::Allow, None) => {
                return Err(WarmError::Unsuitable(
                    "the server is not a replica and has no relay logs: give logs with --relay-logs".into(),
                ));
            }
            (NonReplicaPolicy::Allow, Some(logs)) => {
                channels.push(ReplicaChannel::without_applier(first_position(logs)?))
            }
        }
    }
    Ok(channels)
}

/// Returns the location of each channel's relay logs.
fn relay_log_paths(
    settings: &WarmSettings,
    properties: &ReplicaFacts,
    channels: &[ReplicaChannel],
) -> Result<Vec<PathBuf>, WarmError> {
    match &settings.relay_logs {
        Some(_) if channels.len() > 1 => {
            Err(WarmError::Unsuitable("the replica has several channels: choose one with --channel".into()))
        }
        Some(given) => Ok(vec![given.clone()]),
        None => channels.iter().map(|channel| properties.relay_index(channel)).collect(),
    }
}

/// Checks that the logs can be read. Otherwise the run would wait forever for logs on another machine, or without
/// permission.
fn check_logs(logs: &[PathBuf]) -> Result<(), WarmError> {
    for path in logs {
        if starts_as_log(path) {
            let path = path.display();
            return Err(WarmError::Unsuitable(format!(
                "{path} is a log: --relay-logs takes a directory of logs, or their index"
            )));
        }
        match Store::open(path) {
            // The first log is created when the replica starts.
            Ok(_) | Err(logs::LogError::NoLogs { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Supervisor of readers and workers: tracks the applier, measures, and sets the limits.
struct WarmSupervisor<'w> {
    shared: &'w WarmShared,
    run: &'w WarmRun<'w>,
    controller: Option<&'w mut DistanceController>,
    began: Instant,
    /// Time of the next query for uncommitted rows.
    rows_due: Instant,
    read_totals: ReadTotals,
    state: WarmState,
    /// True while the connection to the server is lost.
    is_lost: bool,
    times: BTreeMap<WarmState, Duration>,
    rate: WarmRate,
    measured: Option<LastMeasurement>,
}

/// The latest measurements.
#[derive(Clone)]
struct LastMeasurement {
    at: Instant,
    reads: DiskReads,
    searches: u64,
    passed: u64,
    positions: Vec<Option<RelayPosition>>,
}

impl WarmSupervisor<'_> {
    fn watch(
        &mut self,
        replica: ReplicaMonitor,
        observer: &mut dyn WarmObserver,
    ) -> Result<WarmReport, WarmError> {
        let mut replica = Some(replica);
        while !self.shared.is_over() && !self.run.is_over() && self.state != WarmState::NoGain {
            match self.poll(&mut replica) {
                Ok(()) => self.is_lost = false,
                Err(error) if error.is_transient() => {
                    (replica, self.is_lost) = (None, true);
                    self.shared.sleep(RETRY_BACKOFF);
                }
                Err(error) => return Err(error),
            }
            if observer.observe(&self.status()).is_break() {
                break;
            }
            self.shared.sleep(self.poll_interval());
        }
        if let Some(replica) = &mut replica {
            // Read final values. If this fails, the previous values are recent enough.
            let _ = self.measure(replica);
        }
        let why =
            if self.state == WarmState::NoGain { WarmEndReason::NoGain } else { WarmEndReason::Interrupted };
        Ok(WarmReport { status: self.status(), end_reason: why })
    }

    /// Returns the pause between queries of the applier's position.
    fn poll_interval(&self) -> Duration {
        if self.state == WarmState::Sampling { SAMPLING_POLL_INTERVAL } else { POSITION_POLL_INTERVAL }
    }

    /// Returns whether the next query of disk reads is due. The interval is shorter until the first decision on
    /// sampling.
    fn is_measure_due(&self) -> bool {
        let Some(last) = &self.measured else { return true };
        let is_dark = self.controller.as_ref().is_some_and(|controller| !controller.is_judged());
        let pause = if is_dark && self.has_work() { FIRST_MEASURE_INTERVAL } else { MEASURE_INTERVAL };
        last.at.elapsed() >= pause
    }

    /// Returns whether an applier has work.
    fn has_work(&self) -> bool {
        self.shared.channels().iter().any(|channel| channel.is_applying && channel.events_ahead > 0)
    }

    fn poll(&mut self, replica: &mut Option<ReplicaMonitor>) -> Result<(), WarmError> {
        let replica = match replica {
            Some(replica) => replica,
            None => replica.insert(self.run.open_monitor()?),
        };
        // Query rows last: if the applier moves on in between, the number of its changed rows is too low, not too high.
        let is_due = self.rows_due <= Instant::now();
        match self.run.applier_kind {
            ApplierKind::Replica => {
                let (mut channels, executed) = (replica.channels()?, replica.executed_gtids()?);
                if is_due {
                    replica.load_uncommitted(&mut channels)?;
                }
                self.shared.update_channels(&channels, &executed);
            }
            ApplierKind::External(applier, settings) => {
                let mut channel = applier.channel(settings)?;
                if is_due {
                    channel.uncommitted = Some(vec![replica.uncommitted_in(&applier.sessions())?]);
                }
                self.shared.update_channels(&[channel], &GtidSet::new());
            }
        }
        if is_due {
            self.rows_due = Instant::now() + ROWS_POLL_INTERVAL;
        }
        if self.is_measure_due() {
            self.measure(replica)?;
            self.adjust(replica)?;
        }
        Ok(())
    }

    fn measure(&mut self, replica: &mut ReplicaMonitor) -> Result<(), WarmError> {
        let appliers = match self.run.applier_kind {
            ApplierKind::Replica => Vec::new(),
            ApplierKind::External(applier, _) => applier.sessions(),
        };
        self.read_totals.add(&read_counters::query_counters(replica, &self.shared.connections(), &appliers)?);
        Ok(())
    }

    /// Adjusts the limits to the measurements.
    fn adjust(&mut self, replica: &mut ReplicaMonitor) -> Result<(), WarmError> {
        let (channels, has_work) = (self.shared.channels(), self.has_work());
        let now = LastMeasurement {
            at: Instant::now(),
            reads: self.read_totals.total(),
            searches: self.shared.counts().searches,
            passed: self.shared.passed(),
            positions: channels.iter().map(|channel| channel.applier).collect(),
        };
        let Some(last) = self.measured.replace(now.clone()) else { return Ok(()) };
        let elapsed = now.at - last.at;
        *self.times.entry(self.state).or_default() += elapsed;
        self.rate = WarmRate::per_second(now.searches - last.searches, now.passed - last.passed, elapsed);
        let Some(controller) = &mut self.controller else { return Ok(()) };
        // Missing counters mean an unknown number of reads, not zero.
        let (Some(ours), Some(applier), true) =
            (now.reads.ours, now.reads.applier, self.read_totals.has_thread_waits())
        else {
            self.state = WarmState::Unmeasured;
            self.shared.set_limits(controller.distance(), controller.workers(), 1);
            return Ok(());
        };
        let reading = ControlReading {
            elapsed,
            searches: now.searches - last.searches,
            passed: now.passed - last.passed,
            ours: ours.since(last.reads.ours.unwrap_or_default()),
            applier: applier.since(last.reads.applier.unwrap_or_default()),
            is_lagging: has_work && now.positions != last.positions,
            others_running: read_counters::others_running(replica, controller.workers(), self.run.appliers)?,
        };
        let before = std::mem::replace(&mut self.state, controller.step(&reading));
        self.shared.set_limits(controller.distance(), controller.workers(), controller.sampling_divisor());
        if (before, self.state) == (WarmState::Sampling, WarmState::Ahead) {
            self.shared.restart_readers();
        }
        Ok(())
    }

    fn status(&self) -> WarmStatus {
        let SearchLimits { distance, workers } = self.shared.limits();
        WarmStatus {
            counts: self.shared.counts(),
            reads: self.read_totals.total(),
            channels: self.shared.channels(),
            queued: self.shared.queued(),
            distance,
            workers,
            state: self.state,
            is_lost: self.is_lost,
            times: self.times.clone(),
            rate: self.rate,
            appliers: self.run.appliers,
            elapsed: self.began.elapsed(),
        }
    }
}
