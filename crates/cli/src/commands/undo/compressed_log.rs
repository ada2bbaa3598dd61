//! Writes the inverse as a binary log with compressed transactions.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use binlog::{EVENT_SIZE_MAX, ZstdLevel};
use logs::LogReader;
use rewrite::{
    CompressSettings, CompressedPolicy, MinimumGain, OldFormatPolicy, ResourcePlan, RewriteAction,
    RewriteError, RewriteSettings, StagedFile, TornEndPolicy, TransactionMove, rewrite,
};

use super::{Inverse, publish_staged, write_log, write_staged};
use crate::commands::rewrite::MEMORY_DEFAULT;
use crate::exit::CommandFailure;
use crate::interrupt;

/// Writes a new file, as [`write_file`](super::write_file) does. Transactions are compressed at this level, as by
/// `bintide compress`.
pub(super) fn write(inverse: Inverse, level: ZstdLevel, path: &Path) -> Result<(), CommandFailure> {
    let failed = |error: RewriteError| CommandFailure::Failed(error.into());
    // The plain log must be a file, because a large transaction is read twice. The file needs disk space in addition to
    // the result.
    let mut plain = StagedFile::begin(path).map_err(failed)?;
    write_staged(&mut plain, path, |out| write_log(inverse, out))?;
    if interrupt::is_stop_requested() {
        return Ok(());
    }
    let mut compressed = StagedFile::begin(path).map_err(failed)?;
    match compress(plain.path(), level, &mut compressed) {
        Err(RewriteError::Interrupted { .. }) => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(()) => publish_staged(compressed),
    }
}

fn compress(plain: &Path, level: ZstdLevel, compressed: &mut StagedFile) -> Result<(), RewriteError> {
    let action = RewriteAction::Compress(CompressSettings {
        level,
        minimum_gain: MinimumGain::Percent(0),
        compressed: CompressedPolicy::Pass,
        event_size_max: EVENT_SIZE_MAX,
        old_format: OldFormatPolicy::Refuse,
    });
    let workers = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let size = fs::metadata(plain).map_or(u64::MAX, |data| data.len());
    let plan = ResourcePlan::new(action, workers, MEMORY_DEFAULT, size);
    let sizes = plan.sizes(plain.parent().unwrap_or(Path::new(".")));
    let settings =
        RewriteSettings { action, bounds: plan.bounds(), sizes: &sizes, torn_end: TornEndPolicy::Refuse };
    let mut on_progress = |_: TransactionMove| interrupt::stop_flow();
    rewrite(settings, &|| LogReader::open(plain), compressed.file(), &mut on_progress).map(drop)
}
