//! Words of a definition's text.

use binlog::sql_mode::effective_modes;
use binlog::{Charset, Collation};
use replay::SourceStatement;
use sql::{SqlWords, decode_statement, executed_statement};

/// Splits a statement into words, without comments; `None` if that fails.
pub(crate) fn statement_words(statement: &SourceStatement) -> Option<SqlWords> {
    let flavour = statement.context.flavour();
    let client = statement.context.charset.map(|[client, ..]| client);
    // The server replaces invalid characters by question marks.
    let sql_mode = effective_modes(statement.context.sql_mode.unwrap_or(0), flavour);
    let sql = executed_statement(&statement.sql, sql_mode, flavour);
    let text = decode_statement(&sql, client, flavour).replace(char::REPLACEMENT_CHARACTER, "?");
    let words = SqlWords::parse(&text, sql_mode)?;
    let collation = client.and_then(|client| Collation::new(client, flavour));
    let is_binary = collation.is_some_and(|collation| collation.charset() == Charset::Binary);
    Some(if is_binary { words.with_unknown_charset() } else { words })
}
