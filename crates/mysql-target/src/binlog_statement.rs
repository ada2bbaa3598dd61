//! Row changes as `BINLOG '…'` statements: base64 of events, which the server decodes into row changes.

use std::ops::Range;

use binlog::events::{FormatDescription, Rows, RowsFlags};
use binlog::{
    DecodeError, EncodeError, Event, EventFlags, EventFormat, EventOrigin, NextPosition, RawEvent,
    TableRegistry,
};
use replay::RowEvents;

/// Bytes of a statement besides the base64.
const STATEMENT_OVERHEAD: usize = "BINLOG '';".len();

/// Returns the number of event bytes that fit into a statement of this size.
pub(crate) const fn events_size_max(statement_size: usize) -> usize {
    statement_size.saturating_sub(STATEMENT_OVERHEAD) / 4 * 3
}

/// Returns the `max_allowed_packet` that a statement with this many event bytes needs, rounded up to whole KiB.
fn packet_size_for(events_size: usize) -> usize {
    (events_size.div_ceil(3) * 4 + PACKET_MARGIN + STATEMENT_OVERHEAD).next_multiple_of(1 << 10)
}

/// Bytes of a packet that are reserved for the text around the events.
pub(crate) const PACKET_MARGIN: usize = 64 << 10;

/// Appends one `BINLOG` statement with these events.
pub(crate) fn put_binlog(out: &mut String, events: &[u8]) {
    out.push_str("BINLOG '");
    base64_simd::STANDARD.encode_append(events, out);
    out.push_str("';");
}

/// Builds the format description event that the server needs to read events of this format.
pub(crate) fn format_description(format: &EventFormat) -> Result<Vec<u8>, EncodeError> {
    let mut version = [0; 50];
    // The version ends with a zero byte.
    let size = format.server_version.len().min(version.len() - 1);
    version[..size].copy_from_slice(&format.server_version[..size]);
    let description = FormatDescription {
        binlog_version: 4,
        server_version: &version,
        created: 0,
        header_size: 19,
        post_header_sizes: &format.post_header_sizes,
        // Servers before 5.6.1 have no checksum byte.
        checksum_algorithm: format.has_checksum_byte().then_some(0),
    };
    let mut out = Vec::new();
    put_event(&Event::FormatDescription(description), &mut out, format)?;
    Ok(out)
}

/// Appends an event of this replay: no server has written it.
pub(crate) fn put_event(
    event: &Event<'_>,
    out: &mut Vec<u8>,
    format: &EventFormat,
) -> Result<(), EncodeError> {
    let origin = EventOrigin { timestamp: 0, server_id: 1, flags: EventFlags(0) };
    event.write(origin, NextPosition::Fixed(0), format, out)
}

/// Reason why events cannot be split.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SplitError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("an event with one row of {0} bytes exceeds the four-byte event size")]
    RowTooLarge(usize),
}

/// Returns the error text for a row larger than the server's packets.
pub(crate) fn row_too_large_message(size: usize, max: usize) -> String {
    format!(
        "a row of {size} bytes exceeds the {max} bytes that the target's max_allowed_packet allows. Run SET GLOBAL \
         max_allowed_packet = {}",
        packet_size_for(size)
    )
}

/// Events that form a complete statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventPart<'a> {
    /// As many events as fit.
    Run(&'a [u8]),
    /// One row that is too large by itself, preceded by its table maps.
    Row(&'a [u8]),
}

/// Splits events into runs of at most `size_max` bytes, each for one statement. A run ends where a source statement
/// ends. A source statement that is too large is split: each of its runs repeats its table maps, and ends as a
/// statement. A row that is too large by itself becomes an [`EventPart::Row`].
pub(crate) fn split(
    rows: &RowEvents,
    size_max: usize,
    put: &mut dyn FnMut(EventPart<'_>),
) -> Result<(), SplitError> {
    if rows.bytes.len() <= size_max {
        put(EventPart::Run(&rows.bytes));
        return Ok(());
    }
    let mut splitter =
        EventSplitter { format: &rows.format, size_max, run: Vec::new(), maps: Vec::new(), start: 0 };
    for raw in rows.events() {
        splitter.take(&raw, put)?;
    }
    if !splitter.run.is_empty() {
        put(EventPart::Run(&splitter.run));
    }
    Ok(())
}

struct EventSplitter<'f> {
    format: &'f EventFormat,
    size_max: usize,
    run: Vec<u8>,
    /// Table maps of the open source statement.
    maps: Vec<u8>,
    /// Offset of the open source statement in the run.
    start: usize,
}

impl EventSplitter<'_> {
    fn take(&mut self, raw: &RawEvent<'_>, put: &mut dyn FnMut(EventPart<'_>)) -> Result<(), SplitError> {
        let event = raw.decode(self.format)?;
        debug_assert!(self.start <= self.run.len(), "ours: the open statement is in the run");
        let Some(rows) = event.rows() else {
            self.maps.extend_from_slice(raw.bytes());
            self.append(raw.bytes());
            return Ok(());
        };
        if self.run.len() + raw.bytes().len() > self.size_max && self.start > 0 {
            // The complete statements before the open one form a run.
            put(EventPart::Run(&self.run[..self.start]));
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
                // The statement's last row was a separate part; only the table maps are left.
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

    /// Distributes the rows of an event that does not fit over several runs. Each run starts with the table maps.
    fn take_large(
        &mut self,
        raw: &RawEvent<'_>,
        rows: &Rows<'_>,
        put: &mut dyn FnMut(EventPart<'_>),
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
                self.end(|run| put(EventPart::Row(run)));
            }
        }
        if start < rows.rows.len() {
            self.put_part(raw, rows, start..rows.rows.len())?;
        }
        Ok(())
    }

    fn row_ends(&self, rows: &Rows<'_>) -> Result<Vec<Range<usize>>, SplitError> {
        let mut tables = TableRegistry::new();
        let known = RowEvents { format: self.format.clone().into(), bytes: self.maps.clone() };
        for map in known.events() {
            if let Event::TableMap(map) = map.decode(self.format)? {
                tables.register(&map)?;
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

    /// Appends an event with some of the rows. The last event of the run ends the statement later.
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

    /// Ends the run inside the open source statement.
    fn close(&mut self, put: &mut dyn FnMut(EventPart<'_>)) {
        self.end(|run| put(EventPart::Run(run)));
    }

    fn end(&mut self, put: impl FnOnce(&[u8])) {
        assert!(!self.run.is_empty(), "ours: a run has events");
        end_run(&mut self.run, self.format);
        put(&self.run);
        self.run.clear();
        self.run.extend_from_slice(&self.maps);
        self.start = 0;
    }
}

/// Sets the statement-end flag in the last event of a run.
pub(crate) fn end_run(run: &mut [u8], format: &EventFormat) {
    let mut last = 0;
    let mut at = 0;
    while let Some(size) = run.get(at + 9..at + 13).and_then(|size| size.try_into().ok()) {
        last = at;
        at += u32::from_le_bytes(size) as usize;
    }
    RowEvents::end_statement(&mut run[last..], format);
}

#[cfg(test)]
mod tests {
    use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
    use binlog::{
        ChecksumAlgorithm, Event, EventChecksum, EventFlags, EventFormat, EventOrigin, EventType, Flavour,
        NextPosition, RawEvent,
    };
    use replay::RowEvents;

    use super::{EventPart, format_description, row_too_large_message, split};

    const ORIGIN: EventOrigin = EventOrigin { timestamp: 1, server_id: 1, flags: EventFlags(0) };

    fn format() -> EventFormat {
        let (server_version, checksum) = (b"9.7.4".to_vec(), ChecksumAlgorithm::Off);
        EventFormat { server_version, post_header_sizes: vec![8; 42], checksum, flavour: Flavour::MySql }
    }

    fn put(event: &Event<'_>, out: &mut Vec<u8>) {
        event.write(ORIGIN, NextPosition::Fixed(0), &format(), out).unwrap();
    }

    /// Statements with one rows event each. Each row is one byte, counted up from 0; `counts` are rows per statement.
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

    /// Checks the row values of each run, and that each run starts with its table map and ends its statement.
    fn check(counts: &[u8], size_max: usize, expected: &str) {
        let mut runs = Vec::new();
        let events = statements(counts);
        split(&events, size_max, &mut |part| {
            let (run, is_fit) = match part {
                EventPart::Run(run) => (run, true),
                EventPart::Row(run) => (run, false),
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
        assert_eq!(runs.join(" "), expected);
    }

    #[test]
    fn runs_end_with_statements_where_they_can() {
        let one = statements(&[2]).bytes.len();
        check(&[2, 2, 2], 3 * one, "012345");
        check(&[2, 2, 2], 3 * one - 1, "0123 45");
        check(&[2, 2, 2], one, "01 23 45");
    }

    #[test]
    fn a_statement_that_is_too_large_is_split_between_rows() {
        let one = statements(&[1]).bytes.len();
        check(&[3], one, "0 1 2");
        check(&[5], one + 2, "01 23 4");
        check(&[1, 5, 1], one + 3, "0 12 34 5 6");
    }

    #[test]
    fn a_row_that_is_too_large_is_a_separate_part() {
        let one = statements(&[1]).bytes.len();
        check(&[1], one - 1, "[0]");
        check(&[3, 1], one - 1, "[0] [1] [2] [3]");
        let expected = "a row of 800000 bytes exceeds the 700000 bytes that the target's max_allowed_packet allows. \
                        Run SET GLOBAL max_allowed_packet = 1132544";
        assert_eq!(row_too_large_message(800_000, 700_000), expected);
    }

    #[test]
    fn format_descriptions_promise_no_checksums() {
        let bytes = format_description(&format()).unwrap();
        let raw = RawEvent::new(&bytes, EventChecksum::Crc32).unwrap();
        raw.verify().unwrap();
        let Ok(Event::FormatDescription(description)) = raw.decode(&format()) else { panic!("{raw:?}") };
        assert_eq!(description.format().unwrap(), format());
    }
}
