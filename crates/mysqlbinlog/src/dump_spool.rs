//! Bytes stored in files because memory is too small for them: in their own log, or in a temporary file.

use std::env;
use std::io::{self, Read};
use std::sync::Arc;

use crate::event_buffer::BufferReserve;
use crate::input_log_file::InputLogFile;

/// Bytes copied from a stream at a time.
const COPY_SIZE: usize = 512 << 10;

/// An unnamed temporary file, created on first use. No other user can read it.
#[derive(Default)]
pub(crate) struct DumpSpool {
    file: Option<Arc<logs::EncryptedSpool>>,
}

/// Bytes in a file. A temporary file exists as long as any bytes in it are referenced.
#[derive(Clone)]
pub(crate) struct SpooledBytes {
    location: BytesLocation,
    offset: u64,
    size: usize,
}

#[derive(Clone)]
enum BytesLocation {
    Log(Arc<InputLogFile>),
    Spool(Arc<logs::EncryptedSpool>),
}

impl DumpSpool {
    /// Appends bytes to the file.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<SpooledBytes> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => {
                Arc::clone(self.file.insert(Arc::new(logs::EncryptedSpool::new_in(&env::temp_dir(), 0)?)))
            }
        };
        let offset = file.push(bytes)?;
        Ok(SpooledBytes { location: BytesLocation::Spool(file), offset, size: bytes.len() })
    }

    /// Appends `first` and all bytes of the stream `more`.
    pub(crate) fn put_stream(&mut self, first: &[u8], more: &mut dyn Read) -> io::Result<SpooledBytes> {
        let mut all = self.put(first)?;
        let mut step = Vec::with_capacity(COPY_SIZE);
        while (&mut *more).take(COPY_SIZE as u64).read_to_end(&mut step)? > 0 {
            all.size += self.put(&step)?.size;
            step.clear();
        }
        Ok(all)
    }
}

impl SpooledBytes {
    /// References bytes of a log file.
    pub(crate) fn of_log(file: &Arc<InputLogFile>, offset: u64, size: usize) -> Self {
        Self { location: BytesLocation::Log(Arc::clone(file)), offset, size }
    }

    /// Returns the number of bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Reads the bytes. Works from any thread.
    pub(crate) fn read(&self, spare: &BufferReserve) -> io::Result<Vec<u8>> {
        let mut bytes = spare.take_filled(self.size);
        self.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `out` with the bytes from offset `from` on.
    pub(crate) fn read_at(&self, from: u64, out: &mut [u8]) -> io::Result<()> {
        match &self.location {
            BytesLocation::Log(file) => file.read_exact_at(self.offset + from, out),
            BytesLocation::Spool(file) => file.read_exact_at(self.offset + from, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COPY_SIZE, DumpSpool};
    use crate::event_buffer::BufferReserve;

    #[test]
    fn spooled_bytes_read_back_unchanged() {
        let mut spool = DumpSpool::default();
        let mut parts: Vec<Vec<u8>> =
            (0..10).map(|number| vec![number; usize::from(number) * 1000]).collect();
        let mut away: Vec<_> = parts.iter().map(|part| spool.put(part).unwrap()).collect();
        let long: Vec<u8> = (0..3 * COPY_SIZE).map(|number| (number % 251) as u8).collect();
        let (first, mut more) = long.split_at(77);
        away.push(spool.put_stream(first, &mut more).unwrap());
        parts.push(long);
        drop(spool);
        for (part, away) in parts.iter().zip(away).rev() {
            assert_eq!(away.size(), part.len());
            assert!(away.read(&BufferReserve::default()).unwrap() == *part);
        }
    }
}
