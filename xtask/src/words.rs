//! Writes the reviewed snapshot of all text that a user can see.

use anyhow::Result;

/// Runs the test that compares the snapshot, so that it writes it instead.
pub(crate) fn write() -> Result<()> {
    let arguments =
        ["test", "--quiet", "--package", "bintide-e2e", "--test", "all", "--", "words::", "docs::"];
    testkit::run_cargo_with(&arguments, |test| _ = test.env("BINTIDE_WORDS", "write"))?;
    println!("e2e/words/ is written; read what changed with `git diff e2e/words/`, and commit it");
    Ok(())
}
