//! Compression of one stream, in the form and with the parameters that suit its values.

use zstd_safe::{CCtx, CParameter, DCtx, Strategy};

use crate::archive_error::ArchiveError;
use crate::segment_error::BlockDamage;

/// Order of a stream's bytes before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamForm {
    /// As they came.
    Plain,
    /// Values of `width` bytes: first the first bytes of all values, then the second bytes, and so on.
    Planes(u8),
    /// The same of the differences between each value and the one before it.
    DifferencePlanes(u8),
}

impl StreamForm {
    pub(crate) const fn code(self) -> [u8; 2] {
        match self {
            Self::Plain => [0, 0],
            Self::Planes(width) => [1, width],
            Self::DifferencePlanes(width) => [2, width],
        }
    }

    pub(crate) const fn from_code(code: [u8; 2]) -> Result<Self, BlockDamage> {
        match code {
            [0, 0] => Ok(Self::Plain),
            [1, width] if width > 0 => Ok(Self::Planes(width)),
            [2, width] if width > 0 && width <= DIFFERENCE_WIDTH_MAX => Ok(Self::DifferencePlanes(width)),
            _ => Err(BlockDamage("a stream has an unknown form")),
        }
    }
}

/// Largest width of values whose differences are stored.
const DIFFERENCE_WIDTH_MAX: u8 = 8;

/// Search for repetitions in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchSearch {
    /// As at level 3.
    Level3,
    /// Only long ones: digits, hashes and other texts with short repetitions by chance become smaller without them.
    LongOnly,
}

/// Failure of zstd, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZstdFailure(&'static str);

impl From<ZstdFailure> for ArchiveError {
    fn from(failure: ZstdFailure) -> Self {
        Self::Compress { why: failure.0 }
    }
}

/// Compresses streams one after another, with the same contexts.
pub(crate) struct StreamCompressor {
    level_3: CCtx<'static>,
    long_only: CCtx<'static>,
    distant: CCtx<'static>,
    /// Stream in another order.
    ordered: Vec<u8>,
    /// Compressed sample.
    trial: Vec<u8>,
    /// Hashes of pieces of a stream, by their last bits.
    pieces: Vec<u32>,
}

/// Streams of this size and more are also searched for long repetitions that are far apart: whole values.
const DISTANT_SIZE_MIN: usize = 64 << 10;

/// Shortest of these repetitions.
const DISTANT_MATCH_MIN: u32 = 32;

/// Number of hashes of pieces, as a power of two.
const PIECES_BITS: u32 = 14;

/// Share of a stream's pieces that must be known from before: the search costs more time than all the rest.
const REPEATED_PIECES_MIN: f64 = 0.02;

/// Streams up to this size are compressed as they are: a trial would cost more than it gains.
const TRIAL_MIN: usize = 512;

/// Size of the sample by which form and search are chosen.
const SAMPLE_SIZE: usize = 16 << 10;

impl StreamCompressor {
    pub(crate) fn new() -> Self {
        let (mut level_3, mut long_only, mut distant) = (CCtx::create(), CCtx::create(), CCtx::create());
        let set = [
            level_3.set_parameter(CParameter::CompressionLevel(3)),
            long_only.set_parameter(CParameter::CompressionLevel(1)),
            long_only.set_parameter(CParameter::Strategy(Strategy::ZSTD_fast)),
            long_only.set_parameter(CParameter::MinMatch(7)),
            distant.set_parameter(CParameter::CompressionLevel(1)),
            distant.set_parameter(CParameter::Strategy(Strategy::ZSTD_fast)),
            distant.set_parameter(CParameter::MinMatch(7)),
            distant.set_parameter(CParameter::WindowLog(23)),
            distant.set_parameter(CParameter::EnableLongDistanceMatching(true)),
            distant.set_parameter(CParameter::LdmMinMatch(DISTANT_MATCH_MIN)),
            distant.set_parameter(CParameter::LdmHashLog(18)),
            distant.set_parameter(CParameter::LdmHashRateLog(4)),
        ];
        assert!(set.iter().all(Result::is_ok), "ours: these parameters are in range");
        Self { level_3, long_only, distant, ordered: Vec::new(), trial: Vec::new(), pieces: Vec::new() }
    }

    /// Appends the compressed stream, and returns its form. `width` is the size of its values, 0 if it varies.
    pub(crate) fn compress(
        &mut self,
        stream: &[u8],
        width: usize,
        out: &mut Vec<u8>,
    ) -> Result<StreamForm, ZstdFailure> {
        let (form, search) = self.choose(stream, width)?;
        let mut ordered = std::mem::take(&mut self.ordered);
        let bytes = order(stream, form, &mut ordered);
        let framed = self.frame(bytes, search, out);
        self.ordered = ordered;
        framed.map(|()| form)
    }

    fn choose(&mut self, stream: &[u8], width: usize) -> Result<(StreamForm, MatchSearch), ZstdFailure> {
        use MatchSearch::{Level3, LongOnly};
        if stream.len() < TRIAL_MIN {
            return Ok((StreamForm::Plain, Level3));
        }
        let narrow =
            u8::try_from(width).ok().filter(|width| stream.len().is_multiple_of(usize::from(*width).max(1)));
        let mut candidates = vec![(StreamForm::Plain, Level3), (StreamForm::Plain, LongOnly)];
        match narrow {
            Some(0) | None => {}
            Some(width) if width <= DIFFERENCE_WIDTH_MAX => {
                candidates.extend([
                    (StreamForm::DifferencePlanes(width), Level3),
                    (StreamForm::Planes(width), Level3),
                ]);
            }
            Some(width) => candidates.push((StreamForm::Planes(width), LongOnly)),
        }
        let step = width.max(1);
        let (mut start, mut size) = (stream.len() / 3, SAMPLE_SIZE);
        (start, size) = (start - start % step, (size - size % step).max(step));
        let sample = &stream[start..(start + size).min(stream.len())];
        let mut best = (usize::MAX, candidates[0]);
        for (form, search) in candidates {
            let size = self.trial_size(sample, form, search)?;
            if size < best.0 {
                best = (size, (form, search));
            }
        }
        Ok(best.1)
    }

    fn trial_size(
        &mut self,
        sample: &[u8],
        form: StreamForm,
        search: MatchSearch,
    ) -> Result<usize, ZstdFailure> {
        let (mut ordered, mut trial) = (std::mem::take(&mut self.ordered), std::mem::take(&mut self.trial));
        trial.clear();
        let framed = self.frame(order(sample, form, &mut ordered), search, &mut trial);
        let size = trial.len();
        (self.ordered, self.trial) = (ordered, trial);
        framed.map(|()| size)
    }

    /// Appends one frame.
    fn frame(&mut self, bytes: &[u8], search: MatchSearch, out: &mut Vec<u8>) -> Result<(), ZstdFailure> {
        let context = match search {
            MatchSearch::Level3 => &mut self.level_3,
            MatchSearch::LongOnly if has_distant_repeats(bytes, &mut self.pieces) => &mut self.distant,
            MatchSearch::LongOnly => &mut self.long_only,
        };
        let start = out.len();
        out.resize(start + zstd_safe::compress_bound(bytes.len()), 0);
        let size = context.compress2(&mut out[start..], bytes);
        // zstd fails only without memory: there is room for the frame.
        let size = size.map_err(|code| ZstdFailure(zstd_safe::get_error_name(code)))?;
        out.truncate(start + size);
        Ok(())
    }
}

/// Returns whether long pieces of a stream come again after many other bytes. It compares pieces at places that the
/// bytes choose: those of equal pieces are the same.
fn has_distant_repeats(stream: &[u8], pieces: &mut Vec<u32>) -> bool {
    /// Odd numbers whose products mix the bits of a number.
    const MIX_32: u32 = 0x9e37_79b1;
    const MIX_64: u64 = 0x9e37_79b9_7f4a_7c15;
    /// High bits of a hash that are 0 at a chosen place: one of 128 places.
    const SAMPLE_BITS: u32 = 7;
    if stream.len() < DISTANT_SIZE_MIN {
        return false;
    }
    pieces.clear();
    pieces.resize(1 << PIECES_BITS, 0);
    let (mut found, mut repeated) = (0_u32, 0_u32);
    for window in stream.windows(DISTANT_MATCH_MIN as usize) {
        let Some((start, _)) = window.split_first_chunk::<4>() else { break };
        if u32::from_le_bytes(*start).wrapping_mul(MIX_32) >> (32 - SAMPLE_BITS) != 0 {
            continue;
        }
        let words = window.as_chunks::<8>().0.iter();
        let hash = words.fold(0, |hash: u64, word| {
            (hash ^ u64::from_le_bytes(*word)).wrapping_mul(MIX_64).rotate_left(29)
        });
        let known = &mut pieces[(hash >> 32) as usize & ((1 << PIECES_BITS) - 1)];
        found += 1;
        repeated += u32::from(*known == hash as u32);
        *known = hash as u32;
    }
    f64::from(repeated) >= f64::from(found) * REPEATED_PIECES_MIN && repeated > 0
}

/// Decompresses streams one after another, with the same context.
pub(crate) struct StreamExpander {
    context: DCtx<'static>,
    ordered: Vec<u8>,
}

impl StreamExpander {
    pub(crate) fn new() -> Self {
        Self { context: DCtx::create(), ordered: Vec::new() }
    }

    /// Replaces `out` with the stream of `size` bytes that `frame` holds.
    pub(crate) fn expand(
        &mut self,
        frame: &[u8],
        form: StreamForm,
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockDamage> {
        if let StreamForm::Plain = form {
            return self.decompress(frame, size, out);
        }
        let mut ordered = std::mem::take(&mut self.ordered);
        let result = self.decompress(frame, size, &mut ordered);
        if result.is_ok() {
            restore_order(&ordered, form, out);
        }
        self.ordered = ordered;
        result
    }

    fn decompress(&mut self, frame: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        // What the buffer holds already is overwritten.
        out.resize(size, 0);
        match self.context.decompress(&mut out[..], frame) {
            Ok(found) if found == size => Ok(()),
            Ok(_) => Err(BlockDamage("a stream does not have the stated size")),
            Err(_) => Err(BlockDamage("a stream cannot be decompressed")),
        }
    }
}

/// Returns the stream in the order of its form. Bytes after the last whole value keep their place.
fn order<'a>(stream: &'a [u8], form: StreamForm, ordered: &'a mut Vec<u8>) -> &'a [u8] {
    let (StreamForm::Planes(width) | StreamForm::DifferencePlanes(width)) = form else { return stream };
    ordered.resize(stream.len(), 0);
    match (form, width) {
        (StreamForm::Planes(_), 2) => split_planes::<2>(stream, ordered),
        (StreamForm::Planes(_), 3) => split_planes::<3>(stream, ordered),
        (StreamForm::Planes(_), 4) => split_planes::<4>(stream, ordered),
        (StreamForm::Planes(_), 8) => split_planes::<8>(stream, ordered),
        (StreamForm::Planes(_), width) => split_wide_planes(stream, usize::from(width), ordered),
        (_, 1) => split_differences::<1>(stream, ordered),
        (_, 2) => split_differences::<2>(stream, ordered),
        (_, 3) => split_differences::<3>(stream, ordered),
        (_, 4) => split_differences::<4>(stream, ordered),
        (_, 5) => split_differences::<5>(stream, ordered),
        (_, 6) => split_differences::<6>(stream, ordered),
        (_, 7) => split_differences::<7>(stream, ordered),
        _ => split_differences::<8>(stream, ordered),
    }
    ordered
}

fn split_planes<const W: usize>(stream: &[u8], ordered: &mut [u8]) {
    let (values, rest) = stream.as_chunks::<W>();
    for plane in 0..W {
        let out = &mut ordered[plane * values.len()..(plane + 1) * values.len()];
        for (byte, value) in out.iter_mut().zip(values) {
            *byte = value[plane];
        }
    }
    ordered[values.len() * W..].copy_from_slice(rest);
}

fn split_wide_planes(stream: &[u8], width: usize, ordered: &mut [u8]) {
    let count = stream.len() / width;
    for (index, value) in stream.chunks_exact(width).enumerate() {
        for (plane, byte) in value.iter().enumerate() {
            ordered[plane * count + index] = *byte;
        }
    }
    ordered[count * width..].copy_from_slice(&stream[count * width..]);
}

fn split_differences<const W: usize>(stream: &[u8], ordered: &mut [u8]) {
    let (values, rest) = stream.as_chunks::<W>();
    let count = values.len();
    let (planes, tail) = ordered.split_at_mut(count * W);
    let mut before = 0;
    for (index, value) in values.iter().enumerate() {
        let number = little_endian(value);
        let folded = fold(number.wrapping_sub(before), W);
        before = number;
        for plane in 0..W {
            planes[plane * count + index] = (folded >> (8 * plane)) as u8;
        }
    }
    tail.copy_from_slice(rest);
}

fn restore_order(ordered: &[u8], form: StreamForm, out: &mut Vec<u8>) {
    let (StreamForm::Planes(width) | StreamForm::DifferencePlanes(width)) = form else {
        unreachable!("a plain stream is in order")
    };
    out.resize(ordered.len(), 0);
    match (form, width) {
        (StreamForm::Planes(_), 2) => join_planes::<2>(ordered, out),
        (StreamForm::Planes(_), 3) => join_planes::<3>(ordered, out),
        (StreamForm::Planes(_), 4) => join_planes::<4>(ordered, out),
        (StreamForm::Planes(_), 8) => join_planes::<8>(ordered, out),
        (StreamForm::Planes(_), width) => join_wide_planes(ordered, usize::from(width), out),
        (_, 1) => join_differences::<1>(ordered, out),
        (_, 2) => join_differences::<2>(ordered, out),
        (_, 3) => join_differences::<3>(ordered, out),
        (_, 4) => join_differences::<4>(ordered, out),
        (_, 5) => join_differences::<5>(ordered, out),
        (_, 6) => join_differences::<6>(ordered, out),
        (_, 7) => join_differences::<7>(ordered, out),
        _ => join_differences::<8>(ordered, out),
    }
}

fn join_planes<const W: usize>(ordered: &[u8], out: &mut [u8]) {
    let (values, rest) = out.as_chunks_mut::<W>();
    let count = values.len();
    for plane in 0..W {
        let bytes = &ordered[plane * count..(plane + 1) * count];
        for (value, byte) in values.iter_mut().zip(bytes) {
            value[plane] = *byte;
        }
    }
    rest.copy_from_slice(&ordered[count * W..]);
}

fn join_wide_planes(ordered: &[u8], width: usize, out: &mut [u8]) {
    let count = ordered.len() / width;
    for (index, value) in out.chunks_exact_mut(width).enumerate() {
        for (plane, byte) in value.iter_mut().enumerate() {
            *byte = ordered[plane * count + index];
        }
    }
    out[count * width..].copy_from_slice(&ordered[count * width..]);
}

fn join_differences<const W: usize>(ordered: &[u8], out: &mut [u8]) {
    let (values, rest) = out.as_chunks_mut::<W>();
    let count = values.len();
    let (planes, tail) = ordered.split_at(count * W);
    let planes: [&[u8]; W] = std::array::from_fn(|plane| &planes[plane * count..][..count]);
    let mut before = 0_u64;
    for (index, value) in values.iter_mut().enumerate() {
        let folded = planes.map(|plane| plane[index]);
        before = before.wrapping_add(unfold(little_endian(&folded)));
        let bytes = before.to_le_bytes();
        for (byte, number) in value.iter_mut().zip(bytes) {
            *byte = number;
        }
    }
    rest.copy_from_slice(tail);
}

/// Maps small differences of either sign to small numbers.
#[inline]
fn fold(difference: u64, width: usize) -> u64 {
    let unused = 64 - 8 * width as u32;
    let signed = (difference << unused).cast_signed() >> unused;
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}

#[inline]
fn unfold(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

#[inline]
fn little_endian<const W: usize>(bytes: &[u8; W]) -> u64 {
    let mut number = [0; 8];
    number[..W].copy_from_slice(bytes);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{StreamCompressor, StreamExpander, StreamForm, order, restore_order};

    proptest! {
        #[test]
        fn orders_are_undone(stream in vec(any::<u8>(), 0..200), width in 1..=8_u8) {
            for form in [StreamForm::Planes(width), StreamForm::DifferencePlanes(width), StreamForm::Planes(119)] {
                let (mut ordered, mut out) = (Vec::new(), Vec::new());
                let ordered = order(&stream, form, &mut ordered).to_vec();
                restore_order(&ordered, form, &mut out);
                prop_assert_eq!(&out, &stream, "{:?}", form);
            }
        }

        #[test]
        fn streams_come_back(seed in vec(any::<u8>(), 1..40), width in 0..=12_usize, count in 0..3000_usize) {
            let size = count * width.max(1);
            let stream: Vec<u8> = seed.iter().cycle().take(size).copied().collect();
            let (mut frame, mut out) = (Vec::new(), Vec::new());
            let form = StreamCompressor::new().compress(&stream, width, &mut frame).unwrap();
            prop_assert_eq!(StreamForm::from_code(form.code()), Ok(form));
            StreamExpander::new().expand(&frame, form, stream.len(), &mut out).unwrap();
            prop_assert_eq!(out, stream);
        }
    }
}
