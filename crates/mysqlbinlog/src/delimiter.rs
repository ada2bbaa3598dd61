//! The delimiter after each printed statement.

/// mysqlbinlog's delimiter, which no statement contains.
pub(crate) const DELIMITER: &[u8] = b"/*!*/;";

/// Appends the delimiter and a newline.
#[inline]
pub(crate) fn end_statement(out: &mut Vec<u8>) {
    out.extend_from_slice(b"/*!*/;\n");
}
