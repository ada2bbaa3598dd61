//! Follows a running server's log and writes records, up to the first Ctrl-C.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use binlog::{Format, MAGIC, RawEvent};
use servers::{Address, Error, LinkOptions, LiveSource};
use stream::{Event, Output, Settings, Streamer, Token};
use wire::{Arrival, End, ReplicaOptions, SemiSync, Start};

use crate::commands::stream::tell::{failed, finished, now_ns, save_when_due};
use crate::exit::{Advice, Failure, Outcome};
use crate::interrupt;

/// How long a source that has nothing to send may take to give a sign of life, at most.
const HEARTBEAT_MAX: Duration = Duration::from_secs(15);
/// Signs of life that may be missed before a source is taken for lost.
const HEARTBEATS_MISSED: u32 = 4;
/// The source cannot send what is asked for.
const CANNOT_SEND: u16 = 1236;

/// Which server, and how its log is read.
pub(super) struct Live {
    pub(super) address: Address,
    pub(super) server_id: u32,
    pub(super) end: End,
}

/// Writes the records of what the server has, and of what it writes.
pub(super) fn follow(
    live: &Live,
    settings: Settings,
    (mut output, resume): (Output, Option<Token>),
) -> Outcome {
    let mut streamer = Streamer::new(settings);
    let told = each(live, resume.as_ref(), &mut streamer, &mut output);
    finished(told, output)
}

fn each(
    live: &Live,
    resume: Option<&Token>,
    streamer: &mut Streamer,
    output: &mut Output,
) -> Result<(), Failure> {
    let options = LinkOptions { cancel: interrupt::cancel(), ..LinkOptions::default() };
    let mut source = LiveSource::open(&live.address, &options, wishes(live, resume)?)
        .map_err(|error| Failure::NotBegun(explained(error, resume)))?;
    let (mut log, mut format, mut saved) = (String::new(), None::<Arc<Format>>, Instant::now());
    loop {
        match source.has_more() {
            Ok(true) => {}
            // Nobody waits for what has come.
            Ok(false) => output.save().map_err(|error| failed(error.into()))?,
            Err(error) => return Err(lost(error)),
        }
        let arrival = match source.next() {
            Ok(Some(next)) => next.arrival,
            Ok(None) if live.end == End::LastEvent => return Ok(()),
            Ok(None) => {
                return Err(lost(Error::Lost(
                    "it has ended its log, as one does that shuts down".to_owned(),
                )));
            }
            Err(Error::Cancelled) => return Ok(()),
            Err(error) => return Err(lost(error)),
        };
        let taken = match arrival {
            Arrival::File { file, .. } => {
                log = String::from_utf8_lossy(file).into_owned();
                continue;
            }
            Arrival::Format { .. } => {
                format = source.reader().format().cloned().map(Arc::new);
                continue;
            }
            Arrival::Heartbeat { .. } | Arrival::Artificial(_) => continue,
            Arrival::Event { event, position } => {
                let format =
                    format.as_ref().ok_or_else(|| anyhow!("the source sent an event before its format"))?;
                take(streamer, output, (&log, position, event), format)?
            }
        };
        if let Some(token) = taken
            && save_when_due(output, token, &mut saved).map_err(failed)?.is_break()
        {
            return Ok(());
        }
    }
}

fn take(
    streamer: &mut Streamer,
    output: &mut Output,
    (log, offset, raw): (&str, u64, RawEvent<'_>),
    format: &Format,
) -> Result<Option<Token>, Failure> {
    streamer.take(&Event { log, offset, raw, format, now_ns: now_ns() }, output).map_err(failed)
}

fn wishes(live: &Live, resume: Option<&Token>) -> Result<ReplicaOptions, Failure> {
    let (file, position) = match resume {
        Some(token) => (token.place.log.as_bytes(), token.place.position),
        None => (&b""[..], MAGIC.len() as u64),
    };
    Ok(ReplicaOptions {
        server_id: live.server_id,
        uuid: String::new(),
        report_host: String::new(),
        report_port: 0,
        heartbeat: (live.address.timeout / HEARTBEATS_MISSED).min(HEARTBEAT_MAX),
        semi_sync: SemiSync::Off,
        start: Start::Position { file: file.to_vec(), position },
        end: live.end,
    })
}

/// With what was asked for, where the source refuses that.
fn explained(error: Error, resume: Option<&Token>) -> anyhow::Error {
    match (error.code(), resume) {
        (Some(CANNOT_SEND), Some(token)) => {
            let asked = format!("the source cannot go on at {}", token.place.log);
            anyhow::Error::from(error)
                .context(asked)
                .context(Advice("see SHOW BINARY LOGS for what it still has"))
        }
        _ => error.into(),
    }
}

fn lost(error: Error) -> Failure {
    let advice = Advice("run the same command again: with --progress or --out it goes on where it ended");
    Failure::Failed(anyhow::Error::from(error).context(advice))
}
