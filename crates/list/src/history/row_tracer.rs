//! Traces a row from log to log: backward to its creation, and forward if its key changed.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use logs::archived_contents;

use super::history_gap::{HistoryGap, HistoryGaps};
use super::history_walk;
use super::row_history::{
    HistoryBeginning, HistoryChange, HistoryEntry, HistorySettings, RowHistory, RowKey,
};
use super::row_search::{ChangePosition, FoundChange, RowIdentity, RowSearch, SearchFinding};
use super::table_statement::SearchedTable;
use super::xa_outcomes::{XaOutcome, XaOutcomes};
use crate::list_error::ListError;
use crate::list_source::ListSource;
use crate::row_condition::{ConditionCoverage, RowCondition};

/// Finds all changes of a row. Calls `on_progress` with the number of each log, from 0, before reading the log. If
/// `on_progress` breaks, the history ends with [`ListError::Stopped`].
///
/// # Errors
///
/// Fails if a log cannot be read, is corrupt, or is torn although not in use, or if a condition names a column, but the
/// logs have no column names.
pub fn row_history(
    settings: &HistorySettings,
    on_progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<RowHistory, ListError> {
    let mut tracer = RowTracer {
        settings,
        on_progress,
        sightings: ConditionCoverage::default(),
        torn: Vec::new(),
        entries: Vec::new(),
        current: None,
        newest: None,
        gaps: HistoryGaps::default(),
        chosen_row: None,
        key: None,
        xa_outcomes: XaOutcomes::default(),
    };
    let beginning = match tracer.trace_backward()? {
        HistoryBeginning::SeveralRows => tracer.list_matches()?,
        beginning => {
            tracer.entries.reverse();
            tracer.trace_forward()?;
            beginning
        }
    };
    let RowTracer { mut torn, entries, sightings, gaps, chosen_row, key, .. } = tracer;
    // The trace may read a log twice, and then warns twice.
    torn.dedup();
    let unusable_condition = sightings.unusable_condition_error(&settings.conditions);
    Ok(RowHistory {
        entries,
        beginning,
        torn_ends: torn,
        has_table: sightings.has_tables(),
        unusable_condition,
        gaps,
        chosen_row,
        key,
    })
}

/// State of a trace.
struct RowTracer<'s> {
    settings: &'s HistorySettings,
    on_progress: &'s mut dyn FnMut(usize) -> ControlFlow<()>,
    sightings: ConditionCoverage,
    torn: Vec<String>,
    /// Changes in the order found: the newest first, until all earlier logs are read.
    entries: Vec<HistoryEntry>,
    /// Identity of the row at the present position of the trace; `None` before its first change is found.
    current: Option<RowIdentity>,
    /// The newest change that was found, if the row continues after it.
    newest: Option<NewestChange>,
    /// Gaps in the row's history.
    gaps: HistoryGaps,
    /// See [`RowHistory::chosen_row`].
    chosen_row: Option<RowIdentity>,
    /// See [`RowHistory::key`].
    key: Option<RowKey>,
    xa_outcomes: XaOutcomes,
}

/// End of the changes that were found backward.
struct NewestChange {
    /// Number of the log that contains the change.
    log: usize,
    position: ChangePosition,
    /// Identity of the row after the change.
    identity: RowIdentity,
}

/// Result of tracing through one log.
enum TraceStep {
    /// Continue in the next log.
    Continue,
    /// From this position on, the row has another identity, and the trace must search the log for the new identity.
    SearchAgain(ChangePosition),
    /// The row's history begins or ends here.
    End(HistoryBeginning),
}

impl RowTracer<'_> {
    fn trace_backward(&mut self) -> Result<HistoryBeginning, ListError> {
        for log in (0..self.settings.sources.len()).rev() {
            let mut limit = None;
            loop {
                let identity = self.identity();
                let found = self.search(log, &identity, TraceDirection::Backward { limit })?;
                match self.follow_backward(log, found, limit)? {
                    TraceStep::Continue => break,
                    TraceStep::SearchAgain(position) => limit = Some(position),
                    TraceStep::End(beginning) => return Ok(beginning),
                }
            }
        }
        Ok(HistoryBeginning::Unknown)
    }

    /// Adds the changes of the row before `limit`, the newest first.
    fn follow_backward(
        &mut self,
        log: usize,
        mut found: Vec<SearchFinding>,
        limit: Option<ChangePosition>,
    ) -> Result<TraceStep, ListError> {
        found.retain(|found| limit.is_none_or(|limit| found.position() < limit));
        while let Some(finding) = found.pop() {
            let Some(FoundChange { position, entry, states, before, after, key, names_key }) =
                self.change_of(log, finding)?
            else {
                continue;
            };
            let is_first = self.current.is_none();
            if is_first {
                self.key = Some(key);
                if key == RowKey::Missing {
                    return Ok(TraceStep::End(HistoryBeginning::SeveralRows));
                }
            }
            // A DELETE of an earlier row with the same key is no change of this row.
            if !states.after && !is_first {
                return Ok(TraceStep::End(HistoryBeginning::Unknown));
            }
            if is_first {
                let key = after.as_ref().or(before.as_ref()).filter(|_| key == RowKey::Primary && !names_key);
                self.chosen_row = key.cloned();
            }
            if is_first && let Some(identity) = after.clone() {
                self.newest = Some(NewestChange { log, position, identity });
            }
            let change = entry.change;
            self.entries.push(entry);
            if change == HistoryChange::Insert {
                return Ok(TraceStep::End(HistoryBeginning::Created));
            }
            // Without its key columns, the row keeps its identity.
            let identity = before.unwrap_or_else(|| self.identity());
            // A search by other columns may have gaps where a search by the key has none.
            let has_gaps = found.iter().any(|found| matches!(found, SearchFinding::Gaps(..)));
            let before = self.current.replace(identity.clone());
            let before = before.unwrap_or_else(|| self.settings.conditions.clone());
            let is_changed = !is_same(&identity, &before) || has_gaps && identity != before;
            if is_changed {
                return Ok(TraceStep::SearchAgain(position));
            }
        }
        Ok(TraceStep::Continue)
    }

    /// Finds all changes of rows that meet the conditions before or after the change. Without a key, the changes of one
    /// row cannot be told from those of another.
    fn list_matches(&mut self) -> Result<HistoryBeginning, ListError> {
        (self.gaps, self.torn) = (HistoryGaps::default(), Vec::new());
        for log in 0..self.settings.sources.len() {
            let found = self.search(log, &self.settings.conditions, TraceDirection::Forward)?;
            for finding in found {
                let change = self.change_of(log, finding)?;
                self.entries.extend(change.map(|change| change.entry));
            }
        }
        Ok(HistoryBeginning::SeveralRows)
    }

    /// Adds later changes of a row. Needed if the row's identity after the newest change differs from the searched one,
    /// or could not be tested on all rows.
    fn trace_forward(&mut self) -> Result<(), ListError> {
        let Some(NewestChange { log: first, position, identity }) = self.newest.take() else { return Ok(()) };
        // A search by the key finds later changes that the conditions could not find.
        if is_same(&identity, &self.settings.conditions) && self.gaps == HistoryGaps::default() {
            return Ok(());
        }
        self.current = Some(identity);
        let mut limit = Some(position);
        for log in first..self.settings.sources.len() {
            loop {
                let identity = self.identity();
                let found = self.search(log, &identity, TraceDirection::Forward)?;
                match self.follow_forward(log, found, limit)? {
                    TraceStep::Continue => break,
                    TraceStep::SearchAgain(position) => limit = Some(position),
                    TraceStep::End(_) => return Ok(()),
                }
            }
            limit = None;
        }
        Ok(())
    }

    /// Adds the changes of the row after `limit`, the oldest first.
    fn follow_forward(
        &mut self,
        log: usize,
        found: Vec<SearchFinding>,
        limit: Option<ChangePosition>,
    ) -> Result<TraceStep, ListError> {
        let is_later = |found: &SearchFinding| limit.is_none_or(|limit| found.position() > limit);
        for finding in found.into_iter().filter(is_later) {
            let Some(FoundChange { position, entry, states, after, .. }) = self.change_of(log, finding)?
            else {
                continue;
            };
            if !states.before {
                // Another row got this key.
                return Ok(TraceStep::End(HistoryBeginning::Unknown));
            }
            let change = entry.change;
            self.entries.push(entry);
            if change == HistoryChange::Delete {
                return Ok(TraceStep::End(HistoryBeginning::Unknown));
            }
            let identity = after.unwrap_or_else(|| self.identity());
            let is_changed = !is_same(&identity, &self.identity());
            self.current = Some(identity);
            if is_changed {
                return Ok(TraceStep::SearchAgain(position));
            }
        }
        Ok(TraceStep::Continue)
    }

    /// Returns the change of a finding in this log, if it was committed; otherwise keeps the gaps.
    fn change_of(&mut self, log: usize, finding: SearchFinding) -> Result<Option<FoundChange>, ListError> {
        let change = match finding {
            SearchFinding::Change(change) => *change,
            SearchFinding::Gaps(_, gaps) => {
                self.gaps.join(gaps);
                return Ok(None);
            }
        };
        let entry = &change.entry;
        let Some(xid) = &entry.origin.xid else { return Ok(Some(change)) };
        let place = (log, entry.position);
        match self.xa_outcomes.find(self.settings, place, xid, self.on_progress)? {
            Some(XaOutcome::Committed) => return Ok(Some(change)),
            Some(XaOutcome::RolledBack) => {}
            None => {
                let (log_name, position) = (Arc::clone(&entry.log_name), entry.position);
                self.gaps.add(HistoryGap::UndecidedXa { xid: Arc::clone(xid), log_name, position });
            }
        }
        Ok(None)
    }

    /// Returns the identity to search for.
    fn identity(&self) -> RowIdentity {
        self.current.clone().unwrap_or_else(|| self.settings.conditions.clone())
    }

    /// Returns the changes of rows with this identity in one log, in order. A backward search omits changes that the
    /// trace does not reach.
    fn search(
        &mut self,
        log: usize,
        identity: &[RowCondition],
        direction: TraceDirection,
    ) -> Result<Vec<SearchFinding>, ListError> {
        if (self.on_progress)(log).is_break() {
            return Err(ListError::Stopped);
        }
        let HistorySettings { database, table, .. } = self.settings;
        if let ListSource::File(path) = &self.settings.sources[log]
            && !may_change_table(path, database, table)
        {
            return Ok(Vec::new());
        }
        let completion = self.settings.completion.as_ref();
        let has_one_definition = completion.is_some();
        let searched = SearchedTable { database, table, identity, has_one_definition };
        let search = RowSearch { searched, completion, sightings: &self.sightings };
        let mut found: Vec<SearchFinding> = Vec::new();
        let sources = std::slice::from_ref(&self.settings.sources[log]);
        let torn = history_walk(self.settings).run(sources, &search, |part| {
            for finding in part {
                if let TraceDirection::Backward { limit } = direction
                    && limit.is_none_or(|limit| finding.position() < limit)
                    && finding.ends_search(identity)
                {
                    drop_changes(&mut found);
                }
                push_finding(&mut found, finding);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.torn.extend(torn.iter().map(ToString::to_string));
        Ok(found)
    }
}

/// Returns whether a log may have changes of a table, or statements that hide some. Only an archived log states its
/// tables; for any other log, the answer is true.
fn may_change_table(log: &Path, database: &[u8], table: &[u8]) -> bool {
    archived_contents(log).is_none_or(|contents| {
        contents.may_change_table(|found_database, found_table| {
            found_database.as_bytes().eq_ignore_ascii_case(database)
                && found_table.as_bytes().eq_ignore_ascii_case(table)
        })
    })
}

/// Direction of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TraceDirection {
    /// From this position, or from the end of the log.
    Backward {
        limit: Option<ChangePosition>,
    },
    Forward,
}

/// Drops the changes, and keeps the gaps.
fn drop_changes(found: &mut Vec<SearchFinding>) {
    for finding in std::mem::take(found) {
        if let SearchFinding::Gaps(..) = finding {
            push_finding(found, finding);
        }
    }
}

/// Adds a finding. Joins gaps without a change between them.
fn push_finding(found: &mut Vec<SearchFinding>, finding: SearchFinding) {
    match (found.last_mut(), finding) {
        (Some(SearchFinding::Gaps(_, gaps)), SearchFinding::Gaps(_, more)) => gaps.join(more),
        (_, finding) => found.push(finding),
    }
}

impl SearchFinding {
    /// Returns whether a backward trace needs no findings of this search before this one: the row is created here, or
    /// had another identity before. A change of an XA transaction may have been rolled back.
    fn ends_search(&self, identity: &[RowCondition]) -> bool {
        match self {
            Self::Change(found) if found.entry.origin.xid.is_some() => false,
            Self::Change(found) => {
                found.entry.change == HistoryChange::Insert
                    || found.before.as_ref().is_some_and(|before| !is_same(before, identity))
            }
            Self::Gaps(..) => false,
        }
    }
}

/// Returns whether two identities require the same values of columns of the same names.
fn is_same(identity: &[RowCondition], other: &[RowCondition]) -> bool {
    identity.len() == other.len() && identity.iter().zip(other).all(|(one, other)| one.is_same(other))
}

#[cfg(test)]
mod tests {
    use binlog::TransactionId;

    use super::{HistoryChange, HistoryEntry, RowKey, SearchFinding, drop_changes, push_finding};
    use crate::history::history_gap::HistoryGaps;
    use crate::history::row_search::{ChangePosition, FoundChange, RowIdentity};
    use crate::row_condition::{RowCondition, RowStates};

    fn identity(text: &str) -> RowIdentity {
        vec![RowCondition::new(text).unwrap()]
    }

    fn change(position: u64, change: HistoryChange, before: Option<&str>) -> SearchFinding {
        SearchFinding::Change(Box::new(FoundChange {
            position: ChangePosition::at(position),
            states: RowStates { before: before.is_some(), after: true, untested: 0 },
            before: before.map(identity),
            after: None,
            key: RowKey::Primary,
            names_key: true,
            entry: HistoryEntry {
                log_name: "binlog.000001".into(),
                position,
                id: TransactionId::Unsaid,
                origin: Default::default(),
                change,
                values: Vec::new(),
            },
        }))
    }

    /// The search finds each row with a status, but the trace follows only the newest change, by the key of its row.
    #[test]
    fn changes_before_another_identity_are_dropped() {
        let check = |finding: &SearchFinding, searched: &str, expected: bool| {
            assert_eq!(finding.ends_search(&identity(searched)), expected, "{searched}");
        };
        check(&change(9, HistoryChange::Update, Some("id=1")), "status=1", true);
        check(&change(9, HistoryChange::Update, Some("id=1")), "id=1", false);
        check(&change(9, HistoryChange::Insert, None), "id=1", true);
        check(&change(9, HistoryChange::Update, None), "status=1", false);
        let gaps = |position| SearchFinding::Gaps(ChangePosition::at(position), HistoryGaps::default());
        let mut found = Vec::new();
        for finding in [gaps(1), change(2, HistoryChange::Update, Some("id=1")), gaps(3)] {
            push_finding(&mut found, finding);
        }
        assert_eq!(found.len(), 3);
        drop_changes(&mut found);
        assert!(
            matches!(&found[..], [SearchFinding::Gaps(position, _)] if *position == ChangePosition::at(1))
        );
    }
}
