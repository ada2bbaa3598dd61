//! Handshakes as scripts: packets of the server, and actions of the client.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

use wire::{
    AuthMoreData, AuthSwitchRequest, Capabilities, CleartextPolicy, ClientHandshake, ClientOptions,
    ConnectionAttributes, ErrPacket, HandshakeStep, LoginRequest, OkPacket, PacketCompression,
    ServerGreeting, ServerKeySource, SslRequest, TlsMode, Transport,
};

const NONCE: &[u8; 20] = b"0123456789abcdefghij";
const MYSQL: Capabilities = Capabilities(0xdfff_ffff);
/// Capabilities of MariaDB 10.11: its own flags, and no LONG_PASSWORD.
const MARIADB: Capabilities = Capabilities(0x1d_81bf_f7fe);

/// Action of the server.
enum ServerAction<'a> {
    Greets(&'a str, Capabilities, &'a str),
    Switches(&'a str),
    Says(&'a [u8]),
    Encrypts,
    Accepts,
    Refuses(&'a str),
}

use ServerAction::{Accepts, Encrypts, Greets, Refuses, Says, Switches};

fn payload(server: &ServerAction<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match server {
        Greets(version, capabilities, plugin) => {
            let (head, tail) = NONCE.split_first_chunk().unwrap();
            ServerGreeting {
                server_version: version.as_bytes(),
                connection_id: 7,
                nonce: (head, tail),
                capabilities: *capabilities,
                collation: 255,
                status: 2,
                plugin: plugin.as_bytes(),
            }
            .encode(&mut out);
        }
        Switches(plugin) => AuthSwitchRequest { plugin: plugin.as_bytes(), nonce: NONCE }.encode(&mut out),
        Says(data) => AuthMoreData { data }.encode(&mut out),
        Accepts => OkPacket::default().encode(MYSQL, &mut out),
        Refuses(message) => {
            ErrPacket { code: 1045, state: Some(b"28000"), message: message.as_bytes() }.encode(&mut out);
        }
        Encrypts => {}
    }
    out
}

fn options() -> ClientOptions {
    ClientOptions {
        attributes: vec![("program_name".into(), "bintide".into())],
        ..ClientOptions::new("repl", "secret", [7; 20])
    }
}

fn show(next: HandshakeStep) -> String {
    match next {
        HandshakeStep::Send(payload) => match LoginRequest::decode(&payload) {
            Ok(login) => {
                let mut again = Vec::new();
                login.encode(&mut again);
                assert_eq!(again, payload);
                assert_eq!(login.attributes, b"\x0cprogram_name\x07bintide");
                let text = |text| String::from_utf8_lossy(text).into_owned();
                format!("login {} {} {}", text(login.user), text(login.plugin), hex(login.proof))
            }
            Err(_) if payload.len() == 256 => "send 256 encrypted bytes".into(),
            Err(_) => format!("send {}", hex(&payload)),
        },
        HandshakeStep::StartTls(payload) => {
            let request = SslRequest::decode(&payload).unwrap();
            assert!(request.capabilities.contains(Capabilities::SSL));
            "tls".into()
        }
        HandshakeStep::Wait => "wait".into(),
        HandshakeStep::Done(session) => {
            format!("done {} {} {:?}", session.server_version, session.plugin, session.compression)
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(options: ClientOptions, server: &[ServerAction<'_>], expected: &[&str]) {
    let mut handshake = ClientHandshake::new(options);
    let mut found = Vec::new();
    for server in server {
        let next = match server {
            Encrypts => handshake.continue_over_tls(),
            _ => handshake.read(&payload(server)),
        };
        found.push(next.map_or_else(|error| format!("error: {error}"), show));
    }
    assert_eq!(found, expected);
}

const CACHING: &str = "login repl caching_sha2_password \
    7e4adda2f2d5ef09b4147518becb0cee2939376203650a8c2bb2815959364bd0";
const NATIVE: &str = "login repl mysql_native_password f5cac3f3b3df2133feb57db682c71e6ed433a988";

fn mysql() -> ServerAction<'static> {
    Greets("9.7.4", MYSQL, "caching_sha2_password")
}

#[test]
fn cached_passwords() {
    check(
        options(),
        &[mysql(), Says(&[3]), Accepts],
        &[CACHING, "wait", "done 9.7.4 caching_sha2_password None"],
    );
    check(options(), &[mysql(), Refuses("no")], &[CACHING, "error: no (error 1045, SQL state 28000)"]);
    let options = ClientOptions { password: Vec::new(), ..options() };
    check(
        options,
        &[mysql(), Accepts],
        &["login repl caching_sha2_password 00", "done 9.7.4 caching_sha2_password None"],
    );
}

#[test]
fn uncached_passwords() {
    let over_tls = ClientOptions { tls: TlsMode::IfOffered, ..options() };
    check(
        over_tls,
        &[mysql(), Encrypts, Says(&[4]), Accepts],
        &["tls", CACHING, "send 73656372657400", "done 9.7.4 caching_sha2_password None"],
    );
    let local = ClientOptions { transport: Transport::Local, ..options() };
    check(
        local,
        &[mysql(), Says(&[4]), Accepts],
        &[CACHING, "send 73656372657400", "done 9.7.4 caching_sha2_password None"],
    );
    check(
        options(),
        &[mysql(), Says(&[4])],
        &[
            CACHING,
            "error: caching_sha2_password needs the cleartext password: \
             use TLS, or the server's public key",
        ],
    );
}

#[test]
fn passwords_are_encrypted_with_the_servers_key() {
    let ask = ClientOptions { server_key: ServerKeySource::Ask, ..options() };
    check(
        ask.clone(),
        &[mysql(), Says(&[4]), Says(KEY), Accepts],
        &[CACHING, "send 02", "send 256 encrypted bytes", "done 9.7.4 caching_sha2_password None"],
    );
    check(
        ask.clone(),
        &[mysql(), Switches("sha256_password"), Says(KEY), Accepts],
        &[CACHING, "send 01", "send 256 encrypted bytes", "done 9.7.4 sha256_password None"],
    );
    check(
        ask,
        &[mysql(), Says(&[4]), Says(b"no key")],
        &[
            CACHING,
            "send 02",
            "error: cannot encrypt the password with the server's public key: \
             not an RSA key in PEM form",
        ],
    );
    let known = ClientOptions { server_key: ServerKeySource::Known(KEY.to_vec()), ..options() };
    check(
        known,
        &[mysql(), Says(&[4]), Accepts],
        &[CACHING, "send 256 encrypted bytes", "done 9.7.4 caching_sha2_password None"],
    );
}

#[test]
fn the_server_switches_the_plugin() {
    check(
        options(),
        &[mysql(), Switches("mysql_native_password"), Accepts],
        &[CACHING, "send f5cac3f3b3df2133feb57db682c71e6ed433a988", "done 9.7.4 mysql_native_password None"],
    );
    check(
        options(),
        &[
            Greets("5.5.5-10.11.6-MariaDB", MARIADB, "mysql_native_password"),
            Switches("client_ed25519"),
            Accepts,
        ],
        &[
            NATIVE,
            "send 885e39ab7a88b496fa7ba0cb6e026913368ca91a97763b4e5279b23ed9b73d4c\
             e3ce4ddabf41306bb484a587351172b53c4a513e644236d9d7188547b9e42803",
            "done 10.11.6-MariaDB client_ed25519 None",
        ],
    );
    check(
        options(),
        &[mysql(), Switches("authentication_kerberos_client")],
        &[
            CACHING,
            "error: unsupported authentication plugin authentication_kerberos_client: the account must use one of \
             caching_sha2_password, sha256_password, mysql_native_password, mysql_clear_password and MariaDB's \
             ed25519",
        ],
    );
}

#[test]
fn cleartext_password_needs_tls_and_permission() {
    let wish = || Switches("mysql_clear_password");
    let refused =
        "error: the server requests the password as cleartext: use TLS, and allow cleartext passwords";
    let allowed = ClientOptions { cleartext: CleartextPolicy::OverTls, ..options() };
    let unencrypted =
        "error: the server requests the password as cleartext, and the connection is not encrypted: use TLS";
    check(options(), &[mysql(), wish()], &[CACHING, refused]);
    check(allowed.clone(), &[mysql(), wish()], &[CACHING, unencrypted]);
    let over_tls = ClientOptions { tls: TlsMode::Always, ..options() };
    check(over_tls, &[mysql(), Encrypts, wish()], &["tls", CACHING, refused]);
    check(
        ClientOptions { tls: TlsMode::Always, ..allowed },
        &[mysql(), Encrypts, wish(), Accepts],
        &["tls", CACHING, "send 73656372657400", "done 9.7.4 mysql_clear_password None"],
    );
}

#[test]
fn capabilities_are_negotiated() {
    let zlib = Some(PacketCompression::Zlib { level: 6 });
    let zstd = Some(PacketCompression::Zstd { level: 9 });
    let compressed = ClientOptions { compressions: vec![zstd, zlib], ..options() };
    check(
        compressed.clone(),
        &[mysql(), Accepts],
        &[CACHING, "done 9.7.4 caching_sha2_password Some(Zstd { level: 9 })"],
    );
    let without = |capabilities| Greets("5.7.1", MYSQL.without(capabilities), "mysql_native_password");
    check(
        compressed.clone(),
        &[without(Capabilities::ZSTD_COMPRESSION_ALGORITHM), Accepts],
        &[NATIVE, "done 5.7.1 mysql_native_password Some(Zlib { level: 6 })"],
    );
    check(
        compressed,
        &[without(Capabilities::ZSTD_COMPRESSION_ALGORITHM | Capabilities::COMPRESS)],
        &["error: no requested compression is enabled on the server: see its \
           protocol_compression_algorithms"],
    );
    check(
        ClientOptions { tls: TlsMode::Always, ..options() },
        &[without(Capabilities::SSL)],
        &["error: the server does not offer TLS, or a man in the middle has removed the offer"],
    );
    check(
        ClientOptions { tls: TlsMode::IfOffered, ..options() },
        &[without(Capabilities::SSL), Accepts],
        &[NATIVE, "done 5.7.1 mysql_native_password None"],
    );
    check(
        options(),
        &[without(Capabilities::PLUGIN_AUTH)],
        &[
            "error: server version 5.7.1 is not supported: it lacks capabilities that all servers since MySQL 5.5 have",
        ],
    );
}

/// Servers may refuse before the handshake, without an SQL state.
#[test]
fn server_refuses_before_the_greeting() {
    let mut handshake = ClientHandshake::new(options());
    let error = handshake.read(b"\xff\x10\x04Too many connections").unwrap_err();
    assert_eq!(error.to_string(), "Too many connections (error 1040, SQL state HY000)");
    let mut handshake = ClientHandshake::new(options());
    let error = handshake.read(b"\x09old").unwrap_err();
    assert_eq!(error.to_string(), "greeting: byte 0: version of the protocol is 9, expected 10");
}

#[test]
fn other_packets_are_refused() {
    let mut handshake = ClientHandshake::new(options());
    handshake.read(&payload(&mysql())).unwrap();
    let refused = [
        handshake.read(b"\x05").map(drop),
        AuthSwitchRequest::decode(b"").map(drop),
        AuthMoreData::decode(b"\0").map(drop),
        LoginRequest::decode(&[0; 32]).map(drop),
        ConnectionAttributes::decode(b"\x04name\x05a").map(drop),
    ];
    let texts = refused.map(|refused| refused.unwrap_err().to_string());
    assert_eq!(
        texts,
        [
            "unexpected packet: expected an authentication packet, got one that starts with 0x05",
            "unexpected packet: expected an authentication switch request (0xfe), got an empty one",
            "unexpected packet: expected authentication data (0x01), got one that starts with 0x00",
            "login request: byte 0: the protocol of MySQL before 4.1 cannot be read",
            "connection attributes: byte 6: expected 5 more bytes, found 1",
        ]
    );
}

#[test]
fn greetings_are_read_as_they_are_written() {
    for (capabilities, plugin) in
        [(MYSQL, "caching_sha2_password"), (MARIADB, "mysql_native_password"), (Capabilities(0xf7df), "")]
    {
        let bytes = payload(&Greets("9.7.4", capabilities, plugin));
        let greeting = ServerGreeting::decode(&bytes).unwrap();
        assert_eq!((greeting.capabilities, greeting.plugin), (capabilities, plugin.as_bytes()));
        assert_eq!([greeting.nonce.0, greeting.nonce.1].concat(), NONCE);
        let mut again = Vec::new();
        greeting.encode(&mut again);
        assert_eq!(again, bytes);
        for size in 0..bytes.len() {
            let _ = ServerGreeting::decode(&bytes[..size]);
        }
    }
}

/// Key created for this test.
const KEY: &[u8] = b"-----BEGIN PUBLIC KEY-----\n\
    MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAxJ07nDph4FDsJOT/7vV7\n\
    KqrGoApmCVDxDU8Kcrau8ENAsFQNeqAWxspdfSrwIZ4byh4OE09a6cj7zp1+kgvm\n\
    tFWy+5t/AM8YSPko2fkLeKh7PpmfxhEb480y4OLoCOTTzpxssSmnJdUC/bOZewKC\n\
    Ikia1cb+ddYugKOeiZxSenH640E9p3MVGygCdLcpIGZeUcx/X4tmcbATh8oHfA+D\n\
    6oG/MLEcel3E3LRU/XLTWzcLMEWtqVi9ivu+4gG6WQg2IG8BQWbHUTuX0RIpwpG1\n\
    7lDpkFIdtrha766Db8wFfJqLAbrhQcdyFaY7vg8bX1i2S3cnpegXHi5YOzeeGfg3\n\
    /QIDAQAB\n\
    -----END PUBLIC KEY-----";
