//! A SQLite database as a target: one file, no server.
//!
//! Tables are created from the definitions in the logs, and rows are changed by row events. Progress is saved in the
//! same transaction, for definitions, too. Wherever a replay stops, the file contains whole transactions of the source,
//! and states which.

mod alter;
mod cascade;
mod catalogue;
mod convert;
mod ddl;
mod define;
mod definition;
mod draft;
mod literal;
mod patch;
mod remarks;
mod rows;
mod session;
mod types;
mod value;
mod words;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use binlog::gtid::GtidSet;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::definition::Definition;
use crate::error::{Error, Failure, FailureKind};
use crate::progress::{Applied, Intent, Place, Progress};
use crate::sqlite::catalogue::{CREATE as CREATE_CATALOGUE, Catalogue};
pub(crate) use crate::sqlite::define::quoted;
pub(crate) use crate::sqlite::draft::Draft;
pub use crate::sqlite::remarks::Remarks;
use crate::sqlite::session::{NamedSession, SqliteSession, named};
use crate::sqlite::types::{Storage, Type};
use crate::target::{RollbackTraces, Session, Settled, Target};

/// Timeout for other writers of the database.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum number of cached prepared statements.
const STATEMENTS_KEPT: usize = 512;

/// Connection settings. Readers see whole transactions while another is written, and a commit is on disk when it
/// returns. Foreign keys are executed by our own code, where the log requires it.
const SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; \
     PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 4000; PRAGMA recursive_triggers = OFF";

const CREATE_PROGRESS: &str = "CREATE TABLE IF NOT EXISTS \"bintide.progress\" (\"stream\" INTEGER PRIMARY KEY, \
     \"gtids\" TEXT NOT NULL DEFAULT '', \"log\" TEXT, \"position\" INTEGER, \"beyond\" TEXT NOT NULL DEFAULT '', \
     \"run\" INTEGER NOT NULL DEFAULT 0) STRICT";

/// SQLITE_READONLY: the database cannot be written.
const READONLY: u16 = 8;

/// A SQLite database that transactions are applied to.
#[derive(Debug)]
pub struct SqliteTarget {
    path: PathBuf,
    control: Mutex<Connection>,
    /// Number of this replay on the database. A later replay takes over; this one then cannot commit any more.
    run: i64,
    remarks: Arc<Mutex<Remarks>>,
}

impl SqliteTarget {
    /// Opens or creates the database, and takes it over from any earlier replay.
    ///
    /// # Errors
    ///
    /// The database cannot be opened or written, or holds tables of another application.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (control, run) =
            prepare(path).map_err(|failure| named(failure, path).at("open the SQLite database"))?;
        Ok(Self { path: path.to_owned(), control: Mutex::new(control), run, remarks: Arc::default() })
    }

    /// Reads what was applied to a database, without changing it; `None` if there is no file, or no progress in it.
    ///
    /// # Errors
    ///
    /// The database cannot be read, or holds tables of another application.
    pub fn look(path: &Path) -> Result<Option<Applied>, Error> {
        let look = |flags| -> Result<Option<Applied>, Failure> {
            if !path.exists() {
                return Ok(None);
            }
            let file = Connection::open_with_flags(path, flags)?;
            check_own(&file)?;
            let is_empty = "SELECT NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'bintide.progress')";
            if file.query_row(is_empty, [], |row| row.get(0))? {
                return Ok(None);
            }
            Ok(Some(Applied { progress: read_progress_of(&file)?, ..Applied::default() }))
        };
        let looked = match look(OpenFlags::SQLITE_OPEN_READ_ONLY) {
            // A crash left a journal, which SQLite must first write back.
            Err(Failure { code: Some(READONLY), .. }) => look(OpenFlags::SQLITE_OPEN_READ_WRITE),
            looked => looked,
        };
        looked.map_err(|failure| named(failure, path).at("read the SQLite database"))
    }

    /// Returns what was done differently than on a server, so far.
    pub fn remarks(&self) -> Remarks {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn control(&self) -> MutexGuard<'_, Connection> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> Result<Progress, Failure> {
        read_progress_of(&self.control())
    }
}

/// A table in a SQLite database.
#[derive(Debug)]
pub(crate) struct Held {
    /// Database and name on the source.
    pub(crate) source: (String, String),
    /// Name in SQLite.
    pub(crate) name: String,
    /// Columns: the name, and whether it is an ENUM or SET of which only numbers are known.
    pub(crate) columns: Vec<(String, bool)>,
}

/// Returns the tables of a database that was a target.
pub(crate) fn held_tables(connection: &Connection) -> Result<Vec<Held>, Failure> {
    check_own(connection)?;
    let has_numbers = |kind: &Type| match kind {
        Type::Enum { .. } | Type::Set { .. } => kind.storage() != Storage::Text,
        _ => false,
    };
    let tables = Catalogue::load(connection)?.into_tables().map(|(source, table)| {
        let columns = table.columns.iter().map(|column| (column.name.clone(), has_numbers(&column.kind)));
        Held { source, columns: columns.collect(), name: table.name }
    });
    Ok(tables.collect())
}

fn read_progress_of(connection: &Connection) -> Result<Progress, Failure> {
    let sql =
        "SELECT \"gtids\", \"log\", \"position\", \"beyond\" FROM \"bintide.progress\" WHERE \"stream\" = 1";
    let row = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
    read_progress(row?)
}

fn connect(path: &Path) -> Result<Connection, Failure> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.execute_batch(SETTINGS)?;
    Ok(connection)
}

/// Creates the file with mode 0640, because it contains table data. SQLite would make it readable for everyone.
/// SQLite's other files get the mode of this one.
fn make_private(path: &Path) {
    let is_name = !path.to_string_lossy().starts_with("file:") && path != Path::new(":memory:");
    if is_name && !path.exists() {
        // If this fails, SQLite reports the reason.
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o640).open(path);
    }
}

fn prepare(path: &Path) -> Result<(Connection, i64), Failure> {
    make_private(path);
    // A database of another application stays unchanged, including its journal mode.
    check_own(&Connection::open(path)?)?;
    let connection = connect(path)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute_batch(CREATE_PROGRESS)?;
    connection.execute_batch(CREATE_CATALOGUE)?;
    let take_over = "INSERT INTO \"bintide.progress\" (\"stream\", \"run\") VALUES (1, 1) \
                     ON CONFLICT DO UPDATE SET \"run\" = \"run\" + 1 RETURNING \"run\"";
    let run = connection.query_row(take_over, [], |row| row.get(0))?;
    connection.execute_batch("COMMIT")?;
    Ok((connection, run))
}

/// Checks that the database is empty or a replay's target.
fn check_own(connection: &Connection) -> Result<(), Failure> {
    let question = "SELECT name FROM sqlite_master WHERE type = 'table' AND NOT EXISTS \
                    (SELECT 1 FROM sqlite_master WHERE name = 'bintide.progress') LIMIT 1";
    let foreign: Option<String> = connection.query_row(question, [], |row| row.get(0)).optional()?;
    if let Some(table) = foreign {
        return Err(Failure::refused(format!(
            "it contains the table {table} but no progress of a replay. Give a file that does not exist yet"
        )));
    }
    Ok(())
}

type ProgressRow = (String, Option<String>, Option<i64>, String);

fn read_progress((gtids, log, position, beyond): ProgressRow) -> Result<Progress, Failure> {
    let odd = |what: &str| Failure::refused(format!("bintide.progress holds invalid progress: {what}"));
    let gtids: GtidSet = gtids.parse().map_err(|_| odd(&gtids))?;
    let place = log.zip(position).map(|(log, position)| Place { log, position: position.cast_unsigned() });
    let beyond = beyond.lines().map(|line| {
        let (position, log) = line.split_once(' ').ok_or_else(|| odd(line))?;
        Ok(Place { log: log.to_owned(), position: position.parse().map_err(|_| odd(line))? })
    });
    Ok(Progress { gtids, place, beyond: beyond.collect::<Result<_, Failure>>()?, commits: None })
}

impl Target for SqliteTarget {
    fn applied(&self) -> Result<Applied, Failure> {
        Ok(Applied { progress: self.progress()?, ..Applied::default() })
    }

    fn session(&self) -> Result<Box<dyn Session>, Failure> {
        let path = self.path.clone();
        let opened = connect(&path)
            .and_then(|connection| SqliteSession::new(connection, self.run, Arc::clone(&self.remarks)));
        let session = opened.map_err(|failure| named(failure, &path))?;
        Ok(Box::new(NamedSession { session, path }))
    }

    // Row changes are not merged: each costs little here.
    fn definition(&self, _: &[u8], _: &[u8]) -> Result<Option<Definition>, Failure> {
        Ok(None)
    }

    fn rollback_traces(&self) -> RollbackTraces {
        RollbackTraces::None
    }

    // No statement commits implicitly, so there is nothing to settle.
    fn settle(&self, _: &Intent) -> Result<Settled, Failure> {
        Ok(Settled::NotDone)
    }

    fn save(&self, _: &Progress) -> Result<(), Failure> {
        Ok(())
    }

    fn checkpoint(&self, _: &Progress) -> Result<Applied, Failure> {
        self.applied()
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let is_busy = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
        let kind = if is_busy { FailureKind::Locked } else { FailureKind::Refused };
        let code = error.sqlite_error().and_then(|error| u16::try_from(error.extended_code & 0xff).ok());
        Self { message: error.to_string(), kind, code }
    }
}
