//! State of a receiver as health and metrics show it.

use std::sync::Arc;
use std::time::Duration;

use logs::now_s;
use receive::{ReceiveStats, SharedReceiveStats};

use crate::commands::receive::ReceiveDisplay;
use crate::commands::receive::archiving_state::ArchivingState;
use crate::commands::receive::receive_metrics::{RECEIVE_METRICS, ReceiveFigures};
use crate::metrics_registry::MetricsRegistry;
use crate::service_state::ServiceState;

/// State of a receiver, shared between threads.
#[derive(Clone)]
pub(crate) struct ReceivingState {
    pub(crate) stats: SharedReceiveStats,
    pub(crate) display: Arc<ReceiveDisplay>,
    pub(crate) archiving: ArchivingState,
}

impl ReceivingState {
    /// Returns the state of a receiver without an archive.
    pub(crate) fn new(stats: SharedReceiveStats, display: Arc<ReceiveDisplay>) -> Self {
        Self { stats, display, archiving: ArchivingState::default() }
    }

    /// Returns the present figures.
    pub(super) fn figures(&self) -> ReceiveFigures {
        ReceiveFigures::new(&self.stats, &self.archiving, self.display.began().elapsed())
    }

    /// Returns whether a source is connected and has no event that is not received.
    pub(crate) fn has_everything(&self) -> bool {
        self.stats.read(ReceiveStats::has_everything)
    }

    /// Adds the metrics of the receiver.
    pub(crate) fn add_metrics(&self, registry: MetricsRegistry) -> MetricsRegistry {
        let state = self.clone();
        registry.with(RECEIVE_METRICS, move || state.figures())
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
        let texts = [Some(self.display.summary(&self.stats)), self.archiving.text()];
        texts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
