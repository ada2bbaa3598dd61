//! Cells of the table of compression, for text and HTML.

use inspect::stats::CompressionRow;

use crate::units::{bytes, count};

/// Titles of the columns; `>` marks columns of numbers.
pub(super) const COMPRESSION_COLUMNS: [&str; 6] =
    ["log", "type", ">transactions", ">stored", ">uncompressed", ">saved"];

/// Returns the cells of a row.
pub(super) fn compression_cells(row: &CompressionRow) -> [String; 6] {
    [
        format!("{:?}", row.log_type).to_uppercase(),
        format!("{:?}", row.compression_type).to_uppercase(),
        count(row.transaction_counter),
        bytes(row.compressed_bytes_counter),
        bytes(row.uncompressed_bytes_counter),
        format!("{} %", row.compression_percentage),
    ]
}
