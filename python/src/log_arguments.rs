//! Arguments that several functions have: logs, and the selection of transactions and tables.

use std::collections::VecDeque;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binlog::encryption::Keyring;
use inspect::stats::StatsSelection;
use logs::{
    FoundLogs, GtidSelection, LogReader, Store, add_archive_keyring, archived_contents, forget_archives,
    read_keyring,
};
use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::{Borrowed, Bound, FromPyObject, PyAny, PyErr, PyResult, Python};
use pyo3::types::{PyAnyMethods as _, PyDateTime, PyString};
use sql::{TablePattern, TableSelection};

use crate::gtid_set::GtidSet;

pyo3::create_exception!(
    bintide,
    LogError,
    pyo3::exceptions::PyException,
    "A log cannot be found, read or decoded."
);

/// Logs that were found but not opened.
#[derive(Debug)]
pub(crate) struct InputLogs {
    logs: VecDeque<InputLog>,
    keyring: Option<Arc<Keyring>>,
}

#[derive(Debug)]
struct InputLog {
    path: PathBuf,
    /// Index that lists the log.
    index: Option<PathBuf>,
}

/// One path, or several.
pub(crate) struct PathArgument(Vec<PathBuf>);

/// One name, or several.
pub(crate) struct NameArgument(Vec<String>);

/// A GTID set, or its text.
pub(crate) struct GtidArgument(binlog::gtid::GtidSet);

/// A `datetime`, in microseconds since 1970.
pub(crate) struct TimeArgument(u64);

/// Arguments that select transactions and tables.
#[derive(Default)]
pub(crate) struct SelectionArguments {
    pub(crate) tables: Option<NameArgument>,
    pub(crate) database: Option<String>,
    pub(crate) gtid: Option<GtidArgument>,
    pub(crate) exclude_gtids: Option<GtidArgument>,
    pub(crate) start_datetime: Option<TimeArgument>,
    pub(crate) stop_datetime: Option<TimeArgument>,
}

impl InputLogs {
    /// Finds all logs, so that a missing one is reported before the work starts. Warns of logs that are not read.
    pub(crate) fn find(py: Python<'_>, paths: PathArgument, keyring: Option<PathBuf>) -> PyResult<Self> {
        let keyring = keyring.as_deref().map(read_keyring).transpose();
        let keyring = keyring.map_err(|error| log_error(&error))?.map(Arc::new);
        if let Some(keyring) = &keyring {
            add_archive_keyring(Arc::clone(keyring));
        }
        // A process of Python can run for days while logs are archived.
        forget_archives();
        let mut logs = VecDeque::new();
        for path in &paths.0 {
            let found = py.detach(|| FoundLogs::at(path)).map_err(|error| log_error(&error))?;
            if let Some(line) = &found.ignored_path {
                warn(py, &line.to_string())?;
            }
            for log in &found.unlisted {
                warn(py, &Store::unlisted_log_warning(log))?;
            }
            let index = &found.index;
            logs.extend(found.logs.into_iter().map(|path| InputLog { path, index: index.clone() }));
        }
        Ok(Self { logs, keyring })
    }

    /// Leaves out archived logs that have no transaction of the selection, by their manifests.
    pub(crate) fn leave_out_archived(&mut self, selection: &StatsSelection) {
        let is_needed = |log: &InputLog| {
            archived_contents(&log.path).is_none_or(|contents| selection.may_select(&contents))
        };
        self.logs.retain(is_needed);
    }

    /// Returns the keys of encrypted logs.
    pub(crate) fn keyring(&self) -> Option<Arc<Keyring>> {
        self.keyring.clone()
    }

    /// Returns the paths of the logs.
    pub(crate) fn into_paths(self) -> impl Iterator<Item = PathBuf> {
        self.logs.into_iter().map(|log| log.path)
    }

    /// Opens one log after the other.
    pub(crate) fn open_all(self) -> impl Iterator<Item = Result<(String, LogReader), logs::LogError>> + Send {
        let keyring = self.keyring;
        self.logs.into_iter().map(move |log| {
            let reader = log.open()?;
            let reader = match &keyring {
                Some(keyring) => reader.with_keyring(Arc::clone(keyring)),
                None => reader,
            };
            Ok((log_name(&log.path), reader))
        })
    }
}

impl InputLog {
    fn open(&self) -> Result<LogReader, logs::LogError> {
        match &self.index {
            Some(index) if !self.path.exists() => Err(logs::LogError::MissingLog {
                name: self.path.display().to_string(),
                index: index.display().to_string(),
            }),
            Some(_) => LogReader::open_stored(&self.path),
            None => LogReader::open(&self.path),
        }
    }
}

impl NameArgument {
    pub(crate) fn into_names(self) -> Vec<String> {
        self.0
    }
}

impl SelectionArguments {
    /// Returns the selection.
    pub(crate) fn selection(self) -> PyResult<StatsSelection> {
        let gtids = self.gtids()?;
        let (start, stop) = (self.start_datetime.map(|time| time.0), self.stop_datetime.map(|time| time.0));
        if start.zip(stop).is_some_and(|(start, stop)| start >= stop) {
            let why = "start_datetime is not before stop_datetime: no transaction is selected";
            return Err(PyValueError::new_err(why));
        }
        let tables = self.tables.map(NameArgument::into_names).unwrap_or_default();
        let patterns = tables.iter().map(|pattern| TablePattern::new(pattern.as_bytes())).collect();
        let tables = TableSelection { database: self.database.map(String::into_bytes), patterns };
        Ok(StatsSelection { start_us: start, stop_us: stop, gtids, tables })
    }

    fn gtids(&self) -> PyResult<GtidSelection> {
        let set = |argument: &Option<GtidArgument>| argument.as_ref().map(|gtids| gtids.0.clone());
        let included = set(&self.gtid);
        if included.as_ref().is_some_and(binlog::gtid::GtidSet::is_empty) {
            return Err(PyValueError::new_err("gtid is an empty GTID set: no transaction is selected"));
        }
        Ok(GtidSelection { included, excluded: set(&self.exclude_gtids) })
    }
}

impl<'py> FromPyObject<'_, 'py> for PathArgument {
    type Error = PyErr;

    fn extract(argument: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(path) = argument.extract::<PathBuf>() {
            return Ok(Self(vec![path]));
        }
        let paths = items(&argument, "a path, or paths")?;
        match paths.is_empty() {
            true => Err(PyValueError::new_err("no log is given")),
            false => Ok(Self(paths)),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for NameArgument {
    type Error = PyErr;

    fn extract(argument: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match argument.cast::<PyString>() {
            Ok(name) => Ok(Self(vec![name.extract()?])),
            Err(_) => items(&argument, "a name, or names").map(Self),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for GtidArgument {
    type Error = PyErr;

    fn extract(argument: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match argument.cast::<GtidSet>() {
            Ok(set) => Ok(Self(set.get().set().clone())),
            Err(_) => GtidSet::new(argument.extract()?).map(|set| Self(set.set().clone())),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for TimeArgument {
    type Error = PyErr;

    /// Converts a `datetime`. One without a time zone is a local time, as everywhere in Python.
    fn extract(argument: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Ok(time) = argument.cast::<PyDateTime>() else {
            return Err(PyTypeError::new_err("expected a datetime"));
        };
        let seconds: f64 = time.call_method0("timestamp")?.extract()?;
        match seconds >= 0.0 {
            // A time of this century has microseconds in 52 bits.
            true => Ok(Self((seconds * 1e6).round() as u64)),
            false => Err(PyValueError::new_err("expected a time after 1970")),
        }
    }
}

/// Returns the Python exception for an error.
pub(crate) fn log_error(error: &dyn std::error::Error) -> PyErr {
    LogError::new_err(error.to_string())
}

fn items<'py, T>(argument: &Bound<'py, PyAny>, expected: &str) -> PyResult<Vec<T>>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let item = |item: PyResult<Bound<'py, PyAny>>| {
        item?.extract().map_err(|_| PyTypeError::new_err(format!("expected {expected}")))
    };
    argument.try_iter()?.map(item).collect()
}

/// Issues a warning of Python.
pub(crate) fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    let message = CString::new(message)?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1)
}

fn log_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
