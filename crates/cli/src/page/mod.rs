//! Pages that need nothing else: no script, no font, no picture from elsewhere. They follow the reader's light or dark
//! setting, and print well.

pub(crate) mod chart;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, anyhow};
use binlog::{MAGIC, MAGIC_ENCRYPTED};
use logs::open_regular;

use crate::exit::Failure;

/// Refuses a page that could not be written, before the work begins. `--html` in front of the logs takes the first of them
/// for the page's name: no log is written over.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    let mut magic = [0; 4];
    let is_log = open_regular(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && (magic == MAGIC || magic == MAGIC_ENCRYPTED);
    match is_log {
        true => Err(Failure::NotBegun(anyhow!(
            "{} is a binary log; --html takes the page's name first",
            path.display()
        ))),
        false => try_to_open(path)
            .with_context(|| format!("could not write {}", path.display()))
            .map_err(Failure::NotBegun),
    }
}

/// Can the file be written? It is left as it is.
fn try_to_open(path: &Path) -> io::Result<()> {
    let is_there = match fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        // Opened, a pipe would wait for its reader.
        _ => return Ok(()),
    };
    fs::OpenOptions::new().append(true).create(true).open(path)?;
    if is_there { Ok(()) } else { fs::remove_file(path) }
}

/// Writes a page to a file, or, for `-`, to standard output.
pub(crate) fn write(page: &str, path: &Path, out: &mut impl Write) -> Result<(), Failure> {
    match path.as_os_str() == "-" {
        true => out.write_all(page.as_bytes())?,
        false => fs::write(path, page).with_context(|| format!("could not write {}", path.display()))?,
    }
    Ok(())
}

/// A page of sections; those without content are left out.
pub(crate) fn page(command: &str, title: &str, sections: &[(&str, String)]) -> String {
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

/// Names and their values, one below the other. Values are HTML.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let mut list = "<dl>\n".to_owned();
    for (name, value) in pairs {
        let value = if value.is_empty() { "none" } else { value };
        let _ = writeln!(list, "<dt>{name}</dt><dd>{value}</dd>");
    }
    list + "</dl>\n"
}

/// Nothing if there are no rows. Cells are HTML; a name that starts with `>` is of a column of numbers.
pub(crate) fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut body = String::new();
    let class = |column: &str| if column.starts_with('>') { " class=\"number\"" } else { "" };
    for row in rows {
        let cells = columns.iter().zip(row).map(|(column, cell)| format!("<td{}>{cell}</td>", class(column)));
        let _ = writeln!(body, "<tr>{}</tr>", cells.collect::<String>());
    }
    if body.is_empty() {
        return body;
    }
    let names =
        columns.iter().map(|column| format!("<th{}>{}</th>", class(column), column.trim_start_matches('>')));
    format!("<table>\n<tr>{}</tr>\n{body}</table>\n", names.collect::<String>())
}

/// Names and versions come from logs and file names: they must stay text.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
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
    use super::escaped;

    #[test]
    fn names_stay_text() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
