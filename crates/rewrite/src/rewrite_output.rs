//! Output of a rewritten log.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// Output of a rewritten log: written from start to end, with a few bytes overwritten later.
pub trait RewriteOutput: Write {
    /// Overwrites bytes that were written before. `start` counts from the first byte of the log.
    ///
    /// # Errors
    ///
    /// Fails if the operating system reports an error.
    fn write_over(&mut self, start: u64, bytes: &[u8]) -> io::Result<()>;
}

/// The log starts at the start of the file.
impl RewriteOutput for File {
    fn write_over(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        self.seek(SeekFrom::Start(start))?;
        self.write_all(bytes)?;
        self.seek(SeekFrom::End(0)).map(|_| ())
    }
}

impl RewriteOutput for Vec<u8> {
    fn write_over(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let range =
            usize::try_from(start).ok().and_then(|start| self.get_mut(start..)?.get_mut(..bytes.len()));
        let range = range.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        range.copy_from_slice(bytes);
        Ok(())
    }
}

impl RewriteOutput for io::Sink {
    fn write_over(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

impl<O: RewriteOutput + ?Sized> RewriteOutput for &mut O {
    fn write_over(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        (**self).write_over(start, bytes)
    }
}
