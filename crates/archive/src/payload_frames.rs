//! Finds the settings with which a server compressed a payload, and compresses again with them.

use binlog::events::TransactionPayload;
use binlog::{CompressError, PayloadWriter, ZstdLevel};

/// Settings of zstd that give the bytes of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameSettings {
    pub(crate) level: ZstdLevel,
    pub(crate) size: FrameSize,
}

/// Statement of the content's size in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameSize {
    /// Servers since 8.3.
    Stated,
    /// Earlier servers, and mysqlbinlog.
    Unstated,
}

/// Largest size of a payload's events that is decompressed. Bounds memory.
pub(crate) const INNER_SIZE_MAX: usize = 16 << 20;

/// Number of payloads in succession for which no settings were found, after which no other settings are tried.
const SEARCHES_MAX: u32 = 6;

/// Largest size of a payload's events for which levels above [`COSTLY_LEVEL`] are tried: their contexts are large.
const COSTLY_SIZE_MAX: usize = 1 << 20;
const COSTLY_LEVEL: u8 = 12;

/// Compresses payloads again, and remembers the settings that gave the same bytes.
#[derive(Debug, Default)]
pub(crate) struct PayloadFrames {
    writer: Option<(ZstdLevel, PayloadWriter)>,
    known: Option<FrameSettings>,
    searches: u32,
}

impl PayloadFrames {
    /// Returns settings that give exactly this frame.
    pub(crate) fn find(&mut self, inner: &[u8], frame: &[u8]) -> Option<FrameSettings> {
        if let Some(known) = self.known
            && self.gives(known, inner, frame)
        {
            self.searches = 0;
            return Some(known);
        }
        if self.searches >= SEARCHES_MAX {
            return None;
        }
        self.searches += 1;
        let size = match zstd_safe::get_frame_content_size(frame) {
            Ok(Some(_)) => FrameSize::Stated,
            Ok(None) => FrameSize::Unstated,
            Err(_) => return None,
        };
        let levels = [3].into_iter().chain((1..=22).filter(|level| *level != 3));
        let is_affordable = |level: &u8| inner.len() <= COSTLY_SIZE_MAX || *level <= COSTLY_LEVEL;
        let mut settings = levels
            .filter(is_affordable)
            .filter_map(ZstdLevel::new)
            .map(|level| FrameSettings { level, size });
        let found = settings.find(|settings| self.gives(*settings, inner, frame));
        if found.is_some() {
            (self.known, self.searches) = (found, 0);
        }
        found
    }

    fn gives(&mut self, settings: FrameSettings, inner: &[u8], frame: &[u8]) -> bool {
        self.compress(settings, inner).is_ok_and(|found| found == frame)
    }

    /// Compresses the events of a payload.
    pub(crate) fn compress(&mut self, settings: FrameSettings, inner: &[u8]) -> Result<&[u8], CompressError> {
        let FrameSettings { level, size } = settings;
        if self.writer.as_ref().is_none_or(|(other, _)| *other != level) {
            self.writer = Some((level, PayloadWriter::new(level)?));
        }
        let Some((_, writer)) = &mut self.writer else { unreachable!("ours: it was just created") };
        match size {
            FrameSize::Stated => writer.frame(inner),
            FrameSize::Unstated => {
                writer.begin_unsized()?;
                writer.push(inner)?;
                writer.finish()
            }
        }
    }
}

impl FrameSettings {
    pub(crate) const fn encode(self) -> u64 {
        let size = match self.size {
            FrameSize::Stated => 0,
            FrameSize::Unstated => 1,
        };
        (self.level.get() as u64) << 1 | size
    }

    pub(crate) fn decode(code: u64) -> Option<Self> {
        let level = ZstdLevel::new(u8::try_from(code >> 1).ok()?)?;
        let size = if code & 1 == 0 { FrameSize::Stated } else { FrameSize::Unstated };
        Some(Self { level, size })
    }
}

/// Appends the body of a payload event.
pub(crate) fn put_payload(inner_size: usize, frame: &[u8], out: &mut Vec<u8>) {
    TransactionPayload::put_zstd_fields(inner_size as u64, frame.len() as u64, out);
    out.extend_from_slice(frame);
}
