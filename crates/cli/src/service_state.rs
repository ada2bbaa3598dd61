//! State of a command that runs until it is stopped.

use std::time::Duration;

/// State of a command that runs until it is stopped, for `/readyz` and for systemd. Threads that serve these read it.
pub(crate) trait ServiceState: Send + Sync {
    /// Checks that the command can do its work. Otherwise returns the reason.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns whether the start is complete, regardless of the lag: a command may start far behind its source.
    fn is_started(&self) -> bool {
        self.readiness().is_ok()
    }

    /// Returns the lag behind the source; `None` if unknown, or without a source.
    fn lag(&self) -> Option<Duration>;

    /// Returns whether there is a source. Without one, there is no lag that could be unknown.
    fn has_source(&self) -> bool {
        true
    }

    /// Returns one line about the work.
    fn summary(&self) -> String;
}
