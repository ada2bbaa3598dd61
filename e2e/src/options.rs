//! Options that `mysqlbinlog --help` lists, and random arguments for them.

use anyhow::{Context, Result, ensure};
use regex::Regex;
use testkit::{PackageHome, SeededRandom, TestPackage};

use crate::logs::LogSet;

/// An option in the help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Long name, without dashes.
    pub long: String,
    /// Letter of the short form.
    pub short: Option<char>,
    /// Kind of value.
    pub value: ValueRequirement,
    /// Set if the option is valid only as the first argument.
    pub first: bool,
}

/// Kind of value that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueRequirement {
    /// None: the option is a switch.
    None,
    /// Optional: after an equals sign.
    Optional,
    /// Required.
    Required,
}

/// Options that are not drawn, and the reasons.
pub const NOT_DRAWN: [(&str, &str); 3] = [
    ("read-from-remote-server", "reads from a server"),
    ("read-from-remote-master", "reads from a server"),
    ("read-from-remote-source", "reads from a server"),
];

/// Reads the options from the help of the real program.
///
/// # Errors
/// Fails if the program cannot be run, or its help has an unknown form.
pub fn all() -> Result<Vec<Choice>> {
    let output = PackageHome::find(TestPackage::Mysql)?.mysqlbinlog(&["--no-defaults", "--help"], b"")?;
    let choices = parse(&String::from_utf8_lossy(&output.stdout))?;
    ensure!(choices.len() > 60, "only {} options found in the help", choices.len());
    Ok(choices)
}

/// Parses the options in the text of the help.
fn parse(help: &str) -> Result<Vec<Choice>> {
    let listed = Regex::new(r"^  (?:-(.), )?--([a-z0-9-]+)(\[?)(=?)")?;
    let first = Regex::new(r"^--([a-z0-9-]+)(=?)")?;
    let (options, rest) =
        help.split_once("Default options are read").context("the help has an unknown form")?;
    let (firsts, _) = rest.split_once("Variables (").context("the help has an unknown form")?;
    let mut choices = Vec::new();
    for found in options.lines().filter_map(|line| listed.captures(line)) {
        let value = match (&found[3], &found[4]) {
            ("[", _) => ValueRequirement::Optional,
            (_, "=") => ValueRequirement::Required,
            _ => ValueRequirement::None,
        };
        let short = found.get(1).and_then(|letter| letter.as_str().chars().next());
        choices.push(Choice { long: found[2].to_owned(), short, value, first: false });
    }
    for found in firsts.lines().filter_map(|line| first.captures(line)) {
        let value = if &found[2] == "=" { ValueRequirement::Required } else { ValueRequirement::None };
        choices.push(Choice { long: found[1].to_owned(), short: None, value, first: true });
    }
    Ok(choices)
}

impl Choice {
    /// Returns the option as one or two arguments, with a value that fits the logs, in a random spelling.
    pub fn draw(&self, random: &mut SeededRandom, set: &LogSet) -> Vec<String> {
        let dashes = self.long.as_str();
        match self.value {
            ValueRequirement::None => vec![self.draw_switch(random)],
            ValueRequirement::Optional => match self.short {
                Some(short) if random.once_in(2) => {
                    vec![format!("-{short}{}", value_of(&self.long, random, set))]
                }
                _ => vec![format!("--{dashes}={}", value_of(&self.long, random, set))],
            },
            ValueRequirement::Required => {
                let value = value_of(&self.long, random, set);
                match (self.short, random.below(6)) {
                    (Some(short), 0) => vec![format!("-{short}{value}")],
                    (Some(short), 1) => vec![format!("-{short}"), value],
                    (_, 2) if !self.first => vec![format!("--{dashes}"), value],
                    (_, 3) if !self.first => vec![format!("--{}={value}", dashes.replace('-', "_"))],
                    _ => vec![format!("--{dashes}={value}")],
                }
            }
        }
    }

    fn draw_switch(&self, random: &mut SeededRandom) -> String {
        let long = &self.long;
        if self.long == "verbose" {
            return (*random.pick(&["-v", "-vv", "-vvv", "--verbose"])).to_owned();
        }
        if self.first {
            return format!("--{long}");
        }
        match (self.short, random.below(8)) {
            (Some(short), 0..4) => format!("-{short}"),
            (_, 4) => format!("--skip-{long}"),
            (_, 5) => format!("--{long}={}", random.pick(&["0", "1", "ON", "off", "true", "maybe"])),
            (_, 6) => format!("--{}", long.replace('-', "_")),
            _ => format!("--{long}"),
        }
    }
}

/// Draws a value for the option: usually one that fits the logs, sometimes an unsuitable one.
fn value_of(long: &str, random: &mut SeededRandom, set: &LogSet) -> String {
    let listed: &[&str] = match long {
        "base64-output" => &["never", "decode-rows", "auto", "always", "dec", "NEVER", "", "unspec"],
        "bind-address" => &["127.0.0.1", "::1"],
        "character-sets-dir" | "plugin-dir" | "ssl-capath" | "ssl-crlpath" => &[".", "no/such/folder"],
        "compression-algorithms" => &["zstd", "zlib,uncompressed", "bogus"],
        "database" => return database(random, set),
        "debug" => &["", "d:t"],
        "default-auth" => &["caching_sha2_password", "bogus"],
        "host" => &["localhost", "127.0.0.1"],
        "local-load" => &[".", "./", "no/such/folder"],
        // Without a value, the program prompts for it on the terminal, and the test would hang.
        "password" => &["secret"],
        "port" | "connection-server-id" | "stop-never-slave-server-id" => {
            &["0", "3307", "65536", "-1", "12x"]
        }
        "protocol" => &["tcp", "socket", "memory", "bogus"],
        "result-file" => &["result.sql", "no/such/folder/result.sql"],
        "rewrite-db" => return rewrite(random, set),
        "server-id" => &["1", "2", "4294967295", "0", "42", "77", "99999999999"],
        "server-id-bits" => &["32", "7", "0", "31", "33", "1"],
        "set-charset" => &["utf8mb4", "latin1", "binary", "no_such", "gbk", ""],
        "socket" => &["no.sock"],
        "ssl-mode" => &["DISABLED", "REQUIRED", "PREFERRED", "bogus"],
        "ssl-fips-mode" => &["OFF", "ON", "bogus"],
        "tls-version" => &["TLSv1.2", "TLSv1.3", "bogus"],
        "user" => &["root", ""],
        "open-files-limit" => &["64", "1000", "0", "1K"],
        "binlog-row-event-max-size" => &["256", "1024", "8192", "1000", "4294967040", "0"],
        "zstd-compression-level" => &["3", "22", "0", "23"],
        "offset" => &["0", "1", "2", "5", "17", "100", "100000", "-1"],
        "start-datetime" | "stop-datetime" => return datetime(random, set),
        "start-position" | "stop-position" => return position(random, set),
        "include-gtids" | "exclude-gtids" => return gtids(random),
        "defaults-file" | "defaults-extra-file" => &["options.cnf", "no-such.cnf"],
        "defaults-group-suffix" => &["_two", "-none"],
        "login-path" => &["bogus"],
        _ => &["x", "", "1"],
    };
    (*random.pick(listed)).to_owned()
}

fn database(random: &mut SeededRandom, set: &LogSet) -> String {
    if set.databases.is_empty() || random.once_in(5) {
        return (*random.pick(&["no_such", "mysql", ""])).to_owned();
    }
    random.pick(&set.databases).clone()
}

fn rewrite(random: &mut SeededRandom, set: &LogSet) -> String {
    let from = database(random, set);
    match random.below(8) {
        0 => from,
        1 => format!("{from}->"),
        2 => format!(" {from} -> other"),
        _ => format!("{from}->a_name_that_is_longer"),
    }
}

fn position(random: &mut SeededRandom, set: &LogSet) -> String {
    if set.positions.is_empty() || random.once_in(8) {
        let odd = ["0", "1", "4", "120", "4294967296", "18446744073709551615", "1K", "-5", "abc"];
        return (*random.pick(&odd)).to_owned();
    }
    let at = *random.pick(&set.positions);
    let shifted = if random.once_in(6) { at + random.below(30) as u64 } else { at };
    shifted.to_string()
}

/// Draws a time near the events of the log, in one of the spellings of DATETIME.
fn datetime(random: &mut SeededRandom, set: &LogSet) -> String {
    if set.times.is_empty() || random.once_in(8) {
        let odd =
            ["", "bogus", "0000-00-00 00:00:00", "2023-02-30 00:00:00", "1969-12-31", "9999-12-31 23:59:59"];
        return (*random.pick(&odd)).to_owned();
    }
    let time = i64::from(*random.pick(&set.times)) + random.below(3) as i64 - 1;
    let (year, month, day) = testkit::civil_date(time.div_euclid(86_400));
    let second = time.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    match random.below(7) {
        0 => format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}"),
        1 => format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"),
        2 => format!("{year:04}-{month}-{day} {hour}:{minute}:{second}"),
        3 => format!("{year:04}-{month:02}-{day:02}"),
        4 => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.600"),
        5 => format!("{:02}-{month:02}-{day:02} {hour:02}:{minute:02}", year % 100),
        _ => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"),
    }
}

fn gtids(random: &mut SeededRandom) -> String {
    const SOURCE: &str = "5ea5ca5e-0001-4000-8000-000000000001";
    let from = 1 + random.below(12);
    let to = from + random.below(9);
    match random.below(12) {
        0 => String::new(),
        1 => "bogus".to_owned(),
        2 => format!("{SOURCE}:{from}-"),
        3 => format!("{SOURCE}:tag:1-9"),
        4 => format!("{SOURCE}:{from}:tag:1:by_hand:77"),
        5 => "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb:1-9223372036854775806".to_owned(),
        6 => format!("{}:{from}-{to} ,\n{SOURCE}:30-40", SOURCE.to_uppercase()),
        7 => format!("{SOURCE}:{to}-{from}"),
        8 => format!("{SOURCE}:{from}"),
        _ => format!("{SOURCE}:{from}-{to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, ValueRequirement, parse};

    #[test]
    fn options_are_read_from_the_help() {
        let help = "Usage: x\n  -?, --help          Display.\n  --base64-output=name \n                      Text --not-one=1\n\
                    \x20 -#, --debug[=#]     Catch.\nDefault options are read from\n--no-defaults           Do.\n\
                    --defaults-file=#       Only.\nVariables (--variable-name=value)\nraw  FALSE\n";
        let choice = |long: &str, short, value, first| Choice { long: long.to_owned(), short, value, first };
        let expected = vec![
            choice("help", Some('?'), ValueRequirement::None, false),
            choice("base64-output", None, ValueRequirement::Required, false),
            choice("debug", Some('#'), ValueRequirement::Optional, false),
            choice("no-defaults", None, ValueRequirement::None, true),
            choice("defaults-file", None, ValueRequirement::Required, true),
        ];
        assert_eq!(parse(help).unwrap(), expected);
    }
}
