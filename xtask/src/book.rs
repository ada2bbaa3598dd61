//! Builds the documentation as a book with mdBook.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo_tool::CargoTool;

/// mdBook in a fixed version, because another version may refuse the settings in docs/book.toml.
const MDBOOK: CargoTool = CargoTool {
    name: "mdbook",
    version: "0.5.4",
    program: "mdbook",
    features: &["--no-default-features", "--features", "search"],
};

/// Builds docs/ into target/book, with an mdBook of the user's cache.
pub(crate) fn build_book() -> Result<()> {
    let program = MDBOOK.ensure()?;
    let docs = testkit::workspace_root().join("docs");
    let status = Command::new(&program).arg("build").arg(&docs).status();
    let status = status.with_context(|| format!("could not run {}", program.display()))?;
    ensure!(status.success(), "mdBook failed");
    println!("the book is in target/book/index.html");
    Ok(())
}
