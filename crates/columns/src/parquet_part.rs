//! One Parquet file while it is written.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use binlog::ZstdLevel;
use logs::private_options;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::encryption::encrypt::FileEncryptionProperties;
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

use crate::column_encodings::ColumnEncodings;
use crate::columns_error::ColumnsError;

/// A Parquet file while it is written, under a temporary name.
#[derive(Debug)]
pub(crate) struct ParquetPart {
    /// Path while it is written.
    temporary: PathBuf,
    /// Path when it is complete, below the export's directory.
    target: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<File>,
    /// Number of the last batch, to find the part that was not used for longest.
    pub(crate) last_use: u64,
    rows: u64,
}

/// Compression and encryption of the files of an export.
#[derive(Clone, Debug)]
pub(crate) struct ParquetForm {
    pub(crate) level: ZstdLevel,
    /// Key of all columns and of the footer; `None` for plain files.
    pub(crate) key: Option<ParquetKey>,
}

/// Key that encrypts Parquet files, as Parquet's modular encryption defines it: with one key for the footer and all
/// columns (AES_GCM_V1).
#[derive(Clone)]
pub struct ParquetKey {
    /// Name of the key, which the files state in plain.
    pub name: String,
    /// Bytes of the AES-256 key.
    pub bytes: [u8; 32],
}

impl fmt::Debug for ParquetKey {
    /// Omits the key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("ParquetKey").field(&self.name).finish()
    }
}

impl ParquetForm {
    fn properties(&self) -> WriterPropertiesBuilder {
        // Both have the levels from 1 to 22.
        let level = parquet::basic::ZstdLevel::try_new(i32::from(self.level.get())).unwrap_or_default();
        WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            // Row groups end at a number of bytes, which the export counts.
            .set_max_row_group_row_count(None)
            // Pages end at a number of bytes, too: small ones do not compress well.
            .set_data_page_row_count_limit(usize::MAX)
            .set_created_by(concat!("bintide ", env!("CARGO_PKG_VERSION")).to_owned())
    }

    fn encrypt(&self, properties: WriterPropertiesBuilder) -> Result<WriterPropertiesBuilder, ParquetError> {
        let Some(key) = &self.key else { return Ok(properties) };
        let encryption = FileEncryptionProperties::builder(key.bytes.to_vec())
            .with_footer_key_metadata(key.name.clone().into_bytes())
            .build()?;
        Ok(properties.with_file_encryption_properties(encryption))
    }
}

/// A complete file that still has its temporary name.
#[derive(Debug)]
pub(crate) struct CompletePart {
    /// Path of the file.
    pub(crate) temporary: PathBuf,
    /// Path that it gets, below the export's directory.
    pub(crate) target: PathBuf,
    /// Rows in the file.
    pub(crate) rows: u64,
    /// Size in bytes.
    pub(crate) bytes: u64,
}

impl ParquetPart {
    /// Creates the file for batches like this one, without writing it.
    pub(crate) fn create(
        temporary: PathBuf,
        target: PathBuf,
        first: &RecordBatch,
        form: &ParquetForm,
    ) -> Result<Self, ColumnsError> {
        let file = private_options().write(true).truncate(true).open(&temporary);
        let file = file.map_err(|cause| file_error("create", &temporary, cause))?;
        let schema = first.schema();
        let properties = form.properties();
        // The encryption does not matter for the choice.
        let writer = ColumnEncodings::choose(first, &properties)
            .and_then(|encodings| form.encrypt(encodings.apply(properties)))
            .map(WriterPropertiesBuilder::build)
            .and_then(|properties| ArrowWriter::try_new(file, SchemaRef::clone(&schema), Some(properties)));
        let writer = writer.map_err(|cause| parquet_error(&temporary, cause))?;
        Ok(Self { temporary, target, schema, writer, last_use: 0, rows: 0 })
    }

    /// Returns the schema of the file.
    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Writes a batch. Ends the row group when it has `group_bytes` encoded bytes.
    pub(crate) fn write(&mut self, batch: &RecordBatch, group_bytes: usize) -> Result<(), ColumnsError> {
        self.writer.write(batch).map_err(|cause| parquet_error(&self.temporary, cause))?;
        self.rows += batch.num_rows() as u64;
        match self.writer.in_progress_size() >= group_bytes {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Ends the row group, and frees its memory.
    pub(crate) fn flush(&mut self) -> Result<(), ColumnsError> {
        self.writer.flush().map_err(|cause| parquet_error(&self.temporary, cause))
    }

    /// Returns the memory of the current row group in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.writer.memory_size()
    }

    /// Returns the size of the file so far, without the current row group.
    pub(crate) fn bytes_written(&self) -> usize {
        self.writer.bytes_written()
    }

    /// Completes the file, and syncs it to disk.
    pub(crate) fn complete(mut self) -> Result<CompletePart, ColumnsError> {
        self.writer.finish().map_err(|cause| parquet_error(&self.temporary, cause))?;
        let synced = self.writer.inner().sync_all().and_then(|()| fs::metadata(&self.temporary));
        let bytes = synced.map_err(|cause| file_error("sync", &self.temporary, cause))?.len();
        let Self { temporary, target, rows, .. } = self;
        Ok(CompletePart { temporary, target, rows, bytes })
    }
}

fn parquet_error(path: &Path, cause: ParquetError) -> ColumnsError {
    ColumnsError::Parquet { path: path.to_owned(), cause }
}

pub(crate) fn file_error(action: &'static str, path: &Path, cause: std::io::Error) -> ColumnsError {
    ColumnsError::File { action, path: path.to_owned(), cause }
}
