//! Rewrites a log step by step, from any transaction on, also while the log grows.

use std::cell::RefCell;
use std::fmt;

use binlog::MAGIC;
use logs::{EndOfLog, LogKind, LogReader, ReadOutcome, TakeSegment, TransactionCutter};

use crate::error::RewriteError;
use crate::log_assembler::LogAssembler;
use crate::rewrite_output::RewriteOutput;
use crate::rewrite_tally::{StageTiming, TransactionMove};
use crate::rewrite_unit::{FeedError, RewriteUnit, UnitBuilder};
use crate::rewrite_worker::{OutputPart, PartSink, RewriteShared, RewriteWorker, WorkerBuffers};
use crate::spare_buffers::SpareBuffers;
use crate::writer_pool::WriterPool;
use crate::{MoveObserver, RewriteAction, RewriteLimits};

/// Function that opens a log. Called again for each transaction that is too large for memory.
pub type RenderOpener = Box<dyn Fn() -> Result<LogReader, logs::LogError> + Send + Sync>;

/// Rewrites one log in the caller's thread, step by step, as [`rewrite`](crate::rewrite) does in several threads.
///
/// The log may still grow: only whole transactions are rewritten, and written bytes never change. The bytes do not
/// depend on the steps in which the log grew, nor on the first transaction. They do depend on [`RewriteLimits::large`]
/// and [`RewriteLimits::large_threads`], and on the version of the zstd library.
pub struct LogRenderer {
    action: RewriteAction,
    limits: RewriteLimits,
    open: RenderOpener,
    reader: LogReader,
    units: UnitBuilder,
    cutter: TransactionCutter,
    writers: WriterPool,
    spare: SpareBuffers,
    buffers: Option<WorkerBuffers>,
    /// End of the written log.
    position: u64,
    timings: RenderTimings,
}

/// Time that a [`LogRenderer`] has taken to compress and to decompress transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderTimings {
    /// Time per compressed transaction.
    pub compressing: StageTiming,
    /// Time per decompressed transaction.
    pub opening: StageTiming,
}

impl RenderTimings {
    /// Adds the times of another renderer.
    pub fn add(&mut self, other: &Self) {
        self.compressing.add(&other.compressing);
        self.opening.add(&other.opening);
    }
}

/// Units of the transactions that a step has read from the log, and the error after them.
struct CollectedUnits {
    units: Vec<RewriteUnit>,
    failure: Option<RewriteError>,
}

/// Result of one step of a [`LogRenderer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenderStep {
    /// Events were read. Their whole transactions have been written, possibly none.
    Advanced,
    /// The log has no more whole events, at least for now.
    End(EndOfLog),
}

impl fmt::Debug for LogRenderer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LogRenderer")
            .field("action", &self.action)
            .field("log", &self.reader.name())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl LogRenderer {
    /// Creates a renderer of the log that `open` opens, from its first event on.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be opened.
    pub fn new(
        action: RewriteAction,
        limits: RewriteLimits,
        open: RenderOpener,
    ) -> Result<Self, RewriteError> {
        let reader = open()?;
        Ok(Self {
            action,
            units: UnitBuilder::new(action, limits.clone(), reader.name().to_owned()),
            cutter: TransactionCutter::new(limits.large),
            limits,
            open,
            reader,
            writers: WriterPool::new(action),
            spare: SpareBuffers::default(),
            buffers: None,
            position: MAGIC.len() as u64,
            timings: RenderTimings::default(),
        })
    }

    /// Continues at a position that [`LogRenderer::position`] returned for the same log, the same action and the same
    /// limits. Call it before the first step.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read, or ends before the position.
    pub fn start_at(&mut self, position: TransactionMove) -> Result<(), RewriteError> {
        if position.before <= MAGIC.len() as u64 {
            return Ok(());
        }
        let offset = match self.reader.next_event()? {
            ReadOutcome::Some(event) => event.offset,
            ReadOutcome::End(_) => {
                return Err(RewriteError::Changed { name: self.reader.name().to_owned() });
            }
        };
        if let Some(format) = self.reader.format() {
            self.units.check_format(format, offset)?;
        }
        if position.before < self.reader.position() {
            return Err(RewriteError::Changed { name: self.reader.name().to_owned() });
        }
        self.reader.skip_to(position.before)?;
        self.position = position.after;
        Ok(())
    }

    /// Returns the position up to which the log is written, which is between two transactions.
    pub fn position(&self) -> TransactionMove {
        let before = self.cutter.open_outline().map_or(self.reader.position(), |open| open.position);
        TransactionMove { before, after: self.position }
    }

    /// Returns the end of the last whole written transaction. After an error, later bytes are a part of the failed
    /// transaction.
    pub const fn whole_end(&self) -> u64 {
        self.position
    }

    /// Returns the timings since the last call, and resets them.
    pub fn take_timings(&mut self) -> RenderTimings {
        std::mem::take(&mut self.timings)
    }

    /// Returns the reader of the log.
    pub const fn reader(&self) -> &LogReader {
        &self.reader
    }

    /// Reads the next events and writes the transactions that they complete, without the log's magic number. Passes the
    /// start of each transaction to `progress`, before writing its bytes.
    ///
    /// # Errors
    ///
    /// Fails if [`rewrite`](crate::rewrite) fails, except for a torn or incomplete end. After an error, only
    /// [`LogRenderer::whole_end`] may be used: the whole transactions before the fault are written.
    pub fn render_next(
        &mut self,
        out: &mut dyn RewriteOutput,
        progress: &mut dyn MoveObserver,
    ) -> Result<RenderStep, RewriteError> {
        let chunk = match self.reader.next_chunk(self.limits.unit)? {
            ReadOutcome::Some(chunk) => chunk,
            ReadOutcome::End(end) => return Ok(RenderStep::End(end)),
        };
        self.units.check_chunk(&chunk, self.reader.kind())?;
        let collected = self.collect_units(|cutter, give| cutter.cut_chunk(&chunk, give));
        self.write_units(collected, out, progress)?;
        Ok(RenderStep::Advanced)
    }

    /// Writes the events of a transaction that the log does not finish: the log has ended, and never grows again.
    ///
    /// # Errors
    ///
    /// Fails if [`LogRenderer::render_next`] fails.
    pub fn finish(
        &mut self,
        out: &mut dyn RewriteOutput,
        progress: &mut dyn MoveObserver,
    ) -> Result<(), RewriteError> {
        let collected = self.collect_units(|cutter, give| cutter.finish(give));
        self.write_units(collected, out, progress)
    }

    /// Collects the units of the transactions that `feed` pushes.
    fn collect_units(
        &mut self,
        feed: impl FnOnce(&mut TransactionCutter, TakeSegment<'_, FeedError>) -> Result<(), FeedError>,
    ) -> CollectedUnits {
        let mut units = Vec::new();
        let mut give = |unit, _| {
            units.push(unit);
            Ok(())
        };
        let built = &mut self.units;
        let fed = feed(&mut self.cutter, &mut |segment| built.take(segment, &mut give));
        let flushed = built.flush(&mut give);
        let failure = fed.map_err(|stop| stop.into_error(self.reader.name())).and(flushed).err();
        CollectedUnits { units, failure }
    }

    /// Writes the units, up to the first transaction that fails.
    fn write_units(
        &mut self,
        collected: CollectedUnits,
        out: &mut dyn RewriteOutput,
        progress: &mut dyn MoveObserver,
    ) -> Result<(), RewriteError> {
        let name = self.reader.name();
        let shared = RewriteShared {
            action: self.action,
            open: &*self.open,
            name,
            sizes: &self.limits,
            writers: &self.writers,
            spare: &self.spare,
        };
        let assembler = LogAssembler::resume(out, name.to_owned(), &self.spare, self.position);
        let sink = AssemblerSink(RefCell::new(AssemblerState { assembler, progress }));
        let buffers = self.buffers.take().unwrap_or_else(WorkerBuffers::new);
        let mut worker = RewriteWorker::with_buffers(&shared, buffers);
        let CollectedUnits { units, failure } = collected;
        let written = units.into_iter().try_for_each(|unit| worker.rewrite_unit(unit, &sink));
        if written.is_err() {
            // Ignore an error here: the first error is reported.
            let _ = worker.drop_failed_segment(&sink);
        }
        let buffers = worker.into_buffers();
        let assembler = sink.0.into_inner().assembler;
        (self.buffers, self.position) = (Some(buffers), assembler.whole_end());
        written?;
        let tally = assembler.finish()?;
        assert_eq!(tally.bytes_after, self.position, "ours: only a failed transaction is incomplete");
        self.timings.add(&RenderTimings { compressing: tally.compressing, opening: tally.opening });
        failure.map_or(Ok(()), Err)
    }

    /// Returns whether the log is a binary log, as far as it has been read.
    pub const fn kind(&self) -> LogKind {
        self.reader.kind()
    }
}

/// Passes a worker's output directly to the assembler.
struct AssemblerSink<'s, 'o, 'p>(RefCell<AssemblerState<'s, 'o, 'p>>);

struct AssemblerState<'s, 'o, 'p> {
    assembler: LogAssembler<'s, &'o mut dyn RewriteOutput>,
    progress: &'p mut dyn MoveObserver,
}

impl PartSink for AssemblerSink<'_, '_, '_> {
    fn push(&self, part: OutputPart, _: usize) -> Result<(), RewriteError> {
        let AssemblerState { assembler, progress } = &mut *self.0.borrow_mut();
        match assembler.take(part, *progress)?.is_break() {
            true => Err(RewriteError::Stopped),
            false => Ok(()),
        }
    }
}
