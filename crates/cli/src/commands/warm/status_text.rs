//! Status of warming: as a line, as a text, as a document, and as metrics.

use std::time::Duration;

use serde_json::{Value, json};
use warm::{BusyResource, ChannelStatus, DiskWaits, WarmEndReason, WarmReport, WarmState, WarmStatus};

use crate::metrics::{MetricKind, PrometheusText};
use crate::screen::{ReportStyle, table_lines};
use crate::units::{count, counted, duration, share};

/// Returns a line for a terminal.
pub(super) fn line(status: &WarmStatus) -> String {
    let WarmStatus { counts, reads, .. } = status;
    let mut parts = Vec::new();
    if status.is_lost {
        parts.push("waiting for the replica, which does not respond".to_owned());
    }
    if let Some(channel) = most_behind(status) {
        parts.push(match channel.applier {
            Some(place) => format!("{} at {}", channel.log, count(place.offset)),
            None => "no relay log".to_owned(),
        });
        parts.push(match channel.is_applying {
            true => format!("{} ahead", counted(channel.events_ahead, "event")),
            false => {
                format!("{} ahead of a stopped applier", counted(channel.events_ahead, "event"))
            }
        });
    }
    parts.push(counted(counts.touches, "search"));
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

/// Returns a message if no table can be searched: an account without SELECT on a table gets the error that it does
/// not exist.
fn missing_rights(status: &WarmStatus) -> Option<&'static str> {
    let counts = &status.counts;
    (counts.rows > 0 && counts.rows_unsearchable == counts.rows)
        .then_some("no table can be searched: grant the account SELECT on the tables")
}

/// Returns a part of a replay's progress line.
pub(super) fn line_of_replay(status: &WarmStatus) -> String {
    let WarmStatus { counts, reads, .. } = status;
    let mut text = format!("{} ahead", counted(counts.touches, "search"));
    if let (Some(ours), Some(applier)) = (reads.ours, reads.applier) {
        let pages = counted(ours.pages, "page");
        text += &format!(" read {pages}, the replay {}", count(applier.pages));
    }
    if let Some(state) = state_text(status.state) {
        text += &format!(" ({state})");
    }
    text
}

/// Returns a text for states that need one.
const fn state_text(state: WarmState) -> Option<&'static str> {
    match state {
        WarmState::Unmeasured | WarmState::Fixed | WarmState::Ahead => None,
        WarmState::TooFar => Some("too far ahead"),
        WarmState::BackingOff(BusyResource::Server) => Some("backing off from a busy server"),
        WarmState::BackingOff(BusyResource::Disks) => Some("backing off from busy disks"),
        WarmState::Sampling => Some("pages are in memory: only one search in 16"),
        WarmState::NoGain => Some("no gain"),
    }
}

/// States of the controller: name for programs, and a description with the reason.
const STATES: [(WarmState, &str, &str); 8] = [
    (WarmState::Unmeasured, "unmeasured", "page reads are not measured: keeps its initial distance"),
    (WarmState::Fixed, "fixed", "keeps the configured pace, or has no applier to stay ahead of"),
    (WarmState::Ahead, "ahead", "increases the distance while that helps"),
    (
        WarmState::TooFar,
        "too far",
        "reduces the distance: prefetched pages were evicted before the applier needed them",
    ),
    (
        WarmState::BackingOff(BusyResource::Server),
        "server busy",
        "uses fewer connections: the server runs many other statements",
    ),
    (
        WarmState::BackingOff(BusyResource::Disks),
        "disks busy",
        "uses fewer connections: the applier's own reads take too long",
    ),
    (WarmState::Sampling, "sampling", "makes one search in 16: almost all pages are in memory"),
    (WarmState::NoGain, "no gain", "stopped: the applier would hardly have waited for the pages"),
];

fn state_name_and_reason(state: WarmState) -> (&'static str, &'static str) {
    let found = STATES.iter().find(|(other, ..)| *other == state);
    let (_, name, why) = found.expect("ours: each way has a name");
    (name, why)
}

/// Returns the result as text.
pub(super) fn text(report: &WarmReport, style: ReportStyle) -> String {
    let status = &report.status;
    let counts = &status.counts;
    let changes = [
        ("row changes ahead of the applier", count(counts.rows)),
        ("of these, in tables that cannot be searched", count(counts.rows_unsearchable)),
        ("events excluded by filters", count(counts.filtered)),
        ("logged statements searched for", count(counts.statements)),
        ("logged statements discarded", count(counts.discarded)),
        ("searches for pages", count(counts.touches)),
        ("of these, repeated searches not made", count(counts.repeated)),
    ];
    let statements = [
        ("skipped, because pages are in memory", count(counts.skipped)),
        ("pushed", count(counts.pushed)),
        ("popped", count(counts.popped)),
        ("old", count(counts.expired)),
        ("executed", count(counts.executed)),
        ("errors", count(counts.errors)),
        ("restarts at the applier's position", count(counts.jumps)),
    ];
    style.sections(&[
        ("Changes", pairs(style, changes)),
        ("Statements", pairs(style, statements)),
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
        rows.push(("pages read per search", share(ours.pages, status.counts.touches)));
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
        rows.push((format!("of this {}", state_name_and_reason(*state).0), duration(*time)));
    }
    if report.end_reason == WarmEndReason::NoGain {
        let reason = "no gain: the applier would hardly have waited for the pages";
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

/// Formats seconds as the server reports them: whole seconds only.
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
    let made = counted(status.counts.touches, "search");
    let end = match why {
        WarmEndReason::Interrupted => "",
        WarmEndReason::NoGain => "; stopped because of no gain",
    };
    format!("{made} ahead of the replay read {read}{end}")
}

/// Returns the result as a JSON document.
pub(crate) fn document(report: &WarmReport) -> Value {
    let WarmReport { status, end_reason: why } = report;
    let WarmStatus { counts, reads, .. } = status;
    let waits = |waits: Option<DiskWaits>| {
        waits.map(|waits| json!({ "pages": waits.pages, "seconds": waits.time.as_secs_f64() }))
    };
    let channels = status.channels.iter().map(|channel| {
        json!({
            "name": channel.name,
            "log": channel.log,
            "position": channel.applier.map(|place| place.offset),
            "applying": channel.is_applying,
            "events_ahead": channel.events_ahead,
            "touches_ahead": channel.touches_ahead,
            "lag_seconds": channel.lag_s,
            "lag_average_seconds": channel.lag_average_s,
        })
    });
    let refusals = counts
        .refusals
        .iter()
        .map(|(code, (times, message))| json!({ "code": code, "times": times, "message": message }));
    let left = counts.skip_reasons.iter().map(|(left, times)| (left.word().to_owned(), (*times).into()));
    json!({
        "events": counts.events,
        "rows": counts.rows,
        "rows_left": counts.rows_unsearchable,
        "filtered": counts.filtered,
        "statements": counts.statements,
        "discarded": counts.discarded,
        "discarded_for": left.collect::<serde_json::Map<_, Value>>(),
        "touches": counts.touches,
        "repeated": counts.repeated,
        "skipped": counts.skipped,
        "pushed": counts.pushed,
        "popped": counts.popped,
        "old": counts.expired,
        "executed": counts.executed,
        "errors": counts.errors,
        "jumps": counts.jumps,
        "refusals": refusals.collect::<Vec<_>>(),
        "pages_read": { "all": reads.all, "warm": waits(reads.ours), "applier": waits(reads.applier) },
        "saved_seconds": status.saved_time().map(|saved| saved.as_secs_f64()),
        "channels": channels.collect::<Vec<_>>(),
        "controller": controller(status),
        "seconds": status.elapsed.as_secs_f64(),
        "stopped": match why {
            WarmEndReason::Interrupted => "interrupted",
            WarmEndReason::NoGain => "no gain",
        },
    })
}

/// Returns the state of the controller, with the reason.
fn controller(status: &WarmStatus) -> Value {
    let (state, why) = state_name_and_reason(status.state);
    let seconds = status.times.iter().map(|(state, time)| {
        let (name, _) = state_name_and_reason(*state);
        (name.replace(' ', "_"), time.as_secs_f64().into())
    });
    json!({
        "state": state,
        "why": why,
        "touches_ahead_max": distance(status),
        "connections": status.workers,
        "touches_per_second": status.rate.touches,
        "passed_per_second": status.rate.passed,
        "seconds": seconds.collect::<serde_json::Map<_, Value>>(),
    })
}

/// Returns the metrics as text.
pub(super) fn metrics_text(status: &WarmStatus) -> String {
    let mut metrics = PrometheusText::new();
    put_counters(&mut metrics, status);
    put_search_gauges(&mut metrics, status);
    put_state_gauges(&mut metrics, status);
    metrics.into_text()
}

fn put_counters(metrics: &mut PrometheusText, status: &WarmStatus) {
    let WarmStatus { counts, reads, .. } = status;
    let mut counter = |name, help, value| metrics.counter(name, help, value);
    counter("bintide_warm_rows_total", "Row changes found ahead of the applier.", counts.rows);
    counter(
        "bintide_warm_rows_left_total",
        "Row changes found in tables that cannot be searched.",
        counts.rows_unsearchable,
    );
    let help = "Row events and statements excluded by the applier's filters.";
    counter("bintide_warm_filtered_total", help, counts.filtered);
    let help = "Logged statements whose rows are searched for.";
    counter("bintide_warm_statements_total", help, counts.statements);
    counter("bintide_warm_discarded_total", "Logged statements discarded.", counts.discarded);
    counter("bintide_warm_touches_total", "Searches for pages.", counts.touches);
    counter(
        "bintide_warm_repeated_total",
        "Searches not made because they were made shortly before.",
        counts.repeated,
    );
    counter(
        "bintide_warm_skipped_total",
        "Statements skipped because almost all pages were in memory.",
        counts.skipped,
    );
    counter("bintide_warm_pushed_total", "Statements with searches queued.", counts.pushed);
    counter("bintide_warm_popped_total", "Statements taken from the queue by a connection.", counts.popped);
    counter(
        "bintide_warm_old_total",
        "Statements not run because the applier had passed them.",
        counts.expired,
    );
    counter("bintide_warm_executed_total", "Statements run.", counts.executed);
    counter("bintide_warm_errors_total", "Statements that failed.", counts.errors);
    counter("bintide_warm_jumps_total", "Restarts of reading at the applier's position.", counts.jumps);
    counter("bintide_warm_pages_read_all_total", "Pages that the replica read from disk.", reads.all);
    if let Some(ours) = reads.ours {
        counter("bintide_warm_pages_read_total", "Pages read from disk by searches.", ours.pages);
    }
    if let Some(applier) = reads.applier {
        let help = "Pages read from disk by the applier.";
        counter("bintide_warm_applier_pages_read_total", help, applier.pages);
    }
}

fn put_search_gauges(metrics: &mut PrometheusText, status: &WarmStatus) {
    let ahead = |of: fn(&ChannelStatus) -> u64| status.channels.iter().map(of).sum::<u64>();
    let help = "Events ahead of the applier whose pages were searched for.";
    metrics.gauge("bintide_warm_events_ahead", help, ahead(|channel| channel.events_ahead));
    let help = "Searches ahead of the applier.";
    metrics.gauge("bintide_warm_touches_ahead", help, ahead(|channel| channel.touches_ahead));
    if let Some(distance) = distance(status) {
        metrics.gauge(
            "bintide_warm_touches_ahead_max",
            "Maximum number of searches ahead of the applier.",
            distance,
        );
    }
    metrics.gauge("bintide_warm_connections", "Connections that search.", status.workers);
    let help = "Searches per second.";
    metrics.gauge("bintide_warm_touches_per_second", help, status.rate.touches.round());
    let help = "Searches per second that the applier passes.";
    metrics.gauge("bintide_warm_passed_per_second", help, status.rate.passed.round());
}

fn put_state_gauges(metrics: &mut PrometheusText, status: &WarmStatus) {
    let (state, why) = state_name_and_reason(status.state);
    let labels = [("state", state), ("why", why)];
    metrics.put(
        "bintide_warm_state",
        "State of the controller, with the reason.",
        MetricKind::Gauge,
        &labels,
        1,
    );
    metrics.gauge(
        "bintide_warm_connected",
        "1 if the replica responds, otherwise 0.",
        u8::from(!status.is_lost),
    );
    let is_applying = status.channels.iter().all(|channel| channel.is_applying);
    metrics.gauge("bintide_warm_applying", "1 if the applier runs, otherwise 0.", u8::from(is_applying));
    if let Some(lag) = lag_s(status) {
        metrics.gauge("bintide_warm_lag_seconds", "Lag that the replica reports.", lag);
    }
    if let Some(saved) = status.saved_time() {
        let help = "Approximate time that the applier would have waited for pages.";
        metrics.gauge("bintide_warm_saved_seconds", help, saved.as_secs_f64());
    }
}

/// Returns the maximum distance; `None` without a controller.
fn distance(status: &WarmStatus) -> Option<u64> {
    (status.distance < u64::MAX).then_some(status.distance)
}

fn most_behind(status: &WarmStatus) -> Option<&ChannelStatus> {
    status.channels.iter().max_by_key(|channel| channel.lag_s)
}

fn lag_s(status: &WarmStatus) -> Option<u64> {
    most_behind(status).and_then(|channel| channel.lag_s)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use warm::{
        BusyResource, ChannelStatus, DiskReads, DiskWaits, RelayPosition, WarmCounts, WarmEndReason,
        WarmReport, WarmState, WarmStatus,
    };

    use super::{document, line, line_of_replay, metrics_text, text};
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
            counts: WarmCounts { rows: 5000, touches: 8000, executed: 500, ..WarmCounts::default() },
            reads: DiskReads { all: 4500, ours: waits(4000, 4000), applier: waits(200, 200) },
            channels: vec![channel],
            appliers: 4,
            state: WarmState::BackingOff(BusyResource::Disks),
            times: [(WarmState::Ahead, Duration::from_secs(7))].into(),
            distance: 4000,
            ..WarmStatus::default()
        }
    }

    #[test]
    fn a_line_shows_page_reads() {
        let wanted = "relay.000003 at 4,711, 1,200 events ahead, 8,000 searches, 4,000 pages read, \
                      200 by the applier, backing off from busy disks, lag 1 min 15 s";
        assert_eq!(line(&status()), wanted);
        let wanted = "8,000 searches ahead read 4,000 pages, the replay 200 (backing off from busy disks)";
        assert_eq!(line_of_replay(&status()), wanted);
    }

    #[test]
    fn results_are_formatted() {
        let report = WarmReport { status: status(), end_reason: WarmEndReason::NoGain };
        let text = text(&report, ReportStyle::new(false));
        for wanted in ["4,000, 1 ms each", "50.0 %", "about", "1.0 s", "no gain"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
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
        let controller = &document["controller"];
        assert_eq!(
            (&controller["state"], &controller["touches_ahead_max"]),
            (&"disks busy".into(), &4000.into())
        );
        assert_eq!(controller["seconds"]["ahead"], 7.0);
        assert!(
            metrics_text(&report.status)
                .contains("\nbintide_warm_state{state=\"disks busy\",why=\"uses fewer")
        );
        assert_eq!((&document["saved_seconds"], &document["stopped"]), (&1.0.into(), &"no gain".into()));
        let fixed = WarmStatus { distance: u64::MAX, ..status() };
        for (metrics, wanted) in [(metrics_text(&report.status), 1), (metrics_text(&fixed), 0)] {
            assert!(metrics.contains("\nbintide_warm_lag_seconds 75\n"), "{metrics}");
            assert_eq!(metrics.matches("\nbintide_warm_touches_ahead_max ").count(), wanted, "{metrics}");
        }
    }
}
