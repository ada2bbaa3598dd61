//! Tables as the log's definitions make them, kept beside the progress of a run, which says which file has them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::defined::Definitions;
use crate::files::write_atomically;

/// The files of definitions: `progress.schema.3`, of which the progress names the one that fits.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Without the number.
    path: PathBuf,
    number: Option<u64>,
    /// The file that the progress will no longer name.
    old: Option<u64>,
}

impl Kept {
    /// Beside a file of progress that names this one.
    pub(crate) fn beside(progress: &Path, number: Option<u64>) -> Self {
        let mut name = progress.file_name().unwrap_or_default().to_owned();
        name.push(".schema");
        Self { path: progress.with_file_name(name), number, old: None }
    }

    /// What comes is read without them: they fit no place of it.
    pub(crate) const fn forget(&mut self) {
        self.old = self.number.take();
    }

    /// What was kept; none if nothing was.
    pub(crate) fn read(&self) -> io::Result<Option<Definitions>> {
        let Some(number) = self.number else { return Ok(None) };
        let path = self.file(number);
        let text = fs::read_to_string(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(Some(Definitions::parse(&text)))
    }

    /// Keeps these, if they are new, once the progress names them.
    pub(crate) fn write(&mut self, definitions: Option<&Definitions>) -> io::Result<Written> {
        if let Some(definitions) = definitions {
            let number = self.number.unwrap_or(0) + 1;
            write_atomically(&self.file(number), &definitions.to_string())?;
            self.old = self.number.replace(number);
        }
        Ok(Written { old: self.old.take().map(|old| self.file(old)) })
    }

    pub(crate) const fn number(&self) -> Option<u64> {
        self.number
    }

    fn file(&self, number: u64) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{number}"));
        self.path.with_file_name(name)
    }
}

/// What there is to keep is there; the old definitions are needed until the progress no longer names them.
#[must_use]
#[derive(Debug)]
pub(crate) struct Written {
    old: Option<PathBuf>,
}

impl Written {
    /// The progress no longer names the old ones.
    pub(crate) fn forget_old(self) {
        // One that stays is not in the way.
        if let Some(path) = self.old {
            let _ = fs::remove_file(path);
        }
    }
}

/// `schema 3`, in front of what else is in a file of progress.
pub(crate) fn line(number: Option<u64>) -> String {
    number.map(|number| format!("schema {number}\n")).unwrap_or_default()
}

/// The number, if there is such a line, and what is behind it; `None` if it is damaged.
pub(crate) fn split(text: &str) -> Option<(Option<u64>, &str)> {
    let Some(rest) = text.strip_prefix("schema ") else { return Some((None, text)) };
    let (number, rest) = rest.split_once('\n')?;
    Some((Some(number.parse().ok()?), rest))
}
