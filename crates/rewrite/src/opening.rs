//! Decompresses payloads: puts their events back behind the GTID event.
//!
//! The GTID event contains the size of its transaction, which is known only at the end of the payload:
//!
//! | payload | treatment |
//! |---|---|
//! | small | its events are held in memory until the end |
//! | large, and the GTID event's own size does not depend on the transaction's size | decompressed once, as its events are written: a placeholder reserves the space of the GTID event |
//! | any other | decompressed twice |

use std::time::{Duration, Instant};

use binlog::{Checksum, HEADER_SIZE, NextPosition, PayloadError, PayloadSummary, RawEvent, put_gtid_resized};
use logs::LogKind;
use logs::ordered::Outlet;

use crate::error::{At, Error};
use crate::feed::Segment;
use crate::work::{Closed, PART_SIZE, Part, Worker, closed, relay_position};

/// Result of decompressing a payload to its end.
struct Opened {
    summary: PayloadSummary,
    /// True if the worker's buffer contains all its events.
    is_held: bool,
}

impl Worker<'_> {
    /// Replaces the payload of a compressed transaction by its events. Returns false if the transaction is not
    /// compressed.
    pub(crate) fn open_payloads(
        &mut self,
        segment: &Segment,
        kind: LogKind,
        outlet: &Outlet<'_, Part>,
    ) -> Result<bool, Error> {
        let Some(closed) = closed(self.shop.name, segment)? else { return Ok(false) };
        let reserved = match closed.body.uncompressed_size {
            Some(claimed) if claimed > self.shop.sizes.large => reservation(&closed, claimed),
            _ => None,
        };
        let summary = match reserved {
            Some(reserved) => self.open_as_it_goes(&closed, reserved, kind, outlet)?,
            None => self.open_and_settle(&closed, kind, outlet)?,
        };
        self.batch.tally.opened += 1;
        self.batch.tally.inner_bytes += summary.uncompressed_size;
        self.batch.tally.payload_bytes += closed.body.payload.len() as u64;
        Ok(true)
    }

    /// Decompresses a payload and pushes its events as they come, behind a placeholder for the GTID event.
    fn open_as_it_goes(
        &mut self,
        closed: &Closed<'_>,
        reserved: Vec<u8>,
        kind: LogKind,
        outlet: &Outlet<'_, Part>,
    ) -> Result<PayloadSummary, Error> {
        let at = At { name: self.shop.name, offset: closed.payload.offset };
        let (checksum, next) = (closed.payload.raw.checksum(), relay_position(kind, &closed.payload.raw));
        let size = reserved.len();
        self.batch.flush(outlet)?;
        outlet.push(Part::Reserved(reserved), size)?;
        let mut spent = Duration::ZERO;
        let mut inner = self.opener.open(&closed.body).map_err(|error| at.payload(error))?;
        loop {
            let started = Instant::now();
            let event = inner.next_event();
            spent += started.elapsed();
            let Some(event) = event.map_err(|error| at.payload(error))? else { break };
            self.batch.inner(event, checksum, next).map_err(|error| at.corrupt(&error))?;
            if self.batch.is_full() {
                self.batch.flush(outlet)?;
            }
        }
        let summary = *inner.summary();
        self.batch.tally.opening.note(spent);
        self.batch.flush(outlet)?;
        let (position, placed) = match next {
            Some(_) => (NextPosition::Is(closed.gtid.raw.header().next_position), None),
            None => (NextPosition::Is(0), Some(checksum)),
        };
        let mut bytes = Vec::new();
        let behind = size_behind(&summary, checksum);
        let put = put_gtid_resized(&closed.gtid.raw, behind, position, closed.format, &mut bytes);
        put.map_err(|error| at.corrupt(&error))?;
        if bytes.len() != size {
            let claimed = closed.body.uncompressed_size.unwrap_or_default();
            return Err(at.corrupt(&format!(
                "the payload's events have {} bytes, but its header says {claimed}",
                summary.uncompressed_size
            )));
        }
        outlet.push(Part::Settled { bytes, placed }, size)?;
        Ok(summary)
    }

    /// Decompresses a payload to its end before it pushes anything.
    fn open_and_settle(
        &mut self,
        closed: &Closed<'_>,
        kind: LogKind,
        outlet: &Outlet<'_, Part>,
    ) -> Result<PayloadSummary, Error> {
        let at = At { name: self.shop.name, offset: closed.payload.offset };
        let (checksum, next) = (closed.payload.raw.checksum(), relay_position(kind, &closed.payload.raw));
        let started = Instant::now();
        let Opened { summary, is_held } = self.look_inside(closed).map_err(|error| at.payload(error))?;
        self.batch.tally.opening.note(started.elapsed());
        let behind = size_behind(&summary, checksum);
        let resized = self.batch.gtid(&closed.gtid.raw, behind, closed.format, next);
        resized.map_err(|error| at.corrupt(&error))?;
        let mut put = |event: RawEvent<'_>| {
            self.batch.inner(event, checksum, next).map_err(|error| at.corrupt(&error))?;
            match self.batch.is_full() {
                true => self.batch.flush(outlet),
                false => Ok(()),
            }
        };
        if is_held {
            let mut rest = self.inner.as_slice();
            while let Some((event, behind)) = RawEvent::split_first(rest, Checksum::Absent) {
                put(event)?;
                rest = behind;
            }
        } else {
            let mut inner = self.opener.open(&closed.body).map_err(|error| at.payload(error))?;
            while let Some(event) = inner.next_event().map_err(|error| at.payload(error))? {
                put(event)?;
            }
        }
        Ok(summary)
    }

    /// Decompresses a payload to its end. Keeps the events of a small one in the buffer.
    fn look_inside(&mut self, closed: &Closed<'_>) -> Result<Opened, PayloadError> {
        let mut inner = self.opener.open(&closed.body)?;
        self.inner.clear();
        let mut is_held = true;
        while inner.next_chunk(PART_SIZE, &mut self.inner)? > 0 {
            if !is_held || self.inner.len() as u64 > self.shop.sizes.large {
                is_held = false;
                self.inner.clear();
                self.inner.shrink_to(2 * PART_SIZE);
            }
        }
        Ok(Opened { summary: *inner.summary(), is_held })
    }
}

/// Returns the bytes of the transaction behind its GTID event.
fn size_behind(summary: &PayloadSummary, checksum: Checksum) -> u64 {
    summary.uncompressed_size + summary.events * checksum.size() as u64
}

/// Returns a placeholder with the final size of the GTID event, if that size does not depend on the number of events in
/// the payload.
fn reservation(closed: &Closed<'_>, claimed: u64) -> Option<Vec<u8>> {
    let checksum = closed.payload.raw.checksum();
    let event = |events: u64| {
        let behind = claimed.checked_add(events.checked_mul(checksum.size() as u64)?)?;
        let mut bytes = Vec::new();
        let position = NextPosition::Is(0);
        put_gtid_resized(&closed.gtid.raw, behind, position, closed.format, &mut bytes).ok()?;
        Some(bytes)
    };
    let (few, many) = (event(1)?, event(claimed / HEADER_SIZE as u64)?);
    (few.len() == many.len()).then_some(few)
}
