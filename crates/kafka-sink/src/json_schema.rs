//! JSON Schemas, as Confluent's JSON Schema converter makes them of the schemas of Kafka Connect.

use serde_json::{Map, Value, json};
use stream::{ConnectKind, ConnectSchema};

use crate::connect_json::{default_value, parameters_object};

/// Returns the JSON Schema of a record.
///
/// Objects within the record have no other properties than those of the schema, so that a registry accepts new columns.
/// The record itself can have others: bintide adds `resume`.
pub(crate) fn json_schema(schema: &ConnectSchema) -> Value {
    let mut json = plain_schema(schema);
    json.remove("additionalProperties");
    match schema.is_optional {
        true => json!({ "oneOf": [{ "type": "null" }, json] }),
        false => Value::Object(json),
    }
}

/// Returns a schema, with its index among the fields of its struct.
fn indexed_schema(schema: &ConnectSchema, index: Option<usize>) -> Value {
    let plain = plain_schema(schema);
    let mut json = match schema.is_optional {
        true => Map::from_iter([("oneOf".to_owned(), json!([{ "type": "null" }, plain]))]),
        false => plain,
    };
    if let Some(index) = index {
        json.insert("connect.index".to_owned(), json!(index));
    }
    Value::Object(json)
}

/// Returns a schema without regard to null.
fn plain_schema(schema: &ConnectSchema) -> Map<String, Value> {
    let mut json = Map::new();
    let (type_name, connect_type) = match &schema.kind {
        ConnectKind::Boolean => ("boolean", None),
        ConnectKind::Int16 => ("integer", Some("int16")),
        ConnectKind::Int32 => ("integer", Some("int32")),
        ConnectKind::Int64 => ("integer", Some("int64")),
        ConnectKind::Float32 => ("number", Some("float32")),
        ConnectKind::Float64 => ("number", Some("float64")),
        ConnectKind::Text => ("string", None),
        // Base64, exact numbers too.
        ConnectKind::Bytes => ("string", Some("bytes")),
        ConnectKind::Array(item) => {
            json.insert("items".to_owned(), indexed_schema(item, None));
            ("array", None)
        }
        ConnectKind::Struct(fields) => {
            let properties = fields
                .iter()
                .enumerate()
                .map(|(index, field)| (field.name.clone(), indexed_schema(&field.schema, Some(index))));
            json.insert("properties".to_owned(), Value::Object(properties.collect()));
            json.insert("additionalProperties".to_owned(), json!(false));
            ("object", None)
        }
    };
    json.insert("type".to_owned(), json!(type_name));
    if let Some(connect_type) = connect_type {
        json.insert("connect.type".to_owned(), json!(connect_type));
    }
    add_annotations(&mut json, schema);
    json
}

fn add_annotations(json: &mut Map<String, Value>, schema: &ConnectSchema) {
    if let Some(name) = &schema.name {
        json.insert("title".to_owned(), json!(name));
    }
    if let Some(version) = schema.version {
        json.insert("connect.version".to_owned(), json!(version));
    }
    if let Some(doc) = schema.doc {
        json.insert("description".to_owned(), json!(doc));
    }
    if !schema.parameters.is_empty() {
        json.insert("connect.parameters".to_owned(), parameters_object(schema));
    }
    if let Some(default) = default_value(schema) {
        json.insert("default".to_owned(), default);
    }
}
