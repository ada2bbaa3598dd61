//! Replacement of zstd in builds without it: no frame can be read.

use super::reader::PayloadInput;
use super::{PayloadDelivery, PayloadError, PayloadSummary, unsupported};
use crate::error::DecodeReason;

#[derive(Debug, Default)]
pub(super) struct ZstdFrames;

impl ZstdFrames {
    pub(super) fn begin(&mut self, _: PayloadDelivery) -> Result<(), PayloadError> {
        Err(unsupported(WITHOUT_ZSTD))
    }

    pub(super) fn is_between(&self) -> bool {
        true
    }

    pub(super) fn fill(
        &mut self,
        _: &mut PayloadInput<'_>,
        _: &mut Vec<u8>,
        _: usize,
        _: &mut PayloadSummary,
    ) -> Result<(), DecodeReason> {
        Err(DecodeReason::Unsupported { what: WITHOUT_ZSTD })
    }
}

const WITHOUT_ZSTD: &str = "a zstd payload in a build without zstd";
