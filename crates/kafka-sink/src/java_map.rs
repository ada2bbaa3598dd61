//! Maps of bytes in the form of Java's serialization, as Kafka Connect stores offsets in a file.

/// Start of a serialized `java.util.HashMap`: magic, version, and the name of its class.
const START: &[u8] = b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap";
/// Sizes of what follows the name: identifier and flags of the class; load factor and threshold.
const CLASS_SIZE: usize = 9;
const FIELDS_SIZE: usize = 8;

/// Codes of the format.
const TC_NULL: u8 = 0x70;
const TC_REFERENCE: u8 = 0x71;
const TC_CLASS: u8 = 0x72;
const TC_ARRAY: u8 = 0x75;
const TC_BLOCK: u8 = 0x77;
const TC_END_BLOCK: u8 = 0x78;

/// Entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JavaMapEntry {
    pub(crate) key: Vec<u8>,
    /// `None` for null.
    pub(crate) value: Option<Vec<u8>>,
}

/// Parses a map whose keys and values are arrays of bytes; `None` if the bytes are something else.
pub(crate) fn parse_java_map(bytes: &[u8]) -> Option<Vec<JavaMapEntry>> {
    let mut rest = JavaReader(bytes.strip_prefix(START)?);
    rest.take(CLASS_SIZE)?;
    // Two fields: a float and an int.
    let count = rest.u16()?;
    for _ in 0..count {
        rest.take(1)?;
        let size = rest.u16()?;
        rest.take(size.into())?;
    }
    rest.expect(&[TC_END_BLOCK, TC_NULL])?;
    rest.take(FIELDS_SIZE)?;
    // Capacity and size.
    rest.expect(&[TC_BLOCK, 8])?;
    rest.take(4)?;
    let count = rest.u32()?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let key = rest.array()??;
        let value = rest.array()?;
        entries.push(JavaMapEntry { key, value });
    }
    rest.expect(&[TC_END_BLOCK])?;
    rest.0.is_empty().then_some(entries)
}

/// Bytes that are left.
struct JavaReader<'b>(&'b [u8]);

impl<'b> JavaReader<'b> {
    fn take(&mut self, size: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    fn expect(&mut self, expected: &[u8]) -> Option<()> {
        (self.take(expected.len())? == expected).then_some(())
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Reads an array of bytes, or null.
    fn array(&mut self) -> Option<Option<Vec<u8>>> {
        if self.0.first() == Some(&TC_NULL) {
            self.take(1)?;
            return Some(None);
        }
        self.expect(&[TC_ARRAY])?;
        match self.take(1)? {
            [TC_CLASS] => {
                let size = self.u16()?;
                (self.take(size.into())? == b"[B").then_some(())?;
                self.take(CLASS_SIZE)?;
                self.expect(&[0, 0, TC_END_BLOCK, TC_NULL])?;
            }
            // The class of an earlier array.
            [TC_REFERENCE] => drop(self.take(4)?),
            _ => return None,
        }
        let size = self.u32()?;
        Some(Some(self.take(size as usize)?.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::{JavaMapEntry, parse_java_map};

    /// A map that Java has written: a key of two bytes with a value, and a key of one byte with null.
    const MAP: &[u8] = b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1\x03\x00\x02F\x00\x0aloadFactorI\
        \x00\x09thresholdxp?@\x00\x00\x00\x00\x00\x0cw\x08\x00\x00\x00\x10\x00\x00\x00\x02ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0\
        \x02\x00\x00xp\x00\x00\x00\x02abuq\x00~\x00\x02\x00\x00\x00\x01vuq\x00~\x00\x02\x00\x00\x00\x01xpx";

    #[test]
    fn maps_of_java_are_read() {
        let entry = |key: &str, value: Option<&str>| JavaMapEntry {
            key: key.into(),
            value: value.map(|value| value.into()),
        };
        assert_eq!(parse_java_map(MAP), Some(vec![entry("ab", Some("v")), entry("x", None)]));
        for end in 0..MAP.len() {
            assert_eq!(parse_java_map(&MAP[..end]), None, "{end}");
        }
    }
}
