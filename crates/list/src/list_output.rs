//! Interface of the outputs: tables, JSON lines, transactions.

use binlog::DecodeError;

use crate::event_context::EventContext;
use crate::located_event::{ListedEvent, LocatedEvent, OutputRefusal};

/// Converts events to output.
pub(crate) trait ListOutput: Sync {
    /// True if the output needs [`EventContext::origin`].
    const NEEDS_ORIGIN: bool = false;

    /// State that a worker keeps from event to event.
    type ListWorker;
    /// Output for some events. A part grows until its size is large enough to pass on.
    type Part: Default + Send;

    /// Creates the state of a worker.
    fn worker(&self) -> Self::ListWorker;

    /// Adds one event to a part, or leaves the part unchanged.
    fn put(
        &self,
        worker: &mut Self::ListWorker,
        context: &mut EventContext,
        listed: ListedEvent<'_>,
        part: &mut Self::Part,
    ) -> Result<(), OutputRefusal>;

    /// Adds one event that cannot be decoded.
    fn put_damaged(
        &self,
        context: &EventContext,
        located: &LocatedEvent<'_>,
        error: DecodeError,
        part: &mut Self::Part,
    );

    /// Returns the approximate size in bytes.
    fn size(part: &Self::Part) -> usize;
}
