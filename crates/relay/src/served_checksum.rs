//! Checksums for a client, and the resulting positions.

use binlog::{CHECKSUM_SIZE, ChecksumAlgorithm};

/// Checksums for a client. If stored checksums are removed or new ones added, all positions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedChecksum {
    /// As in the stored log; the artificial event before the log has none. A server does the same for clients that
    /// request `NONE`, such as mysqlbinlog: these learn the log's checksums from its format description.
    Stored,
    /// None: for clients that make no request, because they do not know checksums.
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
    /// Returns the change for a log with these checksums. A log of a server before 5.6.1 cannot have checksums: its
    /// format description lacks the field.
    pub(crate) const fn shift(self, stored: ChecksumAlgorithm) -> ChecksumShift {
        match (self, stored) {
            (Self::None, ChecksumAlgorithm::Crc32) => ChecksumShift::Removed,
            (Self::Crc32, ChecksumAlgorithm::Off) => ChecksumShift::Added,
            _ => ChecksumShift::Unchanged,
        }
    }
}

impl ChecksumShift {
    /// Returns the client's position of an event that follows `events` other events.
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

    /// Returns the client's size of an event of this size.
    pub(crate) const fn size(self, event_size: u32) -> u32 {
        match self {
            Self::Unchanged => event_size,
            Self::Removed => event_size - CHECKSUM_SIZE as u32,
            Self::Added => event_size + CHECKSUM_SIZE as u32,
        }
    }
}
