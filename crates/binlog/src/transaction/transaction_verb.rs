//! Effects of statements on their transaction.

/// Effect of a statement on its transaction.
///
/// Servers generate the text of all but [`TransactionVerb::Other`] themselves: without comments or synonyms, with
/// quoted names, and with XIDs in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TransactionVerb {
    /// `BEGIN`
    Begin,
    /// `COMMIT`
    Commit,
    /// `ROLLBACK`
    Rollback,
    /// `ROLLBACK TO` a savepoint.
    RollbackTo,
    /// `SAVEPOINT`
    Savepoint,
    /// `XA START`
    XaStart,
    /// `XA END`
    XaEnd,
    /// `XA COMMIT`
    XaCommit,
    /// `XA ROLLBACK`
    XaRollback,
    /// Any other statement.
    Other,
}

/// Keywords by verb; the first match counts. Case does not matter, and the last keyword ends where an identifier
/// would end.
const VERBS: [(&str, TransactionVerb); 9] = [
    ("BEGIN", TransactionVerb::Begin),
    ("COMMIT", TransactionVerb::Commit),
    ("ROLLBACK TO", TransactionVerb::RollbackTo),
    ("ROLLBACK", TransactionVerb::Rollback),
    ("SAVEPOINT", TransactionVerb::Savepoint),
    ("XA START", TransactionVerb::XaStart),
    ("XA END", TransactionVerb::XaEnd),
    ("XA COMMIT", TransactionVerb::XaCommit),
    ("XA ROLLBACK", TransactionVerb::XaRollback),
];

impl TransactionVerb {
    /// Returns the verb of a statement in a log.
    pub fn of(sql: &[u8]) -> Self {
        find_words(sql).map_or(Self::Other, |(_, verb)| verb)
    }

    /// Returns the XID of an `XA` statement in a log, as servers write it: `X'67',X'62',1`.
    pub fn xid(sql: &[u8]) -> Option<&str> {
        let (words, _) = find_words(sql).filter(|(words, _)| words.starts_with("XA "))?;
        let xid = str::from_utf8(&sql[words.len()..]).ok()?.strip_prefix(' ')?;
        Some(xid.trim_end_matches(" ONE PHASE"))
    }
}

/// Returns the keywords at the start of a statement, and their verb.
fn find_words(sql: &[u8]) -> Option<(&'static str, TransactionVerb)> {
    VERBS.into_iter().find(|(words, _)| starts_with(sql, words.as_bytes()))
}

fn starts_with(sql: &[u8], words: &[u8]) -> bool {
    match sql.split_at_checked(words.len()) {
        Some((start, rest)) => start.eq_ignore_ascii_case(words) && !rest.first().is_some_and(is_name_byte),
        None => false,
    }
}

fn is_name_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::TransactionVerb;

    #[test]
    fn verbs() {
        let check = |sql: &str, expected| assert_eq!(TransactionVerb::of(sql.as_bytes()), expected, "{sql}");
        check("BEGIN", TransactionVerb::Begin);
        check("begin", TransactionVerb::Begin);
        check("BEGINNING", TransactionVerb::Other);
        check("BEG", TransactionVerb::Other);
        check("", TransactionVerb::Other);
        check("COMMIT", TransactionVerb::Commit);
        check("COMMIT /* added by hand */", TransactionVerb::Commit);
        check("ROLLBACK", TransactionVerb::Rollback);
        check("ROLLBACK TO `s 1`", TransactionVerb::RollbackTo);
        check("ROLLBACK_TO", TransactionVerb::Other);
        check("SAVEPOINT `s`", TransactionVerb::Savepoint);
        check("XA START X'7831',X'6231',7", TransactionVerb::XaStart);
        check("XA END X'7831',X'',1", TransactionVerb::XaEnd);
        check("XA COMMIT X'7831',X'',1", TransactionVerb::XaCommit);
        check("XA ROLLBACK X'7831',X'',1", TransactionVerb::XaRollback);
        check("/* c */ COMMIT", TransactionVerb::Other);
        check("CREATE PROCEDURE p() BEGIN END", TransactionVerb::Other);
    }

    #[test]
    fn xids() {
        let check = |sql: &str, expected| assert_eq!(TransactionVerb::xid(sql.as_bytes()), expected, "{sql}");
        check("XA START X'7831',X'',1", Some("X'7831',X'',1"));
        check("xa rollback X'7831',X'',1", Some("X'7831',X'',1"));
        check("XA COMMIT X'7831',X'',1 ONE PHASE", Some("X'7831',X'',1"));
        check("XA END", None);
        check("ROLLBACK X'7831'", None);
        check("SELECT 1", None);
    }
}
