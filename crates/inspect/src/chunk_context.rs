//! State that a chunk needs from the chunks before it, found without reading all of them.

use binlog::{
    DecodeError, EventFormat, EventPlace, EventRole, EventType, GrammarFault, RawEvent, TransactionGrammar,
};
use logs::{EventChunk, LogEvent, StatementTableMaps};

/// State at the start of a chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkContext {
    pub(crate) grammar: TransactionGrammar,
    /// Table maps of the current statement.
    pub(crate) maps: StatementTableMaps,
    /// `end_log_pos` of the previous event.
    pub(crate) next_position: u32,
}

impl ChunkContext {
    /// Returns the state at the start of a payload's content.
    pub(crate) fn inside_payload() -> Self {
        Self { grammar: TransactionGrammar::inside_payload(), ..Self::default() }
    }

    /// Returns the state at the start of the next chunk.
    ///
    /// Looks back from the end of the chunk only as far as needed: usually to the start of the last transaction.
    ///
    /// # Errors
    ///
    /// A statement has more table maps than any server writes.
    pub(crate) fn after_chunk(mut self, chunk: &EventChunk) -> Result<Self, (u64, DecodeError)> {
        let known = (0..chunk.len())
            .rev()
            .find(|index| chunk.get(*index).is_some_and(|event| starts_transaction(&event)));
        let from = match known {
            Some(index) => {
                self = Self::default();
                index
            }
            None => 0,
        };
        for event in chunk.part(from..chunk.len()).iter() {
            self.step(&event.raw, chunk.format()).map_err(|error| (event.offset, error))?;
        }
        Ok(self)
    }

    /// Advances the state over an event.
    pub(crate) fn step(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        self.next_position = raw.header().next_position;
        let Ok(role) = EventRole::of(raw, format) else {
            // The check of the event itself reports the error. The state of its transaction is lost.
            *self = Self { next_position: self.next_position, ..Self::default() };
            return Ok(());
        };
        let step = self.grammar.step(role).unwrap_or_else(|fault: GrammarFault| fault.step);
        if raw.event_type() == EventType::TableMap {
            self.maps.push(raw)?;
        }
        if step.transaction == EventPlace::Outside || step.statement.is_last() {
            self.maps.clear();
        }
        Ok(())
    }
}

/// Returns true if a transaction starts here, whatever precedes it.
fn starts_transaction(event: &LogEvent<'_>) -> bool {
    matches!(event.raw.event_type(), EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged)
}
