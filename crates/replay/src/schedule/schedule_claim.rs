//! Claims: dependencies of a transaction, or of several consecutive ones.

use std::ops::Range;

use binlog::events::LogicalClock;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::clock_reader::{ClockError, ClockReader};
use super::wait_rule::WaitRule;

/// Rule for transactions that may run in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ParallelMode {
    /// None.
    None,
    /// Transactions that change different databases.
    Database,
    /// Transactions that the source's logical clock allows, as in a server's own applier.
    #[default]
    LogicalClock,
    /// Transactions that change different rows.
    Writeset,
    /// Transactions that change different rows and come from different sessions of the source.
    WritesetSession,
}

/// Properties of a transaction that a schedule may use. Each mode uses its own field only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFootprint {
    /// Exclusivity in any mode.
    pub exclusivity: Exclusivity,
    /// Number of the source's log: the clock restarts in each log.
    pub log: u64,
    /// For [`ParallelMode::LogicalClock`]; `None` if the source did not log it.
    pub clock: Option<LogicalClock>,
    /// For [`ParallelMode::Database`].
    pub databases: ChangedDatabases,
    /// For [`ParallelMode::Writeset`] and [`ParallelMode::WritesetSession`].
    pub keys: ChangedKeys,
    /// For [`ParallelMode::WritesetSession`]: the connection id on the source; `None` if unknown.
    pub session: Option<u64>,
}

/// Permission for other transactions to run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclusivity {
    /// As the mode allows.
    #[default]
    Shared,
    /// None: the transaction waits for all earlier ones, and all later ones wait for it.
    Exclusive,
}

/// Databases that a transaction changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChangedDatabases {
    /// Any database: a statement with more than [`ChangedDatabases::MAX`] databases or without a list of them (code
    /// 254), a table with a foreign key into another database, or the end of an XA transaction.
    #[default]
    Unknown,
    /// These databases.
    Known(Vec<Box<[u8]>>),
}

impl ChangedDatabases {
    /// Maximum number of databases that a server logs for a statement.
    pub const MAX: usize = 16;
}

/// Keys that a transaction changes, as hashes. Different keys may have the same hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChangedKeys {
    /// Any keys.
    #[default]
    Unknown,
    /// These keys.
    Known(KeySet),
}

/// Hashes of the keys that a transaction changes, and of the keys that must not change meanwhile. May have duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    /// Keys that no other transaction may have.
    pub exclusive: Vec<u64>,
    /// Keys that other transactions may share, but not have exclusively.
    pub shared: Vec<u64>,
}

/// Maximum keys of one claim, duplicates included; beyond it, the claim runs alone. Bounds memory.
pub const CLAIM_KEYS_MAX: usize = 1 << 18;

/// Dependencies of one or several consecutive transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleClaim {
    /// Numbers of the transactions.
    pub(super) units: Range<u64>,
    pub(super) wait: WaitRule,
    pub(super) keys: KeySet,
}

/// Turns footprints into claims, one transaction at a time.
#[derive(Clone, Debug)]
pub struct ClaimBuilder {
    mode: ParallelMode,
    clock: ClockReader,
}

impl ClaimBuilder {
    /// Creates a converter that has seen no transaction.
    pub fn new(mode: ParallelMode) -> Self {
        Self { mode, clock: ClockReader::default() }
    }

    /// Returns the claim of transaction `number`. Numbers increase in source order. Numbers may skip transactions that
    /// are left out: the clock shows the gap.
    ///
    /// # Errors
    ///
    /// Fails if the mode uses the logical clock, and the clock is inconsistent.
    pub fn claim(
        &mut self,
        number: u64,
        footprint: &TransactionFootprint,
    ) -> Result<ScheduleClaim, ClockError> {
        let mut claim =
            ScheduleClaim { units: number..number + 1, wait: WaitRule::Below(0), keys: KeySet::default() };
        match (self.mode, footprint.session) {
            (ParallelMode::None, _) | (ParallelMode::WritesetSession, None) => claim.wait = WaitRule::ForAll,
            (ParallelMode::LogicalClock, _) => {
                claim.wait = self.clock.read(number, footprint.log, footprint.clock)?;
            }
            (ParallelMode::WritesetSession, Some(session)) => claim.keys.exclusive.push(session_key(session)),
            (ParallelMode::Database | ParallelMode::Writeset, _) => {}
        }
        if footprint.exclusivity == Exclusivity::Exclusive {
            claim.wait = WaitRule::ForAll;
        }
        self.add(&mut claim, footprint.databases.clone(), footprint.keys.clone());
        Ok(claim)
    }

    /// Adds the changes of a claim's transactions. After joining, one call with all changes is enough.
    pub fn add(&self, claim: &mut ScheduleClaim, databases: ChangedDatabases, keys: ChangedKeys) {
        let keys = match self.mode {
            ParallelMode::None | ParallelMode::LogicalClock => return claim.enforce_limit(),
            ParallelMode::Database => match databases {
                ChangedDatabases::Known(names) if names.len() <= ChangedDatabases::MAX => {
                    Some(database_keys(&names))
                }
                _ => None,
            },
            ParallelMode::Writeset | ParallelMode::WritesetSession => match keys {
                ChangedKeys::Known(keys) => Some(keys),
                ChangedKeys::Unknown => None,
            },
        };
        match keys {
            Some(mut keys) => {
                claim.keys.exclusive.append(&mut keys.exclusive);
                claim.keys.shared.append(&mut keys.shared);
            }
            None => claim.wait = WaitRule::ForAll,
        }
        claim.enforce_limit();
    }
}

impl ScheduleClaim {
    /// Returns the numbers of the claim's transactions.
    pub fn units(&self) -> Range<u64> {
        self.units.clone()
    }

    /// Returns whether the claim must run alone.
    pub fn is_alone(&self) -> bool {
        self.wait == WaitRule::ForAll
    }

    /// Makes the claim run alone.
    pub fn set_alone(&mut self) {
        self.wait = WaitRule::ForAll;
        self.enforce_limit();
        assert!(self.keys.is_empty(), "ours: a claim that runs alone needs no keys");
    }

    /// Joins the claim of the next transactions: both are then applied as one.
    ///
    /// # Panics
    ///
    /// If `next` starts before the end of this claim.
    pub fn join(&mut self, next: Self) {
        assert!(self.units.end <= next.units.start, "ours: claims are joined in order");
        self.units.end = next.units.end;
        self.wait = match (self.wait, next.wait) {
            // Dependencies within the group need no rule: its transactions run in order.
            (WaitRule::Below(ours), WaitRule::Below(theirs)) => {
                WaitRule::Below(ours.max(theirs.min(self.units.start)))
            }
            _ => WaitRule::ForAll,
        };
        self.keys.exclusive.extend(next.keys.exclusive);
        self.keys.shared.extend(next.keys.shared);
        self.enforce_limit();
    }

    fn enforce_limit(&mut self) {
        if self.keys.len() > CLAIM_KEYS_MAX {
            self.keys.dedup();
            // With less slack, each later addition would deduplicate again.
            if self.keys.len() > CLAIM_KEYS_MAX / 2 {
                self.wait = WaitRule::ForAll;
            }
        }
        if self.wait == WaitRule::ForAll {
            self.keys = KeySet::default(); // It runs alone anyway.
        }
        assert!(self.keys.len() <= CLAIM_KEYS_MAX, "ours: the keys of a claim are bounded");
    }
}

impl KeySet {
    /// Returns the number of hashes, duplicates included.
    pub fn len(&self) -> usize {
        self.exclusive.len() + self.shared.len()
    }

    /// Removes duplicates.
    fn dedup(&mut self) {
        for keys in [&mut self.exclusive, &mut self.shared] {
            keys.sort_unstable();
            keys.dedup();
        }
    }

    /// Returns whether there are no hashes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn database_keys(names: &[Box<[u8]>]) -> KeySet {
    KeySet { exclusive: names.iter().map(|name| xxh3_64(name)).collect(), shared: Vec::new() }
}

fn session_key(session: u64) -> u64 {
    /// Keeps session hashes apart from others.
    const SESSION_SEED: u64 = 1;
    xxh3_64_with_seed(&session.to_le_bytes(), SESSION_SEED)
}
