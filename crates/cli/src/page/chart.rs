//! Charts in the colours of the page's style. Texts are HTML already.

use std::fmt::Write as _;

use inspect::stats::LogTime;
use jiff::tz::TimeZone;

/// Width of a chart, in units that scale with the page.
const CHART_WIDTH: f64 = 900.0;

/// One bar: a name, parts from left to right, and a number.
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
    let percent = |length: f64| 100.0 * length / longest;
    let mut drawing = format!("{}<div class=\"bars\">\n", draw_legend(key));
    for bar in bars {
        let _ = write!(
            drawing,
            "<div class=\"name\">{}</div><div class=\"value\">{}</div><div class=\"track\">",
            bar.name, bar.number
        );
        for part in &bar.parts {
            let _ = write!(
                drawing,
                "<i class=\"{}\" style=\"width:{:.2}%\" title=\"{}\"></i>",
                part.class,
                percent(part.length),
                part.title
            );
        }
        if let Some((low, high)) = bar.between {
            let (left, width) = (percent(low), percent(high - low));
            let _ = write!(drawing, "<b style=\"left:{left:.2}%;width:{width:.2}%\"></b>");
        }
        drawing += "</div>\n";
    }
    drawing + "</div>\n"
}

/// Returns the legend: classes and names.
fn draw_legend(key: &[(&str, &str)]) -> String {
    if key.is_empty() {
        return String::new();
    }
    let entries = key.iter().map(|(class, name)| format!("<span><i class=\"{class}\"></i>{name}</span>"));
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
    let mut drawing = format!(
        "<p class=\"caption\">{}</p>\n\
         <svg class=\"columns\" viewBox=\"0 0 {CHART_WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\">\n",
        columns.headline
    );
    for (index, values) in buckets.iter().enumerate() {
        for (class, value) in classes.iter().zip(values) {
            let height = HEIGHT * *value as f64 / largest as f64;
            let _ = writeln!(
                drawing,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
                 <title>{}: {}</title></rect>",
                index as f64 * width,
                HEIGHT - height,
                (width - 1.0).max(0.5),
                moment(index),
                shown(*value)
            );
        }
    }
    let _ = writeln!(
        drawing,
        "</svg>\n<p class=\"caption ends\"><span>{}</span><span>{}</span></p>",
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
        "<div class=\"scroll\"><svg class=\"ranges\" viewBox=\"0 0 {CHART_WIDTH} {height:.0}\" role=\"img\">\n\
         <text class=\"faint\" x=\"0\" y=\"12\">{}</text>\n",
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
    drawing + "</svg></div>\n"
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
    use super::{BarPart, ChartBar, LogScale, draw_bars};

    #[test]
    fn bars_share_a_scale_that_contains_intervals() {
        let bar = |length, between, number: &str| ChartBar {
            name: "t".to_owned(),
            parts: vec![BarPart { class: "bar", length, title: String::new() }],
            number: number.to_owned(),
            between,
        };
        let chart = draw_bars(&[], &[bar(7.0, Some((6.0, 10.0)), "7 B"), bar(5.0, None, "5 B")]);
        let lines: Vec<&str> = chart.lines().filter(|line| line.contains("class=\"track\"")).collect();
        assert!(lines[0].contains(">7 B<") && lines[0].contains("width:70.00%"), "{chart}");
        assert!(lines[0].contains("left:60.00%;width:40.00%"), "{chart}");
        assert!(lines[1].contains(">5 B<") && lines[1].contains("width:50.00%"), "{chart}");
        assert_eq!(draw_bars(&[], &[bar(0.0, None, "0 B")]), "");
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
