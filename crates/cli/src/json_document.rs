//! JSON documents: the results of `--json`, each with its version.

use std::io::{self, Write};

use serde::Serialize;

/// Version of the documents. Increases if a field is removed or renamed, or changes its meaning, but not for a new
/// field.
const DOCUMENT_VERSION: u32 = 1;

#[derive(Serialize)]
struct VersionedDocument<'d, D: ?Sized> {
    version: u32,
    #[serde(flatten)]
    content: &'d D,
}

/// Writes a result as one JSON document, with the version as first field. `content` is an object.
///
/// The schemas are in docs/schemas.
pub(crate) fn write_document<D: Serialize + ?Sized>(out: &mut impl Write, content: &D) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &VersionedDocument { version: DOCUMENT_VERSION, content })?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::write_document;

    #[test]
    fn version_comes_first() {
        let mut out = Vec::new();
        write_document(&mut out, &json!({ "a": 1 })).expect("could not write to memory");
        assert_eq!(out, b"{\n  \"version\": 1,\n  \"a\": 1\n}\n");
    }
}
