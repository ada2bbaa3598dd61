//! Identity of a record in Debezium's envelope: its change, and where the change is in the source's logs.

use serde::Deserialize;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

use crate::record_encoder::REGISTRY_MAGIC;

/// Identity of a record: equal for records of the same change in the same topic, from a connector or from a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordIdentity(u128);

/// Place of a record's change in the source's logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordPlace {
    /// GTID of its transaction.
    Gtid(String),
    /// Position of its event, or of the start of its transaction.
    Position {
        /// File name of the log.
        log: String,
        /// Offset in bytes.
        position: u64,
    },
}

/// Identity and place of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdentifiedRecord {
    pub(crate) identity: RecordIdentity,
    pub(crate) place: RecordPlace,
}

/// A record, as far as its fields tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadRecord {
    /// A change from the source's logs.
    Logged(IdentifiedRecord),
    /// A row or a definition of a snapshot before the changes, or a record of another stream.
    Other,
    /// A record without the fields of Debezium's envelope in JSON, or a row of an incremental snapshot, which can be between
    /// any changes.
    Unknown,
}

/// Fields of a value in Debezium's envelope that identify its change.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RecordFields {
    source: Option<SourceFields>,
    op: Option<String>,
    /// `BEGIN` or `END`, in a record of a transaction's start or end.
    status: Option<String>,
    /// Transaction, in such a record.
    id: Option<String>,
    /// Value after its schema.
    payload: Option<Box<RecordFields>>,
}

/// Fields of the source block.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SourceFields {
    /// Name of the stream.
    name: Option<String>,
    file: Option<String>,
    pos: u64,
    row: u64,
    gtid: Option<String>,
    snapshot: Option<Value>,
}

/// The change of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ReadChange {
    Logged {
        /// The fields that identify the change.
        text: String,
        place: RecordPlace,
    },
    Other,
    #[default]
    Unknown,
}

/// Reader of the identities of a stream's records, in their order within a partition.
#[derive(Debug)]
pub(crate) struct IdentityReader {
    stream: String,
    /// The last record with a value: that of a tombstone's delete.
    last: ReadChange,
}

impl IdentityReader {
    /// Creates a reader for the stream of this name.
    pub(crate) fn new(stream: &str) -> Self {
        Self { stream: stream.to_owned(), last: ReadChange::Unknown }
    }

    /// Identifies a record.
    pub(crate) fn read(&mut self, topic: &str, key: Option<&[u8]>, value: Option<&[u8]>) -> ReadRecord {
        if let Some(value) = value {
            self.last = self.change_of(value);
        }
        let (text, place) = match &self.last {
            ReadChange::Logged { text, place } => (text, place),
            ReadChange::Other => return ReadRecord::Other,
            ReadChange::Unknown => return ReadRecord::Unknown,
        };
        let Some(key) = key_text(key) else { return ReadRecord::Unknown };
        let part = if value.is_some() { "record" } else { "tombstone" };
        let text = format!("{topic}\n{key}\n{text} {part}");
        let identity = RecordIdentity(xxh3_128(text.as_bytes()));
        ReadRecord::Logged(IdentifiedRecord { identity, place: place.clone() })
    }

    /// Returns the change of a value.
    fn change_of(&self, value: &[u8]) -> ReadChange {
        let Ok(mut fields) = serde_json::from_slice::<RecordFields>(without_registry_head(value)) else {
            return ReadChange::Unknown;
        };
        if let Some(payload) = fields.payload.take() {
            fields = *payload;
        }
        let logged = match fields {
            RecordFields { status: Some(status), id: Some(id), .. } => {
                place_of_transaction(&id).map(|place| (format!("{status} {id}"), place))
            }
            RecordFields { source: Some(source), .. }
                if source.name.as_ref().is_some_and(|name| *name != self.stream) =>
            {
                return ReadChange::Other;
            }
            RecordFields { source: Some(source), op, .. } => match source.snapshot_kind() {
                "false" => source.logged_change(op.as_deref()),
                "incremental" => None,
                _ => return ReadChange::Other,
            },
            _ => None,
        };
        logged.map_or(ReadChange::Unknown, |(text, place)| ReadChange::Logged { text, place })
    }
}

impl SourceFields {
    /// Returns the kind of the snapshot, `false` outside of one.
    fn snapshot_kind(&self) -> &str {
        match &self.snapshot {
            None | Some(Value::Null | Value::Bool(false)) => "false",
            Some(kind) => kind.as_str().unwrap_or("true"),
        }
    }

    /// Returns the identifying text and the place of a change; `None` without the log's name.
    fn logged_change(self, op: Option<&str>) -> Option<(String, RecordPlace)> {
        let Self { file, pos, row, gtid, .. } = self;
        let log = file?;
        let text =
            format!("{log} {pos} {row} {} {}", gtid.as_deref().unwrap_or_default(), op.unwrap_or_default());
        let place = gtid.map_or(RecordPlace::Position { log, position: pos }, RecordPlace::Gtid);
        Some((text, place))
    }
}

/// Returns the place of a transaction by its id: a GTID, or `file=LOG,pos=POSITION`.
fn place_of_transaction(id: &str) -> Option<RecordPlace> {
    let Some(rest) = id.strip_prefix("file=") else { return Some(RecordPlace::Gtid(id.to_owned())) };
    let (log, position) = rest.rsplit_once(",pos=")?;
    Some(RecordPlace::Position { log: log.to_owned(), position: position.parse().ok()? })
}

/// Returns the fields of a key as text: the same with and without a schema. A key that is not JSON has none.
fn key_text(key: Option<&[u8]>) -> Option<String> {
    let Some(key) = key else { return Some(String::new()) };
    let mut fields: Value = serde_json::from_slice(without_registry_head(key)).ok()?;
    if let Some(fields) = fields.as_object_mut()
        && fields.contains_key("schema")
        && let Some(payload) = fields.remove("payload")
    {
        return Some(payload.to_string());
    }
    Some(fields.to_string())
}

/// Returns a key or value without the id of its schema in a registry.
fn without_registry_head(bytes: &[u8]) -> &[u8] {
    match bytes {
        [REGISTRY_MAGIC, _, _, _, _, rest @ ..] => rest,
        bytes => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::{IdentityReader, ReadRecord, RecordPlace};

    const ROW: &str = r#"{"before":null,"after":{"a":1},"source":{"file":"b.1","pos":4,"row":0,"gtid":null,"snapshot":"false"},"op":"c"}"#;

    /// Returns the identities of the records of one partition, as numbers: equal ones have the same number. `s` is a record of
    /// a snapshot, `?` an unknown one.
    fn numbers(records: &[(Option<&str>, Option<&str>)]) -> String {
        let (mut reader, mut found) = (IdentityReader::new("shop"), Vec::new());
        records
            .iter()
            .map(|(key, value)| match reader.read("t", key.map(str::as_bytes), value.map(str::as_bytes)) {
                ReadRecord::Logged(record) => {
                    let known = found.iter().position(|identity| *identity == record.identity);
                    let number = known.unwrap_or(found.len());
                    found.push(record.identity);
                    number.to_string()
                }
                ReadRecord::Other => "s".to_owned(),
                ReadRecord::Unknown => "?".to_owned(),
            })
            .collect()
    }

    #[test]
    fn records_of_the_same_change_have_the_same_identity() {
        let with_schema = format!(r#"{{"schema":{{"type":"struct"}},"payload":{ROW}}}"#);
        let with_head = format!("\0\0\0\0\u{7}{ROW}");
        let key = Some(r#"{"id":7}"#);
        let key_with_schema = Some(r#"{"schema":{},"payload":{"id":7}}"#);
        let second = ROW.replace(r#""row":0"#, r#""row":1"#);
        let delete = ROW.replace(r#""op":"c""#, r#""op":"d""#);
        let snapshot = ROW.replace(r#""snapshot":"false""#, r#""snapshot":"last""#);
        let check = |records: &[(Option<&str>, Option<&str>)], expected: &str| {
            assert_eq!(numbers(records), expected, "{records:?}");
        };
        check(&[(key, Some(ROW)), (key, Some(ROW)), (None, Some(ROW))], "002");
        check(&[(key, Some(ROW)), (key_with_schema, Some(&with_schema))], "00");
        check(&[(key, Some(ROW)), (key, Some(&with_head))], "00");
        check(&[(key, Some(ROW)), (Some(r#"{"id":8}"#), Some(ROW)), (key, Some(&second))], "012");
        check(&[(key, Some(ROW)), (key, Some(&delete)), (key, None)], "012");
        check(&[(key, Some(&snapshot)), (key, None), (key, Some("\u{1}avro")), (key, Some("{}"))], "ss??");
        let incremental = ROW.replace(r#""snapshot":"false""#, r#""snapshot":"incremental""#);
        check(&[(key, Some(&incremental)), (key, Some(ROW))], "?0");
        let of_stream = |name: &str| ROW.replace(r#""file""#, &format!(r#""name":"{name}","file""#));
        check(&[(key, Some(&of_stream("shop"))), (key, Some(&of_stream("shop.eu")))], "0s");
        check(&[(Some("\u{1}"), Some(ROW)), (key, Some(r#"{"status":"END","id":"u:7"}"#))], "?0");
    }

    #[test]
    fn places_are_gtids_or_positions() {
        let check = |value: &str, expected: Option<&str>| {
            let place = match IdentityReader::new("shop").read("t", None, Some(value.as_bytes())) {
                ReadRecord::Logged(record) => Some(record.place),
                ReadRecord::Other | ReadRecord::Unknown => None,
            };
            let text = place.map(|place| match place {
                RecordPlace::Gtid(gtid) => gtid,
                RecordPlace::Position { log, position } => format!("{log} {position}"),
            });
            assert_eq!(text.as_deref(), expected, "{value}");
        };
        check(ROW, Some("b.1 4"));
        check(&ROW.replace(r#""gtid":null"#, r#""gtid":"u:7""#), Some("u:7"));
        check(r#"{"status":"BEGIN","id":"u:7","ts_ms":1}"#, Some("u:7"));
        check(r#"{"status":"END","id":"file=b.1,pos=4"}"#, Some("b.1 4"));
        check(r#"{"status":"END","id":"file=b.1,pos=x"}"#, None);
        check(r#"{"source":{"pos":4}}"#, None);
    }
}
