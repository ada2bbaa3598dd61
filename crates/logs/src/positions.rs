//! Maps positions of a rewritten log to those of the original log.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::Error;
use crate::regular_file::open_regular;

/// Position list beside a log that was rewritten in place by `bintide compress` or `bintide receive --compress`. It has
/// a line for each transaction, in the order of the log, and a last line with the sizes of both logs. It is read from
/// front to back.
#[derive(Debug)]
pub struct Positions {
    name: String,
    lines: BufReader<File>,
    line: String,
    /// Present transaction; `None` at the log's head.
    this: Option<Moved>,
    /// Next transaction, or the ends of both logs.
    next: Moved,
    is_last: bool,
}

/// Position in the original log and in the rewritten log, each in bytes from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Position in the original log.
    pub before: u64,
    /// Position in the rewritten log.
    pub after: u64,
}

impl Positions {
    /// Opens a list; returns `None` if it does not exist, or belongs to a log of another size than `log_size`.
    ///
    /// # Errors
    ///
    /// If the list cannot be read or is invalid.
    pub fn open(list: &Path, log_size: u64) -> Result<Option<Self>, Error> {
        let name = list.display().to_string();
        let io = |verb| {
            let name = name.clone();
            move |cause| Error::Io { verb, name, cause }
        };
        let mut file = match open_regular(list) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(io("open"))?,
        };
        let sizes = last_line(&mut file).map_err(io("read"))?;
        // A truncated list lacks this line: its log was not completed.
        if sizes.is_none_or(|sizes| sizes.after != log_size) {
            return Ok(None);
        }
        let next = Moved { before: 0, after: 0 };
        let lines = BufReader::new(file);
        let mut positions = Self { name, lines, line: String::new(), this: None, next, is_last: false };
        positions.read()?;
        Ok(Some(positions))
    }

    /// Advances to the last transaction that starts at or before the position `after` of the rewritten log. It never
    /// goes back.
    ///
    /// # Errors
    ///
    /// If the list cannot be read or is invalid.
    pub fn go_to(&mut self, after: u64) -> Result<Option<Moved>, Error> {
        while !self.is_last && self.next.after <= after {
            self.advance()?;
        }
        Ok(self.this)
    }

    /// Advances to the last transaction that starts before the position `before` of the original log. It never goes
    /// back.
    ///
    /// # Errors
    ///
    /// If the list cannot be read or is invalid.
    pub fn find(&mut self, before: u64) -> Result<Option<Moved>, Error> {
        while !self.is_last && self.next.before < before {
            self.advance()?;
        }
        Ok(self.this)
    }

    /// Returns the position in the original log of `after`, a position in the rewritten log between the present
    /// transaction and the next one. The bytes between transactions are the same in both logs.
    pub const fn before(&self, after: u64) -> u64 {
        self.next.before.saturating_sub(self.next.after.saturating_sub(after))
    }

    /// Returns the position in the rewritten log of `before`, a position in the original log between the present
    /// transaction and the next one.
    pub const fn after(&self, before: u64) -> u64 {
        self.next.after.saturating_sub(self.next.before.saturating_sub(before))
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.this = Some(self.next);
        self.read()
    }

    fn read(&mut self) -> Result<(), Error> {
        self.line.clear();
        let read = self.lines.read_line(&mut self.line);
        read.map_err(|cause| Error::io("read", &self.name, cause))?;
        let line = self.line.trim_end();
        let (next, is_last) = match sizes(line) {
            Some(sizes) => (sizes, true),
            None => {
                let bad = || self.bad(format!("line {line:?} is invalid"));
                (starts(line).ok_or_else(bad)?, false)
            }
        };
        if self.this.is_some_and(|this| next.before <= this.before || next.after <= this.after) {
            return Err(self.bad(format!("line {line:?} is out of order")));
        }
        (self.next, self.is_last) = (next, is_last);
        Ok(())
    }

    fn bad(&self, reason: String) -> Error {
        Error::Positions { name: self.name.clone(), reason }
    }
}

/// Parses a line such as `1000\t600`.
fn starts(line: &str) -> Option<Moved> {
    let (before, after) = line.split_once('\t')?;
    Some(Moved { before: before.parse().ok()?, after: after.parse().ok()? })
}

/// Parses the last line, such as `# 1000 bytes became 600`.
fn sizes(line: &str) -> Option<Moved> {
    let (before, after) = line.strip_prefix("# ")?.split_once(" bytes became ")?;
    Some(Moved { before: before.parse().ok()?, after: after.parse().ok()? })
}

/// Reads the sizes of both logs from the last line, and goes back to the start.
fn last_line(file: &mut File) -> std::io::Result<Option<Moved>> {
    /// Number of bytes read at the end: more than the longest last line.
    const LINE_SIZE_MAX: u64 = 80;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(LINE_SIZE_MAX)))?;
    let mut end = Vec::new();
    file.take(LINE_SIZE_MAX).read_to_end(&mut end)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(String::from_utf8_lossy(&end).lines().next_back().and_then(sizes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Moved, Positions};

    const LIST: &str = "126\t126\n400\t300\n500\t350\n# 900 bytes became 700\n";

    fn open(list: &str, size: u64) -> Option<Positions> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("positions.b.000001");
        fs::write(&path, list).unwrap();
        Positions::open(&path, size).unwrap()
    }

    #[test]
    fn lists_of_other_logs_are_none() {
        assert!(open(LIST, 700).is_some());
        assert!(open(LIST, 900).is_none());
        assert!(open("126\t126\n", 700).is_none());
        assert!(open("", 0).is_none());
        assert!(Positions::open("nowhere".as_ref(), 1).unwrap().is_none());
    }

    #[test]
    fn places_before_and_now() {
        let moved = |before, after| Some(Moved { before, after });
        let check = |after: u64, this: Option<Moved>, before: u64| {
            let mut list = open(LIST, 700).unwrap();
            assert_eq!((list.go_to(after).unwrap(), list.before(after)), (this, before), "{after}");
            let mut list = open(LIST, 700).unwrap();
            // A position between two transactions belongs to the earlier one.
            let is_start = this.is_some_and(|this| this.after == after);
            if !is_start {
                assert_eq!((list.find(before).unwrap(), list.after(before)), (this, after), "{before}");
            }
        };
        check(4, None, 4);
        check(126, moved(126, 126), 226);
        check(290, moved(126, 126), 390);
        check(349, moved(400, 300), 499);
        check(600, moved(500, 350), 800);
        let mut list = open(LIST, 700).unwrap();
        assert_eq!((list.find(500).unwrap(), list.after(500)), (moved(400, 300), 350));
    }

    #[test]
    fn lists_that_are_none_are_refused() {
        for (list, wanted) in
            [("x\n# 9 bytes became 7\n", "\"x\""), ("9\t9\n8\t10\n# 19 bytes became 17\n", "out of order")]
        {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("positions.b.000001");
            fs::write(&path, list).unwrap();
            let size = list.rsplit(' ').next().unwrap().trim_end().parse().unwrap();
            let error = Positions::open(&path, size).and_then(|list| list.unwrap().go_to(100)).unwrap_err();
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
}
