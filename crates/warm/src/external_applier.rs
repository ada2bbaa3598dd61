//! An applier that is not a replica, and reports its own progress.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use logs::{Store, lock};

use crate::error::WarmError;
use crate::relay_position::{LogNumber, RelayPosition};
use crate::replica_monitor::ReplicaChannel;
use crate::settings::ExternalApplierSettings;

/// Logs that an applier reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppliedLogs {
    /// Logs of a store, which may still grow.
    Store(PathBuf),
    /// These files, in order.
    Files(Vec<PathBuf>),
}

/// Progress that an applier outside of the server reports.
#[derive(Debug, Default)]
pub struct ExternalApplier(Mutex<ApplierStatus>);

#[derive(Clone, Debug, Default)]
struct ApplierStatus {
    /// Name of the log, and bytes from its start.
    position: Option<(String, u64)>,
    sessions: Vec<u32>,
    is_over: bool,
}

impl ExternalApplier {
    /// Reports the applier's position in the log of this name.
    pub fn set_position(&self, log: &str, position: u64) {
        self.lock().position = Some((log.to_owned(), position));
    }

    /// Reports the connection IDs of the sessions that apply.
    pub fn set_sessions(&self, sessions: Vec<u32>) {
        self.lock().sessions = sessions;
    }

    /// Reports that the applier has ended.
    pub fn finish(&self) {
        self.lock().is_over = true;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.lock().is_over
    }

    pub(crate) fn sessions(&self) -> Vec<u32> {
        self.lock().sessions.clone()
    }

    /// Returns a channel with the applier's position. Before the first report, this is the start of the first log.
    pub(crate) fn channel(&self, settings: &ExternalApplierSettings) -> Result<ReplicaChannel, WarmError> {
        let (position, log) = self.position(&settings.logs)?;
        let filter = settings.filter.clone();
        Ok(ReplicaChannel { log, is_applying: true, filter, ..ReplicaChannel::without_applier(position) })
    }

    fn position(&self, logs: &AppliedLogs) -> Result<(RelayPosition, String), WarmError> {
        let reported = self.lock().position.clone();
        let position = reported.and_then(|(log, position)| Some((logs.position(&log, position)?, log)));
        match position {
            Some(found) => Ok(found),
            None => Ok((logs.first_position()?, String::new())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ApplierStatus> {
        lock(&self.0)
    }
}

impl AppliedLogs {
    /// Returns the relay position for a log's name and a position in it. Logs of a store have numbers; files are
    /// numbered in order.
    fn position(&self, name: &str, position: u64) -> Option<RelayPosition> {
        let log = match self {
            Self::Store(_) => LogNumber::of(name)?,
            Self::Files(files) => {
                let number =
                    files.iter().position(|file| file.file_name().is_some_and(|file| file == name))?;
                LogNumber::from(number as u64)
            }
        };
        Some(RelayPosition { log, offset: position })
    }

    fn first_position(&self) -> Result<RelayPosition, WarmError> {
        match self {
            Self::Store(path) => first_position(path),
            Self::Files(_) => Ok(RelayPosition::default()),
        }
    }
}

impl fmt::Display for AppliedLogs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(path) => path.display().fmt(out),
            Self::Files(files) => {
                let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                out.write_str(&names.join(", "))
            }
        }
    }
}

/// Returns the start of the first log.
pub(crate) fn first_position(logs: &Path) -> Result<RelayPosition, WarmError> {
    let store = Store::open(logs)?;
    let names = store.logs().iter().filter_map(|log| log.file_name());
    let position = names.filter_map(|name| RelayPosition::of(&name.to_string_lossy(), 0)).next();
    position.ok_or_else(|| {
        WarmError::Unsuitable(format!("the names of the logs in {} do not end in numbers", logs.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::{AppliedLogs, ExternalApplier};
    use crate::relay_position::RelayPosition;

    #[test]
    fn the_applier_is_at_its_reported_position() {
        let logs = AppliedLogs::Files(vec!["/a/x.log".into(), "/b/y".into()]);
        let applier = ExternalApplier::default();
        let position = || applier.position(&logs).unwrap().0;
        assert_eq!(position(), RelayPosition::default());
        applier.set_position("y", 4711);
        assert_eq!(position(), RelayPosition { log: 1.into(), offset: 4711 });
        assert_eq!(
            AppliedLogs::Store("/d".into()).position("binlog.000012", 4),
            RelayPosition::of("binlog.000012", 4)
        );
    }
}
