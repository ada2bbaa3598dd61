//! Waits for a condition.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Time after which a wait fails. A replica on a busy machine needs minutes to apply the changes of one minute.
const TIMEOUT: Duration = Duration::from_secs(240);
/// Shortest pause after a check.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// Longest pause after a check, so that a check on a loaded machine is repeated soon enough.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Pause after a check, in durations of the check. A check that asks a server starts a client: without pauses, the
/// clients of a few waiting tests would occupy all cores.
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
        thread::sleep(pause_of(check_begin.elapsed()));
    }
}

/// Returns the pause after a check of this duration.
fn pause_of(duration: Duration) -> Duration {
    duration.saturating_mul(CHECK_PAUSE_RATIO).clamp(PAUSE_MIN, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{pause_of, wait_until, wait_until_within};

    #[test]
    fn pauses_depend_on_the_check() {
        let check = |check_ms, pause_ms| {
            assert_eq!(pause_of(Duration::from_millis(check_ms)), Duration::from_millis(pause_ms));
        };
        check(0, 5);
        check(1, 5);
        check(30, 120);
        check(9000, 1000);
    }

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
