//! Building of the array of one column.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, ListBuilder, PrimitiveBuilder, StringBuilder, UInt32Builder};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, DictionaryArray, StringArray, StructArray};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType, Field};
use binlog::{
    BytesValue, Charset, Date, DecodeError, DecodeReason, GeometryValue, JsonDocument, JsonHexDigits,
    JsonQuotes, Time, Timestamp, Value, put_json_escaped,
};

use crate::change_schema::{SchemaColumn, geometry_fields};
use crate::decimal_number;

/// Maximum size in bytes of a text after its conversion to UTF-8, and of a decompressed value.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 30;

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// Reusable buffer, and the number of bytes of variable size that were appended to arrays.
#[derive(Debug, Default)]
pub(crate) struct ValueScratch {
    /// Exact text of a value that its array cannot hold.
    pub(crate) text: Vec<u8>,
    /// Bytes of texts, documents and members since the arrays were started.
    pub(crate) bytes: usize,
}

/// Last year of MySQL's dates.
const YEAR_MAX: u16 = 9999;

/// Result of appending a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendResult {
    /// The array has the value.
    Whole,
    /// The array has null or an approximation. The exact text is in the scratch buffer.
    Inexact,
}

/// Builder of the array of one column.
#[derive(Debug)]
pub(crate) struct ValueBuilder {
    column: SchemaColumn,
    array: ArrayBuilder,
}

/// Array under construction, by its Arrow type.
#[derive(Debug)]
enum ArrayBuilder {
    Int8(PrimitiveBuilder<Int8Type>),
    Int16(PrimitiveBuilder<Int16Type>),
    Int32(PrimitiveBuilder<Int32Type>),
    Int64(PrimitiveBuilder<Int64Type>),
    UInt8(PrimitiveBuilder<UInt8Type>),
    UInt16(PrimitiveBuilder<UInt16Type>),
    UInt32(PrimitiveBuilder<UInt32Type>),
    UInt64(PrimitiveBuilder<UInt64Type>),
    Float32(PrimitiveBuilder<Float32Type>),
    Float64(PrimitiveBuilder<Float64Type>),
    Decimal128(PrimitiveBuilder<Decimal128Type>),
    Decimal256(PrimitiveBuilder<Decimal256Type>),
    Date(PrimitiveBuilder<Date32Type>),
    Time(PrimitiveBuilder<Time64MicrosecondType>),
    Timestamp(PrimitiveBuilder<TimestampMicrosecondType>),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Enum(PrimitiveBuilder<Int32Type>),
    Set(ListBuilder<StringBuilder>),
    Geometry(GeometryBuilder),
    Vector(ListBuilder<PrimitiveBuilder<Float32Type>>),
}

/// Geometries under construction.
#[derive(Debug)]
struct GeometryBuilder {
    srid: UInt32Builder,
    wkb: BinaryBuilder,
    nulls: NullBufferBuilder,
}

impl ValueBuilder {
    pub(crate) fn new(column: SchemaColumn) -> Self {
        let array = ArrayBuilder::new(&column);
        Self { column, array }
    }

    pub(crate) fn name(&self) -> &str {
        &self.column.name
    }

    pub(crate) fn append_nulls(&mut self, count: usize) {
        match &mut self.array {
            ArrayBuilder::Int8(array) => array.append_nulls(count),
            ArrayBuilder::Int16(array) => array.append_nulls(count),
            ArrayBuilder::Int32(array) | ArrayBuilder::Enum(array) => array.append_nulls(count),
            ArrayBuilder::Int64(array) => array.append_nulls(count),
            ArrayBuilder::UInt8(array) => array.append_nulls(count),
            ArrayBuilder::UInt16(array) => array.append_nulls(count),
            ArrayBuilder::UInt32(array) => array.append_nulls(count),
            ArrayBuilder::UInt64(array) => array.append_nulls(count),
            ArrayBuilder::Float32(array) => array.append_nulls(count),
            ArrayBuilder::Float64(array) => array.append_nulls(count),
            ArrayBuilder::Decimal128(array) => array.append_nulls(count),
            ArrayBuilder::Decimal256(array) => array.append_nulls(count),
            ArrayBuilder::Date(array) => array.append_nulls(count),
            ArrayBuilder::Time(array) => array.append_nulls(count),
            ArrayBuilder::Timestamp(array) => array.append_nulls(count),
            ArrayBuilder::Text(array) => array.append_nulls(count),
            ArrayBuilder::Bytes(array) => array.append_nulls(count),
            ArrayBuilder::Set(array) => array.append_nulls(count),
            ArrayBuilder::Vector(array) => array.append_nulls(count),
            ArrayBuilder::Geometry(array) => (0..count).for_each(|_| array.append(None)),
        }
    }

    /// Appends a value. If the array cannot hold it, `scratch` then has its exact text.
    #[inline]
    pub(crate) fn append(
        &mut self,
        value: &Value<'_>,
        scratch: &mut ValueScratch,
    ) -> Result<AppendResult, DecodeError> {
        match (&mut self.array, value) {
            (ArrayBuilder::Int32(array), Value::Int(number)) => array.append_value(*number as i32),
            (ArrayBuilder::Int64(array), Value::Int(number)) => array.append_value(*number),
            (ArrayBuilder::Text(array), Value::Text(text)) => {
                let charset = self.column.charset.unwrap_or(Charset::Utf8mb4);
                return append_text(array, charset, text.bytes, scratch);
            }
            (_, Value::Null) => self.append_nulls(1),
            (ArrayBuilder::Int8(array), Value::Int(number)) => array.append_value(*number as i8),
            (ArrayBuilder::Int16(array), Value::Int(number)) => array.append_value(*number as i16),
            (ArrayBuilder::UInt8(array), Value::UInt(number)) => array.append_value(*number as u8),
            (ArrayBuilder::UInt16(array), Value::UInt(number)) => array.append_value(*number as u16),
            (ArrayBuilder::UInt32(array), Value::UInt(number)) => array.append_value(*number as u32),
            (ArrayBuilder::UInt64(array), Value::UInt(number)) => array.append_value(*number),
            (ArrayBuilder::Float32(array), Value::Float(number)) => array.append_value(*number),
            (ArrayBuilder::Float64(array), Value::Double(number)) => array.append_value(*number),
            (ArrayBuilder::Decimal128(array), Value::Decimal(number)) => {
                array.append_value(decimal_number::to_i128(number));
            }
            (ArrayBuilder::Bytes(array), Value::Bytes(bytes)) => append_bytes(array, bytes, scratch),
            (ArrayBuilder::Date(array), Value::Date(date)) => match day_number(*date) {
                Some(day) => array.append_value(day),
                None => return self.append_rare(value, scratch),
            },
            _ => return self.append_rare(value, scratch),
        }
        Ok(AppendResult::Whole)
    }

    fn append_rare(
        &mut self,
        value: &Value<'_>,
        scratch: &mut ValueScratch,
    ) -> Result<AppendResult, DecodeError> {
        match (&mut self.array, value) {
            (ArrayBuilder::Decimal256(array), Value::Decimal(number)) => {
                array.append_value(decimal_number::to_i256(number));
            }
            (ArrayBuilder::Text(array), Value::Decimal(number)) => array.append_value(number.to_string()),
            (ArrayBuilder::Date(array), Value::Date(date)) => {
                return Ok(append_or_text(array, day_number(*date), scratch, |out| date.write(out)));
            }
            (ArrayBuilder::Timestamp(array), Value::DateTime(moment)) => {
                let micros = moment.epoch_micros().filter(|_| moment.date.year <= YEAR_MAX);
                return Ok(append_or_text(array, micros, scratch, |out| moment.write(out)));
            }
            (ArrayBuilder::Timestamp(array), Value::Timestamp(moment)) => {
                return Ok(append_or_text(array, point_in_time(moment), scratch, |out| {
                    moment.to_utc().write(out);
                }));
            }
            (ArrayBuilder::Time(array), Value::Time(time)) => {
                return Ok(append_or_text(array, time_of_day(time), scratch, |out| time.write(out)));
            }
            (ArrayBuilder::UInt16(array), Value::Year(number) | Value::Enum(number)) => {
                array.append_value(*number);
            }
            (ArrayBuilder::UInt64(array), Value::Bit(bit)) => array.append_value(bit.value),
            (ArrayBuilder::UInt64(array), Value::Set(bits)) => array.append_value(*bits),
            (ArrayBuilder::Enum(array), Value::Enum(number)) => {
                return append_enum(array, &self.column.members, *number, scratch);
            }
            (ArrayBuilder::Set(array), Value::Set(bits)) => {
                append_set(array, &self.column.members, *bits, scratch)?;
            }
            (ArrayBuilder::Text(array), Value::Json(document)) => append_document(array, document, scratch)?,
            (ArrayBuilder::Geometry(array), Value::Geometry(geometry)) => {
                return array.append_or_hex(geometry, scratch);
            }
            (ArrayBuilder::Vector(array), Value::Vector(vector)) => {
                array.append_value(vector.iter().map(Some));
            }
            (ArrayBuilder::Text(array), Value::Compressed(value)) => {
                let charset = self.column.charset.unwrap_or(Charset::Utf8mb4);
                return append_text(array, charset, &value.decompress(VALUE_BYTES_MAX)?, scratch);
            }
            // The log names a collation that is not known.
            (ArrayBuilder::Bytes(array), Value::Text(text)) => {
                append_bytes(array, &BytesValue { bytes: text.bytes, padding: 0 }, scratch);
            }
            (ArrayBuilder::Bytes(array), Value::Compressed(value)) => {
                let bytes = value.decompress(VALUE_BYTES_MAX)?;
                scratch.bytes += bytes.len();
                array.append_value(bytes);
            }
            // The array's type comes from the same column as the value.
            _ => return Err(unsupported("a value of this type")),
        }
        Ok(AppendResult::Whole)
    }

    /// Returns the array, and starts another one.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match &mut self.array {
            ArrayBuilder::Int8(array) => Arc::new(array.finish()),
            ArrayBuilder::Int16(array) => Arc::new(array.finish()),
            ArrayBuilder::Int32(array) => Arc::new(array.finish()),
            ArrayBuilder::Int64(array) => Arc::new(array.finish()),
            ArrayBuilder::UInt8(array) => Arc::new(array.finish()),
            ArrayBuilder::UInt16(array) => Arc::new(array.finish()),
            ArrayBuilder::UInt32(array) => Arc::new(array.finish()),
            ArrayBuilder::UInt64(array) => Arc::new(array.finish()),
            ArrayBuilder::Float32(array) => Arc::new(array.finish()),
            ArrayBuilder::Float64(array) => Arc::new(array.finish()),
            ArrayBuilder::Decimal128(array) => Arc::new(array.finish()),
            ArrayBuilder::Decimal256(array) => Arc::new(array.finish()),
            ArrayBuilder::Date(array) => Arc::new(array.finish()),
            ArrayBuilder::Time(array) => Arc::new(array.finish()),
            ArrayBuilder::Timestamp(array) => Arc::new(array.finish()),
            ArrayBuilder::Text(array) => Arc::new(array.finish()),
            ArrayBuilder::Bytes(array) => Arc::new(array.finish()),
            ArrayBuilder::Set(array) => Arc::new(array.finish()),
            ArrayBuilder::Vector(array) => Arc::new(array.finish()),
            ArrayBuilder::Geometry(array) => Arc::new(array.finish()?),
            ArrayBuilder::Enum(array) => {
                let members = self.column.members.iter().map(String::as_str).chain([ENUM_ERROR_TEXT]);
                let texts: ArrayRef = Arc::new(StringArray::from_iter_values(members));
                Arc::new(DictionaryArray::try_new(array.finish(), texts)?)
            }
        })
    }
}

/// Text of number 0 of an ENUM, as MySQL shows it.
const ENUM_ERROR_TEXT: &str = "";

impl ArrayBuilder {
    /// Creates a builder without memory for values: there can be thousands of builders.
    fn new(column: &SchemaColumn) -> Self {
        fn of<T: ArrowPrimitiveType>(column: &SchemaColumn) -> PrimitiveBuilder<T> {
            PrimitiveBuilder::with_capacity(0).with_data_type(column.data_type.clone())
        }
        let list_field = |item| Arc::new(Field::new_list_field(item, false));
        match &column.data_type {
            DataType::Int8 => Self::Int8(of(column)),
            DataType::Int16 => Self::Int16(of(column)),
            DataType::Int32 => Self::Int32(of(column)),
            DataType::Int64 => Self::Int64(of(column)),
            DataType::UInt8 => Self::UInt8(of(column)),
            DataType::UInt16 => Self::UInt16(of(column)),
            DataType::UInt32 => Self::UInt32(of(column)),
            DataType::UInt64 => Self::UInt64(of(column)),
            DataType::Float32 => Self::Float32(of(column)),
            DataType::Float64 => Self::Float64(of(column)),
            DataType::Decimal128(..) => Self::Decimal128(of(column)),
            DataType::Decimal256(..) => Self::Decimal256(of(column)),
            DataType::Date32 => Self::Date(of(column)),
            DataType::Time64(_) => Self::Time(of(column)),
            DataType::Timestamp(..) => Self::Timestamp(of(column)),
            DataType::Utf8 => Self::Text(StringBuilder::with_capacity(0, 0)),
            DataType::Dictionary(..) => Self::Enum(PrimitiveBuilder::with_capacity(0)),
            DataType::Struct(_) => Self::Geometry(GeometryBuilder {
                srid: UInt32Builder::with_capacity(0),
                wkb: BinaryBuilder::with_capacity(0, 0),
                nulls: NullBufferBuilder::new(0),
            }),
            DataType::List(item) if *item.data_type() == DataType::Float32 => {
                let items = PrimitiveBuilder::with_capacity(0);
                Self::Vector(ListBuilder::with_capacity(items, 0).with_field(list_field(DataType::Float32)))
            }
            DataType::List(_) => Self::Set(
                ListBuilder::with_capacity(StringBuilder::with_capacity(0, 0), 0)
                    .with_field(list_field(DataType::Utf8)),
            ),
            _ => Self::Bytes(BinaryBuilder::with_capacity(0, 0)),
        }
    }
}

impl GeometryBuilder {
    fn append(&mut self, parts: Option<(u32, &[u8])>) {
        let (srid, wkb) = parts.unwrap_or_default();
        self.srid.append_value(srid);
        self.wkb.append_value(wkb);
        self.nulls.append(parts.is_some());
    }

    /// Appends a geometry, or null if it has no spatial reference system; `scratch` then has its bytes.
    fn append_or_hex(
        &mut self,
        geometry: &GeometryValue<'_>,
        scratch: &mut ValueScratch,
    ) -> Result<AppendResult, DecodeError> {
        let parts = geometry.srid().zip(geometry.wkb());
        if parts.is_none() {
            check_size(hex_size(geometry.bytes))?;
            put_hex(&mut scratch.text, geometry.bytes);
        }
        self.append(parts);
        Ok(if parts.is_some() { AppendResult::Whole } else { AppendResult::Inexact })
    }

    fn finish(&mut self) -> Result<StructArray, ArrowError> {
        let arrays: Vec<ArrayRef> = vec![Arc::new(self.srid.finish()), Arc::new(self.wkb.finish())];
        let (length, nulls) = (arrays[0].len(), self.nulls.finish());
        StructArray::try_new_with_length(geometry_fields(), arrays, nulls, length)
    }
}

/// Appends a number, or null if there is none; `scratch` then has the text.
fn append_or_text<T: ArrowPrimitiveType>(
    array: &mut PrimitiveBuilder<T>,
    number: Option<T::Native>,
    scratch: &mut ValueScratch,
    text: impl FnOnce(&mut Vec<u8>),
) -> AppendResult {
    array.append_option(number);
    if number.is_some() {
        return AppendResult::Whole;
    }
    scratch.text.clear();
    text(&mut scratch.text);
    AppendResult::Inexact
}

/// Returns the days from 1970 on; `None` for a date that is invalid, or later than those of MySQL.
#[inline]
fn day_number(date: Date) -> Option<i32> {
    let day = date.epoch_day().filter(|_| date.year <= YEAR_MAX);
    day.and_then(|day| i32::try_from(day).ok())
}

/// Returns the microseconds from 1970 on; `None` for the zero date.
fn point_in_time(moment: &Timestamp) -> Option<i64> {
    let micros = i64::from(moment.seconds) * 1_000_000 + i64::from(moment.micros);
    (micros != 0).then_some(micros)
}

/// Returns the microseconds of a time of day; `None` for negative times and for 24 hours or more.
fn time_of_day(time: &Time) -> Option<i64> {
    let is_clock = !time.negative && time.minutes < 60 && time.seconds < 60;
    Some(time.total_micros()).filter(|micros| is_clock && *micros < DAY_US)
}

/// Appends a text, with U+FFFD in place of bytes that are no characters; `scratch` then has the bytes.
#[inline]
fn append_text(
    array: &mut StringBuilder,
    charset: Charset,
    bytes: &[u8],
    scratch: &mut ValueScratch,
) -> Result<AppendResult, DecodeError> {
    let text = match charset.decode(bytes) {
        Ok(text) => text,
        Err(_) => {
            let text = charset.decode_lossy(bytes);
            check_size(text.len())?;
            check_size(hex_size(bytes))?;
            scratch.bytes += text.len();
            array.append_value(text);
            put_hex(&mut scratch.text, bytes);
            scratch.bytes += scratch.text.len();
            return Ok(AppendResult::Inexact);
        }
    };
    check_size(text.len())?;
    scratch.bytes += text.len();
    array.append_value(text);
    Ok(AppendResult::Whole)
}

/// Refuses a text that has become too large by its conversion: Arrow's offsets could overflow.
pub(crate) fn check_size(size: usize) -> Result<(), DecodeError> {
    if size <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let (found, max) = (size as u64, VALUE_BYTES_MAX as u64);
    Err(DecodeError::new(0, DecodeReason::OutOfRange { field: "size of a text in UTF-8", found, max }))
}

#[inline]
fn append_bytes(array: &mut BinaryBuilder, value: &BytesValue<'_>, scratch: &mut ValueScratch) {
    scratch.bytes += value.bytes.len() + usize::from(value.padding);
    if value.padding == 0 {
        return array.append_value(value.bytes);
    }
    let mut padded = value.bytes.to_vec();
    padded.resize(padded.len() + usize::from(value.padding), 0);
    array.append_value(padded);
}

/// Appends the place of an ENUM's member; of number 0, which is after them, `scratch` has the number if a member has
/// the same text.
fn append_enum(
    array: &mut PrimitiveBuilder<Int32Type>,
    members: &[String],
    number: u16,
    scratch: &mut ValueScratch,
) -> Result<AppendResult, DecodeError> {
    let number = usize::from(number);
    if number > members.len() {
        let (found, max) = (number as u64, members.len() as u64);
        return Err(DecodeError::new(0, DecodeReason::OutOfRange { field: "number of an ENUM", found, max }));
    }
    // Numbers have two bytes.
    array.append_value(number.checked_sub(1).unwrap_or(members.len()) as i32);
    if number > 0 || !members.iter().any(|member| member == ENUM_ERROR_TEXT) {
        return Ok(AppendResult::Whole);
    }
    scratch.text.clear();
    scratch.text.push(b'0');
    Ok(AppendResult::Inexact)
}

fn append_set(
    array: &mut ListBuilder<StringBuilder>,
    members: &[String],
    bits: u64,
    scratch: &mut ValueScratch,
) -> Result<(), DecodeError> {
    let known = members.len();
    if known < 64 && bits >> known != 0 {
        let max = (1 << known) - 1;
        let reason = DecodeReason::OutOfRange { field: "bits of a SET", found: bits, max };
        return Err(DecodeError::new(0, reason));
    }
    for (_, member) in members.iter().enumerate().take(64).filter(|(bit, _)| bits >> bit & 1 == 1) {
        scratch.bytes += member.len();
        array.values().append_value(member);
    }
    array.append(true);
    Ok(())
}

fn append_document(
    array: &mut StringBuilder,
    document: &JsonDocument<'_>,
    scratch: &mut ValueScratch,
) -> Result<(), DecodeError> {
    let ValueScratch { text: json, bytes } = scratch;
    json.clear();
    document.write(JsonQuotes::Always, json)?;
    // MySQL breaks long base64 strings into lines, but a JSON string must not contain newlines.
    if json.iter().any(|byte| *byte < 0x20) {
        let text = std::mem::take(json);
        for byte in text {
            match byte < 0x20 {
                true => put_json_escaped(json, &[byte], JsonHexDigits::Lower),
                false => json.push(byte),
            }
        }
    }
    check_size(json.len())?;
    *bytes += json.len();
    let text = std::str::from_utf8(json).map_err(|error| {
        let found = json.get(error.valid_up_to()).copied().map_or(0, u64::from);
        let reason = DecodeReason::Unexpected { field: "byte of a JSON string", found, expected: "UTF-8" };
        DecodeError::new(0, reason)
    })?;
    array.append_value(text);
    Ok(())
}

/// Returns the size of the bytes as `0x…`.
const fn hex_size(bytes: &[u8]) -> usize {
    bytes.len().saturating_mul(2).saturating_add(2)
}

/// Replaces `text` with the bytes as `0x…`.
fn put_hex(text: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.clear();
    text.extend_from_slice(b"0x");
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 0xf)]);
    }
}

fn unsupported(what: &'static str) -> DecodeError {
    DecodeError::new(0, DecodeReason::Unsupported { what })
}
