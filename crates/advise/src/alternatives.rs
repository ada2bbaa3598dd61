//! Measures alternatives that servers do not offer: compressing whole files with zstd, and a trained dictionary.

use std::time::{Duration, Instant};

use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CDict, CParameter, InBuffer, OutBuffer, ResetDirective, train_from_buffer};

use binlog::CompressError;
use logs::ReadOutcome;

use super::LogSource;
use super::cell_grid::CellGrid;
use super::estimate::{Population, RatioSums};
use super::pieces::{LogPreview, read_head};
use super::report::{DictionaryReport, WholeFileReport};
use inspect::InspectError;

/// zstd's default level, common for files.
const FILE_LEVEL: i32 = 3;

/// Bytes of one stretch of a file in a sample: many times zstd's window at that level.
const STRETCH_SIZE: u64 = 64 << 20;

/// In fewer bytes, zstd's window is still filling up.
const STRETCH_SIZE_MIN: u64 = 8 << 20;

const CHUNK_SIZE: usize = 1 << 20;

/// Limits of a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SampleLimits {
    pub(crate) time: Option<Duration>,
    pub(crate) bytes: Option<u64>,
}

impl SampleLimits {
    const fn is_none(self) -> bool {
        self.time.is_none() && self.bytes.is_none()
    }

    fn is_met(self, started: Instant, bytes: u64) -> bool {
        self.time.is_some_and(|time| started.elapsed() >= time) || self.bytes.is_some_and(|max| bytes >= max)
    }
}

/// Compresses whole files, each from start to end. With limits, compresses stretches of them until a limit is reached.
pub(crate) fn whole_files(
    sources: &[LogSource<'_>],
    previews: &[LogPreview],
    bounds: SampleLimits,
    seed: u64,
    may_continue: &mut dyn FnMut() -> bool,
) -> Result<Option<WholeFileReport>, InspectError> {
    let started = Instant::now();
    let width =
        |preview: &LogPreview| if !bounds.is_none() && preview.can_seek { STRETCH_SIZE } else { u64::MAX };
    let cells = CellGrid::new(previews.iter().map(|preview| (preview.bytes.clone(), width(preview))));
    let (mut pairs, mut file, mut measured, mut stretches) =
        (RatioSums::default(), FileCompressor::new()?, 0, 0);
    for cell in cells.spread(seed) {
        if stretches > 0 && bounds.is_met(started, measured) {
            break;
        }
        let mut reader = (sources[cell.source].open)()?;
        read_head(&mut reader)?;
        if cell.start > previews[cell.source].bytes.start && cell.start > reader.position() {
            if reader.seek_transaction(cell.start, cell.end)?.is_none() {
                // One transaction covers the whole stretch. The stretch at its front represents it.
                continue;
            }
        } else {
            reader = (sources[cell.source].open)()?;
        }
        let mut bytes = 0;
        while reader.position() < cell.end {
            // The read part of a stretch represents the whole stretch.
            if bytes >= STRETCH_SIZE_MIN && bounds.is_met(started, measured + bytes) {
                break;
            }
            if !may_continue() {
                return Err(InspectError::Stopped);
            }
            match reader.next_chunk(CHUNK_SIZE)? {
                ReadOutcome::Some(chunk) => {
                    bytes += chunk.bytes().len() as u64;
                    file.push(chunk.bytes())?;
                }
                ReadOutcome::End(_) => break,
            }
        }
        pairs.add(bytes as f64, file.finish()? as f64);
        (measured, stretches) = (measured + bytes, stretches + 1);
    }
    let x: u64 = previews.iter().map(|preview| preview.bytes.end - preview.bytes.start).sum();
    if measured == 0 {
        return Ok(None);
    }
    let all = (stretches < cells.count()).then_some(cells.count());
    let bytes = pairs.estimate(Population { x: x as f64, stretches: all });
    let before = previews.iter().map(|preview| preview.report.bytes).sum::<u64>() as f64;
    Ok(Some(WholeFileReport {
        level: FILE_LEVEL as u8,
        bytes,
        ratio: before / bytes.value.max(1) as f64,
        saved_share: 1.0 - bytes.value as f64 / before.max(1.0),
        bytes_measured: measured,
    }))
}

/// Compressor that only counts the compressed bytes.
struct FileCompressor {
    context: CCtx<'static>,
    out: Vec<u8>,
    size: u64,
}

impl FileCompressor {
    fn new() -> Result<Self, InspectError> {
        let mut context = context()?;
        context.set_parameter(CParameter::CompressionLevel(FILE_LEVEL)).map_err(failed)?;
        Ok(Self { context, out: Vec::with_capacity(CHUNK_SIZE), size: 0 })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), InspectError> {
        let mut input = InBuffer::around(bytes);
        while input.pos() < bytes.len() {
            self.step(&mut input, ZSTD_EndDirective::ZSTD_e_continue)?;
        }
        Ok(())
    }

    /// Ends the file and returns its compressed size. Another file can follow.
    fn finish(&mut self) -> Result<u64, InspectError> {
        while self.step(&mut InBuffer::around(&[]), ZSTD_EndDirective::ZSTD_e_end)? > 0 {}
        self.context.reset(ResetDirective::SessionOnly).map_err(failed)?;
        Ok(std::mem::take(&mut self.size))
    }

    fn step(
        &mut self,
        input: &mut InBuffer<'_>,
        directive: ZSTD_EndDirective,
    ) -> Result<usize, InspectError> {
        self.out.clear();
        let mut output = OutBuffer::around(&mut self.out);
        let left = self.context.compress_stream2(&mut output, input, directive).map_err(failed)?;
        self.size += output.pos() as u64;
        Ok(left)
    }
}

/// Size of the dictionary, the default of the `zstd` program.
const DICTIONARY_SIZE: usize = 110 << 10;

/// Minimum number of payloads to train a dictionary.
const TRAINED_MIN: usize = 64;

/// Trains a dictionary on the first half of the payloads, and measures it on the second half. A real dictionary is also
/// trained on the past and used for the future. In a random sample, the dictionary comes from half of the places and is
/// measured on the other half.
pub(crate) fn dictionary(samples: &[Vec<u8>]) -> Result<Option<DictionaryReport>, InspectError> {
    let (trained, measured) = samples.split_at(samples.len() / 2);
    if trained.len() < TRAINED_MIN {
        return Ok(None);
    }
    let (bytes, sizes) = (
        trained.iter().flat_map(|one| one.iter().copied()).collect::<Vec<u8>>(),
        trained.iter().map(|one| one.len()).collect::<Vec<_>>(),
    );
    let mut dictionary = Vec::with_capacity(DICTIONARY_SIZE);
    // Training fails if the data is too small or too uniform. There is no dictionary then.
    if train_from_buffer(&mut dictionary, &bytes, &sizes).is_err() {
        return Ok(None);
    }
    let Some(prepared) = CDict::try_create(&dictionary, FILE_LEVEL) else { return Ok(None) };
    let (mut context, mut out) = (context()?, Vec::new());
    let (mut plain, mut without, mut with) = (0, 0, 0);
    for payload in measured {
        out.clear();
        out.reserve(zstd_safe::compress_bound(payload.len()));
        plain += payload.len() as u64;
        without += context.compress(&mut out, payload, FILE_LEVEL).map_err(failed)? as u64;
        out.clear();
        with += context.compress_using_cdict(&mut out, payload, &prepared).map_err(failed)? as u64;
    }
    Ok(Some(DictionaryReport {
        level: FILE_LEVEL as u8,
        dictionary_bytes: dictionary.len() as u64,
        transactions_trained: trained.len() as u64,
        transactions_measured: measured.len() as u64,
        bytes_plain: plain,
        bytes_without: without,
        bytes_with: with,
    }))
}

fn context() -> Result<CCtx<'static>, InspectError> {
    CCtx::try_create().ok_or(InspectError::Compress(CompressError::Zstd { message: "no memory" }))
}

fn failed(code: zstd_safe::ErrorCode) -> InspectError {
    InspectError::Compress(CompressError::Zstd { message: zstd_safe::get_error_name(code) })
}

#[cfg(test)]
mod tests {
    use super::dictionary;

    #[test]
    fn dictionaries_are_measured_on_later_payloads() {
        let noise = |n: u64| crate::cell_grid::scramble(n).to_le_bytes();
        let all: Vec<u8> = (0..400_000).flat_map(noise).collect();
        // Each payload occurs twice in a row and never again, so the first half predicts nothing about the second.
        let samples: Vec<Vec<u8>> =
            all.chunks(400).take(4000).flat_map(|one| [one.to_vec(), one.to_vec()]).collect();
        if let Some(report) = dictionary(&samples).expect("zstd failed") {
            assert!(report.bytes_with * 100 > report.bytes_without * 98, "{report:?}");
        }
    }

    #[test]
    fn dictionaries_help_small_similar_payloads() {
        let samples: Vec<Vec<u8>> = (0..4000_u32)
            .map(|n| {
                format!("BEGIN sbtest.sbtest1 id={n} k={} the same pad over and over COMMIT", n * 7919)
                    .into_bytes()
            })
            .collect();
        let report = dictionary(&samples).expect("zstd failed").expect("too few samples");
        assert_eq!((report.transactions_trained, report.transactions_measured), (2000, 2000));
        assert!(report.bytes_with * 2 < report.bytes_without, "{report:?}");
        assert_eq!(dictionary(&samples[..20]).expect("zstd failed"), None);
    }
}
