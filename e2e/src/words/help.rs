//! The help of every command.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::Stage;

/// Help of the program, its commands and their subcommands.
#[derive(Debug)]
pub struct Help {
    /// Commands that the program lists.
    pub commands: Vec<String>,
    /// All help texts, each after the command line that prints it.
    pub text: String,
}

/// Runs `--help` for the program, and for the commands that its help lists, at any depth.
///
/// # Errors
/// Fails if a command prints no help.
pub fn collect(stage: &Stage) -> Result<Help> {
    let mut text = "All help, at 100 columns; written by `cargo xtask words`.\n".to_owned();
    let commands = add(stage, &[], &mut text)?;
    ensure!(commands.len() > 5, "the help lists no commands: {commands:?}");
    Ok(Help { commands, text })
}

/// Adds the help of one command and of its subcommands; returns the direct subcommands.
fn add(stage: &Stage, command: &[String], text: &mut String) -> Result<Vec<String>> {
    let help = help_of(stage, command)?;
    let line = [&["bintide".to_owned()], command, &["--help".to_owned()]].concat().join(" ");
    let rule = "=".repeat(100);
    let _ = write!(text, "\n{rule}\n$ {line}\n{rule}\n");
    for line in stage.normalize(&help).lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let below = listed(&help);
    for name in below.iter().filter(|name| *name != "help") {
        add(stage, &[command, std::slice::from_ref(name)].concat(), text)?;
    }
    Ok(below)
}

/// Returns the help of one command, without the values from this machine's option files.
fn help_of(stage: &Stage, command: &[String]) -> Result<String> {
    let help = run(stage, command, &["--help"])?;
    if help.contains("(after reading options)") {
        run(stage, command, &["--no-defaults", "--help"])
    } else {
        Ok(help)
    }
}

fn run(stage: &Stage, command: &[String], options: &[&str]) -> Result<String> {
    let output = stage.command("bintide").args(command).args(options).output()?;
    ensure!(output.status.success(), "bintide {} --help fails: {}", command.join(" "), output.status);
    String::from_utf8(output.stdout).with_context(|| format!("the help of {command:?} is not UTF-8"))
}

/// Returns the commands that a help text lists: below `Commands:`, indented by two.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn commands_are_read_from_the_help() {
        let help =
            "About.\n\nCommands:\n  one    First,\n         and more\n  two    Second\n\nOptions:\n  -x\n";
        assert_eq!(listed(help), ["one", "two"]);
        assert_eq!(listed("Options:\n  -x\n"), Vec::<String>::new());
    }
}
