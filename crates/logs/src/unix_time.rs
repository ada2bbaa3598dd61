//! Present time, as logs state times.

use std::time::SystemTime;

/// Returns the present time in microseconds since 1970; 0 for a clock before 1970.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the present time in seconds since 1970; 0 for a clock before 1970.
pub fn now_s() -> i64 {
    i64::try_from(now_us() / 1_000_000).unwrap_or(i64::MAX)
}
