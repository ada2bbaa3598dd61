//! Comparison of a target's rows with a server's.
//!
//! Two servers of the same flavour and release are compared by `CHECKSUM TABLE`. Its checksums depend on the release's
//! row format. Otherwise all rows are read and compared by a digest of their values: see [`Means`].

mod digest;
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tables;

use std::ops::ControlFlow;
#[cfg(feature = "sqlite")]
use std::path::Path;
use std::thread;

use binlog::gtid::GtidSet;
use servers::Address;

use crate::compare::digest::{Column, Readings, Sum};
use crate::compare::server::Server;
#[cfg(feature = "sqlite")]
use crate::compare::sqlite::Sqlite;
pub use crate::compare::tables::{Pair, tables};
use crate::definition::TableName;
use crate::error::{Error, Failure};

/// The target that is compared with a server.
#[derive(Clone, Copy, Debug)]
pub enum Target<'t> {
    /// A server.
    Server(&'t Address),
    /// A SQLite database that was a replay's target.
    #[cfg(feature = "sqlite")]
    Sqlite(&'t Path),
}

/// The method of comparing tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// `CHECKSUM TABLE … EXTENDED`: both servers have the same flavour and release.
    Checksum,
    /// The number of rows, and the sum of a hash of each row's values as text, in UTF-8 and UTC. All rows are sent to
    /// the client.
    Digest,
}

/// The result of comparing a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rows are equal.
    Equal,
    /// The rows or columns differ, as described.
    Differs(String),
    /// The target lacks the table.
    MissingOnTarget,
    /// The server lacks the table.
    MissingOnServer,
    /// Both lack the table: it was dropped or temporary, or it is a view.
    Gone,
}

/// A comparison of a server and a target. Each server is read in one consistent snapshot.
#[derive(Debug)]
pub struct Comparison {
    server: Server,
    target: Side,
    means: Means,
}

/// The target's reader.
#[derive(Debug)]
enum Side {
    Server(Box<Server>),
    #[cfg(feature = "sqlite")]
    Sqlite(Sqlite),
}

impl Comparison {
    /// Connects to the server and the target.
    ///
    /// # Errors
    ///
    /// The server or the target cannot be reached or read.
    pub fn open(server: &Address, target: Target<'_>) -> Result<Self, Error> {
        let opened = || -> Result<Self, Failure> {
            let server = Server::open(server)?;
            let target = match target {
                Target::Server(address) => Side::Server(Box::new(Server::open(address)?)),
                #[cfg(feature = "sqlite")]
                Target::Sqlite(path) => Side::Sqlite(Sqlite::open(path)?),
            };
            let means = match &target {
                Side::Server(target) if target.release() == server.release() => Means::Checksum,
                _ => Means::Digest,
            };
            Ok(Self { server, target, means })
        };
        opened().map_err(|failure| failure.at("open the server and the target"))
    }

    /// Returns the method of comparing tables.
    pub const fn means(&self) -> Means {
        self.means
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
        pair: &Pair,
        go_on: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Verdict, Error> {
        let verdict = self.verdict(pair, go_on).map_err(|failure| failure.at("compare a table"))?;
        if go_on().is_break() { Err(Error::Interrupted) } else { Ok(verdict) }
    }

    fn verdict(
        &mut self,
        pair: &Pair,
        go_on: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Verdict, Failure> {
        let theirs = self.server.columns(&pair.source)?;
        let ours = self.target.columns(&pair.target)?;
        match (theirs.is_empty(), ours.is_empty()) {
            (true, true) => return Ok(Verdict::Gone),
            (true, false) => return Ok(Verdict::MissingOnServer),
            (false, true) => return Ok(Verdict::MissingOnTarget),
            (false, false) => {}
        }
        let Some(readings) = Readings::of(&theirs, &ours) else {
            let names = |columns: &[Column]| {
                columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
            };
            return Ok(Verdict::Differs(format!(
                "the server has the columns {}, but the target {}",
                names(&theirs),
                names(&ours)
            )));
        };
        let (theirs, ours) = match (self.means, &mut self.target) {
            (Means::Checksum, Side::Server(target)) => {
                let server = &mut self.server;
                both(|| server.checksum(&pair.source), || target.checksum(&pair.target))?
            }
            (_, target) => {
                let (server, readings) = (&mut self.server, &readings);
                both(
                    || server.sum(&pair.source, &readings.of_server(), go_on).map(|sum| sum.to_string()),
                    || target.sum(&pair.target, &readings.of_target(), go_on).map(|sum| sum.to_string()),
                )?
            }
        };
        Ok(match theirs == ours {
            true => Verdict::Equal,
            false => Verdict::Differs(format!("the server has {theirs}, but the target {ours}")),
        })
    }
}

impl Side {
    fn columns(&mut self, table: &TableName) -> Result<Vec<Column>, Failure> {
        match self {
            Self::Server(server) => server.columns(table),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.columns(table),
        }
    }

    fn sum(
        &mut self,
        table: &TableName,
        readings: &[digest::Reading<'_>],
        go_on: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Sum, Failure> {
        match self {
            Self::Server(server) => server.sum(table, readings, go_on),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.sum(table, readings, go_on),
        }
    }
}

/// Runs two queries in parallel, mostly on different machines.
fn both<T: Send>(
    theirs: impl FnOnce() -> Result<T, Failure> + Send,
    ours: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<(T, T), Failure> {
    thread::scope(|scope| {
        let asked = scope.spawn(theirs);
        let ours = ours();
        let theirs = asked.join().map_err(|_| Failure::refused("a thread of the comparison panicked"))?;
        Ok((theirs?, ours?))
    })
}
