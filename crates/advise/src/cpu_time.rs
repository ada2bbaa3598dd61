//! CPU time of the current thread, and a description of the machine.

use std::fs;
use std::thread;
use std::time::Instant;

use super::report::MachineReport;

/// Measures the CPU time of the current thread or, where the operating system has no such clock, elapsed time.
#[derive(Debug)]
pub(crate) struct CpuTime {
    started: Instant,
    started_ns: Option<u64>,
}

impl CpuTime {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), started_ns: thread_ns() }
    }

    /// Returns the nanoseconds since the start.
    pub(crate) fn ns(&self) -> u64 {
        match (self.started_ns, thread_ns()) {
            (Some(started), Some(now)) => now.saturating_sub(started),
            _ => self.started.elapsed().as_nanos() as u64,
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_os = "macos"))]
fn thread_ns() -> Option<u64> {
    use nix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?;
    Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_os = "macos")))]
const fn thread_ns() -> Option<u64> {
    None
}

/// Returns a description of this machine.
pub(crate) fn machine() -> MachineReport {
    MachineReport {
        cpu: cpu(),
        cores: thread::available_parallelism().map_or(1, usize::from),
        zstd: zstd_safe::version_string().to_owned(),
    }
}

/// Returns the processor's name, on Linux.
fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::CpuTime;

    #[test]
    fn sleep_is_not_counted() {
        let work = CpuTime::start();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let slept = work.ns();
        let mut sum = 0_u64;
        while work.ns() < slept + 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        if super::thread_ns().is_some() {
            assert!(slept < 25_000_000, "{slept}");
        }
    }
}
