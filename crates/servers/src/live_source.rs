//! Live binary log of a server.

use std::os::fd::BorrowedFd;

use binlog::server_error::ACCESS_DENIED_ERROR;
use logs::now_s;
use wire::{
    AckRequest, PositionGaps, ReplicaConversation, ReplicaEnd, ReplicaOptions, ReplicaStart, ReplicaStep,
    SemiSync, SemiSyncAck, SourceEvent, SourceFacts, StreamReader, WireError,
};

use crate::error::ConnectionError;
use crate::server_address::ServerAddress;
use crate::server_link::{ANSWER_SIZE_MAX, LinkOptions, ServerLink};
use crate::source_end::{HeartbeatArrival, SourceEnd};

/// Live binary log of a server: verified events in order, with their positions in the source's files.
pub struct LiveSource {
    link: ServerLink,
    conversation: ReplicaConversation,
    reader: StreamReader,
    end: ReplicaEnd,
    source_end: SourceEnd,
}

/// Event received from a source.
pub struct LiveEvent<'a> {
    /// Event and its position.
    pub arrival: SourceEvent<'a>,
    /// Request for an acknowledgement: call [`LiveSource::acknowledge`] once the event is safe.
    pub acknowledge: AckRequest,
}

/// Position in the log of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivePosition {
    file: Vec<u8>,
    position: u64,
}

impl LivePosition {
    /// Creates a position in a log: `position` is the position of the next event in `file`.
    pub const fn new(file: Vec<u8>, position: u64) -> Self {
        Self { file, position }
    }
}

impl LiveSource {
    /// Connects, runs the queries of a replica, and requests the log.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, refuses, or cannot be the source of this replica.
    pub fn open(
        address: &ServerAddress,
        link_options: &LinkOptions,
        replica_options: ReplicaOptions,
    ) -> Result<Self, ConnectionError> {
        let mut link = ServerLink::open(address, link_options)?;
        let (end, heartbeat) = (replica_options.end, replica_options.heartbeat);
        let gaps = match replica_options.start {
            ReplicaStart::Position { .. } => PositionGaps::None,
            ReplicaStart::Gtids { .. } | ReplicaStart::MariadbGtids { .. } => PositionGaps::Skipped,
        };
        let (mut conversation, first) = ReplicaConversation::begin(replica_options, link.session().clone())?;
        link.packet_stream.send(&first)?;
        let mut answer_size = 0;
        while !conversation.is_streaming() {
            let payload = link.next()?;
            answer_size += payload.len();
            if answer_size > ANSWER_SIZE_MAX {
                let size = ANSWER_SIZE_MAX >> 20;
                return Err(ConnectionError::lost(format!(
                    "the server's answers to a replica's queries exceed {size} MiB"
                )));
            }
            match conversation.read(payload).map_err(explain_missing_privilege)? {
                ReplicaStep::Send(command) => link.packet_stream.send(&command)?,
                ReplicaStep::Wait => {}
                ReplicaStep::Event(_) | ReplicaStep::End => {
                    unreachable!("ours: the log starts only after its request")
                }
            }
        }
        if conversation.source().semi_sync == SemiSync::On {
            link.packet_stream.packets.ignore_sequence();
        }
        let reader = StreamReader::new(conversation.source().checksum, gaps);
        let source_end = SourceEnd::new(conversation.source().clock_s, now_s(), heartbeat);
        Ok(Self { link, conversation, reader, end, source_end })
    }

    /// Returns the source's version and settings.
    pub fn facts(&self) -> &SourceFacts {
        self.conversation.source()
    }

    /// Returns the negotiated session.
    pub fn session(&self) -> &wire::ClientSession {
        self.link.session()
    }

    /// Returns the stream's reader, which has the position of the next event and the format of its file.
    pub fn reader(&self) -> &StreamReader {
        &self.reader
    }

    /// Returns the number of bytes received from the source, after compression and without TLS overhead.
    pub const fn network_bytes(&self) -> u64 {
        self.link.packet_stream.received()
    }

    /// Returns whether the next event has arrived. If not, the caller can finish its work on earlier events.
    ///
    /// # Errors
    ///
    /// Fails if the received bytes are invalid, or the connection is lost.
    pub fn has_more(&mut self) -> Result<bool, ConnectionError> {
        self.link.packet_stream.read_ready_packet()
    }

    /// Returns whether the source is known to have no newer events than those received: it has sent a heartbeat at
    /// the end of the last event, or the last event was new when it arrived. If no event has arrived, but this is
    /// false, events may be delayed.
    pub fn is_caught_up(&self) -> bool {
        self.source_end.is_reached(now_s())
    }

    /// Waits up to a tenth of a second for the next event. Returns whether it has arrived.
    ///
    /// # Errors
    ///
    /// Fails if the source is silent for too long, the connection is lost, or the wait is cancelled.
    pub fn wait_briefly(&mut self) -> Result<bool, ConnectionError> {
        self.link.packet_stream.wait_briefly()
    }

    /// Waits as [`LiveSource::wait_briefly`], but also ends when `signal` is readable.
    ///
    /// # Errors
    ///
    /// Fails if [`LiveSource::wait_briefly`] fails.
    pub fn wait_briefly_or(&mut self, signal: BorrowedFd<'_>) -> Result<bool, ConnectionError> {
        self.link.packet_stream.wait_briefly_or(signal)
    }

    /// Returns the next event; `None` at the end, if the log was requested only up to its end.
    ///
    /// # Errors
    ///
    /// Fails if the source refuses to continue (1236), is silent for too long, or sends an invalid or unexpected event,
    /// if the connection is lost, or if the wait is cancelled.
    #[allow(clippy::should_implement_trait, reason = "the event borrows from the source")]
    pub fn next(&mut self) -> Result<Option<LiveEvent<'_>>, ConnectionError> {
        match self.conversation.read(self.link.packet_stream.next()?)? {
            ReplicaStep::Event(packet) => {
                // A heartbeat moves the reader over skipped events.
                let received_end = self.reader.position();
                let arrival = self.reader.read(packet.event)?;
                let mut is_repeated = false;
                match &arrival {
                    SourceEvent::Heartbeat { position } => {
                        let heartbeat =
                            HeartbeatArrival { position: *position, received_end, now_s: now_s() };
                        is_repeated = self.source_end.take_heartbeat(heartbeat);
                    }
                    SourceEvent::Event { event, .. } => {
                        self.source_end.take_event(event.header().timestamp, now_s());
                    }
                    SourceEvent::File { .. } | SourceEvent::Format { .. } | SourceEvent::Artificial(_) => {}
                }
                // MySQL 5.6.14 waits for new events even if the log was requested only up to its end.
                if self.end == ReplicaEnd::LastEvent && is_repeated {
                    return Ok(None);
                }
                Ok(Some(LiveEvent { arrival, acknowledge: packet.acknowledge }))
            }
            ReplicaStep::End => Ok(None),
            ReplicaStep::Send(_) | ReplicaStep::Wait => {
                Err(WireError::Unexpected { found: None, expected: "an event" }.into())
            }
        }
    }

    /// Returns the position after all received events.
    pub fn position(&self) -> LivePosition {
        LivePosition { file: self.reader.file().to_vec(), position: self.reader.position() }
    }

    /// Acknowledges all events before a position as safe.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost.
    pub fn acknowledge(&mut self, position: &LivePosition) -> Result<(), ConnectionError> {
        let ack = SemiSyncAck { position: position.position, file: &position.file };
        let mut payload = Vec::new();
        ack.encode(&mut payload);
        self.link.packet_stream.send(&payload)
    }
}

/// Adds the missing privilege to the error: servers report a missing privilege with the same error as a wrong password.
fn explain_missing_privilege(error: WireError) -> ConnectionError {
    match ConnectionError::from(error) {
        ConnectionError::Refused { code: ACCESS_DENIED_ERROR, message } => {
            let message = format!("the account needs the privilege REPLICATION SLAVE: {message}");
            ConnectionError::Refused { code: ACCESS_DENIED_ERROR, message }
        }
        error => error,
    }
}
