//! Directories of tables: names, and the columns of the files in them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use arrow_schema::DataType;
use logs::{FileAccess, make_directories, replace_file};

use crate::change_schema::ChangeSchema;
use crate::columns_error::ColumnsError;

/// Directories of one table. Definitions share a directory if each column's types belong to one family, so that readers
/// can combine the files. Any other definition gets the next directory.
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
    family: String,
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
            .map(|column| DirectoryColumn {
                name: encode(&column.name),
                family: family(&column.data_type).to_owned(),
            })
            .collect();
        let fits = |version: &Vec<DirectoryColumn>| {
            let differs = |known: &DirectoryColumn| {
                columns.iter().any(|column| column.name == known.name && column.family != known.family)
            };
            !version.iter().any(differs)
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

/// Returns the family of types to which readers can convert values of this type.
fn family(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Float32 | DataType::Float64 => "float",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "decimal",
        DataType::Date32 => "date",
        DataType::Time64(_) => "time",
        DataType::Timestamp(_, None) => "datetime",
        DataType::Timestamp(_, Some(_)) => "timestamp",
        DataType::Utf8 | DataType::Dictionary(..) => "text",
        DataType::Struct(_) => "geometry",
        DataType::List(item) if *item.data_type() == DataType::Float32 => "vector",
        DataType::List(_) => "set",
        data_type if data_type.is_integer() => "integer",
        _ => "bytes",
    }
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
    use super::{DirectoryColumn, encode, parse_versions};

    #[test]
    fn names_are_encoded_for_paths() {
        let check = |name: &str, expected: &str| assert_eq!(encode(name), expected);
        check("orders_2$", "orders_2$");
        check("..", "%2E.");
        check("a/b=c@2 %\n", "a%2Fb%3Dc%402%20%25%0A");
        check("größe", "größe");
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
