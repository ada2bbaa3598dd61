//! What must hold for any bytes at all: one function a target, that panics if it does not.
//!
//! Three things call them: the one-line targets of `libfuzzer/` (coverage-guided, `cargo xtask fuzz`), the
//! fixed-seed slice in this crate's tests, and the findings in `findings/`, each a file that once broke something.
#![forbid(unsafe_code)]

mod checks;
mod mutate;
mod seeds;

pub use crate::checks::{TARGETS, Target};
pub use crate::mutate::mutate;
pub use crate::seeds::{Sample, findings, samples, seeds};

/// Throws `bytes` at the target of this name.
///
/// # Panics
///
/// When what must hold does not, or there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let Some(target) = Target::find(name) else { panic!("no target {name}") };
    (target.check)(bytes);
}
