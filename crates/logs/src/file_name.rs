//! File names of logs.

use std::path::Path;

/// Returns whether `name` is a plain file name: not a path, not `.` or `..`, and without NUL.
///
/// Check every name from a server, an index or a log before you create, change or remove a file of this name.
/// mysqlbinlog has the same rule.
pub fn is_file_name(name: &[u8]) -> bool {
    let is_forbidden = |byte: &u8| matches!(byte, 0 | b'/') || (cfg!(windows) && *byte == b'\\');
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(is_forbidden)
}

/// Returns the name of a log without its directory, for messages and records.
pub fn base_name(log: &Path) -> String {
    log.file_name().unwrap_or(log.as_os_str()).to_string_lossy().into_owned()
}

/// Splits the name or path of a log, such as `binlog.000012`: it is number 12 of `binlog`.
pub fn split_log_number(name: &str) -> Option<(&str, u64)> {
    let name = Path::new(name).file_name()?.to_str()?;
    let (base, digits) = name.rsplit_once('.')?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((base, digits.parse().ok().filter(|_| is_number)?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{base_name, is_file_name, split_log_number};

    #[test]
    fn base_names_have_no_directory() {
        for path in ["/data/binlog.000001", "./binlog.000001", "binlog.000001"] {
            assert_eq!(base_name(Path::new(path)), "binlog.000001");
        }
        assert_eq!(base_name(Path::new("..")), "..");
    }

    #[test]
    fn log_numbers_are_digits_at_the_end_of_the_name() {
        assert_eq!(split_log_number("/a.b/binlog.000012"), Some(("binlog", 12)));
        assert_eq!(split_log_number("binlog.2.x.1000000"), Some(("binlog.2.x", 1_000_000)));
        for name in ["binlog", "binlog.", "binlog.+1", "binlog.index", "binlog.99999999999999999999"] {
            assert_eq!(split_log_number(name), None, "{name}");
        }
    }

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
