//! Positions of events in the source's log, for a log that was rewritten since: records state the source's positions,
//! whether the log was compressed meanwhile or not.

use binlog::{Checksum, EventType, Format, NextPosition, RawEvent, put_gtid_resized};
use logs::{Moved, Positions};

use crate::error::Error;

/// Positions of events in the log from which the log being read was rewritten.
#[derive(Debug)]
pub(crate) struct Origin {
    positions: Positions,
    /// Start of the current transaction in both logs.
    this: Option<Moved>,
    /// Its GTID event, if it has one: this event contains the size of the transaction.
    gtid: Vec<u8>,
    inside: Option<Inside>,
}

/// Position within a payload whose events were not in a payload in the source's log.
#[derive(Clone, Copy, Debug)]
struct Inside {
    /// Position of the next event in the source's log.
    next: u64,
    /// Checksum after each event in the source's log.
    checksum: Checksum,
}

impl Origin {
    pub(crate) const fn new(positions: Positions) -> Self {
        Self { positions, this: None, gtid: Vec::new(), inside: None }
    }

    /// Returns the source's position of an event outside of payloads, which starts at `offset`.
    pub(crate) fn event(&mut self, offset: u64, raw: &RawEvent<'_>) -> Result<u64, Error> {
        self.inside = None;
        self.this = self.positions.go_to(offset)?;
        let is_gtid =
            matches!(raw.event_type(), EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged);
        if is_gtid {
            self.gtid.clear();
            self.gtid.extend_from_slice(raw.bytes());
        }
        // If the transaction's size has changed, only its first event is outside the payload.
        Ok(match self.this {
            Some(this) if this.after == offset => this.before,
            _ => self.positions.before(offset),
        })
    }

    /// Starts a payload, whose event reaches from `start` to `end`, and which claims to hold `uncompressed_size` bytes.
    /// Returns the source's position of the payload event, if the source had one.
    pub(crate) fn open(
        &mut self,
        (start, end): (u64, u64),
        uncompressed_size: Option<u64>,
        format: &Format,
    ) -> u64 {
        let Some(this) = self.this else { return self.positions.before(start) };
        let checksum = format.checksum.for_events();
        let size_before = self.positions.before(end).saturating_sub(this.before);
        if size_before == end - this.after {
            return self.positions.before(start);
        }
        let gtid = this.before + self.gtid_size(size_before, format);
        if this.before + size_before >= gtid + uncompressed_size.unwrap_or(0) {
            self.inside = Some(Inside { next: gtid, checksum });
        }
        // If the source had a payload of another size, it starts here.
        gtid
    }

    /// Returns the source's position of the next event of the payload, which has `size` bytes. `None` if the event was
    /// in a payload there, too.
    pub(crate) fn inside(&mut self, size: usize) -> Option<u64> {
        let inside = self.inside.as_mut()?;
        let next = inside.next;
        inside.next += (size + inside.checksum.size()) as u64;
        Some(next)
    }

    /// Returns the source's position of the end of the current transaction, which ends at `end`.
    ///
    /// # Errors
    ///
    /// If this does not match the positions of the events: the list of positions is wrong.
    pub(crate) fn end(&mut self, end: u64) -> Result<u64, String> {
        let before = self.positions.before(end);
        match self.inside.take() {
            Some(inside) if inside.next != before => Err(format!(
                "the list of positions beside the log is wrong: it has the transaction's end in the source's log at \
                   {before}, the events have it at {}",
                inside.next
            )),
            _ => Ok(before),
        }
    }

    /// Returns the size of the GTID event in the source's log, where the transaction had `size_before` bytes.
    fn gtid_size(&self, size_before: u64, format: &Format) -> u64 {
        let mut size = self.gtid.len() as u64;
        let Ok(gtid) = RawEvent::new(&self.gtid, format.checksum.for_events()) else { return size };
        // The event's size depends on the transaction's size, which includes the event.
        for _ in 0..GTID_SIZES {
            let (behind, mut bytes) = (size_before.saturating_sub(size), Vec::new());
            if put_gtid_resized(&gtid, behind, NextPosition::Is(0), format, &mut bytes).is_err()
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
const GTID_SIZES: usize = 10;
