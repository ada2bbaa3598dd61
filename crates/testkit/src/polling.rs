//! Waits for a condition.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Time after which a wait fails. A replica on a busy machine needs minutes to apply the changes of one minute.
const TIMEOUT: Duration = Duration::from_secs(240);
/// Minimum interval between two checks.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(5);
/// Minimum interval between two checks, in durations of a check. A check that asks a server starts a client: without
/// this limit, the clients of a few waiting tests would occupy all cores.
const CHECK_PAUSE_RATIO: u32 = 4;

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
    loop {
        let check_begin = Instant::now();
        if condition()? {
            return Ok(());
        }
        ensure!(begin.elapsed() < limit, "timed out waiting for {description}");
        pause_after_check(check_begin);
    }
}

/// Sleeps after a check that began at this time, and is to be repeated.
pub fn pause_after_check(check_begin: Instant) {
    thread::sleep(POLL_INTERVAL_MIN.max(check_begin.elapsed() * CHECK_PAUSE_RATIO));
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
