//! Reading of a database file without creating other files.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use replay::TargetFailure;
use rusqlite::{Connection, OpenFlags};

use crate::sqlite_failure::sqlite_failure;
use crate::sqlite_target::plain_name;

/// Reads an existing database. Creates no other file: SQLite would create the files of the write-ahead log, which a
/// reader cannot remove.
pub(crate) fn read_file<T>(
    path: &Path,
    read: &dyn Fn(&Connection) -> Result<T, TargetFailure>,
) -> Result<T, TargetFailure> {
    if !has_write_ahead_log(path) {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let file = Connection::open_with_flags(immutable_uri(path), flags).map_err(sqlite_failure)?;
        let result = read(&file);
        // If a write-ahead log exists now, another program has begun to write: the file was not immutable.
        if !has_write_ahead_log(path) {
            return result;
        }
    }
    let file = Connection::open_with_flags(plain_name(path), OpenFlags::SQLITE_OPEN_READ_ONLY);
    let file = file.map_err(sqlite_failure)?;
    read(&file)
}

/// Returns whether the database has a write-ahead log or a rollback journal: another program has it open, or a crash
/// left the file.
fn has_write_ahead_log(path: &Path) -> bool {
    ["-wal", "-journal"].into_iter().any(|suffix| {
        let mut name = OsString::from(path);
        name.push(suffix);
        Path::new(&name).exists()
    })
}

/// Returns the URI of a file that does not change while it is read.
fn immutable_uri(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(*byte))
            }
            other => {
                let _ = write!(uri, "%{other:02x}");
            }
        }
    }
    uri.push_str("?immutable=1");
    uri
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

    use super::{immutable_uri, read_file};

    #[test]
    fn uris_are_escaped() {
        assert_eq!(immutable_uri(Path::new("/a b/c?d%#.db")), "file:///a%20b/c%3fd%25%23.db?immutable=1");
    }

    #[test]
    fn reading_creates_no_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a ?b.db");
        let file = Connection::open(&path).unwrap();
        file.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (7)")
            .unwrap();
        let value =
            || read_file(&path, &|file| Ok(file.query_row("SELECT a FROM t", [], |row| row.get(0)))).unwrap();
        assert_eq!(value(), Ok(7), "while it is written");
        drop(file);
        assert_eq!(value(), Ok(7));
        let names: Vec<_> =
            directory.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a ?b.db"]);
    }
}
