//! Row counts in a server's answer to `LOAD DATA`.

/// Row counts in a server's answer to `LOAD DATA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadDataCounts {
    /// Rows in the file.
    pub records: u64,
    /// Rows of the table that were replaced.
    pub deleted: u64,
    /// Rows that were not stored: their keys already exist, or a constraint forbids them.
    pub skipped: u64,
    /// Number of warnings.
    pub warnings: u64,
}

impl LoadDataCounts {
    /// Parses the message of an OK packet: `Records: 2  Deleted: 0  Skipped: 1  Warnings: 1`. The words depend on
    /// `lc_messages`, the order of the numbers does not.
    pub(crate) fn parse(info: &[u8]) -> Option<Self> {
        // Servers also send the size of the text, in one byte before it. The size may be the code of a digit.
        let text = match info {
            [size, text @ ..] if usize::from(*size) == text.len() => text,
            text => text,
        };
        let text = String::from_utf8_lossy(text);
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let mut next = || numbers.next()?.parse().ok();
        let counts = Self { records: next()?, deleted: next()?, skipped: next()?, warnings: next()? };
        next().is_none().then_some(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::LoadDataCounts;

    #[test]
    fn counts_are_read_in_every_language() {
        check("Records: 2  Deleted: 0  Skipped: 1  Warnings: 3", Some([2, 0, 1, 3]));
        check("Datensätze: 12  Gelöscht: 4  Ausgelassen: 0  Warnungen: 0", Some([12, 4, 0, 0]));
        // The size of this text is 51, the code of 3.
        check("Records: 60000  Deleted: 0  Skipped: 0  Warnings: 0", Some([60_000, 0, 0, 0]));
        check("Records: 2  Deleted: 0  Skipped: 1", None);
        check("Rows matched: 1  Changed: 1  Warnings: 0  2  3", None);
        check("", None);
    }

    fn check(info: &str, expected: Option<[u64; 4]>) {
        let size = u8::try_from(info.len()).unwrap();
        for info in [info.as_bytes(), &[&[size], info.as_bytes()].concat()] {
            let found = LoadDataCounts::parse(info);
            let found = found.map(|counts| [counts.records, counts.deleted, counts.skipped, counts.warnings]);
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(info));
        }
    }
}
