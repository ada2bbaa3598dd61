//! Prints events that passed the filters.

use std::env;
use std::io;
use std::mem::take;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use binlog::events::{
    DeleteFile, ExecuteLoadQuery, FormatDescription, Incident, LoadBlock, PreviousGtids, Query, Rows,
    RowsFlags, TableMap,
};
use binlog::gtid::GtidSet;
use binlog::{Event, EventType, Flags};

use super::statement::{Pile, Statement};
use super::words::TransactionWord;
use super::{Dump, Halt, Item};
use crate::base64::put_lines;
use crate::delimiter::end_statement;
use crate::errno::os_error;
use crate::event_text::{self, VERSION_UNKNOWN, put};
use crate::frame::{OpenEnds, put_log_end};
use crate::head_text::{GeneratedKeys, Head};
use crate::hexdump::Hexdump;
use crate::load_files::LoadError;
use crate::numbers::put_u32;
use crate::rows_text::Types;
use crate::session::{SessionStyle, Variables};
use crate::settings::Base64;

impl Dump<'_, '_> {
    pub(super) fn print(&mut self, item: Item<'_>, event: &Event<'_>, name: &[u8]) -> Result<(), Halt> {
        match event {
            Event::FormatDescription(description) => self.format_description(item, description, name)?,
            Event::Query(query) => return self.query(item, query),
            Event::Intvar(_) | Event::Rand(_) | Event::UserVar(_) => self.variables.push(item.keep()),
            Event::Gtid(_) | Event::AnonymousGtid(_) | Event::GtidTagged(_) => self.gtid(item, event),
            Event::Xid(_) => self.xid(item),
            Event::TableMap(map) => return self.table_map(item, map),
            Event::WriteRows(rows)
            | Event::UpdateRows(rows)
            | Event::DeleteRows(rows)
            | Event::PartialUpdateRows(rows)
            | Event::WriteRowsV1(rows)
            | Event::UpdateRowsV1(rows)
            | Event::DeleteRowsV1(rows) => return self.rows(item, rows),
            Event::TransactionPayload(payload) => self.payload(item, payload, name)?,
            Event::BeginLoadQuery(block) => self.begin_load(item, block)?,
            Event::AppendBlock(block) => self.append_load(item, block)?,
            Event::ExecuteLoadQuery(load) => self.execute_load(item, load),
            Event::RowsQuery(query) => {
                if self.settings.verbose > 1 {
                    self.put_header(item);
                    event_text::rows_query(self.batch.text(), query);
                    self.put_body(item);
                }
                self.statement.is_open = true;
            }
            other => self.simple(item, other),
        }
        self.batch.settle();
        Ok(())
    }

    /// Prints an event whose text depends on no other event.
    fn simple(&mut self, item: Item<'_>, event: &Event<'_>) {
        match event {
            Event::XaPrepare(prepare) => {
                self.put_header_line(item);
                return event_text::xa_prepare(self.batch.text(), prepare);
            }
            Event::PreviousGtids(previous) => return self.previous_gtids(item, previous),
            _ => {}
        }
        if !self.put_header(item) {
            return;
        }
        match event {
            Event::Rotate(rotate) => event_text::rotate(self.batch.text(), rotate),
            Event::Stop(_) => self.batch.text().extend_from_slice(b"\tStop\n"),
            Event::Incident(incident) => self.incident(incident),
            Event::DeleteFile(delete) => self.delete_file(delete),
            Event::TransactionContext(context) => {
                event_text::transaction_context(self.batch.text(), context);
            }
            Event::ViewChange(change) => event_text::view_change(self.batch.text(), change),
            _ => self.batch.text().extend_from_slice(b"\tIgnorable\n# Unrecognized ignorable event\n"),
        }
    }

    fn incident(&mut self, incident: &Incident<'_>) {
        put(self.batch.text(), &[b"\n# Incident: ", incident.name().as_bytes()]);
        self.batch.text().extend_from_slice(b"\nRELOAD DATABASE; # Shall generate syntax error\n");
    }

    fn delete_file(&mut self, delete: &DeleteFile) {
        self.batch.text().extend_from_slice(b"\n#Delete_file: file_id=");
        put_u32(self.batch.text(), delete.file_id);
        self.batch.text().push(b'\n');
    }

    fn previous_gtids(&mut self, item: Item<'_>, previous: &PreviousGtids<'_>) {
        if self.settings.database.is_some() && !self.settings.skip_gtids {
            self.talk.warning(&[
                b"The option --database has been used. It may filter parts of transactions, but will include the \
                GTIDs in any case. If you want to exclude or include transactions, you should use the options \
                --exclude-gtids or --include-gtids, respectively, instead.",
            ]);
        }
        let mut bytes = previous.set.to_vec();
        // The format's number stands before and after the count, but mysqlbinlog looks only after it.
        bytes[0] = if bytes[7] == 1 { 1 } else { bytes[0] };
        let Ok(set) = GtidSet::decode(&bytes) else {
            self.talk.error(&[b"Malformed GTID_set encoding."]);
            return;
        };
        if self.put_header(item) {
            self.batch.text().extend_from_slice(b"\tPrevious-GTIDs\n");
        }
        put(self.batch.text(), &[set.commented().to_string().as_bytes(), b"\n"]);
    }

    /// Prints an event's header line, unless in short form. Returns whether it was printed.
    pub(super) fn put_header(&mut self, item: Item<'_>) -> bool {
        if !self.settings.short_form {
            self.put_header_line(item);
        }
        !self.settings.short_form
    }

    fn put_header_line(&mut self, item: Item<'_>) {
        let hexdump = match item.header.event_type {
            // A Rotate event made up by the server comes before the first format description.
            EventType::Rotate if !self.has_format => Hexdump::Plain,
            _ => Hexdump::Columns,
        };
        self.heads.put_header(self.batch.text(), Head { hexdump, ..item.as_head() });
    }

    /// Defers an event's header line and text to the thread that writes the batch.
    fn put_later(&mut self, item: Item<'_>) {
        let keys = GeneratedKeys::of_version(self.server_version);
        self.batch.head(&item.as_source(), item.at, item.header.next_position, keys);
    }

    fn format_description(
        &mut self,
        item: Item<'_>,
        description: &FormatDescription<'_>,
        name: &[u8],
    ) -> Result<(), Halt> {
        self.has_format = true;
        let flags = item.header.flags;
        let is_relay = flags.contains(Flags::RELAY_LOG);
        if !is_relay {
            self.format = Arc::clone(item.format);
            if item.header.next_position > 0 && !self.is_first_format {
                let mut text = Vec::new();
                put_log_end(&mut text, self.ends, self.settings.skip_gtids);
                self.batch.put_settled(&text);
                self.ends = OpenEnds::default();
            }
            self.is_first_format = false;
        }
        if self.put_header(item) {
            let out = self.batch.text();
            out.extend_from_slice(b"\tStart: binlog v ");
            put_u32(out, description.binlog_version.into());
            put(out, &[b", server v ", description.version(), b" created "]);
            self.heads.time.put_short(out, item.header.timestamp);
            let at_startup: &[u8] = if description.created != 0 { b" at startup" } else { b"" };
            put(out, &[at_startup, b"\n"]);
            if flags.contains(Flags::IN_USE) {
                out.extend_from_slice(
                    b"# Warning: this binlog is either in use or was not closed properly.\n",
                );
            }
        }
        match is_relay {
            true => self.batch.text().extend_from_slice(
                b"# This Format_description_event appears in a relay log and was generated by the replica thread.\n",
            ),
            false => self.replay_format(item, description),
        }
        if !self.settings.force_if_open && flags.contains(Flags::IN_USE) {
            let start = b"Attempting to dump binlog '";
            let end = b"', which was not closed properly. Most probably, mysqld is still writing it, or it crashed. \
                Rerun with --force-if-open to ignore this problem.";
            self.talk.error(&[start, name, end]);
            return Err(Halt::Failed);
        }
        Ok(())
    }

    fn replay_format(&mut self, item: Item<'_>, description: &FormatDescription<'_>) {
        let out = self.batch.text();
        if description.created != 0 && !item.header.flags.contains(Flags::ARTIFICIAL) {
            out.extend_from_slice(b"ROLLBACK");
            end_statement(out);
        }
        if self.settings.base64 == Base64::Never || self.settings.short_form {
            return;
        }
        if self.settings.base64 == Base64::Auto {
            out.extend_from_slice(b"BINLOG '\n");
            put_lines(out, item.bytes());
            out.push(b'\'');
            end_statement(out);
            self.format_printed = true;
        }
        if self.settings.skip_gtids {
            out.extend_from_slice(b"/*!50616 SET @@SESSION.GTID_NEXT='AUTOMATIC'*/");
            end_statement(out);
        }
    }

    fn query(&mut self, item: Item<'_>, query: &Query<'_>) -> Result<(), Halt> {
        let word = TransactionWord::of(query.sql);
        let is_skipped = !word.is_word() && self.settings.skips_statement(query.database);
        for variable in take(&mut self.variables) {
            if !is_skipped && let Ok(variable) = variable.item() {
                self.variable(variable);
            }
        }
        if is_skipped {
            if self.ends.seen_gtid && !self.ends.in_transaction {
                // A statement without BEGIN commits by itself.
                self.put_commit();
                self.skipped_in_transaction = false;
                self.ends = OpenEnds::default();
            } else {
                self.skipped_in_transaction = true;
            }
            return Ok(());
        }
        match word {
            TransactionWord::Ends => {
                self.ends = OpenEnds::default();
                self.skipped_in_transaction = false;
            }
            TransactionWord::Starts => self.ends.in_transaction = true,
            TransactionWord::Stays | TransactionWord::Not => self.ends.seen_gtid &= self.ends.in_transaction,
        }
        self.put_query_header(item, query, word);
        put(self.batch.text(), &[query.sql, b"\n"]);
        end_statement(self.batch.text());
        self.batch.settle();
        Ok(())
    }

    fn put_query_header(&mut self, item: Item<'_>, query: &Query<'_>, word: TransactionWord) {
        let variables = Variables::of(query);
        if !self.settings.short_form {
            self.put_later(item);
        }
        let style = SessionStyle {
            short_form: self.settings.short_form,
            require_row_format: self.settings.require_row_format,
        };
        let out = self.batch.text();
        let is_word = word.is_word();
        let unknown = self.session.put_changes(out, &item.header, query, &variables, is_word, style);
        self.complain_of_charset(unknown);
    }

    fn complain_of_charset(&mut self, unknown: Option<u16>) {
        let Some(number) = unknown else { return };
        let end = b"' is not a compiled character set and is not specified in the \
            '/usr/share/mysql/charsets/Index.xml' file";
        self.talk.file(&[b"Character set '#", number.to_string().as_bytes(), end]);
    }

    /// Prints an integer, a seed or a user variable for the next statement.
    fn variable(&mut self, item: Item<'_>) {
        let Some(event) = self.decode(&item) else { return };
        if self.put_header(item) {
            self.batch.text().extend_from_slice(match &event {
                Event::Intvar(_) => b"\tIntvar\n".as_slice(),
                Event::Rand(_) => b"\tRand\n",
                _ => b"\tUser_var\n",
            });
        }
        match &event {
            Event::Intvar(intvar) => event_text::intvar(self.batch.text(), intvar),
            Event::Rand(rand) => event_text::rand(self.batch.text(), rand),
            Event::UserVar(variable) => {
                let unknown = event_text::user_var(self.batch.text(), variable, &self.session);
                self.complain_of_charset(unknown);
            }
            _ => {}
        }
    }

    fn gtid(&mut self, item: Item<'_>, event: &Event<'_>) {
        self.ends.seen_gtid = true;
        if take(&mut self.skipped_in_transaction) {
            self.put_commit();
        }
        let stamps = match event {
            Event::Gtid(event) | Event::AnonymousGtid(event) => event.stamps.unwrap_or_default(),
            Event::GtidTagged(event) => event.stamps,
            _ => return,
        };
        self.server_version = stamps.immediate_server_version.unwrap_or(VERSION_UNKNOWN);
        self.put_later(item);
    }

    fn xid(&mut self, item: Item<'_>) {
        self.ends = OpenEnds::default();
        self.skipped_in_transaction = false;
        self.put_later(item);
    }

    fn begin_load(&mut self, item: Item<'_>, block: &LoadBlock<'_>) -> Result<(), Halt> {
        self.put_load_block(item, block);
        let begun = self.load_files.begin(block.file_id, block.block);
        begun.map_err(|error| self.complain_of_load(&error))
    }

    fn append_load(&mut self, item: Item<'_>, block: &LoadBlock<'_>) -> Result<(), Halt> {
        self.put_load_block(item, block);
        match self.load_files.append(block.file_id, block.block) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let id = block.file_id.to_string();
                let start = b"Ignoring Append_block as there is no Begin_load_query_log_event for file_id: ";
                self.talk.warning(&[start, id.as_bytes()]);
                Ok(())
            }
            Err(error) => Err(self.complain_of_load(&error)),
        }
    }

    fn put_load_block(&mut self, item: Item<'_>, block: &LoadBlock<'_>) {
        if self.put_header(item) {
            event_text::load_block(self.batch.text(), item.header.event_type, block);
        }
    }

    fn execute_load(&mut self, item: Item<'_>, load: &ExecuteLoadQuery<'_>) {
        let file = self.load_files.take(load.file_id);
        if self.settings.skips_statement(load.query.database) {
            self.skipped_in_transaction = true;
            return;
        }
        match file {
            Some(mut file) => {
                file.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
                self.put_query_header(item, &load.query, TransactionWord::of(load.query.sql));
                event_text::load_statement(self.batch.text(), load, &file);
                if !self.settings.short_form {
                    event_text::load_file_id(self.batch.text(), load);
                }
            }
            None => {
                let id = load.file_id.to_string();
                let start =
                    b"Ignoring Execute_load_query since there is no Begin_load_query event for file_id: ";
                self.talk.warning(&[start, id.as_bytes()]);
            }
        }
    }

    fn complain_of_load(&mut self, error: &LoadError) -> Halt {
        match error {
            LoadError::NoName => {
                let prefix = self.load_files.prefix();
                self.talk.error(&[b"Could not construct local filename ", &prefix, b"."]);
            }
            LoadError::Open(name, cause) => {
                self.talk.file(&[b"File '", name, b"' not found (", &os_error(cause), b")"]);
                self.talk.error(&[b"Failed opening file ", name]);
            }
            LoadError::Write(name, cause) => {
                self.talk.file(&[b"Error writing file '", name, b"' (", &os_error(cause), b")"]);
                self.talk.error(&[b"Failed writing to file."]);
            }
        }
        Halt::Failed
    }

    fn table_map(&mut self, item: Item<'_>, map: &TableMap<'_>) -> Result<(), Halt> {
        if self.settings.skips_table(map.database, map.table) {
            self.skipped_in_transaction = true;
            self.tables.ignored.insert(map.table_id);
            return Ok(());
        }
        if !self.settings.short_form {
            self.put_later(item);
            self.put_body(item);
            match self.settings.verbose {
                0 => {}
                1 => self.tables.learn(map, item.body(), Types::Hidden),
                _ => self.tables.learn(map, item.body(), Types::Shown),
            }
        }
        self.statement.is_open = true;
        self.batch.settle();
        Ok(())
    }

    fn rows(&mut self, item: Item<'_>, rows: &Rows<'_>) -> Result<(), Halt> {
        let is_end = rows.flags.contains(RowsFlags::STATEMENT_END);
        let is_skipped = self.tables.ignored.contains(&rows.table_id);
        if is_end {
            self.tables.ignored.clear();
        }
        if is_skipped {
            self.skipped_in_transaction = true;
            if is_end {
                self.batch.settle();
                self.end_statement()?;
            }
            return Ok(());
        }
        let needs_format = !self.settings.short_form && self.settings.base64 != Base64::DecodeRows;
        if needs_format && !self.format_printed {
            return Err(self.complain_of_format(item.header.event_type));
        }
        if !self.settings.short_form {
            self.put_later(item);
            self.put_body(item);
            if self.settings.verbose > 0 {
                let table = self.tables.find(rows.table_id);
                self.statement.rows.batch().rows(&item.as_source(), table);
            }
        }
        self.statement.is_open = true;
        self.batch.settle();
        if is_end {
            return self.end_statement();
        }
        self.statement.bound().map_err(|cause| self.complain_of_temporary_file(&cause))
    }

    /// Prints the error of writing a temporary file.
    fn complain_of_temporary_file(&mut self, cause: &io::Error) -> Halt {
        let folder = env::temp_dir().into_os_string().into_vec();
        let start = b"Error writing event to a temporary file in '";
        self.talk.error(&[start, &folder, b"'. (", &os_error(cause), b")"]);
        Halt::TemporaryFile
    }

    fn complain_of_format(&mut self, event_type: EventType) -> Halt {
        let name = event_type.name().as_bytes();
        match self.settings.base64 {
            Base64::Never => {
                let start = b"--base64-output=never specified, but binlog contains a ";
                self.talk.error(&[start, name, b" event which must be printed in base64."]);
            }
            Base64::Auto | Base64::DecodeRows => {
                let start =
                    b"malformed binlog: it does not contain any Format_description_log_event. I now found a ";
                let end = b" event, which is not safe to process without a Format_description_log_event.";
                self.talk.error(&[start, name, end]);
            }
        }
        Halt::Failed
    }

    fn put_body(&mut self, item: Item<'_>) {
        if self.settings.base64 != Base64::DecodeRows {
            self.statement.body.batch().base64(&item.as_source());
        }
    }

    /// Prints the BINLOG statement and the pseudo-SQL that were collected for the end of a statement.
    fn end_statement(&mut self) -> Result<(), Halt> {
        if !self.statement.body.is_empty() {
            self.batch.text().extend_from_slice(b"\nBINLOG '\n");
            self.put_pile(|statement| &mut statement.body)?;
            self.batch.text().push(b'\'');
            end_statement(self.batch.text());
        }
        self.put_pile(|statement| &mut statement.rows)?;
        self.batch.settle();
        self.statement.end();
        self.tables.bound();
        Ok(())
    }

    fn put_pile(&mut self, pile: fn(&mut Statement) -> &mut Pile) -> Result<(), Halt> {
        for batch in pile(&mut self.statement).take_full() {
            self.batch.settle();
            self.hand_on()?;
            (self.hand_on)(batch)?;
        }
        self.batch.append(pile(&mut self.statement).last());
        self.batch.settle();
        self.hand_on_if_full()
    }
}
