//! Dump to a client: sends the logs in the client's form, and waits for further events.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binlog::EVENT_SIZE_MAX;
use binlog::gtid::Uuid;
use logs::lock;
use relay::{
    AheadPolicy, AnnotationPolicy, ClientProgress, DumpEndPolicy, DumpError, DumpMode, DumpOptions,
    DumpPiece, DumpRequest, DumpStep, DumpStream, EventBytes, GtidHoles, GtidsAhead, HeartbeatVersion,
    MariadbPosition, MariadbRequest, RUN_EVENT_SIZE, RelayError, RelayFacts as _, RunPolicy, ServedChecksum,
    SourceGtids, SqlValue, can_find_start, find_start,
};
use wire::{
    AckRequest, DumpFlags, EventPacket, PIECE_SIZE_MAX, PartedPacket, SemiSync, SemiSyncAck, ServerError,
};

use crate::ack_tracker::AckTracker;
use crate::client_login::PACKET_SIZE_MAX;
use crate::client_registry::{ClientActivity, EndReason};
use crate::client_session::{OUTPUT_SIZE, ServedSession};
use crate::relay_counters::{FormCounters, add};
use crate::relay_server::RelayNotice;
use crate::store_growth::GrowthSignal;

/// Interval at which a dump checks whether the client is still connected.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Shortest period of heartbeats, as in `SOURCE_HEARTBEAT_PERIOD` of MySQL. A client could ask for a nanosecond.
const HEARTBEAT_PERIOD_MIN: Duration = Duration::from_millis(1);
/// Maximum size of a packet from the client in bytes: enough for an acknowledgement.
const INPUT_SIZE_MAX: usize = 1024;

/// Dump to a client.
pub(crate) struct ClientDump<'d, 's> {
    session: &'d mut ServedSession<'s>,
    request: DumpRequest,
    semi_sync: SemiSync,
    acks: AckTracker,
    /// Signal of growth; `None` without semi-synchronous replication.
    signal: Option<Arc<GrowthSignal>>,
    /// Partly sent event.
    open: Option<OpenEvent>,
    counters: Arc<FormCounters>,
    /// Saved bytes counted so far.
    saved_bytes: u64,
}

/// Partly sent event.
enum OpenEvent {
    /// The event's parts go through the packet buffer.
    Buffered(PartedPacket),
    /// The event's parts go to the socket without a copy.
    WithoutCopy,
}

/// Amount of data sent in a step of a dump.
#[derive(Clone, Copy, Debug, Default)]
struct SentAmount {
    bytes: u64,
    transactions: u64,
}

/// Minimum size of an event that is sent without a copy: below it, a copy costs less than a reference.
const ZERO_COPY_SIZE_MIN: usize = RUN_EVENT_SIZE as usize;
/// Maximum size of an event that is one packet.
const ZERO_COPY_SIZE_MAX: usize = PIECE_SIZE_MAX - 16;

/// End of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpOutcome {
    /// The end of the last log is reached: the next command follows.
    LastEvent,
    /// The connection ends.
    Closed,
}

impl<'d, 's> ClientDump<'d, 's> {
    pub(crate) fn new(session: &'d mut ServedSession<'s>, request: DumpRequest) -> Self {
        let is_on = |name: &str| session.sql.user_variables.get(name).is_some_and(|value| value.is_true());
        let semi_sync = match is_on("rpl_semi_sync_replica") || is_on("rpl_semi_sync_slave") {
            true => SemiSync::On,
            false => SemiSync::Off,
        };
        let acknowledges = semi_sync == SemiSync::On;
        session.registration.client.change(|facts| facts.acknowledges = acknowledges);
        let counters = session.shared.forms.counters(session.sql.form);
        let acks = AckTracker::default();
        Self { session, request, semi_sync, acks, signal: None, open: None, counters, saved_bytes: 0 }
    }

    /// Sends until the end.
    pub(crate) fn run(mut self) -> io::Result<DumpOutcome> {
        // Only acknowledgements come from now on.
        self.session.link.packets.set_limit(INPUT_SIZE_MAX);
        let outcome = self.run_limited();
        self.session.link.packets.set_limit(PACKET_SIZE_MAX);
        outcome
    }

    fn run_limited(&mut self) -> io::Result<DumpOutcome> {
        add(&self.session.shared.counters.dumps, 1);
        self.announce();
        if let Some(outcome) = self.wait_for_start()? {
            return Ok(outcome);
        }
        let mut stream = match self.start() {
            Ok(stream) => stream,
            Err(error) => return self.fail(&error),
        };
        if self.semi_sync == SemiSync::On {
            self.session.link.packets.ignore_sequence();
            self.signal = Some(self.session.shared.growth.subscribe()?);
        }
        self.record_progress(&stream, SentAmount::default());
        let gate = self.session.shared.options.ack_gate.clone();
        let mut pieces = Vec::new();
        loop {
            // Read before the logs, so that the wait below misses no growth.
            let seen = self.session.shared.growth.count();
            let synced = gate.as_ref().map(|gate| gate.synced());
            let step = stream.next(Instant::now(), &mut pieces);
            self.send(&mut pieces, &mut stream)?;
            if let Some(reason) = self.end_reason() {
                return self.end(reason);
            }
            // A replica takes no more events while the relay does not read its acknowledgements.
            if self.semi_sync == SemiSync::On
                && let Some(outcome) = self.read_input_or_end()?
            {
                return Ok(outcome);
            }
            match step {
                Ok(DumpStep::More) => {}
                Ok(DumpStep::End) => {
                    self.session.respond(|response| response.end_of_log());
                    return Ok(DumpOutcome::LastEvent);
                }
                Ok(DumpStep::Wait { until }) => {
                    self.flush_timed()?;
                    self.record_sent(synced);
                    if let Some(outcome) = self.read_input_or_end()? {
                        return Ok(outcome);
                    }
                    self.record_caught_up();
                    self.wait(seen, until)?;
                }
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// Waits until the relay has received enough of its first log to find the start of the dump. Returns an outcome if
    /// the dump ends earlier.
    fn wait_for_start(&mut self) -> io::Result<Option<DumpOutcome>> {
        match self.mariadb_request() {
            Ok(Some(request)) => self.request.mode = DumpMode::MariadbGtids(request),
            Ok(None) => {}
            Err(error) => return self.fail(&error).map(Some),
        }
        while self.ahead_policy() == AheadPolicy::Wait {
            let seen = self.session.shared.growth.count();
            // Ignore an error here: the start of the dump reports it again.
            if can_find_start(self.session.shared.forms.store(), &self.request.mode).unwrap_or(true) {
                break;
            }
            if let Some(outcome) = self.read_input_or_end()? {
                return Ok(Some(outcome));
            }
            self.wait(seen, None)?;
        }
        Ok(None)
    }

    /// Makes the dump visible, and ends earlier dumps of the same replica.
    fn announce(&mut self) {
        let text = |name: &str| match self.session.sql.user_variables.get(name) {
            Some(SqlValue::Text(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        let uuid = text("replica_uuid").or_else(|| text("slave_uuid"));
        let (server_id, form) = (self.request.server_id, self.session.sql.form);
        let activity = self.activity(ClientActivity::SENDING);
        let position = self.requested_position();
        let displaced =
            self.session.shared.clients.begin_dump(self.session.registration, activity, |client| {
                (client.server_id, client.server_uuid, client.form) = (Some(server_id), uuid, Some(form));
                client.position = position;
            });
        // Until its thread has ended, an earlier dump would count as another replica.
        if let Some(gate) = &self.session.shared.options.ack_gate {
            displaced.iter().for_each(|connection_id| gate.forget(*connection_id));
        }
        // Wake an earlier dump that may be waiting.
        self.session.shared.growth.record();
    }

    /// Returns the requested log and position, if the client gives them. They are visible before the log is opened, so
    /// that the receiver does not compress the log meanwhile: the position would be wrong.
    fn requested_position(&self) -> Option<(String, u64)> {
        let DumpRequest { file, position, mode, .. } = &self.request;
        let is_by_position = *mode == DumpMode::Position && !file.is_empty();
        is_by_position.then(|| (String::from_utf8_lossy(file).into_owned(), *position))
    }

    fn set_activity(&self, state: &'static str) {
        self.session.registration.client.set_activity(self.activity(state));
    }

    fn activity(&self, state: &'static str) -> ClientActivity {
        let command = match self.request.mode {
            DumpMode::Position | DumpMode::MariadbGtids(_) => "Binlog Dump",
            DumpMode::Gtids(_) => "Binlog Dump GTID",
        };
        ClientActivity { command, state }
    }

    fn start(&mut self) -> Result<DumpStream, DumpError> {
        let shared = self.session.shared;
        let options = DumpOptions {
            server_id: shared.server_id(),
            checksum: self.checksum(),
            heartbeat_period: self.heartbeat_period(),
            heartbeat_version: match self.request.flags.contains(DumpFlags::HEARTBEAT_V2) {
                true if !self.is_mariadb() => HeartbeatVersion::V2,
                _ => HeartbeatVersion::V1,
            },
            end: match self.request.is_non_blocking() {
                true => DumpEndPolicy::Eof,
                false => DumpEndPolicy::Wait,
            },
            annotations: match self.request.flags.contains(DumpFlags::SEND_ANNOTATE_ROWS) {
                false if self.is_mariadb() => AnnotationPolicy::Omit,
                _ => AnnotationPolicy::Send,
            },
            statement_end_for: self.starts_by_position().then_some(self.request.server_id),
            event_size_max: EVENT_SIZE_MAX,
            // Acknowledgements are requested in the packets of single events.
            runs: match self.semi_sync {
                SemiSync::On => RunPolicy::Single,
                SemiSync::Off => RunPolicy::Joined,
            },
        };
        let source = shared.forms.source(self.session.sql.form);
        // The store may have grown since the last call.
        source.record_growth();
        let mut stored = None;
        if matches!(self.request.mode, DumpMode::MariadbGtids(_)) {
            stored = Some(shared.mariadb_state().map_err(DumpError::reading)?);
        }
        let server_uuid = self.checked_uuid();
        // Without the set, the client gets what can be read: the dump reports a fault at its position.
        let executed = server_uuid.and_then(|_| shared.present_gtids().ok());
        let gtids = SourceGtids { server_uuid, executed: executed.as_ref(), mariadb: stored.as_ref() };
        let start = find_start(&source, &self.request, options.checksum, gtids, self.ahead_policy())?;
        if start.event.is_none() {
            let (user, log) = (self.session.client.account.user.clone(), start.log.to_string());
            shared.notify(RelayNotice::ClientAhead { user, log, position: start.position });
        }
        let mode = self.request.mode.clone();
        Ok(DumpStream::new(Arc::clone(&source), &start, mode, options, Instant::now()))
    }

    /// Returns the handling of a position after the end of the logs. A relay with a receiver waits for the position:
    /// the relay lags behind, or has lost the end of its logs in a crash.
    fn ahead_policy(&self) -> AheadPolicy {
        match self.session.shared.options.upstream_control.is_some() && !self.request.is_non_blocking() {
            true => AheadPolicy::Wait,
            false => AheadPolicy::Refuse,
        }
    }

    /// Returns the source's UUID, if it is known and the client must not have more of its transactions than the relay.
    fn checked_uuid(&self) -> Option<Uuid> {
        let is_by_gtid = matches!(self.request.mode, DumpMode::Gtids(_));
        let is_checked = is_by_gtid && self.ahead_policy() == AheadPolicy::Refuse;
        is_checked.then(|| self.session.shared.source_uuid()).flatten()
    }

    /// Returns the request of a MariaDB replica by GTID, from the variables of its session.
    fn mariadb_request(&self) -> Result<Option<MariadbRequest>, DumpError> {
        let text = |name: &str| self.session.sql.user_variables.get(name).and_then(SqlValue::to_text);
        let position = |name: &str| {
            let parsed = text(name).map(|text| text.parse::<MariadbPosition>());
            parsed.transpose().map_err(|_| DumpError::mariadb_position())
        };
        let Some(start) = position("slave_connect_state")? else { return Ok(None) };
        let is_on =
            |name: &str| self.session.sql.user_variables.get(name).is_some_and(|value| value.is_true());
        Ok(Some(MariadbRequest {
            position: start,
            until: position("slave_until_gtid")?,
            holes: match is_on("slave_gtid_strict_mode") {
                true => GtidHoles::Refused,
                false => GtidHoles::Allowed,
            },
            ahead: match is_on("slave_gtid_ignore_duplicates") || self.ahead_policy() == AheadPolicy::Wait {
                true => GtidsAhead::Allowed,
                false => GtidsAhead::Refused,
            },
        }))
    }

    /// Returns whether the client is a MariaDB replica that starts by file and position.
    fn starts_by_position(&self) -> bool {
        let is_by_gtid = self.session.sql.user_variables.contains_key("slave_connect_state");
        self.is_mariadb() && !is_by_gtid && self.request.mode == DumpMode::Position
    }

    /// Returns whether the client is a MariaDB server. The flags of a MariaDB server have another meaning.
    fn is_mariadb(&self) -> bool {
        self.session.sql.user_variables.contains_key("mariadb_slave_capability")
    }

    fn variable(&self, names: [&str; 2]) -> Option<&SqlValue> {
        names.iter().find_map(|name| self.session.sql.user_variables.get(*name))
    }

    fn checksum(&self) -> ServedChecksum {
        match self.variable(["source_binlog_checksum", "master_binlog_checksum"]) {
            Some(SqlValue::Text(text)) if text.eq_ignore_ascii_case("crc32") => ServedChecksum::Crc32,
            Some(SqlValue::Text(text)) if text.eq_ignore_ascii_case("none") => ServedChecksum::Stored,
            _ => ServedChecksum::None,
        }
    }

    fn heartbeat_period(&self) -> Option<Duration> {
        let nanoseconds = match self.variable(["source_heartbeat_period", "master_heartbeat_period"])? {
            SqlValue::Int(number) => u64::try_from(*number).ok()?,
            SqlValue::UInt(number) => *number,
            SqlValue::Double(number) => *number as u64,
            SqlValue::Text(text) => text.parse().ok()?,
            SqlValue::Null => return None,
        };
        (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds).max(HEARTBEAT_PERIOD_MIN))
    }

    /// Sends what is ready, and records the time.
    fn flush_timed(&mut self) -> io::Result<()> {
        let has_output = self.session.link.ready_size() > 0;
        let began = Instant::now();
        self.session.flush()?;
        if has_output {
            lock(&self.counters.sending).record(began.elapsed());
        }
        Ok(())
    }

    fn send(&mut self, pieces: &mut Vec<DumpPiece>, stream: &mut DumpStream) -> io::Result<()> {
        let mut sent = SentAmount::default();
        if !pieces.is_empty() {
            self.set_activity(ClientActivity::SENDING);
        }
        for piece in pieces.drain(..) {
            sent.bytes += piece.bytes.as_slice().len() as u64;
            sent.transactions += u64::from(piece.transactions);
            if self.semi_sync == SemiSync::On && piece.transactions > 0 {
                self.acks.request(stream.session().log(), piece.end);
            }
            self.put(piece);
            if self.session.link.ready_size() >= OUTPUT_SIZE {
                self.flush_timed()?;
            }
        }
        self.count_sent(stream);
        self.record_progress(stream, sent);
        Ok(())
    }

    /// Makes the position and the progress of the client visible. From the first event on, a purge spares the log.
    fn record_progress(&mut self, stream: &DumpStream, sent: SentAmount) {
        let (reader, session) = (stream.reader(), stream.session());
        let dump = *session.progress();
        let SentAmount { bytes, transactions } = sent;
        let sums = &self.session.shared.counters;
        for counter in [&sums.sent_bytes, &self.counters.sent_bytes] {
            add(counter, bytes);
        }
        for counter in [&sums.sent_transactions, &self.counters.sent_transactions] {
            add(counter, transactions);
        }
        add(&self.counters.saved_bytes, dump.saved_bytes - self.saved_bytes);
        self.saved_bytes = dump.saved_bytes;
        self.session.registration.client.change(|client| {
            let caught_up_us = client.progress.as_ref().and_then(|progress| progress.caught_up_us);
            let (log, position) = (Arc::clone(reader.log()), reader.position());
            client.position = Some((session.log().to_string(), session.position()));
            client.bytes_sent += bytes;
            client.transactions_sent += transactions;
            client.committed_us = dump.committed_us;
            client.progress = Some(ClientProgress { log, position, dump, caught_up_us });
        });
    }

    /// Makes visible that all available events are sent.
    fn record_caught_up(&self) {
        let now_us = self.session.shared.now_us();
        self.session.registration.client.change(|client| {
            if let Some(progress) = &mut client.progress {
                progress.caught_up_us = Some(now_us);
            }
        });
    }

    /// Counts the sent transactions.
    fn count_sent(&self, stream: &mut DumpStream) {
        let sent = stream.take_sent();
        if !sent.is_empty() {
            let mut sums = lock(&self.session.shared.sent);
            sent.iter().for_each(|transaction| sums.add(*transaction));
        }
    }

    fn put(&mut self, piece: DumpPiece) {
        if let EventBytes::Run { chunk, slices } = &piece.bytes {
            let events = chunk.slices()[slices.clone()].iter().map(|slice| &chunk.bytes()[slice.range()]);
            return self.session.respond(|response| response.small_events(events));
        }
        // Request acknowledgements only for the last event of a transaction, as a server does.
        let acknowledge = match piece.ends_transaction && piece.end > 0 {
            true => AckRequest::Requested,
            false => AckRequest::No,
        };
        match self.open.take() {
            Some(OpenEvent::WithoutCopy) => self.put_without_copy(piece, acknowledge),
            Some(OpenEvent::Buffered(packet)) => self.put_part(&piece, acknowledge, Some(packet)),
            None if self.sends_without_copy(&piece) => self.put_without_copy(piece, acknowledge),
            None if piece.is_last() => {
                let (semi_sync, event) = (self.semi_sync, piece.bytes.as_slice());
                self.session
                    .respond(|response| response.event(&EventPacket { acknowledge, event }, semi_sync));
            }
            None => self.put_part(&piece, acknowledge, None),
        }
    }

    /// Returns whether the event that starts with this piece is sent without a copy.
    fn sends_without_copy(&self, piece: &DumpPiece) -> bool {
        (ZERO_COPY_SIZE_MIN..ZERO_COPY_SIZE_MAX).contains(&(piece.event_size as usize))
            && !self.session.link.is_encrypted()
            && self.session.client.session.compression.is_none()
    }

    fn put_without_copy(&mut self, piece: DumpPiece, acknowledge: AckRequest) {
        let (semi_sync, is_last) = (self.semi_sync, piece.is_last());
        if piece.is_first() {
            // Write only the header of the whole packet, and the first bytes of its payload.
            let event_size = piece.event_size as usize;
            self.session.respond(|response| {
                response.begin_event(event_size, acknowledge, semi_sync);
            });
        }
        self.session.link.queue_body(piece.bytes);
        match is_last {
            true => self.session.respond(|response| response.end_event(acknowledge, semi_sync)),
            false => self.open = Some(OpenEvent::WithoutCopy),
        }
    }

    fn put_part(&mut self, piece: &DumpPiece, acknowledge: AckRequest, begun: Option<PartedPacket>) {
        let semi_sync = self.semi_sync;
        let mut packet = begun;
        self.session.respond(|response| {
            let packet = packet.get_or_insert_with(|| {
                response.begin_event(piece.event_size as usize, acknowledge, semi_sync)
            });
            response.event_part(packet, piece.bytes.as_slice());
            if piece.is_last() {
                response.end_event(acknowledge, semi_sync);
            }
        });
        self.open = packet.filter(|_| !piece.is_last()).map(OpenEvent::Buffered);
    }

    /// Waits until the store grows, a heartbeat is due, or a short time has passed. In semi-synchronous replication,
    /// also ends when the client sends data.
    fn wait(&mut self, seen: u64, until: Option<Instant>) -> io::Result<()> {
        self.set_activity(ClientActivity::WAITING);
        self.session.link.release_idle();
        let check = Instant::now() + CLIENT_CHECK_INTERVAL;
        let until = until.map_or(check, |until| until.min(check));
        match &self.signal {
            Some(signal) => self.session.link.wait_for_data_or_growth(signal, until)?,
            None => self.session.shared.growth.wait(seen, until),
        }
        Ok(())
    }

    /// Records that all events of the relay's last sync are sent. A MariaDB replica that stops at a GTID does not get
    /// all events: its unsent transactions do not count as sent.
    fn record_sent(&mut self, synced: Option<u64>) {
        if self.semi_sync == SemiSync::On
            && !self.session.sql.user_variables.contains_key("slave_until_gtid")
            && let Some(synced) = synced
        {
            let covered = self.acks.sent_all(synced);
            self.acknowledge(covered);
        }
    }

    /// Reads acknowledgements of the client. Returns false if the client has disconnected.
    fn read_input(&mut self) -> io::Result<bool> {
        while self.session.link.has_input()? {
            let link = &mut self.session.link;
            if self.semi_sync == SemiSync::Off {
                // Without semi-synchronous replication, a client sends nothing but `COM_QUIT`.
                return Ok(link.discard_input());
            }
            match link.receive() {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                other => other?,
            }
            let mut covered = None;
            while let Some(payload) = link.packets.next().map_err(io::Error::other)? {
                // Servers also ignore other packets.
                if let Ok(ack) = SemiSyncAck::decode(payload) {
                    add(&self.session.shared.counters.acknowledgements, 1);
                    covered = self.acks.take(ack.file, ack.position).or(covered);
                }
            }
            self.acknowledge(covered);
        }
        Ok(true)
    }

    /// Reads what the client has sent. Returns an outcome if the client has disconnected, or another thread has ended
    /// the dump. The reason of the other thread is checked last: that thread also ends the input.
    fn read_input_or_end(&mut self) -> io::Result<Option<DumpOutcome>> {
        let is_connected = self.read_input()?;
        match self.end_reason() {
            Some(reason) => self.end(reason).map(Some),
            None => Ok((!is_connected).then_some(DumpOutcome::Closed)),
        }
    }

    /// Reports the last sync that the client has acknowledged.
    fn acknowledge(&self, covered: Option<u64>) {
        if let (Some(sync), Some(gate)) = (covered, &self.session.shared.options.ack_gate) {
            let connection_id = self.session.registration.connection_id;
            gate.acknowledge(connection_id, sync);
            // Another thread may have replaced this dump, and the gate may have forgotten it already.
            if self.end_reason().is_some() {
                gate.forget(connection_id);
            }
        }
    }

    fn end_reason(&self) -> Option<EndReason> {
        self.session.registration.client.end_reason()
    }

    /// Ends the dump for a reason of the relay. Sends no error 1236, because a replica must reconnect after a stop of
    /// the relay.
    fn end(&mut self, reason: EndReason) -> io::Result<DumpOutcome> {
        if self.open.is_some() {
            // Within an event, only the end of the connection tells the client.
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if reason == EndReason::Displaced {
            let message =
                "A replica with the same server_uuid/server_id as this replica has connected to the source";
            let error = ServerError::new(1236, "HY000", message);
            self.session.respond(|response| response.error(&error));
        }
        self.session.flush()?;
        Ok(DumpOutcome::Closed)
    }

    fn fail(&mut self, error: &DumpError) -> io::Result<DumpOutcome> {
        if let Some(cause) = error.cause() {
            let user = self.session.client.account.user.clone();
            self.session.shared.notify(RelayNotice::DumpFailed { user, error: cause.to_string() });
        }
        let has_gtids = !matches!(self.request.mode, DumpMode::Position);
        let is_temporary = error.cause().is_some_and(|cause| match cause {
            // The file was compressed meanwhile. By GTIDs, the client finds its place in the new file.
            RelayError::Changed { .. } => has_gtids,
            RelayError::Read(error) => error.is_descriptor_limit(),
            _ => false,
        });
        // Within an event, the client would read the error as the rest of the event. After a temporary failure, it must
        // reconnect.
        if self.open.is_some() || is_temporary {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let error = error.to_server_error();
        self.session.respond(|response| response.error(&error));
        self.session.flush()?;
        Ok(DumpOutcome::Closed)
    }
}

impl Drop for ClientDump<'_, '_> {
    fn drop(&mut self) {
        if let Some(gate) = &self.session.shared.options.ack_gate {
            gate.forget(self.session.registration.connection_id);
        }
    }
}
