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
        let alone = (Wait::ForAll, KeySet::default());
        let keys = |keys| (Wait::Below(0), keys);
        let (mut wait, keys) = match self.mode {
            Mode::None => alone,
            Mode::Database => match &footprint.databases {
                Databases::Known(names) if names.len() <= Databases::MAX => keys(database_keys(names)),
                _ => alone,
            },
            Mode::LogicalClock => {
                (self.clock.read(number, footprint.log, footprint.clock)?, KeySet::default())
            }
            Mode::Writeset => match &footprint.keys {
                Keys::Known(known) => keys(known.clone()),
                Keys::Unknown => alone,
            },
            Mode::WritesetSession => match (&footprint.keys, footprint.session) {
                (Keys::Known(known), Some(session)) => keys(with_session(known, session)),
                _ => alone,
            },
        };
        if footprint.company == Company::Alone {
            wait = Wait::ForAll;
        }
        Ok(Claim { units: number..number + 1, wait, keys }.bounded())
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

    fn bounded(mut self) -> Self {
        self.bound();
        self
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

fn with_session(keys: &KeySet, session: u64) -> KeySet {
    /// Keeps sessions apart from what else is hashed.
    const SESSION_SEED: u64 = 1;
    let mut keys = keys.clone();
    keys.exclusive.push(xxh3_64_with_seed(&session.to_le_bytes(), SESSION_SEED));
    keys
}
