//! Finds the end of a log's whole part, and copies the log up to there.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use binlog::encryption::ENCRYPTED_HEADER_SIZE;
use binlog::{EventFlags, EventRole, MAGIC, MAGIC_ENCRYPTED, RawEvent, TransactionGrammar};
use logs::{EventChunk, LogReader, WalkPiece, sync_parent};
use tempfile::NamedTempFile;

use crate::error::InspectError;
use crate::log_pieces::{OnDamage, PIECE_SIZES, PieceContent, PieceEvents, read_pieces};

/// Sizes of a repaired copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailRepair {
    /// Size of the copy in bytes.
    pub bytes_kept: u64,
    /// Bytes left out after that.
    pub bytes_cut: u64,
    /// End of the last whole transaction, in bytes from the start of the log. An encrypted log has a header before it.
    pub whole_end: u64,
    /// True if the log was flagged as in use. The copy is not.
    pub was_in_use: bool,
}

/// Error of repairing a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] InspectError),
    /// The fault is not in the tail: whole transactions follow it, and truncation would lose them.
    #[error(
        "cannot cut the tail of {name}: a whole transaction, at {whole}, follows the fault at {offset} and would be lost. Restore the log from another copy"
    )]
    NotAtTail {
        /// The log.
        name: String,
        /// Start of the faulty event.
        offset: u64,
        /// Start of a whole transaction after the fault.
        whole: u64,
    },
    /// The log does not even have a whole format description.
    #[error("cannot repair {name}: it has no whole format description")]
    NothingWhole {
        /// The log.
        name: String,
    },
    /// The operating system reports an error.
    #[error("could not {verb} {path}: {cause}")]
    Io {
        /// The operation that failed.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        cause: io::Error,
    },
}

/// Copies a log up to the end of its last whole transaction, as a server recovers its own log after a crash. Leaves out
/// a torn or incomplete end, and clears the in-use flag. Changes neither the log nor an existing file at `copy`.
///
/// # Errors
///
/// Fails if the log cannot be read, the copy cannot be written, or whole transactions follow a fault.
pub fn repair_tail(log: &Path, reader: LogReader, copy: &Path) -> Result<TailRepair, RepairError> {
    let name = reader.name().to_owned();
    let mut search = TailSearch::default();
    read_pieces(reader, 0, PIECE_SIZES, OnDamage::Resume, &mut |work, _| {
        search.take(work);
        Ok(())
    })?;
    if let Some(error) = search.unreadable {
        return Err(InspectError::Log(error).into());
    }
    if let (Some(offset), Some(whole)) = (search.fault, search.next_whole_transaction) {
        return Err(RepairError::NotAtTail { name, offset, whole });
    }
    if search.whole_end == 0 {
        return Err(RepairError::NothingWhole { name });
    }
    write_copy(log, copy, search.whole_end, search.in_use)
}

/// Search for the end of the last whole transaction.
#[derive(Debug, Default)]
struct TailSearch {
    grammar: TransactionGrammar,
    /// End of the last event before the fault that ends a transaction or is outside of any.
    whole_end: u64,
    fault: Option<u64>,
    /// Start of the first whole transaction after the fault.
    next_whole_transaction: Option<u64>,
    /// Start of the open transaction.
    start: u64,
    /// True if the open transaction's GTID event was read.
    is_announced: bool,
    in_use: bool,
    unreadable: Option<logs::LogError>,
}

impl TailSearch {
    fn take(&mut self, work: PieceContent) {
        match work {
            PieceContent::Events(PieceEvents { piece, .. }) => match piece {
                WalkPiece::Chunk(chunk) => self.chunk(&chunk),
                WalkPiece::PayloadEnd { head, end: Ok(end) } if end.checksum.is_ok() => {
                    self.step(head.offset, head.end(), EventRole::Payload);
                }
                WalkPiece::PayloadEnd { head, .. } => self.fault(head.offset),
                WalkPiece::PayloadStart(_) | WalkPiece::PayloadPart(_) => {}
            },
            PieceContent::Unreadable { offset, error, .. } => match error {
                logs::LogError::Corrupt { .. }
                | logs::LogError::Payload { .. }
                | logs::LogError::NotALog { .. }
                | logs::LogError::Torn { .. } => {
                    self.fault(offset);
                    self.grammar = TransactionGrammar::new();
                }
                error => self.unreadable = Some(error),
            },
            PieceContent::LogStart { .. } | PieceContent::LogEnd { .. } => {}
        }
    }

    fn chunk(&mut self, chunk: &EventChunk) {
        for event in chunk.iter() {
            let is_first = event.offset == MAGIC.len() as u64;
            self.in_use |= is_first && event.raw.header().flags.contains(EventFlags::IN_USE);
            match sound_role(&event.raw, chunk) {
                Some(role) => self.step(event.offset, event.end(), role),
                None => self.fault(event.offset),
            }
        }
    }

    fn step(&mut self, offset: u64, end: u64, role: EventRole) {
        let step = match self.grammar.step(role) {
            Ok(step) => step,
            Err(fault) => {
                self.fault(offset);
                fault.step
            }
        };
        if step.transaction.is_first() {
            self.start = offset;
            self.is_announced = matches!(role, EventRole::Gtid | EventRole::GtidAndBegin);
        }
        if self.fault.is_none() && !self.grammar.is_open() {
            self.whole_end = end;
        }
        // A transaction without a GTID event may be the end of a damaged one.
        if self.fault.is_some() && step.transaction.is_last() && self.is_announced {
            self.next_whole_transaction = self.next_whole_transaction.or(Some(self.start));
        }
    }

    fn fault(&mut self, offset: u64) {
        self.fault = self.fault.or(Some(offset));
        self.is_announced = false;
    }
}

fn sound_role(raw: &RawEvent<'_>, chunk: &EventChunk) -> Option<EventRole> {
    raw.verify().ok()?;
    EventRole::of(raw, chunk.format()).ok()
}

fn write_copy(log: &Path, copy: &Path, end: u64, in_use: bool) -> Result<TailRepair, RepairError> {
    let at = |verb, path: &Path| {
        let path = path.to_owned();
        move |cause| RepairError::Io { verb, path, cause }
    };
    let mut source = File::open(log).map_err(at("open", log))?;
    let mut magic = [0; MAGIC.len()];
    source.read_exact(&mut magic).map_err(at("read", log))?;
    source.rewind().map_err(at("read", log))?;
    // An encrypted log has an additional header, which shifts all positions in the file.
    let ahead = if magic == MAGIC_ENCRYPTED { ENCRYPTED_HEADER_SIZE as u64 } else { 0 };
    let directory = copy.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut target = NamedTempFile::new_in(directory).map_err(at("create a file beside", copy))?;
    let kept = ahead + end;
    let copied = io::copy(&mut source.take(kept), &mut target).map_err(at("write", copy))?;
    if copied < kept {
        return Err(at("read", log)(io::ErrorKind::UnexpectedEof.into()));
    }
    if in_use {
        clear_in_use(&mut target, ahead).map_err(at("write", copy))?;
    }
    let metadata = fs::metadata(log).map_err(at("read the attributes of", log))?;
    target.as_file().set_permissions(metadata.permissions()).map_err(at("write", copy))?;
    target.as_file().sync_all().map_err(at("write", copy))?;
    target.persist_noclobber(copy).map_err(|error| at("create", copy)(error.error))?;
    sync_parent(copy).map_err(|cause| {
        // The command can then be given again.
        let _ = fs::remove_file(copy);
        at("sync the directory entry of", copy)(cause)
    })?;
    Ok(TailRepair {
        bytes_kept: kept,
        bytes_cut: metadata.len().saturating_sub(kept),
        whole_end: end,
        was_in_use: in_use,
    })
}

/// Flips one bit of the first event's flags. The cipher of encrypted logs preserves bit flips, so this works there,
/// too.
fn clear_in_use(target: &mut NamedTempFile, ahead: u64) -> io::Result<()> {
    let flags_position = SeekFrom::Start(ahead + MAGIC.len() as u64 + FLAGS_OFFSET);
    let file = target.as_file_mut();
    let mut flags = [0];
    file.seek(flags_position)?;
    file.read_exact(&mut flags)?;
    file.seek(flags_position)?;
    file.write_all(&[flags[0] ^ EventFlags::IN_USE.0 as u8])
}

/// Offset of the flags in an event's header.
const FLAGS_OFFSET: u64 = 17;
