//! Comparison of a target's rows with a server's.
//!
//! Two servers of the same flavour and release, except MySQL before 8.0, are compared by `CHECKSUM TABLE`. Its checksums depend on the release's
//! row format. Otherwise all rows are read and compared by a digest of their values: see [`ComparisonMethod`].

mod rows_digest;
mod server_reader;
#[cfg(feature = "sqlite")]
mod sqlite_reader;

use std::ops::ControlFlow;
#[cfg(feature = "sqlite")]
use std::path::Path;
use std::thread;

use binlog::gtid::GtidSet;
use servers::ServerAddress;

use crate::compare::rows_digest::{ColumnPairs, ComparedColumn, RowsDigest};
use crate::compare::server_reader::ServerReader;
#[cfg(feature = "sqlite")]
use crate::compare::sqlite_reader::SqliteReader;
use crate::error::{ReplayError, TargetFailure};
pub use crate::table_pair::{TablePair, collect_tables};
use crate::target_table::TargetTableName;

/// The target that is compared with a server.
#[derive(Clone, Copy, Debug)]
pub enum ComparisonTarget<'t> {
    /// A server.
    Server(&'t ServerAddress),
    /// A SQLite database that was a replay's target.
    #[cfg(feature = "sqlite")]
    Sqlite(&'t Path),
}

/// The method of comparing tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonMethod {
    /// `CHECKSUM TABLE … EXTENDED`: both servers have the same flavour and release, and are not MySQL before 8.0.
    Checksum,
    /// The number of rows, and the sum of a hash of each row's values as text, in UTF-8 and UTC. All rows are sent to
    /// the client.
    Digest,
}

/// The result of comparing a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableVerdict {
    /// The rows are equal.
    Equal,
    /// The rows or columns differ, as described.
    Differs(String),
    /// The target lacks the table.
    MissingOnTarget,
    /// The server lacks the table.
    MissingOnServer,
    /// Both lack the table: it was dropped or temporary, or it is a view.
    MissingOnBoth,
}

/// A comparison of a server and a target. Each server is read in one consistent snapshot.
#[derive(Debug)]
pub struct TargetComparison {
    server: ServerReader,
    target: TargetReader,
    method: ComparisonMethod,
}

/// The target's reader.
#[derive(Debug)]
enum TargetReader {
    Server(Box<ServerReader>),
    #[cfg(feature = "sqlite")]
    Sqlite(Box<SqliteReader>),
}

impl TargetComparison {
    /// Connects to the server and the target.
    ///
    /// # Errors
    ///
    /// The server or the target cannot be reached or read.
    pub fn open(server: &ServerAddress, target: ComparisonTarget<'_>) -> Result<Self, ReplayError> {
        let opened = || -> Result<Self, TargetFailure> {
            let server = ServerReader::open(server)?;
            let target = match target {
                ComparisonTarget::Server(address) => {
                    TargetReader::Server(Box::new(ServerReader::open(address)?))
                }
                #[cfg(feature = "sqlite")]
                ComparisonTarget::Sqlite(path) => TargetReader::Sqlite(Box::new(SqliteReader::open(path)?)),
            };
            let means = match &target {
                TargetReader::Server(target)
                    if target.release() == server.release() && !server.has_old_documents() =>
                {
                    ComparisonMethod::Checksum
                }
                _ => ComparisonMethod::Digest,
            };
            Ok(Self { server, target, method: means })
        };
        opened().map_err(|failure| failure.into_error("open the server and the target"))
    }

    /// Returns the method of comparing tables.
    pub const fn method(&self) -> ComparisonMethod {
        self.method
    }

    /// Returns the GTIDs that the server has executed and `applied` lacks.
    pub fn executed_besides(&self, applied: &GtidSet) -> GtidSet {
        self.server.executed().difference(applied)
    }

    /// Compares a table. `go_on` is called at intervals, and can stop the comparison.
    ///
    /// # Errors
    ///
    /// The server or the target does not answer, or `go_on` stops the comparison.
    pub fn compare(
        &mut self,
        pair: &TablePair,
        go_on: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<TableVerdict, ReplayError> {
        let verdict =
            self.compare_pair(pair, go_on).map_err(|failure| failure.into_error("compare a table"))?;
        if go_on().is_break() { Err(ReplayError::Interrupted) } else { Ok(verdict) }
    }

    fn compare_pair(
        &mut self,
        pair: &TablePair,
        go_on: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<TableVerdict, TargetFailure> {
        let theirs = self.server.columns(&pair.source)?;
        let ours = self.target.columns(&pair.target)?;
        match (theirs.is_empty(), ours.is_empty()) {
            (true, true) => return Ok(TableVerdict::MissingOnBoth),
            (true, false) => return Ok(TableVerdict::MissingOnServer),
            (false, true) => return Ok(TableVerdict::MissingOnTarget),
            (false, false) => {}
        }
        let Some(readings) = ColumnPairs::of(&theirs, &ours) else {
            let names = |columns: &[ComparedColumn]| {
                columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
            };
            return Ok(TableVerdict::Differs(format!(
                "the server has the columns {}, but the target {}",
                names(&theirs),
                names(&ours)
            )));
        };
        let (theirs, ours) = match (self.method, &mut self.target) {
            (ComparisonMethod::Checksum, TargetReader::Server(target)) => {
                let server = &mut self.server;
                run_both(|| server.checksum(&pair.source), || target.checksum(&pair.target))?
            }
            (_, target) => {
                let (server, readings) = (&mut self.server, &readings);
                run_both(
                    || server.sum(&pair.source, &readings.of_server(), go_on).map(|sum| sum.to_string()),
                    || target.sum(&pair.target, &readings.of_target(), go_on).map(|sum| sum.to_string()),
                )?
            }
        };
        Ok(match theirs == ours {
            true => TableVerdict::Equal,
            false => TableVerdict::Differs(format!("the server has {theirs}, but the target {ours}")),
        })
    }
}

impl TargetReader {
    fn columns(&mut self, table: &TargetTableName) -> Result<Vec<ComparedColumn>, TargetFailure> {
        match self {
            Self::Server(server) => server.columns(table),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.columns(table),
        }
    }

    fn sum(
        &mut self,
        table: &TargetTableName,
        readings: &[rows_digest::ColumnReading<'_>],
        go_on: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<RowsDigest, TargetFailure> {
        match self {
            Self::Server(server) => server.sum(table, readings, go_on),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.sum(table, readings, go_on),
        }
    }
}

/// Runs two queries in parallel, mostly on different machines.
fn run_both<T: Send>(
    theirs: impl FnOnce() -> Result<T, TargetFailure> + Send,
    ours: impl FnOnce() -> Result<T, TargetFailure> + Send,
) -> Result<(T, T), TargetFailure> {
    thread::scope(|scope| {
        let asked = scope.spawn(theirs);
        let ours = ours();
        let theirs =
            asked.join().map_err(|_| TargetFailure::refused("a thread of the comparison panicked"))?;
        Ok((theirs?, ours?))
    })
}
