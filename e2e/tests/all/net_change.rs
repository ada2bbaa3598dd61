//! Targets that apply net changes end equal to the source.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use base64_simd::STANDARD;
use binlog::{
    Event, EventFlags, EventFormat, EventOrigin, EventRole, Flavour, Framer, FramerOutput, KeyPart, MAGIC,
    RawEvent, RawEventBuf,
};
use replay::net_change::{ChangesReport, GroupChanges, NetRowsForm};
use replay::{StorageEngine, TargetTableDefinition, TargetTableName, UniqueKey};
use testkit::{Launch, SeededRandom, TestServer, seed_from_env};

const SCHEMA: &str = "CREATE DATABASE d; USE d;
    CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, v INT, s VARCHAR(9));
    CREATE TABLE named (a INT, b VARCHAR(9) COLLATE utf8mb4_bin, v INT, PRIMARY KEY (b, a));
    CREATE TABLE uniq (id BIGINT UNSIGNED PRIMARY KEY, u INT UNIQUE, v DECIMAL(5,2));
    CREATE TABLE keyless (v INT);";

/// Returns a table's definition as in the target's catalogue; `None` for `keyless`.
fn definition(table: &[u8]) -> Option<TargetTableDefinition> {
    let part = |column| KeyPart { column, prefix: 0 };
    let (key, unique_keys, auto_increment) = match table {
        b"counted" => (vec![part(0)], vec![], Some(0)),
        b"named" => (vec![part(1), part(0)], vec![], None),
        b"uniq" => (vec![part(0)], vec![UniqueKey::Columns(vec![part(1)])], None),
        _ => return None,
    };
    Some(TargetTableDefinition {
        name: TargetTableName { database: b"d".as_slice().into(), table: table.into() },
        engine: StorageEngine::InnoDb,
        primary_key: Some(key),
        unique_keys,
        auto_increment,
        ..TargetTableDefinition::default()
    })
}

/// Returns random statements that change the same few rows many times.
fn script(random: &mut SeededRandom, statements: usize) -> Result<String> {
    let mut script = "USE d; BEGIN;".to_owned();
    for _ in 0..statements {
        let (key, other, value) = (random.below(12), random.below(12), random.below(4));
        let name = *random.pick(&["x", "x ", "X", "y", ""]);
        let statement = match random.below(16) {
            0 => format!("INSERT INTO counted (v, s) VALUES ({value}, '{name}'), ({other}, NULL)"),
            1 => format!("REPLACE INTO counted VALUES ({}, {value}, '{name}')", key + 1),
            2 => format!("UPDATE counted SET v = v + 1 WHERE id % 5 = {value}"),
            3 => format!("UPDATE IGNORE counted SET id = {} WHERE id = {}", other + 1, key + 1),
            4 => format!("DELETE FROM counted ORDER BY id DESC LIMIT {}", value + 1),
            5 => format!("REPLACE INTO named VALUES ({value}, '{name}', {key})"),
            6 => format!("UPDATE IGNORE named SET b = '{name}', a = {value} WHERE v % 3 = {}", key % 3),
            7 => format!("DELETE FROM named WHERE b = '{name}'"),
            8 => "UPDATE named SET a = a + 10 ORDER BY a DESC".to_owned(),
            9 => "DELETE FROM named WHERE a > 30".to_owned(),
            10 => format!("INSERT IGNORE INTO uniq VALUES ({key}, {other}, {value}.5)"),
            11 => format!("UPDATE IGNORE uniq SET u = {other}, v = -v WHERE id = {key}"),
            12 => format!("DELETE FROM uniq WHERE u = {key}"),
            13 => format!("INSERT INTO keyless VALUES ({value}), ({key})"),
            14 => format!("DELETE FROM keyless WHERE v = {key} LIMIT 1"),
            _ => format!(
                "UPDATE named, keyless SET named.v = {value}, keyless.v = {value} WHERE keyless.v = {key}"
            ),
        };
        write!(script, "{statement};")?;
        match random.below(6) {
            0 | 1 => script.push_str("COMMIT; BEGIN;"),
            2 if random.once_in(4) => script.push_str("ROLLBACK; BEGIN;"),
            3 if random.once_in(8) => script.push_str("SET unique_checks = 1 - @@unique_checks;"),
            _ => {}
        }
    }
    script.push_str("COMMIT;");
    Ok(script)
}

/// Row transactions of the source, and its format description event.
struct Log {
    description: Vec<u8>,
    format: EventFormat,
    transactions: Vec<Vec<RawEventBuf>>,
}

fn read(server: &TestServer) -> Result<Log> {
    let path = server.binlogs()?.pop().context("no log")?;
    let bytes = std::fs::read(path)?;
    let mut rest = bytes.strip_prefix(&MAGIC).context("not a binary log")?;
    let mut framer = Framer::new();
    let (mut description, mut transactions, mut open) = (Vec::new(), Vec::new(), Vec::new());
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        rest = &rest[raw.bytes().len()..];
        let format = framer.format().context("no format description")?;
        match EventRole::of(&raw, format)? {
            EventRole::LogBoundary if description.is_empty() => description = raw.bytes().to_vec(),
            EventRole::Statement => open.clear(),
            EventRole::Commit => {
                open.push(raw.to_buf());
                transactions.push(std::mem::take(&mut open));
            }
            _ => open.push(raw.to_buf()),
        }
    }
    let format = framer.format().context("no format description")?.clone();
    Ok(Log { description, format, transactions })
}

fn binlog_statement(script: &mut String, events: &[u8]) -> Result<()> {
    writeln!(script, "BINLOG '{}';", STANDARD.encode_to_string(events))?;
    Ok(())
}

/// Returns the highest `counted.id` that was ever inserted.
fn highest_inserted(log: &Log) -> Result<i32> {
    let mut tables = binlog::TableRegistry::new();
    let mut highest = 0;
    for raw in log.transactions.iter().flatten() {
        match raw.as_raw().decode(&log.format)? {
            Event::TableMap(map) => drop(tables.register(&map)?),
            Event::WriteRows(rows) => {
                let decoder = tables.decoder(&rows)?;
                for row in decoder.rows(&rows) {
                    let image = row?.after.context("no after image")?;
                    if &*image.table().name == b"counted" {
                        let id = image.field(0).and_then(|field| field.bytes()).context("no id")?;
                        highest = highest.max(i32::from_le_bytes(id.try_into()?));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(highest)
}

#[test]
fn net_changes_make_the_same_tables() -> Result<()> {
    let source = Launch::mysql().start()?;
    let target = Launch::mysql().option("--skip-log-bin").start()?;
    let seed = seed_from_env("BINTIDE_SEED");
    let mut random = SeededRandom::new(seed);
    source.sql(SCHEMA)?;
    target.sql(SCHEMA)?;
    source.sql(&script(&mut random, 3000)?)?;
    let log = read(&source)?;
    let origin = EventOrigin { timestamp: 1, server_id: 1, flags: EventFlags(0) };
    let mut changes = GroupChanges::new(
        Flavour::MySql,
        NetRowsForm { origin, format: log.format.clone(), rows_size_max: 4096 },
    );
    let definitions: Vec<TargetTableDefinition> =
        ["counted", "named", "uniq"].iter().filter_map(|name| definition(name.as_bytes())).collect();
    let mut script = String::new();
    binlog_statement(&mut script, &log.description)?;
    script.push_str("SET @@SESSION.GTID_NEXT = 'AUTOMATIC';\n");
    let mut rest = log.transactions.as_slice();
    let mut total = ChangesReport::default();
    while !rest.is_empty() {
        let (group, after) = rest.split_at(rest.len().min(1 + random.below(60)));
        for events in group {
            let events: Vec<RawEvent<'_>> = events.iter().map(RawEventBuf::as_raw).collect();
            changes.take(&events, &log.format, &|map| {
                definitions.iter().find(|definition| *definition.name.table == *map.table)
            })?;
        }
        rest = after;
        let mut events = Vec::new();
        let report = changes.write(&mut events)?;
        total.net.inserted += report.net.inserted;
        total.net.updated += report.net.updated;
        total.net.deleted += report.net.deleted;
        total.plain_events += report.plain_events;
        total.plain_transactions += report.plain_transactions;
        script.push_str("BEGIN;\n");
        if !events.is_empty() {
            binlog_statement(&mut script, &events)?;
        }
        script.push_str("COMMIT;\n");
    }
    target.sql(&script).with_context(|| format!("seed {seed}"))?;
    let sums = "CHECKSUM TABLE d.counted, d.named, d.uniq, d.keyless";
    let (ours, theirs) = (target.sql(sums)?, source.sql(sums)?);
    ensure!(ours == theirs, "seed {seed}:\n{ours}\n{theirs}");
    let count =
        "SET information_schema_stats_expiry = 0; SELECT AUTO_INCREMENT FROM information_schema.tables
        WHERE table_schema = 'd' AND table_name = 'counted'";
    let counted: i32 = target.sql(count)?.trim().parse()?;
    let expected = highest_inserted(&log)? + 1;
    ensure!(counted >= expected, "seed {seed}: AUTO_INCREMENT is {counted}, must be {expected} at least");
    let net = total.net;
    ensure!(net.inserted > 0 && net.updated > 0 && net.deleted > 0 && total.plain_events > 0, "{total:?}");
    ensure!(total.plain_transactions > 0, "{total:?}: no statement changed tables of both kinds");
    Ok(())
}
