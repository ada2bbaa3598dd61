//! What a transaction, or several in a row, may not run beside.

use std::ops::Range;

use binlog::events::LogicalClock;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::Wait;
use super::clock::{ClockError, ClockReader};

/// What may run beside what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// One after the other.
    None,
    /// What changes different databases.
    Database,
    /// What the source's logical clock allows, as a server's own applier takes it.
    #[default]
    LogicalClock,
    /// What changes different rows.
    Writeset,
    /// What changes different rows and comes from different sessions of the source.
    WritesetSession,
}

/// What one transaction says that a schedule can go by. A mode looks at its own field only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Must it run alone, whatever the mode?
    pub company: Company,
    /// Which of the source's logs it stands in, by any number: its clock starts anew in each.
    pub log: u64,
    /// For [`Mode::LogicalClock`]; `None` when the source did not log it.
    pub clock: Option<LogicalClock>,
    /// For [`Mode::Database`].
    pub databases: Databases,
    /// For [`Mode::Writeset`] and [`Mode::WritesetSession`].
    pub keys: Keys,
    /// For [`Mode::WritesetSession`]: the thread that it ran in; `None` when nothing says.
    pub session: Option<u64>,
}

/// May others run beside a transaction?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Company {
    /// As the mode has it.
    #[default]
    Allowed,
    /// None: it waits for all in front of it, and all behind it wait for it.
    Alone,
}

/// The databases that a transaction changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Databases {
    /// Any: a statement that names more than [`Databases::MAX`] or whose log says nothing of them (code 254), a
    /// table with a foreign key into another database, the end of an XA transaction.
    #[default]
    Unknown,
    /// These.
    Known(Vec<Box<[u8]>>),
}

impl Databases {
    /// A statement's log names no more databases than this.
    pub const MAX: usize = 16;
}

/// What a transaction changes, as hashes: two different things may have the same, never the other way around.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// Anything.
    #[default]
    Unknown,
    /// These.
    Known(KeySet),
}

/// Hashes of what a transaction changes, and of what must stay as it is meanwhile. May hold one more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    /// Nothing else may have these.
    pub exclusive: Vec<u64>,
    /// Others may have these so, too, but not exclusively.
    pub shared: Vec<u64>,
}

/// Keys that one claim has at most, those counted that it has more than once; with more, it runs alone. Bounds memory.
pub const CLAIM_KEYS_MAX: usize = 1 << 18;

/// What a transaction, or several in a row, wait for and keep others from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The numbers of the transactions.
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
    /// Knows nothing of any transaction yet.
    pub fn new(mode: Mode) -> Self {
        Self { mode, clock: ClockReader::default() }
    }

    /// What transaction `number` claims. Numbers count up by one in source order; what is left out counts, too, or
    /// does not: both are right, as the clock itself shows that something is missing.
    ///
    /// # Errors
    ///
    /// When its logical clock, if the mode goes by that, cannot be right.
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

    /// What a claim's transactions change besides: for those that are joined, it need only be found once.
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
    /// The numbers of the transactions that this claim is for.
    pub fn units(&self) -> Range<u64> {
        self.units.clone()
    }

    /// Must it run alone?
    pub fn is_alone(&self) -> bool {
        self.wait == Wait::ForAll
    }

    /// Joins the claim of the transactions right behind: both are then one piece of work.
    ///
    /// # Panics
    ///
    /// When `next` does not start behind this one.
    pub fn join(&mut self, next: Self) {
        assert!(self.units.end <= next.units.start, "ours: claims are joined in order");
        self.units.end = next.units.end;
        self.wait = match (self.wait, next.wait) {
            // What waits for one of us waits for nothing: the work is done in order.
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
            // Were it only a little less, it would be thinned again and again.
            if self.keys.len() > CLAIM_KEYS_MAX / 2 {
                self.wait = Wait::ForAll;
            }
        }
        if self.wait == Wait::ForAll {
            self.keys = KeySet::default(); // Nothing runs beside it anyway.
        }
    }
}

impl KeySet {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.exclusive.len() + self.shared.len()
    }

    /// Drops what it holds more than once.
    fn thin(&mut self) {
        for keys in [&mut self.exclusive, &mut self.shared] {
            keys.sort_unstable();
            keys.dedup();
        }
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn database_keys(names: &[Box<[u8]>]) -> KeySet {
    KeySet { exclusive: names.iter().map(|name| xxh3_64(name)).collect(), shared: Vec::new() }
}

fn session_key(session: u64) -> u64 {
    /// Keeps sessions apart from what else is hashed.
    const SESSION_SEED: u64 = 1;
    xxh3_64_with_seed(&session.to_le_bytes(), SESSION_SEED)
}
