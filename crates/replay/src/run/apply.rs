//! Applies commit groups one after the other in one session.

use std::time::Duration;

use crate::changes::RowReader;
use crate::error::{Error, Failure, FailureKind};
use crate::order::RETRIES_MAX;
use crate::progress::Intent;
use crate::run::form::{Group, GroupMember};
use crate::target::{Session, Target};
use crate::unit::Head;
use crate::work::{RowEvents, Shape, Step};

/// Wait before a group is first retried; it doubles each time.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

pub(super) struct Applier {
    session: Box<dyn Session>,
    counter: RowCounter,
    pub(super) tally: Tally,
}

/// Totals of the groups applied so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
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

impl Applier {
    pub(super) fn new(target: &dyn Target) -> Result<Self, Error> {
        let session = target.session().map_err(|failure| failure.at("open a session"))?;
        Ok(Self { session, counter: RowCounter::default(), tally: Tally { at_once: 1, ..Tally::default() } })
    }

    /// Applies and commits a group. Retries it after lock conflicts, unless `go_on` returns an error.
    pub(super) fn apply(
        &mut self,
        group: &Group,
        go_on: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut pause = RETRY_PAUSE;
        for _ in 0..RETRIES_MAX {
            match self.try_apply(group) {
                Err(failure) if failure.kind == FailureKind::Locked && can_be_undone(group) => {
                    let unit = || group.head.to_string();
                    self.session.rollback().map_err(|failure| Error::Apply { unit: unit(), failure })?;
                    self.tally.retries += 1;
                    go_on()?;
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                result => return result.map_err(|failure| self.name_failed_member(group, failure)),
            }
        }
        self.try_apply(group).map_err(|failure| self.name_failed_member(group, failure))
    }

    fn name_failed_member(&mut self, group: &Group, failure: Failure) -> Error {
        // If the rollback fails, the session is lost, and the search finds nothing.
        let _ = self.session.rollback();
        name_failed_member(&mut *self.session, group, failure)
    }

    fn try_apply(&mut self, group: &Group) -> Result<(), Failure> {
        put(&mut *self.session, group, &mut self.counter)?;
        self.session.commit(&group.progress, &mut || ())?;
        self.tally.rows += self.counter.rows;
        Ok(())
    }
}

/// Applies all steps of a group, without the commit.
pub(super) fn put(session: &mut dyn Session, group: &Group, counter: &mut RowCounter) -> Result<(), Failure> {
    counter.rows = 0;
    session.name(&group.gtids)?;
    let format = group.work.steps.iter().find_map(|step| match step {
        Step::Rows(_, rows) => Some(&rows.format),
        Step::Spooled(_, rows) => Some(rows.format()),
        Step::Statement(_) => None,
    });
    match &group.work.shape {
        Shape::Alone { databases } => {
            let (unit, databases) = (Intent::name(&group.head), databases.clone());
            session.announce(Intent { unit, databases, before: String::new() }, format)?;
        }
        _ => {
            session.begin()?;
            if let (Some(format), Some(Step::Statement(_))) = (format, group.work.steps.first()) {
                session.expect(format)?;
            }
        }
    }
    for step in &group.work.steps {
        match step {
            Step::Rows(context, rows) => {
                counter.count(rows);
                session.rows(context, rows)?;
            }
            Step::Spooled(context, rows) => {
                for part in rows.parts() {
                    let unread = |error| {
                        Failure::refused(format!("could not read its rows from the temporary file: {error}"))
                    };
                    let part = part.map_err(unread)?;
                    counter.count(&part);
                    session.rows(context, &part)?;
                }
            }
            Step::Statement(statement) => session.statement(statement)?,
        }
    }
    session.flush()?;
    if group.work.shape == Shape::Undone {
        session.rollback()?;
        session.begin()?;
        counter.rows = 0;
    }
    Ok(())
}

/// Finds the failed transaction of a group by applying them one after the other, then rolls back. The session must have
/// been rolled back before.
pub(super) fn name_failed_member(session: &mut dyn Session, group: &Group, failure: Failure) -> Error {
    let found = match failure.kind {
        FailureKind::Refused => find_refused(session, &group.members),
        _ => None,
    };
    match (found, group.members.last()) {
        (Some((head, failure)), _) => Error::Apply { unit: head.to_string(), failure },
        (None, None) => Error::Apply { unit: group.head.to_string(), failure },
        (None, Some(last)) => {
            let unit =
                format!("the {} transactions from {} to {}", group.transactions, group.head, last.head);
            Error::Apply { unit, failure }
        }
    }
}

fn find_refused<'g>(session: &mut dyn Session, members: &'g [GroupMember]) -> Option<(&'g Head, Failure)> {
    if members.is_empty() || session.begin().is_err() {
        return None;
    }
    let mut refused = None;
    for member in members {
        let Some((context, rows)) = &member.rows else { continue };
        if let Err(failure) = session.rows(context, rows).and_then(|()| session.flush()) {
            refused = Some((&member.head, failure));
            break;
        }
    }
    // Nothing follows in this session.
    let _ = session.rollback();
    // A lock of another session says nothing about the transaction.
    refused.filter(|(_, failure)| failure.kind == FailureKind::Refused)
}

/// Returns whether the group can be rolled back and tried again.
pub(super) const fn can_be_undone(group: &Group) -> bool {
    !matches!(group.work.shape, Shape::Alone { .. } | Shape::Undone)
}
