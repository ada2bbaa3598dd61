//! The files of a package at their installed paths.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Release;
use super::command::{empty_directory, run, stdout_of};
use super::dependencies::DependencyList;
use super::platform::PackageArch;

/// Directory with the files of a package.
pub(crate) struct StagedPackage {
    pub(crate) arch: PackageArch,
    root: PathBuf,
}

/// Completions of each shell, where its packages expect them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/bintide"),
    ("zsh", "usr/share/zsh/vendor-completions/_bintide"),
    ("fish", "usr/share/fish/vendor_completions.d/bintide.fish"),
];

/// Documentation directory of the package.
pub(crate) const DOC_DIRECTORY: &str = "usr/share/doc/bintide";

/// Files of the workspace that go to the documentation directory.
const DOCUMENTS: [(&str, &str); 6] = [
    ("README.md", "README.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("contrib/prometheus/bintide.rules.yml", "examples/prometheus/bintide.rules.yml"),
    ("contrib/grafana/bintide.json", "examples/grafana/bintide.json"),
    ("contrib/README.md", "examples/README.md"),
];

impl StagedPackage {
    /// Stages a package. `native` is a binary that this machine runs: it writes the manual pages and completions.
    pub(crate) fn new(
        release: &Release,
        arch: PackageArch,
        binary: &Path,
        native: &Path,
        dependencies: &DependencyList,
    ) -> Result<Self> {
        let root = release.directory.join("stage").join(arch.name());
        empty_directory(&root)?;
        let staged = Self { arch, root };
        staged.add("usr/bin/bintide", &fs::read(binary)?, 0o755)?;
        staged.add_manual_pages(native)?;
        for (shell, path) in COMPLETIONS {
            let script = stdout_of(Command::new(native).args(["completions", shell]))?;
            staged.add(path, script.as_bytes(), 0o644)?;
        }
        staged.add_services(&release.source())?;
        for (from, to) in DOCUMENTS {
            let text =
                fs::read(release.source().join(from)).with_context(|| format!("could not read {from}"))?;
            staged.add(&format!("{DOC_DIRECTORY}/{to}"), &text, 0o644)?;
        }
        let licences = dependencies.licence_texts(&release.source())?;
        staged.add(&format!("{DOC_DIRECTORY}/LICENSES-THIRD-PARTY"), licences.as_bytes(), 0o644)?;
        staged.compress(&format!("{DOC_DIRECTORY}/LICENSES-THIRD-PARTY"))?;
        staged.add(
            &format!("{DOC_DIRECTORY}/changelog"),
            &fs::read(release.source().join("CHANGELOG.md"))?,
            0o644,
        )?;
        staged.compress(&format!("{DOC_DIRECTORY}/changelog"))?;
        staged.normalize_modes()?;
        Ok(staged)
    }

    /// Returns a package whose files are in `root`.
    pub(crate) fn at(arch: PackageArch, root: PathBuf) -> Self {
        Self { arch, root }
    }

    /// Gives directories and files the modes that packages have, whatever the umask is.
    pub(crate) fn normalize_modes(&self) -> Result<()> {
        normalize_modes(&self.root)
    }

    /// Returns the root of the staged files.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file.
    pub(crate) fn add(&self, path: &str, content: &[u8], mode: u32) -> Result<()> {
        let path = self.root.join(path);
        let directory = path.parent().context("a file without a directory")?;
        fs::create_dir_all(directory)?;
        fs::write(&path, content)?;
        Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
    }

    fn add_manual_pages(&self, native: &Path) -> Result<()> {
        let directory = self.root.join("usr/share/man/man1");
        fs::create_dir_all(&directory)?;
        run(Command::new(native).args(["man", "--out"]).arg(&directory))?;
        let mut pages =
            fs::read_dir(&directory)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        pages.sort();
        run(Command::new("gzip").args(["-n", "-9"]).args(pages))
    }

    /// Adds the systemd units, the user that they run as, and its directories.
    fn add_services(&self, source: &Path) -> Result<()> {
        let mut units = fs::read_dir(source.join("contrib/systemd"))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        units.sort();
        for unit in units {
            let name = unit.file_name().context("a unit without a name")?.to_string_lossy().into_owned();
            self.add(&format!("usr/lib/systemd/system/{name}"), &fs::read(&unit)?, 0o644)?;
        }
        for name in ["sysusers", "tmpfiles"] {
            let text = fs::read(source.join(format!("contrib/{name}.conf")))?;
            self.add(&format!("usr/lib/{name}.d/bintide.conf"), &text, 0o644)?;
        }
        Ok(())
    }

    /// Replaces a file by its gzip form.
    pub(crate) fn compress(&self, path: &str) -> Result<()> {
        run(Command::new("gzip").args(["-n", "-9"]).arg(self.root.join(path)))
    }
}

fn normalize_modes(directory: &Path) -> Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            normalize_modes(&entry.path())?;
        } else if kind.is_file() {
            let is_program = entry.metadata()?.permissions().mode() & 0o100 != 0;
            let mode = if is_program { 0o755 } else { 0o644 };
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}
