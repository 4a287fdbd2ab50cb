//! Small charts side by side in one SVG, legible in light and dark.

use std::fmt::Write;

const PANEL: (f64, f64) = (300.0, 210.0);
const COLUMNS: usize = 3;
const HEAD: f64 = 64.0;
const MARGIN: f64 = 16.0;
/// The drawing area of a panel: left, top, right and bottom of it stay free.
const FREE: (f64, f64, f64, f64) = (48.0, 38.0, 64.0, 30.0);

/// The height of a label.
const LABEL: f64 = 13.0;

/// Colours by name, so that a dark page has its own.
const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1f2933}
.card{fill:#ffffff;stroke:#d7dde4}
.head{font-size:17px;font-weight:600}
.name{font-size:13px;font-weight:600}
.key{font-size:13px}
.tick,.value{font-size:11px}
.tick{fill:#5b6875}
.value{font-weight:600}
.grid{stroke:#e6eaee;stroke-width:1}
.axis{stroke:#9aa5b1;stroke-width:1}
.line{fill:none;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}
.s0{stroke:#1d5fd1}.f0{fill:#1d5fd1}
.s1{stroke:#c2570c}.f1{fill:#c2570c}
.s2{stroke:#0f766e}.f2{fill:#0f766e}
@media(prefers-color-scheme:dark){
text{fill:#e4e9ef}
.card{fill:#12181f;stroke:#2c3642}
.tick{fill:#9aa8b6}
.grid{stroke:#222b35}
.axis{stroke:#5b6875}
.s0{stroke:#74a9ff}.f0{fill:#74a9ff}
.s1{stroke:#ffa24d}.f1{fill:#ffa24d}
.s2{stroke:#4fd1c0}.f2{fill:#4fd1c0}
}";

/// How a number is written.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Count,
    Bytes,
    Kb,
    Mb,
    Ms,
}

/// What is measured of one store: its values by size.
pub(crate) struct Series {
    /// The place of its colour and its mark.
    pub(crate) color: usize,
    pub(crate) values: Vec<(u64, f64)>,
}

/// One chart.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) series: Vec<Series>,
}

/// A picture of several charts.
pub(crate) struct Picture {
    pub(crate) title: String,
    /// What grows along each horizontal axis, and how its sizes are written.
    pub(crate) along: Option<(String, Unit)>,
    /// A name and a color for each store.
    pub(crate) key: Vec<(String, usize)>,
    pub(crate) panels: Vec<Panel>,
}

impl Picture {
    pub(crate) fn svg(&self) -> String {
        let rows = self.panels.len().div_ceil(COLUMNS);
        let width = COLUMNS as f64 * PANEL.0 + 2.0 * MARGIN;
        let height = rows as f64 * PANEL.1 + HEAD + MARGIN;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n\
             <style>{STYLE}</style>\n",
            self.title
        );
        let (w, h) = (width - 1.0, height - 1.0);
        svg += &format!(
            "<rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{w}\" height=\"{h}\" rx=\"8\"/>\n"
        );
        text(&mut svg, "head", (MARGIN, 28.0), "start", &self.title);
        let mut x = MARGIN + 8.0;
        for (name, color) in &self.key {
            mark(&mut svg, *color, (x, 46.0));
            text(&mut svg, "key", (x + 11.0, 50.5), "start", name);
            x += 40.0 + 7.2 * name.len() as f64;
        }
        if let Some((along, _)) = &self.along {
            let along = format!("along each chart: {along}");
            text(&mut svg, "tick", (width - MARGIN, 50.5), "end", &along);
        }
        for (place, panel) in self.panels.iter().enumerate() {
            let x = MARGIN + (place % COLUMNS) as f64 * PANEL.0;
            let y = HEAD + (place / COLUMNS) as f64 * PANEL.1;
            let _ = writeln!(svg, "<g transform=\"translate({x},{y})\">");
            match &self.along {
                Some((_, unit)) => panel.lines(&mut svg, *unit),
                None => panel.bars(&mut svg, &self.key),
            }
            svg += "</g>\n";
        }
        svg + "</svg>\n"
    }
}

impl Panel {
    /// The frame with its horizontal lines; returns the value at its top.
    fn frame(&self, svg: &mut String) -> f64 {
        let values = self.series.iter().flat_map(|series| &series.values);
        let largest = values.map(|(_, value)| *value).fold(0.0, f64::max);
        let step = nice_step(largest);
        let top = ((largest * 1.08) / step).ceil() * step;
        text(svg, "name", (0.0, 18.0), "start", &self.title);
        let mut value = 0.0;
        while value <= top * 1.001 {
            let y = self.y(value, top);
            let class = if value == 0.0 { "axis" } else { "grid" };
            let (left, right) = (FREE.0, PANEL.0 - FREE.2);
            let _ = writeln!(
                svg,
                "<line class=\"{class}\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
            text(
                svg,
                "tick",
                (left - 6.0, y + 4.0),
                "end",
                &self.unit.write(value),
            );
            value += step;
        }
        top
    }

    fn y(&self, value: f64, top: f64) -> f64 {
        let height = PANEL.1 - FREE.1 - FREE.3;
        FREE.1 + height * (1.0 - value / top)
    }

    /// Lines over sizes, each a step apart by its logarithm.
    fn lines(&self, svg: &mut String, sizes: Unit) {
        let top = self.frame(svg);
        let all = self.series.iter().flat_map(|series| &series.values);
        let mut along: Vec<u64> = all.map(|(size, _)| *size).collect();
        along.sort_unstable();
        along.dedup();
        let (Some(first), Some(last)) = (along.first(), along.last()) else {
            return;
        };
        let log = |size: u64| (size as f64).ln();
        let span = (log(*last) - log(*first)).max(f64::MIN_POSITIVE);
        let (left, width) = (FREE.0 + 10.0, PANEL.0 - FREE.0 - FREE.2 - 20.0);
        let x = |size: u64| left + width * (log(size) - log(*first)) / span;
        for size in &along {
            let place = (x(*size), PANEL.1 - FREE.3 + 16.0);
            text(svg, "tick", place, "middle", &sizes.write(*size as f64));
        }
        for series in &self.series {
            let points: Vec<_> = series
                .values
                .iter()
                .map(|(size, value)| (x(*size), *value))
                .collect();
            let path: Vec<_> = points
                .iter()
                .map(|(x, value)| format!("{x:.1},{:.1}", self.y(*value, top)))
                .collect();
            let color = series.color;
            let _ = writeln!(
                svg,
                "<polyline class=\"line s{color}\" points=\"{}\"/>",
                path.join(" ")
            );
            for (x, value) in &points {
                mark(svg, color, (*x, self.y(*value, top)));
            }
        }
        self.label_ends(svg, &x, top);
    }

    /// Writes the last value of each line behind it, one above the other where two are close.
    fn label_ends(&self, svg: &mut String, x: &impl Fn(u64) -> f64, top: f64) {
        let ends = self.series.iter().filter_map(|series| {
            let (size, value) = series.values.last()?;
            Some((self.y(*value, top) + 4.0, x(*size), series.color, *value))
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        // From the lowest one up: the axis is below it, and nothing above the highest one.
        let mut limit = f64::MAX;
        for (y, x, color, value) in ends.into_iter().rev() {
            let y = y.min(limit);
            limit = y - LABEL;
            let class = format!("value f{color}");
            text(svg, &class, (x + 9.0, y), "start", &self.unit.write(value));
        }
    }

    /// A bar for each store.
    fn bars(&self, svg: &mut String, key: &[(String, usize)]) {
        let top = self.frame(svg);
        let width = (PANEL.0 - FREE.0 - FREE.2) / self.series.len().max(1) as f64;
        for (place, series) in self.series.iter().enumerate() {
            let Some((_, value)) = series.values.first() else {
                continue;
            };
            let (x, y) = (FREE.0 + width * (place as f64 + 0.5), self.y(*value, top));
            let (bar, height) = (width * 0.46, self.y(0.0, top) - y);
            let color = series.color;
            let left = x - bar / 2.0;
            let _ = writeln!(
                svg,
                "<rect class=\"f{color}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{bar:.1}\" \
                 height=\"{height:.1}\" rx=\"2\"/>"
            );
            text(
                svg,
                "value",
                (x, y - 7.0),
                "middle",
                &self.unit.write(*value),
            );
            let name = key
                .iter()
                .find(|(_, of)| *of == color)
                .map_or("", |(name, _)| name);
            text(svg, "tick", (x, PANEL.1 - FREE.3 + 16.0), "middle", name);
        }
    }
}

impl Unit {
    fn write(self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        match self {
            Self::Count => short(value, ["", "k", "M"], 1_000.0),
            Self::Bytes => short(value, [" B", " KiB", " MiB"], 1_024.0),
            Self::Kb => short(value, [" kB", " MB", " GB"], 1_000.0),
            Self::Mb => short(value, [" MB", " GB", " TB"], 1_000.0),
            Self::Ms if value >= 1_000.0 => format!("{} s", digits(value / 1_000.0)),
            Self::Ms => format!("{} ms", digits(value)),
        }
    }
}

fn short(value: f64, units: [&str; 3], base: f64) -> String {
    match value {
        _ if value < base => format!("{}{}", digits(value), units[0]),
        _ if value < base * base => format!("{}{}", digits(value / base), units[1]),
        _ => format!("{}{}", digits(value / base / base), units[2]),
    }
}

/// Two or three digits that count, without zeros at the end.
fn digits(value: f64) -> String {
    let text = match value {
        _ if value >= 100.0 => return format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A step of 1, 2, 2.5 or 5 times a power of ten, of which three or four reach a value.
fn nice_step(largest: f64) -> f64 {
    let rough = largest.max(f64::MIN_POSITIVE) / 3.2;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= rough);
    step.unwrap_or(10.0) * power
}

fn text(svg: &mut String, class: &str, (x, y): (f64, f64), anchor: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

/// A circle, a square or a diamond, so that colour is not all that tells lines apart.
fn mark(svg: &mut String, color: usize, (x, y): (f64, f64)) {
    let _ = match color {
        0 => writeln!(
            svg,
            "<circle class=\"f0\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"
        ),
        1 => writeln!(
            svg,
            "<rect class=\"f1\" x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\"/>",
            x - 3.5,
            y - 3.5
        ),
        _ => writeln!(
            svg,
            "<path class=\"f{color}\" d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\"/>",
            y - 5.0
        ),
    };
}
