//! Measures logs, all of them or a sample, and adds up the results.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use binlog::ZstdLevel;
use logs::ordered::{ItemSender, PipelineLimits, run_ordered};

use super::advise_tally::AdviseTally;
use super::alternatives::SampleLimits;
use super::cell_grid::CellGrid;
use super::cpu_time::machine;
use super::level_probe::find_levels;
use super::measure_worker::{ItemContent, LargeCoverage, MeasureItem, MeasureShared, MeasureWorker};
use super::measured_transactions::MeasuredTransactions;
use super::measurement_plan::QUEUE_BYTES_MAX;
use super::pieces::{LogPreview, ReadItem, preview_log, read_all};
use super::record::MeasuredPart;
use super::report::{AdviseReport, ServerReport, StoppedBy};
use super::report_builder::{ReportBuilder, level_setting};
use super::span::span;
use super::{AdviseSettings, LogSource, MeasureExtent, advice_rules, alternatives};
use inspect::InspectError;

/// Bytes of transactions per work item, if whole logs are read.
const ITEM_SIZE: usize = 1 << 20;

/// Width of a cell: some hundred transactions, or some thousand rows of one transaction.
const CELL_WIDTH: u64 = 256 << 10;

/// Bytes that a cell counts as in the queue.
const CELL_COST: usize = 2 << 20;

/// Fraction of the time for measuring transactions. The remaining time is for the alternatives.
const TRANSACTION_TIME_SHARE: f64 = 0.7;

/// Number of work items that supply payloads for the dictionary.
const DICTIONARY_ITEMS: u64 = 96;

/// Measures logs and derives advice. `on_progress` is called with the bytes done so far; if it breaks, measuring stops with
/// [`InspectError::Stopped`].
///
/// # Errors
///
/// Fails if no level is given, if a log cannot be read or decoded, or if a log is from MariaDB. An open or torn end of
/// a log is no error.
pub fn advise(
    sources: &[LogSource<'_>],
    settings: &AdviseSettings,
    on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<AdviseReport, InspectError> {
    let started = Instant::now();
    if settings.levels.is_empty() {
        return Err(InspectError::NoLevel);
    }
    let previews = sources.iter().map(preview_log).collect::<Result<Vec<_>, _>>()?;
    let (base_index, base) = base_level(&settings.levels);
    let bytes: u64 = previews.iter().map(|preview| preview.bytes.end - preview.bytes.start).sum();
    let shared = MeasureShared {
        sources,
        levels: &settings.levels,
        sizes: settings.sizes,
        base,
        base_index,
        coverage: match settings.extent {
            MeasureExtent::All => LargeCoverage::Whole,
            MeasureExtent::Sample { .. } => LargeCoverage::Front(settings.sizes.front),
        },
        sample_stride: match settings.extent {
            MeasureExtent::All => (bytes / ITEM_SIZE as u64 / DICTIONARY_ITEMS).max(1),
            MeasureExtent::Sample { .. } => 1,
        },
        one_large: Mutex::new(()),
        width: CELL_WIDTH,
        known: MeasuredTransactions::default(),
    };
    let run = AdviseRun { shared: &shared, settings, previews: &previews, started, bytes };
    let mut measured = run.measure(on_progress)?;
    run.report(&mut measured, on_progress)
}

struct AdviseRun<'r> {
    shared: &'r MeasureShared<'r>,
    settings: &'r AdviseSettings,
    previews: &'r [LogPreview],
    started: Instant,
    /// Bytes of all events in the logs.
    bytes: u64,
}

struct MeasureOutcome {
    tally: AdviseTally,
    /// Number of all stretches; `None` if all were measured.
    stretches: Option<u64>,
    stopped_by: Option<StoppedBy>,
}

impl AdviseRun<'_> {
    fn measure(
        &self,
        on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<MeasureOutcome, InspectError> {
        let mut tally = AdviseTally::new(self.settings.levels.len());
        let (mut done, mut stopped_by) = (0, None);
        let cells = self.cells();
        run_ordered(
            PipelineLimits { workers: self.settings.workers, bytes: QUEUE_BYTES_MAX },
            |line| match self.settings.extent {
                MeasureExtent::All => self.feed_all(line),
                MeasureExtent::Sample { time, bytes } => {
                    let time = time.map(|time| time.mul_f64(TRANSACTION_TIME_SHARE));
                    stopped_by = self.feed_cells(&cells, time, bytes, line)?;
                    Ok(())
                }
            },
            || MeasureWorker::new(self.shared),
            |worker, item, sender| match worker {
                Ok(worker) => worker.measure_item(item, sender),
                Err(error) => Err(InspectError::Compress(*error)),
            },
            |part: MeasuredPart| {
                done += part.bytes_done;
                tally.take(part);
                match on_progress(self.progress(done)) {
                    ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
                    ControlFlow::Break(()) => Err(InspectError::Stopped),
                }
            },
        )?;
        let stretches = stopped_by.map(|_| cells.count());
        Ok(MeasureOutcome { tally, stretches, stopped_by })
    }

    /// Returns the progress in bytes of all logs, by bytes or by time.
    fn progress(&self, done: u64) -> u64 {
        match self.settings.extent {
            MeasureExtent::All | MeasureExtent::Sample { time: None, bytes: None } => done,
            MeasureExtent::Sample { time: None, bytes: Some(bytes) } => {
                let part = done as f64 / bytes.max(1) as f64;
                done.max((self.bytes as f64 * part.min(1.0)) as u64)
            }
            MeasureExtent::Sample { time: Some(time), .. } => {
                let part = self.started.elapsed().as_secs_f64() / time.as_secs_f64().max(0.001);
                done.max((self.bytes as f64 * part.min(1.0)) as u64)
            }
        }
    }

    fn cells(&self) -> CellGrid {
        CellGrid::new(self.previews.iter().map(|preview| match preview.can_seek {
            true => (preview.bytes.clone(), CELL_WIDTH),
            false => (preview.bytes.clone(), u64::MAX),
        }))
    }

    fn feed_all(&self, line: &ItemSender<'_, MeasureItem>) -> Result<(), InspectError> {
        let mut number = 0;
        for (source, log) in self.shared.sources.iter().enumerate() {
            let (mut pieces, mut size, mut bytes) = (Vec::new(), 0, 0);
            let mut push = |pieces: &mut Vec<_>, size: &mut usize, bytes: &mut u64| {
                let work =
                    ItemContent::Pieces { pieces: std::mem::take(pieces), bytes: std::mem::take(bytes) };
                let item = MeasureItem { number, source, work };
                number += 1;
                line.push(item, std::mem::take(size)).map_err(InspectError::from)
            };
            read_all(log, &self.settings.sizes, &mut |given| {
                if let ReadItem::Piece(piece) = given {
                    size += piece.content.memory();
                    bytes += piece.share.of;
                    pieces.push(piece);
                }
                if size >= ITEM_SIZE || pieces.len() >= PIECES_MAX {
                    push(&mut pieces, &mut size, &mut bytes)?;
                }
                Ok(())
            })?;
            if !pieces.is_empty() {
                push(&mut pieces, &mut size, &mut bytes)?;
            }
        }
        Ok(())
    }

    fn feed_cells(
        &self,
        cells: &CellGrid,
        time: Option<Duration>,
        bytes_max: Option<u64>,
        line: &ItemSender<'_, MeasureItem>,
    ) -> Result<Option<StoppedBy>, InspectError> {
        let mut bytes = 0;
        for (number, cell) in (0..).zip(cells.spread(self.settings.seed)) {
            if bytes_max.is_some_and(|max| bytes >= max) {
                return Ok(Some(StoppedBy::Bytes));
            }
            if number >= CELLS_MIN && time.is_some_and(|time| self.started.elapsed() >= time) {
                return Ok(Some(StoppedBy::Time));
            }
            bytes += cell.end - cell.start;
            let (source, work) = (cell.source, ItemContent::Cell(cell));
            line.push(MeasureItem { number, source, work }, CELL_COST)?;
        }
        Ok(None)
    }

    fn server(&self) -> ServerReport {
        let last = self.previews.iter().rev().find(|preview| preview.report.has_events);
        let Some(last) = last else { return ServerReport::default() };
        let version = last.report.server_version.clone();
        let level_setting = level_setting(&version);
        ServerReport { version, can_compress: last.knows_payloads, level_setting }
    }

    /// Returns the time span of each log, from its first and last commit, or from the measured transactions.
    fn spans(&self, tally: &AdviseTally) -> Vec<(u64, u64)> {
        let logs = self.shared.sources.iter().zip(self.previews).enumerate();
        logs.filter_map(|(number, (source, preview))| {
            span(source, preview).or_else(|| tally.spans.get(&number).copied())
        })
        .collect()
    }

    fn report(
        &self,
        measured: &mut MeasureOutcome,
        on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<AdviseReport, InspectError> {
        let mut may_continue = || on_progress(self.progress(self.bytes)).is_continue();
        let samples = std::mem::take(&mut measured.tally.samples);
        let dictionary = alternatives::dictionary(&samples)?;
        drop(samples);
        let bounds = match self.settings.extent {
            MeasureExtent::All => SampleLimits::default(),
            MeasureExtent::Sample { time, bytes } => {
                SampleLimits { time: time.map(|time| time.mul_f64(WHOLE_FILE_TIME_SHARE)), bytes }
            }
        };
        let (sources, previews, seed) = (self.shared.sources, self.previews, self.settings.seed);
        let whole_file = alternatives::whole_files(sources, previews, bounds, seed, &mut may_continue)?;
        let tally = &measured.tally;
        let build = ReportBuilder {
            tally,
            settings: self.settings,
            previews,
            server: self.server(),
            spans: self.spans(tally),
            stretches: measured.stretches,
            base: self.shared.base,
        };
        let mut sample = build.sample();
        let probing = Instant::now();
        let mut has_time = || probing.elapsed() < PROBE_TIMEOUT && may_continue();
        let found = find_levels(&tally.probes, build.found(), &mut has_time);
        sample.stopped_by = measured.stopped_by;
        sample.elapsed_s = self.started.elapsed().as_secs_f64();
        let mut report = AdviseReport {
            logs: previews.iter().map(|preview| preview.report.clone()).collect(),
            server: build.server.clone(),
            sample,
            machine: machine(),
            span: build.span(),
            totals: build.totals(),
            levels: build.levels(),
            sizes: build.sizes(),
            tables: build.tables(),
            refused: build.refused(),
            over_time: tally.timeline.clone().report(build.factor(), self.settings.levels.len()),
            found,
            whole_file,
            dictionary,
            network: build.network(),
            ..AdviseReport::default()
        };
        report.advice = advice_rules::advise(&report);
        Ok(report)
    }
}

/// Fraction of the time for compressing whole files.
const WHOLE_FILE_TIME_SHARE: f64 = 0.15;

/// Maximum time for the search of the payloads' level.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of pieces per work item.
const PIECES_MAX: usize = 8192;

/// Minimum number of cells, regardless of the time limit.
const CELLS_MIN: u64 = 2;

/// Returns the level that represents compressed transactions in network traffic: the default, or the nearest one to it.
fn base_level(levels: &[ZstdLevel]) -> (usize, ZstdLevel) {
    let distance = |level: &ZstdLevel| level.get().abs_diff(ZstdLevel::DEFAULT.get());
    let nearest = levels.iter().enumerate().min_by_key(|(_, level)| distance(level));
    nearest.map_or((0, ZstdLevel::DEFAULT), |(index, level)| (index, *level))
}
