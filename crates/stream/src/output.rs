//! Buffered writing of records, and saving of progress.

use std::io::{self, Write as _};

use binlog::Event as Body;

use crate::defined::Definitions;
use crate::files::Files;
use crate::had::Had;
use crate::kept::split;
use crate::pipe::{self, Pipe};
use crate::token::{Token, TokenError};

/// Size in bytes at which the buffer is written.
const DRAINED_AT: usize = 256 << 10;

/// Buffer of records, written many at a time.
#[derive(Debug)]
pub struct Output {
    pub(crate) bytes: Vec<u8>,
    to: To,
    /// Bytes written so far.
    written: u64,
    marked: Option<Mark>,
    /// GTIDs received from a server up to the mark; `None` for log files.
    had: Option<Had>,
    /// Server whose log is being read.
    server: String,
    /// Table definitions at the mark, if they are newer than the saved ones.
    defined: Option<Definitions>,
    /// True if the mark is newer than the saved progress.
    is_newer: bool,
}

/// Target of the records.
#[derive(Debug)]
pub enum To {
    /// Pipe or standard output, with a reader.
    Pipe(Box<Pipe>),
    /// Files that contain each transaction exactly once.
    Files(Box<Files>),
}

/// End of a transaction.
#[derive(Clone, Debug)]
struct Mark {
    token: Token,
    /// Bytes of records up to the mark.
    size: u64,
}

impl Output {
    /// Creates an output to a target.
    pub fn new(to: To) -> Self {
        Self {
            bytes: Vec::with_capacity(DRAINED_AT * 2),
            to,
            written: 0,
            marked: None,
            had: None,
            server: String::new(),
            defined: None,
            is_newer: false,
        }
    }

    /// Sets the server whose log follows. `had` holds the GTIDs received so far, perhaps from another server. They are
    /// saved with the position.
    pub fn follow(&mut self, server: &str, had: Option<Had>) {
        self.server = server.to_owned();
        self.had = Some(had.unwrap_or_else(|| Had::new(self.server.clone())));
    }

    /// Reads the saved table definitions; `None` if there are none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn kept(&self) -> io::Result<Option<Definitions>> {
        match &self.to {
            To::Files(files) => files.kept(),
            To::Pipe(pipe) => pipe.kept(),
        }
    }

    /// Drops the saved definitions, which this run does not use and does not update. They are deleted with the next
    /// save.
    pub fn forget_definitions(&mut self) {
        match &mut self.to {
            To::Files(files) => files.forget_definitions(),
            To::Pipe(pipe) => pipe.forget_definitions(),
        }
    }

    /// Sets the table definitions after the current transaction, to be saved with its end.
    pub fn define(&mut self, definitions: Definitions) {
        self.defined = Some(definitions);
    }

    /// Takes back definitions that are not yet part of a mark.
    pub(crate) const fn take_defined(&mut self) -> Option<Definitions> {
        self.defined.take()
    }

    /// Returns the GTIDs received from a server up to the last mark.
    pub const fn had(&self) -> Option<&Had> {
        self.had.as_ref()
    }

    /// Adds the GTIDs in the head of a log of the server.
    pub fn begin_log(&mut self, head: &Body<'_>) {
        if let Some(had) = &mut self.had {
            had.begin_log(head);
        }
    }

    /// Returns whether there were no records yet.
    pub(crate) const fn is_empty(&self) -> bool {
        self.written == 0 && self.bytes.is_empty()
    }

    /// Returns the position after the last transaction.
    pub fn token(&self) -> Option<&Token> {
        self.marked.as_ref().map(|mark| &mark.token)
    }

    /// Discards the records after the last transaction, which the caller reads again. Files are truncated. Records that
    /// were written to a pipe cannot be withdrawn.
    ///
    /// # Errors
    ///
    /// If a file cannot be truncated.
    pub fn rewind(&mut self) -> io::Result<()> {
        let whole = self.marked.as_ref().map_or(0, |mark| mark.size);
        if let Some(kept) = whole.checked_sub(self.written) {
            self.bytes.truncate(kept as usize);
            return Ok(());
        }
        self.bytes.clear();
        if let To::Files(files) = &mut self.to {
            files.cut(self.written - whole)?;
            self.written = whole;
        }
        Ok(())
    }

    /// Marks the end of a transaction: the next save covers the records up to here.
    pub fn mark(&mut self, token: Token) {
        if let Some(had) = &mut self.had {
            had.add(token.gtid.as_deref());
        }
        self.mark_place(token);
    }

    /// Marks a position that is not the end of a transaction.
    pub(crate) fn mark_place(&mut self, token: Token) {
        if let Some(had) = &mut self.had {
            // Until the first mark, the position belongs to the previous server's log.
            had.server.clone_from(&self.server);
        }
        let size = self.written + self.bytes.len() as u64;
        self.marked = Some(Mark { token, size });
        self.is_newer = true;
        if matches!(&self.to, To::Pipe(pipe) if pipe.is_mark_due(size)) {
            self.mark_pipe();
        }
    }

    /// Passes the mark to the pipe, which saves it once the reader has read all records before it.
    fn mark_pipe(&mut self) {
        if let (To::Pipe(pipe), Some(Mark { token, size }), true) =
            (&mut self.to, &self.marked, self.is_newer)
        {
            let (token, size, had) = (token.clone(), *size, self.had.clone());
            pipe.mark(pipe::Mark { token, size, had, defined: self.defined.take() });
            self.is_newer = false;
        }
    }

    /// Returns whether the reader of the pipe has yet to read records before a mark.
    pub fn is_behind(&self) -> bool {
        match &self.to {
            To::Pipe(pipe) => pipe.is_behind(),
            To::Files(_) => false,
        }
    }

    /// Returns whether the file has reached its maximum size.
    pub fn is_file_full(&self) -> bool {
        match &self.to {
            To::Pipe(..) => false,
            To::Files(files) => files.size() + self.bytes.len() as u64 >= files.size_max(),
        }
    }

    /// Writes the buffer and saves progress: for files, the last complete transaction; for a pipe, the last one that
    /// the reader has read.
    ///
    /// # Errors
    ///
    /// If records or progress cannot be written.
    pub fn save(&mut self) -> io::Result<()> {
        self.mark_pipe();
        let drained = self.drain();
        match &mut self.to {
            // Save what was read even if the pipe takes no more.
            To::Pipe(pipe) => drained.and(pipe.save())?,
            To::Files(files) => {
                drained?;
                if let (Some(mark), true) = (&self.marked, self.is_newer) {
                    let saved = (&mark.token, self.had.as_ref(), self.defined.take());
                    files.save(saved, self.written - mark.size)?;
                }
            }
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
        self.save()?;
        match self.to {
            To::Pipe(..) => Ok(()),
            To::Files(files) => files.finish(),
        }
    }

    /// Writes the buffer if it is full.
    pub(crate) fn drain_if_full(&mut self) -> io::Result<()> {
        if self.bytes.len() < DRAINED_AT {
            return Ok(());
        }
        self.drain()
    }

    fn drain(&mut self) -> io::Result<()> {
        let written = match &mut self.to {
            To::Pipe(pipe) => pipe.write_all(&self.bytes),
            To::Files(files) => files.write_all(&self.bytes),
        };
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        if written.is_err() {
            // A later save must not count records that were not written.
            (self.marked, self.is_newer) = (None, false);
        }
        written
    }
}

/// Contents of the progress file of a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Position to resume at.
    pub token: Token,
    /// GTIDs received from a server; `None` if the records came from log files.
    pub had: Option<Had>,
    /// Number of the file with the table definitions.
    pub kept: Option<u64>,
}

/// Parses the progress file of a pipe.
///
/// # Errors
///
/// If the text is malformed.
pub fn saved(text: &str) -> Result<Saved, TokenError> {
    let (token, rest) = text.split_once('\n').unwrap_or((text, ""));
    let token = token.trim_end().parse()?;
    let (kept, had) = split(rest).ok_or_else(|| TokenError::new(rest))?;
    let had = match had.is_empty() {
        true => None,
        false => Some(Had::parse(had).ok_or_else(|| TokenError::new(had))?),
    };
    Ok(Saved { token, had, kept })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{self, Write};

    use super::{Output, To};
    use crate::files::lock_progress;
    use crate::pipe::Pipe;

    /// Writer that accepts this number of bytes, and then fails.
    struct Full(usize);

    impl Write for Full {
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
    fn what_could_not_be_written_is_never_saved_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress");
        let lock = lock_progress(&path).unwrap();
        let pipe = Pipe::new(Box::new(Full(10))).with_progress(path.clone(), lock, None, || 0);
        let mut output = Output::new(To::Pipe(Box::new(pipe)));
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
}
