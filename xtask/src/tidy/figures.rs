//! Compares figures of names, comments and assertions with the checked-in limits.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use regex::Regex;
use serde::Deserialize;

use super::{File, Finding};

/// The checked-in figures, from the root of the workspace.
const LIMITS_PATH: &str = "xtask/src/tidy/figures.toml";

/// Directories of crates that store logs or apply changes. Their code must contain assertions.
const ASSERTING_CRATES: [&str; 5] =
    ["crates/logs", "crates/mysql-target", "crates/receive", "crates/replay", "crates/sqlite-target"];

/// Percentages may differ by this much: a rename elsewhere changes the total.
const TOLERANCE_PERCENT: f64 = 0.05;

/// The worst values that the figures may have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    at_most: BTreeMap<String, f64>,
    at_least: BTreeMap<String, f64>,
}

/// A figure, and the lines that it counts.
#[derive(Default)]
struct Figure {
    value: f64,
    findings: Vec<Finding>,
}

/// Lines that the figures count, from one pass over the sources.
#[derive(Default)]
struct Census {
    types: Vec<Finding>,
    docs: usize,
    question_docs: Vec<Finding>,
    vague_phrases: Vec<Finding>,
    functions: usize,
    assertions: usize,
}

/// Measures the sources, and finds the figures that are worse than those checked in.
///
/// # Errors
/// Fails if the checked-in figures cannot be read.
pub(super) fn check(root: &Path, files: &[File]) -> Result<Vec<Finding>> {
    let path = root.join(LIMITS_PATH);
    let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
    let limits: Limits =
        toml::from_str(&text).with_context(|| format!("could not parse {}", path.display()))?;
    let figures = figures(&Census::of(files)?);
    let mut findings = Vec::new();
    for (name, worst) in &limits.at_most {
        let figure = figures.get(name.as_str()).with_context(|| format!("no figure is called {name}"))?;
        if figure.value > worst + TOLERANCE_PERCENT {
            findings.extend(figure.findings.iter().cloned());
            findings.push(worse(name, figure.value, "at most", *worst));
        }
    }
    for (name, worst) in &limits.at_least {
        let figure = figures.get(name.as_str()).with_context(|| format!("no figure is called {name}"))?;
        if figure.value < worst - TOLERANCE_PERCENT {
            findings.push(worse(name, figure.value, "at least", *worst));
        }
    }
    let shown = figures.iter().fold(String::new(), |mut shown, (name, figure)| {
        let _ = write!(shown, " {name}={:.1}", figure.value);
        shown
    });
    println!("tidy:{shown}");
    Ok(findings)
}

fn worse(name: &str, value: f64, bound: &str, worst: f64) -> Finding {
    let what = format!("{name} is {value:.1}; expected {bound} {worst:.1}");
    Finding { path: PathBuf::from(LIMITS_PATH), line: 0, what }
}

impl Census {
    fn of(files: &[File]) -> Result<Self> {
        let patterns = Patterns::new()?;
        let mut census = Self::default();
        for file in files.iter().filter(|file| is_measured(file)) {
            census.count(file, &patterns);
        }
        Ok(census)
    }

    fn count(&mut self, file: &File, patterns: &Patterns) {
        let asserts = ASSERTING_CRATES.iter().any(|directory| file.path.starts_with(directory));
        let mut was_doc = false;
        for (index, line) in without_tests(&file.text).lines().enumerate() {
            let finding = |text: &str| file.finding(index + 1, text);
            let line = line.trim_start();
            let is_doc = line.starts_with("///");
            if is_doc && !was_doc {
                self.docs += 1;
                self.question_docs.extend(patterns.question.is_match(line).then(|| finding(line)));
            }
            was_doc = is_doc;
            if let Some(start) = line.find("//") {
                let phrases = patterns.vague_phrase.find_iter(&line[start..]);
                self.vague_phrases.extend(phrases.map(|_| finding(line)));
            }
            // Events have the names that the format gives them.
            let is_event = file.path.starts_with("crates/binlog/src/events");
            if let (Some(found), false) = (patterns.type_name.captures(line), is_event) {
                self.types.push(finding(&found[1]));
            }
            if asserts {
                self.functions += usize::from(patterns.function.is_match(line));
                self.assertions += usize::from(patterns.assertion.is_match(line));
            }
        }
    }
}

struct Patterns {
    question: Regex,
    vague_phrase: Regex,
    type_name: Regex,
    function: Regex,
    assertion: Regex,
}

impl Patterns {
    fn new() -> Result<Self> {
        Ok(Self {
            question: Regex::new(r"^///\s*(What|How|Where|Which|Who|Whether|When|Whose|Why)\b")?,
            vague_phrase: Regex::new(
                r"(?i-u)\b(so many|so much|nobody|somebody|whoever|by then|that is there)\b",
            )?,
            type_name: Regex::new(r"^(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait|union)\s+([A-Z]\w*)")?,
            function: Regex::new(
                r"^(?:pub(?:\([^)]*\))?\s+)?(?:const\s+|async\s+|unsafe\s+|extern\s+\S+\s+)*fn\s",
            )?,
            assertion: Regex::new(r"\b(debug_)?assert(_eq|_ne)?!\(")?,
        })
    }
}

/// Returns whether a file is a source of the program or of xtask, and no test.
fn is_measured(file: &File) -> bool {
    let is_source = file.path.starts_with("crates") || file.path.starts_with("xtask");
    let stem = file.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let is_test = file.path.components().any(|part| part.as_os_str() == "tests") || stem.ends_with("tests");
    // This file holds the phrases themselves.
    file.is_rust() && is_source && !is_test && !file.path.ends_with("tidy/figures.rs")
}

fn without_tests(text: &str) -> &str {
    let start = text.find("\n#[cfg(test)]\nmod tests {");
    start.map_or(text, |start| &text[..=start])
}

#[expect(clippy::cast_precision_loss, reason = "counts of lines are far below 2^53")]
fn figures(census: &Census) -> BTreeMap<&'static str, Figure> {
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for finding in &census.types {
        *by_name.entry(&finding.what).or_default() += 1;
    }
    let types = |is_counted: &dyn Fn(&str) -> bool| -> Vec<Finding> {
        census.types.iter().filter(|finding| is_counted(&finding.what)).cloned().collect()
    };
    let percent = |findings: Vec<Finding>, all: usize| Figure {
        value: 100.0 * findings.len() as f64 / all.max(1) as f64,
        findings,
    };
    let count = |findings: Vec<Finding>| Figure { value: findings.len() as f64, findings };
    let question_docs = census.question_docs.clone();
    let phrases = census.vague_phrases.clone();
    let assertions = 100.0 * census.assertions as f64 / census.functions.max(1) as f64;
    BTreeMap::from([
        ("one_word_types_percent", percent(types(&|name| words(name).len() == 1), census.types.len())),
        ("shared_type_names_percent", percent(types(&|name| by_name[name] > 1), census.types.len())),
        ("participle_types", count(types(&is_participle))),
        ("question_docs_percent", percent(question_docs, census.docs)),
        ("vague_phrases", count(phrases)),
        ("assertions_per_100_functions", Figure { value: assertions, findings: Vec::new() }),
    ])
}

/// Returns the words of a name in camel case.
fn words(name: &str) -> Vec<&str> {
    let is_upper = |at: usize| name.as_bytes().get(at).is_some_and(u8::is_ascii_uppercase);
    // A word begins at a capital letter, unless it is amid an abbreviation: the P of `HTTPServer`.
    let begins = |at: usize| {
        at == 0 || is_upper(at) && (!is_upper(at - 1) || at + 1 < name.len() && !is_upper(at + 1))
    };
    let starts: Vec<usize> = (0..name.len()).filter(|at| begins(*at)).collect();
    let ends = starts.iter().skip(1).copied().chain([name.len()]);
    starts.iter().zip(ends).map(|(start, end)| &name[*start..end]).collect()
}

/// Checks whether the name ends in a participle, or is a gerund.
fn is_participle(name: &str) -> bool {
    const IRREGULAR: [&str; 24] = [
        "Away", "Begun", "Broken", "Built", "Chosen", "Fed", "Found", "Given", "Gone", "Had", "Held", "Kept",
        "Known", "Left", "Lent", "Lost", "Made", "Meant", "Met", "Said", "Sent", "Taken", "Told", "Written",
    ];
    const NOUNS: [&str; 10] = [
        "Encoding", "Feed", "Finding", "Greeting", "Keyring", "Ordering", "Seed", "Shared", "Speed", "String",
    ];
    let words = words(name);
    let last = words.last().copied().unwrap_or_default();
    let is_gerund = words.len() == 1 && last.ends_with("ing");
    IRREGULAR.contains(&last) || (last.ends_with("ed") || is_gerund) && !NOUNS.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(text: &str) -> Census {
        let file = File { path: PathBuf::from("crates/logs/src/a.rs"), text: text.to_owned() };
        Census::of(&[file]).unwrap()
    }

    #[test]
    fn names_fall_into_words() {
        assert_eq!(words("Gtid"), ["Gtid"]);
        assert_eq!(words("GtidSet"), ["Gtid", "Set"]);
        assert_eq!(words("TLSPolicy"), ["TLS", "Policy"]);
        assert_eq!(words("Base64"), ["Base64"]);
    }

    #[test]
    fn participles_name_no_thing() {
        assert!(is_participle("Joined") && is_participle("RowsHeld") && is_participle("Fetching"));
        assert!(!is_participle("Feed") && !is_participle("HeldRows") && !is_participle("Keyring"));
    }

    #[test]
    fn figures_count_lines() {
        let text = "/// How many.\n/// How so.\nstruct Held;\n/// Rows, for nobody.\nenum Held {}\nfn a() {\n    assert!(true);\n}\n\
                    #[cfg(test)]\nmod tests {\nfn b() {}\n}\n";
        let figures = figures(&census(text));
        let value = |name: &str| figures[name].value;
        assert_eq!(value("one_word_types_percent"), 100.0);
        assert_eq!(value("shared_type_names_percent"), 100.0);
        assert_eq!(value("participle_types"), 2.0);
        assert_eq!(value("question_docs_percent"), 50.0);
        assert_eq!(value("vague_phrases"), 1.0);
        assert_eq!(value("assertions_per_100_functions"), 100.0);
    }
}
