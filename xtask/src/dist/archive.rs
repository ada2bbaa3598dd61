//! Tar archives with the same bytes for the same files.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::command::run;

/// Compression of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TarCompression {
    None,
    Gzip,
}

/// Writes the contents of `directory` to a tar archive: sorted by name, owned by root, with one modification time.
pub(crate) fn write_tar(
    directory: &Path,
    archive: &Path,
    epoch: u64,
    compression: TarCompression,
) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{epoch}")).arg("--file").arg(archive);
    if compression == TarCompression::Gzip {
        // Without the time and name in gzip's header.
        tar.arg("--use-compress-program=gzip -n -9");
    }
    tar.arg("--directory").arg(directory);
    let mut names = directory.read_dir()?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    names.sort();
    run(tar.args(names))
}
