//! Column types, and values of them as SQL literals.

use testkit::SeededRandom;

/// A column type, and a function that draws a literal of it.
pub(super) struct Kind {
    pub(super) sql: &'static str,
    pub(super) literal: fn(&mut SeededRandom) -> String,
}

/// All column types.
pub(super) const KINDS: [Kind; 46] = [
    Kind { sql: "TINYINT", literal: |random| signed(random, 8) },
    Kind { sql: "TINYINT UNSIGNED", literal: |random| unsigned(random, 8) },
    Kind { sql: "SMALLINT", literal: |random| signed(random, 16) },
    Kind { sql: "SMALLINT UNSIGNED", literal: |random| unsigned(random, 16) },
    Kind { sql: "MEDIUMINT", literal: |random| signed(random, 24) },
    Kind { sql: "MEDIUMINT UNSIGNED", literal: |random| unsigned(random, 24) },
    Kind { sql: "INT", literal: |random| signed(random, 32) },
    Kind { sql: "INT UNSIGNED", literal: |random| unsigned(random, 32) },
    Kind { sql: "BIGINT", literal: |random| signed(random, 64) },
    Kind { sql: "BIGINT UNSIGNED", literal: |random| unsigned(random, 64) },
    Kind { sql: "FLOAT", literal: real },
    Kind { sql: "DOUBLE", literal: real },
    Kind { sql: "DECIMAL(5,2)", literal: |random| decimal(random, 3, 2) },
    Kind { sql: "DECIMAL(20,0)", literal: |random| decimal(random, 20, 0) },
    Kind { sql: "DECIMAL(30,30)", literal: |random| decimal(random, 0, 30) },
    Kind { sql: "DECIMAL(65,30)", literal: |random| decimal(random, 35, 30) },
    Kind { sql: "YEAR", literal: |random| format!("{}", 1901 + random.below(255)) },
    Kind { sql: "DATE", literal: |random| format!("'{}'", date(random)) },
    Kind { sql: "TIME", literal: |random| time(random, 0) },
    Kind { sql: "TIME(3)", literal: |random| time(random, 3) },
    Kind { sql: "TIME(6)", literal: |random| time(random, 6) },
    Kind { sql: "DATETIME", literal: |random| datetime(random, 0) },
    Kind { sql: "DATETIME(1)", literal: |random| datetime(random, 1) },
    Kind { sql: "DATETIME(6)", literal: |random| datetime(random, 6) },
    Kind { sql: "TIMESTAMP NULL", literal: |random| timestamp(random, 0) },
    Kind { sql: "TIMESTAMP(4) NULL", literal: |random| timestamp(random, 4) },
    Kind { sql: "CHAR(10)", literal: |random| text(random, 10) },
    Kind { sql: "CHAR(255) CHARACTER SET utf8mb4", literal: |random| text(random, 60) },
    Kind { sql: "VARCHAR(50)", literal: |random| text(random, 50) },
    Kind { sql: "VARCHAR(500) CHARACTER SET latin1", literal: |random| ascii(random, 300) },
    Kind { sql: "VARCHAR(100) CHARACTER SET utf16", literal: |random| text(random, 50) },
    Kind { sql: "VARCHAR(100) CHARACTER SET gbk", literal: |random| ascii(random, 50) },
    Kind { sql: "BINARY(8)", literal: |random| bytes(random, 8) },
    Kind { sql: "VARBINARY(300)", literal: |random| bytes(random, 300) },
    Kind { sql: "TINYTEXT", literal: |random| text(random, 40) },
    Kind { sql: "TEXT", literal: |random| text(random, 400) },
    Kind { sql: "MEDIUMBLOB", literal: |random| bytes(random, 1000) },
    Kind { sql: "LONGTEXT", literal: |random| text(random, 2000) },
    Kind { sql: "BIT(1)", literal: |random| format!("b'{}'", random.below(2)) },
    Kind { sql: "BIT(13)", literal: |random| format!("b'{:b}'", random.below(1 << 13)) },
    Kind { sql: "BIT(64)", literal: |random| format!("b'{:b}'", random.next_u64()) },
    Kind { sql: "ENUM('a','b','it''s','é')", literal: |random| format!("{}", 1 + random.below(4)) },
    Kind {
        sql: "SET('p','q','r','s','t','u','v','w','x')",
        literal: |random| format!("{}", random.below(512)),
    },
    Kind { sql: "JSON", literal: json_literal },
    Kind {
        sql: "GEOMETRY",
        literal: |random| format!("POINT({}, -{}.5)", random.below(100), random.below(100)),
    },
    Kind {
        sql: "VECTOR(3)",
        literal: |random| format!("TO_VECTOR('[{}.25,-1e{},0]')", random.below(99), random.below(30)),
    },
];

fn signed(random: &mut SeededRandom, bits: u32) -> String {
    let value = match random.below(6) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => random.below(10) as i64 - 5,
        _ => random.next_u64() as i64,
    };
    (value >> (64 - bits)).to_string()
}

fn unsigned(random: &mut SeededRandom, bits: u32) -> String {
    let value = match random.below(6) {
        0 => 0,
        1 => u64::MAX,
        _ => random.next_u64(),
    };
    (value >> (64 - bits)).to_string()
}

fn real(random: &mut SeededRandom) -> String {
    let mantissa = random.next_u64() as i64 >> random.below(63);
    let exponent = if random.once_in(3) { random.below(40) as i32 - 20 } else { 0 };
    match random.below(8) {
        0 => "0".to_owned(),
        1 => "0.1".to_owned(),
        _ => format!("{mantissa}e{exponent}"),
    }
}

fn decimal(random: &mut SeededRandom, whole: usize, fraction: usize) -> String {
    let mut text = if random.once_in(2) { "-".to_owned() } else { String::new() };
    let mut digits = |length_max: usize, text: &mut String| {
        let count = if random.once_in(3) { length_max } else { random.below(length_max + 1) };
        (0..count).for_each(|_| text.push(char::from(b'0' + random.below(10) as u8)));
    };
    text.push('0');
    digits(whole, &mut text);
    if fraction > 0 {
        text.push_str(".0");
        text.pop();
        digits(fraction, &mut text);
    }
    if text.ends_with('.') { text + "0" } else { text }
}

fn date(random: &mut SeededRandom) -> String {
    format!("{:04}-{:02}-{:02}", 1000 + random.below(9000), 1 + random.below(12), 1 + random.below(28))
}

fn clock(random: &mut SeededRandom, digits: usize) -> String {
    let mut text = format!("{:02}:{:02}:{:02}", random.below(24), random.below(60), random.below(60));
    if digits > 0 {
        text.push('.');
        (0..digits).for_each(|_| text.push(char::from(b'0' + random.below(10) as u8)));
    }
    text
}

fn time(random: &mut SeededRandom, digits: usize) -> String {
    let sign = if random.once_in(3) { "-" } else { "" };
    format!("'{sign}{}'", clock(random, digits))
}

fn datetime(random: &mut SeededRandom, digits: usize) -> String {
    format!("'{} {}'", date(random), clock(random, digits))
}

fn timestamp(random: &mut SeededRandom, digits: usize) -> String {
    let (year, month, day) = (1971 + random.below(66), 1 + random.below(12), 4 + random.below(20));
    // Avoids the hours that a daylight saving change skips.
    format!("'{year:04}-{month:02}-{day:02} {}'", clock(random, digits))
}

/// Draws text of up to `length_max` characters: letters, characters to escape, and characters of two to four bytes.
pub(super) fn text(random: &mut SeededRandom, length_max: usize) -> String {
    const PIECES: [&str; 22] = [
        "a", "b", "word ", "0", " ", "\\'", "\\\"", "\\\\", "\\n", "\\t", "\\r", "\\0", "%", "_", ";", "-- ",
        "/*", "*/", "é", "漢", "😀", "#",
    ];
    drawn_text(random, &PIECES, length_max / 5)
}

fn ascii(random: &mut SeededRandom, length_max: usize) -> String {
    const PIECES: [&str; 8] = ["a", "Z", "0", " ", "\\'", "\\\\", "~", "repeat "];
    drawn_text(random, &PIECES, length_max / 7)
}

fn drawn_text(random: &mut SeededRandom, pieces: &[&str], length_max: usize) -> String {
    let count = if random.once_in(4) { random.below(3) } else { random.below(length_max + 1) };
    let inner: String = (0..count).map(|_| *random.pick(pieces)).collect();
    format!("'{inner}'")
}

fn bytes(random: &mut SeededRandom, length_max: usize) -> String {
    let count = if random.once_in(4) { 0 } else { random.below(length_max + 1) };
    let hex: String = (0..count).map(|_| format!("{:02X}", random.below(256))).collect();
    format!("x'{hex}'")
}

fn json_literal(random: &mut SeededRandom) -> String {
    match random.below(6) {
        0 => format!("CAST({} AS JSON)", decimal(random, 10, 5)),
        1 => format!("CAST(CAST('{}' AS DATE) AS JSON)", date(random)),
        2 => format!("JSON_OBJECT('b', {})", bytes(random, 50)),
        _ => format!("'{}'", json(random, 3)),
    }
}

/// Draws a JSON text for use inside a SQL literal.
fn json(random: &mut SeededRandom, depth: usize) -> String {
    let inner = |random: &mut SeededRandom, member: fn(&mut SeededRandom, usize) -> String| {
        (0..random.below(4)).map(|_| member(random, depth - 1)).collect::<Vec<_>>().join(", ")
    };
    match random.below(if depth == 0 { 6 } else { 8 }) {
        0 => (*random.pick(&["null", "true", "false", "\"\"", "{}", "[]"])).to_owned(),
        1 => signed(random, 16),
        2 => signed(random, 64),
        3 => format!("{}.{}", random.below(1000), random.below(1000)),
        4 | 5 => {
            (*random.pick(&["\"text\"", "\"é漢\"", "\"quote \\\\\" and \\\\\\\\ and \\\\n\"", "\"it''s\""]))
                .to_owned()
        }
        6 => format!("[{}]", inner(random, json)),
        _ => format!(
            "{{{}}}",
            inner(random, |random, depth| format!("\"k{}\": {}", random.below(9), json(random, depth)))
        ),
    }
}
