//! Choice of the encoding and compression of each column of a Parquet file, by a trial with the first rows.

use std::io;

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::schema::types::ColumnPath;

use crate::change_schema::names;

/// Number of rows of the trial. More rows cost time for each file.
const TRIAL_ROWS_MAX: usize = 8192;

/// Number of rows below which there is no trial: the encoding hardly matters.
const TRIAL_ROWS_MIN: usize = 256;

/// Encodings and compression of a file's columns.
#[derive(Debug, Default)]
pub(crate) struct ColumnEncodings {
    columns: Vec<ColumnEncoding>,
}

/// Encoding and compression of a column.
#[derive(Debug)]
struct ColumnEncoding {
    path: ColumnPath,
    /// Encoding without a dictionary; `None` for a dictionary.
    plain: Option<Encoding>,
    /// Set if zstd compresses the column better if it looks only for long repetitions, as at level 1: digits and hashes
    /// have short ones by chance.
    is_random: bool,
}

impl ColumnEncodings {
    /// Chooses what makes the first rows of a batch smallest. `properties` are those of the file.
    pub(crate) fn choose(
        batch: &RecordBatch,
        properties: &WriterPropertiesBuilder,
    ) -> Result<Self, ParquetError> {
        if batch.num_rows() < TRIAL_ROWS_MIN {
            return Ok(Self::default());
        }
        let sample = batch.slice(0, batch.num_rows().min(TRIAL_ROWS_MAX));
        let mut chosen = Self::choose_encodings(&sample, properties)?;
        let smallest = trial(&sample, chosen.apply(properties.clone()))?;
        let fast = properties.clone().set_compression(fast_compression());
        let fast = trial(&sample, chosen.apply(fast))?;
        for ((column, smallest), fast) in chosen.columns.iter_mut().zip(&smallest).zip(&fast) {
            column.is_random = fast.compressed_size() < smallest.compressed_size();
        }
        Ok(chosen)
    }

    fn choose_encodings(
        sample: &RecordBatch,
        properties: &WriterPropertiesBuilder,
    ) -> Result<Self, ParquetError> {
        let with_dictionary = trial(sample, properties.clone())?;
        let without_dictionary = properties.clone().set_dictionary_enabled(false);
        let plain = trial(sample, without_dictionary.clone())?;
        let mut with_differences = without_dictionary;
        for column in &plain {
            if let Some(encoding) = difference_encoding(column.column_type()) {
                with_differences =
                    with_differences.set_column_encoding(column.column_path().clone(), encoding);
            }
        }
        let differences = trial(sample, with_differences)?;
        let mut columns = Vec::new();
        for ((dictionary, plain), differences) in with_dictionary.iter().zip(&plain).zip(&differences) {
            let candidates = [
                (dictionary, None),
                (plain, Some(Encoding::PLAIN)),
                (differences, difference_encoding(plain.column_type())),
            ];
            // The first one of equal size: a dictionary also serves values that repeat later.
            let best = candidates.into_iter().min_by_key(|(column, _)| column.compressed_size());
            let encoding = best.and_then(|(_, encoding)| encoding);
            let path = dictionary.column_path().clone();
            columns.push(ColumnEncoding { path, plain: encoding, is_random: false });
        }
        // The first rows may be all INSERTs: their file can have values before changes later.
        for (index, column) in with_dictionary.iter().enumerate().filter(|(_, column)| is_empty(column)) {
            let twin = twin_name(column.column_path());
            let twin = columns.iter().find(|other| twin.as_deref() == Some(other.path.parts()));
            if let Some(plain) = twin.map(|twin| twin.plain) {
                columns[index].plain = plain;
            }
        }
        Ok(Self { columns })
    }

    /// Adds the choice to the properties of a file.
    pub(crate) fn apply(&self, mut properties: WriterPropertiesBuilder) -> WriterPropertiesBuilder {
        for ColumnEncoding { path, plain, is_random } in &self.columns {
            if let Some(encoding) = *plain {
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path.clone(), encoding);
            }
            if *is_random {
                properties = properties.set_column_compression(path.clone(), fast_compression());
            }
        }
        properties
    }
}

/// Returns whether all values of a column are null.
fn is_empty(column: &ColumnChunkMetaData) -> bool {
    let nulls = column.statistics().and_then(|statistics| statistics.null_count_opt());
    nulls.is_some_and(|nulls| i64::try_from(nulls) == Ok(column.num_values()))
}

/// Returns the name of the same column in the other image.
fn twin_name(path: &ColumnPath) -> Option<Vec<String>> {
    let (image, rest) = path.parts().split_first()?;
    let other = match image.as_str() {
        names::BEFORE => names::AFTER,
        names::AFTER => names::BEFORE,
        _ => return None,
    };
    Some([&[other.to_owned()], rest].concat())
}

/// Returns the compression that looks only for long repetitions.
fn fast_compression() -> Compression {
    Compression::ZSTD(ZstdLevel::try_new(1).unwrap_or_default())
}

/// Returns the encoding by differences that common readers know.
const fn difference_encoding(column_type: Type) -> Option<Encoding> {
    match column_type {
        Type::INT32 | Type::INT64 => Some(Encoding::DELTA_BINARY_PACKED),
        Type::BYTE_ARRAY => Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        _ => None,
    }
}

/// Encodes rows as a file that is thrown away, and returns what is known of its columns.
fn trial(
    rows: &RecordBatch,
    properties: WriterPropertiesBuilder,
) -> Result<Vec<ColumnChunkMetaData>, ParquetError> {
    let mut writer = ArrowWriter::try_new(io::sink(), rows.schema(), Some(properties.build()))?;
    writer.write(rows)?;
    let file = writer.close()?;
    Ok(file.row_groups().iter().flat_map(|group| group.columns().iter().cloned()).collect())
}
