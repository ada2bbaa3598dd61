//! A server's log, as it is written.

use wire::{
    Acknowledge, Arrival, End, Gaps, ReplicaConversation, ReplicaOptions, SemiSync, SemiSyncAck, SourceFacts,
    Start, Step, StreamReader, WireError,
};

use crate::address::Address;
use crate::error::Error;
use crate::link::{ANSWER_SIZE_MAX, Link, LinkOptions};

/// A server's log, as it is written: events in order, verified, each with its place in the source's files.
pub struct LiveSource {
    link: Link,
    conversation: ReplicaConversation,
    reader: StreamReader,
    end: End,
    /// Heartbeats since the last event. One may stand between events that are left out; two in a row say that the
    /// source has no more.
    heartbeats: u32,
}

/// One event that came.
pub struct Live<'a> {
    /// What it is, and where it stands.
    pub arrival: Arrival<'a>,
    /// Whether the source waits for it: [`LiveSource::acknowledge`] once it is safe.
    pub acknowledge: Acknowledge,
}

/// Access denied: to an account that was let in.
const ACCESS_DENIED: u16 = 1045;

impl LiveSource {
    /// Connects, asks what a replica asks, and asks for the log.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, refuses, or cannot be this replica's source.
    pub fn open(
        address: &Address,
        link_options: &LinkOptions,
        replica_options: ReplicaOptions,
    ) -> Result<Self, Error> {
        let mut link = Link::open(address, link_options)?;
        let end = replica_options.end;
        let gaps = match replica_options.start {
            Start::Position { .. } => Gaps::None,
            Start::Gtids { .. } | Start::MariadbGtids { .. } => Gaps::Skipped,
        };
        let (mut conversation, first) = ReplicaConversation::begin(replica_options, link.session().clone())?;
        link.pipe.send(&first)?;
        let mut answer_size = 0;
        while !conversation.is_streaming() {
            let payload = link.next()?;
            answer_size += payload.len();
            if answer_size > ANSWER_SIZE_MAX {
                let size = ANSWER_SIZE_MAX >> 20;
                return Err(Error::lost(format!("the answers to a replica's questions exceed {size} MiB")));
            }
            match conversation.read(payload).map_err(of_privilege)? {
                Step::Send(command) => link.pipe.send(&command)?,
                Step::Wait => {}
                Step::Event(_) | Step::End => {
                    unreachable!("ours: the log does not flow before it is asked for")
                }
            }
        }
        if conversation.facts().semi_sync == SemiSync::On {
            link.pipe.packets.ignore_numbers();
        }
        let reader = StreamReader::new(conversation.facts().checksum, gaps);
        Ok(Self { link, conversation, reader, end, heartbeats: 0 })
    }

    /// What the source says of itself.
    pub fn facts(&self) -> &SourceFacts {
        self.conversation.facts()
    }

    /// The connection's terms.
    pub fn session(&self) -> &wire::Session {
        self.link.session()
    }

    /// Where the next event stands, and what its file promises.
    pub fn reader(&self) -> &StreamReader {
        &self.reader
    }

    /// Bytes that the network has carried from the source: compressed, if that was agreed on, but without what TLS adds.
    pub const fn network_bytes(&self) -> u64 {
        self.link.pipe.received()
    }

    /// Has the next event come already? If not, this is the time to see to what has.
    ///
    /// # Errors
    ///
    /// When what has come is damaged, or the source is gone.
    pub fn has_more(&mut self) -> Result<bool, Error> {
        self.link.pipe.look()
    }

    /// Waits a moment, a tenth of a second, for the next event. Has it come?
    ///
    /// # Errors
    ///
    /// When the source is silent for too long or gone, or when it was called off.
    pub fn wait(&mut self) -> Result<bool, Error> {
        self.link.pipe.wait_a_moment()
    }

    /// The next event; none at the end, if the log was asked for up to its end only.
    ///
    /// # Errors
    ///
    /// When the source refuses to go on (1236), is silent for too long or gone, sends what is damaged or not the next
    /// event, or when it was called off.
    #[allow(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    pub fn next(&mut self) -> Result<Option<Live<'_>>, Error> {
        match self.conversation.read(self.link.pipe.next()?)? {
            Step::Event(packet) => {
                let arrival = self.reader.read(packet.event)?;
                match arrival {
                    Arrival::Heartbeat { .. } => self.heartbeats += 1,
                    _ => self.heartbeats = 0,
                }
                // MySQL 5.6.14 waits for more also where it was asked for what there is.
                if self.end == End::LastEvent && self.heartbeats > 1 {
                    return Ok(None);
                }
                Ok(Some(Live { arrival, acknowledge: packet.acknowledge }))
            }
            Step::End => Ok(None),
            Step::Send(_) | Step::Wait => {
                Err(WireError::Unexpected { found: None, wanted: "an event" }.into())
            }
        }
    }

    /// All events that came are safe here.
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    pub fn acknowledge(&mut self) -> Result<(), Error> {
        let ack = SemiSyncAck { position: self.reader.position(), file: self.reader.file() };
        let mut payload = Vec::new();
        ack.encode(&mut payload);
        self.link.pipe.send(&payload)
    }
}

/// Servers say of an account that may not replicate only what they say of a wrong password.
fn of_privilege(error: WireError) -> Error {
    match Error::from(error) {
        Error::Refused { code: ACCESS_DENIED, message } => {
            let message = format!("the account needs the privilege REPLICATION SLAVE: {message}");
            Error::Refused { code: ACCESS_DENIED, message }
        }
        error => error,
    }
}
