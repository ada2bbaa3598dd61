//! Examples of messages, and the search for messages in text that may be an example of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use regex::Regex;

use super::templates::{self, SourceMessages};

/// Characters of a line before and after its message; the rest is left out.
const AROUND_MAX: usize = 60;

/// Length of a message without placeholders that is recognized anywhere in a line.
const CLEAR_LEN: usize = 20;

/// Shortest text without placeholders by which a message is recognized.
const LITERAL_MIN: usize = 5;

/// Example of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessageExample {
    /// Name of the test that has the message.
    pub(super) test: String,
    pub(super) line: String,
}

/// Examples by source file and message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageExamples(pub(super) BTreeMap<(String, String), MessageExample>);

impl MessageExamples {
    /// Checks whether a message has an example.
    pub(super) fn has(&self, file: &str, message: &str) -> bool {
        self.0.contains_key(&(file.to_owned(), message.to_owned()))
    }

    /// Returns the examples as text, in the order of the sources.
    pub(super) fn text(&self, preamble: &str, sources: &[SourceMessages]) -> String {
        let mut text = preamble.to_owned();
        for source in sources {
            let mut heading = format!("\n{}\n", source.file);
            for message in &source.messages {
                if let Some(example) = self.0.get(&(source.file.clone(), message.clone())) {
                    text.push_str(&heading);
                    heading.clear();
                    let _ = writeln!(text, "# {message}\n  {}\n  {}", example.test, example.line);
                }
            }
        }
        text
    }
}

/// Pattern that finds a message in a line.
#[derive(Debug)]
pub(super) struct MessageMatcher {
    pattern: Regex,
    /// Longest text without placeholders.
    literal: String,
    /// All texts without placeholders.
    literals: Vec<String>,
    /// Length of these texts.
    size: usize,
    /// The whole text is too short to be recognized within other words.
    pub(super) is_short: bool,
}

impl MessageMatcher {
    pub(super) fn new(message: &str) -> Self {
        let literals = templates::literals(message);
        let size = literals.iter().map(|text| text.trim().len()).sum::<usize>();
        let is_short = size < CLEAR_LEN;
        // A short text counts only where a clause or a value can begin.
        let mut pattern = if is_short {
            r#"(?:^|: |; |, |expected |found |got |\(|\||  |>|")"#.to_owned()
        } else {
            String::new()
        };
        let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        if is_word(literals.first().and_then(|text| text.chars().next())) {
            pattern.push_str(r"\b");
        }
        let texts: Vec<String> = literals.iter().map(|text| regex::escape(text)).collect();
        pattern.push_str(&texts.join(".*?"));
        if is_word(literals.last().and_then(|text| text.chars().last())) {
            pattern.push_str(r"\b");
        }
        let literal = literals.iter().max_by_key(|text| text.len()).cloned().unwrap_or_default();
        let pattern = Regex::new(&pattern).expect("ours: escaped texts are a valid pattern");
        Self { pattern, literal, literals, size, is_short }
    }

    /// Checks whether a line contains the message. Messages that are almost only placeholders match no line.
    pub(super) fn is_match(&self, line: &str) -> bool {
        self.literal.trim().len() >= LITERAL_MIN
            && line.contains(&self.literal)
            && self.pattern.is_match(line)
    }

    /// Returns the line, shortened around the message.
    pub(super) fn shortened(&self, line: &str) -> String {
        let Some(found) = self.pattern.find(line) else { return line.to_owned() };
        let before: Vec<char> = line[..found.start()].chars().collect();
        let after: Vec<char> = line[found.end()..].chars().collect();
        let mut text = String::new();
        if before.len() > AROUND_MAX {
            text.push('…');
        }
        text.extend(&before[before.len().saturating_sub(AROUND_MAX)..]);
        text.push_str(found.as_str());
        text.extend(&after[..after.len().min(AROUND_MAX)]);
        if after.len() > AROUND_MAX {
            text.push('…');
        }
        text.trim().to_owned()
    }
}

/// Returns a pattern of the lines that can contain one of these messages.
pub(super) fn any_of<'m>(messages: impl Iterator<Item = &'m MessageMatcher>) -> Regex {
    let literals = messages.map(|message| &message.literal).filter(|text| text.trim().len() >= LITERAL_MIN);
    let literals: Vec<String> = literals.map(|text| regex::escape(text)).collect();
    Regex::new(&literals.join("|")).expect("ours: escaped texts are a valid pattern")
}

/// All messages: the text of one may be a part of a longer one.
#[derive(Debug)]
pub(super) struct AllMessages {
    messages: Vec<MessageMatcher>,
}

impl AllMessages {
    pub(super) fn new(sources: &[SourceMessages]) -> Self {
        let messages = sources.iter().flat_map(|source| &source.messages);
        Self { messages: messages.map(|message| MessageMatcher::new(message)).collect() }
    }

    /// Returns the messages that contain the text of a message, and more.
    pub(super) fn longer_than(&self, message: &MessageMatcher) -> Vec<&MessageMatcher> {
        let own = message.literal.trim();
        let longer = self.messages.iter().filter(|other| other.size > message.size);
        longer.filter(|other| other.literals.iter().any(|text| text.contains(own))).collect()
    }
}

/// Checks whether a line is an example of a message, and not of a longer one.
pub(super) fn is_example(message: &MessageMatcher, longer: &[&MessageMatcher], line: &str) -> bool {
    message.is_match(line) && !longer.iter().any(|other| other.is_match(line))
}

#[cfg(test)]
mod tests {
    use super::MessageMatcher;

    #[test]
    fn short_messages_are_whole_clauses() {
        let check = |message: &str, line: &str, expected: bool| {
            assert_eq!(MessageMatcher::new(message).is_match(line), expected, "{message}: {line}");
        };
        check("no memory", "bintide: no memory", true);
        check("no memory", "there is no memory", false);
        check("0 or 1", "byte 4: flag is 7, expected 0 or 1", true);
        check("the log {name} is not there any more", "bintide: the log a.1 is not there any more: x", true);
        check("{a}{b}", "bintide", false);
    }

    #[test]
    fn long_lines_are_shortened() {
        let message = MessageMatcher::new("the log {name} is not there any more");
        let line = format!("{}: the log a.1 is not there any more: {}", "x".repeat(100), "y".repeat(100));
        let shortened = message.shortened(&line);
        assert!(
            shortened.starts_with("…x") && shortened.ends_with("y…") && shortened.len() < 180,
            "{shortened}"
        );
    }
}
