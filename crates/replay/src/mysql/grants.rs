//! What an account may do, as `SHOW GRANTS` says it.

use std::collections::{BTreeMap, BTreeSet};

/// What an account may do, of what belongs to all databases or to all of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Grants {
    /// By object, as it is written there: `*.*`, `` `shop`.* ``.
    of: BTreeMap<String, BTreeSet<String>>,
}

/// What stands for every privilege that had a name before MySQL 8.0.
const ALL: &str = "ALL PRIVILEGES";

impl Grants {
    /// From lines as `` GRANT SELECT, INSERT ON `shop`.* TO `user`@`%` ``. Roles are not followed: they are in lines
    /// of their own when the server is asked for them too.
    pub(super) fn read<'l>(lines: impl IntoIterator<Item = &'l str>) -> Self {
        let mut grants = Self::default();
        for line in lines {
            let Some((names, object)) = privileges(line) else { continue };
            grants.of.entry(object.to_owned()).or_default().extend(names);
        }
        grants
    }

    /// On all databases?
    pub(super) fn has(&self, name: &str) -> bool {
        self.has_on("*.*", name)
    }

    /// On all of one database, or of all?
    pub(super) fn has_in(&self, database: &str, name: &str) -> bool {
        let quoted = database.replace('`', "``");
        // In a name of a database that is granted, an underscore may be escaped.
        let escaped = quoted.replace('_', "\\_");
        self.has(name)
            || self.has_on(&format!("`{quoted}`.*"), name)
            || self.has_on(&format!("`{escaped}`.*"), name)
    }

    /// On this table, or on more?
    pub(super) fn has_of(&self, database: &str, table: &str, name: &str) -> bool {
        let quoted = |name: &str| name.replace('`', "``");
        let object = format!("`{}`.`{}`", quoted(database), quoted(table));
        self.has_in(database, name) || self.has_on(&object, name)
    }

    fn has_on(&self, object: &str, name: &str) -> bool {
        // Dynamic privileges, all with an underscore in their names, must be named.
        let is_in_all = !name.contains('_');
        self.of.get(object).is_some_and(|names| names.contains(name) || is_in_all && names.contains(ALL))
    }
}

/// The privileges of one line, and what they are of.
fn privileges(line: &str) -> Option<(Vec<String>, &str)> {
    let (names, rest) = line.strip_prefix("GRANT ")?.split_once(" ON ")?;
    let (object, _) = rest.split_once(" TO ")?;
    // Of some columns only: `SELECT (a, b)`. None that matters here is.
    let names = names.split(',').map(|name| name.trim().to_ascii_uppercase());
    Some((names.filter(|name| !name.contains(['(', ')', '`'])).collect(), object))
}

#[cfg(test)]
mod tests {
    use super::Grants;

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
        let grants = Grants::read(lines);
        let check = |database: &str, name, wanted| {
            let found = if database == "*" { grants.has(name) } else { grants.has_in(database, name) };
            assert_eq!(found, wanted, "{name} on {database}");
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
        assert!(grants.has_of("other", "t", "DELETE") && grants.has_of("bintide", "t", "DROP"));
        assert!(!grants.has_of("other", "u", "DELETE") && !grants.has_in("other", "DELETE"));
    }

    #[test]
    fn all_of_an_old_server_is_all() {
        let grants = Grants::read(["GRANT ALL PRIVILEGES ON *.* TO 'root'@'localhost' WITH GRANT OPTION"]);
        assert!(grants.has("SUPER") && grants.has_in("d", "DROP"));
        assert!(!grants.has("BINLOG_ADMIN"));
    }
}
