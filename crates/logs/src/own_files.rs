//! Files and folders that bintide makes: opened so that nobody can have another file written, locked, and on the disk.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

use crate::error::Error;

/// Returns options that open and make files for their owner and group, as a server does: they hold what is in tables.
/// A symbolic link is not followed, as it could point at anything, and a pipe is not waited for.
pub fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o640).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    options
}

/// Makes a folder, and those that it is in, and brings their entries to the disk: after a power cut, what was synced in
/// the folder is still found. Returns the folders that it made.
///
/// # Errors
///
/// When the system refuses.
pub fn make_folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let mut missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    missing.reverse();
    let mut made = Vec::new();
    for path in missing {
        match fs::create_dir(path) {
            Ok(()) => made.push(path.to_owned()),
            // Another process was faster.
            Err(_) if path.is_dir() => {}
            Err(cause) => return Err(Error::io("make", &path.display().to_string(), cause)),
        }
        sync_parent(path)
            .map_err(|cause| Error::io("sync", &parent_of(path).display().to_string(), cause))?;
    }
    Ok(made)
}

/// Brings the entry of a file or folder to the disk.
///
/// # Errors
///
/// When the system refuses.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent_of(path))?.sync_all()
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A lock on a folder, which is kept as long as this is. Only the processes that take it heed it.
#[derive(Debug)]
pub struct FolderLock {
    _mark: Option<Flock<File>>,
    /// The folder itself, which stays locked when somebody removes the mark; none on a file system that cannot lock folders.
    _folder: Option<Flock<File>>,
}

impl FolderLock {
    /// Takes the lock of a folder; none if another process has it.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn take(folder: &Path) -> io::Result<Option<Self>> {
        Ok(match Flock::lock(File::open(folder)?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Some(Self { _mark: None, _folder: Some(lock) }),
            Err((_, Errno::EWOULDBLOCK)) => None,
            // NFS locks only files that are open to write: the lock on the mark has to do.
            Err(_) => Some(Self { _mark: None, _folder: None }),
        })
    }

    /// Takes the lock of the file `mark`, too, and makes it if it is not there; none if another process has it.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn with_mark(self, mark: &Path) -> io::Result<Option<Self>> {
        Ok(lock_file(mark)?.map(|lock| Self { _mark: Some(lock), ..self }))
    }
}

/// A lock on a file that is replaced while it is locked: on a file of that name with `.lock` behind it, which goes with
/// this.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    _lock: Flock<File>,
}

impl FileLock {
    /// Takes the lock of the file at `path`; none if another process has it.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let path = path.with_file_name(name);
        let lock = lock_file(&path)?;
        Ok(lock.map(|lock| Self { path, _lock: lock }))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // One that stays is not in the way.
        let _ = fs::remove_file(&self.path);
    }
}

/// Locks a file, and makes it if it is not there; none if another process has it locked.
fn lock_file(path: &Path) -> io::Result<Option<Flock<File>>> {
    loop {
        let file = private_options().write(true).open(path)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) if is_at(&lock, path) => return Ok(Some(lock)),
            // The process that had it locked has removed it meanwhile.
            Ok(_) => {}
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, errno)) => return Err(errno.into()),
        }
    }
}

/// Tells whether a file is still the one at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let (opened, there) = (file.metadata(), fs::symlink_metadata(path));
    opened.is_ok_and(|opened| {
        there.is_ok_and(|there| (opened.dev(), opened.ino()) == (there.dev(), there.ino()))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{FileLock, FolderLock, make_folders};

    #[test]
    fn what_a_lock_links_to_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (mark, target) = (folder.path().join("mark"), folder.path().join("target"));
        fs::write(&target, "text").unwrap();
        fs::write(&mark, "text").unwrap();
        let take = || FolderLock::take(folder.path()).unwrap().unwrap().with_mark(&mark);
        drop(take().unwrap().unwrap());
        assert_eq!(fs::read_to_string(&mark).unwrap(), "text");
        fs::remove_file(&mark).unwrap();
        symlink(&target, &mark).unwrap();
        assert!(take().is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "text");
    }

    #[test]
    fn a_lock_is_held_once_whatever_becomes_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let held = FolderLock::take(folder.path()).unwrap().unwrap().with_mark(&mark).unwrap();
        fs::remove_file(&mark).unwrap();
        assert!(held.is_some() && FolderLock::take(folder.path()).unwrap().is_none());
        let progress = folder.path().join("progress");
        let held = FileLock::take(&progress).unwrap();
        assert!(held.is_some() && FileLock::take(&progress).unwrap().is_none());
        drop(held);
        assert!(!folder.path().join("progress.lock").exists());
        assert!(FileLock::take(&progress).unwrap().is_some());
    }

    #[test]
    fn folders_are_made_down_to_the_last() {
        let there = tempfile::tempdir().unwrap();
        let (outer, inner) = (there.path().join("outer"), there.path().join("outer/inner"));
        assert_eq!(make_folders(&inner).unwrap(), [outer, inner.clone()]);
        assert!(make_folders(&inner).unwrap().is_empty() && inner.is_dir());
    }
}
