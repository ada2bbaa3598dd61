//! Measures compressed sizes and times of payloads at every level.

use binlog::{CompressError, PayloadWriter, ZstdLevel};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::cpu_time::CpuTime;

/// One thread's zstd contexts, one for each level.
pub(crate) struct LevelBench<'s> {
    levels: &'s [ZstdLevel],
    /// Size above which payloads are measured with temporary contexts, which take 100 MB each at high levels. The
    /// caller ensures that only one thread does so at a time.
    large: usize,
    writers: Vec<PayloadWriter>,
    buffers: BenchBuffers,
}

/// Decompression context and buffers for measuring.
struct BenchBuffers {
    opener: DCtx<'static>,
    opened: Vec<u8>,
    frames: Vec<u8>,
    elsewhere: CacheFlusher,
}

/// Evicts zstd's tables from the processor's caches, as a server's work between two commits does.
struct CacheFlusher(Vec<u8>);

impl CacheFlusher {
    /// More than the per-core caches.
    const SIZE: usize = 4 << 20;
    /// Size of a cache line.
    const LINE: usize = 64;

    fn new() -> Self {
        Self(vec![1; Self::SIZE])
    }

    fn flush(&mut self) {
        for byte in self.0.iter_mut().step_by(Self::LINE) {
            *byte = std::hint::black_box(*byte).wrapping_add(1);
        }
    }
}

/// Ratio of compression times with cold and warm caches, from some payloads measured in both ways.
#[derive(Clone, Copy, Debug, Default)]
struct ColdCacheFactor {
    cold_ns: u64,
    warm_ns: u64,
}

impl ColdCacheFactor {
    /// Larger payloads warm the caches themselves.
    const SIZE_MAX: usize = 64 << 10;
    /// One in this many payloads is measured in both ways: flushing the caches takes longer than compressing most
    /// payloads.
    const STRIDE: usize = 32;
    /// Index of the first payload measured in both ways. The payloads before it have warmed the caches.
    const STRIDE_OFFSET: usize = 8;

    fn wants(&self, index: usize, payload: &[u8]) -> bool {
        index % Self::STRIDE == Self::STRIDE_OFFSET && payload.len() <= Self::SIZE_MAX
    }

    fn record(&mut self, warm_ns: u64, cold_ns: u64) {
        self.warm_ns += warm_ns;
        self.cold_ns += cold_ns;
    }

    fn scaled(&self, ns: u64, payload: &[u8]) -> u64 {
        match self.warm_ns {
            0 => ns,
            _ if payload.len() > Self::SIZE_MAX => ns,
            warm => (u128::from(ns) * u128::from(self.cold_ns.max(warm)) / u128::from(warm)) as u64,
        }
    }
}

/// Result of compressing one payload at one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelResult {
    /// Size of the frame in bytes; `None` if it does not fit into an event.
    pub(crate) frame: Option<u64>,
    /// Compression time in nanoseconds.
    pub(crate) ns: u64,
}

/// Sums of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelCost {
    /// Bytes of events compressed.
    pub(crate) bytes: u64,
    /// CPU time of compressing them, in nanoseconds.
    pub(crate) compress_ns: u64,
    /// Bytes of events decompressed.
    pub(crate) bytes_opened: u64,
    /// CPU time of decompressing them, in nanoseconds.
    pub(crate) decompress_ns: u64,
    /// Size of the largest context, in bytes.
    pub(crate) memory: u64,
}

impl LevelCost {
    pub(crate) fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.compress_ns += other.compress_ns;
        self.bytes_opened += other.bytes_opened;
        self.decompress_ns += other.decompress_ns;
        self.memory = self.memory.max(other.memory);
    }
}

/// Produces the same bytes piece by piece, any number of times.
pub(crate) type PieceSource<'p, E> =
    &'p mut dyn FnMut(&mut dyn FnMut(&[u8]) -> Result<(), CompressError>) -> Result<(), E>;

impl<'s> LevelBench<'s> {
    pub(crate) fn new(levels: &'s [ZstdLevel], large: usize) -> Result<Self, CompressError> {
        let writers = levels.iter().map(|level| PayloadWriter::new(*level)).collect::<Result<_, _>>()?;
        let opener = DCtx::try_create().ok_or(CompressError::Zstd { message: "no memory" })?;
        let (opened, frames, elsewhere) = (Vec::new(), Vec::new(), CacheFlusher::new());
        Ok(Self { levels, large, writers, buffers: BenchBuffers { opener, opened, frames, elsewhere } })
    }

    /// Measures payloads: all payloads at one level before the next level. Returns the results by payload and level,
    /// and adds to the sums in `taken`.
    pub(crate) fn measure(
        &mut self,
        payloads: &[&[u8]],
        taken: &mut [LevelCost],
    ) -> Result<Vec<LevelResult>, CompressError> {
        let mut results = vec![LevelResult::default(); payloads.len() * self.levels.len()];
        let (small, large): (Vec<_>, Vec<_>) =
            payloads.iter().enumerate().partition(|(_, payload)| payload.len() <= self.large);
        for (index, taken) in taken.iter_mut().enumerate() {
            let mut put = |payload: usize, one| results[payload * self.levels.len() + index] = one;
            measure_at_level(&mut self.writers[index], &small, taken, &mut put, &mut self.buffers)?;
        }
        for one in large {
            for (index, (level, taken)) in self.levels.iter().zip(&mut *taken).enumerate() {
                let mut put = |payload: usize, one| results[payload * self.levels.len() + index] = one;
                measure_at_level(
                    &mut PayloadWriter::new(*level)?,
                    &[one],
                    taken,
                    &mut put,
                    &mut self.buffers,
                )?;
            }
            (self.buffers.opened, self.buffers.frames) = (Vec::new(), Vec::new());
        }
        Ok(results)
    }

    /// Measures one payload that is not in memory, with `size` bytes of events.
    pub(crate) fn measure_pieces<E: From<CompressError>>(
        &mut self,
        size: u64,
        pieces: PieceSource<'_, E>,
        taken: &mut [LevelCost],
    ) -> Result<Vec<LevelResult>, E> {
        let mut all = Vec::new();
        for (level, taken) in self.levels.iter().zip(taken) {
            let mut writer = PayloadWriter::new(*level)?;
            writer.begin(size)?;
            let mut back = StreamDecompressor::new()?;
            let (mut frame, mut ns, mut bytes, mut is_too_large) = (0, 0, 0, false);
            pieces(&mut |piece| {
                if is_too_large {
                    return Ok(());
                }
                let work = CpuTime::start();
                let pushed = writer.push(piece);
                ns += work.ns();
                bytes += piece.len() as u64;
                match pushed {
                    Err(CompressError::TooLarge { .. }) => is_too_large = true,
                    other => other?,
                }
                frame += writer.drain(|made| back.take(made))?;
                Ok(())
            })?;
            if !is_too_large {
                writer.finish()?;
            }
            taken.add(&LevelCost {
                bytes,
                compress_ns: ns,
                bytes_opened: back.bytes,
                decompress_ns: back.ns,
                memory: writer.memory() as u64,
            });
            all.push(LevelResult { frame: (!is_too_large).then_some(frame), ns });
        }
        Ok(all)
    }
}

/// Decompresses a frame piece by piece and measures the time.
struct StreamDecompressor {
    opener: DCtx<'static>,
    out: Vec<u8>,
    bytes: u64,
    ns: u64,
}

impl StreamDecompressor {
    fn new() -> Result<Self, CompressError> {
        let mut opener = DCtx::try_create().ok_or(CompressError::Zstd { message: "no memory" })?;
        opener.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(failed)?;
        Ok(Self { opener, out: Vec::with_capacity(DCtx::out_size()), bytes: 0, ns: 0 })
    }

    fn take(&mut self, frame: &[u8]) -> Result<(), CompressError> {
        let mut input = InBuffer::around(frame);
        let work = CpuTime::start();
        loop {
            self.out.clear();
            let room = self.out.capacity();
            let mut output = OutBuffer::around(&mut self.out);
            self.opener.decompress_stream(&mut output, &mut input).map_err(failed)?;
            let produced = output.pos();
            self.bytes += produced as u64;
            if input.pos() == frame.len() && produced < room {
                break;
            }
        }
        self.ns += work.ns();
        Ok(())
    }
}

/// Base-2 logarithm of the window size at level 22.
const WINDOW_LOG_MAX: u32 = 27;

fn failed(code: zstd_safe::ErrorCode) -> CompressError {
    CompressError::Zstd { message: zstd_safe::get_error_name(code) }
}

/// Measures payloads at the writer's level.
fn measure_at_level(
    writer: &mut PayloadWriter,
    payloads: &[(usize, &&[u8])],
    taken: &mut LevelCost,
    put: &mut dyn FnMut(usize, LevelResult),
    buffers: &mut BenchBuffers,
) -> Result<(), CompressError> {
    let BenchBuffers { opener, opened, frames, elsewhere } = buffers;
    frames.clear();
    let (mut all, mut cold) = (Vec::with_capacity(payloads.len()), ColdCacheFactor::default());
    for (index, (_, payload)) in payloads.iter().enumerate() {
        let result = measure_one(writer, payload, |frame| frames.extend_from_slice(frame))?;
        if cold.wants(index, payload) {
            elsewhere.flush();
            cold.record(result.ns, measure_one(writer, payload, |_| ())?.ns);
        }
        all.push(result);
        taken.bytes += payload.len() as u64;
    }
    taken.memory = taken.memory.max(writer.memory() as u64);
    for (result, (number, payload)) in all.iter().zip(payloads) {
        let ns = cold.scaled(result.ns, payload);
        taken.compress_ns += ns;
        put(*number, LevelResult { ns, ..*result });
    }
    let work = CpuTime::start();
    let mut rest = &frames[..];
    for (result, (_, payload)) in all.iter().zip(payloads) {
        let (frame, remaining) = rest.split_at(result.frame.unwrap_or_default() as usize);
        rest = remaining;
        opened.clear();
        opened.reserve(payload.len());
        if opener.decompress(opened, frame).is_ok() {
            taken.bytes_opened += payload.len() as u64;
        }
    }
    taken.decompress_ns += work.ns();
    Ok(())
}

/// Measures one payload and passes its frame to `take`.
fn measure_one(
    writer: &mut PayloadWriter,
    payload: &[u8],
    take: impl FnOnce(&[u8]),
) -> Result<LevelResult, CompressError> {
    let work = CpuTime::start();
    let frame = match writer.frame(payload) {
        Ok(frame) => Some(frame),
        Err(CompressError::TooLarge { .. }) => None,
        Err(error) => return Err(error),
    };
    let ns = work.ns();
    take(frame.unwrap_or_default());
    Ok(LevelResult { frame: frame.map(|frame| frame.len() as u64), ns })
}

#[cfg(test)]
mod tests {
    use binlog::{CompressError, PayloadWriter, ZstdLevel};

    use super::{ColdCacheFactor, LevelBench, LevelCost};

    const LARGE_SIZE: usize = 1 << 20;

    fn events(size: usize) -> Vec<u8> {
        (0..size as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 27) as u8).collect()
    }

    #[test]
    fn small_payload_times_are_scaled_by_the_cold_cache_factor() {
        let mut cold = ColdCacheFactor::default();
        assert_eq!(cold.scaled(1000, b"small"), 1000);
        assert_eq!((0..100).filter(|index| cold.wants(*index, b"small")).count(), 3);
        cold.record(100, 130);
        cold.record(300, 390);
        assert_eq!(cold.scaled(1000, b"small"), 1300);
        let large = events(ColdCacheFactor::SIZE_MAX + 1);
        assert_eq!(
            (cold.scaled(1000, &large), cold.wants(ColdCacheFactor::STRIDE_OFFSET, &large)),
            (1000, false)
        );
        // The factor is never less than 1.
        cold.record(1000, 1);
        assert_eq!(cold.scaled(1000, b"small"), 1000);
    }

    #[test]
    fn sizes_equal_the_writers_in_memory_and_in_pieces() {
        let levels: Vec<ZstdLevel> = [1, 3, 19].into_iter().filter_map(ZstdLevel::new).collect();
        let mut bench = LevelBench::new(&levels, LARGE_SIZE).expect("out of memory");
        let payloads = [events(0), events(300), events(70_000), events(LARGE_SIZE + 1)];
        let lent: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let mut taken = vec![LevelCost::default(); levels.len()];
        let made = bench.measure(&lent, &mut taken).expect("could not measure");
        for (payload, made) in payloads.iter().zip(made.chunks(levels.len())) {
            for (level, made) in levels.iter().zip(made) {
                let mut writer = PayloadWriter::new(*level).expect("out of memory");
                assert_eq!(
                    made.frame,
                    Some(writer.frame(payload).expect("could not compress the frame").len() as u64)
                );
            }
        }
        let all: u64 = payloads.iter().map(|payload| payload.len() as u64).sum();
        assert!(taken.iter().all(|taken| (taken.bytes, taken.bytes_opened) == (all, all)));
        let mut pieces = |push: &mut dyn FnMut(&[u8]) -> Result<(), CompressError>| {
            payloads[2].chunks(999).try_for_each(push)
        };
        let streamed = bench.measure_pieces(70_000, &mut pieces, &mut taken).expect("could not measure");
        // Payloads in pieces are decompressed too.
        let all = all + 70_000;
        assert!(taken.iter().all(|taken| (taken.bytes, taken.bytes_opened) == (all, all)));
        for (level, made) in levels.iter().zip(streamed) {
            let mut writer = PayloadWriter::new(*level).expect("out of memory");
            writer.begin(70_000).expect("could not begin");
            payloads[2].chunks(999).try_for_each(|piece| writer.push(piece)).expect("could not push");
            assert_eq!(made.frame, Some(writer.finish().expect("could not compress the frame").len() as u64));
        }
    }
}
