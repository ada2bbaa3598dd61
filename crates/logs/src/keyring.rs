//! Reads keyring files, and opens encrypted logs with their keys.

use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, FilePassword, Keyring};

use crate::error::LogError;
use crate::log_reader::LogReader;
use crate::regular_file::open_regular;

/// Maximum size of a keyring file in bytes: a thousand keys take less than a mebibyte.
const KEYRING_SIZE_MAX: u64 = 64 << 20;

/// Time for which an invalid keyring file is read again: a server overwrites the file when it rotates a key.
const REWRITE_TIMEOUT: Duration = Duration::from_millis(300);
/// Pause before an invalid keyring file is read again.
const REWRITE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Reads a keyring file: the data file of `component_keyring_file` or of the old plugin `keyring_file`.
///
/// # Errors
///
/// Fails if the file cannot be read, is not a regular file, or is not a keyring.
pub fn read_keyring(path: impl AsRef<Path>) -> Result<Keyring, LogError> {
    let begun = Instant::now();
    loop {
        match read_keyring_once(path.as_ref()) {
            Err(LogError::InvalidKeyring { .. }) if begun.elapsed() < REWRITE_TIMEOUT => {
                thread::sleep(REWRITE_POLL_INTERVAL);
            }
            read => return read,
        }
    }
}

fn read_keyring_once(path: &Path) -> Result<Keyring, LogError> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    // Refuse a pipe: it could block forever, and would be empty when the keyring is read again for the next log.
    let read = open_regular(path).and_then(|file| file.take(KEYRING_SIZE_MAX).read_to_end(&mut bytes));
    read.map_err(|cause| LogError::io(LogError::READ_KEYRING, &name, cause))?;
    Keyring::parse(&bytes).map_err(|error| LogError::InvalidKeyring { name, error })
}

/// Opens a stored log, with the keys of the keyring file if one is given.
pub(crate) fn open_log(log: &Path, keyring: Option<&Path>) -> Result<LogReader, LogError> {
    LogReader::open_stored(log)?.with_keyring_file(keyring)
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

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::{REWRITE_POLL_INTERVAL, read_keyring};

    #[test]
    fn a_keyring_that_a_server_overwrites_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keyring");
        fs::write(&path, "").unwrap();
        assert!(read_keyring(&path).is_err());
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(REWRITE_POLL_INTERVAL);
                fs::write(&path, r#"{"version":"1.0","elements":[]}"#).unwrap();
            });
            assert_eq!(read_keyring(&path).map(drop).map_err(|error| error.to_string()), Ok(()));
        });
    }

    #[test]
    fn a_pipe_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("keyring");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let error = read_keyring(&pipe).unwrap_err();
        assert!(error.is_keyring_error(), "{error}");
        assert!(error.to_string().contains("it is not a regular file"), "{error}");
    }
}
