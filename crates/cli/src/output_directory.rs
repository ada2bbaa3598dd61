//! Directories that commands write to.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// Creates the directory if it does not exist.
pub(crate) fn create_directory(path: &Path) -> anyhow::Result<()> {
    refuse_url(path)?;
    refuse_file(path)?;
    fs::create_dir_all(path).with_context(|| format!("could not create {}", path.display()))
}

/// Refuses a URL, which would become the name of a local directory.
pub(crate) fn refuse_url(path: &Path) -> anyhow::Result<()> {
    match path.to_str().is_some_and(|text| text.contains("://")) {
        true => bail!("{} is a URL; expected a directory", path.display()),
        false => Ok(()),
    }
}

/// Refuses a directory in an archive: other files there would replace those of the archive, or be read as logs.
#[cfg(any(feature = "archive", feature = "columns"))]
pub(crate) fn refuse_archive(path: &Path) -> anyhow::Result<()> {
    // The last parts of the path may not exist yet.
    let existing = path.ancestors().find_map(|ancestor| fs::canonicalize(ancestor).ok());
    let Some(existing) = existing.or_else(|| std::env::current_dir().ok()) else { return Ok(()) };
    match existing.ancestors().any(|ancestor| logs::find_archived_logs(ancestor).is_some()) {
        true => bail!("{} is in an archive: give a directory outside of it", path.display()),
        false => Ok(()),
    }
}

/// Refuses the path of a file in place of a directory.
pub(crate) fn refuse_file(path: &Path) -> anyhow::Result<()> {
    if path.exists() && !path.is_dir() {
        bail!("{} is a file; expected a directory: give another path, or remove the file", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{create_directory, refuse_file};

    #[test]
    fn files_are_not_directories() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        for error in [create_directory(&file).unwrap_err(), refuse_file(&file).unwrap_err()] {
            assert!(error.to_string().contains("file is a file; expected a directory"), "{error}");
        }
        assert!(refuse_file(&directory.path().join("new")).is_ok());
    }
}
