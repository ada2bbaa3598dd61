//! JSON documents of bintide, compared with their schemas in docs/schemas.

use std::fs;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use testkit::workspace_root;

/// Checks that a document has the form that its schema describes. `name` is the name of the schema's file without
/// `.schema.json`.
///
/// # Errors
///
/// Fails if the document has another form, or if there is no such schema.
pub fn check_document(name: &str, document: &Value) -> Result<()> {
    check_documents(name, std::slice::from_ref(document))
}

/// Checks documents that have the same schema, like [`check_document`].
///
/// # Errors
///
/// Fails if [`check_document`] fails.
pub fn check_documents(name: &str, documents: &[Value]) -> Result<()> {
    let path = workspace_root().join("docs/schemas").join(format!("{name}.schema.json"));
    let text = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
    let schema: Value = serde_json::from_slice(&text)?;
    let validator =
        jsonschema::validator_for(&schema).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    for document in documents {
        let faults: Vec<String> = validator
            .iter_errors(document)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        ensure!(
            faults.is_empty(),
            "{name}.schema.json does not describe this document:\n{}\n{document:#}",
            faults.join("\n")
        );
    }
    Ok(())
}
