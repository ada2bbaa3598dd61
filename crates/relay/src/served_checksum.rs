//! Checksums that a client gets, and the positions that follow.

use binlog::{CHECKSUM_SIZE, ChecksumAlgorithm};

/// Checksums that a client gets. Without the stored ones, or with added ones, all positions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedChecksum {
    /// As in the stored log, but the artificial event in front of it has none. A server does this for clients that ask
    /// for `NONE`, such as mysqlbinlog: they learn from the format description what the log has.
    Stored,
    /// None: for clients that ask for nothing, because they do not know checksums.
    None,
    /// CRC32.
    Crc32,
}

/// Change of each event's size, except the format description's, which always has its own checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChecksumShift {
    /// None.
    Unchanged,
    /// Checksums are removed.
    Removed,
    /// Checksums are added.
    Added,
}

impl ServedChecksum {
    /// Returns the change for a log with these checksums. A log of a server before 5.6.1 cannot have any: its format
    /// description has no room to say so.
    pub(crate) const fn shift(self, stored: ChecksumAlgorithm) -> ChecksumShift {
        match (self, stored) {
            (Self::None, ChecksumAlgorithm::Crc32) => ChecksumShift::Removed,
            (Self::Crc32, ChecksumAlgorithm::Off) => ChecksumShift::Added,
            _ => ChecksumShift::Unchanged,
        }
    }
}

impl ChecksumShift {
    /// Returns the position that the client sees, of an event behind `events` others.
    pub(crate) const fn served(self, rendered: u64, events: u64) -> u64 {
        let bytes = events.saturating_mul(CHECKSUM_SIZE as u64);
        match self {
            Self::Unchanged => rendered,
            Self::Removed => rendered.saturating_sub(bytes),
            Self::Added => rendered.saturating_add(bytes),
        }
    }

    /// Returns the algorithm of a log's events after the change.
    pub(crate) const fn algorithm(self, stored: ChecksumAlgorithm) -> ChecksumAlgorithm {
        match self {
            Self::Unchanged => stored,
            Self::Removed => ChecksumAlgorithm::Off,
            Self::Added => ChecksumAlgorithm::Crc32,
        }
    }

    /// Returns the size that the client sees, of an event of this size.
    pub(crate) const fn size(self, event_size: u32) -> u32 {
        match self {
            Self::Unchanged => event_size,
            Self::Removed => event_size - CHECKSUM_SIZE as u32,
            Self::Added => event_size + CHECKSUM_SIZE as u32,
        }
    }
}
