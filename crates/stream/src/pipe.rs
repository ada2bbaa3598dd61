//! Records on their way to whoever reads them, and how far these have taken them.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use logs::FileLock;

use crate::defined::Definitions;
use crate::files::write_atomically;
use crate::had::Had;
use crate::kept::{Kept, line};
use crate::token::Token;

/// Records to whoever reads them. What a pipe still holds is gone with its reader: a place is kept once all that is in
/// front of it was taken.
pub struct Pipe {
    to: Box<dyn Write>,
    progress: Option<Progress>,
    /// Bytes written by now.
    written: u64,
}

/// How far records were taken, and the file that says so.
struct Progress {
    path: PathBuf,
    /// Held as long as this writes to the file: two would overwrite each other's progress.
    _lock: FileLock,
    /// Bytes that were written and not taken yet.
    waiting: Box<dyn Fn() -> u64>,
    /// Ends of transactions that are still to be taken, the first in front.
    marks: VecDeque<Mark>,
    /// The last that was taken, if it is newer than what was saved.
    taken: Option<Mark>,
    kept: Kept,
}

/// The end of a transaction.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) token: Token,
    /// Bytes up to there.
    pub(crate) size: u64,
    /// What came from a server by then; none of logs.
    pub(crate) had: Option<Had>,
    /// Tables as definitions make them by then, if they are newer than at the mark before.
    pub(crate) defined: Option<Definitions>,
}

/// Marks that are still to be taken. Bounds memory; where there are more, what is between the last two comes again
/// together.
const MARKS_MAX: usize = 256;
/// Bytes between marks, at most, where none is asked for.
const MARKED_EVERY: u64 = 16 << 10;
/// Nearer to the start, this part of what is in front of a mark: a reader that takes little each time would get the same
/// again and again, and never further.
const MARKED_PART: u64 = 8;

impl Pipe {
    /// Writes to this, and keeps nothing of how far.
    pub fn new(to: Box<dyn Write>) -> Self {
        Self { to, progress: None, written: 0 }
    }

    /// Keeps in this file, which may name a file of definitions beside it, how far records were taken. `waiting` says
    /// how many of the bytes that were written wait to be.
    #[must_use]
    pub fn with_progress(
        self,
        path: PathBuf,
        lock: FileLock,
        definitions: Option<u64>,
        waiting: impl Fn() -> u64 + 'static,
    ) -> Self {
        let kept = Kept::beside(&path, definitions);
        let (waiting, marks) = (Box::new(waiting), VecDeque::new());
        Self { progress: Some(Progress { path, _lock: lock, waiting, marks, taken: None, kept }), ..self }
    }

    /// The definitions that were saved; none if there are none.
    pub(crate) fn kept(&self) -> io::Result<Option<Definitions>> {
        self.progress.as_ref().map_or(Ok(None), |progress| progress.kept.read())
    }

    /// What comes is read without these.
    pub(crate) fn forget_definitions(&mut self) {
        self.progress.iter_mut().for_each(|progress| progress.kept.forget());
    }

    /// Is so much in front of this place, in bytes, that it should be marked?
    pub(crate) fn is_mark_due(&self, size: u64) -> bool {
        let Some(progress) = &self.progress else { return false };
        let last = progress.marks.back().or(progress.taken.as_ref()).map_or(0, |mark| mark.size);
        size >= last + (size / MARKED_PART).min(MARKED_EVERY)
    }

    /// A place that may be saved once all that is in front of it was taken.
    pub(crate) fn mark(&mut self, mark: Mark) {
        if let Some(progress) = &mut self.progress {
            progress.mark(mark, self.written);
        }
    }

    /// Does a mark wait for its records to be taken?
    pub(crate) fn is_behind(&self) -> bool {
        self.progress.as_ref().is_some_and(|progress| !progress.marks.is_empty())
    }

    /// Saves the last mark up to which all was taken.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        self.to.flush()?;
        match &mut self.progress {
            Some(progress) => progress.save(self.written),
            None => Ok(()),
        }
    }
}

impl Progress {
    fn mark(&mut self, mut mark: Mark, written: u64) {
        if self.marks.len() == MARKS_MAX {
            self.settle(written);
        }
        if self.marks.len() == MARKS_MAX
            && let Some(last) = self.marks.pop_back()
        {
            mark.defined = mark.defined.or(last.defined);
        }
        self.marks.push_back(mark);
    }

    /// Looks which marks were taken.
    fn settle(&mut self, written: u64) {
        let taken = written.saturating_sub((self.waiting)());
        while self.marks.front().is_some_and(|mark| mark.size <= taken) {
            let Some(mut mark) = self.marks.pop_front() else { return };
            mark.defined = mark.defined.or(self.taken.take().and_then(|older| older.defined));
            self.taken = Some(mark);
        }
    }

    fn save(&mut self, written: u64) -> io::Result<()> {
        self.settle(written);
        let Some(mark) = self.taken.take() else { return Ok(()) };
        let definitions = self.kept.write(mark.defined.as_ref())?;
        let had = mark.had.as_ref().map(Had::to_string).unwrap_or_default();
        write_atomically(&self.path, &format!("{}\n{}{had}", mark.token, line(self.kept.number())))?;
        definitions.forget_old();
        Ok(())
    }
}

/// Counts what was taken over, also of what fails in the middle.
impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = self.progress.as_ref().map(|progress| &progress.path);
        out.debug_struct("Pipe").field("progress", &progress).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::io::{self, Write as _};
    use std::rc::Rc;

    use super::{MARKS_MAX, Mark, Pipe};
    use crate::defined::{Ambient, Definitions};
    use crate::files::lock_progress;

    /// A pipe whose reader has left this many bytes in it, and the text of its progress.
    struct Given {
        pipe: Pipe,
        waiting: Rc<Cell<u64>>,
        folder: tempfile::TempDir,
    }

    impl Given {
        fn new() -> Self {
            let (folder, waiting) = (tempfile::tempdir().unwrap(), Rc::new(Cell::new(0)));
            let held = waiting.clone();
            let path = folder.path().join("progress");
            let lock = lock_progress(&path).unwrap();
            let pipe = Pipe::new(Box::new(io::sink())).with_progress(path, lock, None, move || held.get());
            Self { pipe, waiting, folder }
        }

        /// One more byte, and a mark behind it.
        fn byte(&mut self, defined: Option<Definitions>) {
            self.pipe.write_all(b"x").unwrap();
            let (size, had) = (self.pipe.written, None);
            self.pipe.mark(Mark { token: format!("log:{size}").parse().unwrap(), size, had, defined });
        }

        fn check(&mut self, waiting: u64, wanted: &str) {
            self.waiting.set(waiting);
            self.pipe.save().unwrap();
            let text = fs::read_to_string(self.folder.path().join("progress")).unwrap_or_default();
            assert_eq!(text.replace('\n', "|"), wanted, "{waiting} waiting");
        }
    }

    #[test]
    fn what_waits_to_be_taken_is_not_saved_as_taken() {
        let mut given = Given::new();
        (0..10).for_each(|_| given.byte(None));
        given.check(u64::MAX, "");
        given.check(10, "");
        given.check(9, "log:1|");
        given.check(3, "log:7|");
        assert!(given.pipe.is_behind());
        given.check(0, "log:10|");
        assert!(!given.pipe.is_behind());
    }

    #[test]
    fn a_reader_that_takes_little_gets_further() {
        let mut given = Given::new();
        for size in 1..1_000_000_u64 {
            given.pipe.written = size;
            if given.pipe.is_mark_due(size) {
                given.pipe.mark(Mark {
                    token: format!("log:{size}").parse().unwrap(),
                    size,
                    had: None,
                    defined: None,
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
    fn definitions_are_saved_with_the_mark_that_they_fit() {
        let defined = |sql: &str| {
            let mut definitions = Definitions::default();
            definitions.take(sql, Ambient { database: "d", ..Ambient::default() });
            Some(definitions)
        };
        let mut given = Given::new();
        given.byte(None);
        given.byte(defined("create table t (a int)"));
        given.byte(None);
        given.byte(defined("create table t (b int)"));
        given.check(3, "log:1|");
        given.check(1, "log:3|schema 1|");
        let kept = given.pipe.kept().unwrap().expect("definitions");
        assert_eq!(Some(kept), defined("create table t (a int)"));
        given.check(0, "log:4|schema 2|");
    }

    #[test]
    fn marks_that_nobody_takes_are_not_gathered() {
        let mut given = Given::new();
        given.waiting.set(u64::MAX);
        let count = MARKS_MAX as u64 * 3;
        (0..count).for_each(|_| given.byte(None));
        assert_eq!(given.pipe.progress.as_ref().map(|progress| progress.marks.len()), Some(MARKS_MAX));
        given.check(1, &format!("log:{}|", MARKS_MAX - 1));
        given.check(0, &format!("log:{count}|"));
    }
}
