//! Writes the reviewed snapshot of all text that a user can see.

use std::path::{self, Path};

use anyhow::Result;

/// Runs the test that compares the snapshot, so that it writes it instead; with the directory of a recording, also
/// the examples from it.
pub(crate) fn write(recorded: Option<&Path>) -> Result<()> {
    let arguments =
        ["test", "--quiet", "--package", "bintide-e2e", "--test", "all", "--", "words::", "docs::"];
    // The test runs in another directory.
    let recorded = recorded.map(path::absolute).transpose()?;
    testkit::run_cargo_with(&arguments, |test| {
        test.env("BINTIDE_WORDS", "write");
        if let Some(directory) = recorded {
            test.env("BINTIDE_RECORDED", directory);
        }
    })?;
    println!("e2e/words/ is written; read what changed with `git diff e2e/words/`, and commit it");
    Ok(())
}
