//! All of it: readers, workers, and whoever watches over them.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use logs::Store;

use crate::control::{Bounds, Controller, Reading, State};
use crate::error::Error;
use crate::measure::{self, Account};
use crate::place::Place;
use crate::reader::Reader;
use crate::replica::{Channel, Replica, ReplicaFacts};
use crate::report::{Rate, Reads, Report, Status, Why};
use crate::settings::{Pace, Settings, Stranger};
use crate::shared::Shared;
use crate::window::Window;
use crate::worker;

/// Whoever watches.
pub trait Observer {
    /// So it stands; `Break` calls it off.
    fn at(&mut self, status: &Status) -> ControlFlow<()>;
}

/// How often the applier's place is asked for.
const LOOK: Duration = Duration::from_millis(25);
/// How often it is asked who reads.
const MEASURE: Duration = Duration::from_millis(500);
/// How long to wait before a lost replica is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Touches what a replica's applier will need, ahead of it, until it is called off.
///
/// # Errors
///
/// When the replica cannot be reached at first, is none, or refuses, or when its relay logs cannot be read. What passes
/// is waited for.
pub fn warm(settings: &Settings, observer: &mut dyn Observer) -> Result<Report, Error> {
    let mut replica = Replica::open(&settings.admin)?;
    let channels = channels(settings, &mut replica)?;
    let facts = replica.facts.clone();
    let indexes = indexes(settings, &facts, &channels)?;
    let has_applier = settings.stranger == Stranger::Refuse || !replica.channels()?.is_empty();
    let shared = Shared::new(channels, settings.pace, settings.threads, has_applier);
    let mut controller = (has_applier && settings.pace == Pace::Measured).then(|| {
        Controller::new(Bounds {
            pages_old: facts.pages_old,
            threads: settings.threads,
            cores: thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            appliers: facts.workers,
        })
    });
    let distance = controller.as_ref().map_or(u64::MAX, Controller::distance);
    shared.set_limits(distance, settings.threads);
    let state = if controller.is_some() { State::Unmeasured } else { State::Fixed };
    let watched = thread::scope(|scope| {
        let _end = End(&shared);
        for (lane, logs) in indexes.into_iter().enumerate() {
            let mut reader = Reader {
                shared: &shared,
                lane,
                logs,
                keyring: settings.keyring.clone(),
                address: settings.address.clone(),
                buffering: facts.buffering,
                window: Window::new(usize::try_from(facts.pages_old).unwrap_or(usize::MAX)),
                connection: None,
                columns: HashMap::new(),
            };
            scope.spawn(move || reader.run());
        }
        for number in 0..settings.threads {
            let (shared, is_mariadb) = (&shared, facts.is_mariadb);
            scope.spawn(move || worker::work(shared, number, &settings.address, is_mariadb));
        }
        let mut watcher = Watcher {
            shared: &shared,
            settings,
            controller: controller.as_mut(),
            appliers: facts.workers,
            began: Instant::now(),
            account: Account::default(),
            state,
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

/// Calls everything off when whoever watches has gone, in whatever way.
struct End<'s>(&'s Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn channels(settings: &Settings, replica: &mut Replica) -> Result<Vec<Channel>, Error> {
    let mut channels = replica.channels()?;
    if let Some(name) = &settings.channel {
        channels.retain(|channel| channel.name == *name);
        if channels.is_empty() {
            return Err(Error::Refused(format!("the replica has no channel {name}")));
        }
    }
    if channels.is_empty() {
        match (settings.stranger, &settings.relay_logs) {
            (Stranger::Refuse, _) => {
                return Err(Error::Refused(
                    "the server is no replica: there is no applier to stay ahead of (--force touches all that \
                     --relay-logs have)"
                        .into(),
                ));
            }
            (Stranger::Allow, None) => {
                return Err(Error::Refused(
                    "a server that is no replica has no relay logs: --relay-logs".into(),
                ));
            }
            (Stranger::Allow, Some(logs)) => channels.push(Channel::without_applier(first_place(logs)?)),
        }
    }
    Ok(channels)
}

/// The start of the first of some logs.
fn first_place(logs: &Path) -> Result<Place, Error> {
    let store = Store::open(logs)?;
    let names = store.logs().iter().filter_map(|log| log.file_name());
    let place = names.filter_map(|name| Place::of(&name.to_string_lossy(), 0)).next();
    place.ok_or_else(|| Error::Refused(format!("the logs of {} have no numbers", logs.display())))
}

/// Where each channel's relay logs are.
fn indexes(settings: &Settings, facts: &ReplicaFacts, channels: &[Channel]) -> Result<Vec<PathBuf>, Error> {
    match &settings.relay_logs {
        Some(_) if channels.len() > 1 => {
            Err(Error::Refused("the replica has several channels: --relay-logs needs --channel".into()))
        }
        Some(given) => Ok(vec![given.clone()]),
        None => channels.iter().map(|channel| facts.relay_index(&channel.name)).collect(),
    }
}

/// Watches over the others, and decides how far they go.
struct Watcher<'w> {
    shared: &'w Shared,
    settings: &'w Settings,
    /// Nobody decides where the pace is fixed.
    controller: Option<&'w mut Controller>,
    appliers: u64,
    began: Instant,
    account: Account,
    state: State,
    times: BTreeMap<State, Duration>,
    rate: Rate,
    measured: Option<Measured>,
}

/// What was measured last.
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
        while !self.shared.is_over() && self.state != State::NoGain {
            match self.look(&mut replica) {
                Ok(()) => {}
                Err(error) if error.is_passing() => {
                    replica = None;
                    self.shared.rest(PAUSE);
                }
                Err(error) => return Err(error),
            }
            if observer.at(&self.status()).is_break() {
                break;
            }
            self.shared.rest(LOOK);
        }
        if let Some(replica) = &mut replica {
            // The last word; without it, that of a moment ago will do.
            let _ = self.measure(replica);
        }
        let why = if self.state == State::NoGain { Why::NoGain } else { Why::Interrupted };
        Ok(Report { status: self.status(), why })
    }

    fn look(&mut self, replica: &mut Option<Replica>) -> Result<(), Error> {
        let replica = match replica {
            Some(replica) => replica,
            None => replica.insert(Replica::open(&self.settings.admin)?),
        };
        let channels = replica.channels()?;
        self.shared.applied(&channels, &replica.executed()?);
        if self.measured.as_ref().is_none_or(|last| last.at.elapsed() >= MEASURE) {
            self.measure(replica)?;
            self.control(replica)?;
        }
        Ok(())
    }

    fn measure(&mut self, replica: &mut Replica) -> Result<(), Error> {
        self.account.add(&measure::counted(replica, &self.shared.connections())?);
        Ok(())
    }

    /// Goes nearer or farther by what was measured.
    fn control(&mut self, replica: &mut Replica) -> Result<(), Error> {
        let channels = self.shared.channels();
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
        // Where nobody counts, nothing is known: not that nothing was read.
        let (Some(ours), Some(applier), true) =
            (now.reads.ours, now.reads.applier, self.account.is_counted())
        else {
            self.state = State::Unmeasured;
            return Ok(());
        };
        let has_work = channels.iter().any(|channel| channel.is_applying && channel.events_ahead > 0);
        let reading = Reading {
            elapsed,
            touches: now.touches - last.touches,
            passed: now.passed - last.passed,
            ours: ours.since(last.reads.ours.unwrap_or_default()),
            applier: applier.since(last.reads.applier.unwrap_or_default()),
            is_behind: has_work && now.places != last.places,
            others_running: measure::others_running(replica, controller.workers(), self.appliers)?,
        };
        self.state = controller.step(&reading);
        self.shared.set_limits(controller.distance(), controller.workers());
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
            times: self.times.clone(),
            rate: self.rate,
            appliers: self.appliers,
            elapsed: self.began.elapsed(),
        }
    }
}
