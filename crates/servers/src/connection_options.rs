//! Connection options of one source, by the names that all sources share.

use std::path::PathBuf;
use std::time::Duration;

use option_files::nearest_name;
use wire::{CleartextPolicy, PacketCompression};

use crate::password_source::PasswordSource;
use crate::tls_policy::{SslMode, TlsVersion};
use crate::tls_request::{HostVerification, TlsRequest};

/// Connection options of one source: a command line, an address, the settings, or the option files.
///
/// Uses the names of MySQL's programs, and a few names of bintide. If an option is given twice, the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// `user`
    pub user: Option<String>,
    /// `password`, `password-file`, `password-command`. Never shown.
    pub password: Option<PasswordOption>,
    /// `host`
    pub host: Option<String>,
    /// `port`
    pub port: Option<u16>,
    /// `socket`
    pub socket: Option<PathBuf>,
    /// `protocol`
    pub protocol: Option<ConnectionProtocol>,
    /// `ssl-*` and `tls-*`
    pub tls: TlsRequest,
    /// `get-server-public-key`
    pub asks_public_key: Option<bool>,
    /// `server-public-key-path`
    pub public_key_file: Option<PathBuf>,
    /// `compression-algorithms`, or `compress`
    pub compression_algorithms: Option<Vec<CompressionAlgorithm>>,
    /// `zstd-compression-level`
    pub zstd_level: Option<u8>,
    /// `enable-cleartext-plugin`
    pub cleartext: Option<CleartextPolicy>,
    /// `timeout`: maximum silence of the server.
    pub timeout: Option<Duration>,
}

/// Password option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordOption {
    /// `password` without a value: prompt the user.
    Prompt,
    /// Source of the password.
    Source(PasswordSource),
}

/// Transport of a connection: MySQL's `protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionProtocol {
    /// TCP, also to this machine.
    Tcp,
    /// Unix socket file.
    Socket,
}

/// Compression algorithm of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionAlgorithm {
    /// No compression.
    Uncompressed,
    /// zlib
    Zlib,
    /// zstd
    Zstd,
}

/// Result of setting an option by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionRecognition {
    /// The option was set.
    Taken,
    /// The name is not a connection option.
    Unknown,
}

/// Default level of zlib.
const ZLIB_LEVEL: u8 = 6;
/// Level of zstd without `zstd-compression-level`.
const ZSTD_LEVEL: u8 = 3;
/// Names of the password options.
pub(crate) const PASSWORD: &str = "password";
const PASSWORD_FILE: &str = "password-file";
const PASSWORD_COMMAND: &str = "password-command";
/// Names of all connection options.
const NAMES: [&str; 30] = [
    "user",
    "password",
    "password1",
    "password-file",
    "password-command",
    "host",
    "port",
    "socket",
    "protocol",
    "ssl-mode",
    "ssl-ca",
    "ssl-capath",
    "ssl-crl",
    "ssl-crlpath",
    "ssl-cert",
    "ssl-key",
    "ssl-cipher",
    "ssl-fips-mode",
    "tls",
    "tls-ca",
    "tls-ciphersuites",
    "tls-version",
    "tls-sni-servername",
    "get-server-public-key",
    "server-public-key-path",
    "enable-cleartext-plugin",
    "compress",
    "compression-algorithms",
    "zstd-compression-level",
    "timeout",
];
/// TLS options of MySQL's and MariaDB's programs, past and present, that bintide does not support, with remedies.
const UNSUPPORTED: [(&str, &str); 4] = [
    ("ssl", "set ssl-mode=REQUIRED or ssl-mode=DISABLED"),
    ("ssl-verify-server-cert", "set ssl-mode=VERIFY_IDENTITY and ssl-ca=FILE"),
    ("ssl-session-data", "remove the option"),
    ("ssl-session-data-continue-on-failed-reuse", "remove the option"),
];

/// Password options of one source, of which only one may be given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PasswordOptionCheck {
    name: Option<&'static str>,
}

impl PasswordOptionCheck {
    /// Records an option. A password option that differs from an earlier password option is an error.
    pub(crate) fn take(&mut self, name: &str) -> Result<(), String> {
        let found = match name.replace('_', "-").as_str() {
            PASSWORD | "password1" => PASSWORD,
            PASSWORD_FILE => PASSWORD_FILE,
            PASSWORD_COMMAND => PASSWORD_COMMAND,
            _ => return Ok(()),
        };
        match self.name.replace(found) {
            Some(other) if other != found => {
                Err(format!("{other} and {found} exclude each other: give only one of them"))
            }
            _ => Ok(()),
        }
    }
}

impl ConnectionOptions {
    /// Sets one option. Its name may have `_` for `-`. The error describes the invalid value.
    ///
    /// # Errors
    ///
    /// Fails if the value is invalid, or the option is an unsupported TLS option.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<OptionRecognition, String> {
        let name = name.replace('_', "-");
        if name.starts_with("ssl") || name.starts_with("tls") {
            return self.set_tls(&name, value).map(|()| OptionRecognition::Taken);
        }
        let text = || value.map(str::to_owned).ok_or_else(|| format!("{name} requires a value"));
        let path = || parse_path(&name, value);
        match name.as_str() {
            "user" => self.user = Some(text()?),
            PASSWORD | "password1" => {
                self.password = Some(value.map_or(PasswordOption::Prompt, |text| {
                    PasswordOption::Source(PasswordSource::Text(text.to_owned()))
                }));
            }
            PASSWORD_FILE => self.set_password(PasswordSource::File(path()?)),
            PASSWORD_COMMAND => self.set_password(PasswordSource::Command(text()?)),
            "host" => self.host = Some(text()?).filter(|host| !host.is_empty()),
            "port" => self.port = Some(parse_port(&text()?)?).filter(|port| *port > 0),
            "socket" => self.socket = Some(path()?),
            "protocol" => self.protocol = Some(parse_protocol(&text()?)?),
            "get-server-public-key" => self.asks_public_key = Some(parse_switch(&name, value)?),
            "server-public-key-path" => self.public_key_file = Some(path()?),
            "enable-cleartext-plugin" => {
                let is_on = parse_switch(&name, value)?;
                self.cleartext = Some(if is_on { CleartextPolicy::OverTls } else { CleartextPolicy::Refuse });
            }
            "compress" => {
                let compressed = [CompressionAlgorithm::Zlib, CompressionAlgorithm::Uncompressed];
                let algorithms = if parse_switch(&name, value)? { &compressed[..] } else { &compressed[1..] };
                self.compression_algorithms = Some(algorithms.to_vec());
            }
            "compression-algorithms" => self.compression_algorithms = Some(parse_algorithms(&text()?)?),
            "zstd-compression-level" => self.zstd_level = Some(parse_zstd_level(&text()?)?),
            "timeout" => self.timeout = Some(parse_timeout(&text()?)?),
            _ => return Ok(OptionRecognition::Unknown),
        }
        Ok(OptionRecognition::Taken)
    }

    fn set_password(&mut self, source: PasswordSource) {
        self.password = Some(PasswordOption::Source(source));
    }

    fn set_tls(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        let tls = &mut self.tls;
        let text = || match value {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(format!("{name} requires a value")),
        };
        let file = || parse_path(name, value).map(Some);
        match name {
            "ssl-mode" => tls.mode = Some(parse_ssl_mode(text()?)?),
            "ssl-ca" => tls.authorities = file()?,
            "ssl-capath" => tls.authority_directory = file()?,
            "ssl-crl" => tls.revocations = file()?,
            "ssl-crlpath" => tls.revocation_directory = file()?,
            "ssl-cert" => tls.certificate = file()?,
            "ssl-key" => tls.key = file()?,
            "ssl-cipher" => tls.ciphers = Some(split_list(text()?, ':')),
            "tls-ciphersuites" => tls.suites = Some(split_list(text()?, ':')),
            "tls-version" => tls.versions = Some(parse_tls_versions(text()?)?),
            "tls-sni-servername" => tls.server_name = Some(text()?.to_owned()),
            "ssl-fips-mode" if text()?.eq_ignore_ascii_case("off") => {}
            "tls" => tls.mode = Some(parse_tls(text()?)?),
            "tls-ca" => {
                tls.authorities = file()?;
                tls.host_verification = HostVerification::Required;
            }
            _ => {
                let remedy = UNSUPPORTED.iter().find(|(known, _)| *known == name).map(|(_, remedy)| *remedy);
                if remedy.is_none() && closest_name(name).is_some_and(|closest| closest != name) {
                    return Err(not_an_option(name));
                }
                let remedy = remedy.unwrap_or("remove the option");
                return Err(format!("{name} is not supported: {remedy}"));
            }
        }
        Ok(())
    }

    /// Returns the options that apply to every server of a command: without user, password, host, port, socket and
    /// protocol.
    ///
    /// TLS options remain if they require more than the default.
    #[must_use]
    pub fn for_other_server(&self) -> Self {
        let mut tls = self.tls.clone();
        tls.drop_lowering_mode();
        Self { tls, user: None, password: None, ..self.for_other_endpoint() }
    }

    /// Returns the options without host, port, socket and protocol.
    #[must_use]
    pub fn for_other_endpoint(&self) -> Self {
        Self { host: None, port: None, socket: None, protocol: None, ..self.clone() }
    }

    /// Returns the compressions to request, the best first.
    pub(crate) fn compressions(
        algorithms: Option<&[CompressionAlgorithm]>,
        zstd_level: Option<u8>,
    ) -> Vec<Option<PacketCompression>> {
        let compression = |algorithm: &CompressionAlgorithm| match algorithm {
            CompressionAlgorithm::Uncompressed => None,
            CompressionAlgorithm::Zlib => Some(PacketCompression::Zlib { level: ZLIB_LEVEL }),
            CompressionAlgorithm::Zstd => {
                Some(PacketCompression::Zstd { level: zstd_level.unwrap_or(ZSTD_LEVEL) })
            }
        };
        algorithms.unwrap_or(&[CompressionAlgorithm::Uncompressed]).iter().map(compression).collect()
    }
}

/// Returns false for a TLS option that MySQL's programs do not know. Only for such an option does `loose-` suppress the
/// error.
pub(crate) fn is_mysql_option(name: &str) -> bool {
    let is_of_tls = name.starts_with("ssl") || name.starts_with("tls");
    !is_of_tls || is_connection_option(name) || UNSUPPORTED.iter().any(|(known, _)| *known == name)
}

/// Returns whether this is the name of a connection option.
pub(crate) fn is_connection_option(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns the error for an unknown option, with a suggestion for a similar name.
pub(crate) fn not_an_option(name: &str) -> String {
    match closest_name(&name.replace('_', "-").to_ascii_lowercase()) {
        Some(closest) => format!("{name} is not a connection option (did you mean {closest}?)"),
        None => format!("{name} is not a connection option"),
    }
}

/// Returns the option whose name differs from this one by a few letters.
fn closest_name(name: &str) -> Option<&'static str> {
    // Ignore a prefix that many names share.
    let own = ["ssl", "tls"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    nearest_name(name, own.trim_start_matches('-').chars().count(), NAMES)
}

fn parse_path(name: &str, value: Option<&str>) -> Result<PathBuf, String> {
    match value {
        Some(text) if !text.is_empty() => Ok(PathBuf::from(text)),
        _ => Err(format!("{name} requires a file or directory")),
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("port is {text}; expected a number up to 65535"))
}

fn parse_protocol(text: &str) -> Result<ConnectionProtocol, String> {
    match text.to_ascii_uppercase().as_str() {
        "TCP" => Ok(ConnectionProtocol::Tcp),
        "SOCKET" => Ok(ConnectionProtocol::Socket),
        _ => Err(format!("protocol is {text}; expected TCP or SOCKET")),
    }
}

fn parse_ssl_mode(text: &str) -> Result<SslMode, String> {
    SslMode::from_name(text).ok_or_else(|| {
        let names = SslMode::ALL.map(SslMode::name);
        format!("ssl-mode is {text}; expected one of {}", names.join(", "))
    })
}

fn parse_tls(text: &str) -> Result<SslMode, String> {
    match text {
        "off" => Ok(SslMode::Disabled),
        "required" => Ok(SslMode::Required),
        _ => Err(format!("tls is {text}; expected off or required")),
    }
}

fn parse_tls_versions(text: &str) -> Result<Vec<TlsVersion>, String> {
    let version = |name: &str| match name.trim().to_ascii_lowercase().as_str() {
        "tlsv1.2" => Ok(TlsVersion::Tls12),
        "tlsv1.3" => Ok(TlsVersion::Tls13),
        _ => Err(format!("tls-version has {name}; expected TLSv1.2 or TLSv1.3")),
    };
    text.split(',').map(version).collect()
}

fn parse_algorithms(text: &str) -> Result<Vec<CompressionAlgorithm>, String> {
    let algorithm = |name: &str| match name.trim().to_ascii_lowercase().as_str() {
        "zlib" => Ok(CompressionAlgorithm::Zlib),
        "zstd" => Ok(CompressionAlgorithm::Zstd),
        "uncompressed" => Ok(CompressionAlgorithm::Uncompressed),
        _ => Err(format!("compression-algorithms has {name}; expected zstd, zlib or uncompressed")),
    };
    text.split(',').map(algorithm).collect()
}

fn parse_zstd_level(text: &str) -> Result<u8, String> {
    let level = text.parse().ok().filter(|level| (1..=22).contains(level));
    level.ok_or_else(|| format!("zstd-compression-level is {text}; expected a number from 1 to 22"))
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    // A larger number overflows the clock.
    match text.parse::<u32>() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds.into())),
        _ => Err(format!("timeout is {text}; expected a number of seconds")),
    }
}

fn parse_switch(name: &str, value: Option<&str>) -> Result<bool, String> {
    let Some(value) = value else { return Ok(true) };
    match value.to_ascii_lowercase().as_str() {
        "" | "1" | "on" | "true" => Ok(true),
        "0" | "off" | "false" => Ok(false),
        _ => Err(format!("{name} is {value}; expected ON or OFF")),
    }
}

fn split_list(text: &str, separator: char) -> Vec<String> {
    text.split(separator).map(|name| name.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{ConnectionOptions, NAMES, OptionRecognition, is_mysql_option, not_an_option};

    #[test]
    fn invalid_values_are_errors() {
        let check = |name: &str, value: Option<&str>, expected: &str| {
            let error = ConnectionOptions::default().set(name, value).unwrap_err();
            assert_eq!(error, expected);
        };
        check("port", Some("x"), "port is x; expected a number up to 65535");
        check("port", Some("70000"), "port is 70000; expected a number up to 65535");
        check("user", None, "user requires a value");
        check("tls-version", Some(""), "tls-version requires a value");
        check("protocol", Some("pipe"), "protocol is pipe; expected TCP or SOCKET");
        check("ssl_ca", Some(""), "ssl-ca requires a file or directory");
        check("ssl-ca", None, "ssl-ca requires a file or directory");
        let modes = "DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY";
        check("ssl-mode", Some("on"), &format!("ssl-mode is on; expected one of {modes}"));
        check("tls", Some("maybe"), "tls is maybe; expected off or required");
        check("tls-version", Some("TLSv1.1"), "tls-version has TLSv1.1; expected TLSv1.2 or TLSv1.3");
        check(
            "zstd-compression-level",
            Some("23"),
            "zstd-compression-level is 23; expected a number from 1 to 22",
        );
        check("get-server-public-key", Some("x"), "get-server-public-key is x; expected ON or OFF");
        check("timeout", Some("0"), "timeout is 0; expected a number of seconds");
        check("timeout", Some("4294967296"), "timeout is 4294967296; expected a number of seconds");
        check("ssl-session-data", Some("x"), "ssl-session-data is not supported: remove the option");
        check("ssl-fips-mode", Some("ON"), "ssl-fips-mode is not supported: remove the option");
        check("tls-odd", Some("x"), "tls-odd is not supported: remove the option");
        check("ssl", None, "ssl is not supported: set ssl-mode=REQUIRED or ssl-mode=DISABLED");
    }

    #[test]
    fn near_misses_get_a_suggestion() {
        let check = |name: &str, expected: &str| assert_eq!(not_an_option(name), expected);
        check("hots", "hots is not a connection option (did you mean host?)");
        check("passwordfile", "passwordfile is not a connection option (did you mean password-file?)");
        check("pasword_file", "pasword_file is not a connection option (did you mean password-file?)");
        check("odd", "odd is not a connection option");
        check("max-allowed-packet", "max-allowed-packet is not a connection option");
        let of_tls = |name: &str| ConnectionOptions::default().set(name, Some("x")).unwrap_err();
        assert_eq!(of_tls("sslmode"), "sslmode is not a connection option (did you mean ssl-mode?)");
        assert_eq!(of_tls("ssl-capth"), "ssl-capth is not a connection option (did you mean ssl-capath?)");
        for name in NAMES {
            let taken = ConnectionOptions::default().set(name, Some("off"));
            assert_ne!(taken, Ok(OptionRecognition::Unknown), "{name}");
            assert!(!taken.is_err_and(|why| why.contains("not supported")), "{name}");
        }
    }

    #[test]
    fn options_of_other_parts_are_unknown() {
        let mut options = ConnectionOptions::default();
        assert_eq!(options.set("max_allowed_packet", Some("1G")), Ok(OptionRecognition::Unknown));
        assert_eq!(options, ConnectionOptions::default());
    }

    #[test]
    fn mysqls_options_are_recognised() {
        let known = ["ssl-ca", "ssl-mode", "tls-version", "ssl-session-data", "ssl-fips-mode", "ssl"];
        assert!(known.into_iter().all(is_mysql_option));
        assert!(!["ssl-odd", "tls-odd"].into_iter().any(is_mysql_option));
    }

    #[test]
    fn passwords_are_never_shown() {
        let mut options = ConnectionOptions::default();
        options.set("password", Some("secret")).unwrap();
        assert!(!format!("{options:?}").contains("secret"));
    }
}
