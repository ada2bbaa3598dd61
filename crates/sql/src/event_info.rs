//! The Info column of `SHOW BINLOG EVENTS`.

use binlog::events::{
    ExecuteLoadQuery, FormatDescription, GtidEvent, GtidTagged, Incident, Intvar, IntvarKind, LoadBlock,
    MariadbGtid, MariadbGtidEvent, MariadbGtidList, Query, Rand, Rotate, Rows, RowsFlags, StatusVar,
    TableMap, TransactionContext, TransactionPayload, UserVar, UserVarValue, XaPrepare,
};
use binlog::gtid::GtidSet;
use binlog::{Collation, Cursor, Decimal, DecodeError, Event, EventFlags, EventFormat, EventHeader, Flavour};

use crate::numbers::{put_i64, put_shortest, put_u64};
use crate::quote;

/// Appends the event's Info column, as printed by the server.
///
/// # Errors
///
/// Fails if a part of the event that is decoded on demand is invalid.
pub fn put_info(
    out: &mut Vec<u8>,
    header: &EventHeader,
    format: &EventFormat,
    event: &Event<'_>,
) -> Result<(), DecodeError> {
    match event {
        Event::FormatDescription(event) => put_format(out, event),
        Event::PreviousGtids(event) => {
            let set = GtidSet::decode(event.set)?;
            put(out, &[set.to_server_text().to_string().as_bytes()]);
        }
        Event::Query(event) => put_query(out, header.flags, event)?,
        Event::Rotate(event) => put_rotate(out, event),
        Event::Intvar(event) => put_intvar(out, event),
        Event::Rand(event) => put_rand(out, event),
        Event::UserVar(event) => put_user_var(out, format, event)?,
        Event::Xid(event) => put_numbered(out, "COMMIT /* xid=", event.xid, " */"),
        Event::BeginLoadQuery(event) | Event::AppendBlock(event) => put_load_block(out, event),
        Event::DeleteFile(event) => put_numbered(out, ";file_id=", event.file_id.into(), ""),
        Event::ExecuteLoadQuery(event) => put_load_query(out, event),
        Event::TableMap(event) => put_table_map(out, event),
        Event::Incident(event) => put_incident(out, event),
        Event::RowsQuery(event) => put(out, &[b"# ", event.sql]),
        Event::Gtid(event) => put_gtid(out, event),
        Event::GtidTagged(event) => put_gtid_tagged(out, event),
        Event::AnonymousGtid(_) => put(out, &[b"SET @@SESSION.GTID_NEXT= 'ANONYMOUS'"]),
        Event::XaPrepare(event) => put_xa_prepare(out, event),
        Event::TransactionPayload(event) => put_payload(out, event),
        Event::ViewChange(event) => put(out, &[b"view_id=", event.view_name()]),
        Event::TransactionContext(event) => put_context(out, event),
        Event::Ignorable(_) | Event::Unknown(_) => put(out, &[b"# Unrecognized ignorable event"]),
        _ => match event.rows() {
            Some(rows) => put_rows(out, rows),
            None => put_mariadb_info(out, header, event)?,
        },
    }
    Ok(())
}

/// Appends the Info column of events that only MariaDB writes, as in MariaDB's `SHOW BINLOG EVENTS`.
fn put_mariadb_info(out: &mut Vec<u8>, header: &EventHeader, event: &Event<'_>) -> Result<(), DecodeError> {
    match event {
        Event::MariadbAnnotateRows(event) => put(out, &[event.sql]),
        Event::MariadbBinlogCheckpoint(event) => put(out, &[event.file]),
        Event::MariadbGtid(event) => put_mariadb_gtid(out, header, event)?,
        Event::MariadbGtidList(event) => put_mariadb_gtid_list(out, event),
        _ => {}
    }
    Ok(())
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn put_numbered(out: &mut Vec<u8>, before: &str, number: u64, after: &str) {
    out.extend_from_slice(before.as_bytes());
    put_u64(out, number);
    out.extend_from_slice(after.as_bytes());
}

fn put_format(out: &mut Vec<u8>, event: &FormatDescription<'_>) {
    put(out, &[b"Server ver: ", event.version()]);
    put_numbered(out, ", Binlog ver: ", event.binlog_version.into(), "");
}

fn put_query(out: &mut Vec<u8>, flags: EventFlags, event: &Query<'_>) -> Result<(), DecodeError> {
    if !flags.contains(EventFlags::SUPPRESS_USE) {
        put_use(out, event.database);
    }
    put_statement(out, event.sql);
    for var in event.status.iter() {
        if let StatusVar::DdlXid(xid) = var? {
            put_numbered(out, " /* xid=", xid, " */");
        }
    }
    Ok(())
}

fn put_use(out: &mut Vec<u8>, database: &[u8]) {
    if !database.is_empty() {
        out.extend_from_slice(b"use ");
        quote::put_name(out, database);
        out.extend_from_slice(b"; ");
    }
}

/// Appends a statement up to its first zero byte: the server reads it as a C string.
fn put_statement(out: &mut Vec<u8>, sql: &[u8]) {
    let end = sql.iter().position(|byte| *byte == 0).unwrap_or(sql.len());
    out.extend_from_slice(&sql[..end]);
}

fn put_load_query(out: &mut Vec<u8>, event: &ExecuteLoadQuery<'_>) {
    put_use(out, event.query.database);
    put_statement(out, event.query.sql);
    put_numbered(out, " ;file_id=", event.file_id.into(), "");
}

fn put_load_block(out: &mut Vec<u8>, event: &LoadBlock<'_>) {
    put_numbered(out, ";file_id=", event.file_id.into(), "");
    put_numbered(out, ";block_len=", event.block.len() as u64, "");
}

fn put_rotate(out: &mut Vec<u8>, event: &Rotate<'_>) {
    put(out, &[event.file]);
    put_numbered(out, ";pos=", event.position, "");
}

fn put_intvar(out: &mut Vec<u8>, event: &Intvar) {
    put(out, &[intvar_name(event.kind).as_bytes()]);
    put_numbered(out, "=", event.value, "");
}

/// Returns MySQL's name of the variable.
pub const fn intvar_name(kind: IntvarKind) -> &'static str {
    match kind {
        IntvarKind::LastInsertId => "LAST_INSERT_ID",
        IntvarKind::InsertId => "INSERT_ID",
        _ => "INVALID_INT",
    }
}

fn put_rand(out: &mut Vec<u8>, event: &Rand) {
    put_numbered(out, "rand_seed1=", event.seed1, "");
    put_numbered(out, ",rand_seed2=", event.seed2, "");
}

/// Appends a variable's value as an SQL literal.
fn put_user_var(out: &mut Vec<u8>, format: &EventFormat, event: &UserVar<'_>) -> Result<(), DecodeError> {
    out.push(b'@');
    quote::put_name(out, event.name);
    out.push(b'=');
    match &event.value {
        None => put(out, &[b"NULL"]),
        Some(value) => put_user_value(out, format, value)?,
    }
    Ok(())
}

fn put_user_value(
    out: &mut Vec<u8>,
    format: &EventFormat,
    value: &UserVarValue<'_>,
) -> Result<(), DecodeError> {
    let mut bytes = Cursor::new(value.bytes);
    match value.kind {
        UserVarValue::REAL => put_shortest(out, f64::from_bits(bytes.u64()?)),
        UserVarValue::INT if value.is_unsigned() => put_u64(out, bytes.u64()?),
        UserVarValue::INT => put_i64(out, bytes.i64()?),
        UserVarValue::DECIMAL => {
            let [precision, scale] = bytes.array()?;
            Decimal::new(bytes.rest(), precision, scale)?.write(out);
        }
        _ => {
            let collation =
                u16::try_from(value.collation).ok().and_then(|id| Collation::new(id, format.flavour));
            let Some(collation) = collation else {
                put(out, &[b"???"]);
                return Ok(());
            };
            put(out, &[b"_", collation.charset().name().as_bytes(), b" "]);
            match (format.flavour, value.bytes) {
                (Flavour::MariaDb, bytes) => put_hex(out, b"X'", bytes, b"'"),
                (Flavour::MySql, []) => put(out, &[b"\"\""]),
                (Flavour::MySql, bytes) => put_hex(out, b"0x", bytes, b""),
            }
            put(out, &[b" COLLATE ", collation.name().as_bytes()]);
        }
    }
    Ok(())
}

fn put_hex(out: &mut Vec<u8>, before: &[u8], bytes: &[u8], after: &[u8]) {
    out.extend_from_slice(before);
    bytes.iter().for_each(|byte| out.extend([byte >> 4, byte & 0xf].map(hex_upper)));
    out.extend_from_slice(after);
}

const fn hex_upper(digit: u8) -> u8 {
    match digit {
        0..=9 => b'0' + digit,
        _ => b'A' + digit - 10,
    }
}

fn put_table_map(out: &mut Vec<u8>, event: &TableMap<'_>) {
    put_numbered(out, "table_id: ", event.table_id, "");
    put(out, &[b" (", event.database, b".", event.table, b")"]);
}

/// Flags of row events, by the names that the server shows.
pub const ROWS_FLAGS: [(RowsFlags, &str); 5] = [
    (RowsFlags::STATEMENT_END, "STMT_END_F"),
    (RowsFlags::NO_FOREIGN_KEY_CHECKS, "NO_FOREIGN_KEY_CHECKS_F"),
    (RowsFlags::RELAXED_UNIQUE_CHECKS, "RELAXED_UNIQUE_CHECKS_F"),
    (RowsFlags::COMPLETE_ROWS, "COMPLETE_ROWS_F"),
    (RowsFlags::USE_SQL_FOREIGN_KEY, "USE_SQL_FOREIGN_KEY_F"),
];

fn put_rows(out: &mut Vec<u8>, event: &Rows<'_>) {
    put_numbered(out, "table_id: ", event.table_id, "");
    let mut before = " flags: ";
    for (flag, name) in ROWS_FLAGS {
        if event.flags.contains(flag) {
            put(out, &[before.as_bytes(), name.as_bytes()]);
            before = " ";
        }
    }
}

/// Appends the incident without its message: the server prints a message only if it is empty.
fn put_incident(out: &mut Vec<u8>, event: &Incident<'_>) {
    put_numbered(out, "#", event.incident.into(), " (");
    put(out, &[event.name().as_bytes(), b")"]);
}

fn put_gtid(out: &mut Vec<u8>, event: &GtidEvent<'_>) {
    put_gtid_next(out, &format!("{}:{}", event.uuid, event.gno));
}

fn put_gtid_tagged(out: &mut Vec<u8>, event: &GtidTagged<'_>) {
    put_gtid_next(out, &format!("{}:{}:{}", event.uuid, event.tag, event.gno));
}

fn put_gtid_next(out: &mut Vec<u8>, gtid: &str) {
    put(out, &[b"SET @@SESSION.GTID_NEXT= '", gtid.as_bytes(), b"'"]);
}

fn put_xa_prepare(out: &mut Vec<u8>, event: &XaPrepare<'_>) {
    let (verb, end) = match event.one_phase {
        0 => ("XA PREPARE ", ""),
        _ => ("XA COMMIT ", " ONE PHASE"),
    };
    put(out, &[verb.as_bytes(), event.xid.to_string().as_bytes(), end.as_bytes()]);
}

fn put_payload(out: &mut Vec<u8>, event: &TransactionPayload<'_>) {
    put(out, &[b"compression='", event.compression.name().as_bytes(), b"', decompressed_size="]);
    let size = event.uncompressed_size.unwrap_or(event.payload.len() as u64);
    put_numbered(out, "", size, " bytes");
}

fn put_context(out: &mut Vec<u8>, event: &TransactionContext<'_>) {
    put(out, &[b"server_uuid=", event.server_uuid]);
    put_numbered(out, "\tthread_id=", event.thread_id.into(), "");
}

fn put_mariadb_gtid(
    out: &mut Vec<u8>,
    header: &EventHeader,
    event: &MariadbGtidEvent<'_>,
) -> Result<(), DecodeError> {
    let has = |flag| event.flags & flag != 0;
    let details = event.details()?;
    match &details.xid {
        Some(xid) if has(MariadbGtidEvent::PREPARED_XA) => {
            put(out, &[b"XA START ", xid.to_string().as_bytes(), b" GTID "]);
        }
        _ if has(MariadbGtidEvent::STANDALONE) => put(out, &[b"GTID "]),
        _ => put(out, &[b"BEGIN GTID "]),
    }
    put(out, &[event.gtid(header.server_id).to_string().as_bytes()]);
    if let Some(commit_id) = details.commit_id {
        put_numbered(out, " cid=", commit_id, "");
    }
    Ok(())
}

/// Appends the GTIDs in the order of their domains, as MariaDB does.
fn put_mariadb_gtid_list(out: &mut Vec<u8>, event: &MariadbGtidList<'_>) {
    let mut gtids: Vec<MariadbGtid> = event.iter().collect();
    gtids.sort_by_key(|gtid| gtid.domain_id);
    let gtids: Vec<String> = gtids.iter().map(MariadbGtid::to_string).collect();
    put(out, &[b"[", gtids.join(",").as_bytes(), b"]"]);
}
