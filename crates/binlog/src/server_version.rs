//! Version of a server or client, as it reports it itself.

/// Version of a server or client, such as `8.0.33-debug`, `11.4.5-MariaDB` or `5.5.5-10.11.6-MariaDB-log`.
///
/// A text that does not begin with three numbers is an unknown version: it is neither before nor since any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    numbers: Option<[u32; 3]>,
    is_mariadb: bool,
}

/// Prefix of MariaDB's version in its handshake: old replicas of MySQL expect a version that they know.
const MARIADB_PREFIX: &str = "5.5.5-";

impl ServerVersion {
    /// Parses a version.
    pub fn parse(text: &str) -> Self {
        let is_mariadb = text.to_ascii_lowercase().contains("maria");
        let text = text.strip_prefix(MARIADB_PREFIX).filter(|_| is_mariadb).unwrap_or(text);
        Self { numbers: leading_numbers(text), is_mariadb }
    }

    /// Returns the three numbers of the version; `None` if it is unknown.
    pub const fn numbers(self) -> Option<[u32; 3]> {
        self.numbers
    }

    /// Returns true for MariaDB.
    pub const fn is_mariadb(self) -> bool {
        self.is_mariadb
    }

    /// Returns true for MySQL from this version on.
    pub fn is_mysql_since(self, since: [u32; 3]) -> bool {
        !self.is_mariadb && self.numbers.is_some_and(|numbers| numbers >= since)
    }

    /// Returns true for MySQL before this version.
    pub fn is_mysql_before(self, version: [u32; 3]) -> bool {
        !self.is_mariadb && self.numbers.is_some_and(|numbers| numbers < version)
    }

    /// Returns true for MariaDB from this version on.
    pub fn is_mariadb_since(self, since: [u32; 3]) -> bool {
        self.is_mariadb && self.numbers.is_some_and(|numbers| numbers >= since)
    }
}

fn leading_numbers(text: &str) -> Option<[u32; 3]> {
    let digits = |part: &str| part.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok();
    let mut numbers = text.splitn(3, '.').map_while(digits);
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

#[cfg(test)]
mod tests {
    use super::ServerVersion;

    #[test]
    fn versions_have_numbers_and_a_flavour() {
        let check = |text: &str, numbers: Option<[u32; 3]>, is_mariadb: bool| {
            assert_eq!(ServerVersion::parse(text), ServerVersion { numbers, is_mariadb }, "{text}");
        };
        check("9.7.4-2", Some([9, 7, 4]), false);
        check("8.0.33-debug", Some([8, 0, 33]), false);
        check("5.5.5-m3", Some([5, 5, 5]), false);
        check("5.5.5-10.11.6-MariaDB-log", Some([10, 11, 6]), true);
        check("11.8.6-MariaDB-0+deb13u1 from Debian-log", Some([11, 8, 6]), true);
        check("8.0-log", None, false);
        check("8.0.x", None, false);
        check("4294967296.0.1", None, false);
        check("", None, false);
    }

    #[test]
    fn versions_compare_within_their_flavour() {
        let version = ServerVersion::parse("8.0.20");
        assert!(version.is_mysql_since([8, 0, 20]) && !version.is_mysql_since([8, 0, 21]));
        assert!(version.is_mysql_before([8, 0, 21]) && !version.is_mysql_before([8, 0, 20]));
        let mariadb = ServerVersion::parse("10.11.6-MariaDB");
        assert!(mariadb.is_mariadb_since([10, 11, 0]) && !mariadb.is_mariadb_since([11, 0, 0]));
        assert!(!mariadb.is_mysql_since([5, 5, 0]) && !mariadb.is_mysql_before([11, 0, 0]));
        let unknown = ServerVersion::parse("");
        assert!(!unknown.is_mysql_since([0, 0, 0]) && !unknown.is_mysql_before([9, 0, 0]));
    }
}
