//! Partial updates of a JSON document, applied to the target's text. A log with PARTIAL_JSON and MINIMAL images lacks
//! the original document.

use binlog::{JsonChangeKind, JsonChanges, JsonDocument, JsonPathLeg, JsonQuotes};
use replay::TargetFailure;

/// Maximum depth of nested containers: a server accepts no deeper documents. Bounds recursion.
const DEPTH_MAX: usize = 110;

/// A node of a parsed document. Keeps the texts of the document unchanged.
enum JsonNode {
    /// Text of a number, a string or a word.
    Scalar(String),
    Array(Vec<JsonNode>),
    /// Members: the name as text, the decoded name, and the value.
    Object(Vec<(String, Vec<u8>, JsonNode)>),
}

/// Appends the text of the document after these changes, formatted as on the server.
pub(crate) fn apply_changes(
    text: &str,
    changes: &JsonChanges<'_>,
    out: &mut Vec<u8>,
) -> Result<(), TargetFailure> {
    let odd = || {
        TargetFailure::refused(
            "a JSON document on the target differs from the one that was changed on the source",
        )
    };
    let mut root = parse(text).ok_or_else(odd)?;
    for change in changes.iter() {
        let legs = change.legs()?;
        let value = change.value.map(node).transpose()?;
        let done = match (change.kind, value) {
            (JsonChangeKind::Replace, Some(value)) => find(&mut root, &legs).map(|target| *target = value),
            (JsonChangeKind::Insert, Some(value)) => insert(&mut root, &legs, value),
            (_, _) => remove(&mut root, &legs),
        };
        done.ok_or_else(odd)?;
    }
    write(&root, out);
    Ok(())
}

fn node(document: JsonDocument<'_>) -> Result<JsonNode, TargetFailure> {
    let mut text = Vec::new();
    document.write(JsonQuotes::Always, &mut text)?;
    let text = String::from_utf8(text).ok();
    text.and_then(|text| parse(&text))
        .ok_or_else(|| TargetFailure::refused("the log contains an invalid JSON value"))
}

fn find<'n>(root: &'n mut JsonNode, legs: &[JsonPathLeg]) -> Option<&'n mut JsonNode> {
    let mut node = root;
    for leg in legs {
        node = match (node, leg) {
            (JsonNode::Object(members), JsonPathLeg::Name(name)) => {
                members.iter_mut().find(|(_, own, _)| own == name).map(|(.., value)| value)?
            }
            (JsonNode::Array(values), leg) => {
                let at = index(leg, values.len())?;
                values.get_mut(at)?
            }
            // A value that is not an array counts as an array of itself.
            (single, JsonPathLeg::Index(0) | JsonPathLeg::FromLast(0)) => single,
            _ => return None,
        };
    }
    Some(node)
}

fn insert(root: &mut JsonNode, legs: &[JsonPathLeg], value: JsonNode) -> Option<()> {
    let (last, legs) = legs.split_last()?;
    match (find(root, legs)?, last) {
        (JsonNode::Object(members), JsonPathLeg::Name(name)) => {
            // The server sorts names by size, then byte by byte.
            let key = |name: &[u8]| (name.len(), name.to_vec());
            let at = members.partition_point(|(_, own, _)| key(own) < key(name));
            if members.get(at).is_some_and(|(_, own, _)| own == name) {
                return None;
            }
            let shown = serde_json::to_string(str::from_utf8(name).ok()?).ok()?;
            members.insert(at, (shown, name.clone(), value));
        }
        (JsonNode::Array(values), JsonPathLeg::Index(at)) => values.insert((*at).min(values.len()), value),
        (JsonNode::Array(values), JsonPathLeg::FromLast(at)) => {
            values.insert(values.len().saturating_sub(at + 1), value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(root: &mut JsonNode, legs: &[JsonPathLeg]) -> Option<()> {
    let (last, legs) = legs.split_last()?;
    match (find(root, legs)?, last) {
        (JsonNode::Object(members), JsonPathLeg::Name(name)) => {
            let at = members.iter().position(|(_, own, _)| own == name)?;
            members.remove(at);
        }
        (JsonNode::Array(values), leg) => {
            let at = index(leg, values.len())?;
            values.remove(at);
        }
        _ => return None,
    }
    Some(())
}

fn index(leg: &JsonPathLeg, count: usize) -> Option<usize> {
    let at = match leg {
        JsonPathLeg::Index(at) => *at,
        JsonPathLeg::FromLast(at) => count.checked_sub(at + 1)?,
        _ => return None,
    };
    (at < count).then_some(at)
}

fn write(node: &JsonNode, out: &mut Vec<u8>) {
    match node {
        JsonNode::Scalar(text) => out.extend_from_slice(text.as_bytes()),
        JsonNode::Array(values) => {
            out.push(b'[');
            for (at, value) in values.iter().enumerate() {
                out.extend_from_slice(if at > 0 { b", " } else { b"" });
                write(value, out);
            }
            out.push(b']');
        }
        JsonNode::Object(members) => {
            out.push(b'{');
            for (at, (name, _, value)) in members.iter().enumerate() {
                out.extend_from_slice(if at > 0 { b", " } else { b"" });
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b": ");
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

fn parse(text: &str) -> Option<JsonNode> {
    let mut reader = JsonReader { rest: text };
    let node = reader.node(0)?;
    reader.skip();
    reader.rest.is_empty().then_some(node)
}

struct JsonReader<'t> {
    rest: &'t str,
}

impl<'t> JsonReader<'t> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn take(&mut self, sign: char) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn node(&mut self, depth: usize) -> Option<JsonNode> {
        if depth > DEPTH_MAX {
            return None;
        }
        if self.take('[') {
            let mut values = Vec::new();
            while !self.take(']') {
                if !values.is_empty() && !self.take(',') {
                    return None;
                }
                values.push(self.node(depth + 1)?);
            }
            return Some(JsonNode::Array(values));
        }
        if self.take('{') {
            let mut members = Vec::new();
            while !self.take('}') {
                if !members.is_empty() && !self.take(',') {
                    return None;
                }
                self.skip();
                let shown = self.scalar()?;
                let name: String = serde_json::from_str(shown).ok()?;
                self.take(':').then_some(())?;
                members.push((shown.to_owned(), name.into_bytes(), self.node(depth + 1)?));
            }
            return Some(JsonNode::Object(members));
        }
        self.scalar().map(|text| JsonNode::Scalar(text.to_owned()))
    }

    /// Reads a string with its quotes, a number or a word.
    fn scalar(&mut self) -> Option<&'t str> {
        let size = match self.rest.strip_prefix('"') {
            Some(inner) => {
                let mut escaped = false;
                let end = inner.bytes().position(|byte| {
                    let is_end = byte == b'"' && !escaped;
                    escaped = byte == b'\\' && !escaped;
                    is_end
                });
                end? + 2
            }
            None => self.rest.find([',', ']', '}', ':', ' ']).unwrap_or(self.rest.len()),
        };
        let (scalar, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        (!scalar.is_empty()).then_some(scalar)
    }
}

#[cfg(test)]
mod tests {
    use binlog::{JsonChanges, JsonPathLeg};

    use super::{apply_changes, find, insert, parse, remove, write};

    fn shown(text: &str, change: impl FnOnce(&mut super::JsonNode) -> Option<()>) -> Option<String> {
        let mut root = parse(text)?;
        change(&mut root)?;
        let mut out = Vec::new();
        write(&root, &mut out);
        String::from_utf8(out).ok()
    }

    #[test]
    fn documents_are_changed_in_place() {
        let name = |name: &str| JsonPathLeg::Name(name.as_bytes().to_vec());
        let value = || parse("[1.50, \"x\\\"]\"]").unwrap();
        let text = r#"{"b": [1, 2.0], "é,}": "a: b", "long": {}}"#;
        assert_eq!(shown(text, |_| Some(())).as_deref(), Some(text));
        let replaced = shown(text, |root| {
            find(root, &[name("b"), JsonPathLeg::FromLast(0)]).map(|target| *target = value())
        });
        assert_eq!(replaced.as_deref(), Some(r#"{"b": [1, [1.50, "x\"]"]], "é,}": "a: b", "long": {}}"#));
        let inserted = shown(text, |root| insert(root, &[name("aa")], value()));
        assert_eq!(
            inserted.as_deref(),
            Some(r#"{"b": [1, 2.0], "aa": [1.50, "x\"]"], "é,}": "a: b", "long": {}}"#)
        );
        let removed = shown(text, |root| remove(root, &[name("b"), JsonPathLeg::Index(0)]));
        assert_eq!(removed.as_deref(), Some(r#"{"b": [2.0], "é,}": "a: b", "long": {}}"#));
        assert_eq!(shown(text, |root| remove(root, &[name("c")])), None);
        assert_eq!(shown(text, |root| insert(root, &[name("b")], value())), None);
        assert!(parse("[1, 2").is_none() && parse(&"[".repeat(1000)).is_none());
    }

    #[test]
    fn documents_of_the_target_must_be_those_of_the_source() {
        // REMOVE $.a
        let changes = JsonChanges::new(b"\x02\x03$.a").unwrap();
        for text in ["{", "{}", "[1]"] {
            let failure = apply_changes(text, &changes, &mut Vec::new()).unwrap_err();
            assert_eq!(
                failure.message,
                "a JSON document on the target differs from the one that was changed on the source",
                "{text}"
            );
        }
    }
}
