//! Options, parsed as MySQL's programs parse them.
//!
//! | module | contents |
//! |---|---|
//! | [`option_table`] | the list of options |
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
pub(crate) mod option_table;

use self::number::{NumberError, NumberKind, is_negative, parse_signed, parse_unsigned};
use self::option_table::{OPTION_COUNT, OptionEntry, OptionId, OptionKind};
use crate::dump_diagnostics::{DumpDiagnostics, MessageLevel};

/// Exit code that ends the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DumpExit(pub(crate) u8);

impl DumpExit {
    pub(crate) const FAILURE: Self = Self(1);
    /// bintide's own: wrong usage, or a log that cannot be read.
    pub(crate) const NOT_STARTED: Self = Self(2);
    const UNKNOWN_OPTION: Self = Self(2);
    const NO_ARGUMENT_ALLOWED: Self = Self(4);
    const ARGUMENT_REQUIRED: Self = Self(5);
    const UNKNOWN_VARIABLE: Self = Self(7);
    const UNKNOWN_SUFFIX: Self = Self(9);
    const DISABLED: Self = Self(12);
}

/// An argument of the command line, or a line of an option file in the form of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptionWord {
    pub(crate) text: Vec<u8>,
    pub(crate) origin: WordOrigin,
}

/// Source of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordOrigin {
    File,
    CommandLine,
}

/// Value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OptionValue {
    /// An option without a stored value.
    Nothing,
    Switch(bool),
    Text(Option<Vec<u8>>),
    Signed(i64),
    Unsigned(u64),
}

/// Values of all options.
#[derive(Clone, Debug)]
pub(crate) struct OptionValues([OptionValue; OPTION_COUNT]);

impl OptionValues {
    /// Returns the defaults.
    pub(crate) fn new(entries: &[&OptionEntry]) -> Self {
        let mut values = Self(std::array::from_fn(|_| OptionValue::Nothing));
        for spec in entries {
            values.0[spec.id as usize] = match spec.kind {
                OptionKind::Mark | OptionKind::Word | OptionKind::Password | OptionKind::Disabled { .. } => {
                    OptionValue::Nothing
                }
                OptionKind::Switch { default, .. } => OptionValue::Switch(default),
                OptionKind::Text => OptionValue::Text(None),
                OptionKind::Number(NumberKind::Signed(limits)) => {
                    OptionValue::Signed(limits.clamp(limits.default).value)
                }
                OptionKind::Number(NumberKind::Unsigned(limits, block)) => {
                    OptionValue::Unsigned(limits.clamp(limits.default, block).value)
                }
            };
        }
        values
    }

    /// Returns the value of an option.
    pub(crate) fn get(&self, key: OptionId) -> &OptionValue {
        &self.0[key as usize]
    }

    /// Returns the value of a switch.
    pub(crate) fn switch(&self, key: OptionId) -> bool {
        matches!(self.get(key), OptionValue::Switch(true))
    }

    /// Returns the value of a text option, if given.
    pub(crate) fn text(&self, key: OptionId) -> Option<&[u8]> {
        match self.get(key) {
            OptionValue::Text(text) => text.as_deref(),
            _ => None,
        }
    }

    /// Returns the value of an unsigned number.
    pub(crate) fn unsigned(&self, key: OptionId) -> u64 {
        match self.get(key) {
            OptionValue::Unsigned(value) => *value,
            _ => 0,
        }
    }

    /// Returns the value of a signed number.
    pub(crate) fn signed(&self, key: OptionId) -> i64 {
        match self.get(key) {
            OptionValue::Signed(value) => *value,
            _ => 0,
        }
    }

    pub(crate) fn set(&mut self, key: OptionId, value: OptionValue) {
        self.0[key as usize] = value;
    }
}

/// Receives each option as it is parsed, after its value is stored.
pub(crate) trait OptionVisitor {
    /// Handles one option. `argument` is its text: `None` without an argument, `1` or `0` for a switch.
    fn visit(
        &mut self,
        spec: &OptionEntry,
        argument: Option<&[u8]>,
        values: &mut OptionValues,
        diagnostics: &mut DumpDiagnostics<'_>,
    ) -> Result<(), DumpExit>;
}

/// Returns the options in `words` up to the first error. The parser proper reports that error.
pub(crate) fn given_options(specs: &[&'static OptionEntry], words: &[OptionWord]) -> Vec<OptionId> {
    struct OptionCollector(Vec<OptionId>);
    impl OptionVisitor for OptionCollector {
        fn visit(
            &mut self,
            spec: &OptionEntry,
            _: Option<&[u8]>,
            _: &mut OptionValues,
            _: &mut DumpDiagnostics<'_>,
        ) -> Result<(), DumpExit> {
            self.0.push(spec.id);
            Ok(())
        }
    }
    let mut listed = OptionCollector(Vec::new());
    let (mut values, mut unheard) = (OptionValues::new(specs), std::io::sink());
    let mut diagnostics = DumpDiagnostics::new(&mut unheard, b"");
    let _ = OptionParser {
        specs,
        values: &mut values,
        visitor: &mut listed,
        diagnostics: &mut diagnostics,
        password_warned: false,
    }
    .parse(words);
    listed.0
}

/// The argument of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionArgument<'a> {
    None,
    /// From `--enable-…`.
    Enabled,
    /// From `--skip-…` or `--disable-…`.
    Disabled,
    Text(&'a [u8]),
}

impl<'a> OptionArgument<'a> {
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
pub(crate) struct OptionParser<'p, 'e, H> {
    pub(crate) specs: &'p [&'static OptionEntry],
    pub(crate) values: &'p mut OptionValues,
    pub(crate) visitor: &'p mut H,
    pub(crate) diagnostics: &'p mut DumpDiagnostics<'e>,
    pub(crate) password_warned: bool,
}

impl<H: OptionVisitor> OptionParser<'_, '_, H> {
    /// Parses the options in `words`, in order, and returns the other arguments.
    pub(crate) fn parse(&mut self, words: &[OptionWord]) -> Result<Vec<Vec<u8>>, DumpExit> {
        let mut rest = Vec::new();
        let mut index = 0;
        let mut options_ended = false;
        while let Some(word) = words.get(index) {
            index += 1;
            let text = word.text.as_slice();
            match text {
                _ if options_ended => rest.push(text.to_vec()),
                b"--" => options_ended = true,
                [b'-', b'-', long @ ..] => self.parse_long(long, word.origin, words, &mut index)?,
                [b'-', letters @ ..] if !letters.is_empty() => {
                    self.parse_short(letters, words, &mut index)?
                }
                _ => rest.push(text.to_vec()),
            }
        }
        Ok(rest)
    }

    fn parse_long(
        &mut self,
        text: &[u8],
        origin: WordOrigin,
        words: &[OptionWord],
        index: &mut usize,
    ) -> Result<(), DumpExit> {
        let Some((spec, argument)) = self.find_long(text)? else { return Ok(()) };
        match spec.kind {
            OptionKind::Switch { lax: false, .. } => return self.switch(spec, argument),
            OptionKind::Switch { lax: true, .. } => {}
            OptionKind::Mark => {
                if argument != OptionArgument::None {
                    self.report_error(&[b"option '--", spec.name.as_bytes(), b"' cannot take an argument."]);
                    return Err(DumpExit::NO_ARGUMENT_ALLOWED);
                }
            }
            OptionKind::Text | OptionKind::Word | OptionKind::Number(_) => {
                if argument == OptionArgument::None {
                    let next = words.get(*index).filter(|_| origin == WordOrigin::CommandLine);
                    let Some(next) = next else {
                        self.report_error(&[b"option '--", spec.name.as_bytes(), b"' requires an argument."]);
                        return Err(DumpExit::ARGUMENT_REQUIRED);
                    };
                    *index += 1;
                    return self.store(spec, OptionArgument::Text(&next.text), origin);
                }
            }
            OptionKind::Password | OptionKind::Disabled { .. } => {}
        }
        self.store(spec, argument, origin)
    }

    /// Finds the option that a word names, possibly after prefixes. Returns `None` for an unknown option after `loose`.
    fn find_long<'w>(
        &mut self,
        text: &'w [u8],
    ) -> Result<Option<(&'static OptionEntry, OptionArgument<'w>)>, DumpExit> {
        let (name, value) = match text.iter().position(|byte| *byte == b'=') {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let given = value.map_or(OptionArgument::None, OptionArgument::Text);
        let mut found = PrefixedName { name, argument: given, loose: false };
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
            let level = if found.loose { MessageLevel::Warning } else { MessageLevel::Error };
            let (what, exit) = match must_be_variable {
                true => (b"unknown variable '".as_slice(), DumpExit::UNKNOWN_VARIABLE),
                false => (b"unknown option '--".as_slice(), DumpExit::UNKNOWN_OPTION),
            };
            self.diagnostics.program_message(level, &[what, text, b"'."]);
            return if found.loose { Ok(None) } else { Err(exit) };
        };
        if let OptionKind::Disabled { .. } = spec.kind {
            let level = if found.loose { MessageLevel::Warning } else { MessageLevel::Error };
            let program = self.diagnostics.program().to_vec();
            let shown = &text[text.len() - found.name.len() - value.map_or(0, |value| value.len() + 1)..];
            self.diagnostics
                .program_message(level, &[&program, b": Option '", shown, b"' was used, but is disabled."]);
            return if found.loose { Ok(None) } else { Err(DumpExit::DISABLED) };
        }
        Ok(Some((spec, found.argument)))
    }

    fn find(&self, name: &[u8]) -> Option<&'static OptionEntry> {
        let same = |spec: &&&'static OptionEntry| same_name(spec.name.as_bytes(), name);
        self.specs.iter().find(same).copied()
    }

    fn switch(&mut self, spec: &'static OptionEntry, argument: OptionArgument<'_>) -> Result<(), DumpExit> {
        let on = match argument.text() {
            None => true,
            Some(text) => match boolean(text) {
                Some(on) => on,
                None => {
                    let program = self.diagnostics.program().to_vec();
                    self.diagnostics.program_message(
                        MessageLevel::Warning,
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
        self.values.set(spec.id, OptionValue::Switch(on));
        self.visitor.visit(spec, Some(if on { b"1" } else { b"0" }), self.values, self.diagnostics)
    }

    fn parse_short(
        &mut self,
        letters: &[u8],
        words: &[OptionWord],
        index: &mut usize,
    ) -> Result<(), DumpExit> {
        for (at, letter) in letters.iter().enumerate() {
            let Some(spec) = self.specs.iter().copied().find(|spec| spec.short == Some(*letter)) else {
                self.report_error(&[b"unknown option '-", &[*letter], b"'."]);
                return Err(DumpExit::UNKNOWN_OPTION);
            };
            let attached = Some(&letters[at + 1..]).filter(|rest| !rest.is_empty());
            match spec.kind {
                OptionKind::Disabled { .. } => {
                    self.report_error(&[b"Option '-", &[*letter], b"' was used, but is disabled."]);
                    return Err(DumpExit::DISABLED);
                }
                OptionKind::Switch { .. } => {
                    self.values.set(spec.id, OptionValue::Switch(true));
                    self.visitor.visit(spec, None, self.values, self.diagnostics)?;
                }
                OptionKind::Mark => self.visitor.visit(spec, None, self.values, self.diagnostics)?,
                OptionKind::Password => {
                    let argument = attached.map_or(OptionArgument::None, OptionArgument::Text);
                    return self.store(spec, argument, WordOrigin::CommandLine);
                }
                OptionKind::Text | OptionKind::Word | OptionKind::Number(_) => {
                    let next = attached.or_else(|| {
                        let next = words.get(*index)?;
                        *index += 1;
                        Some(next.text.as_slice())
                    });
                    let Some(argument) = next else {
                        self.report_error(&[b"option '-", &[*letter], b"' requires an argument."]);
                        return Err(DumpExit::ARGUMENT_REQUIRED);
                    };
                    return self.store(spec, OptionArgument::Text(argument), WordOrigin::CommandLine);
                }
            }
        }
        Ok(())
    }

    fn store(
        &mut self,
        spec: &'static OptionEntry,
        argument: OptionArgument<'_>,
        origin: WordOrigin,
    ) -> Result<(), DumpExit> {
        match spec.kind {
            OptionKind::Number(number) => {
                let text = argument.text().unwrap_or(b"1");
                let value = self.number(spec, number, text)?;
                self.values.set(spec.id, value);
            }
            // A text option without an argument keeps its value.
            OptionKind::Text => {
                if let OptionArgument::Text(text) = argument {
                    self.values.set(spec.id, OptionValue::Text(Some(text.to_vec())));
                } else if argument == OptionArgument::Disabled {
                    self.values.set(spec.id, OptionValue::Text(Some(b"0".to_vec())));
                }
            }
            OptionKind::Password => {
                let given = argument != OptionArgument::None && origin == WordOrigin::CommandLine;
                if given && !std::mem::replace(&mut self.password_warned, true) {
                    let text = b"Using a password on the command line interface can be insecure.";
                    self.diagnostics.program_message(MessageLevel::Warning, &[text]);
                }
            }
            OptionKind::Switch { .. } => {
                let on = boolean(argument.text().unwrap_or(b"1"));
                if let (None, Some(text)) = (on, argument.text()) {
                    let name = spec.name.as_bytes();
                    let end = b"' was not recognized. Set to OFF.";
                    self.diagnostics.program_message(
                        MessageLevel::Warning,
                        &[b"option '", name, b"': boolean value '", text, end],
                    );
                }
                self.values.set(spec.id, OptionValue::Switch(on.unwrap_or(false)));
            }
            OptionKind::Mark | OptionKind::Word | OptionKind::Disabled { .. } => {}
        }
        self.visitor.visit(spec, argument.text(), self.values, self.diagnostics)
    }

    fn number(
        &mut self,
        spec: &'static OptionEntry,
        number: NumberKind,
        text: &[u8],
    ) -> Result<OptionValue, DumpExit> {
        if text.is_empty() {
            self.report_error(&[b"Empty value for '", spec.name.as_bytes(), b"' specified."]);
            return Err(DumpExit::ARGUMENT_REQUIRED);
        }
        match number {
            NumberKind::Signed(limits) => {
                let parsed =
                    parse_signed(text).inspect_err(|why| self.report_number_error(spec, number, text, *why));
                let given = parsed.unwrap_or(0);
                let limited = limits.clamp(given);
                if limited.adjusted {
                    self.warn_of_adjustment(spec, b"signed value ", given, limited.value);
                }
                parsed.map(|_| OptionValue::Signed(limited.value))
            }
            NumberKind::Unsigned(limits, block) => {
                let parsed = match is_negative(text) {
                    true => {
                        self.warn_of_adjustment(spec, b"value ", String::from_utf8_lossy(text), limits.min);
                        Ok(limits.min)
                    }
                    false => parse_unsigned(text)
                        .inspect_err(|why| self.report_number_error(spec, number, text, *why)),
                };
                // Like MySQL, checks an invalid number against the limits as 0.
                let given = parsed.unwrap_or(0);
                let limited = limits.clamp(given, block);
                if limited.adjusted {
                    self.warn_of_adjustment(spec, b"unsigned value ", given, limited.value);
                }
                parsed.map(|_| OptionValue::Unsigned(limited.value))
            }
        }
        .map_err(|_| {
            self.report_error(&[
                b"Error while setting value '",
                text,
                b"' to '",
                spec.name.as_bytes(),
                b"'.",
            ]);
            DumpExit::UNKNOWN_SUFFIX
        })
    }

    fn warn_of_adjustment(
        &mut self,
        spec: &OptionEntry,
        kind: &[u8],
        from: impl ToString,
        to: impl ToString,
    ) {
        let (from, to) = (from.to_string(), to.to_string());
        let name = spec.name.as_bytes();
        let text: &[&[u8]] =
            &[b"option '", name, b"': ", kind, from.as_bytes(), b" adjusted to ", to.as_bytes(), b"."];
        self.diagnostics.program_message(MessageLevel::Warning, text);
    }

    fn report_number_error(&mut self, spec: &OptionEntry, number: NumberKind, text: &[u8], why: NumberError) {
        let name = spec.name.as_bytes();
        match (why, number) {
            (NumberError::UnknownSuffix(byte), _) => {
                let parts: &[&[u8]] = &[
                    b"Unknown suffix '",
                    &[byte],
                    b"' used for variable '",
                    name,
                    b"' (value '",
                    text,
                    b"').",
                ];
                self.diagnostics.program_message(MessageLevel::Error, parts);
            }
            (NumberError::OutOfRange, NumberKind::Signed(_)) => {
                self.diagnostics
                    .program_message(MessageLevel::Error, &[b"Incorrect integer value: '", text, b"'."]);
            }
            (NumberError::OutOfRange, NumberKind::Unsigned(..)) => {
                self.diagnostics.program_message(
                    MessageLevel::Error,
                    &[b"Incorrect unsigned integer value: '", text, b"'."],
                );
            }
        }
    }

    /// Prints an error with the program's name twice, as MySQL does.
    fn report_error(&mut self, text: &[&[u8]]) {
        let program = self.diagnostics.program().to_vec();
        let text = text.concat();
        self.diagnostics.program_message(MessageLevel::Error, &[&program, b": ", &text]);
    }
}

/// An option name that may have prefixes.
struct PrefixedName<'w> {
    name: &'w [u8],
    argument: OptionArgument<'w>,
    loose: bool,
}

/// In MySQL's order of search.
const PREFIXES: [&str; 5] = ["skip", "disable", "enable", "maximum", "loose"];

impl PrefixedName<'_> {
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
    fn apply(&mut self, prefix: &str, given: OptionArgument<'_>) {
        let zero = given == OptionArgument::Text(b"0");
        self.argument = match prefix {
            "skip" | "disable" if zero => OptionArgument::Enabled,
            "skip" | "disable" => OptionArgument::Disabled,
            "enable" if zero => OptionArgument::Disabled,
            "enable" => OptionArgument::Enabled,
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
