//! Statements that define no table. Some have no effect in SQLite; others change rows that the log does not contain.

use sql::SqlWords;

/// A statement that defines no table or database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OtherStatement {
    /// `SAVEPOINT`, `ROLLBACK TO` and `RELEASE SAVEPOINT` in SQLite's syntax, and the savepoint's name.
    Savepoint(&'static str, String),
    /// A statement that affects no rows or tables: its kind, for counting.
    PassedOver(String),
    /// A statement that changes rows which the log does not contain: its kind.
    Rows(String),
}

/// Verbs of statements that change neither tables nor rows.
const IGNORED_VERBS: [&str; 17] = [
    "GRANT",
    "REVOKE",
    "SET",
    "FLUSH",
    "ANALYZE",
    "OPTIMIZE",
    "REPAIR",
    "CHECK",
    "INSTALL",
    "UNINSTALL",
    "DO",
    "USE",
    "LOCK",
    "UNLOCK",
    "RESET",
    "PURGE",
    "CLONE",
];

/// Objects without rows, after CREATE, ALTER and DROP.
const IGNORED_OBJECTS: [&str; 14] = [
    "VIEW",
    "TRIGGER",
    "PROCEDURE",
    "FUNCTION",
    "EVENT",
    "USER",
    "ROLE",
    "SERVER",
    "TABLESPACE",
    "LOGFILE",
    "UNDO",
    "SPATIAL",
    "RESOURCE",
    "INSTANCE",
];

impl OtherStatement {
    /// Classifies a statement; `None` if its effect is unknown.
    pub(crate) fn parse(words: &SqlWords) -> Option<Self> {
        let mut words = words.clone();
        words.skip_set_statement();
        words.skip_analyze();
        if words.is_row_statement() {
            return Some(Self::Rows(words.keywords_ahead(1)));
        }
        if let Some(verb) = ["CREATE", "ALTER", "DROP"].into_iter().find(|verb| words.is_next(verb)) {
            return ignored_object(verb, &words);
        }
        if words.take("SAVEPOINT") {
            return Some(Self::Savepoint("SAVEPOINT", words.take_name()?));
        }
        if words.take("ROLLBACK") {
            words.take("WORK");
            words.take("TO").then_some(())?;
            words.take("SAVEPOINT");
            return Some(Self::Savepoint("ROLLBACK TO", words.take_name()?));
        }
        if words.take("RELEASE SAVEPOINT") {
            return Some(Self::Savepoint("RELEASE", words.take_name()?));
        }
        let count = if words.is_next("RENAME") { 2 } else { 1 };
        let is_other = count == 2 || words.is_any_next(&IGNORED_VERBS);
        is_other.then(|| Self::PassedOver(words.keywords_ahead(count)))
    }
}

/// Finds an object without rows, after words like DEFINER.
fn ignored_object(verb: &str, words: &SqlWords) -> Option<OtherStatement> {
    let mut rest = words.clone();
    while !rest.is_at_end() {
        if let Some(thing) = IGNORED_OBJECTS.iter().find(|thing| rest.is_next(thing)) {
            return Some(OtherStatement::PassedOver(format!("{verb} {thing}")));
        }
        rest.skip();
    }
    None
}

#[cfg(test)]
mod tests {
    use sql::SqlWords;
    use sql::ddl::DdlStatement;

    use super::OtherStatement;

    #[test]
    fn statements_are_classified() {
        let check = |sql: &str, expected: &str| {
            let words = SqlWords::parse(sql, 0).unwrap();
            assert_eq!(DdlStatement::parse(&words), DdlStatement::Other, "{sql}");
            assert_eq!(format!("{:?}", OtherStatement::parse(&words)), expected, "{sql}");
        };
        check(
            "CREATE DEFINER=`root`@`localhost` TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN END",
            "Some(PassedOver(\"CREATE TRIGGER\"))",
        );
        check("create or replace algorithm = merge view v as select 1", "Some(PassedOver(\"CREATE VIEW\"))");
        check("grant select on *.* to u", "Some(PassedOver(\"GRANT\"))");
        check("rename user a to b", "Some(PassedOver(\"RENAME USER\"))");
        check("replace into t values (1)", "Some(Rows(\"REPLACE\"))");
        check("rollback to `s 1`", "Some(Savepoint(\"ROLLBACK TO\", \"s 1\"))");
        check("set statement max_statement_time=1 for insert into t values (1)", "Some(Rows(\"INSERT\"))");
        check("set statement max_statement_time=1 for frobnicate t", "None");
        check("set global a=1", "Some(PassedOver(\"SET\"))");
        check("/*!80000 insert into t values (1) */", "Some(Rows(\"INSERT\"))");
        check("with c as (select 1) delete from t", "Some(Rows(\"WITH\"))");
        check("SELECT `d`.`f`()", "Some(Rows(\"SELECT\"))");
        check("analyze format=json update t set a=1", "Some(Rows(\"UPDATE\"))");
        check("analyze local table t", "Some(PassedOver(\"ANALYZE\"))");
        check("frobnicate t", "None");
    }
}
