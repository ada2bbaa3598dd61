//! Checks that each crate depends only on the crates that it may use.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::Finding;

/// Dependencies that each crate may have within the workspace, as in ARCHITECTURE.md. Unlisted crates may use all.
const MAY_USE: [(&str, &[&str]); 27] = [
    ("bintide-binlog", &[]),
    ("bintide-wire", &["bintide-binlog"]),
    ("bintide-logs", &["bintide-binlog"]),
    ("bintide-sql", &["bintide-binlog"]),
    ("bintide-option-files", &[]),
    ("bintide-shell-command", &[]),
    ("bintide-list", &["bintide-binlog", "bintide-logs", "bintide-sql"]),
    ("bintide-mysqlbinlog", &["bintide-binlog", "bintide-logs", "bintide-option-files", "bintide-sql"]),
    ("bintide-inspect", &["bintide-binlog", "bintide-logs", "bintide-sql"]),
    ("bintide-advise", &["bintide-binlog", "bintide-inspect", "bintide-logs"]),
    ("bintide-rewrite", &["bintide-binlog", "bintide-logs"]),
    ("bintide-undo", &["bintide-binlog", "bintide-logs", "bintide-sql"]),
    ("bintide-archive", &["bintide-binlog", "bintide-logs", "bintide-shell-command"]),
    ("bintide-diff", &["bintide-binlog", "bintide-logs"]),
    (
        "bintide-servers",
        &[
            "bintide-binlog",
            "bintide-logs",
            "bintide-option-files",
            "bintide-shell-command",
            "bintide-sql",
            "bintide-wire",
        ],
    ),
    (
        "bintide-receive",
        &[
            "bintide-binlog",
            "bintide-inspect",
            "bintide-logs",
            "bintide-rewrite",
            "bintide-servers",
            "bintide-wire",
        ],
    ),
    ("bintide-replay", &["bintide-binlog", "bintide-logs", "bintide-sql"]),
    ("bintide-mysql-target", &["bintide-binlog", "bintide-replay", "bintide-servers", "bintide-sql"]),
    ("bintide-sqlite-target", &["bintide-binlog", "bintide-replay", "bintide-sql"]),
    (
        "bintide-relay",
        &[
            "bintide-binlog",
            "bintide-logs",
            "bintide-option-files",
            "bintide-rewrite",
            "bintide-sql",
            "bintide-wire",
        ],
    ),
    (
        "bintide-relay-server",
        &[
            "bintide-binlog",
            "bintide-logs",
            "bintide-relay",
            "bintide-servers",
            "bintide-sql",
            "bintide-wire",
        ],
    ),
    ("bintide-stream", &["bintide-binlog", "bintide-logs", "bintide-sql"]),
    (
        "bintide-columns",
        &["bintide-binlog", "bintide-inspect", "bintide-logs", "bintide-sql", "bintide-stream"],
    ),
    ("bintide-kafka-sink", &["bintide-stream"]),
    ("bintide-warm", &["bintide-binlog", "bintide-logs", "bintide-servers", "bintide-sql"]),
    ("bintide-testkit", &[]),
    (
        "bintide",
        &[
            "bintide-binlog",
            "bintide-logs",
            "bintide-option-files",
            "bintide-list",
            "bintide-mysqlbinlog",
            "bintide-archive",
            "bintide-advise",
            "bintide-inspect",
            "bintide-rewrite",
            "bintide-servers",
            "bintide-receive",
            "bintide-relay",
            "bintide-relay-server",
            "bintide-replay",
            "bintide-mysql-target",
            "bintide-sqlite-target",
            "bintide-wire",
            "bintide-sql",
            "bintide-stream",
            "bintide-kafka-sink",
            "bintide-undo",
            "bintide-columns",
            "bintide-diff",
            "bintide-warm",
        ],
    ),
];

/// Further dependencies that tests of any crate may have.
const TESTS_MAY_USE: [&str; 1] = ["bintide-testkit"];

/// Crate that writes messages, with its dependencies for that. Other crates return errors and notices.
const MESSAGE_WRITER: &str = "bintide";
const MESSAGE_DEPENDENCIES: [&str; 2] = ["tracing", "tracing-subscriber"];

/// Development crates, which may write messages, too.
const DEVELOPMENT_CRATES: [&str; 3] = ["bintide-bench", "bintide-testkit", "xtask"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; `None` for a dependency of the crate itself.
    kind: Option<String>,
}

pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    Ok(forbidden_dependencies(root, &metadata(root)?))
}

fn forbidden_dependencies(root: &Path, metadata: &Metadata) -> Vec<Finding> {
    let ours: Vec<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let allowed = MAY_USE.iter().find(|(name, _)| *name == package.name).map(|(_, allowed)| *allowed);
        let is_forbidden = |used: &&Dependency| {
            let name = used.name.as_str();
            let in_tests = used.kind.as_deref() == Some("dev") && TESTS_MAY_USE.contains(&name);
            let is_import =
                ours.contains(&name) && allowed.is_some_and(|allowed| !allowed.contains(&name) && !in_tests);
            is_import || (MESSAGE_DEPENDENCIES.contains(&name) && !package.may_write_messages())
        };
        let path = package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path);
        for dependency in package.dependencies.iter().filter(is_forbidden) {
            let what = format!("{} may not use {}", package.name, dependency.name);
            findings.push(Finding { path: path.to_path_buf(), line: 0, what });
        }
    }
    findings
}

impl Package {
    fn may_write_messages(&self) -> bool {
        self.name == MESSAGE_WRITER || DEVELOPMENT_CRATES.contains(&self.name.as_str())
    }
}

fn metadata(root: &Path) -> Result<Metadata> {
    let mut command = testkit::cargo_command(root);
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = command.output().context("could not run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("could not read what cargo metadata printed")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Dependency, Metadata, Package, forbidden_dependencies};

    #[test]
    fn crates_use_only_what_they_may() {
        let check = |name: &str, used: &str, kind: Option<&str>, is_allowed: bool| {
            let package = |name: &str, dependencies| Package {
                name: name.to_owned(),
                manifest_path: PathBuf::from("Cargo.toml"),
                dependencies,
            };
            let dependency = Dependency { name: used.to_owned(), kind: kind.map(str::to_owned) };
            let mut packages = vec![package(name, vec![dependency])];
            packages.extend(used.starts_with("bintide").then(|| package(used, Vec::new())));
            let findings = forbidden_dependencies(Path::new("."), &Metadata { packages });
            assert_eq!(findings.is_empty(), is_allowed, "{name} uses {used}");
        };
        check("bintide-kafka-sink", "bintide-stream", None, true);
        check("bintide-kafka-sink", "bintide-logs", None, false);
        check("bintide-kafka-sink", "bintide-testkit", Some("dev"), true);
        check("bintide-kafka-sink", "bintide-testkit", None, false);
        check("bintide-kafka-sink", "tracing", None, false);
        check("bintide", "tracing", None, true);
        check("bintide-bench", "tracing-subscriber", None, true);
    }
}
