//! Scripts of one query that only reads. Tests run thousands of them, and a client program for each would take a large
//! part of their time.

use std::path::Path;

use anyhow::{Result, anyhow};
use servers::{ConnectionError, ServerAddress, SqlConnection};

/// First words of statements that only read.
const READS: [&str; 3] = ["select", "show", "checksum"];

/// Returns the query of a script, if the script has only one, and the query only reads. Scripts with comments, or with
/// a semicolon or backslash in a text, are left to the client program, which divides scripts into statements.
pub(crate) fn lone_query(script: &str) -> Option<&str> {
    let query = script.trim();
    let query = query.strip_suffix(';').unwrap_or(query).trim_end();
    let first = query.split_whitespace().next()?;
    let is_plain = !query.contains([';', '\\', '#', '\0']) && !query.contains("--") && !query.contains("/*");
    (is_plain && READS.iter().any(|read| first.eq_ignore_ascii_case(read))).then_some(query)
}

/// Runs a query in a session of its own, and returns its output in the form of the client program.
///
/// # Errors
/// Fails if the server cannot be reached, or refuses the query.
pub(crate) fn run(socket: &Path, query: &str) -> Result<String> {
    let address = ServerAddress::parse(&format!("mysql://root@localhost/?socket={}", socket.display()))?;
    let opened = SqlConnection::open_for_single_statements(&address);
    let rows = opened.and_then(|mut connection| connection.rows(query)).map_err(client_error)?;
    let mut output = Vec::new();
    for row in rows {
        let values: Vec<&[u8]> = row.iter().map(|value| value.as_deref().unwrap_or(b"NULL")).collect();
        output.extend(values.join(&b'\t'));
        output.push(b'\n');
    }
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// Returns the error as the client program reports it, but without the SQLSTATE.
fn client_error(error: ConnectionError) -> anyhow::Error {
    match error {
        ConnectionError::Refused { code, message } => anyhow!("ERROR {code} at line 1: {message}"),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::lone_query;

    #[test]
    fn only_single_reads_are_lone() {
        for (script, expected) in [
            (" select 1 ;\n", Some("select 1")),
            ("SHOW\nTABLES", Some("SHOW\nTABLES")),
            ("checksum table d.t", Some("checksum table d.t")),
            ("select 1; select 2", None),
            ("select ';'", None),
            ("select 1 -- one", None),
            (r"select '\n'", None),
            ("selected", None),
            ("insert into d.t values (1)", None),
            ("", None),
        ] {
            assert_eq!(lone_query(script), expected, "{script:?}");
        }
    }
}
