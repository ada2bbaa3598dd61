//! Counts logs, one after the other: read by one thread, counted by all others, joined in order.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::gtid::GtidSet;
use binlog::{Event, PayloadOpener};
use logs::ordered::{Bounds, Feed, ordered};
use logs::{Chunk, End, LogReader, Next};

use super::carry::Carry;
use super::counter::{Cause, Origin, Stopped, count};
use super::report::{GtidReport, LogEnd, LogReport, Report};
use super::tally::Part;
use crate::error::Error;

/// Bytes handed to a worker at once: enough to keep it busy, little enough to hold several.
const CHUNK_SIZE: usize = 1 << 20;

/// Chunks waiting to be counted, in bytes.
const WAITING_SIZE_MAX: usize = 16 << 20;

/// How to count.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many of the largest and of the longest transactions to name.
    pub top: usize,
}

/// Counts logs, in the order given. `watch` learns from time to time how many bytes of them are counted; when it
/// breaks, counting stops with [`Error::Stopped`].
///
/// # Errors
///
/// When a log cannot be read or decoded. How a log ends is no error, and is in the report.
pub fn collect(
    readers: impl IntoIterator<Item = Result<LogReader, logs::Error>, IntoIter: Send>,
    settings: Settings,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Report, Error> {
    collect_chunked(readers, settings, CHUNK_SIZE, watch)
}

fn collect_chunked(
    readers: impl IntoIterator<Item = Result<LogReader, logs::Error>, IntoIter: Send>,
    settings: Settings,
    chunk_size: usize,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Report, Error> {
    let readers = readers.into_iter();
    let mut whole = Part::new(settings.top);
    let mut seen = Seen::default();
    let mut bytes_done = 0;
    ordered(
        Bounds::with_bytes(WAITING_SIZE_MAX),
        |feed: &Feed<'_, Piece>| read(readers, chunk_size, &mut seen, feed),
        PayloadOpener::new,
        |opener, piece, outlet| {
            let part = piece.count(settings.top, opener)?;
            // A part holds some thousand counters, whatever it counted.
            outlet.push((part, piece.chunk.bytes().len() as u64), PART_SIZE).map_err(Error::from)
        },
        |(part, bytes)| {
            whole.join(part);
            bytes_done += bytes;
            match watch(bytes_done) {
                ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
                ControlFlow::Break(()) => Err(Error::Stopped),
            }
        },
    )?;
    // Nothing follows that could end it.
    whole.tally.incomplete += u64::from(whole.tail.is_some());
    let gtids = gtids(&mut whole, seen.previous);
    Ok(Report::new(&whole.tally, seen.logs, gtids))
}

fn gtids(whole: &mut Part, previous: Option<GtidSet>) -> GtidReport {
    let set = std::mem::take(&mut whole.tally.gtids).into_set();
    let gaps = previous.as_ref().map_or_else(|| set.gaps(), |previous| previous.union(&set).gaps());
    GtidReport {
        set: set.to_string(),
        previous: previous.map(|previous| previous.to_string()),
        gaps: gaps.to_string(),
        anonymous: whole.tally.anonymous,
    }
}

/// What a part takes, roughly, in bytes.
const PART_SIZE: usize = 64 << 10;

/// What the reading thread sees.
#[derive(Default)]
struct Seen {
    logs: Vec<LogReport>,
    /// What the first log says came before it.
    previous: Option<GtidSet>,
}

/// One chunk, and what is needed to count it.
struct Piece {
    chunk: Chunk,
    carry: Carry,
    origin: Origin,
    name: Arc<str>,
}

impl Piece {
    fn count(&self, top: usize, opener: &mut PayloadOpener) -> Result<Part, Error> {
        count(&self.chunk, &self.carry, self.origin, top, opener).map_err(|Stopped { offset, cause }| {
            let name = self.name.to_string();
            match cause {
                Cause::Event(error) => Error::Event { name, offset, error },
                Cause::Payload(error) => Error::Payload { name, offset, error },
            }
        })
    }
}

fn read(
    readers: impl Iterator<Item = Result<LogReader, logs::Error>>,
    chunk_size: usize,
    seen: &mut Seen,
    feed: &Feed<'_, Piece>,
) -> Result<(), Error> {
    let mut carry = Carry::default();
    for reader in readers {
        let mut reader = reader?;
        let name: Arc<str> = reader.name().into();
        let first = seen.logs.len();
        let end = loop {
            let chunk = match reader.next_chunk(chunk_size)? {
                Next::Some(chunk) => chunk,
                Next::End(end) => break end,
            };
            let number = first + chunk.log_number() as usize;
            if number >= seen.logs.len() {
                seen.logs.push(describe(&name, &chunk));
            }
            if number == 0 && seen.previous.is_none() {
                seen.previous = previous_gtids(&chunk);
            }
            seen.logs[number].bytes = chunk.end();
            let after = carry.clone().behind(&chunk);
            let origin = Origin { file: number as u32, kind: reader.kind() };
            let bytes = chunk.bytes().len();
            feed.push(Piece { chunk, carry, origin, name: Arc::clone(&name) }, bytes)?;
            carry = after;
        };
        if seen.logs.len() == first {
            // Not even a first event.
            seen.logs.push(LogReport { name: name.to_string(), ..LogReport::default() });
        }
        if let Some(report) = seen.logs.last_mut() {
            report.end = end_of(end);
        }
    }
    Ok(())
}

/// What a log's first chunk says of it.
fn describe(name: &str, chunk: &Chunk) -> LogReport {
    let version = &chunk.format().server_version;
    LogReport {
        name: name.to_owned(),
        server_version: String::from_utf8_lossy(version).into_owned(),
        ..LogReport::default()
    }
}

/// Stands near the log's start, if at all.
fn previous_gtids(chunk: &Chunk) -> Option<GtidSet> {
    let found = chunk.iter().take(PREVIOUS_WITHIN).find_map(|event| match event.raw.decode(chunk.format()) {
        Ok(Event::PreviousGtids(previous)) => Some(previous),
        _ => None,
    });
    found.and_then(|previous| GtidSet::decode(previous.set).ok())
}

/// Only a format description stands before the previous GTIDs, and in relay logs a few made-up events more.
const PREVIOUS_WITHIN: usize = 8;

fn end_of(end: End) -> LogEnd {
    match end {
        End::Closed => LogEnd::Closed,
        End::Open { in_use } => LogEnd::Open { in_use },
        End::Torn(torn) => {
            LogEnd::Torn { offset: torn.offset, bytes: torn.found as u64, in_use: torn.in_use }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::ControlFlow;
    use std::path::{Path, PathBuf};

    use logs::LogReader;

    use super::{CHUNK_SIZE, Settings, collect_chunked};
    use crate::error::Error;
    use crate::stats::Report;

    fn samples() -> Vec<PathBuf> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
        let mut samples: Vec<PathBuf> = fs::read_dir(directory)
            .expect("samples")
            .map(|entry| entry.expect("a sample").path())
            .filter(|path| path.extension().is_some_and(|it| it == "binlog"))
            .collect();
        samples.sort();
        assert!(samples.len() > 20);
        samples
    }

    fn collect(paths: &[PathBuf], chunk_size: usize) -> Result<Report, Error> {
        let readers = paths.iter().map(LogReader::open);
        collect_chunked(readers, Settings { top: 5 }, chunk_size, &mut |_| ControlFlow::Continue(()))
    }

    #[test]
    fn the_cut_into_chunks_does_not_show() {
        let samples = samples();
        for sample in &samples {
            let paths = std::slice::from_ref(sample);
            let wanted = serde_json::to_string(&collect(paths, CHUNK_SIZE).expect("a report")).expect("JSON");
            for size in [1, 500] {
                let found = serde_json::to_string(&collect(paths, size).expect("a report")).expect("JSON");
                assert_eq!(found, wanted, "{} in chunks of {size} bytes", sample.display());
            }
        }
        let wanted = collect(&samples, CHUNK_SIZE).expect("a report");
        let found = collect(&samples, 1).expect("a report");
        assert_eq!(
            serde_json::to_string(&found).expect("JSON"),
            serde_json::to_string(&wanted).expect("JSON"),
            "all logs one after the other"
        );
    }

    #[test]
    fn whoever_watches_can_stop_it() {
        let outcome =
            collect_chunked(samples().iter().map(LogReader::open), Settings { top: 0 }, 1, &mut |_| {
                ControlFlow::Break(())
            });
        assert!(matches!(outcome, Err(Error::Stopped)));
    }
}
