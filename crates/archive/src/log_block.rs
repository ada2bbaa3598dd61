//! Parts of a log that are archived each on its own.

use std::sync::Arc;

use binlog::{EventFormat, Framer, FramerOutput};

use crate::segment_error::BlockDamage;
use crate::varint::{StreamCursor, put_sized, put_varint};

/// Part of a log. Blocks need nothing from each other, so that any thread can process them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBlock {
    /// Position of the first byte in the log.
    pub offset: u64,
    /// The log's bytes.
    pub bytes: Vec<u8>,
    /// Content of these bytes.
    pub content: BlockContent,
}

/// Content of a [`LogBlock`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockContent {
    /// Whole events, possibly after the log's magic number.
    Events(BlockContext),
    /// Bytes that are kept as they are.
    Opaque(OpaqueReason),
}

/// Reason for which bytes of a log are kept as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpaqueReason {
    /// The file is not a binary log, or damaged from here on.
    NotEvents,
    /// The log ends within an event.
    Torn,
    /// The event is larger than [`EVENT_SIZE_LIMIT`](crate::EVENT_SIZE_LIMIT).
    LargeEvent,
    /// The log is encrypted.
    Encrypted,
    /// A trial did not give the same bytes.
    Differs,
}

impl OpaqueReason {
    /// Returns the name in reports and manifests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotEvents => "not events",
            Self::Torn => "torn event",
            Self::LargeEvent => "large event",
            Self::Encrypted => "encrypted",
            Self::Differs => "not exact",
        }
    }
}

/// Largest number of table maps that a block depends on. MySQL allows 61 tables in a statement, and triggers add some.
pub(crate) const MAPS_MAX: usize = 1024;

/// Events in front of a block that its events depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockContext {
    /// Format description that applies to the block, as a whole event. It may be the block's first event.
    pub(crate) description: Arc<[u8]>,
    /// Bodies of the table maps of the statement that the block starts in.
    pub(crate) maps: Vec<Arc<[u8]>>,
}

impl BlockContext {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_sized(out, &self.description);
        put_varint(out, self.maps.len() as u64);
        for map in &self.maps {
            put_sized(out, map);
        }
    }

    pub(crate) fn take(cursor: &mut StreamCursor<'_>) -> Result<Self, BlockDamage> {
        let description = cursor.sized()?.into();
        let count = cursor.varint()?;
        if count > MAPS_MAX as u64 {
            return Err(BlockDamage("a block depends on too many table maps"));
        }
        let mut maps = Vec::new();
        for _ in 0..count {
            maps.push(cursor.sized()?.into());
        }
        Ok(Self { description, maps })
    }

    pub(crate) fn format(&self) -> Option<EventFormat> {
        let mut framer = Framer::new();
        match framer.next(&self.description) {
            Ok(FramerOutput::Event(_)) => framer.format().cloned(),
            _ => None,
        }
    }
}
