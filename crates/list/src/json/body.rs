//! The JSON members for the body of each event type.

use binlog::events::{
    CommitStamps, DuplicateHandling, ExecuteLoadQuery, FormatDescription, GtidEvent, GtidTagged, LoadBlock,
    LogicalClock, MariadbGtidEvent, PayloadCompression, Query, TransactionContext, TransactionPayload,
    UserVar, UserVarValue, ViewChange, XaPrepare,
};
use binlog::gtid::GtidSet;
use binlog::{Charset, Collation, Cursor, Decimal, DecodeError, Event, EventFormat};
use sql::event_info::intvar_name;
use sql::numbers::{put_i64, put_shortest, put_u64};

use super::rows::{LineMatch, LoggedRows, MemberNameCache, put as put_rows};
use super::session;
use super::table;
use super::writer::{JsonObject, put_bytes, put_decoded, put_string};
use crate::event_context::EventContext;
use crate::event_selection::EventSelection;
use crate::located_event::{ListedEvent, LocatedEvent, OutputRefusal};

/// Writes the members of the event's type.
pub(super) fn put(
    object: &mut JsonObject<'_>,
    names: &mut MemberNameCache,
    select: &EventSelection,
    context: &mut EventContext,
    ListedEvent { located, event }: ListedEvent<'_>,
) -> Result<LineMatch, OutputRefusal> {
    if let Some(rows) = event.rows() {
        let logged = LoggedRows { rows, format: located.format };
        return put_rows(object, names, select, &mut context.tables, logged);
    }
    let format = located.format;
    match event {
        Event::FormatDescription(event) => put_format(object, event),
        Event::Query(event) => put_query(object, format, event)?,
        Event::TableMap(event) => table::put(object, format, &*context.tables.map(event)?),
        Event::Xid(event) => object.uint("xid", event.xid),
        Event::Gtid(event) | Event::AnonymousGtid(event) => put_gtid(object, event),
        Event::GtidTagged(event) => put_gtid_tagged(object, event),
        Event::PreviousGtids(event) => put_gtids(object, event.set)?,
        Event::RowsQuery(event) => object.text_or_bytes("sql", event.sql),
        Event::TransactionPayload(event) => put_payload(object, located, event),
        Event::Rotate(event) => {
            object.text_or_bytes("next_log_name", event.file);
            object.uint("next_pos", event.position);
        }
        Event::XaPrepare(event) => put_xa_prepare(object, event),
        _ => put_statement_part(object, format, event)?,
    }
    Ok(LineMatch::Something)
}

/// Writes the members of events that accompany statements, and of rare events.
fn put_statement_part(
    object: &mut JsonObject<'_>,
    format: &EventFormat,
    event: &Event<'_>,
) -> Result<(), DecodeError> {
    match event {
        Event::Intvar(event) => {
            object.plain("name", intvar_name(event.kind));
            object.uint("value", event.value);
        }
        Event::Rand(event) => {
            object.uint("seed1", event.seed1);
            object.uint("seed2", event.seed2);
        }
        Event::UserVar(event) => put_user_var(object, format, event)?,
        Event::BeginLoadQuery(event) | Event::AppendBlock(event) => put_load_block(object, event),
        Event::DeleteFile(event) => object.uint("file_id", event.file_id),
        Event::ExecuteLoadQuery(event) => put_load_query(object, format, event)?,
        Event::Incident(event) => {
            object.uint("incident", event.incident);
            object.plain("name", event.name());
            object.text_or_bytes("message", event.message);
        }
        Event::TransactionContext(event) => put_context(object, event),
        Event::ViewChange(event) => put_view_change(object, event),
        Event::Heartbeat(event) => object.text_or_bytes("file", event.file),
        Event::HeartbeatV2(event) => {
            object.text_or_bytes("file", event.file);
            object.uint("position", event.position);
        }
        Event::Stop(_) => {}
        Event::Unknown(event) => object.bytes("body", event.body),
        _ => put_mariadb(object, event)?,
    }
    Ok(())
}

fn put_mariadb(object: &mut JsonObject<'_>, event: &Event<'_>) -> Result<(), DecodeError> {
    match event {
        Event::MariadbAnnotateRows(event) => object.text_or_bytes("sql", event.sql),
        Event::MariadbBinlogCheckpoint(event) => object.text_or_bytes("file", event.file),
        Event::MariadbGtid(event) => put_mariadb_gtid(object, event)?,
        Event::MariadbGtidList(event) => {
            let mut gtids = object.array("gtids");
            event.iter().for_each(|gtid| gtids.plain(&gtid.to_string()));
            gtids.close();
            object.uint("flags", event.count_and_flags >> 28);
        }
        Event::MariadbStartEncryption(event) => {
            object.uint("scheme", event.scheme);
            object.uint("key_version", event.key_version);
            object.bytes("nonce", event.nonce);
        }
        Event::StartV3(event)
        | Event::Load(event)
        | Event::Slave(event)
        | Event::CreateFile(event)
        | Event::ExecLoad(event)
        | Event::NewLoad(event)
        | Event::PreGaWriteRows(event)
        | Event::PreGaUpdateRows(event)
        | Event::PreGaDeleteRows(event)
        | Event::Ignorable(event)
        | Event::LargeTransactionHeader(event) => object.bytes("body", event.body),
        _ => {}
    }
    Ok(())
}

fn put_format(object: &mut JsonObject<'_>, event: &FormatDescription<'_>) {
    object.uint("binlog_version", event.binlog_version);
    object.text_or_bytes("server_version", event.version());
    object.uint("created", event.created);
    if event.created != 0 {
        object.time("created_time", u64::from(event.created));
    }
    object.uint("header_size", event.header_size);
    let mut sizes = object.array("post_header_sizes");
    event.post_header_sizes.iter().for_each(|size| sizes.uint(*size));
    sizes.close();
    match event.checksum_algorithm {
        None => object.value("checksum_algorithm").extend_from_slice(b"null"),
        Some(0) => object.plain("checksum_algorithm", "NONE"),
        Some(1) => object.plain("checksum_algorithm", "CRC32"),
        Some(other) => object.uint("checksum_algorithm", other),
    }
}

fn put_query(
    object: &mut JsonObject<'_>,
    format: &EventFormat,
    event: &Query<'_>,
) -> Result<(), DecodeError> {
    object.uint("thread_id", event.thread_id);
    object.uint("exec_time", event.exec_time);
    object.uint("error_code", event.error_code);
    object.text_or_bytes("database", event.database);
    let charset = session::put(object, format, &event.status)?;
    put_sql(object, charset, event.sql);
    Ok(())
}

/// Writes a statement as text in the client's character set. If it has invalid bytes, they become U+FFFD, and the
/// statement is repeated as bytes.
fn put_sql(object: &mut JsonObject<'_>, charset: Option<Charset>, sql: &[u8]) {
    let charset = charset.filter(|charset| *charset != Charset::Binary).unwrap_or(Charset::Utf8mb4);
    match charset.decode(sql) {
        Ok(text) => put_string(object.value("sql"), &text),
        Err(_) => {
            put_string(object.value("sql"), &charset.decode_lossy(sql));
            put_bytes(object.value("sql_bytes"), sql);
        }
    }
}

fn put_load_query(
    object: &mut JsonObject<'_>,
    format: &EventFormat,
    event: &ExecuteLoadQuery<'_>,
) -> Result<(), DecodeError> {
    put_query(object, format, &event.query)?;
    object.uint("file_id", event.file_id);
    object.uint("name_start", event.name_start);
    object.uint("name_end", event.name_end);
    match event.duplicates {
        DuplicateHandling::Error => object.plain("duplicates", "error"),
        DuplicateHandling::Ignore => object.plain("duplicates", "ignore"),
        DuplicateHandling::Replace => object.plain("duplicates", "replace"),
        DuplicateHandling::Unknown(code) => object.uint("duplicates", code),
        _ => {}
    }
    Ok(())
}

fn put_load_block(object: &mut JsonObject<'_>, event: &LoadBlock<'_>) {
    object.uint("file_id", event.file_id);
    object.bytes("block", event.block);
}

/// Writes a variable's name and value, and a text's character set.
fn put_user_var(
    object: &mut JsonObject<'_>,
    format: &EventFormat,
    event: &UserVar<'_>,
) -> Result<(), DecodeError> {
    object.text_or_bytes("name", event.name);
    let Some(value) = &event.value else {
        object.value("value").extend_from_slice(b"null");
        return Ok(());
    };
    let collation = u16::try_from(value.collation).ok().and_then(|id| Collation::new(id, format.flavour));
    let mut bytes = Cursor::new(value.bytes);
    match value.kind {
        UserVarValue::REAL => put_shortest(object.value("value"), f64::from_bits(bytes.u64()?)),
        UserVarValue::INT if value.is_unsigned() => put_u64(object.value("value"), bytes.u64()?),
        UserVarValue::INT => put_i64(object.value("value"), bytes.i64()?),
        UserVarValue::DECIMAL => {
            let [precision, scale] = bytes.array()?;
            let decimal = Decimal::new(bytes.rest(), precision, scale)?;
            object.text("value", decimal.to_string());
        }
        _ => {
            let charset = collation.map_or(Charset::Binary, |collation| collation.charset());
            put_decoded(object.value("value"), Some(charset), value.bytes);
        }
    }
    object.uint("kind", value.kind);
    match collation {
        Some(collation) => object.plain("collation", &collation.name()),
        None => object.uint("collation", value.collation),
    }
    Ok(())
}

fn put_gtid(object: &mut JsonObject<'_>, event: &GtidEvent<'_>) {
    object.uint("flags", event.flags);
    object.text("uuid", event.uuid.to_string());
    object.int("gno", event.gno);
    if let Some(clock) = &event.clock {
        put_clock(object, clock);
    }
    if let Some(stamps) = &event.stamps {
        put_stamps(object, stamps);
    }
    if !event.rest.is_empty() {
        object.bytes("rest", event.rest);
    }
}

fn put_gtid_tagged(object: &mut JsonObject<'_>, event: &GtidTagged<'_>) {
    object.uint("flags", event.flags);
    object.text("uuid", event.uuid.to_string());
    object.text("tag", event.tag.as_str());
    object.int("gno", event.gno);
    put_clock(object, &event.clock);
    put_stamps(object, &event.stamps);
    if !event.rest.is_empty() {
        object.bytes("rest", event.rest);
    }
}

fn put_clock(object: &mut JsonObject<'_>, clock: &LogicalClock) {
    object.int("last_committed", clock.last_committed);
    object.int("sequence_number", clock.sequence_number);
}

/// Writes times as microseconds since 1970 and as UTC. An unknown time is 0, without UTC.
fn put_stamps(object: &mut JsonObject<'_>, stamps: &CommitStamps) {
    object.uint("original_commit_timestamp", stamps.original_commit_us);
    if stamps.original_commit_us != 0 {
        object.time_us("original_commit_time", stamps.original_commit_us);
    }
    object.uint("immediate_commit_timestamp", stamps.immediate_commit_us);
    if stamps.immediate_commit_us != 0 {
        object.time_us("immediate_commit_time", stamps.immediate_commit_us);
    }
    if let Some(size) = stamps.transaction_size {
        object.uint("transaction_length", size);
    }
    if let Some(version) = stamps.original_server_version {
        object.uint("original_server_version", version);
    }
    if let Some(version) = stamps.immediate_server_version {
        object.uint("immediate_server_version", version);
    }
    if let Some(ticket) = stamps.commit_group_ticket {
        object.uint("commit_group_ticket", ticket);
    }
}

fn put_gtids(object: &mut JsonObject<'_>, set: &[u8]) -> Result<(), DecodeError> {
    object.text("gtids", GtidSet::decode(set)?.to_string());
    Ok(())
}

fn put_payload(object: &mut JsonObject<'_>, located: &LocatedEvent<'_>, event: &TransactionPayload<'_>) {
    match event.compression {
        PayloadCompression::Unknown(code) => object.uint("compression", code),
        known => object.plain("compression", known.name()),
    }
    object.uint("payload_size", located.payload_size.unwrap_or(event.payload.len() as u64));
    if let Some(size) = event.uncompressed_size {
        object.uint("uncompressed_size", size);
    }
    if !event.rest.is_empty() {
        object.bytes("rest", event.rest);
    }
}

fn put_xa_prepare(object: &mut JsonObject<'_>, event: &XaPrepare<'_>) {
    object.boolean("one_phase", event.one_phase != 0);
    object.text("xid", event.xid.to_string());
    object.int("format_id", event.xid.format_id);
    object.bytes("gtrid", event.xid.gtrid);
    object.bytes("bqual", event.xid.bqual);
    if !event.rest.is_empty() {
        object.bytes("rest", event.rest);
    }
}

fn put_context(object: &mut JsonObject<'_>, event: &TransactionContext<'_>) {
    object.text_or_bytes("server_uuid", event.server_uuid);
    object.uint("thread_id", event.thread_id);
    object.uint("gtid_specified", event.gtid_specified);
    object.bytes("snapshot_version", event.snapshot_version);
    object.uint("write_set_count", event.write_set_count);
    object.uint("read_set_count", event.read_set_count);
    object.bytes("items", event.items);
}

fn put_view_change(object: &mut JsonObject<'_>, event: &ViewChange<'_>) {
    object.text_or_bytes("view_id", event.view_name());
    object.uint("sequence_number", event.sequence_number);
    object.uint("certification_count", event.certification_count);
    object.bytes("certification", event.certification);
}

fn put_mariadb_gtid(object: &mut JsonObject<'_>, event: &MariadbGtidEvent<'_>) -> Result<(), DecodeError> {
    object.uint("sequence_number", event.sequence_number);
    object.uint("domain_id", event.domain_id);
    object.uint("flags", event.flags);
    let details = event.details()?;
    if let Some(commit_id) = details.commit_id {
        object.uint("commit_id", commit_id);
    }
    if let Some(xid) = &details.xid {
        object.text("xid", xid.to_string());
    }
    if details.extra_flags != 0 {
        object.uint("extra_flags", details.extra_flags);
    }
    if let Some(engines) = details.extra_engines {
        object.uint("extra_engines", engines);
    }
    if let Some(number) = details.alter_sequence_number {
        object.uint("alter_sequence_number", number);
    }
    if details.rest.iter().any(|byte| *byte != 0) {
        object.bytes("rest", details.rest);
    }
    Ok(())
}
