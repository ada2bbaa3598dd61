//! Compares all text that a user can see with the reviewed text in `e2e/words/`. `cargo xtask words` updates it.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

use anyhow::{Result, ensure};
use e2e::words::messages::Script;
use e2e::words::recorded::RecordedExamples;
use e2e::words::unit_tests::UnitTestExamples;
use e2e::words::{self, MESSAGES, RECORDED, Stage, help, templates};

/// Minimum number of examples.
const EXAMPLES_MIN: usize = 150;

#[test]
fn help_is_as_reviewed() -> Result<()> {
    let help = help::collect(&Stage::new()?)?;
    words::check("help.txt", &help.text)
}

#[test]
fn every_command_has_examples() -> Result<()> {
    if words::is_written() {
        return Ok(());
    }
    let (help, messages) = (help::collect(&Stage::new()?)?, words::read(MESSAGES)?);
    words::check_sections(&help.commands, &messages)?;
    let count = Script::parse(&messages)?.len();
    ensure!(count >= EXAMPLES_MIN, "{MESSAGES} has only {count} examples");
    Ok(())
}

/// One test, because the marks of the templates depend on the other files.
#[test]
fn messages_and_templates_are_as_reviewed() -> Result<()> {
    let now = Script::parse(&words::read(MESSAGES)?)?.run(&Stage::new()?)?;
    let sources = templates::sources(&help::collect(&Stage::new()?)?.text)?;
    let mut recorded = RecordedExamples::parse(&words::read(RECORDED)?)?;
    if let Some(directory) = words::recording() {
        recorded.update(&sources, &now, &directory)?;
        words::check(RECORDED, &recorded.text(&sources))?;
    }
    recorded.check(&sources, &tests()?)?;
    let is_shown =
        |file: &str, message: &str| recorded.has(file, message) || templates::is_shown(message, &now);
    let unit_tests = UnitTestExamples::collect(&sources, is_shown)?;
    let templates = templates::list(&sources, &now, &recorded, &unit_tests);
    let checks = [
        words::check(MESSAGES, &now),
        words::check("unit_tests.txt", &unit_tests.text(&sources)),
        words::check("templates.txt", &templates),
    ];
    // Report all differences.
    let errors: Vec<String> = checks.into_iter().filter_map(|check| Some(check.err()?.to_string())).collect();
    ensure!(errors.is_empty(), "{}", errors.join("\n"));
    Ok(())
}

/// Returns the names of all tests of this program.
fn tests() -> Result<BTreeSet<String>> {
    let output = Command::new(env::current_exe()?).args(["--list", "--format=terse"]).output()?;
    let listed = String::from_utf8(output.stdout)?;
    Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
