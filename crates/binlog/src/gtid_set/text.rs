//! Text form of GTIDs and GTID sets.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::gtid::{Gno, Gtid, GtidTag, Tsid, Uuid};
use crate::gtid_set::{GtidInterval, GtidSet, union};

impl fmt::Display for GtidSet {
    /// Writes the set on one line, as options and servers accept it: `uuid:1-5:7:tag:1-3`, UUIDs separated by commas.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_separated(out, ",")
    }
}

/// GTID set in the form of a server's variables: see [`GtidSet::to_server_text`].
#[derive(Clone, Copy, Debug)]
pub struct GtidSetServerText<'s>(&'s GtidSet);

impl fmt::Display for GtidSetServerText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_separated(out, ",\n")
    }
}

/// GTID set in the form of mysqlbinlog's comments: see [`GtidSet::to_comment`].
#[derive(Clone, Copy, Debug)]
pub struct GtidSetComment<'s>(&'s GtidSet);

impl fmt::Display for GtidSetComment<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("# ")?;
        match self.0.is_empty() {
            true => out.write_str("[empty]"),
            false => self.0.write_separated(out, ",\n# "),
        }
    }
}

impl GtidSet {
    /// Returns the set in the form of mysqlbinlog's comments: each line begins with `# `, and the empty set is `#
    /// [empty]`.
    pub const fn to_comment(&self) -> GtidSetComment<'_> {
        GtidSetComment(self)
    }

    /// Returns the set as a server shows it in `gtid_executed`: one line per UUID, with a comma at the end of all lines
    /// but the last.
    pub const fn to_server_text(&self) -> GtidSetServerText<'_> {
        GtidSetServerText(self)
    }

    fn write_separated(&self, out: &mut fmt::Formatter<'_>, separator: &str) -> fmt::Result {
        let mut previous = None;
        for (tsid, list) in &self.lists {
            match previous {
                Some(uuid) if uuid == tsid.uuid => {}
                Some(_) => write!(out, "{separator}{}", tsid.uuid)?,
                None => write!(out, "{}", tsid.uuid)?,
            }
            previous = Some(tsid.uuid);
            if !tsid.tag.is_none() {
                write!(out, ":{}", tsid.tag)?;
            }
            for interval in list {
                match interval.count() {
                    1 => write!(out, ":{}", interval.first())?,
                    _ => write!(out, ":{}-{}", interval.first(), interval.last())?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for GtidSet {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

/// Syntax error in the text of a GTID or a GTID set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtidTextError {
    /// Offset in bytes from the start of the text.
    pub offset: usize,
    /// Description of the expected text.
    pub expected: &'static str,
}

impl fmt::Display for GtidTextError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "expected {} at byte {}", self.expected, self.offset)
    }
}

impl std::error::Error for GtidTextError {}

impl GtidSet {
    /// Parses a set with the server's syntax. White space, case and empty items between commas do not matter. UUIDs
    /// may lack their dashes or be in braces. Intervals may be in any order and overlap; an interval whose end is
    /// less than its start is empty.
    ///
    /// # Errors
    ///
    /// Fails for text that the server rejects.
    pub fn parse(text: &[u8]) -> Result<Self, GtidTextError> {
        let mut scanner = GtidScanner { text, offset: 0 };
        let mut lists: BTreeMap<Tsid, Vec<GtidInterval>> = BTreeMap::new();
        loop {
            while scanner.take(b',') {}
            if scanner.is_at_end() {
                break;
            }
            let mut tsid = Tsid { uuid: scanner.uuid()?, tag: GtidTag::NONE };
            while scanner.take(b':') {
                match scanner.tag()? {
                    Some(tag) => tsid.tag = tag,
                    None => lists.entry(tsid).or_default().extend(scanner.interval()?),
                }
            }
            if !scanner.is_at_end() && !scanner.take(b',') {
                return Err(scanner.error("a colon, a comma or the end"));
            }
        }
        for list in lists.values_mut() {
            if !list.is_sorted() {
                list.sort_unstable();
            }
            *list = union(list, &[]);
        }
        lists.retain(|_, list| !list.is_empty());
        Ok(Self { lists })
    }
}

impl FromStr for GtidSet {
    type Err = GtidTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text.as_bytes())
    }
}

impl FromStr for Gtid {
    type Err = GtidTextError;

    /// Parses `uuid:number` or `uuid:tag:number`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut scanner = GtidScanner { text: text.as_bytes(), offset: 0 };
        let mut tsid = Tsid { uuid: scanner.uuid()?, tag: GtidTag::NONE };
        let colon = |scanner: &mut GtidScanner<'_>| match scanner.take(b':') {
            true => Ok(()),
            false => Err(scanner.error("a colon")),
        };
        colon(&mut scanner)?;
        if let Some(tag) = scanner.tag()? {
            tsid.tag = tag;
            colon(&mut scanner)?;
        }
        let gno = scanner.first()?;
        match scanner.is_at_end() {
            true => Ok(Self { tsid, gno }),
            false => Err(scanner.error("the end")),
        }
    }
}

/// Tokenizer for the text of GTIDs and sets. White space before each token is skipped.
struct GtidScanner<'t> {
    text: &'t [u8],
    offset: usize,
}

impl<'t> GtidScanner<'t> {
    fn skip_space(&mut self) {
        let space = |byte: &&u8| matches!(byte, b' ' | b'\t'..=b'\r');
        self.offset += self.text[self.offset..].iter().take_while(space).count();
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.offset == self.text.len()
    }

    fn take(&mut self, expected: u8) -> bool {
        self.skip_space();
        let is_there = self.text.get(self.offset) == Some(&expected);
        self.offset += usize::from(is_there);
        is_there
    }

    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> &'t [u8] {
        self.skip_space();
        let rest = &self.text[self.offset..];
        let taken = &rest[..rest.iter().take_while(|byte| is_part(**byte)).count()];
        self.offset += taken.len();
        taken
    }

    fn uuid(&mut self) -> Result<Uuid, GtidTextError> {
        self.skip_space();
        let at = self.offset;
        let text = self.take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'{' | b'}'));
        let expected = "a UUID";
        Uuid::try_parse_ascii(text).map_err(|_| GtidTextError { offset: at, expected })
    }

    /// Reads a tag; `None` if a number is next.
    fn tag(&mut self) -> Result<Option<GtidTag>, GtidTextError> {
        self.skip_space();
        let at = self.offset;
        let expected = "a number, or a tag of 32 letters, digits and underscores at most";
        match self.text.get(at) {
            Some(byte) if byte.is_ascii_digit() => Ok(None),
            Some(byte) if byte.is_ascii_alphabetic() || *byte == b'_' => {
                let tag = GtidTag::new(self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
                tag.map(Some).ok_or(GtidTextError { offset: at, expected })
            }
            _ => Err(GtidTextError { offset: at, expected }),
        }
    }

    /// Reads an interval: one number, or two separated by a dash. `None` if the second is smaller.
    fn interval(&mut self) -> Result<Option<GtidInterval>, GtidTextError> {
        let first = self.first()?;
        if !self.take(b'-') {
            return Ok(Some(first.into()));
        }
        self.skip_space();
        let at = self.offset;
        let expected = "a number from 0 to 9223372036854775806";
        match self.number() {
            Some(0) => Ok(None),
            Some(last) => match Gno::new(last) {
                Some(last) => Ok(GtidInterval::new(first, last)),
                None => Err(GtidTextError { offset: at, expected }),
            },
            None => Err(GtidTextError { offset: at, expected }),
        }
    }

    fn first(&mut self) -> Result<Gno, GtidTextError> {
        self.skip_space();
        let at = self.offset;
        let expected = "a number from 1 to 9223372036854775806";
        self.number().and_then(Gno::new).ok_or(GtidTextError { offset: at, expected })
    }

    fn number(&mut self) -> Option<u64> {
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let mut number = digits.first().map(|_| 0_u64);
        for digit in digits {
            number = number?.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        }
        number
    }

    fn error(&mut self, expected: &'static str) -> GtidTextError {
        self.skip_space();
        GtidTextError { offset: self.offset, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::GtidSet;
    use crate::gtid::Gtid;

    /// Replaces `@` and `%`, which the tests use for two UUIDs.
    fn long(text: &str) -> String {
        text.replace('@', "3E11FA47-71CA-11E1-9E33-C80AA9429562")
            .replace('%', "3e11fa47-71ca-11e1-9e33-c80aa9429563")
    }

    fn check(text: &str, expected: &str) {
        let set: GtidSet = long(text).parse().unwrap();
        let expected = long(expected).to_ascii_lowercase();
        assert_eq!(set.to_string(), expected, "{text}");
        assert_eq!(expected.parse::<GtidSet>(), Ok(set.clone()));
        assert_eq!(GtidSet::parse(set.to_string().to_ascii_uppercase().as_bytes()), Ok(set));
    }

    fn check_error(text: &str, offset: usize, expected: &str) {
        let error = GtidSet::parse(long(text).as_bytes()).unwrap_err();
        assert!(error.expected.contains(expected), "{text}: {error}");
        assert_eq!(error.offset, offset, "{text}: {error}");
    }

    // Each line was verified with MySQL 9.7.4.
    #[test]
    fn texts_that_the_server_accepts() {
        check("@:1-5", "@:1-5");
        check("@", "");
        check("", "");
        check(" \n", "");
        check(",", "");
        check("@:5-3", "");
        check("@:1-0", "");
        check("@:3-3", "@:3");
        check("@:01", "@:1");
        check("@:9223372036854775806", "@:9223372036854775806");
        check("@:1-9223372036854775806", "@:1-9223372036854775806");
        check(",, @:1,,", "@:1");
        check("@ : 1 - 3 : 5", "@:1-3:5");
        check("\t@\n:\x0b1\r-\x0c3 ", "@:1-3");
        check("@:1-3:2-5:7", "@:1-5:7");
        check("@:7:1-3:4", "@:1-4:7");
        check("3E11FA4771CA11E19E33C80AA9429562:1-3", "@:1-3");
        check("{@}:1-3", "@:1-3");
        check("@:1-3:tag_x:1-2:tag_y:5,@:7", "@:1-3:7:tag_x:1-2:tag_y:5");
        check("@:tag", "");
        check("@:tag:1:tag:3", "@:tag:1:3");
        check("@:tag:tag2:1", "@:tag2:1");
        check("@:TaG:1,%:4", "@:tag:1,%:4");
        check("%:4,\n@:1", "@:1,%:4");
        check("@:_:1", "@:_:1");
        check("@:xbcdefghijxbcdefghijxbcdefghijxb:1", "@:xbcdefghijxbcdefghijxbcdefghijxb:1");
    }

    #[test]
    fn texts_that_the_server_refuses() {
        check_error("@:", 37, "a number, or a tag");
        check_error("@:1:", 39, "a number, or a tag");
        check_error("@:0", 37, "a number from 1 to");
        check_error("@:0-3", 37, "a number from 1 to");
        check_error("@:9223372036854775807", 37, "to 9223372036854775806");
        check_error("@:99999999999999999999", 37, "to 9223372036854775806");
        check_error("@:1-9223372036854775807", 39, "to 9223372036854775806");
        check_error("@:tag:", 41, "a number, or a tag");
        check_error("@:tag:0", 41, "a number from 1 to");
        check_error("@:+1", 37, "a number, or a tag");
        check_error("@:1-3;", 40, "a colon, a comma or the end");
        check_error("@:1--3", 39, "a number from 0 to");
        check_error("+@:1", 0, "a UUID");
        check_error("@:1x:1", 38, "a colon, a comma or the end");
        check_error("@:xbcdefghijxbcdefghijxbcdefghijxbc:1", 37, "32 letters");
        check_error("@::1", 37, "a number, or a tag");
        check_error("@:1,:2", 39, "a UUID");
        check_error("@:x y:1", 39, "a colon, a comma or the end");
        check_error("@:1 2", 39, "a colon, a comma or the end");
        check_error("3E11FA47:1", 0, "a UUID");
        check_error("@:1 \u{fc}", 39, "a colon, a comma or the end");
    }

    #[test]
    fn errors_name_what_is_expected_where() {
        let check = |text: &str, expected: &str| {
            assert_eq!(GtidSet::parse(long(text).as_bytes()).unwrap_err().to_string(), expected);
        };
        check("x:1", "expected a UUID at byte 0");
        check("@:", "expected a number, or a tag of 32 letters, digits and underscores at most at byte 37");
        check("@:0", "expected a number from 1 to 9223372036854775806 at byte 37");
        check("@:1--3", "expected a number from 0 to 9223372036854775806 at byte 39");
        check("@:1 2", "expected a colon, a comma or the end at byte 39");
    }

    #[test]
    fn only_servers_break_lines() {
        let set: GtidSet = long("%:4,@:1:x:3").parse().unwrap();
        assert_eq!(set.to_server_text().to_string(), long("@:1:x:3,\n%:4").to_ascii_lowercase());
        assert_eq!(set.to_string(), long("@:1:x:3,%:4").to_ascii_lowercase());
    }

    #[test]
    fn comments() {
        let check = |text: &str, expected: &str| {
            let set: GtidSet = long(text).parse().unwrap();
            assert_eq!(set.to_comment().to_string(), long(expected).to_ascii_lowercase());
        };
        check("", "# [empty]");
        check("@:1", "# @:1");
        check("@:1:x:3,%:1-2", "# @:1:x:3,\n# %:1-2");
    }

    #[test]
    fn single_identifiers() {
        let check = |text: &str, expected: Result<&str, usize>| {
            let found = long(text).parse::<Gtid>().map(|gtid| gtid.to_string()).map_err(|error| error.offset);
            assert_eq!(found, expected.map(|text| long(text).to_ascii_lowercase()), "{text}");
        };
        check("@:1", Ok("@:1"));
        check(" @ : tag : 7 ", Ok("@:tag:7"));
        check("@:1-2", Err(38));
        check("@:tag", Err(40));
        check("@", Err(36));
        check("@:0", Err(37));
        check("", Err(0));
    }
}
