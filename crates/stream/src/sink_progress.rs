//! Progress of an output, which is saved with its records.

use crate::ddl_schema::DdlSchema;
use crate::resume_token::ResumeToken;
use crate::snapshot_progress::SnapshotProgress;
use crate::stream_gtid_state::StreamGtidState;

/// Progress at the last mark of an output.
#[derive(Debug, Default)]
pub(crate) struct SinkProgress {
    /// `None` before the first mark, and after a failure.
    pub(crate) mark: Option<SinkMark>,
    /// True if the mark is newer than the saved progress.
    pub(crate) is_newer: bool,
    /// GTIDs received from a server up to the mark; `None` for log files.
    pub(crate) gtid_state: Option<StreamGtidState>,
    /// Table definitions at the mark, if they are newer than the saved ones.
    pub(crate) new_schema: Option<DdlSchema>,
    /// Progress of incremental snapshots at the mark.
    pub(crate) snapshot: SnapshotProgress,
}

/// End of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct SinkMark {
    pub(crate) token: ResumeToken,
    /// Bytes of records up to the mark.
    pub(crate) size: u64,
}

impl SinkProgress {
    /// Discards the mark after a failure: a later save must not count records that were not written.
    pub(crate) fn discard_mark(&mut self) {
        (self.mark, self.is_newer) = (None, false);
    }
}
