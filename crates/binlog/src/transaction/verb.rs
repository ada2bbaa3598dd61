//! Effects of statements on their transaction.

/// Effect of a statement on its transaction.
///
/// Servers generate the text of all but [`Verb::Other`] themselves: without comments or synonyms, with quoted names,
/// and with XIDs in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Verb {
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
const VERBS: [(&str, Verb); 9] = [
    ("BEGIN", Verb::Begin),
    ("COMMIT", Verb::Commit),
    ("ROLLBACK TO", Verb::RollbackTo),
    ("ROLLBACK", Verb::Rollback),
    ("SAVEPOINT", Verb::Savepoint),
    ("XA START", Verb::XaStart),
    ("XA END", Verb::XaEnd),
    ("XA COMMIT", Verb::XaCommit),
    ("XA ROLLBACK", Verb::XaRollback),
];

impl Verb {
    /// Returns the verb of a statement in a log.
    pub fn of(sql: &[u8]) -> Self {
        let found = VERBS.iter().find(|(words, _)| starts_with(sql, words.as_bytes()));
        found.map_or(Self::Other, |(_, verb)| *verb)
    }
}

fn starts_with(sql: &[u8], words: &[u8]) -> bool {
    match sql.split_at_checked(words.len()) {
        Some((start, rest)) => start.eq_ignore_ascii_case(words) && !rest.first().is_some_and(is_of_a_name),
        None => false,
    }
}

fn is_of_a_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::Verb;

    #[test]
    fn verbs() {
        let check = |sql: &str, wanted| assert_eq!(Verb::of(sql.as_bytes()), wanted, "{sql}");
        check("BEGIN", Verb::Begin);
        check("begin", Verb::Begin);
        check("BEGINNING", Verb::Other);
        check("BEG", Verb::Other);
        check("", Verb::Other);
        check("COMMIT", Verb::Commit);
        check("COMMIT /* added by hand */", Verb::Commit);
        check("ROLLBACK", Verb::Rollback);
        check("ROLLBACK TO `s 1`", Verb::RollbackTo);
        check("ROLLBACK_TO", Verb::Other);
        check("SAVEPOINT `s`", Verb::Savepoint);
        check("XA START X'7831',X'6231',7", Verb::XaStart);
        check("XA END X'7831',X'',1", Verb::XaEnd);
        check("XA COMMIT X'7831',X'',1", Verb::XaCommit);
        check("XA ROLLBACK X'7831',X'',1", Verb::XaRollback);
        check("/* c */ COMMIT", Verb::Other);
        check("CREATE PROCEDURE p() BEGIN END", Verb::Other);
    }
}
