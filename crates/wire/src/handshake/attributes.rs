//! Connection attributes.

use binlog::{Cursor, DecodeError};

use crate::error::WireError;

/// Attributes with which a client describes itself, such as `program_name` and `_client_version`.
///
/// Replicas and mysqlbinlog send `_client_role` with the value `binary_log_listener`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionAttributes {
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ConnectionAttributes {
    /// Decodes the attributes of a [`LoginRequest`](crate::LoginRequest).
    ///
    /// # Errors
    ///
    /// Fails if a name or a value is truncated.
    // size  field
    //  for each attribute
    //    *  name: lenenc size, then the bytes
    //    *  value: lenenc size, then the bytes
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(bytes);
        let mut attributes = Vec::new();
        while !cursor.is_empty() {
            let attribute: Result<_, DecodeError> =
                cursor.lenenc_bytes().and_then(|name| Ok((name.to_vec(), cursor.lenenc_bytes()?.to_vec())));
            attributes.push(attribute.map_err(WireError::packet("connection attributes"))?);
        }
        Ok(Self { attributes })
    }

    /// Returns the value of an attribute. The client may send any text.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let found = self.attributes.iter().find(|(known, _)| known == name.as_bytes());
        found.map(|(_, value)| value.as_slice())
    }

    /// Returns names and values, in the order in which the client sent them.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.attributes.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }
}
