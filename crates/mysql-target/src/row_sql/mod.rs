//! Row changes as SQL statements with parameters: for servers that do not accept row events, and for accounts that may
//! not send row events.
//!
//! Values are sent in their own type or as bytes: with `character_set_client` = `binary`, text columns get the bytes of
//! the source. A statement finds a row by a unique key that is never NULL, otherwise by all columns in the log. As on a
//! replica, it is an error if the number of matched rows differs from the log.

mod checked_change;
mod json_expression;
mod parameter;
mod parameter_literal;
mod skipped_rows;
mod statement_plan;
mod target_table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use binlog::events::{OptionFlag, RowsFlags, RowsKind};
use binlog::{Flavour, JsonDocument, RowChange, RowImage, Table, Value};
use replay::row_reader::{EventRows, RowReader};
use replay::{RowEvents, SessionVariables, TargetFailure};
use servers::StatementParameter;

use crate::row_sql::checked_change::CheckedChanges;
pub(crate) use crate::row_sql::checked_change::CheckedResults;
pub use crate::row_sql::checked_change::{AppliedChanges, ColumnDifference, ConflictReason, RowConflict};
use crate::row_sql::json_expression::{ChangeCondition, SqlExpression};
pub(crate) use crate::row_sql::parameter_literal::inline_parameters;
pub(crate) use crate::row_sql::statement_plan::RowMatch;
use crate::row_sql::statement_plan::{ColumnMapping, ReplayFlavours, StatementPlan};
pub(crate) use crate::row_sql::target_table::{TargetTable, load_table, nontransactional_engine};
use crate::session_state::SessionState;

/// Decision whether the server checks foreign keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForeignKeyChecks {
    /// Off if the event's flags show that the log contains the cascaded changes.
    ByFlags,
    /// On, unless the source's session turned them off.
    On,
}

/// Session settings that a row change needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSessionSettings {
    /// Disabled checks, as flags of a Query event.
    options: u32,
    /// True if a value needs a non-strict SQL mode: ENUM's error value, or an omitted column without a default.
    is_lax: bool,
}

impl RowSessionSettings {
    /// Returns the settings for row events with these flags. Foreign keys are off where the log contains the cascaded
    /// changes.
    const fn new(flags: RowsFlags, foreign_keys: ForeignKeyChecks, is_lax: bool) -> Self {
        let mut options = 0;
        let has_cascades = flags.contains(RowsFlags::USE_SQL_FOREIGN_KEY)
            && matches!(foreign_keys, ForeignKeyChecks::ByFlags);
        if flags.contains(RowsFlags::NO_FOREIGN_KEY_CHECKS) || has_cascades {
            options |= 0x0400_0000;
        }
        if flags.contains(RowsFlags::RELAXED_UNIQUE_CHECKS) {
            options |= 0x0800_0000;
        }
        if flags.contains(RowsFlags::NO_CHECK_CONSTRAINT_CHECKS) {
            options |= OptionFlag::CHECK_CONSTRAINT_CHECKS.bit;
        }
        Self { options, is_lax }
    }

    /// Returns the session variables for these settings. `known` are the session's present ones: `collation_server`
    /// does not change, because no row change depends on it.
    pub(crate) fn context_of(self, known: &SessionState) -> SessionVariables {
        let server = known.server_collation().unwrap_or(LATIN1_SWEDISH_CI);
        const NO_AUTO_VALUE_ON_ZERO: u64 = 1 << 19;
        const STRICT: u64 = 3 << 21;
        const ALLOW_INVALID_DATES: u64 = 1 << 25;
        const BINARY: u16 = 63;
        const UTF8MB4_GENERAL_CI: u16 = 45;
        let mode = NO_AUTO_VALUE_ON_ZERO | ALLOW_INVALID_DATES;
        SessionVariables {
            flags2: Some(self.options),
            sql_mode: Some(if self.is_lax { mode } else { mode | STRICT }),
            // `collation_connection` is a text collation: MySQL 5.7 decodes literals in generated columns by it, and
            // cannot make a JSON path from bytes.
            charset: Some([BINARY, UTF8MB4_GENERAL_CI, server]),
            time_zone: Some(b"+00:00".to_vec()),
            check_constraint_checks: Some(u8::from(self.checks_constraints())),
            ..SessionVariables::default()
        }
    }

    /// Returns false if the source changed the rows with `check_constraint_checks=0`.
    pub(crate) const fn checks_constraints(self) -> bool {
        OptionFlag::CHECK_CONSTRAINT_CHECKS.is_on(self.options)
    }
}

/// A value for `collation_server` that every server has.
const LATIN1_SWEDISH_CI: u16 = 8;

/// Converts row events to statements and runs them.
#[derive(Debug)]
pub(crate) struct StatementWriter {
    target: Flavour,
    row_match: RowMatch,
    reader: RowReader,
    tables: HashMap<RawTableName, Arc<TargetTable>>,
    plans: HashMap<StatementPlanKey, Arc<StatementPlan>>,
    /// Used only with [`RowMatch::WholeImage`].
    checked: CheckedChanges,
    foreign_keys: ForeignKeyChecks,
}

/// Names of a database and of a table in it.
type RawTableName = (Box<[u8]>, Box<[u8]>);

/// Key of a plan: table, kind of change and columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StatementPlanKey {
    database: Box<[u8]>,
    table: Box<[u8]>,
    kind: RowsKind,
    before: Vec<usize>,
    after: Vec<usize>,
}

/// Maximum number of cached plans; beyond it the cache is cleared. Bounds memory.
const PLANS_MAX: usize = 4096;
/// Maximum number of rows in one statement.
const STATEMENT_ROWS_MAX: usize = 128;
/// Maximum number of parameters in one statement: the protocol counts parameters in two bytes.
const STATEMENT_PARAMETERS_MAX: usize = 16_384;
/// Approximate maximum size of one statement's parameters, in bytes. A larger row has its own statement.
const STATEMENT_SIZE_MAX: usize = 256 << 10;

impl StatementWriter {
    /// Creates a writer for a server of this flavour.
    pub(crate) fn new(target: Flavour, row_match: RowMatch) -> Self {
        let (tables, plans, checked) = (HashMap::new(), HashMap::new(), CheckedChanges::default());
        let foreign_keys = ForeignKeyChecks::ByFlags;
        Self { target, row_match, reader: RowReader::new(), tables, plans, checked, foreign_keys }
    }

    /// Sets the decision about foreign keys for the following row changes.
    pub(crate) fn set_foreign_keys(&mut self, foreign_keys: ForeignKeyChecks) {
        self.foreign_keys = foreign_keys;
    }

    /// Refuses to skip only a part of a row's changes, or a row that foreign keys have changed with others.
    pub(crate) fn refuse_partial_skips(&mut self) {
        self.checked.refuse_partial_skips();
    }

    /// Removes and returns the results of the changes since the last call.
    pub(crate) fn take_results(&mut self) -> CheckedResults {
        std::mem::take(&mut self.checked.results)
    }

    /// Clears all cached definitions and plans, because definitions may have changed.
    pub(crate) fn forget(&mut self) {
        self.tables.clear();
        self.plans.clear();
    }

    /// Runs the statements for these row changes, in order.
    pub(crate) fn write(
        &mut self,
        rows: &RowEvents,
        session: &mut dyn StatementRunner,
    ) -> Result<(), TargetFailure> {
        let mut reader = std::mem::take(&mut self.reader);
        let source = rows.format.flavour;
        let result = reader.read(rows, &mut |event| self.write_event(event, source, session));
        self.reader = reader;
        result
    }

    fn write_event(
        &mut self,
        event: &EventRows<'_>,
        source: Flavour,
        session: &mut dyn StatementRunner,
    ) -> Result<(), TargetFailure> {
        let plan = self.plan(event, source, session)?;
        let mut batch = StatementBatch::new(&plan, event, self.foreign_keys);
        for row in event.rows() {
            let row = row?;
            if self.row_match == RowMatch::WholeImage {
                self.checked.write(&mut batch, &row, session)?;
                continue;
            }
            batch.add(&row)?;
            if batch.is_full() {
                batch.run(session)?;
            }
        }
        batch.run(session)
    }

    fn plan(
        &mut self,
        event: &EventRows<'_>,
        source: Flavour,
        session: &mut dyn StatementRunner,
    ) -> Result<Arc<StatementPlan>, TargetFailure> {
        let key = StatementPlanKey {
            database: event.table.database.clone(),
            table: event.table.name.clone(),
            kind: event.kind,
            before: event.columns_before().collect(),
            after: event.columns_after().collect(),
        };
        if let Some(plan) = self.plans.get(&key)
            && plan.log == event.table.columns
        {
            return Ok(Arc::clone(plan));
        }
        let table = self.table(&key, event.table, session)?;
        session.check_table(&table, event.kind)?;
        let flavours = ReplayFlavours { source, target: self.target };
        let plan = Arc::new(StatementPlan::new(event, table, flavours, self.row_match)?);
        if self.plans.len() >= PLANS_MAX {
            self.forget();
        }
        self.plans.insert(key, Arc::clone(&plan));
        assert!(self.plans.len() <= PLANS_MAX, "ours: the cache of plans is bounded");
        Ok(plan)
    }

    fn table(
        &mut self,
        key: &StatementPlanKey,
        log: &Table,
        session: &mut dyn StatementRunner,
    ) -> Result<Arc<TargetTable>, TargetFailure> {
        let name = (key.database.clone(), key.table.clone());
        if let Some(table) = self.tables.get(&name) {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(session.load_table(log)?);
        self.tables.insert(name, Arc::clone(&table));
        Ok(table)
    }
}

/// A session that runs statements.
pub(crate) trait StatementRunner {
    /// Returns the definition on the target of a table in the log.
    fn load_table(&mut self, log: &Table) -> Result<TargetTable, TargetFailure>;

    /// Refuses a table if statements cannot apply these changes.
    fn check_table(&self, table: &TargetTable, kind: RowsKind) -> Result<(), TargetFailure>;

    /// Runs a statement and returns the number of matched rows.
    fn run(&mut self, statement: RowStatement) -> Result<u64, TargetFailure>;
}

/// A statement for row changes.
#[derive(Debug)]
pub(crate) struct RowStatement {
    pub(crate) settings: RowSessionSettings,
    /// Text with a `?` for each parameter.
    pub(crate) sql: String,
    pub(crate) parameters: Vec<StatementParameter>,
}

/// Row changes that may be merged into one statement.
struct StatementBatch<'p> {
    plan: &'p StatementPlan,
    kind: RowsKind,
    flags: RowsFlags,
    foreign_keys: ForeignKeyChecks,
    rows: Vec<RowSql>,
    size: usize,
}

/// Statement text and parameters of one row change.
struct RowSql {
    /// Text that differs from the plan's, if any.
    sql: Option<String>,
    parameters: Vec<StatementParameter>,
    is_lax: bool,
}

impl<'p> StatementBatch<'p> {
    fn new(plan: &'p StatementPlan, event: &EventRows<'_>, foreign_keys: ForeignKeyChecks) -> Self {
        let EventRows { kind, flags, .. } = *event;
        Self { plan, kind, flags, foreign_keys, rows: Vec::new(), size: 0 }
    }

    /// Returns whether foreign keys have changed rows of several tables, and are not checked therefore.
    fn has_cascades(&self) -> bool {
        self.foreign_keys == ForeignKeyChecks::ByFlags && self.flags.contains(RowsFlags::USE_SQL_FOREIGN_KEY)
    }

    fn is_full(&self) -> bool {
        let each = self.rows.last().map_or(0, |row| row.parameters.len());
        self.rows.len() >= STATEMENT_ROWS_MAX
            || (self.rows.len() + 1) * each > STATEMENT_PARAMETERS_MAX
            || self.size > STATEMENT_SIZE_MAX
    }

    fn put(&mut self, row: RowSql) {
        self.size += row.parameters.iter().map(StatementParameter::size).sum::<usize>();
        self.rows.push(row);
    }

    /// Adds the statement of a row change.
    fn add(&mut self, row: &RowChange<'_, '_>) -> Result<(), TargetFailure> {
        match self.kind {
            RowsKind::Write => self.insert(row),
            RowsKind::Delete => self.delete(row),
            RowsKind::Update | RowsKind::PartialUpdate => self.update(row),
        }
    }

    fn insert(&mut self, row: &RowChange<'_, '_>) -> Result<(), TargetFailure> {
        let written = self.row_values(row)?;
        let values: Vec<&str> = written.pieces.iter().map(String::as_str).collect();
        let sql = written.is_own.then(|| format!("({})", values.join(",")));
        let is_lax = written.is_lax || self.plan.omits_columns;
        self.put(RowSql { sql, parameters: written.parameters, is_lax });
        Ok(())
    }

    fn delete(&mut self, row: &RowChange<'_, '_>) -> Result<(), TargetFailure> {
        let (condition, parameters) = self.row_condition(row)?;
        self.put(RowSql { sql: condition, parameters, is_lax: false });
        Ok(())
    }

    fn update(&mut self, row: &RowChange<'_, '_>) -> Result<(), TargetFailure> {
        let written = self.row_values(row)?;
        if written.pieces.is_empty() {
            return Ok(()); // Only generated columns have changed.
        }
        let (condition, found) = self.row_condition(row)?;
        let mut parameters = written.parameters;
        parameters.extend(found);
        let mappings = self.plan.written_columns.iter().zip(&written.pieces);
        let assigned = mappings.map(|(mapping, sql)| format!("{}={sql}", self.plan.target(mapping).name));
        let kept = self.plan.preserved_columns.iter().map(|target| {
            let name = &self.plan.table.columns[*target].name;
            format!("{name}={name}")
        });
        let assignments: Vec<String> = assigned.chain(kept).collect();
        let (name, mut condition) = (&self.plan.table.name, condition.unwrap_or_else(|| self.condition()));
        let more = written.condition.expression;
        if !more.sql.is_empty() {
            condition = format!("{condition} AND {}", more.sql);
            parameters.extend(more.parameters);
        }
        let sql =
            format!("UPDATE {name} SET {} WHERE {condition}{}", assignments.join(","), self.limit_clause());
        self.put(RowSql { sql: Some(sql), parameters, is_lax: written.is_lax });
        Ok(())
    }

    /// Returns the values to write for a row.
    fn row_values(&self, row: &RowChange<'_, '_>) -> Result<RowValues, TargetFailure> {
        let mut written = RowValues::default();
        let Some(after) = &row.after else { return Ok(written) };
        let mut fields = after.fields();
        for mapping in &self.plan.written_columns {
            let Some(field) = fields.find(|field| field.index() == mapping.log) else { continue };
            let target = self.plan.target(mapping);
            let document = if field.is_partial() { row.document_after(mapping.log)? } else { None };
            let value = match &document {
                Some(document) => Value::Json(JsonDocument::new(document)),
                None => field.value()?,
            };
            written.is_lax |= value == Value::Enum(0);
            let expression = match value {
                Value::Json(document) if target.data_type == "json" => {
                    json_expression::exact_expression(document)?
                }
                Value::JsonChanges(changes) if target.data_type == "json" => {
                    Some(json_expression::patch_expression(&target.name, changes, &mut written.condition)?)
                }
                Value::JsonChanges(_) => return Err(missing_document(&target.name)),
                _ => None,
            };
            match expression {
                Some(expression) => {
                    written.is_own = true;
                    written.pieces.push(expression.sql);
                    written.parameters.extend(expression.parameters);
                }
                None => {
                    written.pieces.push(mapping.sql.clone());
                    written.parameters.push(parameter::parameter(value, field.column(), target)?);
                }
            }
        }
        let columns = self.plan.written_columns.len();
        debug_assert!(written.pieces.len() <= columns, "ours: a column has one value");
        Ok(written)
    }

    /// Returns the condition that finds a row, if the plan's condition does not fit, and its parameters.
    fn row_condition(
        &self,
        row: &RowChange<'_, '_>,
    ) -> Result<(Option<String>, Vec<StatementParameter>), TargetFailure> {
        let Some(before) = &row.before else { return Ok((None, Vec::new())) };
        let mut parameters = Vec::new();
        let mut conditions = Vec::new();
        let mut is_own = false;
        for mapping in &self.plan.condition_columns {
            let condition = self.column_condition(before, mapping)?;
            is_own |= condition.sql != mapping.sql;
            conditions.push(condition.sql);
            parameters.extend(condition.parameters);
        }
        let columns = self.plan.condition_columns.len();
        debug_assert_eq!(conditions.len(), columns, "ours: each column of a condition is compared");
        Ok((is_own.then(|| conditions.join(" AND ")), parameters))
    }

    /// Returns the condition that a column has its value in this image.
    fn column_condition(
        &self,
        image: &RowImage<'_, '_>,
        mapping: &ColumnMapping,
    ) -> Result<SqlExpression, TargetFailure> {
        let target = self.plan.target(mapping);
        let value = value_of(image, mapping)?;
        let expression = match value {
            Value::Json(document) if target.data_type == "json" => {
                json_expression::exact_expression(document)?
            }
            _ => None,
        };
        Ok(match expression {
            Some(SqlExpression { sql, parameters }) => {
                SqlExpression { sql: format!("{} <=> {sql}", target.name), parameters }
            }
            None => {
                let parameter = parameter::parameter(value, &self.plan.log[mapping.log], target)?;
                SqlExpression { sql: mapping.sql.clone(), parameters: vec![parameter] }
            }
        })
    }

    /// Returns the plan's condition.
    fn condition(&self) -> String {
        let conditions: Vec<&str> =
            self.plan.condition_columns.iter().map(|mapping| mapping.sql.as_str()).collect();
        if conditions.is_empty() { "TRUE".to_owned() } else { conditions.join(" AND ") }
    }

    const fn limit_clause(&self) -> &'static str {
        if self.plan.may_match_many { " LIMIT 1" } else { "" }
    }

    /// Runs the statements of all rows in the batch.
    fn run(&mut self, session: &mut dyn StatementRunner) -> Result<(), TargetFailure> {
        let rows = std::mem::take(&mut self.rows);
        self.size = 0;
        let can_join = match self.kind {
            RowsKind::Write => true,
            RowsKind::Delete => !self.plan.may_match_many,
            RowsKind::Update | RowsKind::PartialUpdate => false,
        };
        let mut rows = rows.into_iter().peekable();
        while let Some(first) = rows.next() {
            let mut together = vec![first];
            while can_join && together.len() < batch_size(rows.len() + together.len()) {
                let alike = |next: &RowSql| next.sql == together[0].sql && next.is_lax == together[0].is_lax;
                match rows.next_if(alike) {
                    Some(next) => together.push(next),
                    None => break,
                }
            }
            self.run_together(together, session)?;
        }
        Ok(())
    }

    fn run_together(
        &self,
        rows: Vec<RowSql>,
        session: &mut dyn StatementRunner,
    ) -> Result<(), TargetFailure> {
        let count = rows.len();
        let met = session.run(self.statement(rows))?;
        match met == count as u64 {
            true => Ok(()),
            false => Err(self.row_count_mismatch(met, count as u64)),
        }
    }

    /// Returns the statement for these rows.
    fn statement(&self, rows: Vec<RowSql>) -> RowStatement {
        let settings =
            RowSessionSettings::new(self.flags, self.foreign_keys, rows.iter().any(|row| row.is_lax));
        assert!(
            (1..=STATEMENT_ROWS_MAX).contains(&rows.len()),
            "ours: a statement has rows, and not too many"
        );
        let count = rows.len();
        let own = rows.first().and_then(|row| row.sql.clone());
        let sql = match self.kind {
            RowsKind::Write => self.insert_sql(own, count),
            RowsKind::Delete => {
                let condition = own.unwrap_or_else(|| self.condition());
                let conditions = vec![format!("({condition})"); count].join(" OR ");
                format!("DELETE FROM {} WHERE {conditions}{}", self.plan.table.name, self.limit_clause())
            }
            RowsKind::Update | RowsKind::PartialUpdate => own.unwrap_or_default(),
        };
        let parameters = rows.into_iter().flat_map(|row| row.parameters).collect();
        RowStatement { settings, sql, parameters }
    }

    fn insert_sql(&self, own: Option<String>, count: usize) -> String {
        let names: Vec<&str> =
            self.plan.written_columns.iter().map(|mapping| self.plan.target(mapping).name.as_str()).collect();
        let values = own.unwrap_or_else(|| {
            let values: Vec<&str> =
                self.plan.written_columns.iter().map(|mapping| mapping.sql.as_str()).collect();
            format!("({})", values.join(","))
        });
        let values = vec![values; count].join(",");
        format!("INSERT INTO {} ({}) VALUES {values}", self.plan.table.name, names.join(","))
    }

    /// Returns ER_KEY_NOT_FOUND (1032), the error of a replica in the same situation.
    fn row_count_mismatch(&self, met: u64, expected: u64) -> TargetFailure {
        const KEY_NOT_FOUND: u16 = 1032;
        let verb = match self.kind {
            RowsKind::Write => "an INSERT",
            RowsKind::Delete => "a DELETE",
            RowsKind::Update | RowsKind::PartialUpdate => "an UPDATE",
        };
        let message = format!(
            "{verb} in {} matched {met} rows, but {expected} on the source: the target's rows differ from the source's",
            self.plan.table.name
        );
        TargetFailure { code: Some(KEY_NOT_FOUND), ..TargetFailure::refused(message) }
    }
}

/// Values to write for a row.
#[derive(Default)]
struct RowValues {
    /// SQL expression of each value.
    pieces: Vec<String>,
    parameters: Vec<StatementParameter>,
    /// Additional condition on the row.
    condition: ChangeCondition,
    /// True if an expression differs from the plan's.
    is_own: bool,
    is_lax: bool,
}

/// Returns the number of rows for one statement: the largest power of two, so that there are few different statements.
const fn batch_size(rows: usize) -> usize {
    match rows.checked_ilog2() {
        Some(power) => 1 << power,
        None => 1,
    }
}

fn value_of<'a>(image: &RowImage<'_, 'a>, mapping: &ColumnMapping) -> Result<Value<'a>, TargetFailure> {
    match image.field(mapping.log) {
        Some(field) => Ok(field.value()?),
        None => Ok(Value::Null),
    }
}

fn missing_document(column: &str) -> TargetFailure {
    TargetFailure::refused(format!(
        "{column} has partial JSON updates, but the log lacks the original document: only a MySQL server can apply them"
    ))
}
