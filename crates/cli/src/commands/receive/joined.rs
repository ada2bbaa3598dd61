//! Logs of a server that took another's place: behind what is here, each transaction once.
//!
//! The source leaves out what is here, so events stand elsewhere than in its own files, logical clocks count fewer
//! transactions, and what is in front of a log is what the store has. A log that nothing is left out of is the source's
//! own, byte for byte.

use anyhow::anyhow;
use binlog::events::PreviousGtids;
use binlog::gtid::GtidSet;
use binlog::{ClockShift, Event, EventType, Format, NextPosition, RawEvent, move_event, put_gtid_renumbered};
use logs::Contents;
use wire::Start;

use crate::commands::receive::begin::behind;

/// What a log of such a server becomes.
pub(super) struct Joined {
    /// The transactions that are here.
    gtids: GtidSet,
    /// Does the log go on that is here, whose beginning then comes again?
    head: Head,
    /// The `sequence_number` of the last transaction of this log, here.
    last: i64,
    /// An event that is not the source's own.
    buffer: Vec<u8>,
}

/// What stands in front of a log's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    Wanted,
    IsHere,
}

impl Joined {
    /// Behind what is here.
    pub(super) fn behind(contents: Contents) -> Self {
        let Contents { gtids, sequence_number, .. } = contents;
        Self { gtids, head: Head::IsHere, last: sequence_number, buffer: Vec::new() }
    }

    /// What to ask the source for.
    pub(super) fn start(&self) -> Start {
        behind(&self.gtids)
    }

    /// What comes is of another log.
    pub(super) fn begin_log(&mut self) {
        (self.head, self.last) = (Head::Wanted, 0);
    }

    /// Is a format description to be kept?
    pub(super) fn wants_format(&self) -> bool {
        self.head == Head::Wanted
    }

    /// The next event, as it is to stand at this place; none if it is here.
    pub(super) fn take(
        &mut self,
        raw: &RawEvent<'_>,
        format: &Format,
        place: u64,
    ) -> Result<Option<&[u8]>, anyhow::Error> {
        self.buffer.clear();
        match raw.event_type() {
            EventType::PreviousGtids => return self.previous(raw, format, place),
            EventType::Gtid | EventType::GtidTagged => self.begin_transaction(raw, format, place)?,
            _ => self.moved(raw, place),
        }
        Ok(Some(&self.buffer))
    }

    /// What is in front of the log is what the store has: all that the source has in front of it, and more.
    fn previous(
        &mut self,
        raw: &RawEvent<'_>,
        format: &Format,
        place: u64,
    ) -> Result<Option<&[u8]>, anyhow::Error> {
        if self.head == Head::IsHere {
            return Ok(None);
        }
        let Event::PreviousGtids(PreviousGtids { set }) = raw.decode(format)? else { return Ok(None) };
        if GtidSet::decode(set)? == self.gtids {
            self.moved(raw, place);
            return Ok(Some(&self.buffer));
        }
        let mut set = Vec::new();
        self.gtids.encode(self.gtids.format(), &mut set);
        let event = Event::PreviousGtids(PreviousGtids { set: &set });
        event.write(raw.header().origin(), NextPosition::Behind(place), format, &mut self.buffer)?;
        Ok(Some(&self.buffer))
    }

    fn begin_transaction(
        &mut self,
        raw: &RawEvent<'_>,
        format: &Format,
        place: u64,
    ) -> Result<(), anyhow::Error> {
        let event = raw.decode(format)?;
        let gtid = event.gtid().ok_or_else(|| anyhow!("the source sends a GTID that is out of range"))?;
        if !self.gtids.add(gtid) {
            return Err(anyhow!("the source sends {gtid}, which is here already"));
        }
        let (clock, size) = match &event {
            Event::Gtid(event) => (event.clock, event.stamps.and_then(|stamps| stamps.transaction_size)),
            Event::GtidTagged(event) => (Some(event.clock), event.stamps.transaction_size),
            _ => (None, None),
        };
        let number = clock.map_or(0, |clock| clock.sequence_number);
        if number < 0 {
            return Err(anyhow!(
                "the source sends {gtid} with sequence_number {number}, which none can have"
            ));
        }
        if number == 0 || number == self.last.saturating_add(1) {
            self.last = number;
            self.moved(raw, place);
            return Ok(());
        }
        // It waits for all in front, whenever this log was gone on with: the same bytes come again then.
        let shift = ClockShift::behind_gap(number - 1, self.last);
        self.last = self.last.saturating_add(1);
        let behind = size.unwrap_or_default().saturating_sub(raw.bytes().len() as u64);
        put_gtid_renumbered(raw, shift, behind, NextPosition::Behind(place), format, &mut self.buffer)?;
        Ok(())
    }

    fn moved(&mut self, raw: &RawEvent<'_>, place: u64) {
        self.buffer.extend_from_slice(raw.bytes());
        let end = place + raw.bytes().len() as u64;
        if raw.header().next_position != end as u32 {
            move_event(&mut self.buffer, raw.checksum(), NextPosition::Behind(place));
        }
    }
}
