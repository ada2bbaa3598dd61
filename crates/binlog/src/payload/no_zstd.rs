//! Replacement of zstd in builds without it: no frame can be read.

use std::convert::Infallible;
use std::marker::PhantomData;

use super::flow::Input;
use super::{Pace, PayloadError, PayloadSummary, unsupported};
use crate::error::Reason;

#[derive(Debug, Default)]
pub(super) struct Context;

#[derive(Debug)]
pub(super) struct Frames<'o>(Infallible, PhantomData<&'o mut Context>);

impl<'o> Frames<'o> {
    pub(super) fn new(_: &'o mut Context, _: Pace) -> Result<Self, PayloadError> {
        Err(unsupported("a zstd payload in a build without zstd"))
    }

    pub(super) fn is_between(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn fill(
        &mut self,
        _: &mut Input<'_>,
        _: &mut Vec<u8>,
        _: usize,
        _: &mut PayloadSummary,
    ) -> Result<(), Reason> {
        match self.0 {}
    }
}
