//! What mysqlbinlog says on standard error, in its two manners of speaking.

use std::io::Write;

use crate::visible::visible_line;

/// Says things on standard error.
pub(crate) struct Talk<'a> {
    err: &'a mut (dyn Write + Send),
    program: Vec<u8>,
}

/// The name under which words go out as they are: messages of servers and names of files, too.
const MYSQLBINLOG: &[u8] = b"mysqlbinlog";

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Warning,
    Error,
}

impl<'a> Talk<'a> {
    /// `program` is the name that this program was called by, with its path.
    pub(crate) fn new(err: &'a mut (dyn Write + Send), program: &[u8]) -> Self {
        Self { err, program: program.to_vec() }
    }

    /// The name that this program was called by.
    pub(crate) fn program(&self) -> &[u8] {
        &self.program
    }

    /// `mysqlbinlog: [ERROR] …`: how options and option files are complained about.
    pub(crate) fn local(&mut self, level: Level, text: &[&[u8]]) {
        let name = self.base_name();
        let level = match level {
            Level::Warning => b": [Warning] ".as_slice(),
            Level::Error => b": [ERROR] ",
        };
        self.line(&[&name, level], text);
    }

    /// `mysqlbinlog: …`: how files are complained about.
    pub(crate) fn file(&mut self, text: &[&[u8]]) {
        let name = self.base_name();
        self.line(&[&name, b": "], text);
    }

    /// `ERROR: …`: what stops the dump.
    pub(crate) fn error(&mut self, text: &[&[u8]]) {
        self.line(&[b"ERROR: "], text);
    }

    /// `WARNING: …`: what does not.
    pub(crate) fn warning(&mut self, text: &[&[u8]]) {
        self.line(&[b"WARNING: "], text);
    }

    /// The text alone.
    pub(crate) fn plain(&mut self, text: &[&[u8]]) {
        self.line(&[], text);
    }

    /// The text alone, and no new line.
    pub(crate) fn prompt(&mut self, text: &[u8]) {
        let _ = self.err.write_all(text);
        let _ = self.err.flush();
    }

    fn base_name(&self) -> Vec<u8> {
        self.program.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec()
    }

    fn line(&mut self, start: &[&[u8]], text: &[&[u8]]) {
        let mut line = [start.concat(), text.concat()].concat();
        if self.base_name() != MYSQLBINLOG {
            line = visible_line(&line);
        }
        line.push(b'\n');
        // Nobody is left to tell if this fails.
        let _ = self.err.write_all(&line);
        let _ = self.err.flush();
    }
}
