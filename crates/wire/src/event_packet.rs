//! Packets with events, and acknowledgements of semi-synchronous replication.

use binlog::{Cursor, DecodeError, DecodeReason};

use crate::error::WireError;

/// First byte of a packet with an event.
pub(crate) const EVENT: u8 = 0x00;
/// Mark of semi-synchronous replication, in both directions.
const SEMI_SYNC: u8 = 0xef;
/// Maximum size of a file name in an acknowledgement, as on servers.
const FILE_SIZE_MAX: u64 = 511;

/// State of semi-synchronous replication, agreed on before the log is requested. If it is on, event packets have two
/// more bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SemiSync {
    /// Off.
    #[default]
    Off,
    /// On: the replica acknowledges events.
    On,
}

/// Acknowledgement that the source expects for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckRequest {
    /// None.
    No,
    /// The source waits for a [`SemiSyncAck`]. A source that has fallen back to asynchronous replication requests an
    /// acknowledgement of every event, even inside transactions.
    Requested,
}

/// Packet with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPacket<'a> {
    /// Acknowledgement that the source expects.
    pub acknowledge: AckRequest,
    /// Bytes of the event: header, body, checksum.
    pub event: &'a [u8],
}

impl<'a> EventPacket<'a> {
    /// Returns true if `payload`, in a log stream, looks like an event packet.
    pub fn is(payload: &[u8]) -> bool {
        payload.first() == Some(&EVENT)
    }

    /// Decodes an event packet.
    ///
    /// # Errors
    ///
    /// Fails if the payload has another first byte, or lacks the mark of semi-synchronous replication.
    pub fn decode(payload: &'a [u8], semi_sync: SemiSync) -> Result<Self, WireError> {
        Self::decode_fields(payload, semi_sync).map_err(WireError::packet("event packet"))
    }

    // size  field
    //    1  0
    //    1  0xef, with semi-synchronous replication
    //    1  1 if the source waits for an acknowledgement, else 0, with semi-synchronous replication
    //    *  event: to the end
    fn decode_fields(payload: &'a [u8], semi_sync: SemiSync) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        fixed(&mut cursor, "first byte", EVENT)?;
        let mut acknowledge = AckRequest::No;
        if semi_sync == SemiSync::On {
            fixed(&mut cursor, "mark of semi-synchronous replication", SEMI_SYNC)?;
            if cursor.u8()? & 1 == 1 {
                acknowledge = AckRequest::Requested;
            }
        }
        Ok(Self { acknowledge, event: cursor.take_rest() })
    }

    /// Encodes the packet.
    pub fn encode(&self, semi_sync: SemiSync, out: &mut Vec<u8>) {
        out.push(EVENT);
        if semi_sync == SemiSync::On {
            out.extend_from_slice(&[SEMI_SYNC, u8::from(self.acknowledge == AckRequest::Requested)]);
        }
        out.extend_from_slice(self.event);
    }
}

/// Acknowledgement that a replica has durably received the log up to a position. Sent as a packet with number 0; the
/// source does not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemiSyncAck<'a> {
    /// Position of the next event in the source's file.
    pub position: u64,
    /// File of the source.
    pub file: &'a [u8],
}

impl<'a> SemiSyncAck<'a> {
    /// Decodes an acknowledgement.
    ///
    /// # Errors
    ///
    /// Fails if the payload is no acknowledgement.
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
            return Err(DecodeError::new(
                start,
                DecodeReason::OutOfRange { field, found, max: FILE_SIZE_MAX },
            ));
        }
        Ok(Self { position, file })
    }

    /// Encodes the acknowledgement.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(SEMI_SYNC);
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(self.file);
    }
}

fn fixed(cursor: &mut Cursor<'_>, field: &'static str, expected: u8) -> Result<(), DecodeError> {
    let start = cursor.offset();
    match cursor.u8()? {
        found if found == expected => Ok(()),
        found => {
            let reason = DecodeReason::Differs { field, found: found.into(), expected: expected.into() };
            Err(DecodeError::new(start, reason))
        }
    }
}
