//! Progress is saved after an announced statement turns out to have been run, before anything else is announced.

use std::sync::{Mutex, PoisonError};

use super::settled;
use crate::definition::Definition;
use crate::error::Failure;
use crate::progress::{Applied, Intent, Place, Progress};
use crate::target::{Session, Settled, Target};

/// A target with this outcome of the announced statement.
struct Announced {
    outcome: Settled,
    saved: Mutex<Vec<Progress>>,
}

impl Target for Announced {
    fn applied(&self) -> Result<Applied, Failure> {
        Ok(Applied::default())
    }

    fn session(&self) -> Result<Box<dyn Session>, Failure> {
        Err(Failure::refused("nothing is applied here"))
    }

    fn definition(&self, _: &[u8], _: &[u8]) -> Result<Option<Definition>, Failure> {
        Ok(None)
    }

    fn settle(&self, _: &Intent) -> Result<Settled, Failure> {
        Ok(self.outcome.clone())
    }

    fn save(&self, progress: &Progress) -> Result<(), Failure> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).push(progress.clone());
        Ok(())
    }

    fn checkpoint(&self, _: &Progress) -> Result<Applied, Failure> {
        Ok(Applied::default())
    }
}

fn settle(unit: &str, outcome: Settled) -> (Progress, Vec<Progress>) {
    let place = Some(Place { log: "binlog.000001".to_owned(), position: 1272 });
    let progress = Progress { place, commits: Some(7), ..Progress::default() };
    let intent = Intent { unit: unit.to_owned(), databases: Vec::new(), before: String::new() };
    let target = Announced { outcome, saved: Mutex::default() };
    let applied = Applied { progress, intent: Some(intent), ..Applied::default() };
    let progress = settled(&target, &applied).unwrap();
    (progress, target.saved.into_inner().unwrap())
}

#[test]
fn what_was_run_is_saved_and_counts_as_a_commit() {
    let (progress, saved) = settle("binlog.000001:1272", Settled::Done);
    assert_eq!(progress.beyond, [Place { log: "binlog.000001".to_owned(), position: 1272 }]);
    assert_eq!(progress.commits, Some(8));
    assert_eq!(saved, [progress]);
    let gtid = "5ea5ca5e-0001-4000-8000-000000000001:5";
    let (progress, saved) = settle(gtid, Settled::Done);
    assert_eq!((progress.gtids.to_string(), progress.commits), (gtid.to_owned(), Some(8)));
    assert_eq!(saved, [progress]);
}

#[test]
fn what_was_not_run_is_announced_again() {
    let (progress, saved) = settle("binlog.000001:1272", Settled::NotDone);
    assert_eq!((progress.beyond.len(), progress.commits, saved.len()), (0, Some(7), 0));
}
