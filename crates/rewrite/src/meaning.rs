//! What a log says, wherever its events stand and however they are compressed.

use std::fmt;

use binlog::{Event, EventType, Format, NextPosition, PayloadOpener, RawEvent, put_gtid_resized, put_inner};
use logs::{End, LogReader, Next};
use sha2::{Digest, Sha256};

use crate::error::{At, Error};

/// What a log says, wherever its events stand and however they are compressed: two logs of equal meaning have the
/// same events in the same order, but for positions, checksums, the sizes of transactions, and event types up to payloads
/// that one of their format descriptions counts and the other does not.
#[derive(Clone, PartialEq, Eq)]
pub struct Meaning {
    /// Events, those inside payloads counted and payloads not.
    pub events: u64,
    /// A SHA-256 over all of them.
    digest: [u8; 32],
}

impl fmt::Debug for Meaning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} events, ", self.events)?;
        self.digest.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// What is read at once.
const CHUNK_SIZE: usize = 1024 * 1024;

/// Reads a log to its end; checksums are verified.
///
/// # Errors
///
/// When it cannot be read, or is not sound.
pub fn meaning(reader: &mut LogReader) -> Result<Meaning, Error> {
    let mut sum = Sum { events: 0, hasher: Sha256::new(), opener: PayloadOpener::new(), scratch: Vec::new() };
    let name = reader.name().to_owned();
    loop {
        match reader.next_chunk(CHUNK_SIZE)? {
            Next::Some(chunk) => {
                for event in chunk.iter() {
                    sum.event(&event.raw, chunk.format(), At { name: &name, offset: event.offset })?;
                }
            }
            Next::End(End::Torn(torn)) => return Err(reader.torn(torn).into()),
            Next::End(_) => return Ok(Meaning { events: sum.events, digest: sum.hasher.finalize().into() }),
        }
    }
}

struct Sum {
    events: u64,
    hasher: Sha256,
    opener: PayloadOpener,
    scratch: Vec<u8>,
}

impl Sum {
    fn event(&mut self, raw: &RawEvent<'_>, format: &Format, at: At<'_>) -> Result<(), Error> {
        raw.verify().map_err(|error| at.decode(error))?;
        if raw.event_type() == EventType::TransactionPayload {
            return self.payload(raw, format, at);
        }
        self.scratch.clear();
        match raw.event_type() {
            EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged => {
                let put = put_gtid_resized(raw, 0, NextPosition::Is(0), format, &mut self.scratch);
                put.map_err(|error| at.corrupt(&error))?;
                self.scratch.truncate(self.scratch.len() - raw.checksum().size());
            }
            EventType::FormatDescription => self.format_description(raw, format, at)?,
            _ => put_inner(raw, &mut self.scratch),
        }
        self.events += 1;
        self.hasher.update(&self.scratch);
        Ok(())
    }

    /// As if it knew payloads: a log must not become another when it gets to know them.
    fn format_description(&mut self, raw: &RawEvent<'_>, format: &Format, at: At<'_>) -> Result<(), Error> {
        let event = raw.decode(format).map_err(|error| at.decode(error))?;
        let Event::FormatDescription(description) = event else { return Ok(()) };
        let mut sizes = Vec::new();
        let extended = Event::FormatDescription(description.with_payloads(&mut sizes));
        let put = extended.write(raw.header().origin(), NextPosition::Is(0), format, &mut self.scratch);
        put.map_err(|error| at.corrupt(&error))?;
        self.scratch.truncate(self.scratch.len() - raw.checksum().size());
        Ok(())
    }

    fn payload(&mut self, raw: &RawEvent<'_>, format: &Format, at: At<'_>) -> Result<(), Error> {
        let Event::TransactionPayload(payload) = raw.decode(format).map_err(|error| at.decode(error))? else {
            return Ok(());
        };
        let mut inner = self.opener.open(&payload).map_err(|error| at.payload(error))?;
        while let Some(event) = inner.next_event().map_err(|error| at.payload(error))? {
            self.events += 1;
            self.hasher.update(event.bytes());
        }
        Ok(())
    }
}
