//! `bintide.changes`: row changes as Arrow record batches.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array as _, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use columns::{ChangeDecoder, ColumnsError, DecodeSettings, LogChanges, LogProgress};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::{
    Bound, Py, PyAny, PyAnyMethods as _, PyRef, PyResult, Python, pyclass, pyfunction, pymethods,
};
use pyo3::types::PyCapsule;
use stream::{ColumnCatalogue, DdlSchema, StatementPolicy, UnnamedColumnPolicy};

use crate::log_arguments::{
    GtidArgument, InputLogs, NameArgument, PathArgument, SelectionArguments, TimeArgument,
};
use crate::worker::{WaitOutcome, Worker, WorkerOutput};

/// Returns the row changes of logs as Arrow record batches, each of one table and day.
///
/// The result is an iterator of `pyarrow.RecordBatch`, and can be read once. It is also an Arrow stream
/// (`__arrow_c_stream__`), which pyarrow, Polars and DuckDB read without pyarrow's Python objects; the changes must
/// then be of one table.
///
/// logs: file, directory, index or archive, or several of them.
/// tables: only changes of these tables: `DB.TABLE`, or `TABLE` in any database; `*` matches any text, `?` one character.
/// database: only changes of this database.
/// gtid, exclude_gtids: only these transactions, or without these: a GtidSet, or its text.
/// start_datetime, stop_datetime: only transactions that were committed in this period. A datetime without a time zone
///     is a local time.
/// columns: `named` refuses tables whose column names are not known, `numbered` names their columns `@1`, `@2` and so on.
/// schema: `ddl` takes column names that the log lacks from the DDL statements in the logs.
/// skip_statements: skip changes that the log contains as statements, instead of failing.
/// keyring: file with the keys of encrypted logs.
#[pyfunction]
#[pyo3(signature = (
    logs, *, tables = None, database = None, gtid = None, exclude_gtids = None, start_datetime = None,
    stop_datetime = None, columns = "named", schema = None, skip_statements = false, keyring = None
))]
#[allow(clippy::too_many_arguments, reason = "they are keyword arguments of Python")]
pub(crate) fn changes(
    py: Python<'_>,
    logs: PathArgument,
    tables: Option<NameArgument>,
    database: Option<String>,
    gtid: Option<GtidArgument>,
    exclude_gtids: Option<GtidArgument>,
    start_datetime: Option<TimeArgument>,
    stop_datetime: Option<TimeArgument>,
    columns: &str,
    schema: Option<&str>,
    skip_statements: bool,
    keyring: Option<PathBuf>,
) -> PyResult<Changes> {
    let selection =
        SelectionArguments { tables, database, gtid, exclude_gtids, start_datetime, stop_datetime };
    let settings = DecodeSettings {
        selection: selection.selection()?,
        unnamed_columns: match columns {
            "named" => UnnamedColumnPolicy::Refuse,
            "numbered" => UnnamedColumnPolicy::Number,
            _ => return Err(PyValueError::new_err("columns must be 'named' or 'numbered'")),
        },
        statements: if skip_statements { StatementPolicy::Skip } else { StatementPolicy::Refuse },
    };
    let names = match schema {
        None => ColumnNames::Log,
        Some("ddl") => ColumnNames::Definitions,
        Some(_) => return Err(PyValueError::new_err("schema must be 'ddl' or None")),
    };
    let mut found = InputLogs::find(py, logs, keyring)?;
    if names == ColumnNames::Log {
        found.leave_out_archived(&settings.selection);
    }
    let worker = Worker::start(move |output| decode(found, settings, names, output))?;
    let queue = Arc::new(BatchQueue { worker, first: Mutex::default(), thread: thread::current().id() });
    Ok(Changes { queue })
}

/// Source of column names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnNames {
    /// Only the log's metadata.
    Log,
    /// Also the definitions in the logs.
    Definitions,
}

fn decode(
    logs: InputLogs,
    settings: DecodeSettings,
    names: ColumnNames,
    output: &WorkerOutput<RecordBatch>,
) -> Result<(), ColumnsError> {
    let mut decoder = ChangeDecoder::new(settings);
    if names == ColumnNames::Definitions {
        decoder = decoder.with_column_catalogue(ColumnCatalogue::from_definitions(DdlSchema::default()));
    }
    let mut sink = |batch: columns::ChangeBatch| match output.put(batch.batch).is_break() {
        true => Err(ColumnsError::Stopped),
        false => Ok(()),
    };
    for log in logs.open_all() {
        let (name, reader) = log?;
        decoder.begin_log(&name);
        let mut changes = LogChanges::new(reader);
        while changes.advance(&mut decoder, &mut sink)? == LogProgress::Continues {
            if output.flow().is_break() {
                return Err(ColumnsError::Stopped);
            }
        }
    }
    Ok(())
}

/// Iterator of record batches, and an Arrow stream.
#[pyclass(frozen, module = "bintide")]
pub(crate) struct Changes {
    queue: Arc<BatchQueue>,
}

/// Batches that were not read yet.
struct BatchQueue {
    worker: Worker<RecordBatch>,
    /// Batch that was fetched only for its schema.
    first: Mutex<VecDeque<RecordBatch>>,
    /// Thread that called `changes`. Waits of this thread check for signals.
    thread: ThreadId,
}

#[pymethods]
impl Changes {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(batch) = self.queue.next(py)? else { return Ok(None) };
        let batch = Py::new(py, ExportedBatch { batch })?;
        py.import("pyarrow")?.call_method1("record_batch", (batch,)).map(Some)
    }

    /// Exports the changes as an Arrow stream. All of them must have the same columns.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows ignoring the requested schema.
        drop(requested_schema);
        let reader = BatchStream { schema: self.queue.schema(py)?, queue: Arc::clone(&self.queue) };
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Exports the schema of the first batch.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &*self.queue.schema(py)?)
    }

    fn __repr__(&self) -> &'static str {
        "<bintide.Changes>"
    }
}

impl BatchQueue {
    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        match self.take_first() {
            Some(batch) => Ok(Some(batch)),
            None => self.worker.next(py),
        }
    }

    fn take_first(&self) -> Option<RecordBatch> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Returns the schema of the next batch; one without columns if there is none.
    fn schema(&self, py: Python<'_>) -> PyResult<SchemaRef> {
        let next = self.next(py)?;
        let schema = next.as_ref().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        // Another thread may have put back a batch meanwhile.
        self.first.lock().unwrap_or_else(PoisonError::into_inner).extend(next);
        Ok(schema)
    }

    /// Waits for the next batch on a thread of any library.
    fn wait(&self) -> Option<Result<RecordBatch, ArrowError>> {
        if let Some(batch) = self.take_first() {
            return Some(Ok(batch));
        }
        loop {
            match self.worker.wait() {
                WaitOutcome::Result(result) => return Some(result.map_err(failed)),
                WaitOutcome::Ended => return None,
                WaitOutcome::Pending if self.is_interrupted() => return Some(Err(failed("interrupted"))),
                WaitOutcome::Pending => {}
            }
        }
    }

    /// Returns whether a signal has stopped the program. Python handles signals on its main thread only, so other
    /// threads need not wait for the GIL.
    fn is_interrupted(&self) -> bool {
        thread::current().id() == self.thread
            && Python::try_attach(|py| py.check_signals().is_err()).unwrap_or(true)
    }
}

/// Stream of the changes for the C interface of Arrow.
struct BatchStream {
    schema: SchemaRef,
    queue: Arc<BatchQueue>,
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.queue.wait()? {
            Ok(batch) if batch.schema() != self.schema => Some(Err(failed(self.other_schema(&batch)))),
            result => Some(result),
        }
    }
}

impl RecordBatchReader for BatchStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl BatchStream {
    fn other_schema(&self, batch: &RecordBatch) -> String {
        let (first, next) = (table_name(&self.schema), table_name(&batch.schema()));
        match first == next {
            true => format!(
                "the columns of {first} change within the logs, and a stream has one schema: iterate over the batches"
            ),
            false => format!(
                "the logs have changes of {first} and {next}, and a stream has one schema: choose a table with tables=, \
                 or iterate over the batches"
            ),
        }
    }
}

fn table_name(schema: &Schema) -> String {
    let part = |key| schema.metadata().get(key).map_or("", String::as_str);
    format!("{}.{}", part("mysql.database"), part("mysql.table"))
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ArrowError {
    ArrowError::ExternalError(error.into())
}

/// Record batch that pyarrow reads through the C interface of Arrow.
#[pyclass(frozen, module = "bintide")]
struct ExportedBatch {
    batch: RecordBatch,
}

#[pymethods]
impl ExportedBatch {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let rows = StructArray::from(self.batch.clone());
        let array = FFI_ArrowArray::new(&rows.to_data());
        Ok((schema_capsule(py, &self.batch.schema())?, PyCapsule::new_with_value(py, array, c"arrow_array")?))
    }
}

fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema =
        FFI_ArrowSchema::try_from(schema).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}
