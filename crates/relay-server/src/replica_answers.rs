//! Answers to the SQL that replicas send before they request a log.

use relay::{RelayFacts, SqlAnswer, SqlColumn, SqlColumnKind, SqlRows, SqlSession, SqlValue};
use wire::ServerError;

/// Runs a statement.
pub(crate) fn execute(facts: &dyn RelayFacts, sql: &str, session: &mut SqlSession) -> SqlAnswer {
    let text = sql.trim().trim_end_matches(';');
    let lower = text.to_ascii_lowercase();
    if let Some(assignments) = lower.strip_prefix("set ") {
        for part in assignments.split(',') {
            if let Some((name, value)) = part.split_once('=')
                && let Some(name) = name.trim().strip_prefix('@').filter(|name| !name.starts_with('@'))
            {
                session.user_variables.insert(name.to_owned(), literal(value.trim()));
            }
        }
        return SqlAnswer::Done(0);
    }
    if let Some(expression) = lower.strip_prefix("select ") {
        let server = facts.server();
        let value = match expression.trim() {
            "unix_timestamp()" => SqlValue::Int(now_s()),
            "@@global.server_id" => SqlValue::Int(server.server_id.into()),
            "@@global.server_uuid" => SqlValue::Text(server.server_uuid),
            "@@global.gtid_mode" => SqlValue::Text("ON".to_owned()),
            "version()" => SqlValue::Text(server.version),
            "1" => SqlValue::Int(1),
            other => match other.strip_prefix('@').filter(|name| !name.starts_with('@')) {
                Some(name) => session.user_variables.get(name).cloned().unwrap_or(SqlValue::Null),
                None => {
                    let message = format!("Unknown system variable '{other}'");
                    return SqlAnswer::Refused(ServerError::new(1193, "HY000", message));
                }
            },
        };
        return row(&[(expression, value)]);
    }
    if lower.starts_with("show variables like 'server_id'") {
        let id = SqlValue::Text(facts.server().server_id.to_string());
        return row(&[("Variable_name", SqlValue::Text("server_id".to_owned())), ("Value", id)]);
    }
    SqlAnswer::Refused(ServerError::new(1064, "42000", "You have an error in your SQL syntax"))
}

fn literal(text: &str) -> SqlValue {
    match text {
        "@@global.binlog_checksum" => SqlValue::Text("CRC32".to_owned()),
        text => match text.parse() {
            Ok(number) => SqlValue::Int(number),
            Err(_) => SqlValue::Text(text.trim_matches(['\'', '"']).to_owned()),
        },
    }
}

fn row(values: &[(&str, SqlValue)]) -> SqlAnswer {
    let column = |(name, value): &(&str, SqlValue)| SqlColumn {
        name: (*name).to_owned(),
        kind: if matches!(value, SqlValue::Int(_)) { SqlColumnKind::Integer } else { SqlColumnKind::Text },
    };
    SqlAnswer::Rows(SqlRows {
        columns: values.iter().map(column).collect(),
        rows: vec![values.iter().map(|(_, value)| value.clone()).collect()],
    })
}

fn now_s() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() as i64)
}
