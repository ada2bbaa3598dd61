//! Growth of the store: counts it, and wakes the waiting clients.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Instant;

use logs::lock;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Number of times that the store has grown, and the clients that wait for further growth.
#[derive(Debug, Default)]
pub(crate) struct StoreGrowth {
    count: Mutex<u64>,
    grown: Condvar,
    /// Signals of clients that wait for both growth and data.
    signals: Mutex<Vec<Weak<GrowthSignal>>>,
}

/// Descriptor that becomes readable when the store has grown.
#[derive(Debug)]
pub(crate) struct GrowthSignal(EventFd);

impl GrowthSignal {
    /// Makes the descriptor unreadable until the store grows again.
    pub(crate) fn clear(&self) {
        // An error means that the store has not grown.
        let _ = self.0.read();
    }

    /// Returns the descriptor.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl StoreGrowth {
    /// Returns the number of times that the store has grown.
    pub(crate) fn count(&self) -> u64 {
        *lock(&self.count)
    }

    /// Wakes all waiting clients.
    pub(crate) fn record(&self) {
        *lock(&self.count) += 1;
        self.grown.notify_all();
        lock(&self.signals).retain(|signal| {
            let Some(signal) = signal.upgrade() else { return false };
            // An error means that the counter is at its maximum: the descriptor is already readable.
            let _ = signal.0.write(1);
            true
        });
    }

    /// Returns a signal of growth. Dropping the signal ends the subscription.
    ///
    /// # Errors
    ///
    /// Fails if the process has too many open files.
    pub(crate) fn subscribe(&self) -> io::Result<Arc<GrowthSignal>> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let signal = Arc::new(GrowthSignal(EventFd::from_value_and_flags(0, flags)?));
        lock(&self.signals).push(Arc::downgrade(&signal));
        Ok(signal)
    }

    /// Waits until the store has grown more often than `seen` times, or until this time.
    pub(crate) fn wait(&self, seen: u64, until: Instant) {
        let mut count = lock(&self.count);
        while *count == seen {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            count = match self.grown.wait_timeout(count, left) {
                Ok((count, _)) => count,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::StoreGrowth;

    #[test]
    fn clients_are_woken_by_growth_or_a_timeout() {
        let growth = Arc::new(StoreGrowth::default());
        growth.wait(0, Instant::now() + Duration::from_millis(1));
        let seen = growth.count();
        let recording = Arc::clone(&growth);
        let thread = std::thread::spawn(move || recording.record());
        growth.wait(seen, Instant::now() + Duration::from_secs(60));
        assert_eq!(growth.count(), 1);
        thread.join().unwrap();
    }
}
