//! Serialization of values, in the form that is clearest to readers without the table map.

use serde::ser::{Serialize, SerializeSeq as _, SerializeStruct as _, Serializer};

use crate::collation::Collation;
use crate::decimal::Decimal;
use crate::format::Flavour;
use crate::json::{JsonChange, JsonChanges, JsonDocument, JsonQuotes};
use crate::serial;
use crate::value::{TextValue, Value};

/// Serializes integers and floats as numbers; decimals, times and JSON documents as text; text as a string if its bytes
/// are valid (with MySQL's collation numbers); all other values as bytes.
impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::UInt(number) | Self::Set(number) => serializer.serialize_u64(*number),
            Self::Float(number) => serializer.serialize_f32(*number),
            Self::Double(number) => serializer.serialize_f64(*number),
            Self::Decimal(decimal) => decimal.serialize(serializer),
            Self::Date(date) => serializer.collect_str(date),
            Self::Time(time) => serializer.collect_str(time),
            Self::DateTime(date_time) => serializer.collect_str(date_time),
            Self::Timestamp(timestamp) => serializer.collect_str(&timestamp.to_utc()),
            Self::Year(number) | Self::Enum(number) => serializer.serialize_u16(*number),
            Self::Bit(bit) => serializer.serialize_u64(bit.value),
            Self::Text(text) => text.serialize(serializer),
            Self::Bytes(bytes) => serial::bytes(bytes.bytes, serializer),
            Self::Json(document) => document.serialize(serializer),
            Self::JsonChanges(changes) => changes.serialize(serializer),
            Self::Geometry(geometry) => serial::bytes(geometry.bytes, serializer),
            Self::Vector(vector) => serializer.collect_seq(vector.iter()),
            Self::Compressed(value) => serial::bytes(value.bytes, serializer),
        }
    }
}

impl Serialize for Decimal<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for TextValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let charset = Collation::new(self.collation, Flavour::MySql).map(|collation| collation.charset());
        match charset.and_then(|charset| charset.decode(self.bytes).ok()) {
            Some(text) => serializer.serialize_str(&text),
            None => serial::bytes(self.bytes, serializer),
        }
    }
}

impl Serialize for JsonDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = Vec::new();
        match self.write(JsonQuotes::Always, &mut text) {
            Ok(()) => serializer.serialize_str(&String::from_utf8_lossy(&text)),
            Err(_) => serial::bytes(self.bytes(), serializer),
        }
    }
}

impl Serialize for JsonChanges<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        for change in self.iter() {
            sequence.serialize_element(&change)?;
        }
        sequence.end()
    }
}

impl Serialize for JsonChange<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut change = serializer.serialize_struct("JsonChange", 3)?;
        change.serialize_field("kind", &self.kind)?;
        change.serialize_field("path", &String::from_utf8_lossy(self.path))?;
        change.serialize_field("value", &self.value)?;
        change.end()
    }
}

#[cfg(test)]
mod tests {
    use crate::decimal::Decimal;
    use crate::json::{JsonChanges, JsonDocument};
    use crate::temporal::{Time, Timestamp};
    use crate::value::{BitValue, BytesValue, TextValue, Value, VectorValue};

    fn check(value: Value<'_>, expected: &str) {
        assert_eq!(serde_json::to_string(&value).unwrap(), expected, "{value:?}");
    }

    #[test]
    fn values() {
        check(Value::Null, "null");
        check(Value::Int(-1), "-1");
        check(Value::UInt(u64::MAX), "18446744073709551615");
        check(Value::Float(0.1), "0.1");
        check(Value::Decimal(Decimal::new(&[0x7f, 0xfe], 4, 2).unwrap()), "\"-0.01\"");
        check(Value::Time(Time { negative: true, seconds: 1, ..Time::default() }), "\"-00:00:01\"");
        check(Value::Timestamp(Timestamp { seconds: 1, micros: 0, fraction: 0 }), "\"1970-01-01 00:00:01\"");
        check(Value::Year(2024), "2024");
        check(Value::Bit(BitValue { value: 5, bits: 3 }), "5");
        check(Value::Text(TextValue { bytes: b"\xe9", collation: 8 }), "\"é\"");
        check(Value::Text(TextValue { bytes: b"\xe9", collation: 255 }), "{\"base64\":\"6Q==\"}");
        check(Value::Bytes(BytesValue { bytes: b"\0", padding: 3 }), "{\"base64\":\"AA==\"}");
        check(Value::Json(JsonDocument::new(&[5, 1, 0])), "\"1\"");
        check(Value::Json(JsonDocument::new(&[99])), "{\"base64\":\"Yw==\"}");
        let changes = JsonChanges::new(b"\x00\x03$.a\x02\x04\x00\x02\x03$.b").unwrap();
        let expected =
            r#"[{"kind":"Replace","path":"$.a","value":"null"},{"kind":"Remove","path":"$.b","value":null}]"#;
        check(Value::JsonChanges(changes), expected);
        check(Value::Vector(VectorValue { bytes: &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0] }), "[1.0,-2.0]");
    }
}
