//! Status of warming: as a line, as a text, and as a document.

use std::time::Duration;

use serde_json::{Map, Value, json};
use warm::{BusyResource, ChannelStatus, DiskWaits, WarmEndReason, WarmReport, WarmState, WarmStatus};

use crate::commands::warm::warm_metrics::{
    CHANGES, STATEMENTS, StateName, WARM_METRICS, lag_s, most_lagging,
};
use crate::metric_table;
use crate::screen::{ReportStyle, table_lines};
use crate::units::{count, counted, duration, share};

/// Returns a line for a terminal.
pub(super) fn line(status: &WarmStatus) -> String {
    let WarmStatus { counts, reads, .. } = status;
    let mut parts = Vec::new();
    if status.is_lost {
        parts.push("waiting for the replica, which does not respond".to_owned());
    }
    // Without an applier, there is no distance.
    if let Some(channel) = most_lagging(status).filter(|channel| !channel.log.is_empty()) {
        parts.push(match channel.applier {
            Some(position) => format!("{} at {}", channel.log, count(position.offset)),
            None => "no relay log".to_owned(),
        });
        parts.push(match channel.is_applying {
            true => format!("{} ahead", counted(channel.events_ahead, "event")),
            false => {
                format!("{} ahead of a stopped applier", counted(channel.events_ahead, "event"))
            }
        });
    }
    parts.push(counted(counts.searches, "search"));
    parts.extend(missing_rights(status).map(str::to_owned));
    match (reads.ours, reads.applier) {
        (Some(ours), Some(applier)) => {
            parts.push(format!(
                "{} read, {} by the applier",
                counted(ours.pages, "page"),
                count(applier.pages)
            ));
        }
        _ => parts.push(format!("{} read by all threads", counted(reads.all, "page"))),
    }
    parts.extend(state_text(status.state).map(str::to_owned));
    if let Some(lag) = lag_s(status) {
        parts.push(match lag {
            0 => "no lag".to_owned(),
            lag => format!("lag {}", duration(Duration::from_secs(lag))),
        });
    }
    parts.join(", ")
}

/// Returns a message if no table can be searched: for an account without SELECT, the server reports that the table does
/// not exist.
fn missing_rights(status: &WarmStatus) -> Option<&'static str> {
    let counts = &status.counts;
    (counts.rows > 0 && counts.rows_unsearchable == counts.rows)
        .then_some("no table can be searched: grant the account SELECT on the tables")
}

/// Returns a part of a replay's progress line.
pub(super) fn line_of_replay(status: &WarmStatus) -> String {
    let WarmStatus { counts, reads, .. } = status;
    let mut text = format!("{} ahead", counted(counts.searches, "search"));
    if let (Some(ours), Some(applier)) = (reads.ours, reads.applier) {
        let pages = counted(ours.pages, "page");
        text += &format!(" read {pages}, the replay {}", count(applier.pages));
    }
    if let Some(state) = state_text(status.state) {
        text += &format!(" ({state})");
    }
    text
}

/// Returns a text for states that require one.
const fn state_text(state: WarmState) -> Option<&'static str> {
    match state {
        WarmState::Unmeasured | WarmState::Fixed | WarmState::Ahead => None,
        WarmState::TooFar => Some("too far ahead"),
        WarmState::BackingOff(BusyResource::Server) => Some("fewer connections: the server is busy"),
        WarmState::BackingOff(BusyResource::Disks) => Some("fewer connections: the disks are busy"),
        WarmState::Sampling => Some("pages are in memory: only one search in 16"),
        WarmState::NoGain => Some("no gain"),
    }
}

/// Returns the result as text.
pub(super) fn text(report: &WarmReport, style: ReportStyle) -> String {
    let status = &report.status;
    let figures = |section| pairs(style, metric_table::text_lines(WARM_METRICS, section, status));
    style.sections(&[
        (CHANGES, figures(CHANGES)),
        (STATEMENTS, figures(STATEMENTS)),
        ("Pages read from disk", pairs(style, reads(status))),
        ("Replica", pairs(style, ends(report))),
        ("Errors of the server", refusals(status, style)),
    ])
}

fn reads(status: &WarmStatus) -> Vec<(&'static str, String)> {
    let reads = &status.reads;
    let mut rows = vec![("by all threads", count(reads.all))];
    if let Some(ours) = reads.ours {
        rows.push(("by the searches", waits(ours)));
        rows.push(("pages read per search", share(ours.pages, status.counts.searches)));
    }
    match reads.applier {
        Some(applier) => rows.push(("by the applier", waits(applier))),
        None => rows
            .push(("by the searches", "not measured: needs performance_schema, and SELECT on it".to_owned())),
    }
    if let Some(saved) = status.saved_time() {
        rows.push(("time saved for the applier, about", duration(saved)));
    }
    rows
}

fn ends(report: &WarmReport) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for channel in &report.status.channels {
        rows.push((channel_label(channel, "lag now"), whole_seconds(channel.lag_s)));
        rows.push((channel_label(channel, "average lag"), seconds(channel.lag_average_s)));
    }
    rows.push(("duration".to_owned(), duration(report.status.elapsed)));
    for (state, time) in report.status.times.iter().filter(|(state, _)| **state != WarmState::Fixed) {
        rows.push((format!("of this {}", StateName::of(*state).name), duration(*time)));
    }
    if report.end_reason == WarmEndReason::NoGain {
        let reason = "no gain: without warm, the applier would wait only briefly for pages";
        rows.push(("stopped".to_owned(), reason.to_owned()));
    }
    if let Some(missing) = missing_rights(&report.status) {
        rows.push(("problem".to_owned(), missing.to_owned()));
    }
    rows
}

fn pairs<N: Into<String>>(style: ReportStyle, rows: impl IntoIterator<Item = (N, String)>) -> String {
    let mut table = style.pairs();
    for (name, value) in rows {
        table.add_row([name.into(), value]);
    }
    table_lines(&table)
}

fn refusals(status: &WarmStatus, style: ReportStyle) -> String {
    let mut table = style.pairs();
    for (code, (times, message)) in &status.counts.refusals {
        table.add_row([format!("error {code}"), counted(*times, "time"), message.clone()]);
    }
    table_lines(&table)
}

fn channel_label(channel: &ChannelStatus, what: &str) -> String {
    match channel.name.as_str() {
        "" => what.to_owned(),
        name => format!("{what}, channel {name}"),
    }
}

/// Formats seconds as reported by the server, which are whole seconds.
fn whole_seconds(value: Option<u64>) -> String {
    match value {
        Some(0) => "less than 1 s".to_owned(),
        value => seconds(value.map(|value| value as f64)),
    }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("unknown".to_owned(), |value| duration(Duration::from_secs_f64(value)))
}

fn waits(waits: DiskWaits) -> String {
    match waits.mean() {
        Some(each) => format!("{}, {} each", count(waits.pages), duration(each)),
        None => "0".to_owned(),
    }
}

/// Returns the result in one sentence.
pub(crate) fn sentence(report: &WarmReport) -> String {
    let WarmReport { status, end_reason: why } = report;
    let read = match status.reads.ours {
        Some(ours) => counted(ours.pages, "page"),
        None => "an unknown number of pages".to_owned(),
    };
    let searches = counted(status.counts.searches, "search");
    let end = match why {
        WarmEndReason::Interrupted => "",
        WarmEndReason::NoGain => "; stopped because of no gain",
    };
    format!("{searches} ahead of the replay read {read}{end}")
}

/// Returns the result as a JSON document.
pub(crate) fn document(report: &WarmReport) -> Value {
    let WarmReport { status, end_reason: why } = report;
    let mut document = metric_table::document(WARM_METRICS, status);
    let counts = &status.counts;
    let left = counts.skip_reasons.iter().map(|(left, times)| (left.word().to_owned(), (*times).into()));
    let refusals = counts
        .refusals
        .iter()
        .map(|(code, (times, message))| json!({ "code": code, "times": times, "message": message }));
    let stopped = match why {
        WarmEndReason::Interrupted => "interrupted",
        WarmEndReason::NoGain => "no gain",
    };
    for (key, value) in [
        ("discarded_for", left.collect::<Map<_, _>>().into()),
        ("refusals", refusals.collect()),
        ("channels", status.channels.iter().map(channel_document).collect()),
        ("stopped", stopped.into()),
    ] {
        document.insert(key.to_owned(), value);
    }
    if let Some(Value::Object(controller)) = document.get_mut("controller") {
        add_state(controller, status);
    }
    document.into()
}

fn channel_document(channel: &ChannelStatus) -> Value {
    json!({
        "name": channel.name,
        "log": channel.log,
        "position": channel.applier.map(|position| position.offset),
        "applying": channel.is_applying,
        "events_ahead": channel.events_ahead,
        "searches_ahead": channel.searches_ahead,
        "lag_seconds": channel.lag_s,
        "lag_average_seconds": channel.lag_average_s,
    })
}

/// Adds the state of the controller, its reason, and the time in each state.
fn add_state(controller: &mut Map<String, Value>, status: &WarmStatus) {
    let StateName { name, why } = StateName::of(status.state);
    let seconds = status
        .times
        .iter()
        .map(|(state, time)| (StateName::of(*state).name.replace(' ', "_"), time.as_secs_f64().into()));
    controller.insert("state".to_owned(), name.into());
    controller.insert("why".to_owned(), why.into());
    controller.insert("seconds".to_owned(), seconds.collect::<Map<_, _>>().into());
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use warm::{
        BusyResource, ChannelStatus, DiskReads, DiskWaits, RelayPosition, WarmCounts, WarmEndReason,
        WarmReport, WarmState, WarmStatus,
    };

    use super::{document, line, line_of_replay, text};
    use crate::commands::warm::warm_metrics::WARM_METRICS;
    use crate::metrics_registry::{MetricsFormat, MetricsRegistry};
    use crate::screen::ReportStyle;

    fn status() -> WarmStatus {
        let waits = |pages, millis| Some(DiskWaits { pages, time: Duration::from_millis(millis) });
        let channel = ChannelStatus {
            log: "relay.000003".to_owned(),
            applier: Some(RelayPosition { log: 3.into(), offset: 4711 }),
            is_applying: true,
            events_ahead: 1200,
            lag_s: Some(75),
            lag_average_s: Some(80.5),
            ..ChannelStatus::default()
        };
        WarmStatus {
            counts: WarmCounts { rows: 5000, searches: 8000, executed: 500, ..WarmCounts::default() },
            reads: DiskReads { all: 4500, ours: waits(4000, 4000), applier: waits(200, 200) },
            channels: vec![channel],
            appliers: 4,
            state: WarmState::BackingOff(BusyResource::Disks),
            times: [(WarmState::Ahead, Duration::from_secs(7))].into(),
            distance: 4000,
            ..WarmStatus::default()
        }
    }

    fn metrics_text(status: &WarmStatus) -> String {
        let status = status.clone();
        MetricsRegistry::new().with(WARM_METRICS, move || status.clone()).text(MetricsFormat::Classic)
    }

    #[test]
    fn a_line_shows_page_reads() {
        let expected = "relay.000003 at 4,711, 1,200 events ahead, 8,000 searches, 4,000 pages read, \
                        200 by the applier, fewer connections: the disks are busy, lag 1 min 15 s";
        assert_eq!(line(&status()), expected);
        let expected =
            "8,000 searches ahead read 4,000 pages, the replay 200 (fewer connections: the disks are busy)";
        assert_eq!(line_of_replay(&status()), expected);
    }

    #[test]
    fn results_are_formatted() {
        let report = WarmReport { status: status(), end_reason: WarmEndReason::NoGain };
        let text = text(&report, ReportStyle::new(false));
        for expected in ["4,000, 1 ms each", "50.0 %", "about", "1.0 s", "no gain"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let counts = WarmCounts { rows: 7, rows_unsearchable: 7, ..WarmCounts::default() };
        let blind = WarmStatus { counts, is_lost: true, reads: DiskReads::default(), ..status() };
        let said = line(&blind);
        assert!(said.starts_with("waiting for the replica") && said.contains("the account SELECT"), "{said}");
        let text = super::text(
            &WarmReport { status: blind, end_reason: WarmEndReason::Interrupted },
            ReportStyle::new(false),
        );
        assert!(text.contains("the account SELECT") && text.contains("not measured"), "{text}");
        let document = document(&report);
        let reads = serde_json::json!({
            "all": 4500,
            "warm": { "pages": 4000, "seconds": 4.0 },
            "applier": { "pages": 200, "seconds": 0.2 },
        });
        assert_eq!(document["pages_read"], reads);
        let controller = &document["controller"];
        assert_eq!(
            (&controller["state"], &controller["searches_ahead_max"]),
            (&"disks busy".into(), &4000.into())
        );
        assert_eq!(controller["seconds"]["ahead"], 7.0);
        assert!(
            metrics_text(&report.status)
                .contains("\nbintide_warm_state{state=\"disks busy\",why=\"uses fewer")
        );
        assert_eq!((&document["saved_seconds"], &document["stopped"]), (&1.0.into(), &"no gain".into()));
        let fixed = WarmStatus { distance: u64::MAX, ..status() };
        for (metrics, expected) in [(metrics_text(&report.status), 1), (metrics_text(&fixed), 0)] {
            assert!(metrics.contains("\nbintide_warm_lag_seconds 75\n"), "{metrics}");
            assert_eq!(metrics.matches("\nbintide_warm_searches_ahead_max ").count(), expected, "{metrics}");
        }
    }
}
