//! Topics whose records have their schemas in a registry, decoded by other programs.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::{KafkaBroker, PythonEnvironment, RegistryServer};

use crate::kafka::{PREFIX, TopicRecord};

/// A record decoded by its schemas.
#[derive(Clone, Debug)]
pub struct DecodedRecord {
    /// The record, with key and value as JSON.
    pub record: TopicRecord,
    /// JSON Schemas of key and value; null for other formats.
    pub schemas: [Value; 2],
}

/// Reads all committed records of the stream's topics, except for the progress, and decodes them by their schemas.
///
/// # Errors
///
/// Fails if the topics cannot be read, or a record cannot be decoded.
pub fn read_decoded(broker: &KafkaBroker, registry: &RegistryServer) -> Result<Vec<DecodedRecord>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("readers/topics.py");
    let mut command = Command::new(PythonEnvironment::KAFKA.python()?);
    command.arg(script).args([&broker.address(), &registry.url(), PREFIX]).stdin(Stdio::null());
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut records = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let json: Value = serde_json::from_str(line)?;
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let record = TopicRecord {
            topic: text("topic").context("no topic")?,
            partition: json["partition"].as_i64().context("no partition")?.try_into()?,
            key: text("key"),
            value: text("value"),
            headers: serde_json::from_value(json["headers"].clone())?,
        };
        let schemas = [json["key_schema"].clone(), json["value_schema"].clone()];
        records.push(DecodedRecord { record, schemas });
    }
    Ok(records)
}

/// Removes the field `resume` from the records of a pipe: schemas do not have it.
///
/// # Errors
///
/// Fails if a record is not JSON.
pub fn without_resume(printed: &str) -> Result<String> {
    let mut kept = String::new();
    for line in printed.lines() {
        let mut record: Value = serde_json::from_str(line)?;
        record.as_object_mut().context("not an object")?.remove("resume");
        kept.push_str(&record.to_string());
        kept.push('\n');
    }
    Ok(kept)
}
