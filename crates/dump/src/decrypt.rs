//! Encrypted logs, put in the open for a reader that goes back and forth in them.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use binlog::MAGIC_ENCRYPTED;
use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, Keyring};

use crate::reader::ReadError;

/// What is decrypted at once.
const STEP: usize = 1 << 20;

/// The log in `file`, in the open: the file itself, or, when it is encrypted, a temporary file without a name.
///
/// # Errors
///
/// When the system refuses, or the keyring does not open the log.
pub(crate) fn decrypted(mut file: File, keyring: &Keyring) -> Result<File, ReadError> {
    let mut head = Vec::with_capacity(ENCRYPTED_HEADER_SIZE);
    (&mut file).take(ENCRYPTED_HEADER_SIZE as u64).read_to_end(&mut head).map_err(ReadError::Open)?;
    if !head.starts_with(&MAGIC_ENCRYPTED) {
        file.rewind().map_err(ReadError::Open)?;
        return Ok(file);
    }
    let head = head.first_chunk().ok_or(ReadError::ENCRYPTION_HEADER)?;
    let header = EncryptedHeader::decode(head).map_err(|_| ReadError::ENCRYPTION_HEADER)?;
    let mut cipher = header.open(keyring).map_err(|_| ReadError::NO_PASSWORD)?.cipher();
    copy(&mut file, |offset, bytes| cipher.apply(offset, bytes)).map_err(ReadError::Open)
}

fn copy(from: &mut File, mut decrypt: impl FnMut(u64, &mut [u8])) -> io::Result<File> {
    let mut to = tempfile::tempfile()?;
    let (mut offset, mut bytes) = (0, Vec::with_capacity(STEP));
    while (&mut *from).take(STEP as u64).read_to_end(&mut bytes)? > 0 {
        decrypt(offset, &mut bytes);
        to.write_all(&bytes)?;
        offset += bytes.len() as u64;
        bytes.clear();
    }
    to.rewind()?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use binlog::MAGIC;
    use binlog::encryption::Keyring;

    use super::decrypted;
    use crate::reader::ReadError;

    const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples");

    fn open(log: &str, keyring: &Keyring) -> Result<Vec<u8>, ReadError> {
        let mut file = decrypted(File::open(format!("{SAMPLES}/{log}")).unwrap(), keyring)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        Ok(bytes)
    }

    #[test]
    fn an_encrypted_log_comes_out_in_the_open_and_another_as_it_is() {
        let keyring = std::fs::read(format!("{SAMPLES}/encrypted/keyring")).unwrap();
        let keyring = Keyring::parse(&keyring).unwrap();
        let sealed = std::fs::metadata(format!("{SAMPLES}/encrypted/binlog.000001")).unwrap().len();
        let opened = open("encrypted/binlog.000001", &keyring).unwrap();
        assert!(opened.starts_with(&MAGIC));
        assert_eq!(opened.len() as u64 + 512, sealed);
        let plain = std::fs::read(format!("{SAMPLES}/types.binlog")).unwrap();
        assert!(open("types.binlog", &keyring).unwrap() == plain);
    }

    #[test]
    fn a_keyring_without_the_key_is_named() {
        let error = open("encrypted/binlog.000001", &Keyring::new(Vec::new())).unwrap_err();
        assert!(error.text().contains("Cannot get file password"), "{}", error.text());
    }
}
