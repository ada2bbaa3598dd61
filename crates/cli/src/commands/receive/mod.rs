//! `bintide receive`: a server's logs, byte for byte, as they are written.

mod begin;
mod figures;
mod identity;
mod keep;
mod watch;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use binlog::MAGIC;
use clap::{Args, ValueEnum};
use logs::{Appended, Keep, StoreWriter};
use servers::{Address, Error, LinkOptions, Live, LiveSource};
use wire::{Acknowledge, Arrival, Compression, End, Origin, ReplicaOptions, SemiSync, ServerKey, Start};

use crate::account::Account;
use crate::args::Global;
pub(crate) use crate::commands::receive::begin::Begin;
use crate::commands::receive::begin::Had;
use crate::commands::receive::identity::Identity;
pub(crate) use crate::commands::receive::keep::parse as parse_keep;
pub(crate) use crate::commands::receive::watch::Watch;
use crate::exit::{Advice, Failure, Outcome, Verdict};
use crate::interrupt;
use crate::metrics::Metrics;
use crate::units::{counted, duration};

pub(crate) const EXAMPLES: &str = "\
Examples:
  A copy of a server's logs that is never far behind, until Ctrl-C:
      bintide receive /backup/db1 --from 'mysql://repl@db1/?tls=required' --password-file ~/.pw
  A week of them, watched by Prometheus:
      bintide receive /backup/db1 --from mysql://repl@db1/ --keep 7d --metrics 127.0.0.1:9104
  What there is now, and no more:
      bintide receive /backup/db1 --from mysql://repl@db1/ --stop-at-end

Stopped in whatever way, the same command goes on where it stopped. The account
needs REPLICATION SLAVE, and nothing else.";

/// Arguments of `receive`.
#[derive(Args, Debug)]
pub(crate) struct Receive {
    /// The directory that the logs are kept in: with an index, as a server's own. It is made if it is not there, and
    /// written on where it ends.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The server to receive from: mysql://USER@HOST:PORT/, or mysql://USER@localhost/?socket=PATH; with TLS,
    /// ?tls=required or ?tls-ca=FILE; with --defaults-file, mysql:// is enough.
    #[arg(long, value_name = "SOURCE")]
    from: String,
    #[command(flatten)]
    account: Account,
    /// Begin an empty directory with this log of the source, as binlog.000042, instead of the oldest that it has.
    #[arg(long, value_name = "LOG")]
    start_log: Option<String>,
    /// Begin an empty directory with the log that has the source's first transaction which is none of these: what a
    /// backup has, as 5ea5ca5e-0001-4000-8000-000000000001:1-4711, or 0-1-270 of a MariaDB.
    #[arg(long, value_name = "GTIDS", conflicts_with = "start_log")]
    start_after_gtid: Option<Had>,
    /// Stop at the end of the last log, instead of waiting for more.
    #[arg(long)]
    stop_at_end: bool,
    /// Keep so much, and remove the oldest logs beyond it: a time as 12h or 7d, or a size as 500M or 100G. The log that
    /// is written to always stays.
    #[arg(long, value_name = "TIME|SIZE", value_parser = parse_keep)]
    keep: Option<Keep>,
    /// Acknowledge transactions once they are on this disk, to a source that waits for that (semi-synchronous
    /// replication).
    #[arg(long)]
    semi_sync: bool,
    /// Compress what the network carries.
    #[arg(long, value_enum, default_value_t = Network::None, value_name = "ALGORITHM")]
    compression: Network,
    /// Ask the server for the key that passwords are encrypted by without TLS. Whoever sits in between can send another.
    #[arg(long)]
    get_server_public_key: bool,
    #[command(flatten)]
    metrics: Metrics,
    /// Print the outcome as one JSON document.
    #[arg(long)]
    json: bool,
}

/// How the network's bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Network {
    /// Not at all.
    None,
    /// By zlib.
    Zlib,
    /// By zstd.
    Zstd,
}

/// How long a source that sends nothing may take to give a sign of life, at most; less if less silence is allowed.
const HEARTBEAT_MAX: Duration = Duration::from_secs(15);
/// Signs of life that may be missed before a source is taken for lost.
const HEARTBEATS_MISSED: u32 = 4;
/// How long to wait before a lost source or a full disk is tried again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often somebody who waits looks for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(100);
/// Bytes that a source may wait for to be acknowledged while more of them come.
const UNACKNOWLEDGED_MAX: u64 = 1 << 20;

/// Errors of a source that pass: too many connections (1040), shutdown (1053), a connection that was interrupted (1158
/// to 1161) or killed (1317, 1927, 3169), a server that is not up yet or going offline (1077, 3032, 3100, 3168).
const PASSING: [u16; 14] =
    [1040, 1053, 1077, 1158, 1159, 1160, 1161, 1203, 1317, 1927, 3032, 3100, 3168, 3169];
/// The source cannot send what is asked for.
const CANNOT_SEND: u16 = 1236;
/// What a source says to a replica of whom there is a second one.
const SAME_REPLICA: &str = "with the same server_uuid/server_id";

/// Receives until it is told to stop.
pub(crate) fn run(command: &Receive, global: &Global) -> Outcome {
    let address = command.account.address(&command.from, "--from", global)?;
    let options = LinkOptions {
        compressions: vec![command.compression.into()],
        server_key: if command.get_server_public_key { ServerKey::Ask } else { ServerKey::Refuse },
        cancel: interrupt::cancel(),
        ..LinkOptions::default()
    };
    let wanted = Wanted {
        folder: command.folder.clone(),
        begin: command.begin(),
        end: if command.stop_at_end { End::LastEvent } else { End::Never },
        keep: command.keep,
        semi_sync: if command.semi_sync { SemiSync::On } else { SemiSync::Off },
    };
    let (mut receiver, store) = Receiver::open(wanted, address, options, Watch::new(global), global)?;
    let board = receiver.watch.board();
    let _served = command.metrics.serve(global, move || board.sheet())?;
    match receiver.run(store)? {
        Done::Synced => receiver.watch.print(&command.folder, command.json),
        Done::WithoutRoom => Ok(Verdict::Fine),
    }
}

impl Receive {
    fn begin(&self) -> Begin {
        match (&self.start_log, &self.start_after_gtid) {
            (Some(log), _) => Begin::Log(log.clone()),
            (None, Some(had)) => Begin::After(had.clone()),
            (None, None) => Begin::Oldest,
        }
    }
}

/// What is to be received, and where to.
pub(crate) struct Wanted {
    /// The store's directory.
    pub(crate) folder: PathBuf,
    /// Where an empty store begins.
    pub(crate) begin: Begin,
    pub(crate) end: End,
    pub(crate) keep: Option<Keep>,
    pub(crate) semi_sync: SemiSync,
}

/// What a run goes by.
pub(crate) struct Receiver {
    wanted: Wanted,
    quiet: bool,
    address: Address,
    options: LinkOptions,
    identity: Identity,
    watch: Watch,
    /// Has the source sent its log once?
    is_begun: bool,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// What came is on the disk.
    Synced,
    /// It was called off while it waited for room on the disk.
    WithoutRoom,
}

/// Why a connection has ended.
enum Ended {
    /// There is no more, as was asked for, or it was called off.
    Done,
    /// The source is gone, and may come back.
    Lost(Error),
    /// There is no room on the disk.
    Full(logs::Error),
    /// Nothing that passes.
    Failed(anyhow::Error),
}

impl Receiver {
    /// Opens the store, without what is beyond what it keeps; nothing is connected yet.
    pub(crate) fn open(
        wanted: Wanted,
        address: Address,
        options: LinkOptions,
        watch: Watch,
        global: &Global,
    ) -> Result<(Self, StoreWriter), Failure> {
        let not_begun = |error: logs::Error| Failure::NotBegun(error.into());
        let mut store = StoreWriter::open(&wanted.folder).map_err(not_begun)?;
        let identity = Identity::of(&wanted.folder).map_err(Failure::NotBegun)?;
        if let Some(keep) = wanted.keep {
            watch.purged(store.purge(keep, SystemTime::now()).map_err(not_begun)?);
        }
        let quiet = global.quiet;
        let receiver = Self { wanted, quiet, address, options, identity, watch, is_begun: false };
        receiver.opened(&store);
        Ok((receiver, store))
    }

    /// One connection after the other, until it is called off.
    pub(crate) fn run(&mut self, mut store: StoreWriter) -> Result<Done, Failure> {
        let mut pause = PAUSE_MIN;
        loop {
            let before = end_of(&store);
            let ended = self.connection(&mut store);
            self.watch.disconnected();
            pause = if before == end_of(&store) { (pause * 2).min(PAUSE_MAX) } else { PAUSE_MIN };
            match ended {
                Ended::Done => break,
                Ended::Lost(error) if self.is_begun => {
                    self.say(&format!("{error}; trying again in {}", duration(pause)));
                    self.rest(pause);
                }
                Ended::Full(error) => {
                    self.say(&format!("{error}; waiting until there is room"));
                    self.watch.set_full(true);
                    drop(store);
                    let Some(opened) = self.wait_for_room()? else { return Ok(Done::WithoutRoom) };
                    store = opened;
                    self.opened(&store);
                    self.watch.set_full(false);
                    self.say("there is room again");
                }
                Ended::Lost(error) => return Err(self.failure(error.into())),
                Ended::Failed(error) => return Err(self.failure(error)),
            }
            if self.options.cancel.is_cancelled() {
                break;
            }
        }
        self.sync(&mut store).map_err(anyhow::Error::from)?;
        Ok(Done::Synced)
    }

    fn failure(&self, error: anyhow::Error) -> Failure {
        match self.is_begun {
            true => Failure::Failed(error),
            false => Failure::NotBegun(error),
        }
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            eprintln!("bintide: {text}");
        }
    }

    fn rest(&self, pause: Duration) {
        let glances = pause.as_millis() / GLANCE.as_millis();
        for _ in 0..glances {
            if self.options.cancel.is_cancelled() {
                return;
            }
            thread::sleep(GLANCE);
        }
    }

    fn opened(&self, store: &StoreWriter) {
        if store.cut() > 0 {
            let cut = counted(store.cut(), "byte");
            self.say(&format!("cut {cut} of an event that was not written whole; the source sends it again"));
        }
    }

    /// The store, once it can be written to again; none if it was called off.
    fn wait_for_room(&self) -> Result<Option<StoreWriter>, Failure> {
        let mut pause = PAUSE_MIN;
        while !self.options.cancel.is_cancelled() {
            self.rest(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            match StoreWriter::open(&self.wanted.folder) {
                Ok(store) => return Ok(Some(store)),
                Err(error) if error.is_full() => {}
                Err(error) => return Err(Failure::Failed(error.into())),
            }
        }
        Ok(None)
    }

    /// One connection, until it ends; what came is on the disk then, if there is room.
    fn connection(&mut self, store: &mut StoreWriter) -> Ended {
        let ended = self.receive(store);
        match (ended, self.sync(store)) {
            (Err(ended), Ok(())) => ended,
            (Ok(()), Ok(())) => Ended::Done,
            (_, Err(error)) => error.into(),
        }
    }

    fn receive(&mut self, store: &mut StoreWriter) -> Result<(), Ended> {
        let start = self.start(store)?;
        let mut source = LiveSource::open(&self.address, &self.options, self.wishes(start))
            .map_err(|error| self.explained(error, store))?;
        self.identity.check_source(source.facts()).map_err(Ended::Failed)?;
        self.is_begun = true;
        self.watch.connected(source.facts().clock_s);
        let mut unacknowledged = None;
        loop {
            let is_next_there = source.has_more().map_err(|error| self.explained(error, store))?;
            let is_due = unacknowledged.is_some_and(|since| self.watch.bytes() >= since + UNACKNOWLEDGED_MAX);
            // While more has come already, what came is not yet waited for.
            if !is_next_there || is_due {
                self.sync(store)?;
                if unacknowledged.take().is_some() {
                    source.acknowledge()?;
                    self.watch.acknowledged();
                }
            }
            if !is_next_there {
                self.wait(&mut source, store)?;
            }
            let next = source.next().map_err(|error| self.explained(error, store))?;
            let Some(live) = next else { return self.ended() };
            if live.acknowledge == Acknowledge::Wanted {
                unacknowledged = unacknowledged.or(Some(self.watch.bytes()));
            }
            let has_begun = self.keep(store, &live)?;
            if has_begun {
                self.purge(store)?;
            }
        }
    }

    /// The source says that there is no more. One that shuts down says so, too.
    fn ended(&self) -> Result<(), Ended> {
        match self.wanted.end {
            End::LastEvent => Ok(()),
            End::Never => {
                Err(Ended::Lost(Error::Lost("it has ended its log, as one does that shuts down".to_owned())))
            }
        }
    }

    /// Waits for the next event.
    fn wait(&mut self, source: &mut LiveSource, store: &StoreWriter) -> Result<(), Ended> {
        self.watch.caught_up();
        while !source.wait().map_err(|error| self.explained(error, store))? {
            self.watch.tick();
        }
        Ok(())
    }

    /// Writes down what came. Has a log begun?
    fn keep(&mut self, store: &mut StoreWriter, live: &Live<'_>) -> Result<bool, Ended> {
        let (event, position) = match &live.arrival {
            Arrival::File { file, position } => {
                let name = str::from_utf8(file).context("the source's log has a name that is not UTF-8");
                let name = name.map_err(Ended::Failed)?;
                let is_new = store.place().is_none_or(|place| place.log != name);
                store.begin(name, *position)?;
                self.watch.place(store.place());
                return Ok(is_new);
            }
            Arrival::Format { event, origin: Origin::File } => (event, MAGIC.len() as u64),
            Arrival::Event { event, position } => (event, *position),
            Arrival::Format { .. } | Arrival::Heartbeat { .. } | Arrival::Artificial(_) => return Ok(false),
        };
        if store.append(position, event.bytes())? == Appended::New {
            self.watch.event(event, position);
        }
        Ok(false)
    }

    fn sync(&self, store: &mut StoreWriter) -> Result<(), logs::Error> {
        store.sync()?;
        self.watch.synced();
        Ok(())
    }

    fn purge(&self, store: &mut StoreWriter) -> Result<(), Ended> {
        if let Some(keep) = self.wanted.keep {
            self.watch.purged(store.purge(keep, SystemTime::now())?);
        }
        Ok(())
    }

    /// What to ask the source for: the last event again, so that it shows to be the same, and what follows it.
    fn start(&self, store: &StoreWriter) -> Result<Start, Ended> {
        let (log, last) = match store.place() {
            Some(place) => (place.log.to_owned(), place.last),
            None => (self.first_log()?, MAGIC.len() as u64),
        };
        let position = u32::try_from(last).map_err(|_| {
            let why = "and a source cannot be asked for what is behind 4 GiB of a log";
            Ended::Failed(anyhow!("{log} has {last} bytes, {why}"))
        })?;
        Ok(Start::Position { file: log.into_bytes(), position })
    }

    /// The log that an empty store begins with; empty for the oldest. By GTIDs, the source says which it is: asked for
    /// what is behind them, it first names the log that it would send.
    fn first_log(&self) -> Result<String, Ended> {
        let begin = &self.wanted.begin;
        let Some(start) = begin.question() else { return Ok(begin.log().to_owned()) };
        match self.named_log(start) {
            Err(error) if begin.passes(&error) => Ok(begin.log().to_owned()),
            named => Ok(named?),
        }
    }

    fn named_log(&self, start: Start) -> Result<String, Error> {
        let mut source = LiveSource::open(&self.address, &self.options, self.wishes(start))?;
        while let Some(live) = source.next()? {
            if let Arrival::File { file, .. } = live.arrival {
                return Ok(String::from_utf8_lossy(file).into_owned());
            }
        }
        Ok(String::new())
    }

    fn wishes(&self, start: Start) -> ReplicaOptions {
        ReplicaOptions {
            server_id: self.identity.server_id,
            uuid: self.identity.uuid.clone(),
            report_host: String::new(),
            report_port: 0,
            heartbeat: (self.address.timeout / HEARTBEATS_MISSED).min(HEARTBEAT_MAX),
            semi_sync: self.wanted.semi_sync,
            start,
            end: self.wanted.end,
        }
    }

    /// With what was asked for, where the source refuses that.
    fn explained(&self, error: Error, store: &StoreWriter) -> Ended {
        let is_replaced = error.to_string().contains(SAME_REPLICA);
        match (error.code(), store.place()) {
            (Some(CANNOT_SEND), _) if is_replaced => {
                let advice = Advice("somebody else receives with a copy of this directory's replica.cnf");
                Ended::Failed(anyhow::Error::from(error).context(advice))
            }
            (Some(CANNOT_SEND), Some(place)) => {
                let asked = format!("the source cannot go on behind {} at {}", place.log, place.next);
                let advice =
                    Advice("keep this directory as it is, and receive into another one from here on");
                Ended::Failed(anyhow::Error::from(error).context(asked).context(advice))
            }
            _ => error.into(),
        }
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        match &error {
            Error::Cancelled => Self::Done,
            Error::Lost(_) | Error::Silent { .. } => Self::Lost(error),
            Error::Refused { code, .. } if PASSING.contains(code) => Self::Lost(error),
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<logs::Error> for Ended {
    fn from(error: logs::Error) -> Self {
        match error.is_full() {
            true => Self::Full(error),
            false => Self::Failed(error.into()),
        }
    }
}

impl From<Network> for Option<Compression> {
    fn from(network: Network) -> Self {
        match network {
            Network::None => None,
            Network::Zlib => Some(Compression::Zlib { level: 6 }),
            Network::Zstd => Some(Compression::Zstd { level: 3 }),
        }
    }
}

fn end_of(store: &StoreWriter) -> Option<(String, u64)> {
    store.place().map(|place| (place.log.to_owned(), place.next))
}
