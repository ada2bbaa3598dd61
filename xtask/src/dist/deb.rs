//! Debian packages, made by dpkg-deb.

use std::fs;
use std::process::Command;

use anyhow::Result;

use super::Release;
use super::command::{run, stdout_of};
use super::package_kind::PackageKind;
use super::stage::{DOC_DIRECTORY, StagedPackage};

/// Maintainer script: creates the user and the directories, and makes systemd load the units. Without systemd, both are
/// left to the administrator.
const POSTINST: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = configure ]; then
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers bintide.conf
    fi
    if command -v systemd-tmpfiles >/dev/null; then
        systemd-tmpfiles --create bintide.conf || true
    fi
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || true
    fi
fi
";

/// Maintainer script that makes systemd unload the removed units. Running services keep running until they are stopped.
const POSTRM: &str = "\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
";

/// Makes the Debian package.
pub(crate) fn make_deb(release: &Release, staged: &StagedPackage) -> Result<()> {
    let arch = staged.arch.debian_name();
    let root = release.directory.join("stage").join(format!("deb-{arch}"));
    testkit::remove_dir(&root)?;
    run(Command::new("cp").arg("--archive").arg(staged.root()).arg(&root))?;
    let package = StagedPackage::at(staged.arch, root);
    let contrib = |name: &str| fs::read(release.source().join("contrib/debian").join(name));
    package.add(&format!("{DOC_DIRECTORY}/copyright"), &contrib("copyright")?, 0o644)?;
    let changelog = format!("{DOC_DIRECTORY}/changelog.Debian");
    package.add(&changelog, debian_changelog(release)?.as_bytes(), 0o644)?;
    package.compress(&changelog)?;
    package.add("usr/share/lintian/overrides/bintide", &contrib("lintian-overrides")?, 0o644)?;
    // The licences are named in `copyright`.
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::remove_file(package.root().join(DOC_DIRECTORY).join(name))?;
    }
    let size = stdout_of(Command::new("du").args(["-sk", "--apparent-size"]).arg(package.root()))?;
    let size = size.split_whitespace().next().unwrap_or_default().to_owned();
    package.add("DEBIAN/control", control(release, arch, &size).as_bytes(), 0o644)?;
    package.add("DEBIAN/postinst", POSTINST.as_bytes(), 0o755)?;
    package.add("DEBIAN/postrm", POSTRM.as_bytes(), 0o755)?;
    let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums";
    run(Command::new("sh").args(["-c", sums]).current_dir(package.root()))?;
    package.normalize_modes()?;
    let file = PackageKind::Debian.file(release, staged.arch);
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--build", "--root-owner-group", "-Zxz"]).arg(package.root()).arg(file);
    run(dpkg.env("SOURCE_DATE_EPOCH", release.epoch.to_string()))
}

fn control(release: &Release, arch: &str, size: &str) -> String {
    format!(
        "Package: bintide
Version: {}-1
Architecture: {arch}
Maintainer: The bintide developers <bintide@localhost.localdomain>
Installed-Size: {size}
Section: database
Priority: optional
Suggests: systemd
Description: tool for the binary logs of MySQL and MariaDB
 bintide prints, counts, checks, compresses, copies, archives and applies
 binary logs, serves them to replicas, undoes transactions, and writes row
 changes as JSON, Avro or Parquet, also to Kafka.
 .
 It reads compressed transactions and encrypted logs. Its memory use does
 not grow with the size of a log.
",
        release.version
    )
}

fn debian_changelog(release: &Release) -> Result<String> {
    let date = format!("@{}", release.epoch);
    let date =
        stdout_of(Command::new("date").args(["--utc", "--rfc-email", "--date", &date]).env("LC_ALL", "C"))?;
    Ok(format!(
        "bintide ({}-1) unstable; urgency=medium

  * New version. See changelog.gz for its changes.

 -- The bintide developers <bintide@localhost.localdomain>  {}
",
        release.version,
        date.trim()
    ))
}
