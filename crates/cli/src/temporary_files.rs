//! `--temporary-max`: the disk space of temporary files.

use std::num::NonZeroU64;

use clap::Args;

use crate::value_parsers::parse_size;

/// Limit on the disk space of temporary files.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct TemporaryFiles {
    /// Maximum disk space of all temporary files together, such as 500M or 20G. They hold transactions that do not
    /// fit in memory. A transaction that needs more space is refused [default: half of the free space].
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    temporary_max: Option<NonZeroU64>,
}

impl TemporaryFiles {
    /// Sets the limit for the whole process.
    pub(crate) fn limit(self) {
        if let Some(bytes_max) = self.temporary_max {
            logs::limit_temporary_files(bytes_max.get());
        }
    }
}

fn parse_limit(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(parse_size(text)?)
        .ok_or_else(|| "expected a size of at least one byte, such as 500M".to_owned())
}
