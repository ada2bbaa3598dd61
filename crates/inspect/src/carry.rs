//! What a chunk needs to know of the chunks before it, found without reading all of them.

use binlog::{DecodeError, EventType, Fault, Format, Grammar, Place, RawEvent, Role};
use logs::{Chunk, LogEvent, StatementMaps};

/// Where in a transaction a chunk starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carry {
    pub(crate) grammar: Grammar,
    /// Table maps of the statement at hand.
    pub(crate) maps: StatementMaps,
    /// `end_log_pos` of the event in front.
    pub(crate) next_position: u32,
}

impl Carry {
    /// For the first events inside a payload.
    pub(crate) fn inside_payload() -> Self {
        Self { grammar: Grammar::inside_payload(), ..Self::default() }
    }

    /// The same for the chunk that follows.
    ///
    /// Looks back from the chunk's end only as far as it must: mostly to the last transaction's start.
    ///
    /// # Errors
    ///
    /// Where a statement has more table maps than any server writes.
    pub(crate) fn behind(mut self, chunk: &Chunk) -> Result<Self, (u64, DecodeError)> {
        let known =
            (0..chunk.len()).rev().find(|index| chunk.get(*index).is_some_and(|event| starts(&event)));
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

    /// The same behind an event.
    pub(crate) fn step(&mut self, raw: &RawEvent<'_>, format: &Format) -> Result<(), DecodeError> {
        self.next_position = raw.header().next_position;
        let Ok(role) = Role::of(raw, format) else {
            // Whoever looks at the event itself says so; where its transaction stands, nobody knows.
            *self = Self { next_position: self.next_position, ..Self::default() };
            return Ok(());
        };
        let step = self.grammar.step(role).unwrap_or_else(|fault: Fault| fault.step);
        if raw.event_type() == EventType::TableMap {
            self.maps.push(raw)?;
        }
        if step.transaction == Place::Outside || step.statement.is_last() {
            self.maps.clear();
        }
        Ok(())
    }
}

/// Does a transaction start here, whatever came before?
fn starts(event: &LogEvent<'_>) -> bool {
    matches!(event.raw.event_type(), EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged)
}
