//! HTML pages without external parts: no font or picture, and a script only in the live page of a relay. The pages
//! follow the reader's light or dark setting, and print well.

pub(crate) mod chart;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, anyhow};
use logs::{FileAccess, link_target, replace_file, starts_as_log};

use crate::exit::CommandFailure;
use crate::screen::visible;

/// Refuses a page that could not be written, before the work begins. Also refuses to overwrite a log: without a file
/// name, `--html` before the logs would take the first log as the page's name.
pub(crate) fn check(path: &Path) -> Result<(), CommandFailure> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    match starts_as_log(path) {
        true => Err(CommandFailure::NotStarted(anyhow!(
            "{} is a binary log: --html needs the file name of the page",
            path.display()
        ))),
        false => check_writable(path)
            .with_context(|| format!("could not write {}", path.display()))
            .map_err(CommandFailure::NotStarted),
    }
}

/// Checks that the file can be written, without changing it.
fn check_writable(path: &Path) -> io::Result<()> {
    let is_there = match fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        // Opening a pipe would wait for its reader.
        _ => return Ok(()),
    };
    fs::OpenOptions::new().append(true).create(true).open(path)?;
    if is_there {
        return Ok(());
    }
    // If `path` is a link, only its target is new.
    fs::remove_file(fs::canonicalize(path)?)
}

/// Writes a page to a file, or for `-` to standard output. A file has its old content until the page is complete.
pub(crate) fn write(page: &str, path: &Path, out: &mut impl Write) -> Result<(), CommandFailure> {
    if path.as_os_str() == "-" {
        return Ok(out.write_all(page.as_bytes())?);
    }
    let target = link_target(path);
    let written = match fs::metadata(&target) {
        // A device or a pipe cannot be replaced.
        Ok(found) if !found.is_file() => fs::write(path, page),
        _ => match replace_file(&target, page.as_bytes(), FileAccess::Shared) {
            // The directory may be another user's.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => fs::write(path, page),
            written => written,
        },
    };
    Ok(written.with_context(|| format!("could not write {}", path.display()))?)
}

/// Returns the live page of a relay. Unlike the other pages, it has a script, which follows the relay.
pub(crate) fn relay_page() -> String {
    include_str!("relay_page.html").replace("/* page.css */\n", include_str!("page.css"))
}

/// Returns a page of sections. Empty sections are omitted.
pub(crate) fn render_page(command: &str, title: &str, sections: &[(&str, String)]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>bintide {command}: {title}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n",
        include_str!("page.css"),
        title = escaped(title)
    );
    for (name, section) in sections.iter().filter(|(_, section)| !section.is_empty()) {
        let _ = writeln!(page, "<section>\n<h2>{name}</h2>\n{section}</section>");
    }
    page + "</body>\n</html>\n"
}

/// Returns a list of names and values. Values are HTML.
pub(crate) fn render_pairs(pairs: &[(&str, String)]) -> String {
    let mut list = "<dl>\n".to_owned();
    for (name, value) in pairs {
        let value = if value.is_empty() { "none" } else { value };
        let _ = writeln!(list, "<dt>{name}</dt><dd>{value}</dd>");
    }
    list + "</dl>\n"
}

/// Maximum length of a cell in one line, in bytes. Longer cells have several lines.
const LINE_LENGTH_MAX: usize = 60;

/// Returns a table, or nothing without rows. Cells are HTML. A column name that starts with `>` marks a column of
/// numbers.
pub(crate) fn render_table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut body = String::new();
    let class = |column: &str| if column.starts_with('>') { " class=\"number\"" } else { "" };
    for row in rows {
        let cells = columns.iter().zip(row).map(|(column, cell)| {
            let class = if cell.len() > LINE_LENGTH_MAX { " class=\"text\"" } else { class(column) };
            format!("<td{class}>{cell}</td>")
        });
        let _ = writeln!(body, "<tr>{}</tr>", cells.collect::<String>());
    }
    if body.is_empty() {
        return body;
    }
    let names =
        columns.iter().map(|column| format!("<th{}>{}</th>", class(column), column.trim_start_matches('>')));
    format!("<div class=\"scroll\"><table>\n<tr>{}</tr>\n{body}</table></div>\n", names.collect::<String>())
}

/// Returns the directory that contains all logs; empty if there is none. Tables show the logs' paths below it.
pub(crate) fn common_directory<'n>(mut names: impl Iterator<Item = &'n str>) -> &'n Path {
    let none = Path::new("");
    let first = names.next().and_then(|name| Path::new(name).parent()).unwrap_or(none);
    let common = names.fold(first, |common, name| {
        common.ancestors().find(|directory| Path::new(name).starts_with(directory)).unwrap_or(none)
    });
    if common.parent().is_some() { common } else { none }
}

/// Returns a log's path below a directory, as HTML.
pub(crate) fn log_below(directory: &Path, name: &str) -> String {
    let below = Path::new(name).strip_prefix(directory).ok().and_then(Path::to_str);
    escaped(below.unwrap_or(name))
}

/// Escapes text for HTML, and control characters as on a terminal. Names and versions come from logs and file names.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{common_directory, escaped, log_below, relay_page};

    #[test]
    fn tables_show_logs_below_their_common_directory() {
        for (names, directory, last) in [
            (&["/data/a.000001", "/data/a.000002"][..], "/data", "a.000002"),
            (&["/data/x/a.000001", "/data/y/a.000001"][..], "/data", "y/a.000001"),
            (&["/x/a.000001", "/y/a.000001"][..], "", "/y/a.000001"),
            (&["data/a.000001"][..], "data", "a.000001"),
            (&["data/a.000001", "standard input"][..], "", "standard input"),
            (&["a.000001"][..], "", "a.000001"),
        ] {
            let found = common_directory(names.iter().copied());
            assert_eq!(
                (found, log_below(found, names[names.len() - 1]).as_str()),
                (Path::new(directory), last)
            );
        }
    }

    #[test]
    fn the_live_page_has_no_external_parts() {
        let page = relay_page();
        assert!(page.contains("--paper") && !page.contains("page.css"), "the style sheet is not in the page");
        for outside in ["http:", "https:", " src=", "@import", "url("] {
            // The namespace of SVG is a name, not an address.
            let allowed = page.replace(&["http:", "//www.w3.org/2000/svg"].concat(), "");
            assert!(!allowed.contains(outside), "{outside}");
        }
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
        assert_eq!(escaped("\u{1b}[31m \u{202e}"), "\\u{1b}[31m \\u{202e}");
    }
}
