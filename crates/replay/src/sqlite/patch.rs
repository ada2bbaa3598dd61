//! Partial updates of a JSON document, applied to the target's text: a log with PARTIAL_JSON and MINIMAL images lacks
//! the original document.

use binlog::{Json, JsonChangeKind, JsonChanges, JsonPathLeg, JsonQuotes};

use crate::error::Failure;

/// Maximum depth of nested containers: a server accepts no deeper documents. Bounds recursion.
const DEPTH_MAX: usize = 110;

/// A node of a parsed document. Texts stay as they are in the document.
enum Node {
    /// Text of a number, a string or a word.
    Scalar(String),
    Array(Vec<Node>),
    /// Members: the name as text, the decoded name, and the value.
    Object(Vec<(String, Vec<u8>, Node)>),
}

/// Appends the text of the document after these changes, formatted as the server shows it.
pub(super) fn patched(text: &str, changes: &JsonChanges<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let odd = || {
        Failure::refused("a JSON document on the target differs from the one that was changed on the source")
    };
    let mut root = parse(text).ok_or_else(odd)?;
    for change in changes.iter() {
        let legs = change.legs()?;
        let value = change.value.map(node).transpose()?;
        let done = match (change.kind, value) {
            (JsonChangeKind::Replace, Some(value)) => find(&mut root, &legs).map(|place| *place = value),
            (JsonChangeKind::Insert, Some(value)) => insert(&mut root, &legs, value),
            (_, _) => remove(&mut root, &legs),
        };
        done.ok_or_else(odd)?;
    }
    write(&root, out);
    Ok(())
}

fn node(document: Json<'_>) -> Result<Node, Failure> {
    let mut text = Vec::new();
    document.write(JsonQuotes::Always, &mut text)?;
    let text = String::from_utf8(text).ok();
    text.and_then(|text| parse(&text))
        .ok_or_else(|| Failure::refused("the log contains an invalid JSON value"))
}

fn find<'n>(root: &'n mut Node, legs: &[JsonPathLeg]) -> Option<&'n mut Node> {
    let mut node = root;
    for leg in legs {
        node = match (node, leg) {
            (Node::Object(members), JsonPathLeg::Name(name)) => {
                members.iter_mut().find(|(_, own, _)| own == name).map(|(.., value)| value)?
            }
            (Node::Array(values), leg) => {
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

fn insert(root: &mut Node, legs: &[JsonPathLeg], value: Node) -> Option<()> {
    let (last, legs) = legs.split_last()?;
    match (find(root, legs)?, last) {
        (Node::Object(members), JsonPathLeg::Name(name)) => {
            // The server sorts names by size, then byte by byte.
            let key = |name: &[u8]| (name.len(), name.to_vec());
            let at = members.partition_point(|(_, own, _)| key(own) < key(name));
            if members.get(at).is_some_and(|(_, own, _)| own == name) {
                return None;
            }
            let shown = serde_json::to_string(str::from_utf8(name).ok()?).ok()?;
            members.insert(at, (shown, name.clone(), value));
        }
        (Node::Array(values), JsonPathLeg::Index(at)) => values.insert((*at).min(values.len()), value),
        (Node::Array(values), JsonPathLeg::FromLast(at)) => {
            values.insert(values.len().saturating_sub(at + 1), value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(root: &mut Node, legs: &[JsonPathLeg]) -> Option<()> {
    let (last, legs) = legs.split_last()?;
    match (find(root, legs)?, last) {
        (Node::Object(members), JsonPathLeg::Name(name)) => {
            let at = members.iter().position(|(_, own, _)| own == name)?;
            members.remove(at);
        }
        (Node::Array(values), leg) => {
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

fn write(node: &Node, out: &mut Vec<u8>) {
    match node {
        Node::Scalar(text) => out.extend_from_slice(text.as_bytes()),
        Node::Array(values) => {
            out.push(b'[');
            for (at, value) in values.iter().enumerate() {
                out.extend_from_slice(if at > 0 { b", " } else { b"" });
                write(value, out);
            }
            out.push(b']');
        }
        Node::Object(members) => {
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

fn parse(text: &str) -> Option<Node> {
    let mut reader = Reader { rest: text };
    let node = reader.node(0)?;
    reader.skip();
    reader.rest.is_empty().then_some(node)
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn take(&mut self, sign: char) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn node(&mut self, depth: usize) -> Option<Node> {
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
            return Some(Node::Array(values));
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
            return Some(Node::Object(members));
        }
        self.scalar().map(|text| Node::Scalar(text.to_owned()))
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
    use binlog::JsonPathLeg as Leg;

    use super::{find, insert, parse, remove, write};

    fn shown(text: &str, change: impl FnOnce(&mut super::Node) -> Option<()>) -> Option<String> {
        let mut root = parse(text)?;
        change(&mut root)?;
        let mut out = Vec::new();
        write(&root, &mut out);
        String::from_utf8(out).ok()
    }

    #[test]
    fn documents_are_changed_in_place() {
        let name = |name: &str| Leg::Name(name.as_bytes().to_vec());
        let value = || parse("[1.50, \"x\\\"]\"]").unwrap();
        let text = r#"{"b": [1, 2.0], "é,}": "a: b", "long": {}}"#;
        assert_eq!(shown(text, |_| Some(())).as_deref(), Some(text));
        let replaced =
            shown(text, |root| find(root, &[name("b"), Leg::FromLast(0)]).map(|place| *place = value()));
        assert_eq!(replaced.as_deref(), Some(r#"{"b": [1, [1.50, "x\"]"]], "é,}": "a: b", "long": {}}"#));
        let inserted = shown(text, |root| insert(root, &[name("aa")], value()));
        assert_eq!(
            inserted.as_deref(),
            Some(r#"{"b": [1, 2.0], "aa": [1.50, "x\"]"], "é,}": "a: b", "long": {}}"#)
        );
        let removed = shown(text, |root| remove(root, &[name("b"), Leg::Index(0)]));
        assert_eq!(removed.as_deref(), Some(r#"{"b": [2.0], "é,}": "a: b", "long": {}}"#));
        assert_eq!(shown(text, |root| remove(root, &[name("c")])), None);
        assert_eq!(shown(text, |root| insert(root, &[name("b")], value())), None);
        assert!(parse("[1, 2").is_none() && parse(&"[".repeat(1000)).is_none());
    }
}
