//! Search for the compression level of a log's payloads: the level that reproduces the same bytes.
//!
//! Servers before 8.3 stated the content size only for the first transaction of a session, or never. Servers before
//! 8.0.32 also flushed a frame before its end. The probe tries all these variants.

use binlog::ZstdLevel;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, compress_bound};

use super::record::PayloadProbe;
use super::report::{FoundReport, LevelMatches};

/// Variant of a server's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameStyle {
    /// With the content size.
    Announced,
    /// Without the content size.
    Unannounced,
    /// Without the content size, and flushed before the end.
    Flushed,
}

/// Maximum level to try without a content size. Servers that do not state the size also ignore the level setting.
/// Levels far above the default would need hundreds of megabytes.
const UNANNOUNCED_LEVEL_MAX: u8 = 9;

const FRAME_STYLES: [FrameStyle; 3] = [FrameStyle::Announced, FrameStyle::Unannounced, FrameStyle::Flushed];

/// Tries every level on the payloads, while `may_continue` returns true.
pub(crate) fn find_levels(
    probes: &[PayloadProbe],
    found: FoundReport,
    may_continue: &mut dyn FnMut() -> bool,
) -> FoundReport {
    let mut matches = [0_u64; 22];
    let mut probed = 0;
    for probe in probes {
        if !may_continue() {
            break;
        }
        probed += 1;
        for (level, count) in (ZstdLevel::MIN.get()..=ZstdLevel::MAX.get()).zip(&mut matches) {
            *count += u64::from(
                FRAME_STYLES
                    .iter()
                    .any(|way| compress_frame(&probe.inner, level, *way).as_ref() == Some(&probe.frame)),
            );
        }
    }
    let counted = || (ZstdLevel::MIN.get()..=ZstdLevel::MAX.get()).zip(matches);
    FoundReport {
        probed,
        levels: counted()
            .filter(|(_, count)| probed > 0 && *count == probed)
            .map(|(level, _)| level)
            .collect(),
        matches: counted()
            .filter(|(_, payloads)| *payloads > 0)
            .map(|(level, payloads)| LevelMatches { level, payloads })
            .collect(),
        ..found
    }
}

fn compress_frame(inner: &[u8], level: u8, way: FrameStyle) -> Option<Vec<u8>> {
    if way != FrameStyle::Announced && level > UNANNOUNCED_LEVEL_MAX {
        return None;
    }
    let mut context = CCtx::try_create()?;
    context.set_parameter(CParameter::CompressionLevel(i32::from(level))).ok()?;
    let size = (way == FrameStyle::Announced).then_some(inner.len() as u64);
    context.set_pledged_src_size(size).ok()?;
    let mut frame = Vec::with_capacity(compress_bound(inner.len()) + FRAME_OVERHEAD);
    let mut output = OutBuffer::around(&mut frame);
    // Pass the input in two steps: zstd states the content size of input passed in one step.
    let (front, back) = inner.split_at(inner.len() / 2);
    for part in [front, back] {
        let mut input = InBuffer::around(part);
        while input.pos() < part.len() {
            context.compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_continue).ok()?;
        }
    }
    if way == FrameStyle::Flushed {
        let flush = ZSTD_EndDirective::ZSTD_e_flush;
        while context.compress_stream2(&mut output, &mut InBuffer::around(&[]), flush).ok()? > 0 {}
    }
    let end = ZSTD_EndDirective::ZSTD_e_end;
    while context.compress_stream2(&mut output, &mut InBuffer::around(&[]), end).ok()? > 0 {}
    Some(frame)
}

/// Space for a frame's header and an empty last block.
const FRAME_OVERHEAD: usize = 64;

#[cfg(test)]
mod tests {
    use binlog::{PayloadWriter, ZstdLevel};

    use super::{FRAME_STYLES, FrameStyle, PayloadProbe, UNANNOUNCED_LEVEL_MAX, compress_frame, find_levels};
    use crate::report::FoundReport;

    fn inner(seed: u32) -> Vec<u8> {
        (0..20_000_u32).map(|n| ((n / 7 + seed).wrapping_mul(2_654_435_761) >> 26) as u8).collect()
    }

    fn found(frames: Vec<Vec<u8>>) -> FoundReport {
        let probes: Vec<PayloadProbe> =
            (0..).zip(frames).map(|(seed, frame)| PayloadProbe { inner: inner(seed), frame }).collect();
        find_levels(&probes, FoundReport::default(), &mut || true)
    }

    #[test]
    fn the_level_is_found_for_all_kinds_of_frames() {
        for level in [1, 3, 9, 13] {
            for way in FRAME_STYLES
                .into_iter()
                .filter(|way| *way == FrameStyle::Announced || level <= UNANNOUNCED_LEVEL_MAX)
            {
                let frames = (0..3)
                    .map(|seed| {
                        compress_frame(&inner(seed), level, way).expect("could not compress the frame")
                    })
                    .collect();
                let found = found(frames);
                assert!(found.levels.contains(&level), "{level} {way:?}: {found:?}");
                assert!(found.levels.len() < 8 && found.probed == 3, "{level} {way:?}: {found:?}");
            }
            let mut writer =
                PayloadWriter::new(ZstdLevel::new(level).expect("not a level")).expect("out of memory");
            let frames = vec![writer.frame(&inner(0)).expect("could not compress the frame").to_vec()];
            assert!(found(frames).levels.contains(&level), "frames of PayloadWriter");
        }
    }

    #[test]
    fn frames_of_no_level_are_unknown() {
        let found = found(vec![vec![1, 2, 3]]);
        assert_eq!((found.probed, found.levels.len(), found.matches.len()), (1, 0, 0));
    }
}
