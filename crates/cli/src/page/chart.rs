//! Charts: SVG in the colours of the page's style. Texts are HTML already.

use std::fmt::Write as _;

use inspect::stats::LogTime;
use jiff::tz::TimeZone;

/// Width of a chart, in units that scale with the page.
const CHART_WIDTH: f64 = 900.0;
/// Height of a bar and the gap below it.
const BAR_LINE_HEIGHT: f64 = 20.0;
/// Width of the names left of bars.
const NAME_WIDTH: f64 = 260.0;
/// Width of a character of a number, rounded up, and the space on both sides of the number.
const CHARACTER_WIDTH: f64 = 6.6;
const NUMBER_SPACE: f64 = 12.0;

/// One bar: a name, parts from left to right, and a number to the right of them.
pub(crate) struct ChartBar {
    pub name: String,
    pub parts: Vec<BarPart>,
    pub number: String,
    /// Confidence interval of the length, for an estimate.
    pub between: Option<(f64, f64)>,
}

/// Part of a bar.
pub(crate) struct BarPart {
    /// Class of the page's style: the colour.
    pub class: &'static str,
    pub length: f64,
    /// Tooltip.
    pub title: String,
}

/// Returns a bar chart with one scale, or nothing if all bars have length 0. `key` has the classes and names of the
/// legend.
pub(crate) fn draw_bars(key: &[(&str, &str)], bars: &[ChartBar]) -> String {
    let length = |bar: &ChartBar| bar.parts.iter().map(|part| part.length).sum::<f64>();
    let end = |bar: &ChartBar| bar.between.map_or(length(bar), |(_, high)| length(bar).max(high));
    let longest = bars.iter().map(end).fold(0.0, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    // Numbers stand to the right of the bars: the longest number must fit beside the longest bar.
    let characters = bars.iter().map(|bar| bar.number.chars().count()).max().unwrap_or_default();
    let scale = (CHART_WIDTH - NAME_WIDTH - NUMBER_SPACE - characters as f64 * CHARACTER_WIDTH) / longest;
    let height = bars.len() as f64 * BAR_LINE_HEIGHT;
    let mut drawing =
        format!("{}<svg viewBox=\"0 0 {CHART_WIDTH} {height}\" role=\"img\">\n", draw_legend(key));
    for (index, bar) in bars.iter().enumerate() {
        let top = index as f64 * BAR_LINE_HEIGHT;
        let _ = writeln!(drawing, "<text x=\"0\" y=\"{}\">{}</text>", top + 14.0, bar.name);
        let mut x = NAME_WIDTH;
        for part in &bar.parts {
            let width = part.length * scale;
            let _ = writeln!(
                drawing,
                "<rect class=\"{}\" x=\"{x:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"14\"><title>{}</title></rect>",
                part.class,
                top + 3.0,
                part.title
            );
            x += width;
        }
        if let Some((low, high)) = bar.between {
            let [low, high] = [low, high].map(|length| NAME_WIDTH + length * scale);
            let _ = writeln!(
                drawing,
                "<path class=\"between\" d=\"M{low:.1} {y0}V{y1}M{low:.1} {y}H{high:.1}M{high:.1} {y0}V{y1}\"/>",
                y = top + 10.0,
                y0 = top + 6.0,
                y1 = top + 14.0
            );
            x = x.max(high);
        }
        let _ = writeln!(drawing, "<text x=\"{:.1}\" y=\"{}\">{}</text>", x + 6.0, top + 14.0, bar.number);
    }
    drawing + "</svg>\n"
}

/// Returns the legend: classes and names.
fn draw_legend(key: &[(&str, &str)]) -> String {
    if key.is_empty() {
        return String::new();
    }
    let entries = key.iter().map(|(class, name)| {
        format!(
            "<span><svg viewBox=\"0 0 8 8\"><rect class=\"{class}\" width=\"8\" height=\"8\"/></svg>{name}</span>"
        )
    });
    format!("<p class=\"key\">{}</p>\n", entries.collect::<String>())
}

/// Column chart of values over time, in buckets of equal width.
pub(crate) struct ColumnChart<'z> {
    /// Start of the first bucket, in milliseconds since 1970.
    pub start_ms: u64,
    pub width_ms: u64,
    pub zone: &'z TimeZone,
    /// Text above the chart.
    pub headline: String,
}

/// Returns a column chart, or nothing for fewer than two buckets or only zeros. The values of a bucket overlap, the
/// largest first, each in the colour of its class.
pub(crate) fn draw_columns(
    columns: &ColumnChart<'_>,
    classes: &[&str],
    buckets: &[Vec<u64>],
    shown: impl Fn(u64) -> String,
) -> String {
    const HEIGHT: f64 = 120.0;
    let largest = buckets.iter().flatten().copied().max().unwrap_or_default();
    if buckets.len() < 2 || largest == 0 {
        return String::new();
    }
    let width = CHART_WIDTH / buckets.len() as f64;
    let moment = |index: usize| {
        let start = columns.start_ms.saturating_add(columns.width_ms.saturating_mul(index as u64));
        LogTime(start.saturating_mul(1000)).in_zone(columns.zone)
    };
    let mut drawing = format!("<svg viewBox=\"0 0 {CHART_WIDTH} 160\" role=\"img\">\n");
    for (index, values) in buckets.iter().enumerate() {
        for (class, value) in classes.iter().zip(values) {
            let height = HEIGHT * *value as f64 / largest as f64;
            let _ = writeln!(
                drawing,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
                 <title>{}: {}</title></rect>",
                index as f64 * width,
                20.0 + HEIGHT - height,
                (width - 1.0).max(0.5),
                moment(index),
                shown(*value)
            );
        }
    }
    let _ = writeln!(
        drawing,
        "<line class=\"axis\" x1=\"0\" y1=\"140\" x2=\"{CHART_WIDTH}\" y2=\"140\"/>\n\
         <text class=\"faint\" x=\"0\" y=\"12\">{}</text>\n\
         <text class=\"faint\" x=\"0\" y=\"155\">{}</text>\n\
         <text class=\"faint\" x=\"{CHART_WIDTH}\" y=\"155\" text-anchor=\"end\">{}</text>\n</svg>",
        columns.headline,
        moment(0),
        moment(buckets.len())
    );
    drawing
}

/// Range chart: groups of ranges on one logarithmic scale.
pub(crate) struct RangeChart<'r> {
    /// Text above the chart.
    pub headline: &'r str,
    /// Names of the groups and their ranges.
    pub groups: &'r [(String, Vec<ChartRange>)],
    /// Formats a value.
    pub shown: fn(f64) -> String,
}

/// Range from a low to a high value, with a mark between.
pub(crate) struct ChartRange {
    pub name: String,
    pub low: f64,
    pub mark: f64,
    pub high: f64,
    /// Tooltip.
    pub title: String,
}

/// Returns a range chart, or nothing without ranges.
pub(crate) fn draw_ranges(ranges: &RangeChart<'_>) -> String {
    const TOP: f64 = 40.0;
    const STEP: f64 = 13.0;
    const GAP: f64 = 9.0;
    let all = || ranges.groups.iter().flat_map(|(_, ranges)| ranges);
    let Some(scale) = LogScale::over(all().flat_map(|range| [range.low, range.high])) else {
        return String::new();
    };
    let height = TOP + all().count() as f64 * STEP + ranges.groups.len() as f64 * GAP;
    let mut drawing = format!(
        "<svg viewBox=\"0 0 {CHART_WIDTH} {height:.0}\" role=\"img\">\n<text class=\"faint\" x=\"0\" y=\"12\">{}</text>\n",
        ranges.headline
    );
    for power in scale.powers() {
        let (x, value) = (scale.x(power), (ranges.shown)(power));
        let _ = writeln!(
            drawing,
            "<line class=\"axis\" x1=\"{x:.1}\" y1=\"{:.0}\" x2=\"{x:.1}\" y2=\"{height:.0}\"/>\n\
             <text class=\"faint\" x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{value}</text>",
            TOP - 8.0,
            TOP - 12.0
        );
    }
    let mut y = TOP;
    for (name, group) in ranges.groups {
        let _ = writeln!(drawing, "<text x=\"0\" y=\"{:.1}\">{name}</text>", y + 9.0);
        for range in group {
            put_range(&mut drawing, &scale, range, y + 5.0);
            y += STEP;
        }
        y += GAP;
    }
    drawing + "</svg>\n"
}

fn put_range(drawing: &mut String, scale: &LogScale, range: &ChartRange, y: f64) {
    let [low, mark, high] = [range.low, range.mark, range.high].map(|value| scale.x(value));
    let _ = writeln!(
        drawing,
        "<g><title>{}</title><text class=\"faint\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
         <line class=\"range\" x1=\"{low:.1}\" y1=\"{y:.1}\" x2=\"{high:.1}\" y2=\"{y:.1}\"/>\
         <circle class=\"bar\" cx=\"{low:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>\
         <rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"2.5\" height=\"9\"/></g>",
        range.title,
        LogScale::LEFT - 12.0,
        y + 4.0,
        range.name,
        mark - 1.25,
        y - 4.5
    );
}

/// Logarithmic scale between powers of ten.
struct LogScale {
    first: i32,
    last: i32,
}

impl LogScale {
    const LEFT: f64 = 190.0;
    const RIGHT: f64 = CHART_WIDTH - 30.0;

    /// Returns a scale that contains all positive values, if there are any.
    fn over(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| *value > 0.0 && value.is_finite()).collect();
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        let first = low.log10().floor() as i32;
        Some(Self { first, last: (high.log10().ceil() as i32).max(first + 1) })
    }

    /// Returns the x coordinate of a value. Values below the scale are at its left end.
    fn x(&self, value: f64) -> f64 {
        let powers = f64::from(self.last - self.first);
        let along = (value.max(f64::MIN_POSITIVE).log10() - f64::from(self.first)) / powers;
        Self::LEFT + (Self::RIGHT - Self::LEFT) * along.clamp(0.0, 1.0)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.first..=self.last).map(|power| 10f64.powi(power))
    }
}

#[cfg(test)]
mod tests {
    use super::{BarPart, CHART_WIDTH, ChartBar, LogScale, draw_bars};

    #[test]
    fn numbers_fit_beside_bars() {
        let bar = |length, between, number: &str| ChartBar {
            name: "t".to_owned(),
            parts: vec![BarPart { class: "bar", length, title: String::new() }],
            number: number.to_owned(),
            between,
        };
        let number = "123.4 MB of 987.6 MB (saved 65.4 %)";
        let chart = draw_bars(&[], &[bar(7.0, Some((6.0, 9.0)), number), bar(8.0, None, "1 B")]);
        let line = chart.lines().find(|line| line.contains(number)).expect("the number is not shown");
        let x: f64 = line.split('"').nth(1).and_then(|x| x.parse().ok()).expect("a text without a position");
        assert!(x + 6.5 * number.len() as f64 <= CHART_WIDTH, "{line}");
    }

    #[test]
    fn scales() {
        let scale = LogScale::over([3.0, 0.0, 250.0].into_iter()).expect("no values above zero");
        assert_eq!(scale.powers().collect::<Vec<_>>(), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(scale.x(1.0), LogScale::LEFT);
        assert_eq!(scale.x(1000.0), LogScale::RIGHT);
        assert_eq!(scale.x(0.0), LogScale::LEFT, "0 has no logarithm");
        assert!(LogScale::over([0.0, f64::NAN].into_iter()).is_none());
    }
}
