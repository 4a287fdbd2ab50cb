//! Rendering: tables, fields, charts, colours and JSON, and questions.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly::__server::text::is_unseen;
use duly::time::Timestamp;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::error::{CommandError, Result};

/// The widest bar of a chart, in characters.
const BAR_MAX: usize = 50;
/// How often a progress bar without progress is drawn.
const TICK: Duration = Duration::from_millis(200);

/// A colour of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
}

/// The standard output of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    colours: bool,
}

impl Output {
    /// Colours are for terminals, unless `NO_COLOR` is set or the terminal is `dumb`.
    pub(crate) fn new(json: bool) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colours = io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb;
        Self { json, colours }
    }

    pub(crate) fn has_colours(&self) -> bool {
        self.colours
    }

    pub(crate) fn line(&self, text: &str) -> Result<()> {
        Ok(writeln!(io::stdout().lock(), "{text}")?)
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)
            .map_err(|error| CommandError::failed(format!("no JSON: {error}")))?;
        self.line(&text)
    }

    /// Writes a value as JSON where that is asked for, and otherwise a text.
    pub(crate) fn value(&self, value: &impl Serialize, text: &str) -> Result<()> {
        if self.json {
            self.json(value)
        } else {
            self.line(text)
        }
    }

    /// Writes a list, as JSON or as a table, and what there is more: of JSON to stderr, as an array has
    /// no place for it.
    pub(crate) fn list(
        &self,
        items: &impl Serialize,
        (heads, rows): (&[&str], &[Vec<String>]),
        more: Option<&str>,
    ) -> Result<()> {
        if self.json {
            self.json(items)?;
            more.into_iter().for_each(said);
            Ok(())
        } else {
            self.table(heads, rows)?;
            more.map_or(Ok(()), |more| self.line(more))
        }
    }

    pub(crate) fn paint(&self, colour: Colour, text: &str) -> String {
        if self.colours {
            format!("\u{1b}[{}m{text}\u{1b}[0m", colour as u8)
        } else {
            text.to_owned()
        }
    }

    fn bold(&self, text: &str) -> String {
        if self.colours {
            format!("\u{1b}[1m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// Writes a table; numbers are aligned to the right.
    pub(crate) fn table(&self, heads: &[&str], rows: &[Vec<String>]) -> Result<()> {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max();
            let head = heads.get(column).map_or(0, |head| head.chars().count());
            widest.unwrap_or(0).max(head)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let line = |cells: &[String]| {
            let cells = cells.iter().zip(&widths).map(|(cell, width)| {
                let is_number = !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit());
                if is_number {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
        self.line(&self.bold(&line(&heads)))?;
        rows.iter().try_for_each(|row| self.line(&line(row)))
    }

    /// Writes names and values, one pair on each line.
    pub(crate) fn fields(&self, fields: &[(&str, Option<String>)]) -> Result<()> {
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in fields {
            if let Some(value) = value {
                self.line(&format!("{name:<width$}  {value}"))?;
            }
        }
        Ok(())
    }

    /// Writes a chart of bars, the longest for the largest value.
    pub(crate) fn chart(&self, bars: &[(String, usize)]) -> Result<()> {
        let most = bars.iter().map(|(_, value)| *value).max().unwrap_or(0);
        let digits = most.to_string().len();
        for (name, value) in bars {
            let eighths = (value * BAR_MAX * 8).checked_div(most).unwrap_or(0);
            // What is not zero is seen.
            let eighths = eighths.max(usize::from(*value > 0));
            let mut bar = "█".repeat(eighths / 8);
            bar.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)));
            let bar = self.paint(Colour::Cyan, &bar);
            self.line(format!("{name}  {value:>digits$}  {bar}").trim_end())?;
        }
        Ok(())
    }
}

/// Writes a line to the standard error; that nobody reads it is no failure.
pub(crate) fn said(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Formats a time.
pub(crate) fn time(millis: u64) -> String {
    Timestamp::from_millis(millis).to_string()
}

/// Formats a payload: a text as it is, without what could control a terminal, or its base64.
pub(crate) fn payload(base64: &str) -> String {
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    let is_plain = |text: &String| !text.chars().any(|c| is_unseen(c) && c != '\n');
    let text = String::from_utf8(bytes).ok().filter(is_plain);
    text.unwrap_or_else(|| format!("{base64} (base64)"))
}

/// Makes a text of an event safe for a terminal, and one line.
pub(crate) fn plain(text: &str) -> String {
    let plain = text.chars().map(|c| if is_unseen(c) { ' ' } else { c });
    plain.collect()
}

/// Formats a span as its largest unit.
pub(crate) fn age(millis: u64) -> String {
    match millis / 1_000 {
        0 => format!("{millis}ms"),
        seconds @ 1..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// A progress bar on the standard error, if that is a terminal.
pub(crate) fn progress(total: Option<u64>, what: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::new_spinner(),
    };
    let form = match total {
        Some(_) => "{msg} {wide_bar} {pos}/{len} {eta}",
        None => "{spinner} {msg} {pos}",
    };
    // A form that is not understood leaves the default one.
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(TICK);
    bar
}

/// Asks before something that cannot be undone.
pub(crate) fn confirm(yes: bool, question: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(CommandError::usage(format!(
            "{question} Nothing was changed: confirm it with --yes, as there is no terminal to ask \
             on"
        )));
    }
    if write!(io::stderr().lock(), "{question} [y/N] ").is_err() {
        return Err(CommandError::usage(
            "nothing was changed: nobody reads the question",
        ));
    }
    let mut result = String::new();
    stdin.lock().read_line(&mut result)?;
    match result.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(CommandError::usage("nothing was changed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_cannot_control_the_terminal() {
        let shown = |bytes: &[u8]| payload(&STANDARD.encode(bytes));
        assert_eq!(shown(br#"{"order":7}"#), r#"{"order":7}"#);
        assert_eq!(shown(b"\x1b[2J"), "G1sySg== (base64)");
        assert_eq!(plain("a\x1b[31mb\nc"), "a [31mb c");
        assert_eq!(plain("ann\u{202e}moc"), "ann moc");
    }

    #[test]
    fn spans_have_one_unit() {
        assert_eq!(age(999), "999ms");
        assert_eq!(age(119_000), "119s");
        assert_eq!(age(7_199_000), "119m");
        assert_eq!(age(172_800_000), "2d");
    }
}
