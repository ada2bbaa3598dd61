//! Session variables that a statement or row changes depend on.

use std::fmt::Write as _;

use binlog::events::{OptionFlag, Query, StatusVar};
use binlog::{Collation, Flavour};
use sql::quote::quote_time_zone;
use sql::{first_word, temporary_table_change};

/// Session variables that a statement or row changes depend on, as the source logged them. A variable that was not
/// logged is `None`, or has the value that the server does not log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SessionVariables {
    /// `true` if MariaDB wrote the log: MariaDB has its own collation numbers and SQL modes.
    pub is_mariadb: bool,
    /// Bits: 0x4000 `sql_auto_is_null`, 0x4000000 foreign key checks off, 0x8000000 unique checks off. The bits of
    /// MariaDB's own variables are also in separate fields.
    pub flags2: Option<u32>,
    /// Bits of `sql_mode`.
    pub sql_mode: Option<u64>,
    /// `auto_increment_increment` and `auto_increment_offset`; `None` stands for 1 and 1.
    pub auto_increment: Option<(u16, u16)>,
    /// `character_set_client`, `collation_connection`, `collation_server`: collation numbers.
    pub charset: Option<[u16; 3]>,
    /// `time_zone`, if it was logged.
    pub time_zone: Option<Vec<u8>>,
    /// `lc_time_names`, by number.
    pub lc_time_names: u16,
    /// `collation_database`; 0 for the default database's collation. `None` only for a session whose default database
    /// has changed.
    pub database_collation: Option<u16>,
    /// `explicit_defaults_for_timestamp`.
    pub explicit_timestamp: Option<u8>,
    /// `default_collation_for_utf8mb4`; 0 if not logged.
    pub utf8mb4_collation: u16,
    /// `sql_require_primary_key`.
    pub require_primary_key: Option<u8>,
    /// `default_table_encryption`.
    pub table_encryption: Option<u8>,
    /// `enable_cascade_triggers`: servers since 9.7 log this variable if it is on.
    pub cascade_triggers: Option<u8>,
    /// `check_constraint_checks` of MariaDB.
    pub check_constraint_checks: Option<u8>,
    /// `sql_if_exists` of MariaDB.
    pub sql_if_exists: Option<u8>,
    /// `system_versioning_insert_history` of MariaDB.
    pub insert_history: Option<u8>,
    /// `character_set_collations` of MariaDB: the number of each character set's built-in default collation, and of the
    /// collation that replaces it. Empty if it was not logged; `None` for MySQL.
    pub charset_collations: Option<Vec<[u16; 2]>>,
}

/// Returns whether a statement of MariaDB needs the source's `explicit_defaults_for_timestamp`. MariaDB logs it with all
/// statements, but MySQL refuses to set it within a transaction, where temporary tables can be created.
fn depends_on_explicit_timestamp(sql: &[u8]) -> bool {
    matches!(first_word(sql).as_str(), "CREATE" | "ALTER") && temporary_table_change(sql).is_none()
}

/// Value that the server writes for a variable that it does not log.
const NOT_LOGGED: u8 = u8::MAX;

impl SessionVariables {
    /// Returns the variables that a query depends on. After an unknown variable the others are lost, as on a server.
    pub fn of_query(query: &Query<'_>, flavour: Flavour) -> Self {
        let is_mariadb = flavour == Flavour::MariaDb;
        let charset_collations = is_mariadb.then(Vec::new);
        let mut context =
            Self { is_mariadb, database_collation: Some(0), charset_collations, ..Self::default() };
        for variable in query.status.iter().map_while(Result::ok) {
            context.set(variable);
        }
        if is_mariadb && !depends_on_explicit_timestamp(query.sql) {
            context.explicit_timestamp = None;
        }
        context
    }

    /// Returns the flavour of the log.
    pub const fn flavour(&self) -> Flavour {
        if self.is_mariadb { Flavour::MariaDb } else { Flavour::MySql }
    }

    fn set(&mut self, variable: StatusVar<'_>) {
        match variable {
            StatusVar::Flags2(flags) => {
                self.flags2 = Some(flags);
                if self.is_mariadb {
                    self.set_mariadb_flags(flags);
                }
            }
            StatusVar::SqlMode(mode) => self.sql_mode = Some(mode),
            StatusVar::AutoIncrement { increment, offset } => self.auto_increment = Some((increment, offset)),
            StatusVar::Charset { client, connection, server } => {
                self.charset = Some([client, connection, server]);
            }
            StatusVar::TimeZone(name) if !name.is_empty() => self.time_zone = Some(name.to_vec()),
            StatusVar::LcTimeNames(number) => self.lc_time_names = number,
            StatusVar::CharsetDatabase(number) => self.database_collation = Some(number),
            StatusVar::ExplicitDefaultsForTimestamp(value) => self.explicit_timestamp = Some(value),
            StatusVar::DefaultCollationForUtf8mb4(number) => self.utf8mb4_collation = number,
            StatusVar::SqlRequirePrimaryKey(value) if value != NOT_LOGGED => {
                self.require_primary_key = Some(value)
            }
            StatusVar::DefaultTableEncryption(value) if value != NOT_LOGGED => {
                self.table_encryption = Some(value)
            }
            StatusVar::EnableCascadeTriggers(value) => self.cascade_triggers = Some(value),
            StatusVar::MariadbCollations(pairs) => {
                let (pairs, _) = pairs.as_chunks::<4>();
                let pair = |&[a, b, c, d]: &[u8; 4]| [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])];
                self.charset_collations = Some(pairs.iter().map(pair).collect());
            }
            _ => {}
        }
    }

    fn set_mariadb_flags(&mut self, flags: u32) {
        let value = |flag: OptionFlag| Some(u8::from(flag.is_on(flags)));
        self.check_constraint_checks = value(OptionFlag::CHECK_CONSTRAINT_CHECKS);
        self.sql_if_exists = value(OptionFlag::SQL_IF_EXISTS);
        self.explicit_timestamp = value(OptionFlag::EXPLICIT_DEFAULTS_FOR_TIMESTAMP);
        self.insert_history = value(OptionFlag::INSERT_HISTORY);
    }

    /// Appends the assignments that give a session the values of `self`, each followed by a comma, for one `SET`.
    /// `from` is the session's present state, if known.
    pub fn append_assignments(&self, from: Option<&Self>, out: &mut String) {
        self.append_flags(from, out);
        if self.sql_mode != from.and_then(|from| from.sql_mode)
            && let Some(mode) = self.sql_mode
        {
            append_assignment(out, "sql_mode", mode);
        }
        if from.is_none_or(|from| from.auto_increment != self.auto_increment) {
            let (increment, offset) = self.auto_increment.unwrap_or((1, 1));
            append_assignment(out, "auto_increment_increment", increment);
            append_assignment(out, "auto_increment_offset", offset);
        }
        if self.charset != from.and_then(|from| from.charset)
            && let Some([client, connection, server]) = self.charset
        {
            append_assignment(out, "character_set_client", Collation::client_setting(client));
            append_assignment(out, "collation_connection", connection);
            append_assignment(out, "collation_server", server);
        }
        self.append_locale(from, out);
        self.append_others(from, out);
    }

    fn append_flags(&self, from: Option<&Self>, out: &mut String) {
        let Some(flags) = self.flags2 else { return };
        let changed = from.and_then(|from| from.flags2).map_or(u32::MAX, |last| last ^ flags);
        // Replay itself decides when to commit.
        for flag in OptionFlag::ALL.iter().filter(|flag| flag.variable != "autocommit") {
            if changed & flag.bit != 0 {
                append_assignment(out, flag.variable, u8::from(flag.is_on(flags)));
            }
        }
    }

    fn append_locale(&self, from: Option<&Self>, out: &mut String) {
        if self.time_zone.as_ref() != from.and_then(|from| from.time_zone.as_ref())
            && let Some(zone) = &self.time_zone
        {
            append_assignment(out, "time_zone", time_zone_literal(zone));
        }
        if from.is_none_or(|from| from.lc_time_names != self.lc_time_names) {
            append_assignment(out, "lc_time_names", self.lc_time_names);
        }
        if from.and_then(|from| from.database_collation) != self.database_collation {
            match self.database_collation {
                Some(0) => append_assignment(out, "collation_database", "DEFAULT"),
                Some(number) => append_assignment(out, "collation_database", number),
                None => {}
            }
        }
    }

    fn append_others(&self, from: Option<&Self>, out: &mut String) {
        if self.utf8mb4_collation != 0
            && from.is_none_or(|from| from.utf8mb4_collation != self.utf8mb4_collation)
        {
            append_assignment(out, "default_collation_for_utf8mb4", self.utf8mb4_collation);
        }
        let mut put_some = |name, get: fn(&Self) -> Option<u8>| match (get(self), from.and_then(get)) {
            (Some(value), last) if last != Some(value) => append_assignment(out, name, value),
            _ => {}
        };
        put_some("explicit_defaults_for_timestamp", |context| context.explicit_timestamp);
        put_some("sql_require_primary_key", |context| context.require_primary_key);
        put_some("default_table_encryption", |context| context.table_encryption);
        put_some("enable_cascade_triggers", |context| context.cascade_triggers);
        put_some("check_constraint_checks", |context| context.check_constraint_checks);
        put_some("sql_if_exists", |context| context.sql_if_exists);
        put_some("system_versioning_insert_history", |context| context.insert_history);
        if from.is_none_or(|from| from.charset_collations != self.charset_collations)
            && let Some(collations) = self.charset_collations_text()
        {
            append_assignment(out, "character_set_collations", format_args!("'{collations}'"));
        }
    }

    /// Returns the value of `character_set_collations` as text, such as `utf8mb4=utf8mb4_bin`. Leaves out unknown numbers.
    fn charset_collations_text(&self) -> Option<String> {
        let pair = |&[of, to]: &[u16; 2]| {
            let collation = |id| Collation::new(id, Flavour::MariaDb);
            Some(format!("{}={}", collation(of)?.charset().name(), collation(to)?.name()))
        };
        let pairs = self.charset_collations.as_ref()?;
        Some(pairs.iter().filter_map(pair).collect::<Vec<_>>().join(","))
    }

    /// Returns the context of a text in UTF-8.
    #[must_use]
    pub fn with_utf8_text(&self) -> Self {
        const UTF8MB4_GENERAL_CI: u16 = 45;
        let charset = self.charset.map(|[_, connection, server]| [UTF8MB4_GENERAL_CI, connection, server]);
        Self { charset, ..self.clone() }
    }

    /// Returns the variables that row changes depend on: without AUTO_INCREMENT, as all values are in the log.
    #[must_use]
    pub fn for_rows(&self) -> Self {
        Self { auto_increment: None, ..self.clone() }
    }

    /// Returns the state of a session after the assignments of `self` to the state `from`: variables missing in `self`
    /// keep their values.
    #[must_use]
    pub fn merged_over(&self, from: Option<&Self>) -> Self {
        let mut now = self.clone();
        let Some(from) = from else { return now };
        now.flags2 = now.flags2.or(from.flags2);
        now.sql_mode = now.sql_mode.or(from.sql_mode);
        now.charset = now.charset.or(from.charset);
        now.time_zone = now.time_zone.or_else(|| from.time_zone.clone());
        now.database_collation = now.database_collation.or(from.database_collation);
        now.explicit_timestamp = now.explicit_timestamp.or(from.explicit_timestamp);
        now.require_primary_key = now.require_primary_key.or(from.require_primary_key);
        now.table_encryption = now.table_encryption.or(from.table_encryption);
        now.cascade_triggers = now.cascade_triggers.or(from.cascade_triggers);
        now.check_constraint_checks = now.check_constraint_checks.or(from.check_constraint_checks);
        now.sql_if_exists = now.sql_if_exists.or(from.sql_if_exists);
        now.insert_history = now.insert_history.or(from.insert_history);
        now.charset_collations = now.charset_collations.or_else(|| from.charset_collations.clone());
        if now.utf8mb4_collation == 0 {
            now.utf8mb4_collation = from.utf8mb4_collation;
        }
        now
    }
}

fn append_assignment(out: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(out, "@@session.{name}={value},");
}

/// Returns the name of a time zone as a string literal. The server refuses an unknown name.
fn time_zone_literal(name: &[u8]) -> String {
    let harmless = || format!("'{}'", String::from_utf8_lossy(name).replace(['\'', '\\'], "?"));
    quote_time_zone(name).unwrap_or_else(harmless)
}

#[cfg(test)]
mod tests {
    use binlog::Flavour;
    use binlog::events::{Query, StatusVars};

    use super::SessionVariables;

    fn context(status: &[u8]) -> SessionVariables {
        context_of(status, Flavour::MySql)
    }

    fn context_of(status: &[u8], flavour: Flavour) -> SessionVariables {
        context_of_statement(b"create table t (a timestamp)", status, flavour)
    }

    fn context_of_statement(sql: &[u8], status: &[u8], flavour: Flavour) -> SessionVariables {
        let status = StatusVars { bytes: status };
        let query = Query { thread_id: 1, exec_time: 0, error_code: 0, status, database: b"", sql };
        SessionVariables::of_query(&query, flavour)
    }

    fn changes(from: Option<&SessionVariables>, to: &SessionVariables) -> String {
        let mut out = String::new();
        to.append_assignments(from, &mut out);
        out
    }

    #[test]
    fn only_changed_variables_are_set() {
        let plain = context(&[0, 0, 0, 0, 0, 1, 0, 0, 0x20, 0x50, 0, 0, 0, 0, 4, 255, 0, 255, 0, 255, 0]);
        let first = changes(None, &plain);
        assert!(first.starts_with("@@session.foreign_key_checks=1,@@session.sql_auto_is_null=0,"), "{first}");
        assert!(first.contains("@@session.sql_mode=1344274432,"), "{first}");
        assert!(first.contains("@@session.character_set_client=255,"), "{first}");
        assert!(
            first.ends_with("@@session.lc_time_names=0,@@session.collation_database=DEFAULT,"),
            "{first}"
        );
        assert_eq!(changes(Some(&plain), &plain), "");
        let other = context(&[0, 0, 0, 0, 4, 3, 2, 0, 1, 0, 5, 3, b'U', b'T', b'C']);
        let set = "@@session.foreign_key_checks=0,@@session.auto_increment_increment=2,\
                   @@session.auto_increment_offset=1,@@session.time_zone='UTC',";
        assert_eq!(changes(Some(&plain), &other), set);
        let odd = SessionVariables { time_zone: Some(br"x', @a='\".to_vec()), ..plain.clone() };
        assert_eq!(changes(Some(&plain), &odd), "@@session.time_zone='x?, @a=??',");
        // Variables missing in a context keep their values in the session.
        let now = other.merged_over(Some(&plain));
        assert_eq!((now.sql_mode, now.charset), (plain.sql_mode, plain.charset));
        let back = "@@session.foreign_key_checks=1,@@session.auto_increment_increment=1,\
                    @@session.auto_increment_offset=1,";
        assert_eq!(changes(Some(&now), &plain.merged_over(Some(&now))), back);
    }

    #[test]
    fn mariadb_logs_more_variables_in_flags() {
        const EXPLICIT: [u8; 5] = [0, 0, 0, 0, 1];
        let mysql = context(&EXPLICIT);
        assert_eq!((mysql.explicit_timestamp, mysql.check_constraint_checks), (None, None));
        let plain = context_of(&EXPLICIT, Flavour::MariaDb);
        let all = changes(None, &plain);
        let own = "@@session.explicit_defaults_for_timestamp=1,@@session.check_constraint_checks=1,\
                   @@session.sql_if_exists=0,@@session.system_versioning_insert_history=0,";
        assert!(all.ends_with(&format!("{own}@@session.character_set_collations='',")), "{all}");
        let other = context_of(&[0, 0, 0x80, 0, 0x50], Flavour::MariaDb);
        let set = "@@session.explicit_defaults_for_timestamp=0,@@session.check_constraint_checks=0,\
                   @@session.sql_if_exists=1,@@session.system_versioning_insert_history=1,";
        assert_eq!(changes(Some(&plain), &other), set);
        assert_eq!(changes(Some(&other), &plain), own);
        let collated = context_of(&[0, 0, 0, 0, 0, 131, 1, 45, 0, 46, 0], Flavour::MariaDb);
        let set = "@@session.character_set_collations='utf8mb4=utf8mb4_bin',";
        assert!(changes(Some(&plain), &collated).ends_with(set));
        let of_insert = context_of_statement(b"insert into t values (1)", &EXPLICIT, Flavour::MariaDb);
        assert_eq!((of_insert.explicit_timestamp, of_insert.check_constraint_checks), (None, Some(1)));
        let temporary = b"create or replace temporary table t (a timestamp)";
        assert_eq!(context_of_statement(temporary, &EXPLICIT, Flavour::MariaDb).explicit_timestamp, None);
    }
}
