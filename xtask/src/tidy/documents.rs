//! Checks that the target of every link in a document exists, and that every page of the guide is linked.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use regex::Regex;

use super::{File, Finding};

/// Directory of the guide, which becomes a book: its pages can link only to each other.
const GUIDE: &str = "docs";

pub(super) fn check(root: &Path, files: &[File]) -> Result<Vec<Finding>> {
    let documents: Vec<&File> = files.iter().filter(|file| file.is_document()).collect();
    let anchors: HashMap<&Path, HashSet<String>> =
        documents.iter().map(|file| (file.path.as_path(), anchors(&file.text))).collect();
    let mut findings = Vec::new();
    let mut linked = HashSet::new();
    for file in &documents {
        for (line, target) in links(&file.text)? {
            let Some(path) = local_path(&file.path, &target) else { continue };
            if !root.join(&path).exists() {
                findings.push(file.finding(line, format!("no {}", path.display())));
            } else if file.path.starts_with(GUIDE) && !path.starts_with(GUIDE) {
                let what = format!("{} is not in the book: name it without a link", path.display());
                findings.push(file.finding(line, what));
            }
            let anchor = target.split_once('#').map(|(_, anchor)| anchor);
            if let (Some(anchor), Some(known)) = (anchor, anchors.get(path.as_path()))
                && !known.contains(anchor)
            {
                findings.push(file.finding(line, format!("{} has no heading #{anchor}", path.display())));
            }
            if path != file.path {
                linked.insert(path);
            }
        }
    }
    for file in documents.iter().filter(|file| file.path.starts_with(GUIDE)) {
        if !linked.contains(&file.path) {
            findings.push(file.finding(0, "no document links to this page"));
        }
    }
    Ok(findings)
}

/// Returns the targets of a document's links, with the numbers of their lines.
fn links(text: &str) -> Result<Vec<(usize, String)>> {
    let link = Regex::new(r"\[[^\]]*\]\(([^)\s]+)\)")?;
    let code = Regex::new(r"`[^`]*`")?;
    let mut targets = Vec::new();
    for (number, line) in prose_lines(text) {
        let line = code.replace_all(line, "``");
        let found = link.captures_iter(&line).filter_map(|found| found.get(1));
        targets.extend(found.map(|target| (number, target.as_str().to_owned())));
    }
    Ok(targets)
}

/// Returns the lines outside of code blocks, with their numbers.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

/// Returns the anchors of a document's headings: their words in lower case, joined by hyphens.
fn anchors(text: &str) -> HashSet<String> {
    let mut anchors = HashSet::new();
    for (_, line) in prose_lines(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let is_kept = |sign: &char| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_');
        let slug: String = heading.trim().to_lowercase().chars().filter(is_kept).collect();
        let slug = slug.replace(' ', "-");
        let numbered = (1..).map(|number| format!("{slug}-{number}"));
        let mut names = std::iter::once(slug.clone()).chain(numbered);
        let name = names.find(|name| !anchors.contains(name));
        anchors.extend(name);
    }
    anchors
}

/// Returns the file that a link in `document` means, from the root of the workspace; `None` if it leads elsewhere.
fn local_path(document: &Path, target: &str) -> Option<PathBuf> {
    let file = target.split('#').next().unwrap_or_default();
    if file.is_empty() && target.starts_with('#') {
        return Some(document.to_owned());
    }
    if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
        return None;
    }
    let mut path = PathBuf::new();
    for component in document.parent()?.join(file).components() {
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

    use super::{anchors, local_path};

    #[test]
    fn links_are_resolved_from_their_document() {
        let check = |document: &str, target: &str, expected: Option<&str>| {
            assert_eq!(local_path(Path::new(document), target), expected.map(PathBuf::from));
        };
        check("README.md", "docs/start.md", Some("docs/start.md"));
        check("docs/start.md", "../README.md#install", Some("README.md"));
        check("docs/a/b.md", "./c.md", Some("docs/a/c.md"));
        check("README.md", "#below", Some("README.md"));
        check("README.md", "https://example.org/x", None);
    }

    #[test]
    fn headings_have_anchors() {
        let found =
            anchors("# Title\n```sh\n# no heading\n```\n## Keep `GTIDs`, all\n## Limits\n### Limits\n#no\n");
        let mut found: Vec<_> = found.iter().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, ["keep-gtids-all", "limits", "limits-1", "title"]);
    }
}
