//! Metrics of warming.

use warm::{BusyResource, ChannelStatus, WarmState, WarmStatus};

use crate::metric_table::MetricRow;

/// Sections of the result in which figures have a line.
pub(super) const CHANGES: &str = "Changes";
pub(super) const STATEMENTS: &str = "Statements";

/// Row of the table.
type WarmMetric = MetricRow<WarmStatus>;

/// All figures, for Prometheus, JSON and text.
pub(crate) const WARM_METRICS: &[WarmMetric] = &[
    WarmMetric::json_only("events", |status| status.counts.events.into()),
    WarmMetric::counter("bintide_warm_rows_total", "Row changes found ahead of the applier.", |status| {
        status.counts.rows.into()
    })
    .json("rows")
    .text(CHANGES, "row changes found ahead of the applier"),
    WarmMetric::counter(
        "bintide_warm_rows_not_searched_total",
        "Row changes found in tables that cannot be searched.",
        |status| status.counts.rows_unsearchable.into(),
    )
    .json("rows_not_searched")
    .text(CHANGES, "of these, in tables that cannot be searched"),
    WarmMetric::counter(
        "bintide_warm_filtered_total",
        "Row events and statements excluded by the applier's filters.",
        |status| status.counts.filtered.into(),
    )
    .json("filtered")
    .text(CHANGES, "events excluded by filters"),
    WarmMetric::counter(
        "bintide_warm_statements_total",
        "Logged statements whose rows are searched for.",
        |status| status.counts.statements.into(),
    )
    .json("statements")
    .text(CHANGES, "logged statements searched for"),
    WarmMetric::counter("bintide_warm_discarded_total", "Logged statements discarded.", |status| {
        status.counts.discarded.into()
    })
    .json("discarded")
    .text(CHANGES, "logged statements discarded"),
    WarmMetric::counter("bintide_warm_searches_total", "Rows searched for, to read their pages.", |status| {
        status.counts.searches.into()
    })
    .json("searches")
    .text(CHANGES, "searches for pages"),
    WarmMetric::counter(
        "bintide_warm_repeated_total",
        "Searches not made because they were made shortly before.",
        |status| status.counts.repeated.into(),
    )
    .json("repeated")
    .text(CHANGES, "repeated searches not made"),
    WarmMetric::counter(
        "bintide_warm_skipped_total",
        "Statements skipped because almost all pages were in memory.",
        |status| status.counts.skipped.into(),
    )
    .json("skipped")
    .text(STATEMENTS, "skipped, because pages are in memory"),
    WarmMetric::counter("bintide_warm_pushed_total", "Statements with searches queued.", |status| {
        status.counts.pushed.into()
    })
    .json("pushed")
    .text(STATEMENTS, "pushed"),
    WarmMetric::counter(
        "bintide_warm_popped_total",
        "Statements taken from the queue by a connection.",
        |status| status.counts.popped.into(),
    )
    .json("popped")
    .text(STATEMENTS, "popped"),
    WarmMetric::counter(
        "bintide_warm_old_total",
        "Statements not run because the applier had passed them.",
        |status| status.counts.expired.into(),
    )
    .json("old")
    .text(STATEMENTS, "old"),
    WarmMetric::counter("bintide_warm_executed_total", "Statements run.", |status| {
        status.counts.executed.into()
    })
    .json("executed")
    .text(STATEMENTS, "executed"),
    WarmMetric::counter("bintide_warm_errors_total", "Statements that failed.", |status| {
        status.counts.errors.into()
    })
    .json("errors")
    .text(STATEMENTS, "errors"),
    WarmMetric::counter(
        "bintide_warm_jumps_total",
        "Restarts of reading at the applier's position.",
        |status| status.counts.jumps.into(),
    )
    .json("jumps")
    .text(STATEMENTS, "restarts at the applier's position"),
    WarmMetric::counter(
        "bintide_warm_pages_read_all_total",
        "Pages that the replica read from disk.",
        |status| status.reads.all.into(),
    )
    .json("pages_read.all"),
    WarmMetric::counter("bintide_warm_pages_read_total", "Pages read from disk by searches.", |status| {
        status.reads.ours.map(|waits| waits.pages).into()
    })
    .json("pages_read.warm.pages"),
    WarmMetric::json_only("pages_read.warm.seconds", |status| {
        status.reads.ours.map(|waits| waits.time).into()
    }),
    WarmMetric::counter(
        "bintide_warm_applier_pages_read_total",
        "Pages read from disk by the applier.",
        |status| status.reads.applier.map(|waits| waits.pages).into(),
    )
    .json("pages_read.applier.pages"),
    WarmMetric::json_only("pages_read.applier.seconds", |status| {
        status.reads.applier.map(|waits| waits.time).into()
    }),
    WarmMetric::gauge(
        "bintide_warm_events_ahead",
        "Events ahead of the applier whose pages were searched for.",
        |status| sum(status, |channel| channel.events_ahead).into(),
    ),
    WarmMetric::gauge("bintide_warm_searches_ahead", "Searches ahead of the applier.", |status| {
        sum(status, |channel| channel.searches_ahead).into()
    }),
    WarmMetric::gauge(
        "bintide_warm_searches_ahead_max",
        "Maximum number of searches ahead of the applier.",
        // Without a controller, there is no maximum.
        |status| (status.distance < u64::MAX).then_some(status.distance).into(),
    )
    .json("controller.searches_ahead_max"),
    WarmMetric::gauge("bintide_warm_connections", "Connections that search.", |status| {
        (status.workers as u64).into()
    })
    .json("controller.connections"),
    WarmMetric::gauge("bintide_warm_searches_per_second", "Searches per second.", |status| {
        status.rate.searches.into()
    })
    .json("controller.searches_per_second"),
    WarmMetric::gauge(
        "bintide_warm_passed_per_second",
        "Searches per second that the applier passes.",
        |status| status.rate.passed.into(),
    )
    .json("controller.passed_per_second"),
    WarmMetric::gauge("bintide_warm_state", "State of the controller, with the reason.", |_| 1.into())
        .labels(|status| {
            let state = StateName::of(status.state);
            vec![("state", state.name.to_owned()), ("why", state.why.to_owned())]
        }),
    WarmMetric::gauge("bintide_warm_connected", "1 if the replica responds, otherwise 0.", |status| {
        // Before the first answer, no time has elapsed.
        (!status.is_lost && !status.elapsed.is_zero()).into()
    }),
    WarmMetric::gauge("bintide_warm_applying", "1 if the applier runs, otherwise 0.", |status| {
        status.channels.iter().all(|channel| channel.is_applying).into()
    }),
    WarmMetric::gauge("bintide_warm_lag_seconds", "Lag that the replica reports.", |status| {
        lag_s(status).into()
    }),
    WarmMetric::gauge(
        "bintide_warm_saved_seconds",
        "Approximate time that the applier would have waited for pages.",
        |status| status.saved_time().into(),
    )
    .json("saved_seconds"),
    WarmMetric::json_only("seconds", |status| status.elapsed.into()),
];

fn sum(status: &WarmStatus, figure: fn(&ChannelStatus) -> u64) -> u64 {
    status.channels.iter().map(figure).sum()
}

/// Returns the channel with the longest lag. The lag of a stopped applier grows without a limit, and the replica does
/// not report it.
pub(super) fn most_lagging(status: &WarmStatus) -> Option<&ChannelStatus> {
    status
        .channels
        .iter()
        .max_by_key(|channel| (!channel.is_applying, channel.lag_s.is_none(), channel.lag_s))
}

/// Returns the maximum lag in seconds; `None` if the replica does not report the lag of each channel, or does not
/// respond.
pub(super) fn lag_s(status: &WarmStatus) -> Option<u64> {
    if status.is_lost { None } else { most_lagging(status)?.lag_s }
}

/// State of the controller for programs, with a description that has the reason.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateName {
    pub(super) name: &'static str,
    pub(super) why: &'static str,
}

impl StateName {
    pub(super) const fn of(state: WarmState) -> Self {
        let (name, why) = match state {
            WarmState::Unmeasured => {
                ("unmeasured", "page reads are not measured: keeps its initial distance")
            }
            WarmState::Fixed => ("fixed", "keeps the configured limits, or the server has no applier"),
            WarmState::Ahead => ("ahead", "increases the distance while that helps"),
            WarmState::TooFar => (
                "too far",
                "reduces the distance: prefetched pages were evicted before the applier needed them",
            ),
            WarmState::BackingOff(BusyResource::Server) => {
                ("server busy", "uses fewer connections: the server runs many other statements")
            }
            WarmState::BackingOff(BusyResource::Disks) => {
                ("disks busy", "uses fewer connections: the applier's own reads take too long")
            }
            WarmState::Sampling => ("sampling", "makes one search in 16: almost all pages are in memory"),
            WarmState::NoGain => {
                ("no gain", "stopped: without warm, the applier would wait only briefly for pages")
            }
        };
        Self { name, why }
    }
}

#[cfg(test)]
mod tests {
    use warm::{ChannelStatus, WarmStatus};

    use super::{lag_s, most_lagging};

    #[test]
    fn channels_with_an_unknown_lag_count_most() {
        let check = |channels: &[(&str, bool, Option<u64>)], expected: (&str, Option<u64>)| {
            let channel = |(name, is_applying, lag_s): &(&str, bool, Option<u64>)| ChannelStatus {
                name: (*name).to_owned(),
                is_applying: *is_applying,
                lag_s: *lag_s,
                ..ChannelStatus::default()
            };
            let channels = channels.iter().map(channel).collect();
            let status = WarmStatus { channels, ..WarmStatus::default() };
            assert_eq!((&*most_lagging(&status).unwrap().name, lag_s(&status)), expected);
            assert_eq!(lag_s(&WarmStatus { is_lost: true, ..status }), None);
        };
        check(&[("a", true, Some(3)), ("b", true, Some(5))], ("b", Some(5)));
        check(&[("a", true, Some(5)), ("b", true, Some(3))], ("a", Some(5)));
        check(&[("stopped", false, None), ("b", true, Some(3))], ("stopped", None));
        check(&[("a", true, Some(0)), ("stopped", false, None)], ("stopped", None));
        check(&[("unknown", true, None), ("b", true, Some(3))], ("unknown", None));
        check(&[("unknown", true, None), ("stopped", false, None)], ("stopped", None));
        assert_eq!(lag_s(&WarmStatus::default()), None);
    }
}
