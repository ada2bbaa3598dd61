//! A message broker as the target of records: source transactions, whole or in parts.

use std::io;

use crate::broker_sink::{
    BrokerProgress, BrokerSink, CommitStart, CommittedPart, DefinitionsUpdate, KeyedRecord,
};
use crate::ddl_schema::DdlSchema;
use crate::record_index::{RecordIndex, RecordIndexEntry};
use crate::snapshot_progress::SnapshotProgress;

/// Message broker as the target of records.
///
/// The broker commits whole source transactions. A transaction that is too large is committed in parts, and the progress
/// then states how many of its records are committed. When the transaction is read again, they are left out.
#[derive(Debug)]
pub struct BrokerTarget {
    sink: Box<dyn BrokerSink>,
    /// Definitions that were saved before.
    definitions: Option<DdlSchema>,
    forgets_definitions: bool,
    /// Records of the current transaction so far.
    open: CommittedPart,
    /// Records of the current transaction that are committed.
    committed: CommittedPart,
    is_snapshot: bool,
}

impl BrokerTarget {
    /// Creates a target. `committed` is the part of the next transaction that is committed already.
    pub fn new(sink: Box<dyn BrokerSink>, committed: CommittedPart, definitions: Option<DdlSchema>) -> Self {
        Self {
            sink,
            definitions,
            forgets_definitions: false,
            open: CommittedPart::default(),
            committed,
            is_snapshot: false,
        }
    }

    pub(crate) const fn definitions(&self) -> Option<&DdlSchema> {
        self.definitions.as_ref()
    }

    pub(crate) fn forget_definitions(&mut self) {
        self.forgets_definitions |= self.definitions.take().is_some();
    }

    pub(crate) const fn begin_snapshot(&mut self) {
        self.is_snapshot = true;
    }

    /// Returns whether a part of a transaction was pushed.
    pub(crate) const fn is_in_transaction(&self) -> bool {
        self.open.records > 0
    }

    /// Returns whether the next record begins a transaction of which nothing is committed.
    pub(crate) const fn is_between_transactions(&self) -> bool {
        self.open.records == 0 && self.committed.records == 0 && !self.is_snapshot
    }

    pub(crate) fn is_full(&self) -> bool {
        self.sink.is_full()
    }

    pub(crate) fn is_commit_due(&self) -> bool {
        self.sink.is_commit_due()
    }

    pub(crate) fn poll(&mut self) -> io::Result<()> {
        self.sink.poll()
    }

    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.sink.finish()
    }

    /// Pushes the first `count` entries of an index, and removes them from it. Returns the size of their records.
    pub(crate) fn push_entries(
        &mut self,
        index: &mut RecordIndex,
        count: usize,
        bytes: &[u8],
    ) -> io::Result<usize> {
        let count = count.min(index.entries().len());
        let mut start = 0;
        for entry in &index.entries()[..count] {
            let RecordIndexEntry::Record(bounds) = entry else {
                self.end_transaction()?;
                continue;
            };
            let record = index.record(bounds, bytes, start);
            self.open.add(&record);
            if self.open.records > self.committed.records {
                self.sink.push(&record)?;
            } else if self.open.records == self.committed.records && self.open != self.committed {
                return Err(other_records_error());
            }
            start = bounds.end(start);
        }
        index.remove_first(count, start);
        Ok(start)
    }

    /// Pushes a heartbeat, unless a part of a transaction was pushed. Returns whether it was pushed.
    pub(crate) fn push_heartbeat(&mut self, heartbeat: &KeyedRecord<'_>) -> io::Result<bool> {
        if self.is_in_transaction() || self.is_snapshot {
            return Ok(false);
        }
        self.sink.push(heartbeat)?;
        self.sink.mark();
        Ok(true)
    }

    fn end_transaction(&mut self) -> io::Result<()> {
        if self.open.records < self.committed.records {
            return Err(other_records_error());
        }
        self.sink.mark();
        (self.open, self.committed) = (CommittedPart::default(), CommittedPart::default());
        self.is_snapshot = false;
        Ok(())
    }

    /// Commits what was pushed, with the progress after the last whole transaction, and the number of records after it.
    pub(crate) fn commit(
        &mut self,
        mut progress: BrokerProgress,
        definitions: Option<DdlSchema>,
    ) -> io::Result<CommitStart> {
        if self.is_snapshot {
            return self.sink.commit(None);
        }
        progress.definitions = match definitions {
            Some(definitions) => DefinitionsUpdate::Replace(definitions.to_string()),
            None if self.forgets_definitions => DefinitionsUpdate::Forget,
            None => DefinitionsUpdate::Keep,
        };
        // While a committed part is read again, a heartbeat may be committed. The progress keeps the part.
        progress.part = if self.open.records < self.committed.records { self.committed } else { self.open };
        let start = self.sink.commit(Some(&progress))?;
        if start == CommitStart::Started {
            self.forgets_definitions = false;
            self.committed = progress.part;
        }
        Ok(start)
    }

    /// Returns the committed progress of incremental snapshots; `None` if nothing is committed.
    pub(crate) fn committed_snapshot(&self) -> Option<&SnapshotProgress> {
        self.sink.committed().map(|progress| &progress.snapshot)
    }

    /// Discards the records of the current transaction, which is read again. Its committed part stays.
    pub(crate) fn rewind(&mut self) -> io::Result<()> {
        if self.open.records > self.committed.records {
            self.sink.rewind()?;
        }
        self.open = CommittedPart::default();
        Ok(())
    }
}

fn other_records_error() -> io::Error {
    io::Error::other(
        "a part of this transaction is committed at the broker, but now the transaction has other records: run bintide with \
         the filters, formats and logs of the run that was interrupted",
    )
}
