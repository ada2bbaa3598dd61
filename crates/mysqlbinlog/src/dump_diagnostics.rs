//! Messages on standard error, in mysqlbinlog's two formats.

use std::io::Write;

use crate::visible_writer::visible_line;

/// Writes messages to standard error.
pub(crate) struct DumpDiagnostics<'a> {
    err: &'a mut (dyn Write + Send),
    program: Vec<u8>,
}

/// Under this name, messages are not escaped, although they contain server messages and file names.
const MYSQLBINLOG: &[u8] = b"mysqlbinlog";

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageLevel {
    Warning,
    Error,
}

impl<'a> DumpDiagnostics<'a> {
    /// Creates a writer. `program` is the path by which this program was called.
    pub(crate) fn new(err: &'a mut (dyn Write + Send), program: &[u8]) -> Self {
        Self { err, program: program.to_vec() }
    }

    /// Returns the path by which this program was called.
    pub(crate) fn program(&self) -> &[u8] {
        &self.program
    }

    /// Prints `mysqlbinlog: [ERROR] …`: about options and option files.
    pub(crate) fn program_message(&mut self, level: MessageLevel, text: &[&[u8]]) {
        let name = self.base_name();
        let level = match level {
            MessageLevel::Warning => b": [Warning] ".as_slice(),
            MessageLevel::Error => b": [ERROR] ",
        };
        self.line(&[&name, level], text);
    }

    /// Prints `mysqlbinlog: …`: about files.
    pub(crate) fn file_message(&mut self, text: &[&[u8]]) {
        let name = self.base_name();
        self.line(&[&name, b": "], text);
    }

    /// Prints `ERROR: …`: an error that ends the dump.
    pub(crate) fn error(&mut self, text: &[&[u8]]) {
        self.line(&[b"ERROR: "], text);
    }

    /// Prints `WARNING: …`.
    pub(crate) fn warning(&mut self, text: &[&[u8]]) {
        self.line(&[b"WARNING: "], text);
    }

    /// Prints only the text.
    pub(crate) fn plain(&mut self, text: &[&[u8]]) {
        self.line(&[], text);
    }

    /// Prints only the text, without a newline.
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
        // An error of standard error cannot be reported anywhere.
        let _ = self.err.write_all(&line);
        let _ = self.err.flush();
    }
}
