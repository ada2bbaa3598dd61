//! Events appended to the store, but not yet written to its file. Statistics count them once they are written.

use std::collections::VecDeque;
use std::sync::Arc;

use binlog::{EventChecksum, EventFormat, RawEvent};

/// Events that wait to be written, in order. The store's buffer limits their number.
#[derive(Debug, Default)]
pub(crate) struct PendingEvents {
    events: VecDeque<PendingEvent>,
    /// Bytes of the events.
    bytes: Vec<u8>,
    /// Format of the last event.
    format: Option<Arc<EventFormat>>,
}

#[derive(Debug)]
struct PendingEvent {
    size: usize,
    checksum: EventChecksum,
    format: Option<Arc<EventFormat>>,
    position: u64,
    /// End position in the store's log.
    end: u64,
}

impl PendingEvents {
    /// Adds an event that starts at `position` in the source's log, and ends at `end` in the store's.
    pub(crate) fn push(
        &mut self,
        event: &RawEvent<'_>,
        position: u64,
        format: Option<&EventFormat>,
        end: u64,
    ) {
        if self.format.as_deref() != format {
            self.format = format.cloned().map(Arc::new);
        }
        assert!(
            self.events.back().is_none_or(|last| last.end < end),
            "ours: events follow each other in the store's log"
        );
        self.bytes.extend_from_slice(event.bytes());
        let (size, format) = (event.bytes().len(), self.format.clone());
        self.events.push_back(PendingEvent { size, checksum: event.checksum(), format, position, end });
    }

    /// Passes the events that end at or before `written` in the store's log to `count`. Returns the end of the last
    /// such event; `None` if there is no such event.
    pub(crate) fn take_until(
        &mut self,
        written: u64,
        mut count: impl FnMut(&RawEvent<'_>, u64, Option<&EventFormat>),
    ) -> Option<u64> {
        let (mut counted, mut end) = (0, None);
        while self.ends_at(written)
            && let Some(first) = self.events.pop_front()
        {
            assert!(counted + first.size <= self.bytes.len(), "ours: each event has all its bytes");
            let bytes = &self.bytes[counted..][..first.size];
            let event = RawEvent::new(bytes, first.checksum).expect("ours: the received bytes were an event");
            count(&event, first.position, first.format.as_deref());
            counted += first.size;
            end = Some(first.end);
        }
        self.bytes.drain(..counted);
        assert!(self.events.is_empty() == self.bytes.is_empty(), "ours: each event has bytes");
        end
    }

    /// Returns whether the first event ends at or before `written`.
    pub(crate) fn ends_at(&self, written: u64) -> bool {
        self.events.front().is_some_and(|first| first.end <= written)
    }

    /// Removes all events; the source sends them again.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use logs::{LogReader, ReadOutcome};

    use super::PendingEvents;

    #[test]
    fn events_count_when_they_are_written() {
        let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/gtids/binlog.000001");
        let mut reader = LogReader::open(log).unwrap();
        let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20).unwrap() else {
            panic!("the log has no events")
        };
        let mut unwritten = PendingEvents::default();
        let mut ends = Vec::new();
        for event in chunk.iter() {
            let end = event.offset + event.raw.bytes().len() as u64;
            unwritten.push(&event.raw, event.offset, Some(chunk.format()), end);
            ends.push(end);
        }
        let mut check = |written, expected: &[u64]| {
            let mut counted = Vec::new();
            let end = unwritten.take_until(written, |event, position, format| {
                assert_eq!(format, Some(&**chunk.format()));
                counted.push(position + event.bytes().len() as u64);
            });
            assert_eq!((counted.as_slice(), end), (expected, expected.last().copied()), "{written}");
        };
        check(ends[0] - 1, &[]);
        check(ends[1] + 1, &ends[..2]);
        check(ends[1] + 1, &[]);
        check(ends[4], &ends[2..5]);
        unwritten.clear();
        let none = unwritten.take_until(u64::MAX, |_, _, _| panic!("discarded events are sent again"));
        assert!(none.is_none() && !unwritten.ends_at(u64::MAX));
    }
}
