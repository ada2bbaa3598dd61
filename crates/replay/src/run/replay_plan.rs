//! Dry run: reads a source as a replay would, and applies nothing. Reports the changes, the possible parallelism, and
//! the refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard};

use binlog::Flavour;
use binlog::gtid::GtidSet;
use logs::lock;

use crate::applied_check::{AppliedCheck, ReplayDecision};
use crate::apply_plan::{ApplyPlan, ApplyStep, SourceStatement, TransactionShape};
use crate::commit_order::CommitOrder;
use crate::log_survey::LogSurvey;
use crate::net_change::{self, FoldRefusal};
use crate::replay_error::{ReplayError, TargetFailure};
use crate::replay_options::{GapPolicy, ReplayOptions};
use crate::replay_progress::{AppliedState, ProgressLedger, ReplayProgress, StatementIntent};
use crate::replay_target::{IntentOutcome, ReplayTarget, TargetSession};
use crate::row_events::RowEvents;
use crate::row_reader::{EventRows, RowReader};
use crate::run::claim_finder::DefinitionCache;
use crate::run::dry_run_target::{DraftRole, DryRunTarget};
use crate::run::group_builder::{CommitGroup, GroupBuilder};
use crate::schedule::DependencyChain;
use crate::source_transaction::TransactionHead;
use crate::table_definitions::TableDefinitions;
use crate::target_table_definition::{TargetTableDefinition, TargetTableName};
use crate::transaction_filter::TransactionFilter;
use crate::transaction_selection::{LateTransactions, TransactionSelector};
use crate::transaction_source::{SizedTransaction, TransactionSource};

/// Forecast of a replay.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplayPlan {
    /// Requirements of all the logs on a target.
    pub survey: LogSurvey,
    /// Source transactions that would be applied.
    pub transactions: u64,
    /// Source transactions that would be skipped because the target has them, or they are not selected.
    pub skipped: u64,
    /// Transactions to apply that run alone: definitions, statements, row changes too large for memory.
    pub alone: u64,
    /// Transactions with a logical clock.
    pub clocked: u64,
    /// Bytes of the logs read.
    pub bytes_read: u64,
    /// Parallelism of single transactions.
    pub units: Parallelism,
    /// Parallelism of commit groups, if there are any. Assumes groups of the maximum size, as if the source never
    /// paused.
    pub groups: Option<Parallelism>,
    /// Row changes by table, under its name on the target.
    pub tables: BTreeMap<TargetTableName, RowChanges>,
    /// Tables that neither the target nor the logs define. Their changes are not merged, and run one after the other.
    pub unknown: BTreeSet<TargetTableName>,
    /// With commit groups: tables with changes that are not merged, and the last reason. The tables of `unknown` may be
    /// missing.
    pub unmerged: BTreeMap<TargetTableName, FoldRefusal>,
    /// The first refusals, in the order of the logs.
    pub refused: Vec<String>,
    /// Number of refusals.
    pub refusals: u64,
    /// Transactions after a stop by time that were committed before that time: they would not be applied.
    pub late: Option<LateTransactions>,
    /// XA transactions that the logs prepare, but neither commit nor roll back.
    pub undecided: Vec<String>,
}

/// Possible parallelism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parallelism {
    /// Number of transactions or groups.
    pub count: u64,
    /// Length of the longest chain in which each element waits for the previous one.
    pub chain: u64,
}

/// Row changes of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowChanges {
    /// Row changes in the logs.
    pub before: u64,
    /// Row changes of the net change, which would be applied.
    pub after: u64,
}

/// Maximum number of refusals listed. Bounds memory.
const REFUSED_MAX: usize = 20;

impl Parallelism {
    /// Returns the average number that can run at the same time.
    pub fn average(self) -> f64 {
        if self.chain == 0 { 0.0 } else { self.count as f64 / self.chain as f64 }
    }
}

/// Plans all transactions that a replay with these options would apply. Changes nothing. Records refusals and continues
/// after them, unless a log cannot be read. Calls `seen` with the number of bytes read; its result says whether to
/// continue.
///
/// # Errors
///
/// Fails if the selection names a log that is not given, the target does not answer, or `seen` breaks.
pub fn plan(
    source: &mut TransactionSource,
    target: DryRunTarget<'_>,
    options: &ReplayOptions,
    seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<ReplayPlan, ReplayError> {
    let (applied, target) = PlanTarget::new(target);
    source.leave_out_logs(&options.selection, &applied)?;
    let mut selector = TransactionSelector::new(&options.selection, source.log_names())?;
    let (mut skip, mut previous) = (AppliedCheck::new(applied.clone(), source.log_names()), None);
    let mut planner = ReplayPlanner::new(&target, options, &applied);
    let mut opener = source.opener();
    loop {
        if seen(source.bytes_read()).is_break() {
            return Err(ReplayError::Interrupted);
        }
        let found = match planner.next_found(source, &mut skip) {
            Ok(Some(found)) => found,
            Ok(None) => {
                if let Err(error) = selector.finish().and_then(|()| skip.check_end()) {
                    planner.plan.refuse(error.to_string());
                }
                break;
            }
            Err(error) => {
                planner.plan.refuse(error.to_string());
                break;
            }
        };
        let head = found.head();
        // A gap before the first log is reported as a preflight finding.
        if let Some(gap) = find_gap(&mut skip, &head, source.previous())
            && previous.is_some()
            && options.gap == GapPolicy::Refuse
        {
            planner.plan.refuse(gap.to_string());
        }
        previous.get_or_insert_with(|| source.previous().clone());
        let decision = match skip.decide(&head, &mut selector) {
            Ok(decision) => decision,
            Err(error) => {
                planner.plan.refuse(error.to_string());
                break;
            }
        };
        match decision {
            ReplayDecision::Apply => {}
            ReplayDecision::AlreadyApplied | ReplayDecision::NotSelected => {
                planner.plan.skipped += 1;
                planner.plan.survey.pass_over(&head);
                continue;
            }
            ReplayDecision::Stop => {
                planner.reach_stop(&selector, source, seen);
                break;
            }
        }
        let apply_plan = found.plan(&mut opener, source.held_max());
        match apply_plan.and_then(|apply_plan| TransactionFilter(&options.filter).apply(apply_plan)) {
            Ok(apply_plan) => planner.take(head, apply_plan)?,
            Err(error) => planner.plan.refuse(format!("{head}: {error}")),
        }
    }
    let mut plan = planner.finish()?;
    plan.survey.writer = source.writer();
    plan.survey.previous = previous.unwrap_or_else(|| source.previous().clone());
    plan.bytes_read = source.bytes_read();
    Ok(plan)
}

/// Returns the error for transactions that the target lacks before this one. Later logs lack them too, so a second call
/// does not return them again.
fn find_gap(skip: &mut AppliedCheck, head: &TransactionHead, previous: &GtidSet) -> Option<ReplayError> {
    let gap = skip.check_gap(head, previous).err()?;
    if let ReplayError::Gap { missing, .. } = &gap {
        skip.pass_gap(missing);
    }
    Some(gap)
}

impl ReplayPlan {
    fn refuse(&mut self, reason: String) {
        self.refusals += 1;
        if self.refused.len() < REFUSED_MAX {
            self.refused.push(reason);
        }
        assert!(self.refused.len() as u64 <= self.refusals, "ours: each refusal is counted");
    }
}

/// Forms transactions and groups, and counts.
struct ReplayPlanner<'p> {
    plan: ReplayPlan,
    target: &'p PlanTarget<'p>,
    /// Forms one group per transaction.
    units: GroupBuilder<'p>,
    unit_chain: DependencyChain,
    /// Forms groups of consecutive transactions.
    groups: Option<GroupBuilder<'p>>,
    group_chain: DependencyChain,
    rows: RowReader,
    definitions: DefinitionCache,
}

impl<'p> ReplayPlanner<'p> {
    fn new(target: &'p PlanTarget<'p>, options: &ReplayOptions, applied: &AppliedState) -> Self {
        let new_builder = |options: &ReplayOptions| {
            GroupBuilder::new(target, options, options.mode, ProgressLedger::new(applied.progress.clone()))
        };
        let is_grouped = options.order == CommitOrder::Grouped;
        let order = if is_grouped { CommitOrder::Strict } else { options.order };
        Self {
            plan: ReplayPlan::default(),
            target,
            units: new_builder(&ReplayOptions { order, ..options.clone() }),
            unit_chain: DependencyChain::default(),
            groups: is_grouped.then(|| new_builder(options)),
            group_chain: DependencyChain::default(),
            rows: RowReader::new(),
            definitions: DefinitionCache::default(),
        }
    }

    /// Returns the next transaction. Transactions of archived logs that were not read count as skipped.
    fn next_found(
        &mut self,
        source: &mut TransactionSource,
        skip: &mut AppliedCheck,
    ) -> Result<Option<SizedTransaction>, ReplayError> {
        let found = source.next_found();
        let left_out = source.take_left_out();
        skip.note_left_out(&left_out.gtids);
        self.plan.skipped += left_out.transactions;
        found
    }

    /// Checks that the stop is after the start, and counts the transactions after the stop that were committed earlier.
    fn reach_stop(
        &mut self,
        selector: &TransactionSelector,
        source: &mut TransactionSource,
        seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) {
        if let Err(error) = selector.finish() {
            self.plan.refuse(error.to_string());
        }
        if let Some(limit) = selector.stop_time() {
            self.plan.late = Some(LateTransactions::count(source, limit, seen));
        }
    }

    fn take(&mut self, head: TransactionHead, apply_plan: ApplyPlan) -> Result<(), ReplayError> {
        self.plan.survey.take(&head, &apply_plan);
        self.plan.transactions += 1;
        self.plan.clocked += u64::from(head.clock.is_some());
        self.plan.alone +=
            u64::from(apply_plan.shape != TransactionShape::Rows || !apply_plan.is_in_memory());
        let name = head.to_string();
        self.count(&apply_plan, &name, |changes, rows| changes.before += rows);
        self.find_unmerged(&apply_plan);
        let statements: Vec<ApplyStep> =
            apply_plan.steps.iter().filter(|step| is_definition(step)).cloned().collect();
        let mut groups = Vec::new();
        if let Some(builder) = &mut self.groups {
            let taken = builder.take(head.clone(), apply_plan.clone(), &mut groups);
            taken.or_else(|error| note_refusal(&mut self.plan, self.groups.is_none(), error))?;
        }
        self.count_groups(groups)?;
        let mut units = Vec::new();
        let taken = self.units.take(head, apply_plan, &mut units);
        taken.or_else(|error| note_refusal(&mut self.plan, true, error))?;
        self.count_units(units)?;
        self.define(&statements, &name);
        Ok(())
    }

    fn count_groups(&mut self, groups: Vec<CommitGroup>) -> Result<(), ReplayError> {
        for group in groups {
            self.group_chain.add(&group.claim);
            self.count(&group.plan, "", |changes, rows| changes.after += rows);
        }
        Ok(())
    }

    fn count_units(&mut self, units: Vec<CommitGroup>) -> Result<(), ReplayError> {
        for unit in units {
            self.unit_chain.add(&unit.claim);
            if self.groups.is_none() {
                self.count(&unit.plan, "", |changes, rows| changes.after += rows);
            }
        }
        Ok(())
    }

    /// Counts rows by table. Records rows that cannot be decoded under the transaction's name.
    fn count(&mut self, apply_plan: &ApplyPlan, name: &str, add: impl Fn(&mut RowChanges, u64)) {
        let tables = &mut self.plan.tables;
        let result = read_rows(&mut self.rows, apply_plan, &mut |event, _| {
            add(tables.entry(table_name(event)).or_default(), event.rows().count() as u64);
            Ok(())
        });
        if let (Err(failure), false) = (result, name.is_empty()) {
            self.plan.refuse(format!("{name}: {failure}"));
        }
    }

    /// Records the tables whose changes are not merged. Failures are ignored: those of rows are recorded already, and the
    /// group builder reports those of the target.
    fn find_unmerged(&mut self, apply_plan: &ApplyPlan) {
        if self.groups.is_none() || self.target.role == DraftRole::Target {
            return;
        }
        let (definitions, unmerged) = (&mut self.definitions, &mut self.plan.unmerged);
        let _ = read_rows(&mut self.rows, apply_plan, &mut |event, flavour| {
            let name = table_name(event);
            let definition = definitions.load(&name.database, &name.table, self.target)?;
            if let Some(refusal) = net_change::find_refusal(event, definition, flavour) {
                unmerged.insert(name, refusal);
            }
            Ok(())
        });
    }

    /// Applies definitions to the draft.
    fn define(&mut self, statements: &[ApplyStep], name: &str) {
        if !statements.is_empty() {
            self.definitions.forget();
        }
        for step in statements {
            let ApplyStep::Statement(statement) = step else { continue };
            if let (Err(failure), DraftRole::Target) = (self.target.define(statement), self.target.role) {
                self.plan.refuse(format!("{name}: {failure}"));
            }
        }
    }

    fn finish(mut self) -> Result<ReplayPlan, ReplayError> {
        let (mut groups, mut units) = (Vec::new(), Vec::new());
        self.units.close(&mut units)?;
        self.count_units(units)?;
        if let Some(builder) = &mut self.groups {
            builder.close(&mut groups)?;
            self.count_groups(groups)?;
        }
        let count = self.unit_chain.count().max(self.group_chain.count());
        assert!(count <= self.plan.transactions, "ours: each unit and each group has a transaction");
        let width = |chain: &DependencyChain| Parallelism { count: chain.count(), chain: chain.longest() };
        self.plan.units = width(&self.unit_chain);
        self.plan.groups = self.groups.is_some().then(|| width(&self.group_chain));
        self.plan.undecided = self.units.undecided();
        self.plan.unknown = std::mem::take(&mut *self.target.unknown());
        Ok(self.plan)
    }
}

/// Records an error that would stop the replay. Returns the error if the target does not answer.
fn note_refusal(plan: &mut ReplayPlan, is_told: bool, error: ReplayError) -> Result<(), ReplayError> {
    match error {
        ReplayError::Target { .. } => return Err(error),
        // The other group builder reports the same error.
        _ if !is_told => {}
        error => plan.refuse(error.to_string()),
    }
    Ok(())
}

/// Calls `take` with each event of a transaction that has rows, and the flavour of its log.
fn read_rows(
    reader: &mut RowReader,
    apply_plan: &ApplyPlan,
    take: &mut dyn FnMut(&EventRows<'_>, Flavour) -> Result<(), TargetFailure>,
) -> Result<(), TargetFailure> {
    let mut read = |rows: &RowEvents| reader.read(rows, &mut |event| take(event, rows.format.flavour));
    let lost = |error: io::Error| {
        TargetFailure::refused(format!("could not read its rows from the temporary file: {error}"))
    };
    apply_plan.steps.iter().try_for_each(|step| match step {
        ApplyStep::Rows(_, rows) => read(rows),
        ApplyStep::Spooled(_, rows) => rows.parts().try_for_each(|part| read(&part.map_err(lost)?)),
        ApplyStep::Statement(_) | ApplyStep::SpooledStatements(_) => Ok(()),
    })
}

/// Returns the name of the rows' table, which is the same on the target.
fn table_name(rows: &EventRows<'_>) -> TargetTableName {
    TargetTableName { database: rows.table.database.clone(), table: rows.table.name.clone() }
}

fn is_definition(step: &ApplyStep) -> bool {
    matches!(step, ApplyStep::Statement(_))
}

/// Target without sessions: it only knows the definitions of tables.
struct PlanTarget<'t> {
    tables: Option<Mutex<&'t mut (dyn TableDefinitions + 'static)>>,
    draft: Option<Mutex<Box<dyn TableDefinitions>>>,
    role: DraftRole,
    unknown: Mutex<BTreeSet<TargetTableName>>,
}

impl<'t> PlanTarget<'t> {
    /// Returns the transactions that the target has, and the target.
    fn new(target: DryRunTarget<'t>) -> (AppliedState, Self) {
        let DryRunTarget { applied, tables, draft, role } = target;
        let (tables, draft) = (tables.map(Mutex::new), draft.map(Mutex::new));
        (applied, Self { tables, draft, role, unknown: Mutex::default() })
    }

    fn define(&self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        let Some(draft) = &self.draft else { return Ok(()) };
        lock(draft).define(statement)
    }

    fn unknown(&self) -> MutexGuard<'_, BTreeSet<TargetTableName>> {
        lock(&self.unknown)
    }
}

impl ReplayTarget for PlanTarget<'_> {
    fn definition(
        &self,
        database: &[u8],
        table: &[u8],
    ) -> Result<Option<TargetTableDefinition>, TargetFailure> {
        let mut definition = None;
        if let Some(draft) = &self.draft {
            let mut draft = lock(draft);
            definition = draft.definition(database, table)?;
        }
        if let (None, Some(tables)) = (&definition, &self.tables) {
            let mut tables = lock(tables);
            definition = tables.definition(database, table)?;
        }
        if definition.is_none() {
            self.unknown().insert(TargetTableName { database: database.into(), table: table.into() });
        }
        // Real targets of this kind return no definitions, so the plan merges no changes either: see their
        // `definition`.
        Ok(definition.filter(|_| self.role == DraftRole::Lookup))
    }

    fn applied(&self) -> Result<AppliedState, TargetFailure> {
        Err(dry_run_failure())
    }

    fn session(&self) -> Result<Box<dyn TargetSession>, TargetFailure> {
        Err(dry_run_failure())
    }

    fn settle(&self, _: &StatementIntent) -> Result<IntentOutcome, TargetFailure> {
        Err(dry_run_failure())
    }

    fn save(&self, _: &ReplayProgress) -> Result<(), TargetFailure> {
        Err(dry_run_failure())
    }

    fn checkpoint(&self, _: &ReplayProgress) -> Result<AppliedState, TargetFailure> {
        Err(dry_run_failure())
    }
}

fn dry_run_failure() -> TargetFailure {
    TargetFailure::refused("a dry run applies nothing")
}
