//! Advice derived from the figures. The rules are one table; the first matching rule decides.

use super::report::{AdviceVerdict, AdviseReport, CompressionAdvice, LevelReport, LevelSetting};

/// Minimum share saved to advise compression.
const SAVING_MIN: f64 = 0.10;

/// Minimum share of eligible bytes. Below it, there is nothing to gain.
const ELIGIBLE_MIN: f64 = 0.05;

/// Minimum share of bytes that are compressed already, to count compression as on.
const COMPRESSED_MIN: f64 = 0.5;

/// Minimum share of the plain logs that a higher level has to save in addition …
const STEP_GAIN: f64 = 0.04;

/// … for at most this multiple of the next lower level's CPU time.
const STEP_WORK: f64 = 3.0;

/// Maximum share of the plain logs that a lower level may save less …
const EASE_LOSS: f64 = 0.015;

/// … if it takes at most this fraction of the CPU time.
const EASE_WORK: f64 = 0.75;

/// Maximum number of cores for compressing, on average over the time that the logs cover.
const CORES_MAX: f64 = 0.25;

/// Maximum of the 99th percentile of time added to commits, in microseconds.
const P99_MAX_US: f64 = 20_000.0;

/// Facts that the advice depends on.
#[derive(Clone, Debug, Default)]
struct AdviceFacts<'r> {
    version: &'r str,
    can_compress: bool,
    setting: LevelSetting,
    transactions: u64,
    /// Share of the plain logs' bytes that is eligible.
    eligible: f64,
    /// Share of the plain logs' bytes that is compressed already.
    compressed: f64,
    /// The levels that may be advised, in ascending order.
    levels: Vec<&'r LevelReport>,
    /// The level of the payloads in the logs, if it is certain.
    level_found: Option<u8>,
}

impl AdviceFacts<'_> {
    /// Returns the level of the payloads in the logs, if it was not measured.
    fn unmeasured_level(&self) -> Option<u8> {
        self.level_found.filter(|found| !self.levels.iter().any(|level| level.level == *found))
    }
}

/// One rule: its condition, and the advice.
struct AdviceRule {
    holds: fn(&AdviceFacts<'_>, Option<&LevelReport>) -> bool,
    verdict: AdviceVerdict,
    headline: fn(&AdviceFacts<'_>, Option<&LevelReport>) -> String,
}

const RULES: &[AdviceRule] = &[
    AdviceRule {
        holds: |summary, _| summary.transactions == 0,
        verdict: AdviceVerdict::NothingToMeasure,
        headline: |_, _| "These logs contain no complete transaction.".to_owned(),
    },
    AdviceRule {
        holds: |summary, _| !summary.can_compress,
        verdict: AdviceVerdict::CannotCompress,
        headline: |summary, _| {
            format!(
                "The server that wrote these logs ({}) cannot compress transactions: MySQL can from 8.0.20 on.",
                summary.version
            )
        },
    },
    AdviceRule {
        holds: |summary, _| summary.eligible < ELIGIBLE_MIN,
        verdict: AdviceVerdict::NothingToGain,
        headline: |summary, _| {
            format!(
                "Nothing to gain: only {} of the bytes belong to transactions that can be compressed.",
                percent(summary.eligible)
            )
        },
    },
    AdviceRule {
        holds: |summary, best| {
            summary.compressed >= COMPRESSED_MIN && best.is_some_and(|best| best.saved_share < 0.0)
        },
        verdict: AdviceVerdict::SwitchOff,
        headline: |_, _| "Turn compression off: it makes these logs larger.".to_owned(),
    },
    AdviceRule {
        holds: |summary, best| {
            summary.compressed < COMPRESSED_MIN && best.is_none_or(|best| best.saved_share < SAVING_MIN)
        },
        verdict: AdviceVerdict::LeaveOff,
        headline: |_, best| match best {
            Some(best) => {
                format!(
                    "Leave compression off: level {} would save only {}.",
                    best.level,
                    percent(best.saved_share)
                )
            }
            None => "Leave compression off: the server may ignore all measured levels. Measure level 3, too."
                .to_owned(),
        },
    },
    AdviceRule {
        holds: |summary, best| {
            summary.compressed >= COMPRESSED_MIN
                && summary.unmeasured_level().is_none()
                && best.is_some_and(|best| summary.level_found.is_some_and(|found| found != best.level))
        },
        verdict: AdviceVerdict::ChangeLevel,
        headline: |summary, best| match (best, summary.level_found) {
            (Some(best), Some(found)) => format!(
                "Compression is on at level {found}; level {} would be better: it saves {}.",
                best.level,
                percent(best.saved_share)
            ),
            _ => String::new(),
        },
    },
    AdviceRule {
        holds: |summary, _| summary.compressed >= COMPRESSED_MIN && summary.unmeasured_level().is_some(),
        verdict: AdviceVerdict::Keep,
        headline: |summary, best| match (best, summary.unmeasured_level()) {
            (Some(best), Some(found)) => format!(
                "Compression is on at level {found}, which was not measured: measure it, too, to compare it with level {}.",
                best.level
            ),
            _ => String::new(),
        },
    },
    AdviceRule {
        holds: |summary, _| summary.compressed >= COMPRESSED_MIN,
        verdict: AdviceVerdict::Keep,
        headline: |_, best| match best {
            Some(best) => {
                format!("Keep compression on: level {} saves {}.", best.level, percent(best.saved_share))
            }
            None => "Compression is on. The server may ignore all measured levels: measure level 3, too."
                .to_owned(),
        },
    },
    AdviceRule {
        holds: |_, _| true,
        verdict: AdviceVerdict::SwitchOn,
        headline: |_, best| match best {
            Some(best) => {
                format!(
                    "Turn compression on at level {}: it saves {}.",
                    best.level,
                    percent(best.saved_share)
                )
            }
            None => String::new(),
        },
    },
];

/// Returns the advice for a report's figures.
pub(crate) fn advise(report: &AdviseReport) -> CompressionAdvice {
    let summary = summarize(report);
    let best = best(&summary.levels);
    let Some(rule) = RULES.iter().find(|rule| (rule.holds)(&summary, best)) else {
        unreachable!("the last rule always holds")
    };
    let best_level = best.map(|best| best.level);
    CompressionAdvice {
        verdict: rule.verdict,
        level: match rule.verdict {
            AdviceVerdict::SwitchOn | AdviceVerdict::ChangeLevel => best_level,
            AdviceVerdict::Keep => summary.unmeasured_level().or(best_level),
            _ => None,
        },
        headline: (rule.headline)(&summary, best),
        reasons: if summary.transactions == 0 { Vec::new() } else { reasons(report, &summary, best) },
        uncertainties: uncertainties(report, &summary, best),
    }
}

/// Minimum number of transactions for a 99th percentile.
const P99_TRANSACTIONS_MIN: u64 = 200;

/// Daily figures from logs that cover less time are marked as uncertain, in seconds.
const SPAN_CERTAIN_MIN_S: f64 = 3600.0;

fn summarize(report: &AdviseReport) -> AdviceFacts<'_> {
    let plain = report.totals.bytes_plain.value.max(1) as f64;
    let proven = matches!(report.found.levels.as_slice(), [one] if *one != 3);
    let setting = if proven { LevelSetting::Honoured } else { report.server.level_setting };
    // A level that the server might ignore is not advised.
    let may = |level: &&LevelReport| level.level == 3 || setting == LevelSetting::Honoured;
    let mut levels: Vec<&LevelReport> = report.levels.iter().filter(may).collect();
    levels.sort_by_key(|level| level.level);
    AdviceFacts {
        version: &report.server.version,
        can_compress: report.server.can_compress,
        setting,
        transactions: report.totals.transactions.value,
        eligible: report.totals.eligible_bytes.value as f64 / plain,
        compressed: report.found.bytes_plain as f64 / plain,
        levels,
        level_found: match report.found.levels.as_slice() {
            [one] => Some(*one),
            _ => None,
        },
    }
}

/// Starts at the default level or the nearest one to it, and goes to lower or higher levels as long as that pays.
fn best<'r>(levels: &[&'r LevelReport]) -> Option<&'r LevelReport> {
    let mut index = levels.iter().position(|level| level.level >= 3).or(levels.len().checked_sub(1))?;
    while let Some(lower) = index.checked_sub(1)
        && levels[index].saved_share - levels[lower].saved_share <= EASE_LOSS
        && levels[lower].compress_s_per_gb <= levels[index].compress_s_per_gb * EASE_WORK
    {
        index = lower;
    }
    while let Some(higher) = levels.get(index + 1)
        && higher.saved_share - levels[index].saved_share >= STEP_GAIN
        && higher.compress_s_per_gb <= levels[index].compress_s_per_gb * STEP_WORK
        && higher.compress_s_per_day.is_none_or(|seconds| seconds <= CORES_MAX * 86_400.0)
        && higher.latency.p99_us <= P99_MAX_US
    {
        index += 1;
    }
    Some(levels[index])
}

fn reasons(report: &AdviseReport, summary: &AdviceFacts<'_>, best: Option<&LevelReport>) -> Vec<String> {
    let mut reasons = Vec::new();
    if summary.eligible < 0.98 {
        let most = report.refused.iter().find(|refused| refused.bytes > 0);
        let why = most.map_or(String::new(), |most| format!(" Main reason for the rest: {}.", most.words));
        reasons.push(format!("{} of the bytes can be compressed.{why}", percent(summary.eligible)));
    }
    let Some(best) = best.filter(|_| summary.eligible >= ELIGIBLE_MIN) else { return reasons };
    if let Some(saved) = best.saved_bytes_per_day.filter(|saved| *saved > 0) {
        reasons.push(format!(
            "Level {} saves {} per day on the source, and the same on each replica and on the network to it.",
            best.level,
            bytes(saved as f64)
        ));
    }
    let work = match best.compress_s_per_day {
        Some(day) => format!("{} of one core", percent(day / 86_400.0)),
        None => format!("{:.1} seconds of one core per gigabyte", best.compress_s_per_gb),
    };
    let slowest = match best.latency.transactions {
        P99_TRANSACTIONS_MIN.. => format!("1 in 100 takes at least {} longer", micros(best.latency.p99_us)),
        _ => format!("the slowest takes {} longer", micros(best.latency.max_us)),
    };
    let usual = micros(best.latency.p50_us);
    reasons
        .push(format!("Compressing takes {work}. Half of the commits take up to {usual} longer; {slowest}."));
    let saves_more = |level: &&&LevelReport| {
        level.level > best.level && percent(level.saved_share) != percent(best.saved_share)
    };
    if let Some(other) = summary.levels.iter().rev().find(saves_more) {
        reasons.push(format!(
            "Level {} would save {} instead, for {:.1} times the CPU time.",
            other.level,
            percent(other.saved_share),
            other.compress_s_per_gb / best.compress_s_per_gb.max(1e-9)
        ));
    }
    let all = report.totals.eligible_transactions.value.max(1) as f64;
    let growing = best.growing_transactions as f64 / all;
    if growing >= 0.05 {
        reasons.push(format!(
            "{} of the transactions that can be compressed would grow, by {} in total. A server compresses them \
             anyway; `bintide compress` leaves them uncompressed.",
            percent(growing),
            bytes(best.growing_bytes as f64)
        ));
    }
    reasons
}

fn uncertainties(
    report: &AdviseReport,
    summary: &AdviceFacts<'_>,
    best: Option<&LevelReport>,
) -> Vec<String> {
    let mut doubts = Vec::new();
    if summary.transactions == 0 {
        return doubts;
    }
    if let Some(best) = best.filter(|_| !report.sample.is_complete) {
        let plain = report.totals.bytes_plain.value.max(1) as f64;
        let share = |bytes: u64| percent(1.0 - bytes as f64 / plain);
        let (least, most) = (share(best.bytes.high), share(best.bytes.low));
        doubts.push(match least == most {
            true => "Only a sample was measured.".to_owned(),
            false => format!(
                "Only a sample was measured: the saving is between {least} and {most} with 95 % confidence."
            ),
        });
    }
    if report.sample.transactions_cut > 0 {
        doubts
            .push("Of large transactions, only the first part was measured; the rest may differ.".to_owned());
    }
    match summary.setting {
        // A server that cannot compress does not have the setting.
        _ if !summary.can_compress => {}
        LevelSetting::Honoured => {}
        LevelSetting::Ignored => doubts.push(format!(
            "MySQL {} ignores binlog_transaction_compression_level_zstd and always compresses at level 3.",
            report.server.version
        )),
        LevelSetting::Unknown => doubts.push(format!(
            "It is unknown whether MySQL {} uses binlog_transaction_compression_level_zstd: only level 3 is certain.",
            report.server.version
        )),
    }
    let is_mixed =
        report.logs.iter().any(|log| log.has_events && log.server_version != report.server.version);
    if is_mixed {
        doubts.push(
            "The logs are from several server versions; the advice is for that of the last log.".to_owned(),
        );
    }
    let covered = report.totals.covered_s;
    if report.totals.bytes_plain_per_day.is_some() && covered < SPAN_CERTAIN_MIN_S {
        let covered = match covered {
            ..90.0 => "1 minute".to_owned(),
            _ => format!("{:.0} minutes", covered / 60.0),
        };
        doubts.push(format!("The logs cover only {covered}: other times of the day may differ."));
    }
    if report.totals.bytes_plain_per_day.is_none() {
        doubts.push("The logs cover less than a minute: there are no daily figures.".to_owned());
    }
    doubts.push("Times were measured on this machine: a slower or busier one takes longer.".to_owned());
    doubts
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn bytes(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        1e3..1e6 => format!("{:.1} kB", bytes / 1e3),
        1e6..1e9 => format!("{:.1} MB", bytes / 1e6),
        1e9..1e12 => format!("{:.1} GB", bytes / 1e9),
        _ => format!("{:.1} TB", bytes / 1e12),
    }
}

fn micros(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.0} µs"),
        1e3..1e6 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.1} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::advise;
    use crate::report::{
        AdviceVerdict, AdviseReport, AdviseTotals, CommitLatency, FoundReport, IntervalEstimate, LevelReport,
        LevelSetting, MeasuredLog,
    };

    /// Returns a report on a gigabyte of plain logs. Levels have the percentage saved, and the seconds per
    /// gigabyte.
    fn report(eligible: u64, on: u64, levels: &[(u8, i64, f64)]) -> AdviseReport {
        let giga = 1_000_000_000;
        let level = |(level, saved, work): &(u8, i64, f64)| LevelReport {
            level: *level,
            bytes: IntervalEstimate::exact((giga - saved * giga / 100) as u64),
            saved_share: *saved as f64 / 100.0,
            saved_bytes: saved * giga / 100,
            saved_bytes_per_day: Some(saved * giga / 100),
            compress_s_per_gb: *work,
            compress_s_per_day: Some(*work),
            latency: CommitLatency { transactions: 1000, p50_us: 20.0, p99_us: *work * 10.0, max_us: 1e6 },
            ..LevelReport::default()
        };
        let mut report = AdviseReport::default();
        report.server.can_compress = true;
        report.server.level_setting = LevelSetting::Honoured;
        report.sample.is_complete = true;
        report.totals = AdviseTotals {
            bytes: giga as u64,
            bytes_plain: IntervalEstimate::exact(giga as u64),
            transactions: IntervalEstimate::exact(1_000_000),
            eligible_bytes: IntervalEstimate::exact(eligible * giga as u64 / 100),
            eligible_transactions: IntervalEstimate::exact(900_000),
            covered_s: 86_400.0,
            bytes_plain_per_day: Some(giga as u64),
        };
        report.found = FoundReport { bytes_plain: on * giga as u64 / 100, ..FoundReport::default() };
        report.levels = levels.iter().map(level).collect();
        report
    }

    fn check(report: &AdviseReport, verdict: AdviceVerdict, level: Option<u8>) {
        let advice = advise(report);
        assert_eq!((advice.verdict, advice.level), (verdict, level), "{advice:#?}");
        assert!(advice.headline.ends_with('.'), "{advice:#?}");
        let all = advice.reasons.iter().chain(&advice.uncertainties);
        assert!(all.clone().all(|sentence| sentence.ends_with('.')), "{advice:#?}");
    }

    const USUAL: &[(u8, i64, f64)] =
        &[(1, 50, 2.0), (3, 56, 3.0), (6, 58, 9.0), (9, 59, 20.0), (12, 60, 60.0), (19, 63, 400.0)];

    #[test]
    fn usual_logs_get_the_default_level() {
        check(&report(99, 0, USUAL), AdviceVerdict::SwitchOn, Some(3));
    }

    #[test]
    fn little_data_gives_uncertain_advice() {
        let mut little = report(99, 0, &[(3, 56, 3.0), (6, 56, 9.0)]);
        little.totals.covered_s = 75.0;
        little.levels[0].latency.transactions = 5;
        let advice = advise(&little);
        let said =
            |text: &str| advice.reasons.iter().chain(&advice.uncertainties).any(|said| said.contains(text));
        assert!(said("cover only 1 minute") && said("the slowest takes 1.0 s longer"), "{advice:#?}");
        assert!(!said("1 in 100") && !said("Level 6"), "{advice:#?}");
        let advice = advise(&report(99, 0, USUAL));
        let said =
            |text: &str| advice.reasons.iter().chain(&advice.uncertainties).any(|said| said.contains(text));
        assert!(
            said("1 in 100 takes at least 30 µs longer") && said("Level 19 would save 63.0 %"),
            "{advice:#?}"
        );
        assert!(!said("cover only"), "{advice:#?}");
    }

    /// Checks that the advice has this sentence.
    fn check_sentence(report: &AdviseReport, expected: &str) {
        let advice = advise(report);
        let mut all = advice.reasons.iter().chain(&advice.uncertainties).chain([&advice.headline]);
        assert!(all.any(|sentence| sentence == expected), "{expected}: {advice:#?}");
    }

    #[test]
    fn headlines_name_the_verdict() {
        check_sentence(&report(99, 60, &[(3, -5, 3.0)]), "Turn compression off: it makes these logs larger.");
        let ignored = |on| {
            let mut report = report(99, on, &[(6, 50, 3.0)]);
            report.server.level_setting = LevelSetting::Ignored;
            report
        };
        check_sentence(
            &ignored(0),
            "Leave compression off: the server may ignore all measured levels. Measure level 3, too.",
        );
        check_sentence(
            &ignored(60),
            "Compression is on. The server may ignore all measured levels: measure level 3, too.",
        );
    }

    #[test]
    fn reasons_have_figures() {
        let mut growing = report(99, 0, &[(3, 56, 864.0)]);
        growing.levels[0].growing_transactions = 90_000;
        growing.levels[0].growing_bytes = 5_000_000;
        check_sentence(
            &growing,
            "Level 3 saves 560.0 MB per day on the source, and the same on each replica and on the network to it.",
        );
        check_sentence(
            &growing,
            "Compressing takes 1.0 % of one core. Half of the commits take up to 20 µs longer; 1 in 100 takes at least \
             8.6 ms longer.",
        );
        check_sentence(
            &growing,
            "10.0 % of the transactions that can be compressed would grow, by 5.0 MB in total. A server compresses them \
             anyway; `bintide compress` leaves them uncompressed.",
        );
    }

    #[test]
    fn uncertainties_are_named() {
        let check = |change: fn(&mut AdviseReport), expected: &str| {
            let mut report = report(99, 0, &[(3, 56, 3.0)]);
            report.server.version = "8.0.20".to_owned();
            change(&mut report);
            check_sentence(&report, expected);
        };
        check(|report| report.sample.is_complete = false, "Only a sample was measured.");
        check(
            |report| {
                report.sample.is_complete = false;
                let bytes = &mut report.levels[0].bytes;
                (bytes.low, bytes.high) = (400_000_000, 500_000_000);
            },
            "Only a sample was measured: the saving is between 50.0 % and 60.0 % with 95 % confidence.",
        );
        check(
            |report| report.sample.transactions_cut = 1,
            "Of large transactions, only the first part was measured; the rest may differ.",
        );
        check(
            |report| report.server.level_setting = LevelSetting::Ignored,
            "MySQL 8.0.20 ignores binlog_transaction_compression_level_zstd and always compresses at level 3.",
        );
        check(
            |report| report.server.level_setting = LevelSetting::Unknown,
            "It is unknown whether MySQL 8.0.20 uses binlog_transaction_compression_level_zstd: only level 3 is certain.",
        );
        check(
            |report| {
                report.logs.push(MeasuredLog {
                    server_version: "8.0.43".to_owned(),
                    has_events: true,
                    ..MeasuredLog::default()
                })
            },
            "The logs are from several server versions; the advice is for that of the last log.",
        );
        check(
            |report| report.totals.covered_s = 1800.0,
            "The logs cover only 30 minutes: other times of the day may differ.",
        );
    }

    #[test]
    fn lower_levels_with_equal_savings_are_recommended() {
        check(&report(99, 0, &[(1, 55, 1.0), (3, 56, 3.0)]), AdviceVerdict::SwitchOn, Some(1));
    }

    #[test]
    fn higher_levels_are_recommended_if_they_pay() {
        check(&report(99, 0, &[(3, 50, 3.0), (6, 58, 6.0), (9, 60, 12.0)]), AdviceVerdict::SwitchOn, Some(6));
    }

    #[test]
    fn higher_levels_that_delay_commits_are_not_recommended() {
        check(&report(99, 0, &[(3, 50, 1_500.0), (6, 58, 2_500.0)]), AdviceVerdict::SwitchOn, Some(3));
    }

    #[test]
    fn levels_that_a_server_ignores_are_not_recommended() {
        for setting in [LevelSetting::Ignored, LevelSetting::Unknown] {
            let mut report = report(99, 0, &[(1, 55, 1.0), (3, 56, 3.0), (6, 70, 4.0)]);
            report.server.level_setting = setting;
            check(&report, AdviceVerdict::SwitchOn, Some(3));
        }
    }

    #[test]
    fn payloads_of_other_levels_prove_that_the_setting_is_obeyed() {
        let mut report = report(99, 99, &[(1, 50, 1.0), (3, 56, 3.0), (6, 70, 4.0)]);
        report.server.level_setting = LevelSetting::Unknown;
        report.found.levels = vec![1];
        check(&report, AdviceVerdict::ChangeLevel, Some(6));
        report.found.levels = vec![6];
        check(&report, AdviceVerdict::Keep, Some(6));
    }

    #[test]
    fn levels_are_not_compared_with_unmeasured_ones() {
        let mut report = report(99, 99, &[(3, 56, 3.0), (6, 57, 9.0)]);
        report.found.levels = vec![4];
        check(&report, AdviceVerdict::Keep, Some(4));
        assert_eq!(
            advise(&report).headline,
            "Compression is on at level 4, which was not measured: measure it, too, to compare it with level 3."
        );
    }

    #[test]
    fn small_savings_leave_compression_off() {
        check(&report(99, 0, &[(1, 5, 1.0), (3, 6, 3.0)]), AdviceVerdict::LeaveOff, None);
        check(&report(99, 0, &[]), AdviceVerdict::LeaveOff, None);
    }

    #[test]
    fn incompressible_logs_get_separate_verdicts() {
        check(&report(2, 0, USUAL), AdviceVerdict::NothingToGain, None);
        let mut old = report(99, 0, USUAL);
        old.server.can_compress = false;
        check(&old, AdviceVerdict::CannotCompress, None);
        let mut empty = report(0, 0, USUAL);
        empty.totals.transactions = IntervalEstimate::exact(0);
        check(&empty, AdviceVerdict::NothingToMeasure, None);
    }

    #[test]
    fn servers_without_compression_have_no_level() {
        let mut old = report(99, 0, USUAL);
        old.server.version = "5.7.44-log".to_owned();
        old.server.can_compress = false;
        old.server.level_setting = LevelSetting::Ignored;
        let advice = advise(&old);
        let expected = "(5.7.44-log) cannot compress transactions: MySQL can from 8.0.20 on.";
        assert!(advice.headline.ends_with(expected), "{advice:#?}");
        assert!(!advice.uncertainties.join(" ").contains("level_zstd"), "{advice:#?}");
    }

    #[test]
    fn compression_stays_on_unless_logs_grow() {
        check(&report(99, 90, USUAL), AdviceVerdict::Keep, Some(3));
        check(&report(99, 90, &[(3, -2, 3.0)]), AdviceVerdict::SwitchOff, None);
    }

    #[test]
    fn growth_is_not_reported_if_the_level_is_ignored() {
        let mut old = report(99, 90, &[(1, 50, 1.0), (6, 58, 9.0)]);
        old.server.level_setting = LevelSetting::Ignored;
        check(&old, AdviceVerdict::Keep, None);
        assert!(advise(&old).headline.contains("level 3"));
    }

    #[test]
    fn intervals_are_mentioned_if_their_ends_differ() {
        let mut sampled = report(99, 0, USUAL);
        sampled.sample.is_complete = false;
        let says = |report: &AdviseReport| advise(report).uncertainties.join(" ");
        assert!(!says(&sampled).contains("between"), "both ends have the same text");
        sampled.levels[1].bytes =
            IntervalEstimate { value: 440_000_000, low: 430_000_000, high: 450_000_000 };
        assert!(says(&sampled).contains("between 55.0 % and 57.0 %"), "{}", says(&sampled));
    }
}
