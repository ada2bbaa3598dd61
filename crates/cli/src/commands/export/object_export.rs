//! `bintide export --to s3://…`: each log is exported to a temporary directory, from which its files are uploaded.

use std::iter;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use archive::{ArchiveError, ArchiveStorage, ChangeTableStore, CreateOutcome, MissingDirectory};
use columns::{
    ChangeDecoder, ChangeExport, ColumnsError, ExportCounts, ExportLimits, ExportLog, SELECTION_NAME,
    STATE_NAME, export_logs, exported_list_name, is_list_name,
};

use super::finished;
use crate::exit::CommandFailure;
use crate::interrupt;
use crate::log_args::add_advice;
use crate::staged_tables::StagedTables;

/// Export to an object store.
pub(super) struct ObjectExport {
    staged: StagedTables,
    limits: ExportLimits,
}

impl ObjectExport {
    /// Opens the location of an export, and records the selected changes. A location has the files of one selection.
    pub(super) fn open(
        location: &str,
        limits: ExportLimits,
        selection: &str,
    ) -> Result<Self, CommandFailure> {
        let storage = ArchiveStorage::open(location, MissingDirectory::Refuse);
        let store = ChangeTableStore::new(storage.map_err(not_started)?);
        record_selection(&store, selection)?;
        let staged = StagedTables::new(store)
            .context("could not create a temporary directory for the files: set TMPDIR to another directory");
        Ok(Self { staged: staged.map_err(CommandFailure::NotStarted)?, limits })
    }

    /// Exports logs. Calls `watch` with the number of bytes that were read of all logs. Returns `None` if the run was
    /// stopped.
    pub(super) fn run(
        mut self,
        logs: impl Iterator<Item = Result<ExportLog, logs::LogError>>,
        decoder: &mut ChangeDecoder,
        watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<ExportCounts>, CommandFailure> {
        let (mut sum, mut bytes_before) = (ExportCounts::default(), 0);
        for log in logs {
            let log = log.map_err(|error| CommandFailure::Failed(add_advice(error)))?;
            let mut bytes_read = 0;
            let mut watch_log = |bytes| {
                bytes_read = bytes;
                watch(bytes_before + bytes)
            };
            let Some(counts) = self.export(log, decoder, &mut watch_log)? else { return Ok(None) };
            bytes_before += bytes_read;
            sum.logs += counts.logs;
            sum.files += counts.files;
            sum.rows += counts.rows;
            sum.bytes += counts.bytes;
        }
        Ok(Some(sum))
    }

    fn export(
        &mut self,
        log: ExportLog,
        decoder: &mut ChangeDecoder,
        watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<ExportCounts>, CommandFailure> {
        let name = log.name.clone();
        self.staged.begin_log().map_err(failed)?;
        let export = ChangeExport::open(self.staged.path(), self.limits);
        let export = export.map_err(|error| CommandFailure::Failed(error.into()))?;
        let exported = export_logs(iter::once(Ok(log)), decoder, export, watch);
        let Some(counts) = finished(exported)?.filter(|_| !interrupt::is_stop_requested()) else {
            return Ok(None);
        };
        if self.staged.save_column_lists().map_err(failed)? == CreateOutcome::Exists {
            let location = self.staged.store.location();
            return Err(CommandFailure::Failed(anyhow!(
                "another export to {location} is running: wait for its end, then run this command again"
            )));
        }
        let files = self.staged.files_of(&name).map_err(failed)?;
        let StagedTables { store, .. } = &self.staged;
        store.replace_files(&exported_list_name(&name), self.staged.path(), &files).map_err(failed)?;
        self.staged.clear().map_err(failed)?;
        Ok(Some(counts))
    }
}

/// Refuses a location that has the files of another selection.
fn record_selection(store: &ChangeTableStore, selection: &str) -> Result<(), CommandFailure> {
    let known = store.text(SELECTION_NAME).map_err(not_started)?;
    if known == selection {
        return Ok(());
    }
    let names = store.names(STATE_NAME).map_err(not_started)?;
    if names.iter().any(|name| is_list_name(name)) {
        let known = if known.is_empty() { "all changes".to_owned() } else { known };
        let error = ColumnsError::OtherSelection { directory: PathBuf::from(store.location()), known };
        return Err(CommandFailure::NotStarted(anyhow!(error).context("--to")));
    }
    store.replace_text(SELECTION_NAME, selection.to_owned()).map_err(not_started)
}

fn not_started(error: ArchiveError) -> CommandFailure {
    CommandFailure::NotStarted(anyhow!(error).context("--to"))
}

fn failed(error: ArchiveError) -> CommandFailure {
    CommandFailure::Failed(anyhow!(error))
}
