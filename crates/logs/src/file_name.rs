//! Checks file names that come from a server, an index or a log.

/// Returns whether `name` is a plain file name: not a path, not `.` or `..`, and without NUL.
///
/// Check every name from a server, an index or a log before you create, change or remove a file of this name.
/// mysqlbinlog has the same rule.
pub fn is_file_name(name: &[u8]) -> bool {
    let is_forbidden = |byte: &u8| matches!(byte, 0 | b'/') || (cfg!(windows) && *byte == b'\\');
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(is_forbidden)
}

#[cfg(test)]
mod tests {
    use super::is_file_name;

    #[test]
    fn paths_are_not_file_names() {
        for name in ["binlog.000001", "my binlog.1", "..a", "a..", "\u{e9}.000001"] {
            assert!(is_file_name(name.as_bytes()), "{name}");
        }
        for name in ["", ".", "..", "/binlog.000001", "../binlog.000001", "a/b", "a/", "a\0b"] {
            assert!(!is_file_name(name.as_bytes()), "{name}");
        }
    }
}
