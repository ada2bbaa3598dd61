//! Schemas of Debezium's records and their keys.

use crate::broker_sink::KeyedRecordKind;
use crate::connect_schema::{ConnectField, ConnectKind, ConnectSchema};
use crate::record_table::RecordTable;

/// Version of the envelope of rows.
const ENVELOPE_VERSION: u32 = 2;
/// Values of the field `snapshot`.
const SNAPSHOT_VALUES: &str =
    "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental";

/// Schemas of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSchemas {
    /// Schema of the key; `None` for a table without a primary key.
    pub key: Option<ConnectSchema>,
    /// Schema of the value.
    pub value: ConnectSchema,
}

impl RecordSchemas {
    /// Returns the schemas of the records of a kind in a topic.
    pub fn of(kind: &KeyedRecordKind, topic: &str) -> Self {
        match kind {
            KeyedRecordKind::Row(table) => Self::of_rows(table, topic),
            KeyedRecordKind::Transaction => Self::of_transactions(),
            KeyedRecordKind::Definition => Self::of_definitions(),
            KeyedRecordKind::Heartbeat => Self::of_heartbeats(),
        }
    }

    fn of_rows(table: &RecordTable, topic: &str) -> Self {
        let RecordTable { key, columns, .. } = table;
        let key = (!key.is_empty()).then(|| ConnectSchema {
            version: None,
            ..ConnectSchema::named_struct(&format!("{topic}.Key"), key.clone())
        });
        let row = ConnectSchema::named_struct(&format!("{topic}.Value"), columns.clone());
        let row = ConnectSchema { version: None, ..row }.optional();
        let envelope = vec![
            row.clone().field("before"),
            row.field("after"),
            source().field("source"),
            transaction_block().field("transaction"),
            text().field("op"),
            int64().optional().field("ts_ms"),
            int64().optional().field("ts_us"),
            int64().optional().field("ts_ns"),
        ];
        let value = ConnectSchema::named_struct(&format!("{topic}.Envelope"), envelope);
        Self { key, value: ConnectSchema { version: Some(ENVELOPE_VERSION), ..value } }
    }

    fn of_transactions() -> Self {
        let count = vec![text().field("data_collection"), int64().field("event_count")];
        let count = ConnectSchema::named_struct("event.collection", count).optional();
        let value = vec![
            text().field("status"),
            text().field("id"),
            int64().optional().field("event_count"),
            array(count).optional().field("data_collections"),
            int64().field("ts_ms"),
        ];
        Self {
            key: Some(common("TransactionMetadataKey", vec![text().field("id")])),
            value: common("TransactionMetadataValue", value),
        }
    }

    fn of_definitions() -> Self {
        let value = vec![
            source().field("source"),
            int64().field("ts_ms"),
            text().optional().field("databaseName"),
            text().optional().field("schemaName"),
            text().optional().field("ddl"),
            array(table_change()).field("tableChanges"),
        ];
        let named = |name: &str, fields| {
            ConnectSchema::named_struct(&format!("io.debezium.connector.mysql.{name}"), fields)
        };
        Self {
            key: Some(named("SchemaChangeKey", vec![text().field("databaseName")])),
            value: named("SchemaChangeValue", value),
        }
    }

    fn of_heartbeats() -> Self {
        Self {
            key: Some(common("ServerNameKey", vec![text().field("serverName")])),
            value: common("Heartbeat", vec![int64().field("ts_ms")]),
        }
    }
}

fn text() -> ConnectSchema {
    ConnectSchema::new(ConnectKind::Text)
}

fn int32() -> ConnectSchema {
    ConnectSchema::new(ConnectKind::Int32)
}

fn int64() -> ConnectSchema {
    ConnectSchema::new(ConnectKind::Int64)
}

fn boolean() -> ConnectSchema {
    ConnectSchema::new(ConnectKind::Boolean)
}

fn array(item: ConnectSchema) -> ConnectSchema {
    ConnectSchema::new(ConnectKind::Array(Box::new(item)))
}

/// Returns a struct that all of Debezium's connectors have.
fn common(name: &str, fields: Vec<ConnectField>) -> ConnectSchema {
    ConnectSchema::named_struct(&format!("io.debezium.connector.common.{name}"), fields)
}

/// Returns the schema of the source block.
fn source() -> ConnectSchema {
    let snapshot = ConnectSchema::named(ConnectKind::Text, "io.debezium.data.Enum");
    let snapshot = snapshot.parameter("allowed", SNAPSHOT_VALUES).optional();
    let snapshot = ConnectSchema { default: Some("\"false\"".to_owned()), ..snapshot };
    let fields = vec![
        text().field("version"),
        text().field("connector"),
        text().field("name"),
        int64().field("ts_ms"),
        snapshot.field("snapshot"),
        text().field("db"),
        text().optional().field("sequence"),
        int64().optional().field("ts_us"),
        int64().optional().field("ts_ns"),
        text().optional().field("table"),
        int64().field("server_id"),
        text().optional().field("gtid"),
        text().field("file"),
        int64().field("pos"),
        int32().field("row"),
        int64().optional().field("thread"),
        text().optional().field("query"),
    ];
    ConnectSchema::named_struct("io.debezium.connector.mysql.Source", fields)
}

fn transaction_block() -> ConnectSchema {
    let fields =
        vec![text().field("id"), int64().field("total_order"), int64().field("data_collection_order")];
    ConnectSchema::named_struct("event.block", fields).optional()
}

/// Returns the schema of a change of a table by a DDL statement.
fn table_change() -> ConnectSchema {
    let named = |name: &str, fields| {
        ConnectSchema::named_struct(&format!("io.debezium.connector.schema.{name}"), fields)
    };
    let column = vec![
        text().field("name"),
        int32().field("jdbcType"),
        int32().optional().field("nativeType"),
        text().field("typeName"),
        text().optional().field("typeExpression"),
        text().optional().field("charsetName"),
        int32().optional().field("length"),
        int32().optional().field("scale"),
        int32().field("position"),
        boolean().optional().field("optional"),
        boolean().optional().field("autoIncremented"),
        boolean().optional().field("generated"),
        text().optional().field("comment"),
        text().optional().field("defaultValueExpression"),
        array(text()).optional().field("enumValues"),
    ];
    let table = vec![
        text().optional().field("defaultCharsetName"),
        array(text()).optional().field("primaryKeyColumnNames"),
        array(named("Column", column)).field("columns"),
        text().optional().field("comment"),
    ];
    let table = named("Table", table).optional();
    named("Change", vec![text().field("type"), text().field("id"), table.field("table")])
}
