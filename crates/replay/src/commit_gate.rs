//! The commit gate: decides which worker commits, which waits, and which rolls back when two block each other.
//!
//! Commit groups keep their numbers from the schedule. A worker reports each step to the gate, and asks for a
//! [`CommitDecision`] after each change of state:
//!
//! ```text
//! begin ──▶ applying ──applied──▶ waiting ─────Commit─────▶ committing ──ordered──▶ ordered ──committed──▶ gone
//!             ▲  │ failed            │ RollBack                 │ failed
//!             │  ▼                   ▼                          ▼
//!             └─ retry after … ◀── mark_rolled_back: wait for Apply
//! ```
//!
//! A worker that waits to commit keeps its locks, and an earlier group may need them. The later group then always
//! yields: it rolls back, waits until the earlier group has committed, and starts again. Only sessions of other
//! programs can block the first open group. Replay therefore counts only the failures of that group, and stops after
//! [`RETRIES_MAX`].
//!
//! A permanent failure is final only for the first open group. Any other failed group waits until all earlier groups
//! have committed, and is then retried. No group commits after a group that failed permanently. (With
//! [`CommitOrder::Any`], every permanent failure is final at once.)
//!
//! If the session of a group that has its place is lost, it is unknown whether the group was committed. The groups that
//! were let go after it can commit only if it was: the target decides. No further group commits.
//!
//! This module does no I/O, reads no clock and starts no thread.

#[cfg(test)]
mod property;
#[cfg(test)]
mod scripts;

use std::collections::VecDeque;
use std::time::Duration;

use binlog::server_error::LOCK_WAIT_TIMEOUT;

use crate::commit_order::CommitOrder;

/// Retries of the first open group; the default of `replica_transaction_retries`.
pub const RETRIES_MAX: u32 = 10;

/// Wait before the first retry; each further retry doubles it.
const RETRY_BACKOFF_MIN: Duration = Duration::from_millis(5);

/// Maximum wait before a retry, as on a server.
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Next step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitDecision {
    /// Apply from the start: call [`CommitGate::begin`].
    Apply,
    /// Ask again after something has changed.
    Wait,
    /// Commit.
    Commit,
    /// Roll back and call [`CommitGate::mark_rolled_back`]: an earlier group needs the locks.
    RollBack,
    /// Roll back and give up: an earlier group has failed permanently.
    Abandon,
}

impl CommitDecision {
    /// Returns the decision of a replay that stops: a group that would have to wait gives up.
    pub(crate) fn or_abandon(self) -> Self {
        if self == Self::Wait { Self::Abandon } else { self }
    }
}

/// Outcome of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Roll back, and ask for a decision after this time. For other workers, the decision may now be to roll back.
    Retry {
        /// Time to wait.
        after: Duration,
    },
    /// Roll back and stop: no later group commits.
    Stop,
}

/// Decides which group commits when. See the module's description.
#[derive(Clone, Debug)]
pub struct CommitGate {
    order: CommitOrder,
    /// The first uncommitted group, and all groups after it.
    works: VecDeque<GateEntry>,
    /// Number of the first element of `works`.
    first: u64,
    /// Lowest number of a group that failed permanently.
    failed: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct GateEntry {
    phase: CommitPhase,
    /// The earlier group that this group must yield to.
    yields_to: Option<u64>,
    /// Consecutive failures.
    failures: u32,
    /// Failures since this group became the first open one.
    counted: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CommitPhase {
    /// Not begun, or rolled back: holds no locks.
    #[default]
    Idle,
    Applying,
    Applied,
    Committing,
    Ordered,
    Committed,
    Failed,
    /// Ordered, and its session lost: committed or not.
    Unknown,
}

impl CommitGate {
    /// Creates a gate for commits in this order.
    pub fn new(order: CommitOrder) -> Self {
        Self { order, works: VecDeque::new(), first: 0, failed: None }
    }

    /// Returns the number of the first uncommitted group. All groups before it are committed.
    pub fn first_uncommitted(&self) -> u64 {
        self.first
    }

    /// Returns the lowest number of a group that failed permanently. No later group should start.
    pub fn failed(&self) -> Option<u64> {
        self.failed
    }

    /// Returns whether the first uncommitted group is being applied. It may then wait for the locks of later groups.
    pub fn is_first_applying(&self) -> bool {
        self.works.front().is_some_and(|work| work.phase == CommitPhase::Applying)
    }

    /// Records that a worker starts to apply, or starts again.
    ///
    /// # Panics
    ///
    /// If the group has already begun, and has neither failed nor rolled back since. All steps must be reported once
    /// and in order: other methods panic likewise.
    pub fn begin(&mut self, number: u64) {
        let index = self.index(number);
        if self.works.len() <= index {
            self.works.resize(index + 1, GateEntry::default());
        }
        self.step(number, &[CommitPhase::Idle], CommitPhase::Applying);
    }

    /// Records that all changes of the group are applied: only the commit is left.
    pub fn mark_applied(&mut self, number: u64) {
        self.step(number, &[CommitPhase::Applying], CommitPhase::Applied);
    }

    /// Returns the next step of a waiting worker, and marks a commit as begun. A worker that is still applying may ask,
    /// too, in order to yield early.
    pub fn decide(&mut self, number: u64) -> CommitDecision {
        let turn = self.peek(number);
        if turn == CommitDecision::Commit {
            self.entry(number).phase = CommitPhase::Committing;
        }
        turn
    }

    /// Returns the same decision as [`CommitGate::decide`], without marking a commit as begun. A worker that gets
    /// `Commit` from `decide` must commit.
    pub fn peek(&self, number: u64) -> CommitDecision {
        let work =
            self.works.get(self.index(number)).expect("ours: a group that asks for its decision has begun");
        debug_assert!(
            work.yields_to.is_none_or(|other| other < number),
            "ours: a group yields to earlier ones"
        );
        let yields = work.yields_to.is_some_and(|other| other >= self.first);
        match work.phase {
            CommitPhase::Committing | CommitPhase::Ordered | CommitPhase::Committed => CommitDecision::Wait,
            CommitPhase::Failed | CommitPhase::Unknown => CommitDecision::Abandon,
            _ if self.failed.is_some_and(|failed| number > failed) => CommitDecision::Abandon,
            CommitPhase::Idle if yields => CommitDecision::Wait,
            CommitPhase::Idle => CommitDecision::Apply,
            _ if yields => CommitDecision::RollBack,
            CommitPhase::Applying => CommitDecision::Wait,
            CommitPhase::Applied if self.order == CommitOrder::Any || self.is_next(number) => {
                CommitDecision::Commit
            }
            CommitPhase::Applied => CommitDecision::Wait,
        }
    }

    /// Records that the group's place in the commit order is certain before its commit ends: the next group may commit.
    /// Must be called only if no later commit can succeed without this one.
    pub fn mark_ordered(&mut self, number: u64) {
        self.step(number, &[CommitPhase::Committing], CommitPhase::Ordered);
        let is_in_order = self.order == CommitOrder::Any || self.is_next(number);
        assert!(is_in_order, "ours: a group gets its place after all before it");
    }

    /// Records that the group is committed.
    pub fn mark_committed(&mut self, number: u64) {
        self.step(number, &[CommitPhase::Committing, CommitPhase::Ordered], CommitPhase::Committed);
        let is_any = self.order == CommitOrder::Any;
        assert!(is_any || self.is_next(number), "ours: a group commits after all before it");
        let is_before_failure = self.failed.is_none_or(|failed| number < failed || self.is_unknown(failed));
        assert!(is_any || is_before_failure, "ours: nothing commits after a permanent failure");
        while self.works.front().is_some_and(|work| work.phase == CommitPhase::Committed) {
            self.works.pop_front();
            self.first += 1;
        }
        assert!(
            self.failed.is_none_or(|failed| failed >= self.first),
            "ours: a failed group is not committed"
        );
    }

    /// Records that a group was applied and committed by one request: commits come in any order, or the group was the
    /// first uncommitted one.
    pub fn mark_committed_at_once(&mut self, number: u64) {
        let is_free = self.order == CommitOrder::Any || number == self.first;
        assert!(is_free, "ours: a group commits after all before it");
        self.step(number, &[CommitPhase::Applying], CommitPhase::Committing);
        self.mark_committed(number);
    }

    /// Records that the group was rolled back, as [`CommitDecision::RollBack`] required.
    pub fn mark_rolled_back(&mut self, number: u64) {
        self.step(number, &[CommitPhase::Applying, CommitPhase::Applied], CommitPhase::Idle);
        assert!(self.entry(number).yields_to.is_some(), "ours: a group rolls back for an earlier one");
    }

    /// Records that the target refused a statement or the commit, with error `code`.
    pub fn fail(&mut self, number: u64, code: u16) -> RetryDecision {
        let (first, order) = (self.first, self.order);
        let failing =
            [CommitPhase::Applying, CommitPhase::Applied, CommitPhase::Committing, CommitPhase::Ordered];
        self.step(number, &failing, CommitPhase::Idle);
        let work = self.entry(number);
        work.failures += 1;
        work.counted += u32::from(number == first);
        let (failures, counted) = (work.failures, work.counted);
        assert!(counted <= failures, "ours: each counted failure is a failure");
        if !is_temporary(code) && number != first && order != CommitOrder::Any {
            // Earlier groups may remove the cause of the error: retry after they have committed.
            work.yields_to = number.checked_sub(1);
            return RetryDecision::Retry { after: Duration::ZERO };
        }
        if !is_temporary(code) || counted > RETRIES_MAX {
            work.phase = CommitPhase::Failed;
            self.failed = Some(self.failed.map_or(number, |failed| failed.min(number)));
            return RetryDecision::Stop;
        }
        // The blocking session is unknown. Only later groups or the group itself can block the first one. Other groups
        // get one more retry first, because an earlier group may commit meanwhile.
        if order != CommitOrder::Any && (number == first || failures > 1) {
            self.yield_all_after(number);
        }
        RetryDecision::Retry { after: retry_backoff(failures) }
    }

    /// Records that the group's session was lost.
    pub fn lose(&mut self, number: u64) -> RetryDecision {
        if self.entry(number).phase != CommitPhase::Ordered || self.order == CommitOrder::Any {
            return self.fail(number, 0);
        }
        self.step(number, &[CommitPhase::Ordered], CommitPhase::Unknown);
        self.failed = Some(self.failed.map_or(number, |failed| failed.min(number)));
        RetryDecision::Stop
    }

    /// Records that one group waits, or may wait, for a lock of another. The later group yields only if it holds the
    /// lock; otherwise it may wait.
    pub fn resolve_conflict(&mut self, waiter: u64, holder: u64) {
        if waiter < holder && self.order != CommitOrder::Any {
            self.make_yield(holder, waiter);
        }
    }

    fn yield_all_after(&mut self, number: u64) {
        for later in number + 1..self.first + self.works.len() as u64 {
            self.make_yield(later, number);
        }
    }

    /// Makes a group that may hold locks yield to an earlier group. If the group already yields to another group, it
    /// waits for the later of the two.
    fn make_yield(&mut self, number: u64, other: u64) {
        assert!(other < number, "ours: a group yields only to an earlier one");
        let first = self.first;
        let work = self.entry(number);
        if matches!(work.phase, CommitPhase::Applying | CommitPhase::Applied) {
            let before = work.yields_to.filter(|before| *before >= first);
            work.yields_to = Some(before.map_or(other, |before| before.max(other)));
        }
    }

    /// Returns whether all earlier groups have had their place, or are committed.
    fn is_next(&self, number: u64) -> bool {
        let mut in_front = self.works.iter().take(self.index(number));
        in_front.all(|work| {
            matches!(work.phase, CommitPhase::Ordered | CommitPhase::Committed | CommitPhase::Unknown)
        })
    }

    fn is_unknown(&self, number: u64) -> bool {
        self.works.get(self.index(number)).is_some_and(|work| work.phase == CommitPhase::Unknown)
    }

    fn step(&mut self, number: u64, from: &[CommitPhase], to: CommitPhase) {
        let work = self.entry(number);
        assert!(from.contains(&work.phase), "ours: {number} is {:?}, cannot become {to:?}", work.phase);
        work.phase = to;
    }

    fn index(&self, number: u64) -> usize {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        index.expect("ours: a committed group is not used again")
    }

    fn entry(&mut self, number: u64) -> &mut GateEntry {
        let index = self.index(number);
        self.works.get_mut(index).expect("ours: a group that asks for its decision has begun")
    }
}

/// Returns whether a retry may succeed: after deadlocks, lock wait timeouts, and temporary errors of a storage engine.
/// A server's applier retries after the same errors.
pub const fn is_temporary(code: u16) -> bool {
    const LOCK_DEADLOCK: u16 = 1213;
    const TEMPORARY: u16 = 1297;
    matches!(code, LOCK_WAIT_TIMEOUT | LOCK_DEADLOCK | TEMPORARY)
}

/// Returns the wait before the next try, after this number of consecutive failures.
fn retry_backoff(failures: u32) -> Duration {
    assert!(failures > 0, "ours: a retry follows a failure");
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    RETRY_BACKOFF_MIN.saturating_mul(doubled).min(RETRY_BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{is_temporary, retry_backoff};

    #[test]
    fn waits_grow_to_a_limit() {
        let check = |failures, expected| assert_eq!(retry_backoff(failures), Duration::from_millis(expected));
        check(1, 5);
        check(2, 10);
        check(5, 80);
        check(10, 2560);
        check(11, 5000);
        check(40, 5000);
        check(u32::MAX, 5000);
    }

    #[test]
    fn temporary_errors_are_retried() {
        for (code, expected) in
            [(1205, true), (1213, true), (1297, true), (1062, false), (1032, false), (0, false)]
        {
            assert_eq!(is_temporary(code), expected, "{code}");
        }
    }
}
