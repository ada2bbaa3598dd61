//! Translation of session contexts of the log for one server. MySQL and MariaDB number collations and SQL modes
//! differently, and each has variables that the other lacks.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use binlog::{Charset, Collation, Flavour};
use replay::{SessionVariables, SourceStatement, TargetFailure};
use servers::{ResultRow, ServerFacts, SqlConnection};
use sql::ddl::DdlStatement;
use sql::lexer::{SqlLexer, SqlToken, SqlTokenKind};
use sql::{SqlWords, TokenCursor, first_word};

/// Translates contexts for one server.
#[derive(Clone, Debug)]
pub(crate) struct ContextAdapter {
    target: Flavour,
    /// Numbers of the collations that the server has.
    collations: Arc<BTreeSet<u16>>,
    /// Variables that only some servers have and only some accounts may set, in the order of [`RESTRICTED`].
    restricted: [RestrictedVariable; RESTRICTED.len()],
    explicit_timestamp: RestrictedVariable,
    insert_history: VariablePresence,
    charset_collations: VariablePresence,
    utf8mb4_collation: VariablePresence,
    /// `TIME_TRUNCATE_FRACTIONAL` in MySQL's `sql_mode`.
    truncation: VariablePresence,
    /// Databases created with another collation than on the source.
    substituted: Arc<Mutex<BTreeSet<String>>>,
    /// Set once a statement may have rounded times that the source truncates.
    may_round_times: Arc<AtomicBool>,
    /// As [`TargetCollations::has_running_events`].
    has_running_events: Option<Arc<AtomicBool>>,
}

/// Presence of a variable on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VariablePresence {
    Present,
    Absent,
}

/// A variable that some accounts may not set, not even to its present value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestrictedVariable {
    /// The server lacks the variable.
    Absent,
    /// The account may set the variable.
    Settable,
    /// The account may not set the variable. The session has this value from its start.
    Fixed(u8),
}

/// A session variable in logs that old servers lack.
struct VersionedVariable {
    name: &'static str,
    /// `None` for a variable that only MariaDB has.
    mysql_since: Option<[u32; 3]>,
    /// The first release of each series that has the variable; later series have it, too. Empty for a variable that only
    /// MySQL has.
    mariadb_since: &'static [[u32; 3]],
}

/// Versions as in mysqlbinlog's version comments. MySQL 5.6 has no session variable `explicit_defaults_for_timestamp`.
/// MariaDB got it in the releases of August 2022.
const EXPLICIT_TIMESTAMP: VersionedVariable = VersionedVariable {
    name: "explicit_defaults_for_timestamp",
    mysql_since: Some([5, 7, 0]),
    mariadb_since: &[[10, 5, 17], [10, 6, 9], [10, 7, 5], [10, 8, 4], [10, 9, 2]],
};
const INSERT_HISTORY: VersionedVariable = VersionedVariable {
    name: "system_versioning_insert_history",
    mysql_since: None,
    mariadb_since: &[[10, 11, 0]],
};
const CHARSET_COLLATIONS: VersionedVariable =
    VersionedVariable { name: "character_set_collations", mysql_since: None, mariadb_since: &[[11, 2, 1]] };
const UTF8MB4_COLLATION: VersionedVariable = VersionedVariable {
    name: "default_collation_for_utf8mb4",
    mysql_since: Some([8, 0, 11]),
    mariadb_since: &[],
};
const TRUNCATION: VersionedVariable =
    VersionedVariable { name: "sql_mode", mysql_since: Some([8, 0, 1]), mariadb_since: &[] };
const RESTRICTED: [VersionedVariable; 3] = [
    VersionedVariable { name: "sql_require_primary_key", mysql_since: Some([8, 0, 13]), mariadb_since: &[] },
    VersionedVariable { name: "default_table_encryption", mysql_since: Some([8, 0, 16]), mariadb_since: &[] },
    VersionedVariable { name: "enable_cascade_triggers", mysql_since: Some([9, 7, 0]), mariadb_since: &[] },
];

impl VersionedVariable {
    fn presence(&self, facts: &ServerFacts) -> VariablePresence {
        let since = if facts.is_mariadb { self.mariadb_since } else { self.mysql_since.as_slice() };
        self::presence(since, facts.parsed_version().numbers())
    }
}

/// Returns whether a version has what the first of these releases of each series has. An unknown version is a new one.
fn presence(since: &[[u32; 3]], version: Option<[u32; 3]>) -> VariablePresence {
    let Some(last) = since.last() else { return VariablePresence::Absent };
    let is_there = version.is_none_or(|version| {
        let of_series = since.iter().find(|since| since[..2] == version[..2]);
        version >= *of_series.unwrap_or(last)
    });
    if is_there { VariablePresence::Present } else { VariablePresence::Absent }
}

/// The default collation of `utf8mb4` in MariaDB, and in MySQL before 8.0.
const UTF8MB4_GENERAL_CI: u16 = 45;

/// SQL modes that MySQL 8.0.5 removed.
const MODES_REMOVED: u64 = 0x1003_ff00;
/// SQL modes that both flavours have.
const MODES_COMMON: u64 = 0xffff_ffff;
/// MySQL mode: excess digits of fractional seconds are truncated. MariaDB's default.
const TIME_TRUNCATE_FRACTIONAL: u64 = 1 << 32;
/// MariaDB mode: excess digits of fractional seconds are rounded. MySQL's default.
const TIME_ROUND_FRACTIONAL: u64 = 1 << 34;

/// Collation state shared by all sessions on a target.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetCollations {
    collations: Arc<BTreeSet<u16>>,
    substituted: Arc<Mutex<BTreeSet<String>>>,
    rounds: Arc<AtomicBool>,
    /// Set to true once the logs define an event; `None` if the target runs no events.
    has_running_events: Option<Arc<AtomicBool>>,
}

impl TargetCollations {
    /// Reads the collations of a server.
    pub(crate) fn ask(
        connection: &mut SqlConnection,
        facts: &ServerFacts,
    ) -> Result<Self, servers::ConnectionError> {
        let mut rows = connection.rows("SELECT id FROM information_schema.collations")?;
        if facts.is_mariadb {
            // MariaDB since 10.10 has collations for several character sets, whose numbers are here.
            let more = "SELECT id FROM information_schema.collation_character_set_applicability";
            match connection.rows(more) {
                Ok(more) => rows.extend(more),
                Err(servers::ConnectionError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let number = |row: &ResultRow| str::from_utf8(row.first()?.as_deref()?).ok()?.parse().ok();
        let collations = Arc::new(rows.iter().filter_map(number).collect());
        let runs_events =
            connection.value("SELECT @@global.event_scheduler")?.is_some_and(|value| value == "ON");
        Ok(Self { collations, has_running_events: runs_events.then(Arc::default), ..Self::default() })
    }

    /// Describes differences from the source, one line each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let substituted = self.substituted.lock().unwrap_or_else(PoisonError::into_inner);
        if !substituted.is_empty() {
            let databases: Vec<&str> = substituted.iter().map(String::as_str).collect();
            remarks.push(format!(
                "databases were created with another default collation, because the target lacks the source's: {}",
                databases.join(", ")
            ));
        }
        if self.rounds.load(Ordering::Relaxed) {
            remarks.push(
                "statements may have rounded fractional seconds: the source truncates them, and the target has no SQL \
                 mode TIME_TRUNCATE_FRACTIONAL"
                    .to_owned(),
            );
        }
        if self.has_running_events.as_ref().is_some_and(|events| events.load(Ordering::Relaxed)) {
            remarks.push(
                "the target runs the events that the logs define, and they may have changed its data: set \
                 event_scheduler=OFF on the target before a replay"
                    .to_owned(),
            );
        }
        remarks
    }
}

impl ContextAdapter {
    /// Creates the translation for a session on a server.
    pub(crate) fn new(
        connection: &mut SqlConnection,
        facts: &ServerFacts,
        shared: &TargetCollations,
    ) -> Result<Self, servers::ConnectionError> {
        let mut restricted = [RestrictedVariable::Absent; RESTRICTED.len()];
        for (variable, slot) in RESTRICTED.iter().zip(&mut restricted) {
            *slot = RestrictedVariable::of(variable, connection, facts)?;
        }
        Ok(Self {
            target: if facts.is_mariadb { Flavour::MariaDb } else { Flavour::MySql },
            collations: Arc::clone(&shared.collations),
            restricted,
            explicit_timestamp: RestrictedVariable::of(&EXPLICIT_TIMESTAMP, connection, facts)?,
            insert_history: INSERT_HISTORY.presence(facts),
            charset_collations: CHARSET_COLLATIONS.presence(facts),
            utf8mb4_collation: UTF8MB4_COLLATION.presence(facts),
            truncation: TRUNCATION.presence(facts),
            substituted: Arc::clone(&shared.substituted),
            may_round_times: Arc::clone(&shared.rounds),
            has_running_events: shared.has_running_events.clone(),
        })
    }

    /// Returns the server's flavour.
    pub(crate) const fn target(&self) -> Flavour {
        self.target
    }

    /// Translates a context for the server. Omits variables that the server lacks, as mysqlbinlog does with version
    /// comments.
    pub(crate) fn fit(&self, context: &SessionVariables) -> SessionVariables {
        let source = context.flavour();
        let mut fitted = context.clone();
        // A source without the variable does not log it, and behaves as if it were off.
        let cascade_triggers = Some(context.cascade_triggers.unwrap_or(0));
        let requested = [context.require_primary_key, context.table_encryption, cascade_triggers];
        let mut restricted = requested.into_iter().zip(&self.restricted).map(|(value, has)| has.fit(value));
        fitted.require_primary_key = restricted.next().flatten();
        fitted.table_encryption = restricted.next().flatten();
        fitted.cascade_triggers = restricted.next().flatten();
        fitted.explicit_timestamp = self.explicit_timestamp.fit(context.explicit_timestamp);
        if self.target == Flavour::MySql {
            fitted.check_constraint_checks = None;
            fitted.sql_if_exists = None;
        }
        if self.insert_history == VariablePresence::Absent {
            fitted.insert_history = None;
        }
        if self.charset_collations == VariablePresence::Absent {
            fitted.charset_collations = None;
        }
        if let Some(pairs) = &mut fitted.charset_collations {
            pairs.retain(|[_, replacement]| self.collations.contains(replacement));
        }
        fitted.sql_mode = context.sql_mode.map(|mode| self.adapt_mode(mode, source));
        fitted.charset = context.charset.map(|charset| self.adapt_charset(charset, source));
        fitted.database_collation = context.database_collation.map(|id| match id {
            0 => 0,
            id => self.target_collation_id(id, source).unwrap_or_else(|| self.fallback_collation(id, source)),
        });
        fitted.utf8mb4_collation = match (source, self.utf8mb4_collation) {
            (_, VariablePresence::Absent) => 0,
            // The flavours differ in the default collation of utf8mb4.
            (Flavour::MariaDb, VariablePresence::Present) => UTF8MB4_GENERAL_CI,
            (Flavour::MySql, VariablePresence::Present) => context.utf8mb4_collation,
        };
        fitted
    }

    fn adapt_mode(&self, mode: u64, source: Flavour) -> u64 {
        match (self.target, self.truncation) {
            (Flavour::MySql, VariablePresence::Absent) => {
                self.translate_mode(mode, source) & !TIME_TRUNCATE_FRACTIONAL
            }
            _ => self.translate_mode(mode, source),
        }
    }

    /// Translates the mode for the newest server of the target's flavour.
    fn translate_mode(&self, mode: u64, source: Flavour) -> u64 {
        match (source, self.target) {
            (Flavour::MariaDb, Flavour::MariaDb) => mode,
            (Flavour::MySql, Flavour::MySql) => match self.truncation {
                VariablePresence::Present => mode & !MODES_REMOVED,
                // The target is older than the removal of these modes.
                VariablePresence::Absent => mode,
            },
            (Flavour::MySql, Flavour::MariaDb) => {
                let rounds = if mode & TIME_TRUNCATE_FRACTIONAL == 0 { TIME_ROUND_FRACTIONAL } else { 0 };
                mode & MODES_COMMON | rounds
            }
            (Flavour::MariaDb, Flavour::MySql) => {
                let cuts = if mode & TIME_ROUND_FRACTIONAL == 0 { TIME_TRUNCATE_FRACTIONAL } else { 0 };
                mode & MODES_COMMON & !MODES_REMOVED | cuts
            }
        }
    }

    /// Translates the collations of a context. Replaces a collation that the server lacks by another one of the same
    /// character set, so that text is decoded in the same way.
    fn adapt_charset(&self, charset: [u16; 3], source: Flavour) -> [u16; 3] {
        let [client, connection, server] = charset.map(|id| {
            self.target_collation_id(id, source).unwrap_or_else(|| self.fallback_collation(id, source))
        });
        match self.target {
            Flavour::MySql => [client, connection, server],
            // MariaDB accepts only one collation number as a client character set.
            Flavour::MariaDb => [self.fallback_collation(charset[0], source), connection, server],
        }
    }

    /// Returns a collation of the server for the same character set.
    fn fallback_collation(&self, id: u16, source: Flavour) -> u16 {
        Collation::new(id, source).map_or(id, |collation| fallback_collation_id(collation.charset()))
    }

    /// Returns the server's collation for a number in the log: the same one, or its replacement.
    pub(crate) fn target_collation(&self, id: u16, source: Flavour) -> Option<Collation> {
        let own = self.target_collation_id(id, source).unwrap_or_else(|| self.fallback_collation(id, source));
        Collation::new(own, self.target)
    }

    /// Returns the server's number for a collation in the log, if the server has it.
    fn target_collation_id(&self, id: u16, source: Flavour) -> Option<u16> {
        if source != self.target {
            let name = Collation::new(id, source)?.name();
            Collation::new(id, self.target).filter(|own| own.name() == name)?;
        }
        self.collations.contains(&id).then_some(id)
    }

    /// Checks a `CREATE DATABASE` whose collation the target lacks. From MySQL to MySQL, the database gets another
    /// collation, and the report names it. Otherwise the statement is refused. Also records statements that may round
    /// times.
    pub(crate) fn check_statement(&self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        let context = &statement.context;
        let source = context.flavour();
        let is_lost = |mode| self.translate_mode(mode, source) & TIME_TRUNCATE_FRACTIONAL != 0;
        let lacks_mode = self.target == Flavour::MySql && self.truncation == VariablePresence::Absent;
        if let Some(mode) = context.sql_mode.filter(|mode| lacks_mode && is_lost(*mode))
            && !self.may_round_times.load(Ordering::Relaxed)
            && stores_values(&statement.sql, mode)
        {
            self.may_round_times.store(true, Ordering::Relaxed);
        }
        if let Some(events) = self.has_running_events.as_ref().filter(|_| defines_event(&statement.sql)) {
            events.store(true, Ordering::Relaxed);
        }
        let Some([_, _, server]) = context.charset else { return Ok(()) };
        if self.target_collation_id(server, source).is_some()
            || !takes_server_collation(&statement.sql, context.sql_mode.unwrap_or(0))
        {
            return Ok(());
        }
        let name = |id: u16, flavour| {
            Collation::new(id, flavour).map_or_else(|| id.to_string(), |own| own.name().into())
        };
        let collation: String = name(server, source);
        if source == Flavour::MySql && self.target == Flavour::MySql {
            let fallback = name(self.fallback_collation(server, source), self.target);
            let database = String::from_utf8_lossy(&statement.default_database).into_owned();
            let mut substituted = self.substituted.lock().unwrap_or_else(PoisonError::into_inner);
            substituted.insert(format!("`{database}` with {fallback} instead of {collation}"));
            return Ok(());
        }
        Err(TargetFailure::refused(format!(
            "CREATE DATABASE uses the source's collation_server, {collation}, which the target does not have. Create \
             the database on the target, and exclude this transaction"
        )))
    }
}

impl RestrictedVariable {
    fn of(
        variable: &VersionedVariable,
        connection: &mut SqlConnection,
        facts: &ServerFacts,
    ) -> Result<Self, servers::ConnectionError> {
        match variable.presence(facts) {
            VariablePresence::Present => Self::ask(connection, variable.name),
            VariablePresence::Absent => Ok(Self::Absent),
        }
    }

    /// Finds out whether the account may set the variable, by setting it to its present value.
    fn ask(connection: &mut SqlConnection, name: &str) -> Result<Self, servers::ConnectionError> {
        match connection.run(&format!("SET @@session.{name}=@@session.{name}")) {
            Ok(()) => return Ok(Self::Settable),
            Err(servers::ConnectionError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        let value = connection.value(&format!("SELECT @@session.{name}"))?;
        Ok(value.and_then(|value| value.parse().ok()).map_or(Self::Settable, Self::Fixed))
    }

    /// Returns the value to set, if any. Includes a value that differs from a fixed one, so that the server
    /// refuses it.
    fn fit(self, requested: Option<u8>) -> Option<u8> {
        requested.filter(|requested| match self {
            Self::Absent => false,
            Self::Settable => true,
            Self::Fixed(value) => value != *requested,
        })
    }
}

/// Returns a collation of the character set that both flavours have.
fn fallback_collation_id(charset: Charset) -> u16 {
    match charset {
        Charset::Utf8mb4 => UTF8MB4_GENERAL_CI,
        other => other.default_collation(),
    }
}

/// Returns true if a statement may store computed values, according to its words. Servers log a `SELECT` only because
/// of functions that it calls.
fn stores_values(sql: &[u8], sql_mode: u64) -> bool {
    const VERBS: [&str; 6] = ["INSERT", "REPLACE", "UPDATE", "LOAD", "SELECT", "DO"];
    // Lex word by word: a statement can be large, and its first words usually decide.
    let lexer = SqlLexer::new(sql, sql_mode);
    let mut tokens = lexer.clone().filter(|token| !token.is_blank());
    let is_any = |token: &SqlToken, words: &[&str]| {
        let bytes = lexer.bytes(token);
        token.kind == SqlTokenKind::Word
            && words.iter().any(|word| bytes.eq_ignore_ascii_case(word.as_bytes()))
    };
    let Some(first) = tokens.next() else { return false };
    let within = if is_any(&first, &VERBS) {
        return true;
    } else if is_any(&first, &["WITH"]) {
        "UPDATE"
    } else if is_any(&first, &["CREATE"]) {
        "SELECT"
    } else {
        return first.kind == SqlTokenKind::Malformed;
    };
    let mut rest = tokens.peekable();
    if within == "SELECT" && rest.peek().is_some_and(|next| is_any(next, &["FUNCTION", "PROCEDURE"])) {
        return false;
    }
    rest.any(|token| token.kind == SqlTokenKind::Malformed || is_any(&token, &[within]))
}

/// Returns true if a statement creates or alters an event of the event scheduler.
fn defines_event(sql: &[u8]) -> bool {
    /// Tokens before `EVENT`: those of `OR REPLACE` and `DEFINER` at most.
    const TOKENS_MAX: usize = 12;
    let mut words = TokenCursor::new(sql, 0);
    if !words.take_word("CREATE") && !words.take_word("ALTER") {
        return false;
    }
    for _ in 0..TOKENS_MAX {
        if words.is_any_word(&["EVENT", "TABLE", "VIEW", "PROCEDURE", "FUNCTION", "TRIGGER"]) {
            return words.is_word("EVENT");
        }
        if words.take_next().is_none() {
            return false;
        }
    }
    false
}

/// Returns true if a statement creates a database with the server's default collation.
fn takes_server_collation(sql: &[u8], sql_mode: u64) -> bool {
    // Skip other statements, which can be large.
    if first_word(sql) != "CREATE" {
        return false;
    }
    let words = SqlWords::parse(&String::from_utf8_lossy(sql), sql_mode);
    let statement = words.map(|words| DdlStatement::parse(&words));
    matches!(statement, Some(DdlStatement::CreateDatabase { charset: None, .. }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binlog::Flavour;
    use replay::SessionVariables;

    use super::{
        ContextAdapter, EXPLICIT_TIMESTAMP, RestrictedVariable, VariablePresence, defines_event, presence,
        stores_values, takes_server_collation,
    };

    /// A target with all variables, with MySQL's collations up to this number, and with those of MariaDB.
    fn fit(target: Flavour, collation_max: u16) -> ContextAdapter {
        let of_mariadb = (1025..=3271).filter(|_| target == Flavour::MariaDb);
        ContextAdapter {
            target,
            collations: Arc::new((1..=collation_max).chain(of_mariadb).collect()),
            restricted: [RestrictedVariable::Settable; 3],
            explicit_timestamp: RestrictedVariable::Settable,
            insert_history: VariablePresence::Present,
            charset_collations: VariablePresence::Present,
            utf8mb4_collation: VariablePresence::Present,
            truncation: VariablePresence::Present,
            substituted: Arc::default(),
            may_round_times: Arc::default(),
            has_running_events: None,
        }
    }

    fn check(is_mariadb: bool, target: Flavour, mode: u64, charset: [u16; 3], expected: (u64, [u16; 3])) {
        let context = SessionVariables {
            is_mariadb,
            sql_mode: Some(mode),
            charset: Some(charset),
            ..SessionVariables::default()
        };
        // MariaDB before 11.4.5 lacks the collations of MySQL 8.0.
        let collation_max = if target == Flavour::MariaDb { 247 } else { 400 };
        let fitted = fit(target, collation_max).fit(&context);
        assert_eq!((fitted.sql_mode, fitted.charset), (Some(expected.0), Some(expected.1)), "{context:?}");
    }

    #[test]
    fn collations_missing_on_an_old_server_are_replaced() {
        let context = SessionVariables {
            charset: Some([255, 8, 278]),
            database_collation: Some(255),
            ..SessionVariables::default()
        };
        let fitted = fit(Flavour::MySql, 250).fit(&context);
        assert_eq!((fitted.charset, fitted.database_collation), (Some([45, 8, 45]), Some(45)));
        let fitted = fit(Flavour::MySql, 400).fit(&context);
        assert_eq!((fitted.charset, fitted.database_collation), (Some([255, 8, 278]), Some(255)));
    }

    #[test]
    fn variables_that_a_server_lacks_are_left_out() {
        let context = SessionVariables {
            explicit_timestamp: Some(1),
            utf8mb4_collation: 255,
            require_primary_key: Some(1),
            table_encryption: Some(0),
            cascade_triggers: Some(1),
            ..SessionVariables::default()
        };
        let old = ContextAdapter {
            restricted: [
                RestrictedVariable::Settable,
                RestrictedVariable::Absent,
                RestrictedVariable::Absent,
            ],
            explicit_timestamp: RestrictedVariable::Absent,
            utf8mb4_collation: VariablePresence::Absent,
            ..fit(Flavour::MySql, 250)
        };
        let expected = SessionVariables { require_primary_key: Some(1), ..SessionVariables::default() };
        assert_eq!(old.fit(&context), expected);
        let restricted = |variable| {
            let adapter = ContextAdapter { restricted: [variable; 3], ..fit(Flavour::MySql, 400) };
            let of = |context: &SessionVariables| {
                let fitted = adapter.fit(context);
                (fitted.table_encryption, fitted.cascade_triggers)
            };
            [of(&context), of(&SessionVariables::default())]
        };
        let settable = restricted(RestrictedVariable::Settable);
        assert_eq!(settable, [(Some(0), Some(1)), (None, Some(0))]);
        assert_eq!(restricted(RestrictedVariable::Fixed(0)), [(None, Some(1)), (None, None)]);
    }

    #[test]
    fn variables_of_mariadb_are_set_where_they_exist() {
        let context = SessionVariables {
            is_mariadb: true,
            explicit_timestamp: Some(0),
            check_constraint_checks: Some(0),
            sql_if_exists: Some(1),
            insert_history: Some(1),
            ..SessionVariables::default()
        };
        let fitted = |adapter: ContextAdapter| {
            let fitted = adapter.fit(&context);
            let of_mariadb = (fitted.check_constraint_checks, fitted.sql_if_exists, fitted.insert_history);
            (fitted.explicit_timestamp, of_mariadb)
        };
        let newest = fit(Flavour::MariaDb, 309);
        assert_eq!(fitted(newest.clone()), (Some(0), (Some(0), Some(1), Some(1))));
        let old = ContextAdapter { insert_history: VariablePresence::Absent, ..newest };
        assert_eq!(fitted(old), (Some(0), (Some(0), Some(1), None)));
        let mysql = ContextAdapter { insert_history: VariablePresence::Absent, ..fit(Flavour::MySql, 400) };
        assert_eq!(fitted(mysql.clone()), (Some(0), (None, None, None)));
        let fixed = ContextAdapter { explicit_timestamp: RestrictedVariable::Fixed(0), ..mysql };
        assert_eq!(fitted(fixed), (None, (None, None, None)));
    }

    #[test]
    fn variables_exist_since_a_release_of_each_series() {
        let since = EXPLICIT_TIMESTAMP.mariadb_since;
        let check = |version, expected| assert_eq!(presence(since, version), expected, "{version:?}");
        for version in [[10, 4, 99], [10, 5, 16], [10, 6, 8], [10, 9, 1]] {
            check(Some(version), VariablePresence::Absent);
        }
        for version in [[10, 5, 17], [10, 8, 4], [10, 9, 2], [10, 10, 0], [11, 0, 0]] {
            check(Some(version), VariablePresence::Present);
        }
        check(None, VariablePresence::Present);
        assert_eq!(presence(&[], Some([9, 7, 0])), VariablePresence::Absent);
    }

    #[test]
    fn contexts_are_translated_between_flavours() {
        let rounds = 1 << 34;
        check(false, Flavour::MariaDb, 4, [255, 255, 8], (4 | rounds, [45, 45, 8]));
        check(false, Flavour::MariaDb, 4 | 1 << 32, [33, 46, 63], (4, [33, 46, 63]));
        check(false, Flavour::MariaDb, 4 | 1 << 32, [46, 46, 46], (4, [45, 46, 46]));
        check(true, Flavour::MariaDb, 1 << 28 | rounds, [2304, 1069, 8], (1 << 28 | rounds, [45, 1069, 8]));
        check(true, Flavour::MySql, 4 | 1 << 28, [45, 1069, 8], (4 | 1 << 32, [45, 45, 8]));
        check(true, Flavour::MySql, rounds, [33, 33, 8], (0, [33, 33, 8]));
    }

    #[test]
    fn new_servers_of_mariadb_have_collations_of_mysql() {
        let context = SessionVariables {
            charset: Some([255, 255, 255]),
            database_collation: Some(278),
            ..SessionVariables::default()
        };
        let fitted = fit(Flavour::MariaDb, 309).fit(&context);
        assert_eq!((fitted.charset, fitted.database_collation), (Some([45, 255, 255]), Some(278)));
    }

    #[test]
    fn modes_that_an_old_server_has_or_lacks() {
        let mode = |is_mariadb, mode| {
            let old = ContextAdapter { truncation: VariablePresence::Absent, ..fit(Flavour::MySql, 250) };
            old.fit(&SessionVariables { is_mariadb, sql_mode: Some(mode), ..SessionVariables::default() })
                .sql_mode
        };
        assert_eq!(mode(false, 1 << 32 | 1 << 28 | 4), Some(1 << 28 | 4));
        assert_eq!(mode(true, 4), Some(4));
        assert_eq!(fit(Flavour::MySql, 400).adapt_mode(1 << 32 | 1 << 28 | 4, Flavour::MySql), 1 << 32 | 4);
    }

    #[test]
    fn statements_that_store_values() {
        let check = |sql: &str, expected| assert_eq!(stores_values(sql.as_bytes(), 0), expected, "{sql}");
        check("insert into t values ('00:00:00.6')", true);
        check(" /* c */ INSERT INTO t VALUES (1)", true);
        check("-- c\nREPLACE t VALUES (1)", true);
        check("WITH c AS (SELECT 1 AS a) UPDATE t, c SET t.a = c.a", true);
        check("WITH c AS (SELECT 1 AS a) DELETE t FROM t JOIN c", false);
        check("LOAD DATA INFILE 'f' INTO TABLE t", true);
        check("CREATE TABLE t (a TIME) SELECT '00:00:00.6' AS a", true);
        check("CREATE TABLE t (a TIME DEFAULT 'SELECT')", false);
        check("CREATE FUNCTION f() RETURNS INT RETURN (SELECT 1)", false);
        check("SELECT `d`.`f`()", true);
        check("DELETE FROM t WHERE a IN (SELECT 1)", false);
        check("BEGIN", false);
    }

    #[test]
    fn definitions_of_events_are_recognised() {
        let check = |sql: &str, expected| assert_eq!(defines_event(sql.as_bytes()), expected, "{sql}");
        check(
            "CREATE DEFINER=`root`@`%` EVENT IF NOT EXISTS e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t",
            true,
        );
        check("create or replace definer = current_user() event e on schedule every 1 day do select 1", true);
        check("ALTER EVENT e ENABLE", true);
        check("CREATE TABLE event (a INT)", false);
        check("CREATE TRIGGER event BEFORE INSERT ON t FOR EACH ROW SET @a = 1", false);
        check("DROP EVENT e", false);
    }

    #[test]
    fn database_creations_are_recognised() {
        let check =
            |sql: &str, expected| assert_eq!(takes_server_collation(sql.as_bytes(), 0), expected, "{sql}");
        check("CREATE DATABASE d", true);
        check("create  schema if not exists d", true);
        check("CREATE DATABASE d CHARACTER SET latin1", false);
        check("CREATE DATABASE d COLLATE latin1_bin", false);
        check("CREATE TABLE d (a INT)", false);
        check("CREATE DATABASE d CHAR SET latin1", false);
        check("/* a */ CREATE DATABASE `collate charset`", true);
    }
}
