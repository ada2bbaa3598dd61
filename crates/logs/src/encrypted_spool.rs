//! Temporary storage of bytes: in memory, and beyond a limit in an encrypted file.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use crate::mutex_lock::lock;

use binlog::encryption::{FilePassword, LogCipher};
use tempfile::SpooledTempFile;

use crate::temporary_space::TemporarySpace;

/// Number of bytes encrypted at once. Bounds the memory of the copy.
const CIPHER_STEP_SIZE: usize = 256 << 10;

/// Temporary storage of bytes, which any thread can read from any offset.
///
/// Bytes on disk are encrypted with a random password that exists only in memory: logs hold confidential data, and the
/// blocks of a deleted file can remain on the disk.
pub struct EncryptedSpool {
    stored: Mutex<SpoolState>,
    password: FilePassword,
}

struct SpoolState {
    file: SpooledTempFile,
    cipher: LogCipher,
    size: u64,
    /// Number of bytes that stay in memory.
    memory_max: u64,
    reservation: TemporarySpace,
    scratch: Vec<u8>,
}

impl EncryptedSpool {
    /// Creates an empty spool. Beyond `memory_max` bytes, the bytes go to an unnamed file in `directory`. The file
    /// disappears when the process ends.
    ///
    /// # Errors
    ///
    /// Fails if the system has no random bytes for the password.
    pub fn new_in(directory: &Path, memory_max: usize) -> io::Result<Self> {
        let mut password = [0; 32];
        getrandom::fill(&mut password).map_err(io::Error::other)?;
        let password = FilePassword::new(password);
        let (file, cipher) = (SpooledTempFile::new_in(memory_max, directory), password.cipher());
        let (memory_max, reservation) = (memory_max as u64, TemporarySpace::new(directory));
        let stored = SpoolState { file, cipher, size: 0, memory_max, reservation, scratch: Vec::new() };
        let stored = Mutex::new(stored);
        Ok(Self { stored, password })
    }

    /// Returns the number of stored bytes.
    pub fn size(&self) -> u64 {
        self.lock_state().size
    }

    /// Appends bytes, and returns the offset of the first byte.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created or written, or the process's temporary files would exceed their limit
    /// ([`limit_temporary_files`](crate::limit_temporary_files)). Earlier bytes are not lost.
    pub fn push(&self, bytes: &[u8]) -> io::Result<u64> {
        let mut stored = self.lock_state();
        let SpoolState { file, cipher, size, memory_max, reservation, scratch } = &mut *stored;
        let start = *size;
        let end = start + bytes.len() as u64;
        if end > *memory_max {
            reservation.grow(end)?;
        }
        file.seek(SeekFrom::Start(start))?;
        for (step, offset) in bytes.chunks(CIPHER_STEP_SIZE).zip((start..).step_by(CIPHER_STEP_SIZE)) {
            scratch.clear();
            scratch.extend_from_slice(step);
            cipher.apply(offset, scratch);
            file.write_all(scratch)?;
        }
        assert!(scratch.len() <= CIPHER_STEP_SIZE, "ours: bytes are encrypted in steps of limited size");
        *size = end;
        Ok(start)
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or has too few bytes.
    pub fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut stored = self.lock_state();
        stored.file.seek(SeekFrom::Start(offset))?;
        stored.file.read_exact(out)?;
        drop(stored);
        self.password.cipher().apply(offset, out);
        Ok(())
    }

    /// Locks the state. A panic in another thread leaves the state consistent, because the size grows last.
    fn lock_state(&self) -> MutexGuard<'_, SpoolState> {
        lock(&self.stored)
    }
}

impl fmt::Debug for EncryptedSpool {
    /// Shows the size, but no content.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EncryptedSpool").field("size", &self.size()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _, Seek as _};
    use std::path::Path;

    use super::{CIPHER_STEP_SIZE, EncryptedSpool};

    #[test]
    fn spooled_bytes_are_encrypted_on_disk_and_round_trip() {
        let text = b"insert into accounts values (1, 'nobody must see this')".repeat(10_000);
        assert!(text.len() > 2 * CIPHER_STEP_SIZE);
        for memory_max in [0, 100, 1 << 20] {
            let spool = EncryptedSpool::new_in(&std::env::temp_dir(), memory_max).unwrap();
            let (small, large) = text.split_at(7700);
            for (piece, at) in small.chunks(77).zip((0..).step_by(77)) {
                assert_eq!(spool.push(piece).unwrap(), at);
            }
            assert_eq!(spool.push(large).unwrap(), 7700);
            assert_eq!(spool.size(), text.len() as u64);
            let mut on_disk = Vec::new();
            let mut stored = spool.lock_state();
            assert_eq!(stored.file.is_rolled(), memory_max < text.len());
            stored.file.rewind().unwrap();
            stored.file.read_to_end(&mut on_disk).unwrap();
            drop(stored);
            assert_eq!(on_disk.len(), text.len());
            assert!(!on_disk.windows(4).any(|part| part == b"must"));
            for range in [0..text.len(), 7690..7800, 5..6, text.len()..text.len()] {
                let mut back = vec![0; range.len()];
                spool.read_exact_at(range.start as u64, &mut back).unwrap();
                assert!(back == text[range]);
            }
            let error = spool.read_exact_at(text.len() as u64 - 1, &mut [0; 2]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn missing_directories_are_errors() {
        let spool = EncryptedSpool::new_in(Path::new("/nonexistent"), 4).unwrap();
        assert_eq!(spool.push(b"1234").unwrap(), 0);
        assert_eq!(spool.push(b"5").unwrap_err().kind(), ErrorKind::NotFound);
        let mut back = [0; 4];
        spool.read_exact_at(0, &mut back).unwrap();
        assert_eq!(&back, b"1234");
    }
}
