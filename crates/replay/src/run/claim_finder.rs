//! Finds the claims of commit groups from their apply plans.

use std::collections::HashMap;

use binlog::events::TableMap;
use binlog::{Event, EventType, RawEvent};
use sql::StatementKind;

use crate::apply_plan::{ApplyPlan, ApplyStep, SourceStatement, TransactionShape};
use crate::keys::TransactionKeys;
use crate::replay_error::{ReplayError, TargetFailure};
use crate::replay_target::ReplayTarget;
use crate::row_events::RowEvents;
use crate::schedule::{
    ChangedDatabases, ChangedKeys, ClaimBuilder, Exclusivity, KeySet, ParallelMode, ScheduleClaim,
    TransactionFootprint,
};
use crate::source_transaction::TransactionHead;
use crate::spooled_rows::SpooledRows;
use crate::spooled_statements::SpooledStatements;
use crate::target_table_definition::{StorageEngine, TargetTableDefinition, TargetTableName};

/// Definitions read so far, by database.
#[derive(Default)]
pub(super) struct DefinitionCache(HashMap<Box<[u8]>, CachedTables>);

/// Definitions of one database; `None` for a table without one on the target.
type CachedTables = HashMap<Box<[u8]>, Option<TargetTableDefinition>>;

impl DefinitionCache {
    /// Returns a cached definition; `None` if the target had no such table.
    pub(super) fn find(&self, map: &TableMap<'_>) -> Option<&TargetTableDefinition> {
        self.0.get(map.database)?.get(map.table)?.as_ref()
    }

    /// Returns the first changed table whose engine cannot roll back. Reads unknown definitions from the target, up to
    /// that table.
    pub(super) fn find_kept_table(
        &mut self,
        steps: &[ApplyStep],
        target: &dyn ReplayTarget,
    ) -> Result<Option<TargetTableName>, TargetFailure> {
        for step in steps {
            let kept = match step {
                ApplyStep::Rows(_, rows) => self.find_kept_table_of_rows(rows, target)?,
                ApplyStep::Spooled(_, rows) => self.find_kept_table_of_file(rows, target)?,
                ApplyStep::Statement(statement) => self.find_kept_table_of_statement(statement, target)?,
                ApplyStep::SpooledStatements(statements) => {
                    self.find_kept_table_of_statements(statements, target)?
                }
            };
            if kept.is_some() {
                return Ok(kept);
            }
        }
        Ok(None)
    }

    fn find_kept_table_of_rows(
        &mut self,
        rows: &RowEvents,
        target: &dyn ReplayTarget,
    ) -> Result<Option<TargetTableName>, TargetFailure> {
        // An invalid map is reported when its rows are decoded.
        for map in table_maps(rows).filter_map(Result::ok) {
            if let Some(definition) = self.load(map.database, map.table, target)?
                && definition.engine != StorageEngine::InnoDb
            {
                return Ok(Some(definition.name.clone()));
            }
        }
        Ok(None)
    }

    fn find_kept_table_of_file(
        &mut self,
        rows: &SpooledRows,
        target: &dyn ReplayTarget,
    ) -> Result<Option<TargetTableName>, TargetFailure> {
        // A file that cannot be read is reported when its rows are applied.
        for part in rows.parts().filter_map(Result::ok) {
            let kept = self.find_kept_table_of_rows(&part, target)?;
            if kept.is_some() {
                return Ok(kept);
            }
        }
        Ok(None)
    }

    fn find_kept_table_of_statements(
        &mut self,
        statements: &SpooledStatements,
        target: &dyn ReplayTarget,
    ) -> Result<Option<TargetTableName>, TargetFailure> {
        // A file that cannot be read is reported when its statements are run.
        for statement in statements.parts().filter_map(Result::ok).flatten() {
            let kept = self.find_kept_table_of_statement(&statement, target)?;
            if kept.is_some() {
                return Ok(kept);
            }
        }
        Ok(None)
    }

    fn find_kept_table_of_statement(
        &mut self,
        statement: &SourceStatement,
        target: &dyn ReplayTarget,
    ) -> Result<Option<TargetTableName>, TargetFailure> {
        let StatementKind::Tables(tables) = statement.kind() else { return Ok(None) };
        for table in &tables {
            let (database, table) = table.resolve(&statement.default_database);
            if let Some(definition) = self.load(database, table, target)?
                && definition.engine != StorageEngine::InnoDb
            {
                return Ok(Some(definition.name.clone()));
            }
        }
        Ok(None)
    }

    /// Returns a table's definition, and reads it from the target if it is not known.
    pub(super) fn load(
        &mut self,
        database: &[u8],
        table: &[u8],
        target: &dyn ReplayTarget,
    ) -> Result<Option<&TargetTableDefinition>, TargetFailure> {
        if !self.0.get(database).is_some_and(|tables| tables.contains_key(table)) {
            let definition = target.definition(database, table)?;
            self.0.entry(database.into()).or_default().insert(table.into(), definition);
        }
        Ok(self.0.get(database).and_then(|tables| tables.get(table)?.as_ref()))
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// Finds claims of transactions, and later of the net changes of a group.
pub(super) struct ClaimFinder {
    mode: ParallelMode,
    claims: ClaimBuilder,
    /// Created at the first rows, which know the log's flavour.
    keys: Option<TransactionKeys>,
}

impl ClaimFinder {
    pub(super) fn new(mode: ParallelMode) -> Self {
        Self { mode, claims: ClaimBuilder::new(mode), keys: None }
    }

    /// Returns whether the definitions of tables are needed.
    pub(super) const fn needs_tables(&self) -> bool {
        !matches!(self.mode, ParallelMode::None | ParallelMode::LogicalClock)
    }

    /// Returns the claim of a transaction, without databases and keys, which [`ClaimFinder::add`] adds.
    pub(super) fn claim(
        &mut self,
        head: &TransactionHead,
        plan: &ApplyPlan,
    ) -> Result<ScheduleClaim, ReplayError> {
        let is_rows = plan.shape == TransactionShape::Rows && plan.is_in_memory();
        let footprint = TransactionFootprint {
            exclusivity: if is_rows { Exclusivity::Shared } else { Exclusivity::Exclusive },
            log: head.origin.log_number as u64,
            clock: head.clock,
            session: plan.session.map(u64::from),
            databases: ChangedDatabases::Known(Vec::new()),
            keys: ChangedKeys::Known(KeySet::default()),
        };
        let claim = self.claims.claim(head.number, &footprint);
        let claim = claim.map_err(|error| ReplayError::Refused(format!("{head}: {error}")))?;
        assert!(
            is_rows || claim.is_alone(),
            "ours: the effects of statements are unknown, so they run alone"
        );
        Ok(claim)
    }

    /// Adds the databases and keys of the applied changes. Rows that the net change omits block no other group.
    pub(super) fn add(
        &mut self,
        claim: &mut ScheduleClaim,
        plan: &ApplyPlan,
        definitions: &DefinitionCache,
    ) -> Result<(), binlog::DecodeError> {
        assert!(plan.shape == TransactionShape::Rows, "ours: keys are of rows only");
        if claim.is_alone() || !self.needs_tables() {
            return Ok(());
        }
        let mut databases = ChangedDatabases::Known(Vec::new());
        let mut keys = ChangedKeys::Known(KeySet::default());
        for step in &plan.steps {
            let ApplyStep::Rows(_, rows) = step else { continue };
            match self.mode {
                ParallelMode::Database => add_databases(rows, definitions, &mut databases)?,
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
        definitions: &DefinitionCache,
        keys: &mut ChangedKeys,
    ) -> Result<(), binlog::DecodeError> {
        let reader = self.keys.get_or_insert_with(|| TransactionKeys::new(rows.format.flavour));
        let events: Vec<RawEvent<'_>> = rows.events().collect();
        reader.read(&events, &rows.format, &|map| definitions.find(map), keys)
    }
}

/// Returns the table maps of row events. Does not decode rows, which are most of the bytes.
fn table_maps(rows: &RowEvents) -> impl Iterator<Item = Result<TableMap<'_>, binlog::DecodeError>> {
    let maps = rows.events().filter(|raw| raw.event_type() == EventType::TableMap);
    maps.filter_map(|raw| match raw.decode(&rows.format) {
        Ok(Event::TableMap(map)) => Some(Ok(map)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

/// Adds the databases of row events. A foreign key into another database makes the databases unknown, because rows
/// there may change, too.
fn add_databases(
    rows: &RowEvents,
    definitions: &DefinitionCache,
    databases: &mut ChangedDatabases,
) -> Result<(), binlog::DecodeError> {
    for raw in rows.events() {
        let Event::TableMap(map) = raw.decode(&rows.format)? else { continue };
        let definition = definitions.find(&map);
        let name = definition.map_or(map.database, |definition| &definition.name.database);
        let is_within = definition.is_none_or(|definition| {
            let relatives = &definition.foreign_keys;
            relatives.parents.iter().chain(&relatives.descendants).all(|other| *other.database == *name)
        });
        match databases {
            ChangedDatabases::Known(names) if is_within => {
                if !names.iter().any(|known| **known == *name) {
                    names.push(name.into());
                }
            }
            _ => *databases = ChangedDatabases::Unknown,
        }
    }
    Ok(())
}
