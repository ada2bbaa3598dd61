//! What ends a statement.

/// Chosen so that no statement holds it.
pub(crate) const DELIMITER: &[u8] = b"/*!*/;";

/// Ends a statement and its line.
#[inline]
pub(crate) fn end_statement(out: &mut Vec<u8>) {
    out.extend_from_slice(b"/*!*/;\n");
}
