//! Whether a server is at work on a log, or in its directory: as far as the system tells this user.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// What tells that a server runs in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Running {
    /// The process's number.
    process: String,
    /// What it holds in the directory.
    file: PathBuf,
}

impl fmt::Display for Running {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.file.file_name().unwrap_or_default().display();
        write!(out, "process {} has {name} open to write", self.process)
    }
}

/// Does a server run in this directory? One keeps its index open to write, and in a data directory much more.
pub(super) fn in_directory(directory: &Path) -> Option<Running> {
    let directory = directory.canonicalize().ok()?;
    open_to_write().find(|open| open.file.parent() == Some(&directory) && is_of_a_server(&open.file))
}

/// Does another process have it open to write?
pub(super) fn is_open(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| open_to_write().any(|open| open.file == path))
}

/// An index of logs, or what InnoDB keeps: nobody but a server writes to them.
fn is_of_a_server(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".index") || name.starts_with("ibdata") || name.ends_with(".ibd")
}

/// Files that other processes have open to write.
fn open_to_write() -> impl Iterator<Item = Running> {
    let own = std::process::id().to_string();
    let processes = entries(Path::new("/proc")).filter_map(|entry| entry.file_name().into_string().ok());
    let others = processes.filter(move |name| *name != own && name.bytes().all(|byte| byte.is_ascii_digit()));
    others.flat_map(|process| {
        let folder = Path::new("/proc").join(&process);
        let files = entries(&folder.join("fd")).filter_map(move |link| {
            let how = fs::read_to_string(folder.join("fdinfo").join(link.file_name())).ok()?;
            is_for_writing(&how).then(|| fs::read_link(link.path()).ok()).flatten()
        });
        files.map(move |file| Running { process: process.clone(), file }).collect::<Vec<_>>()
    })
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// As `/proc/PID/fdinfo/N` tells it: `flags:`, then the flags of `open` in octal, whose lowest two bits are the mode.
fn is_for_writing(how: &str) -> bool {
    let flags = how.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.is_some_and(|flags| u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & 0o3 != 0))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{is_for_writing, is_of_a_server};

    #[test]
    fn the_lowest_two_bits_say_it() {
        for (how, wanted) in [
            ("pos:\t0\nflags:\t0100000\nmnt_id:\t29\n", false),
            ("pos:\t0\nflags:\t0100001\n", true),
            ("flags:\t0102002\n", true),
            ("pos:\t0\n", false),
        ] {
            assert_eq!(is_for_writing(how), wanted, "{how}");
        }
    }

    #[test]
    fn files_that_only_servers_write() {
        for (name, wanted) in
            [("binlog.index", true), ("ibdata1", true), ("mysql.ibd", true), ("binlog.000001", false)]
        {
            assert_eq!(is_of_a_server(Path::new("/data").join(name).as_path()), wanted, "{name}");
        }
    }
}
