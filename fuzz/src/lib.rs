//! Properties that hold for any bytes: a function for each target, which panics if its property does not hold.
//!
//! Three callers: the one-line targets of `libfuzzer/` (coverage-guided, `cargo xtask fuzz`), the tests of this
//! crate with a fixed seed, and the findings in `findings/`, each a file that once caused a failure.
#![forbid(unsafe_code)]

mod checks;
mod mutate;
mod seeds;

pub use crate::checks::{TARGETS, Target};
pub use crate::mutate::mutate;
pub use crate::seeds::{Sample, findings, samples, seeds};

/// Runs the target of this name on `bytes`.
///
/// # Panics
///
/// Panics if the property does not hold, or the target does not exist.
pub fn run(name: &str, bytes: &[u8]) {
    let Some(target) = Target::find(name) else { panic!("no target {name}") };
    (target.check)(bytes);
}
