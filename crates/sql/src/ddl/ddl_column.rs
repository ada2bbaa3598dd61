//! Definition of a column: type, default, character set and keys.

use binlog::sql_mode::{ORACLE, REAL_AS_FLOAT};

use crate::ddl::table_definition::{ForeignKeyDefinition, parse_references, take_charset, take_collation};
use crate::quote::parse_hex;
use crate::sql_words::{SqlWord, SqlWords};

/// Definition of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct DdlColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the column.
    pub column_type: ColumnTypeDefinition,
    /// False if the column is declared NOT NULL, by itself or by its keys.
    pub nullable: bool,
    /// True if the column is declared NULL. Without NULL and NOT NULL, `explicit_defaults_for_timestamp` decides for a
    /// TIMESTAMP.
    pub is_declared_null: bool,
    /// DEFAULT clause.
    pub default: Option<DefaultClause>,
    /// True for AUTO_INCREMENT, the type SERIAL, and SERIAL DEFAULT VALUE.
    pub is_auto_increment: bool,
    /// True for a generated column.
    pub is_generated: bool,
    /// Character set in lower case, if given directly or by the collation.
    pub charset: Option<String>,
    /// Keys that the definition creates, in order.
    pub keys: Vec<ColumnKey>,
    /// REFERENCES clause. MySQL ignored it before 9.0.
    pub references: Option<ForeignKeyDefinition>,
}

/// A key that a column's definition creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKey {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE.
    Unique,
}

/// Type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnTypeDefinition {
    /// Type as the statement spells it, in lower case: `bool`, `double precision`.
    pub name: String,
    /// Arguments in parentheses.
    pub arguments: Vec<TypeArgument>,
    /// True for UNSIGNED, also implied by ZEROFILL.
    pub is_unsigned: bool,
    /// True for ZEROFILL.
    pub is_zerofill: bool,
    /// True for BYTE, which turns a text type into its binary type.
    pub is_byte: bool,
}

/// Argument of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeArgument {
    /// A number, as written.
    Number(String),
    /// A string. The server has removed its trailing spaces.
    Text(String),
}

/// A DEFAULT clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultClause {
    /// NULL
    Null,
    /// CURRENT_TIMESTAMP or a synonym.
    CurrentTimestamp,
    /// A string.
    Text(String),
    /// A number, as written, with its sign.
    Number(String),
    /// TRUE or FALSE.
    Boolean(bool),
    /// The digits of `x'…'` or `0x…`.
    Hex(String),
    /// The digits of `b'…'`.
    Bits(String),
    /// An expression, or a string without a known character set.
    Expression,
}

/// Synonyms of type names.
const TYPE_ALIASES: [(&str, &str); 31] = [
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
    ("nchar varying", "varchar"),
    ("nchar varchar", "varchar"),
    ("varcharacter", "varchar"),
    ("nvarchar", "varchar"),
    ("varchar2", "varchar"),
    ("char varying", "varchar"),
    ("character varying", "varchar"),
    ("long", "mediumtext"),
    ("long varchar", "mediumtext"),
    ("long varbinary", "mediumblob"),
    ("clob", "longtext"),
    ("number", "decimal"),
    ("raw", "varbinary"),
    ("geomcollection", "geometrycollection"),
];

/// Types of MariaDB with `sql_mode=ORACLE`, and their names without it.
const ORACLE_TYPES: [(&str, &str); 2] = [("date", "datetime"), ("blob", "longblob")];

/// Text types, and the corresponding types in the character set `binary`.
const BINARY_TYPES: [(&str, &str); 6] = [
    ("char", "binary"),
    ("varchar", "varbinary"),
    ("tinytext", "tinyblob"),
    ("text", "blob"),
    ("mediumtext", "mediumblob"),
    ("longtext", "longblob"),
];

impl ColumnTypeDefinition {
    /// Parses a type, with its arguments and attributes.
    pub fn parse(words: &mut SqlWords) -> Option<Self> {
        let mut name = parse_type_name(words)?;
        let arguments = parse_arguments(words)?;
        if name == "number" && arguments.is_empty() && words.sql_mode() & ORACLE != 0 {
            name = "double".to_owned();
        }
        let mut parsed = Self { name, arguments, is_unsigned: false, is_zerofill: false, is_byte: false };
        loop {
            if words.take("UNSIGNED") {
                parsed.is_unsigned = true;
            } else if words.take("ZEROFILL") {
                (parsed.is_unsigned, parsed.is_zerofill) = (true, true);
            } else if words.take("BYTE") {
                parsed.is_byte = true;
            } else if !words.take("SIGNED") {
                return Some(parsed);
            }
        }
    }

    /// Returns the name of the type in `information_schema.columns.data_type`.
    pub fn data_type(&self) -> &str {
        if self.is_double() {
            return "double";
        }
        let name = self.name.trim_end_matches(" precision");
        let alias = TYPE_ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, name)| *name);
        match self.is_byte {
            true => Self::binary_type(name).unwrap_or(name),
            false if name == "serial" => "bigint",
            false => name,
        }
    }

    /// Returns true for a FLOAT that is a DOUBLE because of its precision.
    pub fn is_double(&self) -> bool {
        let digits = match self.arguments.as_slice() {
            [TypeArgument::Number(digits)] => digits.parse::<u8>().ok(),
            _ => None,
        };
        self.name == "float" && digits.is_some_and(|digits| digits > 24)
    }

    /// Returns the binary type of a text type, given as `data_type`.
    pub fn binary_type(data_type: &str) -> Option<&'static str> {
        BINARY_TYPES.iter().find(|(text, _)| *text == data_type).map(|(_, bytes)| *bytes)
    }
}

impl DdlColumn {
    /// Parses a column. Leaves the position clause. Returns `None` if the type cannot be parsed.
    pub(super) fn parse(words: &mut SqlWords) -> Option<Self> {
        let name = words.take_name()?;
        let column_type = ColumnTypeDefinition::parse(words)?;
        let mut column = Self {
            name,
            nullable: true,
            is_declared_null: false,
            default: None,
            is_auto_increment: false,
            is_generated: false,
            charset: None,
            keys: Vec::new(),
            references: None,
            column_type,
        };
        if column.column_type.name == "serial" {
            column.column_type.is_unsigned = true;
            column.set_serial();
        }
        while !words.is_at_end() && !words.is_next("FIRST") && !words.is_next("AFTER") {
            column.take_attribute(words)?;
        }
        Some(column)
    }

    fn set_serial(&mut self) {
        (self.nullable, self.is_auto_increment) = (false, true);
        self.keys.push(ColumnKey::Unique);
    }

    fn take_attribute(&mut self, words: &mut SqlWords) -> Option<()> {
        if words.take("NOT NULL") {
            self.nullable = false;
        } else if words.take("NULL") {
            self.is_declared_null = true;
        } else if words.take("SERIAL DEFAULT VALUE") {
            self.set_serial();
        } else if words.take("DEFAULT") {
            self.default = Some(DefaultClause::parse(words));
        } else if words.take("AUTO_INCREMENT") {
            self.is_auto_increment = true;
        } else if words.take("ON UPDATE") {
            words.skip();
            words.take_group();
        } else if words.take_any(&["COMMENT", "COLUMN_FORMAT", "STORAGE", "SRID", "ENGINE_ATTRIBUTE"]) {
            words.take_sign("=");
            words.skip();
        } else if let Some(charset) = take_charset(words).or_else(|| take_collation(words)) {
            self.charset = Some(charset);
        } else if words.take("ASCII") {
            self.charset = Some("latin1".to_owned());
        } else if words.take("UNICODE") {
            self.charset = Some("ucs2".to_owned());
        } else if words.take("UNIQUE") {
            words.take("KEY");
            self.keys.push(ColumnKey::Unique);
        } else if words.take_any(&["PRIMARY KEY", "PRIMARY", "KEY"]) {
            self.keys.push(ColumnKey::Primary);
            self.nullable = false;
        } else if words.take("AS") {
            words.skip();
            self.is_generated = true;
        } else if words.is_next("REFERENCES") {
            self.references = Some(parse_references(words, vec![self.name.clone()])?);
        } else {
            // Attributes that change no value: VISIBLE, CHECK, VIRTUAL, and others.
            words.skip();
        }
        Some(())
    }
}

impl DefaultClause {
    /// Parses the value after `DEFAULT`.
    pub(super) fn parse(words: &mut SqlWords) -> Self {
        if words.take("NULL") {
            return Self::Null;
        }
        let sign = if words.take_sign("-") { "-" } else { "" };
        words.take_sign("+");
        if words.take_any(&["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"]) {
            words.take_group();
            return Self::CurrentTimestamp;
        }
        if words.take_group().is_some() {
            return Self::Expression;
        }
        match words.take_next() {
            Some(SqlWord::Text(text)) => Self::Text(text),
            Some(SqlWord::Number(number)) => Self::Number(format!("{sign}{number}")),
            Some(SqlWord::Bits(digits)) => Self::Bits(digits),
            Some(SqlWord::Hex(digits)) => Self::Hex(digits),
            Some(SqlWord::Plain(word)) if word.eq_ignore_ascii_case("TRUE") => Self::Boolean(true),
            Some(SqlWord::Plain(word)) if word.eq_ignore_ascii_case("FALSE") => Self::Boolean(false),
            _ => Self::Expression,
        }
    }
}

/// Parses the name of a type, in lower case.
fn parse_type_name(words: &mut SqlWords) -> Option<String> {
    words.take("NATIONAL");
    let SqlWord::Plain(name) = words.take_next()? else { return None };
    let mut name = name.to_ascii_lowercase();
    if name == "real" && words.sql_mode() & REAL_AS_FLOAT != 0 {
        name = "float".to_owned();
    }
    if words.sql_mode() & ORACLE != 0
        && let Some((_, own)) = ORACLE_TYPES.iter().find(|(oracle, _)| *oracle == name)
    {
        name = (*own).to_owned();
    }
    for more in ["VARYING", "VARBINARY", "PRECISION"] {
        if (more != "VARBINARY" || name == "long") && words.take(more) {
            name = format!("{name} {}", more.to_ascii_lowercase());
        }
    }
    if words.take_any(&["VARCHAR", "VARCHARACTER"]) {
        name.push_str(" varchar");
    }
    Some(name)
}

/// Parses the arguments in parentheses after a type.
fn parse_arguments(words: &mut SqlWords) -> Option<Vec<TypeArgument>> {
    let parts = words.take_group().into_iter().flat_map(|mut group| group.split_at_commas());
    let argument = |mut part: SqlWords| match part.take_next()? {
        SqlWord::Number(number) => Some(TypeArgument::Number(number)),
        SqlWord::Text(text) => Some(TypeArgument::Text(text.trim_end_matches(' ').to_owned())),
        SqlWord::Hex(digits) if digits.len() % 2 == 0 => ascii_text(parse_hex(&digits)?),
        SqlWord::Hex(digits) => ascii_text(parse_hex(&format!("0{digits}"))?),
        SqlWord::Bits(digits) => {
            let bytes = u128::from_str_radix(&digits, 2).ok()?.to_be_bytes();
            let size = digits.len().div_ceil(8).min(bytes.len());
            ascii_text(bytes[bytes.len() - size..].to_vec())
        }
        _ => None,
    };
    parts.map(argument).collect()
}

/// Returns bytes as an argument of a type; `None` if they depend on a character set.
fn ascii_text(bytes: Vec<u8>) -> Option<TypeArgument> {
    let text = String::from_utf8(bytes).ok().filter(|text| text.is_ascii())?;
    Some(TypeArgument::Text(text.trim_end_matches(' ').to_owned()))
}
