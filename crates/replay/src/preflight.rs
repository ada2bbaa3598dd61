//! What stands in the way of a replay, found before anything is changed.

use std::fmt;

use crate::order::CommitOrder;
use crate::progress::Applied;
use crate::survey::Survey;

/// One thing that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: Check,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub remedy: String,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Check {
    /// Has the account the privileges that a replay takes?
    Privileges,
    /// Does the target take changes?
    ReadOnly,
    /// Does the target apply changes of a source of its own?
    Applier,
    /// Does it take the files of `LOAD DATA`?
    LocalInfile,
    /// Does it take statements as long as those of the logs?
    Packet,
    /// Are its tables those of the logs?
    Tables,
    /// Can changes of its tables be undone, where a transaction that is logged is several statements?
    Transactions,
    /// Has it all that was run in front of the logs?
    Gap,
    /// Are these logs of the server whose logs were applied before?
    OtherSource,
    /// GTIDs of all transactions, without which commits cannot come in any order.
    CommitOrder,
}

impl Check {
    /// Its name, in messages and options.
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
        }
    }

    /// May a replay go on all the same, if its user says so?
    pub const fn can_be_allowed(self) -> bool {
        matches!(self, Self::Privileges | Self::Tables | Self::Gap | Self::OtherSource)
    }
}

impl Finding {
    pub(crate) fn new(check: Check, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, found: found.into(), remedy: remedy.into() }
    }

    /// Finds a transaction without a GTID where commits come in any order: only GTIDs can tell which of them came.
    pub fn commit_order(survey: &Survey, order: CommitOrder) -> Option<Self> {
        let unit = survey.without_gtid.as_ref().filter(|_| order == CommitOrder::Any)?;
        let found = format!("{unit} has no GTID, and --commit-order any saves progress by GTID");
        Some(Self::new(Check::CommitOrder, found, "use --commit-order grouped or strict"))
    }

    /// What a target that has this lacks of what was run in front of logs that were looked at.
    pub fn gap(survey: &Survey, applied: &Applied) -> Option<Self> {
        let missing = survey.previous.difference(&applied.executed).difference(&applied.progress.gtids);
        let found =
            format!("the target lacks {missing}, which the source ran before the first of these logs");
        (!missing.is_empty()).then(|| Self::new(Check::Gap, found, "give the logs that have them"))
    }
}

/// With what to do about it, the option that allows it included.
impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.check.name(), self.found)?;
        if !self.remedy.is_empty() {
            write!(out, "; {}", self.remedy)?;
        }
        match self.check.can_be_allowed() {
            true => write!(out, ", or --allow-{}", self.check.name()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Check, Finding};

    #[test]
    fn a_finding_says_what_to_do() {
        let check =
            |check, wanted: &str| assert_eq!(Finding::new(check, "found", "mend it").to_string(), wanted);
        check(Check::ReadOnly, "read-only: found; mend it");
        check(Check::Gap, "gap: found; mend it, or --allow-gap");
    }
}
