//! `bintide compress` and `bintide decompress`: logs in, logs out.

mod text;

use std::collections::HashSet;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use binlog::Level;
use binlog::encryption::Keyring;
use clap::Args;
use logs::LogReader;
use logs::ordered::Bounds;
use rewrite::{
    Action, Check, Compressed, Compression, FileJob, FileOutcome, FileReport, Keep, Sealing, Tally, Trial,
    is_same_file, rewrite_file,
};

use crate::args::Global;
use crate::exit::{Advice, Failure, Outcome, Verdict};
use crate::inputs::{Inputs, Place};
use crate::interrupt;
use crate::progress::Progress;
use crate::screen::Style;

pub(crate) const COMPRESS_EXAMPLES: &str = "\
Examples:
  Compress what a server wrote plain, in place, and compare before each file
  is replaced:
      bintide compress --verify /backup/binlog.0000*
  What would level 10 save?
      bintide compress --dry-run --level 10 binlog.000012
  Beside the originals, exactly as the server would have done it:
      bintide compress --like-server --output /backup/small binlog.0000*

A compressed log is still a binary log: mysqlbinlog and replicas since MySQL
8.0.20 read it. Owner, mode and modification time stay; beside each file goes
positions.FILE, a line a transaction: where it started, where it starts now.
Interrupt it at any time and run it again: what is done is passed over.";

pub(crate) const DECOMPRESS_EXAMPLES: &str = "\
Examples:
  For a reader that knows no compressed transactions:
      bintide decompress --output plain binlog.0000*
  In place:
      bintide decompress binlog.000012

What a server wrote plain and bintide compressed comes back byte for byte.";

/// Arguments of `bintide compress`.
#[derive(Args, Debug)]
pub(crate) struct Compress {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    common: Common,
    /// How hard to try, as binlog_transaction_compression_level_zstd: 1 to 22.
    #[arg(long, short, default_value = "3", value_parser = level)]
    level: Level,
    /// Leave a transaction plain that would not become smaller by this many percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    min_gain: u8,
    /// Compress what a server would, also what becomes larger.
    #[arg(long, conflicts_with = "min_gain")]
    like_server: bool,
    /// Compress again what is compressed already.
    #[arg(long)]
    recompress: bool,
    /// Leave a transaction plain whose payload would be larger: the replicas' replica_max_allowed_packet, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    event_size_max: u32,
}

/// Arguments of `bintide decompress`.
#[derive(Args, Debug)]
pub(crate) struct Decompress {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    common: Common,
}

/// What both have.
#[derive(Args, Debug)]
struct Common {
    /// Write the new logs to this directory instead of in place of the old ones.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Do the work, say what it comes to, and write nothing.
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Read each new log again and compare before it takes its place.
    #[arg(long)]
    verify: bool,
    /// Change logs that are in use, in a running server's directory.
    #[arg(long)]
    live: bool,
    /// Write logs that were encrypted in the open.
    #[arg(long)]
    plain: bool,
    /// How many threads work; default: one a core.
    #[arg(long, value_name = "COUNT")]
    jobs: Option<NonZeroUsize>,
    /// Print the outcome as one JSON document.
    #[arg(long)]
    json: bool,
}

/// One file, and what became of it.
struct Done {
    path: PathBuf,
    end: Finish,
}

enum Finish {
    Rewritten(Box<FileReport>),
    /// A server still writes to it.
    InUse,
    /// Something is where the new log would go, perhaps from an earlier run.
    There,
}

pub(crate) fn compress(command: &Compress, global: &Global) -> Outcome {
    let keep = match command.like_server {
        true => Keep::None,
        false => Keep::GainBelow(command.min_gain),
    };
    let compressed = if command.recompress { Compressed::Again } else { Compressed::Pass };
    let Compress { level, event_size_max, .. } = *command;
    let action = Action::Compress(Compression { level, keep, compressed, event_size_max });
    run(action, &command.inputs, &command.common, global)
}

pub(crate) fn decompress(command: &Decompress, global: &Global) -> Outcome {
    run(Action::Decompress, &command.inputs, &command.common, global)
}

/// Bytes on their way through the threads.
const BYTES_UNDER_WAY: usize = 64 << 20;

fn run(action: Action, inputs: &Inputs, common: &Common, global: &Global) -> Outcome {
    let found = inputs.find()?;
    let files = files(&found.places)?;
    if let Some(output) = &common.output {
        let made =
            std::fs::create_dir_all(output).with_context(|| format!("could not make {}", output.display()));
        made.map_err(Failure::NotBegun)?;
    }
    let targets = targets(&files, common)?;
    let mut progress = Progress::new(global, found.bytes_total);
    let (mut bytes_done, mut all) = (0, Vec::new());
    for (path, target) in files.into_iter().zip(&targets) {
        let size = std::fs::metadata(path).map_or(0, |data| data.len());
        let mut watch = |done| {
            progress.at(bytes_done + done);
            match interrupt::requested() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        match one(action, path, target, common, found.keyring.as_ref(), &mut watch) {
            Ok(end) => all.push(Done { path: path.clone(), end }),
            Err(failure) => {
                drop(progress);
                // What is done is done, and is said.
                if !all.is_empty() {
                    print(&all, common, global)?;
                }
                return Err(failure);
            }
        }
        bytes_done += size;
    }
    drop(progress);
    print(&all, common, global)
}

/// Where each new log goes. Two must not go to one place.
fn targets(files: &[&PathBuf], common: &Common) -> Result<Vec<PathBuf>, Failure> {
    let target = |path: &&PathBuf| match (&common.output, path.file_name()) {
        (Some(output), Some(name)) => output.join(name),
        _ => path.to_path_buf(),
    };
    let targets: Vec<PathBuf> = files.iter().map(target).collect();
    let mut seen = HashSet::new();
    match targets.iter().find(|target| !seen.insert(*target)) {
        Some(twice) => {
            Err(Failure::NotBegun(anyhow!("two logs would become {}; give each once", twice.display())))
        }
        None => Ok(targets),
    }
}

fn files(places: &[Place]) -> Result<Vec<&PathBuf>, Failure> {
    let paths = places.iter().map(|place| match place {
        Place::File(path) => Ok(path),
        Place::Stdin => Err(Failure::NotBegun(anyhow!(
            "standard input cannot be read twice, as large transactions need; give a file"
        ))),
    });
    paths.collect()
}

fn one(
    action: Action,
    path: &Path,
    target: &Path,
    common: &Common,
    keyring: Option<&Arc<Keyring>>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Finish, Failure> {
    let in_place = is_same_file(path, target);
    if !in_place && target.exists() && !common.dry_run {
        return Ok(Finish::There);
    }
    if in_place && !common.dry_run && !common.live && is_in_use(path, keyring)? {
        return Ok(Finish::InUse);
    }
    let workers = common.jobs.or_else(|| std::thread::available_parallelism().ok());
    let job = FileJob {
        source: path,
        target,
        action,
        bounds: Bounds { workers: workers.unwrap_or(NonZeroUsize::MIN), bytes: BYTES_UNDER_WAY },
        keyring: keyring.cloned(),
        sealing: if common.plain { Sealing::Plain } else { Sealing::AsBefore },
        check: if common.verify { Check::Meaning } else { Check::Nothing },
        trial: if common.dry_run { Trial::DryRun } else { Trial::No },
    };
    let done = rewrite_file(&job, progress);
    let done = done.map_err(|error| match error {
        rewrite::Error::Corrupt { .. } => {
            anyhow::Error::new(error).context(Advice("bintide verify shows what is wrong with it"))
        }
        other => other.into(),
    });
    Ok(Finish::Rewritten(Box::new(done?)))
}

/// Does a server still write to it? Its format description says so, or some process has the file open.
fn is_in_use(path: &Path, keyring: Option<&Arc<Keyring>>) -> Result<bool, Failure> {
    let mut reader = LogReader::open(path).map_err(anyhow::Error::from)?;
    if let Some(keyring) = keyring {
        reader = reader.with_keyring(Arc::clone(keyring));
    }
    reader.next_event().map_err(anyhow::Error::from)?;
    Ok(reader.in_use() || is_open_elsewhere(path))
}

/// Does another process have it open to write? Where the system tells, as far as this user may know.
fn is_open_elsewhere(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let own = std::process::id().to_string();
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let others = entries("/proc".into()).filter(|process| process.file_name().to_str() != Some(&own));
    let mut open = others.flat_map(|process| {
        let file =
            |entry: std::fs::DirEntry| (entry.path(), process.path().join("fdinfo").join(entry.file_name()));
        entries(process.path().join("fd")).map(file).collect::<Vec<_>>()
    });
    open.any(|(link, how)| {
        std::fs::read_link(link).is_ok_and(|target| target == path)
            && std::fs::read_to_string(how).is_ok_and(|how| is_for_writing(&how))
    })
}

/// As `/proc/PID/fdinfo/N` tells it: `flags:`, then the flags of `open` in octal, whose lowest two bits are the mode.
fn is_for_writing(how: &str) -> bool {
    let flags = how.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.is_some_and(|flags| u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & 0o3 != 0))
}

fn print(all: &[Done], common: &Common, global: &Global) -> Outcome {
    let mut out = io::stdout().lock();
    match common.json {
        true => {
            serde_json::to_writer_pretty(&mut out, &text::json(all)).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
        false => out.write_all(text::render(all, Style::new(global.color.on_stdout())).as_bytes())?,
    }
    Ok(Verdict::Fine)
}

fn total(all: &[Done]) -> Tally {
    let mut sum = Tally::default();
    for done in all {
        if let Finish::Rewritten(file) = &done.end {
            sum.add(&file.report.tally);
        }
    }
    sum
}

const fn outcome(end: &Finish) -> &'static str {
    match end {
        Finish::InUse => "in use, left alone",
        Finish::There => "there already, left alone",
        Finish::Rewritten(file) => match file.outcome {
            FileOutcome::Written => "written",
            FileOutcome::Unchanged => "unchanged",
            FileOutcome::Tried => "not written",
        },
    }
}

fn level(text: &str) -> Result<Level, String> {
    text.parse().ok().and_then(Level::new).ok_or_else(|| "a level is a number from 1 to 22".to_owned())
}
