//! Every link of a document leads somewhere, and every page of the guide is linked.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use regex::Regex;

use super::{File, Finding};

pub(super) fn check(root: &Path, files: &[File]) -> Result<Vec<Finding>> {
    let link = Regex::new(r"\[[^\]]*\]\(([^)\s]+)\)")?;
    let code = Regex::new(r"`[^`]*`")?;
    let mut findings = Vec::new();
    let mut linked = HashSet::new();
    for file in files.iter().filter(|file| file.is_document()) {
        let mut fenced = false;
        for (index, line) in file.text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            if fenced {
                continue;
            }
            let line = code.replace_all(line, "``");
            for target in link.captures_iter(&line).filter_map(|found| found.get(1)) {
                let Some(path) = local_path(&file.path, target.as_str()) else { continue };
                if !root.join(&path).exists() {
                    findings.push(file.finding(index + 1, format!("no {}", path.display())));
                }
                linked.insert(path);
            }
        }
    }
    for file in files.iter().filter(|file| file.is_document() && file.path.starts_with("docs")) {
        if !linked.contains(&file.path) {
            findings.push(file.finding(0, "no document links to this page"));
        }
    }
    Ok(findings)
}

/// The file that a link in `document` means, from the root of the workspace; none if it leads elsewhere.
fn local_path(document: &Path, target: &str) -> Option<PathBuf> {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let mut path = PathBuf::new();
    for component in document.parent()?.join(target).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::local_path;

    #[test]
    fn links_are_resolved_from_their_document() {
        let check = |document: &str, target: &str, expected: Option<&str>| {
            assert_eq!(local_path(Path::new(document), target), expected.map(PathBuf::from));
        };
        check("README.md", "docs/start.md", Some("docs/start.md"));
        check("docs/start.md", "../README.md#install", Some("README.md"));
        check("docs/a/b.md", "./c.md", Some("docs/a/c.md"));
        check("README.md", "#below", None);
        check("README.md", "https://example.org/x", None);
    }
}
