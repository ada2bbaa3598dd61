//! Inverses of rows: with any table map, rows are inverted or refused, and the inverse has as many rows. The inverse of
//! an inverse is the event itself, if both images have the same columns.

use binlog::events::{Rows, RowsKind};
use binlog::{Event, EventChecksum, RawEvent, TableRegistry};
use undo::{InvertedRows, RowInverter};

use crate::checks::rows::split;
use crate::seeds::format_of;

/// Checks the table map and the rows event of [`split`].
pub(super) fn check(bytes: &[u8]) {
    let Some((map, rows)) = split(bytes) else { return };
    let format = format_of("9.7.4", 8);
    let decode = |bytes| RawEvent::new(bytes, EventChecksum::Absent).and_then(|raw| raw.decode(&format));
    let (mut inverter, mut tables) = (RowInverter::new(), TableRegistry::new());
    let Ok(Event::TableMap(map)) = decode(&map) else { return };
    if inverter.register(&map).is_err() || tables.register(&map).is_err() {
        return;
    }
    let Ok(event) = decode(&rows) else { return };
    let Some(rows) = event.rows() else { return };
    let Some(inverse) = invert(&mut inverter, rows) else { return };
    let inverse_event = inverse.event(&format);
    let Some(inverse_rows) = inverse_event.rows() else { panic!("an inverse is a rows event") };
    let decoder = tables.decoder(inverse_rows).expect("an inverse has a table");
    assert_eq!(decoder.count(inverse_rows), Ok(inverse.row_count), "{inverse:?}");
    let has_equal_images = rows.columns_after.is_none_or(|after| after == rows.columns);
    if rows.kind != RowsKind::PartialUpdate && has_equal_images {
        let Some(again) = invert(&mut inverter, inverse_rows) else { return };
        assert_eq!(again.event(&format).rows().map(|rows| rows.rows), Some(rows.rows));
    }
}

/// Returns the inverse of all rows; `None` if it is refused, or if there are no rows.
fn invert(inverter: &mut RowInverter, rows: &Rows<'_>) -> Option<InvertedRows> {
    inverter.invert(rows, &mut |_| Ok(true)).ok().flatten()
}
