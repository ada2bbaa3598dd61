//! Forms commit groups: consecutive transactions that are committed as one, with their row changes folded.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::gtid::Gtid;
use binlog::{Flags, Format, Origin as EventOrigin, RawEvent};
use servers::quote;

use crate::context::Context;
use crate::error::Error;
use crate::net::{Changes, NetForm};
use crate::order::CommitOrder;
use crate::progress::{Ledger, Progress};
use crate::run::Options;
use crate::run::claim::{Claimer, Definitions};
use crate::schedule::{Claim, Mode};
use crate::target::{RollbackTraces, Target};
use crate::unit::{Head, Origin};
use crate::work::{RowEvents, Shape, Step, Work};

/// Source transactions that are committed as one.
#[derive(Debug)]
pub(super) struct Group {
    /// The first transaction.
    pub(super) head: Head,
    /// Number of transactions.
    pub(super) transactions: u64,
    /// Commit time of each transaction on its source: [`Head::committed_us`].
    pub(super) committed_us: Vec<u64>,
    /// Position of the last transaction.
    pub(super) end: Origin,
    pub(super) work: Work,
    /// Progress to save with the group, if commits come in order.
    pub(super) progress: Progress,
    /// GTIDs to add to the progress, if commits come in any order.
    pub(super) gtids: Vec<Gtid>,
    /// Groups that must not run at the same time.
    pub(super) claim: Claim,
    /// The transactions of a group of several, to find the one that fails.
    pub(super) members: Vec<GroupMember>,
}

/// A transaction of a group of several.
#[derive(Debug)]
pub(super) struct GroupMember {
    pub(super) head: Head,
    /// Row changes; `None` if there are none.
    pub(super) rows: Option<(Arc<Context>, RowEvents)>,
}

impl Group {
    /// Returns the bytes of the apply plan and of the members' rows.
    pub(super) fn size(&self) -> usize {
        let members = self.members.iter().map(GroupMember::size).sum::<usize>();
        self.work.steps.iter().map(Step::size).sum::<usize>() + members
    }
}

impl GroupMember {
    fn size(&self) -> usize {
        self.rows.as_ref().map_or(0, |(_, rows)| rows.bytes.len())
    }
}

/// Puts transactions into groups, in source order.
pub(super) struct Former<'t> {
    target: &'t dyn Target,
    order: CommitOrder,
    group_max: u64,
    /// Maximum bytes of changes in a group. Bounds memory.
    group_size_max: usize,
    pub(super) ledger: Ledger,
    /// Undecided XA transactions, by XID.
    held: HashMap<String, (Head, Work)>,
    definitions: Definitions,
    claimer: Claimer,
    open: Option<OpenGroup>,
}

/// A group that further transactions can join.
struct OpenGroup {
    head: Head,
    transactions: u64,
    committed_us: Vec<u64>,
    end: Origin,
    claim: Claim,
    session: Option<u32>,
    context: Arc<Context>,
    format: Arc<Format>,
    changes: Changes,
    members: Vec<GroupMember>,
    /// Bytes of the members' rows.
    members_size: usize,
}

/// Bytes of rows in an event of a net change. Targets split rows into statements themselves.
const ROWS_SIZE_MAX: usize = 1 << 20;

impl<'t> Former<'t> {
    /// Creates a builder that makes claims for `mode`.
    pub(super) fn new(target: &'t dyn Target, options: &Options, mode: Mode, ledger: Ledger) -> Self {
        Self {
            target,
            order: options.order,
            group_max: options.group_max as u64,
            group_size_max: options.memory / 8,
            ledger,
            held: HashMap::new(),
            definitions: Definitions::default(),
            claimer: Claimer::new(mode),
            open: None,
        }
    }

    /// Takes the next transaction; appends the groups that are complete with it.
    pub(super) fn take(&mut self, head: Head, work: Work, out: &mut Vec<Group>) -> Result<(), Error> {
        if self.order == CommitOrder::Any && head.gtid().is_none() {
            return Err(Error::Refused(format!(
                "{head} has no GTID: --commit-order any saves progress by GTID. Use grouped or strict"
            )));
        }
        let claim = self.claimer.claim(&head, &work)?;
        match &work.shape {
            Shape::Rows if self.order == CommitOrder::Grouped && work.steps.len() <= 1 && work.is_held() => {
                return self.join(head, work, claim, out);
            }
            _ => self.close(out)?,
        }
        let (work, prepared) = match work.shape.clone() {
            Shape::Prepared(xid) => {
                self.refuse_another(&xid, &head)?;
                self.ledger.hold(&head);
                self.held.insert(xid, (head, work));
                return Ok(());
            }
            Shape::Commits(xid) => {
                let (prepared, changes) = self.take_held(&xid, &head)?;
                (changes, Some(prepared))
            }
            Shape::RollsBack(xid) => {
                let (prepared, changes) = self.take_held(&xid, &head)?;
                // A replica runs the changes, and rolls them back.
                let work = match self.target.rollback_traces() {
                    RollbackTraces::Stay => Work { shape: Shape::Undone, ..changes },
                    RollbackTraces::None => work,
                };
                (work, Some(prepared))
            }
            Shape::Alone { .. } => {
                self.definitions.forget();
                self.claimer.forget();
                (work, None)
            }
            _ => (work, None),
        };
        let mut gtids = Vec::new();
        for head in prepared.iter().chain([&head]) {
            self.ledger.done(head);
            gtids.extend(head.gtid());
        }
        let transactions = 1 + u64::from(prepared.is_some());
        let (committed_us, end, progress) =
            (vec![head.committed_us], head.origin.clone(), self.ledger.save());
        let members = Vec::new();
        self.push(Group { head, transactions, committed_us, end, work, progress, gtids, claim, members }, out)
    }

    /// Appends a complete group, after its changes are added to its claim.
    fn push(&mut self, mut group: Group, out: &mut Vec<Group>) -> Result<(), Error> {
        if self.claimer.needs_tables() && group.work.shape == Shape::Rows {
            for step in &group.work.steps {
                let Step::Rows(_, rows) = step else { continue };
                let asked = self.definitions.ask(rows, self.target);
                asked.map_err(|failure| failure.at("read the definition of a table"))?;
            }
            let added = self.claimer.add(&mut group.claim, &group.work, &self.definitions);
            added.map_err(|error| Error::Work { unit: group.head.to_string(), error: error.into() })?;
        }
        out.push(group);
        Ok(())
    }

    /// Returns whether a group waits for further transactions.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Appends the open group.
    pub(super) fn close(&mut self, out: &mut Vec<Group>) -> Result<(), Error> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let mut rows = RowEvents { format: open.format, bytes: Vec::new() };
        let written = open.changes.write(&mut rows.bytes);
        written.map_err(|error| Error::Work { unit: open.head.to_string(), error: error.into() })?;
        let mut steps = Vec::new();
        if !rows.bytes.is_empty() {
            steps.push(Step::Rows(open.context, rows));
        }
        let work = Work { shape: Shape::Rows, steps, session: open.session };
        let OpenGroup { head, transactions, committed_us, end, claim, mut members, .. } = open;
        if transactions == 1 {
            members.clear();
        }
        let (progress, gtids) = (self.ledger.save(), Vec::new());
        self.push(Group { head, transactions, committed_us, end, work, progress, gtids, claim, members }, out)
    }

    /// Returns the XIDs of undecided XA transactions.
    pub(super) fn undecided(self) -> Vec<String> {
        let mut xids: Vec<String> = self.held.into_keys().map(|xid| shown_xid(&xid)).collect();
        xids.sort();
        xids
    }

    fn join(&mut self, head: Head, work: Work, claim: Claim, out: &mut Vec<Group>) -> Result<(), Error> {
        let session = work.session;
        let step = match work.steps.into_iter().next() {
            Some(Step::Rows(context, rows)) => Some((Arc::new(context.for_rows()), rows)),
            _ => None,
        };
        if let (Some(open), Some((context, rows))) = (&self.open, &step)
            && !open.takes(context, &rows.format)
        {
            self.close(out)?;
        }
        let Some((context, rows)) = step else { return self.join_empty(head, claim, out) };
        let asked = self.definitions.ask(&rows, self.target);
        asked.map_err(|failure| failure.at("read the definition of a table"))?;
        let open = match &mut self.open {
            Some(open) => {
                open.claim.join(claim);
                open
            }
            none => none.insert(OpenGroup::new(head.clone(), claim, Arc::clone(&context), &rows.format)),
        };
        open.session = session;
        let events: Vec<RawEvent<'_>> = rows.events().collect();
        let definitions = &self.definitions;
        let taken = open.changes.take(&events, &rows.format, &|map| definitions.find(map));
        taken.map_err(|error| Error::Refused(format!("{head}: {error}")))?;
        drop(events);
        open.add(&head, Some((context, rows)));
        self.ledger.done(&head);
        // Memory holds both: the net changes, and the rows of each transaction.
        let size = open.changes.size() + open.members_size;
        if open.transactions >= self.group_max || size >= self.group_size_max {
            self.close(out)?;
        }
        Ok(())
    }

    /// Joins a transaction that changes nothing: only its progress is saved.
    fn join_empty(&mut self, head: Head, claim: Claim, out: &mut Vec<Group>) -> Result<(), Error> {
        self.ledger.done(&head);
        match &mut self.open {
            Some(open) => {
                open.add(&head, None);
                open.claim.join(claim);
            }
            None => {
                let work = Work { shape: Shape::Rows, steps: Vec::new(), session: None };
                let (progress, gtids) = (self.ledger.save(), Vec::new());
                let (committed_us, end) = (vec![head.committed_us], head.origin.clone());
                let (transactions, members) = (1, Vec::new());
                out.push(Group {
                    head,
                    transactions,
                    committed_us,
                    end,
                    work,
                    progress,
                    gtids,
                    claim,
                    members,
                });
            }
        }
        Ok(())
    }

    /// Refuses a second prepared transaction with the same XID: the logs then lack the decision of the first.
    fn refuse_another(&self, xid: &str, head: &Head) -> Result<(), Error> {
        let Some((first, _)) = self.held.get(xid) else { return Ok(()) };
        Err(Error::Refused(format!(
            "{head} prepares the XA transaction {} again, but the logs do not commit or roll back {first}. If that was \
             rolled back, leave it out with --exclude-gtids",
            shown_xid(xid)
        )))
    }

    fn take_held(&mut self, xid: &str, head: &Head) -> Result<(Head, Work), Error> {
        let (prepared, mut work) = self.held.remove(xid).ok_or_else(|| {
            Error::Refused(format!(
                "{head} commits or rolls back the XA transaction {}, which was prepared before the first transaction \
                 applied here. Give the log that has its XA PREPARE too, and start before that",
                shown_xid(xid)
            ))
        })?;
        work.shape = Shape::Statements;
        Ok((prepared, work))
    }
}

/// Formats an XID as a client would write it: `X'67',X'62',1`, with text in place of hex digits where it is printable.
fn shown_xid(xid: &str) -> String {
    let shown = |part: &str| -> Option<String> {
        let digits = part.strip_prefix("X'").or(part.strip_prefix("x'"))?.strip_suffix('\'')?;
        let bytes = quote::unhex(digits)?;
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && !matches!(byte, b'\'' | b'\\');
        bytes.iter().all(is_plain).then(|| format!("'{}'", String::from_utf8_lossy(&bytes)))
    };
    xid.split(',').map(|part| shown(part).unwrap_or_else(|| part.to_owned())).collect::<Vec<_>>().join(",")
}

impl OpenGroup {
    fn new(head: Head, claim: Claim, context: Arc<Context>, format: &Arc<Format>) -> Self {
        let origin = EventOrigin { timestamp: 0, server_id: 1, flags: Flags(0) };
        let form = NetForm { origin, format: (**format).clone(), rows_size_max: ROWS_SIZE_MAX };
        let changes = Changes::new(format.flavour, form);
        let format = Arc::clone(format);
        let (committed_us, end) = (Vec::new(), head.origin.clone());
        let (members, members_size) = (Vec::new(), 0);
        let (transactions, session) = (0, None);
        Self {
            head,
            transactions,
            committed_us,
            end,
            claim,
            session,
            context,
            format,
            changes,
            members,
            members_size,
        }
    }

    /// Adds this transaction.
    fn add(&mut self, head: &Head, rows: Option<(Arc<Context>, RowEvents)>) {
        let member = GroupMember { head: head.clone(), rows };
        self.members_size += member.size();
        self.members.push(member);
        self.transactions += 1;
        self.committed_us.push(head.committed_us);
        self.end.clone_from(&head.origin);
    }

    fn takes(&self, context: &Arc<Context>, format: &Arc<Format>) -> bool {
        self.context == *context && (Arc::ptr_eq(&self.format, format) || self.format == *format)
    }
}

#[cfg(test)]
mod tests {
    use super::shown_xid;

    #[test]
    fn xids_are_text_where_they_can_be_printed() {
        let check = |xid: &str, wanted: &str| assert_eq!(shown_xid(xid), wanted);
        check("X'6f72646572',X'31',1", "'order','1',1");
        check("X'61',X'',1", "'a','',1");
        check("X'00ff',X'61',7", "X'00ff','a',7");
        check("X'27',X'5c',1", "X'27',X'5c',1");
        check("'a'", "'a'");
        check("X'é'", "X'é'");
    }
}
