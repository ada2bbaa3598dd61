//! Rows decoded from a log equal the server's rows.

use anyhow::{Context, Result, ensure};
use binlog::Flavour;
use e2e::rows::{self, Change, same, select};
use testkit::{Launch, SeededRandom, TestServer};

/// A column type and values to test, as SQL literals.
type Case = (&'static str, &'static [&'static str]);

const NUMBERS: &[Case] = &[
    ("TINYINT", &["-128", "-1", "0", "127"]),
    ("TINYINT UNSIGNED", &["0", "128", "255"]),
    ("BOOL", &["false", "true"]),
    ("SMALLINT", &["-32768", "-1", "0", "32767"]),
    ("SMALLINT UNSIGNED", &["0", "32768", "65535"]),
    ("MEDIUMINT", &["-8388608", "-1", "0", "8388607"]),
    ("MEDIUMINT UNSIGNED", &["0", "8388608", "16777215"]),
    ("INT", &["-2147483648", "-1", "0", "2147483647"]),
    ("INT UNSIGNED", &["0", "2147483648", "4294967295"]),
    ("BIGINT", &["-9223372036854775808", "-1", "0", "9223372036854775807"]),
    ("BIGINT UNSIGNED", &["0", "9223372036854775808", "18446744073709551615"]),
    (
        "FLOAT",
        &["0", "-0e0", "1.5", "-3.402823466e38", "3.402823466e38", "1.175494351e-38", "1.4e-45", "0.1"],
    ),
    ("FLOAT(7,3)", &["1.5", "-1234.567"]),
    ("DOUBLE", &["0", "-1.5", "1.7976931348623157e308", "2.2250738585072014e-308", "0.1", "1e-320"]),
    ("DOUBLE UNSIGNED", &["0.3"]),
    (
        "DECIMAL(65,30)",
        &[
            "0",
            "-0.1",
            "99999999999999999999999999999999999.999999999999999999999999999999",
            "-99999999999999999999999999999999999.999999999999999999999999999999",
            "-0.000000000000000000000000000001",
            "12345678901234567890.000000001000000001",
        ],
    ),
    ("DECIMAL(65,0)", &["99999999999999999999999999999999999999999999999999999999999999999", "-1", "0"]),
    ("DECIMAL(30,30)", &["0.123456789012345678901234567890", "-0.000000001", "0"]),
    ("DECIMAL(10,4)", &["-12345.678", "999999.9999", "0.0001", "1000000 - 0.5"]),
    ("DECIMAL(18,9)", &["123456789.987654321", "-1.000000001", "100000000"]),
    ("DECIMAL(1,1)", &["0.9", "-0.9", "0"]),
    ("DECIMAL(19,2) UNSIGNED", &["12345678901234567.89", "0.01"]),
    ("BIT(1)", &["b'0'", "b'1'"]),
    ("BIT(9)", &["b'100000001'", "b'11'"]),
    ("BIT(64)", &["b'1'", "18446744073709551615", "1 << 63"]),
    ("YEAR", &["1901", "2155", "0", "1970", "69", "70"]),
];

const TIMES: &[Case] = &[
    (
        "DATE",
        &["'0000-00-00'", "'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'2024-00-00'", "'0001-01-00'"],
    ),
    ("TIME", &["'00:00:00'", "'-00:00:01'", "'838:59:59'", "'-838:59:59'", "'-01:00:00'", "'23:59:59'"]),
    ("TIME(1)", &["'-00:00:00.1'", "'838:59:58.9'", "'-838:59:58.9'", "'-00:00:01.0'", "'-00:00:00.9'"]),
    ("TIME(2)", &["'-00:00:00.01'", "'00:00:00.99'", "'-12:34:56.78'"]),
    ("TIME(3)", &["'-00:00:00.001'", "'00:00:00.999'", "'-00:00:01.999'"]),
    ("TIME(4)", &["'-00:00:00.0001'", "'00:00:00.9999'", "'-100:00:00.0000'"]),
    ("TIME(5)", &["'-00:00:00.00001'", "'00:00:00.99999'"]),
    ("TIME(6)", &["'-00:00:00.000001'", "'00:00:00.999999'", "'-838:59:58.999999'", "'838:59:59'"]),
    (
        "DATETIME",
        &["'0000-00-00 00:00:00'", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'2024-00-00'"],
    ),
    ("DATETIME(1)", &["'2024-02-29 12:34:56.7'", "'0000-00-00 00:00:00.9'"]),
    ("DATETIME(2)", &["'2024-02-29 12:34:56.78'"]),
    ("DATETIME(3)", &["'2024-02-29 12:34:56.789'"]),
    ("DATETIME(4)", &["'2024-02-29 12:34:56.7890'"]),
    ("DATETIME(5)", &["'2024-02-29 12:34:56.78901'"]),
    ("DATETIME(6)", &["'2024-02-29 12:34:56.789012'", "'9999-12-31 23:59:59.999999'", "'0000-00-00'"]),
    (
        "TIMESTAMP",
        &["'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'2024-02-29'"],
    ),
    ("TIMESTAMP(1)", &["'2000-02-29 23:59:59.9'"]),
    ("TIMESTAMP(2)", &["'1999-12-31 23:59:59.99'"]),
    ("TIMESTAMP(3)", &["'2004-12-31 23:59:59.999'"]),
    ("TIMESTAMP(4)", &["'2005-03-01 00:00:00.0001'"]),
    ("TIMESTAMP(5)", &["'1970-01-01 00:00:01.00001'"]),
    ("TIMESTAMP(6)", &["'2038-01-19 03:14:07.499999'", "'0000-00-00 00:00:00'"]),
];

const TEXTS: &[Case] = &[
    ("CHAR(0)", &["''"]),
    ("CHAR(10)", &["''", "'abc  '", "'añ€😀'", "REPEAT('😀', 10)"]),
    ("CHAR(255)", &["REPEAT('€', 255)", "''"]),
    ("CHAR(10) CHARACTER SET latin1", &["'é€'", "''"]),
    ("CHAR(200) CHARACTER SET utf16", &["'a😀'", "''"]),
    ("VARCHAR(63)", &["''", "'a '", "REPEAT('😀', 63)"]),
    ("VARCHAR(64)", &["''", "'a '", "REPEAT('😀', 64)"]),
    ("VARCHAR(255) CHARACTER SET ascii", &["REPEAT('a', 255)"]),
    ("VARCHAR(256) CHARACTER SET ascii", &["REPEAT('a', 256)", "''"]),
    ("VARCHAR(20) CHARACTER SET ucs2", &["'aß€'"]),
    ("VARCHAR(20) CHARACTER SET utf32", &["'a😀'"]),
    ("VARCHAR(20) CHARACTER SET sjis", &["'日本語'"]),
    ("VARCHAR(20) CHARACTER SET gbk", &["'中文'"]),
    ("VARCHAR(20) CHARACTER SET cp1251 COLLATE cp1251_bin", &["'Ключ'"]),
    ("TINYTEXT", &["''", "REPEAT('a', 255)"]),
    ("TEXT", &["''", "REPEAT('ab', 30000)"]),
    ("MEDIUMTEXT", &["''", "REPEAT('ab', 40000)"]),
    ("LONGTEXT", &["''", "REPEAT('abc', 100000)"]),
    ("TEXT CHARACTER SET latin2", &["'čšž'"]),
    ("BINARY(0)", &["''"]),
    ("BINARY(4)", &["''", "'a'", "x'00000000'", "x'61000000'", "x'00ff0020'"]),
    ("BINARY(255)", &["''", "REPEAT('a', 255)"]),
    ("VARBINARY(8)", &["''", "x'0000'", "'a  '", "x'ff00ff00ff00ff00'"]),
    ("VARBINARY(300)", &["REPEAT(x'ff', 300)"]),
    ("TINYBLOB", &["''", "REPEAT(x'00', 255)"]),
    ("BLOB", &["''", "REPEAT(x'0102', 30000)"]),
    ("MEDIUMBLOB", &["REPEAT(x'0102', 40000)"]),
    ("LONGBLOB", &["REPEAT(x'0102', 40000)", "''"]),
    ("ENUM('a', 'b', 'ü', '')", &["'a'", "'ü'", "''", "'no such'"]),
    ("ENUM('é', 'x') CHARACTER SET latin1", &["'é'", "2"]),
    ("SET('a', 'b', 'ü')", &["''", "'a,ü'", "7"]),
    ("SET('1','2','3','4','5','6','7','8','9')", &["'9'", "'1,9'", "511"]),
];

const MYSQL_ONLY: &[Case] = &[
    ("TEXT CHARACTER SET gb18030", &["'中文😀'"]),
    (
        "JSON",
        &[
            "'null'",
            "'true'",
            "'false'",
            "'0'",
            "'-32768'",
            "'32768'",
            "'65536'",
            "'-2147483649'",
            "'18446744073709551615'",
            "'9223372036854775808'",
            "'-9223372036854775808'",
            "'1.5'",
            "'-0.0'",
            "'1e300'",
            "'1e15'",
            "'1e16'",
            "'123456789012345680000'",
            "'1e-14'",
            "'1e-15'",
            "'0.1'",
            "'100.0'",
            "'5e-324'",
            "'1.7976931348623157e308'",
            "'1234567890123456.7'",
            "'\"\"'",
            "'\"a\\\\u0001\\\\n\\\\\"\\\\\\\\/€😀\"'",
            "'[]'",
            "'{}'",
            "'[1, [2, [3, {}]], null]'",
            "'{\"b\": 1, \"a\": [true], \"\": null, \"long name\": {\"x\": \"y\"}}'",
            "JSON_ARRAY(CAST('2024-02-29' AS DATE), CAST('-12:34:56.789' AS TIME(3)), CAST('10:11:12' AS TIME), CAST('100:00:05' AS TIME), TIMESTAMP'2024-02-29 12:34:56.000001')",
            "CAST(CAST('2024-02-29' AS DATE) AS JSON)",
            "CAST(CAST('838:59:59' AS TIME) AS JSON)",
            "JSON_ARRAY(1.50, -99999999999999999999.000000001, CAST(1 AS DECIMAL(65,30)))",
            "JSON_OBJECT('blob', x'00ff', 'bit', b'101', 'year', CAST(2024 AS YEAR), 'point', ST_GEOMFROMTEXT('POINT(1 2)'))",
            "CAST(REPEAT(x'ff', 200) AS JSON)",
            "JSON_ARRAY(REPEAT('a', 127), REPEAT('b', 128), REPEAT('c', 16384))",
            "JSON_ARRAY(REPEAT('a', 70000), 1, -70000, 70000, 1.5, true)",
            "JSON_OBJECT('a', REPEAT('a', 70000), 'b', JSON_OBJECT('c', JSON_ARRAY(1, 70000)))",
            "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT JSON_OBJECTAGG(i, i * 1000) FROM n)",
            "CONCAT(REPEAT('[', 100), REPEAT(']', 100))",
            "CONCAT(REPEAT('{\"a\":', 99), '1', REPEAT('}', 99))",
        ],
    ),
    ("GEOMETRY", &["ST_GEOMFROMTEXT('POINT(1 2)')", "ST_GEOMFROMTEXT('LINESTRING(0 0, 1 1)', 4326)"]),
    ("POINT SRID 0", &["POINT(1, -2)"]),
    ("MULTIPOLYGON", &["ST_GEOMFROMTEXT('MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)))')"]),
    ("VECTOR(3)", &["TO_VECTOR('[1, -2.5, 3e38]')", "TO_VECTOR('[0.1]')"]),
];

#[rustfmt::skip]
const MARIADB_ONLY: &[Case] = &[
    ("VARCHAR(1000) COMPRESSED CHARACTER SET utf8mb4", &["''", "'short'", "REPEAT('añ€😀', 200)"]),
    ("VARBINARY(1000) COMPRESSED", &["''", "x'00'", "REPEAT(x'00ff', 500)"]),
    ("TINYTEXT COMPRESSED CHARACTER SET latin1", &["REPEAT('é', 254)"]),
    ("BLOB COMPRESSED", &["''", "'short'", "REPEAT('x', 60000)"]),
    ("LONGTEXT COMPRESSED CHARACTER SET ucs2", &["REPEAT('ab€', 30000)"]),
    ("GEOMETRY", &["ST_GEOMFROMTEXT('LINESTRING(0 0, 1 1)')"]),
    ("POINT", &["POINT(1, -2)"]),
];

fn launch(flavour: Flavour, options: &[&str]) -> Result<TestServer> {
    let launch = match flavour {
        Flavour::MySql => Launch::mysql(),
        Flavour::MariaDb => Launch::mariadb().option("--binlog-format=ROW"),
    };
    let server = launch.option("--binlog-row-metadata=FULL").options(options.iter().copied()).start()?;
    server.sql("CREATE DATABASE d")?;
    Ok(server)
}

/// Returns the row changes of the newest log.
fn changes(server: &TestServer, flavour: Flavour) -> Result<Vec<Change>> {
    rows::read(server.binlogs()?.last().context("no log")?, flavour)
}

/// Inserts, updates and deletes each value; every image must equal the result of SELECT.
fn check(server: &TestServer, cases: &[Case], flavour: Flavour) -> Result<()> {
    let mut faults = String::new();
    for case in cases {
        if let Err(fault) = check_type(server, case, flavour) {
            faults += &format!("{}: {fault:#}\n", case.0);
        }
    }
    ensure!(faults.is_empty(), "{faults}");
    Ok(())
}

fn check_type(server: &TestServer, (sql_type, values): &Case, flavour: Flavour) -> Result<()> {
    let mut script = format!(
        "FLUSH BINARY LOGS; SET sql_mode = ''; DROP TABLE IF EXISTS d.t;
         CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v {sql_type} NULL);\n"
    );
    for value in values.iter().chain(&["NULL"]) {
        script += &format!("INSERT INTO d.t (v) VALUES ({value});\n");
    }
    script += &format!("SELECT {} FROM d.t ORDER BY id;\n", select("v", sql_type));
    script += "UPDATE d.t SET id = id + 1000; DELETE FROM d.t;\n";
    let output = server.sql(&script)?;
    let expected: Vec<&str> = output.lines().collect();
    let changes = changes(server, flavour)?;
    let count = values.len() + 1;
    ensure!(expected.len() == count, "{output}");
    ensure!(changes.len() == 3 * count, "{} rows", changes.len());
    for (index, change) in changes.iter().enumerate() {
        let expected = Some(expected[index % count]).filter(|expected| *expected != "NULL");
        for image in [&change.before, &change.after].into_iter().flatten() {
            let found = image.iter().find(|cell| cell.column == "v").context("no such column")?;
            let found = found.text.as_deref();
            let literal = values.get(index % count).unwrap_or(&"NULL");
            ensure!(
                same(expected, found, sql_type),
                "{literal} is {found:?}, but {expected:?} on the server"
            );
        }
    }
    Ok(())
}

#[test]
fn every_type_and_edge_value_of_mysql() -> Result<()> {
    let server = launch(Flavour::MySql, &[])?;
    check(&server, NUMBERS, Flavour::MySql)?;
    check(&server, TIMES, Flavour::MySql)?;
    check(&server, TEXTS, Flavour::MySql)?;
    check(&server, MYSQL_ONLY, Flavour::MySql)
}

#[test]
fn every_type_and_edge_value_of_mariadb() -> Result<()> {
    let server = launch(Flavour::MariaDb, &[])?;
    check(&server, NUMBERS, Flavour::MariaDb)?;
    check(&server, TIMES, Flavour::MariaDb)?;
    check(&server, TEXTS, Flavour::MariaDb)?;
    check(&server, MARIADB_ONLY, Flavour::MariaDb)?;
    server.sql("SET GLOBAL column_compression_zlib_wrap = ON")?;
    check(&server, MARIADB_ONLY, Flavour::MariaDb)
}

/// The metadata counts only columns with signedness, columns with collations, or JSON columns.
#[test]
fn attributes_belong_to_their_columns() -> Result<()> {
    let server = launch(Flavour::MySql, &["--binlog-row-metadata=MINIMAL"])?;
    server.sql(
        "CREATE TABLE d.t (a VARCHAR(9) CHARACTER SET latin1, b INT UNSIGNED, j JSON, c DATE, d ENUM('x'), \
         e BIGINT, f TEXT CHARACTER SET utf8mb4, g YEAR, k JSON, h TINYINT UNSIGNED, i BINARY(3), l DECIMAL(5,2), \
         m SET('s'), n FLOAT UNSIGNED, o CHAR(3) CHARACTER SET ucs2); \
         INSERT INTO d.t VALUES ('é', 4000000000, '1', NULL, 'x', -1, 'é', 2024, '2', 200, 'i', -1.5, 's', 1.5, 'é')",
    )?;
    let changes = changes(&server, Flavour::MySql)?;
    let after = changes[0].after.as_ref().context("no after image")?;
    let texts: Vec<&str> = after.iter().map(|cell| cell.text.as_deref().unwrap_or("NULL")).collect();
    // This log lacks the texts of ENUM and SET.
    let known: Vec<&str> = texts.iter().copied().filter(|text| *text != "1 ?").collect();
    assert_eq!(
        known,
        [
            "E9 é",
            "4000000000",
            "1",
            "NULL",
            "-1",
            "C3A9 é",
            "2024",
            "2",
            "200",
            "690000",
            "-1.50",
            "1.5e0",
            "00E9 é",
        ]
    );
    Ok(())
}

/// Decoded images have exactly the columns in the log.
#[test]
fn images_have_the_columns_that_the_server_chose() -> Result<()> {
    let server = launch(Flavour::MySql, &["--binlog-row-image=MINIMAL"])?;
    let tables = "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b TEXT, c INT DEFAULT 7, u INT UNSIGNED);
        CREATE TABLE d.defaults (a INT DEFAULT 1, b INT);
        CREATE TABLE d.hidden (id INT PRIMARY KEY, j JSON, a INT, INDEX ((a + 1)), INDEX ((CAST(j->'$[*]' AS SIGNED ARRAY))),
            v INT AS (a * 2) VIRTUAL, s INT AS (a * 3) STORED, i INT INVISIBLE);";
    server.sql(tables)?;
    let check = |sql: &str, expected: &str| -> Result<()> {
        server.sql(&format!("FLUSH BINARY LOGS; {sql}"))?;
        let changes = changes(&server, Flavour::MySql)?;
        let rows: Vec<String> = changes.iter().map(show).collect();
        assert_eq!(rows.join("; "), expected, "{sql}");
        Ok(())
    };
    check("INSERT INTO d.t (id, a) VALUES (1, 2)", "+ id=1 a=2")?;
    check("UPDATE d.t SET b = 'x', u = 3000000000", "- id=1 + b=78 x u=3000000000")?;
    check("UPDATE d.t SET b = NULL", "- id=1 + b=NULL")?;
    check("DELETE FROM d.t", "- id=1")?;
    check("INSERT INTO d.defaults VALUES ()", "+")?;
    check("UPDATE d.defaults SET b = 2", "- a=1 b=NULL + b=2")?;
    check(
        "INSERT INTO d.hidden (id, j, a, i) VALUES (1, '[1, 2]', 5, 6)",
        "+ id=1 j=[1, 2] a=5 v=10 s=15 i=6",
    )?;
    check("UPDATE d.hidden SET a = 6", "- id=1 + a=6 v=12 s=18")?;
    check("SET binlog_row_image = FULL; DELETE FROM d.hidden", "- id=1 j=[1, 2] a=6 v=12 s=18 i=6")?;
    check("SET binlog_row_image = NOBLOB; INSERT INTO d.t (id, a) VALUES (1, 2)", "+ id=1 a=2 c=7 u=NULL")
}

fn show(change: &Change) -> String {
    let mut text = String::new();
    for (sign, image) in [("-", &change.before), ("+", &change.after)] {
        let Some(image) = image else { continue };
        text += &format!(" {sign}");
        for cell in image {
            text += &format!(" {}={}", cell.column, cell.text.as_deref().unwrap_or("NULL"));
        }
    }
    text.trim_start().to_owned()
}

/// Random partial updates of documents: the rebuilt document must equal the server's.
#[test]
fn partial_updates_rebuild_the_document() -> Result<()> {
    let server = launch(Flavour::MySql, &["--binlog-row-value-options=PARTIAL_JSON"])?;
    let seed = testkit::seed_from_env("BINTIDE_E2E_SEED");
    println!("BINTIDE_E2E_SEED={seed}");
    let mut random = SeededRandom::new(seed);
    let mut script = "CREATE TABLE d.t (id INT PRIMARY KEY, x JSON, n INT, j JSON);\n".to_owned();
    const ROWS: usize = 8;
    const UPDATES: usize = 1500;
    for id in 0..ROWS {
        let padding = ["", "a long text to make changes worth it ", "0123456789"][id % 3]
            .repeat(if id == 7 { 8000 } else { 20 });
        script += &format!(
            "INSERT INTO d.t VALUES ({id}, '[]', 0, '{{\"pad\": \"{padding}\", \"a\": [1, {{\"b\": [2, 3]}}], \"c d\": {{\"e\": 1.5}}, \"f\": 70000}}');\n"
        );
    }
    for _ in 0..UPDATES {
        let id = random.below(ROWS);
        let change = json_change(&mut random, "j", 3);
        script += &format!(
            "UPDATE IGNORE d.t SET n = n + 1, j = {change} WHERE id = {id}; SELECT CAST(j AS CHAR) FROM d.t WHERE id = {id};\n"
        );
    }
    let output = server.sql(&script)?;
    let expected: Vec<&str> = output.lines().collect();
    let changes = changes(&server, Flavour::MySql)?;
    let updates: Vec<&Change> = changes.iter().filter(|change| change.before.is_some()).collect();
    assert_eq!(updates.len(), UPDATES);
    assert_eq!(expected.len(), UPDATES);
    let mut rebuilt = 0;
    for (change, expected) in updates.iter().zip(expected) {
        let after = change.after.as_ref().context("no after image")?;
        let found = after.iter().find(|cell| cell.column == "j").context("no column j")?;
        assert_eq!(found.text.as_deref(), Some(expected));
        rebuilt += usize::from(found.rebuilt);
    }
    assert!(rebuilt > UPDATES / 4, "only {rebuilt} documents were rebuilt");
    Ok(())
}

/// Returns an expression that changes the document of another expression.
fn json_change(random: &mut SeededRandom, document: &str, depth: usize) -> String {
    let document = match depth > 0 && random.once_in(3) {
        true => json_change(random, document, depth - 1),
        false => document.to_owned(),
    };
    let function = *random.pick(&["JSON_SET", "JSON_SET", "JSON_REPLACE", "JSON_REMOVE"]);
    let mut arguments = String::new();
    for _ in 0..=random.below(2) {
        arguments += &format!(", '{}'", json_path(random));
        if function != "JSON_REMOVE" {
            arguments += &format!(", {}", random.pick(JSON_VALUES));
        }
    }
    format!("{function}({document}{arguments})")
}

fn json_path(random: &mut SeededRandom) -> String {
    let mut path = "$".to_owned();
    for _ in 0..=random.below(3) {
        path += *random.pick(JSON_STEPS);
    }
    path
}

#[rustfmt::skip]
const JSON_STEPS: &[&str] = &[
    ".a", ".a", ".b", ".\"c d\"", ".f", ".new", ".\"é\\\\n\"", "[0]", "[1]", "[2]", "[last]", "[last-1]", ".e",
];

#[rustfmt::skip]
const JSON_VALUES: &[&str] = &[
    "1", "-1", "70000", "9000000000", "1.5e0", "1.5", "'text'", "'é😀'", "NULL", "true", "CAST('[]' AS JSON)",
    "CAST('{\"b\": [1, 2, 3]}' AS JSON)", "CAST('[{\"a\": 1}, [2]]' AS JSON)", "CAST('2024-02-29' AS DATE)",
    "REPEAT('z', 200)", "REPEAT('w', 70000)", "JSON_ARRAY(70000, 1, REPEAT('q', 66000))",
];
