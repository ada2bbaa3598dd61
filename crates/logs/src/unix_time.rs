//! Present time, as logs state times.

use std::time::SystemTime;

/// Returns the present time in microseconds since 1970; 0 for a clock before 1970.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
