//! Outlines of transactions, without their events.

use std::fmt;

use crate::error::DecodeError;
use crate::event::Event;
use crate::events::{CommitStamps, GtidEvent, GtidTagged, LogicalClock, MariadbGtid};
use crate::format::EventFormat;
use crate::gtid::Gtid;
use crate::raw::RawEvent;
use crate::transaction::event_role::EventRole;
use crate::transaction::transaction_grammar::{GrammarFault, GrammarLoss, GrammarStep, TransactionGrammar};

/// Properties of a transaction, without its events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TransactionOutline {
    /// Position of the first event in its file.
    pub position: u64,
    /// End position of the last event. In relay logs, other events may be in between.
    pub end: u64,
    /// Total size of the events in bytes.
    pub size: u64,
    /// Number of events; a payload counts as one.
    pub events: u64,
    /// Identifier of the transaction.
    pub id: TransactionId,
    /// Logical clock; absent before MySQL 5.7 and in MariaDB.
    pub clock: Option<LogicalClock>,
    /// Commit times, size and server versions; absent before MySQL 8.0.1 and in MariaDB.
    pub stamps: Option<CommitStamps>,
    /// Timestamp of the first event, in seconds since 1970.
    pub timestamp: u32,
    /// Server ID of the first event: the server where the transaction originated.
    pub server_id: u32,
    /// Kind and outcome of the transaction.
    pub kind: TransactionKind,
}

/// Identifier of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TransactionId {
    /// GTID of MySQL.
    Gtid(Gtid),
    /// GTID of MariaDB.
    Mariadb(MariadbGtid),
    /// Anonymous transaction of MySQL.
    Anonymous,
    /// No identifier in the log: a server before 5.6, or a log read from the middle.
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

/// Kind of a transaction, determined by its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TransactionKind {
    /// The transaction has not ended.
    Open,
    /// Changes, committed.
    Committed,
    /// Changes, rolled back as far as possible.
    RolledBack,
    /// A single statement that commits implicitly, such as DDL.
    Statement,
    /// First phase of an XA transaction, to be committed or rolled back later.
    XaPrepared,
    /// Second phase of an XA transaction.
    XaFinished,
    /// Changes in a compressed payload.
    Payload,
    /// An incident event.
    Incident,
}

impl TransactionKind {
    const fn of_last(role: EventRole) -> Self {
        match role {
            EventRole::Commit => Self::Committed,
            EventRole::Rollback => Self::RolledBack,
            EventRole::XaPrepare => Self::XaPrepared,
            EventRole::XaFinish => Self::XaFinished,
            EventRole::Payload => Self::Payload,
            EventRole::Incident => Self::Incident,
            _ => Self::Statement,
        }
    }
}

/// Follows a log to find the start, end and outline of each transaction.
///
/// Keeps the outline of the open transaction, but no events: memory use is small for any log.
#[derive(Clone, Debug, Default)]
pub struct TransactionTracker {
    grammar: TransactionGrammar,
    open: Option<TransactionOutline>,
}

/// Role and place of one event in its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedEvent {
    /// Role of the event.
    pub role: EventRole,
    /// Place of the event.
    pub step: GrammarStep,
    /// Outline of the transaction that the event ended.
    pub ended: Option<TransactionOutline>,
}

/// Error in following an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackError {
    /// The event cannot be decoded; the tracker is unchanged.
    Decode(DecodeError),
    /// The event is not allowed in this state; the tracker has continued after it.
    Fault(Box<TrackFault>),
}

/// Event that is not allowed in its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackFault {
    /// Found and expected events.
    pub fault: GrammarFault,
    /// Role and place of the event after recovery.
    pub tracked: TrackedEvent,
    /// Outline of the open transaction, if it was discarded.
    pub discarded: Option<TransactionOutline>,
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

impl TransactionTracker {
    /// Creates a tracker with no open transaction.
    pub const fn new() -> Self {
        Self { grammar: TransactionGrammar::new(), open: None }
    }

    /// Returns the transaction that has started but not ended.
    pub const fn open(&self) -> Option<&TransactionOutline> {
        self.open.as_ref()
    }

    /// Describes the events allowed next.
    pub const fn expected(&self) -> &'static str {
        self.grammar.expected()
    }

    /// Follows the next event, which starts at `position` of its file.
    ///
    /// # Errors
    ///
    /// Fails if a required field of the event cannot be decoded, or the event is not allowed in this state.
    pub fn track(
        &mut self,
        position: u64,
        raw: &RawEvent<'_>,
        format: &EventFormat,
    ) -> Result<TrackedEvent, TrackError> {
        let role = EventRole::of(raw, format).map_err(TrackError::Decode)?;
        let fresh = TransactionOutline::new(position, role, raw, format).map_err(TrackError::Decode)?;
        match self.grammar.step(role) {
            Ok(step) => Ok(self.take(role, step, fresh)),
            Err(fault) => {
                let discarded = if fault.lost == GrammarLoss::Transaction { self.open.take() } else { None };
                let tracked = self.take(role, fault.step, fresh);
                Err(TrackError::Fault(Box::new(TrackFault { fault, tracked, discarded })))
            }
        }
    }

    fn take(&mut self, role: EventRole, step: GrammarStep, fresh: TransactionOutline) -> TrackedEvent {
        if step == GrammarStep::OUTSIDE {
            return TrackedEvent { role, step, ended: None };
        }
        match &mut self.open {
            Some(open) => open.extend(&fresh),
            None => self.open = Some(fresh),
        }
        let mut ended = None;
        if step.transaction.is_last() {
            let kind = TransactionKind::of_last(role);
            ended = self.open.take().map(|open| TransactionOutline { kind, ..open });
        }
        TrackedEvent { role, step, ended }
    }
}

impl TransactionOutline {
    /// Creates the outline of a transaction with only this event.
    fn new(
        position: u64,
        role: EventRole,
        raw: &RawEvent<'_>,
        format: &EventFormat,
    ) -> Result<Self, DecodeError> {
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
        if matches!(role, EventRole::Gtid | EventRole::GtidAndBegin) {
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
