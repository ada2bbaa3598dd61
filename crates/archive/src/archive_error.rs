//! Errors of archives.

use std::io;

use binlog::DecodeError;
use binlog::encryption::EncryptionKeyError;
use logs::LogError;
use logs::ordered::PipelineShutdown;

use crate::encrypted_object_error::EncryptedObjectError;
use crate::master_key::NoMasterKey;
use crate::segment_error::SegmentError;

/// Error with an archive or one of its logs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The segment is damaged.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Bytes cannot be read.
    #[error("could not read: {cause}")]
    Read {
        /// Cause.
        cause: io::Error,
    },
    /// zstd fails.
    #[error("could not compress: zstd: {why}. Free memory, or archive on a machine with more memory")]
    Compress {
        /// Error of zstd.
        why: &'static str,
    },
    /// Bytes cannot be written.
    #[error("could not write {name}: {cause}")]
    Write {
        /// File.
        name: String,
        /// Cause.
        cause: io::Error,
    },
    /// A log of a store cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The header of an encrypted log is invalid.
    #[error("the header of the encrypted log is invalid: {error}")]
    Header {
        /// Cause.
        error: DecodeError,
    },
    /// The key of an encrypted log is missing.
    #[error("could not decrypt: {error}")]
    Key {
        /// Cause.
        error: EncryptionKeyError,
    },
    /// An encrypted log is to be restored, and no key is given.
    #[error("{name} was encrypted: restoring it byte for byte requires its key")]
    KeyringRequired {
        /// Log.
        name: String,
    },
    /// The keyring has another key than the server that wrote the log.
    #[error("the log was encrypted with the key {key_id}: the keyring has a different key with this name")]
    WrongKey {
        /// Name of the key.
        key_id: String,
    },
    /// An object cannot be decrypted.
    #[error("could not decrypt {name}: {error}")]
    EncryptedObject {
        /// Object, with the location of the archive.
        name: String,
        /// Cause.
        error: EncryptedObjectError,
    },
    /// The keyring has no key that can encrypt an archive.
    #[error("the key for the archive is missing: {error}")]
    NoMasterKey {
        /// Cause.
        error: NoMasterKey,
    },
    /// An archive is encrypted, and a log is to be added without encryption.
    #[error("the archive {location} is encrypted, and this log would be stored in plain")]
    EncryptionRequired {
        /// Location of the archive.
        location: String,
    },
    /// The location of an archive is invalid.
    #[error("{location} is not a directory or the URL of an object store: {why}")]
    Location {
        /// Location as given.
        location: String,
        /// Cause.
        why: String,
    },
    /// The object store refuses or fails.
    #[error("could not {verb} {name}: {cause}")]
    Storage {
        /// Failed operation, as a verb.
        verb: &'static str,
        /// Object.
        name: String,
        /// Cause.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A manifest cannot be read.
    #[error("the manifest {name} is invalid: {why}; to archive the log again, delete this manifest first")]
    Manifest {
        /// Object.
        name: String,
        /// Cause.
        why: String,
    },
    /// The archive has another log of this name.
    #[error("{name} is already archived with different content: choose another prefix for this server")]
    OtherLog {
        /// Log.
        name: String,
    },
    /// The log was deleted from the archive while something was added to it.
    #[error("{name} was deleted from the archive meanwhile: to archive it again, run the same command again")]
    Deleted {
        /// Log.
        name: String,
    },
    /// The log changed while it was read.
    #[error("{name} changed while it was archived: archive it once its server has closed it")]
    Changed {
        /// Log.
        name: String,
    },
    /// No manifest names the log: it was removed from the archive.
    #[error("the archive no longer has the log {name}")]
    UnknownLog {
        /// Log.
        name: String,
    },
    /// The segment of a manifest is not in the archive.
    #[error("the archive has no segment {name}, which a manifest names")]
    MissingSegment {
        /// Object.
        name: String,
    },
    /// The change tables of a log cannot be written.
    #[error("could not write change tables: {cause}")]
    Tables {
        /// Cause.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file of a change table is missing or damaged.
    #[error("the change table {name} {what}")]
    Table {
        /// Object.
        name: String,
        /// Difference to the manifest, as a verb.
        what: &'static str,
    },
    /// The run was stopped.
    #[error("interrupted")]
    Interrupted,
    /// The pipeline ended because of another error.
    #[error(transparent)]
    Shutdown(#[from] PipelineShutdown),
}

impl ArchiveError {
    /// Returns whether the manifest of one log is damaged, which concerns no other log.
    pub const fn is_damaged_manifest(&self) -> bool {
        match self {
            Self::Manifest { .. } => true,
            Self::EncryptedObject { error, .. } => !error.is_key_error(),
            _ => false,
        }
    }

    /// Returns whether a key with which the archive is encrypted is missing or wrong.
    pub const fn is_key_error(&self) -> bool {
        match self {
            Self::EncryptedObject { error, .. } => error.is_key_error(),
            Self::NoMasterKey { .. } | Self::EncryptionRequired { .. } => true,
            _ => false,
        }
    }
}
