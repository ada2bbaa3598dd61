//! Has the target's pages in memory before they are needed: `--warm`.

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

/// What goes ahead of a replay.
pub(super) struct Ahead {
    settings: SettingsFor,
    board: Board,
    is_quiet: bool,
}

/// What that came to.
pub(super) struct Warmed(Result<warm::Report, warm::Error>);

/// Replays, with something ahead of it if that is wanted.
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
    /// Of these logs, to this target.
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
                "--warm: standard input can be read only once; give the logs as files"
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

    /// How it stands, while it goes on.
    pub(super) fn board(&self) -> Board {
        self.board.clone()
    }

    /// Says why it goes no further, if it does not while the replay does.
    fn remark(&self, warmed: &Result<warm::Report, warm::Error>) {
        let remark = match warmed {
            _ if self.is_quiet => return,
            Ok(report) if report.why == Why::NoGain => {
                "nothing is gained by --warm: it has stopped".to_owned()
            }
            Ok(_) => return,
            Err(error) => format!("--warm goes no further: {error}"),
        };
        screen::remark(remark);
    }

    /// Replays, and goes ahead of it until it is done.
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
    /// As `bintide warm --json` has it; or why it went no further.
    pub(super) fn document(&self) -> Value {
        match &self.0 {
            Ok(report) => document(report),
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        }
    }

    /// A line, for whoever reads the outcome.
    pub(super) fn text(&self) -> String {
        match &self.0 {
            Ok(report) => sentence(report),
            Err(error) => format!("nothing more was searched for ahead: {error}"),
        }
    }
}

/// Tells who goes ahead how far the replay is.
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

/// Whoever asks can see how it stands.
struct Shown<'b>(&'b Board);

impl warm::Observer for Shown<'_> {
    fn at(&mut self, status: &warm::Status) -> ControlFlow<()> {
        self.0.put(status);
        ControlFlow::Continue(())
    }
}

/// The replay is over, in whatever way it ends.
struct Over<'a>(&'a Applier);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
