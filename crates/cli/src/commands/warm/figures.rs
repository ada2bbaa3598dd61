//! Status of warming: as a line, as a text, as a document, and as metrics.

use std::time::Duration;

use serde_json::{Value, json};
use warm::{Busy, ChannelStatus, Report, State, Status, Waits, Why};

use crate::metrics::{Kind, Sheet};
use crate::screen::{Style, lines};
use crate::units::{count, counted, duration, share};

/// Returns a line for a terminal.
pub(super) fn line(status: &Status) -> String {
    let Status { counts, reads, .. } = status;
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
    parts.extend(in_words(status.state).map(str::to_owned));
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
fn missing_rights(status: &Status) -> Option<&'static str> {
    let counts = &status.counts;
    (counts.rows > 0 && counts.rows_left == counts.rows)
        .then_some("no table can be searched: grant the account SELECT on the tables")
}

/// Returns a part of a replay's progress line.
pub(super) fn line_of_replay(status: &Status) -> String {
    let Status { counts, reads, .. } = status;
    let mut text = format!("{} ahead", counted(counts.touches, "search"));
    if let (Some(ours), Some(applier)) = (reads.ours, reads.applier) {
        let pages = counted(ours.pages, "page");
        text += &format!(" read {pages}, the replay {}", count(applier.pages));
    }
    if let Some(state) = in_words(status.state) {
        text += &format!(" ({state})");
    }
    text
}

/// Returns a text for states that need one.
const fn in_words(state: State) -> Option<&'static str> {
    match state {
        State::Unmeasured | State::Fixed | State::Ahead => None,
        State::TooFar => Some("too far ahead"),
        State::BackingOff(Busy::Server) => Some("backing off from a busy server"),
        State::BackingOff(Busy::Disks) => Some("backing off from busy disks"),
        State::Sampling => Some("pages are in memory: only one search in 16"),
        State::NoGain => Some("no gain"),
    }
}

/// States of the controller: name for programs, and a description with the reason.
const STATES: [(State, &str, &str); 8] = [
    (State::Unmeasured, "unmeasured", "page reads are not measured: keeps its initial distance"),
    (State::Fixed, "fixed", "keeps the configured pace, or has no applier to stay ahead of"),
    (State::Ahead, "ahead", "increases the distance while that helps"),
    (
        State::TooFar,
        "too far",
        "reduces the distance: prefetched pages were evicted before the applier needed them",
    ),
    (
        State::BackingOff(Busy::Server),
        "server busy",
        "uses fewer connections: the server runs many other statements",
    ),
    (
        State::BackingOff(Busy::Disks),
        "disks busy",
        "uses fewer connections: the applier's own reads take too long",
    ),
    (State::Sampling, "sampling", "makes one search in 16: almost all pages are in memory"),
    (State::NoGain, "no gain", "stopped: the applier would hardly have waited for the pages"),
];

fn named_state(state: State) -> (&'static str, &'static str) {
    let found = STATES.iter().find(|(other, ..)| *other == state);
    let (_, name, why) = found.expect("ours: each way has a name");
    (name, why)
}

/// Returns the result as text.
pub(super) fn text(report: &Report, style: Style) -> String {
    let status = &report.status;
    let counts = &status.counts;
    let changes = [
        ("row changes ahead of the applier", count(counts.rows)),
        ("of these, in tables that cannot be searched", count(counts.rows_left)),
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
        ("old", count(counts.old)),
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

fn reads(status: &Status) -> Vec<(&'static str, String)> {
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
    if let Some(saved) = status.saved() {
        rows.push(("time saved for the applier, about", duration(saved)));
    }
    rows
}

fn ends(report: &Report) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for channel in &report.status.channels {
        rows.push((named(channel, "lag now"), whole_seconds(channel.lag_s)));
        rows.push((named(channel, "average lag"), seconds(channel.lag_average_s)));
    }
    rows.push(("duration".to_owned(), duration(report.status.elapsed)));
    for (state, time) in report.status.times.iter().filter(|(state, _)| **state != State::Fixed) {
        rows.push((format!("of this {}", named_state(*state).0), duration(*time)));
    }
    if report.why == Why::NoGain {
        let reason = "no gain: the applier would hardly have waited for the pages";
        rows.push(("stopped".to_owned(), reason.to_owned()));
    }
    if let Some(missing) = missing_rights(&report.status) {
        rows.push(("problem".to_owned(), missing.to_owned()));
    }
    rows
}

fn pairs<N: Into<String>>(style: Style, rows: impl IntoIterator<Item = (N, String)>) -> String {
    let mut table = style.pairs();
    for (name, value) in rows {
        table.add_row([name.into(), value]);
    }
    lines(&table)
}

fn refusals(status: &Status, style: Style) -> String {
    let mut table = style.pairs();
    for (code, (times, message)) in &status.counts.refusals {
        table.add_row([format!("error {code}"), counted(*times, "time"), message.clone()]);
    }
    lines(&table)
}

fn named(channel: &ChannelStatus, what: &str) -> String {
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

fn waits(waits: Waits) -> String {
    match waits.each() {
        Some(each) => format!("{}, {} each", count(waits.pages), duration(each)),
        None => "0".to_owned(),
    }
}

/// Returns the result in one sentence.
pub(crate) fn sentence(report: &Report) -> String {
    let Report { status, why } = report;
    let read = match status.reads.ours {
        Some(ours) => counted(ours.pages, "page"),
        None => "an unknown number of pages".to_owned(),
    };
    let made = counted(status.counts.touches, "search");
    let end = match why {
        Why::Interrupted => "",
        Why::NoGain => "; stopped because of no gain",
    };
    format!("{made} ahead of the replay read {read}{end}")
}

/// Returns the result as a JSON document.
pub(crate) fn document(report: &Report) -> Value {
    let Report { status, why } = report;
    let Status { counts, reads, .. } = status;
    let waits = |waits: Option<Waits>| {
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
    let left = counts.left.iter().map(|(left, times)| (left.word().to_owned(), (*times).into()));
    json!({
        "events": counts.events,
        "rows": counts.rows,
        "rows_left": counts.rows_left,
        "filtered": counts.filtered,
        "statements": counts.statements,
        "discarded": counts.discarded,
        "discarded_for": left.collect::<serde_json::Map<_, Value>>(),
        "touches": counts.touches,
        "repeated": counts.repeated,
        "skipped": counts.skipped,
        "pushed": counts.pushed,
        "popped": counts.popped,
        "old": counts.old,
        "executed": counts.executed,
        "errors": counts.errors,
        "jumps": counts.jumps,
        "refusals": refusals.collect::<Vec<_>>(),
        "pages_read": { "all": reads.all, "warm": waits(reads.ours), "applier": waits(reads.applier) },
        "saved_seconds": status.saved().map(|saved| saved.as_secs_f64()),
        "channels": channels.collect::<Vec<_>>(),
        "controller": controller(status),
        "seconds": status.elapsed.as_secs_f64(),
        "stopped": match why {
            Why::Interrupted => "interrupted",
            Why::NoGain => "no gain",
        },
    })
}

/// Returns the state of the controller, with the reason.
fn controller(status: &Status) -> Value {
    let (state, why) = named_state(status.state);
    let seconds = status.times.iter().map(|(state, time)| {
        let (name, _) = named_state(*state);
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
pub(super) fn sheet(status: &Status) -> String {
    let Status { counts, reads, channels, .. } = status;
    let mut sheet = Sheet::new();
    let mut counter = |name, help, value| sheet.counter(name, help, value);
    counter("bintide_warm_rows_total", "Row changes found ahead of the applier.", counts.rows);
    counter(
        "bintide_warm_rows_left_total",
        "Row changes found in tables that cannot be searched.",
        counts.rows_left,
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
    counter("bintide_warm_old_total", "Statements not run because the applier had passed them.", counts.old);
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
    let ahead = |of: fn(&ChannelStatus) -> u64| channels.iter().map(of).sum::<u64>();
    let help = "Events ahead of the applier whose pages were searched for.";
    sheet.gauge("bintide_warm_events_ahead", help, ahead(|channel| channel.events_ahead));
    let help = "Searches ahead of the applier.";
    sheet.gauge("bintide_warm_touches_ahead", help, ahead(|channel| channel.touches_ahead));
    if let Some(distance) = distance(status) {
        sheet.gauge(
            "bintide_warm_touches_ahead_max",
            "Maximum number of searches ahead of the applier.",
            distance,
        );
    }
    sheet.gauge("bintide_warm_connections", "Connections that search.", status.workers);
    let help = "Searches per second.";
    sheet.gauge("bintide_warm_touches_per_second", help, status.rate.touches.round());
    let help = "Searches per second that the applier passes.";
    sheet.gauge("bintide_warm_passed_per_second", help, status.rate.passed.round());
    let (state, why) = named_state(status.state);
    let labels = [("state", state), ("why", why)];
    sheet.put("bintide_warm_state", "State of the controller, with the reason.", Kind::Gauge, &labels, 1);
    sheet.gauge(
        "bintide_warm_connected",
        "1 if the replica responds, otherwise 0.",
        u8::from(!status.is_lost),
    );
    let is_applying = channels.iter().all(|channel| channel.is_applying);
    sheet.gauge("bintide_warm_applying", "1 if the applier runs, otherwise 0.", u8::from(is_applying));
    if let Some(lag) = lag_s(status) {
        sheet.gauge("bintide_warm_lag_seconds", "Lag that the replica reports.", lag);
    }
    if let Some(saved) = status.saved() {
        let help = "Approximate time that the applier would have waited for pages.";
        sheet.gauge("bintide_warm_saved_seconds", help, saved.as_secs_f64());
    }
    sheet.into_text()
}

/// Returns the maximum distance; `None` without a controller.
fn distance(status: &Status) -> Option<u64> {
    (status.distance < u64::MAX).then_some(status.distance)
}

fn most_behind(status: &Status) -> Option<&ChannelStatus> {
    status.channels.iter().max_by_key(|channel| channel.lag_s)
}

fn lag_s(status: &Status) -> Option<u64> {
    most_behind(status).and_then(|channel| channel.lag_s)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use warm::{Busy, ChannelStatus, Counts, Place, Reads, Report, State, Status, Waits, Why};

    use super::{document, line, line_of_replay, sheet, text};
    use crate::screen::Style;

    fn status() -> Status {
        let waits = |pages, millis| Some(Waits { pages, time: Duration::from_millis(millis) });
        let channel = ChannelStatus {
            log: "relay.000003".to_owned(),
            applier: Some(Place { log: 3.into(), offset: 4711 }),
            is_applying: true,
            events_ahead: 1200,
            lag_s: Some(75),
            lag_average_s: Some(80.5),
            ..ChannelStatus::default()
        };
        Status {
            counts: Counts { rows: 5000, touches: 8000, executed: 500, ..Counts::default() },
            reads: Reads { all: 4500, ours: waits(4000, 4000), applier: waits(200, 200) },
            channels: vec![channel],
            appliers: 4,
            state: State::BackingOff(Busy::Disks),
            times: [(State::Ahead, Duration::from_secs(7))].into(),
            distance: 4000,
            ..Status::default()
        }
    }

    #[test]
    fn a_line_says_who_reads() {
        let wanted = "relay.000003 at 4,711, 1,200 events ahead, 8,000 searches, 4,000 pages read, \
                      200 by the applier, backing off from busy disks, lag 1 min 15 s";
        assert_eq!(line(&status()), wanted);
        let wanted = "8,000 searches ahead read 4,000 pages, the replay 200 (backing off from busy disks)";
        assert_eq!(line_of_replay(&status()), wanted);
    }

    #[test]
    fn what_it_came_to() {
        let report = Report { status: status(), why: Why::NoGain };
        let text = text(&report, Style::new(false));
        for wanted in ["4,000, 1 ms each", "50.0 %", "about", "1.0 s", "no gain"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        let counts = Counts { rows: 7, rows_left: 7, ..Counts::default() };
        let blind = Status { counts, is_lost: true, reads: Reads::default(), ..status() };
        let said = line(&blind);
        assert!(said.starts_with("waiting for the replica") && said.contains("the account SELECT"), "{said}");
        let text = super::text(&Report { status: blind, why: Why::Interrupted }, Style::new(false));
        assert!(text.contains("the account SELECT") && text.contains("not measured"), "{text}");
        let document = document(&report);
        let controller = &document["controller"];
        assert_eq!(
            (&controller["state"], &controller["touches_ahead_max"]),
            (&"disks busy".into(), &4000.into())
        );
        assert_eq!(controller["seconds"]["ahead"], 7.0);
        assert!(sheet(&report.status).contains("\nbintide_warm_state{state=\"disks busy\",why=\"uses fewer"));
        assert_eq!((&document["saved_seconds"], &document["stopped"]), (&1.0.into(), &"no gain".into()));
        let fixed = Status { distance: u64::MAX, ..status() };
        for (sheet, wanted) in [(sheet(&report.status), 1), (sheet(&fixed), 0)] {
            assert!(sheet.contains("\nbintide_warm_lag_seconds 75\n"), "{sheet}");
            assert_eq!(sheet.matches("\nbintide_warm_touches_ahead_max ").count(), wanted, "{sheet}");
        }
    }
}
