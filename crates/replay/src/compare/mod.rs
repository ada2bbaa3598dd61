//! Comparison of a target's rows with a server's.
//!
//! `CHECKSUM TABLE` compares two servers of the same flavour and release, except MySQL before 8.0: checksums depend on
//! the release's row format. In all other cases, a digest of all rows' values compares the sides: see
//! [`ComparisonMethod`]. The digest also decides for a table whose checksum does not depend only on its rows.

mod comparison_reader;
mod rows_digest;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::thread;

use sql::ReplicationFilter;

pub use crate::compare::comparison_reader::ComparisonReader;
use crate::compare::rows_digest::ColumnPairs;
pub use crate::compare::rows_digest::{
    ColumnReading, ComparedColumn, ComparisonForm, NUMBER_ONLY, RowText, RowsDigest, SHORT_DOCUMENT,
};
use crate::replay_error::{ReplayError, TargetFailure, TargetFailureKind};
pub use crate::table_pair::{LogTables, TablePair, collect_tables};

/// The method of comparing tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonMethod {
    /// `CHECKSUM TABLE … EXTENDED`. Needs two servers of the same flavour and release, not MySQL before 8.0.
    Checksum,
    /// The number of rows, and the sum of one hash per row. The hash is of the row's values as text, in UTF-8 and UTC.
    /// Servers send all rows to this client.
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
    /// The server or the target cannot compare the table, for this reason.
    Failed(String),
    /// Both lack the table: it was dropped or temporary, or it is a view.
    MissingOnBoth,
}

/// A comparison of a server and a target. Each server is read in one consistent snapshot.
#[derive(Debug)]
pub struct TargetComparison {
    server: Box<dyn ComparisonReader>,
    target: Box<dyn ComparisonReader>,
    method: ComparisonMethod,
}

impl TargetComparison {
    /// Creates a comparison of a server and a target.
    pub fn new(server: Box<dyn ComparisonReader>, target: Box<dyn ComparisonReader>) -> Self {
        let release = server.checksum_release();
        let has_same_checksums = release.is_some() && release == target.checksum_release();
        let method = if has_same_checksums { ComparisonMethod::Checksum } else { ComparisonMethod::Digest };
        Self { server, target, method }
    }

    /// Returns the method of comparing tables.
    pub const fn method(&self) -> ComparisonMethod {
        self.method
    }

    /// Returns the tables named in the logs. Also returns all tables of each database in which statements changed rows.
    ///
    /// # Errors
    ///
    /// Fails if the server or the target does not answer.
    pub fn tables(
        &mut self,
        mut found: LogTables,
        filter: &ReplicationFilter,
    ) -> Result<BTreeSet<TablePair>, ReplayError> {
        for database in std::mem::take(&mut found.databases) {
            let on_target = filter.target_database(&database);
            let theirs = self.server.tables(&database);
            let names = theirs.and_then(|theirs| Ok((theirs, self.target.tables(on_target)?)));
            let (theirs, ours) =
                names.map_err(|failure| failure.into_error("list the tables of a database"))?;
            theirs.iter().chain(&ours).for_each(|table| found.add(filter, &database, table));
        }
        Ok(found.pairs)
    }

    /// Compares a table. Calls `may_continue` at intervals, which can stop the comparison.
    ///
    /// # Errors
    ///
    /// Fails if a connection is lost, or `may_continue` stops the comparison.
    pub fn compare(
        &mut self,
        pair: &TablePair,
        may_continue: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<TableVerdict, ReplayError> {
        let verdict = match self.compare_pair(pair, may_continue) {
            // The connection is intact: other tables can be compared.
            Err(TargetFailure {
                kind: TargetFailureKind::Refused | TargetFailureKind::Environment,
                message,
                ..
            }) => TableVerdict::Failed(message),
            compared => compared.map_err(|failure| failure.into_error("compare a table"))?,
        };
        if may_continue().is_break() { Err(ReplayError::Interrupted) } else { Ok(verdict) }
    }

    fn compare_pair(
        &mut self,
        pair: &TablePair,
        may_continue: &(dyn Fn() -> ControlFlow<()> + Sync),
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
        let sums = match self.method {
            ComparisonMethod::Checksum => self.checksums(pair)?,
            ComparisonMethod::Digest => None,
        };
        let (theirs, ours) = match sums {
            Some(sums) => sums,
            None => self.digests(pair, &readings, may_continue)?,
        };
        Ok(match theirs == ours {
            true => TableVerdict::Equal,
            false => TableVerdict::Differs(format!("the server has {theirs}, but the target {ours}")),
        })
    }

    /// Returns the checksums of both sides; `None` if they differ, but not only because of different rows.
    fn checksums(&mut self, pair: &TablePair) -> Result<Option<(String, String)>, TargetFailure> {
        let (server, target) = (&mut *self.server, &mut *self.target);
        let (theirs, ours) = run_both(|| server.checksum(&pair.source), || target.checksum(&pair.target))?;
        let is_reliable = theirs == ours
            || server.has_stable_checksum(&pair.source)? && target.has_stable_checksum(&pair.target)?;
        Ok(is_reliable.then_some((theirs, ours)))
    }

    /// Returns the digests of both sides, as text.
    fn digests(
        &mut self,
        pair: &TablePair,
        readings: &ColumnPairs<'_>,
        may_continue: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<(String, String), TargetFailure> {
        let (server, target) = (&mut *self.server, &mut *self.target);
        let (of_server, of_target) = (readings.of_server(), readings.of_target());
        let (theirs, ours) = run_both(
            || server.digest(&pair.source, &of_server, may_continue),
            || target.digest(&pair.target, &of_target, may_continue),
        )?;
        Ok((theirs.to_string(), ours.to_string()))
    }
}

/// Runs two queries in parallel: the sides are mostly on different machines.
fn run_both<T: Send>(
    theirs: impl FnOnce() -> Result<T, TargetFailure> + Send,
    ours: impl FnOnce() -> Result<T, TargetFailure> + Send,
) -> Result<(T, T), TargetFailure> {
    thread::scope(|scope| {
        let their_thread = scope.spawn(theirs);
        let ours = ours();
        let theirs =
            their_thread.join().map_err(|_| TargetFailure::refused("a thread of the comparison panicked"))?;
        Ok((theirs?, ours?))
    })
}
