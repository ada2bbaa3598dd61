//! A malicious source: recorded conversations with random errors. The result must be an error message or a log,
//! without a panic and without more memory than the received bytes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use binlog::{EventChecksum, HEADER_SIZE, MAGIC, NextPosition, move_event};
use e2e::conversation::{CONVERSATIONS, replica};
use e2e::program::bintide;
use logs::{LogEncryption, StoreWriter};
use servers::{
    CancelToken, LinkOptions, LiveSource, PasswordSource, PublicKeySource, ServerAddress, SslMode, TlsPolicy,
};
use tempfile::TempDir;
use testkit::{SeededRandom, seed_from_env};
use wire::{CleartextPolicy, FormatOrigin, SourceEvent};

/// Returns the bytes that the server sent in a recorded conversation.
fn recorded(name: &str) -> Result<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/wire/tests/conversations");
    let text = std::fs::read_to_string(directory.join(name))?;
    let server_lines = text.lines().filter_map(|line| line.strip_prefix("server "));
    let digits: String = server_lines.collect();
    (0..digits.len()).step_by(2).map(|at| Ok(u8::from_str_radix(&digits[at..at + 2], 16)?)).collect()
}

/// Returns start and end of each packet's payload.
fn packets(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (mut at, mut found) = (0, Vec::new());
    while let Some([a, b, c, _]) = bytes.get(at..at + 4) {
        let end = at + 4 + u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        found.push((at + 4, end.min(bytes.len())));
        at = end;
    }
    found
}

/// Returns the bytes with up to three errors.
fn mutated(good: &[u8], random: &mut SeededRandom) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(3) {
        let packets = packets(&bytes);
        let (start, end) = packets[random.below(packets.len())];
        if start >= end {
            continue;
        }
        let at = start + random.below(end - start);
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes.truncate(at.max(1)),
            3 => drop(bytes.splice(at..at, (0..random.below(40)).map(|_| 0xff).collect::<Vec<u8>>())),
            // The size in the packet header.
            4 => bytes[start - 4 + random.below(3)] = random.below(256) as u8,
            _ => {
                // An event with a wrong value and a valid checksum.
                bytes[at] = random.below(256) as u8;
                let is_event = bytes[start] == 0 && end - start > HEADER_SIZE + 5;
                if is_event {
                    let event = &mut bytes[start + 1..end];
                    let next = u32::from_le_bytes([event[13], event[14], event[15], event[16]]);
                    move_event(event, EventChecksum::Crc32, NextPosition::Fixed(next));
                }
            }
        }
    }
    bytes
}

/// Sends one conversation to each client, then closes the connection.
fn serve(listener: &TcpListener, conversations: &[Vec<u8>], served: &AtomicUsize) -> Result<()> {
    for bytes in conversations {
        let (mut stream, _) = listener.accept()?;
        served.fetch_add(1, Ordering::Relaxed);
        // The client may close the connection first.
        let sent = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        if sent.is_ok() {
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    Ok(())
}

/// Receives into a new store; returns the number of received events.
fn receive(port: u16, directory: &Path) -> Result<usize> {
    let address = ServerAddress {
        user: "repl".to_owned(),
        password: PasswordSource::Text("secret".to_owned()),
        host: "127.0.0.1".to_owned(),
        port,
        socket: None,
        tls: TlsPolicy::with_mode(SslMode::Disabled),
        public_key: PublicKeySource::Server,
        compressions: vec![None],
        cleartext: CleartextPolicy::Refuse,
        timeout: Duration::from_secs(5),
        cancel: CancelToken::default(),
    };
    let options = LinkOptions::default();
    let mut store = StoreWriter::open(directory, LogEncryption::Plain { keyring: None })?;
    let mut source = LiveSource::open(&address, &options, replica())?;
    let mut count = 0;
    while let Some(live) = source.next()? {
        match live.arrival {
            SourceEvent::File { file, position } => store.begin_log(str::from_utf8(file)?, position)?,
            SourceEvent::Format { event, origin: FormatOrigin::File } => {
                store.append(MAGIC.len() as u64, event.bytes())?;
            }
            SourceEvent::Event { event, position } => {
                store.append(position, event.bytes())?;
            }
            SourceEvent::Format { .. } | SourceEvent::Heartbeat { .. } | SourceEvent::Artificial(_) => {}
        }
        count += 1;
    }
    Ok(count)
}

#[test]
fn damaged_conversations_are_errors() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    for (name, _) in CONVERSATIONS {
        let good = recorded(name)?;
        let mut conversations = vec![good.clone()];
        conversations.extend((0..400).map(|_| mutated(&good, &mut random)));
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let served = AtomicUsize::new(0);
        thread::scope(|scope| -> Result<()> {
            let serving = scope.spawn(|| serve(&listener, &conversations, &served));
            let mut refused = 0;
            for number in 0..conversations.len() {
                let directory = TempDir::new()?;
                match receive(port, directory.path()) {
                    Ok(count) => ensure!(
                        number > 0 || count > 10,
                        "{name}: {count} events of an undamaged conversation"
                    ),
                    Err(error) if number == 0 => return Err(error.context(name)),
                    Err(error) => {
                        ensure!(!error.to_string().is_empty(), "{name}: an error without a message");
                        refused += 1;
                    }
                }
            }
            ensure!(refused > conversations.len() / 2, "{name}: only {refused} were refused");
            serving.join().map_err(|_| anyhow::anyhow!("the source panicked"))?
        })?;
    }
    Ok(())
}

/// The command must print the error of the library.
#[test]
fn commands_report_damaged_conversations() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let directory = TempDir::new()?;
    for (round, (name, _)) in (0..12).flat_map(|round| CONVERSATIONS.map(|kept| (round, kept))) {
        let bytes = mutated(&recorded(name)?, &mut random);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let from = format!("mysql://repl:secret@127.0.0.1:{}/", listener.local_addr()?.port());
        let store: PathBuf = directory.path().join(format!("{round}-{name}"));
        let mut command = Command::new(bintide()?);
        command.env_clear().arg("receive").arg(&store).args(["--from", &from, "--stop-at-end", "-q"]);
        command.arg("--get-server-public-key").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let served = AtomicUsize::new(0);
        serve(&listener, &[bytes], &served)?;
        // After the first data, the command retries; the source accepts no more connections.
        drop(listener);
        let start = Instant::now();
        while child.try_wait()?.is_none() && start.elapsed() < Duration::from_millis(400) {
            thread::sleep(Duration::from_millis(10));
        }
        let ended = child.try_wait()?;
        child.kill()?;
        let printed = String::from_utf8(child.wait_with_output()?.stderr)?;
        ensure!(!printed.contains("panicked"), "{name}: {printed}");
        let code = ended.map(|status| status.code().context("a signal ended the command")).transpose()?;
        ensure!(matches!(code, None | Some(0..=2)), "{name}: {code:?} {printed}");
        ensure!(code.is_none_or(|code| code == 0) || printed.starts_with("bintide: "), "{name}: {printed}");
    }
    Ok(())
}

/// A server of another protocol.
#[test]
fn servers_of_other_protocols_are_reported() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let serving = thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _): (TcpStream, _) = listener.accept()?;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    });
    let directory = TempDir::new()?;
    let error = format!("{:#}", receive(port, directory.path()).err().context("the connection succeeded")?);
    ensure!(error.contains("or this is not MySQL's protocol"), "{error}");
    serving.join().map_err(|_| anyhow::anyhow!("the source panicked"))??;
    Ok(())
}
