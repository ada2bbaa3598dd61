//! Records before a row that cannot be written.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use logs::LogReader;
use sql::{FilterRule, ReplicationFilter};
use stream::{
    ColumnCatalogue, DdlSchema, Envelope, PipeSink, QueryText, RecordSink, SchemaPolicy, StatementPolicy,
    StreamHooks, StreamSettings, Streamer, TableSchema, UnnamedColumnPolicy, ValueModes, apply_log_ddl,
    new_stream_walk, stream_log,
};

/// Table with ENUMs and SETs in the sample.
const TABLE: &str = "types.choices";

#[derive(Clone, Default)]
struct SharedBuffer(Rc<RefCell<Vec<u8>>>);

impl io::Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open_sample() -> LogReader {
    LogReader::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types.binlog")).unwrap()
}

/// Returns the definition of the table with other members of the column.
fn definition(column: &str, column_type: &str) -> TableSchema {
    let mut definitions = DdlSchema::default();
    apply_log_ddl(&mut open_sample(), &mut definitions, None).unwrap();
    let (database, table) = TABLE.split_once('.').unwrap();
    let mut found = definitions.table(database, table).unwrap().clone();
    let named = found.columns.iter_mut().find(|found| found.name == column).unwrap();
    column_type.clone_into(&mut named.column_type);
    found
}

/// Streams the table with this definition; returns the records, and the error.
fn stream_table(
    envelope: Envelope,
    unnamed_columns: UnnamedColumnPolicy,
    definition: TableSchema,
) -> (String, Option<String>) {
    let settings = StreamSettings {
        envelope,
        filter: ReplicationFilter::new([FilterRule::DoTable(TABLE.to_owned())]).unwrap(),
        modes: ValueModes::default(),
        rules: Arc::default(),
        schemas: SchemaPolicy::Omit,
        unnamed_columns,
        statements: StatementPolicy::Refuse,
        query_text: QueryText::Omit,
        name: "bintide".to_owned(),
        version: "0".to_owned(),
    };
    let written = SharedBuffer::default();
    let mut output = RecordSink::for_pipe(PipeSink::new(Box::new(written.clone())));
    let catalogue = ColumnCatalogue::from_server(move |_, _| Ok(Some(definition.clone())));
    let mut streamer = Streamer::new(settings).with_column_catalogue(catalogue);
    let mut boundary = |_: stream::TransactionBoundary<'_>| Ok(ControlFlow::Continue(()));
    let mut watch = StreamHooks { now_ns: &|| 0, on_boundary: &mut boundary };
    let (mut name, mut walk) = ("log".to_owned(), new_stream_walk(open_sample()));
    let ended = stream_log(&mut walk, &mut name, &mut streamer, &mut output, &mut watch);
    // As after an error of the command.
    output.save().unwrap();
    (String::from_utf8(written.0.take()).unwrap(), ended.err().map(|error| error.to_string()))
}

#[test]
fn an_error_leaves_no_torn_record() {
    for envelope in [Envelope::Debezium, Envelope::Maxwell] {
        let definition = definition("e", "enum('one','two')");
        let (records, error) = stream_table(envelope, UnnamedColumnPolicy::Refuse, definition);
        let error = error.unwrap();
        assert!(error.contains("types.choices.e has a value") && error.contains("--schema=ddl"), "{error}");
        assert!(records.ends_with("}\n") && records.contains("\"one\""), "{records}");
        for line in records.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}

#[test]
fn members_that_a_definition_lacks_have_numbers() {
    let check = |envelope, column, column_type, expected: &str| {
        let definition = definition(column, column_type);
        let (records, error) = stream_table(envelope, UnnamedColumnPolicy::Number, definition);
        assert!(error.is_none() && records.contains(expected), "{error:?} {records}");
    };
    check(Envelope::Debezium, "e", "enum('one','two')", "\"e\":\"@3\"");
    check(Envelope::Maxwell, "e", "enum('one','two')", "\"e\":\"@3\"");
    check(Envelope::Debezium, "s", "set('a','b')", "\"s\":\"a,@3\"");
    check(Envelope::Maxwell, "s", "set('a','b')", "\"s\":[\"a\",\"@3\"]");
}
