//! Change tables of an archived log: Parquet files beside its segment, which other programs read where they are.

#[cfg(feature = "storage")]
use std::path::Path;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[cfg(feature = "storage")]
use crate::archive_error::ArchiveError;

/// Directory of the change tables.
#[cfg(feature = "storage")]
pub(crate) const TABLES: &str = "tables";

/// The same, with a slash at its end.
#[cfg(feature = "storage")]
pub(crate) const TABLE_ROOT: &str = "tables/";

/// Directory of the lists of columns, by which later logs find the directory for a definition of a table. Readers of
/// Parquet ignore names that start with `_`.
#[cfg(feature = "storage")]
pub(crate) const TABLE_STATE: &str = "tables/_bintide";

/// End of the name of a change table's file.
#[cfg(feature = "storage")]
pub(crate) const FILE_END: &str = ".parquet";

/// Change tables of a log, as its manifest lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestTables {
    /// Files, by name.
    pub files: Vec<TableFile>,
    /// Reason for which the log has no change tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// File of a change table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFile {
    /// Object, from the archive's prefix on.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256.
    pub sha256: String,
    /// Name of the key from which that of the file is derived; `None` if the file is plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl ManifestTables {
    /// Returns the size of all files in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }
}

#[cfg(feature = "storage")]
impl TableFile {
    /// Returns whether the name is that of a change table's file: `prune` deletes this object.
    pub(crate) fn has_valid_name(&self) -> bool {
        let mut parts = self.name.split('/');
        let is_in_directory = parts.next() == Some(TABLES) && !self.name.starts_with(TABLE_STATE);
        is_in_directory && self.name.ends_with(FILE_END) && parts.all(|part| !matches!(part, "" | "." | ".."))
    }
}

/// Change tables of a log as files on the local disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalTables {
    /// Directory of the files.
    pub directory: PathBuf,
    /// Names of the files, below the directory.
    pub names: Vec<String>,
    /// Name of the key from which that of the files is derived; `None` if the files are plain.
    pub key: Option<String>,
    /// Reason for which there are none.
    pub missing: Option<String>,
}

/// Writer of the change tables of a log as local files.
#[cfg(feature = "storage")]
pub type TableWriter<'t> = dyn FnMut(&Path) -> Result<LocalTables, ArchiveError> + 't;

#[cfg(all(test, feature = "storage"))]
mod tests {
    use super::TableFile;

    #[test]
    fn only_files_of_tables_have_valid_names() {
        let check = |name: &str, expected: bool| {
            let file = TableFile { name: name.to_owned(), size: 1, sha256: String::new(), key: None };
            assert_eq!(file.has_valid_name(), expected, "{name}");
        };
        check("tables/database=d/table=t/day=2026-11-22/binlog.000001.1.parquet", true);
        check("tables/_bintide/database=d/table=t.parquet", false);
        check("tables/../segments/x.parquet", false);
        check("tables//x.parquet", false);
        check("segments/x.parquet", false);
        check("tables/x", false);
    }
}
