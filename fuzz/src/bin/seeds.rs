//! Writes the inputs for fuzzing: `seeds DIRECTORY` creates a directory for each target, with a file for each seed or
//! finding, and prints the targets.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::{env, fs, io};

use fuzz::{TARGETS, findings, samples, seeds};

fn main() -> io::Result<()> {
    let directory = PathBuf::from(env::args_os().nth(1).unwrap_or_else(|| "target/fuzz/corpus".into()));
    let samples = samples()?;
    for target in TARGETS {
        let directory = directory.join(target.name);
        fs::create_dir_all(&directory)?;
        for (number, seed) in seeds(target, &samples).iter().enumerate() {
            fs::write(directory.join(format!("seed-{number:05}")), seed)?;
        }
        for (number, (_, bytes)) in findings(target)?.iter().enumerate() {
            fs::write(directory.join(format!("finding-{number:05}")), bytes)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}
