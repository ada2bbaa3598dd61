//! An applier that is no replica and reports its own progress.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use logs::Store;

use crate::error::Error;
use crate::place::{LogNumber, Place};
use crate::replica::Channel;
use crate::settings::SettingsFor;

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
pub struct Applier(Mutex<Told>);

#[derive(Clone, Debug, Default)]
struct Told {
    /// Name of the log, and bytes from its start.
    place: Option<(String, u64)>,
    sessions: Vec<u32>,
    is_over: bool,
}

impl Applier {
    /// Reports the applier's position in the log of this name.
    pub fn is_at(&self, log: &str, position: u64) {
        self.told().place = Some((log.to_owned(), position));
    }

    /// Reports the connection IDs of the sessions that apply.
    pub fn applies_in(&self, sessions: Vec<u32>) {
        self.told().sessions = sessions;
    }

    /// Reports the end of applying.
    pub fn end(&self) {
        self.told().is_over = true;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.told().is_over
    }

    pub(crate) fn sessions(&self) -> Vec<u32> {
        self.told().sessions.clone()
    }

    /// Returns the applier's position as a channel; the logs' start until the first report.
    pub(crate) fn channel(&self, settings: &SettingsFor) -> Result<Channel, Error> {
        let (place, log) = self.place(&settings.logs)?;
        let filter = settings.filter.clone();
        Ok(Channel { log, is_applying: true, filter, ..Channel::without_applier(place) })
    }

    fn place(&self, logs: &AppliedLogs) -> Result<(Place, String), Error> {
        let place = self.told().place.clone();
        let place = place.and_then(|(log, position)| Some((logs.place(&log, position)?, log)));
        match place {
            Some(found) => Ok(found),
            None => Ok((logs.beginning()?, String::new())),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AppliedLogs {
    /// Returns the place at this position of the log of this name. Logs of a store have numbers; files are numbered in
    /// order.
    fn place(&self, name: &str, position: u64) -> Option<Place> {
        let log = match self {
            Self::Store(_) => LogNumber::of(name)?,
            Self::Files(files) => {
                let number =
                    files.iter().position(|file| file.file_name().is_some_and(|file| file == name))?;
                LogNumber::from(number as u64)
            }
        };
        Some(Place { log, offset: position })
    }

    fn beginning(&self) -> Result<Place, Error> {
        match self {
            Self::Store(path) => first_place(path),
            Self::Files(_) => Ok(Place::default()),
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
pub(crate) fn first_place(logs: &Path) -> Result<Place, Error> {
    let store = Store::open(logs)?;
    let names = store.logs().iter().filter_map(|log| log.file_name());
    let place = names.filter_map(|name| Place::of(&name.to_string_lossy(), 0)).next();
    place.ok_or_else(|| {
        Error::Refused(format!("the names of the logs in {} do not end in numbers", logs.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::{AppliedLogs, Applier};
    use crate::place::Place;

    #[test]
    fn it_is_where_it_says() {
        let logs = AppliedLogs::Files(vec!["/a/x.log".into(), "/b/y".into()]);
        let applier = Applier::default();
        let place = || applier.place(&logs).unwrap().0;
        assert_eq!(place(), Place::default());
        applier.is_at("y", 4711);
        assert_eq!(place(), Place { log: 1.into(), offset: 4711 });
        assert_eq!(AppliedLogs::Store("/d".into()).place("binlog.000012", 4), Place::of("binlog.000012", 4));
    }
}
