//! Avro schemas, as Confluent's Avro converter makes them of the schemas of Kafka Connect.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use stream::{ConnectKind, ConnectSchema};

use crate::connect_json::{default_value, parameters_object};

/// Returns the Avro schema of a record. Names are adjusted as Debezium does with `schema.name.adjustment.mode=avro` and
/// `field.name.adjustment.mode=avro`.
pub(crate) fn avro_schema(schema: &ConnectSchema) -> Value {
    AvroSchemaWriter::default().schema(schema, "")
}

/// Returns the index of the value in the union of an optional schema: before or after `null`.
pub(crate) fn value_branch(schema: &ConnectSchema) -> u8 {
    let is_struct = matches!(schema.kind, ConnectKind::Struct(_));
    u8::from(is_struct || schema.default.is_none())
}

/// Writer of one Avro schema.
#[derive(Debug, Default)]
struct AvroSchemaWriter {
    /// Full names of the records so far, which later references name.
    records: HashSet<String>,
}

impl AvroSchemaWriter {
    /// Returns a schema within a namespace.
    fn schema(&mut self, schema: &ConnectSchema, namespace: &str) -> Value {
        let plain = match &schema.kind {
            ConnectKind::Struct(_) => self.record(schema, namespace),
            _ => self.plain(schema, namespace),
        };
        match (schema.is_optional, value_branch(schema)) {
            (false, _) => plain,
            (true, 0) => json!([plain, "null"]),
            (true, _) => json!(["null", plain]),
        }
    }

    fn record(&mut self, schema: &ConnectSchema, outer: &str) -> Value {
        let ConnectKind::Struct(fields) = &schema.kind else { return Value::Null };
        let full_name = adjusted_name(schema.name.as_deref().unwrap_or("ConnectDefault"));
        let (namespace, name) = full_name.rsplit_once('.').unwrap_or(("", &full_name));
        if !self.records.insert(full_name.clone()) {
            return json!(if namespace == outer { name } else { &full_name });
        }
        let fields: Vec<Value> = fields
            .iter()
            .map(|field| {
                let mut avro = Map::new();
                avro.insert("name".to_owned(), json!(adjusted_field(&field.name)));
                avro.insert("type".to_owned(), self.schema(&field.schema, namespace));
                if let Some(default) = avro_default(&field.schema) {
                    avro.insert("default".to_owned(), default);
                } else if field.schema.is_optional {
                    avro.insert("default".to_owned(), Value::Null);
                }
                Value::Object(avro)
            })
            .collect();
        let mut avro = Map::new();
        avro.insert("type".to_owned(), json!("record"));
        avro.insert("name".to_owned(), json!(name));
        if namespace != outer {
            avro.insert("namespace".to_owned(), json!(namespace));
        }
        avro.insert("fields".to_owned(), json!(fields));
        add_properties(&mut avro, schema);
        Value::Object(avro)
    }

    /// Returns the schema of a value other than a struct.
    fn plain(&mut self, schema: &ConnectSchema, namespace: &str) -> Value {
        let mut avro = Map::new();
        avro.insert("type".to_owned(), json!(type_name(&schema.kind)));
        if let ConnectKind::Array(item) = &schema.kind {
            avro.insert("items".to_owned(), self.schema(item, namespace));
        }
        add_properties(&mut avro, schema);
        if schema.kind == ConnectKind::Int16 {
            avro.insert("connect.type".to_owned(), json!("int16"));
        }
        add_logical_type(&mut avro, schema);
        match avro.len() {
            1 => json!(type_name(&schema.kind)),
            _ => Value::Object(avro),
        }
    }
}

const fn type_name(kind: &ConnectKind) -> &'static str {
    match kind {
        ConnectKind::Boolean => "boolean",
        ConnectKind::Int16 | ConnectKind::Int32 => "int",
        ConnectKind::Int64 => "long",
        ConnectKind::Float32 => "float",
        ConnectKind::Float64 => "double",
        ConnectKind::Text => "string",
        ConnectKind::Bytes => "bytes",
        ConnectKind::Array(_) => "array",
        ConnectKind::Struct(_) => "record",
    }
}

fn add_properties(avro: &mut Map<String, Value>, schema: &ConnectSchema) {
    if let Some(doc) = schema.doc {
        avro.insert("connect.doc".to_owned(), json!(doc));
    }
    if let Some(version) = schema.version {
        avro.insert("connect.version".to_owned(), json!(version));
    }
    if !schema.parameters.is_empty() {
        avro.insert("connect.parameters".to_owned(), parameters_object(schema));
    }
    if let Some(default) = avro_default(schema) {
        avro.insert("connect.default".to_owned(), default);
    }
    if let Some(name) = &schema.name {
        avro.insert("connect.name".to_owned(), json!(adjusted_name(name)));
    }
}

/// Adds Avro's own name of a type of Kafka Connect.
fn add_logical_type(avro: &mut Map<String, Value>, schema: &ConnectSchema) {
    let logical_type = match schema.name.as_deref() {
        Some("org.apache.kafka.connect.data.Decimal") => "decimal",
        Some("org.apache.kafka.connect.data.Date") => "date",
        Some("org.apache.kafka.connect.data.Time") => "time-millis",
        Some("org.apache.kafka.connect.data.Timestamp") => "timestamp-millis",
        _ => return,
    };
    avro.insert("logicalType".to_owned(), json!(logical_type));
    let number = |name: &str| {
        let parameter = schema.parameters.iter().find(|parameter| parameter.name == name)?;
        parameter.value.parse::<u32>().ok()
    };
    for (property, parameter) in [("scale", "scale"), ("precision", "connect.decimal.precision")] {
        if let Some(number) = number(parameter) {
            avro.insert(property.to_owned(), json!(number));
        }
    }
}

/// Returns the default value in Avro's form, which has bytes as characters.
fn avro_default(schema: &ConnectSchema) -> Option<Value> {
    let value = default_value(schema)?;
    match (&schema.kind, value) {
        (ConnectKind::Bytes, Value::String(text)) => {
            let bytes = base64_simd::STANDARD.decode_to_vec(text).ok()?;
            Some(Value::String(bytes.into_iter().map(char::from).collect()))
        }
        (_, value) => Some(value),
    }
}

/// Replaces characters that Avro does not allow in full names.
fn adjusted_name(name: &str) -> String {
    name.split('.').map(adjusted_field).collect::<Vec<String>>().join(".")
}

/// Replaces characters that Avro does not allow in the name of a field by `_`. A digit at the start gets a `_` before it.
pub(crate) fn adjusted_field(name: &str) -> String {
    let mut adjusted = String::with_capacity(name.len() + 1);
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        adjusted.push('_');
    }
    // Like Java, by UTF-16 code unit.
    for unit in name.encode_utf16() {
        let allowed = char::from_u32(unit.into()).filter(|c| c.is_ascii_alphanumeric());
        adjusted.push(allowed.unwrap_or('_'));
    }
    adjusted
}
