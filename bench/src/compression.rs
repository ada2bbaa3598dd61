//! Measures savings and costs of binary log compression on a real server, and compares bintide's results. Each part
//! writes its tables into `docs/measured/compression.md`, and its charts beside it.

mod levels;
mod sizes;
mod updates;
mod wide;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use super::workload_runs;

/// Parts to measure, and their scale.
#[derive(Args)]
pub(crate) struct CompressionBenchOptions {
    /// Parts to measure [default: all]
    #[arg(value_enum)]
    parts: Vec<CompressionPart>,
    /// Fraction of the update scripts, of the wide table's updates and of the log file size, greater than 0 and at most
    /// 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Compression levels at which the sizes of the server and of bintide are compared
    #[arg(long, value_delimiter = ',', default_values_t = [1, 3, 11, 19, 22])]
    levels: Vec<u32>,
    /// Discard saved runs, and run the workloads again
    #[arg(long)]
    fresh: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompressionPart {
    /// The five workloads: plain, compressed, encrypted, both, and the whole file by zstd
    Sizes,
    /// The five workloads by level: the server's file and bintide's
    Levels,
    /// Two scripts of updates: of one row each, and of 1,000 rows each
    Updates,
    /// Repeated updates of all rows of a wide table, with a replica
    Wide,
}

impl CompressionPart {
    const ALL: [Self; 4] = [Self::Sizes, Self::Levels, Self::Updates, Self::Wide];
}

/// Measures the parts, and writes their results.
pub(crate) fn measure_compression(options: &CompressionBenchOptions) -> Result<()> {
    ensure!(options.scale > 0.0 && options.scale <= 1.0, "--scale must be greater than 0 and at most 1");
    if options.fresh {
        workload_runs::remove_saved_runs()?;
    }
    let parts = if options.parts.is_empty() { CompressionPart::ALL.to_vec() } else { options.parts.clone() };
    for part in parts {
        match part {
            CompressionPart::Sizes => sizes::measure()?,
            CompressionPart::Levels => levels::measure(&options.levels)?,
            CompressionPart::Updates => updates::measure(options.scale)?,
            CompressionPart::Wide => wide::measure(options.scale)?,
        }
    }
    Ok(())
}
