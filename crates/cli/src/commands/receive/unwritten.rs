//! Events that were appended to the store but are not in its file yet. They count once they are written.

use std::collections::VecDeque;
use std::sync::Arc;

use binlog::{Checksum, Format, RawEvent};

/// Events that wait to be written, in order. The store's buffer limits their number.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    events: VecDeque<One>,
    /// Their bytes.
    bytes: Vec<u8>,
    /// Format of the last event.
    format: Option<Arc<Format>>,
}

#[derive(Debug)]
struct One {
    size: usize,
    checksum: Checksum,
    format: Option<Arc<Format>>,
    position: u64,
    /// End position in the store's log.
    end: u64,
}

impl Unwritten {
    /// Adds an event that starts at `position` in the source's log, and ends at `end` in the store's.
    pub(super) fn push(&mut self, event: &RawEvent<'_>, position: u64, format: Option<&Format>, end: u64) {
        if self.format.as_deref() != format {
            self.format = format.cloned().map(Arc::new);
        }
        self.bytes.extend_from_slice(event.bytes());
        let (size, format) = (event.bytes().len(), self.format.clone());
        self.events.push_back(One { size, checksum: event.checksum(), format, position, end });
    }

    /// Passes the events that end at or before `written` in the store's log to `count`. Returns true if there are
    /// any.
    pub(super) fn take_until(
        &mut self,
        written: u64,
        mut count: impl FnMut(&RawEvent<'_>, u64, Option<&Format>),
    ) -> bool {
        let mut counted = 0;
        while self.ends_at(written)
            && let Some(first) = self.events.pop_front()
        {
            let bytes = &self.bytes[counted..][..first.size];
            let event = RawEvent::new(bytes, first.checksum).expect("ours: it was an event when it came");
            count(&event, first.position, first.format.as_deref());
            counted += first.size;
        }
        self.bytes.drain(..counted);
        counted > 0
    }

    /// Tells whether the first event ends at or before `written`.
    pub(super) fn ends_at(&self, written: u64) -> bool {
        self.events.front().is_some_and(|first| first.end <= written)
    }

    /// Removes all events; the source sends them again.
    pub(super) fn forget(&mut self) {
        self.events.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use logs::{LogReader, Next};

    use super::Unwritten;

    #[test]
    fn events_count_once_they_are_written_and_not_before() {
        let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/gtids/binlog.000001");
        let mut reader = LogReader::open(log).unwrap();
        let Next::Some(chunk) = reader.next_chunk(1 << 20).unwrap() else { panic!("a log has events") };
        let mut unwritten = Unwritten::default();
        let mut ends = Vec::new();
        for event in chunk.iter() {
            let end = event.offset + event.raw.bytes().len() as u64;
            unwritten.push(&event.raw, event.offset, Some(chunk.format()), end);
            ends.push(end);
        }
        let mut check = |written, wanted: &[u64]| {
            let mut counted = Vec::new();
            let some = unwritten.take_until(written, |event, position, format| {
                assert_eq!(format, Some(&**chunk.format()));
                counted.push(position + event.bytes().len() as u64);
            });
            assert_eq!((counted.as_slice(), some), (wanted, !wanted.is_empty()), "{written}");
        };
        check(ends[0] - 1, &[]);
        check(ends[1] + 1, &ends[..2]);
        check(ends[1] + 1, &[]);
        check(ends[4], &ends[2..5]);
        unwritten.forget();
        let none = unwritten.take_until(u64::MAX, |_, _, _| panic!("those come again"));
        assert!(!none && !unwritten.ends_at(u64::MAX));
    }
}
