//! Rewrite of one file, in place or to another file.

use std::fmt;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use binlog::MAGIC_ENCRYPTED;
use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, Keyring};
use logs::{LogReader, PositionPair, RewritePositions, RewrittenSizes, open_regular, positions_path};

use crate::content_digest::scan_log;
use crate::encrypted_writer::EncryptedWriter;
use crate::error::{ErrorContext, RewriteError};
use crate::rewrite_output::RewriteOutput;
use crate::rewrite_tally::{RewriteProgress, TransactionMove};
use crate::staged_file::StagedFile;
use crate::{
    ResourcePlan, RewriteAction, RewriteLimits, RewriteReport, RewriteSettings, TornEndPolicy, rewrite,
};

/// A file to rewrite.
#[derive(Clone)]
pub struct FileJob<'p> {
    /// The log.
    pub source: &'p Path,
    /// Path of the new log: equal to `source`, or another path.
    pub target: &'p Path,
    /// Action on the log's transactions.
    pub action: RewriteAction,
    /// Limits on threads and memory.
    pub plan: ResourcePlan,
    /// Keyring, in case the log is encrypted.
    pub keyring: Option<Arc<Keyring>>,
    /// Treatment of an encrypted log's encryption.
    pub encryption: OutputEncryption,
    /// Check of the new log before it replaces the old one.
    pub check: ContentCheck,
    /// Dry run or real run.
    pub write_mode: WriteMode,
    /// Called right before the rewrite replaces the log itself. Returns false if the log is in use: another process may
    /// be writing to it, or needs its positions.
    pub may_replace: &'p (dyn Fn(&Path) -> bool + Sync),
}

impl fmt::Debug for FileJob<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, target, action, .. } = self;
        let mut fields = out.debug_struct("FileJob");
        fields.field("source", source).field("target", target).field("action", action).finish_non_exhaustive()
    }
}

/// Treatment of an encrypted log's encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputEncryption {
    /// The new log is encrypted under a new password and the same key.
    Preserve,
    /// The new log is not encrypted.
    Remove,
}

/// Check of the new log before it replaces the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCheck {
    /// The new log is read again, and its content compared with the old log's content.
    Compare,
    /// No check.
    Skip,
}

/// Dry run or real run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// The new log is written.
    Write,
    /// Nothing is written: the rewrite discards its result. A torn log that is flagged as in use ends at the torn event.
    DryRun,
}

/// Result of rewriting one file.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// Transactions and bytes.
    pub report: RewriteReport,
    /// State of the file on disk.
    pub outcome: RewriteOutcome,
    /// Path of the list of positions, if one was written.
    pub positions: Option<PathBuf>,
}

/// State of the file on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteOutcome {
    /// The new log is in place.
    Written,
    /// The old log is unchanged: there was nothing to do.
    Unchanged,
    /// The old log is unchanged: this was a dry run.
    DryRun,
}

/// Rewrites one regular file.
///
/// The old file stays until the new one is complete, synced to disk and, if requested, compared with the old one.
///
/// A list of the old and new start of each transaction is written beside the new log: see [`positions_path`]. The list
/// is in place before the new log. It never overwrites an earlier list: later lists get the suffix `.2`, `.3`, …
///
/// Calls `progress` as the work advances. If `progress` returns `Break`, the work stops.
///
/// # Errors
///
/// Fails if [`rewrite`] fails, if the operating system reports an error, if the old file changed meanwhile, or if the
/// new log has another path and a file exists there. All files are unchanged, except if only the sync of the directory
/// failed: the new log and its list are then in place.
pub fn rewrite_file(
    job: &FileJob<'_>,
    progress: &mut dyn FnMut(RewriteProgress) -> ControlFlow<()>,
) -> Result<FileReport, RewriteError> {
    if job.write_mode == WriteMode::DryRun {
        let sizes = job.plan.sizes(&std::env::temp_dir());
        let report = rewrite_to(job, &sizes, io::sink(), &mut |moved| progress(moved.into()))?;
        return Ok(FileReport { report, outcome: RewriteOutcome::DryRun, positions: None });
    }
    let in_place = is_same_file(job.source, job.target);
    let stamp = FileStamp::of(job.source)?;
    let mut log = StagedFile::begin(job.target)?;
    let mut positions = StagedFile::begin_at(&positions_path(job.target))?;
    let report = run_with_positions(job, &mut log, &mut positions, progress)?;
    let is_opened =
        job.encryption == OutputEncryption::Remove && read_encrypted_header(job.source)?.is_some();
    if in_place && !is_opened && !report.tally.is_changed() {
        return Ok(FileReport { report, outcome: RewriteOutcome::Unchanged, positions: None });
    }
    let log = if in_place { log.sync(job.source)? } else { log.sync_copy(job.source)? };
    if job.check == ContentCheck::Compare {
        compare_content(job, log.path())?;
    }
    if FileStamp::of(job.source)? != stamp {
        return Err(RewriteError::Changed { name: job.source.display().to_string() });
    }
    // If the process is killed between the two steps, a list without its log does no harm. A log without its list
    // would.
    let positions = if in_place { positions.sync(job.source)? } else { positions.sync_copy(job.source)? };
    let positions = positions.create_numbered()?;
    let put = match in_place {
        true if !(job.may_replace)(job.source) => {
            Err(RewriteError::InUse { name: job.source.display().to_string() })
        }
        true => log.replace_target(),
        false => log.create_target(),
    };
    if put.is_err() && positions.is_new {
        // Ignore an error here: the first error is reported.
        let _ = fs::remove_file(&positions.path);
    }
    put?.sync()?;
    Ok(FileReport { report, outcome: RewriteOutcome::Written, positions: Some(positions.path) })
}

/// Attributes that show whether a file has been changed or replaced.
#[derive(PartialEq, Eq)]
struct FileStamp {
    size: u64,
    modified: std::time::SystemTime,
    /// Device, inode number, and time of the last change of the inode.
    #[cfg(unix)]
    inode: (u64, u64, i64, i64),
}

impl FileStamp {
    fn of(path: &Path) -> Result<Self, RewriteError> {
        let name = || path.display().to_string();
        let stamp = fs::metadata(path).and_then(|data| {
            #[cfg(unix)]
            let inode = {
                use std::os::unix::fs::MetadataExt;
                (data.dev(), data.ino(), data.ctime(), data.ctime_nsec())
            };
            Ok(Self {
                size: data.len(),
                modified: data.modified()?,
                #[cfg(unix)]
                inode,
            })
        });
        stamp.map_err(|cause| {
            logs::LogError::Io { verb: "read the attributes of", name: name(), cause }.into()
        })
    }
}

/// Rewrites the log and writes the list of positions.
fn run_with_positions(
    job: &FileJob<'_>,
    log: &mut StagedFile,
    positions: &mut StagedFile,
    progress: &mut dyn FnMut(RewriteProgress) -> ControlFlow<()>,
) -> Result<RewriteReport, RewriteError> {
    let sizes = job.plan.sizes(log.path().parent().unwrap_or(Path::new(".")));
    let mut earlier = earlier_positions(job)?;
    let mut list = BufWriter::new(positions.file());
    let (mut failed, mut unmapped) = (None, None);
    let report = rewrite_to(job, &sizes, log.file(), &mut |moved| {
        let before =
            earlier.as_mut().map_or(Ok(moved.before), |earlier| earlier.original_start(moved.before));
        match before {
            Ok(before) => {
                let line = writeln!(list, "{before}\t{}", moved.after);
                failed = failed.take().or(line.err());
            }
            Err(error) => unmapped = unmapped.take().or(Some(error)),
        }
        progress(moved.into())
    })?;
    if let Some(error) = unmapped {
        return Err(error.into());
    }
    let mut headers = header_sizes(job)?;
    let files = fs::metadata(job.source).and_then(|before| {
        Ok(PositionPair { original: before.len(), rewritten: log.file().metadata()?.len() })
    });
    let written = failed.map_or(Ok(()), Err).and(files).and_then(|mut files| {
        if let Some(earlier) = &earlier {
            [files.original, headers.original] = earlier.original_sizes();
        }
        writeln!(list, "{}", RewrittenSizes { files, headers })?;
        list.flush()
    });
    let what = || format!("the list of positions {}", positions_path(job.target).display());
    written.map_err(|cause| RewriteError::Write { what: what(), cause })?;
    Ok(report)
}

/// Returns the positions of the source's log, if the log was rewritten before. A copy in another directory has one list,
/// which leads to them. In place, the lists remain one behind the other.
fn earlier_positions(job: &FileJob<'_>) -> Result<Option<RewritePositions>, RewriteError> {
    if is_same_file(job.source, job.target) {
        return Ok(None);
    }
    let size = fs::metadata(job.source).map(|found| found.len());
    let name = || job.source.display().to_string();
    let size =
        size.map_err(|cause| logs::LogError::Io { verb: "read the attributes of", name: name(), cause })?;
    Ok(RewritePositions::open(job.source, size)?)
}

/// Returns the sizes of the headers of the old and of the new log.
fn header_sizes(job: &FileJob<'_>) -> Result<PositionPair, RewriteError> {
    let original = read_encrypted_header(job.source)?.map_or(0, |_| ENCRYPTED_HEADER_SIZE as u64);
    let rewritten = if job.encryption == OutputEncryption::Preserve { original } else { 0 };
    Ok(PositionPair { original, rewritten })
}

/// Returns true if both paths lead to the same existing file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn rewrite_to(
    job: &FileJob<'_>,
    sizes: &RewriteLimits,
    out: impl RewriteOutput,
    progress: &mut dyn FnMut(TransactionMove) -> ControlFlow<()>,
) -> Result<RewriteReport, RewriteError> {
    let open = || open(job.source, job.keyring.as_ref());
    let mut progress = |moved| progress(moved);
    let torn_end = match job.write_mode {
        WriteMode::Write => TornEndPolicy::Refuse,
        WriteMode::DryRun => TornEndPolicy::EndBefore,
    };
    let settings = RewriteSettings { action: job.action, bounds: job.plan.bounds(), sizes, torn_end };
    let header = match job.encryption {
        OutputEncryption::Preserve => read_encrypted_header(job.source)?,
        OutputEncryption::Remove => None,
    };
    let Some((header, keyring)) = header.zip(job.keyring.as_ref()) else {
        return rewrite(settings, &open, out, &mut progress);
    };
    let name = job.source.display().to_string();
    let at = ErrorContext { name: &name, offset: 0 };
    let key = keyring
        .key(header.key_id())
        .ok_or_else(|| at.corrupt_error(&"its encryption key is not in the keyring"))?;
    let sealed = EncryptedWriter::begin(out, key);
    let sealed =
        sealed.map_err(|cause| RewriteError::Write { what: "an encrypted log".to_owned(), cause })?;
    rewrite(settings, &open, sealed, &mut progress)
}

fn open(path: &Path, keyring: Option<&Arc<Keyring>>) -> Result<LogReader, logs::LogError> {
    let reader = LogReader::open_stored(path)?;
    Ok(match keyring {
        Some(keyring) => reader.with_keyring(Arc::clone(keyring)),
        None => reader,
    })
}

/// Reads the header of an encrypted log. Returns `None` if the log is not encrypted.
fn read_encrypted_header(path: &Path) -> Result<Option<EncryptedHeader>, RewriteError> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read =
        open_regular(path).and_then(|file| file.take(ENCRYPTED_HEADER_SIZE as u64).read_to_end(&mut bytes));
    read.map_err(|cause| logs::LogError::Io { verb: "read", name: name.clone(), cause })?;
    match bytes.first_chunk() {
        Some(bytes) if bytes.starts_with(&MAGIC_ENCRYPTED) => {
            let header = EncryptedHeader::decode(bytes);
            header.map(Some).map_err(|error| ErrorContext { name: &name, offset: 0 }.decode_error(error))
        }
        _ => Ok(None),
    }
}

/// Reads both logs and compares their content.
fn compare_content(job: &FileJob<'_>, made: &Path) -> Result<(), RewriteError> {
    let read = |path: &Path| scan_log(&mut open(path, job.keyring.as_ref())?);
    let (before, after) = thread::scope(|scope| {
        let before = scope.spawn(|| read(job.source));
        let after = read(made);
        let before = before.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (before, after)
    });
    let (before, after) = (before?, after?);
    let name = job.source.display().to_string();
    let at = ErrorContext { name: &name, offset: 0 };
    if before.content != after.content {
        let (after, before) = (after.content, before.content);
        let what = format!("the rewritten log has different content: found {after:?}, expected {before:?}");
        return Err(at.corrupt_error(&what));
    }
    if after.mismatches > before.mismatches {
        let (after, before) = (after.mismatches, before.mismatches);
        let what =
            format!("the rewritten log has {after} wrong positions and sizes, the original has {before}");
        return Err(at.corrupt_error(&what));
    }
    Ok(())
}
