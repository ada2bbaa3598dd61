//! Checks the subjects of commits: `area: change`, and short enough for a list.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use regex::Regex;

use super::Finding;

/// Last commit whose subject is not checked.
const RULE_PARENT: &str = "81661d2";

/// Form of a subject: `area: change`.
const SUBJECT_FORM: &str = r"^[a-z0-9][a-z0-9 ,/_.-]*: \S";

/// Longer subjects are cut in most lists of commits.
const SUBJECT_CHARS_MAX: usize = 72;

/// Checks the subjects of the commits since `RULE_PARENT`.
///
/// # Errors
/// Fails if git fails in a clone. A copy of the sources without git's directory has no commits to check.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    if !root.join(".git").exists() {
        return Ok(Vec::new());
    }
    if is_shallow(root)? {
        return subjects(root, &["-1"]);
    }
    subjects(root, &[&format!("{RULE_PARENT}..HEAD")])
}

/// Returns whether the clone is shallow, so that it may lack `RULE_PARENT`.
fn is_shallow(root: &Path) -> Result<bool> {
    Ok(git(root, &["rev-parse", "--is-shallow-repository"])?.trim() == "true")
}

fn subjects(root: &Path, range: &[&str]) -> Result<Vec<Finding>> {
    let log = git(root, &[&["log", "--no-merges", "--format=%h %s"], range].concat())?;
    let form = Regex::new(SUBJECT_FORM)?;
    let lines = log.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.filter_map(|(hash, subject)| fault(&form, hash, subject)).collect())
}

fn fault(form: &Regex, hash: &str, subject: &str) -> Option<Finding> {
    let what = if !form.is_match(subject) {
        format!("the subject of commit {hash} is no `area: change`: {subject}")
    } else if subject.chars().count() > SUBJECT_CHARS_MAX {
        format!("the subject of commit {hash} is longer than {SUBJECT_CHARS_MAX} characters: {subject}")
    } else {
        return None;
    };
    Some(Finding { path: PathBuf::from(".git"), line: 0, what })
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new("git").arg("-C").arg(root).args(arguments).output().context("could not run git")?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {} failed: {}", arguments.join(" "), message.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::{SUBJECT_FORM, fault};

    #[test]
    fn subjects_name_their_area() {
        let form = Regex::new(SUBJECT_FORM).unwrap();
        assert!(fault(&form, "1", "logs: sync the directory").is_none());
        assert!(fault(&form, "1", "option-files, servers: read one dialect").is_none());
        assert!(fault(&form, "1", "Sync the directory").is_some());
        assert!(fault(&form, "1", &format!("logs: {}", "x".repeat(67))).is_some());
    }
}
