//! Options that need more than their plain values, as they are parsed.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use option_files::{is_space, trim_end, trim_start};
use sql::TablePattern;

use crate::color_writer::ColorMode;
use crate::dump_diagnostics::DumpDiagnostics;
use crate::list_provider::ListProvider;
use crate::options::choice::match_choice;
use crate::options::option_table::{OptionEntry, OptionId};
use crate::options::{DumpExit, OptionValue, OptionValues, OptionVisitor, datetime};
use crate::remote::{RemoteProtocol, RemoteSslMode};

/// Way to request logs from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteMode {
    ByPosition,
    ByGtids,
}

/// Events printed as BINLOG statements (`--base64-output`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base64Output {
    /// None; row events are an error.
    Never,
    /// Events without another form.
    Auto,
    /// None; rows are printed as pseudo-SQL only.
    DecodeRows,
}

const BASE64_WORDS: [&str; 4] = ["NEVER", "AUTO", "UNSPEC", "DECODE-ROWS"];
const BASE64_OUTPUTS: [Base64Output; 4] =
    [Base64Output::Never, Base64Output::Auto, Base64Output::Auto, Base64Output::DecodeRows];
const REMOTE_WORDS: [&str; 2] = ["BINLOG-DUMP-NON-GTIDS", "BINLOG-DUMP-GTIDS"];
const PROTOCOL_WORDS: [&str; 4] = ["TCP", "SOCKET", "PIPE", "MEMORY"];
const SSL_MODE_WORDS: [&str; 5] = ["DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"];
/// Values of the words, in the same order.
const PROTOCOLS: [RemoteProtocol; PROTOCOL_WORDS.len()] =
    [RemoteProtocol::Tcp, RemoteProtocol::Socket, RemoteProtocol::WindowsOnly, RemoteProtocol::WindowsOnly];
const SSL_MODES: [RemoteSslMode; SSL_MODE_WORDS.len()] = [
    RemoteSslMode::Disabled,
    RemoteSslMode::Preferred,
    RemoteSslMode::Required,
    RemoteSslMode::VerifyCa,
    RemoteSslMode::VerifyIdentity,
];
const COLOR_WORDS: [&str; 3] = ["AUTO", "ALWAYS", "NEVER"];
const FIPS_WORDS: [&str; 3] = ["OFF", "ON", "STRICT"];

/// Options that need more than their plain values.
pub(crate) struct ParsedOptions<'a> {
    pub(crate) base64: Base64Output,
    pub(crate) verbose: u32,
    pub(crate) short_form: bool,
    /// Seconds since 1970; 0 for none.
    pub(crate) start_time: i64,
    /// Seconds since 1970.
    pub(crate) stop_time: i64,
    /// Names of databases, and the names to print instead.
    pub(crate) rewrites: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) remote: Option<RemoteMode>,
    pub(crate) remote_server_switch: bool,
    pub(crate) protocol: Option<RemoteProtocol>,
    pub(crate) ssl_mode: Option<RemoteSslMode>,
    /// Set if `--ssl-fips-mode` is not OFF.
    pub(crate) needs_fips: bool,
    pub(crate) password: Option<Vec<u8>>,
    /// Asks for the password.
    ask_password: &'a mut dyn FnMut(&mut DumpDiagnostics<'_>) -> Vec<u8>,
    /// Text requested instead of a dump.
    pub(crate) show: Option<HelpRequest>,
    pub(crate) tables: Vec<TablePattern>,
    /// Conditions on rows, as messages show them. `lists` has the conditions.
    pub(crate) conditions: Vec<String>,
    pub(crate) lists: &'a mut dyn ListProvider,
    pub(crate) color: ColorMode,
    pub(crate) zone: TimeZone,
}

/// A text requested instead of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelpRequest {
    Help,
    Version,
}

impl<'a> ParsedOptions<'a> {
    pub(crate) fn new(
        zone: TimeZone,
        ask_password: &'a mut dyn FnMut(&mut DumpDiagnostics<'_>) -> Vec<u8>,
        lists: &'a mut dyn ListProvider,
    ) -> Self {
        Self {
            base64: Base64Output::Auto,
            verbose: 0,
            short_form: false,
            start_time: 0,
            stop_time: i64::MAX,
            rewrites: BTreeMap::new(),
            remote: None,
            remote_server_switch: false,
            protocol: None,
            ssl_mode: None,
            needs_fips: false,
            password: None,
            ask_password,
            show: None,
            tables: Vec::new(),
            conditions: Vec::new(),
            lists,
            color: ColorMode::Auto,
            zone,
        }
    }

    fn parse_time(&self, text: &[u8], diagnostics: &mut DumpDiagnostics<'_>) -> Result<i64, DumpExit> {
        match datetime::parse(text) {
            Some(at) => Ok(datetime::to_timestamp(at, &self.zone)),
            None => {
                diagnostics.error(&[b"Incorrect date and time argument: ", text]);
                Err(DumpExit::FAILURE)
            }
        }
    }

    fn add_rewrite(&mut self, rule: &[u8], diagnostics: &mut DumpDiagnostics<'_>) -> Result<(), DumpExit> {
        let mut bad = |why: &[u8]| {
            diagnostics.error(&[b"Bad syntax in mysqlbinlog-rewrite-db - ", why, b"!\n"]);
            Err(DumpExit::FAILURE)
        };
        let Some(arrow) = rule.windows(2).position(|pair| pair == b"->") else {
            return bad(b"missing '->'");
        };
        let from = trim_end(&rule[..arrow], is_latin1_space);
        let to = trim_start(&rule[arrow + 2..], is_latin1_space);
        match (from.is_empty(), to.is_empty()) {
            (true, _) => bad(b"empty FROM db"),
            (_, true) => bad(b"empty TO db"),
            _ => {
                self.rewrites.entry(from.to_vec()).or_insert_with(|| to.to_vec());
                Ok(())
            }
        }
    }
}

impl OptionVisitor for ParsedOptions<'_> {
    fn visit(
        &mut self,
        spec: &OptionEntry,
        argument: Option<&[u8]>,
        values: &mut OptionValues,
        diagnostics: &mut DumpDiagnostics<'_>,
    ) -> Result<(), DumpExit> {
        let text = argument.unwrap_or_default();
        match spec.id {
            OptionId::Help => return self.stop_for(HelpRequest::Help),
            OptionId::Version => return self.stop_for(HelpRequest::Version),
            OptionId::Base64Output => {
                self.base64 = BASE64_OUTPUTS[match_choice(text, spec.name, &BASE64_WORDS, diagnostics)?];
            }
            OptionId::Verbose => self.verbose += 1,
            OptionId::ShortForm => {
                // As mysqlbinlog, which takes even --skip-short-form for --short-form.
                self.short_form = true;
                values.set(OptionId::ShortForm, OptionValue::Switch(true));
                warn_deprecated(diagnostics, "--short-form", None);
            }
            OptionId::StartDatetime => {
                self.start_time = self.parse_time(text_or_empty(values, spec.id), diagnostics)?
            }
            OptionId::StopDatetime => {
                self.stop_time = self.parse_time(text_or_empty(values, spec.id), diagnostics)?
            }
            OptionId::RewriteDb => self.add_rewrite(text, diagnostics)?,
            OptionId::ReadFromRemoteServer => {
                self.remote_server_switch = true;
                self.remote = Some(RemoteMode::ByPosition);
            }
            OptionId::ReadFromRemoteMaster | OptionId::ReadFromRemoteSource => {
                self.remote = Some(remote_mode(spec, text, diagnostics)?);
            }
            OptionId::Protocol => {
                self.protocol = Some(PROTOCOLS[match_choice(text, spec.name, &PROTOCOL_WORDS, diagnostics)?]);
            }
            OptionId::SslMode => {
                self.ssl_mode = Some(SSL_MODES[match_choice(text, spec.name, &SSL_MODE_WORDS, diagnostics)?]);
            }
            OptionId::SslFipsMode => {
                self.needs_fips = match_choice(text, spec.name, &FIPS_WORDS, diagnostics)? > 0;
            }
            OptionId::StopNeverSlaveServerId => {
                warn_deprecated(diagnostics, "--stop-never-slave-server-id", Some("--connection-server-id"));
            }
            OptionId::Compress => {
                warn_deprecated(diagnostics, "--compress", Some("--compression-algorithms"))
            }
            OptionId::Password => {
                self.password =
                    Some(argument.map_or_else(|| (self.ask_password)(diagnostics), <[u8]>::to_vec));
            }
            OptionId::StopNever => values.set(OptionId::ToLastLog, OptionValue::Switch(true)),
            OptionId::Table => self.tables.push(TablePattern::new(text)),
            OptionId::Color => {
                self.color = match match_choice(text, spec.name, &COLOR_WORDS, diagnostics)? {
                    0 => ColorMode::Auto,
                    1 => ColorMode::Always,
                    _ => ColorMode::Never,
                };
            }
            OptionId::Where => self.add_condition(text, diagnostics)?,
            _ => {}
        }
        Ok(())
    }
}

/// Returns the mode that `--read-from-remote-source`, or its old name, chooses.
fn remote_mode(
    spec: &OptionEntry,
    text: &[u8],
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<RemoteMode, DumpExit> {
    if spec.id == OptionId::ReadFromRemoteMaster {
        warn_deprecated(diagnostics, "--read-from-remote-master", Some("--read-from-remote-source"));
    }
    Ok(match match_choice(text, spec.name, &REMOTE_WORDS, diagnostics)? {
        0 => RemoteMode::ByPosition,
        _ => RemoteMode::ByGtids,
    })
}

impl ParsedOptions<'_> {
    fn add_condition(&mut self, text: &[u8], diagnostics: &mut DumpDiagnostics<'_>) -> Result<(), DumpExit> {
        match self.lists.add_condition(&String::from_utf8_lossy(text)) {
            Ok(condition) => {
                self.conditions.push(condition);
                Ok(())
            }
            Err(message) => {
                diagnostics.error(&[message.as_bytes()]);
                Err(DumpExit::NOT_STARTED)
            }
        }
    }

    fn stop_for(&mut self, show: HelpRequest) -> Result<(), DumpExit> {
        self.show = Some(show);
        Err(DumpExit(0))
    }
}

fn text_or_empty(values: &OptionValues, key: OptionId) -> &[u8] {
    values.text(key).unwrap_or_default()
}

fn warn_deprecated(diagnostics: &mut DumpDiagnostics<'_>, name: &str, instead: Option<&str>) {
    let start = format!("{name} is deprecated and will be removed in a future version");
    let text = match instead {
        Some(instead) => format!("{start}. Use {instead} instead.\n"),
        None => format!("{start}\n"),
    };
    diagnostics.warning(&[text.as_bytes()]);
}

/// Returns whether the byte is a space in latin1, MySQL's character set for these rules. Includes the no-break space.
fn is_latin1_space(byte: u8) -> bool {
    is_space(byte) || byte == 0xa0
}
