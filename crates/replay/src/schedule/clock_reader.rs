//! Converts the source's logical clock to dependencies.
//!
//! The rules are those of a server that applies a relay log with `replica_parallel_type=LOGICAL_CLOCK`. A transaction
//! that starts a new group on that server waits here for all earlier transactions, and all later ones wait for it.

use binlog::events::LogicalClock;

use super::wait_rule::WaitRule;

/// Reads the logical clocks of one source's transactions, in order.
///
/// Identifies transactions by their number in the replay: the clock restarts in each log.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockReader {
    last: Option<PreviousClock>,
    /// The last transaction that waited for all earlier ones. Dependencies on earlier transactions become dependencies
    /// on this one, as on a server.
    group_start: u64,
}

/// The previous transaction.
#[derive(Clone, Copy, Debug)]
struct PreviousClock {
    log: u64,
    /// 0: no clock.
    sequence_number: i64,
}

/// An inconsistent clock, which a schedule cannot rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The transaction depends on itself or on a later transaction.
    #[error("sequence_number is {sequence_number}, must be above its own last_committed, {last_committed}")]
    Inverted {
        /// As logged.
        last_committed: i64,
        /// As logged.
        sequence_number: i64,
    },
    /// The `sequence_number` is not above the previous transaction's.
    #[error("sequence_number is {sequence_number}, must be above that of the transaction before, {previous}")]
    NotAfter {
        /// As logged.
        sequence_number: i64,
        /// The `sequence_number` of the previous transaction.
        previous: i64,
    },
    /// A number is below 0. No server writes that.
    #[error("last_committed is {last_committed} and sequence_number {sequence_number}, must be 0 or above")]
    Negative {
        /// As logged.
        last_committed: i64,
        /// As logged.
        sequence_number: i64,
    },
}

impl ClockReader {
    /// Returns the dependency of transaction `number`, which is in log number `log` of the source.
    ///
    /// # Errors
    ///
    /// Fails if the clock is inconsistent; the reader is then unchanged.
    pub(super) fn read(
        &mut self,
        number: u64,
        log: u64,
        clock: Option<LogicalClock>,
    ) -> Result<WaitRule, ClockError> {
        let unknown = LogicalClock { last_committed: 0, sequence_number: 0 };
        let LogicalClock { last_committed, sequence_number } = clock.unwrap_or(unknown);
        if last_committed < 0 || sequence_number < 0 {
            return Err(ClockError::Negative { last_committed, sequence_number });
        }
        let last = self.last.filter(|last| last.log == log).map(|last| last.sequence_number);
        if let Some(previous) = last {
            if last_committed != 0 && sequence_number <= last_committed {
                return Err(ClockError::Inverted { last_committed, sequence_number });
            }
            if sequence_number != 0 && sequence_number <= previous {
                return Err(ClockError::NotAfter { sequence_number, previous });
            }
        }
        self.last = Some(PreviousClock { log, sequence_number });
        let starts_group = match last {
            // The first transaction of the replay or of a log, or the first transaction after a transaction without a
            // clock.
            None | Some(0) => true,
            // The transaction has no clock, depends on nothing in its log, or follows a missing one.
            Some(previous) => sequence_number == 0 || last_committed == 0 || sequence_number != previous + 1,
        };
        if starts_group {
            self.group_start = number;
            return Ok(WaitRule::ForAll);
        }
        // Within a group, the clock and the replay's numbers advance equally.
        let distance = (sequence_number - last_committed).unsigned_abs();
        let below = number.saturating_sub(distance).max(self.group_start) + 1;
        assert!(below <= number, "ours: a transaction waits for earlier ones only");
        Ok(WaitRule::Below(below))
    }
}
