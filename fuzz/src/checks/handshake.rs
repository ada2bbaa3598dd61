//! Any packets of a server in a handshake: the client continues, or returns an error. Every packet that decodes
//! encodes to one that decodes to the same.

use wire::{
    AuthMoreData, AuthSwitchRequest, Capabilities, CleartextPolicy, ClientCommand, ClientHandshake,
    ClientOptions, ColumnDefinition, EofPacket, ErrPacket, EventPacket, HandshakeStep, LoginRequest,
    OkPacket, PacketCompression, SemiSync, SemiSyncAck, ServerGreeting, ServerKeySource, SslRequest, TlsMode,
    Transport,
};

use super::conversation::{packets, put_packet};
use crate::seeds::Sample;

/// A key of 1024 bits, because it is fast.
const KEY: &[u8] = b"-----BEGIN PUBLIC KEY-----\n\
    MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCw52602rmgqElBMe2NiC7WzMr1\n\
    ohSrQHJ39It0PVXmHdx55CZzn1u/f/tcq+5rkKJVtejcc+8f+0UyiHzxOMVgvTS/\n\
    Ko0yKu43S/IEcPIvfcqVhLMQsXoMZX5587eThbodunPYqXjxhLO5PqljW94PlAXL\n\
    KUFPbt7bbUEgCAnlmwIDAQAB\n\
    -----END PUBLIC KEY-----\n";

/// All capabilities of MySQL 9.7.
const ALL: Capabilities = Capabilities(0xdfff_ffff);

pub(super) fn seeds(_: &Sample) -> Vec<Vec<u8>> {
    let answers: [&[&[u8]]; 5] = [
        &[b"\x01\x03", b"\0\0\0\x02\0\0\0"],
        &[b"\x01\x04", &[b"\x01", KEY].concat(), b"\0\0\0\x02\0\0\0"],
        &[b"\xfesha256_password\0nonce\0", &[b"\x01", KEY].concat()],
        &[b"\xfeclient_ed25519\0nonce of thirty-two bytes in all\0", b"\0\0\0\x02\0\0\0"],
        &[b"\xfemysql_native_password\0nonce\0", b"\xff\x15\x04#28000Access denied"],
    ];
    let mut seeds = Vec::new();
    for (number, answers) in answers.iter().enumerate() {
        let mut greeting = Vec::new();
        ServerGreeting {
            server_version: b"9.7.4",
            connection_id: 7,
            nonce: (b"01234567", b"89abcdefghij"),
            capabilities: ALL,
            collation: 255,
            status: 2,
            plugin: b"caching_sha2_password",
        }
        .encode(&mut greeting);
        let mut seed = vec![number as u8];
        put_packet(&mut seed, &greeting);
        for answer in *answers {
            put_packet(&mut seed, answer);
        }
        seeds.push(seed);
    }
    seeds
}

/// Checks `bytes`: a client's options in one byte, and packets of the server.
pub(super) fn check(bytes: &[u8]) {
    let Some((wishes, rest)) = bytes.split_first() else { return };
    let has = |bit: u8| wishes & bit != 0;
    let options = ClientOptions {
        tls: if has(1) { TlsMode::IfOffered } else { TlsMode::Never },
        transport: if has(2) { Transport::Local } else { Transport::Network },
        server_key: if has(4) { ServerKeySource::Refuse } else { ServerKeySource::Ask },
        cleartext: if has(8) { CleartextPolicy::OverTls } else { CleartextPolicy::Refuse },
        compressions: vec![if has(16) { Some(PacketCompression::Zstd { level: 3 }) } else { None }],
        ..ClientOptions::new("user", "secret", [7; 20])
    };
    let mut handshake = ClientHandshake::new(options);
    for payload in packets(rest) {
        again(payload);
        let Ok(mut next) = handshake.read(payload) else { return };
        if matches!(next, HandshakeStep::StartTls(_)) {
            next = handshake.continue_over_tls().expect("the login is sent after TLS");
        }
        if matches!(next, HandshakeStep::Done(_)) {
            return;
        }
    }
}

/// Encodes a decoded packet and decodes it again.
macro_rules! round {
    ($decoded:expr, $encode:expr, $again:expr) => {
        if let Ok(first) = $decoded {
            let mut out = Vec::new();
            $encode(&first, &mut out);
            assert_eq!($again(&out).as_ref(), Ok(&first));
        }
    };
}

fn again(payload: &[u8]) {
    let is_writable = |greeting: &ServerGreeting<'_>| greeting.nonce.1.len() < 247;
    if let Some(greeting) = ServerGreeting::decode(payload).ok().filter(is_writable) {
        let mut out = Vec::new();
        greeting.encode(&mut out);
        assert_eq!(ServerGreeting::decode(&out), Ok(greeting));
    }
    round!(SslRequest::decode(payload), SslRequest::encode, SslRequest::decode);
    round!(LoginRequest::decode(payload), LoginRequest::encode, LoginRequest::decode);
    round!(AuthSwitchRequest::decode(payload), AuthSwitchRequest::encode, AuthSwitchRequest::decode);
    round!(AuthMoreData::decode(payload), AuthMoreData::encode, AuthMoreData::decode);
    round!(ErrPacket::decode(payload), ErrPacket::encode, ErrPacket::decode);
    round!(ColumnDefinition::decode(payload), ColumnDefinition::encode, ColumnDefinition::decode);
    round!(SemiSyncAck::decode(payload), SemiSyncAck::encode, SemiSyncAck::decode);
    let put = |command: &ClientCommand<'_>, out: &mut Vec<u8>| {
        command.encode(out).expect("a decoded command encodes")
    };
    round!(ClientCommand::decode(payload), put, ClientCommand::decode);
    for semi_sync in [SemiSync::Off, SemiSync::On] {
        let put = |packet: &EventPacket<'_>, out: &mut Vec<u8>| packet.encode(semi_sync, out);
        round!(EventPacket::decode(payload, semi_sync), put, |out| EventPacket::decode(out, semi_sync));
    }
    for capabilities in [ALL, ALL.without(Capabilities::SESSION_TRACK | Capabilities::DEPRECATE_EOF)] {
        let put = |ok: &OkPacket<'_>, out: &mut Vec<u8>| ok.encode(capabilities, out);
        round!(OkPacket::decode(payload, capabilities), put, |out| OkPacket::decode(out, capabilities));
        let put = |eof: &EofPacket, out: &mut Vec<u8>| eof.encode(capabilities, out);
        round!(EofPacket::decode(payload, capabilities), put, |out| EofPacket::decode(out, capabilities));
    }
}
