//! Output of a dump: events, or pieces of large events.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::form_chunk::FormChunk;

/// Event of a dump, or a piece of a large event. The pieces of an event come one after the other.
///
/// Its packet is the first byte 0, the two bytes of semi-synchronous replication if it is on, and the event.
#[derive(Clone, Debug)]
pub struct DumpPiece {
    /// Bytes of the piece.
    pub bytes: EventBytes,
    /// Number of the event's bytes in earlier pieces.
    pub skipped: u32,
    /// Size of the whole event in bytes.
    pub event_size: u32,
    /// Position behind the event in the log that the client sees; 0 for artificial events.
    pub end: u64,
    /// True for an event that is the last of a transaction.
    pub ends_transaction: bool,
}

/// Bytes of an event: shared with other clients, or made for this one.
#[derive(Clone, Debug)]
pub enum EventBytes {
    /// Part of a chunk.
    Shared {
        /// Chunk with the bytes.
        chunk: Arc<FormChunk>,
        /// Their position in the chunk.
        range: Range<usize>,
    },
    /// Part of a chunk that is also in the log's file, and stays there as long as the file.
    Stored {
        /// Chunk with the bytes.
        chunk: Arc<FormChunk>,
        /// Their position in the chunk.
        range: Range<usize>,
    },
    /// Bytes for this client only.
    Owned(Vec<u8>),
}

/// Bytes in the file of a log.
#[derive(Clone, Copy, Debug)]
pub struct StoredBytes<'a> {
    /// File of the log.
    pub file: &'a File,
    /// Position of the first byte in the file.
    pub offset: u64,
}

impl DumpPiece {
    /// Returns whether the piece is the first or only one of its event.
    pub const fn is_first(&self) -> bool {
        self.skipped == 0
    }

    /// Returns whether the piece is the last or only one of its event.
    pub fn is_last(&self) -> bool {
        self.skipped as usize + self.bytes.as_slice().len() == self.event_size as usize
    }

    /// Wraps a whole event that is not part of a log.
    pub(crate) fn artificial(event: Vec<u8>) -> Self {
        let event_size = event.len() as u32;
        Self { bytes: EventBytes::Owned(event), skipped: 0, event_size, end: 0, ends_transaction: false }
    }
}

impl EventBytes {
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Shared { chunk, range } | Self::Stored { chunk, range } => &chunk.bytes()[range.clone()],
            Self::Owned(bytes) => bytes,
        }
    }

    /// Returns the place of the bytes in the log's file, if they are there.
    pub fn stored(&self) -> Option<StoredBytes<'_>> {
        let Self::Stored { chunk, range } = self else { return None };
        Some(StoredBytes { file: chunk.file()?, offset: chunk.offset() + range.start as u64 })
    }
}
