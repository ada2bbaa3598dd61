//! Forms commit groups: consecutive transactions committed as one, with folded row changes.

use std::sync::Arc;

use binlog::gtid::Gtid;
use binlog::{EventFlags, EventFormat, EventOrigin, RawEvent};

use crate::apply_plan::{ApplyPlan, ApplyStep, TransactionShape};
use crate::commit_order::CommitOrder;
use crate::net_change::{GroupChanges, NetRowsForm};
use crate::replay_error::ReplayError;
use crate::replay_options::ReplayOptions;
use crate::replay_progress::{ProgressLedger, ReplayProgress};
use crate::replay_target::{ReplayTarget, RollbackTraces};
use crate::row_events::RowEvents;
use crate::run::claim_finder::{ClaimFinder, DefinitionCache};
use crate::run::undecided_transactions::UndecidedTransactions;
use crate::schedule::{ParallelMode, ScheduleClaim};
use crate::session_variables::SessionVariables;
use crate::source_transaction::{TransactionHead, TransactionOrigin};
use crate::target_table_definition::TargetTableName;

/// Source transactions that are committed as one.
#[derive(Debug)]
pub(super) struct CommitGroup {
    /// The first transaction.
    pub(super) head: TransactionHead,
    /// Number of transactions.
    pub(super) transactions: u64,
    /// Commit time of each transaction on its source: [`TransactionHead::committed_us`].
    pub(super) committed_us: Vec<u64>,
    /// Position of the last transaction.
    pub(super) end: TransactionOrigin,
    pub(super) plan: ApplyPlan,
    /// Progress to save with the group, if commits come in order.
    pub(super) progress: ReplayProgress,
    /// GTIDs to add to the progress, if commits come in any order.
    pub(super) gtids: Vec<Gtid>,
    /// Dependencies on other groups.
    pub(super) claim: ScheduleClaim,
    /// The transactions, if there are several: used to find the one that failed.
    pub(super) members: Vec<GroupMember>,
    /// A table whose engine keeps the group's changes after a rollback. Such a group has one transaction and runs
    /// alone: neither a deadlock nor the failure of another group may roll it back.
    pub(super) kept_table: Option<TargetTableName>,
}

/// A transaction of a group of several.
#[derive(Debug)]
pub(super) struct GroupMember {
    pub(super) head: TransactionHead,
    /// Row changes; `None` if there are none.
    pub(super) rows: Option<(Arc<SessionVariables>, RowEvents)>,
}

impl CommitGroup {
    /// Creates a group of one transaction.
    fn single(
        head: TransactionHead,
        plan: ApplyPlan,
        claim: ScheduleClaim,
        progress: ReplayProgress,
    ) -> Self {
        Self {
            transactions: 1,
            committed_us: vec![head.committed_us],
            end: head.origin.clone(),
            head,
            plan,
            progress,
            gtids: Vec::new(),
            claim,
            members: Vec::new(),
            kept_table: None,
        }
    }

    /// Returns the last transaction.
    pub(super) fn last_head(&self) -> &TransactionHead {
        self.members.last().map_or(&self.head, |member| &member.head)
    }

    /// Returns the bytes of the apply plan and of the members' rows.
    pub(super) fn size(&self) -> usize {
        let members = self.members.iter().map(GroupMember::size).sum::<usize>();
        self.plan.size() + members
    }
}

impl GroupMember {
    fn size(&self) -> usize {
        self.rows.as_ref().map_or(0, |(_, rows)| rows.bytes.len())
    }
}

/// Puts transactions into groups, in source order.
pub(super) struct GroupBuilder<'t> {
    target: &'t dyn ReplayTarget,
    order: CommitOrder,
    group_max: u64,
    /// Maximum bytes of changes in a group. Bounds memory.
    group_size_max: usize,
    pub(super) ledger: ProgressLedger,
    prepared: UndecidedTransactions,
    definitions: DefinitionCache,
    finder: ClaimFinder,
    open: Option<OpenGroup>,
}

/// A group that further transactions can join.
struct OpenGroup {
    head: TransactionHead,
    transactions: u64,
    committed_us: Vec<u64>,
    end: TransactionOrigin,
    claim: ScheduleClaim,
    session: Option<u32>,
    context: Arc<SessionVariables>,
    format: Arc<EventFormat>,
    changes: GroupChanges,
    members: Vec<GroupMember>,
    /// Bytes of the members' rows.
    members_size: usize,
}

/// Average bytes of a large transaction: its commit costs little compared with its rows, so merging saves little.
const LARGE_TRANSACTION_SIZE: usize = 16 << 10;

/// Maximum bytes of a group of large transactions: two such groups in parallel are faster than one of twice the size.
const LARGE_TRANSACTIONS_MAX: usize = 4 << 20;

/// Maximum bytes of rows in an event of a net change. Targets themselves split rows into statements.
const ROWS_SIZE_MAX: usize = 1 << 20;

impl<'t> GroupBuilder<'t> {
    /// Creates a builder that makes claims for `mode`.
    pub(super) fn new(
        target: &'t dyn ReplayTarget,
        options: &ReplayOptions,
        mode: ParallelMode,
        ledger: ProgressLedger,
    ) -> Self {
        Self {
            target,
            order: options.order,
            group_max: options.group_max as u64,
            group_size_max: options.memory / 10,
            ledger,
            prepared: UndecidedTransactions::new(options.memory / 8),
            definitions: DefinitionCache::default(),
            finder: ClaimFinder::new(mode),
            open: None,
        }
    }

    /// Takes the next transaction, and appends the groups that it completes.
    pub(super) fn take(
        &mut self,
        head: TransactionHead,
        plan: ApplyPlan,
        out: &mut Vec<CommitGroup>,
    ) -> Result<(), ReplayError> {
        if self.order == CommitOrder::Any && head.gtid().is_none() {
            return Err(ReplayError::Refused(format!(
                "{head} has no MySQL GTID: --commit-order any saves progress by GTID. Use grouped or strict"
            )));
        }
        let mut claim = self.finder.claim(&head, &plan)?;
        let can_join = self.order == CommitOrder::Grouped && plan.steps.len() <= 1 && plan.is_in_memory();
        if plan.shape == TransactionShape::Rows && can_join && self.find_kept_table(&plan)?.is_none() {
            return self.join(head, plan, claim, out);
        }
        self.close(out)?;
        assert!(self.open.is_none(), "ours: the open group precedes a transaction that cannot join it");
        let (plan, prepared) = match plan.shape.clone() {
            TransactionShape::XaPrepare(xid) => {
                self.prepared.insert(xid, &head, plan)?;
                self.ledger.mark_prepared(&head);
                return Ok(());
            }
            TransactionShape::XaCommit(xid) => {
                let (prepared, changes) = self.prepared.take(&xid, &head)?;
                (changes, Some(prepared))
            }
            TransactionShape::XaRollback(xid) => {
                let (prepared, changes) = self.prepared.take(&xid, &head)?;
                // As a replica does: run the changes, and roll them back.
                let plan = match self.target.rollback_traces() {
                    RollbackTraces::Stay => ApplyPlan { shape: TransactionShape::RolledBack, ..changes },
                    RollbackTraces::None => plan,
                };
                (plan, Some(prepared))
            }
            TransactionShape::ImplicitCommit { .. } => {
                self.definitions.forget();
                self.finder.forget();
                (plan, None)
            }
            _ => (plan, None),
        };
        let kept_table = self.find_kept_table(&plan)?;
        if kept_table.is_some() {
            claim.set_alone();
        }
        let mut gtids = Vec::new();
        for head in prepared.iter().chain([&head]) {
            self.ledger.mark_applied(head);
            gtids.extend(head.gtid());
        }
        let transactions = 1 + u64::from(prepared.is_some());
        let single = CommitGroup::single(head, plan, claim, self.ledger.next_progress());
        let group = CommitGroup { transactions, gtids, kept_table, ..single };
        self.push(group, out)
    }

    /// Returns a table that would keep changes of this transaction after a rollback. Reads the definitions of the
    /// transaction's tables. A statement that commits implicitly has its own record on the target.
    fn find_kept_table(&mut self, plan: &ApplyPlan) -> Result<Option<TargetTableName>, ReplayError> {
        if let TransactionShape::ImplicitCommit { .. } = plan.shape {
            return Ok(None);
        }
        let found = self.definitions.find_kept_table(&plan.steps, self.target);
        found.map_err(|failure| failure.into_error("read the definition of a table"))
    }

    /// Adds the group's changes to its claim, and appends the complete group.
    fn push(&mut self, mut group: CommitGroup, out: &mut Vec<CommitGroup>) -> Result<(), ReplayError> {
        assert!(
            group.members.is_empty() || group.members.len() as u64 == group.transactions,
            "ours: a group has all its members, or none"
        );
        assert!(
            group.kept_table.is_none() || group.transactions <= 2,
            "ours: changes that a rollback keeps are in a group of their own"
        );
        assert!(!group.committed_us.is_empty(), "ours: each group has a commit time, for the lag");
        assert!(
            self.order != CommitOrder::Any || group.gtids.len() as u64 == group.transactions,
            "ours: in any order, progress consists of the GTIDs of all transactions"
        );
        if self.finder.needs_tables() && group.plan.shape == TransactionShape::Rows {
            let added = self.finder.add(&mut group.claim, &group.plan, &self.definitions);
            added.map_err(|error| ReplayError::Plan {
                transaction: group.head.to_string(),
                error: error.into(),
            })?;
        }
        out.push(group);
        Ok(())
    }

    /// Returns whether a group waits for further transactions.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Appends the open group.
    pub(super) fn close(&mut self, out: &mut Vec<CommitGroup>) -> Result<(), ReplayError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let mut rows = RowEvents { format: open.format, bytes: Vec::new() };
        let written = open.changes.write(&mut rows.bytes);
        written
            .map_err(|error| ReplayError::Plan { transaction: open.head.to_string(), error: error.into() })?;
        let mut steps = Vec::new();
        if !rows.bytes.is_empty() {
            steps.push(ApplyStep::Rows(open.context, rows));
        }
        let plan = ApplyPlan { shape: TransactionShape::Rows, steps, session: open.session };
        let OpenGroup { head, transactions, committed_us, end, claim, mut members, .. } = open;
        assert!((1..=self.group_max).contains(&transactions), "ours: a group is closed when it is full");
        assert_eq!(transactions, members.len() as u64, "ours: each transaction of a group is a member");
        assert_eq!(members.len(), committed_us.len(), "ours: each transaction has a commit time");
        if transactions == 1 {
            members.clear();
        }
        let single = CommitGroup::single(head, plan, claim, self.ledger.next_progress());
        let group = CommitGroup { transactions, committed_us, end, members, ..single };
        self.push(group, out)
    }

    /// Returns the XIDs of undecided XA transactions.
    pub(super) fn undecided(self) -> Vec<String> {
        self.prepared.into_xids()
    }

    fn join(
        &mut self,
        head: TransactionHead,
        plan: ApplyPlan,
        claim: ScheduleClaim,
        out: &mut Vec<CommitGroup>,
    ) -> Result<(), ReplayError> {
        assert_eq!(self.order, CommitOrder::Grouped, "ours: only grouped commits join transactions");
        assert!(
            plan.steps.len() <= 1,
            "ours: a transaction that joins a group has one step of rows, or none"
        );
        let session = plan.session;
        let step = match plan.steps.into_iter().next() {
            Some(ApplyStep::Rows(context, rows)) => Some((Arc::new(context.for_rows()), rows)),
            _ => None,
        };
        if let (Some(open), Some((context, rows))) = (&self.open, &step)
            && !open.takes(context, &rows.format)
        {
            self.close(out)?;
        }
        let Some((context, rows)) = step else { return self.join_empty(head, claim, out) };
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
        if let Err(error) = taken {
            // A dry run continues after the error.
            if open.transactions == 0 {
                self.open = None;
            }
            return Err(ReplayError::Refused(format!("{head}: {error}")));
        }
        drop(events);
        open.add(&head, Some((context, rows)));
        self.ledger.mark_applied(&head);
        let is_full = open.transactions >= self.group_max
            || open.size() >= self.group_size_max
            || has_enough_large_transactions(open.members_size, open.transactions);
        if is_full { self.close(out) } else { Ok(()) }
    }

    /// Joins a transaction without changes: only its progress is saved.
    fn join_empty(
        &mut self,
        head: TransactionHead,
        claim: ScheduleClaim,
        out: &mut Vec<CommitGroup>,
    ) -> Result<(), ReplayError> {
        self.ledger.mark_applied(&head);
        match &mut self.open {
            Some(open) => {
                open.add(&head, None);
                open.claim.join(claim);
            }
            None => {
                let plan = ApplyPlan { shape: TransactionShape::Rows, steps: Vec::new(), session: None };
                out.push(CommitGroup::single(head, plan, claim, self.ledger.next_progress()));
            }
        }
        Ok(())
    }
}

/// Returns whether a group with this many transactions and `size` bytes of rows should be closed, so that further
/// transactions run in parallel with it.
const fn has_enough_large_transactions(size: usize, transactions: u64) -> bool {
    size >= LARGE_TRANSACTIONS_MAX && (size / LARGE_TRANSACTION_SIZE) as u64 >= transactions
}

impl OpenGroup {
    fn new(
        head: TransactionHead,
        claim: ScheduleClaim,
        context: Arc<SessionVariables>,
        format: &Arc<EventFormat>,
    ) -> Self {
        let origin = EventOrigin { timestamp: 0, server_id: 1, flags: EventFlags(0) };
        let form = NetRowsForm { origin, format: (**format).clone(), rows_size_max: ROWS_SIZE_MAX };
        let changes = GroupChanges::new(format.flavour, form);
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
    fn add(&mut self, head: &TransactionHead, rows: Option<(Arc<SessionVariables>, RowEvents)>) {
        let member = GroupMember { head: head.clone(), rows };
        self.members_size += member.size();
        self.members.push(member);
        self.transactions += 1;
        self.committed_us.push(head.committed_us);
        self.end.clone_from(&head.origin);
    }

    /// Returns the bytes in memory: the net changes, and the rows of each transaction.
    fn size(&self) -> usize {
        self.changes.size() + self.members_size
    }

    fn takes(&self, context: &Arc<SessionVariables>, format: &Arc<EventFormat>) -> bool {
        self.context == *context && (Arc::ptr_eq(&self.format, format) || self.format == *format)
    }
}

#[cfg(test)]
mod tests {
    use super::has_enough_large_transactions;

    #[test]
    fn groups_of_large_transactions_stay_small() {
        let check = |each: usize, transactions: u64, expected: bool| {
            let size = each * usize::try_from(transactions).unwrap();
            assert_eq!(
                has_enough_large_transactions(size, transactions),
                expected,
                "{transactions} of {each}"
            );
        };
        check(2 << 10, 10_000, false);
        check(180 << 10, 10, false);
        check(180 << 10, 23, true);
        check(16 << 10, 256, true);
        check(100 << 20, 1, true);
    }
}
