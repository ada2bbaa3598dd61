//! What a client sends once it is let in: the commands that replication needs.

use binlog::{Cursor, DecodeError, Reason};

use crate::error::WireError;

/// What a client asks of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `COM_QUIT`: the client goes. There is no answer.
    Quit,
    /// `COM_QUERY`: run this.
    Query {
        /// The statement.
        sql: &'a [u8],
    },
    /// `COM_PING`: a sign of life.
    Ping,
    /// `COM_STMT_PREPARE`: prepare this statement, with `?` for each parameter.
    Prepare {
        /// The statement.
        sql: &'a [u8],
    },
    /// `COM_STMT_SEND_LONG_DATA`: a piece of a parameter's value. The server does not answer.
    SendLongData {
        /// The statement's number.
        statement: u32,
        /// The parameter's number, from 0.
        parameter: u16,
        /// Bytes to append to the value.
        data: &'a [u8],
    },
    /// `COM_STMT_CLOSE`: forget a prepared statement. The server does not answer.
    CloseStatement {
        /// The statement's number.
        statement: u32,
    },
    /// `COM_REGISTER_REPLICA`
    RegisterReplica(RegisterReplica<'a>),
    /// `COM_BINLOG_DUMP`
    BinlogDump(BinlogDump<'a>),
    /// `COM_BINLOG_DUMP_GTID`
    BinlogDumpGtid(BinlogDumpGtid<'a>),
    /// One that replication does not need.
    Other {
        /// Its number.
        code: u8,
        /// What follows.
        rest: &'a [u8],
    },
}

/// A replica says who it is, for `SHOW REPLICAS` and `SHOW SLAVE HOSTS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterReplica<'a> {
    /// The replica's `server_id`.
    pub server_id: u32,
    /// Its `report_host`.
    pub host: &'a [u8],
    /// Its `report_user`.
    pub user: &'a [u8],
    /// Its `report_password`.
    pub password: &'a [u8],
    /// Its `report_port`.
    pub port: u16,
}

/// How a log is to be sent. Unknown flags are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpFlags(pub u16);

impl DumpFlags {
    /// Stop at the end of the last log, instead of waiting for more.
    pub const NON_BLOCK: Self = Self(0x01);
    /// MySQL: heartbeats may have positions beyond 4 GiB (version 8.0.26 and later).
    pub const HEARTBEAT_V2: Self = Self(0x02);
    /// MariaDB: the text of statements is sent in front of their rows.
    pub const SEND_ANNOTATE_ROWS: Self = Self(0x02);

    /// Are all of `flags` set?
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// Send a log, from a place in a file on. A MariaDB may have been told of GTIDs instead: then there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinlogDump<'a> {
    /// Where to start in the file: 4 is its first event.
    pub position: u32,
    /// See [`DumpFlags`].
    pub flags: DumpFlags,
    /// The replica's `server_id`.
    pub server_id: u32,
    /// The file's name, without a folder; empty for the first there is.
    pub file: &'a [u8],
}

/// Send all transactions that are not in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinlogDumpGtid<'a> {
    /// See [`DumpFlags`].
    pub flags: DumpFlags,
    /// The replica's `server_id`.
    pub server_id: u32,
    /// The file to start from, empty for the server to find it.
    pub file: &'a [u8],
    /// Where to start in it: 4.
    pub position: u64,
    /// The set, encoded as in a Previous_gtids event, with tags or without.
    pub gtids: &'a [u8],
}

const QUIT: u8 = 0x01;
const QUERY: u8 = 0x03;
const PING: u8 = 0x0e;
const BINLOG_DUMP: u8 = 0x12;
const REGISTER_REPLICA: u8 = 0x15;
const PREPARE: u8 = 0x16;
const SEND_LONG_DATA: u8 = 0x18;
const CLOSE_STATEMENT: u8 = 0x19;
const BINLOG_DUMP_GTID: u8 = 0x1e;

impl<'a> Command<'a> {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// When the payload is empty, or not what its command needs.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        let Some((&code, rest)) = payload.split_first() else {
            return Err(WireError::unexpected(payload, "a command"));
        };
        let mut cursor = Cursor::at(rest, 1);
        let command = match code {
            QUIT => Ok(Self::Quit),
            QUERY => Ok(Self::Query { sql: cursor.take_rest() }),
            PING => Ok(Self::Ping),
            PREPARE => Ok(Self::Prepare { sql: cursor.take_rest() }),
            SEND_LONG_DATA => Self::decode_long_data(&mut cursor),
            CLOSE_STATEMENT => cursor.u32().map(|statement| Self::CloseStatement { statement }),
            REGISTER_REPLICA => RegisterReplica::decode(&mut cursor).map(Self::RegisterReplica),
            BINLOG_DUMP => BinlogDump::decode(&mut cursor).map(Self::BinlogDump),
            BINLOG_DUMP_GTID => BinlogDumpGtid::decode(&mut cursor).map(Self::BinlogDumpGtid),
            code => Ok(Self::Other { code, rest: cursor.take_rest() }),
        };
        let command = command.and_then(|command| cursor.finish().map(|()| command));
        command.map_err(WireError::packet("command"))
    }

    /// Writes one.
    ///
    /// # Errors
    ///
    /// When a name, or the set of GTIDs, is longer than its field can say.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        match self {
            Self::Quit => out.push(QUIT),
            Self::Query { sql } => {
                out.push(QUERY);
                out.extend_from_slice(sql);
            }
            Self::Ping => out.push(PING),
            Self::Prepare { sql } => {
                out.push(PREPARE);
                out.extend_from_slice(sql);
            }
            Self::SendLongData { statement, parameter, data } => {
                out.push(SEND_LONG_DATA);
                out.extend_from_slice(&statement.to_le_bytes());
                out.extend_from_slice(&parameter.to_le_bytes());
                out.extend_from_slice(data);
            }
            Self::CloseStatement { statement } => {
                out.push(CLOSE_STATEMENT);
                out.extend_from_slice(&statement.to_le_bytes());
            }
            Self::RegisterReplica(register) => return register.encode(out),
            Self::BinlogDump(dump) => dump.encode(out),
            Self::BinlogDumpGtid(dump) => return dump.encode(out),
            Self::Other { code, rest } => {
                out.push(*code);
                out.extend_from_slice(rest);
            }
        }
        Ok(())
    }

    // size  field
    //    4  statement
    //    2  parameter
    //    *  data: to the end
    fn decode_long_data(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        Ok(Self::SendLongData {
            statement: cursor.u32()?,
            parameter: cursor.u16()?,
            data: cursor.take_rest(),
        })
    }
}

impl<'a> RegisterReplica<'a> {
    // size  field
    //    4  server_id
    //    *  host, user, password: one byte for the size, and so many bytes each
    //    2  port
    //    4  nothing: once the replica's rank
    //    4  nothing: the server's own server_id
    fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let server_id = cursor.u32()?;
        let mut name = || {
            let size = cursor.u8()?;
            cursor.bytes(size.into())
        };
        let (host, user, password) = (name()?, name()?, name()?);
        let port = cursor.u16()?;
        cursor.u64()?;
        Ok(Self { server_id, host, user, password, port })
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        out.push(REGISTER_REPLICA);
        out.extend_from_slice(&self.server_id.to_le_bytes());
        for (field, text) in [("host", self.host), ("user", self.user), ("password", self.password)] {
            let size = u8::try_from(text.len());
            let size =
                size.map_err(|_| WireError::TooLong { field, found: text.len(), max: u8::MAX.into() })?;
            out.push(size);
            out.extend_from_slice(text);
        }
        out.extend_from_slice(&self.port.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        Ok(())
    }
}

impl<'a> BinlogDump<'a> {
    // size  field
    //    4  position
    //    2  flags
    //    4  server_id
    //    *  file: to the end
    fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            position: cursor.u32()?,
            flags: DumpFlags(cursor.u16()?),
            server_id: cursor.u32()?,
            file: cursor.take_rest(),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(BINLOG_DUMP);
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.flags.0.to_le_bytes());
        out.extend_from_slice(&self.server_id.to_le_bytes());
        out.extend_from_slice(self.file);
    }
}

impl<'a> BinlogDumpGtid<'a> {
    // size  field
    //    2  flags
    //    4  server_id
    //    *  file: four bytes for the size, and so many bytes
    //    8  position
    //    *  gtids: four bytes for the size, and so many bytes
    fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let flags = DumpFlags(cursor.u16()?);
        let server_id = cursor.u32()?;
        let file = sized(cursor, "size of the file's name")?;
        let position = cursor.u64()?;
        let gtids = sized(cursor, "size of the set of GTIDs")?;
        Ok(Self { flags, server_id, file, position, gtids })
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let size = |field, bytes: &[u8]| {
            u32::try_from(bytes.len()).map_err(|_| WireError::TooLong {
                field,
                found: bytes.len(),
                max: u32::MAX as usize,
            })
        };
        out.push(BINLOG_DUMP_GTID);
        out.extend_from_slice(&self.flags.0.to_le_bytes());
        out.extend_from_slice(&self.server_id.to_le_bytes());
        out.extend_from_slice(&size("file", self.file)?.to_le_bytes());
        out.extend_from_slice(self.file);
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&size("gtids", self.gtids)?.to_le_bytes());
        out.extend_from_slice(self.gtids);
        Ok(())
    }
}

fn sized<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<&'a [u8], DecodeError> {
    let start = cursor.offset();
    let (found, max) = (cursor.u32()?, cursor.rest().len());
    if found as usize > max {
        let reason = Reason::OutOfRange { field, found: found.into(), max: max as u64 };
        return Err(DecodeError::new(start, reason));
    }
    cursor.bytes(found as usize)
}
