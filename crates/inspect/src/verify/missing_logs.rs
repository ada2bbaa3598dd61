//! Logs that are missing between two logs, by their numbers.

use std::fmt;
use std::path::Path;

/// Logs that are missing between two logs, by their numbers: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingLogs {
    stem: String,
    /// Number of digits of the log before them.
    digits: usize,
    first: u64,
    last: u64,
}

impl MissingLogs {
    /// Returns the logs that are missing between two logs in one directory; `None` if there are none, or if the names
    /// do not show it.
    pub(crate) fn between(before: &str, after: &str) -> Option<Self> {
        let (stem, number) = numbered(before)?;
        let (next_stem, next) = numbered(after)?;
        let is_same_series = stem == next_stem && Path::new(before).parent() == Path::new(after).parent();
        let (first, last) = (number.checked_add(1)?, next.checked_sub(1)?);
        let digits = base_name(before).len() - stem.len() - 1;
        (is_same_series && first <= last).then(|| Self { stem: stem.to_owned(), digits, first, last })
    }

    /// Returns the verb for these logs.
    pub(crate) const fn verb(&self) -> &'static str {
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

/// Splits a log's name: `binlog.000012` is number 12 of `binlog`.
pub(crate) fn numbered(name: &str) -> Option<(&str, u64)> {
    let (stem, number) = base_name(name).rsplit_once('.')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((stem, number.parse().ok().filter(|_| digits)?))
}

/// Returns the file name of a path.
pub(crate) fn base_name(name: &str) -> &str {
    Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::{MissingLogs, base_name, numbered};

    #[test]
    fn logs_are_numbered_by_their_names() {
        let check = |name: &str, wanted| assert_eq!(numbered(name), wanted, "{name}");
        check("binlog.000012", Some(("binlog", 12)));
        check("/var/lib/mysql/a.b.1000000", Some(("a.b", 1_000_000)));
        check("binlog", None);
        check("binlog.", None);
        check("binlog.1x", None);
        check("binlog.+1", None);
        assert_eq!(base_name("standard input"), "standard input");
    }

    #[test]
    fn missing_logs_are_named() {
        let check = |before: &str, after: &str, wanted: &str| {
            let found = MissingLogs::between(before, after);
            let found = found.map(|logs| format!("{logs} {}", logs.verb())).unwrap_or_default();
            assert_eq!(found, wanted, "{before} {after}");
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
