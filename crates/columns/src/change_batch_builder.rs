//! Building of record batches of one table's changes.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, PrimitiveBuilder, TimestampMicrosecondBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType};
use binlog::RowDecoder;
use binlog::events::Rows;

use crate::change_schema::{ChangeSchema, UTC};
use crate::columns_error::{ColumnsError, EventFailure};
use crate::image_builder::{ImageBuilder, ImageRefusal, MissingDocument};

/// Maximum number of rows of a batch.
const BATCH_ROWS_MAX: usize = 1 << 16;

/// Number of bytes at which a batch is complete. Arrow's offsets are numbers of 32 bits; a single row has at most a few
/// times the 1 GiB of an event.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Transaction and event of row changes.
#[derive(Clone, Copy, Debug)]
pub struct ChangeContext<'c> {
    /// GTID of the transaction.
    pub gtid: Option<&'c str>,
    /// Time of the commit, in microseconds since 1970.
    pub commit_us: i64,
    /// Connection that made the change.
    pub thread_id: Option<u32>,
    /// Name of the log.
    pub log_name: &'c str,
    /// Start of the event in the log.
    pub log_position: i64,
    /// Number of the event's first change in its transaction, from 1.
    pub first_number: i64,
}

/// Builder of record batches of one table's changes.
#[derive(Debug)]
pub struct ChangeBatchBuilder {
    schema: Arc<ChangeSchema>,
    rows: usize,
    /// Bytes of the images in the log, and of what each row needs in the arrays.
    bytes: usize,
    /// Bytes that each row needs in the arrays, also for NULLs.
    row_size: usize,
    operations: PrimitiveBuilder<Int32Type>,
    gtids: RepeatedTextBuilder,
    commit_times: TimestampMicrosecondBuilder,
    numbers: Int64Builder,
    threads: Int64Builder,
    log_names: RepeatedTextBuilder,
    log_positions: Int64Builder,
    before: ImageBuilder,
    after: ImageBuilder,
}

/// Builder of an array of texts of which many rows in a row are equal.
#[derive(Debug)]
struct RepeatedTextBuilder {
    keys: PrimitiveBuilder<Int32Type>,
    texts: Vec<String>,
}

/// Bytes of a row beside its images: five numbers of up to 8 bytes, and two keys of texts.
const CONTEXT_SIZE: usize = 48;

/// Returns the bytes that a value needs in its array, without contents of variable size.
fn cell_size(data_type: &DataType) -> usize {
    const OFFSET_SIZE: usize = 4;
    data_type.primitive_width().unwrap_or(OFFSET_SIZE)
}

/// Texts of the column `operation`.
const OPERATIONS: [&str; 3] = ["insert", "update", "delete"];

impl ChangeBatchBuilder {
    /// Creates a builder of batches with this schema.
    pub fn new(schema: Arc<ChangeSchema>) -> Self {
        let sizes = schema.columns.iter().map(|column| cell_size(&column.data_type));
        let image_size: usize = sizes.sum();
        Self {
            rows: 0,
            bytes: 0,
            row_size: CONTEXT_SIZE + 2 * image_size,
            operations: PrimitiveBuilder::with_capacity(0),
            gtids: RepeatedTextBuilder::new(),
            commit_times: TimestampMicrosecondBuilder::with_capacity(0).with_timezone(UTC),
            numbers: Int64Builder::with_capacity(0),
            threads: Int64Builder::with_capacity(0),
            log_names: RepeatedTextBuilder::new(),
            log_positions: Int64Builder::with_capacity(0),
            before: ImageBuilder::new(&schema),
            after: ImageBuilder::new(&schema),
            schema,
        }
    }

    /// Returns the schema.
    pub const fn schema(&self) -> &Arc<ChangeSchema> {
        &self.schema
    }

    /// Returns the number of rows in the builder.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the approximate number of bytes in the builder.
    pub const fn bytes(&self) -> usize {
        self.bytes + self.before.bytes() + self.after.bytes()
    }

    /// Appends the changes of a rows event, which `decoder` must fit. `full` takes each batch that is complete before
    /// the event's last change. Returns the number of changes.
    ///
    /// # Errors
    ///
    /// Fails if a row is corrupt, if the log lacks a JSON document, or if `full` fails.
    pub fn append(
        &mut self,
        decoder: &RowDecoder,
        rows: &Rows<'_>,
        context: &ChangeContext<'_>,
        full: &mut dyn FnMut(RecordBatch) -> Result<(), ColumnsError>,
    ) -> Result<i64, ColumnsError> {
        let appended = self.append_rows(decoder, rows, context, full);
        appended.map_err(|refusal| self.error(refusal, context))
    }

    fn error(&self, refusal: ImageRefusal, context: &ChangeContext<'_>) -> ColumnsError {
        let (log, offset) = (context.log_name, context.log_position.cast_unsigned());
        match refusal {
            ImageRefusal::Event(failure) => failure.at(log, offset),
            ImageRefusal::MissingDocument(MissingDocument { column }) => {
                let table = format!("{}.{}", self.schema.database, self.schema.table);
                ColumnsError::PartialJson { log: log.to_owned(), offset, table, column }
            }
        }
    }

    fn append_rows(
        &mut self,
        decoder: &RowDecoder,
        rows: &Rows<'_>,
        context: &ChangeContext<'_>,
        full: &mut dyn FnMut(RecordBatch) -> Result<(), ColumnsError>,
    ) -> Result<i64, ImageRefusal> {
        let operation = match (decoder.before(), decoder.after()) {
            (None, _) => 0,
            (Some(_), Some(_)) => 1,
            (Some(_), None) => 2,
        };
        let (mut count, mut described) = (0, 0);
        for row in decoder.rows(rows) {
            let row = row?;
            match &row.before {
                Some(image) => self.before.append(image, &row)?,
                None => self.before.append_null(),
            }
            match &row.after {
                Some(image) => self.after.append(image, &row)?,
                None => self.after.append_null(),
            }
            self.bytes += self.row_size + row.images().map(|image| image.bytes().len()).sum::<usize>();
            self.rows += 1;
            count += 1;
            if self.rows >= BATCH_ROWS_MAX || self.bytes() >= BATCH_BYTES_MAX {
                self.describe(operation, context, described..count);
                described = count;
                full(self.finish()?).map_err(EventFailure::from)?;
            }
        }
        self.describe(operation, context, described..count);
        Ok(count)
    }

    /// Appends what rows of one event have beside their images. `changes` are their numbers in the event.
    fn describe(&mut self, operation: i32, context: &ChangeContext<'_>, changes: Range<i64>) {
        let count = usize::try_from(changes.end - changes.start).unwrap_or(0);
        self.operations.append_value_n(operation, count);
        self.gtids.append_n(context.gtid, count);
        self.commit_times.append_value_n(context.commit_us, count);
        for change in changes {
            self.numbers.append_value(context.first_number.saturating_add(change));
        }
        match context.thread_id {
            Some(thread_id) => self.threads.append_value_n(thread_id.into(), count),
            None => self.threads.append_nulls(count),
        }
        self.log_names.append_n(Some(context.log_name), count);
        self.log_positions.append_value_n(context.log_position, count);
    }

    /// Returns a batch of all rows in the builder, and starts another one.
    ///
    /// # Errors
    ///
    /// Fails if the arrays do not make up a batch.
    pub fn finish(&mut self) -> Result<RecordBatch, ColumnsError> {
        self.finish_arrays().map_err(|cause| ColumnsError::Batch {
            table: format!("{}.{}", self.schema.database, self.schema.table),
            cause,
        })
    }

    fn finish_arrays(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let operations = StringArray::from_iter_values(OPERATIONS);
        let operations = DictionaryArray::try_new(self.operations.finish(), Arc::new(operations))?;
        let before = self.before.finish(rows)?;
        let after = self.after.finish(rows)?;
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(operations),
            self.gtids.finish()?,
            Arc::new(self.commit_times.finish()),
            Arc::new(self.numbers.finish()),
            Arc::new(self.threads.finish()),
            self.log_names.finish()?,
            Arc::new(self.log_positions.finish()),
            before.image,
            after.image,
            before.omitted,
            after.omitted,
            before.exact,
            after.exact,
        ];
        RecordBatch::try_new(Arc::clone(&self.schema.arrow), arrays)
    }
}

impl RepeatedTextBuilder {
    fn new() -> Self {
        Self { keys: PrimitiveBuilder::with_capacity(0), texts: Vec::new() }
    }

    fn append_n(&mut self, text: Option<&str>, count: usize) {
        if count == 0 {
            return;
        }
        let Some(text) = text else { return self.keys.append_nulls(count) };
        if self.texts.last().is_none_or(|last| last != text) {
            self.texts.push(text.to_owned());
        }
        // A batch has far fewer rows than a number of 32 bits counts.
        self.keys.append_value_n(self.texts.len() as i32 - 1, count);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let texts = StringArray::from_iter_values(std::mem::take(&mut self.texts));
        Ok(Arc::new(DictionaryArray::try_new(self.keys.finish(), Arc::new(texts))?))
    }
}

#[cfg(test)]
mod tests;
