//! Follows a running server's log and writes records until the first Ctrl-C, over lost connections.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use binlog::gtid::GtidSet;
use binlog::{EventType, Format, MAGIC, RawEvent};
use logs::is_file_name;
use servers::{Address, Connection, Error, Facts, GtidMode, LinkOptions, LiveSource};
use stream::{Event, Had, HadGtids, Output, Settings, Streamer, Token};
use wire::{Arrival, End, ReplicaOptions, SemiSync, Start};

use crate::commands::receive::{CANNOT_SEND, passes};
use crate::commands::stream::catalogue::{Schema, remark_on};
use crate::commands::stream::tell::{failed, finished, now_ns, save_when_due};
use crate::commands::stream::{reader, snapshot};
use crate::exit::{Advice, Failure, Outcome};
use crate::interrupt;
use crate::screen;
use crate::units::duration;

/// Minimum and maximum pause before another attempt to reach a lost source.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Interval at which blocking waits poll for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(100);

/// Advice if a run cannot be resumed.
const BEGIN_ANEW: &str = "start over with another --progress or --out";

/// Advice if the source no longer has the position: another attempt is useless.
const LOGS_GONE: &str = "run SHOW BINARY LOGS on it to list its logs; if the logs were purged, start over with \
    another --progress or --out, and with --snapshot for the rows that were changed in the meantime";

/// Server and settings of a followed log.
pub(super) struct Live {
    pub(super) address: Address,
    pub(super) server_id: u32,
    pub(super) end: End,
    /// Set to hide messages about lost connections.
    pub(super) quiet: bool,
    /// Set if records are written to standard output.
    pub(super) is_piped: bool,
    /// Set if the present rows of all tables are written first.
    pub(super) snapshot: bool,
    /// Source of column names that the log does not have.
    pub(super) schema: Schema,
}

/// Position to resume from, and the transactions written from a server before.
#[derive(Clone, Debug, Default)]
pub(super) struct Resume {
    pub(super) token: Option<Token>,
    pub(super) had: Option<Had>,
}

/// Reason for the end of a connection.
enum Ended {
    /// The source is unreachable, and may come back.
    Lost(Error),
    /// A permanent error.
    Failed(Failure),
}

/// Writes the records of a server's logs, and follows new events.
pub(super) fn follow(
    live: &mut Live,
    settings: &Settings,
    (mut output, mut resume): (Output, Resume),
) -> Outcome {
    let (mut pause, mut is_begun) = (PAUSE_MIN, false);
    let cancel = if live.is_piped { reader::cancel() } else { interrupt::cancel() };
    if live.snapshot && resume.token.is_none() {
        match snapshot::take(&live.address, settings, (&mut output, live.quiet), &mut live.schema) {
            Ok(Some(taken)) => (resume, is_begun) = (taken, true),
            Ok(None) => return finished(Ok(()), output),
            Err(failure) => return finished(Err(failure), output),
        }
    }
    loop {
        let before = resume.token.clone();
        let options = LinkOptions { cancel: cancel.clone(), ..LinkOptions::default() };
        let ended = connection(live, (&resume, &options), settings, (&mut output, &mut is_begun));
        if let Some(token) = output.token() {
            resume = Resume { token: Some(token.clone()), had: output.had().cloned() };
        }
        pause = if before == resume.token { (pause * 2).min(PAUSE_MAX) } else { PAUSE_MIN };
        match ended {
            Err(Ended::Lost(error)) if is_begun => {
                if !live.quiet && !is_over(live) {
                    screen::remark(format_args!("{error}; retrying in {}", duration(pause)));
                }
                if let Err(error) = output.rewind() {
                    return finished(Err(failed(error.into())), output);
                }
                rest(live, pause);
            }
            Err(Ended::Lost(error)) => return finished(Err(Failure::NotBegun(error.into())), output),
            Err(Ended::Failed(Failure::Failed(error))) if !is_begun => {
                return finished(Err(Failure::NotBegun(error)), output);
            }
            Err(Ended::Failed(failure)) => return finished(Err(failure), output),
            Ok(()) => return finished(Ok(()), output),
        }
        if is_over(live) {
            return finished(Ok(()), output);
        }
    }
}

fn rest(live: &Live, pause: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < pause && !is_over(live) {
        thread::sleep(GLANCE);
    }
}

/// Tells whether the run is to end: after Ctrl-C, or when the reader of the pipe is gone.
fn is_over(live: &Live) -> bool {
    interrupt::requested() || live.is_piped && reader::is_gone()
}

/// Runs one connection until it ends.
fn connection(
    live: &mut Live,
    (resume, options): (&Resume, &LinkOptions),
    settings: &Settings,
    (output, is_begun): (&mut Output, &mut bool),
) -> Result<(), Ended> {
    let (server, start) = start(live, resume)?;
    let mut source = LiveSource::open(&live.address, options, wishes(live, start))
        .map_err(|error| explained(error, resume))?;
    *is_begun = true;
    output.follow(&server, resume.had.clone());
    // A new streamer drops the rest of an interrupted transaction.
    let mut streamer = live.schema.clone().of(Streamer::new(settings.clone()));
    let ended = each(live, resume, &mut source, (&mut streamer, output));
    if let Some(definitions) = streamer.definitions() {
        live.schema = Schema::Log(definitions.clone());
    }
    ended
}

fn each(
    live: &Live,
    resume: &Resume,
    source: &mut LiveSource,
    (streamer, output): (&mut Streamer, &mut Output),
) -> Result<(), Ended> {
    let (mut log, mut format, mut saved) = (String::new(), None::<Arc<Format>>, Instant::now());
    loop {
        if save_meanwhile(source, output)?.is_break() {
            return Ok(());
        }
        let arrival = match source.next() {
            Ok(Some(next)) => next.arrival,
            Ok(None) if live.end == End::LastEvent => return Ok(()),
            Ok(None) => {
                return Err(Ended::Lost(Error::Lost {
                    place: Some(live.address.place()),
                    reason: "the server ended the stream, probably because it shuts down".to_owned(),
                }));
            }
            Err(Error::Cancelled) => return Ok(()),
            Err(error) => return Err(explained(error, resume)),
        };
        let taken = match arrival {
            Arrival::File { file, .. } => {
                log = String::from_utf8_lossy(file).into_owned();
                // The name is saved with the progress, one line per value.
                if !is_file_name(file) || log.contains(char::is_control) {
                    let why = anyhow!("the source sent a log name that is not a file name: {log:?}");
                    return Err(Ended::Failed(why.into()));
                }
                continue;
            }
            Arrival::Format { .. } => {
                format = source.reader().format().cloned().map(Arc::new);
                continue;
            }
            Arrival::Heartbeat { .. } | Arrival::Artificial(_) => continue,
            Arrival::Event { event, position } => {
                let format = format.as_ref().ok_or_else(|| {
                    Ended::Failed(anyhow!("the source sent an event before its format").into())
                })?;
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

/// Saves progress while no event arrives. `Break` after Ctrl-C.
fn save_meanwhile(source: &mut LiveSource, output: &mut Output) -> Result<ControlFlow<()>, Ended> {
    while !source.has_more()? {
        output.save().map_err(|error| Ended::Failed(failed(error.into())))?;
        if !output.is_behind() {
            break;
        }
        // The reader takes the records later.
        match source.wait() {
            Err(Error::Cancelled) => return Ok(ControlFlow::Break(())),
            has_come => drop(has_come?),
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn take(
    streamer: &mut Streamer,
    output: &mut Output,
    (log, offset, raw): (&str, u64, RawEvent<'_>),
    format: &Format,
) -> Result<Option<Token>, Ended> {
    if matches!(raw.event_type(), EventType::PreviousGtids | EventType::MariadbGtidList)
        && let Ok(head) = raw.decode(format)
    {
        output.begin_log(&head);
    }
    let taken = streamer.take(&Event { log, offset, raw, format, now_ns: now_ns() }, output);
    remark_on(&streamer.take_changed());
    taken.map_err(|error| match error {
        // The server of the catalogue may be unreachable.
        stream::Error::Catalogue { .. } => Ended::Lost(Error::lost(error.to_string())),
        error => Ended::Failed(failed(error)),
    })
}

/// Returns the server's identity, and the start in its log: the position where a run ended, or if that was in another
/// server's log, the first transaction that was not written yet.
fn start(live: &Live, resume: &Resume) -> Result<(String, Start), Ended> {
    let mut connection = Connection::open(&live.address)?;
    let facts = Facts::of(&mut connection)?;
    let server = server(&mut connection, &facts)?;
    let start = match (&resume.token, &resume.had) {
        (None, _) => Ok(Start::Position { file: Vec::new(), position: MAGIC.len() as u64 }),
        (Some(_), Some(had)) if had.server != server => behind(had, &facts, &server),
        (Some(token), had) => lacks_nothing(had.as_ref(), &facts).map(|()| at(token)),
    };
    let start = start.map_err(|error| Ended::Failed(Failure::NotBegun(error)))?;
    Ok((server, start))
}

/// Returns a server's name in the saved progress.
pub(super) fn server(connection: &mut Connection, facts: &Facts) -> Result<String, Error> {
    match facts.is_mariadb {
        true => Ok(connection.value("SELECT @@server_id")?.unwrap_or_default()),
        false => Ok(facts.uuid.clone()),
    }
}

/// Checks that the server still has the written transactions. After a reset, a log of the same name has other
/// transactions.
fn lacks_nothing(had: Option<&Had>, facts: &Facts) -> Result<(), anyhow::Error> {
    let Some(Had { gtids: Some(HadGtids::Set(set)), .. }) = had else { return Ok(()) };
    let missing = set.difference(&facts.gtid_executed);
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!(
        "the source no longer has transactions whose records were written, {missing}: its logs were reset"
    );
    Err(anyhow!(what).context(Advice(BEGIN_ANEW)))
}

fn at(token: &Token) -> Start {
    Start::Position { file: token.place.log.clone().into_bytes(), position: token.place.position }
}

/// Returns the start after the transactions of another server.
fn behind(had: &Had, facts: &Facts, server: &str) -> Result<Start, anyhow::Error> {
    let other = format!("records were written from server {}, but this is server {server}", had.server);
    let anew = Advice(BEGIN_ANEW);
    // Without GTIDs, it would send its whole history.
    match had.gtids.as_ref().filter(|gtids| !gtids.is_empty()) {
        Some(last @ HadGtids::Last(_)) if facts.is_mariadb => {
            Ok(Start::MariadbGtids { state: last.to_string() })
        }
        Some(HadGtids::Set(set)) if facts.gtid_mode == GtidMode::On => {
            let missing = set.difference(&facts.gtid_executed);
            match missing.is_empty() {
                true => Ok(start_behind(set)),
                false => Err(anyhow!(
                    "{other}, which lacks transactions whose records were written, {missing}: it is not a replica \
                     of the other server, or lags behind"
                )
                .context(Advice("wait until it has them, or start over with another --progress or --out"))),
            }
        }
        Some(_) => Err(anyhow!("{other}, which has no GTIDs to resume by").context(anew)),
        None => {
            Err(anyhow!("{other}; without GTIDs, it is not known which transactions were written")
                .context(anew))
        }
    }
}

fn start_behind(gtids: &GtidSet) -> Start {
    let mut set = Vec::new();
    gtids.encode(gtids.format(), &mut set);
    Start::Gtids { set }
}

fn wishes(live: &Live, start: Start) -> ReplicaOptions {
    ReplicaOptions {
        server_id: live.server_id,
        uuid: String::new(),
        report_host: String::new(),
        report_port: 0,
        heartbeat: live.address.heartbeat(),
        semi_sync: SemiSync::Off,
        start,
        end: live.end,
    }
}

/// Adds the requested position to an error of the source that refuses it.
fn explained(error: Error, resume: &Resume) -> Ended {
    match (error.code(), &resume.token) {
        (Some(CANNOT_SEND), Some(token)) => {
            let asked = format!("the source cannot resume at {token}");
            let error = anyhow::Error::from(error).context(asked).context(Advice(LOGS_GONE));
            Ended::Failed(Failure::NotBegun(error))
        }
        _ => error.into(),
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        match passes(&error) {
            true => Self::Lost(error),
            false => Self::Failed(Failure::Failed(error.into())),
        }
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
