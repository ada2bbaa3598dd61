//! Where events stood in the log that a rewritten one was made of: what is told of a source's log says where things are
//! there, whether the log was compressed meanwhile or not.

use binlog::{Checksum, EventType, Format, NextPosition, RawEvent, put_gtid_resized};
use logs::{Moved, Positions};

use crate::error::Error;

/// Where events stood in the log that the one that is read was made of.
#[derive(Debug)]
pub(crate) struct Origin {
    positions: Positions,
    /// The transaction at hand: where it starts.
    this: Option<Moved>,
    /// Its first event, if that says how large the transaction is.
    gtid: Vec<u8>,
    inside: Option<Inside>,
}

/// Within a payload that was not one before.
#[derive(Clone, Copy, Debug)]
struct Inside {
    /// Where the next event stood.
    next: u64,
    /// What each had behind it.
    checksum: Checksum,
}

impl Origin {
    pub(crate) const fn new(positions: Positions) -> Self {
        Self { positions, this: None, gtid: Vec::new(), inside: None }
    }

    /// Where an event that starts at `offset`, not in a payload, stood.
    pub(crate) fn event(&mut self, offset: u64, raw: &RawEvent<'_>) -> Result<u64, Error> {
        self.inside = None;
        self.this = self.positions.go_to(offset)?;
        let is_gtid =
            matches!(raw.event_type(), EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged);
        if is_gtid {
            self.gtid.clear();
            self.gtid.extend_from_slice(raw.bytes());
        }
        // Of a transaction that has another size now, only its first event is outside a payload.
        Ok(match self.this {
            Some(this) if this.after == offset => this.before,
            _ => self.positions.before(offset),
        })
    }

    /// Events of a payload follow, which claims to have `uncompressed_size` bytes of them; its own event is from `start`
    /// to `end`. Gives where that stood, if it was a payload before.
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
        // A payload that was compressed again stood there.
        gtid
    }

    /// Where the next event of the payload stood, which has `size` bytes there; `None` if it was in a payload before.
    pub(crate) fn inside(&mut self, size: usize) -> Option<u64> {
        let inside = self.inside.as_mut()?;
        let next = inside.next;
        inside.next += (size + inside.checksum.size()) as u64;
        Some(next)
    }

    /// Where the transaction at hand ended, which ends at `end` now.
    ///
    /// # Errors
    ///
    /// When the events that were told stood elsewhere: the list of positions is wrong.
    pub(crate) fn end(&mut self, end: u64) -> Result<u64, String> {
        let before = self.positions.before(end);
        match self.inside.take() {
            Some(inside) if inside.next != before => Err(format!(
                "by the list of positions beside the log, the transaction ended at {before} of the log that this one was \
                 made of, and by its events at {}",
                inside.next
            )),
            _ => Ok(before),
        }
    }

    /// The size that the first event had in a transaction of `size_before` bytes.
    fn gtid_size(&self, size_before: u64, format: &Format) -> u64 {
        let mut size = self.gtid.len() as u64;
        let Ok(gtid) = RawEvent::new(&self.gtid, format.checksum.for_events()) else { return size };
        // It says the transaction's size in few bytes or many, its own among them.
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

/// Sizes that a number of variable length can have, and one more.
const GTID_SIZES: usize = 10;
