//! Outcome of a connection for each TLS mode, certificate and offer of TLS. A proxy records the bytes: they must
//! not contain readable data, unless the mode allows it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::program::bintide;
use e2e::replays;
use rcgen::DnType::CommonName;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa, KeyIdMethod,
    KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use servers::{
    CancelToken, LinkOptions, PasswordSource, PublicKeySource, ServerAddress, ServerLink, SqlConnection,
    SslMode, TlsPolicy,
};
use tempfile::TempDir;
use testkit::{Launch, Proxy, TestServer};
use wire::CleartextPolicy;

/// User name, which must not be readable in encrypted connections.
const USER: &str = "matrix_user";
const PASSWORD: &str = "matrix_secret";
/// Table whose name is in the server's log.
const TABLE: &str = "matrix_table";

/// Kind of server certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certificate {
    Right,
    Expired,
    OtherName,
    UnknownAuthority,
    Revoked,
    SelfSigned,
}

impl Certificate {
    const ALL: [Self; 6] = [
        Self::Right,
        Self::Expired,
        Self::OtherName,
        Self::UnknownAuthority,
        Self::Revoked,
        Self::SelfSigned,
    ];
}

/// Server's offer of TLS as the client receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    Arrives,
    /// A man in the middle removes the offer.
    Removed,
}

/// Outcome of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionOutcome {
    Plain,
    Encrypted,
    Refused(&'static str),
}

/// Returns the outcome under the rules of MySQL's own programs.
fn expected_outcome(mode: SslMode, certificate: Certificate, offer: Offer) -> ConnectionOutcome {
    match (mode, offer) {
        (SslMode::Disabled, _) | (SslMode::Preferred, Offer::Removed) => return ConnectionOutcome::Plain,
        (_, Offer::Removed) => {
            return ConnectionOutcome::Refused("a man in the middle has removed the offer");
        }
        (SslMode::Preferred | SslMode::Required, Offer::Arrives) => return ConnectionOutcome::Encrypted,
        (SslMode::VerifyCa | SslMode::VerifyIdentity, Offer::Arrives) => {}
    }
    match certificate {
        Certificate::Right => ConnectionOutcome::Encrypted,
        Certificate::OtherName if mode == SslMode::VerifyCa => ConnectionOutcome::Encrypted,
        Certificate::OtherName => ConnectionOutcome::Refused("certificate is not for 127.0.0.1"),
        Certificate::Expired => ConnectionOutcome::Refused("certificate has expired"),
        Certificate::Revoked => ConnectionOutcome::Refused("certificate has been revoked"),
        Certificate::UnknownAuthority | Certificate::SelfSigned => {
            ConnectionOutcome::Refused("not signed by an authority in")
        }
    }
}

type Authority = CertifiedIssuer<'static, KeyPair>;

/// Certificates in the files of one directory.
struct Certificates {
    directory: TempDir,
}

impl Certificates {
    fn new() -> Result<Self> {
        let certificates = Self { directory: TempDir::new()? };
        let (ours, other) = (certificates.authority("ca")?, certificates.authority("other-ca")?);
        for certificate in Certificate::ALL {
            certificates.make(certificate, &ours, &other)?;
        }
        let revoked = |serial_number| RevokedCertParams {
            serial_number,
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(2099, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked(serial(Certificate::Revoked))],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        fs::write(certificates.path("crl.pem"), list.signed_by(&ours)?.pem()?)?;
        let client = CertificateParams::new(Vec::new())?;
        let key = KeyPair::generate()?;
        fs::write(certificates.path("client.pem"), client.signed_by(&key, &ours)?.pem())?;
        fs::write(certificates.path("client.key"), key.serialize_pem())?;
        Ok(certificates)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn authority(&self, name: &str) -> Result<Authority> {
        let mut params = CertificateParams::new([])?;
        params.distinguished_name.push(CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = Authority::self_signed(params, KeyPair::generate()?)?;
        fs::write(self.path(&format!("{name}.pem")), authority.pem())?;
        Ok(authority)
    }

    fn make(&self, certificate: Certificate, ours: &Authority, other: &Authority) -> Result<()> {
        let names: &[&str] = match certificate {
            Certificate::OtherName => &["db.example.org"],
            _ => &["localhost", "127.0.0.1"],
        };
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let until = if certificate == Certificate::Expired { 2021 } else { 2099 };
        let mut params = CertificateParams::new(names)?;
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(until, 12, 31));
        params.serial_number = Some(serial(certificate));
        let key = KeyPair::generate()?;
        let pem = match certificate {
            Certificate::SelfSigned => params.self_signed(&key)?.pem(),
            Certificate::UnknownAuthority => params.signed_by(&key, other)?.pem(),
            _ => params.signed_by(&key, ours)?.pem(),
        };
        fs::write(self.path(&format!("{certificate:?}.pem")), pem)?;
        Ok(fs::write(self.path(&format!("{certificate:?}.key")), key.serialize_pem())?)
    }

    /// Makes the running server use this certificate.
    fn install(&self, server: &TestServer, certificate: Certificate) -> Result<()> {
        let file = |kind: &str| self.text(&format!("{certificate:?}.{kind}"));
        // The server needs the CA of its own certificate.
        let authority = if certificate == Certificate::UnknownAuthority { "other-ca.pem" } else { "ca.pem" };
        let sql = format!(
            "set global ssl_ca='{}', ssl_cert='{}', ssl_key='{}'; alter instance reload tls",
            self.text(authority),
            file("pem"),
            file("key")
        );
        server.sql(&sql).map(drop).with_context(|| format!("{certificate:?}"))
    }

    /// Returns the options of a server that uses this certificate from its start. A running server refuses an
    /// expired one.
    fn options(&self, certificate: Certificate) -> [String; 2] {
        let file = |kind: &str| self.text(&format!("{certificate:?}.{kind}"));
        [format!("--ssl-cert={}", file("pem")), format!("--ssl-key={}", file("key"))]
    }

    /// Returns a policy with our CA and its revocation list.
    fn policy(&self, mode: SslMode) -> TlsPolicy {
        let revocations = mode.verifies().then(|| self.path("crl.pem"));
        TlsPolicy { mode, revocations, ..TlsPolicy::verify_identity(self.path("ca.pem")) }
    }
}

fn serial(certificate: Certificate) -> SerialNumber {
    SerialNumber::from(100 + certificate as u64)
}

/// Starts a server with an account, and with a table in its log.
fn server() -> Result<TestServer> {
    server_by(&Launch::mysql())
}

fn server_by(launch: &Launch) -> Result<TestServer> {
    let server = replays::source(launch, &[])?;
    server.sql(&format!(
        "create user {USER}@'%' identified by '{PASSWORD}'; grant all on *.* to {USER}@'%' with grant option;
         create database d; create table d.{TABLE} (a int primary key); insert into d.{TABLE} values (1), (2)"
    ))?;
    Ok(server)
}

fn address(port: u16, tls: TlsPolicy) -> ServerAddress {
    ServerAddress {
        user: USER.to_owned(),
        password: PasswordSource::Text(PASSWORD.to_owned()),
        host: "127.0.0.1".to_owned(),
        port,
        socket: None,
        tls,
        public_key: PublicKeySource::Server,
        compressions: vec![None],
        cleartext: CleartextPolicy::Refuse,
        timeout: ServerAddress::DEFAULT_TIMEOUT,
        cancel: CancelToken::default(),
    }
}

/// Opens a connection, runs a query, and returns the outcome.
type Connects = fn(&ServerAddress) -> Result<ConnectionOutcome, servers::ConnectionError>;

fn outcome(cipher: Option<Vec<u8>>) -> ConnectionOutcome {
    if cipher.unwrap_or_default().is_empty() {
        ConnectionOutcome::Plain
    } else {
        ConnectionOutcome::Encrypted
    }
}

fn by_sql(address: &ServerAddress) -> Result<ConnectionOutcome, servers::ConnectionError> {
    let rows = SqlConnection::open(address)?.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")?;
    Ok(outcome(rows.into_iter().flatten().nth(1).flatten()))
}

fn by_link(address: &ServerAddress) -> Result<ConnectionOutcome, servers::ConnectionError> {
    let mut link = ServerLink::open(address, &LinkOptions::default())?;
    let rows = link.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'")?;
    Ok(outcome(rows.into_iter().flatten().nth(1).flatten()))
}

/// Returns the texts that were readable in transit.
fn readable(proxy: &Proxy) -> Vec<&'static str> {
    let recording = proxy.recorded();
    [USER, PASSWORD, TABLE, "SELECT", "SHOW"].into_iter().filter(|text| recording.contains(text)).collect()
}

#[test]
fn every_mode_is_tried_with_every_certificate() -> Result<()> {
    let (certificates, usual) = (Certificates::new()?, server()?);
    let expired = server_by(&Launch::mysql().options(certificates.options(Certificate::Expired)))?;
    for certificate in Certificate::ALL {
        let server = match certificate {
            Certificate::Expired => &expired,
            _ => &usual,
        };
        let proxy = Proxy::to(server.port())?;
        if certificate != Certificate::Expired {
            certificates.install(server, certificate)?;
        }
        for offer in [Offer::Arrives, Offer::Removed] {
            proxy.remove_tls(offer == Offer::Removed);
            for mode in SslMode::ALL {
                let address = address(proxy.port(), certificates.policy(mode));
                for connect in [by_sql as Connects, by_link] {
                    let cell = format!("{mode:?}, {certificate:?}, {offer:?}");
                    proxy.record();
                    check(&proxy, connect(&address), &address, expected_outcome(mode, certificate, offer))
                        .context(cell)?;
                }
            }
        }
    }
    Ok(())
}

fn check(
    proxy: &Proxy,
    found: Result<ConnectionOutcome, servers::ConnectionError>,
    address: &ServerAddress,
    expected: ConnectionOutcome,
) -> Result<()> {
    let readable = readable(proxy);
    match (found, expected) {
        (Ok(found), expected) => ensure!(found == expected, "found {found:?}, expected {expected:?}"),
        (Err(error), ConnectionOutcome::Refused(why)) => {
            let text = error.to_string();
            ensure!(text.contains(why), "expected {why}: {text}");
            for weak in ["tls=off", "DISABLED"] {
                ensure!(!text.contains(weak), "{address}: the message advises a weaker mode: {text}");
            }
        }
        (Err(error), expected) => bail!("expected {expected:?}: {error}"),
    }
    match expected {
        // The server's public key encrypts the password. The other readable data prove that the proxy records.
        ConnectionOutcome::Plain => {
            let as_expected = readable.contains(&USER) && !readable.contains(&PASSWORD);
            ensure!(as_expected, "readable: {readable:?}");
        }
        _ => ensure!(readable.is_empty(), "readable: {readable:?}"),
    }
    Ok(())
}

#[test]
fn unusable_tls_settings_are_refused_before_anything_is_sent() -> Result<()> {
    let (certificates, server) = (Certificates::new()?, server()?);
    let proxy = Proxy::to(server.port())?;
    proxy.record();
    let odd = certificates.path("odd.pem");
    fs::write(&odd, "odd")?;
    let refused = |policy: TlsPolicy, expected: &str| {
        for connect in [by_sql as Connects, by_link] {
            let error =
                connect(&address(proxy.port(), policy.clone())).err().context("the connection succeeded")?;
            ensure!(error.to_string().contains(expected), "expected {expected}: {error}");
        }
        Ok(())
    };
    for mode in [SslMode::VerifyCa, SslMode::VerifyIdentity] {
        refused(TlsPolicy::with_mode(mode), "CA certificate is required")?;
        for path in [certificates.path("none.pem"), odd.clone()] {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            refused(TlsPolicy { mode, ..TlsPolicy::verify_identity(path) }, &name)?;
        }
    }
    let list = TlsPolicy { revocations: Some(odd.clone()), ..certificates.policy(SslMode::VerifyCa) };
    refused(list, "no revocation list")?;
    let list = TlsPolicy { revocations: Some(odd), ..TlsPolicy::default() };
    refused(list, "ssl-mode is VERIFY_CA or VERIFY_IDENTITY")?;
    ensure!(proxy.passed() == 0, "something was sent");
    Ok(())
}

#[test]
fn sockets_directories_and_client_certificates() -> Result<()> {
    let (certificates, server) = (Certificates::new()?, server()?);
    certificates.install(&server, Certificate::Right)?;
    let by_socket = |policy: TlsPolicy| ServerAddress {
        socket: Some(server.socket().to_path_buf()),
        ..address(server.port(), policy)
    };
    for connect in [by_sql as Connects, by_link] {
        // Like the mysql client, socket connections are encrypted only if the mode requires it.
        for (mode, expected) in [
            (SslMode::Preferred, ConnectionOutcome::Plain),
            (SslMode::VerifyIdentity, ConnectionOutcome::Encrypted),
        ] {
            let found = connect(&by_socket(certificates.policy(mode)))?;
            ensure!(found == expected, "{mode:?} by a socket: {found:?}");
        }
        // File names as openssl rehash writes them; the hash does not matter here.
        let directory = certificates.directory.path().join("hashed");
        fs::create_dir_all(&directory)?;
        for (from, to) in [("ca.pem", "01234567.0"), ("crl.pem", "01234567.r0")] {
            fs::copy(certificates.path(from), directory.join(to))?;
        }
        let hashed = TlsPolicy {
            mode: SslMode::VerifyIdentity,
            authority_directory: Some(directory.clone()),
            revocation_directory: Some(directory),
            ..TlsPolicy::default()
        };
        ensure!(connect(&address(server.port(), hashed))? == ConnectionOutcome::Encrypted);
        server.sql(&format!("alter user {USER}@'%' require x509"))?;
        let error = connect(&address(server.port(), TlsPolicy::default()));
        ensure!(matches!(error, Err(servers::ConnectionError::Refused { code: 1045, .. })), "{error:?}");
        let own = TlsPolicy {
            certificate: Some(certificates.path("client.pem")),
            key: Some(certificates.path("client.key")),
            ..certificates.policy(SslMode::VerifyIdentity)
        };
        ensure!(connect(&address(server.port(), own))? == ConnectionOutcome::Encrypted);
        server.sql(&format!("alter user {USER}@'%' require none"))?;
    }
    Ok(())
}

/// TLS options of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsOption {
    /// No options.
    Default,
    Off,
    Required,
    /// A mode and our CA.
    Verified,
    /// A mode and our CA in an option file.
    OptionFile,
    /// `--ssl-ca` with our CA, without a mode.
    AuthorityAlone,
}

/// Commands that connect.
const COMMANDS: [&str; 7] = ["dump", "receive", "replay --to", "replay --from", "stream", "warm", "advise"];

struct Commands<'a> {
    certificates: &'a Certificates,
    logs: &'a [PathBuf],
    port: u16,
    directory: TempDir,
}

impl Commands<'_> {
    fn command(&self, name: &str, option: TlsOption) -> Result<Command> {
        let (ca, port) = (self.certificates.text("ca.pem"), self.port.to_string());
        let query = match option {
            TlsOption::Default | TlsOption::OptionFile | TlsOption::AuthorityAlone => String::new(),
            TlsOption::Off => "?tls=off".to_owned(),
            TlsOption::Required => "?tls=required".to_owned(),
            TlsOption::Verified => format!("?tls-ca={ca}&tls=required"),
        };
        let server = format!("mysql://{USER}@127.0.0.1:{port}/{query}");
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let mut command = Command::new(bintide()?);
        command.env_clear().env("MYSQL_PWD", PASSWORD).stdout(Stdio::null()).stderr(Stdio::piped());
        let account = ["-h", "127.0.0.1", "-P", &port, "-u", USER];
        // Options of commands whose server is not given as an address.
        let options = match option {
            TlsOption::Default | TlsOption::OptionFile => Vec::new(),
            TlsOption::Off => vec!["--ssl-mode=DISABLED".to_owned()],
            TlsOption::Required => vec!["--ssl-mode=REQUIRED".to_owned()],
            TlsOption::Verified => vec!["--ssl-mode=VERIFY_IDENTITY".to_owned(), format!("--ssl-ca={ca}")],
            TlsOption::AuthorityAlone => vec![format!("--ssl-ca={ca}")],
        };
        let verb = name.split(' ').next().unwrap_or(name);
        command.arg(verb);
        if option == TlsOption::OptionFile {
            let file = path("my.cnf");
            fs::write(&file, format!("[client]\nssl-ca={ca}\nssl-mode=VERIFY_IDENTITY\n"))?;
            command.arg(format!("--defaults-file={file}"));
        }
        match name {
            "dump" => command.arg("-R").args(account).arg("binlog.000001").args(options),
            "warm" => command.args(account).args(options),
            "receive" => command.args([&path("store"), "--from", &server, "--stop-at-end"]),
            "replay --to" => command.args(self.logs).args(["--to", &server]),
            "replay --from" => {
                let sqlite = format!("sqlite:{}", path("copy.db"));
                command.args(["--relay", &path("relay"), "--to", &sqlite, "--from", &server])
            }
            "stream" => command.args(["--format", "maxwell", "--stop-at-end", "--from", &server]),
            "advise" => command.args(["--from", &server]),
            _ => bail!("no command {name}"),
        };
        Ok(command)
    }
}

/// Number of bytes from a server that is larger than a login with a certificate.
const LOGGED_IN_BYTES: usize = 2_000;

/// Waits for the command's end, or until it is logged in and reads data. Returns its messages.
fn watch(mut child: Child, proxy: &Proxy) -> Result<String> {
    const ENOUGH_BYTES: usize = 20_000;
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        let is_in = proxy.recorded().server.len() > ENOUGH_BYTES;
        if is_in || start.elapsed() > Duration::from_secs(5) {
            child.kill()?;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(String::from_utf8_lossy(&child.wait_with_output()?.stderr).into_owned())
}

#[test]
fn every_command_obeys_the_mode() -> Result<()> {
    let (certificates, server) = (Certificates::new()?, server()?);
    let source = replays::source(&Launch::mysql().option("--server-id=9"), &[])?;
    source.sql("create database e; create table e.t (a int primary key); flush binary logs")?;
    let proxy = Proxy::to(server.port())?;
    let logs: Vec<PathBuf> = source.binlogs()?;
    let (directory, port) = (TempDir::new()?, proxy.port());
    let commands = Commands { certificates: &certificates, logs: &logs, port, directory };
    // Unencrypted connections prove that the proxy records. This login puts the password into the server's cache.
    by_sql(&address(server.port(), TlsPolicy::default()))?;
    let untrusted = ConnectionOutcome::Refused("not signed by an authority in");
    let cells: [(TlsOption, Certificate, Offer, ConnectionOutcome); 9] = [
        (TlsOption::Off, Certificate::Right, Offer::Arrives, ConnectionOutcome::Plain),
        (TlsOption::Default, Certificate::SelfSigned, Offer::Arrives, ConnectionOutcome::Encrypted),
        (TlsOption::Verified, Certificate::Right, Offer::Arrives, ConnectionOutcome::Encrypted),
        (TlsOption::Verified, Certificate::UnknownAuthority, Offer::Arrives, untrusted),
        (TlsOption::OptionFile, Certificate::Right, Offer::Arrives, ConnectionOutcome::Encrypted),
        (TlsOption::OptionFile, Certificate::UnknownAuthority, Offer::Arrives, untrusted),
        // As in mysqlbinlog, --ssl-ca enables verification even without a mode.
        (TlsOption::AuthorityAlone, Certificate::UnknownAuthority, Offer::Arrives, untrusted),
        (
            TlsOption::Verified,
            Certificate::Right,
            Offer::Removed,
            ConnectionOutcome::Refused("man in the middle"),
        ),
        (
            TlsOption::Required,
            Certificate::Right,
            Offer::Removed,
            ConnectionOutcome::Refused("man in the middle"),
        ),
    ];
    for (option, certificate, offer, expected) in cells {
        certificates.install(&server, certificate)?;
        proxy.remove_tls(offer == Offer::Removed);
        for name in COMMANDS {
            if option == TlsOption::AuthorityAlone && !["dump", "warm"].contains(&name) {
                continue;
            }
            let cell = format!("{name}: {option:?}, {certificate:?}, {offer:?}");
            proxy.record();
            let text = watch(commands.command(name, option)?.spawn()?, &proxy)?;
            let readable = readable(&proxy);
            match expected {
                ConnectionOutcome::Refused(why) => {
                    ensure!(text.contains(why), "{cell}: expected {why}: {text}")
                }
                _ => {
                    ensure!(!text.contains("TLS") && !text.contains("no connection"), "{cell}: {text}");
                    let received = proxy.recorded().server.len();
                    let is_logged_in = expected == ConnectionOutcome::Plain || received > LOGGED_IN_BYTES;
                    ensure!(is_logged_in, "{cell}: it received only {received} bytes: {text}");
                }
            }
            ensure!(
                !text.contains("tls=off") && !text.contains("DISABLED"),
                "{cell}: the message advises a weaker mode: {text}"
            );
            match expected {
                ConnectionOutcome::Plain => {
                    ensure!(readable.contains(&USER), "{cell}: nothing was recorded: {text}")
                }
                _ => ensure!(readable.is_empty(), "{cell}: readable: {readable:?}"),
            }
        }
    }
    Ok(())
}

#[test]
fn servers_without_tls() -> Result<()> {
    let certificates = Certificates::new()?;
    let server = Launch::mysql().options(["--server-id=2", "--tls-version="]).start()?;
    for connect in [by_sql as Connects, by_link] {
        let address = |mode| ServerAddress {
            user: "root".to_owned(),
            password: PasswordSource::None,
            ..address(server.port(), certificates.policy(mode))
        };
        ensure!(connect(&address(SslMode::Preferred))? == ConnectionOutcome::Plain);
        for mode in [SslMode::Required, SslMode::VerifyCa, SslMode::VerifyIdentity] {
            let error = connect(&address(mode)).err().context("the connection succeeded")?.to_string();
            ensure!(error.contains("does not offer TLS") && error.contains(mode.name()), "{error}");
        }
    }
    // A server that requires TLS, and a client without TLS.
    let strict = Launch::mysql().option("--require-secure-transport=ON").start()?;
    let plain = ServerAddress {
        user: "root".to_owned(),
        password: PasswordSource::None,
        ..address(strict.port(), TlsPolicy::with_mode(SslMode::Disabled))
    };
    for connect in [by_sql as Connects, by_link] {
        let error = connect(&plain).err().context("the connection succeeded")?.to_string();
        ensure!(error.contains("--ssl-mode") && error.contains("REQUIRED"), "{error}");
    }
    Ok(())
}

#[test]
fn servers_without_common_ciphers() -> Result<()> {
    // As old servers, which lack bintide's ciphers.
    let server = Launch::mysql()
        .options(["--server-id=2", "--tls-version=TLSv1.2", "--ssl-cipher=DHE-RSA-AES128-GCM-SHA256"])
        .start()?;
    for connect in [by_sql as Connects, by_link] {
        for (mode, advises_plain) in [(SslMode::Preferred, true), (SslMode::Required, false)] {
            let address = ServerAddress {
                user: "root".to_owned(),
                password: PasswordSource::None,
                ..address(server.port(), TlsPolicy::with_mode(mode))
            };
            let error = connect(&address).err().context("the connection succeeded")?.to_string();
            ensure!(error.contains("(9.") && error.contains("ECDHE"), "{error}");
            ensure!(error.contains("DISABLED") == advises_plain, "{mode:?}: {error}");
        }
    }
    Ok(())
}
