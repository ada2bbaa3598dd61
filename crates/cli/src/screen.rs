//! Terminal output: colour, tables, and standard output.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use clap::{ColorChoice, ValueEnum};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use mysqlbinlog::is_control_or_bidi;

/// Value of `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// Colour on a terminal, unless NO_COLOR is set
    Auto,
    /// Colour also in files and pipes
    Always,
    /// No colour
    Never,
}

impl ColorWhen {
    /// Returns whether to use colour on standard output.
    pub(crate) fn on_stdout(self) -> bool {
        use_color(self, env::var_os("NO_COLOR"), io::stdout().is_terminal())
    }
}

/// Decides on colour by the rules of <https://no-color.org>: the variable counts if it is set and not empty. The option
/// has priority over the variable.
fn use_color(when: ColorWhen, no_color: Option<OsString>, is_terminal: bool) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => is_terminal && no_color.is_none_or(|value| value.is_empty()),
    }
}

/// Returns the colour setting for help and usage, which clap prints before it has parsed the options.
pub(crate) fn color_of_help(args: &[OsString]) -> ColorChoice {
    let mut texts = args.iter().filter_map(|arg| arg.to_str());
    while let Some(text) = texts.next() {
        let value = match text {
            "--color" => texts.next(),
            _ => text.strip_prefix("--color="),
        };
        match value {
            Some("always") => return ColorChoice::Always,
            Some("never") => return ColorChoice::Never,
            _ => {}
        }
    }
    ColorChoice::Auto
}

/// Style of a report, with or without colour. The words are the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportStyle {
    pub(crate) is_colored: bool,
}

impl ReportStyle {
    pub(crate) const fn new(is_colored: bool) -> Self {
        Self { is_colored }
    }

    /// Returns the sections of a report, each with a heading. Empty sections are omitted.
    pub(crate) fn sections(self, sections: &[(&str, String)]) -> String {
        let mut text = String::new();
        for (name, section) in sections.iter().filter(|(_, section)| !section.is_empty()) {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&self.heading(name));
            text.push_str("\n\n");
            text.push_str(section);
        }
        text
    }

    /// Formats a heading.
    fn heading(self, text: &str) -> String {
        match self.is_colored {
            true => format!("\u{1b}[1m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    /// Formats a fault.
    pub(crate) fn highlight_fault(self, text: &str) -> String {
        match self.is_colored {
            true => format!("\u{1b}[31m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    /// Returns a table with these columns. A name that starts with `>` marks a column of numbers, aligned to the
    /// right.
    pub(crate) fn table(self, columns: &[&str]) -> Table {
        let mut table = self.pairs();
        let rule = LineStyle::none().fill('─').junction('─');
        table.load_style(TableStyle::new().header_separator(rule));
        let name = |column: &&str| Cell::new(column.trim_start_matches('>')).add_attribute(Attribute::Bold);
        table.set_header(columns.iter().map(name));
        for (index, column) in columns.iter().enumerate() {
            if let (true, Some(column)) = (column.starts_with('>'), table.column_mut(index)) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    /// Returns a table of names and values, without a header.
    pub(crate) fn pairs(self) -> Table {
        let mut table = Table::new();
        table.load_style(TableStyle::new());
        table.set_content_arrangement(ContentArrangement::Disabled);
        match self.is_colored {
            true => table.enforce_styling(),
            false => table.force_no_tty(),
        };
        table
    }
}

/// Returns the table's lines without trailing spaces.
pub(crate) fn table_lines(table: &Table) -> String {
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

/// Writes a text to standard error, as one line of printable characters.
pub(crate) fn write_line(text: impl Display) {
    // Use one write, so that lines of several threads do not mix. Ignore a closed standard error.
    let _ = io::stderr().write_all(format!("{}\n", visible(&text.to_string())).as_bytes());
}

/// Writes a report. Keeps its line ends and colours. Escapes all other control characters, which come from names and
/// messages.
pub(crate) fn print(report: &str, out: &mut impl Write) -> io::Result<()> {
    out.write_all(visible_lines(report).as_bytes())
}

/// Returns the result of printing a report for a command with a verdict: the exit code is that of the verdict, even if
/// the reader has closed the pipe.
pub(crate) fn unless_closed(printed: io::Result<()>) -> io::Result<()> {
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Escape sequences of a report's styles.
const STYLE_SEQUENCES: [&str; 4] = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[31m", "\u{1b}[39m"];

/// Keeps line ends and styles, and escapes all other control characters as [`visible`] does.
pub(crate) fn visible_lines(report: &str) -> String {
    let mut text = String::with_capacity(report.len());
    let mut rest = report;
    while let Some(at) = rest.find(is_control_or_bidi) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let kept = STYLE_SEQUENCES.iter().chain(&["\n"]).find(|kept| rest.starts_with(**kept));
        let size = kept.map_or_else(|| rest.chars().next().map_or(0, char::len_utf8), |kept| kept.len());
        let (part, after) = rest.split_at(size);
        match kept {
            Some(kept) => text.push_str(kept),
            None => text.push_str(&visible(part)),
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Escapes a name or message from a log, a server or a file system for a terminal: a character that moves the cursor
/// or hides text is shown as an escape, such as `\u{1b}`.
pub(crate) fn visible(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        match is_control_or_bidi(character) {
            true => text.extend(character.escape_unicode()),
            false => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{ColorWhen, use_color};

    #[test]
    fn colour_is_decided_by_option_then_environment_then_terminal() {
        assert!(use_color(ColorWhen::Always, Some("1".into()), false));
        assert!(!use_color(ColorWhen::Never, None, true));
        assert!(use_color(ColorWhen::Auto, None, true));
        assert!(!use_color(ColorWhen::Auto, None, false));
        assert!(!use_color(ColorWhen::Auto, Some("1".into()), true));
        assert!(use_color(ColorWhen::Auto, Some("".into()), true));
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        let check = |name, expected| assert_eq!(super::visible(name), expected);
        check("sbtest.größe 表", "sbtest.größe 表");
        check("a\u{1b}[2Jb\n", r"a\u{1b}[2Jb\u{a}");
        check("a\u{202e}b\u{9b}", r"a\u{202e}b\u{9b}");
    }

    #[test]
    fn reports_keep_their_lines_and_styles_only() {
        let check = |report, expected| assert_eq!(super::visible_lines(report), expected);
        check("", "");
        check("größe\n\u{1b}[1mlogs\u{1b}[0m\n", "größe\n\u{1b}[1mlogs\u{1b}[0m\n");
        check("a\u{1b}[2J\u{1b}[31mb\u{1b}[0m\r\n", "a\\u{1b}[2J\u{1b}[31mb\u{1b}[0m\\u{d}\n");
        check("\u{9b}2J\u{7f}\u{2028}", r"\u{9b}2J\u{7f}\u{2028}");
        check("\u{1b}", r"\u{1b}");
    }
}
