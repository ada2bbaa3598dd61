//! `bintide compress` and `bintide decompress`: rewrite logs with compressed or decompressed transactions.

mod text;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use binlog::{EventFormat, Flavour, ServerVersion, ZstdLevel};
use clap::Args;
use logs::{EndOfLog, LogError, NewestReceivedLogs, archived_contents};
use rewrite::{
    CompressSettings, CompressedPolicy, ContentCheck, FileJob, FileReport, MinimumGain, OldFormatPolicy,
    OutputEncryption, ResourcePlan, RewriteAction, RewriteOutcome, RewriteProgress, RewriteTally, WriteMode,
    is_same_file, rewrite_file,
};
use tracing::{error, warn};

use crate::exit::{CommandFailure, CommandResult, CommandVerdict, ErrorAdvice, is_unreadable};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::log_args::{InputLocation, InputLogs, LOG_FILES_HELP, LogArgs, add_advice};
use crate::output_directory::create_directory;
use crate::progress::ByteProgress;
use crate::screen::{self, ReportStyle};
use crate::temporary_files::TemporaryFiles;
use crate::units;
use crate::value_parsers::{number_within, parse_at_least_one, parse_level, parse_number, parse_size};

pub(crate) const COMPRESS_EXAMPLES: &str = "\
Examples:
  Compress logs in place; compare each new log with the old log before the
  replacement:
      bintide compress --verify /backup/binlog.0000*
  Savings at level 10, without writing anything:
      bintide compress --dry-run --level 10 binlog.000012
  New logs in another directory, exactly as the server would have compressed
  them:
      bintide compress --like-server --output /backup/small binlog.0000*

A compressed log is still a binary log: mysqlbinlog and replicas of MySQL 8.0.20
and later can read it. Owner, mode and modification time do not change. The file
positions.LOG beside each log has a line for each transaction with its old and
its new position (positions.LOG.2 and so on if that name exists).
You can interrupt compress at any time and run it again: it skips finished logs.";

pub(crate) const DECOMPRESS_EXAMPLES: &str = "\
Examples:
  For a reader that does not support compressed transactions:
      bintide decompress --output plain binlog.0000*
  In place:
      bintide decompress binlog.000012

If the server wrote the log uncompressed, decompress restores it byte for byte,
except the format description after compress --upgrade-format.";

/// Arguments of `bintide compress`.
#[derive(Args, Debug)]
#[command(mut_arg("logs", |arg| arg.help(LOG_FILES_HELP)))]
pub(crate) struct CompressArgs {
    #[command(flatten)]
    inputs: LogArgs,
    #[command(flatten)]
    common: RewriteArgs,
    /// zstd compression level, 1 to 22, as binlog_transaction_compression_level_zstd.
    #[arg(long, short, default_value = "3", value_parser = parse_level)]
    level: ZstdLevel,
    /// Do not compress transactions that would shrink by less than this percentage.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = number_within::<u8>(0..=100))]
    min_gain: u8,
    /// Compress the same transactions as a server, including those that would grow.
    #[arg(long, conflicts_with = "min_gain")]
    like_server: bool,
    /// Also recompress transactions that are compressed already.
    #[arg(long)]
    recompress: bool,
    /// Maximum size of a compressed transaction (Transaction_payload event) in bytes; larger ones stay uncompressed. Use
    /// the replicas' replica_max_allowed_packet.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, value_parser = parse_number::<u32>)]
    event_size_max: u32,
    /// Also compress logs of servers before 8.0.20: replace their format description with one that supports
    /// compressed transactions.
    #[arg(long)]
    upgrade_format: bool,
}

/// Arguments of `bintide decompress`.
#[derive(Args, Debug)]
#[command(mut_arg("logs", |arg| arg.help(LOG_FILES_HELP)))]
#[command(mut_arg("memory", |arg| arg.help("Maximum memory, such as 300M or 2G [default: 300M]")))]
pub(crate) struct DecompressArgs {
    #[command(flatten)]
    inputs: LogArgs,
    #[command(flatten)]
    common: RewriteArgs,
}

/// Options of both commands.
#[derive(Args, Debug)]
struct RewriteArgs {
    /// Write the new logs to this directory instead of replacing the old logs.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Do the work and print the result, but write nothing.
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Read each new log again, and compare it with the old log.
    #[arg(long)]
    verify: bool,
    /// Also replace logs in the directory of a running server, and logs that are flagged as in use after a crash. Never
    /// replaces a log that a process is writing.
    #[arg(long)]
    live: bool,
    /// Decrypt encrypted logs: write the new logs unencrypted.
    #[arg(long)]
    plain: bool,
    /// Maximum number of threads; fewer if --memory requires it [default: one per core].
    #[arg(long, value_name = "COUNT", value_parser = parse_at_least_one)]
    jobs: Option<NonZeroUsize>,
    /// Maximum memory, such as 300M or 2G [default: 300M, or more if the level needs it].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    #[command(flatten)]
    temporary: TemporaryFiles,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// One file and its outcome.
struct LogRewrite {
    path: PathBuf,
    end: RewriteEnd,
}

impl LogRewrite {
    const fn is_written(&self) -> bool {
        matches!(&self.end, RewriteEnd::Rewritten(file) if matches!(file.outcome, RewriteOutcome::Written))
    }
}

enum RewriteEnd {
    Rewritten(Box<FileReport>),
    /// A server still writes to the log.
    InUse,
    /// The log has the in-use flag, and no process is known to write to it.
    FlaggedInUse,
    /// A server may still write to the log: the format description has the in-use flag, and not all processes are
    /// visible.
    PerhapsInUse,
    /// `bintide receive` resumes at the end of the log.
    NewestReceived,
    /// The target file exists, perhaps from an earlier run.
    TargetExists,
}

pub(crate) fn compress(command: &CompressArgs, global: &GlobalArgs) -> CommandResult {
    let keep = match command.like_server {
        true => MinimumGain::None,
        false => MinimumGain::Percent(command.min_gain),
    };
    let compressed = if command.recompress { CompressedPolicy::Recompress } else { CompressedPolicy::Pass };
    let old_format = if command.upgrade_format { OldFormatPolicy::Extend } else { OldFormatPolicy::Refuse };
    let CompressArgs { level, event_size_max, .. } = *command;
    let action = RewriteAction::Compress(CompressSettings {
        level,
        minimum_gain: keep,
        compressed,
        event_size_max,
        old_format,
    });
    run(action, &command.inputs, &command.common, global)
}

pub(crate) fn decompress(command: &DecompressArgs, global: &GlobalArgs) -> CommandResult {
    run(RewriteAction::Decompress, &command.inputs, &command.common, global)
}

/// Default of `--memory`, in bytes.
pub(super) const MEMORY_DEFAULT: u64 = 300_000_000;

fn run(action: RewriteAction, inputs: &LogArgs, common: &RewriteArgs, global: &GlobalArgs) -> CommandResult {
    common.temporary.limit();
    let found = inputs.find_logs()?;
    found.check_indexes()?;
    let files = files(&found)?;
    let plan = plan(action, &files, common)?;
    let targets = targets(&files, common)?;
    refuse_same_file(&files, &targets, common)?;
    create_output(common)?;
    refuse_running(&files, &targets, common)?;
    let newest = newest_received(&files, &targets)?;
    let job = RewriteRun { action, plan, common, found: &found, newest };
    job.check_inputs(&files, &targets)?;
    let mut progress = ByteProgress::new(global, found.bytes_total);
    let (mut bytes_done, mut all) = (0, Vec::new());
    let count = files.len() as u64;
    for (number, (&(location, path), target)) in (1..).zip(files.iter().zip(&targets)) {
        let size = std::fs::metadata(path).map_or(0, |data| data.len());
        let mut watch = |step: RewriteProgress| {
            progress.update_with_ratio(bytes_done + step.before, step.ratio());
            interrupt::stop_flow()
        };
        match job.rewrite_log(location, path, target, &mut watch) {
            Ok(end) => all.push(LogRewrite { path: path.clone(), end }),
            Err(failure) => {
                drop(progress);
                // Finished logs are reported even after a failure.
                if !all.is_empty() {
                    print(&all, common, global)?;
                }
                if number < count && !interrupt::is_stop_requested() {
                    error!(
                        "{} not processed, because of the following error",
                        units::counted(count - number, "further log")
                    );
                }
                return Err(if all.iter().any(LogRewrite::is_written) { aborted(failure) } else { failure });
            }
        }
        bytes_done += size;
    }
    drop(progress);
    print(&all, common, global)
}

/// Returns the failure of a run that has already written a log: its exit code does not say that the work did not start.
fn aborted(failure: CommandFailure) -> CommandFailure {
    match failure {
        CommandFailure::NotStarted(error) | CommandFailure::Failed(error) => CommandFailure::Aborted(error),
        other => other,
    }
}

fn create_output(common: &RewriteArgs) -> Result<(), CommandFailure> {
    let Some(output) = common.output.as_ref().filter(|_| !common.dry_run) else { return Ok(()) };
    create_directory(output).map_err(CommandFailure::NotStarted)
}

/// Refuses a log that would be its own target: `--output` does not overwrite files.
fn refuse_same_file(
    files: &[(&InputLocation, &PathBuf)],
    targets: &[PathBuf],
    common: &RewriteArgs,
) -> Result<(), CommandFailure> {
    let Some(output) = common.output.as_ref() else { return Ok(()) };
    match in_place(files, targets).next() {
        Some(log) => Err(CommandFailure::NotStarted(anyhow!(
            "{} is in {}, the directory of --output, which does not overwrite files: give another directory, or omit \
             --output to replace the log",
            log.display(),
            output.display()
        ))),
        None => Ok(()),
    }
}

/// Plans threads and memory. Reports a lack of memory before the work begins.
fn plan(
    action: RewriteAction,
    files: &[(&InputLocation, &PathBuf)],
    common: &RewriteArgs,
) -> Result<ResourcePlan, CommandFailure> {
    let sizes = files.iter().filter_map(|(_, path)| std::fs::metadata(path).ok());
    let size_max = sizes.map(|data| data.len()).max().unwrap_or_default();
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let requested = common.jobs.unwrap_or(cores);
    let memory = common.memory.unwrap_or(MEMORY_DEFAULT);
    let plan = ResourcePlan::new(action, requested, memory, size_max);
    let need = format!(
        "{} can need {} of memory",
        units::counted(plan.workers.get() as u64, "thread"),
        units::bytes(plan.memory_needed)
    );
    if plan.memory_needed > memory && common.memory.is_some() {
        let alternative =
            if matches!(action, RewriteAction::Compress(_)) { ", or lower --level" } else { "" };
        return Err(CommandFailure::NotStarted(anyhow!(
            "{need}, and --memory allows {}: increase --memory{alternative}",
            units::bytes(memory)
        )));
    }
    if plan.workers < requested {
        warn!(
            "using {} of {requested} threads, which can need {} of memory; to use more threads, increase --memory",
            plan.workers,
            units::bytes(plan.memory_needed)
        );
    } else if plan.memory_needed > memory {
        warn!(
            "{need}, more than the default of --memory, {}; to need less, lower --level",
            units::bytes(memory)
        );
    }
    Ok(plan)
}

/// Refuses to replace logs in the directory of a running server, unless `--live` is given.
fn refuse_running(
    files: &[(&InputLocation, &PathBuf)],
    targets: &[PathBuf],
    common: &RewriteArgs,
) -> Result<(), CommandFailure> {
    if common.live || common.dry_run {
        return Ok(());
    }
    let paths: BTreeMap<&Path, &Path> =
        in_place(files, targets).filter_map(|path| Some((directory_of(path)?, path))).collect();
    paths.into_values().try_for_each(refuse_running_beside)
}

/// Returns the logs that are replaced.
fn in_place<'f>(
    files: &'f [(&InputLocation, &PathBuf)],
    targets: &'f [PathBuf],
) -> impl Iterator<Item = &'f Path> {
    let pairs = files.iter().zip(targets).filter(|((_, path), target)| is_same_file(path, target));
    pairs.map(|((_, path), _)| path.as_path())
}

/// Finds the logs at whose ends `bintide receive` resumes.
fn newest_received(
    files: &[(&InputLocation, &PathBuf)],
    targets: &[PathBuf],
) -> Result<NewestReceivedLogs, CommandFailure> {
    let newest = NewestReceivedLogs::find_beside(in_place(files, targets));
    newest.map_err(|error| CommandFailure::NotStarted(error.into()))
}

fn refuse_running_beside(path: &Path) -> Result<(), CommandFailure> {
    let Some(directory) = directory_of(path) else { return Ok(()) };
    match logs::find_running_server(directory) {
        Some(running) => Err(CommandFailure::NotStarted(anyhow!(
            "{} is running in {}: {running}; stop it, write to another directory with --output, or give --live to \
             replace closed logs",
            running.kind(),
            directory.display()
        ))),
        None => Ok(()),
    }
}

fn directory_of(path: &Path) -> Option<&Path> {
    path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

/// Returns the path of each new log. Two logs with the same path give an error.
fn targets(
    files: &[(&InputLocation, &PathBuf)],
    common: &RewriteArgs,
) -> Result<Vec<PathBuf>, CommandFailure> {
    let target = |(_, path): &(&InputLocation, &PathBuf)| match (&common.output, path.file_name()) {
        (Some(output), Some(name)) => output.join(name),
        _ => path.to_path_buf(),
    };
    let targets: Vec<PathBuf> = files.iter().map(target).collect();
    let mut seen = HashSet::new();
    let resolved = |target: &PathBuf| target.canonicalize().unwrap_or_else(|_| target.clone());
    match targets.iter().find(|target| !seen.insert(resolved(target))) {
        Some(twice) => Err(CommandFailure::NotStarted(anyhow!(
            "two logs are named {}: write them to different directories",
            twice.file_name().unwrap_or_default().display()
        ))),
        None => Ok(targets),
    }
}

fn files(found: &InputLogs) -> Result<Vec<(&InputLocation, &PathBuf)>, CommandFailure> {
    let is_special = |path: &Path| std::fs::metadata(path).is_ok_and(|found| !found.is_file());
    let paths = found.locations.iter().map(|location| match location {
        // Do not open a pipe: without a writer, the open would wait, and a writer must not see the pipe open and close.
        InputLocation::File(path) if is_special(path) => Err(CommandFailure::NotStarted(anyhow!(
            "{} is not a regular file: large transactions are read twice, but a pipe or a device can be read only \
             once; give a file",
            path.display()
        ))),
        InputLocation::File(path) if archived_contents(path).is_some() => Err(CommandFailure::NotStarted(anyhow!(
            "{} is in an archive, and only files can be rewritten: restore it first with `bintide archive restore`",
            path.display()
        ))),
        InputLocation::File(path) => Ok((location, path)),
        InputLocation::Stdin => Err(CommandFailure::NotStarted(anyhow!(
            "large transactions are read twice, but standard input can be read only once: give a file"
        ))),
    });
    paths.collect()
}

/// Reason why logs of MySQL before 5.7 cannot be compressed: see [`lacks_transaction_marks`].
const NO_MARKS: &str =
    "MySQL before 5.7 does not mark transactions that have only row changes, and servers compress only these";

/// Returns whether a server of this version does not mark transactions with only row changes. 5.5 writes no GTID
/// events. 5.6 writes them only with gtid_mode=ON, and with the same flag for all transactions.
fn lacks_transaction_marks(version: &str) -> bool {
    ServerVersion::parse(version).is_mysql_before([5, 7, 0])
}

/// Settings that are the same for all logs.
struct RewriteRun<'j> {
    action: RewriteAction,
    plan: ResourcePlan,
    common: &'j RewriteArgs,
    found: &'j InputLogs,
    newest: NewestReceivedLogs,
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

impl RewriteRun<'_> {
    /// Refuses logs that cannot be read, for example without a key, before the first log is replaced. The work itself
    /// reports damage.
    fn check_inputs(
        &self,
        files: &[(&InputLocation, &PathBuf)],
        targets: &[PathBuf],
    ) -> Result<(), CommandFailure> {
        for (&(location, path), target) in files.iter().zip(targets) {
            let Err(error) = self.read_format(location) else { continue };
            if is_unreadable(&error) && !self.is_skipped_unread(path, target) {
                return Err(CommandFailure::NotStarted(error));
            }
        }
        Ok(())
    }

    /// Returns whether the log is skipped without reading it.
    fn is_skipped_unread(&self, path: &Path, target: &Path) -> bool {
        let is_skipped = match is_same_file(path, target) {
            true => logs::find_writer(path) == logs::WriterPresence::Open,
            false => target.exists(),
        };
        is_skipped && !self.common.dry_run
    }

    fn rewrite_log(
        &self,
        location: &InputLocation,
        path: &Path,
        target: &Path,
        progress: &mut dyn FnMut(RewriteProgress) -> ControlFlow<()>,
    ) -> Result<RewriteEnd, CommandFailure> {
        let common = self.common;
        let in_place = is_same_file(path, target);
        if !in_place && target.exists() && !common.dry_run {
            return Ok(RewriteEnd::TargetExists);
        }
        if in_place && !common.dry_run {
            if !common.live {
                refuse_running_beside(path)?;
            }
            if let Some(end) = self.in_use(location, path)? {
                self.remark_on_newest(&end, path);
                return Ok(end);
            }
        }
        self.remark(location, path, target)?;
        let job = FileJob {
            source: path,
            target,
            action: self.action,
            plan: self.plan,
            keyring: self.found.keyring.clone(),
            encryption: if common.plain { OutputEncryption::Remove } else { OutputEncryption::Preserve },
            check: if common.verify { ContentCheck::Compare } else { ContentCheck::Skip },
            write_mode: if common.dry_run { WriteMode::DryRun } else { WriteMode::Write },
            may_replace: &|path| logs::find_writer(path) != logs::WriterPresence::Open,
        };
        let done = match rewrite_file(&job, progress) {
            Err(rewrite::RewriteError::InUse { .. }) => return Ok(RewriteEnd::InUse),
            done => done,
        };
        let done = done.map_err(|error| match error {
            rewrite::RewriteError::Corrupt { .. } => {
                anyhow::Error::new(error).context(ErrorAdvice("run bintide verify for details"))
            }
            rewrite::RewriteError::Format { ref server, .. } => {
                let advice = match lacks_transaction_marks(server) {
                    true => NO_MARKS,
                    false => "give --upgrade-format to replace the format description",
                };
                anyhow::Error::new(error).context(ErrorAdvice(advice))
            }
            rewrite::RewriteError::Read(cause) => add_advice(cause),
            rewrite::RewriteError::Owner { .. } => anyhow::Error::new(error).context(ErrorAdvice(
                "run the command as the owner of the log or as root, or write to another directory with --output",
            )),
            other => other.into(),
        })?;
        if let EndOfLog::Torn(torn) = done.report.end {
            warn!("{}", LogError::Torn { name: path.display().to_string(), torn });
        }
        self.remark_on_old_server(location, &done)?;
        Ok(RewriteEnd::Rewritten(Box::new(done)))
    }

    /// Warns of facts that the table does not show: the effect of a dry run, and hard links that keep the old log.
    fn remark(&self, location: &InputLocation, path: &Path, target: &Path) -> Result<(), CommandFailure> {
        let is_dry = self.common.dry_run;
        let in_place = is_same_file(path, target);
        let remark = match in_place {
            true if is_dry && self.in_use(location, path)?.is_some() => Some(
                "would be skipped without --dry-run: it is in use, flagged as in use, or needed by bintide receive",
            ),
            true if has_other_names(path) => Some("has other names (hard links), which keep the old log"),
            false if is_dry && target.exists() => Some("exists: the log would be skipped without --dry-run"),
            _ => None,
        };
        let stays = self.action == RewriteAction::Decompress && self.is_mariadb(location)?;
        let stays = stays.then_some("is a MariaDB log: its compressed events stay compressed");
        for remark in remark.into_iter().chain(stays) {
            warn!("{} {remark}", target.display());
        }
        Ok(())
    }

    fn remark_on_newest(&self, end: &RewriteEnd, path: &Path) {
        if let RewriteEnd::NewestReceived = end {
            warn!(
                "{} is skipped: it is the newest log in its directory, and bintide receive resumes at its end; to \
                 rewrite it, write to another directory with --output",
                path.display()
            );
        }
    }

    /// Warns if no transaction can be compressed because an old server wrote the log.
    fn remark_on_old_server(
        &self,
        location: &InputLocation,
        done: &FileReport,
    ) -> Result<(), CommandFailure> {
        let tally = &done.report.tally;
        let is_compression = matches!(self.action, RewriteAction::Compress(_));
        if !is_compression || tally.compressed > 0 || tally.transactions == 0 {
            return Ok(());
        }
        let Some(format) = self.read_format(location)? else { return Ok(()) };
        let version = String::from_utf8_lossy(&format.server_version);
        if format.flavour == Flavour::MySql && lacks_transaction_marks(&version) {
            warn!(
                "{location} has no transaction that can be compressed: MySQL {version} wrote it. {NO_MARKS}"
            );
        }
        Ok(())
    }

    fn is_mariadb(&self, location: &InputLocation) -> Result<bool, CommandFailure> {
        Ok(self.read_format(location)?.is_some_and(|format| format.flavour == Flavour::MariaDb))
    }

    fn read_format(&self, location: &InputLocation) -> Result<Option<Arc<EventFormat>>, anyhow::Error> {
        let mut reader = self.found.open(location).map_err(add_advice)?;
        reader.next_event().map_err(add_advice)?;
        Ok(reader.format().cloned())
    }

    /// Returns whether a server may still write to the log. If a process has the log open for writing, later writes
    /// would be lost. If only the in-use flag is set, a crash may have left it set: `--live` then permits the change,
    /// but only if certainly no process has the log open.
    fn in_use(&self, location: &InputLocation, path: &Path) -> Result<Option<RewriteEnd>, CommandFailure> {
        let presence = logs::find_writer(path);
        if presence == logs::WriterPresence::Open {
            return Ok(Some(RewriteEnd::InUse));
        }
        let mut reader = self.found.open(location).map_err(add_advice)?;
        reader.next_event().map_err(add_advice)?;
        Ok(match (reader.in_use(), presence) {
            (true, _) if !self.common.live => Some(RewriteEnd::FlaggedInUse),
            (true, logs::WriterPresence::Unknown) => Some(RewriteEnd::PerhapsInUse),
            _ if self.newest.contains(path) => Some(RewriteEnd::NewestReceived),
            _ => None,
        })
    }
}

fn print(all: &[LogRewrite], common: &RewriteArgs, global: &GlobalArgs) -> CommandResult {
    let mut out = io::stdout().lock();
    match common.json {
        true => write_document(&mut out, &text::json(all))?,
        false => screen::print(&text::render(all, ReportStyle::new(global.color.on_stdout())), &mut out)?,
    }
    Ok(CommandVerdict::Success)
}

fn sum_tallies(all: &[LogRewrite]) -> RewriteTally {
    let mut sum = RewriteTally::default();
    for done in all {
        if let RewriteEnd::Rewritten(file) = &done.end {
            sum.add(&file.report.tally);
        }
    }
    sum
}

const fn outcome_text(end: &RewriteEnd) -> &'static str {
    match end {
        RewriteEnd::InUse | RewriteEnd::FlaggedInUse => "in use, skipped",
        RewriteEnd::PerhapsInUse => "perhaps in use, skipped",
        RewriteEnd::NewestReceived => "needed by bintide receive, skipped",
        RewriteEnd::TargetExists => "exists already, skipped",
        RewriteEnd::Rewritten(file) => match file.outcome {
            RewriteOutcome::Written => "written",
            RewriteOutcome::Unchanged => "unchanged",
            RewriteOutcome::DryRun => "not written",
        },
    }
}
