//! Forms of events: header fields that most events of a kind share.

use binlog::{EventHeader, EventType};

use crate::segment_error::BlockDamage;

/// Header fields of an event, and how the rest of it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventForm {
    pub(crate) event_type: EventType,
    pub(crate) server_id: u32,
    pub(crate) flags: u16,
    pub(crate) position: PositionForm,
    pub(crate) body: BodyForm,
}

/// Origin of the position that an event's header states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PositionForm {
    /// It is 0.
    Zero,
    /// End of the event in this log.
    End,
    /// Position in the event before, and the size of this event: the log of the source, in a relay log.
    Chained,
    /// Any other.
    Stored,
}

/// Storage of an event's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyForm {
    /// As it is.
    Plain,
    /// Number of an equal table map of the block.
    TableMap,
    /// Column by column.
    Rows,
    /// Field by field.
    Gtid,
    MariadbGtid,
    Query,
    Xid,
    /// Text that is unlikely to repeat.
    LongText,
    /// Events inside the payload.
    Payload,
    /// Whole event with header and checksum, as it is.
    Whole,
    /// Format description of the block.
    Description,
}

impl EventForm {
    pub(crate) const fn whole(body: BodyForm) -> Self {
        let event_type = EventType::Unknown(0);
        Self { event_type, server_id: 0, flags: 0, position: PositionForm::Zero, body }
    }

    pub(crate) const fn of(header: &EventHeader, position: PositionForm, body: BodyForm) -> Self {
        let EventHeader { event_type, server_id, flags, .. } = *header;
        Self { event_type, server_id, flags: flags.0, position, body }
    }

    pub(crate) const fn encode(self) -> [u8; 9] {
        let [a, b, c, d] = self.server_id.to_le_bytes();
        let [e, f] = self.flags.to_le_bytes();
        [self.event_type.code(), a, b, c, d, e, f, self.position as u8, self.body as u8]
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BlockDamage> {
        use BodyForm as B;
        use PositionForm as P;
        const POSITIONS: [PositionForm; 4] = [P::Zero, P::End, P::Chained, P::Stored];
        const BODIES: [BodyForm; 11] = [
            B::Plain,
            B::TableMap,
            B::Rows,
            B::Gtid,
            B::MariadbGtid,
            B::Query,
            B::Xid,
            B::LongText,
            B::Payload,
            B::Whole,
            B::Description,
        ];
        const UNKNOWN: BlockDamage = BlockDamage("an event has an unknown form");
        let [code, a, b, c, d, e, f, position, body] = *<&[u8; 9]>::try_from(bytes).map_err(|_| UNKNOWN)?;
        Ok(Self {
            event_type: EventType::from_code(code),
            server_id: u32::from_le_bytes([a, b, c, d]),
            flags: u16::from_le_bytes([e, f]),
            position: *POSITIONS.get(usize::from(position)).ok_or(UNKNOWN)?,
            body: *BODIES.get(usize::from(body)).ok_or(UNKNOWN)?,
        })
    }
}
