//! Privileges of an account, as `SHOW GRANTS` reports them.

use servers::SqlConnection;
use sql::quote::split_name;

use sql::WildcardPattern;

/// Privileges of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccountGrants(Vec<(PrivilegeScope, Vec<String>)>);

/// Scope of privileges.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PrivilegeScope {
    All,
    /// Databases whose names match this pattern.
    Databases(WildcardPattern),
    Table(Vec<u8>, Vec<u8>),
}

/// Name for all privileges that existed before MySQL 8.0.
const ALL_PRIVILEGES: &str = "ALL PRIVILEGES";

impl AccountGrants {
    /// Returns the privileges of the connection's account and of its active roles.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses the query.
    pub(crate) fn query(connection: &mut SqlConnection) -> Result<Self, servers::ConnectionError> {
        let mut question = "SHOW GRANTS".to_owned();
        // MySQL lists the privileges of roles only if the statement names the roles, in backquotes. MariaDB always
        // lists them; older servers have no roles.
        match connection.value("SELECT CURRENT_ROLE()") {
            Ok(Some(roles)) if roles.starts_with('`') => {
                question.push_str(" FOR CURRENT_USER() USING ");
                question.push_str(&roles);
            }
            Ok(_) | Err(servers::ConnectionError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        let lines = connection.rows(&question)?.into_iter().filter_map(|row| row.into_iter().next()?);
        let lines: Vec<String> = lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect();
        Ok(Self::read(lines.iter().map(String::as_str)))
    }

    /// Parses lines such as `` GRANT SELECT, INSERT ON `shop`.* TO `user`@`%` ``.
    fn read<'l>(lines: impl IntoIterator<Item = &'l str>) -> Self {
        Self(lines.into_iter().filter_map(parse_grant).collect())
    }

    /// Returns whether the account has the privilege on all databases.
    pub(crate) fn has_globally(&self, name: &str) -> bool {
        self.has_on(name, |object| *object == PrivilegeScope::All)
    }

    /// Returns whether the account has the privilege on all of this database.
    pub(crate) fn has_on_database(&self, database: &[u8], name: &str) -> bool {
        self.has_on(name, |object| object.covers_database(database))
    }

    /// Returns whether the account has the privilege on this table.
    pub(crate) fn has_on_table(&self, database: &[u8], table: &[u8], name: &str) -> bool {
        let is_it = |object: &PrivilegeScope| match object {
            PrivilegeScope::Table(its_database, its_name) => its_database == database && its_name == table,
            more => more.covers_database(database),
        };
        self.has_on(name, is_it)
    }

    fn has_on(&self, name: &str, is_it: impl Fn(&PrivilegeScope) -> bool) -> bool {
        // `ALL PRIVILEGES` does not include dynamic privileges, whose names all have an underscore.
        let is_in_all = !name.contains('_');
        let has =
            |names: &[String]| names.iter().any(|own| own == name || is_in_all && own == ALL_PRIVILEGES);
        self.0.iter().any(|(object, names)| is_it(object) && has(names))
    }
}

impl PrivilegeScope {
    fn read(text: &str) -> Option<Self> {
        if text == "*.*" {
            return Some(Self::All);
        }
        let (database, rest) = split_name(text.as_bytes())?;
        match rest.strip_prefix(b".")? {
            b"*" => Some(Self::Databases(WildcardPattern::new(database))),
            rest => split_name(rest).map(|(table, _)| Self::Table(database, table)),
        }
    }

    /// Returns whether the scope includes all of a database.
    fn covers_database(&self, database: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Databases(pattern) => pattern.matches(database),
            Self::Table(..) => false,
        }
    }
}

/// Returns the object and the privileges of one line.
fn parse_grant(line: &str) -> Option<(PrivilegeScope, Vec<String>)> {
    let (names, rest) = line.strip_prefix("GRANT ")?.split_once(" ON ")?;
    let (object, _) = rest.split_once(" TO ")?;
    // Column privileges, as in `SELECT (a, b)`, are ignored.
    let names = names.split(',').map(|name| name.trim().to_ascii_uppercase());
    let names = names.filter(|name| !name.contains(['(', ')', '`'])).collect();
    Some((PrivilegeScope::read(object)?, names))
}

#[cfg(test)]
mod tests {
    use super::AccountGrants;

    #[test]
    fn grants_are_read() {
        let lines = [
            "GRANT SELECT, PROCESS ON *.* TO `r`@`%`",
            "GRANT BINLOG_ADMIN,SYSTEM_VARIABLES_ADMIN ON *.* TO `r`@`%` WITH GRANT OPTION",
            "GRANT ALL PRIVILEGES ON `bintide`.* TO `r`@`%`",
            "GRANT SELECT (`a`, `b`), INSERT ON `my\\_shop`.* TO `r`@`%`",
            "GRANT DELETE ON `other`.`t` TO `r`@`%`",
            "GRANT `role`@`%` TO `r`@`%`",
        ];
        let grants = AccountGrants::read(lines);
        let check = |database: &str, name, expected| {
            let found = if database == "*" {
                grants.has_globally(name)
            } else {
                grants.has_on_database(database.as_bytes(), name)
            };
            assert_eq!(found, expected, "{name} on {database}");
        };
        check("*", "SELECT", true);
        check("*", "BINLOG_ADMIN", true);
        check("*", "SYSTEM_VARIABLES_ADMIN", true);
        check("*", "INSERT", false);
        check("bintide", "INSERT", true);
        check("bintide", "BINLOG_ADMIN", true);
        check("other", "INSERT", false);
        check("other", "SELECT", true);
        check("my_shop", "INSERT", true);
        check("my_shop", "UPDATE", false);
        assert!(
            grants.has_on_table(b"other", b"t", "DELETE") && grants.has_on_table(b"bintide", b"t", "DROP")
        );
        assert!(
            !grants.has_on_table(b"other", b"u", "DELETE") && !grants.has_on_database(b"other", "DELETE")
        );
    }

    #[test]
    fn all_of_an_old_server_is_all() {
        let grants =
            AccountGrants::read(["GRANT ALL PRIVILEGES ON *.* TO 'root'@'localhost' WITH GRANT OPTION"]);
        assert!(grants.has_globally("SUPER") && grants.has_on_database(b"d", "DROP"));
        assert!(!grants.has_globally("BINLOG_ADMIN"));
    }

    #[test]
    fn privileges_to_see_triggers() {
        let check = |grant: &str, expected| {
            assert_eq!(
                AccountGrants::read([grant]).has_on_table(b"d_1", b"t", "TRIGGER"),
                expected,
                "{grant}"
            );
        };
        check("GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION", true);
        check("GRANT SELECT, TRIGGER, UPDATE ON `d\\_1`.* TO `low`@`%`", true);
        check("GRANT TRIGGER ON `d%`.* TO `low`@`%`", true);
        check("GRANT TRIGGER ON `e%`.* TO `low`@`%`", false);
        check("GRANT TRIGGER ON `d_1`.`t` TO `low`@`%`", true);
        check("GRANT TRIGGER ON `d_1`.`u` TO `low`@`%`", false);
        check("GRANT SELECT ON *.* TO `low`@`%`", false);
        check("GRANT `role`@`%` TO `low`@`%`", false);
    }
}
