//! Unpacks Debian packages into a directory of their own, on any release of the machine.
//!
//! `apt-get` resolves and downloads them with a private state: the suite is the only source, and the list of
//! installed packages is empty. So apt-get downloads all dependencies, including the C library. The mirror is that of
//! the machine's own apt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache::remove_dir;
use crate::fetch::run;

/// The directory of the machine's apt sources.
const APT_DIRECTORY: &str = "/etc/apt";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches `packages` of a Debian `suite` with their dependencies, and `extra` packages without, and unpacks them into
/// `target`.
pub(crate) fn unpack(suite: &str, packages: &[&str], extra: &[&str], target: &Path) -> Result<()> {
    let mirror = mirror()?;
    let work = target.join("apt");
    let apt = PrivateApt::new(&work, suite, &mirror)?;
    apt.run(&["update"])?;
    let mut install = vec!["install", "--download-only", "--yes", "--no-install-recommends"];
    install.extend(packages);
    apt.run(&install)?;
    if !extra.is_empty() {
        let mut download = vec!["download"];
        download.extend(extra);
        apt.run(&download)?;
    }
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(apt.archives())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            names.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
            run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(target))?;
        }
    }
    ensure!(!names.is_empty(), "apt-get downloaded nothing");
    names.sort();
    fs::write(target.join("packages.txt"), names.join("\n") + "\n")?;
    remove_dir(&work)
}

/// Returns the Debian mirror of the machine's own apt.
pub fn mirror() -> Result<String> {
    debian_mirror(&read_sources(Path::new(APT_DIRECTORY)))
        .context("no Debian mirror found in the machine's apt sources")
}

/// An apt with a private state in a directory.
struct PrivateApt {
    directory: PathBuf,
}

impl PrivateApt {
    fn new(directory: &Path, suite: &str, mirror: &str) -> Result<Self> {
        for name in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(directory.join(name))?;
        }
        let signed =
            if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        fs::write(directory.join("sources.list"), format!("deb {signed}{mirror} {suite} main\n"))?;
        fs::write(directory.join("status"), "")?;
        Ok(Self { directory: directory.to_path_buf() })
    }

    fn archives(&self) -> PathBuf {
        self.directory.join("cache/archives")
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        let at = |name: &str| self.directory.join(name).display().to_string();
        let mut command = Command::new("apt-get");
        command.arg("--quiet=2").current_dir(self.archives()).env("DEBIAN_FRONTEND", "noninteractive");
        for setting in [
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", at("lists")),
            format!("Dir::State::status={}", at("status")),
            format!("Dir::State::extended_states={}", at("extended_states")),
            format!("Dir::Cache={}", at("cache")),
            // The directory belongs to the current user, so apt need not switch users to write there.
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=3".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false".to_owned(),
            "Debug::NoLocking=1".to_owned(),
        ] {
            command.arg("-o").arg(setting);
        }
        run(command.args(arguments))
    }
}

/// Returns the text of `sources.list` and of all files in `sources.list.d`.
fn read_sources(directory: &Path) -> String {
    let mut files = vec![directory.join("sources.list")];
    let parts = fs::read_dir(directory.join("sources.list.d")).into_iter().flatten().flatten();
    let mut parts: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    parts.retain(|path| path.extension().is_some_and(|name| name == "list" || name == "sources"));
    parts.sort();
    files.extend(parts);
    files.iter().filter_map(|path| fs::read_to_string(path).ok()).collect::<Vec<_>>().join("\n")
}

/// Returns the first address in the sources whose last directory is `debian`, or a mirror list of that name. Both
/// formats of sources are supported: in both, spaces surround the address.
fn debian_mirror(sources: &str) -> Option<String> {
    let lines = sources.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut words = lines.flat_map(str::split_whitespace);
    words.find(|word| is_debian_mirror(word)).map(str::to_owned)
}

fn is_debian_mirror(word: &str) -> bool {
    let Some((scheme, rest)) = word.split_once(':') else { return false };
    let last = rest.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match scheme {
        "http" | "https" | "file" | "copy" => last == "debian",
        _ => scheme.starts_with("mirror") && matches!(last, "debian" | "debian.list"),
    }
}

#[cfg(test)]
mod tests {
    use super::debian_mirror;

    fn check(sources: &str, expected: Option<&str>) {
        assert_eq!(debian_mirror(sources).as_deref(), expected, "{sources}");
    }

    #[test]
    fn mirror_is_found_in_either_spelling() {
        check("deb http://example.org/debian bookworm main", Some("http://example.org/debian"));
        check("deb [arch=amd64] https://example.org/debian/ sid main", Some("https://example.org/debian/"));
        check(
            "# deb http://example.com/debian x main\ndeb http://example.org/debian x main",
            Some("http://example.org/debian"),
        );
        check("Types: deb\nURIs: http://example.org/debian\nSuites: sid", Some("http://example.org/debian"));
        check(
            "URIs: http://example.org/debian-security\nURIs: http://example.org/debian",
            Some("http://example.org/debian"),
        );
        check(
            "URIs: mirror+file:/etc/apt/mirrors/debian.list",
            Some("mirror+file:/etc/apt/mirrors/debian.list"),
        );
        check("deb http://example.org/ubuntu noble main", None);
        check("", None);
    }
}
