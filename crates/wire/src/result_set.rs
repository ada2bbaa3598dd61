//! Result sets: columns, rows, end. Rows are read as text, and written as text or in binary.

use binlog::{Cursor, DecodeError, DecodeReason, put_lenenc};

use crate::capability::Capabilities;
use crate::column_type;
use crate::error::{ServerError, WireError};
use crate::generic_packets::{EofPacket, ErrPacket, OkPacket, ServerStatus, put_lenenc_bytes};
use crate::packet_codec::PacketCodec;
use crate::response_writer::send_encoded;
use crate::result_value::{ResultValue, RowEncoding};

/// First byte of a NULL value in text form, and of a server's request for a local file.
pub(crate) const NULL: u8 = 0xfb;
/// Maximum number of columns: the servers' limit for a table.
const COLUMNS_MAX: u64 = 4096;
/// Size of the fixed fields of a column definition.
const FIXED_SIZE: u64 = 12;

/// Number of utf8mb4_general_ci, the same in MySQL and MariaDB.
const COLLATION_UTF8MB4: u16 = 45;
/// Number of the collation of numbers and bytes.
const COLLATION_BINARY: u16 = 63;
/// `BINARY_FLAG` of `include/mysql_com.h`.
const FLAG_BINARY: u16 = 0x80;
/// Size of a column of text, as of VARCHAR(1024) in utf8mb4. Clients accept longer values, too.
const TEXT_SIZE_MAX: u32 = 4096;
/// Number of characters of the longest integer.
const INTEGER_SIZE_MAX: u32 = 21;

/// Definition of one column of a result set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnDefinition<'a> {
    /// Name of the database.
    pub schema: &'a [u8],
    /// Name of the table in the query.
    pub table: &'a [u8],
    /// Original name of the table.
    pub org_table: &'a [u8],
    /// Name of the column in the query.
    pub name: &'a [u8],
    /// Original name of the column.
    pub org_name: &'a [u8],
    /// Number of the collation.
    pub collation: u16,
    /// Maximum size of a value in bytes.
    pub size: u32,
    /// Type code of the column.
    pub column_type: u8,
    /// Flags of the column.
    pub flags: u16,
    /// Number of digits after the decimal point.
    pub decimals: u8,
}

/// Catalog of a column, always the same.
const CATALOG: &[u8] = b"def";

/// One row: values as text, `None` for NULL.
#[derive(Clone, Debug)]
pub struct TextRow<'a> {
    cursor: Cursor<'a>,
}

/// Content of one packet of a result.
#[derive(Clone, Debug)]
pub enum ResultPart<'a> {
    /// No result set: the statement has succeeded.
    Ok(OkPacket<'a>),
    /// Request for a local file with this name, as for `LOAD DATA LOCAL`. Send its content in packets, then an empty
    /// packet; the result follows.
    FileRequest(&'a [u8]),
    /// Number of columns that follow.
    Columns(usize),
    /// Definition of a column.
    Column(ColumnDefinition<'a>),
    /// End of the columns.
    ColumnsEnd,
    /// One row.
    Row(TextRow<'a>),
    /// End of the rows.
    End(EofPacket),
}

/// Reader of the packets that respond to a query.
#[derive(Clone, Debug)]
pub struct ResultReader {
    capabilities: Capabilities,
    phase: ResultPhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultPhase {
    Start,
    Columns { left: u64, count: usize },
    ColumnsEnd { count: usize },
    Rows { count: usize },
    Done,
}

impl ResultReader {
    /// Creates a reader for a query that was just sent.
    pub fn new(capabilities: Capabilities) -> Self {
        Self { capabilities, phase: ResultPhase::Start }
    }

    /// Returns true if the whole response has been read.
    pub fn is_done(&self) -> bool {
        self.phase == ResultPhase::Done
    }

    /// Reads the next packet.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses ([`WireError::Refused`]), which it can do even between rows, or if the packet is not
    /// allowed at this point.
    ///
    /// # Panics
    ///
    /// Panics if the response is [done](ResultReader::is_done).
    pub fn read<'a>(&mut self, payload: &'a [u8]) -> Result<ResultPart<'a>, WireError> {
        if ErrPacket::is(payload) {
            self.phase = ResultPhase::Done;
            return Err(ErrPacket::decode(payload)?.to_error().into());
        }
        match self.phase {
            ResultPhase::Start if OkPacket::is(payload) => self.ok(payload),
            ResultPhase::Start => self.start(payload),
            ResultPhase::Columns { left, count } => self.column(payload, left, count),
            ResultPhase::ColumnsEnd { count } => {
                EofPacket::decode(payload, self.capabilities)?;
                self.phase = ResultPhase::Rows { count };
                Ok(ResultPart::ColumnsEnd)
            }
            ResultPhase::Rows { .. } if EofPacket::is(payload, self.capabilities) => self.end(payload),
            ResultPhase::Rows { count } => Ok(ResultPart::Row(TextRow::decode(payload, count)?)),
            ResultPhase::Done => panic!("ours: callers stop at the end of the result"),
        }
    }

    fn ok<'a>(&mut self, payload: &'a [u8]) -> Result<ResultPart<'a>, WireError> {
        let ok = OkPacket::decode(payload, self.capabilities)?;
        self.phase = phase_after(ok.status);
        Ok(ResultPart::Ok(ok))
    }

    fn end<'a>(&mut self, payload: &'a [u8]) -> Result<ResultPart<'a>, WireError> {
        let end = EofPacket::decode(payload, self.capabilities)?;
        self.phase = phase_after(end.status);
        Ok(ResultPart::End(end))
    }

    fn start<'a>(&mut self, payload: &'a [u8]) -> Result<ResultPart<'a>, WireError> {
        match payload.split_first() {
            Some((&NULL, name)) if self.capabilities.contains(Capabilities::LOCAL_FILES) => {
                return Ok(ResultPart::FileRequest(name));
            }
            Some((&NULL, _)) => {
                return Err(WireError::unexpected(payload, "a result set, not a request for a file"));
            }
            _ => {}
        }
        let count = column_count(payload).map_err(WireError::packet("number of columns"))?;
        self.phase = ResultPhase::Columns { left: count, count: count as usize };
        Ok(ResultPart::Columns(count as usize))
    }

    fn column<'a>(
        &mut self,
        payload: &'a [u8],
        left: u64,
        count: usize,
    ) -> Result<ResultPart<'a>, WireError> {
        let column = ColumnDefinition::decode(payload)?;
        let has_end = !self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        self.phase = match left - 1 {
            0 if has_end => ResultPhase::ColumnsEnd { count },
            0 => ResultPhase::Rows { count },
            left => ResultPhase::Columns { left, count },
        };
        Ok(ResultPart::Column(column))
    }
}

/// Returns the phase after an OK or EOF packet with this status.
fn phase_after(status: ServerStatus) -> ResultPhase {
    match status.contains(ServerStatus::MORE_RESULTS) {
        true => ResultPhase::Start,
        false => ResultPhase::Done,
    }
}

fn column_count(payload: &[u8]) -> Result<u64, DecodeError> {
    let mut cursor = Cursor::new(payload);
    let found = cursor.lenenc()?;
    cursor.finish()?;
    match found {
        0 => Err(DecodeError::new(
            0,
            DecodeReason::Unexpected { field: "number of columns", found, expected: "at least 1" },
        )),
        1..=COLUMNS_MAX => Ok(found),
        _ => Err(DecodeError::new(
            0,
            DecodeReason::OutOfRange { field: "number of columns", found, max: COLUMNS_MAX },
        )),
    }
}

impl<'a> ColumnDefinition<'a> {
    /// Returns the definition of a column of text in utf8mb4 (`VAR_STRING`), without a table.
    pub const fn text(name: &'a [u8]) -> Self {
        Self {
            schema: &[],
            table: &[],
            org_table: &[],
            name,
            org_name: &[],
            collation: COLLATION_UTF8MB4,
            size: TEXT_SIZE_MAX,
            column_type: column_type::VAR_STRING,
            flags: 0,
            decimals: 31,
        }
    }

    /// Returns the definition of a column of signed 64-bit integers (`LONGLONG`), without a table.
    pub const fn integer(name: &'a [u8]) -> Self {
        Self {
            collation: COLLATION_BINARY,
            size: INTEGER_SIZE_MAX,
            column_type: column_type::LONGLONG,
            flags: FLAG_BINARY,
            decimals: 0,
            ..Self::text(name)
        }
    }

    /// Decodes a column definition.
    ///
    /// # Errors
    ///
    /// Fails if the payload is no column definition.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        Self::decode_fields(payload).map_err(WireError::packet("column definition"))
    }

    // size  field
    //    *  catalog, schema, table, org_table, name, org_name: lenenc size, then the bytes
    //    1  12: the size of what follows (lenenc)
    //    2  collation
    //    4  size
    //    1  column_type
    //    2  flags
    //    1  decimals
    //    2  unused
    fn decode_fields(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        cursor.lenenc_bytes()?;
        let mut name = || cursor.lenenc_bytes();
        let (schema, table, org_table, name, org_name) = (name()?, name()?, name()?, name()?, name()?);
        let start = cursor.offset();
        let found = cursor.lenenc()?;
        if found != FIXED_SIZE {
            let reason =
                DecodeReason::Differs { field: "size of the fixed fields", found, expected: FIXED_SIZE };
            return Err(DecodeError::new(start, reason));
        }
        let column = Self {
            schema,
            table,
            org_table,
            name,
            org_name,
            collation: cursor.u16()?,
            size: cursor.u32()?,
            column_type: cursor.u8()?,
            flags: cursor.u16()?,
            decimals: cursor.u8()?,
        };
        cursor.u16()?;
        cursor.finish()?;
        Ok(column)
    }

    /// Encodes the definition.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for name in [CATALOG, self.schema, self.table, self.org_table, self.name, self.org_name] {
            put_lenenc_bytes(out, name);
        }
        put_lenenc(out, FIXED_SIZE);
        out.extend_from_slice(&self.collation.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        out.push(self.column_type);
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.push(self.decimals);
        out.extend_from_slice(&[0; 2]);
    }
}

impl<'a> TextRow<'a> {
    /// Decodes a row of `count` values, and checks all of them.
    ///
    /// # Errors
    ///
    /// Fails if the payload has fewer or more values.
    pub fn decode(payload: &'a [u8], count: usize) -> Result<Self, WireError> {
        let row = Self { cursor: Cursor::new(payload) };
        let mut cursor = row.cursor.clone();
        let checked =
            (0..count).try_for_each(|_| value(&mut cursor).map(drop)).and_then(|()| cursor.finish());
        checked.map_err(WireError::packet("row"))?;
        Ok(row)
    }

    /// Encodes a row.
    pub fn encode(values: &[Option<&[u8]>], out: &mut Vec<u8>) {
        for value in values {
            match value {
                Some(value) => put_lenenc_bytes(out, value),
                None => out.push(NULL),
            }
        }
    }
}

impl<'a> Iterator for TextRow<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.cursor.is_empty() {
            true => None,
            false => value(&mut self.cursor).ok(),
        }
    }
}

fn value<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, DecodeError> {
    if cursor.rest().first() == Some(&NULL) {
        cursor.u8()?;
        return Ok(None);
    }
    cursor.lenenc_bytes().map(Some)
}

/// Writer of the packets that respond to a query.
pub struct ResultWriter<'a> {
    packets: &'a mut PacketCodec,
    capabilities: Capabilities,
    encoding: RowEncoding,
    column_types: Vec<u8>,
}

/// Result set whose next rows follow later.
#[derive(Clone, Debug)]
pub struct PausedResult {
    capabilities: Capabilities,
    encoding: RowEncoding,
    column_types: Vec<u8>,
}

impl PausedResult {
    /// Continues the result set on the codec of the same connection.
    pub fn resume(self, packets: &mut PacketCodec) -> ResultWriter<'_> {
        let Self { capabilities, encoding, column_types } = self;
        ResultWriter { packets, capabilities, encoding, column_types }
    }
}

impl<'a> ResultWriter<'a> {
    /// Sends the columns of a result set with rows as text, for a query.
    ///
    /// # Panics
    ///
    /// Panics without columns: the response to a statement without columns is an OK packet.
    pub fn begin(
        packets: &'a mut PacketCodec,
        capabilities: Capabilities,
        columns: &[ColumnDefinition<'_>],
    ) -> Self {
        Self::begin_with(packets, capabilities, columns, RowEncoding::Text)
    }

    /// Sends the columns of a result set with rows in this encoding.
    ///
    /// # Panics
    ///
    /// The panics of [`ResultWriter::begin`].
    pub fn begin_with(
        packets: &'a mut PacketCodec,
        capabilities: Capabilities,
        columns: &[ColumnDefinition<'_>],
        encoding: RowEncoding,
    ) -> Self {
        assert!(!columns.is_empty(), "ours: a result has columns");
        let column_types = columns.iter().map(|column| column.column_type).collect();
        let mut writer = Self { packets, capabilities, encoding, column_types };
        writer.send(|out| put_lenenc(out, columns.len() as u64));
        for column in columns {
            writer.send(|out| column.encode(out));
        }
        if !capabilities.contains(Capabilities::DEPRECATE_EOF) {
            writer.send(|out| EofPacket::default().encode(capabilities, out));
        }
        writer
    }

    /// Sends one row of typed values, in the encoding of the result set.
    ///
    /// # Panics
    ///
    /// Panics if the number of values differs from the number of columns, or a value does not fit its column.
    pub fn values(&mut self, values: &[ResultValue<'_>]) {
        assert_eq!(values.len(), self.column_types.len(), "ours: a row has a value for each column");
        let column_types = std::mem::take(&mut self.column_types);
        match self.encoding {
            RowEncoding::Text => self.send(|out| values.iter().for_each(|value| value.encode_text(out))),
            RowEncoding::Binary => self.send(|out| ResultValue::encode_row(values, &column_types, out)),
        }
        self.column_types = column_types;
    }

    /// Sends one row of values as text, `None` for NULL.
    ///
    /// # Panics
    ///
    /// Panics if the number of values differs from the number of columns, or if rows are binary.
    pub fn row(&mut self, values: &[Option<&[u8]>]) {
        assert_eq!(self.encoding, RowEncoding::Text, "ours: binary rows need types");
        assert_eq!(values.len(), self.column_types.len(), "ours: a row has a value for each column");
        self.send(|out| TextRow::encode(values, out));
    }

    /// Releases the codec, so that the output so far can be sent before the next rows.
    pub fn pause(self) -> PausedResult {
        let Self { capabilities, encoding, column_types, .. } = self;
        PausedResult { capabilities, encoding, column_types }
    }

    /// Sends the end of the result set.
    pub fn end(mut self, status: ServerStatus) {
        let capabilities = self.capabilities;
        self.send(|out| EofPacket { warnings: 0, status }.encode(capabilities, out));
    }

    /// Sends an error in place of the next row, which ends the result set.
    pub fn fail(mut self, error: &ServerError) {
        self.send(|out| error.encode(out));
    }

    fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        send_encoded(self.packets, encode);
    }
}
