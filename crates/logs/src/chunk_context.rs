//! Context of a piece of a log, from the preceding events. Most of these events need not be read.

use binlog::events::RowsFlags;
use binlog::{
    DecodeError, Event, EventFormat, EventHeader, EventRole, EventType, GrammarFault, RawEvent,
    TransactionGrammar, TransactionId,
};

use crate::change_origin::ChangeOrigin;
use crate::event_chunk::EventChunk;
use crate::large_payload::LargePayloadHead;
use crate::piece_reader::WalkPiece;
use crate::statement_table_maps::StatementTableMaps;

/// Context at the start of a piece: state that the piece itself does not contain.
#[derive(Clone, Debug, Default)]
pub struct ChunkContext {
    /// State of the transaction grammar.
    pub grammar: TransactionGrammar,
    /// Transaction of the event before the piece, if one has begun.
    pub id: Option<TransactionId>,
    /// Origin of the changes in that transaction.
    pub origin: ChangeOrigin,
    /// Table maps of a statement that continues in the piece.
    pub maps: StatementTableMaps,
    /// `end_log_pos` of the event before the piece.
    pub next_position: u32,
}

/// Error: a statement has more table maps than any server writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextError {
    /// Start of the event, in bytes from the start of its log; inside a payload, of the uncompressed payload.
    pub offset: u64,
    /// Cause, with an offset from the event's first byte.
    pub error: DecodeError,
}

impl ChunkContext {
    /// Returns the context of the event after these consecutive events.
    ///
    /// Looks back from the end of the chunk only as far as needed: usually to the start of the last transaction.
    ///
    /// # Errors
    ///
    /// Fails if a statement has more table maps than any server writes.
    pub fn after_chunk(mut self, chunk: &EventChunk) -> Result<Self, ContextError> {
        let known = (0..chunk.len())
            .rev()
            .find(|index| chunk.get(*index).is_some_and(|event| starts_transaction(event.raw.event_type())));
        let from = match known {
            Some(index) => {
                self = Self::default();
                index
            }
            None => 0,
        };
        for event in chunk.part(from..chunk.len()).iter() {
            let stepped = self.step(&event.raw, chunk.format());
            stepped.map_err(|error| ContextError { offset: event.offset, error })?;
        }
        Ok(self)
    }

    /// Advances over an event.
    fn step(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        self.next_position = raw.header().next_position;
        self.id = transaction_at(raw, format, self.id);
        match EventRole::of(raw, format) {
            Ok(role) => {
                let step = self.grammar.step(role).unwrap_or_else(|fault: GrammarFault| fault.step);
                if step.transaction.is_first() {
                    self.origin = ChangeOrigin::begin(raw.header());
                }
            }
            // The check of the event reports the error. Here, the state of its transaction is lost.
            Err(_) => self.grammar = TransactionGrammar::new(),
        }
        self.origin.pass(raw, format);
        if raw.event_type() == EventType::TableMap {
            return self.maps.push(raw);
        }
        if ends_statement(raw, format) {
            self.maps.clear();
            self.origin.end_statement();
        }
        Ok(())
    }

    /// Returns the context of the first event inside a payload.
    fn inside_payload(&self) -> Self {
        Self {
            grammar: TransactionGrammar::inside_payload(),
            id: self.id,
            origin: self.origin.clone(),
            ..Self::default()
        }
    }

    /// Returns the context of the event after a payload's event.
    fn after_payload(mut self, header: &EventHeader) -> Self {
        let _ = self.grammar.step(EventRole::Payload);
        Self { next_position: header.next_position, maps: StatementTableMaps::default(), ..self }
    }
}

/// Tracks the context along the pieces of a log.
#[derive(Clone, Debug, Default)]
pub struct ContextTracker {
    context: ChunkContext,
    /// Context of the open payload event.
    outer: Option<ChunkContext>,
}

impl ContextTracker {
    /// Returns the context of the next piece. Inside a large payload, returns the context of the events inside.
    pub const fn context(&self) -> &ChunkContext {
        &self.context
    }

    /// Returns the context of the open large payload's event.
    pub const fn outer(&self) -> Option<&ChunkContext> {
        self.outer.as_ref()
    }

    /// Advances over a piece.
    ///
    /// # Errors
    ///
    /// Fails if a statement has more table maps than any server writes.
    ///
    /// # Panics
    ///
    /// If the piece is a part of a payload, and the payload's start was not passed.
    pub fn pass(&mut self, piece: &WalkPiece) -> Result<(), ContextError> {
        match piece {
            WalkPiece::Chunk(chunk) => {
                self.context = std::mem::take(&mut self.context).after_chunk(chunk)?;
            }
            WalkPiece::PayloadStart(_) => {
                let inside = self.context.inside_payload();
                self.outer = Some(std::mem::replace(&mut self.context, inside));
            }
            WalkPiece::PayloadPart(part) => {
                assert!(self.outer.is_some(), "ours: a part follows its payload's start");
                for (position, raw) in part.events() {
                    let stepped = self.context.step(&raw, &part.format);
                    stepped.map_err(|error| ContextError { offset: position.offset, error })?;
                }
            }
            WalkPiece::PayloadEnd { head, .. } => self.end_payload(head),
        }
        Ok(())
    }

    /// Advances over the end of the open large payload.
    pub fn end_payload(&mut self, head: &LargePayloadHead) {
        if let Some(outer) = self.outer.take() {
            self.context = outer.after_payload(&head.header);
        }
    }
}

/// Returns true if an event of this type always starts a transaction.
pub(crate) const fn starts_transaction(event_type: EventType) -> bool {
    matches!(
        event_type,
        EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged | EventType::MariadbGtid
    )
}

/// Returns the transaction of an event. `before` is the transaction of the previous event.
pub fn transaction_at(
    raw: &RawEvent<'_>,
    format: &EventFormat,
    before: Option<TransactionId>,
) -> Option<TransactionId> {
    match raw.event_type() {
        // An invalid GTID event starts an unknown transaction. The event's user reports the error.
        EventType::Gtid | EventType::GtidTagged => {
            Some(TransactionId::Gtid(raw.decode(format).ok()?.gtid()?))
        }
        EventType::MariadbGtid => match raw.decode(format).ok()? {
            Event::MariadbGtid(event) => Some(TransactionId::Mariadb(event.gtid(raw.header().server_id))),
            _ => None,
        },
        EventType::AnonymousGtid => Some(TransactionId::Anonymous),
        EventType::FormatDescription
        | EventType::PreviousGtids
        | EventType::Rotate
        | EventType::Stop
        | EventType::Heartbeat
        | EventType::HeartbeatV2
        | EventType::MariadbGtidList
        | EventType::MariadbBinlogCheckpoint
        | EventType::MariadbStartEncryption => None,
        _ => before,
    }
}

/// Returns whether this event invalidates earlier table maps. Decides by the event alone, not by the grammar: in a
/// damaged log, as many rows as possible keep their tables.
pub fn ends_statement(raw: &RawEvent<'_>, format: &EventFormat) -> bool {
    match raw.event_type() {
        EventType::TableMap
        | EventType::RowsQuery
        | EventType::MariadbAnnotateRows
        | EventType::Intvar
        | EventType::Rand
        | EventType::UserVar
        | EventType::Ignorable
        | EventType::Unknown(_) => false,
        EventType::PreGaWriteRows | EventType::PreGaUpdateRows | EventType::PreGaDeleteRows => {
            is_last_of_rows(raw, format)
        }
        event_type if event_type.rows_kind().is_some() => is_last_of_rows(raw, format),
        _ => true,
    }
}

/// Returns whether a row event ends its statement. Its flags follow the table id, which has four bytes in very old
/// logs.
fn is_last_of_rows(raw: &RawEvent<'_>, format: &EventFormat) -> bool {
    let offset = match format.post_header_size(raw.event_type()) {
        Some(6) => 4,
        _ => 6,
    };
    let flags = raw.body().get(offset..).and_then(<[u8]>::first_chunk);
    flags.is_some_and(|flags| RowsFlags(u16::from_le_bytes(*flags)).contains(RowsFlags::STATEMENT_END))
}
