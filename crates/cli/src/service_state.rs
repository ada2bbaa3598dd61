//! State of a command that runs until it is stopped.

use std::time::Duration;

/// State of a command that runs until it is stopped, for `/readyz` and for systemd. Threads that serve these read it.
pub(crate) trait ServiceState: Send + Sync {
    /// Tells whether the command can do its work, or why not.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// Tells whether the start is complete. The lag has no influence: a command may start far behind its source.
    fn is_started(&self) -> bool {
        self.readiness().is_ok()
    }

    /// Returns the lag behind the source; `None` if it is not known.
    fn lag(&self) -> Option<Duration>;

    /// Returns one line about the work.
    fn summary(&self) -> String;
}
