//! JSON documents as expressions of MySQL: what their text does not tell (exact numbers, dates, bytes) is put in its
//! place by its own type.

use std::fmt::Write as _;

use binlog::{Json, JsonChange, JsonChangeKind, JsonChanges, JsonQuotes, JsonValue};
use servers::Parameter;

use crate::error::Failure;

/// An expression, and what goes into the places that it leaves open.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Expression {
    pub(super) sql: String,
    pub(super) parameters: Vec<Parameter>,
}

/// What stands for a text parameter.
const TEXT: &str = "CONVERT(? USING utf8mb4)";

/// The document, if it says more than its text.
pub(super) fn exact(document: Json<'_>) -> Result<Option<Expression>, Failure> {
    let special = special(document)?;
    if special.is_empty() {
        return Ok(None);
    }
    expression(document, special).map(Some)
}

/// The condition that each change of a row's documents meets what it met on the source. Elsewhere MySQL's JSON functions
/// would leave a document as it is, while a replica stops with error 3648.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ChangeCondition {
    /// Empty without changes.
    pub(super) expression: Expression,
    /// Bytes of its parameters.
    size: usize,
}

/// Returns the document of the column with this name behind these changes of a document that the log does not have. The
/// condition that they can be made is appended.
pub(super) fn changed(
    column: &str,
    changes: JsonChanges<'_>,
    condition: &mut ChangeCondition,
) -> Result<Expression, Failure> {
    let mut out = Expression { sql: column.to_owned(), parameters: Vec::new() };
    let unchanged = out.clone();
    let mut scopes: Vec<&[u8]> = Vec::new();
    for change in changes.iter() {
        // A change counts on what those in front of it have made.
        let is_apart = scopes.iter().all(|scope| !overlap(scope, change.path));
        let put = match scopes.len() < CHANGES_MAX {
            true => condition.put_change(if is_apart { &unchanged } else { &out }, &change),
            false => Err(ConditionTooLarge),
        };
        put.map_err(|ConditionTooLarge| {
            Failure::refused(format!(
                "{column} is given as changes of a document that the log does not have, and they are too many or too \
                 large for a statement: use --apply-as binlog"
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
        out.parameters.push(Parameter::Bytes(change.path.to_vec()));
        out.sql = format!("{function}({}, {TEXT}", out.sql);
        if let Some(document) = change.value {
            let value = expression(document, special(document)?)?;
            let _ = write!(out.sql, ", {}", value.sql);
            out.parameters.extend(value.parameters);
        }
        out.sql.push(')');
    }
    Ok(out)
}

/// Parameters of a condition, at most: a statement has two bytes for their number.
const CONDITION_PARAMETERS_MAX: usize = 16_384;

/// Changes of a document, at most: each is an expression around those in front of it.
const CHANGES_MAX: usize = CONDITION_PARAMETERS_MAX;

/// Bytes of a condition's parameters, at most. Each change that counts on others repeats all of theirs: bounds memory,
/// and is as much as a server takes in a packet by default.
const CONDITION_SIZE_MAX: usize = 64 << 20;

/// A condition beyond [`CONDITION_PARAMETERS_MAX`] or [`CONDITION_SIZE_MAX`].
struct ConditionTooLarge;

impl ChangeCondition {
    /// Appends the condition that a document is one that this change can be made to.
    fn put_change(
        &mut self,
        document: &Expression,
        change: &JsonChange<'_>,
    ) -> Result<(), ConditionTooLarge> {
        // A path takes a value that is no array for an array of one element.
        let arrays = format!(", {TEXT})) = 'ARRAY'");
        for array in arrays_of(change.path) {
            self.put("JSON_TYPE(JSON_EXTRACT(", document, array, &arrays)?;
        }
        let exists = format!(", 'one', {TEXT})");
        match change.kind {
            JsonChangeKind::Replace | JsonChangeKind::Remove => {
                self.put("JSON_CONTAINS_PATH(", document, change.path, &exists)
            }
            JsonChangeKind::Insert if is_element(change.path) => Ok(()),
            JsonChangeKind::Insert => {
                let objects = format!(", {TEXT})) = 'OBJECT'");
                self.put("JSON_TYPE(JSON_EXTRACT(", document, parent(change.path), &objects)?;
                self.put("NOT JSON_CONTAINS_PATH(", document, change.path, &exists)
            }
        }
    }

    /// Appends a condition: a document and a path in it, between these texts.
    fn put(
        &mut self,
        before: &str,
        document: &Expression,
        path: &[u8],
        after: &str,
    ) -> Result<(), ConditionTooLarge> {
        let Expression { sql, parameters } = &mut self.expression;
        let count = parameters.len() + document.parameters.len() + 1;
        let size = self.size + path.len() + document.parameters.iter().map(Parameter::size).sum::<usize>();
        if count > CONDITION_PARAMETERS_MAX || size > CONDITION_SIZE_MAX {
            return Err(ConditionTooLarge);
        }
        self.size = size;
        let and = if sql.is_empty() { "" } else { " AND " };
        let _ = write!(sql, "{and}{before}{}{after}", document.sql);
        parameters.extend(document.parameters.iter().cloned());
        parameters.push(Parameter::Bytes(path.to_vec()));
        Ok(())
    }
}

/// Tells whether the last step of a path leads to an element of an array.
fn is_element(path: &[u8]) -> bool {
    path.ends_with(b"]")
}

/// Returns where the steps of a path start, as `.name`, `."name"`, `[7]`.
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

/// The path without its last step.
fn parent(path: &[u8]) -> &[u8] {
    steps(path).last().map_or(path, |start| &path[..*start])
}

/// The paths of the arrays that a path leads into.
fn arrays_of(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    steps(path).into_iter().filter(|start| path[*start] == b'[').map(|start| &path[..start])
}

/// The path of all that a change may move or make: elements behind the one that comes or goes move, too.
fn scope<'a>(change: &JsonChange<'a>) -> &'a [u8] {
    match change.kind {
        JsonChangeKind::Insert | JsonChangeKind::Remove if is_element(change.path) => parent(change.path),
        _ => change.path,
    }
}

/// Tells whether one of these paths may lead through the other; names that begin alike count, too.
fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn expression(document: Json<'_>, special: Vec<Special>) -> Result<Expression, Failure> {
    let mut text = Vec::new();
    document.write(JsonQuotes::Always, &mut text)?;
    let mut out =
        Expression { sql: format!("CAST({TEXT} AS JSON)"), parameters: vec![Parameter::Bytes(text)] };
    if special.is_empty() {
        return Ok(out);
    }
    out.sql = format!("JSON_REPLACE({}", out.sql);
    for Special { path, sql, parameter } in special {
        let _ = write!(out.sql, ", {TEXT}, {sql}");
        out.parameters.push(Parameter::Bytes(path.into_bytes()));
        out.parameters.push(parameter);
    }
    out.sql.push(')');
    Ok(out)
}

/// A value that a document's text does not tell, its place, and its expression.
struct Special {
    path: String,
    sql: String,
    parameter: Parameter,
}

/// What a document's text does not tell of it.
fn special(document: Json<'_>) -> Result<Vec<Special>, Failure> {
    // Parts within parts without end, or each of them twice, would keep us forever.
    document.check()?;
    let mut special = Vec::new();
    find(document.root()?, &mut String::from("$"), &mut special)?;
    Ok(special)
}

/// Finds what is special in a value at this path.
fn find(value: JsonValue<'_>, path: &mut String, special: &mut Vec<Special>) -> Result<(), Failure> {
    let mut put = |sql: String, parameter| special.push(Special { path: path.clone(), sql, parameter });
    let bytes = |text: &dyn std::fmt::Display| Parameter::Bytes(text.to_string().into_bytes());
    match value {
        JsonValue::Decimal(number) => {
            // JSON may have one more than a column.
            let (precision, scale) = (number.precision().min(65), number.scale());
            put(format!("CAST(CAST(? AS DECIMAL({precision},{scale})) AS JSON)"), bytes(&number));
        }
        JsonValue::Date(date) => put("CAST(CAST(? AS DATE) AS JSON)".into(), bytes(&date)),
        JsonValue::Time(time) => put("CAST(CAST(? AS TIME(6)) AS JSON)".into(), bytes(&time)),
        JsonValue::DateTime(time) => put("CAST(CAST(? AS DATETIME(6)) AS JSON)".into(), bytes(&time)),
        JsonValue::UInt(number) if i64::try_from(number).is_ok() => {
            put("CAST(CAST(? AS UNSIGNED) AS JSON)".into(), Parameter::UInt(number));
        }
        JsonValue::Opaque { bytes, .. } => put("CAST(? AS BINARY)".into(), Parameter::Bytes(bytes.to_vec())),
        JsonValue::Array(values) | JsonValue::Object(values) => {
            for (index, entry) in values.iter().enumerate() {
                let (name, value) = entry?;
                let size = path.len();
                match name {
                    Some(name) => put_name(path, &String::from_utf8_lossy(name)),
                    None => drop(write!(path, "[{index}]")),
                }
                find(value, path, special)?;
                path.truncate(size);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Appends a step to a member, quoted as JSON quotes.
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
    use binlog::Json;
    use servers::Parameter;

    use super::{
        CONDITION_PARAMETERS_MAX, CONDITION_SIZE_MAX, ChangeCondition, Expression, arrays_of, exact, overlap,
        parent,
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

    /// Parts that count on each other repeat the large value of the first.
    #[test]
    fn conditions_have_a_size() {
        let value = || Parameter::Bytes(vec![b'x'; 1 << 20]);
        let check = |parameters: Vec<Parameter>, wanted: usize| {
            let document = Expression { sql: "j".into(), parameters };
            let mut condition = ChangeCondition::default();
            let put = (0..).take_while(|_| condition.put("f(", &document, b"$.a", ")").is_ok()).count();
            assert_eq!(put, wanted);
            let size: usize = condition.expression.parameters.iter().map(Parameter::size).sum();
            assert!(size <= CONDITION_SIZE_MAX + (CONDITION_PARAMETERS_MAX << 4), "{size}");
        };
        check(vec![value()], 63);
        check(vec![value(), value()], 31);
        check(vec![Parameter::Bytes(vec![b'x'; 65 << 20])], 0);
        check(vec![Parameter::Null; 127], CONDITION_PARAMETERS_MAX / 128);
    }

    #[test]
    fn text_is_enough_for_most_documents() {
        // [-1]
        assert_eq!(exact(Json::new(b"\x02\x01\x00\x08\x00\x05\xff\xff\x00")).unwrap(), None);
    }

    /// Arrays within arrays: sixty thousand bytes would be more levels than a stack has room for.
    #[test]
    fn deep_documents_are_refused() {
        let mut value = vec![0, 0, 4, 0];
        for _ in 0..9_000 {
            let size = (value.len() + 7) as u16;
            let head = [1, 0, size.to_le_bytes()[0], size.to_le_bytes()[1], 2, 7, 0];
            value.splice(0..0, head);
        }
        value.insert(0, 2);
        let refused = exact(Json::new(&value)).unwrap_err();
        assert!(refused.message.contains("depth of a JSON document"), "{refused}");
    }

    #[test]
    fn unsigned_numbers_are_said_to_be_so() {
        // [1], unsigned
        let found = exact(Json::new(b"\x02\x01\x00\x08\x00\x06\x01\x00\x00")).unwrap().unwrap();
        let text = "CONVERT(? USING utf8mb4)";
        let wanted = format!("JSON_REPLACE(CAST({text} AS JSON), {text}, CAST(CAST(? AS UNSIGNED) AS JSON))");
        assert_eq!(found.sql, wanted);
        let bytes = |text: &str| Parameter::Bytes(text.as_bytes().to_vec());
        assert_eq!(found.parameters, [bytes("[1]"), bytes("$[0]"), Parameter::UInt(1)]);
    }
}
