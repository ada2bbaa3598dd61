//! State of a receiver as health and metrics show it.

use std::sync::Arc;
use std::time::Duration;

use receive::SharedReceiveStats;

use crate::commands::receive::ReceiveDisplay;
use crate::commands::receive::receive_metrics::{RECEIVE_METRICS, ReceiveFigures, now_s};
use crate::metrics_registry::MetricsRegistry;
use crate::service_state::ServiceState;

/// State of a receiver, shared between threads.
#[derive(Clone)]
pub(crate) struct ReceivingState {
    pub(crate) stats: SharedReceiveStats,
    pub(crate) display: Arc<ReceiveDisplay>,
}

impl ReceivingState {
    /// Adds the metrics of the receiver.
    pub(crate) fn add_metrics(&self, registry: MetricsRegistry) -> MetricsRegistry {
        let (stats, began) = (self.stats.clone(), self.display.began());
        registry.with(RECEIVE_METRICS, move || ReceiveFigures::new(&stats, began.elapsed()))
    }
}

impl ServiceState for ReceivingState {
    fn readiness(&self) -> Result<(), String> {
        self.display.readiness(&self.stats)
    }

    fn lag(&self) -> Option<Duration> {
        self.stats.read(|stats| stats.lag_s(now_s())).map(Duration::from_secs)
    }

    fn summary(&self) -> String {
        self.display.summary(&self.stats)
    }
}
