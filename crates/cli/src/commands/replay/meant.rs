//! Selection of transactions: where to start and stop, and which to exclude.

use binlog::gtid::{GtidSet, GtidTextError};
use clap::Args;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use replay::{Bound, Selection, Start, Stop};

/// Options that select transactions.
#[derive(Args, Debug)]
#[command(next_help_heading = "Transactions")]
pub(super) struct Meant {
    /// Start at the first transaction at or after this position.
    #[arg(long, value_name = "LOG:POSITION", group = "start", value_parser = place)]
    start_position: Option<Bound>,
    /// Start at the first transaction that was committed after this local time, as 2026-11-22 01:00:00.
    #[arg(long, value_name = "TIME", group = "start", value_parser = time)]
    start_datetime: Option<Bound>,
    /// Start at the first transaction that GTIDS contain.
    #[arg(long, value_name = "GTIDS", group = "start", value_parser = gtids)]
    start_gtid: Option<GtidSet>,
    /// Start after the first transaction that GTIDS contain.
    #[arg(long, value_name = "GTIDS", group = "start", value_parser = gtids)]
    start_after_gtid: Option<GtidSet>,
    /// Stop before the first transaction at or after this position.
    #[arg(long, value_name = "LOG:POSITION", group = "stop", value_parser = place)]
    stop_position: Option<Bound>,
    /// Stop before the first transaction in the logs that was committed after this local time. Later transactions
    /// with an earlier time are counted, but not applied.
    #[arg(long, value_name = "TIME", group = "stop", value_parser = time)]
    stop_datetime: Option<Bound>,
    /// Stop before the first transaction that GTIDS contain.
    #[arg(long, value_name = "GTIDS", group = "stop", value_parser = gtids)]
    stop_gtid: Option<GtidSet>,
    /// Stop after the first transaction that GTIDS contain.
    #[arg(long, value_name = "GTIDS", group = "stop", value_parser = gtids)]
    stop_after_gtid: Option<GtidSet>,
    /// Exclude the transactions in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = gtids)]
    exclude_gtids: Option<GtidSet>,
    /// Skip this number of transactions from the start of the logs, or from the --start-… option; a compressed
    /// transaction counts as one.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    skip: u64,
}

impl Meant {
    pub(super) fn selection(&self) -> Selection {
        let start = self.start_position.clone().or_else(|| self.start_datetime.clone()).map(Start::At);
        let start = start.or_else(|| self.start_gtid.clone().map(Start::AtGtid));
        let at = self.stop_position.clone().or_else(|| self.stop_datetime.clone()).map(Stop::At);
        let before = self.stop_gtid.clone().map(Stop::BeforeGtid);
        let behind = self.stop_after_gtid.clone().map(Stop::AfterGtid);
        Selection {
            skip: self.skip,
            exclude: self.exclude_gtids.clone().unwrap_or_default(),
            start: start.or_else(|| self.start_after_gtid.clone().map(Start::AfterGtid)),
            stop: at.or(before).or(behind),
        }
    }
}

fn place(text: &str) -> Result<Bound, String> {
    let parts = text.rsplit_once(':').and_then(|(log, position)| Some((log, position.parse().ok()?)));
    let (log, position) = parts.ok_or_else(|| "expected LOG:POSITION, as binlog.000012:4".to_owned())?;
    Ok(Bound::Position { log: log.to_owned(), position })
}

fn time(text: &str) -> Result<Bound, String> {
    let zoned = text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::system()));
    let time = zoned.map_err(|error| format!("{error}: expected a time as 2026-11-22 01:00:00"))?;
    let micros = u64::try_from(time.timestamp().as_microsecond());
    micros.map(Bound::Time).map_err(|_| "expected a time after 1970".to_owned())
}

fn gtids(text: &str) -> Result<GtidSet, String> {
    text.parse().map_err(|error: GtidTextError| error.to_string())
}
