//! Selection of transactions: by start, stop and excluded GTIDs.

use binlog::gtid::GtidSet;
use clap::{ArgGroup, Args};
use replay::{SelectionBound, SelectionStart, SelectionStop, TransactionSelection};

use crate::exit::CommandFailure;
use crate::value_parsers::{check_period, parse_any_gtids, parse_gtids, parse_number, parse_time};

/// Options for the start, of which one may be given. Settings follow this rule only for groups that name their options:
/// clap completes groups that options name when it builds the command, after the settings.
const STARTS: [&str; 4] = ["start_position", "start_datetime", "start_gtid", "start_after_gtid"];

/// Options for the stop, of which one may be given.
const STOPS: [&str; 5] =
    ["stop_position", "stop_datetime", "stop_datetime_inclusive", "stop_gtid", "stop_after_gtid"];

/// Options that select transactions.
#[derive(Args, Debug)]
#[command(next_help_heading = "Transactions")]
#[command(group(ArgGroup::new("start").args(STARTS)), group(ArgGroup::new("stop").args(STOPS)))]
pub(crate) struct SelectionArgs {
    /// Start at the first transaction at or after this position of the source's log.
    #[arg(long, value_name = "LOG:POSITION", value_parser = parse_position)]
    start_position: Option<SelectionBound>,
    /// Start at the first transaction that was committed at or after this time: a local time such as
    /// 2026-11-22 01:00:00, or one with Z or a UTC offset; fractions of a second are allowed.
    #[arg(long, value_name = "TIME", value_parser = parse_bound)]
    start_datetime: Option<SelectionBound>,
    /// Start at the first transaction in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = parse_gtids)]
    start_gtid: Option<GtidSet>,
    /// Start after the first transaction in GTIDS. The later transactions in GTIDS are included, so do not give the
    /// GTID set of a backup.
    #[arg(long, value_name = "GTIDS", value_parser = parse_gtids)]
    start_after_gtid: Option<GtidSet>,
    /// Stop before the first transaction at or after this position of the source's log.
    #[arg(long, value_name = "LOG:POSITION", value_parser = parse_position)]
    stop_position: Option<SelectionBound>,
    /// Stop before the first transaction in the logs that was committed at or after this time. Later transactions in
    /// the logs are not included, even if they have an earlier time.
    #[arg(long, value_name = "TIME", value_parser = parse_bound)]
    stop_datetime: Option<SelectionBound>,
    /// As --stop-datetime, but transactions that were committed at exactly this time are included.
    #[arg(long, value_name = "TIME", value_parser = parse_inclusive_stop)]
    stop_datetime_inclusive: Option<SelectionBound>,
    /// Stop before the first transaction in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = parse_gtids)]
    stop_gtid: Option<GtidSet>,
    /// Stop after the first transaction in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = parse_gtids)]
    stop_after_gtid: Option<GtidSet>,
    /// Exclude the transactions in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = parse_any_gtids)]
    exclude_gtids: Option<GtidSet>,
    /// Skip this number of transactions from the start of the logs, or from the --start-… option; a compressed
    /// transaction counts as one.
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = parse_number::<u64>)]
    skip: u64,
}

impl SelectionArgs {
    /// Returns the selection.
    pub(crate) fn selection(&self) -> Result<TransactionSelection, CommandFailure> {
        let start =
            self.start_position.clone().or_else(|| self.start_datetime.clone()).map(SelectionStart::At);
        let start = start.or_else(|| self.start_gtid.clone().map(SelectionStart::AtGtid));
        let stop_time = self.stop_datetime.clone().or_else(|| self.stop_datetime_inclusive.clone());
        check_period(time_of(self.start_datetime.as_ref()), time_of(stop_time.as_ref()))?;
        let at = self.stop_position.clone().or(stop_time).map(SelectionStop::At);
        let before = self.stop_gtid.clone().map(SelectionStop::BeforeGtid);
        let after = self.stop_after_gtid.clone().map(SelectionStop::AfterGtid);
        Ok(TransactionSelection {
            skip: self.skip,
            exclude: self.exclude_gtids.clone().unwrap_or_default(),
            start: start.or_else(|| self.start_after_gtid.clone().map(SelectionStart::AfterGtid)),
            stop: at.or(before).or(after),
        })
    }
}

const fn time_of(bound: Option<&SelectionBound>) -> Option<u64> {
    match bound {
        Some(SelectionBound::Time(time)) => Some(*time),
        _ => None,
    }
}

fn parse_position(text: &str) -> Result<SelectionBound, String> {
    let parts = text.rsplit_once(':').and_then(|(log, position)| Some((log, position.parse().ok()?)));
    let (log, position) = parts.ok_or_else(|| "expected LOG:POSITION, such as binlog.000012:4".to_owned())?;
    Ok(SelectionBound::Position { log: log.to_owned(), position })
}

fn parse_bound(text: &str) -> Result<SelectionBound, String> {
    parse_time(text).map(SelectionBound::Time)
}

/// Parses the time of the last transaction: the stop is a microsecond later, the unit of commit times.
fn parse_inclusive_stop(text: &str) -> Result<SelectionBound, String> {
    parse_time(text).map(|time| SelectionBound::Time(time + 1))
}
