//! Translation of a `SELECT` from MySQL's SQL into SQLite's SQL.

mod function_call;

use std::borrow::Cow;
use std::ops::Range;

use binlog::Charset;
use sql::lexer::{SqlLexer, SqlToken, SqlTokenKind, digits_of, name_of, string_of};
use sql::{SqlWord, SqlWords};
use wire::ServerError;

pub(super) use self::function_call::ENGINE_FUNCTIONS;
use super::refusals::{syntax_error, unknown_function, unsupported};
use super::scalar::{VariableReference, hex_text, read_variable};
use super::system_variable::{RequestedScope, VariableContext};
use crate::sql_answer::SqlValue;

/// Operators of more than one byte, the longest first.
const OPERATORS: [&str; 12] = ["<=>", "->>", "<=", ">=", "<>", "!=", "<<", ">>", "||", "&&", "->", ":="];
/// Words after `SELECT` that only affect how a server executes it.
const SELECT_HINTS: [&str; 5] =
    ["HIGH_PRIORITY", "SQL_CACHE", "SQL_NO_CACHE", "SQL_BUFFER_RESULT", "SQL_CALC_FOUND_ROWS"];
/// Words that end a select list.
const LIST_ENDS: [&str; 9] =
    ["FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTERSECT", "EXCEPT"];
/// Words that make the next word part of the expression, not an alias.
const OPERATOR_WORDS: [&str; 18] = [
    "AND", "OR", "XOR", "NOT", "IS", "IN", "LIKE", "REGEXP", "RLIKE", "BETWEEN", "DIV", "MOD", "COLLATE",
    "THEN", "ELSE", "WHEN", "CASE", "DISTINCT",
];
/// Words that can end an expression without being an alias.
const FINAL_WORDS: [&str; 4] = ["END", "NULL", "TRUE", "FALSE"];
/// Functions without parentheses, and the functions to call instead.
const BARE_FUNCTIONS: [(&str, &str); 8] = [
    ("CURRENT_USER", "current_user"),
    ("CURRENT_TIMESTAMP", "now"),
    ("LOCALTIME", "now"),
    ("LOCALTIMESTAMP", "now"),
    ("UTC_TIMESTAMP", "now"),
    ("CURRENT_DATE", "curdate"),
    ("UTC_DATE", "curdate"),
    ("CURRENT_TIME", "curtime"),
];

/// Maximum depth of parentheses. A client's thread has a stack of 1 MiB.
const DEPTH_MAX: usize = 60;
/// Maximum number of SELECTs in a statement: SQLite nests those of a chain of common table expressions.
const SELECTS_MAX: usize = 60;

/// Tokens of a `SELECT`, or of a part of a `SELECT`.
pub(super) struct SelectText<'s> {
    sql: &'s str,
    sql_mode: u64,
    tokens: Vec<SqlToken>,
    /// Number of open parentheses before each token.
    depths: Vec<usize>,
}

impl<'s> SelectText<'s> {
    /// Splits a part of a statement into tokens.
    ///
    /// # Errors
    ///
    /// Fails if a quote or a comment has no end. Also fails if parentheses are nested too deeply, or there are too many
    /// SELECTs, because the functions that translate and run the text call themselves for each.
    pub(super) fn parse(sql: &'s str, part: Range<usize>, sql_mode: u64) -> Result<Self, ServerError> {
        let (mut tokens, mut depths, mut depth, mut selects) = (Vec::new(), Vec::new(), 0usize, 0usize);
        for mut token in SqlLexer::new(&sql.as_bytes()[part.clone()], sql_mode) {
            token.at = token.at.start + part.start..token.at.end + part.start;
            match token.kind {
                SqlTokenKind::Malformed => return Err(syntax_error(sql, token.at.start)),
                _ if token.is_blank() => {}
                _ => {
                    depths.push(depth);
                    match (token.kind, &sql[token.at.clone()]) {
                        (SqlTokenKind::Sign, "(") => depth += 1,
                        (SqlTokenKind::Sign, ")") => depth = depth.saturating_sub(1),
                        (SqlTokenKind::Word, word) if word.eq_ignore_ascii_case("SELECT") => selects += 1,
                        _ => {}
                    }
                    if depth > DEPTH_MAX || selects > SELECTS_MAX {
                        return Err(unsupported(&format!(
                            "statements with more than {DEPTH_MAX} nested parentheses, or {SELECTS_MAX} SELECTs"
                        )));
                    }
                    tokens.push(token);
                }
            }
        }
        Ok(Self { sql, sql_mode, tokens, depths })
    }

    /// Returns the names in the text. Some of them are names of tables.
    pub(super) fn names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let is_name = |kind| matches!(kind, SqlTokenKind::Word | SqlTokenKind::QuotedName);
        self.tokens.iter().filter(move |token| is_name(token.kind)).map(|token| self.name(token))
    }

    /// Translates a whole `SELECT`. Columns get the same names as on a server.
    ///
    /// # Errors
    ///
    /// Fails for syntax that SQLite would misunderstand, and for unknown system variables.
    pub(super) fn select(&self, context: &VariableContext<'_>) -> Result<String, ServerError> {
        let mut out = String::new();
        let mut at = 0;
        if self.is_word(0, &["SELECT"]) {
            out.push_str("SELECT ");
            at = 1;
            while self.is_word(at, &SELECT_HINTS) {
                at += 1;
            }
            if self.is_word(at, &["DISTINCT", "ALL", "DISTINCTROW"]) {
                out.push_str(if self.is_word(at, &["ALL"]) { "ALL " } else { "DISTINCT " });
                at += 1;
            }
            let end = self.list_end(at);
            for (number, item) in self.items(at..end).into_iter().enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                let alias = self.string_alias(&item);
                let end = alias.unwrap_or(item.end);
                self.put_expression(item.start..end, &mut out, context)?;
                if let Some(alias) = alias {
                    out.push_str(&quoted_name(&self.name(&self.tokens[alias])));
                    out.push(' ');
                }
                if let Some(name) = self.column_name(item) {
                    out.push_str(&format!("AS {} ", quoted_name(&name)));
                }
            }
            at = end;
        }
        self.put_expression(at..self.tokens.len(), &mut out, context)?;
        Ok(out)
    }

    /// Returns a server's names for the columns of a `SELECT`; `None` for a column with an alias, and for `*`.
    pub(super) fn column_names(&self) -> Vec<Option<String>> {
        let list = 1..self.list_end(1);
        self.items(list).into_iter().map(|item| self.column_name(item)).collect()
    }

    /// Translates an expression.
    ///
    /// # Errors
    ///
    /// Fails for syntax that SQLite would misunderstand, and for unknown system variables.
    pub(super) fn expression(&self, context: &VariableContext<'_>) -> Result<String, ServerError> {
        let mut out = String::new();
        self.put_expression(0..self.tokens.len(), &mut out, context)?;
        Ok(out)
    }

    fn put_expression(
        &self,
        range: Range<usize>,
        out: &mut String,
        context: &VariableContext<'_>,
    ) -> Result<(), ServerError> {
        let mut at = range.start;
        while at < range.end {
            at = self.put_token(at, out, context)?;
            out.push(' ');
        }
        Ok(())
    }

    /// Translates one token, or several that belong together. Returns the index of the next token.
    fn put_token(
        &self,
        at: usize,
        out: &mut String,
        context: &VariableContext<'_>,
    ) -> Result<usize, ServerError> {
        match self.put_interval_sum(at, out, context)? {
            Some(next) => Ok(next),
            None => self.put_single(at, out, context),
        }
    }

    /// Translates like [`put_token`](Self::put_token), except sums of a time and an interval.
    fn put_single(
        &self,
        at: usize,
        out: &mut String,
        context: &VariableContext<'_>,
    ) -> Result<usize, ServerError> {
        let token = &self.tokens[at];
        match token.kind {
            SqlTokenKind::Word => return self.put_word(at, out, context),
            SqlTokenKind::QuotedName if self.is_sign(at + 1, "(") => {
                return Err(unknown_function(&self.name(token)));
            }
            SqlTokenKind::QuotedName => out.push_str(&quoted_name(&self.name(token))),
            SqlTokenKind::String => {
                let (text, next) = self.string(at);
                match at > 0 && self.is_word(at - 1, &["AS"]) {
                    true => out.push_str(&quoted_name(&text)),
                    false => put_literal(out, &SqlValue::Text(text)),
                }
                return Ok(next);
            }
            SqlTokenKind::Number if self.is_compared(at, at) => {
                out.push_str(&format!("CAST({} AS NUMERIC)", self.text(token)));
            }
            SqlTokenKind::Number => {
                if self.is_remainder(at) && self.text(token).contains(['.', 'e', 'E']) {
                    return Err(unsupported("DIV, MOD and % of numbers with a fraction"));
                }
                out.push_str(self.text(token));
            }
            SqlTokenKind::Hex => {
                let digits = String::from_utf8_lossy(digits_of(self.text(token).as_bytes())).into_owned();
                let text = hex_text(&digits).ok_or_else(|| self.error(at))?;
                put_literal(out, &SqlValue::Text(text));
            }
            SqlTokenKind::Sign => return self.put_sign(at, out, context),
            _ => return Err(self.error(at)),
        }
        Ok(at + 1)
    }

    fn put_word(
        &self,
        at: usize,
        out: &mut String,
        context: &VariableContext<'_>,
    ) -> Result<usize, ServerError> {
        let word = self.text(&self.tokens[at]);
        let is_member = at > 0 && self.is_sign(at - 1, ".");
        let is_call = self.is_sign(at + 1, "(");
        let bare = BARE_FUNCTIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        match (word.to_ascii_uppercase().as_str(), bare) {
            _ if is_member => out.push_str(&quoted_name(word)),
            (_, Some((_, function))) if !is_call => {
                if *function != "current_user" {
                    self.check_time_operand(at, at)?;
                }
                out.push_str(function);
                out.push_str("() COLLATE NOCASE");
            }
            _ if self.is_function(at) => return self.put_call(at, out, context),
            ("FROM", _) if self.is_word(at + 1, &["DUAL"]) => return Ok(at + 2),
            // All comparisons of text ignore case.
            ("COLLATE", _) => {
                let collation = self.tokens.get(at + 1).map(|name| self.name(name).to_ascii_lowercase());
                return match collation.filter(|name| name.ends_with("_ci")) {
                    Some(_) => Ok(at + 2),
                    None => Err(unsupported("case-sensitive collations")),
                };
            }
            ("INTERVAL", _) => return self.put_interval(at, out),
            ("SEPARATOR", _) if self.is_string(at + 1) => out.push(','),
            ("XOR", _) => return Err(unsupported("XOR")),
            ("BINARY", _) => return Err(unsupported("case-sensitive comparisons")),
            ("RLIKE", _) => out.push_str("REGEXP"),
            ("DIV", _) => out.push('/'),
            ("MOD", _) => out.push('%'),
            // Operators of the engine that MySQL does not have.
            ("GLOB" | "MATCH" | "NOTNULL" | "ISNULL", _) => return Err(self.error(at)),
            _ if self.unit(at).is_some() => out.push_str(&format!("'{}'", self.unit(at).unwrap_or_default())),
            // Omit the character set of a string: all strings are UTF-8.
            (set, _) if set.starts_with('_') && self.is_string(at + 1) && is_charset(&set[1..]) => {}
            // Quote the name: SQLite would take it for a parameter.
            (name, _) if name.starts_with('$') => out.push_str(&quoted_name(word)),
            _ => out.push_str(word),
        }
        Ok(at + 1)
    }

    /// Returns true if the number in these tokens is an operand of a comparison.
    fn is_compared(&self, first: usize, last: usize) -> bool {
        let is_comparison = |at: usize| ["=", "<", ">"].iter().any(|sign| self.is_sign(at, sign));
        let is_before = first > 0
            && (is_comparison(first - 1)
                || self.is_word(first - 1, &["BETWEEN"])
                || self.is_range_end(first - 1));
        let is_after = is_comparison(last + 1)
            || self.is_sign(last + 1, "!") && self.is_sign(last + 2, "=")
            || self.is_word(last + 1, &["BETWEEN"]);
        is_before || is_after
    }

    /// Returns true if the word is the `AND` of a `BETWEEN`.
    fn is_range_end(&self, at: usize) -> bool {
        let is_between = |before: &usize| {
            self.is_word(*before, &["BETWEEN", "AND"]) && self.depths[*before] == self.depths[at]
        };
        let before = (0..at).rev().find(is_between);
        self.is_word(at, &["AND"]) && before.is_some_and(|before| self.is_word(before, &["BETWEEN"]))
    }

    /// Returns true if a token is an operand of `DIV`, `MOD` or `%`.
    fn is_remainder(&self, at: usize) -> bool {
        let is_operator = |at: usize| self.is_word(at, &["DIV", "MOD"]) || self.is_sign(at, "%");
        at > 0 && is_operator(at - 1) || is_operator(at + 1)
    }

    /// Returns the index of a string at the end of an item that is the name of the column.
    fn string_alias(&self, item: &Range<usize>) -> Option<usize> {
        let last = item.end.checked_sub(1).filter(|last| *last > item.start && self.is_string(*last))?;
        let is_alias = self.is_word(last - 1, &["AS"]) || self.is_implicit_alias(item, last);
        is_alias.then_some(last)
    }

    fn put_sign(
        &self,
        at: usize,
        out: &mut String,
        context: &VariableContext<'_>,
    ) -> Result<usize, ServerError> {
        let rest = &self.sql[self.tokens[at].at.start..];
        if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
            out.push_str(match *operator {
                "<=>" => "IS",
                "||" => "OR",
                "&&" => "AND",
                ":=" => return Err(unsupported("assignments in a SELECT")),
                operator => operator,
            });
            return Ok(at + operator.len());
        }
        match rest.as_bytes()[0] {
            b'@' => return self.put_variable(at, out, context),
            b'-' if self.tokens.get(at + 1).is_some_and(|next| next.kind == SqlTokenKind::Number)
                && self.is_compared(at, at + 1) =>
            {
                out.push_str(&format!("CAST(-{} AS NUMERIC)", self.text(&self.tokens[at + 1])));
                return Ok(at + 2);
            }
            b')' => {
                out.push(')');
                out.push_str(self.call_end(at));
            }
            // In MySQL, the quotient of integers has a fraction.
            b'/' => out.push_str("* 1.0 /"),
            b'!' => out.push_str("NOT"),
            sign @ (b'(' | b',' | b'.' | b'=' | b'<' | b'>' | b'+' | b'-' | b'*' | b'%' | b'&' | b'|') => {
                out.push(char::from(sign));
            }
            b'~' | b'^' => return Err(unsupported("the operators ~ and ^")),
            // A parameter, or a quote of SQLite: a server accepts neither here.
            _ => return Err(self.error(at)),
        }
        Ok(at + 1)
    }

    fn put_variable(
        &self,
        at: usize,
        out: &mut String,
        context: &VariableContext<'_>,
    ) -> Result<usize, ServerError> {
        let name_at = |at: usize| self.tokens.get(at).map(|token| self.name(token).into_owned());
        if !self.is_sign(at + 1, "@") {
            let name = name_at(at + 1).ok_or_else(|| self.error(at))?.to_lowercase();
            put_literal(out, context.session.user_variables.get(&name).unwrap_or(&SqlValue::Null));
            return Ok(at + 2);
        }
        let mut reference = VariableReference {
            scope: RequestedScope::Any,
            name: name_at(at + 2).ok_or_else(|| self.error(at))?,
        };
        let mut next = at + 3;
        if self.is_sign(next, ".") {
            reference.scope = match reference.name.to_ascii_lowercase().as_str() {
                "global" => RequestedScope::Global,
                "session" | "local" => RequestedScope::Session,
                _ => return Err(self.error(at)),
            };
            reference.name = name_at(next + 1).ok_or_else(|| self.error(at))?;
            next += 2;
        }
        let value = read_variable(&reference, context)?.to_sql();
        match value {
            // A number with a type, which the engine compares with a text as a number.
            SqlValue::Int(_) | SqlValue::UInt(..=0x7fff_ffff_ffff_ffff) | SqlValue::Double(_) => {
                out.push_str("CAST(");
                put_literal(out, &value);
                out.push_str(" AS NUMERIC)");
            }
            _ => put_literal(out, &value),
        }
        Ok(next)
    }

    /// Returns a server's name for a column of a select list; `None` for a column with an alias, and for `*`.
    fn column_name(&self, item: Range<usize>) -> Option<String> {
        let last = item.end.checked_sub(1).filter(|last| item.contains(last))?;
        if self.is_sign(last, "*")
            || item.clone().any(|at| self.is_word(at, &["AS"]) && self.is_outside(&item, at))
        {
            return None;
        }
        if self.is_implicit_alias(&item, last) {
            return None;
        }
        let is_path = item.clone().all(|at| {
            let is_name = matches!(self.tokens[at].kind, SqlTokenKind::Word | SqlTokenKind::QuotedName);
            if (at - item.start).is_multiple_of(2) { is_name } else { self.is_sign(at, ".") }
        });
        if is_path || self.is_string(item.start) && item.clone().all(|at| self.is_string(at)) {
            let named = if is_path { last } else { item.start };
            return Some(self.name(&self.tokens[named]).into_owned());
        }
        Some(self.sql[self.tokens[item.start].at.start..self.tokens[last].at.end].to_owned())
    }

    fn is_implicit_alias(&self, item: &Range<usize>, last: usize) -> bool {
        if last == item.start {
            return false;
        }
        let before = &self.tokens[last - 1];
        let can_be_alias = match self.tokens[last].kind {
            SqlTokenKind::Word => !self.is_word(last, &FINAL_WORDS),
            SqlTokenKind::QuotedName => true,
            SqlTokenKind::String => before.kind != SqlTokenKind::String,
            _ => false,
        };
        let ends_expression = match before.kind {
            SqlTokenKind::Word => !self.is_word(last - 1, &OPERATOR_WORDS) && !self.is_introducer(last - 1),
            SqlTokenKind::Sign => self.is_sign(last - 1, ")"),
            _ => true,
        };
        // The name of a variable: `@name`, `@@name`.
        can_be_alias && ends_expression && !self.is_sign(last - 1, "@")
    }

    fn is_introducer(&self, at: usize) -> bool {
        self.text(&self.tokens[at]).strip_prefix('_').is_some_and(is_charset)
    }

    /// Returns true if a token of an item is outside of parentheses.
    fn is_outside(&self, item: &Range<usize>, at: usize) -> bool {
        self.depths[at] == self.depths[item.start]
    }

    fn list_end(&self, start: usize) -> usize {
        let whole = start..self.tokens.len();
        let is_end = |at: &usize| self.is_word(*at, &LIST_ENDS) && self.is_outside(&whole, *at);
        whole.clone().find(is_end).unwrap_or(whole.end)
    }

    /// Splits a select list at its commas.
    fn items(&self, list: Range<usize>) -> Vec<Range<usize>> {
        let is_comma = |at: &usize| self.is_sign(*at, ",") && self.is_outside(&list, *at);
        let commas: Vec<usize> = list.clone().filter(is_comma).collect();
        let starts = std::iter::once(list.start).chain(commas.iter().map(|comma| comma + 1));
        let ends = commas.iter().copied().chain([list.end]);
        starts.zip(ends).map(|(start, end)| start..end).collect()
    }

    /// Returns a string, joined with directly following strings, and the index of the next token.
    fn string(&self, at: usize) -> (String, usize) {
        let count = self.tokens[at..].iter().take_while(|token| token.kind == SqlTokenKind::String).count();
        let texts = self.tokens[at..at + count].iter().map(|token| self.name(token));
        (texts.collect(), at + count)
    }

    /// Returns the text of a name or a string, without its quotes.
    fn name(&self, token: &SqlToken) -> Cow<'s, str> {
        let bytes = self.text(token).as_bytes();
        let plain = match token.kind {
            SqlTokenKind::String => string_of(bytes, self.sql_mode),
            SqlTokenKind::QuotedName => name_of(bytes),
            _ => bytes.into(),
        };
        match plain {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
        }
    }

    fn text(&self, token: &SqlToken) -> &'s str {
        &self.sql[token.at.clone()]
    }

    fn is_word(&self, at: usize, words: &[&str]) -> bool {
        let Some(token) = self.tokens.get(at).filter(|token| token.kind == SqlTokenKind::Word) else {
            return false;
        };
        words.iter().any(|word| word.eq_ignore_ascii_case(self.text(token)))
    }

    fn is_sign(&self, at: usize, sign: &str) -> bool {
        let token = self.tokens.get(at).filter(|token| token.kind == SqlTokenKind::Sign);
        token.is_some_and(|token| self.text(token) == sign)
    }

    fn is_string(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == SqlTokenKind::String)
    }

    fn error(&self, at: usize) -> ServerError {
        syntax_error(self.sql, self.tokens[at].at.start)
    }
}

/// Returns the byte offset of the next word.
pub(super) fn offset(words: &SqlWords) -> usize {
    words.rest_range().start
}

/// Takes `=` or `:=`.
pub(super) fn take_assignment(words: &mut SqlWords) -> bool {
    let is_colon = matches!(words.peek(), Some(SqlWord::Sign(sign)) if sign == ":");
    if is_colon {
        words.take_sign(":");
    }
    words.take_sign("=")
}

fn is_charset(name: &str) -> bool {
    Charset::from_name(&name.to_ascii_lowercase()).is_some()
}

fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\"").replace('\0', ""))
}

/// Appends a SQLite literal.
fn put_literal(out: &mut String, value: &SqlValue) {
    match value {
        SqlValue::Null => out.push_str("NULL"),
        SqlValue::Int(number) => out.push_str(&number.to_string()),
        SqlValue::UInt(number) if i64::try_from(*number).is_ok() => out.push_str(&number.to_string()),
        // The number is too large for an integer of SQLite: only text keeps all digits.
        SqlValue::UInt(number) => out.push_str(&format!("'{number}'")),
        SqlValue::Double(number) => out.push_str(&format!("{number:?}")),
        // A NUL would end the SQL text.
        SqlValue::Text(text) if text.contains('\0') => {
            let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            out.push_str(&format!("CAST(x'{digits}' AS TEXT) COLLATE NOCASE"));
        }
        SqlValue::Text(text) => out.push_str(&format!("'{}' COLLATE NOCASE", text.replace('\'', "''"))),
    }
}
