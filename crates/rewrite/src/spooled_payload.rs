//! Compression of transactions that are not held in memory: reads these transactions again, and writes their payloads
//! piece by piece.

use binlog::{
    CompressError, EventFormat, EventHeader, EventType, PayloadWriter, RawEventBuf, events, put_inner,
};
use logs::{LogEvent, LogKind, LogReader, read_events_within};

use crate::error::{ErrorContext, RewriteError};
use crate::payload_spool::PayloadSpool;
use crate::rewrite_unit::LargeTransaction;
use crate::rewrite_worker::{OutputPart, PART_SIZE, PartSink, RewriteShared, relay_position};

/// A payload that is compressed piece by piece.
pub(crate) struct PayloadFile {
    writer: PayloadWriter,
    spool: PayloadSpool,
}

impl PayloadFile {
    /// Starts a payload for `inner_size` bytes of events.
    pub(crate) fn begin(shared: &RewriteShared<'_>, inner_size: u64) -> Result<Self, RewriteError> {
        let mut writer = shared.writers.new_writer()?;
        writer.set_threads(shared.sizes.large_threads)?;
        writer.begin(inner_size)?;
        Ok(Self { writer, spool: PayloadSpool::new_in(&shared.sizes.directory)? })
    }

    /// Adds events. Returns false if the payload becomes too large.
    pub(crate) fn push(&mut self, inner: &[u8]) -> Result<bool, RewriteError> {
        match self.writer.push(inner) {
            Ok(()) => {}
            Err(CompressError::TooLarge { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.writer.drain(|bytes| self.spool.push(bytes))?;
        Ok(true)
    }

    pub(crate) fn end(mut self) -> Result<PayloadSpool, RewriteError> {
        self.writer.finish()?;
        Ok(self.spool)
    }
}

/// A large transaction, compressed to a spool.
pub(crate) struct SpooledPayload {
    /// Start of the transaction in the old log.
    pub(crate) start: u64,
    pub(crate) gtid: RawEventBuf,
    /// Position of the payload at the source. Relay logs only.
    pub(crate) next: Option<u32>,
    pub(crate) format: EventFormat,
    pub(crate) payload: PayloadSpool,
    pub(crate) inner_size: u64,
}

impl SpooledPayload {
    /// Pushes the payload event, of `size` bytes, in pieces.
    pub(crate) fn push_event(
        &mut self,
        fields: &[u8],
        size: u32,
        sender: &dyn PartSink,
    ) -> Result<(), RewriteError> {
        let gtid = self.gtid.as_raw();
        let origin = events::TransactionPayload::origin(&gtid);
        let header = EventHeader {
            timestamp: origin.timestamp,
            event_type: EventType::TransactionPayload,
            server_id: origin.server_id,
            size,
            next_position: 0,
            flags: origin.flags,
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(fields);
        let cost = bytes.len();
        sender.push(OutputPart::Head { bytes, size, next: self.next, checksum: gtid.checksum() }, cost)?;
        loop {
            match self.payload.next(PART_SIZE)? {
                piece if piece.is_empty() => return sender.push(OutputPart::Tail, 0),
                piece => {
                    let cost = piece.len();
                    sender.push(OutputPart::Body(piece), cost)?;
                }
            }
        }
    }
}

/// Compresses a large transaction to a spool. Returns `None` if its payload becomes too large.
pub(crate) fn spool_payload(
    shared: &RewriteShared<'_>,
    large: &LargeTransaction,
    kind: LogKind,
    inner: &mut Vec<u8>,
) -> Result<Option<SpooledPayload>, RewriteError> {
    let mut file = PayloadFile::begin(shared, large.inner_size)?;
    let (mut first, mut next, mut fits) = (None, None, true);
    inner.clear();
    for_each_event(shared, large, |event, format| {
        if first.is_none() {
            first = Some((event.raw.to_buf(), format.clone()));
            return Ok(());
        }
        next = relay_position(kind, &event.raw);
        if !fits {
            return Ok(()); // Verified, but not changed.
        }
        put_inner(&event.raw, inner);
        if inner.len() >= PART_SIZE || event.end() == large.end {
            fits = file.push(inner)?;
            inner.clear();
        }
        Ok(())
    })?;
    let Some((gtid, format)) = first.filter(|_| fits) else { return Ok(None) };
    let (payload, inner_size) = (file.end()?, large.inner_size);
    Ok(Some(SpooledPayload { start: large.start, gtid, next, format, payload, inner_size }))
}

/// Reads the transaction again, verifies its events and passes them to `take`.
pub(crate) fn for_each_event(
    shared: &RewriteShared<'_>,
    large: &LargeTransaction,
    mut take: impl FnMut(LogEvent<'_>, &EventFormat) -> Result<(), RewriteError>,
) -> Result<(), RewriteError> {
    let mut reader = open_at(shared, large)?;
    let range = large.start..large.end;
    let is_whole = read_events_within(&mut reader, range, shared.sizes.unit, &mut |event, format| {
        let at = ErrorContext { name: shared.name, offset: event.offset };
        event.raw.verify().map_err(|error| at.decode_error(error))?;
        take(event, format)
    })?;
    match is_whole {
        true => Ok(()),
        false => Err(RewriteError::Changed { name: shared.name.to_owned() }),
    }
}

/// Opens the log again and moves to the start of the transaction.
fn open_at(shared: &RewriteShared<'_>, large: &LargeTransaction) -> Result<LogReader, RewriteError> {
    let mut reader = (shared.open)()?;
    reader.next_event()?;
    // A relay log also contains the format description of its source. The reader has to read it.
    if large.format_at > reader.position() {
        reader.skip_to(large.format_at)?;
        reader.next_event()?;
    }
    if large.start > reader.position() {
        reader.skip_to(large.start)?;
    }
    Ok(reader)
}
