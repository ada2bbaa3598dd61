use binlog::Charset;

use super::{FunctionSet, LoggedStatement, SkipReason, read_extent, row_only_columns};
use crate::replica_table::{IndexKind, ReplicaColumn, ReplicaIndex, ReplicaTable};

fn statement(sql: &[u8]) -> LoggedStatement<'_> {
    LoggedStatement { sql, sql_mode: 0, charset: Some(Charset::Utf8mb4), functions: FunctionSet::All }
}

/// Returns the search for a statement, which selects the column `c` of each table.
fn turned(statement: &LoggedStatement<'_>) -> Result<String, SkipReason> {
    let extent = read_extent(statement)?;
    let columns = vec![vec!["c".to_owned()]; extent.tables.len()];
    Ok(String::from_utf8_lossy(&extent.sql(&columns)?).into_owned())
}

/// Checks the selected values, and the text after FROM.
fn check(sql: &str, values: &str, rows: &str) {
    let counts: Vec<String> =
        (0..values.split(", ").count()).map(|at| format!("COUNT(warm.c{at})")).collect();
    let values: Vec<String> =
        values.split(", ").enumerate().map(|(at, value)| format!("{value}.`c` AS c{at}")).collect();
    let expected = format!(
        "SELECT /* bintide warm */ {} FROM (SELECT {} FROM {rows}) AS warm",
        counts.join(","),
        values.join(",")
    );
    assert_eq!(turned(&statement(sql.as_bytes())), Ok(expected), "{sql}");
}

#[test]
fn searches_for_changed_rows() {
    check("update t set a = 1 where k = 'it''s'", "`t`", "t where k = 'it''s' LIMIT 4096");
    check(
        "UPDATE LOW_PRIORITY IGNORE `d`.`t x` AS y SET a = a + 1, b = (SELECT 1) WHERE y.k > 5 ORDER BY a",
        "`y`",
        "`d`.`t x` AS y WHERE y.k > 5 LIMIT 4096",
    );
    check("update t set a=1 order by b desc limit 3", "`t`", "t order by b desc limit 3");
    check(
        "delete from d.t where `limit` = 3 and t.where > 4",
        "`d`.`t`",
        "d.t where `limit` = 3 and t.where > 4 LIMIT 4096",
    );
    check("delete quick from t limit 10;", "`t`", "t limit 10");
    check("delete from t", "`t`", "t LIMIT 4096");
    check("/* by x */ update t set a = 1 where id=3 -- why\n", "`t`", "t where id=3 LIMIT 4096");
    check(
        "update t set s = 'where x limit 1 (' where a = \"b)\" returning a",
        "`t`",
        "t where a = \"b)\" LIMIT 4096",
    );
    check(
        "update t set a = 1 where b = 'a\\'b' and c = 'd'",
        "`t`",
        "t where b = 'a\\'b' and c = 'd' LIMIT 4096",
    );
    check(
        "update t partition (p0) force index (k) set a=1 where k=1",
        "`t`",
        "t partition (p0) force index (k) where k=1 LIMIT 4096",
    );
}

#[test]
fn rows_of_several_tables() {
    check(
        "update t join u as v on t.id = v.id set t.a = v.a where v.k = 3",
        "`t`, `v`",
        "t join u as v on t.id = v.id where v.k = 3 LIMIT 4096",
    );
    check(
        "delete a from t a, d.u where a.id = u.id",
        "`a`, `d`.`u`",
        "t a, d.u where a.id = u.id LIMIT 4096",
    );
    check(
        "delete from a using t as a left join u using (id) where u.id is null",
        "`a`, `u`",
        "t as a left join u using (id) where u.id is null LIMIT 4096",
    );
    check(
        "delete from t where id in (select id from u where k = 3 limit 5)",
        "`t`",
        "t where id in (select id from u where k = 3 limit 5) LIMIT 4096",
    );
}

#[test]
fn searches_for_selected_rows() {
    check("insert into a (x, y) select 1, sleep(b) from t where k = 3", "`t`", "t where k = 3 LIMIT 4096");
    check(
        "replace a select * from t where k between 1 and 9 limit 7",
        "`t`",
        "t where k between 1 and 9 limit 7",
    );
    check(
        "insert ignore into a select k, count(*) from t join u using (id) where k > 3 group by k having count(*) > 2 order by 2 limit 1 \
         on duplicate key update x = values(x)",
        "`t`, `u`",
        "t join u using (id) where k > 3 LIMIT 4096",
    );
    check(
        "insert into a select t.x from t join u on u.id = t.id",
        "`t`, `u`",
        "t join u on u.id = t.id LIMIT 4096",
    );
}

#[test]
fn all_tables_are_known() {
    let found = read_extent(&statement(b"delete from t where id in (select id from d.u)")).unwrap();
    let names: Vec<(Option<&str>, &str)> =
        found.all.iter().map(|name| (name.database.as_deref(), name.table.as_str())).collect();
    assert_eq!(names, [(None, "t"), (Some("d"), "u")]);
    let check = |sql: &str, expected: &str| {
        let found = read_extent(&statement(sql.as_bytes())).unwrap();
        let names: Vec<String> = found
            .all
            .iter()
            .map(|name| match &name.database {
                Some(database) => format!("{database}.{}", name.table),
                None => name.table.clone(),
            })
            .collect();
        assert_eq!(names.join(" "), expected, "{sql}");
    };
    check(
        "delete from t where a = extract(day from b) and exists(select trim(both 'x' from y) from u)",
        "t u",
    );
    check(
        "update t partition (p, q) as x use index (a) ignore index (b, c), d.`u``v` y set x.a = 1",
        "t d.u`v",
    );
    check(
        "delete t from t join (u natural left outer join v w using (a)) on left(t.a, 1) = u.a and (select 1 from x), y",
        "t u v x y",
    );
    check(
        "delete from t where (a, b) in ((select 1, t.from from u where c in (select `from` from v)) union select 2 from w)",
        "t u v w",
    );
    check(
        "insert into a select 1 from t, (select max(b) from (select b from u) as c) as d left join v on 1",
        "t u v",
    );
}

#[test]
fn statements_with_other_effects_are_skipped() {
    let check = |condition: &str, expected| {
        let sql = format!("update t set a = 1 where {condition}");
        assert_eq!(turned(&statement(sql.as_bytes())), Err(expected), "{sql}");
    };
    for call in [
        "sleep(1)",
        "rand() < 1",
        "GET_LOCK('a', 1)",
        "d.f(1)",
        "f(1)",
        "last_insert_id()",
        "uuid()",
        "nextval(s)",
    ] {
        check(&format!("id = {call}"), SkipReason::Function);
    }
    check("id = max (1)", SkipReason::Function);
    check("id = `max`(1)", SkipReason::Function);
    check("id = d.max(1)", SkipReason::Function);
    check("id = d . max(1)", SkipReason::Function);
    check("id in (table u)", SkipReason::Clause);
    check("id in (select 1 union select 2 from d.t.u)", SkipReason::Unknown);
    check(
        "id in ((select 1 from (t)) union (select 2 from a, b.c as x join (d cross join e)))) or (1",
        SkipReason::Unknown,
    );
    check("id = load_file('/etc/passwd')", SkipReason::Function);
    check("id = @a", SkipReason::Variable);
    check("id = (@a := 3)", SkipReason::Variable);
    check("id = @@global.server_id", SkipReason::Variable);
    check("id = ?", SkipReason::Variable);
    check("id in (select id from u for update)", SkipReason::Clause);
    check("id in (select id from u lock in share mode)", SkipReason::Clause);
    check("id = 3 for update", SkipReason::Clause);
    check("id = 3 into outfile 'x'", SkipReason::Clause);
    check("id = next value for s", SkipReason::Clause);
    check("id /* x */ = 3", SkipReason::Comment);
    check("id = 3 /*!50000 and sleep(1) */", SkipReason::Comment);
    check("id = 3 and {fn now()}", SkipReason::Unknown);
    check("id in (1, 2", SkipReason::Unknown);
    check("id = 3) and (1", SkipReason::Unknown);
}

#[test]
fn statements_that_read_no_rows_are_skipped() {
    for sql in [
        "insert into t values (1)",
        "create table a select * from t",
        "insert into t select 1",
        "alter table t add a int",
        "call p()",
        "with x as (select 1) update t set a = 1",
        "",
        "load data infile 'x' into table t",
        "select * from t",
    ] {
        assert_eq!(turned(&statement(sql.as_bytes())), Err(SkipReason::Kind), "{sql}");
    }
    let check = |sql: &str, expected| assert_eq!(turned(&statement(sql.as_bytes())), Err(expected), "{sql}");
    check("insert into a select 1 from t union select 2 from u", SkipReason::Clause);
    check("insert into a select x as y from t order by y limit 3", SkipReason::Clause);
    check("insert into a select 1 from (select id from t) as d", SkipReason::Table);
    check(&format!("delete from t where id in ({})", "1,".repeat(40_000)), SkipReason::Size);
    check(&format!("delete from t where id = 1{}", " or id = 1".repeat(400)), SkipReason::Size);
}

#[test]
fn texts_are_read_in_their_character_set_and_mode() {
    let check = |sql: &[u8], charset, sql_mode, expected: Result<&[u8], SkipReason>| {
        let found = read_extent(&LoggedStatement { sql, sql_mode, charset, functions: FunctionSet::All });
        let found = found.and_then(|extent| extent.sql(&[vec!["c".to_owned()]]));
        let expected = expected.map(|rows| {
            [
                b"SELECT /* bintide warm */ COUNT(warm.c0) FROM (SELECT `t`.`c` AS c0 FROM ",
                rows,
                b" LIMIT 4096) AS warm",
            ]
            .concat()
        });
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(sql));
    };
    let (utf8, latin1) = (Some(Charset::Utf8mb4), Some(Charset::Latin1));
    check("update t set a=1\nwhere ä = 'ö\n'".as_bytes(), utf8, 0, Ok("t where ä = 'ö\n'".as_bytes()));
    check(b"update t set a='\xe4' where \xe4 = '\xf6'", latin1, 0, Ok(b"t where \xe4 = '\xf6'"));
    check(b"update t set a=1 where a = '\xf6'", utf8, 0, Err(SkipReason::Charset));
    check(b"update \xe4 set a=1 where a = 1", latin1, 0, Err(SkipReason::Charset));
    // The second byte of this character has the code of a backslash, but is not one.
    check(
        b"update t set a=1 where a = '\x95\\' or sleep(1) or ''",
        Some(Charset::Sjis),
        0,
        Err(SkipReason::Charset),
    );
    check(b"update t set a=1 where a = 'x'", Some(Charset::Sjis), 0, Ok(b"t where a = 'x'"));
    check(b"update t set a=1 where a = 'x'", None, 0, Err(SkipReason::Charset));
    check(b"update t as \xe4 set a=1 where a = 1", latin1, 0, Err(SkipReason::Charset));
    check(b"update t set a=1 where a = d.\"f\"(1)", utf8, 4, Err(SkipReason::Function));
    check(b"update t set a=1 where a = max\xe4(1)", latin1, 0, Err(SkipReason::Function));
    check(b"update t set a=1 where a = '\\'", utf8, 1 << 20, Err(SkipReason::Unknown));
    check(b"update t set a=1 where a = \"\\\"\"", utf8, 0, Err(SkipReason::Unknown));
    // A no-break space is a blank in this character set.
    check(b"update t set a=1 where a\xa0for\xa0update = 1", latin1, 0, Err(SkipReason::Charset));
    check(b"update t set a=1 where \"a\" = 1", utf8, 4, Ok(b"t where \"a\" = 1"));
    check("update t set a=1 where a\u{a0}= 1".as_bytes(), utf8, 0, Err(SkipReason::Charset));
    check(b"update t set a=1 where a --\x01\n = 1", utf8, 0, Err(SkipReason::Charset));
}

#[test]
fn non_ascii_names_need_utf8() {
    // GBK reads the last byte of this name and the quote after it as one character: the rest would be a statement.
    let columns = [vec!["\u{4e2d}`;SET SESSION transaction_read_only=0;".to_owned()]];
    let check = |charset, is_told| {
        let statement =
            LoggedStatement { charset: Some(charset), ..statement(b"delete from t where id = 1") };
        let found = read_extent(&statement).unwrap().sql(&columns);
        assert_eq!(found.is_ok(), is_told, "{charset:?}");
        assert!(is_told || found == Err(SkipReason::Charset));
    };
    check(Charset::Utf8mb4, true);
    for charset in [Charset::Gbk, Charset::Sjis, Charset::Big5, Charset::Gb18030, Charset::Latin1] {
        check(charset, false);
    }
}

#[test]
fn columns_that_only_rows_have() {
    let column = |(name, data_type): (&str, &str)| ReplicaColumn {
        name: name.to_owned(),
        data_type: data_type.to_owned(),
        ..ReplicaColumn::default()
    };
    let index = |name: &str, kind, columns: &[usize]| ReplicaIndex {
        name: name.to_owned(),
        kind,
        columns: columns.to_vec(),
        is_unique: false,
        is_descending: false,
    };
    let (int, blob) = ("int", "blob");
    let check = |columns: &[(&str, &str)], second: &[usize], expected: Option<&[&str]>| {
        let definition = ReplicaTable {
            name: "`d`.`t`".to_owned(),
            columns: columns.iter().copied().map(column).collect(),
            indexes: vec![index("PRIMARY", IndexKind::Clustered, &[0]), index("k", IndexKind::Plain, second)],
            foreign_keys: Vec::new(),
        };
        let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(row_only_columns(&definition), expected);
    };
    check(&[("a", int), ("b", int), ("c", blob), ("d", int)], &[1], Some(&["d"]));
    check(&[("a", int), ("b", int), ("c", blob)], &[1], Some(&["a", "b"]));
    check(&[("a", blob)], &[0], None);
}
