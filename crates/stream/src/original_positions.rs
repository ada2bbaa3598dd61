//! Positions of events in the source's log, for a log that was rewritten since: records state the source's positions,
//! whether the log was compressed meanwhile or not.

use std::ops::Range;

use binlog::{EventChecksum, EventFormat, EventType, NextPosition, RawEvent, put_gtid_resized};
use logs::{PositionPair, RewritePositions};

use crate::error::StreamError;

/// Positions of events in the log from which the log being read was rewritten.
#[derive(Debug)]
pub(crate) struct OriginalPositions {
    positions: RewritePositions,
    /// Start of the current transaction in both logs.
    transaction: Option<PositionPair>,
    /// Its GTID event, if it has one: this event contains the size of the transaction.
    gtid: Vec<u8>,
    payload: Option<PayloadCursor>,
}

/// Position within a payload whose events were not in a payload in the source's log.
#[derive(Clone, Copy, Debug)]
struct PayloadCursor {
    /// Position of the next event in the source's log.
    next: u64,
    /// Checksum after each event in the source's log.
    checksum: EventChecksum,
}

impl OriginalPositions {
    pub(crate) const fn new(positions: RewritePositions) -> Self {
        Self { positions, transaction: None, gtid: Vec::new(), payload: None }
    }

    /// Returns the source's position of an event outside of payloads, which starts at `offset`.
    pub(crate) fn begin_event(&mut self, offset: u64, raw: &RawEvent<'_>) -> Result<u64, StreamError> {
        self.payload = None;
        self.transaction = self.positions.seek_rewritten(offset)?;
        let is_gtid =
            matches!(raw.event_type(), EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged);
        if is_gtid {
            self.gtid.clear();
            self.gtid.extend_from_slice(raw.bytes());
        }
        Ok(self.positions.original_start(offset)?)
    }

    /// Starts a payload, whose event is at `event`, and which claims to hold `uncompressed_size` bytes.
    /// Returns the source's position of the payload event, if the source had one.
    pub(crate) fn begin_payload(
        &mut self,
        event: Range<u64>,
        uncompressed_size: Option<u64>,
        format: &EventFormat,
    ) -> u64 {
        let Range { start, end } = event;
        let Some(this) = self.transaction else { return self.positions.to_original(start) };
        let checksum = format.checksum.for_events();
        let size_before = self.positions.to_original(end).saturating_sub(this.original);
        if size_before == end - this.rewritten {
            return self.positions.to_original(start);
        }
        let gtid = this.original + self.gtid_size(size_before, format);
        if this.original + size_before >= gtid + uncompressed_size.unwrap_or(0) {
            self.payload = Some(PayloadCursor { next: gtid, checksum });
        }
        // If the source had a payload of another size, it starts here.
        gtid
    }

    /// Returns the source's position of the next event of the payload, which has `size` bytes. `None` if the event was
    /// in a payload there, too.
    pub(crate) fn next_in_payload(&mut self, size: usize) -> Option<u64> {
        let inside = self.payload.as_mut()?;
        let next = inside.next;
        inside.next += (size + inside.checksum.size()) as u64;
        Some(next)
    }

    /// Returns the source's position of the end of the current transaction, which ends at `end`.
    ///
    /// # Errors
    ///
    /// Fails if this does not match the positions of the events: the list of positions is wrong.
    pub(crate) fn end_transaction(&mut self, end: u64) -> Result<u64, String> {
        let before = self.positions.to_original(end);
        match self.payload.take() {
            Some(inside) if inside.next != before => Err(format!(
                "the list of positions beside the log is wrong: by the list, the transaction ends at {before} in the \
                 source's log; by its events, at {}",
                inside.next
            )),
            _ => Ok(before),
        }
    }

    /// Returns the size of the GTID event in the source's log, where the transaction had `size_before` bytes.
    fn gtid_size(&self, size_before: u64, format: &EventFormat) -> u64 {
        let mut size = self.gtid.len() as u64;
        let Ok(gtid) = RawEvent::new(&self.gtid, format.checksum.for_events()) else { return size };
        // The event's size depends on the transaction's size, which includes the event.
        for _ in 0..GTID_SIZE_ROUNDS_MAX {
            let (size_after, mut bytes) = (size_before.saturating_sub(size), Vec::new());
            if put_gtid_resized(&gtid, size_after, NextPosition::Fixed(0), format, &mut bytes).is_err()
                || bytes.len() as u64 == size
            {
                break;
            }
            size = bytes.len() as u64;
        }
        size
    }
}

/// Rounds until the size is stable: one more than the sizes that a number of variable length can have.
const GTID_SIZE_ROUNDS_MAX: usize = 10;
