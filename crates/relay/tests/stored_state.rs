//! States of stores that grow and whose oldest logs are purged.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its samples has failed")]

mod common;

use common::{TestStore, sample};
use relay::{FormChunk, HeadEvents, LogForm, StateReader, StoredState};

/// Number of transactions in the newest log and, if the log before it was read, in that log.
#[derive(Debug, Default, PartialEq, Eq)]
struct TransactionCount(usize);

impl StoredState for TransactionCount {
    fn before_log(_: Option<&HeadEvents>) -> Self {
        Self(0)
    }

    fn add_chunk(&mut self, chunk: &FormChunk, first: usize) {
        self.0 += chunk.transactions().iter().filter(|mark| mark.slice >= first).count();
    }
}

/// Between two calls, logs appear and the one that was the newest is purged.
#[test]
fn a_purged_log_is_no_failure() {
    let [first, second, third] =
        ["rotation/binlog.000003", "rotation/binlog.000004", "rotation/binlog.000005"].map(sample);
    let count = |logs: &[&[u8]]| {
        let store = TestStore::new(logs);
        StateReader::<TransactionCount>::default().read(&store.source(LogForm::AsIs)).unwrap().0
    };
    let store = TestStore::new(&[&first]);
    let source = store.source(LogForm::AsIs);
    let mut reader = StateReader::<TransactionCount>::default();
    assert_eq!(reader.read(&source).unwrap().0, count(&[&first]));
    store.write(2, &second);
    store.write(3, &third);
    std::fs::remove_file(store.directory.path().join("binlog.000001")).unwrap();
    // What the source knew of the log is forgotten, too.
    source.forget_purged().unwrap();
    source.record_growth();
    assert_eq!(reader.read(&source).unwrap().0, count(&[&third]));
    assert!(count(&[&third]) > 0);
}
