//! Plans that convert rows of one kind of event to statements: the target's columns, and an SQL expression for each
//! value.

use std::sync::Arc;

use binlog::events::RowsKind;
use binlog::{Collation, Column, ColumnType, Flavour};
use replay::TargetFailure;
use replay::row_reader::{EventRows, RowLookup};
use sql::data_type::{BLOB_TYPES, GEOMETRY_TYPES, INTEGER_TYPES, fixed_byte_size};

use crate::row_sql::target_table::{TargetColumn, TargetTable};

/// Flavours of the source and of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplayFlavours {
    pub(super) source: Flavour,
    pub(super) target: Flavour,
}

/// Values that find the row of an update or delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowMatch {
    /// Values of a unique key that is never NULL; without such a key, all values in the log.
    Key,
    /// All values in the log: a row changed since then is not found.
    WholeImage,
}

/// A plan that converts the rows of one kind of event to statements.
#[derive(Clone, Debug)]
pub(super) struct StatementPlan {
    pub(super) table: Arc<TargetTable>,
    /// The log's columns that this plan converts.
    pub(super) log: Box<[Column]>,
    /// Columns that an insert or update writes.
    pub(super) written_columns: Vec<ColumnMapping>,
    /// Columns that find the row of an update or delete; with [`RowMatch::WholeImage`], also of an insert.
    pub(super) condition_columns: Vec<ColumnMapping>,
    /// Number of leading `condition_columns` that belong to a unique key.
    pub(super) key_size: usize,
    /// True if the condition may match several rows, but the statement must change only one.
    pub(super) may_match_many: bool,
    /// True if an omitted column may have no default.
    pub(super) omits_columns: bool,
    /// The target's columns with `ON UPDATE`, which an update must set to their own values.
    pub(super) preserved_columns: Vec<usize>,
}

/// A column of the log and its counterpart on the target.
#[derive(Clone, Debug)]
pub(super) struct ColumnMapping {
    /// Index in the log.
    pub(super) log: usize,
    /// Index on the target.
    pub(super) target: usize,
    /// SQL expression for the column's value, or condition that the column has the value.
    pub(super) sql: String,
}

impl StatementPlan {
    /// Creates the plan for these rows.
    pub(super) fn new(
        rows: &EventRows<'_>,
        table: Arc<TargetTable>,
        ways: ReplayFlavours,
        row_match: RowMatch,
    ) -> Result<Self, TargetFailure> {
        let matched = match_columns(rows, &table)?;
        let column = |log: usize| (&rows.table.columns[log], matched[log], &table.columns[matched[log]]);
        for log in rows.columns_before().chain(rows.columns_after()) {
            let (logged, _, target) = column(log);
            check_type(logged, target, ways.source).map_err(|reason| {
                TargetFailure::refused(format!("column {} of {} {reason}", target.name, table.name))
            })?;
        }
        let mut written = Vec::new();
        for log in rows.columns_after() {
            let (logged, at, target) = column(log);
            if !target.is_generated {
                written.push(ColumnMapping { log, target: at, sql: stored_sql(logged, target, ways) });
            }
        }
        let LookupColumns { key, image } = LookupColumns::new(rows, &keys(&table, &matched), row_match);
        let mapping = |log: usize, sql: fn(&Column, &TargetColumn, ReplayFlavours) -> String| {
            let (logged, at, target) = column(log);
            (!target.is_generated).then(|| ColumnMapping { log, target: at, sql: sql(logged, target, ways) })
        };
        let mut found: Vec<ColumnMapping> =
            key.into_iter().filter_map(|log| mapping(log, equality_sql)).collect();
        let key_size = found.len();
        found.extend(image.into_iter().filter_map(|log| mapping(log, identity_sql)));
        let is_written = |target: &usize| written.iter().any(|mapping| mapping.target == *target);
        let others: Vec<usize> = (0..table.columns.len()).filter(|target| !is_written(target)).collect();
        let is_short = others.iter().any(|target| !table.columns[*target].is_generated);
        let kept = others.into_iter().filter(|target| table.columns[*target].has_on_update).collect();
        let log = rows.table.columns.clone();
        Ok(Self {
            table,
            log,
            written_columns: written,
            condition_columns: found,
            key_size,
            may_match_many: key_size == 0,
            omits_columns: is_short,
            preserved_columns: kept,
        })
    }

    /// Returns the target's column.
    pub(super) fn target(&self, mapping: &ColumnMapping) -> &TargetColumn {
        &self.table.columns[mapping.target]
    }
}

/// Columns of the log that find a row.
struct LookupColumns {
    /// Columns of a unique key.
    key: Vec<usize>,
    /// Columns whose values must be identical.
    image: Vec<usize>,
}

impl LookupColumns {
    fn new(rows: &EventRows<'_>, keys: &[Vec<usize>], row_match: RowMatch) -> Self {
        match row_match {
            RowMatch::Key => match rows.lookup_columns(keys.iter().map(Vec::as_slice)) {
                RowLookup::Key(key) => Self { key, image: Vec::new() },
                RowLookup::All(image) => Self { key: Vec::new(), image },
            },
            RowMatch::WholeImage => {
                let image: Vec<usize> = match rows.kind {
                    RowsKind::Write => rows.columns_after().collect(),
                    _ => rows.columns_before().collect(),
                };
                let is_known = |key: &&Vec<usize>| key.iter().all(|column| image.contains(column));
                let key = keys.iter().filter(|key| !key.is_empty()).find(is_known);
                Self { key: key.cloned().unwrap_or_default(), image }
            }
        }
    }
}

/// Matches each column of the log with a column of the target: by name, otherwise by order.
fn match_columns(rows: &EventRows<'_>, table: &TargetTable) -> Result<Vec<usize>, TargetFailure> {
    let visible = rows.columns_of(table.columns.len());
    let columns = visible.unwrap_or(&rows.table.columns);
    let named = columns.iter().map(|column| {
        let name = column.name.as_deref()?;
        table.columns.iter().position(|target| target.raw_name.as_bytes().eq_ignore_ascii_case(name))
    });
    if let Some(matched) = named.collect::<Option<Vec<_>>>() {
        return Ok(matched);
    }
    match visible {
        Some(visible) => Ok((0..visible.len()).collect()),
        None => Err(TargetFailure::refused(format!(
            "{} has {} columns in the log, but {} on the target",
            table.name,
            columns.len(),
            table.columns.len()
        ))),
    }
}

/// Returns the target's keys as indexes of the log's columns.
fn keys(table: &TargetTable, matched: &[usize]) -> Vec<Vec<usize>> {
    let log = |target: &usize| matched.iter().position(|at| at == target);
    table.keys.iter().filter_map(|key| key.iter().map(log).collect()).collect()
}

/// Text and byte types besides TEXT and BLOB, and types that logs of MariaDB show as text or bytes.
const OTHER_STRING_TYPES: [&str; 6] = ["char", "varchar", "binary", "varbinary", "json", "vector"];

/// Returns whether the log's column has texts or bytes.
const fn is_string(column_type: ColumnType) -> bool {
    matches!(
        column_type,
        ColumnType::Varchar { .. }
            | ColumnType::Char { .. }
            | ColumnType::Blob { .. }
            | ColumnType::CompressedVarchar { .. }
            | ColumnType::CompressedBlob { .. }
    )
}

/// Returns whether the target's type accepts the values of the log's column.
fn is_compatible(column_type: ColumnType, data_type: &str) -> bool {
    match column_type {
        ColumnType::TinyInt
        | ColumnType::SmallInt
        | ColumnType::MediumInt
        | ColumnType::Int
        | ColumnType::BigInt => INTEGER_TYPES.contains(&data_type),
        ColumnType::Float => ["float", "double"].contains(&data_type),
        ColumnType::Json { .. } => ["json", "longtext"].contains(&data_type),
        ColumnType::Geometry { .. } => GEOMETRY_TYPES.contains(&data_type),
        string if is_string(string) => {
            BLOB_TYPES.contains(&data_type)
                || OTHER_STRING_TYPES.contains(&data_type)
                || fixed_byte_size(data_type).is_some()
        }
        same => same.data_types().contains(&data_type),
    }
}

/// Checks that the target's column can hold the values of the log's column.
fn check_type(log: &Column, target: &TargetColumn, source: Flavour) -> Result<(), String> {
    if !is_compatible(log.column_type, &target.data_type) {
        let logged = logged_type(log.column_type, log.collation);
        return Err(format!("is {logged} in the log, but {} on the target", target.data_type));
    }
    if !is_string(log.column_type) || target.data_type == "json" {
        return Ok(());
    }
    match (log.collation, &target.charset) {
        (Some(BINARY), Some(charset)) => Err(format!("holds bytes in the log, but {charset} on the target")),
        (Some(collation), None) if collation != BINARY => {
            let name = charset(collation, source).unwrap_or("text");
            Err(format!("holds {name} in the log, but bytes on the target"))
        }
        _ => Ok(()),
    }
}

/// Returns the type of a column of the log in words.
fn logged_type(column_type: ColumnType, collation: Option<u16>) -> String {
    match (column_type, column_type.data_types(), collation) {
        (_, [text, bytes], None) => format!("{text} or {bytes}"),
        (_, [.., bytes], Some(BINARY)) => (*bytes).to_owned(),
        (_, [name, ..], _) => (*name).to_owned(),
        (ColumnType::Geometry { .. }, ..) => "geometry".to_owned(),
        (ColumnType::CompressedVarchar { .. } | ColumnType::CompressedBlob { .. }, ..) => {
            "compressed text or bytes".to_owned()
        }
        _ => "of an unknown type".to_owned(),
    }
}

/// The collation `binary` of columns without text.
const BINARY: u16 = 63;

/// Returns the character set of the column's values in the log, if it is known and differs from the target's.
fn other_charset(log: &Column, target: &TargetColumn, ways: ReplayFlavours) -> Option<&'static str> {
    let own = target.charset.as_deref()?;
    let name = charset(log.collation?, ways.source)?;
    let same = |name: &str| if name == "utf8" { "utf8mb3".to_owned() } else { name.to_owned() };
    (same(name) != same(own)).then_some(name)
}

fn charset(collation: u16, source: Flavour) -> Option<&'static str> {
    Collation::new(collation, source).map(|collation| collation.charset().name())
}

/// Returns the expression for a stored value. Parameters are bytes; text columns store them unchanged.
fn stored_sql(log: &Column, target: &TargetColumn, ways: ReplayFlavours) -> String {
    if target.data_type == "json" && ways.target == Flavour::MySql {
        return "CONVERT(? USING utf8mb4)".to_owned();
    }
    match other_charset(log, target, ways) {
        Some(charset) => format!("CONVERT({} USING {charset})", placeholder(Some(charset))),
        None => placeholder(target.charset.as_deref()).to_owned(),
    }
}

/// Returns the placeholder of a value in this character set. A literal of ASCII bytes has the session's character set,
/// which is wrong for character sets with at least two bytes per character.
fn placeholder(charset: Option<&str>) -> &'static str {
    match charset {
        Some("ucs2" | "utf16" | "utf16le" | "utf32") => "CAST(? AS BINARY)",
        _ => "?",
    }
}

/// Returns the condition that a key column equals a value by the column's collation.
fn equality_sql(log: &Column, target: &TargetColumn, ways: ReplayFlavours) -> String {
    let name = &target.name;
    if let (Some(charset), Some(collation)) = (&target.charset, &target.collation) {
        let value = match other_charset(log, target, ways) {
            Some(other) => format!("CONVERT({} USING {other})", placeholder(Some(other))),
            None => placeholder(Some(charset)).to_owned(),
        };
        if !matches!(target.data_type.as_str(), "enum" | "set") {
            return format!("{name} = CONVERT({value} USING {charset}) COLLATE {collation}");
        }
    }
    match target.data_type.as_str() {
        "decimal" => format!("{name} = {}", decimal(target)),
        _ => format!("{name} = ?"),
    }
}

/// Returns the condition that a column is identical to this value, or both are NULL.
fn identity_sql(log: &Column, target: &TargetColumn, ways: ReplayFlavours) -> String {
    let name = &target.name;
    match target.data_type.as_str() {
        "decimal" => format!("{name} <=> {}", decimal(target)),
        "json" if ways.target == Flavour::MySql => {
            format!("{name} <=> CAST(CONVERT(? USING utf8mb4) AS JSON)")
        }
        "vector" => format!("CAST({name} AS BINARY) <=> ?"),
        "enum" | "set" => format!("{name} <=> ?"),
        // Compares bytes: the collation may treat different texts as equal.
        _ => match (other_charset(log, target, ways), &target.charset) {
            (Some(other), Some(own)) => {
                let value = placeholder(Some(other));
                format!("{name} <=> CAST(CONVERT(CONVERT({value} USING {other}) USING {own}) AS BINARY)")
            }
            (None, Some(_)) => format!("{name} <=> CAST(? AS BINARY)"),
            _ => format!("{name} <=> ?"),
        },
    }
}

fn decimal(target: &TargetColumn) -> String {
    let (precision, scale) = target.digits;
    format!("CAST(? AS DECIMAL({precision},{scale}))")
}

#[cfg(test)]
mod tests {
    use binlog::ColumnType;

    use super::{is_compatible, logged_type};

    #[test]
    fn logged_types_are_in_words() {
        let check = |column_type, collation, expected: &str| {
            assert_eq!(logged_type(column_type, collation), expected);
        };
        check(ColumnType::Int, None, "int");
        check(ColumnType::Varchar { size_max: 8 }, None, "varchar or varbinary");
        check(ColumnType::Varchar { size_max: 8 }, Some(63), "varbinary");
        check(ColumnType::Varchar { size_max: 8 }, Some(45), "varchar");
        check(ColumnType::Geometry { prefix: 4 }, None, "geometry");
        check(ColumnType::CompressedBlob { prefix: 4 }, None, "compressed text or bytes");
    }

    #[test]
    fn own_types_of_mariadb_accept_bytes() {
        let check = |column_type, data_type: &str, expected: bool| {
            assert_eq!(is_compatible(column_type, data_type), expected, "{data_type}");
        };
        check(ColumnType::Varchar { size_max: 8 }, "vector", true);
        check(ColumnType::Vector { prefix: 4 }, "vector", true);
        check(ColumnType::Int, "vector", false);
        for data_type in ["uuid", "inet6", "inet4"] {
            check(ColumnType::Char { size_max: 16 }, data_type, true);
        }
        check(ColumnType::Varchar { size_max: 8 }, "int", false);
    }
}
