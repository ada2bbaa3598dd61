//! Geometries as well-known text: `POINT (1 2)`.

use binlog::Cursor;
use sql::numbers::put_i64;

/// Nesting depth of geometries. A server accepts more. Bounds the stack.
const DEPTH_MAX: usize = 64;

/// Appends a geometry in well-known binary form as text; `None` if it is malformed.
pub(crate) fn put_wkt(out: &mut Vec<u8>, wkb: &[u8]) -> Option<()> {
    let mut cursor = Cursor::new(wkb);
    put_geometry(out, &mut cursor, WktTypeName::Yes, DEPTH_MAX)?;
    cursor.is_empty().then_some(())
}

/// Presence of the type name at the start of a geometry's text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WktTypeName {
    Yes,
    No,
}

/// Structure of a geometry.
#[derive(Clone, Copy)]
enum WktParts {
    /// One point.
    Point,
    /// List of points.
    Points,
    /// List of lists of points.
    Lines,
    /// List of geometries, with type names or without.
    Geometries(WktTypeName),
}

/// Types by their code in the well-known binary form, from 1.
const GEOMETRY_KINDS: [(&str, WktParts); 7] = [
    ("POINT", WktParts::Point),
    ("LINESTRING", WktParts::Points),
    ("POLYGON", WktParts::Lines),
    ("MULTIPOINT", WktParts::Geometries(WktTypeName::No)),
    ("MULTILINESTRING", WktParts::Geometries(WktTypeName::No)),
    ("MULTIPOLYGON", WktParts::Geometries(WktTypeName::No)),
    ("GEOMETRYCOLLECTION", WktParts::Geometries(WktTypeName::Yes)),
];

// size  field
//    1  1: little-endian, as servers always write it
//    4  type
//    *  parts: a point; or their number (4), then each
fn put_geometry(out: &mut Vec<u8>, cursor: &mut Cursor<'_>, named: WktTypeName, depth: usize) -> Option<()> {
    (cursor.u8().ok()? == 1).then_some(())?;
    let (name, parts) = *GEOMETRY_KINDS.get(usize::try_from(cursor.u32().ok()?).ok()?.checked_sub(1)?)?;
    let depth = depth.checked_sub(1)?;
    if named == WktTypeName::Yes {
        out.extend_from_slice(name.as_bytes());
        out.push(b' ');
    }
    match parts {
        WktParts::Point => {
            out.push(b'(');
            put_point(out, cursor)?;
            out.push(b')');
            Some(())
        }
        WktParts::Points => put_list(out, cursor, &mut put_point),
        WktParts::Lines => put_list(out, cursor, &mut |out, cursor| put_list(out, cursor, &mut put_point)),
        WktParts::Geometries(inner) => {
            put_list(out, cursor, &mut |out, cursor| put_geometry(out, cursor, inner, depth))
        }
    }
}

type PutPart<'p> = &'p mut dyn FnMut(&mut Vec<u8>, &mut Cursor<'_>) -> Option<()>;

fn put_list(out: &mut Vec<u8>, cursor: &mut Cursor<'_>, put: PutPart<'_>) -> Option<()> {
    let count = cursor.u32().ok()?;
    if count == 0 {
        out.extend_from_slice(b"EMPTY");
        return Some(());
    }
    for index in 0..count {
        out.extend_from_slice(if index == 0 { b"(" } else { b", " });
        put(out, cursor)?;
    }
    out.push(b')');
    Some(())
}

fn put_point(out: &mut Vec<u8>, cursor: &mut Cursor<'_>) -> Option<()> {
    for index in 0..2 {
        if index > 0 {
            out.push(b' ');
        }
        put_number(out, f64::from_le_bytes(cursor.array().ok()?));
    }
    Some(())
}

fn put_number(out: &mut Vec<u8>, number: f64) {
    /// Limit up to which whole numbers are exact, and written without a fraction.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match number.fract() == 0.0 && number.abs() < EXACT_MAX {
        true => put_i64(out, number as i64),
        false => crate::json_writer::put_float(out, number),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::put_wkt;

    fn wkb(kind: u32, rest: &[&[u8]]) -> Vec<u8> {
        [&[1], &kind.to_le_bytes()[..], &rest.concat()].concat()
    }

    fn place(x: f64, y: f64) -> Vec<u8> {
        [x.to_le_bytes(), y.to_le_bytes()].concat()
    }

    fn check(wkb: &[u8], expected: Option<&str>) {
        let mut out = Vec::new();
        let text = put_wkt(&mut out, wkb).map(|()| String::from_utf8(out).unwrap());
        assert_eq!(text.as_deref(), expected);
    }

    #[test]
    fn texts() {
        let two = 2_u32.to_le_bytes();
        let point = wkb(1, &[&place(1.0, -2.5)]);
        let line = wkb(2, &[&two, &place(0.0, 0.0), &place(1e300, 1.0)]);
        check(&point, Some("POINT (1 -2.5)"));
        check(&line, Some("LINESTRING (0 0, 1e+300 1)"));
        check(&wkb(3, &[&1_u32.to_le_bytes(), &line[5..]]), Some("POLYGON ((0 0, 1e+300 1))"));
        check(&wkb(4, &[&two, &point, &point]), Some("MULTIPOINT ((1 -2.5), (1 -2.5))"));
        check(
            &wkb(7, &[&two, &point, &line]),
            Some("GEOMETRYCOLLECTION (POINT (1 -2.5), LINESTRING (0 0, 1e+300 1))"),
        );
        check(&wkb(7, &[&[0; 4]]), Some("GEOMETRYCOLLECTION EMPTY"));
        check(&point[..20], None);
        check(&wkb(8, &[]), None);
        check(&[], None);
    }

    proptest! {
        #[test]
        fn any_bytes(bytes: Vec<u8>) {
            let _ = put_wkt(&mut Vec::new(), &bytes);
        }
    }
}
