//! Words of a definition's text.

use binlog::{Charset, Collation, Flavour};
use filter::Words;

use crate::work::Statement;

/// Splits a statement into words, without comments; `None` if that fails.
pub(super) fn words(statement: &Statement) -> Option<Words> {
    let charset = charset(statement);
    // The server replaces invalid characters by question marks.
    let text = charset.decode_lossy(&statement.sql).replace(char::REPLACEMENT_CHARACTER, "?");
    let words = Words::of(&text, statement.context.sql_mode.unwrap_or(0))?;
    Some(if charset == Charset::Binary { words.of_bytes() } else { words })
}

/// Returns the client's character set.
fn charset(statement: &Statement) -> Charset {
    let client = statement.context.charset.map(|[client, ..]| client);
    let collation = client.and_then(|id| Collation::new(id, Flavour::MySql));
    collation.map_or(Charset::Utf8mb4, |collation| collation.charset())
}
