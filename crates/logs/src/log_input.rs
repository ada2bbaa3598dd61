//! Inputs of logs: files, standard input, memory.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Stdin, copy, sink};
use std::path::Path;
use std::sync::Arc;

use binlog::encryption::LogCipher;

use crate::archived_logs::open_archived_log;
use crate::error::LogError;
use crate::waiting_reader::{WaitingReader, open_file};

/// Maximum size of a read from standard input in [`ReadMode::Available`].
const READ_SIZE: usize = 64 << 10;

/// File or stream that is read sequentially.
#[derive(Debug)]
pub(crate) struct LogInput {
    source: ByteSource,
    /// Number of bytes read so far.
    position: u64,
    cipher: Option<InputCipher>,
}

/// Cipher of the encrypted part of an input.
#[derive(Debug)]
struct InputCipher {
    cipher: LogCipher,
    /// Position where that part starts.
    start: u64,
}

#[derive(Debug)]
enum ByteSource {
    File(File),
    /// Named pipe or device.
    Pipe(File),
    Stdin(Stdin),
    Bytes(io::Cursor<Arc<[u8]>>),
    Archived(ArchivedSource),
}

/// Log of an archive, restored while it is read.
struct ArchivedSource(Box<dyn Read + Send>);

impl fmt::Debug for ArchivedSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ArchivedSource")
    }
}

/// Condition for a read to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// Once all requested bytes are read, or at the end.
    Full,
    /// Once any bytes are read, or at the end.
    Available,
}

impl LogInput {
    pub(crate) fn open(path: &Path) -> Result<Self, LogError> {
        if let Some(archived) = open_archived_log(path) {
            return Ok(Self::archived(archived?));
        }
        let failed = |cause| LogError::io("open", &path.display().to_string(), cause);
        let file = open_file(path).map_err(failed)?;
        let source = match file.metadata().map_err(failed)?.is_file() {
            true => ByteSource::File(file),
            false => ByteSource::Pipe(file),
        };
        Ok(Self { source, position: 0, cipher: None })
    }

    pub(crate) fn file(file: File) -> Self {
        Self { source: ByteSource::File(file), position: 0, cipher: None }
    }

    pub(crate) fn archived(log: Box<dyn Read + Send>) -> Self {
        Self { source: ByteSource::Archived(ArchivedSource(log)), position: 0, cipher: None }
    }

    pub(crate) fn stdin() -> Self {
        Self { source: ByteSource::Stdin(io::stdin()), position: 0, cipher: None }
    }

    pub(crate) fn bytes(bytes: Arc<[u8]>) -> Self {
        Self { source: ByteSource::Bytes(io::Cursor::new(bytes)), position: 0, cipher: None }
    }

    /// Appends up to `count` bytes, and returns their number. Appends fewer only at the end, or if `mode` allows it.
    pub(crate) fn read(&mut self, count: usize, mode: ReadMode, out: &mut Vec<u8>) -> io::Result<usize> {
        let old = out.len();
        let result = match (&mut self.source, mode) {
            (ByteSource::File(file), _) => file.take(count as u64).read_to_end(out),
            (ByteSource::Bytes(bytes), _) => bytes.take(count as u64).read_to_end(out),
            (ByteSource::Archived(log), _) => log.0.by_ref().take(count as u64).read_to_end(out),
            (ByteSource::Pipe(pipe), _) => WaitingReader(pipe).take(count as u64).read_to_end(out),
            (ByteSource::Stdin(stdin), ReadMode::Full) => {
                WaitingReader(stdin).take(count as u64).read_to_end(out)
            }
            (ByteSource::Stdin(stdin), ReadMode::Available) => read_some(stdin, count.min(READ_SIZE), out),
        };
        if let Some(InputCipher { cipher, start }) = &mut self.cipher {
            cipher.apply(self.position - *start, &mut out[old..]);
        }
        let read = out.len() - old;
        debug_assert!(read <= count, "ours: at most the requested bytes are read");
        self.position += read as u64;
        result.map(|_| read)
    }

    /// Decrypts all bytes that follow.
    pub(crate) fn decrypt_from_here(&mut self, cipher: LogCipher) {
        assert!(self.cipher.is_none(), "ours: the header of an encrypted log is read once");
        self.cipher = Some(InputCipher { cipher, start: self.position });
    }

    /// Skips up to `count` bytes, and returns their number.
    pub(crate) fn skip(&mut self, count: u64) -> io::Result<u64> {
        let skipped = match &mut self.source {
            ByteSource::File(file) => {
                let skipped = count.min(file.metadata()?.len().saturating_sub(self.position));
                file.seek(SeekFrom::Start(self.position + skipped))?;
                skipped
            }
            ByteSource::Pipe(pipe) => copy(&mut WaitingReader(pipe).take(count), &mut sink())?,
            ByteSource::Stdin(stdin) => copy(&mut WaitingReader(stdin).take(count), &mut sink())?,
            ByteSource::Bytes(bytes) => copy(&mut bytes.take(count), &mut sink())?,
            ByteSource::Archived(log) => copy(&mut log.0.by_ref().take(count), &mut sink())?,
        };
        assert!(skipped <= count, "ours: at most the requested bytes are skipped");
        self.position += skipped;
        Ok(skipped)
    }

    /// Returns the size of the file if it is now smaller than the part already read.
    pub(crate) fn shrunk_to(&self) -> io::Result<Option<u64>> {
        let ByteSource::File(file) = &self.source else { return Ok(None) };
        let size = file.metadata()?.len();
        Ok((size < self.position).then_some(size))
    }

    /// Returns whether the file has been unlinked.
    pub(crate) fn is_removed(&self) -> io::Result<bool> {
        let ByteSource::File(file) = &self.source else { return Ok(false) };
        is_unlinked(file)
    }

    /// Seeks back by `count` bytes of a file.
    pub(crate) fn seek_back(&mut self, count: u64) -> io::Result<()> {
        assert!(count <= self.position, "ours: only bytes that were read can be read again");
        let to = SeekFrom::Start(self.position - count);
        match &mut self.source {
            ByteSource::File(file) => self.position = file.seek(to)?,
            ByteSource::Bytes(bytes) => self.position = bytes.seek(to)?,
            // These inputs can be read only once.
            ByteSource::Pipe(_) | ByteSource::Stdin(_) | ByteSource::Archived(_) => {}
        }
        Ok(())
    }

    /// Seeks back to the byte `offset` of a log. The offset does not include the header of an encrypted log.
    pub(crate) fn seek_to(&mut self, offset: u64) -> io::Result<()> {
        let start = self.cipher.as_ref().map_or(0, |cipher| cipher.start);
        self.seek_back(self.position - (start + offset))
    }

    /// Returns whether the input is a stream: standard input, a pipe or a device.
    pub(crate) fn is_stream(&self) -> io::Result<bool> {
        Ok(self.remaining_size()?.is_none())
    }

    /// Returns the number of bytes that follow; `None` for a stream.
    pub(crate) fn remaining_size(&self) -> io::Result<Option<u64>> {
        let size = match &self.source {
            ByteSource::File(file) => file.metadata()?.len(),
            ByteSource::Bytes(bytes) => bytes.get_ref().len() as u64,
            ByteSource::Pipe(_) | ByteSource::Stdin(_) | ByteSource::Archived(_) => return Ok(None),
        };
        Ok(Some(size.saturating_sub(self.position)))
    }

    /// Returns the number of bytes read so far.
    pub(crate) const fn position(&self) -> u64 {
        self.position
    }
}

fn read_some(stdin: &Stdin, count: usize, out: &mut Vec<u8>) -> io::Result<usize> {
    let old = out.len();
    out.resize(old + count, 0);
    let result = WaitingReader(stdin).read(&mut out[old..]);
    out.truncate(old + *result.as_ref().unwrap_or(&0));
    result
}

#[cfg(unix)]
fn is_unlinked(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(file.metadata()?.nlink() == 0)
}

#[cfg(not(unix))]
fn is_unlinked(_: &File) -> io::Result<bool> {
    Ok(false)
}
