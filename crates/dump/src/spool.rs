//! Bytes that wait in a file, because a statement is too large for memory: in their own log, or in a temporary one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::bytes::Spare;

/// A temporary file without a name, made when it is first needed.
#[derive(Default)]
pub(crate) struct Spool {
    file: Option<Arc<File>>,
    size: u64,
}

/// Bytes in a file; a temporary one lives as long as anything in it.
#[derive(Clone)]
pub(crate) struct Away {
    file: Arc<File>,
    offset: u64,
    size: usize,
}

impl Spool {
    /// Puts bytes behind those that are there.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<Away> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.file.insert(Arc::new(tempfile::tempfile()?))),
        };
        let away = Away { file, offset: self.size, size: bytes.len() };
        away.file.write_all_at(bytes, away.offset)?;
        self.size += bytes.len() as u64;
        Ok(away)
    }
}

impl Away {
    /// Bytes that a file has anyway.
    pub(crate) fn in_file(file: &Arc<File>, offset: u64, size: usize) -> Self {
        Self { file: Arc::clone(file), offset, size }
    }

    /// The bytes, from any thread.
    pub(crate) fn read(&self, spare: &Spare) -> io::Result<Vec<u8>> {
        let mut bytes = spare.take_filled(self.size);
        self.file.read_exact_at(&mut bytes, self.offset)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Spool;
    use crate::bytes::Spare;

    #[test]
    fn what_is_put_away_comes_back() {
        let mut spool = Spool::default();
        let parts: Vec<Vec<u8>> = (0..10).map(|number| vec![number; usize::from(number) * 1000]).collect();
        let away: Vec<_> = parts.iter().map(|part| spool.put(part).unwrap()).collect();
        drop(spool);
        for (part, away) in parts.iter().zip(away).rev() {
            assert_eq!(away.read(&Spare::default()).unwrap(), *part);
        }
    }
}
