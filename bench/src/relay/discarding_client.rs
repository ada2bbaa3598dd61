//! Client that reads a log and discards the events, so that the server has nearly all CPU time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use wire::{
    BinlogDump, ClientCommand, ClientHandshake, ClientOptions, DumpFlags, HandshakeStep, OkPacket,
    PacketCodec,
};

/// Number of bytes read at once.
const BUFFER_SIZE: usize = 1 << 20;
/// Size of a packet's header.
const HEADER_SIZE: usize = 4;
/// Size of a packet that another one continues.
const CONTINUED_SIZE: usize = 0xff_ffff;
/// Size below which a packet with the first byte 0xfe is the end.
const EOF_SIZE: usize = 9;
/// First `server_id` of the clients.
const SERVER_ID: u32 = 10_000;

/// Client that has logged in.
pub(super) struct DiscardingClient {
    socket: TcpStream,
    packets: PacketCodec,
}

/// Flags and `server_id` of a dump request.
#[derive(Clone, Copy)]
pub(super) struct DumpParameters {
    flags: DumpFlags,
    server_id: u32,
}

impl DumpParameters {
    /// Returns a dump that ends at the end of the last log.
    pub(super) const fn to_end(number: usize) -> Self {
        Self { flags: DumpFlags::NON_BLOCK, server_id: SERVER_ID + number as u32 }
    }

    /// Returns a dump that waits for new events.
    pub(super) const fn waiting(number: usize) -> Self {
        Self { flags: DumpFlags(0), server_id: SERVER_ID + number as u32 }
    }
}

impl DiscardingClient {
    /// Logs in to a local server as root without a password.
    pub(super) fn log_in(port: u16) -> Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        let mut client = Self { socket, packets: PacketCodec::new(1 << 30) };
        let mut handshake = ClientHandshake::new(ClientOptions::new("root", "", [7; 20]));
        loop {
            let packet = client.next_packet()?.context("the server closed the connection")?;
            match handshake.read(&packet)? {
                HandshakeStep::Send(payload) => client.send(&payload)?,
                HandshakeStep::Wait => {}
                HandshakeStep::Done(session) => {
                    client
                        .query("SET @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32'")?;
                    ensure!(session.compression.is_none(), "the connection is compressed");
                    return Ok(client);
                }
                HandshakeStep::StartTls(_) => bail!("the client did not request TLS"),
            }
        }
    }

    /// Requests a log from a position on.
    pub(super) fn dump(&mut self, log: &str, position: u32, parameters: DumpParameters) -> Result<()> {
        let DumpParameters { flags, server_id } = parameters;
        self.command(&ClientCommand::BinlogDump(BinlogDump {
            position,
            flags,
            server_id,
            file: log.as_bytes(),
        }))
    }

    /// Reads until the end of the log or of the connection. Returns the bytes of the packets, without their headers.
    pub(super) fn discard_to_end(mut self) -> Result<u64> {
        let mut packets = PacketSkipper::default();
        let mut buffer = vec![0; BUFFER_SIZE];
        loop {
            let size = match self.socket.read(&mut buffer) {
                Ok(0) => return Ok(packets.bytes),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(packets.bytes),
                read => read?,
            };
            if packets.skip(&buffer[..size])? {
                return Ok(packets.bytes);
            }
        }
    }

    /// Sets the time after which [`DiscardingClient::next_event`] returns without an event.
    pub(super) fn set_timeout(&self, timeout: Duration) -> Result<()> {
        Ok(self.socket.set_read_timeout(Some(timeout))?)
    }

    /// Returns the next event; `None` after the timeout, or at the end of the connection.
    pub(super) fn next_event(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(mut packet) = self.next_packet()? else { return Ok(None) };
        ensure!(packet.first() == Some(&0), "{}", String::from_utf8_lossy(&packet));
        packet.remove(0);
        Ok(Some(packet))
    }

    fn query(&mut self, sql: &str) -> Result<()> {
        self.command(&ClientCommand::Query { sql: sql.as_bytes() })?;
        let packet = self.next_packet()?.context("the server closed the connection")?;
        ensure!(OkPacket::is(&packet), "{}", String::from_utf8_lossy(&packet));
        Ok(())
    }

    fn command(&mut self, command: &ClientCommand<'_>) -> Result<()> {
        let mut payload = Vec::new();
        command.encode(&mut payload)?;
        self.packets.begin_command();
        self.send(&payload)
    }

    fn send(&mut self, payload: &[u8]) -> Result<()> {
        self.packets.send(payload);
        self.socket.write_all(self.packets.output())?;
        let size = self.packets.output().len();
        self.packets.mark_sent(size);
        Ok(())
    }

    fn next_packet(&mut self) -> Result<Option<Vec<u8>>> {
        while !self.packets.is_ready()? {
            match self.socket.read(self.packets.read_buffer()) {
                Ok(0) => return Ok(None),
                Ok(size) => self.packets.commit_read(size),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.packets.next()?.map(<[u8]>::to_vec))
    }
}

/// Finds the end of a dump without keeping the packets.
#[derive(Default)]
struct PacketSkipper {
    /// Number of bytes of all packets.
    bytes: u64,
    /// Number of remaining bytes of the current packet.
    left: usize,
    /// Header of the next packet, and its first byte.
    head: Vec<u8>,
    /// True if the next packet continues the current one.
    is_continued: bool,
}

impl PacketSkipper {
    /// Takes received bytes. Returns true after the last packet.
    fn skip(&mut self, mut bytes: &[u8]) -> Result<bool> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.head.push(bytes[0]);
            bytes = &bytes[1..];
            let Some(&[low, middle, high]) = self.head.first_chunk::<3>() else { continue };
            let size = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
            let is_empty = size == 0 && self.head.len() == HEADER_SIZE;
            if self.head.len() <= HEADER_SIZE && !is_empty {
                continue;
            }
            let first = self.head.get(HEADER_SIZE).copied();
            self.head.clear();
            let is_start = !std::mem::replace(&mut self.is_continued, size == CONTINUED_SIZE);
            if is_start && first == Some(0xfe) && size < EOF_SIZE {
                return Ok(true);
            }
            ensure!(!is_start || first != Some(0xff), "the server ended the dump with an error");
            self.bytes += size as u64;
            self.left = size.saturating_sub(1);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::PacketSkipper;

    #[test]
    fn the_end_is_found_for_all_sizes_of_reads() {
        let stream =
            [&[3, 0, 0, 1, 0, 0xfe, 9][..], &[1, 0, 0, 2, 0], &[5, 0, 0, 3, 0xfe, 0, 0, 2, 0]].concat();
        for piece in 1..=stream.len() {
            let mut packets = PacketSkipper::default();
            let ends: Vec<bool> = stream.chunks(piece).map(|part| packets.skip(part).unwrap()).collect();
            assert!(ends.contains(&true), "{piece}");
            assert_eq!(packets.bytes, 4, "{piece}");
        }
    }
}
