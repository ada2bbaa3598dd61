//! Measures how fast logs are read, verified and decompressed, on one core.
//!
//! Usage: `cargo bench -p bintide-logs --bench read -- [--way=WAY] LOG...`. It prints a line for each log and way of
//! reading: `NAME WAY: EVENTS events, EVENTS/S, MB/S`. MB are those of the log, or with `payloads` those of the
//! decompressed events. The time is the median of several runs over a file in the page cache. Without a log, it
//! measures nothing and prints that.
//!
//! | way | work |
//! |---|---|
//! | events | reads one event after the other |
//! | chunks | reads whole events in large buffers |
//! | checksums | as chunks, and verifies each event's checksum |
//! | payloads | as chunks, and decompresses transaction payloads, large ones in pieces |
//! | ciphers | as chunks, and decrypts the bytes in memory |

use std::hint::black_box;
use std::time::{Duration, Instant};

use binlog::encryption::FilePassword;
use binlog::{Event, PayloadOpener};
use logs::{LogError, LogPiece, LogReader, ReadOutcome};

/// Number of runs of each way of reading; the median counts.
const RUNS: usize = 9;

/// Number of bytes to read at once, as the parallel commands do.
const CHUNK_SIZE: usize = 1 << 20;

/// Smallest size of a payload that is read in pieces.
const LARGE: usize = 16 << 20;

/// Numbers of events and bytes.
type ReadCounts = (u64, u64);

type ReadMethod = (&'static str, fn(&str) -> Result<ReadCounts, LogError>);

const READ_METHODS: &[ReadMethod] = &[
    ("events", events),
    ("chunks", chunks),
    ("checksums", checksums),
    ("payloads", payloads),
    ("ciphers", ciphers),
];

fn main() {
    let (options, logs): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let way = options.iter().find_map(|option| option.strip_prefix("--way="));
    if logs.is_empty() {
        println!("no log given: nothing to measure");
    }
    for log in logs {
        for (name, read) in READ_METHODS.iter().filter(|(name, _)| way.is_none_or(|way| way == *name)) {
            match measure(&log, *read) {
                Ok(((count, bytes), time)) => {
                    let rate = |amount: u64| amount as f64 / time.as_secs_f64() / 1e6;
                    println!("{log} {name}: {count} events, {:.2} M/s, {:.0} MB/s", rate(count), rate(bytes));
                }
                Err(error) => println!("{log} {name}: {error}"),
            }
        }
    }
}

fn measure(
    log: &str,
    read: fn(&str) -> Result<ReadCounts, LogError>,
) -> Result<(ReadCounts, Duration), LogError> {
    let mut counts = (0, 0);
    let mut times = [Duration::MAX; RUNS];
    for time in &mut times {
        let begin = Instant::now();
        counts = read(log)?;
        *time = begin.elapsed();
    }
    times.sort();
    Ok((counts, times[RUNS / 2]))
}

fn events(log: &str) -> Result<ReadCounts, LogError> {
    let mut reader = LogReader::open(log)?;
    let (mut count, mut bytes) = (0, 0);
    while let ReadOutcome::Some(event) = reader.next_event()? {
        count += 1;
        bytes += black_box(event.raw.bytes()).len() as u64;
    }
    Ok((count, bytes))
}

fn chunks(log: &str) -> Result<ReadCounts, LogError> {
    let mut reader = LogReader::open(log)?;
    let (mut count, mut bytes) = (0, 0);
    while let ReadOutcome::Some(chunk) = reader.next_chunk(CHUNK_SIZE)? {
        count += chunk.len() as u64;
        bytes += black_box(chunk.bytes()).len() as u64;
    }
    Ok((count, bytes))
}

fn checksums(log: &str) -> Result<ReadCounts, LogError> {
    let mut reader = LogReader::open(log)?;
    let (mut count, mut bytes) = (0, 0);
    while let ReadOutcome::Some(chunk) = reader.next_chunk(CHUNK_SIZE)? {
        for event in chunk.iter() {
            let verified = event.raw.verify();
            verified.map_err(|error| LogError::Corrupt {
                name: log.to_owned(),
                offset: event.offset,
                error,
            })?;
        }
        count += chunk.len() as u64;
        bytes += chunk.bytes().len() as u64;
    }
    Ok((count, bytes))
}

fn payloads(log: &str) -> Result<ReadCounts, LogError> {
    let mut reader = LogReader::open(log)?;
    let mut opener = PayloadOpener::new();
    let (mut count, mut bytes) = (0, 0);
    let mut inner = Vec::new();
    while let ReadOutcome::Some(piece) = reader.next_piece(CHUNK_SIZE, LARGE)? {
        match piece {
            LogPiece::LargePayload(payload) => {
                let mut events = payload.open(&mut opener)?;
                loop {
                    inner.clear();
                    match events.next_chunk(CHUNK_SIZE, &mut inner)? {
                        0 => break,
                        more => count += more as u64,
                    }
                    bytes += black_box(&inner).len() as u64;
                }
            }
            LogPiece::Chunk(chunk) => {
                let (name, format) = (log.to_owned(), chunk.format());
                for event in chunk.iter() {
                    let (name, offset) = (name.clone(), event.offset);
                    let decoded = event.raw.decode(format);
                    let Event::TransactionPayload(payload) =
                        decoded.map_err(|error| LogError::Corrupt { name: name.clone(), offset, error })?
                    else {
                        count += 1;
                        continue;
                    };
                    let fault = |error| LogError::Payload { name: name.clone(), offset, error };
                    let mut events = opener.open(&payload).map_err(fault)?;
                    while let Some(raw) = events.next_event().map_err(fault)? {
                        count += 1;
                        bytes += black_box(raw.bytes()).len() as u64;
                    }
                }
            }
        }
    }
    Ok((count, bytes))
}

fn ciphers(log: &str) -> Result<ReadCounts, LogError> {
    let mut reader = LogReader::open(log)?;
    let mut cipher = FilePassword::new([7; 32]).cipher();
    let (mut count, mut bytes) = (0, 0);
    let mut plain = Vec::new();
    while let ReadOutcome::Some(chunk) = reader.next_chunk(CHUNK_SIZE)? {
        plain.clear();
        plain.extend_from_slice(chunk.bytes());
        cipher.apply(chunk.offset(), &mut plain);
        count += chunk.len() as u64;
        bytes += black_box(&plain).len() as u64;
    }
    Ok((count, bytes))
}
