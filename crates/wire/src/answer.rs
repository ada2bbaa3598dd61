//! The three packets that answer most of what a client sends: OK, ERR, EOF.

use binlog::{Cursor, DecodeError, Reason, put_lenenc};

use crate::capability::Capabilities;
use crate::error::{ServerError, WireError};

/// First byte of an OK packet.
const OK: u8 = 0x00;
/// First byte of an ERR packet.
const ERR: u8 = 0xff;
/// First byte of an EOF packet, and of an OK packet that stands for one.
const EOF: u8 = 0xfe;
/// An EOF packet has fewer bytes than this; what is longer and starts as one is a row whose first value is huge.
const EOF_SIZE_LIMIT: usize = 9;
/// In front of the SQL state in an ERR packet.
const STATE_MARKER: u8 = b'#';
/// The SQL state of an error that has none of its own.
const STATE_GENERAL: &[u8; 5] = b"HY000";
/// Of an OK packet, as capabilities say, the size is below this where it stands for an EOF packet.
const OK_SIZE_LIMIT: usize = 0xff_ffff;

/// `server_status`: what a server says of the session with each answer. Unknown flags are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// A transaction is open.
    pub const IN_TRANSACTION: Self = Self(0x0001);
    /// Each statement commits.
    pub const AUTOCOMMIT: Self = Self(0x0002);
    /// Another result follows this one.
    pub const MORE_RESULTS: Self = Self(0x0008);
    /// The packet says what has changed in the session.
    pub const SESSION_STATE_CHANGED: Self = Self(0x4000);

    /// Are all of `flags` set?
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// Done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OkPacket<'a> {
    /// Rows that were changed.
    pub affected_rows: u64,
    /// The first value that AUTO_INCREMENT gave.
    pub last_insert_id: u64,
    /// See [`Status`].
    pub status: Status,
    /// How many warnings there are.
    pub warnings: u16,
    /// In words, for people.
    pub info: &'a [u8],
    /// What has changed in the session, as sent; empty without [`Status::SESSION_STATE_CHANGED`].
    pub session_state: &'a [u8],
}

/// Refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrPacket<'a> {
    /// MySQL's error number.
    pub code: u16,
    /// The SQL state. A server that has not yet seen what the client can do sends none.
    pub state: Option<&'a [u8; 5]>,
    /// In words, for people.
    pub message: &'a [u8],
}

/// The end of columns, of rows, or of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EofPacket {
    /// How many warnings there are.
    pub warnings: u16,
    /// See [`Status`].
    pub status: Status,
}

/// What answers a command that has no rows to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Done.
    Ok(OkPacket<'a>),
    /// The end of what was asked for.
    Eof(EofPacket),
}

impl<'a> OkPacket<'a> {
    /// Could `payload` be one, in the place of an answer?
    pub fn is(payload: &[u8]) -> bool {
        payload.first() == Some(&OK)
    }

    /// Reads one, whether as an answer or in the place of an EOF packet.
    ///
    /// # Errors
    ///
    /// When the payload starts as neither, or stops short.
    pub fn decode(payload: &'a [u8], capabilities: Capabilities) -> Result<Self, WireError> {
        Self::decode_fields(payload, capabilities).map_err(WireError::packet("OK packet"))
    }

    // size  field
    //    1  0, or 0xfe in the place of an EOF packet
    //    *  affected_rows (lenenc)
    //    *  last_insert_id (lenenc)
    //    2  status
    //    2  warnings
    //    *  info: lenenc and so many bytes with SESSION_TRACK (absent when nothing follows), else to the end
    //    *  session_state: lenenc and so many bytes, if the status says so
    fn decode_fields(payload: &'a [u8], capabilities: Capabilities) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        first_byte(&mut cursor, &[OK, EOF], "0x00 or 0xfe")?;
        let affected_rows = cursor.lenenc()?;
        let last_insert_id = cursor.lenenc()?;
        let status = Status(cursor.u16()?);
        let warnings = cursor.u16()?;
        let mut ok = Self { affected_rows, last_insert_id, status, warnings, info: &[], session_state: &[] };
        if !capabilities.contains(Capabilities::SESSION_TRACK) {
            ok.info = cursor.take_rest();
        } else if !cursor.is_empty() {
            ok.info = cursor.lenenc_bytes()?;
            if status.contains(Status::SESSION_STATE_CHANGED) {
                ok.session_state = cursor.lenenc_bytes()?;
            }
        }
        cursor.finish()?;
        Ok(ok)
    }

    /// Writes one as an answer.
    pub fn encode(&self, capabilities: Capabilities, out: &mut Vec<u8>) {
        self.encode_as(OK, capabilities, out);
    }

    fn encode_as(&self, first: u8, capabilities: Capabilities, out: &mut Vec<u8>) {
        out.push(first);
        put_lenenc(out, self.affected_rows);
        put_lenenc(out, self.last_insert_id);
        out.extend_from_slice(&self.status.0.to_le_bytes());
        out.extend_from_slice(&self.warnings.to_le_bytes());
        if !capabilities.contains(Capabilities::SESSION_TRACK) {
            out.extend_from_slice(self.info);
            return;
        }
        let has_state = self.status.contains(Status::SESSION_STATE_CHANGED);
        if has_state || !self.info.is_empty() {
            put_lenenc_bytes(out, self.info);
        }
        if has_state {
            put_lenenc_bytes(out, self.session_state);
        }
    }
}

impl<'a> ErrPacket<'a> {
    /// Could `payload` be one?
    pub fn is(payload: &[u8]) -> bool {
        payload.first() == Some(&ERR)
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// When the payload starts as another packet, or stops short.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        Self::decode_fields(payload).map_err(WireError::packet("ERR packet"))
    }

    // size  field
    //    1  0xff
    //    2  code
    //    6  '#' and the state; may be absent
    //    *  message: to the end
    fn decode_fields(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        first_byte(&mut cursor, &[ERR], "0xff")?;
        let code = cursor.u16()?;
        let state = match cursor.rest().first() {
            Some(&STATE_MARKER) => {
                cursor.u8()?;
                Some(cursor.array_ref()?)
            }
            _ => None,
        };
        Ok(Self { code, state, message: cursor.take_rest() })
    }

    /// Writes one.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(ERR);
        out.extend_from_slice(&self.code.to_le_bytes());
        if let Some(state) = self.state {
            out.push(STATE_MARKER);
            out.extend_from_slice(state);
        }
        out.extend_from_slice(self.message);
    }

    /// The same as an error.
    pub fn to_error(&self) -> ServerError {
        ServerError {
            code: self.code,
            state: String::from_utf8_lossy(self.state.unwrap_or(STATE_GENERAL)).into_owned(),
            message: String::from_utf8_lossy(self.message).into_owned(),
        }
    }
}

impl EofPacket {
    /// Is `payload` one, or an OK packet in its place, rather than a row?
    pub fn is(payload: &[u8], capabilities: Capabilities) -> bool {
        let limit = match capabilities.contains(Capabilities::DEPRECATE_EOF) {
            true => OK_SIZE_LIMIT,
            false => EOF_SIZE_LIMIT,
        };
        payload.first() == Some(&EOF) && payload.len() < limit
    }

    /// Reads one, or an OK packet in its place: a server that has [`Capabilities::DEPRECATE_EOF`] still sends some.
    ///
    /// # Errors
    ///
    /// When the payload starts as another packet, or has the wrong size.
    pub fn decode(payload: &[u8], capabilities: Capabilities) -> Result<Self, WireError> {
        if payload.len() >= OK_IN_PLACE_SIZE_MIN && capabilities.contains(Capabilities::DEPRECATE_EOF) {
            let ok = OkPacket::decode(payload, capabilities)?;
            return Ok(Self { warnings: ok.warnings, status: ok.status });
        }
        Self::decode_fields(payload).map_err(WireError::packet("EOF packet"))
    }

    // size  field
    //    1  0xfe
    //    2  warnings
    //    2  status
    fn decode_fields(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        first_byte(&mut cursor, &[EOF], "0xfe")?;
        let warnings = cursor.u16()?;
        let status = Status(cursor.u16()?);
        cursor.finish()?;
        Ok(Self { warnings, status })
    }

    /// Writes one, or an OK packet in its place.
    pub fn encode(&self, capabilities: Capabilities, out: &mut Vec<u8>) {
        if capabilities.contains(Capabilities::DEPRECATE_EOF) {
            let ok = OkPacket { status: self.status, warnings: self.warnings, ..OkPacket::default() };
            ok.encode_as(EOF, capabilities, out);
            return;
        }
        out.push(EOF);
        out.extend_from_slice(&self.warnings.to_le_bytes());
        out.extend_from_slice(&self.status.0.to_le_bytes());
    }
}

/// An OK packet has at least so many bytes: two more than an EOF packet.
const OK_IN_PLACE_SIZE_MIN: usize = 7;

impl<'a> Answer<'a> {
    /// Reads the answer to a command that has no rows to give.
    ///
    /// # Errors
    ///
    /// [`WireError::Refused`] when it is an ERR packet; otherwise when it is no answer.
    pub fn decode(payload: &'a [u8], capabilities: Capabilities) -> Result<Self, WireError> {
        match payload.first() {
            Some(&OK) => Ok(Self::Ok(OkPacket::decode(payload, capabilities)?)),
            Some(&EOF) => Ok(Self::Eof(EofPacket::decode(payload, capabilities)?)),
            Some(&ERR) => Err(ErrPacket::decode(payload)?.to_error().into()),
            _ => Err(WireError::unexpected(payload, "an OK, EOF or ERR packet")),
        }
    }
}

fn first_byte(cursor: &mut Cursor<'_>, known: &[u8], wanted: &'static str) -> Result<u8, DecodeError> {
    let byte = cursor.u8()?;
    if known.contains(&byte) {
        return Ok(byte);
    }
    let found = u64::from(byte);
    Err(DecodeError::new(0, Reason::Unexpected { field: "the first byte", found, wanted }))
}

/// Appends a length-encoded integer, and so many bytes.
pub(crate) fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
