//! Counts logs: one thread reads them in order, the others count, and the results are merged in order.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::gtid::GtidSet;
use binlog::{Event, PayloadOpener};
use logs::ordered::{Bounds, Feed, ordered};
use logs::{Chunk, End, LogReader};

use super::counter::{self, Cause, Stopped};
use super::report::{GtidReport, LogEnd, LogReport, Report};
use super::tally::{Head, Part};
use crate::error::Error;
use crate::walk::{Cut, OnDamage, Work, walk};

/// Maximum bytes of pieces that wait to be counted.
const WAITING_SIZE_MAX: usize = 16 << 20;

/// Settings of one count.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of largest and of longest transactions to report.
    pub top: usize,
}

/// Counts logs, in the order given. `watch` is called with the bytes counted so far; if it breaks, counting stops with
/// [`Error::Stopped`].
///
/// # Errors
///
/// A log cannot be read or decoded. An open or torn end of a log is no error, but part of the report.
pub fn collect(
    readers: impl IntoIterator<Item = Result<LogReader, logs::Error>, IntoIter: Send>,
    settings: Settings,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Report, Error> {
    collect_cut(readers, settings, Cut::USUAL, watch)
}

fn collect_cut(
    readers: impl IntoIterator<Item = Result<LogReader, logs::Error>, IntoIter: Send>,
    settings: Settings,
    cut: Cut,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Report, Error> {
    let readers = readers.into_iter();
    let mut whole = Part::new(settings.top);
    let mut seen = Seen::default();
    let mut bytes_done = 0;
    ordered(
        Bounds::with_bytes(WAITING_SIZE_MAX),
        |feed: &Feed<'_, Piece>| read(readers, cut, &mut seen, feed),
        PayloadOpener::new,
        |opener, piece, outlet| {
            let part = count(&piece, settings.top, opener)?;
            // A part holds some thousand counters, independent of the size of its piece.
            outlet.push((part, bytes_of(&piece.work)), PART_SIZE).map_err(Error::from)
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

/// Approximate size of a part in bytes.
const PART_SIZE: usize = 64 << 10;

/// Results of the reading thread.
#[derive(Default)]
struct Seen {
    logs: Vec<LogReport>,
    /// Previous GTIDs of the first log.
    previous: Option<GtidSet>,
}

/// A piece to be counted, and the name of its log.
struct Piece {
    work: Work,
    name: Arc<str>,
}

fn count(piece: &Piece, top: usize, opener: &mut PayloadOpener) -> Result<Part, Error> {
    let counted = match &piece.work {
        Work::Chunk { origin, chunk, carry } => counter::chunk(chunk, carry, *origin, top, opener),
        Work::Inside(inside) => counter::inside(inside, top),
        Work::PayloadEnds(ends) => Ok(counter::payload_end(ends, top)),
        Work::Ends { .. } => Ok(Part { head: Some(Head::Lost), ..Part::new(top) }),
        Work::Begins { .. } | Work::Broken { .. } => Ok(Part::new(top)),
    };
    counted.map_err(|Stopped { offset, cause }| {
        let name = piece.name.to_string();
        match cause {
            Cause::Event(error) => Error::Event { name, offset, error },
            Cause::Payload(error) => Error::Payload { name, offset, error },
        }
    })
}

/// Returns the bytes of the log in this piece.
fn bytes_of(work: &Work) -> u64 {
    match work {
        Work::Chunk { chunk, .. } => chunk.bytes().len() as u64,
        Work::PayloadEnds(ends) => u64::from(ends.header.size),
        Work::Inside(_) | Work::Begins { .. } | Work::Broken { .. } | Work::Ends { .. } => 0,
    }
}

fn read(
    readers: impl Iterator<Item = Result<LogReader, logs::Error>>,
    cut: Cut,
    seen: &mut Seen,
    feed: &Feed<'_, Piece>,
) -> Result<(), Error> {
    let mut log = 0;
    for reader in readers {
        let reader = reader?;
        let name: Arc<str> = reader.name().into();
        log = walk(reader, log, cut, OnDamage::Stop, &mut |work, bytes| {
            seen.note(&work);
            match work {
                Work::Begins { .. } => Ok(()),
                Work::Broken { error, .. } => Err(Error::Log(error)),
                Work::PayloadEnds(ends) if ends.end.is_err() => match ends.end {
                    Err(error) => Err(Error::Log(error)),
                    Ok(_) => Ok(()),
                },
                work => Ok(feed.push(Piece { work, name: Arc::clone(&name) }, bytes)?),
            }
        })?;
    }
    Ok(())
}

impl Seen {
    fn note(&mut self, work: &Work) {
        if let Work::Begins { name } = work {
            self.logs.push(LogReport { name: name.to_string(), ..LogReport::default() });
        }
        let is_first = self.logs.len() == 1;
        let Some(log) = self.logs.last_mut() else { return };
        match work {
            Work::Chunk { chunk, .. } => {
                log.bytes = chunk.end();
                if log.server_version.is_empty() {
                    log.server_version = String::from_utf8_lossy(&chunk.format().server_version).into_owned();
                }
                if is_first && self.previous.is_none() {
                    self.previous = previous_gtids(chunk);
                }
            }
            Work::PayloadEnds(ends) => log.bytes = ends.offset + u64::from(ends.header.size),
            Work::Ends { end, .. } => log.end = end_of(*end),
            Work::Begins { .. } | Work::Inside(_) | Work::Broken { .. } => {}
        }
    }
}

/// Finds the previous GTIDs, near the start of the log.
fn previous_gtids(chunk: &Chunk) -> Option<GtidSet> {
    let found = chunk.iter().take(PREVIOUS_WITHIN).find_map(|event| match event.raw.decode(chunk.format()) {
        Ok(Event::PreviousGtids(previous)) => Some(previous),
        _ => None,
    });
    found.and_then(|previous| GtidSet::decode(previous.set).ok())
}

/// Number of events to search. In front of the previous GTIDs, there is only a format description, and in relay logs a
/// few artificial events.
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

    use super::{Settings, collect_cut};
    use crate::error::Error;
    use crate::stats::Report;
    use crate::walk::Cut;

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

    fn collect(paths: &[PathBuf], cut: Cut) -> Result<Report, Error> {
        let readers = paths.iter().map(LogReader::open);
        collect_cut(readers, Settings { top: 5 }, cut, &mut |_| ControlFlow::Continue(()))
    }

    #[test]
    fn the_cut_into_chunks_does_not_show() {
        let samples = samples();
        for sample in &samples {
            let paths = std::slice::from_ref(sample);
            let wanted = serde_json::to_string(&collect(paths, Cut::USUAL).expect("a report")).expect("JSON");
            for (chunk_size, large_size) in
                [(1, usize::MAX), (500, usize::MAX), (1, 0), (500, 0), (1 << 20, 0)]
            {
                let cut = Cut { chunk_size, large_size };
                let found = serde_json::to_string(&collect(paths, cut).expect("a report")).expect("JSON");
                assert_eq!(found, wanted, "{} cut as {cut:?}", sample.display());
            }
        }
        let wanted = collect(&samples, Cut::USUAL).expect("a report");
        let found = collect(&samples, Cut { chunk_size: 1, large_size: 0 }).expect("a report");
        assert_eq!(
            serde_json::to_string(&found).expect("JSON"),
            serde_json::to_string(&wanted).expect("JSON"),
            "all logs one after the other"
        );
    }

    #[test]
    fn whoever_watches_can_stop_it() {
        let outcome = collect_cut(
            samples().iter().map(LogReader::open),
            Settings { top: 0 },
            Cut { chunk_size: 1, large_size: 0 },
            &mut |_| ControlFlow::Break(()),
        );
        assert!(matches!(outcome, Err(Error::Stopped)));
    }
}
