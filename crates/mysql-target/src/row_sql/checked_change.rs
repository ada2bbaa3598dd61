//! Checked row changes: applied only if the target's row has the values in the log.

use std::borrow::Cow;

use binlog::events::RowsKind;
use binlog::{Flavour, RowChange, RowImage, Value};
use replay::TargetFailure;
use replay::row_reader::{enum_text, set_text};
use servers::{ResultRow, SqlConnection, StatementParameter};
use sql::quote::quote_text;

use crate::row_sql::json_expression::SqlExpression;
use crate::row_sql::parameter_literal::{inline_parameters, literal};
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
    /// Expression for the target's value in the form of `literal`.
    expression: String,
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
                let number = parameters.first().map(literal).unwrap_or_default();
                let is_number = matches!(parameters.first(), Some(StatementParameter::UInt(_)));
                let (literal, expression) = match self.member_text(image, mapping)? {
                    Some(text) => (quote_text(&text), column.clone()),
                    // ENUM, SET and BIT values are numbers in the log.
                    None if is_number => (number, format!("{column}+0")),
                    None => (number, column.clone()),
                };
                Ok(ComparedValue { column, literal, condition, expression })
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
            let ComparedValue { condition, expression, .. } = compared;
            format!("{condition},{expression}")
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
            found: match &pair[1] {
                None => "NULL".to_owned(),
                Some(digits) if compared.expression != compared.column => {
                    String::from_utf8_lossy(digits).into_owned()
                }
                Some(bytes) => literal(&StatementParameter::Bytes(bytes.clone())),
            },
        };
        different.map(difference).collect()
    }
}
