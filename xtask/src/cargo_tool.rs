//! Tools that cargo compiles into the user's cache, once.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// A program of a crate on crates.io, in one version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CargoTool {
    /// Name of the crate.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Name of its program.
    pub(crate) program: &'static str,
    /// Arguments that select its features.
    pub(crate) features: &'static [&'static str],
}

impl CargoTool {
    /// Returns the path of the program, which is compiled if it is not in the cache yet.
    pub(crate) fn ensure(self) -> Result<PathBuf> {
        let Self { name, version, .. } = self;
        let directory = testkit::cache_dir().join(format!("{name}-{version}"));
        let program = directory.join("bin").join(self.program);
        if !program.exists() {
            eprintln!("compiling {name} {version}: a few minutes, once");
            let mut cargo = testkit::cargo_command(&testkit::workspace_root());
            cargo.args(["install", "--quiet", "--locked"]).args(self.features);
            cargo.args(["--version", version, name, "--root"]).arg(&directory);
            let status = cargo.status().context("could not run cargo install")?;
            ensure!(status.success(), "could not compile {name} {version}");
        }
        Ok(program)
    }
}
