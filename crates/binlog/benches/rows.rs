//! Benchmark of decoding, walking and counting rows on one core.
//!
//! Usage: `cargo bench -p bintide-binlog --bench rows -- [--way=WAY] LOG...`. Prints one line per log and way of
//! reading: `NAME WAY: ROWS rows, ROWS/S, MB/S`. MB count only the rows (NULL bits and values). The time is the
//! median of several runs over rows events in memory, in CPU time of this thread, so that other processes hardly
//! affect it. Without a log, it measures nothing and says so.
//!
//! | way | work per row |
//! |---|---|
//! | values | decodes the value of each column |
//! | fields | finds the bytes of each column |
//! | rows | splits the row into images |
//! | count | skips the row |

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bintide_binlog::events::Rows;
use bintide_binlog::{
    DecodeError, Event, EventFormat, Framer, FramerOutput, MAGIC, RawEvent, RawEventBuf, RowDecoder, Table,
    Value,
};

/// Number of runs per way of reading; the median counts.
const RUNS: usize = 9;

/// One event with its decoder.
struct BenchEvents {
    event: RawEventBuf,
    decoder: Arc<RowDecoder>,
}

fn main() {
    let (options, logs): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let way = options.iter().find_map(|option| option.strip_prefix("--way="));
    if logs.is_empty() {
        println!("no log given: nothing to measure");
    }
    for log in logs {
        let bytes = std::fs::read(&log).expect("the log can be read");
        measure(&log, &bytes, way).expect("the log can be decoded");
    }
}

fn measure(name: &str, log: &[u8], only: Option<&str>) -> Result<(), DecodeError> {
    let (prepared, format) = prepare(log)?;
    let mut events = Vec::new();
    for prepared in &prepared {
        if let Some(rows) = rows_of(prepared.event.as_raw(), &format)? {
            events.push((rows, &*prepared.decoder));
        }
    }
    let bytes: usize = events.iter().map(|(rows, _)| rows.rows.len()).sum();
    for (way, read) in
        [("values", values as ReadRowsFn), ("fields", fields), ("rows", split), ("count", count)]
    {
        if only.is_some_and(|only| only != way) {
            continue;
        }
        let mut times = Vec::new();
        let mut rows = 0;
        for _ in 0..RUNS {
            let start = processor_time();
            rows = read(&events)?;
            times.push(processor_time() - start);
        }
        times.sort();
        report(name, way, rows, bytes, times[RUNS / 2]);
    }
    Ok(())
}

fn processor_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("the thread has a clock").into()
}

fn report(name: &str, way: &str, rows: u64, bytes: usize, time: Duration) {
    let seconds = time.as_secs_f64();
    let rate = |count: f64| count / seconds / 1e6;
    println!("{name} {way}: {rows} rows, {:.1} M rows/s, {:.0} MB/s", rate(rows as f64), rate(bytes as f64));
}

type ReadRowsFn = fn(&[(Rows<'_>, &RowDecoder)]) -> Result<u64, DecodeError>;

fn values(events: &[(Rows<'_>, &RowDecoder)]) -> Result<u64, DecodeError> {
    let (mut count, mut sum) = (0, 0_u64);
    for (rows, decoder) in events {
        for row in decoder.rows(rows) {
            let row = row?;
            for image in row.images() {
                for field in image.fields() {
                    sum = sum.wrapping_add(look_at(&field.value()?));
                }
            }
            count += 1;
        }
    }
    black_box(sum);
    Ok(count)
}

/// Returns a number that depends on the value, so that the compiler cannot remove the decoding.
fn look_at(value: &Value<'_>) -> u64 {
    match value {
        Value::Int(number) => *number as u64,
        Value::UInt(number) | Value::Set(number) => *number,
        Value::Double(number) => number.to_bits(),
        Value::Float(number) => u64::from(number.to_bits()),
        Value::Date(date) => u64::from(date.year) + u64::from(date.month) + u64::from(date.day),
        Value::DateTime(time) => u64::from(time.date.year) + u64::from(time.second) + u64::from(time.micros),
        Value::Timestamp(time) => u64::from(time.seconds) + u64::from(time.micros),
        Value::Enum(index) => u64::from(*index),
        Value::Text(text) => text.bytes.len() as u64 + u64::from(text.collation),
        Value::Bytes(bytes) => bytes.bytes.len() as u64,
        Value::Decimal(decimal) => u64::from(decimal.is_negative()),
        Value::Json(document) => document.bytes().len() as u64,
        _ => 1,
    }
}

fn fields(events: &[(Rows<'_>, &RowDecoder)]) -> Result<u64, DecodeError> {
    let mut count = 0;
    for (rows, decoder) in events {
        for row in decoder.rows(rows) {
            let row = row?;
            for image in row.images() {
                for field in image.fields() {
                    black_box(field.bytes());
                }
            }
            count += 1;
        }
    }
    Ok(count)
}

fn split(events: &[(Rows<'_>, &RowDecoder)]) -> Result<u64, DecodeError> {
    let mut count = 0;
    for (rows, decoder) in events {
        for row in decoder.rows(rows) {
            black_box(row?);
            count += 1;
        }
    }
    Ok(count)
}

fn count(events: &[(Rows<'_>, &RowDecoder)]) -> Result<u64, DecodeError> {
    events.iter().map(|(rows, decoder)| decoder.count(rows)).sum()
}

fn prepare(log: &[u8]) -> Result<(Vec<BenchEvents>, EventFormat), DecodeError> {
    let mut rest = log.strip_prefix(&MAGIC).expect("a plain log");
    let mut framer = Framer::new();
    let mut tables = HashMap::new();
    let mut decoders: HashMap<u64, Arc<RowDecoder>> = HashMap::new();
    let mut prepared = Vec::new();
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        rest = &rest[raw.bytes().len()..];
        let format = framer.format().expect("the first event is a format description");
        if let Event::TableMap(map) = raw.decode(format)? {
            tables.insert(map.table_id, Arc::new(Table::new(&map)?));
            decoders.remove(&map.table_id);
        }
        let Some(rows) = rows_of(raw, format)? else { continue };
        let decoder = match decoders.get(&rows.table_id).filter(|decoder| decoder.fits(&rows)) {
            Some(decoder) => Arc::clone(decoder),
            None => Arc::new(RowDecoder::new(Arc::clone(&tables[&rows.table_id]), &rows)?),
        };
        decoders.insert(rows.table_id, Arc::clone(&decoder));
        prepared.push(BenchEvents { event: raw.to_buf(), decoder });
    }
    Ok((prepared, framer.format().expect("the log has events").clone()))
}

fn rows_of<'a>(raw: RawEvent<'a>, format: &EventFormat) -> Result<Option<Rows<'a>>, DecodeError> {
    Ok(match raw.decode(format)? {
        Event::WriteRows(rows)
        | Event::UpdateRows(rows)
        | Event::DeleteRows(rows)
        | Event::PartialUpdateRows(rows) => Some(rows),
        _ => None,
    })
}
