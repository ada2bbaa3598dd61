//! Interface of a target.

use std::sync::Arc;

use binlog::EventFormat;
use binlog::gtid::Gtid;

use crate::apply_plan::SourceStatement;
use crate::replay_error::TargetFailure;
use crate::replay_progress::{AppliedState, ReplayProgress, StatementIntent};
use crate::row_events::RowEvents;
use crate::session_variables::SessionVariables;
use crate::target_table_definition::TargetTableDefinition;

/// A server or database that transactions are applied to.
///
/// Only one replay uses a target at a time: the target's constructor locks it.
pub trait ReplayTarget: Sync {
    /// Returns the transactions that the target has.
    ///
    /// # Errors
    ///
    /// Fails if the target cannot be read.
    fn applied(&self) -> Result<AppliedState, TargetFailure>;

    /// Opens another session, in which transactions are applied one after the other.
    ///
    /// # Errors
    ///
    /// Fails if the target refuses.
    fn session(&self) -> Result<Box<dyn TargetSession>, TargetFailure>;

    /// Returns a table of the target, by its name in the log. `None` if the table does not exist or is unknown: replay
    /// then applies its changes one by one.
    ///
    /// # Errors
    ///
    /// Fails if the target cannot be read.
    fn definition(
        &self,
        database: &[u8],
        table: &[u8],
    ) -> Result<Option<TargetTableDefinition>, TargetFailure>;

    /// Returns the traces of a rolled back transaction: a server's AUTO_INCREMENT counters do not go back.
    fn rollback_traces(&self) -> RollbackTraces {
        RollbackTraces::Stay
    }

    /// Finds out whether an announced statement was run, although it was not reported as done.
    ///
    /// # Errors
    ///
    /// Fails if the target cannot be read.
    fn settle(&self, intent: &StatementIntent) -> Result<IntentOutcome, TargetFailure>;

    /// Saves progress without other changes, and clears the announcement. Called after an announced statement turned
    /// out to have been run: the next announcement would overwrite that outcome.
    ///
    /// # Errors
    ///
    /// Fails if the target refuses.
    fn save(&self, progress: &ReplayProgress) -> Result<(), TargetFailure>;

    /// Records that all transactions in `progress` are committed: the target may update its own records. Returns the
    /// transactions that the target itself counts as executed: progress need no longer list them. Called at the start,
    /// at intervals, and at the end; never during a commit.
    ///
    /// # Errors
    ///
    /// Fails if the target refuses.
    fn checkpoint(&self, progress: &ReplayProgress) -> Result<AppliedState, TargetFailure>;
}

/// Traces that a rolled back transaction leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollbackTraces {
    /// Traces that later statements may depend on.
    Stay,
    /// No traces.
    None,
}

/// Outcome of an announced statement that was not reported as done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntentOutcome {
    /// The statement was run completely.
    Done,
    /// The statement was not run, or can be run again with the same result.
    NotDone,
    /// Unknown, for this reason.
    Unknown(String),
}

/// One session on a target. It applies target transactions one after the other:
///
/// ```text
/// begin  (rows | statement)*  flush  commit
/// begin  (rows | statement)*  commit_at_once
/// begin  (rows | statement)*  rollback                          a failure, or changes that the source rolled back
/// announce  statement  (rows)*  flush  commit                   a statement that commits implicitly
/// ```
///
/// Between `begin` and `commit` nothing may become visible to others. A session may delay requests until `flush` or
/// `commit`, which then return their failures. After a failure only `rollback` may be called.
pub trait TargetSession: Send {
    /// Makes the session save its progress separately, as number `part`, because sessions commit in any order. Each
    /// session saves the transactions that it knows to be committed. The target's progress is the union.
    ///
    /// # Errors
    ///
    /// Fails if the target only commits in order.
    fn save_apart(&mut self, part: usize) -> Result<(), TargetFailure> {
        let _ = part;
        Err(TargetFailure::refused(
            "this target commits in the source's order only: use --commit-order grouped or strict",
        ))
    }

    /// Sets the GTIDs of the next target transaction, in order. A target with a binary log logs the transaction under
    /// the last GTID.
    ///
    /// # Errors
    ///
    /// Fails if the target writes a binary log, and there is no GTID.
    fn set_gtids(&mut self, gtids: &[Gtid]) -> Result<(), TargetFailure> {
        let _ = gtids;
        Ok(())
    }

    /// Begins a target transaction.
    ///
    /// # Errors
    ///
    /// Fails if the target refuses.
    fn begin(&mut self) -> Result<(), TargetFailure>;

    /// Announces row changes of this format in the transaction just begun. Called right after `begin` if a statement
    /// precedes the rows.
    ///
    /// # Errors
    ///
    /// Fails if the target refuses.
    fn expect_rows(&mut self, _format: &Arc<EventFormat>) -> Result<(), TargetFailure> {
        Ok(())
    }

    /// Announces a statement that commits implicitly: saves and commits the intent before it returns. The statement
    /// then runs outside of a transaction. The target fills in `intent.before`. `format` is the format of the row
    /// changes after the statement, if any.
    ///
    /// # Errors
    ///
    /// Fails if the target refuses.
    fn announce(
        &mut self,
        intent: StatementIntent,
        format: Option<&Arc<EventFormat>>,
    ) -> Result<(), TargetFailure>;

    /// Applies row changes of whole statements, under the session variables of `context`.
    ///
    /// # Errors
    ///
    /// Fails if the target refuses.
    fn apply_rows(&mut self, context: &SessionVariables, rows: &RowEvents) -> Result<(), TargetFailure>;

    /// Runs a statement with all its inputs.
    ///
    /// # Errors
    ///
    /// Fails if the target refuses, or the statement ends with another result than on the source.
    fn run_statement(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure>;

    /// Waits until all changes so far are made: only the commit is left.
    ///
    /// # Errors
    ///
    /// Fails if a change was refused.
    fn flush(&mut self) -> Result<(), TargetFailure>;

    /// Makes the changes that are not made yet, saves progress and commits, all in one request. Called in place of
    /// `flush` and `commit` if no order with other sessions must be kept. Returns `None` if the session needs several
    /// requests: then nothing has changed.
    fn commit_at_once(&mut self, progress: &ReplayProgress) -> Option<Result<(), TargetFailure>> {
        let _ = progress;
        None
    }

    /// Saves progress and commits, in one transaction, which is durable on return. Calls `on_ordered` as soon as no
    /// later commit can overtake this one: the next group may then commit.
    ///
    /// # Errors
    ///
    /// Fails if the target refuses. After a lost session, only [`ReplayTarget::applied`] shows whether the transaction
    /// was committed.
    fn commit(
        &mut self,
        progress: &ReplayProgress,
        on_ordered: &mut dyn FnMut(),
    ) -> Result<(), TargetFailure>;

    /// Returns the signal of commits in two steps. `None` if the session commits in one step only.
    fn commit_signal(&self) -> Option<Arc<dyn CommitSignal>> {
        None
    }

    /// Returns whether the open transaction can be committed in two steps: [`TargetSession::send_commit`], then
    /// [`TargetSession::finish_commit`]. Called after `flush`. Another thread may make the first step while the
    /// session's own thread waits for the [`CommitSignal`].
    fn can_send_commit(&self) -> bool {
        false
    }

    /// Begins a commit as [`TargetSession::commit`] does, and does not wait for the target.
    ///
    /// # Errors
    ///
    /// Fails if the session is lost, or commits in one step only.
    fn send_commit(&mut self, progress: &ReplayProgress) -> Result<(), TargetFailure> {
        let _ = progress;
        Err(TargetFailure::refused("this target commits in one step"))
    }

    /// Ends a commit that was sent.
    ///
    /// # Errors
    ///
    /// Fails if [`TargetSession::commit`] fails.
    fn finish_commit(&mut self, on_ordered: &mut dyn FnMut()) -> Result<(), TargetFailure> {
        let _ = on_ordered;
        Err(TargetFailure::refused("this target commits in one step"))
    }

    /// Rolls back the open transaction, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the session is lost; the target then rolls back by itself.
    fn rollback(&mut self) -> Result<(), TargetFailure>;
}

/// Wait of a session's thread until the target answers a commit that another thread sends.
pub trait CommitSignal: Send + Sync {
    /// Waits until the target has answered, the session is lost, or [`CommitSignal::wake`] has been called since the
    /// last wait.
    fn wait(&self) -> CommitSignalCause;

    /// Ends the current wait, or else the next one.
    fn wake(&self);
}

/// Reason for the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitSignalCause {
    /// The target has answered, or the session is lost.
    Answer,
    /// Another thread ended the wait.
    Woken,
}
