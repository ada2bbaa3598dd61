//! Commands of a client after the handshake.

use binlog::gtid::GtidSet;
use binlog::{Cursor, DecodeError, DecodeReason};

use crate::capability::Capabilities;
use crate::error::WireError;
use crate::statement_execution::{EXECUTE, skip_query_attributes};

/// Command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCommand<'a> {
    /// `COM_QUIT`: close the connection. The server does not respond.
    Quit,
    /// `COM_QUERY`: run a statement.
    Query {
        /// Text of the statement.
        sql: &'a [u8],
    },
    /// `COM_INIT_DB`: change the default database.
    InitDatabase {
        /// Name of the database.
        database: &'a [u8],
    },
    /// `COM_PING`: check the connection.
    Ping,
    /// `COM_STATISTICS`: describe the server in one line. The response is this line alone.
    Statistics,
    /// `COM_PROCESS_KILL`: end a connection.
    KillConnection {
        /// Number of the connection.
        connection_id: u32,
    },
    /// `COM_SET_OPTION`: allow several statements in a query (0), or forbid them (1). The response is an EOF packet.
    SetOption {
        /// Number of the option.
        option: u16,
    },
    /// `COM_RESET_CONNECTION`: restore the state of the session after the login, without another login.
    ResetConnection,
    /// `COM_STMT_PREPARE`: prepare a statement with `?` for each parameter.
    Prepare {
        /// Text of the statement.
        sql: &'a [u8],
    },
    /// `COM_STMT_SEND_LONG_DATA`: send a piece of a parameter's value. The server does not respond.
    SendLongData {
        /// Number of the statement.
        statement: u32,
        /// Index of the parameter, from 0.
        parameter: u16,
        /// Bytes to append to the value.
        data: &'a [u8],
    },
    /// `COM_STMT_EXECUTE`: run a prepared statement.
    ExecuteStatement {
        /// Number of the statement.
        statement: u32,
        /// Whole payload, for [`ServerStatement::decode_execution`](crate::ServerStatement::decode_execution).
        payload: &'a [u8],
    },
    /// `COM_STMT_RESET`: discard the pieces of values sent for a prepared statement.
    ResetStatement {
        /// Number of the statement.
        statement: u32,
    },
    /// `COM_STMT_CLOSE`: close a prepared statement. The server does not respond.
    CloseStatement {
        /// Number of the statement.
        statement: u32,
    },
    /// `COM_REGISTER_REPLICA`
    RegisterReplica(RegisterReplica<'a>),
    /// `COM_BINLOG_DUMP`
    BinlogDump(BinlogDump<'a>),
    /// `COM_BINLOG_DUMP_GTID`
    BinlogDumpGtid(BinlogDumpGtid<'a>),
    /// Any other command.
    Other {
        /// Number of the command.
        code: u8,
        /// Bytes after the number.
        rest: &'a [u8],
    },
}

/// Registration of a replica, for `SHOW REPLICAS` and `SHOW SLAVE HOSTS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterReplica<'a> {
    /// `server_id` of the replica.
    pub server_id: u32,
    /// `report_host` of the replica.
    pub host: &'a [u8],
    /// `report_user` of the replica.
    pub user: &'a [u8],
    /// `report_password` of the replica.
    pub password: &'a [u8],
    /// `report_port` of the replica.
    pub port: u16,
}

/// Options for sending a log. Unknown flags are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpFlags(pub u16);

impl DumpFlags {
    /// Stop at the end of the last log instead of waiting for further events.
    pub const NON_BLOCK: Self = Self(0x01);
    /// MySQL: heartbeats may have positions beyond 4 GiB (8.0.26 and later).
    pub const HEARTBEAT_V2: Self = Self(0x02);
    /// MariaDB: send the text of statements before their rows.
    pub const SEND_ANNOTATE_ROWS: Self = Self(0x02);

    /// Returns true if all of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// Request for a log from a file and position. For MariaDB, session variables may give GTIDs instead; the file is
/// then empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinlogDump<'a> {
    /// Start position in the file: 4 for its first event.
    pub position: u32,
    /// See [`DumpFlags`].
    pub flags: DumpFlags,
    /// `server_id` of the replica.
    pub server_id: u32,
    /// Name of the file, without a directory; empty for the first file.
    pub file: &'a [u8],
}

/// Request for all transactions that are not in a GTID set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinlogDumpGtid<'a> {
    /// See [`DumpFlags`].
    pub flags: DumpFlags,
    /// `server_id` of the replica.
    pub server_id: u32,
    /// File to start from; empty to let the server find it.
    pub file: &'a [u8],
    /// Start position in the file: 4.
    pub position: u64,
    /// GTID set as in a Previous_gtids event, with or without tags.
    pub gtids: &'a [u8],
}

// Numbers: `enum_server_command` of `include/my_command.h`.
const QUIT: u8 = 0x01;
const INIT_DATABASE: u8 = 0x02;
const QUERY: u8 = 0x03;
const STATISTICS: u8 = 0x09;
const KILL_CONNECTION: u8 = 0x0c;
const PING: u8 = 0x0e;
const BINLOG_DUMP: u8 = 0x12;
const REGISTER_REPLICA: u8 = 0x15;
const PREPARE: u8 = 0x16;
const SEND_LONG_DATA: u8 = 0x18;
const CLOSE_STATEMENT: u8 = 0x19;
const RESET_STATEMENT: u8 = 0x1a;
const SET_OPTION: u8 = 0x1b;
const BINLOG_DUMP_GTID: u8 = 0x1e;
const RESET_CONNECTION: u8 = 0x1f;

impl<'a> ClientCommand<'a> {
    /// Decodes a command on a connection without [`Capabilities::QUERY_ATTRIBUTES`].
    ///
    /// # Errors
    ///
    /// Fails if the payload is empty, or invalid for its command.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        Self::decode_with(payload, Capabilities::default())
    }

    /// Decodes a command on a connection with these capabilities. Attributes of a query are skipped.
    ///
    /// # Errors
    ///
    /// Fails if the payload is empty, or invalid for its command.
    pub fn decode_with(payload: &'a [u8], capabilities: Capabilities) -> Result<Self, WireError> {
        let Some((&code, rest)) = payload.split_first() else {
            return Err(WireError::unexpected(payload, "a command"));
        };
        let mut cursor = Cursor::at(rest, 1);
        let command = match code {
            QUIT => Ok(Self::Quit),
            INIT_DATABASE => Ok(Self::InitDatabase { database: cursor.take_rest() }),
            QUERY => Self::decode_query(&mut cursor, capabilities),
            STATISTICS => Ok(Self::Statistics),
            KILL_CONNECTION => cursor.u32().map(|connection_id| Self::KillConnection { connection_id }),
            PING => Ok(Self::Ping),
            PREPARE => Ok(Self::Prepare { sql: cursor.take_rest() }),
            EXECUTE => cursor.u32().map(|statement| {
                cursor.take_rest();
                Self::ExecuteStatement { statement, payload }
            }),
            SEND_LONG_DATA => Self::decode_long_data(&mut cursor),
            CLOSE_STATEMENT => cursor.u32().map(|statement| Self::CloseStatement { statement }),
            RESET_STATEMENT => cursor.u32().map(|statement| Self::ResetStatement { statement }),
            SET_OPTION => cursor.u16().map(|option| Self::SetOption { option }),
            RESET_CONNECTION => Ok(Self::ResetConnection),
            REGISTER_REPLICA => RegisterReplica::decode(&mut cursor).map(Self::RegisterReplica),
            BINLOG_DUMP => BinlogDump::decode(&mut cursor).map(Self::BinlogDump),
            BINLOG_DUMP_GTID => BinlogDumpGtid::decode(&mut cursor).map(Self::BinlogDumpGtid),
            code => Ok(Self::Other { code, rest: cursor.take_rest() }),
        };
        let command = command.and_then(|command| cursor.finish().map(|()| command));
        command.map_err(WireError::packet("command"))
    }

    /// Encodes the command, for a connection without [`Capabilities::QUERY_ATTRIBUTES`].
    ///
    /// # Errors
    ///
    /// Fails if a name or the GTID set exceeds the maximum size of its field.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        match self {
            Self::Quit => out.push(QUIT),
            Self::InitDatabase { database } => put(out, INIT_DATABASE, &[database]),
            Self::Query { sql } => put(out, QUERY, &[sql]),
            Self::Statistics => out.push(STATISTICS),
            Self::KillConnection { connection_id } => {
                put(out, KILL_CONNECTION, &[&connection_id.to_le_bytes()]);
            }
            Self::Ping => out.push(PING),
            Self::Prepare { sql } => put(out, PREPARE, &[sql]),
            Self::ExecuteStatement { payload, .. } => out.extend_from_slice(payload),
            Self::SendLongData { statement, parameter, data } => {
                put(out, SEND_LONG_DATA, &[&statement.to_le_bytes(), &parameter.to_le_bytes(), data]);
            }
            Self::CloseStatement { statement } => put(out, CLOSE_STATEMENT, &[&statement.to_le_bytes()]),
            Self::ResetStatement { statement } => put(out, RESET_STATEMENT, &[&statement.to_le_bytes()]),
            Self::SetOption { option } => put(out, SET_OPTION, &[&option.to_le_bytes()]),
            Self::ResetConnection => out.push(RESET_CONNECTION),
            Self::RegisterReplica(register) => return register.encode(out),
            Self::BinlogDump(dump) => dump.encode(out),
            Self::BinlogDumpGtid(dump) => return dump.encode(out),
            Self::Other { code, rest } => put(out, *code, &[rest]),
        }
        Ok(())
    }

    // size  field
    //    *  attributes, with QUERY_ATTRIBUTES
    //    *  sql: to the end
    fn decode_query(cursor: &mut Cursor<'a>, capabilities: Capabilities) -> Result<Self, DecodeError> {
        if capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
            skip_query_attributes(cursor)?;
        }
        Ok(Self::Query { sql: cursor.take_rest() })
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
    //    *  host, user, password: size (1), then the bytes
    //    2  port
    //    4  unused: formerly the replica's rank
    //    4  unused: the source's server_id
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
    /// Decodes the GTID set, with or without tags: the format of MySQL 8.0, or the format of 8.3 and later.
    ///
    /// # Errors
    ///
    /// Fails if the set is invalid.
    pub fn gtid_set(&self) -> Result<GtidSet, WireError> {
        GtidSet::decode(self.gtids).map_err(WireError::packet("GTID set of COM_BINLOG_DUMP_GTID"))
    }

    // size  field
    //    2  flags
    //    4  server_id
    //    *  file: size (4), then the bytes
    //    8  position
    //    *  gtids: size (4), then the bytes
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

fn put(out: &mut Vec<u8>, code: u8, fields: &[&[u8]]) {
    out.push(code);
    fields.iter().for_each(|field| out.extend_from_slice(field));
}

fn sized<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<&'a [u8], DecodeError> {
    let start = cursor.offset();
    let (found, max) = (cursor.u32()?, cursor.rest().len());
    if found as usize > max {
        let reason = DecodeReason::OutOfRange { field, found: found.into(), max: max as u64 };
        return Err(DecodeError::new(start, reason));
    }
    cursor.bytes(found as usize)
}
