//! Change tables of an archive: `export` writes them to a temporary directory, from which they are uploaded.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use archive::{Archive, ArchiveError, ColumnList, CreateOutcome, LocalTables};
use clap::Args;
use columns::{
    ChangeDecoder, ChangeExport, ColumnsError, DecodeSettings, ExportLimits, ExportLog, export_logs,
    exported_column_lists, exported_files,
};
use logs::LogReader;
use servers::ServerAddress;
use stream::{StatementPolicy, StreamError, UnnamedColumnPolicy};
use tempfile::TempDir;
use tracing::warn;

use crate::column_name_source::{catalogue_of, changed_text};

/// Options of change tables.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ChangeTableArgs {
    /// Also write the row changes of each log into the archive, as change tables (Parquet) that DuckDB, pyarrow and
    /// Spark read there: tables/database=DB/table=TABLE/day=DAY/. Columns whose names neither the log nor the server
    /// has are named @1, @2 and so on.
    #[arg(long)]
    pub(crate) change_tables: bool,
    /// With --change-tables, skip changes that are logged as statements. By default, a log with such changes gets no
    /// change tables, because they would lack rows.
    #[arg(long, requires = "change_tables")]
    skip_statements: bool,
}

/// Writer of change tables for an archive.
pub(super) struct ChangeTableWriter {
    archive: Archive,
    keyring: Option<PathBuf>,
    settings: DecodeSettings,
    /// Servers with the column names that logs lack. The first one that answers is asked.
    servers: Vec<ServerAddress>,
    /// Directory of the files until they are uploaded. Also has the lists of columns, which stay.
    staging: TempDir,
    /// Lists of columns in the archive, by name; `None` until they are read.
    column_lists: Option<HashMap<String, ColumnList>>,
}

/// Memory of the row groups that are being written. It is less than that of `export`, because the segment was written by
/// the same process.
const MEMORY_BYTES: usize = 64 << 20;

/// Number of attempts to write the change tables of a log while other processes add columns to the lists.
const ATTEMPTS_MAX: usize = 16;

impl ChangeTableWriter {
    /// Creates the writer. Encrypted logs need the keyring. `servers` have the column names that logs lack.
    pub(super) fn new(
        archive: Archive,
        keyring: Option<PathBuf>,
        options: ChangeTableArgs,
        servers: Vec<ServerAddress>,
    ) -> Result<Self, io::Error> {
        let statements = match options.skip_statements {
            true => StatementPolicy::Skip,
            false => StatementPolicy::Refuse,
        };
        let unnamed_columns = UnnamedColumnPolicy::Number;
        let settings = DecodeSettings { unnamed_columns, statements, ..DecodeSettings::default() };
        let staging = tempfile::Builder::new().prefix("bintide-tables-").tempdir()?;
        Ok(Self { archive, keyring, settings, servers, staging, column_lists: None })
    }

    /// Writes the change tables of a log. A log whose changes are not known has none, for a reason that is returned.
    pub(super) fn write(
        &mut self,
        log: &Path,
        is_stopping: impl Fn() -> bool,
    ) -> Result<LocalTables, ArchiveError> {
        let name = log.file_name().unwrap_or(log.as_os_str()).to_string_lossy().into_owned();
        let mut watch = |_| if is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        for _ in 0..ATTEMPTS_MAX {
            self.clear().map_err(|cause| self.failed(cause))?;
            self.read_column_lists()?;
            match self.export(log, &name, &mut watch) {
                Ok(()) => {}
                Err(ColumnsError::Stopped) => return Err(ArchiveError::Interrupted),
                // A later attempt may succeed.
                Err(
                    error @ (ColumnsError::File { .. }
                    | ColumnsError::Parquet { .. }
                    | ColumnsError::Names(StreamError::Catalogue { .. })),
                ) => return Err(ArchiveError::Tables { cause: Box::new(error) }),
                Err(error) => {
                    self.clear().map_err(|cause| self.failed(cause))?;
                    return Ok(LocalTables { missing: Some(error.to_string()), ..LocalTables::default() });
                }
            }
            if self.save_column_lists()? == CreateOutcome::Created {
                let directory = self.staging.path().to_owned();
                let names = exported_files(&directory, &name);
                let names = names.map_err(|error| ArchiveError::Tables { cause: Box::new(error) })?;
                return Ok(LocalTables { directory, names, missing: None });
            }
            // Another process has changed a list, and may have chosen the same directory for other columns.
            self.column_lists = None;
        }
        let cause = "other processes change the lists of columns all the time";
        Err(ArchiveError::Tables { cause: cause.into() })
    }

    /// Deletes the files of the last log.
    pub(super) fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.staging.path())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("database=") {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn export(
        &self,
        log: &Path,
        name: &str,
        watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), ColumnsError> {
        let reader = LogReader::open(log)?.with_keyring_file(self.keyring.as_ref())?;
        let limits = ExportLimits { memory_bytes: MEMORY_BYTES, ..ExportLimits::default() };
        let export = ChangeExport::open(self.staging.path(), limits)?;
        let log = ExportLog { name: name.to_owned(), reader };
        let decoder = ChangeDecoder::new(self.settings.clone());
        let mut decoder = match self.servers.is_empty() {
            true => decoder,
            false => decoder.with_column_catalogue(catalogue_of(self.servers.clone())),
        };
        let exported = export_logs(std::iter::once(Ok(log)), &mut decoder, export, watch);
        for mismatch in decoder.take_mismatches() {
            warn!("change tables: {}", changed_text(&mismatch));
        }
        exported.map(drop)
    }

    /// Reads the lists of columns from the archive, once.
    fn read_column_lists(&mut self) -> Result<(), ArchiveError> {
        if self.column_lists.is_some() {
            return Ok(());
        }
        let lists = self.archive.column_lists()?;
        let root = self.staging.path();
        let stale = exported_column_lists(root).map_err(|cause| self.failed(cause))?;
        let removed = stale.iter().try_for_each(|(name, _)| fs::remove_file(root.join(name)));
        removed.map_err(|cause| self.failed(cause))?;
        for list in &lists {
            let path = root.join(&list.name);
            let written =
                path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, &list.text));
            written.map_err(|cause| self.failed(cause))?;
        }
        self.column_lists = Some(lists.into_iter().map(|list| (list.name.clone(), list)).collect());
        Ok(())
    }

    /// Saves new lists of columns in the archive, before the files that depend on them.
    fn save_column_lists(&mut self) -> Result<CreateOutcome, ArchiveError> {
        let found = exported_column_lists(self.staging.path()).map_err(|cause| self.failed(cause))?;
        let known = self.column_lists.get_or_insert_default();
        for (name, text) in found {
            let before = known.get(&name);
            if before.is_some_and(|list| list.text == text) {
                continue;
            }
            let revision = before.map_or(1, |list| list.revision + 1);
            let list = ColumnList { name: name.clone(), revision, text };
            if self.archive.save_column_list(&list)? == CreateOutcome::Exists {
                return Ok(CreateOutcome::Exists);
            }
            known.insert(name, list);
        }
        Ok(CreateOutcome::Created)
    }

    fn failed(&self, cause: io::Error) -> ArchiveError {
        ArchiveError::Write { name: self.staging.path().display().to_string(), cause }
    }
}
