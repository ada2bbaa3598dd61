//! The character set of a column.

use binlog::{Charset, Collation, Column, EventFormat};

/// Returns the character set of a column's texts.
pub(crate) fn charset_of(column: &Column, format: &EventFormat) -> Option<Charset> {
    Collation::new(column.collation?, format.flavour).map(|collation| collation.charset())
}
