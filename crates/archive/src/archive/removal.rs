//! Removes logs from an archive, and finds uploads that were interrupted.

use std::collections::HashSet;

use super::Archive;
use super::ManifestList;
use super::manifest_objects::{SEGMENTS, manifest_name, tables_of};
use crate::archive_error::ArchiveError;
use crate::change_tables::{TABLE_STATE, TABLES};
use crate::manifest::Manifest;
use crate::storage::{StoredObject, is_unfinished};

impl Archive {
    /// Deletes an archived log: first its manifest, then its segment and its change tables.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails.
    pub fn remove(&self, manifest: &Manifest) -> Result<(), ArchiveError> {
        self.storage().delete(&manifest_name(&manifest.log))?;
        self.storage().delete(&manifest.segment)?;
        tables_of(manifest).try_for_each(|file| self.storage().delete(&file.name))
    }

    /// Returns segments and change tables that no manifest names and that did not change since this time, in seconds
    /// since 1970: uploads that were stopped. There are none while a manifest is damaged, because it may name them.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails.
    pub fn orphans(
        &self,
        known: &ManifestList,
        unchanged_since_s: i64,
    ) -> Result<Vec<StoredObject>, ArchiveError> {
        if !known.damaged.is_empty() {
            return Ok(Vec::new());
        }
        let named: HashSet<&str> = known
            .manifests
            .iter()
            .flat_map(|manifest| {
                let tables = tables_of(manifest).map(|file| file.name.as_str());
                tables.chain([manifest.segment.as_str()])
            })
            .collect();
        let mut objects = self.storage().list(SEGMENTS)?;
        objects.extend(self.storage().list(TABLES)?);
        for directory in [SEGMENTS, TABLES] {
            objects.extend(self.storage().unfinished_files(directory)?);
        }
        objects.retain(|object| {
            object.modified_at <= unchanged_since_s
                && !named.contains(object.name.as_str())
                && !object.name.starts_with(TABLE_STATE)
        });
        Ok(objects)
    }

    /// Deletes a segment or change table without a manifest, unless it was written again since it was listed.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails.
    pub fn remove_orphan(&self, object: &StoredObject) -> Result<(), ArchiveError> {
        if is_unfinished(&object.name) {
            return self.storage().delete_unfinished(&object.name);
        }
        match self.storage().find(&object.name)? {
            Some(found) if found.modified_at == object.modified_at => self.storage().delete(&object.name),
            _ => Ok(()),
        }
    }
}
