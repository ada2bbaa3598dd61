//! Logged statements converted to searches: for any bytes, the result is one SELECT without side effects.

use binlog::Charset;
use std::ops::ControlFlow;

use sqlparser::ast::{ObjectName, ObjectNamePart, Statement as Parsed, visit_relations};
use sqlparser::dialect::MySqlDialect;
use sqlparser::parser::Parser;
use warm::{FunctionSet, LoggedStatement, read_extent};

use crate::seeds::{Sample, statements};

/// Statements of each kind that is converted, and with each reason against a conversion.
const STATEMENTS: [&str; 8] = [
    "update low_priority t set a = 'it''s', b = now() where k = \"x\" and j <=> -1.5e3 order by a desc limit 3",
    "delete from d.t where id in (select max(id) from u as `x``y` where u.k between 1 and 9) or `limit` is null",
    "delete a, b from t a left join (u b, v c) on a.id = b.id where concat(a.k, 'x\\'y') like '%z' escape '|'",
    "insert into t (a, b) select x, count(*) from u join v using (id) where x > 3 group by x having count(*) > 1 \
     limit 2 on duplicate key update a = values(a)",
    "replace into t select * from u where d < date_sub(now(), interval 1 day) limit 5, 6;",
    "update t set a = @b where id = sleep(1) /* x */ -- y",
    "update t set a = 1 where id = 1 for update; drop table t",
    "delete from t where a = x'1f' and b = b'01' and c->'$.x' = _utf8mb4'\u{e4}' collate utf8mb4_bin # end",
];

const CHARSETS: [Option<Charset>; 5] =
    [Some(Charset::Utf8mb4), Some(Charset::Latin1), Some(Charset::Sjis), Some(Charset::Ujis), None];

pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    statements(&STATEMENTS, sample)
}

/// Checks a mode and a character set in the first byte, and a statement in the rest.
pub(super) fn check(bytes: &[u8]) {
    let Some((how, sql)) = bytes.split_first() else { return };
    let sql_mode = [0, 4, 1 << 20, 4 | 1 << 20][usize::from(how % 4)];
    let charset = CHARSETS[usize::from(how / 4) % CHARSETS.len()];
    let Ok(extent) = read_extent(&LoggedStatement { sql, sql_mode, charset, functions: FunctionSet::All })
    else {
        return;
    };
    assert!(!extent.tables.is_empty());
    assert!(extent.tables.iter().all(|table| extent.all.contains(&table.name)), "{extent:?}");
    let columns = vec![vec!["c".to_owned()]; extent.tables.len()];
    // A name that the server would decode differently is never part of the search.
    let odd = vec![vec!["\u{4e2d}`;".to_owned()]; extent.tables.len()];
    let is_utf8 = charset == Some(Charset::Utf8mb4);
    assert!(extent.sql(&odd).is_ok() == is_utf8, "{extent:?}");
    let Ok(search) = extent.sql(&columns) else { return assert!(!is_utf8) };
    assert!(search.starts_with(b"SELECT /* bintide warm */ COUNT("));
    // Another parser also reads the text as one SELECT, of known tables only.
    let text = String::from_utf8_lossy(&search);
    if let (Ok(parsed), true) = (Parser::parse_sql(&MySqlDialect {}, &text), search.is_ascii()) {
        assert!(matches!(parsed.as_slice(), [Parsed::Query(_)]), "{parsed:?}: {text}");
        let known = |relation: &ObjectName| {
            let [database, table] = names(relation);
            extent.all.iter().any(|name| name.database == database && Some(&name.table) == table.as_ref())
        };
        let unknown = visit_relations(&parsed, |relation| match known(relation) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(relation.clone()),
        });
        assert_eq!(unknown, ControlFlow::Continue(()), "{text}");
    }
    let lower = text.to_ascii_lowercase();
    let is_in = |word: &&str| lower.contains(*word) && !text.contains(['\'', '"', '`']);
    // Quoted text may contain anything.
    let bad = [";", "@", ":=", "sleep(", "get_lock(", "rand(", "/*!", "for update", "into outfile"];
    assert_eq!(bad.iter().find(|word| is_in(word)), None, "{text}");
}

/// Returns database, if named, and table.
fn names(relation: &ObjectName) -> [Option<String>; 2] {
    let name =
        |part: Option<&ObjectNamePart>| part.and_then(|part| part.as_ident()).map(|name| name.value.clone());
    let parts = &relation.0;
    [name(parts.len().checked_sub(2).and_then(|at| parts.get(at))), name(parts.last())]
}
