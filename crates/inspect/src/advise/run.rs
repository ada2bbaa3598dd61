//! Measures logs, all of them or a sample, and adds up the results.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use binlog::Level;
use logs::ordered::{Bounds, Feed, ordered};

use super::build::{Build, level_setting};
use super::cells::Cells;
use super::clock::machine;
use super::compare::Bounded;
use super::cut::{Given, Look, look, read_all};
use super::known::Known;
use super::plan::UNDER_WAY;
use super::probe::probe;
use super::record::Part;
use super::report::{Report, ServerReport, StoppedBy};
use super::span::span;
use super::tally::Tally;
use super::work::{Item, Reach, Shop, Work, Worker};
use super::{Extent, Settings, Source, compare, rules};
use crate::error::Error;

/// Bytes of transactions per work item, if whole logs are read.
const ITEM_SIZE: usize = 1 << 20;

/// Width of a cell: some hundred transactions, or some thousand rows of one.
const WIDTH: u64 = 256 << 10;

/// Bytes that a cell counts as in the queue.
const CELL_COST: usize = 2 << 20;

/// Fraction of the time for measuring transactions. The rest is for the alternatives.
const MAIN_PART: f64 = 0.7;

/// Number of work items that supply payloads for the dictionary.
const SAMPLED_ITEMS: u64 = 96;

/// Measures logs and derives advice. `watch` is called with the bytes done so far; if it breaks, measuring stops with
/// [`Error::Stopped`].
///
/// # Errors
///
/// No level is given; a log cannot be read or decoded; a log is from MariaDB. An open or torn end of a log is no error.
pub fn advise(
    sources: &[Source<'_>],
    settings: &Settings,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Report, Error> {
    let started = Instant::now();
    if settings.levels.is_empty() {
        return Err(Error::NoLevel);
    }
    let looks = sources.iter().map(look).collect::<Result<Vec<_>, _>>()?;
    let (base_place, base) = base(&settings.levels);
    let bytes: u64 = looks.iter().map(|look| look.bytes.end - look.bytes.start).sum();
    let shop = Shop {
        sources,
        levels: &settings.levels,
        sizes: settings.sizes,
        base,
        base_place,
        reach: match settings.extent {
            Extent::All => Reach::Whole,
            Extent::Sample { .. } => Reach::Front(settings.sizes.front),
        },
        sample_stride: match settings.extent {
            Extent::All => (bytes / ITEM_SIZE as u64 / SAMPLED_ITEMS).max(1),
            Extent::Sample { .. } => 1,
        },
        one_large: Mutex::new(()),
        width: WIDTH,
        known: Known::default(),
    };
    let run = Run { shop: &shop, settings, looks: &looks, started, bytes };
    let mut measured = run.measure(watch)?;
    run.report(&mut measured, watch)
}

struct Run<'r> {
    shop: &'r Shop<'r>,
    settings: &'r Settings,
    looks: &'r [Look],
    started: Instant,
    /// Bytes of all events in the logs.
    bytes: u64,
}

struct Measured {
    tally: Tally,
    /// Number of all stretches; `None` if all were measured.
    stretches: Option<u64>,
    stopped_by: Option<StoppedBy>,
}

impl Run<'_> {
    fn measure(&self, watch: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Measured, Error> {
        let mut tally = Tally::new(self.settings.levels.len());
        let (mut done, mut stopped_by) = (0, None);
        let cells = self.cells();
        ordered(
            Bounds { workers: self.settings.workers, bytes: UNDER_WAY },
            |line| match self.settings.extent {
                Extent::All => self.feed_all(line),
                Extent::Sample { time, bytes } => {
                    let time = time.map(|time| time.mul_f64(MAIN_PART));
                    stopped_by = self.feed_cells(&cells, time, bytes, line)?;
                    Ok(())
                }
            },
            || Worker::new(self.shop),
            |worker, item, outlet| match worker {
                Ok(worker) => worker.work(item, outlet),
                Err(error) => Err(Error::Compress(*error)),
            },
            |part: Part| {
                done += part.bytes_done;
                tally.take(part);
                match watch(self.progress(done)) {
                    ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
                    ControlFlow::Break(()) => Err(Error::Stopped),
                }
            },
        )?;
        let stretches = stopped_by.map(|_| cells.count());
        Ok(Measured { tally, stretches, stopped_by })
    }

    /// Returns the progress in bytes of all logs, by bytes or by time.
    fn progress(&self, done: u64) -> u64 {
        match self.settings.extent {
            Extent::All | Extent::Sample { time: None, bytes: None } => done,
            Extent::Sample { time: None, bytes: Some(bytes) } => {
                let part = done as f64 / bytes.max(1) as f64;
                done.max((self.bytes as f64 * part.min(1.0)) as u64)
            }
            Extent::Sample { time: Some(time), .. } => {
                let part = self.started.elapsed().as_secs_f64() / time.as_secs_f64().max(0.001);
                done.max((self.bytes as f64 * part.min(1.0)) as u64)
            }
        }
    }

    fn cells(&self) -> Cells {
        Cells::new(self.looks.iter().map(|look| match look.can_seek {
            true => (look.bytes.clone(), WIDTH),
            false => (look.bytes.clone(), u64::MAX),
        }))
    }

    fn feed_all(&self, line: &Feed<'_, Item>) -> Result<(), Error> {
        let mut number = 0;
        for (source, log) in self.shop.sources.iter().enumerate() {
            let (mut pieces, mut size, mut bytes) = (Vec::new(), 0, 0);
            let mut push = |pieces: &mut Vec<_>, size: &mut usize, bytes: &mut u64| {
                let work = Work::Pieces { pieces: std::mem::take(pieces), bytes: std::mem::take(bytes) };
                let item = Item { number, source, work };
                number += 1;
                line.push(item, std::mem::take(size)).map_err(Error::from)
            };
            read_all(log, &self.settings.sizes, &mut |given| {
                if let Given::Piece(piece) = given {
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
        cells: &Cells,
        time: Option<Duration>,
        bytes_max: Option<u64>,
        line: &Feed<'_, Item>,
    ) -> Result<Option<StoppedBy>, Error> {
        let mut bytes = 0;
        for (number, cell) in (0..).zip(cells.spread(self.settings.seed)) {
            if bytes_max.is_some_and(|max| bytes >= max) {
                return Ok(Some(StoppedBy::Bytes));
            }
            if number >= CELLS_MIN && time.is_some_and(|time| self.started.elapsed() >= time) {
                return Ok(Some(StoppedBy::Time));
            }
            bytes += cell.end - cell.start;
            let (source, work) = (cell.source, Work::Cell(cell));
            line.push(Item { number, source, work }, CELL_COST)?;
        }
        Ok(None)
    }

    fn server(&self) -> ServerReport {
        let Some(last) = self.looks.last() else { return ServerReport::default() };
        let version = last.report.server_version.clone();
        let level_setting = level_setting(&version);
        ServerReport { version, can_compress: last.knows_payloads, level_setting }
    }

    /// Returns the time span of each log, by its first and last commit, or by what was measured.
    fn spans(&self, tally: &Tally) -> Vec<(u64, u64)> {
        let logs = self.shop.sources.iter().zip(self.looks).enumerate();
        logs.filter_map(|(number, (source, look))| {
            span(source, look).or_else(|| tally.spans.get(&number).copied())
        })
        .collect()
    }

    fn report(
        &self,
        measured: &mut Measured,
        watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Report, Error> {
        let mut may_go_on = || watch(self.progress(self.bytes)).is_continue();
        let samples = std::mem::take(&mut measured.tally.samples);
        let dictionary = compare::dictionary(&samples)?;
        drop(samples);
        let bounds = match self.settings.extent {
            Extent::All => Bounded::default(),
            Extent::Sample { time, bytes } => {
                Bounded { time: time.map(|time| time.mul_f64(COMPARED_PART)), bytes }
            }
        };
        let (sources, looks, seed) = (self.shop.sources, self.looks, self.settings.seed);
        let whole_file = compare::whole_files(sources, looks, bounds, seed, &mut may_go_on)?;
        let tally = &measured.tally;
        let build = Build {
            tally,
            settings: self.settings,
            looks,
            server: self.server(),
            spans: self.spans(tally),
            stretches: measured.stretches,
            base: self.shop.base,
        };
        let mut sample = build.sample();
        let probing = Instant::now();
        let mut has_time = || probing.elapsed() < PROBE_TIME && may_go_on();
        let found = probe(&tally.probes, build.found(), &mut has_time);
        sample.stopped_by = measured.stopped_by;
        sample.elapsed_s = self.started.elapsed().as_secs_f64();
        let mut report = Report {
            logs: looks.iter().map(|look| look.report.clone()).collect(),
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
            ..Report::default()
        };
        report.advice = rules::advise(&report);
        Ok(report)
    }
}

/// Fraction of the time for compressing whole files.
const COMPARED_PART: f64 = 0.15;

/// Maximum time to look for the level of the payloads in the logs.
const PROBE_TIME: Duration = Duration::from_secs(3);

/// Maximum number of pieces per work item.
const PIECES_MAX: usize = 8192;

/// Minimum number of cells, regardless of the time limit.
const CELLS_MIN: u64 = 2;

/// Returns the level that represents compressed transactions in network traffic: the default, or the nearest one to it.
fn base(levels: &[Level]) -> (usize, Level) {
    let distance = |level: &Level| level.get().abs_diff(Level::DEFAULT.get());
    let nearest = levels.iter().enumerate().min_by_key(|(_, level)| distance(level));
    nearest.map_or((0, Level::DEFAULT), |(place, level)| (place, *level))
}
