//! Errors of encrypted objects.

use binlog::encryption::EncryptionKeyError;

/// Reason why an object of an archive cannot be decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptedObjectError {
    /// No keyring was given.
    #[error("it is encrypted with the key {key_id}. Give the keyring file that has this key (--keyring)")]
    KeyringRequired {
        /// Name of the key.
        key_id: String,
    },
    /// The keyring lacks the key.
    #[error("{0}. Give the keyring file with which the archive was encrypted (--keyring)")]
    Key(EncryptionKeyError),
    /// The keyring has another key of this name.
    #[error(
        "it is encrypted with the key {key_id}, and the keyring has a different key with this name. Give the keyring \
         file with which the archive was encrypted (--keyring)"
    )]
    WrongKey {
        /// Name of the key.
        key_id: String,
    },
    /// The object is plain.
    #[error("it is not encrypted, and its manifest says that it is: another program has replaced it")]
    NotEncrypted,
    /// A later version wrote the object.
    #[error(
        "its encryption has format {found}, and this version reads format {expected}: use a later version of bintide"
    )]
    Version {
        /// Format of the object.
        found: u8,
        /// Format that this version reads.
        expected: u8,
    },
    /// The head is damaged, or that of another object.
    #[error("its head is damaged, or it was stored under another name: {what}")]
    Head {
        /// Description of the damage.
        what: &'static str,
    },
    /// The size is not that of an encrypted object.
    #[error("it is truncated: it has {size} bytes, and its last chunk is incomplete")]
    Truncated {
        /// Size in bytes.
        size: u64,
    },
    /// A chunk is damaged, or was moved.
    #[error(
        "its chunk {number} (bytes {start} to {end}) is damaged, or was moved from another position or another object, \
         or the object is truncated"
    )]
    Chunk {
        /// Number of the chunk, from 0.
        number: u64,
        /// Position of its first byte in the stored object.
        start: u64,
        /// Position after its last byte.
        end: u64,
    },
}

impl EncryptedObjectError {
    /// Returns whether the key is missing or wrong. Otherwise the object is damaged.
    pub const fn is_key_error(&self) -> bool {
        matches!(self, Self::KeyringRequired { .. } | Self::Key(_) | Self::WrongKey { .. })
    }
}
