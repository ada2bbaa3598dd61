//! Search for processes that have logs open for writing, among the processes visible to this user.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::file_identity::FileIdentity;
use crate::regular_file::starts_as_log;

/// Evidence that a server runs in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningServer {
    /// Process id.
    process: String,
    /// File that the process has open.
    file: PathBuf,
}

impl RunningServer {
    /// Returns what runs in the directory, for messages: another bintide, which receives logs, or a server.
    pub fn kind(&self) -> &'static str {
        let name = fs::read_to_string(Path::new("/proc").join(&self.process).join("comm"));
        match name.is_ok_and(|name| name.trim_end() == "bintide") {
            true => "another bintide",
            false => "a server",
        }
    }
}

impl fmt::Display for RunningServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.file.file_name().unwrap_or_default().display();
        write!(out, "process {} has {name} open for writing", self.process)
    }
}

/// Presence of another process that has a file open for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterPresence {
    /// A process has the file open.
    Open,
    /// No process has the file open.
    Closed,
    /// Unknown: a process that could have the file open is not visible.
    Unknown,
}

/// Files that identify the data directory of a server: of MySQL, InnoDB, MySQL 8 and MariaDB.
const SERVER_FILES: [&str; 4] = ["auto.cnf", "ibdata1", "mysql.ibd", "aria_log_control"];

/// Returns the name of a file that exists only in a server's data directory, if this directory has one.
pub fn find_server_file(directory: &Path) -> Option<&'static str> {
    SERVER_FILES.into_iter().find(|name| directory.join(name).exists())
}

/// Returns the evidence for a server that runs in this directory. A server keeps its index and a log open for
/// writing, and in a data directory many more files.
pub fn find_running_server(directory: &Path) -> Option<RunningServer> {
    let files = entries(directory).map(|entry| entry.path());
    let files = files.filter(|file| is_server_file(file) || starts_as_log(file));
    let known: HashMap<FileIdentity, PathBuf> =
        files.filter_map(|file| Some((FileIdentity::of_path(&file).ok()?, file))).collect();
    let found = scan_processes()
        .open
        .into_iter()
        .find_map(|open| Some((open.process, known.get(&open.file)?.clone())));
    found.map(|(process, file)| RunningServer { process, file })
}

/// Returns whether another process has the file open for writing.
pub fn find_writer(path: &Path) -> WriterPresence {
    let Ok(metadata) = fs::metadata(path) else { return WriterPresence::Unknown };
    let (file, owner) = (FileIdentity::of(&metadata), metadata.uid());
    let seen = scan_processes();
    // A server in a container has another path for the file.
    if seen.open.iter().any(|open| open.file == file) {
        return WriterPresence::Open;
    }
    // A server owns the logs that it writes.
    let is_hidden = seen.hidden.iter().any(|owners| owners.is_empty() || owners.contains(&owner));
    match is_hidden || !sees_all_processes() || is_shared(path) {
        true => WriterPresence::Unknown,
        false => WriterPresence::Closed,
    }
}

/// Name of Linux's initial PID namespace. A process in another namespace, as in a container, does not see the
/// processes outside.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

fn sees_all_processes() -> bool {
    let namespace = fs::read_link("/proc/self/ns/pid");
    // If process 1 is hidden, all processes of other users are hidden.
    namespace.is_ok_and(|namespace| namespace == Path::new(INITIAL_PID_NAMESPACE))
        && Path::new("/proc/1/status").exists()
}

/// Returns whether other machines may write to the file, too.
fn is_shared(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo");
    let (Ok(mounts), Ok(path)) = (mounts, path.canonicalize()) else { return true };
    is_on_shared_mount(&mounts, &path)
}

/// Reads `/proc/self/mountinfo`: the fifth field is the mount point, and the file system type follows a lone `-`. The
/// last mount of the longest matching mount point applies.
fn is_on_shared_mount(mounts: &str, path: &Path) -> bool {
    let mounts = mounts.lines().filter_map(|line| {
        let (front, after) = line.split_once(" - ")?;
        let mount_point = front.split(' ').nth(4)?.replace("\\040", " ");
        path.starts_with(&mount_point).then_some((mount_point.len(), after.split(' ').next()?))
    });
    mounts.max_by_key(|(depth, _)| *depth).is_none_or(|(_, kind)| {
        let over_network = [
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "ceph",
            "glusterfs",
            "lustre",
            "9p",
            "virtiofs",
            "gfs2",
            "ocfs2",
            "afs",
        ];
        over_network.contains(&kind) || kind.starts_with("fuse")
    })
}

/// Returns whether only a server writes to the file: an index of logs, or a file of InnoDB.
fn is_server_file(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".index") || name.starts_with("ibdata") || name.ends_with(".ibd")
}

/// Visible files of other processes.
#[derive(Default)]
struct ProcessScan {
    /// Files open for writing.
    open: Vec<WrittenFile>,
    /// Users of each process with invisible files; an empty list if the users are invisible, too.
    hidden: Vec<Vec<u32>>,
}

struct WrittenFile {
    process: String,
    file: FileIdentity,
}

fn scan_processes() -> ProcessScan {
    let own = std::process::id().to_string();
    let processes = entries(Path::new("/proc")).filter_map(|entry| entry.file_name().into_string().ok());
    let others = processes.filter(|name| *name != own && name.bytes().all(|byte| byte.is_ascii_digit()));
    let mut seen = ProcessScan::default();
    for process in others {
        let directory = Path::new("/proc").join(&process);
        match fs::read_dir(directory.join("fd")) {
            Ok(links) => {
                let files = links.flatten().filter_map(|link| {
                    let how = fs::read_to_string(directory.join("fdinfo").join(link.file_name())).ok()?;
                    is_for_writing(&how).then(|| FileIdentity::of_path(&link.path()).ok()).flatten()
                });
                seen.open.extend(files.map(|file| WrittenFile { process: process.clone(), file }));
            }
            // The process has ended.
            Err(_) if !directory.exists() => {}
            Err(_) => seen
                .hidden
                .push(process_owners(&fs::read_to_string(directory.join("status")).unwrap_or_default())),
        }
    }
    seen
}

/// Returns the users of a process, from `/proc/PID/status`.
fn process_owners(status: &str) -> Vec<u32> {
    let owners = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    owners.unwrap_or_default().split_whitespace().filter_map(|owner| owner.parse().ok()).collect()
}

fn entries(directory: &Path) -> impl Iterator<Item = fs::DirEntry> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten()
}

/// Returns whether a file is open for writing, from `/proc/PID/fdinfo/N`: `flags:`, then the flags of `open` in octal.
/// The lowest two bits are the mode.
fn is_for_writing(how: &str) -> bool {
    let flags = how.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.is_some_and(|flags| u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & 0o3 != 0))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{is_for_writing, is_on_shared_mount, is_server_file, process_owners};

    #[test]
    fn the_lowest_two_bits_are_the_mode() {
        for (how, expected) in [
            ("pos:\t0\nflags:\t0100000\nmnt_id:\t29\n", false),
            ("pos:\t0\nflags:\t0100001\n", true),
            ("flags:\t0102002\n", true),
            ("pos:\t0\n", false),
        ] {
            assert_eq!(is_for_writing(how), expected, "{how}");
        }
    }

    #[test]
    fn files_that_only_servers_write() {
        for (name, expected) in
            [("binlog.index", true), ("ibdata1", true), ("mysql.ibd", true), ("binlog.000001", false)]
        {
            assert_eq!(is_server_file(Path::new("/data").join(name).as_path()), expected, "{name}");
        }
    }

    #[test]
    fn network_file_systems_are_shared() {
        let mounts = "\
            23 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            31 23 0:40 / /net rw shared:9 - nfs4 host:/logs rw\n\
            32 31 254:1 / /net/my\\040disk rw - xfs /dev/vdb rw\n\
            33 23 0:41 / /mnt/far rw master:2 - fuse.sshfs host:/ rw\n";
        for (path, expected) in [
            ("/var/lib/mysql/binlog.000001", false),
            ("/net/binlog.000001", true),
            ("/network/binlog.000001", false),
            ("/net/my disk/binlog.000001", false),
            ("/mnt/far/binlog.000001", true),
        ] {
            assert_eq!(is_on_shared_mount(mounts, Path::new(path)), expected, "{path}");
        }
        assert!(is_on_shared_mount("", Path::new("/binlog.000001")));
    }

    #[test]
    fn users_of_a_process_are_read() {
        assert_eq!(
            process_owners("Name:\tmysqld\nUid:\t999\t999\t998\t999\nGid:\t1\t1\t1\t1\n"),
            [999, 999, 998, 999]
        );
        assert_eq!(process_owners(""), [0_u32; 0]);
    }
}
