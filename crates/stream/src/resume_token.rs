//! The token from which a run resumes: a position in the source's logs, and the transaction before it.

use std::fmt;
use std::str::FromStr;

use crate::change::ResumePosition;

/// Token from which a run resumes: a position in the source's logs, and the transaction that ends there.
///
/// As text: `binlog.000003:1234`, or `binlog.000003:1234,UUID:7` if the transaction has a GTID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeToken {
    /// Position to resume at.
    pub at: ResumePosition,
    /// GTID of the transaction before it; `None` if it has none.
    pub gtid: Option<String>,
}

/// Error of parsing a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a resume position: use the value of a record's field `resume`, such as binlog.000003:1234"
)]
pub struct ResumeTokenError {
    text: String,
}

impl ResumeTokenError {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }
}

impl fmt::Display for ResumeToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.at.log, self.at.position)?;
        match &self.gtid {
            Some(gtid) => write!(out, ",{gtid}"),
            None => Ok(()),
        }
    }
}

impl FromStr for ResumeToken {
    type Err = ResumeTokenError;

    fn from_str(text: &str) -> Result<Self, ResumeTokenError> {
        let error = || ResumeTokenError::new(text);
        let (coordinates, gtid) = match text.split_once(',') {
            Some((coordinates, gtid)) => (coordinates, Some(gtid.to_owned())),
            None => (text, None),
        };
        let (log, position) = coordinates.rsplit_once(':').ok_or_else(error)?;
        let position = position.parse().map_err(|_| error())?;
        let is_one = !log.is_empty() && gtid.as_ref().is_none_or(|gtid| !gtid.is_empty());
        let token = Self { at: ResumePosition { log: log.to_owned(), position }, gtid };
        is_one.then_some(token).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::ResumeToken;

    #[test]
    fn tokens_round_trip_as_text() {
        let check = |text: &str, expected: bool| match text.parse::<ResumeToken>() {
            Ok(token) => assert!(expected && token.to_string() == text, "{token:?}"),
            Err(error) => assert!(!expected, "{error}"),
        };
        check("binlog.000003:1234", true);
        check("b:i:4", true);
        check("binlog.000003:1234,3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:7", true);
        check("binlog.000003", false);
        check(":4", false);
        check("binlog.000003:x", false);
        check("binlog.000003:1234,", false);
        check("", false);
    }
}
