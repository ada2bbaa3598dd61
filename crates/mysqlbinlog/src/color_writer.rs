//! Colour for terminals. The text without the escape sequences stays the same.

use std::io::{self, Write};

use crate::list_provider::{ListLayout, ListLines};

/// Kind of output: a terminal or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalOutput {
    Yes,
    No,
}

/// Mode of colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ColorMode {
    /// On a terminal, unless the environment variable `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// Kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PaintStyle {
    /// mysqlbinlog's text: comments and rows are coloured.
    Text,
    /// A table with tabs between columns: the header and these columns, from 0, are coloured.
    Table(&'static [usize]),
    /// JSON lines: names and strings are coloured.
    Json,
}

impl PaintStyle {
    /// Returns the style for a list, or for mysqlbinlog's text; `None` without colour.
    pub(crate) fn choose(
        list: Option<ListLayout>,
        color: ColorMode,
        terminal: TerminalOutput,
    ) -> Option<Self> {
        let no_color = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_colored = match color {
            ColorMode::Always => true,
            ColorMode::Never => false,
            ColorMode::Auto => terminal == TerminalOutput::Yes && !no_color(),
        };
        is_colored.then_some(match list.map(|list| list.lines) {
            None => Self::Text,
            Some(ListLines::Table { key_columns }) => Self::Table(key_columns),
            Some(ListLines::Json) => Self::Json,
        })
    }
}

const RESET: &[u8] = b"\x1b[0m";
const BOLD: &[u8] = b"\x1b[1m";
const DIM: &[u8] = b"\x1b[2m";
const GREEN: &[u8] = b"\x1b[32m";
const CYAN: &[u8] = b"\x1b[36m";

/// Writes text with colour. Text may arrive in pieces of any size.
pub(crate) struct ColorWriter<'o> {
    out: &'o mut (dyn Write + Send),
    state: PaintState,
    /// Current colour.
    colour: Option<&'static [u8]>,
    painted: Vec<u8>,
}

/// State of the coloured text.
enum PaintState {
    Text { in_line: Vec<u8> },
    Table { columns: &'static [usize], column: usize, in_head: bool },
    Json(JsonPaintState),
}

/// State of a JSON parser.
#[derive(Default)]
struct JsonPaintState {
    /// The enclosing arrays and objects: true for an object.
    open: Vec<bool>,
    in_string: bool,
    is_escaped: bool,
    /// The next string is a member's name.
    at_name: bool,
}

impl<'o> ColorWriter<'o> {
    /// Starts at the beginning of the text.
    pub(crate) fn new(style: PaintStyle, out: &'o mut (dyn Write + Send)) -> Self {
        let brush = match style {
            PaintStyle::Text => PaintState::Text { in_line: Vec::new() },
            PaintStyle::Table(columns) => PaintState::Table { columns, column: 0, in_head: true },
            PaintStyle::Json => PaintState::Json(JsonPaintState::default()),
        };
        Self { out, state: brush, colour: None, painted: Vec::new() }
    }

    fn paint(&mut self, byte: u8) {
        let (before, after) = self.state.colours(byte);
        self.switch(before);
        self.painted.push(byte);
        self.switch(after);
    }

    fn switch(&mut self, colour: Option<&'static [u8]>) {
        if self.colour != colour {
            if self.colour.is_some() {
                self.painted.extend_from_slice(RESET);
            }
            self.painted.extend_from_slice(colour.unwrap_or_default());
            self.colour = colour;
        }
    }
}

impl Write for ColorWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.painted.clear();
        bytes.iter().for_each(|byte| self.paint(*byte));
        self.out.write_all(&self.painted)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl PaintState {
    /// Returns the colour of a byte, and the colour after it.
    fn colours(&mut self, byte: u8) -> (Option<&'static [u8]>, Option<&'static [u8]>) {
        let (colour, ends) = match self {
            Self::Text { in_line } => (text_colour(in_line, byte), byte == b'\n'),
            Self::Table { columns, column, in_head } => {
                let colour = match byte {
                    b'\t' | b'\n' => None,
                    _ if *in_head => Some(BOLD),
                    _ => columns.contains(column).then_some(CYAN),
                };
                match byte {
                    b'\t' => *column += 1,
                    b'\n' => (*column, *in_head) = (0, false),
                    _ => {}
                }
                (colour, byte == b'\n')
            }
            Self::Json(json) => (json.colour(byte), byte == b'\n'),
        };
        let colour = if byte == b'\n' { None } else { colour };
        (colour, if ends { None } else { colour })
    }
}

/// Returns green for rows and dim for other comments. The first three bytes of a line decide.
fn text_colour(in_line: &mut Vec<u8>, byte: u8) -> Option<&'static [u8]> {
    if byte == b'\n' {
        in_line.clear();
        return None;
    }
    if in_line.len() < 3 {
        in_line.push(byte);
    }
    match in_line.as_slice() {
        [b'#', b'#', ..] => Some(GREEN),
        [b'#', ..] => Some(DIM),
        _ => None,
    }
}

impl JsonPaintState {
    fn colour(&mut self, byte: u8) -> Option<&'static [u8]> {
        let string = if self.at_name { Some(CYAN) } else { Some(GREEN) };
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return string;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                return string;
            }
            b'{' | b'[' => {
                self.open.push(byte == b'{');
                self.at_name = byte == b'{';
            }
            b'}' | b']' => {
                self.open.pop();
                self.at_name = false;
            }
            b',' => self.at_name = self.open.last() == Some(&true),
            b':' => self.at_name = false,
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{ColorWriter, PaintStyle};

    #[test]
    fn tables_json_and_text_are_coloured() {
        check(PaintStyle::Table(&[1]), "A\tB\nx\ty\tz\n", "<1>A<0>\t<1>B<0>\nx\t<36>y<0>\tz\n");
        check(
            PaintStyle::Json,
            r#"{"a":["b\"",1],"c":{}}"#,
            r#"{<36>"a"<0>:[<32>"b\""<0>,1],<36>"c"<0>:{}}"#,
        );
        check(
            PaintStyle::Text,
            "# at 4\n### x\nBEGIN\n#\n",
            "<2># at 4<0>\n<2>#<0><32>## x<0>\nBEGIN\n<2>#<0>\n",
        );
    }

    #[track_caller]
    fn check(style: PaintStyle, text: &str, expected: &str) {
        for piece in [1, 2, 100] {
            let mut out = Vec::new();
            let mut writer = ColorWriter::new(style, &mut out);
            text.as_bytes().chunks(piece).for_each(|piece| writer.write_all(piece).unwrap());
            let shown = String::from_utf8(out).unwrap().replace("\x1b[", "<").replace('m', ">");
            assert_eq!(shown, expected, "{piece}");
        }
    }
}
