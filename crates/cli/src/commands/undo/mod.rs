//! `bintide undo`: the inverse of chosen row changes, as a binary log.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use binlog::events::TableMap;
use binlog::gtid::GtidSet;
use binlog::{DecodeError, EventFormat, Flavour, PayloadOpener, RowChange, TransactionId, TransactionVerb};
use clap::Args;
use jiff::Timestamp;
use list::{RowCondition, RowConditions, RowTest};
use logs::{GtidSelection, private_options, sync_parent};
use replay::{
    ApplyPlan, ApplyStep, RowEvents, SelectionChoice, SourceStatement, TransactionHead, TransactionSelector,
    TransactionShape, TransactionSource,
};
use sql::{StatementKind, TablePattern, TableSelection, classify_statement};
use tracing::info;
use undo::{CollectError, InverseCollector, InverseCounts, InverseLogError, LogTimestamp, RowChoice};

use crate::exit::{CommandFailure, CommandResult, CommandVerdict, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::log_args::LogArgs;
use crate::progress::ByteProgress;
use crate::selection_args::SelectionArgs;
use crate::temporary_files::TemporaryFiles;
use crate::units::counted;
use crate::value_parsers::parse_gtids;

pub(crate) const EXAMPLES: &str = "\
Examples:
  Write the inverse of one transaction, read it, and apply it:
      bintide undo --gtid 3e11fa47-71ca-11e1-9e33-c80aa9429562:23 -r undo.binlog /var/lib/mysql
      bintide dump -v undo.binlog
      bintide replay undo.binlog --to mysql://root@db1/
  Undo what happened to one table since 14:00:
      bintide undo --table shop.orders --start-datetime '2026-11-24 14:00:00' -r undo.binlog /var/lib/mysql
  Undo the changes of one row:
      bintide undo --table shop.orders --where id=4711 -r undo.binlog binlog.000012
  Apply it with mysql instead of replay; --skip-gtids lets the server assign GTIDs:
      mysqlbinlog --skip-gtids undo.binlog | mysql

The result is a log with one transaction for each undone one, the last one first. It
restores rows as they were before the first undone change. Later changes of the same rows
that are not undone make it fail or are lost: look at bintide history first.";

/// Arguments of `bintide undo`.
#[derive(Args, Debug)]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    inputs: LogArgs,
    /// Log to write. The file must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    result_file: Option<PathBuf>,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Undo only the transactions in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = parse_gtids, help_heading = "Transactions")]
    gtid: Option<GtidSet>,
    #[command(flatten)]
    rows: UndoRowArgs,
    #[command(flatten)]
    temporary: TemporaryFiles,
}

/// Options that choose row changes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Row changes")]
struct UndoRowArgs {
    /// Undo only row changes of this table: DB.TABLE, or TABLE in any database; * matches any text, ? one character.
    /// Repeatable.
    #[arg(long, value_name = "TABLE")]
    table: Vec<String>,
    /// Undo only row changes of this database.
    #[arg(long, value_name = "DB")]
    database: Option<String>,
    /// Undo only changes of rows with this value before or after the change: COLUMN=VALUE, or @N=VALUE for the Nth
    /// column. Repeatable: all values must match.
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = parse_condition)]
    conditions: Vec<RowCondition>,
}

/// Bytes of a transaction, and of the inverse, that stay in memory. More goes to temporary files.
const TRANSACTION_MEMORY: usize = 32 << 20;
const INVERSE_MEMORY: usize = 64 << 20;

/// Writes the inverse of the chosen changes.
pub(crate) fn run(command: &UndoArgs, global: &GlobalArgs) -> CommandResult {
    command.temporary.limit();
    command.check()?;
    let Some(CollectedInverse { collector, format }) = collect(command, global)? else {
        return Ok(CommandVerdict::Success);
    };
    let counts = collector.counts();
    let Some(format) = format.filter(|_| counts.transactions > 0) else {
        return Err(CommandFailure::Failed(anyhow!(
            "the logs have none of the chosen row changes: nothing to undo"
        )));
    };
    let now = LogTimestamp(u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default());
    let write = |out: &mut dyn Write| {
        let written = collector.into_log().write(&format, now, out, &mut |_| !interrupt::is_stop_requested());
        written.map_err(|error| match error {
            InverseLogError::Write(error) => error,
            error => io::Error::other(error),
        })
    };
    match &command.result_file {
        Some(path) => write_file(path, write)?,
        None => write(&mut io::stdout().lock())?,
    }
    if !interrupt::is_stop_requested() {
        info!("{}", summary(&counts));
    }
    Ok(CommandVerdict::Success)
}

impl UndoArgs {
    /// Refuses arguments that cannot be meant.
    fn check(&self) -> Result<(), CommandFailure> {
        let refuse = |why: String| Err(CommandFailure::NotStarted(anyhow!(why)));
        if !self.rows.selects_rows()
            && self.gtid.is_none()
            && self.selection.selection() == Default::default()
        {
            return refuse(
                "choose what to undo: --gtid, --start-…, --stop-…, --table, --database or --where".into(),
            );
        }
        match &self.result_file {
            Some(path) if path.exists() => refuse(format!("{} exists: name a new file", path.display())),
            None if io::stdout().is_terminal() => {
                refuse("the result is a binary log, not text: name a file with --result-file".into())
            }
            _ => Ok(()),
        }
    }
}

impl UndoRowArgs {
    fn selects_rows(&self) -> bool {
        !self.table.is_empty() || self.database.is_some() || !self.conditions.is_empty()
    }

    fn tables(&self) -> TableSelection {
        TableSelection {
            database: self.database.clone().map(String::into_bytes),
            patterns: self.table.iter().map(|pattern| TablePattern::new(pattern.as_bytes())).collect(),
        }
    }
}

/// Inverse of the chosen changes.
struct CollectedInverse {
    collector: InverseCollector,
    /// Format of the newest undone log; `None` if nothing was chosen.
    format: Option<Arc<EventFormat>>,
}

/// Collects the inverse, and the format of the newest undone log. Returns `None` when interrupted.
fn collect(command: &UndoArgs, global: &GlobalArgs) -> Result<Option<CollectedInverse>, CommandFailure> {
    let found = command.inputs.find_logs()?;
    found.check_indexes()?;
    let mut source = TransactionSource::new(found.replay_logs(), found.keyring.clone(), TRANSACTION_MEMORY);
    let selection = command.selection.selection();
    let mut selector = TransactionSelector::new(&selection, source.log_names())
        .map_err(|error| CommandFailure::NotStarted(error.into()))?;
    let gtids = GtidSelection { included: command.gtid.clone(), excluded: None };
    let conditions = RowConditions::new(command.rows.conditions.clone());
    let collector = InverseCollector::new(&env::temp_dir(), INVERSE_MEMORY);
    let collector = collector.context("could not prepare a temporary file")?;
    let opener = source.opener();
    let (tables, format) = (command.rows.tables(), None);
    let selects_rows = command.rows.selects_rows();
    let mut undo =
        UndoCollector { tables: &tables, conditions: &conditions, selects_rows, collector, opener, format };
    let mut progress = ByteProgress::new(global, found.bytes_total);
    while let Some(found) = source.next_found().map_err(failed)? {
        if interrupt::is_stop_requested() {
            return Ok(None);
        }
        progress.update(source.bytes_read());
        let head = found.head();
        match selector.choose(&head) {
            SelectionChoice::Stop => break,
            SelectionChoice::Take if gtids.selects(Some(head.id)) => undo.add(found, &head)?,
            SelectionChoice::Take | SelectionChoice::Leave => {}
        }
    }
    selector.finish().map_err(failed)?;
    if let Some(error) = conditions.missing_column_error() {
        return Err(CommandFailure::Failed(anyhow!("{error}")));
    }
    Ok(Some(CollectedInverse { collector: undo.collector, format: undo.format }))
}

fn failed(error: replay::ReplayError) -> CommandFailure {
    CommandFailure::Failed(error.into())
}

/// Collects the inverse of transactions.
struct UndoCollector<'c> {
    tables: &'c TableSelection,
    conditions: &'c RowConditions,
    /// True if not all row changes of a transaction are undone.
    selects_rows: bool,
    collector: InverseCollector,
    opener: PayloadOpener,
    /// Format of the last collected transaction.
    format: Option<Arc<EventFormat>>,
}

impl UndoCollector<'_> {
    /// Adds the chosen row changes of a transaction.
    fn add(&mut self, found: replay::SizedTransaction, head: &TransactionHead) -> Result<(), CommandFailure> {
        if matches!(head.id, TransactionId::Mariadb(_)) {
            return Err(refused(head, "is of MariaDB: use its mysqlbinlog --flashback"));
        }
        let plan = found.work(&mut self.opener, TRANSACTION_MEMORY).map_err(|error| {
            CommandFailure::Failed(
                anyhow::Error::new(error).context(format!("could not read the transaction {head}")),
            )
        })?;
        self.check_shape(&plan, head)?;
        for step in &plan.steps {
            match step {
                ApplyStep::Rows(_, rows) => self.add_rows(rows, head)?,
                ApplyStep::Spooled(_, rows) => {
                    for part in rows.parts() {
                        self.add_rows(&part.context("could not read a temporary file")?, head)?;
                    }
                }
                ApplyStep::Statement(statement) => self.check_statement(statement, head)?,
            }
        }
        let ended = self.collector.end_transaction();
        ended.map_err(|error| CommandFailure::Failed(error.into()))
    }

    /// Refuses transactions whose row changes may not have been committed with them.
    fn check_shape(&self, plan: &ApplyPlan, head: &TransactionHead) -> Result<(), CommandFailure> {
        match &plan.shape {
            TransactionShape::Rows
            | TransactionShape::Statements
            | TransactionShape::ImplicitCommit { .. } => Ok(()),
            TransactionShape::RolledBack => {
                Err(refused(head, "was rolled back, except for changes of tables without transactions"))
            }
            TransactionShape::XaPrepare(_)
            | TransactionShape::XaCommit(_)
            | TransactionShape::XaRollback(_) => Err(refused(head, "is a part of an XA transaction")),
        }
    }

    /// Refuses a statement, unless it certainly changes no rows of a selected table.
    fn check_statement(
        &self,
        statement: &SourceStatement,
        head: &TransactionHead,
    ) -> Result<(), CommandFailure> {
        // Row changes of a table are undone back to the empty table.
        let is_creation = statement.sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"CREATE"));
        let is_savepoint = TransactionVerb::of(&statement.sql) == TransactionVerb::Savepoint;
        let is_harmless = match classify_statement(&statement.sql) {
            _ if is_savepoint => true,
            _ if is_creation => self.selects_rows,
            StatementKind::Tables(tables) => {
                let is_selected = |table: &sql::TableReference| {
                    let database = table.database.as_deref().unwrap_or(&statement.default_database);
                    self.tables.selects(database, &table.table)
                };
                !tables.is_empty() && !tables.iter().any(is_selected)
            }
            StatementKind::Database => false,
            StatementKind::DropTemporary | StatementKind::DropTrigger(_) => !self.tables.selects_all(),
        };
        if is_harmless {
            return Ok(());
        }
        let text: String =
            String::from_utf8_lossy(&statement.sql).chars().take(STATEMENT_LENGTH_MAX).collect();
        Err(refused(head, &format!("has a statement whose inverse is not known: {text}")))
    }

    fn add_rows(&mut self, rows: &RowEvents, head: &TransactionHead) -> Result<(), CommandFailure> {
        if rows.format.flavour == Flavour::MariaDb {
            return Err(refused(head, "is of MariaDB: use its mysqlbinlog --flashback"));
        }
        let mut choice = UndoChoice {
            tables: self.tables,
            conditions: self.conditions,
            format: &rows.format,
            test: None,
            lacks_names: false,
        };
        for event in rows.events() {
            self.collector
                .push(&event, &rows.format, &mut choice)
                .map_err(|error| refuse_change(head, error))?;
        }
        if choice.lacks_names {
            let error = anyhow!("the log of {head} has no column names (binlog_row_metadata=MINIMAL)");
            return Err(CommandFailure::Failed(
                error.context(ErrorAdvice("use the column's number in --where: @N=VALUE")),
            ));
        }
        self.format = Some(Arc::clone(&rows.format));
        Ok(())
    }
}

/// Maximum length of a statement in a message, in characters.
const STATEMENT_LENGTH_MAX: usize = 100;

fn refused(head: &TransactionHead, why: &str) -> CommandFailure {
    CommandFailure::Failed(anyhow!("cannot undo {head}: it {why}"))
}

fn refuse_change(head: &TransactionHead, error: CollectError) -> CommandFailure {
    CommandFailure::Failed(match error {
        CollectError::Spool(_) => error.into(),
        error => anyhow!("cannot undo {head}: {error}"),
    })
}

/// Choice of the row changes of a transaction.
struct UndoChoice<'c> {
    tables: &'c TableSelection,
    conditions: &'c RowConditions,
    format: &'c EventFormat,
    /// Test of the open event's table.
    test: Option<RowTest<'c>>,
    /// True if a condition names a column, but the log has no column names.
    lacks_names: bool,
}

impl RowChoice for UndoChoice<'_> {
    fn selects_table(&mut self, map: &TableMap<'_>) -> bool {
        self.tables.selects(map.database, map.table)
    }

    fn begin_event(&mut self) {
        self.test = None;
    }

    fn selects_row(&mut self, row: &RowChange<'_, '_>) -> Result<bool, DecodeError> {
        if self.test.is_none()
            && let Some(image) = row.images().next()
        {
            self.test = self.conditions.test(image.table());
            self.lacks_names |= self.test.is_none();
        }
        self.test.as_ref().map_or(Ok(false), |test| test.passes(row, self.format))
    }
}

/// Writes a new file. It has its name once it is complete.
fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CommandFailure> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = (|| {
        let file: File = private_options().write(true).create(true).truncate(true).open(&part)?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        write(&mut out)?;
        out.into_inner()?.sync_all()?;
        match interrupt::is_stop_requested() {
            true => fs::remove_file(&part),
            false => fs::rename(&part, path).and_then(|()| sync_parent(path)),
        }
    })();
    if let Err(error) = written {
        // It may not exist.
        let _ = fs::remove_file(&part);
        let why = anyhow::Error::new(error).context(format!("could not write {}", path.display()));
        return Err(CommandFailure::Failed(why));
    }
    Ok(())
}

fn summary(counts: &InverseCounts) -> String {
    let rows = [(counts.deleted, "DELETE"), (counts.updated, "UPDATE"), (counts.inserted, "INSERT")];
    let rows = rows.iter().filter(|(count, _)| *count > 0).map(|(count, verb)| counted(*count, verb));
    let rows: Vec<String> = rows.collect();
    format!("the inverse of {}: {}", counted(counts.transactions, "transaction"), rows.join(", "))
}

fn parse_condition(text: &str) -> Result<RowCondition, String> {
    RowCondition::new(text).map_err(|error| error.to_string())
}
