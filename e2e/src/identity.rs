//! Many runs with random arguments: bintide must print the same as `mysqlbinlog`.

use std::collections::BTreeSet;
use std::env::{self, VarError};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, bail, ensure};
use testkit::SeededRandom;

use crate::compare::{Difference, Run};
use crate::logs::{LogSet, Logs};
use crate::options::{self, Choice, NOT_DRAWN};
use crate::program::Program;

/// Environment variable with the seed of a run.
pub const SEED: &str = "BINTIDE_SEED";
/// Environment variable with the number of runs.
pub const DRAWS: &str = "BINTIDE_DRAWS";

/// Time zones of the runs: none, whole hours, half hours, daylight saving on both hemispheres.
const TIME_ZONES: [&str; 6] =
    ["UTC", "UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "Australia/Sydney"];
/// Maximum number of differences that are shown in full.
const SHOWN_MAX: usize = 12;

/// Returns the number of runs in the environment variable [`DRAWS`]; `usual` if it is not set.
///
/// # Errors
/// Fails if the variable is not a positive number.
pub fn draws_from_env(usual: usize) -> Result<usize> {
    match env::var(DRAWS) {
        Err(VarError::NotPresent) => Ok(usual),
        Err(error) => bail!("{DRAWS}: {error}"),
        Ok(text) => parse_draws(&text),
    }
}

fn parse_draws(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(draws @ 1..) => Ok(draws),
        _ => bail!("{DRAWS}={text}: expected a number of runs, at least 1"),
    }
}

/// Draws runs over the logs and compares each; reports all differences at the end.
///
/// # Errors
/// Fails if a run differs, or a program cannot be run.
pub fn check_random(name: &str, logs: &Logs, seed: u64, draws: usize) -> Result<()> {
    let choices = options::all()?;
    let drawn: Vec<Choice> =
        choices.into_iter().filter(|choice| NOT_DRAWN.iter().all(|(long, _)| *long != choice.long)).collect();
    let draws = draws_from_env(draws)?;
    println!("{name}: {draws} runs, {SEED}={seed}");
    let mut random = SeededRandom::new(seed);
    let mut used = BTreeSet::new();
    let runs: Vec<Run> = (0..draws).map(|_| draw(&mut random, logs, &drawn, &mut used)).collect();
    let unused: Vec<&str> =
        drawn.iter().map(|c| c.long.as_str()).filter(|long| !used.contains(*long)).collect();
    println!(
        "{name}: options that no run drew: {}",
        if unused.is_empty() { "none".into() } else { unused.join(" ") }
    );
    for (long, why) in NOT_DRAWN {
        println!("{name}: not drawn: --{long}: {why}");
    }
    check_all(name, logs, &runs)
}

/// Compares each of the runs, on all cores; reports all differences at the end.
///
/// # Errors
/// Fails if a run differs, or a program cannot be run.
pub fn check_all(name: &str, logs: &Logs, runs: &[Run]) -> Result<()> {
    check_program(Program::Ours, name, logs, runs)
}

fn check_program(program: Program, name: &str, logs: &Logs, runs: &[Run]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let differences = Mutex::new(Vec::new());
    let threads = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Some(difference) = run.compare(program, &logs.directory)? {
                    let mut found = differences.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    found.push(difference);
                }
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let differences = differences.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let description = describe(name, &differences)?;
    ensure!(differences.is_empty(), "{} of {} runs differ\n{description}", differences.len(), runs.len());
    println!("{name}: {} runs, no difference", runs.len());
    Ok(())
}

/// Draws one run: two to four options with one log, a series of logs, standard input, or several logs.
fn draw(random: &mut SeededRandom, logs: &Logs, choices: &[Choice], used: &mut BTreeSet<String>) -> Run {
    let set = random.pick(&logs.sets);
    let mut arguments = Vec::new();
    let mut expected = 2 + random.below(3);
    while expected > 0 {
        let choice = pick_choice(random, choices);
        if !choice.first || arguments.is_empty() {
            used.insert(choice.long.clone());
            arguments.extend(choice.draw(random, set));
            expected -= 1;
        }
    }
    let mut run = Run { time_zone: Some(*random.pick(&TIME_ZONES)), ..Run::default() };
    run.files.push(("options.cnf".to_owned(), option_file(random)));
    add_logs(random, logs, set, &mut run, &mut arguments);
    run.arguments = arguments;
    run
}

/// Draws an option. Output options are drawn more often than options of a connection, which have no effect here.
fn pick_choice<'a>(random: &mut SeededRandom, choices: &'a [Choice]) -> &'a Choice {
    const OFTEN: [&str; 12] = [
        "verbose",
        "base64-output",
        "hexdump",
        "database",
        "rewrite-db",
        "start-position",
        "stop-position",
        "start-datetime",
        "include-gtids",
        "exclude-gtids",
        "skip-gtids",
        "print-table-metadata",
    ];
    if random.once_in(2) {
        let expected = *random.pick(&OFTEN);
        if let Some(choice) = choices.iter().find(|choice| choice.long == expected) {
            return choice;
        }
    }
    random.pick(choices)
}

fn option_file(random: &mut SeededRandom) -> String {
    let lines =
        ["verbose", "short-form", "hexdump", "skip-gtids", "database=docs", "loose-bogus=1", "offset = 2"];
    let groups = ["mysqlbinlog", "client", "mysqlbinlog_two", "mysqld"];
    let mut text = String::new();
    for _ in 0..1 + random.below(3) {
        let _ = writeln!(text, "[{}]\n{}", random.pick(&groups), random.pick(&lines));
    }
    text
}

fn add_logs(
    random: &mut SeededRandom,
    logs: &Logs,
    set: &LogSet,
    run: &mut Run,
    arguments: &mut Vec<String>,
) {
    match random.below(12) {
        0 => {
            run.stdin = Some(random.pick(&set.files).clone());
            arguments.push("-".to_owned());
        }
        1 => {
            arguments.extend(set.files.iter().cloned());
            arguments.extend(random.pick(&logs.sets).files.iter().cloned());
        }
        2 => arguments.push(random.pick(&set.files).clone()),
        3 if random.once_in(3) => arguments.push("logs/no-such.binlog".to_owned()),
        4 if random.once_in(3) => {} // No log at all.
        5 => {
            // Options may follow the logs.
            let after = arguments.split_off(arguments.len().min(1));
            arguments.extend(set.files.iter().cloned());
            arguments.extend(after);
        }
        _ => arguments.extend(set.files.iter().cloned()),
    }
}

/// Describes the differences, the shortest command lines first, and saves the outputs in the build directory.
fn describe(name: &str, differences: &[Difference]) -> Result<String> {
    let mut sorted: Vec<&Difference> = differences.iter().collect();
    sorted.sort_by_key(|difference| difference.run.arguments.len());
    let directory = testkit::target_dir().join("e2e").join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    let mut description = String::new();
    for (index, difference) in sorted.into_iter().take(SHOWN_MAX).enumerate() {
        let run = &difference.run;
        let saved = save_outputs(&directory.join(index.to_string()), difference)?;
        let arguments: Vec<String> = run.arguments.iter().map(|argument| quoted(argument)).collect();
        let stdin = run.stdin.as_ref().map(|file| format!(" < {file}")).unwrap_or_default();
        let time_zone = run.time_zone.unwrap_or("UTC");
        writeln!(description, "\nTZ={time_zone} mysqlbinlog {}{stdin}", arguments.join(" "))?;
        writeln!(description, "{}\n  saved in {}", difference.description, saved.display())?;
    }
    Ok(description)
}

fn save_outputs(directory: &std::path::Path, difference: &Difference) -> Result<PathBuf> {
    fs::create_dir_all(directory)?;
    for (name, outcome) in [("real", &difference.real), ("ours", &difference.ours)] {
        fs::write(directory.join(format!("{name}.out")), &outcome.stdout)?;
        fs::write(directory.join(format!("{name}.err")), &outcome.stderr)?;
    }
    for (name, text) in &difference.run.files {
        fs::write(directory.join(name), text)?;
    }
    Ok(directory.to_path_buf())
}

/// Quotes an argument for a shell.
fn quoted(argument: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./,:+".contains(&byte);
    if !argument.is_empty() && argument.bytes().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use anyhow::Result;
    use testkit::SeededRandom;

    use super::{check_program, draw, parse_draws};
    use crate::logs::Logs;
    use crate::options;
    use crate::program::Program;

    #[test]
    fn numbers_of_runs_are_positive() {
        let check =
            |text: &str, expected: Option<usize>| assert_eq!(parse_draws(text).ok(), expected, "{text}");
        check("1", Some(1));
        check("5000", Some(5000));
        check("0", None);
        check("-1", None);
        check("5k", None);
        check("", None);
    }

    /// The comparison finds no difference between two equal outcomes.
    #[test]
    fn real_program_is_like_itself() -> Result<()> {
        let (logs, choices) = (Logs::samples()?, options::all()?);
        let mut random = SeededRandom::new(1);
        let mut used = BTreeSet::new();
        let runs: Vec<_> = (0..100).map(|_| draw(&mut random, &logs, &choices, &mut used)).collect();
        check_program(Program::Real, "self", &logs, &runs)
    }
}
