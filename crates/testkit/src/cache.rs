//! Directories of fetched programs and running servers, shared between processes.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Whence, lseek};

/// Returns the workspace's target directory: `CARGO_TARGET_DIR`, else the target directory of the running program, else
/// `target` in the workspace's root.
pub fn target_dir() -> PathBuf {
    let named = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(target_dir_of_this_program).unwrap_or_else(|| workspace_dir().join("target"))
}

/// Finds the target directory above the running test program, by cargo's `CACHEDIR.TAG`.
fn target_dir_of_this_program() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    program.ancestors().find(|directory| directory.join("CACHEDIR.TAG").exists()).map(Path::to_path_buf)
}

fn workspace_dir() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Returns the directory of fetched server programs and of data directory templates. It belongs to the user and lies
/// outside the clone, so that other clones share it: `$BINTIDE_CACHE`, else `$XDG_CACHE_HOME/bintide`, else
/// `$HOME/.cache/bintide`, else `servers` in the target directory.
pub fn cache_dir() -> PathBuf {
    let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named("BINTIDE_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|directory| directory.join("bintide")))
        .or_else(|| named("HOME").map(|directory| directory.join(".cache/bintide")))
        .unwrap_or_else(|| target_dir().join("servers"))
}

/// Returns the directory of the running servers' data directories.
pub(crate) fn running_dir() -> PathBuf {
    target_dir().join("servers/running")
}

/// Returns the directory `name` in the cache, and creates it first if it is missing. `make` fills a temporary
/// directory, which is renamed when complete. Processes that need the same directory wait for each other.
pub(crate) fn cached_dir(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let parent = cache_dir();
    let whole = parent.join(name);
    if whole.exists() {
        return Ok(whole);
    }
    fs::create_dir_all(&parent).with_context(|| format!("could not create {}", parent.display()))?;
    let _lock = lock(&parent.join(format!("{name}.lock")))?;
    if whole.exists() {
        return Ok(whole); // Another process created it in the meantime.
    }
    let part = parent.join(format!("{name}.part"));
    remove_dir(&part)?;
    fs::create_dir_all(&part)?;
    make(&part)?;
    fs::rename(&part, &whole)
        .with_context(|| format!("could not rename a directory to {}", whole.display()))?;
    Ok(whole)
}

fn lock(path: &Path) -> Result<Flock<File>> {
    let file = File::create(path).with_context(|| format!("could not create {}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| anyhow!("could not lock {}: {errno}", path.display()))
}

/// Removes a directory and its contents. A missing directory is no error.
///
/// # Errors
/// Fails if the directory cannot be removed.
pub fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(cause).with_context(|| format!("could not remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes a file. A missing file is no error.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(cause).with_context(|| format!("could not remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Unit in which files are copied: the size of InnoDB's pages.
const COPY_UNIT: usize = 16 << 10;

/// Copies a file, but leaves holes in place of zeros, of which data directories have many.
fn copy_sparse(source: &Path, target: &Path) -> io::Result<()> {
    let (from, to) = (File::open(source)?, File::create(target)?);
    let metadata = from.metadata()?;
    to.set_len(metadata.len())?;
    to.set_permissions(metadata.permissions())?;
    let (zeros, mut unit) = ([0; COPY_UNIT], [0; COPY_UNIT]);
    let mut offset = 0;
    loop {
        offset = match lseek(&from, i64::try_from(offset).map_err(io::Error::other)?, Whence::SeekData) {
            Ok(data) => data.unsigned_abs(),
            Err(Errno::ENXIO) => return Ok(()), // Only a hole follows, or the end.
            Err(errno) => return Err(errno.into()),
        };
        let size = from.read_at(&mut unit, offset)?;
        if unit[..size] != zeros[..size] {
            to.write_all_at(&unit[..size], offset)?;
        }
        offset += size as u64;
    }
}

/// Directories of a server with many small files.
const SYSTEM_SCHEMAS: [&str; 2] = ["performance_schema", "sys"];

/// Returns whether copies of a data directory may share this file by a hard link, because the server only replaces it.
/// To create and delete these files takes longer than to copy their content.
fn can_be_shared(path: &Path) -> bool {
    let schema = path.parent().and_then(Path::file_name);
    let is_definition = path.extension().is_some_and(|extension| extension == "frm" || extension == "sdi");
    is_definition && schema.is_some_and(|schema| SYSTEM_SCHEMAS.iter().any(|name| schema == *name))
}

/// Copies a data directory with its plain files and directories, but without sockets and other special files.
pub(crate) fn copy_dir(source: &Path, target: &Path) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("could not create {}", target.display()))?;
    for entry in fs::read_dir(source).with_context(|| format!("could not read {}", source.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let copy = target.join(entry.file_name());
        if kind.is_dir() {
            copy_dir(&entry.path(), &copy)?;
        } else if kind.is_file() {
            let is_shared = can_be_shared(&entry.path()) && fs::hard_link(entry.path(), &copy).is_ok();
            if !is_shared {
                copy_sparse(&entry.path(), &copy)
                    .with_context(|| format!("could not copy to {}", copy.display()))?;
            }
        }
    }
    Ok(())
}
