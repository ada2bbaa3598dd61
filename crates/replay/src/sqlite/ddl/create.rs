//! Parser of columns and keys in a table definition.

use filter::{Word, Words};

use super::Name;
use crate::sqlite::definition::{Action, Column, ForeignKey, Key, Part};
use crate::sqlite::literal::Default;
use crate::sqlite::types::Type;

/// Columns, keys and options of a table definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::sqlite) struct Body {
    pub(in crate::sqlite) columns: Vec<Column>,
    pub(in crate::sqlite) primary_key: Option<Vec<Part>>,
    pub(in crate::sqlite) keys: Vec<Key>,
    pub(in crate::sqlite) foreign_keys: Vec<ForeignKey>,
    pub(in crate::sqlite) engine: Option<String>,
    pub(in crate::sqlite) charset: Option<String>,
}

/// First words of keys and checks, which no column definition starts with.
const ELEMENTS: [&str; 9] =
    ["CONSTRAINT", "PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"];

/// Parses the parentheses of CREATE TABLE and the options after them.
pub(super) fn body(columns: Words, options: &mut Words, table: &Name) -> Option<Body> {
    let mut body = Body::default();
    options_of(options, &mut body);
    let mut columns = columns;
    for mut part in columns.parts() {
        match is_element(&part) {
            true => element(&mut part, &mut body, table)?,
            false => {
                let column = column(&mut part, &mut body, table)?;
                body.columns.push(column);
            }
        }
    }
    Some(body)
}

pub(super) fn is_element(words: &Words) -> bool {
    ELEMENTS.iter().any(|element| words.is(element))
}

fn options_of(options: &mut Words, body: &mut Body) {
    while !options.is_over() {
        if options.take("ENGINE") {
            options.take_sign("=");
            body.engine = options.name();
        } else if options.take_any(&["CHARSET", "CHARACTER SET"]) {
            options.take_sign("=");
            body.charset = options.name();
        } else {
            options.skip();
        }
    }
}

/// Parses a key or a check.
pub(super) fn element(words: &mut Words, body: &mut Body, table: &Name) -> Option<()> {
    const KINDS: [&str; 4] = ["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"];
    let mut symbol = None;
    if words.take("CONSTRAINT") {
        symbol = words.optional_name(&KINDS);
    }
    if words.take("CHECK") {
        return Some(());
    }
    if words.take("PRIMARY KEY") {
        if words.take("USING") {
            words.skip();
        }
        body.primary_key = key_parts(words.group()?);
        for part in body.primary_key.iter().flatten() {
            let column =
                body.columns.iter_mut().find(|column| column.name.eq_ignore_ascii_case(&part.column));
            if let Some(column) = column {
                column.nullable = false;
            }
        }
        return Some(());
    }
    if words.take("FOREIGN KEY") {
        let index = if words.is_sign("(") { None } else { words.name() };
        let columns = key_parts(words.group()?)?.into_iter().map(|part| part.column).collect();
        return foreign_key(words, body, symbol.or(index), columns, table);
    }
    let (unique, special) = (words.take("UNIQUE"), words.take_any(&["FULLTEXT", "SPATIAL"]));
    words.take_any(&["INDEX", "KEY"]);
    let name = if words.is_sign("(") { None } else { words.optional_name(&["USING"]) };
    if words.take("USING") {
        words.skip();
    }
    let parts = key_parts(words.group()?);
    put_key(body, name.or(symbol), unique, if special { None } else { parts });
    Some(())
}

fn put_key(body: &mut Body, name: Option<String>, unique: bool, parts: Option<Vec<Part>>) {
    let first = parts.as_ref().and_then(|parts| parts.first()).map(|part| part.column.clone());
    let base = name.clone().or(first).unwrap_or_else(|| "functional_index".to_owned());
    let is_taken = |name: &str| body.keys.iter().any(|key| key.name.eq_ignore_ascii_case(name));
    let numbered = (2..).map(|number| format!("{base}_{number}"));
    let own = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name));
    let key =
        Key { name: own.unwrap_or(base), unique, parts: parts.unwrap_or_default(), index: String::new() };
    body.keys.push(key);
}

fn foreign_key(
    words: &mut Words,
    body: &mut Body,
    name: Option<String>,
    columns: Vec<String>,
    table: &Name,
) -> Option<()> {
    words.take("REFERENCES").then_some(())?;
    let (database, parent) = words.table()?;
    let parent = (database.unwrap_or_else(|| table.0.clone()), parent);
    let parent_columns = match words.group() {
        Some(group) => key_parts(group)?.into_iter().map(|part| part.column).collect(),
        None => Vec::new(),
    };
    let (mut on_delete, mut on_update) = (Action::Restrict, Action::Restrict);
    loop {
        if words.take("MATCH") {
            words.skip();
        } else if words.take("ON DELETE") {
            on_delete = action(words)?;
        } else if words.take("ON UPDATE") {
            on_update = action(words)?;
        } else {
            break;
        }
    }
    let number = body.foreign_keys.len() + 1;
    let name = name.unwrap_or_else(|| format!("{}_ibfk_{number}", table.1));
    body.foreign_keys.push(ForeignKey { name, columns, parent, parent_columns, on_delete, on_update });
    Some(())
}

fn action(words: &mut Words) -> Option<Action> {
    if words.take("CASCADE") {
        return Some(Action::Cascade);
    }
    if words.take("SET NULL") {
        return Some(Action::SetNull);
    }
    words.take_any(&["RESTRICT", "NO ACTION", "SET DEFAULT"]).then_some(Action::Restrict)
}

/// Parses the columns of a key; `None` if a part is an expression.
pub(super) fn key_parts(mut group: Words) -> Option<Vec<Part>> {
    let part = |mut part: Words| {
        let column = part.name()?;
        Some(Part { column, is_prefix: part.is_sign("(") })
    };
    group.parts().into_iter().map(part).collect()
}

/// Parses a column definition and the keys that it creates.
pub(super) fn column(words: &mut Words, body: &mut Body, table: &Name) -> Option<Column> {
    let name = words.name()?;
    let is_serial = words.is("SERIAL");
    let mut kind = kind(words)?;
    let mut column = Column {
        name: name.clone(),
        kind: kind.clone(),
        nullable: !is_serial,
        default: Default::None,
        generated: false,
    };
    let own = || vec![Part { column: name.clone(), is_prefix: false }];
    if is_serial {
        put_key(body, None, true, Some(own()));
    }
    while !words.is_over() && !words.is("FIRST") && !words.is("AFTER") {
        if words.take_any(&["NOT NULL", "NOT SECONDARY"]) {
            column.nullable = false;
        } else if words.take("SERIAL DEFAULT VALUE") {
            column.nullable = false;
            put_key(body, None, true, Some(own()));
        } else if words.take("DEFAULT") {
            column.default = Default::read(words, &kind);
        } else if words.take("AUTO_INCREMENT") {
            column.default = Default::Unknown;
        } else if words.take("ON UPDATE") {
            words.skip();
            let _ = words.group();
        } else if words.take_any(&["COMMENT", "COLUMN_FORMAT", "STORAGE", "SRID", "ENGINE_ATTRIBUTE"]) {
            words.take_sign("=");
            words.skip();
        } else if words.take_any(&["CHARACTER SET", "CHARSET"]) {
            charset(&mut kind, words.name()?);
        } else if words.take("COLLATE") {
            let collation = words.name()?;
            charset(&mut kind, collation.split('_').next().unwrap_or_default().to_owned());
        } else if words.take("UNIQUE") {
            words.take("KEY");
            put_key(body, None, true, Some(own()));
        } else if words.take_any(&["PRIMARY KEY", "PRIMARY", "KEY"]) {
            body.primary_key = Some(own());
            column.nullable = false;
        } else if words.take("AS") {
            words.skip();
            column.generated = true;
        } else if words.is("REFERENCES") {
            foreign_key(words, body, None, vec![name.clone()], table)?;
        } else {
            words.skip();
        }
    }
    column.kind = kind;
    Some(column)
}

/// Sets the character set of a text type; `binary` makes it a byte type.
fn charset(kind: &mut Type, name: String) {
    if let Type::Text { charset } = kind {
        match name.eq_ignore_ascii_case("binary") {
            true => *kind = Type::Bytes { size: None },
            false => *charset = Some(name.to_ascii_lowercase()),
        }
    }
}

/// Returns the type for names that determine it without their arguments.
fn plain(name: &str) -> Option<Type> {
    let integer = |bits| Type::Integer { bits, unsigned: false };
    Some(match name {
        "TINYINT" | "INT1" | "BOOL" | "BOOLEAN" => integer(8),
        "SMALLINT" | "INT2" => integer(16),
        "MEDIUMINT" | "INT3" | "MIDDLEINT" => integer(24),
        "INT" | "INTEGER" | "INT4" => integer(32),
        "BIGINT" | "INT8" => integer(64),
        "SERIAL" => Type::Integer { bits: 64, unsigned: true },
        "FLOAT4" => Type::Float,
        "DOUBLE" | "REAL" | "FLOAT8" => Type::Double,
        "DATE" => Type::Date,
        "YEAR" => Type::Year,
        "TINYTEXT" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT" | "VARCHAR" | "VARCHARACTER" | "NCHAR"
        | "NVARCHAR" => Type::Text { charset: None },
        "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" | "VARBINARY" => Type::Bytes { size: None },
        "JSON" => Type::Json,
        "GEOMETRY" | "POINT" | "LINESTRING" | "POLYGON" | "MULTIPOINT" | "MULTILINESTRING"
        | "MULTIPOLYGON" | "GEOMETRYCOLLECTION" | "GEOMCOLLECTION" => Type::Geometry,
        "VECTOR" => Type::Vector,
        _ => return None,
    })
}

fn kind(words: &mut Words) -> Option<Type> {
    words.take("NATIONAL");
    let Word::Plain(name) = words.take_next()? else { return None };
    let name = name.to_ascii_uppercase();
    words.take_any(&["PRECISION", "VARYING"]);
    if name == "LONG" {
        return Some(match words.take("VARBINARY") {
            true => Type::Bytes { size: None },
            false => {
                words.take("VARCHAR");
                Type::Text { charset: None }
            }
        });
    }
    let group = words.group();
    let mut numbers = Vec::new();
    let mut texts = Vec::new();
    for mut part in group.into_iter().flat_map(|mut group| group.parts()) {
        match part.take_next() {
            Some(Word::Number(number)) => numbers.push(number.parse::<u16>().ok()?),
            Some(Word::Text(text)) => texts.push(text),
            Some(Word::Hex(_) | Word::Bytes) => return None,
            _ => {}
        }
    }
    let first = numbers.first().copied();
    let fraction = first.and_then(|number| u8::try_from(number).ok()).unwrap_or(0);
    let mut kind = match name.as_str() {
        "FLOAT" if first.is_some_and(|digits| digits > 24) && numbers.len() == 1 => Type::Double,
        "FLOAT" => Type::Float,
        "DECIMAL" | "DEC" | "NUMERIC" | "FIXED" => {
            Type::Decimal { scale: numbers.get(1).and_then(|scale| u8::try_from(*scale).ok()).unwrap_or(0) }
        }
        "BIT" => Type::Bit { bits: u8::try_from(first.unwrap_or(1)).ok().filter(|bits| *bits <= 64)? },
        "TIME" => Type::Time { fraction },
        "DATETIME" => Type::DateTime { fraction },
        "TIMESTAMP" => Type::Timestamp { fraction },
        "CHAR" | "CHARACTER" => Type::Text { charset: None },
        "BINARY" => Type::Bytes { size: Some(first.unwrap_or(1)) },
        // The server removes trailing spaces.
        "ENUM" | "SET" => {
            let texts = texts.into_iter().map(|text| text.trim_end_matches(' ').to_owned()).collect();
            if name == "ENUM" { Type::Enum { texts } } else { Type::Set { texts } }
        }
        name => plain(name)?,
    };
    loop {
        if words.take_any(&["UNSIGNED", "ZEROFILL"]) {
            if let Type::Integer { unsigned, .. } = &mut kind {
                *unsigned = true;
            }
        } else if words.take("BYTE") {
            kind = Type::Bytes { size: first };
        } else if !words.take("SIGNED") {
            return Some(kind);
        }
    }
}
