//! Partial updates of JSON documents: the changes that turn the old document into the new one.

use super::edit::DocumentNode;
use super::path::JsonPathLeg;
use super::{JsonDocument, path};
use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::error::DecodeReason;

/// Maximum number of steps in a path: servers reject deeper documents. Bounds recursion.
pub(super) const PATH_LEGS_MAX: usize = super::DEPTH_MAX;

/// Changes to a JSON document, to be applied in order; empty if nothing changed.
///
/// Written by servers at `binlog_row_value_options=PARTIAL_JSON`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JsonChanges<'a> {
    bytes: &'a [u8],
}

/// One change to a JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JsonChange<'a> {
    /// Kind of the change.
    pub kind: JsonChangeKind,
    /// Path of the changed value, as written: `$.name[3]`.
    pub path: &'a [u8],
    /// New value; `None` for removals.
    pub value: Option<JsonDocument<'a>>,
}

/// Kind of a JSON change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum JsonChangeKind {
    /// Replaces an existing value (`JSON_REPLACE`).
    Replace,
    /// Inserts a new value into an object (`JSON_INSERT`) or an array (`JSON_ARRAY_INSERT`).
    Insert,
    /// Removes a value (`JSON_REMOVE`).
    Remove,
}

impl<'a> JsonChanges<'a> {
    /// Wraps changes in their stored form.
    ///
    /// # Errors
    ///
    /// Fails if a change is truncated or is of none of the three kinds. Paths and values are not checked.
    pub fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            JsonChange::decode(&mut cursor)?;
        }
        Ok(Self { bytes })
    }

    /// Returns the stored bytes.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the changes in order.
    pub fn iter(&self) -> impl Iterator<Item = JsonChange<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        // Cannot fail: `new` has decoded all changes.
        std::iter::from_fn(move || JsonChange::decode(&mut cursor).ok())
    }

    /// Applies the changes to the old document and returns the new one in stored form.
    ///
    /// # Errors
    ///
    /// Fails if a path does not exist in the document, or if the document or a path is corrupt.
    pub fn apply(&self, before: JsonDocument<'_>) -> Result<Vec<u8>, DecodeError> {
        let mut root = DocumentNode::of_document(before)?;
        let mut cursor = Cursor::new(self.bytes);
        while !cursor.is_empty() {
            let offset = cursor.offset();
            let change = JsonChange::decode(&mut cursor)?;
            let legs = path::parse(change.path, offset + 2)?;
            let value = change.value.map(DocumentNode::of_document).transpose()?;
            let done = match (change.kind, value) {
                (JsonChangeKind::Replace, Some(value)) => root.replace(&legs, value)?,
                (JsonChangeKind::Insert, Some(value)) => root.insert(&legs, value)?,
                (_, _) => root.remove(&legs)?,
            };
            if !done {
                let (field, expected) =
                    ("kind of a JSON change", "a change whose path exists in the document");
                let found = change.kind.code().into();
                return Err(DecodeError::new(offset, DecodeReason::Unexpected { field, found, expected }));
            }
        }
        root.encode_document()
    }
}

impl JsonChangeKind {
    const fn code(self) -> u8 {
        match self {
            Self::Replace => 0,
            Self::Insert => 1,
            Self::Remove => 2,
        }
    }
}

impl<'a> JsonChange<'a> {
    /// Parses the path into its steps, from the whole document inwards.
    ///
    /// # Errors
    ///
    /// Fails if the path is invalid or can match several places.
    pub fn legs(&self) -> Result<Vec<JsonPathLeg>, DecodeError> {
        path::parse(self.path, 0)
    }

    // size  field
    //    1  kind
    //    *  path: lenenc size, then the bytes
    //    *  value: lenenc size, then the bytes; absent for removals
    fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let offset = cursor.offset();
        let kind = match cursor.u8()? {
            0 => JsonChangeKind::Replace,
            1 => JsonChangeKind::Insert,
            2 => JsonChangeKind::Remove,
            code => {
                let (field, found) = ("kind of a JSON change", u64::from(code));
                return Err(DecodeError::new(offset, DecodeReason::OutOfRange { field, found, max: 2 }));
            }
        };
        let path = cursor.lenenc_bytes()?;
        let value = match kind {
            JsonChangeKind::Remove => None,
            JsonChangeKind::Replace | JsonChangeKind::Insert => {
                Some(JsonDocument::new(cursor.lenenc_bytes()?))
            }
        };
        Ok(Self { kind, path, value })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::{JsonChangeKind, JsonChanges, JsonDocument};
    use crate::json::JsonQuotes;

    /// `{"a": 2, "bc": [true, "x"]}`.
    const OBJECT: &[u8] = b"\x00\x02\x00\x27\x00\x12\x00\x01\x00\x13\x00\x02\x00\x05\x02\x00\x02\x15\x00abc\
        \x02\x00\x12\x00\x04\x01\x00\x0c\x0a\x00\x01x\x00\x00\x00\x00\x00\x00";

    const REPLACE: u8 = 0;
    const INSERT: u8 = 1;
    const REMOVE: u8 = 2;

    fn change(kind: u8, path: &str, value: &[u8]) -> Vec<u8> {
        let mut change = vec![kind, path.len() as u8];
        change.extend_from_slice(path.as_bytes());
        if kind != REMOVE {
            change.push(value.len() as u8);
            change.extend_from_slice(value);
        }
        change
    }

    fn check(changes: &[(u8, &str, &[u8])], expected: &str) {
        let bytes: Vec<u8> =
            changes.iter().flat_map(|(kind, path, value)| change(*kind, path, value)).collect();
        let after = JsonChanges::new(&bytes).and_then(|changes| changes.apply(JsonDocument::new(OBJECT)));
        let text = match after {
            Ok(after) => {
                let mut text = Vec::new();
                JsonDocument::new(&after).write(JsonQuotes::Always, &mut text).unwrap();
                String::from_utf8(text).unwrap()
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(text, expected, "{changes:?}");
    }

    const NULL: &[u8] = &[4, 0];
    const LONG: &[u8] = &[7, 0, 0, 1, 0];
    const EMPTY: &[u8] = &[2, 0, 0, 4, 0];

    #[test]
    fn changes_apply_in_order() {
        check(&[], r#"{"a": 2, "bc": [true, "x"]}"#);
        check(&[(REPLACE, "$.a", NULL)], r#"{"a": null, "bc": [true, "x"]}"#);
        check(&[(REPLACE, "$", EMPTY)], "[]");
        check(&[(REPLACE, "$.bc[1]", LONG)], r#"{"a": 2, "bc": [true, 65536]}"#);
        check(&[(REPLACE, "$.bc[last-1]", LONG)], r#"{"a": 2, "bc": [65536, "x"]}"#);
        check(&[(REPLACE, "$.a[0]", NULL)], r#"{"a": null, "bc": [true, "x"]}"#);
        check(&[(INSERT, "$.b", NULL)], r#"{"a": 2, "b": null, "bc": [true, "x"]}"#);
        check(&[(INSERT, "$.\"long name\"", EMPTY)], r#"{"a": 2, "bc": [true, "x"], "long name": []}"#);
        check(&[(INSERT, "$.bc[0]", NULL)], r#"{"a": 2, "bc": [null, true, "x"]}"#);
        check(&[(INSERT, "$.bc[9]", NULL)], r#"{"a": 2, "bc": [true, "x", null]}"#);
        check(&[(REMOVE, "$.a", &[])], r#"{"bc": [true, "x"]}"#);
        check(&[(REMOVE, "$.bc[0]", &[]), (REMOVE, "$.bc[0]", &[])], r#"{"a": 2, "bc": []}"#);
        check(
            &[(INSERT, "$.c", EMPTY), (INSERT, "$.c[0]", LONG), (REMOVE, "$.a", &[])],
            r#"{"c": [65536], "bc": [true, "x"]}"#,
        );
    }

    #[test]
    fn paths_to_missing_values_are_refused() {
        let nowhere = |offset: usize, code: u8| {
            format!(
                "byte {offset}: kind of a JSON change is {code}, expected a change whose path exists in the document"
            )
        };
        check(&[(REPLACE, "$.x", NULL)], &nowhere(0, 0));
        check(&[(REPLACE, "$.a.b", NULL)], &nowhere(0, 0));
        check(&[(REPLACE, "$.a[1]", NULL)], &nowhere(0, 0));
        check(&[(REPLACE, "$.bc[2]", NULL)], &nowhere(0, 0));
        check(&[(INSERT, "$.a", NULL)], &nowhere(0, 1));
        check(&[(INSERT, "$.a[0]", NULL)], &nowhere(0, 1));
        check(&[(INSERT, "$", NULL)], &nowhere(0, 1));
        check(&[(REMOVE, "$", &[])], &nowhere(0, 2));
        check(&[(REMOVE, "$.bc[2]", &[])], &nowhere(0, 2));
        check(&[(REMOVE, "$.a", &[]), (REMOVE, "$.a", &[])], &nowhere(5, 2));
        check(
            &[(REPLACE, "$.x", NULL)],
            "byte 0: kind of a JSON change is 0, expected a change whose path exists in the document",
        );
        check(
            &[(REMOVE, "$.*", &[])],
            "byte 4: byte of a JSON path is 42, expected a path to a single place",
        );
        check(&[(3, "$", NULL)], "byte 0: kind of a JSON change is 3, expected at most 2");
    }

    #[test]
    fn path_steps_are_decoded() {
        let bytes = [change(REPLACE, "$.a", NULL), change(REMOVE, "$.b", &[])].concat();
        let steps: Vec<_> = JsonChanges::new(&bytes).unwrap().iter().collect();
        assert_eq!(steps.len(), 2);
        assert_eq!(
            (steps[0].kind, steps[0].path, steps[0].value),
            (JsonChangeKind::Replace, &b"$.a"[..], Some(JsonDocument::new(NULL)))
        );
        assert_eq!(
            (steps[1].kind, steps[1].path, steps[1].value),
            (JsonChangeKind::Remove, &b"$.b"[..], None)
        );
    }

    /// Documents that grow beyond 64 KiB get large fields; they get small fields again when they shrink.
    #[test]
    fn documents_grow_and_shrink() {
        let mut text = vec![12, 0x80, 0x80, 0x04];
        text.resize(4 + 65_536, b'x');
        let mut bytes = vec![INSERT, 3];
        bytes.extend(b"$.t\xfd\x04\x00\x01");
        bytes.extend(&text);
        let grown = JsonChanges::new(&bytes).unwrap().apply(JsonDocument::new(OBJECT)).unwrap();
        assert_eq!(grown[0], 1);
        JsonDocument::new(&grown).check().unwrap();
        let bytes = change(REMOVE, "$.t", &[]);
        let shrunk = JsonChanges::new(&bytes).unwrap().apply(JsonDocument::new(&grown)).unwrap();
        assert_eq!(shrunk[..OBJECT.len() - 6], OBJECT[..OBJECT.len() - 6]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_changes_or_an_error(bytes: Vec<u8>, document: Vec<u8>) {
            if let Ok(changes) = JsonChanges::new(&bytes) {
                let _ = changes.apply(JsonDocument::new(&document));
                let _ = changes.apply(JsonDocument::new(OBJECT));
            }
        }
    }
}
