//! Errors in the bytes of a segment.

/// Error in the bytes of a segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The segment ends within a block, or before its end mark.
    #[error("the segment is truncated at byte {offset}")]
    Truncated {
        /// Number of bytes of the segment.
        offset: u64,
    },
    /// The first bytes are not those of a segment.
    #[error("this is not a segment of an archive")]
    NotASegment,
    /// The segment has a later format.
    #[error(
        "the segment has format {found}, and this version reads format {expected}: use a later version of bintide"
    )]
    Version {
        /// Format of the segment.
        found: u8,
        /// Format that this version reads.
        expected: u8,
    },
    /// The bytes of a block are damaged.
    #[error("the segment is damaged in the block at byte {offset}: {what}")]
    Damaged {
        /// Start of the block in the segment.
        offset: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// The restored bytes differ from those that were archived.
    #[error("the restored log has SHA-256 {found}, and the archived log had {expected}")]
    Digest {
        /// Digest of the restored log.
        found: String,
        /// Digest of the archived log.
        expected: String,
    },
}

/// Damage in a block whose position is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockDamage(pub(crate) &'static str);

impl BlockDamage {
    /// Returns the error for a block that starts at this byte of the segment.
    pub(crate) const fn at(self, offset: u64) -> SegmentError {
        SegmentError::Damaged { offset, what: self.0 }
    }
}
