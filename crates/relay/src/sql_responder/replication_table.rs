//! Tables of `performance_schema` about replication. A relay receives logs, but applies no transactions and is in no
//! group, so most tables have no rows.

use wire::ServerError;

use super::system_variable::VariableContext;
use crate::sql_answer::{SqlColumnSpec, SqlRows, SqlValue, double, integer, text};

type TableResult = Result<SqlRows, ServerError>;

/// Columns of `replication_connection_configuration`.
const CONFIGURATION: &[SqlColumnSpec] = &[
    text("CHANNEL_NAME"),
    text("HOST"),
    integer("PORT"),
    text("USER"),
    text("NETWORK_INTERFACE"),
    text("AUTO_POSITION"),
    text("SSL_ALLOWED"),
    text("SSL_CA_FILE"),
    text("SSL_CA_PATH"),
    text("SSL_CERTIFICATE"),
    text("SSL_CIPHER"),
    text("SSL_KEY"),
    text("SSL_VERIFY_SERVER_CERTIFICATE"),
    text("SSL_CRL_FILE"),
    text("SSL_CRL_PATH"),
    integer("CONNECTION_RETRY_INTERVAL"),
    integer("CONNECTION_RETRY_COUNT"),
    double("HEARTBEAT_INTERVAL"),
    text("TLS_VERSION"),
    text("PUBLIC_KEY_PATH"),
    text("GET_PUBLIC_KEY"),
    text("NETWORK_NAMESPACE"),
    text("COMPRESSION_ALGORITHM"),
    integer("ZSTD_COMPRESSION_LEVEL"),
    text("TLS_CIPHERSUITES"),
    text("SOURCE_CONNECTION_AUTO_FAILOVER"),
    text("GTID_ONLY"),
];

/// Returns one row for the relay's connection to its source. Values that the relay does not know are NULL.
pub(super) fn connection_configuration(context: &VariableContext<'_>) -> TableResult {
    let Some(upstream) = context.relay.upstream_control() else {
        return Ok(SqlRows::new(CONFIGURATION, Vec::new()));
    };
    let status = upstream.status();
    let has_failover = if status.sources.len() > 1 { "1" } else { "0" };
    let value = |column: &SqlColumnSpec| -> SqlValue {
        match column.name {
            "CHANNEL_NAME" => "".into(),
            "HOST" => status.host.as_str().into(),
            "PORT" => SqlValue::UInt(status.port.into()),
            "USER" => status.user.as_str().into(),
            "HEARTBEAT_INTERVAL" => SqlValue::Double(status.heartbeat_interval.as_secs_f64()),
            "SOURCE_CONNECTION_AUTO_FAILOVER" => has_failover.into(),
            _ => SqlValue::Null,
        }
    };
    Ok(SqlRows::new(CONFIGURATION, vec![CONFIGURATION.iter().map(value).collect()]))
}

pub(super) fn applier_status(context: &VariableContext<'_>) -> TableResult {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("CHANNEL_NAME"),
        text("SERVICE_STATE"),
        integer("REMAINING_DELAY"),
        integer("COUNT_TRANSACTIONS_RETRIES"),
    ];
    // As SHOW REPLICA STATUS: the relay applies nothing.
    let row = || vec!["".into(), "OFF".into(), SqlValue::Null, SqlValue::UInt(0)];
    let rows = context.relay.upstream_control().map(|_| row()).into_iter().collect();
    Ok(SqlRows::new(COLUMNS, rows))
}

pub(super) fn applier_coordinators(_: &VariableContext<'_>) -> TableResult {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("CHANNEL_NAME"),
        integer("THREAD_ID"),
        text("SERVICE_STATE"),
        integer("LAST_ERROR_NUMBER"),
        text("LAST_ERROR_MESSAGE"),
        text("LAST_ERROR_TIMESTAMP"),
        text("LAST_PROCESSED_TRANSACTION"),
        text("LAST_PROCESSED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
        text("LAST_PROCESSED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
        text("LAST_PROCESSED_TRANSACTION_START_BUFFER_TIMESTAMP"),
        text("LAST_PROCESSED_TRANSACTION_END_BUFFER_TIMESTAMP"),
        text("PROCESSING_TRANSACTION"),
        text("PROCESSING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
        text("PROCESSING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
        text("PROCESSING_TRANSACTION_START_BUFFER_TIMESTAMP"),
    ];
    Ok(SqlRows::new(COLUMNS, Vec::new()))
}

pub(super) fn applier_workers(_: &VariableContext<'_>) -> TableResult {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("CHANNEL_NAME"),
        integer("WORKER_ID"),
        integer("THREAD_ID"),
        text("SERVICE_STATE"),
        integer("LAST_ERROR_NUMBER"),
        text("LAST_ERROR_MESSAGE"),
        text("LAST_ERROR_TIMESTAMP"),
        text("LAST_APPLIED_TRANSACTION"),
        text("LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
        text("LAST_APPLIED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
        text("LAST_APPLIED_TRANSACTION_START_APPLY_TIMESTAMP"),
        text("LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP"),
        text("APPLYING_TRANSACTION"),
        text("APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
        text("APPLYING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
        text("APPLYING_TRANSACTION_START_APPLY_TIMESTAMP"),
    ];
    Ok(SqlRows::new(COLUMNS, Vec::new()))
}

pub(super) fn group_members(_: &VariableContext<'_>) -> TableResult {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("CHANNEL_NAME"),
        text("MEMBER_ID"),
        text("MEMBER_HOST"),
        integer("MEMBER_PORT"),
        text("MEMBER_STATE"),
        text("MEMBER_ROLE"),
        text("MEMBER_VERSION"),
        text("MEMBER_COMMUNICATION_STACK"),
    ];
    Ok(SqlRows::new(COLUMNS, Vec::new()))
}

pub(super) fn group_member_stats(_: &VariableContext<'_>) -> TableResult {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("CHANNEL_NAME"),
        text("VIEW_ID"),
        text("MEMBER_ID"),
        integer("COUNT_TRANSACTIONS_IN_QUEUE"),
        integer("COUNT_TRANSACTIONS_CHECKED"),
        integer("COUNT_CONFLICTS_DETECTED"),
        integer("COUNT_TRANSACTIONS_ROWS_VALIDATING"),
        text("TRANSACTIONS_COMMITTED_ALL_MEMBERS"),
        text("LAST_CONFLICT_FREE_TRANSACTION"),
        integer("COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE"),
        integer("COUNT_TRANSACTIONS_REMOTE_APPLIED"),
        integer("COUNT_TRANSACTIONS_LOCAL_PROPOSED"),
        integer("COUNT_TRANSACTIONS_LOCAL_ROLLBACK"),
    ];
    Ok(SqlRows::new(COLUMNS, Vec::new()))
}
