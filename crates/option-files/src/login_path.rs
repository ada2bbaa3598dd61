//! The login file of mysql_config_editor: an option file with each line encrypted.

use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, KeyInit};

/// Size of the key in the file, in bytes.
const KEY_SIZE: usize = 20;

/// Size of an AES block, in bytes.
const BLOCK_SIZE: usize = 16;

/// Maximum size of a line, in bytes.
const LINE_MAX: usize = 4095;

// size  field
//    4  unused
//   20  key
//    *  lines: size (4), encrypted bytes
/// Returns the decrypted lines, and the rest of the file after them. The rest is not empty if a line cannot be
/// decrypted.
pub(crate) fn lines(bytes: &[u8]) -> (Vec<Vec<u8>>, &[u8]) {
    let mut lines = Vec::new();
    let Some((key, mut rest)) = bytes.get(4..).and_then(|rest| rest.split_first_chunk::<KEY_SIZE>()) else {
        return (lines, bytes);
    };
    let cipher = Aes128::new(&fold(key).into());
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let size = usize::try_from(i32::from_le_bytes(*size)).unwrap_or(usize::MAX);
        let Some((encrypted, after)) = after.split_at_checked(size).filter(|_| size <= LINE_MAX) else {
            break;
        };
        let Some(line) = decrypt(&cipher, encrypted) else { break };
        lines.push(line);
        rest = after;
    }
    (lines, rest)
}

/// Folds the key into 16 bytes: bytes at the same offset modulo 16 are XORed.
fn fold(key: &[u8; KEY_SIZE]) -> [u8; BLOCK_SIZE] {
    let mut folded = [0; BLOCK_SIZE];
    for (index, byte) in key.iter().enumerate() {
        folded[index % BLOCK_SIZE] ^= byte;
    }
    folded
}

/// Decrypts block by block. The last byte is the number of padding bytes.
fn decrypt(cipher: &Aes128, encrypted: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(encrypted.len());
    for block in encrypted.chunks(BLOCK_SIZE) {
        let mut block: [u8; BLOCK_SIZE] = block.try_into().ok()?;
        cipher.decrypt_block((&mut block).into());
        plain.extend_from_slice(&block);
    }
    let padding = usize::from(*plain.last()?);
    let end = plain.len().checked_sub(padding).filter(|_| (1..=BLOCK_SIZE).contains(&padding))?;
    let padded = plain.split_off(end);
    padded.iter().all(|byte| usize::from(*byte) == padding).then_some(plain)
}

#[cfg(test)]
mod tests {
    use aes::Aes128;
    use aes::cipher::{BlockCipherEncrypt, KeyInit};

    use super::{BLOCK_SIZE, fold, lines};

    fn file(texts: &[&str]) -> Vec<u8> {
        let key: [u8; 20] = std::array::from_fn(|index| index as u8 * 7);
        let cipher = Aes128::new(&fold(&key).into());
        let mut bytes = [[0; 4].as_slice(), &key].concat();
        for text in texts {
            let padding = BLOCK_SIZE - text.len() % BLOCK_SIZE;
            let plain = [text.as_bytes(), &vec![padding as u8; padding]].concat();
            bytes.extend_from_slice(&(plain.len() as i32).to_le_bytes());
            for block in plain.chunks(BLOCK_SIZE) {
                let mut block: [u8; BLOCK_SIZE] = block.try_into().unwrap();
                cipher.encrypt_block((&mut block).into());
                bytes.extend_from_slice(&block);
            }
        }
        bytes
    }

    #[test]
    fn lines_are_decrypted() {
        let texts = ["[client]\n", "user = root\n", "password = \"sixteen bytes, see\"\n"];
        let bytes = file(&texts);
        let whole = texts.map(|text| text.as_bytes().to_vec());
        assert_eq!(lines(&bytes), (whole.to_vec(), [].as_slice()));
    }

    #[test]
    fn incomplete_and_corrupt_files_end_early() {
        let bytes = file(&["[client]\n", "user = root\n"]);
        let check = |bytes: &[u8], expected: usize| {
            let (lines, rest) = lines(bytes);
            assert_eq!((lines.len(), rest.is_empty()), (expected, false));
        };
        check(&bytes[..bytes.len() - 1], 1);
        check(&bytes[..20], 0);
        let mut corrupt = bytes;
        corrupt[30] ^= 1;
        check(&corrupt, 0);
    }
}
