//! One transaction at a time, in source order, in one session.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::{Error, Failure, FailureKind};
use crate::progress::{Intent, Ledger};
use crate::report::Report;
use crate::run::{checkpoint, refused};
use crate::target::{Session, Target};
use crate::unit::Unit;
use crate::work::{Shape, Step, Work};

/// How often a transaction is tried again that lost against others.
const RETRIES_MAX: u32 = 10;
/// How long to wait before that, the first time; twice as long each time.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// After so many transactions, the target's own account follows.
const CHECKPOINT_PERIOD: u64 = 10_000;

pub(super) struct Serial<'t> {
    target: &'t dyn Target,
    session: Box<dyn Session>,
    ledger: Ledger,
    /// XA transactions that are prepared and not decided, by XID.
    held: HashMap<String, (Unit, Work)>,
    pub(super) report: Report,
}

impl<'t> Serial<'t> {
    pub(super) fn new(target: &'t dyn Target, ledger: Ledger) -> Result<Self, Error> {
        let session = target.session().map_err(|failure| failure.at("open a session"))?;
        Ok(Self { target, session, ledger, held: HashMap::new(), report: Report::default() })
    }

    pub(super) fn apply(&mut self, unit: Unit, work: Work) -> Result<(), Error> {
        match &work.shape {
            Shape::Prepared(xid) => {
                let xid = xid.clone();
                self.ledger.hold(&unit);
                self.held.insert(xid, (unit, work));
                return Ok(());
            }
            Shape::Commits(xid) => {
                let (prepared, changes) = self.take_held(xid, &unit)?;
                self.ledger.done(&prepared);
                self.ledger.done(&unit);
                self.commit(&unit, &changes)?;
            }
            Shape::RollsBack(xid) => {
                let (prepared, _) = self.take_held(xid, &unit)?;
                self.ledger.done(&prepared);
                self.ledger.done(&unit);
                self.commit(&unit, &work)?;
            }
            _ => {
                self.ledger.done(&unit);
                self.commit(&unit, &work)?;
            }
        }
        self.report.transactions += 1;
        self.report.groups += 1;
        if self.report.transactions.is_multiple_of(CHECKPOINT_PERIOD) {
            checkpoint(self.target, &mut self.ledger)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Report, Error> {
        let applied = checkpoint(self.target, &mut self.ledger)?;
        self.report.undecided = self.held.into_keys().collect();
        self.report.undecided.sort();
        self.report.applied = applied.progress.gtids.union(&applied.executed);
        Ok(self.report)
    }

    fn take_held(&mut self, xid: &str, unit: &Unit) -> Result<(Unit, Work), Error> {
        self.held.remove(xid).ok_or_else(|| {
            Error::Refused(format!(
                "{unit} decides the XA transaction {xid}, which was prepared before the first of these logs: give \
                 the log that has its XA PREPARE too"
            ))
        })
    }

    fn commit(&mut self, unit: &Unit, work: &Work) -> Result<(), Error> {
        let mut pause = RETRY_PAUSE;
        for _ in 0..RETRIES_MAX {
            match self.try_commit(unit, work) {
                Err(failure) if failure.kind == FailureKind::Locked && can_be_undone(work) => {
                    self.session.rollback().map_err(|failure| refused(unit, failure))?;
                    self.report.retries += 1;
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                result => return result.map_err(|failure| refused(unit, failure)),
            }
        }
        self.try_commit(unit, work).map_err(|failure| refused(unit, failure))
    }

    fn try_commit(&mut self, unit: &Unit, work: &Work) -> Result<(), Failure> {
        let session = &mut *self.session;
        match &work.shape {
            Shape::Alone { databases } => {
                let databases = databases.clone();
                session.announce(Intent { unit: Intent::name(unit), databases, before: String::new() })?;
            }
            _ => session.begin()?,
        }
        for step in &work.steps {
            match step {
                Step::Rows(context, rows) => session.rows(context, rows)?,
                Step::Statement(statement) => session.statement(statement)?,
            }
        }
        session.flush()?;
        if work.shape == Shape::Undone {
            session.rollback()?;
            session.begin()?;
        }
        session.commit(self.ledger.progress(), &mut || ())
    }
}

/// May it be tried again from its start?
const fn can_be_undone(work: &Work) -> bool {
    !matches!(work.shape, Shape::Alone { .. } | Shape::Undone)
}
