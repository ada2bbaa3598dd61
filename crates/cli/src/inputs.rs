//! The logs that a command reads: files, directories, standard input.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use logs::LogReader;

use crate::exit::{Advice, Failure};

/// Which logs to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Inputs {
    /// Logs: files, directories (whose index says which logs there are), `-` for standard input.
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
}

/// The logs, found but not opened.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// In the order given; those of a directory in the order of its index.
    pub(crate) places: Vec<Place>,
    /// Their sizes together, if all have one.
    pub(crate) bytes_total: Option<u64>,
}

/// One log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Inputs {
    /// Finds them all, so that what is not there is said before the work starts.
    pub(crate) fn find(&self) -> Result<Found, Failure> {
        let mut places = Vec::new();
        for path in &self.logs {
            if path.as_os_str() == "-" {
                places.push(Place::Stdin);
                continue;
            }
            places.extend(find(path).map_err(Failure::NotBegun)?.into_iter().map(Place::File));
        }
        if places.iter().filter(|place| **place == Place::Stdin).count() > 1 {
            return Err(Failure::NotBegun(anyhow!("standard input can be read only once; give `-` once")));
        }
        let sizes = places.iter().map(|place| match place {
            Place::File(path) => fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|data| data.len()),
            Place::Stdin => None,
        });
        Ok(Found { bytes_total: sizes.sum(), places })
    }
}

impl Place {
    pub(crate) fn open(&self) -> Result<LogReader, logs::Error> {
        match self {
            Self::File(path) => LogReader::open(path),
            Self::Stdin => Ok(LogReader::stdin()),
        }
    }
}

fn find(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            anyhow::Error::new(error).context(Advice("run it as the user that owns the logs"))
        }
        _ => error.into(),
    });
    match metadata.with_context(|| format!("could not open {}", path.display()))?.is_dir() {
        true => of_directory(path),
        false => Ok(vec![path.to_owned()]),
    }
}

/// The logs that the directory's index names, in its order.
fn of_directory(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let indexes = indexes(directory).with_context(|| format!("could not list {}", directory.display()))?;
    let index = match indexes.as_slice() {
        [index] => index,
        [] => bail!("{} has no index (*.index); give the log files by name", directory.display()),
        several => {
            let names: Vec<_> = several.iter().filter_map(|path| path.file_name()).collect();
            bail!("{} has several indexes ({names:?}); give the log files by name", directory.display());
        }
    };
    let text = fs::read(index).with_context(|| format!("could not read {}", index.display()))?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let logs: Vec<PathBuf> = lines.map(|line| directory.join(base_name(line))).collect();
    match logs.iter().find(|log| !log.exists()) {
        Some(absent) => {
            bail!(
                "{} names {}, which is not there; give the log files by name",
                index.display(),
                absent.display()
            )
        }
        None => Ok(logs),
    }
}

fn indexes(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: Result<Vec<_>, _> = fs::read_dir(directory)?.collect();
    let paths = entries?.into_iter().map(|entry| entry.path());
    let mut indexes: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "index")).collect();
    indexes.sort();
    Ok(indexes)
}

/// A server names its logs from its own data directory; here they lie beside their index.
fn base_name(line: &[u8]) -> PathBuf {
    let name = line.rsplit(|byte| *byte == b'/' || *byte == b'\\').next().unwrap_or(line);
    PathBuf::from(String::from_utf8_lossy(name).into_owned())
}
