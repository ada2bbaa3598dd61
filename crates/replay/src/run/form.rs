//! Forms commit groups: transactions in a row that are committed as one, with what they do to rows folded.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::events::TableMap;
use binlog::{Event, Flags, Format, Origin, RawEvent};

use crate::context::Context;
use crate::definition::Definition;
use crate::error::{Error, Failure};
use crate::net::{Changes, NetForm};
use crate::order::CommitOrder;
use crate::progress::{Ledger, Progress};
use crate::run::Options;
use crate::target::Target;
use crate::unit::Head;
use crate::work::{RowEvents, Shape, Step, Work};

/// Source transactions that are committed as one.
#[derive(Debug)]
pub(super) struct Group {
    /// The first of them.
    pub(super) head: Head,
    /// How many they are.
    pub(super) transactions: u64,
    pub(super) work: Work,
    /// What is saved with them.
    pub(super) progress: Progress,
}

/// Puts transactions into groups, in source order.
pub(super) struct Former<'t> {
    target: &'t dyn Target,
    order: CommitOrder,
    group_max: u64,
    pub(super) ledger: Ledger,
    /// XA transactions that are prepared and not decided, by XID.
    held: HashMap<String, (Head, Work)>,
    definitions: Definitions,
    open: Option<OpenGroup>,
}

/// Definitions asked for by now: by database, by table.
type Definitions = HashMap<Box<[u8]>, HashMap<Box<[u8]>, Option<Definition>>>;

/// A group that more can join.
struct OpenGroup {
    head: Head,
    transactions: u64,
    context: Arc<Context>,
    format: Arc<Format>,
    changes: Changes,
}

/// Bytes of changes in a group, at most. Bounds memory.
const GROUP_SIZE_MAX: usize = 64 << 20;

/// Bytes of rows in an event of a net change: rows are cut into statements elsewhere.
const ROWS_SIZE_MAX: usize = 1 << 20;

impl<'t> Former<'t> {
    pub(super) fn new(target: &'t dyn Target, options: &Options, ledger: Ledger) -> Self {
        Self {
            target,
            order: options.order,
            group_max: options.group_max as u64,
            ledger,
            held: HashMap::new(),
            definitions: HashMap::new(),
            open: None,
        }
    }

    /// Takes the next transaction; hands on the groups that are whole with it.
    pub(super) fn take(&mut self, head: Head, work: Work, out: &mut Vec<Group>) -> Result<(), Error> {
        match &work.shape {
            Shape::Rows if self.order != CommitOrder::Strict && work.steps.len() <= 1 => {
                return self.join(head, work, out);
            }
            _ => self.close(out)?,
        }
        let (work, transactions) = match work.shape.clone() {
            Shape::Prepared(xid) => {
                self.ledger.hold(&head);
                self.held.insert(xid, (head, work));
                return Ok(());
            }
            Shape::Commits(xid) => {
                let (prepared, changes) = self.take_held(&xid, &head)?;
                self.ledger.done(&prepared);
                (changes, 2)
            }
            Shape::RollsBack(xid) => {
                let (prepared, _) = self.take_held(&xid, &head)?;
                self.ledger.done(&prepared);
                (work, 2)
            }
            Shape::Alone { .. } => {
                self.definitions.clear();
                (work, 1)
            }
            _ => (work, 1),
        };
        self.ledger.done(&head);
        out.push(Group { head, transactions, work, progress: self.ledger.progress().clone() });
        Ok(())
    }

    /// Is there something that waits for more?
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Hands on what waits for more.
    pub(super) fn close(&mut self, out: &mut Vec<Group>) -> Result<(), Error> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let mut rows = RowEvents { format: open.format, bytes: Vec::new() };
        let written = open.changes.write(&mut rows.bytes);
        written.map_err(|error| Error::Work { unit: open.head.to_string(), error: error.into() })?;
        let mut steps = Vec::new();
        if !rows.bytes.is_empty() {
            steps.push(Step::Rows(open.context, rows));
        }
        let (work, progress) = (Work { shape: Shape::Rows, steps }, self.ledger.progress().clone());
        out.push(Group { head: open.head, transactions: open.transactions, work, progress });
        Ok(())
    }

    /// The XIDs of what is prepared and not decided.
    pub(super) fn undecided(self) -> Vec<String> {
        let mut xids: Vec<String> = self.held.into_keys().collect();
        xids.sort();
        xids
    }

    fn join(&mut self, head: Head, work: Work, out: &mut Vec<Group>) -> Result<(), Error> {
        let step = match work.steps.into_iter().next() {
            Some(Step::Rows(context, rows)) => Some((Arc::new(context.for_rows()), rows)),
            _ => None,
        };
        if let (Some(open), Some((context, rows))) = (&self.open, &step)
            && !open.takes(context, &rows.format)
        {
            self.close(out)?;
        }
        let Some((context, rows)) = step else { return self.join_empty(head, out) };
        self.define(&rows).map_err(|failure| failure.at("ask what a table is"))?;
        let open = self.open.get_or_insert_with(|| OpenGroup::new(head.clone(), context, &rows.format));
        let events: Vec<RawEvent<'_>> = rows.events().collect();
        let definitions = &self.definitions;
        let define = |map: &TableMap<'_>| definitions.get(map.database)?.get(map.table)?.as_ref();
        let taken = open.changes.take(&events, &rows.format, &define);
        taken.map_err(|error| Error::Refused(format!("{head}: {error}")))?;
        open.transactions += 1;
        self.ledger.done(&head);
        if open.transactions >= self.group_max || open.changes.size() >= GROUP_SIZE_MAX {
            self.close(out)?;
        }
        Ok(())
    }

    /// A transaction that changes nothing: only that it is done is to be saved.
    fn join_empty(&mut self, head: Head, out: &mut Vec<Group>) -> Result<(), Error> {
        self.ledger.done(&head);
        match &mut self.open {
            Some(open) => open.transactions += 1,
            None => {
                let work = Work { shape: Shape::Rows, steps: Vec::new() };
                out.push(Group { head, transactions: 1, work, progress: self.ledger.progress().clone() });
            }
        }
        Ok(())
    }

    /// Sees to it that the tables of these events are known.
    fn define(&mut self, rows: &RowEvents) -> Result<(), Failure> {
        for raw in rows.events() {
            let Ok(Event::TableMap(map)) = raw.decode(&rows.format) else { continue };
            let is_known =
                self.definitions.get(map.database).is_some_and(|tables| tables.contains_key(map.table));
            if !is_known {
                let definition = self.target.definition(map.database, map.table)?;
                let tables = self.definitions.entry(map.database.into()).or_default();
                tables.insert(map.table.into(), definition);
            }
        }
        Ok(())
    }

    fn take_held(&mut self, xid: &str, head: &Head) -> Result<(Head, Work), Error> {
        let (prepared, mut work) = self.held.remove(xid).ok_or_else(|| {
            Error::Refused(format!(
                "{head} decides the XA transaction {xid}, which was prepared before the first of these logs: give \
                 the log that has its XA PREPARE too"
            ))
        })?;
        work.shape = Shape::Statements;
        Ok((prepared, work))
    }
}

impl OpenGroup {
    fn new(head: Head, context: Arc<Context>, format: &Arc<Format>) -> Self {
        let origin = Origin { timestamp: 0, server_id: 1, flags: Flags(0) };
        let form = NetForm { origin, format: (**format).clone(), rows_size_max: ROWS_SIZE_MAX };
        let changes = Changes::new(format.flavour, form);
        Self { head, transactions: 0, context, format: Arc::clone(format), changes }
    }

    fn takes(&self, context: &Arc<Context>, format: &Arc<Format>) -> bool {
        self.context == *context && (Arc::ptr_eq(&self.format, format) || self.format == *format)
    }
}
