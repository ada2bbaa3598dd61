//! Records on their way out, and how far they are known to have come.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::files::{Files, write_atomically};
use crate::token::Token;

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
    /// Is the mark newer than what was saved?
    is_newer: bool,
}

/// Where records go.
pub enum To {
    /// To whoever reads them; how far they were written is kept in this file.
    Pipe(Box<dyn Write>, Option<PathBuf>),
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
        Self { bytes: Vec::with_capacity(DRAINED_AT * 2), to, written: 0, marked: None, is_newer: false }
    }

    /// A transaction ends here: what is saved next is saved up to here.
    pub fn mark(&mut self, token: Token) {
        self.marked = Some(Mark { token, size: self.written + self.bytes.len() as u64 });
        self.is_newer = true;
    }

    /// Is there so much in the file that it should end here?
    pub fn is_file_full(&self) -> bool {
        match &self.to {
            To::Pipe(..) => false,
            To::Files(files) => files.size() + self.bytes.len() as u64 >= files.size_max(),
        }
    }

    /// Writes what has gathered, and saves how far whole transactions were written.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn save(&mut self) -> io::Result<()> {
        self.drain()?;
        match &mut self.to {
            To::Pipe(to, progress) => {
                to.flush()?;
                if let (Some(mark), Some(path), true) = (&self.marked, progress, self.is_newer) {
                    write_atomically(path, &format!("{}\n", mark.token))?;
                }
            }
            To::Files(files) => {
                if let (Some(mark), true) = (&self.marked, self.is_newer) {
                    files.save(&mark.token, self.written - mark.size)?;
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
            To::Pipe(to, _) => to.write_all(&self.bytes),
            To::Files(files) => files.write_all(&self.bytes),
        };
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        written
    }
}

impl fmt::Debug for To {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pipe(_, progress) => out.debug_tuple("Pipe").field(progress).finish_non_exhaustive(),
            Self::Files(files) => out.debug_tuple("Files").field(files).finish(),
        }
    }
}
