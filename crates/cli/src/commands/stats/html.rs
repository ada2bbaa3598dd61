//! The report as one page that needs nothing else: no script, no font, no picture from elsewhere.

use std::fmt::Write as _;
use std::time::Duration;

use inspect::stats::{Change, Counts, Moment, Report, Series, TableAmounts, TransactionReport};
use jiff::tz::TimeZone;

use crate::units::{bytes, bytes_of_two, count, duration, share};

/// Tables drawn; of more, the largest.
const TABLES_DRAWN: usize = 20;

/// Of the drawings, in units that scale with the page.
const WIDTH: f64 = 900.0;

/// The whole page.
pub(crate) fn render(report: &Report, zone: &TimeZone) -> String {
    let names: Vec<&str> = report.logs.iter().map(|log| log.name.as_str()).collect();
    let title = match names.as_slice() {
        [name] => (*name).to_owned(),
        several => format!("{} logs", several.len()),
    };
    let sections = [
        ("In all", summary(report, zone)),
        ("Over time: transactions", rate(&report.rate, zone, |counts| counts.transactions, count)),
        ("Over time: bytes before compression", rate(&report.rate, zone, |counts| counts.bytes, bytes)),
        ("Tables, by bytes of rows events", tables(&report.tables)),
        ("Transactions by size, before compression", sizes(report)),
        ("Compression", compression(report)),
        ("Largest transactions", transactions(&report.largest, zone)),
        ("Longest transactions", transactions(&report.longest, zone)),
        ("Logs", logs(report)),
    ];
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>bintide stats: {title}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n",
        include_str!("page.css"),
        title = escaped(&title)
    );
    for (name, section) in sections.iter().filter(|(_, section)| !section.is_empty()) {
        let _ = writeln!(page, "<section>\n<h2>{name}</h2>\n{section}</section>");
    }
    page + "</body>\n</html>\n"
}

fn summary(report: &Report, zone: &TimeZone) -> String {
    let totals = &report.totals;
    let rows = &totals.changes;
    let mut pairs = vec![
        ("Transactions", count(totals.transactions)),
        ("compressed", count(totals.transactions_compressed)),
        ("Bytes", bytes(totals.bytes)),
        ("before compression", bytes(totals.bytes_uncompressed)),
        ("Events", count(totals.events_uncompressed)),
        ("Rows", count(rows.total().rows)),
        ("GTIDs", escaped(&report.gtids.set)),
        ("Gaps", escaped(&report.gtids.gaps)),
    ];
    if let Some(span) = report.span {
        let took = Duration::from_micros(span.last.0.saturating_sub(span.first.0));
        let (first, last) = (span.first.in_zone(zone), span.last.in_zone(zone));
        pairs.push(("Commits", format!("{first} to {last} ({})", duration(took))));
    }
    let mut list = "<dl>\n".to_owned();
    for (name, value) in pairs {
        let value = if value.is_empty() { "none" } else { &value };
        let _ = writeln!(list, "<dt>{name}</dt><dd>{value}</dd>");
    }
    list + "</dl>\n"
}

fn rate(series: &Series, zone: &TimeZone, of: fn(&Counts) -> u64, shown: fn(u64) -> String) -> String {
    let values: Vec<u64> = series.buckets.iter().map(of).collect();
    let largest = values.iter().copied().max().unwrap_or_default();
    if values.len() < 2 || largest == 0 {
        return String::new();
    }
    const HEIGHT: f64 = 120.0;
    let width = WIDTH / values.len() as f64;
    let bucket = duration(Duration::from_millis(series.width_ms));
    let mut drawing = format!("<svg viewBox=\"0 0 {WIDTH} 160\" role=\"img\">\n");
    for (index, value) in values.iter().enumerate() {
        let height = HEIGHT * *value as f64 / largest as f64;
        let (x, y) = (index as f64 * width, 20.0 + HEIGHT - height);
        let start = series.start_ms.saturating_add(series.width_ms.saturating_mul(index as u64));
        let start = Moment(start.saturating_mul(1000)).in_zone(zone);
        let _ = writeln!(
            drawing,
            "<rect class=\"bar\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
             <title>{start}: {}</title></rect>",
            (width - 1.0).max(0.5),
            shown(*value)
        );
    }
    let end = series.start_ms.saturating_add(series.width_ms.saturating_mul(values.len() as u64));
    let ends = [series.start_ms, end].map(|end| Moment(end.saturating_mul(1000)).in_zone(zone));
    let _ = writeln!(
        drawing,
        "<line class=\"axis\" x1=\"0\" y1=\"140\" x2=\"{WIDTH}\" y2=\"140\"/>\n\
         <text class=\"faint\" x=\"0\" y=\"12\">at most {} in {bucket}</text>\n\
         <text class=\"faint\" x=\"0\" y=\"155\">{}</text>\n\
         <text class=\"faint\" x=\"{WIDTH}\" y=\"155\" text-anchor=\"end\">{}</text>\n</svg>",
        shown(largest),
        ends[0],
        ends[1]
    );
    drawing
}

fn tables(tables: &[TableAmounts]) -> String {
    let drawn = &tables[..tables.len().min(TABLES_DRAWN)];
    let size = |table: &TableAmounts| table.changes.total().bytes;
    let largest = drawn.iter().map(size).max().unwrap_or_default();
    if largest == 0 {
        return String::new();
    }
    const NAME: f64 = 260.0;
    const NUMBERS: f64 = 120.0;
    let scale = (WIDTH - NAME - NUMBERS) / largest as f64;
    let key = Change::ALL.map(|change| {
        let name = change.verb().to_lowercase();
        format!("<span><svg viewBox=\"0 0 8 8\"><rect class=\"{name}\" width=\"8\" height=\"8\"/></svg>{name}</span>")
    });
    let mut drawing = format!(
        "<p class=\"key\">{}</p>\n<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\">\n",
        key.concat(),
        drawn.len() * 20
    );
    for (index, table) in drawn.iter().enumerate() {
        let y = index * 20;
        let name = escaped(&format!("{}.{}", table.database, table.table));
        let _ = writeln!(drawing, "<text x=\"0\" y=\"{}\">{name}</text>", y + 14);
        let mut x = NAME;
        for change in Change::ALL {
            let amount = table.changes.of(change);
            let width = amount.bytes as f64 * scale;
            let class = change.verb().to_lowercase();
            let _ = writeln!(
                drawing,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"14\">\
                 <title>{name}: {class} {} rows, {}</title></rect>",
                y + 3,
                count(amount.rows),
                bytes(amount.bytes)
            );
            x += width;
        }
        let _ =
            writeln!(drawing, "<text x=\"{:.1}\" y=\"{}\">{}</text>", x + 6.0, y + 14, bytes(size(table)));
    }
    drawing + "</svg>\n"
}

fn sizes(report: &Report) -> String {
    let transactions = report.sizes.iter().map(|class| class.transactions).sum();
    let whole = report.sizes.iter().map(|class| class.bytes).sum();
    let rows = report.sizes.iter().map(|class| {
        let name = class.bytes_max.map_or("more".to_owned(), bytes_of_two);
        let shares = [share(class.transactions, transactions), share(class.bytes, whole)];
        let [of_transactions, of_bytes] = shares;
        vec![name, count(class.transactions), of_transactions, bytes(class.bytes), of_bytes]
    });
    table(&["up to", ">transactions", ">share", ">bytes", ">share"], rows)
}

fn compression(report: &Report) -> String {
    let rows = report.compression.iter().map(|row| {
        vec![
            format!("{:?}", row.log_type).to_uppercase(),
            format!("{:?}", row.compression_type).to_uppercase(),
            count(row.transaction_counter),
            bytes(row.compressed_bytes_counter),
            bytes(row.uncompressed_bytes_counter),
            format!("{} %", row.compression_percentage),
        ]
    });
    table(&["log", "type", ">transactions", ">stored", ">before", ">saved"], rows)
}

fn transactions(transactions: &[TransactionReport], zone: &TimeZone) -> String {
    let rows = transactions.iter().map(|each| {
        vec![
            bytes(each.bytes_uncompressed),
            count(each.rows),
            duration(Duration::from_micros(each.duration_us)),
            each.committed.in_zone(zone),
            escaped(&each.id),
            escaped(&each.log),
            each.position.to_string(),
        ]
    });
    table(&[">bytes", ">rows", ">took", "committed", "GTID", "log", ">position"], rows)
}

fn logs(report: &Report) -> String {
    let rows = report.logs.iter().map(|log| {
        let name = escaped(&log.name);
        vec![name, bytes(log.bytes), count(log.events), count(log.transactions), escaped(&log.server_version)]
    });
    table(&["log", ">bytes", ">events", ">transactions", "server"], rows)
}

/// Nothing if there are no rows. Cells are HTML; a name that starts with `>` is of a column of numbers.
fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut body = String::new();
    let class = |column: &str| if column.starts_with('>') { " class=\"number\"" } else { "" };
    for row in rows {
        let cells = columns.iter().zip(row).map(|(column, cell)| format!("<td{}>{cell}</td>", class(column)));
        let _ = writeln!(body, "<tr>{}</tr>", cells.collect::<String>());
    }
    if body.is_empty() {
        return body;
    }
    let names =
        columns.iter().map(|column| format!("<th{}>{}</th>", class(column), column.trim_start_matches('>')));
    format!("<table>\n<tr>{}</tr>\n{body}</table>\n", names.collect::<String>())
}

/// Names and versions come from logs and file names: they must stay text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_stay_text() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
