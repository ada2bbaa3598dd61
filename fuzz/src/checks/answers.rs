//! Any answers of a server to a query, or to the preparation of a statement: they decode, or give an error. Decoded
//! executions of prepared statements encode to bytes that decode to the same.

use wire::{Capabilities, PrepareReader, PreparedStatement, ResultPart, ResultReader, StatementExecution};

use super::conversation::{packets, put_packet};
use crate::seeds::Sample;

/// A column definition, the ends of a result from old and from new servers, and an OK packet.
const COLUMN: &[u8] = b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\xfd\0\0\0\0\0";
const OLD_END: &[u8] = b"\xfe\0\0\x02\0";
const NEW_END: &[u8] = b"\xfe\0\0\x02\0\0\0";
const OK: &[u8] = b"\0\x05\0\x02\0\0\0";
/// An OK packet that announces another result.
const MORE: &[u8] = b"\0\0\0\x0a\0\0\0";
/// Response to the preparation of a statement with two parameters and one column.
const PREPARED: &[u8] = b"\0\x07\0\0\0\x01\0\x02\0\0\0\0";

pub(super) fn seeds(_: &Sample) -> Vec<Vec<u8>> {
    let answers: [&[&[u8]]; 7] = [
        &[b"\0", MORE, b"\x01", COLUMN, b"\x01x", b"\xfb", NEW_END],
        &[b"\x01", b"\x02", COLUMN, COLUMN, OLD_END, b"\x01x\x01y", OLD_END],
        &[b"\x02", b"\xfb/etc/passwd", OK],
        &[b"\x04", PREPARED, COLUMN, COLUMN, COLUMN],
        &[b"\x05", PREPARED, COLUMN, COLUMN, OLD_END, COLUMN, OLD_END],
        &[b"\x04", b"\xff\x28\x04#42000syntax"],
        &[b"\x08", b"\x17\x03\0\0\0\0\x01\0\0\0\x01\x01\x06\0\xfd\0\x08\x80\x02ab\x01\0\0\0\0\0\0\0"],
    ];
    let seed = |answers: &[&[u8]]| {
        let (first, rest) = answers.split_first().expect("no first byte");
        let mut seed = first.to_vec();
        rest.iter().for_each(|packet| put_packet(&mut seed, packet));
        seed
    };
    answers.into_iter().map(seed).collect()
}

/// Checks `bytes`: kind of request and client in one byte, and packets of the server.
pub(super) fn check(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let has = |bit: u8| kind & bit != 0;
    let mut capabilities = Capabilities::PROTOCOL_41;
    if !has(1) {
        capabilities = capabilities | Capabilities::DEPRECATE_EOF;
    }
    if has(2) {
        capabilities = capabilities | Capabilities::LOCAL_FILES;
    }
    match (has(4), has(8)) {
        (_, true) => packets(rest).for_each(|payload| again(payload, kind >> 4)),
        (true, false) => prepare(capabilities, rest),
        (false, false) => query(capabilities, rest),
    }
}

fn query(capabilities: Capabilities, bytes: &[u8]) {
    let mut reader = ResultReader::new(capabilities);
    let mut columns = 0;
    for payload in packets(bytes) {
        if reader.is_done() {
            return;
        }
        match reader.read(payload) {
            Ok(ResultPart::Columns(count)) => columns = count,
            Ok(ResultPart::Row(row)) => assert_eq!(row.count(), columns),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

fn prepare(capabilities: Capabilities, bytes: &[u8]) {
    let mut reader = PrepareReader::new(capabilities);
    for payload in packets(bytes) {
        if !matches!(reader.read(payload), Ok(None)) {
            return;
        }
    }
}

fn again(payload: &[u8], count: u8) {
    if let Ok(prepared) = PreparedStatement::decode(payload) {
        let mut out = Vec::new();
        prepared.encode(&mut out);
        assert_eq!(PreparedStatement::decode(&out), Ok(prepared));
    }
    if let Ok(execution) = StatementExecution::decode(payload, count.into(), &[1]) {
        let mut out = Vec::new();
        execution.encode(&mut out);
        // NaN is not equal to itself, so the debug texts are compared.
        let found = StatementExecution::decode(&out, count.into(), &[1]);
        assert_eq!(format!("{found:?}"), format!("{:?}", Ok::<_, ()>(execution)));
    }
}
