//! Directories of tables: names, and the columns of the files in them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use logs::{FileAccess, make_directories, replace_file};

use crate::change_schema::ChangeSchema;
use crate::columns_error::ColumnsError;

/// Directories of one table. Definitions share a directory if readers can convert the types of each column to one type
/// that has all values. Any other definition gets the next directory.
#[derive(Debug)]
pub(crate) struct TableDirectories {
    /// Path of the file that lists the columns.
    path: PathBuf,
    /// Name of the first directory, below that of the database.
    name: String,
    versions: Vec<Vec<DirectoryColumn>>,
    is_changed: bool,
}

/// A column in the files of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DirectoryColumn {
    /// Encoded name.
    name: String,
    /// See [`family`].
    family: String,
}

impl DirectoryColumn {
    /// Returns whether readers can combine the two columns: other columns, or types with a common type.
    fn fits(&self, other: &Self) -> bool {
        self.name != other.name || self.family == other.family || {
            let families = [self.family.as_str(), other.family.as_str()];
            match families.map(decimal_digits) {
                [Some(first), Some(second)] => {
                    first.0.max(second.0) + first.1.max(second.1) <= u32::from(DECIMAL128_MAX_PRECISION)
                }
                _ => INTEGER_PAIRS.iter().any(|pair| pair.iter().all(|family| families.contains(family))),
            }
        }
    }
}

impl TableDirectories {
    /// Reads the columns of the existing directories of the schema's table. `state` is the directory of the export's
    /// own files.
    pub(crate) fn open(state: &Path, schema: &ChangeSchema) -> Result<Self, ColumnsError> {
        let name = format!("table={}", encode(&schema.table));
        let path =
            state.join(format!("database={}", encode(&schema.database))).join(format!("{name}.columns"));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(ColumnsError::ColumnList { path });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(cause) => return Err(ColumnsError::File { action: "read", path, cause }),
        };
        let Some(versions) = parse_versions(&text) else {
            return Err(ColumnsError::ColumnList { path });
        };
        Ok(Self { path, name, versions, is_changed: false })
    }

    /// Returns the directory for files of this schema, below the root, and adds the schema's columns to it.
    pub(crate) fn choose(&mut self, schema: &ChangeSchema) -> PathBuf {
        let columns: Vec<DirectoryColumn> = schema
            .columns
            .iter()
            .map(|column| DirectoryColumn { name: encode(&column.name), family: family(&column.data_type) })
            .collect();
        let fits = |version: &Vec<DirectoryColumn>| {
            version.iter().all(|known| columns.iter().all(|column| column.fits(known)))
        };
        let version = self.versions.iter().position(fits).unwrap_or(self.versions.len());
        if version == self.versions.len() {
            self.versions.push(Vec::new());
        }
        for column in columns {
            if !self.versions[version].contains(&column) {
                self.versions[version].push(column);
                self.is_changed = true;
            }
        }
        let directory = match version {
            0 => self.name.clone(),
            version => format!("{}@{}", self.name, version + 1),
        };
        Path::new(&format!("database={}", encode(&schema.database))).join(directory)
    }

    /// Saves the columns, if there are new ones.
    pub(crate) fn save(&mut self) -> Result<(), ColumnsError> {
        if !self.is_changed {
            return Ok(());
        }
        let mut text = String::new();
        for version in &self.versions {
            text.push_str(VERSION_LINE);
            for DirectoryColumn { name, family } in version {
                text.extend([name.as_str(), "\t", family.as_str(), "\n"]);
            }
        }
        if let Some(parent) = self.path.parent() {
            make_directories(parent)?;
        }
        replace_file(&self.path, text.as_bytes(), FileAccess::Private)
            .map_err(|cause| ColumnsError::File { action: "write", path: self.path.clone(), cause })?;
        self.is_changed = false;
        Ok(())
    }
}

/// Line before the columns of a directory.
const VERSION_LINE: &str = "version\n";

fn parse_versions(text: &str) -> Option<Vec<Vec<DirectoryColumn>>> {
    let mut versions: Vec<Vec<DirectoryColumn>> = Vec::new();
    for line in text.lines() {
        if line == VERSION_LINE.trim_end() {
            versions.push(Vec::new());
            continue;
        }
        let (name, family) = line.split_once('\t')?;
        let column = DirectoryColumn { name: name.to_owned(), family: family.to_owned() };
        versions.last_mut()?.push(column);
    }
    Some(versions)
}

/// Families of integers that have a common type: pyarrow combines signed and unsigned ones to 64 bits with a sign.
const INTEGER_PAIRS: [[&str; 2]; 2] = [["integer", "unsigned"], ["unsigned", "unsigned64"]];
/// Family of DECIMAL, before its digits: `decimal 10 2` has 10 digits before the point and 2 after it.
const DECIMAL: &str = "decimal";

/// Returns the family of types to which readers can convert values of this type.
fn family(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Float32 | DataType::Float64 => "float",
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            return format!("{DECIMAL} {} {scale}", i16::from(*precision) - i16::from(*scale));
        }
        DataType::UInt64 => "unsigned64",
        data_type if data_type.is_unsigned_integer() => "unsigned",
        DataType::Date32 => "date",
        DataType::Time64(_) => "time",
        DataType::Timestamp(_, None) => "datetime",
        DataType::Timestamp(_, Some(_)) => "timestamp",
        DataType::Utf8 => "text",
        // pyarrow does not combine it with texts.
        DataType::Dictionary(..) => "enum",
        DataType::Struct(_) => "geometry",
        DataType::List(item) if *item.data_type() == DataType::Float32 => "vector",
        DataType::List(_) => "set",
        data_type if data_type.is_integer() => "integer",
        _ => "bytes",
    };
    name.to_owned()
}

/// Returns the digits of a family of DECIMAL before and after the point.
fn decimal_digits(family: &str) -> Option<(u32, u32)> {
    let (whole, scale) = family.strip_prefix(DECIMAL)?.trim_start().split_once(' ')?;
    Some((whole.parse().ok()?, scale.parse().ok()?))
}

/// Encodes a name for a path, as Hive does: special characters become `%` and two hexadecimal digits.
pub(crate) fn encode(name: &str) -> String {
    const SPECIAL: &[char] = &[
        '"', '#', '%', '\'', '*', '/', ':', '=', '?', '\\', '{', '}', '[', ']', '^', '@', '<', '>', '|', ' ',
    ];
    let mut encoded = String::with_capacity(name.len());
    for (index, sign) in name.char_indices() {
        let is_leading_dot = index == 0 && sign == '.';
        if is_leading_dot || sign.is_ascii_control() || SPECIAL.contains(&sign) {
            encoded.push_str(&format!("%{:02X}", u32::from(sign)));
        } else {
            encoded.push(sign);
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::{DirectoryColumn, encode, family, parse_versions};

    #[test]
    fn names_are_encoded_for_paths() {
        let check = |name: &str, expected: &str| assert_eq!(encode(name), expected);
        check("orders_2$", "orders_2$");
        check("..", "%2E.");
        check("a/b=c@2 %\n", "a%2Fb%3Dc%402%20%25%0A");
        check("größe", "größe");
    }

    #[test]
    fn types_with_a_common_type_share_a_directory() {
        use DataType::{Decimal128, Decimal256, Float32, Float64, Int8, Int64, UInt8, UInt64, Utf8};
        let column = |data_type: &DataType| DirectoryColumn { name: "a".into(), family: family(data_type) };
        let check = |first: DataType, second: DataType, expected: bool| {
            let columns = [column(&first), column(&second)];
            assert_eq!(columns[0].fits(&columns[1]), expected, "{first} {second}");
            assert_eq!(columns[1].fits(&columns[0]), expected, "{second} {first}");
        };
        check(Int8, Int64, true);
        check(Int64, UInt8, true);
        check(UInt8, UInt64, true);
        check(Int8, UInt64, false);
        check(Float32, Float64, true);
        check(Utf8, Int8, false);
        check(Utf8, DataType::Dictionary(Box::new(DataType::Int16), Box::new(Utf8)), false);
        check(Decimal128(10, 2), Decimal128(20, 10), true);
        check(Decimal128(30, 0), Decimal128(30, 10), false);
        check(Decimal128(38, 0), Decimal128(38, 20), false);
        check(Decimal256(65, 30), Decimal256(65, 30), true);
    }

    #[test]
    fn saved_columns() {
        let column =
            |name: &str, family: &str| DirectoryColumn { name: name.to_owned(), family: family.to_owned() };
        let versions = vec![vec![column("a", "integer"), column("b", "text")], vec![column("a", "text")]];
        assert_eq!(parse_versions("version\na\tinteger\nb\ttext\nversion\na\ttext\n"), Some(versions));
        assert_eq!(parse_versions(""), Some(Vec::new()));
        assert_eq!(parse_versions("a\tinteger\n"), None);
        assert_eq!(parse_versions("version\na\n"), None);
    }
}
