//! Check for transactions that the target already has.

use std::collections::BTreeSet;

use binlog::gtid::GtidSet;

use crate::replay_error::ReplayError;
use crate::replay_log::STDIN;
use crate::replay_progress::AppliedState;
use crate::source_position::SourcePosition;
use crate::source_transaction::TransactionHead;
use crate::transaction_selection::{SelectionChoice, TransactionSelector};

/// Whether a replay applies a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayDecision {
    Apply,
    /// The target has the transaction, or an overlapping log had it before.
    AlreadyApplied,
    NotSelected,
    /// This transaction and all later ones are after the stop.
    Stop,
}

/// Check for transactions that the target already has.
#[derive(Debug)]
pub(crate) struct AppliedCheck {
    applied: AppliedState,
    /// Number of the log that contains the saved position, for transactions without GTIDs. `Err` with the log's name if
    /// the replay does not read that log.
    saved_log: Option<Result<usize, String>>,
    /// Names that several logs have.
    repeated_names: BTreeSet<String>,
    /// GTIDs of all transactions read so far, applied or not.
    seen: GtidSet,
    /// Transactions that the target lacks, as was reported.
    passed: GtidSet,
    /// The last log that was checked.
    checked_log: Option<usize>,
    /// End of the last transaction read from the log with the saved position.
    saved_log_end: u64,
    /// `true` if at least one transaction was read from the log with the saved position, and all have GTIDs. Positions
    /// then do not matter.
    has_only_gtids: bool,
    /// Number of the log read last.
    last_log: usize,
}

impl AppliedCheck {
    pub(crate) fn new(applied: AppliedState, log_names: &[String]) -> Self {
        let saved_log = applied.progress.position.as_ref().map(|saved| {
            let number = log_names.iter().position(|name| *name == saved.log);
            number.ok_or_else(|| saved.log.clone())
        });
        let mut names = BTreeSet::new();
        let names_twice = log_names.iter().filter(|name| !names.insert(*name)).cloned().collect();
        Self {
            applied,
            saved_log,
            repeated_names: names_twice,
            seen: GtidSet::new(),
            passed: GtidSet::new(),
            checked_log: None,
            saved_log_end: 0,
            has_only_gtids: false,
            last_log: 0,
        }
    }

    /// Checks that the target, or an earlier log, has all transactions before this transaction's log.
    pub(crate) fn check_gap(
        &mut self,
        head: &TransactionHead,
        previous: &GtidSet,
    ) -> Result<(), ReplayError> {
        if self.checked_log.replace(head.origin.log_number) == Some(head.origin.log_number) {
            return Ok(());
        }
        let AppliedState { executed, progress, .. } = &self.applied;
        let missing = previous.difference(executed).difference(&progress.gtids).difference(&self.seen);
        let missing = missing.difference(&self.passed);
        match missing.is_empty() {
            true => Ok(()),
            false => Err(ReplayError::Gap { missing, log: head.origin.log.to_string() }),
        }
    }

    /// Records transactions whose absence was reported.
    pub(crate) fn pass_gap(&mut self, missing: &GtidSet) {
        self.passed.add_all(missing);
    }

    /// Decides whether the replay applies this transaction. Must be called once for each transaction, in order.
    ///
    /// # Errors
    ///
    /// Fails if the saved position is not in these logs, or the transaction's own position is ambiguous.
    pub(crate) fn decide(
        &mut self,
        head: &TransactionHead,
        selector: &mut TransactionSelector,
    ) -> Result<ReplayDecision, ReplayError> {
        self.check_position(head)?;
        let is_repeated = self.is_repeated(head)?;
        Ok(match selector.choose(head) {
            SelectionChoice::Take if is_repeated || self.is_applied(head)? => ReplayDecision::AlreadyApplied,
            SelectionChoice::Take => ReplayDecision::Apply,
            SelectionChoice::Leave => ReplayDecision::NotSelected,
            SelectionChoice::Stop => ReplayDecision::Stop,
        })
    }

    /// Checks that the saved position is between two transactions of its log. If it is not, the last replay read
    /// another log of the same name.
    fn check_position(&mut self, head: &TransactionHead) -> Result<(), ReplayError> {
        let Some(saved) = &self.applied.progress.position else { return Ok(()) };
        let origin = &head.origin;
        self.last_log = origin.log_number;
        let is_saved_log = match &self.saved_log {
            Some(Ok(number)) => *number == origin.log_number,
            _ => *origin.log_name == *saved.log,
        };
        if !is_saved_log {
            return self.check_position_reached(origin.log_number);
        }
        let is_first = self.saved_log_end == 0;
        self.has_only_gtids = head.gtid().is_some() && (is_first || self.has_only_gtids);
        self.saved_log_end = origin.end;
        let is_inside = origin.start < saved.position && saved.position < origin.end;
        match is_inside && head.gtid().is_none() {
            true => Err(another_log_error(saved, &format!("this position is inside {head}"))),
            false => Ok(()),
        }
    }

    /// Checks, at the end of all logs, that the log with the saved position extends to that position.
    pub(crate) fn check_end(&self) -> Result<(), ReplayError> {
        self.check_position_reached(self.last_log + 1)
    }

    /// Checks that the log with the saved position extends to that position. `next_log` is the number of the next log.
    fn check_position_reached(&self, next_log: usize) -> Result<(), ReplayError> {
        let end = self.saved_log_end;
        match (&self.applied.progress.position, &self.saved_log) {
            (Some(_), Some(_)) if self.has_only_gtids => Ok(()),
            (Some(saved), Some(Ok(number))) if *number < next_log && end < saved.position => {
                Err(another_log_error(saved, &format!("its last transaction ends at {end}")))
            }
            _ => Ok(()),
        }
    }

    /// Records the GTIDs of transactions that were not read because the replay applies none of them.
    pub(crate) fn note_left_out(&mut self, gtids: &GtidSet) {
        self.seen.add_all(gtids);
    }

    /// Returns whether an overlapping log had this transaction before.
    fn is_repeated(&mut self, head: &TransactionHead) -> Result<bool, ReplayError> {
        let name = &*head.origin.log_name;
        match head.gtid() {
            Some(gtid) => Ok(!self.seen.add(gtid)),
            None if self.repeated_names.contains(name) => Err(ReplayError::Refused(format!(
                "{head} has no GTID, and two of the logs are named {name}: the position is ambiguous. Give only \
                 one of these logs"
            ))),
            None => Ok(false),
        }
    }

    /// Returns whether the target has this transaction.
    fn is_applied(&self, head: &TransactionHead) -> Result<bool, ReplayError> {
        let progress = &self.applied.progress;
        if let Some(gtid) = head.gtid() {
            return Ok(progress.gtids.contains(gtid) || self.applied.executed.contains(gtid));
        }
        let start = head.origin.start_position();
        if progress.beyond.iter().any(|range| range.contains(&start)) {
            return Ok(true);
        }
        let (Some(saved_log), Some(saved)) = (&self.saved_log, &progress.position) else { return Ok(false) };
        if saved.log.starts_with(STDIN) && head.origin.log_name.starts_with(STDIN) {
            return match *head.origin.log_name == *saved.log {
                true => Ok(head.origin.end <= saved.position),
                false => Err(ReplayError::Refused(format!(
                    "{head} has no GTID, and the saved progress is of a different log from standard input: it is unknown \
                     which of them is later. Give the logs as files, in order. {START_OVER}"
                ))),
            };
        }
        match saved_log {
            Ok(number) if head.origin.log_number == *number => Ok(head.origin.end <= saved.position),
            Ok(number) => Ok(head.origin.log_number < *number),
            Err(log) => Err(ReplayError::Refused(format!(
                "{head} has no GTID, and the target's progress is at {saved}. Give {log} too. {START_OVER}"
            ))),
        }
    }
}

/// Remedy if the saved progress does not belong to the logs.
const START_OVER: &str =
    "To apply all, first run bintide replay --forget --to TARGET (SQLite: delete the file)";

/// Returns the error for a log in which the saved position is not between two transactions.
fn another_log_error(saved: &SourcePosition, found: &str) -> ReplayError {
    let log = &saved.log;
    ReplayError::Refused(format!(
        "the target's progress is at {saved}, but {log} is not the log that was applied: {found}. If \
         bintide compress or decompress has rewritten {log}, put its files positions.{log}* beside it. Otherwise, give \
         the log that was applied"
    ))
}

#[cfg(test)]
mod tests {
    use binlog::TransactionId;
    use binlog::gtid::GtidSet;

    use super::AppliedCheck;
    use crate::replay_progress::{AppliedState, ReplayProgress};
    use crate::source_position::SourcePosition;
    use crate::source_transaction::{TransactionHead, TransactionOrigin};

    const UUID: &str = "00000000-0000-0000-0000-000000000001";

    /// Returns a transaction in the log with this number and name; `gno` is the number in its GTID, if it has one.
    fn head(log_number: usize, log_name: &str, gno: Option<u64>) -> TransactionHead {
        let (log, log_name) = (log_name.into(), log_name.into());
        let origin = TransactionOrigin { log, log_name, log_number, start: 4, end: 99, file_range: 4..99 };
        let id = gno.map_or(TransactionId::Anonymous, |gno| {
            TransactionId::Gtid(format!("{UUID}:{gno}").parse().unwrap())
        });
        TransactionHead { number: 0, origin, id, clock: None, committed_us: 0 }
    }

    fn set(intervals: &str) -> GtidSet {
        format!("{UUID}:{intervals}").parse().unwrap()
    }

    #[test]
    fn a_log_that_is_missing_is_named() {
        let position = Some(SourcePosition { log: "b.000001".into(), position: 4 });
        let applied = AppliedState {
            progress: ReplayProgress { position, ..ReplayProgress::default() },
            ..AppliedState::default()
        };
        let skip = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            AppliedCheck::new(applied.clone(), &names).saved_log
        };
        assert_eq!(skip(&["b.000000", "b.000001"]), Some(Ok(1)));
        assert_eq!(skip(&["b.000002"]), Some(Err("b.000001".into())));
    }

    #[test]
    fn logs_from_standard_input_have_distinct_names() {
        let (one, other) = ("standard input (1 17 1700 349)", "standard input (1 17 1800 349)");
        let position = Some(SourcePosition { log: one.into(), position: 99 });
        let applied = AppliedState {
            progress: ReplayProgress { position, ..ReplayProgress::default() },
            ..AppliedState::default()
        };
        let skip = AppliedCheck::new(applied, &["standard input".to_owned()]);
        assert!(skip.is_applied(&head(0, one, None)).unwrap());
        let behind = head(0, one, None);
        let behind = TransactionHead { origin: TransactionOrigin { end: 100, ..behind.origin }, ..behind };
        assert!(!skip.is_applied(&behind).unwrap());
        let refused = skip.is_applied(&head(0, other, None)).unwrap_err().to_string();
        assert!(refused.contains("of a different log"), "{refused}");
        assert!(!skip.is_applied(&head(0, other, Some(7))).unwrap());
    }

    #[test]
    fn a_log_without_the_saved_position_is_refused() {
        let names = ["b.1".to_owned(), "b.2".to_owned()];
        let check = |position, units: &[TransactionHead]| {
            let position = Some(SourcePosition { log: "b.1".into(), position });
            let applied = AppliedState {
                progress: ReplayProgress { position, ..ReplayProgress::default() },
                ..AppliedState::default()
            };
            let mut skip = AppliedCheck::new(applied, &names);
            let all = units.iter().try_for_each(|unit| skip.check_position(unit));
            all.and_then(|()| skip.check_end()).map_err(|error| error.to_string())
        };
        let (one, two) = (head(0, "b.1", None), head(1, "b.2", None));
        assert_eq!(check(4, &[one.clone(), two.clone()]), Ok(()));
        assert_eq!(check(99, &[one.clone(), two.clone()]), Ok(()));
        for (position, units, expected) in [
            (50, vec![one.clone()], "this position is inside "),
            (100, vec![one.clone()], "its last transaction ends at 99"),
            (100, vec![one.clone(), two.clone()], "its last transaction ends at 99"),
            (100, vec![two.clone()], "its last transaction ends at 0"),
        ] {
            let refused = check(position, &units).unwrap_err();
            assert!(refused.contains(expected), "{position}: {refused}");
        }
        // GTIDs identify transactions, whatever the position is.
        let by_gtid = head(0, "b.1", Some(1));
        assert_eq!(check(50, &[by_gtid.clone(), two.clone()]), Ok(()));
        assert_eq!(check(100, &[by_gtid.clone(), two]), Ok(()));
        assert!(check(100, &[by_gtid, one]).is_err());
    }

    #[test]
    fn previous_gtids_are_on_the_target_or_in_earlier_logs() {
        let applied = AppliedState { executed: set("1-3"), ..AppliedState::default() };
        let mut skip = AppliedCheck::new(applied, &["b.1".to_owned(), "b.2".to_owned(), "b.4".to_owned()]);
        let mut check = |log, name, gno, previous: &str| {
            let unit = head(log, name, Some(gno));
            let gap = skip.check_gap(&unit, &set(previous)).map_err(|error| error.to_string());
            assert!(!skip.is_repeated(&unit).unwrap(), "{gno}");
            gap
        };
        assert_eq!(check(0, "b.1", 4, "1-3"), Ok(()));
        assert_eq!(check(0, "b.1", 5, "1-9"), Ok(()), "only with the first of a log");
        assert_eq!(check(1, "b.2", 6, "1-5"), Ok(()));
        let message = format!("the target lacks transactions that precede b.4: {UUID}:7-8");
        assert_eq!(check(2, "b.4", 9, "1-8"), Err(message));
    }

    #[test]
    fn repeated_transactions_are_recognised() {
        let mut skip = AppliedCheck::new(
            AppliedState::default(),
            &["b.1".to_owned(), "b.2".to_owned(), "b.1".to_owned()],
        );
        let mut is_again =
            |log, name, gno| skip.is_repeated(&head(log, name, gno)).map_err(|error| error.to_string());
        assert_eq!(is_again(0, "b.1", Some(1)), Ok(false));
        assert_eq!(is_again(1, "b.2", Some(2)), Ok(false));
        assert_eq!(is_again(2, "b.1", Some(1)), Ok(true));
        assert_eq!(is_again(1, "b.2", None), Ok(false));
        let refused = is_again(2, "b.1", None).unwrap_err();
        assert!(refused.contains("two of the logs are named b.1"), "{refused}");
    }
}
