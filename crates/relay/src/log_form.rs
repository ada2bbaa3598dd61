//! Forms of served logs, and the choice of a client's form.

use std::fmt;
use std::str::FromStr;

use binlog::{EVENT_SIZE_MAX, ServerVersion, ZstdLevel};
use rewrite::{CompressSettings, CompressedPolicy, MinimumGain, OldFormatPolicy, RewriteAction};

/// Form in which a log is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// Unchanged.
    AsIs,
    /// Without compressed transactions, as `bintide decompress` writes it.
    Plain,
    /// With compressed transactions, as `bintide compress --level` writes it.
    Compressed(ZstdLevel),
}

/// Form that an account or an option selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormChoice {
    /// This form.
    Fixed(LogForm),
    /// The form derived from the client's connection attributes.
    #[default]
    Auto,
}

/// Connection attributes of a client that show which logs it can read. Each is `None` if the client does not send it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientAttributes<'a> {
    /// `_client_version`: version of the client library; in a replica, version of the server.
    pub client_version: Option<&'a str>,
    /// `program_name`: `mysqld` in a replica, `mysqlbinlog`.
    pub program_name: Option<&'a str>,
    /// `_client_role`: `binary_log_listener` in a replica and in mysqlbinlog, since 8.0.
    pub client_role: Option<&'a str>,
}

/// Error: the text is not a [`FormChoice`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a form: expected as-is, plain, compressed, compressed:LEVEL (1 to 22) or auto")]
pub struct FormTextError {
    text: String,
}

/// First version that reads compressed transactions.
const COMPRESSION_SINCE: [u32; 3] = [8, 0, 20];
/// Smallest major version that only MariaDB has.
const MARIADB_MAJOR_MIN: u32 = 10;
/// `program_name` of bintide, all versions of which read compressed transactions.
const BINTIDE_PROGRAM: &str = "bintide";
/// `_client_role` of clients that read logs.
const LISTENER_ROLE: &str = "binary_log_listener";

impl LogForm {
    /// Returns the rewrite of a stored log into this form; `None` if there is none.
    pub(crate) fn action(self) -> Option<RewriteAction> {
        match self {
            Self::AsIs => None,
            Self::Plain => Some(RewriteAction::Decompress),
            Self::Compressed(level) => Some(RewriteAction::Compress(CompressSettings {
                level,
                minimum_gain: MinimumGain::Percent(0),
                compressed: CompressedPolicy::Pass,
                event_size_max: EVENT_SIZE_MAX,
                old_format: OldFormatPolicy::Refuse,
            })),
        }
    }
}

impl fmt::Display for LogForm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsIs => out.write_str("as-is"),
            Self::Plain => out.write_str("plain"),
            Self::Compressed(level) => write!(out, "compressed:{}", level.get()),
        }
    }
}

impl fmt::Display for FormChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(form) => form.fmt(out),
            Self::Auto => out.write_str("auto"),
        }
    }
}

impl FromStr for FormChoice {
    type Err = FormTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = match text {
            "auto" => return Ok(Self::Auto),
            "as-is" => Some(LogForm::AsIs),
            "plain" => Some(LogForm::Plain),
            "compressed" => Some(LogForm::Compressed(ZstdLevel::DEFAULT)),
            _ => text.strip_prefix("compressed:").and_then(parse_level).map(LogForm::Compressed),
        };
        form.map(Self::Fixed).ok_or_else(|| FormTextError { text: text.to_owned() })
    }
}

impl FormChoice {
    /// Returns the form for a client with these attributes.
    ///
    /// With [`FormChoice::Auto`], bintide, and MySQL's replicas and mysqlbinlog since 8.0.20 get unchanged logs. All
    /// other clients get plain logs, which every client can read: older MySQL, MariaDB, connectors, and clients without attributes.
    /// The version of a connector does not show whether its program reads compressed transactions.
    pub fn form_for(self, attributes: &ClientAttributes<'_>) -> LogForm {
        match self {
            Self::Fixed(form) => form,
            Self::Auto if attributes.reads_compressed() => LogForm::AsIs,
            Self::Auto => LogForm::Plain,
        }
    }
}

impl ClientAttributes<'_> {
    /// Returns whether the client uses MySQL's client library of this version or a later one. False without a version.
    pub fn is_mysql_since(&self, since: [u32; 3]) -> bool {
        let version = self.client_version.map(ServerVersion::parse);
        version.is_some_and(|version| {
            version.is_mysql_since(since) && version.is_mysql_before([MARIADB_MAJOR_MIN, 0, 0])
        })
    }

    /// Returns whether the client is bintide, or a program of MySQL that reads compressed transactions.
    fn reads_compressed(&self) -> bool {
        if self.program_name == Some(BINTIDE_PROGRAM) {
            return true;
        }
        let is_reader = self.client_role == Some(LISTENER_ROLE)
            || matches!(self.program_name, Some("mysqld" | "mysqlbinlog"));
        is_reader && self.is_mysql_since(COMPRESSION_SINCE)
    }
}

/// Parses a level such as `3`, without a sign or leading zeros.
fn parse_level(text: &str) -> Option<ZstdLevel> {
    let level = text.parse().ok().and_then(ZstdLevel::new)?;
    (level.get().to_string() == text).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::{ClientAttributes, FormChoice, LogForm};
    use binlog::ZstdLevel;

    #[test]
    fn choices_are_parsed_and_printed() {
        let level = |level| Some(FormChoice::Fixed(LogForm::Compressed(ZstdLevel::new(level).unwrap())));
        let check = |text: &str, expected: Option<FormChoice>| {
            let found = text.parse::<FormChoice>().ok();
            assert_eq!(found, expected, "{text}");
            if let Some(found) = found {
                assert_eq!(found.to_string().parse(), Ok(found));
            }
        };
        check("auto", Some(FormChoice::Auto));
        check("as-is", Some(FormChoice::Fixed(LogForm::AsIs)));
        check("plain", Some(FormChoice::Fixed(LogForm::Plain)));
        check("compressed", level(3));
        check("compressed:19", level(19));
        for wrong in
            ["", "Plain", "compressed:", "compressed:0", "compressed:23", "compressed:+3", "compressed:03"]
        {
            check(wrong, None);
        }
    }

    #[test]
    fn the_clients_attributes_select_the_form() {
        let check = |version, program, role, expected| {
            let attributes =
                ClientAttributes { client_version: version, program_name: program, client_role: role };
            assert_eq!(FormChoice::Auto.form_for(&attributes), expected, "{attributes:?}");
            let fixed = FormChoice::Fixed(LogForm::AsIs);
            assert_eq!(fixed.form_for(&attributes), LogForm::AsIs, "{attributes:?}");
        };
        let listener = Some("binary_log_listener");
        let (mysqld, mysqlbinlog) = (Some("mysqld"), Some("mysqlbinlog"));
        check(Some("9.7.4"), mysqld, listener, LogForm::AsIs);
        check(Some("8.0.20"), mysqld, listener, LogForm::AsIs);
        check(Some("8.0.33-debug"), mysqlbinlog, listener, LogForm::AsIs);
        check(Some("8.4.0"), mysqlbinlog, None, LogForm::AsIs);
        check(Some("8.0.19"), mysqld, listener, LogForm::Plain);
        check(Some("5.7.22"), mysqld, listener, LogForm::Plain);
        check(Some("5.6.24"), mysqlbinlog, None, LogForm::Plain);
        check(Some("10.11.6"), mysqld, None, LogForm::Plain);
        check(Some("11.8.6-MariaDB"), mysqld, listener, LogForm::Plain);
        check(Some("8.0.33-MariaDB"), mysqld, listener, LogForm::Plain);
        check(Some("0.1.0"), Some("bintide"), None, LogForm::AsIs);
        check(Some("9.1.0"), Some("python3"), None, LogForm::Plain);
        check(Some("9"), mysqld, listener, LogForm::Plain);
        check(Some("99999999999.0.1"), mysqld, listener, LogForm::Plain);
        check(None, mysqld, listener, LogForm::Plain);
        check(None, None, None, LogForm::Plain);
    }
}
