//! Delays of failed logins.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use logs::lock;

/// Failed logins by address. Each further answer is delayed longer than the previous answer.
#[derive(Debug, Default)]
pub(crate) struct LoginThrottle {
    failures: Mutex<HashMap<IpAddr, FailedLogins>>,
}

/// Recent failed logins from one address.
#[derive(Clone, Copy, Debug)]
struct FailedLogins {
    count: u32,
    last: Instant,
}

/// Number of failed logins without a delay: people mistype passwords.
const FREE_MAX: u32 = 3;
/// Delay of the next failed login.
const DELAY_MIN: Duration = Duration::from_millis(100);
/// Maximum delay.
const DELAY_MAX: Duration = Duration::from_secs(3);
/// Time after which failed logins are forgotten.
const FAILURE_LIFETIME: Duration = Duration::from_secs(300);
/// Maximum number of addresses.
const ADDRESSES_MAX: usize = 4096;

impl LoginThrottle {
    /// Counts a failed login. Returns the time to wait before the answer.
    pub(crate) fn count_failure(&self, address: IpAddr, now: Instant) -> Duration {
        let mut failures = lock(&self.failures);
        if failures.len() >= ADDRESSES_MAX {
            failures.retain(|_, failed| now.saturating_duration_since(failed.last) < FAILURE_LIFETIME);
        }
        if failures.len() >= ADDRESSES_MAX && !failures.contains_key(&address) {
            return DELAY_MAX;
        }
        let failed = failures.entry(address).or_insert(FailedLogins { count: 0, last: now });
        if now.saturating_duration_since(failed.last) >= FAILURE_LIFETIME {
            failed.count = 0;
        }
        (failed.count, failed.last) = (failed.count.saturating_add(1), now);
        let Some(doublings) = failed.count.checked_sub(FREE_MAX + 1) else { return Duration::ZERO };
        DELAY_MIN.saturating_mul(1 << doublings.min(16)).min(DELAY_MAX)
    }

    /// Forgets the failed logins of an address after a successful login.
    pub(crate) fn forget(&self, address: IpAddr) {
        lock(&self.failures).remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::{Duration, Instant};

    use super::{DELAY_MAX, FAILURE_LIFETIME, LoginThrottle};

    #[test]
    fn delays_grow_and_expire() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        let one = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let delays: Vec<u128> = (0..6).map(|_| throttle.count_failure(one, now).as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 100, 200, 400]);
        for _ in 0..40 {
            throttle.count_failure(one, now);
        }
        assert_eq!(throttle.count_failure(one, now), DELAY_MAX);
        assert_eq!(throttle.count_failure(one, now + FAILURE_LIFETIME), Duration::ZERO);
        throttle.forget(one);
        assert_eq!(throttle.count_failure(one, now), Duration::ZERO);
    }
}
