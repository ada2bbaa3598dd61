//! Writing of records to a pipe, and tracking of how much its reader has read.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use logs::FileLock;

use crate::ddl_schema::DdlSchema;
use crate::progress_file::{SavedProgress, write_atomically};
use crate::resume_token::ResumeToken;
use crate::schema_files::SchemaFiles;
use crate::snapshot_progress::SnapshotProgress;
use crate::stream_gtid_state::StreamGtidState;

/// Writer of records to a pipe. Bytes in a pipe are lost with its reader, so a position is saved only once all records
/// before it were read.
pub struct PipeSink {
    to: Box<dyn Write>,
    progress: Option<PipeProgress>,
    /// Bytes written so far.
    written: u64,
}

/// Progress of the reader, and the file it is saved in.
struct PipeProgress {
    path: PathBuf,
    /// Prevents a second process from writing the same file.
    _lock: FileLock,
    /// Returns the number of bytes that were written but not read yet.
    unread_bytes: Box<dyn Fn() -> u64>,
    /// Marks that the reader has not reached yet, oldest first.
    marks: VecDeque<PipeMark>,
    /// Last mark that the reader has reached, if it is not saved yet.
    read_mark: Option<PipeMark>,
    schema_files: SchemaFiles,
    /// Progress of incremental snapshots at the last saved mark.
    saved_snapshot: SnapshotProgress,
}

/// End of a transaction.
#[derive(Debug)]
pub(crate) struct PipeMark {
    pub(crate) token: ResumeToken,
    /// Bytes of records up to the mark.
    pub(crate) size: u64,
    /// GTIDs received from a server up to the mark; `None` for log files.
    pub(crate) gtid_state: Option<StreamGtidState>,
    /// Table definitions at the mark, if they are newer than at the mark before.
    pub(crate) new_schema: Option<DdlSchema>,
    /// Progress of incremental snapshots at the mark.
    pub(crate) snapshot: SnapshotProgress,
}

/// Marks not reached by the reader. Bounds memory: further marks replace the last one.
const MARKS_MAX: usize = 256;
/// Bytes after which a mark is due, at most.
const MARK_INTERVAL_MAX: u64 = 16 << 10;
/// Near the start, a mark is due after this fraction of the bytes so far. Otherwise a reader that reads little per run
/// would get the same records again in each run, and never advance.
const MARK_DIVISOR: u64 = 8;

impl PipeSink {
    /// Writes to `to`, without saving progress.
    pub fn new(to: Box<dyn Write>) -> Self {
        Self { to, progress: None, written: 0 }
    }

    /// Returns whether the next run resumes where this one stops.
    pub(crate) const fn saves_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// Saves the reader's progress in the file `path`, which may name a file of table definitions by its number.
    /// `waiting` returns the number of bytes that were written but not read yet.
    #[must_use]
    pub fn with_progress(
        self,
        path: PathBuf,
        lock: FileLock,
        definitions: Option<u64>,
        waiting: impl Fn() -> u64 + 'static,
    ) -> Self {
        let schema_files = SchemaFiles::beside(&path, definitions);
        let (waiting, marks) = (Box::new(waiting), VecDeque::new());
        Self {
            progress: Some(PipeProgress {
                path,
                _lock: lock,
                unread_bytes: waiting,
                marks,
                read_mark: None,
                schema_files,
                saved_snapshot: SnapshotProgress::default(),
            }),
            ..self
        }
    }

    /// Reads the saved table definitions; `None` if there are none.
    pub(crate) fn read_schema(&self) -> io::Result<Option<DdlSchema>> {
        self.progress.as_ref().map_or(Ok(None), |progress| progress.schema_files.read())
    }

    /// Drops the saved definitions: what follows is read without them.
    pub(crate) fn forget_schema(&mut self) {
        self.progress.iter_mut().for_each(|progress| progress.schema_files.forget());
    }

    /// Returns whether a mark is due after `size` bytes.
    pub(crate) fn is_mark_due(&self, size: u64) -> bool {
        let Some(progress) = &self.progress else { return false };
        let last = progress.marks.back().or(progress.read_mark.as_ref()).map_or(0, |mark| mark.size);
        size >= last + (size / MARK_DIVISOR).min(MARK_INTERVAL_MAX)
    }

    /// Adds a mark, to be saved once the reader has read all records before it.
    pub(crate) fn mark(&mut self, mark: PipeMark) {
        if let Some(progress) = &mut self.progress {
            progress.mark(mark, self.written);
        }
    }

    /// Returns the saved progress of incremental snapshots; `None` if no progress is saved.
    pub(crate) fn saved_snapshot(&self) -> Option<&SnapshotProgress> {
        self.progress.as_ref().map(|progress| &progress.saved_snapshot)
    }

    /// Returns whether the reader has yet to reach a mark.
    pub(crate) fn has_unread_marks(&self) -> bool {
        self.progress.as_ref().is_some_and(|progress| !progress.marks.is_empty())
    }

    /// Saves the last mark that the reader has reached.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        self.to.flush()?;
        match &mut self.progress {
            Some(progress) => progress.save(self.written),
            None => Ok(()),
        }
    }
}

impl PipeProgress {
    fn mark(&mut self, mut mark: PipeMark, written: u64) {
        if self.marks.len() == MARKS_MAX {
            self.take_read_marks(written);
        }
        if self.marks.len() == MARKS_MAX
            && let Some(last) = self.marks.pop_back()
        {
            mark.new_schema = mark.new_schema.or(last.new_schema);
        }
        self.marks.push_back(mark);
    }

    /// Takes the marks that the reader has reached.
    fn take_read_marks(&mut self, written: u64) {
        let taken = written.saturating_sub((self.unread_bytes)());
        while self.marks.front().is_some_and(|mark| mark.size <= taken) {
            let Some(mut mark) = self.marks.pop_front() else { return };
            mark.new_schema = mark.new_schema.or(self.read_mark.take().and_then(|older| older.new_schema));
            self.read_mark = Some(mark);
        }
    }

    fn save(&mut self, written: u64) -> io::Result<()> {
        self.take_read_marks(written);
        let Some(mark) = self.read_mark.take() else { return Ok(()) };
        let definitions = self.schema_files.write(mark.new_schema.as_ref())?;
        let PipeMark { token, gtid_state, snapshot, .. } = mark;
        let schema_number = self.schema_files.number();
        let saved = SavedProgress { token, schema_number, snapshot, gtid_state };
        write_atomically(&self.path, &saved.to_string())?;
        definitions.remove();
        self.saved_snapshot = saved.snapshot;
        Ok(())
    }
}

/// Counts the written bytes, also of a write that fails part-way.
impl Write for PipeSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl fmt::Debug for PipeSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = self.progress.as_ref().map(|progress| &progress.path);
        out.debug_struct("PipeSink").field("progress", &progress).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::io::{self, Write as _};
    use std::rc::Rc;

    use super::{MARKS_MAX, PipeMark, PipeSink};
    use crate::ddl_schema::{DdlContext, DdlSchema};
    use crate::progress_file::lock_progress;
    use crate::snapshot_progress::SnapshotProgress;

    /// A pipe with a settable number of unread bytes, and the directory of its progress file.
    struct PipeFixture {
        pipe: PipeSink,
        waiting: Rc<Cell<u64>>,
        directory: tempfile::TempDir,
    }

    impl PipeFixture {
        fn new() -> Self {
            let (directory, waiting) = (tempfile::tempdir().unwrap(), Rc::new(Cell::new(0)));
            let held = waiting.clone();
            let path = directory.path().join("progress");
            let lock = lock_progress(&path).unwrap();
            let pipe =
                PipeSink::new(Box::new(io::sink())).with_progress(path, lock, None, move || held.get());
            Self { pipe, waiting, directory }
        }

        /// Writes one byte, and a mark after it.
        fn byte(&mut self, defined: Option<DdlSchema>) {
            self.pipe.write_all(b"x").unwrap();
            let (size, gtid_state) = (self.pipe.written, None);
            self.pipe.mark(PipeMark {
                snapshot: SnapshotProgress::default(),
                token: format!("log:{size}").parse().unwrap(),
                size,
                gtid_state,
                new_schema: defined,
            });
        }

        fn check(&mut self, waiting: u64, expected: &str) {
            self.waiting.set(waiting);
            self.pipe.save().unwrap();
            let text = fs::read_to_string(self.directory.path().join("progress")).unwrap_or_default();
            assert_eq!(text.replace('\n', "|"), expected, "{waiting} waiting");
        }
    }

    #[test]
    fn unread_bytes_are_not_saved_as_read() {
        let mut given = PipeFixture::new();
        (0..10).for_each(|_| given.byte(None));
        given.check(u64::MAX, "");
        given.check(10, "");
        given.check(9, "log:1|");
        given.check(3, "log:7|");
        assert!(given.pipe.has_unread_marks());
        given.check(0, "log:10|");
        assert!(!given.pipe.has_unread_marks());
    }

    #[test]
    fn readers_that_take_little_make_progress() {
        let mut given = PipeFixture::new();
        for size in 1..1_000_000_u64 {
            given.pipe.written = size;
            if given.pipe.is_mark_due(size) {
                given.pipe.mark(PipeMark {
                    snapshot: SnapshotProgress::default(),
                    token: format!("log:{size}").parse().unwrap(),
                    size,
                    gtid_state: None,
                    new_schema: None,
                });
            }
        }
        let sizes: Vec<u64> =
            given.pipe.progress.iter().flat_map(|progress| &progress.marks).map(|mark| mark.size).collect();
        assert_eq!(sizes[..3], [1, 2, 3]);
        let parts = sizes.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
        assert!(parts.clone().all(|(part, size)| part <= 1 + size / 8 && part <= 16 << 10), "{sizes:?}");
        assert!(sizes.len() < MARKS_MAX, "{}", sizes.len());
    }

    #[test]
    fn definitions_are_saved_with_their_mark() {
        let defined = |sql: &str| {
            let mut definitions = DdlSchema::default();
            definitions.apply_statement(sql, DdlContext { database: "d", ..DdlContext::default() });
            Some(definitions)
        };
        let mut given = PipeFixture::new();
        given.byte(None);
        given.byte(defined("create table t (a int)"));
        given.byte(None);
        given.byte(defined("create table t (b int)"));
        given.check(3, "log:1|");
        given.check(1, "log:3|schema 1|");
        let saved = given.pipe.read_schema().unwrap().expect("no definitions");
        assert_eq!(Some(saved), defined("create table t (a int)"));
        given.check(0, "log:4|schema 2|");
    }

    #[test]
    fn unread_marks_are_limited() {
        let mut given = PipeFixture::new();
        given.waiting.set(u64::MAX);
        let count = MARKS_MAX as u64 * 3;
        (0..count).for_each(|_| given.byte(None));
        assert_eq!(given.pipe.progress.as_ref().map(|progress| progress.marks.len()), Some(MARKS_MAX));
        given.check(1, &format!("log:{}|", MARKS_MAX - 1));
        given.check(0, &format!("log:{count}|"));
    }
}
