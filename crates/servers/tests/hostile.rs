//! Servers that send invalid answers: the client must return an error, without a panic or an endless wait.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use servers::{
    CancelToken, ConnectionError, PasswordSource, PublicKeySource, ServerAddress, ServerFacts, SqlConnection,
    SslMode, StatementParameter, TlsPolicy,
};
use wire::{Capabilities, CleartextPolicy, PacketCodec, ServerGreeting};

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
/// A column without a name.
const COLUMN: &[u8] = b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\xfd\0\0\0\0\0";
/// End of rows.
const END: &[u8] = b"\xfe\0\0\x02\0\0\0";
/// Answer to the preparation of a statement with one parameter and no columns.
const PREPARED: &[u8] = b"\0\x07\0\0\0\0\0\x01\0\0\0\0";

/// Connection of one client to a scripted server.
struct ScriptedPeer {
    stream: TcpStream,
    packets: PacketCodec,
}

impl ScriptedPeer {
    fn send(&mut self, payload: &[u8]) {
        self.packets.send(payload);
        let output = self.packets.output().to_vec();
        self.packets.mark_sent(output.len());
        // The client may have closed the connection.
        let _ = self.stream.write_all(&output);
    }

    /// Returns the next packet; `None` if the client has closed the connection.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(payload) = self.packets.next().unwrap() {
                return Some(payload.to_vec());
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(count) if count > 0 => self.packets.receive(&bytes[..count]),
                _ => return None,
            }
        }
    }

    fn greet(&mut self, capabilities: Capabilities) {
        let mut greeting = Vec::new();
        ServerGreeting {
            server_version: b"5.7.22-log",
            connection_id: 7,
            nonce: (b"01234567", b"89abcdefghij"),
            capabilities,
            collation: 45,
            status: 2,
            plugin: b"mysql_native_password",
        }
        .encode(&mut greeting);
        self.send(&greeting);
    }

    /// Accepts the login, and the statement that sets session variables.
    fn accept_login(&mut self) {
        self.send(OK);
        let sql = self.next_command();
        assert!(sql.is_none_or(|sql| sql.starts_with(b"\x03SET SESSION ")), "not the first statement");
        self.send(OK);
    }

    fn next_command(&mut self) -> Option<Vec<u8>> {
        self.packets.begin_command();
        self.next()
    }
}

/// All capabilities except TLS.
const PLAIN_CAPABILITIES: Capabilities = Capabilities(0xdfff_ffff & !Capabilities::SSL.0);

/// Starts a server for one client, and returns its port.
fn serve(play: impl FnOnce(&mut ScriptedPeer) + Send + 'static) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let playing = thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        play(&mut ScriptedPeer { stream, packets: PacketCodec::new(64 << 20) });
    });
    (port, playing)
}

fn address(port: u16) -> ServerAddress {
    ServerAddress {
        user: "root".to_owned(),
        password: PasswordSource::None,
        host: "127.0.0.1".to_owned(),
        port,
        socket: None,
        tls: TlsPolicy::default(),
        public_key: PublicKeySource::Unknown,
        compressions: vec![None],
        cleartext: CleartextPolicy::Refuse,
        timeout: Duration::from_secs(3),
        cancel: CancelToken::default(),
    }
}

/// Runs a request of a logged-in client; the server answers with these packets.
fn run_with_answer<T>(
    packets: &[&[u8]],
    request: impl FnOnce(&mut SqlConnection) -> Result<T, ConnectionError>,
) -> Result<T, ConnectionError> {
    let packets: Vec<Vec<u8>> = packets.iter().map(|packet| packet.to_vec()).collect();
    let (port, playing) = serve(move |peer| {
        peer.greet(PLAIN_CAPABILITIES);
        peer.next().unwrap();
        peer.accept_login();
        peer.next_command().unwrap();
        for packet in packets {
            peer.send(&packet);
        }
    });
    let mut connection = SqlConnection::open(&address(port)).unwrap();
    let result = request(&mut connection);
    drop(connection);
    playing.join().unwrap();
    result
}

#[test]
fn a_cleartext_password_is_refused_with_the_remedy() {
    for (cleartext, expected) in [
        (
            CleartextPolicy::Refuse,
            "the server requests the password as cleartext (mysql_clear_password, as for IAM and LDAP), which is not \
             allowed: set --enable-cleartext-plugin, and --ssl-mode=VERIFY_IDENTITY with --ssl-ca, so that only this \
             server reads it",
        ),
        (
            CleartextPolicy::OverTls,
            "the server requests the password as cleartext (mysql_clear_password), and the connection is not \
             encrypted: everyone on the network could read the password, so it is not sent. Set --ssl-mode=REQUIRED; if \
             the server has no TLS, turn TLS on there, or use an account with another plugin, such as \
             caching_sha2_password",
        ),
    ] {
        let (port, playing) = serve(|peer| {
            peer.greet(PLAIN_CAPABILITIES);
            peer.next().unwrap();
            peer.send(b"\xfemysql_clear_password\0");
            assert_eq!(peer.next(), None, "the password was sent");
        });
        let address = ServerAddress { cleartext, ..address(port) };
        let error = SqlConnection::open(&address).err().unwrap().to_string();
        assert_eq!(error, expected);
        playing.join().unwrap();
    }
}

#[test]
fn unknown_plugins_are_named() {
    let (port, playing) = serve(|peer| {
        peer.greet(PLAIN_CAPABILITIES);
        peer.next().unwrap();
        peer.send(b"\xfedialog\0");
        assert_eq!(peer.next(), None);
    });
    assert_eq!(
        SqlConnection::open(&address(port)).err().unwrap().to_string(),
        "the server requests the authentication plugin dialog, which bintide does not support: check the user name \
         (for an unknown user, a server may request any plugin), or change the account to caching_sha2_password"
    );
    playing.join().unwrap();
}

/// Returns the facts of a server that answers the queries with these values, in order.
fn facts(values: &'static [&str]) -> Result<ServerFacts, ConnectionError> {
    let (port, playing) = serve(move |peer| {
        peer.greet(PLAIN_CAPABILITIES);
        peer.next().unwrap();
        peer.accept_login();
        for value in values {
            peer.next_command().unwrap();
            let row = [&[value.len() as u8], value.as_bytes()].concat();
            [b"\x01", COLUMN, &row, END].into_iter().for_each(|packet| peer.send(packet));
        }
    });
    let mut connection = SqlConnection::open(&address(port)).unwrap();
    let result = ServerFacts::query(&mut connection);
    drop(connection);
    playing.join().unwrap();
    result
}

#[test]
fn settings_with_other_values_are_refused() {
    let check = |values: &'static [&str], expected: &str| {
        assert_eq!(facts(values).unwrap_err().to_string(), expected);
    };
    check(
        &["8.0.43", "many"],
        "the server's answer to SELECT @@max_allowed_packet is many; expected a number",
    );
    check(
        &["8.0.43", "67108864", "1", "0afe4a3e-5a5b-11ef-9f3a-000000000002", "MAYBE"],
        "the server's answer to gtid_mode is MAYBE; expected one of its four modes",
    );
    check(
        &["8.0.43", "67108864", "1", "0afe4a3e-5a5b-11ef-9f3a-000000000002", "ON", "x:1"],
        "the server's answer to gtid_executed is x:1; expected a set of GTIDs",
    );
}

fn assert_lost<T>(result: Result<T, ConnectionError>, why: &str) {
    match result {
        Err(ConnectionError::Lost { reason, .. }) => {
            assert!(reason.contains(why), "expected {why}: {reason}")
        }
        Err(error) => panic!("expected {why}: {error:?}"),
        Ok(_) => panic!("expected {why}, but the request succeeded"),
    }
}

#[test]
fn invalid_answers_are_errors() {
    let query = |packets: &[&[u8]], why: &str| {
        assert_lost(run_with_answer(packets, |connection| connection.rows("SELECT 1")), why);
        assert_lost(run_with_answer(packets, |connection| connection.named_rows("SELECT 1")), why);
        assert_lost(run_with_answer(packets, |connection| connection.run("SELECT 1")), why);
    };
    query(&[], "the server closed the connection");
    query(&[b""], "number of columns");
    query(&[b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"], "expected at most 4096");
    query(&[b"\x01"], "the server closed the connection");
    query(&[b"\x01", b""], "column definition");
    query(&[b"\x01", COLUMN, b""], "row");
    query(&[b"\x01", COLUMN, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"], "OK packet");
    query(&[b"\x01", COLUMN, b"\x05a"], "row");
    query(&[b"\x01", COLUMN, b"\x01a"], "the server closed the connection");
    let execute = |packets: &[&[u8]], why: &str| {
        let request =
            |connection: &mut SqlConnection| connection.execute("DO ?", vec![StatementParameter::Int(1)]);
        assert_lost(run_with_answer(packets, request), why);
    };
    execute(&[b""], "COM_STMT_PREPARE");
    execute(&[b"\0\x07"], "COM_STMT_PREPARE");
    execute(&[PREPARED], "the server closed the connection");
    execute(&[PREPARED, b""], "column definition");
}

#[test]
fn connections_are_not_used_after_a_protocol_error() {
    let (port, playing) = serve(|peer| {
        peer.greet(PLAIN_CAPABILITIES);
        peer.next().unwrap();
        peer.accept_login();
        peer.next_command().unwrap();
        peer.send(b"");
        // No further request; the client sends COM_QUIT.
        assert_eq!(peer.next_command().as_deref(), Some(&b"\x01"[..]));
    });
    let mut connection = SqlConnection::open(&address(port)).unwrap();
    assert_lost(connection.run("DO 1"), "number of columns");
    assert_lost(connection.run("DO 2"), "an earlier request on this connection failed: ");
    assert_lost(connection.run("DO 3"), "number of columns");
    drop(connection);
    playing.join().unwrap();
}

/// Runs a request to which the server responds with a request for a file. Returns the result, and the file that the
/// client
/// sent.
fn file_sent(
    request: impl FnOnce(&mut SqlConnection) -> Result<(), ConnectionError>,
) -> (Result<(), ConnectionError>, Vec<u8>) {
    let (sender, sent) = channel();
    let (port, playing) = serve(move |peer| {
        peer.greet(PLAIN_CAPABILITIES);
        peer.next().unwrap();
        peer.accept_login();
        peer.next_command().unwrap();
        peer.send(b"\xfb/etc/passwd");
        let mut file = Vec::new();
        loop {
            match peer.next().unwrap() {
                piece if piece.is_empty() => break,
                piece => file.extend(piece),
            }
        }
        sender.send(file).unwrap();
        peer.send(OK);
        // The connection remains usable.
        assert_eq!(peer.next_command().as_deref(), Some(&b"\x03DO 2"[..]));
        peer.send(OK);
    });
    let mut connection = SqlConnection::open(&address(port)).unwrap();
    let result = request(&mut connection);
    connection.run("DO 2").unwrap();
    drop(connection);
    playing.join().unwrap();
    (result, sent.recv().unwrap())
}

#[test]
fn files_are_sent_only_for_statements_that_load_them() {
    match file_sent(|connection| connection.run("SELECT 1")) {
        (Err(error), sent) => assert_eq!(
            (error.to_string().as_str(), sent),
            (
                "the server requests the local file \"/etc/passwd\", which no LOAD DATA of this run names; it is not sent",
                vec![]
            )
        ),
        (Ok(()), _) => panic!("the request succeeded"),
    }
    let file = vec![b'x'; 3 << 20];
    let (result, sent) = file_sent(|connection| {
        let counts =
            connection.load(b"LOAD DATA", file.len() as u64, Box::new(std::io::Cursor::new(file.clone())));
        counts.map(|counts| assert_eq!(counts, None))
    });
    result.unwrap();
    assert!(sent == file);
}

/// File that cannot be read.
struct DamagedFile;

impl std::io::Read for DamagedFile {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("the disk is damaged"))
    }
}

#[test]
fn a_file_that_cannot_be_read_is_not_sent() {
    let load = |connection: &mut SqlConnection| connection.load(b"LOAD DATA", 10, Box::new(DamagedFile));
    let result = run_with_answer(&[b"\xfb/tmp/file"], load);
    assert_lost(result, "could not read the file to load: the disk is damaged");
}

#[test]
fn file_requests_followed_by_an_error_are_reported() {
    let (port, playing) = serve(|peer| {
        peer.greet(PLAIN_CAPABILITIES);
        peer.next().unwrap();
        peer.accept_login();
        peer.next_command().unwrap();
        peer.send(b"\xfb/etc/passwd");
        assert_eq!(peer.next().as_deref(), Some(&b""[..]));
        peer.send(b"\xff\x15\x04#28000no");
        assert_eq!(peer.next_command().as_deref(), Some(&b"\x03DO 2"[..]));
        peer.send(OK);
    });
    let mut connection = SqlConnection::open(&address(port)).unwrap();
    let result = connection.run("SELECT 1");
    assert!(
        matches!(&result, Err(ConnectionError::FileRequest { name }) if name == "/etc/passwd"),
        "{result:?}"
    );
    connection.run("DO 2").unwrap();
    drop(connection);
    playing.join().unwrap();
}

#[test]
fn empty_values_count_towards_the_memory_limit() {
    const COLUMNS: usize = 4096;
    let nulls = vec![b'\xfb'; COLUMNS];
    let mut packets: Vec<&[u8]> = vec![b"\xfc\x00\x10"];
    packets.extend([COLUMN; COLUMNS]);
    packets.extend([nulls.as_slice(); 200]);
    assert_lost(
        run_with_answer(&packets, |connection| connection.value("SELECT 1")),
        "an answer has more than 16 MiB",
    );
}

#[test]
fn statements_with_rows_are_not_executed() {
    const ROWS: &[u8] = b"\0\x07\0\0\0\x01\0\0\0\0\0\0";
    let result = run_with_answer(&[ROWS, COLUMN], |connection| connection.execute("SELECT 1", Vec::new()));
    let expected = "the statement has 0 parameters and 1 columns; expected 0 and 0";
    assert_eq!(result.unwrap_err().to_string(), expected);
    let result = run_with_answer(&[b"\x01", COLUMN, b"\x01a", END], |connection| connection.rows("SELECT 1"));
    assert_eq!(result.unwrap(), [vec![Some(b"a".to_vec())]]);
}

#[test]
fn endless_logins_time_out() {
    let (port, playing) = serve(|peer| {
        peer.greet(PLAIN_CAPABILITIES);
        // The header of the packet that follows the login. Then single bytes with pauses, so that the server is never
        // silent.
        peer.stream.write_all(b"\xff\xff\0\x02").unwrap();
        while peer.stream.write_all(b"\x01").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let start = Instant::now();
    let result = SqlConnection::open(&ServerAddress { timeout: Duration::from_secs(1), ..address(port) });
    let said = result.unwrap_err().to_string();
    assert!(said.contains("longer than 1 seconds"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(5));
    playing.join().unwrap();
}

/// Offers TLS, and sends the start of a record of 16 KiB, single bytes with pauses.
fn trickle_record(peer: &mut ScriptedPeer) {
    peer.greet(Capabilities(0xdfff_ffff));
    peer.next().unwrap();
    peer.stream.write_all(b"\x16\x03\x03\x40\x00").unwrap();
    while peer.stream.write_all(b"\x02").is_ok() {
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn slow_peers_in_tls_time_out() {
    let tls = || TlsPolicy::with_mode(SslMode::Required);
    let (port, playing) = serve(trickle_record);
    let start = Instant::now();
    let result =
        SqlConnection::open(&ServerAddress { timeout: Duration::from_secs(1), tls: tls(), ..address(port) });
    assert_lost(result, "longer than 1 seconds");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    playing.join().unwrap();
    let (port, playing) = serve(trickle_record);
    let address = ServerAddress { timeout: Duration::from_secs(30), tls: tls(), ..address(port) };
    cancel_after(Duration::from_millis(300), &address.cancel);
    let start = Instant::now();
    let result = SqlConnection::open(&address);
    assert!(matches!(result, Err(ConnectionError::Cancelled)), "{result:?}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    playing.join().unwrap();
}

#[test]
fn only_verify_identity_needs_a_valid_certificate_name() {
    let check = |mode, expected: &str| {
        let tls = TlsPolicy { mode, ..TlsPolicy::verify_identity("/nowhere/ca.pem") };
        let host = "fe80::1%eth0".to_owned();
        let why = SqlConnection::open(&ServerAddress { host, tls, ..address(1) }).unwrap_err().to_string();
        assert!(why.contains(expected), "{mode:?}: {why}");
    };
    check(SslMode::VerifyCa, "could not use ssl-ca /nowhere/ca.pem");
    check(
        SslMode::VerifyIdentity,
        "TLS: fe80::1%eth0 is neither a host name nor an IP address, so no certificate can be verified for it",
    );
}

/// TLS files are read before the client connects.
#[test]
fn errors_of_tls_files_name_the_option() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent");
    let host = "fe80::1%eth0".to_owned();
    let check = |set: fn(&mut TlsPolicy, PathBuf), option: &str| {
        let mut tls = TlsPolicy { mode: SslMode::Required, ..TlsPolicy::default() };
        set(&mut tls, absent.clone());
        let error =
            SqlConnection::open(&ServerAddress { host: host.clone(), tls, ..address(1) }).unwrap_err();
        let expected = format!("TLS: could not use {option} {}: ", absent.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
    };
    check(|tls, path| tls.certificate = Some(path), "ssl-cert");
    check(|tls, path| tls.key = Some(path), "ssl-key");
    check(|tls, path| (tls.mode, tls.authorities) = (SslMode::VerifyCa, Some(path)), "ssl-ca");
    check(|tls, path| (tls.mode, tls.authority_directory) = (SslMode::VerifyCa, Some(path)), "ssl-capath");
}

fn cancel_after(delay: Duration, cancel: &CancelToken) {
    let cancel = cancel.clone();
    thread::spawn(move || {
        thread::sleep(delay);
        cancel.cancel();
    });
}

/// Cancels a request to a server that sends OK after two seconds. `prepare` changes the connection before.
fn run_cancelled(prepare: fn(&mut SqlConnection)) -> (Result<(), ConnectionError>, Duration) {
    let (port, playing) = serve(|peer| {
        peer.greet(PLAIN_CAPABILITIES);
        peer.next().unwrap();
        peer.accept_login();
        peer.next_command().unwrap();
        thread::sleep(Duration::from_secs(2));
        peer.send(OK);
    });
    let address = ServerAddress { timeout: Duration::from_secs(30), ..address(port) };
    let mut connection = SqlConnection::open(&address).unwrap();
    prepare(&mut connection);
    address.cancel.cancel();
    let start = Instant::now();
    let result = connection.run("DO SLEEP(2)");
    let elapsed = start.elapsed();
    drop(connection);
    playing.join().unwrap();
    (result, elapsed)
}

#[test]
fn cancellations_end_a_request_after_a_second() {
    let (result, elapsed) = run_cancelled(|_| ());
    assert!(matches!(result, Err(ConnectionError::Cancelled)), "{result:?}");
    let range = Duration::from_millis(900)..Duration::from_millis(1900);
    assert!(range.contains(&elapsed), "{elapsed:?}");
    let (result, _) = run_cancelled(SqlConnection::ignore_cancel);
    result.unwrap();
}

#[test]
fn sockets_that_do_not_accept_time_out() {
    let directory = std::env::temp_dir().join(format!("bintide-hostile-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("socket");
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    listener.listen(0).unwrap();
    // This connection fills the backlog, so the next one must wait.
    let _waiting = UnixStream::connect(&path).unwrap();
    let timeout = Duration::from_secs(1);
    let start = Instant::now();
    let result = SqlConnection::open(&ServerAddress { socket: Some(path), timeout, ..address(0) });
    assert_lost(result, "timed out");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    fs::remove_dir_all(&directory).unwrap();
}

/// Returns the error's text for a server that offers TLS and then answers with these bytes.
fn tls_error_text(bytes: &'static [u8], mode: SslMode) -> String {
    let (port, playing) = serve(move |peer| {
        peer.greet(Capabilities(0xdfff_ffff));
        peer.next().unwrap();
        peer.stream.write_all(bytes).unwrap();
        if bytes.is_empty() {
            peer.stream.shutdown(Shutdown::Write).unwrap();
        }
        // The client's answer does not matter, but must not contain the user name.
        let mut rest = Vec::new();
        let _ = peer.stream.read_to_end(&mut rest);
        assert!(!rest.windows(4).any(|part| part == b"root"), "the client sent the user name");
    });
    let address = ServerAddress { tls: TlsPolicy::with_mode(mode), ..address(port) };
    let said = SqlConnection::open(&address).unwrap_err().to_string();
    playing.join().unwrap();
    said
}

#[test]
fn old_versions_of_tls_are_named() {
    // A ServerHello of TLS 1.1, as yaSSL sends it, and two alerts: protocol version, and handshake failure.
    let hello: &[u8] = b"\x16\x03\x02\0\x2a\x02\0\0\x26\x03\x02";
    let hello: &'static [u8] = Box::leak([hello, &[7; 32], b"\0\0\x35\0\0\0"].concat().into_boxed_slice());
    let alerts: [&[u8]; 3] = [hello, b"\x15\x03\x02\0\x02\x02\x46", b"\x15\x03\x03\0\x02\x02\x28"];
    for bytes in alerts {
        for (mode, advises_plain) in [(SslMode::Preferred, true), (SslMode::Required, false)] {
            let said = tls_error_text(bytes, mode);
            assert!(
                said.contains("the server (5.7.22) has no TLS version or cipher suite in common"),
                "{said}"
            );
            assert_eq!(said.contains("--ssl-mode=DISABLED"), advises_plain, "{said}");
        }
    }
    // The server closes the connection without an alert.
    let said = tls_error_text(b"", SslMode::Required);
    assert!(said.contains("closed the connection"), "{said}");
}
