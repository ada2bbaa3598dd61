//! Puts a rewritten log in the place of the old one, at once or not at all.

use std::fs::{self, File, FileTimes};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use logs::sync_parent;
use tempfile::NamedTempFile;

use crate::error::Error;

/// A log that is being written beside the one it will replace.
#[derive(Debug)]
pub struct Replacement {
    file: NamedTempFile,
    target: PathBuf,
    lock: Option<Lock>,
}

/// A log that is on disk, beside the one it will replace.
#[derive(Debug)]
pub struct Synced {
    file: NamedTempFile,
    target: PathBuf,
    lock: Option<Lock>,
}

impl Replacement {
    /// Begins a file in the same folder as `target`.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn begin(target: &Path) -> Result<Self, Error> {
        // What a link leads to is replaced, not the link.
        Self::begin_at(&target.canonicalize().unwrap_or_else(|_| target.to_owned()))
    }

    /// The same; if `target` is a link, what it leads to is left alone.
    pub(crate) fn begin_at(target: &Path) -> Result<Self, Error> {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let wrong = |cause| failed("a file in", folder, cause);
        remove_left_over(folder).map_err(wrong)?;
        loop {
            let file = tempfile::Builder::new().prefix(PREFIX).rand_bytes(RANDOM_SIZE).tempfile_in(folder);
            let file = file.map_err(wrong)?;
            let locked = lock(file.as_file().try_clone().map_err(wrong)?);
            // Another process may have taken it for left over until now.
            if !matches!(locked, Err(Unlocked::Elsewhere)) && file.path().exists() {
                return Ok(Self { file, target: target.to_owned(), lock: locked.ok() });
            }
        }
    }

    /// Where to write.
    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Where it is now.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives it the owner, mode and times of `like`, and waits until it is on disk. Servers expire logs by their
    /// modification time.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn sync(mut self, like: &Path) -> Result<Synced, Error> {
        let copied = self.file.flush().and_then(|()| copy_attributes(self.file.as_file(), like));
        let synced = copied.and_then(|()| self.file.as_file().sync_all());
        synced.map_err(|cause| failed("what replaces", &self.target, cause))?;
        Ok(Synced { file: self.file, target: self.target, lock: self.lock })
    }
}

impl Synced {
    /// Where it is now.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Puts it in its place; what stood there is gone.
    ///
    /// # Errors
    ///
    /// When the system refuses; then the old log is still there.
    pub fn put(self) -> Result<Placed, Error> {
        let Self { file, target, lock: _lock } = self;
        file.persist(&target).map_err(|error| failed("over", &target, error.error))?;
        Ok(Placed { path: target })
    }

    /// Puts it in its place, where nothing may stand yet.
    ///
    /// # Errors
    ///
    /// When the system refuses, or something stands there.
    pub fn put_new(self) -> Result<Placed, Error> {
        let Self { file, target, lock: _lock } = self;
        file.persist_noclobber(&target).map_err(|error| failed("anew", &target, error.error))?;
        Ok(Placed { path: target })
    }

    /// Puts it in its place, or when something stands there, where the same name with `.2`, `.3`, … is free. What is
    /// there with the same content is as good.
    ///
    /// # Errors
    ///
    /// When the system refuses.
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
                Err(error) => return Err(failed("anew", &path, error.error)),
            }
            if is_equal(file.path(), &path).map_err(|cause| failed("anew", &path, cause))? {
                return Ok(Beside { path, is_new: false });
            }
        }
        unreachable!("ours: no folder holds so many files")
    }
}

/// A log that is in its place; after a power cut, it may not be there yet.
#[must_use]
#[derive(Debug)]
pub struct Placed {
    path: PathBuf,
}

impl Placed {
    /// Waits until its place is on the disk, too.
    ///
    /// # Errors
    ///
    /// When the system refuses. The log is in its place all the same.
    pub fn sync(self) -> Result<(), Error> {
        sync_entry(&self.path)
    }
}

/// What came to lie where nothing was overwritten.
#[derive(Debug)]
pub struct Beside {
    /// Where it lies.
    pub path: PathBuf,
    /// Was it put there just now?
    pub is_new: bool,
}

fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if number > 1 {
        name.push(format!(".{number}"));
    }
    name.into()
}

/// Do both hold the same? What is no file does not.
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

/// How the names of files begin that are not yet in their place; so many characters come behind.
const PREFIX: &str = ".bintide-new-";
const RANDOM_SIZE: usize = 8;

/// Removes what a process left that was killed: a file of ours that nobody holds the lock of.
fn remove_left_over(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(|rest| {
            rest.len() == RANDOM_SIZE && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // What cannot be opened or removed is not ours after all: it may stay. The lock is held meanwhile: who has just
        // made the file and not locked it yet sees that.
        if let Some(_lock) = File::open(entry.path()).ok().and_then(|file| lock(file).ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Held for as long as a file is under way: the system takes it back when the process ends, however it ends.
#[cfg(unix)]
type Lock = nix::fcntl::Flock<File>;
#[cfg(not(unix))]
type Lock = ();

/// Why a file is not locked.
#[derive(Debug)]
enum Unlocked {
    /// Another process has it.
    Elsewhere,
    /// There are no locks here. Then nothing is taken for left over either.
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
    sync_parent(target).map_err(|cause| failed("the entry of", target, cause))
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
