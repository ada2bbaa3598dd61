//! The session variables printed so far, and the statements that change them.

use binlog::events::{OptionFlag, Query, StatusVar};
use binlog::{EventFlags, EventHeader};
use sql::numbers::{put_i64, put_padded, put_u32, put_u64};
use sql::quote;

use crate::charset_text::put_charset;
use crate::decode::for_each_status_var;
use crate::delimiter::end_statement;

/// The session variables as last printed.
#[derive(Clone, Debug)]
pub(crate) struct PrintedSession {
    database: Vec<u8>,
    thread_id: Option<u32>,
    flags2: Option<u32>,
    sql_mode: Option<u64>,
    auto_increment: (u16, u16),
    charset: Option<[u16; 3]>,
    time_zone: Vec<u8>,
    lc_time_names: Option<u16>,
    database_collation: Option<u16>,
    utf8mb4_collation: Option<u16>,
    cascade_triggers: u8,
}

impl Default for PrintedSession {
    /// Returns the state before anything is printed.
    fn default() -> Self {
        Self {
            database: Vec::new(),
            thread_id: None,
            flags2: None,
            sql_mode: None,
            auto_increment: (0, 0),
            charset: None,
            time_zone: Vec::new(),
            lc_time_names: None,
            database_collation: None,
            utf8mb4_collation: None,
            cascade_triggers: 0,
        }
    }
}

/// Options for printing session variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionStyle {
    /// Prints the same thread id for all statements.
    pub(crate) short_form: bool,
    /// Prints no thread ids.
    pub(crate) require_row_format: bool,
}

/// SQL modes that MySQL 8.0.5 removed.
const MODES_REMOVED: u64 = 0x1003_ff00;

/// Thread id of all statements in short form.
const SHORT_FORM_THREAD_ID: u32 = 999_999_999;

/// Session variables of a statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatementVariables<'a> {
    flags2: Option<u32>,
    sql_mode: Option<u64>,
    auto_increment: Option<(u16, u16)>,
    charset: Option<[u16; 3]>,
    time_zone: &'a [u8],
    lc_time_names: u16,
    database_collation: u16,
    microseconds: u32,
    explicit_timestamp: Option<u8>,
    utf8mb4_collation: u16,
    require_primary_key: Option<u8>,
    table_encryption: Option<u8>,
    cascade_triggers: u8,
    /// The transaction number of a statement that commits by itself.
    pub(crate) xid: Option<u64>,
}

impl<'a> StatementVariables<'a> {
    /// Reads the status variables. Stops at a variable that mysqlbinlog does not know.
    pub(crate) fn from_query(query: &Query<'a>) -> Self {
        let mut found = Self::default();
        for_each_status_var(query.status, |variable| found.take(variable));
        found
    }

    fn take(&mut self, variable: StatusVar<'a>) {
        match variable {
            StatusVar::Flags2(flags) => self.flags2 = Some(flags),
            StatusVar::SqlMode(mode) => self.sql_mode = Some(mode),
            StatusVar::AutoIncrement { increment, offset } => self.auto_increment = Some((increment, offset)),
            StatusVar::Charset { client, connection, server } => {
                self.charset = Some([client, connection, server]);
            }
            StatusVar::TimeZone(name) => self.time_zone = name,
            StatusVar::LcTimeNames(number) => self.lc_time_names = number,
            StatusVar::CharsetDatabase(number) => self.database_collation = number,
            StatusVar::Microseconds(fraction) => self.microseconds = fraction,
            StatusVar::ExplicitDefaultsForTimestamp(value) => self.explicit_timestamp = Some(value),
            StatusVar::DdlXid(xid) => self.xid = Some(xid),
            StatusVar::DefaultCollationForUtf8mb4(number) => self.utf8mb4_collation = number,
            StatusVar::SqlRequirePrimaryKey(value) => self.require_primary_key = Some(value),
            StatusVar::DefaultTableEncryption(value) => self.table_encryption = Some(value),
            StatusVar::EnableCascadeTriggers(value) => self.cascade_triggers = value,
            _ => {}
        }
    }
}

/// Statement to print with its session variables.
pub(crate) struct PrintedStatement<'q> {
    pub(crate) header: &'q EventHeader,
    pub(crate) query: &'q Query<'q>,
    pub(crate) variables: &'q StatementVariables<'q>,
    /// Set for `BEGIN`, `COMMIT` and other statements that only delimit a transaction.
    pub(crate) is_transaction_word: bool,
}

impl PrintedSession {
    /// Returns the three character sets as last printed, by collation number.
    pub(crate) fn charset(&self) -> Option<[u16; 3]> {
        self.charset
    }

    /// Appends the statements that set a statement's session variables, where they differ from those last printed.
    /// Returns the number of an unknown character set, if one was printed.
    pub(crate) fn put_changes(
        &mut self,
        out: &mut Vec<u8>,
        statement: &PrintedStatement<'_>,
        style: SessionStyle,
    ) -> Option<u16> {
        let PrintedStatement { header, query, variables, is_transaction_word } = *statement;
        self.put_database(out, header, query, is_transaction_word);
        out.extend_from_slice(b"SET TIMESTAMP=");
        put_u32(out, header.timestamp);
        if variables.microseconds != 0 {
            out.push(b'.');
            put_padded(out, variables.microseconds.into(), 6);
        }
        end_statement(out);
        self.put_thread(out, header, query, style);
        self.put_options(out, variables);
        self.put_sql_mode(out, variables);
        self.put_auto_increment(out, variables);
        let unknown = self.put_charset(out, variables);
        self.put_locale(out, variables);
        self.put_always(out, variables);
        unknown
    }

    fn put_database(&mut self, out: &mut Vec<u8>, header: &EventHeader, query: &Query<'_>, is_word: bool) {
        if header.flags.contains(EventFlags::SUPPRESS_USE) {
            if !is_word {
                self.database.clear();
            }
            return;
        }
        let database = query.database;
        if self.database == database {
            return;
        }
        self.database.clear();
        self.database.extend_from_slice(database);
        if !database.is_empty() {
            out.extend_from_slice(b"use ");
            quote::put_name(out, database);
            end_statement(out);
        }
    }

    fn put_thread(
        &mut self,
        out: &mut Vec<u8>,
        header: &EventHeader,
        query: &Query<'_>,
        style: SessionStyle,
    ) {
        let is_due = match self.thread_id {
            None => true,
            Some(last) => header.flags.contains(EventFlags::THREAD_SPECIFIC) && last != query.thread_id,
        };
        if style.require_row_format || !is_due {
            return;
        }
        out.extend_from_slice(b"SET @@session.pseudo_thread_id=");
        put_u32(out, if style.short_form { SHORT_FORM_THREAD_ID } else { query.thread_id });
        end_statement(out);
        self.thread_id = Some(query.thread_id);
    }

    fn put_options(&mut self, out: &mut Vec<u8>, variables: &StatementVariables<'_>) {
        let Some(flags) = variables.flags2 else { return };
        let changed = self.flags2.map_or(u32::MAX, |last| last ^ flags);
        if changed == 0 {
            return;
        }
        out.extend_from_slice(b"SET ");
        let mut separator: &[u8] = b"";
        for flag in OptionFlag::ALL {
            if changed & flag.bit != 0 {
                let value: &[u8] = if flag.is_on(flags) { b"=1" } else { b"=0" };
                for part in [separator, b"@@session.", flag.variable.as_bytes(), value] {
                    out.extend_from_slice(part);
                }
                separator = b", ";
            }
        }
        end_statement(out);
        self.flags2 = Some(flags);
    }

    fn put_sql_mode(&mut self, out: &mut Vec<u8>, variables: &StatementVariables<'_>) {
        let Some(mode) = variables.sql_mode else { return };
        if self.sql_mode == Some(mode) {
            return;
        }
        out.extend_from_slice(b"SET @@session.sql_mode=");
        put_u64(out, mode);
        if mode & MODES_REMOVED != 0 {
            out.extend_from_slice(b"/*!80005 &~0x1003ff00*/");
        }
        end_statement(out);
        self.sql_mode = Some(mode);
    }

    fn put_auto_increment(&mut self, out: &mut Vec<u8>, variables: &StatementVariables<'_>) {
        let (increment, offset) = variables.auto_increment.unwrap_or((1, 1));
        if self.auto_increment == (increment, offset) {
            return;
        }
        out.extend_from_slice(b"SET @@session.auto_increment_increment=");
        put_u32(out, increment.into());
        out.extend_from_slice(b", @@session.auto_increment_offset=");
        put_u32(out, offset.into());
        end_statement(out);
        self.auto_increment = (increment, offset);
    }

    fn put_charset(&mut self, out: &mut Vec<u8>, variables: &StatementVariables<'_>) -> Option<u16> {
        let charset = variables.charset?;
        if self.charset == Some(charset) {
            return None;
        }
        self.charset = Some(charset);
        put_charset(out, charset)
    }

    fn put_locale(&mut self, out: &mut Vec<u8>, variables: &StatementVariables<'_>) {
        let zone = variables.time_zone;
        if !zone.is_empty() && self.time_zone != zone {
            out.extend_from_slice(b"SET @@session.time_zone='");
            out.extend_from_slice(zone);
            out.push(b'\'');
            end_statement(out);
            self.time_zone = zone.to_vec();
        }
        if self.lc_time_names != Some(variables.lc_time_names) {
            put_number(out, b"SET @@session.lc_time_names=", variables.lc_time_names.into(), b"");
            self.lc_time_names = Some(variables.lc_time_names);
        }
        if self.database_collation != Some(variables.database_collation) {
            match variables.database_collation {
                0 => {
                    out.extend_from_slice(b"SET @@session.collation_database=DEFAULT");
                    end_statement(out);
                }
                number => put_number(out, b"SET @@session.collation_database=", number.into(), b""),
            }
            self.database_collation = Some(variables.database_collation);
        }
    }

    fn put_always(&mut self, out: &mut Vec<u8>, variables: &StatementVariables<'_>) {
        if let Some(value) = variables.explicit_timestamp {
            let on = i64::from(value != 0);
            put_number(out, b"SET @@session.explicit_defaults_for_timestamp=", on, b"");
        }
        let collation = variables.utf8mb4_collation;
        if self.utf8mb4_collation != Some(collation) {
            if collation != 0 {
                let start = b"/*!80011 SET @@session.default_collation_for_utf8mb4=";
                put_number(out, start, collation.into(), b"*/");
            }
            self.utf8mb4_collation = Some(collation);
        }
        let often: [(&[u8], Option<u8>); 2] = [
            (b"/*!80013 SET @@session.sql_require_primary_key=", variables.require_primary_key),
            (b"/*!80016 SET @@session.default_table_encryption=", variables.table_encryption),
        ];
        for (start, value) in often {
            if let Some(value) = value.filter(|value| *value != u8::MAX) {
                put_number(out, start, value.into(), b"*/");
            }
        }
        if self.cascade_triggers != variables.cascade_triggers {
            let start = b"/*!90700 SET @@session.enable_cascade_triggers=";
            put_number(out, start, variables.cascade_triggers.into(), b"*/");
            self.cascade_triggers = variables.cascade_triggers;
        }
    }
}

fn put_number(out: &mut Vec<u8>, start: &[u8], value: i64, end: &[u8]) {
    out.extend_from_slice(start);
    put_i64(out, value);
    out.extend_from_slice(end);
    end_statement(out);
}
