use std::sync::Arc;

use binlog::events::{RowsFlags, RowsKind};
use binlog::{ChecksumAlgorithm, Event, EventFlags, EventFormat, EventOrigin, Flavour, NextPosition};
use sql::{FilterRule, ReplicationFilter};

use super::TransactionFilter;
use crate::apply_plan::{ApplyPlan, ApplyStep, SourceStatement, StatementTime, TransactionShape};
use crate::row_events::RowEvents;
use crate::sample_table::{SampleTable, image, int};

/// Parses rules as on the command line: `do-db=d`, `rewrite-db=a->b`.
fn filter(rules: &str) -> ReplicationFilter {
    let rule = |word: &str| {
        let (name, value) = word.split_once('=').unwrap();
        let text = value.to_owned();
        match name {
            "do-db" => FilterRule::DoDatabase(text),
            "ignore-db" => FilterRule::IgnoreDatabase(text),
            "do-table" => FilterRule::DoTable(text),
            "ignore-table" => FilterRule::IgnoreTable(text),
            "wild-do-table" => FilterRule::WildDoTable(text),
            "wild-ignore-table" => FilterRule::WildIgnoreTable(text),
            _ => {
                let (from, to) = value.split_once("->").unwrap();
                FilterRule::RewriteDatabase(from.into(), to.into())
            }
        }
    };
    ReplicationFilter::new(rules.split_whitespace().map(rule)).unwrap()
}

fn statement(database: &str, sql: &str) -> ApplyPlan {
    let statement = SourceStatement {
        sql: sql.into(),
        database: database.into(),
        default_database: database.into(),
        time: StatementTime::default(),
        thread_id: None,
        context: Arc::default(),
        server_version: (9, 7, 4),
        variables: Vec::new(),
        load: None,
        error_code: 0,
    };
    ApplyPlan {
        shape: TransactionShape::Statements,
        steps: vec![ApplyStep::Statement(Box::new(statement))],
        session: None,
    }
}

/// Checks the remaining statement: its database and text, or `None`.
fn check(rules: &str, database: &str, sql: &str, expected: Option<(&str, &str)>) {
    let left = TransactionFilter(&filter(rules)).apply(statement(database, sql)).unwrap();
    let left = left.steps.first().map(|step| match step {
        ApplyStep::Statement(left) => {
            (str::from_utf8(&left.database).unwrap(), str::from_utf8(&left.sql).unwrap())
        }
        _ => panic!("rows"),
    });
    assert_eq!(left, expected, "{rules}: {sql}");
}

#[test]
fn for_statements_the_default_database_counts() {
    let kept = |sql| Some(("d", sql));
    check("do-db=d", "d", "INSERT INTO e.t VALUES (1)", kept("INSERT INTO e.t VALUES (1)"));
    check("do-db=d", "e", "INSERT INTO d.t VALUES (1)", None);
    check("do-db=d", "", "INSERT INTO e.t VALUES (1)", Some(("", "INSERT INTO e.t VALUES (1)")));
    check("ignore-db=e", "d", "TRUNCATE t", kept("TRUNCATE t"));
    check("ignore-db=e", "e", "TRUNCATE t", None);
    check("do-db=d", "e", "SAVEPOINT `s`", Some(("e", "SAVEPOINT `s`")));
}

#[test]
fn the_first_table_with_a_rule_decides() {
    check("do-table=d.t", "d", "TRUNCATE t", Some(("d", "TRUNCATE t")));
    check("do-table=d.t", "e", "TRUNCATE t", None);
    check("do-table=d.t", "e", "DROP TABLE d.u, d.t", Some(("e", "DROP TABLE d.u, d.t")));
    check("ignore-table=d.t", "d", "DROP TABLE u, t", None);
    check("ignore-table=d.t do-table=d.u", "d", "DROP TABLE u, t", Some(("d", "DROP TABLE u, t")));
    check(
        "wild-ignore-table=d.%",
        "d",
        "CREATE PROCEDURE p() SELECT 1",
        Some(("d", "CREATE PROCEDURE p() SELECT 1")),
    );
    check(
        "do-table=d.t",
        "d",
        "DROP TEMPORARY TABLE IF EXISTS u",
        Some(("d", "DROP TEMPORARY TABLE IF EXISTS u")),
    );
    check("do-table=d.t", "d", "DROP TRIGGER g", Some(("d", "DROP TRIGGER IF EXISTS g")));
    check("do-db=d", "d", "DROP TRIGGER g", Some(("d", "DROP TRIGGER g")));
}

#[test]
fn definitions_of_databases() {
    check("wild-do-table=d.%", "d", "CREATE DATABASE d", Some(("d", "CREATE DATABASE d")));
    check("wild-do-table=d.t%", "d", "CREATE DATABASE d", None);
    check("wild-ignore-table=d.%", "d", "CREATE DATABASE d", None);
    check("wild-ignore-table=d.t%", "d", "CREATE DATABASE d", Some(("d", "CREATE DATABASE d")));
    check("do-table=d.t", "e", "CREATE DATABASE e", Some(("e", "CREATE DATABASE e")));
    check("do-db=d", "e", "CREATE DATABASE e", None);
}

#[test]
fn rewriting_comes_first_and_is_of_the_default_database() {
    check("rewrite-db=a->d do-db=d", "a", "TRUNCATE t", Some(("d", "TRUNCATE t")));
    check("rewrite-db=a->d do-db=a", "a", "TRUNCATE t", None);
    check("rewrite-db=a->d", "a", "TRUNCATE a.t", Some(("d", "TRUNCATE a.t")));
    check("rewrite-db=a->d rewrite-db=a->e", "a", "TRUNCATE t", Some(("d", "TRUNCATE t")));
}

fn format() -> EventFormat {
    let mut post_header_sizes = vec![0; 40];
    post_header_sizes[18] = 8;
    post_header_sizes[29] = 10;
    let (server_version, checksum) = (b"9.7.4".to_vec(), ChecksumAlgorithm::Off);
    EventFormat { server_version, post_header_sizes, checksum, flavour: Flavour::MySql }
}

/// A row statement on three tables of the database `d`: `a`, `b`, `c`.
fn three_tables() -> ApplyPlan {
    let format = format();
    let origin = EventOrigin { timestamp: 0, server_id: 1, flags: EventFlags(0) };
    let tables: Vec<SampleTable> = ["a", "b", "c"]
        .into_iter()
        .zip(1..)
        .map(|(name, id)| SampleTable::new("int").named(name, id))
        .collect();
    let mut bytes = Vec::new();
    for table in &tables {
        Event::TableMap(table.map()).write(origin, NextPosition::Fixed(0), &format, &mut bytes).unwrap();
    }
    let rows = image(&[int(7)]);
    for (number, table) in tables.iter().enumerate() {
        let mut rows = table.rows(RowsKind::Write, &rows);
        rows.flags = if number == 2 { RowsFlags::STATEMENT_END } else { RowsFlags::default() };
        Event::WriteRows(rows).write(origin, NextPosition::Fixed(0), &format, &mut bytes).unwrap();
    }
    let rows = RowEvents { format: Arc::new(format), bytes };
    ApplyPlan {
        shape: TransactionShape::Rows,
        steps: vec![ApplyStep::Rows(Arc::default(), rows)],
        session: None,
    }
}

/// Checks the remaining events of three tables: `d.a` for a table map, the table's number for rows, with a `.` at the
/// end of the statement.
fn check_rows(rules: &str, expected: &str) {
    let left = TransactionFilter(&filter(rules)).apply(three_tables()).unwrap();
    assert_eq!(left.shape, TransactionShape::Rows);
    let mut words = Vec::new();
    for step in &left.steps {
        let ApplyStep::Rows(_, rows) = step else { panic!("a statement") };
        for raw in rows.events() {
            let event = raw.decode(&rows.format).unwrap();
            words.push(match (&event, event.rows()) {
                (Event::TableMap(map), _) => {
                    format!(
                        "{}.{}",
                        String::from_utf8_lossy(map.database),
                        String::from_utf8_lossy(map.table)
                    )
                }
                (_, Some(rows)) => {
                    let end = if rows.flags.contains(RowsFlags::STATEMENT_END) { "." } else { "" };
                    format!("{}{end}", rows.table_id)
                }
                _ => panic!("{event:?}"),
            });
        }
    }
    assert_eq!(words.join(" "), expected, "{rules}");
}

#[test]
fn row_changes_are_left_out_table_by_table_and_their_statement_still_ends() {
    check_rows("do-db=d", "d.a d.b d.c 1 2 3.");
    check_rows("ignore-table=d.c", "d.a d.b 1 2.");
    check_rows("do-table=d.b", "d.b 2.");
    check_rows("do-table=D.B", "");
    check_rows("wild-do-table=D.B", "");
    check_rows("wild-do-table=_.b", "d.b 2.");
    check_rows("ignore-db=d", "");
    check_rows("rewrite-db=d->other wild-do-table=other.%", "other.a other.b other.c 1 2 3.");
    check_rows("rewrite-db=d->x wild-ignore-table=x.b", "x.a x.c 1 3.");
    check_rows("rewrite-db=d->x do-db=d", "");
}
