//! A column's definition, and where it stands.

use filter::{Word, Words};

use crate::catalogue::{ColumnFacts, TableFacts};
use crate::defined::quoted;

/// Character sets and the numbers of their default collations, which say in what texts are stored.
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

/// Names of types that stand for others.
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

/// What types of text are in the character set `binary`.
const BYTES: [(&str, &str); 6] = [
    ("char", "binary"),
    ("varchar", "varbinary"),
    ("tinytext", "tinyblob"),
    ("text", "blob"),
    ("mediumtext", "mediumblob"),
    ("longtext", "longblob"),
];

/// Where a column is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Where it is, or at the end.
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

    /// Its number; none to leave it where it is; `None` if the column in front of it is not there.
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

/// A column's definition, and whether it is the primary key by itself. What says where it is to be is left.
pub(super) fn column(words: &mut Words, table_charset: Option<&str>) -> Option<(ColumnFacts, bool)> {
    let name = words.name()?;
    let (mut data_type, mut column_type, mut nullable) = kind(words)?;
    let (mut charset, mut is_key) = (table_charset.map(str::to_owned), false);
    while !words.is_over() && !words.is("FIRST") && !words.is("AFTER") {
        if words.take_any(&["NOT NULL", "SERIAL DEFAULT VALUE"]) {
            nullable = false;
        } else if words.take_any(&["COMMENT", "DEFAULT"]) {
            words.skip();
        } else if words.take_any(&["CHARACTER SET", "CHARSET"]) {
            charset = words.name();
        } else if words.take("COLLATE") {
            charset = words.name().map(|name| name.split('_').next().unwrap_or_default().to_owned());
        } else if words.take("UNIQUE") {
            words.take("KEY");
        } else if words.take_any(&["PRIMARY KEY", "PRIMARY", "KEY"]) {
            (nullable, is_key) = (false, true);
        } else {
            words.skip();
        }
    }
    let charset = charset.map(|name| name.to_ascii_lowercase());
    if charset.as_deref() == Some("binary")
        && let Some((text, bytes)) = BYTES.iter().find(|(text, _)| *text == data_type)
    {
        column_type = column_type.replacen(text, bytes, 1);
        data_type = (*bytes).to_owned();
    }
    let is_text = ["enum", "set"].contains(&&*data_type) || BYTES.iter().any(|(text, _)| *text == data_type);
    let collation = charset.filter(|_| is_text).and_then(|name| number(&name));
    Some((ColumnFacts { name, data_type, column_type, collation, nullable }, is_key))
}

fn number(charset: &str) -> Option<u16> {
    let charset = if charset == "utf8" { "utf8mb3" } else { charset };
    CHARSETS.iter().find(|(name, _)| *name == charset).map(|(_, number)| *number)
}

/// A type: its name, all of it, and whether it can be NULL if nothing is said.
fn kind(words: &mut Words) -> Option<(String, String, bool)> {
    words.take("NATIONAL");
    let Word::Plain(name) = words.take_next()? else { return None };
    let mut name = name.to_ascii_lowercase();
    if words.take("VARYING") {
        name.push_str(" varying");
    } else if name == "long" && words.take("VARBINARY") {
        name.push_str(" varbinary");
    } else {
        words.take_any(&["PRECISION", "VARCHAR", "VARCHARACTER"]);
    }
    if name == "serial" {
        return Some(("bigint".to_owned(), "bigint unsigned".to_owned(), false));
    }
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let mut data_type = alias.map_or(name, |(_, name)| (*name).to_owned());
    let mut arguments = Vec::new();
    for mut part in words.group().into_iter().flat_map(|mut group| group.parts()) {
        match part.take_next()? {
            Word::Number(number) => arguments.push(number),
            // Spaces at the end of a text are cut.
            Word::Text(text) => arguments.push(literal(text.trim_end_matches(' '))),
            _ => return None,
        }
    }
    if let ("float", [digits]) = (&*data_type, &*arguments)
        && digits.parse::<u8>().is_ok_and(|digits| digits > 24)
    {
        data_type = "double".to_owned();
        arguments.clear();
    }
    let mut is_unsigned = false;
    loop {
        if words.take_any(&["UNSIGNED", "ZEROFILL"]) {
            is_unsigned = true;
        } else if words.take("BYTE") {
            let bytes = BYTES.iter().find(|(text, _)| *text == data_type);
            data_type = bytes.map_or(data_type, |(_, bytes)| (*bytes).to_owned());
        } else if !words.take("SIGNED") {
            break;
        }
    }
    let mut column_type = data_type.clone();
    if !arguments.is_empty() {
        column_type = format!("{column_type}({})", arguments.join(","));
    }
    if is_unsigned {
        column_type.push_str(" unsigned");
    }
    Some((data_type, column_type, true))
}

/// A text as SQL has it.
fn literal(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n").replace('\r', "\\r");
    format!("'{}'", text.replace('\0', "\\0"))
}

/// The columns of a key.
pub(super) fn key(mut group: Words) -> Option<Vec<String>> {
    group.parts().into_iter().map(|mut part| part.name()).collect()
}

/// A column gets another name, in the key too.
pub(super) fn rename(facts: &mut TableFacts, old: &str, new: &str) -> Option<()> {
    let column = facts.columns.iter_mut().find(|column| column.name.eq_ignore_ascii_case(old))?;
    new.clone_into(&mut column.name);
    for part in facts.primary_key.iter_mut().filter(|part| part.eq_ignore_ascii_case(old)) {
        new.clone_into(part);
    }
    Some(())
}

/// Appends a column as a definition has it.
pub(super) fn put_column(out: &mut String, column: &ColumnFacts) {
    out.push_str(&quoted(&column.name));
    out.push(' ');
    out.push_str(&column.column_type);
    let charset = CHARSETS.iter().find(|(_, number)| Some(*number) == column.collation);
    if let Some((charset, _)) = charset {
        out.push_str(" CHARACTER SET ");
        out.push_str(charset);
    }
    if !column.nullable {
        out.push_str(" NOT NULL");
    }
}
