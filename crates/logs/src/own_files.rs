//! Files and directories that bintide creates: opened safely, locked, and synced to disk.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

use crate::error::LogError;
use crate::file_identity::FileIdentity;

/// Returns options that open or create files for owner and group only, as a server does: logs contain data of tables.
/// Such an open follows no symbolic link, which could point to any file, and never waits for a pipe.
pub fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o640).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    options
}

/// Permissions and durability of a file that [`replace_file`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Permissions of the replaced file and, if the process may set them, its owner and group; a new file is accessible
    /// to owner and group. Synced to disk.
    Private,
    /// As `Private`, but an error if the process may not set owner and group.
    SameOwner,
    /// Accessible to the owner only. Synced to disk.
    OwnerOnly,
    /// Readable by all users, or with the permissions of the file that it replaces. Not synced, for files that are often
    /// replaced.
    Shared,
}

/// Replaces a file atomically: after a crash, it has either the old or the new content. First writes the new content to
/// a file with `.new` appended to the name.
///
/// # Errors
///
/// Fails if the operating system returns an error.
pub fn replace_file(path: &Path, content: &[u8], access: FileAccess) -> io::Result<()> {
    let new = with_suffix(path, ".new");
    let written = write_unfinished(&new, path, content, access).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // The file may not exist.
        let _ = fs::remove_file(&new);
    }
    written?;
    if access == FileAccess::Shared { Ok(()) } else { sync_parent(path) }
}

/// Returns the file to which a chain of symbolic links leads, also if that file does not exist yet; for other files, the
/// path itself. The links remain when their target is replaced.
pub fn link_target(path: &Path) -> PathBuf {
    /// As in Linux.
    const LINKS_MAX: usize = 40;
    let mut target = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&target) {
            Ok(next) => target = parent_of(&target).join(next),
            Err(_) => break,
        }
    }
    target
}

fn write_unfinished(new: &Path, path: &Path, content: &[u8], access: FileAccess) -> io::Result<()> {
    let mode = if access == FileAccess::Shared { 0o666 } else { 0o640 };
    let mut file = private_options().mode(mode).write(true).truncate(true).open(new)?;
    match access {
        FileAccess::Private | FileAccess::SameOwner => {
            if let Ok(before) = fs::metadata(path) {
                // Changing the owner may remove permissions.
                match keep_owner(&file, &before) {
                    Err(error) if access == FileAccess::SameOwner => return Err(error),
                    // Others than root may still set the group to one of their own.
                    Err(_) => drop(fchown(&file, None, Some(before.gid()))),
                    Ok(()) => {}
                }
                file.set_permissions(before.permissions())?;
            }
        }
        FileAccess::OwnerOnly => file.set_permissions(Permissions::from_mode(0o600))?,
        FileAccess::Shared => {
            if let Ok(before) = fs::metadata(path) {
                file.set_permissions(before.permissions())?;
            }
        }
    }
    file.write_all(content)?;
    if access == FileAccess::Shared { Ok(()) } else { file.sync_all() }
}

/// Gives a file the owner and group of the file that it replaces: programs that could read that file must be able to
/// read the new one, also if root replaces it.
fn keep_owner(file: &File, before: &Metadata) -> io::Result<()> {
    let created = file.metadata()?;
    if (created.uid(), created.gid()) == (before.uid(), before.gid()) {
        return Ok(());
    }
    fchown(file, Some(before.uid()), Some(before.gid())).map_err(|cause| {
        let (uid, gid) = (before.uid(), before.gid());
        io::Error::new(
            cause.kind(),
            format!(
                "the new file cannot have the old owner, user {uid} and group {gid} ({cause}): run this as the owner \
                 or as root"
            ),
        )
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Creates a directory and its missing parents, and syncs their entries to disk: after a power failure, files synced in
/// the directory are still found. Returns the directories that it created.
///
/// # Errors
///
/// Fails if the operating system returns an error.
pub fn make_directories(directory: &Path) -> Result<Vec<PathBuf>, LogError> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let mut missing: Vec<&Path> = directory.ancestors().take_while(is_missing).collect();
    missing.reverse();
    let mut created = Vec::new();
    for path in missing {
        match fs::create_dir(path) {
            Ok(()) => created.push(path.to_owned()),
            // Another process has created the directory first.
            Err(_) if path.is_dir() => {}
            Err(cause) => return Err(LogError::io("create", &path.display().to_string(), cause)),
        }
        sync_parent(path)
            .map_err(|cause| LogError::io("sync", &parent_of(path).display().to_string(), cause))?;
    }
    Ok(created)
}

/// Syncs the directory entry of a file or directory to disk.
///
/// # Errors
///
/// Fails if the operating system returns an error.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent_of(path))?.sync_all()
}

/// Returns the directory of a file: `.` for a name without a directory.
pub fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Lock on a directory, held until dropped. Advisory: only processes that use the lock respect it.
#[derive(Debug)]
pub struct DirectoryLock {
    _mark: Option<Flock<File>>,
    /// Lock on the directory itself, which still holds if another process removes the mark; `None` on a file system
    /// that cannot lock directories.
    _directory: Option<Flock<File>>,
}

impl DirectoryLock {
    /// Locks a directory; returns `None` if another process has locked it.
    ///
    /// # Errors
    ///
    /// Fails if the operating system returns an error.
    pub fn take(directory: &Path) -> io::Result<Option<Self>> {
        Ok(match Flock::lock(File::open(directory)?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Some(Self { _mark: None, _directory: Some(lock) }),
            Err((_, Errno::EWOULDBLOCK)) => None,
            // NFS locks only files that are open for writing: the lock on the mark must suffice.
            Err(_) => Some(Self { _mark: None, _directory: None }),
        })
    }

    /// Locks the file `mark`, too, and creates it if it is missing; returns `None` if another process has locked it.
    ///
    /// # Errors
    ///
    /// Fails if the operating system returns an error.
    pub fn with_mark(self, mark: &Path) -> io::Result<Option<Self>> {
        Ok(lock_file(mark)?.map(|lock| Self { _mark: Some(lock), ..self }))
    }
}

/// Lock for a file that may be replaced while it is locked. The lock is on a second file, with `.lock` appended to the
/// name. Dropping the lock removes that file.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    _lock: Flock<File>,
}

impl FileLock {
    /// Locks the file at `path`; returns `None` if another process has locked it.
    ///
    /// # Errors
    ///
    /// Fails if the operating system returns an error.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        let path = with_suffix(path, ".lock");
        let lock = lock_file(&path)?;
        Ok(lock.map(|lock| Self { path, _lock: lock }))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // A remaining lock file does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

/// Locks a file, and creates it if it is missing; returns `None` if another process has locked it.
fn lock_file(path: &Path) -> io::Result<Option<Flock<File>>> {
    loop {
        let file = private_options().write(true).open(path)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) if is_at(&lock, path).unwrap_or(false) => return Ok(Some(lock)),
            // The process that held the lock has removed the file.
            Ok(_) => {}
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, errno)) => return Err(errno.into()),
        }
    }
}

/// Returns whether an open file is still the file at this path.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(there) => Ok(FileIdentity::of(&there) == FileIdentity::of(&file.metadata()?)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    use super::{DirectoryLock, FileAccess, FileLock, make_directories, replace_file};

    #[test]
    fn files_are_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list.txt");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        replace_file(&path, b"one", FileAccess::OwnerOnly).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode()), (b"one".to_vec(), 0o600));
        replace_file(&path, b"2", FileAccess::Private).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode()), (b"2".to_vec(), 0o600));
        replace_file(&path, b"three", FileAccess::Shared).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode()), (b"three".to_vec(), 0o600));
        let page = directory.path().join("page.html");
        replace_file(&page, b"page", FileAccess::Shared).unwrap();
        assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o444, 0o444);
        // A link in place of the unfinished file could point to any file.
        let target = directory.path().join("target");
        fs::write(&target, "text").unwrap();
        symlink(&target, directory.path().join("list.txt.new")).unwrap();
        assert!(replace_file(&path, b"four", FileAccess::Private).is_err());
        assert_eq!(
            (fs::read(&target).unwrap(), fs::read(&path).unwrap()),
            (b"text".to_vec(), b"three".to_vec())
        );
    }

    /// Only root may give a file to another user, so only root sees the owner change.
    #[test]
    fn owners_of_replaced_files_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list.txt");
        fs::write(&path, "one").unwrap();
        let is_root = chown(&path, Some(4711), Some(4712)).is_ok();
        let before = fs::metadata(&path).unwrap();
        replace_file(&path, b"two", FileAccess::Private).unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        assert_eq!((after.uid() == 4711, fs::read(&path).unwrap()), (is_root, b"two".to_vec()));
    }

    #[test]
    fn symbolic_links_in_place_of_lock_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (mark, target) = (directory.path().join("mark"), directory.path().join("target"));
        fs::write(&target, "text").unwrap();
        fs::write(&mark, "text").unwrap();
        let take = || DirectoryLock::take(directory.path()).unwrap().unwrap().with_mark(&mark);
        drop(take().unwrap().unwrap());
        assert_eq!(fs::read_to_string(&mark).unwrap(), "text");
        fs::remove_file(&mark).unwrap();
        symlink(&target, &mark).unwrap();
        assert!(take().is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "text");
    }

    #[test]
    fn locks_hold_even_if_their_file_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let mark = directory.path().join("mark");
        let lock = DirectoryLock::take(directory.path()).unwrap().unwrap().with_mark(&mark).unwrap();
        fs::remove_file(&mark).unwrap();
        assert!(lock.is_some() && DirectoryLock::take(directory.path()).unwrap().is_none());
        let progress = directory.path().join("progress");
        let lock = FileLock::take(&progress).unwrap();
        assert!(lock.is_some() && FileLock::take(&progress).unwrap().is_none());
        drop(lock);
        assert!(!directory.path().join("progress.lock").exists());
        assert!(FileLock::take(&progress).unwrap().is_some());
    }

    #[test]
    fn missing_directories_are_created() {
        let there = tempfile::tempdir().unwrap();
        let (outer, inner) = (there.path().join("outer"), there.path().join("outer/inner"));
        assert_eq!(make_directories(&inner).unwrap(), [outer, inner.clone()]);
        assert!(make_directories(&inner).unwrap().is_empty() && inner.is_dir());
    }
}
