//! Builds and tests the Python package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use testkit::{
    PythonEnvironment, remove_dir, run_cargo, target_dir, without_package_variables, workspace_root,
};

use crate::checks::BUILD_BINTIDE;

#[derive(Args)]
pub(crate) struct PythonOptions {
    /// Build without optimization, into target/python: quicker, for tests only
    #[arg(long)]
    quick: bool,
    /// Arguments of pytest
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds the package, and runs its tests in a virtual environment.
pub(crate) fn check_python(options: &PythonOptions) -> Result<()> {
    run_cargo(&BUILD_BINTIDE)?;
    let wheel = build_wheel(if options.quick { None } else { Some("--release") })?;
    println!("{}", wheel.display());
    let python = PythonEnvironment::PACKAGE_TESTS.python()?;
    let packages = install(&python, &wheel)?;
    let mut tests = Command::new(python);
    tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).args(&options.arguments);
    tests.arg("tests").current_dir(python_directory());
    tests.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.env("BINTIDE_BIN", target_dir().join("debug/bintide"));
    run(&mut tests)
}

/// Builds the package, with the dependencies of the other crates in the same versions. Returns its path.
fn build_wheel(release: Option<&str>) -> Result<PathBuf> {
    let python = PythonEnvironment::PACKAGE_TESTS.python()?;
    let directory = target_dir().join("python/wheel");
    remove_dir(&directory)?;
    fs::copy(workspace_root().join("Cargo.lock"), python_directory().join("Cargo.lock"))
        .context("could not copy Cargo.lock")?;
    let mut maturin = Command::new(&python);
    maturin.args(["-m", "maturin", "build", "--quiet", "--interpreter"]).arg(&python).args(release);
    maturin.arg("--target-dir").arg(target_dir().join("python")).arg("--out").arg(&directory);
    run(maturin.current_dir(python_directory()))?;
    let built = fs::read_dir(&directory)?.next().context("maturin has built no package")??.path();
    if release.is_none() {
        return Ok(built);
    }
    let name = built.file_name().context("the package has no name")?;
    let wheel = target_dir().join("dist").join(name);
    fs::create_dir_all(target_dir().join("dist"))?;
    fs::copy(&built, &wheel).with_context(|| format!("could not write {}", wheel.display()))?;
    Ok(wheel)
}

/// Installs the package into a directory of its own, which is returned. The environment in the cache is shared.
fn install(python: &Path, wheel: &Path) -> Result<PathBuf> {
    let directory = target_dir().join("python/packages");
    remove_dir(&directory)?;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
    run(pip.arg(&directory).arg(wheel))?;
    Ok(directory)
}

fn python_directory() -> PathBuf {
    workspace_root().join("python")
}

fn run(command: &mut Command) -> Result<()> {
    let status = without_package_variables(command).status();
    let status = status.with_context(|| format!("could not run {command:?}"))?;
    ensure!(status.success(), "failed: {command:?}");
    Ok(())
}
