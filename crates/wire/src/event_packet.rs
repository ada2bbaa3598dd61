//! Events as packets, and what a replica answers to them.

use binlog::{Cursor, DecodeError, Reason};

use crate::error::WireError;

/// First byte of a packet that holds an event.
const EVENT: u8 = 0x00;
/// First byte of what semi-synchronous replication adds, in both directions.
const SEMI_SYNC: u8 = 0xef;
/// Bytes of a file's name at most: servers take no longer one in an acknowledgement.
const FILE_SIZE_MAX: u64 = 511;

/// Whether packets of events carry two bytes more, as was agreed on before the log was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SemiSync {
    /// No.
    #[default]
    Off,
    /// Yes, and the replica acknowledges.
    On,
}

/// Whether the source waits for this event to be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// It does not.
    No,
    /// It does: see [`SemiSyncAck`]. A source that has gone back to asynchronous replication says so of every event,
    /// whether a transaction ends there or not.
    Wanted,
}

/// A packet that holds an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPacket<'a> {
    /// Whether the source waits for it to be acknowledged.
    pub acknowledge: Acknowledge,
    /// The event: header, body, checksum.
    pub event: &'a [u8],
}

impl<'a> EventPacket<'a> {
    /// Could `payload` be one, once a log is being sent?
    pub fn is(payload: &[u8]) -> bool {
        payload.first() == Some(&EVENT)
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// When the payload starts as another packet, or lacks what was agreed on.
    pub fn decode(payload: &'a [u8], semi_sync: SemiSync) -> Result<Self, WireError> {
        Self::decode_fields(payload, semi_sync).map_err(WireError::packet("event packet"))
    }

    // size  field
    //    1  0
    //    1  0xef, with semi-synchronous replication
    //    1  1 to acknowledge, 0 not to, with semi-synchronous replication
    //    *  event: to the end
    fn decode_fields(payload: &'a [u8], semi_sync: SemiSync) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        fixed(&mut cursor, "first byte", EVENT)?;
        let mut acknowledge = Acknowledge::No;
        if semi_sync == SemiSync::On {
            fixed(&mut cursor, "mark of semi-synchronous replication", SEMI_SYNC)?;
            if cursor.u8()? & 1 == 1 {
                acknowledge = Acknowledge::Wanted;
            }
        }
        Ok(Self { acknowledge, event: cursor.take_rest() })
    }

    /// Writes one.
    pub fn encode(&self, semi_sync: SemiSync, out: &mut Vec<u8>) {
        out.push(EVENT);
        if semi_sync == SemiSync::On {
            out.extend_from_slice(&[SEMI_SYNC, u8::from(self.acknowledge == Acknowledge::Wanted)]);
        }
        out.extend_from_slice(self.event);
    }
}

/// A replica has all up to here, and keeps it. Sent as a packet of its own, number 0; there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemiSyncAck<'a> {
    /// Where the next event starts in the source's file.
    pub position: u64,
    /// The source's file.
    pub file: &'a [u8],
}

impl<'a> SemiSyncAck<'a> {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// When the payload is none.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        Self::decode_fields(payload).map_err(WireError::packet("acknowledgement"))
    }

    // size  field
    //    1  0xef
    //    8  position
    //    *  file: to the end
    fn decode_fields(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        fixed(&mut cursor, "first byte", SEMI_SYNC)?;
        let position = cursor.u64()?;
        let start = cursor.offset();
        let file = cursor.take_rest();
        let found = file.len() as u64;
        if found > FILE_SIZE_MAX {
            let field = "size of the file's name";
            return Err(DecodeError::new(start, Reason::OutOfRange { field, found, max: FILE_SIZE_MAX }));
        }
        Ok(Self { position, file })
    }

    /// Writes one.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(SEMI_SYNC);
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(self.file);
    }
}

fn fixed(cursor: &mut Cursor<'_>, field: &'static str, wanted: u8) -> Result<(), DecodeError> {
    let start = cursor.offset();
    match cursor.u8()? {
        found if found == wanted => Ok(()),
        found => {
            let reason = Reason::Differs { field, found: found.into(), wanted: wanted.into() };
            Err(DecodeError::new(start, reason))
        }
    }
}
