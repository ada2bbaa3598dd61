//! Formats numbers for people.

use std::time::Duration;

/// Formats a number with commas between groups of three digits: `2,696,041`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with a noun in the singular or plural: `1 transaction`, `2,696 transactions`, `2 searches`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", count(number))
}

/// Formats a size in the largest unit with a digit before the point: `81.2 MB`. A kilobyte has 1000 bytes.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if number < 1000 {
        return format!("{number} B");
    }
    let mut value = number as f64;
    let mut unit = "B";
    for larger in UNITS {
        if value < 999.95 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    format!("{value:.1} {unit}")
}

/// Formats a power of two in binary units: `256 B`, `1 KiB`, `4 MiB`.
pub(crate) fn bytes_of_two(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for larger in units {
        if value < 1024 || !value.is_multiple_of(1024) {
            break;
        }
        (value, unit) = (value / 1024, larger);
    }
    format!("{value} {unit}")
}

/// Formats a duration in at most two units: `1.3 s`, `2 min 5 s`, `3 d 4 h`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() == 0 => format!("{} µs", duration.as_micros()),
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Formats a share in percent: `12.3 %`; `0 %` if the whole is 0.
pub(crate) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "0 %".to_owned(),
        _ => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

/// Draws values as bars from one eighth of a line to a whole line; 0 is a space.
pub(crate) fn sparkline(values: impl IntoIterator<Item = u64> + Clone) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.clone().into_iter().max().unwrap_or_default().max(1);
    let bar = |value: u64| match value {
        0 => ' ',
        _ => BARS[((u128::from(value) * 8).div_ceil(u128::from(largest)) as usize - 1).min(7)],
    };
    values.into_iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{bytes, bytes_of_two, count, counted, duration, share, sparkline};

    #[test]
    fn counts() {
        let check = |number, expected| assert_eq!(count(number), expected);
        check(0, "0");
        check(999, "999");
        check(1000, "1,000");
        check(2_696_041, "2,696,041");
        check(u64::MAX, "18,446,744,073,709,551,615");
        let check = |number, expected| assert_eq!(counted(number, "row"), expected);
        check(0, "0 rows");
        check(1, "1 row");
        check(1000, "1,000 rows");
    }

    #[test]
    fn sizes() {
        let check = |number, expected| assert_eq!(bytes(number), expected);
        check(0, "0 B");
        check(999, "999 B");
        check(1000, "1.0 kB");
        check(999_949, "999.9 kB");
        check(999_950, "1.0 MB");
        check(81_238_562, "81.2 MB");
        check(u64::MAX, "18.4 EB");
        let check = |number, expected| assert_eq!(bytes_of_two(number), expected);
        check(256, "256 B");
        check(1024, "1 KiB");
        check(4 << 20, "4 MiB");
        check(1 << 50, "1024 TiB");
    }

    #[test]
    fn durations() {
        let check = |millis, expected| assert_eq!(duration(Duration::from_millis(millis)), expected);
        check(0, "0 µs");
        check(1, "1 ms");
        check(1_300, "1.3 s");
        check(125_000, "2 min 5 s");
        check(7_260_000, "2 h 1 min");
        check(273_600_000, "3 d 4 h");
    }

    #[test]
    fn shares() {
        assert_eq!(share(1, 8), "12.5 %");
        assert_eq!(share(0, 0), "0 %");
    }

    #[test]
    fn sparklines() {
        let check = |values: &[u64], expected| assert_eq!(sparkline(values.iter().copied()), expected);
        check(&[], "");
        check(&[0, 0], "  ");
        check(&[1], "█");
        check(&[1, 2, 3, 4, 5, 6, 7, 8, 0], "▁▂▃▄▅▆▇█ ");
        check(&[1, 1_000_000], "▁█");
        check(&[u64::MAX, 1], "█▁");
    }
}
