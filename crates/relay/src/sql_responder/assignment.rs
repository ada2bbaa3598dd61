//! `SET`: variables of the session.

use std::collections::BTreeMap;
use std::time::Duration;

use binlog::server_error::UNKNOWN_ERROR;
use binlog::{Charset, Collation, Flavour, ServerVersion, ZstdLevel};
use sql::{SqlWord, SqlWords};
use wire::ServerError;

use super::refusals::{
    global_variable, in_transaction, privilege_required, session_variable, unknown_charset,
    unknown_collation, unsupported, wrong_scope,
};
use super::scalar::{VariableReference, take_reference, take_scalar, take_user_variable};
use super::select_text::{offset, take_assignment};
use super::system_variable::{
    RequestedScope, SEMI_SYNC_REPLICAS, SEMI_SYNC_TIMEOUT, SystemVariable, VariableContext, VariableScope,
    VariableWriting,
};
use super::{SqlStatement, done};
use crate::log_form::FormChoice;
use crate::relay_account::AccountRight;
use crate::relay_facts::{RelayFacts, SemiSyncSettings};
use crate::served_compression::ServedCompression;
use crate::sql_answer::{SqlAnswer, SqlSession, SqlValue, WarningLevel};
use crate::upstream_control::UpstreamControl;

/// Variables that a transaction must not change.
const FIXED_IN_TRANSACTION: [&str; 3] = [COMPRESSION, COMPRESSION_LEVEL, "sql_log_bin"];
/// Variables whose global values can be changed.
const COMPRESSION: &str = "binlog_transaction_compression";
const COMPRESSION_LEVEL: &str = "binlog_transaction_compression_level_zstd";
/// Maximum size of a session's variables in bytes. They stay in memory as long as the client is connected.
const VARIABLES_SIZE_MAX: usize = 256 << 10;
/// Word for a variable's default value.
const DEFAULT: &str = "DEFAULT";
/// Variables that `SET NAMES` sets to the character set.
const CHARSET_VARIABLES: [&str; 3] =
    ["character_set_client", "character_set_connection", "character_set_results"];

/// Executes a `SET`. If one assignment fails, none takes effect.
pub(super) fn set(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let (mut changed, mut globals) = (session.clone(), GlobalChanges::default());
    if statement.words.is_at_end() {
        return Err(statement.syntax_error());
    }
    for mut part in statement.words.split_at_commas() {
        let assigned = assign(statement, &mut part, &changed)?;
        if let AssignedValues::Global { name, value } = &assigned {
            globals.assign(name, value, statement.relay, &mut changed);
            let value = value.to_text().unwrap_or_default();
            changed.record_change(format!("SET GLOBAL {name} = {value}"));
        }
        if !part.is_at_end() {
            return Err(statement.error_at(offset(&part)));
        }
        assigned.apply(&mut changed);
    }
    if variables_size(&changed) > VARIABLES_SIZE_MAX {
        return Err(ServerError::new(
            UNKNOWN_ERROR,
            "HY000",
            format!("the variables of a session may have at most {VARIABLES_SIZE_MAX} bytes"),
        ));
    }
    *session = changed;
    globals.apply(statement.relay, session);
    Ok(done())
}

fn variables_size(session: &SqlSession) -> usize {
    let variables = session.user_variables.iter().chain(&session.system_variables);
    let text_size = |value: &SqlValue| if let SqlValue::Text(text) = value { text.len() } else { 0 };
    variables.map(|(name, value)| name.len() + size_of::<SqlValue>() + text_size(value)).sum()
}

/// Result of one assignment.
enum AssignedValues {
    User {
        name: String,
        value: SqlValue,
    },
    System(BTreeMap<&'static str, SqlValue>),
    /// Global value that lasts until the relay stops.
    Global {
        name: &'static str,
        value: SqlValue,
    },
    /// The variable takes its global value.
    Default {
        name: &'static str,
    },
}

impl AssignedValues {
    fn system(name: &'static str, value: SqlValue) -> Self {
        Self::System(BTreeMap::from([(name, value)]))
    }

    fn apply(self, session: &mut SqlSession) {
        match self {
            Self::User { name, value } => {
                session.user_variables.insert(name, value);
            }
            Self::Default { name } => {
                session.system_variables.remove(name);
            }
            // A global value is not part of the session.
            Self::Global { .. } => {}
            Self::System(values) => {
                let values = values.into_iter().map(|(name, value)| (name.to_owned(), value));
                session.system_variables.extend(values);
            }
        }
    }
}

fn assign(
    statement: &SqlStatement<'_>,
    part: &mut SqlWords,
    session: &SqlSession,
) -> Result<AssignedValues, ServerError> {
    let context = statement.context(session);
    if part.take("NAMES") {
        return names(statement, part);
    }
    if part.take_any(&["CHARACTER SET", "CHARSET"]) {
        return charset(statement, part);
    }
    if part.is_any_next(&["TRANSACTION", "SESSION TRANSACTION", "LOCAL TRANSACTION", "GLOBAL TRANSACTION"]) {
        return transaction(statement, part);
    }
    let is_variable = part.take_sign("@");
    let is_reference = is_variable && part.take_sign("@");
    if is_variable && !is_reference {
        let name = take_user_variable(part).ok_or_else(|| statement.error_at(offset(part)))?;
        let value = value(statement, part, &context, BareWord::Column)?;
        return Ok(AssignedValues::User { name, value });
    }
    // With `@@`, the scope is a part of the reference.
    let scope = match is_reference {
        false if part.take_any(&["GLOBAL", "PERSIST", "PERSIST_ONLY"]) => RequestedScope::Global,
        false if part.take_any(&["SESSION", "LOCAL"]) => RequestedScope::Session,
        _ => RequestedScope::Any,
    };
    let mut reference = take_reference(part).ok_or_else(|| statement.error_at(offset(part)))?;
    if scope != RequestedScope::Any {
        reference.scope = scope;
    }
    system_value(statement, part, &reference, &context)
}

fn system_value(
    statement: &SqlStatement<'_>,
    part: &mut SqlWords,
    reference: &VariableReference,
    context: &VariableContext<'_>,
) -> Result<AssignedValues, ServerError> {
    let version = ServerVersion::parse(&context.relay.server().version);
    let variable = SystemVariable::find(&reference.name, version)?;
    let name = variable.name;
    // A quoted 'DEFAULT' is a value, as on a server.
    let value = match take_default(part) {
        true => None,
        false => Some(value(statement, part, context, BareWord::Text)?),
    };
    if reference.scope == RequestedScope::Global {
        return check_global(variable, value, context);
    }
    match (variable.scope, variable.writing) {
        (VariableScope::Global, _) => return Err(global_variable(name)),
        (_, VariableWriting::ReadOnly) => return Err(wrong_scope(name, "read only")),
        _ => {}
    }
    if context.session.is_in_transaction && FIXED_IN_TRANSACTION.contains(&name) {
        return Err(in_transaction(name));
    }
    match value {
        None => Ok(AssignedValues::Default { name }),
        Some(value) => Ok(AssignedValues::system(name, variable.converted(&value, context)?)),
    }
}

/// Global values that a statement changes.
#[derive(Default)]
struct GlobalChanges {
    compression: Option<ServedCompression>,
    /// Level at which stored logs are compressed when they are closed; `None` inside to leave them as they are.
    stored: Option<Option<ZstdLevel>>,
    semi_sync: Option<SemiSyncSettings>,
}

impl GlobalChanges {
    /// Sets a global variable. As on a server, an invalid number becomes the nearest valid one, with a warning.
    fn assign(&mut self, name: &str, value: &SqlValue, relay: &dyn RelayFacts, session: &mut SqlSession) {
        let number = value.to_number().unwrap_or_default();
        let mut nearest = |range: (f64, f64)| {
            let nearest = number.clamp(range.0, range.1);
            if nearest != number {
                let text = value.to_text().unwrap_or_default();
                let message = format!("Truncated incorrect {name} value: '{text}'");
                session.warn(WarningLevel::Warning, 1292, message);
            }
            nearest
        };
        let compression = self.compression.unwrap_or_else(|| relay.compression());
        let stored = self.stored.or_else(|| Some(relay.upstream_control()?.compression()));
        if name == COMPRESSION {
            let is_on = number != 0.0;
            self.compression = Some(ServedCompression { is_on, ..compression });
            self.stored = stored.map(|_| is_on.then_some(compression.level));
        } else if name == COMPRESSION_LEVEL {
            let level = ZstdLevel::new(nearest((1.0, 22.0)) as u8).unwrap_or(compression.level);
            self.compression = Some(ServedCompression { level, ..compression });
            self.stored = stored.map(|present| present.map(|_| level));
        } else if let Some(settings) = self.semi_sync.or_else(|| relay.semi_sync_settings()) {
            self.semi_sync = Some(if SEMI_SYNC_REPLICAS.contains(&name) {
                SemiSyncSettings { replicas: nearest((1.0, u16::MAX.into())) as usize, ..settings }
            } else {
                let timeout_ms = nearest((0.0, u32::MAX.into())) as u64;
                SemiSyncSettings { timeout: Duration::from_millis(timeout_ms), ..settings }
            });
        }
    }

    fn apply(self, relay: &dyn RelayFacts, session: &mut SqlSession) {
        if let Some(compression) = self.compression {
            relay.set_compression(compression);
        }
        if let (Some(stored), Some(upstream)) = (self.stored, relay.upstream_control()) {
            set_stored_compression(stored, upstream, session);
        }
        if let Some(settings) = self.semi_sync {
            relay.set_semi_sync_settings(settings);
        }
    }
}

/// Sets the compression of stored logs. A note says what becomes of them.
fn set_stored_compression(
    level: Option<ZstdLevel>,
    upstream: &dyn UpstreamControl,
    session: &mut SqlSession,
) {
    let before = upstream.compression();
    let note = match upstream.set_compression(level) {
        false => {
            "The relay serves logs in this form, but leaves the stored logs as they are: to compress them, it needs \
             gtid_mode = ON on the source, and no --archive"
        }
        true if level.is_some() && before.is_none() => {
            "The relay also compresses logs that are closed from now on. Their positions in the form as-is then differ \
             from those of the source"
        }
        true => return,
    };
    session.note(note);
}

/// Checks an assignment to a global variable that is an option of the relay. Only its present value is accepted.
/// `None` is the default.
fn check_global(
    variable: &'static SystemVariable,
    value: Option<SqlValue>,
    context: &VariableContext<'_>,
) -> Result<AssignedValues, ServerError> {
    if !context.session.role.may(AccountRight::EndConnections) {
        return Err(privilege_required("SUPER or SYSTEM_VARIABLES_ADMIN"));
    }
    if variable.scope == VariableScope::Session {
        return Err(session_variable(variable.name));
    }
    let value =
        value.or_else(|| global_default(variable.name)).unwrap_or_else(|| SqlValue::Text(DEFAULT.to_owned()));
    let value = variable.converted(&value, context)?;
    let present = variable.value(RequestedScope::Global, context)?.to_sql();
    let name = variable.name;
    // With --compress, the relay compresses stored logs although the variable is OFF.
    let is_of_stored_logs = name == COMPRESSION && context.relay.upstream_control().is_some();
    if value.to_text() == present.to_text() && !is_of_stored_logs {
        return Ok(AssignedValues::System(BTreeMap::new()));
    }
    if SEMI_SYNC_TIMEOUT.contains(&name) || SEMI_SYNC_REPLICAS.contains(&name) {
        return match context.relay.semi_sync_settings() {
            Some(_) => Ok(AssignedValues::Global { name, value }),
            None => Err(ServerError::new(
                1235,
                "42000",
                format!("bintide relay does not support SET GLOBAL {name} without --wait-for-replicas"),
            )),
        };
    }
    if [COMPRESSION, COMPRESSION_LEVEL].contains(&name) {
        return Ok(AssignedValues::Global { name, value });
    }
    match variable.writing {
        VariableWriting::ReadOnly => Err(wrong_scope(variable.name, "read only")),
        VariableWriting::Settable => Err(unsupported(&format!("a new global value of {}", variable.name))),
    }
}

/// Returns the default of a changeable global variable: the default of the relay's option, as a server has a default of
/// its own, whatever its option file says.
fn global_default(name: &str) -> Option<SqlValue> {
    let compression = ServedCompression::of(FormChoice::Auto);
    match name {
        COMPRESSION => Some(SqlValue::Int(compression.is_on.into())),
        COMPRESSION_LEVEL => Some(SqlValue::UInt(compression.level.get().into())),
        _ if SEMI_SYNC_REPLICAS.contains(&name) => Some(SqlValue::UInt(1)),
        _ if SEMI_SYNC_TIMEOUT.contains(&name) => Some(SqlValue::UInt(5000)),
        _ => None,
    }
}

/// Meaning of an unquoted word as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BareWord {
    /// A text: `SET sql_mode = ANSI`.
    Text,
    /// A column name, which is an error: there are no columns.
    Column,
}

fn value(
    statement: &SqlStatement<'_>,
    part: &mut SqlWords,
    context: &VariableContext<'_>,
    bare: BareWord,
) -> Result<SqlValue, ServerError> {
    if !take_assignment(part) || part.is_at_end() {
        return Err(statement.error_at(offset(part)));
    }
    let expression = part.rest_range();
    let mut direct = part.clone();
    if let Some(value) = take_scalar(&mut direct, context)?.filter(|_| direct.is_at_end()) {
        *part = direct;
        return Ok(value);
    }
    let mut word = part.clone();
    if let (BareWord::Text, Some(SqlWord::Plain(text) | SqlWord::Quoted(text))) = (bare, word.take_next())
        && word.is_at_end()
    {
        *part = word;
        return Ok(SqlValue::Text(text));
    }
    while !part.is_at_end() {
        part.skip();
    }
    statement.evaluate(expression, context)
}

/// Takes `= DEFAULT` at the end of an assignment. Returns whether it was there.
fn take_default(part: &mut SqlWords) -> bool {
    let mut rest = part.clone();
    let is_default = take_assignment(&mut rest) && rest.take(DEFAULT) && rest.is_at_end();
    if is_default {
        *part = rest;
    }
    is_default
}

fn names(statement: &SqlStatement<'_>, part: &mut SqlWords) -> Result<AssignedValues, ServerError> {
    let charset = take_charset(statement, part)?;
    let mut collation =
        charset.and_then(default_collation).unwrap_or_else(|| "utf8mb4_0900_ai_ci".to_owned());
    if part.take("COLLATE") {
        collation = match part.take_next() {
            Some(SqlWord::Plain(name) | SqlWord::Quoted(name) | SqlWord::Text(name)) => name,
            _ => return Err(statement.error_at(offset(part))),
        };
        if !Collation::all().any(|known| known.name().eq_ignore_ascii_case(&collation)) {
            return Err(unknown_collation(&collation));
        }
    }
    Ok(charset_values(charset, collation))
}

fn charset(statement: &SqlStatement<'_>, part: &mut SqlWords) -> Result<AssignedValues, ServerError> {
    let charset = take_charset(statement, part)?;
    let collation = charset.and_then(default_collation).unwrap_or_else(|| "utf8mb4_0900_ai_ci".to_owned());
    Ok(charset_values(charset, collation))
}

fn charset_values(charset: Option<Charset>, collation: String) -> AssignedValues {
    let name = charset.map_or("utf8mb4", Charset::name);
    let mut values: BTreeMap<&'static str, SqlValue> =
        CHARSET_VARIABLES.into_iter().map(|variable| (variable, name.into())).collect();
    values.insert("collation_connection", collation.into());
    AssignedValues::System(values)
}

fn default_collation(charset: Charset) -> Option<String> {
    Collation::new(charset.default_collation(), Flavour::MySql).map(|collation| collation.name().into_owned())
}

/// Takes a character set; `None` for the default.
fn take_charset(statement: &SqlStatement<'_>, part: &mut SqlWords) -> Result<Option<Charset>, ServerError> {
    let start = offset(part);
    match part.take_next() {
        Some(SqlWord::Plain(name)) if name.eq_ignore_ascii_case("DEFAULT") => Ok(None),
        Some(SqlWord::Plain(name) | SqlWord::Quoted(name) | SqlWord::Text(name)) => {
            let lower = name.to_ascii_lowercase();
            let known = Charset::from_name(&lower).or_else(|| match lower.as_str() {
                "utf8" => Charset::from_name("utf8mb3"),
                _ => None,
            });
            known.map(Some).ok_or_else(|| unknown_charset(&name))
        }
        _ => Err(statement.error_at(start)),
    }
}

/// `SET TRANSACTION`: accepted without effect, because a relay runs no transactions.
fn transaction(statement: &SqlStatement<'_>, part: &mut SqlWords) -> Result<AssignedValues, ServerError> {
    part.take_any(&["SESSION", "LOCAL", "GLOBAL"]);
    part.take("TRANSACTION");
    let levels = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
    let is_known =
        part.take("ISOLATION LEVEL") && part.take_any(&levels) || part.take_any(&["READ ONLY", "READ WRITE"]);
    match is_known {
        true => Ok(AssignedValues::System(BTreeMap::new())),
        false => Err(statement.error_at(offset(part))),
    }
}
