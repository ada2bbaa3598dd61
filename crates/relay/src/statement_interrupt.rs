//! Requests to end a running statement early.

use std::fmt;
use std::sync::Arc;

/// Request to end a running statement: `KILL`, `KILL QUERY`, a client that has disconnected, or a stop of the relay. The
/// default value never requests it.
#[derive(Clone, Default)]
pub struct StatementInterrupt {
    is_requested: Option<Arc<InterruptCheck>>,
}

type InterruptCheck = dyn Fn() -> bool + Send + Sync;

impl StatementInterrupt {
    /// Creates an interrupt from a check, which long statements call many times.
    pub fn new(is_requested: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { is_requested: Some(Arc::new(is_requested)) }
    }

    /// Returns whether the statement must end.
    pub fn is_requested(&self) -> bool {
        self.is_requested.as_ref().is_some_and(|is_requested| is_requested())
    }
}

impl fmt::Debug for StatementInterrupt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StatementInterrupt").finish_non_exhaustive()
    }
}
