//! What a log says of a session, in a server's own terms: MySQL and MariaDB number collations and SQL modes each in
//! their own way, and each has variables that the other lacks.

use std::borrow::Cow;

use binlog::{Charset, Collation, Flavour};
use servers::Connection;

use crate::context::Context;
use crate::error::Failure;
use crate::work::Statement;

/// Puts contexts into the terms of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    target: Flavour,
    /// What the session has of `default_table_encryption` and `sql_require_primary_key`, as long as that is so: not
    /// every account may set them, not even to the same.
    table_encryption: Option<u8>,
    require_primary_key: Option<u8>,
}

/// What `utf8mb4` alone means to MariaDB, and meant to MySQL before 8.0.
const UTF8MB4_GENERAL_CI: u16 = 45;

/// SQL modes that MySQL 8.0.5 removed.
const MODES_REMOVED: u64 = 0x1003_ff00;
/// The modes that both have.
const MODES_OF_BOTH: u64 = 0xffff_ffff;
/// MySQL: digits that do not fit a fraction are cut off. MariaDB does that unless told otherwise.
const TIME_TRUNCATE_FRACTIONAL: u64 = 1 << 32;
/// MariaDB: they are rounded, as MySQL does unless told otherwise.
const TIME_ROUND_FRACTIONAL: u64 = 1 << 34;

impl Fit {
    /// For a session on a server of this flavour.
    pub(super) fn new(target: Flavour, connection: &mut Connection) -> Result<Self, servers::Error> {
        let mut ask = |variable: &str| match connection.value(&format!("SELECT @@session.{variable}")) {
            Ok(value) => Ok(value.and_then(|value| value.parse().ok())),
            // Not every server has it.
            Err(servers::Error::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        Ok(Self {
            target,
            table_encryption: ask("default_table_encryption")?,
            require_primary_key: ask("sql_require_primary_key")?,
        })
    }

    /// The server's flavour.
    pub(super) const fn target(&self) -> Flavour {
        self.target
    }

    /// The context in the server's terms.
    pub(super) fn fit<'c>(&mut self, context: &'c Context) -> Cow<'c, Context> {
        let source = if context.is_mariadb { Flavour::MariaDb } else { Flavour::MySql };
        let has_more = context.table_encryption.is_some()
            || context.require_primary_key.is_some()
            || context.sql_mode.is_some_and(|mode| mode & MODES_REMOVED != 0);
        if source == Flavour::MySql && self.target == Flavour::MySql && !has_more {
            return Cow::Borrowed(context);
        }
        let mut fitted = context.clone();
        leave(&mut self.table_encryption, &mut fitted.table_encryption);
        leave(&mut self.require_primary_key, &mut fitted.require_primary_key);
        fitted.sql_mode = context.sql_mode.map(|mode| self.mode(mode, source));
        fitted.charset = context.charset.map(|charset| self.charset(charset, source));
        if source != self.target && self.collation(context.database_collation, source).is_none() {
            fitted.database_collation = 0;
        }
        match (source, self.target) {
            // What both call its default is not the same.
            (Flavour::MariaDb, Flavour::MySql) => {
                fitted.utf8mb4_collation = UTF8MB4_GENERAL_CI;
            }
            (_, Flavour::MariaDb) => {
                fitted.utf8mb4_collation = 0;
                fitted.require_primary_key = None;
                fitted.table_encryption = None;
                fitted.cascade_triggers = 0;
            }
            _ => {}
        }
        Cow::Owned(fitted)
    }

    fn mode(&self, mode: u64, source: Flavour) -> u64 {
        match (source, self.target) {
            (Flavour::MariaDb, Flavour::MariaDb) => mode,
            (Flavour::MySql, Flavour::MySql) => mode & !MODES_REMOVED,
            (Flavour::MySql, Flavour::MariaDb) => {
                let rounds = if mode & TIME_TRUNCATE_FRACTIONAL == 0 { TIME_ROUND_FRACTIONAL } else { 0 };
                mode & MODES_OF_BOTH | rounds
            }
            (Flavour::MariaDb, Flavour::MySql) => {
                let cuts = if mode & TIME_ROUND_FRACTIONAL == 0 { TIME_TRUNCATE_FRACTIONAL } else { 0 };
                mode & MODES_OF_BOTH & !MODES_REMOVED | cuts
            }
        }
    }

    /// Where the server lacks a collation, another one of the same character set stands in: its text is read alike.
    fn charset(&self, charset: [u16; 3], source: Flavour) -> [u16; 3] {
        let by_default =
            |id: u16| Collation::new(id, source).map_or(id, |collation| stand_in(collation.charset()));
        let [client, connection, server] =
            charset.map(|id| self.collation(id, source).unwrap_or(by_default(id)));
        match self.target {
            Flavour::MySql => [client, connection, server],
            // Of the numbers of a character set's collations, MariaDB takes one for it.
            Flavour::MariaDb => [by_default(charset[0]), connection, server],
        }
    }

    /// The number that the server has for this collation, if it has it.
    fn collation(&self, id: u16, source: Flavour) -> Option<u16> {
        if source == self.target {
            return Some(id);
        }
        let name = Collation::new(id, source)?.name();
        let same = Collation::new(id, self.target).filter(|own| own.name() == name)?;
        // MariaDB has neither the collations of MySQL 8.0 nor this character set.
        let is_of_mysql = same.name().contains("_0900_") || same.charset().name() == "gb18030";
        (self.target == Flavour::MySql || !is_of_mysql).then_some(same.id())
    }

    /// Refuses what would be made with other properties than on the source, without a word about them.
    pub(super) fn check(&self, statement: &Statement) -> Result<(), Failure> {
        let context = &statement.context;
        let source = if context.is_mariadb { Flavour::MariaDb } else { Flavour::MySql };
        let Some([_, _, server]) = context.charset else { return Ok(()) };
        if self.collation(server, source).is_some() || !makes_database(&statement.sql) {
            return Ok(());
        }
        let name = Collation::new(server, source).map_or_else(|| server.to_string(), |own| own.name().into());
        Err(Failure::refused(format!(
            "it makes a database whose collation is the source's collation_server, {name}, which the target does not \
             know"
        )))
    }
}

/// Leaves a variable as the session has it, if that is what is wanted; else it is never known again.
fn leave(has: &mut Option<u8>, wanted: &mut Option<u8>) {
    match wanted {
        Some(_) if has == wanted => *wanted = None,
        Some(_) => *has = None,
        None => {}
    }
}

/// A collation that both flavours have.
fn stand_in(charset: Charset) -> u16 {
    match charset {
        Charset::Utf8mb4 => UTF8MB4_GENERAL_CI,
        other => other.default_collation(),
    }
}

/// Does it make a database, and leave it to the server which collation it has?
fn makes_database(sql: &[u8]) -> bool {
    let text = String::from_utf8_lossy(sql).to_ascii_lowercase();
    let mut words = text.split_whitespace();
    let is_made = words.next() == Some("create") && matches!(words.next(), Some("database" | "schema"));
    is_made && !["character set", "charset", "collate"].iter().any(|said| text.contains(said))
}

#[cfg(test)]
mod tests {
    use binlog::Flavour;

    use super::{Fit, makes_database};
    use crate::context::Context;

    fn check(is_mariadb: bool, target: Flavour, mode: u64, charset: [u16; 3], wanted: (u64, [u16; 3])) {
        let context =
            Context { is_mariadb, sql_mode: Some(mode), charset: Some(charset), ..Context::default() };
        let mut fit = Fit { target, table_encryption: None, require_primary_key: None };
        let fitted = fit.fit(&context);
        assert_eq!((fitted.sql_mode, fitted.charset), (Some(wanted.0), Some(wanted.1)), "{context:?}");
    }

    #[test]
    fn each_server_has_its_own_terms() {
        let rounds = 1 << 34;
        check(false, Flavour::MariaDb, 4, [255, 255, 8], (4 | rounds, [45, 45, 8]));
        check(false, Flavour::MariaDb, 4 | 1 << 32, [33, 46, 63], (4, [33, 46, 63]));
        check(false, Flavour::MariaDb, 4 | 1 << 32, [46, 46, 46], (4, [45, 46, 46]));
        check(true, Flavour::MariaDb, 1 << 28 | rounds, [2304, 1069, 8], (1 << 28 | rounds, [45, 1069, 8]));
        check(true, Flavour::MySql, 4 | 1 << 28, [45, 1069, 8], (4 | 1 << 32, [45, 45, 8]));
        check(true, Flavour::MySql, rounds, [33, 33, 8], (0, [33, 33, 8]));
    }

    #[test]
    fn databases_that_are_made() {
        let check = |sql: &str, wanted| assert_eq!(makes_database(sql.as_bytes()), wanted, "{sql}");
        check("CREATE DATABASE d", true);
        check("create  schema if not exists d", true);
        check("CREATE DATABASE d CHARACTER SET latin1", false);
        check("CREATE DATABASE d COLLATE latin1_bin", false);
        check("CREATE TABLE d (a INT)", false);
    }
}
