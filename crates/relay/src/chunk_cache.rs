//! Recently rendered chunks, bounded in bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::form_chunk::FormChunk;

/// Recently read chunks of one form, shared by all its clients. Beyond the limit, drops the least recently used chunks.
#[derive(Debug)]
pub(crate) struct ChunkCache {
    bytes_max: usize,
    bytes: usize,
    chunks: BTreeMap<ChunkKey, CachedChunk>,
    /// Keys in the order of their last use.
    order: BTreeMap<u64, ChunkKey>,
    uses: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChunkKey {
    log: Arc<str>,
    offset: u64,
}

#[derive(Debug)]
struct CachedChunk {
    chunk: Arc<FormChunk>,
    used: u64,
}

/// Memory of a chunk's entries, besides the chunk itself.
const ENTRY_SIZE: usize = 256;

impl ChunkCache {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, chunks: BTreeMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    /// Returns the memory of all chunks, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the chunk that contains a position of a log.
    pub(crate) fn get(&mut self, log: &Arc<str>, position: u64) -> Option<Arc<FormChunk>> {
        let last = ChunkKey { log: Arc::clone(log), offset: position };
        let (key, cached) = self.chunks.range_mut(..=last).next_back()?;
        if key.log != *log || cached.chunk.end() <= position {
            return None;
        }
        self.uses += 1;
        if let Some(key) = self.order.remove(&cached.used) {
            self.order.insert(self.uses, key);
        }
        cached.used = self.uses;
        Some(Arc::clone(&cached.chunk))
    }

    /// Adds a chunk, of any size. Removes and returns older chunks beyond the limit.
    pub(crate) fn insert(&mut self, chunk: Arc<FormChunk>) -> Vec<Arc<FormChunk>> {
        let key = ChunkKey { log: Arc::clone(chunk.log()), offset: chunk.offset() };
        self.uses += 1;
        self.bytes += chunk.memory() + ENTRY_SIZE;
        self.order.insert(self.uses, key.clone());
        if let Some(old) = self.chunks.insert(key, CachedChunk { chunk, used: self.uses }) {
            self.order.remove(&old.used);
            self.bytes -= old.chunk.memory() + ENTRY_SIZE;
        }
        let mut removed = Vec::new();
        while self.bytes > self.bytes_max
            && self.order.len() > 1
            && let Some((_, key)) = self.order.pop_first()
        {
            removed.extend(self.remove(&key));
        }
        removed
    }

    /// Drops the chunks of logs for which `is_kept` is false.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Arc<str>) -> bool) {
        let dropped: Vec<u64> =
            self.order.iter().filter(|(_, key)| !is_kept(&key.log)).map(|(used, _)| *used).collect();
        for used in dropped {
            if let Some(key) = self.order.remove(&used) {
                self.remove(&key);
            }
        }
    }

    fn remove(&mut self, key: &ChunkKey) -> Option<Arc<FormChunk>> {
        let old = self.chunks.remove(key)?;
        self.bytes -= old.chunk.memory() + ENTRY_SIZE;
        Some(old.chunk)
    }
}
