//! Charts as inline SVG, of numbers only.

use std::fmt::Write;

/// The size of a chart in its own units; the style sheet stretches it.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 60.0;

/// A chart, and what stands beside it.
#[derive(Debug, Default)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    /// The value that matters now.
    pub(crate) value: String,
    /// What the chart shows, for those who do not see it.
    pub(crate) label: String,
    /// The texts below its begin and its end.
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) top: String,
    /// The values at the top, the middle and the bottom, with their unit; empty without an axis.
    pub(crate) scale: Vec<String>,
    /// Times that are evenly spread below it, instead of `from` and `to`.
    pub(crate) times: Vec<String>,
    /// Whether each step has a title, and leads somewhere.
    pub(crate) has_steps: bool,
    /// The class of each part, and what it is of.
    pub(crate) legend: Vec<(&'static str, &'static str)>,
    svg: String,
}

impl Chart {
    pub(crate) fn new(title: &'static str, value: String, label: String) -> Self {
        Self {
            title,
            value,
            label,
            ..Self::default()
        }
    }

    pub(crate) fn between(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        (self.from, self.to) = (from.into(), to.into());
        self
    }

    /// The largest value, as a text.
    pub(crate) fn top(mut self, top: String) -> Self {
        self.top = top;
        self
    }

    /// The values on its left side, and the times below it.
    pub(crate) fn axes(mut self, scale: [String; 3], times: Vec<String>) -> Self {
        (self.scale, self.times) = (scale.into(), times);
        self
    }

    /// Names the parts, by their classes.
    pub(crate) fn legend(mut self, legend: &[(&'static str, &'static str)]) -> Self {
        self.legend = legend.to_vec();
        self
    }

    /// Lines, each with a class; the first one is filled.
    pub(crate) fn lines(mut self, lines: &[(&str, Vec<f64>)]) -> Self {
        let max = lines.iter().flat_map(|(_, values)| values).copied();
        let max = max.fold(1e-9, f64::max);
        for (at, (class, values)) in lines.iter().enumerate() {
            let step = WIDTH / (values.len().max(2) - 1) as f64;
            let mut path = String::new();
            for (at, value) in values.iter().enumerate() {
                let (x, y) = (
                    at as f64 * step,
                    HEIGHT - value / max * (HEIGHT - 4.0) - 1.0,
                );
                let verb = if at == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{verb}{x:.1} {y:.1}"); // writing to a string never fails
            }
            if at == 0 && values.len() > 1 {
                let area = format!("{path}L{WIDTH} {HEIGHT}L0 {HEIGHT}Z");
                let _ = write!(self.svg, "<path class=\"area {class}\" d=\"{area}\"/>");
            }
            let _ = write!(self.svg, "<path class=\"line {class}\" d=\"{path}\"/>");
        }
        self
    }

    /// Bars; each has parts of classes, from the bottom up.
    pub(crate) fn bars(mut self, parts: &[(&str, Vec<f64>)]) -> Self {
        let len = parts
            .iter()
            .map(|(_, values)| values.len())
            .max()
            .unwrap_or(0);
        let of = |values: &[f64], at: usize| values.get(at).copied().unwrap_or(0.0);
        let sum = |at| parts.iter().map(|(_, values)| of(values, at)).sum::<f64>();
        let max = (0..len).map(sum).fold(1e-9, f64::max);
        let step = WIDTH / len.max(1) as f64;
        for at in 0..len {
            let mut y = HEIGHT;
            for (class, values) in parts {
                let value = of(values, at);
                if value <= 0.0 {
                    continue;
                }
                let height = (value / max * (HEIGHT - 2.0)).max(1.5);
                y -= height;
                let _ = write!(
                    self.svg,
                    "<rect class=\"bar {class}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" \
                     height=\"{height:.1}\"/>",
                    at as f64 * step + step * 0.12,
                    step * 0.76
                );
            }
        }
        self
    }

    /// The values of each step, which a pointer and the arrow keys show, and where it leads; neither
    /// has characters that mean something in SVG, but `&` between the fields of an address.
    pub(crate) fn steps<'a>(mut self, steps: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let steps: Vec<_> = steps.collect();
        let step = WIDTH / steps.len().max(1) as f64;
        for (at, (title, to)) in steps.iter().enumerate() {
            let to = to.replace('&', "&amp;");
            let _ = write!(
                self.svg,
                "<rect class=\"hit\" data-to=\"{to}\" x=\"{:.1}\" y=\"0\" width=\"{step:.1}\" \
                 height=\"{HEIGHT}\"><title>{title}</title></rect>",
                at as f64 * step
            );
        }
        self.has_steps = !steps.is_empty();
        self
    }

    /// The marks of the image, which have nothing in them but numbers and names of classes.
    pub(crate) fn svg(&self) -> &str {
        &self.svg
    }
}
