//! Prepared statements: the response to `COM_STMT_PREPARE`.

use binlog::{Cursor, DecodeError, DecodeReason};

use crate::capability::Capabilities;
use crate::error::WireError;
use crate::generic_packets::{EofPacket, ErrPacket};
use crate::result_set::ColumnDefinition;

/// First byte of the answer to `COM_STMT_PREPARE`.
const PREPARED: u8 = 0x00;

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
    /// Number of definitions still to read: first parameters, then columns.
    parameters: u16,
    columns: u16,
    /// True if an EOF packet must follow the last definitions.
    wants_eof: bool,
}

impl PrepareReader {
    /// Creates a reader for a command just sent.
    pub const fn new(capabilities: Capabilities) -> Self {
        Self { capabilities, prepared: None, parameters: 0, columns: 0, wants_eof: false }
    }

    /// Reads the next packet. Returns the statement after the last packet.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses ([`WireError::Refused`]), or if the packet is not allowed at this point.
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

/// Reads a byte that must have this value.
pub(crate) fn expect(cursor: &mut Cursor<'_>, field: &'static str, expected: u8) -> Result<(), DecodeError> {
    let start = cursor.offset();
    let found = cursor.u8()?;
    match found == expected {
        true => Ok(()),
        false => {
            let reason = DecodeReason::Differs { field, found: found.into(), expected: expected.into() };
            Err(DecodeError::new(start, reason))
        }
    }
}
