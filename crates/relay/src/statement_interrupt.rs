//! Requests to end a running statement early.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use wire::ServerError;

/// Interval at which a waiting statement tries to get a lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(2);

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

    /// Waits until no other statement has the lock.
    ///
    /// # Errors
    ///
    /// Fails if the statement must end.
    pub fn wait_for<'m, T>(&self, mutex: &'m Mutex<T>) -> Result<MutexGuard<'m, T>, ServerError> {
        loop {
            match mutex.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if self.is_requested() => {
                    return Err(ServerError::query_interrupted());
                }
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_INTERVAL),
            }
        }
    }
}

impl fmt::Debug for StatementInterrupt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StatementInterrupt").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::StatementInterrupt;

    #[test]
    fn waits_for_a_lock_end_with_the_statement() {
        let mutex = Mutex::new(1);
        let interrupt = StatementInterrupt::new(|| true);
        let held = interrupt.wait_for(&mutex).unwrap();
        assert_eq!(interrupt.wait_for(&mutex).unwrap_err().code, 1317);
        drop(held);
        assert_eq!(*interrupt.wait_for(&mutex).unwrap(), 1);
    }
}
