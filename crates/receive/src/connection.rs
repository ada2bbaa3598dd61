//! One connection to a source: writes the received events to the store.

use std::time::SystemTime;

use binlog::{EventFormat, Flavour, MAGIC, RawEvent, ServerVersion};
use logs::{AppendOutcome, LogStart, StoreWriter};
use servers::{ConnectionError, LiveSource};
use wire::{
    AckRequest, FormatOrigin, ReplicaEnd, ReplicaOptions, ReplicaStart, SemiSync, SourceEvent, SourceFacts,
};

use crate::disconnect::Disconnect;
use crate::error::ReceiveError;
use crate::failover_merge::FailoverMerge;
use crate::pending_acks::PendingAcks;
use crate::receiver::LogReceiver;
use crate::reporter::ReceiveNotice;
use crate::source_candidate::SourceCandidate;

/// Bytes after which a sync starts even if more events are available: bounds the duration of a sync.
const UNSYNCED_MAX: u64 = 16 << 20;

/// Handling of the source's events.
enum EventRouting {
    /// Store events unchanged.
    Plain,
    /// Merge events with the stored transactions, because another server replaced the source.
    Merged(MergedRouting),
}

/// Events of a server that replaced the source.
struct MergedRouting {
    merge: FailoverMerge,
    /// UUID of the server, until its first log begins.
    next_uuid: Option<String>,
}

impl LogReceiver {
    /// Runs one connection until it ends, and then syncs received events to disk if there is space.
    pub(crate) fn run_connection(&mut self, store: &mut StoreWriter) -> Disconnect {
        let ended = self.receive(store);
        match (ended, self.sync(store)) {
            (Err(ended), Ok(())) => self.explain_rewritten_log(ended, store),
            (Ok(()), Ok(())) => Disconnect::Done,
            (_, Err(error)) => error.into(),
        }
    }

    fn receive(&mut self, store: &mut StoreWriter) -> Result<(), Disconnect> {
        let mut routing = self.choose_routing(store)?;
        let start = self.start_request(store, &routing)?;
        let mut source = LiveSource::open(self.address(), &self.options, self.replica_options(start))
            .map_err(|error| self.explain_error(error, store))?;
        if self.has_others() && source.session().flavour == Flavour::MariaDb {
            return Err(Disconnect::Failed(ReceiveError::MariadbBesideOthers));
        }
        self.check_version(&source.session().server_version)?;
        self.check_source(source.facts(), store, &routing)?;
        self.rotation.set_begun();
        self.record_semi_sync(source.facts());
        let mut has_head = store.has_head()?;
        if has_head {
            self.update_closed_logs(None);
        }
        self.record_connected(source.facts());
        let (mut acks, mut counted, mut format) = (PendingAcks::default(), 0, None);
        loop {
            // Check here: with a source that always has more events, `wait` is never called.
            if self.options.cancel.is_cancelled() {
                return Ok(());
            }
            self.check_control(store)?;
            self.monitor.add_network_bytes(source.network_bytes() - counted);
            counted = source.network_bytes();
            let is_next_there = source.has_more().map_err(|error| self.explain_error(error, store))?;
            // If more events have already arrived, the source does not wait for acknowledgements yet.
            if !is_next_there || acks.is_due(self.monitor.bytes()) || store.unsynced_bytes() >= UNSYNCED_MAX {
                self.start_sync(store, &mut acks, &source)?;
            }
            if !self.end_syncs(store, &mut acks, &mut source)? {
                return Ok(());
            }
            if !is_next_there && !self.wait(&mut source, store)? {
                continue;
            }
            if source.reader().format() != format.as_ref() {
                format = source.reader().format().cloned();
            }
            let next = source.next().map_err(|error| self.explain_error(error, store))?;
            let Some(live) = next else { return self.check_disconnect() };
            if live.acknowledge == AckRequest::Requested {
                acks.request(self.monitor.bytes());
            }
            let is_after_format = matches!(live.arrival, SourceEvent::Event { .. });
            if matches!(live.arrival, SourceEvent::Heartbeat { .. }) {
                self.monitor.count_heartbeat();
            }
            let has_begun = match &mut routing {
                EventRouting::Plain => self.store_event(store, &live.arrival, format.as_ref())?,
                EventRouting::Merged(merged) => {
                    self.merge_event(store, merged, &live.arrival, format.as_ref())?
                }
            };
            has_head &= !has_begun;
            if !has_head && is_after_format {
                self.record_head_stored(store)?;
                has_head = true;
            }
        }
    }

    /// Makes the appended events visible in the file, and starts to sync them to disk.
    fn start_sync(
        &mut self,
        store: &mut StoreWriter,
        acks: &mut PendingAcks,
        source: &LiveSource,
    ) -> Result<(), logs::LogError> {
        let sync = store.start_sync()?;
        acks.start_sync(sync, || source.position());
        if self.monitor.record_written(store) {
            self.end_disk_full();
        }
        Ok(())
    }

    /// Acknowledges the transactions that completed syncs cover. Returns false if the run was cancelled.
    fn end_syncs(
        &mut self,
        store: &mut StoreWriter,
        acks: &mut PendingAcks,
        source: &mut LiveSource,
    ) -> Result<bool, Disconnect> {
        let sync = store.ended_sync()?;
        self.monitor.record_ended_sync(sync);
        let Some(position) = acks.end_sync(sync) else { return Ok(true) };
        if !self.wait_for_ack_condition(store) {
            self.check_control(store)?;
            // The run was paused, and perhaps resumed since. This acknowledgement was not sent, so connect again: the
            // source then sends the events once more.
            return if self.options.cancel.is_cancelled() { Ok(false) } else { Err(Disconnect::Paused) };
        }
        source.acknowledge(&position)?;
        self.monitor.count_acknowledgement();
        Ok(true)
    }

    /// Waits until acknowledgements are allowed, and serves the requests of other threads. Returns false if the run was
    /// cancelled, or the connection must end.
    fn wait_for_ack_condition(&self, store: &mut StoreWriter) -> bool {
        let Some(condition) = &self.ack_condition else { return true };
        condition.wait(&mut || {
            self.serve_requests(store);
            self.options.cancel.is_cancelled() || self.control.ends_connection()
        })
    }

    /// Warns once if the source does not use semi-synchronous replication although it was requested.
    fn record_semi_sync(&mut self, facts: &SourceFacts) {
        let is_on = facts.semi_sync == SemiSync::On;
        if self.settings.semi_sync == SemiSync::On && !is_on && self.monitor.semi_sync() != Some(false) {
            self.say(&ReceiveNotice::SemiSyncUnavailable);
        }
        self.monitor.set_semi_sync(is_on);
    }

    /// Records that the head of the current log, including its Previous_gtids event, is stored. Older logs can now be
    /// purged or compressed.
    fn record_head_stored(&mut self, store: &mut StoreWriter) -> Result<(), Disconnect> {
        self.sync(store)?;
        self.purge(store)?;
        self.start_compressor_if_needed();
        self.count_closed_log();
        Ok(())
    }

    /// Handles the end of the source's logs. A server that shuts down also sends this end.
    fn check_disconnect(&self) -> Result<(), Disconnect> {
        match self.settings.end {
            ReplicaEnd::LastEvent => Ok(()),
            ReplicaEnd::Never => Err(Disconnect::Lost(ConnectionError::Lost {
                endpoint: Some(self.address().endpoint()),
                reason: "the server ended the stream, probably because it shuts down".to_owned(),
            })),
        }
    }

    /// Waits for the next event. Returns false if a sync ended first.
    fn wait(&mut self, source: &mut LiveSource, store: &mut StoreWriter) -> Result<bool, Disconnect> {
        loop {
            self.monitor.set_caught_up(source.is_caught_up());
            let waited = match store.sync_signal() {
                Some(signal) => source.wait_briefly_or(signal),
                None => source.wait_briefly(),
            };
            if waited.map_err(|error| self.explain_error(error, store))? {
                return Ok(true);
            }
            if store.ended_sync()? > self.monitor.ended_sync() {
                return Ok(false);
            }
            self.monitor.tick();
            self.check_control(store)?;
        }
    }

    /// Serves the requests of other threads. Ends the connection if a request paused the run or replaced the source.
    fn check_control(&self, store: &mut StoreWriter) -> Result<(), Disconnect> {
        self.serve_requests(store);
        if self.control.ends_connection() { Err(Disconnect::Paused) } else { Ok(()) }
    }

    /// Stores the received event. Returns true if a new log has begun.
    fn store_event(
        &mut self,
        store: &mut StoreWriter,
        arrival: &SourceEvent<'_>,
        format: Option<&EventFormat>,
    ) -> Result<bool, Disconnect> {
        let (event, position) = match arrival {
            SourceEvent::File { file, position } => {
                let name = log_name(file)?;
                let is_new = store.store_end().is_none_or(|end| end.log != name);
                self.sync(store)?;
                store.begin_log(name, *position)?;
                self.monitor.set_end(store.store_end());
                return Ok(is_new);
            }
            SourceEvent::Format { event, origin: FormatOrigin::File } => (event, MAGIC.len() as u64),
            SourceEvent::Event { event, position } => (event, *position),
            SourceEvent::Format { .. } | SourceEvent::Heartbeat { .. } | SourceEvent::Artificial(_) => {
                return Ok(false);
            }
        };
        if store.append(position, event.bytes())? == AppendOutcome::New {
            self.record_appended(event, position, format, store);
        }
        Ok(false)
    }

    /// Stores the received event of a server that replaced the source. Returns true if a new log has begun.
    fn merge_event(
        &mut self,
        store: &mut StoreWriter,
        merged: &mut MergedRouting,
        arrival: &SourceEvent<'_>,
        format: Option<&EventFormat>,
    ) -> Result<bool, Disconnect> {
        match arrival {
            SourceEvent::File { file, .. } => {
                self.sync(store)?;
                let new_uuid = merged.next_uuid.take();
                let start = store.begin_or_continue_log(log_name(file)?, new_uuid.as_deref())?;
                let is_new = start == LogStart::Begun;
                if is_new {
                    merged.merge.begin_log();
                }
                self.monitor.set_end(store.store_end());
                return Ok(is_new);
            }
            SourceEvent::Format { event, origin: FormatOrigin::File } if merged.merge.wants_format() => {
                store.append_next(event.bytes())?;
                self.record_appended(event, MAGIC.len() as u64, format, store);
            }
            SourceEvent::Event { event, position } => {
                let none = || Disconnect::Failed(ReceiveError::EventBeforeFormat);
                let stored_at = store.next_position();
                let taken = merged
                    .merge
                    .take(event, format.ok_or_else(none)?, stored_at)
                    .map_err(Disconnect::Failed)?;
                if let Some(bytes) = taken {
                    store.append_next(bytes)?;
                    self.record_appended(event, *position, format, store);
                }
            }
            SourceEvent::Format { .. } | SourceEvent::Heartbeat { .. } | SourceEvent::Artificial(_) => {}
        }
        Ok(false)
    }

    fn record_appended(
        &mut self,
        event: &RawEvent<'_>,
        position: u64,
        format: Option<&EventFormat>,
        store: &StoreWriter,
    ) {
        if self.monitor.add_event(event, position, format, store) {
            self.end_disk_full();
        }
    }

    pub(crate) fn sync(&mut self, store: &mut StoreWriter) -> Result<(), logs::LogError> {
        store.sync()?;
        if self.monitor.count_sync(store) {
            self.end_disk_full();
        }
        Ok(())
    }

    /// Purges expired logs once the head of the current log is stored. Until then, keeps the previous log.
    pub(crate) fn purge_after_head(&self, store: &mut StoreWriter) -> Result<(), Disconnect> {
        if store.has_head()? { self.purge(store) } else { Ok(()) }
    }

    fn purge(&self, store: &mut StoreWriter) -> Result<(), Disconnect> {
        if let Some(keep) = self.settings.keep {
            let first_needed = |logs: &[&str]| self.control.first_needed(logs);
            self.monitor.count_purged(store.purge(keep, SystemTime::now(), first_needed)?);
        }
        Ok(())
    }

    /// Returns the way to resume with this source: by file and position with the store's first source, by GTIDs with a
    /// server that replaced the first source.
    fn choose_routing(&mut self, store: &mut StoreWriter) -> Result<EventRouting, Disconnect> {
        if store.store_end().is_some_and(|end| end.series.is_some()) {
            store.remove_headless_log()?;
        }
        let Some(end) = store.store_end() else { return Ok(EventRouting::Plain) };
        let is_first = end.series.is_none();
        let uuid = end.series.map(|series| series.uuid.to_owned());
        let before = uuid.or_else(|| self.identity.source().map(str::to_owned));
        if let (true, Some(before)) = (self.has_others(), before) {
            let candidate = SourceCandidate::ask(self.address(), &self.options)?;
            if candidate.uuid != before {
                store.remove_headless_log()?;
                let contents = store.rewind()?;
                if let Some(reason) = candidate.rejection(&contents.gtids) {
                    return Err(Disconnect::Unfit(reason));
                }
                self.say(&ReceiveNotice::SourceReplaced { uuid: &candidate.uuid, before: &before });
                let merge = FailoverMerge::after_contents(contents);
                return Ok(EventRouting::Merged(MergedRouting { merge, next_uuid: Some(candidate.uuid) }));
            }
        }
        if is_first {
            return Ok(EventRouting::Plain);
        }
        let contents = store.rewind()?;
        match contents.gtids.is_empty() {
            // Without GTIDs in the request, the source would send all of its logs.
            true => Err(Disconnect::Failed(ReceiveError::NoPreviousGtids)),
            false => {
                let merge = FailoverMerge::after_contents(contents);
                Ok(EventRouting::Merged(MergedRouting { merge, next_uuid: None }))
            }
        }
    }

    /// Checks whether the server's logs can contain compressed transactions, if `--compress` is given.
    fn check_version(&self, version: &str) -> Result<(), Disconnect> {
        let is_compressing = self.settings.compress.is_some() && self.control.compression().is_some();
        if is_compressing && ServerVersion::parse(version).is_mysql_before([8, 0, 20]) {
            let version = version.to_owned();
            return Err(Disconnect::Failed(ReceiveError::CompressOldSource { version }));
        }
        Ok(())
    }

    /// Checks the server's GTID mode and identity.
    fn check_source(
        &mut self,
        facts: &SourceFacts,
        store: &StoreWriter,
        routing: &EventRouting,
    ) -> Result<(), Disconnect> {
        let next = match routing {
            EventRouting::Merged(merged) => merged.next_uuid.as_deref(),
            EventRouting::Plain => None,
        };
        if self.control.compression().is_some() && facts.gtid_mode.as_deref() != Some("ON") {
            return Err(Disconnect::Failed(ReceiveError::CompressWithoutGtids));
        }
        let uuid = next.or_else(|| store.store_end()?.series.map(|series| series.uuid));
        self.identity.check_source(facts, uuid).map_err(Disconnect::Failed)
    }

    /// Returns the start of the stream. From the first source, this is the last stored event, to check that the source
    /// still has this event. From a server that replaced the source, these are the missing transactions.
    fn start_request(&self, store: &StoreWriter, routing: &EventRouting) -> Result<ReplicaStart, Disconnect> {
        if let EventRouting::Merged(merged) = routing {
            return Ok(merged.merge.start());
        }
        let (log, last) = match store.store_end() {
            Some(end) => (end.log.to_owned(), end.last),
            None => (self.first_log()?, MAGIC.len() as u64),
        };
        Ok(ReplicaStart::Position { file: log.into_bytes(), position: last })
    }

    /// Returns the first log of an empty store; an empty name stands for the oldest log. For a start by GTIDs, the
    /// source names the log in its first response.
    fn first_log(&self) -> Result<String, Disconnect> {
        let begin = &self.settings.begin;
        let Some(start) = begin.probe_request() else { return Ok(begin.log().to_owned()) };
        match self.named_log(start) {
            Err(error) if begin.allows_fallback(&error) => Ok(begin.log().to_owned()),
            Err(error) => Err(self.explain_start_error(error)),
            Ok(named) => Ok(named),
        }
    }

    fn named_log(&self, start: ReplicaStart) -> Result<String, ConnectionError> {
        let mut source = LiveSource::open(self.address(), &self.options, self.replica_options(start))?;
        while let Some(live) = source.next()? {
            if let SourceEvent::File { file, .. } = live.arrival {
                return Ok(String::from_utf8_lossy(file).into_owned());
            }
        }
        Ok(String::new())
    }

    fn replica_options(&self, start: ReplicaStart) -> ReplicaOptions {
        ReplicaOptions {
            server_id: self.identity.server_id,
            uuid: self.identity.uuid.clone(),
            report_host: String::new(),
            report_port: 0,
            heartbeat: self.address().heartbeat_interval(),
            semi_sync: self.settings.semi_sync,
            start,
            end: self.settings.end,
        }
    }
}

fn log_name(file: &[u8]) -> Result<&str, Disconnect> {
    str::from_utf8(file).map_err(|error| Disconnect::Failed(ReceiveError::LogName(error)))
}
