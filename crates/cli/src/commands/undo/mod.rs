//! `bintide undo`: the inverse of chosen row changes: as a binary log, as SQL, or applied to a server.

mod application;
mod compressed_log;
mod conflict_text;
mod gap_check;
mod other_tables;
mod renumbered_tables;
mod script;
mod undo_choice;
mod undo_collector;
mod unnamed_columns;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use binlog::gtid::GtidSet;
use binlog::{EventFormat, ZstdLevel};
use clap::Args;
use inspect::stats::StatsSelection;
use list::{RowCondition, RowConditions};
use logs::{GtidSelection, ServerIdentity};
use mysql_target::LoggedActions;
use replay::{
    AppliedState, RowEvents, SelectionChoice, TransactionSelection, TransactionSelector, TransactionSource,
};
use rewrite::{RewriteError, StagedFile};
use servers::ServerAddress;
use sql::{TablePattern, TableSelection};
use tracing::{info, warn};
use undo::{
    ForeignKeyActions, InverseCollector, InverseCounts, InverseLog, InverseLogError, InverseLogIdentity,
    InversePart,
};

use self::gap_check::GapCheck;
use self::script::ScriptColumns;
use self::undo_collector::UndoCollector;
use crate::column_name_source::ServerDefinitions;
use crate::connection_args::ConnectionArgs;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::log_args::{InputLogs, LogArgs, add_advice};
use crate::progress::ByteProgress;
use crate::selection_args::SelectionArgs;
use crate::temporary_files::TemporaryFiles;
use crate::units::counted;
use crate::value_parsers::{parse_database, parse_gtids, parse_level, parse_row_condition};

pub(crate) const EXAMPLES: &str = "\
Examples:
  Write the inverse of one transaction, read it, and apply it:
      bintide undo --gtid 3e11fa47-71ca-11e1-9e33-c80aa9429562:23 \\
          -r undo.binlog /var/lib/mysql
      bintide dump -v undo.binlog
      bintide replay --log undo.binlog --to mysql://root@db1/
  Undo all row changes of one table since 14:00:
      bintide undo --table shop.orders --start-datetime '2026-11-24 14:00:00' \\
          -r undo.binlog /var/lib/mysql
  Undo the changes of one row:
      bintide undo --table shop.orders --where id=4711 -r undo.binlog \\
          /var/lib/mysql
  Write a log with compressed transactions:
      bintide undo --table shop.orders --where id=4711 --compress \\
          -r undo.binlog /var/lib/mysql
  Undo the changes of one row on a server, unless the row has changed since:
      bintide undo --table shop.orders --where id=4711 --to mysql://root@db1/ \\
          /var/lib/mysql
  Print the inverse as SQL statements:
      bintide undo --table shop.orders --where id=4711 --sql \\
          --to mysql://root@db1/ /var/lib/mysql
  Apply the new log with mysql; --skip-gtids lets the server assign GTIDs:
      mysqlbinlog --skip-gtids undo.binlog | mysql

At least one of --gtid, --start-…, --stop-…, --table, --database and --where is
required.

The new log contains one transaction for each undone transaction, the last one
first. It restores rows as they were before the first undone change. If other
transactions changed a row later, applying the log fails or overwrites the later
values: look at bintide history first.

With --to, the inverse is one transaction. A row is changed only if it still has
all values that the undone change wrote. Other rows are listed with both values,
and then nothing is changed, unless --skip-changed is given.";

/// Arguments of `bintide undo`.
#[derive(Args, Debug)]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    inputs: LogArgs,
    #[command(flatten)]
    temporary: TemporaryFiles,
    #[command(flatten)]
    output: UndoOutputArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Undo only the transactions in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = parse_gtids, help_heading = "Transactions")]
    gtid: Option<GtidSet>,
    #[command(flatten)]
    rows: UndoRowArgs,
}

/// Options for the result.
#[derive(Args, Debug)]
struct UndoOutputArgs {
    /// File for the new log or SQL script. It must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    result_file: Option<PathBuf>,
    /// With -r: write a log with compressed transactions, at this zstd level from 1 to 22 [default level: 3]
    #[arg(
        long,
        value_name = "LEVEL",
        value_parser = parse_level,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "3",
        requires = "result_file",
        conflicts_with_all = ["sql", "to"]
    )]
    compress: Option<ZstdLevel>,
    /// Write SQL statements instead of a binary log, one for each row.
    #[arg(long)]
    sql: bool,
    /// Apply the inverse to this server, as one transaction: mysql://USER@HOST:PORT/ or
    /// mysql://USER@localhost/?socket=FILE; the connection options below complete or replace this address. With --sql,
    /// only the definitions of the tables are read from this server: logs with binlog_row_metadata=MINIMAL have no
    /// column names.
    #[arg(long, value_name = "TARGET")]
    to: Option<String>,
    /// With --to: skip rows that were changed again later, and undo the other changes. Without this option, nothing is
    /// changed if a row has other values.
    #[arg(long, conflicts_with = "sql")]
    skip_changed: bool,
    /// With --to: print the result as JSON.
    #[arg(long, conflicts_with = "sql")]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Destination of the inverse.
enum UndoDestination {
    Log,
    /// SQL statements. The server has the definitions of the tables.
    Script(Option<ServerAddress>),
    Target(ServerAddress),
}

impl UndoDestination {
    /// Returns the source of column names that the logs lack.
    fn definitions(&self) -> Option<ServerDefinitions> {
        match self {
            Self::Script(Some(server)) | Self::Target(server) => Some(ServerDefinitions::new(server.clone())),
            Self::Log | Self::Script(None) => None,
        }
    }

    /// Refuses an inverse that would go to the wrong columns of the server. A log may be meant for a server that still
    /// has the old order.
    fn check_reordering(&self, finding: String) -> Result<(), CommandFailure> {
        match self {
            Self::Log => {
                warn!("{finding}: apply it only to a table that has the columns of that time");
                Ok(())
            }
            Self::Script(_) | Self::Target(_) => {
                let advice = "undo only changes that were made after the reordering";
                Err(CommandFailure::Failed(anyhow!("{finding}").context(ErrorAdvice(advice))))
            }
        }
    }
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
    #[arg(long, value_name = "DB", value_parser = parse_database)]
    database: Option<String>,
    /// Undo only changes of rows with this value before or after the change: COLUMN=VALUE, or @N=VALUE for the Nth
    /// column. Repeatable: all values must match. Column names that the log does not have are read from the server of
    /// --to.
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = parse_row_condition)]
    conditions: Vec<RowCondition>,
}

/// Bytes of a transaction that are kept in memory; the rest is in temporary files.
const TRANSACTION_MEMORY: usize = 32 << 20;

/// Writes the inverse of the chosen changes.
pub(crate) fn run(command: &UndoArgs, global: &GlobalArgs) -> CommandResult {
    command.temporary.limit();
    command.check()?;
    let destination = command.output.destination(global)?;
    let collected = collect(command, destination.definitions(), global)?;
    let Some(CollectedInverse { collector, format, reordering }) = collected else {
        return Ok(CommandVerdict::Success);
    };
    let counts = collector.counts();
    let Some(format) = format.filter(|_| counts.transactions > 0) else {
        return Err(CommandFailure::Failed(anyhow!(
            "the logs have none of the chosen row changes: nothing to undo"
        )));
    };
    if let Some(finding) = reordering {
        destination.check_reordering(finding)?;
    }
    let inverse = Inverse { log: collector.into_log(), format, counts };
    let result = if matches!(destination, UndoDestination::Script(_)) { "script" } else { "log" };
    match destination {
        UndoDestination::Log => match (&command.output.result_file, command.output.compress) {
            (Some(path), Some(level)) => compressed_log::write(inverse, level, path)?,
            _ => command.output.write(|out| write_log(inverse, out))?,
        },
        UndoDestination::Script(server) => {
            let columns = match server {
                Some(_) => ScriptColumns::OfServer,
                None => ScriptColumns::OfLog,
            };
            let script = mysql_target::RowScript::new(server.as_ref());
            let script = script.map_err(|failure| CommandFailure::NotStarted(anyhow!("{failure}")))?;
            let write = match command.output.result_file {
                Some(_) => script::write,
                None => script::write_checked,
            };
            command.output.write(|out| write(inverse, script, columns, out))?;
        }
        UndoDestination::Target(address) => {
            return application::apply(inverse, &address, &command.output, global);
        }
    }
    if !interrupt::is_stop_requested() {
        info!("{}", inverted_text(&counts, result));
    }
    Ok(CommandVerdict::Success)
}

/// The inverse of the chosen changes.
struct Inverse {
    log: InverseLog,
    /// Format of the newest undone log.
    format: Arc<EventFormat>,
    counts: InverseCounts,
}

impl Inverse {
    /// Returns encoded events of the inverse, with their format.
    fn rows(format: &Arc<EventFormat>, events: &[u8]) -> RowEvents {
        RowEvents { format: Arc::clone(format), bytes: events.to_vec() }
    }
}

/// Returns, for the beginning of a statement, whether the log contains the changes that its foreign keys cause.
fn logged_actions(part: &InversePart<'_>) -> Option<LoggedActions> {
    match part {
        InversePart::Statement { foreign_keys: ForeignKeyActions::ByServer, .. } => {
            Some(LoggedActions::Absent)
        }
        InversePart::Statement { foreign_keys: ForeignKeyActions::InLog, .. } => Some(LoggedActions::Present),
        InversePart::Transaction(_) | InversePart::Rows(_) => None,
    }
}

fn write_log(inverse: Inverse, out: &mut dyn Write) -> Result<(), WriteFailure> {
    let identity = new_identity().context("could not create a UUID for the new log");
    let identity = identity.map_err(WriteFailure::Inverse)?;
    let mut on_progress = |_| !interrupt::is_stop_requested();
    inverse.log.write(&inverse.format, identity, out, &mut on_progress).map_err(|error| match error {
        InverseLogError::Write(error) => error.into(),
        error => WriteFailure::Inverse(error.into()),
    })
}

/// Returns the identity of a new log. A replay identifies its transactions by GTID, whatever the file's name.
fn new_identity() -> anyhow::Result<InverseLogIdentity> {
    let uuid = ServerIdentity::random()?.server_uuid.parse()?;
    let time_us = logs::now_us();
    Ok(InverseLogIdentity { uuid, time_us })
}

impl UndoOutputArgs {
    /// Returns the destination, without connecting.
    fn destination(&self, global: &GlobalArgs) -> Result<UndoDestination, CommandFailure> {
        let has_server = self.to.is_some() || self.connection.names_server();
        let address = || self.connection.address(self.to.as_deref(), "--to", global);
        let address = has_server.then(address).transpose()?;
        match address {
            server if self.sql => Ok(UndoDestination::Script(server)),
            Some(_) if self.result_file.is_some() => Err(CommandFailure::NotStarted(anyhow!(
                "--result-file requires --sql if --to is given: --to alone changes the server and writes no file"
            ))),
            Some(target) => Ok(UndoDestination::Target(target)),
            None if self.skip_changed || self.json => {
                Err(CommandFailure::NotStarted(anyhow!("--skip-changed and --json require --to")))
            }
            None => Ok(UndoDestination::Log),
        }
    }

    /// Writes the result to the file or to standard output.
    fn write(
        &self,
        write: impl FnOnce(&mut dyn Write) -> Result<(), WriteFailure>,
    ) -> Result<(), CommandFailure> {
        match &self.result_file {
            Some(path) => write_file(path, write),
            None => {
                let mut out = BufWriter::new(io::stdout().lock());
                let written = write(&mut out).and_then(|()| out.flush().map_err(WriteFailure::Write));
                written.map_err(|failure| failure.into_failure(Into::into))
            }
        }
    }
}

impl UndoArgs {
    /// Refuses a run without a choice of changes, and an output that exists or is a terminal.
    fn check(&self) -> Result<(), CommandFailure> {
        let refuse = |why: String| Err(CommandFailure::NotStarted(anyhow!(why)));
        if !self.rows.selects_rows()
            && self.gtid.is_none()
            && self.selection.selection()? == Default::default()
        {
            return refuse(
                "choose what to undo: --gtid, --start-…, --stop-…, --table, --database or --where".into(),
            );
        }
        let is_log = !self.output.sql && self.output.to.is_none() && !self.output.connection.names_server();
        match &self.output.result_file {
            Some(path) if path.exists() => {
                refuse(format!("{} exists: give the name of a new file", path.display()))
            }
            None if is_log && io::stdout().is_terminal() => {
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
    /// Later change of a table's columns that makes the inverse wrong.
    reordering: Option<String>,
}

/// Collects the inverse, and the format of the newest undone log. Returns `None` when interrupted.
fn collect(
    command: &UndoArgs,
    definitions: Option<ServerDefinitions>,
    global: &GlobalArgs,
) -> Result<Option<CollectedInverse>, CommandFailure> {
    let mut found = command.inputs.find_logs()?;
    found.check_indexes()?;
    let selection = command.selection.selection()?;
    let gtids = GtidSelection { included: command.gtid.clone(), excluded: None };
    leave_out_archived(&mut found, &selection, &gtids);
    let mut source = TransactionSource::new(found.replay_logs(), found.keyring.clone(), TRANSACTION_MEMORY);
    source.leave_out_logs(&selection, &AppliedState::default()).map_err(failed)?;
    // `dump` and `history` show these positions.
    source.use_file_positions();
    // The server may write to its newest log.
    source.end_before_torn_transactions();
    let mut selector = TransactionSelector::new(&selection, source.log_names())
        .map_err(|error| CommandFailure::NotStarted(error.into()))?;
    let conditions = RowConditions::new(command.rows.conditions.clone());
    let tables = command.rows.tables();
    let mut undo = UndoCollector::new(&tables, &conditions, definitions, source.opener())?;
    let mut progress = ByteProgress::new(global, found.bytes_total);
    // With `--gtid`, gaps do not matter: undo refuses logs that lack a chosen transaction.
    let gaps = if command.gtid.is_none() { found.gaps() } else { Vec::new() };
    let mut gap_check = GapCheck::new(gaps, &selection);
    let mut found_gtids = GtidSet::new();
    // All transactions of `--gtid` must be found, whatever tables they change.
    let mut needed_tables = Some(tables.clone()).filter(|_| command.gtid.is_none());
    loop {
        if selector.has_started()
            && let Some(tables) = needed_tables.take()
        {
            source.leave_out_other_tables(tables);
        }
        let Some(found) = source.next_found().map_err(failed)? else { break };
        if interrupt::is_stop_requested() {
            return Ok(None);
        }
        progress.update(source.bytes_read());
        let head = found.head();
        let choice = selector.choose(&head);
        gap_check.check(&head, source.previous(), choice)?;
        match choice {
            SelectionChoice::Take if gtids.selects(Some(head.id)) => {
                found_gtids.extend(head.gtid());
                undo.add(found, &head)?;
            }
            SelectionChoice::Take | SelectionChoice::Leave => undo.add_later(&found, &head),
            SelectionChoice::Stop => {
                undo.add_later(&found, &head);
                add_later_transactions(&mut undo, &mut source);
                break;
            }
        }
    }
    source.torn_ends().iter().for_each(|torn| warn!("{torn}"));
    selector.finish().map_err(failed)?;
    check_all_found(command.gtid.as_ref(), &found_gtids)?;
    if let Some(error) = conditions.unusable_condition_error().or_else(|| conditions.untested_rows_error()) {
        return Err(CommandFailure::Failed(anyhow!("{error}")));
    }
    if undo.format.is_some() {
        undo.warn_unmatched();
    }
    let reordering = undo.renumbered.finding();
    Ok(Some(CollectedInverse { collector: undo.collector, format: undo.format, reordering }))
}

/// Searches the transactions after the stop for statements that make the inverse wrong. A log that cannot be read ends
/// the search: it is not part of the inverse.
fn add_later_transactions(undo: &mut UndoCollector<'_>, source: &mut TransactionSource) {
    while undo.renumbered.needs_statements() && !interrupt::is_stop_requested() {
        match source.next_found() {
            Ok(Some(found)) => undo.add_later(&found, &found.head()),
            Ok(None) => return,
            Err(error) => {
                warn!("could not check whether tables were altered after the undone changes: {error}");
                return;
            }
        }
    }
}

/// Leaves out archived logs without a transaction of `--gtid`. A start, a stop and a number of transactions to skip
/// need other logs, too.
fn leave_out_archived(found: &mut InputLogs, selection: &TransactionSelection, gtids: &GtidSelection) {
    if selection.start.is_none() && selection.stop.is_none() && selection.skip == 0 {
        found.leave_out_archived(&StatsSelection { gtids: gtids.clone(), ..StatsSelection::default() });
    }
}

/// Refuses GTIDs of `--gtid` that the logs do not contain.
fn check_all_found(selected: Option<&GtidSet>, found: &GtidSet) -> Result<(), CommandFailure> {
    let missing = selected.map(|selected| selected.difference(found)).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    let error = anyhow!("cannot undo {missing}: the logs do not contain these transactions");
    Err(CommandFailure::Failed(error.context(ErrorAdvice("give the logs that contain them"))))
}

fn failed(error: replay::ReplayError) -> CommandFailure {
    CommandFailure::Failed(match error {
        replay::ReplayError::Read(cause) => add_advice(cause),
        replay::ReplayError::Corrupt { .. } => {
            anyhow::Error::new(error).context(ErrorAdvice("run bintide verify for details"))
        }
        error => error.into(),
    })
}

/// Writes a new file, which appears under its name only when it is complete.
fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), WriteFailure>,
) -> Result<(), CommandFailure> {
    let failed = |error: RewriteError| CommandFailure::Failed(error.into());
    let mut staged = StagedFile::begin(path).map_err(failed)?;
    write_staged(&mut staged, path, write)?;
    match interrupt::is_stop_requested() {
        true => Ok(()),
        false => publish_staged(staged),
    }
}

/// Writes a file that becomes `path` later.
fn write_staged(
    staged: &mut StagedFile,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), WriteFailure>,
) -> Result<(), CommandFailure> {
    let mut out = BufWriter::with_capacity(1 << 20, staged.file());
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    written.map_err(|failure| {
        failure.into_failure(|error| {
            let why = anyhow::Error::new(error).context(format!("could not write {}", path.display()));
            CommandFailure::Failed(why)
        })
    })
}

/// Renames a complete file to its final name.
fn publish_staged(staged: StagedFile) -> Result<(), CommandFailure> {
    let published = staged.sync_new().and_then(|file| file.create_target()?.sync());
    published.map_err(|error| CommandFailure::Failed(error.into()))
}

/// Failure while the result is written.
enum WriteFailure {
    /// The result cannot be written.
    Write(io::Error),
    /// The inverse cannot be read or created.
    Inverse(anyhow::Error),
}

impl From<io::Error> for WriteFailure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl WriteFailure {
    fn into_failure(self, write: impl FnOnce(io::Error) -> CommandFailure) -> CommandFailure {
        match self {
            Self::Write(error) => write(error),
            Self::Inverse(error) => CommandFailure::Failed(error),
        }
    }
}

/// Returns the message for a new log or script.
fn inverted_text(counts: &InverseCounts, result: &str) -> String {
    let rows = [(counts.deleted, "deletes"), (counts.updated, "updates"), (counts.inserted, "inserts")];
    let rows = rows.iter().filter(|(count, _)| *count > 0);
    let rows: Vec<String> = rows.map(|(count, verb)| format!("{verb} {}", counted(*count, "row"))).collect();
    format!("inverted {}: the new {result} {}", counted(counts.transactions, "transaction"), rows.join(", "))
}

fn summary(counts: &InverseCounts) -> String {
    let rows = [(counts.deleted, "DELETE"), (counts.updated, "UPDATE"), (counts.inserted, "INSERT")];
    let rows = rows.iter().filter(|(count, _)| *count > 0).map(|(count, verb)| counted(*count, verb));
    let rows: Vec<String> = rows.collect();
    format!("the inverse of {}: {}", counted(counts.transactions, "transaction"), rows.join(", "))
}
