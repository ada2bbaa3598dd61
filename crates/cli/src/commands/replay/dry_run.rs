//! `--dry-run`: reports the amount of work of a replay, and changes nothing.

use std::io;
use std::path::Path;
use std::time::Instant;

use clap::Args;
use mysql_target::{TargetInspector, TargetLogChoice};
use replay::{
    DraftRole, DryRunTarget, PreflightFinding, ReplayError, ReplayOptions, ReplayPlan, TableDefinitions,
    TransactionSource,
};
use serde_json::{Value, json};
#[cfg(feature = "sqlite")]
use sqlite_target::SchemaDraft;

use crate::commands::replay::checks::{self, AllowArgs};
use crate::commands::replay::dry_run_text;
use crate::commands::replay::replay_outcome;
use crate::commands::replay::target::TargetAddress;
use crate::commands::replay::time_estimate::{ESTIMATE_LIMITS, TimeEstimate};
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::output_format::OutputFormat;
use crate::progress::ByteProgress;
use crate::screen::{self, ReportStyle};

/// Options of a dry run.
#[derive(Args, Debug)]
pub(super) struct DryRunArgs {
    /// Change nothing: read all logs, and report the amount of work, the possible parallelism, the number of row
    /// changes before and after merging, failed checks and the estimated time.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// With --dry-run: do not connect to the target; assume that it is empty.
    #[arg(long, requires = "dry_run")]
    offline: bool,
}

/// Report of a dry run.
pub(super) struct DryRunReport {
    pub(super) plan: ReplayPlan,
    pub(super) options: ReplayOptions,
    pub(super) findings: Vec<DryRunFinding>,
    pub(super) estimate: TimeEstimate,
}

/// Failed check of a dry run.
pub(super) struct DryRunFinding {
    pub(super) finding: PreflightFinding,
    /// True if an option allows the replay in spite of this finding.
    pub(super) is_allowed: bool,
}

/// Target and logs of a dry run.
pub(super) struct DryRunInputs {
    pub(super) target: TargetAddress,
    pub(super) log_choice: TargetLogChoice,
    pub(super) source: TransactionSource,
    /// Bytes of the logs, if known.
    pub(super) bytes_total: Option<u64>,
    pub(super) options: ReplayOptions,
}

impl DryRunArgs {
    /// Reads the logs and prints the report. Exit code 1 means that a replay would be refused.
    pub(super) fn run(
        &self,
        inputs: DryRunInputs,
        allow: &AllowArgs,
        format: OutputFormat,
        global: &GlobalArgs,
    ) -> CommandResult {
        let DryRunInputs { target: named, log_choice, mut source, bytes_total, options } = inputs;
        let begun = |error: ReplayError| CommandFailure::NotStarted(error.into());
        let began = Instant::now();
        let mut progress = ByteProgress::new(global, bytes_total);
        let mut seen = |bytes| {
            progress.update(bytes);
            interrupt::stop_flow()
        };
        let mut inspector = match &named {
            TargetAddress::Mysql(address, _) if !self.offline => {
                Some(TargetInspector::connect(address).map_err(begun)?)
            }
            _ => None,
        };
        let target = match (&named, &mut inspector) {
            (_, Some(inspector)) => DryRunTarget {
                applied: inspector.applied(),
                tables: Some(inspector),
                draft: new_draft().map_err(begun)?,
                role: DraftRole::Lookup,
            },
            (TargetAddress::Sqlite(path), None) if !self.offline => sqlite_target(path).map_err(begun)?,
            (_, None) => {
                let role = match &named {
                    TargetAddress::Sqlite(_) => DraftRole::Target,
                    TargetAddress::Mysql(..) => DraftRole::Lookup,
                };
                DryRunTarget { draft: new_draft().map_err(begun)?, role, ..DryRunTarget::default() }
            }
        };
        let applied = target.applied.clone();
        let plan = replay::plan(&mut source, target, &options, &mut seen).map_err(begun)?;
        let mut findings = match (&named, &mut inspector) {
            (TargetAddress::Mysql(_, apply_as), Some(inspector)) => {
                let findings = inspector.findings(&plan.survey, *apply_as, log_choice).map_err(begun)?;
                if findings.is_empty() {
                    checks::report_unlogged(inspector, log_choice);
                }
                findings
            }
            _ => PreflightFinding::gap(&plan.survey, &applied).into_iter().collect(),
        };
        drop(progress);
        findings.extend(PreflightFinding::commit_order(&plan.survey, options.order));
        let estimate =
            TimeEstimate::new(&plan, &options, began.elapsed(), matches!(named, TargetAddress::Sqlite(_)));
        let findings = findings
            .into_iter()
            .map(|finding| DryRunFinding { is_allowed: allow.allows(finding.check), finding });
        let report = DryRunReport { plan, options, findings: findings.collect(), estimate };
        print_report(&report, format, global)
    }
}

/// Returns a draft of the tables that the logs define.
#[cfg(feature = "sqlite")]
fn new_draft() -> Result<Option<Box<dyn TableDefinitions>>, ReplayError> {
    Ok(Some(Box::new(SchemaDraft::new()?)))
}

/// Returns `None`: this build of bintide cannot apply definitions.
#[cfg(not(feature = "sqlite"))]
fn new_draft() -> Result<Option<Box<dyn TableDefinitions>>, ReplayError> {
    Ok(None)
}

/// Returns a SQLite database as a target, which need not exist.
#[cfg(feature = "sqlite")]
fn sqlite_target(path: &Path) -> Result<DryRunTarget<'static>, ReplayError> {
    let (draft, applied) = SchemaDraft::read_file(path)?;
    Ok(DryRunTarget { applied, draft: Some(Box::new(draft)), tables: None, role: DraftRole::Target })
}

/// Returns an empty target: this build of bintide cannot read the database.
#[cfg(not(feature = "sqlite"))]
fn sqlite_target(_: &Path) -> Result<DryRunTarget<'static>, ReplayError> {
    Ok(DryRunTarget::default())
}

fn print_report(report: &DryRunReport, format: OutputFormat, global: &GlobalArgs) -> CommandResult {
    let mut out = io::stdout().lock();
    screen::unless_closed(match format {
        OutputFormat::Json => write_document(&mut out, &document(report)),
        OutputFormat::Text => {
            let style = ReportStyle::new(global.color.on_stdout());
            screen::print(&dry_run_text::text(report, style), &mut out)
        }
    })?;
    let is_refused = report.plan.refusals > 0 || report.findings.iter().any(|found| !found.is_allowed);
    Ok(if is_refused { CommandVerdict::FaultsFound } else { CommandVerdict::Success })
}

fn document(report: &DryRunReport) -> Value {
    let DryRunReport { plan, options, findings, estimate } = report;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let width = |width: &replay::Parallelism| json!({ "count": width.count, "longest_chain": width.chain, "at_once": width.average() });
    let tables: Vec<Value> = plan
        .tables
        .iter()
        .map(|(name, changes)| {
            json!({
                "database": text(&name.database),
                "table": text(&name.table),
                "in_logs": changes.before,
                "applied": changes.after,
                "is_known": !plan.unknown.contains(name),
                "not_merged": plan.unmerged.get(name).map(ToString::to_string),
            })
        })
        .collect();
    let findings: Vec<Value> = findings
        .iter()
        .map(|DryRunFinding { finding, is_allowed }| {
            json!({ "check": finding.check.name(), "found": finding.found, "remedy": finding.remedy, "allowed": is_allowed })
        })
        .collect();
    json!({
        "transactions": plan.transactions,
        "skipped": plan.skipped,
        "alone": plan.alone,
        "clocked": plan.clocked,
        "bytes": plan.bytes_read,
        "commit_order": dry_run_text::order(options.order),
        "parallel": dry_run_text::mode(options.mode),
        "workers": options.workers,
        "at_once": width(&plan.units),
        "groups": plan.groups.as_ref().map(width),
        "tables": tables,
        "findings": findings,
        "refused": plan.refused,
        "refusals": plan.refusals,
        "late": plan.late.as_ref().map(replay_outcome::late_document),
        "undecided": plan.undecided,
        "estimate": {
            "seconds": estimate.total().as_secs_f64(),
            "reading": estimate.reading.as_secs_f64(),
            "applying": estimate.applying.as_secs_f64(),
            "basis": format!("{}. {ESTIMATE_LIMITS}", estimate.figures().join("; ")),
        },
    })
}
