//! SQLite databases as targets of a replay: one file, no server.
//!
//! | to | use |
//! |---|---|
//! | apply transactions to a database | [`SqliteTarget`] |
//! | apply definitions without a database | [`SchemaDraft`] |
//! | compare the tables of a database | [`SqliteReader`] |
//!
//! Tables are created from the definitions in the logs, and rows are changed by row events. Progress is saved in the
//! same transaction, for definitions, too. Wherever a replay stops, the file contains whole transactions of the source,
//! and their list.
//!
//! This crate never connects to a server, never decides which transactions are applied, and never writes to a database
//! of another application. This crate refuses a definition that it does not understand, and never skips a definition.
#![forbid(unsafe_code)]

mod catalogue_table;
mod default_value;
mod definition_statement;
mod file_reading;
mod foreign_key_cascade;
mod json_patch;
mod mysql_type;
mod other_statement;
mod row_writer;
mod schema_draft;
mod schema_editor;
mod sqlite_failure;
mod sqlite_reader;
mod sqlite_remarks;
mod sqlite_session;
mod sqlite_target;
mod sqlite_value;
mod statement_words;
mod table_alteration;
mod table_catalogue;
mod table_elements;
mod value_conversion;

pub use crate::schema_draft::SchemaDraft;
pub use crate::sqlite_reader::SqliteReader;
pub use crate::sqlite_remarks::SqliteRemarks;
pub use crate::sqlite_target::SqliteTarget;
