//! Change tables as Parquet files in a directory.
//!
//! ```text
//! database=shop/table=orders/day=2026-11-22/binlog.000012.1.parquet
//! _bintide/binlog.000012.files                   files with the changes of this log
//! _bintide/selection                             the selected changes
//! _bintide/database=shop/table=orders.columns    columns of the files of this table
//! _bintide/unfinished/                           files that are being written
//! ```

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use binlog::{Date, ZstdLevel};
use logs::{DirectoryLock, FileAccess, make_directories, replace_file};

use crate::change_decoder::ChangeBatch;
use crate::columns_error::ColumnsError;
use crate::parquet_part::{CompletePart, ParquetForm, ParquetKey, ParquetPart, file_error};
use crate::table_directory::{TableDirectories, encode};

/// Directory of the export's own files. Readers ignore names that start with `_`.
pub const STATE_NAME: &str = "_bintide";

/// Directory of unfinished files, in that of the export's own.
const UNFINISHED_DIRECTORY: &str = "unfinished";

/// Extension of the lists of files.
const LIST_END: &str = "files";

/// File with the selection of the export.
pub const SELECTION_NAME: &str = "_bintide/selection";

/// Limits of an export.
#[derive(Clone, Copy, Debug)]
pub struct ExportLimits {
    /// Encoded bytes of a row group.
    pub row_group_bytes: usize,
    /// Bytes of a file, about: it ends with the row group that reaches them.
    pub file_bytes: usize,
    /// Memory of the row groups that are being written, in bytes.
    pub memory_bytes: usize,
    /// Files that are open at the same time.
    pub open_files: usize,
    /// Level of the compression with zstd.
    pub zstd_level: ZstdLevel,
}

impl Default for ExportLimits {
    fn default() -> Self {
        Self {
            row_group_bytes: 32 << 20,
            file_bytes: 512 << 20,
            memory_bytes: 192 << 20,
            open_files: 64,
            zstd_level: ZstdLevel::DEFAULT,
        }
    }
}

/// Numbers of what an export has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// Logs.
    pub logs: u64,
    /// Files.
    pub files: u64,
    /// Row changes.
    pub rows: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// Writer of change tables as Parquet files in a directory.
///
/// The files of a log get their names when all of them are complete. Exporting a log again replaces its earlier files.
#[derive(Debug)]
pub struct ChangeExport {
    root: PathBuf,
    limits: ExportLimits,
    form: ParquetForm,
    /// Encoded name of the current log.
    log: String,
    directories: HashMap<[String; 2], TableDirectories>,
    open: HashMap<PathBuf, ParquetPart>,
    complete: Vec<CompletePart>,
    /// Number of parts of the current log in each directory.
    part_numbers: HashMap<PathBuf, u32>,
    batches: u64,
    counts: ExportCounts,
    _lock: DirectoryLock,
}

/// Tables whose columns stay in memory. Bounds memory.
const DIRECTORIES_MAX: usize = 4096;

impl ChangeExport {
    /// Opens a directory, and creates it if it is missing. Removes what an interrupted export has left.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be created, or if another export is using it.
    pub fn open(root: &Path, limits: ExportLimits) -> Result<Self, ColumnsError> {
        let state = root.join(STATE_NAME);
        make_directories(&state)?;
        let lock = DirectoryLock::take(&state).map_err(|cause| file_error("lock", &state, cause))?;
        let Some(lock) = lock else {
            let cause = std::io::Error::new(
                ErrorKind::WouldBlock,
                "another export is using it: wait until it ends, or give another directory",
            );
            return Err(file_error("lock", root, cause));
        };
        let unfinished = state.join(UNFINISHED_DIRECTORY);
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(file_error("remove", &unfinished, error));
            }
            _ => make_directories(&unfinished)?,
        };
        Ok(Self {
            root: root.to_owned(),
            limits,
            form: ParquetForm { level: limits.zstd_level, key: None },
            log: String::new(),
            directories: HashMap::new(),
            open: HashMap::new(),
            complete: Vec::new(),
            part_numbers: HashMap::new(),
            batches: 0,
            counts: ExportCounts::default(),
            _lock: lock,
        })
    }

    /// Encrypts all files with this key.
    #[must_use]
    pub fn with_key(mut self, key: ParquetKey) -> Self {
        self.form.key = Some(key);
        self
    }

    /// Records the selected changes, as text. A directory has the files of one selection, because the export of a log
    /// replaces all of its earlier files.
    ///
    /// # Errors
    ///
    /// Fails if the directory has files of another selection, or the text cannot be read or written.
    pub fn record_selection(&self, selection: &str) -> Result<(), ColumnsError> {
        let state = self.root.join(STATE_NAME);
        let path = self.root.join(SELECTION_NAME);
        let known = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            known => known.map_err(|cause| file_error("read", &path, cause))?,
        };
        if known == selection {
            return Ok(());
        }
        let is_list = |path: &PathBuf| path.extension().is_some_and(|end| end == LIST_END);
        if entries(&state).map_err(|cause| file_error("list", &state, cause))?.iter().any(is_list) {
            let known = if known.is_empty() { "all changes".to_owned() } else { known };
            return Err(ColumnsError::OtherSelection { directory: self.root.clone(), known });
        }
        replace_file(&path, selection.as_bytes(), FileAccess::Private)
            .map_err(|cause| file_error("write", &path, cause))
    }

    /// Returns the numbers of what the export has written. They include only logs that have ended.
    pub const fn counts(&self) -> ExportCounts {
        self.counts
    }

    /// Starts the log of this name.
    pub fn begin_log(&mut self, name: &str) {
        self.log = encode(name);
        self.part_numbers.clear();
    }

    /// Writes a batch.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn write(&mut self, changes: &ChangeBatch) -> Result<(), ColumnsError> {
        let directory = self.directory(changes)?;
        let mut part = self.take_part(&directory, changes)?;
        self.batches += 1;
        part.last_use = self.batches;
        part.write(&changes.batch, self.limits.row_group_bytes)?;
        if part.bytes_written() >= self.limits.file_bytes {
            self.complete.push(part.complete()?);
        } else {
            self.open.insert(directory, part);
        }
        self.limit_memory()
    }

    /// Ends the current log: completes its files, and replaces those of an earlier export of the same log.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written. The files of the log are then incomplete until it is exported again.
    pub fn end_log(&mut self) -> Result<(), ColumnsError> {
        let directories: Vec<PathBuf> = self.open.keys().cloned().collect();
        directories.iter().try_for_each(|directory| self.complete_part(directory))?;
        self.directories.values_mut().try_for_each(TableDirectories::save)?;
        let list = list_path(&self.root, &self.log);
        let before = read_list(&list)?;
        let complete = std::mem::take(&mut self.complete);
        let names: BTreeSet<String> =
            complete.iter().map(|part| part.target.to_string_lossy().into_owned()).collect();
        // Until all files are in place, the list has the old and the new ones, so that none is forgotten.
        write_list(&list, before.union(&names))?;
        for part in &complete {
            self.publish(part)?;
        }
        // After a power failure, the list must not lack files whose predecessors are gone.
        let targets: BTreeMap<_, _> =
            complete.iter().map(|part| (part.target.parent(), self.root.join(&part.target))).collect();
        for target in targets.values() {
            logs::sync_parent(target).map_err(|cause| file_error("sync the directory of", target, cause))?;
        }
        for name in before.difference(&names) {
            self.remove_old(name)?;
        }
        write_list(&list, names.iter())?;
        self.counts.logs += 1;
        self.counts.files += complete.len() as u64;
        self.counts.rows += complete.iter().map(|part| part.rows).sum::<u64>();
        self.counts.bytes += complete.iter().map(|part| part.bytes).sum::<u64>();
        Ok(())
    }

    fn publish(&self, part: &CompletePart) -> Result<(), ColumnsError> {
        let target = self.root.join(&part.target);
        if let Some(parent) = target.parent() {
            make_directories(parent)?;
        }
        fs::rename(&part.temporary, &target).map_err(|cause| file_error("rename", &part.temporary, cause))
    }

    /// Removes a file of an earlier export. The list may have been damaged: only a Parquet file below the root is
    /// removed.
    fn remove_old(&self, name: &str) -> Result<(), ColumnsError> {
        let path = Path::new(name);
        let is_below = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_below || path.extension().is_none_or(|extension| extension != "parquet") {
            return Ok(());
        }
        let path = self.root.join(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(file_error("remove", &path, error)),
            _ => Ok(()),
        }
    }

    /// Returns the directory for a batch, below the root.
    fn directory(&mut self, changes: &ChangeBatch) -> Result<PathBuf, ColumnsError> {
        let schema = &changes.schema;
        let name = [schema.database.clone(), schema.table.clone()];
        if self.directories.len() >= DIRECTORIES_MAX && !self.directories.contains_key(&name) {
            self.directories.values_mut().try_for_each(TableDirectories::save)?;
            self.directories.clear();
        }
        let table = match self.directories.entry(name) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(TableDirectories::open(&self.root.join(STATE_NAME), schema)?),
        };
        Ok(table.choose(schema).join(format!("day={}", day_text(changes.day))))
    }

    /// Takes the open file of a directory, or creates the next one. A schema has a file of its own.
    fn take_part(&mut self, directory: &Path, changes: &ChangeBatch) -> Result<ParquetPart, ColumnsError> {
        match self.open.remove(directory) {
            Some(part) if *part.schema() == changes.schema.arrow => return Ok(part),
            Some(part) => self.complete.push(part.complete()?),
            None => {}
        }
        self.make_room()?;
        self.create_part(directory, changes)
    }

    /// Creates the next file in a directory.
    fn create_part(&mut self, directory: &Path, changes: &ChangeBatch) -> Result<ParquetPart, ColumnsError> {
        let number = self.part_numbers.entry(directory.to_owned()).or_default();
        *number += 1;
        let target = directory.join(format!("{}.{number}.parquet", self.log));
        let temporary =
            self.state_directory().join(UNFINISHED_DIRECTORY).join(format!("{}.parquet", self.batches));
        ParquetPart::create(temporary, target, &changes.batch, &self.form)
    }

    /// Completes the file that was not used for longest, if too many are open.
    fn make_room(&mut self) -> Result<(), ColumnsError> {
        if self.open.len() < self.limits.open_files {
            return Ok(());
        }
        let oldest = self.open.iter().min_by_key(|(_, part)| part.last_use);
        match oldest.map(|(directory, _)| directory.clone()) {
            Some(directory) => self.complete_part(&directory),
            None => Ok(()),
        }
    }

    fn complete_part(&mut self, directory: &Path) -> Result<(), ColumnsError> {
        if let Some(part) = self.open.remove(directory) {
            self.complete.push(part.complete()?);
        }
        Ok(())
    }

    /// Ends the largest row groups while all of them together have too much memory.
    fn limit_memory(&mut self) -> Result<(), ColumnsError> {
        while self.open.values().map(ParquetPart::memory).sum::<usize>() > self.limits.memory_bytes {
            let Some(part) = self.open.values_mut().max_by_key(|part| part.memory()) else { break };
            let before = part.memory();
            part.flush()?;
            if part.memory() >= before {
                break;
            }
        }
        Ok(())
    }

    fn state_directory(&self) -> PathBuf {
        self.root.join(STATE_NAME)
    }
}

/// Removes unfinished files.
impl Drop for ChangeExport {
    fn drop(&mut self) {
        // What remains is removed by the next export.
        let _ = fs::remove_dir_all(self.state_directory().join(UNFINISHED_DIRECTORY));
    }
}

/// Returns the files of a log in an export's directory: their names below it, sorted.
///
/// # Errors
///
/// Fails if the list of the files cannot be read.
pub fn exported_files(root: &Path, log: &str) -> Result<Vec<String>, ColumnsError> {
    Ok(read_list(&list_path(root, &encode(log)))?.into_iter().collect())
}

/// Returns the name of the list of a log's files, below the directory of an export.
pub fn exported_list_name(log: &str) -> String {
    format!("{STATE_NAME}/{}.{LIST_END}", encode(log))
}

/// Returns whether a file is the list of a log's files.
pub fn is_list_name(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == LIST_END)
}

/// Returns the lists of columns in an export's directory: their names below it, and their contents.
///
/// # Errors
///
/// Fails if they cannot be read.
pub fn exported_column_lists(root: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut lists = Vec::new();
    for database in entries(&root.join(STATE_NAME))? {
        if !database.is_dir() {
            continue;
        }
        for path in entries(&database)? {
            let is_list = path.extension().is_some_and(|end| end == "columns");
            let name = path.strip_prefix(root).ok().and_then(Path::to_str).map(str::to_owned);
            if let Some(name) = name.filter(|_| is_list) {
                lists.push((name, fs::read(path)?));
            }
        }
    }
    Ok(lists)
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns the path of the list of a log's files. `log` is its encoded name.
fn list_path(root: &Path, log: &str) -> PathBuf {
    root.join(STATE_NAME).join(format!("{log}.{LIST_END}"))
}

/// Reads a list of files; empty if it is missing.
fn read_list(path: &Path) -> Result<BTreeSet<String>, ColumnsError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(cause) => Err(file_error("read", path, cause)),
    }
}

fn write_list<'n>(path: &Path, names: impl Iterator<Item = &'n String>) -> Result<(), ColumnsError> {
    let text: String = names.flat_map(|name| [name.as_str(), "\n"]).collect();
    let written = replace_file(path, text.as_bytes(), FileAccess::Private);
    written.map_err(|cause| file_error("write", path, cause))
}

/// Returns a day as `2026-11-22`.
fn day_text(day: i64) -> String {
    let mut text = Vec::new();
    Date::from_epoch_day(u32::try_from(day).map_or(0, i64::from)).write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::day_text;

    #[test]
    fn days_are_dates() {
        let check = |day, expected| assert_eq!(day_text(day), expected);
        check(0, "1970-01-01");
        check(20_779, "2026-11-22");
        check(2_932_896, "9999-12-31");
        check(i64::MAX, "1970-01-01");
        check(1 << 30, "9999-12-31");
    }
}
