//! Row keys that are equal on the server are equal here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use binlog::events::Rows;
use binlog::{Event, EventFormat, Flavour, Framer, FramerOutput, KeyPart, MAGIC, RowDecoder, TableRegistry};
use replay::keys::{KeyReader, weights};
use replay::schedule::KeySet;
use replay::{StorageEngine, TargetTableDefinition, UniqueKey};
use testkit::{Launch, SeededRandom, TestServer, seed_from_env};

/// All characters with known weights, and most others.
#[test]
fn weights_equal_the_servers() -> Result<()> {
    let server = Launch::mysql().start()?;
    let theirs = server.sql(
        "SET cte_max_recursion_depth = 2000000;
         WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 65535)
         SELECT n, HEX(WEIGHT_STRING(CONVERT(CONVERT(UNHEX(LPAD(HEX(n), 8, '0')) USING utf32) USING utf8mb4)
                 COLLATE utf8mb4_0900_ai_ci))
         FROM n WHERE n < 55296 OR n > 57343",
    )?;
    let mut known = 0;
    for line in theirs.lines() {
        let (code, theirs) = line.split_once('\t').context("expected two columns")?;
        let character = code.parse().ok().and_then(char::from_u32).context("not a character")?;
        let Some(ours) = weights(&character.to_string()) else { continue };
        ensure!(hex(&ours) == theirs, "U+{:04X}: {}, {theirs}", u32::from(character), hex(&ours));
        known += 1;
    }
    assert_eq!(known, 2439 + 20_950 + 11_172);
    Ok(())
}

/// The weights of a text are the weights of its characters: no contraction of two characters is missed.
#[test]
fn weights_of_texts_equal_those_of_their_characters() -> Result<()> {
    let server = Launch::mysql().start()?;
    let known: Vec<char> = ('\0'..='\u{ffff}').filter(|c| weights(&c.to_string()).is_some()).collect();
    let common = known.iter().filter(|c| !('\u{3400}'..'\u{e000}').contains(*c));
    let common: Vec<char> = common.copied().collect();
    let seed = seed_from_env("BINTIDE_SEED");
    let mut random = SeededRandom::new(seed);
    let mut texts: Vec<String> = Vec::new();
    for index in 0..20_000 {
        let from = if index % 4 == 0 { &known } else { &common };
        let size = 1 + random.below(5);
        texts.push((0..size).map(|_| *random.pick(from)).collect());
    }
    let mut script = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v VARBINARY(100));".to_owned();
    for (chunk, texts) in texts.chunks(1000).enumerate() {
        let rows: Vec<String> = (0..)
            .zip(texts)
            .map(|(index, text)| format!("({}, X'{}')", chunk * 1000 + index, hex(text.as_bytes())))
            .collect();
        write!(script, "INSERT INTO d.t VALUES {};", rows.join(","))?;
    }
    script.push_str(
        "SELECT id, HEX(WEIGHT_STRING(CONVERT(v USING utf8mb4) COLLATE utf8mb4_0900_ai_ci)) FROM d.t ORDER BY id",
    );
    let theirs = server.sql(&script)?;
    for (line, text) in theirs.lines().zip(&texts) {
        let (_, theirs) = line.split_once('\t').context("expected two columns")?;
        let ours = hex(&weights(text).context("unknown weights")?);
        ensure!(ours == theirs, "seed {seed}, {text:?}: {ours}, {theirs}");
    }
    assert_eq!(theirs.lines().count(), texts.len());
    Ok(())
}

/// Types, the length of the prefix in the key, and the values.
const NUMBERS: &str = "0, -0.0, 0.0, 1, -1, 1.50, 1.5, -1.5, 7, 77, -77.25, 99.99";
const TIMES: &str = "'2026-01-02 03:04:05', '2026-01-02 03:04:05.000', '2026-01-02 03:04:05.67', '2026-01-02', '1999-12-31 23:59:59.999'";
const TEXTS: &str = "'', ' ', 'a', 'A', 'a ', 'a  ', ' a', 'ab', 'aB', 'abc', 'abcd', 'abCe', 'b', 'ba', 'a\\0', 'a\\t', 'z ', 'Z'";
const WORDS: &str = "'straße', 'STRASSE', 'strasse', 'é', 'e', 'É', 'e\\0', 'œ', 'oe', 'ø', 'o', 'и', 'й', 'И', 'か', 'ガ', 'カ', '中', '国', '한', '하', 'ﬁ', 'fi', '…', '...', 'ａ', 'ế', 'þ', 'th'";
const BYTES: &str = "'', 'a', 'a\\0', 'a\\0\\0', '\\0', 'a ', 'A', 'ab', 'abc', 'abd', 'abcd'";

fn columns() -> Vec<(String, u64, &'static str)> {
    let plain = |column: &str, values| (column.to_owned(), 0, values);
    let mut columns = vec![
        plain("INT", NUMBERS),
        plain("TINYINT", NUMBERS),
        plain("BIGINT UNSIGNED", "0, 1, 2, 18446744073709551615"),
        plain("DECIMAL(10,2)", NUMBERS),
        plain("DECIMAL(30,0)", NUMBERS),
        plain("FLOAT", NUMBERS),
        plain("DOUBLE", NUMBERS),
        plain("DATETIME(3)", TIMES),
        plain("TIMESTAMP(2)", TIMES),
        plain("DATE", TIMES),
        plain("TIME(1)", "'00:00:00', '-00:00:00', '-00:00:00.1', '00:00:00.1', '-838:59:59', '1:2:3'"),
        plain("YEAR", "0, 1999, 2026, '0', '00'"),
        plain("BIT(9)", "0, 1, 256, 511"),
        plain("ENUM('a', 'b')", "'a', 'A', 'b'"),
        plain("SET('a', 'b')", "'', 'a', 'b', 'a,b', 'b,a'"),
        plain("BINARY(4)", BYTES),
        plain("VARBINARY(9)", BYTES),
        ("VARBINARY(9)".into(), 3, BYTES),
        ("BLOB".into(), 3, BYTES),
        plain("VARCHAR(9) COLLATE utf8mb4_general_ci", TEXTS),
        plain("VARCHAR(9) CHARACTER SET latin1", TEXTS),
        plain("VARCHAR(9) COLLATE utf8mb4_0900_ai_ci", WORDS),
        plain("VARCHAR(9) COLLATE utf8mb4_bin", WORDS),
        plain("VARCHAR(9) COLLATE utf8mb4_0900_bin", WORDS),
        ("VARCHAR(9) COLLATE utf8mb4_0900_ai_ci".into(), 2, WORDS),
        ("VARCHAR(9) COLLATE utf8mb4_bin".into(), 2, WORDS),
    ];
    let collations = ["utf8mb4_0900_ai_ci", "utf8mb4_bin", "utf8mb4_0900_bin", "utf8mb3_bin", "latin1_bin"];
    let more = ["ascii_bin", "utf16_bin", "utf16le_bin", "utf32_bin", "ucs2_bin", "gbk_bin", "sjis_bin"];
    for collation in collations.into_iter().chain(more) {
        for (column, prefix) in
            [("VARCHAR(9)", 0), ("CHAR(9)", 0), ("VARCHAR(9)", 2), ("CHAR(9)", 1), ("TEXT", 3)]
        {
            let charset = collation.split('_').next().unwrap_or_default();
            columns.push((format!("{column} CHARACTER SET {charset} COLLATE {collation}"), prefix, TEXTS));
        }
    }
    columns
}

/// Compares every value with every other, in every kind of column: values equal on the server are equal here, and
/// for kinds that are compared row by row, the reverse holds too.
#[test]
fn values_equal_on_the_server_are_equal_here() -> Result<()> {
    let server = Launch::mysql().start()?;
    let columns = columns();
    let mut script = "CREATE DATABASE d; SET sql_mode = '';".to_owned();
    for (index, (column, _, values)) in columns.iter().enumerate() {
        write!(script, "CREATE TABLE d.t{index} (id INT PRIMARY KEY AUTO_INCREMENT, v {column}); BEGIN;")?;
        for value in values.split(", ") {
            write!(script, "INSERT INTO d.t{index} (v) VALUES ({value});")?;
        }
        script.push_str("COMMIT;");
    }
    server.sql(&script)?;
    let hashes = hashes(&server, &columns)?;
    let mut by_row = 0;
    for (index, (column, prefix, _)) in columns.iter().enumerate() {
        let ours = hashes.get(&index).context("no rows")?;
        let theirs = equal_pairs(&server, index, *prefix)?;
        let is_whole = |keys: &KeySet| keys.exclusive.contains(&keys.shared[0]);
        by_row += usize::from(!ours.values().all(is_whole));
        for (a, of_a) in ours {
            for (b, of_b) in ours.range(a + 1..) {
                // The primary keys differ, so that only the other key matters.
                let is_coarse = is_whole(of_a) || is_whole(of_b);
                let meet = is_coarse || of_a.exclusive.iter().any(|key| of_b.exclusive.contains(key));
                let equal = theirs.contains(&(*a, *b));
                ensure!(meet || !equal, "{column} ({prefix}): rows {a} and {b} are equal on the server");
                let differ = !equal && !is_coarse && *prefix == 0;
                ensure!(!(meet && differ), "{column} ({prefix}): rows {a} and {b} differ on the server");
            }
        }
    }
    // Two more collations, and prefixes that end in characters of two and four bytes.
    assert_eq!(by_row, columns.len() - 2 - 4 * 3);
    Ok(())
}

fn equal_pairs(server: &TestServer, index: usize, prefix: u64) -> Result<BTreeSet<(i32, i32)>> {
    let value = |alias: &str| match prefix {
        0 => format!("{alias}.v"),
        prefix => format!("LEFT({alias}.v, {prefix})"),
    };
    let query = format!(
        "SELECT a.id, b.id FROM d.t{index} a JOIN d.t{index} b ON a.id < b.id AND {} = {}",
        value("a"),
        value("b")
    );
    let pairs = server.sql(&query)?;
    let pair = |line: &str| -> Result<(i32, i32)> {
        let (a, b) = line.split_once('\t').context("expected two columns")?;
        Ok((a.parse()?, b.parse()?))
    };
    pairs.lines().map(pair).collect()
}

/// Returns the keys of each row of each table, by the row's number.
fn hashes(
    server: &TestServer,
    columns: &[(String, u64, &str)],
) -> Result<BTreeMap<usize, BTreeMap<i32, KeySet>>> {
    let mut all: BTreeMap<usize, BTreeMap<i32, KeySet>> = BTreeMap::new();
    for log in server.binlogs()? {
        let bytes = std::fs::read(log)?;
        let mut rest = bytes.strip_prefix(&MAGIC).context("no log")?;
        let (mut framer, mut tables) = (Framer::new(), TableRegistry::new());
        while let FramerOutput::Event(raw) = framer.next(rest)? {
            let format: &EventFormat = framer.format().context("no format description")?;
            match raw.decode(format)? {
                Event::TableMap(map) => drop(tables.register(&map)?),
                Event::WriteRows(rows) => {
                    let decoder = tables.decoder(&rows)?;
                    let table = tables.table(rows.table_id).context("no table map")?;
                    let index: usize = std::str::from_utf8(&table.name[1..])?.parse()?;
                    let part = KeyPart { column: 1, prefix: columns[index].1 };
                    let definition = TargetTableDefinition {
                        engine: StorageEngine::InnoDb,
                        primary_key: Some(vec![KeyPart { column: 0, prefix: 0 }]),
                        unique_keys: vec![UniqueKey::Columns(vec![part])],
                        ..TargetTableDefinition::default()
                    };
                    let reader = KeyReader::new(&table, Some(&definition), Flavour::MySql);
                    let mut keys = KeySet::default();
                    reader.read(&rows, &decoder, &mut keys)?;
                    all.entry(index).or_default().insert(first_number(&decoder, &rows)?, keys);
                }
                _ => {}
            }
            rest = &rest[raw.bytes().len()..];
        }
    }
    Ok(all)
}

fn first_number(decoder: &RowDecoder, rows: &Rows<'_>) -> Result<i32> {
    let row = decoder.rows(rows).next().context("no row")??;
    let field = row.after.and_then(|image| image.field(0)).context("no after image")?;
    Ok(i32::from_le_bytes(field.bytes().context("not a number")?.try_into()?))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}
