//! A running `bintide relay`.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{ProcessMemory, TestServer, wait_until};

/// Running relay, which is stopped on drop.
pub(super) struct RelayProcess {
    child: Child,
    port: u16,
    _state: TempDir,
}

impl RelayProcess {
    /// Serves the logs of an index in one form.
    pub(super) fn serve(bintide: &Path, index: &Path, form: &str) -> Result<Self> {
        let mut command = Command::new(bintide);
        command.arg("relay").arg(index).args(["--form", form]);
        Self::start(command)
    }

    /// Receives from a server into a directory, and serves as-is.
    pub(super) fn receive(bintide: &Path, source: &TestServer, directory: &Path) -> Result<Self> {
        let from = format!("mysql://root@127.0.0.1:{}/", source.port());
        let mut command = Command::new(bintide);
        command.arg("relay").arg(directory).args(["--form", "as-is", "--from", &from]);
        Self::start(command)
    }

    fn start(mut command: Command) -> Result<Self> {
        let (port, state) = (testkit::free_port()?, TempDir::new()?);
        command.arg("--listen").arg(format!("127.0.0.1:{port}")).arg("--state").arg(state.path());
        command.env_clear().stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("could not start bintide relay")?;
        let relay = Self { child, port, _state: state };
        wait_until("the relay's port", || Ok(TcpStream::connect(("127.0.0.1", port)).is_ok()))?;
        Ok(relay)
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the resident memory, in bytes.
    pub(super) fn memory_bytes(&self) -> Result<u64> {
        Ok(ProcessMemory::of(self.pid())?.resident_kib * 1024)
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // The relay may have ended.
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
        let _ = self.child.wait();
    }
}
