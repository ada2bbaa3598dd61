//! Metrics of long-running commands, published for Prometheus: over HTTP, and in a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use logs::{FileAccess, replace_file};
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
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let why = match directory {
            _ if path.is_dir() => "it is a directory",
            Some(directory) if !directory.is_dir() => "its directory does not exist",
            _ => return Ok(()),
        };
        Err(CommandFailure::NotStarted(anyhow!("could not write metrics to {}: {why}", path.display())))
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

/// Replaces the file atomically.
fn write(path: &Path, text: &str) -> io::Result<()> {
    replace_file(path, text.as_bytes(), FileAccess::Shared)
}

#[cfg(test)]
mod tests {
    use super::write;

    #[test]
    fn the_file_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bintide.prom");
        for text in ["one", "two"] {
            write(&path, text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert!(write(directory.path(), "three").is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(!directory.path().with_extension("new").exists());
    }
}
