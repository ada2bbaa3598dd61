//! Statements that begin and end transactions, recognized by their first words.

/// Effect of a statement on a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionWord {
    Starts,
    Ends,
    /// A transaction statement that does not end the transaction.
    Stays,
    /// Not a transaction statement.
    Other,
}

/// First words of transaction statements that do not end the transaction.
const STAYING_PREFIXES: [&str; 6] =
    ["SAVEPOINT", "ROLLBACK", "XA START", "XA END", "XA PREPARE", "XA COMMIT"];

impl TransactionWord {
    pub(super) fn of(sql: &[u8]) -> Self {
        // mysqlbinlog compares C strings, so a zero byte ends the text.
        let whole = sql;
        let sql = sql.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_start_of =
            |word: &[u8]| if sql.len() < whole.len() { word == sql } else { word.starts_with(sql) };
        let starts = |word: &str| {
            sql.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        match () {
            () if is_start_of(b"BEGIN") || sql.starts_with(b"XA START") => Self::Starts,
            () if is_start_of(b"COMMIT") => Self::Ends,
            () if starts("ROLLBACK") && !starts("ROLLBACK TO ") => Self::Ends,
            () if starts("XA ROLLBACK") => Self::Ends,
            () if STAYING_PREFIXES.into_iter().any(starts) => Self::Stays,
            () => Self::Other,
        }
    }

    /// Returns whether this is a transaction statement. `--database` keeps these for every database.
    pub(super) fn is_transaction_word(self) -> bool {
        self != Self::Other
    }
}

#[cfg(test)]
mod tests {
    use super::TransactionWord;

    #[test]
    fn words() {
        let check = |sql: &str, expected| assert_eq!(TransactionWord::of(sql.as_bytes()), expected, "{sql}");
        check("BEGIN", TransactionWord::Starts);
        check("begin", TransactionWord::Other);
        check("BEG", TransactionWord::Starts);
        check("BEGIN\0anything", TransactionWord::Starts);
        check("BEG\0IN", TransactionWord::Other);
        check("\0BEGIN", TransactionWord::Other);
        check("XA START X'31',X'',1", TransactionWord::Starts);
        check("COMMIT", TransactionWord::Ends);
        check("COMMIT AND CHAIN", TransactionWord::Other);
        check("rollback", TransactionWord::Ends);
        check("ROLLBACK TO `a`", TransactionWord::Stays);
        check("XA ROLLBACK X'31',X'',1", TransactionWord::Ends);
        check("XA COMMIT X'31',X'',1", TransactionWord::Stays);
        check("savepoint a", TransactionWord::Stays);
        check("insert into t values (1)", TransactionWord::Other);
    }
}
