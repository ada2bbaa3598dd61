//! Who a store is to its source, and whose logs it has: the same each time.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use binlog::gtid::Uuid;
use logs::{StoreWriter, open_regular, private_options, sync_parent};
use wire::SourceFacts;

/// Where a store keeps it.
const FILE: &str = "replica.cnf";

/// Who a store is to its source, and whose logs it has.
pub(super) struct Identity {
    path: PathBuf,
    pub(super) server_id: u32,
    pub(super) uuid: String,
    /// The source's `server_uuid`; a MariaDB has none.
    source: Option<String>,
}

impl Identity {
    /// As the store has it; drawn anew for a new one, with which it goes if nothing is received.
    pub(super) fn of(folder: &Path, store: &mut StoreWriter) -> Result<Self, anyhow::Error> {
        let path = folder.join(FILE);
        if !path.exists() {
            store.goes_with(&path);
        }
        Self::at(path)
    }

    fn at(path: PathBuf) -> Result<Self, anyhow::Error> {
        if path.exists() {
            let text = open_regular(&path).and_then(io::read_to_string);
            let text = text.with_context(|| format!("could not read {}", path.display()))?;
            return Self::parse(&text, path);
        }
        let (mut uuid, mut id) = ([0; 16], [0; 4]);
        getrandom::fill(&mut uuid).and_then(|()| getrandom::fill(&mut id)).context("draw a UUID")?;
        // Far from the small numbers that people give their servers.
        let server_id = u32::from_le_bytes(id) | 1 << 31;
        let identity = Self { path, server_id, uuid: Uuid::from_bytes(uuid).to_string(), source: None };
        identity.save()?;
        Ok(identity)
    }

    fn parse(text: &str, path: PathBuf) -> Result<Self, anyhow::Error> {
        let value = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
        };
        let server_id = value("server-id").and_then(|id| id.parse().ok());
        match (server_id, value("server-uuid")) {
            (Some(server_id), Some(uuid)) => Ok(Self { path, server_id, uuid, source: value("source-uuid") }),
            _ => bail!("{} has no server-id and server-uuid: remove it", path.display()),
        }
    }

    /// Whoever reads it finds the old text or the new one, also behind a crash of the machine.
    fn save(&self) -> Result<(), anyhow::Error> {
        let source = self.source.iter().map(|uuid| format!("source-uuid={uuid}\n")).collect::<String>();
        let text = format!("[replica]\nserver-id={}\nserver-uuid={}\n{source}", self.server_id, self.uuid);
        let new = self.path.with_extension("new");
        let write = || {
            let mut file = private_options().write(true).truncate(true).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            sync_parent(&self.path)
        };
        let written: io::Result<()> = write();
        if written.is_err() {
            // There may not even be one.
            let _ = fs::remove_file(&new);
        }
        written.with_context(|| format!("could not write {}", self.path.display()))
    }

    /// The `server_uuid` of the server that the store began with.
    pub(super) fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Is this the server whose logs come next: that of this `server_uuid`, or else the one that the store began with? The
    /// first one is kept in mind.
    pub(super) fn check_source(
        &mut self,
        facts: &SourceFacts,
        later: Option<&str>,
    ) -> Result<(), anyhow::Error> {
        match (later.or(self.source.as_deref()), &facts.server_uuid) {
            (Some(wanted), Some(found)) if found != wanted => Err(anyhow!(
                "the source's server_uuid is {found}, and the logs in {} are those of {wanted}: receive from \
                 another server into another directory, or give both with --from if it took the place of that one",
                self.path.parent().unwrap_or(Path::new("")).display()
            )),
            (None, Some(found)) if found.parse::<Uuid>().is_err() => {
                Err(anyhow!("the source's server_uuid is {found:?}, which is no UUID"))
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

    use super::{FILE, Identity};

    #[test]
    fn who_a_store_is_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let first = Identity::at(folder.path().join(FILE)).unwrap();
        let again = Identity::at(folder.path().join(FILE)).unwrap();
        assert_eq!((first.server_id, &first.uuid), (again.server_id, &again.uuid));
        assert!(first.server_id >= 1 << 31);
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!((files.len(), files[0].metadata().unwrap().permissions().mode() & 0o137), (1, 0));
    }

    #[test]
    fn a_file_without_it_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("replica.cnf"), "[replica]\nserver-id=7\n").unwrap();
        let error = Identity::at(folder.path().join(FILE)).err().unwrap().to_string();
        assert!(error.ends_with("has no server-id and server-uuid: remove it"), "{error}");
    }
}
