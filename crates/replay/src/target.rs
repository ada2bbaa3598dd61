//! What a target must be able to do.

use std::sync::Arc;

use binlog::Format;
use binlog::gtid::Gtid;

use crate::context::Context;
use crate::definition::Definition;
use crate::error::Failure;
use crate::progress::{Applied, Intent, Progress};
use crate::work::{RowEvents, Statement};

/// A place that transactions are applied to.
///
/// One replay uses a target at a time: whoever makes a target takes its lock first.
pub trait Target: Sync {
    /// What the target has of the source.
    ///
    /// # Errors
    ///
    /// When it does not say.
    fn applied(&self) -> Result<Applied, Failure>;

    /// Another session, in which transactions are applied one after the other.
    ///
    /// # Errors
    ///
    /// When the target refuses.
    fn session(&self) -> Result<Box<dyn Session>, Failure>;

    /// A table as the target has it, by the names that the logs have for it; `None` where there is no such table, or
    /// where that is not known: its changes are then made one by one.
    ///
    /// # Errors
    ///
    /// When the target does not say.
    fn definition(&self, database: &[u8], table: &[u8]) -> Result<Option<Definition>, Failure>;

    /// Traces of a transaction that is rolled back: a server's `AUTO_INCREMENT` counters do not go back.
    fn rollback_traces(&self) -> RollbackTraces {
        RollbackTraces::Stay
    }

    /// Was the statement run that was announced and not reported done?
    ///
    /// # Errors
    ///
    /// When the target does not say.
    fn settle(&self, intent: &Intent) -> Result<Settled, Failure>;

    /// Saves progress at once, by itself, and with it that nothing is announced any more: of a statement that turned
    /// out to have been run. What is announced next takes its place, and nobody could tell then.
    ///
    /// # Errors
    ///
    /// When the target refuses.
    fn save(&self, progress: &Progress) -> Result<(), Failure>;

    /// All that `progress` covers is committed: whatever else the target keeps in account may follow now. Gives what
    /// the target counts as executed by itself, which progress need no longer name. Called at start, from time to
    /// time, and at the end; never while a commit is under way.
    ///
    /// # Errors
    ///
    /// When the target refuses.
    fn checkpoint(&self, progress: &Progress) -> Result<Applied, Failure>;
}

/// Traces of a transaction that is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollbackTraces {
    /// Later statements may depend on them.
    Stay,
    /// There are none.
    None,
}

/// What became of a statement that was announced and not reported done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was run, whole.
    Done,
    /// It was not run, or running it again comes to the same.
    NotDone,
    /// Nobody can tell, and this is why.
    Unknown(String),
}

/// One session on a target. Target transactions are applied in it one after the other:
///
/// ```text
/// begin  (rows | statement)*  flush  commit
/// begin  (rows | statement)*  rollback                          a failure, or changes that the source undid
/// announce  statement  (rows)*  flush  commit                   what commits by itself
/// ```
///
/// Between `begin` and `commit` nothing may become visible to others. Requests may be put off until `flush` or
/// `commit`; their failures then come from there. After a failure only `rollback` may be called.
pub trait Session: Send {
    /// Saves progress apart from other sessions from here on, as number `part`: they may commit at any time. What
    /// each saves holds all that it knows to be committed; what the target has is all of that together.
    ///
    /// # Errors
    ///
    /// When the target cannot do that: it then commits in order only.
    fn keep_apart(&mut self, part: usize) -> Result<(), Failure> {
        let _ = part;
        Err(Failure::refused(
            "this target commits in the source's order only: use --commit-order grouped or strict",
        ))
    }

    /// The next target transaction is of these, in their order. A target that logs what is applied logs it under the
    /// last of them, and nothing under the others.
    ///
    /// # Errors
    ///
    /// When it logs, and there is none.
    fn name(&mut self, gtids: &[Gtid]) -> Result<(), Failure> {
        let _ = gtids;
        Ok(())
    }

    /// Begins a target transaction.
    ///
    /// # Errors
    ///
    /// When the target refuses.
    fn begin(&mut self) -> Result<(), Failure>;

    /// Row changes of this format will come in the transaction that was begun; asked for right behind `begin`, where
    /// something else comes first.
    ///
    /// # Errors
    ///
    /// When the target refuses.
    fn expect(&mut self, _format: &Arc<Format>) -> Result<(), Failure> {
        Ok(())
    }

    /// Announces a statement that commits by itself: the intent is saved and committed before this returns. What
    /// follows runs outside of a transaction. `intent.before` is for the target to fill in. If row changes follow
    /// the statement, `format` is theirs.
    ///
    /// # Errors
    ///
    /// When the target refuses.
    fn announce(&mut self, intent: Intent, format: Option<&Arc<Format>>) -> Result<(), Failure>;

    /// Applies row changes: whole statements, under the session variables of `context`.
    ///
    /// # Errors
    ///
    /// When the target refuses.
    fn rows(&mut self, context: &Context, rows: &RowEvents) -> Result<(), Failure>;

    /// Runs a statement with all that it depends on.
    ///
    /// # Errors
    ///
    /// When the target refuses, or when the statement ends otherwise than it did on the source.
    fn statement(&mut self, statement: &Statement) -> Result<(), Failure>;

    /// All changes so far have been made; what is left is to commit.
    ///
    /// # Errors
    ///
    /// When one of them was refused.
    fn flush(&mut self) -> Result<(), Failure>;

    /// Saves progress and commits, both at once; durable when it returns. `placed` is called as soon as nobody can
    /// commit before this transaction any more who is asked to later: the next in order may go on then.
    ///
    /// # Errors
    ///
    /// When the target refuses. A lost session leaves open whether it was committed: only
    /// [`Target::applied`] can tell.
    fn commit(&mut self, progress: &Progress, placed: &mut dyn FnMut()) -> Result<(), Failure>;

    /// Undoes the open transaction, if there is one.
    ///
    /// # Errors
    ///
    /// When the session is lost; the target then undoes it by itself.
    fn rollback(&mut self) -> Result<(), Failure>;
}
