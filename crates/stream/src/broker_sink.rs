//! Records with keys, for message brokers, and the progress that is saved beside them.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::record_table::RecordTable;
use crate::resume_token::{ResumeToken, ResumeTokenError};
use crate::snapshot_progress::{SnapshotProgress, split_snapshot_line};
use crate::stream_gtid_state::StreamGtidState;

/// Message broker that takes records and saves progress, both in one transaction of its own.
///
/// Records that were pushed but not committed are invisible to readers. A lost connection is the sink's business: it keeps
/// uncommitted records to send them again.
pub trait BrokerSink: fmt::Debug {
    /// Adds a record.
    ///
    /// # Errors
    ///
    /// Fails if the broker refuses the record, or the sink is not usable any more.
    fn push(&mut self, record: &KeyedRecord<'_>) -> io::Result<()>;

    /// Marks the end of a source transaction.
    fn mark(&mut self);

    /// Returns whether uncommitted records have reached the limit of their size.
    fn is_full(&self) -> bool;

    /// Returns whether the uncommitted records up to a mark have waited long enough for a commit.
    fn is_commit_due(&self) -> bool;

    /// Commits the uncommitted records, and saves the progress in the same transaction. Without progress, the saved
    /// progress stays. The commit may end later.
    ///
    /// # Errors
    ///
    /// Fails if the broker refuses a record or a transaction, or another process has taken over.
    fn commit(&mut self, progress: Option<&BrokerProgress>) -> io::Result<CommitStart>;

    /// Returns the progress that is committed; `None` if there is none.
    fn committed(&self) -> Option<&BrokerProgress>;

    /// Waits for the end of the commit that runs.
    ///
    /// # Errors
    ///
    /// Fails as [`BrokerSink::commit`].
    fn finish(&mut self) -> io::Result<()>;

    /// Discards the uncommitted records after the last mark.
    ///
    /// # Errors
    ///
    /// Fails if the sink is not usable any more.
    fn rewind(&mut self) -> io::Result<()>;

    /// Handles events of the connection, and waits for the end of a commit. Called regularly while there are no records.
    ///
    /// # Errors
    ///
    /// Fails as [`BrokerSink::commit`].
    fn poll(&mut self) -> io::Result<()>;
}

/// Start of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStart {
    /// The commit has started.
    Started,
    /// There are no records, and the progress waits for a later commit.
    Deferred,
}

/// Record with its key.
#[derive(Clone, Copy, Debug)]
pub struct KeyedRecord<'r> {
    /// Kind of the record, which determines its topic.
    pub kind: &'r KeyedRecordKind,
    /// Key; `None` for a table without a primary key.
    pub key: Option<&'r [u8]>,
    /// Record without a newline; `None` for a tombstone, after which a compacted topic drops the key.
    pub value: Option<&'r [u8]>,
    /// Key of the row before or after an update of its primary key.
    pub other_key: Option<OtherKey<'r>>,
}

/// Key of a row before or after an update of its primary key.
#[derive(Clone, Copy, Debug)]
pub struct OtherKey<'r> {
    /// Name of Debezium's header.
    pub header: &'static str,
    /// Key.
    pub key: &'r [u8],
}

/// Kind of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyedRecordKind {
    /// Row of a table.
    Row(Arc<RecordTable>),
    /// Start or end of a transaction.
    Transaction,
    /// DDL statement.
    Definition,
    /// Sign of life, which belongs to no transaction.
    Heartbeat,
}

/// Progress that a broker saves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerProgress {
    /// Position to resume at; `None` if no transaction is complete.
    pub token: Option<ResumeToken>,
    /// Records of the following transaction that are committed already.
    pub part: CommittedPart,
    /// Part of the following transaction that another program has written.
    pub skip: Option<TransactionSkip>,
    /// GTIDs received from a server; `None` if the records come from log files.
    pub gtid_state: Option<StreamGtidState>,
    /// Table definitions.
    pub definitions: DefinitionsUpdate,
    /// Progress of incremental snapshots.
    pub snapshot: SnapshotProgress,
}

/// Part of a transaction that another program has written, as Debezium counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionSkip {
    /// Number of events, from the BEGIN on.
    pub events: u64,
    /// Number of rows of the event after them.
    pub rows: u64,
    /// True if the record of the transaction's start is written.
    pub has_start: bool,
}

/// Saved table definitions after a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DefinitionsUpdate {
    /// Unchanged.
    #[default]
    Keep,
    /// Deleted.
    Forget,
    /// Replaced by these, as CREATE TABLE statements.
    Replace(String),
}

/// Records of an incomplete transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommittedPart {
    /// Number of records, including tombstones.
    pub records: u64,
    /// Checksum of their kinds and keys.
    pub checksum: u32,
}

impl CommittedPart {
    pub(crate) fn add(&mut self, record: &KeyedRecord<'_>) {
        self.records += 1;
        let mut hasher = crc32fast::Hasher::new_with_initial(self.checksum);
        match record.kind {
            KeyedRecordKind::Row(table) => {
                hasher.update(table.database.as_bytes());
                hasher.update(&[0]);
                hasher.update(table.table.as_bytes());
            }
            KeyedRecordKind::Transaction => hasher.update(b"\x01"),
            KeyedRecordKind::Definition => hasher.update(b"\x02"),
            KeyedRecordKind::Heartbeat => hasher.update(b"\x03"),
        }
        hasher.update(&[0, u8::from(record.value.is_some())]);
        hasher.update(record.key.unwrap_or_default());
        self.checksum = hasher.finalize();
    }
}

/// Writes a line with the position, or `-`; then `records NUMBER CHECKSUM` if a part of the next transaction is committed,
/// `skip EVENTS ROWS START` if another program has written a part of it, the
/// incremental snapshots if there are any, and the server with its GTIDs if there is one.
impl fmt::Display for BrokerProgress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.token {
            Some(token) => writeln!(out, "{token}")?,
            None => writeln!(out, "-")?,
        }
        let CommittedPart { records, checksum } = self.part;
        if records > 0 {
            writeln!(out, "records {records} {checksum}")?;
        }
        if let Some(TransactionSkip { events, rows, has_start }) = self.skip {
            writeln!(out, "skip {events} {rows} {}", u8::from(has_start))?;
        }
        write!(out, "{}", self.snapshot)?;
        match &self.gtid_state {
            Some(gtid_state) => write!(out, "{gtid_state}"),
            None => Ok(()),
        }
    }
}

impl BrokerProgress {
    /// Parses the format that `Display` writes.
    ///
    /// # Errors
    ///
    /// Fails if the text is malformed.
    pub fn parse(text: &str) -> Result<Self, ResumeTokenError> {
        let malformed = || ResumeTokenError::new(text);
        let (token, mut rest) = text.split_once('\n').ok_or_else(malformed)?;
        let token = if token == "-" { None } else { Some(token.parse()?) };
        let mut part = CommittedPart::default();
        if let Some(line) = rest.strip_prefix("records ") {
            let (numbers, after) = line.split_once('\n').ok_or_else(malformed)?;
            let (records, checksum) = numbers.split_once(' ').ok_or_else(malformed)?;
            part.records = records.parse().map_err(|_| malformed())?;
            part.checksum = checksum.parse().map_err(|_| malformed())?;
            rest = after;
        }
        let mut skip = None;
        if let Some(line) = rest.strip_prefix("skip ") {
            let (numbers, after) = line.split_once('\n').ok_or_else(malformed)?;
            let numbers: Option<Vec<u64>> = numbers.split(' ').map(|number| number.parse().ok()).collect();
            let Some([events, rows, start]) = numbers.as_deref() else { return Err(malformed()) };
            skip = Some(TransactionSkip { events: *events, rows: *rows, has_start: *start == 1 });
            rest = after;
        }
        let (snapshot, rest) = split_snapshot_line(rest).ok_or_else(malformed)?;
        let gtid_state = match rest.is_empty() {
            true => None,
            false => Some(StreamGtidState::parse(rest).ok_or_else(malformed)?),
        };
        Ok(Self { token, part, skip, gtid_state, definitions: DefinitionsUpdate::Keep, snapshot })
    }
}

#[cfg(test)]
mod tests {
    use super::{BrokerProgress, CommittedPart, DefinitionsUpdate, TransactionSkip};
    use crate::snapshot_progress::SnapshotProgress;
    use crate::stream_gtid_state::StreamGtidState;

    #[test]
    fn progress_round_trips_as_text() {
        let check = |token: Option<&str>, records, skip, server: Option<&str>, expected: &str| {
            let progress = BrokerProgress {
                token: token.map(|token| token.parse().unwrap()),
                part: CommittedPart { records, checksum: records as u32 * 3 },
                skip,
                gtid_state: server.map(|server| StreamGtidState::new(server.to_owned())),
                definitions: DefinitionsUpdate::Keep,
                snapshot: SnapshotProgress::default(),
            };
            assert_eq!(progress.to_string(), expected);
            assert_eq!(BrokerProgress::parse(expected), Ok(progress));
        };
        check(Some("binlog.000001:10"), 0, None, None, "binlog.000001:10\n");
        check(None, 7, None, None, "-\nrecords 7 21\n");
        let text = "binlog.000001:10,a:1\nrecords 7 21\nserver b\n";
        check(Some("binlog.000001:10,a:1"), 7, None, Some("b"), text);
        let skip = TransactionSkip { events: 2, rows: 1, has_start: true };
        check(Some("binlog.000001:10"), 7, Some(skip), None, "binlog.000001:10\nrecords 7 21\nskip 2 1 1\n");
        for malformed in ["", "x", "binlog.000001:10\nrecords 7\n", "binlog.000001:10\nx"] {
            assert!(BrokerProgress::parse(malformed).is_err(), "{malformed:?}");
        }
    }
}
