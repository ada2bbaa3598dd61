//! Which of a store's logs is the first that holds something that the target lacks.

use std::path::Path;
use std::sync::Arc;

use binlog::EventType;
use binlog::encryption::Keyring;
use binlog::gtid::GtidSet;
use logs::{LogKind, LogReader, Next};

use crate::source::previous;

/// What a log says of those in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    /// The transactions that they hold, or held.
    pub(super) previous: GtidSet,
    pub(super) kind: LogKind,
}

/// Bytes read of a log, at first: what is looked for stands at its start.
const LOOK_SIZE: usize = 4 << 10;

/// How a log begins. `None` if it does not say what is in front of it: it was just begun or purged, is a MariaDB's, or
/// cannot be read, and then whoever reads it will say why.
pub(super) fn beginning(path: &Path, keyring: Option<Arc<Keyring>>) -> Option<Beginning> {
    let mut reader = LogReader::open_stored(path).ok()?;
    if let Some(keyring) = keyring {
        reader = reader.with_keyring(keyring);
    }
    while let Ok(Next::Some(chunk)) = reader.next_chunk(LOOK_SIZE) {
        let mut index = 0;
        while let Some(event) = chunk.get(index) {
            index += 1;
            match event.raw.event_type() {
                EventType::FormatDescription => {}
                EventType::PreviousGtids => {
                    let previous = previous(&event.raw, chunk.format()).ok()?;
                    return Some(Beginning { previous, kind: reader.kind() });
                }
                _ => return None,
            }
        }
    }
    None
}

/// The first log that is needed, of so many: all in front of it is applied. `place` is the log that progress without
/// GTIDs is in, `is_applied` says of GTIDs whether the target has them all, `look` says how a log begins.
pub(super) fn first_needed(
    count: usize,
    place: Option<usize>,
    is_applied: impl Fn(&GtidSet) -> bool,
    look: impl Fn(usize) -> Option<Beginning>,
) -> usize {
    let mut found = None;
    for number in (0..count).rev() {
        let Some(beginning) = look(number) else { continue };
        if beginning.previous.is_empty() {
            break; // What is in front of it has no GTIDs, or is nothing.
        }
        if is_applied(&beginning.previous) {
            found = Some((number, beginning));
            break;
        }
    }
    let Some((mut number, beginning)) = found else { return place.unwrap_or(0) };
    if beginning.kind == LogKind::Relay {
        // A transaction that the replica had received in parts is none that it counts. It begins in the last log that
        // had a whole one in front of it, or in the one before that.
        while number > 0 && look(number - 1).is_some_and(|before| before.previous == beginning.previous) {
            number -= 1;
        }
        number = number.saturating_sub(1);
    }
    place.map_or(number, |place| place.min(number))
}

#[cfg(test)]
mod tests {
    use binlog::gtid::GtidSet;
    use logs::LogKind;

    use super::{Beginning, first_needed};

    const UUID: &str = "00000000-0000-0000-0000-000000000001";

    fn set(intervals: &str) -> GtidSet {
        match intervals {
            "" => GtidSet::new(),
            _ => format!("{UUID}:{intervals}").parse().unwrap(),
        }
    }

    /// Logs with this in front of them, `?` if they do not say.
    fn check(kind: LogKind, logs: &[&str], place: Option<usize>, applied: &str, wanted: usize) {
        let applied = set(applied);
        let look = |number: usize| {
            let previous = Some(logs[number]).filter(|previous| *previous != "?");
            previous.map(|previous| Beginning { previous: set(previous), kind })
        };
        let is_applied = |previous: &GtidSet| previous.difference(&applied).is_empty();
        let found = first_needed(logs.len(), place, is_applied, look);
        assert_eq!(found, wanted, "{logs:?} {place:?} {applied}");
    }

    #[test]
    fn everything_in_front_is_applied() {
        let logs = ["", "1-10", "1-20", "1-30"];
        check(LogKind::Binary, &logs, None, "1-25", 2);
        check(LogKind::Binary, &logs, None, "1-30", 3);
        check(LogKind::Binary, &logs, None, "1-5", 0);
        check(LogKind::Binary, &logs, None, "", 0);
        check(LogKind::Binary, &logs, None, "11-30", 0);
        check(LogKind::Binary, &["", "1-10", "?"], None, "1-15", 1);
        // The logs in front of the first are purged: whoever applies it says what is missing.
        check(LogKind::Binary, &["1-10", "1-20"], None, "1-5", 0);
        check(LogKind::Binary, &[""], None, "1-5", 0);
    }

    #[test]
    fn places_count_where_there_are_no_gtids() {
        check(LogKind::Binary, &["", "", ""], Some(1), "", 1);
        check(LogKind::Binary, &["", "", ""], None, "", 0);
        check(LogKind::Binary, &["?", "?", "?"], Some(2), "", 2);
        // GTIDs have come later.
        check(LogKind::Binary, &["", "", "1-10", "1-20"], Some(1), "1-20", 1);
        check(LogKind::Binary, &["", "", "1-10", "1-20"], None, "", 0);
    }

    #[test]
    fn parts_of_transactions_are_in_front_of_what_relay_logs_count() {
        let logs = ["", "1-10", "1-20", "1-20", "1-20", "1-30"];
        check(LogKind::Relay, &logs, None, "1-29", 1);
        check(LogKind::Relay, &logs, None, "1-30", 4);
        check(LogKind::Relay, &logs, None, "1-10", 0);
    }
}
