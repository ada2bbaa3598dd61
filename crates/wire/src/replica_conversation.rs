//! A replica's conversation with its source: a table of queries, then the log.

use std::mem;
use std::time::Duration;

use binlog::server_error::UNKNOWN_SYSTEM_VARIABLE;
use binlog::{ChecksumAlgorithm, Flavour};

use crate::client_command::{BinlogDump, BinlogDumpGtid, ClientCommand, DumpFlags, RegisterReplica};
use crate::error::WireError;
use crate::event_packet::{EventPacket, SemiSync};
use crate::generic_packets::{CommandResponse, EofPacket, ErrPacket};
use crate::handshake::ClientSession;
use crate::result_set::{ResultPart, ResultReader};

/// Empty GTID set, as in a Previous_gtids event.
const NO_GTIDS: [u8; 8] = [0; 8];

/// Identity and requests of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// `server_id` of the replica: 1 or more, unique among the servers of the source.
    pub server_id: u32,
    /// UUID of the replica, always the same: the source closes an older connection with the same UUID. Empty for
    /// none.
    pub uuid: String,
    /// `report_host` for the source's list of replicas; empty for none.
    pub report_host: String,
    /// `report_port` for the source's list of replicas.
    pub report_port: u16,
    /// Time without events after which the source sends a heartbeat; zero for no heartbeats.
    pub heartbeat: Duration,
    /// Support for semi-synchronous replication. Used if the source has enabled it.
    pub semi_sync: SemiSync,
    /// Start of the log.
    pub start: ReplicaStart,
    /// End of the log.
    pub end: ReplicaEnd,
}

/// Start of the requested log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaStart {
    /// At a position of a file.
    Position {
        /// Name of the file; empty for the first file.
        file: Vec<u8>,
        /// Position in the file: 4 for its first event. Only the GTID command supports positions beyond 4 GiB. The
        /// replica sends this command to MySQL with `gtid_mode=ON`, with an empty GTID set. Other servers cannot start
        /// at such a position.
        position: u64,
    },
    /// After the transactions of a GTID set.
    Gtids {
        /// GTID set as in a Previous_gtids event (MySQL).
        set: Vec<u8>,
    },
    /// After the last transaction of each domain (MariaDB).
    MariadbGtids {
        /// Position in MariaDB's syntax: `0-1-270,1-2-9`. Empty to start at the source's first transaction.
        state: String,
    },
}

/// End of the requested log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaEnd {
    /// No end: the source waits for more events.
    Never,
    /// After the last event.
    LastEvent,
}

/// Properties that a source reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFacts {
    /// Time of the source's clock at the query, in seconds since 1970.
    pub clock_s: Option<u64>,
    /// `server_id` of the source.
    pub server_id: Option<u32>,
    /// `server_uuid` of the source (MySQL).
    pub server_uuid: Option<String>,
    /// `gtid_mode` of the source (MySQL); `None` before version 5.6.
    pub gtid_mode: Option<String>,
    /// Checksum of the events before the first format description.
    pub checksum: ChecksumAlgorithm,
    /// State of semi-synchronous replication.
    pub semi_sync: SemiSync,
}

/// Next action of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaStep<'a> {
    /// Send this command, then read.
    Send(Vec<u8>),
    /// Read the next packet.
    Wait,
    /// Event from the log.
    Event(EventPacket<'a>),
    /// End of the log, as requested.
    End,
}

/// Replica side of a connection after the handshake, as a state machine: packets in, actions out.
pub struct ReplicaConversation {
    options: ReplicaOptions,
    session: ClientSession,
    source: SourceFacts,
    phase: ConversationPhase,
}

enum ConversationPhase {
    /// A query was sent. `value` is the part of the answer received so far.
    Asking { number: usize, reader: ResultReader, value: Option<Vec<u8>> },
    /// The registration was sent.
    Registering,
    /// The source sends the log.
    Streaming,
    /// The conversation has ended.
    Over,
}

/// Function that stores the answer to a query.
type AnswerReader = fn(&ReplicaOptions, &mut SourceFacts, Option<&[u8]>) -> Result<(), WireError>;

/// One query to a source.
struct SourceQuery {
    /// Returns the statement; `None` to skip the query.
    statement: fn(&ReplicaOptions, &SourceFacts) -> Option<String>,
    /// Stores the answer: the first value of the first row, if there is one.
    read_answer: AnswerReader,
    /// Handling of an error response.
    refusal: RefusalPolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusalPolicy {
    /// The error ends the conversation.
    Fatal,
    /// An unknown variable is accepted: the source is old, or lacks a plugin.
    UnknownVariable,
    /// Any error is accepted.
    Ignored,
}

/// Queries of MySQL's replicas, in their order. Semi-synchronous replication has two names.
const MYSQL_QUERIES: &[SourceQuery] = &[
    SourceQuery {
        statement: |_, _| query("SELECT UNIX_TIMESTAMP()"),
        read_answer: clock,
        refusal: RefusalPolicy::Ignored,
    },
    SourceQuery {
        statement: |_, _| query("SELECT @@GLOBAL.SERVER_ID"),
        read_answer: server_id,
        refusal: RefusalPolicy::Fatal,
    },
    SourceQuery {
        statement: |options, _| {
            heartbeat(options, "@master_heartbeat_period = N, @source_heartbeat_period = N")
        },
        read_answer: ignore_answer,
        refusal: RefusalPolicy::Fatal,
    },
    SourceQuery {
        statement: |_, _| {
            query(
                "SET @master_binlog_checksum = @@global.binlog_checksum, \
                 @source_binlog_checksum = @@global.binlog_checksum",
            )
        },
        read_answer: ignore_answer,
        refusal: RefusalPolicy::UnknownVariable,
    },
    SourceQuery {
        statement: |_, _| query("SELECT @source_binlog_checksum"),
        read_answer: checksum,
        refusal: RefusalPolicy::UnknownVariable,
    },
    SourceQuery {
        statement: |_, _| query("SELECT @@GLOBAL.GTID_MODE"),
        read_answer: gtid_mode,
        refusal: RefusalPolicy::UnknownVariable,
    },
    SourceQuery {
        statement: |_, _| query("SELECT @@GLOBAL.SERVER_UUID"),
        read_answer: server_uuid,
        refusal: RefusalPolicy::UnknownVariable,
    },
    SourceQuery { statement: own_uuid, read_answer: ignore_answer, refusal: RefusalPolicy::Fatal },
    SourceQuery {
        statement: |options, _| if_semi_sync(options, "SELECT @@global.rpl_semi_sync_source_enabled"),
        read_answer: semi_sync,
        refusal: RefusalPolicy::UnknownVariable,
    },
    SourceQuery {
        statement: |options, source| match source.semi_sync {
            SemiSync::Off => if_semi_sync(options, "SELECT @@global.rpl_semi_sync_master_enabled"),
            SemiSync::On => None,
        },
        read_answer: semi_sync,
        refusal: RefusalPolicy::UnknownVariable,
    },
    SourceQuery {
        statement: |_, source| match source.semi_sync {
            SemiSync::Off => None,
            SemiSync::On => query("SET @rpl_semi_sync_replica = 1, @rpl_semi_sync_slave = 1"),
        },
        read_answer: ignore_answer,
        refusal: RefusalPolicy::Fatal,
    },
];

/// Queries of MariaDB's replicas.
const MARIADB_QUERIES: &[SourceQuery] = &[
    SourceQuery {
        statement: |_, _| query("SELECT UNIX_TIMESTAMP()"),
        read_answer: clock,
        refusal: RefusalPolicy::Ignored,
    },
    SourceQuery {
        statement: |_, _| query("SELECT @@GLOBAL.SERVER_ID"),
        read_answer: server_id,
        refusal: RefusalPolicy::Fatal,
    },
    SourceQuery {
        statement: |options, _| heartbeat(options, "@master_heartbeat_period = N"),
        read_answer: ignore_answer,
        refusal: RefusalPolicy::Fatal,
    },
    SourceQuery {
        statement: |_, _| query("SET @master_binlog_checksum = @@global.binlog_checksum"),
        read_answer: ignore_answer,
        refusal: RefusalPolicy::UnknownVariable,
    },
    SourceQuery {
        statement: |_, _| query("SELECT @master_binlog_checksum"),
        read_answer: checksum,
        refusal: RefusalPolicy::UnknownVariable,
    },
    // 4: the replica supports GTIDs. Without this, the source converts events to older events.
    SourceQuery {
        statement: |_, _| query("SET @mariadb_slave_capability = 4"),
        read_answer: ignore_answer,
        refusal: RefusalPolicy::Fatal,
    },
    SourceQuery {
        statement: |options, _| match &options.start {
            ReplicaStart::MariadbGtids { state } => {
                Some(format!("SET @slave_connect_state = {}", quoted(state)))
            }
            _ => None,
        },
        read_answer: ignore_answer,
        refusal: RefusalPolicy::Fatal,
    },
    SourceQuery {
        statement: |options, _| if_gtids(options, "SET @slave_gtid_strict_mode = 1"),
        read_answer: ignore_answer,
        refusal: RefusalPolicy::Fatal,
    },
    SourceQuery {
        statement: |options, _| if_gtids(options, "SET @slave_gtid_ignore_duplicates = 0"),
        read_answer: ignore_answer,
        refusal: RefusalPolicy::Fatal,
    },
    SourceQuery {
        statement: |options, _| if_semi_sync(options, "SELECT @@global.rpl_semi_sync_master_enabled"),
        read_answer: semi_sync,
        refusal: RefusalPolicy::UnknownVariable,
    },
    SourceQuery {
        statement: |_, source| match source.semi_sync {
            SemiSync::Off => None,
            SemiSync::On => query("SET @rpl_semi_sync_slave = 1"),
        },
        read_answer: ignore_answer,
        refusal: RefusalPolicy::Fatal,
    },
];

impl ReplicaConversation {
    /// Starts the conversation, and returns the first command to send.
    ///
    /// # Errors
    ///
    /// Fails if the options are incompatible with the server.
    pub fn begin(options: ReplicaOptions, session: ClientSession) -> Result<(Self, Vec<u8>), WireError> {
        match (&options.start, session.flavour) {
            (ReplicaStart::Gtids { .. }, Flavour::MariaDb) => {
                return Err(WireError::UnsupportedStart {
                    flavour: "MariaDB",
                    expected: "a GTID position such as 0-1-270",
                });
            }
            (ReplicaStart::MariadbGtids { .. }, Flavour::MySql) => {
                return Err(WireError::UnsupportedStart {
                    flavour: "MySQL",
                    expected: "a GTID set such as 5ea5ca5e-0001-4000-8000-000000000001:1-4711",
                });
            }
            (ReplicaStart::Position { position, .. }, Flavour::MariaDb)
                if u32::try_from(*position).is_err() =>
            {
                return Err(WireError::UnsupportedStart {
                    flavour: "MariaDB",
                    expected: "a position below 4 GiB, or a GTID position",
                });
            }
            _ => {}
        }
        let source = SourceFacts {
            clock_s: None,
            server_id: None,
            server_uuid: None,
            gtid_mode: None,
            checksum: ChecksumAlgorithm::Off,
            semi_sync: SemiSync::Off,
        };
        let mut conversation = Self { options, session, source, phase: ConversationPhase::Over };
        let first = conversation.ask_from(0)?;
        Ok((conversation, first))
    }

    /// Returns the properties reported so far; complete once events arrive.
    pub fn source(&self) -> &SourceFacts {
        &self.source
    }

    /// Returns true if the log has been requested.
    pub fn is_streaming(&self) -> bool {
        matches!(self.phase, ConversationPhase::Streaming)
    }

    /// Handles a packet from the source.
    ///
    /// # Errors
    ///
    /// Fails if the source refuses ([`WireError::Refused`]; 1236: it cannot send the requested log), if the packet is
    /// not allowed at this point, or if an answer is invalid. The connection cannot be used after an error.
    pub fn read<'a>(&mut self, payload: &'a [u8]) -> Result<ReplicaStep<'a>, WireError> {
        match mem::replace(&mut self.phase, ConversationPhase::Over) {
            ConversationPhase::Asking { number, reader, value } => {
                self.read_answer(payload, number, reader, value)
            }
            ConversationPhase::Registering => {
                CommandResponse::decode(payload, self.session.capabilities)?;
                self.phase = ConversationPhase::Streaming;
                self.dump_command().map(ReplicaStep::Send)
            }
            ConversationPhase::Streaming => self.read_event(payload),
            ConversationPhase::Over => Err(WireError::unexpected(payload, "nothing")),
        }
    }

    fn read_event<'a>(&mut self, payload: &'a [u8]) -> Result<ReplicaStep<'a>, WireError> {
        if EventPacket::is(payload) {
            let event = EventPacket::decode(payload, self.source.semi_sync)?;
            self.phase = ConversationPhase::Streaming;
            return Ok(ReplicaStep::Event(event));
        }
        if EofPacket::is(payload, self.session.capabilities) {
            return Ok(ReplicaStep::End);
        }
        if ErrPacket::is(payload) {
            return Err(ErrPacket::decode(payload)?.to_error().into());
        }
        Err(WireError::unexpected(payload, "an event or the end of the log"))
    }

    fn read_answer<'a>(
        &mut self,
        payload: &'a [u8],
        number: usize,
        mut reader: ResultReader,
        mut value: Option<Vec<u8>>,
    ) -> Result<ReplicaStep<'a>, WireError> {
        let query = &self.queries()[number];
        match reader.read(payload) {
            Ok(ResultPart::Row(mut row)) if value.is_none() => {
                value = row.next().flatten().map(<[u8]>::to_vec)
            }
            Ok(_) => {}
            Err(WireError::Refused(error)) if query.refusal.passes(error.code) => {
                return self.ask_from(number + 1).map(ReplicaStep::Send);
            }
            Err(error) => return Err(error),
        }
        if !reader.is_done() {
            self.phase = ConversationPhase::Asking { number, reader, value };
            return Ok(ReplicaStep::Wait);
        }
        (query.read_answer)(&self.options, &mut self.source, value.as_deref())?;
        self.ask_from(number + 1).map(ReplicaStep::Send)
    }

    /// Returns the next applicable query, or the registration after the last one.
    fn ask_from(&mut self, first: usize) -> Result<Vec<u8>, WireError> {
        let queries = self.queries().iter().enumerate().skip(first);
        let applicable = queries
            .filter_map(|(number, query)| Some((number, (query.statement)(&self.options, &self.source)?)));
        let mut out = Vec::new();
        let Some((number, sql)) = applicable.take(1).next() else {
            self.phase = ConversationPhase::Registering;
            let register = RegisterReplica {
                server_id: self.options.server_id,
                host: self.options.report_host.as_bytes(),
                port: self.options.report_port,
                ..RegisterReplica::default()
            };
            ClientCommand::RegisterReplica(register).encode(&mut out)?;
            return Ok(out);
        };
        let reader = ResultReader::new(self.session.capabilities);
        self.phase = ConversationPhase::Asking { number, reader, value: None };
        ClientCommand::Query { sql: sql.as_bytes() }.encode(&mut out)?;
        Ok(out)
    }

    fn queries(&self) -> &'static [SourceQuery] {
        match self.session.flavour {
            Flavour::MySql => MYSQL_QUERIES,
            Flavour::MariaDb => MARIADB_QUERIES,
        }
    }

    fn dump_command(&self) -> Result<Vec<u8>, WireError> {
        let server_id = self.options.server_id;
        let mut flags = match self.session.flavour {
            Flavour::MySql => DumpFlags::HEARTBEAT_V2,
            Flavour::MariaDb => DumpFlags::SEND_ANNOTATE_ROWS,
        };
        if self.options.end == ReplicaEnd::LastEvent {
            flags.0 |= DumpFlags::NON_BLOCK.0;
        }
        let command = match &self.options.start {
            ReplicaStart::Position { file, position } => match u32::try_from(*position) {
                Ok(position) => ClientCommand::BinlogDump(BinlogDump { position, flags, server_id, file }),
                Err(_) => ClientCommand::BinlogDumpGtid(BinlogDumpGtid {
                    flags,
                    server_id,
                    file,
                    position: *position,
                    gtids: &NO_GTIDS,
                }),
            },
            ReplicaStart::MariadbGtids { .. } => {
                ClientCommand::BinlogDump(BinlogDump { position: 4, flags, server_id, file: &[] })
            }
            ReplicaStart::Gtids { set } => ClientCommand::BinlogDumpGtid(BinlogDumpGtid {
                flags,
                server_id,
                file: &[],
                position: 4,
                gtids: set,
            }),
        };
        let mut out = Vec::new();
        command.encode(&mut out)?;
        Ok(out)
    }
}

impl RefusalPolicy {
    fn passes(self, code: u16) -> bool {
        match self {
            Self::Fatal => false,
            Self::UnknownVariable => code == UNKNOWN_SYSTEM_VARIABLE,
            Self::Ignored => true,
        }
    }
}

// Statements of the queries.

fn query(sql: &str) -> Option<String> {
    Some(sql.to_owned())
}

fn heartbeat(options: &ReplicaOptions, variables: &str) -> Option<String> {
    let period_ns = options.heartbeat.as_nanos();
    (period_ns > 0).then(|| format!("SET {}", variables.replace('N', &period_ns.to_string())))
}

fn own_uuid(options: &ReplicaOptions, _: &SourceFacts) -> Option<String> {
    let uuid = quoted(&options.uuid);
    (!options.uuid.is_empty()).then(|| format!("SET @slave_uuid = {uuid}, @replica_uuid = {uuid}"))
}

fn if_semi_sync(options: &ReplicaOptions, sql: &str) -> Option<String> {
    (options.semi_sync == SemiSync::On).then(|| sql.to_owned())
}

fn if_gtids(options: &ReplicaOptions, sql: &str) -> Option<String> {
    matches!(options.start, ReplicaStart::MariadbGtids { .. }).then(|| sql.to_owned())
}

/// Quotes a string for any `sql_mode`. Drops quotes and backslashes, which no UUID or GTID contains.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|one| !matches!(one, '\'' | '\\')).collect();
    format!("'{plain}'")
}

// Handling of the answers.

fn ignore_answer(_: &ReplicaOptions, _: &mut SourceFacts, _: Option<&[u8]>) -> Result<(), WireError> {
    Ok(())
}

fn clock(_: &ReplicaOptions, source: &mut SourceFacts, value: Option<&[u8]>) -> Result<(), WireError> {
    source.clock_s = value.and_then(|value| str::from_utf8(value).ok()?.parse().ok());
    Ok(())
}

fn server_id(
    options: &ReplicaOptions,
    source: &mut SourceFacts,
    value: Option<&[u8]>,
) -> Result<(), WireError> {
    let id = value.and_then(|value| str::from_utf8(value).ok()?.parse().ok());
    let id: u32 = id.ok_or_else(|| answer("SERVER_ID", value, "a number"))?;
    if id == options.server_id {
        return Err(WireError::DuplicateIdentity { what: "server_id", value: id.to_string() });
    }
    source.server_id = Some(id);
    Ok(())
}

fn checksum(_: &ReplicaOptions, source: &mut SourceFacts, value: Option<&[u8]>) -> Result<(), WireError> {
    source.checksum = match value {
        None | Some(b"NONE") => ChecksumAlgorithm::Off,
        Some(b"CRC32") => ChecksumAlgorithm::Crc32,
        _ => return Err(answer("binlog_checksum", value, "NONE or CRC32")),
    };
    Ok(())
}

fn gtid_mode(_: &ReplicaOptions, source: &mut SourceFacts, value: Option<&[u8]>) -> Result<(), WireError> {
    source.gtid_mode = value.map(text);
    Ok(())
}

fn server_uuid(
    options: &ReplicaOptions,
    source: &mut SourceFacts,
    value: Option<&[u8]>,
) -> Result<(), WireError> {
    source.server_uuid = value.map(text);
    match source.server_uuid.as_deref() {
        Some(uuid) if uuid == options.uuid => {
            Err(WireError::DuplicateIdentity { what: "server_uuid", value: uuid.to_owned() })
        }
        _ => Ok(()),
    }
}

fn semi_sync(_: &ReplicaOptions, source: &mut SourceFacts, value: Option<&[u8]>) -> Result<(), WireError> {
    if value == Some(b"1") {
        source.semi_sync = SemiSync::On;
    }
    Ok(())
}

fn answer(variable: &'static str, found: Option<&[u8]>, expected: &'static str) -> WireError {
    WireError::UnexpectedAnswer { variable, found: found.map_or_else(|| "NULL".to_owned(), text), expected }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}
