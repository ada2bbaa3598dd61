//! What came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::control::State;
use crate::place::Place;
use crate::statement::Left;

/// What was done so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Events of rows ahead of the applier.
    pub events: u64,
    /// Changes of rows in them.
    pub rows: u64,
    /// Those of tables that cannot be searched: not there, of another engine, without a key, or not as in the log.
    pub rows_left: u64,
    /// Events that the applier's filter leaves out: of rows, and statements.
    pub filtered: u64,
    /// Searches for pages: what the applier will need.
    pub touches: u64,
    /// Those that were made a little while before, and not again.
    pub repeated: u64,
    /// Statements that were made of them, to be run.
    pub pushed: u64,
    /// Those that were not even queued, as next to nothing had to be read: [`State::Sampling`].
    pub skipped: u64,
    /// Those that a connection has taken up.
    pub popped: u64,
    /// Those of them that the applier had passed by then: not run.
    pub old: u64,
    /// Those that were run.
    pub executed: u64,
    /// Those that the server refused or gave up.
    pub errors: u64,
    /// Statements in the log that were made searches: for the rows that they will read.
    pub statements: u64,
    /// Those that were not.
    pub discarded: u64,
    /// The same by why not.
    pub left: BTreeMap<Left, u64>,
    /// Times that reading began anew at the applier's place: it was overtaken, or logs were removed.
    pub jumps: u64,
    /// What the server refused, by its error number: how often, and its first words.
    pub refusals: BTreeMap<u16, (u64, String)>,
}

/// What the replica reads from its disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// By whomever: `Innodb_buffer_pool_reads`.
    pub all: u64,
    /// By our searches, and how long they waited for it; `None` if the replica does not tell.
    pub ours: Option<Waits>,
    /// By its applier.
    pub applier: Option<Waits>,
}

/// Waits for a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Pages.
    pub pages: u64,
    /// All of it together.
    pub time: Duration,
}

/// How it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// What was done so far.
    pub counts: Counts,
    /// What was read from disks since it began.
    pub reads: Reads,
    /// Each channel.
    pub channels: Vec<ChannelStatus>,
    /// Searches that wait to be made.
    pub queued: usize,
    /// Searches that may be ahead of the applier, together.
    pub distance: u64,
    /// Connections that search.
    pub workers: usize,
    /// How it goes.
    pub state: State,
    /// Is the server gone for the moment, and waited for?
    pub is_lost: bool,
    /// How long it has gone in each way.
    pub times: BTreeMap<State, Duration>,
    /// How fast it goes.
    pub rate: Rate,
    /// Threads of the replica that apply.
    pub appliers: u64,
    /// How long it has been going on.
    pub elapsed: Duration,
}

/// How fast it goes, over the last half second or so.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Searches that are made of the changes ahead, a second.
    pub touches: f64,
    /// Searches that the applier passes, a second.
    pub passed: f64,
}

/// How far one channel is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChannelStatus {
    /// Its name; empty for the default one.
    pub name: String,
    /// The relay log that its applier reads.
    pub log: String,
    /// Where its applier is.
    pub applier: Option<Place>,
    /// Does it run?
    pub is_applying: bool,
    /// Where touching is.
    pub place: Option<Place>,
    /// Searches ahead of the applier.
    pub touches_ahead: u64,
    /// Events ahead of the applier.
    pub events_ahead: u64,
    /// Its lag by its own account, in seconds.
    pub lag_s: Option<u64>,
    /// The same over all the time, as far as it was told.
    pub lag_average_s: Option<f64>,
}

/// What it came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it stands in the end.
    pub status: Status,
    /// Why it has ended.
    pub why: Why,
}

/// Why it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was called off.
    Interrupted,
    /// Nothing is gained by it.
    NoGain,
}

impl Status {
    /// About how much of the applier's time its reads would have taken that we made for it, with as many of them at once
    /// as it has threads. `None` if the replica does not tell.
    pub fn saved(&self) -> Option<Duration> {
        let ours = self.reads.ours?;
        let of_applier = self.reads.applier.filter(|waits| waits.pages >= READS_TO_JUDGE);
        let each = of_applier.unwrap_or(ours).each()?;
        let pages = u32::try_from(ours.pages).unwrap_or(u32::MAX);
        let appliers = u32::try_from(self.appliers.max(1)).unwrap_or(u32::MAX);
        Some(each * pages / appliers)
    }
}

/// With fewer reads, their mean says little.
const READS_TO_JUDGE: u64 = 100;

impl Rate {
    pub(crate) fn of(touches: u64, passed: u64, elapsed: Duration) -> Self {
        let each = |count: u64| count as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        Self { touches: each(touches), passed: each(passed) }
    }
}

impl Waits {
    /// One of them, on average.
    pub fn each(&self) -> Option<Duration> {
        let pages = u32::try_from(self.pages).unwrap_or(u32::MAX);
        (pages > 0).then(|| self.time / pages)
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self { pages: self.pages.saturating_sub(before.pages), time: self.time.saturating_sub(before.time) }
    }
}
