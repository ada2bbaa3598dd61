//! Which transactions are meant: where to start and to stop, and what to leave out.

use binlog::gtid::{GtidSet, GtidTextError};
use clap::Args;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use replay::{Bound, Selection, Start, Stop};

/// Which transactions are meant.
#[derive(Args, Debug)]
#[command(next_help_heading = "Which transactions")]
pub(super) struct Meant {
    /// Start at the first transaction at this place or behind it.
    #[arg(long, value_name = "LOG:POSITION", group = "start", value_parser = place)]
    start_position: Option<Bound>,
    /// Start at the first transaction that was committed after this: 2026-11-22 01:00:00, local time.
    #[arg(long, value_name = "TIME", group = "start", value_parser = time)]
    start_datetime: Option<Bound>,
    /// Start at the first transaction of these.
    #[arg(long, value_name = "GTIDS", group = "start", value_parser = gtids)]
    start_gtid: Option<GtidSet>,
    /// Start behind the first transaction of these.
    #[arg(long, value_name = "GTIDS", group = "start", value_parser = gtids)]
    start_after_gtid: Option<GtidSet>,
    /// Stop in front of the first transaction at this place or behind it.
    #[arg(long, value_name = "LOG:POSITION", group = "stop", value_parser = place)]
    stop_position: Option<Bound>,
    /// Stop in front of the first transaction in the logs that was committed after this. Those behind it that carry an
    /// earlier time are counted, and not applied.
    #[arg(long, value_name = "TIME", group = "stop", value_parser = time)]
    stop_datetime: Option<Bound>,
    /// Stop in front of the first transaction of these.
    #[arg(long, value_name = "GTIDS", group = "stop", value_parser = gtids)]
    stop_gtid: Option<GtidSet>,
    /// Stop behind the first transaction of these.
    #[arg(long, value_name = "GTIDS", group = "stop", value_parser = gtids)]
    stop_after_gtid: Option<GtidSet>,
    /// Leave out these.
    #[arg(long, value_name = "GTIDS", value_parser = gtids)]
    exclude_gtids: Option<GtidSet>,
    /// Leave out so many transactions from the start on, be that the start of the logs or a --start-… option; a
    /// compressed one counts as one.
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
    let (log, position) =
        parts.ok_or_else(|| "a place is a log's name and a number: binlog.000012:4".to_owned())?;
    Ok(Bound::Position { log: log.to_owned(), position })
}

fn time(text: &str) -> Result<Bound, String> {
    let zoned = text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::system()));
    let time = zoned.map_err(|error| format!("{error}; a time is 2026-11-22 01:00:00"))?;
    let micros = u64::try_from(time.timestamp().as_microsecond());
    micros.map(Bound::Time).map_err(|_| "logs are not that old".to_owned())
}

fn gtids(text: &str) -> Result<GtidSet, String> {
    text.parse().map_err(|error: GtidTextError| error.to_string())
}
