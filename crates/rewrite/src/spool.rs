//! Bytes that wait to be handed on: in memory, and when they become many, in a file that nobody else can read.

use std::io::{self, Read, Seek, Write};
use std::path::Path;

use binlog::encryption::{FilePassword, LogCipher};
use tempfile::SpooledTempFile;

use crate::error::Error;

/// More bytes go to disk.
const MEMORY_MAX: usize = 16 * 1024 * 1024;

/// Bytes that wait to be handed on.
///
/// What goes to disk is encrypted under a password that is nowhere but here: logs hold what they were told in
/// confidence, and the file's blocks outlive it.
pub(crate) struct Spool {
    file: SpooledTempFile,
    cipher: LogCipher,
    size: u64,
    /// Bytes handed on.
    taken: u64,
    scratch: Vec<u8>,
    folder: String,
}

impl Spool {
    /// An empty one, whose file would be in `folder`. The file has no name and is gone with the process.
    pub(crate) fn new_in(folder: &Path) -> Result<Self, Error> {
        Self::with_memory(MEMORY_MAX, folder)
    }

    fn with_memory(memory_max: usize, folder: &Path) -> Result<Self, Error> {
        let name = folder.display().to_string();
        let mut password = [0; 32];
        getrandom::fill(&mut password).map_err(|cause| failed(&name, io::Error::other(cause)))?;
        let file = SpooledTempFile::new_in(memory_max, folder);
        let cipher = FilePassword::new(password).cipher();
        Ok(Self { file, cipher, size: 0, taken: 0, scratch: Vec::new(), folder: name })
    }

    /// How many bytes went in.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Takes more.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes);
        self.cipher.apply(self.size, &mut self.scratch);
        self.file.write_all(&self.scratch).map_err(|cause| failed(&self.folder, cause))?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// All of them are in: the first are next.
    pub(crate) fn turn(&mut self) -> Result<(), Error> {
        self.taken = 0;
        self.file.rewind().map_err(|cause| failed(&self.folder, cause))
    }

    /// The next ones, `count` at most; none behind the last.
    pub(crate) fn next(&mut self, count: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(count.min((self.size - self.taken) as usize));
        let read = (&mut self.file).take(count as u64).read_to_end(&mut bytes);
        read.map_err(|cause| failed(&self.folder, cause))?;
        self.cipher.apply(self.taken, &mut bytes);
        self.taken += bytes.len() as u64;
        Ok(bytes)
    }
}

fn failed(folder: &str, cause: io::Error) -> Error {
    Error::Write { what: format!("a payload to a temporary file in {folder}"), cause }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::Spool;

    #[test]
    fn what_goes_to_disk_comes_back_and_is_not_readable_there() {
        let text = b"insert into accounts values (1, 'nobody must see this')".repeat(100);
        for memory_max in [0, 100, 1 << 20] {
            let mut spool = Spool::with_memory(memory_max, &std::env::temp_dir()).unwrap();
            text.chunks(77).for_each(|piece| spool.push(piece).unwrap());
            assert_eq!((spool.size(), spool.file.is_rolled()), (text.len() as u64, memory_max < text.len()));
            let mut on_disk = Vec::new();
            spool.file.rewind().unwrap();
            spool.file.read_to_end(&mut on_disk).unwrap();
            assert_eq!(on_disk.len(), text.len());
            assert!(!on_disk.windows(4).any(|part| part == b"must"));
            spool.turn().unwrap();
            let mut back = Vec::new();
            loop {
                match spool.next(1000).unwrap() {
                    bytes if bytes.is_empty() => break,
                    bytes => back.extend(bytes),
                }
            }
            assert!(back == text);
        }
    }
}
