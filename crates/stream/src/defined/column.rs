//! Parsing and writing of column definitions.

use std::fmt::Write as _;

use binlog::{Collation, Flavour};
use filter::{Word, Words};

use crate::catalogue::{ColumnFacts, TableFacts, Written};
use crate::defined::quoted;

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
const ALIASES: [(&str, &str); 27] = [
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
const BYTES: [(&str, &str); 6] = [
    ("char", "binary"),
    ("varchar", "varbinary"),
    ("tinytext", "tinyblob"),
    ("text", "blob"),
    ("mediumtext", "mediumblob"),
    ("longtext", "longblob"),
];

/// Keywords that precede the name of a character set.
pub(super) const CHARACTER_SET: [&str; 3] = ["CHARACTER SET", "CHAR SET", "CHARSET"];

/// Position clause of a column definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No clause: an existing column stays where it is, a new one goes to the end.
    Same,
    First,
    After(String),
}

impl Place {
    pub(super) fn of(words: &mut Words) -> Option<Self> {
        if words.take("FIRST") {
            return Some(Self::First);
        }
        match words.take("AFTER") {
            true => words.name().map(Self::After),
            false => Some(Self::Same),
        }
    }

    /// Returns the index of the column: `Some(None)` without a clause; `None` if the AFTER column does not exist.
    pub(super) fn at(&self, facts: &TableFacts) -> Option<Option<usize>> {
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
pub(super) fn column(words: &mut Words, table_charset: Option<&str>) -> Option<(ColumnFacts, bool)> {
    let name = words.name()?;
    let Type { data_type, column_type, mut nullable, mut written } = kind(words)?;
    let (mut charset, mut is_key) = (table_charset.map(str::to_owned), false);
    while !words.is_over() && !words.is("FIRST") && !words.is("AFTER") {
        if words.take("NOT NULL") {
            nullable = false;
        } else if words.take("SERIAL DEFAULT VALUE") {
            (nullable, written.is_auto_increment) = (false, true);
        } else if words.take("AUTO_INCREMENT") {
            written.is_auto_increment = true;
        } else if words.take("COMMENT") {
            words.skip();
        } else if words.take("DEFAULT") {
            written.default = default(words);
        } else if words.take_any(&CHARACTER_SET) {
            charset = charset_name(words);
        } else if words.take("COLLATE") {
            charset = charset_name(words).map(|name| charset_of(&name));
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
    let mut column = ColumnFacts { name, data_type, column_type, collation: None, nullable, written };
    encode(&mut column, charset.as_deref());
    Some((column, is_key))
}

/// Sets the column's character set; `None` if unknown. `binary` turns text types into binary types.
fn encode(column: &mut ColumnFacts, charset: Option<&str>) {
    if charset == Some("binary")
        && let Some((text, bytes)) = BYTES.iter().find(|(text, _)| *text == column.data_type)
    {
        column.column_type = column.column_type.replacen(text, bytes, 1);
        column.data_type = (*bytes).to_owned();
        column.written.type_name = bytes.to_ascii_uppercase();
    }
    column.collation = charset.filter(|_| has_charset(&column.data_type)).and_then(number);
}

/// Returns whether values of the type have a character set.
pub(super) fn has_charset(data_type: &str) -> bool {
    ["enum", "set"].contains(&data_type) || BYTES.iter().any(|(text, _)| *text == data_type)
}

/// Parses a type as a server writes it.
pub(super) fn written(column_type: &str) -> Option<Written> {
    Some(kind(&mut Words::of(column_type, 0)?)?.written)
}

/// Converts all text columns of the table to the character set; `None` if unknown.
pub(super) fn recode(facts: &mut TableFacts, charset: Option<&str>) {
    for column in facts.columns.iter_mut().filter(|column| has_charset(&column.data_type)) {
        encode(column, charset);
    }
    facts.charset = charset.map(str::to_owned);
}

/// Applies `a SET DEFAULT 7` or `a DROP DEFAULT`; ignores ALTER on anything but a column.
pub(super) fn set_default(words: &mut Words, facts: &mut TableFacts) -> Option<()> {
    let name = words.name()?;
    let value = if words.take("SET DEFAULT") {
        default(words)
    } else if words.take("DROP DEFAULT") {
        None
    } else {
        return Some(());
    };
    let column = facts.columns.iter_mut().find(|column| column.name.eq_ignore_ascii_case(&name))?;
    column.written.default = value;
    Some(())
}

/// Parses the name of a character set or collation, which may be a string literal.
pub(super) fn charset_name(words: &mut Words) -> Option<String> {
    match words.peek()? {
        Word::Text(_) => match words.take_next()? {
            Word::Text(name) => Some(name),
            _ => None,
        },
        _ => words.name(),
    }
}

/// Returns the character set of a collation, whose name starts with it.
pub(super) fn charset_of(collation: &str) -> String {
    collation.split('_').next().unwrap_or_default().to_ascii_lowercase()
}

/// Parses a default value; `None` if it is NULL or an expression.
fn default(words: &mut Words) -> Option<String> {
    let is_negative = words.take_sign("-");
    words.take_sign("+");
    if words.take_any(&["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"]) {
        words.group();
        return Some("1970-01-01 00:00:00".to_owned());
    }
    if words.group().is_some() {
        return None;
    }
    match words.take_next()? {
        Word::Text(text) => Some(text),
        Word::Number(number) if is_negative => Some(format!("-{number}")),
        Word::Number(number) => Some(number),
        Word::Plain(word) if ["TRUE", "FALSE"].contains(&&*word.to_ascii_uppercase()) => {
            Some(word.to_ascii_uppercase())
        }
        _ => None,
    }
}

/// Returns the ID of the default collation in the character set of `collation`, a server's collation ID.
pub(super) fn of_charset(collation: u16) -> u16 {
    // The table of MariaDB's collations includes MySQL's.
    let found = Collation::new(collation, Flavour::MariaDb);
    found.and_then(|found| number(found.charset().name())).unwrap_or(collation)
}

fn number(charset: &str) -> Option<u16> {
    let charset = if charset == "utf8" { "utf8mb3" } else { charset };
    CHARSETS.iter().find(|(name, _)| *name == charset).map(|(_, number)| *number)
}

/// A parsed column type.
struct Type {
    /// As `information_schema.columns.data_type`.
    data_type: String,
    /// As `information_schema.columns.column_type`.
    column_type: String,
    /// True if the column is nullable unless declared otherwise.
    nullable: bool,
    written: Written,
}

fn kind(words: &mut Words) -> Option<Type> {
    let name = type_name(words)?;
    if name == "serial" {
        let type_name = "BIGINT UNSIGNED".to_owned();
        let written = Written { type_name, is_auto_increment: true, ..Written::default() };
        let [data_type, column_type] = ["bigint", "bigint unsigned"].map(str::to_owned);
        return Some(Type { data_type, column_type, nullable: false, written });
    }
    let mut type_name = name.to_ascii_uppercase();
    let name = name.trim_end_matches(" precision");
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let mut data_type = alias.map_or(name, |(_, name)| *name).to_owned();
    let mut arguments = arguments(words)?;
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
            let bytes = BYTES.iter().find(|(text, _)| *text == data_type);
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
    let written = Written { type_name, arguments: written_arguments, ..Written::default() };
    Some(Type { data_type, column_type, nullable: true, written })
}

/// Parses the name of a type, in lower case.
fn type_name(words: &mut Words) -> Option<String> {
    words.take("NATIONAL");
    let Word::Plain(name) = words.take_next()? else { return None };
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
fn arguments(words: &mut Words) -> Option<Vec<String>> {
    let parts = words.group().into_iter().flat_map(|mut group| group.parts());
    let argument = |mut part: Words| match part.take_next()? {
        Word::Number(number) => Some(number),
        // The server removes trailing spaces of members.
        Word::Text(text) => Some(literal(text.trim_end_matches(' '))),
        _ => None,
    };
    parts.map(argument).collect()
}

/// Returns the text as a SQL literal.
fn literal(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n").replace('\r', "\\r");
    format!("'{}'", text.replace('\0', "\\0"))
}

/// Parses the columns of a key.
pub(super) fn key(mut group: Words) -> Option<Vec<String>> {
    group.parts().into_iter().map(|mut part| part.name()).collect()
}

/// Renames a column, in the primary key too.
pub(super) fn rename(facts: &mut TableFacts, old: &str, new: &str) -> Option<()> {
    let column = facts.columns.iter_mut().find(|column| column.name.eq_ignore_ascii_case(old))?;
    new.clone_into(&mut column.name);
    for part in facts.primary_key.iter_mut().filter(|part| part.eq_ignore_ascii_case(old)) {
        new.clone_into(part);
    }
    Some(())
}

/// Appends a column definition.
pub(super) fn put_column(out: &mut String, column: &ColumnFacts) {
    out.push_str(&quoted(&column.name));
    out.push(' ');
    let Written { type_name, arguments, default, is_auto_increment } = &column.written;
    let type_name = type_name.to_ascii_lowercase();
    let name = type_name.trim_end_matches(" zerofill").trim_end_matches(" unsigned");
    out.push_str(if name.is_empty() { &column.column_type } else { name });
    if !arguments.is_empty() {
        let _ = write!(out, "({})", arguments.join(","));
    }
    out.push_str(&type_name[name.len()..]);
    if let Some(charset) = charset(column) {
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
        out.push_str(&literal(default));
    }
}

/// Returns the character set of a column.
pub(crate) fn charset(column: &ColumnFacts) -> Option<&'static str> {
    let charset = CHARSETS.iter().find(|(_, number)| Some(*number) == column.collation);
    charset.map(|(charset, _)| *charset)
}
