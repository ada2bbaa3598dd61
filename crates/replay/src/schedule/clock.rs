//! The source's logical clock, turned into what each transaction waits for.
//!
//! The rules are those of a server that applies a relay log with `replica_parallel_type=LOGICAL_CLOCK`: what it
//! treats as the start of a new group waits for all in front of it here, and all behind it wait for it.

use binlog::events::LogicalClock;

use super::Wait;

/// Reads the logical clocks of one source's transactions, in order.
///
/// Transactions are told apart by their numbers here, not by the clock's: those start anew with each log.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockReader {
    last: Option<Last>,
    /// The last one that had to wait for all in front of it. The server counts anew from there: what names an
    /// earlier one waits for this one.
    group_start: u64,
}

/// The transaction in front.
#[derive(Clone, Copy, Debug)]
struct Last {
    log: u64,
    /// 0: it had none.
    sequence_number: i64,
}

/// A clock that cannot be right: nothing that follows from it would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// It depends on itself or on what comes later.
    #[error("sequence_number is {sequence_number}, must be above its own last_committed, {last_committed}")]
    Inverted {
        /// As logged.
        last_committed: i64,
        /// As logged.
        sequence_number: i64,
    },
    /// It does not come after the one in front of it.
    #[error("sequence_number is {sequence_number}, must be above that of the transaction before, {previous}")]
    NotAfter {
        /// As logged.
        sequence_number: i64,
        /// The `sequence_number` of the transaction in front of it.
        previous: i64,
    },
    /// No server counts below 0.
    #[error("last_committed is {last_committed} and sequence_number {sequence_number}, must be 0 or above")]
    Negative {
        /// As logged.
        last_committed: i64,
        /// As logged.
        sequence_number: i64,
    },
}

impl ClockReader {
    /// What transaction `number`, which stands in this log of the source, waits for.
    ///
    /// # Errors
    ///
    /// When the clock cannot be right; the reader is then as it was.
    pub(super) fn read(
        &mut self,
        number: u64,
        log: u64,
        clock: Option<LogicalClock>,
    ) -> Result<Wait, ClockError> {
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
        self.last = Some(Last { log, sequence_number });
        let starts_group = match last {
            // The first of all, the first of a log, or behind one without a clock.
            None | Some(0) => true,
            // Without a clock; depends on nothing in its log; behind one that is not here.
            Some(previous) => sequence_number == 0 || last_committed == 0 || sequence_number != previous + 1,
        };
        if starts_group {
            self.group_start = number;
            return Ok(Wait::ForAll);
        }
        // Within a group the clock and our numbers run alike.
        let distance = (sequence_number - last_committed).unsigned_abs();
        Ok(Wait::Below(number.saturating_sub(distance).max(self.group_start) + 1))
    }
}
