//! The commands in README.md and docs/. A `console` block shows commands and their output: they run, and the output
//! must be the same. In an `sh` block, bintide must accept the arguments of each `bintide` command.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use e2e::words::{self, Stage};
use testkit::workspace_root;

/// Line, or end of a line, that stands for output that is not shown.
const CUT: &str = "…";

/// Minimum numbers of blocks of each kind: with fewer, the search for them is broken.
const CONSOLE_BLOCKS_MIN: usize = 15;
const SHELL_BLOCKS_MIN: usize = 30;

/// A fenced block of a page.
struct Block<'t> {
    /// Number of the first line inside, from 0.
    start: usize,
    language: &'t str,
    lines: Vec<&'t str>,
}

#[test]
fn shown_output_is_the_real_output() -> Result<()> {
    let (stage, mut count) = (Stage::new()?, 0);
    let mut differences = Vec::new();
    for path in pages()? {
        let text = fs::read_to_string(&path)?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // From the end, so that the line numbers of earlier blocks stay valid.
        for block in blocks(&text).iter().rev().filter(|block| block.language == "console") {
            count += 1;
            let actual = run_block(&stage, block).with_context(|| format!("in {}", path.display()))?;
            if let Some(difference) = difference(&block.lines, &actual) {
                differences.push(format!("{}:{}: {difference}", path.display(), block.start + 1));
                lines.splice(block.start..block.start + block.lines.len(), cut_as(&block.lines, &actual));
            }
        }
        if words::is_written() {
            fs::write(&path, lines.join("\n") + "\n")?;
        }
    }
    ensure!(count >= CONSOLE_BLOCKS_MIN, "only {count} console blocks");
    ensure!(
        differences.is_empty() || words::is_written(),
        "pages show other output than bintide prints; `cargo xtask words` updates them:\n{}",
        differences.join("\n")
    );
    Ok(())
}

#[test]
fn shown_commands_are_accepted() -> Result<()> {
    let (stage, mut count) = (Stage::new()?, 0);
    for path in pages()? {
        let text = fs::read_to_string(&path)?;
        for block in blocks(&text).iter().filter(|block| block.language == "sh") {
            count += 1;
            for command in commands(&block.lines) {
                let location = || format!("{}:{}: {command}", path.display(), block.start + 1);
                check_arguments(&stage, &command).with_context(location)?;
            }
        }
    }
    ensure!(count >= SHELL_BLOCKS_MIN, "only {count} sh blocks");
    Ok(())
}

/// Returns the paths of README.md and all pages of the book.
fn pages() -> Result<Vec<PathBuf>> {
    let mut pages = vec![workspace_root().join("README.md")];
    let mut directories = vec![workspace_root().join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    Ok(pages)
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut open): (Vec<Block<'_>>, Option<Block<'_>>) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => open = Some(Block { start: number + 1, language, lines: Vec::new() }),
            (None, Some(block)) => block.lines.push(line),
            (None, None) => {}
        }
    }
    blocks
}

/// Runs the commands of a block. Returns the lines that the block should have.
fn run_block(stage: &Stage, block: &Block<'_>) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for line in &block.lines {
        let Some(command) = line.strip_prefix("$ ") else { continue };
        lines.push((*line).to_owned());
        let output = stage
            .command("sh")
            .arg("-c")
            .arg(format!("{command} 2>&1"))
            .current_dir(workspace_root())
            .output()?;
        let text = String::from_utf8(output.stdout).with_context(|| format!("{command} prints no UTF-8"))?;
        lines.extend(text.lines().map(|line| line.trim_end().to_owned()));
    }
    ensure!(!lines.is_empty(), "a console block without a command");
    Ok(lines)
}

/// Describes the first difference between the shown lines and the actual ones.
fn difference(shown: &[&str], actual: &[String]) -> Option<String> {
    let mut rest = actual;
    let mut shown = shown.iter().peekable();
    while let Some(line) = shown.next() {
        if *line == CUT {
            let next = shown.peek()?;
            let found = rest.iter().position(|actual| is_shown_as(actual, next));
            rest = &rest[found.unwrap_or(rest.len())..];
            continue;
        }
        match rest.split_first() {
            Some((actual, after)) if is_shown_as(actual, line) => rest = after,
            actual => return Some(format!("shown: {line}\nactual: {}", actual.map_or("", |(line, _)| line))),
        }
    }
    rest.first().map(|line| format!("not shown: {line}"))
}

fn is_shown_as(actual: &str, shown: &str) -> bool {
    match shown.strip_suffix(CUT) {
        Some(start) => actual.starts_with(start),
        None => actual == shown.trim_end(),
    }
}

/// Cuts the actual lines where the shown lines are cut, with the same numbers of lines before and after the cut.
fn cut_as(shown: &[&str], actual: &[String]) -> Vec<String> {
    let Some(before) = shown.iter().position(|line| *line == CUT) else { return actual.to_vec() };
    let after = shown.len() - before - 1;
    let (start, end) =
        (before.min(actual.len()), actual.len().saturating_sub(after).max(before.min(actual.len())));
    [&actual[..start], &[CUT.to_owned()], &actual[end..]].concat()
}

/// Returns the `bintide` commands of a shell block, up to a pipe.
fn commands(lines: &[&str]) -> Vec<String> {
    let text = lines.join("\n").replace("\\\n", " ");
    let parts = text.lines().flat_map(|line| line.split(" | ")).map(str::trim);
    let starts = parts
        .filter_map(|part| part.find("bintide ").filter(|at| is_command(&part[..*at])).map(|at| &part[at..]));
    starts.map(str::to_owned).collect()
}

/// Checks whether the words before `bintide` keep it a command: none, `sudo`, variables.
fn is_command(before: &str) -> bool {
    before.split_whitespace().all(|word| word == "sudo" || word.contains('='))
}

/// Runs the command with `--help`, which the parser reaches only past arguments that it accepts.
fn check_arguments(stage: &Stage, command: &str) -> Result<()> {
    let command = command.split(['>', '&', '<']).next().unwrap_or(command);
    let command = command.split(" # ").next().unwrap_or(command);
    let output = stage
        .command("sh")
        .arg("-c")
        .arg(format!("{command} --help"))
        .current_dir(workspace_root())
        .output()?;
    if !output.status.success() {
        bail!("bintide does not accept the arguments: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
