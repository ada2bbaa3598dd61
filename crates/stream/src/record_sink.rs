//! Buffered writing of records, and saving of progress.

use std::io;

use binlog::{DecodeError, Event as Body};
use sql::numbers::put_u64;

use crate::broker_output::BrokerOutput;
use crate::broker_sink::{KeyedRecord, KeyedRecordKind, TransactionSkip};
use crate::broker_target::BrokerTarget;
use crate::byte_output::{ByteOutput, ByteTarget};
use crate::change::ResumePosition;
use crate::ddl_schema::DdlSchema;
use crate::directory_sink::DirectorySink;
use crate::json_writer::put_string;
use crate::pipe_sink::PipeSink;
use crate::record_index::RecordIndex;
use crate::resume_token::ResumeToken;
use crate::sink_progress::{SinkMark, SinkProgress};
use crate::snapshot_progress::SnapshotProgress;
use crate::stream_gtid_state::StreamGtidState;
use crate::transaction_buffer::put_resume;

/// Size in bytes at which the buffer is written.
const DRAIN_SIZE: usize = 256 << 10;

/// Buffer of records, written many at a time.
#[derive(Debug)]
pub struct RecordSink {
    pub(crate) bytes: Vec<u8>,
    target: SinkTarget,
    progress: SinkProgress,
    /// Server whose log is being read.
    server: String,
    /// True if the log of this server before the current one was read up to its end.
    has_rotated: bool,
}

/// Target of the records.
#[derive(Debug)]
enum SinkTarget {
    Bytes(ByteOutput),
    Broker(BrokerOutput),
}

impl RecordSink {
    /// Creates an output to a pipe or to standard output.
    pub fn for_pipe(pipe: PipeSink) -> Self {
        Self::new(SinkTarget::Bytes(ByteOutput::new(ByteTarget::Pipe(Box::new(pipe)))))
    }

    /// Creates an output to the files of a directory.
    pub fn for_files(files: DirectorySink) -> Self {
        Self::new(SinkTarget::Bytes(ByteOutput::new(ByteTarget::Files(Box::new(files)))))
    }

    /// Creates an output to a message broker. `skip` is the part of the next transaction that another program has written.
    pub fn for_broker(broker: BrokerTarget, skip: Option<TransactionSkip>) -> Self {
        Self::new(SinkTarget::Broker(BrokerOutput::new(broker, skip)))
    }

    fn new(target: SinkTarget) -> Self {
        Self {
            bytes: Vec::with_capacity(DRAIN_SIZE * 2),
            target,
            progress: SinkProgress::default(),
            server: String::new(),
            has_rotated: false,
        }
    }

    /// Sets the position at which a run resumes. Until the first mark, it is saved with parts of a large transaction.
    #[must_use]
    pub fn resumed_at(mut self, token: Option<ResumeToken>) -> Self {
        self.progress.mark = token.map(|token| SinkMark { token, size: 0 });
        self
    }

    /// Sets the progress of incremental snapshots that an earlier run has saved.
    #[must_use]
    pub fn resumed_snapshot(mut self, snapshot: SnapshotProgress) -> Self {
        self.progress.snapshot = snapshot;
        self
    }

    /// Returns the progress of incremental snapshots.
    pub const fn snapshot(&self) -> &SnapshotProgress {
        &self.progress.snapshot
    }

    /// Returns whether records that belong to no transaction of the source may follow: nothing of the next transaction was
    /// written.
    pub const fn is_between_transactions(&self) -> bool {
        match &self.target {
            SinkTarget::Bytes(_) => true,
            SinkTarget::Broker(broker) => broker.is_between_transactions(),
        }
    }

    /// Marks the end of a chunk of an incremental snapshot, or a change of its tables, between two transactions. `token`
    /// resumes the stream there.
    ///
    /// # Errors
    ///
    /// Fails if records cannot be written.
    pub fn mark_snapshot(&mut self, token: ResumeToken, snapshot: SnapshotProgress) -> io::Result<()> {
        assert!(self.is_between_transactions(), "ours: chunks are between transactions");
        self.progress.snapshot = snapshot;
        self.mark_position(token);
        self.drain_if_full()
    }

    /// Returns the saved progress of incremental snapshots; `None` if the output saves none.
    pub fn saved_snapshot(&self) -> Option<&SnapshotProgress> {
        match &self.target {
            SinkTarget::Bytes(output) => output.saved_snapshot(),
            SinkTarget::Broker(broker) => Some(broker.saved_snapshot()),
        }
    }

    /// Returns the part of the next transaction that another program has written.
    pub const fn skip(&self) -> Option<TransactionSkip> {
        match &self.target {
            SinkTarget::Bytes(_) => None,
            SinkTarget::Broker(broker) => broker.skip(),
        }
    }

    /// Sets the server whose log follows. `gtid_state` holds the GTIDs received so far, perhaps from another server. They are
    /// saved with the position.
    pub fn follow(&mut self, server: &str, gtid_state: Option<StreamGtidState>) {
        self.server = server.to_owned();
        self.has_rotated = false;
        let gtid_state = gtid_state.unwrap_or_else(|| StreamGtidState::new(self.server.clone()));
        self.progress.gtid_state = Some(gtid_state);
    }

    /// Reads the saved table definitions; `None` if there are none.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn read_schema(&self) -> io::Result<Option<DdlSchema>> {
        match &self.target {
            SinkTarget::Bytes(output) => output.read_schema(),
            SinkTarget::Broker(broker) => Ok(broker.definitions()),
        }
    }

    /// Drops the saved definitions, which this run does not use and does not update. They are deleted with the next
    /// save.
    pub fn forget_schema(&mut self) {
        match &mut self.target {
            SinkTarget::Bytes(output) => output.forget_schema(),
            SinkTarget::Broker(broker) => broker.forget_definitions(),
        }
    }

    /// Sets the table definitions after the current transaction, to be saved with its end.
    pub fn set_schema(&mut self, definitions: DdlSchema) {
        self.progress.new_schema = Some(definitions);
    }

    /// Takes back definitions that are not yet part of a mark.
    pub(crate) const fn take_schema(&mut self) -> Option<DdlSchema> {
        self.progress.new_schema.take()
    }

    /// Returns the GTIDs received from a server up to the last mark.
    pub const fn gtid_state(&self) -> Option<&StreamGtidState> {
        self.progress.gtid_state.as_ref()
    }

    /// Adds the GTIDs in the head of a log of the server.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be decoded.
    pub fn begin_log(&mut self, head: &Body<'_>) -> Result<(), DecodeError> {
        let Some(gtid_state) = &mut self.progress.gtid_state else { return Ok(()) };
        if self.has_rotated {
            gtid_state.drop_deleted_domains(head);
        }
        gtid_state.add_log_head(head)
    }

    /// Returns the index of the records in the buffer; `None` if records have no keys.
    pub(crate) const fn index(&mut self) -> Option<&mut RecordIndex> {
        match &mut self.target {
            SinkTarget::Bytes(_) => None,
            SinkTarget::Broker(broker) => Some(&mut broker.index),
        }
    }

    /// Returns whether there were no records yet.
    pub(crate) const fn is_empty(&self) -> bool {
        self.written() == 0 && self.bytes.is_empty()
    }

    /// Returns the number of bytes that have left the buffer.
    const fn written(&self) -> u64 {
        match &self.target {
            SinkTarget::Bytes(output) => output.written(),
            SinkTarget::Broker(broker) => broker.written(),
        }
    }

    /// Returns the position after the last transaction.
    pub fn token(&self) -> Option<&ResumeToken> {
        self.progress.mark.as_ref().map(|mark| &mark.token)
    }

    /// Discards the records after the last transaction, which the caller reads again. Files are truncated. Records that
    /// were written to a pipe cannot be withdrawn.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be truncated.
    pub fn rewind(&mut self) -> io::Result<()> {
        match &mut self.target {
            SinkTarget::Bytes(output) => output.rewind(&mut self.bytes, &self.progress),
            SinkTarget::Broker(broker) => broker.rewind(&mut self.bytes),
        }
    }

    /// Marks the end of a transaction: the next save covers the records up to here.
    pub fn mark(&mut self, token: ResumeToken) {
        if let Some(gtid_state) = &mut self.progress.gtid_state {
            gtid_state.add(token.gtid.as_deref());
        }
        self.mark_position(token);
    }

    /// Marks the start of a log to which the source has rotated after a whole transaction. The next run then does not need
    /// the logs before it. Without effect until a transaction of the server was received: by GTIDs, the source may still
    /// skip transactions in the new log.
    pub fn mark_log_start(&mut self, start: ResumePosition) {
        let is_of_server = |gtid_state: &StreamGtidState| gtid_state.server == self.server;
        if self.is_between_transactions() && self.progress.gtid_state.as_ref().is_none_or(is_of_server) {
            self.has_rotated = true;
            self.mark_position(ResumeToken { at: start, gtid: None });
        }
    }

    /// Marks a position that is not the end of a transaction.
    pub(crate) fn mark_position(&mut self, token: ResumeToken) {
        if let Some(gtid_state) = &mut self.progress.gtid_state {
            // Until the first mark, the position belongs to the previous server's log.
            gtid_state.server.clone_from(&self.server);
        }
        let size = self.written() + self.bytes.len() as u64;
        self.progress.mark = Some(SinkMark { token, size });
        self.progress.is_newer = true;
        match &mut self.target {
            SinkTarget::Bytes(output) => output.mark(&mut self.progress),
            SinkTarget::Broker(broker) => broker.mark(),
        }
    }

    /// Returns whether the progress is saved, so that the next run resumes where this one stops.
    pub const fn saves_progress(&self) -> bool {
        match &self.target {
            SinkTarget::Bytes(output) => output.saves_progress(),
            SinkTarget::Broker(_) => true,
        }
    }

    /// Returns whether the reader of the pipe has yet to read records before a mark.
    pub fn has_unread_marks(&self) -> bool {
        match &self.target {
            SinkTarget::Bytes(output) => output.has_unread_marks(),
            SinkTarget::Broker(_) => false,
        }
    }

    /// Lets a broker handle its connections while there are no records.
    ///
    /// # Errors
    ///
    /// Fails if a commit has failed.
    pub fn poll(&mut self) -> io::Result<()> {
        match &mut self.target {
            SinkTarget::Bytes(_) => Ok(()),
            SinkTarget::Broker(broker) => broker.poll(&mut self.progress),
        }
    }

    /// Returns whether a save is due: a file has reached its maximum size, or records have waited for a broker long enough.
    pub fn is_save_due(&self) -> bool {
        match &self.target {
            SinkTarget::Bytes(output) => output.is_save_due(&self.bytes),
            SinkTarget::Broker(broker) => broker.is_commit_due(),
        }
    }

    /// Writes the buffer and saves progress: for files and brokers, the last complete transaction; for a pipe, the last one
    /// that the reader has read.
    ///
    /// # Errors
    ///
    /// Fails if records or progress cannot be written.
    pub fn save(&mut self) -> io::Result<()> {
        match &mut self.target {
            SinkTarget::Bytes(output) => output.save(&mut self.bytes, &mut self.progress),
            SinkTarget::Broker(broker) => broker.save(&mut self.bytes, &mut self.progress),
        }
    }

    /// Writes and saves the rest, and finishes the last file.
    ///
    /// # Errors
    ///
    /// Fails if records or progress cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        if let SinkTarget::Broker(broker) = &mut self.target {
            broker.rewind(&mut self.bytes)?;
        }
        self.save()?;
        match self.target {
            SinkTarget::Bytes(output) => output.finish(),
            SinkTarget::Broker(broker) => broker.finish(),
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
        match &mut self.target {
            SinkTarget::Bytes(output) => output.drain(&mut self.bytes, &mut self.progress),
            SinkTarget::Broker(broker) => broker.drain(&mut self.bytes, &mut self.progress),
        }
    }

    /// Appends a record with `put`. If `put` fails, removes its bytes: the output must end with a whole record.
    pub(crate) fn put_whole<E>(&mut self, put: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        let start = self.bytes.len();
        let result = put(self);
        if result.is_err() {
            self.bytes.truncate(start);
        }
        result
    }

    /// Adds the field `resume` to the last record.
    pub(crate) fn put_resume(&mut self, token: &ResumeToken) {
        put_resume(&mut self.bytes, token);
        let end = self.bytes.len();
        if let Some(index) = self.index() {
            index.extend_last(end);
        }
    }

    /// Writes Debezium's heartbeat of the stream `name` to a broker. Within a large transaction, it is left out.
    ///
    /// # Errors
    ///
    /// Fails if the broker refuses the record.
    pub fn beat(&mut self, name: &str, now_ns: u64) -> io::Result<()> {
        let SinkTarget::Broker(broker) = &mut self.target else { return Ok(()) };
        let (mut key, mut value) = (b"{\"serverName\":".to_vec(), b"{\"ts_ms\":".to_vec());
        put_string(&mut key, name);
        put_u64(&mut value, now_ns / 1_000_000);
        key.push(b'}');
        value.push(b'}');
        let (key, value) = (Some(&*key), Some(&*value));
        let kind = &KeyedRecordKind::Heartbeat;
        broker.push_heartbeat(&KeyedRecord { kind, key, value, other_key: None }, &mut self.progress)
    }

    /// Starts a snapshot, which starts over after an interruption: nothing is saved with its records.
    pub(crate) const fn begin_snapshot(&mut self) {
        if let SinkTarget::Broker(broker) = &mut self.target {
            broker.begin_snapshot();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::io::{self, Write};
    use std::rc::Rc;

    use super::RecordSink;
    use crate::broker_sink::{
        BrokerProgress, BrokerSink, CommitStart, CommittedPart, KeyedRecord, KeyedRecordKind,
    };
    use crate::broker_target::BrokerTarget;
    use crate::change::ResumePosition;
    use crate::pipe_sink::PipeSink;
    use crate::progress_file::lock_progress;
    use crate::stream_gtid_state::StreamGtidState;

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
        let mut output = RecordSink::for_pipe(pipe);
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

    #[test]
    fn the_start_of_a_log_is_marked_only_after_its_server_was_read() {
        let check = |state: Option<&str>, expected: &str| {
            let mut output = RecordSink::for_pipe(PipeSink::new(Box::new(io::sink())));
            output = output.resumed_at(Some("log.1:200,7".parse().unwrap()));
            output.follow("new", state.map(|server| StreamGtidState::new(server.to_owned())));
            output.mark_log_start(ResumePosition { log: "log.2".to_owned(), position: 4 });
            assert_eq!(output.token().unwrap().to_string(), expected, "{state:?}");
        };
        check(None, "log.2:4");
        check(Some("new"), "log.2:4");
        check(Some("old"), "log.1:200,7");
    }

    #[test]
    fn the_start_of_a_log_is_not_marked_within_a_committed_part() {
        let mark = |committed: &str| {
            let mut given = BrokerFixture::new(Some("log.1:9"), part(committed));
            given.output.mark_log_start(ResumePosition { log: "log.2".to_owned(), position: 4 });
            given.output.token().unwrap().to_string()
        };
        assert_eq!([mark(""), mark("ab")], ["log.2:4", "log.1:9"]);
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
            let output = RecordSink::for_broker(target, None);
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
                        let index = self.output.index().unwrap();
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
        let mut output = RecordSink::for_broker(target, None);
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
        let output = RecordSink::for_broker(target, None);
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

    #[test]
    fn heartbeats_keep_the_progress_of_a_committed_part() {
        let check = |committed: &str, expected: &str| {
            let mut given = BrokerFixture::new(Some("log:9"), part(committed));
            given.output.beat("name", 0).unwrap();
            given.output.save().unwrap();
            assert_eq!(*given.commits.borrow(), [format!("{{\"ts_ms\":0}}: log:9+{expected}")]);
        };
        check("", "0");
        check("ab", "2");
    }
}
