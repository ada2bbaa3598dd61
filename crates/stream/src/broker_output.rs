//! Records with keys, to a message broker.

use std::io;

use crate::broker_sink::{BrokerProgress, CommitStart, KeyedRecord, TransactionSkip};
use crate::broker_target::BrokerTarget;
use crate::ddl_schema::DdlSchema;
use crate::record_index::RecordIndex;
use crate::sink_progress::SinkProgress;
use crate::snapshot_progress::SnapshotProgress;

/// Output of records to a message broker, whose readers get each transaction exactly once.
#[derive(Debug)]
pub(crate) struct BrokerOutput {
    target: BrokerTarget,
    /// Bounds and keys of the records in the buffer.
    pub(crate) index: RecordIndex,
    /// Part of the transaction after the mark that another program has written.
    skip: Option<TransactionSkip>,
    /// Bytes pushed so far.
    written: u64,
    /// True after a failure: nothing is committed any more.
    has_failed: bool,
}

impl BrokerOutput {
    pub(crate) fn new(target: BrokerTarget, skip: Option<TransactionSkip>) -> Self {
        Self { target, index: RecordIndex::default(), skip, written: 0, has_failed: false }
    }

    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    pub(crate) const fn skip(&self) -> Option<TransactionSkip> {
        self.skip
    }

    /// Returns whether nothing of the next transaction was written.
    pub(crate) const fn is_between_transactions(&self) -> bool {
        self.target.is_between_transactions() && self.skip.is_none()
    }

    /// Returns the committed progress of incremental snapshots.
    pub(crate) fn saved_snapshot(&self) -> &SnapshotProgress {
        self.target.committed_snapshot().unwrap_or(SnapshotProgress::NONE)
    }

    pub(crate) fn definitions(&self) -> Option<DdlSchema> {
        self.target.definitions().cloned()
    }

    pub(crate) fn forget_definitions(&mut self) {
        self.target.forget_definitions();
    }

    pub(crate) fn is_commit_due(&self) -> bool {
        self.target.is_commit_due()
    }

    /// Starts a snapshot, which starts over after an interruption: nothing is saved with its records.
    pub(crate) const fn begin_snapshot(&mut self) {
        self.target.begin_snapshot();
    }

    /// Ends a transaction at a mark.
    pub(crate) fn mark(&mut self) {
        self.skip = None;
        self.index.end_transaction();
    }

    /// Discards the records after the last end of a transaction.
    pub(crate) fn rewind(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let complete = self.index.complete_entries();
        let size = self.index.keep_first(complete);
        buffer.truncate(size);
        if complete == 0 { self.target.rewind() } else { Ok(()) }
    }

    /// Pushes all records of the buffer.
    pub(crate) fn drain(&mut self, buffer: &mut Vec<u8>, progress: &mut SinkProgress) -> io::Result<()> {
        let pushed = self.push_complete(buffer, progress);
        // The rest belongs to an incomplete transaction.
        let pushed = pushed.and_then(|()| self.push_entries(usize::MAX, buffer, progress));
        self.unless_failed(pushed, progress)
    }

    /// Pushes the records of complete transactions, and commits them.
    pub(crate) fn save(&mut self, buffer: &mut Vec<u8>, progress: &mut SinkProgress) -> io::Result<()> {
        let mut saved = self.push_complete(buffer, progress);
        // Only a large transaction is committed in parts.
        if saved.is_ok() && progress.is_newer && !self.target.is_in_transaction() {
            saved = self.commit(progress);
        }
        self.unless_failed(saved, progress)
    }

    /// Pushes a heartbeat, unless a part of a transaction was pushed.
    pub(crate) fn push_heartbeat(
        &mut self,
        heartbeat: &KeyedRecord<'_>,
        progress: &mut SinkProgress,
    ) -> io::Result<()> {
        let pushed = self.target.push_heartbeat(heartbeat);
        let is_pushed = self.unless_failed(pushed, progress)?;
        progress.is_newer |= is_pushed;
        Ok(())
    }

    /// Lets the broker handle its connections.
    pub(crate) fn poll(&mut self, progress: &mut SinkProgress) -> io::Result<()> {
        let polled = self.target.poll();
        self.unless_failed(polled, progress)
    }

    /// Waits for the last commit.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.target.finish()
    }

    /// Ends all commits after a failure. A later save pushes some records again.
    fn unless_failed<T>(&mut self, result: io::Result<T>, progress: &mut SinkProgress) -> io::Result<T> {
        if result.is_err() {
            progress.discard_mark();
            self.has_failed = true;
        }
        result
    }

    fn push_complete(&mut self, buffer: &mut Vec<u8>, progress: &mut SinkProgress) -> io::Result<()> {
        self.push_entries(self.index.complete_entries(), buffer, progress)
    }

    /// Pushes the first `count` entries of the index, and commits if the broker is full.
    fn push_entries(
        &mut self,
        count: usize,
        buffer: &mut Vec<u8>,
        progress: &mut SinkProgress,
    ) -> io::Result<()> {
        let size = self.target.push_entries(&mut self.index, count, buffer)?;
        buffer.drain(..size);
        self.written += size as u64;
        if self.target.is_full() { self.commit(progress) } else { Ok(()) }
    }

    fn commit(&mut self, progress: &mut SinkProgress) -> io::Result<()> {
        if self.has_failed {
            return Ok(());
        }
        let definitions = match self.target.is_in_transaction() {
            true => None,
            false => progress.new_schema.take(),
        };
        let saved = BrokerProgress {
            token: progress.mark.as_ref().map(|mark| mark.token.clone()),
            skip: self.skip,
            gtid_state: progress.gtid_state.clone(),
            snapshot: progress.snapshot.clone(),
            ..BrokerProgress::default()
        };
        // Progress that is deferred is still to be saved.
        progress.is_newer = self.target.commit(saved, definitions)? == CommitStart::Deferred;
        Ok(())
    }
}
