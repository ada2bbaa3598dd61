//! Lists of the columns of change tables, by which later logs find the directory for a definition of a table.
//!
//! A list is never changed: each change is a new object, which only one process can create. A process that is second
//! reads the list of the first one, and decides again.

use std::collections::BTreeMap;

use crate::archive_error::ArchiveError;
use crate::change_table_store::ChangeTableStore;
use crate::storage::CreateOutcome;

/// Directory of the lists, below that of the change tables. Readers of Parquet ignore names that start with `_`.
const STATE_DIRECTORY: &str = "_bintide";

/// End of the names of the lists.
const LIST_END: &str = ".columns";

/// Sign between a list's name and its revision. Names of tables have it only encoded.
const REVISION_SIGN: char = '@';

/// List of the columns of a table's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnList {
    /// Name below the directory of the change tables.
    pub name: String,
    /// Number of the list among those of this name, from 1.
    pub revision: u64,
    /// Content.
    pub text: Vec<u8>,
}

impl ColumnList {
    /// Returns the name of the list's object below the directory of the change tables.
    fn object_name(&self) -> String {
        match self.revision {
            1 => self.name.clone(),
            revision => format!("{}{REVISION_SIGN}{revision}", self.name),
        }
    }

    /// Splits the name of an object into the list's name and its revision.
    fn split_name(object: &str) -> Option<(&str, u64)> {
        let (name, revision) = match object.rsplit_once(REVISION_SIGN) {
            None => (object, 1),
            Some((name, revision)) => (name, revision.parse().ok().filter(|number| *number > 1)?),
        };
        name.ends_with(LIST_END).then_some((name, revision))
    }
}

impl ChangeTableStore {
    /// Returns the newest list of each name.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails.
    pub fn column_lists(&self) -> Result<Vec<ColumnList>, ArchiveError> {
        let mut newest = BTreeMap::new();
        for object in self.list(STATE_DIRECTORY)? {
            if let Some((name, revision)) = self.name_of(&object.name).and_then(ColumnList::split_name) {
                let known = newest.entry(name.to_owned()).or_insert_with(|| (revision, object.clone()));
                if known.0 < revision {
                    *known = (revision, object);
                }
            }
        }
        let objects: Vec<_> = newest.into_values().map(|(_, object)| object).collect();
        let lists = self.read_all(&objects)?.into_iter().filter_map(|(object, text)| {
            let (name, revision) = ColumnList::split_name(self.name_of(&object)?)?;
            Some(ColumnList { name: name.to_owned(), revision, text })
        });
        Ok(lists.collect())
    }

    /// Saves a list, unless there is one of this name and revision.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails.
    pub fn save_column_list(&self, list: &ColumnList) -> Result<CreateOutcome, ArchiveError> {
        self.create(&list.object_name(), list.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::ColumnList;

    #[test]
    fn names_have_revisions() {
        let check = |name: &str, revision, object: &str| {
            let list = ColumnList { name: name.to_owned(), revision, text: Vec::new() };
            assert_eq!(list.object_name(), object);
            assert_eq!(ColumnList::split_name(object), Some((name, revision)));
        };
        check("_bintide/database=d/table=t.2.columns", 1, "_bintide/database=d/table=t.2.columns");
        check("_bintide/database=d/table=t.columns", 12, "_bintide/database=d/table=t.columns@12");
        assert_eq!(ColumnList::split_name("t.columns@x"), None);
        assert_eq!(ColumnList::split_name("t.columns@1"), None);
        assert_eq!(ColumnList::split_name("_bintide/binlog.000001.files"), None);
    }
}
