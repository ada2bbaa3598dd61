//! Puts a rewritten log in the place of the old one, at once or not at all.

use std::fs::{self, File, FileTimes};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::Error;

/// A log that is being written beside the one it will replace.
#[derive(Debug)]
pub struct Replacement {
    file: NamedTempFile,
    target: PathBuf,
}

/// A log that is on disk, beside the one it will replace.
#[derive(Debug)]
pub struct Synced {
    file: NamedTempFile,
    target: PathBuf,
}

impl Replacement {
    /// Begins a file in the same folder as `target`.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn begin(target: &Path) -> Result<Self, Error> {
        // What a link leads to is replaced, not the link.
        let target = &target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let file = tempfile::Builder::new().prefix(".bintide-").tempfile_in(folder);
        let file = file.map_err(|cause| failed("a file in", folder, cause))?;
        Ok(Self { file, target: target.to_owned() })
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
        Ok(Synced { file: self.file, target: self.target })
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
    pub fn put(self) -> Result<(), Error> {
        let Self { file, target } = self;
        file.persist(&target).map_err(|error| failed("over", &target, error.error))?;
        sync_folder(&target)
    }

    /// Puts it in its place, where nothing may stand yet.
    ///
    /// # Errors
    ///
    /// When the system refuses, or something stands there.
    pub fn put_new(self) -> Result<(), Error> {
        let Self { file, target } = self;
        file.persist_noclobber(&target).map_err(|error| failed("anew", &target, error.error))?;
        sync_folder(&target)
    }
}

fn sync_folder(target: &Path) -> Result<(), Error> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|cause| failed("the entry of", target, cause))
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
