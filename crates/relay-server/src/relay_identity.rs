//! Identity of a relay as a server. It stays the same over all runs.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use binlog::gtid::Uuid;
use logs::{open_regular, private_options};

use crate::error::RelayServerError;

/// Identity of a relay as a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelayIdentity {
    pub(crate) server_id: u32,
    pub(crate) server_uuid: String,
}

/// Name of the file in the state directory.
const FILE_NAME: &str = "relay.cnf";

impl RelayIdentity {
    /// Loads the identity, or creates a random one.
    pub(crate) fn load_or_create(folder: &Path) -> Result<Self, RelayServerError> {
        let path = folder.join(FILE_NAME);
        let failed = |verb| {
            let path = path.clone();
            move |cause| RelayServerError::State { verb, path, cause }
        };
        if path.exists() {
            let text = open_regular(&path).and_then(std::io::read_to_string).map_err(failed("read"))?;
            return Self::parse(&text).ok_or(RelayServerError::Identity { path });
        }
        let (mut uuid, mut id) = ([0; 16], [0; 4]);
        getrandom::fill(&mut uuid)?;
        getrandom::fill(&mut id)?;
        // The highest bit avoids the small numbers that people assign to servers.
        let server_id = u32::from_le_bytes(id) | 1 << 31;
        let identity = Self { server_id, server_uuid: Uuid::from_bytes(uuid).to_string() };
        let text = format!("[relay]\nserver-id={server_id}\nserver-uuid={}\n", identity.server_uuid);
        let unfinished = path.with_extension("new");
        let mut file =
            private_options().write(true).truncate(true).open(&unfinished).map_err(failed("create"))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write"))?;
        fs::rename(&unfinished, &path).map_err(failed("write"))?;
        Ok(identity)
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let server_id = value("server-id")?.parse().ok().filter(|id| *id > 0)?;
        Some(Self { server_id, server_uuid: value("server-uuid")?.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::RelayIdentity;

    #[test]
    fn an_identity_stays() {
        let folder = tempfile::tempdir().unwrap();
        let identity = RelayIdentity::load_or_create(folder.path()).unwrap();
        assert_eq!(RelayIdentity::load_or_create(folder.path()).unwrap(), identity);
        std::fs::write(folder.path().join("relay.cnf"), "[relay]\nserver-id=0\n").unwrap();
        assert!(RelayIdentity::load_or_create(folder.path()).is_err());
    }
}
