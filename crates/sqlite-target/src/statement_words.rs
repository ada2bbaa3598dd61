//! Words of a definition's text.

use binlog::{Charset, Collation, Flavour};
use replay::SourceStatement;
use sql::{SqlWords, executed_statement};

/// Splits a statement into words, without comments; `None` if that fails.
pub(crate) fn statement_words(statement: &SourceStatement) -> Option<SqlWords> {
    let charset = client_charset(statement);
    // The server replaces invalid characters by question marks.
    let sql_mode = statement.context.sql_mode.unwrap_or(0);
    let flavour = if statement.context.is_mariadb { Flavour::MariaDb } else { Flavour::MySql };
    let sql = executed_statement(&statement.sql, sql_mode, flavour);
    let text = charset.decode_lossy(&sql).replace(char::REPLACEMENT_CHARACTER, "?");
    let words = SqlWords::parse(&text, sql_mode)?;
    Some(if charset == Charset::Binary { words.with_unknown_charset() } else { words })
}

/// Returns the client's character set.
fn client_charset(statement: &SourceStatement) -> Charset {
    let client = statement.context.charset.map(|[client, ..]| client);
    let collation = client.and_then(|id| Collation::new(id, Flavour::MySql));
    collation.map_or(Charset::Utf8mb4, |collation| collation.charset())
}
