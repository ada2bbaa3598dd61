//! JSON documents as expressions of MySQL: what their text does not tell (exact numbers, dates, bytes) is put in its
//! place by its own type.

use std::fmt::Write as _;

use binlog::{Json, JsonChangeKind, JsonChanges, JsonQuotes, JsonValue};
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

/// What becomes of a document whose column has this name.
pub(super) fn changed(column: &str, changes: JsonChanges<'_>) -> Result<Expression, Failure> {
    let mut out = Expression { sql: column.to_owned(), parameters: Vec::new() };
    for change in changes.iter() {
        let is_element = change.path.ends_with(b"]");
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

/// A value that a document's text does not tell: where it is, and how it is said.
struct Special {
    path: String,
    sql: String,
    parameter: Parameter,
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

    use super::exact;

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
