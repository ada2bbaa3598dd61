//! Events about logs, groups and the ends of transactions.

use binlog::events::{
    DeleteFile, Incident, PayloadCompression, PreviousGtids, Rotate, TransactionContext, TransactionPayload,
    ViewChange, XaPrepare, XaXid, Xid,
};

use super::EventLayout;
use super::event_cursor::EventCursor;

/// Maximum length of a log's name; mysqlbinlog cuts longer names.
const FILE_NAME_SIZE_MAX: usize = 511;

pub(super) fn rotate<'a>(fields: &mut EventCursor<'a>, sizes: EventLayout<'_>) -> Option<Rotate<'a>> {
    let position = if sizes.fixed_size() > 0 { fields.u64()? } else { 4 };
    let file = fields.take_rest();
    let file = &file[..file.len().min(FILE_NAME_SIZE_MAX)];
    (!file.is_empty()).then_some(Rotate { position, file })
}

pub(super) fn delete_file(fields: &mut EventCursor<'_>) -> Option<DeleteFile> {
    let file_id = fields.u32()?;
    (file_id != 0).then_some(DeleteFile { file_id })
}

pub(super) fn xid(fields: &mut EventCursor<'_>, sizes: EventLayout<'_>) -> Option<Xid> {
    fields.skip(sizes.fixed_size())?;
    Some(Xid { xid: fields.u64()? })
}

pub(super) fn incident<'a>(fields: &mut EventCursor<'a>) -> Option<Incident<'a>> {
    let incident = fields.u16()?;
    if incident != 1 {
        return None;
    }
    let size = fields.u8()?;
    Some(Incident { incident, message: fields.take(size.into())?, rest: fields.take_rest() })
}

pub(super) fn previous_gtids<'a>(
    fields: &mut EventCursor<'a>,
    sizes: EventLayout<'_>,
) -> Option<PreviousGtids<'a>> {
    fields.skip(sizes.fixed_size())?;
    let set = fields.take_rest();
    (set.len() >= 8).then_some(PreviousGtids { set })
}

pub(super) fn transaction_context<'a>(fields: &mut EventCursor<'a>) -> Option<TransactionContext<'a>> {
    let uuid_size = fields.u8()?;
    let thread_id = fields.u32()?;
    let gtid_specified = fields.u8()?;
    let snapshot_size = fields.u32()?;
    let (write_set_count, read_set_count) = (fields.u32()?, fields.u32()?);
    let server_uuid = fields.take(uuid_size.into())?;
    let snapshot_version = fields.take(snapshot_size.into())?;
    let start = fields.position();
    for _ in 0..u64::from(write_set_count) + u64::from(read_set_count) {
        let size = fields.u16()?;
        fields.take(size.into())?;
    }
    let items = fields.between(start, fields.position());
    Some(TransactionContext {
        server_uuid,
        thread_id,
        gtid_specified,
        snapshot_version,
        write_set_count,
        read_set_count,
        items,
    })
}

pub(super) fn view_change<'a>(fields: &mut EventCursor<'a>) -> Option<ViewChange<'a>> {
    let view_id = fields.array()?;
    if view_id[0] == 0 {
        return None;
    }
    let (sequence_number, certification_count) = (fields.u64()?, fields.u32()?);
    let start = fields.position();
    for _ in 0..certification_count {
        let key_size = fields.u16()?;
        fields.take(key_size.into())?;
        let value_size = fields.u32()?;
        fields.take(value_size.into())?;
    }
    let certification = fields.between(start, fields.position());
    Some(ViewChange { view_id, sequence_number, certification_count, certification })
}

pub(super) fn xa_prepare<'a>(fields: &mut EventCursor<'a>, sizes: EventLayout<'_>) -> Option<XaPrepare<'a>> {
    /// Maximum length of a part of the identifier.
    const XID_PART_SIZE_MAX: u32 = 64;
    fields.skip(sizes.fixed_size())?;
    let one_phase = fields.u8()?;
    let format_id = fields.u32()?.cast_signed();
    let [gtrid, bqual] = [fields.u32()?, fields.u32()?];
    if gtrid > XID_PART_SIZE_MAX || bqual > XID_PART_SIZE_MAX {
        return None;
    }
    let xid = XaXid { format_id, gtrid: fields.take(gtrid.into())?, bqual: fields.take(bqual.into())? };
    Some(XaPrepare { one_phase, xid, rest: fields.take_rest() })
}

pub(super) fn payload<'a>(fields: &mut EventCursor<'a>) -> Option<TransactionPayload<'a>> {
    let start = fields.position();
    let (mut payload_size, mut compression, mut uncompressed_size) = (None, None, None);
    loop {
        let kind = fields.lenenc()?;
        if kind == 0 {
            break;
        }
        // The size of a known field is ignored.
        let size = fields.lenenc()?;
        match kind {
            1 => payload_size = Some(fields.lenenc()?),
            2 => compression = Some(compression_of(fields.lenenc()?)?),
            3 => uncompressed_size = Some(fields.lenenc()?),
            _ => fields.skip(usize::try_from(size).ok()?)?,
        }
    }
    let head = fields.between(start, fields.position());
    let payload = fields.take(payload_size?)?;
    Some(TransactionPayload {
        compression: compression?,
        uncompressed_size,
        fields: head,
        payload,
        rest: fields.take_rest(),
    })
}

fn compression_of(code: u64) -> Option<PayloadCompression> {
    match code {
        0 => Some(PayloadCompression::Zstd),
        255 => Some(PayloadCompression::None),
        _ => None,
    }
}
