//! Reads keyring files, and opens encrypted logs with their keys.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, FilePassword, Keyring};

use crate::error::LogError;
use crate::log_reader::LogReader;

/// Largest keyring file in bytes: a thousand keys take less than a mebibyte.
const KEYRING_SIZE_MAX: u64 = 64 << 20;

/// Reads a keyring file: the data file of `component_keyring_file` or of the old plugin `keyring_file`.
///
/// # Errors
///
/// If the file cannot be read, or is not a keyring.
pub fn read_keyring(path: impl AsRef<Path>) -> Result<Keyring, LogError> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(KEYRING_SIZE_MAX).read_to_end(&mut bytes));
    read.map_err(|cause| LogError::io(LogError::READ_KEYRING, &name, cause))?;
    Keyring::parse(&bytes).map_err(|error| LogError::InvalidKeyring { name, error })
}

/// Opens a log, with the keys of the keyring file if one is given. The file is read again for each log, because keys
/// are rotated.
pub(crate) fn open_log(log: &Path, keyring: Option<&Path>) -> Result<LogReader, LogError> {
    let reader = LogReader::open_stored(log)?;
    Ok(match keyring {
        Some(keyring) => reader.with_keyring(Arc::new(read_keyring(keyring)?)),
        None => reader,
    })
}

/// Returns the password of the encrypted log of this name, and the name of the key that encrypts the password.
pub(crate) fn open_header(
    name: &str,
    header: &[u8; ENCRYPTED_HEADER_SIZE],
    keyring: Option<&Keyring>,
) -> Result<(FilePassword, String), LogError> {
    let name = || name.to_owned();
    let header = EncryptedHeader::decode(header).map_err(|error| LogError::Corrupt {
        name: name(),
        offset: 0,
        error,
    })?;
    let key_id = String::from_utf8_lossy(header.key_id()).into_owned();
    let Some(keyring) = keyring else { return Err(LogError::KeyringRequired { name: name(), key_id }) };
    let password = header.open(keyring).map_err(|error| LogError::MissingKey { name: name(), error })?;
    Ok((password, key_id))
}
