//! Connection options in MySQL's option files.

use option_files::FileOption;

use crate::connection_options::{
    ConnectionOptions, OptionRecognition, PasswordOptionCheck, is_connection_option, is_mysql_option,
    not_an_option,
};

/// Groups of option files that are read.
pub const OPTION_GROUPS: [&str; 2] = ["client", "bintide"];

/// Error: a line of an option file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {reason}")]
pub struct OptionFileError {
    file: String,
    line: usize,
    reason: String,
}

impl ConnectionOptions {
    /// Reads the options of option files, in order. Options that do not concern a connection are ignored, except in the
    /// group `[bintide]`.
    ///
    /// # Errors
    ///
    /// Fails if an option has an invalid value, is an unsupported TLS option, or is unknown and in the group
    /// `[bintide]`, or if one group of a file has two password options.
    pub fn of_files(lines: &[FileOption]) -> Result<Self, OptionFileError> {
        let mut options = Self::default();
        let mut passwords = PasswordOptionCheck::default();
        for (number, line) in lines.iter().enumerate() {
            // A later file or group takes precedence.
            let before = number.checked_sub(1).map(|before| &lines[before]);
            if before.is_some_and(|before| (&before.file, &before.group) != (&line.file, &line.group)) {
                passwords = PasswordOptionCheck::default();
            }
            options.apply_line(line, &mut passwords).map_err(|reason| OptionFileError {
                file: String::from_utf8_lossy(&line.file).into_owned(),
                line: line.line,
                reason,
            })?;
        }
        Ok(options)
    }

    fn apply_line(&mut self, line: &FileOption, passwords: &mut PasswordOptionCheck) -> Result<(), String> {
        let text = str::from_utf8(&line.text).map_err(|_| "the line is not UTF-8".to_owned())?;
        let text = text.strip_prefix("--").unwrap_or(text);
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let name = name.replace('_', "-");
        refuse_other_case(&name)?;
        let (name, loose) = match name.strip_prefix("loose-") {
            Some(name) => (name, UnknownOptionPolicy::Ignore),
            None => (name.as_str(), UnknownOptionPolicy::Refuse),
        };
        let without_maximum = name.strip_prefix("maximum-").unwrap_or(name);
        if is_of_tls(without_maximum) && without_maximum != name {
            return Err(format!("{name} is not supported: remove the option"));
        }
        if loose == UnknownOptionPolicy::Ignore && !is_mysql_option(name) {
            return Ok(());
        }
        let switched = ["skip-", "disable-"].into_iter().find_map(|prefix| name.strip_prefix(prefix));
        let (name, value) = match (switched, name.strip_prefix("enable-")) {
            (Some(name), _) => (name, Some(if value == Some("0") { "1" } else { "0" })),
            (None, Some(switch)) if name != "enable-cleartext-plugin" => {
                (switch, Some(if value == Some("0") { "0" } else { "1" }))
            }
            _ => (name, value),
        };
        passwords.take(name)?;
        match self.set(name, value)? {
            OptionRecognition::Unknown
                if is_bintide_group(&line.group) && loose == UnknownOptionPolicy::Refuse =>
            {
                Err(not_an_option(name))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a connection option in upper case, such as `SSL-CA` or `skip-SSL`, which MySQL's programs do not know.
/// Ignoring such an option could, for example, silently turn off verification.
fn refuse_other_case(name: &str) -> Result<(), String> {
    const PREFIXES: [&str; 5] = ["loose-", "skip-", "disable-", "enable-", "maximum-"];
    let lower = name.to_ascii_lowercase();
    let mut option = lower.as_str();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| option.strip_prefix(prefix)) {
        option = rest;
    }
    match lower != name && (is_of_tls(option) || is_connection_option(option) || is_connection_option(&lower))
    {
        true => Err(format!("{name} is not an option: write it in lower case, {lower}")),
        false => Ok(()),
    }
}

/// Returns whether this is the name of a TLS option, in upper or lower case.
fn is_of_tls(name: &str) -> bool {
    let start = name.get(..3).unwrap_or_default();
    ["ssl", "tls"].iter().any(|prefix| start.eq_ignore_ascii_case(prefix))
}

/// Treatment of an unknown option: it is ignored if its name has the prefix `loose-`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnknownOptionPolicy {
    Refuse,
    Ignore,
}

fn is_bintide_group(group: &[u8]) -> bool {
    group.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"bintide"))
}

#[cfg(test)]
mod tests {
    use option_files::FileOption;

    use crate::connection_options::{ConnectionOptions, PasswordOption};
    use crate::password_source::PasswordSource;
    use crate::tls_policy::SslMode;

    fn read(group: &str, texts: &[&str]) -> Result<ConnectionOptions, String> {
        let line = |(index, text): (usize, &&str)| FileOption {
            text: format!("--{text}").into_bytes(),
            group: group.into(),
            file: b"/my.cnf".to_vec(),
            line: index + 1,
        };
        let lines: Vec<FileOption> = texts.iter().enumerate().map(line).collect();
        ConnectionOptions::of_files(&lines).map_err(|error| error.to_string())
    }

    #[test]
    fn options_in_files() {
        let lines =
            ["user=u", "loose-ssl_mode=required", "loose-odd", "loose-ssl-odd=1", "host=h", "password=p"];
        let options = read("client", &lines).unwrap();
        assert_eq!((options.user.as_deref(), options.host.as_deref()), (Some("u"), Some("h")));
        assert_eq!(options.tls.mode, Some(SslMode::Required));
        let password = PasswordOption::Source(PasswordSource::Text("p".into()));
        assert_eq!(options.password, Some(password));
        assert_eq!(read("client", &["password"]).unwrap().password, Some(PasswordOption::Prompt));
        assert_eq!(read("client", &["skip_get_server_public_key"]).unwrap().asks_public_key, Some(false));
        assert_eq!(read("client", &["max-allowed-packet=1G"]), Ok(ConnectionOptions::default()));
    }

    #[test]
    fn the_password_option_of_a_later_group_applies() {
        let line = |group: &str, text: &str| FileOption {
            text: text.into(),
            group: group.into(),
            file: b"/my.cnf".to_vec(),
            line: 1,
        };
        let lines = [line("client", "--password=p"), line("bintide", "--password-command=c")];
        let command = PasswordOption::Source(PasswordSource::Command("c".into()));
        assert_eq!(ConnectionOptions::of_files(&lines).unwrap().password, Some(command));
    }

    #[test]
    fn invalid_options_are_errors() {
        let check = |group: &str, lines: &[&str], expected: &str| {
            assert_eq!(read(group, lines).unwrap_err(), expected);
        };
        check("client", &["user=u", "port=x"], "/my.cnf, line 2: port is x; expected a number up to 65535");
        check("client", &["ssl-odd=1"], "/my.cnf, line 1: ssl-odd is not supported: remove the option");
        let session = "/my.cnf, line 1: ssl-session-data is not supported: remove the option";
        check("client", &["loose-ssl-session-data=f"], session);
        let ssl = "/my.cnf, line 1: ssl is not supported: set ssl-mode=REQUIRED or ssl-mode=DISABLED";
        check("client", &["skip-ssl"], ssl);
        let upper = "/my.cnf, line 1: SSL-CA is not an option: write it in lower case, ssl-ca";
        check("client", &["SSL-CA=ca.pem"], upper);
        for name in
            ["skip-SSL", "SKIP-ssl", "loose-SSL-mode", "Loose-ssl-mode", "HOST", "enable-Cleartext-plugin"]
        {
            let lower = name.to_lowercase();
            let upper = format!("/my.cnf, line 1: {name} is not an option: write it in lower case, {lower}");
            check("client", &[name], &upper);
        }
        assert!(read("client", &["MAX-allowed-packet=1G"]).is_ok());
        let maximum = "/my.cnf, line 1: maximum-ssl-ca is not supported: remove the option";
        check("client", &["maximum_ssl_ca=ca.pem"], maximum);
        check("client", &["loose-maximum-ssl-ca=ca.pem"], maximum);
        let maximum = "/my.cnf, line 1: maximum-TLS-version is not an option: write it in lower case, maximum-tls-version";
        check("client", &["maximum-TLS-version=TLSv1.3"], maximum);
        let two = "/my.cnf, line 2: password and password-command exclude each other: give only one of them";
        check("bintide", &["password=p", "password_command=c"], two);
        let miss = "/my.cnf, line 1: sslmode is not a connection option (did you mean ssl-mode?)";
        check("client", &["sslmode=REQUIRED"], miss);
        let miss = "/my.cnf, line 1: pasword is not a connection option (did you mean password?)";
        check("bintide", &["pasword=p"], miss);
        check("bintide_two", &["odd=1"], "/my.cnf, line 1: odd is not a connection option");
    }
}
