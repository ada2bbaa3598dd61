//! A minimal Debian system, in which packages are installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::command::{empty_directory, run};

const SUITE: &str = "bookworm";

/// Packages of the programs that the maintainer scripts use if they are installed.
const PACKAGES: &str = "systemd";

/// Unpacks the system into a root directory. debootstrap makes its archive once; the user's cache keeps the archive.
pub(crate) fn unpack(root: &Path) -> Result<()> {
    let archive = testkit::cache_dir().join(format!("debian-{SUITE}-1.tar"));
    if !archive.exists() {
        eprintln!("making a minimal Debian system: once");
        let directory = testkit::target_dir().join("debootstrap");
        empty_directory(&directory)?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", "--include", PACKAGES, SUITE]).arg(&directory);
        run(debootstrap.arg(testkit::debian_mirror()?))?;
        let part = archive.with_extension("part");
        run(Command::new("tar")
            .args(["--create", "--numeric-owner", "--file"])
            .arg(&part)
            .arg("--directory")
            .arg(&directory)
            .arg("."))?;
        fs::rename(&part, &archive)?;
        testkit::remove_dir(&directory)?;
    }
    run(Command::new("tar")
        .args(["--extract", "--numeric-owner", "--file"])
        .arg(&archive)
        .arg("--directory")
        .arg(root))
}
