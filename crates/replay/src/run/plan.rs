//! Goes over a source as a replay would, and applies nothing: what there is to do, how much of it could go on at once,
//! and what would be refused.

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

/// What the target is known by.
#[derive(Debug)]
pub enum Ground<'l> {
    /// Nothing: as if it had no transaction, and no table but those that the logs define.
    None,
    /// A server that is looked at.
    Mysql(&'l mut Look),
    /// A SQLite database, which need not be there.
    Sqlite(&'l Path),
}

/// What a replay would come to.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Plan {
    /// What the logs ask of a target: of all of them.
    pub survey: Survey,
    /// Source transactions that would be applied.
    pub transactions: u64,
    /// Those that would be passed over, because the target has them, or they are not meant.
    pub skipped: u64,
    /// Those of the first that run alone: definitions, statements, row changes too many to be held.
    pub alone: u64,
    /// Transactions that carry a logical clock.
    pub clocked: u64,
    /// Bytes of the logs gone over.
    pub bytes_read: u64,
    /// How many transactions could be applied at once.
    pub units: Width,
    /// How many commit groups could be applied at once, if there are any. They are as large as they may be, which they
    /// are when there is always more to read.
    pub groups: Option<Width>,
    /// Row changes by table, as it is called on the target.
    pub tables: BTreeMap<TableName, RowChanges>,
    /// Tables of which neither the target nor the logs say what they are: their changes are not merged, and run one
    /// after the other.
    pub unknown: BTreeSet<TableName>,
    /// What would stop the replay, in the order of the logs: the first so many.
    pub refused: Vec<String>,
    /// How often something would.
    pub refusals: u64,
    /// What is behind the place where it stops by time, if it does, and was committed earlier: it would not be applied.
    pub late: Option<Late>,
    /// XA transactions that the logs do not decide.
    pub undecided: Vec<String>,
}

/// How much could go on at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Width {
    /// Pieces of work.
    pub count: u64,
    /// Those of the longest chain that wait for each other.
    pub chain: u64,
}

/// Row changes of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowChanges {
    /// In the logs.
    pub before: u64,
    /// Their net change, which is what would be applied.
    pub after: u64,
}

/// Refusals that are told one by one. Bounds memory.
const REFUSED_MAX: usize = 20;

impl Width {
    /// How many go on at once, on average.
    pub fn average(self) -> f64 {
        if self.chain == 0 { 0.0 } else { self.count as f64 / self.chain as f64 }
    }
}

/// Goes over all transactions that a replay with these options would apply. Nothing is changed. What would stop the
/// replay is noted, and what is behind it is gone over all the same, but for a log that cannot be read. `seen` is told
/// how many bytes have been gone over, and says whether to go on.
///
/// # Errors
///
/// When the selection names a log that is not there, the target does not answer, or `seen` wants no more.
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
        // What is in front of the first log is a finding, if the target lacks it.
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
    /// Each transaction by itself.
    units: Former<'p>,
    unit_chain: Chain,
    /// Transactions in a row as one.
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

    /// Counts rows by table. What cannot be read is said under the name of its transaction.
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
        let lost = |error: std::io::Error| Failure::refused(format!("its rows are lost: {error}"));
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

    /// Carries out definitions on paper.
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

/// What would stop the replay is noted; a target that does not answer ends the plan.
fn refused(plan: &mut Plan, is_told: bool, error: Error) -> Result<(), Error> {
    match error {
        Error::Target { .. } => return Err(error),
        // The other former says the same.
        _ if !is_told => {}
        error => plan.refuse(error.to_string()),
    }
    Ok(())
}

fn is_definition(step: &Step) -> bool {
    matches!(step, Step::Statement(_))
}

/// A target that takes nothing: it only says what tables there are.
struct Paper<'l> {
    look: Option<Mutex<&'l mut Look>>,
    #[cfg(feature = "sqlite")]
    draft: Mutex<Draft>,
    unknown: Mutex<BTreeSet<TableName>>,
}

impl<'l> Paper<'l> {
    /// And what the target has.
    fn new(ground: Ground<'l>) -> Result<(Self, Applied), Error> {
        #[cfg(feature = "sqlite")]
        let drafted = || Draft::new().map_err(|failure| failure.at("draft definitions"));
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
    Failure::refused("nothing is applied on paper")
}
