//! The drawing of `duly top`.

#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};

use crate::command::output::{plain, time};
use crate::command::top::columns::{cut, fitting, joined};
use crate::command::top::view::{HEADS, View};

/// The height from which the load of the selected queue is drawn.
const CHART_FROM: u16 = 14;
const CHART_HEIGHT: u16 = 4;

/// The lines beside the rows of the table and the load.
const FRAME_HEIGHT: u16 = 4;

/// Whether the load is drawn: not where it would hide queues that fit without it.
fn has_load(height: u16, queues: usize) -> bool {
    let fits = |load: u16| queues <= usize::from(height.saturating_sub(FRAME_HEIGHT + load));
    height >= CHART_FROM && (fits(CHART_HEIGHT) || !fits(0))
}

/// Draws everything; without colours what matters is bold or reversed.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, now_ms: u64, colours: bool) {
    let area = frame.area();
    let chart = if has_load(area.height, view.rows().count()) {
        CHART_HEIGHT
    } else {
        0
    };
    let [head, table, load, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(1),
        Constraint::Length(chart),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(frame, head, view, now_ms, colours);
    draw_table(frame, table, view, colours);
    if chart > 0 {
        draw_load(frame, load, view, colours);
    }
    let order = format!("s sort: {}", view.order().as_str());
    let parts = ["q quit".to_owned(), "↑↓ select".to_owned(), order];
    let line = joined(&parts, "   ", usize::from(keys.width));
    frame.render_widget(Paragraph::new(line).style(dim()), keys);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View, now_ms: u64, colours: bool) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let width = usize::from(area.width);
    let old = view.old(now_ms);
    let style = match old {
        Some(_) => coloured(bold, Color::Red, colours),
        None => bold,
    };
    // Of an old picture its age is the first that is said.
    let name = "duly top".to_owned();
    let parts: Vec<String> = old
        .into_iter()
        .chain([name, time(view.read_ms())])
        .collect();
    let title = Line::styled(joined(&parts, "   ", width), style);
    let second = match view.error() {
        Some(error) => Line::styled(plain(error), coloured(bold, Color::Red, colours)),
        None => Line::raw(joined(&view.summary(), "  ", width)),
    };
    frame.render_widget(Paragraph::new(vec![title, second]), area);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, view: &mut View, colours: bool) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let late: Vec<bool> = view.is_late().collect();
    let rows: Vec<[String; HEADS.len()]> = view.rows().collect();
    let mut widths = HEADS.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let columns = fitting(widths, usize::from(area.width));
    let is_number = |column: usize| (2..=6).contains(&column);
    let aligned = |column: usize, text: String| {
        if is_number(column) {
            Line::from(text).right_aligned()
        } else {
            Line::from(text)
        }
    };
    let rows = rows.iter().zip(late).map(|(cells, is_late)| {
        let cells = columns.iter().map(|(column, width)| {
            let cell = &cells[*column];
            let style = match (*column, cell.as_str()) {
                (1, _) if is_late => coloured(bold, Color::Yellow, colours),
                (5, dead) if dead != "0" => coloured(Style::new(), Color::Red, colours),
                _ => Style::new(),
            };
            let text = match column {
                0 => cut(cell, *width),
                _ => cell.clone(),
            };
            Cell::from(aligned(*column, text)).style(style)
        });
        Row::new(cells.collect::<Vec<_>>())
    });
    let heads = columns
        .iter()
        .map(|(column, width)| Cell::from(aligned(*column, cut(HEADS[*column], *width))));
    let widths = columns
        .iter()
        .map(|(_, width)| Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)));
    let table = Table::new(rows.collect::<Vec<_>>(), widths)
        .header(Row::new(heads.collect::<Vec<_>>()).style(bold))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut view.table);
}

/// What falls due of the selected queue, minute by minute.
fn draw_load(frame: &mut Frame<'_>, area: Rect, view: &View, colours: bool) {
    let [title, chart] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let Some((queue, steps)) = view.forecast() else {
        return;
    };
    let width = usize::from(title.width);
    let (words, counts) = match steps {
        Ok(steps) => {
            let counts: Vec<_> = steps.iter().map(|step| step.events as u64).collect();
            let total: u64 = counts.iter().sum();
            let total = format!("{total} fall due in the next hour");
            let name = cut(queue, width.saturating_sub(total.len() + 2));
            (joined(&[format!("{name}: {total}")], "", width), counts)
        }
        Err(error) => (plain(&format!("{queue}: {error}")), Vec::new()),
    };
    frame.render_widget(Paragraph::new(words).style(dim()), title);
    let bars =
        Sparkline::default()
            .data(counts)
            .style(coloured(Style::new(), Color::Cyan, colours));
    frame.render_widget(bars, chart);
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn coloured(style: Style, colour: Color, colours: bool) -> Style {
    if colours { style.fg(colour) } else { style }
}
