//! Survey of logs before they are applied: their requirements on a target.

use std::collections::{BTreeMap, BTreeSet};

use binlog::events::TableMap;
use binlog::gtid::GtidSet;
use binlog::{ColumnType, Event, Flavour, Table};
use sql::ReplicationFilter;

use crate::applied_check::{AppliedCheck, ReplayDecision};
use crate::apply_plan::{ApplyPlan, ApplyStep, SourceStatement, TransactionShape};
use crate::replay_error::ReplayError;
use crate::replay_progress::AppliedState;
use crate::row_events::RowEvents;
use crate::row_reader::HiddenColumns;
use crate::source_transaction::TransactionHead;
use crate::target_table_definition::TargetTableName;
use crate::transaction_filter::TransactionFilter;
use crate::transaction_selection::{TransactionSelection, TransactionSelector};
use crate::transaction_source::TransactionSource;

/// Requirements of the surveyed part of logs on a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSurvey {
    /// `server_id` of the server that wrote the first log.
    pub writer: Option<u32>,
    /// Transactions before the first log, from its `Previous_gtids` event.
    pub previous: GtidSet,
    /// GTIDs of the surveyed transactions.
    pub gtids: GtidSet,
    /// GTIDs of skipped transactions: already on the target, or not selected.
    pub passed_over: GtidSet,
    /// The first surveyed transaction without a GTID.
    pub without_gtid: Option<String>,
    /// Surveyed transactions that the target does not have.
    pub transactions: u64,
    /// `true` if one of these transactions contains a `LOAD DATA`.
    pub loads_files: bool,
    /// Size in bytes of the longest statement, and the name of its transaction.
    pub longest: Option<(usize, String)>,
    /// Tables whose rows change, as in their first table map. Omits tables that an earlier DDL statement may have
    /// changed.
    pub tables: BTreeMap<TargetTableName, LogTable>,
    /// Reason why saved positions cannot be used: a log is not the one that was applied, or two logs have one name.
    pub position_error: Option<String>,
    defined: DefinedDatabases,
}

/// A table, as a table map describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTable {
    /// Columns: type, and for numbers whether they are unsigned, if the log says so.
    pub columns: Vec<(ColumnType, Option<bool>)>,
    /// `true` if the first column is a generated invisible primary key.
    pub has_invisible_key: bool,
    /// Hidden columns after the visible ones.
    pub hidden: HiddenColumns,
}

/// Databases in which definitions were changed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DefinedDatabases {
    These(BTreeSet<Vec<u8>>),
    All,
}

impl Default for DefinedDatabases {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

/// Maximum bytes of surveyed transactions. Bounds the duration of a survey.
const SURVEY_BYTES_MAX: usize = 32 << 20;
/// Maximum bytes of logs read. The target may already have most of their transactions.
const READ_BYTES_MAX: u64 = 1 << 30;

impl LogSurvey {
    /// Surveys the first transactions of these logs that the target does not have. Ends at a log that cannot be read:
    /// the replay reports it.
    ///
    /// # Errors
    ///
    /// Fails if the selection or the saved progress names a log that is not given.
    pub fn of(
        source: &mut TransactionSource,
        selection: &TransactionSelection,
        filter: &ReplicationFilter,
        applied: &AppliedState,
    ) -> Result<Self, ReplayError> {
        let mut survey = Self::default();
        source.leave_out_logs(selection, applied)?;
        let mut selector = TransactionSelector::new(selection, source.log_names())?;
        let mut skip = AppliedCheck::new(applied.clone(), source.log_names());
        let (mut opener, mut taken, mut previous) = (source.opener(), 0, None);
        while taken < SURVEY_BYTES_MAX && source.bytes_read() - source.bytes_left_out() < READ_BYTES_MAX {
            let found = match source.next_found() {
                Ok(Some(found)) => found,
                Ok(None) if source.is_followed() => break,
                Ok(None) => {
                    survey.position_error = skip.check_end().err().map(|error| error.to_string());
                    break;
                }
                Err(_) => break,
            };
            let head = found.head();
            let decision = match skip.decide(&head, &mut selector) {
                Ok(decision) => decision,
                Err(error) => {
                    survey.position_error = Some(error.to_string());
                    break;
                }
            };
            previous.get_or_insert_with(|| source.previous().clone());
            match decision {
                ReplayDecision::Apply => {}
                ReplayDecision::AlreadyApplied | ReplayDecision::NotSelected => {
                    survey.pass_over(&head);
                    continue;
                }
                ReplayDecision::Stop => break,
            }
            let Ok(plan) = found.plan(&mut opener, source.held_max()) else { break };
            taken += plan.size();
            let Ok(plan) = TransactionFilter(filter).apply(plan) else { break };
            survey.take(&head, &plan);
        }
        survey.writer = source.writer();
        survey.previous = previous.unwrap_or_else(|| source.previous().clone());
        Ok(survey)
    }

    /// Returns whether there are tagged GTIDs.
    pub fn has_tags(&self) -> bool {
        self.gtids.union(&self.previous).iter().any(|(tsid, _)| !tsid.tag.is_none())
    }

    /// Records a transaction that is not surveyed.
    pub(crate) fn pass_over(&mut self, head: &TransactionHead) {
        if let Some(gtid) = head.gtid() {
            self.passed_over.add(gtid);
        }
    }

    /// Surveys another transaction.
    pub(crate) fn take(&mut self, head: &TransactionHead, plan: &ApplyPlan) {
        self.transactions += 1;
        match head.gtid() {
            Some(gtid) => drop(self.gtids.add(gtid)),
            None => drop(self.without_gtid.get_or_insert_with(|| head.to_string())),
        }
        if let TransactionShape::ImplicitCommit { databases } = &plan.shape {
            self.defined.add(databases);
        }
        for step in &plan.steps {
            match step {
                ApplyStep::Rows(_, rows) => self.add_rows(rows),
                ApplyStep::Spooled(_, rows) => {
                    for part in rows.parts().map_while(Result::ok) {
                        self.add_rows(&part);
                    }
                }
                ApplyStep::Statement(statement) => self.add_statement(head, statement),
                ApplyStep::SpooledStatements(statements) => statements
                    .parts()
                    .map_while(Result::ok)
                    .flatten()
                    .for_each(|statement| self.add_statement(head, &statement)),
            }
        }
    }

    fn add_statement(&mut self, head: &TransactionHead, statement: &SourceStatement) {
        self.loads_files |= statement.load.is_some();
        let size = statement.sql.len();
        if self.longest.as_ref().is_none_or(|(longest, _)| *longest < size) {
            self.longest = Some((size, head.to_string()));
        }
    }

    /// Adds the tables of row events. Skips tables of MariaDB, whose column types differ from the target's.
    fn add_rows(&mut self, rows: &RowEvents) {
        if rows.format.flavour != Flavour::MySql {
            return;
        }
        for raw in rows.events() {
            if let Ok(Event::TableMap(map)) = raw.decode(&rows.format) {
                self.add_table(&map, HiddenColumns::of(&rows.format));
            }
        }
    }

    fn add_table(&mut self, map: &TableMap<'_>, hidden: HiddenColumns) {
        let name = TargetTableName { database: map.database.into(), table: map.table.into() };
        if self.defined.has(map.database) || self.tables.contains_key(&name) {
            return;
        }
        if let Ok(table) = Table::new(map).or_else(|_| Table::without_optional(map)) {
            let columns = table.columns.iter().map(|column| (column.column_type, column.unsigned)).collect();
            let has_invisible_key = map.flags & TableMap::GENERATED_INVISIBLE_PRIMARY_KEY != 0;
            self.tables.insert(name, LogTable { columns, has_invisible_key, hidden });
        }
    }
}

impl DefinedDatabases {
    /// Adds databases. An empty list stands for all databases.
    fn add(&mut self, databases: &[Vec<u8>]) {
        match self {
            Self::These(_) if databases.is_empty() => *self = Self::All,
            Self::These(names) => names.extend(databases.iter().cloned()),
            Self::All => {}
        }
    }

    fn has(&self, database: &[u8]) -> bool {
        match self {
            Self::These(names) => names.contains(database),
            Self::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DefinedDatabases, LogSurvey};
    use crate::row_reader::HiddenColumns;
    use crate::sample_table::SampleTable;

    #[test]
    fn the_first_map_of_a_table_counts_unless_its_database_was_changed() {
        let mut survey = LogSurvey::default();
        let see = |survey: &mut LogSurvey, columns, name, id| {
            survey.add_table(&SampleTable::new(columns).named(name, id).map(), HiddenColumns::LeftOut);
        };
        see(&mut survey, "int varchar:45", "a", 1);
        see(&mut survey, "int", "a", 2);
        survey.defined.add(&[b"other".to_vec()]);
        see(&mut survey, "int", "b", 3);
        survey.defined.add(&[b"d".to_vec()]);
        see(&mut survey, "int", "c", 4);
        let seen: Vec<_> =
            survey.tables.iter().map(|(name, shown)| (&*name.table, shown.columns.len())).collect();
        assert_eq!(seen, [(b"a".as_slice(), 2), (b"b".as_slice(), 1)]);
    }

    #[test]
    fn definition_without_databases_covers_all() {
        let mut defined = DefinedDatabases::default();
        assert!(!defined.has(b"d"));
        defined.add(&[]);
        defined.add(&[b"e".to_vec()]);
        assert!(defined.has(b"d") && defined.has(b"f"));
    }
}
