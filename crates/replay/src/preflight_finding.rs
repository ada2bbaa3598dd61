//! Obstacles to a replay, found before the replay changes anything.

use std::fmt;

use crate::commit_order::CommitOrder;
use crate::log_survey::LogSurvey;
use crate::replay_progress::AppliedState;

/// One obstacle to a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreflightFinding {
    /// The check that failed.
    pub check: PreflightCheck,
    /// Description of the obstacle.
    pub found: String,
    /// Remedy.
    pub remedy: String,
}

/// Checks made before a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PreflightCheck {
    /// The account has the privileges that a replay needs.
    Privileges,
    /// The target accepts changes.
    ReadOnly,
    /// The target is not itself an active replica of another source.
    Applier,
    /// The target accepts the files of `LOAD DATA`.
    LocalInfile,
    /// The target accepts statements as long as those in the logs.
    Packet,
    /// The target's tables match those in the logs.
    Tables,
    /// The target can roll back changes of the tables in transactions with several statements.
    Transactions,
    /// The target has everything that ran before the logs.
    Gap,
    /// The logs come from the same server as the logs applied before.
    OtherSource,
    /// All transactions have GTIDs, which commits in any order need.
    CommitOrder,
    /// No replica reads the target's binary log, which will not contain the changes.
    ReplicasBelow,
}

impl PreflightCheck {
    /// Returns the check's name, as used in messages and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Privileges => "missing-privileges",
            Self::ReadOnly => "read-only",
            Self::Applier => "applier",
            Self::LocalInfile => "local-infile",
            Self::Packet => "packet",
            Self::Tables => "different-tables",
            Self::Transactions => "no-transactions",
            Self::Gap => "gap",
            Self::OtherSource => "other-source",
            Self::CommitOrder => "commit-order",
            Self::ReplicasBelow => "replicas-below",
        }
    }

    /// Returns whether the user may allow a replay in spite of a finding.
    pub const fn can_be_allowed(self) -> bool {
        matches!(self, Self::Privileges | Self::Tables | Self::Gap | Self::OtherSource)
    }
}

impl PreflightFinding {
    /// Creates a finding.
    pub fn new(check: PreflightCheck, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, found: found.into(), remedy: remedy.into() }
    }

    /// Returns a finding for a transaction without GTID if commits come in any order: only GTIDs then identify the
    /// applied transactions.
    pub fn commit_order(survey: &LogSurvey, order: CommitOrder) -> Option<Self> {
        let unit = survey.without_gtid.as_ref().filter(|_| order == CommitOrder::Any)?;
        let found = format!("{unit} has no MySQL GTID, and --commit-order any saves progress by GTID");
        Some(Self::new(PreflightCheck::CommitOrder, found, "use --commit-order grouped or strict"))
    }

    /// Returns a finding if the target lacks transactions that precede the surveyed logs.
    pub fn gap(survey: &LogSurvey, applied: &AppliedState) -> Option<Self> {
        let missing = survey.previous.difference(&applied.executed).difference(&applied.progress.gtids);
        let found = format!("the target lacks transactions that precede the first log: {missing}");
        let remedy = match missing == survey.previous {
            true => {
                "if the target was restored from a backup, set its gtid_purged to the GTID set of the backup; otherwise \
                 give the logs that contain them"
            }
            false => "give the logs that contain them",
        };
        (!missing.is_empty()).then(|| Self::new(PreflightCheck::Gap, found, remedy))
    }

    /// Returns the message about an obstacle that the user has allowed, without the remedy.
    ///
    /// # Panics
    ///
    /// If the check [cannot be allowed](PreflightCheck::can_be_allowed).
    pub fn allowed_text(&self) -> String {
        assert!(self.check.can_be_allowed(), "ours: an option allows this check");
        format!("allowed by --allow-{}: {}", self.check.name(), self.found)
    }
}

/// Includes the remedy and the option that allows the obstacle.
impl fmt::Display for PreflightFinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.check.name(), self.found)?;
        if !self.remedy.is_empty() {
            write!(out, "; {}", self.remedy)?;
        }
        match self.check.can_be_allowed() {
            true => write!(out, "; to replay anyway, give --allow-{}", self.check.name()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PreflightCheck, PreflightFinding};

    #[test]
    fn a_finding_says_what_to_do() {
        let check = |check, expected: &str| {
            assert_eq!(PreflightFinding::new(check, "found", "mend it").to_string(), expected)
        };
        check(PreflightCheck::ReadOnly, "read-only: found; mend it");
        check(PreflightCheck::Gap, "gap: found; mend it; to replay anyway, give --allow-gap");
        let allowed = PreflightFinding::new(PreflightCheck::Gap, "found", "mend it").allowed_text();
        assert_eq!(allowed, "allowed by --allow-gap: found");
    }
}
