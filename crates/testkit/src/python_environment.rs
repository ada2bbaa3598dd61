//! Virtual environments of Python: independent readers of Parquet, and what the Python package's tests need.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache;

/// A virtual environment of Python in the cache.
#[derive(Clone, Copy, Debug)]
pub struct PythonEnvironment {
    /// Name of its directory. Raise its number when the packages change.
    directory: &'static str,
    packages: &'static [&'static str],
}

impl PythonEnvironment {
    /// Readers of Parquet. DuckDB needs pytz for times with a time zone.
    pub const READERS: Self =
        Self { directory: "readers-1", packages: &["duckdb==1.5.5", "pyarrow==26.0.1", "pytz==2025.2"] };

    /// Readers of Kafka's topics, and of Avro.
    pub const KAFKA: Self =
        Self { directory: "kafka-readers-1", packages: &["confluent-kafka==2.16.1", "fastavro==1.13.1"] };

    /// Tools that build and test the Python package, and the libraries that its tests use.
    pub const PACKAGE_TESTS: Self = Self {
        directory: "python-3",
        packages: &[
            "duckdb==1.5.5",
            "maturin==1.16.0",
            "mypy==2.4.1",
            "pandas==3.1.1",
            "polars==2.1.0",
            "pyarrow==26.0.1",
            "pyarrow-stubs==20.0.0.20260819",
            "pyspark==4.0.1",
            "pytest==9.2.0",
            "pytz==2025.2",
            "ray==2.60.0",
        ],
    };

    /// Returns the Python of the environment. Its packages are fetched into the cache if they are missing.
    ///
    /// # Errors
    /// Fails if the machine has no Python with `venv`, or if the packages cannot be fetched.
    pub fn python(self) -> Result<PathBuf> {
        let directory = cache::cached_dir(self.directory, |directory| self.install(directory))?;
        Ok(python_in(&directory))
    }

    fn install(self, directory: &Path) -> Result<()> {
        run(Command::new("python3").args(["-m", "venv"]).arg(directory))
            .context("could not make a virtual environment: install python3-venv")?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(python_in(directory)).args(install).args(self.packages))
            .with_context(|| format!("could not install {}", self.directory))
    }
}

fn python_in(directory: &Path) -> PathBuf {
    directory.join("bin/python")
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("could not run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
