//! Running a prepared statement: `COM_STMT_EXECUTE`, and its parameters.

use std::collections::{BTreeMap, BTreeSet};

use binlog::{Cursor, DecodeError, DecodeReason};

use crate::capability::Capabilities;
use crate::column_type;
use crate::date_time::{DateTimeValue, TimeValue};
use crate::error::{ServerError, WireError};
use crate::generic_packets::put_lenenc_bytes;
use crate::prepared_statement::{PreparedStatement, expect};

/// First byte of the command that runs a prepared statement, `COM_STMT_EXECUTE`.
pub(crate) const EXECUTE: u8 = 0x17;
/// `CURSOR_TYPE_NO_CURSOR`: the server sends all rows at once.
const NO_CURSOR: u8 = 0;
/// `PARAMETER_COUNT_AVAILABLE`: the number of parameters follows, with [`Capabilities::QUERY_ATTRIBUTES`].
const COUNT_FOLLOWS: u8 = 8;
/// Number of iterations; servers accept only 1.
const ITERATIONS: u32 = 1;
/// Flag: the types of the parameters follow.
const TYPES_FOLLOW: u8 = 1;
/// Flag of a parameter's type: unsigned integer.
const UNSIGNED: u8 = 0x80;

/// Value of a prepared statement's parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterValue<'a> {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// FLOAT of four bytes.
    Float(f32),
    /// DOUBLE of eight bytes.
    Double(f64),
    /// DATE, DATETIME or TIMESTAMP.
    DateTime(DateTimeValue),
    /// TIME.
    Time(TimeValue),
    /// Text in the session's `character_set_client`, or bytes.
    Bytes(&'a [u8]),
    /// Bytes sent earlier with [`ClientCommand::SendLongData`](crate::ClientCommand::SendLongData).
    SentAhead,
}

/// `COM_STMT_EXECUTE`: run a prepared statement.
#[derive(Clone, Debug, PartialEq)]
pub struct StatementExecution<'a> {
    /// Number of the statement.
    pub statement: u32,
    /// Values of the parameters.
    pub parameters: Vec<ParameterValue<'a>>,
}

/// Server's state of a prepared statement: types and values of its parameters from earlier commands.
#[derive(Clone, Debug)]
pub struct ServerStatement {
    parameters: u16,
    /// Type and flags of each parameter, once sent. Clients send them only when they change.
    types: Vec<ParameterType>,
    /// Values sent by `COM_STMT_SEND_LONG_DATA`, by the index of the parameter.
    sent_ahead: BTreeMap<u16, Vec<u8>>,
    /// Total size of these values in bytes.
    sent_size: usize,
}

/// Type of a parameter: code and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ParameterType {
    code: u8,
    flags: u8,
}

/// Parameters from a client: of a statement, then attributes of the query.
struct ParameterBlock<'s> {
    /// Number of parameters, attributes included.
    count: usize,
    /// True if a name follows each type.
    has_names: bool,
    /// Types sent earlier.
    types: &'s [ParameterType],
    /// Indexes of the parameters whose values were sent by `COM_STMT_SEND_LONG_DATA`.
    sent_ahead: &'s BTreeSet<u16>,
}

impl ServerStatement {
    /// Creates the state of a newly prepared statement.
    pub const fn new(prepared: &PreparedStatement) -> Self {
        Self { parameters: prepared.parameters, types: Vec::new(), sent_ahead: BTreeMap::new(), sent_size: 0 }
    }

    /// Returns the size in memory of the types and values of the parameters, in bytes.
    pub fn memory(&self) -> usize {
        /// About the memory of a value, without its bytes.
        const VALUE_OVERHEAD: usize = 64;
        let types = usize::from(self.parameters) * size_of::<ParameterType>();
        types + self.sent_size + self.sent_ahead.len() * VALUE_OVERHEAD
    }

    /// Appends a piece of a parameter's value. `limit` is the maximum size of all values, in bytes.
    ///
    /// # Errors
    ///
    /// Fails if the statement does not have the parameter, or if the data is too long, with the server's error. The
    /// command has no response: report the error when the statement is run.
    pub fn append(&mut self, parameter: u16, data: &[u8], limit: usize) -> Result<(), ServerError> {
        if parameter >= self.parameters {
            return Err(ServerError::new(1210, "HY000", "Incorrect arguments to mysqld_stmt_send_long_data"));
        }
        let size = self.sent_size.saturating_add(data.len());
        if size > limit {
            let message = "Parameter of prepared statement which is set through mysql_send_long_data() is longer \
                           than 'max_allowed_packet' bytes";
            return Err(ServerError::new(1105, "HY000", message));
        }
        self.sent_size = size;
        self.sent_ahead.entry(parameter).or_default().extend_from_slice(data);
        Ok(())
    }

    /// Discards the values sent by `COM_STMT_SEND_LONG_DATA`. Call it after running the statement and for
    /// `COM_STMT_RESET`.
    pub fn reset(&mut self) {
        self.sent_ahead.clear();
        self.sent_size = 0;
    }

    /// Decodes the command that runs the statement, and remembers the types of its parameters. Inserts values sent by
    /// `COM_STMT_SEND_LONG_DATA`; omits attributes of the query.
    ///
    /// # Errors
    ///
    /// Fails if the payload is another command, or invalid.
    pub fn decode_execution<'a>(
        &'a mut self,
        payload: &'a [u8],
        capabilities: Capabilities,
    ) -> Result<StatementExecution<'a>, WireError> {
        let indexes: BTreeSet<u16> = self.sent_ahead.keys().copied().collect();
        let block = ParameterBlock {
            count: self.parameters.into(),
            has_names: capabilities.contains(Capabilities::QUERY_ATTRIBUTES),
            types: &self.types,
            sent_ahead: &indexes,
        };
        let decoded = decode_fields(payload, block).map_err(WireError::packet("COM_STMT_EXECUTE"))?;
        let (mut execution, types) = decoded;
        execution.parameters.truncate(self.parameters.into());
        self.types = types;
        self.types.truncate(self.parameters.into());
        for (index, value) in &self.sent_ahead {
            if let Some(parameter @ ParameterValue::SentAhead) =
                execution.parameters.get_mut(usize::from(*index))
            {
                *parameter = ParameterValue::Bytes(value);
            }
        }
        Ok(execution)
    }
}

impl<'a> StatementExecution<'a> {
    /// Decodes the command for a statement with this number of parameters. The command must contain their types.
    /// `sent_ahead` has the indexes of the parameters whose values were sent by `COM_STMT_SEND_LONG_DATA`. Servers use
    /// [`ServerStatement`] instead.
    ///
    /// # Errors
    ///
    /// Fails if the payload is another command, or invalid.
    pub fn decode(payload: &'a [u8], parameters: u16, sent_ahead: &[u16]) -> Result<Self, WireError> {
        let sent_ahead = &sent_ahead.iter().copied().collect();
        let block = ParameterBlock { count: parameters.into(), has_names: false, types: &[], sent_ahead };
        let execution = decode_fields(payload, block).map(|(execution, _)| execution);
        execution.map_err(WireError::packet("COM_STMT_EXECUTE"))
    }

    /// Encodes the command.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(EXECUTE);
        out.extend_from_slice(&self.statement.to_le_bytes());
        out.push(NO_CURSOR);
        out.extend_from_slice(&ITERATIONS.to_le_bytes());
        if self.parameters.is_empty() {
            return;
        }
        let nulls = out.len();
        out.resize(nulls + self.parameters.len().div_ceil(8), 0);
        out.push(TYPES_FOLLOW);
        for (number, parameter) in self.parameters.iter().enumerate() {
            let (kind, sign) = match parameter {
                ParameterValue::Null => (column_type::NULL, 0),
                ParameterValue::Int(_) => (column_type::LONGLONG, 0),
                ParameterValue::UInt(_) => (column_type::LONGLONG, UNSIGNED),
                ParameterValue::Float(_) => (column_type::FLOAT, 0),
                ParameterValue::Double(_) => (column_type::DOUBLE, 0),
                ParameterValue::DateTime(_) => (column_type::DATETIME, 0),
                ParameterValue::Time(_) => (column_type::TIME, 0),
                // With a BLOB type, the server would not interpret the bytes in the session's character set.
                ParameterValue::Bytes(_) | ParameterValue::SentAhead => (column_type::VAR_STRING, 0),
            };
            if *parameter == ParameterValue::Null {
                out[nulls + number / 8] |= 1 << (number % 8);
            }
            out.extend_from_slice(&[kind, sign]);
        }
        for parameter in &self.parameters {
            match parameter {
                ParameterValue::Null | ParameterValue::SentAhead => {}
                ParameterValue::Int(number) => out.extend_from_slice(&number.to_le_bytes()),
                ParameterValue::UInt(number) => out.extend_from_slice(&number.to_le_bytes()),
                ParameterValue::Float(number) => out.extend_from_slice(&number.to_le_bytes()),
                ParameterValue::Double(number) => out.extend_from_slice(&number.to_le_bytes()),
                ParameterValue::DateTime(value) => value.encode(out),
                ParameterValue::Time(value) => value.encode(out),
                ParameterValue::Bytes(bytes) => put_lenenc_bytes(out, bytes),
            }
        }
    }
}

// size  field
//    1  0x17
//    4  statement
//    1  flags: the type of the cursor, which may be ignored, and COUNT_FOLLOWS
//    4  1: iterations
//    *  with parameters, or with COUNT_FOLLOWS and names: number of parameters (lenenc) with names, then the parameters
fn decode_fields<'a>(
    payload: &'a [u8],
    block: ParameterBlock<'_>,
) -> Result<(StatementExecution<'a>, Vec<ParameterType>), DecodeError> {
    let mut cursor = Cursor::new(payload);
    expect(&mut cursor, "first byte", EXECUTE)?;
    let statement = cursor.u32()?;
    let flags = cursor.u8()?;
    cursor.u32()?;
    let (mut parameters, mut types) = (Vec::new(), Vec::new());
    if block.count > 0 || block.has_names && flags & COUNT_FOLLOWS != 0 {
        let expected = block.count;
        let block = if block.has_names { block.with_count(&mut cursor)? } else { block };
        if block.count < expected {
            let (found, expected) = (block.count as u64, expected as u64);
            let field = "number of parameters";
            return Err(cursor.error(DecodeReason::Differs { field, found, expected }));
        }
        if block.count > 0 {
            (parameters, types) = block.decode(&mut cursor)?;
        }
    }
    cursor.finish()?;
    Ok((StatementExecution { statement, parameters }, types))
}

/// Skips the attributes of a query before its text, with [`Capabilities::QUERY_ATTRIBUTES`].
// Source: "COM_QUERY" of the MySQL source documentation.
// size  field
//    *  number of attributes (lenenc)
//    *  1: number of sets of attributes (lenenc)
//    *  with attributes: as the parameters of a statement, with names
pub(crate) fn skip_query_attributes(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    let none_sent_ahead = BTreeSet::new();
    let block = ParameterBlock { count: 0, has_names: true, types: &[], sent_ahead: &none_sent_ahead };
    let block = block.with_count(cursor)?;
    let start = cursor.offset();
    let sets = cursor.lenenc()?;
    if sets != 1 {
        let field = "number of attribute sets";
        return Err(DecodeError::new(start, DecodeReason::Differs { field, found: sets, expected: 1 }));
    }
    if block.count > 0 {
        block.decode(cursor)?;
    }
    Ok(())
}

impl<'s> ParameterBlock<'s> {
    /// Reads the number of parameters.
    fn with_count(self, cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let start = cursor.offset();
        let found = cursor.lenenc()?;
        match u16::try_from(found) {
            Ok(count) => Ok(Self { count: count.into(), ..self }),
            Err(_) => {
                let field = "number of parameters";
                Err(DecodeError::new(start, DecodeReason::OutOfRange { field, found, max: u16::MAX.into() }))
            }
        }
    }

    //    *  one bit per parameter, 1 for NULL
    //    1  1: types follow; 0: as last time
    //    *  types: code (1) and flags (1) of each parameter; with names, lenenc size and name
    //    *  values of the parameters that are neither NULL nor sent ahead
    fn decode<'a>(
        &self,
        cursor: &mut Cursor<'a>,
    ) -> Result<(Vec<ParameterValue<'a>>, Vec<ParameterType>), DecodeError> {
        let nulls = cursor.bytes(self.count.div_ceil(8))?;
        let start = cursor.offset();
        let types = match cursor.u8()? {
            TYPES_FOLLOW => self.decode_types(cursor)?,
            _ if self.types.len() == self.count => self.types.to_vec(),
            found => {
                let (field, expected) = ("flag of the types", TYPES_FOLLOW.into());
                let reason = DecodeReason::Differs { field, found: found.into(), expected };
                return Err(DecodeError::new(start, reason));
            }
        };
        let mut parameters = Vec::new();
        for (number, kind) in types.iter().enumerate() {
            let is_null = nulls[number / 8] & (1 << (number % 8)) != 0;
            parameters.push(match is_null {
                true => ParameterValue::Null,
                false if self.is_sent_ahead(number) => ParameterValue::SentAhead,
                false => kind.decode_value(cursor)?,
            });
        }
        Ok((parameters, types))
    }

    fn decode_types(&self, cursor: &mut Cursor<'_>) -> Result<Vec<ParameterType>, DecodeError> {
        let mut types = Vec::new();
        for _ in 0..self.count {
            types.push(ParameterType { code: cursor.u8()?, flags: cursor.u8()? });
            if self.has_names {
                cursor.lenenc_bytes()?;
            }
        }
        Ok(types)
    }

    fn is_sent_ahead(&self, number: usize) -> bool {
        u16::try_from(number).is_ok_and(|index| self.sent_ahead.contains(&index))
    }
}

impl ParameterType {
    // Source: "Binary Protocol Value" of the MySQL source documentation, and `setup_one_conversion_function` of
    // sql/sql_prepare.cc.
    fn decode_value<'a>(self, cursor: &mut Cursor<'a>) -> Result<ParameterValue<'a>, DecodeError> {
        let is_unsigned = self.flags & UNSIGNED != 0;
        let integer = |unsigned: u64, signed: i64| match is_unsigned {
            true => ParameterValue::UInt(unsigned),
            false => ParameterValue::Int(signed),
        };
        Ok(match self.code {
            column_type::NULL => ParameterValue::Null,
            column_type::TINY | column_type::BOOL => {
                let byte = cursor.u8()?;
                integer(byte.into(), byte.cast_signed().into())
            }
            column_type::SHORT | column_type::YEAR => {
                let number = cursor.u16()?;
                integer(number.into(), number.cast_signed().into())
            }
            column_type::LONG | column_type::INT24 => {
                let number = cursor.u32()?;
                integer(number.into(), number.cast_signed().into())
            }
            column_type::LONGLONG => {
                let number = cursor.u64()?;
                integer(number, number.cast_signed())
            }
            column_type::FLOAT => ParameterValue::Float(f32::from_le_bytes(cursor.array()?)),
            column_type::DOUBLE => ParameterValue::Double(f64::from_le_bytes(cursor.array()?)),
            column_type::DATE | column_type::DATETIME | column_type::TIMESTAMP => {
                ParameterValue::DateTime(DateTimeValue::decode(cursor)?)
            }
            column_type::TIME => ParameterValue::Time(TimeValue::decode(cursor)?),
            column_type::DECIMAL
            | column_type::VARCHAR..=column_type::BIT
            | column_type::VECTOR
            | column_type::JSON..=column_type::GEOMETRY => ParameterValue::Bytes(cursor.lenenc_bytes()?),
            _ => {
                let (field, expected) = ("type of a parameter", "a type of MySQL's columns");
                return Err(cursor.error(DecodeReason::Unexpected {
                    field,
                    found: self.code.into(),
                    expected,
                }));
            }
        })
    }
}
