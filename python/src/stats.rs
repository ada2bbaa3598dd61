//! `bintide.stats`: statistics of logs as a dict.

use std::path::PathBuf;

use inspect::InspectError;
use inspect::stats::{BreakdownKind, StatsSettings, collect};
use jiff::tz::TimeZone;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::{Bound, PyAny, PyAnyMethods as _, PyResult, Python, pyfunction};

use crate::log_arguments::{
    GtidArgument, InputLogs, LogError, NameArgument, PathArgument, SelectionArguments, TimeArgument,
};
use crate::worker::{Worker, WorkerOutput};

/// Returns statistics of logs: a dict with the fields of `bintide stats --json`.
///
/// logs: file, directory, index or archive, or several of them.
/// by: count by these properties: `minute`, `hour`, `table`, `account`, `statement`.
/// top: number of the largest and of the longest transactions to list.
/// tables, database: only row changes of these tables: `DB.TABLE`, or `TABLE` in any database; `*` matches any text,
///     `?` one character.
/// gtid, exclude_gtids: only these transactions, or without these: a GtidSet, or its text.
/// start_datetime, stop_datetime: only transactions that were committed in this period. A datetime without a time zone
///     is a local time.
/// keyring: file with the keys of encrypted logs.
#[pyfunction]
#[pyo3(signature = (
    logs, *, by = None, top = 10, tables = None, database = None, gtid = None, exclude_gtids = None,
    start_datetime = None, stop_datetime = None, keyring = None
))]
#[allow(clippy::too_many_arguments, reason = "they are keyword arguments of Python")]
pub(crate) fn stats<'py>(
    py: Python<'py>,
    logs: PathArgument,
    by: Option<NameArgument>,
    top: i64,
    tables: Option<NameArgument>,
    database: Option<String>,
    gtid: Option<GtidArgument>,
    exclude_gtids: Option<GtidArgument>,
    start_datetime: Option<TimeArgument>,
    stop_datetime: Option<TimeArgument>,
    keyring: Option<PathBuf>,
) -> PyResult<Bound<'py, PyAny>> {
    let selection =
        SelectionArguments { tables, database, gtid, exclude_gtids, start_datetime, stop_datetime };
    let top = usize::try_from(top).map_err(|_| PyValueError::new_err("top must be 0 or more"))?;
    let mut settings = StatsSettings::new(top);
    settings.selection = selection.selection()?;
    settings.breakdowns = breakdowns(by)?.into();
    settings.zone = TimeZone::system();
    let mut found = InputLogs::find(py, logs, keyring)?;
    found.leave_out_archived(&settings.selection);
    let worker = Worker::start(move |output| count(found, &settings, output))?;
    let report = worker.next(py)?.ok_or_else(|| LogError::new_err("no statistics"))?;
    py.import("json")?.call_method1("loads", (report,))
}

fn count(
    logs: InputLogs,
    settings: &StatsSettings,
    output: &WorkerOutput<String>,
) -> Result<(), InspectError> {
    let readers = logs.open_all().map(|log| log.map(|(_, reader)| reader));
    let report = collect(readers, settings, &mut |_| output.flow())?;
    let text = serde_json::to_string(&report).expect("ours: all keys of a report are texts");
    let _ = output.put(text);
    Ok(())
}

fn breakdowns(by: Option<NameArgument>) -> PyResult<Vec<BreakdownKind>> {
    let mut kinds = Vec::new();
    for name in by.map(NameArgument::into_names).unwrap_or_default() {
        let kind = match name.as_str() {
            "minute" => BreakdownKind::Minute,
            "hour" => BreakdownKind::Hour,
            "table" => BreakdownKind::Table,
            "account" => BreakdownKind::Account,
            "statement" => BreakdownKind::Statement,
            _ => {
                let why = "by must be 'minute', 'hour', 'table', 'account' or 'statement'";
                return Err(PyValueError::new_err(why));
            }
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(kinds)
}
