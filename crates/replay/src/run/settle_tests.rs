//! Tests that replay saves the progress of an announced statement that was run, before it announces another one.

use std::sync::Mutex;

use logs::lock;

use super::settle_intent;
use crate::replay_error::TargetFailure;
use crate::replay_progress::{AppliedState, ReplayProgress, StatementIntent};
use crate::replay_target::{IntentOutcome, ReplayTarget, TargetSession};
use crate::source_position::SourcePosition;
use crate::target_table_definition::TargetTableDefinition;

/// A target with this outcome of the announced statement.
struct IntentTarget {
    outcome: IntentOutcome,
    saved: Mutex<Vec<ReplayProgress>>,
}

impl ReplayTarget for IntentTarget {
    fn applied(&self) -> Result<AppliedState, TargetFailure> {
        Ok(AppliedState::default())
    }

    fn session(&self) -> Result<Box<dyn TargetSession>, TargetFailure> {
        Err(TargetFailure::refused("nothing is applied here"))
    }

    fn definition(&self, _: &[u8], _: &[u8]) -> Result<Option<TargetTableDefinition>, TargetFailure> {
        Ok(None)
    }

    fn settle(&self, _: &StatementIntent) -> Result<IntentOutcome, TargetFailure> {
        Ok(self.outcome.clone())
    }

    fn save(&self, progress: &ReplayProgress) -> Result<(), TargetFailure> {
        lock(&self.saved).push(progress.clone());
        Ok(())
    }

    fn checkpoint(&self, _: &ReplayProgress) -> Result<AppliedState, TargetFailure> {
        Ok(AppliedState::default())
    }
}

fn settle(transaction: &str, outcome: IntentOutcome) -> (ReplayProgress, Vec<ReplayProgress>) {
    let position = Some(SourcePosition { log: "binlog.000001".to_owned(), position: 1272 });
    let progress = ReplayProgress { position, commits: Some(7), ..ReplayProgress::default() };
    let intent =
        StatementIntent { transaction: transaction.to_owned(), databases: Vec::new(), before: String::new() };
    let target = IntentTarget { outcome, saved: Mutex::default() };
    let applied = AppliedState { progress, intent: Some(intent), ..AppliedState::default() };
    let progress = settle_intent(&target, &applied).unwrap();
    (progress, target.saved.into_inner().unwrap())
}

#[test]
fn statement_that_was_run_is_saved_and_counts_as_a_commit() {
    let (progress, saved) = settle("binlog.000001:1272", IntentOutcome::Done);
    let start = SourcePosition { log: "binlog.000001".to_owned(), position: 1272 };
    assert_eq!(progress.beyond, [start.into()]);
    assert_eq!(progress.commits, Some(8));
    assert_eq!(saved, [progress]);
    let gtid = "5ea5ca5e-0001-4000-8000-000000000001:5";
    let (progress, saved) = settle(gtid, IntentOutcome::Done);
    assert_eq!((progress.gtids.to_string(), progress.commits), (gtid.to_owned(), Some(8)));
    assert_eq!(saved, [progress]);
}

#[test]
fn statement_that_was_not_run_is_announced_again() {
    let (progress, saved) = settle("binlog.000001:1272", IntentOutcome::NotDone);
    assert_eq!((progress.beyond.len(), progress.commits, saved.len()), (0, Some(7), 0));
}
