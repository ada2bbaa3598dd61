//! Finds the claims of commit groups from their apply plans.

use std::collections::HashMap;

use binlog::events::TableMap;
use binlog::{Event, EventType, RawEvent};

use crate::definition::Definition;
use crate::error::{Error, Failure};
use crate::keys::TransactionKeys;
use crate::schedule::{Claim, Claims, Company, Databases, Footprint, KeySet, Keys, Mode};
use crate::target::Target;
use crate::unit::Head;
use crate::work::{RowEvents, Shape, Step, Work};

/// Definitions read so far, by database.
#[derive(Default)]
pub(super) struct Definitions(HashMap<Box<[u8]>, Tables>);

/// Definitions of one database; `None` for a table without one on the target.
type Tables = HashMap<Box<[u8]>, Option<Definition>>;

impl Definitions {
    /// Returns a table's definition, if the target had one when it was read.
    pub(super) fn find(&self, map: &TableMap<'_>) -> Option<&Definition> {
        self.0.get(map.database)?.get(map.table)?.as_ref()
    }

    /// Reads the definitions of these events' tables from the target, if they are not known.
    pub(super) fn ask(&mut self, rows: &RowEvents, target: &dyn Target) -> Result<(), Failure> {
        // Decodes table maps only: most of the bytes are rows, which do not matter here.
        for raw in rows.events().filter(|raw| raw.event_type() == EventType::TableMap) {
            let Ok(Event::TableMap(map)) = raw.decode(&rows.format) else { continue };
            if !self.0.get(map.database).is_some_and(|tables| tables.contains_key(map.table)) {
                let definition = target.definition(map.database, map.table)?;
                let tables = self.0.entry(map.database.into()).or_default();
                tables.insert(map.table.into(), definition);
            }
        }
        Ok(())
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// Finds claims for transactions, and then for the changes that are left of them.
pub(super) struct Claimer {
    mode: Mode,
    claims: Claims,
    /// Made with the first rows, which have the log's flavour.
    keys: Option<TransactionKeys>,
}

impl Claimer {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode, claims: Claims::new(mode), keys: None }
    }

    /// Returns whether the definitions of tables are needed.
    pub(super) const fn needs_tables(&self) -> bool {
        !matches!(self.mode, Mode::None | Mode::LogicalClock)
    }

    /// Returns the claim of a transaction without its changes, which [`Claimer::add`] adds.
    pub(super) fn claim(&mut self, head: &Head, work: &Work) -> Result<Claim, Error> {
        let is_rows = work.shape == Shape::Rows && work.is_held();
        let footprint = Footprint {
            company: if is_rows { Company::Allowed } else { Company::Alone },
            log: head.origin.log_number as u64,
            clock: head.clock,
            session: work.session.map(u64::from),
            databases: Databases::Known(Vec::new()),
            keys: Keys::Known(KeySet::default()),
        };
        let claim = self.claims.claim(head.number, &footprint);
        claim.map_err(|error| Error::Refused(format!("{head}: {error}")))
    }

    /// Adds the changes that are applied. Rows that the net change leaves out block nothing.
    pub(super) fn add(
        &mut self,
        claim: &mut Claim,
        work: &Work,
        definitions: &Definitions,
    ) -> Result<(), binlog::DecodeError> {
        if claim.is_alone() || !self.needs_tables() {
            return Ok(());
        }
        let mut databases = Databases::Known(Vec::new());
        let mut keys = Keys::Known(KeySet::default());
        for step in &work.steps {
            let Step::Rows(_, rows) = step else { continue };
            match self.mode {
                Mode::Database => add_databases(rows, definitions, &mut databases)?,
                _ => self.add_keys(rows, definitions, &mut keys)?,
            }
        }
        self.claims.add(claim, databases, keys);
        Ok(())
    }

    /// Forgets the definitions of tables.
    pub(super) fn forget(&mut self) {
        if let Some(keys) = &mut self.keys {
            keys.forget();
        }
    }

    fn add_keys(
        &mut self,
        rows: &RowEvents,
        definitions: &Definitions,
        keys: &mut Keys,
    ) -> Result<(), binlog::DecodeError> {
        let reader = self.keys.get_or_insert_with(|| TransactionKeys::new(rows.format.flavour));
        let events: Vec<RawEvent<'_>> = rows.events().collect();
        reader.read(&events, &rows.format, &|map| definitions.find(map), keys)
    }
}

/// Adds the databases of row events. A foreign key into another database makes them unknown: its rows may change, too.
fn add_databases(
    rows: &RowEvents,
    definitions: &Definitions,
    databases: &mut Databases,
) -> Result<(), binlog::DecodeError> {
    for raw in rows.events() {
        let Event::TableMap(map) = raw.decode(&rows.format)? else { continue };
        let definition = definitions.find(&map);
        let name = definition.map_or(map.database, |definition| &definition.name.database);
        let is_within = definition.is_none_or(|definition| {
            let relatives = &definition.relatives;
            relatives.parents.iter().chain(&relatives.descendants).all(|other| *other.database == *name)
        });
        match databases {
            Databases::Known(names) if is_within => {
                if !names.iter().any(|known| **known == *name) {
                    names.push(name.into());
                }
            }
            _ => *databases = Databases::Unknown,
        }
    }
    Ok(())
}
