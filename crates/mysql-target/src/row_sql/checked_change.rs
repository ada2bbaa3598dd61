//! Checked row changes: applied only if the target's row has the values in the log.

use std::borrow::Cow;

use binlog::events::RowsKind;
use binlog::{Flavour, RowChange, RowImage, Value};
use replay::TargetFailure;
use replay::row_reader::{enum_text, set_text};
use servers::{ResultRow, SqlConnection, StatementParameter};
use sql::data_type::INTEGER_TYPES;
use sql::quote::quote_text;

use crate::row_sql::json_expression::SqlExpression;
use crate::row_sql::parameter_literal::{inline_parameters, literal};
use crate::row_sql::skipped_rows::{ChangedRows, SkippedRows};
use crate::row_sql::statement_plan::ColumnMapping;
use crate::row_sql::{StatementBatch, StatementRunner, value_of};
use crate::server_failure::server_failure;

/// A row change that was not applied, because the target's row differs from the log's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowConflict {
    /// Database and table, quoted.
    pub table: String,
    /// Kind of the change.
    pub kind: RowsKind,
    /// Reason why the change was not applied.
    pub reason: ConflictReason,
    /// Columns of the unique key that identifies the row; empty without one.
    pub key: Vec<(String, String)>,
    /// Columns whose values differ; empty if the target has no row with this key.
    pub differences: Vec<ColumnDifference>,
}

/// Reason why a row change was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictReason {
    /// The target has no such row.
    RowMissing,
    /// The row has other values.
    RowDiffers,
    /// The row to insert already exists.
    RowExists,
    /// The server refused the statement, for example because of a foreign key.
    Refused(String),
}

/// A column with one value in the log and another one on the target, both as SQL literals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDifference {
    /// Name of the column.
    pub column: String,
    /// Value in the log.
    pub expected: String,
    /// Value on the target.
    pub found: String,
}

/// Numbers of row changes that were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedChanges {
    /// Inserted rows.
    pub inserted: u64,
    /// Updated rows.
    pub updated: u64,
    /// Deleted rows.
    pub deleted: u64,
}

impl AppliedChanges {
    const fn add(&mut self, kind: RowsKind) {
        match kind {
            RowsKind::Write => self.inserted += 1,
            RowsKind::Update | RowsKind::PartialUpdate => self.updated += 1,
            RowsKind::Delete => self.deleted += 1,
        }
    }

    /// Returns true if no change was made.
    pub const fn is_empty(&self) -> bool {
        self.inserted == 0 && self.updated == 0 && self.deleted == 0
    }
}

/// Results of checked row changes.
#[derive(Debug, Default)]
pub(crate) struct CheckedResults {
    pub(crate) applied: AppliedChanges,
    /// Rows that differ from the log.
    pub(crate) conflicts: Vec<DetectedConflict>,
}

/// Makes checked row changes.
#[derive(Debug, Default)]
pub(super) struct CheckedChanges {
    pub(super) results: CheckedResults,
    skipped: SkippedRows,
    /// Rows of which a change was made; `None` if no row is skipped in the end.
    changed: Option<ChangedRows>,
}

impl CheckedChanges {
    /// Makes a change, unless the row differs from the log or its previous change was skipped.
    pub(super) fn write(
        &mut self,
        batch: &mut StatementBatch<'_>,
        row: &RowChange<'_, '_>,
        session: &mut dyn StatementRunner,
    ) -> Result<(), TargetFailure> {
        if !self.skipped.is_empty() && self.skipped.follow(batch.transition(row)?)? {
            return self.check_skip(batch, row);
        }
        batch.add(row)?;
        match batch.run_checked(row, session)? {
            None => {
                self.results.applied.add(batch.kind);
                if let Some(changed) = &mut self.changed {
                    changed.add(batch.transition(row)?)?;
                }
            }
            Some(conflict) => {
                self.check_skip(batch, row)?;
                self.skipped.skip(batch.transition(row)?)?;
                self.results.conflicts.push(conflict);
            }
        }
        Ok(())
    }

    /// Makes partial skips errors.
    pub(super) fn refuse_partial_skips(&mut self) {
        assert!(self.results.applied.is_empty(), "ours: the first change is tracked, too");
        self.changed = Some(ChangedRows::default());
    }

    /// Refuses to skip a change if a part of what belongs to it would be undone.
    fn check_skip(&self, batch: &StatementBatch<'_>, row: &RowChange<'_, '_>) -> Result<(), TargetFailure> {
        let Some(changed) = &self.changed else { return Ok(()) };
        let table = &batch.plan.table.name;
        if batch.has_cascades() {
            return Err(TargetFailure::refused(format!(
                "a row of {table} was changed again later, and foreign keys connect it with other rows of the same \
                 statement: --skip-changed cannot skip it. Leave this transaction out"
            )));
        }
        match changed.contains(batch.transition(row)?) {
            false => Ok(()),
            true => Err(TargetFailure::refused(format!(
                "a row of {table} was also changed between the chosen transactions: --skip-changed cannot skip only a \
                 part of its changes. Choose the transactions after that change, or those before it"
            ))),
        }
    }
}

/// ER_DUP_ENTRY: a row with this key exists.
const DUPLICATE_KEY: u16 = 1062;

/// Errors of a statement that concern one row: ER_DUP_ENTRY, ER_ROW_IS_REFERENCED_2, ER_NO_REFERENCED_ROW_2,
/// ER_CHECK_CONSTRAINT_VIOLATED, and MariaDB's ER_CONSTRAINT_FAILED.
const ROW_ERRORS: [u16; 5] = [DUPLICATE_KEY, 1451, 1452, 3819, 4025];

/// A row change that was not applied, with the conditions that find the target's row.
#[derive(Debug)]
pub(crate) struct DetectedConflict {
    table: String,
    kind: RowsKind,
    /// The server's error, if it refused the statement.
    failure: Option<TargetFailure>,
    key: Vec<(String, String)>,
    /// Each column, its value as a literal, and the condition that it has this value.
    columns: Vec<ComparedValue>,
    /// Condition that finds the row by key; empty without a key.
    condition: String,
}

/// A column and its value in the log.
#[derive(Debug)]
struct ComparedValue {
    column: String,
    literal: String,
    /// Condition that the target's column has this value.
    condition: String,
    /// Form of the target's value.
    form: LiteralForm,
}

/// Form of the literals of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiteralForm {
    Text,
    /// An integer: also of ENUM, SET and BIT values, which are numbers in the log.
    Integer,
    Double,
}

impl LiteralForm {
    /// Returns the form of a column's literals. `value` is the log's value.
    fn new(data_type: &str, value: Option<&StatementParameter>) -> Self {
        match data_type {
            "float" | "double" => Self::Double,
            "bit" | "year" => Self::Integer,
            name if INTEGER_TYPES.contains(&name) => Self::Integer,
            _ if matches!(value, Some(StatementParameter::UInt(_))) => Self::Integer,
            _ => Self::Text,
        }
    }

    /// Returns the expression that selects the values of a column.
    fn expression(self, column: &str) -> String {
        match self {
            Self::Text => column.to_owned(),
            Self::Integer => format!("{column}+0"),
            Self::Double => format!("{column}+0e0"),
        }
    }

    /// Returns the literal of a selected value.
    fn literal(self, value: Option<&[u8]>) -> String {
        let Some(value) = value else { return "NULL".to_owned() };
        let text = String::from_utf8_lossy(value);
        match self {
            Self::Text => literal(&StatementParameter::Bytes(value.to_vec())),
            Self::Integer => text.into_owned(),
            Self::Double => match text.parse() {
                Ok(number) => literal(&StatementParameter::Double(number)),
                Err(_) => text.into_owned(),
            },
        }
    }
}

impl StatementBatch<'_> {
    /// Runs the statement of the last added row. Returns a conflict if it changes no row.
    pub(super) fn run_checked(
        &mut self,
        row: &RowChange<'_, '_>,
        session: &mut dyn StatementRunner,
    ) -> Result<Option<DetectedConflict>, TargetFailure> {
        let rows = std::mem::take(&mut self.rows);
        self.size = 0;
        if rows.is_empty() {
            return Ok(None); // Only generated columns have changed.
        }
        match session.run(self.statement(rows)) {
            Ok(1) => Ok(None),
            Ok(_) => self.conflict(row, None).map(Some),
            Err(failure) if failure.code.is_some_and(|code| ROW_ERRORS.contains(&code)) => {
                self.conflict(row, Some(failure)).map(Some)
            }
            Err(failure) => Err(failure),
        }
    }

    fn conflict(
        &self,
        row: &RowChange<'_, '_>,
        failure: Option<TargetFailure>,
    ) -> Result<DetectedConflict, TargetFailure> {
        let (mut key, mut condition) = (Vec::new(), Vec::new());
        let mut columns = Vec::new();
        if let Some(image) = row.before.as_ref().or(row.after.as_ref()) {
            let compared = |mapping: &ColumnMapping| -> Result<ComparedValue, TargetFailure> {
                let SqlExpression { sql, parameters } = self.column_condition(image, mapping)?;
                let column = self.plan.target(mapping).name.clone();
                let condition = inline_parameters(&sql, &parameters);
                // A JSON document with exact numbers has several parameters; the first one is its text.
                let target = self.plan.target(mapping);
                let number = parameters.first().map(literal).unwrap_or_default();
                let (literal, form) = match self.member_text(image, mapping)? {
                    Some(text) => (quote_text(&text), LiteralForm::Text),
                    None => (number, LiteralForm::new(&target.data_type, parameters.first())),
                };
                Ok(ComparedValue { column, literal, condition, form })
            };
            let (key_columns, image_columns) = self.plan.condition_columns.split_at(self.plan.key_size);
            for mapping in key_columns {
                let ComparedValue { column, literal, condition: test, .. } = compared(mapping)?;
                key.push((column, literal));
                condition.push(test);
            }
            columns = image_columns.iter().map(compared).collect::<Result<_, _>>()?;
        }
        Ok(DetectedConflict {
            table: self.plan.table.name.clone(),
            kind: self.kind,
            failure,
            key,
            columns,
            condition: condition.join(" AND "),
        })
    }
}

impl StatementBatch<'_> {
    /// Returns the text of an ENUM or SET value, if the log has the texts of the column.
    fn member_text(
        &self,
        image: &RowImage<'_, '_>,
        mapping: &ColumnMapping,
    ) -> Result<Option<String>, TargetFailure> {
        let column = &self.plan.log[mapping.log];
        Ok(match value_of(image, mapping)? {
            Value::Enum(number) => enum_text(column, number, Flavour::MySql).map(Cow::into_owned),
            Value::Set(members) => set_text(column, members, Flavour::MySql),
            _ => None,
        })
    }
}

impl DetectedConflict {
    /// Reads the target's row, and compares it with the log's.
    ///
    /// # Errors
    ///
    /// Fails if the row cannot be read.
    pub(crate) fn compare(self, connection: &mut SqlConnection) -> Result<RowConflict, TargetFailure> {
        let found = match self.condition.is_empty() {
            true => None,
            false => connection.rows(&self.row_query()).map_err(server_failure)?.into_iter().next(),
        };
        let differences = found.as_ref().map(|row| self.differences(row)).unwrap_or_default();
        let reason = match (self.failure, &found) {
            (Some(failure), Some(_)) if failure.code == Some(DUPLICATE_KEY) => ConflictReason::RowExists,
            (Some(failure), _) => ConflictReason::Refused(failure.message),
            (None, Some(_)) => ConflictReason::RowDiffers,
            (None, None) => ConflictReason::RowMissing,
        };
        Ok(RowConflict { table: self.table, kind: self.kind, reason, key: self.key, differences })
    }

    /// Returns the query for the row by its key: for each column, whether it has the log's value, and its value.
    fn row_query(&self) -> String {
        let columns = self.columns.iter().map(|compared| {
            let ComparedValue { column, condition, form, .. } = compared;
            format!("{condition},{}", form.expression(column))
        });
        let columns: Vec<String> = columns.collect();
        format!("SELECT {} FROM {} WHERE {}", columns.join(","), self.table, self.condition)
    }

    fn differences(&self, row: &ResultRow) -> Vec<ColumnDifference> {
        let pairs = row.chunks_exact(2).zip(&self.columns);
        let different = pairs.filter(|(pair, _)| pair[0].as_deref() != Some(b"1"));
        let difference = |(pair, compared): (&[Option<Vec<u8>>], &ComparedValue)| ColumnDifference {
            column: compared.column.clone(),
            expected: compared.literal.clone(),
            found: compared.form.literal(pair[1].as_deref()),
        };
        different.map(difference).collect()
    }
}

#[cfg(test)]
mod tests {
    use servers::StatementParameter;

    use super::LiteralForm;
    use crate::row_sql::parameter_literal::literal;

    #[test]
    fn both_values_of_a_column_are_literals_of_one_kind() {
        let check = |data_type: &str, expected: StatementParameter, found: &str, literals: [&str; 2]| {
            let form = LiteralForm::new(data_type, Some(&expected));
            let both = [literal(&expected), form.literal(Some(found.as_bytes()))];
            assert_eq!(both, literals, "{data_type}");
        };
        let text = |text: &str| StatementParameter::Bytes(text.into());
        check("int", StatementParameter::Int(0), "1", ["0", "1"]);
        check("bigint", StatementParameter::UInt(0), "1", ["0", "1"]);
        check("int", StatementParameter::Null, "1", ["NULL", "1"]);
        check("bit", StatementParameter::Null, "5", ["NULL", "5"]);
        check("year", StatementParameter::UInt(2026), "2027", ["2026", "2027"]);
        check("enum", StatementParameter::UInt(1), "2", ["1", "2"]);
        check("double", StatementParameter::Double(1.5), "2.5", ["1.5e0", "2.5e0"]);
        check("float", StatementParameter::Float(1.5), "1e20", ["1.5e0", "1e20"]);
        check("varchar", text("0"), "1", ["'0'", "'1'"]);
        check("decimal", text("2.50"), "9.00", ["'2.50'", "'9.00'"]);
        assert_eq!(LiteralForm::Integer.literal(None), "NULL");
    }
}
