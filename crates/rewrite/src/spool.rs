//! Spool of payload bytes: in memory, and beyond a limit in a file that no other process can read.

use std::io;
use std::path::Path;

use crate::error::Error;

/// Maximum number of bytes in memory. More bytes go to disk.
const MEMORY_MAX: usize = 16 * 1024 * 1024;

/// Spool of bytes that are read back once, in order.
pub(crate) struct Spool {
    bytes: logs::Spool,
    /// Bytes already read back.
    taken: u64,
    folder: String,
}

impl Spool {
    /// Creates an empty spool whose file goes to `folder`.
    pub(crate) fn new_in(folder: &Path) -> Result<Self, Error> {
        let name = folder.display().to_string();
        let bytes = logs::Spool::new_in(folder, MEMORY_MAX).map_err(|cause| failed(&name, cause))?;
        Ok(Self { bytes, taken: 0, folder: name })
    }

    /// Returns the number of bytes pushed.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.size()
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes.push(bytes).map_err(|cause| failed(&self.folder, cause))?;
        Ok(())
    }

    /// Returns the next bytes, at most `count`. An empty result means the end.
    pub(crate) fn next(&mut self, count: usize) -> Result<Vec<u8>, Error> {
        let left = self.size() - self.taken;
        let mut bytes = vec![0; left.min(count as u64) as usize];
        self.bytes.read_exact_at(self.taken, &mut bytes).map_err(|cause| failed(&self.folder, cause))?;
        self.taken += bytes.len() as u64;
        Ok(bytes)
    }
}

fn failed(folder: &str, cause: io::Error) -> Error {
    Error::Write { what: format!("a payload to a temporary file in {folder}"), cause }
}

#[cfg(test)]
mod tests {
    use super::Spool;

    #[test]
    fn what_went_in_is_handed_on_once() {
        let text = b"insert into accounts values (1, 'nobody must see this')".repeat(100);
        let mut spool = Spool::new_in(&std::env::temp_dir()).unwrap();
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
