//! One connection to a source: writes the received events to the store.

use std::time::SystemTime;

use anyhow::{Context, anyhow};
use binlog::{Flavour, Format, MAGIC, RawEvent};
use logs::{Appended, StoreWriter};
use servers::{Error, LiveSource};
use wire::{Acknowledge, Arrival, End, Origin, ReplicaOptions, SemiSync, SourceFacts, Start};

use crate::commands::receive::candidate::{Candidate, ONE_MARIADB};
use crate::commands::receive::ended::Ended;
use crate::commands::receive::joined::Joined;
use crate::commands::receive::receiver::Receiver;

/// Maximum bytes that wait for an acknowledgement while more events arrive.
const UNACKNOWLEDGED_MAX: u64 = 1 << 20;

/// Warning for a source without semi-synchronous replication.
const NO_SEMI_SYNC: &str = "the source does not use semi-synchronous replication, so no acknowledgements are sent: \
    load its plugin semisync_source.so (semisync_master.so before MySQL 8.0.26), set rpl_semi_sync_source_enabled = \
    ON, and run the command again";

/// Error for a directory that cannot be resumed by GTIDs.
const NOTHING_IN_FRONT: &str = "cannot resume by GTIDs: the last log has no Previous_gtids event; keep this \
    directory as it is, and receive into another one";

/// Handling of the events that a source sends.
enum Flow {
    /// Events are stored as they are.
    Plain,
    /// Events are merged with the stored transactions, because another server replaced the source. The string is its
    /// UUID, until its first log has begun.
    Joined(Joined, Option<String>),
}

impl Receiver {
    /// Runs one connection until it ends, then syncs received events to disk if there is space.
    pub(super) fn connection(&mut self, store: &mut StoreWriter) -> Ended {
        let ended = self.receive(store);
        match (ended, self.sync(store)) {
            (Err(ended), Ok(())) => ended,
            (Ok(()), Ok(())) => Ended::Done,
            (_, Err(error)) => error.into(),
        }
    }

    fn receive(&mut self, store: &mut StoreWriter) -> Result<(), Ended> {
        let mut flow = self.flow(store)?;
        let start = self.start(store, &flow)?;
        let mut source = LiveSource::open(self.address(), &self.options, self.wishes(start))
            .map_err(|error| self.explained(error, store))?;
        if self.has_others() && source.session().flavour == Flavour::MariaDb {
            return Err(Ended::Failed(anyhow!(ONE_MARIADB)));
        }
        self.check(source.facts(), store, &flow)?;
        self.turn.begun();
        self.note_semi_sync(source.facts());
        let mut has_head = store.has_head()?;
        if has_head {
            self.compress_closed();
        }
        self.connected(source.facts().clock_s);
        let (mut unacknowledged, mut counted, mut format) = (None, 0, None);
        loop {
            // A source that always has more events never reaches `wait`, which would notice cancellation.
            if self.options.cancel.is_cancelled() {
                return Ok(());
            }
            self.watch.network(source.network_bytes() - counted);
            counted = source.network_bytes();
            let is_next_there = source.has_more().map_err(|error| self.explained(error, store))?;
            let is_due = unacknowledged.is_some_and(|since| self.watch.bytes() >= since + UNACKNOWLEDGED_MAX);
            // While more events have arrived, the source does not wait for the earlier ones yet.
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
            if source.reader().format() != format.as_ref() {
                format = source.reader().format().cloned();
            }
            let next = source.next().map_err(|error| self.explained(error, store))?;
            let Some(live) = next else { return self.ended() };
            if live.acknowledge == Acknowledge::Wanted {
                unacknowledged = unacknowledged.or(Some(self.watch.bytes()));
            }
            let is_behind_format = matches!(live.arrival, Arrival::Event { .. });
            let has_begun = match &mut flow {
                Flow::Plain => self.keep(store, &live.arrival, format.as_ref())?,
                Flow::Joined(joined, next) => {
                    self.join(store, joined, next, &live.arrival, format.as_ref())?
                }
            };
            has_head &= !has_begun;
            if !has_head && is_behind_format {
                self.head_is_here(store)?;
                has_head = true;
            }
        }
    }

    /// Warns once if the source does not use semi-synchronous replication although it was requested.
    fn note_semi_sync(&mut self, facts: &SourceFacts) {
        let is_on = facts.semi_sync == SemiSync::On;
        if self.wanted.semi_sync == SemiSync::On && !is_on && self.watch.semi_sync() != Some(false) {
            self.say(NO_SEMI_SYNC);
        }
        self.watch.set_semi_sync(is_on);
    }

    /// Records that the head of the current log, with its previous GTIDs, is stored. Older logs can now be purged or
    /// compressed.
    fn head_is_here(&mut self, store: &mut StoreWriter) -> Result<(), Ended> {
        self.sync(store)?;
        self.purge(store)?;
        self.compress_closed();
        Ok(())
    }

    /// Handles the end of the source's logs. A server that shuts down also sends this end.
    fn ended(&self) -> Result<(), Ended> {
        match self.wanted.end {
            End::LastEvent => Ok(()),
            End::Never => Err(Ended::Lost(Error::Lost {
                place: Some(self.address().place()),
                reason: "the server ended the stream, probably because it shuts down".to_owned(),
            })),
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

    /// Stores the received event. Returns true if a new log has begun.
    fn keep(
        &mut self,
        store: &mut StoreWriter,
        arrival: &Arrival<'_>,
        format: Option<&Format>,
    ) -> Result<bool, Ended> {
        let (event, position) = match arrival {
            Arrival::File { file, position } => {
                let name = name_of(file)?;
                let is_new = store.place().is_none_or(|place| place.log != name);
                self.sync(store)?;
                store.begin(name, *position)?;
                self.watch.place(store.place());
                return Ok(is_new);
            }
            Arrival::Format { event, origin: Origin::File } => (event, MAGIC.len() as u64),
            Arrival::Event { event, position } => (event, *position),
            Arrival::Format { .. } | Arrival::Heartbeat { .. } | Arrival::Artificial(_) => return Ok(false),
        };
        if store.append(position, event.bytes())? == Appended::New {
            self.appended(event, position, format, store);
        }
        Ok(false)
    }

    /// Does the same for a server that replaced the source. `next` is its UUID until its first log has begun here.
    fn join(
        &mut self,
        store: &mut StoreWriter,
        joined: &mut Joined,
        next: &mut Option<String>,
        arrival: &Arrival<'_>,
        format: Option<&Format>,
    ) -> Result<bool, Ended> {
        match arrival {
            Arrival::File { file, .. } => {
                self.sync(store)?;
                let is_new = store.go_on_in(name_of(file)?, next.take().as_deref())?;
                if is_new {
                    joined.begin_log();
                }
                self.watch.place(store.place());
                return Ok(is_new);
            }
            Arrival::Format { event, origin: Origin::File } if joined.wants_format() => {
                store.append_next(event.bytes())?;
                self.appended(event, MAGIC.len() as u64, format, store);
            }
            Arrival::Event { event, position } => {
                let none =
                    || Ended::Failed(anyhow!("the source sent an event before the first format description"));
                let place = store.end();
                let taken = joined.take(event, format.ok_or_else(none)?, place).map_err(Ended::Failed)?;
                if let Some(bytes) = taken {
                    store.append_next(bytes)?;
                    self.appended(event, *position, format, store);
                }
            }
            Arrival::Format { .. } | Arrival::Heartbeat { .. } | Arrival::Artificial(_) => {}
        }
        Ok(false)
    }

    fn appended(
        &mut self,
        event: &RawEvent<'_>,
        position: u64,
        format: Option<&Format>,
        store: &StoreWriter,
    ) {
        if self.watch.event(event, position, format, store) {
            self.has_room();
        }
    }

    pub(super) fn sync(&mut self, store: &mut StoreWriter) -> Result<(), logs::Error> {
        store.sync()?;
        if self.watch.synced(store) {
            self.has_room();
        }
        Ok(())
    }

    fn compress_closed(&mut self) {
        if let Some(compressor) = &mut self.compressor {
            compressor.look();
        }
    }

    /// Purges expired logs once the head of the current log is stored. Until then the log before it is kept.
    pub(super) fn purge_behind_head(&self, store: &mut StoreWriter) -> Result<(), Ended> {
        if store.has_head()? { self.purge(store) } else { Ok(()) }
    }

    fn purge(&self, store: &mut StoreWriter) -> Result<(), Ended> {
        if let Some(keep) = self.wanted.keep {
            self.watch.purged(store.purge(keep, SystemTime::now())?);
        }
        Ok(())
    }

    /// Returns how to resume with this source: by file and position with the source that the store began with, by
    /// GTIDs with a server that replaced it.
    fn flow(&mut self, store: &mut StoreWriter) -> Result<Flow, Ended> {
        if store.place().is_some_and(|place| place.series.is_some()) {
            store.drop_headless()?;
        }
        let Some(place) = store.place() else { return Ok(Flow::Plain) };
        let is_first = place.series.is_none();
        let uuid = place.series.map(|series| series.uuid.to_owned());
        let before = uuid.or_else(|| self.identity.source().map(str::to_owned));
        if let (true, Some(before)) = (self.has_others(), before) {
            let candidate = Candidate::ask(self.address(), &self.options)?;
            if candidate.uuid != before {
                store.drop_headless()?;
                let contents = store.rewind()?;
                if let Some(reason) = candidate.why_not(&contents.gtids) {
                    return Err(Ended::Unfit(reason));
                }
                self.say(&format!("resuming from the server {} in place of {before}", candidate.uuid));
                return Ok(Flow::Joined(Joined::behind(contents), Some(candidate.uuid)));
            }
        }
        if is_first {
            return Ok(Flow::Plain);
        }
        let contents = store.rewind()?;
        match contents.gtids.is_empty() {
            // Without GTIDs, the source would send its whole history.
            true => Err(Ended::Failed(anyhow!(NOTHING_IN_FRONT))),
            false => Ok(Flow::Joined(Joined::behind(contents), None)),
        }
    }

    /// Checks the server's GTID mode and identity.
    fn check(&mut self, facts: &SourceFacts, store: &StoreWriter, flow: &Flow) -> Result<(), Ended> {
        let next = match flow {
            Flow::Joined(_, next) => next.as_deref(),
            Flow::Plain => None,
        };
        if self.wanted.compress.is_some() && facts.gtid_mode.as_deref() != Some("ON") {
            let why = "--compress needs a source with gtid_mode=ON, because positions in compressed logs differ \
                from the source's";
            return Err(Ended::Failed(anyhow!(why)));
        }
        let uuid = next.or_else(|| store.place()?.series.map(|series| series.uuid));
        self.identity.check_source(facts, uuid).map_err(Ended::Failed)
    }

    /// Returns the start of the stream: the last stored event, to check that the source still has it; from a server
    /// that replaced the source, the missing transactions.
    fn start(&self, store: &StoreWriter, flow: &Flow) -> Result<Start, Ended> {
        if let Flow::Joined(joined, _) = flow {
            return Ok(joined.start());
        }
        let (log, last) = match store.place() {
            Some(place) => (place.log.to_owned(), place.last),
            None => (self.first_log()?, MAGIC.len() as u64),
        };
        Ok(Start::Position { file: log.into_bytes(), position: last })
    }

    /// Returns the log that an empty store begins with; empty for the oldest. For GTIDs, the source names the log in
    /// its first response.
    fn first_log(&self) -> Result<String, Ended> {
        let begin = &self.wanted.begin;
        let Some(start) = begin.question() else { return Ok(begin.log().to_owned()) };
        match self.named_log(start) {
            Err(error) if begin.passes(&error) => Ok(begin.log().to_owned()),
            Err(error) => Err(self.cannot_begin(error)),
            Ok(named) => Ok(named),
        }
    }

    fn named_log(&self, start: Start) -> Result<String, Error> {
        let mut source = LiveSource::open(self.address(), &self.options, self.wishes(start))?;
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
            heartbeat: self.address().heartbeat(),
            semi_sync: self.wanted.semi_sync,
            start,
            end: self.wanted.end,
        }
    }
}

fn name_of(file: &[u8]) -> Result<&str, Ended> {
    str::from_utf8(file).context("the source's log name is not UTF-8").map_err(Ended::Failed)
}
