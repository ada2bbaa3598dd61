//! What a chunk needs to know of the chunks before it, found without reading all of them.

use binlog::{EventType, Fault, Grammar, Place, RawEvent, RawEventBuf, Role};
use logs::{Chunk, LogEvent};

/// Where in a transaction a chunk starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carry {
    pub(crate) grammar: Grammar,
    /// Table maps of the statement at hand.
    pub(crate) maps: Vec<RawEventBuf>,
}

impl Carry {
    /// The same for the chunk that follows.
    ///
    /// Looks back from the chunk's end only as far as it must: mostly to the last transaction's start.
    pub(crate) fn behind(mut self, chunk: &Chunk) -> Self {
        let known =
            (0..chunk.len()).rev().find(|index| chunk.get(*index).is_some_and(|event| starts(&event)));
        if let Some(index) = known {
            self = Self::default();
            chunk.part(index..chunk.len()).iter().for_each(|event| self.step(&event.raw, chunk));
        } else {
            chunk.iter().for_each(|event| self.step(&event.raw, chunk));
        }
        self
    }

    fn step(&mut self, raw: &RawEvent<'_>, chunk: &Chunk) {
        // What cannot be decoded stops the count of this chunk.
        let Ok(role) = Role::of(raw, chunk.format()) else { return };
        let step = self.grammar.step(role).unwrap_or_else(|fault: Fault| fault.step);
        if raw.event_type() == EventType::TableMap {
            self.maps.push(raw.to_buf());
        }
        if step.transaction == Place::Outside || step.statement.is_last() {
            self.maps.clear();
        }
    }
}

/// Does a transaction start here, whatever came before?
fn starts(event: &LogEvent<'_>) -> bool {
    matches!(event.raw.event_type(), EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged)
}
