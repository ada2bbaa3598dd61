//! Whole logs through every list: no panic, and the output contains all events.

use std::num::NonZeroUsize;
use std::sync::Arc;

use binlog::MAGIC;
use list::{ChecksumPolicy, ListDamagePolicy, ListError, ListFormat, ListSettings, ListSource, list};

use crate::seeds::Sample;

/// Maximum size of a seed, in bytes.
const SEED_SIZE_MAX: usize = 8192;

pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    let log = sample.bytes.strip_prefix(&MAGIC).unwrap_or(&sample.bytes);
    vec![log[..log.len().min(SEED_SIZE_MAX)].to_vec()]
}

/// Checks `bytes`, a log without its magic. Checksums are ignored, because with them most damage would end the
/// list.
pub(super) fn check(bytes: &[u8]) {
    let log: Arc<[u8]> = [&MAGIC, bytes].concat().into();
    let (table, table_end) = listed(&log, ListFormat::Events);
    let (lines, lines_end) = listed(&log, ListFormat::Json);
    assert_eq!(count_lines(&table), count_lines(&lines) + 1);
    assert_eq!(table_end.is_ok(), lines_end.is_ok());
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let read = serde_json::from_slice::<serde::de::IgnoredAny>(line);
        assert!(read.is_ok(), "{}", String::from_utf8_lossy(line));
    }
    for form in [ListFormat::Transactions, ListFormat::TransactionsJson] {
        assert_eq!(listed(&log, form).1.is_ok(), table_end.is_ok());
    }
}

fn listed(log: &Arc<[u8]>, form: ListFormat) -> (Vec<u8>, Result<(), ListError>) {
    let mut settings = ListSettings::new(form, vec![ListSource::Bytes("log".to_owned(), Arc::clone(log))]);
    settings.jobs = NonZeroUsize::MIN;
    settings.checksums = ChecksumPolicy::Ignore;
    settings.damage = ListDamagePolicy::Show;
    let mut out = Vec::new();
    let end = list(&settings, &mut out).map(drop);
    (out, end)
}

fn count_lines(out: &[u8]) -> usize {
    out.iter().filter(|byte| **byte == b'\n').count()
}
