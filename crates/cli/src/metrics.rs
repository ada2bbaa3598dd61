//! Metrics of long-running commands, published for Prometheus: over HTTP, and in a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use logs::{FileAccess, link_target, parent_of, replace_file, starts_as_log};
use tracing::{error, info};

use crate::background_thread::start_thread;
use crate::exit::CommandFailure;
use crate::http_site::HttpSite;
use crate::metrics_registry::MetricsFormat;
use crate::service_notifier::ServiceNotifier;

/// Options that publish metrics.
#[derive(Args, Debug)]
pub(crate) struct MetricsArgs {
    /// Serve metrics for Prometheus, /healthz and /readyz over HTTP at this address, such as 127.0.0.1:9104.
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Write metrics to this file every five seconds and at the end; the file is replaced atomically.
    #[arg(long, value_name = "FILE")]
    metrics_file: Option<PathBuf>,
    /// Maximum lag behind the source: /readyz of --metrics answers 503 while the lag is larger [default: no maximum]
    #[arg(long, value_name = "SECONDS")]
    ready_lag: Option<u32>,
}

/// Interval at which the file is written. Monitors read it every ten seconds or less often.
const FILE_INTERVAL: Duration = Duration::from_secs(5);

/// Running publication of metrics, and of the state for systemd. Dropping it writes the file for the last time, and
/// notifies systemd of the stop.
#[derive(Debug)]
pub(crate) struct MetricsService {
    file: Option<(Sender<()>, JoinHandle<()>)>,
    _notifier: Option<ServiceNotifier>,
}

impl MetricsArgs {
    /// Returns whether any of the options is given.
    #[cfg(feature = "archive")]
    pub(crate) const fn is_given(&self) -> bool {
        self.metrics.is_some() || self.metrics_file.is_some() || self.ready_lag.is_some()
    }

    /// Refuses an unusable file before the work begins.
    pub(crate) fn check(&self) -> Result<(), CommandFailure> {
        let Some(path) = &self.metrics_file else { return Ok(()) };
        match unusable_reason(path) {
            None => Ok(()),
            Some(why) => {
                let path = path.display();
                Err(CommandFailure::NotStarted(anyhow!("could not write metrics to {path}: {why}")))
            }
        }
    }

    /// Starts publishing metrics, and notifying systemd. Prints the address on standard error, because port 0 means any
    /// free port.
    pub(crate) fn serve(&self, mut site: HttpSite) -> Result<MetricsService, CommandFailure> {
        site.limit_lag(self.ready_lag.map(|lag_s| Duration::from_secs(lag_s.into())));
        let site = Arc::new(site);
        if let Some(address) = &self.metrics {
            let bound = site.listen(address)?;
            info!("metrics are at http://{bound}/metrics");
        }
        let file =
            self.metrics_file.clone().map(|path| start_writing(path, Arc::clone(&site))).transpose()?;
        Ok(MetricsService { file, _notifier: ServiceNotifier::start(site)? })
    }
}

impl Drop for MetricsService {
    fn drop(&mut self) {
        if let Some((alive, writer)) = self.file.take() {
            drop(alive);
            // The error of a file was reported before.
            let _ = writer.join();
        }
    }
}

/// Returns the reason why the file cannot be replaced, if there is one.
fn unusable_reason(path: &Path) -> Option<&'static str> {
    let target = link_target(path);
    match fs::metadata(&target) {
        Ok(found) if found.is_dir() => Some("it is a directory"),
        Ok(found) if !found.is_file() => Some("it is not a regular file"),
        // If the name of the file is forgotten, the next argument, often a log, is taken for it.
        Ok(_) if starts_as_log(&target) => Some("it is a binary log"),
        _ if !parent_of(&target).is_dir() => Some("its directory does not exist"),
        _ => None,
    }
}

/// Writes the file, and starts a thread that replaces it at each interval until the sender is dropped.
fn start_writing(path: PathBuf, site: Arc<HttpSite>) -> Result<(Sender<()>, JoinHandle<()>), CommandFailure> {
    let written = write(&path, &site.registry.text(MetricsFormat::Classic));
    written
        .with_context(|| format!("could not write metrics to {}", path.display()))
        .map_err(CommandFailure::NotStarted)?;
    let (alive, is_alive) = channel();
    let writer = start_thread("metrics-file", move || write_periodically(&path, &site, &is_alive))?;
    Ok((alive, writer))
}

fn write_periodically(path: &Path, site: &HttpSite, is_alive: &Receiver<()>) {
    let mut has_failed = false;
    loop {
        let is_last = is_alive.recv_timeout(FILE_INTERVAL) != Err(RecvTimeoutError::Timeout);
        if let Err(error) = write(path, &site.registry.text(MetricsFormat::Classic))
            && !has_failed
        {
            error!("could not write metrics to {}: {error}", path.display());
            has_failed = true;
        }
        if is_last {
            return;
        }
    }
}

/// Replaces the file, or the target of a symbolic link, atomically.
fn write(path: &Path, text: &str) -> io::Result<()> {
    replace_file(&link_target(path), text.as_bytes(), FileAccess::Shared)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::{unusable_reason, write};

    #[test]
    fn the_file_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bintide.prom");
        for text in ["one", "two"] {
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert!(write(directory.path(), "three").is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(!directory.path().with_extension("new").exists());
    }

    #[test]
    fn targets_of_links_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let [first, link, target] =
            ["first.prom", "link.prom", "bintide.prom"].map(|name| directory.path().join(name));
        symlink("link.prom", &first).unwrap();
        symlink("bintide.prom", &link).unwrap();
        for text in ["one", "two"] {
            assert_eq!(unusable_reason(&first), None);
            write(&first, text).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), text);
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        symlink("/dev/null", path("link")).unwrap();
        fs::write(path("binlog.000001"), binlog::MAGIC).unwrap();
        fs::write(path("old.prom"), "old").unwrap();
        let check = |path: &Path, expected| assert_eq!(unusable_reason(path), expected, "{}", path.display());
        check(Path::new("/dev/null"), Some("it is not a regular file"));
        check(&path("link"), Some("it is not a regular file"));
        check(directory.path(), Some("it is a directory"));
        check(&path("binlog.000001"), Some("it is a binary log"));
        check(&path("no/new.prom"), Some("its directory does not exist"));
        check(&path("old.prom"), None);
        check(&path("new.prom"), None);
        check(Path::new("new.prom"), None);
    }
}
