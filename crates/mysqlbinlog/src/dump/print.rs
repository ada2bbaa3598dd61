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
use binlog::{Event, EventFlags, EventType};
use sql::numbers::put_u32;

use super::pending_statement::{BatchQueue, PendingStatement};
use super::transaction_word::TransactionWord;
use super::{BlockEvent, HaltReason, LogDumper};
use crate::decode::VERSION_UNKNOWN;
use crate::delimiter::end_statement;
use crate::errno::os_error;
use crate::event_text::{self, put};
use crate::frame::{LogEndState, put_log_end};
use crate::head_text::{EventHead, GeneratedKeys};
use crate::hexdump::HexdumpForm;
use crate::load_files::LoadError;
use crate::parsed_options::Base64Output;
use crate::printed_session::{PrintedStatement, SessionStyle, StatementVariables};
use crate::rows_text::TypeComments;
use crate::text_batch::put_event_base64;

impl LogDumper<'_, '_> {
    pub(super) fn print(
        &mut self,
        item: BlockEvent<'_>,
        event: &Event<'_>,
        name: &[u8],
    ) -> Result<(), HaltReason> {
        match event {
            Event::FormatDescription(description) => {
                self.print_format_description(item, description, name)?
            }
            Event::Query(query) => return self.print_query(item, query),
            Event::Intvar(_) | Event::Rand(_) | Event::UserVar(_) => self.variables.push(item.retain()),
            Event::Gtid(_) | Event::AnonymousGtid(_) | Event::GtidTagged(_) => self.print_gtid(item, event),
            Event::Xid(_) => self.print_xid(item),
            Event::TableMap(map) => return self.print_table_map(item, map),
            Event::WriteRows(rows)
            | Event::UpdateRows(rows)
            | Event::DeleteRows(rows)
            | Event::PartialUpdateRows(rows)
            | Event::WriteRowsV1(rows)
            | Event::UpdateRowsV1(rows)
            | Event::DeleteRowsV1(rows) => return self.print_rows(item, rows),
            Event::TransactionPayload(payload) => self.dump_payload(item, payload, name)?,
            Event::BeginLoadQuery(block) => self.begin_load(item, block)?,
            Event::AppendBlock(block) => self.append_load(item, block)?,
            Event::ExecuteLoadQuery(load) => self.execute_load(item, load),
            Event::RowsQuery(query) => {
                if self.settings.verbose > 1 {
                    self.put_header(item);
                    event_text::put_rows_query(self.batch.text_mut(), query);
                    self.defer_base64(item);
                }
                self.statement.is_open = true;
            }
            other => self.print_simple(item, other),
        }
        self.batch.mark_final();
        Ok(())
    }

    /// Prints an event whose text depends on no other event.
    fn print_simple(&mut self, item: BlockEvent<'_>, event: &Event<'_>) {
        match event {
            Event::XaPrepare(prepare) => {
                self.put_header_line(item);
                return event_text::put_xa_prepare(self.batch.text_mut(), prepare);
            }
            Event::PreviousGtids(previous) => return self.print_previous_gtids(item, previous),
            _ => {}
        }
        if !self.put_header(item) {
            return;
        }
        match event {
            Event::Rotate(rotate) => event_text::put_rotate(self.batch.text_mut(), rotate),
            Event::Stop(_) => self.batch.text_mut().extend_from_slice(b"\tStop\n"),
            Event::Incident(incident) => self.put_incident(incident),
            Event::DeleteFile(delete) => self.put_delete_file(delete),
            Event::TransactionContext(context) => {
                event_text::put_transaction_context(self.batch.text_mut(), context);
            }
            Event::ViewChange(change) => event_text::put_view_change(self.batch.text_mut(), change),
            _ => self.batch.text_mut().extend_from_slice(b"\tIgnorable\n# Unrecognized ignorable event\n"),
        }
    }

    fn put_incident(&mut self, incident: &Incident<'_>) {
        put(self.batch.text_mut(), &[b"\n# Incident: ", incident.name().as_bytes()]);
        self.batch.text_mut().extend_from_slice(b"\nRELOAD DATABASE; # Shall generate syntax error\n");
    }

    fn put_delete_file(&mut self, delete: &DeleteFile) {
        self.batch.text_mut().extend_from_slice(b"\n#Delete_file: file_id=");
        put_u32(self.batch.text_mut(), delete.file_id);
        self.batch.text_mut().push(b'\n');
    }

    fn print_previous_gtids(&mut self, item: BlockEvent<'_>, previous: &PreviousGtids<'_>) {
        if self.settings.common.database.is_some() && !self.settings.skip_gtids {
            self.diagnostics.warning(&[
                b"The option --database has been used. It may filter parts of transactions, but will include the \
                GTIDs in any case. If you want to exclude or include transactions, you should use the options \
                --exclude-gtids or --include-gtids, respectively, instead.",
            ]);
        }
        let mut bytes = previous.set.to_vec();
        // The format's number stands before and after the count, but mysqlbinlog looks only after it.
        bytes[0] = if bytes[7] == 1 { 1 } else { bytes[0] };
        let Ok(set) = GtidSet::decode(&bytes) else {
            self.diagnostics.error(&[b"Malformed GTID_set encoding."]);
            return;
        };
        if self.put_header(item) {
            self.batch.text_mut().extend_from_slice(b"\tPrevious-GTIDs\n");
        }
        put(self.batch.text_mut(), &[set.to_comment().to_string().as_bytes(), b"\n"]);
    }

    /// Prints an event's header line, unless in short form. Returns whether it was printed.
    pub(super) fn put_header(&mut self, item: BlockEvent<'_>) -> bool {
        if !self.settings.short_form {
            self.put_header_line(item);
        }
        !self.settings.short_form
    }

    fn put_header_line(&mut self, item: BlockEvent<'_>) {
        let hexdump = match item.header.event_type {
            // A Rotate event made up by the server comes before the first format description.
            EventType::Rotate if !self.has_format => HexdumpForm::Plain,
            _ => HexdumpForm::Columns,
        };
        self.heads.put_header(self.batch.text_mut(), EventHead { hexdump, ..item.head() });
    }

    /// Defers an event's header line and text to the thread that writes the batch.
    fn defer_head(&mut self, item: BlockEvent<'_>) {
        let keys = GeneratedKeys::of_version(self.server_version);
        self.batch.push_head(&item.encoded(), item.at, item.header.next_position, keys);
    }

    fn print_format_description(
        &mut self,
        item: BlockEvent<'_>,
        description: &FormatDescription<'_>,
        name: &[u8],
    ) -> Result<(), HaltReason> {
        self.has_format = true;
        let flags = item.header.flags;
        let is_relay = flags.contains(EventFlags::RELAY_LOG);
        if !is_relay {
            self.format = Arc::clone(item.format);
            if item.header.next_position > 0 && !self.is_first_format {
                let mut text = Vec::new();
                put_log_end(&mut text, self.log_end, self.settings.skip_gtids);
                self.batch.insert_final(&text);
                self.log_end = LogEndState::default();
            }
            self.is_first_format = false;
        }
        if self.put_header(item) {
            let out = self.batch.text_mut();
            out.extend_from_slice(b"\tStart: binlog v ");
            put_u32(out, description.binlog_version.into());
            put(out, &[b", server v ", description.version(), b" created "]);
            self.heads.time.put_short(out, item.header.timestamp);
            let at_startup: &[u8] = if description.created != 0 { b" at startup" } else { b"" };
            put(out, &[at_startup, b"\n"]);
            if flags.contains(EventFlags::IN_USE) {
                out.extend_from_slice(
                    b"# Warning: this binlog is either in use or was not closed properly.\n",
                );
            }
        }
        match is_relay {
            true => self.batch.text_mut().extend_from_slice(
                b"# This Format_description_event appears in a relay log and was generated by the replica thread.\n",
            ),
            false => self.put_format_statements(item, description),
        }
        if !self.settings.force_if_open && flags.contains(EventFlags::IN_USE) {
            let start = b"Attempting to dump binlog '";
            let end = b"', which was not closed properly. Most probably, mysqld is still writing it, or it crashed. \
                Rerun with --force-if-open to ignore this problem.";
            self.diagnostics.error(&[start, name, end]);
            return Err(HaltReason::Failed);
        }
        Ok(())
    }

    fn put_format_statements(&mut self, item: BlockEvent<'_>, description: &FormatDescription<'_>) {
        let out = self.batch.text_mut();
        if description.created != 0 && !item.header.flags.contains(EventFlags::ARTIFICIAL) {
            out.extend_from_slice(b"ROLLBACK");
            end_statement(out);
        }
        if self.settings.base64 == Base64Output::Never || self.settings.short_form {
            return;
        }
        if self.settings.base64 == Base64Output::Auto {
            out.extend_from_slice(b"BINLOG '\n");
            put_event_base64(out, item.bytes());
            out.push(b'\'');
            end_statement(out);
            self.format_printed = true;
        }
        if self.settings.skip_gtids {
            out.extend_from_slice(b"/*!50616 SET @@SESSION.GTID_NEXT='AUTOMATIC'*/");
            end_statement(out);
        }
    }

    fn print_query(&mut self, item: BlockEvent<'_>, query: &Query<'_>) -> Result<(), HaltReason> {
        let word = TransactionWord::of(query.sql);
        let is_skipped = !word.is_transaction_word() && self.settings.skips_statement(query.database);
        for variable in take(&mut self.variables) {
            if !is_skipped && let Ok(variable) = variable.item() {
                self.print_variable(variable);
            }
        }
        if is_skipped {
            if self.log_end.seen_gtid && !self.log_end.in_transaction {
                // A statement without BEGIN commits by itself.
                self.put_commit();
                self.skipped_in_transaction = false;
                self.log_end = LogEndState::default();
            } else {
                self.skipped_in_transaction = true;
            }
            return Ok(());
        }
        match word {
            TransactionWord::Ends => {
                self.log_end = LogEndState::default();
                self.skipped_in_transaction = false;
            }
            TransactionWord::Starts => self.log_end.in_transaction = true,
            TransactionWord::Stays | TransactionWord::Other => {
                self.log_end.seen_gtid &= self.log_end.in_transaction
            }
        }
        self.put_query_header(item, query, word);
        put(self.batch.text_mut(), &[query.sql, b"\n"]);
        end_statement(self.batch.text_mut());
        self.batch.mark_final();
        Ok(())
    }

    fn put_query_header(&mut self, item: BlockEvent<'_>, query: &Query<'_>, word: TransactionWord) {
        let variables = StatementVariables::from_query(query);
        if !self.settings.short_form {
            self.defer_head(item);
        }
        let style = SessionStyle {
            short_form: self.settings.short_form,
            require_row_format: self.settings.require_row_format,
        };
        let out = self.batch.text_mut();
        let is_transaction_word = word.is_transaction_word();
        let (header, variables) = (&item.header, &variables);
        let statement = PrintedStatement { header, query, variables, is_transaction_word };
        let unknown = self.session.put_changes(out, &statement, style);
        self.report_unknown_charset(unknown);
    }

    fn report_unknown_charset(&mut self, unknown: Option<u16>) {
        let Some(number) = unknown else { return };
        let end = b"' is not a compiled character set and is not specified in the \
            '/usr/share/mysql/charsets/Index.xml' file";
        self.diagnostics.file_message(&[b"Character set '#", number.to_string().as_bytes(), end]);
    }

    /// Prints an integer, a seed or a user variable for the next statement.
    fn print_variable(&mut self, item: BlockEvent<'_>) {
        let Some(event) = self.decode(&item) else { return };
        if self.put_header(item) {
            self.batch.text_mut().extend_from_slice(match &event {
                Event::Intvar(_) => b"\tIntvar\n".as_slice(),
                Event::Rand(_) => b"\tRand\n",
                _ => b"\tUser_var\n",
            });
        }
        match &event {
            Event::Intvar(intvar) => event_text::put_intvar(self.batch.text_mut(), intvar),
            Event::Rand(rand) => event_text::put_rand(self.batch.text_mut(), rand),
            Event::UserVar(variable) => {
                let unknown = event_text::put_user_var(self.batch.text_mut(), variable, &self.session);
                self.report_unknown_charset(unknown);
            }
            _ => {}
        }
    }

    fn print_gtid(&mut self, item: BlockEvent<'_>, event: &Event<'_>) {
        self.log_end.seen_gtid = true;
        if take(&mut self.skipped_in_transaction) {
            self.put_commit();
        }
        let stamps = match event {
            Event::Gtid(event) | Event::AnonymousGtid(event) => event.stamps.unwrap_or_default(),
            Event::GtidTagged(event) => event.stamps,
            _ => return,
        };
        self.server_version = stamps.immediate_server_version.unwrap_or(VERSION_UNKNOWN);
        self.defer_head(item);
    }

    fn print_xid(&mut self, item: BlockEvent<'_>) {
        self.log_end = LogEndState::default();
        self.skipped_in_transaction = false;
        self.defer_head(item);
    }

    fn begin_load(&mut self, item: BlockEvent<'_>, block: &LoadBlock<'_>) -> Result<(), HaltReason> {
        self.put_load_block(item, block);
        let begun = self.load_files.begin(block.file_id, block.block);
        begun.map_err(|error| self.report_load_error(&error))
    }

    fn append_load(&mut self, item: BlockEvent<'_>, block: &LoadBlock<'_>) -> Result<(), HaltReason> {
        self.put_load_block(item, block);
        match self.load_files.append(block.file_id, block.block) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let id = block.file_id.to_string();
                let start = b"Ignoring Append_block as there is no Begin_load_query_log_event for file_id: ";
                self.diagnostics.warning(&[start, id.as_bytes()]);
                Ok(())
            }
            Err(error) => Err(self.report_load_error(&error)),
        }
    }

    fn put_load_block(&mut self, item: BlockEvent<'_>, block: &LoadBlock<'_>) {
        if self.put_header(item) {
            event_text::put_load_block(self.batch.text_mut(), item.header.event_type, block);
        }
    }

    fn execute_load(&mut self, item: BlockEvent<'_>, load: &ExecuteLoadQuery<'_>) {
        let file = self.load_files.take(load.file_id);
        if self.settings.skips_statement(load.query.database) {
            self.skipped_in_transaction = true;
            return;
        }
        match file {
            Some(mut file) => {
                file.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
                self.put_query_header(item, &load.query, TransactionWord::of(load.query.sql));
                event_text::put_load_statement(self.batch.text_mut(), load, &file);
                if !self.settings.short_form {
                    event_text::put_load_file_id(self.batch.text_mut(), load);
                }
            }
            None => {
                let id = load.file_id.to_string();
                let start =
                    b"Ignoring Execute_load_query since there is no Begin_load_query event for file_id: ";
                self.diagnostics.warning(&[start, id.as_bytes()]);
            }
        }
    }

    fn report_load_error(&mut self, error: &LoadError) -> HaltReason {
        match error {
            LoadError::NoName => {
                let prefix = self.load_files.prefix();
                self.diagnostics.error(&[b"Could not construct local filename ", &prefix, b"."]);
            }
            LoadError::Open(name, cause) => {
                self.diagnostics.file_message(&[b"File '", name, b"' not found (", &os_error(cause), b")"]);
                self.diagnostics.error(&[b"Failed opening file ", name]);
            }
            LoadError::Write(name, cause) => {
                self.diagnostics.file_message(&[
                    b"Error writing file '",
                    name,
                    b"' (",
                    &os_error(cause),
                    b")",
                ]);
                self.diagnostics.error(&[b"Failed writing to file."]);
            }
        }
        HaltReason::Failed
    }

    fn print_table_map(&mut self, item: BlockEvent<'_>, map: &TableMap<'_>) -> Result<(), HaltReason> {
        if self.settings.skips_table(map.database, map.table) {
            self.skipped_in_transaction = true;
            self.tables.skipped.insert(map.table_id);
            return Ok(());
        }
        if !self.settings.short_form {
            self.defer_head(item);
            self.defer_base64(item);
            match self.settings.verbose {
                0 => {}
                1 => self.tables.insert(map, item.body(), TypeComments::Hidden),
                _ => self.tables.insert(map, item.body(), TypeComments::Shown),
            }
        }
        self.statement.is_open = true;
        self.batch.mark_final();
        Ok(())
    }

    fn print_rows(&mut self, item: BlockEvent<'_>, rows: &Rows<'_>) -> Result<(), HaltReason> {
        let is_end = rows.flags.contains(RowsFlags::STATEMENT_END);
        let is_skipped = self.tables.skipped.contains(&rows.table_id);
        if is_end {
            self.tables.skipped.clear();
        }
        if is_skipped {
            self.skipped_in_transaction = true;
            if is_end {
                self.batch.mark_final();
                self.end_statement()?;
            }
            return Ok(());
        }
        let needs_format = !self.settings.short_form && self.settings.base64 != Base64Output::DecodeRows;
        if needs_format && !self.format_printed {
            return Err(self.report_missing_format(item.header.event_type));
        }
        if !self.settings.short_form {
            self.defer_head(item);
            self.defer_base64(item);
            if self.settings.verbose > 0 {
                let table = self.tables.text_of(rows.table_id);
                self.statement.rows.batch_mut().push_rows(&item.encoded(), table);
            }
        }
        self.statement.is_open = true;
        self.batch.mark_final();
        if is_end {
            return self.end_statement();
        }
        self.statement.bound().map_err(|cause| self.report_temporary_file_error(&cause))
    }

    /// Prints the error of writing a temporary file.
    fn report_temporary_file_error(&mut self, cause: &io::Error) -> HaltReason {
        let directory = env::temp_dir().into_os_string().into_vec();
        let start = b"Error writing event to a temporary file in '";
        self.diagnostics.error(&[start, &directory, b"'. (", &os_error(cause), b")"]);
        HaltReason::TemporaryFile
    }

    fn report_missing_format(&mut self, event_type: EventType) -> HaltReason {
        let name = event_type.name().as_bytes();
        match self.settings.base64 {
            Base64Output::Never => {
                let start = b"--base64-output=never specified, but binlog contains a ";
                self.diagnostics.error(&[start, name, b" event which must be printed in base64."]);
            }
            Base64Output::Auto | Base64Output::DecodeRows => {
                let start =
                    b"malformed binlog: it does not contain any Format_description_log_event. I now found a ";
                let end = b" event, which is not safe to process without a Format_description_log_event.";
                self.diagnostics.error(&[start, name, end]);
            }
        }
        HaltReason::Failed
    }

    fn defer_base64(&mut self, item: BlockEvent<'_>) {
        if self.settings.base64 != Base64Output::DecodeRows {
            self.statement.body.batch_mut().push_base64(&item.encoded());
        }
    }

    /// Prints the BINLOG statement and the pseudo-SQL that were collected for the end of a statement.
    fn end_statement(&mut self) -> Result<(), HaltReason> {
        if !self.statement.body.is_empty() {
            self.batch.text_mut().extend_from_slice(b"\nBINLOG '\n");
            self.put_queue(|statement| &mut statement.body)?;
            self.batch.text_mut().push(b'\'');
            end_statement(self.batch.text_mut());
        }
        self.put_queue(|statement| &mut statement.rows)?;
        self.batch.mark_final();
        self.statement.reset();
        self.tables.bound();
        Ok(())
    }

    fn put_queue(&mut self, pile: fn(&mut PendingStatement) -> &mut BatchQueue) -> Result<(), HaltReason> {
        for batch in pile(&mut self.statement).take_full() {
            self.batch.mark_final();
            self.send_batch()?;
            (self.sender)(batch)?;
        }
        self.batch.append(pile(&mut self.statement).last_mut());
        self.batch.mark_final();
        self.send_if_full()
    }
}
