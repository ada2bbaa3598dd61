//! Checks before a replay: whether the logs can be applied to the target. The checks change nothing.

use anyhow::anyhow;
use clap::Args;
use logs::archived_contents;
use mysql_target::{TargetInspector, TargetLogChoice};
use replay::{
    AppliedState, LogSurvey, PreflightCheck, PreflightFinding, ReplayLog, ReplayOptions,
    TransactionSelection, TransactionSource,
};
use tracing::{error, info, warn};

use crate::commands::replay::status;
use crate::commands::replay::target::TargetAddress;
use crate::exit::{CommandFailure, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::log_args::{InputLocation, InputLogs, add_advice};
use crate::progress::ByteProgress;

/// Options that allow a replay in spite of failed checks.
#[derive(Args, Debug)]
#[command(next_help_heading = "Failed checks to allow")]
pub(super) struct AllowArgs {
    /// Apply the logs even if the target lacks transactions before the first log.
    #[arg(long)]
    pub(super) allow_gap: bool,
    /// Apply the logs even if the target's table definitions differ from the source's. As events, the server converts
    /// values as its replica_type_conversions allows, and ignores columns that it lacks. As SQL, values are rounded
    /// to the precision of the column; columns are matched by name if the log has names, otherwise both tables must
    /// have the same number of columns.
    #[arg(long)]
    allow_different_tables: bool,
    /// Apply the logs even if the target has applied logs of another server.
    #[arg(long)]
    allow_other_source: bool,
    /// Apply the logs even if the account appears to lack privileges. The replay stops at the first refused statement.
    #[arg(long)]
    allow_missing_privileges: bool,
}

impl AllowArgs {
    pub(super) const fn allows(&self, check: PreflightCheck) -> bool {
        match check {
            PreflightCheck::Gap => self.allow_gap,
            PreflightCheck::Tables => self.allow_different_tables,
            PreflightCheck::OtherSource => self.allow_other_source,
            PreflightCheck::Privileges => self.allow_missing_privileges,
            _ => false,
        }
    }
}

/// Checks the logs and the target, and reports all failed checks at once. Returns the server_id of the server that
/// wrote the logs.
pub(super) fn check(
    named: &TargetAddress,
    logs: Option<TransactionSource>,
    options: &ReplayOptions,
    choice: TargetLogChoice,
    allow: &AllowArgs,
) -> Result<Option<u32>, CommandFailure> {
    let begun = |error: replay::ReplayError| CommandFailure::NotStarted(error.into());
    let survey_for = |applied: &AppliedState| match logs {
        Some(mut source) => {
            LogSurvey::of(&mut source, &options.selection, &options.filter, applied).map_err(begun)
        }
        None => Ok(LogSurvey::default()),
    };
    let (survey, mut findings) = match named {
        TargetAddress::Mysql(address, apply_as) => {
            let mut inspector = TargetInspector::connect(address).map_err(begun)?;
            let survey = survey_for(&inspector.applied())?;
            let findings = inspector.findings(&survey, *apply_as, choice).map_err(begun)?;
            if findings.is_empty() {
                report_unlogged(&inspector, choice);
            }
            (survey, findings)
        }
        TargetAddress::Sqlite(path) => {
            let applied = status::applied(path)?.unwrap_or_default();
            let survey = survey_for(&applied)?;
            let findings = PreflightFinding::gap(&survey, &applied).into_iter().collect();
            (survey, findings)
        }
    };
    findings.extend(PreflightFinding::commit_order(&survey, options.order));
    let (allowed, refused): (Vec<PreflightFinding>, Vec<PreflightFinding>) =
        findings.into_iter().partition(|finding| allow.allows(finding.check));
    for finding in &allowed {
        warn!("{}", finding.allowed_text());
    }
    if !refused.is_empty() {
        return Err(CommandFailure::NotStarted(obstacles_error(&refused)));
    }
    match survey.position_error {
        Some(reason) => Err(CommandFailure::NotStarted(anyhow!(reason))),
        None => Ok(survey.writer),
    }
}

/// Reports that the target's binary log will not contain the changes, unless the user has chosen so, and whether the
/// target may have replicas that were not found.
pub(super) fn report_unlogged(inspector: &TargetInspector, choice: TargetLogChoice) {
    if !inspector.cannot_have_replicas(choice) {
        return;
    }
    info!(
        "the target's binary log will not contain these changes, so a replica of the target would not receive \
         them; --log writes them there, --no-log omits this message"
    );
    if let Some(reasons) = inspector.unknown_readers() {
        warn!("unknown whether the target has replicas: {reasons}");
    }
}

/// Prints all findings but the last, which becomes the error: an error is one line.
fn obstacles_error(refused: &[PreflightFinding]) -> anyhow::Error {
    let Some((last, others)) = refused.split_last() else { return anyhow!("no check failed") };
    for finding in others {
        error!("{finding}");
    }
    anyhow!("{last}").context(ErrorAdvice("nothing was changed"))
}

/// Time for which logs exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogLifetime {
    /// The logs are not purged.
    Fixed,
    /// The server may purge the logs.
    Followed,
}

/// Checks that indexes list all logs, and that all logs can be read: they exist, the user may read them, and their keys
/// are available. Damaged logs are applied up to the damage.
pub(super) fn check_logs(found: &InputLogs, lifetime: LogLifetime) -> Result<(), CommandFailure> {
    if lifetime == LogLifetime::Fixed {
        found.check_indexes()?;
    }
    // An archive has the manifests of its logs, and needs no key to read them.
    let is_checked = |location: &&InputLocation| match location {
        InputLocation::File(path) => archived_contents(path).is_none(),
        InputLocation::Stdin => false,
    };
    for location in found.locations.iter().filter(is_checked) {
        let Err(error) = found.open(location).and_then(|mut reader| reader.next_event().map(drop)) else {
            continue;
        };
        let is_key_missing =
            error.is_keyring_error() || matches!(error, logs::LogError::KeyringRequired { .. });
        if is_key_missing || lifetime == LogLifetime::Fixed && !error.is_damage() {
            return Err(CommandFailure::NotStarted(add_advice(error)));
        }
    }
    Ok(())
}

/// Checks that the logs contain the positions and GTIDs of the selection. Shows a progress bar, because this can read
/// all logs.
pub(super) fn check_bounds(
    selection: &TransactionSelection,
    logs: &[ReplayLog],
    found: &InputLogs,
    global: &GlobalArgs,
) -> Result<(), CommandFailure> {
    let mut progress = ByteProgress::new(global, found.bytes_total);
    let mut on_progress = |bytes| {
        progress.update(bytes);
        interrupt::stop_flow()
    };
    selection
        .check_bounds(logs, found.keyring.as_ref(), &mut on_progress)
        .map_err(|error| CommandFailure::NotStarted(error.into()))
}

/// Returns the logs if they can be read twice, that is, if all are files.
pub(super) fn logs_to_survey(logs: &[ReplayLog]) -> Option<Vec<ReplayLog>> {
    let all_are_files = logs.iter().all(|log| matches!(log, ReplayLog::File(_)));
    all_are_files.then(|| logs.to_vec())
}
