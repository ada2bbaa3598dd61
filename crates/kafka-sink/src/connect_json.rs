//! Schemas in records, as Kafka Connect's JSON converter writes them.

use serde_json::{Map, Value, json};
use stream::{ConnectKind, ConnectSchema};

/// Returns the schema of a record.
pub(crate) fn connect_json(schema: &ConnectSchema) -> Value {
    Value::Object(schema_object(schema))
}

fn schema_object(schema: &ConnectSchema) -> Map<String, Value> {
    let mut json = Map::new();
    json.insert("type".to_owned(), json!(type_name(&schema.kind)));
    match &schema.kind {
        ConnectKind::Array(item) => {
            json.insert("items".to_owned(), connect_json(item));
        }
        ConnectKind::Struct(fields) => {
            let fields = fields.iter().map(|field| {
                let mut json = schema_object(&field.schema);
                json.insert("field".to_owned(), json!(field.name));
                Value::Object(json)
            });
            json.insert("fields".to_owned(), fields.collect());
        }
        _ => {}
    }
    json.insert("optional".to_owned(), json!(schema.is_optional));
    if let Some(name) = &schema.name {
        json.insert("name".to_owned(), json!(name));
    }
    if let Some(version) = schema.version {
        json.insert("version".to_owned(), json!(version));
    }
    if let Some(doc) = schema.doc {
        json.insert("doc".to_owned(), json!(doc));
    }
    if !schema.parameters.is_empty() {
        json.insert("parameters".to_owned(), parameters_object(schema));
    }
    if let Some(default) = default_value(schema) {
        json.insert("default".to_owned(), default);
    }
    json
}

/// Returns the parameters of a type, by name.
pub(crate) fn parameters_object(schema: &ConnectSchema) -> Value {
    schema.parameters.iter().map(|parameter| (parameter.name.to_owned(), json!(parameter.value))).collect()
}

/// Returns the default of a type.
pub(crate) fn default_value(schema: &ConnectSchema) -> Option<Value> {
    schema.default.as_deref().and_then(|text| serde_json::from_str(text).ok())
}

const fn type_name(kind: &ConnectKind) -> &'static str {
    match kind {
        ConnectKind::Boolean => "boolean",
        ConnectKind::Int16 => "int16",
        ConnectKind::Int32 => "int32",
        ConnectKind::Int64 => "int64",
        ConnectKind::Float32 => "float",
        ConnectKind::Float64 => "double",
        ConnectKind::Text => "string",
        ConnectKind::Bytes => "bytes",
        ConnectKind::Array(_) => "array",
        ConnectKind::Struct(_) => "struct",
    }
}
