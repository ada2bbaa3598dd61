//! Column types, and values of them as SQL literals.

use testkit::SeededRandom;

/// A type a column can have, and how to draw a literal of it.
pub(super) struct Kind {
    pub(super) sql: &'static str,
    pub(super) literal: fn(&mut SeededRandom) -> String,
}

/// All of them.
pub(super) const KINDS: [Kind; 46] = [
    Kind { sql: "TINYINT", literal: |dice| signed(dice, 8) },
    Kind { sql: "TINYINT UNSIGNED", literal: |dice| unsigned(dice, 8) },
    Kind { sql: "SMALLINT", literal: |dice| signed(dice, 16) },
    Kind { sql: "SMALLINT UNSIGNED", literal: |dice| unsigned(dice, 16) },
    Kind { sql: "MEDIUMINT", literal: |dice| signed(dice, 24) },
    Kind { sql: "MEDIUMINT UNSIGNED", literal: |dice| unsigned(dice, 24) },
    Kind { sql: "INT", literal: |dice| signed(dice, 32) },
    Kind { sql: "INT UNSIGNED", literal: |dice| unsigned(dice, 32) },
    Kind { sql: "BIGINT", literal: |dice| signed(dice, 64) },
    Kind { sql: "BIGINT UNSIGNED", literal: |dice| unsigned(dice, 64) },
    Kind { sql: "FLOAT", literal: real },
    Kind { sql: "DOUBLE", literal: real },
    Kind { sql: "DECIMAL(5,2)", literal: |dice| decimal(dice, 3, 2) },
    Kind { sql: "DECIMAL(20,0)", literal: |dice| decimal(dice, 20, 0) },
    Kind { sql: "DECIMAL(30,30)", literal: |dice| decimal(dice, 0, 30) },
    Kind { sql: "DECIMAL(65,30)", literal: |dice| decimal(dice, 35, 30) },
    Kind { sql: "YEAR", literal: |dice| format!("{}", 1901 + dice.below(255)) },
    Kind { sql: "DATE", literal: |dice| format!("'{}'", date(dice)) },
    Kind { sql: "TIME", literal: |dice| time(dice, 0) },
    Kind { sql: "TIME(3)", literal: |dice| time(dice, 3) },
    Kind { sql: "TIME(6)", literal: |dice| time(dice, 6) },
    Kind { sql: "DATETIME", literal: |dice| datetime(dice, 0) },
    Kind { sql: "DATETIME(1)", literal: |dice| datetime(dice, 1) },
    Kind { sql: "DATETIME(6)", literal: |dice| datetime(dice, 6) },
    Kind { sql: "TIMESTAMP NULL", literal: |dice| timestamp(dice, 0) },
    Kind { sql: "TIMESTAMP(4) NULL", literal: |dice| timestamp(dice, 4) },
    Kind { sql: "CHAR(10)", literal: |dice| text(dice, 10) },
    Kind { sql: "CHAR(255) CHARACTER SET utf8mb4", literal: |dice| text(dice, 60) },
    Kind { sql: "VARCHAR(50)", literal: |dice| text(dice, 50) },
    Kind { sql: "VARCHAR(500) CHARACTER SET latin1", literal: |dice| ascii(dice, 300) },
    Kind { sql: "VARCHAR(100) CHARACTER SET utf16", literal: |dice| text(dice, 50) },
    Kind { sql: "VARCHAR(100) CHARACTER SET gbk", literal: |dice| ascii(dice, 50) },
    Kind { sql: "BINARY(8)", literal: |dice| bytes(dice, 8) },
    Kind { sql: "VARBINARY(300)", literal: |dice| bytes(dice, 300) },
    Kind { sql: "TINYTEXT", literal: |dice| text(dice, 40) },
    Kind { sql: "TEXT", literal: |dice| text(dice, 400) },
    Kind { sql: "MEDIUMBLOB", literal: |dice| bytes(dice, 1000) },
    Kind { sql: "LONGTEXT", literal: |dice| text(dice, 2000) },
    Kind { sql: "BIT(1)", literal: |dice| format!("b'{}'", dice.below(2)) },
    Kind { sql: "BIT(13)", literal: |dice| format!("b'{:b}'", dice.below(1 << 13)) },
    Kind { sql: "BIT(64)", literal: |dice| format!("b'{:b}'", dice.next_u64()) },
    Kind { sql: "ENUM('a','b','it''s','é')", literal: |dice| format!("{}", 1 + dice.below(4)) },
    Kind { sql: "SET('p','q','r','s','t','u','v','w','x')", literal: |dice| format!("{}", dice.below(512)) },
    Kind { sql: "JSON", literal: json_literal },
    Kind { sql: "GEOMETRY", literal: |dice| format!("POINT({}, -{}.5)", dice.below(100), dice.below(100)) },
    Kind {
        sql: "VECTOR(3)",
        literal: |dice| format!("TO_VECTOR('[{}.25,-1e{},0]')", dice.below(99), dice.below(30)),
    },
];

fn signed(dice: &mut SeededRandom, bits: u32) -> String {
    let value = match dice.below(6) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => dice.below(10) as i64 - 5,
        _ => dice.next_u64() as i64,
    };
    (value >> (64 - bits)).to_string()
}

fn unsigned(dice: &mut SeededRandom, bits: u32) -> String {
    let value = match dice.below(6) {
        0 => 0,
        1 => u64::MAX,
        _ => dice.next_u64(),
    };
    (value >> (64 - bits)).to_string()
}

fn real(dice: &mut SeededRandom) -> String {
    let mantissa = dice.next_u64() as i64 >> dice.below(63);
    let exponent = if dice.once_in(3) { dice.below(40) as i32 - 20 } else { 0 };
    match dice.below(8) {
        0 => "0".to_owned(),
        1 => "0.1".to_owned(),
        _ => format!("{mantissa}e{exponent}"),
    }
}

fn decimal(dice: &mut SeededRandom, whole: usize, fraction: usize) -> String {
    let mut text = if dice.once_in(2) { "-".to_owned() } else { String::new() };
    let mut digits = |most: usize, text: &mut String| {
        let count = if dice.once_in(3) { most } else { dice.below(most + 1) };
        (0..count).for_each(|_| text.push(char::from(b'0' + dice.below(10) as u8)));
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

fn date(dice: &mut SeededRandom) -> String {
    format!("{:04}-{:02}-{:02}", 1000 + dice.below(9000), 1 + dice.below(12), 1 + dice.below(28))
}

fn clock(dice: &mut SeededRandom, digits: usize) -> String {
    let mut text = format!("{:02}:{:02}:{:02}", dice.below(24), dice.below(60), dice.below(60));
    if digits > 0 {
        text.push('.');
        (0..digits).for_each(|_| text.push(char::from(b'0' + dice.below(10) as u8)));
    }
    text
}

fn time(dice: &mut SeededRandom, digits: usize) -> String {
    let sign = if dice.once_in(3) { "-" } else { "" };
    format!("'{sign}{}'", clock(dice, digits))
}

fn datetime(dice: &mut SeededRandom, digits: usize) -> String {
    format!("'{} {}'", date(dice), clock(dice, digits))
}

fn timestamp(dice: &mut SeededRandom, digits: usize) -> String {
    let (year, month, day) = (1971 + dice.below(66), 1 + dice.below(12), 4 + dice.below(20));
    // Not in the hours that a change of clocks skips.
    format!("'{year:04}-{month:02}-{day:02} {}'", clock(dice, digits))
}

/// Text of up to `most` characters: letters, what must be escaped, and characters of two to four bytes.
pub(super) fn text(dice: &mut SeededRandom, most: usize) -> String {
    const PIECES: [&str; 22] = [
        "a", "b", "word ", "0", " ", "\\'", "\\\"", "\\\\", "\\n", "\\t", "\\r", "\\0", "%", "_", ";", "-- ",
        "/*", "*/", "é", "漢", "😀", "#",
    ];
    drawn_text(dice, &PIECES, most / 5)
}

fn ascii(dice: &mut SeededRandom, most: usize) -> String {
    const PIECES: [&str; 8] = ["a", "Z", "0", " ", "\\'", "\\\\", "~", "repeat "];
    drawn_text(dice, &PIECES, most / 7)
}

fn drawn_text(dice: &mut SeededRandom, pieces: &[&str], most: usize) -> String {
    let count = if dice.once_in(4) { dice.below(3) } else { dice.below(most + 1) };
    let inner: String = (0..count).map(|_| *dice.pick(pieces)).collect();
    format!("'{inner}'")
}

fn bytes(dice: &mut SeededRandom, most: usize) -> String {
    let count = if dice.once_in(4) { 0 } else { dice.below(most + 1) };
    let hex: String = (0..count).map(|_| format!("{:02X}", dice.below(256))).collect();
    format!("x'{hex}'")
}

fn json_literal(dice: &mut SeededRandom) -> String {
    match dice.below(6) {
        0 => format!("CAST({} AS JSON)", decimal(dice, 10, 5)),
        1 => format!("CAST(CAST('{}' AS DATE) AS JSON)", date(dice)),
        2 => format!("JSON_OBJECT('b', {})", bytes(dice, 50)),
        _ => format!("'{}'", json(dice, 3)),
    }
}

/// A JSON text as it stands within a SQL literal.
fn json(dice: &mut SeededRandom, depth: usize) -> String {
    let inner = |dice: &mut SeededRandom, member: fn(&mut SeededRandom, usize) -> String| {
        (0..dice.below(4)).map(|_| member(dice, depth - 1)).collect::<Vec<_>>().join(", ")
    };
    match dice.below(if depth == 0 { 6 } else { 8 }) {
        0 => (*dice.pick(&["null", "true", "false", "\"\"", "{}", "[]"])).to_owned(),
        1 => signed(dice, 16),
        2 => signed(dice, 64),
        3 => format!("{}.{}", dice.below(1000), dice.below(1000)),
        4 | 5 => {
            (*dice.pick(&["\"text\"", "\"é漢\"", "\"quote \\\\\" and \\\\\\\\ and \\\\n\"", "\"it''s\""]))
                .to_owned()
        }
        6 => format!("[{}]", inner(dice, json)),
        _ => format!(
            "{{{}}}",
            inner(dice, |dice, depth| format!("\"k{}\": {}", dice.below(9), json(dice, depth)))
        ),
    }
}
