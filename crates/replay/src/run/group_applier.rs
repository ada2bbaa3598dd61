//! Applies commit groups one after the other in one session.

use std::time::Duration;

use crate::apply_plan::{ApplyStep, TransactionShape};
use crate::commit_gate::RETRIES_MAX;
use crate::replay_error::{ReplayError, TargetFailure, TargetFailureKind};
use crate::replay_log::STDIN;
use crate::replay_progress::{ReplayProgress, StatementIntent};
use crate::replay_target::{ReplayTarget, TargetSession};
use crate::row_events::RowEvents;
use crate::row_reader::RowReader;
use crate::run::group_builder::{CommitGroup, GroupMember};
use crate::source_transaction::TransactionHead;

/// Wait before the first retry of a group; each retry doubles it.
const RETRY_BACKOFF_MIN: Duration = Duration::from_millis(5);

pub(super) struct GroupApplier {
    session: Box<dyn TargetSession>,
    counter: RowCounter,
    pub(super) tally: ApplyTotals,
}

/// Totals of the groups applied so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ApplyTotals {
    /// Committed row changes.
    pub(super) rows: u64,
    /// Number of retries.
    pub(super) retries: u64,
    /// Maximum number of groups applied at the same time.
    pub(super) at_once: u64,
}

/// Counter of the row changes given to a session.
#[derive(Debug, Default)]
pub(super) struct RowCounter {
    reader: RowReader,
    /// Rows of the last group.
    pub(super) rows: u64,
}

impl RowCounter {
    /// Counts rows. Ignores events that cannot be decoded: the target refuses them.
    fn count(&mut self, rows: &RowEvents) {
        let Self { reader, rows: counted } = self;
        let _ = reader.read(rows, &mut |event| {
            *counted += event.rows().count() as u64;
            Ok(())
        });
    }
}

impl GroupApplier {
    pub(super) fn new(target: &dyn ReplayTarget) -> Result<Self, ReplayError> {
        let session = target.session().map_err(|failure| failure.into_error("open a session"))?;
        Ok(Self {
            session,
            counter: RowCounter::default(),
            tally: ApplyTotals { at_once: 1, ..ApplyTotals::default() },
        })
    }

    /// Applies and commits a group. Retries it after lock conflicts, unless `may_continue` returns an error.
    pub(super) fn apply(
        &mut self,
        group: &CommitGroup,
        may_continue: &mut dyn FnMut() -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        let mut pause = RETRY_BACKOFF_MIN;
        for _ in 0..RETRIES_MAX {
            match self.try_apply(group) {
                Err(failure) if failure.kind == TargetFailureKind::Locked && can_be_undone(group) => {
                    self.session.rollback().map_err(|failure| apply_error(&group.head, failure))?;
                    self.tally.retries += 1;
                    may_continue()?;
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                result => return result.map_err(|failure| self.name_failed_member(group, failure)),
            }
        }
        self.try_apply(group).map_err(|failure| self.name_failed_member(group, failure))
    }

    fn name_failed_member(&mut self, group: &CommitGroup, failure: TargetFailure) -> ReplayError {
        // After a failed rollback, the session is lost, and the search below finds nothing.
        let _ = self.session.rollback();
        name_failed_member(&mut *self.session, group, failure)
    }

    fn try_apply(&mut self, group: &CommitGroup) -> Result<(), TargetFailure> {
        let session = &mut *self.session;
        give_group(session, group, &mut self.counter)?;
        match commit_at_once(session, group, &group.progress) {
            Some(committed) => committed?,
            None => {
                finish_group(session, group, &mut self.counter)?;
                session.commit(&group.progress, &mut || ())?;
            }
        }
        self.tally.rows += self.counter.rows;
        Ok(())
    }
}

/// Gives all steps of a group to the session, which may delay requests.
pub(super) fn give_group(
    session: &mut dyn TargetSession,
    group: &CommitGroup,
    counter: &mut RowCounter,
) -> Result<(), TargetFailure> {
    let is_rows = group.plan.shape == TransactionShape::Rows;
    assert!(is_rows || group.members.is_empty(), "ours: only row changes are committed together");
    counter.rows = 0;
    session.set_gtids(&group.gtids)?;
    let format = group.plan.steps.iter().find_map(|step| match step {
        ApplyStep::Rows(_, rows) => Some(&rows.format),
        ApplyStep::Spooled(_, rows) => Some(rows.format()),
        ApplyStep::Statement(_) | ApplyStep::SpooledStatements(_) => None,
    });
    match &group.plan.shape {
        TransactionShape::ImplicitCommit { databases } => {
            let (transaction, databases) = (StatementIntent::name(&group.head), databases.clone());
            session.announce(StatementIntent { transaction, databases, before: String::new() }, format)?;
        }
        _ => {
            session.begin()?;
            let begins_with_statement = group.plan.steps.first().is_some_and(ApplyStep::is_statement);
            if let (Some(format), true) = (format, begins_with_statement) {
                session.expect_rows(format)?;
            }
        }
    }
    for step in &group.plan.steps {
        match step {
            ApplyStep::Rows(context, rows) => {
                counter.count(rows);
                session.apply_rows(context, rows)?;
            }
            ApplyStep::Spooled(context, rows) => {
                for part in rows.parts() {
                    let unread = |error| {
                        TargetFailure::refused(format!(
                            "could not read its rows from the temporary file: {error}"
                        ))
                    };
                    let part = part.map_err(unread)?;
                    counter.count(&part);
                    session.apply_rows(context, &part)?;
                }
            }
            ApplyStep::Statement(statement) => session.run_statement(statement)?,
            ApplyStep::SpooledStatements(statements) => {
                for part in statements.parts() {
                    let unread =
                        |error| TargetFailure::refused(format!("could not read its statements: {error}"));
                    for statement in &part.map_err(unread)? {
                        session.run_statement(statement)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Commits a group that was given to the session, if the session can make one request of all. No order with other
/// sessions may have to be kept.
pub(super) fn commit_at_once(
    session: &mut dyn TargetSession,
    group: &CommitGroup,
    progress: &ReplayProgress,
) -> Option<Result<(), TargetFailure>> {
    let is_rows = group.plan.shape == TransactionShape::Rows;
    is_rows.then(|| session.commit_at_once(progress)).flatten()
}

/// Waits until all changes of a group are made: only the commit is left.
pub(super) fn finish_group(
    session: &mut dyn TargetSession,
    group: &CommitGroup,
    counter: &mut RowCounter,
) -> Result<(), TargetFailure> {
    session.flush()?;
    if group.plan.shape == TransactionShape::RolledBack {
        session.rollback()?;
        session.begin()?;
        counter.rows = 0;
    }
    Ok(())
}

/// Finds the failed transaction of a group: applies the group's transactions one by one, then rolls back. The caller
/// must have rolled back the session.
pub(super) fn name_failed_member(
    session: &mut dyn TargetSession,
    group: &CommitGroup,
    failure: TargetFailure,
) -> ReplayError {
    if let Some(table) = &group.kept_table {
        // A search among several transactions would apply them again.
        assert!(group.members.is_empty(), "ours: a group that cannot be rolled back is one transaction");
        return ReplayError::KeptChanges {
            transaction: group.head.to_string(),
            table: table.clone(),
            skip_option: skip_option(group),
            failure,
        };
    }
    let found = match failure.kind {
        TargetFailureKind::Refused => find_refused(session, &group.members),
        _ => None,
    };
    match (found, group.members.last()) {
        (Some((head, failure)), _) => apply_error(head, failure),
        (None, None) => apply_error(&group.head, failure),
        (None, Some(last)) => {
            let transaction =
                format!("the {} transactions from {} to {}", group.transactions, group.head, last.head);
            ReplayError::Apply { transaction, has_gtid: group.head.gtid().is_some(), failure }
        }
    }
}

/// Returns the error for a transaction that the target refused.
fn apply_error(head: &TransactionHead, failure: TargetFailure) -> ReplayError {
    ReplayError::Apply { transaction: head.to_string(), has_gtid: head.gtid().is_some(), failure }
}

fn find_refused<'g>(
    session: &mut dyn TargetSession,
    members: &'g [GroupMember],
) -> Option<(&'g TransactionHead, TargetFailure)> {
    if members.is_empty() || session.begin().is_err() {
        return None;
    }
    let mut refused = None;
    for member in members {
        let Some((context, rows)) = &member.rows else { continue };
        if let Err(failure) = session.apply_rows(context, rows).and_then(|()| session.flush()) {
            refused = Some((&member.head, failure));
            break;
        }
    }
    // The session is not used again.
    let _ = session.rollback();
    // A lock of another session does not identify the failed transaction.
    refused.filter(|(_, failure)| failure.kind == TargetFailureKind::Refused)
}

/// Returns the command-line option that skips a group of one transaction.
fn skip_option(group: &CommitGroup) -> String {
    let end = group.end.end_position();
    match group.head.gtid() {
        Some(gtid) => format!("--exclude-gtids {gtid} in this and all later runs"),
        None if end.log.starts_with(STDIN) => format!("--start-position '{STDIN}:{}'", end.position),
        None => format!("--start-position {end}"),
    }
}

/// Returns whether the group can be rolled back and tried again.
pub(super) const fn can_be_undone(group: &CommitGroup) -> bool {
    let is_committed_by_itself =
        matches!(group.plan.shape, TransactionShape::ImplicitCommit { .. } | TransactionShape::RolledBack);
    !is_committed_by_itself && group.kept_table.is_none()
}
