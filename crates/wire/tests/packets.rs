//! Packets in both directions, with bytes arriving in any pieces.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

use wire::{PIECE_SIZE_MAX, PacketCodec, PacketCompression, PartedPacket, ServerError, WireError};

const LIMIT: usize = 64 << 20;

/// Checks that payloads sent by one side arrive at the other, `piece` bytes at a time. Releases idle buffers
/// between pieces.
fn check(payloads: &[Vec<u8>], compression: Option<PacketCompression>, piece: usize) {
    let (mut client, mut server) = (PacketCodec::new(LIMIT), PacketCodec::new(LIMIT));
    for side in [&mut client, &mut server] {
        if let Some(compression) = compression {
            side.start_compression(compression);
        }
    }
    for payload in payloads {
        client.send(payload);
    }
    let (mut taken, bytes) = (Vec::new(), client.output().to_vec());
    for piece in bytes.chunks(piece) {
        let room = server.read_buffer();
        assert!(room.len() >= piece.len());
        room[..piece.len()].copy_from_slice(piece);
        server.commit_read(piece.len());
        server.release_idle();
        while let Some(payload) = server.next().unwrap() {
            taken.push(payload.to_vec());
        }
    }
    assert!(!server.has_unread());
    assert!(taken == payloads, "{compression:?}, {piece} bytes at a time: {} packets", taken.len());
    client.release_idle();
    assert_eq!(client.output().len(), bytes.len());
    client.mark_sent(bytes.len());
    assert!(client.output().is_empty());
}

/// Returns compressible bytes.
fn bytes(size: usize) -> Vec<u8> {
    (0..size as u64).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 20) as u8 & 0x0f).collect()
}

#[test]
fn packets_arrive_in_pieces_of_any_size() {
    let payloads: Vec<Vec<u8>> = (0..400).map(|size| bytes(size * 3)).collect();
    for compression in
        [None, Some(PacketCompression::Zlib { level: 6 }), Some(PacketCompression::Zstd { level: 3 })]
    {
        for piece in [1, 5, 1000, 60_000] {
            check(&payloads, compression, piece);
        }
    }
}

#[test]
fn large_packets_are_split_and_joined() {
    let sizes = [PIECE_SIZE_MAX - 1, PIECE_SIZE_MAX, PIECE_SIZE_MAX + 1, 2 * PIECE_SIZE_MAX, 0, 1];
    let payloads: Vec<Vec<u8>> = sizes.into_iter().map(bytes).collect();
    check(&payloads, None, 50_000);
    check(&payloads, Some(PacketCompression::Zlib { level: 1 }), 50_000);
    check(&payloads, Some(PacketCompression::Zstd { level: 1 }), 50_000);
}

#[test]
fn headers_follow_the_protocol() {
    let mut packets = PacketCodec::new(LIMIT);
    packets.send(b"abc");
    packets.send(b"");
    assert_eq!(packets.output(), b"\x03\0\0\0abc\0\0\0\x01");
    packets.begin_command();
    packets.mark_sent(7);
    packets.send(b"d");
    assert_eq!(packets.output(), b"\0\0\0\x01\x01\0\0\0d");

    let mut packets = PacketCodec::new(LIMIT);
    packets.send(&vec![7; PIECE_SIZE_MAX]);
    assert_eq!(packets.output()[..4], *b"\xff\xff\xff\0");
    assert_eq!(packets.output()[4 + PIECE_SIZE_MAX..], *b"\0\0\0\x01");
}

/// Small content is framed without compression.
#[test]
fn small_frames_are_plain() {
    let mut packets = PacketCodec::new(LIMIT);
    packets.start_compression(PacketCompression::Zstd { level: 3 });
    packets.send(b"abc");
    assert_eq!(packets.output(), b"\x07\0\0\0\0\0\0\x03\0\0\0abc");
}

fn refused(compression: Option<PacketCompression>, bytes: &[u8], expected: &str) {
    let mut packets = PacketCodec::new(0);
    if let Some(compression) = compression {
        packets.start_compression(compression);
    }
    packets.receive(bytes);
    let error = packets.next().unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn invalid_packets_are_refused() {
    refused(
        None,
        b"\x01\0\0\x05a",
        "packet out of order: expected 0, got 5 (bytes were lost, or this is not MySQL's protocol)",
    );
    refused(None, b"\xff\xff\xff\0", "packet of at least 16777215 bytes exceeds the limit of 65536");
    let zlib = Some(PacketCompression::Zlib { level: 6 });
    let zstd = Some(PacketCompression::Zstd { level: 3 });
    refused(
        zlib,
        b"\x03\0\0\x01\0\0\0abc",
        "packet out of order: expected 0, got 1 (bytes were lost, or this is not MySQL's protocol)",
    );
    refused(
        zlib,
        b"\x03\0\0\0\x05\0\0abc",
        "cannot decompress a packet of 3 bytes: \
         the zlib data is invalid, cut off, or larger than its header states",
    );
    refused(
        zstd,
        b"\x08\0\0\0\x09\0\0abcdefgh",
        "cannot decompress a packet of 8 bytes: Src size is incorrect",
    );
}

/// Frames must have exactly the stated uncompressed size.
#[test]
fn wrong_sizes_of_frames_are_refused() {
    for compression in [PacketCompression::Zlib { level: 6 }, PacketCompression::Zstd { level: 3 }] {
        let mut packets = PacketCodec::new(LIMIT);
        packets.start_compression(compression);
        packets.send(&[7; 1000]);
        for wrong in [999, 1003, 1005, 2000] {
            let mut bytes = packets.output().to_vec();
            assert_eq!(bytes[4..7], [0xec, 3, 0]);
            bytes[4..6].copy_from_slice(&u16::to_le_bytes(wrong));
            let mut other = PacketCodec::new(LIMIT);
            other.start_compression(compression);
            other.receive(&bytes);
            let error = other.next().unwrap_err();
            assert!(matches!(error, WireError::Compressed { .. }), "{compression:?} {wrong}: {error}");
            let sent = ServerError::from_wire(&error).to_string();
            assert_eq!(sent, "Couldn't uncompress communication packet (error 1157, SQL state 08S01)");
        }
    }
}

#[test]
fn frames_smaller_than_stated_are_refused() {
    let zlib = PacketCompression::Zlib { level: 6 };
    let mut packets = PacketCodec::new(LIMIT);
    packets.start_compression(zlib);
    packets.send(&[7; 1000]);
    let mut bytes = packets.output().to_vec();
    bytes[4] += 1;
    refused(Some(zlib), &bytes, "cannot decompress a packet of 28 bytes: the size differs from its header");
}

/// Bytes that the server sends right after the last packet of the handshake are compressed.
#[test]
fn compression_starts_within_received_bytes() {
    let (mut client, mut server) = (PacketCodec::new(LIMIT), PacketCodec::new(LIMIT));
    server.send(b"plain");
    server.start_compression(PacketCompression::Zlib { level: 6 });
    server.send(&[7; 100]);
    client.receive(server.output());
    assert_eq!(client.next().unwrap(), Some(&b"plain"[..]));
    assert!(client.has_unread());
    client.start_compression(PacketCompression::Zlib { level: 6 });
    assert!(client.has_unread());
    assert_eq!(client.next().unwrap(), Some(&[7; 100][..]));
    assert!(!client.has_unread());
}

#[test]
fn packets_that_are_encoded_in_place_are_the_same() {
    let zlib = Some(PacketCompression::Zlib { level: 1 });
    let in_pieces = [PIECE_SIZE_MAX - 1, PIECE_SIZE_MAX, PIECE_SIZE_MAX + 1];
    for (compression, sizes) in [(None, &[0, 1, 1000][..]), (None, &in_pieces), (zlib, &[0, 1, 1000])] {
        for size in sizes.iter().copied() {
            let payload = vec![7; size];
            let mut pair = [PacketCodec::new(0), PacketCodec::new(0)];
            for packets in &mut pair {
                if let Some(compression) = compression {
                    packets.start_compression(compression);
                }
                packets.send(b"before");
            }
            let [copied, encoded] = &mut pair;
            copied.send(&payload);
            let fails = encoded.send_encoded(|out| {
                out.extend_from_slice(b"half of it");
                Err("no")
            });
            assert_eq!(fails, Err("no"));
            encoded
                .send_encoded(|out| {
                    out.extend_from_slice(&payload);
                    Ok::<(), ()>(())
                })
                .unwrap();
            copied.send(b"later");
            encoded.send(b"later");
            assert!(copied.output() == encoded.output(), "{size} bytes, {compression:?}");
        }
    }
}

#[test]
fn packets_in_parts_equal_whole_packets() {
    for size in [0, 1, PIECE_SIZE_MAX - 1, PIECE_SIZE_MAX, PIECE_SIZE_MAX + 1, 2 * PIECE_SIZE_MAX] {
        let payload = bytes(size);
        for part in [size.max(1), 1 << 20, PIECE_SIZE_MAX, PIECE_SIZE_MAX - 1] {
            let (mut whole, mut parted) = (PacketCodec::new(LIMIT), PacketCodec::new(LIMIT));
            whole.send(&payload);
            let mut packet = PartedPacket::new(size);
            parted.send_part(&mut packet, &[]);
            for bytes in payload.chunks(part) {
                parted.send_part(&mut packet, bytes);
            }
            // The next packet has the next number.
            whole.send(b"next");
            parted.send(b"next");
            assert!(whole.output() == parted.output(), "{size} bytes, {part} at a time");
        }
    }
}

#[test]
fn errors_follow_the_last_piece_of_a_packet_that_exceeds_the_limit() {
    for compression in [None, Some(PacketCompression::Zlib { level: 6 })] {
        for size in [70_000, (1 << 24) - 2, (1 << 24) - 1, 40_000_000] {
            let (mut client, mut server) = (PacketCodec::new(1 << 20), PacketCodec::new(65_536));
            for codec in [&mut client, &mut server] {
                compression.into_iter().for_each(|compression| codec.start_compression(compression));
                codec.begin_command();
            }
            client.send(&bytes(size));
            let mut is_discarded = false;
            let mut has_failed = false;
            for part in client.output().chunks(1 << 16) {
                assert!(!is_discarded);
                server.receive(part);
                if !has_failed {
                    has_failed = server.is_ready().is_err();
                }
                if has_failed {
                    is_discarded = server.discard_packet().unwrap();
                }
            }
            assert!(has_failed && is_discarded, "{size}");
            client.mark_sent(client.output().len());
            server.send(b"error");
            client.receive(server.output());
            assert_eq!(client.next(), Ok(Some(&b"error"[..])), "{size} {compression:?}");
        }
    }
}
