//! Reads logs and writes records, until the end or the first Ctrl-C.

use std::io::ErrorKind::{BrokenPipe, FileTooLarge, QuotaExceeded, StorageFull};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use logs::{End, LogReader, Positions};
use rewrite::positions_path;
use stream::{Boundary, Definitions, Output, Settings, Streamer, Token, Watch, define, seek, stream_log};

use crate::commands::stream::catalogue::{Schema, remark_on};
use crate::commands::stream::reader;
use crate::exit::{Failure, Outcome, Verdict};
use crate::inputs::{Found, Place, advised};
use crate::interrupt;

/// Interval at which progress is saved. It limits the records that are repeated after a crash.
const SAVED_EVERY: Duration = Duration::from_secs(1);

/// Writes the records of all remaining logs.
pub(super) fn tell(
    found: &Found,
    (settings, mut schema): (Settings, Schema),
    (mut output, resume): (Output, Option<Token>),
) -> Outcome {
    let places = rest(found, resume.as_ref())?;
    if let (Schema::Log(definitions), Some(token), None) = (&mut schema, &resume, kept(&output)?) {
        let before = &found.places[..found.places.len() - places.len()];
        defined(found, (before, &places[0]), token, definitions)?;
    }
    let mut streamer = schema.of(Streamer::new(settings));
    let told = each(found, places, resume.as_ref(), &mut streamer, &mut output);
    finished(told, output)
}

/// Returns the table definitions that were saved with the progress, if there are any.
pub(super) fn kept(output: &Output) -> Result<Option<Definitions>, Failure> {
    let kept = output.kept().context("could not read the table definitions saved with the progress");
    kept.map_err(Failure::NotBegun)
}

/// Reads the table definitions of the logs before the position.
fn defined(
    found: &Found,
    (before, log): (&[Place], &Place),
    token: &Token,
    definitions: &mut Definitions,
) -> Result<(), Failure> {
    for place in before {
        let mut reader = found.open(place).map_err(|error| Failure::Failed(advised(error)))?;
        define(&mut reader, definitions, None).map_err(failed)?;
    }
    if let Place::File(_) = log {
        let (mut reader, positions) = open(found, log)?;
        let until = match positions {
            Some(mut positions) => {
                positions.find(token.place.position).map_err(|error| failed(error.into()))?;
                positions.after(token.place.position)
            }
            None => token.place.position,
        };
        define(&mut reader, definitions, Some(until)).map_err(failed)?;
    }
    Ok(())
}

/// Ends the output. Written records are saved even after a failure.
pub(super) fn finished(told: Result<(), Failure>, mut output: Output) -> Outcome {
    let settled = reader::settle(&mut output);
    let finished = match told {
        Ok(()) => settled.and_then(|()| output.finish()),
        Err(_) => settled,
    };
    match (told, finished) {
        (Err(failure), _) => Err(failure),
        (Ok(()), Err(error)) => Err(failed(error.into())),
        (Ok(()), Ok(())) => Ok(Verdict::Fine),
    }
}

/// Returns the remaining logs.
fn rest<'f>(found: &'f Found, resume: Option<&Token>) -> Result<&'f [Place], Failure> {
    let Some(token) = resume else { return Ok(&found.places) };
    let first = found.places.iter().position(|place| name(place) == token.place.log);
    match first {
        Some(first) => Ok(&found.places[first..]),
        None => Err(Failure::NotBegun(anyhow!(
            "cannot resume: the given logs do not include {}, where the last run ended",
            token.place.log
        ))),
    }
}

/// Returns the log's name on its server: the last part of its path.
fn name(place: &Place) -> String {
    match place {
        Place::File(path) => base(path),
        Place::Stdin => "-".to_owned(),
    }
}

fn base(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn each(
    found: &Found,
    places: &[Place],
    resume: Option<&Token>,
    streamer: &mut Streamer,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut saved = Instant::now();
    let mut boundary =
        |boundary: Boundary<'_>| save_when_due(boundary.output, boundary.token.clone(), &mut saved);
    for (index, place) in places.iter().enumerate() {
        let (mut reader, mut positions) = open(found, place)?;
        if let Some(token) = resume.filter(|_| index == 0) {
            seek(&mut reader, token, positions.as_mut()).map_err(failed)?;
        }
        streamer.begin_log(positions);
        let mut watch = Watch { now_ns: &now_ns, boundary: &mut boundary };
        let mut name = name(place);
        let ended = stream_log(&mut reader, &mut name, streamer, output, &mut watch);
        remark_on(&streamer.take_changed());
        let ended = ended.map_err(failed)?;
        match ended {
            None => return Ok(()),
            Some(End::Torn(torn)) => return Err(Failure::Failed(advised(reader.torn(torn)))),
            Some(_) => {}
        }
        if let Some(open) = streamer.open() {
            return Err(failed(stream::Error::Cut { log: name, start: open.position }));
        }
    }
    Ok(())
}

/// Opens a log. If it was compressed in place, also opens the list of its transactions' old positions.
fn open(found: &Found, place: &Place) -> Result<(LogReader, Option<Positions>), Failure> {
    let opened = || -> Result<_, logs::Error> {
        let reader = found.open(place)?;
        // The list is written before its log, and contains the log's size.
        let positions = match (place, reader.size()?) {
            (Place::File(path), Some(size)) => Positions::open(&positions_path(path), size)?,
            _ => None,
        };
        Ok((reader, positions))
    };
    opened().map_err(|error| Failure::Failed(advised(error)))
}

/// Marks the end of a transaction, and saves progress if it is due. `Break` after Ctrl-C.
pub(super) fn save_when_due(
    output: &mut Output,
    token: Token,
    saved: &mut Instant,
) -> Result<ControlFlow<()>, stream::Error> {
    output.mark(token);
    let is_interrupted = interrupt::requested();
    if is_interrupted || output.is_file_full() || saved.elapsed() >= SAVED_EVERY {
        output.save()?;
        *saved = Instant::now();
    }
    Ok(if is_interrupted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}

pub(super) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn failed(error: stream::Error) -> Failure {
    Failure::Failed(match error {
        stream::Error::Log(error) => advised(error),
        stream::Error::Write(error) if error.kind() == BrokenPipe => error.into(),
        stream::Error::Write(ref full)
            if matches!(full.kind(), StorageFull | QuotaExceeded | FileTooLarge) =>
        {
            anyhow!(
                "{error}; free disk space and run the command again: with --out or --progress, it resumes where it \
                 stopped"
            )
        }
        error => error.into(),
    })
}
