//! ALTER TABLE statements that name columns by both their old and their new names.

use std::fmt::Write as _;

/// Changes of a table (id, a, b, c, d). Columns exchange names, or are placed after a column by its new name.
pub const ALTERATIONS: [&str; 28] = [
    "rename column a to b, rename column b to a",
    "change a b int, change b a int",
    "rename column a to b, rename column b to d, rename column d to a",
    "rename column id to a, rename column a to id",
    "change id a int, change a id int",
    "change a b int, rename column b to a",
    "change A B int, change B A int",
    "change a b bigint after e, change b a varchar(20) first, change d e bigint",
    "change a b int, drop b",
    "drop a, add a int",
    "add e int first, drop column a",
    "drop b, change a b int, change c a varchar(20), add c int after b",
    "add column b2 int after b, drop column b, change d b int",
    "add x int after q, rename column a to q",
    "add x int after a, rename column a to b, rename column b to a",
    "change a x int after y, change b y int",
    "change a q int, add x int after q, add y int after x, drop b, drop d, add d int after id",
    "modify a int after d, modify d bigint first",
    "modify a int after b, modify b int after a",
    "modify b int after a, modify a int after b",
    "modify d bigint first, modify c varchar(30) first, add z int first",
    "add x int first, add y int after x, modify id int after y",
    "drop primary key, add primary key (b), rename column a to b, rename column b to a",
    "add primary key (b), drop primary key",
    "drop primary key, add primary key (id, a), rename column a to b, rename column b to a",
    "add key k (b), rename column a to b, rename column b to a",
    "convert to character set latin1, rename column c to a, rename column a to c",
    "rename column id to a, rename column a to b, rename column b to id",
];

/// Returns a script that creates a database `h` with a table `t…` for each of [`ALTERATIONS`], and changes the table.
/// The table `k…` is a copy of the changed table.
pub fn alteration_script() -> String {
    let mut script = String::from("create database h; use h;\n");
    for (number, changes) in ALTERATIONS.iter().enumerate() {
        let _ = writeln!(
            script,
            "create table t{number} (id int primary key, a int, b int, c varchar(20), d bigint);
             insert into t{number} values (1, 10, 20, '30', 40);
             alter table t{number} {changes};
             create table k{number} like t{number}; insert into k{number} select * from t{number};"
        );
    }
    script
}
