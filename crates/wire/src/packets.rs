//! Packets cut out of the bytes of one connection, and put into them.

use std::mem;

use binlog::Cursor;

use crate::buffer::Buffer;
use crate::compress::{Compression, Frames, put_u24};
use crate::error::WireError;

/// Bytes of a packet's header: the size of what follows, and a number.
const HEADER_SIZE: usize = 4;
/// A piece of a packet has at most so many bytes; one that has exactly so many is followed by another.
pub const PIECE_SIZE_MAX: usize = 0xff_ffff;
/// No limit on packets is lower than this: handshakes must fit.
pub const PACKET_LIMIT_MIN: usize = 64 << 10;

/// Both directions of one connection: bytes as they come and go on one side, whole packets on the other.
///
/// ```
/// use wire::Packets;
///
/// let (mut client, mut server) = (Packets::new(1 << 20), Packets::new(1 << 20));
/// client.begin_command();
/// client.send(b"\x0e"); // COM_PING
/// server.begin_command();
/// server.receive(client.output());
/// assert_eq!(server.next()?, Some(&b"\x0e"[..]));
/// assert_eq!(server.next()?, None);
/// # Ok::<(), wire::WireError>(())
/// ```
pub struct Packets {
    /// Bytes of a packet at most, all its pieces joined.
    limit: usize,
    /// The number of the next packet, in either direction.
    sequence: u8,
    numbers: Numbers,
    incoming: Incoming,
    frames: Option<Frames>,
    output: Vec<u8>,
    /// Bytes at the front of `output` that have been sent.
    sent: usize,
}

/// Size of the output buffer that is kept once all of it has been sent, at most: there may be many connections.
const KEPT_OUTPUT_MAX: usize = 256 << 10;

/// Whether the numbers of packets that come are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Checked,
    Ignored,
}

/// What has come. From the front: what has been handed out, the packet being joined, what has not been looked at.
#[derive(Default)]
struct Incoming {
    buffer: Buffer,
    /// The packet that is being joined, or was handed out.
    start: usize,
    joined: usize,
    /// Where the next header stands.
    unread: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Pieces of a packet are still to come.
    #[default]
    Joining,
    /// A packet is whole.
    Whole,
    /// It has been handed out.
    Given,
}

impl Packets {
    /// A new connection, that takes packets of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(PACKET_LIMIT_MIN),
            sequence: 0,
            numbers: Numbers::Checked,
            incoming: Incoming::default(),
            frames: None,
            output: Vec::new(),
            sent: 0,
        }
    }

    /// Room to read into what comes: call [`Packets::filled`] with how much it was.
    pub fn room(&mut self) -> &mut [u8] {
        self.arriving().room()
    }

    /// So many bytes of the room that was given last are filled.
    ///
    /// # Panics
    ///
    /// When it is more than there was room for.
    pub fn filled(&mut self, count: usize) {
        self.arriving().fill(count);
    }

    /// These bytes came.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.arriving().append(bytes);
    }

    fn arriving(&mut self) -> &mut Buffer {
        self.incoming.release();
        match &mut self.frames {
            None => &mut self.incoming.buffer,
            Some(frames) => &mut frames.raw,
        }
    }

    /// The next whole packet's payload; `None` until more has come.
    ///
    /// # Errors
    ///
    /// When numbers do not follow each other, a packet is beyond the limit, or a compressed one cannot be opened.
    /// Nothing can be read from the connection after that.
    #[allow(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, WireError> {
        if !self.is_ready()? {
            return Ok(None);
        }
        self.incoming.phase = Phase::Given;
        Ok(Some(self.incoming.payload()))
    }

    /// Has a whole packet come?
    ///
    /// # Errors
    ///
    /// As [`Packets::next`].
    pub fn is_ready(&mut self) -> Result<bool, WireError> {
        self.incoming.release();
        while !self.join()? {
            let Some(frames) = &mut self.frames else { return Ok(false) };
            let Some(content) = frames.open(self.numbers)? else { return Ok(false) };
            self.incoming.buffer.append(content);
        }
        Ok(true)
    }

    /// Joins pieces as far as they have come; is the packet whole?
    fn join(&mut self) -> Result<bool, WireError> {
        let is_numbered = self.frames.is_none() && self.numbers == Numbers::Checked;
        while self.incoming.phase == Phase::Joining {
            let Some((size, sequence)) = self.incoming.header() else { return Ok(false) };
            // Inside compressed packets servers number as they like: only the frames' numbers say something.
            if is_numbered && sequence != self.sequence {
                return Err(WireError::Sequence { found: sequence, wanted: self.sequence });
            }
            let found = self.incoming.joined - self.incoming.start + size;
            if found > self.limit {
                return Err(WireError::TooLarge { found, limit: self.limit });
            }
            if !self.incoming.take_piece(size) {
                return Ok(false);
            }
            self.sequence = sequence.wrapping_add(1);
        }
        Ok(true)
    }

    /// Have bytes come that were not handed out? Before a connection goes over to TLS there must be none.
    pub fn has_unread(&self) -> bool {
        let incoming = &self.incoming;
        let in_frames = self.frames.as_ref().is_some_and(Frames::has_unread);
        in_frames || incoming.unread < incoming.buffer.len() || incoming.phase == Phase::Whole
    }

    /// A command begins, to be sent or to be read: numbers start at 0.
    pub fn begin_command(&mut self) {
        self.sequence = 0;
        if let Some(frames) = &mut self.frames {
            frames.sequence = 0;
        }
    }

    /// From here on the numbers of packets that come are not compared: a source and its replica, both sending as they
    /// like (semi-synchronous replication), do not keep them.
    pub fn ignore_numbers(&mut self) {
        self.numbers = Numbers::Ignored;
    }

    /// Everything from here on is compressed, in both directions. For the moment after a server has let a client in.
    pub fn start_compression(&mut self, compression: Compression) {
        self.incoming.release();
        let Incoming { buffer, unread, .. } = mem::take(&mut self.incoming);
        let mut frames = Frames::new(compression);
        frames.raw.append(&buffer.as_slice()[unread..]);
        self.frames = Some(frames);
    }

    /// Puts a packet behind what stands ready to be sent, in as many pieces as it takes.
    pub fn send(&mut self, payload: &[u8]) {
        let Some(frames) = &mut self.frames else {
            put_pieces(payload, &mut self.sequence, &mut self.output);
            return;
        };
        let mut plain = Vec::with_capacity(payload.len() + HEADER_SIZE);
        put_pieces(payload, &mut self.sequence, &mut plain);
        frames.put(&plain, &mut self.output);
    }

    /// Appends a packet to the output. `encode` writes its payload, in place where that is possible.
    ///
    /// # Errors
    ///
    /// Those of `encode`: then nothing is appended.
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
        // Each piece needs a header of its own.
        let payload = self.output.split_off(start + HEADER_SIZE);
        self.output.truncate(start);
        self.send(&payload);
        Ok(())
    }

    /// What stands ready to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// So many bytes of it have been sent.
    ///
    /// # Panics
    ///
    /// When it is more than stood ready.
    pub fn sent(&mut self, count: usize) {
        assert!(count <= self.output().len(), "ours: no more is sent than stood ready");
        self.sent += count;
        if self.sent < self.output.len() {
            return;
        }
        self.sent = 0;
        match self.output.capacity() > KEPT_OUTPUT_MAX {
            true => self.output = Vec::new(),
            false => self.output.clear(),
        }
    }
}

// size  field
//    3  size of the payload
//    1  sequence
//    *  payload
impl Incoming {
    /// The size and number of the next piece, if they have come.
    fn header(&self) -> Option<(usize, u8)> {
        let mut cursor = Cursor::new(&self.buffer.as_slice()[self.unread..]);
        Some((cursor.u24().ok()? as usize, cursor.u8().ok()?))
    }

    /// Takes a piece of `size` bytes behind what is joined; has it come?
    fn take_piece(&mut self, size: usize) -> bool {
        let piece = self.unread + HEADER_SIZE..self.unread + HEADER_SIZE + size;
        if self.buffer.len() < piece.end {
            return false;
        }
        if self.joined == self.start {
            // The first piece stays where it is.
            (self.start, self.joined) = (piece.start, piece.end);
        } else {
            self.buffer.as_mut_slice().copy_within(piece.clone(), self.joined);
            self.joined += size;
        }
        self.unread = piece.end;
        if size < PIECE_SIZE_MAX {
            self.phase = Phase::Whole;
        }
        true
    }

    fn payload(&self) -> &[u8] {
        &self.buffer.as_slice()[self.start..self.joined]
    }

    /// Forgets a packet that was handed out. Its bytes go when most of what is kept is of such.
    fn release(&mut self) {
        if self.phase != Phase::Given {
            return;
        }
        self.phase = Phase::Joining;
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
        let (piece, behind) = rest.split_at(rest.len().min(PIECE_SIZE_MAX));
        put_u24(out, piece.len());
        out.push(*sequence);
        out.extend_from_slice(piece);
        *sequence = sequence.wrapping_add(1);
        if piece.len() < PIECE_SIZE_MAX {
            return;
        }
        rest = behind;
    }
}
