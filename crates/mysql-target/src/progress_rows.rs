//! Reads the rows of the progress table.

use binlog::gtid::GtidSet;
use binlog::server_error::{DBACCESS_DENIED_ERROR, TABLEACCESS_DENIED_ERROR};
use replay::{AppliedState, ReplayProgress, SourcePosition, SourceRange, TargetFailure};
use servers::{ResultRow, SqlConnection};
use sql::quote::parse_hex;

use crate::progress_sql::{self, PROGRESS_TABLE};
use crate::server_failure::server_failure;

/// Reads the progress table; `None` if there is no such table.
pub(crate) fn read_progress(connection: &mut SqlConnection) -> Result<Option<AppliedState>, TargetFailure> {
    const NO_SUCH_TABLE: u16 = 1146;
    const UNKNOWN_DATABASE: u16 = 1049;
    let question = format!(
        "SELECT gtids, HEX(log), position, beyond, intent, commits FROM {PROGRESS_TABLE} ORDER BY stream"
    );
    match connection.rows(&question) {
        Ok(rows) => unite_progress_rows(rows).map(Some),
        Err(error) if matches!(error.code(), Some(NO_SUCH_TABLE | UNKNOWN_DATABASE)) => Ok(None),
        // The account may not see the table, so treat it as missing.
        Err(error) if matches!(error.code(), Some(TABLEACCESS_DENIED_ERROR | DBACCESS_DENIED_ERROR)) => {
            Ok(None)
        }
        Err(error) => Err(server_failure(error)),
    }
}

/// Unites all rows of the progress table. Rows after the first hold GTIDs only.
fn unite_progress_rows(rows: Vec<ResultRow>) -> Result<AppliedState, TargetFailure> {
    let mut rows = rows.into_iter().map(parse_progress_row);
    let mut all = rows.next().transpose()?.unwrap_or_default();
    for row in rows {
        all.progress.gtids.add_all(&row?.progress.gtids);
    }
    Ok(all)
}

/// Reads the `server_id` of the server whose logs the progress refers to.
pub(crate) fn read_source(connection: &mut SqlConnection) -> Result<Option<u32>, TargetFailure> {
    let source = connection
        .value(&format!("SELECT source FROM {PROGRESS_TABLE} WHERE stream = 1"))
        .map_err(server_failure)?;
    Ok(source.and_then(|number| number.parse().ok()))
}

/// Decodes one row of the progress table.
fn parse_progress_row(row: ResultRow) -> Result<AppliedState, TargetFailure> {
    let mut columns =
        row.into_iter().map(|value| value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
    let mut next = || columns.next().flatten();
    let gtids = parse_gtid_set(&next().unwrap_or_default())?;
    let reached = match (next(), next()) {
        (Some(log), Some(position)) => Some(parse_position(&log, &position)?),
        _ => None,
    };
    let beyond = next().unwrap_or_default();
    let beyond = beyond.lines().map(parse_range);
    let intent = next().as_deref().and_then(progress_sql::read_intent);
    let commits = next().and_then(|count| count.parse().ok());
    let beyond = beyond.collect::<Result<_, _>>()?;
    let progress = ReplayProgress { gtids, position: reached, beyond, commits };
    Ok(AppliedState { progress, executed: GtidSet::new(), intent })
}

fn parse_position(log: &str, position: &str) -> Result<SourcePosition, TargetFailure> {
    let malformed =
        || TargetFailure::refused(format!("bintide.progress contains an invalid position: {log} {position}"));
    let log = parse_log(log).ok_or_else(malformed)?;
    Ok(SourcePosition { log, position: position.parse().map_err(|_| malformed())? })
}

/// Parses the hexadecimal name of a log.
fn parse_log(digits: &str) -> Option<String> {
    parse_hex(digits).and_then(|bytes| String::from_utf8(bytes).ok())
}

/// Parses a line of the column `beyond`, such as `622e31 4-99`.
fn parse_range(line: &str) -> Result<SourceRange, TargetFailure> {
    let malformed =
        || TargetFailure::refused(format!("bintide.progress contains an invalid position: {line}"));
    let (log, starts) = line.split_once(' ').ok_or_else(malformed)?;
    let log = parse_log(log).ok_or_else(malformed)?;
    SourceRange::parse(log, starts).ok_or_else(malformed)
}

pub(crate) fn parse_gtid_set(text: &str) -> Result<GtidSet, TargetFailure> {
    text.parse().map_err(|_| TargetFailure::refused(format!("invalid GTID set: {text}")))
}

#[cfg(test)]
mod tests {
    use super::{parse_gtid_set, parse_position};

    #[test]
    fn saved_progress_is_checked() {
        let position = parse_position("622e31", "99").unwrap();
        assert_eq!((position.log.as_str(), position.position), ("b.1", 99));
        let check = |log: &str, position: &str, expected: &str| {
            assert_eq!(parse_position(log, position).unwrap_err().message, expected);
        };
        check("b.1", "99", "bintide.progress contains an invalid position: b.1 99");
        check("ff", "99", "bintide.progress contains an invalid position: ff 99");
        check("622e31", "-1", "bintide.progress contains an invalid position: 622e31 -1");
        let error = parse_gtid_set("x:1").unwrap_err().message;
        assert_eq!(error, "invalid GTID set: x:1");
    }
}
