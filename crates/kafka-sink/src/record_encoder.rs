//! Keys and values of records in the chosen formats.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use stream::{ConnectSchema, KeyedRecordKind, RecordSchemas, RecordTable};

use crate::avro_encoder::put_avro;
use crate::avro_schema::avro_schema;
use crate::connect_json::connect_json;
use crate::error::KafkaSinkError;
use crate::json_schema::json_schema;
use crate::record_format::{RecordFormat, RecordFormats};
use crate::schema_registry::{SchemaLanguage, SchemaRegistry, SubjectSchema};

/// First byte of a key or value whose schema is in a registry. The id of the schema follows, in four bytes.
pub(crate) const REGISTRY_MAGIC: u8 = 0;

/// Encoder of keys and values.
#[derive(Debug)]
pub(crate) struct RecordEncoder {
    formats: RecordFormats,
    registry: Option<SchemaRegistry>,
    /// By number. A table has a further one after each change of its definition.
    encodings: Vec<RecordEncoding>,
    /// Latest encoding of each origin of records.
    latest: HashMap<RecordOrigin, LatestEncoding>,
}

/// Origin of records: a topic, and a table if the topic has several ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordOrigin {
    /// Number of the topic.
    pub(crate) topic: usize,
    /// Number of the table; `None` for a topic that no tables share.
    pub(crate) routed: Option<usize>,
}

/// Latest encoding of the records of an origin.
#[derive(Debug)]
struct LatestEncoding {
    number: usize,
    /// Table of the rows.
    table: Option<Arc<RecordTable>>,
}

/// Encoding of the records of a topic.
#[derive(Debug)]
struct RecordEncoding {
    key: PartEncoding,
    value: PartEncoding,
}

/// Encoding of keys or values.
#[derive(Debug)]
enum PartEncoding {
    /// As they are.
    Json,
    /// With the schema before them.
    JsonWithSchema {
        schema: String,
    },
    Avro {
        id: u32,
        schema: ConnectSchema,
    },
    JsonSchema {
        id: u32,
    },
}

/// Encoded key and value of a record. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct EncodedRecord {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl RecordEncoder {
    pub(crate) fn new(formats: RecordFormats, registry: Option<SchemaRegistry>) -> Self {
        Self { formats, registry, encodings: Vec::new(), latest: HashMap::new() }
    }

    /// Returns the number of the encoding of a kind of records in a topic, which has this name. Registers its schemas if they are new.
    pub(crate) fn encoding_of(
        &mut self,
        kind: &KeyedRecordKind,
        origin: RecordOrigin,
        topic_name: &str,
    ) -> Result<usize, KafkaSinkError> {
        let table = match kind {
            KeyedRecordKind::Row(table) => Some(table),
            _ => None,
        };
        if let Some(latest) = self.latest.get_mut(&origin) {
            let is_same = match (table, &latest.table) {
                (Some(table), Some(known)) => Arc::ptr_eq(table, known) || table == known,
                _ => true,
            };
            if is_same {
                latest.table = table.cloned();
                return Ok(latest.number);
            }
        }
        let RecordSchemas { key, value } = RecordSchemas::of(kind, topic_name);
        let key = match key {
            Some(key) => self.part_encoding(self.formats.key, key, &format!("{topic_name}-key"))?,
            None => PartEncoding::Json,
        };
        let value = self.part_encoding(self.formats.value, value, &format!("{topic_name}-value"))?;
        let number = self.encodings.len();
        self.encodings.push(RecordEncoding { key, value });
        self.latest.insert(origin, LatestEncoding { number, table: table.cloned() });
        Ok(number)
    }

    fn part_encoding(
        &self,
        format: RecordFormat,
        schema: ConnectSchema,
        subject: &str,
    ) -> Result<PartEncoding, KafkaSinkError> {
        Ok(match format {
            RecordFormat::Json => PartEncoding::Json,
            RecordFormat::JsonWithSchema => {
                PartEncoding::JsonWithSchema { schema: connect_json(&schema).to_string() }
            }
            RecordFormat::Avro => {
                let id = self.register(subject, SchemaLanguage::Avro, &avro_schema(&schema))?;
                PartEncoding::Avro { id, schema }
            }
            RecordFormat::JsonSchema => PartEncoding::JsonSchema {
                id: self.register(subject, SchemaLanguage::JsonSchema, &json_schema(&schema))?,
            },
        })
    }

    fn register(
        &self,
        subject: &str,
        language: SchemaLanguage,
        schema: &Value,
    ) -> Result<u32, KafkaSinkError> {
        let registry = self.registry.as_ref().expect("ours: these formats come with a registry");
        registry.register(SubjectSchema { subject, language, schema })
    }

    /// Encodes a key and a value by the encoding of this number. An absent one stays empty.
    pub(crate) fn encode(
        &self,
        number: usize,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        encoded: &mut EncodedRecord,
    ) -> Result<(), serde_json::Error> {
        let encoding = &self.encodings[number];
        encoded.key.clear();
        encoded.value.clear();
        if let Some(key) = key {
            encoding.key.put(&mut encoded.key, key)?;
        }
        match value {
            Some(value) => encoding.value.put(&mut encoded.value, value),
            None => Ok(()),
        }
    }
}

impl PartEncoding {
    fn put(&self, out: &mut Vec<u8>, json: &[u8]) -> Result<(), serde_json::Error> {
        match self {
            Self::Json => out.extend_from_slice(json),
            Self::JsonWithSchema { schema } => {
                let parts = [b"{\"schema\":", schema.as_bytes(), b",\"payload\":", json, b"}"];
                parts.into_iter().for_each(|part| out.extend_from_slice(part));
            }
            Self::Avro { id, schema } => {
                put_schema_id(out, *id);
                put_avro(out, schema, json)?;
            }
            Self::JsonSchema { id } => {
                put_schema_id(out, *id);
                out.extend_from_slice(json);
            }
        }
        Ok(())
    }
}

// size  field
//    1  0
//    4  number of the schema, big-endian
//    *  key or value
fn put_schema_id(out: &mut Vec<u8>, id: u32) {
    out.push(REGISTRY_MAGIC);
    out.extend_from_slice(&id.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;
    use stream::{ColumnRules, DdlSchema, KeyedRecordKind, RecordSchemas, RecordTable, ValueModes};

    use super::{EncodedRecord, RecordEncoder, RecordOrigin};
    use crate::avro_schema::avro_schema;
    use crate::connect_json::connect_json;
    use crate::record_format::{RecordFormat, RecordFormats};

    const TABLES: &str = include_str!("../tests/debezium/tables.sql");
    /// Schemas of Debezium's records of these tables. `cargo xtask judge debezium` compares them with Debezium's again.
    const SCHEMAS: &str = include_str!("../tests/debezium/schemas.jsonl");

    /// Returns the kind of records with this name, and their topic.
    fn kind(definitions: &DdlSchema, name: &str) -> (KeyedRecordKind, String) {
        match name {
            "transaction" => (KeyedRecordKind::Transaction, "bintide.transaction".to_owned()),
            "heartbeat" => (KeyedRecordKind::Heartbeat, "__debezium-heartbeat.bintide".to_owned()),
            "definition" => (KeyedRecordKind::Definition, "bintide".to_owned()),
            table => {
                let (database, name) = table.split_once('.').unwrap();
                let definition = definitions.table(database, name).unwrap();
                let (modes, rules) = (ValueModes::default(), ColumnRules::default());
                let table = RecordTable::of_definition([database, name], definition, modes, &rules);
                let topic = format!("bintide.{database}.{}", name.replace('ä', "_"));
                (KeyedRecordKind::Row(Arc::new(table)), topic)
            }
        }
    }

    /// Compares schemas, by part.
    fn compare(name: &str, ours: &Value, theirs: &Value) {
        match (ours, theirs) {
            (Value::Object(ours), Value::Object(theirs)) => {
                assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{name}");
                ours.iter().for_each(|(key, ours)| compare(&format!("{name}.{key}"), ours, &theirs[key]));
            }
            (Value::Array(ours), Value::Array(theirs)) => {
                assert_eq!(ours.len(), theirs.len(), "{name}");
                let pairs = ours.iter().zip(theirs).enumerate();
                pairs.for_each(|(index, (ours, theirs))| compare(&format!("{name}.{index}"), ours, theirs));
            }
            _ => assert_eq!(ours, theirs, "{name}"),
        }
    }

    #[test]
    fn schemas_are_those_of_debezium() {
        let definitions = DdlSchema::parse(TABLES);
        for line in SCHEMAS.lines() {
            let theirs: Value = serde_json::from_str(line).unwrap();
            let name = theirs["name"].as_str().unwrap();
            let (kind, topic) = kind(&definitions, name);
            let RecordSchemas { key, value } = RecordSchemas::of(&kind, &topic);
            // Debezium's JSON converter also gets the names that Avro allows.
            if !name.contains("odd") {
                let key = key.as_ref().map_or(Value::Null, connect_json);
                compare(&format!("{name} key"), &key, &theirs["key"]);
                compare(&format!("{name} value"), &connect_json(&value), &theirs["value"]);
            }
            let key = key.as_ref().map_or(Value::Null, avro_schema);
            compare(&format!("{name} Avro key"), &key, &theirs["avroKey"]);
            compare(&format!("{name} Avro value"), &avro_schema(&value), &theirs["avroValue"]);
        }
    }

    #[test]
    fn schemas_stand_before_their_values() {
        let formats = RecordFormats { key: RecordFormat::Json, value: RecordFormat::JsonWithSchema };
        let mut encoder = RecordEncoder::new(formats, None);
        let origin = RecordOrigin { topic: 0, routed: None };
        let number = encoder.encoding_of(&KeyedRecordKind::Heartbeat, origin, "beats").unwrap();
        let mut encoded = EncodedRecord::default();
        encoder
            .encode(number, Some(b"{\"serverName\":\"x\"}"), Some(b"{\"ts_ms\":7}"), &mut encoded)
            .unwrap();
        assert_eq!(encoded.key, b"{\"serverName\":\"x\"}");
        let value: Value = serde_json::from_slice(&encoded.value).unwrap();
        assert_eq!((&value["payload"]["ts_ms"], &value["schema"]["type"]), (&7.into(), &"struct".into()));
    }
}
