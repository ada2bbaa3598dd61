//! The view as tables of text.

use serde::Serialize;

use super::process_view::ProcessView;
use super::store_activity::ActivitySummary;
use super::store_watch::StoreView;
use crate::screen::{ReportStyle, table_lines, visible};
use crate::units;

/// State of all watched processes and stores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct TopView {
    pub(super) store: Option<StoreView>,
    pub(super) processes: Vec<ProcessView>,
}

/// A table with a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopSection {
    pub(super) heading: String,
    /// A name that starts with `>` marks a column of numbers.
    pub(super) columns: &'static [&'static str],
    pub(super) rows: Vec<Vec<String>>,
}

impl TopView {
    /// Returns the tables.
    pub(super) fn sections(&self) -> Vec<TopSection> {
        let mut sections = Vec::new();
        if !self.processes.is_empty() {
            sections.push(TopSection {
                heading: "Processes".to_owned(),
                columns: &["process", "command", ">transactions/s", ">bytes/s", ">lag", "state"],
                rows: self.processes.iter().map(process_row).collect(),
            });
        }
        if let Some(store) = &self.store {
            sections.push(store_section(store));
            sections.extend(activity_sections(&store.activity));
        }
        sections
    }

    /// Returns the tables as text.
    pub(super) fn text(&self, style: ReportStyle) -> String {
        let sections = self.sections();
        let tables: Vec<(&str, String)> = sections
            .iter()
            .map(|section| {
                let mut table = style.table(section.columns);
                for row in &section.rows {
                    table.add_row(row.iter().map(|cell| visible(cell)));
                }
                (section.heading.as_str(), table_lines(&table))
            })
            .collect();
        style.sections(&tables)
    }
}

fn process_row(process: &ProcessView) -> Vec<String> {
    vec![
        process.address.clone(),
        process.command.unwrap_or("-").to_owned(),
        process.transactions_per_second.map_or_else(unknown, rate),
        process.bytes_per_second.map_or_else(unknown, bytes_rate),
        process.lag_seconds.map_or_else(unknown, time),
        process.state.clone(),
    ]
}

fn store_section(store: &StoreView) -> TopSection {
    let activity = &store.activity;
    let position = format!("{}:{}", store.log_name, store.position);
    let reading = if store.is_behind { " (reading)" } else { "" };
    TopSection {
        heading: format!("{}, last {} s", store.path, activity.window_seconds),
        columns: &["position", ">transactions/s", ">bytes/s", ">newest transaction"],
        rows: vec![vec![
            position + reading,
            rate(activity.transactions_per_second),
            bytes_rate(activity.bytes_per_second),
            activity.newest_age_seconds.map_or_else(unknown, |age| format!("{} ago", time(age))),
        ]],
    }
}

fn activity_sections(activity: &ActivitySummary) -> [TopSection; 2] {
    let tables = activity.tables.iter().map(|table| {
        vec![table.table.clone(), rate(table.rows_per_second), bytes_rate(table.bytes_per_second)]
    });
    let largest = activity.largest.iter().map(|transaction| {
        vec![
            transaction.gtid.clone(),
            units::bytes(transaction.bytes),
            units::count(transaction.rows),
            format!("{} ago", time(transaction.age_seconds)),
            transaction.tables.join(", "),
        ]
    });
    [
        TopSection {
            heading: "Tables".to_owned(),
            columns: &["table", ">rows/s", ">bytes/s"],
            rows: tables.collect(),
        },
        TopSection {
            heading: "Largest transactions".to_owned(),
            columns: &["transaction", ">size", ">rows", ">committed", "tables"],
            rows: largest.collect(),
        },
    ]
}

fn unknown() -> String {
    "-".to_owned()
}

/// Formats a rate: with a decimal below 10.
fn rate(value: f64) -> String {
    match value < 9.95 {
        true => format!("{value:.1}"),
        false => units::count(value.round() as u64),
    }
}

fn bytes_rate(value: f64) -> String {
    units::bytes(value.round() as u64)
}

fn time(seconds: f64) -> String {
    units::duration(std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
