//! Identity of a relay as a server. Stays the same over all runs.

use std::path::Path;

use binlog::gtid::Uuid;
use logs::{FileAccess, ServerIdentity, open_regular, replace_file};

use crate::error::RelayServerError;

/// Name of the file in the state directory.
const FILE_NAME: &str = "relay.cnf";

/// Loads the identity of a relay, or creates a random identity.
pub(crate) fn load_or_create_identity(directory: &Path) -> Result<ServerIdentity, RelayServerError> {
    let path = directory.join(FILE_NAME);
    let failed = |verb| {
        let path = path.clone();
        move |cause| RelayServerError::State { verb, path, cause }
    };
    if path.exists() {
        let text = open_regular(&path).and_then(std::io::read_to_string).map_err(failed("read"))?;
        return ServerIdentity::parse(&text).ok_or(RelayServerError::Identity { path });
    }
    let identity = ServerIdentity::random()?;
    let text = format!("[relay]\n{identity}");
    replace_file(&path, text.as_bytes(), FileAccess::Private).map_err(failed("write"))?;
    Ok(identity)
}

/// Returns the `server_uuid` of the server whose data directory this is; `None` for another directory.
pub(crate) fn server_uuid_of(directory: &Path) -> Option<Uuid> {
    let text = open_regular(&directory.join("auto.cnf")).and_then(std::io::read_to_string).ok()?;
    ServerIdentity::value(&text, "server-uuid")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{load_or_create_identity, server_uuid_of};

    #[test]
    fn the_uuid_of_a_server_is_in_its_data_directory() {
        let directory = tempfile::tempdir().unwrap();
        let uuid = "5ea5ca5e-0001-4000-8000-000000000001";
        assert_eq!(server_uuid_of(directory.path()), None);
        std::fs::write(directory.path().join("auto.cnf"), format!("[auto]\nserver-uuid={uuid}\n")).unwrap();
        assert_eq!(server_uuid_of(directory.path()), uuid.parse().ok());
    }

    #[test]
    fn the_identity_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let identity = load_or_create_identity(directory.path()).unwrap();
        assert_eq!(load_or_create_identity(directory.path()).unwrap(), identity);
        std::fs::write(directory.path().join("relay.cnf"), "[relay]\nserver-id=0\n").unwrap();
        assert!(load_or_create_identity(directory.path()).is_err());
    }
}
