//! Reads keyring files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use binlog::encryption::Keyring;

use crate::error::Error;

/// No keyring is larger: a thousand keys take less than a mebibyte.
const KEYRING_SIZE_MAX: u64 = 64 << 20;

/// Reads a keyring file: the data file of `component_keyring_file` or of the old plugin `keyring_file`.
///
/// # Errors
///
/// When the system refuses, or when the file is no keyring.
pub fn read_keyring(path: impl AsRef<Path>) -> Result<Keyring, Error> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(KEYRING_SIZE_MAX).read_to_end(&mut bytes));
    read.map_err(|cause| Error::io("read the keyring", &name, cause))?;
    Keyring::parse(&bytes).map_err(|error| Error::Keyring { name, error })
}
