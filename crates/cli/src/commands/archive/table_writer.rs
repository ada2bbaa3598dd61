//! Change tables of an archive: `export` writes them to a temporary directory, from which they are uploaded.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use archive::{Archive, ArchiveError, CreateOutcome, LocalTables, TableKey};
use clap::Args;
use columns::{
    ChangeDecoder, ChangeExport, ColumnsError, DecodeSettings, ExportLimits, ExportLog, ParquetKey,
    export_logs,
};
use logs::{LogError, LogReader, base_name};
use servers::ServerAddress;
use stream::{StatementPolicy, StreamError, UnnamedColumnPolicy};
use tracing::warn;

use crate::column_name_source::{catalogue_of, changed_text};
use crate::staged_tables::StagedTables;
use crate::units::counted;

/// Options of change tables.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ChangeTableArgs {
    /// Also write the row changes of each log into the archive, as change tables (Parquet files in
    /// tables/database=DB/table=TABLE/day=DAY/), which DuckDB, pyarrow and Spark can read there. If neither the log nor
    /// the server has the column names, columns are named @1, @2 and so on.
    #[arg(long)]
    pub(crate) change_tables: bool,
    /// With --change-tables, skip changes that are logged as statements. By default, a log with such changes gets no
    /// change tables, because they would lack rows.
    #[arg(long, requires = "change_tables")]
    skip_statements: bool,
}

/// Writer of change tables for an archive.
pub(super) struct ChangeTableWriter {
    keyring: Option<PathBuf>,
    settings: DecodeSettings,
    /// Servers with the column names that logs lack. The first one that answers is used.
    servers: Vec<ServerAddress>,
    staged: StagedTables,
}

/// Memory of the row groups that are being written. It is less than that of `export`, because the segment was written
/// by the same process.
const MEMORY_BYTES: usize = 64 << 20;

/// Maximum number of files of a log. Its manifest lists them, and must not be too large to be read.
const FILES_MAX: usize = 50_000;

/// Number of attempts to write the change tables of a log while other processes add columns to the lists.
const ATTEMPTS_MAX: usize = 16;

impl ChangeTableWriter {
    /// Creates the writer. Encrypted logs need the keyring. `servers` have the column names that logs lack.
    pub(super) fn new(
        archive: &Archive,
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
        let staged = StagedTables::new(archive.change_tables())?;
        Ok(Self { keyring, settings, servers, staged })
    }

    /// Writes the change tables of a log. If the changes of the log are not known, writes none and returns the
    /// reason. The files are encrypted if `archive` encrypts new objects.
    pub(super) fn write(
        &mut self,
        log: &Path,
        archive: &Archive,
        is_stopping: impl Fn() -> bool,
    ) -> Result<LocalTables, ArchiveError> {
        let name = base_name(log);
        let mut watch = |_| if is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let key = archive.table_key();
        self.staged.store = archive.change_tables();
        for _ in 0..ATTEMPTS_MAX {
            self.staged.begin_log()?;
            match self.export(log, &name, key.as_ref(), &mut watch) {
                Ok(()) => {}
                Err(ColumnsError::Stopped) => return Err(ArchiveError::Interrupted),
                // A later attempt may succeed.
                Err(
                    error @ (ColumnsError::File { .. }
                    | ColumnsError::Parquet { .. }
                    | ColumnsError::Log(LogError::Io { .. })
                    | ColumnsError::Names(StreamError::Catalogue { .. })),
                ) => return Err(ArchiveError::Tables { cause: Box::new(error) }),
                Err(ColumnsError::ColumnList { path }) => {
                    // The local list is a copy of that in the archive.
                    let name = path.strip_prefix(self.staged.path()).unwrap_or(&path);
                    let path = Path::new(self.staged.store.location()).join("tables").join(name);
                    return Err(ArchiveError::Tables { cause: Box::new(ColumnsError::ColumnList { path }) });
                }
                Err(error) => {
                    self.clear()?;
                    return Ok(LocalTables { missing: Some(error.to_string()), ..LocalTables::default() });
                }
            }
            if self.staged.save_column_lists()? == CreateOutcome::Created {
                let (directory, names) = (self.staged.path().to_owned(), self.staged.files_of(&name)?);
                if names.len() > FILES_MAX {
                    self.clear()?;
                    let (files, max) =
                        (counted(names.len() as u64, "file"), counted(FILES_MAX as u64, "file"));
                    let missing = format!("they would be {files}, and the maximum is {max}");
                    return Ok(LocalTables { missing: Some(missing), ..LocalTables::default() });
                }
                let key = key.map(|key| key.key_id);
                return Ok(LocalTables { directory, names, key, missing: None });
            }
        }
        let cause = "other processes keep changing the lists of columns";
        Err(ArchiveError::Tables { cause: cause.into() })
    }

    /// Deletes the files of the last log.
    pub(super) fn clear(&self) -> Result<(), ArchiveError> {
        self.staged.clear()
    }

    fn export(
        &self,
        log: &Path,
        name: &str,
        key: Option<&TableKey>,
        watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), ColumnsError> {
        let reader = LogReader::open(log)?.with_keyring_file(self.keyring.as_ref())?;
        let limits = ExportLimits { memory_bytes: MEMORY_BYTES, ..ExportLimits::default() };
        let mut export = ChangeExport::open(self.staged.path(), limits)?;
        if let Some(TableKey { key_id, bytes }) = key {
            export = export.with_key(ParquetKey { name: key_id.clone(), bytes: *bytes });
        }
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
}
