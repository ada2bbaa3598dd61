//! Waits for a condition.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Time after which a wait fails. A replica on a busy machine needs minutes to apply the changes of one minute.
const TIMEOUT: Duration = Duration::from_secs(240);
/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until a condition holds. The description completes the error "timed out waiting for".
///
/// # Errors
/// Fails if the condition does not hold after four minutes, or cannot be checked.
pub fn wait_until(description: &str, condition: impl FnMut() -> Result<bool>) -> Result<()> {
    wait_until_within(TIMEOUT, description, condition)
}

/// Waits until a condition holds, for at most this time.
///
/// # Errors
/// Fails if the condition does not hold after this time, or cannot be checked.
pub fn wait_until_within(
    limit: Duration,
    description: &str,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let begin = Instant::now();
    while !condition()? {
        ensure!(begin.elapsed() < limit, "timed out waiting for {description}");
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{wait_until, wait_until_within};

    #[test]
    fn waits_end_with_the_condition_or_the_time() {
        let mut checks = 0;
        wait_until("the third check", || {
            checks += 1;
            Ok(checks == 3)
        })
        .unwrap();
        let late = wait_until_within(Duration::ZERO, "the impossible", || Ok(false)).unwrap_err();
        assert_eq!(late.to_string(), "timed out waiting for the impossible");
    }
}
