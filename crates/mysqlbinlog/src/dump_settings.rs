//! Settings of a dump, checked.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

use binlog::encryption::Keyring;
use binlog::gtid::{Gtid, GtidSet};
use jiff::tz::TimeZone;
use logs::read_keyring;

use crate::color_writer::ColorMode;
use crate::common_settings::CommonSettings;
use crate::dump_diagnostics::DumpDiagnostics;
use crate::dump_dialect::DumpDialect;
use crate::options::option_table::OptionId;
use crate::options::{DumpExit, OptionValues, gtids};
use crate::parsed_options::{Base64Output, ParsedOptions};
use crate::remote_settings::RemoteSettings;

/// Settings of a dump.
pub(crate) struct DumpSettings {
    /// Settings that apply to mysqlbinlog's text and to lists.
    pub(crate) common: CommonSettings,
    pub(crate) base64: Base64Output,
    pub(crate) verbose: u32,
    pub(crate) short_form: bool,
    pub(crate) hexdump: bool,
    pub(crate) skip_gtids: bool,
    pub(crate) print_table_metadata: bool,
    pub(crate) require_row_format: bool,
    pub(crate) force_if_open: bool,
    pub(crate) verify_checksum: bool,
    pub(crate) disable_log_bin: bool,
    pub(crate) idempotent: bool,
    pub(crate) set_charset: Option<Vec<u8>>,
    /// Names of databases, and the names to print instead.
    pub(crate) rewrites: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Directory of local files for LOAD DATA.
    pub(crate) local_load: Vec<u8>,
    pub(crate) zone: TimeZone,
    /// Maximum size of all temporary files together, in bytes.
    pub(crate) temporary_max: Option<NonZeroU64>,
    /// Dialect of the command line. Under the name mysqlbinlog, useless or harmful behaviour of mysqlbinlog 9.7 is
    /// kept.
    pub(crate) dialect: DumpDialect,
    /// Conditions on rows, as messages show them.
    pub(crate) conditions: Vec<String>,
    /// Mode of colour.
    pub(crate) color: ColorMode,
    /// Server to read from instead of files.
    pub(crate) remote: Option<RemoteSettings>,
    /// bintide's own filters, and their matches.
    pub(crate) filter_matches: FilterMatches,
    /// Prints only errors, no warnings.
    pub(crate) quiet: bool,
}

/// bintide's own filters, and whether anything matched. If nothing did, a warning follows.
#[derive(Debug, Default)]
pub(crate) struct FilterMatches {
    /// The filters as given.
    pub(crate) filters: Vec<Vec<u8>>,
    by_gtid: bool,
    has_transaction: AtomicBool,
    has_table: AtomicBool,
}

impl DumpSettings {
    /// Returns the number of formatting threads.
    pub(crate) fn jobs(&self) -> NonZeroUsize {
        self.common.jobs.unwrap_or_else(|| available_parallelism().unwrap_or(NonZeroUsize::MIN))
    }

    /// Converts option values, and checks their combination.
    pub(crate) fn new(
        values: &OptionValues,
        parsed: ParsedOptions<'_>,
        diagnostics: &mut DumpDiagnostics<'_>,
    ) -> Result<Self, DumpExit> {
        let remote = RemoteSettings::new(values, &parsed, diagnostics)?;
        let include_gtids = gtid_set(values, OptionId::IncludeGtids, b"--include-gtids", diagnostics)?;
        let gtids =
            gtid_set(values, OptionId::Gtid, b"--gtid", diagnostics).map_err(|_| DumpExit::NOT_STARTED)?;
        let filter_matches = FilterMatches {
            filters: given_filters(values, &parsed),
            by_gtid: gtids.is_some(),
            ..FilterMatches::default()
        };
        let include_gtids = match (include_gtids, gtids) {
            (Some(one), Some(other)) => Some(one.intersection(&other)),
            (one, other) => one.or(other),
        };
        let exclude_gtids = gtid_set(values, OptionId::ExcludeGtids, b"--exclude-gtids", diagnostics)?;
        warn_of_connection(values, diagnostics);
        let keyring = keyring(values, diagnostics)?;
        let text = |key| values.text(key).map(<[u8]>::to_vec);
        Ok(Self {
            common: CommonSettings {
                include_gtids,
                exclude_gtids,
                keyring,
                ..common_settings(values, &parsed)
            },
            base64: parsed.base64,
            verbose: if parsed.short_form { 0 } else { parsed.verbose },
            short_form: parsed.short_form,
            hexdump: values.switch(OptionId::Hexdump),
            skip_gtids: values.switch(OptionId::SkipGtids),
            print_table_metadata: values.switch(OptionId::PrintTableMetadata),
            require_row_format: values.switch(OptionId::RequireRowFormat),
            force_if_open: values.switch(OptionId::ForceIfOpen),
            verify_checksum: values.switch(OptionId::VerifyBinlogChecksum),
            disable_log_bin: values.switch(OptionId::DisableLogBin),
            idempotent: values.switch(OptionId::Idempotent),
            set_charset: text(OptionId::SetCharset),
            rewrites: parsed.rewrites,
            local_load: text(OptionId::LocalLoad).unwrap_or_else(temporary_directory),
            zone: parsed.zone,
            temporary_max: NonZeroU64::new(values.unsigned(OptionId::TemporaryMax)),
            dialect: DumpDialect::Bintide,
            conditions: parsed.conditions,
            color: parsed.color,
            remote,
            filter_matches,
            quiet: values.switch(OptionId::Quiet),
        })
    }

    /// Returns whether a transaction is skipped.
    pub(crate) fn skips_transaction(&self, gtid: Option<Gtid>) -> bool {
        let is_in = |set: &GtidSet| gtid.is_some_and(|gtid| set.contains(gtid));
        let is_skipped = self.common.include_gtids.as_ref().is_some_and(|set| !is_in(set))
            || self.common.exclude_gtids.as_ref().is_some_and(is_in);
        if self.filter_matches.by_gtid && !is_skipped {
            self.filter_matches.has_transaction.store(true, Ordering::Relaxed);
        }
        is_skipped
    }

    /// Warns if bintide's own filters left nothing of the text.
    pub(crate) fn warn_of_empty_text(&self, diagnostics: &mut DumpDiagnostics<'_>) {
        if self.found_nothing() {
            self.warn_of_no_match(diagnostics);
        }
    }

    /// Warns that nothing matched bintide's own filters, if there are any.
    pub(crate) fn warn_of_no_match(&self, diagnostics: &mut DumpDiagnostics<'_>) {
        let filters = self.filter_matches.filters.join(b" ".as_slice());
        if !self.quiet && !filters.is_empty() {
            diagnostics.warning(&[b"nothing in these logs matches ", &filters]);
        }
    }

    /// Returns whether nothing matched bintide's own filters.
    fn found_nothing(&self) -> bool {
        let is_missed = |is_sought: bool, has: &AtomicBool| is_sought && !has.load(Ordering::Relaxed);
        is_missed(self.filter_matches.by_gtid, &self.filter_matches.has_transaction)
            || is_missed(!self.common.tables.is_empty(), &self.filter_matches.has_table)
    }

    /// Returns whether a statement with this default database is skipped.
    pub(crate) fn skips_statement(&self, database: &[u8]) -> bool {
        self.skips_database(database) || !self.common.tables.is_empty()
    }

    /// Returns whether the rows of this table are skipped.
    pub(crate) fn skips_table(&self, database: &[u8], table: &[u8]) -> bool {
        let fits = self.common.tables.is_empty()
            || self.common.tables.iter().any(|pattern| pattern.fits(database, table));
        let is_skipped = self.skips_database(database) || !fits;
        if !self.common.tables.is_empty() && !is_skipped {
            self.filter_matches.has_table.store(true, Ordering::Relaxed);
        }
        is_skipped
    }

    fn skips_database(&self, name: &[u8]) -> bool {
        self.common.database.as_ref().is_some_and(|selected| selected != name)
    }
}

/// Returns the settings of the options that need no check.
fn common_settings(values: &OptionValues, parsed: &ParsedOptions<'_>) -> CommonSettings {
    let bits = values.unsigned(OptionId::ServerIdBits);
    CommonSettings {
        start_position: values.unsigned(OptionId::StartPosition),
        stop_position: values.unsigned(OptionId::StopPosition),
        start_time: parsed.start_time,
        stop_time: parsed.stop_time,
        offset: values.unsigned(OptionId::Offset),
        server_id: values.unsigned(OptionId::ServerId),
        server_id_mask: if bits == 32 { u32::MAX } else { (1 << bits) - 1 },
        include_gtids: None,
        exclude_gtids: None,
        database: values.text(OptionId::Database).map(<[u8]>::to_vec),
        tables: parsed.tables.clone(),
        jobs: usize::try_from(values.unsigned(OptionId::Jobs)).ok().and_then(NonZeroUsize::new),
        force_read: values.switch(OptionId::ForceRead),
        keyring: None,
    }
}

/// Returns bintide's own filters as given.
fn given_filters(values: &OptionValues, parsed: &ParsedOptions<'_>) -> Vec<Vec<u8>> {
    let tables = parsed.tables.iter().map(|table| format!("--table={table}").into_bytes());
    let conditions = parsed.conditions.iter().map(|condition| format!("--where={condition}").into_bytes());
    let gtids = values.text(OptionId::Gtid).map(|gtids| [b"--gtid=", gtids].concat());
    tables.chain(conditions).chain(gtids).collect()
}

fn keyring(
    values: &OptionValues,
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<Option<Keyring>, DumpExit> {
    let Some(path) = values.text(OptionId::Keyring) else { return Ok(None) };
    match read_keyring(OsStr::from_bytes(path)) {
        Ok(keyring) => Ok(Some(keyring)),
        Err(error) => {
            diagnostics.error(&[error.to_string().as_bytes()]);
            Err(DumpExit::NOT_STARTED)
        }
    }
}

fn gtid_set(
    values: &OptionValues,
    key: OptionId,
    name: &[u8],
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<Option<GtidSet>, DumpExit> {
    let Some(text) = values.text(key) else { return Ok(None) };
    match gtids::parse(text) {
        Ok(set) => Ok(Some(set)),
        Err(why) => {
            diagnostics.error(&[b"Could not configure ", name, b" '", text, b"': ", why.as_bytes()]);
            Err(DumpExit::FAILURE)
        }
    }
}

/// Reports invalid server ids, even without a connection.
fn warn_of_connection(values: &OptionValues, diagnostics: &mut DumpDiagnostics<'_>) {
    let own = values.signed(OptionId::ConnectionServerId);
    let old = values.signed(OptionId::StopNeverSlaveServerId);
    if own == 0 && values.switch(OptionId::StopNever) {
        diagnostics.error(&[b"Cannot set --server-id=0 when --stop-never is specified."]);
    }
    if own != -1 && old != -1 {
        let text =
            format!("Cannot set --connection-server-id= {own} and--stop-never-slave-server-id= {old}. ");
        diagnostics.error(&[text.as_bytes()]);
    }
}

fn temporary_directory() -> Vec<u8> {
    let named = std::env::var_os("TMPDIR").map(std::os::unix::ffi::OsStringExt::into_vec);
    match named.filter(|name| !name.is_empty()) {
        // The first directory of a list.
        Some(list) => list.split(|byte| *byte == b':').next().unwrap_or_default().to_vec(),
        None => b"/tmp".to_vec(),
    }
}
