//! Prints the events that a server sends, as mysqlbinlog does.

use std::fs::File;
use std::io::{self, Write as _};
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use binlog::{Cursor, Event, EventType, HEADER_SIZE, Header, MAGIC};
use logs::is_file_name;

use super::payload::Opened;
use super::{Dump, Flow, Halt, Item, Log, Outcome};
use crate::bytes::Bytes;
use crate::decode::{LogFormat, decode, describe};
use crate::dump::row_format::RowFormat;
use crate::errno::os_error;
use crate::frame::IDEMPOTENT_END;
use crate::mysqlbinlog::{Dialect, create_result};
use crate::reader::{Block, ReadError};
use crate::remote::{AskedLog, RemoteSettings, Servers};
use crate::rewrite::{RewriteFailure, rewrite_raw};
use crate::settings::Remote;

/// Size at which queued events are printed, in bytes.
const BLOCK_SIZE: usize = 512 << 10;

/// State of reading a server's logs.
struct Remotely<'n> {
    log: Log<'n>,
    /// Position of the next event in its file, as mysqlbinlog counts it.
    position: u64,
    /// Events that have arrived but are not printed yet.
    bytes: Vec<u8>,
    events: Vec<Range<usize>>,
    raw: Option<RawFile>,
}

/// Target of `--raw`.
struct RawFile {
    prefix: Vec<u8>,
    /// Path of the next file, including the prefix.
    name: Vec<u8>,
}

/// Action for an event that arrived.
enum Fate {
    /// Queue it, to be printed with those that follow.
    Joined,
    /// Print it alone, at position `at`, and advance the position by `size`.
    Alone { at: u64, size: u64 },
    /// Ignore it.
    Passed,
    /// Stop: the rest was not requested.
    Last,
    /// Fail: it names a file that cannot be one of the server's logs.
    Misnamed,
}

impl Dump<'_, '_> {
    /// Prints a log that a server sends, and the logs after it if requested.
    pub(super) fn remote_log(
        &mut self,
        name: &[u8],
        start: u64,
        remote: &RemoteSettings,
        servers: &mut dyn Servers,
    ) -> Outcome {
        self.ask_for(name, start, remote, servers)?;
        let log = Log {
            name,
            format: Arc::new(LogFormat::at_first()),
            in_use: false,
            rows_only: RowFormat::default(),
        };
        let raw = remote.raw.clone().map(|prefix| RawFile { prefix, name: Vec::new() });
        let mut remotely = Remotely { log, position: start, bytes: Vec::new(), events: Vec::new(), raw };
        loop {
            let has_more = servers.has_more().map_err(|why| self.complain_of_packet(&why))?;
            if !has_more || remotely.bytes.len() >= BLOCK_SIZE {
                if self.joined(&mut remotely)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
                if !has_more {
                    self.hand_on()?;
                }
            }
            let next = match servers.next() {
                Ok(next) => next,
                Err(why) => {
                    self.joined(&mut remotely)?;
                    return Err(self.complain_of_packet(&why));
                }
            };
            let Some(event) = next else { return self.joined(&mut remotely) };
            match self.arrived(event, start, remote, &mut remotely)? {
                (Flow::Continue, More::Yes) => {}
                (flow, _) => return Ok(flow),
            }
        }
    }

    fn complain_of_packet(&mut self, why: &str) -> Halt {
        self.talk.error(&[b"Got error reading packet from server: ", why.as_bytes()]);
        Halt::Failed
    }

    /// Handles one event that arrived.
    fn arrived(
        &mut self,
        event: &[u8],
        start: u64,
        remote: &RemoteSettings,
        remotely: &mut Remotely<'_>,
    ) -> Result<(Flow, More), Halt> {
        let fate = match fate(event, start, remote, remotely) {
            Ok(fate) => fate,
            Err(error) => return Err(self.complain_of_construction(&error)),
        };
        match fate {
            // mysqlbinlog computes size 0 for an event made up by the server, and then fails to check it.
            Fate::Alone { size: 0, .. } if self.settings.require_row_format => {
                self.joined(remotely)?;
                return Err(self.complain_of_unexpected());
            }
            Fate::Passed => {}
            Fate::Misnamed => {
                self.talk.error(&[b"Invalid log file name in rotate event."]);
                return Err(Halt::Failed);
            }
            Fate::Last => return Ok((self.joined(remotely)?, More::No)),
            Fate::Joined if remotely.raw.is_some() => self.keep_raw(event, remotely)?,
            Fate::Joined => {
                let from = remotely.bytes.len();
                remotely.bytes.extend_from_slice(event);
                remotely.events.push(from..remotely.bytes.len());
            }
            Fate::Alone { at, size } => {
                if remotely.raw.is_some() {
                    remotely.position = at + size;
                    if size > 0 {
                        self.keep_raw(event, remotely)?;
                    }
                    return Ok((Flow::Continue, More::Yes));
                }
                if self.joined(remotely)? == Flow::Stop {
                    return Ok((Flow::Stop, More::No));
                }
                remotely.position = at;
                remotely.bytes.extend_from_slice(event);
                remotely.events.push(0..event.len());
                let flow = self.joined(remotely)?;
                remotely.position = at + size;
                return Ok((flow, More::Yes));
            }
        }
        Ok((Flow::Continue, More::Yes))
    }

    /// Prints the queued events.
    fn joined(&mut self, remotely: &mut Remotely<'_>) -> Outcome {
        let (bytes, events) = (take(&mut remotely.bytes), take(&mut remotely.events));
        if events.is_empty() {
            return Ok(Flow::Continue);
        }
        let (start, size) = (remotely.position, bytes.len() as u64);
        let block = Block::of_events(start, bytes, events, Arc::clone(&remotely.log.format));
        remotely.position = start + size;
        self.block_events(&block, &Opened::default(), &mut remotely.log)
    }

    fn keep_raw(&mut self, event: &[u8], remotely: &mut Remotely<'_>) -> Result<(), Halt> {
        if event_type(event) != Some(EventType::FormatDescription) {
            self.check_row_format(event, &mut remotely.log)?;
        }
        let Some(raw) = &mut remotely.raw else { return Ok(()) };
        if event_type(event) == Some(EventType::FormatDescription) {
            match describe(event) {
                Ok((_, format)) => remotely.log.format = Arc::new(format),
                Err(error) => return Err(self.complain_of_construction(&error)),
            }
            match create(&raw.name) {
                Ok(file) => self.raw_file = Some(file),
                Err(error) => {
                    self.talk.file(&[
                        b"Can't create/write to file '",
                        &raw.name,
                        b"' (",
                        &os_error(&error),
                        b")",
                    ]);
                    self.talk.error(&[b"Could not create log file '", &raw.name, b"'"]);
                    return Err(Halt::Failed);
                }
            }
        }
        let format = &remotely.log.format;
        let rewritten = match rewrite_raw(event, format, &self.settings.rewrites, &mut self.opener) {
            Ok(rewritten) => rewritten,
            Err(RewriteFailure) => {
                self.talk.error(&[b"Got a fatal error while applying rewrite db filter."]);
                return Err(Halt::Failed);
            }
        };
        let event = rewritten.as_deref().unwrap_or(event);
        let written = self.raw_file.as_mut().map_or(Ok(()), |file| file.write_all(event));
        written.map_err(|_| {
            self.talk.error(&[b"Could not write into log file '", &raw.name, b"'"]);
            Halt::Failed
        })
    }

    /// Ends a run with `--raw`. mysqlbinlog appends the end of `--idempotent` to the last file, which then does not end
    /// with an event. Under the name bintide, the files stay valid logs.
    pub(super) fn end_raw(&mut self) -> Result<(), Halt> {
        if !self.settings.idempotent {
            return Ok(());
        }
        match (&mut self.raw_file, self.settings.dialect) {
            (Some(file), Dialect::Mysqlbinlog) => file.write_all(IDEMPOTENT_END).map_err(|error| {
                self.talk.error(&[b"Error writing event to file. (", &os_error(&error), b")"]);
                Halt::Failed
            }),
            (Some(_), Dialect::Bintide) => Ok(()),
            (None, _) => {
                self.batch.text().extend_from_slice(IDEMPOTENT_END);
                Ok(())
            }
        }
    }

    /// Refuses an event that `--require-row-format` does not allow.
    fn check_row_format(&mut self, event: &[u8], log: &mut Log<'_>) -> Result<(), Halt> {
        if !self.settings.require_row_format {
            return Ok(());
        }
        let header = Header::decode(&mut Cursor::new(event)).ok();
        let checksum = log.format.checksum.for_events();
        let decoded =
            header.and_then(|header| Some((header, decode(event, &header, checksum, &log.format)?)));
        match decoded {
            Some((header, event)) if log.rows_only.takes(header.event_type, &event) => Ok(()),
            Some(_) => Err(self.complain_of_statement()),
            None => Err(self.complain_of_unexpected()),
        }
    }

    fn complain_of_unexpected(&mut self) -> Halt {
        self.talk.error(&[b"Unexpected event being evaluated under --require-row-format."]);
        Halt::Failed
    }

    fn complain_of_construction(&mut self, error: &ReadError) -> Halt {
        self.talk.error(&[b"Could not construct log event object: ", error.text().as_bytes()]);
        Halt::Failed
    }

    /// Connects and requests a log.
    fn ask_for(
        &mut self,
        name: &[u8],
        start: u64,
        remote: &RemoteSettings,
        servers: &mut dyn Servers,
    ) -> Result<(), Halt> {
        let talk = &mut self.talk;
        if remote.connection.has_idle_authority() {
            talk.plain(&[IDLE_AUTHORITY]);
        }
        let mut failed = |what: &str, why: &str| {
            talk.error(&[what.as_bytes(), why.as_bytes()]);
            Halt::Failed
        };
        servers.connect(&remote.connection).map_err(|why| failed("Failed on connect: ", &why))?;
        let query_failed = "Could not find server version: Query failed when checking source version: ";
        let version = servers.query("SELECT VERSION()").map_err(|why| failed(query_failed, &why))?;
        if !matches!(version.first(), Some(b'5' | b'8' | b'9')) {
            let version = String::from_utf8_lossy(&version);
            let what = "Could not find server version: Source reported unrecognized MySQL version '";
            return Err(failed(what, &format!("{version}'.")));
        }
        let sql = "SET @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE'";
        let unaware = "Could not notify source about checksum awareness. Source returned '";
        servers.query(sql).map_err(|why| failed(unaware, &format!("{why}'")))?;
        let mut excluded = Vec::new();
        let set = self.settings.exclude_gtids.clone().unwrap_or_default();
        set.encode(set.format(), &mut excluded);
        let log = AskedLog {
            name,
            position: start,
            server_id: remote.server_id,
            waits: remote.waits,
            gtids: (remote.by == Remote::ByGtids).then_some(excluded.as_slice()),
        };
        servers.ask(&log).map_err(|why| failed("Open binlog error: ", &why))
    }
}

/// mysqlbinlog's warning for a CA that the SSL mode does not use.
const IDLE_AUTHORITY: &[u8] =
    b"WARNING: no verification of server certificate will be done. Use --ssl-mode=VERIFY_CA or VERIFY_IDENTITY.";

/// Continuation of the stream: more events, or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Yes,
    No,
}

/// Returns the action for an event. A Rotate event without a time was made up by the server.
fn fate(
    event: &[u8],
    start: u64,
    remote: &RemoteSettings,
    remotely: &mut Remotely<'_>,
) -> Result<Fate, ReadError> {
    let header = Header::decode(&mut Cursor::new(event)).map_err(|_| ReadError::Truncated)?;
    match header.event_type {
        EventType::Heartbeat | EventType::HeartbeatV2 => Ok(Fate::Passed),
        EventType::Rotate => {
            let next = next_log(event, &remotely.log)?;
            if let Some(raw) = &mut remotely.raw {
                if !is_file_name(&next) {
                    return Ok(Fate::Misnamed);
                }
                raw.name = [raw.prefix.as_slice(), &next].concat();
            }
            Ok(match (header.timestamp, remote.to_last_log) {
                (0, true) => Fate::Alone { at: start, size: 0 },
                (0, false) if next == remotely.log.name => Fate::Passed,
                (0, false) => Fate::Last,
                _ => Fate::Joined,
            })
        }
        EventType::FormatDescription => {
            let at = remotely.position + remotely.bytes.len() as u64;
            // A format description sent before events from the middle of a file takes no space in that file.
            let is_counted = at == MAGIC.len() as u64 || remotely.raw.is_some();
            Ok(Fate::Alone { at, size: if is_counted { event.len() as u64 } else { 0 } })
        }
        _ => Ok(Fate::Joined),
    }
}

/// Returns the log that a Rotate event names.
fn next_log(event: &[u8], log: &Log<'_>) -> Result<Vec<u8>, ReadError> {
    let buffer = Arc::new(Bytes::new(event.to_vec()));
    let item = Item::new(&buffer, 0..event.len(), 0, &log.format)?;
    match decode(item.bytes, &item.header, item.checksum, item.format) {
        Some(Event::Rotate(rotate)) => Ok(rotate.file.to_vec()),
        _ => Err(item.why_invalid()),
    }
}

fn event_type(event: &[u8]) -> Option<EventType> {
    event.get(..HEADER_SIZE).and_then(|header| header.get(4)).copied().map(EventType::from_code)
}

fn create(name: &[u8]) -> io::Result<File> {
    let mut file = create_result(name)?;
    file.write_all(&MAGIC)?;
    Ok(file)
}
