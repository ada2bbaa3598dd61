//! Parsing and writing of column definitions.

use std::fmt::Write as _;

use binlog::{Collation, Flavour};
use sql::quote::{quote_name, quote_text};
use sql::{SqlWord, SqlWords};

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

/// Synonyms of type names.
const TYPE_ALIASES: [(&str, &str); 27] = [
    ("bool", "tinyint"),
    ("boolean", "tinyint"),
    ("int1", "tinyint"),
    ("int2", "smallint"),
    ("int3", "mediumint"),
    ("middleint", "mediumint"),
    ("int4", "int"),
    ("integer", "int"),
    ("int8", "bigint"),
    ("dec", "decimal"),
    ("numeric", "decimal"),
    ("fixed", "decimal"),
    ("float4", "float"),
    ("float8", "double"),
    ("real", "double"),
    ("character", "char"),
    ("nchar", "char"),
    ("varcharacter", "varchar"),
    ("nvarchar", "varchar"),
    ("varchar2", "varchar"),
    ("char varying", "varchar"),
    ("character varying", "varchar"),
    ("long", "mediumtext"),
    ("long varchar", "mediumtext"),
    ("long varbinary", "mediumblob"),
    ("clob", "longtext"),
    ("geomcollection", "geometrycollection"),
];

/// Text types, and the types that they become in the character set `binary`.
const BINARY_TYPES: [(&str, &str); 6] = [
    ("char", "binary"),
    ("varchar", "varbinary"),
    ("tinytext", "tinyblob"),
    ("text", "blob"),
    ("mediumtext", "mediumblob"),
    ("longtext", "longblob"),
];

/// Keywords that precede the name of a character set.
pub(super) const CHARSET_KEYWORDS: [&str; 3] = ["CHARACTER SET", "CHAR SET", "CHARSET"];

/// Position clause of a column definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NewColumnPosition {
    /// No clause: an existing column stays where it is, a new one goes to the end.
    Same,
    First,
    After(String),
}

impl NewColumnPosition {
    pub(super) fn parse(words: &mut SqlWords) -> Option<Self> {
        if words.take("FIRST") {
            return Some(Self::First);
        }
        match words.take("AFTER") {
            true => words.take_name().map(Self::After),
            false => Some(Self::Same),
        }
    }

    /// Returns the index of the column: `Some(None)` without a clause; `None` if the AFTER column does not exist.
    pub(super) fn index(&self, facts: &TableSchema) -> Option<Option<usize>> {
        match self {
            Self::Same => Some(None),
            Self::First => Some(Some(0)),
            Self::After(name) => {
                let at = facts.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))?;
                Some(Some(at + 1))
            }
        }
    }
}

/// Parses a column definition; also returns whether it declares the column the primary key. Leaves the position
/// clause to the caller.
pub(super) fn parse_column(
    words: &mut SqlWords,
    table_charset: Option<&str>,
) -> Option<(ColumnSchema, bool)> {
    let name = words.take_name()?;
    let ParsedType { data_type, column_type, mut nullable, mut written } = parse_type(words)?;
    let (mut charset, mut is_key) = (table_charset.map(str::to_owned), false);
    while !words.is_at_end() && !words.is_next("FIRST") && !words.is_next("AFTER") {
        if words.take("NOT NULL") {
            nullable = false;
        } else if words.take("SERIAL DEFAULT VALUE") {
            (nullable, written.is_auto_increment) = (false, true);
        } else if words.take("AUTO_INCREMENT") {
            written.is_auto_increment = true;
        } else if words.take("COMMENT") {
            words.skip();
        } else if words.take("DEFAULT") {
            written.default = parse_default(words);
        } else if words.take_any(&CHARSET_KEYWORDS) {
            charset = parse_charset_name(words);
        } else if words.take("COLLATE") {
            charset = parse_charset_name(words).map(|name| collation_charset(&name));
        } else if words.take("ASCII") {
            charset = Some("latin1".to_owned());
        } else if words.take("UNICODE") {
            charset = Some("ucs2".to_owned());
        } else if words.take("UNIQUE") {
            words.take("KEY");
        } else if words.take_any(&["PRIMARY KEY", "PRIMARY", "KEY"]) {
            (nullable, is_key) = (false, true);
        } else {
            words.skip();
        }
    }
    let charset = charset.map(|name| name.to_ascii_lowercase());
    let mut column = ColumnSchema { name, data_type, column_type, collation: None, nullable, ddl: written };
    set_charset(&mut column, charset.as_deref());
    Some((column, is_key))
}

/// Sets the column's character set; `None` if unknown. `binary` turns text types into binary types.
fn set_charset(column: &mut ColumnSchema, charset: Option<&str>) {
    if charset == Some("binary")
        && let Some((text, bytes)) = BINARY_TYPES.iter().find(|(text, _)| *text == column.data_type)
    {
        column.column_type = column.column_type.replacen(text, bytes, 1);
        column.data_type = (*bytes).to_owned();
        column.ddl.type_name = bytes.to_ascii_uppercase();
    }
    column.collation = charset.filter(|_| has_charset(&column.data_type)).and_then(default_collation);
}

/// Returns whether values of the type have a character set.
pub(super) fn has_charset(data_type: &str) -> bool {
    ["enum", "set"].contains(&data_type) || BINARY_TYPES.iter().any(|(text, _)| *text == data_type)
}

/// Parses a type as a server writes it.
pub(super) fn parse_column_ddl(column_type: &str) -> Option<ColumnDdl> {
    Some(parse_type(&mut SqlWords::parse(column_type, 0)?)?.written)
}

/// Converts all text columns of the table to the character set; `None` if unknown.
pub(super) fn convert_charset(facts: &mut TableSchema, charset: Option<&str>) {
    for column in facts.columns.iter_mut().filter(|column| has_charset(&column.data_type)) {
        set_charset(column, charset);
    }
    facts.charset = charset.map(str::to_owned);
}

/// Applies `a SET DEFAULT 7` or `a DROP DEFAULT`; ignores ALTER on anything but a column.
pub(super) fn alter_default(words: &mut SqlWords, facts: &mut TableSchema) -> Option<()> {
    let name = words.take_name()?;
    let value = if words.take("SET DEFAULT") {
        parse_default(words)
    } else if words.take("DROP DEFAULT") {
        None
    } else {
        return Some(());
    };
    let column = facts.columns.iter_mut().find(|column| column.name.eq_ignore_ascii_case(&name))?;
    column.ddl.default = value;
    Some(())
}

/// Parses the name of a character set or collation, which may be a string literal.
pub(super) fn parse_charset_name(words: &mut SqlWords) -> Option<String> {
    match words.peek()? {
        SqlWord::Text(_) => match words.take_next()? {
            SqlWord::Text(name) => Some(name),
            _ => None,
        },
        _ => words.take_name(),
    }
}

/// Returns the character set of a collation, whose name starts with it.
pub(super) fn collation_charset(collation: &str) -> String {
    collation.split('_').next().unwrap_or_default().to_ascii_lowercase()
}

/// Parses a default value; `None` if it is NULL or an expression.
fn parse_default(words: &mut SqlWords) -> Option<String> {
    let is_negative = words.take_sign("-");
    words.take_sign("+");
    if words.take_any(&["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"]) {
        words.take_group();
        return Some("1970-01-01 00:00:00".to_owned());
    }
    if words.take_group().is_some() {
        return None;
    }
    match words.take_next()? {
        SqlWord::Text(text) => Some(text),
        SqlWord::Number(number) if is_negative => Some(format!("-{number}")),
        SqlWord::Number(number) => Some(number),
        SqlWord::Plain(word) if ["TRUE", "FALSE"].contains(&&*word.to_ascii_uppercase()) => {
            Some(word.to_ascii_uppercase())
        }
        _ => None,
    }
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

/// A parsed column type.
struct ParsedType {
    /// As `information_schema.columns.data_type`.
    data_type: String,
    /// As `information_schema.columns.column_type`.
    column_type: String,
    /// True if the column is nullable unless declared otherwise.
    nullable: bool,
    written: ColumnDdl,
}

fn parse_type(words: &mut SqlWords) -> Option<ParsedType> {
    let name = parse_type_name(words)?;
    if name == "serial" {
        let type_name = "BIGINT UNSIGNED".to_owned();
        let written = ColumnDdl { type_name, is_auto_increment: true, ..ColumnDdl::default() };
        let [data_type, column_type] = ["bigint", "bigint unsigned"].map(str::to_owned);
        return Some(ParsedType { data_type, column_type, nullable: false, written });
    }
    let mut type_name = name.to_ascii_uppercase();
    let name = name.trim_end_matches(" precision");
    let alias = TYPE_ALIASES.iter().find(|(alias, _)| *alias == name);
    let mut data_type = alias.map_or(name, |(_, name)| *name).to_owned();
    let mut arguments = parse_arguments(words)?;
    let written_arguments = arguments.clone();
    if let ("float", [digits]) = (&*data_type, &*arguments)
        && digits.parse::<u8>().is_ok_and(|digits| digits > 24)
    {
        data_type = "double".to_owned();
        arguments.clear();
    }
    let (mut is_unsigned, mut is_filled) = (false, false);
    loop {
        if words.take("UNSIGNED") {
            is_unsigned = true;
        } else if words.take("ZEROFILL") {
            (is_unsigned, is_filled) = (true, true);
        } else if words.take("BYTE") {
            let bytes = BINARY_TYPES.iter().find(|(text, _)| *text == data_type);
            data_type = bytes.map_or(data_type, |(_, bytes)| (*bytes).to_owned());
            type_name = data_type.to_ascii_uppercase();
        } else if !words.take("SIGNED") {
            break;
        }
    }
    let mut column_type = data_type.clone();
    if !arguments.is_empty() {
        column_type = format!("{column_type}({})", arguments.join(","));
    }
    for (is_so, word) in [(is_unsigned, " UNSIGNED"), (is_filled, " ZEROFILL")] {
        type_name.push_str(if is_so { word } else { "" });
    }
    column_type.push_str(if is_unsigned { " unsigned" } else { "" });
    let written = ColumnDdl { type_name, arguments: written_arguments, ..ColumnDdl::default() };
    Some(ParsedType { data_type, column_type, nullable: true, written })
}

/// Parses the name of a type, in lower case.
fn parse_type_name(words: &mut SqlWords) -> Option<String> {
    words.take("NATIONAL");
    let SqlWord::Plain(name) = words.take_next()? else { return None };
    let mut name = name.to_ascii_lowercase();
    for more in ["VARYING", "VARBINARY", "PRECISION"] {
        if (more != "VARBINARY" || name == "long") && words.take(more) {
            name = format!("{name} {}", more.to_ascii_lowercase());
        }
    }
    words.take_any(&["VARCHAR", "VARCHARACTER"]);
    Some(name)
}

/// Parses the arguments in parentheses after a type.
fn parse_arguments(words: &mut SqlWords) -> Option<Vec<String>> {
    let parts = words.take_group().into_iter().flat_map(|mut group| group.split_at_commas());
    let argument = |mut part: SqlWords| match part.take_next()? {
        SqlWord::Number(number) => Some(number),
        // The server removes trailing spaces of members.
        SqlWord::Text(text) => Some(quote_text(text.trim_end_matches(' '))),
        _ => None,
    };
    parts.map(argument).collect()
}

/// Parses the columns of a key.
pub(super) fn parse_key(mut group: SqlWords) -> Option<Vec<String>> {
    group.split_at_commas().into_iter().map(|mut part| part.take_name()).collect()
}

/// Renames a column, in the primary key too.
pub(super) fn rename_column(facts: &mut TableSchema, old: &str, new: &str) -> Option<()> {
    let column = facts.columns.iter_mut().find(|column| column.name.eq_ignore_ascii_case(old))?;
    new.clone_into(&mut column.name);
    for part in facts.primary_key.iter_mut().filter(|part| part.eq_ignore_ascii_case(old)) {
        new.clone_into(part);
    }
    Some(())
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
