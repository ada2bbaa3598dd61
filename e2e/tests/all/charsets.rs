//! Character sets and collations compared with the real servers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use binlog::{Charset, Collation, Flavour};
use testkit::{Launch, TestServer};

#[test]
fn collations_equal_mysqls() -> Result<()> {
    let server = Launch::mysql().start()?;
    let query = "SELECT id, collation_name, character_set_name, maxlen, pad_attribute, is_default
        FROM information_schema.collations JOIN information_schema.character_sets USING (character_set_name)
        ORDER BY id";
    let mut ours = String::new();
    for collation in Collation::all() {
        let charset = collation.charset();
        let pads = if collation.pads() { "PAD SPACE" } else { "NO PAD" };
        let default = if charset.default_collation() == collation.id() { "Yes" } else { "" };
        let (name, size) = (charset.name(), charset.character_size_max());
        writeln!(ours, "{}\t{}\t{name}\t{size}\t{pads}\t{default}", collation.id(), collation.name())?;
    }
    same_lines(&ours, &server.sql(query)?)
}

#[test]
fn collations_equal_mariadbs() -> Result<()> {
    let server = Launch::mariadb().start()?;
    let query = "SELECT id, full_collation_name, character_set_name
        FROM information_schema.collation_character_set_applicability WHERE id > 0 ORDER BY id";
    let theirs = server.sql(query)?;
    let mut ours = String::new();
    for line in theirs.lines() {
        let id = line.split('\t').next().context("a number")?.parse()?;
        let collation = Collation::new(id, Flavour::MariaDb);
        let name = collation.map(|collation| collation.name());
        let charset = collation.map(|collation| collation.charset().name());
        writeln!(ours, "{id}\t{}\t{}", name.as_deref().unwrap_or("?"), charset.unwrap_or("?"))?;
    }
    same_lines(&ours, &theirs)
}

fn same_lines(ours: &str, theirs: &str) -> Result<()> {
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        ensure!(ours == theirs, "ours:   {ours}\ntheirs: {theirs}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
    Ok(())
}

/// Returns the server's UTF-32 text for each code; `None` for codes that are no characters there.
fn characters(
    server: &TestServer,
    charset: Charset,
    codes: &str,
) -> Result<BTreeMap<Vec<u8>, Option<String>>> {
    let name = charset.name();
    let output = server.sql(&format!(
        "SET cte_max_recursion_depth = 100000;
         WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 65535), codes (code) AS ({codes})
         SELECT HEX(code), HEX(CONVERT(CAST(code AS CHAR CHARACTER SET {name}) USING utf32)) FROM codes"
    ))?;
    let mut characters = BTreeMap::new();
    for line in output.lines() {
        let (code, text) = line.split_once('\t').context("expected two columns")?;
        let code = unhex(code)?;
        let text = match text {
            "NULL" => None,
            text => Some(Charset::Utf32.decode(&unhex(text)?)?.into_owned()),
        };
        // The server shows a code without a character as a question mark, or as U+FFFD.
        let text = text.filter(|text| !text.contains(['?', '\u{fffd}']) || code.contains(&b'?'));
        characters.insert(code, text);
    }
    Ok(characters)
}

fn unhex(digits: &str) -> Result<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2).map(|start| u8::from_str_radix(&digits[start..start + 2], 16));
    Ok(pairs.collect::<Result<_, _>>()?)
}

const ONE_BYTE: &str = "SELECT UNHEX(LPAD(HEX(n), 2, '0')) FROM n WHERE n < 256";
const TWO_BYTES: &str = "SELECT UNHEX(HEX(n)) FROM n WHERE n >= 32768";

/// Tests all 256 bytes of every single-byte character set.
#[test]
fn single_byte_codes_equal_the_servers() -> Result<()> {
    let server = Launch::mysql().start()?;
    let mut sets = 0;
    for charset in Charset::all() {
        if charset.character_size_max() > 1 || charset == Charset::Binary {
            continue;
        }
        for (code, theirs) in characters(&server, charset, ONE_BYTE)? {
            let ours = charset.decode(&code).ok();
            ensure!(ours.as_deref() == theirs.as_deref(), "{charset:?} {code:02x?}: {ours:?}, {theirs:?}");
        }
        sets += 1;
    }
    assert_eq!(sets, 25);
    Ok(())
}

/// Tests all codes of two bytes, and of three bytes where they exist, that are characters on the server. Other
/// codes cannot be stored in a column, or differ from their definition on the web.
#[test]
fn multi_byte_codes_equal_the_servers() -> Result<()> {
    let server = Launch::mysql().start()?;
    let check = |charset: Charset, codes: &str| -> Result<usize> {
        let mut count = 0;
        for (code, theirs) in characters(&server, charset, codes)? {
            let Some(theirs) = theirs.filter(|text| !text.is_empty()) else { continue };
            let ours = charset.decode(&code).ok();
            ensure!(ours.as_deref() == Some(&*theirs), "{charset:?} {code:02x?}: {ours:?}, {theirs:?}");
            count += 1;
        }
        Ok(count)
    };
    for charset in [
        Charset::Big5,
        Charset::Cp932,
        Charset::Eucjpms,
        Charset::Euckr,
        Charset::Gb18030,
        Charset::Gb2312,
        Charset::Gbk,
        Charset::Sjis,
        Charset::Ujis,
    ] {
        check(charset, ONE_BYTE)?;
        let count = check(charset, TWO_BYTES)?;
        ensure!(count > 6000, "{charset:?} has {count} characters");
    }
    for charset in [Charset::Eucjpms, Charset::Ujis] {
        let count = check(charset, &TWO_BYTES.replace("HEX(n)", "CONCAT('8F', HEX(n))"))?;
        ensure!(count > 6000, "{charset:?} has {count} characters of three bytes");
    }
    // Every four-byte code of the Basic Multilingual Plane, and some beyond it.
    let four = "SELECT UNHEX(CONCAT(HEX(129 + n DIV 12600), HEX(48 + n DIV 1260 MOD 10), HEX(129 + n DIV 10 MOD 126),
        HEX(48 + n MOD 10))) FROM n";
    ensure!(check(Charset::Gb18030, four)? > 30_000, "few characters of four bytes");
    let four = four.replace("129 + n DIV 12600", "144 + n DIV 12600");
    ensure!(check(Charset::Gb18030, &four)? > 30_000, "few characters of four bytes");
    Ok(())
}
