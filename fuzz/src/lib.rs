//! Checks of properties that hold for any bytes. Each target has a check, which panics if its property does not hold.
//!
//! The targets of `libfuzzer/` (coverage-guided, `cargo xtask fuzz`) call the checks, and the tests of this crate: with
//! inputs from a fixed seed, and with the files in `findings/`, each of which once caused a failure.
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
