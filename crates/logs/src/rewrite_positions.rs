//! Mapping of positions between a rewritten log and the original log.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::LogError;
use crate::regular_file::open_regular;

/// Positions of a log's transactions before it was rewritten in place, by `bintide compress`, `bintide decompress` or
/// `bintide receive --compress`. A log that was rewritten several times has one list beside it for each time. The lists
/// are read sequentially.
#[derive(Debug)]
pub struct RewritePositions {
    /// The lists, oldest first: each list maps to the log from which the next list starts.
    lists: Vec<PositionList>,
}

/// Position in the original log and in the rewritten log, each in bytes from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionPair {
    /// Position in the original log.
    pub original: u64,
    /// Position in the rewritten log.
    pub rewritten: u64,
}

/// Sizes of a rewritten log and of the original log: the last line of a list. Its text is
/// `# 1000 bytes became 600`, and `# 1512 bytes became 600, with encryption headers of 512 and 0` if one of the logs is
/// encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewrittenSizes {
    /// Sizes of both files in bytes. The list is for a log whose file has this size.
    pub files: PositionPair,
    /// Sizes of the headers of encrypted files in bytes, which no position includes; 0 if a file is not encrypted.
    pub headers: PositionPair,
}

impl RewrittenSizes {
    /// Parses the last line of a list.
    fn parse(line: &str) -> Option<Self> {
        let (files, headers) = match line.strip_prefix("# ")?.split_once(", with encryption headers of ") {
            Some((files, headers)) => (files, PositionPair::parse(headers, " and ")?),
            None => (line.strip_prefix("# ")?, PositionPair { original: 0, rewritten: 0 }),
        };
        Some(Self { files: PositionPair::parse(files, " bytes became ")?, headers })
    }

    /// Returns the positions at which the logs end.
    const fn ends(self) -> PositionPair {
        PositionPair {
            original: self.files.original.saturating_sub(self.headers.original),
            rewritten: self.files.rewritten.saturating_sub(self.headers.rewritten),
        }
    }
}

impl fmt::Display for RewrittenSizes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, headers } = self;
        write!(out, "# {} bytes became {}", files.original, files.rewritten)?;
        if headers.original > 0 || headers.rewritten > 0 {
            write!(out, ", with encryption headers of {} and {}", headers.original, headers.rewritten)?;
        }
        Ok(())
    }
}

impl PositionPair {
    /// Parses two numbers with this text between them.
    fn parse(text: &str, separator: &str) -> Option<Self> {
        let (original, rewritten) = text.split_once(separator)?;
        Some(Self { original: original.parse().ok()?, rewritten: rewritten.parse().ok()? })
    }
}

/// Returns the path of a log's first list of positions: beside the log, with the prefix `positions.`. A pattern for the
/// logs' common prefix thus does not match the list.
pub fn positions_path(log: &Path) -> PathBuf {
    let mut name = OsString::from("positions.");
    name.push(log.file_name().unwrap_or_default());
    log.with_file_name(name)
}

/// Returns the path of file number `number`, from 1, among files that must not overwrite each other: `path`, `path.2`,
/// `path.3`…
pub fn numbered_path(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if number > 1 {
        name.push(format!(".{number}"));
    }
    name.into()
}

impl RewritePositions {
    /// Opens the lists beside `log`, whose file has `file_size` bytes. Returns `None` if no list is for this file: the
    /// log was not rewritten, or was replaced since.
    ///
    /// # Errors
    ///
    /// Fails if a list cannot be read or is invalid.
    pub fn open(log: &Path, file_size: u64) -> Result<Option<Self>, LogError> {
        let mut found = Vec::new();
        for number in 1.. {
            let Some(list) = PositionList::open(&numbered_path(&positions_path(log), number))? else { break };
            found.push(list);
        }
        // The last list is for this file. Each earlier list is for the file from which the next list starts.
        let (mut lists, mut size) = (Vec::new(), file_size);
        for list in found.into_iter().rev() {
            if let Some(sizes) = list.sizes.filter(|sizes| sizes.files.rewritten == size) {
                size = sizes.files.original;
                lists.push(list);
            }
        }
        lists.reverse();
        let leads_on = |pair: &[PositionList]| {
            let [one, next] = pair else { return false };
            one.sizes.zip(next.sizes).is_some_and(|(one, next)| one.files.rewritten == next.files.original)
        };
        assert!(lists.windows(2).all(leads_on), "ours: each list is chosen by the size of its rewritten log");
        for list in &mut lists {
            list.read()?;
        }
        Ok((!lists.is_empty()).then_some(Self { lists }))
    }

    /// Advances to the last transaction that starts at or before the position `after` of the rewritten log. Never goes
    /// back.
    ///
    /// # Errors
    ///
    /// Fails if a list cannot be read or is invalid.
    pub fn seek_rewritten(&mut self, after: u64) -> Result<Option<PositionPair>, LogError> {
        let (mut start, mut rewritten) = (after, None);
        for list in self.lists.iter_mut().rev() {
            let Some(this) = list.seek_rewritten(start)? else { return Ok(None) };
            if rewritten.is_some() && this.rewritten != start {
                return Err(list.unlisted_start(start));
            }
            start = this.original;
            rewritten.get_or_insert(this.rewritten);
        }
        Ok(rewritten.map(|rewritten| PositionPair { original: start, rewritten }))
    }

    /// Advances to the last transaction that starts before the position `before` of the original log. Never goes back.
    ///
    /// # Errors
    ///
    /// Fails if a list cannot be read or is invalid.
    pub fn seek_original(&mut self, before: u64) -> Result<Option<PositionPair>, LogError> {
        let (mut limit, mut original, mut rewritten) = (before, None, 0);
        for list in &mut self.lists {
            let Some(this) = list.seek_original(limit)? else { return Ok(None) };
            if original.is_some() && this.original != rewritten {
                return Err(list.unlisted_start(rewritten));
            }
            rewritten = this.rewritten;
            original.get_or_insert(this.original);
            // Find the same transaction in the next list.
            limit = rewritten.saturating_add(1);
        }
        Ok(original.map(|original| PositionPair { original, rewritten }))
    }

    /// Returns the position in the original log of `after`, a position in the rewritten log between the present
    /// transaction and the next one. The bytes between transactions are equal in both logs. A position beyond the log's
    /// end stays beyond the end.
    pub fn to_original(&self, after: u64) -> u64 {
        self.lists.iter().rev().fold(after, |after, list| list.to_original(after))
    }

    /// Returns the position in the rewritten log of `before`, a position in the original log between the present
    /// transaction and the next one, or beyond the log's end.
    pub fn to_rewritten(&self, before: u64) -> u64 {
        self.lists.iter().fold(before, |before, list| list.to_rewritten(before))
    }

    /// Returns the sizes of the original log's file, and of its header if it was encrypted, in bytes.
    pub fn original_sizes(&self) -> [u64; 2] {
        let sizes = self.lists.first().and_then(|list| list.sizes);
        let Some(sizes) = sizes else { unreachable!("ours: a list is chosen by its sizes") };
        [sizes.files.original, sizes.headers.original]
    }

    /// Advances to the transaction at the position `start` of the rewritten log, and returns the position of the same
    /// event in the original log. The result is exact for the first event of a transaction, and for events between
    /// transactions.
    ///
    /// # Errors
    ///
    /// Fails if a list cannot be read or is invalid.
    pub fn original_start(&mut self, start: u64) -> Result<u64, LogError> {
        Ok(match self.seek_rewritten(start)? {
            Some(this) if this.rewritten == start => this.original,
            // If the transaction's size has changed, later events start at or after the transaction's start.
            Some(this) => self.to_original(start).max(this.original),
            None => self.to_original(start),
        })
    }
}

/// List of one rewrite of a log. Has a line for each transaction, in the order of the log, and a last line with the
/// sizes of both files.
#[derive(Debug)]
struct PositionList {
    name: String,
    lines: BufReader<File>,
    line: String,
    /// Sizes of both files. A truncated list lacks them, because its log was not completed.
    sizes: Option<RewrittenSizes>,
    /// Present transaction; `None` at the log's head.
    current: Option<PositionPair>,
    /// Next transaction, or the ends of both logs.
    next: PositionPair,
    is_last: bool,
}

impl PositionList {
    /// Opens a list; `None` if it does not exist.
    fn open(list: &Path) -> Result<Option<Self>, LogError> {
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
        let next = PositionPair { original: 0, rewritten: 0 };
        let lines = BufReader::new(file);
        Ok(Some(Self { name, lines, line: String::new(), sizes, current: None, next, is_last: false }))
    }

    fn seek_rewritten(&mut self, after: u64) -> Result<Option<PositionPair>, LogError> {
        while !self.is_last && self.next.rewritten <= after {
            self.advance()?;
        }
        assert!(
            self.is_last || after < self.next.rewritten,
            "ours: the next transaction starts after the position"
        );
        Ok(self.current)
    }

    fn seek_original(&mut self, before: u64) -> Result<Option<PositionPair>, LogError> {
        while !self.is_last && self.next.original < before {
            self.advance()?;
        }
        assert!(
            self.is_last || before <= self.next.original,
            "ours: the next transaction starts after the position"
        );
        Ok(self.current)
    }

    const fn to_original(&self, after: u64) -> u64 {
        match self.next.rewritten.checked_sub(after) {
            Some(distance) => self.next.original.saturating_sub(distance),
            None => self.next.original.saturating_add(after - self.next.rewritten),
        }
    }

    const fn to_rewritten(&self, before: u64) -> u64 {
        match self.next.original.checked_sub(before) {
            Some(distance) => self.next.rewritten.saturating_sub(distance),
            None => self.next.rewritten.saturating_add(before - self.next.original),
        }
    }

    fn advance(&mut self) -> Result<(), LogError> {
        assert!(!self.is_last, "ours: no transaction follows the end of the logs");
        self.current = Some(self.next);
        self.read()
    }

    fn read(&mut self) -> Result<(), LogError> {
        self.line.clear();
        let read = self.lines.read_line(&mut self.line);
        read.map_err(|cause| LogError::io("read", &self.name, cause))?;
        let line = self.line.trim_end();
        let (next, is_last) = match RewrittenSizes::parse(line) {
            Some(sizes) => (sizes.ends(), true),
            None => {
                let invalid = || self.invalid_list(format!("line {line:?} is invalid"));
                (PositionPair::parse(line, "\t").ok_or_else(invalid)?, false)
            }
        };
        if self.current.is_some_and(|this| next.original <= this.original || next.rewritten <= this.rewritten)
        {
            return Err(self.invalid_list(format!("line {line:?} is out of order")));
        }
        (self.next, self.is_last) = (next, is_last);
        Ok(())
    }

    /// Returns the error for a transaction in the adjacent list that this list lacks.
    fn unlisted_start(&self, start: u64) -> LogError {
        self.invalid_list(format!("it lacks the transaction at {start}, which another list of this log has"))
    }

    fn invalid_list(&self, reason: String) -> LogError {
        LogError::InvalidPositionList { name: self.name.clone(), reason }
    }
}

/// Reads the sizes of both logs from the last line, and goes back to the start.
fn read_sizes(file: &mut File) -> std::io::Result<Option<RewrittenSizes>> {
    /// Number of bytes read at the end: more than the longest last line.
    const LINE_SIZE_MAX: u64 = 160;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(LINE_SIZE_MAX)))?;
    let mut end = Vec::new();
    file.take(LINE_SIZE_MAX).read_to_end(&mut end)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(String::from_utf8_lossy(&end).lines().next_back().and_then(RewrittenSizes::parse))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{PositionPair, RewritePositions, numbered_path, positions_path};

    const LIST: &str = "126\t126\n400\t300\n500\t350\n# 900 bytes became 700\n";

    fn open(list: &str, size: u64) -> Option<RewritePositions> {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("b.000001");
        fs::write(positions_path(&log), list).unwrap();
        RewritePositions::open(&log, size).unwrap()
    }

    #[test]
    fn lists_of_other_logs_are_ignored() {
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
    fn headers_of_encrypted_logs_are_no_part_of_positions() {
        let list = "126\t126\n400\t300\n# 1412 bytes became 700, with encryption headers of 512 and 0\n";
        let mut list = open(list, 700).unwrap();
        list.seek_rewritten(600).unwrap();
        assert_eq!((list.to_original(600), list.to_original(700), list.to_rewritten(850)), (800, 900, 650));
    }

    #[test]
    fn lists_of_several_rewrites_are_followed_to_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("b.000001");
        // The source had compressed the second transaction: decompressed, compressed, decompressed again.
        for (number, list) in [
            (1, "126\t126\n400\t400\n500\t900\n# 900 bytes became 1300\n"),
            (2, "126\t126\n400\t300\n900\t350\n# 1300 bytes became 700\n"),
            (3, "126\t126\n300\t400\n350\t900\n# 700 bytes became 1300\n"),
        ] {
            fs::write(numbered_path(&positions_path(&log), number), list).unwrap();
        }
        let check = |size: u64, pairs: &[(u64, u64)]| {
            let (mut forward, mut back) =
                (RewritePositions::open(&log, size).unwrap().unwrap(), RewritePositions::open(&log, size));
            let back = back.as_mut().unwrap().as_mut().unwrap();
            for (original, rewritten) in pairs {
                assert_eq!(forward.original_start(*rewritten).unwrap(), *original, "{size}: {rewritten}");
                back.seek_original(*original).unwrap();
                assert_eq!(back.to_rewritten(*original), *rewritten, "{size}: {original}");
            }
            back.seek_original(950).unwrap();
            assert_eq!(
                (back.to_rewritten(950), forward.to_original(size + 50)),
                (size + 50, 950),
                "positions beyond the end"
            );
        };
        check(1300, &[(4, 4), (126, 126), (400, 400), (500, 900), (880, 1280)]);
        check(700, &[(4, 4), (126, 126), (400, 300), (500, 350), (880, 680)]);
        assert!(
            RewritePositions::open(&log, 900).unwrap().is_none(),
            "the list does not apply to the source's own log"
        );
    }

    #[test]
    fn invalid_lists_are_refused() {
        for (list, expected) in [
            ("x\n# 9 bytes became 7\n", "line \"x\" is invalid"),
            ("9\t9\n8\t10\n# 19 bytes became 17\n", "line \"8\\t10\" is out of order"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let log = directory.path().join("b.000001");
            let path = positions_path(&log);
            fs::write(&path, list).unwrap();
            let size = list.rsplit(' ').next().unwrap().trim_end().parse().unwrap();
            let error = RewritePositions::open(&log, size)
                .and_then(|list| list.unwrap().seek_rewritten(100))
                .unwrap_err();
            assert_eq!(
                error.to_string().replace(path.to_str().unwrap(), "LIST"),
                format!(
                    "LIST is not a position list of a rewritten log: {expected}. \
                     Remove the file to use the log's own positions"
                )
            );
        }
    }

    #[test]
    fn lists_of_one_log_have_the_same_transactions() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("b.000001");
        let list = |number| numbered_path(&positions_path(&log), number);
        fs::write(list(1), "126\t126\n400\t400\n# 900 bytes became 1300\n").unwrap();
        fs::write(list(2), "126\t126\n450\t300\n# 1300 bytes became 700\n").unwrap();
        let mut positions = RewritePositions::open(&log, 700).unwrap().unwrap();
        let error = positions.seek_rewritten(350).unwrap_err().to_string();
        assert_eq!(
            error.replace(list(1).to_str().unwrap(), "LIST"),
            "LIST is not a position list of a rewritten log: it lacks the transaction at 450, which another list of \
             this log has. Remove the file to use the log's own positions"
        );
    }
}
