//! Builds the documentation as a book with mdBook.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Version of mdBook. Another version may refuse the settings in docs/book.toml.
const MDBOOK_VERSION: &str = "0.5.4";

/// Builds docs/ into target/book, with an mdBook of the user's cache.
pub(crate) fn build_book() -> Result<()> {
    let program = ensure_mdbook()?;
    let docs = testkit::workspace_root().join("docs");
    let status = Command::new(&program).arg("build").arg(&docs).status();
    let status = status.with_context(|| format!("could not run {}", program.display()))?;
    ensure!(status.success(), "mdBook failed");
    println!("the book is in target/book/index.html");
    Ok(())
}

/// Returns the path of mdBook, which is compiled if it is not in the cache yet.
fn ensure_mdbook() -> Result<PathBuf> {
    let folder = testkit::cache_dir().join(format!("mdbook-{MDBOOK_VERSION}"));
    let program = folder.join("bin/mdbook");
    if !program.exists() {
        eprintln!("compiling mdBook {MDBOOK_VERSION}: a few minutes, once");
        let mut cargo = testkit::cargo_command(&testkit::workspace_root());
        cargo.args(["install", "--quiet", "--locked", "--no-default-features", "--features", "search"]);
        cargo.args(["--version", MDBOOK_VERSION, "mdbook", "--root"]).arg(&folder);
        let status = cargo.status().context("could not run cargo install")?;
        ensure!(status.success(), "could not compile mdBook");
    }
    Ok(program)
}
