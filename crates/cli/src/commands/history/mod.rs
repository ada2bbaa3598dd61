//! `bintide history`: all changes of one row.

mod text;

use std::io::{self, Write};

use anyhow::{Context, anyhow};
use clap::Args;
use list::history::{
    HistoryBeginning, HistoryGap, HistoryGaps, HistorySettings, RowHistory, RowKey, TableCompletion,
    row_history,
};
use list::{ListError, ListSource, RowCondition};
use sql::TableNamePart;
use tracing::warn;

use crate::column_name_source::query_table;
use crate::connection_args::ConnectionArgs;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::log_args::{FILES_HELP, InputLocation, InputLogs, LogArgs, add_advice};
use crate::progress::ByteProgress;
use crate::screen::{self, ReportStyle};
use crate::units::counted;
use crate::value_parsers::parse_row_condition;

pub(crate) const EXAMPLES: &str = "\
Examples:
  All changes of one row, from its INSERT on:
      bintide history --table shop.orders --where id=4711 /var/lib/mysql
  The same for logs without column names (binlog_row_metadata=MINIMAL): take the
  names from a server, or use the number of the column:
      bintide history --table shop.orders --where id=4711 \\
          --schema mysql://reader@db1/ /var/lib/mysql
      bintide history --table shop.orders --where @1=4711 /var/lib/mysql
  A row with two key columns, as JSON lines:
      bintide history --table shop.items --where order=4711 --where line=2 \\
          --json binlog.0000*

The newest log is read first. Reading ends at the INSERT of the row. If the key
of the row changed, its changes under the other keys are listed, too. Times are
commit times, in the time zone of TZ; with --json, in UTC.";

/// Arguments of `bintide history`.
#[derive(Args, Debug)]
#[command(mut_arg("logs", |arg| arg.help(FILES_HELP)))]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    inputs: LogArgs,
    /// Table of the row.
    #[arg(long, value_name = "DB.TABLE", value_parser = parse_table)]
    table: TableName,
    /// Value that identifies the row: COLUMN=VALUE, or @N=VALUE for the Nth column. Repeatable: all values must match.
    #[arg(long = "where", value_name = "COLUMN=VALUE", required = true, value_parser = parse_row_condition)]
    conditions: Vec<RowCondition>,
    /// Print one JSON line for each change.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: HistoryNameArgs,
}

/// Options of column names.
#[derive(Args, Debug)]
#[command(next_help_heading = "Column names")]
struct HistoryNameArgs {
    /// Server that has the table, as mysql://USER@HOST:PORT/ or mysql://USER@localhost/?socket=FILE. The column names,
    /// key and ENUM texts are read from this server if the logs do not have them (binlog_row_metadata=MINIMAL, the
    /// default of MySQL). The account needs SELECT on the table. The connection options below complete or replace this
    /// address.
    #[arg(long, value_name = "SERVER")]
    schema: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Database and table.
#[derive(Clone, Debug)]
struct TableName {
    database: String,
    table: String,
}

/// Finds the changes, then prints them.
pub(crate) fn run(command: &HistoryArgs, global: &GlobalArgs) -> CommandResult {
    let found = command.inputs.find_logs()?;
    let history = find(command, &found, global)?;
    for torn in &history.torn_ends {
        warn!("{torn}");
    }
    if let Some(error) = &history.unusable_condition {
        return Err(CommandFailure::Failed(anyhow!("{error}")));
    }
    if let Some(key) = &history.chosen_row {
        let key: Vec<String> = key.iter().map(ToString::to_string).collect();
        warn!(
            "this is the row {} of the newest change that matches; other rows may match, too: choose a row by its \
             primary key",
            key.join(" and ")
        );
    }
    warn_of_key(history.key, &command.table);
    warn_of_gaps(&history.gaps);
    warn_of_missing_logs(&history, &found);
    let TableName { database, table } = &command.table;
    let is_unread = history.gaps.listed.iter().any(|gap| matches!(gap, HistoryGap::OtherColumns { .. }));
    match (history.entries.is_empty(), history.has_table) {
        (true, false) if is_unread => {}
        (true, true) => warn!("the logs have no change of this row of {database}.{table}"),
        (true, false) => warn!("the logs have no change of any row of {database}.{table}"),
        (false, _) => {}
    }
    let mut out = io::stdout().lock();
    match command.json {
        true => {
            let mut lines = Vec::new();
            history.entries.iter().for_each(|entry| entry.put_json(&mut lines));
            out.write_all(&lines)?;
        }
        false => {
            let style = ReportStyle::new(global.color.on_stdout());
            screen::print(&text::render(&history, style), &mut out)?;
        }
    }
    Ok(CommandVerdict::Success)
}

/// Warns if `--where` may match several rows because no primary key is known.
fn warn_of_key(key: Option<RowKey>, TableName { database, table }: &TableName) {
    match key {
        Some(RowKey::Missing) => warn!(
            "{database}.{table} has no primary key: all changes that match --where before or after the change are \
             listed, and may be of several rows; give a value for each column of a unique key, if the table has one"
        ),
        Some(RowKey::Unknown) => warn!(
            "the logs do not show the primary key of {database}.{table}, so the columns of --where count as the key. \
             If they match several rows, changes may be missing. Give --schema, or a value for each key column"
        ),
        Some(RowKey::Primary) | None => {}
    }
}

fn warn_of_gaps(gaps: &HistoryGaps) {
    for gap in &gaps.listed {
        warn!("{gap}");
    }
    if gaps.more_statements > 0 {
        let statements = counted(gaps.more_statements, "more statement");
        warn!("the history does not contain what {statements} changed");
    }
}

/// Warns of missing logs, except before the log with the row's INSERT.
fn warn_of_missing_logs(history: &RowHistory, found: &InputLogs) {
    let has_name = |location: &InputLocation, name: &str| match location {
        InputLocation::File(path) => path.file_name().is_some_and(|file| file == name),
        InputLocation::Stdin => false,
    };
    let first = match (history.beginning, history.entries.first()) {
        (HistoryBeginning::Created, Some(entry)) => {
            found.locations.iter().position(|location| has_name(location, &entry.log_name)).unwrap_or(0)
        }
        _ => 0,
    };
    for gap in found.gaps().iter().filter(|gap| gap.next > first) {
        warn!("{gap}: the history may lack changes");
    }
}

fn find(command: &HistoryArgs, found: &InputLogs, global: &GlobalArgs) -> Result<RowHistory, CommandFailure> {
    found.check_indexes()?;
    let TableName { database, table } = &command.table;
    let mut settings = HistorySettings::new(sources(found)?, database.as_bytes(), table.as_bytes());
    settings.conditions.clone_from(&command.conditions);
    settings.keyring.clone_from(&found.keyring);
    settings.completion = command.names.completion(&command.table, global)?;
    let mut progress = ByteProgress::new(global, found.bytes_total);
    let (sizes, mut bytes_begun) = (sizes(found), 0);
    let mut watch = |log: usize| {
        progress.update(bytes_begun);
        bytes_begun += sizes.get(log).copied().unwrap_or_default();
        interrupt::stop_flow()
    };
    row_history(&settings, &mut watch).map_err(failure)
}

impl HistoryNameArgs {
    /// Returns the column names of a table on the server, if a server is given.
    fn completion(
        &self,
        TableName { database, table }: &TableName,
        global: &GlobalArgs,
    ) -> Result<Option<TableCompletion>, CommandFailure> {
        if self.schema.is_none() && !self.connection.names_server() {
            return Ok(None);
        }
        let address = self.connection.address(self.schema.as_deref(), "--schema", global)?;
        let found = query_table(&address, database, table).context("--schema");
        let schema = found.map_err(CommandFailure::NotStarted)?.ok_or_else(|| {
            // The name was split at its first dot.
            let advice = match table.contains('.') {
                true => "; a name with a dot must be in backticks: --table '`a.b`.c'",
                false => "",
            };
            CommandFailure::NotStarted(anyhow!(
                "--schema: the server has no table {database}.{table}, or the account may not read it: grant SELECT on \
                 it, or omit --schema and use the column's number in --where: @N=VALUE{advice}"
            ))
        })?;
        Ok(Some(TableCompletion::new(move |table| schema.complete(table))))
    }
}

/// Returns the logs, which must be files because they are read backward.
fn sources(found: &InputLogs) -> Result<Vec<ListSource>, CommandFailure> {
    let source = |location: &InputLocation| match location {
        InputLocation::File(path) if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) => {
            Err(CommandFailure::NotStarted(anyhow!(
                "{} is not a regular file: history reads logs more than once, but a pipe or a device can be read \
                 only once; give a file",
                path.display()
            )))
        }
        InputLocation::File(path) => Ok(ListSource::File(path.clone())),
        InputLocation::Stdin => Err(CommandFailure::NotStarted(anyhow!(
            "history reads logs more than once, but standard input can be read only once: give a file"
        ))),
    };
    found.locations.iter().map(source).collect()
}

fn sizes(found: &InputLogs) -> Vec<u64> {
    let size = |location: &InputLocation| match location {
        InputLocation::File(path) => std::fs::metadata(path).map_or(0, |data| data.len()),
        InputLocation::Stdin => 0,
    };
    found.locations.iter().map(size).collect()
}

fn failure(error: ListError) -> CommandFailure {
    CommandFailure::Failed(match error {
        ListError::Log(cause) => add_advice(cause),
        ListError::NoColumnNames { .. } => {
            anyhow::Error::new(error).context(ErrorAdvice(
                "take the names from a server that has the table: --schema mysql://USER@HOST/; or use the column's \
                 number in --where: @N=VALUE",
            ))
        }
        ListError::Event { .. } | ListError::Payload { .. } => {
            anyhow::Error::new(error).context(ErrorAdvice("run bintide verify for details"))
        }
        error => error.into(),
    })
}

fn parse_table(text: &str) -> Result<TableName, String> {
    let (database, table) = sql::split_table_name(text.as_bytes());
    let has_wildcard =
        |part: &TableNamePart| !part.is_quoted && part.name.iter().any(|byte| b"*?%".contains(byte));
    let is_pattern = database.iter().chain([&table]).any(has_wildcard);
    let name = |part: TableNamePart| String::from_utf8(part.name).ok().filter(|name| !name.is_empty());
    let parts = database.and_then(name).zip(name(table));
    let (database, table) = parts.ok_or_else(|| "expected DB.TABLE, such as shop.orders".to_owned())?;
    if is_pattern {
        return Err("expected the name of one table, without the wildcards * ? %".to_owned());
    }
    Ok(TableName { database, table })
}
