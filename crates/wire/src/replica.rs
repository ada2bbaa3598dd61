//! What a replica asks a source before the log flows, as a table, and the log then.

use std::mem;
use std::time::Duration;

use binlog::{ChecksumAlgorithm, Flavour};

use crate::answer::{Answer, EofPacket};
use crate::command::{BinlogDump, BinlogDumpGtid, Command, DumpFlags, RegisterReplica};
use crate::error::WireError;
use crate::event_packet::{EventPacket, SemiSync};
use crate::handshake::Session;
use crate::result_set::{Part, ResultReader};

/// A set of none, as in a Previous_gtids event.
const NO_GTIDS: [u8; 8] = [0; 8];
/// A server that does not know a variable.
const UNKNOWN_VARIABLE: u16 = 1193;

/// What a replica is, and what it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// Its `server_id`: 1 or more, and that of no other server of the same source.
    pub server_id: u32,
    /// Its UUID, the same each time: the source ends an older connection of the same one. Empty for none.
    pub uuid: String,
    /// Its `report_host`, for the source's list of replicas; empty for none.
    pub report_host: String,
    /// Its `report_port`.
    pub report_port: u16,
    /// After how long without an event the source gives a sign of life; zero for never.
    pub heartbeat: Duration,
    /// Whether it can acknowledge events. It does if the source wants that.
    pub semi_sync: SemiSync,
    /// Where the log is to start.
    pub start: Start,
    /// Where it is to end.
    pub end: End,
}

/// Where the log is to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At a place in a file.
    Position {
        /// The file's name; empty for the first there is.
        file: Vec<u8>,
        /// Where in it: 4 is its first event. Beyond 4 GiB, a MySQL with `gtid_mode=ON` is asked as by GTIDs, of which
        /// the replica has none, since only that command has room for such a position; others cannot be asked.
        position: u64,
    },
    /// Behind the transactions of a set.
    Gtids {
        /// The set as in a Previous_gtids event (MySQL).
        set: Vec<u8>,
    },
    /// Behind the last transaction of each domain.
    MariadbGtids {
        /// Those, as MariaDB writes them: `0-1-270,1-2-9`. Empty for the source's first.
        state: String,
    },
}

/// Where a log is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nowhere: the source waits for more.
    Never,
    /// Behind the last event there is.
    LastEvent,
}

/// What a source says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFacts {
    /// Its clock, in seconds since 1970, when it was asked.
    pub clock_s: Option<u64>,
    /// Its `server_id`.
    pub server_id: Option<u32>,
    /// Its `server_uuid` (MySQL).
    pub server_uuid: Option<String>,
    /// Its `gtid_mode` (MySQL); none before version 5.6.
    pub gtid_mode: Option<String>,
    /// Checksum behind events until the first format description names it.
    pub checksum: ChecksumAlgorithm,
    /// Whether it wants events acknowledged.
    pub semi_sync: SemiSync,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Send this command, then read.
    Send(Vec<u8>),
    /// Read.
    Wait,
    /// An event came.
    Event(EventPacket<'a>),
    /// There are no more, as was asked for.
    End,
}

/// A replica's side, from the handshake's end on: what came in, what is to be done next.
pub struct ReplicaConversation {
    options: ReplicaOptions,
    session: Session,
    facts: SourceFacts,
    phase: Phase,
}

enum Phase {
    /// The question with this number is asked; this much of the answer is known.
    Asking { number: usize, reader: ResultReader, value: Option<Vec<u8>> },
    /// The replica has said who it is.
    Registering,
    /// The log flows.
    Streaming,
    /// It has ended.
    Over,
}

/// Takes what a source answered.
type Hear = fn(&ReplicaOptions, &mut SourceFacts, Option<&[u8]>) -> Result<(), WireError>;

/// One question to a source.
struct Question {
    /// The statement; none if there is nothing to be asked.
    ask: fn(&ReplicaOptions, &SourceFacts) -> Option<String>,
    /// What the answer says: the first value of the first row, if there is one.
    hear: Hear,
    /// What may be refused.
    refusal: Refusal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// It ends the conversation.
    Ends,
    /// A source that does not know the variable is old, or has no such plugin.
    UnknownVariable,
    /// Whatever the reason.
    Passes,
}

/// As MySQL's replicas ask, in their order; semi-synchronous replication by both its names.
const MYSQL: &[Question] = &[
    Question { ask: |_, _| query("SELECT UNIX_TIMESTAMP()"), hear: clock, refusal: Refusal::Passes },
    Question { ask: |_, _| query("SELECT @@GLOBAL.SERVER_ID"), hear: server_id, refusal: Refusal::Ends },
    Question {
        ask: |options, _| heartbeat(options, "@master_heartbeat_period = N, @source_heartbeat_period = N"),
        hear: nothing,
        refusal: Refusal::Ends,
    },
    Question {
        ask: |_, _| {
            query(
                "SET @master_binlog_checksum = @@global.binlog_checksum, \
                 @source_binlog_checksum = @@global.binlog_checksum",
            )
        },
        hear: nothing,
        refusal: Refusal::UnknownVariable,
    },
    Question {
        ask: |_, _| query("SELECT @source_binlog_checksum"),
        hear: checksum,
        refusal: Refusal::UnknownVariable,
    },
    Question {
        ask: |_, _| query("SELECT @@GLOBAL.GTID_MODE"),
        hear: gtid_mode,
        refusal: Refusal::UnknownVariable,
    },
    Question {
        ask: |_, _| query("SELECT @@GLOBAL.SERVER_UUID"),
        hear: server_uuid,
        refusal: Refusal::UnknownVariable,
    },
    Question { ask: own_uuid, hear: nothing, refusal: Refusal::Ends },
    Question {
        ask: |options, _| if_semi_sync(options, "SELECT @@global.rpl_semi_sync_source_enabled"),
        hear: semi_sync,
        refusal: Refusal::UnknownVariable,
    },
    Question {
        ask: |options, facts| match facts.semi_sync {
            SemiSync::Off => if_semi_sync(options, "SELECT @@global.rpl_semi_sync_master_enabled"),
            SemiSync::On => None,
        },
        hear: semi_sync,
        refusal: Refusal::UnknownVariable,
    },
    Question {
        ask: |_, facts| match facts.semi_sync {
            SemiSync::Off => None,
            SemiSync::On => query("SET @rpl_semi_sync_replica = 1, @rpl_semi_sync_slave = 1"),
        },
        hear: nothing,
        refusal: Refusal::Ends,
    },
];

/// As MariaDB's replicas ask.
const MARIADB: &[Question] = &[
    Question { ask: |_, _| query("SELECT UNIX_TIMESTAMP()"), hear: clock, refusal: Refusal::Passes },
    Question { ask: |_, _| query("SELECT @@GLOBAL.SERVER_ID"), hear: server_id, refusal: Refusal::Ends },
    Question {
        ask: |options, _| heartbeat(options, "@master_heartbeat_period = N"),
        hear: nothing,
        refusal: Refusal::Ends,
    },
    Question {
        ask: |_, _| query("SET @master_binlog_checksum = @@global.binlog_checksum"),
        hear: nothing,
        refusal: Refusal::UnknownVariable,
    },
    Question {
        ask: |_, _| query("SELECT @master_binlog_checksum"),
        hear: checksum,
        refusal: Refusal::UnknownVariable,
    },
    // 4: knows GTIDs. Without it the source turns events into older ones.
    Question {
        ask: |_, _| query("SET @mariadb_slave_capability = 4"),
        hear: nothing,
        refusal: Refusal::Ends,
    },
    Question {
        ask: |options, _| match &options.start {
            Start::MariadbGtids { state } => Some(format!("SET @slave_connect_state = {}", quoted(state))),
            _ => None,
        },
        hear: nothing,
        refusal: Refusal::Ends,
    },
    Question {
        ask: |options, _| if_gtids(options, "SET @slave_gtid_strict_mode = 1"),
        hear: nothing,
        refusal: Refusal::Ends,
    },
    Question {
        ask: |options, _| if_gtids(options, "SET @slave_gtid_ignore_duplicates = 0"),
        hear: nothing,
        refusal: Refusal::Ends,
    },
    Question {
        ask: |options, _| if_semi_sync(options, "SELECT @@global.rpl_semi_sync_master_enabled"),
        hear: semi_sync,
        refusal: Refusal::UnknownVariable,
    },
    Question {
        ask: |_, facts| match facts.semi_sync {
            SemiSync::Off => None,
            SemiSync::On => query("SET @rpl_semi_sync_slave = 1"),
        },
        hear: nothing,
        refusal: Refusal::Ends,
    },
];

impl ReplicaConversation {
    /// Begins, and gives the first command to be sent.
    ///
    /// # Errors
    ///
    /// When the options do not go together with the server.
    pub fn begin(options: ReplicaOptions, session: Session) -> Result<(Self, Vec<u8>), WireError> {
        match (&options.start, session.flavour) {
            (Start::Gtids { .. }, Flavour::MariaDb) => {
                return Err(WireError::Start {
                    flavour: "MariaDB",
                    wanted: "a position of GTIDs as 0-1-270",
                });
            }
            (Start::MariadbGtids { .. }, Flavour::MySql) => {
                return Err(WireError::Start { flavour: "MySQL", wanted: "a set of GTIDs" });
            }
            (Start::Position { position, .. }, Flavour::MariaDb) if u32::try_from(*position).is_err() => {
                return Err(WireError::Start { flavour: "MariaDB", wanted: "a position below 4 GiB" });
            }
            _ => {}
        }
        let facts = SourceFacts {
            clock_s: None,
            server_id: None,
            server_uuid: None,
            gtid_mode: None,
            checksum: ChecksumAlgorithm::Off,
            semi_sync: SemiSync::Off,
        };
        let mut conversation = Self { options, session, facts, phase: Phase::Over };
        let first = conversation.ask_from(0)?;
        Ok((conversation, first))
    }

    /// What the source has said of itself so far: all of it once events come.
    pub fn facts(&self) -> &SourceFacts {
        &self.facts
    }

    /// Was the log asked for?
    pub fn is_streaming(&self) -> bool {
        matches!(self.phase, Phase::Streaming)
    }

    /// A packet came.
    ///
    /// # Errors
    ///
    /// [`WireError::Refused`] when the source refuses (1236: it cannot send what is asked for); otherwise when the
    /// packet is not what must come now, or an answer makes no sense. The connection is of no use after that.
    pub fn read<'a>(&mut self, payload: &'a [u8]) -> Result<Step<'a>, WireError> {
        match mem::replace(&mut self.phase, Phase::Over) {
            Phase::Asking { number, reader, value } => self.hear(payload, number, reader, value),
            Phase::Registering => {
                Answer::decode(payload, self.session.capabilities)?;
                self.phase = Phase::Streaming;
                self.dump().map(Step::Send)
            }
            Phase::Streaming => self.event(payload),
            Phase::Over => Err(WireError::unexpected(payload, "nothing")),
        }
    }

    fn event<'a>(&mut self, payload: &'a [u8]) -> Result<Step<'a>, WireError> {
        if EventPacket::is(payload) {
            let event = EventPacket::decode(payload, self.facts.semi_sync)?;
            self.phase = Phase::Streaming;
            return Ok(Step::Event(event));
        }
        if EofPacket::is(payload, self.session.capabilities) {
            return Ok(Step::End);
        }
        Answer::decode(payload, self.session.capabilities)?;
        Err(WireError::unexpected(payload, "an event, or the end of the log"))
    }

    fn hear<'a>(
        &mut self,
        payload: &'a [u8],
        number: usize,
        mut reader: ResultReader,
        mut value: Option<Vec<u8>>,
    ) -> Result<Step<'a>, WireError> {
        let question = &self.questions()[number];
        match reader.read(payload) {
            Ok(Part::Row(mut row)) if value.is_none() => value = row.next().flatten().map(<[u8]>::to_vec),
            Ok(_) => {}
            Err(WireError::Refused(error)) if question.refusal.passes(error.code) => {
                return self.ask_from(number + 1).map(Step::Send);
            }
            Err(error) => return Err(error),
        }
        if !reader.is_done() {
            self.phase = Phase::Asking { number, reader, value };
            return Ok(Step::Wait);
        }
        (question.hear)(&self.options, &mut self.facts, value.as_deref())?;
        self.ask_from(number + 1).map(Step::Send)
    }

    /// The next question that there is to be asked, or the registration behind the last one.
    fn ask_from(&mut self, first: usize) -> Result<Vec<u8>, WireError> {
        let questions = self.questions().iter().enumerate().skip(first);
        let asked = questions
            .filter_map(|(number, question)| Some((number, (question.ask)(&self.options, &self.facts)?)));
        let mut out = Vec::new();
        let Some((number, sql)) = asked.take(1).next() else {
            self.phase = Phase::Registering;
            let register = RegisterReplica {
                server_id: self.options.server_id,
                host: self.options.report_host.as_bytes(),
                port: self.options.report_port,
                ..RegisterReplica::default()
            };
            Command::RegisterReplica(register).encode(&mut out)?;
            return Ok(out);
        };
        let reader = ResultReader::new(self.session.capabilities);
        self.phase = Phase::Asking { number, reader, value: None };
        Command::Query { sql: sql.as_bytes() }.encode(&mut out)?;
        Ok(out)
    }

    fn questions(&self) -> &'static [Question] {
        match self.session.flavour {
            Flavour::MySql => MYSQL,
            Flavour::MariaDb => MARIADB,
        }
    }

    fn dump(&self) -> Result<Vec<u8>, WireError> {
        let server_id = self.options.server_id;
        let mut flags = match self.session.flavour {
            Flavour::MySql => DumpFlags::HEARTBEAT_V2,
            Flavour::MariaDb => DumpFlags::SEND_ANNOTATE_ROWS,
        };
        if self.options.end == End::LastEvent {
            flags.0 |= DumpFlags::NON_BLOCK.0;
        }
        let command = match &self.options.start {
            Start::Position { file, position } => match u32::try_from(*position) {
                Ok(position) => Command::BinlogDump(BinlogDump { position, flags, server_id, file }),
                Err(_) => Command::BinlogDumpGtid(BinlogDumpGtid {
                    flags,
                    server_id,
                    file,
                    position: *position,
                    gtids: &NO_GTIDS,
                }),
            },
            Start::MariadbGtids { .. } => {
                Command::BinlogDump(BinlogDump { position: 4, flags, server_id, file: &[] })
            }
            Start::Gtids { set } => Command::BinlogDumpGtid(BinlogDumpGtid {
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

impl Refusal {
    fn passes(self, code: u16) -> bool {
        match self {
            Self::Ends => false,
            Self::UnknownVariable => code == UNKNOWN_VARIABLE,
            Self::Passes => true,
        }
    }
}

// What is asked.

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
    matches!(options.start, Start::MariadbGtids { .. }).then(|| sql.to_owned())
}

/// A string in SQL, whatever `sql_mode` says of backslashes: what needs care is left out, and is in no UUID or GTID.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|one| !matches!(one, '\'' | '\\')).collect();
    format!("'{plain}'")
}

// What the answers say.

fn nothing(_: &ReplicaOptions, _: &mut SourceFacts, _: Option<&[u8]>) -> Result<(), WireError> {
    Ok(())
}

fn clock(_: &ReplicaOptions, facts: &mut SourceFacts, value: Option<&[u8]>) -> Result<(), WireError> {
    facts.clock_s = value.and_then(|value| str::from_utf8(value).ok()?.parse().ok());
    Ok(())
}

fn server_id(
    options: &ReplicaOptions,
    facts: &mut SourceFacts,
    value: Option<&[u8]>,
) -> Result<(), WireError> {
    let id = value.and_then(|value| str::from_utf8(value).ok()?.parse().ok());
    let id: u32 = id.ok_or_else(|| answer("SERVER_ID", value, "a number"))?;
    if id == options.server_id {
        return Err(WireError::Same { what: "server_id", value: id.to_string() });
    }
    facts.server_id = Some(id);
    Ok(())
}

fn checksum(_: &ReplicaOptions, facts: &mut SourceFacts, value: Option<&[u8]>) -> Result<(), WireError> {
    facts.checksum = match value {
        None | Some(b"NONE") => ChecksumAlgorithm::Off,
        Some(b"CRC32") => ChecksumAlgorithm::Crc32,
        _ => return Err(answer("binlog_checksum", value, "NONE or CRC32")),
    };
    Ok(())
}

fn gtid_mode(_: &ReplicaOptions, facts: &mut SourceFacts, value: Option<&[u8]>) -> Result<(), WireError> {
    facts.gtid_mode = value.map(text);
    Ok(())
}

fn server_uuid(
    options: &ReplicaOptions,
    facts: &mut SourceFacts,
    value: Option<&[u8]>,
) -> Result<(), WireError> {
    facts.server_uuid = value.map(text);
    match facts.server_uuid.as_deref() {
        Some(uuid) if uuid == options.uuid => {
            Err(WireError::Same { what: "server_uuid", value: uuid.to_owned() })
        }
        _ => Ok(()),
    }
}

fn semi_sync(_: &ReplicaOptions, facts: &mut SourceFacts, value: Option<&[u8]>) -> Result<(), WireError> {
    if value == Some(b"1") {
        facts.semi_sync = SemiSync::On;
    }
    Ok(())
}

fn answer(question: &'static str, found: Option<&[u8]>, wanted: &'static str) -> WireError {
    WireError::Answer { question, found: found.map_or_else(|| "NULL".to_owned(), text), wanted }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}
