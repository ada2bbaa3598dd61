//! Translation of calls: functions, `CAST`, `CONVERT` and `INTERVAL`. Refuses all functions that the engine would
//! answer in another way than MySQL.

use std::ops::Range;

use sql::lexer::SqlTokenKind;
use wire::ServerError;

use super::super::date_time::TimeUnit;
use super::super::refusals::{unknown_function, unsupported, wrong_argument_count};
use super::super::sql_function::SqlFunction;
use super::super::system_variable::VariableContext;
use super::{SelectText, quoted_name};

/// Functions of the engine that return the same as in MySQL.
pub(in super::super) const ENGINE_FUNCTIONS: [&str; 14] = [
    "abs",
    "avg",
    "coalesce",
    "count",
    "dense_rank",
    "group_concat",
    "ifnull",
    "max",
    "min",
    "nullif",
    "rank",
    "replace",
    "row_number",
    "sum",
];
/// Aggregate functions of one argument: with two, the engine's functions do something else.
const AGGREGATES: [&str; 6] = ["avg", "count", "group_concat", "max", "min", "sum"];
/// Functions that return a number. The engine compares a number with a text as different types, unless the number has
/// a type.
const NUMBER_FUNCTIONS: [&str; 37] = [
    "abs",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "connection_id",
    "count",
    "datediff",
    "day",
    "dayofmonth",
    "dayofweek",
    "field",
    "find_in_set",
    "floor",
    "gtid_subset",
    "hour",
    "instr",
    "isnull",
    "last_insert_id",
    "length",
    "locate",
    "microsecond",
    "minute",
    "mod",
    "month",
    "octet_length",
    "pow",
    "power",
    "round",
    "second",
    "sign",
    "strcmp",
    "sum",
    "timestampdiff",
    "truncate",
    "unix_timestamp",
    "year",
];
/// Functions that return a date or a time as text. MySQL's arithmetic takes them as numbers such as 20260102.
const TIME_FUNCTIONS: [&str; 19] = [
    "curdate",
    "current_date",
    "current_time",
    "current_timestamp",
    "curtime",
    "date",
    "date_add",
    "date_sub",
    "from_unixtime",
    "localtime",
    "localtimestamp",
    "now",
    "sysdate",
    "time",
    "timediff",
    "timestampadd",
    "utc_date",
    "utc_time",
    "utc_timestamp",
];
/// Words before a parenthesis that are not functions.
const KEYWORDS: [&str; 37] = [
    "ALL",
    "AND",
    "ANY",
    "AS",
    "BETWEEN",
    "BY",
    "CASE",
    "DISTINCT",
    "DIV",
    "ELSE",
    "EXCEPT",
    "EXISTS",
    "FROM",
    "HAVING",
    "IN",
    "INTERSECT",
    "IS",
    "JOIN",
    "LIKE",
    "LIMIT",
    "MOD",
    "NOT",
    "ON",
    "OR",
    "OVER",
    "PARTITION",
    "REGEXP",
    "RLIKE",
    "SELECT",
    "SEPARATOR",
    "SOME",
    "THEN",
    "UNION",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
];
/// Functions whose first argument is a unit.
const UNIT_FUNCTIONS: [&str; 2] = ["TIMESTAMPADD", "TIMESTAMPDIFF"];
/// Signs of arithmetic.
const ARITHMETIC: [&str; 5] = ["+", "-", "*", "/", "%"];

impl SelectText<'_> {
    /// Returns true if a word is the name of a function.
    pub(super) fn is_function(&self, at: usize) -> bool {
        let is_keyword = self.is_word(at, &KEYWORDS) && !(self.is_word(at, &["MOD"]) && self.is_mod_call(at));
        let is_table = at > 0 && self.is_word(at - 1, &["WITH", "RECURSIVE"]);
        self.is_sign(at + 1, "(") && !is_keyword && !is_table
    }

    /// Returns true if `MOD` at this place is the function, not the operator.
    fn is_mod_call(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).map(|before| &self.tokens[before]) else { return true };
        match before.kind {
            SqlTokenKind::Sign => !self.is_sign(at - 1, ")"),
            SqlTokenKind::Word => {
                self.is_word(at - 1, &super::OPERATOR_WORDS) || self.is_word(at - 1, &KEYWORDS)
            }
            _ => false,
        }
    }

    /// Translates a call up to the opening parenthesis, or a whole `CAST` or `CONVERT`. Returns the index of the next
    /// token.
    ///
    /// # Errors
    ///
    /// Fails for functions that the relay does not have.
    pub(super) fn put_call(
        &self,
        at: usize,
        out: &mut String,
        context: &VariableContext<'_>,
    ) -> Result<usize, ServerError> {
        let name = self.text(&self.tokens[at]).to_ascii_lowercase();
        let Some(close) = self.close_of(at + 1) else { return Err(self.error(at)) };
        if name == "cast" || name == "convert" {
            return self.put_cast(at, close, out, context);
        }
        let is_engine = ENGINE_FUNCTIONS.contains(&name.as_str());
        if !is_engine && SqlFunction::find(&name).is_none_or(|function| function.name.contains(' ')) {
            return Err(unknown_function(&name));
        }
        if AGGREGATES.contains(&name.as_str()) && self.items(at + 2..close).len() > 1 {
            return Err(match name.as_str() {
                "count" | "group_concat" => unsupported(&format!("{name} of several columns")),
                _ => wrong_argument_count(&name),
            });
        }
        if TIME_FUNCTIONS.contains(&name.as_str()) {
            self.check_time_operand(at, close)?;
        }
        let is_number = NUMBER_FUNCTIONS.contains(&name.as_str()) && !self.has_window(close);
        out.push_str(if is_number { "CAST(" } else { "" });
        // Quoted, because some names are keywords of the engine.
        out.push_str(&quoted_name(&name));
        Ok(at + 1)
    }

    /// Returns the text after a closing parenthesis: the type or the collation of a function's result.
    pub(super) fn call_end(&self, close: usize) -> &'static str {
        let opens = (0..close).rev();
        let mut opens =
            opens.filter(|at| self.is_sign(*at, "(") && self.depths[*at] + 1 == self.depths[close]);
        let Some(at) = opens.next().and_then(|open| open.checked_sub(1)) else { return "" };
        let is_member = at > 0 && self.is_sign(at - 1, ".");
        if self.tokens[at].kind != SqlTokenKind::Word
            || is_member
            || !self.is_function(at)
            || self.has_window(close)
        {
            return "";
        }
        let name = self.text(&self.tokens[at]).to_ascii_lowercase();
        match NUMBER_FUNCTIONS.contains(&name.as_str()) {
            true => " AS NUMERIC)",
            false => " COLLATE NOCASE",
        }
    }

    fn has_window(&self, close: usize) -> bool {
        self.is_word(close + 1, &["OVER", "FILTER"])
    }

    /// Refuses arithmetic of dates and times.
    pub(super) fn check_time_operand(&self, at: usize, last: usize) -> Result<(), ServerError> {
        let is_operand = |at: usize| ARITHMETIC.iter().any(|sign| self.is_sign(at, sign));
        let is_interval = self.is_word(last + 2, &["INTERVAL"]);
        if at > 0 && is_operand(at - 1) || is_operand(last + 1) && !is_interval {
            return Err(unsupported("arithmetic of dates and times"));
        }
        Ok(())
    }

    /// Translates `operand + INTERVAL number unit`. Returns the index of the next token, or `None` if the expression at
    /// `at` is not one.
    pub(super) fn put_interval_sum(
        &self,
        at: usize,
        out: &mut String,
        context: &VariableContext<'_>,
    ) -> Result<Option<usize>, ServerError> {
        let Some(end) = self.operand_end(at) else { return Ok(None) };
        let is_sum = self.is_sign(end, "+") || self.is_sign(end, "-");
        if !is_sum || !self.is_word(end + 1, &["INTERVAL"]) {
            return Ok(None);
        }
        out.push_str(if self.is_sign(end, "+") { "date_add(" } else { "date_sub(" });
        // The operand ends before the sign, so this does not translate the sum again.
        let mut operand = String::new();
        let mut next = at;
        while next < end {
            next = self.put_single(next, &mut operand, context)?;
            operand.push(' ');
        }
        out.push_str(&operand);
        out.push(',');
        let next = self.put_interval(end + 1, out)?;
        out.push_str(") COLLATE NOCASE");
        let is_chain = self.is_sign(next, "+") || self.is_sign(next, "-");
        if is_chain {
            return Err(unsupported("arithmetic of dates and times"));
        }
        Ok(Some(next))
    }

    /// Translates `INTERVAL number unit` into two arguments. Returns the index of the next token.
    pub(super) fn put_interval(&self, at: usize, out: &mut String) -> Result<usize, ServerError> {
        let mut next = at + 1;
        if self.is_sign(next, "-") {
            out.push('-');
            next += 1;
        }
        let token = self.tokens.get(next).ok_or_else(|| self.error(at))?;
        match token.kind {
            SqlTokenKind::Number | SqlTokenKind::String => {
                let count: i64 = self.name(token).trim().parse().map_err(|_| unsupported("this INTERVAL"))?;
                out.push_str(&count.to_string());
            }
            _ => return Err(unsupported("an INTERVAL of an expression")),
        }
        let unit = self.tokens.get(next + 1).map(|unit| self.text(unit)).unwrap_or_default();
        if TimeUnit::of(unit).is_none() {
            return Err(unsupported("this unit of INTERVAL"));
        }
        out.push_str(&format!(",'{}'", unit.to_ascii_uppercase()));
        Ok(next + 2)
    }

    /// Returns the unit if the word is the first argument of a function of units.
    pub(super) fn unit(&self, at: usize) -> Option<&'static str> {
        let is_first = at > 1 && self.is_sign(at - 1, "(") && self.is_word(at - 2, &UNIT_FUNCTIONS);
        let name = self.text(&self.tokens[at]);
        TimeUnit::NAMES.into_iter().find(|unit| is_first && unit.eq_ignore_ascii_case(name))
    }

    /// Returns the index after an operand that starts at a token: a literal, a column, or a call.
    fn operand_end(&self, at: usize) -> Option<usize> {
        if at > 0 && self.is_sign(at - 1, ".") {
            return None;
        }
        match self.tokens[at].kind {
            SqlTokenKind::String | SqlTokenKind::Number => Some(at + 1),
            SqlTokenKind::Word if self.is_function(at) => self.close_of(at + 1).map(|close| close + 1),
            SqlTokenKind::Word | SqlTokenKind::QuotedName => {
                let mut end = at + 1;
                while self.is_sign(end, ".") {
                    end += 2;
                }
                Some(end)
            }
            _ => None,
        }
    }

    /// Returns the index of the parenthesis that closes another one.
    fn close_of(&self, open: usize) -> Option<usize> {
        let is_close = |at: &usize| self.is_sign(*at, ")") && self.depths[*at] == self.depths[open] + 1;
        (open + 1..self.tokens.len()).find(is_close)
    }

    /// Translates `CAST(x AS type)`, `CONVERT(x, type)` and `CONVERT(x USING charset)`.
    fn put_cast(
        &self,
        at: usize,
        close: usize,
        out: &mut String,
        context: &VariableContext<'_>,
    ) -> Result<usize, ServerError> {
        let inner = at + 2..close;
        let is_separator = |at: &usize| {
            self.depths[*at] == self.depths[inner.start]
                && (self.is_word(*at, &["AS", "USING"]) || self.is_sign(*at, ","))
        };
        let Some(separator) = inner.clone().rev().find(is_separator) else { return Err(self.error(close)) };
        let mut operand = String::new();
        self.put_expression(inner.start..separator, &mut operand, context)?;
        if self.is_word(separator, &["USING"]) {
            // All text is UTF-8.
            out.push_str(&format!("({operand}) COLLATE NOCASE"));
        } else {
            out.push_str(&self.cast(&operand, separator + 1..close)?);
        }
        Ok(close + 1)
    }

    /// Returns the conversion of an operand to a type.
    fn cast(&self, operand: &str, kind: Range<usize>) -> Result<String, ServerError> {
        let name = kind.clone().next().map(|at| self.text(&self.tokens[at]).to_ascii_uppercase());
        let numbers: Vec<&str> = kind
            .clone()
            .filter(|at| self.tokens[*at].kind == SqlTokenKind::Number)
            .map(|at| self.text(&self.tokens[at]))
            .collect();
        let number = |at: usize, default: &'static str| numbers.get(at).copied().unwrap_or(default);
        Ok(match name.as_deref() {
            Some("SIGNED") => format!("CAST(\"cast signed\"({operand}) AS NUMERIC)"),
            Some("UNSIGNED") => format!("CAST(\"cast unsigned\"({operand}) AS NUMERIC)"),
            Some("DECIMAL") => {
                let digits = number(1, "0");
                format!("CAST(\"cast decimal\"({operand}, {digits}) AS NUMERIC)")
            }
            Some("DOUBLE" | "REAL" | "FLOAT") => format!("CAST(({operand}) + 0.0 AS NUMERIC)"),
            Some("CHAR") => format!("\"cast char\"({operand}, {}) COLLATE NOCASE", number(0, "NULL")),
            Some("DATE") => format!("date({operand}) COLLATE NOCASE"),
            Some("DATETIME") if numbers.is_empty() => format!("\"cast datetime\"({operand}) COLLATE NOCASE"),
            Some(name) => return Err(unsupported(&format!("CAST AS {name}"))),
            None => return Err(self.error(kind.start)),
        })
    }
}
