//! Small changes to real bytes, the same for the same seed.

use testkit::SeededRandom;

/// Numbers at the limits of fields.
const EDGES: [u64; 16] = [
    0,
    1,
    0x7f,
    0x80,
    0xfa,
    0xfb,
    0xfc,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0xff_ffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Returns a mutated copy of one of `seeds`: one to four changes, each of a byte, a number or a range.
pub fn mutate(seeds: &[Vec<u8>], random: &mut SeededRandom) -> Vec<u8> {
    let Some(seed) = seeds.get(random.below(seeds.len())) else { return Vec::new() };
    let mut bytes = seed.clone();
    for _ in 0..=random.below(4) {
        change(&mut bytes, seeds, random);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut SeededRandom) {
    let at = random.below(bytes.len());
    match random.below(9) {
        0 => xor(bytes, at, 1 << random.below(8)),
        1 => xor(bytes, at, random.next_u64() as u8),
        2 => put_edge(bytes, at, random),
        3 => add(bytes, at, random.below(35) as u8),
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(at..stretch_end(bytes, at, random))),
        6 => {
            let copy = bytes[at..stretch_end(bytes, at, random)].to_vec();
            bytes.splice(at..at, copy);
        }
        7 => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len());
            let copy = &other[from..stretch_end(other, from, random)];
            let end = bytes.len().min(at + copy.len());
            bytes.splice(at..end, copy.iter().copied());
        }
        _ => bytes.insert(at, random.next_u64() as u8),
    }
}

fn xor(bytes: &mut [u8], at: usize, mask: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= mask;
    }
}

/// Adds a number between -17 and 17.
fn add(bytes: &mut [u8], at: usize, amount: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = byte.wrapping_add(amount).wrapping_sub(17);
    }
}

fn put_edge(bytes: &mut [u8], at: usize, random: &mut SeededRandom) {
    let size = 1 << random.below(4);
    let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
    for (byte, edge) in bytes.iter_mut().skip(at).zip(edge.into_iter().take(size)) {
        *byte = edge;
    }
}

/// Returns the end of a range, usually a short one.
fn stretch_end(bytes: &[u8], at: usize, random: &mut SeededRandom) -> usize {
    let size = match random.below(4) {
        0 => random.below(bytes.len() - at),
        _ => random.below(16),
    };
    bytes.len().min(at + size)
}
