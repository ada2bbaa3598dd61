//! A SQLite database as a target.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use binlog::gtid::GtidSet;
use replay::compare::{ComparedColumn, NUMBER_ONLY};
use replay::{
    AppliedState, IntentOutcome, ReplayError, ReplayProgress, ReplayTarget, RollbackTraces, SourcePosition,
    SourceRange, StatementIntent, TargetFailure, TargetSession, TargetTableDefinition,
};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::file_reading::read_file;
use crate::mysql_type::{MysqlType, StrictType};
use crate::sqlite_failure::sqlite_failure;
use crate::sqlite_remarks::SqliteRemarks;
use crate::sqlite_session::{PathReportingSession, SqliteSession, with_path};
use crate::table_catalogue::{CREATE_CATALOGUE_TABLE, TableCatalogue};

/// Timeout for other writers of the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of cached prepared statements.
const PREPARED_STATEMENTS_MAX: usize = 512;

/// Connection settings. Readers see whole transactions while this crate writes the next transaction. A commit is on
/// disk when the call returns. This crate itself executes foreign keys, if the log requires it.
const CONNECTION_PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; \
     PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 4000; PRAGMA recursive_triggers = OFF";

const CREATE_PROGRESS: &str = "CREATE TABLE IF NOT EXISTS \"bintide.progress\" (\"stream\" INTEGER PRIMARY KEY, \
     \"gtids\" TEXT NOT NULL DEFAULT '', \"log\" TEXT, \"position\" INTEGER, \"beyond\" TEXT NOT NULL DEFAULT '', \
     \"run\" INTEGER NOT NULL DEFAULT 0) STRICT";

/// SQLITE_READONLY: the database cannot be written.
const SQLITE_READONLY: u16 = 8;

/// A SQLite database as the target of transactions.
#[derive(Debug)]
pub struct SqliteTarget {
    path: PathBuf,
    control: Mutex<Connection>,
    /// Number of this replay of the database. After a later replay takes over, this replay can no longer commit.
    run_number: i64,
    remarks: Arc<Mutex<SqliteRemarks>>,
}

impl SqliteTarget {
    /// Opens or creates the database, and takes it over from any earlier replay.
    ///
    /// # Errors
    ///
    /// Fails if the database cannot be opened or written, or holds tables of another application.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let (control, run) = prepare(path)
            .map_err(|failure| with_path(failure, path).into_error("open the SQLite database"))?;
        Ok(Self {
            path: path.to_owned(),
            control: Mutex::new(control),
            run_number: run,
            remarks: Arc::default(),
        })
    }

    /// Reads the transactions applied to a database, without changing it; `None` if there is no file, or if the file
    /// has no progress.
    ///
    /// # Errors
    ///
    /// Fails if the database cannot be read, or holds tables of another application.
    pub fn read_applied(path: &Path) -> Result<Option<AppliedState>, ReplayError> {
        let look = |file: &Connection| -> Result<Option<AppliedState>, TargetFailure> {
            check_ownership(file)?;
            let is_empty = "SELECT NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'bintide.progress')";
            if file.query_row(is_empty, [], |row| row.get(0)).map_err(sqlite_failure)? {
                return Ok(None);
            }
            Ok(Some(AppliedState { progress: read_progress_of(file)?, ..AppliedState::default() }))
        };
        if !path.exists() {
            return Ok(None);
        }
        if path.is_dir() {
            let message = format!("{} is a directory; expected a file", path.display());
            return Err(TargetFailure::refused(message).into_error("read the SQLite database"));
        }
        let looked = match read_file(path, &look) {
            // A crash left a journal, which SQLite must first write back.
            Err(TargetFailure { code: Some(SQLITE_READONLY), .. }) => {
                let file = Connection::open_with_flags(plain_name(path), OpenFlags::SQLITE_OPEN_READ_WRITE);
                file.map_err(sqlite_failure).and_then(|file| look(&file))
            }
            looked => looked,
        };
        looked.map_err(|failure| with_path(failure, path).into_error("read the SQLite database"))
    }

    /// Returns the differences from a server so far.
    pub fn remarks(&self) -> SqliteRemarks {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn control(&self) -> MutexGuard<'_, Connection> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> Result<ReplayProgress, TargetFailure> {
        read_progress_of(&self.control())
    }
}

/// A table in a SQLite database.
#[derive(Debug)]
pub(crate) struct StoredTable {
    /// Database and name on the source.
    pub(crate) source: (String, String),
    /// Name in SQLite.
    pub(crate) name: String,
    pub(crate) columns: Vec<ComparedColumn>,
}

/// Returns the tables of a database that was a target.
pub(crate) fn read_stored_tables(connection: &Connection) -> Result<Vec<StoredTable>, TargetFailure> {
    check_ownership(connection)?;
    let data_type = |kind: &MysqlType| match kind {
        // The texts of the ENUM or SET are unknown.
        MysqlType::Enum { .. } | MysqlType::Set { .. } if kind.strict_type() != StrictType::Text => {
            NUMBER_ONLY
        }
        _ => "",
    };
    let tables = TableCatalogue::load(connection)?.into_tables().map(|(source, table)| {
        let columns = table.columns.iter().map(|column| ComparedColumn {
            name: column.name.clone(),
            data_type: data_type(&column.kind).to_owned(),
        });
        StoredTable { source, columns: columns.collect(), name: table.name }
    });
    Ok(tables.collect())
}

pub(crate) fn read_progress_of(connection: &Connection) -> Result<ReplayProgress, TargetFailure> {
    let sql =
        "SELECT \"gtids\", \"log\", \"position\", \"beyond\" FROM \"bintide.progress\" WHERE \"stream\" = 1";
    let row = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
    read_progress(row.map_err(sqlite_failure)?)
}

/// Opens the file of this name. SQLite itself would take `file:…` for a URI, and `:memory:` for no file.
fn open_file(path: &Path) -> Result<Connection, TargetFailure> {
    let flags = OpenFlags::default() & !OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(plain_name(path), flags).map_err(sqlite_failure)
}

/// Returns the path in a form that SQLite takes for nothing but a file.
pub(crate) fn plain_name(path: &Path) -> Cow<'_, Path> {
    match path.as_os_str().as_encoded_bytes().first() {
        Some(b':') => Cow::Owned(Path::new(".").join(path)),
        _ => Cow::Borrowed(path),
    }
}

fn connect(path: &Path) -> Result<Connection, TargetFailure> {
    let connection = open_file(path)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sqlite_failure)?;
    connection.set_prepared_statement_cache_capacity(PREPARED_STATEMENTS_MAX);
    connection.execute_batch(CONNECTION_PRAGMAS).map_err(sqlite_failure)?;
    Ok(connection)
}

/// Creates the file with mode 0640, because it contains table data. SQLite would make the file readable for all users.
/// SQLite's other files inherit this mode.
fn make_private(path: &Path) {
    if !path.exists() {
        // If this fails, SQLite reports the reason.
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o640).open(path);
    }
}

fn prepare(path: &Path) -> Result<(Connection, i64), TargetFailure> {
    make_private(path);
    // Check this first: a database of another application must stay unchanged, including its journal mode.
    check_ownership(&open_file(path)?)?;
    let connection = connect(path)?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(sqlite_failure)?;
    connection.execute_batch(CREATE_PROGRESS).map_err(sqlite_failure)?;
    connection.execute_batch(CREATE_CATALOGUE_TABLE).map_err(sqlite_failure)?;
    let take_over = "INSERT INTO \"bintide.progress\" (\"stream\", \"run\") VALUES (1, 1) \
                     ON CONFLICT DO UPDATE SET \"run\" = \"run\" + 1 RETURNING \"run\"";
    let run = connection.query_row(take_over, [], |row| row.get(0)).map_err(sqlite_failure)?;
    connection.execute_batch("COMMIT").map_err(sqlite_failure)?;
    Ok((connection, run))
}

/// Checks that the database is empty or a replay's target.
pub(crate) fn check_ownership(connection: &Connection) -> Result<(), TargetFailure> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND NOT EXISTS \
                    (SELECT 1 FROM sqlite_master WHERE name = 'bintide.progress') LIMIT 1";
    let foreign: Option<String> =
        connection.query_row(sql, [], |row| row.get(0)).optional().map_err(sqlite_failure)?;
    if let Some(table) = foreign {
        return Err(TargetFailure::refused(format!(
            "the database contains the table {table}, but no replay progress. Give a file that does not exist yet"
        )));
    }
    Ok(())
}

type ProgressRow = (String, Option<String>, Option<i64>, String);

fn read_progress((gtids, log, position, beyond): ProgressRow) -> Result<ReplayProgress, TargetFailure> {
    let malformed =
        |what: &str| TargetFailure::refused(format!("bintide.progress contains an invalid position: {what}"));
    let gtids: GtidSet = gtids.parse().map_err(|_| malformed(&gtids))?;
    let position =
        log.zip(position).map(|(log, position)| SourcePosition { log, position: position.cast_unsigned() });
    let beyond = beyond.lines().map(|line| {
        let (starts, log) = line.split_once(' ').ok_or_else(|| malformed(line))?;
        SourceRange::parse(log.to_owned(), starts).ok_or_else(|| malformed(line))
    });
    Ok(ReplayProgress {
        gtids,
        position,
        beyond: beyond.collect::<Result<_, TargetFailure>>()?,
        commits: None,
    })
}

impl ReplayTarget for SqliteTarget {
    fn applied(&self) -> Result<AppliedState, TargetFailure> {
        Ok(AppliedState { progress: self.progress()?, ..AppliedState::default() })
    }

    fn session(&self) -> Result<Box<dyn TargetSession>, TargetFailure> {
        let path = self.path.clone();
        let opened = connect(&path).and_then(|connection| {
            SqliteSession::new(connection, self.run_number, Arc::clone(&self.remarks))
        });
        let session = opened.map_err(|failure| with_path(failure, &path))?;
        Ok(Box::new(PathReportingSession { session, path }))
    }

    // Return no definition, so that row changes are not merged: a single change costs little here.
    fn definition(&self, _: &[u8], _: &[u8]) -> Result<Option<TargetTableDefinition>, TargetFailure> {
        Ok(None)
    }

    fn rollback_traces(&self) -> RollbackTraces {
        RollbackTraces::None
    }

    // No statement commits implicitly, so there is nothing to settle.
    fn settle(&self, _: &StatementIntent) -> Result<IntentOutcome, TargetFailure> {
        Ok(IntentOutcome::NotDone)
    }

    fn save(&self, _: &ReplayProgress) -> Result<(), TargetFailure> {
        Ok(())
    }

    fn checkpoint(&self, _: &ReplayProgress) -> Result<AppliedState, TargetFailure> {
        self.applied()
    }
}
