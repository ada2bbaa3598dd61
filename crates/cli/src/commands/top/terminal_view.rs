//! The view in a terminal.

use std::io;
use std::time::Duration;

use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};

use super::top_view::{TopSection, TopView};
use crate::exit::CommandFailure;
use crate::screen::visible;

/// The terminal, while it shows the view. Dropping this value restores the terminal's content.
pub(super) struct TerminalView {
    terminal: DefaultTerminal,
}

/// Effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    Nothing,
    Redraw,
    Quit,
}

impl TerminalView {
    pub(super) fn open() -> Result<Self, CommandFailure> {
        let terminal = ratatui::try_init().context("could not prepare the terminal");
        Ok(Self { terminal: terminal.map_err(CommandFailure::NotStarted)? })
    }

    pub(super) fn draw(&mut self, view: &TopView) -> io::Result<()> {
        self.terminal.draw(|frame| render(view, frame)).map(drop)
    }

    /// Waits for a key.
    pub(super) fn next_key(&self, timeout: Duration) -> io::Result<KeyAction> {
        if !event::poll(timeout)? {
            return Ok(KeyAction::Nothing);
        }
        Ok(match event::read()? {
            Event::Resize(..) => KeyAction::Redraw,
            Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
                KeyCode::Char('q') | KeyCode::Esc => KeyAction::Quit,
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => KeyAction::Quit,
                _ => KeyAction::Nothing,
            },
            _ => KeyAction::Nothing,
        })
    }
}

impl Drop for TerminalView {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Lines of a section besides its rows: heading, names of the columns, and an empty line.
const FRAME_LINES: u16 = 3;

/// Draws the view. From the top, each section gets the lines that it needs; the last section gets all remaining lines.
fn render(view: &TopView, frame: &mut Frame<'_>) {
    let [body, footer] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
    let sections = view.sections();
    let mut rest = body;
    for (index, section) in sections.iter().enumerate() {
        let needed = FRAME_LINES.saturating_add(u16::try_from(section.rows.len()).unwrap_or(u16::MAX));
        // Sections below also need lines for their first rows.
        let below =
            u16::try_from(sections.len() - 1 - index).unwrap_or(u16::MAX).saturating_mul(FRAME_LINES + 3);
        let height = needed.min(rest.height.saturating_sub(below).max(FRAME_LINES + 1)).min(rest.height);
        let (area, after) = split(rest, height);
        render_section(section, area, frame);
        rest = after;
    }
    frame.render_widget(Paragraph::new("q: quit"), footer);
}

fn split(area: Rect, height: u16) -> (Rect, Rect) {
    let [top, rest] = Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(area);
    (top, rest)
}

fn render_section(section: &TopSection, area: Rect, frame: &mut Frame<'_>) {
    if area.height == 0 {
        return;
    }
    let [heading, table] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(Line::styled(visible(&section.heading), bold)), heading);
    let cell = |column: &str, text: &str| {
        let alignment = if column.starts_with('>') { Alignment::Right } else { Alignment::Left };
        Cell::new(Text::from(visible(text)).alignment(alignment))
    };
    let names = section.columns.iter().map(|column| cell(column, column.trim_start_matches('>')));
    let rows = section
        .rows
        .iter()
        .map(|row| Row::new(section.columns.iter().zip(row).map(|(column, text)| cell(column, text))));
    let header = Row::new(names).style(Style::new().add_modifier(Modifier::UNDERLINED));
    let widths = (0..section.columns.len()).map(|index| column_width(section, index));
    frame.render_widget(Table::new(rows, widths).header(header).column_spacing(2), table);
}

/// Returns the width of a column: the width of its widest text. The last column gets the remaining width.
fn column_width(section: &TopSection, index: usize) -> Constraint {
    let width = |text: &str| u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
    let name = section.columns[index].trim_start_matches('>');
    let widest = section.rows.iter().filter_map(|row| row.get(index)).map(|text| width(text)).max();
    let widest = widest.unwrap_or_default().max(width(name));
    match index + 1 == section.columns.len() && !section.columns[index].starts_with('>') {
        true => Constraint::Min(widest.min(10)),
        false => Constraint::Length(widest),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use binlog::TransactionId;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::process_view::ProcessView;
    use super::super::store_activity::{RowActivity, StoreActivity, TransactionActivity};
    use super::super::store_watch::StoreView;
    use super::{TopView, render};

    fn view(tables: u64) -> TopView {
        let mut activity = StoreActivity::new(10);
        for number in 0..tables {
            let rows = RowActivity { rows: 20, bytes: 3000 - number };
            let tables = BTreeMap::from([(format!("shop.t{number}"), rows)]);
            let id = TransactionId::Anonymous;
            let transaction = TransactionActivity { id, commit_us: 98_000_000, bytes: 4000 + number, tables };
            activity.add(transaction, 100_000_000);
        }
        let process = ProcessView {
            address: "127.0.0.1:9104".to_owned(),
            command: Some("receive"),
            state: "ready".to_owned(),
            transactions_per_second: Some(12.0),
            bytes_per_second: Some(2e6),
            lag_seconds: Some(0.5),
        };
        let store = StoreView {
            path: "/var/lib/mysql/binlog.index".to_owned(),
            log_name: "binlog.000012".to_owned(),
            position: 4711,
            is_behind: false,
            activity: activity.summary(100_000_000),
        };
        TopView { store: Some(store), processes: vec![process] }
    }

    /// Returns the lines of a screen.
    fn screen(view: &TopView, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| render(view, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn all_sections_are_drawn() {
        let found = screen(&view(1), 80, 20);
        let expected = [
            "Processes",
            "process         command  transactions/s  bytes/s     lag  state",
            "127.0.0.1:9104  receive              12   2.0 MB  500 ms  ready",
            "",
            "/var/lib/mysql/binlog.index, last 10 s",
            "position            transactions/s  bytes/s  newest transaction",
            "binlog.000012:4711             0.1    400 B           2.0 s ago",
            "",
            "Tables",
            "table    rows/s  bytes/s",
            "shop.t0     2.0    300 B",
            "",
            "Largest transactions",
            "transaction    size  rows  committed  tables",
            "ANONYMOUS    4.0 kB    20  2.0 s ago  shop.t0",
            "",
            "",
            "",
            "",
            "q: quit",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn small_screens_show_the_start_of_each_section() {
        for height in 0..40 {
            let found = screen(&view(50), 60, height);
            if height >= 24 {
                let largest = found.iter().position(|line| line == "Largest transactions");
                let row = largest.and_then(|place| found.get(place + 2));
                assert!(row.is_some_and(|row| row.starts_with("ANONYMOUS")), "{height}: {found:#?}");
            }
        }
        for width in 0..30 {
            let _ = screen(&view(2), width, 24);
        }
    }
}
