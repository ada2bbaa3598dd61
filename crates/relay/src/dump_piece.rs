//! Output of a dump: events, or pieces of large events.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::form_chunk::FormChunk;

/// Event of a dump, a piece of a large event, or a run of small events. The pieces of an event are consecutive.
///
/// The packet of an event is the first byte 0, the two bytes of semi-synchronous replication if it is on, and the
/// event.
#[derive(Clone, Debug)]
pub struct DumpPiece {
    /// Bytes of the piece.
    pub bytes: EventBytes,
    /// Number of the event's bytes in earlier pieces.
    pub skipped: u32,
    /// Size of the whole event, or of the run, in bytes.
    pub event_size: u32,
    /// Position after the event in the log that the client sees; 0 for artificial events.
    pub end: u64,
    /// True for an event that is the last of a transaction. False for a run.
    pub ends_transaction: bool,
    /// Number of transactions that end with the piece.
    pub transactions: u32,
}

/// Bytes of an event or of a run of events: shared with other clients, or created for this one.
#[derive(Clone, Debug)]
pub enum EventBytes {
    /// Part of a chunk.
    Shared {
        /// Chunk with the bytes.
        chunk: Arc<FormChunk>,
        /// Position of the bytes in the chunk.
        range: Range<usize>,
    },
    /// Consecutive whole events of a chunk: see [`RunPolicy::Joined`](crate::RunPolicy).
    Run {
        /// Chunk with the events.
        chunk: Arc<FormChunk>,
        /// Indexes of the events among the chunk's slices; not empty.
        slices: Range<usize>,
    },
    /// Part of a chunk whose bytes are also in the log's file, and stay there as long as the file exists.
    Stored {
        /// Chunk with the bytes.
        chunk: Arc<FormChunk>,
        /// Position of the bytes in the chunk.
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
    /// Returns whether the piece is the first or only piece of its event.
    pub const fn is_first(&self) -> bool {
        self.skipped == 0
    }

    /// Returns whether the piece is the last or only piece of its event.
    pub fn is_last(&self) -> bool {
        self.skipped as usize + self.bytes.as_slice().len() == self.event_size as usize
    }

    /// Wraps a whole event that is not part of a log.
    pub(crate) fn artificial(event: Vec<u8>) -> Self {
        let event_size = event.len() as u32;
        let bytes = EventBytes::Owned(event);
        Self { bytes, skipped: 0, event_size, end: 0, ends_transaction: false, transactions: 0 }
    }
}

impl EventBytes {
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Shared { chunk, range } | Self::Stored { chunk, range } => &chunk.bytes()[range.clone()],
            Self::Run { chunk, slices } => {
                let events = &chunk.slices()[slices.clone()];
                let start = events.first().map_or(0, |first| first.range().start);
                let end = events.last().map_or(0, |last| last.range().end);
                &chunk.bytes()[start..end]
            }
            Self::Owned(bytes) => bytes,
        }
    }

    /// Returns the position of the bytes in the log's file, if the file contains them.
    pub fn stored(&self) -> Option<StoredBytes<'_>> {
        let Self::Stored { chunk, range } = self else { return None };
        Some(StoredBytes { file: chunk.file()?, offset: chunk.offset() + range.start as u64 })
    }
}
