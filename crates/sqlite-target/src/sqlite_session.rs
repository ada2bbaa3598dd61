//! The session that applies transactions to a SQLite database.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use binlog::EventFormat;
use replay::{
    ReplayProgress, RowEvents, SessionVariables, SourceRange, SourceStatement, StatementIntent,
    TargetFailure, TargetSession,
};
use rusqlite::{Connection, params};

use crate::row_writer::RowWriter;
use crate::schema_editor::SchemaEditor;
use crate::sqlite_failure::sqlite_failure;
use crate::sqlite_remarks::SqliteRemarks;
use crate::table_catalogue::TableCatalogue;

/// ER_BAD_TABLE_ERROR: a DROP TABLE of several tables dropped the existing ones.
const UNKNOWN_TABLE: u16 = 1051;

pub(crate) struct SqliteSession {
    connection: Connection,
    catalogue: TableCatalogue,
    rows: RowWriter,
    /// Remarks of the open transaction.
    remarks: SqliteRemarks,
    all_remarks: Arc<Mutex<SqliteRemarks>>,
    /// Number of this replay of the database.
    run_number: i64,
    is_flushed: bool,
}

impl SqliteSession {
    pub(crate) fn new(
        connection: Connection,
        run: i64,
        all_remarks: Arc<Mutex<SqliteRemarks>>,
    ) -> Result<Self, TargetFailure> {
        let catalogue = TableCatalogue::load(&connection)?;
        let (rows, remarks) = (RowWriter::default(), SqliteRemarks::default());
        Ok(Self { connection, catalogue, rows, remarks, all_remarks, run_number: run, is_flushed: false })
    }

    fn editor(&mut self) -> (SchemaEditor<'_>, &mut RowWriter) {
        let Self { connection, catalogue, remarks, rows, .. } = self;
        (SchemaEditor { connection, catalogue, remarks }, rows)
    }
}

/// A session that adds the database's path to errors that the disk may have caused.
pub(crate) struct PathReportingSession {
    pub(crate) session: SqliteSession,
    pub(crate) path: PathBuf,
}

impl PathReportingSession {
    fn run_with_path(
        &mut self,
        work: impl FnOnce(&mut SqliteSession) -> Result<(), TargetFailure>,
    ) -> Result<(), TargetFailure> {
        work(&mut self.session).map_err(|failure| with_path(failure, &self.path))
    }
}

/// Adds the database's path to an error that the disk may have caused.
pub(crate) fn with_path(failure: TargetFailure, path: &Path) -> TargetFailure {
    // SQLite's READONLY, IOERR, CORRUPT, FULL, CANTOPEN and NOTADB. MySQL's error codes are above 1000.
    match failure.code {
        Some(14) if is_without_directory(path) => {
            let message = format!("the directory of {} does not exist", path.display());
            TargetFailure { message, ..failure }
        }
        Some(8 | 10 | 11 | 13 | 14 | 26) => {
            TargetFailure { message: format!("{}: {}", path.display(), failure.message), ..failure }
        }
        _ => failure,
    }
}

fn is_without_directory(path: &Path) -> bool {
    path.parent().is_some_and(|parent| !parent.as_os_str().is_empty() && !parent.exists())
}

impl TargetSession for PathReportingSession {
    fn begin(&mut self) -> Result<(), TargetFailure> {
        self.run_with_path(SqliteSession::begin)
    }

    fn announce(
        &mut self,
        intent: StatementIntent,
        format: Option<&Arc<EventFormat>>,
    ) -> Result<(), TargetFailure> {
        self.run_with_path(|session| session.announce(intent, format))
    }

    fn apply_rows(&mut self, context: &SessionVariables, rows: &RowEvents) -> Result<(), TargetFailure> {
        self.run_with_path(|session| session.apply_rows(context, rows))
    }

    fn run_statement(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        self.run_with_path(|session| session.run_statement(statement))
    }

    fn flush(&mut self) -> Result<(), TargetFailure> {
        self.run_with_path(SqliteSession::flush)
    }

    fn commit(
        &mut self,
        progress: &ReplayProgress,
        on_ordered: &mut dyn FnMut(),
    ) -> Result<(), TargetFailure> {
        self.run_with_path(|session| session.commit(progress, on_ordered))
    }

    fn rollback(&mut self) -> Result<(), TargetFailure> {
        self.run_with_path(SqliteSession::rollback)
    }
}

impl TargetSession for SqliteSession {
    fn begin(&mut self) -> Result<(), TargetFailure> {
        self.rows.touched_nontransactional = false;
        self.is_flushed = false;
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(sqlite_failure)
    }

    // SQLite's DDL is transactional: nothing commits implicitly, so nothing needs an intent.
    fn announce(&mut self, _: StatementIntent, _: Option<&Arc<EventFormat>>) -> Result<(), TargetFailure> {
        self.begin()
    }

    fn apply_rows(&mut self, _: &SessionVariables, rows: &RowEvents) -> Result<(), TargetFailure> {
        let (mut editor, writer) = self.editor();
        writer.write(&mut editor, rows)
    }

    fn run_statement(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        statement.outcome().check_complete()?;
        if !matches!(statement.error_code, 0 | UNKNOWN_TABLE) {
            return Err(TargetFailure::refused(format!(
                "a statement failed with error {} on the source: only a MySQL server can repeat its partial effect",
                statement.error_code
            )));
        }
        let (mut editor, writer) = self.editor();
        writer.forget();
        editor.execute(statement)
    }

    fn flush(&mut self) -> Result<(), TargetFailure> {
        self.is_flushed = true;
        Ok(())
    }

    fn commit(
        &mut self,
        progress: &ReplayProgress,
        on_ordered: &mut dyn FnMut(),
    ) -> Result<(), TargetFailure> {
        if self.connection.is_autocommit() {
            self.begin()?;
        }
        let (log, position) = match &progress.position {
            Some(end) => (Some(&end.log), Some(end.position.cast_signed())),
            None => (None, None),
        };
        let line = |range: &SourceRange| format!("{} {}\n", range.starts(), range.log);
        let beyond: String = progress.beyond.iter().map(line).collect();
        let sql = "UPDATE \"bintide.progress\" SET \"gtids\" = ?1, \"log\" = ?2, \"position\" = ?3, \
                   \"beyond\" = ?4 WHERE \"stream\" = 1 AND \"run\" = ?5";
        let gtids = progress.gtids.to_string();
        let saved = self
            .connection
            .prepare_cached(sql)
            .map_err(sqlite_failure)?
            .execute(params![gtids, log, position, beyond, self.run_number])
            .map_err(sqlite_failure)?;
        if saved != 1 {
            return Err(TargetFailure::refused("another replay has taken over this database"));
        }
        self.connection.execute_batch("COMMIT").map_err(sqlite_failure)?;
        assert!(self.connection.is_autocommit(), "ours: progress and changes are in one transaction");
        on_ordered();
        let mut all = self.all_remarks.lock().unwrap_or_else(PoisonError::into_inner);
        all.absorb(&mut self.remarks);
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), TargetFailure> {
        self.remarks = SqliteRemarks::default();
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK").map_err(sqlite_failure)?;
        }
        self.rows.forget();
        self.catalogue = TableCatalogue::load(&self.connection)?;
        // The source rolled back the whole transaction, except the changes of engines without transactions.
        if self.is_flushed && self.rows.touched_nontransactional {
            return Err(TargetFailure::refused(
                "the source rolled back a transaction that had changed nontransactional tables (MyISAM, for example): \
                 the log does not show which changes remain",
            ));
        }
        Ok(())
    }
}
