//! Divides rows into one stream for each column, and rebuilds them.

use binlog::events::{ColumnSet, Rows};
use binlog::{
    ColumnType, Event, EventChecksum, EventFlags, EventFormat, EventHeader, EventType, HEADER_SIZE, RawEvent,
    Table, ValueSize,
};

use crate::segment_error::BlockDamage;
use crate::stream_set::{StreamCursors, StreamId, StreamSet};
use crate::varint::{StreamCursor, put_varint};

/// Streams and format of each column of a table's rows.
///
/// A table has two streams for the bits that mark NULLs and repeated values, and three for each column: values,
/// length prefixes, and differences between the values before and after an update.
#[derive(Clone, Debug)]
pub(crate) struct RowLayout {
    pub(crate) first: ImageLayout,
    pub(crate) second: Option<ImageLayout>,
    pub(crate) nulls: StreamId,
    pub(crate) repeats: StreamId,
    /// Number of columns in both images.
    pub(crate) shared: usize,
    /// Size of rows without NULLs; 0 if it varies.
    pub(crate) row_size: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct ImageLayout {
    pub(crate) null_size: usize,
    pub(crate) columns: Vec<ColumnLayout>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnLayout {
    /// Size of a fixed-size value; 0 for values after a length prefix.
    pub(crate) fixed: usize,
    /// Size of the length prefix.
    prefix: usize,
    pub(crate) order: ByteOrder,
    /// Stream of the values; those of prefixes and differences follow.
    pub(crate) values: StreamId,
    /// Index of the same column in the first image, and its bit among the columns in both images.
    pub(crate) earlier: Option<(usize, usize)>,
}

/// Order of the bytes of a number in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

/// Returns the number of streams of a table.
pub(crate) const fn stream_count(columns: usize) -> usize {
    2 + 3 * columns
}

impl RowLayout {
    /// Creates the layout for rows events like this one. `streams` is the first stream of the table. `None` if rows
    /// of this kind are not divided.
    pub(crate) fn new(table: &Table, rows: &Rows<'_>, streams: StreamId) -> Option<Self> {
        if rows.column_count != table.columns.len() as u64 {
            return None;
        }
        let first = ImageLayout::new(table, &rows.columns, streams)?;
        let mut second = match &rows.columns_after {
            Some(columns) => Some(ImageLayout::new(table, columns, streams)?),
            None => None,
        };
        let mut shared = 0;
        for column in second.iter_mut().flat_map(|image| &mut image.columns) {
            let earlier = first.columns.iter().position(|earlier| earlier.values == column.values);
            column.earlier = earlier.map(|earlier| (earlier, shared));
            shared += usize::from(column.earlier.is_some());
        }
        let images = [Some(&first), second.as_ref()];
        let columns = || images.iter().flatten().flat_map(|image| &image.columns);
        // Differences of wide values are not stored, so that their streams depend on the order of rows.
        let is_fixed = columns().all(|column| column.prefix == 0 && column.fixed <= 8);
        let nulls: usize = images.iter().flatten().map(|image| image.null_size).sum();
        let row_size = if is_fixed { nulls + columns().map(|column| column.fixed).sum::<usize>() } else { 0 };
        Some(Self { first, second, nulls: streams, repeats: streams + 1, shared, row_size })
    }

    /// Sets the widths of the streams.
    pub(crate) fn set_widths(&self, streams: &mut StreamSet) {
        for column in self.images().flat_map(|image| &image.columns) {
            streams.at(column.values).width = column.fixed as u8;
            streams.at(column.values + 1).width = column.prefix as u8;
            streams.at(column.values + 2).width = column.fixed as u8;
        }
        streams.at(self.nulls).width = u8::try_from(self.first.null_size).unwrap_or(0);
        streams.at(self.repeats).width = u8::try_from(self.shared.div_ceil(8)).unwrap_or(0);
    }

    fn images(&self) -> impl Iterator<Item = &ImageLayout> {
        [Some(&self.first), self.second.as_ref()].into_iter().flatten()
    }

    /// Returns the number of rows; `None` if the bytes are not whole rows.
    pub(crate) fn count(&self, mut rows: &[u8]) -> Option<u64> {
        if self.has_fixed_rows(rows) {
            return Some((rows.len() / self.row_size) as u64);
        }
        let mut count = 0;
        while !rows.is_empty() {
            rows = self.first.skip(rows)?;
            if let Some(second) = &self.second {
                rows = second.skip(rows)?;
            }
            count += 1;
        }
        Some(count)
    }

    /// Appends rows to the streams. [`RowLayout::count`] must have counted them.
    pub(crate) fn put(&self, mut rows: &[u8], streams: &mut StreamSet, scratch: &mut LayoutScratch) {
        if self.has_fixed_rows(rows) {
            return self.put_fixed(rows, streams, scratch);
        }
        while !rows.is_empty() {
            rows = self.put_first(rows, streams, scratch);
            if let Some(second) = &self.second {
                rows = self.put_second(second, rows, streams, scratch);
            }
        }
    }

    fn put_first<'a>(
        &self,
        rows: &'a [u8],
        streams: &mut StreamSet,
        scratch: &mut LayoutScratch,
    ) -> &'a [u8] {
        let keeps = self.shared > 0;
        let (nulls, mut rest) = rows.split_at(self.first.null_size);
        streams.at(self.nulls).bytes.extend_from_slice(nulls);
        scratch.values.clear();
        for (index, column) in self.first.columns.iter().enumerate() {
            let (value, after) = match is_set(nulls, index) {
                true => (&rest[..0], rest),
                false => column.split(rest).unwrap_or((rest, &[])),
            };
            if keeps {
                let start = rows.len() - rest.len();
                scratch.values.push((start, start + value.len()));
            }
            rest = after;
            if !is_set(nulls, index) {
                column.put(value, streams);
            }
        }
        if keeps {
            scratch.row.clear();
            scratch.row.extend_from_slice(&rows[..rows.len() - rest.len()]);
            scratch.nulls.clear();
            scratch.nulls.extend_from_slice(nulls);
        }
        rest
    }

    fn put_second<'a>(
        &self,
        second: &ImageLayout,
        rows: &'a [u8],
        streams: &mut StreamSet,
        scratch: &mut LayoutScratch,
    ) -> &'a [u8] {
        let (nulls, mut rest) = rows.split_at(second.null_size);
        streams.at(self.nulls).bytes.extend_from_slice(nulls);
        scratch.repeats.clear();
        scratch.repeats.resize(self.shared.div_ceil(8), 0);
        for (index, column) in second.columns.iter().enumerate() {
            if is_set(nulls, index) {
                continue;
            }
            let (value, after) = column.split(rest).unwrap_or((rest, &[]));
            rest = after;
            match column.earlier.filter(|(earlier, _)| !is_set(&scratch.nulls, *earlier)) {
                Some((earlier, bit)) => {
                    let (start, end) = scratch.values[earlier];
                    let before = &scratch.row[start..end];
                    match before == value {
                        true => scratch.repeats[bit / 8] |= 1 << (bit % 8),
                        false => column.put_changed(before, value, streams),
                    }
                }
                None => column.put(value, streams),
            }
        }
        streams.at(self.repeats).bytes.extend_from_slice(&scratch.repeats);
        rest
    }

    /// Appends `count` rows from the streams. `out` may have [`LayoutScratch::size_max`] bytes.
    pub(crate) fn take(
        &self,
        count: u64,
        streams: &mut StreamCursors<'_>,
        scratch: &mut LayoutScratch,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockDamage> {
        if self.append_fixed(count, streams, scratch.size_max, out)? {
            return Ok(());
        }
        for _ in 0..count {
            self.append_first(streams, scratch, out)?;
            if let Some(second) = &self.second {
                self.append_second(second, streams, scratch, out)?;
            }
            if out.len() > scratch.size_max {
                return Err(BlockDamage("a block is larger than stated"));
            }
        }
        Ok(())
    }

    fn append_first(
        &self,
        streams: &mut StreamCursors<'_>,
        scratch: &mut LayoutScratch,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockDamage> {
        let nulls = streams.at(self.nulls).bytes(self.first.null_size)?;
        out.extend_from_slice(nulls);
        if self.shared == 0 {
            for (index, column) in self.first.columns.iter().enumerate() {
                if !is_set(nulls, index) {
                    column.take(streams, out)?;
                }
            }
            return Ok(());
        }
        scratch.nulls.clear();
        scratch.nulls.extend_from_slice(nulls);
        scratch.values.clear();
        for (index, column) in self.first.columns.iter().enumerate() {
            let start = out.len();
            if !is_set(nulls, index) {
                column.take(streams, out)?;
            }
            scratch.values.push((start, out.len()));
        }
        Ok(())
    }

    fn append_second(
        &self,
        second: &ImageLayout,
        streams: &mut StreamCursors<'_>,
        scratch: &LayoutScratch,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockDamage> {
        let nulls = streams.at(self.nulls).bytes(second.null_size)?;
        let repeats = streams.at(self.repeats).bytes(self.shared.div_ceil(8))?;
        out.extend_from_slice(nulls);
        for (index, column) in second.columns.iter().enumerate() {
            if is_set(nulls, index) {
                continue;
            }
            match column.earlier.filter(|(earlier, _)| !is_set(&scratch.nulls, *earlier)) {
                Some((earlier, bit)) => {
                    let (start, end) = scratch.values[earlier];
                    match is_set(repeats, bit) {
                        true => out.extend_from_within(start..end),
                        false => column.append_changed(start, streams, out)?,
                    }
                }
                None => column.take(streams, out)?,
            }
        }
        Ok(())
    }
}

/// Buffers for one row.
#[derive(Debug, Default)]
pub(crate) struct LayoutScratch {
    /// Largest size of the bytes that rows are appended to. Bounds memory.
    pub(crate) size_max: usize,
    /// First image of the row that is being stored.
    row: Vec<u8>,
    /// Start and end of each value of the first image.
    values: Vec<(usize, usize)>,
    /// NULL bits of the first image.
    nulls: Vec<u8>,
    pub(crate) repeats: Vec<u8>,
}

impl ImageLayout {
    fn new(table: &Table, columns: &ColumnSet<'_>, streams: StreamId) -> Option<Self> {
        let mut layouts = Vec::new();
        for (index, column) in table.columns.iter().enumerate() {
            if columns.contains(index) {
                layouts.push(ColumnLayout::new(column.column_type, streams + stream_count(index))?);
            }
        }
        // Rows without columns take no bytes: their number does not follow from the bytes.
        let null_size = layouts.len().div_ceil(8);
        (null_size > 0).then_some(Self { null_size, columns: layouts })
    }

    #[inline]
    fn skip<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (nulls, mut rest) = bytes.split_at_checked(self.null_size)?;
        for (index, column) in self.columns.iter().enumerate() {
            if !is_set(nulls, index) {
                rest = column.split(rest)?.1;
            }
        }
        Some(rest)
    }
}

impl ColumnLayout {
    fn new(column_type: ColumnType, values: StreamId) -> Option<Self> {
        let (fixed, prefix) = match column_type.value_size() {
            ValueSize::Fixed(size) => (usize::from(size), 0),
            ValueSize::Prefixed(size) => (0, usize::from(size)),
            ValueSize::Unknown => return None,
        };
        let order = match column_type {
            ColumnType::Timestamp { .. }
            | ColumnType::DateTime { .. }
            | ColumnType::Time { .. }
            | ColumnType::Decimal { .. }
            | ColumnType::Bit { .. } => ByteOrder::Big,
            _ => ByteOrder::Little,
        };
        Some(Self { fixed, prefix, order, values, earlier: None })
    }

    /// Splits the value at the front, with its length prefix, from the rest.
    #[inline]
    fn split<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        if self.prefix == 0 {
            return bytes.split_at_checked(self.fixed);
        }
        let size = little_endian(bytes.get(..self.prefix)?);
        bytes.split_at_checked(self.prefix.checked_add(usize::try_from(size).ok()?)?)
    }

    #[inline]
    fn put(&self, value: &[u8], streams: &mut StreamSet) {
        let (prefix, value) = value.split_at(self.prefix);
        if self.prefix > 0 {
            streams.at(self.values + 1).bytes.extend_from_slice(prefix);
        }
        let values = &mut streams.at(self.values).bytes;
        match (self.order, value.len()) {
            (ByteOrder::Big, _) => values.extend(value.iter().rev()),
            (_, 4) => values.extend_from_slice(&[value[0], value[1], value[2], value[3]]),
            (_, 3) => values.extend_from_slice(&[value[0], value[1], value[2]]),
            _ => values.extend_from_slice(value),
        }
    }

    /// Appends the value after an update that differs from the one before.
    fn put_changed(&self, before: &[u8], value: &[u8], streams: &mut StreamSet) {
        if self.prefix > 0 || self.fixed > 8 {
            return self.put(value, streams);
        }
        let difference = self.number(value).wrapping_sub(self.number(before));
        streams.at(self.values + 2).bytes.extend_from_slice(&difference.to_le_bytes()[..self.fixed]);
    }

    #[inline]
    fn take(&self, streams: &mut StreamCursors<'_>, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        let mut size = self.fixed;
        if self.prefix > 0 {
            let prefix = streams.at(self.values + 1).bytes(self.prefix)?;
            out.extend_from_slice(prefix);
            size = usize::try_from(little_endian(prefix)).unwrap_or(usize::MAX);
        }
        let values = streams.at(self.values);
        match (self.order, size) {
            (ByteOrder::Big, _) => out.extend(values.bytes(size)?.iter().rev()),
            (_, 4) => out.extend_from_slice(&values.array::<4>()?),
            (_, 3) => out.extend_from_slice(&values.array::<3>()?),
            _ => out.extend_from_slice(values.bytes(size)?),
        }
        Ok(())
    }

    /// Appends the value after an update; the value before starts at `before` of `out`.
    fn append_changed(
        &self,
        before: usize,
        streams: &mut StreamCursors<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockDamage> {
        if self.prefix > 0 || self.fixed > 8 {
            return self.take(streams, out);
        }
        let difference = little_endian(streams.at(self.values + 2).bytes(self.fixed)?);
        let number = self.number(&out[before..before + self.fixed]).wrapping_add(difference);
        match self.order {
            ByteOrder::Little => out.extend_from_slice(&number.to_le_bytes()[..self.fixed]),
            ByteOrder::Big => out.extend_from_slice(&number.to_be_bytes()[8 - self.fixed..]),
        }
        Ok(())
    }

    #[inline]
    fn number(&self, value: &[u8]) -> u64 {
        match self.order {
            ByteOrder::Little => little_endian(value),
            ByteOrder::Big => {
                let mut number = [0; 8];
                number[8 - value.len()..].copy_from_slice(value);
                u64::from_be_bytes(number)
            }
        }
    }
}

#[inline]
fn little_endian(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        _ => {
            let mut number = [0; 8];
            number[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(number)
        }
    }
}

#[inline]
fn is_set(bits: &[u8], index: usize) -> bool {
    bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

/// Splits the body of a rows event into its fields, and the part in front of the rows. `None` if its rows are not taken
/// apart.
pub(crate) fn split_rows<'a>(raw: &RawEvent<'a>, format: &EventFormat) -> Option<(Rows<'a>, &'a [u8])> {
    let (Event::WriteRowsV1(rows)
    | Event::UpdateRowsV1(rows)
    | Event::DeleteRowsV1(rows)
    | Event::WriteRows(rows)
    | Event::UpdateRows(rows)
    | Event::DeleteRows(rows)) = raw.decode(format).ok()?
    else {
        return None;
    };
    let body = raw.body();
    Some((rows, &body[..body.len() - rows.rows.len()]))
}

/// Appends a shape: what rows events of the same statement share.
// varint  number of the table map
//      1  type of the event
//      *  body in front of the rows
pub(crate) fn put_shape(shape: &mut Vec<u8>, table: usize, event_type: EventType, head: &[u8]) {
    put_varint(shape, table as u64);
    shape.push(event_type.code());
    shape.extend_from_slice(head);
}

/// Reads the number of the table map from a shape. Returns it, the type of the event, and its body in front of the
/// rows.
pub(crate) fn parse_shape(shape: &[u8]) -> Result<(usize, EventType, &[u8]), BlockDamage> {
    let mut cursor = StreamCursor::new(shape);
    let table = cursor.size()?;
    Ok((table, EventType::from_code(cursor.u8()?), cursor.take_rest()))
}

/// Parses the body of a table map.
pub(crate) fn parse_table(body: &[u8], format: &EventFormat) -> Option<Table> {
    let mut bytes = Vec::new();
    let raw = bare_event(EventType::TableMap, body, &mut bytes)?;
    match raw.decode(format).ok()? {
        Event::TableMap(map) => Table::new(&map).ok(),
        _ => None,
    }
}

/// Creates an event of this body without a checksum. Its header has no other fields.
pub(crate) fn bare_event<'a>(
    event_type: EventType,
    body: &[u8],
    bytes: &'a mut Vec<u8>,
) -> Option<RawEvent<'a>> {
    let size = u32::try_from(HEADER_SIZE + body.len()).ok()?;
    let (flags, next_position) = (EventFlags::default(), 0);
    let header = EventHeader { timestamp: 0, event_type, server_id: 0, size, next_position, flags };
    bytes.clear();
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(body);
    RawEvent::new(bytes, EventChecksum::Absent).ok()
}
