//! Benchmark of decoding whole logs into record batches on one core.
//!
//! Usage: `cargo bench -p bintide-columns --bench decode -- LOG...`. Prints one line per log: `NAME: ROWS changes, CHANGES/S,
//! MB/S`. MB are those of the log. The time is the median of several runs, in CPU time of this thread, so that other
//! processes hardly affect it. Without a log, it measures nothing and says so.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Duration;

use columns::{ChangeDecoder, ColumnsError, DecodeSettings, decode_log};
use logs::LogReader;
use stream::UnnamedColumnPolicy;

/// Number of runs per log; the median counts.
const RUNS: usize = 5;

fn main() {
    // Cargo adds options of its own harness.
    let logs: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if logs.is_empty() {
        println!("no log given: nothing to measure");
    }
    for log in logs {
        measure(&log).expect("the log can be decoded");
    }
}

fn measure(log: &str) -> Result<(), ColumnsError> {
    let bytes = std::fs::metadata(log).expect("the log can be read").len();
    let (mut times, mut changes) = (Vec::new(), 0);
    for _ in 0..RUNS {
        let start = processor_time();
        changes = decode(log)?;
        times.push(processor_time() - start);
    }
    times.sort();
    let seconds = times[RUNS / 2].as_secs_f64();
    let rate = |count: u64| count as f64 / seconds / 1e6;
    println!("{log}: {changes} changes, {:.1} M changes/s, {:.0} MB/s", rate(changes), rate(bytes));
    Ok(())
}

fn decode(log: &str) -> Result<u64, ColumnsError> {
    let settings =
        DecodeSettings { unnamed_columns: UnnamedColumnPolicy::Number, ..DecodeSettings::default() };
    let mut decoder = ChangeDecoder::new(settings);
    decoder.begin_log(log);
    let mut sink = |batch| {
        black_box(batch);
        Ok(())
    };
    decode_log(LogReader::open(log)?, &mut decoder, &mut sink, &mut |_| ControlFlow::Continue(()))?;
    Ok(decoder.changes())
}

fn processor_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("the thread has a clock").into()
}
