//! Checks that each crate depends only on the crates that it may use.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::Finding;

/// Page with the table of crates.
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Crates that a crate may use within the workspace.
#[derive(Debug, PartialEq, Eq)]
enum AllowedCrates {
    All,
    Only(Vec<String>),
}

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
    let page = fs::read_to_string(root.join(ARCHITECTURE))
        .with_context(|| format!("could not read {ARCHITECTURE}"))?;
    Ok(forbidden_dependencies(root, &metadata(root)?, &allowed_crates(&page)))
}

/// Returns the crates of the table in [`ARCHITECTURE`], each with the crates that it may use.
fn allowed_crates(page: &str) -> BTreeMap<String, AllowedCrates> {
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [name, _, used] = cells.as_slice() else { return None };
        // A name may be a link.
        let name = name.trim_start_matches('[').split(']').next()?.strip_prefix("crates/")?;
        let allowed = match *used {
            "all of them" => AllowedCrates::All,
            "none of our crates" => AllowedCrates::Only(Vec::new()),
            used => AllowedCrates::Only(used.split(", ").map(package_name).collect()),
        };
        Some((package_name(name), allowed))
    });
    rows.collect()
}

/// Returns the package of the crate in the directory `crates/NAME`.
fn package_name(name: &str) -> String {
    match name {
        "cli" => MESSAGE_WRITER.to_owned(),
        name => format!("bintide-{name}"),
    }
}

fn forbidden_dependencies(
    root: &Path,
    metadata: &Metadata,
    allowed: &BTreeMap<String, AllowedCrates>,
) -> Vec<Finding> {
    let ours: Vec<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let path = package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path);
        let mut add = |what| findings.push(Finding { path: path.to_path_buf(), line: 0, what });
        let allowed = allowed.get(&package.name);
        if allowed.is_none() && path.starts_with("crates") {
            add(format!("{} is not in the table of crates in {ARCHITECTURE}", package.name));
        }
        let is_forbidden = |used: &&Dependency| {
            let name = used.name.as_str();
            let in_tests = used.kind.as_deref() == Some("dev") && TESTS_MAY_USE.contains(&name);
            let is_import = match allowed {
                Some(AllowedCrates::Only(allowed)) => {
                    ours.contains(&name) && !allowed.iter().any(|other| other == name) && !in_tests
                }
                Some(AllowedCrates::All) | None => false,
            };
            is_import || (MESSAGE_DEPENDENCIES.contains(&name) && !package.may_write_messages())
        };
        for dependency in package.dependencies.iter().filter(is_forbidden) {
            add(format!("{} may not use {}", package.name, dependency.name));
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

    use super::{AllowedCrates, Dependency, Metadata, Package, allowed_crates, forbidden_dependencies};

    const TABLE: &str = "| crate | purpose | may use |\n|---|---|---|\n\
        | [crates/binlog](crates/binlog/README.md) | pure | none of our crates |\n\
        | crates/kafka-sink | Kafka | binlog, stream |\n\
        | crates/cli | the command | all of them |\n\
        | e2e, bench | tests | the crates that they test |\n";

    #[test]
    fn the_table_of_crates_is_read() {
        let allowed = allowed_crates(TABLE);
        let only =
            |names: &[&str]| AllowedCrates::Only(names.iter().map(|name| (*name).to_owned()).collect());
        let expected = [
            ("bintide", AllowedCrates::All),
            ("bintide-binlog", only(&[])),
            ("bintide-kafka-sink", only(&["bintide-binlog", "bintide-stream"])),
        ];
        assert_eq!(allowed, expected.map(|(name, allowed)| (name.to_owned(), allowed)).into());
    }

    #[test]
    fn crates_use_only_what_they_may() {
        let check = |name: &str, used: &str, kind: Option<&str>, is_allowed: bool| {
            let package = |name: &str, dependencies| Package {
                name: name.to_owned(),
                manifest_path: PathBuf::from("crates/x/Cargo.toml"),
                dependencies,
            };
            let dependency = Dependency { name: used.to_owned(), kind: kind.map(str::to_owned) };
            let mut used_package = package(used, Vec::new());
            used_package.manifest_path = PathBuf::from("x/Cargo.toml");
            let mut packages = vec![package(name, vec![dependency])];
            packages.extend(used.starts_with("bintide").then_some(used_package));
            let findings =
                forbidden_dependencies(Path::new("."), &Metadata { packages }, &allowed_crates(TABLE));
            assert_eq!(findings.is_empty(), is_allowed, "{name} uses {used}");
        };
        check("bintide-kafka-sink", "bintide-stream", None, true);
        check("bintide-kafka-sink", "bintide-logs", None, false);
        check("bintide-kafka-sink", "bintide-testkit", Some("dev"), true);
        check("bintide-kafka-sink", "bintide-testkit", None, false);
        check("bintide-kafka-sink", "tracing", None, false);
        check("bintide", "tracing", None, true);
        check("bintide-new", "serde", None, false);
    }
}
