//! Row changes as `BINLOG '…'` statements: events in base64, of which the server makes row changes again.

use std::ops::Range;

use binlog::events::{FormatDescription, Rows, RowsFlags};
use binlog::{DecodeError, EncodeError, Event, Format, NextPosition, Origin, RawEvent, Tables};

use crate::spooled;
use crate::work::RowEvents;

/// What stands around the base64.
const AROUND: usize = "BINLOG '';".len();

/// How many bytes of events go into a statement of so many bytes.
pub(super) const fn events_size_max(statement_size: usize) -> usize {
    statement_size.saturating_sub(AROUND) / 4 * 3
}

/// What a server is to be asked for, so that a statement with events of so many bytes fits: in whole KiB.
fn packet_for(events_size: usize) -> usize {
    (events_size.div_ceil(3) * 4 + PACKET_MARGIN + AROUND).next_multiple_of(1 << 10)
}

/// How much of a packet is left to what stands around the events.
pub(super) const PACKET_MARGIN: usize = 64 << 10;

/// Appends one statement with these events.
pub(super) fn put_binlog(out: &mut String, events: &[u8]) {
    out.push_str("BINLOG '");
    base64_simd::STANDARD.encode_append(events, out);
    out.push_str("';");
}

/// The format description that tells the server how to read events that were written in this format.
pub(super) fn format_description(format: &Format) -> Result<Vec<u8>, EncodeError> {
    let mut version = [0; 50];
    // The last byte stays zero.
    let size = format.server_version.len().min(version.len() - 1);
    version[..size].copy_from_slice(&format.server_version[..size]);
    let description = FormatDescription {
        binlog_version: 4,
        server_version: &version,
        created: 0,
        header_size: 19,
        post_header_sizes: &format.post_header_sizes,
        // Servers before 5.6.1 have no such byte.
        checksum_algorithm: format.has_checksum_byte().then_some(0),
    };
    let mut out = Vec::new();
    let origin = Origin { timestamp: 0, server_id: 1, flags: binlog::Flags(0) };
    Event::FormatDescription(description).write(origin, NextPosition::Is(0), format, &mut out)?;
    Ok(out)
}

/// Why events cannot be made fit.
#[derive(Debug, thiserror::Error)]
pub(super) enum SplitError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("an event with one row of {0} bytes: its size has four bytes")]
    RowTooLarge(usize),
}

/// What a server that takes no larger packets is to be told, in words.
pub(super) fn row_too_large(size: usize, max: usize) -> String {
    format!(
        "a row of {size} bytes is larger than the target's max_allowed_packet lets through, {max} bytes: SET GLOBAL \
         max_allowed_packet = {}",
        packet_for(size)
    )
}

/// Events that can stand alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// So many that they fit.
    Run(&'a [u8]),
    /// One row, which is too large by itself; in front of it, its tables.
    Row(&'a [u8]),
}

/// Cuts events into runs of at most `size_max` bytes; each run can stand alone in a statement. A run ends where a
/// source statement ends, or, if one is too large for that, within it: then its tables are named again, and the run
/// ends a statement of its own. A row that is too large by itself is a part of its own.
pub(super) fn split(
    rows: &RowEvents,
    size_max: usize,
    put: &mut dyn FnMut(Part<'_>),
) -> Result<(), SplitError> {
    if rows.bytes.len() <= size_max {
        put(Part::Run(&rows.bytes));
        return Ok(());
    }
    let mut splitter =
        Splitter { format: &rows.format, size_max, run: Vec::new(), maps: Vec::new(), start: 0 };
    for raw in rows.events() {
        splitter.take(&raw, put)?;
    }
    if !splitter.run.is_empty() {
        put(Part::Run(&splitter.run));
    }
    Ok(())
}

struct Splitter<'f> {
    format: &'f Format,
    size_max: usize,
    run: Vec<u8>,
    /// The open statement's table maps.
    maps: Vec<u8>,
    /// Where the open statement starts in the run.
    start: usize,
}

impl Splitter<'_> {
    fn take(&mut self, raw: &RawEvent<'_>, put: &mut dyn FnMut(Part<'_>)) -> Result<(), SplitError> {
        let event = raw.decode(self.format)?;
        let Some(rows) = event.rows() else {
            self.maps.extend_from_slice(raw.bytes());
            self.append(raw.bytes());
            return Ok(());
        };
        if self.run.len() + raw.bytes().len() > self.size_max && self.start > 0 {
            // The statements in front of the open one go by themselves.
            put(Part::Run(&self.run[..self.start]));
            self.run.drain(..self.start);
            self.start = 0;
        }
        if self.run.len() + raw.bytes().len() > self.size_max {
            self.take_large(raw, rows, put)?;
        } else {
            self.append(raw.bytes());
        }
        if rows.flags.contains(RowsFlags::STATEMENT_END) {
            if self.run.len() == self.start + self.maps.len() {
                // Nothing came behind the tables: its last row went by itself.
                self.run.truncate(self.start);
            }
            self.maps.clear();
            self.start = self.run.len();
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) {
        self.run.extend_from_slice(bytes);
    }

    /// An event that does not fit: its rows are spread over runs, each with the tables in front.
    fn take_large(
        &mut self,
        raw: &RawEvent<'_>,
        rows: &Rows<'_>,
        put: &mut dyn FnMut(Part<'_>),
    ) -> Result<(), SplitError> {
        let head = raw.bytes().len() - rows.rows.len();
        let mut start = 0;
        for end in self.row_ends(rows)? {
            let room = self.size_max.saturating_sub(self.run.len() + head);
            if end.end - start > room && start < end.start {
                self.put_part(raw, rows, start..end.start)?;
                self.close(put);
                start = end.start;
            } else if end.end - start > room && self.run.len() > self.maps.len() {
                self.close(put);
            }
            if self.maps.len() + head + (end.end - start) > self.size_max {
                self.put_part(raw, rows, start..end.end)?;
                start = end.end;
                self.end(|run| put(Part::Row(run)));
            }
        }
        if start < rows.rows.len() {
            self.put_part(raw, rows, start..rows.rows.len())?;
        }
        Ok(())
    }

    fn row_ends(&self, rows: &Rows<'_>) -> Result<Vec<Range<usize>>, SplitError> {
        let mut tables = Tables::new();
        let known = RowEvents { format: self.format.clone().into(), bytes: self.maps.clone() };
        for map in known.events() {
            if let Event::TableMap(map) = map.decode(self.format)? {
                tables.map(&map)?;
            }
        }
        let decoder = tables.decoder(rows)?;
        let mut iter = decoder.rows(rows);
        let (mut ends, mut start) = (Vec::new(), 0);
        while let Some(row) = iter.next() {
            row?;
            let end = rows.rows.len() - iter.rest().len();
            ends.push(start..end);
            start = end;
        }
        Ok(ends)
    }

    /// Appends an event with some of the rows. Behind it, more of them come.
    fn put_part(
        &mut self,
        raw: &RawEvent<'_>,
        rows: &Rows<'_>,
        part: Range<usize>,
    ) -> Result<(), SplitError> {
        let start = self.run.len();
        let head = raw.bytes().len() - rows.rows.len();
        let size = head + part.len();
        self.run.extend_from_slice(&raw.bytes()[..head]);
        self.run.extend_from_slice(&rows.rows[part]);
        let size = u32::try_from(size).map_err(|_| SplitError::RowTooLarge(size))?;
        self.run[start + 9..start + 13].copy_from_slice(&size.to_le_bytes());
        Ok(())
    }

    /// Ends the run within the open statement.
    fn close(&mut self, put: &mut dyn FnMut(Part<'_>)) {
        self.end(|run| put(Part::Run(run)));
    }

    fn end(&mut self, put: impl FnOnce(&[u8])) {
        end_run(&mut self.run, self.format);
        put(&self.run);
        self.run.clear();
        self.run.extend_from_slice(&self.maps);
        self.start = 0;
    }
}

/// Lets the last event of a run end its statement.
fn end_run(run: &mut [u8], format: &Format) {
    let mut last = 0;
    let mut at = 0;
    while let Some(size) = run.get(at + 9..at + 13).and_then(|size| size.try_into().ok()) {
        last = at;
        at += u32::from_le_bytes(size) as usize;
    }
    spooled::end_statement(&mut run[last..], format);
}

#[cfg(test)]
mod tests {
    use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
    use binlog::{
        Checksum, ChecksumAlgorithm, Event, EventType, Flags, Flavour, Format, NextPosition, Origin, RawEvent,
    };

    use super::{Part, format_description, row_too_large, split};
    use crate::work::RowEvents;

    const ORIGIN: Origin = Origin { timestamp: 1, server_id: 1, flags: Flags(0) };

    fn format() -> Format {
        let (server_version, checksum) = (b"9.7.4".to_vec(), ChecksumAlgorithm::Off);
        Format { server_version, post_header_sizes: vec![8; 42], checksum, flavour: Flavour::MySql }
    }

    fn put(event: &Event<'_>, out: &mut Vec<u8>) {
        event.write(ORIGIN, NextPosition::Is(0), &format(), out).unwrap();
    }

    /// Statements of one rows event each, whose rows are one byte: so many of them, counted on.
    fn statements(counts: &[u8]) -> RowEvents {
        let (mut bytes, mut value) = (Vec::new(), 0);
        for count in counts {
            put(
                &Event::TableMap(TableMap {
                    table_id: 7,
                    flags: 1,
                    database: b"d",
                    table: b"t",
                    column_types: &[1],
                    metadata: &[],
                    nullable: &[0],
                    optional: &[],
                    flavour: Flavour::MySql,
                }),
                &mut bytes,
            );
            let mut rows = Vec::new();
            for _ in 0..*count {
                rows.extend_from_slice(&[0, value]);
                value += 1;
            }
            let (kind, flags) = (RowsKind::Write, RowsFlags::STATEMENT_END);
            let columns = ColumnSet { bits: &[1] };
            let event = Rows {
                kind,
                table_id: 7,
                flags,
                extra: Some(&[]),
                column_count: 1,
                columns,
                columns_after: None,
                rows: &rows,
            };
            put(&Event::WriteRows(event), &mut bytes);
        }
        RowEvents { format: format().into(), bytes }
    }

    /// What the runs hold: the values of each, the table named in front of them, the last event ending its statement.
    fn check(counts: &[u8], size_max: usize, wanted: &str) {
        let mut runs = Vec::new();
        let events = statements(counts);
        split(&events, size_max, &mut |part| {
            let (run, is_fit) = match part {
                Part::Run(run) => (run, true),
                Part::Row(run) => (run, false),
            };
            assert_eq!(run.len() <= size_max, is_fit, "{} bytes", run.len());
            let run = RowEvents { format: events.format.clone(), bytes: run.to_vec() };
            let (mut text, mut last) = (String::new(), EventType::Xid);
            for raw in run.events() {
                if let Event::WriteRows(rows) = raw.decode(&run.format).unwrap() {
                    assert_eq!((last, rows.flags), (EventType::TableMap, RowsFlags::STATEMENT_END));
                    text.extend(rows.rows.chunks(2).map(|row| row[1].to_string()));
                }
                last = raw.event_type();
            }
            assert_eq!(last, EventType::WriteRows);
            runs.push(if is_fit { text } else { format!("[{text}]") });
        })
        .unwrap();
        assert_eq!(runs.join(" "), wanted);
    }

    #[test]
    fn runs_end_with_statements_where_they_can() {
        let one = statements(&[2]).bytes.len();
        check(&[2, 2, 2], 3 * one, "012345");
        check(&[2, 2, 2], 3 * one - 1, "0123 45");
        check(&[2, 2, 2], one, "01 23 45");
    }

    #[test]
    fn a_statement_that_is_too_large_is_cut_at_rows() {
        let one = statements(&[1]).bytes.len();
        check(&[3], one, "0 1 2");
        check(&[5], one + 2, "01 23 4");
        check(&[1, 5, 1], one + 3, "0 12 34 5 6");
    }

    #[test]
    fn a_row_that_is_too_large_goes_by_itself() {
        let one = statements(&[1]).bytes.len();
        check(&[1], one - 1, "[0]");
        check(&[3, 1], one - 1, "[0] [1] [2] [3]");
        let wanted = "a row of 800000 bytes is larger than the target's max_allowed_packet lets through, 700000 bytes: \
                      SET GLOBAL max_allowed_packet = 1132544";
        assert_eq!(row_too_large(800_000, 700_000), wanted);
    }

    #[test]
    fn format_descriptions_promise_no_checksums() {
        let bytes = format_description(&format()).unwrap();
        let raw = RawEvent::new(&bytes, Checksum::Crc32).unwrap();
        raw.verify().unwrap();
        let Ok(Event::FormatDescription(description)) = raw.decode(&format()) else { panic!("{raw:?}") };
        assert_eq!(description.format().unwrap(), format());
    }
}
