//! Statistics of `receive` as text: for a terminal, for a log of messages, and as a result.

use std::time::Duration;

use binlog::gtid::GtidSet;
use receive::{ReceiveStats, ReceivedGtids};
use serde_json::{Value, json};

use crate::commands::receive::receive_metrics::{RECEIVE_METRICS, ReceiveFigures};
use crate::metric_table;
use crate::recent_rates::RecentRates;
use crate::units::{bytes, count, counted, duration};

/// Maximum number of shown lines. Each line has the transactions of one server.
const LINES_MAX: usize = 3;
/// Maximum length of a line. A longer line is shortened in the middle.
const LINE_MAX: usize = 100;
const LINE_START: usize = 60;
const LINE_END: usize = 36;

/// Returns one line for a log of messages.
pub(super) fn line(stats: &ReceiveStats, rates: &RecentRates, now_s: i64) -> String {
    let last = stats.received_gtids.last().map(|last| format!("up to {last}"));
    let parts = [
        vec![position_text(stats)],
        last.into_iter().collect(),
        received_texts(stats, rates),
        network_texts(stats),
    ];
    [parts.concat(), vec![state_text(stats, now_s)]].concat().join(", ")
}

/// Returns several lines for a terminal.
pub(super) fn terminal_text(stats: &ReceiveStats, rates: &RecentRates, now_s: i64) -> String {
    let mut gtids = gtid_lines(&stats.received_gtids);
    if let Some(first) = gtids.first_mut() {
        *first = format!("GTIDs {first}");
    }
    let position = vec![format!("{}, {}", position_text(stats), state_text(stats, now_s))];
    let (came, saved) =
        (vec![received_texts(stats, rates).join(", ")], vec![network_texts(stats).join(", ")]);
    [position, gtids, came, saved].concat().join("\n  ")
}

fn position_text(stats: &ReceiveStats) -> String {
    format!("{} at {}", stats.log, count(stats.position))
}

fn received_texts(stats: &ReceiveStats, rates: &RecentRates) -> Vec<String> {
    let came = vec![counted(stats.transactions, "transaction"), bytes(stats.bytes)];
    came.into_iter().chain(rates.texts()).collect()
}

/// Returns the transferred bytes, and the bytes that compression saved on the network and the disk.
fn network_texts(stats: &ReceiveStats) -> Vec<String> {
    // Compression by the source saves on the disk too; compression of the connection does not.
    let by_source = stats.statistics.saved_by_source();
    let network = (stats.bytes + by_source).saturating_sub(stats.network_bytes);
    let disk = by_source + stats.bytes_saved().unwrap_or_default();
    let mut parts = vec![format!("{} transferred", bytes(stats.network_bytes))];
    parts.extend((network > 0).then(|| format!("{} saved by network compression", bytes(network))));
    parts.extend((disk > 0).then(|| format!("{} saved on the disk", bytes(disk))));
    parts.extend(
        (stats.to_compress > 0).then(|| format!("{} to compress", counted(stats.to_compress, "log"))),
    );
    parts
}

fn state_text(stats: &ReceiveStats, now_s: i64) -> String {
    match (stats.is_full, stats.is_connected, stats.lag_s(now_s)) {
        (true, ..) => "disk full".to_owned(),
        (_, false, _) => "not connected".to_owned(),
        (_, _, Some(0) | None) => "caught up".to_owned(),
        (_, _, Some(lag)) => format!("lag {}", duration(Duration::from_secs(lag))),
    }
}

/// Returns the result as text.
pub(super) fn text(figures: &ReceiveFigures, directory: &str) -> String {
    let ReceiveFigures { stats, archiving, .. } = figures;
    let ends = match stats.stored_log.as_str() {
        "" => String::new(),
        log => format!("; {directory} ends at {log}:{}", stats.stored_position),
    };
    let saved = stats.bytes_saved().map(|saved| format!("; {} saved by compression", bytes(saved)));
    let received = format!("{}, {} received", counted(stats.transactions, "transaction"), bytes(stats.bytes));
    let archived = (archiving.logs > 0).then(|| format!("; {} archived", counted(archiving.logs, "log")));
    format!("{received}{ends}{}{}\n", saved.unwrap_or_default(), archived.unwrap_or_default())
}

/// Returns the result as a JSON document.
pub(super) fn document(figures: &ReceiveFigures) -> Value {
    let stats = &figures.stats;
    let mut document = metric_table::document(RECEIVE_METRICS, figures);
    document.insert("log".to_owned(), (!stats.log.is_empty()).then_some(stats.log.as_str()).into());
    let is_stored = !stats.stored_log.is_empty();
    document.insert("stored_log".to_owned(), is_stored.then_some(stats.stored_log.as_str()).into());
    document.insert("stored_position".to_owned(), is_stored.then_some(stats.stored_position).into());
    document.insert("compression".to_owned(), json!(stats.statistics.rows()));
    document.into()
}

/// Returns a few readable lines with GTIDs, one per server; none without GTIDs.
fn gtid_lines(received: &ReceivedGtids) -> Vec<String> {
    let domains: Vec<String> = received.domains().map(ToString::to_string).collect();
    shortened_lines(received.set(), &domains.join(","))
}

fn shortened_lines(set: &GtidSet, domains: &str) -> Vec<String> {
    let set = set.to_string();
    let all = set.split(',').map(shorten_line).chain([shorten_line(domains)]);
    let mut lines: Vec<String> = all.filter(|line| !line.is_empty()).collect();
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("(further servers: {more})"));
    }
    lines
}

/// Shortens a long line of ASCII with an ellipsis.
fn shorten_line(line: &str) -> String {
    match line.len() > LINE_MAX {
        true => format!("{} … {}", &line[..LINE_START], &line[line.len() - LINE_END..]),
        false => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use logs::{LogReader, ReadOutcome};

    use super::{LINE_START, ReceiveFigures, document, line, shortened_lines, terminal_text, text};
    use crate::recent_rates::RecentRates;
    use receive::ReceiveStats;

    fn figures() -> ReceiveStats {
        let (log, last_s) = ("b.000003".to_owned(), Some(1000));
        ReceiveStats {
            log,
            last_s,
            position: 4711,
            is_connected: true,
            ahead_s: 5,
            ..ReceiveStats::default()
        }
    }

    #[test]
    fn a_line_shows_position_and_lag() {
        let (mut figures, mut rates) = (figures(), RecentRates::default());
        let check = |figures: &ReceiveStats, rates: &RecentRates, expected: &str| {
            assert_eq!(line(figures, rates, 1055), expected);
        };
        let first = "b.000003 at 4,711, 0 transactions, 0 B, 0 B transferred, lag 1 min 0 s";
        check(&figures, &rates, first);
        rates.add_sample(Duration::ZERO, 0, 0);
        (figures.transactions, figures.bytes, figures.is_caught_up) = (100, 50_000, true);
        figures.network_bytes = 51_000;
        rates.add_sample(Duration::from_secs(2), figures.bytes, figures.transactions);
        let position = "b.000003 at 4,711, 100 transactions, 50.0 kB, 50 transactions/s, 25.0 kB/s";
        let plain = format!("{position}, 51.0 kB transferred");
        check(&figures, &rates, &format!("{plain}, caught up"));
        figures.network_bytes = 8_000;
        let network = "8.0 kB transferred, 42.0 kB saved by network compression";
        check(&figures, &rates, &format!("{position}, {network}, caught up"));
        (figures.compressed_logs, figures.compressed_from, figures.compressed_to) = (1, 30_000, 10_000);
        let savings = format!("{network}, 20.0 kB saved on the disk");
        check(&figures, &rates, &format!("{position}, {savings}, caught up"));
        figures.to_compress = 2;
        check(&figures, &rates, &format!("{position}, {savings}, 2 logs to compress, caught up"));
        (figures.network_bytes, figures.compressed_logs, figures.to_compress) = (51_000, 0, 0);
        figures.is_connected = false;
        check(&figures, &rates, &format!("{plain}, not connected"));
        figures.is_full = true;
        check(&figures, &rates, &format!("{plain}, disk full"));
    }

    /// Returns statistics after receiving the events of a sample log with transactions that a server compressed.
    fn of_sample(log: &str) -> ReceiveStats {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(log);
        let (mut reader, mut figures) = (LogReader::open(path).unwrap(), figures());
        while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20).unwrap() {
            for event in (0..chunk.len()).filter_map(|index| chunk.get(index)) {
                figures.bytes += event.raw.bytes().len() as u64;
                figures.statistics.event(&event.raw, chunk.format());
                figures.received_gtids.add_event(&event.raw, chunk.format());
            }
        }
        figures
    }

    #[test]
    fn terminal_text_has_gtids_and_savings() {
        let mut figures = of_sample("gtids-compressed/binlog.000002");
        figures.network_bytes = figures.bytes;
        let expected = "b.000003 at 4,711, lag 5.0 s
  GTIDs 5ea5ca5e-0001-4000-8000-000000000001:1-7:another_tag_of_thirty_two_chars_:1:tag:1-2
  bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb:1:3:9223372036854775806
  cccccccc-cccc-cccc-cccc-cccccccccccc:99:by_hand:77:79
  0 transactions, 802 B
  802 B transferred, 51 B saved by network compression, 51 B saved on the disk";
        assert_eq!(terminal_text(&figures, &RecentRates::default(), 1000), expected);
        let line = line(&figures, &RecentRates::default(), 1000);
        let start =
            "b.000003 at 4,711, up to 5ea5ca5e-0001-4000-8000-000000000001:7, 0 transactions, 802 B, ";
        assert!(line.starts_with(start), "{line}");
    }

    #[test]
    fn results_are_formatted() {
        let mut figures = ReceiveFigures { stats: figures(), ..ReceiveFigures::default() };
        // Another server replaced the source: the directory has its own names and positions.
        (figures.stats.stored_log, figures.stats.stored_position) = ("b-1.000001".to_owned(), 815);
        let expected = "0 transactions, 0 B received; /backup ends at b-1.000001:815";
        assert_eq!(text(&figures, "/backup"), format!("{expected}\n"));
        figures.archiving.logs = 2;
        assert_eq!(text(&figures, "/backup"), format!("{expected}; 2 logs archived\n"));
        let none = ReceiveFigures::default();
        assert_eq!(text(&none, "/backup"), "0 transactions, 0 B received\n");
        let found = document(&figures);
        assert_eq!((&found["log"], &found["position"]), (&"b.000003".into(), &4711.into()));
        let mut keys: Vec<&String> = found.as_object().unwrap().keys().collect();
        keys.sort();
        let expected = "acknowledgements archived_from archived_to archivings_failed bytes compressed_from \
                        compressed_to compression compressions_failed connections events log logs_archived \
                        logs_compressed logs_purged logs_to_archive logs_to_compress network_bytes position seconds \
                        semi_sync stored_log stored_position syncs transactions";
        assert_eq!(keys, expected.split_whitespace().collect::<Vec<_>>());
        let none = document(&ReceiveFigures::default());
        assert!(none["log"].is_null() && none["position"].is_null(), "{none}");
    }

    #[test]
    fn long_sets_are_shortened() {
        let lines = |set: &str| shortened_lines(&set.parse().unwrap(), "");
        let uuid = |number: usize| format!("5ea5ca5e-{number:04}-4000-8000-000000000001");
        let gaps: String = (0..50).map(|number| format!(":{}", 1000 + 2 * number)).collect();
        let start = format!("{}:1000:1002:1004:1006:1008", uuid(1));
        let end = ":1086:1088:1090:1092:1094:1096:1098";
        let found = lines(&(uuid(1) + &gaps)).remove(0);
        assert!(found.starts_with(&start[..LINE_START]) && found.ends_with(end), "{found}");
        let many: Vec<String> = (1..=5).map(|number| uuid(number) + ":1-7").collect();
        let mut expected = many[..3].to_vec();
        expected.push("(further servers: 2)".to_owned());
        assert_eq!(lines(&many.join(",")), expected);
        assert!(lines("").is_empty());
    }
}
