//! Counts logs: one thread reads in order, worker threads count, and the results are merged in order.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::Event;
use binlog::gtid::GtidSet;
use jiff::tz::TimeZone;
use logs::ordered::{ItemSender, PipelineLimits, run_ordered};
use logs::{EndOfLog, EventChunk, EventWalk, LogReader, PayloadFailure, PieceSizes, WalkPiece};

use super::breakdown::BreakdownKind;
use super::chunk_counter::{self, CountError};
use super::log_time::LogTime;
use super::report::{GtidReport, LogEnd, LogStats, StatsReport};
use super::stats_selection::StatsSelection;
use super::stats_tally::{ChunkTally, ContinuedTransaction};
use crate::error::InspectError;
use crate::log_pieces::{OnDamage, PIECE_SIZES, PieceContent, PieceEvents, read_pieces};

/// Maximum bytes of pieces that wait to be counted.
const WAITING_SIZE_MAX: usize = 16 << 20;

/// Settings of one count.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StatsSettings {
    /// Number of largest and of longest transactions to report.
    pub top: usize,
    /// Selection of the transactions and tables to count.
    pub selection: StatsSelection,
    /// Properties by which changes are counted.
    pub breakdowns: Arc<[BreakdownKind]>,
    /// Time zone of the hours.
    pub zone: TimeZone,
    /// Treatment of the checksums of events.
    pub checksums: ChecksumVerification,
}

/// Treatment of the checksums of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumVerification {
    /// A wrong checksum is an error.
    Verify,
    /// Checksums are not read. This is faster.
    Skip,
}

impl StatsSettings {
    /// Returns settings that count all logs, skip checksums, and report this number of largest and longest
    /// transactions.
    pub fn new(top: usize) -> Self {
        let (selection, breakdowns) = (StatsSelection::default(), Arc::default());
        Self { top, selection, breakdowns, zone: TimeZone::UTC, checksums: ChecksumVerification::Skip }
    }
}

/// Counts logs, in the order given. Calls `on_progress` with the bytes counted so far. If `on_progress` breaks, returns
/// [`InspectError::Stopped`].
///
/// # Errors
///
/// Fails if a log cannot be read or decoded. An open or torn end of a log is no error, but part of the report.
pub fn collect(
    readers: impl IntoIterator<Item = Result<LogReader, logs::LogError>, IntoIter: Send>,
    settings: &StatsSettings,
    on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<StatsReport, InspectError> {
    collect_in_pieces(readers, settings, PIECE_SIZES, on_progress)
}

fn collect_in_pieces(
    readers: impl IntoIterator<Item = Result<LogReader, logs::LogError>, IntoIter: Send>,
    settings: &StatsSettings,
    sizes: PieceSizes,
    on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<StatsReport, InspectError> {
    let readers = readers.into_iter();
    let mut whole = ChunkTally::new(settings);
    let mut seen = ReadSummary::default();
    let mut bytes_done = 0;
    run_ordered(
        PipelineLimits::with_bytes(WAITING_SIZE_MAX),
        |feed: &ItemSender<'_, CountTask>| read(readers, sizes, &mut seen, feed),
        EventWalk::default,
        |walk, piece, sender| {
            let part = count(&piece, settings, walk)?;
            // A part holds some thousand counters, independent of the size of its piece.
            sender.push((part, bytes_of(&piece.work)), PART_COST).map_err(InspectError::from)
        },
        |(part, bytes)| {
            whole.join(part);
            bytes_done += bytes;
            match on_progress(bytes_done) {
                ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
                ControlFlow::Break(()) => Err(InspectError::Stopped),
            }
        },
    )?;
    let mut gtids = gtids(&mut whole, seen.previous);
    if !settings.selection.selects_all() {
        // Transactions that are not selected are no gaps.
        gtids.gaps.clear();
    }
    Ok(StatsReport::new(&whole.tally, seen.logs, gtids, settings))
}

fn gtids(whole: &mut ChunkTally, previous: Option<GtidSet>) -> GtidReport {
    let set = std::mem::take(&mut whole.tally.gtids).into_set();
    let domains: Vec<String> = whole.tally.domains.values().map(ToString::to_string).collect();
    let gaps = previous.as_ref().map_or_else(|| set.gaps(), |previous| previous.union(&set).gaps());
    GtidReport {
        set: set.to_string(),
        domains: domains.join(","),
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

fn count(
    piece: &CountTask,
    settings: &StatsSettings,
    walk: &mut EventWalk,
) -> Result<ChunkTally, InspectError> {
    let counted = match &piece.work {
        PieceContent::Events(events) => chunk_counter::count_events(events, settings, walk),
        PieceContent::LogEnd { .. } => {
            Ok(ChunkTally { head: Some(ContinuedTransaction::Lost), ..ChunkTally::new(settings) })
        }
        PieceContent::LogStart { .. } | PieceContent::Unreadable { .. } => Ok(ChunkTally::new(settings)),
    };
    counted.map_err(|CountError { offset, cause }| {
        let name = piece.name.to_string();
        match cause {
            PayloadFailure::Event(error) => InspectError::Event { name, offset, error },
            PayloadFailure::Payload(error) => InspectError::Payload { name, offset, error },
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
    sizes: PieceSizes,
    seen: &mut ReadSummary,
    feed: &ItemSender<'_, CountTask>,
) -> Result<(), InspectError> {
    let mut log = 0;
    for reader in readers {
        let reader = reader?;
        let name: Arc<str> = reader.name().into();
        log = read_pieces(reader, log, sizes, OnDamage::Stop, &mut |work, bytes| {
            seen.record(&work);
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
    fn record(&mut self, work: &PieceContent) {
        if let PieceContent::LogStart { name } = work {
            self.logs.push(LogStats { name: name.to_string(), ..LogStats::default() });
        }
        let is_first = self.logs.len() == 1;
        let Some(log) = self.logs.last_mut() else { return };
        match work {
            PieceContent::Events(events) => match &events.piece {
                WalkPiece::Chunk(chunk) => {
                    log.bytes = chunk.end();
                    let first = || chunk.get(0).map(|event| event.raw.header().timestamp);
                    log.begun = log.begun.or_else(|| Some(LogTime(u64::from(first()?) * 1_000_000)));
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

/// Number of events to search. Only a format description precedes the previous GTIDs and, in relay logs, a few
/// artificial events.
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
    use sql::{TablePattern, TableSelection};

    use super::{StatsSettings, collect_in_pieces};
    use crate::error::InspectError;
    use crate::log_pieces::PIECE_SIZES;
    use crate::stats::{BreakdownKind, StatsReport, StatsSelection, StatsTotals};

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

    fn collect(paths: &[PathBuf], sizes: PieceSizes) -> Result<StatsReport, InspectError> {
        collect_with(paths, sizes, &StatsSettings::new(5))
    }

    fn collect_with(
        paths: &[PathBuf],
        sizes: PieceSizes,
        settings: &StatsSettings,
    ) -> Result<StatsReport, InspectError> {
        collect_in_pieces(paths.iter().map(LogReader::open), settings, sizes, &mut |_| {
            ControlFlow::Continue(())
        })
    }

    const BREAKDOWNS: [BreakdownKind; 5] = [
        BreakdownKind::Minute,
        BreakdownKind::Hour,
        BreakdownKind::Table,
        BreakdownKind::Account,
        BreakdownKind::Statement,
    ];

    fn broken_down() -> StatsSettings {
        StatsSettings { breakdowns: BREAKDOWNS.into(), ..StatsSettings::new(5) }
    }

    fn as_json(report: &StatsReport) -> String {
        serde_json::to_string(report).expect("not JSON")
    }

    #[test]
    fn chunk_sizes_do_not_change_selections_and_breakdowns() {
        let all_sizes = [(1, usize::MAX), (500, usize::MAX), (1, 0), (500, 0)];
        for sample in &samples() {
            let paths = std::slice::from_ref(sample);
            let all = collect(paths, PIECE_SIZES).expect("no report");
            let mut selections = vec![StatsSelection::default()];
            if let Some(span) = all.span {
                let middle_us = u64::midpoint(span.first.0, span.last.0) + 1;
                selections.push(StatsSelection { start_us: Some(middle_us), ..Default::default() });
                selections.push(StatsSelection { stop_us: Some(middle_us), ..Default::default() });
            }
            if let Some(table) = all.tables.first() {
                let patterns =
                    vec![TablePattern::new(format!("{}.{}", table.database, table.table).as_bytes())];
                let tables = TableSelection { database: None, patterns };
                selections.push(StatsSelection { tables, ..Default::default() });
            }
            for selection in selections {
                let settings = StatsSettings { selection, ..broken_down() };
                let expected = as_json(&collect_with(paths, PIECE_SIZES, &settings).expect("no report"));
                for (chunk_size, large_size) in all_sizes {
                    let sizes = PieceSizes { chunk_size, large_size };
                    let found = as_json(&collect_with(paths, sizes, &settings).expect("no report"));
                    assert_eq!(found, expected, "{} cut as {sizes:?}", sample.display());
                }
            }
        }
    }

    #[test]
    fn two_time_ranges_add_up_to_the_whole_report() {
        for sample in &samples() {
            let paths = std::slice::from_ref(sample);
            let all = collect(paths, PIECE_SIZES).expect("no report");
            let Some(span) = all.span else { continue };
            let middle_us = Some(u64::midpoint(span.first.0, span.last.0) + 1);
            let half = |start_us, stop_us| {
                let selection = StatsSelection { start_us, stop_us, ..Default::default() };
                let settings = StatsSettings { selection, ..StatsSettings::new(5) };
                collect_with(paths, PIECE_SIZES, &settings).expect("no report").totals
            };
            let (before, after) = (half(None, middle_us), half(middle_us, None));
            let figures = |totals: &StatsTotals| {
                let rows = totals.changes.total();
                [totals.transactions, totals.bytes_uncompressed, totals.statements, rows.rows, rows.bytes]
            };
            let sum: Vec<u64> =
                figures(&before).iter().zip(figures(&after)).map(|(one, other)| one + other).collect();
            assert_eq!(sum, figures(&all.totals), "{}", sample.display());
        }
    }

    #[test]
    fn breakdowns_have_all_rows() {
        for sample in &samples() {
            let report = collect_with(std::slice::from_ref(sample), PIECE_SIZES, &broken_down());
            let report = report.expect("no report");
            assert_eq!(report.by.len(), BREAKDOWNS.len());
            for breakdown in &report.by {
                let groups = breakdown.groups.iter().map(|group| group.counts.rows()).sum::<u64>();
                let rest = breakdown.without_text.map_or(0, |counts| counts.rows());
                let expected = report.totals.changes.total().rows;
                let found = groups + rest;
                // An incomplete transaction has no commit, so it is in no group of transactions.
                let has_all = matches!(breakdown.by, BreakdownKind::Table | BreakdownKind::Statement)
                    || report.totals.transactions_incomplete == 0;
                let is_right = if has_all { found == expected } else { found < expected };
                assert!(is_right, "{} by {:?}: {found}, {expected}", sample.display(), breakdown.by);
            }
        }
    }

    #[test]
    fn chunk_sizes_do_not_change_the_report() {
        let samples = samples();
        for sample in &samples {
            let paths = std::slice::from_ref(sample);
            let expected =
                serde_json::to_string(&collect(paths, PIECE_SIZES).expect("no report")).expect("not JSON");
            for (chunk_size, large_size) in
                [(1, usize::MAX), (500, usize::MAX), (1, 0), (500, 0), (1 << 20, 0)]
            {
                let sizes = PieceSizes { chunk_size, large_size };
                let found =
                    serde_json::to_string(&collect(paths, sizes).expect("no report")).expect("not JSON");
                assert_eq!(found, expected, "{} cut as {sizes:?}", sample.display());
            }
        }
        let expected = collect(&samples, PIECE_SIZES).expect("no report");
        let found = collect(&samples, PieceSizes { chunk_size: 1, large_size: 0 }).expect("no report");
        assert_eq!(
            serde_json::to_string(&found).expect("not JSON"),
            serde_json::to_string(&expected).expect("not JSON"),
            "all logs together"
        );
    }

    #[test]
    fn monitors_can_stop_the_count() {
        let outcome = collect_in_pieces(
            samples().iter().map(LogReader::open),
            &StatsSettings::new(0),
            PieceSizes { chunk_size: 1, large_size: 0 },
            &mut |_| ControlFlow::Break(()),
        );
        assert!(matches!(outcome, Err(InspectError::Stopped)));
    }
}
