//! Servers whose packets are changed in transit: every command must end with a message, in time, in limited memory,
//! and at SIGINT.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use binlog::{CHECKSUM_SIZE, EventChecksum, NextPosition, move_event};
use e2e::bounded::{LimitedRun, run_interrupted};
use e2e::identity::draws_from_env;
use e2e::program::bintide;
use tempfile::TempDir;
use testkit::{AfterPacket, Launch, SeededRandom, ServerPacket, TamperProxy, TestServer, seed_from_env};

/// Default number of runs: about twenty seconds.
const DRAWS_USUAL: usize = 32;
/// Time after which a running command is sent SIGINT.
const INTERRUPT_AFTER: Duration = Duration::from_millis(1500);
/// Time limit after SIGINT.
const RUN_TIMEOUT: Duration = Duration::from_secs(20);
/// Memory limit of a run; each has little data.
const PEAK_KIB_MAX: u64 = 200 << 10;

const SETUP: &str =
    "create database d; create table d.t (a int primary key auto_increment, s varchar(500), j json);
    insert into d.t (s, j) values (repeat('a', 400), '{\"a\": 1}'), ('b', null), ('c', '[1, 2, 3]');
    set binlog_transaction_compression = on; insert into d.t (s) select s from d.t;
    update d.t set s = concat(s, 'x') where a < 3; delete from d.t where a = 2;
    set binlog_transaction_compression = off; insert into d.t (s) values ('d');
    flush binary logs; insert into d.t (s) values ('e')";

/// A change of the packets from a given one on.
#[derive(Clone, Debug)]
struct PacketChange {
    /// Number of the connection, and of the packet in it.
    at: (usize, usize),
    change: Change,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    FlipBit,
    RandomByte,
    RandomBytes,
    HeaderSize,
    HeaderNumber,
    Empty,
    Shorter,
    Longer,
    CutAndClose,
    CutAndSilence,
    Twice,
    ManyTimes,
    Refusal,
    HugeAndSilence,
    /// A change of an event, with a valid checksum.
    EventByte,
}

const CHANGES: [Change; 16] = [
    Change::EventByte,
    Change::EventByte,
    Change::FlipBit,
    Change::RandomByte,
    Change::RandomBytes,
    Change::HeaderSize,
    Change::HeaderNumber,
    Change::Empty,
    Change::Shorter,
    Change::Longer,
    Change::CutAndClose,
    Change::CutAndSilence,
    Change::Twice,
    Change::ManyTimes,
    Change::Refusal,
    Change::HugeAndSilence,
];

impl PacketChange {
    fn draw(random: &mut SeededRandom) -> Self {
        // Most packets are sent at the start, and many of them in the first connection.
        let span = *random.pick(&[4, 12, 40, 120]);
        let at = (random.below(3).saturating_sub(1), random.below(span));
        Self { at, change: *random.pick(&CHANGES), seed: random.next_u64() }
    }

    fn apply(&self, packet: ServerPacket<'_>) -> AfterPacket {
        if (packet.connection, packet.number) != self.at {
            return AfterPacket::More;
        }
        let (mut random, bytes) = (SeededRandom::new(self.seed), packet.bytes);
        let at = HEADER_SIZE + random.below(bytes.len() - HEADER_SIZE);
        match self.change {
            Change::FlipBit if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            Change::RandomByte if at < bytes.len() => bytes[at] = random.below(256) as u8,
            Change::RandomBytes => bytes[HEADER_SIZE..].fill_with(|| random.below(256) as u8),
            Change::HeaderSize => bytes[random.below(3)] = random.below(256) as u8,
            Change::HeaderNumber => bytes[3] = random.below(256) as u8,
            Change::Empty | Change::FlipBit | Change::RandomByte => bytes.truncate(HEADER_SIZE),
            Change::Shorter => bytes.truncate(at),
            Change::Longer => {
                let more = vec![random.below(256) as u8; 1 + random.below(300)];
                bytes.splice(at..at, more);
            }
            Change::CutAndClose | Change::CutAndSilence => {
                bytes.truncate(random.below(bytes.len()));
                return if self.change == Change::CutAndClose {
                    AfterPacket::Close
                } else {
                    AfterPacket::Silence
                };
            }
            Change::Twice => bytes.extend_from_within(..),
            Change::ManyTimes => *bytes = bytes.repeat(1000),
            Change::Refusal => {
                bytes.truncate(HEADER_SIZE);
                bytes.extend(b"\xff\x10\x04#HY000\x1b[2Jno\r\n\xe2\x80\xae\xc2\x9b words");
            }
            Change::EventByte => change_event(bytes, at, &mut random),
            Change::HugeAndSilence => {
                bytes[..3].fill(0xff);
                return AfterPacket::Silence;
            }
        }
        let is_of_its_size =
            matches!(self.change, Change::Empty | Change::Shorter | Change::Longer | Change::Refusal);
        if is_of_its_size || bytes.len() == HEADER_SIZE {
            let size = ((bytes.len() - HEADER_SIZE) as u32).to_le_bytes();
            bytes[..3].copy_from_slice(&size[..3]);
        }
        AfterPacket::More
    }
}

/// Changes a byte of an event, and updates its checksum.
fn change_event(bytes: &mut [u8], at: usize, random: &mut SeededRandom) {
    let Some((0, event)) = bytes[HEADER_SIZE..].split_first_mut().map(|(first, event)| (*first, event))
    else {
        return;
    };
    let within = at.saturating_sub(HEADER_SIZE + 1);
    if event.len() < binlog::HEADER_SIZE + CHECKSUM_SIZE || within >= event.len() - CHECKSUM_SIZE {
        return;
    }
    event[within] = random.below(256) as u8;
    let next = u32::from_le_bytes([event[13], event[14], event[15], event[16]]);
    move_event(event, EventChecksum::Crc32, NextPosition::Fixed(next));
}

/// Size of a packet's header, in bytes.
const HEADER_SIZE: usize = 4;

/// A server, and a proxy that changes its packets.
struct TamperedServer {
    server: TestServer,
    proxy: TamperProxy,
    packet_change: Arc<Mutex<PacketChange>>,
    /// Number of connections of earlier runs.
    connections: Arc<Mutex<usize>>,
}

impl TamperedServer {
    fn start(launch: &Launch) -> Result<Self> {
        // With TLS, the proxy could not read the packets.
        let server = launch.clone().option("--tls-version=").start()?;
        let never = PacketChange { at: (usize::MAX, 0), change: Change::Empty, seed: 0 };
        let (packet_change, connections) = (Arc::new(Mutex::new(never)), Arc::new(Mutex::new(0)));
        let (now, before) = (Arc::clone(&packet_change), Arc::clone(&connections));
        let proxy = TamperProxy::to(server.port(), move |packet| {
            let mut first = before.lock().unwrap_or_else(PoisonError::into_inner);
            if *first == usize::MAX {
                *first = packet.connection;
            }
            let Some(connection) = packet.connection.checked_sub(*first) else { return AfterPacket::More };
            let packet_change = now.lock().unwrap_or_else(PoisonError::into_inner).clone();
            packet_change.apply(ServerPacket { connection, ..packet })
        })?;
        Ok(Self { server, proxy, packet_change, connections })
    }

    /// Sets the change for the next connections.
    fn tamper(&self, packet_change: &PacketChange) {
        *self.packet_change.lock().unwrap_or_else(PoisonError::into_inner) = packet_change.clone();
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner) = usize::MAX;
    }

    fn address(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/", self.proxy.port())
    }
}

/// Arguments of commands that connect: `FROM` and `TO` are addresses behind proxies, `LOGS` the source's logs,
/// `PORT` is `FROM`'s port and `OWN` an address without a proxy.
const COMMANDS: [&[&str]; 9] = [
    &["receive", "store", "--from", "FROM", "--stop-at-end", "-q"],
    &[
        "dump",
        "-R",
        "-uroot",
        "-h127.0.0.1",
        "-PPORT",
        "--to-last-log",
        "--result-file=text",
        "binlog.000001",
    ],
    &["stream", "--from", "FROM", "--format", "debezium", "--stop-at-end", "--out", "records"],
    &["stream", "--from", "FROM", "--format", "maxwell", "--snapshot", "--stop-at-end", "--out", "records"],
    &["advise", "--from", "FROM", "--levels", "1", "--time", "1", "-q"],
    &["replay", "--from", "FROM", "--relay", "relay", "--to", "sqlite:copy.db", "-q"],
    &["replay", "LOGS", "--to", "TO", "-q"],
    &["replay", "LOGS", "--to", "TO", "--apply-as", "sql", "--commit-order", "strict", "-q"],
    &["warm", "-h127.0.0.1", "-PTOPORT", "--force", "--relay-logs", "INDEX", "-q"],
];

fn run_one(
    directory: &Path,
    arguments: &[&str],
    source: &TamperedServer,
    target: &TamperedServer,
) -> Result<LimitedRun> {
    let logs: Vec<String> = source.server.binlogs()?.iter().map(|log| log.display().to_string()).collect();
    let index = Path::new(&logs[0]).with_file_name("binlog.index");
    let mut command = Command::new(bintide()?);
    command.env_clear().env("TMPDIR", directory).env("HOME", directory).current_dir(directory);
    for argument in arguments {
        match *argument {
            "FROM" => command.arg(source.address()),
            "TO" => command.arg(target.address()),
            "LOGS" => command.args(&logs),
            "INDEX" => command.arg(&index),
            "-PPORT" => command.arg(format!("-P{}", source.proxy.port())),
            "-PTOPORT" => command.arg(format!("-P{}", target.proxy.port())),
            argument => command.arg(argument),
        };
    }
    run_interrupted(&mut command, INTERRUPT_AFTER, RUN_TIMEOUT)
}

fn check(bounded: &LimitedRun) -> Result<()> {
    bounded.check_ended(&[0, 1, 2, 130])?;
    let printed = &bounded.ran.stderr;
    let is_of_ours = |line: &str| {
        ["bintide: ", "ERROR: ", "WARNING: ", "mysqlbinlog: "].iter().any(|start| line.starts_with(start))
    };
    ensure!(printed.lines().all(is_of_ours), "{printed}");
    ensure!(bounded.peak_kib < PEAK_KIB_MAX, "{} KiB", bounded.peak_kib);
    Ok(())
}

#[test]
fn changed_packets_end_in_error_messages() -> Result<()> {
    let source = TamperedServer::start(&Launch::mysql().option("--binlog-row-metadata=FULL"))?;
    let target = TamperedServer::start(&Launch::mysql().option("--server-id=2"))?;
    source.server.sql(SETUP)?;
    let seed = seed_from_env("BINTIDE_E2E_SEED");
    let draws = draws_from_env(DRAWS_USUAL)?;
    println!("{draws} runs, BINTIDE_E2E_SEED={seed}");
    let mut random = SeededRandom::new(seed);
    let mut codes = Vec::new();
    for (number, arguments) in COMMANDS.iter().cycle().take(draws.max(COMMANDS.len())).enumerate() {
        let directory = TempDir::new()?;
        target
            .server
            .sql("drop database if exists d; drop database if exists bintide; reset binary logs and gtids")?;
        // The first run of each command receives unchanged packets.
        let is_true = number < COMMANDS.len();
        let packet_change = match is_true {
            true => PacketChange { at: (usize::MAX, 0), change: Change::Empty, seed: 0 },
            false => PacketChange::draw(&mut random),
        };
        source.tamper(&packet_change);
        target.tamper(&packet_change);
        let context = || format!("run {number}, seed {seed}: {arguments:?} with {packet_change:?}");
        let bounded = run_one(directory.path(), arguments, &source, &target).with_context(context)?;
        check(&bounded).with_context(context)?;
        let code = bounded.ran.code.unwrap_or_default();
        ensure!(!is_true || code == 0 || code == 130, "{}: {}", context(), bounded.ran.stderr);
        codes.push(code);
    }
    println!("exit codes: {codes:?}");
    Ok(())
}
