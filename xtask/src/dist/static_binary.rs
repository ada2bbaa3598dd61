//! The static binary, built with zig as C compiler and linker.

use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Release;
use super::command::{run, stdout_of};
use super::platform::PackageArch;
use crate::cargo_tool::CargoTool;

const ZIGBUILD: CargoTool =
    CargoTool { name: "cargo-zigbuild", version: "0.24.1", program: "cargo-zigbuild", features: &[] };

/// Version of PyPI's package of zig.
const ZIG_VERSION: &str = "0.15.2";

/// Features of a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeatureSet {
    /// The optional parts of packages.
    Packaged,
    /// No optional parts.
    Minimal,
}

impl FeatureSet {
    /// Returns cargo's argument.
    pub(crate) const fn argument(self) -> &'static str {
        match self {
            Self::Packaged => "--features=archive,columns,kafka-cross",
            Self::Minimal => "--no-default-features",
        }
    }
}

/// Builds bintide with the profile `dist`, and returns the path of the binary.
///
/// The binary contains no path of this machine, so that the same sources give the same bytes in any directory.
pub(crate) fn build(release: &Release, arch: PackageArch, features: FeatureSet) -> Result<PathBuf> {
    let source = release.source();
    let zigbuild = ZIGBUILD.ensure()?;
    let target = arch.rust_target();
    run(Command::new("rustup").args(["--quiet", "target", "add", &target]).current_dir(&source))?;
    let target_dir = release.directory.join(match features {
        FeatureSet::Packaged => "build",
        FeatureSet::Minimal => "build-minimal",
    });
    let mut cargo = testkit::cargo_command(&source);
    cargo.args([
        "zigbuild",
        "--quiet",
        "--locked",
        "--profile=dist",
        "--package=bintide",
        "--target",
        &target,
    ]);
    cargo.arg(features.argument()).arg("--target-dir").arg(&target_dir);
    cargo.env("PATH", path_with(&zigbuild)?).env("CARGO_ZIGBUILD_PYTHON_PATH", ensure_zig()?);
    let directories = [(source, "/bintide"), (cargo_home()?, "/cargo"), (target_dir.clone(), "/build")];
    let remapped: Vec<String> =
        directories.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect();
    cargo.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", remapped.join("\u{1f}"));
    let mut cflags: Vec<String> =
        directories.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display())).collect();
    cflags.push(format!("-I{}", write_empty_curl_header(&release.directory)?.display()));
    let perl = write_perl(&release.directory)?;
    let variables = format!("{OPENSSL_DIRECTORIES} PERL={}", perl.display());
    cargo.env("CFLAGS", cflags.join(" ")).env("GNUMAKEFLAGS", variables);
    // A static binary contains its own OpenSSL, also if other builds take the machine's.
    cargo.env_remove("OPENSSL_NO_VENDOR");
    // OpenSSL compiles the time of its build into its library.
    cargo.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    run(&mut cargo)?;
    Ok(target_dir.join(target).join("dist/bintide"))
}

/// Directories that OpenSSL compiles into its library, as variables of its Makefile. By default, they lie in the build
/// directory, whose path differs between two builds. bintide loads no engines and no modules.
const OPENSSL_DIRECTORIES: &str = "ENGINESDIR=/usr/lib/engines-3 MODULESDIR=/usr/lib/ossl-modules";

/// Writes an empty `curl/curl.h`, and returns the include directory that contains it.
///
/// librdkafka 2.12.1 includes that file also if it is built without curl (`#ifdef WITH_OAUTHBEARER_OIDC` is true for a
/// value of 0), and uses nothing of it.
fn write_empty_curl_header(directory: &Path) -> Result<PathBuf> {
    let include = directory.join("include");
    fs::create_dir_all(include.join("curl"))?;
    fs::write(include.join("curl/curl.h"), "")?;
    Ok(include)
}

/// Writes a program that is run in place of Perl by the build of OpenSSL, and returns its path.
///
/// OpenSSL compiles the command line of its compiler into its library (`util/mkbuildinf.pl`). The command line contains
/// paths of this machine. The program passes `zig` to the script instead.
fn write_perl(directory: &Path) -> Result<PathBuf> {
    const SCRIPT: &str = r#"#!/bin/sh
case "$1" in
    util/mkbuildinf.pl) set -- "$1" zig "$3" ;;
esac
exec perl "$@"
"#;
    let path = directory.join("perl");
    fs::write(&path, SCRIPT)?;
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Returns the program search path with the directory of a program in front.
fn path_with(program: &Path) -> Result<OsString> {
    let directory = program.parent().context("a program without a directory")?.to_path_buf();
    let others = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths([directory].into_iter().chain(env::split_paths(&others)))?)
}

fn cargo_home() -> Result<PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).context("neither CARGO_HOME nor HOME is set")
}

/// Returns the Python that has zig, in a virtual environment of the cache.
fn ensure_zig() -> Result<PathBuf> {
    let directory = testkit::cache_dir().join(format!("ziglang-{ZIG_VERSION}"));
    let python = directory.join("bin/python3");
    if !directory.join("complete").exists() {
        eprintln!("fetching zig {ZIG_VERSION} from PyPI: once");
        run(Command::new("python3").args(["-m", "venv"]).arg(&directory))?;
        let package = format!("ziglang=={ZIG_VERSION}");
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", &package]))?;
        fs::write(directory.join("complete"), "")?;
    }
    let found = stdout_of(Command::new(&python).args(["-m", "ziglang", "version"]))?;
    ensure!(
        found.trim() == ZIG_VERSION,
        "expected zig {ZIG_VERSION} in {}, found {found}",
        directory.display()
    );
    Ok(python)
}
