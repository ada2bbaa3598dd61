//! Dry run: goes over a source as a replay would and applies nothing. Reports the changes, the possible parallelism,
//! and the refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::changes::RowReader;
use crate::definition::{Definition, TableName};
use crate::error::{Error, Failure};
use crate::filter::Filtering;
use crate::mysql::Look;
use crate::order::CommitOrder;
use crate::progress::{Applied, Intent, Ledger, Progress};
use crate::run::form::{Former, Group};
use crate::run::{Gap, Options, Skip};
use crate::schedule::Chain;
use crate::select::{Choice, Late, Selector};
use crate::source::Source;
#[cfg(feature = "sqlite")]
use crate::sqlite::Draft;
use crate::survey::Survey;
use crate::target::{Session, Settled, Target};
use crate::unit::Head;
use crate::work::{RowEvents, Shape, Step, Work};

/// Target of a dry run.
#[derive(Debug)]
pub enum Ground<'l> {
    /// No target: as if it had no transactions, and only the tables that the logs define.
    None,
    /// A server, which is only read.
    Mysql(&'l mut Look),
    /// A SQLite database, which need not exist.
    Sqlite(&'l Path),
}

/// Forecast of a replay.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Plan {
    /// Requirements of all the logs on a target.
    pub survey: Survey,
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
    pub units: Width,
    /// Parallelism of commit groups, if there are any. Groups have their maximum size, as when there is always more to
    /// read.
    pub groups: Option<Width>,
    /// Row changes by table, under its name on the target.
    pub tables: BTreeMap<TableName, RowChanges>,
    /// Tables that neither the target nor the logs define: their changes are not merged, and run one after the other.
    pub unknown: BTreeSet<TableName>,
    /// The first refusals, in the order of the logs.
    pub refused: Vec<String>,
    /// Number of refusals.
    pub refusals: u64,
    /// Transactions after a stop by time that were committed before that time: they would not be applied.
    pub late: Option<Late>,
    /// XA transactions that the logs prepare, but neither commit nor roll back.
    pub undecided: Vec<String>,
}

/// Possible parallelism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Width {
    /// Number of transactions or groups.
    pub count: u64,
    /// Length of the longest chain in which each waits for the one before.
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

impl Width {
    /// Returns the average number that can run at the same time.
    pub fn average(self) -> f64 {
        if self.chain == 0 { 0.0 } else { self.count as f64 / self.chain as f64 }
    }
}

/// Goes over all transactions that a replay with these options would apply, and changes nothing. Records refusals and
/// continues after them, unless a log cannot be read. `seen` gets the number of bytes read, and says whether to
/// continue.
///
/// # Errors
///
/// When the selection names a log that is not given, the target does not answer, or `seen` breaks.
pub fn plan(
    source: &mut Source,
    ground: Ground<'_>,
    options: &Options,
    seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Plan, Error> {
    let is_sqlite = matches!(ground, Ground::Sqlite(_));
    let (paper, applied) = Paper::new(ground)?;
    let mut selector = Selector::new(&options.selection, source.log_names())?;
    let (mut skip, mut previous) = (Skip::new(applied.clone(), source.log_names()), None);
    let mut planner = Planner::new(&paper, is_sqlite, options, &applied);
    let mut opener = source.opener();
    loop {
        if seen(source.bytes_read()).is_break() {
            return Err(Error::Interrupted);
        }
        let found = match source.next_found(&mut opener) {
            Ok(Some(found)) => found,
            Ok(None) => {
                if let Err(error) = selector.finish() {
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
        if let Err(gap) = skip.check_gap(&head, source.previous())
            && previous.is_some()
            && options.gap == Gap::Refuse
        {
            planner.plan.refuse(gap.to_string());
        }
        previous.get_or_insert_with(|| source.previous().clone());
        let is_again = skip.is_again(&head)?;
        match selector.choose(&head) {
            Choice::Take if !is_again && !skip.has(&head)? => {}
            Choice::Take | Choice::Leave => {
                planner.plan.skipped += 1;
                planner.plan.survey.pass_over(&head);
                continue;
            }
            Choice::Stop => {
                if let Some(limit) = selector.stop_time() {
                    planner.plan.late = Some(Late::of(source, limit, &mut opener, seen));
                }
                break;
            }
        }
        let work = found.work(&mut opener, source.held_max());
        match work.and_then(|work| Filtering(&options.filter).apply(work)) {
            Ok(work) => planner.take(head, work)?,
            Err(error) => planner.plan.refuse(format!("{head}: {error}")),
        }
    }
    let mut plan = planner.finish()?;
    plan.survey.writer = source.writer();
    plan.survey.previous = previous.unwrap_or_else(|| source.previous().clone());
    plan.bytes_read = source.bytes_read();
    Ok(plan)
}

impl Plan {
    fn refuse(&mut self, reason: String) {
        self.refusals += 1;
        if self.refused.len() < REFUSED_MAX {
            self.refused.push(reason);
        }
    }
}

/// Forms transactions and groups, and counts.
struct Planner<'p> {
    plan: Plan,
    paper: &'p Paper<'p>,
    is_sqlite: bool,
    /// Forms each transaction by itself.
    units: Former<'p>,
    unit_chain: Chain,
    /// Forms groups of consecutive transactions.
    groups: Option<Former<'p>>,
    group_chain: Chain,
    rows: RowReader,
}

impl<'p> Planner<'p> {
    fn new(paper: &'p Paper<'p>, is_sqlite: bool, options: &Options, applied: &Applied) -> Self {
        let former = |options: &Options| {
            Former::new(paper, options, options.mode, Ledger::new(applied.progress.clone()))
        };
        let is_grouped = options.order == CommitOrder::Grouped;
        let order = if is_grouped { CommitOrder::Strict } else { options.order };
        Self {
            plan: Plan::default(),
            paper,
            is_sqlite,
            units: former(&Options { order, ..options.clone() }),
            unit_chain: Chain::default(),
            groups: is_grouped.then(|| former(options)),
            group_chain: Chain::default(),
            rows: RowReader::new(),
        }
    }

    fn take(&mut self, head: Head, work: Work) -> Result<(), Error> {
        self.plan.survey.take(&head, &work);
        self.plan.transactions += 1;
        self.plan.clocked += u64::from(head.clock.is_some());
        self.plan.alone += u64::from(work.shape != Shape::Rows || !work.is_held());
        let name = head.to_string();
        self.count(&work, &name, |changes, rows| changes.before += rows);
        let statements: Vec<Step> = work.steps.iter().filter(|step| is_definition(step)).cloned().collect();
        let mut groups = Vec::new();
        if let Some(former) = &mut self.groups {
            let taken = former.take(head.clone(), work.clone(), &mut groups);
            taken.or_else(|error| refused(&mut self.plan, self.groups.is_none(), error))?;
        }
        self.formed(groups)?;
        let mut units = Vec::new();
        let taken = self.units.take(head, work, &mut units);
        taken.or_else(|error| refused(&mut self.plan, true, error))?;
        self.each(units)?;
        self.define(&statements, &name);
        Ok(())
    }

    fn formed(&mut self, groups: Vec<Group>) -> Result<(), Error> {
        for group in groups {
            self.group_chain.add(&group.claim);
            self.count(&group.work, "", |changes, rows| changes.after += rows);
        }
        Ok(())
    }

    fn each(&mut self, units: Vec<Group>) -> Result<(), Error> {
        for unit in units {
            self.unit_chain.add(&unit.claim);
            if self.groups.is_none() {
                self.count(&unit.work, "", |changes, rows| changes.after += rows);
            }
        }
        Ok(())
    }

    /// Counts rows by table. Records rows that cannot be decoded under the transaction's name.
    fn count(&mut self, work: &Work, name: &str, add: impl Fn(&mut RowChanges, u64)) {
        let (reader, tables) = (&mut self.rows, &mut self.plan.tables);
        let mut count = |rows: &RowEvents| {
            reader.read(rows, &mut |event| {
                let table =
                    TableName { database: event.table.database.clone(), table: event.table.name.clone() };
                add(tables.entry(table).or_default(), event.rows().count() as u64);
                Ok(())
            })
        };
        let lost = |error: std::io::Error| {
            Failure::refused(format!("could not read its rows from the temporary file: {error}"))
        };
        let mut result = Ok(());
        for step in &work.steps {
            result = result.and_then(|()| match step {
                Step::Rows(_, rows) => count(rows),
                Step::Spooled(_, rows) => {
                    rows.parts().try_for_each(|part| part.map_err(lost).and_then(|part| count(&part)))
                }
                Step::Statement(_) => Ok(()),
            });
        }
        if let (Err(failure), false) = (result, name.is_empty()) {
            self.plan.refuse(format!("{name}: {failure}"));
        }
    }

    /// Applies definitions to the draft.
    fn define(&mut self, statements: &[Step], name: &str) {
        for step in statements {
            let Step::Statement(statement) = step else { continue };
            if let (Err(failure), true) = (self.paper.define(statement), self.is_sqlite) {
                self.plan.refuse(format!("{name}: {failure}"));
            }
        }
    }

    fn finish(mut self) -> Result<Plan, Error> {
        let (mut groups, mut units) = (Vec::new(), Vec::new());
        self.units.close(&mut units)?;
        self.each(units)?;
        if let Some(former) = &mut self.groups {
            former.close(&mut groups)?;
            self.formed(groups)?;
        }
        let width = |chain: &Chain| Width { count: chain.count(), chain: chain.longest() };
        self.plan.units = width(&self.unit_chain);
        self.plan.groups = self.groups.is_some().then(|| width(&self.group_chain));
        self.plan.undecided = self.units.undecided();
        self.plan.unknown = std::mem::take(&mut *self.paper.unknown());
        Ok(self.plan)
    }
}

/// Records an error that would stop the replay. Returns the error if the target does not answer.
fn refused(plan: &mut Plan, is_told: bool, error: Error) -> Result<(), Error> {
    match error {
        Error::Target { .. } => return Err(error),
        // The other group builder reports the same.
        _ if !is_told => {}
        error => plan.refuse(error.to_string()),
    }
    Ok(())
}

fn is_definition(step: &Step) -> bool {
    matches!(step, Step::Statement(_))
}

/// Target that applies nothing: it only has the definitions of tables.
struct Paper<'l> {
    look: Option<Mutex<&'l mut Look>>,
    #[cfg(feature = "sqlite")]
    draft: Mutex<Draft>,
    unknown: Mutex<BTreeSet<TableName>>,
}

impl<'l> Paper<'l> {
    /// Creates the target, and returns what it has applied.
    fn new(ground: Ground<'l>) -> Result<(Self, Applied), Error> {
        #[cfg(feature = "sqlite")]
        let drafted = || Draft::new().map_err(|failure| failure.at("set up the draft of the definitions"));
        #[cfg(feature = "sqlite")]
        let (look, draft, applied) = match ground {
            Ground::None => (None, drafted()?, Applied::default()),
            Ground::Mysql(look) => {
                let applied = look.applied();
                (Some(Mutex::new(look)), drafted()?, applied)
            }
            Ground::Sqlite(path) => {
                let (draft, applied) = Draft::of(path)?;
                (None, draft, applied)
            }
        };
        #[cfg(not(feature = "sqlite"))]
        let (look, applied) = match ground {
            Ground::Mysql(look) => {
                let applied = look.applied();
                (Some(Mutex::new(look)), applied)
            }
            Ground::None | Ground::Sqlite(_) => (None, Applied::default()),
        };
        let paper = Self {
            look,
            #[cfg(feature = "sqlite")]
            draft: Mutex::new(draft),
            unknown: Mutex::default(),
        };
        Ok((paper, applied))
    }

    #[cfg(feature = "sqlite")]
    fn define(&self, statement: &crate::work::Statement) -> Result<(), Failure> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner).run(statement)
    }

    #[cfg(not(feature = "sqlite"))]
    fn define(&self, _: &crate::work::Statement) -> Result<(), Failure> {
        Ok(())
    }

    #[cfg(feature = "sqlite")]
    fn drafted(&self, database: &[u8], table: &[u8]) -> Option<Definition> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner).definition(database, table)
    }

    #[cfg(not(feature = "sqlite"))]
    fn drafted(&self, _: &[u8], _: &[u8]) -> Option<Definition> {
        None
    }

    fn unknown(&self) -> MutexGuard<'_, BTreeSet<TableName>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Target for Paper<'_> {
    fn definition(&self, database: &[u8], table: &[u8]) -> Result<Option<Definition>, Failure> {
        let mut definition = self.drafted(database, table);
        if let (None, Some(look)) = (&definition, &self.look) {
            let mut look = look.lock().unwrap_or_else(PoisonError::into_inner);
            definition = look.definition(database, table)?;
        }
        if definition.is_none() {
            self.unknown().insert(TableName { database: database.into(), table: table.into() });
        }
        Ok(definition)
    }

    fn applied(&self) -> Result<Applied, Failure> {
        Err(takes_nothing())
    }

    fn session(&self) -> Result<Box<dyn Session>, Failure> {
        Err(takes_nothing())
    }

    fn settle(&self, _: &Intent) -> Result<Settled, Failure> {
        Err(takes_nothing())
    }

    fn save(&self, _: &Progress) -> Result<(), Failure> {
        Err(takes_nothing())
    }

    fn checkpoint(&self, _: &Progress) -> Result<Applied, Failure> {
        Err(takes_nothing())
    }
}

fn takes_nothing() -> Failure {
    Failure::refused("a dry run applies nothing")
}
