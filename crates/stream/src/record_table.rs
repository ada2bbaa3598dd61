//! Tables of records: their names, and the fields of their rows and keys.

use crate::column_catalogue::{ColumnSchema, TableSchema};
use crate::column_default::default_json;
use crate::column_domain::ColumnDomain;
use crate::column_rules::ColumnRules;
use crate::connect_schema::ConnectField;
use crate::value_modes::ValueModes;

/// Table of records: its names, and the fields of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordTable {
    /// Name of its database.
    pub database: String,
    /// Name.
    pub table: String,
    /// Fields of keys; empty for a table without a primary key.
    pub key: Vec<ConnectField>,
    /// Fields of rows.
    pub columns: Vec<ConnectField>,
}

impl RecordTable {
    /// Returns the table of a definition, with the fields of its rows in these forms.
    pub fn of_definition(
        names: [&str; 2],
        definition: &TableSchema,
        modes: ValueModes,
        rules: &ColumnRules,
    ) -> Self {
        let full_names = full_names(names, definition);
        let field = |index: usize| column_field(&definition.columns[index], definition, modes);
        let shown = (0..full_names.len()).filter(|index| rules.selects(&full_names[*index]));
        let [database, table] = names.map(str::to_owned);
        let key = rules.key_of_definition(&full_names, definition).into_iter().map(field).collect();
        Self { database, table, key, columns: shown.map(field).collect() }
    }
}

/// Returns the full names of the columns: `database.table.column`.
pub(crate) fn full_names([database, table]: [&str; 2], definition: &TableSchema) -> Vec<String> {
    definition.columns.iter().map(|column| format!("{database}.{table}.{}", column.name)).collect()
}

/// Returns the field of a column in records.
fn column_field(column: &ColumnSchema, table: &TableSchema, modes: ValueModes) -> ConnectField {
    let domain = ColumnDomain::from_catalogue(column);
    let mut schema = domain.schema(modes);
    // A definition may leave NOT NULL out for its primary key.
    let is_key = table.primary_key.iter().any(|name| name.eq_ignore_ascii_case(&column.name));
    schema.is_optional = domain.is_optional(column.nullable && !is_key);
    schema.default = default_json(column, modes);
    schema.field(&column.name)
}
