//! A bintide process, as its metrics show it.

use std::time::Instant;

use serde::Serialize;

use super::metrics_client::{MetricValues, read_metrics, read_readiness};

/// A process that is watched.
pub(super) struct WatchedProcess {
    address: String,
    before: Option<ProcessReading>,
    latest: Option<ProcessReading>,
    /// `ready`, or the reason why the process is not ready, or the error of the last attempt to read its metrics.
    state: String,
}

/// Metrics of a process at one time.
struct ProcessReading {
    at: Instant,
    values: MetricValues,
}

/// View of one command of a process. A relay that receives has two.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ProcessView {
    pub(super) address: String,
    /// `None` if the process cannot be read.
    pub(super) command: Option<&'static str>,
    pub(super) state: String,
    pub(super) transactions_per_second: Option<f64>,
    pub(super) bytes_per_second: Option<f64>,
    pub(super) lag_seconds: Option<f64>,
}

/// Metrics of a command.
struct CommandMetrics {
    command: &'static str,
    prefix: &'static str,
    transactions: &'static str,
    /// Name of the metric for bytes; empty if the command does not count bytes.
    bytes: &'static str,
    lag: &'static str,
}

const COMMANDS: [CommandMetrics; 5] = [
    CommandMetrics {
        command: "receive",
        prefix: "bintide_receive_",
        transactions: "bintide_receive_transactions_total",
        bytes: "bintide_receive_bytes_total",
        lag: "bintide_receive_lag_seconds",
    },
    CommandMetrics {
        command: "relay",
        prefix: "bintide_relay_",
        transactions: "bintide_relay_sent_transactions_total",
        bytes: "bintide_relay_sent_bytes_total",
        lag: "bintide_relay_client_lag_seconds",
    },
    CommandMetrics {
        command: "replay",
        prefix: "bintide_replay_",
        transactions: "bintide_replay_transactions_total",
        bytes: "bintide_replay_log_bytes_total",
        lag: "bintide_replay_lag_seconds",
    },
    CommandMetrics {
        command: "stream",
        prefix: "bintide_stream_",
        transactions: "bintide_stream_transactions_total",
        bytes: "",
        lag: "bintide_stream_lag_seconds",
    },
    CommandMetrics {
        command: "warm",
        prefix: "bintide_warm_",
        transactions: "",
        bytes: "",
        lag: "bintide_warm_lag_seconds",
    },
];

impl WatchedProcess {
    pub(super) const fn new(address: String) -> Self {
        Self { address, before: None, latest: None, state: String::new() }
    }

    /// Reads the metrics.
    pub(super) fn advance(&mut self) {
        match read_metrics(&self.address) {
            Ok(values) => {
                self.before = self.latest.take();
                self.latest = Some(ProcessReading { at: Instant::now(), values });
                self.state = read_readiness(&self.address).unwrap_or_else(|error| format!("{error:#}"));
            }
            Err(error) => {
                (self.before, self.latest) = (None, None);
                self.state = format!("{error:#}");
            }
        }
    }

    /// Returns a view of each command of the process.
    pub(super) fn views(&self) -> Vec<ProcessView> {
        let (address, state) = (self.address.clone(), self.state.clone());
        let Some(latest) = &self.latest else {
            return vec![ProcessView {
                address,
                command: None,
                state,
                transactions_per_second: None,
                bytes_per_second: None,
                lag_seconds: None,
            }];
        };
        let of_command = COMMANDS.iter().filter(|metrics| latest.values.has_prefix(metrics.prefix));
        let view = |metrics: &CommandMetrics| ProcessView {
            address: address.clone(),
            command: Some(metrics.command),
            state: state.clone(),
            transactions_per_second: self.rate(metrics.transactions),
            bytes_per_second: self.rate(metrics.bytes),
            lag_seconds: latest.values.max(metrics.lag),
        };
        of_command.map(view).collect()
    }

    /// Returns the rate of a counter; `None` without two readings, or after a restart of the process.
    fn rate(&self, name: &str) -> Option<f64> {
        let (before, latest) = (self.before.as_ref()?, self.latest.as_ref()?);
        let seconds = latest.at.saturating_duration_since(before.at).as_secs_f64();
        let grown = latest.values.sum(name)? - before.values.sum(name)?;
        (seconds > 0.0 && grown >= 0.0).then(|| grown / seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{MetricValues, ProcessReading, WatchedProcess};

    fn process(before: &str, latest: &str) -> WatchedProcess {
        let start = Instant::now();
        let reading = |text: &str, at| Some(ProcessReading { at, values: MetricValues::parse(text) });
        WatchedProcess {
            address: "localhost:1".to_owned(),
            before: reading(before, start),
            latest: reading(latest, start + Duration::from_secs(2)),
            state: "ready".to_owned(),
        }
    }

    #[test]
    fn rates_are_differences_of_counters() {
        let views = process(
            "bintide_receive_transactions_total 10\nbintide_receive_bytes_total 100\n",
            "bintide_receive_transactions_total 30\nbintide_receive_bytes_total 500\n\
             bintide_receive_lag_seconds 1.5\nbintide_relay_clients 0\n",
        )
        .views();
        let commands: Vec<_> = views.iter().map(|view| view.command).collect();
        assert_eq!(commands, [Some("receive"), Some("relay")]);
        assert_eq!(views[0].transactions_per_second, Some(10.0));
        assert_eq!(views[0].bytes_per_second, Some(200.0));
        assert_eq!(views[0].lag_seconds, Some(1.5));
        assert_eq!(views[1].transactions_per_second, None);
    }

    #[test]
    fn restarted_processes_have_no_rate() {
        let name = "bintide_stream_transactions_total";
        let views = process(&format!("{name} 10\n"), &format!("{name} 2\n")).views();
        assert_eq!(views[0].transactions_per_second, None);
    }
}
