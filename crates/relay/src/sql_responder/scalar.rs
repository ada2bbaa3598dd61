//! Expressions without tables: literals, variables, and functions.

use binlog::ServerVersion;
use sql::{SqlWord, SqlWords};
use wire::ServerError;

use super::sql_function::{FunctionContext, SqlFunction};
use super::system_variable::{RequestedScope, SystemValue, SystemVariable, VariableContext};
use crate::sql_answer::SqlValue;

/// Maximum depth of nested functions. The engine, which has its own limit, evaluates deeper expressions.
const DEPTH_MAX: u32 = 16;

/// A system variable in a statement: `@@name`, `@@global.name`.
pub(super) struct VariableReference {
    pub(super) scope: RequestedScope,
    pub(super) name: String,
}

/// Takes an expression and evaluates it. Returns `None` for an expression of another kind; the position in `words` is
/// then undefined.
///
/// # Errors
///
/// Fails for unknown system variables, and for functions that a server would refuse.
pub(super) fn take_scalar(
    words: &mut SqlWords,
    context: &VariableContext<'_>,
) -> Result<Option<SqlValue>, ServerError> {
    take_nested(words, context, DEPTH_MAX)
}

/// Returns the state on which functions depend.
pub(super) fn function_context(context: &VariableContext<'_>) -> FunctionContext {
    FunctionContext {
        version: context.relay.server().version,
        account: context.session.account.clone(),
        login: context.session.login.clone(),
        connection_id: context.session.connection_id,
        database: context.session.database.clone(),
        now_us: context.relay.now_us(),
        interrupt: context.session.interrupt.clone(),
    }
}

fn take_nested(
    words: &mut SqlWords,
    context: &VariableContext<'_>,
    depth: u32,
) -> Result<Option<SqlValue>, ServerError> {
    if words.take_sign("@") {
        return take_variable(words, context);
    }
    let is_negative = words.take_sign("-");
    Ok(match words.take_next() {
        Some(SqlWord::Number(digits)) => number(&digits, is_negative),
        _ if is_negative => None,
        Some(SqlWord::Text(text)) => Some(SqlValue::Text(text)),
        Some(SqlWord::Hex(digits)) => hex_text(&digits).map(SqlValue::Text),
        Some(SqlWord::Plain(word)) if words.is_sign("(") => {
            return take_call(&word, words, context, depth);
        }
        Some(SqlWord::Plain(word)) => match word.to_ascii_lowercase().as_str() {
            "null" => Some(SqlValue::Null),
            "true" => Some(SqlValue::Int(1)),
            "false" => Some(SqlValue::Int(0)),
            "current_user" | "current_timestamp" | "current_date" | "current_time" | "localtime"
            | "localtimestamp" | "utc_timestamp" | "utc_date" => {
                let function = SqlFunction::find(&word);
                let value = function.map(|function| function.call(&function_context(context), &[]));
                value.transpose()?
            }
            _ => None,
        },
        _ => None,
    })
}

fn take_call(
    name: &str,
    words: &mut SqlWords,
    context: &VariableContext<'_>,
    depth: u32,
) -> Result<Option<SqlValue>, ServerError> {
    let Some(function) = SqlFunction::find(name).filter(|_| depth > 0) else { return Ok(None) };
    let Some(mut arguments) = words.take_group() else { return Ok(None) };
    let mut values = Vec::new();
    let parts = if arguments.is_at_end() { Vec::new() } else { arguments.split_at_commas() };
    for mut part in parts {
        match take_nested(&mut part, context, depth - 1)? {
            Some(value) if part.is_at_end() => values.push(value),
            _ => return Ok(None),
        }
    }
    function.call(&function_context(context), &values).map(Some)
}

/// Takes a user variable or a system variable, after the first `@`.
fn take_variable(
    words: &mut SqlWords,
    context: &VariableContext<'_>,
) -> Result<Option<SqlValue>, ServerError> {
    if words.take_sign("@") {
        let Some(reference) = take_reference(words) else { return Ok(None) };
        return read_variable(&reference, context).map(|value| Some(value.to_sql()));
    }
    let Some(name) = take_user_variable(words) else { return Ok(None) };
    Ok(Some(context.session.user_variables.get(&name).cloned().unwrap_or(SqlValue::Null)))
}

/// Takes the name of a user variable, after the `@`. Returns it in lower case.
pub(super) fn take_user_variable(words: &mut SqlWords) -> Option<String> {
    match words.take_next()? {
        SqlWord::Plain(name) | SqlWord::Quoted(name) | SqlWord::Text(name) => Some(name.to_lowercase()),
        _ => None,
    }
}

/// Takes the name of a system variable with its scope, after `@@`.
pub(super) fn take_reference(words: &mut SqlWords) -> Option<VariableReference> {
    let mut name = words.take_name()?;
    let mut scope = RequestedScope::Any;
    if words.is_sign(".") {
        match name.to_ascii_lowercase().as_str() {
            "global" => scope = RequestedScope::Global,
            "session" | "local" => scope = RequestedScope::Session,
            _ => {}
        }
        if scope != RequestedScope::Any {
            words.take_sign(".");
            name = words.take_name()?;
        }
        while words.take_sign(".") {
            name = format!("{name}.{}", words.take_name()?);
        }
    }
    Some(VariableReference { scope, name })
}

/// Returns the value of a system variable.
///
/// # Errors
///
/// Fails if there is no such variable in this scope.
pub(super) fn read_variable(
    reference: &VariableReference,
    context: &VariableContext<'_>,
) -> Result<SystemValue, ServerError> {
    let version = ServerVersion::parse(&context.relay.server().version);
    SystemVariable::find(&reference.name, version)?.value(reference.scope, context)
}

fn number(digits: &str, is_negative: bool) -> Option<SqlValue> {
    let sign = if is_negative { "-" } else { "" };
    let signed = format!("{sign}{digits}");
    let integer = signed.parse().map(SqlValue::Int).or_else(|_| signed.parse().map(SqlValue::UInt));
    integer
        .ok()
        .or_else(|| signed.parse().ok().filter(|number: &f64| number.is_finite()).map(SqlValue::Double))
}

/// Returns the text of the bytes in a hexadecimal literal.
pub(super) fn hex_text(digits: &str) -> Option<String> {
    let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
    let pairs = padded.as_bytes().chunks_exact(2);
    let bytes: Option<Vec<u8>> =
        pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect();
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
