//! `--keep`: maximum age or size of retained logs.

use std::time::Duration;

use logs::RetentionLimit;

use crate::value_parsers::parse_size;

/// Units of time by their letter, in seconds.
const UNITS: [(char, u64); 4] = [('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];

/// Parses a time such as 12h or 7d, or a size such as 500M or 100G. A lower-case m is minutes, an upper-case M
/// megabytes.
pub(crate) fn parse_retention(text: &str) -> Result<RetentionLimit, String> {
    let refusal = || "expected a time such as 30m, 12h, 7d or 2w, or a size such as 500M or 100G".to_owned();
    let unit = UNITS.iter().find_map(|(letter, seconds)| Some((text.strip_suffix(*letter)?, *seconds)));
    let Some((digits, seconds)) = unit else {
        let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
        let bytes = parse_size(text).ok().filter(|bytes| has_unit && *bytes > 0);
        return bytes.map(RetentionLimit::Size).ok_or_else(refusal);
    };
    let number: u64 = digits.trim().parse().map_err(|_| refusal())?;
    number
        .checked_mul(seconds)
        .filter(|seconds| *seconds > 0)
        .map(|seconds| RetentionLimit::Age(Duration::from_secs(seconds)))
        .ok_or_else(refusal)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use logs::RetentionLimit;

    use super::parse_retention;

    #[test]
    fn times_and_sizes() {
        let age = |seconds| Ok(RetentionLimit::Age(Duration::from_secs(seconds)));
        let size = |bytes| Ok(RetentionLimit::Size(bytes));
        let check = |text, expected| assert_eq!(parse_retention(text), expected, "{text}");
        check("30m", age(1800));
        check("12h", age(43_200));
        check("7d", age(604_800));
        check("2w", age(1_209_600));
        check("500M", size(500_000_000));
        check("100GB", size(100_000_000_000));
        for text in
            ["", "7", "0", "0M", "0d", "d", "-1d", "7y", "99999999999999999999d", "999999999999999999w"]
        {
            assert!(parse_retention(text).is_err(), "{text}");
        }
    }
}
