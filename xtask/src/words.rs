//! Writes the reviewed snapshot of all text that a user can see.

use anyhow::{Result, ensure};

/// Runs the test that compares the snapshot, so that it writes it instead.
pub(crate) fn write() -> Result<()> {
    let mut test = testkit::cargo_command(&testkit::workspace_root());
    test.args(["test", "--quiet", "--package", "bintide-e2e", "--test", "words", "--test", "docs"])
        .env("BINTIDE_WORDS", "write");
    ensure!(test.status()?.success(), "the snapshot could not be written");
    println!("e2e/words/ is written; read what changed with `git diff e2e/words/`, and commit it");
    Ok(())
}
