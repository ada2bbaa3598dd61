//! Claims: dependencies of a transaction, or of several consecutive ones.

use std::ops::Range;

use binlog::events::LogicalClock;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::Wait;
use super::clock::{ClockError, ClockReader};

/// Rule for transactions that may run in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
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
pub struct Footprint {
    /// Exclusivity in any mode.
    pub company: Company,
    /// Number of the source's log that it is in: the clock starts again in each.
    pub log: u64,
    /// For [`Mode::LogicalClock`]; `None` if the source did not log it.
    pub clock: Option<LogicalClock>,
    /// For [`Mode::Database`].
    pub databases: Databases,
    /// For [`Mode::Writeset`] and [`Mode::WritesetSession`].
    pub keys: Keys,
    /// For [`Mode::WritesetSession`]: its thread on the source; `None` if unknown.
    pub session: Option<u64>,
}

/// Permission for other transactions to run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Company {
    /// As the mode allows.
    #[default]
    Allowed,
    /// No others: it waits for all before it, and all after it wait for it.
    Alone,
}

/// Databases that a transaction changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Databases {
    /// Any database: a statement that names more than [`Databases::MAX`] or whose log does not list them (code 254), a
    /// table with a foreign key into another database, the end of an XA transaction.
    #[default]
    Unknown,
    /// These databases.
    Known(Vec<Box<[u8]>>),
}

impl Databases {
    /// Maximum number of databases that a statement's log lists.
    pub const MAX: usize = 16;
}

/// Keys that a transaction changes, as hashes: different keys may have the same hash, never the converse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// Any keys.
    #[default]
    Unknown,
    /// These keys.
    Known(KeySet),
}

/// Hashes of the keys that a transaction changes, and of those that must not change meanwhile. May have duplicates.
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
pub struct Claim {
    /// Numbers of the transactions.
    pub(super) units: Range<u64>,
    pub(super) wait: Wait,
    pub(super) keys: KeySet,
}

/// Turns footprints into claims, one transaction after the other.
#[derive(Clone, Debug)]
pub struct Claims {
    mode: Mode,
    clock: ClockReader,
}

impl Claims {
    /// Creates a converter that has seen no transaction.
    pub fn new(mode: Mode) -> Self {
        Self { mode, clock: ClockReader::default() }
    }

    /// Returns the claim of transaction `number`. Numbers increase in source order. Transactions that are left out may
    /// be counted or not: the clock itself shows the gap.
    ///
    /// # Errors
    ///
    /// When the mode uses the logical clock, and the clock is inconsistent.
    pub fn claim(&mut self, number: u64, footprint: &Footprint) -> Result<Claim, ClockError> {
        let mut claim = Claim { units: number..number + 1, wait: Wait::Below(0), keys: KeySet::default() };
        match (self.mode, footprint.session) {
            (Mode::None, _) | (Mode::WritesetSession, None) => claim.wait = Wait::ForAll,
            (Mode::LogicalClock, _) => {
                claim.wait = self.clock.read(number, footprint.log, footprint.clock)?;
            }
            (Mode::WritesetSession, Some(session)) => claim.keys.exclusive.push(session_key(session)),
            (Mode::Database | Mode::Writeset, _) => {}
        }
        if footprint.company == Company::Alone {
            claim.wait = Wait::ForAll;
        }
        self.add(&mut claim, footprint.databases.clone(), footprint.keys.clone());
        Ok(claim)
    }

    /// Adds the changes of a claim's transactions. After joining, one call with the changes of all is enough.
    pub fn add(&self, claim: &mut Claim, databases: Databases, keys: Keys) {
        let keys = match self.mode {
            Mode::None | Mode::LogicalClock => return claim.bound(),
            Mode::Database => match databases {
                Databases::Known(names) if names.len() <= Databases::MAX => Some(database_keys(&names)),
                _ => None,
            },
            Mode::Writeset | Mode::WritesetSession => match keys {
                Keys::Known(keys) => Some(keys),
                Keys::Unknown => None,
            },
        };
        match keys {
            Some(mut keys) => {
                claim.keys.exclusive.append(&mut keys.exclusive);
                claim.keys.shared.append(&mut keys.shared);
            }
            None => claim.wait = Wait::ForAll,
        }
        claim.bound();
    }
}

impl Claim {
    /// Returns the numbers of the claim's transactions.
    pub fn units(&self) -> Range<u64> {
        self.units.clone()
    }

    /// Returns whether it must run alone.
    pub fn is_alone(&self) -> bool {
        self.wait == Wait::ForAll
    }

    /// Joins the claim of the next transactions: both are then applied as one.
    ///
    /// # Panics
    ///
    /// When `next` starts before the end of this claim.
    pub fn join(&mut self, next: Self) {
        assert!(self.units.end <= next.units.start, "ours: claims are joined in order");
        self.units.end = next.units.end;
        self.wait = match (self.wait, next.wait) {
            // A dependency within the group is met: its transactions run in order.
            (Wait::Below(ours), Wait::Below(theirs)) => Wait::Below(ours.max(theirs.min(self.units.start))),
            _ => Wait::ForAll,
        };
        self.keys.exclusive.extend(next.keys.exclusive);
        self.keys.shared.extend(next.keys.shared);
        self.bound();
    }

    fn bound(&mut self) {
        if self.keys.len() > CLAIM_KEYS_MAX {
            self.keys.thin();
            // With less slack, later additions would deduplicate again and again.
            if self.keys.len() > CLAIM_KEYS_MAX / 2 {
                self.wait = Wait::ForAll;
            }
        }
        if self.wait == Wait::ForAll {
            self.keys = KeySet::default(); // It runs alone anyway.
        }
    }
}

impl KeySet {
    /// Returns the number of hashes, duplicates included.
    pub fn len(&self) -> usize {
        self.exclusive.len() + self.shared.len()
    }

    /// Removes duplicates.
    fn thin(&mut self) {
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
