//! MySQL's option files: what the group `[client]` says of a connection.

use std::fs;
use std::path::{Path, PathBuf};

use crate::address::PublicKey;
use crate::tls_policy::{SslMode, TlsPolicy};

/// What an option file says of a connection; what it does not say is `None`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// `user`
    pub user: Option<String>,
    /// `password`. Never shown.
    pub password: Option<String>,
    /// `host`
    pub host: Option<String>,
    /// `port`
    pub port: Option<u16>,
    /// `socket`
    pub socket: Option<PathBuf>,
    /// `ssl-mode` and `ssl-ca`
    pub tls: TlsPolicy,
    /// `get-server-public-key` and `server-public-key-path`
    pub public_key: PublicKey,
    /// The mode that was named last.
    pub(crate) mode: Option<SslMode>,
}

/// Why an option file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefaultsError {
    /// It cannot be read.
    #[error("could not read {path}: {cause}")]
    Io {
        /// The file.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A line of it makes no sense.
    #[error("{path}, line {line}: {reason}")]
    Line {
        /// The file.
        path: String,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

/// How deep files may include files, as in MySQL's own programs.
const DEPTH_MAX: u32 = 10;

impl Defaults {
    /// Reads the group `[client]` of this file, and of the files that it includes; the last word wins. Other groups,
    /// and options that say nothing of a connection, are passed over.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or a line is not as it must be.
    pub fn read(path: &Path) -> Result<Self, DefaultsError> {
        let mut defaults = Self::default();
        defaults.read_file(path, 0)?;
        defaults.settle_mode();
        Ok(defaults)
    }

    fn read_file(&mut self, path: &Path, depth: u32) -> Result<(), DefaultsError> {
        let text = fs::read_to_string(path)
            .map_err(|cause| DefaultsError::Io { path: path.display().to_string(), cause })?;
        let mut is_ours = false;
        for (number, line) in text.lines().enumerate() {
            let at = |reason: String| DefaultsError::Line {
                path: path.display().to_string(),
                line: number + 1,
                reason,
            };
            match Line::of(line).map_err(at)? {
                Line::Nothing => {}
                Line::Group(name) => is_ours = name == "client",
                Line::Include(_) | Line::IncludeFolder(_) if depth >= DEPTH_MAX => {
                    return Err(at(format!("files are included more than {DEPTH_MAX} deep")));
                }
                Line::Include(file) => self.read_file(Path::new(file), depth + 1)?,
                Line::IncludeFolder(folder) => self.read_folder(Path::new(folder), depth + 1)?,
                Line::Option(name, value) if is_ours => self.set(&name, value).map_err(at)?,
                Line::Option(..) => {}
            }
        }
        Ok(())
    }

    fn read_folder(&mut self, folder: &Path, depth: u32) -> Result<(), DefaultsError> {
        let listed = fs::read_dir(folder)
            .map_err(|cause| DefaultsError::Io { path: folder.display().to_string(), cause })?;
        let mut files: Vec<PathBuf> = listed.filter_map(Result::ok).map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "cnf"));
        files.sort();
        files.iter().try_for_each(|file| self.read_file(file, depth))
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "user" => self.user = Some(value),
            "password" => self.password = Some(value),
            "host" => self.host = Some(value),
            "socket" => self.socket = Some(PathBuf::from(value)),
            "port" => self.port = Some(value.parse().map_err(|_| format!("{value} is no port"))?),
            "ssl-ca" => self.tls.authorities = Some(PathBuf::from(value)),
            "ssl-mode" => self.set_mode(&value)?,
            "server-public-key-path" => self.public_key = PublicKey::File(PathBuf::from(value)),
            "get-server-public-key" => self.ask_for_key(&value)?,
            _ => {}
        }
        Ok(())
    }

    /// A file with the key is the surer way.
    fn ask_for_key(&mut self, value: &str) -> Result<(), String> {
        let asks = match value.to_ascii_lowercase().as_str() {
            "" | "1" | "on" | "true" => true,
            "0" | "off" | "false" => false,
            _ => return Err(format!("{value} is neither on nor off")),
        };
        if !matches!(self.public_key, PublicKey::File(_)) {
            self.public_key = if asks { PublicKey::OfServer } else { PublicKey::Unknown };
        }
        Ok(())
    }

    fn set_mode(&mut self, mode: &str) -> Result<(), String> {
        self.mode = Some(SslMode::from_name(mode).ok_or_else(|| format!("{mode} is no ssl-mode"))?);
        Ok(())
    }

    /// Takes the mode that was named, and the one that an authority stands for, as for `mysql`; the stronger one holds.
    fn settle_mode(&mut self) {
        match (self.mode, &self.tls.authorities) {
            (Some(SslMode::Disabled), _) => self.tls.mode = SslMode::Disabled,
            (mode, Some(_)) => self.tls.mode = mode.unwrap_or_default().max(SslMode::VerifyCa),
            (mode, None) => self.tls.mode = mode.unwrap_or_default(),
        }
    }
}

/// Without the password.
impl std::fmt::Debug for Defaults {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { user, host, port, socket, tls, public_key, .. } = self;
        write!(out, "Defaults {{ {user:?} {host:?} {port:?} {socket:?} {tls:?} {public_key:?} }}")
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Line<'l> {
    Nothing,
    Group(&'l str),
    Include(&'l str),
    IncludeFolder(&'l str),
    /// Its name, with `-` for `_`, and its value, without quotes.
    Option(String, String),
}

impl<'l> Line<'l> {
    fn of(line: &'l str) -> Result<Self, String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            return Ok(Self::Nothing);
        }
        if let Some(folder) = line.strip_prefix("!includedir") {
            return Ok(Self::IncludeFolder(folder.trim()));
        }
        if let Some(file) = line.strip_prefix("!include") {
            return Ok(Self::Include(file.trim()));
        }
        if let Some(rest) = line.strip_prefix('[') {
            let (name, _) = rest.split_once(']').ok_or("a group has no ] at its end")?;
            return Ok(Self::Group(name.trim()));
        }
        let line = without_comment(line);
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        Ok(Self::Option(name.trim().replace('_', "-"), unquoted(value.trim())))
    }
}

/// A comment may stand behind a value, outside of quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            _ if is_escaped => is_escaped = false,
            (_, '\\') => is_escaped = true,
            (None, '#') => return &line[..at],
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    line
}

fn unquoted(value: &str) -> String {
    let inner = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    let (mut out, mut letters) = (String::new(), inner.unwrap_or(value).chars());
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('s') => out.push(' '),
            Some(other @ ('"' | '\'' | '\\')) => out.push(other),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Defaults, Line};
    use crate::Address;
    use crate::address::PublicKey;
    use crate::tls_policy::SslMode;

    #[test]
    fn lines() {
        let check = |line, wanted| assert_eq!(Line::of(line), Ok(wanted), "{line}");
        let option = |name: &str, value: &str| Line::Option(name.into(), value.into());
        check("  # user = x", Line::Nothing);
        check(" [client] ", Line::Group("client"));
        check("!include /etc/more.cnf", Line::Include("/etc/more.cnf"));
        check("!includedir /etc/more/", Line::IncludeFolder("/etc/more/"));
        check("ssl_ca = /a b.pem # ours", option("ssl-ca", "/a b.pem"));
        check("password=\"a#b\\\"c\\\\d\"", option("password", "a#b\"c\\d"));
        check("password='a\\sb'", option("password", "a b"));
        check("password", option("password", ""));
        assert!(Line::of("[client").is_err());
    }

    fn defaults(options: &[(&str, &str)]) -> Defaults {
        let mut defaults = Defaults::default();
        for (name, value) in options {
            defaults.set(name, (*value).to_owned()).unwrap();
        }
        defaults.settle_mode();
        defaults
    }

    #[test]
    fn an_address_says_more_than_a_file() {
        let file =
            defaults(&[("user", "f"), ("password", "p"), ("host", "h"), ("port", "7"), ("max-x", "1")]);
        let check = |text: &str, wanted: &str, password| {
            let address = Address::parse_with(text, &file).unwrap();
            assert_eq!(
                (address.to_string().as_str(), address.password.as_deref()),
                (wanted, password),
                "{text}"
            );
        };
        check("mysql://", "mysql://f@h:7/", Some("p"));
        check("mysql://other/", "mysql://f@other:7/", Some("p"));
        check("mysql://u@other:8/", "mysql://u@other:8/", Some("p"));
        check("mysql://u:q@other/", "mysql://u@other:7/", Some("q"));
        check("mysql:///?socket=/s", "mysql://f@localhost/?socket=/s", Some("p"));
        let socket = defaults(&[("user", "f"), ("socket", "/s")]);
        let shown = |text| Address::parse_with(text, &socket).unwrap().to_string();
        assert_eq!(shown("mysql://"), "mysql://f@localhost/?socket=/s");
        // Whoever names a host means that.
        assert_eq!(shown("mysql://other/"), "mysql://f@other:3306/");
    }

    #[test]
    fn where_a_key_comes_from() {
        let check = |options: &[(&str, &str)], wanted| {
            assert_eq!(defaults(options).public_key, wanted, "{options:?}");
        };
        let file = || PublicKey::File("/key".into());
        check(&[], PublicKey::Unknown);
        check(&[("get-server-public-key", "")], PublicKey::OfServer);
        check(&[("get-server-public-key", "ON"), ("get-server-public-key", "0")], PublicKey::Unknown);
        check(&[("server-public-key-path", "/key"), ("get-server-public-key", "1")], file());
        check(&[("get-server-public-key", "1"), ("server-public-key-path", "/key")], file());
        assert!(Defaults::default().set("get-server-public-key", "maybe".into()).is_err());
    }

    #[test]
    fn what_encrypts() {
        let check = |options: &[(&str, &str)], mode, authorities: Option<&str>| {
            let found = defaults(options).tls;
            assert_eq!((found.mode, found.authorities), (mode, authorities.map(Into::into)), "{options:?}");
        };
        check(&[], SslMode::Preferred, None);
        check(&[("ssl-mode", "required")], SslMode::Required, None);
        check(&[("ssl-mode", "VERIFY_CA")], SslMode::VerifyCa, None);
        // As with mysql, an authority is there to verify certificates by.
        check(&[("ssl-ca", "/ca")], SslMode::VerifyCa, Some("/ca"));
        check(&[("ssl-ca", "/ca"), ("ssl-mode", "VERIFY_IDENTITY")], SslMode::VerifyIdentity, Some("/ca"));
        check(&[("ssl-mode", "REQUIRED"), ("ssl-ca", "/ca")], SslMode::VerifyCa, Some("/ca"));
        check(&[("ssl-ca", "/ca"), ("ssl-mode", "DISABLED")], SslMode::Disabled, Some("/ca"));
    }
}
