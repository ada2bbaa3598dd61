//! Events with arbitrary field values decode to the same event after encoding.

#![allow(clippy::unwrap_used)]

use bintide_binlog::events::{
    ColumnSet, CommitStamps, DeleteFile, DuplicateHandling, ExecuteLoadQuery, FormatDescription, GtidEvent,
    GtidLayout, GtidTagged, Heartbeat, HeartbeatV2, Incident, Intvar, IntvarKind, LoadBlock, LogicalClock,
    MariadbAnnotateRows, MariadbBinlogCheckpoint, MariadbGtidEvent, MariadbGtidList, MariadbQueryCompressed,
    MariadbRowsCompressed, MariadbStartEncryption, Opaque, PayloadCompression, PreviousGtids, Query, Rand,
    Rotate, Rows, RowsFlags, RowsKind, RowsQuery, StatusVars, Stop, TableMap, TransactionContext,
    TransactionPayload, Unknown, UserVar, UserVarValue, ViewChange, XaPrepare, XaXid, Xid,
};
use bintide_binlog::gtid::{GtidTag, Uuid};
use bintide_binlog::{
    ChecksumAlgorithm, EncodeError, Event, EventChecksum, EventFlags, EventFormat, EventOrigin, EventType,
    Flavour, Framer, FramerOutput, NextPosition,
};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

fn format(checksum: ChecksumAlgorithm, table_id_size: u8) -> EventFormat {
    let post_header_sizes = vec![table_id_size + 2; 171];
    EventFormat { server_version: b"9.7.4".to_vec(), post_header_sizes, checksum, flavour: Flavour::MySql }
}

/// Encodes and decodes an event, with and without a checksum, with table numbers of six and four bytes.
fn check(event: &Event<'_>) {
    for checksum in [ChecksumAlgorithm::Off, ChecksumAlgorithm::Crc32] {
        check_as(event, &format(checksum, 6)).unwrap();
        match check_as(event, &format(checksum, 4)) {
            Ok(()) | Err(EncodeError::TooLarge { field: "table_id", .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn check_as(event: &Event<'_>, format: &EventFormat) -> Result<(), EncodeError> {
    let origin = EventOrigin { timestamp: 1, server_id: 2, flags: EventFlags(0x8000) };
    let mut bytes = Vec::new();
    event.write(origin, NextPosition::FromStart(u64::from(u32::MAX)), format, &mut bytes)?;
    let mut framer = Framer::with_format(format.clone());
    let FramerOutput::Event(raw) = framer.next(&bytes).unwrap() else { panic!("the event is incomplete") };
    assert_eq!(raw.bytes().len(), bytes.len());
    assert_eq!(raw.header().origin(), origin);
    assert_eq!(raw.header().next_position, (bytes.len() - 1) as u32);
    assert_eq!(raw.verify(), Ok(()));
    assert_eq!(raw.decode(format).as_ref(), Ok(event));
    Ok(())
}

fn bytes(size_max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=size_max)
}

/// Generates numbers of all sizes.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift)
}

fn number_below(bits: u32) -> impl Strategy<Value = u64> {
    number().prop_map(move |number| number & ((1 << bits) - 1))
}

fn signed() -> impl Strategy<Value = i64> {
    (any::<i64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift)
}

fn query<'a>(head: (u32, u32, u16), parts: &'a (Vec<u8>, Vec<u8>, Vec<u8>)) -> Query<'a> {
    let (thread_id, exec_time, error_code) = head;
    let (status, database, sql) = parts;
    Query { thread_id, exec_time, error_code, status: StatusVars { bytes: status }, database, sql }
}

fn duplicates(code: u8) -> DuplicateHandling {
    match code {
        0 => DuplicateHandling::Error,
        1 => DuplicateHandling::Ignore,
        2 => DuplicateHandling::Replace,
        code => DuplicateHandling::Unknown(code),
    }
}

proptest! {
    #[test]
    fn queries(
        head: (u32, u32, u16),
        parts in (bytes(300), bytes(255), bytes(600)),
        load: (u32, u32, u32, u8),
    ) {
        let query = query(head, &parts);
        check(&Event::Query(query));
        check(&Event::MariadbQueryCompressed(MariadbQueryCompressed { query }));
        let (file_id, name_start, name_end, code) = load;
        let duplicates = duplicates(code);
        check(&Event::ExecuteLoadQuery(ExecuteLoadQuery { query, file_id, name_start, name_end, duplicates }));
    }

    #[test]
    fn numbers(a: u64, b: u64, c: u32, kind: u8) {
        let kind = match kind {
            1 => IntvarKind::LastInsertId,
            2 => IntvarKind::InsertId,
            code => IntvarKind::Unknown(code),
        };
        check(&Event::Xid(Xid { xid: a }));
        check(&Event::Rand(Rand { seed1: a, seed2: b }));
        check(&Event::Intvar(Intvar { kind, value: a }));
        check(&Event::DeleteFile(DeleteFile { file_id: c }));
        check(&Event::Stop(Stop));
    }

    #[test]
    fn numbers_and_bytes(a: u64, b: u32, c: u16, d: u8, body in bytes(300), rest in bytes(20)) {
        let (body, rest) = (body.as_slice(), rest.as_slice());
        let message = &body[..body.len().min(255)];
        check(&Event::Rotate(Rotate { position: a, file: body }));
        check(&Event::BeginLoadQuery(LoadBlock { file_id: b, block: body }));
        check(&Event::AppendBlock(LoadBlock { file_id: b, block: body }));
        check(&Event::Incident(Incident { incident: c, message, rest }));
        check(&Event::Heartbeat(Heartbeat { file: body }));
        check(&Event::RowsQuery(RowsQuery { size_low: d, sql: body }));
        check(&Event::PreviousGtids(PreviousGtids { set: body }));
        check(&Event::Ignorable(Opaque { body }));
        check(&Event::Unknown(Unknown { code: 44 + d % 100, body }));
        check(&Event::MariadbAnnotateRows(MariadbAnnotateRows { sql: body }));
        check(&Event::MariadbGtidList(MariadbGtidList { count_and_flags: b, entries: body }));
        check(&Event::MariadbBinlogCheckpoint(MariadbBinlogCheckpoint { file: body, rest }));
        check(&Event::MariadbStartEncryption(MariadbStartEncryption { scheme: d, key_version: b, nonce: rest }));
        let gtid = MariadbGtidEvent { sequence_number: a, domain_id: b, flags: d, rest };
        check(&Event::MariadbGtid(gtid));
    }

    #[test]
    fn heartbeats_and_payloads(
        position in number(),
        size in proptest::option::of(number()),
        code in number(),
        body in bytes(300),
        rest in bytes(20),
    ) {
        let fields = HeartbeatV2::encode_fields(&body, position);
        check(&Event::HeartbeatV2(HeartbeatV2 { fields: &fields, file: &body, position }));
        let compression = match code {
            0 => PayloadCompression::Zstd,
            255 => PayloadCompression::None,
            code => PayloadCompression::Unknown(code),
        };
        let fields = TransactionPayload::encode_fields(compression, body.len() as u64, size);
        let (fields, payload, rest) = (fields.as_slice(), body.as_slice(), rest.as_slice());
        let event = TransactionPayload { compression, uncompressed_size: size, fields, payload, rest };
        check(&Event::TransactionPayload(event));
    }

    #[test]
    fn user_variables(name in bytes(100), value in proptest::option::of((any::<(u8, u32)>(), bytes(100), bytes(2)))) {
        let value = value.as_ref().map(|((kind, collation), bytes, flags)| {
            UserVarValue { kind: *kind, collation: *collation, bytes, flags }
        });
        check(&Event::UserVar(UserVar { name: &name, value }));
    }

    #[test]
    fn format_descriptions(
        head: (u16, u32, u8),
        sizes in bytes(180),
        algorithm in proptest::option::of(any::<u8>()),
    ) {
        let (binlog_version, created, header_size) = head;
        let mut server_version = [0; 50];
        server_version[..6].copy_from_slice(if algorithm.is_some() { b"5.6.1-" } else { b"5.6.0-" });
        let description = FormatDescription {
            binlog_version,
            server_version: &server_version,
            created,
            header_size,
            post_header_sizes: &sizes,
            checksum_algorithm: algorithm,
        };
        let (event, format) = (Event::FormatDescription(description), format(ChecksumAlgorithm::Off, 6));
        let (mut bytes, origin) = (Vec::new(), EventOrigin::default());
        event.write(origin, NextPosition::FromStart(4), &format, &mut bytes).unwrap();
        let checksum = if algorithm.is_some() { EventChecksum::Crc32 } else { EventChecksum::Absent };
        let raw = bintide_binlog::RawEvent::new(&bytes, checksum).unwrap();
        assert_eq!((raw.verify(), raw.decode(&format)), (Ok(()), Ok(event)));
    }

    #[test]
    fn gtids(
        head in (any::<u8>(), any::<u128>(), signed()),
        clock in proptest::option::of((signed(), signed())),
        stamps in proptest::option::of(stamps()),
        written: (bool, bool),
    ) {
        let clock = clock.map(|(last_committed, sequence_number)| LogicalClock { last_committed, sequence_number });
        let stamps = stamps.filter(|_| clock.is_some());
        let layout = layout(stamps, written);
        let (flags, uuid, gno) = (head.0, Uuid::from_u128(head.1), head.2);
        let event = GtidEvent { flags, uuid, gno, clock, stamps, layout, rest: &[] };
        check(&Event::Gtid(event));
        check(&Event::AnonymousGtid(event));
    }

    #[test]
    fn tagged_gtids(
        head in (number(), any::<u128>(), signed(), "[a-z_][a-z0-9_]{0,31}"),
        clock in (signed(), signed()),
        stamps in whole_stamps(),
        fields_needed in 0..=12_u64,
        // Numbers of unknown fields start at 12.
        rest in prop_oneof![Just(vec![]), bytes(200).prop_map(|body| [&[24], body.as_slice()].concat())],
    ) {
        let (last_committed, sequence_number) = clock;
        check(&Event::GtidTagged(GtidTagged {
            flags: head.0,
            uuid: Uuid::from_u128(head.1),
            gno: head.2,
            tag: GtidTag::new(head.3.as_bytes()).unwrap(),
            clock: LogicalClock { last_committed, sequence_number },
            stamps,
            fields_needed,
            rest: &rest,
        }));
    }

    #[test]
    fn table_maps(
        head in (number_below(48), any::<u16>()),
        names in (bytes(300), bytes(64)),
        columns in 0..600_usize,
        metadata in bytes(300),
        optional in bytes(100),
    ) {
        let (types, nullable) = (vec![3; columns], vec![0x55; columns.div_ceil(8)]);
        check(&Event::TableMap(TableMap {
            table_id: head.0,
            flags: head.1,
            database: &names.0,
            table: &names.1,
            column_types: &types,
            metadata: &metadata,
            nullable: &nullable,
            optional: &optional,
            flavour: Flavour::MySql,
        }));
    }

    #[test]
    fn rows(head in (number_below(48), any::<u16>()), column_count in 0..600_u64, extra in bytes(40), rows in bytes(300)) {
        let bits = vec![0xa5; column_count.div_ceil(8) as usize];
        let columns = ColumnSet { bits: &bits };
        for event_type in EventType::ALL.iter().filter(|event_type| event_type.rows_kind().is_some()) {
            let kind = event_type.rows_kind().unwrap();
            let has_extra = !format!("{event_type:?}").ends_with("V1");
            check(&rows_event(*event_type, Rows {
                kind,
                table_id: head.0,
                flags: RowsFlags(head.1),
                extra: has_extra.then_some(&extra),
                column_count,
                columns,
                columns_after: kind.has_after().then_some(columns),
                rows: &rows,
            }));
        }
    }

    #[test]
    fn group_replication(
        head: (u32, u8, u32, u32),
        uuid in bytes(255),
        set in bytes(100),
        items in bytes(300),
        view: (u64, u32),
    ) {
        let (thread_id, gtid_specified, write_set_count, read_set_count) = head;
        check(&Event::TransactionContext(TransactionContext {
            server_uuid: &uuid,
            thread_id,
            gtid_specified,
            snapshot_version: &set,
            write_set_count,
            read_set_count,
            items: &items,
        }));
        let (sequence_number, certification_count) = view;
        let view_id = &[b'v'; 40];
        let certification = items.as_slice();
        check(&Event::ViewChange(ViewChange { view_id, sequence_number, certification_count, certification }));
    }

    #[test]
    fn xa(one_phase: u8, format_id: i32, gtrid in bytes(64), bqual in bytes(64), rest in bytes(5)) {
        let xid = XaXid { format_id, gtrid: &gtrid, bqual: &bqual };
        check(&Event::XaPrepare(XaPrepare { one_phase, xid, rest: &rest }));
    }
}

/// Generates the fields that some version of the server writes: each version only adds fields.
fn stamps() -> impl Strategy<Value = CommitStamps> {
    (whole_stamps(), 0..4_u8, number_below(55), number_below(56), number_below(31)).prop_map(
        |(whole, fields, immediate_us, original_us, immediate)| CommitStamps {
            immediate_commit_us: immediate_us,
            original_commit_us: original_us,
            transaction_size: whole.transaction_size.filter(|_| fields > 0),
            immediate_server_version: Some(immediate as u32).filter(|_| fields > 1),
            original_server_version: whole.original_server_version.filter(|_| fields > 1),
            commit_group_ticket: whole.commit_group_ticket.filter(|_| fields > 2),
        },
    )
}

/// Generates all fields of a tagged GTID event.
fn whole_stamps() -> impl Strategy<Value = CommitStamps> {
    let versions = (any::<u32>(), any::<u32>());
    (number(), number(), number(), versions, proptest::option::of(number())).prop_map(
        |(immediate_commit_us, original_commit_us, size, versions, commit_group_ticket)| CommitStamps {
            immediate_commit_us,
            original_commit_us,
            transaction_size: Some(size),
            immediate_server_version: Some(versions.0),
            original_server_version: Some(versions.1),
            commit_group_ticket,
        },
    )
}

/// Returns a valid layout for the stamps: different values are always written, equal ones may be.
fn layout(stamps: Option<CommitStamps>, written: (bool, bool)) -> GtidLayout {
    let Some(stamps) = stamps else { return GtidLayout::default() };
    let has_version = stamps.immediate_server_version.is_some();
    GtidLayout {
        original_commit_written: written.0 || stamps.original_commit_us != stamps.immediate_commit_us,
        original_version_written: has_version
            && (written.1 || stamps.original_server_version != stamps.immediate_server_version),
    }
}

fn rows_event(event_type: EventType, rows: Rows<'_>) -> Event<'_> {
    let compressed = MariadbRowsCompressed { rows };
    match event_type {
        EventType::WriteRowsV1 => Event::WriteRowsV1(rows),
        EventType::UpdateRowsV1 => Event::UpdateRowsV1(rows),
        EventType::DeleteRowsV1 => Event::DeleteRowsV1(rows),
        EventType::WriteRows => Event::WriteRows(rows),
        EventType::UpdateRows => Event::UpdateRows(rows),
        EventType::DeleteRows => Event::DeleteRows(rows),
        EventType::PartialUpdateRows => Event::PartialUpdateRows(rows),
        EventType::MariadbWriteRowsCompressedV1 => Event::MariadbWriteRowsCompressedV1(compressed),
        EventType::MariadbUpdateRowsCompressedV1 => Event::MariadbUpdateRowsCompressedV1(compressed),
        EventType::MariadbDeleteRowsCompressedV1 => Event::MariadbDeleteRowsCompressedV1(compressed),
        EventType::MariadbWriteRowsCompressed => Event::MariadbWriteRowsCompressed(compressed),
        EventType::MariadbUpdateRowsCompressed => Event::MariadbUpdateRowsCompressed(compressed),
        EventType::MariadbDeleteRowsCompressed => Event::MariadbDeleteRowsCompressed(compressed),
        other => panic!("{other:?} has no rows"),
    }
}

#[test]
fn only_updates_have_two_images() {
    for event_type in EventType::ALL {
        let is_update = format!("{event_type:?}").contains("UpdateRows") && event_type.rows_kind().is_some();
        let has_after = event_type.rows_kind().is_some_and(RowsKind::has_after);
        assert_eq!(has_after, is_update, "{event_type:?}");
    }
}
