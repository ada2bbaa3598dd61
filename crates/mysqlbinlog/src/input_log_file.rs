//! The file of a log, decrypted if the log is encrypted.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use binlog::MAGIC_ENCRYPTED;
use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, FilePassword, Keyring};

use crate::read_error::ReadError;

/// The file of a log. An encrypted log is decrypted in memory as it is read, so that no plaintext reaches the disk.
/// Offsets do not count its encryption header.
#[derive(Debug)]
pub(crate) struct InputLogFile {
    file: File,
    password: Option<FilePassword>,
    /// The file supports reading at any offset. A named pipe does not.
    is_regular: bool,
}

impl InputLogFile {
    /// Opens a log. Returns the bytes read to find out whether it is encrypted, if they belong to the log.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened or read, or the keyring cannot decrypt the log.
    pub(crate) fn open(name: &[u8], keyring: Option<&Keyring>) -> Result<(Self, Vec<u8>), ReadError> {
        let file = File::open(Path::new(OsStr::from_bytes(name))).map_err(ReadError::Open)?;
        let mut log = Self::new(file).map_err(ReadError::Open)?;
        let Some(keyring) = keyring else { return Ok((log, Vec::new())) };
        let mut head = Vec::with_capacity(ENCRYPTED_HEADER_SIZE);
        log.read_next(0, ENCRYPTED_HEADER_SIZE, &mut head).map_err(ReadError::Open)?;
        if !head.starts_with(&MAGIC_ENCRYPTED) {
            return Ok((log, head));
        }
        let head = head.first_chunk().ok_or(ReadError::ENCRYPTION_HEADER)?;
        let header = EncryptedHeader::decode(head).map_err(|_| ReadError::ENCRYPTION_HEADER)?;
        log.password = Some(header.open(keyring).map_err(|_| ReadError::NO_PASSWORD)?);
        Ok((log, Vec::new()))
    }

    /// Creates a log that is not encrypted.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let is_regular = file.metadata()?.is_file();
        Ok(Self { file, password: None, is_regular })
    }

    /// Returns whether the file supports reading at any offset.
    pub(crate) const fn is_regular(&self) -> bool {
        self.is_regular
    }

    /// Returns the current size of a regular file, in bytes.
    pub(crate) fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len().saturating_sub(self.head_size()))
    }

    /// Appends up to `count` bytes from the file's position, which is `offset`. Returns fewer only at the end.
    pub(crate) fn read_next(&self, offset: u64, count: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let start = out.len();
        let read = (&self.file).take(count as u64).read_to_end(out);
        self.decrypt(offset, &mut out[start..]);
        read.map(drop)
    }

    /// Sets the position of the next [`read_next`](Self::read_next).
    pub(crate) fn seek(&self, offset: u64) -> io::Result<()> {
        (&self.file).seek(SeekFrom::Start(offset.saturating_add(self.head_size()))).map(drop)
    }

    /// Fills `out` with the bytes at `offset`, without moving the position.
    pub(crate) fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset.saturating_add(self.head_size()))?;
        self.decrypt(offset, out);
        Ok(())
    }

    fn head_size(&self) -> u64 {
        if self.password.is_some() { ENCRYPTED_HEADER_SIZE as u64 } else { 0 }
    }

    fn decrypt(&self, offset: u64, bytes: &mut [u8]) {
        if let Some(password) = &self.password {
            password.cipher().apply(offset, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use binlog::MAGIC;
    use binlog::encryption::Keyring;

    use super::InputLogFile;
    use crate::read_error::ReadError;

    const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples");

    /// Reads all of a log, first in pieces and then at once.
    fn open(log: &str, keyring: &Keyring) -> Result<Vec<u8>, ReadError> {
        let (log, mut bytes) = InputLogFile::open(format!("{SAMPLES}/{log}").as_bytes(), Some(keyring))?;
        while let before = bytes.len() as u64
            && before < log.size().unwrap()
        {
            log.read_next(before, 700, &mut bytes).unwrap();
        }
        let mut again = vec![0; bytes.len()];
        log.read_exact_at(0, &mut again).unwrap();
        assert!(again == bytes);
        log.seek(10).unwrap();
        let mut part = Vec::new();
        log.read_next(10, 90, &mut part).unwrap();
        assert_eq!(part, bytes[10..100]);
        assert!(log.read_exact_at(bytes.len() as u64 - 1, &mut [0; 2]).is_err());
        Ok(bytes)
    }

    #[test]
    fn encrypted_logs_are_decrypted_and_others_unchanged() {
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
    fn a_missing_key_is_reported() {
        let error = open("encrypted/binlog.000001", &Keyring::new(Vec::new())).unwrap_err();
        assert!(error.text().contains("Cannot get file password"), "{}", error.text());
    }
}
