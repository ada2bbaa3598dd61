//! GTID sets compared with the server: its functions, its grammar, its Previous_gtids events.

use anyhow::{Context, Result, ensure};
use binlog::gtid::{GtidSet, GtidSetFormat};
use binlog::{Event, Framer, FramerOutput, MAGIC};
use testkit::{Launch, SeededRandom, TestServer, seed_from_env};

const PAIRS: usize = 400;
const TEXTS: usize = 3000;

const UUIDS: &[&str] = &[
    "00000000-0000-0000-0000-000000000001",
    "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
    "AAAAAAAA-aaaa-AAAA-aaaa-aaaaaaaaaaab",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
];

const TAGS: &[&str] = &["a", "_", "tag_1", "B", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"];

#[test]
fn set_operations_equal_the_servers() -> Result<()> {
    let seed = seed_from_env("BINTIDE_SEED");
    println!("BINTIDE_SEED={seed}");
    let mut random = SeededRandom::new(seed);
    let server = Launch::mysql().start()?;
    let pairs: Vec<(String, String)> = (0..PAIRS).map(|_| (set(&mut random), set(&mut random))).collect();
    let script = pairs.iter().map(|(one, two)| {
        let functions = [
            format!("gtid_subtract('{one}', '{two}')"),
            format!("gtid_subtract('{one},{two}', '')"),
            format!("gtid_subtract('{one}', gtid_subtract('{one}', '{two}'))"),
        ]
        .map(|function| format!("replace({function}, '\\n', '')"));
        format!("select {}, gtid_subset('{one}', '{two}');\n", functions.join(", "))
    });
    let output = server.sql(&script.collect::<String>())?;
    let lines: Vec<&str> = output.lines().collect();
    ensure!(lines.len() == PAIRS, "{} lines for {PAIRS} pairs", lines.len());
    let mut subsets = 0;
    for ((one_text, two_text), line) in pairs.iter().zip(lines) {
        let (one, two): (GtidSet, GtidSet) = (one_text.parse()?, two_text.parse()?);
        let sets = [one.difference(&two), one.union(&two), one.intersection(&two)];
        let texts = sets.map(|set| set.to_string());
        let found = format!("{}\t{}", texts.join("\t"), u8::from(one.is_subset(&two)));
        ensure!(found == line, "{one_text} and {two_text}: the server returns {line}, bintide {found}");
        subsets += usize::from(one.is_subset(&two));
    }
    ensure!(subsets > 0, "no set was a subset of another");
    Ok(())
}

fn set(random: &mut SeededRandom) -> String {
    let mut text = String::new();
    for _ in 0..random.below(4) {
        text += &format!("{}{}", if text.is_empty() { "" } else { "," }, random.pick(UUIDS));
        for _ in 0..=random.below(5) {
            if random.once_in(4) {
                text += &format!(":{}", random.pick(TAGS));
            }
            let first = random.below(20) + 1;
            text += &match random.below(3) {
                0 => format!(":{first}"),
                1 => format!(":{first}-{}", first + random.below(9)),
                _ => format!(":{first}-{}", random.below(30)),
            };
        }
    }
    text
}

#[test]
fn accepted_texts_equal_the_servers() -> Result<()> {
    let seed = seed_from_env("BINTIDE_SEED");
    println!("BINTIDE_SEED={seed}");
    let mut random = SeededRandom::new(seed);
    let server = Launch::mysql().start()?;
    server.sql(
        "create database d;
        delimiter //
        create procedure d.try(s longtext)
        begin
            declare exit handler for 1772 select 'refused';
            select concat('taken ', replace(gtid_subtract(s, ''), '\\n', ''));
        end //",
    )?;
    let texts: Vec<String> = (0..TEXTS).map(|_| text(&mut random)).collect();
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let calls = texts.iter().map(|text| format!("call d.try(convert(x'{}' using utf8mb4));\n", hex(text)));
    let output = server.sql(&calls.collect::<String>())?;
    let lines: Vec<&str> = output.lines().collect();
    ensure!(lines.len() == TEXTS, "{} lines for {TEXTS} texts", lines.len());
    let mut taken = 0;
    for (text, line) in texts.iter().zip(lines) {
        let found = match text.parse::<GtidSet>() {
            Ok(set) => format!("taken {set}"),
            Err(_) => "refused".to_owned(),
        };
        ensure!(found == line, "{text:?}: the server returns {line}, bintide {found}");
        taken += usize::from(line != "refused");
    }
    ensure!((TEXTS / 20..TEXTS * 19 / 20).contains(&taken), "{taken} of {TEXTS} texts were accepted");
    Ok(())
}

/// Returns a set's text with random changes.
fn text(random: &mut SeededRandom) -> String {
    const PARTS: &[&str] = &[
        " ",
        "\n",
        "\t",
        "\u{b}",
        "\r",
        ":",
        ",",
        "-",
        "0",
        "1",
        "a",
        "_",
        "{",
        "}",
        "+",
        ";",
        ".",
        ":tag",
        "9223372036854775806",
        "9223372036854775807",
        "18446744073709551616",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "{aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa}",
        "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
        "abc",
    ];
    let mut text = set(random);
    for _ in 0..random.below(4) {
        let index = random.below(text.len() + 1);
        if !text.is_char_boundary(index) {
            continue;
        }
        match random.below(3) {
            0 if index < text.len() && text.is_char_boundary(index + 1) => drop(text.remove(index)),
            _ => text.insert_str(index, random.pick::<&str>(PARTS)),
        }
    }
    text
}

#[test]
fn encoding_equals_the_servers() -> Result<()> {
    let seed = seed_from_env("BINTIDE_SEED");
    println!("BINTIDE_SEED={seed}");
    let mut random = SeededRandom::new(seed);
    // A server that has seen a tag writes the tagged format afterwards.
    for format in [GtidSetFormat::Untagged, GtidSetFormat::Tagged] {
        let server = Launch::mysql().start()?;
        for _ in 0..10 {
            let mut expected: GtidSet = set(&mut random).parse()?;
            if format == GtidSetFormat::Untagged {
                let mut bytes = Vec::new();
                expected.encode(format, &mut bytes);
                expected = GtidSet::decode(&bytes)?;
            } else {
                expected.add("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:x:1".parse()?);
            }
            let empty = |gtid| format!("set gtid_next = '{gtid}'; begin; commit;\n");
            let transactions: String = expected.gtids().map(empty).collect();
            server.sql(&format!("reset binary logs and gtids;\n{transactions}"))?;
            server.sql("flush binary logs")?;
            let written = previous_gtids(&server)?;
            let found = GtidSet::decode(&written)?;
            ensure!(found == expected, "{expected} was read as {found}");
            let mut bytes = Vec::new();
            expected.encode(format, &mut bytes);
            ensure!(bytes == written, "{expected} is written as {written:02x?}, not as {bytes:02x?}");
        }
    }
    Ok(())
}

/// Returns the bytes of the Previous_gtids event at the start of the server's last log.
fn previous_gtids(server: &TestServer) -> Result<Vec<u8>> {
    let log = std::fs::read(server.binlogs()?.last().context("no log")?)?;
    let (mut framer, mut rest) = (Framer::new(), &log[MAGIC.len()..]);
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        let format = framer.format().context("no format description")?;
        if let Event::PreviousGtids(previous) = raw.decode(format)? {
            return Ok(previous.set.to_owned());
        }
        rest = &rest[raw.bytes().len()..];
    }
    anyhow::bail!("no Previous_gtids event")
}
