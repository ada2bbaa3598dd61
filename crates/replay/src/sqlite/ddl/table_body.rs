//! Parser of columns and keys in a table definition.

use sql::{SqlWord, SqlWords};

use super::QualifiedName;
use crate::sqlite::catalogue_table::{
    CatalogueColumn, ForeignKey, KeyColumn, ReferentialAction, SecondaryKey,
};
use crate::sqlite::default_value::DefaultValue;
use crate::sqlite::mysql_type::MysqlType;

/// Columns, keys and options of a table definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::sqlite) struct TableBody {
    pub(in crate::sqlite) columns: Vec<CatalogueColumn>,
    pub(in crate::sqlite) primary_key: Option<Vec<KeyColumn>>,
    pub(in crate::sqlite) keys: Vec<SecondaryKey>,
    pub(in crate::sqlite) foreign_keys: Vec<ForeignKey>,
    pub(in crate::sqlite) engine: Option<String>,
    pub(in crate::sqlite) charset: Option<String>,
}

/// First words of keys and checks, which no column definition starts with.
const ELEMENT_KEYWORDS: [&str; 9] =
    ["CONSTRAINT", "PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"];

/// Parses the parentheses of CREATE TABLE and the options after them.
pub(super) fn parse_body(
    columns: SqlWords,
    options: &mut SqlWords,
    table: &QualifiedName,
) -> Option<TableBody> {
    let mut body = TableBody::default();
    parse_options(options, &mut body);
    let mut columns = columns;
    for mut part in columns.split_at_commas() {
        match is_element(&part) {
            true => parse_element(&mut part, &mut body, table)?,
            false => {
                let column = parse_column(&mut part, &mut body, table)?;
                body.columns.push(column);
            }
        }
    }
    Some(body)
}

pub(super) fn is_element(words: &SqlWords) -> bool {
    ELEMENT_KEYWORDS.iter().any(|element| words.is_next(element))
}

fn parse_options(options: &mut SqlWords, body: &mut TableBody) {
    while !options.is_at_end() {
        if options.take("ENGINE") {
            options.take_sign("=");
            body.engine = options.take_name();
        } else if options.take_any(&["CHARSET", "CHARACTER SET"]) {
            options.take_sign("=");
            body.charset = options.take_name();
        } else {
            options.skip();
        }
    }
}

/// Parses a key or a check.
pub(super) fn parse_element(words: &mut SqlWords, body: &mut TableBody, table: &QualifiedName) -> Option<()> {
    const KINDS: [&str; 4] = ["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"];
    let mut symbol = None;
    if words.take("CONSTRAINT") {
        symbol = words.take_optional_name(&KINDS);
    }
    if words.take("CHECK") {
        return Some(());
    }
    if words.take("PRIMARY KEY") {
        if words.take("USING") {
            words.skip();
        }
        body.primary_key = parse_key_parts(words.take_group()?);
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
        let index = if words.is_sign("(") { None } else { words.take_name() };
        let columns = parse_key_parts(words.take_group()?)?.into_iter().map(|part| part.column).collect();
        return parse_foreign_key(words, body, symbol.or(index), columns, table);
    }
    let (unique, special) = (words.take("UNIQUE"), words.take_any(&["FULLTEXT", "SPATIAL"]));
    words.take_any(&["INDEX", "KEY"]);
    let name = if words.is_sign("(") { None } else { words.take_optional_name(&["USING"]) };
    if words.take("USING") {
        words.skip();
    }
    let parts = parse_key_parts(words.take_group()?);
    add_key(body, name.or(symbol), unique, if special { None } else { parts });
    Some(())
}

fn add_key(body: &mut TableBody, name: Option<String>, unique: bool, parts: Option<Vec<KeyColumn>>) {
    let first = parts.as_ref().and_then(|parts| parts.first()).map(|part| part.column.clone());
    let base = name.clone().or(first).unwrap_or_else(|| "functional_index".to_owned());
    let is_taken = |name: &str| body.keys.iter().any(|key| key.name.eq_ignore_ascii_case(name));
    let numbered = (2..).map(|number| format!("{base}_{number}"));
    let own = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name));
    let key = SecondaryKey {
        name: own.unwrap_or(base),
        unique,
        parts: parts.unwrap_or_default(),
        index: String::new(),
    };
    body.keys.push(key);
}

fn parse_foreign_key(
    words: &mut SqlWords,
    body: &mut TableBody,
    name: Option<String>,
    columns: Vec<String>,
    table: &QualifiedName,
) -> Option<()> {
    words.take("REFERENCES").then_some(())?;
    let (database, parent) = words.take_table()?;
    let parent = (database.unwrap_or_else(|| table.0.clone()), parent);
    let parent_columns = match words.take_group() {
        Some(group) => parse_key_parts(group)?.into_iter().map(|part| part.column).collect(),
        None => Vec::new(),
    };
    let (mut on_delete, mut on_update) = (ReferentialAction::Restrict, ReferentialAction::Restrict);
    loop {
        if words.take("MATCH") {
            words.skip();
        } else if words.take("ON DELETE") {
            on_delete = parse_action(words)?;
        } else if words.take("ON UPDATE") {
            on_update = parse_action(words)?;
        } else {
            break;
        }
    }
    let number = body.foreign_keys.len() + 1;
    let name = name.unwrap_or_else(|| format!("{}_ibfk_{number}", table.1));
    body.foreign_keys.push(ForeignKey { name, columns, parent, parent_columns, on_delete, on_update });
    Some(())
}

fn parse_action(words: &mut SqlWords) -> Option<ReferentialAction> {
    if words.take("CASCADE") {
        return Some(ReferentialAction::Cascade);
    }
    if words.take("SET NULL") {
        return Some(ReferentialAction::SetNull);
    }
    words.take_any(&["RESTRICT", "NO ACTION", "SET DEFAULT"]).then_some(ReferentialAction::Restrict)
}

/// Parses the columns of a key; `None` if a part is an expression.
pub(super) fn parse_key_parts(mut group: SqlWords) -> Option<Vec<KeyColumn>> {
    let part = |mut part: SqlWords| {
        let column = part.take_name()?;
        Some(KeyColumn { column, is_prefix: part.is_sign("(") })
    };
    group.split_at_commas().into_iter().map(part).collect()
}

/// Parses a column definition and the keys that it creates.
pub(super) fn parse_column(
    words: &mut SqlWords,
    body: &mut TableBody,
    table: &QualifiedName,
) -> Option<CatalogueColumn> {
    let name = words.take_name()?;
    let is_serial = words.is_next("SERIAL");
    let mut kind = parse_type(words)?;
    let mut column = CatalogueColumn {
        name: name.clone(),
        kind: kind.clone(),
        nullable: !is_serial,
        default: DefaultValue::None,
        generated: false,
    };
    let own = || vec![KeyColumn { column: name.clone(), is_prefix: false }];
    if is_serial {
        add_key(body, None, true, Some(own()));
    }
    while !words.is_at_end() && !words.is_next("FIRST") && !words.is_next("AFTER") {
        if words.take_any(&["NOT NULL", "NOT SECONDARY"]) {
            column.nullable = false;
        } else if words.take("SERIAL DEFAULT VALUE") {
            column.nullable = false;
            add_key(body, None, true, Some(own()));
        } else if words.take("DEFAULT") {
            column.default = DefaultValue::read(words, &kind);
        } else if words.take("AUTO_INCREMENT") {
            column.default = DefaultValue::Unknown;
        } else if words.take("ON UPDATE") {
            words.skip();
            let _ = words.take_group();
        } else if words.take_any(&["COMMENT", "COLUMN_FORMAT", "STORAGE", "SRID", "ENGINE_ATTRIBUTE"]) {
            words.take_sign("=");
            words.skip();
        } else if words.take_any(&["CHARACTER SET", "CHARSET"]) {
            set_charset(&mut kind, words.take_name()?);
        } else if words.take("COLLATE") {
            let collation = words.take_name()?;
            set_charset(&mut kind, collation.split('_').next().unwrap_or_default().to_owned());
        } else if words.take("UNIQUE") {
            words.take("KEY");
            add_key(body, None, true, Some(own()));
        } else if words.take_any(&["PRIMARY KEY", "PRIMARY", "KEY"]) {
            body.primary_key = Some(own());
            column.nullable = false;
        } else if words.take("AS") {
            words.skip();
            column.generated = true;
        } else if words.is_next("REFERENCES") {
            parse_foreign_key(words, body, None, vec![name.clone()], table)?;
        } else {
            words.skip();
        }
    }
    column.kind = kind;
    Some(column)
}

/// Sets the character set of a text type; `binary` makes it a byte type.
fn set_charset(kind: &mut MysqlType, name: String) {
    if let MysqlType::Text { charset } = kind {
        match name.eq_ignore_ascii_case("binary") {
            true => *kind = MysqlType::Bytes { size: None },
            false => *charset = Some(name.to_ascii_lowercase()),
        }
    }
}

/// Returns the type for names that determine it without their arguments.
fn parse_plain_type(name: &str) -> Option<MysqlType> {
    let integer = |bits| MysqlType::Integer { bits, unsigned: false };
    Some(match name {
        "TINYINT" | "INT1" | "BOOL" | "BOOLEAN" => integer(8),
        "SMALLINT" | "INT2" => integer(16),
        "MEDIUMINT" | "INT3" | "MIDDLEINT" => integer(24),
        "INT" | "INTEGER" | "INT4" => integer(32),
        "BIGINT" | "INT8" => integer(64),
        "SERIAL" => MysqlType::Integer { bits: 64, unsigned: true },
        "FLOAT4" => MysqlType::Float,
        "DOUBLE" | "REAL" | "FLOAT8" => MysqlType::Double,
        "DATE" => MysqlType::Date,
        "YEAR" => MysqlType::Year,
        "TINYTEXT" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT" | "VARCHAR" | "VARCHARACTER" | "NCHAR"
        | "NVARCHAR" => MysqlType::Text { charset: None },
        "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" | "VARBINARY" => MysqlType::Bytes { size: None },
        "JSON" => MysqlType::Json,
        "GEOMETRY" | "POINT" | "LINESTRING" | "POLYGON" | "MULTIPOINT" | "MULTILINESTRING"
        | "MULTIPOLYGON" | "GEOMETRYCOLLECTION" | "GEOMCOLLECTION" => MysqlType::Geometry,
        "VECTOR" => MysqlType::Vector,
        _ => return None,
    })
}

fn parse_type(words: &mut SqlWords) -> Option<MysqlType> {
    words.take("NATIONAL");
    let SqlWord::Plain(name) = words.take_next()? else { return None };
    let name = name.to_ascii_uppercase();
    words.take_any(&["PRECISION", "VARYING"]);
    if name == "LONG" {
        return Some(match words.take("VARBINARY") {
            true => MysqlType::Bytes { size: None },
            false => {
                words.take("VARCHAR");
                MysqlType::Text { charset: None }
            }
        });
    }
    let group = words.take_group();
    let mut numbers = Vec::new();
    let mut texts = Vec::new();
    for mut part in group.into_iter().flat_map(|mut group| group.split_at_commas()) {
        match part.take_next() {
            Some(SqlWord::Number(number)) => numbers.push(number.parse::<u16>().ok()?),
            Some(SqlWord::Text(text)) => texts.push(text),
            Some(SqlWord::Hex(_) | SqlWord::Bytes) => return None,
            _ => {}
        }
    }
    let first = numbers.first().copied();
    let fraction = first.and_then(|number| u8::try_from(number).ok()).unwrap_or(0);
    let mut kind = match name.as_str() {
        "FLOAT" if first.is_some_and(|digits| digits > 24) && numbers.len() == 1 => MysqlType::Double,
        "FLOAT" => MysqlType::Float,
        "DECIMAL" | "DEC" | "NUMERIC" | "FIXED" => MysqlType::Decimal {
            scale: numbers.get(1).and_then(|scale| u8::try_from(*scale).ok()).unwrap_or(0),
        },
        "BIT" => MysqlType::Bit { bits: u8::try_from(first.unwrap_or(1)).ok().filter(|bits| *bits <= 64)? },
        "TIME" => MysqlType::Time { fraction },
        "DATETIME" => MysqlType::DateTime { fraction },
        "TIMESTAMP" => MysqlType::Timestamp { fraction },
        "CHAR" | "CHARACTER" => MysqlType::Text { charset: None },
        "BINARY" => MysqlType::Bytes { size: Some(first.unwrap_or(1)) },
        // The server removes trailing spaces.
        "ENUM" | "SET" => {
            let texts = texts.into_iter().map(|text| text.trim_end_matches(' ').to_owned()).collect();
            if name == "ENUM" { MysqlType::Enum { texts } } else { MysqlType::Set { texts } }
        }
        name => parse_plain_type(name)?,
    };
    loop {
        if words.take_any(&["UNSIGNED", "ZEROFILL"]) {
            if let MysqlType::Integer { unsigned, .. } = &mut kind {
                *unsigned = true;
            }
        } else if words.take("BYTE") {
            kind = MysqlType::Bytes { size: first };
        } else if !words.take("SIGNED") {
            return Some(kind);
        }
    }
}
