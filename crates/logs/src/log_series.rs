//! Log names of a store: the source's names, until another server becomes the source.

use std::cmp::Ordering;
use std::path::Path;

/// Minimum number of digits of a log's number.
const NUMBER_SIZE_MIN: usize = 6;
/// Length of a server's UUID in characters.
const UUID_SIZE: usize = 36;

/// Later series of a store: the logs of one server, after logs of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSeries<'n> {
    /// Number of the series, from 2 on. Series 1 is the store's first series, and does not appear in names.
    pub number: u32,
    /// `server_uuid` of the server that wrote the logs.
    pub uuid: &'n str,
}

impl<'n> LogSeries<'n> {
    /// Returns the series in the middle of a log's name; `None` for a log of the store's first series.
    pub fn of(name: &'n str) -> Option<Self> {
        LogName::of(Path::new(name)).and_then(|name| name.series)
    }
}

/// Name of a log: `binlog.000001`. Numbers can exceed six digits. In a later series, the name has the series in the
/// middle: `binlog.2.5ea5ca5e-0001-4000-8000-000000000001.000001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogName<'n> {
    /// Base name of the source's logs, without the number.
    pub(crate) base: &'n str,
    /// Series of the log; `None` for the store's first series.
    pub(crate) series: Option<LogSeries<'n>>,
    pub(crate) number: u64,
    digits: &'n str,
}

impl<'n> LogName<'n> {
    pub(crate) fn of(path: &'n Path) -> Option<Self> {
        let (front, digits) = path.file_name()?.to_str()?.rsplit_once('.')?;
        let is_number = digits.len() >= NUMBER_SIZE_MIN && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number && !front.is_empty())?;
        let (base, series) = match parse_series(front) {
            Some((base, series)) => (base, Some(series)),
            None => (front, None),
        };
        Some(Self { base, series, number, digits })
    }

    /// Returns the log's name at the source.
    pub(crate) fn source_name(&self) -> String {
        format!("{}.{}", self.base, self.digits)
    }

    /// Returns the name of this log of a source in a series of a store.
    pub(crate) fn name_in_series(&self, series: LogSeries<'_>) -> String {
        format!("{}.{}.{}.{}", self.base, series.number, series.uuid, self.digits)
    }

    /// Returns the number of the log's series.
    pub(crate) fn series_number(&self) -> u32 {
        self.series.map_or(1, |series| series.number)
    }

    /// Returns whether the log is earlier than another log of the same store.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        match self.series_number().cmp(&other.series_number()) {
            Ordering::Less => true,
            Ordering::Equal => self.base == other.base && self.number < other.number,
            Ordering::Greater => false,
        }
    }

    /// Returns whether the log is an earlier log of the same series.
    pub(crate) fn is_earlier_of_series(&self, other: &Self) -> bool {
        self.base == other.base && self.series == other.series && self.number < other.number
    }

    /// Returns whether the other log is the direct successor in the same series.
    pub(crate) fn is_directly_before(&self, other: &Self) -> bool {
        self.is_earlier_of_series(other) && self.number.checked_add(1) == Some(other.number)
    }
}

/// Returns whether `name` is a later log than `than`, of the same series.
pub fn is_later_log(name: &str, than: &str) -> bool {
    let names = LogName::of(Path::new(than)).zip(LogName::of(Path::new(name)));
    names.is_some_and(|(earlier, later)| earlier.is_earlier_of_series(&later))
}

/// Returns whether a log is later than another log of the same store: in the same series, or in a later series.
pub fn is_later_in_store(name: &str, than: &str) -> bool {
    let names = LogName::of(Path::new(than)).zip(LogName::of(Path::new(name)));
    names.is_some_and(|(earlier, later)| earlier.is_before(&later))
}

/// Returns series, base name and number of a log: the sort key of the logs of one server. A name without a number has
/// number 0.
pub fn log_order(name: &str) -> (u32, &str, u64) {
    match LogName::of(Path::new(name)) {
        Some(log) => (log.series_number(), log.base, log.number),
        None => (1, name, 0),
    }
}

/// Parses the base name and the series from the part before a log's number.
fn parse_series(front: &str) -> Option<(&str, LogSeries<'_>)> {
    let (front, uuid) = front.rsplit_once('.')?;
    let (base, number) = front.rsplit_once('.')?;
    let is_uuid =
        uuid.len() == UUID_SIZE && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let number = number.parse().ok().filter(|number| *number > 1)?;
    (is_uuid && !base.is_empty()).then_some((base, LogSeries { number, uuid }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{LogName, LogSeries};

    const UUID: &str = "5ea5ca5e-0001-4000-8000-000000000001";

    fn name(text: &str) -> LogName<'_> {
        LogName::of(Path::new(text)).unwrap()
    }

    #[test]
    fn names_contain_the_series() {
        let series = LogSeries { number: 2, uuid: UUID };
        let local = name("my.bin.0000017").name_in_series(series);
        assert_eq!(local, format!("my.bin.2.{UUID}.0000017"));
        let found = name(&local);
        assert_eq!((found.base, found.series, found.number), ("my.bin", Some(series), 17));
        assert_eq!(found.source_name(), "my.bin.0000017");
        for (text, base) in [("binlog.000001", "binlog"), ("b.2.x.000001", "b.2.x"), ("2.000001", "2")] {
            assert_eq!((name(text).base, name(text).series), (base, None), "{text}");
        }
        let first = format!("binlog.1.{UUID}.000001");
        assert_eq!(name(&first).series, None);
    }

    #[test]
    fn later_series_are_later_regardless_of_numbers() {
        let later = format!("mysql-bin.2.{UUID}.000001");
        let latest = format!("binlog.10.{UUID}.000001");
        let order = ["binlog.000008", "binlog.000009", &later, &latest];
        for (number, one) in order.iter().enumerate() {
            for (other_number, other) in order.iter().enumerate() {
                let is_before = name(one).is_before(&name(other));
                assert_eq!(is_before, number < other_number, "{one} {other}");
                let is_right = (number, other_number) == (0, 1);
                assert_eq!(name(one).is_directly_before(&name(other)), is_right, "{one} {other}");
            }
        }
    }
}
