//! Bytes stored in files because memory is too small for them: in their own log, or in a temporary file.

use std::env;
use std::io::{self, Read};
use std::sync::Arc;

use crate::bytes::Spare;
use crate::log_file::LogFile;

/// Bytes copied from a stream at a time.
const STEP: usize = 512 << 10;

/// An unnamed temporary file, created on first use. No other user can read it.
#[derive(Default)]
pub(crate) struct Spool {
    file: Option<Arc<logs::Spool>>,
}

/// Bytes in a file. A temporary file exists as long as any bytes in it are referenced.
#[derive(Clone)]
pub(crate) struct Away {
    place: Place,
    offset: u64,
    size: usize,
}

#[derive(Clone)]
enum Place {
    Log(Arc<LogFile>),
    Spool(Arc<logs::Spool>),
}

impl Spool {
    /// Appends bytes to the file.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<Away> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.file.insert(Arc::new(logs::Spool::new_in(&env::temp_dir(), 0)?))),
        };
        let offset = file.push(bytes)?;
        Ok(Away { place: Place::Spool(file), offset, size: bytes.len() })
    }

    /// Appends `first` and all bytes of the stream `more`.
    pub(crate) fn put_all(&mut self, first: &[u8], more: &mut dyn Read) -> io::Result<Away> {
        let mut all = self.put(first)?;
        let mut step = Vec::with_capacity(STEP);
        while (&mut *more).take(STEP as u64).read_to_end(&mut step)? > 0 {
            all.size += self.put(&step)?.size;
            step.clear();
        }
        Ok(all)
    }
}

impl Away {
    /// References bytes of a log file.
    pub(crate) fn in_log(file: &Arc<LogFile>, offset: u64, size: usize) -> Self {
        Self { place: Place::Log(Arc::clone(file)), offset, size }
    }

    /// Returns the number of bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Reads the bytes. Works from any thread.
    pub(crate) fn read(&self, spare: &Spare) -> io::Result<Vec<u8>> {
        let mut bytes = spare.take_filled(self.size);
        self.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `out` with the bytes from offset `from` on.
    pub(crate) fn read_at(&self, from: u64, out: &mut [u8]) -> io::Result<()> {
        match &self.place {
            Place::Log(file) => file.read_exact_at(self.offset + from, out),
            Place::Spool(file) => file.read_exact_at(self.offset + from, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{STEP, Spool};
    use crate::bytes::Spare;

    #[test]
    fn what_is_put_away_comes_back() {
        let mut spool = Spool::default();
        let mut parts: Vec<Vec<u8>> =
            (0..10).map(|number| vec![number; usize::from(number) * 1000]).collect();
        let mut away: Vec<_> = parts.iter().map(|part| spool.put(part).unwrap()).collect();
        let long: Vec<u8> = (0..3 * STEP).map(|number| (number % 251) as u8).collect();
        let (first, mut more) = long.split_at(77);
        away.push(spool.put_all(first, &mut more).unwrap());
        parts.push(long);
        drop(spool);
        for (part, away) in parts.iter().zip(away).rev() {
            assert_eq!(away.size(), part.len());
            assert!(away.read(&Spare::default()).unwrap() == *part);
        }
    }
}
