//! The commit gate: who may commit now, who waits, and who gives way when two hold each other up.
//!
//! Pieces of work have the numbers that the schedule gave them. A worker tells the gate how far it is, and asks for
//! its [`Turn`] whenever something has changed:
//!
//! ```text
//! begin ──▶ applying ──applied──▶ waiting ──Turn::Commit──▶ committing ──placed──▶ placed ──committed──▶ gone
//!             ▲  │ failed            │ Turn::RollBack           │ failed
//!             │  ▼                   ▼                          ▼
//!             └─ retry after … ◀── rolled_back: wait for Turn::Apply
//! ```
//!
//! A worker that waits for its turn keeps its locks, and one in front of it may need them: then the later one gives
//! way, always. It rolls back, waits until the other has committed, and starts anew. The first of all that are open
//! waits for nobody but strangers: only its own failures are counted, and after [`RETRIES_MAX`] of them replay stops.
//!
//! A failure that no retry mends is one of the first of all: any other waits until it is that, and is tried again.
//! Behind it, nothing is let through any more. (In any order, it counts at once.)
//!
//! Nothing here does I/O, reads a clock or starts a thread.

#[cfg(test)]
mod property;
#[cfg(test)]
mod scripts;

use std::collections::VecDeque;
use std::time::Duration;

/// In what order pieces of work commit, and what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitOrder {
    /// Each transaction by itself, in the source's order.
    Strict,
    /// Transactions in a row as one, in the source's order.
    #[default]
    Grouped,
    /// Whatever is done first.
    Any,
}

/// Times that the first piece of work of all is tried again, as `replica_transaction_retries` is by default.
pub const RETRIES_MAX: u32 = 10;

/// How long the first retry waits; each further one twice as long.
const WAIT_FIRST: Duration = Duration::from_millis(5);

/// No retry waits longer, as on a server.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What a worker is to do with its piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Apply it from the start: tell [`Gate::begin`].
    Apply,
    /// Ask again when something has changed.
    Wait,
    /// Commit it.
    Commit,
    /// Roll it back, and tell [`Gate::rolled_back`]: one in front of it needs its locks.
    RollBack,
    /// Roll it back and leave it: one in front of it has failed for good.
    Abandon,
}

/// What becomes of a piece of work that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Roll it back, and ask for its turn after this time. Others may have a turn to roll back now.
    Retry {
        /// How long to wait.
        after: Duration,
    },
    /// Roll it back and stop: nothing behind it commits.
    Stop,
}

/// Decides who commits when. See the module's description.
#[derive(Clone, Debug)]
pub struct Gate {
    order: CommitOrder,
    /// From the first that is not committed on.
    works: VecDeque<Work>,
    /// The number of the first of them.
    first: u64,
    /// The lowest number that failed for good.
    failed: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Work {
    phase: Phase,
    /// Must it give way to one in front of it, and to which?
    yields_to: Option<u64>,
    /// Failures in a row.
    failures: u32,
    /// Those of them since it is the first of all.
    counted: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Holds nothing: not begun, or rolled back.
    #[default]
    Idle,
    Applying,
    Applied,
    Committing,
    Placed,
    Committed,
    Failed,
}

impl Gate {
    /// For commits in this order.
    pub fn new(order: CommitOrder) -> Self {
        Self { order, works: VecDeque::new(), first: 0, failed: None }
    }

    /// The number of the first piece of work that is not committed: all in front of it are.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The lowest number that failed for good: none above it should be started.
    pub fn failed(&self) -> Option<u64> {
        self.failed
    }

    /// A worker starts to apply, or starts anew.
    ///
    /// # Panics
    ///
    /// When it has begun already, and has neither failed nor rolled back since. The same goes for the other steps:
    /// each is told once, in order.
    pub fn begin(&mut self, number: u64) {
        let index = self.index(number);
        if self.works.len() <= index {
            self.works.resize(index + 1, Work::default());
        }
        self.step(number, &[Phase::Idle], Phase::Applying);
    }

    /// All is applied; only the commit is left.
    pub fn applied(&mut self, number: u64) {
        self.step(number, &[Phase::Applying], Phase::Applied);
    }

    /// What to do now, for a worker that has nothing else to do: it waits, or is about to begin again. One that is
    /// applying may ask, too, to give way early.
    pub fn turn(&mut self, number: u64) -> Turn {
        let turn = self.outlook(number);
        if turn == Turn::Commit {
            self.work(number).phase = Phase::Committing;
        }
        turn
    }

    /// What [`Gate::turn`] would say. Whoever is told to commit has to do it; this only tells whether to ask.
    pub fn outlook(&self, number: u64) -> Turn {
        let work = self.works.get(self.index(number)).expect("ours: what has a turn has begun");
        let yields = work.yields_to.is_some_and(|other| other >= self.first);
        match work.phase {
            Phase::Committing | Phase::Placed | Phase::Committed => Turn::Wait,
            Phase::Failed => Turn::Abandon,
            _ if self.failed.is_some_and(|failed| number > failed) => Turn::Abandon,
            Phase::Idle if yields => Turn::Wait,
            Phase::Idle => Turn::Apply,
            _ if yields => Turn::RollBack,
            Phase::Applying => Turn::Wait,
            Phase::Applied if self.order == CommitOrder::Any || self.is_next(number) => Turn::Commit,
            Phase::Applied => Turn::Wait,
        }
    }

    /// Its place in the order is certain, though it has not committed yet: the next may follow. Only to be told if
    /// whatever follows cannot commit without it.
    pub fn placed(&mut self, number: u64) {
        self.step(number, &[Phase::Committing], Phase::Placed);
    }

    /// It is committed.
    pub fn committed(&mut self, number: u64) {
        self.step(number, &[Phase::Committing, Phase::Placed], Phase::Committed);
        while self.works.front().is_some_and(|work| work.phase == Phase::Committed) {
            self.works.pop_front();
            self.first += 1;
        }
    }

    /// It was rolled back, as [`Turn::RollBack`] asked.
    pub fn rolled_back(&mut self, number: u64) {
        self.step(number, &[Phase::Applying, Phase::Applied], Phase::Idle);
    }

    /// The target refused something: a statement, or the commit. `code` is its error.
    pub fn fail(&mut self, number: u64, code: u16) -> Verdict {
        let (first, order) = (self.first, self.order);
        let failing = [Phase::Applying, Phase::Applied, Phase::Committing, Phase::Placed];
        self.step(number, &failing, Phase::Idle);
        let work = self.work(number);
        work.failures += 1;
        work.counted += u32::from(number == first);
        let (failures, counted) = (work.failures, work.counted);
        if !is_temporary(code) && number != first && order != CommitOrder::Any {
            // It may have met something that those in front of it put right: that shows when they are committed.
            work.yields_to = number.checked_sub(1);
            return Verdict::Retry { after: Duration::ZERO };
        }
        if !is_temporary(code) || counted > RETRIES_MAX {
            work.phase = Phase::Failed;
            self.failed = Some(self.failed.map_or(number, |failed| failed.min(number)));
            return Verdict::Stop;
        }
        // Who is in its way is not known. The first of all can only be in the way of itself, or of later ones; the
        // others are given one more chance to find one in front of them gone.
        if order != CommitOrder::Any && (number == first || failures > 1) {
            self.yield_all_behind(number);
        }
        Verdict::Retry { after: wait(failures) }
    }

    /// One was found waiting for a lock of another. The later one gives way if it is the one that holds the lock:
    /// else it waits rightly.
    pub fn conflict(&mut self, waiter: u64, holder: u64) {
        if waiter < holder && self.order != CommitOrder::Any {
            self.yield_to(holder, waiter);
        }
    }

    fn yield_all_behind(&mut self, number: u64) {
        for later in number + 1..self.first + self.works.len() as u64 {
            self.yield_to(later, number);
        }
    }

    /// Has a piece of work that may hold locks give way to one in front of it; to the first, if to several.
    fn yield_to(&mut self, number: u64, other: u64) {
        let first = self.first;
        let work = self.work(number);
        if matches!(work.phase, Phase::Applying | Phase::Applied) {
            let before = work.yields_to.filter(|before| *before >= first);
            work.yields_to = Some(before.map_or(other, |before| before.max(other)));
        }
    }

    /// Are all in front of it placed or committed?
    fn is_next(&self, number: u64) -> bool {
        let in_front = self.works.iter().take(self.index(number));
        in_front.into_iter().all(|work| matches!(work.phase, Phase::Placed | Phase::Committed))
    }

    fn step(&mut self, number: u64, from: &[Phase], to: Phase) {
        let work = self.work(number);
        assert!(from.contains(&work.phase), "ours: {number} is {:?}, cannot become {to:?}", work.phase);
        work.phase = to;
    }

    fn index(&self, number: u64) -> usize {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        index.expect("ours: what is committed does not come back")
    }

    fn work(&mut self, number: u64) -> &mut Work {
        let index = self.index(number);
        self.works.get_mut(index).expect("ours: what has a turn has begun")
    }
}

/// May the same go well another time? Deadlocks, lock waits that took too long, what a storage engine calls
/// temporary: what a server's own applier tries again.
pub const fn is_temporary(code: u16) -> bool {
    const LOCK_WAIT_TIMEOUT: u16 = 1205;
    const LOCK_DEADLOCK: u16 = 1213;
    const TEMPORARY: u16 = 1297;
    matches!(code, LOCK_WAIT_TIMEOUT | LOCK_DEADLOCK | TEMPORARY)
}

/// How long to wait before the next try, after so many failures in a row.
fn wait(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    WAIT_FIRST.saturating_mul(doubled).min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{is_temporary, wait};

    #[test]
    fn waits_grow_to_a_limit() {
        let check = |failures, wanted| assert_eq!(wait(failures), Duration::from_millis(wanted));
        check(1, 5);
        check(2, 10);
        check(5, 80);
        check(10, 2560);
        check(11, 5000);
        check(40, 5000);
        check(u32::MAX, 5000);
    }

    #[test]
    fn what_is_tried_again() {
        for (code, wanted) in
            [(1205, true), (1213, true), (1297, true), (1062, false), (1032, false), (0, false)]
        {
            assert_eq!(is_temporary(code), wanted, "{code}");
        }
    }
}
