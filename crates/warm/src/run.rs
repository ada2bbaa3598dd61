//! A run of warming: readers, workers, and the supervision of both.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use binlog::gtid::GtidSet;
use binlog::{MAGIC, MAGIC_ENCRYPTED};
use logs::{Store, open_regular};
use servers::Address;

use crate::applier::{AppliedLogs, Applier, first_place};
use crate::control::{Bounds, Controller, Reading, State};
use crate::error::Error;
use crate::measure::{self, Account};
use crate::place::Place;
use crate::reader::Reader;
use crate::replica::{Channel, Replica, ReplicaFacts};
use crate::report::{Rate, Reads, Report, Status, Why};
use crate::settings::{Pace, Settings, SettingsFor, Stranger, Threads};
use crate::shared::Shared;
use crate::window::Window;
use crate::worker;

/// Observer of a run.
pub trait Observer {
    /// Receives the current status; `Break` cancels the run.
    fn at(&mut self, status: &Status) -> ControlFlow<()>;
}

/// Interval at which the applier's position is queried.
const LOOK: Duration = Duration::from_millis(25);
/// Interval at which rows changed by open transactions are queried. The server does not update them more often.
const LOOK_AT_ROWS: Duration = Duration::from_millis(200);
/// Interval at which disk reads are queried.
const MEASURE: Duration = Duration::from_millis(500);
/// Interval at which disk reads are queried before the first decision on sampling.
const MEASURE_FIRST: Duration = Duration::from_millis(100);
/// Interval at which the applier's position is queried while sampling: each query costs the server time.
const LOOK_SAMPLING: Duration = Duration::from_millis(200);
/// Pause before a lost replica is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Warms a replica ahead of its applier until cancelled.
///
/// # Errors
///
/// If the first connection fails, the server is no replica or refuses, or its relay logs cannot be read. Later
/// temporary errors are retried.
pub fn warm(settings: &Settings, observer: &mut dyn Observer) -> Result<Report, Error> {
    let mut replica = Replica::open(&settings.admin)?;
    let mut channels = channels(settings, &mut replica)?;
    // Rows that are changed already need no search.
    replica.put_under_way(&mut channels)?;
    let logs = indexes(settings, &replica.facts, &channels)?;
    check_logs(&logs)?;
    worker::read_only(&settings.address).map_err(Error::server("connect to the replica for searches"))?;
    let has_applier = settings.stranger == Stranger::Refuse || !replica.channels()?.is_empty();
    let scene = Scene {
        address: &settings.address,
        admin: &settings.admin,
        keyring: settings.keyring.as_deref(),
        threads: settings.threads,
        pace: settings.pace,
        appliers: replica.facts.workers,
        has_applier,
        whose: Whose::Replica,
    };
    scene.run(replica, channels, logs.into_iter().map(AppliedLogs::Store).collect(), observer)
}

/// Warms a server ahead of an applier outside of it, until the applier ends or the run is cancelled.
///
/// # Errors
///
/// If the first connection fails, the server refuses, or the logs cannot be read. Later temporary errors are retried.
pub fn warm_for(
    applier: &Applier,
    settings: &SettingsFor,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    let server = Replica::not_asked(&settings.address)?;
    let channels = vec![applier.channel(settings)?];
    let scene = Scene {
        address: &settings.address,
        admin: &settings.address,
        keyring: settings.keyring.as_deref(),
        threads: settings.threads,
        pace: Pace::Measured,
        appliers: settings.sessions,
        has_applier: true,
        whose: Whose::Other(applier, settings),
    };
    scene.run(server, channels, vec![settings.logs.clone()], observer)
}

/// Parameters of a run.
struct Scene<'a> {
    address: &'a Address,
    admin: &'a Address,
    keyring: Option<&'a Path>,
    threads: Threads,
    pace: Pace,
    appliers: u64,
    has_applier: bool,
    whose: Whose<'a>,
}

/// The applier to warm for.
#[derive(Clone, Copy)]
enum Whose<'a> {
    /// The replica's own applier.
    Replica,
    /// An applier outside of the server, which reports its progress.
    Other(&'a Applier, &'a SettingsFor),
}

impl Scene<'_> {
    fn run(
        &self,
        replica: Replica,
        channels: Vec<Channel>,
        logs: Vec<AppliedLogs>,
        observer: &mut dyn Observer,
    ) -> Result<Report, Error> {
        let facts = replica.facts.clone();
        let shared = Shared::new(channels, self.pace, self.threads.max, self.has_applier);
        let mut controller = self.controller(&facts);
        let distance = controller.as_ref().map_or(u64::MAX, Controller::distance);
        shared.set_limits(distance, self.threads.usual, 1);
        let state = if controller.is_some() { State::Unmeasured } else { State::Fixed };
        let watched = thread::scope(|scope| {
            let _end = End(&shared);
            for (lane, logs) in logs.into_iter().enumerate() {
                let (shared, mut reader) = (&shared, self.reader(&shared, lane, logs, &facts));
                scope.spawn(move || shared.run_thread("reads relay logs", || reader.run()));
            }
            for number in 0..self.threads.max {
                let (shared, is_mariadb, address) = (&shared, facts.is_mariadb, self.address);
                scope.spawn(move || {
                    shared.run_thread("searches", || worker::work(shared, number, address, is_mariadb));
                });
            }
            let mut watcher = Watcher {
                shared: &shared,
                scene: self,
                controller: controller.as_mut(),
                began: Instant::now(),
                rows_due: Instant::now(),
                account: Account::default(),
                state,
                is_lost: false,
                times: BTreeMap::new(),
                rate: Rate::default(),
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
    fn controller(&self, facts: &ReplicaFacts) -> Option<Controller> {
        (self.has_applier && self.pace == Pace::Measured).then(|| {
            Controller::new(Bounds {
                pages_old: facts.pages_old,
                threads: self.threads,
                cores: thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
                appliers: self.appliers,
            })
        })
    }

    /// Opens the connection for status queries.
    fn open(&self) -> Result<Replica, Error> {
        match self.whose {
            Whose::Replica => Replica::open(self.admin),
            Whose::Other(..) => Replica::not_asked(self.admin),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.whose, Whose::Other(applier, _) if applier.is_over())
    }

    fn reader<'s>(
        &self,
        shared: &'s Shared,
        lane: usize,
        logs: AppliedLogs,
        facts: &ReplicaFacts,
    ) -> Reader<'s> {
        Reader {
            shared,
            lane,
            logs,
            keyring: self.keyring.map(Path::to_owned),
            address: self.address.clone(),
            buffering: facts.buffering,
            functions: facts.functions,
            window: Window::new(usize::try_from(facts.pages_old).unwrap_or(usize::MAX)),
            connection: None,
            columns: HashMap::new(),
        }
    }
}

/// Ends all threads when the supervising thread ends, even by a panic.
struct End<'s>(&'s Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn channels(settings: &Settings, replica: &mut Replica) -> Result<Vec<Channel>, Error> {
    let mut channels = replica.channels()?;
    if let Some(name) = &settings.channel {
        let all: Vec<String> = channels.iter().map(Channel::title).collect();
        // Channel names are not case sensitive.
        channels.retain(|channel| channel.name.eq_ignore_ascii_case(name));
        if channels.is_empty() && !all.is_empty() {
            let all = all.join(", ");
            return Err(Error::Refused(format!("the replica has no channel {name}: its channels are {all}")));
        }
    }
    if channels.is_empty() {
        match (settings.stranger, &settings.relay_logs) {
            (Stranger::Refuse, _) => {
                return Err(Error::Refused(
                    "the server is no replica, so there is no applier to stay ahead of: to warm the pages of all \
                     changes in given logs, use --force and --relay-logs"
                        .into(),
                ));
            }
            (Stranger::Allow, None) => {
                return Err(Error::Refused(
                    "the server is no replica and has no relay logs: give logs with --relay-logs".into(),
                ));
            }
            (Stranger::Allow, Some(logs)) => channels.push(Channel::without_applier(first_place(logs)?)),
        }
    }
    Ok(channels)
}

/// Returns the location of each channel's relay logs.
fn indexes(settings: &Settings, facts: &ReplicaFacts, channels: &[Channel]) -> Result<Vec<PathBuf>, Error> {
    match &settings.relay_logs {
        Some(_) if channels.len() > 1 => {
            Err(Error::Refused("the replica has several channels: choose one with --channel".into()))
        }
        Some(given) => Ok(vec![given.clone()]),
        None => channels.iter().map(|channel| facts.relay_index(&channel.name)).collect(),
    }
}

/// Checks that the logs can be read. Otherwise the run would wait forever for logs on another machine, or without
/// permission.
fn check_logs(logs: &[PathBuf]) -> Result<(), Error> {
    for path in logs {
        if starts_as_log(path) {
            let path = path.display();
            return Err(Error::Refused(format!(
                "{path} is a log: --relay-logs takes a directory of logs, or their index"
            )));
        }
        match Store::open(path) {
            // The first log is created when the replica starts.
            Ok(_) | Err(logs::Error::NoLogs { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn starts_as_log(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    let read = open_regular(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && [MAGIC, MAGIC_ENCRYPTED].contains(&first)
}

/// Supervisor of readers and workers: tracks the applier, measures, and sets the limits.
struct Watcher<'w> {
    shared: &'w Shared,
    scene: &'w Scene<'w>,
    controller: Option<&'w mut Controller>,
    began: Instant,
    /// Time of the next query for uncommitted rows.
    rows_due: Instant,
    account: Account,
    state: State,
    /// True while the connection to the server is lost.
    is_lost: bool,
    times: BTreeMap<State, Duration>,
    rate: Rate,
    measured: Option<Measured>,
}

/// The latest measurements.
#[derive(Clone)]
struct Measured {
    at: Instant,
    reads: Reads,
    touches: u64,
    passed: u64,
    places: Vec<Option<Place>>,
}

impl Watcher<'_> {
    fn watch(&mut self, replica: Replica, observer: &mut dyn Observer) -> Result<Report, Error> {
        let mut replica = Some(replica);
        while !self.shared.is_over() && !self.scene.is_over() && self.state != State::NoGain {
            match self.look(&mut replica) {
                Ok(()) => self.is_lost = false,
                Err(error) if error.is_passing() => {
                    (replica, self.is_lost) = (None, true);
                    self.shared.rest(PAUSE);
                }
                Err(error) => return Err(error),
            }
            if observer.at(&self.status()).is_break() {
                break;
            }
            self.shared.rest(self.pause());
        }
        if let Some(replica) = &mut replica {
            // Final values; if this fails, the previous ones are recent enough.
            let _ = self.measure(replica);
        }
        let why = if self.state == State::NoGain { Why::NoGain } else { Why::Interrupted };
        Ok(Report { status: self.status(), why })
    }

    /// Returns the pause between queries of the applier's position.
    fn pause(&self) -> Duration {
        if self.state == State::Sampling { LOOK_SAMPLING } else { LOOK }
    }

    /// Returns whether the next query of disk reads is due. The interval is shorter until the first decision on
    /// sampling.
    fn is_to_measure(&self) -> bool {
        let Some(last) = &self.measured else { return true };
        let is_dark = self.controller.as_ref().is_some_and(|controller| !controller.is_judged());
        let pause = if is_dark && self.has_work() { MEASURE_FIRST } else { MEASURE };
        last.at.elapsed() >= pause
    }

    /// Returns whether an applier has work.
    fn has_work(&self) -> bool {
        self.shared.channels().iter().any(|channel| channel.is_applying && channel.events_ahead > 0)
    }

    fn look(&mut self, replica: &mut Option<Replica>) -> Result<(), Error> {
        let replica = match replica {
            Some(replica) => replica,
            None => replica.insert(self.scene.open()?),
        };
        // Query rows last: if the applier moves on in between, the number of its changed rows is too low, not too high.
        let is_due = self.rows_due <= Instant::now();
        match self.scene.whose {
            Whose::Replica => {
                let (mut channels, executed) = (replica.channels()?, replica.executed()?);
                if is_due {
                    replica.put_under_way(&mut channels)?;
                }
                self.shared.applied(&channels, &executed);
            }
            Whose::Other(applier, settings) => {
                let mut channel = applier.channel(settings)?;
                if is_due {
                    channel.under_way = Some(vec![replica.under_way_in(&applier.sessions())?]);
                }
                self.shared.applied(&[channel], &GtidSet::new());
            }
        }
        if is_due {
            self.rows_due = Instant::now() + LOOK_AT_ROWS;
        }
        if self.is_to_measure() {
            self.measure(replica)?;
            self.control(replica)?;
        }
        Ok(())
    }

    fn measure(&mut self, replica: &mut Replica) -> Result<(), Error> {
        let appliers = match self.scene.whose {
            Whose::Replica => Vec::new(),
            Whose::Other(applier, _) => applier.sessions(),
        };
        self.account.add(&measure::counted(replica, &self.shared.connections(), &appliers)?);
        Ok(())
    }

    /// Adjusts the limits to the measurements.
    fn control(&mut self, replica: &mut Replica) -> Result<(), Error> {
        let (channels, has_work) = (self.shared.channels(), self.has_work());
        let now = Measured {
            at: Instant::now(),
            reads: self.account.total(),
            touches: self.shared.counts().touches,
            passed: self.shared.passed(),
            places: channels.iter().map(|channel| channel.applier).collect(),
        };
        let Some(last) = self.measured.replace(now.clone()) else { return Ok(()) };
        let elapsed = now.at - last.at;
        *self.times.entry(self.state).or_default() += elapsed;
        self.rate = Rate::of(now.touches - last.touches, now.passed - last.passed, elapsed);
        let Some(controller) = &mut self.controller else { return Ok(()) };
        // Missing counters mean that the reads are unknown, not that there were none.
        let (Some(ours), Some(applier), true) =
            (now.reads.ours, now.reads.applier, self.account.is_counted())
        else {
            self.state = State::Unmeasured;
            self.shared.set_limits(controller.distance(), controller.workers(), 1);
            return Ok(());
        };
        let reading = Reading {
            elapsed,
            touches: now.touches - last.touches,
            passed: now.passed - last.passed,
            ours: ours.since(last.reads.ours.unwrap_or_default()),
            applier: applier.since(last.reads.applier.unwrap_or_default()),
            is_behind: has_work && now.places != last.places,
            others_running: measure::others_running(replica, controller.workers(), self.scene.appliers)?,
        };
        let before = std::mem::replace(&mut self.state, controller.step(&reading));
        self.shared.set_limits(controller.distance(), controller.workers(), controller.one_in());
        if (before, self.state) == (State::Sampling, State::Ahead) {
            self.shared.begin_anew();
        }
        Ok(())
    }

    fn status(&self) -> Status {
        let (distance, workers) = self.shared.limits();
        Status {
            counts: self.shared.counts(),
            reads: self.account.total(),
            channels: self.shared.channels(),
            queued: self.shared.queued(),
            distance,
            workers,
            state: self.state,
            is_lost: self.is_lost,
            times: self.times.clone(),
            rate: self.rate,
            appliers: self.scene.appliers,
            elapsed: self.began.elapsed(),
        }
    }
}
