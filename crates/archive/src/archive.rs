//! An archive: segments and manifests of logs in one storage.

mod grown_log;
mod log_adder;
mod log_reading;
mod manifest_objects;
mod removal;
mod verification;

pub use self::log_adder::{AddOptions, ArchiveOutcome, SegmentTrial};
pub use self::log_reading::ArchivedLog;
use self::manifest_objects::{
    MANIFESTS, SEGMENTS, log_of_manifest, manifest_name, parse_manifest, sort_by_age,
};
use crate::archive_error::ArchiveError;
use crate::archive_objects::{ArchiveObjects, SmallObject};
use crate::change_table_store::ChangeTableStore;
use crate::change_tables::TABLE_ROOT;
use crate::manifest::Manifest;
use crate::master_key::{ArchiveKeys, MasterKey, TableKey};
use crate::storage::{ArchiveStorage, StoredObject};

/// An archive of one server's logs, in any storage.
#[derive(Clone, Debug)]
pub struct Archive {
    pub(crate) objects: ArchiveObjects,
}

/// Manifests of an archive.
#[derive(Debug, Default)]
pub struct ManifestList {
    /// Manifests of the archived logs, the oldest log first.
    pub manifests: Vec<Manifest>,
    /// Manifests that cannot be read.
    pub damaged: Vec<DamagedManifest>,
}

/// Manifest that is no description of a log.
#[derive(Debug)]
pub struct DamagedManifest {
    /// Name of the log.
    pub log: String,
    /// Error, which names the manifest.
    pub error: ArchiveError,
}

impl Archive {
    /// Creates the archive in a storage, without keys.
    pub fn new(storage: ArchiveStorage) -> Self {
        Self { objects: ArchiveObjects::new(storage) }
    }

    /// Returns the archive with the keys that decrypt its objects.
    #[must_use]
    pub fn with_keys(mut self, keys: ArchiveKeys) -> Self {
        self.objects.keys = keys;
        self
    }

    /// Returns the archive with a key that encrypts new objects; `None` for plain objects.
    #[must_use]
    pub fn with_master_key(mut self, master_key: Option<MasterKey>) -> Self {
        self.objects.master_key = master_key;
        self
    }

    /// Returns the key of new change tables; `None` if they are not encrypted.
    pub fn table_key(&self) -> Option<TableKey> {
        self.objects.master_key.as_ref().map(MasterKey::table_key)
    }

    /// Returns the location of the archive as it was given.
    pub fn location(&self) -> &str {
        self.storage().location()
    }

    const fn storage(&self) -> &ArchiveStorage {
        &self.objects.storage
    }

    /// Returns the manifests of all archived logs.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails.
    pub fn manifests(&self) -> Result<ManifestList, ArchiveError> {
        let objects = self.storage().list(MANIFESTS)?;
        let mut list = ManifestList::default();
        for SmallObject { name, content } in self.objects.read_all(&objects)? {
            match content.and_then(|content| parse_manifest(&name, &content)) {
                Ok(manifest) => list.manifests.push(manifest),
                Err(error) => list.damaged.push(DamagedManifest { log: log_of_manifest(&name), error }),
            }
        }
        sort_by_age(&mut list.manifests);
        Ok(list)
    }

    /// Returns whether the archive has segments, with or without manifests.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails.
    pub fn has_segments(&self) -> Result<bool, ArchiveError> {
        self.storage().has_objects(SEGMENTS)
    }

    /// Returns the manifest of one log; `None` if the log is not archived.
    ///
    /// # Errors
    ///
    /// Fails if the manifest cannot be read, or is invalid.
    pub fn manifest(&self, log: &str) -> Result<Option<Manifest>, ArchiveError> {
        let object = StoredObject { name: manifest_name(log), size: 0, modified_at: 0 };
        let found = self.objects.read_all(&[object])?.pop();
        found.map(|found| parse_manifest(&found.name, &found.content?)).transpose()
    }

    /// Returns the store of the change tables.
    pub fn change_tables(&self) -> ChangeTableStore {
        ChangeTableStore::below(self.objects.clone(), TABLE_ROOT)
    }
}
