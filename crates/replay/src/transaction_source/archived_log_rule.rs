//! Archived logs that need not be read: their manifests show that the replay applies none of their transactions.

use binlog::gtid::GtidSet;
use logs::{ArchivedContents, archived_contents};
use sql::TableSelection;

use crate::replay_log::ReplayLog;
use crate::replay_progress::AppliedState;
use crate::transaction_selection::{SelectionBound, SelectionStart, SelectionStop, TransactionSelection};

/// Rule that decides which archived logs are left out.
#[derive(Debug, Default)]
pub(super) struct ArchivedLogRule {
    /// Selection and progress; `None` to read all logs.
    known: Option<ReplayScope>,
    /// Time of the stop that was reached, in microseconds since 1970.
    late_limit: Option<u64>,
}

/// Transactions that a replay needs.
#[derive(Debug)]
struct ReplayScope {
    start: Option<SelectionStart>,
    stop: Option<SelectionStop>,
    /// Transactions that the target has, or that are excluded.
    unneeded: GtidSet,
    /// Log with the saved position.
    saved_log: Option<String>,
    /// Tables whose changes are needed, once the start was reached; `None` for all changes.
    tables: Option<TableSelection>,
}

/// Position of a log among all logs of a replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogListPosition<'n> {
    /// Number of the log, from 0.
    pub(super) number: usize,
    /// Names of all logs.
    pub(super) names: &'n [String],
    /// `true` if no earlier log was read.
    pub(super) is_leading: bool,
}

impl ArchivedLogRule {
    /// Creates the rule for a selection and the progress of a target. A selection that counts transactions needs all
    /// logs.
    pub(super) fn new(selection: &TransactionSelection, applied: &AppliedState) -> Self {
        let known = (selection.skip == 0).then(|| ReplayScope {
            start: selection.start.clone(),
            stop: selection.stop.clone(),
            unneeded: applied.executed.union(&applied.progress.gtids).union(&selection.exclude),
            saved_log: applied.progress.position.as_ref().map(|position| position.log.clone()),
            tables: None,
        });
        Self { known, late_limit: None }
    }

    /// Records that a stop by time was reached: only transactions committed before that time matter now.
    pub(super) fn set_late_limit(&mut self, limit_us: u64) {
        self.late_limit = Some(limit_us);
    }

    /// Records that the start was reached, and that only changes of these tables are needed.
    pub(super) fn set_tables(&mut self, tables: TableSelection) {
        if let Some(scope) = &mut self.known {
            scope.tables = Some(tables).filter(|tables| !tables.selects_all());
        }
    }

    /// Returns the contents of a log that is left out.
    pub(super) fn unneeded(
        &self,
        log: &ReplayLog,
        position: LogListPosition<'_>,
    ) -> Option<ArchivedContents> {
        let scope = self.known.as_ref()?;
        let ReplayLog::File(path) = log else { return None };
        let contents = archived_contents(path)?;
        let is_unneeded = match self.late_limit {
            Some(limit) => contents.has_whole_transactions && !contents.may_have_commits(None, Some(limit)),
            None => scope.can_leave_out(&contents, position),
        };
        is_unneeded.then_some(contents)
    }
}

impl ReplayScope {
    fn can_leave_out(&self, contents: &ArchivedContents, position: LogListPosition<'_>) -> bool {
        let name = position.names.get(position.number);
        let Some(gtids) = &contents.gtids else { return false };
        // The last transaction of a relay log may continue in the next log.
        if !contents.has_whole_transactions || name.is_some() && name == self.saved_log.as_ref() {
            return false;
        }
        let is_unneeded = self.changes_other_tables(contents) || !self.may_select(gtids, contents, position);
        is_unneeded && !self.has_stop(gtids, contents, name)
    }

    /// Returns whether the log certainly changes none of the needed tables.
    fn changes_other_tables(&self, contents: &ArchivedContents) -> bool {
        self.tables.as_ref().is_some_and(|tables| {
            !contents
                .may_change_table(|database, table| tables.selects(database.as_bytes(), table.as_bytes()))
        })
    }

    /// Returns whether the selection may stop in this log.
    fn has_stop(&self, gtids: &GtidSet, contents: &ArchivedContents, name: Option<&String>) -> bool {
        match &self.stop {
            None => false,
            Some(SelectionStop::At(SelectionBound::Time(stop))) => {
                contents.may_have_commits(Some(*stop), None)
            }
            Some(SelectionStop::At(SelectionBound::Position { log, .. })) => name == Some(log),
            Some(SelectionStop::BeforeGtid(set) | SelectionStop::AfterGtid(set)) => gtids.intersects(set),
        }
    }

    fn may_select(
        &self,
        gtids: &GtidSet,
        contents: &ArchivedContents,
        position: LogListPosition<'_>,
    ) -> bool {
        match &self.start {
            None => !(contents.all_have_gtids() && gtids.is_subset(&self.unneeded)),
            // An earlier log may have contained the start.
            Some(_) if !position.is_leading => true,
            Some(SelectionStart::At(SelectionBound::Time(start))) => {
                contents.may_have_commits(Some(*start), None)
            }
            Some(SelectionStart::At(SelectionBound::Position { log, .. })) => position
                .names
                .iter()
                .position(|name| name == log)
                .is_none_or(|start| position.number >= start),
            Some(SelectionStart::AtGtid(set) | SelectionStart::AfterGtid(set)) => gtids.intersects(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use binlog::gtid::GtidSet;
    use logs::ArchivedContents;
    use sql::{TablePattern, TableSelection};

    use super::{ArchivedLogRule, LogListPosition};
    use crate::replay_progress::AppliedState;
    use crate::transaction_selection::{SelectionBound, SelectionStart, SelectionStop, TransactionSelection};

    fn set(numbers: &str) -> GtidSet {
        format!("00000000-0000-0000-0000-000000000001:{numbers}").parse().unwrap()
    }

    /// Checks a log with the transactions 11 to 20 of the seconds 100 to 110, the second of three logs.
    #[track_caller]
    fn check(selection: TransactionSelection, applied: &str, is_leading: bool, expected: bool) {
        let executed = if applied.is_empty() { GtidSet::new() } else { set(applied) };
        let applied = AppliedState { executed, ..AppliedState::default() };
        let rule = ArchivedLogRule::new(&selection, &applied);
        let contents = ArchivedContents {
            gtids: Some(set("11-20")),
            transactions: 10,
            times: Some((100, 110)),
            has_whole_transactions: true,
            ..ArchivedContents::default()
        };
        let names = ["b.000001", "b.000002", "b.000003"].map(str::to_owned);
        let position = LogListPosition { number: 1, names: &names, is_leading };
        let scope = rule.known.as_ref();
        let found = scope.is_some_and(|scope| scope.can_leave_out(&contents, position));
        assert_eq!(found, expected, "{selection:?}");
        let relay = ArchivedContents { has_whole_transactions: false, ..contents };
        assert!(!scope.is_some_and(|scope| scope.can_leave_out(&relay, position)));
    }

    #[test]
    fn applied_and_excluded_logs_are_left_out() {
        let all = TransactionSelection::default;
        check(all(), "1-20", false, true);
        check(all(), "1-19", false, false);
        check(TransactionSelection { exclude: set("20"), ..all() }, "1-19", false, true);
        check(TransactionSelection { skip: 1, ..all() }, "1-20", false, false);
    }

    #[test]
    fn logs_without_gtid_events_are_read() {
        let rule = ArchivedLogRule::new(&TransactionSelection::default(), &AppliedState::default());
        let contents = ArchivedContents {
            gtids: Some(GtidSet::new()),
            has_whole_transactions: true,
            ..ArchivedContents::default()
        };
        let position = LogListPosition { number: 0, names: &[], is_leading: true };
        assert!(!rule.known.as_ref().unwrap().can_leave_out(&contents, position));
    }

    #[test]
    fn logs_of_other_tables_are_left_out_from_the_start_on() {
        let contents = |tables: Option<&[[&str; 2]]>| ArchivedContents {
            gtids: Some(GtidSet::new()),
            times: Some((100, 110)),
            tables: tables.map(|tables| tables.iter().map(|names| names.map(str::to_owned)).collect()),
            has_whole_transactions: true,
            ..ArchivedContents::default()
        };
        let stop = SelectionStop::At(SelectionBound::Time(105_000_000));
        let check = |pattern: &str, stop: Option<SelectionStop>, tables: Option<&[[&str; 2]]>, expected| {
            let start = Some(SelectionStart::At(SelectionBound::Time(0)));
            let selection = TransactionSelection { start, stop, ..TransactionSelection::default() };
            let mut rule = ArchivedLogRule::new(&selection, &AppliedState::default());
            let patterns = vec![TablePattern::new(pattern.as_bytes())];
            rule.set_tables(TableSelection { database: None, patterns });
            let position = LogListPosition { number: 0, names: &[], is_leading: false };
            let found = rule.known.as_ref().unwrap().can_leave_out(&contents(tables), position);
            assert_eq!(found, expected, "{pattern} {tables:?}");
        };
        check("d.t", None, Some(&[["d", "u"], ["e", "t"]]), true);
        check("d.t", None, Some(&[["d", "u"], ["d", "t"]]), false);
        check("d.t", Some(stop), Some(&[["d", "u"]]), false);
        check("d.t", None, None, false);
    }

    #[test]
    fn logs_with_a_start_or_stop_are_read() {
        const SECOND_US: u64 = 1_000_000;
        let all = TransactionSelection::default;
        let at = |second: u64| SelectionBound::Time(second * SECOND_US);
        let position = |log: &str| SelectionBound::Position { log: log.to_owned(), position: 4 };
        let start = |bound| TransactionSelection { start: Some(SelectionStart::At(bound)), ..all() };
        let stop = |bound| TransactionSelection { stop: Some(SelectionStop::At(bound)), ..all() };
        check(start(at(111)), "", true, true);
        check(start(at(110)), "", true, false);
        check(start(at(111)), "1-20", false, false);
        check(start(position("b.000003")), "", true, true);
        check(start(position("b.000002")), "", true, false);
        check(stop(at(111)), "1-20", false, true);
        check(stop(at(110)), "1-20", false, false);
        check(stop(position("b.000002")), "1-20", false, false);
        let gtid =
            |numbers| TransactionSelection { start: Some(SelectionStart::AtGtid(set(numbers))), ..all() };
        check(gtid("21"), "", true, true);
        check(gtid("20"), "", true, false);
        let gtid =
            |numbers| TransactionSelection { stop: Some(SelectionStop::AfterGtid(set(numbers))), ..all() };
        check(gtid("21"), "1-20", false, true);
        check(gtid("20"), "1-20", false, false);
    }
}
