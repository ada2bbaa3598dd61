//! Replaces a log by its rewritten version atomically.

use std::fs::{self, File, FileTimes};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use logs::{numbered_path, sync_parent};
use tempfile::NamedTempFile;

use crate::error::RewriteError;

/// A log that is being written beside the log that it will replace.
#[derive(Debug)]
pub struct StagedFile {
    file: NamedTempFile,
    target: PathBuf,
    lock: Option<StagedFileLock>,
}

/// A log that is synced to disk, beside the log that it will replace.
#[derive(Debug)]
pub struct SyncedFile {
    file: NamedTempFile,
    target: PathBuf,
    lock: Option<StagedFileLock>,
}

impl StagedFile {
    /// Creates a temporary file in the same directory as `target`.
    ///
    /// # Errors
    ///
    /// Fails if the operating system reports an error.
    pub fn begin(target: &Path) -> Result<Self, RewriteError> {
        // If the target is a symbolic link, replace the file to which it points.
        Self::begin_at(&target.canonicalize().unwrap_or_else(|_| target.to_owned()))
    }

    /// Does the same as [`Self::begin`], but if `target` is a symbolic link, replaces the link itself.
    pub(crate) fn begin_at(target: &Path) -> Result<Self, RewriteError> {
        let directory = target.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let wrong = |cause| write_error("a temporary file in", directory, cause);
        remove_leftovers(directory).map_err(wrong)?;
        loop {
            let file = tempfile::Builder::new().prefix(PREFIX).rand_bytes(RANDOM_SIZE).tempfile_in(directory);
            let file = file.map_err(wrong)?;
            let locked = lock(file.as_file().try_clone().map_err(wrong)?);
            // Another process may have removed the file as a leftover before it was locked.
            if !matches!(locked, Err(LockFailure::HeldElsewhere)) && file.path().exists() {
                return Ok(Self { file, target: target.to_owned(), lock: locked.ok() });
            }
        }
    }

    /// Returns the file to write to.
    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Returns the path of the temporary file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Copies owner, mode and modification time of `like`, and syncs the file to disk. Copies the time because servers
    /// expire logs by modification time.
    ///
    /// # Errors
    ///
    /// Fails if the operating system reports an error.
    pub fn sync(self, like: &Path) -> Result<SyncedFile, RewriteError> {
        let failed = |cause| write_error("the replacement of", &self.target, cause);
        let data = fs::metadata(like).map_err(failed)?;
        match copy_owner(self.file.as_file(), &data) {
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                return Err(RewriteError::Owner { name: self.target.display().to_string() });
            }
            copied => copied.map_err(failed)?,
        }
        copy_mode_and_time(self.file.as_file(), &data).map_err(failed)?;
        self.sync_new()
    }

    /// Does the same as [`Self::sync`] for a new file, which replaces no other file: if this user may not copy the
    /// owner, the file belongs to this user.
    ///
    /// # Errors
    ///
    /// Fails if the operating system reports an error.
    pub fn sync_copy(self, like: &Path) -> Result<SyncedFile, RewriteError> {
        let file = self.file.as_file();
        let copied = fs::metadata(like).and_then(|like| {
            let owned = copy_owner(file, &like);
            copy_mode_and_time(file, &like)?;
            match owned {
                Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                    deny_other_groups(file, &like)
                }
                owned => owned,
            }
        });
        copied.map_err(|cause| write_error("the new", &self.target, cause))?;
        self.sync_new()
    }

    /// Syncs a new file to disk, which replaces no other file. Only the owner may read the file.
    ///
    /// # Errors
    ///
    /// Fails if the operating system reports an error.
    pub fn sync_new(mut self) -> Result<SyncedFile, RewriteError> {
        let synced = self.file.flush().and_then(|()| self.file.as_file().sync_all());
        synced.map_err(|cause| write_error("the new", &self.target, cause))?;
        Ok(SyncedFile { file: self.file, target: self.target, lock: self.lock })
    }
}

impl SyncedFile {
    /// Returns the path of the temporary file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Renames the file to its target and replaces an existing file.
    ///
    /// # Errors
    ///
    /// Fails if the operating system reports an error. The old log is then still in place.
    pub fn replace_target(self) -> Result<PlacedFile, RewriteError> {
        let Self { file, target, lock: _lock } = self;
        file.persist(&target).map_err(|error| write_error("the new", &target, error.error))?;
        Ok(PlacedFile { path: target })
    }

    /// Renames the file to its target, where no file may exist.
    ///
    /// # Errors
    ///
    /// Fails if the operating system reports an error, or a file exists at the target.
    pub fn create_target(self) -> Result<PlacedFile, RewriteError> {
        let Self { file, target, lock: _lock } = self;
        file.persist_noclobber(&target).map_err(|error| write_error("the new file", &target, error.error))?;
        Ok(PlacedFile { path: target })
    }

    /// Renames the file to its target or, if a file exists there, to the first free name with the suffix `.2`, `.3`, …
    /// If one of these files has the same content, uses that file instead.
    ///
    /// # Errors
    ///
    /// Fails if the operating system reports an error.
    pub fn create_numbered(self) -> Result<NumberedFile, RewriteError> {
        let Self { mut file, target, lock: _lock } = self;
        for number in 1_u64.. {
            let path = numbered_path(&target, number);
            match file.persist_noclobber(&path) {
                Ok(_) => {
                    sync_entry(&path)?;
                    return Ok(NumberedFile { path, is_new: true });
                }
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => file = error.file,
                Err(error) => return Err(write_error("the new file", &path, error.error)),
            }
            if has_same_content(file.path(), &path)
                .map_err(|cause| write_error("the new file", &path, cause))?
            {
                return Ok(NumberedFile { path, is_new: false });
            }
        }
        unreachable!("ours: no directory has so many files")
    }
}

/// A log at its target. Its directory entry is not synced to disk yet.
#[must_use]
#[derive(Debug)]
pub struct PlacedFile {
    path: PathBuf,
}

impl PlacedFile {
    /// Syncs the directory entry to disk.
    ///
    /// # Errors
    ///
    /// Fails if the operating system reports an error. The log is at its target nevertheless.
    pub fn sync(self) -> Result<(), RewriteError> {
        sync_entry(&self.path)
    }
}

/// A file that was stored without overwriting another.
#[derive(Debug)]
pub struct NumberedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// True if the file was created now. False if a file with the same content existed.
    pub is_new: bool,
}

/// Returns true if both are files with the same content.
fn has_same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let sizes = (fs::metadata(one)?, fs::metadata(other)?);
    if !sizes.1.is_file() || sizes.0.len() != sizes.1.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
    loop {
        let (here, there) = (one.fill_buf()?, other.fill_buf()?);
        let count = here.len().min(there.len());
        if count == 0 || here[..count] != there[..count] {
            return Ok(here.is_empty() && there.is_empty());
        }
        one.consume(count);
        other.consume(count);
    }
}

/// Prefix of temporary files. [`RANDOM_SIZE`] random characters follow it.
const PREFIX: &str = ".bintide-new-";
const RANDOM_SIZE: usize = 8;

/// Removes temporary files of killed processes: files that no process has locked.
fn remove_leftovers(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)?.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(|rest| {
            rest.len() == RANDOM_SIZE && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // A file that cannot be opened or removed belongs to another user, and stays. Hold the lock during the removal,
        // so that a process that has just created the file notices it.
        if let Some(_lock) = File::open(entry.path()).ok().and_then(|file| lock(file).ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Lock on a temporary file. The operating system releases it when the process ends, even when it is killed.
#[cfg(unix)]
type StagedFileLock = nix::fcntl::Flock<File>;
#[cfg(not(unix))]
type StagedFileLock = ();

/// Reason why a file is not locked.
#[derive(Debug)]
enum LockFailure {
    /// Another process holds the lock.
    HeldElsewhere,
    /// The file system has no locks. Temporary files are then never removed as leftovers.
    Unsupported,
}

#[cfg(unix)]
fn lock(file: File) -> Result<StagedFileLock, LockFailure> {
    use nix::errno::Errno;
    use nix::fcntl::{Flock, FlockArg};
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, cause)| match cause {
        Errno::EWOULDBLOCK => LockFailure::HeldElsewhere,
        _ => LockFailure::Unsupported,
    })
}

#[cfg(not(unix))]
fn lock(_: File) -> Result<StagedFileLock, LockFailure> {
    Err(LockFailure::Unsupported)
}

fn sync_entry(target: &Path) -> Result<(), RewriteError> {
    sync_parent(target).map_err(|cause| write_error("the directory entry of", target, cause))
}

#[cfg(unix)]
fn copy_owner(file: &File, like: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let now = file.metadata()?;
    match (now.uid(), now.gid()) == (like.uid(), like.gid()) {
        true => Ok(()),
        false => fchown(file, Some(like.uid()), Some(like.gid())),
    }
}

#[cfg(not(unix))]
fn copy_owner(_: &File, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// Removes the permissions of the group from a file whose group is not the one of `like`: another group got them there.
#[cfg(unix)]
fn deny_other_groups(file: &File, like: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    match file.metadata()?.gid() == like.gid() {
        true => Ok(()),
        false => file.set_permissions(fs::Permissions::from_mode(like.mode() & !0o070)),
    }
}

#[cfg(not(unix))]
fn deny_other_groups(_: &File, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

fn copy_mode_and_time(file: &File, like: &fs::Metadata) -> io::Result<()> {
    file.set_permissions(like.permissions())?;
    file.set_times(FileTimes::new().set_modified(like.modified()?))
}

fn write_error(what: &str, path: &Path, cause: io::Error) -> RewriteError {
    RewriteError::Write { what: format!("{what} {}", path.display()), cause }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::{StagedFile, SyncedFile};

    fn begin(target: &std::path::Path, content: &str) -> SyncedFile {
        let mut file = StagedFile::begin(target).unwrap();
        file.file().write_all(content.as_bytes()).unwrap();
        file.sync(target.parent().unwrap()).unwrap()
    }

    #[test]
    fn create_numbered_never_overwrites() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("positions.log");
        for (content, name, is_new) in [
            ("one", "positions.log", true),
            ("two", "positions.log.2", true),
            ("one", "positions.log", false),
            ("two", "positions.log.2", false),
            ("three", "positions.log.3", true),
        ] {
            let beside = begin(&target, content).create_numbered().unwrap();
            assert_eq!((beside.path, beside.is_new), (directory.path().join(name), is_new), "{content}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }

    #[test]
    fn only_unlocked_leftovers_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("log");
        let under_way = StagedFile::begin(&target).unwrap();
        let (left, others) = (".bintide-new-AbCd1234", [".bintide-new-", ".bintide-new-AbCd-234", "log"]);
        for name in others.iter().chain([&left]) {
            fs::write(directory.path().join(name), "something").unwrap();
        }
        drop(StagedFile::begin(&target).unwrap());
        assert!(!directory.path().join(left).exists());
        assert!(under_way.path().exists() && others.iter().all(|name| directory.path().join(name).exists()));
    }
}
