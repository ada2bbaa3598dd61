//! Replaces a log by its rewritten version atomically.

use std::fs::{self, File, FileTimes};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use logs::sync_parent;
use tempfile::NamedTempFile;

use crate::error::Error;

/// A log that is being written beside the one that it will replace.
#[derive(Debug)]
pub struct Replacement {
    file: NamedTempFile,
    target: PathBuf,
    lock: Option<Lock>,
}

/// A log that is synced to disk, beside the one that it will replace.
#[derive(Debug)]
pub struct Synced {
    file: NamedTempFile,
    target: PathBuf,
    lock: Option<Lock>,
}

impl Replacement {
    /// Creates a temporary file in the same directory as `target`.
    ///
    /// # Errors
    ///
    /// The operating system reports an error.
    pub fn begin(target: &Path) -> Result<Self, Error> {
        // If the target is a symbolic link, the file behind the link is replaced.
        Self::begin_at(&target.canonicalize().unwrap_or_else(|_| target.to_owned()))
    }

    /// As [`Self::begin`], but if `target` is a symbolic link, the link itself is replaced.
    pub(crate) fn begin_at(target: &Path) -> Result<Self, Error> {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let wrong = |cause| failed("a temporary file in", folder, cause);
        remove_left_over(folder).map_err(wrong)?;
        loop {
            let file = tempfile::Builder::new().prefix(PREFIX).rand_bytes(RANDOM_SIZE).tempfile_in(folder);
            let file = file.map_err(wrong)?;
            let locked = lock(file.as_file().try_clone().map_err(wrong)?);
            // Another process may have removed the file as a leftover before it was locked.
            if !matches!(locked, Err(Unlocked::Elsewhere)) && file.path().exists() {
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

    /// Copies owner, mode and modification time of `like`, and syncs the file to disk. Servers expire logs by their
    /// modification time.
    ///
    /// # Errors
    ///
    /// The operating system reports an error.
    pub fn sync(mut self, like: &Path) -> Result<Synced, Error> {
        let copied = self.file.flush().and_then(|()| copy_attributes(self.file.as_file(), like));
        let synced = copied.and_then(|()| self.file.as_file().sync_all());
        synced.map_err(|cause| failed("the replacement of", &self.target, cause))?;
        Ok(Synced { file: self.file, target: self.target, lock: self.lock })
    }
}

impl Synced {
    /// Returns the path of the temporary file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Renames the file to its target and replaces an existing file.
    ///
    /// # Errors
    ///
    /// The operating system reports an error. The old log is then still in place.
    pub fn put(self) -> Result<Placed, Error> {
        let Self { file, target, lock: _lock } = self;
        file.persist(&target).map_err(|error| failed("the new", &target, error.error))?;
        Ok(Placed { path: target })
    }

    /// Renames the file to its target, where no file may exist.
    ///
    /// # Errors
    ///
    /// The operating system reports an error, or a file exists at the target.
    pub fn put_new(self) -> Result<Placed, Error> {
        let Self { file, target, lock: _lock } = self;
        file.persist_noclobber(&target).map_err(|error| failed("the new file", &target, error.error))?;
        Ok(Placed { path: target })
    }

    /// Renames the file to its target or, if a file exists there, to the first free name with the suffix `.2`, `.3`, …
    /// If one of these files has the same content, it is used instead.
    ///
    /// # Errors
    ///
    /// The operating system reports an error.
    pub fn put_beside(self) -> Result<Beside, Error> {
        let Self { mut file, target, lock: _lock } = self;
        for number in 1_u64.. {
            let path = numbered(&target, number);
            match file.persist_noclobber(&path) {
                Ok(_) => {
                    sync_entry(&path)?;
                    return Ok(Beside { path, is_new: true });
                }
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => file = error.file,
                Err(error) => return Err(failed("the new file", &path, error.error)),
            }
            if is_equal(file.path(), &path).map_err(|cause| failed("the new file", &path, cause))? {
                return Ok(Beside { path, is_new: false });
            }
        }
        unreachable!("ours: no folder holds so many files")
    }
}

/// A log at its target. Its directory entry is not synced to disk yet.
#[must_use]
#[derive(Debug)]
pub struct Placed {
    path: PathBuf,
}

impl Placed {
    /// Syncs the directory entry to disk.
    ///
    /// # Errors
    ///
    /// The operating system reports an error. The log is at its target nevertheless.
    pub fn sync(self) -> Result<(), Error> {
        sync_entry(&self.path)
    }
}

/// A file that was stored without overwriting another.
#[derive(Debug)]
pub struct Beside {
    /// Path of the file.
    pub path: PathBuf,
    /// True if the file was created now. False if a file with the same content existed.
    pub is_new: bool,
}

fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if number > 1 {
        name.push(format!(".{number}"));
    }
    name.into()
}

/// Returns true if both are files with the same content.
fn is_equal(one: &Path, other: &Path) -> io::Result<bool> {
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

/// Removes temporary files of killed processes: those that no process has locked.
fn remove_left_over(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(|rest| {
            rest.len() == RANDOM_SIZE && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // A file that cannot be opened or removed belongs to someone else and stays. The lock is held during the
        // removal, so that a process that has just created the file notices.
        if let Some(_lock) = File::open(entry.path()).ok().and_then(|file| lock(file).ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Lock on a temporary file. The operating system releases it when the process ends, even when it is killed.
#[cfg(unix)]
type Lock = nix::fcntl::Flock<File>;
#[cfg(not(unix))]
type Lock = ();

/// Reason why a file is not locked.
#[derive(Debug)]
enum Unlocked {
    /// Another process holds the lock.
    Elsewhere,
    /// The file system has no locks. Temporary files are then never removed as leftovers.
    NoLocks,
}

#[cfg(unix)]
fn lock(file: File) -> Result<Lock, Unlocked> {
    use nix::errno::Errno;
    use nix::fcntl::{Flock, FlockArg};
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, cause)| match cause {
        Errno::EWOULDBLOCK => Unlocked::Elsewhere,
        _ => Unlocked::NoLocks,
    })
}

#[cfg(not(unix))]
fn lock(_: File) -> Result<Lock, Unlocked> {
    Err(Unlocked::NoLocks)
}

fn sync_entry(target: &Path) -> Result<(), Error> {
    sync_parent(target).map_err(|cause| failed("the directory entry of", target, cause))
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

fn copy_attributes(file: &File, like: &Path) -> io::Result<()> {
    let like = fs::metadata(like)?;
    copy_owner(file, &like)?;
    file.set_permissions(like.permissions())?;
    file.set_times(FileTimes::new().set_modified(like.modified()?))
}

fn failed(what: &str, path: &Path, cause: io::Error) -> Error {
    Error::Write { what: format!("{what} {}", path.display()), cause }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::{Replacement, Synced};

    fn begin(target: &std::path::Path, content: &str) -> Synced {
        let mut file = Replacement::begin(target).unwrap();
        file.file().write_all(content.as_bytes()).unwrap();
        file.sync(target.parent().unwrap()).unwrap()
    }

    #[test]
    fn nothing_that_is_there_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("positions.log");
        for (content, name, is_new) in [
            ("one", "positions.log", true),
            ("two", "positions.log.2", true),
            ("one", "positions.log", false),
            ("two", "positions.log.2", false),
            ("three", "positions.log.3", true),
        ] {
            let beside = begin(&target, content).put_beside().unwrap();
            assert_eq!((beside.path, beside.is_new), (folder.path().join(name), is_new), "{content}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("log");
        let under_way = Replacement::begin(&target).unwrap();
        let (left, others) = (".bintide-new-AbCd1234", [".bintide-new-", ".bintide-new-AbCd-234", "log"]);
        for name in others.iter().chain([&left]) {
            fs::write(folder.path().join(name), "something").unwrap();
        }
        drop(Replacement::begin(&target).unwrap());
        assert!(!folder.path().join(left).exists());
        assert!(under_way.path().exists() && others.iter().all(|name| folder.path().join(name).exists()));
    }
}
