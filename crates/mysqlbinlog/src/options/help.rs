//! `--help` in the layout of MySQL's programs: options, option files, values.

use option_files::{FileChoice, OptionFileEnvironment, directories};

use super::files::GROUPS;
use super::option_table::{OptionEntry, OptionId, OptionKind};
use super::{OptionValue, OptionValues};

/// Columns before an option's description.
const INDENT: usize = 22;

/// Columns of an option's description.
const DESCRIPTION_WIDTH: usize = 57;

/// Options, their values, and the option files that set them.
pub(crate) struct HelpContent<'h> {
    pub(crate) specs: &'h [&'static OptionEntry],
    pub(crate) values: &'h OptionValues,
    pub(crate) choice: &'h FileChoice,
    pub(crate) environment: &'h OptionFileEnvironment,
}

/// Appends the whole help text.
pub(crate) fn write(out: &mut Vec<u8>, program: &[u8], content: &HelpContent<'_>) {
    let HelpContent { specs, values, choice, environment } = *content;
    put_version(out, program);
    out.extend_from_slice(
        b"Dual licence: MIT or Apache-2.0.\n\nPrints MySQL binary logs as text, to read or to replay with the mysql \
          client.\nAccepts mysqlbinlog's options and prints the same output.\n\nUsage: ",
    );
    out.extend_from_slice(program);
    out.extend_from_slice(b" [options] log-files\n");
    if specs.iter().any(|spec| spec.id == OptionId::Json) {
        out.extend_from_slice(
            b"A directory, or its index file, stands for the logs in the index, in order.\n",
        );
    }
    for spec in specs {
        put_option(out, spec);
    }
    put_option_files(out, choice, environment);
    put_variables(out, specs, values);
}

/// Appends the line that `--version` prints.
pub(crate) fn put_version(out: &mut Vec<u8>, program: &[u8]) {
    out.extend_from_slice(program);
    let [version, system, machine] =
        [env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH].map(str::as_bytes);
    out.extend_from_slice(
        &[b"  Ver ", version, b" for ", system, b" on ", machine, b" (bintide)\n"].concat(),
    );
}

fn put_option(out: &mut Vec<u8>, spec: &OptionEntry) {
    let start = out.len();
    match spec.short {
        Some(letter) => out.extend_from_slice(&[b' ', b' ', b'-', letter, b',', b' ']),
        None => out.extend_from_slice(b"  "),
    }
    out.extend_from_slice(b"--");
    put_name(out, spec.name);
    out.extend_from_slice(match spec.kind {
        OptionKind::Mark | OptionKind::Switch { .. } | OptionKind::Disabled { argument: false } => b" ",
        OptionKind::Text | OptionKind::Word => b"=name ",
        OptionKind::Password => b"[=name] ",
        OptionKind::Number(_) => b"=# ",
        OptionKind::Disabled { argument: true } => b"[=#] ",
    });
    let mut column = out.len() - start;
    if column > INDENT {
        out.push(b'\n');
        column = 0;
    }
    pad(out, INDENT - column);
    let mut rest = spec.description;
    while rest.len() > DESCRIPTION_WIDTH {
        let Some(end) = rest.get(..=DESCRIPTION_WIDTH).and_then(|start| start.rfind(' ')) else { break };
        out.extend_from_slice(&rest.as_bytes()[..end]);
        out.push(b'\n');
        pad(out, INDENT);
        rest = &rest[end + 1..];
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'\n');
    if let OptionKind::Switch { default: true, .. } = spec.kind {
        pad(out, INDENT);
        out.extend_from_slice(b"(Defaults to on; use --skip-");
        put_name(out, spec.name);
        out.extend_from_slice(b" to disable.)\n");
    }
}

fn put_option_files(out: &mut Vec<u8>, choice: &FileChoice, environment: &OptionFileEnvironment) {
    out.extend_from_slice(b"\nDefault options are read from the following files in the given order:\n");
    for directory in directories(environment) {
        match (directory.as_slice(), &choice.extra) {
            (b"", None) => {}
            (b"", Some(extra)) => out.extend_from_slice(&[extra, b" ".as_slice()].concat()),
            (b"~/", _) => out.extend_from_slice(b"~/.my.cnf "),
            (directory, _) => out.extend_from_slice(&[directory, b"my.cnf "].concat()),
        }
    }
    out.extend_from_slice(b"\nThe following groups are read:");
    for group in GROUPS {
        out.extend_from_slice(&[b" ", group.as_bytes()].concat());
    }
    for (group, suffix) in GROUPS.iter().zip(std::iter::repeat(&choice.group_suffix)) {
        if let Some(suffix) = suffix {
            out.extend_from_slice(&[b" ", group.as_bytes(), suffix].concat());
        }
    }
    out.extend_from_slice(
        b"\nThe following options may be given as the first argument:\n\
          --print-defaults        Show the arguments that option files add, and exit.\n\
          --no-defaults           Read no option files except the login file.\n\
          --defaults-file=#       Read this option file only.\n\
          --defaults-extra-file=# Also read this option file, after the global ones.\n\
          --defaults-group-suffix=#\n\
          \x20                       Also read the groups with this suffix.\n\
          --login-path=#          Read this path of the login file.\n\
          --no-login-paths        Read no login file.\n",
    );
}

fn put_variables(out: &mut Vec<u8>, specs: &[&OptionEntry], values: &OptionValues) {
    let width = specs.iter().map(|spec| spec.name.len() + 1).max().unwrap_or(0).max(34);
    out.extend_from_slice(b"\nVariables (--variable-name=value)\n");
    let title = "and boolean options {FALSE|TRUE}";
    out.extend_from_slice(format!("{title:width$}Value (after reading options)\n").as_bytes());
    out.extend((1..75).map(|column| if column == width { b' ' } else { b'-' }));
    out.push(b'\n');
    for spec in specs {
        let value = match values.get(spec.id) {
            OptionValue::Nothing => continue,
            OptionValue::Switch(true) => b"TRUE".to_vec(),
            OptionValue::Switch(false) => b"FALSE".to_vec(),
            OptionValue::Text(None) => b"(No default value)".to_vec(),
            OptionValue::Text(Some(text)) => text.clone(),
            OptionValue::Signed(value) => value.to_string().into_bytes(),
            OptionValue::Unsigned(value) => value.to_string().into_bytes(),
        };
        put_name(out, spec.name);
        pad(out, width - spec.name.len());
        out.extend_from_slice(&value);
        out.push(b'\n');
    }
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.extend(name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte }));
}

fn pad(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, b' ');
}
