//! What compression of the binary log saves and costs on a real server, and whether ours does the same: the
//! figures that everyone quotes, made again. Each part writes its tables into `docs/compression.md` and its
//! drawings beside it.

mod levels;
mod sizes;
mod updates;
mod wide;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use super::lab;

/// What to measure, and how much of it.
#[derive(Args)]
pub(crate) struct Compression {
    /// Which parts; all if none is named
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// How much of the update scripts and of the wide table's loop is run, the size of log files with it: more
    /// than 0, and all at 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// The levels that the server's sizes and ours are compared at
    #[arg(long, value_delimiter = ',', default_values_t = [1, 3, 11, 19, 22])]
    levels: Vec<u32>,
    /// Run the workloads again that ran before
    #[arg(long)]
    fresh: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The five workloads: plain, compressed, encrypted, both, and the whole file by zstd
    Sizes,
    /// The five workloads by level: the server's file and ours
    Levels,
    /// Two scripts of updates: of one row each, and of 1,000 rows each
    Updates,
    /// Large updates of a wide table, again and again, with a replica
    Wide,
}

impl Part {
    const ALL: [Self; 4] = [Self::Sizes, Self::Levels, Self::Updates, Self::Wide];
}

/// Measures and writes the parts.
pub(crate) fn compression(options: &Compression) -> Result<()> {
    ensure!(options.scale > 0.0 && options.scale <= 1.0, "the scale is more than 0 and at most 1");
    if options.fresh {
        lab::forget()?;
    }
    let parts = if options.parts.is_empty() { Part::ALL.to_vec() } else { options.parts.clone() };
    for part in parts {
        match part {
            Part::Sizes => sizes::measure()?,
            Part::Levels => levels::measure(&options.levels)?,
            Part::Updates => updates::measure(options.scale)?,
            Part::Wide => wide::measure(options.scale)?,
        }
    }
    Ok(())
}
