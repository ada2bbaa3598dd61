//! Identity of a program in replication, like that of a server.

use std::fmt;

use binlog::gtid::Uuid;

/// Identity of a program in replication. Created at random, and saved, so that it stays the same over all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// `server_id`, more than 0.
    pub server_id: u32,
    /// `server_uuid`
    pub server_uuid: String,
}

impl ServerIdentity {
    /// Creates a random identity.
    ///
    /// # Errors
    ///
    /// Fails if the system has no random numbers.
    pub fn random() -> Result<Self, getrandom::Error> {
        let (mut uuid, mut id) = ([0; 16], [0; 4]);
        getrandom::fill(&mut uuid)?;
        getrandom::fill(&mut id)?;
        // The highest bit avoids the small numbers that people assign to servers.
        let server_id = u32::from_le_bytes(id) | 1 << 31;
        Ok(Self { server_id, server_uuid: Uuid::from_bytes(uuid).to_string() })
    }

    /// Reads the identity from the lines of a file; `None` if it has none.
    pub fn parse(text: &str) -> Option<Self> {
        let server_id = Self::value(text, "server-id")?.parse().ok().filter(|id| *id > 0)?;
        Some(Self { server_id, server_uuid: Self::value(text, "server-uuid")?.to_owned() })
    }

    /// Returns the value of a name in the lines of a file.
    pub fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Writes the lines that [`ServerIdentity::parse`] reads.
impl fmt::Display for ServerIdentity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server_id, server_uuid } = self;
        writeln!(out, "server-id={server_id}\nserver-uuid={server_uuid}")
    }
}

#[cfg(test)]
mod tests {
    use super::ServerIdentity;

    #[test]
    fn an_identity_is_written_and_read() {
        let identity = ServerIdentity::random().unwrap();
        assert!(identity.server_id >= 1 << 31);
        let text = format!("[replica]\n{identity}source-uuid=x\n");
        assert_eq!(ServerIdentity::parse(&text), Some(identity));
        assert_eq!(ServerIdentity::value(&text, "source-uuid"), Some("x"));
        for wrong in ["", "server-id=7\n", "server-id=0\nserver-uuid=a\n", "server-id=x\nserver-uuid=a\n"] {
            assert_eq!(ServerIdentity::parse(wrong), None);
        }
    }
}
