//! Rules for lines and functions of source files.

use std::path::Path;

use anyhow::Result;
use regex::Regex;

use super::{File, Finding};

/// Maximum length of a function in lines.
const FUNCTION_LINES_MAX: usize = 70;

/// Crates that open no sockets. Their callers pass the bytes.
const SOCKETLESS_CRATES: [&str; 5] = ["binlog", "list", "relay", "sql", "wire"];

/// Pattern that no line of these files may match.
struct Rule {
    pattern: Regex,
    /// Pattern of lines that are allowed although they match.
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
    }
    Ok(findings)
}

/// Returns whether this is the file with the patterns.
fn is_list_of_rules(file: &File) -> bool {
    file.path.ends_with("tidy/sources.rs")
}

fn is_socketless(file: &File) -> bool {
    SOCKETLESS_CRATES.iter().any(|name| file.path.starts_with(Path::new("crates").join(name).join("src")))
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
        Rule {
            // Addresses without sockets, such as `IpAddr`, are allowed.
            pattern: Regex::new(
                r"\b(Tcp(Stream|Listener)|UdpSocket|Unix(Stream|Listener|Datagram)|ToSocketAddrs)\b",
            )?,
            except: None,
            applies: |file| file.is_rust() && is_socketless(file),
            what: "a socket in a crate without sockets",
        },
    ])
}

/// Finds functions that are too long. A function ends at the closing brace with its own indentation, which rustfmt
/// guarantees.
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
        let socket = "let socket = TcpStream::connect(address);\n";
        assert_eq!(findings("crates/relay/src/a.rs", socket), ["a socket in a crate without sockets"]);
        assert_eq!(findings("crates/relay-server/src/a.rs", socket), [""; 0]);
        assert_eq!(findings("crates/relay/src/a.rs", "use std::net::IpAddr;\n"), [""; 0]);
        let long = format!("fn long() {{\n{}}}\n", "    x();\n".repeat(69));
        assert_eq!(findings("a.rs", &long), ["long has 71 lines"]);
    }
}
