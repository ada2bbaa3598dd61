//! Time spans of logs, from their first and last commit, independent of the sample.

use binlog::{Event, EventFormat, EventType, RawEvent};
use logs::{LogPiece, LogReader, ReadOutcome};

use super::LogSource;
use super::pieces::{LogPreview, read_head};

/// Bytes at the end of a log that are searched first.
const TAIL_SIZE: u64 = 256 << 10;

/// Maximum bytes at the end of a log that are searched.
const TAIL_MAX: u64 = 64 << 20;

const CHUNK_SIZE: usize = 256 << 10;

/// Larger payloads are skipped.
const PAYLOAD_MAX: usize = 1 << 20;

/// Returns the first and the last commit of a log, in microseconds since 1970, if both are found quickly. Returns
/// `None` if the log cannot be read: measuring it reports the error.
pub(crate) fn span(source: &LogSource<'_>, preview: &LogPreview) -> Option<(u64, u64)> {
    if !preview.can_seek {
        return None;
    }
    let first = first(source)?;
    let mut back = TAIL_SIZE;
    while back <= TAIL_MAX {
        if let Some(last) = last_within(source, preview, back) {
            return Some((first, last.max(first)));
        }
        back *= 8;
    }
    None
}

fn first(source: &LogSource<'_>) -> Option<u64> {
    let mut reader = (source.open)().ok()?;
    for _ in 0..super::pieces::HEAD_EVENTS {
        let Ok(ReadOutcome::Some(event)) = reader.next_event() else { return None };
        if is_start(event.raw.event_type()) {
            let raw = event.raw.to_buf();
            return commit_us(&raw.as_raw(), reader.format()?);
        }
    }
    None
}

/// Returns the last commit, if its GTID event is in the last `back` bytes.
fn last_within(source: &LogSource<'_>, preview: &LogPreview, back: u64) -> Option<u64> {
    let mut reader = (source.open)().ok()?;
    read_head(&mut reader).ok()?;
    let target = preview.bytes.end.saturating_sub(back);
    if target > reader.position() {
        reader.seek_transaction(target, preview.bytes.end).ok()??;
    } else {
        reader = (source.open)().ok()?;
    }
    last(&mut reader)
}

fn last(reader: &mut LogReader) -> Option<u64> {
    let mut last = None;
    while let Ok(ReadOutcome::Some(piece)) = reader.next_piece(CHUNK_SIZE, PAYLOAD_MAX) {
        let LogPiece::Chunk(chunk) = piece else { continue };
        for event in chunk.iter().filter(|event| is_start(event.raw.event_type())) {
            last = commit_us(&event.raw, chunk.format()).or(last);
        }
    }
    last
}

const fn is_start(event_type: EventType) -> bool {
    matches!(event_type, EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged)
}

fn commit_us(raw: &RawEvent<'_>, format: &EventFormat) -> Option<u64> {
    let stamps = match raw.decode(format).ok()? {
        Event::Gtid(event) | Event::AnonymousGtid(event) => event.stamps,
        Event::GtidTagged(event) => Some(event.stamps),
        _ => return None,
    };
    let stamped = stamps.map(|stamps| stamps.immediate_commit_us).filter(|us| *us > 0);
    stamped.or_else(|| Some(u64::from(raw.header().timestamp) * 1_000_000).filter(|us| *us > 0))
}

/// Returns the time that the logs cover together, in microseconds. Overlaps count once, gaps do not count.
pub(crate) fn covered_us(spans: &[(u64, u64)]) -> u64 {
    let mut spans = spans.to_vec();
    spans.sort_unstable();
    let (mut covered, mut up_to) = (0, 0);
    for (first, last) in spans {
        covered += last.saturating_sub(first.max(up_to));
        up_to = up_to.max(last);
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::covered_us;

    #[test]
    fn gaps_and_overlaps_are_left_out() {
        let check = |spans: &[(u64, u64)], expected| assert_eq!(covered_us(spans), expected, "{spans:?}");
        check(&[], 0);
        check(&[(10, 15)], 5);
        check(&[(10, 15), (15, 18)], 8);
        check(&[(1000, 1003), (10, 15)], 8);
        check(&[(10, 20), (12, 15), (18, 25)], 15);
    }
}
