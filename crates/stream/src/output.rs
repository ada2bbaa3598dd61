//! Records on their way out, and how far they are known to have come.

use std::io::{self, Write as _};

use binlog::Event as Body;

use crate::defined::Definitions;
use crate::files::Files;
use crate::had::Had;
use crate::kept::split;
use crate::pipe::{self, Pipe};
use crate::token::{Token, TokenError};

/// Bytes written at once, about.
const DRAINED_AT: usize = 256 << 10;

/// Records on their way out: gathered, and written many at a time.
#[derive(Debug)]
pub struct Output {
    pub(crate) bytes: Vec<u8>,
    to: To,
    /// Bytes written by now.
    written: u64,
    marked: Option<Mark>,
    /// What came from a server by the mark; none of logs.
    had: Option<Had>,
    /// The server that what comes is from.
    server: String,
    /// Tables as the definitions up to the mark make them, if they are newer than what was saved.
    defined: Option<Definitions>,
    /// Is the mark newer than what was saved?
    is_newer: bool,
}

/// Where records go.
#[derive(Debug)]
pub enum To {
    /// To whoever reads them.
    Pipe(Box<Pipe>),
    /// To files, each transaction once.
    Files(Box<Files>),
}

/// The end of a transaction.
#[derive(Clone, Debug)]
struct Mark {
    token: Token,
    /// Bytes up to there.
    size: u64,
}

impl Output {
    /// Writes to this.
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

    /// What comes is this server's. What has come, perhaps from another, is saved beside the place.
    pub fn follow(&mut self, server: &str, had: Option<Had>) {
        self.server = server.to_owned();
        self.had = Some(had.unwrap_or_else(|| Had::new(self.server.clone())));
    }

    /// The definitions that were saved; none if there are none.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn kept(&self) -> io::Result<Option<Definitions>> {
        match &self.to {
            To::Files(files) => files.kept(),
            To::Pipe(pipe) => pipe.kept(),
        }
    }

    /// Columns are not called by the definitions that were saved. What comes may define tables anew: once any of it is
    /// saved, they are not kept any more.
    pub fn forget_definitions(&mut self) {
        match &mut self.to {
            To::Files(files) => files.forget_definitions(),
            To::Pipe(pipe) => pipe.forget_definitions(),
        }
    }

    /// The transaction that ends next has defined tables: as they are then.
    pub fn define(&mut self, definitions: Definitions) {
        self.defined = Some(definitions);
    }

    /// Gives back the definitions that are not on their way to be saved yet.
    pub(crate) const fn take_defined(&mut self) -> Option<Definitions> {
        self.defined.take()
    }

    /// What has come from a server, up to the last mark.
    pub const fn had(&self) -> Option<&Had> {
        self.had.as_ref()
    }

    /// A log of the server starts with this.
    pub fn begin_log(&mut self, head: &Body<'_>) {
        if let Some(had) = &mut self.had {
            had.begin_log(head);
        }
    }

    /// Has nothing come yet?
    pub(crate) const fn is_empty(&self) -> bool {
        self.written == 0 && self.bytes.is_empty()
    }

    /// The place behind the last transaction.
    pub fn token(&self) -> Option<&Token> {
        self.marked.as_ref().map(|mark| &mark.token)
    }

    /// What came behind the last transaction comes again, from its start. Files lose it; of what went to a pipe
    /// already, nothing can be taken back.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
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

    /// A transaction ends here: what is saved next is saved up to here.
    pub fn mark(&mut self, token: Token) {
        if let Some(had) = &mut self.had {
            had.add(token.gtid.as_deref());
        }
        self.mark_place(token);
    }

    /// The same, where it is no transaction that ends.
    pub(crate) fn mark_place(&mut self, token: Token) {
        if let Some(had) = &mut self.had {
            // Up to here, the place was one in the log of the server before.
            had.server.clone_from(&self.server);
        }
        let size = self.written + self.bytes.len() as u64;
        self.marked = Some(Mark { token, size });
        self.is_newer = true;
        if matches!(&self.to, To::Pipe(pipe) if pipe.is_mark_due(size)) {
            self.mark_pipe();
        }
    }

    /// The place may be saved once all that is in front of it was taken.
    fn mark_pipe(&mut self) {
        if let (To::Pipe(pipe), Some(Mark { token, size }), true) =
            (&mut self.to, &self.marked, self.is_newer)
        {
            let (token, size, had) = (token.clone(), *size, self.had.clone());
            pipe.mark(pipe::Mark { token, size, had, defined: self.defined.take() });
            self.is_newer = false;
        }
    }

    /// Has whoever reads not taken all yet that could be saved?
    pub fn is_behind(&self) -> bool {
        match &self.to {
            To::Pipe(pipe) => pipe.is_behind(),
            To::Files(_) => false,
        }
    }

    /// Is there so much in the file that it should end here?
    pub fn is_file_full(&self) -> bool {
        match &self.to {
            To::Pipe(..) => false,
            To::Files(files) => files.size() + self.bytes.len() as u64 >= files.size_max(),
        }
    }

    /// Writes what has gathered, and saves how far whole transactions were written; into a pipe, how far they were
    /// taken.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn save(&mut self) -> io::Result<()> {
        self.mark_pipe();
        let drained = self.drain();
        match &mut self.to {
            // What was taken is taken, also where no more is.
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

    /// Nothing more comes.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.save()?;
        match self.to {
            To::Pipe(..) => Ok(()),
            To::Files(files) => files.finish(),
        }
    }

    /// Writes what has gathered, if that is much.
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
            // What was not written is not to be saved as written, whoever asks for that on the way out.
            (self.marked, self.is_newer) = (None, false);
        }
        written
    }
}

/// What a file of progress says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Where to go on.
    pub token: Token,
    /// What has come from a server, if it was one's.
    pub had: Option<Had>,
    /// Which of the files of definitions fits.
    pub kept: Option<u64>,
}

/// What a file of progress says.
///
/// # Errors
///
/// When it is no such file.
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

    /// Takes so many bytes, and no more.
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
        // As whoever ends in order does, whatever happened.
        output.save().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "binlog.000001:100\n");
    }
}
