//! Installs each package in a root directory of its own, and runs the command there.
//!
//! Packages of this machine's architecture are installed in a minimal Debian system, with their maintainer scripts, and
//! removed again. Packages of other architectures are unpacked into an empty directory.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Release;
use super::command::{empty_directory, run, stdout_of};
use super::debian_root;
use super::package_kind::PackageKind;
use super::platform::PackageArch;

/// Log that the installed command counts.
const SAMPLE_LOG: &str = "samples/types.binlog";

/// Files that every package for distributions installs.
const INSTALLED_FILES: [&str; 6] = [
    "usr/bin/bintide",
    "usr/share/man/man1/bintide-relay.1.gz",
    "usr/share/bash-completion/completions/bintide",
    "usr/lib/systemd/system/bintide-relay@.service",
    "usr/lib/sysusers.d/bintide.conf",
    "usr/share/doc/bintide/LICENSES-THIRD-PARTY.gz",
];

/// Tests the packages of each architecture.
pub(crate) fn test_packages(release: &Release, archs: &[PackageArch]) -> Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the test of packages changes its root directory: run it as root"
    );
    for arch in archs {
        for kind in PackageKind::ALL {
            let root = release.directory.join("install");
            empty_directory(&root)?;
            let package = kind.file(release, *arch);
            install(kind, *arch, &package, &root)
                .with_context(|| format!("could not install {}", package.display()))?;
            check_installed(kind, *arch, &root, &release.source())
                .with_context(|| format!("{} does not work", package.display()))?;
            if arch.is_native() {
                check_scripts(kind, &root)
                    .with_context(|| format!("the scripts of {} do not work", package.display()))?;
            }
            println!("{}: installed, and run", package.display());
        }
        run_lintian(&PackageKind::Debian.file(release, *arch))?;
    }
    Ok(())
}

/// Installs the package.
fn install(kind: PackageKind, arch: PackageArch, package: &Path, root: &Path) -> Result<()> {
    match kind {
        PackageKind::Archive => unpack(package, root),
        PackageKind::Debian if arch.is_native() => {
            debian_root::unpack(root)?;
            fs::copy(package, root.join("package.deb"))?;
            run(in_system(root).arg("chroot").arg(root).args(["dpkg", "--install", "/package.deb"]))
        }
        PackageKind::Debian => {
            fs::create_dir_all(root.join("var/lib/dpkg/info"))?;
            fs::create_dir_all(root.join("var/lib/dpkg/updates"))?;
            for name in ["status", "available"] {
                fs::write(root.join("var/lib/dpkg").join(name), "")?;
            }
            let mut dpkg = Command::new("dpkg");
            dpkg.arg("--root").arg(root);
            // The root directory has no shell for maintainer scripts, so the package is only unpacked.
            dpkg.args(["--force-script-chrootless", "--force-architecture", "--force-not-root", "--unpack"]);
            run(dpkg.arg(package))
        }
        PackageKind::Rpm => {
            let options = ["--install", "--ignorearch", "--nodeps"];
            if arch.is_native() {
                debian_root::unpack(root)?;
                return run(in_system(root).args(["rpm", "--root"]).arg(root).args(options).arg(package));
            }
            let mut rpm = Command::new("rpm");
            run(rpm.arg("--root").arg(root).args(options).arg("--noscripts").arg(package))
        }
        PackageKind::Image => {
            let image = root.join("image");
            fs::create_dir(&image)?;
            unpack(package, &image)?;
            let blob = |value: &serde_json::Value| {
                let digest = value["digest"].as_str().unwrap_or_default().replace(':', "/");
                image.join("blobs").join(digest)
            };
            let read =
                |path: &Path| -> Result<serde_json::Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
            let index = read(&image.join("index.json"))?;
            let manifest = read(&blob(&index["manifests"][0]))?;
            unpack(&blob(&manifest["layers"][0]), root)
        }
    }
}

/// Checks the files of an installed package, and runs the command in its root directory.
fn check_installed(kind: PackageKind, arch: PackageArch, root: &Path, source: &Path) -> Result<()> {
    let paths: &[&str] = match kind {
        PackageKind::Image => {
            &["etc/ssl/certs/ca-certificates.crt", "usr/share/zoneinfo/Europe/Berlin", "tmp"]
        }
        PackageKind::Archive | PackageKind::Debian | PackageKind::Rpm => &INSTALLED_FILES,
    };
    for path in paths {
        ensure!(root.join(path).exists(), "{path} is missing");
    }
    fs::copy(source.join(SAMPLE_LOG), root.join("sample.binlog"))?;
    if !arch.is_native() {
        let emulator = format!("qemu-{}-static", arch.name());
        let program = stdout_of(Command::new("which").arg(&emulator))
            .with_context(|| format!("could not find {emulator}: install qemu-user-static"))?;
        fs::copy(program.trim(), root.join("emulator"))?;
    }
    let version = stdout_of(installed_command(arch, root).arg("--version"))?;
    ensure!(version.starts_with("bintide "), "--version prints {version:?}");
    if arch.is_native() {
        check_start_time(&root.join("usr/bin/bintide"))?;
    }
    let stats = stdout_of(installed_command(arch, root).args(["stats", "--json", "/sample.binlog"]))?;
    let stats: serde_json::Value = serde_json::from_str(&stats)?;
    ensure!(stats["totals"]["transactions"].as_u64() > Some(0), "stats counts no transactions: {stats}");
    Ok(())
}

/// Maximum time of `bintide --version`, which shells and monitors run.
const START_TIME_MAX: Duration = Duration::from_millis(10);

/// Checks the time that the command needs to start: the shortest of some runs, because the machine may be busy.
fn check_start_time(command: &Path) -> Result<()> {
    const RUNS: usize = 5;
    let mut shortest = Duration::MAX;
    for _ in 0..RUNS {
        let began = Instant::now();
        stdout_of(Command::new(command).arg("--version"))?;
        shortest = shortest.min(began.elapsed());
    }
    ensure!(shortest < START_TIME_MAX, "--version takes {shortest:?}; expected less than {START_TIME_MAX:?}");
    Ok(())
}

/// Checks what the maintainer scripts have done, and removes the package.
fn check_scripts(kind: PackageKind, root: &Path) -> Result<()> {
    let mut remove = match kind {
        PackageKind::Archive | PackageKind::Image => return Ok(()),
        PackageKind::Debian => {
            let mut dpkg = chroot(root);
            dpkg.args(["dpkg", "--purge", "bintide"]);
            dpkg
        }
        PackageKind::Rpm => {
            let mut rpm = Command::new("rpm");
            rpm.arg("--root").arg(root).args(["--erase", "bintide"]);
            rpm
        }
    };
    let user = stdout_of(chroot(root).args(["id", "--name", "--user", "bintide"]))?;
    ensure!(user.trim() == "bintide", "the scripts did not create the user");
    let directory = stdout_of(chroot(root).args(["stat", "--format=%a %U %G", "/etc/bintide"]))?;
    ensure!(directory.trim() == "750 root bintide", "/etc/bintide has the mode and owners {directory}");
    run(&mut remove)?;
    ensure!(!root.join("usr/bin/bintide").exists(), "the removed package left its files");
    Ok(())
}

/// Returns the start of a command in a root directory with the process file system, which systemd-tmpfiles needs.
fn in_system(root: &Path) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", "mount -t proc proc \"$0/proc\" && exec \"$@\""]).arg(root);
    unshare.env("PATH", SEARCH_PATH).env("LC_ALL", "C");
    unshare
}

/// Directories of programs, here and in the root directories.
const SEARCH_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

fn chroot(root: &Path) -> Command {
    let mut chroot = Command::new("chroot");
    chroot.arg(root).env("PATH", SEARCH_PATH).env("LC_ALL", "C");
    chroot
}

/// Returns the command that is installed in a root directory. Another architecture is emulated.
fn installed_command(arch: PackageArch, root: &Path) -> Command {
    let mut chroot = chroot(root);
    if !arch.is_native() {
        chroot.arg("/emulator");
    }
    chroot.arg("/usr/bin/bintide");
    chroot
}

/// Runs lintian, which must report nothing.
fn run_lintian(package: &Path) -> Result<()> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--display-level", ">=warning", "--allow-root"]);
    run(lintian.arg(package))
}

fn unpack(archive: &Path, directory: &Path) -> Result<()> {
    run(Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("--directory").arg(directory))
}
