//! Wildcard patterns of table names, as in `LIKE`.

/// Wildcard pattern: `%` matches any text, `_` any character, a backslash escapes the next character. Matching is
/// case-sensitive, as on a server with lower_case_table_names=0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WildcardPattern(Vec<PatternPart>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternPart {
    AnyText,
    AnyChar,
    Literal(char),
}

impl WildcardPattern {
    /// Parses a pattern.
    pub fn new(text: Vec<u8>) -> Self {
        let text = String::from_utf8_lossy(&text).into_owned();
        let (mut parts, mut letters) = (Vec::new(), text.chars());
        while let Some(letter) = letters.next() {
            parts.push(match letter {
                '%' => PatternPart::AnyText,
                '_' => PatternPart::AnyChar,
                '\\' => PatternPart::Literal(letters.next().unwrap_or('\\')),
                other => PatternPart::Literal(other),
            });
        }
        Self(parts)
    }

    /// Returns true if the pattern matches this name.
    pub fn matches(&self, name: &[u8]) -> bool {
        let name: Vec<char> = String::from_utf8_lossy(name).chars().collect();
        fits(&self.0, &name)
    }

    /// Returns true if the pattern is `DATABASE.%` and its `DATABASE.` matches `name`.
    pub fn covers_database(&self, name: &[u8]) -> bool {
        let Some((PatternPart::AnyText, rest)) = self.0.split_last() else { return false };
        rest.last() == Some(&PatternPart::Literal('.')) && Self(rest.to_vec()).matches(name)
    }
}

fn fits(parts: &[PatternPart], name: &[char]) -> bool {
    // Backtracking point: the parts after the last `%`, and the name at the next character to try.
    let mut again: Option<(&[PatternPart], &[char])> = None;
    let (mut parts, mut name) = (parts, name);
    loop {
        match (parts.split_first(), name.split_first()) {
            (None, None) => return true,
            (Some((PatternPart::AnyText, rest)), _) => {
                again = Some((rest, name));
                parts = rest;
            }
            (Some((PatternPart::AnyChar, rest)), Some((_, others))) => (parts, name) = (rest, others),
            (Some((PatternPart::Literal(expected), rest)), Some((letter, others))) if expected == letter => {
                (parts, name) = (rest, others);
            }
            _ => {
                let Some((resume, [_, others @ ..])) = again else { return false };
                again = Some((resume, others));
                (parts, name) = (resume, others);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WildcardPattern;

    #[test]
    fn patterns() {
        let check = |pattern: &str, name: &str, expected| {
            assert_eq!(
                WildcardPattern::new(pattern.into()).matches(name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        };
        check("d.t", "d.t", true);
        check("D.T", "d.t", false);
        check("d.t", "d.t1", false);
        check("d.t_", "d.t1", true);
        check("d.t_", "d.t", false);
        check("d.t%", "d.t", true);
        check("%.t", "d.a.t", true);
        check("d%.%a%b", "dd.xaxxab", true);
        check("d%.%a%b", "dd.xaxxa", false);
        check(r"d.t\_1", "d.t_1", true);
        check(r"d.t\_1", "d.tx1", false);
        check("%", "", true);
        check("d.größe_", "d.größe1", true);
    }

    #[test]
    fn whole_databases() {
        let check = |pattern: &str, name: &str, expected| {
            assert_eq!(
                WildcardPattern::new(pattern.into()).covers_database(name.as_bytes()),
                expected,
                "{pattern}"
            );
        };
        check("d.%", "d.", true);
        check("d_.%", "dx.", true);
        check("D.%", "d.", false);
        check("d.t%", "d.", false);
        check("e.%", "d.", false);
        check("%", "d.", false);
    }
}
