//! Replacement of zstd in builds without it: no frame can be read.

use std::convert::Infallible;
use std::marker::PhantomData;

use super::reader::PayloadInput;
use super::{PayloadDelivery, PayloadError, PayloadSummary, unsupported};
use crate::error::DecodeReason;

#[derive(Debug, Default)]
pub(super) struct ZstdContext;

#[derive(Debug)]
pub(super) struct ZstdFrames<'o>(Infallible, PhantomData<&'o mut ZstdContext>);

impl<'o> ZstdFrames<'o> {
    pub(super) fn new(_: &'o mut ZstdContext, _: PayloadDelivery) -> Result<Self, PayloadError> {
        Err(unsupported("a zstd payload in a build without zstd"))
    }

    pub(super) fn is_between(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn fill(
        &mut self,
        _: &mut PayloadInput<'_>,
        _: &mut Vec<u8>,
        _: usize,
        _: &mut PayloadSummary,
    ) -> Result<(), DecodeReason> {
        match self.0 {}
    }
}
