//! Logs that are missing between two logs, by their numbers.

use std::fmt;
use std::path::Path;

use logs::split_log_number;

/// Logs that are missing between two logs, by their numbers: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLogs {
    stem: String,
    /// Number of digits of the log before them.
    digits: usize,
    first: u64,
    last: u64,
}

impl MissingLogs {
    /// Returns the logs that are missing between two logs in one directory; `None` if there are none, or if the names
    /// do not show it.
    pub fn between(before: &str, after: &str) -> Option<Self> {
        let (stem, number) = split_log_number(before)?;
        let (next_stem, next) = split_log_number(after)?;
        let is_same_series = stem == next_stem && Path::new(before).parent() == Path::new(after).parent();
        let (first, last) = (number.checked_add(1)?, next.checked_sub(1)?);
        let digits = base_name(before).len() - stem.len() - 1;
        (is_same_series && first <= last).then(|| Self { stem: stem.to_owned(), digits, first, last })
    }

    /// Returns whether a log is one of the missing ones, by its name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        let Self { stem, first, last, .. } = self;
        split_log_number(name)
            .is_some_and(|(other, number)| other == stem && (*first..=*last).contains(&number))
    }

    /// Returns the verb for these logs.
    pub const fn verb(&self) -> &'static str {
        if self.first == self.last { "is" } else { "are" }
    }
}

impl fmt::Display for MissingLogs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stem, digits, first, last } = self;
        write!(out, "{stem}.{first:0digits$}")?;
        match last - first {
            0 => Ok(()),
            1 => write!(out, " and {stem}.{last:0digits$}"),
            _ => write!(out, " to {stem}.{last:0digits$}"),
        }
    }
}

/// Returns whether a log precedes another log of the same directory, by their numbers.
pub(crate) fn precedes(name: &str, other: &str) -> bool {
    let numbers = split_log_number(name).zip(split_log_number(other));
    let is_less = numbers.is_some_and(|((stem, number), (other, later))| stem == other && number < later);
    is_less && Path::new(name).parent() == Path::new(other).parent()
}

/// Returns the file name of a path.
pub(crate) fn base_name(name: &str) -> &str {
    Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::{MissingLogs, base_name, precedes};

    #[test]
    fn names_without_a_directory_stay_as_they_are() {
        assert_eq!(base_name("standard input"), "standard input");
        assert_eq!(base_name("/var/lib/mysql/binlog.000012"), "binlog.000012");
    }

    #[test]
    fn logs_in_one_directory_have_an_order() {
        for (name, other, expected) in [
            ("d/b.000001", "d/b.000002", true),
            ("d/b.000002", "d/b.000001", false),
            ("d/b.000001", "d/b.000001", false),
            ("d/b.000001", "e/b.000002", false),
            ("a.000001", "b.000002", false),
            ("b.999999", "b.1000000", true),
            ("log", "b.000001", false),
        ] {
            assert_eq!(precedes(name, other), expected, "{name} {other}");
        }
        let missing = MissingLogs::between("b.000001", "b.000004").unwrap();
        assert!(
            missing.contains("d/b.000003") && !missing.contains("b.000004") && !missing.contains("c.000003")
        );
    }

    #[test]
    fn missing_logs_are_named() {
        let check = |before: &str, after: &str, expected: &str| {
            let found = MissingLogs::between(before, after);
            let found = found.map(|logs| format!("{logs} {}", logs.verb())).unwrap_or_default();
            assert_eq!(found, expected, "{before} {after}");
        };
        check("d/b.000001", "d/b.000003", "b.000002 is");
        check("b.000001", "b.000004", "b.000002 and b.000003 are");
        check("b.999998", "b.1000006", "b.999999 to b.1000005 are");
        check("b.000001", "b.000002", "");
        check("b.000003", "b.000001", "");
        check("b.000001", "b.000001", "");
        check("b.000001", "c.000003", "");
        check("d/b.000001", "e/b.000003", "");
        check("b.18446744073709551615", "b.000001", "");
    }
}
