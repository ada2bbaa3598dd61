//! Spool of payload bytes: in memory, and beyond a limit in a file that no other process can read.

use std::io;
use std::path::Path;

use crate::error::RewriteError;

/// Maximum number of bytes in memory. More bytes go to disk.
const MEMORY_MAX: usize = 16 * 1024 * 1024;

/// Spool of bytes that are read back once, in order.
pub(crate) struct PayloadSpool {
    bytes: logs::EncryptedSpool,
    /// Number of bytes already read back.
    taken: u64,
    directory: String,
}

impl PayloadSpool {
    /// Creates an empty spool whose file goes to `directory`.
    pub(crate) fn new_in(directory: &Path) -> Result<Self, RewriteError> {
        let name = directory.display().to_string();
        let bytes =
            logs::EncryptedSpool::new_in(directory, MEMORY_MAX).map_err(|cause| write_error(&name, cause))?;
        Ok(Self { bytes, taken: 0, directory: name })
    }

    /// Returns the number of bytes pushed.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.size()
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), RewriteError> {
        self.bytes.push(bytes).map_err(|cause| write_error(&self.directory, cause))?;
        Ok(())
    }

    /// Returns the next bytes, at most `count`; empty at the end.
    pub(crate) fn next(&mut self, count: usize) -> Result<Vec<u8>, RewriteError> {
        let left = self.size() - self.taken;
        let mut bytes = vec![0; left.min(count as u64) as usize];
        self.bytes
            .read_exact_at(self.taken, &mut bytes)
            .map_err(|cause| write_error(&self.directory, cause))?;
        self.taken += bytes.len() as u64;
        Ok(bytes)
    }
}

fn write_error(directory: &str, cause: io::Error) -> RewriteError {
    RewriteError::Write { what: format!("a payload to a temporary file in {directory}"), cause }
}

#[cfg(test)]
mod tests {
    use super::PayloadSpool;

    #[test]
    fn spool_returns_all_bytes_once() {
        let text = b"insert into accounts values (1, 'nobody must see this')".repeat(100);
        let mut spool = PayloadSpool::new_in(&std::env::temp_dir()).unwrap();
        text.chunks(77).for_each(|piece| spool.push(piece).unwrap());
        let mut back = Vec::new();
        while let bytes = spool.next(1000).unwrap()
            && !bytes.is_empty()
        {
            back.extend(bytes);
        }
        assert!(back == text);
    }
}
