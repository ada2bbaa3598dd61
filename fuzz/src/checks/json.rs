//! JSON documents: the size of the text is limited by the document's size, and changes keep the other values.

use binlog::{Event, JsonChanges, JsonDocument, JsonQuotes, TableRegistry, Value};

use crate::seeds::{Sample, format_of, raw_events};

/// Maximum size of a document in a seed, in bytes.
const SEED_SIZE_MAX: usize = 512;

/// Maximum number of text bytes for a byte of a document: three bytes contain an integer, a comma and a space.
const GROWTH_MAX: usize = 16;

/// Returns documents and changes, in the form of [`check`].
pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut tables = TableRegistry::new();
    let format = format_of("9.7.4", 8);
    for raw in raw_events(sample) {
        let rows = match raw.decode(&format) {
            Ok(Event::TableMap(map)) => {
                // Another target tests maps that cannot be decoded.
                drop(tables.register(&map));
                continue;
            }
            Ok(
                Event::WriteRows(rows)
                | Event::UpdateRows(rows)
                | Event::DeleteRows(rows)
                | Event::PartialUpdateRows(rows),
            ) => rows,
            _ => continue,
        };
        let Ok(decoder) = tables.decoder(&rows) else { continue };
        for row in decoder.rows(&rows).flatten() {
            for field in row.images().flat_map(|image| image.fields()) {
                let before = row.before.and_then(|image| image.field(field.index()));
                let before = before.and_then(|field| field.bytes()).unwrap_or_default();
                match field.value() {
                    Ok(Value::Json(document)) => seeds.push(input(document.bytes(), &[])),
                    Ok(Value::JsonChanges(changes)) => seeds.push(input(before, changes.bytes())),
                    _ => {}
                }
            }
        }
    }
    seeds.retain(|seed| seed.len() <= SEED_SIZE_MAX);
    seeds
}

fn input(document: &[u8], changes: &[u8]) -> Vec<u8> {
    // A document that does not fit is truncated, and gives no seed.
    [&(document.len() as u16).to_le_bytes(), document, changes].concat()
}

/// Checks `bytes`: the size of a document (2), the document, and changes to it.
pub(super) fn check(bytes: &[u8]) {
    let Some((size, rest)) = bytes.split_first_chunk() else { return };
    let Some((document, changes)) = rest.split_at_checked(usize::from(u16::from_le_bytes(*size))) else {
        return;
    };
    let document = JsonDocument::new(document);
    let text = text(document);
    assert_eq!(document.check().is_ok(), text.is_some());
    if let Some(text) = &text {
        check_untouched(document, text);
    }
    let Ok(changes) = JsonChanges::new(changes) else { return };
    if let Ok(after) = changes.apply(document) {
        let size_max = 2 * (rest.len() + 64);
        assert!(after.len() <= size_max, "{} bytes of {}", after.len(), rest.len());
        let after = JsonDocument::new(&after);
        let text_after = self::text(after);
        // A damaged value may have been replaced, but a valid document stays valid.
        assert!(
            text.is_none() || text_after.is_some() || changes.iter().any(|change| change.value.is_some())
        );
    }
}

fn text(document: JsonDocument<'_>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let result = document.write(JsonQuotes::Always, &mut text);
    let size_max = GROWTH_MAX * (document.bytes().len() + 4);
    assert!(text.len() <= size_max, "{} bytes of {}", text.len(), document.bytes().len());
    result.is_ok().then_some(text)
}

/// Checks that removing a value and inserting it again gives the same text.
fn check_untouched(document: JsonDocument<'_>, text: &[u8]) {
    let same = JsonChanges::new(&[]).and_then(|nothing| nothing.apply(document)).expect("no change applies");
    assert_eq!(self::text(JsonDocument::new(&same)).as_deref(), Some(text));
    // Remove `$[0]` of an array and insert it again: this decodes and encodes the whole array.
    let around = b"\x01\x04$[0]\x03\x05\x01\x00\x02\x04$[0]";
    let changes = JsonChanges::new(around).expect("changes as servers write them");
    if text.starts_with(b"[")
        && let Ok(same) = changes.apply(document)
        // Overlapping parts may be hidden by gaps, and appear when the gaps are removed.
        && let Some(same) = self::text(JsonDocument::new(&same))
    {
        assert_eq!(same, text);
    }
}
