//! Statements about the definitions of tables. The source answers these statements, if the relay may query the source,
//! because logs do not contain all definitions.

use sql::{SqlWord, SqlWords};

use super::check_end;

/// Beginnings of statements about definitions.
const DEFINITION_SHOWS: &[&str] = &[
    "SHOW COLUMNS",
    "SHOW FIELDS",
    "SHOW FULL COLUMNS",
    "SHOW FULL FIELDS",
    "SHOW CREATE DATABASE",
    "SHOW CREATE SCHEMA",
    "SHOW CREATE TABLE",
    "SHOW CREATE VIEW",
    "SHOW DATABASES",
    "SHOW SCHEMAS",
    "SHOW INDEX",
    "SHOW INDEXES",
    "SHOW KEYS",
    "SHOW FULL TABLES",
    "SHOW TABLES",
    "SHOW TABLE STATUS",
];

/// Keywords after the tables of a `SELECT`. No server version takes them as an alias or an index hint.
const AFTER_TABLES: &[&str] = &["WHERE", "GROUP", "HAVING", "ORDER", "LIMIT"];
/// Keywords of statements that read from several places, or write a file.
const OTHER_READS: &[&str] = &["FROM", "INTO", "UNION", "EXCEPT", "INTERSECT", "PROCEDURE"];

/// Tables of `information_schema` with definitions. Other tables contain data, statements of other sessions, or
/// accounts.
const DEFINITION_TABLES: &[&str] = &[
    "CHARACTER_SETS",
    "CHECK_CONSTRAINTS",
    "COLLATION_CHARACTER_SET_APPLICABILITY",
    "COLLATIONS",
    "COLUMNS",
    "ENGINES",
    "KEY_COLUMN_USAGE",
    "PARTITIONS",
    "REFERENTIAL_CONSTRAINTS",
    "SCHEMATA",
    "STATISTICS",
    "TABLE_CONSTRAINTS",
    "TABLES",
    "VIEWS",
];
/// Keywords that begin a query.
const QUERY_STARTS: &[&str] = &["SELECT", "VALUES", "WITH"];
/// Keywords and functions that may have parentheses after them.
const BEFORE_PARENTHESES: &[&str] = &[
    "AND",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CHAR_LENGTH",
    "COALESCE",
    "CONCAT",
    "CONVERT",
    "COUNT",
    "DATABASE",
    "DISTINCT",
    "ELSE",
    "GROUP_CONCAT",
    "HAVING",
    "IF",
    "IFNULL",
    "IN",
    "LCASE",
    "LEFT",
    "LENGTH",
    "LIKE",
    "LOWER",
    "MAX",
    "MIN",
    "NOT",
    "NULLIF",
    "ON",
    "OR",
    "REPLACE",
    "RIGHT",
    "SCHEMA",
    "SUBSTR",
    "SUBSTRING",
    "SUM",
    "THEN",
    "TRIM",
    "UCASE",
    "UPPER",
    "USING",
    "VERSION",
    "WHEN",
    "WHERE",
];

/// Returns true if the statement only reads definitions: a `SHOW` statement of the list, or a `SELECT` from tables of
/// `information_schema` without a subquery. The source must read the statement with an empty `sql_mode`, as this
/// function does.
pub(super) fn asks_for_definitions(sql: &str) -> bool {
    // The server's version decides whether such a comment is executed, and hints change limits.
    if check_end(sql, 0).is_err() || ["/*!", "/*M!", "/*+"].iter().any(|start| sql.contains(start)) {
        return false;
    }
    let Some(mut words) = SqlWords::parse(sql, 0) else { return false };
    if words.is_any_next(DEFINITION_SHOWS) {
        return is_harmless(&words);
    }
    if !words.take("SELECT") || !is_harmless(&words) {
        return false;
    }
    while !words.is_at_end() && !words.is_next("FROM") {
        if words.is_next("INTO") {
            return false;
        }
        words.skip();
    }
    words.take("FROM") && !words.has_ahead(OTHER_READS) && reads_definitions(&mut words)
}

/// Returns true if all tables of a `SELECT` have definitions. Refuses parentheses, which could contain tables.
fn reads_definitions(words: &mut SqlWords) -> bool {
    let mut is_table_next = true;
    while !words.is_at_end() && !words.is_any_next(AFTER_TABLES) {
        if is_table_next {
            let Some((Some(database), table)) = words.take_table() else { return false };
            if !database.eq_ignore_ascii_case("information_schema") || !is_keyword(&table, DEFINITION_TABLES)
            {
                return false;
            }
        }
        // Index hints contain the keywords that end the list of tables.
        if words.is_any_next(&["USE", "FORCE", "IGNORE"]) {
            return false;
        }
        is_table_next = words.take_sign(",") || words.take_any(&["JOIN", "STRAIGHT_JOIN"]);
        if !is_table_next {
            words.skip();
        }
    }
    !is_table_next
}

/// Returns true if the words contain no subquery, no variable, and only functions of the list. Stored functions can
/// read data, and other functions wait or take locks.
fn is_harmless(words: &SqlWords) -> bool {
    let mut words = words.clone();
    // The last two words.
    let mut before: [Option<SqlWord>; 2] = [None, None];
    while let Some(word) = words.take_next() {
        let is_harmless = match (&word, &before) {
            (SqlWord::Plain(word), [_, last]) if is_keyword(word, &["TABLE"]) => {
                // `SHOW TABLE STATUS` and `SHOW CREATE TABLE` are not the statement `TABLE`.
                matches!(last, Some(SqlWord::Plain(last)) if is_keyword(last, &["SHOW", "CREATE"]))
            }
            (SqlWord::Plain(word), _) => !is_keyword(word, QUERY_STARTS) && !word.starts_with('@'),
            (SqlWord::Sign(sign), [first, last]) if sign == "(" => match last {
                Some(SqlWord::Plain(name)) => {
                    is_keyword(name, BEFORE_PARENTHESES) && first != &Some(SqlWord::Sign(".".to_owned()))
                }
                Some(SqlWord::Quoted(_)) => false,
                _ => true,
            },
            (SqlWord::Sign(sign), _) => !sign.contains('@') && sign != ":=",
            _ => true,
        };
        if !is_harmless {
            return false;
        }
        before.rotate_left(1);
        before[1] = Some(word);
    }
    true
}

fn is_keyword(word: &str, keywords: &[&str]) -> bool {
    keywords.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_definition(sql: &str) -> bool {
        asks_for_definitions(sql)
    }

    #[test]
    fn definitions_are_recognised() {
        for sql in [
            "show full columns from `shop`.`orders`",
            "SHOW INDEX FROM shop.orders",
            "SHOW CREATE TABLE `shop`.`orders`;",
            "SHOW TABLE STATUS FROM `shop` LIKE 'o%'",
            "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE (table_rows > 1) AND (1 = 1)",
            "SHOW FULL TABLES IN `shop` where Table_Type = 'BASE TABLE'",
            "SELECT column_name, (ordinal_position) FROM information_schema.columns WHERE table_schema IN ('a', 'b')",
            "SELECT t.TABLE_NAME FROM INFORMATION_SCHEMA.TABLES t LEFT JOIN information_schema.COLUMNS AS c USING (TABLE_NAME)",
            "SELECT 1 FROM information_schema.tables, information_schema.columns WHERE 1",
            "SELECT COUNT(*) FROM `INFORMATION_SCHEMA`.`COLUMNS` c ORDER BY 1",
        ] {
            assert!(is_definition(sql), "{sql}");
        }
    }

    #[test]
    fn statements_that_read_data_are_refused() {
        for sql in [
            "SELECT * FROM shop.orders",
            "SELECT * FROM information_schema.columns, shop.orders",
            "SELECT * FROM information_schema.columns c, shop.orders",
            "SELECT * FROM information_schema.columns JOIN shop.orders",
            "SELECT * FROM information_schema.columns NATURAL JOIN shop.orders",
            "SELECT * FROM information_schema.columns WHERE 1 = (SELECT 1 FROM shop.orders)",
            "SELECT (SELECT a FROM shop.orders), 1 FROM information_schema.columns",
            "SELECT * FROM information_schema.columns WHERE 1 IN (TABLE shop.orders)",
            "SELECT * FROM information_schema.columns UNION SELECT * FROM shop.orders",
            "SELECT * FROM information_schema.columns INTO OUTFILE '/tmp/x'",
            "SELECT 'x' INTO OUTFILE '/tmp/x' FROM information_schema.columns",
            "SELECT * FROM (shop.orders, information_schema.columns)",
            "SELECT * FROM information_schema.tables /*!99999 , shop.orders */",
            "SELECT * FROM information_schema.tables window, shop.orders",
            "SELECT * FROM information_schema.tables USE INDEX FOR JOIN (i), shop.orders",
            "SELECT * FROM information_schema.tables WHERE \"\\\"\" UNION SELECT * FROM shop.orders WHERE \"\"",
            "SELECT * FROM information_schema.columns USE INDEX FOR ORDER BY (), shop.orders",
            "SELECT o.* FROM information_schema.schemata t LEFT JOIN information_schema.schemata c ON @order, shop.orders o",
            "SELECT /*+ MAX_EXECUTION_TIME(0) */ * FROM information_schema.columns",
            "SELECT * FROM information_schema.column_statistics",
            "SELECT * FROM information_schema.innodb_trx",
            "SELECT * FROM { OJ shop.orders LEFT JOIN information_schema.tables ON 1 }",
            "SELECT * FROM information_schema.tables JOIN information_schema.columns ON 1, shop.orders",
            "SELECT * FROM information_schema.tables JOIN (shop.orders)",
            "SELECT * FROM information_schema.tables JOIN",
            "SELECT * FROM information_schema.processlist",
            "SELECT 1",
            "SELECT * FROM columns",
            "SHOW GRANTS",
            "SHOW TABLES WHERE EXISTS (SELECT 1 FROM shop.orders)",
            "SHOW COLUMNS FROM shop.orders WHERE Field IN (TABLE shop.names)",
            "SHOW TABLES FROM shop WHERE shop.secret()",
            "SHOW TABLES FROM shop WHERE `secret`()",
            "SHOW TABLES FROM shop WHERE SLEEP(1000)",
            "SHOW TABLES FROM shop WHERE shop.concat('a')",
            "SHOW TABLES WHERE @a := 1",
            "SELECT @@global.secret FROM information_schema.tables",
            "SELECT GET_LOCK('x', 1) FROM information_schema.tables",
            "SELECT LOAD_FILE('/etc/passwd') FROM information_schema.tables",
            "SELECT shop.secret() FROM information_schema.tables",
            "SHOW TABLES; DROP TABLE shop.orders",
            "SELECT * FROM information_schema.columns; DROP TABLE shop.orders",
            "WITH a AS (SELECT 1) SELECT * FROM information_schema.columns",
        ] {
            assert!(!is_definition(sql), "{sql}");
        }
    }
}
