//! Records in Avro's binary form, encoded from their JSON.
//!
//! The crate `apache-avro` would build a tree of each record first. This code writes the bytes while it reads the JSON.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use stream::{ConnectField, ConnectKind, ConnectSchema};

use crate::avro_schema::value_branch;

/// Appends a record to `out`. Its fields must be in the order of the schema; others are left out.
///
/// # Errors
///
/// Fails if the record does not have the values that the schema requires.
pub(crate) fn put_avro(
    out: &mut Vec<u8>,
    schema: &ConnectSchema,
    json: &[u8],
) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    AvroValue { out, schema }.deserialize(&mut reader)?;
    reader.end()
}

/// A value to encode.
struct AvroValue<'v> {
    out: &'v mut Vec<u8>,
    schema: &'v ConnectSchema,
}

impl<'de> DeserializeSeed<'de> for AvroValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl AvroValue<'_> {
    /// Starts a value that is not null.
    fn begin(&mut self) {
        if self.schema.is_optional {
            put_long(self.out, value_branch(self.schema).into());
        }
    }

    fn mismatch<E: Error>(&self, found: &str) -> E {
        E::custom(format_args!("found {found}, expected {}", kind_name(&self.schema.kind)))
    }

    fn put_number<E: Error>(mut self, number: f64) -> Result<(), E> {
        self.begin();
        match self.schema.kind {
            ConnectKind::Float32 => self.out.extend_from_slice(&(number as f32).to_le_bytes()),
            ConnectKind::Float64 => self.out.extend_from_slice(&number.to_le_bytes()),
            _ => return Err(self.mismatch(NUMBER)),
        }
        Ok(())
    }
}

const BOOLEAN: &str = "a boolean";
const NUMBER: &str = "a number";
const TEXT: &str = "a string";
const ARRAY: &str = "an array";
const OBJECT: &str = "an object";

/// Returns the name of the values of a schema, for errors.
fn kind_name(kind: &ConnectKind) -> &'static str {
    match kind {
        ConnectKind::Boolean => BOOLEAN,
        ConnectKind::Int16 | ConnectKind::Int32 | ConnectKind::Int64 => "an integer",
        ConnectKind::Float32 | ConnectKind::Float64 => NUMBER,
        ConnectKind::Text => TEXT,
        ConnectKind::Bytes => "a base64 string",
        ConnectKind::Array(_) => ARRAY,
        ConnectKind::Struct(_) => OBJECT,
    }
}

impl<'de> Visitor<'de> for AvroValue<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(kind_name(&self.schema.kind))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        if !self.schema.is_optional {
            return Err(E::custom("null, although the schema requires a value"));
        }
        put_long(self.out, (1 - value_branch(self.schema)).into());
        Ok(())
    }

    fn visit_bool<E: Error>(mut self, truth: bool) -> Result<(), E> {
        self.begin();
        match self.schema.kind {
            ConnectKind::Boolean => self.out.push(truth.into()),
            _ => return Err(self.mismatch(BOOLEAN)),
        }
        Ok(())
    }

    fn visit_i64<E: Error>(mut self, number: i64) -> Result<(), E> {
        let is_small = matches!(self.schema.kind, ConnectKind::Int16 | ConnectKind::Int32);
        if is_small && i32::try_from(number).is_err() {
            return Err(E::custom(format!("{number} does not fit into 32 bits")));
        }
        match self.schema.kind {
            ConnectKind::Int16 | ConnectKind::Int32 | ConnectKind::Int64 => {
                self.begin();
                put_long(self.out, number);
                Ok(())
            }
            _ => self.put_number(number as f64),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => match self.schema.kind {
                ConnectKind::Int16 | ConnectKind::Int32 => {
                    Err(E::custom(format!("{number} does not fit into 32 bits")))
                }
                ConnectKind::Int64 => Err(E::custom(format!("{number} does not fit into 64 bits"))),
                _ => self.put_number(number as f64),
            },
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.put_number(number)
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.begin();
        match self.schema.kind {
            ConnectKind::Text => {
                put_long(self.out, text.len() as i64);
                self.out.extend_from_slice(text.as_bytes());
                Ok(())
            }
            ConnectKind::Bytes => {
                let size = base64_simd::STANDARD.decoded_length(text.as_bytes()).map_err(E::custom)?;
                put_long(self.out, size as i64);
                base64_simd::STANDARD.decode_append(text, self.out).map_err(E::custom)
            }
            _ => Err(self.mismatch(TEXT)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.begin();
        let ConnectKind::Array(schema) = &self.schema.kind else {
            return Err(self.mismatch(ARRAY));
        };
        let (mut bytes, mut count) = (Vec::new(), 0);
        while items.next_element_seed(AvroValue { out: &mut bytes, schema })?.is_some() {
            count += 1;
        }
        if count > 0 {
            put_long(self.out, count);
            self.out.extend_from_slice(&bytes);
        }
        put_long(self.out, 0);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        self.begin();
        let ConnectKind::Struct(fields) = &self.schema.kind else {
            return Err(self.mismatch(OBJECT));
        };
        let mut left = &fields[..];
        while let Some(found) = entries.next_key_seed(FieldIndex(left))? {
            let Some(index) = found else {
                entries.next_value::<IgnoredAny>()?;
                continue;
            };
            put_missing(self.out, &left[..index])?;
            entries.next_value_seed(AvroValue { out: self.out, schema: &left[index].schema })?;
            left = &left[index + 1..];
        }
        put_missing(self.out, left)
    }
}

/// Index of a field's name among the fields that are left; `None` for another name.
struct FieldIndex<'f>(&'f [ConnectField]);

impl<'de> DeserializeSeed<'de> for FieldIndex<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Option<usize>, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldIndex<'_> {
    type Value = Option<usize>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|field| field.name == name))
    }
}

/// Encodes fields that the JSON lacks, as null.
fn put_missing<E: Error>(out: &mut Vec<u8>, fields: &[ConnectField]) -> Result<(), E> {
    for ConnectField { name, schema } in fields {
        if !schema.is_optional {
            return Err(E::custom(format_args!(
                "the field {name} has no value, although the schema requires one"
            )));
        }
        put_long(out, (1 - value_branch(schema)).into());
    }
    Ok(())
}

/// Appends a number in zigzag form, seven bits a byte, least significant bits first.
fn put_long(out: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use stream::{ConnectKind, ConnectSchema, KeyedRecordKind, RecordSchemas};

    use super::{put_avro, put_long};

    #[test]
    fn numbers_are_zigzag() {
        let check = |number, expected: &[u8]| {
            let mut out = Vec::new();
            put_long(&mut out, number);
            assert_eq!(out, expected, "{number}");
        };
        check(0, &[0]);
        check(-1, &[1]);
        check(64, &[0x80, 1]);
        check(i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        check(i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    }

    #[test]
    fn doubles_are_exact() {
        let schema = ConnectSchema::new(ConnectKind::Float64);
        for number in [51.248178375505404_f64, 97.45365320034685] {
            let mut out = Vec::new();
            put_avro(&mut out, &schema, number.to_string().as_bytes()).unwrap();
            assert_eq!(out, number.to_le_bytes(), "{number}");
        }
    }

    #[test]
    fn fields_are_written_in_the_order_of_the_schema() {
        let schema = RecordSchemas::of(&KeyedRecordKind::Transaction, "t").value;
        let check = |json: &str, expected: &[u8]| {
            let mut out = Vec::new();
            put_avro(&mut out, &schema, json.as_bytes()).unwrap();
            assert_eq!(out, expected, "{json}");
        };
        // `resume` has no field. An absent field is null, if the schema allows that.
        let begin = r#"{"status":"BEGIN","id":"x","ts_ms":1,"resume":"y"}"#;
        check(begin, b"\x0aBEGIN\x02x\x00\x00\x02");
        let end = r#"{"status":"E","id":"\u00e9","event_count":2,"data_collections":[{"data_collection":"t","event_count":2}],"ts_ms":1}"#;
        check(end, b"\x02E\x04\xc3\xa9\x02\x04\x02\x02\x02\x02t\x04\x00\x02");
    }

    #[test]
    fn values_must_match_their_schema() {
        let check = |schema: &ConnectSchema, json: &str, expected: &str| {
            let error = put_avro(&mut Vec::new(), schema, json.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), expected, "{json}");
        };
        let of = ConnectSchema::new;
        check(&of(ConnectKind::Boolean), "7", "found a number, expected a boolean at line 1 column 1");
        check(&of(ConnectKind::Text), "true", "found a boolean, expected a string at line 1 column 4");
        check(&of(ConnectKind::Int64), "\"7\"", "found a string, expected an integer at line 1 column 3");
        check(&of(ConnectKind::Float64), "[7]", "found an array, expected a number at line 1 column 1");
        check(&of(ConnectKind::Bytes), "{}", "found an object, expected a base64 string at line 1 column 2");
        check(
            &of(ConnectKind::Int32),
            "2147483648",
            "2147483648 does not fit into 32 bits at line 1 column 10",
        );
        let large = "18446744073709551615";
        check(
            &of(ConnectKind::Int64),
            large,
            &format!("{large} does not fit into 64 bits at line 1 column 20"),
        );
        check(
            &of(ConnectKind::Int16),
            large,
            &format!("{large} does not fit into 32 bits at line 1 column 20"),
        );
        let schema = RecordSchemas::of(&KeyedRecordKind::Transaction, "t").value;
        check(
            &schema,
            r#"{"status":null,"id":"x","ts_ms":1}"#,
            "null, although the schema requires a value at line 1 column 14",
        );
        check(
            &schema,
            r#"{"status":"E","id":"x"}"#,
            "the field ts_ms has no value, although the schema requires one at line 1 column 23",
        );
    }
}
