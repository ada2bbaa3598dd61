//! SQL of the progress table, and of values and variables.

use std::fmt::Write as _;

use binlog::{Charset, Collation, Decimal};
use replay::{
    ReplayProgress, SourceRange, StatementInput, StatementIntent, TargetFailure, UserVariableValue,
};
use sql::quote::{parse_hex, put_hex, put_name};

/// The table for saved progress.
pub(crate) const PROGRESS_TABLE: &str = "`bintide`.`progress`";

/// Statements that create the progress table if it is missing.
pub(crate) const CREATE_PROGRESS_TABLE: [&str; 2] = [
    "CREATE DATABASE IF NOT EXISTS `bintide` CHARACTER SET utf8mb4",
    "CREATE TABLE IF NOT EXISTS `bintide`.`progress` (
       stream INT NOT NULL PRIMARY KEY COMMENT '1; with --commit-order any one row per session, united when the next replay starts',
       gtids LONGTEXT CHARACTER SET ascii NOT NULL COMMENT 'applied GTIDs, in addition to gtid_executed',
       log VARBINARY(4096) COMMENT 'log up to which all transactions without GTIDs are applied',
       position BIGINT UNSIGNED COMMENT 'position in log up to which all transactions without GTIDs are applied',
       beyond LONGTEXT CHARACTER SET ascii NOT NULL COMMENT 'start positions of applied transactions beyond that position',
       intent LONGTEXT CHARACTER SET ascii COMMENT 'a statement that commits implicitly: started, not yet recorded as done',
       sessions INT NOT NULL COMMENT 'number of sessions in use',
       source INT UNSIGNED COMMENT 'server_id of the server that wrote the logs',
       commits BIGINT UNSIGNED NOT NULL COMMENT 'number of transactions committed here in source order'
     ) ENGINE = InnoDB COMMENT 'progress of bintide replay; drop this table to discard it'",
];

/// Returns the statement that inserts a row of the progress table if it is missing.
pub(crate) fn insert_stream_sql(stream: usize) -> String {
    assert!(stream > 0, "ours: the rows of the progress table are numbered from 1");
    format!("INSERT IGNORE INTO {PROGRESS_TABLE} VALUES ({stream}, '', NULL, NULL, '', NULL, 0, NULL, 0)")
}

/// Returns the statements that unite all rows of the progress table in the first.
pub(crate) fn unite_streams_sql(progress: &ReplayProgress) -> String {
    let gtids = &progress.gtids;
    format!(
        "START TRANSACTION; UPDATE {PROGRESS_TABLE} SET gtids='{gtids}' WHERE stream=1;
         DELETE FROM {PROGRESS_TABLE} WHERE stream>1; COMMIT"
    )
}

/// ER_DATA_OUT_OF_RANGE: the error of the statement that saves progress if the previous transaction was not saved.
pub(crate) const PROGRESS_OUT_OF_ORDER: u16 = 1690;

/// Appends the statement that saves progress in a row of the table. The statement waits for a session that has locked
/// the row. If that session rolls back, the number of this transaction is not the next number, and this transaction
/// must not commit. The statement then adds to the largest BIGINT, which is an error in every SQL mode.
///
/// Columns that have their value already are left out: the server then compares and logs less.
pub(crate) fn put_progress(
    out: &mut String,
    progress: &ReplayProgress,
    stream: usize,
    saved_intent: SavedIntent,
) {
    assert!(stream > 0, "ours: the rows of the progress table are numbered from 1");
    let _ = write!(out, "UPDATE {PROGRESS_TABLE} SET gtids='{}'", progress.gtids);
    if let Some(end) = &progress.position {
        out.push_str(",log=X'");
        put_hex(out, end.log.as_bytes());
        let _ = write!(out, "',position={}", end.position);
    }
    // Without a position, `beyond` has at most the first transaction: a statement that was interrupted after it ran.
    if progress.position.is_some() || !progress.beyond.is_empty() {
        let _ = write!(out, ",beyond='{}'", beyond_text(&progress.beyond));
    }
    if saved_intent == SavedIntent::Possible {
        out.push_str(",intent=NULL");
    }
    if let Some(commits) = progress.commits {
        let before = commits.saturating_sub(1);
        let _ = write!(out, ",commits=IF(commits={before},{commits},~0+commits+1)");
    }
    let _ = write!(out, " WHERE stream={stream};");
}

/// Returns the text of the column `beyond`: a line with the log and the first and last start for each range.
pub(crate) fn beyond_text(beyond: &[SourceRange]) -> String {
    let mut text = String::new();
    for range in beyond {
        put_hex(&mut text, range.log.as_bytes());
        let _ = writeln!(text, " {}", range.starts());
    }
    text
}

/// Knowledge about the progress row's intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SavedIntent {
    /// The row has no intent.
    None,
    /// The row may have an intent, which saved progress clears.
    Possible,
}

/// Returns the statement that removes a saved intent.
pub(crate) fn withdraw_intent_sql() -> String {
    format!("UPDATE {PROGRESS_TABLE} SET intent=NULL WHERE stream=1")
}

/// Returns the statement that saves an intent: hexadecimal words, which survive any character set.
pub(crate) fn save_intent_sql(intent: &StatementIntent) -> String {
    assert!(!intent.transaction.is_empty(), "ours: an announced statement has a GTID or a position");
    let mut out = format!("UPDATE {PROGRESS_TABLE} SET intent='");
    let databases = intent.databases.iter().map(Vec::as_slice);
    for word in [intent.transaction.as_bytes(), intent.before.as_bytes()].into_iter().chain(databases) {
        put_hex(&mut out, word);
        out.push(' ');
    }
    out.push_str("' WHERE stream=1");
    out
}

pub(crate) fn read_intent(text: &str) -> Option<StatementIntent> {
    let mut words = text.split_terminator(' ').map(parse_hex);
    let mut text = || String::from_utf8(words.next()??).ok();
    let (transaction, before) = (text()?, text()?);
    let databases = words.collect::<Option<Vec<_>>>()?;
    Some(StatementIntent { transaction, databases, before })
}

/// Function that finds the target's collation for a collation number in the log.
pub(crate) type CollationLookup<'f> = &'f dyn Fn(u16) -> Option<Collation>;

/// Appends assignments for a `SET` statement, each followed by a comma.
pub(crate) fn put_variable(
    out: &mut Vec<u8>,
    variable: &StatementInput,
    collations: CollationLookup<'_>,
) -> Result<(), TargetFailure> {
    match variable {
        StatementInput::LastInsertId(id) => {
            out.extend_from_slice(format!("@@session.last_insert_id={id},").as_bytes())
        }
        StatementInput::InsertId(id) => {
            out.extend_from_slice(format!("@@session.insert_id={id},").as_bytes())
        }
        StatementInput::RandomSeeds(one, two) => {
            let text = format!("@@session.rand_seed1={one},@@session.rand_seed2={two},");
            out.extend_from_slice(text.as_bytes());
        }
        StatementInput::User { name, value } => {
            out.push(b'@');
            put_name(out, name);
            out.extend_from_slice(b":=");
            match value {
                None => out.extend_from_slice(b"NULL"),
                Some(value) => put_value(out, value, collations).ok_or_else(|| {
                    let name = String::from_utf8_lossy(name);
                    TargetFailure::refused(format!(
                        "the log has an invalid value of the user variable {name}"
                    ))
                })?,
            }
            out.push(b',');
        }
    }
    Ok(())
}

/// Returns name, collation and text of a user variable whose text may be invalid in its character set. A server accepts
/// such text from a client, but not in a literal with a character set introducer.
pub(crate) fn unverified_text<'v>(
    variable: &'v StatementInput,
    collations: CollationLookup<'_>,
) -> Option<(&'v [u8], Collation, &'v [u8])> {
    use binlog::events::UserVarValue as Kind;
    let StatementInput::User { name, value: Some(value) } = variable else { return None };
    let collation = collations(u16::try_from(value.collation).ok()?)?;
    let is_odd = value.kind == Kind::STRING && !is_surely_valid(collation.charset(), &value.bytes);
    is_odd.then_some((name, collation, &value.bytes))
}

/// Returns true if every server accepts these bytes as text of this character set. Also true for the 16-bit and 32-bit
/// character sets, which no client can use.
fn is_surely_valid(charset: Charset, bytes: &[u8]) -> bool {
    match charset {
        Charset::Binary | Charset::Ucs2 | Charset::Utf16 | Charset::Utf16le | Charset::Utf32 => true,
        _ if bytes.is_ascii() => true,
        Charset::Ascii => false,
        Charset::Utf8mb4 => str::from_utf8(bytes).is_ok(),
        Charset::Utf8mb3 => {
            str::from_utf8(bytes).is_ok_and(|text| text.chars().all(|one| one.len_utf8() < 4))
        }
        other => other.character_size_max() == 1,
    }
}

/// Appends a value; returns `None` if it is invalid.
fn put_value(out: &mut Vec<u8>, value: &UserVariableValue, collations: CollationLookup<'_>) -> Option<()> {
    use binlog::events::UserVarValue as Kind;
    match (value.kind, value.bytes.first_chunk::<8>()) {
        (Kind::STRING, _) => {
            let number = u16::try_from(value.collation).ok();
            let collation = number.and_then(collations)?;
            let mut text = format!("_{} X'", collation.charset().name());
            put_hex(&mut text, &value.bytes);
            let _ = write!(text, "' COLLATE `{}`", collation.name());
            out.extend_from_slice(text.as_bytes());
        }
        (Kind::REAL, Some(bytes)) => {
            // A literal without an exponent would be a DECIMAL.
            out.extend_from_slice(format!("{:e}", f64::from_le_bytes(*bytes)).as_bytes());
        }
        (Kind::INT, Some(bytes)) if value.is_unsigned => {
            out.extend_from_slice(u64::from_le_bytes(*bytes).to_string().as_bytes());
        }
        (Kind::INT, Some(bytes)) => {
            out.extend_from_slice(i64::from_le_bytes(*bytes).to_string().as_bytes());
        }
        (Kind::DECIMAL, _) => match value.bytes.as_slice() {
            [precision, scale, digits @ ..] => {
                Decimal::new(digits, *precision, *scale).ok()?.write(out);
            }
            _ => return None,
        },
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use binlog::{Collation, Flavour};
    use replay::{ReplayProgress, SourcePosition, StatementInput, StatementIntent, UserVariableValue};

    use super::{SavedIntent, put_progress, put_variable, read_intent, save_intent_sql, unverified_text};

    fn own(id: u16) -> Option<Collation> {
        Collation::new(id, Flavour::MySql)
    }

    #[test]
    fn intents_round_trip() {
        let expected = StatementIntent {
            transaction: "log:4".into(),
            databases: vec![b"d".to_vec(), b"\xff'".to_vec()],
            before: "x".into(),
        };
        let sql = save_intent_sql(&expected);
        let text = sql.split('\'').nth(1).unwrap();
        assert_eq!(read_intent(text), Some(expected));
    }

    #[test]
    fn progress_is_one_statement() {
        let check = |progress: &ReplayProgress, intent, expected: &str| {
            let mut sql = String::new();
            put_progress(&mut sql, progress, 1, intent);
            assert_eq!(sql, format!("UPDATE `bintide`.`progress` SET {expected} WHERE stream=1;"));
        };
        let position = SourcePosition { log: "b.1".into(), position: 99 };
        let progress = ReplayProgress {
            gtids: Default::default(),
            position: Some(position.clone()),
            beyond: vec![position.into()],
            commits: Some(7),
        };
        let expected = "gtids='',log=X'622e31',position=99,beyond='622e31 99-99\n',intent=NULL,\
                        commits=IF(commits=6,7,~0+commits+1)";
        check(&progress, SavedIntent::Possible, expected);
        let progress = ReplayProgress { position: None, beyond: Vec::new(), ..progress };
        check(&progress, SavedIntent::Possible, "gtids='',intent=NULL,commits=IF(commits=6,7,~0+commits+1)");
        check(&progress, SavedIntent::None, "gtids='',commits=IF(commits=6,7,~0+commits+1)");
        // The first transaction was a statement that was interrupted, but was run.
        let first = SourcePosition { log: "b.1".into(), position: 4 };
        let settled = ReplayProgress { beyond: vec![first.into()], commits: None, ..progress.clone() };
        check(&settled, SavedIntent::None, "gtids='',beyond='622e31 4-4\n'");
        check(&ReplayProgress { commits: None, ..progress }, SavedIntent::None, "gtids=''");
    }

    #[test]
    fn texts_that_a_literal_cannot_contain() {
        let check = |collation, bytes: &[u8], expected| {
            let value =
                Some(UserVariableValue { kind: 0, collation, bytes: bytes.to_vec(), is_unsigned: false });
            let is_odd =
                unverified_text(&StatementInput::User { name: b"v".to_vec(), value }, &own).is_some();
            assert_eq!(is_odd, expected, "{collation} {bytes:?}");
        };
        // gbk: a lead byte followed by a byte that cannot follow it.
        check(28, b"\xa2#", true);
        check(28, b"a#", false);
        // utf8mb4, utf8mb3, latin1, ascii, binary, utf16.
        check(255, "é😀".as_bytes(), false);
        check(255, b"\xc3(", true);
        check(33, "é".as_bytes(), false);
        check(33, "😀".as_bytes(), true);
        check(8, b"\xa2#", false);
        check(11, b"\xa2#", true);
        check(63, b"\xa2#", false);
        check(54, b"\xa2#", false);
    }

    #[test]
    fn variables() {
        let check = |kind, bytes: &[u8], is_unsigned, expected: &str| {
            let value = Some(UserVariableValue { kind, collation: 255, bytes: bytes.to_vec(), is_unsigned });
            let mut out = Vec::new();
            put_variable(&mut out, &StatementInput::User { name: b"a`b".to_vec(), value }, &own).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), format!("@`a``b`:={expected},"));
        };
        check(0, b"it's", false, "_utf8mb4 X'69742773' COLLATE `utf8mb4_0900_ai_ci`");
        check(1, &1.5f64.to_le_bytes(), false, "1.5e0");
        check(2, &(-3i64).to_le_bytes(), false, "-3");
        check(2, &u64::MAX.to_le_bytes(), true, "18446744073709551615");
        check(4, &[3, 1, 0x80 | 12, 5], false, "12.5");
        let refused = |kind, collation, bytes: &[u8]| {
            let value =
                Some(UserVariableValue { kind, collation, bytes: bytes.to_vec(), is_unsigned: false });
            let input = StatementInput::User { name: b"v".to_vec(), value };
            let failure = put_variable(&mut Vec::new(), &input, &own).unwrap_err();
            assert_eq!(failure.message, "the log has an invalid value of the user variable v");
        };
        refused(0, 60_000, b"text");
        refused(1, 63, b"short");
        refused(2, 63, b"short");
        refused(4, 63, &[3, 5, 0x80, 5]);
        refused(9, 63, b"of no known kind");
    }
}
