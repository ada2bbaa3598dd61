//! Counts logs: one thread reads them in order, the others count, and the results are merged in order.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::Event;
use binlog::gtid::GtidSet;
use logs::ordered::{ItemSender, PipelineLimits, run_ordered};
use logs::{EndOfLog, EventChunk, EventWalk, LogReader, PieceSizes, WalkPiece};

use super::chunk_counter::{self, CountError, CountErrorKind};
use super::report::{GtidReport, LogEnd, LogStats, StatsReport};
use super::stats_tally::{ChunkTally, ContinuedTransaction};
use crate::error::InspectError;
use crate::log_pieces::{OnDamage, PIECE_SIZES, PieceContent, PieceEvents, read_pieces};

/// Maximum bytes of pieces that wait to be counted.
const WAITING_SIZE_MAX: usize = 16 << 20;

/// Settings of one count.
#[derive(Clone, Copy, Debug)]
pub struct StatsSettings {
    /// Number of largest and of longest transactions to report.
    pub top: usize,
}

/// Counts logs, in the order given. `watch` is called with the bytes counted so far; if it breaks, counting stops with
/// [`InspectError::Stopped`].
///
/// # Errors
///
/// A log cannot be read or decoded. An open or torn end of a log is no error, but part of the report.
pub fn collect(
    readers: impl IntoIterator<Item = Result<LogReader, logs::LogError>, IntoIter: Send>,
    settings: StatsSettings,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<StatsReport, InspectError> {
    collect_cut(readers, settings, PIECE_SIZES, watch)
}

fn collect_cut(
    readers: impl IntoIterator<Item = Result<LogReader, logs::LogError>, IntoIter: Send>,
    settings: StatsSettings,
    cut: PieceSizes,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<StatsReport, InspectError> {
    let readers = readers.into_iter();
    let mut whole = ChunkTally::new(settings.top);
    let mut seen = ReadSummary::default();
    let mut bytes_done = 0;
    run_ordered(
        PipelineLimits::with_bytes(WAITING_SIZE_MAX),
        |feed: &ItemSender<'_, CountTask>| read(readers, cut, &mut seen, feed),
        EventWalk::default,
        |walk, piece, sender| {
            let part = count(&piece, settings.top, walk)?;
            // A part holds some thousand counters, independent of the size of its piece.
            sender.push((part, bytes_of(&piece.work)), PART_COST).map_err(InspectError::from)
        },
        |(part, bytes)| {
            whole.join(part);
            bytes_done += bytes;
            match watch(bytes_done) {
                ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
                ControlFlow::Break(()) => Err(InspectError::Stopped),
            }
        },
    )?;
    let gtids = gtids(&mut whole, seen.previous);
    Ok(StatsReport::new(&whole.tally, seen.logs, gtids))
}

fn gtids(whole: &mut ChunkTally, previous: Option<GtidSet>) -> GtidReport {
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
const PART_COST: usize = 64 << 10;

/// Results of the reading thread.
#[derive(Default)]
struct ReadSummary {
    logs: Vec<LogStats>,
    /// Previous GTIDs of the first log.
    previous: Option<GtidSet>,
}

/// A piece to be counted, and the name of its log.
struct CountTask {
    work: PieceContent,
    name: Arc<str>,
}

fn count(piece: &CountTask, top: usize, walk: &mut EventWalk) -> Result<ChunkTally, InspectError> {
    let counted = match &piece.work {
        PieceContent::Events(events) => chunk_counter::count_events(events, top, walk),
        PieceContent::LogEnd { .. } => {
            Ok(ChunkTally { head: Some(ContinuedTransaction::Lost), ..ChunkTally::new(top) })
        }
        PieceContent::LogStart { .. } | PieceContent::Unreadable { .. } => Ok(ChunkTally::new(top)),
    };
    counted.map_err(|CountError { offset, cause }| {
        let name = piece.name.to_string();
        match cause {
            CountErrorKind::Event(error) => InspectError::Event { name, offset, error },
            CountErrorKind::Payload(error) => InspectError::Payload { name, offset, error },
        }
    })
}

/// Returns the bytes of the log in this piece.
fn bytes_of(work: &PieceContent) -> u64 {
    match work {
        PieceContent::Events(events) => match &events.piece {
            WalkPiece::Chunk(chunk) => chunk.bytes().len() as u64,
            WalkPiece::PayloadEnd { head, .. } => u64::from(head.header.size),
            WalkPiece::PayloadStart(_) | WalkPiece::PayloadPart(_) => 0,
        },
        PieceContent::LogStart { .. } | PieceContent::Unreadable { .. } | PieceContent::LogEnd { .. } => 0,
    }
}

fn read(
    readers: impl Iterator<Item = Result<LogReader, logs::LogError>>,
    cut: PieceSizes,
    seen: &mut ReadSummary,
    feed: &ItemSender<'_, CountTask>,
) -> Result<(), InspectError> {
    let mut log = 0;
    for reader in readers {
        let reader = reader?;
        let name: Arc<str> = reader.name().into();
        log = read_pieces(reader, log, cut, OnDamage::Stop, &mut |work, bytes| {
            seen.note(&work);
            match work {
                PieceContent::LogStart { .. } => Ok(()),
                PieceContent::Unreadable { error, .. } => Err(InspectError::Log(error)),
                PieceContent::Events(PieceEvents {
                    piece: WalkPiece::PayloadEnd { end: Err(error), .. },
                    ..
                }) => Err(InspectError::Log(error)),
                work => Ok(feed.push(CountTask { work, name: Arc::clone(&name) }, bytes)?),
            }
        })?;
    }
    Ok(())
}

impl ReadSummary {
    fn note(&mut self, work: &PieceContent) {
        if let PieceContent::LogStart { name } = work {
            self.logs.push(LogStats { name: name.to_string(), ..LogStats::default() });
        }
        let is_first = self.logs.len() == 1;
        let Some(log) = self.logs.last_mut() else { return };
        match work {
            PieceContent::Events(events) => match &events.piece {
                WalkPiece::Chunk(chunk) => {
                    log.bytes = chunk.end();
                    if log.server_version.is_empty() {
                        let version = String::from_utf8_lossy(&chunk.format().server_version);
                        log.server_version = version.into_owned();
                    }
                    if is_first && self.previous.is_none() {
                        self.previous = previous_gtids(chunk);
                    }
                }
                WalkPiece::PayloadEnd { head, .. } => log.bytes = head.end(),
                WalkPiece::PayloadStart(_) | WalkPiece::PayloadPart(_) => {}
            },
            PieceContent::LogEnd { end, .. } => log.end = end_of(*end),
            PieceContent::LogStart { .. } | PieceContent::Unreadable { .. } => {}
        }
    }
}

/// Finds the previous GTIDs, near the start of the log.
fn previous_gtids(chunk: &EventChunk) -> Option<GtidSet> {
    let found = chunk.iter().take(PREVIOUS_GTIDS_EVENTS_MAX).find_map(|event| {
        match event.raw.decode(chunk.format()) {
            Ok(Event::PreviousGtids(previous)) => Some(previous),
            _ => None,
        }
    });
    found.and_then(|previous| GtidSet::decode(previous.set).ok())
}

/// Number of events to search. In front of the previous GTIDs, there is only a format description, and in relay logs a
/// few artificial events.
const PREVIOUS_GTIDS_EVENTS_MAX: usize = 8;

fn end_of(end: EndOfLog) -> LogEnd {
    match end {
        EndOfLog::Closed => LogEnd::Closed,
        EndOfLog::Open { in_use } => LogEnd::Open { in_use },
        EndOfLog::Torn(torn) => {
            LogEnd::Torn { offset: torn.offset, bytes: torn.found as u64, in_use: torn.in_use }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::ControlFlow;
    use std::path::{Path, PathBuf};

    use logs::{LogReader, PieceSizes};

    use super::{StatsSettings, collect_cut};
    use crate::error::InspectError;
    use crate::log_pieces::PIECE_SIZES;
    use crate::stats::StatsReport;

    fn samples() -> Vec<PathBuf> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
        let mut samples: Vec<PathBuf> = fs::read_dir(directory)
            .expect("could not read the samples")
            .map(|entry| entry.expect("could not read the sample").path())
            .filter(|path| path.extension().is_some_and(|it| it == "binlog"))
            .collect();
        samples.sort();
        assert!(samples.len() > 20);
        samples
    }

    fn collect(paths: &[PathBuf], cut: PieceSizes) -> Result<StatsReport, InspectError> {
        let readers = paths.iter().map(LogReader::open);
        collect_cut(readers, StatsSettings { top: 5 }, cut, &mut |_| ControlFlow::Continue(()))
    }

    #[test]
    fn chunk_sizes_do_not_change_the_report() {
        let samples = samples();
        for sample in &samples {
            let paths = std::slice::from_ref(sample);
            let wanted =
                serde_json::to_string(&collect(paths, PIECE_SIZES).expect("no report")).expect("not JSON");
            for (chunk_size, large_size) in
                [(1, usize::MAX), (500, usize::MAX), (1, 0), (500, 0), (1 << 20, 0)]
            {
                let cut = PieceSizes { chunk_size, large_size };
                let found =
                    serde_json::to_string(&collect(paths, cut).expect("no report")).expect("not JSON");
                assert_eq!(found, wanted, "{} cut as {cut:?}", sample.display());
            }
        }
        let wanted = collect(&samples, PIECE_SIZES).expect("no report");
        let found = collect(&samples, PieceSizes { chunk_size: 1, large_size: 0 }).expect("no report");
        assert_eq!(
            serde_json::to_string(&found).expect("not JSON"),
            serde_json::to_string(&wanted).expect("not JSON"),
            "all logs together"
        );
    }

    #[test]
    fn monitors_can_stop_the_count() {
        let outcome = collect_cut(
            samples().iter().map(LogReader::open),
            StatsSettings { top: 0 },
            PieceSizes { chunk_size: 1, large_size: 0 },
            &mut |_| ControlFlow::Break(()),
        );
        assert!(matches!(outcome, Err(InspectError::Stopped)));
    }
}
