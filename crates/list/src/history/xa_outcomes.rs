//! Outcomes of XA transactions: a log contains the changes before it is known whether they were committed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

use binlog::{DecodeError, Event, TransactionVerb};

use super::history_walk;
use super::row_history::HistorySettings;
use crate::event_context::EventContext;
use crate::list_error::ListError;
use crate::list_output::ListOutput;
use crate::located_event::{ListedEvent, LocatedEvent, OutputRefusal};

/// Outcome of an XA transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum XaOutcome {
    Committed,
    RolledBack,
}

/// Finds the outcomes of XA transactions in the logs. Reads each log at most once.
#[derive(Debug, Default)]
pub(super) struct XaOutcomes {
    /// Ends of XA transactions, in order, by the number of their log.
    ends: HashMap<usize, Vec<XaEnd>>,
}

/// End of an XA transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct XaEnd {
    position: u64,
    xid: String,
    outcome: XaOutcome,
}

impl XaOutcomes {
    /// Returns the outcome of an XA transaction with a change at `position` of the log with this number; `None` if the
    /// logs do not contain its end. Calls `on_progress` with the number of each log before reading it.
    pub(super) fn find(
        &mut self,
        settings: &HistorySettings,
        (log, position): (usize, u64),
        xid: &str,
        on_progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Option<XaOutcome>, ListError> {
        for later in log..settings.sources.len() {
            let ends = match self.ends.entry(later) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    if on_progress(later).is_break() {
                        return Err(ListError::Stopped);
                    }
                    unknown.insert(read_ends(settings, later)?)
                }
            };
            let from = if later == log { position } else { 0 };
            if let Some(end) = ends.iter().find(|end| end.position >= from && end.xid == xid) {
                return Ok(Some(end.outcome));
            }
        }
        Ok(None)
    }
}

fn read_ends(settings: &HistorySettings, log: usize) -> Result<Vec<XaEnd>, ListError> {
    let mut ends = Vec::new();
    // The search for changes reports a torn end.
    history_walk(settings).run(&settings.sources[log..=log], &XaEndSearch, |part| {
        ends.extend(part);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(ends)
}

/// Searches for the ends of XA transactions.
struct XaEndSearch;

impl ListOutput for XaEndSearch {
    type ListWorker = ();
    type Part = Vec<XaEnd>;

    fn worker(&self) {}

    fn put(
        &self,
        (): &mut (),
        _: &mut EventContext,
        ListedEvent { located, event }: ListedEvent<'_>,
        part: &mut Vec<XaEnd>,
    ) -> Result<(), OutputRefusal> {
        part.extend(end_of(event).map(|(xid, outcome)| XaEnd { position: located.position, xid, outcome }));
        Ok(())
    }

    fn put_damaged(&self, _: &EventContext, _: &LocatedEvent<'_>, _: DecodeError, _: &mut Vec<XaEnd>) {
        // The walk ends at damage.
    }

    fn size(part: &Vec<XaEnd>) -> usize {
        part.iter().map(|end| size_of::<XaEnd>() + end.xid.len()).sum()
    }
}

/// Returns the XID and the outcome, if the event ends an XA transaction.
fn end_of(event: &Event<'_>) -> Option<(String, XaOutcome)> {
    match event {
        Event::Query(query) => {
            let outcome = match TransactionVerb::of(query.sql) {
                TransactionVerb::XaCommit => XaOutcome::Committed,
                TransactionVerb::XaRollback => XaOutcome::RolledBack,
                _ => return None,
            };
            Some((TransactionVerb::xid(query.sql)?.to_owned(), outcome))
        }
        Event::XaPrepare(prepare) if prepare.one_phase != 0 => {
            Some((prepare.xid.to_string(), XaOutcome::Committed))
        }
        _ => None,
    }
}
