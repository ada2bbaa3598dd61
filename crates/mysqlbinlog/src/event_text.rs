//! The text of each event type, after its header line.

use binlog::events::{
    DuplicateHandling, ExecuteLoadQuery, Intvar, IntvarKind, LoadBlock, Rand, Rotate, RowsFlags, RowsQuery,
    TransactionContext, TransactionPayload, UserVar, UserVarValue, ViewChange, XaPrepare,
};
use binlog::{Collation, EventType, Flavour};
use sql::numbers::{put_general, put_i64, put_u32, put_u64};
use sql::quote;

use crate::charset_text::put_charset;
use crate::delimiter::end_statement;
use crate::printed_session::PrintedSession;
use crate::quote::put_hex;
use crate::value_text::put_decimal;

/// Appends all parts.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends the rest of a query's header line.
pub(crate) fn put_query_line(out: &mut Vec<u8>, event_type: EventType, numbers: QueryNumbers) {
    put(out, &[b"\t", event_type.name().as_bytes(), b"\tthread_id="]);
    put_u32(out, numbers.thread_id);
    out.extend_from_slice(b"\texec_time=");
    put_u32(out, numbers.exec_time);
    out.extend_from_slice(b"\terror_code=");
    put_u32(out, numbers.error_code.into());
    if let Some(xid) = numbers.xid {
        out.extend_from_slice(b"\tXid = ");
        put_u64(out, xid);
    }
    out.push(b'\n');
}

/// Numbers in a query's header line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueryNumbers {
    pub(crate) thread_id: u32,
    pub(crate) exec_time: u32,
    pub(crate) error_code: u16,
    pub(crate) xid: Option<u64>,
}

pub(crate) fn put_xid_line(out: &mut Vec<u8>, xid: u64) {
    out.extend_from_slice(b"\tXid = ");
    put_u64(out, xid);
    out.push(b'\n');
}

pub(crate) fn put_commit(out: &mut Vec<u8>) {
    out.extend_from_slice(b"COMMIT");
    end_statement(out);
}

/// Appends header line and statement. The header is printed even in short form.
pub(crate) fn put_xa_prepare(out: &mut Vec<u8>, event: &XaPrepare<'_>) {
    let mut xid = Vec::new();
    for part in [event.xid.gtrid, event.xid.bqual] {
        xid.extend_from_slice(b"X'");
        put_hex(&mut xid, part);
        xid.extend_from_slice(b"',");
    }
    // Only here, mysqlbinlog prints the format id as unsigned.
    put_u32(&mut xid, event.xid.format_id.cast_unsigned());
    put(out, &[b"\tXA PREPARE ", &xid, b"\n"]);
    match event.one_phase {
        0 => put(out, &[b"XA PREPARE ", &xid]),
        _ => put(out, &[b"XA COMMIT ", &xid, b" ONE PHASE"]),
    }
    out.push(b'\n');
    end_statement(out);
}

pub(crate) fn put_rotate(out: &mut Vec<u8>, event: &Rotate<'_>) {
    put(out, &[b"\tRotate to ", event.file, b"  pos: "]);
    put_i64(out, event.position.cast_signed());
    out.push(b'\n');
}

pub(crate) fn put_intvar(out: &mut Vec<u8>, event: &Intvar) {
    out.extend_from_slice(match event.kind {
        IntvarKind::LastInsertId => b"SET LAST_INSERT_ID=".as_slice(),
        IntvarKind::InsertId => b"SET INSERT_ID=",
        _ => b"SET INVALID_INT=",
    });
    put_i64(out, event.value.cast_signed());
    end_statement(out);
}

pub(crate) fn put_rand(out: &mut Vec<u8>, event: &Rand) {
    out.extend_from_slice(b"SET @@RAND_SEED1=");
    put_i64(out, event.seed1.cast_signed());
    out.extend_from_slice(b", @@RAND_SEED2=");
    put_i64(out, event.seed2.cast_signed());
    end_statement(out);
}

/// Collation of names: utf8mb3_general_ci.
const NAMES_COLLATION: u16 = 33;

/// Appends the statement that sets a user variable. Its name is in utf8mb3, so the session switches to utf8mb3 and
/// back.
///
/// Returns the number of an unknown character set, if one was printed.
pub(crate) fn put_user_var(out: &mut Vec<u8>, event: &UserVar<'_>, session: &PrintedSession) -> Option<u16> {
    let connection = match &event.value {
        Some(value) if value.kind != STRING && collation(value).is_some() => value.collation as u16,
        _ => NAMES_COLLATION,
    };
    let charset = [NAMES_COLLATION, connection, NAMES_COLLATION];
    let switched = session.charset() != Some(charset);
    if switched {
        put_charset(out, charset);
    }
    out.extend_from_slice(b"SET @");
    quote::put_name(out, event.name);
    match &event.value {
        None => out.extend_from_slice(b":=NULL"),
        Some(value) => put_user_value(out, value),
    }
    end_statement(out);
    if switched && let Some(charset) = session.charset() {
        return put_charset(out, charset);
    }
    None
}

const STRING: u8 = 0;
const REAL: u8 = 1;
const INT: u8 = 2;
const DECIMAL: u8 = 4;

/// Significant digits of a real number.
const REAL_DIGITS: usize = 14;

fn put_user_value(out: &mut Vec<u8>, value: &UserVarValue<'_>) {
    let Some(collation) = collation(value) else { return out.extend_from_slice(b":=???") };
    match (value.kind, value.bytes.first_chunk::<8>()) {
        (STRING, _) => put_user_string(out, value, collation),
        (REAL, Some(bytes)) => {
            out.extend_from_slice(b":=");
            put_general(out, f64::from_le_bytes(*bytes), REAL_DIGITS);
        }
        (INT, Some(bytes)) => {
            out.extend_from_slice(b":=");
            match value.flags.first() {
                Some(flags) if flags & 1 != 0 => put_u64(out, u64::from_le_bytes(*bytes)),
                _ => put_i64(out, i64::from_le_bytes(*bytes)),
            }
        }
        (DECIMAL, _) => {
            out.extend_from_slice(b":=");
            if let [precision, scale, digits @ ..] = value.bytes {
                put_decimal(out, digits, *precision, *scale);
            }
        }
        _ => out.extend_from_slice(b":=???"),
    }
}

fn collation(value: &UserVarValue<'_>) -> Option<Collation> {
    Collation::new(value.collation.try_into().ok()?, Flavour::MySql)
}

fn put_user_string(out: &mut Vec<u8>, value: &UserVarValue<'_>, collation: Collation) {
    put(out, &[b":=_", collation.charset().name().as_bytes(), b" "]);
    if value.bytes.is_empty() {
        out.extend_from_slice(b"\"\"");
    } else {
        out.extend_from_slice(b"0x");
        for byte in value.bytes {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
        }
    }
    put(out, &[b" COLLATE `", collation.name().as_bytes(), b"`"]);
}

/// Appends the comment after a LOAD DATA statement.
pub(crate) fn put_load_file_id(out: &mut Vec<u8>, event: &ExecuteLoadQuery<'_>) {
    out.extend_from_slice(b"# file_id: ");
    put_i64(out, event.file_id.cast_signed().into());
    out.extend_from_slice(b" \n");
}

/// Appends the line after the header of a block of a LOAD DATA file.
pub(crate) fn put_load_block(out: &mut Vec<u8>, event_type: EventType, event: &LoadBlock<'_>) {
    put(out, &[b"\n#", event_type.name().as_bytes(), b": file_id: "]);
    put_i64(out, event.file_id.cast_signed().into());
    out.extend_from_slice(b"  block_len: ");
    put_u64(out, event.block.len() as u64);
    out.push(b'\n');
}

/// Appends a LOAD DATA statement that reads `file` in place of the source's file.
pub(crate) fn put_load_statement(out: &mut Vec<u8>, event: &ExecuteLoadQuery<'_>, file: &[u8]) {
    let sql = event.query.sql;
    let (start, end) = (event.name_start as usize, event.name_end as usize);
    put(out, &[sql.get(..start).unwrap_or(sql), b" LOCAL INFILE '", file, b"'"]);
    if event.duplicates == DuplicateHandling::Replace {
        out.extend_from_slice(b" REPLACE");
    }
    put(out, &[b" INTO", sql.get(end..).unwrap_or_default(), b"\n"]);
    end_statement(out);
}

/// Appends the original statement of row events, each line as a comment.
pub(crate) fn put_rows_query(out: &mut Vec<u8>, event: &RowsQuery<'_>) {
    out.extend_from_slice(b"\tRows_query\n# ");
    for byte in event.sql {
        match byte {
            b'\n' => out.extend_from_slice(b"\n# "),
            0 => out.extend_from_slice(b"\\0"),
            8 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\n');
}

/// Flags of row events and their names, in mysqlbinlog's order.
const ROWS_FLAGS: [(u16, &str); 5] = [
    (0x01, " STMT_END_F"),
    (0x02, " NO_FOREIGN_KEY_CHECKS_F"),
    (0x04, " RELAXED_UNIQUE_CHECKS_F"),
    (0x10, " USE_SQL_FOREIGN_KEY_F"),
    (0x08, " COMPLETE_ROWS_F"),
];

/// Appends the rest of a row event's header line.
pub(crate) fn put_rows_line(out: &mut Vec<u8>, event_type: EventType, table_id: u64, flags: RowsFlags) {
    put(out, &[b"\t", event_type.name().as_bytes(), b": table id "]);
    put_u64(out, table_id);
    if flags.0 != 0 {
        out.extend_from_slice(b" flags:");
        let mut rest = flags.0;
        for (flag, name) in ROWS_FLAGS {
            if flags.0 & flag != 0 {
                out.extend_from_slice(name.as_bytes());
                rest &= !flag;
            }
        }
        if rest != 0 {
            out.extend_from_slice(format!(" UNKNOWN_FLAG({rest:#x})").as_bytes());
        }
    }
    out.push(b'\n');
}

/// Appends the rest of a compressed transaction's header line.
pub(crate) fn put_payload_line(out: &mut Vec<u8>, event: &TransactionPayload<'_>, payload_size: u64) {
    out.extend_from_slice(b"\tTransaction_Payload\t\tpayload_size=");
    put_u64(out, payload_size);
    put(out, &[b"\tcompression_type=", event.compression.name().as_bytes()]);
    out.extend_from_slice(b"\tuncompressed_size=");
    put_u64(out, event.uncompressed_size.unwrap_or(0));
    out.extend_from_slice(b"\n# Start of compressed events.\n");
}

/// Appends the event's text directly after the header, without a separator.
pub(crate) fn put_transaction_context(out: &mut Vec<u8>, event: &TransactionContext<'_>) {
    put(out, &[b"Transaction_context: server_uuid=", event.server_uuid, b"\tthread_id="]);
    put_u32(out, event.thread_id);
    out.push(b'\n');
}

/// Appends the event's text directly after the header, without a separator.
pub(crate) fn put_view_change(out: &mut Vec<u8>, event: &ViewChange<'_>) {
    let id = event.view_id.split(|byte| *byte == 0).next().unwrap_or_default();
    put(out, &[b"View_change_log_event: view_id=", id, b"\n"]);
}
