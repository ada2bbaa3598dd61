//! Runs a dump. One thread reads the events, others produce the deferred text, and the caller's thread writes it in
//! order. Memory is bounded whatever the logs contain.

use std::io::{self, ErrorKind, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use logs::ordered::{PipelineLimits, PipelineShutdown, run_ordered};

use crate::dump::{HaltReason, LogDumper};
use crate::dump_diagnostics::DumpDiagnostics;
use crate::dump_inputs::DumpInputs;
use crate::dump_settings::DumpSettings;
use crate::event_buffer::BufferReserve;
use crate::head_text::HeadText;
use crate::text_batch::TextBatch;

/// Approximate size of a part of the text, in bytes: small enough for a core's own cache.
const PART_SIZE: usize = 512 << 10;

/// Maximum size of events and text between the threads, in bytes.
const IN_FLIGHT_MAX: usize = 16 << 20;

/// Reason why a dump ended early.
#[derive(Debug)]
pub(crate) enum DumpEnd {
    /// Reading failed; the error has been printed.
    Failed,
    /// The output cannot be written.
    Output(io::Error),
    /// The output was closed.
    OutputClosed,
}

impl From<HaltReason> for DumpEnd {
    fn from(halt: HaltReason) -> Self {
        match halt {
            HaltReason::Failed | HaltReason::TemporaryFile => Self::Failed,
            HaltReason::OutputClosed => Self::OutputClosed,
        }
    }
}

impl From<PipelineShutdown> for DumpEnd {
    fn from(PipelineShutdown: PipelineShutdown) -> Self {
        Self::OutputClosed
    }
}

impl From<io::Error> for DumpEnd {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Output(error),
        }
    }
}

/// Dumps all logs to `output`.
pub(crate) fn run(
    settings: &DumpSettings,
    names: &[Vec<u8>],
    inputs: &mut DumpInputs<'_>,
    output: &mut (dyn Write + Send),
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<(), DumpEnd> {
    let spare = BufferReserve::default();
    let mut write = |part: Vec<u8>| {
        output.write_all(&part)?;
        spare.put_back(part);
        Ok(())
    };
    let run = DumpRun { settings, names, inputs, diagnostics, spare: &spare };
    match settings.jobs() {
        NonZeroUsize::MIN => run_alone(run, &mut write),
        jobs => run_in_parallel(jobs, run, &mut write),
    }
}

/// Logs to dump, and all that reading them needs.
struct DumpRun<'r, 'i, 'd> {
    settings: &'r DumpSettings,
    names: &'r [Vec<u8>],
    inputs: &'r mut DumpInputs<'i>,
    diagnostics: &'r mut DumpDiagnostics<'d>,
    spare: &'r BufferReserve,
}

/// Writes one part of the text.
type PartWriter<'w> = &'w mut dyn FnMut(Vec<u8>) -> Result<(), DumpEnd>;

fn run_alone(run: DumpRun<'_, '_, '_>, write: PartWriter<'_>) -> Result<(), DumpEnd> {
    let DumpRun { settings, names, inputs, diagnostics, spare } = run;
    let mut failed = None;
    let mut heads = HeadText::new(settings);
    let mut hand_on = |batch: TextBatch| {
        batch.write(&mut heads, spare, PART_SIZE, &mut *write).map_err(|ended| {
            failed = Some(ended);
            HaltReason::OutputClosed
        })
    };
    let outcome = LogDumper::new(settings, diagnostics, spare, &mut hand_on).run(names, inputs);
    outcome.map_err(|halt| failed.unwrap_or(halt.into()))
}

fn run_in_parallel(
    jobs: NonZeroUsize,
    run: DumpRun<'_, '_, '_>,
    write: PartWriter<'_>,
) -> Result<(), DumpEnd> {
    let DumpRun { settings, names, inputs, diagnostics, spare } = run;
    run_ordered(
        PipelineLimits { workers: jobs, bytes: IN_FLIGHT_MAX },
        |feed| {
            let mut hand_on = |batch: TextBatch| {
                let size = batch.size();
                feed.push(batch, size).map_err(|PipelineShutdown| HaltReason::OutputClosed)
            };
            LogDumper::new(settings, diagnostics, spare, &mut hand_on)
                .run(names, inputs)
                .map_err(DumpEnd::from)
        },
        || HeadText::new(settings),
        |heads, batch, sender| {
            batch.write(heads, spare, PART_SIZE, |part| {
                let size = part.len();
                sender.push(part, size).map_err(DumpEnd::from)
            })
        },
        |part| write(part).map(ControlFlow::Continue),
    )
}
