//! Decodes every value of every row.

use binlog::events::Rows;
use binlog::{DecodeError, RowDecoder, RowImage, Value};

/// Decodes every value of the event's rows.
pub(crate) fn decode_rows(decoder: &RowDecoder, event: &Rows<'_>) -> Result<(), DecodeError> {
    for row in decoder.rows(event) {
        let row = row?;
        for image in [row.before, row.after].iter().flatten() {
            decode_image(image)?;
        }
    }
    Ok(())
}

fn decode_image(image: &RowImage<'_, '_>) -> Result<(), DecodeError> {
    for field in image.fields() {
        let checked = match field.value()? {
            Value::Json(document) => document.check(),
            Value::JsonChanges(changes) => {
                changes.iter().filter_map(|change| change.value).try_for_each(|value| value.check())
            }
            _ => Ok(()),
        };
        checked.map_err(|error| error.within(field.offset()))?;
    }
    Ok(())
}
