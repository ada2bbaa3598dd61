//! Packets of a connection: splitting and joining, sequence numbers, compression.

use std::mem;

use binlog::Cursor;

use crate::compressed_frames::{CompressedFrames, PacketCompression, put_u24};
use crate::error::WireError;
use crate::receive_buffer::ReceiveBuffer;

/// Size of a packet's header: payload size and sequence number.
const HEADER_SIZE: usize = 4;
/// Maximum size of a piece of a packet. Another piece follows a piece of exactly this size.
pub const PIECE_SIZE_MAX: usize = 0xff_ffff;
/// Lower bound for the packet limit: handshakes must fit.
pub const PACKET_LIMIT_MIN: usize = 64 << 10;

/// Codec for both directions of one connection: bytes on one side, whole packets on the other.
///
/// ```
/// use wire::PacketCodec;
///
/// let (mut client, mut server) = (PacketCodec::new(1 << 20), PacketCodec::new(1 << 20));
/// client.begin_command();
/// client.send(b"\x0e"); // COM_PING
/// server.begin_command();
/// server.receive(client.output());
/// assert_eq!(server.next()?, Some(&b"\x0e"[..]));
/// assert_eq!(server.next()?, None);
/// # Ok::<(), wire::WireError>(())
/// ```
pub struct PacketCodec {
    /// Maximum size of a packet in bytes, all pieces joined.
    limit: usize,
    /// Sequence number of the next packet, in either direction.
    sequence: u8,
    sequence_check: SequenceCheck,
    incoming: IncomingPackets,
    frames: Option<CompressedFrames>,
    output: Vec<u8>,
    /// Number of bytes of `output` that have been sent.
    sent: usize,
}

/// Packet sent in parts, because it is too large for memory. See [`PacketCodec::send_part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartedPacket {
    /// Number of payload bytes not passed in yet.
    unsent: usize,
    /// Number of these bytes that belong to the present piece.
    in_piece: usize,
    /// True once the header of the last piece is written: the first piece below the maximum size.
    has_last_header: bool,
}

impl PartedPacket {
    /// Begins a packet with a payload of this size in bytes.
    pub const fn new(size: usize) -> Self {
        Self { unsent: size, in_piece: 0, has_last_header: false }
    }

    fn put(&mut self, bytes: &[u8], sequence: &mut u8, out: &mut Vec<u8>) {
        let mut rest = bytes;
        loop {
            let (now, later) = rest.split_at(rest.len().min(self.in_piece));
            out.extend_from_slice(now);
            (self.in_piece, self.unsent, rest) = (self.in_piece - now.len(), self.unsent - now.len(), later);
            if self.in_piece > 0 || self.has_last_header || rest.is_empty() && self.unsent > 0 {
                return;
            }
            self.in_piece = self.unsent.min(PIECE_SIZE_MAX);
            self.has_last_header = self.in_piece < PIECE_SIZE_MAX;
            put_u24(out, self.in_piece);
            out.push(*sequence);
            *sequence = sequence.wrapping_add(1);
        }
    }
}

/// Maximum capacity of an empty output buffer. There may be many connections.
const OUTPUT_KEPT_MAX: usize = 256 << 10;

/// Handling of the sequence numbers of received packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceCheck {
    Checked,
    Ignored,
}

/// Received bytes, in this order: packet handed out, packet being joined, unread bytes.
#[derive(Default)]
struct IncomingPackets {
    buffer: ReceiveBuffer,
    /// Start of the packet that is being joined or was handed out.
    start: usize,
    joined: usize,
    /// Start of the next header.
    unread: usize,
    phase: PacketPhase,
    /// Piece that is being discarded.
    discarded: Option<DiscardedPiece>,
}

/// Piece of a packet that exceeds the limit.
#[derive(Clone, Copy, Debug)]
struct DiscardedPiece {
    /// Number of bytes that have not arrived yet.
    rest: usize,
    /// True for the last piece of the packet.
    is_last: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PacketPhase {
    /// More pieces of the packet are expected.
    #[default]
    Joining,
    /// The packet is whole.
    Whole,
    /// The packet was handed out.
    HandedOut,
}

impl PacketCodec {
    /// Creates the codec of a new connection, for received packets of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(PACKET_LIMIT_MIN),
            sequence: 0,
            sequence_check: SequenceCheck::Checked,
            incoming: IncomingPackets::default(),
            frames: None,
            output: Vec::new(),
            sent: 0,
        }
    }

    /// Changes the limit for received packets, in bytes. A server has a lower limit until the client has logged in.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(PACKET_LIMIT_MIN);
    }

    /// Returns a buffer for received bytes. Call [`PacketCodec::commit_read`] with the number of bytes read.
    pub fn read_buffer(&mut self) -> &mut [u8] {
        self.receive_buffer().read_buffer()
    }

    /// Adds the first `count` bytes of the last read buffer to the received bytes.
    ///
    /// # Panics
    ///
    /// Panics if `count` is larger than the buffer.
    pub fn commit_read(&mut self, count: usize) {
        self.receive_buffer().commit_read(count);
    }

    /// Appends received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.receive_buffer().append(bytes);
    }

    fn receive_buffer(&mut self) -> &mut ReceiveBuffer {
        self.incoming.release();
        match &mut self.frames {
            None => &mut self.incoming.buffer,
            Some(frames) => &mut frames.raw,
        }
    }

    /// Returns the payload of the next whole packet; `None` until more bytes have arrived.
    ///
    /// # Errors
    ///
    /// Fails if a sequence number is wrong, if a packet exceeds the limit, or if a compressed packet cannot be
    /// decompressed. No packet can be read after that.
    #[allow(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, WireError> {
        if !self.is_ready()? {
            return Ok(None);
        }
        self.incoming.phase = PacketPhase::HandedOut;
        Ok(Some(self.incoming.payload()))
    }

    /// Returns true if a whole packet has arrived.
    ///
    /// # Errors
    ///
    /// Fails if [`PacketCodec::next`] fails.
    pub fn is_ready(&mut self) -> Result<bool, WireError> {
        self.incoming.release();
        while !self.join()? {
            let Some(frames) = &mut self.frames else { return Ok(false) };
            let Some(content) = frames.open(self.sequence_check)? else { return Ok(false) };
            self.incoming.buffer.append(content);
        }
        Ok(true)
    }

    /// Joins the pieces that have arrived; returns true if the packet is whole.
    fn join(&mut self) -> Result<bool, WireError> {
        let is_numbered = self.frames.is_none() && self.sequence_check == SequenceCheck::Checked;
        while self.incoming.phase == PacketPhase::Joining {
            let Some((size, sequence)) = self.incoming.header() else { return Ok(false) };
            // Servers number the packets inside compressed frames arbitrarily; only the numbers of frames are
            // checked.
            if is_numbered && sequence != self.sequence {
                return Err(WireError::Sequence { found: sequence, expected: self.sequence });
            }
            let found = self.incoming.joined - self.incoming.start + size;
            if found > self.limit {
                // An error gets the number of a response to this piece.
                self.sequence = sequence.wrapping_add(1);
                return Err(WireError::TooLarge { found, limit: self.limit });
            }
            if !self.incoming.take_piece(size) {
                return Ok(false);
            }
            if self.sequence_check == SequenceCheck::Checked {
                self.sequence = sequence.wrapping_add(1);
            }
        }
        Ok(true)
    }

    /// Discards the received part of a packet that exceeds the limit. Returns true once the whole packet is discarded:
    /// an error then gets the number of a response to this packet. No packet can be read after that.
    ///
    /// # Errors
    ///
    /// Fails if a compressed packet cannot be decompressed.
    pub fn discard_packet(&mut self) -> Result<bool, WireError> {
        loop {
            while let Some(sequence) = self.incoming.discard_piece() {
                self.sequence = sequence.wrapping_add(1);
            }
            if self.incoming.discarded.is_some_and(|piece| piece.is_last && piece.rest == 0) {
                return Ok(true);
            }
            let Some(frames) = &mut self.frames else { return Ok(false) };
            let Some(content) = frames.open(self.sequence_check)? else { return Ok(false) };
            self.incoming.buffer.append(content);
        }
    }

    /// Returns true if received bytes have not been handed out. Must be false before a switch to TLS.
    pub fn has_unread(&self) -> bool {
        let incoming = &self.incoming;
        let in_frames = self.frames.as_ref().is_some_and(CompressedFrames::has_unread);
        in_frames || incoming.unread < incoming.buffer.len() || incoming.phase == PacketPhase::Whole
    }

    /// Removes and returns the bytes received after the packet that was handed out.
    pub(crate) fn take_unread(&mut self) -> Vec<u8> {
        self.incoming.release();
        let IncomingPackets { buffer, unread, .. } = mem::take(&mut self.incoming);
        buffer.as_slice()[unread..].to_vec()
    }

    /// Releases the memory of empty buffers. A server with many idle clients should call this before it waits for a
    /// client: otherwise each codec keeps at least 64 KiB.
    pub fn release_idle(&mut self) {
        self.incoming.release();
        if !self.has_unread() && self.incoming.joined == self.incoming.start {
            self.incoming = IncomingPackets::default();
        }
        if let Some(frames) = self.frames.as_mut().filter(|frames| !frames.has_unread()) {
            frames.release();
        }
        if self.output().is_empty() {
            (self.output, self.sent) = (Vec::new(), 0);
        }
    }

    /// Resets the sequence numbers to 0, at the start of a command to send or receive.
    pub fn begin_command(&mut self) {
        self.sequence = 0;
        if let Some(frames) = &mut self.frames {
            frames.sequence = 0;
        }
    }

    /// Restarts the numbers of a source after an event that requests an acknowledgement, as MySQL 9.7 and MariaDB 10.11
    /// do: the acknowledgement has the number 0, and the next event 1. In compressed packets, the next number is 0.
    pub(crate) fn restart_after_request(&mut self) {
        match &mut self.frames {
            None => self.sequence = 1,
            Some(frames) => (self.sequence, frames.sequence) = (0, 0),
        }
    }

    /// Stops checking the sequence numbers of received packets. In semi-synchronous replication, source and replica
    /// send independently, and their numbers do not match. The numbers of sent packets are then independent of received
    /// packets.
    pub fn ignore_sequence(&mut self) {
        self.sequence_check = SequenceCheck::Ignored;
    }

    /// Starts compression in both directions. Call this right after a successful login.
    pub fn start_compression(&mut self, compression: PacketCompression) {
        self.incoming.release();
        let IncomingPackets { buffer, unread, .. } = mem::take(&mut self.incoming);
        let mut frames = CompressedFrames::new(compression);
        frames.raw.append(&buffer.as_slice()[unread..]);
        self.frames = Some(frames);
    }

    /// Appends a packet to the output, in as many pieces as needed.
    pub fn send(&mut self, payload: &[u8]) {
        let Some(frames) = &mut self.frames else {
            put_pieces(payload, &mut self.sequence, &mut self.output);
            return;
        };
        let mut plain = Vec::with_capacity(payload.len() + HEADER_SIZE);
        put_pieces(payload, &mut self.sequence, &mut plain);
        frames.put(&plain, &mut self.output);
    }

    /// Appends a packet to the output. `encode` writes the payload, in place if possible.
    ///
    /// # Errors
    ///
    /// Fails if `encode` fails, and appends nothing then.
    pub fn send_encoded<E>(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        if self.frames.is_some() {
            let mut payload = Vec::new();
            encode(&mut payload)?;
            self.send(&payload);
            return Ok(());
        }
        let start = self.output.len();
        self.output.extend_from_slice(&[0; HEADER_SIZE]);
        encode(&mut self.output).inspect_err(|_| self.output.truncate(start))?;
        let size = self.output.len() - start - HEADER_SIZE;
        if size < PIECE_SIZE_MAX {
            let [low, middle, high, ..] = (size as u32).to_le_bytes();
            self.output[start..start + HEADER_SIZE].copy_from_slice(&[low, middle, high, self.sequence]);
            self.sequence = self.sequence.wrapping_add(1);
            return Ok(());
        }
        // Each piece needs its own header.
        let payload = self.output.split_off(start + HEADER_SIZE);
        self.output.truncate(start);
        self.send(&payload);
        Ok(())
    }

    /// Appends packets to the output, each with this first byte.
    ///
    /// # Panics
    ///
    /// Panics if a payload needs more than one packet.
    pub(crate) fn send_small<'p>(&mut self, first: u8, payloads: impl Iterator<Item = &'p [u8]>) {
        let mut plain = Vec::new();
        let out = if self.frames.is_some() { &mut plain } else { &mut self.output };
        for payload in payloads {
            let size = payload.len() + 1;
            assert!(size < PIECE_SIZE_MAX, "ours: a small payload is one packet");
            let [low, middle, high, ..] = (size as u32).to_le_bytes();
            out.extend_from_slice(&[low, middle, high, self.sequence, first]);
            out.extend_from_slice(payload);
            self.sequence = self.sequence.wrapping_add(1);
        }
        if let Some(frames) = &mut self.frames {
            frames.put(&plain, &mut self.output);
        }
    }

    /// Appends the next bytes of a packet sent in parts.
    ///
    /// # Panics
    ///
    /// Panics if there are more bytes than the packet has.
    pub fn send_part(&mut self, packet: &mut PartedPacket, bytes: &[u8]) {
        assert!(bytes.len() <= packet.unsent, "ours: the parts have the packet's size in total");
        let Some(frames) = &mut self.frames else {
            return packet.put(bytes, &mut self.sequence, &mut self.output);
        };
        let mut plain = Vec::with_capacity(bytes.len() + HEADER_SIZE);
        packet.put(bytes, &mut self.sequence, &mut plain);
        frames.put(&plain, &mut self.output);
    }

    /// Returns the bytes to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Removes the first `count` bytes of the output after they were sent.
    ///
    /// # Panics
    ///
    /// Panics if `count` is larger than the output.
    pub fn mark_sent(&mut self, count: usize) {
        assert!(count <= self.output().len(), "ours: only output bytes are sent");
        self.sent += count;
        if self.sent < self.output.len() {
            return;
        }
        self.sent = 0;
        match self.output.capacity() > OUTPUT_KEPT_MAX {
            true => self.output = Vec::new(),
            false => self.output.clear(),
        }
    }
}

// size  field
//    3  size of the payload
//    1  sequence
//    *  payload
impl IncomingPackets {
    /// Returns the size and sequence number of the next piece, if its header has arrived.
    fn header(&self) -> Option<(usize, u8)> {
        let mut cursor = Cursor::new(&self.buffer.as_slice()[self.unread..]);
        Some((cursor.u24().ok()? as usize, cursor.u8().ok()?))
    }

    /// Appends the next piece of `size` bytes to the joined pieces; returns false if the piece has not arrived yet.
    fn take_piece(&mut self, size: usize) -> bool {
        let piece = self.unread + HEADER_SIZE..self.unread + HEADER_SIZE + size;
        if self.buffer.len() < piece.end {
            return false;
        }
        if self.joined == self.start {
            // The first piece stays in place.
            (self.start, self.joined) = (piece.start, piece.end);
        } else {
            self.buffer.as_mut_slice().copy_within(piece.clone(), self.joined);
            self.joined += size;
        }
        self.unread = piece.end;
        if size < PIECE_SIZE_MAX {
            self.phase = PacketPhase::Whole;
        }
        true
    }

    /// Discards the bytes of the present piece that have arrived. Returns the sequence number of the next piece, if its
    /// header has arrived.
    fn discard_piece(&mut self) -> Option<u8> {
        self.buffer.drop_front(self.unread);
        (self.start, self.joined, self.unread) = (0, 0, 0);
        if let Some(piece) = &mut self.discarded {
            let count = piece.rest.min(self.buffer.len());
            self.buffer.drop_front(count);
            piece.rest -= count;
            if piece.rest > 0 || piece.is_last {
                return None;
            }
        }
        let (size, sequence) = self.header()?;
        self.unread = HEADER_SIZE;
        self.discarded = Some(DiscardedPiece { rest: size, is_last: size < PIECE_SIZE_MAX });
        Some(sequence)
    }

    fn payload(&self) -> &[u8] {
        &self.buffer.as_slice()[self.start..self.joined]
    }

    /// Releases the packet that was handed out. Moves the remaining bytes to the front if they are at most as many as
    /// the released bytes.
    fn release(&mut self) {
        if self.phase != PacketPhase::HandedOut {
            return;
        }
        self.phase = PacketPhase::Joining;
        let rest = self.buffer.len() - self.unread;
        if self.unread >= rest {
            self.buffer.drop_front(self.unread);
            self.unread = 0;
        }
        (self.start, self.joined) = (self.unread, self.unread);
    }
}

fn put_pieces(payload: &[u8], sequence: &mut u8, out: &mut Vec<u8>) {
    let mut rest = payload;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(PIECE_SIZE_MAX));
        put_u24(out, piece.len());
        out.push(*sequence);
        out.extend_from_slice(piece);
        *sequence = sequence.wrapping_add(1);
        if piece.len() < PIECE_SIZE_MAX {
            return;
        }
        rest = after;
    }
}
