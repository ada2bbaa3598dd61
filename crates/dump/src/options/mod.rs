//! Options, parsed as MySQL's programs parse them.
//!
//! | module | contents |
//! |---|---|
//! | [`table`] | the list of options |
//! | this one | the parser of the command line |
//! | [`number`] | numbers with units and limits |
//! | [`choice`] | words that may be abbreviated |
//! | [`datetime`] | dates and times |
//! | [`gtids`] | GTID sets |
//! | [`files`] | option files |
//! | [`help`] | `--help` |

pub(crate) mod choice;
pub(crate) mod datetime;
pub(crate) mod files;
pub(crate) mod gtids;
pub(crate) mod help;
pub(crate) mod number;
pub(crate) mod table;

use self::number::{NotANumber, Number, is_negative, parse_signed, parse_unsigned};
use self::table::{KEYS, Kind, Spec, Which};
use crate::talk::{Level, Talk};

/// Exit code that ends the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    pub(crate) const FAILURE: Self = Self(1);
    /// bintide's own: wrong usage, or a log that cannot be read.
    pub(crate) const NOT_BEGUN: Self = Self(2);
    const UNKNOWN_OPTION: Self = Self(2);
    const NO_ARGUMENT_ALLOWED: Self = Self(4);
    const ARGUMENT_REQUIRED: Self = Self(5);
    const UNKNOWN_VARIABLE: Self = Self(7);
    const UNKNOWN_SUFFIX: Self = Self(9);
    const DISABLED: Self = Self(12);
}

/// An argument of the command line, or a line of an option file in the form of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: Vec<u8>,
    pub(crate) origin: Origin,
}

/// Source of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    File,
    CommandLine,
}

/// Value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// An option without a stored value.
    Nothing,
    Switch(bool),
    Text(Option<Vec<u8>>),
    Signed(i64),
    Unsigned(u64),
}

/// Values of all options.
#[derive(Clone, Debug)]
pub(crate) struct Values([Value; KEYS]);

impl Values {
    /// Returns the defaults.
    pub(crate) fn new(specs: &[&Spec]) -> Self {
        let mut values = Self(std::array::from_fn(|_| Value::Nothing));
        for spec in specs {
            values.0[spec.key as usize] = match spec.kind {
                Kind::Mark | Kind::Word | Kind::Password | Kind::Disabled { .. } => Value::Nothing,
                Kind::Switch { default, .. } => Value::Switch(default),
                Kind::Text => Value::Text(None),
                Kind::Number(Number::Signed(limits)) => Value::Signed(limits.limit(limits.default).value),
                Kind::Number(Number::Unsigned(limits, block)) => {
                    Value::Unsigned(limits.limit(limits.default, block).value)
                }
            };
        }
        values
    }

    /// Returns the value of an option.
    pub(crate) fn get(&self, key: Which) -> &Value {
        &self.0[key as usize]
    }

    /// Returns the value of a switch.
    pub(crate) fn switch(&self, key: Which) -> bool {
        matches!(self.get(key), Value::Switch(true))
    }

    /// Returns the value of a text option, if given.
    pub(crate) fn text(&self, key: Which) -> Option<&[u8]> {
        match self.get(key) {
            Value::Text(text) => text.as_deref(),
            _ => None,
        }
    }

    /// Returns the value of an unsigned number.
    pub(crate) fn unsigned(&self, key: Which) -> u64 {
        match self.get(key) {
            Value::Unsigned(value) => *value,
            _ => 0,
        }
    }

    /// Returns the value of a signed number.
    pub(crate) fn signed(&self, key: Which) -> i64 {
        match self.get(key) {
            Value::Signed(value) => *value,
            _ => 0,
        }
    }

    pub(crate) fn set(&mut self, key: Which, value: Value) {
        self.0[key as usize] = value;
    }
}

/// Receives each option as it is parsed, after its value is stored.
pub(crate) trait Heed {
    /// Handles one option. `argument` is its text: `None` without an argument, `1` or `0` for a switch.
    fn heed(
        &mut self,
        spec: &Spec,
        argument: Option<&[u8]>,
        values: &mut Values,
        talk: &mut Talk<'_>,
    ) -> Result<(), Exit>;
}

/// Returns the options in `words` up to the first error. The parser proper reports that error.
pub(crate) fn given(specs: &[&'static Spec], words: &[Word]) -> Vec<Which> {
    struct Listed(Vec<Which>);
    impl Heed for Listed {
        fn heed(
            &mut self,
            spec: &Spec,
            _: Option<&[u8]>,
            _: &mut Values,
            _: &mut Talk<'_>,
        ) -> Result<(), Exit> {
            self.0.push(spec.key);
            Ok(())
        }
    }
    let mut listed = Listed(Vec::new());
    let (mut values, mut unheard) = (Values::new(specs), std::io::sink());
    let mut talk = Talk::new(&mut unheard, b"");
    let _ = Parser { specs, values: &mut values, heed: &mut listed, talk: &mut talk, password_warned: false }
        .parse(words);
    listed.0
}

/// The argument of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument<'a> {
    None,
    /// From `--enable-…`.
    Enabled,
    /// From `--skip-…` or `--disable-…`.
    Disabled,
    Text(&'a [u8]),
}

impl<'a> Argument<'a> {
    fn text(self) -> Option<&'a [u8]> {
        match self {
            Self::None => None,
            Self::Enabled => Some(b"1"),
            Self::Disabled => Some(b"0"),
            Self::Text(text) => Some(text),
        }
    }
}

/// Parser of a command line.
pub(crate) struct Parser<'p, 'e, H> {
    pub(crate) specs: &'p [&'static Spec],
    pub(crate) values: &'p mut Values,
    pub(crate) heed: &'p mut H,
    pub(crate) talk: &'p mut Talk<'e>,
    pub(crate) password_warned: bool,
}

impl<H: Heed> Parser<'_, '_, H> {
    /// Parses the options in `words`, in order, and returns the other arguments.
    pub(crate) fn parse(&mut self, words: &[Word]) -> Result<Vec<Vec<u8>>, Exit> {
        let mut rest = Vec::new();
        let mut index = 0;
        let mut options_ended = false;
        while let Some(word) = words.get(index) {
            index += 1;
            let text = word.text.as_slice();
            match text {
                _ if options_ended => rest.push(text.to_vec()),
                b"--" => options_ended = true,
                [b'-', b'-', long @ ..] => self.long(long, word.origin, words, &mut index)?,
                [b'-', letters @ ..] if !letters.is_empty() => self.cluster(letters, words, &mut index)?,
                _ => rest.push(text.to_vec()),
            }
        }
        Ok(rest)
    }

    fn long(&mut self, text: &[u8], origin: Origin, words: &[Word], index: &mut usize) -> Result<(), Exit> {
        let Some((spec, argument)) = self.find_long(text)? else { return Ok(()) };
        match spec.kind {
            Kind::Switch { lax: false, .. } => return self.switch(spec, argument),
            Kind::Switch { lax: true, .. } => {}
            Kind::Mark => {
                if argument != Argument::None {
                    self.complain(&[b"option '--", spec.name.as_bytes(), b"' cannot take an argument."]);
                    return Err(Exit::NO_ARGUMENT_ALLOWED);
                }
            }
            Kind::Text | Kind::Word | Kind::Number(_) => {
                if argument == Argument::None {
                    let next = words.get(*index).filter(|_| origin == Origin::CommandLine);
                    let Some(next) = next else {
                        self.complain(&[b"option '--", spec.name.as_bytes(), b"' requires an argument."]);
                        return Err(Exit::ARGUMENT_REQUIRED);
                    };
                    *index += 1;
                    return self.keep(spec, Argument::Text(&next.text), origin);
                }
            }
            Kind::Password | Kind::Disabled { .. } => {}
        }
        self.keep(spec, argument, origin)
    }

    /// Finds the option that a word names, possibly after prefixes. Returns `None` for an unknown option after `loose`.
    fn find_long<'w>(&mut self, text: &'w [u8]) -> Result<Option<(&'static Spec, Argument<'w>)>, Exit> {
        let (name, value) = match text.iter().position(|byte| *byte == b'=') {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let given = value.map_or(Argument::None, Argument::Text);
        let mut found = Prefixed { name, argument: given, loose: false };
        let mut must_be_variable = value.is_some();
        let mut spec = self.find(name);
        while spec.is_none() {
            let Some(prefix) = found.strip() else { break };
            spec = self.find(found.name);
            if spec.is_some() {
                found.apply(prefix, given);
                must_be_variable |= prefix == "maximum";
            }
        }
        let Some(spec) = spec else {
            let level = if found.loose { Level::Warning } else { Level::Error };
            let (what, exit) = match must_be_variable {
                true => (b"unknown variable '".as_slice(), Exit::UNKNOWN_VARIABLE),
                false => (b"unknown option '--".as_slice(), Exit::UNKNOWN_OPTION),
            };
            self.talk.local(level, &[what, text, b"'."]);
            return if found.loose { Ok(None) } else { Err(exit) };
        };
        if let Kind::Disabled { .. } = spec.kind {
            let level = if found.loose { Level::Warning } else { Level::Error };
            let program = self.talk.program().to_vec();
            let shown = &text[text.len() - found.name.len() - value.map_or(0, |value| value.len() + 1)..];
            self.talk.local(level, &[&program, b": Option '", shown, b"' was used, but is disabled."]);
            return if found.loose { Ok(None) } else { Err(Exit::DISABLED) };
        }
        Ok(Some((spec, found.argument)))
    }

    fn find(&self, name: &[u8]) -> Option<&'static Spec> {
        let same = |spec: &&&'static Spec| same_name(spec.name.as_bytes(), name);
        self.specs.iter().find(same).copied()
    }

    fn switch(&mut self, spec: &'static Spec, argument: Argument<'_>) -> Result<(), Exit> {
        let on = match argument.text() {
            None => true,
            Some(text) => match boolean(text) {
                Some(on) => on,
                None => {
                    let program = self.talk.program().to_vec();
                    self.talk.local(
                        Level::Warning,
                        &[
                            &program,
                            b": ignoring option '--",
                            spec.name.as_bytes(),
                            b"' due to invalid value '",
                            text,
                            b"'.",
                        ],
                    );
                    return Ok(());
                }
            },
        };
        self.values.set(spec.key, Value::Switch(on));
        self.heed.heed(spec, Some(if on { b"1" } else { b"0" }), self.values, self.talk)
    }

    fn cluster(&mut self, letters: &[u8], words: &[Word], index: &mut usize) -> Result<(), Exit> {
        for (at, letter) in letters.iter().enumerate() {
            let Some(spec) = self.specs.iter().copied().find(|spec| spec.short == Some(*letter)) else {
                self.complain(&[b"unknown option '-", &[*letter], b"'."]);
                return Err(Exit::UNKNOWN_OPTION);
            };
            let attached = Some(&letters[at + 1..]).filter(|rest| !rest.is_empty());
            match spec.kind {
                Kind::Disabled { .. } => {
                    self.complain(&[b"Option '-", &[*letter], b"' was used, but is disabled."]);
                    return Err(Exit::DISABLED);
                }
                Kind::Switch { .. } => {
                    self.values.set(spec.key, Value::Switch(true));
                    self.heed.heed(spec, None, self.values, self.talk)?;
                }
                Kind::Mark => self.heed.heed(spec, None, self.values, self.talk)?,
                Kind::Password => {
                    let argument = attached.map_or(Argument::None, Argument::Text);
                    return self.keep(spec, argument, Origin::CommandLine);
                }
                Kind::Text | Kind::Word | Kind::Number(_) => {
                    let next = attached.or_else(|| {
                        let next = words.get(*index)?;
                        *index += 1;
                        Some(next.text.as_slice())
                    });
                    let Some(argument) = next else {
                        self.complain(&[b"option '-", &[*letter], b"' requires an argument."]);
                        return Err(Exit::ARGUMENT_REQUIRED);
                    };
                    return self.keep(spec, Argument::Text(argument), Origin::CommandLine);
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, spec: &'static Spec, argument: Argument<'_>, origin: Origin) -> Result<(), Exit> {
        match spec.kind {
            Kind::Number(number) => {
                let text = argument.text().unwrap_or(b"1");
                let value = self.number(spec, number, text)?;
                self.values.set(spec.key, value);
            }
            // A text option without an argument keeps its value.
            Kind::Text => {
                if let Argument::Text(text) = argument {
                    self.values.set(spec.key, Value::Text(Some(text.to_vec())));
                } else if argument == Argument::Disabled {
                    self.values.set(spec.key, Value::Text(Some(b"0".to_vec())));
                }
            }
            Kind::Password => {
                let given = argument != Argument::None && origin == Origin::CommandLine;
                if given && !std::mem::replace(&mut self.password_warned, true) {
                    let text = b"Using a password on the command line interface can be insecure.";
                    self.talk.local(Level::Warning, &[text]);
                }
            }
            Kind::Switch { .. } => {
                let on = boolean(argument.text().unwrap_or(b"1"));
                if let (None, Some(text)) = (on, argument.text()) {
                    let name = spec.name.as_bytes();
                    let end = b"' was not recognized. Set to OFF.";
                    self.talk.local(Level::Warning, &[b"option '", name, b"': boolean value '", text, end]);
                }
                self.values.set(spec.key, Value::Switch(on.unwrap_or(false)));
            }
            Kind::Mark | Kind::Word | Kind::Disabled { .. } => {}
        }
        self.heed.heed(spec, argument.text(), self.values, self.talk)
    }

    fn number(&mut self, spec: &'static Spec, number: Number, text: &[u8]) -> Result<Value, Exit> {
        if text.is_empty() {
            self.complain(&[b"Empty value for '", spec.name.as_bytes(), b"' specified."]);
            return Err(Exit::ARGUMENT_REQUIRED);
        }
        match number {
            Number::Signed(limits) => {
                let parsed =
                    parse_signed(text).inspect_err(|why| self.not_a_number(spec, number, text, *why));
                let given = parsed.unwrap_or(0);
                let limited = limits.limit(given);
                if limited.adjusted {
                    self.adjusted(spec, b"signed value ", given, limited.value);
                }
                parsed.map(|_| Value::Signed(limited.value))
            }
            Number::Unsigned(limits, block) => {
                let parsed = match is_negative(text) {
                    true => {
                        self.adjusted(spec, b"value ", String::from_utf8_lossy(text), limits.min);
                        Ok(limits.min)
                    }
                    false => {
                        parse_unsigned(text).inspect_err(|why| self.not_a_number(spec, number, text, *why))
                    }
                };
                // Like MySQL, checks an invalid number against the limits as 0.
                let given = parsed.unwrap_or(0);
                let limited = limits.limit(given, block);
                if limited.adjusted {
                    self.adjusted(spec, b"unsigned value ", given, limited.value);
                }
                parsed.map(|_| Value::Unsigned(limited.value))
            }
        }
        .map_err(|_| {
            self.complain(&[b"Error while setting value '", text, b"' to '", spec.name.as_bytes(), b"'."]);
            Exit::UNKNOWN_SUFFIX
        })
    }

    fn adjusted(&mut self, spec: &Spec, kind: &[u8], from: impl ToString, to: impl ToString) {
        let (from, to) = (from.to_string(), to.to_string());
        let name = spec.name.as_bytes();
        let text: &[&[u8]] =
            &[b"option '", name, b"': ", kind, from.as_bytes(), b" adjusted to ", to.as_bytes(), b"."];
        self.talk.local(Level::Warning, text);
    }

    fn not_a_number(&mut self, spec: &Spec, number: Number, text: &[u8], why: NotANumber) {
        let name = spec.name.as_bytes();
        match (why, number) {
            (NotANumber::Suffix(byte), _) => {
                let parts: &[&[u8]] = &[
                    b"Unknown suffix '",
                    &[byte],
                    b"' used for variable '",
                    name,
                    b"' (value '",
                    text,
                    b"').",
                ];
                self.talk.local(Level::Error, parts);
            }
            (NotANumber::Range, Number::Signed(_)) => {
                self.talk.local(Level::Error, &[b"Incorrect integer value: '", text, b"'."]);
            }
            (NotANumber::Range, Number::Unsigned(..)) => {
                self.talk.local(Level::Error, &[b"Incorrect unsigned integer value: '", text, b"'."]);
            }
        }
    }

    /// Prints an error with the program's name twice, as MySQL does.
    fn complain(&mut self, text: &[&[u8]]) {
        let program = self.talk.program().to_vec();
        let text = text.concat();
        self.talk.local(Level::Error, &[&program, b": ", &text]);
    }
}

/// An option name that may have prefixes.
struct Prefixed<'w> {
    name: &'w [u8],
    argument: Argument<'w>,
    loose: bool,
}

/// In MySQL's order of search.
const PREFIXES: [&str; 5] = ["skip", "disable", "enable", "maximum", "loose"];

impl Prefixed<'_> {
    /// Removes one prefix.
    fn strip(&mut self) -> Option<&'static str> {
        let prefix = PREFIXES.into_iter().find(|prefix| {
            let separator = self.name.get(prefix.len());
            self.name.starts_with(prefix.as_bytes()) && matches!(separator, Some(b'-' | b'_'))
        })?;
        self.name = &self.name[prefix.len() + 1..];
        self.loose |= prefix == "loose";
        Some(prefix)
    }

    /// Changes the argument for the last prefix. Two negations cancel each other.
    fn apply(&mut self, prefix: &str, given: Argument<'_>) {
        let zero = given == Argument::Text(b"0");
        self.argument = match prefix {
            "skip" | "disable" if zero => Argument::Enabled,
            "skip" | "disable" => Argument::Disabled,
            "enable" if zero => Argument::Disabled,
            "enable" => Argument::Enabled,
            _ => return,
        };
    }
}

/// Returns whether two names are equal. `-` and `_` are the same; case matters.
fn same_name(left: &[u8], right: &[u8]) -> bool {
    let fold = |byte: &u8| if *byte == b'-' { b'_' } else { *byte };
    left.len() == right.len() && left.iter().map(fold).eq(right.iter().map(fold))
}

fn boolean(text: &[u8]) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    match () {
        () if is(["true", "on", "1"]) => Some(true),
        () if is(["false", "off", "0"]) => Some(false),
        () => None,
    }
}
