//! What has been applied: as the target keeps it, and as it is counted while a replay runs.

use std::collections::BTreeMap;
use std::fmt;

use binlog::gtid::{Gtid, GtidSet};

use crate::unit::Head;

/// A place in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The log's name on its own server.
    pub log: String,
    /// Bytes from the start of the log.
    pub position: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.log, self.position)
    }
}

/// What has been applied: one row on the target, written in the same transaction as the changes it covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Transactions with GTIDs. Those that the target itself counts as executed may be missing.
    pub gtids: GtidSet,
    /// Up to here, all transactions without GTIDs have been applied.
    pub place: Option<Place>,
    /// Behind that place, the starts of those that have been applied too: while an XA transaction is undecided.
    pub beyond: Vec<Place>,
    /// How many target transactions have been committed in the source's order by now. Each is saved as the one right
    /// behind the last: one whose neighbour in front was lost at the last moment cannot be. `None` where the target
    /// does not count them, or commits come in any order.
    pub commits: Option<u64>,
}

impl Progress {
    /// These are applied, too.
    pub fn count(&mut self, gtids: &[Gtid]) {
        for gtid in gtids {
            self.gtids.add(*gtid);
        }
    }
}

/// What a target has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// By our own account.
    pub progress: Progress,
    /// What the target counts as executed besides.
    pub executed: GtidSet,
    /// What was announced and not reported done.
    pub intent: Option<Intent>,
}

/// A statement that commits by itself, announced before it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Its GTID, or its place in the log: what to know it by.
    pub unit: String,
    /// Those databases whose definitions it may change; empty: all.
    pub databases: Vec<Vec<u8>>,
    /// What the definitions were before: the target's own kind of fingerprint.
    pub before: String,
}

impl Intent {
    /// What an intent calls this transaction.
    pub fn name(unit: &Head) -> String {
        match unit.gtid() {
            Some(gtid) => gtid.to_string(),
            None => unit.origin.start_place().to_string(),
        }
    }

    /// The place that it is known by, if it has no GTID.
    pub fn place(&self) -> Option<Place> {
        let (log, position) = self.unit.rsplit_once(':')?;
        Some(Place { log: log.to_owned(), position: position.parse().ok()? })
    }
}

/// Counts what is applied while a replay runs, in commit order.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    progress: Progress,
    /// Undecided XA transactions without GTIDs, by number, and where they start.
    held: BTreeMap<u64, Place>,
    last: Option<Place>,
}

impl Ledger {
    /// Goes on from what was saved.
    pub fn new(progress: Progress) -> Self {
        Self { last: progress.place.clone(), progress, held: BTreeMap::new() }
    }

    /// What is to be saved with the changes counted last, in the next target transaction.
    pub fn save(&mut self) -> Progress {
        if let Some(commits) = &mut self.progress.commits {
            *commits += 1;
        }
        self.progress.clone()
    }

    /// This transaction is applied.
    pub fn done(&mut self, unit: &Head) {
        match unit.gtid() {
            Some(gtid) => {
                self.progress.gtids.add(gtid);
            }
            None => self.done_nameless(unit),
        }
    }

    fn done_nameless(&mut self, unit: &Head) {
        self.held.remove(&unit.number);
        self.last = Some(unit.origin.end_place());
        match self.held.values().next() {
            None => {
                self.progress.place.clone_from(&self.last);
                self.progress.beyond.clear();
            }
            Some(oldest) => {
                self.progress.place = Some(oldest.clone());
                self.progress.beyond.push(unit.origin.start_place());
            }
        }
    }

    /// This transaction is prepared, and will be decided later: until then it counts as not applied.
    pub fn hold(&mut self, unit: &Head) {
        if unit.gtid().is_none() {
            self.held.insert(unit.number, unit.origin.start_place());
            if self.held.len() == 1 {
                self.progress.place = Some(unit.origin.start_place());
            }
        }
    }

    /// The target counts these as executed itself by now: they need not be saved any longer.
    pub fn forget(&mut self, executed: &GtidSet) {
        self.progress.gtids.remove_all(executed);
    }
}
