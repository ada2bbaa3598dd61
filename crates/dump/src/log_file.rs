//! A log's file: what it holds comes out in the open, whatever it is under.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use binlog::MAGIC_ENCRYPTED;
use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, FilePassword, Keyring};

use crate::reader::ReadError;

/// A log's file. An encrypted one is decrypted as it is read, so that nothing of it gets to disk in the open; its
/// header is not counted in any place.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: File,
    password: Option<FilePassword>,
    /// It can be read from any place, again and again. A named pipe cannot.
    is_regular: bool,
}

impl LogFile {
    /// Opens a log, and gives what had to be read of it to tell whether it is encrypted.
    ///
    /// # Errors
    ///
    /// When the system refuses, or the keyring does not open the log.
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

    /// A log that is not encrypted.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let is_regular = file.metadata()?.is_file();
        Ok(Self { file, password: None, is_regular })
    }

    /// Can it be read from any place, again and again?
    pub(crate) const fn is_regular(&self) -> bool {
        self.is_regular
    }

    /// Bytes that a regular file has now.
    pub(crate) fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len().saturating_sub(self.head_size()))
    }

    /// Appends up to `count` bytes that come next, at `offset`; fewer only at the end.
    pub(crate) fn read_next(&self, offset: u64, count: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let start = out.len();
        let read = (&self.file).take(count as u64).read_to_end(out);
        self.decrypt(offset, &mut out[start..]);
        read.map(drop)
    }

    /// The bytes at `offset` come next.
    pub(crate) fn seek(&self, offset: u64) -> io::Result<()> {
        (&self.file).seek(SeekFrom::Start(offset.saturating_add(self.head_size()))).map(drop)
    }

    /// Fills `out` with the bytes from `offset` on, whatever comes next.
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

    use super::LogFile;
    use crate::reader::ReadError;

    const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples");

    /// All of a log, read from front to back, and in one piece.
    fn open(log: &str, keyring: &Keyring) -> Result<Vec<u8>, ReadError> {
        let (log, mut bytes) = LogFile::open(format!("{SAMPLES}/{log}").as_bytes(), Some(keyring))?;
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
