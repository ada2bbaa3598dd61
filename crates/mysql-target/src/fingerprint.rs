//! A hash of the definitions on a server. Shows whether a statement that changes definitions has run.

use replay::TargetFailure;
use servers::SqlConnection;
use sha2::{Digest as _, Sha256};
use sql::quote::{self, put_hex};

use crate::server_failure::server_failure;

/// Placeholder for the fingerprint, used if the server records the statement's GTID atomically with the statement.
pub(crate) const BY_GTID: &str = "gtid";

/// Queries about databases. Each ends in a condition on the database name.
const DATABASE_QUERIES: [&str; 11] = [
    "SELECT * FROM information_schema.schemata WHERE schema_name",
    "SELECT table_schema, table_name, table_type, engine, row_format, create_options, table_collation, table_comment,
       create_time FROM information_schema.tables WHERE table_schema",
    "SELECT * FROM information_schema.columns WHERE table_schema",
    "SELECT table_schema, table_name, index_name, seq_in_index, column_name, sub_part, non_unique, index_type, comment,
       index_comment FROM information_schema.statistics WHERE table_schema",
    "SELECT table_schema, table_name, partition_name, subpartition_name, partition_ordinal_position, partition_method,
       subpartition_method, partition_expression, partition_description FROM information_schema.partitions
       WHERE table_schema",
    "SELECT * FROM information_schema.key_column_usage WHERE table_schema",
    "SELECT * FROM information_schema.referential_constraints WHERE constraint_schema",
    "SELECT * FROM information_schema.views WHERE table_schema",
    "SELECT * FROM information_schema.triggers WHERE trigger_schema",
    "SELECT * FROM information_schema.routines WHERE routine_schema",
    // Without the time of the last execution, and the state that an execution changes.
    "SELECT event_schema, event_name, definer, time_zone, event_definition, event_type, execute_at, interval_value,
       interval_field, sql_mode, starts, ends, on_completion, created, last_altered, event_comment, originator,
       character_set_client, collation_connection, database_collation FROM information_schema.events
       WHERE event_schema",
];

/// Queries about the whole server: ids that change with each table rebuild, and accounts. Refused queries are ignored.
const SERVER_QUERIES: [&str; 9] = [
    "SELECT name, table_id, space FROM information_schema.innodb_tables ORDER BY name",
    // `innodb_tables` has this name before MySQL 8.0 and in MariaDB.
    "SELECT name, table_id, space FROM information_schema.innodb_sys_tables ORDER BY name",
    "SELECT * FROM information_schema.user_privileges ORDER BY 1, 2, 3, 4",
    "SELECT * FROM information_schema.schema_privileges ORDER BY 1, 2, 3, 4, 5",
    "SELECT * FROM information_schema.table_privileges ORDER BY 1, 2, 3, 4, 5",
    "SELECT * FROM information_schema.column_privileges ORDER BY 1, 2, 3, 4, 5, 6",
    "SELECT host, user, authentication_string, password_expired, account_locked, user_attributes FROM mysql.user",
    "SELECT * FROM mysql.role_edges",
    "SELECT * FROM mysql.procs_priv",
];

/// Computes the fingerprint of these databases, or of all if the list is empty.
pub(crate) fn compute(
    connection: &mut SqlConnection,
    databases: &[Vec<u8>],
) -> Result<String, TargetFailure> {
    let condition = condition(databases);
    let mut hash = Sha256::new();
    for question in DATABASE_QUERIES {
        let question = format!("{question} {condition}");
        add_rows(&mut hash, connection.rows(&question).map_err(server_failure)?);
    }
    for question in SERVER_QUERIES {
        match connection.rows(question) {
            Ok(rows) => add_rows(&mut hash, rows),
            Err(servers::ConnectionError::Refused { .. }) => {}
            Err(error) => return Err(server_failure(error)),
        }
    }
    let mut out = String::new();
    put_hex(&mut out, &hash.finalize());
    Ok(out)
}

fn condition(databases: &[Vec<u8>]) -> String {
    if databases.is_empty() {
        return "NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema', 'bintide')".to_owned();
    }
    let names: Vec<String> = databases.iter().map(|name| quote::hex_value(name)).collect();
    format!("IN ({})", names.join(", "))
}

/// Adds rows in sorted order, because a server returns them in any order.
fn add_rows(hash: &mut Sha256, mut rows: Vec<servers::ResultRow>) {
    rows.sort();
    hash.update((rows.len() as u64).to_le_bytes());
    for value in rows.iter().flatten() {
        let bytes = value.as_deref().unwrap_or(b"\0NULL");
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
}
