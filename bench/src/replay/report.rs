//! Results of the replays: tables, charts, and goals.

use anyhow::Result;

use super::contender::{BenchCommitOrder, ProgramUsage, ReplayContender, ReplayMeasurement, median};
use super::replay_logs::ReplayLogKind;
use super::{ReplayBenchOptions, ReplayRace, TargetKind};
use crate::chart::{self, BarGroup};
use crate::doc_page::{self, REPLAY_SPEED};
use crate::table::{self, count, megabytes};

/// Goal of grouped commits: minimum speed relative to `mysqlbinlog | mysql`.
const GROUPED_TO_PIPE: f64 = 25.0;
/// Largest CPU time of bintide, relative to the target's.
const CPU_SHARE_MAX: f64 = 1.0 / 3.0;
/// Largest peak memory of bintide in bytes: the default of `--memory`.
const PEAK_MAX: u64 = 300_000_000;

/// Returns the goals of a log: minimum speeds of commit orders, relative to the best replica.
const fn speed_goals(kind: ReplayLogKind) -> &'static [(BenchCommitOrder, f64)] {
    use BenchCommitOrder::{Any, Grouped, Strict};
    match kind {
        ReplayLogKind::Sysbench | ReplayLogKind::Compressed => &[(Strict, 1.2), (Any, 1.5), (Grouped, 15.0)],
        ReplayLogKind::Apart => &[(Grouped, 12.0)],
        ReplayLogKind::Inserts => &[(Strict, 1.1), (Any, 1.3), (Grouped, 1.3)],
        ReplayLogKind::Bulk => &[(Strict, 1.3), (Any, 1.3), (Grouped, 1.3)],
        ReplayLogKind::Tables | ReplayLogKind::Tpcc => &[(Strict, 1.1), (Grouped, 5.0)],
    }
}

/// Goal and its result.
struct GoalResult {
    what: String,
    found: String,
    reached: bool,
}

/// Writes the results of a log into the page, or only prints them.
pub(super) fn report(race: &ReplayRace, options: &ReplayBenchOptions) -> Result<()> {
    let is_main = race.log.kind == ReplayLogKind::Sysbench;
    let transactions = match race.log.transactions() {
        1 => "One transaction".to_owned(),
        many => format!("{} transactions", count(many)),
    };
    let about = format!("{transactions} in {} MB of log.\n", megabytes(race.log.size()?));
    let parts = [about, table_of(race), table_of_goals(&goals(race)), conditions(race, options)?];
    let text = parts.join("\n");
    if options.only_prints() {
        println!("{text}");
        return Ok(());
    }
    REPLAY_SPEED.write(race.log.kind.block(), &text)?;
    if is_main {
        REPLAY_SPEED.draw("race", &drawing_of_speed(race)?)?;
        REPLAY_SPEED.draw("cpu", &drawing_of_cpu(race)?)?;
    }
    Ok(())
}

/// Draws the comparison of the logs, if all of them were measured.
pub(super) fn compare(races: &[ReplayRace], options: &ReplayBenchOptions) -> Result<()> {
    if options.only_prints() || races.len() < ReplayLogKind::ALL.len() {
        return Ok(());
    }
    REPLAY_SPEED.draw("logs", &drawing_of_logs(races)?)
}

/// Formats a table with a row for each contender.
fn table_of(race: &ReplayRace) -> String {
    let heads = [
        race.log.kind.name(),
        "seconds",
        "range",
        "transactions/s",
        "target's CPU s",
        "own CPU s",
        "own peak, MB",
        "× best replica",
        "× mysqlbinlog",
    ];
    let (native, logging, pipe) =
        (race.native(TargetKind::WithoutLog), race.native(TargetKind::WithLog), race.pipe());
    let rows = race.results.iter().map(|standing| {
        let took = median(&standing.runs);
        let of_own = |text: fn(&ProgramUsage) -> String| took.program.as_ref().map_or_else(String::new, text);
        let times = |other: &Option<ReplayMeasurement>| {
            other.as_ref().map_or_else(String::new, |other| format!("{:.2}", other.seconds / took.seconds))
        };
        vec![
            standing.contender.name().replace('|', "\\|"),
            format!("{:.2}", took.seconds),
            ends(&standing.runs),
            count((race.log.transactions() as f64 / took.seconds) as u64),
            format!("{:.2}", took.target_cpu_seconds),
            of_own(|own| format!("{:.2}", own.cpu_seconds)),
            of_own(|own| format!("{:.0}", own.peak_bytes as f64 / 1e6)),
            match standing.contender {
                ReplayContender::BintideLogging => times(&logging),
                _ => times(&native),
            },
            times(&pipe),
        ]
    });
    // Without a run of mysqlbinlog, its column is omitted.
    let width = if pipe.is_some() { heads.len() } else { heads.len() - 1 };
    table::markdown(
        &heads[..width],
        rows.map(|mut row| {
            row.truncate(width);
            row
        }),
    )
}

fn ends(runs: &[ReplayMeasurement]) -> String {
    let seconds = || runs.iter().map(|run| run.seconds);
    let (least, most) = (seconds().fold(f64::INFINITY, f64::min), seconds().fold(0.0, f64::max));
    format!("{least:.2} to {most:.2}")
}

/// Returns the goals of a log, with their results.
fn goals(race: &ReplayRace) -> Vec<GoalResult> {
    let mut goals = Vec::new();
    let native = race.native(TargetKind::WithoutLog);
    let speeds = speed_goals(race.log.kind).iter();
    let speeds = speeds.map(|(order, ratio)| (*order, "the best replica", native.clone(), *ratio));
    let ratios = speeds.chain([(BenchCommitOrder::Grouped, "mysqlbinlog", race.pipe(), GROUPED_TO_PIPE)]);
    for (order, name, other, ratio_min) in ratios {
        let (Some(ours), Some(other)) = (race.ours(order), other) else { continue };
        let ratio = other.seconds / ours.seconds;
        goals.push(GoalResult {
            what: format!("{}: at least {ratio_min} times as fast as {name}", order.name()),
            found: format!("{ratio:.2} times"),
            reached: ratio >= ratio_min,
        });
    }
    for order in BenchCommitOrder::ALL {
        let Some(took) = race.ours(order) else { continue };
        let Some(own) = took.program else { continue };
        let share = own.cpu_seconds / took.target_cpu_seconds;
        goals.push(GoalResult {
            what: format!("{}: bintide's CPU time below a third of the target's", order.name()),
            found: table::percent(share),
            reached: share < CPU_SHARE_MAX,
        });
        goals.push(GoalResult {
            what: format!("{}: at most {} MB of memory", order.name(), PEAK_MAX / 1_000_000),
            found: format!("{:.0} MB", own.peak_bytes as f64 / 1e6),
            reached: own.peak_bytes <= PEAK_MAX,
        });
    }
    goals
}

fn table_of_goals(goals: &[GoalResult]) -> String {
    let rows = goals.iter().map(|goal| {
        let reached = if goal.reached { "met" } else { "missed" };
        vec![goal.what.clone(), goal.found.clone(), reached.to_owned()]
    });
    table::markdown(&["goal", "found", ""], rows)
}

/// Returns a paragraph about the conditions of the measurements.
fn conditions(race: &ReplayRace, options: &ReplayBenchOptions) -> Result<String> {
    let runs = match options.runs {
        1 => "One run each".to_owned(),
        runs => format!("The median of {runs} runs each, in turns"),
    };
    let workers = options.workers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let all = || race.results.iter().flat_map(|standing| &standing.runs);
    let others = all().map(|run| run.others_share).sum::<f64>() / all().count() as f64;
    let others = table::percent(others);
    Ok(format!(
        "{runs}; replicas tried with {workers} workers. Other programs used {others} of the cores' time.{}",
        doc_page::conditions()?.replacen('\n', " ", 1)
    ))
}

fn drawing_of_speed(race: &ReplayRace) -> Result<String> {
    let bars = race.results.iter().map(|standing| BarGroup {
        name: standing.contender.name_short(),
        values: vec![race.log.transactions() as f64 / median(&standing.runs).seconds],
    });
    let title = format!("{}: transactions a second", race.log.kind.name());
    chart::bar_chart(&title, &["more is better"], &bars.collect::<Vec<_>>())
}

fn drawing_of_cpu(race: &ReplayRace) -> Result<String> {
    let bars = race.results.iter().map(|standing| {
        let took = median(&standing.runs);
        let own = took.program.map_or(0.0, |own| own.cpu_seconds);
        BarGroup { name: standing.contender.name_short(), values: vec![took.target_cpu_seconds, own] }
    });
    let title = format!("{}: seconds of CPU time", race.log.kind.name());
    chart::bar_chart(&title, &["the target", "the applying program"], &bars.collect::<Vec<_>>())
}

/// Draws the speed relative to the best replica, by log.
fn drawing_of_logs(races: &[ReplayRace]) -> Result<String> {
    let groups = races.iter().map(|race| {
        let native = race.native(TargetKind::WithoutLog).map_or(0.0, |native| native.seconds);
        let ratio = |order| race.ours(order).map_or(0.0, |took| native / took.seconds);
        BarGroup { name: race.log.kind.name(), values: BenchCommitOrder::ALL.map(ratio).to_vec() }
    });
    chart::bar_chart(
        "Times as fast as the best replica",
        &BenchCommitOrder::ALL.map(BenchCommitOrder::name),
        &groups.collect::<Vec<_>>(),
    )
}
