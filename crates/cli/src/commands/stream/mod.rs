//! `bintide stream`: row changes as JSON records.

mod catalogue;
mod live;
mod reader;
mod snapshot;
mod tell;

use std::io;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use servers::Address;
use stream::{
    Definitions, Envelope, Files, Nameless, Output, Queries, Settings, Statements, To, Token, lock_progress,
    saved,
};
use wire::End;

use crate::args::Global;
use crate::commands::rewrite;
use crate::commands::stream::catalogue::Schema;
use crate::commands::stream::live::{Live, Resume};
use crate::commands::stream::reader::ProgressFile;
use crate::commands::tables::Tables;
use crate::connection_args::{ConnectionArgs, NAMING_SERVER, SchemaServer, Sharing};
use crate::exit::{Failure, Outcome};
use crate::inputs::Inputs;
use crate::interrupt;
use crate::temporary::TemporaryFiles;

pub(crate) const EXAMPLES: &str = "\
Examples:
  The rows that a log changes, in Debezium's form, one record a line:
      bintide stream --format debezium binlog.000012
  In Maxwell's, of one database only, from all logs that a server's index names:
      bintide stream --format maxwell --do-db shop /var/lib/mysql
  From a compressed backup, into a program:
      zstd -dc binlog.000012.zst | bintide stream --format maxwell - | jq .data
  Into a program, and after a crash of either go on where it ended (what came
  last may come again):
      bintide stream --format debezium --progress state /var/lib/mysql | consumer
  Into files, each transaction exactly once however often it is killed:
      bintide stream --format debezium --out changes /var/lib/mysql
  Changes as a running server makes them:
      bintide stream --format debezium --from mysql://repl@db1/ --progress state
  The rows that it has already in front of them:
      bintide stream --format debezium --from mysql://repl@db1/ --out changes --snapshot
  Behind a transaction whose last record was seen:
      bintide stream --format debezium --resume binlog.000012:7301 /var/lib/mysql

Columns have names where the source logs them (binlog_row_metadata=FULL); a
running source is asked otherwise, and of logs any server with --schema; logs that
have their tables' definitions tell it with --schema ddl; or give --columns numbered.";

/// Arguments of `bintide stream`.
#[derive(Args, Debug)]
pub(crate) struct Stream {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    server: Server,
    /// In whose form records are written.
    #[arg(long, value_enum, value_name = "FORM")]
    format: Form,
    /// What columns are called: by the names in the log, or by their numbers where it has none.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Columns::Named)]
    columns: Columns,
    /// Source of column names that the log does not have: a server, as mysql://USER@HOST:PORT/, where the account needs
    /// SELECT on the tables; or ddl, for the table definitions in the log itself. The connection options of this server
    /// have the prefix --schema-, as --schema-ssl-ca. [default: the server of --from]
    #[arg(long, value_name = "SERVER|ddl")]
    schema: Option<String>,
    /// Pass over changes that are in the log as statements. Which rows they changed nobody can tell.
    #[arg(long)]
    skip_statements: bool,
    /// Put the statement that changed a row into its record, where the source logs it
    /// (binlog_rows_query_log_events).
    #[arg(long)]
    queries: bool,
    /// What the source is called in Debezium's records: its topic prefix.
    #[arg(long, value_name = "NAME", default_value = "bintide")]
    name: String,
    #[command(flatten)]
    goes_on: GoesOn,
    #[command(flatten)]
    tables: Tables,
    #[command(flatten)]
    temporary: TemporaryFiles,
}

/// A running server, instead of logs.
#[derive(Args, Debug)]
#[command(next_help_heading = "A running server, instead of logs")]
struct Server {
    /// Follow this server's log as it is written, from the oldest that it has: mysql://USER@HOST:PORT/, or
    /// mysql://USER@localhost/?socket=FILE. The connection options below can complete or replace this address. The account
    /// needs REPLICATION SLAVE.
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["logs", "keyring"])]
    from: Option<String>,
    /// The `server_id` to come as: that of no other replica of the server. A large one is drawn otherwise.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(conflicts_with = "logs")]
    server_id: Option<u32>,
    /// At first, the rows that the tables have, and then changes from there on: where nothing was written before.
    #[arg(long, conflicts_with_all = ["logs", "resume"])]
    snapshot: bool,
    /// Stop at the end of what the server has, instead of waiting for more.
    #[arg(long, conflicts_with = "logs")]
    stop_at_end: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    schema: ConnectionArgs<SchemaServer>,
}

/// Where records go, and where a run goes on.
#[derive(Args, Debug)]
#[command(next_help_heading = "Where records go, and going on")]
struct GoesOn {
    /// Go on behind the transaction whose end had this in its field `resume`.
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["progress", "out"])]
    resume: Option<Token>,
    /// Keep in this file how far records were written, and from a pipe taken, and go on from there: what came last
    /// before a crash may come again.
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    progress: Option<PathBuf>,
    /// Write records to files in this directory, each transaction once: files that are finished change no more.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Bytes (K, M, G) from which on a file of --out is finished, at a transaction's end.
    #[arg(long, value_name = "BYTES", default_value = "64M", requires = "out", value_parser = file_size)]
    file_size: u64,
}

fn file_size(text: &str) -> Result<u64, String> {
    match rewrite::size(text)? {
        0 => Err("a file has a byte at least: 64M is usual".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Whose form.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// As Debezium's MySQL connector writes JSON without schemas.
    Debezium,
    /// As Maxwell writes JSON.
    Maxwell,
}

/// What columns are called.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Columns {
    /// By their names; a log without them is refused.
    Named,
    /// By their names, or @1, @2 and so on.
    Numbered,
}

/// Writes records.
pub(crate) fn run(command: &Stream, global: &Global) -> Outcome {
    command.temporary.limit();
    let settings = command.settings()?;
    let schema = command.schema(global)?;
    if command.inputs.has_logs() {
        if !matches!(schema, Schema::Server(_)) {
            command.server.connection.refuse_beside_logs()?;
        }
        let found = command.inputs.find(global)?;
        found.remark_on_twice(global, "read");
        let (mut output, resume) = command.goes_on.to(settings.envelope)?;
        let schema = with_kept(schema, &mut output)?;
        return tell::tell(&found, (settings, schema), (output, resume.token));
    }
    if !command.server.stop_at_end {
        interrupt::runs_until_stopped();
    }
    let mut live = Live {
        address: command.server.source(global)?,
        server_id: command.server.server_id()?,
        end: if command.server.stop_at_end { End::LastEvent } else { End::Never },
        quiet: global.quiet,
        schema,
        snapshot: command.server.snapshot,
        is_piped: command.goes_on.out.is_none(),
    };
    let (mut output, resume) = command.goes_on.to(settings.envelope)?;
    live.schema = with_kept(live.schema, &mut output)?;
    live::follow(&mut live, &settings, (output, resume))
}

/// With the definitions that were saved, if columns are called by these. Else nobody follows what becomes of them.
fn with_kept(schema: Schema, output: &mut Output) -> Result<Schema, Failure> {
    match schema {
        Schema::Log(_) => Ok(Schema::Log(tell::kept(output)?.unwrap_or_default())),
        schema => {
            output.forget_definitions();
            Ok(schema)
        }
    }
}

/// Logs need not be given where a server is.
pub(crate) fn without_logs(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|command| match command.get_name() {
        "stream" => {
            command.mut_arg("logs", |logs| logs.required(false).required_unless_present_any(NAMING_SERVER))
        }
        _ => command,
    })
}

impl Server {
    /// The server whose log is followed.
    fn source(&self, global: &Global) -> Result<Address, Failure> {
        self.connection.address(self.from.as_deref(), "--from", global)
    }

    fn server_id(&self) -> Result<u32, Failure> {
        if let Some(server_id) = self.server_id {
            return Ok(server_id);
        }
        let mut bytes = [0; 4];
        getrandom::fill(&mut bytes)
            .map_err(|error| Failure::NotBegun(anyhow!("no random number: {error}")))?;
        // Those that people give to their servers are small.
        Ok(u32::from_le_bytes(bytes) | 1 << 31)
    }
}

impl Stream {
    /// Who knows what columns are called that the log does not name.
    fn schema(&self, global: &Global) -> Result<Schema, Failure> {
        let has_source = !self.inputs.has_logs();
        match self.schema.as_deref() {
            Some("ddl") => Ok(Schema::Log(Definitions::default())),
            Some(server) => {
                let sharing = if has_source { Sharing::Account } else { Sharing::All };
                let main = &self.server.connection;
                let address = self.server.schema.address_beside(main, sharing, server, global)?;
                Ok(Schema::Server(Box::new(address)))
            }
            None if has_source => Ok(Schema::Server(Box::new(self.server.source(global)?))),
            None => Ok(Schema::Unknown),
        }
    }

    fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            envelope: match self.format {
                Form::Debezium => Envelope::Debezium,
                Form::Maxwell => Envelope::Maxwell,
            },
            filter: self.tables.filter()?,
            nameless: match self.columns {
                Columns::Named => Nameless::Refused,
                Columns::Numbered => Nameless::Numbered,
            },
            statements: if self.skip_statements { Statements::Skipped } else { Statements::Refused },
            queries: if self.queries { Queries::Told } else { Queries::Untold },
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}

impl GoesOn {
    /// Where records go, and where to go on.
    fn to(&self, envelope: Envelope) -> Result<(Output, Resume), Failure> {
        if let Some(folder) = &self.out {
            let files = Files::open(folder, self.file_size, envelope).context("could not go on with --out");
            let files = files.map_err(Failure::NotBegun)?;
            let resume = Resume { token: files.resume().cloned(), had: files.had().cloned() };
            return Ok((Output::new(To::Files(Box::new(files))), resume));
        }
        let mut kept = None;
        let lock = self.progress.as_ref().map(|path| lock_progress(path)).transpose();
        let lock = lock.context("could not keep how far records were written").map_err(Failure::NotBegun)?;
        let resume = match &self.progress {
            None => Resume { token: self.resume.clone(), had: None },
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => {
                    let saved = saved(&text);
                    let saved = saved.with_context(|| format!("could not go on from {}", path.display()));
                    let saved = saved.map_err(Failure::NotBegun)?;
                    kept = saved.kept;
                    Resume { token: Some(saved.token), had: saved.had }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Resume::default(),
                Err(error) => {
                    let error = anyhow!(error).context(format!("could not read {}", path.display()));
                    return Err(Failure::NotBegun(error));
                }
            },
        };
        let progress = self.progress.clone().zip(lock);
        let pipe =
            reader::stdout(progress.map(|(path, lock)| ProgressFile { path, lock, definitions: kept }));
        let pipe = pipe.context("could not write to standard output").map_err(Failure::NotBegun)?;
        Ok((Output::new(To::Pipe(Box::new(pipe))), resume))
    }
}
