//! Merges the logs of a server that replaced the source with the stored logs, each transaction once.
//!
//! The server omits transactions that the store already has. Therefore events get other positions than in the server's
//! files, logical clocks count fewer transactions, and Previous_gtids states the transactions of the store. A log
//! without omissions equals the server's log, byte for byte.

use binlog::events::PreviousGtids;
use binlog::gtid::GtidSet;
use binlog::{
    ClockShift, Event, EventFormat, EventType, GtidMove, NextPosition, RawEvent, move_event,
    put_gtid_renumbered,
};
use logs::LogContents;
use wire::ReplicaStart;

use crate::error::ReceiveError;
use crate::start_point::start_after;

/// Conversion of the server's log to the stored log.
pub(crate) struct FailoverMerge {
    /// Stored transactions.
    gtids: GtidSet,
    /// State of the current log's head. The source sends the head again on resuming.
    head: LogHead,
    /// `sequence_number` of the last stored transaction of this log.
    last: i64,
    /// Buffer of a changed event.
    buffer: Vec<u8>,
}

/// Events before a log's first transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogHead {
    Missing,
    Stored,
}

impl FailoverMerge {
    /// Returns the merge that continues after `contents`.
    pub(crate) fn after_contents(contents: LogContents) -> Self {
        let LogContents { gtids, sequence_number, .. } = contents;
        // The number comes from a log, which can contain any. A negative one is like none.
        Self { gtids, head: LogHead::Stored, last: sequence_number.max(0), buffer: Vec::new() }
    }

    /// Returns the start of the stream.
    pub(crate) fn start(&self) -> ReplicaStart {
        start_after(&self.gtids)
    }

    /// Begins another log.
    pub(crate) fn begin_log(&mut self) {
        (self.head, self.last) = (LogHead::Missing, 0);
    }

    /// Returns whether the next format description must be stored.
    pub(crate) fn wants_format(&self) -> bool {
        self.head == LogHead::Missing
    }

    /// Returns the next event in the form to store at `position`; `None` if it is already stored.
    pub(crate) fn take(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        position: u64,
    ) -> Result<Option<&[u8]>, ReceiveError> {
        self.buffer.clear();
        match raw.event_type() {
            EventType::PreviousGtids => return self.merge_previous_gtids(raw, format, position),
            EventType::Gtid | EventType::GtidTagged => self.begin_transaction(raw, format, position)?,
            _ => self.move_event(raw, position),
        }
        assert!(!self.buffer.is_empty(), "ours: a stored event has bytes");
        Ok(Some(&self.buffer))
    }

    /// Replaces the previous GTIDs with the GTIDs of the store, which are a superset.
    fn merge_previous_gtids(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        position: u64,
    ) -> Result<Option<&[u8]>, ReceiveError> {
        if self.head == LogHead::Stored {
            return Ok(None);
        }
        let Event::PreviousGtids(PreviousGtids { set }) = raw.decode(format)? else { return Ok(None) };
        if GtidSet::decode(set)? == self.gtids {
            self.move_event(raw, position);
            return Ok(Some(&self.buffer));
        }
        let mut set = Vec::new();
        self.gtids.encode(self.gtids.format(), &mut set);
        let event = Event::PreviousGtids(PreviousGtids { set: &set });
        event.write(raw.header().origin(), NextPosition::FromStart(position), format, &mut self.buffer)?;
        Ok(Some(&self.buffer))
    }

    fn begin_transaction(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        position: u64,
    ) -> Result<(), ReceiveError> {
        let event = raw.decode(format)?;
        let gtid = event.gtid().ok_or(ReceiveError::GtidOutOfRange)?;
        if !self.gtids.add(gtid) {
            return Err(ReceiveError::RepeatedTransaction { gtid });
        }
        let (clock, size) = match &event {
            Event::Gtid(event) => (event.clock, event.stamps.and_then(|stamps| stamps.transaction_size)),
            Event::GtidTagged(event) => (Some(event.clock), event.stamps.transaction_size),
            _ => (None, None),
        };
        let number = clock.map_or(0, |clock| clock.sequence_number);
        if number < 0 {
            return Err(ReceiveError::InvalidSequenceNumber { gtid, number });
        }
        if number == 0 || number == self.last.saturating_add(1) {
            self.last = number;
            self.move_event(raw, position);
            return Ok(());
        }
        // The transaction depends on all earlier transactions. The stored bytes therefore do not depend on where this
        // log was resumed.
        let shift = ClockShift::after_gap(number - 1, self.last);
        self.last = self.last.saturating_add(1);
        assert!(self.last > 0, "ours: a logical clock starts at 1");
        let bytes_after = size.unwrap_or_default().saturating_sub(raw.bytes().len() as u64);
        let moved = GtidMove { shift, bytes_after, next: NextPosition::FromStart(position) };
        put_gtid_renumbered(raw, &moved, format, &mut self.buffer)?;
        Ok(())
    }

    fn move_event(&mut self, raw: &RawEvent<'_>, position: u64) {
        assert!(self.buffer.is_empty(), "ours: each event is taken into an empty buffer");
        self.buffer.extend_from_slice(raw.bytes());
        let end = position + raw.bytes().len() as u64;
        if raw.header().next_position != end as u32 {
            move_event(&mut self.buffer, raw.checksum(), NextPosition::FromStart(position));
        }
    }
}
