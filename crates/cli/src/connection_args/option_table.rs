//! Table of the connection options.

/// One connection option.
pub(super) struct OptionSpec {
    /// Long name.
    pub(super) name: &'static str,
    /// Short name.
    pub(super) short: Option<char>,
    /// Name of the value; `None` for a switch.
    pub(super) value: Option<&'static str>,
    /// Help text.
    pub(super) help: &'static str,
}

const fn valued(name: &'static str, value: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, short: None, value: Some(value), help }
}

const fn short(name: &'static str, short: char, value: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, short: Some(short), value: Some(value), help }
}

const fn switch(name: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, short: None, value: None, help }
}

/// Connection options.
pub(super) const CONNECTION_OPTIONS: [OptionSpec; 26] = [
    short(
        "host",
        'h',
        "HOST",
        "Host name of the server. localhost means the Unix socket file, except with --port or in a mysql:// \
         address",
    ),
    short("port", 'P', "PORT", "TCP port of the server [default: 3306]"),
    short("socket", 'S', "FILE", "Unix socket file of a server on this machine"),
    valued("protocol", "PROTOCOL", "Transport protocol: TCP or SOCKET"),
    short("user", 'u', "USER", "User name of the account [default: the login name, from $USER]"),
    OptionSpec {
        name: PASSWORD,
        short: Some('p'),
        value: Some("PASSWORD"),
        help: "Password of the account, also as -pPASSWORD; without a value, bintide prompts for it",
    },
    valued("password-file", "FILE", "Read the password from the first line of this file"),
    valued(
        "password-command",
        "COMMAND",
        "Read the password from the first line that this shell command prints; the command runs for each new connection, \
         so that it can print a token that expires",
    ),
    valued(
        "ssl-mode",
        "MODE",
        "Encryption: DISABLED, PREFERRED, REQUIRED, VERIFY_CA (the server's certificate must be signed by an authority \
         of --ssl-ca) or VERIFY_IDENTITY (the certificate must also be for the host name). --ssl-ca, --ssl-capath, \
         --ssl-crl and --ssl-crlpath verify at least as VERIFY_CA, even with --ssl-mode=REQUIRED (unlike mysql) \
         [default: PREFERRED]",
    ),
    valued("ssl-ca", "FILE", "Trust the certificate authorities in this file (PEM)"),
    valued(
        "ssl-capath",
        "DIR",
        "Trust the certificate authorities in this directory; prepare it with `openssl rehash`",
    ),
    valued("ssl-crl", "FILE", "Refuse certificates that the revocation lists in this file contain (PEM)"),
    valued(
        "ssl-crlpath",
        "DIR",
        "Refuse certificates that the revocation lists in this directory contain; prepare it with `openssl rehash`",
    ),
    valued("ssl-cert", "FILE", "Client certificate (PEM)"),
    valued("ssl-key", "FILE", "Private key of the client certificate (PEM)"),
    valued("ssl-cipher", "LIST", "TLS 1.2 ciphers to offer: OpenSSL names, separated by colons"),
    valued("tls-version", "LIST", "TLS versions to offer, separated by commas: TLSv1.2, TLSv1.3"),
    valued("tls-ciphersuites", "LIST", "TLS 1.3 ciphersuites to offer, separated by colons"),
    valued("tls-sni-servername", "NAME", "Server name (SNI) to send in the TLS handshake"),
    valued("tls-ca", "FILE", "The same as --ssl-ca with --ssl-mode=VERIFY_IDENTITY"),
    switch(
        "get-server-public-key",
        "Without TLS, request from the server the RSA public key that encrypts the password. Unsafe: a man in the middle \
         can send another key and then read the password",
    ),
    valued(
        "server-public-key-path",
        "FILE",
        "File with the server's RSA public key (PEM): a copy of its public_key.pem",
    ),
    switch(
        "enable-cleartext-plugin",
        "Send the password as cleartext, over TLS only, if the server requests it, as for IAM and LDAP",
    ),
    valued(
        "compression-algorithms",
        "LIST",
        "Compression algorithms of the connection, the preferred one first: zstd, zlib, uncompressed",
    ),
    valued("zstd-compression-level", "LEVEL", "zstd compression level, 1 to 22 [default: 3]"),
    valued("login-path", "NAME", "Read this login path from the login path file (mysql_config_editor)"),
];

/// Returns the ids of the connection options of a command's main server.
pub(crate) fn main_server_options() -> impl Iterator<Item = &'static str> {
    CONNECTION_OPTIONS.iter().map(|spec| spec.name)
}

/// Options that choose option files.
pub(super) const OPTION_FILE_OPTIONS: [OptionSpec; 5] = [
    valued("defaults-file", "FILE", "Read only this option file, and the login path file"),
    valued("defaults-extra-file", "FILE", "Read this option file after the global option files"),
    valued("defaults-group-suffix", "SUFFIX", "Also read groups with this suffix: [client_east] for _east"),
    switch("no-defaults", "Read no option file except the login path file"),
    switch("no-login-paths", "Do not read the login path file"),
];

/// Name of the option for the password.
pub(super) const PASSWORD: &str = "password";
/// Mutually exclusive options.
pub(super) const PASSWORD_OPTIONS: [&str; 3] = [PASSWORD, "password-file", "password-command"];
/// Options that request encryption, or the verification of the server. The strictest request of all sources applies.
pub(super) const VERIFICATION_OPTIONS: [&str; 6] =
    ["ssl-mode", "ssl-ca", "ssl-capath", "ssl-crl", "ssl-crlpath", "tls-ca"];
/// Name of the option for a login path.
pub(super) const LOGIN_PATH: &str = "login-path";
/// Options that each suffice to name a server.
pub(crate) const SERVER_OPTIONS: [&str; 6] = ["from", "host", "port", "socket", "protocol", LOGIN_PATH];

#[cfg(test)]
mod tests {
    use servers::{ConnectionOptions, OptionRecognition};

    use super::{CONNECTION_OPTIONS, LOGIN_PATH};

    #[test]
    fn every_option_is_known_everywhere() {
        for spec in CONNECTION_OPTIONS.iter().filter(|spec| spec.name != LOGIN_PATH) {
            let taken = ConnectionOptions::default().set(spec.name, Some("x"));
            assert_ne!(taken, Ok(OptionRecognition::Unknown), "{}", spec.name);
            assert!(!taken.is_err_and(|why| why.contains("not supported")), "{}", spec.name);
        }
    }
}
