//! JSON documents as MySQL expressions. Values that JSON text cannot express (exact numbers, dates, bytes) are inserted
//! with their own types.

use std::fmt::Write as _;

use binlog::{JsonChange, JsonChangeKind, JsonChanges, JsonDocument, JsonQuotes, JsonValue};
use replay::TargetFailure;
use servers::StatementParameter;

/// An SQL expression and its parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SqlExpression {
    pub(super) sql: String,
    pub(super) parameters: Vec<StatementParameter>,
}

/// Placeholder of a text parameter.
const TEXT_PARAMETER: &str = "CONVERT(? USING utf8mb4)";

/// Returns an expression for the document, if its text alone does not express it exactly.
pub(super) fn exact_expression(document: JsonDocument<'_>) -> Result<Option<SqlExpression>, TargetFailure> {
    let special = find_exact_values(document)?;
    if special.is_empty() {
        return Ok(None);
    }
    expression(document, special).map(Some)
}

/// A condition that each JSON change finds the same structure as on the source. Without this condition, MySQL's JSON
/// functions would silently leave a document unchanged, where a replica stops with error 3648.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ChangeCondition {
    /// Empty without changes.
    pub(super) expression: SqlExpression,
    /// Bytes of the parameters.
    size: usize,
}

/// Returns an expression for the column's document after these changes, for logs without the document itself. Appends
/// the condition that the changes can be applied.
pub(super) fn patch_expression(
    column: &str,
    changes: JsonChanges<'_>,
    condition: &mut ChangeCondition,
) -> Result<SqlExpression, TargetFailure> {
    let mut out = SqlExpression { sql: column.to_owned(), parameters: Vec::new() };
    let unchanged = out.clone();
    let mut scopes: Vec<&[u8]> = Vec::new();
    for change in changes.iter() {
        // A change depends on earlier changes whose paths overlap its own.
        let is_apart = scopes.iter().all(|scope| !overlap(scope, change.path));
        let put = match scopes.len() < CHANGES_MAX {
            true => condition.put_change(if is_apart { &unchanged } else { &out }, &change),
            false => Err(ConditionTooLarge),
        };
        put.map_err(|ConditionTooLarge| {
            TargetFailure::refused(format!(
                "{column} has partial JSON updates that are too many or too large for a statement, and the log lacks \
                 the original document. Use --apply-as binlog"
            ))
        })?;
        scopes.push(scope(&change));
        let is_element = is_element(change.path);
        let function = match change.kind {
            JsonChangeKind::Replace => "JSON_REPLACE",
            JsonChangeKind::Insert if is_element => "JSON_ARRAY_INSERT",
            JsonChangeKind::Insert => "JSON_INSERT",
            JsonChangeKind::Remove => "JSON_REMOVE",
        };
        out.parameters.push(StatementParameter::Bytes(change.path.to_vec()));
        out.sql = format!("{function}({}, {TEXT_PARAMETER}", out.sql);
        if let Some(document) = change.value {
            let value = expression(document, find_exact_values(document)?)?;
            let _ = write!(out.sql, ", {}", value.sql);
            out.parameters.extend(value.parameters);
        }
        out.sql.push(')');
    }
    Ok(out)
}

/// Maximum number of parameters in a condition: the protocol counts a statement's parameters in two bytes.
const CONDITION_PARAMETERS_MAX: usize = 16_384;

/// Maximum number of changes to a document: each change is an expression around the earlier expressions.
const CHANGES_MAX: usize = CONDITION_PARAMETERS_MAX;

/// Maximum size of a condition's parameters, in bytes. Each change that depends on others repeats all their parameters.
/// Bounds memory, and equals a server's default packet size.
const CONDITION_SIZE_MAX: usize = 64 << 20;

/// Error for a condition beyond [`CONDITION_PARAMETERS_MAX`] or [`CONDITION_SIZE_MAX`].
struct ConditionTooLarge;

impl ChangeCondition {
    /// Appends the condition that this change can be applied to a document.
    fn put_change(
        &mut self,
        document: &SqlExpression,
        change: &JsonChange<'_>,
    ) -> Result<(), ConditionTooLarge> {
        // A JSON path treats a value that is not an array as an array of one element.
        let arrays = format!(", {TEXT_PARAMETER})) = 'ARRAY'");
        for array in arrays_of(change.path) {
            self.put("JSON_TYPE(JSON_EXTRACT(", document, array, &arrays)?;
        }
        let exists = format!(", 'one', {TEXT_PARAMETER})");
        match change.kind {
            JsonChangeKind::Replace | JsonChangeKind::Remove => {
                self.put("JSON_CONTAINS_PATH(", document, change.path, &exists)
            }
            JsonChangeKind::Insert if is_element(change.path) => Ok(()),
            JsonChangeKind::Insert => {
                let objects = format!(", {TEXT_PARAMETER})) = 'OBJECT'");
                self.put("JSON_TYPE(JSON_EXTRACT(", document, parent(change.path), &objects)?;
                self.put("NOT JSON_CONTAINS_PATH(", document, change.path, &exists)
            }
        }
    }

    /// Appends a condition: a document and a path in it, between two texts.
    fn put(
        &mut self,
        before: &str,
        document: &SqlExpression,
        path: &[u8],
        after: &str,
    ) -> Result<(), ConditionTooLarge> {
        let SqlExpression { sql, parameters } = &mut self.expression;
        let count = parameters.len() + document.parameters.len() + 1;
        let size =
            self.size + path.len() + document.parameters.iter().map(StatementParameter::size).sum::<usize>();
        if count > CONDITION_PARAMETERS_MAX || size > CONDITION_SIZE_MAX {
            return Err(ConditionTooLarge);
        }
        self.size = size;
        let and = if sql.is_empty() { "" } else { " AND " };
        let _ = write!(sql, "{and}{before}{}{after}", document.sql);
        parameters.extend(document.parameters.iter().cloned());
        parameters.push(StatementParameter::Bytes(path.to_vec()));
        Ok(())
    }
}

/// Returns true if the last step of a path is an array index.
fn is_element(path: &[u8]) -> bool {
    path.ends_with(b"]")
}

/// Returns the offsets of a path's steps, for example `.name`, `."name"`, `[7]`.
fn steps(path: &[u8]) -> Vec<usize> {
    let (mut starts, mut is_quoted, mut is_escaped) = (Vec::new(), false, false);
    for (at, byte) in path.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'.' | b'[' if !is_quoted => starts.push(at),
            _ => {}
        }
    }
    starts
}

/// Returns the path without its last step.
fn parent(path: &[u8]) -> &[u8] {
    steps(path).last().map_or(path, |start| &path[..*start])
}

/// Returns the paths of all arrays that a path passes through.
fn arrays_of(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    steps(path).into_iter().filter(|start| path[*start] == b'[').map(|start| &path[..start])
}

/// Returns the path of all values that a change may create or move. Inserting or removing an element moves the later
/// elements.
fn scope<'a>(change: &JsonChange<'a>) -> &'a [u8] {
    match change.kind {
        JsonChangeKind::Insert | JsonChangeKind::Remove if is_element(change.path) => parent(change.path),
        _ => change.path,
    }
}

/// Returns true if one of the paths may pass through the other. Names with a common prefix also count.
fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn expression(document: JsonDocument<'_>, special: Vec<ExactValue>) -> Result<SqlExpression, TargetFailure> {
    let mut text = Vec::new();
    document.write(JsonQuotes::Always, &mut text)?;
    let mut out = SqlExpression {
        sql: format!("CAST({TEXT_PARAMETER} AS JSON)"),
        parameters: vec![StatementParameter::Bytes(text)],
    };
    if special.is_empty() {
        return Ok(out);
    }
    out.sql = format!("JSON_REPLACE({}", out.sql);
    for ExactValue { path, sql, parameter } in special {
        let _ = write!(out.sql, ", {TEXT_PARAMETER}, {sql}");
        out.parameters.push(StatementParameter::Bytes(path.into_bytes()));
        out.parameters.push(parameter);
    }
    out.sql.push(')');
    Ok(out)
}

/// A value that JSON text cannot express: its path, its expression and its parameter.
struct ExactValue {
    path: String,
    sql: String,
    parameter: StatementParameter,
}

/// Finds the values of a document that its text cannot express.
fn find_exact_values(document: JsonDocument<'_>) -> Result<Vec<ExactValue>, TargetFailure> {
    // Without this check, cyclic or repeated references in a document could make the search endless.
    document.check()?;
    let mut special = Vec::new();
    collect_exact_values(document.root()?, &mut String::from("$"), &mut special)?;
    Ok(special)
}

/// Collects these values from a value at this path.
fn collect_exact_values(
    value: JsonValue<'_>,
    path: &mut String,
    special: &mut Vec<ExactValue>,
) -> Result<(), TargetFailure> {
    let mut put = |sql: String, parameter| special.push(ExactValue { path: path.clone(), sql, parameter });
    let bytes = |text: &dyn std::fmt::Display| StatementParameter::Bytes(text.to_string().into_bytes());
    match value {
        JsonValue::Decimal(number) => {
            // A decimal in JSON may have one digit more than a column.
            let (precision, scale) = (number.precision().min(65), number.scale());
            put(format!("CAST(CAST(? AS DECIMAL({precision},{scale})) AS JSON)"), bytes(&number));
        }
        JsonValue::Date(date) => put("CAST(CAST(? AS DATE) AS JSON)".into(), bytes(&date)),
        // From a parameter that could be a date, such as `10:11:12`, MySQL 9.7 makes a date and midnight.
        JsonValue::Time(time) => {
            put("CAST(CAST(CONVERT(? USING utf8mb4) AS TIME(6)) AS JSON)".into(), bytes(&time))
        }
        JsonValue::DateTime(time) => put("CAST(CAST(? AS DATETIME(6)) AS JSON)".into(), bytes(&time)),
        JsonValue::UInt(number) if i64::try_from(number).is_ok() => {
            put("CAST(CAST(? AS UNSIGNED) AS JSON)".into(), StatementParameter::UInt(number));
        }
        JsonValue::Opaque { bytes, .. } => {
            put("CAST(? AS BINARY)".into(), StatementParameter::Bytes(bytes.to_vec()))
        }
        JsonValue::Array(values) | JsonValue::Object(values) => {
            for (index, entry) in values.iter().enumerate() {
                let (name, value) = entry?;
                let size = path.len();
                match name {
                    Some(name) => put_name(path, &String::from_utf8_lossy(name)),
                    None => drop(write!(path, "[{index}]")),
                }
                collect_exact_values(value, path, special)?;
                path.truncate(size);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Appends a step to an object member, quoted as in JSON.
fn put_name(path: &mut String, name: &str) {
    path.push_str(".\"");
    for character in name.chars() {
        match character {
            '"' => path.push_str("\\\""),
            '\\' => path.push_str("\\\\"),
            control if u32::from(control) < 0x20 => drop(write!(path, "\\u{:04x}", u32::from(control))),
            other => path.push(other),
        }
    }
    path.push('"');
}

#[cfg(test)]
mod tests {
    use binlog::{JsonChanges, JsonDocument};
    use servers::StatementParameter;

    use super::{
        CONDITION_PARAMETERS_MAX, CONDITION_SIZE_MAX, ChangeCondition, SqlExpression, arrays_of,
        exact_expression, overlap, parent, patch_expression,
    };

    #[test]
    fn paths_have_steps() {
        let check = |path: &str, up: &str, arrays: &str| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(text(parent(path.as_bytes())), up, "{path}");
            let found: Vec<String> = arrays_of(path.as_bytes()).map(text).collect();
            assert_eq!(found.join(" "), arrays, "{path}");
        };
        check("$", "$", "");
        check("$.a", "$", "");
        check("$[7]", "$", "$");
        check("$.a[1].b[2]", "$.a[1].b", "$.a $.a[1].b");
        check(r#"$."a.b[0]"[1]"#, r#"$."a.b[0]""#, r#"$."a.b[0]""#);
        check(r#"$."a\".b".c"#, r#"$."a\".b""#, "");
        assert!(overlap(b"$.a", b"$.a.b") && overlap(b"$.a[0]", b"$.a") && !overlap(b"$.a", b"$.b"));
    }

    /// Conditions that depend on each other repeat the large value of the first.
    #[test]
    fn conditions_have_a_size() {
        let value = || StatementParameter::Bytes(vec![b'x'; 1 << 20]);
        let check = |parameters: Vec<StatementParameter>, expected: usize| {
            let document = SqlExpression { sql: "j".into(), parameters };
            let mut condition = ChangeCondition::default();
            let put = (0..).take_while(|_| condition.put("f(", &document, b"$.a", ")").is_ok()).count();
            assert_eq!(put, expected);
            let size: usize = condition.expression.parameters.iter().map(StatementParameter::size).sum();
            assert!(size <= CONDITION_SIZE_MAX + (CONDITION_PARAMETERS_MAX << 4), "{size}");
        };
        check(vec![value()], 63);
        check(vec![value(), value()], 31);
        check(vec![StatementParameter::Bytes(vec![b'x'; 65 << 20])], 0);
        check(vec![StatementParameter::Null; 127], CONDITION_PARAMETERS_MAX / 128);
    }

    #[test]
    fn changes_to_one_value_are_bounded() {
        // REMOVE $.a, again and again: each change depends on all changes before it.
        let bytes = b"\x02\x03$.a".repeat(200);
        let changes = JsonChanges::new(&bytes).unwrap();
        let refused = patch_expression("`j`", changes, &mut ChangeCondition::default()).unwrap_err();
        assert_eq!(
            refused.message,
            "`j` has partial JSON updates that are too many or too large for a statement, and the log lacks the \
             original document. Use --apply-as binlog"
        );
    }

    #[test]
    fn text_is_enough_for_most_documents() {
        // [-1]
        assert_eq!(
            exact_expression(JsonDocument::new(b"\x02\x01\x00\x08\x00\x05\xff\xff\x00")).unwrap(),
            None
        );
    }

    /// Nested arrays: sixty thousand bytes could hold more levels than a stack can.
    #[test]
    fn deep_documents_are_refused() {
        let mut value = vec![0, 0, 4, 0];
        for _ in 0..9_000 {
            let size = (value.len() + 7) as u16;
            let head = [1, 0, size.to_le_bytes()[0], size.to_le_bytes()[1], 2, 7, 0];
            value.splice(0..0, head);
        }
        value.insert(0, 2);
        let refused = exact_expression(JsonDocument::new(&value)).unwrap_err();
        assert!(refused.message.contains("depth of a JSON document"), "{refused}");
    }

    #[test]
    fn unsigned_numbers_keep_their_type() {
        // [1], unsigned
        let found =
            exact_expression(JsonDocument::new(b"\x02\x01\x00\x08\x00\x06\x01\x00\x00")).unwrap().unwrap();
        let text = "CONVERT(? USING utf8mb4)";
        let expected =
            format!("JSON_REPLACE(CAST({text} AS JSON), {text}, CAST(CAST(? AS UNSIGNED) AS JSON))");
        assert_eq!(found.sql, expected);
        let bytes = |text: &str| StatementParameter::Bytes(text.as_bytes().to_vec());
        assert_eq!(found.parameters, [bytes("[1]"), bytes("$[0]"), StatementParameter::UInt(1)]);
    }
}
