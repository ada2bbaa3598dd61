//! Serialization of byte strings.
//!
//! | bytes | in JSON and other text formats | in binary formats |
//! |---|---|---|
//! | names, statements, messages (mostly UTF-8) | a string; `{"base64": "…"}` if not UTF-8 | a string or bytes |
//! | all others | `{"base64": "…"}` | bytes |
//! | identifiers: GTIDs, GTID sets, XIDs | a string in MySQL's form | the same |

use base64_simd::STANDARD;
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};

use crate::events::{ColumnSet, DatabaseNames, MariadbGtid, MariadbGtidList, StatusVars, XaXid};
use crate::gtid::{Gtid, GtidSet, Tsid};

/// Serializes bytes that are not text.
pub(crate) fn bytes<S: Serializer>(value: impl AsRef<[u8]>, out: S) -> Result<S::Ok, S::Error> {
    if !out.is_human_readable() {
        return out.serialize_bytes(value.as_ref());
    }
    let mut map = out.serialize_map(Some(1))?;
    map.serialize_entry("base64", &STANDARD.encode_to_string(value.as_ref()))?;
    map.end()
}

/// Serializes bytes that are text.
pub(crate) fn text<S: Serializer>(value: impl AsRef<[u8]>, out: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(value.as_ref()) {
        Ok(text) => out.serialize_str(text),
        Err(_) => bytes(value, out),
    }
}

/// Serializes text that ends at the first zero byte.
pub(crate) fn padded_text<S: Serializer>(value: impl AsRef<[u8]>, out: S) -> Result<S::Ok, S::Error> {
    let value = value.as_ref();
    text(value.split(|byte| *byte == 0).next().unwrap_or_default(), out)
}

/// Serializes optional bytes that are not text.
pub(crate) fn optional_bytes<S: Serializer>(value: &Option<&[u8]>, out: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => bytes(value, out),
        None => out.serialize_none(),
    }
}

/// Serializes an encoded GTID set.
pub(crate) fn encoded_gtid_set<S: Serializer>(value: &&[u8], out: S) -> Result<S::Ok, S::Error> {
    match GtidSet::decode(value) {
        Ok(set) => out.collect_str(&set),
        Err(_) => bytes(value, out),
    }
}

impl Serialize for Tsid {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl Serialize for Gtid {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl Serialize for MariadbGtid {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl Serialize for XaXid<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

/// Serializes each decoded variable; if one cannot be decoded, serializes all of them as bytes.
impl Serialize for StatusVars<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self.iter().collect::<Result<Vec<_>, _>>() {
            Ok(vars) => out.collect_seq(vars),
            Err(_) => bytes(self.bytes, out),
        }
    }
}

impl Serialize for ColumnSet<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        bytes(self.bits, out)
    }
}

impl Serialize for DatabaseNames<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.iter().map(SerializedText))
    }
}

impl Serialize for MariadbGtidList<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut list = out.serialize_struct("MariadbGtidList", 2)?;
        list.serialize_field("count_and_flags", &self.count_and_flags)?;
        list.serialize_field("gtids", &self.iter().collect::<Vec<MariadbGtid>>())?;
        list.end()
    }
}

struct SerializedText<'a>(&'a [u8]);

impl Serialize for SerializedText<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        text(self.0, out)
    }
}
