//! The session that applies transactions to a SQLite database.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use binlog::Format;
use rusqlite::{Connection, params};

use crate::context::Context;
use crate::error::Failure;
use crate::progress::{Intent, Progress};
use crate::sqlite::catalogue::Catalogue;
use crate::sqlite::define::Bench;
use crate::sqlite::remarks::Remarks;
use crate::sqlite::rows::RowWriter;
use crate::target::Session;
use crate::work::{RowEvents, Statement};

/// ER_BAD_TABLE_ERROR: a DROP TABLE of several tables dropped those that existed.
const UNKNOWN_TABLE: u16 = 1051;

pub(super) struct SqliteSession {
    connection: Connection,
    catalogue: Catalogue,
    rows: RowWriter,
    /// Remarks of the open transaction.
    remarks: Remarks,
    all_remarks: Arc<Mutex<Remarks>>,
    /// Number of this replay on the database.
    run: i64,
    is_flushed: bool,
}

impl SqliteSession {
    pub(super) fn new(
        connection: Connection,
        run: i64,
        all_remarks: Arc<Mutex<Remarks>>,
    ) -> Result<Self, Failure> {
        let catalogue = Catalogue::load(&connection)?;
        let (rows, remarks) = (RowWriter::default(), Remarks::default());
        Ok(Self { connection, catalogue, rows, remarks, all_remarks, run, is_flushed: false })
    }

    fn bench(&mut self) -> (Bench<'_>, &mut RowWriter) {
        let Self { connection, catalogue, remarks, rows, .. } = self;
        (Bench { connection, catalogue, remarks }, rows)
    }
}

/// A session that adds the database's path to errors that the disk may have caused.
pub(super) struct NamedSession {
    pub(super) session: SqliteSession,
    pub(super) path: PathBuf,
}

impl NamedSession {
    fn named(&mut self, work: impl FnOnce(&mut SqliteSession) -> Result<(), Failure>) -> Result<(), Failure> {
        work(&mut self.session).map_err(|failure| named(failure, &self.path))
    }
}

/// Adds the database's path to an error that the disk may have caused.
pub(super) fn named(failure: Failure, path: &Path) -> Failure {
    // SQLite's READONLY, IOERR, CORRUPT, FULL, CANTOPEN and NOTADB. MySQL's error codes are above 1000.
    match failure.code {
        Some(8 | 10 | 11 | 13 | 14 | 26) => {
            Failure { message: format!("{}: {}", path.display(), failure.message), ..failure }
        }
        _ => failure,
    }
}

impl Session for NamedSession {
    fn begin(&mut self) -> Result<(), Failure> {
        self.named(SqliteSession::begin)
    }

    fn announce(&mut self, intent: Intent, format: Option<&Arc<Format>>) -> Result<(), Failure> {
        self.named(|session| session.announce(intent, format))
    }

    fn rows(&mut self, context: &Context, rows: &RowEvents) -> Result<(), Failure> {
        self.named(|session| session.rows(context, rows))
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Failure> {
        self.named(|session| session.statement(statement))
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.named(SqliteSession::flush)
    }

    fn commit(&mut self, progress: &Progress, placed: &mut dyn FnMut()) -> Result<(), Failure> {
        self.named(|session| session.commit(progress, placed))
    }

    fn rollback(&mut self) -> Result<(), Failure> {
        self.named(SqliteSession::rollback)
    }
}

impl Session for SqliteSession {
    fn begin(&mut self) -> Result<(), Failure> {
        self.rows.touched_others = false;
        self.is_flushed = false;
        Ok(self.connection.execute_batch("BEGIN IMMEDIATE")?)
    }

    // SQLite's DDL is transactional: nothing commits implicitly, so nothing needs an intent.
    fn announce(&mut self, _: Intent, _: Option<&Arc<Format>>) -> Result<(), Failure> {
        self.begin()
    }

    fn rows(&mut self, _: &Context, rows: &RowEvents) -> Result<(), Failure> {
        let (mut bench, writer) = self.bench();
        writer.write(&mut bench, rows)
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Failure> {
        if !matches!(statement.error_code, 0 | UNKNOWN_TABLE) {
            return Err(Failure::refused(format!(
                "a statement failed with error {} on the source: only a MySQL server can repeat its partial effect",
                statement.error_code
            )));
        }
        let (mut bench, writer) = self.bench();
        writer.forget();
        bench.carry_out(statement)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.is_flushed = true;
        Ok(())
    }

    fn commit(&mut self, progress: &Progress, placed: &mut dyn FnMut()) -> Result<(), Failure> {
        if self.connection.is_autocommit() {
            self.begin()?;
        }
        let (log, position) = match &progress.place {
            Some(place) => (Some(&place.log), Some(place.position.cast_signed())),
            None => (None, None),
        };
        let beyond: String =
            progress.beyond.iter().map(|place| format!("{} {}\n", place.position, place.log)).collect();
        let sql = "UPDATE \"bintide.progress\" SET \"gtids\" = ?1, \"log\" = ?2, \"position\" = ?3, \
                   \"beyond\" = ?4 WHERE \"stream\" = 1 AND \"run\" = ?5";
        let gtids = progress.gtids.to_string();
        let saved =
            self.connection.prepare_cached(sql)?.execute(params![gtids, log, position, beyond, self.run])?;
        if saved != 1 {
            return Err(Failure::refused("another replay has taken over this database"));
        }
        self.connection.execute_batch("COMMIT")?;
        placed();
        let mut all = self.all_remarks.lock().unwrap_or_else(PoisonError::into_inner);
        all.take(&mut self.remarks);
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Failure> {
        self.remarks = Remarks::default();
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        self.rows.forget();
        self.catalogue = Catalogue::load(&self.connection)?;
        // The source rolled back the whole transaction, except the changes of engines without transactions.
        if self.is_flushed && self.rows.touched_others {
            return Err(Failure::refused(
                "the source rolled back a transaction that had changed non-transactional tables (MyISAM, for example): \
                 the log does not show which changes remain",
            ));
        }
        Ok(())
    }
}
