//! Shows how far a replay is, and stops it when it is interrupted.

use std::ops::ControlFlow;

use replay::{Observer, Report};

use crate::interrupt;
use crate::progress::Progress;

/// Whoever sits in front of the terminal.
pub(super) struct Watch(pub(super) Progress);

impl Observer for Watch {
    fn at(&mut self, bytes: u64, _: &Report) -> ControlFlow<()> {
        self.0.at(bytes);
        match interrupt::requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
