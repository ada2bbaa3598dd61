//! Check for missing logs between the logs of an inverse.

use std::iter::Peekable;
use std::vec;

use anyhow::anyhow;
use binlog::gtid::GtidSet;
use replay::{SelectionBound, SelectionChoice, SelectionStart, TransactionHead, TransactionSelection};
use tracing::warn;

use crate::exit::{CommandFailure, ErrorAdvice};
use crate::log_args::{LogListing, NumberGap};

/// Check for missing logs between the logs of an inverse. Without the changes in a missing log, the inverse of earlier
/// changes restores rows that never existed together.
pub(super) struct GapCheck {
    gaps: Peekable<vec::IntoIter<NumberGap>>,
    /// GTIDs before the first log and of all transactions so far; `None` before the first transaction.
    seen: Option<GtidSet>,
    /// True if a missing log may have chosen transactions: the start is not a position in a log, or it was reached.
    has_begun: bool,
}

impl GapCheck {
    pub(super) fn new(gaps: Vec<NumberGap>, selection: &TransactionSelection) -> Self {
        let has_begun = matches!(selection.start, None | Some(SelectionStart::At(SelectionBound::Time(_))));
        Self { gaps: gaps.into_iter().peekable(), seen: None, has_begun }
    }

    /// Checks the logs before a transaction. `previous` has the GTIDs before the transaction's log. Must be called once
    /// for each transaction. A gap is allowed if the first transaction after it is not chosen.
    pub(super) fn check(
        &mut self,
        head: &TransactionHead,
        previous: &GtidSet,
        choice: SelectionChoice,
    ) -> Result<(), CommandFailure> {
        let mut crossed = None;
        while let Some(gap) = self.gaps.next_if(|gap| gap.next <= head.origin.log_number) {
            crossed = Some(gap);
        }
        let seen = self.seen.get_or_insert_with(|| previous.clone());
        let continues = !previous.is_empty() && previous.difference(seen).is_empty();
        seen.extend(head.gtid());
        let is_taken = choice == SelectionChoice::Take;
        let has_begun = self.has_begun;
        self.has_begun |= is_taken;
        match crossed.filter(|_| has_begun && is_taken && !continues) {
            Some(gap) if gap.listing == LogListing::Index => {
                let error = anyhow!("{gap}: the inverse would be incomplete");
                Err(CommandFailure::Failed(error.context(ErrorAdvice(
                    "give the missing logs, choose transactions with --gtid, or give only the logs before or after \
                     the gap",
                ))))
            }
            Some(gap) => {
                warn!("{gap}: the inverse is incomplete");
                Ok(())
            }
            None => Ok(()),
        }
    }
}
