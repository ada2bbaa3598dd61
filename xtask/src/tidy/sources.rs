//! What every line and every function must hold to.

use anyhow::Result;
use regex::Regex;

use super::{File, Finding};

/// A function longer than this is read twice and understood once.
const FUNCTION_LINES_MAX: usize = 70;

/// Something that no line of some kind of file may hold.
struct Rule {
    pattern: Regex,
    /// Lines that match this too are fine.
    except: Option<Regex>,
    applies: fn(&File) -> bool,
    what: &'static str,
}

pub(super) fn check(files: &[File]) -> Result<Vec<Finding>> {
    let rules = rules()?;
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !is_list_of_rules(file)) {
        for (index, line) in file.text.lines().enumerate() {
            let broken = rules.iter().filter(|rule| (rule.applies)(file) && rule.is_broken_by(line));
            findings.extend(broken.map(|rule| file.finding(index + 1, rule.what)));
        }
        if file.is_rust() {
            findings.extend(long_functions(file)?);
        }
        if file.path.starts_with("crates") && file.path.ends_with("src/lib.rs") && !says_never(&file.text) {
            findings.push(file.finding(0, "the crate does not say at its top what it never does"));
        }
    }
    Ok(findings)
}

/// This file holds the patterns themselves.
fn is_list_of_rules(file: &File) -> bool {
    file.path.ends_with("tidy/sources.rs")
}

impl Rule {
    fn is_broken_by(&self, line: &str) -> bool {
        self.pattern.is_match(line) && !self.except.as_ref().is_some_and(|except| except.is_match(line))
    }
}

fn rules() -> Result<Vec<Rule>> {
    let any = |file: &File| file.extension() != "lock";
    Ok(vec![
        Rule {
            pattern: Regex::new(r"\b(todo|unimplemented)!\(|\b(TODO|FIXME|XXX|HACK)\b")?,
            except: None,
            applies: |file| file.is_code() || file.is_document(),
            what: "left open",
        },
        Rule {
            pattern: Regex::new(r"(^|[^a-zA-Z0-9_.$}*])/(work|root|farm|opt|home)/")?,
            except: None,
            applies: any,
            what: "a path of one machine",
        },
        Rule {
            pattern: Regex::new(r"https?://[a-zA-Z0-9.-]+\.[a-z]{2,}")?,
            except: Some(Regex::new(r"^\s*(//|#)|https?://(localhost|127\.0|([a-z0-9-]+\.)*example\.)")?),
            applies: |file| file.is_code(),
            what: "an address outside a comment",
        },
        Rule {
            pattern: Regex::new(r#"#\[ignore|eprintln!\("skip"#)?,
            except: None,
            applies: File::is_rust,
            what: "a test that may not run",
        },
        Rule {
            pattern: Regex::new(r"[ \t]+$")?,
            except: None,
            applies: |file| file.is_code() || file.is_document(),
            what: "blanks at the end of the line",
        },
    ])
}

/// The comment at the head of the crate names something that it never does.
fn says_never(text: &str) -> bool {
    text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains("never"))
}

/// Functions from their first line to the brace that closes them, by indentation, which rustfmt vouches for.
fn long_functions(file: &File) -> Result<Vec<Finding>> {
    let head = Regex::new(r"^(\s*)(?:pub(?:\([^)]*\))?\s+)?(?:const\s+|async\s+|unsafe\s+)*fn\s+(\w+)")?;
    let lines: Vec<&str> = file.text.lines().collect();
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(found) = head.captures(line) else { continue };
        let rest = &lines[index..];
        let signature_end = rest.iter().find(|line| line.ends_with(['{', '}', ';']));
        if signature_end.is_none_or(|line| line.ends_with(';')) {
            continue; // A declaration without a body.
        }
        let close = format!("{}}}", &found[1]);
        let length = rest.iter().position(|line| *line == close).map_or(0, |last| last + 1);
        if length > FUNCTION_LINES_MAX {
            findings.push(file.finding(index + 1, format!("{} has {length} lines", &found[2])));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::check;
    use crate::tidy::File;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let file = File { path: PathBuf::from(path), text: text.to_owned() };
        check(&[file]).unwrap().into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn rules_find_what_they_forbid() {
        assert_eq!(findings("a.rs", "// TODO later\n"), ["left open"]);
        assert_eq!(findings("a.rs", "let x = \"/home/me/x\";\n"), ["a path of one machine"]);
        assert_eq!(findings("a.rs", "let x = \"https://host.net/x\";\n"), ["an address outside a comment"]);
        assert_eq!(findings("a.rs", "// https://host.net/x\nlet y = \"http://example.org\";\n"), [""; 0]);
        assert_eq!(findings("crates/x/src/lib.rs", "//! Does all.\n").len(), 1);
        assert_eq!(findings("crates/x/src/lib.rs", "//! It never sleeps.\n"), [""; 0]);
        let long = format!("fn long() {{\n{}}}\n", "    x();\n".repeat(69));
        assert_eq!(findings("a.rs", &long), ["long has 71 lines"]);
    }
}
