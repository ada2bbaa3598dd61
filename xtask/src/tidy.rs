//! Checks that neither the compiler nor clippy makes: rules for lines and functions, imports between crates, links of
//! the documents, figures of names and comments, subjects of commits.

mod commits;
mod documents;
mod figures;
mod imports;
mod sources;

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Directories without sources of the project: those of git, builds, packages and fuzzing.
const UNCHECKED_DIRECTORIES: [&str; 4] = [".git", "target", "node_modules", "corpus"];

/// A file of the workspace and its text.
struct File {
    /// From the root of the workspace.
    path: PathBuf,
    text: String,
}

/// A broken rule and its location.
#[derive(Clone)]
struct Finding {
    path: PathBuf,
    /// From 1; 0 for the file as a whole.
    line: usize,
    what: String,
}

/// Runs all checks and prints what they find.
pub(crate) fn check() -> Result<()> {
    let root = testkit::workspace_root();
    let mut files = Vec::new();
    read_files(&root, Path::new(""), &mut files)?;
    let mut findings = sources::check(&files)?;
    findings.extend(documents::check(&root, &files)?);
    findings.extend(imports::check(&root)?);
    findings.extend(figures::check(&root, &files)?);
    findings.extend(commits::check(&root)?);
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "tidy: {} findings", findings.len());
    println!("tidy: {} files, no findings", files.len());
    Ok(())
}

fn read_files(root: &Path, directory: &Path, files: &mut Vec<File>) -> Result<()> {
    let absolute = root.join(directory);
    let entries =
        fs::read_dir(&absolute).with_context(|| format!("could not read {}", absolute.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        if UNCHECKED_DIRECTORIES.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            read_files(root, &path, files)?;
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            files.push(File { path, text }); // Files that are not text are not checked.
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

impl File {
    fn extension(&self) -> &str {
        self.path.extension().and_then(OsStr::to_str).unwrap_or_default()
    }

    fn is_rust(&self) -> bool {
        self.extension() == "rs"
    }

    /// Returns whether the file is a program, a script or settings.
    fn is_code(&self) -> bool {
        matches!(self.extension(), "rs" | "sh" | "toml" | "yml" | "yaml" | "go")
            || self.path.starts_with(".ci")
    }

    fn is_document(&self) -> bool {
        self.extension() == "md"
    }

    fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.path.display(), self.what),
            line => write!(out, "{}:{line}: {}", self.path.display(), self.what),
        }
    }
}
