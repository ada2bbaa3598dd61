//! Charts of measurements: SVG for paper and for dark screens.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, ChartContext, Circle, DrawingArea, IntoDrawingArea as _, LineSeries,
    RGBColor, Rectangle, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, IntoFont as _, ShapeStyle, TextStyle};

const SIZE: (u32, u32) = (900, 340);
/// Height below the plot, for the names of groups or positions.
const NAMES_HEIGHT: i32 = 30;
/// Height above the plot, for the title and the key.
const TITLE_HEIGHT: u32 = 50;
/// Smallest distance between lines of text.
const LINE_HEIGHT: i32 = 15;
const TEXT_SIZE: i32 = 13;

/// Five colours that are distinct for all readers, on white and on black.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x7a, 0x86, 0x94),
    RGBColor(0x2b, 0x7b, 0xba),
    RGBColor(0xc2, 0x8e, 0x0e),
    RGBColor(0x1f, 0x9e, 0x77),
    RGBColor(0xc4, 0x50, 0x2f),
];
const INK: RGBColor = BLACK;
const GRID: RGBColor = RGBColor(0xbb, 0xbb, 0xbb);

/// Style that inverts ink and grid on a dark screen. The chart has no background, so the page shows through.
const STYLE: &str = r##"<style>
text { font-family: system-ui, sans-serif; }
@media screen and (prefers-color-scheme: dark) {
  text { fill: #e6e8eb; } [stroke="#000000"] { stroke: #e6e8eb; } [stroke="#BBBBBB"] { stroke: #555d66; }
}
</style>
"##;

/// Group of adjacent bars, one for each series.
pub(super) struct BarGroup<'a> {
    pub(super) name: &'a str,
    pub(super) values: Vec<f64>,
}

/// Values from left to right, joined by a line, and further values at the same positions, marked by rings.
pub(super) struct ChartLine<'a> {
    pub(super) name: &'a str,
    pub(super) values: Vec<f64>,
    pub(super) marks: Vec<f64>,
}

type ChartArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type ChartPlot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws groups of bars side by side, with a key to the series.
pub(super) fn bar_chart(title: &str, series: &[&str], groups: &[BarGroup<'_>]) -> Result<String> {
    drawing(title, |area| {
        let largest = groups.iter().flat_map(|group| &group.values).copied().fold(0.0, f64::max);
        let mut plot = plot(area, title, groups.len() as f64, largest)?;
        let width = 0.84 / series.len() as f64;
        for (group_index, group) in groups.iter().enumerate() {
            let left = group_index as f64 + 0.08;
            let bars = group.values.iter().enumerate().map(|(index, value)| {
                let from = left + index as f64 * width;
                Rectangle::new(
                    [(from, 0.0), (from + 0.92 * width, *value)],
                    COLOURS[index % COLOURS.len()].filled(),
                )
            });
            plot.draw_series(bars).map_err(drawing_error)?;
            write_name(area, &plot, group_index as f64 + 0.5, group.name)?;
        }
        draw_key(area, series)
    })
}

/// Draws lines over the same positions, each named at its right end.
pub(super) fn line_chart(title: &str, labels: &[String], lines: &[ChartLine<'_>]) -> Result<String> {
    drawing(title, |area| {
        let values = lines.iter().flat_map(|line| line.values.iter().chain(&line.marks)).copied();
        // Space at the right end for the lines' names.
        let mut plot = plot(area, title, labels.len() as f64 + 0.3, values.fold(0.0, f64::max))?;
        let at = |values: &[f64]| -> Vec<(f64, f64)> {
            values.iter().enumerate().map(|(index, value)| (index as f64 + 0.5, *value)).collect()
        };
        let mut ends = Vec::new();
        for (line, colour) in lines.iter().zip(COLOURS) {
            plot.draw_series(LineSeries::new(at(&line.values), colour.stroke_width(2)))
                .map_err(drawing_error)?;
            let ring = ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: 2 };
            plot.draw_series(at(&line.marks).into_iter().map(|mark| Circle::new(mark, 6, ring)))
                .map_err(drawing_error)?;
            if let Some(end) = at(&line.values).last() {
                ends.push((plot.backend_coord(end), line.name));
            }
        }
        for (index, text) in labels.iter().enumerate() {
            write_name(area, &plot, index as f64 + 0.5, text)?;
        }
        spread(&mut ends);
        ends.iter().try_for_each(|((x, y), text)| write(area, text, (x + 14, *y), HPos::Left))
    })
}

/// Sorts lines of text from the top down, and moves each one down if it would overlap the one above.
fn spread(texts: &mut [((i32, i32), &str)]) {
    texts.sort_by_key(|((_, y), _)| *y);
    let mut free_from = i32::MIN;
    for ((_, y), _) in texts {
        *y = free_from.max(*y);
        free_from = *y + LINE_HEIGHT;
    }
}

fn drawing(title: &str, draw: impl FnOnce(&ChartArea<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    draw(&area)?;
    area.present().map_err(drawing_error)?;
    drop(area);
    let head = svg.find('\n').map_or(0, |end| end + 1);
    svg.insert_str(head, &format!("<title>{title}</title>\n{STYLE}"));
    Ok(svg)
}

/// Creates an empty plot from 0 to slightly more than `largest`, with its title and a grid.
fn plot<'a, 'b>(area: &'a ChartArea<'b>, title: &str, width: f64, largest: f64) -> Result<ChartPlot<'a, 'b>> {
    let mut builder = ChartBuilder::on(area);
    builder.margin_top(TITLE_HEIGHT).margin_bottom(NAMES_HEIGHT).margin_right(10).y_label_area_size(48);
    let mut plot = builder.build_cartesian_2d(0.0..width, 0.0..1.05 * largest).map_err(drawing_error)?;
    plot.configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_labels(6)
        .light_line_style(BLACK.mix(0.0))
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(style(HPos::Right))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw()
        .map_err(drawing_error)?;
    write(area, title, (4, 12), HPos::Left)?;
    Ok(plot)
}

/// Writes a name below the plot.
fn write_name(area: &ChartArea<'_>, plot: &ChartPlot<'_, '_>, at: f64, text: &str) -> Result<()> {
    let (x, y) = plot.backend_coord(&(at, 0.0));
    write(area, text, (x, y + NAMES_HEIGHT / 2), HPos::Center)
}

/// Draws the key of colours and series, in a line below the title.
fn draw_key(area: &ChartArea<'_>, series: &[&str]) -> Result<()> {
    const STEP: i32 = 165;
    for (index, text) in series.iter().enumerate() {
        let x = 8 + STEP * i32::try_from(index)?;
        let box_ = Rectangle::new([(x, 27), (x + 11, 38)], COLOURS[index % COLOURS.len()].filled());
        area.draw(&box_).map_err(drawing_error)?;
        write(area, text, (x + 17, 33), HPos::Left)?;
    }
    Ok(())
}

fn write(area: &ChartArea<'_>, text: &str, point: (i32, i32), side: HPos) -> Result<()> {
    area.draw(&Text::new(text.to_owned(), point, style(side))).map_err(drawing_error)
}

fn style(side: HPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", TEXT_SIZE).into_font()).color(&INK).pos(Pos::new(side, VPos::Center))
}

fn drawing_error(cause: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("could not draw: {cause}")
}

#[cfg(test)]
mod tests {
    use super::{BarGroup, ChartLine, bar_chart, line_chart, spread};

    #[test]
    fn charts_name_their_series() {
        let groups = [
            BarGroup { name: "left", values: vec![1.0, 2.0] },
            BarGroup { name: "right", values: vec![3.0, 0.5] },
        ];
        let svg = bar_chart("Bars", &["one", "two"], &groups).unwrap();
        for text in ["<title>Bars</title>", "one", "two", "left", "right", "prefers-color-scheme: dark"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<rect").count(), 6, "a bar for each value, and two in the key");

        let drawn = [ChartLine { name: "up", values: vec![1.0, 2.0], marks: vec![1.1, 2.1] }];
        let svg = line_chart("Lines", &["a".to_owned(), "b".to_owned()], &drawn).unwrap();
        assert!(svg.contains("up"));
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn texts_do_not_cover_each_other() {
        let mut texts = [((0, 100), "c"), ((0, 10), "a"), ((0, 12), "b")];
        spread(&mut texts);
        assert_eq!(texts, [((0, 10), "a"), ((0, 25), "b"), ((0, 100), "c")]);
    }
}
