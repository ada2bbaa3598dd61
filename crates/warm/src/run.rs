//! All of it: readers, workers, and whoever watches over them.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use logs::Store;

use crate::error::Error;
use crate::measure::{self, Account};
use crate::place::Place;
use crate::reader::Reader;
use crate::replica::{Channel, Replica, ReplicaFacts};
use crate::report::{Report, Status, Why};
use crate::settings::{Settings, Stranger};
use crate::shared::Shared;
use crate::window::Window;
use crate::worker;

/// Whoever watches.
pub trait Observer {
    /// So it stands; `Break` calls it off.
    fn at(&mut self, status: &Status) -> ControlFlow<()>;
}

/// How often the applier's place is asked for.
const LOOK: Duration = Duration::from_millis(50);
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
    let shared = Shared::new(channels, settings.pace, settings.threads);
    let distance = if has_applier { distance(&facts) } else { u64::MAX };
    shared.set_limits(distance, settings.threads);
    let why = thread::scope(|scope| {
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
            };
            scope.spawn(move || reader.run());
        }
        for number in 0..settings.threads {
            let (shared, is_mariadb) = (&shared, facts.is_mariadb);
            scope.spawn(move || worker::work(shared, number, &settings.address, is_mariadb));
        }
        let mut watcher =
            Watcher { shared: &shared, settings, appliers: facts.workers, began: Instant::now() };
        let watched = watcher.watch(replica, observer);
        shared.end();
        watched
    });
    if let Some(error) = shared.take_failure() {
        return Err(error);
    }
    why
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

/// Touches that may be ahead of the applier: what it reads itself, and what others read, goes into the old part of the
/// buffer pool, too.
fn distance(facts: &ReplicaFacts) -> u64 {
    (facts.pages_old / 2).max(1)
}

struct Watcher<'w> {
    shared: &'w Shared,
    settings: &'w Settings,
    appliers: u64,
    began: Instant,
}

impl Watcher<'_> {
    fn watch(&mut self, replica: Replica, observer: &mut dyn Observer) -> Result<Report, Error> {
        let mut replica = Some(replica);
        let mut account = Account::default();
        let mut measured: Option<Instant> = None;
        while !self.shared.is_over() {
            match self.look(&mut replica, &mut account, &mut measured) {
                Ok(()) => {}
                Err(error) if error.is_passing() => {
                    replica = None;
                    self.shared.rest(PAUSE);
                }
                Err(error) => return Err(error),
            }
            if observer.at(&self.status(&account)).is_break() {
                break;
            }
            self.shared.rest(LOOK);
        }
        if let Some(replica) = &mut replica {
            // The last word; without it, that of a moment ago will do.
            let _ = measure(self.shared, replica, &mut account);
        }
        Ok(Report { status: self.status(&account), why: Why::Interrupted })
    }

    fn look(
        &self,
        replica: &mut Option<Replica>,
        account: &mut Account,
        measured: &mut Option<Instant>,
    ) -> Result<(), Error> {
        let replica = match replica {
            Some(replica) => replica,
            None => replica.insert(Replica::open(&self.settings.admin)?),
        };
        self.shared.applied(&replica.channels()?);
        if measured.is_none_or(|last| last.elapsed() >= MEASURE) {
            measure(self.shared, replica, account)?;
            *measured = Some(Instant::now());
        }
        Ok(())
    }

    fn status(&self, account: &Account) -> Status {
        let (distance, workers) = self.shared.limits();
        Status {
            counts: self.shared.counts(),
            reads: account.total(),
            channels: self.shared.channels(),
            queued: self.shared.queued(),
            distance,
            workers,
            appliers: self.appliers,
            elapsed: self.began.elapsed(),
        }
    }
}

fn measure(shared: &Shared, replica: &mut Replica, account: &mut Account) -> Result<(), Error> {
    account.add(measure::reads(replica, &shared.connections())?);
    Ok(())
}
