//! Sizes of the five workloads in five forms.

use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow};

use crate::chart::{self, BarGroup};
use crate::doc_page;
use crate::table::{self, megabytes, percent};
use crate::workload_runs::{self, BinlogSettings};
use crate::workloads::{self, LogCompression, Workload};

/// Compression level: the default of the server and of zstd.
const LEVEL: i32 = 3;

const FORMS: [&str; 5] = ["plain", "compressed", "encrypted", "encrypted, compressed", "whole file, zstd -3"];

/// Sizes of one workload's log in each of [`FORMS`], in bytes.
type FormSizes = [u64; FORMS.len()];

pub(super) fn measure() -> Result<()> {
    let compressed = BinlogSettings::at(LEVEL.unsigned_abs());
    let settings =
        [BinlogSettings::PLAIN, compressed, BinlogSettings::PLAIN.encrypted(), compressed.encrypted()];
    let mut runs = Vec::new();
    for setting in settings {
        runs.push(workload_runs::load_or_run_once(setting)?);
    }
    let mut lines: Vec<(Workload, FormSizes)> = Vec::new();
    for (index, workload) in Workload::ALL.into_iter().enumerate() {
        let whole_file = zstd_size(&workloads::workload_log(workload, LogCompression::Plain)?)?;
        let [plain, compressed, encrypted, both] =
            [0, 1, 2, 3].map(|setting: usize| runs[setting][index].bytes);
        lines.push((workload, [plain, compressed, encrypted, both, whole_file]));
    }
    doc_page::COMPRESSION.write("sizes", &(table_of(&lines) + &doc_page::conditions()?))?;
    let groups = lines.iter().map(|(workload, sizes)| BarGroup {
        name: workload.name(),
        values: sizes.iter().map(|size| *size as f64 / 1e6).collect(),
    });
    doc_page::COMPRESSION
        .draw("sizes", &chart::bar_chart("Size of the log, MB", &FORMS, &groups.collect::<Vec<_>>())?)
}

fn table_of(lines: &[(Workload, FormSizes)]) -> String {
    let rows = lines.iter().map(|(workload, sizes)| {
        let share = |size: u64| format!("{} ({})", megabytes(size), percent(size as f64 / sizes[0] as f64));
        let mut cells = vec![workload.name().to_owned(), megabytes(sizes[0])];
        cells.extend(sizes[1..].iter().map(|size| share(*size)));
        cells
    });
    table::markdown(&[&["MB"], &FORMS.map(|form| form)[..]].concat(), rows)
}

/// Returns the compressed size of the whole file as one frame.
fn zstd_size(path: &Path) -> Result<u64> {
    let log = fs::read(path)?;
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(log.len()));
    let size = zstd_safe::compress(&mut frame, &log, LEVEL);
    Ok(size.map_err(|code| anyhow!("zstd: {}", zstd_safe::get_error_name(code)))? as u64)
}
