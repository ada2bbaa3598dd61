//! Decompression of payloads: their events replace the payload after the GTID event.
//!
//! The GTID event contains the size of its transaction. Only the end of the payload shows this size:
//!
//! | payload | treatment |
//! |---|---|
//! | small | its events are held in memory until the end |
//! | large, and the GTID event's own size does not depend on the transaction's size | decompressed once, as its events are written: a placeholder reserves the space of the GTID event |
//! | any other | decompressed twice |

use std::time::{Duration, Instant};

use binlog::{
    EventChecksum, HEADER_SIZE, NextPosition, PayloadError, PayloadSummary, RawEvent, put_gtid_resized,
};
use logs::{LogKind, inner_events};

use crate::error::{ErrorContext, RewriteError};
use crate::rewrite_unit::RewriteSegment;
use crate::rewrite_worker::{
    CompressedTransaction, OutputPart, PART_SIZE, PartSink, RewriteWorker, compressed_transaction,
    relay_position,
};

/// Result of decompressing a payload to its end.
struct PayloadScan {
    summary: PayloadSummary,
    /// True if the worker's buffer contains all events of the payload.
    is_buffered: bool,
}

impl RewriteWorker<'_> {
    /// Replaces the payload of a compressed transaction by its events. Returns false if the transaction is not
    /// compressed.
    pub(crate) fn decompress_transaction(
        &mut self,
        segment: &RewriteSegment,
        kind: LogKind,
        sender: &dyn PartSink,
    ) -> Result<bool, RewriteError> {
        let Some(closed) = compressed_transaction(self.shared.name, segment)? else { return Ok(false) };
        let reserved = match closed.body.uncompressed_size {
            Some(claimed) if claimed > self.shared.sizes.large => gtid_placeholder(&closed, claimed),
            _ => None,
        };
        let summary = match reserved {
            Some(reserved) => self.decompress_streaming(&closed, reserved, kind, sender)?,
            None => self.decompress_buffered(&closed, kind, sender)?,
        };
        self.batch.tally.opened += 1;
        self.batch.tally.inner_bytes += summary.uncompressed_size;
        self.batch.tally.payload_bytes += closed.body.payload.len() as u64;
        Ok(true)
    }

    /// Decompresses a payload and pushes its events immediately, after a placeholder for the GTID event.
    fn decompress_streaming(
        &mut self,
        closed: &CompressedTransaction<'_>,
        reserved: Vec<u8>,
        kind: LogKind,
        sender: &dyn PartSink,
    ) -> Result<PayloadSummary, RewriteError> {
        let at = ErrorContext { name: self.shared.name, offset: closed.payload.offset };
        let (checksum, next) = (closed.payload.raw.checksum(), relay_position(kind, &closed.payload.raw));
        let size = reserved.len();
        self.batch.flush_before_parts(sender)?;
        sender.push(OutputPart::GtidPlaceholder(reserved), size)?;
        let mut spent = Duration::ZERO;
        let mut inner = self.opener.open(&closed.body).map_err(|error| at.payload_error(error))?;
        loop {
            let started = Instant::now();
            let event = inner.next_event();
            spent += started.elapsed();
            let Some(event) = event.map_err(|error| at.payload_error(error))? else { break };
            self.batch.push_inner(event, checksum, next).map_err(|error| at.corrupt_error(&error))?;
            if self.batch.is_full() {
                self.batch.flush(sender)?;
            }
        }
        let summary = *inner.summary();
        self.batch.tally.opening.record(spent);
        self.batch.flush(sender)?;
        let (position, fixup) = match next {
            Some(_) => (NextPosition::Fixed(closed.gtid.raw.header().next_position), None),
            None => (NextPosition::Fixed(0), Some(checksum)),
        };
        let mut bytes = Vec::new();
        let after = size_after_gtid(&summary, checksum);
        let put = put_gtid_resized(&closed.gtid.raw, after, position, closed.format, &mut bytes);
        put.map_err(|error| at.corrupt_error(&error))?;
        if bytes.len() != size {
            let claimed = closed.body.uncompressed_size.unwrap_or_default();
            return Err(at.corrupt_error(&format!(
                "the payload's events have {} bytes, but its header says {claimed}",
                summary.uncompressed_size
            )));
        }
        sender.push(OutputPart::GtidFinal { bytes, fixup }, size)?;
        Ok(summary)
    }

    /// Decompresses a whole payload before it pushes any event.
    fn decompress_buffered(
        &mut self,
        closed: &CompressedTransaction<'_>,
        kind: LogKind,
        sender: &dyn PartSink,
    ) -> Result<PayloadSummary, RewriteError> {
        let at = ErrorContext { name: self.shared.name, offset: closed.payload.offset };
        let (checksum, next) = (closed.payload.raw.checksum(), relay_position(kind, &closed.payload.raw));
        let started = Instant::now();
        let PayloadScan { summary, is_buffered } =
            self.scan_payload(closed).map_err(|error| at.payload_error(error))?;
        self.batch.tally.opening.record(started.elapsed());
        let after = size_after_gtid(&summary, checksum);
        let resized = self.batch.push_gtid(&closed.gtid.raw, after, closed.format, next);
        resized.map_err(|error| at.corrupt_error(&error))?;
        let mut put = |event: RawEvent<'_>| {
            self.batch.push_inner(event, checksum, next).map_err(|error| at.corrupt_error(&error))?;
            match self.batch.is_full() {
                true => self.batch.flush(sender),
                false => Ok(()),
            }
        };
        if is_buffered {
            inner_events(&self.inner).try_for_each(put)?;
        } else {
            let mut inner = self.opener.open(&closed.body).map_err(|error| at.payload_error(error))?;
            while let Some(event) = inner.next_event().map_err(|error| at.payload_error(error))? {
                put(event)?;
            }
        }
        Ok(summary)
    }

    /// Decompresses a payload to its end. Keeps the events of a small payload in the buffer.
    fn scan_payload(&mut self, closed: &CompressedTransaction<'_>) -> Result<PayloadScan, PayloadError> {
        let mut inner = self.opener.open(&closed.body)?;
        self.inner.clear();
        let mut is_buffered = true;
        while inner.next_chunk(PART_SIZE, &mut self.inner)? > 0 {
            if !is_buffered || self.inner.len() as u64 > self.shared.sizes.large {
                is_buffered = false;
                self.inner.clear();
                self.inner.shrink_to(2 * PART_SIZE);
            }
        }
        Ok(PayloadScan { summary: *inner.summary(), is_buffered })
    }
}

/// Returns the bytes of the transaction after its GTID event.
fn size_after_gtid(summary: &PayloadSummary, checksum: EventChecksum) -> u64 {
    summary.uncompressed_size + summary.events * checksum.size() as u64
}

/// Returns a placeholder with the final size of the GTID event, if that size does not depend on the number of events in
/// the payload.
fn gtid_placeholder(closed: &CompressedTransaction<'_>, claimed: u64) -> Option<Vec<u8>> {
    let checksum = closed.payload.raw.checksum();
    let event = |events: u64| {
        let after = claimed.checked_add(events.checked_mul(checksum.size() as u64)?)?;
        let mut bytes = Vec::new();
        let position = NextPosition::Fixed(0);
        put_gtid_resized(&closed.gtid.raw, after, position, closed.format, &mut bytes).ok()?;
        Some(bytes)
    };
    let (few, many) = (event(1)?, event(claimed / HEADER_SIZE as u64)?);
    (few.len() == many.len()).then_some(few)
}
