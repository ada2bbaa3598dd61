//! Two scripts on one of sysbench's tables, with and without compression: updates of one row each, and of 1,000 rows
//! each.

use anyhow::Result;
use testkit::{SeededRandom, TestServer};

use crate::doc_page;
use crate::table::{self, count, megabytes};
use crate::workload_runs::{self, BinlogSettings, COMPRESSING, StageTime};
use crate::workloads::{self, Workload};

/// Number of updates of each script at a scale of 1.
const UPDATES: f64 = 5000.0;
/// Number of rows of the table, and of one update of each script.
const TABLE_ROWS: usize = 100_000;
const ROWS: [usize; 2] = [1, 1000];
/// Number of runs of each script on each server, in turns; the table has the medians.
const TURNS: usize = 3;

/// Measurements of one script on one server.
#[derive(Clone, Copy)]
struct ScriptRun {
    bytes: u64,
    /// Time of the statements, as the server measures it.
    statements: StageTime,
    compressing: StageTime,
    /// CPU time of the whole server.
    cpu_seconds: f64,
}

pub(super) fn measure(scale: f64) -> Result<()> {
    let updates = (UPDATES * scale).ceil() as usize;
    let mut servers = Vec::new();
    for setting in [BinlogSettings::PLAIN, BinlogSettings::at(3)] {
        let server = setting.apply(workloads::launch_server()).start()?;
        server.sql("create database sbtest")?;
        workloads::run(Workload::Prepare, &server)?;
        servers.push(server);
    }
    let mut lines = Vec::new();
    for rows in ROWS {
        let mut taken = [const { Vec::new() }; 2];
        for turn in 0..TURNS {
            let script = script(updates, rows, turn as u64);
            for (server, taken) in servers.iter().zip(&mut taken) {
                eprintln!("{updates} updates of {rows} rows, turn {}", turn + 1);
                taken.push(run(server, &script)?);
            }
        }
        for (form, taken) in ["plain", "compressed"].into_iter().zip(&mut taken) {
            let plural = if rows == 1 { "" } else { "s" };
            let name =
                format!("{} updates of {} row{plural}, {form}", count(updates as u64), count(rows as u64));
            lines.push(line(&name, taken));
        }
    }
    doc_page::COMPRESSION
        .write("updates", &(table::markdown(&HEADS, lines.into_iter()) + &doc_page::conditions()?))
}

const HEADS: [&str; 6] = ["script", "log, MB", "server, s", "range, s", "compressing, s", "CPU s"];

/// Formats the row of the median run.
fn line(name: &str, taken: &mut [ScriptRun]) -> Vec<String> {
    taken.sort_by(|a, b| a.statements.total.total_cmp(&b.statements.total));
    let middle = taken[taken.len() / 2];
    let ends = format!("{:.2} to {:.2}", taken[0].statements.total, taken[taken.len() - 1].statements.total);
    let numbers = [middle.statements.total, middle.compressing.total, middle.cpu_seconds];
    let [statements, compressing, cpu] = numbers.map(|seconds| format!("{seconds:.2}"));
    vec![name.to_owned(), megabytes(middle.bytes), statements, ends, compressing, cpu]
}

/// Returns a script of updates of `rows` neighbouring rows each, at random positions of the table. Each update rotates
/// a string of 120 characters by one.
fn script(updates: usize, rows: usize, seed: u64) -> String {
    let mut random = SeededRandom::new(seed);
    let update = |_| {
        let first = 1 + random.below(TABLE_ROWS - rows + 1);
        let last = first + rows - 1;
        format!(
            "update sbtest.sbtest1 set c = concat(substr(c, 2), left(c, 1)) where id between {first} and {last};\n"
        )
    };
    (0..updates).map(update).collect()
}

fn run(server: &TestServer, script: &str) -> Result<ScriptRun> {
    const STATEMENTS: &str = "performance_schema.events_statements_summary_global_by_event_name";
    server.sql(&format!("reset binary logs and gtids; truncate {STATEMENTS}"))?;
    workload_runs::reset_stages(server)?;
    let cpu_before = workload_runs::cpu_seconds(server)?;
    server.sql(script)?;
    let cpu_seconds = workload_runs::cpu_seconds(server)? - cpu_before;
    let compressing = workload_runs::read_stage(server, COMPRESSING)?;
    let statements = workload_runs::read_timing(server, STATEMENTS, "statement/sql/update")?;
    Ok(ScriptRun { bytes: workload_runs::log_bytes(server)?, statements, compressing, cpu_seconds })
}
