//! Closed logs in which compression changes nothing, remembered across runs: without them, each run would read these
//! logs again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use binlog::ZstdLevel;
use logs::{FileAccess, replace_file};

/// Name of the file in the store's directory that lists these logs.
const FILE_NAME: &str = "bintide.unchanged";

/// Closed logs in which compression changes nothing.
#[derive(Debug)]
pub(crate) struct UnchangedLogs {
    path: PathBuf,
    logs: Vec<UnchangedLog>,
}

/// One line of the file: level, size and name of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnchangedLog {
    level: u8,
    size: u64,
    name: String,
}

impl UnchangedLogs {
    /// Reads the list of a directory. Without a readable list, no log is known.
    pub(crate) fn load(directory: &Path) -> Self {
        let path = directory.join(FILE_NAME);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let logs = text.lines().filter_map(UnchangedLog::parse).collect();
        Self { path, logs }
    }

    /// Returns whether compression at this level left the log unchanged. A log of another size was replaced since.
    pub(crate) fn contains(&self, log: &Path, level: ZstdLevel) -> bool {
        UnchangedLog::of(log, level).is_some_and(|log| self.logs.contains(&log))
    }

    /// Adds a log, removes the logs that are no longer in `closed`, and writes the list.
    ///
    /// # Errors
    ///
    /// Fails if the list cannot be written.
    pub(crate) fn add(&mut self, log: &Path, level: ZstdLevel, closed: &[PathBuf]) -> io::Result<()> {
        let Some(added) = UnchangedLog::of(log, level) else { return Ok(()) };
        let is_closed =
            |name: &str| closed.iter().any(|log| log.file_name().is_some_and(|other| other == name));
        self.logs.retain(|log| log.name != added.name && is_closed(&log.name));
        self.logs.push(added);
        let line = |log: &UnchangedLog| format!("{} {} {}\n", log.level, log.size, log.name);
        let text: String = self.logs.iter().map(line).collect();
        replace_file(&self.path, text.as_bytes(), FileAccess::Private)
    }
}

impl UnchangedLog {
    /// Returns the line of a log with its present size; `None` if the log does not exist.
    fn of(log: &Path, level: ZstdLevel) -> Option<Self> {
        let name = log.file_name()?.to_str()?.to_owned();
        Some(Self { level: level.get(), size: fs::metadata(log).ok()?.len(), name })
    }

    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, ' ');
        let (level, size, name) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { level: level.parse().ok()?, size: size.parse().ok()?, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use binlog::ZstdLevel;

    use super::{FILE_NAME, UnchangedLogs};

    #[test]
    fn unchanged_logs_are_known_in_the_next_run() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = ["b.000001", "b.000002"].map(|name| directory.path().join(name));
        let [three, nine] = [3, 9].map(|level| ZstdLevel::new(level).unwrap());
        fs::write(&first, [0; 700]).unwrap();
        fs::write(&second, [0; 800]).unwrap();
        let closed = [first.clone(), second.clone()];
        let mut logs = UnchangedLogs::load(directory.path());
        assert!(!logs.contains(&first, three));
        logs.add(&first, three, &closed).unwrap();
        logs.add(&second, three, &closed).unwrap();
        let check = |expected: [bool; 3]| {
            let logs = UnchangedLogs::load(directory.path());
            let found = [(&first, three), (&second, three), (&second, nine)];
            assert_eq!(found.map(|(log, level)| logs.contains(log, level)), expected);
        };
        check([true, true, false]);
        // Another level, and a purged log.
        logs.add(&second, nine, &closed[1..]).unwrap();
        check([false, false, true]);
        fs::write(&second, [0; 801]).unwrap();
        check([false, false, false]);
        fs::write(directory.path().join(FILE_NAME), "9 801 b.000002\n3 700\nx 700 b.000001\n").unwrap();
        check([false, false, true]);
    }
}
