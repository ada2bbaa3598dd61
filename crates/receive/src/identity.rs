//! Identity of a store as a replica, and the identity of its source. Both stay the same over all runs.

use std::io;
use std::path::{Path, PathBuf};

use binlog::gtid::Uuid;
use logs::{FileAccess, IDENTITY_FILE_NAME, ServerIdentity, StoreWriter, open_regular, replace_file};
use wire::SourceFacts;

use crate::error::ReceiveError;

/// Identity of a store as a replica, and of its source.
pub(crate) struct ReplicaIdentity {
    path: PathBuf,
    pub(crate) server_id: u32,
    pub(crate) uuid: String,
    /// `server_uuid` of the source; MariaDB has none.
    source: Option<String>,
}

impl ReplicaIdentity {
    /// Loads the identity, or creates a random identity for a new store. If the run receives nothing, the store's
    /// removal includes this file.
    pub(crate) fn load_or_create(directory: &Path, store: &mut StoreWriter) -> Result<Self, ReceiveError> {
        let path = directory.join(IDENTITY_FILE_NAME);
        if !path.exists() {
            store.add_created_path(&path);
        }
        Self::load_or_create_file(path)
    }

    fn load_or_create_file(path: PathBuf) -> Result<Self, ReceiveError> {
        if path.exists() {
            return match open_regular(&path).and_then(io::read_to_string) {
                Ok(text) => Self::parse(&text, path),
                Err(cause) => Err(ReceiveError::ReadIdentity { path, cause }),
            };
        }
        let ServerIdentity { server_id, server_uuid } =
            ServerIdentity::random().map_err(ReceiveError::RandomIdentity)?;
        let identity = Self { path, server_id, uuid: server_uuid, source: None };
        identity.save()?;
        Ok(identity)
    }

    fn parse(text: &str, path: PathBuf) -> Result<Self, ReceiveError> {
        let Some(ServerIdentity { server_id, server_uuid }) = ServerIdentity::parse(text) else {
            return Err(ReceiveError::IncompleteIdentity { path });
        };
        let source = ServerIdentity::value(text, "source-uuid").map(str::to_owned);
        Ok(Self { path, server_id, uuid: server_uuid, source })
    }

    /// Replaces the file atomically, also if the machine crashes.
    fn save(&self) -> Result<(), ReceiveError> {
        let source = self.source.iter().map(|uuid| format!("source-uuid={uuid}\n")).collect::<String>();
        let identity = ServerIdentity { server_id: self.server_id, server_uuid: self.uuid.clone() };
        let text = format!("[replica]\n{identity}{source}");
        replace_file(&self.path, text.as_bytes(), FileAccess::Private)
            .map_err(|cause| ReceiveError::WriteIdentity { path: self.path.clone(), cause })
    }

    /// Returns the `server_uuid` of the store's first source.
    pub(crate) fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Checks that the server has the expected `server_uuid`: `later`, or otherwise the `server_uuid` of the store's
    /// first source. Saves the `server_uuid` of the first source.
    pub(crate) fn check_source(
        &mut self,
        facts: &SourceFacts,
        later: Option<&str>,
    ) -> Result<(), ReceiveError> {
        match (later.or(self.source.as_deref()), &facts.server_uuid) {
            (Some(expected), Some(found)) if found != expected => Err(ReceiveError::OtherServer {
                found: found.clone(),
                expected: expected.to_owned(),
                directory: self.path.parent().unwrap_or(Path::new("")).to_owned(),
            }),
            (None, Some(found)) if found.parse::<Uuid>().is_err() => {
                Err(ReceiveError::InvalidServerUuid { found: found.clone() })
            }
            (None, Some(found)) => {
                self.source = Some(found.clone());
                self.save()
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use logs::IDENTITY_FILE_NAME;

    use super::ReplicaIdentity;

    #[test]
    fn identity_stays_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let first = ReplicaIdentity::load_or_create_file(directory.path().join(IDENTITY_FILE_NAME)).unwrap();
        let again = ReplicaIdentity::load_or_create_file(directory.path().join(IDENTITY_FILE_NAME)).unwrap();
        assert_eq!((first.server_id, &first.uuid), (again.server_id, &again.uuid));
        assert!(first.server_id >= 1 << 31);
        let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!((files.len(), files[0].metadata().unwrap().permissions().mode() & 0o137), (1, 0));
    }

    #[test]
    fn files_without_identity_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("replica.cnf"), "[replica]\nserver-id=7\n").unwrap();
        let error = ReplicaIdentity::load_or_create_file(directory.path().join(IDENTITY_FILE_NAME))
            .err()
            .unwrap()
            .to_string();
        assert!(error.ends_with("has no server-id and server-uuid: remove the file"), "{error}");
    }
}
