//! `bintide compress` and `bintide decompress`: write logs anew.

mod text;

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use binlog::Level;
use clap::Args;
use rewrite::{
    Action, Check, Compressed, Compression, FileJob, FileOutcome, FileReport, Keep, OldFormat, Plan, Sealing,
    Step, Tally, Trial, is_same_file, rewrite_file,
};

use crate::args::Global;
use crate::exit::{Advice, Failure, Outcome, Verdict};
use crate::inputs::{Found, Inputs, Place};
use crate::interrupt;
use crate::progress::Progress;
use crate::running;
use crate::screen::{self, Style};
use crate::temporary::TemporaryFiles;
use crate::units;

pub(crate) const COMPRESS_EXAMPLES: &str = "\
Examples:
  Compress logs in place; compare each new log with the old one before it
  replaces it:
      bintide compress --verify /backup/binlog.0000*
  Savings at level 10, without writing anything:
      bintide compress --dry-run --level 10 binlog.000012
  New logs in another directory, exactly as the server would have compressed them:
      bintide compress --like-server --output /backup/small binlog.0000*

A compressed log is still a binary log: mysqlbinlog and replicas since MySQL
8.0.20 read it. Owner, mode and modification time stay. The file
positions.FILE beside each log has a line for each transaction with its old and
its new position (positions.FILE.2 and so on if that name exists).
You can interrupt it at any time and run it again: it skips finished logs.";

pub(crate) const DECOMPRESS_EXAMPLES: &str = "\
Examples:
  For a reader that does not support compressed transactions:
      bintide decompress --output plain binlog.0000*
  In place:
      bintide decompress binlog.000012

decompress restores logs that bintide compress made byte for byte.";

const LOGS: &str =
    "Logs: files, directories or index files. A directory's index file lists its logs and their order";

/// Arguments of `bintide compress`.
#[derive(Args, Debug)]
#[command(mut_arg("logs", |arg| arg.help(LOGS)))]
pub(crate) struct Compress {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    common: Common,
    /// zstd compression level, 1 to 22, as binlog_transaction_compression_level_zstd.
    #[arg(long, short, default_value = "3", value_parser = level)]
    level: Level,
    /// Do not compress transactions that would shrink by less than this percentage.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    min_gain: u8,
    /// Compress the same transactions as a server, including those that would grow.
    #[arg(long, conflicts_with = "min_gain")]
    like_server: bool,
    /// Also recompress transactions that are compressed already.
    #[arg(long)]
    recompress: bool,
    /// Do not compress transactions whose payload event would exceed this size: replica_max_allowed_packet of the
    /// replicas, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    event_size_max: u32,
    /// Also compress logs of servers before 8.0.20: replace their format description with one that supports
    /// compressed transactions.
    #[arg(long)]
    upgrade_format: bool,
}

/// Arguments of `bintide decompress`.
#[derive(Args, Debug)]
#[command(mut_arg("logs", |arg| arg.help(LOGS)))]
pub(crate) struct Decompress {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    common: Common,
}

/// Options of both commands.
#[derive(Args, Debug)]
struct Common {
    /// Write the new logs to this directory instead of replacing the old logs.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Do the work and print the result, but write nothing.
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Read each new log again and compare it with the old one before it replaces it.
    #[arg(long)]
    verify: bool,
    /// Also replace logs in the directory of a running server, and logs that a crash left marked as in use; never a
    /// log that is being written.
    #[arg(long)]
    live: bool,
    /// Write encrypted logs unencrypted.
    #[arg(long)]
    plain: bool,
    /// Maximum number of threads; fewer if --memory requires it [default: one per core].
    #[arg(long, value_name = "COUNT", value_parser = jobs)]
    jobs: Option<NonZeroUsize>,
    /// Maximum memory, as 300M or 2G [default: 300M, or more if the level needs it].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    #[command(flatten)]
    temporary: TemporaryFiles,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// One file and its outcome.
struct Done {
    path: PathBuf,
    end: Finish,
}

enum Finish {
    Rewritten(Box<FileReport>),
    /// A server still writes to the log.
    InUse,
    /// A server may still write to the log: its format description says so, and not all processes are visible.
    PerhapsInUse,
    /// The target file exists, perhaps from an earlier run.
    There,
}

pub(crate) fn compress(command: &Compress, global: &Global) -> Outcome {
    let keep = match command.like_server {
        true => Keep::None,
        false => Keep::GainBelow(command.min_gain),
    };
    let compressed = if command.recompress { Compressed::Again } else { Compressed::Pass };
    let old_format = if command.upgrade_format { OldFormat::Extend } else { OldFormat::Refuse };
    let Compress { level, event_size_max, .. } = *command;
    let action = Action::Compress(Compression { level, keep, compressed, event_size_max, old_format });
    run(action, &command.inputs, &command.common, global)
}

pub(crate) fn decompress(command: &Decompress, global: &Global) -> Outcome {
    run(Action::Decompress, &command.inputs, &command.common, global)
}

/// Maximum memory in bytes, unless a level needs more.
const MEMORY: u64 = 300_000_000;

fn run(action: Action, inputs: &Inputs, common: &Common, global: &Global) -> Outcome {
    common.temporary.limit();
    let found = inputs.find(global)?;
    let files = files(&found)?;
    let plan = plan(action, &files, common, global)?;
    if let Some(output) = common.output.as_ref().filter(|_| !common.dry_run) {
        let made =
            std::fs::create_dir_all(output).with_context(|| format!("could not create {}", output.display()));
        made.map_err(Failure::NotBegun)?;
    }
    let targets = targets(&files, common)?;
    refuse_running(&files, &targets, common)?;
    let job = Job { action, plan, common, found: &found, is_quiet: global.quiet };
    let mut progress = Progress::new(global, found.bytes_total);
    let (mut bytes_done, mut all) = (0, Vec::new());
    let count = files.len() as u64;
    for (number, ((place, path), target)) in (1..).zip(files.into_iter().zip(&targets)) {
        let size = std::fs::metadata(path).map_or(0, |data| data.len());
        let mut watch = |step: Step| {
            progress.at_with_ratio(bytes_done + step.before, step.ratio());
            match interrupt::requested() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        match job.one(place, path, target, &mut watch) {
            Ok(end) => all.push(Done { path: path.clone(), end }),
            Err(failure) => {
                drop(progress);
                // Finished logs are reported even after a failure.
                if !all.is_empty() {
                    print(&all, common, global)?;
                }
                if number < count {
                    screen::remark(format_args!(
                        "{} after it not processed",
                        units::counted(count - number, "log")
                    ));
                }
                return Err(failure);
            }
        }
        bytes_done += size;
    }
    drop(progress);
    print(&all, common, global)
}

/// Plans threads and memory. Reports a lack of memory before the work begins.
fn plan(
    action: Action,
    files: &[(&Place, &PathBuf)],
    common: &Common,
    global: &Global,
) -> Result<Plan, Failure> {
    let sizes = files.iter().filter_map(|(_, path)| std::fs::metadata(path).ok());
    let size_max = sizes.map(|data| data.len()).max().unwrap_or_default();
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let wanted = common.jobs.unwrap_or(cores);
    let memory = common.memory.unwrap_or(MEMORY);
    let plan = Plan::new(action, wanted, memory, size_max);
    let need = format!(
        "{} may take {} of memory",
        units::counted(plan.workers.get() as u64, "thread"),
        units::bytes(plan.need)
    );
    if plan.need > memory && common.memory.is_some() {
        return Err(Failure::NotBegun(anyhow!("{need}: raise --memory or lower --level")));
    }
    if (plan.workers < wanted || plan.need > memory) && !global.quiet {
        screen::remark(format_args!("{need}; set the limit with --memory"));
    }
    Ok(plan)
}

/// Refuses to replace logs in the directory of a running server, unless `--live` is given.
fn refuse_running(files: &[(&Place, &PathBuf)], targets: &[PathBuf], common: &Common) -> Result<(), Failure> {
    if common.live || common.dry_run {
        return Ok(());
    }
    let in_place = files.iter().zip(targets).filter(|((_, path), target)| is_same_file(path, target));
    let paths: BTreeMap<&Path, &Path> =
        in_place.filter_map(|((_, path), _)| Some((directory_of(path)?, path.as_path()))).collect();
    paths.into_values().try_for_each(refuse_running_beside)
}

fn refuse_running_beside(path: &Path) -> Result<(), Failure> {
    let Some(directory) = directory_of(path) else { return Ok(()) };
    match running::in_directory(directory) {
        Some(running) => Err(Failure::NotBegun(anyhow!(
            "a server is running in {}: {running}; stop it, write to another directory with --output, or give \
             --live to replace closed logs",
            directory.display()
        ))),
        None => Ok(()),
    }
}

fn directory_of(path: &Path) -> Option<&Path> {
    path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

/// Returns the path of each new log. Two logs with the same path give an error.
fn targets(files: &[(&Place, &PathBuf)], common: &Common) -> Result<Vec<PathBuf>, Failure> {
    let target = |(_, path): &(&Place, &PathBuf)| match (&common.output, path.file_name()) {
        (Some(output), Some(name)) => output.join(name),
        _ => path.to_path_buf(),
    };
    let targets: Vec<PathBuf> = files.iter().map(target).collect();
    let mut seen = HashSet::new();
    let place = |target: &PathBuf| target.canonicalize().unwrap_or_else(|_| target.clone());
    match targets.iter().find(|target| !seen.insert(place(target))) {
        Some(twice) => Err(Failure::NotBegun(anyhow!(
            "two logs have the same target {}: give each log once",
            twice.display()
        ))),
        None => Ok(targets),
    }
}

fn files(found: &Found) -> Result<Vec<(&Place, &PathBuf)>, Failure> {
    let paths = found.places.iter().map(|place| match place {
        Place::File(path) => Ok((place, path)),
        Place::Stdin => Err(Failure::NotBegun(anyhow!(
            "large transactions are read twice, but standard input can be read only once: give a file"
        ))),
    });
    paths.collect()
}

/// Settings that are the same for all logs.
struct Job<'j> {
    action: Action,
    plan: Plan,
    common: &'j Common,
    found: &'j Found,
    is_quiet: bool,
}

#[cfg(unix)]
fn has_other_names(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).is_ok_and(|data| data.nlink() > 1)
}

#[cfg(not(unix))]
fn has_other_names(_: &Path) -> bool {
    false
}

impl Job<'_> {
    fn one(
        &self,
        place: &Place,
        path: &Path,
        target: &Path,
        progress: &mut dyn FnMut(Step) -> ControlFlow<()>,
    ) -> Result<Finish, Failure> {
        let common = self.common;
        let in_place = is_same_file(path, target);
        if !in_place && target.exists() && !common.dry_run {
            return Ok(Finish::There);
        }
        if in_place && !common.dry_run {
            if !common.live {
                refuse_running_beside(path)?;
            }
            if let Some(end) = self.in_use(place, path)? {
                return Ok(end);
            }
        }
        self.remark(place, path, target)?;
        let job = FileJob {
            source: path,
            target,
            action: self.action,
            plan: self.plan,
            keyring: self.found.keyring.clone(),
            sealing: if common.plain { Sealing::Plain } else { Sealing::AsBefore },
            check: if common.verify { Check::Meaning } else { Check::Nothing },
            trial: if common.dry_run { Trial::DryRun } else { Trial::No },
            may_replace: |path| running::sight(path) != running::Sight::Open,
        };
        let done = match rewrite_file(&job, progress) {
            Err(rewrite::Error::InUse { .. }) => return Ok(Finish::InUse),
            done => done,
        };
        let done = done.map_err(|error| match error {
            rewrite::Error::Corrupt { .. } => {
                anyhow::Error::new(error).context(Advice("run bintide verify on the log for details"))
            }
            rewrite::Error::Format { .. } => anyhow::Error::new(error)
                .context(Advice("give --upgrade-format to replace the format description")),
            other => other.into(),
        });
        Ok(Finish::Rewritten(Box::new(done?)))
    }

    /// Warns of facts that the table does not show: the effect of a dry run, and hard links that keep the old log.
    fn remark(&self, place: &Place, path: &Path, target: &Path) -> Result<(), Failure> {
        let is_dry = self.common.dry_run;
        let in_place = is_same_file(path, target);
        let remark = match in_place {
            true if is_dry && self.in_use(place, path)?.is_some() => {
                Some("is in use, or a crash left it marked so: without --dry-run it is skipped")
            }
            true if has_other_names(path) => Some("has other hard links: they keep the old log"),
            false if is_dry && target.exists() => Some("exists: without --dry-run it is skipped"),
            _ => None,
        };
        let stays = self.action == Action::Decompress && self.is_mariadb(place)?;
        let stays = stays.then_some("is a MariaDB log: its compressed events stay compressed");
        for remark in remark.into_iter().chain(stays).filter(|_| !self.is_quiet) {
            screen::remark(format_args!("{} {remark}", target.display()));
        }
        Ok(())
    }

    fn is_mariadb(&self, place: &Place) -> Result<bool, Failure> {
        let mut reader = self.found.open(place).map_err(anyhow::Error::from)?;
        reader.next_event().map_err(anyhow::Error::from)?;
        Ok(reader.format().is_some_and(|format| format.flavour == binlog::Flavour::MariaDb))
    }

    /// Tells whether a server may still write to the log. If a process has it open for writing, later writes would be
    /// lost. If only its format description says so, a crash may have left it that way: then `--live` permits the
    /// change, but only if certainly no process has it open.
    fn in_use(&self, place: &Place, path: &Path) -> Result<Option<Finish>, Failure> {
        let sight = running::sight(path);
        if sight == running::Sight::Open {
            return Ok(Some(Finish::InUse));
        }
        let mut reader = self.found.open(place).map_err(anyhow::Error::from)?;
        reader.next_event().map_err(anyhow::Error::from)?;
        Ok(match (reader.in_use(), sight) {
            (false, _) => None,
            (true, _) if !self.common.live => Some(Finish::InUse),
            (true, running::Sight::Unknown) => Some(Finish::PerhapsInUse),
            (true, _) => None,
        })
    }
}

fn print(all: &[Done], common: &Common, global: &Global) -> Outcome {
    let mut out = io::stdout().lock();
    match common.json {
        true => {
            serde_json::to_writer_pretty(&mut out, &text::json(all)).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
        false => screen::print(&text::render(all, Style::new(global.color.on_stdout())), &mut out)?,
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
        Finish::PerhapsInUse => "perhaps in use, left alone",
        Finish::There => "there already, left alone",
        Finish::Rewritten(file) => match file.outcome {
            FileOutcome::Written => "written",
            FileOutcome::Unchanged => "unchanged",
            FileOutcome::Tried => "not written",
        },
    }
}

fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected one thread or more".to_owned())
}

/// Parses a number of bytes, with or without a unit. A kilobyte has 1000 bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wanted = || "expected a size: a number with an optional unit k, M or G, as 300M".to_owned();
    let unit = text.trim_end_matches(|end: char| end.eq_ignore_ascii_case(&'b'));
    let (digits, factor) = match unit.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&unit[..at], 1000),
        Some((at, 'm' | 'M')) => (&unit[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&unit[..at], 1_000_000_000),
        _ => (unit, 1),
    };
    let number: u64 = digits.trim().parse().map_err(|_| wanted())?;
    number.checked_mul(factor).ok_or_else(wanted)
}

/// Parses a zstd level.
pub(crate) fn level(text: &str) -> Result<Level, String> {
    text.parse().ok().and_then(Level::new).ok_or_else(|| "expected a level from 1 to 22".to_owned())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_units() {
        for (text, wanted) in
            [("300M", Some(300_000_000)), ("2G", Some(2_000_000_000)), ("1 kB", Some(1000)), ("7", Some(7))]
        {
            assert_eq!(size(text).ok(), wanted, "{text}");
        }
        for text in ["", "M", "-1", "1T", "99999999999G"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
