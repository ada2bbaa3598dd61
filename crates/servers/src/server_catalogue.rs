//! Tables of a server, as described by its `information_schema`.

use sql::quote;

use crate::error::ConnectionError;
use crate::sql_connection::{NamedRow, ResultRow, SqlConnection};

/// Reads definitions of tables from `information_schema`, with queries that every server version accepts.
///
/// An account sees only tables on which it has a privilege.
#[derive(Debug)]
pub struct ServerCatalogue<'c> {
    connection: &'c mut SqlConnection,
}

/// A table or view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTable {
    /// Storage engine: `InnoDB`; `None` for a view.
    pub engine: Option<String>,
    /// For example `BASE TABLE`, `VIEW`, or MariaDB's `SYSTEM VERSIONED`.
    pub table_type: String,
}

/// Condition on `information_schema.tables` that selects tables with rows: no views, no sequences.
pub const IS_ROW_TABLE: &str = "table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')";

impl ServerTable {
    /// Returns whether it is a table with rows: no view and no sequence.
    pub fn has_rows(&self) -> bool {
        self.table_type == "BASE TABLE" || self.is_system_versioned()
    }

    /// Returns whether MariaDB keeps the history of its rows.
    pub fn is_system_versioned(&self) -> bool {
        self.table_type == "SYSTEM VERSIONED"
    }
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerColumn {
    /// Name without quotes.
    pub name: String,
    /// Index among all columns, from 0. If MySQL hides a generated primary key, index 0 is missing.
    pub index: usize,
    /// Type without attributes, in lower case: `varchar`, `bigint`.
    pub data_type: String,
    /// Type with its attributes, as written by the server: `int(10) unsigned zerofill`.
    pub column_type: String,
    /// Character set of text.
    pub charset: Option<String>,
    /// Collation of text.
    pub collation: Option<String>,
    /// Number of the collation.
    pub collation_id: Option<u16>,
    /// Maximum size of text and byte values, in bytes; 0 for other types.
    pub octets: u64,
    /// Precision of a number; 0 for other types.
    pub precision: u64,
    /// Scale of a number; 0 for other types.
    pub scale: u64,
    /// Digits of fractional seconds; 0 for other types, and on servers without them.
    pub fraction: u64,
    /// True if the column accepts NULL.
    pub is_nullable: bool,
    /// Default value, as the server writes it: MySQL as text, MariaDB as SQL.
    pub default: Option<String>,
    /// Further attributes, in lower case: `auto_increment`, `on update current_timestamp`, `virtual generated`.
    pub extra: String,
    /// Expression of a generated column, as the server writes it. In a system-versioned table of MariaDB, `ROW START`
    /// and `ROW END` mark the columns with the period of a row.
    pub generation_expression: Option<String>,
}

/// A column, or an expression, in an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIndexPart {
    /// Name of the index; `PRIMARY` for the primary key.
    pub index: String,
    /// For example `BTREE`.
    pub index_type: String,
    /// True for a part of a unique index.
    pub is_unique: bool,
    /// Column; `None` for an expression.
    pub column: Option<String>,
    /// Number of characters or bytes in the index, if it has only a prefix of the column.
    pub prefix: Option<u64>,
    /// True if the column accepts NULL.
    pub is_nullable: bool,
    /// True for descending order.
    pub is_descending: bool,
}

/// A foreign key of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerForeignKey {
    /// Name of the constraint.
    pub name: String,
    /// Columns of the table, in the order of the key.
    pub columns: Vec<String>,
    /// Database of the table that it refers to.
    pub parent_database: String,
    /// Table that it refers to.
    pub parent_table: String,
    /// Columns that it refers to, in the order of the key.
    pub parent_columns: Vec<String>,
    /// Index that it refers to, if the server names one.
    pub parent_index: Option<String>,
}

/// The two tables of a foreign key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKeyTables {
    /// Database of the table with the key.
    pub database: Vec<u8>,
    /// Table with the key.
    pub table: Vec<u8>,
    /// Database of the table that it refers to.
    pub parent_database: Vec<u8>,
    /// Table that it refers to.
    pub parent_table: Vec<u8>,
}

impl<'c> ServerCatalogue<'c> {
    /// Creates a catalogue that uses this connection.
    pub const fn new(connection: &'c mut SqlConnection) -> Self {
        Self { connection }
    }

    /// Returns a table or view; `None` if the table does not exist.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn table(&mut self, database: &[u8], table: &[u8]) -> Result<Option<ServerTable>, ConnectionError> {
        let rows = self.connection.named_rows(&format!(
            "SELECT engine, table_type FROM information_schema.tables WHERE {}",
            quote::table_condition(database, table)
        ))?;
        let table = |row: &NamedRow| ServerTable {
            engine: value(row, "engine"),
            table_type: text(row, "table_type"),
        };
        Ok(rows.first().map(table))
    }

    /// Returns the names of a database's tables, without views and sequences; empty if the database does not exist.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn base_tables(&mut self, database: &[u8]) -> Result<Vec<Vec<u8>>, ConnectionError> {
        let rows = self.connection.rows(&format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = {} AND {IS_ROW_TABLE}",
            quote::hex_value(database)
        ))?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }

    /// Returns the columns of a table, in order; empty if the table does not exist.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn columns(&mut self, database: &[u8], table: &[u8]) -> Result<Vec<ServerColumn>, ConnectionError> {
        // Select all columns, because MySQL 5.5 has no DATETIME_PRECISION.
        let rows = self.connection.named_rows(&format!(
            "SELECT c.*, (SELECT l.id FROM information_schema.collations l
               WHERE l.collation_name = c.collation_name) AS collation_id
             FROM information_schema.columns c WHERE {} ORDER BY ordinal_position",
            quote::table_condition(database, table)
        ))?;
        Ok(rows.iter().map(column).collect())
    }

    /// Returns the parts of all indexes of a table: the primary key first, then by name, each in the order of its
    /// columns.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn index_parts(
        &mut self,
        database: &[u8],
        table: &[u8],
    ) -> Result<Vec<ServerIndexPart>, ConnectionError> {
        // Do not select CARDINALITY: the server would open the table, and might store new statistics.
        let rows = self.connection.named_rows(&format!(
            "SELECT index_name, index_type, non_unique, column_name, sub_part, nullable, collation
             FROM information_schema.statistics WHERE {}
             ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index",
            quote::table_condition(database, table)
        ))?;
        Ok(rows.iter().map(index_part).collect())
    }

    /// Returns the names of a table's indexes that are invisible to the optimizer.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn invisible_indexes(
        &mut self,
        database: &[u8],
        table: &[u8],
    ) -> Result<Vec<String>, ConnectionError> {
        // A server has one of these columns, or none.
        let found = self.connection.value(
            "SELECT column_name FROM information_schema.columns
             WHERE table_schema = 'information_schema' AND table_name = 'STATISTICS'
               AND column_name IN ('IS_VISIBLE', 'IGNORED')",
        )?;
        let condition = match found.map(|name| name.to_ascii_uppercase()).as_deref() {
            Some("IS_VISIBLE") => "is_visible = 'NO'",
            Some("IGNORED") => "ignored = 'YES'",
            _ => return Ok(Vec::new()),
        };
        let rows = self.connection.named_rows(&format!(
            "SELECT DISTINCT index_name FROM information_schema.statistics WHERE {} AND {condition}",
            quote::table_condition(database, table)
        ))?;
        Ok(rows.iter().map(|row| text(row, "index_name")).collect())
    }

    /// Returns the name of the index of each index part of a table, in the order of the table's definition.
    ///
    /// Without further privileges, only `SHOW INDEX` returns this order. The statement reads statistics: use it only in
    /// a read-only session, which does not store them.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn defined_indexes(&mut self, database: &str, table: &str) -> Result<Vec<String>, ConnectionError> {
        let statement = format!("SHOW INDEX FROM {}", quote::quote_table(database, table));
        Ok(self.connection.named_rows(&statement)?.iter().map(|row| text(row, "key_name")).collect())
    }

    /// Returns the foreign keys of a table, by name.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn foreign_keys(
        &mut self,
        database: &[u8],
        table: &[u8],
    ) -> Result<Vec<ServerForeignKey>, ConnectionError> {
        let condition = quote::table_condition(database, table)
            .replace("table_schema", "k.table_schema")
            .replace("table_name", "k.table_name");
        let rows = self.connection.named_rows(&format!(
            "SELECT k.constraint_name, k.column_name, k.referenced_table_schema, k.referenced_table_name,
               k.referenced_column_name, r.unique_constraint_name
             FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r
               ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name
               AND r.table_name = k.table_name
             WHERE k.referenced_table_name IS NOT NULL AND {condition}
             ORDER BY k.constraint_name, k.ordinal_position"
        ))?;
        let keys = rows.chunk_by(|one, next| text(one, "constraint_name") == text(next, "constraint_name"));
        Ok(keys.map(foreign_key).collect())
    }

    /// Returns the tables of all foreign keys of the server.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn foreign_key_tables(&mut self) -> Result<Vec<ForeignKeyTables>, ConnectionError> {
        let rows = self.connection.rows(
            "SELECT constraint_schema, table_name, unique_constraint_schema, referenced_table_name
             FROM information_schema.referential_constraints",
        )?;
        let reference = |row: ResultRow| {
            let mut names = row.into_iter().map(Option::unwrap_or_default);
            let mut next = || names.next().unwrap_or_default();
            ForeignKeyTables {
                database: next(),
                table: next(),
                parent_database: next(),
                parent_table: next(),
            }
        };
        Ok(rows.into_iter().map(reference).collect())
    }
}

impl ServerColumn {
    /// Returns whether a number is unsigned.
    pub fn is_unsigned(&self) -> bool {
        self.column_type.to_ascii_lowercase().contains("unsigned")
    }

    /// Returns whether the column is generated and not stored.
    pub fn is_virtual(&self) -> bool {
        self.extra.contains("virtual generated")
    }

    /// Returns whether the column is generated, stored or not.
    pub fn is_generated(&self) -> bool {
        self.is_virtual() || self.extra.contains("stored generated")
    }
}

fn column(row: &NamedRow) -> ServerColumn {
    ServerColumn {
        name: text(row, "column_name"),
        index: (number(row, "ordinal_position") as usize).saturating_sub(1),
        data_type: text(row, "data_type").to_ascii_lowercase(),
        column_type: text(row, "column_type"),
        charset: value(row, "character_set_name"),
        collation: value(row, "collation_name"),
        collation_id: text(row, "collation_id").parse().ok(),
        octets: number(row, "character_octet_length"),
        precision: number(row, "numeric_precision"),
        scale: number(row, "numeric_scale"),
        fraction: number(row, "datetime_precision"),
        is_nullable: text(row, "is_nullable") == "YES",
        default: value(row, "column_default"),
        extra: text(row, "extra").to_ascii_lowercase(),
        generation_expression: value(row, "generation_expression"),
    }
}

fn index_part(row: &NamedRow) -> ServerIndexPart {
    ServerIndexPart {
        index: text(row, "index_name"),
        index_type: text(row, "index_type"),
        is_unique: text(row, "non_unique") == "0",
        column: value(row, "column_name"),
        prefix: value(row, "sub_part").and_then(|size| size.parse().ok()),
        is_nullable: text(row, "nullable") == "YES",
        is_descending: text(row, "collation") == "D",
    }
}

/// Returns a foreign key from the rows of its columns, of which there is at least one.
fn foreign_key(rows: &[NamedRow]) -> ServerForeignKey {
    let texts = |name: &str| rows.iter().map(|row| text(row, name)).collect();
    ServerForeignKey {
        name: text(&rows[0], "constraint_name"),
        columns: texts("column_name"),
        parent_database: text(&rows[0], "referenced_table_schema"),
        parent_table: text(&rows[0], "referenced_table_name"),
        parent_columns: texts("referenced_column_name"),
        parent_index: value(&rows[0], "unique_constraint_name"),
    }
}

/// Returns a value by the name of its column. Servers differ in the case of names.
fn value(row: &NamedRow, name: &str) -> Option<String> {
    let (_, value) = row.iter().find(|(column, _)| column.eq_ignore_ascii_case(name))?;
    value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned())
}

/// Returns a value as text; empty for NULL.
fn text(row: &NamedRow, name: &str) -> String {
    value(row, name).unwrap_or_default()
}

/// Returns a number; 0 for NULL.
fn number(row: &NamedRow, name: &str) -> u64 {
    text(row, name).parse().unwrap_or(0)
}
