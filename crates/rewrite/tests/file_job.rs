//! Logs that must not be replaced.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its samples has failed")]

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::SystemTime;

use binlog::ZstdLevel;
use bintide_rewrite::{
    CompressSettings, CompressedPolicy, ContentCheck, FileJob, MinimumGain, OldFormatPolicy,
    OutputEncryption, ResourcePlan, RewriteAction, WriteMode, rewrite_file,
};

/// Compresses a copy of a sample in place, which must fail. Returns the error.
fn refusal(may_replace: fn(&Path) -> bool, on_progress: fn(&Path) -> ControlFlow<()>) -> String {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("binlog.000001");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types.binlog");
    fs::copy(&sample, &log).unwrap();
    let action = RewriteAction::Compress(CompressSettings {
        level: ZstdLevel::DEFAULT,
        minimum_gain: MinimumGain::None,
        compressed: CompressedPolicy::Pass,
        event_size_max: 1 << 30,
        old_format: OldFormatPolicy::Refuse,
    });
    let job = FileJob {
        source: &log,
        target: &log,
        action,
        plan: ResourcePlan::new(action, NonZeroUsize::MIN, 300_000_000, u64::MAX),
        keyring: None,
        encryption: OutputEncryption::Preserve,
        check: ContentCheck::Skip,
        write_mode: WriteMode::Write,
        may_replace: &may_replace,
    };
    let error = rewrite_file(&job, &mut |_| on_progress(&log));
    assert_eq!(fs::read(&log).unwrap(), fs::read(&sample).unwrap());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "other files are left");
    error.unwrap_err().to_string().replace(directory.path().to_str().unwrap(), "DIR")
}

#[test]
fn logs_in_use_are_not_replaced() {
    assert_eq!(
        refusal(|_| false, |_| ControlFlow::Continue(())),
        "DIR/binlog.000001 is being written to; it was not rewritten"
    );
}

#[test]
fn logs_that_change_meanwhile_are_not_replaced() {
    let touch = |log: &Path| {
        File::options().append(true).open(log).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        ControlFlow::Continue(())
    };
    assert_eq!(refusal(|_| true, touch), "DIR/binlog.000001 changed while it was read; it was not rewritten");
}

#[test]
fn interrupted_logs_are_unchanged() {
    assert_eq!(refusal(|_| true, |_| ControlFlow::Break(())), "interrupted; DIR/binlog.000001 is unchanged");
}
