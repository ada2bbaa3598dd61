//! Any packets of a client to our server side: it logs in only with its password, is refused with an error packet,
//! and its commands decode or are refused.

use std::sync::{Arc, LazyLock};

use wire::{
    Capabilities, ClientCommand, ClientHandshake, ClientOptions, ErrPacket, HandshakeOptions, HandshakeStep,
    PacketCodec, PasswordKey, PasswordPlugin, PreparedStatement, ServerHandshake, ServerKeySource,
    ServerStatement, ServerStep, StoredPassword, TlsMode, Transport,
};

use super::conversation::{packets, put_packet};
use crate::seeds::Sample;

/// A key of 1024 bits, because it is fast.
static KEY: LazyLock<Arc<PasswordKey>> =
    LazyLock::new(|| Arc::new(PasswordKey::from_pem(KEY_PEM).expect("a valid key")));
const KEY_PEM: &str = include_str!("../../../crates/wire/tests/keys/server_private.pem");
/// Account of every client.
static CACHING: LazyLock<StoredPassword> =
    LazyLock::new(|| StoredPassword::caching_sha2(b"secret", [1; 32]).expect("the password is short enough"));
/// Bits of the first byte: the server's options.
const NATIVE: u8 = 1;
const NO_ACCOUNT: u8 = 2;
const LOCAL: u8 = 4;
const NO_KEY: u8 = 8;

/// Commands of each kind.
const COMMANDS: [&[u8]; 9] = [
    b"\x03\x01\x01\0\x01\xfe\0\x02id\x03abcselect 1",
    b"\x16select ?, ?, ?",
    b"\x18\x01\0\0\0\x01\0abc",
    b"\x17\x01\0\0\0\x08\x01\0\0\0\x03\x04\x01\x08\0\0\xfd\0\0\x0c\0\0\x01\0\0\0\0\0\0\0\x07\xea\x07\x0b\x17\x0e\x09\x12",
    b"\x17\x01\0\0\0\0\x01\0\0\0\x03\x06\0\x07\0\0\0\0\0\0\0",
    b"\x15\x02\0\0\0\x04host\0\0\xea\x0c\0\0\0\0\0\0\0\0",
    b"\x12\x04\0\0\0\x02\0\x02\0\0\0binlog.000001",
    b"\x1e\0\0\x02\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0",
    b"\x01",
];

fn options(bits: u8) -> HandshakeOptions {
    HandshakeOptions {
        server_version: "9.7.4".to_owned(),
        connection_id: 7,
        capabilities: ServerHandshake::CAPABILITIES,
        plugin: PasswordPlugin::CachingSha2,
        transport: if bits & LOCAL != 0 { Transport::Local } else { Transport::Network },
        client_host: "localhost".to_owned(),
        password_key: (bits & NO_KEY == 0).then(|| Arc::clone(&KEY)),
        packet_limit: 1 << 20,
        seed: [3; 32],
    }
}

fn password(bits: u8) -> StoredPassword {
    let plugin = if bits & NATIVE != 0 { PasswordPlugin::Native } else { PasswordPlugin::CachingSha2 };
    match plugin {
        plugin if bits & NO_ACCOUNT != 0 => StoredPassword::no_account(plugin),
        PasswordPlugin::Native => StoredPassword::native(b"secret"),
        PasswordPlugin::CachingSha2 => CACHING.clone(),
    }
}

pub(super) fn seeds(_: &Sample) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..16).map(|bits| seed(bits, TlsMode::Never)).collect();
    seeds.extend([0, NATIVE, NO_ACCOUNT].map(|bits| seed(bits, TlsMode::Always)));
    seeds
}

/// Returns a valid login, and commands.
fn seed(bits: u8, tls: TlsMode) -> Vec<u8> {
    let client = ClientOptions {
        capabilities: Capabilities::SESSION_TRACK | Capabilities::QUERY_ATTRIBUTES,
        tls,
        server_key: ServerKeySource::Ask,
        attributes: vec![("program_name".into(), "fuzz".into())],
        ..ClientOptions::new("user", "secret", [7; 20])
    };
    let mut client = ClientHandshake::new(client);
    let mut seed = vec![bits];
    let mut server = FuzzedServer::new(bits);
    while let Some(payload) = server.answers.pop() {
        let next = match client.read(&payload) {
            Ok(HandshakeStep::StartTls(payload)) => {
                put_packet(&mut seed, &payload);
                server.read(&payload);
                client.continue_over_tls()
            }
            next => next,
        };
        if let Ok(HandshakeStep::Send(payload)) = next {
            put_packet(&mut seed, &payload);
            server.read(&payload);
        }
    }
    COMMANDS.iter().for_each(|command| put_packet(&mut seed, command));
    seed
}

/// Checks `bytes`: the server's options in one byte, and packets of the client.
pub(super) fn check(bytes: &[u8]) {
    let Some((bits, rest)) = bytes.split_first() else { return };
    let mut server = FuzzedServer::new(*bits);
    let mut payloads = packets(rest);
    while server.is_waiting {
        let Some(payload) = payloads.next() else { return };
        server.read(payload);
    }
    if server.is_in {
        assert_eq!(bits & NO_ACCOUNT, 0, "a login without an account");
        payloads.for_each(command);
    }
}

/// Decodes a command with and without attributes.
fn command(payload: &[u8]) {
    for capabilities in [Capabilities::default(), Capabilities::QUERY_ATTRIBUTES] {
        match ClientCommand::decode_with(payload, capabilities) {
            Ok(ClientCommand::BinlogDumpGtid(dump)) => drop(dump.gtid_set()),
            Ok(ClientCommand::ExecuteStatement { payload, .. }) => {
                let prepared = PreparedStatement { parameters: 3, ..PreparedStatement::default() };
                let mut statement = ServerStatement::new(&prepared);
                statement.append(1, b"sent ahead", 100).expect("the value fits");
                if let Ok(execution) = statement.decode_execution(payload, capabilities) {
                    assert!(execution.parameters.len() <= 3);
                }
                // The types are known if the client has sent them.
                drop(statement.decode_execution(payload, capabilities));
            }
            _ => {}
        }
    }
}

/// A server, and a codec of the client's side.
struct FuzzedServer {
    bits: u8,
    handshake: ServerHandshake,
    packets: PacketCodec,
    client: PacketCodec,
    /// Packets of the server since the client's last packet, in reverse order.
    answers: Vec<Vec<u8>>,
    is_waiting: bool,
    is_in: bool,
}

impl FuzzedServer {
    fn new(bits: u8) -> Self {
        let (mut packets, client) = (PacketCodec::new(0), PacketCodec::new(0));
        let handshake = ServerHandshake::begin(options(bits), &mut packets);
        let mut server =
            Self { bits, handshake, packets, client, answers: Vec::new(), is_waiting: true, is_in: false };
        server.listen();
        server
    }

    fn read(&mut self, payload: &[u8]) {
        self.client.send(payload);
        self.packets.receive(self.client.output());
        self.client.mark_sent(self.client.output().len());
        let mut step = self.handshake.advance(&mut self.packets);
        if let ServerStep::StartTls { received } = &step {
            assert!(received.is_empty());
            step = self.handshake.continue_over_tls();
        }
        if let ServerStep::FindAccount(_) = step {
            step = self.handshake.authenticate(&password(self.bits), None, &mut self.packets);
        }
        self.listen();
        match step {
            ServerStep::Receive => {}
            ServerStep::Refused(refusal) => {
                let last = self.answers.first().expect("a refusal sends a packet");
                let sent = ErrPacket::decode(last).expect("a refusal is an error packet").to_error();
                assert_eq!((sent.code, &sent.message), (refusal.error.code, &refusal.error.message));
                self.is_waiting = false;
            }
            ServerStep::Authenticated(_) => (self.is_waiting, self.is_in) = (false, true),
            step => panic!("{step:?}"),
        }
    }

    fn listen(&mut self) {
        self.client.receive(self.packets.output());
        self.packets.mark_sent(self.packets.output().len());
        while let Ok(Some(payload)) = self.client.next() {
            self.answers.insert(0, payload.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FuzzedServer, LOCAL, NATIVE, NO_ACCOUNT, NO_KEY, packets, seed};
    use wire::TlsMode;

    /// A refused seed would not test anything after the login.
    #[test]
    fn seeds_log_in() {
        for bits in 0..16 {
            let seed = seed(bits, TlsMode::Never);
            let mut server = FuzzedServer::new(bits);
            packets(&seed[1..]).for_each(|payload| {
                if server.is_waiting {
                    server.read(payload);
                }
            });
            let is_able = bits & NATIVE != 0 || bits & (LOCAL | NO_KEY) == 0;
            assert_eq!(server.is_in, is_able && bits & NO_ACCOUNT == 0, "{bits}");
        }
    }
}
