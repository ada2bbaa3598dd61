//! Makes packages of the command: static binaries, and archives, Debian packages, RPM packages and OCI images with
//! them.
//!
//! The sources are those of the last commit, in a directory of their own, so that two builds of one commit give the
//! same bytes. A staged directory has all files of a package at their installed paths; every kind of package is made
//! from it.

mod archive;
mod command;
mod deb;
mod debian_root;
mod dependencies;
mod install_test;
mod oci;
mod package_kind;
mod platform;
mod rpm;
mod stage;
mod static_binary;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::archive::{TarCompression, write_tar};
use self::command::{empty_directory, run, sha256, stdout_of};
use self::dependencies::DependencyList;
use self::package_kind::PackageKind;
use self::platform::PackageArch;
use self::stage::StagedPackage;
use self::static_binary::FeatureSet;
use crate::checks::workspace_field;

/// Options of `cargo xtask dist`.
#[derive(Args)]
pub(crate) struct DistOptions {
    /// Architectures to make packages for; packages of other architectures are kept [default: all]
    #[arg(long, value_enum, value_name = "ARCH")]
    arch: Vec<PackageArch>,
    /// Install each package in a root directory of its own, run it there, and remove it (needs root)
    #[arg(long)]
    test: bool,
    /// Build the commit a second time in another directory, and compare the packages byte for byte
    #[arg(long)]
    reproduce: bool,
    /// Build a binary for x86_64 without optional features, and check its size
    #[arg(long)]
    size: bool,
}

/// One commit, and the directory for its sources, builds and packages.
pub(crate) struct Release {
    /// Version of the packages, such as `0.1.0`.
    version: String,
    /// Time of the commit, in seconds since 1970. Files in the packages have this time.
    epoch: u64,
    directory: PathBuf,
}

/// Makes the packages into target/dist.
pub(crate) fn make_packages(options: &DistOptions) -> Result<()> {
    let directory = testkit::target_dir().join("dist");
    let archs = if options.arch.is_empty() { PackageArch::ALL.to_vec() } else { options.arch.clone() };
    let release = Release::export(&directory)?;
    let sums = release.build(&archs)?;
    if options.reproduce {
        let second = Release::export(&testkit::target_dir().join("dist-second"))?;
        ensure!(
            second.build(&archs)? == sums,
            "two builds of one commit differ: compare target/dist and target/dist-second"
        );
        println!("two builds of the commit are equal byte for byte: {} files", sums.len());
    }
    if options.size {
        check_size(&release)?;
    }
    if options.test {
        install_test::test_packages(&release, &archs)?;
    }
    println!("the packages are in {}", release.packages().display());
    Ok(())
}

/// Size in bytes that a binary for x86_64 without optional features may have.
const BINARY_SIZE_MAX: u64 = 15_000_000;

fn check_size(release: &Release) -> Result<()> {
    let binary = static_binary::build(release, PackageArch::X86_64, FeatureSet::Minimal)?;
    let size = fs::metadata(&binary)?.len();
    ensure!(size <= BINARY_SIZE_MAX, "the binary has {size} bytes: more than {BINARY_SIZE_MAX}");
    println!("the binary for x86_64 without optional features has {size} bytes");
    Ok(())
}

impl Release {
    /// Exports the sources of the last commit into `directory`.
    fn export(directory: &Path) -> Result<Self> {
        let root = testkit::workspace_root();
        let source = directory.join("source");
        empty_directory(&source)?;
        let git = |arguments: &[&str]| stdout_of(Command::new("git").args(arguments).current_dir(&root));
        if !git(&["status", "--porcelain"])?.is_empty() {
            eprintln!("the packages are made from the last commit, without the uncommitted changes");
        }
        let archive = directory.join("source.tar");
        run(Command::new("git").args(["archive", "--output"]).arg(&archive).arg("HEAD").current_dir(&root))?;
        // Sources with the time of the commit would look older than an earlier build of another commit.
        run(Command::new("tar")
            .args(["--extract", "--touch"])
            .arg("--file")
            .arg(&archive)
            .arg("--directory")
            .arg(&source))?;
        fs::remove_file(&archive)?;
        let version = workspace_field(&source, "version")?;
        let epoch = git(&["log", "-1", "--format=%ct"])?.trim().parse()?;
        Ok(Self { version, epoch, directory: directory.to_path_buf() })
    }

    /// Returns the directory with the sources.
    fn source(&self) -> PathBuf {
        self.directory.join("source")
    }

    /// Returns the directory for the packages.
    fn packages(&self) -> PathBuf {
        self.directory.join("packages")
    }

    /// Builds everything, and returns the SHA-256 of each new file by name.
    fn build(&self, archs: &[PackageArch]) -> Result<BTreeMap<String, String>> {
        let packages = self.packages();
        let others = self.remove_packages(archs)?;
        let dependencies = DependencyList::read(&self.source())?;
        let sbom = packages.join(format!("bintide-{}.cdx.json", self.version));
        fs::write(sbom, dependencies.sbom(&self.version)?)?;
        // The binary of this machine writes the manual pages and completions of all packages.
        let native = static_binary::build(self, PackageArch::native()?, FeatureSet::Packaged)?;
        for arch in archs {
            let binary = if arch.is_native() {
                native.clone()
            } else {
                static_binary::build(self, *arch, FeatureSet::Packaged)?
            };
            let staged = StagedPackage::new(self, *arch, &binary, &native, &dependencies)?;
            let file = PackageKind::Archive.file(self, *arch);
            write_tar(staged.root(), &file, self.epoch, TarCompression::Gzip)?;
            deb::make_deb(self, &staged)?;
            rpm::make_rpm(self, &staged)?;
            oci::make_image(self, &staged)?;
        }
        let mut sums = self.write_checksums()?;
        sums.retain(|name, _| !others.contains(name));
        Ok(sums)
    }

    /// Removes all files except the packages of other architectures, whose names it returns.
    fn remove_packages(&self, archs: &[PackageArch]) -> Result<BTreeSet<String>> {
        fs::create_dir_all(self.packages())?;
        let mut others = BTreeSet::new();
        for arch in PackageArch::ALL.into_iter().filter(|arch| !archs.contains(arch)) {
            for kind in PackageKind::ALL {
                let name = kind.file(self, arch);
                others.extend(name.file_name().map(|name| name.to_string_lossy().into_owned()));
            }
        }
        let mut kept = BTreeSet::new();
        for entry in fs::read_dir(self.packages())? {
            let path = entry?.path();
            let name = path.file_name().context("a package without a name")?.to_string_lossy().into_owned();
            match others.contains(&name) {
                true => drop(kept.insert(name)),
                false => fs::remove_file(&path)?,
            }
        }
        Ok(kept)
    }

    /// Writes SHA256SUMS of all packages.
    fn write_checksums(&self) -> Result<BTreeMap<String, String>> {
        let mut sums = BTreeMap::new();
        for entry in fs::read_dir(self.packages())? {
            let path = entry?.path();
            let name = path.file_name().context("a package without a name")?.to_string_lossy().into_owned();
            sums.insert(name, sha256(&path)?);
        }
        let lines: String = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
        fs::write(self.packages().join("SHA256SUMS"), lines)?;
        Ok(sums)
    }
}
