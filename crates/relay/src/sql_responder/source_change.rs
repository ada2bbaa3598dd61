//! `CHANGE REPLICATION SOURCE TO`: points the receiver to another server.

use binlog::ServerVersion;
use sql::{SqlWord, SqlWords};
use wire::ServerError;

use super::refusals::{receiver_running, replication_password_too_long, unsupported, wrong_arguments};
use super::replica::take_channel;
use super::select_text::offset;
use super::{SqlStatement, done};
use crate::sql_answer::{SqlAnswer, SqlSession};
use crate::upstream_control::{SourceChange, SourceOption};

/// Maximum length of a replication password in characters, as on a server.
const PASSWORD_MAX: usize = 32;

/// Option of the statement.
struct ChangeOption {
    /// Name without `SOURCE_` or `MASTER_`.
    name: &'static str,
    setter: OptionSetter,
}

/// Effect of an option.
enum OptionSetter {
    Text(fn(&mut SourceChange, String) -> Result<(), ServerError>),
    Number(fn(&mut SourceChange, u64) -> Result<(), ServerError>),
    /// The connection option of this name.
    Connection {
        sql_name: &'static str,
        name: &'static str,
    },
    /// Supported by a server, but not by a relay.
    Unsupported(&'static str),
}

use OptionSetter::{Connection, Number, Text, Unsupported};

/// Options with the prefix `SOURCE_` or `MASTER_`.
const OPTIONS: &[ChangeOption] = &[
    ChangeOption { name: "HOST", setter: Text(set_host) },
    ChangeOption { name: "PORT", setter: Number(set_port) },
    ChangeOption {
        name: "USER",
        setter: Text(|change, user| {
            change.user = Some(user);
            Ok(())
        }),
    },
    ChangeOption { name: "PASSWORD", setter: Text(set_password) },
    ChangeOption { name: "AUTO_POSITION", setter: Number(check_auto_position) },
    ChangeOption {
        name: "SSL",
        setter: Number(|change, number| {
            change.is_encrypted = Some(number != 0);
            Ok(())
        }),
    },
    ChangeOption {
        name: "SSL_VERIFY_SERVER_CERT",
        setter: Number(|change, number| {
            change.is_verified = Some(number != 0);
            Ok(())
        }),
    },
    connection("SSL_CA", "SOURCE_SSL_CA", "ssl-ca"),
    connection("SSL_CAPATH", "SOURCE_SSL_CAPATH", "ssl-capath"),
    connection("SSL_CERT", "SOURCE_SSL_CERT", "ssl-cert"),
    connection("SSL_CIPHER", "SOURCE_SSL_CIPHER", "ssl-cipher"),
    connection("SSL_CRL", "SOURCE_SSL_CRL", "ssl-crl"),
    connection("SSL_CRLPATH", "SOURCE_SSL_CRLPATH", "ssl-crlpath"),
    connection("SSL_KEY", "SOURCE_SSL_KEY", "ssl-key"),
    connection("TLS_CIPHERSUITES", "SOURCE_TLS_CIPHERSUITES", "tls-ciphersuites"),
    connection("TLS_VERSION", "SOURCE_TLS_VERSION", "tls-version"),
    connection("PUBLIC_KEY_PATH", "SOURCE_PUBLIC_KEY_PATH", "server-public-key-path"),
    refused("BIND", "SOURCE_BIND"),
    refused("COMPRESSION_ALGORITHMS", "SOURCE_COMPRESSION_ALGORITHMS"),
    refused("CONNECT_RETRY", "SOURCE_CONNECT_RETRY"),
    refused("CONNECTION_AUTO_FAILOVER", "SOURCE_CONNECTION_AUTO_FAILOVER"),
    refused("DELAY", "SOURCE_DELAY"),
    refused("HEARTBEAT_PERIOD", "SOURCE_HEARTBEAT_PERIOD"),
    refused("LOG_FILE", "SOURCE_LOG_FILE"),
    refused("LOG_POS", "SOURCE_LOG_POS"),
    refused("RETRY_COUNT", "SOURCE_RETRY_COUNT"),
    refused("USE_GTID", "MASTER_USE_GTID"),
    refused("ZSTD_COMPRESSION_LEVEL", "SOURCE_ZSTD_COMPRESSION_LEVEL"),
];

/// Options without this prefix that a server supports, but a relay does not.
const OTHER_OPTIONS: [&str; 9] = [
    "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS",
    "GTID_ONLY",
    "IGNORE_SERVER_IDS",
    "NETWORK_NAMESPACE",
    "PRIVILEGE_CHECKS_USER",
    "RELAY_LOG_FILE",
    "RELAY_LOG_POS",
    "REQUIRE_ROW_FORMAT",
    "REQUIRE_TABLE_PRIMARY_KEY_CHECK",
];

const fn connection(name: &'static str, sql_name: &'static str, option: &'static str) -> ChangeOption {
    ChangeOption { name, setter: Connection { sql_name, name: option } }
}

const fn refused(name: &'static str, sql_name: &'static str) -> ChangeOption {
    ChangeOption { name, setter: Unsupported(sql_name) }
}

pub(super) fn change_source(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let change = parse(statement)?;
    let Some(upstream) = statement.relay.upstream_control() else {
        let message = "bintide relay does not support CHANGE REPLICATION SOURCE TO without --from: another program \
                       writes these logs";
        return Err(ServerError::new(1235, "42000", message));
    };
    if upstream.status().is_running {
        return Err(receiver_running());
    }
    let is_mariadb = ServerVersion::parse(&statement.relay.server().version).is_mariadb();
    if is_mariadb && (change.host.is_some() || change.port.is_some()) {
        // The GTIDs of MariaDB do not show whether another server has all stored transactions.
        return Err(unsupported("another source for logs of MariaDB"));
    }
    upstream.change_source(&change)?;
    session.record_change(change.to_string());
    let message = "The relay uses this source until it stops. To keep it after a restart, also change --from";
    session.note(message);
    Ok(done())
}

fn parse(statement: &mut SqlStatement<'_>) -> Result<SourceChange, ServerError> {
    let mut change = SourceChange::default();
    loop {
        take_option(statement, &mut change)?;
        if !statement.words.take_sign(",") {
            break;
        }
    }
    take_channel(statement)?;
    statement.expect_end()?;
    Ok(change)
}

fn take_option(statement: &mut SqlStatement<'_>, change: &mut SourceChange) -> Result<(), ServerError> {
    let start = offset(&statement.words);
    let Some(SqlWord::Plain(name)) = statement.words.take_next() else {
        return Err(statement.error_at(start));
    };
    let name = name.to_ascii_uppercase();
    if ["GET_SOURCE_PUBLIC_KEY", "GET_MASTER_PUBLIC_KEY"].contains(&name.as_str()) {
        change.asks_public_key = Some(take_number(statement)? != 0);
        return Ok(());
    }
    if let Some(other) = OTHER_OPTIONS.into_iter().find(|other| *other == name) {
        return Err(unsupported_option(other));
    }
    let short = ["SOURCE_", "MASTER_"].into_iter().find_map(|prefix| name.strip_prefix(prefix));
    let option = OPTIONS.iter().find(|option| Some(option.name) == short);
    match &option.ok_or_else(|| statement.error_at(start))?.setter {
        Text(set) => set(change, take_text(statement)?),
        Number(set) => set(change, take_number(statement)?),
        Connection { sql_name, name } => {
            let value = take_text(statement)?;
            change.options.push(SourceOption { sql_name, name, value });
            Ok(())
        }
        Unsupported(sql_name) => Err(unsupported_option(sql_name)),
    }
}

fn unsupported_option(name: &str) -> ServerError {
    let message = format!("bintide relay does not support {name} in CHANGE REPLICATION SOURCE TO");
    ServerError::new(1235, "42000", message)
}

/// Takes `= 'text'`.
fn take_text(statement: &mut SqlStatement<'_>) -> Result<String, ServerError> {
    take_value(statement, |word| match word {
        SqlWord::Text(text) => Some(text.clone()),
        _ => None,
    })
}

/// Takes `= number`.
fn take_number(statement: &mut SqlStatement<'_>) -> Result<u64, ServerError> {
    take_value(statement, |word| match word {
        SqlWord::Number(digits) => digits.parse().ok(),
        _ => None,
    })
}

fn take_value<T>(
    statement: &mut SqlStatement<'_>,
    read: fn(&SqlWord) -> Option<T>,
) -> Result<T, ServerError> {
    let words: &mut SqlWords = &mut statement.words;
    let value = if words.take_sign("=") { words.peek().and_then(read) } else { None };
    let value = value.ok_or_else(|| statement.syntax_error())?;
    statement.words.skip();
    Ok(value)
}

fn set_host(change: &mut SourceChange, host: String) -> Result<(), ServerError> {
    if host.is_empty() {
        return Err(wrong_arguments("SOURCE_HOST"));
    }
    change.host = Some(host);
    Ok(())
}

fn set_port(change: &mut SourceChange, port: u64) -> Result<(), ServerError> {
    let port = u16::try_from(port).ok().filter(|port| *port > 0);
    change.port = Some(port.ok_or_else(|| wrong_arguments("SOURCE_PORT"))?);
    Ok(())
}

fn set_password(change: &mut SourceChange, password: String) -> Result<(), ServerError> {
    if password.chars().count() > PASSWORD_MAX {
        return Err(replication_password_too_long());
    }
    change.password = Some(password);
    Ok(())
}

/// Checks the value. A relay itself chooses: file and position for the same server, GTIDs for another server.
fn check_auto_position(_: &mut SourceChange, number: u64) -> Result<(), ServerError> {
    if number == 0 { Err(unsupported_option("SOURCE_AUTO_POSITION = 0")) } else { Ok(()) }
}
