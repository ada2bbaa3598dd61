//! Selection of transactions: start, stop, and exclusions.

use std::ops::ControlFlow;

use binlog::gtid::GtidSet;

use crate::replay_error::ReplayError;
use crate::source_transaction::TransactionHead;
use crate::transaction_source::TransactionSource;

/// Transactions of the logs to apply; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionSelection {
    /// Number of transactions to skip from the start. A compressed transaction counts as one.
    pub skip: u64,
    /// GTIDs to exclude.
    pub exclude: GtidSet,
    /// Start; everything before it is excluded.
    pub start: Option<SelectionStart>,
    /// Stop.
    pub stop: Option<SelectionStop>,
}

/// A boundary between two transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionBound {
    /// Before the first transaction that starts at or after this position of the source's log.
    Position {
        /// Name of the log on its own server.
        log: String,
        /// Bytes from the start of the log.
        position: u64,
    },
    /// Before the first transaction that the source committed at or after this time, in microseconds since 1970.
    Time(u64),
}

/// Start of a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionStart {
    /// At this boundary.
    At(SelectionBound),
    /// Before the first transaction of this set.
    AtGtid(GtidSet),
    /// After the first transaction of this set.
    AfterGtid(GtidSet),
}

impl SelectionStart {
    /// Returns the command-line option.
    pub(crate) const fn option(&self) -> &'static str {
        match self {
            Self::At(SelectionBound::Position { .. }) => "--start-position",
            Self::At(SelectionBound::Time(_)) => "--start-datetime",
            Self::AtGtid(_) => "--start-gtid",
            Self::AfterGtid(_) => "--start-after-gtid",
        }
    }
}

/// Stop of a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionStop {
    /// At this boundary.
    At(SelectionBound),
    /// Before the first transaction of this set.
    BeforeGtid(GtidSet),
    /// After the first transaction of this set.
    AfterGtid(GtidSet),
}

impl SelectionStop {
    /// Returns the command-line option.
    pub(crate) const fn option(&self) -> &'static str {
        match self {
            Self::At(SelectionBound::Position { .. }) => "--stop-position",
            Self::At(SelectionBound::Time(_)) => "--stop-datetime",
            Self::BeforeGtid(_) => "--stop-gtid",
            Self::AfterGtid(_) => "--stop-after-gtid",
        }
    }
}

/// Transactions after a stop by time that the source committed before that time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateTransactions {
    /// Number of transactions.
    pub transactions: u64,
    /// Reason why a log after the stop could not be read to its end. The number may be too low then.
    pub unread: Option<String>,
}

impl TransactionSelection {
    /// Returns whether logs before the first transaction that the target lacks need not be read. They must be read if
    /// the selection counts transactions or searches for a GTID.
    pub(crate) const fn can_skip_applied_logs(&self) -> bool {
        self.skip == 0 && self.start.is_none() && matches!(self.stop, None | Some(SelectionStop::At(_)))
    }
}

impl LateTransactions {
    /// Counts the late transactions in the rest of a source. They are not applied. Calls `on_progress` with the number
    /// of bytes read.
    pub(crate) fn count(
        source: &mut TransactionSource,
        limit: u64,
        on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Self {
        let mut late = Self::default();
        source.leave_out_logs_after(limit);
        while on_progress(source.bytes_read()).is_continue() {
            match source.next_found() {
                Ok(Some(found)) => late.transactions += u64::from(found.head().committed_us < limit),
                Ok(None) => break,
                Err(error) => {
                    late.unread = Some(error.to_string());
                    break;
                }
            }
        }
        late
    }
}

/// Decides for each transaction, in order, whether it is selected.
#[derive(Clone, Debug)]
pub struct TransactionSelector {
    selection: TransactionSelection,
    log_names: Vec<String>,
    /// Transactions since the start, once it has been reached.
    started: Option<u64>,
    is_stopped: bool,
}

/// Decision about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectionChoice {
    /// The transaction is selected.
    Take,
    /// The transaction is not selected.
    Leave,
    /// Neither this transaction nor any later one is selected.
    Stop,
}

impl TransactionSelector {
    /// Creates the selector for logs with these names on their own server.
    ///
    /// # Errors
    ///
    /// Fails if a position is in a log that is not in `log_names`.
    pub fn new(selection: &TransactionSelection, log_names: &[String]) -> Result<Self, ReplayError> {
        let stop = selection.stop.as_ref().and_then(|stop| match stop {
            SelectionStop::At(bound) => Some((stop.option(), bound)),
            _ => None,
        });
        let start = selection.start.as_ref().and_then(|start| match start {
            SelectionStart::At(bound) => Some((start.option(), bound)),
            _ => None,
        });
        for (option, bound) in start.into_iter().chain(stop) {
            if let SelectionBound::Position { log, .. } = bound
                && !log_names.contains(log)
            {
                let names = log_names.join(", ");
                return Err(ReplayError::Refused(format!("{option}: {log} is not among the logs ({names})")));
            }
        }
        let (selection, log_names) = (selection.clone(), log_names.to_vec());
        Ok(Self { started: None, is_stopped: false, selection, log_names })
    }

    /// Returns the decision about the next transaction.
    pub fn choose(&mut self, head: &TransactionHead) -> SelectionChoice {
        if self.is_stopped || self.stops_before(head) {
            self.is_stopped = true;
            return SelectionChoice::Stop;
        }
        self.is_stopped = self.stops_after(head);
        let Some(number) = self.number_since_start(head) else { return SelectionChoice::Leave };
        let is_excluded = head.gtid().is_some_and(|gtid| self.selection.exclude.contains(gtid));
        match is_excluded || number < self.selection.skip {
            true => SelectionChoice::Leave,
            false => SelectionChoice::Take,
        }
    }

    /// Returns whether the start was reached: the next transaction is selected, unless it is excluded or after the stop.
    pub const fn has_started(&self) -> bool {
        self.started.is_some() || self.selection.start.is_none()
    }

    /// Checks that the start and then the stop were reached. Called at the stop or at the end of the logs.
    ///
    /// # Errors
    ///
    /// Fails if the logs do not contain the GTID to stop at, or contain the stop before the start.
    pub fn finish(&self) -> Result<(), ReplayError> {
        match &self.selection.stop {
            Some(stop @ (SelectionStop::BeforeGtid(gtids) | SelectionStop::AfterGtid(gtids)))
                if !self.is_stopped =>
            {
                Err(missing_gtids(stop.option(), gtids))
            }
            _ if self.is_stopped && self.started.is_none() && self.names_start() => Err(stop_before_start()),
            _ => Ok(()),
        }
    }

    /// Returns whether the start is a transaction or a position. For a start by time, the logs need not contain a
    /// transaction.
    const fn names_start(&self) -> bool {
        match &self.selection.start {
            None | Some(SelectionStart::At(SelectionBound::Time(_))) => false,
            Some(SelectionStart::At(SelectionBound::Position { .. })) => true,
            Some(SelectionStart::AtGtid(_) | SelectionStart::AfterGtid(_)) => true,
        }
    }

    /// Returns the time of a stop by time.
    pub(crate) fn stop_time(&self) -> Option<u64> {
        match self.selection.stop {
            Some(SelectionStop::At(SelectionBound::Time(limit))) => Some(limit),
            _ => None,
        }
    }

    fn number_since_start(&mut self, head: &TransactionHead) -> Option<u64> {
        if let Some(number) = &mut self.started {
            *number += 1;
            return Some(*number);
        }
        let is_of = |set: &GtidSet| head.gtid().is_some_and(|gtid| set.contains(gtid));
        let is_here = match &self.selection.start {
            None => true,
            Some(SelectionStart::At(bound)) => is_at_or_after(bound, head, &self.log_names),
            Some(SelectionStart::AtGtid(set)) => is_of(set),
            Some(SelectionStart::AfterGtid(set)) => {
                if is_of(set) {
                    // The start is the next transaction.
                    self.selection.start = None;
                }
                false
            }
        };
        self.started = is_here.then_some(0);
        self.started
    }

    fn stops_before(&self, head: &TransactionHead) -> bool {
        match &self.selection.stop {
            Some(SelectionStop::At(bound)) => is_at_or_after(bound, head, &self.log_names),
            Some(SelectionStop::BeforeGtid(set)) => head.gtid().is_some_and(|gtid| set.contains(gtid)),
            _ => false,
        }
    }

    fn stops_after(&self, head: &TransactionHead) -> bool {
        match &self.selection.stop {
            Some(SelectionStop::AfterGtid(set)) => head.gtid().is_some_and(|gtid| set.contains(gtid)),
            _ => false,
        }
    }
}

/// Returns the error for a selection that ends before it begins.
pub(crate) fn stop_before_start() -> ReplayError {
    ReplayError::Refused(
        "no transaction is selected: the stop is not after the start. Correct the --start-… or --stop-… option"
            .to_owned(),
    )
}

/// Returns the error for GTIDs of a command-line option that none of the logs has.
pub(crate) fn missing_gtids(option: &str, gtids: &GtidSet) -> ReplayError {
    ReplayError::Refused(format!("{option}: the logs contain no transaction of {gtids}"))
}

fn is_at_or_after(bound: &SelectionBound, head: &TransactionHead, log_names: &[String]) -> bool {
    match bound {
        SelectionBound::Time(limit) => head.committed_us >= *limit,
        SelectionBound::Position { log, position } => {
            let number = log_names.iter().position(|name| name == log);
            let at = (head.origin.log_number, head.origin.start);
            number.is_some_and(|number| at >= (number, *position))
        }
    }
}

#[cfg(test)]
mod tests {
    use binlog::TransactionId;

    use super::{
        SelectionBound, SelectionChoice, SelectionStart, SelectionStop, TransactionSelection,
        TransactionSelector,
    };
    use crate::source_transaction::{TransactionHead, TransactionOrigin};

    /// Six transactions, three in each log, at 100, 200, 300; GTIDs 1 to 6. The fourth was committed before the third.
    fn check(selection: &TransactionSelection, expected: &str) {
        let names = ["b.1".to_owned(), "b.2".to_owned()];
        let mut selector = TransactionSelector::new(selection, &names).unwrap();
        let mut shown = String::new();
        for number in 0..6_u64 {
            let log_number = number as usize / 3;
            let start = 100 * (number % 3 + 1);
            let log = names[log_number].as_str().into();
            let origin = TransactionOrigin {
                log,
                log_name: names[log_number].as_str().into(),
                log_number,
                start,
                end: start + 50,
                file_range: start..start + 50,
            };
            let gtid = format!("00000000-0000-0000-0000-000000000001:{}", number + 1).parse().unwrap();
            let committed_us = [10, 20, 40, 30, 50, 60][number as usize];
            let head =
                TransactionHead { number, origin, id: TransactionId::Gtid(gtid), clock: None, committed_us };
            shown.push(match selector.choose(&head) {
                SelectionChoice::Take => '+',
                SelectionChoice::Leave => '-',
                SelectionChoice::Stop => '.',
            });
        }
        assert_eq!(shown, expected, "{selection:?}");
    }

    fn at(log: &str, position: u64) -> SelectionBound {
        SelectionBound::Position { log: log.to_owned(), position }
    }

    #[test]
    fn selections() {
        let all = TransactionSelection::default;
        let set = |text: &str| format!("00000000-0000-0000-0000-000000000001:{text}").parse().unwrap();
        check(&all(), "++++++");
        check(&TransactionSelection { skip: 2, ..all() }, "--++++");
        check(&TransactionSelection { exclude: set("2-3:6"), ..all() }, "+--++-");
        check(&TransactionSelection { start: Some(SelectionStart::At(at("b.1", 200))), ..all() }, "-+++++");
        check(&TransactionSelection { start: Some(SelectionStart::At(at("b.1", 201))), ..all() }, "--++++");
        check(&TransactionSelection { start: Some(SelectionStart::At(at("b.2", 4))), ..all() }, "---+++");
        check(
            &TransactionSelection { start: Some(SelectionStart::At(SelectionBound::Time(25))), ..all() },
            "--++++",
        );
        check(&TransactionSelection { start: Some(SelectionStart::AtGtid(set("3:5"))), ..all() }, "--++++");
        check(
            &TransactionSelection { start: Some(SelectionStart::AfterGtid(set("3:5"))), ..all() },
            "---+++",
        );
        check(&TransactionSelection { start: Some(SelectionStart::AfterGtid(set("6"))), ..all() }, "------");
        let start = Some(SelectionStart::AtGtid(set("3")));
        check(&TransactionSelection { start: start.clone(), skip: 1, ..all() }, "---+++");
        check(
            &TransactionSelection {
                start,
                exclude: set("4"),
                stop: Some(SelectionStop::AfterGtid(set("5"))),
                skip: 1,
            },
            "----+.",
        );
        check(&TransactionSelection { stop: Some(SelectionStop::At(at("b.2", 200))), ..all() }, "++++..");
        check(
            &TransactionSelection { stop: Some(SelectionStop::At(SelectionBound::Time(35))), ..all() },
            "++....",
        );
        check(&TransactionSelection { stop: Some(SelectionStop::BeforeGtid(set("4-5"))), ..all() }, "+++...");
        check(&TransactionSelection { stop: Some(SelectionStop::AfterGtid(set("4-5"))), ..all() }, "++++..");
    }

    #[test]
    fn the_transaction_to_stop_at_must_be_in_the_logs() {
        let set = || "00000000-0000-0000-0000-000000000001:4".parse().unwrap();
        let over = |stop| {
            let selection = TransactionSelection { stop, ..TransactionSelection::default() };
            TransactionSelector::new(&selection, &[]).unwrap().finish().map_err(|error| error.to_string())
        };
        assert_eq!(over(None), Ok(()));
        assert_eq!(over(Some(SelectionStop::At(SelectionBound::Time(5)))), Ok(()));
        for stop in [SelectionStop::BeforeGtid(set()), SelectionStop::AfterGtid(set())] {
            let error = over(Some(stop)).unwrap_err();
            assert!(error.contains("the logs contain no transaction of 0"), "{error}");
        }
    }

    #[test]
    fn a_position_in_another_log_is_refused() {
        let selection = TransactionSelection {
            start: Some(SelectionStart::At(at("b.3", 4))),
            ..TransactionSelection::default()
        };
        let error = TransactionSelector::new(&selection, &["b.1".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "--start-position: b.3 is not among the logs (b.1)");
    }
}
