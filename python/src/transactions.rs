//! `bintide.transactions`: one dict for each transaction.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use list::{ListError, ListFormat, ListSettings, ListSource, list};
use pyo3::prelude::{
    Bound, Py, PyAny, PyAnyMethods as _, PyRef, PyResult, Python, pyclass, pyfunction, pymethods,
};
use pyo3::types::{PyBytes, PyIterator};

use crate::log_arguments::{GtidArgument, InputLogs, NameArgument, PathArgument, SelectionArguments, warn};
use crate::worker::{Worker, WorkerOutput};

/// Returns an iterator of the transactions in logs: a dict for each, with the fields of
/// `bintide dump --transactions --json`.
///
/// logs: file, directory, index or archive, or several of them.
/// tables, database: only transactions that change these tables, and of their rows only those of these tables.
/// gtid, exclude_gtids: only these transactions, or without these: a GtidSet, or its text.
/// keyring: file with the keys of encrypted logs.
#[pyfunction]
#[pyo3(signature = (logs, *, tables = None, database = None, gtid = None, exclude_gtids = None, keyring = None))]
#[allow(clippy::too_many_arguments, reason = "they are keyword arguments of Python")]
pub(crate) fn transactions(
    py: Python<'_>,
    logs: PathArgument,
    tables: Option<NameArgument>,
    database: Option<String>,
    gtid: Option<GtidArgument>,
    exclude_gtids: Option<GtidArgument>,
    keyring: Option<PathBuf>,
) -> PyResult<Transactions> {
    let selection = SelectionArguments { tables, database, gtid, exclude_gtids, ..Default::default() };
    let selection = selection.selection()?;
    let mut found = InputLogs::find(py, logs, keyring)?;
    found.leave_out_archived(&selection);
    let keyring = found.keyring();
    let sources: Vec<_> = found.into_paths().map(ListSource::File).collect();
    let mut settings = ListSettings::new(ListFormat::TransactionsJson, sources);
    settings.selection.gtids = selection.gtids;
    settings.selection.tables = selection.tables;
    settings.keyring = keyring;
    let worker = Worker::start(move |output| write_lines(settings, output))?;
    Ok(Transactions { worker, part: None })
}

/// Iterator of transactions.
#[pyclass(module = "bintide")]
pub(crate) struct Transactions {
    worker: Worker<ListPart>,
    /// Transactions that were parsed and not returned yet.
    part: Option<Py<PyIterator>>,
}

/// Part of a list.
enum ListPart {
    /// Lines of JSON.
    Lines(Vec<u8>),
    /// Warning of a log that is torn because its server still writes it, or was killed.
    Warning(String),
}

/// Size of the parts that are passed to Python.
const PART_SIZE: usize = 64 << 10;

#[pymethods]
impl Transactions {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            if let Some(part) = &self.part
                && let Some(transaction) = part.bind(py).clone().next()
            {
                return transaction.map(Some);
            }
            match self.worker.next(py)? {
                Some(ListPart::Lines(lines)) => {
                    let array = PyBytes::new(py, &as_array(&lines));
                    let parsed = py.import("json")?.call_method1("loads", (array,))?;
                    self.part = Some(parsed.try_iter()?.unbind());
                }
                Some(ListPart::Warning(warning)) => warn(py, &warning)?,
                None => return Ok(None),
            }
        }
    }

    fn __repr__(&self) -> &'static str {
        "<bintide.Transactions>"
    }
}

fn write_lines(mut settings: ListSettings, output: &WorkerOutput<ListPart>) -> Result<(), ListError> {
    settings.stop = Some(output.stop_flag());
    let mut writer = LineWriter { output, lines: Vec::new() };
    let listed = list(&settings, &mut writer);
    // Also after an error: the lines precede it.
    writer.flush().map_err(ListError::Write)?;
    for torn in listed? {
        let _ = output.put(ListPart::Warning(torn.to_string()));
    }
    Ok(())
}

/// Collects lines, and passes them on in parts.
struct LineWriter<'o> {
    output: &'o WorkerOutput<ListPart>,
    lines: Vec<u8>,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        if self.lines.len() >= PART_SIZE && self.lines.ends_with(b"\n") {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.lines.is_empty()
            || self.output.put(ListPart::Lines(std::mem::take(&mut self.lines))).is_continue()
        {
            true => Ok(()),
            false => Err(ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Turns lines of JSON into one array.
fn as_array(lines: &[u8]) -> Vec<u8> {
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    let mut array = Vec::with_capacity(lines.len() + 2);
    array.push(b'[');
    // A line has no line feed except at its end.
    array.extend(lines.iter().map(|byte| if *byte == b'\n' { b',' } else { *byte }));
    array.push(b']');
    array
}
