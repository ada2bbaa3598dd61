//! `--warm`: reads the target's pages into memory ahead of the replay.

use std::ops::ControlFlow;
use std::thread;

use anyhow::anyhow;
use logs::Store;
use replay::{Observer, Options, Report, Source, Status};
use serde_json::Value;
use warm::{AppliedLogs, Applier, SettingsFor, Threads, Why};

use crate::args::Global;
use crate::commands::replay::Replay;
use crate::commands::replay::target::{Named, Opened};
use crate::commands::replay::watch::Watch;
use crate::commands::warm::{Board, document, sentence};
use crate::exit::Failure;
use crate::inputs::Place;
use crate::screen;

/// Warming for a replay.
pub(super) struct Ahead {
    settings: SettingsFor,
    board: Board,
    is_quiet: bool,
}

/// Result of warming.
pub(super) struct Warmed(Result<warm::Report, warm::Error>);

/// Replays the logs, with warming if requested.
pub(super) fn run(
    ahead: Option<&Ahead>,
    source: &mut Source,
    target: &Opened,
    options: &Options,
    watch: &mut Watch,
) -> (Result<Report, replay::Error>, Option<Warmed>) {
    match ahead {
        Some(ahead) => {
            let (report, warmed) = ahead.replay(source, target, options, watch);
            (report, Some(warmed))
        }
        None => (replay::replay(source, target.target(), options, watch), None),
    }
}

impl Ahead {
    /// Returns the warming for these logs and this target.
    pub(super) fn new(
        named: &Named,
        followed: Option<&Store>,
        places: &[Place],
        command: &Replay,
        options: &Options,
        global: &Global,
    ) -> Result<Self, Failure> {
        let address = named.server("--warm")?.clone();
        let file = |place: &Place| match place {
            Place::File(path) => Ok(path.clone()),
            Place::Stdin => Err(Failure::NotBegun(anyhow!(
                "--warm reads the logs twice, but standard input can be read only once: give the logs as files"
            ))),
        };
        let logs = match followed {
            Some(store) => AppliedLogs::Store(store.path().to_owned()),
            None => AppliedLogs::Files(places.iter().map(file).collect::<Result<_, _>>()?),
        };
        let sessions = options.workers.get() as u64;
        let keyring = command.inputs.keyring();
        let filter = options.filter.clone();
        let settings = SettingsFor { address, logs, filter, keyring, threads: Threads::MEASURED, sessions };
        Ok(Self { settings, board: Board::default(), is_quiet: global.quiet })
    }

    /// Returns the status of warming, shared with its thread.
    pub(super) fn board(&self) -> Board {
        self.board.clone()
    }

    /// Reports why warming has stopped while the replay continues.
    fn remark(&self, warmed: &Result<warm::Report, warm::Error>) {
        let remark = match warmed {
            _ if self.is_quiet => return,
            Ok(report) if report.why == Why::NoGain => "--warm has stopped: it gains nothing".to_owned(),
            Ok(_) => return,
            Err(error) => format!("--warm has stopped: {error}"),
        };
        screen::remark(remark);
    }

    /// Replays the logs, and warms ahead of the replay until it ends.
    fn replay(
        &self,
        source: &mut Source,
        target: &Opened,
        options: &Options,
        watch: &mut Watch,
    ) -> (Result<Report, replay::Error>, Warmed) {
        let applier = Applier::default();
        thread::scope(|scope| {
            let ahead = scope.spawn(|| {
                let warmed = warm::warm_for(&applier, &self.settings, &mut Shown(&self.board));
                self.remark(&warmed);
                warmed
            });
            let over = Over(&applier);
            let mut told = Told { watch, applier: &applier, target };
            let report = replay::replay(source, target.target(), options, &mut told);
            drop(over);
            match ahead.join() {
                Ok(warmed) => (report, Warmed(warmed)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl Warmed {
    /// Returns the document of `bintide warm --json`, or the error.
    pub(super) fn document(&self) -> Value {
        match &self.0 {
            Ok(report) => document(report),
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        }
    }

    /// Returns a line for the result.
    pub(super) fn text(&self) -> String {
        match &self.0 {
            Ok(report) => sentence(report),
            Err(error) => format!("warming stopped: {error}"),
        }
    }
}

/// Observer of the replay that reports its position to the warming.
struct Told<'t> {
    watch: &'t mut Watch,
    applier: &'t Applier,
    target: &'t Opened,
}

impl Observer for Told<'_> {
    fn at(&mut self, status: &Status<'_>) -> ControlFlow<()> {
        if let Some(place) = &status.report.place {
            self.applier.is_at(&place.log, place.position);
        }
        self.applier.applies_in(self.target.connections());
        self.watch.at(status)
    }
}

/// Observer of the warming that publishes its status.
struct Shown<'b>(&'b Board);

impl warm::Observer for Shown<'_> {
    fn at(&mut self, status: &warm::Status) -> ControlFlow<()> {
        self.0.put(status);
        ControlFlow::Continue(())
    }
}

/// Guard that ends the warming when the replay ends.
struct Over<'a>(&'a Applier);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
