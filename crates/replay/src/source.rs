//! Where transactions come from: logs, one after the other.

use std::path::PathBuf;
use std::sync::Arc;

use binlog::encryption::Keyring;
use binlog::gtid::GtidSet;
use binlog::{AssembleError, Assembler, DecodeError, Event, EventType, Format, RawEvent};
use logs::{Chunk, End, LogReader, Next};

use crate::error::Error;
use crate::unit::{Origin, Unit};

/// A log to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Log {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Log {
    /// What the source's server calls it: the last part of its path.
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            Self::Stdin => "standard input".to_owned(),
        }
    }
}

/// The transactions of some logs, in order.
#[derive(Debug)]
pub struct Source {
    logs: std::vec::IntoIter<Log>,
    names: Vec<String>,
    keyring: Option<Arc<Keyring>>,
    size_max: usize,
    current: Option<Current>,
    log_number: usize,
    number: u64,
    bytes_read: u64,
    /// What the first log says that earlier logs hold.
    previous: GtidSet,
}

/// The log that is being read.
#[derive(Debug)]
struct Current {
    reader: LogReader,
    assembler: Option<Assembler>,
    chunk: Option<Chunk>,
    index: usize,
    log: Arc<str>,
    log_name: Arc<str>,
    previous: Option<GtidSet>,
}

/// Bytes read at once.
const CHUNK_SIZE: usize = 1 << 20;

impl Source {
    /// Reads these logs, one after the other. A transaction of more than `size_max` bytes is an error.
    pub fn new(logs: Vec<Log>, keyring: Option<Arc<Keyring>>, size_max: usize) -> Self {
        let names = logs.iter().map(Log::name).collect();
        let logs = logs.into_iter();
        Self {
            names,
            logs,
            keyring,
            size_max,
            current: None,
            log_number: 0,
            number: 0,
            bytes_read: 0,
            previous: GtidSet::new(),
        }
    }

    /// The names that the logs have on their own server, in order.
    pub fn log_names(&self) -> &[String] {
        &self.names
    }

    /// The transactions that are in front of the first log, by its own account; known once its first transaction has
    /// been read.
    pub const fn previous(&self) -> &GtidSet {
        &self.previous
    }

    /// How many bytes of the logs have been gone over.
    pub const fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The next transaction; `None` behind the last.
    ///
    /// # Errors
    ///
    /// When a log cannot be read, holds what it cannot, or ends within a transaction.
    pub fn next_unit(&mut self) -> Result<Option<Unit>, Error> {
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some(current) = &mut self.current else { continue };
            let before = current.reader.position();
            let found = current.next_unit(self.size_max)?;
            if self.log_number == 1
                && let Some(previous) = current.previous.take()
            {
                self.previous = previous;
            }
            self.bytes_read += current.reader.position().saturating_sub(before);
            match found {
                Some((origin, transaction)) => {
                    let origin = Origin { log_number: self.log_number - 1, ..origin };
                    let unit = Unit { number: self.number, origin, transaction };
                    self.number += 1;
                    return Ok(Some(unit));
                }
                None => self.current = None,
            }
        }
    }

    fn open_next(&mut self) -> Result<bool, Error> {
        let Some(log) = self.logs.next() else { return Ok(false) };
        let mut reader = match &log {
            Log::File(path) => LogReader::open(path)?,
            Log::Stdin => LogReader::stdin(),
        };
        if let Some(keyring) = &self.keyring {
            reader = reader.with_keyring(Arc::clone(keyring));
        }
        let name: Arc<str> = reader.name().into();
        let log_name = log.name().into();
        self.log_number += 1;
        self.current = Some(Current {
            reader,
            assembler: None,
            chunk: None,
            index: 0,
            log: name,
            log_name,
            previous: None,
        });
        Ok(true)
    }
}

impl Current {
    /// The log's next transaction, its log's number still unsaid; `None` at the end of the log.
    fn next_unit(&mut self, size_max: usize) -> Result<Option<(Origin, binlog::Transaction)>, Error> {
        loop {
            let Some(chunk) = &self.chunk else {
                match self.reader.next_chunk(CHUNK_SIZE)? {
                    Next::Some(chunk) => (self.chunk, self.index) = (Some(chunk), 0),
                    Next::End(End::Torn(torn)) => return Err(self.reader.torn(torn).into()),
                    Next::End(_) => return self.finish(),
                }
                continue;
            };
            let Some(event) = chunk.get(self.index) else {
                self.chunk = None;
                continue;
            };
            self.index += 1;
            if event.raw.event_type() == EventType::PreviousGtids {
                let previous = previous(&event.raw, chunk.format());
                let (log, position) = (self.log.to_string(), event.offset);
                let corrupt =
                    |error: DecodeError| Error::Corrupt { log, position, reason: error.to_string() };
                self.previous = Some(previous.map_err(corrupt)?);
            }
            let format = chunk.format();
            let assembler =
                self.assembler.get_or_insert_with(|| Assembler::new((**format).clone(), size_max));
            let pushed = event.raw.verify().map_err(AssembleError::Decode);
            match pushed.and_then(|()| assembler.push(event.offset, &event.raw, format)) {
                Ok(None) => {}
                Ok(Some(transaction)) => {
                    let outline = transaction.outline();
                    let (start, end) = (outline.position, outline.end);
                    let (log, log_name) = (Arc::clone(&self.log), Arc::clone(&self.log_name));
                    return Ok(Some((Origin { log, log_name, log_number: 0, start, end }, transaction)));
                }
                Err(error) => {
                    let (log, position) = (self.log.to_string(), event.offset);
                    return Err(Error::Corrupt { log, position, reason: error.to_string() });
                }
            }
        }
    }

    fn finish(&self) -> Result<Option<(Origin, binlog::Transaction)>, Error> {
        match self.assembler.as_ref().and_then(Assembler::open) {
            Some(open) => Err(Error::Cut { log: self.log.to_string(), start: open.position }),
            None => Ok(None),
        }
    }
}

fn previous(raw: &RawEvent<'_>, format: &Format) -> Result<GtidSet, DecodeError> {
    match raw.decode(format)? {
        Event::PreviousGtids(previous) => GtidSet::decode(previous.set),
        _ => Ok(GtidSet::new()),
    }
}
