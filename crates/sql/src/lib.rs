//! MySQL's SQL for binary logs: tokens, tables named in statements, definitions of tables, quoting, a replica's
//! `replicate-*` rules, and descriptions of events.
//!
//! | task | item |
//! |---|---|
//! | split SQL into tokens without gaps | [`lexer`] |
//! | read a statement token by token, in any character set | [`TokenCursor`] |
//! | read the words of a whole statement, with their values | [`SqlWords`] |
//! | parse definitions of tables and databases, and their changes | [`ddl`] |
//! | name families of data types | [`data_type`] |
//! | find the tables that a statement changes | [`classify_statement`] |
//! | decode a statement from its client's character set | [`query_text`], [`decode_statement`] |
//! | find out whether a statement changes rows | [`is_row_statement`] |
//! | select databases and tables by a replica's rules | [`ReplicationFilter`] |
//! | select tables by patterns with `*` and `?` | [`TablePattern`] |
//! | select tables by database and patterns | [`TableSelection`] |
//! | find out which statements differ only in their literals | [`statement_digest()`] |
//! | find the rules that matched nothing | [`UnmatchedRules`] |
//! | quote names and bytes | [`quote`] |
//! | describe an event as `SHOW BINLOG EVENTS` does | [`event_info`] |
//! | write numbers as MySQL's programs do | [`numbers`] |
//!
//! This crate is pure: it does no I/O, and uses no clock and no threads.
#![forbid(unsafe_code)]

pub mod data_type;
pub mod ddl;
pub mod event_info;
pub mod lexer;
pub mod numbers;
pub mod quote;
mod replication_filter;
mod sql_words;
mod statement;
mod statement_digest;
mod table_pattern;
mod table_selection;
mod token_cursor;
mod unmatched_rules;
mod wildcard_pattern;

pub use crate::replication_filter::{FilterRule, FilterRuleError, ReplicationFilter};
pub use crate::sql_words::{SqlWord, SqlWords};
pub use crate::statement::{
    StatementKind, TableReference, TemporaryTableChange, classify_statement, decode_statement,
    executed_statement, find_start_transaction, first_word, is_account_statement, is_row_statement,
    query_ddl, query_sql_mode, query_text, temporary_table_change,
};
pub use crate::statement_digest::statement_digest;
pub use crate::table_pattern::{TableNamePart, TablePattern, split_table_name};
pub use crate::table_selection::TableSelection;
pub use crate::token_cursor::TokenCursor;
pub use crate::unmatched_rules::UnmatchedRules;
pub use crate::wildcard_pattern::WildcardPattern;
