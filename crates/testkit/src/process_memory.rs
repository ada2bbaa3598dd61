//! Memory of a running process.

use std::fs;

use anyhow::{Context, Result};

/// Memory of a process, in KiB, as in `/proc/PID/status`.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory {
    /// Present resident memory (`VmRSS`).
    pub resident_kib: u64,
    /// Largest resident memory since the start of the program (`VmHWM`).
    pub peak_kib: u64,
}

impl ProcessMemory {
    /// Reads the memory of a process.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kib = |name: &str| -> Result<u64> {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let value = value.with_context(|| format!("process {pid} has ended"))?;
            Ok(value.trim().trim_end_matches(" kB").parse()?)
        };
        Ok(Self { resident_kib: kib("VmRSS")?, peak_kib: kib("VmHWM")? })
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessMemory;

    #[test]
    fn the_peak_is_at_least_the_present_memory() {
        let memory = ProcessMemory::of(std::process::id()).unwrap();
        assert!(memory.resident_kib > 0 && memory.peak_kib >= memory.resident_kib, "{memory:?}");
    }
}
