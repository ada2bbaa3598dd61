//! Examples of messages that unit tests expect literally: `unit_tests.txt`.
//!
//! An example is a string literal in a test of the crate that has the message. Literals with placeholders are left out.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::example_text::{AllMessages, MessageExample, MessageExamples, MessageMatcher, is_example};
use super::templates::{self, SourceMessages, TestText};

const PREAMBLE: &str = "\
Messages that unit tests expect: the message as in templates.txt, the test, and the text in it; written by
`cargo xtask words`.
";

/// Examples from unit tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitTestExamples {
    examples: MessageExamples,
}

impl UnitTestExamples {
    /// Searches the tests of each crate for its messages, without those for which `is_shown` returns `true`.
    ///
    /// # Errors
    /// Fails if a source file cannot be read.
    pub fn collect(sources: &[SourceMessages], is_shown: impl Fn(&str, &str) -> bool) -> Result<Self> {
        let all = AllMessages::new(sources);
        let mut crates: BTreeMap<&str, Vec<TestText>> = BTreeMap::new();
        let mut examples = MessageExamples::default();
        for source in sources {
            let Some((directory, _)) = source.file.split_once("/src/") else { continue };
            if !crates.contains_key(directory) {
                crates.insert(directory, templates::test_texts(Path::new(directory))?);
            }
            let texts = crates.get(directory).map_or(&[][..], Vec::as_slice);
            for message in &source.messages {
                if is_shown(&source.file, message) {
                    continue;
                }
                if let Some(found) = find(&MessageMatcher::new(message), texts, &all) {
                    let test = format!("{}: {}", found.file, found.test);
                    let line = found.line.clone();
                    examples.0.insert((source.file.clone(), message.clone()), MessageExample { test, line });
                }
            }
        }
        Ok(Self { examples })
    }

    /// Checks whether a message has an example.
    pub fn has(&self, file: &str, message: &str) -> bool {
        self.examples.has(file, message)
    }

    /// Returns the text of `unit_tests.txt`, in the order of the sources.
    pub fn text(&self, sources: &[SourceMessages]) -> String {
        self.examples.text(PREAMBLE, sources)
    }
}

/// Returns the first text that contains a message.
fn find<'t>(message: &MessageMatcher, texts: &'t [TestText], all: &AllMessages) -> Option<&'t TestText> {
    let longer = all.longer_than(message);
    texts.iter().find(|text| !text.line.contains(['{', '}']) && is_example(message, &longer, &text.line))
}
