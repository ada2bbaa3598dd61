//! What a transaction says of itself, without its events.

use std::fmt;

use crate::error::DecodeError;
use crate::event::Event;
use crate::events::{CommitStamps, GtidEvent, GtidTagged, LogicalClock, MariadbGtid};
use crate::format::Format;
use crate::gtid::Gtid;
use crate::raw::RawEvent;
use crate::transaction::grammar::{Fault, Grammar, Lost, Step};
use crate::transaction::role::Role;

/// What a transaction says of itself, without its events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Outline {
    /// Where its first event starts in its file.
    pub position: u64,
    /// Where its last event ends. In relay logs, other events may stand between the two.
    pub end: u64,
    /// Its events' sizes together, in bytes.
    pub size: u64,
    /// How many events it has; a payload counts as one.
    pub events: u64,
    /// Its identifier.
    pub id: TransactionId,
    /// What may run beside it; absent before MySQL 5.7 and in MariaDB.
    pub clock: Option<LogicalClock>,
    /// When, how large and by which server; absent before MySQL 8.0.1 and in MariaDB.
    pub stamps: Option<CommitStamps>,
    /// Of its first event: in seconds since 1970.
    pub timestamp: u32,
    /// Of its first event: the server it began on.
    pub server_id: u32,
    /// What became of it, and what it is.
    pub kind: TransactionKind,
}

/// A transaction's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TransactionId {
    /// MySQL's.
    Gtid(Gtid),
    /// MariaDB's.
    Mariadb(MariadbGtid),
    /// The source says that it has none.
    Anonymous,
    /// No event says: a server from before 5.6, or a log read from its middle.
    Unsaid,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gtid(gtid) => gtid.fmt(out),
            Self::Mariadb(gtid) => gtid.fmt(out),
            Self::Anonymous | Self::Unsaid => out.write_str("ANONYMOUS"),
        }
    }
}

/// What a transaction is, by its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TransactionKind {
    /// It goes on.
    Open,
    /// Changes, committed.
    Committed,
    /// Changes, rolled back as far as that was possible.
    RolledBack,
    /// One statement that commits by itself, such as DDL.
    Statement,
    /// The first phase of an XA transaction: to be committed or rolled back later.
    XaPrepared,
    /// The second phase of one.
    XaFinished,
    /// Changes, compressed and not yet opened.
    Payload,
    /// Something that the log cannot tell.
    Incident,
}

impl TransactionKind {
    const fn of_last(role: Role) -> Self {
        match role {
            Role::Commit => Self::Committed,
            Role::Rollback => Self::RolledBack,
            Role::XaPrepare => Self::XaPrepared,
            Role::XaFinish => Self::XaFinished,
            Role::Payload => Self::Payload,
            Role::Incident => Self::Incident,
            _ => Self::Statement,
        }
    }
}

/// Follows a log event by event: where transactions start and end, and what they say of themselves.
///
/// It keeps the outline of the open transaction, and no events: memory stays small whatever the log holds.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    grammar: Grammar,
    open: Option<Outline>,
}

/// What one event meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// The part it plays.
    pub role: Role,
    /// Where it stands.
    pub step: Step,
    /// The transaction that it ended.
    pub ended: Option<Outline>,
}

/// An event that could not be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackError {
    /// It cannot be decoded; the tracker is as it was.
    Decode(DecodeError),
    /// It cannot stand there; the tracker has gone on.
    Fault(Box<TrackFault>),
}

/// An event that cannot stand where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackFault {
    /// What was found and wanted.
    pub fault: Fault,
    /// What the event meant all the same.
    pub tracked: Tracked,
    /// The open transaction, if it was given up.
    pub cut: Option<Outline>,
}

impl fmt::Display for TrackError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => error.fmt(out),
            Self::Fault(broken) => broken.fault.fmt(out),
        }
    }
}

impl std::error::Error for TrackError {}

impl Tracker {
    /// No transaction is open.
    pub const fn new() -> Self {
        Self { grammar: Grammar::new(), open: None }
    }

    /// The transaction that has started and not ended.
    pub const fn open(&self) -> Option<&Outline> {
        self.open.as_ref()
    }

    /// What may come next, in words.
    pub const fn wanted(&self) -> &'static str {
        self.grammar.wanted()
    }

    /// Takes the next event, which starts at `position` of its file.
    ///
    /// # Errors
    ///
    /// When the event cannot be decoded as far as is needed, or cannot stand where it stands.
    pub fn track(
        &mut self,
        position: u64,
        raw: &RawEvent<'_>,
        format: &Format,
    ) -> Result<Tracked, TrackError> {
        let role = Role::of(raw, format).map_err(TrackError::Decode)?;
        let fresh = Outline::new(position, role, raw, format).map_err(TrackError::Decode)?;
        match self.grammar.step(role) {
            Ok(step) => Ok(self.take(role, step, fresh)),
            Err(fault) => {
                let cut = if fault.lost == Lost::Transaction { self.open.take() } else { None };
                let tracked = self.take(role, fault.step, fresh);
                Err(TrackError::Fault(Box::new(TrackFault { fault, tracked, cut })))
            }
        }
    }

    fn take(&mut self, role: Role, step: Step, fresh: Outline) -> Tracked {
        if step == Step::OUTSIDE {
            return Tracked { role, step, ended: None };
        }
        match &mut self.open {
            Some(open) => open.extend(&fresh),
            None => self.open = Some(fresh),
        }
        let mut ended = None;
        if step.transaction.is_last() {
            let kind = TransactionKind::of_last(role);
            ended = self.open.take().map(|open| Outline { kind, ..open });
        }
        Tracked { role, step, ended }
    }
}

impl Outline {
    /// Of a transaction that has only this event.
    fn new(position: u64, role: Role, raw: &RawEvent<'_>, format: &Format) -> Result<Self, DecodeError> {
        let header = raw.header();
        let size = u64::from(header.size);
        let mut outline = Self {
            position,
            end: position.saturating_add(size),
            size,
            events: 1,
            id: TransactionId::Unsaid,
            clock: None,
            stamps: None,
            timestamp: header.timestamp,
            server_id: header.server_id,
            kind: TransactionKind::Open,
        };
        if matches!(role, Role::Gtid | Role::GtidAndBegin) {
            outline.announce(&raw.decode(format)?);
        }
        Ok(outline)
    }

    fn announce(&mut self, event: &Event<'_>) {
        match event {
            Event::Gtid(GtidEvent { clock, stamps, .. })
            | Event::AnonymousGtid(GtidEvent { clock, stamps, .. }) => {
                (self.clock, self.stamps) = (*clock, *stamps);
            }
            Event::GtidTagged(GtidTagged { clock, stamps, .. }) => {
                (self.clock, self.stamps) = (Some(*clock), Some(*stamps));
            }
            Event::MariadbGtid(event) => {
                self.id = TransactionId::Mariadb(event.gtid(self.server_id));
                return;
            }
            _ => return,
        }
        self.id = event.gtid().map_or(TransactionId::Anonymous, TransactionId::Gtid);
    }

    fn extend(&mut self, next: &Self) {
        self.end = next.end;
        self.size = self.size.saturating_add(next.size);
        self.events += next.events;
    }
}
