//! Contents of the files that `LOAD DATA` loads.

use std::env;
use std::io::{self, Read};
use std::sync::Arc;

use logs::EncryptedSpool;

/// Content of a file that `LOAD DATA` loads.
#[derive(Clone, Debug)]
pub enum LoadFileContent {
    /// Content in memory.
    Held(Arc<[u8]>),
    /// Content in a temporary file, too large for memory.
    Spooled(Arc<EncryptedSpool>),
}

/// Equal if the bytes in memory are equal, or the temporary file is the same.
impl PartialEq for LoadFileContent {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Held(ours), Self::Held(theirs)) => ours == theirs,
            (Self::Spooled(ours), Self::Spooled(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        }
    }
}

impl Eq for LoadFileContent {}

impl LoadFileContent {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Held(bytes) => bytes.len() as u64,
            Self::Spooled(spool) => spool.size(),
        }
    }

    /// Returns the bytes in memory.
    pub(crate) fn size_in_memory(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::Spooled(_) => 0,
        }
    }

    /// Returns a reader of the content.
    pub fn reader(&self) -> LoadFileReader {
        LoadFileReader { content: self.clone(), position: 0 }
    }
}

/// Reader of a file that `LOAD DATA` loads.
#[derive(Debug)]
pub struct LoadFileReader {
    content: LoadFileContent,
    position: u64,
}

impl Read for LoadFileReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.content.size().saturating_sub(self.position);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let out = out.get_mut(..count).unwrap_or_default();
        match &self.content {
            LoadFileContent::Held(bytes) => {
                let rest = usize::try_from(self.position).ok().and_then(|start| bytes.get(start..));
                out.copy_from_slice(rest.and_then(|rest| rest.get(..count)).unwrap_or_default());
            }
            LoadFileContent::Spooled(_) if count == 0 => {}
            LoadFileContent::Spooled(spool) => spool.read_exact_at(self.position, out)?,
        }
        self.position += count as u64;
        Ok(count)
    }
}

/// Collects the blocks of a file. Beyond a limit, it writes them to a temporary file.
#[derive(Debug, Default)]
pub(crate) struct LoadFileCollector {
    held: Vec<u8>,
    spool: Option<EncryptedSpool>,
}

impl LoadFileCollector {
    /// Appends a block. More than `held_max` bytes go to a temporary file.
    pub(crate) fn push(&mut self, block: &[u8], held_max: usize) -> io::Result<()> {
        if let Some(spool) = &self.spool {
            return spool.push(block).map(drop);
        }
        if self.held.len() + block.len() <= held_max {
            self.held.extend_from_slice(block);
            return Ok(());
        }
        let spool = EncryptedSpool::new_in(&env::temp_dir(), 0)?;
        spool.push(&std::mem::take(&mut self.held))?;
        spool.push(block)?;
        self.spool = Some(spool);
        Ok(())
    }

    /// Returns the content.
    pub(crate) fn finish(self) -> LoadFileContent {
        match self.spool {
            Some(spool) => LoadFileContent::Spooled(Arc::new(spool)),
            None => LoadFileContent::Held(self.held.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::{LoadFileCollector, LoadFileContent};

    #[test]
    fn files_round_trip() {
        let text = b"1\t2\n".repeat(1000);
        for held_max in [0, 7, 3999, 4000] {
            let mut file = LoadFileCollector::default();
            text.chunks(37).for_each(|block| file.push(block, held_max).unwrap());
            let content = file.finish();
            let is_held = matches!(content, LoadFileContent::Held(_));
            assert_eq!((is_held, content.size()), (held_max == 4000, 4000), "{held_max}");
            let mut found = Vec::new();
            content.reader().read_to_end(&mut found).unwrap();
            assert_eq!(found, text, "{held_max}");
        }
        assert_eq!(LoadFileCollector::default().finish().reader().read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}
