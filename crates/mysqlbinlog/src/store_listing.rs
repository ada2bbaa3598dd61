//! Directories, index files and archives as arguments, in place of the logs they list.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logs::{LogError, Store, add_archive_keyring, find_archived_logs};

use crate::dump_diagnostics::DumpDiagnostics;
use crate::dump_settings::DumpSettings;
use crate::list_provider::ListLayout;
use crate::options::DumpExit;

/// Replaces each directory, index file or archive by its logs, in order. Names of a server's logs are not
/// changed.
pub(crate) fn expand_stores(
    names: Vec<Vec<u8>>,
    layout: Option<ListLayout>,
    settings: &DumpSettings,
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<Vec<Vec<u8>>, DumpExit> {
    if settings.remote.is_some() {
        return Ok(names);
    }
    if let Some(keyring) = &settings.common.keyring {
        add_archive_keyring(Arc::new(keyring.clone()));
    }
    let mut logs = Vec::with_capacity(names.len());
    for name in names {
        match list_if_store(&name) {
            None => logs.push(name),
            Some(Ok(store)) => {
                logs.extend(store.logs);
                for elsewhere in store.elsewhere.iter().filter(|_| !settings.quiet) {
                    diagnostics.warning(&[elsewhere.as_bytes()]);
                }
                for unlisted in store.unlisted.iter().filter(|_| !settings.quiet) {
                    diagnostics.warning(&[Store::unlisted_log_warning(unlisted).as_bytes()]);
                }
            }
            Some(Err(error)) => {
                diagnostics.error(&[error.to_string().as_bytes()]);
                return Err(if layout.is_some() { DumpExit::NOT_STARTED } else { DumpExit::FAILURE });
            }
        }
    }
    Ok(logs)
}

/// The logs of a directory.
struct StoreListing {
    logs: Vec<Vec<u8>>,
    /// Logs after the index's last one that the index does not list.
    unlisted: Vec<PathBuf>,
    /// Warning about a line of the index that names a file in another directory.
    elsewhere: Option<String>,
}

/// Returns the logs of a directory, an index file or an archive; `None` for any other name.
fn list_if_store(name: &[u8]) -> Option<Result<StoreListing, LogError>> {
    let path = Path::new(OsStr::from_bytes(name));
    if let Some(found) = find_archived_logs(path) {
        let logs = found.map(|logs| logs.iter().map(|log| bytes(log)).collect());
        return Some(logs.map(|logs| StoreListing { logs, unlisted: Vec::new(), elsewhere: None }));
    }
    let is_index = path.extension() == Some(OsStr::new("index"));
    (is_index || path.is_dir()).then(|| list(path))
}

fn list(path: &Path) -> Result<StoreListing, LogError> {
    let store = Store::open(path)?;
    if let Some(missing) = store.logs().iter().find(|log| !log.exists()) {
        let (name, index) = (missing.display().to_string(), store.path().display().to_string());
        return Err(LogError::MissingLog { name, index });
    }
    let unlisted = store.unlisted_logs()?;
    // Index files contain `./binlog.000001`.
    let logs = store.logs().iter().map(|log| bytes(&log.components().collect::<PathBuf>()));
    Ok(StoreListing {
        logs: logs.collect(),
        unlisted,
        elsewhere: store.ignored_path().map(ToString::to_string),
    })
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}
