//! `--dry-run`: reports the work of a replay without changing anything.

use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::time::Instant;

use clap::Args;
use replay::{Error, Finding, Ground, Look, Options, Plan, Source};
use serde_json::{Value, json};

use crate::args::Global;
use crate::commands::replay::estimate::Estimate;
use crate::commands::replay::outlook;
use crate::commands::replay::print;
use crate::commands::replay::ready::Allow;
use crate::commands::replay::target::Named;
use crate::exit::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::progress::Progress;
use crate::screen::{self, Style};

/// Options of a dry run.
#[derive(Args, Debug)]
pub(super) struct Dry {
    /// Change nothing: read all logs, and report the amount of work, the parallelism, the savings of merged row
    /// changes, failed checks and the estimated time.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// With --dry-run: do not connect to the target; assume that it is empty.
    #[arg(long, requires = "dry_run")]
    offline: bool,
}

/// Report of a dry run.
pub(super) struct Outlook {
    pub(super) plan: Plan,
    pub(super) options: Options,
    /// Failed checks, and whether an option allows each.
    pub(super) findings: Vec<(Finding, bool)>,
    pub(super) estimate: Estimate,
}

impl Dry {
    /// Reads the logs and prints the report. Exit code 1 means that a replay would be refused.
    pub(super) fn run(
        &self,
        (named, is_logged): (Named, bool),
        (mut source, bytes_total): (Source, Option<u64>),
        options: Options,
        allow: &Allow,
        json: bool,
        global: &Global,
    ) -> Outcome {
        let begun = |error: Error| Failure::NotBegun(error.into());
        let began = Instant::now();
        let mut progress = Progress::new(global, bytes_total);
        let mut seen = |bytes| {
            progress.at(bytes);
            if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let (plan, mut findings) = match &named {
            Named::Mysql(address, apply_as) if !self.offline => {
                let mut look = Look::at(address).map_err(begun)?;
                let plan = replay::plan(&mut source, Ground::Mysql(&mut look), &options, &mut seen);
                let plan = plan.map_err(begun)?;
                let findings = look.findings(&plan.survey, *apply_as, is_logged).map_err(begun)?;
                (plan, findings)
            }
            Named::Sqlite(path) if !self.offline => {
                let plan = replay::plan(&mut source, Ground::Sqlite(path), &options, &mut seen);
                (plan.map_err(begun)?, Vec::new())
            }
            Named::Mysql(..) | Named::Sqlite(_) => {
                let plan = replay::plan(&mut source, Ground::None, &options, &mut seen);
                (plan.map_err(begun)?, Vec::new())
            }
        };
        drop(progress);
        findings.extend(Finding::commit_order(&plan.survey, options.order));
        let estimate = Estimate::new(&plan, &options, began.elapsed(), matches!(named, Named::Sqlite(_)));
        let with_verdict = |finding: Finding| (allow.allows(finding.check), finding);
        let findings = findings.into_iter().map(with_verdict).map(|(allowed, finding)| (finding, allowed));
        let outlook = Outlook { plan, options, findings: findings.collect(), estimate };
        put(&outlook, json, global)
    }
}

fn put(outlook: &Outlook, json: bool, global: &Global) -> Outcome {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &document(outlook)).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    } else {
        let style = Style::new(global.color.on_stdout());
        screen::print(&outlook::text(outlook, style), &mut out)?;
    }
    let is_refused = outlook.plan.refusals > 0 || outlook.findings.iter().any(|(_, allowed)| !allowed);
    Ok(if is_refused { Verdict::FaultsFound } else { Verdict::Fine })
}

fn document(outlook: &Outlook) -> Value {
    let Outlook { plan, options, findings, estimate } = outlook;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let width = |width: &replay::Width| json!({ "count": width.count, "longest_chain": width.chain, "at_once": width.average() });
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
            })
        })
        .collect();
    let findings: Vec<Value> = findings
        .iter()
        .map(|(finding, allowed)| {
            json!({ "check": finding.check.name(), "found": finding.found, "remedy": finding.remedy, "allowed": allowed })
        })
        .collect();
    json!({
        "transactions": plan.transactions,
        "skipped": plan.skipped,
        "alone": plan.alone,
        "clocked": plan.clocked,
        "bytes": plan.bytes_read,
        "commit_order": outlook::order(options.order),
        "parallel": outlook::mode(options.mode),
        "workers": options.workers,
        "at_once": width(&plan.units),
        "groups": plan.groups.as_ref().map(width),
        "tables": tables,
        "findings": findings,
        "refused": plan.refused,
        "refusals": plan.refusals,
        "late": plan.late.as_ref().map(print::late_document),
        "undecided": plan.undecided,
        "estimate": {
            "seconds": estimate.total().as_secs_f64(),
            "reading": estimate.reading.as_secs_f64(),
            "applying": estimate.applying.as_secs_f64(),
            "basis": estimate.basis(),
        },
    })
}
