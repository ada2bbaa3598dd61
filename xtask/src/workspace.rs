//! Paths of the workspace.

use std::env;
use std::path::{Path, PathBuf};

/// Returns the root of the workspace: the parent of this package's directory.
pub(crate) fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    here.parent().map(Path::to_path_buf).unwrap_or(here)
}
