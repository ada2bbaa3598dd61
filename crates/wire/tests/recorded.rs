//! Conversations with real servers and clients, recorded by `cargo run -p bintide-e2e --example conversations`. For
//! the same input, our side must send the same bytes. Decoded server packets must encode to the same bytes.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

use std::sync::Arc;
use std::time::Duration;

use wire::{
    Capabilities, ClientCommand, ClientHandshake, ClientOptions, CommandResponse, ConnectionAttributes,
    FormatOrigin, HandshakeOptions, HandshakeStep, LoginRequest, PacketCodec, PasswordKey, PasswordPlugin,
    PositionGaps, ReplicaConversation, ReplicaEnd, ReplicaOptions, ReplicaStart, ReplicaStep, SemiSync,
    ServerGreeting, ServerHandshake, ServerKeySource, ServerSession, ServerStep, SourceEvent, StoredPassword,
    StreamReader, Transport,
};

/// Returns the options of `e2e::conversation`.
fn client() -> ClientOptions {
    ClientOptions {
        server_key: ServerKeySource::Ask,
        attributes: vec![("program_name".to_owned(), "bintide".to_owned())],
        ..ClientOptions::new("repl", "secret", [7; 20])
    }
}

fn replica() -> ReplicaOptions {
    ReplicaOptions {
        server_id: 77,
        uuid: "0afe4a3e-5a5b-11ef-9f3a-000000000077".to_owned(),
        report_host: "replica".to_owned(),
        report_port: 3307,
        heartbeat: Duration::from_secs(30),
        semi_sync: SemiSync::Off,
        start: ReplicaStart::Position { file: b"binlog.000001".to_vec(), position: 4 },
        end: ReplicaEnd::LastEvent,
    }
}

/// Splits a conversation into the bytes of each turn.
fn turns(text: &str) -> Vec<(&str, Vec<u8>)> {
    let mut turns: Vec<(&str, Vec<u8>)> = Vec::new();
    for line in text.lines() {
        let (who, digits) = line.split_once(' ').unwrap();
        let digit = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let bytes = (0..digits.len()).step_by(2).map(digit);
        match turns.last_mut() {
            Some((last, said)) if *last == who => said.extend(bytes),
            _ => turns.push((who, bytes.collect())),
        }
    }
    turns
}

/// Remaining turns of the recorded conversation.
struct RecordedStage {
    turns: std::vec::IntoIter<(&'static str, Vec<u8>)>,
    packets: PacketCodec,
}

impl RecordedStage {
    fn new(text: &'static str) -> Self {
        let mut stage = Self { turns: turns(text).into_iter(), packets: PacketCodec::new(1 << 24) };
        stage.listen();
        stage
    }

    /// Checks that the client sends the recorded bytes, then reads the server's turn.
    fn say(&mut self, payload: &[u8]) {
        self.packets.send(payload);
        let (who, bytes) = self.turns.next().unwrap();
        assert_eq!((who, self.packets.output()), ("client", bytes.as_slice()));
        self.packets.mark_sent(bytes.len());
        self.listen();
    }

    fn listen(&mut self) {
        let (who, bytes) = self.turns.next().unwrap();
        assert_eq!(who, "server");
        self.packets.receive(&bytes);
    }

    fn next(&mut self) -> Vec<u8> {
        self.packets.next().unwrap().unwrap().to_vec()
    }
}

fn play(text: &'static str, plugin: &str, queries: usize, expected: &str) {
    let mut stage = RecordedStage::new(text);
    let greeting = stage.next();
    let mut again = Vec::new();
    ServerGreeting::decode(&greeting).unwrap().encode(&mut again);
    assert_eq!(again, greeting);
    let mut handshake = ClientHandshake::new(client());
    let mut next = handshake.read(&greeting).unwrap();
    let session = loop {
        next = match next {
            HandshakeStep::Send(payload) => {
                if let Ok(login) = LoginRequest::decode(&payload) {
                    assert_eq!(login.user, b"repl");
                }
                stage.say(&payload);
                handshake.read(&stage.next()).unwrap()
            }
            HandshakeStep::Wait => handshake.read(&stage.next()).unwrap(),
            HandshakeStep::StartTls(_) => panic!("the conversation does not use TLS"),
            HandshakeStep::Done(session) => break session,
        };
    };
    assert_eq!(session.plugin, plugin);
    let capabilities = session.capabilities;
    let (mut conversation, mut command) = ReplicaConversation::begin(replica(), session).unwrap();
    let mut asked = 0;
    while !conversation.is_streaming() {
        asked += usize::from(matches!(ClientCommand::decode(&command).unwrap(), ClientCommand::Query { .. }));
        stage.packets.begin_command();
        stage.say(&command);
        command = loop {
            let payload = stage.next();
            check_answer(&payload, capabilities);
            match conversation.read(&payload).unwrap() {
                ReplicaStep::Send(command) => break command,
                ReplicaStep::Wait => {}
                step => panic!("{step:?}"),
            }
        };
    }
    assert_eq!(asked, queries);
    stage.packets.begin_command();
    stage.say(&command);
    assert_eq!(events(&mut stage, &mut conversation), expected);
}

/// Checks that an OK packet encodes to the same bytes.
fn check_answer(payload: &[u8], capabilities: Capabilities) {
    if let Ok(CommandResponse::Ok(ok)) = CommandResponse::decode(payload, capabilities) {
        let mut again = Vec::new();
        ok.encode(capabilities, &mut again);
        assert_eq!(again, payload);
    }
}

/// Returns the event types in the files; positions and checksums must be right.
fn events(stage: &mut RecordedStage, conversation: &mut ReplicaConversation) -> String {
    let mut reader = StreamReader::new(conversation.source().checksum, PositionGaps::None);
    let mut types: Vec<&str> = Vec::new();
    loop {
        let payload = stage.next();
        let packet = match conversation.read(&payload).unwrap() {
            ReplicaStep::Event(packet) => packet,
            ReplicaStep::End => return types.join(" "),
            step => panic!("{step:?}"),
        };
        let mut again = Vec::new();
        packet.encode(SemiSync::Off, &mut again);
        assert_eq!(again, payload);
        match reader.read(packet.event).unwrap() {
            SourceEvent::Format { event, origin: FormatOrigin::File } | SourceEvent::Event { event, .. } => {
                types.push(event.event_type().name());
            }
            SourceEvent::File { position, .. } => assert_eq!(position, 4),
            arrival => panic!("{arrival:?}"),
        }
    }
}

#[test]
fn mysql() {
    let first = "Format_desc Previous_gtids Gtid Query Gtid Query Gtid Query Gtid Query \
        Gtid Query Table_map Write_rows Xid Rotate";
    let second = "Format_desc Previous_gtids Gtid Query Table_map Delete_rows Xid";
    let text = include_str!("conversations/mysql-9.7.txt");
    play(text, "caching_sha2_password", 8, &format!("{first} {second}"));
}

#[test]
fn mariadb() {
    let first = "Format_desc Gtid_list Binlog_checkpoint Gtid Query Gtid Query Gtid Query Gtid Query \
        Gtid Query Xid Rotate";
    let second = "Format_desc Gtid_list Binlog_checkpoint Gtid Query Xid";
    let text = include_str!("conversations/mariadb-10.11.txt");
    play(text, "mysql_native_password", 6, &format!("{first} {second}"));
}

/// Plays a client's recorded bytes to our server, which must send the recorded bytes up to the login. Returns the
/// client's attributes and commands.
fn serve(text: &'static str) -> (ConnectionAttributes, Vec<String>) {
    let options = HandshakeOptions {
        server_version: "9.7.4".to_owned(),
        connection_id: 1,
        capabilities: ServerHandshake::CAPABILITIES,
        plugin: PasswordPlugin::CachingSha2,
        transport: Transport::Network,
        client_host: "localhost".to_owned(),
        password_key: Some(Arc::new(PasswordKey::generate([3; 32]).unwrap())),
        packet_limit: 1 << 24,
        seed: [7; 32],
    };
    let mut packets = PacketCodec::new(0);
    let mut handshake = Some(ServerHandshake::begin(options, &mut packets));
    let (mut session, mut commands) = (None, Vec::new());
    for (who, bytes) in turns(text) {
        if who == "server" {
            // The answers to commands are those of another program.
            assert!(session.is_some() && packets.output().is_empty() || packets.output() == bytes);
            packets.mark_sent(packets.output().len());
            continue;
        }
        if let Some(session) = &session {
            commands.extend(read_commands(&mut packets, session, &bytes));
            continue;
        }
        packets.receive(&bytes);
        let mut server = handshake.take().unwrap();
        let mut step = server.advance(&mut packets);
        if let ServerStep::FindAccount(login) = &step {
            let password = match login.user.as_slice() {
                b"native" => StoredPassword::native(b"secret"),
                _ => StoredPassword::caching_sha2(b"secret", [1; 32]).unwrap(),
            };
            step = server.authenticate(&password, None, &mut packets);
        }
        match step {
            ServerStep::Receive => handshake = Some(server),
            ServerStep::Authenticated(_) => session = Some(server.accept(&mut packets)),
            step => panic!("{step:?}"),
        }
    }
    (session.unwrap().login.attributes, commands)
}

fn read_commands(packets: &mut PacketCodec, session: &ServerSession, bytes: &[u8]) -> Vec<String> {
    let mut commands = Vec::new();
    packets.begin_command();
    packets.receive(bytes);
    while let Some(payload) = packets.next().unwrap() {
        commands.push(match ClientCommand::decode_with(payload, session.capabilities).unwrap() {
            ClientCommand::Query { sql } => String::from_utf8_lossy(sql).into_owned(),
            ClientCommand::BinlogDump(dump) => {
                format!("dump {} {} {:?}", String::from_utf8_lossy(dump.file), dump.position, dump.flags)
            }
            command => format!("{command:?}"),
        });
        packets.begin_command();
    }
    commands
}

/// The bytes were recorded with `e2e::login_server`, which has the same seed, key and accounts.
#[test]
fn clients() {
    let check = |text, version: Option<&str>, expected: &[&str]| {
        let (attributes, commands) = serve(text);
        let found = attributes.get("_client_version").map(String::from_utf8_lossy);
        assert_eq!(
            (found.as_deref(), commands),
            (version, expected.iter().map(|one| (*one).to_owned()).collect())
        );
    };
    let checksum = "SET @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE'";
    let comment = "select @@version_comment limit 1";
    check(
        include_str!("conversations/clients/mysql-9.7.txt"),
        Some("9.7.4"),
        &[comment, "select $$", "SELECT 1", "Quit"],
    );
    check(
        include_str!("conversations/clients/mysql-8.0.33.txt"),
        Some("8.0.33"),
        &[comment, "SELECT 1", "Quit"],
    );
    check(include_str!("conversations/clients/mysql-5.5.34.txt"), None, &[comment, "SELECT 1", "Quit"]);
    check(include_str!("conversations/clients/mariadb-10.11.txt"), Some("3.3.19"), &["SELECT 1", "Quit"]);
    check(
        include_str!("conversations/clients/mysqlbinlog-9.7.txt"),
        Some("9.7.4"),
        &["SELECT VERSION()", checksum, "dump binlog.000001 4 DumpFlags(1)", "Quit"],
    );
}
