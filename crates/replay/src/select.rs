//! Selection of transactions: start, stop, and exclusions.

use std::ops::ControlFlow;

use binlog::PayloadOpener;
use binlog::gtid::GtidSet;

use crate::ends::missing;
use crate::error::Error;
use crate::source::Source;
use crate::unit::Head;

/// Transactions of the logs to apply; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Number of transactions to skip from the start. A compressed one counts as one.
    pub skip: u64,
    /// GTIDs to exclude.
    pub exclude: GtidSet,
    /// Start; everything before it is excluded.
    pub start: Option<Start>,
    /// Stop.
    pub stop: Option<Stop>,
}

/// A boundary between two transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Before the first transaction that starts at or after this position.
    Position {
        /// Name of the log on its own server.
        log: String,
        /// Bytes from the start of the log.
        position: u64,
    },
    /// Before the first transaction that was committed after this time, in microseconds since 1970.
    Time(u64),
}

/// Start of a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this boundary.
    At(Bound),
    /// Before the first transaction of this set.
    AtGtid(GtidSet),
    /// After the first transaction of this set.
    AfterGtid(GtidSet),
}

/// Stop of a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// At this boundary.
    At(Bound),
    /// Before the first transaction of this set.
    BeforeGtid(GtidSet),
    /// After the first transaction of this set.
    AfterGtid(GtidSet),
}

/// Transactions after a stop by time that were committed before that time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Number of transactions.
    pub transactions: u64,
    /// Reason why the number may be too low: a log after the stop could not be read to its end.
    pub unread: Option<String>,
}

impl Selection {
    /// Returns whether logs before the first transaction that the target lacks need not be read. They must be read if
    /// the selection counts transactions or searches for a GTID.
    pub(crate) const fn can_start_behind(&self) -> bool {
        self.skip == 0 && self.start.is_none() && matches!(self.stop, None | Some(Stop::At(_)))
    }
}

impl Late {
    /// Counts the late transactions in the rest of a source, which are not applied. `go_on` gets the number of bytes
    /// read.
    pub(crate) fn of(
        source: &mut Source,
        limit: u64,
        opener: &mut PayloadOpener,
        go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Self {
        let mut late = Self::default();
        while go_on(source.bytes_read()).is_continue() {
            match source.next_found(opener) {
                Ok(Some(found)) => late.transactions += u64::from(found.head().committed_us <= limit),
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
pub(crate) struct Selector {
    selection: Selection,
    log_names: Vec<String>,
    /// Transactions since the start, once it has been reached.
    started: Option<u64>,
    is_stopped: bool,
}

/// Decision about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Take,
    Leave,
    /// Leave out this transaction and all after it.
    Stop,
}

impl Selector {
    /// # Errors
    ///
    /// When a position is in a log that is not among these.
    pub(crate) fn new(selection: &Selection, log_names: &[String]) -> Result<Self, Error> {
        let stop = selection.stop.as_ref().and_then(|stop| match stop {
            Stop::At(bound) => Some(bound),
            _ => None,
        });
        let start = selection.start.as_ref().and_then(|start| match start {
            Start::At(bound) => Some(bound),
            _ => None,
        });
        for bound in start.into_iter().chain(stop) {
            if let Bound::Position { log, .. } = bound
                && !log_names.contains(log)
            {
                let names = log_names.join(", ");
                return Err(Error::Refused(format!(
                    "start or stop not found: {log} is not one of the logs: {names}"
                )));
            }
        }
        let (selection, log_names) = (selection.clone(), log_names.to_vec());
        Ok(Self { started: None, is_stopped: false, selection, log_names })
    }

    /// Returns the decision about the next transaction.
    pub(crate) fn choose(&mut self, head: &Head) -> Choice {
        if self.is_stopped || self.stops_before(head) {
            self.is_stopped = true;
            return Choice::Stop;
        }
        self.is_stopped = self.stops_behind(head);
        let Some(number) = self.number_since_start(head) else { return Choice::Leave };
        let is_excluded = head.gtid().is_some_and(|gtid| self.selection.exclude.contains(gtid));
        match is_excluded || number < self.selection.skip {
            true => Choice::Leave,
            false => Choice::Take,
        }
    }

    /// Checks, at the end of the logs, that the stop was reached.
    ///
    /// # Errors
    ///
    /// When the logs do not have the GTID to stop at.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        match &self.selection.stop {
            Some(Stop::BeforeGtid(gtids) | Stop::AfterGtid(gtids)) if !self.is_stopped => Err(missing(gtids)),
            _ => Ok(()),
        }
    }

    /// Returns the time of a stop by time.
    pub(crate) fn stop_time(&self) -> Option<u64> {
        match self.selection.stop {
            Some(Stop::At(Bound::Time(limit))) => Some(limit),
            _ => None,
        }
    }

    fn number_since_start(&mut self, head: &Head) -> Option<u64> {
        if let Some(number) = &mut self.started {
            *number += 1;
            return Some(*number);
        }
        let is_of = |set: &GtidSet| head.gtid().is_some_and(|gtid| set.contains(gtid));
        let is_here = match &self.selection.start {
            None => true,
            Some(Start::At(bound)) => is_at_or_behind(bound, head, &self.log_names),
            Some(Start::AtGtid(set)) => is_of(set),
            Some(Start::AfterGtid(set)) => {
                if is_of(set) {
                    // The start is the next one.
                    self.selection.start = None;
                }
                false
            }
        };
        self.started = is_here.then_some(0);
        self.started
    }

    fn stops_before(&self, head: &Head) -> bool {
        match &self.selection.stop {
            Some(Stop::At(bound)) => is_at_or_behind(bound, head, &self.log_names),
            Some(Stop::BeforeGtid(set)) => head.gtid().is_some_and(|gtid| set.contains(gtid)),
            _ => false,
        }
    }

    fn stops_behind(&self, head: &Head) -> bool {
        match &self.selection.stop {
            Some(Stop::AfterGtid(set)) => head.gtid().is_some_and(|gtid| set.contains(gtid)),
            _ => false,
        }
    }
}

fn is_at_or_behind(bound: &Bound, head: &Head, log_names: &[String]) -> bool {
    match bound {
        Bound::Time(limit) => head.committed_us > *limit,
        Bound::Position { log, position } => {
            let number = log_names.iter().position(|name| name == log);
            let at = (head.origin.log_number, head.origin.start);
            number.is_some_and(|number| at >= (number, *position))
        }
    }
}

#[cfg(test)]
mod tests {
    use binlog::TransactionId;

    use super::{Bound, Choice, Selection, Selector, Start, Stop};
    use crate::unit::{Head, Origin};

    /// Six transactions, three in each log, at 100, 200, 300; GTIDs 1 to 6. The fourth was committed before the third.
    fn check(selection: &Selection, wanted: &str) {
        let names = ["b.1".to_owned(), "b.2".to_owned()];
        let mut selector = Selector::new(selection, &names).unwrap();
        let mut shown = String::new();
        for number in 0..6_u64 {
            let log_number = number as usize / 3;
            let start = 100 * (number % 3 + 1);
            let log = names[log_number].as_str().into();
            let origin = Origin {
                log,
                log_name: names[log_number].as_str().into(),
                log_number,
                start,
                end: start + 50,
            };
            let gtid = format!("00000000-0000-0000-0000-000000000001:{}", number + 1).parse().unwrap();
            let committed_us = [10, 20, 40, 30, 50, 60][number as usize];
            let head = Head { number, origin, id: TransactionId::Gtid(gtid), clock: None, committed_us };
            shown.push(match selector.choose(&head) {
                Choice::Take => '+',
                Choice::Leave => '-',
                Choice::Stop => '.',
            });
        }
        assert_eq!(shown, wanted, "{selection:?}");
    }

    fn at(log: &str, position: u64) -> Bound {
        Bound::Position { log: log.to_owned(), position }
    }

    #[test]
    fn selections() {
        let all = Selection::default;
        let set = |text: &str| format!("00000000-0000-0000-0000-000000000001:{text}").parse().unwrap();
        check(&all(), "++++++");
        check(&Selection { skip: 2, ..all() }, "--++++");
        check(&Selection { exclude: set("2-3:6"), ..all() }, "+--++-");
        check(&Selection { start: Some(Start::At(at("b.1", 200))), ..all() }, "-+++++");
        check(&Selection { start: Some(Start::At(at("b.1", 201))), ..all() }, "--++++");
        check(&Selection { start: Some(Start::At(at("b.2", 4))), ..all() }, "---+++");
        check(&Selection { start: Some(Start::At(Bound::Time(25))), ..all() }, "--++++");
        check(&Selection { start: Some(Start::AtGtid(set("3:5"))), ..all() }, "--++++");
        check(&Selection { start: Some(Start::AfterGtid(set("3:5"))), ..all() }, "---+++");
        check(&Selection { start: Some(Start::AfterGtid(set("6"))), ..all() }, "------");
        let start = Some(Start::AtGtid(set("3")));
        check(&Selection { start: start.clone(), skip: 1, ..all() }, "---+++");
        check(
            &Selection { start, exclude: set("4"), stop: Some(Stop::AfterGtid(set("5"))), skip: 1 },
            "----+.",
        );
        check(&Selection { stop: Some(Stop::At(at("b.2", 200))), ..all() }, "++++..");
        check(&Selection { stop: Some(Stop::At(Bound::Time(35))), ..all() }, "++....");
        check(&Selection { stop: Some(Stop::BeforeGtid(set("4-5"))), ..all() }, "+++...");
        check(&Selection { stop: Some(Stop::AfterGtid(set("4-5"))), ..all() }, "++++..");
    }

    #[test]
    fn a_transaction_to_stop_at_must_have_come() {
        let set = || "00000000-0000-0000-0000-000000000001:4".parse().unwrap();
        let over = |stop| {
            let selection = Selection { stop, ..Selection::default() };
            Selector::new(&selection, &[]).unwrap().finish().map_err(|error| error.to_string())
        };
        assert_eq!(over(None), Ok(()));
        assert_eq!(over(Some(Stop::At(Bound::Time(5)))), Ok(()));
        for stop in [Stop::BeforeGtid(set()), Stop::AfterGtid(set())] {
            let error = over(Some(stop)).unwrap_err();
            assert!(error.contains("none of these logs has a transaction of 0"), "{error}");
        }
    }

    #[test]
    fn a_place_in_another_log_is_refused() {
        let selection = Selection { start: Some(Start::At(at("b.3", 4))), ..Selection::default() };
        let error = Selector::new(&selection, &["b.1".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "start or stop not found: b.3 is not one of the logs: b.1");
    }
}
