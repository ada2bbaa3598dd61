//! Logs in archives. Another crate opens archives; this crate reads their logs like files.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use binlog::encryption::Keyring;
use binlog::gtid::GtidSet;

use crate::error::LogError;
use crate::gtid_selection::GtidSelection;

/// Archives that a program can read. Each archive has named logs.
pub trait ArchivedLogs: Send + Sync {
    /// Returns the paths of the logs that `path` names: all logs of an archive, oldest first, or one log. `None` if the
    /// path names no archive.
    fn find(&self, path: &Path) -> Option<Result<Vec<PathBuf>, LogError>>;

    /// Opens a log of an archive, decrypted. `None` if the path names no archived log.
    fn open(&self, log: &Path) -> Option<Result<Box<dyn Read + Send>, LogError>>;

    /// Returns the contents of an archived log from its manifest, without reading the log. `None` if the path names no
    /// archived log.
    fn contents(&self, log: &Path) -> Option<ArchivedContents>;

    /// Makes archives be read again at their next use.
    fn forget(&self);

    /// Takes keys that decrypt archives. They do not change archives that were read before.
    fn add_keyring(&self, keyring: Arc<Keyring>);
}

/// Contents of an archived log, from its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchivedContents {
    /// Size of the log in bytes.
    pub size: u64,
    /// Number of transactions with a GTID event, also of one that has no GTID.
    pub transactions: u64,
    /// GTIDs of MySQL transactions; `None` if unknown.
    pub gtids: Option<GtidSet>,
    /// Earliest and latest time of events and commits, in seconds since 1970; `None` if not known.
    pub times: Option<(u32, u32)>,
    /// Databases and tables whose rows the log changes; `None` if not known, or if statements may change more.
    pub tables: Option<Vec<[String; 2]>>,
    /// True if the log is known to be undamaged, and to end at the end of an event.
    pub is_whole: bool,
    /// True if all transactions are known to begin and end in the log. False for relay logs.
    pub has_whole_transactions: bool,
}

impl ArchivedContents {
    /// Returns whether the log may have transactions committed in this period, in microseconds since 1970.
    pub fn may_have_commits(&self, start_us: Option<u64>, stop_us: Option<u64>) -> bool {
        const SECOND_US: u64 = 1_000_000;
        self.times.is_none_or(|(first, last)| {
            let (first, end) = (u64::from(first) * SECOND_US, (u64::from(last) + 1) * SECOND_US);
            start_us.is_none_or(|start| start < end) && stop_us.is_none_or(|stop| first < stop)
        })
    }

    /// Returns whether the log may change rows, the definition or the name of a table for which `is_selected` is true.
    pub fn may_change_table(&self, is_selected: impl Fn(&str, &str) -> bool) -> bool {
        let Some(tables) = &self.tables else { return true };
        tables.iter().any(|[database, table]| is_selected(database, table))
    }

    /// Returns whether all transactions are known to have GTIDs of MySQL. Logs of servers before MySQL 5.7 can have
    /// transactions without any GTID event, which are not counted.
    pub fn all_have_gtids(&self) -> bool {
        let has_no_changes = || self.tables.as_ref().is_some_and(Vec::is_empty);
        (self.transactions > 0 || has_no_changes())
            && self.gtids.as_ref().is_some_and(|found| found.count() == u128::from(self.transactions))
    }

    /// Returns whether the log may have selected transactions.
    pub fn may_have_gtids(&self, selection: &GtidSelection) -> bool {
        let Some(found) = &self.gtids else { return true };
        // A transaction without a GTID is in no GTID set, so it is never excluded.
        let is_excluded = |excluded| self.all_have_gtids() && found.is_subset(excluded);
        selection.included.as_ref().is_none_or(|included| found.intersects(included))
            && !selection.excluded.as_ref().is_some_and(is_excluded)
    }
}

static ARCHIVED_LOGS: OnceLock<Box<dyn ArchivedLogs>> = OnceLock::new();

/// Makes logs of archives readable in this process, wherever a log is opened by its path. Only the first call has an
/// effect.
pub fn set_archived_logs(archives: Box<dyn ArchivedLogs>) {
    // A second set of archives could contradict paths found by the first one.
    let _ = ARCHIVED_LOGS.set(archives);
}

/// Makes archives readable that are encrypted with a key of this keyring. Must be called before these archives are read.
pub fn add_archive_keyring(keyring: Arc<Keyring>) {
    if let Some(archives) = ARCHIVED_LOGS.get() {
        archives.add_keyring(keyring);
    }
}

/// Makes the contents of archives be read again at their next use.
pub fn forget_archives() {
    if let Some(archives) = ARCHIVED_LOGS.get() {
        archives.forget();
    }
}

/// Returns the paths of the archived logs that `path` names; `None` if the path names no archive.
///
/// # Errors
///
/// Fails if the archive cannot be read.
pub fn find_archived_logs(path: &Path) -> Option<Result<Vec<PathBuf>, LogError>> {
    ARCHIVED_LOGS.get()?.find(path)
}

/// Returns the contents of an archived log from its manifest, without reading the log; `None` if the path names no
/// archived log.
pub fn archived_contents(log: &Path) -> Option<ArchivedContents> {
    ARCHIVED_LOGS.get()?.contents(log)
}

/// Opens an archived log, decrypted; `None` if the path names no archived log.
///
/// # Errors
///
/// Fails if the archive cannot be read.
pub fn open_archived_log(log: &Path) -> Option<Result<Box<dyn Read + Send>, LogError>> {
    ARCHIVED_LOGS.get()?.open(log)
}

#[cfg(test)]
mod tests {
    use binlog::gtid::GtidSet;

    use super::ArchivedContents;
    use crate::gtid_selection::GtidSelection;

    const SERVER: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    #[test]
    fn periods_keep_a_log_at_their_edges() {
        check_period(None, None, true);
        check_period(Some(20_999_999), None, true);
        check_period(Some(21_000_000), None, false);
        check_period(None, Some(10_000_001), true);
        check_period(None, Some(10_000_000), false);
    }

    #[test]
    fn only_excluded_logs_without_other_transactions_are_left_out() {
        check_gtids(5, None, None, true);
        check_gtids(5, Some("5-9"), None, true);
        check_gtids(5, Some("6-9"), None, false);
        check_gtids(5, None, Some("1-4"), true);
        check_gtids(5, None, Some("1-5"), false);
        check_gtids(6, None, Some("1-5"), true);
    }

    #[test]
    fn logs_without_gtid_events_are_needed() {
        let contents = ArchivedContents { gtids: Some(GtidSet::new()), ..contents(0) };
        assert!(!contents.all_have_gtids());
        let without_changes = ArchivedContents { tables: Some(Vec::new()), ..contents.clone() };
        assert!(without_changes.all_have_gtids());
        let excluded = format!("{SERVER}:1-5").parse().ok();
        assert!(contents.may_have_gtids(&GtidSelection { included: None, excluded }));
    }

    fn check_period(start_us: Option<u64>, stop_us: Option<u64>, is_needed: bool) {
        assert_eq!(contents(5).may_have_commits(start_us, stop_us), is_needed, "{start_us:?} {stop_us:?}");
    }

    fn check_gtids(transactions: u64, included: Option<&str>, excluded: Option<&str>, is_needed: bool) {
        let set = |numbers: &str| format!("{SERVER}:{numbers}").parse().unwrap();
        let selection = GtidSelection { included: included.map(set), excluded: excluded.map(set) };
        assert_eq!(contents(transactions).may_have_gtids(&selection), is_needed, "{selection:?}");
    }

    fn contents(transactions: u64) -> ArchivedContents {
        let gtids = format!("{SERVER}:1-5").parse().ok();
        ArchivedContents {
            size: 1,
            transactions,
            gtids,
            times: Some((10, 20)),
            ..ArchivedContents::default()
        }
    }
}
