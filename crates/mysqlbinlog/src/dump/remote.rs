//! Prints the events that a server sends, as mysqlbinlog does.

use std::fs::File;
use std::io::{self, Write as _};
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use binlog::{Cursor, Event, EventHeader, EventType, HEADER_SIZE, MAGIC};
use logs::is_file_name;

use super::payload::PayloadEvents;
use super::{BlockEvent, CurrentLog, EventFlow, FlowResult, HaltReason, LogDumper};
use crate::block_reader::EventBlock;
use crate::decode::{LogFormat, decode, read_format};
use crate::dump::row_format_state::RowFormatState;
use crate::dump_dialect::DumpDialect;
use crate::errno::os_error;
use crate::event_buffer::EventBuffer;
use crate::frame::IDEMPOTENT_END;
use crate::parsed_options::RemoteMode;
use crate::read_error::ReadError;
use crate::remote::{LogRequest, ServerAccess};
use crate::remote_settings::RemoteSettings;
use crate::result_file::create_result;
use crate::rewrite::{RewriteFailure, rewrite_raw};

/// Size at which queued events are printed, in bytes.
const BLOCK_SIZE: usize = 512 << 10;

/// State of reading a server's logs.
struct RemoteProgress<'n> {
    log: CurrentLog<'n>,
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
enum RemoteAction {
    /// Queue it, to be printed with those that follow.
    Queue,
    /// Print it alone, at position `at`, and advance the position by `size`.
    DumpAlone { at: u64, size: u64 },
    /// Ignore it.
    Skip,
    /// Stop: the rest was not requested.
    Stop,
    /// Fail: it names a file that cannot be one of the server's logs.
    InvalidName,
}

impl LogDumper<'_, '_> {
    /// Prints a log that a server sends, and the logs after it if requested.
    pub(super) fn dump_remote_log(
        &mut self,
        name: &[u8],
        start: u64,
        remote: &RemoteSettings,
        servers: &mut dyn ServerAccess,
    ) -> FlowResult {
        self.request_log(name, start, remote, servers)?;
        let log = CurrentLog {
            name,
            format: Arc::new(LogFormat::initial()),
            in_use: false,
            rows_only: RowFormatState::default(),
        };
        let raw = remote.raw.clone().map(|prefix| RawFile { prefix, name: Vec::new() });
        let mut progress =
            RemoteProgress { log, position: start, bytes: Vec::new(), events: Vec::new(), raw };
        loop {
            let has_more = servers.has_more().map_err(|why| self.report_packet_error(&why))?;
            if !has_more || progress.bytes.len() >= BLOCK_SIZE {
                if self.dump_queue(&mut progress)? == EventFlow::Stop {
                    return Ok(EventFlow::Stop);
                }
                if !has_more {
                    self.send_batch()?;
                }
            }
            let next = match servers.next() {
                Ok(next) => next,
                Err(why) => {
                    self.dump_queue(&mut progress)?;
                    return Err(self.report_packet_error(&why));
                }
            };
            let Some(event) = next else { return self.dump_queue(&mut progress) };
            match self.handle_event(event, start, remote, &mut progress)? {
                (EventFlow::Continue, MoreEvents::Yes) => {}
                (flow, _) => return Ok(flow),
            }
        }
    }

    fn report_packet_error(&mut self, why: &str) -> HaltReason {
        self.diagnostics.error(&[b"Got error reading packet from server: ", why.as_bytes()]);
        HaltReason::Failed
    }

    /// Handles one event that arrived.
    fn handle_event(
        &mut self,
        event: &[u8],
        start: u64,
        remote: &RemoteSettings,
        progress: &mut RemoteProgress<'_>,
    ) -> Result<(EventFlow, MoreEvents), HaltReason> {
        let fate = match action_for(event, start, remote, progress) {
            Ok(fate) => fate,
            Err(error) => return Err(self.report_decode_error(&error)),
        };
        match fate {
            // mysqlbinlog computes size 0 for an event made up by the server, and then fails to check it.
            RemoteAction::DumpAlone { size: 0, .. } if self.settings.require_row_format => {
                self.dump_queue(progress)?;
                return Err(self.report_unexpected_event());
            }
            RemoteAction::Skip => {}
            RemoteAction::InvalidName => {
                self.diagnostics.error(&[b"Invalid log file name in rotate event."]);
                return Err(HaltReason::Failed);
            }
            RemoteAction::Stop => return Ok((self.dump_queue(progress)?, MoreEvents::No)),
            RemoteAction::Queue if progress.raw.is_some() => self.write_raw(event, progress)?,
            RemoteAction::Queue => {
                let from = progress.bytes.len();
                progress.bytes.extend_from_slice(event);
                progress.events.push(from..progress.bytes.len());
            }
            RemoteAction::DumpAlone { at, size } => {
                if progress.raw.is_some() {
                    progress.position = at + size;
                    if size > 0 {
                        self.write_raw(event, progress)?;
                    }
                    return Ok((EventFlow::Continue, MoreEvents::Yes));
                }
                if self.dump_queue(progress)? == EventFlow::Stop {
                    return Ok((EventFlow::Stop, MoreEvents::No));
                }
                progress.position = at;
                progress.bytes.extend_from_slice(event);
                progress.events.push(0..event.len());
                let flow = self.dump_queue(progress)?;
                progress.position = at + size;
                return Ok((flow, MoreEvents::Yes));
            }
        }
        Ok((EventFlow::Continue, MoreEvents::Yes))
    }

    /// Prints the queued events.
    fn dump_queue(&mut self, progress: &mut RemoteProgress<'_>) -> FlowResult {
        let (bytes, events) = (take(&mut progress.bytes), take(&mut progress.events));
        if events.is_empty() {
            return Ok(EventFlow::Continue);
        }
        let (start, size) = (progress.position, bytes.len() as u64);
        let block = EventBlock::of_events(start, bytes, events, Arc::clone(&progress.log.format));
        progress.position = start + size;
        self.dump_block_events(&block, &PayloadEvents::default(), &mut progress.log)
    }

    fn write_raw(&mut self, event: &[u8], progress: &mut RemoteProgress<'_>) -> Result<(), HaltReason> {
        if event_type(event) != Some(EventType::FormatDescription) {
            self.check_row_format(event, &mut progress.log)?;
        }
        let Some(raw) = &mut progress.raw else { return Ok(()) };
        if event_type(event) == Some(EventType::FormatDescription) {
            match read_format(event) {
                Ok((_, format)) => progress.log.format = Arc::new(format),
                Err(error) => return Err(self.report_decode_error(&error)),
            }
            match create(&raw.name) {
                Ok(file) => self.raw_file = Some(file),
                Err(error) => {
                    self.diagnostics.file_message(&[
                        b"Can't create/write to file '",
                        &raw.name,
                        b"' (",
                        &os_error(&error),
                        b")",
                    ]);
                    self.diagnostics.error(&[b"Could not create log file '", &raw.name, b"'"]);
                    return Err(HaltReason::Failed);
                }
            }
        }
        let format = &progress.log.format;
        let rewritten = match rewrite_raw(event, format, &self.settings.rewrites, &mut self.opener) {
            Ok(rewritten) => rewritten,
            Err(RewriteFailure) => {
                self.diagnostics.error(&[b"Got a fatal error while applying rewrite db filter."]);
                return Err(HaltReason::Failed);
            }
        };
        let event = rewritten.as_deref().unwrap_or(event);
        let written = self.raw_file.as_mut().map_or(Ok(()), |file| file.write_all(event));
        written.map_err(|_| {
            self.diagnostics.error(&[b"Could not write into log file '", &raw.name, b"'"]);
            HaltReason::Failed
        })
    }

    /// Ends a run with `--raw`. mysqlbinlog appends the end of `--idempotent` to the last file, which then does not end
    /// with an event. Under the name bintide, the files stay valid logs.
    pub(super) fn end_raw(&mut self) -> Result<(), HaltReason> {
        if !self.settings.idempotent {
            return Ok(());
        }
        match (&mut self.raw_file, self.settings.dialect) {
            (Some(file), DumpDialect::Mysqlbinlog) => file.write_all(IDEMPOTENT_END).map_err(|error| {
                self.diagnostics.error(&[b"Error writing event to file. (", &os_error(&error), b")"]);
                HaltReason::Failed
            }),
            (Some(_), DumpDialect::Bintide) => Ok(()),
            (None, _) => {
                self.batch.text_mut().extend_from_slice(IDEMPOTENT_END);
                Ok(())
            }
        }
    }

    /// Refuses an event that `--require-row-format` does not allow.
    fn check_row_format(&mut self, event: &[u8], log: &mut CurrentLog<'_>) -> Result<(), HaltReason> {
        if !self.settings.require_row_format {
            return Ok(());
        }
        let header = EventHeader::decode(&mut Cursor::new(event)).ok();
        let checksum = log.format.checksum.for_events();
        let decoded =
            header.and_then(|header| Some((header, decode(event, &header, checksum, &log.format)?)));
        match decoded {
            Some((header, event)) if log.rows_only.admit(header.event_type, &event) => Ok(()),
            Some(_) => Err(self.report_row_format_violation()),
            None => Err(self.report_unexpected_event()),
        }
    }

    fn report_unexpected_event(&mut self) -> HaltReason {
        self.diagnostics.error(&[b"Unexpected event being evaluated under --require-row-format."]);
        HaltReason::Failed
    }

    fn report_decode_error(&mut self, error: &ReadError) -> HaltReason {
        self.diagnostics.error(&[b"Could not construct log event object: ", error.text().as_bytes()]);
        HaltReason::Failed
    }

    /// Connects and requests a log.
    fn request_log(
        &mut self,
        name: &[u8],
        start: u64,
        remote: &RemoteSettings,
        servers: &mut dyn ServerAccess,
    ) -> Result<(), HaltReason> {
        let diagnostics = &mut self.diagnostics;
        if remote.connection.has_unused_ca() {
            diagnostics.plain(&[UNUSED_CA_WARNING]);
        }
        let mut failed = |what: &str, why: &str| {
            diagnostics.error(&[what.as_bytes(), why.as_bytes()]);
            HaltReason::Failed
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
        let set = self.settings.common.exclude_gtids.clone().unwrap_or_default();
        set.encode(set.format(), &mut excluded);
        let log = LogRequest {
            name,
            position: start,
            server_id: remote.server_id,
            at_end: remote.at_end,
            gtids: (remote.mode == RemoteMode::ByGtids).then_some(excluded.as_slice()),
        };
        servers.request_log(&log).map_err(|why| failed("Open binlog error: ", &why))
    }
}

/// mysqlbinlog's warning for a CA that the SSL mode does not use.
const UNUSED_CA_WARNING: &[u8] =
    b"WARNING: no verification of server certificate will be done. Use --ssl-mode=VERIFY_CA or VERIFY_IDENTITY.";

/// Continuation of the stream: more events, or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoreEvents {
    Yes,
    No,
}

/// Returns the action for an event. A Rotate event without a time was made up by the server.
fn action_for(
    event: &[u8],
    start: u64,
    remote: &RemoteSettings,
    progress: &mut RemoteProgress<'_>,
) -> Result<RemoteAction, ReadError> {
    let header = EventHeader::decode(&mut Cursor::new(event)).map_err(|_| ReadError::Truncated)?;
    match header.event_type {
        EventType::Heartbeat | EventType::HeartbeatV2 => Ok(RemoteAction::Skip),
        EventType::Rotate => {
            let next = next_log(event, &progress.log)?;
            if let Some(raw) = &mut progress.raw {
                if !is_file_name(&next) {
                    return Ok(RemoteAction::InvalidName);
                }
                raw.name = [raw.prefix.as_slice(), &next].concat();
            }
            Ok(match (header.timestamp, remote.to_last_log) {
                (0, true) => RemoteAction::DumpAlone { at: start, size: 0 },
                (0, false) if next == progress.log.name => RemoteAction::Skip,
                (0, false) => RemoteAction::Stop,
                _ => RemoteAction::Queue,
            })
        }
        EventType::FormatDescription => {
            let at = progress.position + progress.bytes.len() as u64;
            // A format description sent before events from the middle of a file takes no space in that file.
            let is_counted = at == MAGIC.len() as u64 || progress.raw.is_some();
            Ok(RemoteAction::DumpAlone { at, size: if is_counted { event.len() as u64 } else { 0 } })
        }
        _ => Ok(RemoteAction::Queue),
    }
}

/// Returns the log that a Rotate event names.
fn next_log(event: &[u8], log: &CurrentLog<'_>) -> Result<Vec<u8>, ReadError> {
    let buffer = Arc::new(EventBuffer::new(event.to_vec()));
    let item = BlockEvent::new(&buffer, 0..event.len(), 0, &log.format)?;
    match decode(item.bytes, &item.header, item.checksum, item.format) {
        Some(Event::Rotate(rotate)) => Ok(rotate.file.to_vec()),
        _ => Err(item.invalid_reason()),
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
