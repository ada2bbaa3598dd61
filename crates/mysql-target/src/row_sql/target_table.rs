//! Tables of the target, with the facts that statements need.

use binlog::events::RowsKind;
use binlog::{Collation, Column, ColumnType, Flavour, Table};
use replay::TargetFailure;
use servers::{ServerCatalogue, ServerColumn, ServerIndexPart, SqlConnection, row_text};
use sql::quote;

use crate::account_grants::AccountGrants;
use crate::server_failure::server_failure;

/// A table on the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TargetTable {
    /// Database and table, quoted.
    pub(crate) name: String,
    pub(super) columns: Vec<TargetColumn>,
    /// Unique keys whose columns are never NULL, the primary key first.
    pub(super) keys: Vec<Vec<usize>>,
    /// Storage engine, if it does not support transactions.
    pub(crate) nontransactional_engine: Option<String>,
    /// Triggers: the event and the name of each.
    pub(crate) triggers: Vec<(String, String)>,
}

/// A column on the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TargetColumn {
    /// Name without quotes.
    pub(super) raw_name: String,
    /// Name in backquotes.
    pub(super) name: String,
    /// Type as in `information_schema`: `varchar`, `bigint`.
    pub(super) data_type: String,
    pub(super) is_unsigned: bool,
    /// Character set of text.
    pub(super) charset: Option<String>,
    pub(super) collation: Option<String>,
    /// Maximum size of text and byte values, in bytes.
    pub(super) octets: usize,
    /// Precision and scale of a decimal.
    pub(super) digits: (usize, usize),
    /// True for a generated column.
    pub(super) is_generated: bool,
    /// True for a column with `ON UPDATE CURRENT_TIMESTAMP`.
    pub(super) has_on_update: bool,
}

impl TargetTable {
    /// Returns the table as a log with all optional metadata describes it; `None` if the log has no column names.
    ///
    /// Such a log does not show generated columns, triggers, or keys other than the primary key.
    pub(crate) fn from_log(table: &Table, flavour: Flavour) -> Option<Self> {
        let columns = table.columns.iter().map(|column| TargetColumn::from_log(column, flavour));
        let is_whole = |part: &binlog::KeyPart| part.prefix == 0;
        let key = table.primary_key.as_deref().filter(|key| !key.is_empty() && key.iter().all(is_whole));
        Some(Self {
            name: quoted_name(table),
            columns: columns.collect::<Option<_>>()?,
            keys: key.map(|key| key.iter().map(|part| part.column).collect()).into_iter().collect(),
            nontransactional_engine: None,
            triggers: Vec::new(),
        })
    }

    /// Creates a table without columns.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Returns the name of a trigger that statements for these changes would fire.
    pub(crate) fn trigger_of(&self, kind: RowsKind) -> Option<&str> {
        let event = match kind {
            RowsKind::Write => "INSERT",
            RowsKind::Delete => "DELETE",
            RowsKind::Update | RowsKind::PartialUpdate => "UPDATE",
        };
        let fired = self.triggers.iter().find(|(fires_at, _)| fires_at == event);
        fired.map(|(_, trigger)| trigger.as_str())
    }
}

fn quoted_name(table: &Table) -> String {
    quote::quote_table(&String::from_utf8_lossy(&table.database), &String::from_utf8_lossy(&table.name))
}

/// Reads the definition on the target of a table in the log.
pub(crate) fn load_table(connection: &mut SqlConnection, log: &Table) -> Result<TargetTable, TargetFailure> {
    let (name, database, table) = (quoted_name(log), &*log.database, &*log.name);
    let mut catalogue = ServerCatalogue::new(connection);
    let columns: Vec<TargetColumn> = catalogue
        .columns(database, table)
        .map_err(server_failure)?
        .into_iter()
        .map(TargetColumn::new)
        .collect();
    if columns.is_empty() {
        return Err(TargetFailure::refused(format!(
            "the target has no table {name}, or the account may not see it"
        )));
    }
    let found = catalogue.table(database, table).map_err(server_failure)?;
    if found.is_some_and(|found| found.is_system_versioned()) {
        return Err(TargetFailure::refused(format!(
            "{name} is system-versioned, and the log contains its history as rows: it cannot be applied as SQL"
        )));
    }
    let parts = catalogue.index_parts(database, table).map_err(server_failure)?;
    let keys = parts.chunk_by(|one, next| one.index == next.index);
    let keys = keys.filter_map(|key| key_columns(key, &columns)).collect();
    let triggers = triggers(connection, database, table, &name)?;
    let untransactional = nontransactional_engine(connection, database, table)?;
    Ok(TargetTable { name, columns, keys, nontransactional_engine: untransactional, triggers })
}

/// Returns the table's engine, if it does not support transactions.
pub(crate) fn nontransactional_engine(
    connection: &mut SqlConnection,
    database: &[u8],
    table: &[u8],
) -> Result<Option<String>, TargetFailure> {
    connection
        .value(&format!(
            "SELECT engine FROM information_schema.tables WHERE {} AND engine IN
           (SELECT engine FROM information_schema.engines WHERE transactions = 'NO')",
            quote::table_condition(database, table)
        ))
        .map_err(server_failure)
}

impl TargetColumn {
    /// Returns the column as a log describes it; `None` if the log has no column names.
    fn from_log(column: &Column, flavour: Flavour) -> Option<Self> {
        const BINARY: u16 = 63;
        let raw_name = String::from_utf8_lossy(column.name.as_deref()?).into_owned();
        let collation = column.collation.filter(|collation| *collation != BINARY);
        let collation = collation.and_then(|id| Collation::new(id, flavour));
        let types = column.column_type.data_types();
        // Text types come before byte types.
        let data_type = if collation.is_some() { types.first() } else { types.last() };
        let digits = match column.column_type {
            ColumnType::Decimal { precision, scale } => (precision.into(), scale.into()),
            _ => (0, 0),
        };
        let octets = match column.column_type {
            ColumnType::Char { size_max } => size_max.into(),
            _ => 0,
        };
        Some(Self {
            name: quote::quote_name(&raw_name),
            raw_name,
            data_type: (*data_type.unwrap_or(&"geometry")).to_owned(),
            is_unsigned: column.unsigned == Some(true),
            charset: collation.map(|collation| collation.charset().name().to_owned()),
            collation: collation.map(|collation| collation.name().into_owned()),
            octets,
            digits,
            is_generated: false,
            has_on_update: false,
        })
    }

    fn new(column: ServerColumn) -> Self {
        let [octets, precision, scale] =
            [column.octets, column.precision, column.scale].map(|number| number as usize);
        Self {
            name: quote::quote_name(&column.name),
            is_unsigned: column.is_unsigned(),
            octets,
            digits: (precision, scale),
            is_generated: column.is_generated(),
            has_on_update: column.extra.contains("on update"),
            raw_name: column.name,
            data_type: column.data_type,
            charset: column.charset,
            collation: column.collation,
        }
    }
}

/// Returns the columns of a unique key that can find a row; `None` if the key is not unique, or if a column may be
/// NULL, is generated, or is an expression.
fn key_columns(key: &[ServerIndexPart], columns: &[TargetColumn]) -> Option<Vec<usize>> {
    let part = |part: &ServerIndexPart| {
        let name = part.column.as_deref()?;
        let index = columns.iter().position(|column| column.raw_name == name && !column.is_generated)?;
        (part.is_unique && !part.is_nullable).then_some(index)
    };
    key.iter().map(part).collect()
}

/// Reads the table's triggers. Fails without the TRIGGER privilege: the account could not see them.
fn triggers(
    connection: &mut SqlConnection,
    database: &[u8],
    table: &[u8],
    name: &str,
) -> Result<Vec<(String, String)>, TargetFailure> {
    if !AccountGrants::query(connection).map_err(server_failure)?.has_on_table(database, table, "TRIGGER") {
        return Err(TargetFailure::refused(format!(
            "the account cannot see whether {name} has triggers, which would run a second time. GRANT it TRIGGER ON {name}"
        )));
    }
    let question = format!(
        "SELECT event_manipulation, trigger_name FROM information_schema.triggers
         WHERE event_object_schema = {} AND event_object_table = {}",
        quote::hex_value(database),
        quote::hex_value(table)
    );
    Ok(connection
        .rows(&question)
        .map_err(server_failure)?
        .iter()
        .map(|row| (row_text(row, 0), row_text(row, 1)))
        .collect())
}
