//! Lists of `bintide dump`: their formats, and the conversion of dump settings to list settings.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use list::{
    EventRange, ListDamagePolicy, ListError, ListFormat, ListSettings, ListSource, RowCondition,
    ServerIdFilter, list,
};
use logs::archived_contents;
use mysqlbinlog::list_provider::{
    CommonSettings, ListFailure, ListLayout, ListLines, ListOutcome, ListProvider, ListSwitches, ListWriter,
};

/// Lists of one run: the conditions given so far.
#[derive(Default)]
pub(crate) struct DumpLists {
    conditions: Vec<RowCondition>,
}

impl ListProvider for DumpLists {
    fn add_condition(&mut self, condition: &str) -> Result<String, String> {
        let condition = RowCondition::new(condition).map_err(|error| error.to_string())?;
        let shown = condition.to_string();
        self.conditions.push(condition);
        Ok(shown)
    }

    fn writer(&mut self, switches: ListSwitches) -> Result<Option<Box<dyn ListWriter>>, String> {
        let ListSwitches { json, events, transactions } = switches;
        let format = match (json, events, transactions) {
            (false, false, false) => return Ok(None),
            (true, false, false) => ListFormat::Json,
            (false, true, false) => ListFormat::Events,
            (false, false, true) => ListFormat::Transactions,
            (true, false, true) => ListFormat::TransactionsJson,
            (_, true, _) => {
                return Err("--events cannot be combined with --json or --transactions".to_owned());
            }
        };
        Ok(Some(Box::new(RequestedList { format, conditions: mem::take(&mut self.conditions) })))
    }
}

/// The list that the switches request.
struct RequestedList {
    format: ListFormat,
    conditions: Vec<RowCondition>,
}

impl ListWriter for RequestedList {
    fn layout(&self) -> ListLayout {
        // The columns that identify a row: event type; GTID and outcome.
        let events = ListLines::Table { key_columns: &[2] };
        let transactions = ListLines::Table { key_columns: &[0, 5] };
        let (option, lines) = match self.format {
            ListFormat::Events => ("--events", events),
            ListFormat::Transactions => ("--transactions", transactions),
            ListFormat::TransactionsJson => ("--transactions", ListLines::Json),
            ListFormat::Json => ("--json", ListLines::Json),
        };
        ListLayout { option, lines }
    }

    fn write(
        &self,
        settings: &CommonSettings,
        logs: &[Vec<u8>],
        output: &mut dyn Write,
    ) -> Result<ListOutcome, ListFailure> {
        let settings = self.list_settings(settings, logs);
        let mut output = CountingWriter { output, size: 0 };
        let warnings = list(&settings, &mut output).map_err(|error| list_failure(&error))?;
        if let Some(error) = settings.selection.unusable_condition_error() {
            return Err(ListFailure::Failed(error));
        }
        Ok(ListOutcome {
            is_empty: output.size <= self.format.header_line().len(),
            torn_ends: warnings.iter().map(ToString::to_string).collect(),
            warnings: settings.selection.untested_rows_warning().into_iter().collect(),
        })
    }
}

impl RequestedList {
    fn list_settings(&self, settings: &CommonSettings, logs: &[Vec<u8>]) -> ListSettings {
        let mut list = ListSettings::new(self.format, logs.iter().map(|name| list_source(name)).collect());
        list.range = EventRange {
            start_position: settings.start_position,
            stop_position: settings.stop_position,
            start_time: u64::try_from(settings.start_time).unwrap_or(0),
            stop_time: u64::try_from(settings.stop_time).unwrap_or(0),
            skip_count: settings.offset,
        };
        list.selection.server_id = u32::try_from(settings.server_id)
            .ok()
            .filter(|number| *number != 0)
            .map(|number| ServerIdFilter { number, mask: settings.server_id_mask });
        list.selection.gtids.included.clone_from(&settings.include_gtids);
        list.selection.gtids.excluded.clone_from(&settings.exclude_gtids);
        list.selection.tables.database.clone_from(&settings.database);
        list.selection.tables.patterns.clone_from(&settings.tables);
        list.selection.conditions.clone_from(&self.conditions);
        list.jobs = settings.jobs.unwrap_or(list.jobs);
        list.damage = if settings.force_read { ListDamagePolicy::Show } else { ListDamagePolicy::Stop };
        list.keyring = settings.keyring.clone().map(Arc::new);
        leave_out_archived(&mut list);
        list
    }
}

/// Leaves out archived logs that have nothing for the list, by their manifests. Keeps one log, so that the list has a
/// header.
fn leave_out_archived(settings: &mut ListSettings) {
    let EventRange { start_position, stop_position, skip_count, .. } = settings.range;
    let counts = start_position > EventRange::default().start_position
        || stop_position < EventRange::default().stop_position
        || skip_count > 0;
    // Conditions on rows report columns that no log has.
    if counts || !settings.selection.conditions.is_empty() {
        return;
    }
    let mut has_started = false;
    let mut needed = Vec::new();
    for source in &settings.sources {
        needed.push(may_be_shown(source, settings, &mut has_started));
    }
    let is_empty = needed.iter().all(|is_shown| !is_shown);
    if let Some(last) = needed.last_mut() {
        *last |= is_empty;
    }
    let mut needed = needed.into_iter();
    settings.sources.retain(|_| needed.next().unwrap_or(true));
}

/// Returns whether a list may show a part of a log. Sets `has_started` once an event of the start time or later may
/// have been read: after that event, older events are also shown.
fn may_be_shown(source: &ListSource, settings: &ListSettings, has_started: &mut bool) -> bool {
    let EventRange { start_time, stop_time, .. } = settings.range;
    let contents = match source {
        ListSource::File(path) => archived_contents(path),
        _ => None,
    };
    let contents = contents.filter(|contents| contents.is_whole && contents.has_whole_transactions);
    let Some((contents, (first, last))) =
        contents.and_then(|contents| contents.times.map(|times| (contents, times)))
    else {
        *has_started = true;
        return true;
    };
    let (first, last) = (u64::from(first), u64::from(last));
    if !*has_started && last < start_time {
        return false;
    }
    // The list may start or stop in this log.
    let has_bound = !*has_started && first < start_time || last >= stop_time;
    *has_started = true;
    let gtids = &settings.selection.gtids;
    let is_by_transaction =
        matches!(settings.format, ListFormat::Transactions | ListFormat::TransactionsJson);
    let shows_only_transactions = is_by_transaction || gtids.included.is_some();
    has_bound || !shows_only_transactions || contents.may_have_gtids(gtids)
}

fn list_source(name: &[u8]) -> ListSource {
    match name {
        b"-" => ListSource::Stdin,
        name => ListSource::File(OsStr::from_bytes(name).into()),
    }
}

fn list_failure(error: &ListError) -> ListFailure {
    let advice = match error {
        ListError::Event { .. } | ListError::Payload { .. } => {
            ". To print it as bytes and continue, use --force-read"
        }
        ListError::NoColumnNames { .. } => ". Use the column's number in --where: @N=value",
        _ => "",
    };
    let message = format!("{error}{advice}");
    match error {
        ListError::Log(cause) if !cause.is_damage() => ListFailure::NotStarted(message),
        _ => ListFailure::Failed(message),
    }
}

/// Counts the bytes written.
struct CountingWriter<'o> {
    output: &'o mut dyn Write,
    size: usize,
}

impl Write for CountingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = self.output.write(bytes)?;
        self.size += size;
        Ok(size)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests;
