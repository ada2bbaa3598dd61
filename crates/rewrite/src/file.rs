//! Rewrites one file, in its place or beside it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use binlog::MAGIC_ENCRYPTED;
use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, Keyring};
use logs::LogReader;

use crate::encrypt::EncryptedWriter;
use crate::error::{At, Error};
use crate::meaning::read_through;
use crate::output::Output;
use crate::replace::Replacement;
use crate::tally::{Moved, Step};
use crate::{Action, Plan, Report, Sizes, rewrite};

/// One file to be rewritten.
#[derive(Clone, Debug)]
pub struct FileJob<'p> {
    /// The log.
    pub source: &'p Path,
    /// Where the new one goes: the same place, or another.
    pub target: &'p Path,
    /// What is done to its transactions.
    pub action: Action,
    /// How much of the machine it may take.
    pub plan: Plan,
    /// What opens it, should it be encrypted.
    pub keyring: Option<Arc<Keyring>>,
    /// Whether what was encrypted is encrypted again.
    pub sealing: Sealing,
    /// Whether the new log is read again before it is put in its place.
    pub check: Check,
    /// Whether anything is written.
    pub trial: Trial,
    /// Asked when all is ready and the log itself is to be replaced: may it be? Somebody may write to it by now.
    pub may_replace: fn(&Path) -> bool,
}

/// Is what was encrypted encrypted again?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// Yes: under a new password of its own, and the same key.
    AsBefore,
    /// No: it comes out in the open.
    Plain,
}

/// Is the new log read again, and compared, before it is put in its place?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Yes.
    Meaning,
    /// No.
    Nothing,
}

/// Is anything written?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// Yes.
    No,
    /// No: the work is done and its outcome thrown away.
    DryRun,
}

/// What became of a file.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// Transactions and bytes.
    pub report: Report,
    /// What is on disk now.
    pub outcome: FileOutcome,
    /// Where the list of positions is, if one was written.
    pub positions: Option<PathBuf>,
}

/// What is on disk now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOutcome {
    /// The new log, in its place.
    Written,
    /// The old one: there was nothing to do.
    Unchanged,
    /// The old one: nothing was to be written.
    Tried,
}

/// Rewrites one file. The old one is there until the new one is whole, on disk and, if asked for, compared; beside
/// the new one goes a list of where each transaction started and where it starts now: see [`positions_path`]. It is there
/// before the new log is, and no earlier list is overwritten: the next is called the same with `.2`, `.3`, …
///
/// `progress` is told how far the work has come; its `Break` ends it.
///
/// # Errors
///
/// As [`rewrite`]; when the system refuses; when the old file changes on the way; when the new one has another place
/// and something stands there. Then everything is as it was.
pub fn rewrite_file(
    job: &FileJob<'_>,
    progress: &mut dyn FnMut(Step) -> ControlFlow<()>,
) -> Result<FileReport, Error> {
    if job.trial == Trial::DryRun {
        let sizes = job.plan.sizes(&std::env::temp_dir());
        let report = run(job, &sizes, io::sink(), &mut |moved| progress(moved.into()))?;
        return Ok(FileReport { report, outcome: FileOutcome::Tried, positions: None });
    }
    let in_place = is_same_file(job.source, job.target);
    let stamp = Stamp::of(job.source)?;
    let mut log = Replacement::begin(job.target)?;
    let mut positions = Replacement::begin_at(&positions_path(job.target))?;
    let report = run_listed(job, &mut log, &mut positions, progress)?;
    let is_opened = job.sealing == Sealing::Plain && encrypted_header(job.source)?.is_some();
    if in_place && !is_opened && !report.tally.is_changed() {
        return Ok(FileReport { report, outcome: FileOutcome::Unchanged, positions: None });
    }
    let log = log.sync(job.source)?;
    if job.check == Check::Meaning {
        compare(job, log.path())?;
    }
    if Stamp::of(job.source)? != stamp {
        return Err(Error::Changed { name: job.source.display().to_string() });
    }
    // Should the process be killed between the two, a list without its log does no harm; a log without its list would.
    let positions = positions.sync(job.source)?.put_beside()?;
    let put = match in_place {
        true if !(job.may_replace)(job.source) => {
            Err(Error::InUse { name: job.source.display().to_string() })
        }
        true => log.put(),
        false => log.put_new(),
    };
    if put.is_err() && positions.is_new {
        // The first error tells more.
        let _ = fs::remove_file(&positions.path);
    }
    put?.sync()?;
    Ok(FileReport { report, outcome: FileOutcome::Written, positions: Some(positions.path) })
}

/// What tells that a file is still the same, and the same file.
#[derive(PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: std::time::SystemTime,
    /// Its device and number, and when anything of it changed last.
    #[cfg(unix)]
    inode: (u64, u64, i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, Error> {
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
        stamp.map_err(|cause| logs::Error::Io { verb: "look at", name: name(), cause }.into())
    }
}

/// Rewrites the log, and lists its transactions.
fn run_listed(
    job: &FileJob<'_>,
    log: &mut Replacement,
    positions: &mut Replacement,
    progress: &mut dyn FnMut(Step) -> ControlFlow<()>,
) -> Result<Report, Error> {
    let sizes = job.plan.sizes(log.path().parent().unwrap_or(Path::new(".")));
    let mut list = BufWriter::new(positions.file());
    let mut failed = None;
    let report = run(job, &sizes, log.file(), &mut |moved| {
        let line = writeln!(list, "{}\t{}", moved.before, moved.after);
        failed = failed.take().or(line.err());
        progress(moved.into())
    })?;
    let sizes = fs::metadata(job.source).and_then(|before| Ok((before.len(), log.file().metadata()?.len())));
    let written = failed.map_or(Ok(()), Err).and(sizes).and_then(|(before, after)| {
        writeln!(list, "# {before} bytes became {after}")?;
        list.flush()
    });
    let what = || format!("the list of positions {}", positions_path(job.target).display());
    written.map_err(|cause| Error::Write { what: what(), cause })?;
    Ok(report)
}

/// Where the list of positions of a log goes, unless something is there: beside it, with `positions.` in front of its name, so that what names
/// logs by their common start does not name it.
pub fn positions_path(log: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from("positions.");
    name.push(log.file_name().unwrap_or_default());
    log.with_file_name(name)
}

/// Do both paths lead to one file that exists?
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn run(
    job: &FileJob<'_>,
    sizes: &Sizes,
    out: impl Output,
    progress: &mut dyn FnMut(Moved) -> ControlFlow<()>,
) -> Result<Report, Error> {
    let open = || open(job.source, job.keyring.as_ref());
    let mut progress = |moved| progress(moved);
    let header = match job.sealing {
        Sealing::AsBefore => encrypted_header(job.source)?,
        Sealing::Plain => None,
    };
    let Some((header, keyring)) = header.zip(job.keyring.as_ref()) else {
        return rewrite(job.action, job.plan.bounds(), sizes, &open, out, &mut progress);
    };
    let name = job.source.display().to_string();
    let at = At { name: &name, offset: 0 };
    let key = keyring.key(header.key_id()).ok_or_else(|| at.corrupt(&"its key is not in the keyring"))?;
    let sealed = EncryptedWriter::begin(out, key);
    let sealed = sealed.map_err(|cause| Error::Write { what: "an encrypted log".to_owned(), cause })?;
    rewrite(job.action, job.plan.bounds(), sizes, &open, sealed, &mut progress)
}

fn open(path: &Path, keyring: Option<&Arc<Keyring>>) -> Result<LogReader, logs::Error> {
    let reader = LogReader::open(path)?;
    Ok(match keyring {
        Some(keyring) => reader.with_keyring(Arc::clone(keyring)),
        None => reader,
    })
}

/// The header of an encrypted log; `None` for one in the open.
fn encrypted_header(path: &Path) -> Result<Option<EncryptedHeader>, Error> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(ENCRYPTED_HEADER_SIZE as u64).read_to_end(&mut bytes));
    read.map_err(|cause| logs::Error::Io { verb: "read", name: name.clone(), cause })?;
    match bytes.first_chunk() {
        Some(bytes) if bytes.starts_with(&MAGIC_ENCRYPTED) => {
            let header = EncryptedHeader::decode(bytes);
            header.map(Some).map_err(|error| At { name: &name, offset: 0 }.decode(error))
        }
        _ => Ok(None),
    }
}

/// Reads both logs and compares what they say.
fn compare(job: &FileJob<'_>, made: &Path) -> Result<(), Error> {
    let read = |path: &Path| read_through(&mut open(path, job.keyring.as_ref())?);
    let (before, after) = thread::scope(|scope| {
        let before = scope.spawn(|| read(job.source));
        let after = read(made);
        let before = before.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (before, after)
    });
    let (before, after) = (before?, after?);
    let name = job.source.display().to_string();
    let at = At { name: &name, offset: 0 };
    if before.meaning != after.meaning {
        let (after, before) = (after.meaning, before.meaning);
        let what = format!("what was made of it says something else: {after:?}, wanted {before:?}");
        return Err(at.corrupt(&what));
    }
    if after.untrue > before.untrue {
        let (after, before) = (after.untrue, before.untrue);
        let what = format!("what was made of it has {after} wrong positions and sizes, and it {before}");
        return Err(at.corrupt(&what));
    }
    Ok(())
}
