//! Compares all text that a user can see with the reviewed text in `e2e/words/`. `cargo xtask words` updates it.

use anyhow::{Result, ensure};
use e2e::words::messages::Script;
use e2e::words::{self, MESSAGES, Stage, help, templates};

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

/// One test, because the marks of the templates depend on the messages.
#[test]
fn messages_and_templates_are_as_reviewed() -> Result<()> {
    let now = Script::parse(&words::read(MESSAGES)?)?.run(&Stage::new()?)?;
    let templates = templates::collect(&now, &help::collect(&Stage::new()?)?.text)?;
    let (messages, templates) = (words::check(MESSAGES, &now), words::check("templates.txt", &templates));
    // Report both differences.
    match (messages, templates) {
        (Err(messages), Err(templates)) => Err(templates.context(messages.to_string())),
        (messages, templates) => messages.and(templates),
    }
}
