//! `bintide stream snapshot`: requests a snapshot of tables from a stream.

use std::path::PathBuf;

use clap::Args;
use tracing::info;

use crate::commands::stream::snapshot::request_directory::write_request;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::units::counted;

/// Arguments of `bintide stream snapshot`.
#[derive(Args, Debug)]
pub(in crate::commands::stream) struct StreamSnapshotArgs {
    /// Tables to read, separated by commas
    #[arg(long = "table", value_name = "DB.TABLE", required = true, value_delimiter = ',')]
    #[arg(value_parser = parse_table)]
    tables: Vec<RequestedTable>,
    /// Directory of the option --signals of the stream
    #[arg(long, value_name = "DIR")]
    signals: PathBuf,
}

/// Name of a table with its database.
#[derive(Clone, Debug)]
struct RequestedTable([String; 2]);

fn parse_table(text: &str) -> Result<RequestedTable, String> {
    match text.split_once('.') {
        Some((database, table)) if !database.is_empty() && !table.is_empty() => {
            Ok(RequestedTable([database, table].map(str::to_owned)))
        }
        _ => Err("expected DATABASE.TABLE".to_owned()),
    }
}

/// Writes the request.
pub(in crate::commands::stream) fn run(arguments: &StreamSnapshotArgs) -> CommandResult {
    let tables: Vec<[String; 2]> = arguments.tables.iter().map(|table| table.0.clone()).collect();
    write_request(&arguments.signals, &tables).map_err(CommandFailure::NotStarted)?;
    info!(
        "requested a snapshot of {}: the stream with --signals {} begins it within a second, or when it starts",
        counted(tables.len() as u64, "table"),
        arguments.signals.display()
    );
    Ok(CommandVerdict::Success)
}
