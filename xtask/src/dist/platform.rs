//! Platforms that packages are made for.

use anyhow::{Context, Result};
use clap::ValueEnum;

/// Processor architecture of a package. The system is Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PackageArch {
    /// Intel and AMD, 64 bits
    #[value(name = "x86_64")]
    X86_64,
    /// ARM, 64 bits
    #[value(name = "aarch64")]
    Aarch64,
}

impl PackageArch {
    pub(crate) const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// Returns the architecture of this machine.
    pub(crate) fn native() -> Result<Self> {
        let native = Self::ALL.into_iter().find(|arch| arch.is_native());
        native.with_context(|| {
            format!("cannot make packages on {}: use x86_64 or aarch64", std::env::consts::ARCH)
        })
    }

    /// Returns the name in Rust's targets, in uname and in RPM packages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Returns the name in Debian packages and OCI images.
    pub(crate) const fn debian_name(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Returns the Rust target. Binaries for musl contain their C library, so they run on every distribution.
    pub(crate) fn rust_target(self) -> String {
        format!("{}-unknown-linux-musl", self.name())
    }

    /// Returns true if this machine runs programs of the architecture.
    pub(crate) fn is_native(self) -> bool {
        self.name() == std::env::consts::ARCH
    }
}
