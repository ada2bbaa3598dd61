//! Writes the reviewed snapshot of all text that a user can see.

use std::path::{self, Path};

use anyhow::Result;

/// Runs the tests of the snapshot so that they write the snapshot. With the directory of a recording, the tests also
/// write the examples from the recording.
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
    println!("e2e/words/ is written; read the changes with `git diff e2e/words/`, and commit it");
    Ok(())
}
