//! Prepared statements: the response to preparing one, and the command to run it.

use binlog::{Cursor, DecodeError, DecodeReason};

use crate::capability::Capabilities;
use crate::error::WireError;
use crate::response::{EofPacket, ErrPacket, put_lenenc_bytes};
use crate::result_set::ColumnDefinition;

/// First byte of the command that runs a prepared statement, `COM_STMT_EXECUTE`.
const EXECUTE: u8 = 0x17;
/// First byte of the answer to `COM_STMT_PREPARE`.
const PREPARED: u8 = 0x00;
/// `CURSOR_TYPE_NO_CURSOR`: the server sends all rows at once.
const NO_CURSOR: u8 = 0;
/// Number of iterations; servers accept only 1.
const ITERATIONS: u32 = 1;
/// Flag: the types of the parameters follow.
const TYPES_FOLLOW: u8 = 1;
/// Flag of a parameter's type: unsigned integer.
const UNSIGNED: u8 = 0x80;

/// `MYSQL_TYPE_FLOAT`.
const TYPE_FLOAT: u8 = 4;
/// `MYSQL_TYPE_DOUBLE`.
const TYPE_DOUBLE: u8 = 5;
/// `MYSQL_TYPE_NULL`.
const TYPE_NULL: u8 = 6;
/// `MYSQL_TYPE_LONGLONG`.
const TYPE_LONGLONG: u8 = 8;
/// `MYSQL_TYPE_VAR_STRING`.
const TYPE_VAR_STRING: u8 = 0xfd;

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
    /// Text in the session's `character_set_client`, or bytes.
    Bytes(&'a [u8]),
    /// Bytes that were sent earlier with [`ClientCommand::SendLongData`](crate::ClientCommand::SendLongData).
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

/// First packet of the response to `COM_STMT_PREPARE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreparedStatement {
    /// Server's number of the statement.
    pub statement: u32,
    /// Number of columns in the result set; 0 without a result set.
    pub columns: u16,
    /// Number of parameters.
    pub parameters: u16,
    /// Number of warnings.
    pub warnings: u16,
}

impl PreparedStatement {
    /// Decodes the packet.
    ///
    /// # Errors
    ///
    /// Fails if the payload is another packet.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        Self::decode_fields(payload).map_err(WireError::packet("answer to COM_STMT_PREPARE"))
    }

    // size  field
    //    1  0
    //    4  statement
    //    2  columns
    //    2  parameters
    //    1  0
    //    2  warnings
    fn decode_fields(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        expect(&mut cursor, "first byte", PREPARED)?;
        let (statement, columns, parameters) = (cursor.u32()?, cursor.u16()?, cursor.u16()?);
        cursor.u8()?;
        let warnings = cursor.u16()?;
        cursor.finish()?;
        Ok(Self { statement, columns, parameters, warnings })
    }

    /// Encodes the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(PREPARED);
        out.extend_from_slice(&self.statement.to_le_bytes());
        out.extend_from_slice(&self.columns.to_le_bytes());
        out.extend_from_slice(&self.parameters.to_le_bytes());
        out.push(0);
        out.extend_from_slice(&self.warnings.to_le_bytes());
    }
}

/// Reader of the response to `COM_STMT_PREPARE`: the statement's number, then the definitions of parameters and
/// columns.
#[derive(Clone, Debug)]
pub struct PrepareReader {
    capabilities: Capabilities,
    prepared: Option<PreparedStatement>,
    /// Number of definitions still to come: first parameters, then columns.
    parameters: u16,
    columns: u16,
    /// True if the last definitions are to be followed by an EOF packet.
    wants_eof: bool,
}

impl PrepareReader {
    /// Creates a reader for a command that was just sent.
    pub const fn new(capabilities: Capabilities) -> Self {
        Self { capabilities, prepared: None, parameters: 0, columns: 0, wants_eof: false }
    }

    /// Reads the next packet. Returns the statement after the last one.
    ///
    /// # Errors
    ///
    /// Returns [`WireError::Refused`] if the server refuses. Fails if the packet is not allowed at this point.
    pub fn read(&mut self, payload: &[u8]) -> Result<Option<PreparedStatement>, WireError> {
        if ErrPacket::is(payload) {
            return Err(ErrPacket::decode(payload)?.to_error().into());
        }
        if self.wants_eof {
            EofPacket::decode(payload, self.capabilities)?;
            self.wants_eof = false;
        } else if self.prepared.is_none() {
            let prepared = PreparedStatement::decode(payload)?;
            (self.parameters, self.columns) = (prepared.parameters, prepared.columns);
            self.prepared = Some(prepared);
        } else {
            let left = if self.parameters > 0 { &mut self.parameters } else { &mut self.columns };
            let Some(fewer) = left.checked_sub(1) else {
                return Err(WireError::unexpected(payload, "nothing"));
            };
            ColumnDefinition::decode(payload)?;
            *left = fewer;
            self.wants_eof = fewer == 0 && !self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        }
        let is_done = self.parameters == 0 && self.columns == 0 && !self.wants_eof;
        Ok(self.prepared.filter(|_| is_done))
    }
}

impl<'a> StatementExecution<'a> {
    /// Decodes the command for a statement with this number of parameters. `sent_ahead` has the indexes of the
    /// parameters whose values were sent earlier.
    ///
    /// # Errors
    ///
    /// Fails if the payload is another command, or uses a type that [`StatementExecution::encode`] does not write.
    pub fn decode(payload: &'a [u8], parameters: u16, sent_ahead: &[u16]) -> Result<Self, WireError> {
        let execution = Self::decode_fields(payload, parameters, sent_ahead);
        execution.map_err(WireError::packet("COM_STMT_EXECUTE"))
    }

    // size  field
    //    1  0x17
    //    4  statement
    //    1  0: no cursor
    //    4  1: iterations
    //  for a statement with parameters
    //    *  one bit per parameter, 1 for NULL
    //    1  1: types follow
    //    *  types: type (1) and sign (1) of each parameter
    //    *  values of the parameters that are neither NULL nor sent ahead
    fn decode_fields(payload: &'a [u8], count: u16, sent_ahead: &[u16]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        expect(&mut cursor, "first byte", EXECUTE)?;
        let statement = cursor.u32()?;
        expect(&mut cursor, "cursor type", NO_CURSOR)?;
        cursor.u32()?;
        let mut parameters = Vec::new();
        if count > 0 {
            let nulls = cursor.bytes(usize::from(count).div_ceil(8))?;
            expect(&mut cursor, "flag of the types", TYPES_FOLLOW)?;
            let types = cursor.bytes(2 * usize::from(count))?;
            for (number, kind) in (0..count).zip(types.chunks_exact(2)) {
                let is_null = nulls[usize::from(number / 8)] & (1 << (number % 8)) != 0;
                parameters.push(match is_null {
                    true => ParameterValue::Null,
                    false if sent_ahead.contains(&number) => ParameterValue::SentAhead,
                    false => value(&mut cursor, kind)?,
                });
            }
        }
        cursor.finish()?;
        Ok(Self { statement, parameters })
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
                ParameterValue::Null => (TYPE_NULL, 0),
                ParameterValue::Int(_) => (TYPE_LONGLONG, 0),
                ParameterValue::UInt(_) => (TYPE_LONGLONG, UNSIGNED),
                ParameterValue::Float(_) => (TYPE_FLOAT, 0),
                ParameterValue::Double(_) => (TYPE_DOUBLE, 0),
                // With a BLOB type, the server would not interpret the bytes in the session's character set.
                ParameterValue::Bytes(_) | ParameterValue::SentAhead => (TYPE_VAR_STRING, 0),
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
                ParameterValue::Bytes(bytes) => put_lenenc_bytes(out, bytes),
            }
        }
    }
}

fn value<'a>(cursor: &mut Cursor<'a>, kind: &[u8]) -> Result<ParameterValue<'a>, DecodeError> {
    Ok(match *kind {
        [TYPE_LONGLONG, UNSIGNED] => ParameterValue::UInt(cursor.u64()?),
        [TYPE_LONGLONG, _] => ParameterValue::Int(cursor.i64()?),
        [TYPE_FLOAT, _] => ParameterValue::Float(f32::from_le_bytes(cursor.array()?)),
        [TYPE_DOUBLE, _] => ParameterValue::Double(f64::from_le_bytes(cursor.array()?)),
        [TYPE_VAR_STRING, _] => ParameterValue::Bytes(cursor.lenenc_bytes()?),
        _ => {
            let found = kind.first().copied().unwrap_or_default().into();
            let wanted = "an integer, a float, a double or a string";
            return Err(cursor.error(DecodeReason::Unexpected {
                field: "type of a parameter",
                found,
                wanted,
            }));
        }
    })
}

fn expect(cursor: &mut Cursor<'_>, field: &'static str, wanted: u8) -> Result<(), DecodeError> {
    let start = cursor.offset();
    let found = cursor.u8()?;
    match found == wanted {
        true => Ok(()),
        false => {
            let reason = DecodeReason::Differs { field, found: found.into(), wanted: wanted.into() };
            Err(DecodeError::new(start, reason))
        }
    }
}
