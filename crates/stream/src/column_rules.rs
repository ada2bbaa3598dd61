//! Rules for the columns of Debezium's records: selection, masks and keys, as its connector has them.

use std::str::FromStr;
use std::sync::Arc;

use crate::column_catalogue::TableSchema;
use regex_lite::{Regex, RegexBuilder};

/// Rules for the columns of Debezium's records.
#[derive(Clone, Debug, Default)]
pub struct ColumnRules {
    /// Columns of `before` and `after`.
    pub selection: ColumnSelection,
    /// Masks: the first rule that matches a column applies.
    pub masks: Vec<MaskRule>,
    /// Keys that replace primary keys.
    pub keys: MessageKeys,
}

/// Columns of `before` and `after`. Keys have all their columns.
#[derive(Clone, Debug, Default)]
pub enum ColumnSelection {
    /// All columns.
    #[default]
    All,
    /// Only these columns.
    Include(ColumnPatterns),
    /// All columns but these.
    Exclude(ColumnPatterns),
}

/// Regular expressions for `database.table.column`, separated by commas. They match whole names, whatever the case of
/// ASCII letters.
#[derive(Clone, Debug, Default)]
pub struct ColumnPatterns(Vec<Regex>);

/// Mask of columns.
#[derive(Clone, Debug)]
pub struct MaskRule {
    pub(crate) columns: ColumnPatterns,
    pub(crate) mask: ColumnMask,
}

/// Change of a column's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnMask {
    /// Texts and bytes are cut to this length.
    Truncate(usize),
    /// Texts are replaced by this number of asterisks.
    Replace(usize),
    /// Texts are replaced by their hash.
    Hash(MaskHash),
}

/// Hash function with a salt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MaskHash {
    pub(crate) algorithm: HashAlgorithm,
    pub(crate) salt: Arc<str>,
}

/// Hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HashAlgorithm {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// Columns of keys by table: `database.table:column,column;…`, where the tables are regular expressions.
#[derive(Clone, Debug, Default)]
pub struct MessageKeys(Vec<Regex>);

/// Error of parsing a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnRuleError {
    /// A regular expression that cannot be parsed.
    #[error("{pattern:?} is not a regular expression: {reason}")]
    Pattern {
        /// Expression.
        pattern: String,
        /// Reason.
        reason: String,
    },
    /// No regular expression.
    #[error("expected regular expressions for DATABASE.TABLE.COLUMN, separated by commas")]
    NoPattern,
    /// A truncation or replacement without a number.
    #[error("expected a number of characters, a colon, and regular expressions, such as 5:shop.orders.note")]
    NoLength,
    /// A hash without an algorithm or a salt.
    #[error(
        "expected an algorithm, a salt and regular expressions, such as SHA-256:SALT:shop.customers.email"
    )]
    NoSalt,
    /// An unknown hash function. Its name may be a salt at the wrong position.
    #[error(
        "unknown algorithm: expected MD5, SHA-1, SHA-224, SHA-256, SHA-384 or SHA-512, a colon and the salt"
    )]
    Algorithm,
    /// Malformed regular expressions after a salt. They may contain the rest of a salt that has a colon.
    #[error("malformed regular expressions after the salt: {reason}")]
    HashedColumns {
        /// Reason.
        reason: String,
    },
    /// A key without columns.
    #[error("{0:?} has no columns: expected DATABASE.TABLE:COLUMN,COLUMN")]
    NoKeyColumns(String),
}

impl ColumnRules {
    pub(crate) fn selects(&self, column: &str) -> bool {
        match &self.selection {
            ColumnSelection::All => true,
            ColumnSelection::Include(columns) => columns.matches(column),
            ColumnSelection::Exclude(columns) => !columns.matches(column),
        }
    }

    /// Returns the columns of the key of a table, whose columns have these full names.
    pub(crate) fn key_of_definition(&self, names: &[String], definition: &TableSchema) -> Box<[usize]> {
        let primary_key = || {
            let index_of = |name: &String| definition.columns.iter().position(|column| column.name == *name);
            definition.primary_key.iter().filter_map(index_of).collect()
        };
        self.keys.key_of(names).unwrap_or_else(primary_key)
    }

    pub(crate) fn mask_of(&self, column: &str) -> Option<&ColumnMask> {
        self.masks.iter().find(|rule| rule.columns.matches(column)).map(|rule| &rule.mask)
    }
}

impl ColumnPatterns {
    fn matches(&self, column: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(column))
    }
}

impl FromStr for ColumnPatterns {
    type Err = ColumnRuleError;

    fn from_str(text: &str) -> Result<Self, ColumnRuleError> {
        let parts = split_patterns(text);
        let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
        let patterns = parts.map(whole_name_pattern).collect::<Result<Vec<Regex>, _>>()?;
        if patterns.is_empty() { Err(ColumnRuleError::NoPattern) } else { Ok(Self(patterns)) }
    }
}

impl MaskRule {
    /// Parses `LENGTH:COLUMNS`: texts and bytes are cut to this length.
    ///
    /// # Errors
    ///
    /// Fails if the text is malformed.
    pub fn parse_truncation(text: &str) -> Result<Self, ColumnRuleError> {
        let (length, columns) = split_length(text)?;
        Ok(Self { columns, mask: ColumnMask::Truncate(length) })
    }

    /// Parses `LENGTH:COLUMNS`: texts are replaced by asterisks.
    ///
    /// # Errors
    ///
    /// Fails if the text is malformed.
    pub fn parse_replacement(text: &str) -> Result<Self, ColumnRuleError> {
        let (length, columns) = split_length(text)?;
        Ok(Self { columns, mask: ColumnMask::Replace(length) })
    }

    /// Parses `ALGORITHM:SALT:COLUMNS`: texts are replaced by their hash.
    ///
    /// # Errors
    ///
    /// Fails if the text is malformed.
    pub fn parse_hash(text: &str) -> Result<Self, ColumnRuleError> {
        let mut parts = text.splitn(3, ':');
        let (Some(name), Some(salt), Some(columns)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ColumnRuleError::NoSalt);
        };
        let algorithm = match name.to_ascii_uppercase().as_str() {
            "MD5" => HashAlgorithm::Md5,
            "SHA-1" => HashAlgorithm::Sha1,
            "SHA-224" => HashAlgorithm::Sha224,
            "SHA-256" => HashAlgorithm::Sha256,
            "SHA-384" => HashAlgorithm::Sha384,
            "SHA-512" => HashAlgorithm::Sha512,
            _ => return Err(ColumnRuleError::Algorithm),
        };
        let mask = ColumnMask::Hash(MaskHash { algorithm, salt: salt.into() });
        let columns = columns.parse().map_err(|error| match error {
            ColumnRuleError::Pattern { reason, .. } => ColumnRuleError::HashedColumns { reason },
            error => error,
        })?;
        Ok(Self { columns, mask })
    }
}

impl MessageKeys {
    /// Returns the key of a table whose columns have these full names; `None` if its primary key is the key.
    pub(crate) fn key_of(&self, columns: &[String]) -> Option<Box<[usize]>> {
        let matching = |pattern: &Regex| {
            let found = columns.iter().enumerate().filter(|(_, column)| pattern.is_match(column));
            found.map(|(index, _)| index).collect::<Vec<usize>>()
        };
        let mut key: Vec<usize> = Vec::new();
        for index in self.0.iter().flat_map(matching) {
            if !key.contains(&index) {
                key.push(index);
            }
        }
        (!key.is_empty()).then(|| key.into())
    }
}

impl FromStr for MessageKeys {
    type Err = ColumnRuleError;

    fn from_str(text: &str) -> Result<Self, ColumnRuleError> {
        let mut patterns = Vec::new();
        for rule in text.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
            let without_columns = || ColumnRuleError::NoKeyColumns(rule.to_owned());
            let (table, columns) = rule.split_once(':').ok_or_else(without_columns)?;
            for column in columns.split(',').map(str::trim) {
                if column.is_empty() {
                    return Err(without_columns());
                }
                patterns.push(whole_name_pattern(&format!("{table}.{column}"))?);
            }
        }
        Ok(Self(patterns))
    }
}

fn split_length(text: &str) -> Result<(usize, ColumnPatterns), ColumnRuleError> {
    let (length, columns) = text.split_once(':').ok_or(ColumnRuleError::NoLength)?;
    let length = length.trim().parse::<u32>().map_err(|_| ColumnRuleError::NoLength)?;
    Ok((length as usize, columns.parse()?))
}

/// Splits a list at its commas. A comma after a backslash belongs to its expression.
fn split_patterns(text: &str) -> Vec<String> {
    let (mut parts, mut is_escaped) = (vec![String::new()], false);
    for sign in text.chars() {
        let last = parts.len() - 1;
        match sign {
            ',' if is_escaped => {
                parts[last].pop();
                parts[last].push(',');
            }
            ',' => parts.push(String::new()),
            sign => parts[last].push(sign),
        }
        is_escaped = sign == '\\' && !is_escaped;
    }
    parts
}

fn whole_name_pattern(pattern: &str) -> Result<Regex, ColumnRuleError> {
    let error = |reason: regex_lite::Error| ColumnRuleError::Pattern {
        pattern: pattern.to_owned(),
        reason: reason.to_string(),
    };
    // The expression alone must be whole: `a)|(b` is not.
    Regex::new(pattern).map_err(error)?;
    RegexBuilder::new(&format!("^(?:{pattern})$")).case_insensitive(true).build().map_err(error)
}

#[cfg(test)]
mod tests {
    use super::{ColumnPatterns, ColumnRuleError, MaskRule, MessageKeys};

    #[test]
    fn patterns_match_whole_names_of_any_case() {
        let check = |patterns: &str, column: &str, expected: bool| {
            assert_eq!(patterns.parse::<ColumnPatterns>().unwrap().matches(column), expected, "{patterns}");
        };
        check("shop.orders.note", "shop.orders.note", true);
        check("SHOP.orders.note", "shop.Orders.note", true);
        check("shop.orders.note", "shop.orders.notes", false);
        check(r"a\.b\.c, shop\..*\.(id|note)", "shop.x.note", true);
        check(r"s.t.a{1\,2}", "s.t.aa", true);
        check("a.b.c|x.y.z", "a.b.cc", false);
        for malformed in ["", " , ", "(", "a)|(b"] {
            assert!(malformed.parse::<ColumnPatterns>().is_err(), "{malformed:?}");
        }
    }

    #[test]
    fn keys_have_the_columns_of_the_rules_in_their_order() {
        let columns = ["s.t.a", "s.t.b", "s.t.c"].map(str::to_owned);
        let check = |text: &str, expected: Option<&[usize]>| {
            assert_eq!(text.parse::<MessageKeys>().unwrap().key_of(&columns).as_deref(), expected, "{text}");
        };
        check("", None);
        check("s.t:c,a", Some(&[2, 0]));
        check("s.u:a; (.*).T:b", Some(&[1]));
        check("s.t:none", None);
        check("s.t:a;s.t:a,b", Some(&[0, 1]));
        for malformed in ["s.t", "s.t:", "s.t:a,", "s.(:a"] {
            assert!(malformed.parse::<MessageKeys>().is_err(), "{malformed:?}");
        }
    }

    #[test]
    fn malformed_masks_are_refused() {
        assert_eq!(MaskRule::parse_truncation("x").unwrap_err(), ColumnRuleError::NoLength);
        assert_eq!(MaskRule::parse_replacement("-1:a.b.c").unwrap_err(), ColumnRuleError::NoLength);
        assert_eq!(MaskRule::parse_replacement("1:").unwrap_err(), ColumnRuleError::NoPattern);
        assert_eq!(MaskRule::parse_hash("MD5:a.b.c").unwrap_err(), ColumnRuleError::NoSalt);
        let unknown = MaskRule::parse_hash("MD4:salt:a.b.c").unwrap_err();
        assert_eq!(unknown, ColumnRuleError::Algorithm);
        for malformed in ["secret:MD5:a.b.c", "MD5:sec:ret(:a.b.c", "MD5:secret:", "MD5:secret", "secret"] {
            let shown = format!("{:?}", MaskRule::parse_hash(malformed).unwrap_err());
            assert!(!shown.contains("sec") && !shown.contains("ret"), "{malformed}: {shown}");
        }
        MaskRule::parse_hash("sha-256:salt:a.b.c").unwrap();
    }
}
