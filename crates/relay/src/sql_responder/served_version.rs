//! Version of the server that a relay presents.

use crate::log_form::version_numbers;

/// Version of the server that a relay presents. Decides which variables and columns exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServedVersion {
    numbers: [u32; 3],
    pub(crate) is_mariadb: bool,
}

impl ServedVersion {
    pub(crate) fn parse(version: &str) -> Self {
        let is_mariadb = version.to_ascii_lowercase().contains("mariadb");
        // MariaDB's version has a prefix: a version that old replicas know.
        let numbers = version_numbers(version.strip_prefix("5.5.5-").unwrap_or(version));
        Self { numbers: numbers.unwrap_or_default(), is_mariadb }
    }

    /// Returns true for MariaDB from this version on.
    pub(crate) fn is_mariadb_since(self, version: [u32; 3]) -> bool {
        self.is_mariadb && self.numbers >= version
    }

    /// Returns true for MySQL from this version on.
    pub(crate) fn is_mysql_since(self, version: [u32; 3]) -> bool {
        !self.is_mariadb && self.numbers >= version
    }
}

#[cfg(test)]
mod tests {
    use super::ServedVersion;

    #[test]
    fn versions() {
        let check = |text: &str, numbers: [u32; 3], is_mariadb: bool| {
            assert_eq!(ServedVersion::parse(text), ServedVersion { numbers, is_mariadb }, "{text}");
        };
        check("9.7.4-2", [9, 7, 4], false);
        check("5.5.5-10.11.6-MariaDB-log", [10, 11, 6], true);
        check("11.8.6-MariaDB", [11, 8, 6], true);
        check("", [0, 0, 0], false);
    }
}
