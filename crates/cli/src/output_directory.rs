//! Directories that commands write to.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// Creates the directory if it does not exist.
pub(crate) fn create_directory(path: &Path) -> anyhow::Result<()> {
    refuse_url(path)?;
    if path.exists() && !path.is_dir() {
        bail!("{} is a file; expected a directory: give another path, or remove the file", path.display());
    }
    fs::create_dir_all(path).with_context(|| format!("could not create {}", path.display()))
}

/// Refuses a URL, which would become the name of a local directory.
pub(crate) fn refuse_url(path: &Path) -> anyhow::Result<()> {
    match path.to_str().is_some_and(|text| text.contains("://")) {
        true => bail!("{} is a URL; expected a directory", path.display()),
        false => Ok(()),
    }
}
