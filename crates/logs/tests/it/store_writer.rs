//! A store that is written to, cut off anywhere, and written on.

use std::fs;

use logs::{Store, StoreWriter};
use tempfile::TempDir;

use crate::make::{QUERY, ROTATE, event, format, log};

fn open(folder: &TempDir) -> StoreWriter {
    StoreWriter::open(folder.path()).unwrap()
}

/// Appends them behind what is there.
fn append(store: &mut StoreWriter, events: &[Vec<u8>]) {
    for event in events {
        let (_, position) = store.place().unwrap();
        store.append(position, event).unwrap();
    }
}

#[test]
fn logs_are_written_as_a_server_has_them() {
    let folder = TempDir::new().unwrap();
    let events = [format(0), event(QUERY, 0, b"one"), event(ROTATE, 0, b"12345678b.000002")];
    let mut store = open(&folder);
    assert_eq!(store.place(), None);
    store.begin("b.000001", 4).unwrap();
    append(&mut store, &events);
    store.begin("b.000002", 4).unwrap();
    append(&mut store, &events[..2]);
    store.sync().unwrap();
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("b.000001"), log(&events));
    assert_eq!(read("b.000002"), log(&events[..2]));
    assert_eq!(read("b.index"), b"./b.000001\n./b.000002\n");
    assert_eq!(Store::open(folder.path()).unwrap().logs().len(), 2);
}

/// Wherever the last log stops, the store goes on behind the last whole event.
#[test]
fn a_torn_tail_is_cut_off() {
    let events = [format(0), event(QUERY, 0, b"one"), event(QUERY, 0, b"another")];
    let whole = log(&events);
    let ends = [4, 4 + events[0].len(), whole.len() - events[2].len(), whole.len()];
    // Each takes many syncs: those around the ends of events, and some between.
    let is_near = |size: &usize| size.is_multiple_of(32) || ends.iter().any(|end| end.abs_diff(*size) <= 1);
    for size in (0..=whole.len()).filter(is_near) {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("b.000001"), &whole[..size]).unwrap();
        fs::write(folder.path().join("b.index"), b"./b.000001\n./b.0000").unwrap();
        let mut store = open(&folder);
        let end = ends.iter().rev().find(|end| **end <= size).copied().unwrap_or(4);
        assert_eq!(store.place(), Some(("b.000001", end as u64)), "{size}");
        assert_eq!(store.cut(), size.saturating_sub(end) as u64);
        let done = ends.iter().position(|one| *one == end).unwrap();
        store.begin("b.000001", end as u64).unwrap();
        append(&mut store, &events[done..]);
        store.sync().unwrap();
        assert_eq!(fs::read(folder.path().join("b.000001")).unwrap(), whole, "{size}");
        assert_eq!(fs::read(folder.path().join("b.index")).unwrap(), b"./b.000001\n");
    }
}

/// The names come from a server, which may be anybody's.
#[test]
fn what_does_not_follow_is_refused() {
    let folder = TempDir::new().unwrap();
    let mut store = open(&folder);
    let check = |store: &mut StoreWriter, name: &str, position: u64, wanted: &str| {
        assert_eq!(store.begin(name, position).unwrap_err().to_string(), wanted);
    };
    for name in ["../b.000001", "/b.000001", "", "..", "b.1", "b", "x/b.000001", ".000001"] {
        let wanted =
            format!("{name:?} is no name of a binary log: those are a name, a point and six digits or more");
        check(&mut store, name, 4, &wanted);
    }
    check(&mut store, "b.000001", 5, "b.000001: an event that starts at 5 came where one at 4 was wanted");
    store.begin("b.000001", 4).unwrap();
    append(&mut store, &[format(0)]);
    let (_, end) = store.place().unwrap();
    let end = end.to_string();
    let wanted = format!("b.000001: an event that starts at 4 came where one at {end} was wanted");
    check(&mut store, "b.000001", 4, &wanted);
    let reset = "the source's logs were reset, or are those of another server";
    check(&mut store, "b.000003", 4, &format!("b.000003 does not follow b.000001: {reset}"));
    check(&mut store, "c.000002", 4, &format!("c.000002 does not follow b.000001: {reset}"));
    let error = StoreWriter::open(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("is being written to by another bintide"), "{error}");
}
