//! Maps positions of a rewritten log to those of the original log.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::LogError;
use crate::regular_file::open_regular;

/// Position list beside a log that was rewritten in place by `bintide compress` or `bintide receive --compress`. It has
/// a line for each transaction, in the order of the log, and a last line with the sizes of both logs. It is read from
/// front to back.
#[derive(Debug)]
pub struct RewritePositions {
    name: String,
    lines: BufReader<File>,
    line: String,
    /// Present transaction; `None` at the log's head.
    current: Option<PositionPair>,
    /// Next transaction, or the ends of both logs.
    next: PositionPair,
    is_last: bool,
}

/// Position in the original log and in the rewritten log, each in bytes from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionPair {
    /// Position in the original log.
    pub original: u64,
    /// Position in the rewritten log.
    pub rewritten: u64,
}

impl RewritePositions {
    /// Opens a list; returns `None` if it does not exist, or belongs to a log of another size than `log_size`.
    ///
    /// # Errors
    ///
    /// If the list cannot be read or is invalid.
    pub fn open(list: &Path, log_size: u64) -> Result<Option<Self>, LogError> {
        let name = list.display().to_string();
        let io = |verb| {
            let name = name.clone();
            move |cause| LogError::Io { verb, name, cause }
        };
        let mut file = match open_regular(list) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(io("open"))?,
        };
        let sizes = read_sizes(&mut file).map_err(io("read"))?;
        // A truncated list lacks this line: its log was not completed.
        if sizes.is_none_or(|sizes| sizes.rewritten != log_size) {
            return Ok(None);
        }
        let next = PositionPair { original: 0, rewritten: 0 };
        let lines = BufReader::new(file);
        let mut positions = Self { name, lines, line: String::new(), current: None, next, is_last: false };
        positions.read()?;
        Ok(Some(positions))
    }

    /// Advances to the last transaction that starts at or before the position `after` of the rewritten log. It never
    /// goes back.
    ///
    /// # Errors
    ///
    /// If the list cannot be read or is invalid.
    pub fn seek_rewritten(&mut self, after: u64) -> Result<Option<PositionPair>, LogError> {
        while !self.is_last && self.next.rewritten <= after {
            self.advance()?;
        }
        Ok(self.current)
    }

    /// Advances to the last transaction that starts before the position `before` of the original log. It never goes
    /// back.
    ///
    /// # Errors
    ///
    /// If the list cannot be read or is invalid.
    pub fn seek_original(&mut self, before: u64) -> Result<Option<PositionPair>, LogError> {
        while !self.is_last && self.next.original < before {
            self.advance()?;
        }
        Ok(self.current)
    }

    /// Returns the position in the original log of `after`, a position in the rewritten log between the present
    /// transaction and the next one. The bytes between transactions are the same in both logs.
    pub const fn to_original(&self, after: u64) -> u64 {
        self.next.original.saturating_sub(self.next.rewritten.saturating_sub(after))
    }

    /// Returns the position in the rewritten log of `before`, a position in the original log between the present
    /// transaction and the next one.
    pub const fn to_rewritten(&self, before: u64) -> u64 {
        self.next.rewritten.saturating_sub(self.next.original.saturating_sub(before))
    }

    fn advance(&mut self) -> Result<(), LogError> {
        self.current = Some(self.next);
        self.read()
    }

    fn read(&mut self) -> Result<(), LogError> {
        self.line.clear();
        let read = self.lines.read_line(&mut self.line);
        read.map_err(|cause| LogError::io("read", &self.name, cause))?;
        let line = self.line.trim_end();
        let (next, is_last) = match parse_sizes(line) {
            Some(sizes) => (sizes, true),
            None => {
                let invalid = || self.invalid_list(format!("line {line:?} is invalid"));
                (parse_pair(line).ok_or_else(invalid)?, false)
            }
        };
        if self.current.is_some_and(|this| next.original <= this.original || next.rewritten <= this.rewritten)
        {
            return Err(self.invalid_list(format!("line {line:?} is out of order")));
        }
        (self.next, self.is_last) = (next, is_last);
        Ok(())
    }

    fn invalid_list(&self, reason: String) -> LogError {
        LogError::InvalidPositionList { name: self.name.clone(), reason }
    }
}

/// Parses a line such as `1000\t600`.
fn parse_pair(line: &str) -> Option<PositionPair> {
    let (before, after) = line.split_once('\t')?;
    Some(PositionPair { original: before.parse().ok()?, rewritten: after.parse().ok()? })
}

/// Parses the last line, such as `# 1000 bytes became 600`.
fn parse_sizes(line: &str) -> Option<PositionPair> {
    let (before, after) = line.strip_prefix("# ")?.split_once(" bytes became ")?;
    Some(PositionPair { original: before.parse().ok()?, rewritten: after.parse().ok()? })
}

/// Reads the sizes of both logs from the last line, and goes back to the start.
fn read_sizes(file: &mut File) -> std::io::Result<Option<PositionPair>> {
    /// Number of bytes read at the end: more than the longest last line.
    const LINE_SIZE_MAX: u64 = 80;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(LINE_SIZE_MAX)))?;
    let mut end = Vec::new();
    file.take(LINE_SIZE_MAX).read_to_end(&mut end)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(String::from_utf8_lossy(&end).lines().next_back().and_then(parse_sizes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{PositionPair, RewritePositions};

    const LIST: &str = "126\t126\n400\t300\n500\t350\n# 900 bytes became 700\n";

    fn open(list: &str, size: u64) -> Option<RewritePositions> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("positions.b.000001");
        fs::write(&path, list).unwrap();
        RewritePositions::open(&path, size).unwrap()
    }

    #[test]
    fn lists_of_other_logs_are_none() {
        assert!(open(LIST, 700).is_some());
        assert!(open(LIST, 900).is_none());
        assert!(open("126\t126\n", 700).is_none());
        assert!(open("", 0).is_none());
        assert!(RewritePositions::open("nowhere".as_ref(), 1).unwrap().is_none());
    }

    #[test]
    fn positions_are_mapped_both_ways() {
        let moved = |before, after| Some(PositionPair { original: before, rewritten: after });
        let check = |after: u64, this: Option<PositionPair>, before: u64| {
            let mut list = open(LIST, 700).unwrap();
            assert_eq!(
                (list.seek_rewritten(after).unwrap(), list.to_original(after)),
                (this, before),
                "{after}"
            );
            let mut list = open(LIST, 700).unwrap();
            // A position between two transactions belongs to the earlier one.
            let is_start = this.is_some_and(|this| this.rewritten == after);
            if !is_start {
                assert_eq!(
                    (list.seek_original(before).unwrap(), list.to_rewritten(before)),
                    (this, after),
                    "{before}"
                );
            }
        };
        check(4, None, 4);
        check(126, moved(126, 126), 226);
        check(290, moved(126, 126), 390);
        check(349, moved(400, 300), 499);
        check(600, moved(500, 350), 800);
        let mut list = open(LIST, 700).unwrap();
        assert_eq!((list.seek_original(500).unwrap(), list.to_rewritten(500)), (moved(400, 300), 350));
    }

    #[test]
    fn invalid_lists_are_refused() {
        for (list, wanted) in
            [("x\n# 9 bytes became 7\n", "\"x\""), ("9\t9\n8\t10\n# 19 bytes became 17\n", "out of order")]
        {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("positions.b.000001");
            fs::write(&path, list).unwrap();
            let size = list.rsplit(' ').next().unwrap().trim_end().parse().unwrap();
            let error = RewritePositions::open(&path, size)
                .and_then(|list| list.unwrap().seek_rewritten(100))
                .unwrap_err();
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
}
