//! Search for the first log of a store that contains transactions missing on the target.

use std::path::Path;
use std::sync::Arc;

use binlog::EventType;
use binlog::encryption::Keyring;
use binlog::gtid::GtidSet;
use logs::{LogKind, LogReader, ReadOutcome, decode_previous_gtids};

/// The start of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogBeginning {
    /// Transactions of the earlier logs, including purged ones.
    pub(super) previous: GtidSet,
    pub(super) kind: LogKind,
}

/// Size of a read in bytes. The event is at the start of the log.
const READ_SIZE: usize = 4 << 10;

/// Returns the start of a log. `None` if the log has no readable `Previous_gtids` event: it is new, purged, MariaDB's,
/// or unreadable. The later read reports the reason.
pub(super) fn read_beginning(path: &Path, keyring: Option<Arc<Keyring>>) -> Option<LogBeginning> {
    let mut reader = LogReader::open_stored(path).ok()?;
    if let Some(keyring) = keyring {
        reader = reader.with_keyring(keyring);
    }
    while let Ok(ReadOutcome::Some(chunk)) = reader.next_chunk(READ_SIZE) {
        let mut index = 0;
        while let Some(event) = chunk.get(index) {
            index += 1;
            match event.raw.event_type() {
                EventType::FormatDescription => {}
                EventType::PreviousGtids => {
                    let previous = decode_previous_gtids(&event.raw, chunk.format()).ok()?;
                    return Some(LogBeginning { previous, kind: reader.kind() });
                }
                _ => return None,
            }
        }
    }
    None
}

/// Returns the number of the first log, of `count`, that is not completely applied. `saved_log` is the number of the
/// log with the saved position, for transactions without GTIDs. `is_applied` checks that the target has all GTIDs of a
/// set. `read_start` reads the start of a log.
pub(super) fn first_needed(
    count: usize,
    saved_log: Option<usize>,
    is_applied: impl Fn(&GtidSet) -> bool,
    read_start: impl Fn(usize) -> Option<LogBeginning>,
) -> usize {
    let mut found = None;
    for number in (0..count).rev() {
        let Some(beginning) = read_start(number) else { continue };
        if beginning.previous.is_empty() {
            break; // No earlier transaction has a GTID.
        }
        if is_applied(&beginning.previous) {
            found = Some((number, beginning));
            break;
        }
    }
    let Some((mut number, beginning)) = found else { return saved_log.unwrap_or(0) };
    if beginning.kind == LogKind::Relay {
        // A relay log's `Previous_gtids` omits a partly received transaction. That transaction begins in the last
        // earlier log that contains a whole transaction, or in the log before that one.
        while number > 0 && read_start(number - 1).is_some_and(|before| before.previous == beginning.previous)
        {
            number -= 1;
        }
        number = number.saturating_sub(1);
    }
    saved_log.map_or(number, |saved_log| saved_log.min(number))
}

#[cfg(test)]
mod tests {
    use binlog::gtid::GtidSet;
    use logs::LogKind;

    use super::{LogBeginning, first_needed};

    const UUID: &str = "00000000-0000-0000-0000-000000000001";

    fn set(intervals: &str) -> GtidSet {
        match intervals {
            "" => GtidSet::new(),
            _ => format!("{UUID}:{intervals}").parse().unwrap(),
        }
    }

    /// `logs` are the `Previous_gtids` of each log; `?` if it has none.
    fn check(kind: LogKind, logs: &[&str], saved_log: Option<usize>, applied: &str, expected: usize) {
        let applied = set(applied);
        let read_start = |number: usize| {
            let previous = Some(logs[number]).filter(|previous| *previous != "?");
            previous.map(|previous| LogBeginning { previous: set(previous), kind })
        };
        let is_applied = |previous: &GtidSet| previous.difference(&applied).is_empty();
        let found = first_needed(logs.len(), saved_log, is_applied, read_start);
        assert_eq!(found, expected, "{logs:?} {saved_log:?} {applied}");
    }

    #[test]
    fn logs_before_the_first_needed_are_applied() {
        let logs = ["", "1-10", "1-20", "1-30"];
        check(LogKind::Binary, &logs, None, "1-25", 2);
        check(LogKind::Binary, &logs, None, "1-30", 3);
        check(LogKind::Binary, &logs, None, "1-5", 0);
        check(LogKind::Binary, &logs, None, "", 0);
        check(LogKind::Binary, &logs, None, "11-30", 0);
        check(LogKind::Binary, &["", "1-10", "?"], None, "1-15", 1);
        // Earlier logs are purged: the replay reports the missing transactions.
        check(LogKind::Binary, &["1-10", "1-20"], None, "1-5", 0);
        check(LogKind::Binary, &[""], None, "1-5", 0);
    }

    #[test]
    fn saved_position_decides_without_gtids() {
        check(LogKind::Binary, &["", "", ""], Some(1), "", 1);
        check(LogKind::Binary, &["", "", ""], None, "", 0);
        check(LogKind::Binary, &["?", "?", "?"], Some(2), "", 2);
        // Logs without GTIDs, then logs with GTIDs.
        check(LogKind::Binary, &["", "", "1-10", "1-20"], Some(1), "1-20", 1);
        check(LogKind::Binary, &["", "", "1-10", "1-20"], None, "", 0);
    }

    #[test]
    fn partial_transactions_begin_in_earlier_relay_logs() {
        let logs = ["", "1-10", "1-20", "1-20", "1-20", "1-30"];
        check(LogKind::Relay, &logs, None, "1-29", 1);
        check(LogKind::Relay, &logs, None, "1-30", 4);
        check(LogKind::Relay, &logs, None, "1-10", 0);
    }
}
