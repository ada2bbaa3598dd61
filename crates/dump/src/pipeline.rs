//! Runs a dump. One thread reads the events, others produce the deferred text, and the caller's thread writes it in
//! order. Memory is bounded whatever the logs contain.

use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use logs::ordered::{Bounds, Stopped, ordered};

use crate::batch::Batch;
use crate::bytes::Spare;
use crate::dump::{Dump, Halt};
use crate::head_text::HeadText;
use crate::remote::Servers;
use crate::settings::Settings;
use crate::talk::Talk;

/// Sources of logs other than files.
pub(crate) struct Inputs<'i> {
    pub(crate) stdin: &'i mut (dyn Read + Send),
    pub(crate) servers: &'i mut (dyn Servers + Send),
}

/// Approximate size of a part of the text, in bytes: small enough for a core's own cache.
const PART_SIZE: usize = 512 << 10;

/// Maximum size of events and text between the threads, in bytes.
const BETWEEN_MAX: usize = 16 << 20;

/// Reason why a dump ended early.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Reading failed; the error has been printed.
    Failed,
    /// The output cannot be written.
    Output(io::Error),
    /// The output was closed.
    Unwanted,
}

impl From<Halt> for Ended {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Failed | Halt::TemporaryFile => Self::Failed,
            Halt::Unwanted => Self::Unwanted,
        }
    }
}

impl From<Stopped> for Ended {
    fn from(Stopped: Stopped) -> Self {
        Self::Unwanted
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::Unwanted,
            _ => Self::Output(error),
        }
    }
}

/// Dumps all logs to `output`.
pub(crate) fn run(
    settings: &Settings,
    names: &[Vec<u8>],
    inputs: &mut Inputs<'_>,
    output: &mut (dyn Write + Send),
    talk: &mut Talk<'_>,
) -> Result<(), Ended> {
    let spare = Spare::default();
    let mut write = |part: Vec<u8>| {
        output.write_all(&part)?;
        spare.put_back(part);
        Ok(())
    };
    match settings.jobs() {
        NonZeroUsize::MIN => run_alone(settings, names, inputs, &mut write, talk, &spare),
        jobs => run_in_parallel(jobs, settings, names, inputs, &mut write, talk, &spare),
    }
}

/// Writes one part of the text.
type WritePart<'w> = &'w mut dyn FnMut(Vec<u8>) -> Result<(), Ended>;

fn run_alone(
    settings: &Settings,
    names: &[Vec<u8>],
    inputs: &mut Inputs<'_>,
    write: WritePart<'_>,
    talk: &mut Talk<'_>,
    spare: &Spare,
) -> Result<(), Ended> {
    let mut failed = None;
    let mut heads = HeadText::new(settings);
    let mut hand_on = |batch: Batch| {
        batch.write(&mut heads, spare, PART_SIZE, &mut *write).map_err(|ended| {
            failed = Some(ended);
            Halt::Unwanted
        })
    };
    let outcome = Dump::new(settings, talk, spare, &mut hand_on).run(names, inputs);
    outcome.map_err(|halt| failed.unwrap_or(halt.into()))
}

fn run_in_parallel(
    jobs: NonZeroUsize,
    settings: &Settings,
    names: &[Vec<u8>],
    inputs: &mut Inputs<'_>,
    write: WritePart<'_>,
    talk: &mut Talk<'_>,
    spare: &Spare,
) -> Result<(), Ended> {
    ordered(
        Bounds { workers: jobs, bytes: BETWEEN_MAX },
        |feed| {
            let mut hand_on = |batch: Batch| {
                let size = batch.size();
                feed.push(batch, size).map_err(|Stopped| Halt::Unwanted)
            };
            Dump::new(settings, talk, spare, &mut hand_on).run(names, inputs).map_err(Ended::from)
        },
        || HeadText::new(settings),
        |heads, batch, outlet| {
            batch.write(heads, spare, PART_SIZE, |part| {
                let size = part.len();
                outlet.push(part, size).map_err(Ended::from)
            })
        },
        |part| write(part).map(ControlFlow::Continue),
    )
}
