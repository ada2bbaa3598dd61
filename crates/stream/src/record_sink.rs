//! Buffered writing of records, and saving of progress.

use std::io::{self, Write as _};

use binlog::Event as Body;
use sql::numbers::put_u64;

use crate::broker_sink::{BrokerProgress, CommitStart, KeyedRecord, KeyedRecordKind, TransactionSkip};
use crate::broker_target::BrokerTarget;
use crate::ddl_schema::DdlSchema;
use crate::directory_sink::{DirectorySink, StreamCheckpoint};
use crate::json_writer::put_string;
use crate::pipe_sink::{self, PipeSink};
use crate::record_index::RecordIndex;
use crate::resume_token::ResumeToken;
use crate::snapshot_progress::SnapshotProgress;
use crate::stream_gtid_state::StreamGtidState;
use crate::transaction_buffer::put_resume;

/// Size in bytes at which the buffer is written.
const DRAIN_SIZE: usize = 256 << 10;

/// Progress without tables.
const NO_SNAPSHOT: &SnapshotProgress = &SnapshotProgress { tables: Vec::new(), requests: Vec::new() };

/// Buffer of records, written many at a time.
#[derive(Debug)]
pub struct RecordSink {
    pub(crate) bytes: Vec<u8>,
    /// Bounds and keys of the records in the buffer, for a broker.
    pub(crate) index: Option<RecordIndex>,
    target: SinkTarget,
    /// Bytes written so far.
    written: u64,
    marked: Option<SinkMark>,
    /// GTIDs received from a server up to the mark; `None` for log files.
    gtid_state: Option<StreamGtidState>,
    /// Server whose log is being read.
    server: String,
    /// Table definitions at the mark, if they are newer than the saved ones.
    new_schema: Option<DdlSchema>,
    /// True if the mark is newer than the saved progress.
    is_newer: bool,
    /// True after a failure of a broker: nothing is committed any more.
    has_failed: bool,
    /// Part of the transaction after the mark that another program has written.
    skip: Option<TransactionSkip>,
    /// Progress of incremental snapshots at the mark.
    snapshot: SnapshotProgress,
}

/// Target of the records.
#[derive(Debug)]
pub enum SinkTarget {
    /// Pipe or standard output, with a reader.
    Pipe(Box<PipeSink>),
    /// Files that contain each transaction exactly once.
    Files(Box<DirectorySink>),
    /// Message broker, whose readers get each transaction exactly once.
    Broker(Box<BrokerTarget>),
}

/// Extent of pushing buffered records to a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PushExtent {
    /// All records.
    All,
    /// Records of complete transactions.
    Complete,
}

/// End of a transaction.
#[derive(Clone, Debug)]
struct SinkMark {
    token: ResumeToken,
    /// Bytes of records up to the mark.
    size: u64,
}

impl RecordSink {
    /// Creates an output to a target.
    pub fn new(to: SinkTarget) -> Self {
        Self {
            bytes: Vec::with_capacity(DRAIN_SIZE * 2),
            index: matches!(to, SinkTarget::Broker(_)).then(RecordIndex::default),
            target: to,
            written: 0,
            marked: None,
            gtid_state: None,
            server: String::new(),
            new_schema: None,
            is_newer: false,
            has_failed: false,
            skip: None,
            snapshot: SnapshotProgress::default(),
        }
    }

    /// Sets the position at which a run resumes. Until the first mark, it is saved with parts of a large transaction.
    #[must_use]
    pub fn resumed_at(mut self, token: Option<ResumeToken>) -> Self {
        self.marked = token.map(|token| SinkMark { token, size: 0 });
        self
    }

    /// Sets the part of the next transaction that another program has written.
    #[must_use]
    pub const fn resumed_within(mut self, skip: Option<TransactionSkip>) -> Self {
        self.skip = skip;
        self
    }

    /// Sets the progress of incremental snapshots that an earlier run has saved.
    #[must_use]
    pub fn resumed_snapshot(mut self, snapshot: SnapshotProgress) -> Self {
        self.snapshot = snapshot;
        self
    }

    /// Returns the progress of incremental snapshots.
    pub const fn snapshot(&self) -> &SnapshotProgress {
        &self.snapshot
    }

    /// Returns whether records that belong to no transaction of the source may follow: nothing of the next transaction was
    /// written.
    pub const fn is_between_transactions(&self) -> bool {
        let is_broker_ready = match &self.target {
            SinkTarget::Broker(broker) => broker.is_between_transactions(),
            SinkTarget::Pipe(_) | SinkTarget::Files(_) => true,
        };
        is_broker_ready && self.skip.is_none()
    }

    /// Marks the end of a chunk of an incremental snapshot, or a change of its tables, between two transactions. `token`
    /// resumes the stream there.
    ///
    /// # Errors
    ///
    /// If records cannot be written.
    pub fn mark_snapshot(&mut self, token: ResumeToken, snapshot: SnapshotProgress) -> io::Result<()> {
        assert!(self.is_between_transactions(), "ours: chunks are between transactions");
        self.snapshot = snapshot;
        self.mark_position(token);
        self.drain_if_full()
    }

    /// Returns the saved progress of incremental snapshots; `None` if the output saves none.
    pub fn saved_snapshot(&self) -> Option<&SnapshotProgress> {
        match &self.target {
            SinkTarget::Pipe(pipe) => pipe.saved_snapshot(),
            SinkTarget::Files(files) => Some(files.snapshot().unwrap_or(NO_SNAPSHOT)),
            SinkTarget::Broker(broker) => Some(broker.committed_snapshot().unwrap_or(NO_SNAPSHOT)),
        }
    }

    /// Returns the part of the next transaction that another program has written.
    pub const fn skip(&self) -> Option<TransactionSkip> {
        self.skip
    }

    /// Sets the server whose log follows. `gtid_state` holds the GTIDs received so far, perhaps from another server. They are
    /// saved with the position.
    pub fn follow(&mut self, server: &str, gtid_state: Option<StreamGtidState>) {
        self.server = server.to_owned();
        self.gtid_state = Some(gtid_state.unwrap_or_else(|| StreamGtidState::new(self.server.clone())));
    }

    /// Reads the saved table definitions; `None` if there are none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn read_schema(&self) -> io::Result<Option<DdlSchema>> {
        match &self.target {
            SinkTarget::Files(files) => files.read_schema(),
            SinkTarget::Pipe(pipe) => pipe.read_schema(),
            SinkTarget::Broker(broker) => Ok(broker.definitions().cloned()),
        }
    }

    /// Drops the saved definitions, which this run does not use and does not update. They are deleted with the next
    /// save.
    pub fn forget_schema(&mut self) {
        match &mut self.target {
            SinkTarget::Files(files) => files.forget_schema(),
            SinkTarget::Pipe(pipe) => pipe.forget_schema(),
            SinkTarget::Broker(broker) => broker.forget_definitions(),
        }
    }

    /// Sets the table definitions after the current transaction, to be saved with its end.
    pub fn set_schema(&mut self, definitions: DdlSchema) {
        self.new_schema = Some(definitions);
    }

    /// Takes back definitions that are not yet part of a mark.
    pub(crate) const fn take_schema(&mut self) -> Option<DdlSchema> {
        self.new_schema.take()
    }

    /// Returns the GTIDs received from a server up to the last mark.
    pub const fn gtid_state(&self) -> Option<&StreamGtidState> {
        self.gtid_state.as_ref()
    }

    /// Adds the GTIDs in the head of a log of the server.
    pub fn begin_log(&mut self, head: &Body<'_>) {
        if let Some(gtid_state) = &mut self.gtid_state {
            gtid_state.add_log_head(head);
        }
    }

    /// Returns whether there were no records yet.
    pub(crate) const fn is_empty(&self) -> bool {
        self.written == 0 && self.bytes.is_empty()
    }

    /// Returns the position after the last transaction.
    pub fn token(&self) -> Option<&ResumeToken> {
        self.marked.as_ref().map(|mark| &mark.token)
    }

    /// Discards the records after the last transaction, which the caller reads again. Files are truncated. Records that
    /// were written to a pipe cannot be withdrawn.
    ///
    /// # Errors
    ///
    /// If a file cannot be truncated.
    pub fn rewind(&mut self) -> io::Result<()> {
        if matches!(self.target, SinkTarget::Broker(_)) {
            return self.rewind_broker();
        }
        let whole = self.marked.as_ref().map_or(0, |mark| mark.size);
        if let Some(kept) = whole.checked_sub(self.written) {
            self.bytes.truncate(kept as usize);
            return Ok(());
        }
        self.bytes.clear();
        if let SinkTarget::Files(files) = &mut self.target {
            files.cut_tail(self.written - whole)?;
            self.written = whole;
        }
        Ok(())
    }

    /// Marks the end of a transaction: the next save covers the records up to here.
    pub fn mark(&mut self, token: ResumeToken) {
        if let Some(gtid_state) = &mut self.gtid_state {
            gtid_state.add(token.gtid.as_deref());
        }
        self.mark_position(token);
    }

    /// Marks a position that is not the end of a transaction.
    pub(crate) fn mark_position(&mut self, token: ResumeToken) {
        if let Some(gtid_state) = &mut self.gtid_state {
            // Until the first mark, the position belongs to the previous server's log.
            gtid_state.server.clone_from(&self.server);
        }
        let size = self.written + self.bytes.len() as u64;
        self.marked = Some(SinkMark { token, size });
        (self.is_newer, self.skip) = (true, None);
        self.index.iter_mut().for_each(RecordIndex::end_transaction);
        if matches!(&self.target, SinkTarget::Pipe(pipe) if pipe.is_mark_due(size)) {
            self.mark_pipe();
        }
    }

    /// Passes the mark to the pipe, which saves it once the reader has read all records before it.
    fn mark_pipe(&mut self) {
        if let (SinkTarget::Pipe(pipe), Some(SinkMark { token, size }), true) =
            (&mut self.target, &self.marked, self.is_newer)
        {
            let (token, size, gtid_state) = (token.clone(), *size, self.gtid_state.clone());
            let (snapshot, new_schema) = (self.snapshot.clone(), self.new_schema.take());
            pipe.mark(pipe_sink::PipeMark { token, size, gtid_state, new_schema, snapshot });
            self.is_newer = false;
        }
    }

    /// Returns whether the progress is saved, so that the next run resumes where this one stops.
    pub const fn saves_progress(&self) -> bool {
        match &self.target {
            SinkTarget::Pipe(pipe) => pipe.saves_progress(),
            SinkTarget::Files(_) | SinkTarget::Broker(_) => true,
        }
    }

    /// Returns whether the reader of the pipe has yet to read records before a mark.
    pub fn has_unread_marks(&self) -> bool {
        match &self.target {
            SinkTarget::Pipe(pipe) => pipe.has_unread_marks(),
            SinkTarget::Files(_) | SinkTarget::Broker(_) => false,
        }
    }

    /// Lets a broker take notice of its connections while there are no records. Returns whether it is to be called
    /// regularly.
    ///
    /// # Errors
    ///
    /// If a commit has failed.
    pub fn poll(&mut self) -> io::Result<bool> {
        match &mut self.target {
            SinkTarget::Broker(broker) => {
                let polled = broker.poll();
                self.unless_failed(polled).map(|()| true)
            }
            SinkTarget::Pipe(_) | SinkTarget::Files(_) => Ok(false),
        }
    }

    /// Returns whether a save is due: a file has reached its maximum size, or records have waited for a broker long enough.
    pub fn is_save_due(&self) -> bool {
        match &self.target {
            SinkTarget::Pipe(..) => false,
            SinkTarget::Broker(broker) => broker.is_commit_due(),
            SinkTarget::Files(files) => files.size() + self.bytes.len() as u64 >= files.size_max(),
        }
    }

    /// Writes the buffer and saves progress: for files and brokers, the last complete transaction; for a pipe, the last one
    /// that the reader has read.
    ///
    /// # Errors
    ///
    /// If records or progress cannot be written.
    pub fn save(&mut self) -> io::Result<()> {
        if matches!(self.target, SinkTarget::Broker(_)) {
            return self.save_to_broker();
        }
        self.mark_pipe();
        let drained = self.drain();
        match &mut self.target {
            // Save what was read even if the pipe takes no more.
            SinkTarget::Pipe(pipe) => drained.and(pipe.save())?,
            SinkTarget::Files(files) => {
                drained?;
                if let (Some(mark), true) = (&self.marked, self.is_newer) {
                    let checkpoint = StreamCheckpoint {
                        token: &mark.token,
                        gtid_state: self.gtid_state.as_ref(),
                        snapshot: &self.snapshot,
                        new_schema: self.new_schema.take(),
                    };
                    files.save(checkpoint, self.written - mark.size)?;
                }
            }
            SinkTarget::Broker(_) => drained?,
        }
        self.is_newer = false;
        Ok(())
    }

    /// Writes and saves the rest, and finishes the last file.
    ///
    /// # Errors
    ///
    /// If records or progress cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        if matches!(self.target, SinkTarget::Broker(_)) {
            self.rewind()?;
        }
        self.save()?;
        match self.target {
            SinkTarget::Pipe(..) => Ok(()),
            SinkTarget::Broker(mut broker) => broker.finish(),
            SinkTarget::Files(files) => files.finish(),
        }
    }

    /// Writes the buffer if it is full.
    pub(crate) fn drain_if_full(&mut self) -> io::Result<()> {
        if self.bytes.len() < DRAIN_SIZE {
            return Ok(());
        }
        self.drain()
    }

    fn drain(&mut self) -> io::Result<()> {
        let written = match &mut self.target {
            SinkTarget::Pipe(pipe) => pipe.write_all(&self.bytes),
            SinkTarget::Files(files) => files.write_all(&self.bytes),
            SinkTarget::Broker(_) => return self.push_to_broker(PushExtent::All),
        };
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        if written.is_err() {
            // A later save must not count records that were not written.
            (self.marked, self.is_newer) = (None, false);
        }
        written
    }

    /// Adds the field `resume` to the last record.
    pub(crate) fn put_resume(&mut self, token: &ResumeToken) {
        put_resume(&mut self.bytes, token);
        if let Some(index) = &mut self.index {
            index.extend_last(self.bytes.len());
        }
    }

    /// Writes Debezium's heartbeat of the stream `name` to a broker. Within a large transaction, it is left out.
    ///
    /// # Errors
    ///
    /// If the broker refuses the record.
    pub fn beat(&mut self, name: &str, now_ns: u64) -> io::Result<()> {
        let SinkTarget::Broker(broker) = &mut self.target else { return Ok(()) };
        let (mut key, mut value) = (b"{\"serverName\":".to_vec(), b"{\"ts_ms\":".to_vec());
        put_string(&mut key, name);
        put_u64(&mut value, now_ns / 1_000_000);
        key.push(b'}');
        value.push(b'}');
        let (key, value) = (Some(&*key), Some(&*value));
        let kind = &KeyedRecordKind::Heartbeat;
        let pushed = broker.push_heartbeat(&KeyedRecord { kind, key, value, other_key: None });
        self.is_newer |= *pushed.as_ref().unwrap_or(&false);
        self.unless_failed(pushed.map(drop))
    }

    /// Starts a snapshot, which starts over after an interruption: nothing is saved with its records.
    pub(crate) fn begin_snapshot(&mut self) {
        if let SinkTarget::Broker(broker) = &mut self.target {
            broker.begin_snapshot();
        }
    }

    fn rewind_broker(&mut self) -> io::Result<()> {
        let (SinkTarget::Broker(broker), Some(index)) = (&mut self.target, &mut self.index) else {
            return Ok(());
        };
        let complete = index.complete_entries();
        let size = index.keep_first(complete);
        self.bytes.truncate(size);
        if complete == 0 { broker.rewind() } else { Ok(()) }
    }

    fn save_to_broker(&mut self) -> io::Result<()> {
        self.push_to_broker(PushExtent::Complete)?;
        let committed = match &self.target {
            // Only a large transaction is committed in parts.
            SinkTarget::Broker(broker) if self.is_newer && !broker.is_in_transaction() => {
                self.commit_to_broker()
            }
            _ => Ok(()),
        };
        self.unless_failed(committed)
    }

    /// Pushes buffered records. Commits what is too large for one transaction of the broker.
    fn push_to_broker(&mut self, extent: PushExtent) -> io::Result<()> {
        let pushed = self.push_extent(extent);
        self.unless_failed(pushed)
    }

    /// Discards the mark after a failure, and ends all commits: a later save must not count records that were not
    /// written, and pushes some records again.
    fn unless_failed(&mut self, result: io::Result<()>) -> io::Result<()> {
        if result.is_err() {
            (self.marked, self.is_newer, self.has_failed) = (None, false, true);
        }
        result
    }

    fn push_extent(&mut self, extent: PushExtent) -> io::Result<()> {
        let complete = self.index.as_ref().map_or(0, RecordIndex::complete_entries);
        self.push_entries(complete)?;
        if extent == PushExtent::All {
            // The rest belongs to an incomplete transaction.
            self.push_entries(usize::MAX)?;
        }
        Ok(())
    }

    /// Pushes the first `count` entries of the index, and commits if the broker is full.
    fn push_entries(&mut self, count: usize) -> io::Result<()> {
        let (SinkTarget::Broker(broker), Some(index)) = (&mut self.target, &mut self.index) else {
            return Ok(());
        };
        let size = broker.push_entries(index, count, &self.bytes)?;
        self.bytes.drain(..size);
        self.written += size as u64;
        if broker.is_full() { self.commit_to_broker() } else { Ok(()) }
    }

    fn commit_to_broker(&mut self) -> io::Result<()> {
        let SinkTarget::Broker(broker) = &mut self.target else { return Ok(()) };
        if self.has_failed {
            return Ok(());
        }
        let definitions = match broker.is_in_transaction() {
            true => None,
            false => self.new_schema.take(),
        };
        let progress = BrokerProgress {
            token: self.marked.as_ref().map(|mark| mark.token.clone()),
            skip: self.skip,
            gtid_state: self.gtid_state.clone(),
            snapshot: self.snapshot.clone(),
            ..BrokerProgress::default()
        };
        // Progress that is deferred is still to be saved.
        self.is_newer = broker.commit(progress, definitions)? == CommitStart::Deferred;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::io::{self, Write};
    use std::rc::Rc;

    use super::{RecordSink, SinkTarget};
    use crate::broker_sink::{
        BrokerProgress, BrokerSink, CommitStart, CommittedPart, KeyedRecord, KeyedRecordKind,
    };
    use crate::broker_target::BrokerTarget;
    use crate::pipe_sink::PipeSink;
    use crate::progress_file::lock_progress;

    /// A writer that accepts this number of bytes, and then fails.
    struct LimitedWriter(usize);

    impl Write for LimitedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.len() > self.0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.0 -= bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn failed_writes_are_never_saved() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("progress");
        let lock = lock_progress(&path).unwrap();
        let pipe = PipeSink::new(Box::new(LimitedWriter(10))).with_progress(path.clone(), lock, None, || 0);
        let mut output = RecordSink::new(SinkTarget::Pipe(Box::new(pipe)));
        output.bytes.extend(b"one\n");
        output.mark("binlog.000001:100".parse().unwrap());
        output.save().unwrap();
        output.bytes.extend(b"two, and more\n");
        output.mark("binlog.000001:200".parse().unwrap());
        assert!(output.save().is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "binlog.000001:100\n");
        // An orderly shutdown saves once more.
        output.save().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "binlog.000001:100\n");
    }

    /// A broker that takes two records per transaction, and writes what it commits into a list.
    #[derive(Debug, Default)]
    struct ListBroker {
        pending: Vec<String>,
        marked: usize,
        commits: Rc<RefCell<Vec<String>>>,
        /// Record that is refused once.
        refused: Option<String>,
        /// Set if the next commit is deferred.
        is_deferred: bool,
    }

    impl BrokerSink for ListBroker {
        fn push(&mut self, record: &KeyedRecord<'_>) -> io::Result<()> {
            let value = String::from_utf8_lossy(record.value.unwrap()).into_owned();
            if self.refused.as_ref() == Some(&value) {
                self.refused = None;
                return Err(io::ErrorKind::Other.into());
            }
            self.pending.push(value);
            Ok(())
        }

        fn mark(&mut self) {
            self.marked = self.pending.len();
        }

        fn is_full(&self) -> bool {
            self.pending.len() >= 2
        }

        fn is_commit_due(&self) -> bool {
            false
        }

        fn committed(&self) -> Option<&BrokerProgress> {
            None
        }

        fn commit(&mut self, progress: Option<&BrokerProgress>) -> io::Result<CommitStart> {
            if std::mem::take(&mut self.is_deferred) {
                return Ok(CommitStart::Deferred);
            }
            let progress = progress.map(|progress| {
                let token = progress.token.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("{token}+{}", progress.part.records)
            });
            let records = std::mem::take(&mut self.pending).join(",");
            self.commits.borrow_mut().push(format!("{records}: {}", progress.unwrap_or_default()));
            self.marked = 0;
            Ok(CommitStart::Started)
        }

        fn rewind(&mut self) -> io::Result<()> {
            self.pending.truncate(self.marked);
            Ok(())
        }

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn poll(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Output to a broker, after a run that has saved this position and committed a part of the next transaction.
    struct BrokerFixture {
        output: RecordSink,
        commits: Rc<RefCell<Vec<String>>>,
    }

    impl BrokerFixture {
        fn new(token: Option<&str>, committed: CommittedPart) -> Self {
            let commits = Rc::new(RefCell::new(Vec::new()));
            let sink = ListBroker { commits: Rc::clone(&commits), ..ListBroker::default() };
            let target = BrokerTarget::new(Box::new(sink), committed, None);
            let output = RecordSink::new(SinkTarget::Broker(Box::new(target)));
            Self { output: output.resumed_at(token.map(|token| token.parse().unwrap())), commits }
        }

        /// Writes records, each a letter; `|` ends a transaction, `!` writes the buffer, `<` rewinds.
        fn write(&mut self, letters: &str) -> io::Result<()> {
            for (letter, position) in letters.chars().zip(1..) {
                match letter {
                    '|' => self.output.mark(format!("log:{position}").parse().unwrap()),
                    '!' => self.output.drain()?,
                    '<' => self.output.rewind()?,
                    letter => {
                        self.output.bytes.extend(format!("{letter}\n").bytes());
                        let (key, end) = (letter.to_string(), self.output.bytes.len());
                        let index = self.output.index.as_mut().unwrap();
                        index.push_row(KeyedRecordKind::Definition, key.as_bytes(), end);
                    }
                }
            }
            self.output.save()
        }
    }

    /// Returns the part of a transaction with these records.
    fn part(letters: &str) -> CommittedPart {
        let mut part = CommittedPart::default();
        for letter in letters.chars() {
            let text = letter.to_string();
            let (key, value) = (Some(text.as_bytes()), Some(text.as_bytes()));
            part.add(&KeyedRecord { kind: &KeyedRecordKind::Definition, key, value, other_key: None });
        }
        part
    }

    #[test]
    fn brokers_commit_whole_transactions_or_parts_of_large_ones() {
        let check = |letters: &str, expected: &[&str]| {
            let mut given = BrokerFixture::new(None, CommittedPart::default());
            given.write(letters).unwrap();
            assert_eq!(*given.commits.borrow(), expected, "{letters}");
        };
        check("a|", &["a: log:2+0"]);
        check("a|b|c|", &["a,b,c: log:6+0"]);
        // A small transaction waits for its end.
        check("a|b", &["a: log:2+0"]);
        check("a|b!", &["a,b: log:2+1"]);
        check("ab!c!d|", &["a,b: +2", "c,d: log:7+0"]);
        // Another connection sends a transaction again.
        check("a|b<b|", &["a,b: log:6+0"]);
        check("a!<a|", &["a: log:5+0"]);
        check("ab!c!<abcd|", &["a,b: +2", "c,d: log:11+0"]);
    }

    #[test]
    fn deferred_progress_is_saved_later() {
        let commits = Rc::new(RefCell::new(Vec::new()));
        let sink = ListBroker { commits: Rc::clone(&commits), is_deferred: true, ..ListBroker::default() };
        let target = BrokerTarget::new(Box::new(sink), CommittedPart::default(), None);
        let mut output = RecordSink::new(SinkTarget::Broker(Box::new(target)));
        output.mark("log:7".parse().unwrap());
        output.save().unwrap();
        assert!(commits.borrow().is_empty(), "{commits:?}");
        output.save().unwrap();
        output.save().unwrap();
        assert_eq!(*commits.borrow(), [": log:7+0"]);
    }

    #[test]
    fn nothing_is_committed_after_a_failure() {
        let commits = Rc::new(RefCell::new(Vec::new()));
        let refused = Some("c".to_owned());
        let sink = ListBroker { commits: Rc::clone(&commits), refused, ..ListBroker::default() };
        let target = BrokerTarget::new(Box::new(sink), CommittedPart::default(), None);
        let output = RecordSink::new(SinkTarget::Broker(Box::new(target)));
        let mut given = BrokerFixture { output, commits };
        assert!(given.write("ab|c|").is_err());
        // An orderly shutdown saves once more, and pushes the records again.
        given.output.save().unwrap();
        assert!(given.commits.borrow().is_empty(), "{:?}", given.commits);
    }

    #[test]
    fn committed_parts_are_left_out() {
        let check = |committed: &str, letters: &str, expected: &[&str]| {
            let mut given = BrokerFixture::new(Some("log:9"), part(committed));
            match given.write(letters) {
                Ok(()) => assert_eq!(*given.commits.borrow(), expected, "{letters}"),
                Err(error) => assert!(expected.is_empty(), "{letters}: {error}"),
            }
        };
        check("ab", "abc|d|", &["c,d: log:6+0"]);
        check("ab", "abcd!e|", &["c,d: log:9+4", "e: log:7+0"]);
        check("ab", "ab|", &[": log:3+0"]);
        // Other records, or too few of them.
        check("ab", "axc|", &[]);
        check("ab", "a|", &[]);
    }
}
