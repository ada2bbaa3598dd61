//! Columns of definitions, and writing of column definitions.

use std::fmt::Write as _;

use binlog::{Collation, Flavour};
use sql::SqlWords;
use sql::data_type::BINARY_TYPES;
use sql::ddl::{ColumnTypeDefinition, DdlColumn, DefaultClause, TypeArgument};
use sql::quote::{parse_hex, quote_name, quote_text};

use crate::column_catalogue::{ColumnDdl, ColumnSchema, TableSchema};

/// Character sets and the IDs of their default collations.
const CHARSETS: [(&str, u16); 41] = [
    ("big5", 1),
    ("dec8", 3),
    ("cp850", 4),
    ("hp8", 6),
    ("koi8r", 7),
    ("latin1", 8),
    ("latin2", 9),
    ("swe7", 10),
    ("ascii", 11),
    ("ujis", 12),
    ("sjis", 13),
    ("hebrew", 16),
    ("tis620", 18),
    ("euckr", 19),
    ("koi8u", 22),
    ("gb2312", 24),
    ("greek", 25),
    ("cp1250", 26),
    ("gbk", 28),
    ("latin5", 30),
    ("armscii8", 32),
    ("utf8mb3", 33),
    ("ucs2", 35),
    ("cp866", 36),
    ("keybcs2", 37),
    ("macce", 38),
    ("macroman", 39),
    ("cp852", 40),
    ("latin7", 41),
    ("utf8mb4", 45),
    ("cp1251", 51),
    ("utf16", 54),
    ("utf16le", 56),
    ("cp1256", 57),
    ("cp1257", 59),
    ("utf32", 60),
    ("binary", 63),
    ("geostd8", 92),
    ("cp932", 95),
    ("eucjpms", 97),
    ("gb18030", 248),
];

/// Returns the column of a definition. `table_charset` is the default of its table.
pub(super) fn column_of(definition: &DdlColumn, table_charset: Option<&str>) -> ColumnSchema {
    let column_type = &definition.column_type;
    let mut column = ColumnSchema {
        name: definition.name.clone(),
        data_type: column_type.data_type().to_owned(),
        column_type: column_type_text(column_type),
        collation: None,
        nullable: definition.nullable,
        ddl: ColumnDdl { is_auto_increment: definition.is_auto_increment, ..ddl_of_type(column_type) },
    };
    set_charset(&mut column, definition.charset.as_deref().or(table_charset));
    set_default(&mut column, definition.default.as_ref());
    column
}

/// Returns a type as `information_schema.columns.column_type` has it.
fn column_type_text(column_type: &ColumnTypeDefinition) -> String {
    let mut text = column_type.data_type().to_owned();
    if !column_type.arguments.is_empty() && !column_type.is_double() {
        let _ = write!(text, "({})", arguments_of(column_type).join(","));
    }
    text.push_str(if column_type.is_unsigned { " unsigned" } else { "" });
    text
}

fn ddl_of_type(column_type: &ColumnTypeDefinition) -> ColumnDdl {
    let mut type_name = match column_type.name.as_str() {
        "serial" => "bigint",
        _ if column_type.is_byte => column_type.data_type(),
        name => name,
    }
    .to_ascii_uppercase();
    type_name.push_str(if column_type.is_unsigned { " UNSIGNED" } else { "" });
    type_name.push_str(if column_type.is_zerofill { " ZEROFILL" } else { "" });
    let is_auto_increment = column_type.name == "serial";
    ColumnDdl { type_name, arguments: arguments_of(column_type), is_auto_increment, ..ColumnDdl::default() }
}

fn arguments_of(column_type: &ColumnTypeDefinition) -> Vec<String> {
    let text = |argument: &TypeArgument| match argument {
        TypeArgument::Number(number) => number.clone(),
        TypeArgument::Text(text) => quote_text(text),
    };
    column_type.arguments.iter().map(text).collect()
}

/// Sets the column's default value.
pub(super) fn set_default(column: &mut ColumnSchema, default: Option<&DefaultClause>) {
    column.ddl.default = match default {
        Some(DefaultClause::Hex(digits)) if is_binary(column) => {
            parse_hex(digits).and_then(|bytes| String::from_utf8(bytes).ok())
        }
        default => default.and_then(default_text),
    };
}

/// Returns whether values are bytes without a character set.
pub(super) fn is_binary(column: &ColumnSchema) -> bool {
    BINARY_TYPES.contains(&&*column.data_type)
}

/// Returns a default value as text; `None` if it is NULL, an expression, or not text.
fn default_text(default: &DefaultClause) -> Option<String> {
    match default {
        DefaultClause::Text(text) | DefaultClause::Number(text) => Some(text.clone()),
        DefaultClause::CurrentTimestamp => Some("1970-01-01 00:00:00".to_owned()),
        DefaultClause::Boolean(true) => Some("TRUE".to_owned()),
        DefaultClause::Boolean(false) => Some("FALSE".to_owned()),
        DefaultClause::Null | DefaultClause::Hex(_) | DefaultClause::Bits(_) | DefaultClause::Expression => {
            None
        }
    }
}

/// Sets the column's character set; `None` if unknown. `binary` turns text types into binary types.
fn set_charset(column: &mut ColumnSchema, charset: Option<&str>) {
    if charset == Some("binary")
        && let Some(bytes) = ColumnTypeDefinition::binary_type(&column.data_type)
    {
        column.column_type = column.column_type.replacen(&column.data_type, bytes, 1);
        column.data_type = bytes.to_owned();
        column.ddl.type_name = bytes.to_ascii_uppercase();
    }
    column.collation = charset.filter(|_| has_charset(&column.data_type)).and_then(default_collation);
}

/// Returns whether values of the type have a character set.
pub(crate) fn has_charset(data_type: &str) -> bool {
    ["enum", "set"].contains(&data_type) || ColumnTypeDefinition::binary_type(data_type).is_some()
}

/// Parses a type as a server writes it.
pub(crate) fn parse_column_ddl(column_type: &str) -> Option<ColumnDdl> {
    ColumnTypeDefinition::parse(&mut SqlWords::parse(column_type, 0)?).map(|parsed| ddl_of_type(&parsed))
}

/// Converts all text columns of the table to the character set; `None` if unknown.
pub(super) fn convert_charset(facts: &mut TableSchema, charset: Option<&str>) {
    for column in facts.columns.iter_mut().filter(|column| has_charset(&column.data_type)) {
        set_charset(column, charset);
    }
    facts.charset = charset.map(str::to_owned);
}

/// Returns the ID of the default collation in the character set of `collation`, a server's collation ID.
pub(super) fn default_collation_of(collation: u16) -> u16 {
    // The table of MariaDB's collations includes MySQL's.
    let found = Collation::new(collation, Flavour::MariaDb);
    found.and_then(|found| default_collation(found.charset().name())).unwrap_or(collation)
}

fn default_collation(charset: &str) -> Option<u16> {
    let charset = if charset == "utf8" { "utf8mb3" } else { charset };
    CHARSETS.iter().find(|(name, _)| *name == charset).map(|(_, number)| *number)
}

/// Appends a column definition.
pub(super) fn put_column(out: &mut String, column: &ColumnSchema) {
    out.push_str(&quote_name(&column.name));
    out.push(' ');
    let ColumnDdl { type_name, arguments, default, is_auto_increment } = &column.ddl;
    let type_name = type_name.to_ascii_lowercase();
    let name = type_name.trim_end_matches(" zerofill").trim_end_matches(" unsigned");
    out.push_str(if name.is_empty() { &column.column_type } else { name });
    if !arguments.is_empty() {
        let _ = write!(out, "({})", arguments.join(","));
    }
    out.push_str(&type_name[name.len()..]);
    if let Some(charset) = column_charset(column) {
        out.push_str(" CHARACTER SET ");
        out.push_str(charset);
    }
    if !column.nullable {
        out.push_str(" NOT NULL");
    }
    if *is_auto_increment {
        out.push_str(" AUTO_INCREMENT");
    }
    if let Some(default) = default {
        out.push_str(" DEFAULT ");
        out.push_str(&quote_text(default));
    }
}

/// Returns the character set of a column.
pub(crate) fn column_charset(column: &ColumnSchema) -> Option<&'static str> {
    let charset = CHARSETS.iter().find(|(_, number)| Some(*number) == column.collation);
    charset.map(|(charset, _)| *charset)
}
