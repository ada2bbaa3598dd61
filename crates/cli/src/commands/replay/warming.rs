//! `--warm`: reads the target's pages into memory ahead of the replay.

use std::ops::ControlFlow;
use std::thread;

use anyhow::anyhow;
use logs::Store;
use replay::{ReplayObserver, ReplayOptions, ReplayReport, ReplayStatus, TransactionSource};
use serde_json::Value;
use tracing::warn;
use warm::{AppliedLogs, ExternalApplier, ExternalApplierSettings, SearchConnections, WarmEndReason};

use crate::commands::replay::ReplayArgs;
use crate::commands::replay::replay_progress_monitor::ReplayProgressMonitor;
use crate::commands::replay::target::{OpenTarget, TargetAddress};
use crate::commands::warm::{SharedWarmStatus, document, sentence};
use crate::exit::CommandFailure;
use crate::log_args::InputLocation;

/// Warming for a replay.
pub(super) struct ReplayWarming {
    settings: ExternalApplierSettings,
    stats: SharedWarmStatus,
}

/// Result of warming.
pub(super) struct WarmingOutcome(Result<warm::WarmReport, warm::WarmError>);

/// Replays the logs, with warming if requested.
pub(super) fn run(
    ahead: Option<&ReplayWarming>,
    source: &mut TransactionSource,
    target: &OpenTarget,
    options: &ReplayOptions,
    watch: &mut ReplayProgressMonitor,
) -> (Result<ReplayReport, replay::ReplayError>, Option<WarmingOutcome>) {
    match ahead {
        Some(ahead) => {
            let (report, warmed) = ahead.replay(source, target, options, watch);
            (report, Some(warmed))
        }
        None => (replay::replay(source, target.target(), options, watch), None),
    }
}

impl ReplayWarming {
    /// Returns the warming for these logs and this target.
    pub(super) fn new(
        named: &TargetAddress,
        followed: Option<&Store>,
        locations: &[InputLocation],
        command: &ReplayArgs,
        options: &ReplayOptions,
    ) -> Result<Self, CommandFailure> {
        let address = named.server("--warm")?.clone();
        let file = |location: &InputLocation| match location {
            InputLocation::File(path) => Ok(path.clone()),
            InputLocation::Stdin => Err(CommandFailure::NotStarted(anyhow!(
                "--warm reads the logs twice, but standard input can be read only once: give the logs as files"
            ))),
        };
        let logs = match followed {
            Some(store) => AppliedLogs::Store(store.path().to_owned()),
            None => AppliedLogs::Files(locations.iter().map(file).collect::<Result<_, _>>()?),
        };
        let sessions = options.workers.get() as u64;
        let keyring = command.inputs.keyring();
        let filter = options.filter.clone();
        let settings = ExternalApplierSettings {
            address,
            logs,
            filter,
            keyring,
            threads: SearchConnections::MEASURED,
            sessions,
        };
        Ok(Self { settings, stats: SharedWarmStatus::default() })
    }

    /// Returns the status of warming, shared with its thread.
    pub(super) fn stats(&self) -> SharedWarmStatus {
        self.stats.clone()
    }

    /// Reports why warming has stopped while the replay continues.
    fn remark(&self, warmed: &Result<warm::WarmReport, warm::WarmError>) {
        let remark = match warmed {
            Ok(report) if report.end_reason == WarmEndReason::NoGain => {
                "--warm has stopped: no gain".to_owned()
            }
            Ok(_) => return,
            Err(error) => format!("--warm has stopped: {error}"),
        };
        warn!("{remark}");
    }

    /// Replays the logs, and warms ahead of the replay until it ends.
    fn replay(
        &self,
        source: &mut TransactionSource,
        target: &OpenTarget,
        options: &ReplayOptions,
        watch: &mut ReplayProgressMonitor,
    ) -> (Result<ReplayReport, replay::ReplayError>, WarmingOutcome) {
        let applier = ExternalApplier::default();
        thread::scope(|scope| {
            let ahead = scope.spawn(|| {
                let warmed = warm::warm_for(&applier, &self.settings, &mut WarmStatusObserver(&self.stats));
                self.stats.finish();
                self.remark(&warmed);
                warmed
            });
            let over = EndApplierOnDrop(&applier);
            let mut observer = WarmingObserver { watch, applier: &applier, target };
            let report = replay::replay(source, target.target(), options, &mut observer);
            drop(over);
            match ahead.join() {
                Ok(warmed) => (report, WarmingOutcome(warmed)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl WarmingOutcome {
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
            Err(error) => format!("--warm has stopped: {error}"),
        }
    }
}

/// Observer of the replay that reports its position to the warming.
struct WarmingObserver<'t> {
    watch: &'t mut ReplayProgressMonitor,
    applier: &'t ExternalApplier,
    target: &'t OpenTarget,
}

impl ReplayObserver for WarmingObserver<'_> {
    fn on_status(&mut self, status: &ReplayStatus<'_>) -> ControlFlow<()> {
        if let Some(position) = &status.report.position {
            self.applier.set_position(&position.log, status.report.file_position);
        }
        self.applier.set_sessions(self.target.connections());
        self.watch.on_status(status)
    }
}

/// Observer of the warming that publishes its status.
struct WarmStatusObserver<'b>(&'b SharedWarmStatus);

impl warm::WarmObserver for WarmStatusObserver<'_> {
    fn observe(&mut self, status: &warm::WarmStatus) -> ControlFlow<()> {
        self.0.set(status);
        ControlFlow::Continue(())
    }
}

/// Guard that ends the warming when the replay ends.
struct EndApplierOnDrop<'a>(&'a ExternalApplier);

impl Drop for EndApplierOnDrop<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}
