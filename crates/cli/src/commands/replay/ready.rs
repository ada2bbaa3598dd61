//! Checks before a replay: whether the target fits the logs. They change nothing.

use anyhow::anyhow;
use clap::Args;
use replay::{Applied, Check, Finding, Log, Look, Options, Source, Survey};

use crate::args::Global;
use crate::commands::replay::status;
use crate::commands::replay::target::Named;
use crate::exit::{Advice, Failure};
use crate::screen;

/// Options that allow a replay in spite of failed checks.
#[derive(Args, Debug)]
#[command(next_help_heading = "Checks before the replay")]
pub(super) struct Allow {
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
    /// Apply the logs even if the account appears to lack privileges, as far as it gets.
    #[arg(long)]
    allow_missing_privileges: bool,
}

impl Allow {
    pub(super) const fn allows(&self, check: Check) -> bool {
        match check {
            Check::Gap => self.allow_gap,
            Check::Tables => self.allow_different_tables,
            Check::OtherSource => self.allow_other_source,
            Check::Privileges => self.allow_missing_privileges,
            _ => false,
        }
    }
}

/// Checks the logs and the target, and reports all failed checks at once. Returns the server_id of the server that
/// wrote the logs.
pub(super) fn check(
    named: &Named,
    logs: Option<Source>,
    options: &Options,
    is_logged: bool,
    allow: &Allow,
    global: &Global,
) -> Result<Option<u32>, Failure> {
    let begun = |error: replay::Error| Failure::NotBegun(error.into());
    let survey_for = |applied: &Applied| match logs {
        Some(mut source) => {
            Survey::of(&mut source, &options.selection, &options.filter, applied).map_err(begun)
        }
        None => Ok(Survey::default()),
    };
    let (survey, mut findings) = match named {
        Named::Mysql(address, apply_as) => {
            let mut look = Look::at(address).map_err(begun)?;
            let survey = survey_for(&look.applied())?;
            let findings = look.findings(&survey, *apply_as, is_logged).map_err(begun)?;
            (survey, findings)
        }
        Named::Sqlite(path) => {
            let applied = status::applied(path)?.unwrap_or_default();
            let survey = survey_for(&applied)?;
            let findings = Finding::gap(&survey, &applied).into_iter().collect();
            (survey, findings)
        }
    };
    findings.extend(Finding::commit_order(&survey, options.order));
    let (allowed, refused): (Vec<Finding>, Vec<Finding>) =
        findings.into_iter().partition(|finding| allow.allows(finding.check));
    for finding in allowed.iter().filter(|_| !global.quiet) {
        screen::remark(format_args!("allowed: {}: {}", finding.check.name(), finding.found));
    }
    if refused.is_empty() {
        return Ok(survey.writer);
    }
    Err(Failure::NotBegun(in_the_way(&refused)))
}

/// Prints all findings but the last, which becomes the error: an error is one line.
fn in_the_way(refused: &[Finding]) -> anyhow::Error {
    let Some((last, others)) = refused.split_last() else { return anyhow!("no check failed") };
    for finding in others {
        screen::remark(finding);
    }
    anyhow!("{last}").context(Advice("nothing was changed"))
}

/// Returns the logs if they can be read twice: if all are files.
pub(super) fn logs_to_look_at(logs: &[Log]) -> Option<Vec<Log>> {
    let all_are_files = logs.iter().all(|log| matches!(log, Log::File(_)));
    all_are_files.then(|| logs.to_vec())
}
