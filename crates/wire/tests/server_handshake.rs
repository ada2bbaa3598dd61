//! The server's side of the handshake: scripts of client packets, and our client with every combination of options.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

use std::sync::Arc;

use proptest::prelude::*;
use wire::{
    AuthSwitchRequest, Capabilities, ClientCommand, ClientHandshake, ClientOptions, ClientSession,
    CommandResponse, ErrPacket, HandshakeOptions, HandshakeStep, LoginRefusal, LoginRequest,
    PACKET_LIMIT_MIN, PacketCodec, PacketCompression, PasswordDigest, PasswordKey, PasswordPlugin,
    ResponseWriter, ServerError, ServerGreeting, ServerHandshake, ServerKeySource, ServerSession, ServerStep,
    SslRequest, StoredPassword, TlsMode, Transport,
};

/// Key created for this test.
const KEY: &str = include_str!("keys/server_private.pem");

fn key() -> Option<Arc<PasswordKey>> {
    Some(Arc::new(PasswordKey::from_pem(KEY).unwrap()))
}

fn server() -> HandshakeOptions {
    HandshakeOptions {
        server_version: "9.7.4".to_owned(),
        connection_id: 7,
        capabilities: ServerHandshake::CAPABILITIES,
        plugin: PasswordPlugin::CachingSha2,
        transport: Transport::Network,
        client_host: "10.0.0.7".to_owned(),
        password_key: None,
        packet_limit: 1 << 24,
        seed: [3; 32],
    }
}

fn client() -> ClientOptions {
    ClientOptions {
        attributes: vec![("_client_version".into(), "8.0.15".into())],
        ..ClientOptions::new("repl", "secret", [7; 20])
    }
}

/// Account of a server: the password, and its digest if a client has logged in before.
#[derive(Clone)]
struct Account {
    password: StoredPassword,
    digest: Option<PasswordDigest>,
}

impl Account {
    fn caching(password: &str) -> Self {
        let password = StoredPassword::caching_sha2(password.as_bytes(), [1; 32]).unwrap();
        Self { password, digest: None }
    }

    fn native(password: &str) -> Self {
        Self { password: StoredPassword::native(password.as_bytes()), digest: None }
    }
}

/// Both sides after a login, and the digest that the server may cache.
struct Login {
    client: PacketCodec,
    server: PacketCodec,
    client_session: ClientSession,
    session: ServerSession,
    digest: Option<PasswordDigest>,
}

/// Logs our client in to our server. Returns the error of the client if the server refuses.
fn log_in(client: ClientOptions, server: HandshakeOptions, account: &Account) -> Result<Login, String> {
    let mut sides = (PacketCodec::new(1 << 24), PacketCodec::new(0));
    let mut server = Some(ServerHandshake::begin(server, &mut sides.1));
    let mut handshake = ClientHandshake::new(client);
    let (mut session, mut digest) = (None, None);
    loop {
        pass(&mut sides.1, &mut sides.0);
        while let Some(payload) = sides.0.next().unwrap().map(<[u8]>::to_vec) {
            match handshake.read(&payload).map_err(|error| error.to_string())? {
                HandshakeStep::Send(payload) => sides.0.send(&payload),
                HandshakeStep::StartTls(payload) => {
                    sides.0.send(&payload);
                    pass(&mut sides.0, &mut sides.1);
                    let server = server.as_mut().unwrap();
                    assert!(
                        matches!(server.advance(&mut sides.1), ServerStep::StartTls { received } if received.is_empty())
                    );
                    assert!(matches!(server.continue_over_tls(), ServerStep::Receive));
                    let HandshakeStep::Send(payload) = handshake.continue_over_tls().unwrap() else {
                        panic!("no login after TLS");
                    };
                    sides.0.send(&payload);
                }
                HandshakeStep::Wait => {}
                HandshakeStep::Done(client_session) => {
                    let (client, server) = sides;
                    return Ok(Login { client, server, client_session, session: session.unwrap(), digest });
                }
            }
        }
        pass(&mut sides.0, &mut sides.1);
        let mut step = server.as_mut().unwrap().advance(&mut sides.1);
        loop {
            step = match step {
                ServerStep::Receive | ServerStep::Refused(_) => break,
                ServerStep::FindAccount(login) => {
                    assert_eq!(login.attributes.get("_client_version"), Some(&b"8.0.15"[..]));
                    let known = account.digest.as_ref();
                    server.as_mut().unwrap().authenticate(&account.password, known, &mut sides.1)
                }
                ServerStep::Authenticated(login) => {
                    digest = login.digest;
                    session = Some(server.take().unwrap().accept(&mut sides.1));
                    break;
                }
                ServerStep::StartTls { .. } => panic!("TLS was started twice"),
            };
        }
    }
}

/// Passes the output of one side to the other.
fn pass(from: &mut PacketCodec, to: &mut PacketCodec) {
    let size = from.output().len();
    to.receive(from.output());
    from.mark_sent(size);
}

fn refusal(client: ClientOptions, server: HandshakeOptions, account: &Account) -> String {
    match log_in(client, server, account) {
        Ok(_) => "logged in".to_owned(),
        Err(error) => error,
    }
}

const DENIED: &str =
    "Access denied for user 'repl'@'10.0.0.7' (using password: YES) (error 1045, SQL state 28000)";

#[test]
fn right_passwords_log_in() {
    let over_tls = ClientOptions { tls: TlsMode::Always, ..client() };
    let login = log_in(over_tls.clone(), server(), &Account::caching("secret"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(login.session.login.is_encrypted);
    assert_eq!((login.session.login.user.as_slice(), login.session.packet_max), (&b"repl"[..], 1 << 30));
    // The next login needs no TLS, because the digest is cached.
    let known = Account { digest: login.digest, ..Account::caching("secret") };
    let again = log_in(client(), server(), &known).unwrap_or_else(|error| panic!("{error}"));
    assert!(again.digest.is_none() && known.digest.is_some());

    let login =
        log_in(client(), server(), &Account::native("secret")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(login.client_session.plugin, "mysql_native_password");
    let ask = ClientOptions { server_key: ServerKeySource::Ask, ..client() };
    let with_key = HandshakeOptions { password_key: key(), ..server() };
    log_in(ask, with_key.clone(), &Account::caching("secret")).unwrap_or_else(|error| panic!("{error}"));
    let public = PasswordKey::from_pem(KEY).unwrap().public_pem().as_bytes().to_vec();
    let known_key = ClientOptions { server_key: ServerKeySource::Known(public), ..client() };
    log_in(known_key, with_key, &Account::caching("secret")).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn wrong_passwords_are_refused() {
    let over_tls = ClientOptions { tls: TlsMode::Always, ..client() };
    for account in [
        Account::caching("Secret"),
        Account::native("Secret"),
        Account { password: StoredPassword::empty(PasswordPlugin::CachingSha2), digest: None },
        Account { password: StoredPassword::empty(PasswordPlugin::Native), digest: None },
        Account { password: StoredPassword::no_account(PasswordPlugin::CachingSha2), digest: None },
        Account { password: StoredPassword::no_account(PasswordPlugin::Native), digest: None },
    ] {
        assert_eq!(refusal(over_tls.clone(), server(), &account), DENIED);
    }
    // The digest of another password is ignored, and the full exchange follows.
    let other = ClientOptions { password: b"Secret".to_vec(), ..over_tls.clone() };
    let digest =
        log_in(other.clone(), server(), &Account::caching("Secret")).map_or(None, |login| login.digest);
    assert!(digest.is_some());
    let changed = Account { digest: digest.clone(), ..Account::caching("secret") };
    assert!(log_in(over_tls.clone(), server(), &changed).is_ok());
    // After a change of the password, the old one is invalid.
    assert_eq!(refusal(other.clone(), server(), &changed), DENIED);
    let password = StoredPassword::no_account(PasswordPlugin::CachingSha2);
    assert_eq!(refusal(other, server(), &Account { password, digest: digest.clone() }), DENIED);
    let changed = Account { digest, ..Account::caching("third") };
    assert_eq!(refusal(over_tls.clone(), server(), &changed), DENIED);

    let none = ClientOptions { password: Vec::new(), ..over_tls };
    let unused = DENIED.replace("YES", "NO");
    assert_eq!(refusal(none.clone(), server(), &Account::caching("secret")), unused);
    assert_eq!(refusal(none.clone(), server(), &Account::native("secret")), unused);
    for plugin in [PasswordPlugin::CachingSha2, PasswordPlugin::Native] {
        for (password, expected) in
            [(StoredPassword::empty(plugin), "logged in"), (StoredPassword::no_account(plugin), &unused)]
        {
            assert_eq!(refusal(none.clone(), server(), &Account { password, digest: None }), expected);
        }
    }
}

/// Sends these payloads to a new server; returns its steps, with the reasons for a refusal, and its last packet.
fn answers(options: HandshakeOptions, account: &Account, payloads: &[Vec<u8>]) -> (Vec<String>, Vec<u8>) {
    let (mut packets, mut client) = (PacketCodec::new(0), PacketCodec::new(1 << 24));
    let mut handshake = ServerHandshake::begin(options, &mut packets);
    let mut found = Vec::new();
    let mut last = Vec::new();
    let mut listen = |packets: &mut PacketCodec, client: &mut PacketCodec| {
        pass(packets, client);
        while let Some(payload) = client.next().unwrap() {
            last = payload.to_vec();
        }
    };
    listen(&mut packets, &mut client);
    for payload in payloads {
        client.send(payload);
        pass(&mut client, &mut packets);
        let mut step = handshake.advance(&mut packets);
        if let ServerStep::FindAccount(_) = step {
            found.push("account".to_owned());
            step = handshake.authenticate(&account.password, account.digest.as_ref(), &mut packets);
        }
        found.push(match step {
            ServerStep::Receive => "receive".to_owned(),
            ServerStep::StartTls { .. } => {
                handshake.continue_over_tls();
                "tls".to_owned()
            }
            ServerStep::Authenticated(_) => "authenticated".to_owned(),
            ServerStep::Refused(LoginRefusal { error, cause }) => match cause {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            },
            ServerStep::FindAccount(_) => panic!("the account was looked up twice"),
        });
        listen(&mut packets, &mut client);
    }
    (found, last)
}

fn head(capabilities: Capabilities) -> SslRequest {
    SslRequest { capabilities, packet_max: 1 << 24, collation: 45 }
}

fn login(capabilities: Capabilities, plugin: &str, proof: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let head = head(capabilities);
    let plugin = plugin.as_bytes();
    let request =
        LoginRequest { head, user: b"repl", proof, database: b"", plugin, attributes: b"", zstd_level: 0 };
    request.encode(&mut out);
    out
}

fn check(options: HandshakeOptions, account: &Account, payloads: &[Vec<u8>], expected: &[&str]) {
    assert_eq!(answers(options, account, payloads).0, expected);
}

const NEW: Capabilities = Capabilities(
    Capabilities::PROTOCOL_41.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::LONG_PASSWORD.0,
);

/// Returns the refusal of a packet.
fn bad(cause: &str) -> String {
    format!("Bad handshake (error 1043, SQL state 08S01): {cause}")
}

#[test]
fn clients_without_plugin_support_use_the_native_one() {
    let old = NEW.without(Capabilities::PLUGIN_AUTH);
    let unsupported = "Client does not support authentication protocol requested by server; \
                       consider upgrading MySQL client (error 1251, SQL state 08004)";
    let wrong = login(old, "", &[1; 20]);
    check(server(), &Account::caching("secret"), std::slice::from_ref(&wrong), &["account", unsupported]);
    check(server(), &Account::native("secret"), &[wrong], &["account", DENIED]);
    // The client answers the nonce of the greeting.
    let (mut packets, mut client) = (PacketCodec::new(0), PacketCodec::new(1 << 24));
    ServerHandshake::begin(server(), &mut packets);
    pass(&mut packets, &mut client);
    let greeting = client.next().unwrap().unwrap().to_vec();
    let greeting = ServerGreeting::decode(&greeting).unwrap();
    let nonce = [greeting.nonce.0, greeting.nonce.1].concat();
    assert_eq!((nonce.len(), greeting.plugin), (20, &b"caching_sha2_password"[..]));
    assert!(nonce.iter().all(|byte| (1..128).contains(byte) && *byte != b'$'), "{nonce:?}");
    let native = ServerGreeting { plugin: b"mysql_native_password", ..greeting };
    let mut payload = Vec::new();
    native.encode(&mut payload);
    let mut handshake = ClientHandshake::new(client_without_plugins());
    let HandshakeStep::Send(payload) = handshake.read(&payload).unwrap() else { panic!("no login") };
    let proof = LoginRequest::decode(&payload).unwrap().proof.to_vec();
    check(server(), &Account::native("secret"), &[login(old, "", &proof)], &["account", "authenticated"]);
}

fn client_without_plugins() -> ClientOptions {
    ClientOptions { attributes: Vec::new(), ..client() }
}

#[test]
fn other_plugins_are_switched() {
    // A client that does not support the greeting's plugin sends an empty response, which is not an empty password.
    let payload = login(NEW, "mysql_native_password", b"");
    let (found, last) = answers(server(), &Account::native("secret"), std::slice::from_ref(&payload));
    assert_eq!(found, ["account", "receive"]);
    let request = AuthSwitchRequest::decode(&last).unwrap();
    assert_eq!((request.plugin, request.nonce.len()), (&b"mysql_native_password"[..], 20));
    check(
        server(),
        &Account::native("secret"),
        &[payload.clone(), vec![1; 19]],
        &[
            "account",
            "receive",
            &bad(
                "unexpected packet: expected 20 bytes of mysql_native_password, got one that starts with 0x01",
            ),
        ],
    );
    check(
        server(),
        &Account::native("secret"),
        &[payload, Vec::new()],
        &["account", "receive", &DENIED.replace("YES", "NO")],
    );
    let payload = login(NEW, "authentication_kerberos_client", b"something");
    let (_, last) = answers(server(), &Account::caching("secret"), &[payload]);
    assert_eq!(AuthSwitchRequest::decode(&last).unwrap().plugin, b"caching_sha2_password");
}

#[test]
fn unexpected_packets_end_the_login() {
    let account = Account::caching("secret");
    let refused = |payloads: &[Vec<u8>], expected: &[&str]| check(server(), &account, payloads, expected);
    refused(&[b"".to_vec()], &[&bad("login request: byte 0: expected 4 more bytes, found 0")]);
    refused(&[b"\x03select 1".to_vec()], &[&bad("login request: byte 9: expected 19 more bytes, found 0")]);
    // Clients before MySQL 4.1.
    refused(
        &[login(Capabilities::LONG_PASSWORD, "", b"")],
        &[&bad("login request: byte 0: the protocol of MySQL before 4.1 cannot be read")],
    );
    let caching = login(NEW, "caching_sha2_password", &[1; 32]);
    refused(
        &[caching[..caching.len() / 2].to_vec()],
        &[&bad("login request: byte 38: expected 32 more bytes, found 8")],
    );
    // The response is neither a request for the key nor an encrypted password.
    refused(&[caching.clone(), b"secret\0".to_vec()], &["account", "receive", DENIED]);
    let with_key = HandshakeOptions { password_key: key(), ..server() };
    let payloads = [caching.clone(), b"secret\0".to_vec()];
    check(with_key.clone(), &account, &payloads, &["account", "receive", DENIED]);
    let payloads = [caching.clone(), vec![2], vec![9; 128]];
    check(with_key, &account, &payloads, &["account", "receive", "receive", DENIED]);
    refused(&[login(NEW, "caching_sha2_password", &[1; 31])], &["account", DENIED]);
    // A local connection counts as secure, like TLS.
    let local = HandshakeOptions { transport: Transport::Local, ..server() };
    let payloads = [caching.clone(), b"secret\0".to_vec()];
    check(local.clone(), &account, &payloads, &["account", "receive", "authenticated"]);
    let payloads = [caching.clone(), [b"x".repeat(257), vec![0]].concat()];
    check(local.clone(), &account, &payloads, &["account", "receive", DENIED]);
    check(local, &account, &[caching, Vec::new()], &["account", "receive", DENIED]);
}

#[test]
fn tls_comes_before_the_login() {
    let account = Account::caching("secret");
    let with_tls = NEW | Capabilities::SSL;
    let mut request = Vec::new();
    head(with_tls).encode(&mut request);
    let login_over_tls = login(with_tls, "caching_sha2_password", &[1; 32]);
    let payloads = [request.clone(), login_over_tls.clone(), b"secret\0".to_vec()];
    check(server(), &account, &payloads, &["tls", "account", "receive", "authenticated"]);
    check(
        server(),
        &account,
        &[request.clone(), request.clone()],
        &["tls", &bad("login request: byte 32: expected 1 more bytes, found 0")],
    );
    // A login that claims TLS, without TLS.
    check(
        server(),
        &account,
        &[login_over_tls],
        &[&bad(
            "unexpected packet: expected TLS before a login request with the capability SSL, got one that starts with 0x01",
        )],
    );
    // As mysql-binlog-connector-java does.
    let without_capability =
        [request.clone(), login(NEW, "caching_sha2_password", &[1; 32]), b"secret\0".to_vec()];
    check(server(), &account, &without_capability, &["tls", "account", "receive", "authenticated"]);
    let no_tls = ServerHandshake::CAPABILITIES.without(Capabilities::SSL);
    check(
        HandshakeOptions { capabilities: no_tls, ..server() },
        &account,
        &[request.clone()],
        &[&bad("login request: byte 32: expected 1 more bytes, found 0")],
    );

    // Bytes received with the request belong to TLS.
    let (mut packets, mut client) = (PacketCodec::new(0), PacketCodec::new(1 << 24));
    let mut handshake = ServerHandshake::begin(server(), &mut packets);
    pass(&mut packets, &mut client);
    client.next().unwrap();
    client.send(&request);
    pass(&mut client, &mut packets);
    packets.receive(b"\x16\x03\x01");
    let step = handshake.advance(&mut packets);
    assert!(matches!(step, ServerStep::StartTls { received } if received == b"\x16\x03\x01"));
    assert!(!packets.has_unread());
}

#[test]
fn refusals_have_a_state_once_the_client_is_known() {
    let state = |payloads: &[Vec<u8>]| {
        let (_, last) = answers(server(), &Account::caching("secret"), payloads);
        ErrPacket::decode(&last).unwrap().state.copied()
    };
    assert_eq!(state(&[b"\x01".to_vec()]), None);
    assert_eq!(state(&[login(NEW, "caching_sha2_password", b"")]), Some(*b"28000"));
    let mut packets = PacketCodec::new(0);
    ServerHandshake::turn_away(&ServerError::too_many_connections(), &mut packets);
    assert_eq!(packets.output(), b"\x17\0\0\0\xff\x10\x04Too many connections");
}

#[test]
fn packets_before_the_login_are_small() {
    let (mut packets, mut client) = (PacketCodec::new(1 << 30), PacketCodec::new(1 << 24));
    let mut handshake = ServerHandshake::begin(server(), &mut packets);
    pass(&mut packets, &mut client);
    client.next().unwrap();
    client.send(&vec![0; PACKET_LIMIT_MIN + 1]);
    packets.receive(&client.output()[..4]);
    let ServerStep::Refused(refusal) = handshake.advance(&mut packets) else {
        panic!("the packet was accepted")
    };
    assert_eq!(refusal.error.code, 1153);
    // A packet out of order.
    let mut packets = PacketCodec::new(1 << 30);
    let mut handshake = ServerHandshake::begin(server(), &mut packets);
    packets.receive(b"\x01\0\0\x05\0");
    let ServerStep::Refused(refusal) = handshake.advance(&mut packets) else {
        panic!("the packet was accepted")
    };
    assert_eq!((refusal.error.code, refusal.cause.is_some()), (1156, true));
}

/// Hashes of a server 9.7.4, from `mysql.user`.
#[test]
fn hashes_equal_the_servers() {
    let over_tls = |password: &str| ClientOptions {
        tls: TlsMode::Always,
        password: password.as_bytes().to_vec(),
        ..client()
    };
    for (password, text) in [
        (
            "secret",
            "0x24412430304124212E1C046405530F1B616655655F7E7C593C3F626F45436330727566592E626D4B4545764C452F7738734B69\
             6B7A4E6D4E4A327855325551346F7647715534",
        ),
        (
            "a password of fifty bytes in all, more than one block!",
            "0x24412430304124380F096C4E276D5857162E79277B28385F39021E3335516E6C794955543756374231515541424D4C39685479\
             73694C747836576C316D457274566731525743",
        ),
        ("secret", "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"),
    ] {
        let text = text.as_bytes();
        let stored = StoredPassword::parse(text).unwrap();
        let account = Account { password: stored.clone(), digest: None };
        assert_eq!(refusal(over_tls(password), server(), &account), "logged in");
        assert_eq!(refusal(over_tls("other"), server(), &account), DENIED);
        assert_eq!(StoredPassword::parse(&stored.to_text()).unwrap(), stored);
    }
}

#[test]
fn hashes_are_encoded_as_text() {
    let native = StoredPassword::native(b"secret");
    assert_eq!(native.to_text(), b"*14E65567ABDB5135D0CFD9A70B3032C179A49EE7");
    let caching = StoredPassword::caching_sha2(b"secret", [9; 32]).unwrap().to_text();
    let text = String::from_utf8(caching).unwrap();
    assert!(text.starts_with("$A$005$") && text.len() == 70, "{text}");
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
    for invalid in ["", "*14E6", "$A$005$", &text[1..], &text[..69], "0x2441", "0x24z1", "secret"] {
        assert_eq!(
            StoredPassword::parse(invalid.as_bytes()).unwrap_err().to_string(),
            "invalid password hash: expected '*' and 40 hexadecimal digits (mysql_native_password), or '$A$005$' and \
             63 characters (caching_sha2_password); each may be a hexadecimal literal 0x…",
            "{invalid}"
        );
    }
    for invalid in
        [text.replace("005", "004"), text.replace("005", "+05"), format!("{text}."), text.replace("$A", "$B")]
    {
        assert!(StoredPassword::parse(invalid.as_bytes()).is_err(), "{invalid}");
    }
    assert!(StoredPassword::caching_sha2(&[b'x'; 257], [9; 32]).is_err());
    assert!(StoredPassword::native(b"").to_text().is_empty());
    // Debug output contains neither hashes nor keys.
    assert_eq!(format!("{native:?}"), "StoredPassword { plugin: Native, .. }");
    assert!(!format!("{:?}", key()).contains("PRIVATE"));
}

#[test]
fn keys_are_read_as_they_are_written() {
    let key = PasswordKey::from_pem(KEY).unwrap();
    assert_eq!(key.private_pem().unwrap(), KEY);
    assert!(key.public_pem().starts_with("-----BEGIN PUBLIC KEY-----\n"));
    // As servers write it, with a NUL at the end.
    assert_eq!(PasswordKey::from_pem(&format!("{KEY}\0")).unwrap().public_pem(), key.public_pem());
    let error = PasswordKey::from_pem("no key").unwrap_err();
    assert_eq!(error.to_string(), "cannot use the private key: not an RSA key in PEM form");
}

/// Runs a command and its response over a connection, compressed or not.
fn ping(login: &mut Login) {
    login.client.begin_command();
    login.client.send(b"\x0e");
    login.server.begin_command();
    pass(&mut login.client, &mut login.server);
    let capabilities = login.session.capabilities;
    let command = login.server.next().unwrap().unwrap();
    assert_eq!(ClientCommand::decode_with(command, capabilities).unwrap(), ClientCommand::Ping);
    let info = [b'x'; 10_000];
    let ok = wire::OkPacket { info: &info, ..wire::OkPacket::default() };
    ResponseWriter::new(&mut login.server, capabilities).ok(&ok);
    assert_eq!(login.server.output().len() < 1000, login.session.compression.is_some());
    pass(&mut login.server, &mut login.client);
    let payload = login.client.next().unwrap().unwrap();
    let found = CommandResponse::decode(payload, login.client_session.capabilities).unwrap();
    assert_eq!(found, CommandResponse::Ok(ok));
}

fn plugin() -> impl Strategy<Value = PasswordPlugin> {
    prop_oneof![Just(PasswordPlugin::CachingSha2), Just(PasswordPlugin::Native)]
}

/// Kind of connection between client and server.
#[derive(Clone, Copy, Debug)]
enum Link {
    Plain,
    Key,
    Tls,
    Local,
}

fn link() -> impl Strategy<Value = Link> {
    prop_oneof![Just(Link::Plain), Just(Link::Key), Just(Link::Tls), Just(Link::Local)]
}

/// Capabilities that either side may lack.
const OPTIONAL: [Capabilities; 8] = [
    Capabilities::CONNECT_ATTRS,
    Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA,
    Capabilities::SESSION_TRACK,
    Capabilities::DEPRECATE_EOF,
    Capabilities::QUERY_ATTRIBUTES,
    Capabilities::COMPRESS,
    Capabilities::ZSTD_COMPRESSION_ALGORITHM,
    Capabilities::TRANSACTIONS,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Our client logs in to our server if and only if it has the password and can send it safely.
    #[test]
    fn clients_log_in_with_all_combinations_of_options(
        greeted in plugin(), stored in plugin(), link in link(), lacking in any::<u8>(), seed in any::<[u8; 32]>(),
        password in "[a-z]{0,3}", sent in "[a-z]{0,3}", is_right in any::<bool>(), is_known in any::<bool>(),
    ) {
        let sent = if is_right { password.clone() } else { sent };
        let lacking = OPTIONAL.iter().enumerate().filter(|(bit, _)| lacking & 1 << bit != 0);
        let lacking = lacking.fold(Capabilities::default(), |all, (_, one)| all | *one);
        // The attributes are checked in each login.
        let capabilities = ServerHandshake::CAPABILITIES.without(lacking) | Capabilities::CONNECT_ATTRS;
        let account = |digest| Account {
            password: match stored {
                PasswordPlugin::CachingSha2 => StoredPassword::caching_sha2(password.as_bytes(), seed).unwrap(),
                PasswordPlugin::Native => StoredPassword::native(password.as_bytes()),
            },
            digest,
        };
        let local = if let Link::Local = link { Transport::Local } else { Transport::Network };
        let server = HandshakeOptions {
            capabilities, plugin: greeted, transport: local, seed, password_key: key(), ..server()
        };
        let options = ClientOptions {
            password: sent.clone().into_bytes(),
            capabilities: Capabilities::SESSION_TRACK | Capabilities::QUERY_ATTRIBUTES,
            tls: if let Link::Tls = link { TlsMode::Always } else { TlsMode::Never },
            transport: local,
            server_key: if let Link::Key = link { ServerKeySource::Ask } else { ServerKeySource::Refuse },
            compressions: vec![
                Some(PacketCompression::Zstd { level: 3 }), Some(PacketCompression::Zlib { level: 6 }), None,
            ],
            ..client()
        };
        let digest = match (stored, is_known) {
            (PasswordPlugin::CachingSha2, true) => {
                let options = ClientOptions { tls: TlsMode::Always, password: password.clone().into_bytes(), ..client() };
                log_in(options, server.clone(), &account(None)).unwrap_or_else(|error| panic!("{error}")).digest
            }
            _ => None,
        };
        let is_fast = digest.is_some() && sent == password;
        let needs_key = stored == PasswordPlugin::CachingSha2 && !sent.is_empty() && !password.is_empty() && !is_fast;
        match log_in(options, server, &account(digest)) {
            Ok(mut login) => {
                prop_assert_eq!(&sent, &password);
                prop_assert!(!needs_key || !matches!(link, Link::Plain));
                prop_assert_eq!(login.session.capabilities, login.client_session.capabilities);
                prop_assert_eq!(login.session.compression.is_some(), login.client_session.compression.is_some());
                if let Some(compression) = login.client_session.compression {
                    login.client.start_compression(compression);
                }
                ping(&mut login);
                ping(&mut login);
            }
            Err(error) if needs_key && matches!(link, Link::Plain) => {
                prop_assert!(error.contains("needs the cleartext password"), "{}", error);
            }
            Err(error) => {
                prop_assert_ne!(&sent, &password);
                prop_assert!(error.starts_with("Access denied"), "{}", error);
            }
        }
    }
}
