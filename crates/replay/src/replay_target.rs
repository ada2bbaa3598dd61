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
/// Only one replay uses a target at a time: the constructor of a target takes its lock.
pub trait ReplayTarget: Sync {
    /// Returns the transactions that the target has.
    ///
    /// # Errors
    ///
    /// If the target cannot be read.
    fn applied(&self) -> Result<AppliedState, TargetFailure>;

    /// Opens another session, in which transactions are applied one after the other.
    ///
    /// # Errors
    ///
    /// If the target refuses.
    fn session(&self) -> Result<Box<dyn TargetSession>, TargetFailure>;

    /// Returns a table of the target, by its names in the log. `None` if the table does not exist or is unknown: its
    /// changes are then applied one by one.
    ///
    /// # Errors
    ///
    /// If the target cannot be read.
    fn definition(
        &self,
        database: &[u8],
        table: &[u8],
    ) -> Result<Option<TargetTableDefinition>, TargetFailure>;

    /// Returns the traces of a rolled back transaction: a server's AUTO_INCREMENT counters do not go back.
    fn rollback_traces(&self) -> RollbackTraces {
        RollbackTraces::Stay
    }

    /// Finds out whether an announced statement was run that was not reported as done.
    ///
    /// # Errors
    ///
    /// If the target cannot be read.
    fn settle(&self, intent: &StatementIntent) -> Result<IntentOutcome, TargetFailure>;

    /// Saves progress by itself, and clears the announcement, after a statement turned out to have been run. The next
    /// announcement would overwrite it, and its outcome would be lost.
    ///
    /// # Errors
    ///
    /// If the target refuses.
    fn save(&self, progress: &ReplayProgress) -> Result<(), TargetFailure>;

    /// Records that all transactions in `progress` are committed: the target may update its own records. Returns what
    /// the target itself counts as executed, which progress need no longer list. Called at the start, from time to
    /// time, and at the end; never during a commit.
    ///
    /// # Errors
    ///
    /// If the target refuses.
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
    /// It was run completely.
    Done,
    /// It was not run, or can be run again with the same result.
    NotDone,
    /// Unknown, for this reason.
    Unknown(String),
}

/// One session on a target. It applies target transactions one after the other:
///
/// ```text
/// begin  (rows | statement)*  flush  commit
/// begin  (rows | statement)*  rollback                          a failure, or changes that the source rolled back
/// announce  statement  (rows)*  flush  commit                   a statement that commits implicitly
/// ```
///
/// Between `begin` and `commit` nothing may become visible to others. A session may delay requests until `flush` or
/// `commit`, which then return their failures. After a failure only `rollback` may be called.
pub trait TargetSession: Send {
    /// Makes the session save its progress separately, as number `part`, because sessions commit in any order. Each
    /// saves all that it knows to be committed; the target's progress is the union.
    ///
    /// # Errors
    ///
    /// If the target cannot do that: it commits in order only.
    fn save_apart(&mut self, part: usize) -> Result<(), TargetFailure> {
        let _ = part;
        Err(TargetFailure::refused(
            "this target commits in the source's order only: use --commit-order grouped or strict",
        ))
    }

    /// Sets the GTIDs of the next target transaction, in order. A target that writes a binary log writes it under the
    /// last of them.
    ///
    /// # Errors
    ///
    /// If the target writes a binary log, and there is no GTID.
    fn set_gtids(&mut self, gtids: &[Gtid]) -> Result<(), TargetFailure> {
        let _ = gtids;
        Ok(())
    }

    /// Begins a target transaction.
    ///
    /// # Errors
    ///
    /// If the target refuses.
    fn begin(&mut self) -> Result<(), TargetFailure>;

    /// Announces row changes of this format in the transaction just begun. Called right after `begin` if a statement
    /// comes first.
    ///
    /// # Errors
    ///
    /// If the target refuses.
    fn expect_rows(&mut self, _format: &Arc<EventFormat>) -> Result<(), TargetFailure> {
        Ok(())
    }

    /// Announces a statement that commits implicitly: saves and commits the intent before it returns. The statement
    /// then runs outside of a transaction. The target fills in `intent.before`. `format` is that of the row changes
    /// that follow the statement, if any.
    ///
    /// # Errors
    ///
    /// If the target refuses.
    fn announce(
        &mut self,
        intent: StatementIntent,
        format: Option<&Arc<EventFormat>>,
    ) -> Result<(), TargetFailure>;

    /// Applies row changes of whole statements, under the session variables of `context`.
    ///
    /// # Errors
    ///
    /// If the target refuses.
    fn apply_rows(&mut self, context: &SessionVariables, rows: &RowEvents) -> Result<(), TargetFailure>;

    /// Runs a statement with all its inputs.
    ///
    /// # Errors
    ///
    /// If the target refuses, or the statement ends with another result than on the source.
    fn run_statement(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure>;

    /// Waits until all changes so far are made: only the commit is left.
    ///
    /// # Errors
    ///
    /// If a change was refused.
    fn flush(&mut self) -> Result<(), TargetFailure>;

    /// Saves progress and commits, both at once; durable when it returns. Calls `placed` as soon as no later commit can
    /// overtake this one: the next in order may then commit.
    ///
    /// # Errors
    ///
    /// If the target refuses. After a lost session only [`ReplayTarget::applied`] can tell whether it was committed.
    fn commit(&mut self, progress: &ReplayProgress, placed: &mut dyn FnMut()) -> Result<(), TargetFailure>;

    /// Rolls back the open transaction, if there is one.
    ///
    /// # Errors
    ///
    /// If the session is lost; the target then rolls back by itself.
    fn rollback(&mut self) -> Result<(), TargetFailure>;
}
