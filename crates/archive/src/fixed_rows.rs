//! The same streams as in `row_layout`, faster: for rows of one size, without NULLs, each column is processed at once.

use crate::row_layout::{ByteOrder, ColumnLayout, ImageLayout, LayoutScratch, RowLayout};
use crate::segment_error::BlockDamage;
use crate::stream_set::{StreamCursors, StreamSet};
use crate::varint::StreamCursor;

/// Column of an image, and the offset of its values in a row.
#[derive(Clone, Copy)]
struct ColumnOffset<'l> {
    start: usize,
    column: &'l ColumnLayout,
}

impl RowLayout {
    /// Returns whether all rows have the same size and no NULLs.
    pub(crate) fn has_fixed_rows(&self, rows: &[u8]) -> bool {
        self.row_size > 0
            && rows.len().is_multiple_of(self.row_size)
            && rows.chunks_exact(self.row_size).all(|row| {
                self.first.has_no_nulls(row)
                    && self
                        .second
                        .as_ref()
                        .is_none_or(|second| second.has_no_nulls(&row[self.first.size()..]))
            })
    }

    /// Appends such rows to the streams.
    pub(crate) fn put_fixed(&self, rows: &[u8], streams: &mut StreamSet, scratch: &mut LayoutScratch) {
        let null_bytes = &mut streams.at(self.nulls).bytes;
        for row in rows.chunks_exact(self.row_size) {
            null_bytes.extend_from_slice(&row[..self.first.null_size]);
            if let Some(second) = &self.second {
                null_bytes.extend_from_slice(&row[self.first.size()..][..second.null_size]);
            }
        }
        for column_offset in self.first.column_offset(0) {
            let column = column_offset.column;
            gather(rows, self.row_size, column_offset, &mut streams.at(column.values).bytes);
        }
        let Some(second) = &self.second else { return };
        let bits_size = self.shared.div_ceil(8);
        scratch.repeats.clear();
        scratch.repeats.resize(bits_size * (rows.len() / self.row_size), 0);
        for column_offset in second.column_offset(self.first.size()) {
            let column = column_offset.column;
            let Some((earlier, bit)) = column.earlier else {
                gather(rows, self.row_size, column_offset, &mut streams.at(column.values).bytes);
                continue;
            };
            let bit = RowBit { bytes: bits_size, bit };
            let change = self.changed_column(column_offset, earlier, bit);
            let differences = &mut streams.at(column.values + 2).bytes;
            match column.fixed {
                1 => change.split::<1>(rows, &mut scratch.repeats, differences),
                2 => change.split::<2>(rows, &mut scratch.repeats, differences),
                3 => change.split::<3>(rows, &mut scratch.repeats, differences),
                4 => change.split::<4>(rows, &mut scratch.repeats, differences),
                5 => change.split::<5>(rows, &mut scratch.repeats, differences),
                6 => change.split::<6>(rows, &mut scratch.repeats, differences),
                7 => change.split::<7>(rows, &mut scratch.repeats, differences),
                8 => change.split::<8>(rows, &mut scratch.repeats, differences),
                _ => change.split::<0>(rows, &mut scratch.repeats, differences),
            }
        }
        streams.at(self.repeats).bytes.extend_from_slice(&scratch.repeats);
    }

    /// Appends rows from the streams, if all have the same size and no NULLs. Otherwise returns false, and takes
    /// nothing.
    pub(crate) fn append_fixed(
        &self,
        count: u64,
        streams: &mut StreamCursors<'_>,
        size_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, BlockDamage> {
        const LARGE: BlockDamage = BlockDamage("a block is larger than stated");
        if self.row_size == 0 {
            return Ok(false);
        }
        let count = usize::try_from(count).map_err(|_| LARGE)?;
        let size = count.checked_mul(self.row_size).filter(|size| *size <= size_max).ok_or(LARGE)?;
        let nulls_size = self.first.null_size + self.second.as_ref().map_or(0, |second| second.null_size);
        let mut ahead = *streams.at(self.nulls);
        let nulls = ahead.bytes(count * nulls_size)?;
        let has_none = |nulls: &[u8]| {
            let (first, second) = nulls.split_at(self.first.null_size);
            self.first.has_no_nulls(first)
                && self.second.as_ref().is_none_or(|image| image.has_no_nulls(second))
        };
        if !nulls.chunks_exact(nulls_size).all(has_none) {
            return Ok(false);
        }
        *streams.at(self.nulls) = ahead;
        let start = out.len();
        out.resize(start + size, 0);
        let rows = &mut out[start..];
        for (row, nulls) in rows.chunks_exact_mut(self.row_size).zip(nulls.chunks_exact(nulls_size)) {
            let (first, second) = nulls.split_at(self.first.null_size);
            row[..first.len()].copy_from_slice(first);
            row[self.first.size().min(self.row_size)..][..second.len()].copy_from_slice(second);
        }
        for column_offset in self.first.column_offset(0) {
            let column = column_offset.column;
            scatter(
                rows,
                self.row_size,
                column_offset,
                streams.at(column.values).bytes(count * column.fixed)?,
            );
        }
        if let Some(second) = &self.second {
            self.append_second_fixed(second, count, streams, rows)?;
        }
        Ok(true)
    }

    fn append_second_fixed(
        &self,
        second: &ImageLayout,
        count: usize,
        streams: &mut StreamCursors<'_>,
        rows: &mut [u8],
    ) -> Result<(), BlockDamage> {
        let bits_size = self.shared.div_ceil(8);
        let repeats = streams.at(self.repeats).bytes(count * bits_size)?;
        for column_offset in second.column_offset(self.first.size()) {
            let column = column_offset.column;
            let Some((earlier, bit)) = column.earlier else {
                let values = streams.at(column.values).bytes(count * column.fixed)?;
                scatter(rows, self.row_size, column_offset, values);
                continue;
            };
            let bit = RowBit { bytes: bits_size, bit };
            let change = self.changed_column(column_offset, earlier, bit);
            let differences = streams.at(column.values + 2);
            match column.fixed {
                1 => change.join::<1>(rows, repeats, differences)?,
                2 => change.join::<2>(rows, repeats, differences)?,
                3 => change.join::<3>(rows, repeats, differences)?,
                4 => change.join::<4>(rows, repeats, differences)?,
                5 => change.join::<5>(rows, repeats, differences)?,
                6 => change.join::<6>(rows, repeats, differences)?,
                7 => change.join::<7>(rows, repeats, differences)?,
                8 => change.join::<8>(rows, repeats, differences)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns a column of the second image whose value before an update is column `earlier` of the first one.
    fn changed_column(&self, column_offset: ColumnOffset<'_>, earlier: usize, bit: RowBit) -> ChangedColumn {
        let ColumnOffset { start, column } = column_offset;
        let (before, row_size) = (self.first.start(earlier), self.row_size);
        ChangedColumn { before, after: start, order: column.order, row_size, bit }
    }
}

impl ImageLayout {
    /// Returns the size of an image without NULLs.
    fn size(&self) -> usize {
        self.start(self.columns.len())
    }

    /// Returns the start of a column's value in an image without NULLs.
    fn start(&self, column: usize) -> usize {
        self.null_size + self.columns[..column].iter().map(|column| column.fixed).sum::<usize>()
    }

    /// Returns the columns, with their offsets in a row whose image starts at `start`.
    fn column_offset(&self, start: usize) -> impl Iterator<Item = ColumnOffset<'_>> {
        let mut next = start + self.null_size;
        self.columns.iter().map(move |column| {
            next += column.fixed;
            ColumnOffset { start: next - column.fixed, column }
        })
    }

    fn has_no_nulls(&self, image: &[u8]) -> bool {
        let used = self.columns.len();
        let (whole, last) = (used / 8, used % 8);
        image[..whole].iter().all(|byte| *byte == 0)
            && (last == 0 || image[whole].trailing_zeros() >= last as u32)
    }
}

/// Column in both images of rows: offsets of its values before and after an update.
#[derive(Clone, Copy)]
struct ChangedColumn {
    before: usize,
    after: usize,
    order: ByteOrder,
    row_size: usize,
    bit: RowBit,
}

/// Bit of a column among those of each row.
#[derive(Clone, Copy)]
struct RowBit {
    /// Bytes of a row's bits.
    bytes: usize,
    bit: usize,
}

impl ChangedColumn {
    /// Appends the differences of the values that an update changes, and marks the others in `repeats`.
    fn split<const W: usize>(self, rows: &[u8], repeats: &mut [u8], differences: &mut Vec<u8>) {
        let RowBit { bytes, bit } = self.bit;
        let rows = rows.chunks_exact(self.row_size);
        for (row, bits) in rows.zip(repeats.chunks_exact_mut(bytes)) {
            let before = value_at::<W>(row, self.before);
            let after = value_at::<W>(row, self.after);
            if before == after {
                bits[bit / 8] |= 1 << (bit % 8);
                continue;
            }
            let [before, after] = [before, after].map(|value| number_of(value, self.order));
            let difference = after.wrapping_sub(before).to_le_bytes();
            differences.extend_from_slice(&difference[..W]);
        }
    }

    /// Puts the values after an update into all rows, which have those before it.
    fn join<const W: usize>(
        self,
        rows: &mut [u8],
        repeats: &[u8],
        differences: &mut StreamCursor<'_>,
    ) -> Result<(), BlockDamage> {
        let RowBit { bytes, bit } = self.bit;
        let rows = rows.chunks_exact_mut(self.row_size);
        for (row, bits) in rows.zip(repeats.chunks_exact(bytes)) {
            let mut value = value_at::<W>(row, self.before);
            if bits[bit / 8] >> (bit % 8) & 1 == 0 {
                let difference = number_of(differences.array::<W>()?, ByteOrder::Little);
                let number = number_of(value, self.order).wrapping_add(difference);
                value.copy_from_slice(&number.to_le_bytes()[..W]);
                if self.order == ByteOrder::Big {
                    value.reverse();
                }
            }
            row[self.after..self.after + W].copy_from_slice(&value);
        }
        Ok(())
    }
}

#[inline]
fn value_at<const W: usize>(row: &[u8], start: usize) -> [u8; W] {
    let mut value = [0; W];
    value.copy_from_slice(&row[start..start + W]);
    value
}

#[inline]
fn number_of<const W: usize>(mut value: [u8; W], order: ByteOrder) -> u64 {
    if order == ByteOrder::Big {
        value.reverse();
    }
    let mut number = [0; 8];
    number[..W].copy_from_slice(&value);
    u64::from_le_bytes(number)
}

/// Appends a column's values of all rows.
fn gather(rows: &[u8], row_size: usize, column_offset: ColumnOffset<'_>, out: &mut Vec<u8>) {
    let ColumnOffset { start, column } = column_offset;
    match (column.order, column.fixed) {
        (ByteOrder::Little, 1) => gather_sized::<1>(rows, row_size, start, out),
        (ByteOrder::Little, 2) => gather_sized::<2>(rows, row_size, start, out),
        (ByteOrder::Little, 3) => gather_sized::<3>(rows, row_size, start, out),
        (ByteOrder::Little, 4) => gather_sized::<4>(rows, row_size, start, out),
        (ByteOrder::Little, 8) => gather_sized::<8>(rows, row_size, start, out),
        _ => {
            for row in rows.chunks_exact(row_size) {
                let value = row[start..start + column.fixed].iter();
                match column.order {
                    ByteOrder::Little => out.extend(value),
                    ByteOrder::Big => out.extend(value.rev()),
                }
            }
        }
    }
}

fn gather_sized<const W: usize>(rows: &[u8], row_size: usize, start: usize, out: &mut Vec<u8>) {
    let values = rows.chunks_exact(row_size).filter_map(|row| row[start..].first_chunk::<W>());
    out.reserve(rows.len() / row_size * W);
    values.for_each(|value| out.extend_from_slice(value));
}

/// Puts a column's values into all rows.
fn scatter(rows: &mut [u8], row_size: usize, column_offset: ColumnOffset<'_>, values: &[u8]) {
    let ColumnOffset { start, column } = column_offset;
    match (column.order, column.fixed) {
        (_, 0) => {}
        (ByteOrder::Little, 1) => scatter_sized::<1>(rows, row_size, start, values),
        (ByteOrder::Little, 2) => scatter_sized::<2>(rows, row_size, start, values),
        (ByteOrder::Little, 3) => scatter_sized::<3>(rows, row_size, start, values),
        (ByteOrder::Little, 4) => scatter_sized::<4>(rows, row_size, start, values),
        (ByteOrder::Little, 8) => scatter_sized::<8>(rows, row_size, start, values),
        (order, width) => {
            for (row, value) in rows.chunks_exact_mut(row_size).zip(values.chunks_exact(width)) {
                let target = &mut row[start..start + width];
                target.copy_from_slice(value);
                if order == ByteOrder::Big {
                    target.reverse();
                }
            }
        }
    }
}

fn scatter_sized<const W: usize>(rows: &mut [u8], row_size: usize, start: usize, values: &[u8]) {
    for (row, value) in rows.chunks_exact_mut(row_size).zip(values.as_chunks::<W>().0) {
        row[start..start + W].copy_from_slice(value);
    }
}
