//! Records that wait for their transaction's end: only it says the transaction's number, and which record is the last.

use std::env;
use std::io;

use logs::Spool;

use crate::output::Output;
use crate::text::{put_integer, put_string};

/// Bytes of records held in memory; more go to a file. Bounds memory.
const MEMORY_MAX: usize = 16 << 20;

/// A transaction's records, with gaps for what is not known yet.
#[derive(Debug, Default)]
pub(crate) struct Held {
    text: Vec<u8>,
    /// Where in the text the transaction's number goes: once in each row's record.
    gaps: Vec<usize>,
    /// What came before: pieces between gaps, each with its size in front.
    spool: Option<Spool>,
    /// Bytes that went to the file at once each time.
    spooled: Vec<usize>,
}

impl Held {
    /// What is appended here waits.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// The transaction's number goes here.
    pub(crate) fn number_here(&mut self) {
        self.gaps.push(self.text.len());
    }

    /// Puts what is too much for memory into a file. To be called between records.
    ///
    /// # Errors
    ///
    /// When the file cannot be made or written.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        // The last record stays here: whether it is the transaction's last is yet to be seen.
        match (
            self.text.len() > MEMORY_MAX,
            self.text[..self.text.len().saturating_sub(1)].iter().rposition(is_end),
        ) {
            (true, Some(end)) => self.spool_up_to(end + 1),
            _ => Ok(()),
        }
    }

    fn spool_up_to(&mut self, end: usize) -> io::Result<()> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => none.insert(Spool::new_in(&env::temp_dir(), 0)?),
        };
        let gaps = self.gaps.partition_point(|gap| *gap < end);
        let mut pieces = Vec::with_capacity(end + 9 * (gaps + 1));
        let mut start = 0;
        for gap in &self.gaps[..gaps] {
            put_piece(&mut pieces, &self.text[start..*gap], Follows::Number);
            start = *gap;
        }
        put_piece(&mut pieces, &self.text[start..end], Follows::Nothing);
        spool.push(&pieces)?;
        self.spooled.push(pieces.len());
        self.text.drain(..end);
        self.gaps.drain(..gaps);
        self.gaps.iter_mut().for_each(|gap| *gap -= end);
        Ok(())
    }

    /// Writes all records, whole, and holds none any more.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or the output not be written.
    pub(crate) fn release(&mut self, output: &mut Output, xid: Option<u64>, resume: &str) -> io::Result<()> {
        let mut number = 0;
        if let Some(spool) = self.spool.take() {
            let mut start = 0;
            for size in std::mem::take(&mut self.spooled) {
                let mut pieces = vec![0; size];
                spool.read_exact_at(start, &mut pieces)?;
                start += size as u64;
                put_pieces(&pieces, &mut output.bytes, xid, &mut number);
                output.drain_if_full()?;
            }
        }
        let out = &mut output.bytes;
        let mut start = 0;
        for (index, gap) in self.gaps.iter().enumerate() {
            out.extend_from_slice(&self.text[start..*gap]);
            let last = if index + 1 == self.gaps.len() { Last::Yes } else { Last::No };
            put_number(out, xid, number, last);
            (start, number) = (*gap, number + 1);
        }
        out.extend_from_slice(&self.text[start..]);
        if !self.text.is_empty() {
            put_resume(out, resume);
        }
        self.text.clear();
        self.gaps.clear();
        output.drain_if_full()
    }
}

/// Puts where to go on into the record at the end.
pub(crate) fn put_resume(out: &mut Vec<u8>, resume: &str) {
    // Without its brace and line's end.
    out.truncate(out.len() - 2);
    out.extend_from_slice(b",\"resume\":");
    put_string(out, resume);
    out.extend_from_slice(b"}\n");
}

const fn is_end(byte: &u8) -> bool {
    *byte == b'\n'
}

/// Is it a transaction's last row?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Yes,
    No,
}

fn put_number(out: &mut Vec<u8>, xid: Option<u64>, number: u64, last: Last) {
    if let Some(xid) = xid {
        out.extend_from_slice(b",\"xid\":");
        put_integer(out, xid);
    }
    match last {
        Last::Yes => out.extend_from_slice(b",\"commit\":true"),
        Last::No => {
            out.extend_from_slice(b",\"xoffset\":");
            put_integer(out, number);
        }
    }
}

/// What comes behind a piece of text in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    Nothing,
    Number,
}

/// Bytes in front of each piece.
const PIECE_HEAD: usize = 9;

// size  field
//    1  1: the transaction's number follows
//    8  size of the text, little-endian
//    *  text
fn put_piece(out: &mut Vec<u8>, text: &[u8], follows: Follows) {
    out.push(u8::from(follows == Follows::Number));
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text);
}

fn put_pieces(pieces: &[u8], out: &mut Vec<u8>, xid: Option<u64>, number: &mut u64) {
    let mut rest = pieces;
    while let Some(([follows, size @ ..], behind)) = rest.split_first_chunk::<PIECE_HEAD>() {
        let (text, behind) = behind.split_at(u64::from_le_bytes(*size) as usize);
        out.extend_from_slice(text);
        if *follows == 1 {
            put_number(out, xid, *number, Last::No);
            *number += 1;
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io;
    use std::rc::Rc;

    use super::Held;
    use crate::output::{Output, To};

    #[derive(Clone, Default)]
    struct Written(Rc<RefCell<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Records of `size` bytes, with these of them rows.
    fn check(records: &[bool], size: usize, wanted: &[&str]) {
        let (mut held, written) = (Held::default(), Written::default());
        for is_row in records {
            held.text().extend_from_slice(b"{\"a\":0");
            if *is_row {
                held.number_here();
            }
            held.text().extend_from_slice(b",\"b\":\"");
            held.text().extend(std::iter::repeat_n(b'x', size));
            held.text().extend_from_slice(b"\"}\n");
            held.settle().unwrap();
        }
        let mut output = Output::new(To::Pipe(Box::new(written.clone()), None));
        held.release(&mut output, Some(7), "f:4").unwrap();
        output.finish().unwrap();
        let text = String::from_utf8(written.0.take()).unwrap().replace(&"x".repeat(size), "x");
        assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
        assert!(held.text.is_empty() && held.gaps.is_empty() && held.spool.is_none());
    }

    #[test]
    fn the_last_row_commits() {
        let wanted = [
            r#"{"a":0,"xid":7,"xoffset":0,"b":"x"}"#,
            r#"{"a":0,"xid":7,"xoffset":1,"b":"x"}"#,
            r#"{"a":0,"b":"x"}"#,
            r#"{"a":0,"xid":7,"commit":true,"b":"x","resume":"f:4"}"#,
        ];
        check(&[true, true, false, true], 10, &wanted);
        // So large that they go to a file, one by one and together.
        check(&[true, true, false, true], 20 << 20, &wanted);
        check(&[true, true, false, true], 6 << 20, &wanted);
        check(&[], 1, &[]);
        check(&[true], 1, &[r#"{"a":0,"xid":7,"commit":true,"b":"x","resume":"f:4"}"#]);
    }
}
