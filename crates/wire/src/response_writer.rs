//! Responses of a server to a command.

use std::convert::Infallible;

use crate::capability::Capabilities;
use crate::error::ServerError;
use crate::event_packet::{AckRequest, EVENT, EventPacket, SemiSync};
use crate::generic_packets::{EofPacket, OkPacket};
use crate::packet_codec::{PacketCodec, PartedPacket};
use crate::prepared_statement::PreparedStatement;
use crate::result_set::{ColumnDefinition, ResultWriter};
use crate::result_value::RowEncoding;

/// Writer of the packets that respond to commands. Uses the forms required by the client's capabilities.
///
/// ```
/// use wire::{Capabilities, ColumnDefinition, PacketCodec, ResponseWriter, ResultValue, RowEncoding, ServerStatus};
///
/// let mut packets = PacketCodec::new(1 << 20);
/// packets.begin_command();
/// // … the client's query …
/// let mut response = ResponseWriter::new(&mut packets, Capabilities::DEPRECATE_EOF);
/// let mut rows = response.rows(&[ColumnDefinition::integer(b"1")], RowEncoding::Text);
/// rows.values(&[ResultValue::Int(1)]);
/// rows.end(ServerStatus::AUTOCOMMIT);
/// assert!(!packets.output().is_empty());
/// ```
pub struct ResponseWriter<'a> {
    packets: &'a mut PacketCodec,
    capabilities: Capabilities,
}

impl<'a> ResponseWriter<'a> {
    /// Creates a writer for a connection with the capabilities of a [`ServerSession`](crate::ServerSession).
    pub const fn new(packets: &'a mut PacketCodec, capabilities: Capabilities) -> Self {
        Self { packets, capabilities }
    }

    /// Sends success.
    pub fn ok(&mut self, ok: &OkPacket<'_>) {
        let capabilities = self.capabilities;
        send_encoded(self.packets, |out| ok.encode(capabilities, out));
    }

    /// Sends an error, also in place of the next event of a log.
    pub fn error(&mut self, error: &ServerError) {
        send_encoded(self.packets, |out| error.encode(out));
    }

    /// Sends the response to `COM_SET_OPTION`: an EOF packet, or an OK packet in its place.
    pub fn eof(&mut self, eof: EofPacket) {
        let capabilities = self.capabilities;
        send_encoded(self.packets, |out| eof.encode(capabilities, out));
    }

    /// Sends the response to `COM_STATISTICS`, a line of text without a header.
    pub fn statistics(&mut self, line: &[u8]) {
        self.packets.send(line);
    }

    /// Sends the columns of a result set, and returns the writer of its rows.
    ///
    /// # Panics
    ///
    /// Panics without columns: the response to a statement without columns is an OK packet.
    pub fn rows(&mut self, columns: &[ColumnDefinition<'_>], encoding: RowEncoding) -> ResultWriter<'_> {
        ResultWriter::begin_with(self.packets, self.capabilities, columns, encoding)
    }

    /// Sends the response to `COM_STMT_PREPARE`, with the statement's number. The number of columns is 0 if the
    /// statement has no result set, or if its columns are not known yet.
    ///
    /// # Panics
    ///
    /// Panics with more than 65,535 columns: servers have at most 4,096.
    pub fn prepared(
        &mut self,
        statement: u32,
        parameters: u16,
        columns: &[ColumnDefinition<'_>],
    ) -> PreparedStatement {
        let count = u16::try_from(columns.len()).expect("ours: a result has at most 4,096 columns");
        let prepared = PreparedStatement { statement, columns: count, parameters, warnings: 0 };
        send_encoded(self.packets, |out| prepared.encode(out));
        // Servers do not know the types of parameters, and send this definition for each.
        let parameter = ColumnDefinition::text(b"?");
        self.definitions((0..parameters).map(|_| &parameter));
        self.definitions(columns.iter());
        prepared
    }

    /// Sends an event of a log. `semi_sync` is on if the replica requested it before the log.
    ///
    /// The event is copied once, into the output of the codec. With semi-synchronous replication, call
    /// [`PacketCodec::ignore_sequence`] before the first event.
    pub fn event(&mut self, event: &EventPacket<'_>, semi_sync: SemiSync) {
        send_encoded(self.packets, |out| event.encode(semi_sync, out));
        self.end_event(event.acknowledge, semi_sync);
    }

    /// Sends small events of a log, without semi-synchronous replication. Costs less than separate calls of
    /// [`ResponseWriter::event`].
    ///
    /// # Panics
    ///
    /// Panics if an event is too large for one packet.
    pub fn small_events<'e>(&mut self, events: impl Iterator<Item = &'e [u8]>) {
        self.packets.send_small(EVENT, events);
    }

    /// Begins an event of a log that is too large for memory. Pass the event's bytes to [`ResponseWriter::event_part`].
    /// `event_size` is the event's size in bytes.
    pub fn begin_event(
        &mut self,
        event_size: usize,
        acknowledge: AckRequest,
        semi_sync: SemiSync,
    ) -> PartedPacket {
        let mut head = Vec::new();
        EventPacket { acknowledge, event: &[] }.encode(semi_sync, &mut head);
        let mut packet = PartedPacket::new(head.len() + event_size);
        self.packets.send_part(&mut packet, &head);
        packet
    }

    /// Sends the next bytes of an event.
    ///
    /// # Panics
    ///
    /// Panics if there are more bytes than the event has.
    pub fn event_part(&mut self, packet: &mut PartedPacket, bytes: &[u8]) {
        self.packets.send_part(packet, bytes);
    }

    /// Ends an event sent in parts. The arguments must equal those of [`ResponseWriter::begin_event`].
    pub fn end_event(&mut self, acknowledge: AckRequest, semi_sync: SemiSync) {
        if semi_sync == SemiSync::On && acknowledge == AckRequest::Requested {
            self.packets.restart_after_request();
        }
    }

    /// Sends the end of a log, for [`DumpFlags::NON_BLOCK`](crate::DumpFlags::NON_BLOCK).
    pub fn end_of_log(&mut self) {
        self.eof(EofPacket::default());
    }

    /// Sends definitions, followed by the EOF packet.
    fn definitions<'c, 'n: 'c>(
        &mut self,
        definitions: impl ExactSizeIterator<Item = &'c ColumnDefinition<'n>>,
    ) {
        let has_end = definitions.len() > 0 && !self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        for definition in definitions {
            send_encoded(self.packets, |out| definition.encode(out));
        }
        if has_end {
            self.eof(EofPacket::default());
        }
    }
}

/// Appends a packet to the output, without a copy of its payload.
pub(crate) fn send_encoded(packets: &mut PacketCodec, encode: impl FnOnce(&mut Vec<u8>)) {
    let sent: Result<(), Infallible> = packets.send_encoded(|out| {
        encode(out);
        Ok(())
    });
    let Ok(()) = sent;
}
