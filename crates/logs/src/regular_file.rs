//! Access to files named by an index, a directory or a user: only regular files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

use binlog::{MAGIC, MAGIC_ENCRYPTED};

/// Opens a regular file for reading. Immediately refuses a pipe or a device, because opening or reading it could block
/// forever.
///
/// # Errors
///
/// Fails if the file cannot be opened, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = without_waiting().open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Returns whether the file starts as a log does, encrypted or not; false also if it cannot be read.
pub fn starts_as_log(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let is_read = open_regular(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok();
    is_read && [MAGIC, MAGIC_ENCRYPTED].contains(&magic)
}

/// Reads the text of a regular file.
///
/// # Errors
///
/// Fails as [`open_regular`] does, and if the file is not UTF-8.
pub(crate) fn read_regular_text(path: &Path) -> io::Result<String> {
    io::read_to_string(open_regular(path)?)
}

#[cfg(unix)]
pub(crate) fn without_waiting() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits());
    options
}

#[cfg(not(unix))]
fn without_waiting() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    options
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::open_regular;

    #[test]
    fn pipes_and_devices_are_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), directory.path()] {
            let error = open_regular(path).unwrap_err().to_string();
            assert_eq!(error, "it is not a regular file", "{}", path.display());
        }
        assert!(open_regular(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).is_ok());
    }
}
