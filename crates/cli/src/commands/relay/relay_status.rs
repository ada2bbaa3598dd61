//! `bintide relay status`: state of running relays.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use servers::{ConnectionError, ConnectionOptions, ServerAddress, SqlConnection};
use tracing::error;

use crate::connection_args::ConnectionArgs;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict, failure_message};
use crate::global_args::GlobalArgs;
use crate::json_document::write_document;
use crate::screen::{self, ReportStyle, table_lines};
use crate::units::{bytes, count, duration, share};

/// Arguments of `relay status`.
#[derive(Args, Debug)]
pub(super) struct StatusArgs {
    /// Relays, as mysql://USER@HOST:PORT/. Without PORT, the port is 3306. Without USER, the user is the login name.
    /// The account needs the role monitor or admin [default, without any connection option: user monitor on 127.0.0.1,
    /// port 3307]
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Print the status as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Address of a relay with default options.
const DEFAULT_ADDRESS: &str = "mysql://127.0.0.1:3307/";
/// Account at the default address, unless an option names another one.
const DEFAULT_USER: &str = "monitor";
/// Maximum number of logs in the text, which shows the newest.
const LOGS_SHOWN_MAX: usize = 10;
/// Maximum wait for a relay's answer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

/// A table of the status, and its columns that are not numbers.
struct StatusTable {
    key: &'static str,
    query: &'static str,
    texts: &'static [&'static str],
}

const STATUS_TABLES: [StatusTable; 5] = [
    StatusTable {
        key: "server",
        query: "SELECT VERSION() AS version, @@server_id AS server_id, @@server_uuid AS server_uuid",
        texts: &["version", "server_uuid"],
    },
    StatusTable {
        key: "upstream",
        query: "SELECT * FROM bintide.upstream",
        texts: &["sources", "connected", "log", "error"],
    },
    StatusTable {
        key: "clients",
        query: "SELECT * FROM bintide.clients ORDER BY connection_id",
        texts: &[
            "user",
            "host",
            "program",
            "version",
            "form",
            "server_uuid",
            "command",
            "state",
            "log",
            "last_commit",
        ],
    },
    StatusTable { key: "forms", query: "SELECT * FROM bintide.forms", texts: &["form"] },
    StatusTable {
        key: "logs",
        query: "SELECT * FROM bintide.log_sizes",
        texts: &["name", "form", "complete"],
    },
];

/// Prints the status of each relay. After a relay that cannot be queried, continues with the others.
pub(super) fn run(command: &StatusArgs, global: &GlobalArgs) -> CommandResult {
    let (mut documents, mut failures) = (Vec::new(), Vec::new());
    for address in command.addresses(global)? {
        match read_status(&address) {
            Ok(document) => documents.push(document),
            Err(error) => failures.push(status_failure(error, &address)),
        }
    }
    if !documents.is_empty() {
        let mut out = io::stdout().lock();
        if command.json {
            write_document(&mut out, &json!({ "relays": documents }))?;
        } else {
            let style = ReportStyle::new(global.color.on_stdout());
            let texts: Vec<String> = documents.iter().map(|document| status_text(document, style)).collect();
            screen::print(&texts.join("\n"), &mut out)?;
        }
    }
    let Some(last) = failures.pop() else { return Ok(CommandVerdict::Success) };
    failures.iter().for_each(|failure| error!("{}", failure_message(failure)));
    Err(last)
}

impl StatusArgs {
    fn addresses(&self, global: &GlobalArgs) -> Result<Vec<ServerAddress>, CommandFailure> {
        let is_default = self.addresses.is_empty() && !self.connection.names_server();
        let texts: Vec<Option<&str>> = match self.addresses.as_slice() {
            [] if is_default => vec![Some(DEFAULT_ADDRESS)],
            [] => vec![None],
            named => named.iter().map(|text| Some(text.as_str())).collect(),
        };
        // A relay of this machine without accounts accepts every name.
        let user = is_default.then(|| DEFAULT_USER.to_owned());
        let own = ConnectionOptions { user, ..ConnectionOptions::default() };
        let address = |text: Option<&str>| {
            let found = self.connection.address_with(text, "ADDRESS", &own, global)?;
            Ok(ServerAddress { timeout: STATUS_TIMEOUT, ..found })
        };
        texts.into_iter().map(address).collect()
    }
}

fn status_failure(error: ConnectionError, address: &ServerAddress) -> CommandFailure {
    let what = match &error {
        // The error names the relay.
        ConnectionError::Lost { endpoint: Some(_), .. } => "could not read the relay's status".to_owned(),
        _ => format!("could not read the status of the relay at {}", address.endpoint()),
    };
    CommandFailure::Failed(anyhow::Error::new(error).context(what))
}

fn read_status(address: &ServerAddress) -> Result<Value, ConnectionError> {
    let mut connection = SqlConnection::open(address)?;
    let mut document = Map::new();
    document.insert("address".to_owned(), address.endpoint().into());
    for table in &STATUS_TABLES {
        let rows = connection.named_rows(table.query)?;
        let rows = rows.into_iter().map(|row| {
            let values = row.into_iter().map(|(name, value)| {
                let value = status_value(value, table.texts.contains(&name.as_str()));
                (name, value)
            });
            Value::Object(values.collect())
        });
        document.insert(table.key.to_owned(), rows.collect());
    }
    Ok(document.into())
}

fn status_value(value: Option<Vec<u8>>, is_text: bool) -> Value {
    let Some(value) = value else { return Value::Null };
    let text = String::from_utf8_lossy(&value).into_owned();
    match text.parse::<serde_json::Number>() {
        Ok(number) if !is_text => number.into(),
        _ => text.into(),
    }
}

/// Returns the status as text.
fn status_text(document: &Value, style: ReportStyle) -> String {
    let rows = |key: &str| document[key].as_array().map_or(&[][..], Vec::as_slice);
    let server = rows("server").first().unwrap_or(&Value::Null);
    let title = format!("Relay {}, server version {}", text(document, "address"), text(server, "version"));
    let sections = [
        ("Source", upstream_lines(rows("upstream"))),
        ("Clients", client_table(rows("clients"), style)),
        ("Forms", form_table(rows("forms"), style)),
        ("Logs", log_table(rows("logs"), style)),
    ];
    format!("{title}\n\n{}", style.sections(&sections))
}

fn text<'v>(row: &'v Value, name: &str) -> &'v str {
    row[name].as_str().unwrap_or_default()
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_default()
}

/// Returns a number as text; an empty text if unknown.
fn shown(row: &Value, name: &str, show: fn(u64) -> String) -> String {
    row[name].as_u64().map_or(String::new(), show)
}

fn seconds(row: &Value, name: &str) -> String {
    match row[name].as_f64() {
        None => String::new(),
        Some(0.0) => "0 s".to_owned(),
        Some(seconds) => duration(Duration::try_from_secs_f64(seconds).unwrap_or_default()),
    }
}

fn upstream_lines(rows: &[Value]) -> String {
    let Some(row) = rows.first() else { return "none: another program writes the logs\n".to_owned() };
    let state = match text(row, "connected") {
        "Yes" => "connected".to_owned(),
        _ => format!("not connected: {}", row["error"].as_str().unwrap_or("no error yet")),
    };
    let mut lines = format!("{}: {state}\n", text(row, "sources"));
    if !text(row, "log").is_empty() {
        let position = format!("{} at {}", text(row, "log"), count(number(row, "position")));
        lines += &format!(
            "{position}, lag {}, received {}\n",
            seconds(row, "lag_seconds"),
            bytes(number(row, "bytes_received"))
        );
    }
    lines
}

fn client_table(rows: &[Value], style: ReportStyle) -> String {
    let reading: Vec<&Value> = rows.iter().filter(|row| row["form"].is_string()).collect();
    if reading.is_empty() {
        return "no client reads logs\n".to_owned();
    }
    let mut table = style.table(&[
        ">connection",
        "user",
        "host",
        "form",
        "log",
        ">position",
        ">lag",
        ">transactions",
        ">bytes",
        ">sent",
        ">saved",
    ]);
    for row in reading {
        table.add_row([
            number(row, "connection_id").to_string(),
            text(row, "user").to_owned(),
            text(row, "host").to_owned(),
            text(row, "form").to_owned(),
            text(row, "log").to_owned(),
            shown(row, "position", count),
            seconds(row, "lag_seconds"),
            shown(row, "lag_transactions", count),
            shown(row, "lag_bytes", bytes),
            bytes(number(row, "bytes_sent")),
            bytes(number(row, "bytes_saved")),
        ]);
    }
    table_lines(&table)
}

fn form_table(rows: &[Value], style: ReportStyle) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table =
        style.table(&["form", ">clients", ">sent", ">saved", ">rendered", ">CPU time", ">memory"]);
    for row in rows {
        table.add_row([
            text(row, "form").to_owned(),
            count(number(row, "clients")),
            shown(row, "total_bytes_sent", bytes),
            shown(row, "total_bytes_saved", bytes),
            shown(row, "rendered_bytes", bytes),
            seconds(row, "render_seconds"),
            shown(row, "cached_bytes", bytes),
        ]);
    }
    table_lines(&table)
}

/// Returns the newest logs with their size in each form, and the savings compared with the largest form.
fn log_table(rows: &[Value], style: ReportStyle) -> String {
    let mut forms: Vec<&str> = Vec::new();
    let mut logs: BTreeMap<&str, BTreeMap<&str, &Value>> = BTreeMap::new();
    for row in rows {
        let form = text(row, "form");
        if !forms.contains(&form) {
            forms.push(form);
        }
        logs.entry(text(row, "name")).or_default().insert(form, row);
    }
    let columns: Vec<String> =
        std::iter::once("log".to_owned()).chain(forms.iter().map(|form| format!(">{form}"))).collect();
    let mut table = style.table(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    let hidden = logs.len().saturating_sub(LOGS_SHOWN_MAX);
    for (name, sizes) in logs.into_iter().skip(hidden) {
        let size = |form: &&str| sizes.get(form).map_or(String::new(), |row| size_text(row));
        table.add_row(std::iter::once(name.to_owned()).chain(forms.iter().map(size)));
    }
    let older = if hidden > 0 { format!("and {} older ones\n", count(hidden as u64)) } else { String::new() };
    table_lines(&table) + &older
}

/// Returns a size, and for a rendered form its relation to the stored log.
fn size_text(row: &Value) -> String {
    let (size, stored) = (number(row, "size"), number(row, "stored_size"));
    match text(row, "form") {
        "as-is" => bytes(size),
        _ if stored <= 4 => String::new(),
        _ => format!("{} ({})", bytes(size), share(size, stored)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{status_text, status_value};
    use crate::screen::ReportStyle;

    #[test]
    fn numeric_values_become_json_numbers() {
        assert_eq!(status_value(Some(b"12".to_vec()), false), json!(12));
        assert_eq!(status_value(Some(b"0.25".to_vec()), false), json!(0.25));
        assert_eq!(status_value(Some(b"12".to_vec()), true), json!("12"));
        assert_eq!(status_value(None, false), json!(null));
    }

    #[test]
    fn status_text_is_formatted() {
        let document = json!({
            "address": "127.0.0.1:3307",
            "server": [{ "version": "9.7.4" }],
            "upstream": [{ "sources": "db1:3306", "connected": "No", "error": "refused", "log": "b.000002",
                "position": 4711, "lag_seconds": 5, "bytes_received": 2_000_000 }],
            "clients": [
                { "connection_id": 3, "user": "repl", "host": "10.0.0.3:4000", "form": "plain", "log": "b.000002",
                  "position": 500, "lag_seconds": 1.5, "lag_transactions": 2, "lag_bytes": 500,
                  "bytes_sent": 1500, "bytes_saved": 0 },
                { "connection_id": 4, "user": "me", "host": "10.0.0.4:4000", "form": null },
            ],
            "forms": [{ "form": "plain", "clients": 1, "total_bytes_sent": 1500, "total_bytes_saved": 0,
                "rendered_bytes": 1500, "render_seconds": 0.25, "cached_bytes": 1500 }],
            "logs": [
                { "name": "b.000001", "form": "as-is", "size": 1000, "stored_size": 1000 },
                { "name": "b.000001", "form": "plain", "size": 2500, "stored_size": 1000 },
            ],
        });
        let text = status_text(&document, ReportStyle::new(false));
        for expected in [
            "Relay 127.0.0.1:3307, server version 9.7.4",
            "db1:3306: not connected: refused",
            "b.000002 at 4,711, lag 5.0 s, received 2.0 MB",
            "10.0.0.3:4000",
            "1.5 s",
            "2.5 kB (250.0 %)",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("10.0.0.4"), "clients that read no logs must be left out\n{text}");
    }
}
