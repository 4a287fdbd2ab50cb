//! Tests of the drawing.

use std::collections::BTreeSet;
use std::time::Duration;

use duly_server::api::{self, ForecastStep};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::*;
use crate::command::top::Sample;
use crate::command::top::view::Order;
use crate::command::view::{OverviewView, QueueView};

const NOW_MS: u64 = 1_700_000_000_000;
/// The store's time then.
const STORE_MS: u64 = NOW_MS - 3_600_000;

fn queue(name: &str, ready: usize, waits_ms: Option<u64>) -> QueueView {
    let view = api::QueueView {
        exists: true,
        scheduled: 7,
        ready,
        leased: 1,
        dead: 2,
        oldest_ready_ms: waits_ms.map(|waits| STORE_MS - waits),
        paused: name == "mail",
        rate: None,
        workers: None,
        buckets: None,
    };
    QueueView {
        queue: name.to_owned(),
        view,
        ended: Some(30),
        uncounted: None,
    }
}

fn view() -> View {
    let mut view = View::new(Order::Lateness, Duration::from_secs(2));
    let overview = OverviewView {
        queues: vec![
            queue("close", 9, None),
            queue("mail", 3, Some(90_000)),
            queue("renew", 5, Some(20)),
        ],
        has_more: false,
        nodes: 2,
        now_ms: STORE_MS,
    };
    let step = |events| ForecastStep {
        until_ms: NOW_MS,
        events,
    };
    let forecast = Some(("mail".to_owned(), Ok(vec![step(0), step(4), step(8)])));
    view.update(NOW_MS, Ok(Sample { overview, forecast }));
    view
}

fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
    drawn_at(view, NOW_MS, width, height)
}

fn drawn_at(view: &mut View, now_ms: u64, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let drawn = terminal.draw(|frame| draw(frame, view, now_ms, false));
    let buffer = drawn.expect("it is drawn").buffer.clone();
    assert!(buffer.content().iter().all(|cell| cell.fg == Color::Reset));
    let cells: Vec<_> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    let lines = cells.chunks(usize::from(width)).map(|line| line.concat());
    lines.map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn the_latest_queue_is_first_and_its_load_is_drawn() {
    let lines = drawn(&mut view(), 80, 16);
    let expected = [
        "duly top   2023-11-14T22:13:20.000Z",
        "3 queues  21 scheduled  17 ready  3 leased  6 dead  2 nodes",
    ];
    assert_eq!(lines[..2], expected);
    assert!(lines[2].starts_with("QUEUE"), "{lines:#?}");
    assert!(lines[3].starts_with("mail  90s"), "{lines:#?}");
    assert!(lines[3].ends_with("30 paused"), "{lines:#?}");
    assert!(lines[4].starts_with("renew 20ms"), "{lines:#?}");
    assert!(lines[5].starts_with("close  "), "{lines:#?}");
    assert_eq!(lines[11], "mail: 12 fall due in the next hour");
    assert!(lines[12..15].concat().contains('█'), "{lines:#?}");
    assert_eq!(lines[15], "q quit   ↑↓ select   s sort: lateness");
}

/// Most stores have a few queues, and a new one has none.
#[test]
fn few_queues_are_all_shown_with_the_load_of_the_selected_one() {
    const NAMES: [&str; 3] = ["close", "mail", "renew"];
    for count in 0..=NAMES.len() {
        let queues = NAMES[..count].iter();
        let overview = OverviewView {
            queues: queues.map(|name| queue(name, 7, None)).collect(),
            now_ms: STORE_MS,
            ..OverviewView::default()
        };
        let step = ForecastStep {
            until_ms: NOW_MS,
            events: 12,
        };
        let forecast = (count > 0).then(|| (NAMES[0].to_owned(), Ok(vec![step])));
        let mut view = View::new(Order::Name, Duration::from_secs(2));
        view.update(NOW_MS, Ok(Sample { overview, forecast }));
        for (width, height) in [(80, 24), (80, 16), (120, 60), (200, 5)] {
            let lines = drawn(&mut view, width, height);
            let counted = match count {
                1 => "1 queue  ".to_owned(),
                _ => format!("{count} queues  "),
            };
            assert!(lines[1].starts_with(&counted), "{lines:#?}");
            assert!(lines[2].starts_with("QUEUE"), "{lines:#?}");
            let fitting = count.min(usize::from(height) - 4);
            for (line, name) in lines[3..].iter().zip(&NAMES[..fitting]) {
                assert!(line.starts_with(name), "{count}, {height}: {lines:#?}");
            }
            let load = lines.iter().filter(|line| line.contains("fall due"));
            let is_loaded = count > 0 && height >= CHART_FROM;
            assert_eq!(load.count(), usize::from(is_loaded), "{lines:#?}");
        }
        for key in [
            KeyCode::Down,
            KeyCode::PageDown,
            KeyCode::Up,
            KeyCode::Char('s'),
        ] {
            assert!(!view.quits(KeyEvent::from(key)));
            assert_eq!(view.selected().is_some(), count > 0);
        }
    }
}

#[test]
fn no_queue_is_hidden_by_the_load_of_another() {
    for (queues, height, has_load) in [
        (6, 14, true),
        (7, 14, false),
        (10, 14, false),
        (11, 14, true),
    ] {
        let queues = (0..queues).map(|number| queue(&format!("q{number:02}"), 7, None));
        let overview = OverviewView {
            queues: queues.collect(),
            now_ms: STORE_MS,
            ..OverviewView::default()
        };
        let count = overview.queues.len();
        let step = ForecastStep {
            until_ms: NOW_MS,
            events: 12,
        };
        let forecast = Some(("q00".to_owned(), Ok(vec![step])));
        let mut view = View::new(Order::Name, Duration::from_secs(2));
        view.update(NOW_MS, Ok(Sample { overview, forecast }));
        let lines = drawn(&mut view, 80, height);
        let shown = lines.iter().filter(|line| line.starts_with("q0")).count();
        let loads = lines
            .iter()
            .filter(|line| line.contains("fall due"))
            .count();
        assert_eq!(loads, usize::from(has_load), "{count}: {lines:#?}");
        assert!(count > 10 || shown == count + loads, "{count}: {lines:#?}");
    }
}

#[test]
fn a_small_window_shows_the_queues_and_no_load() {
    for (width, height) in [(40, 8), (20, 5), (3, 2), (1, 1)] {
        let lines = drawn(&mut view(), width, height);
        let mentions = lines.iter().any(|line| line.contains("fall due"));
        assert!(!mentions, "{width} x {height}: {lines:#?}");
    }
    let lines = drawn(&mut view(), 40, 8);
    assert!(lines[3].starts_with("mail"), "{lines:#?}");
}

#[test]
fn keys_select_and_sort_and_quit() {
    let mut view = view();
    let press = |view: &mut View, code| view.quits(KeyEvent::from(code));
    assert_eq!(view.selected().as_deref(), Some("mail"));
    assert!(!press(&mut view, KeyCode::Down));
    assert_eq!(view.selected().as_deref(), Some("renew"));
    assert!(view.forecast().is_none(), "that of mail is not of renew");
    assert!(!press(&mut view, KeyCode::PageDown));
    assert_eq!(view.selected().as_deref(), Some("close"));
    // Sorted by ready events now; the selected one stays selected.
    assert!(!press(&mut view, KeyCode::Char('s')));
    let names: Vec<_> = view.rows().map(|[name, ..]| name).collect();
    assert_eq!(names, ["close", "renew", "mail"]);
    assert_eq!(view.selected().as_deref(), Some("close"));
    assert_eq!(view.table.selected(), Some(0));
    assert!(press(&mut view, KeyCode::Char('q')));
    assert!(press(&mut view, KeyCode::Esc));
}

#[test]
fn an_error_is_shown_over_the_last_sample() {
    let mut view = view();
    let error = crate::command::CommandError::failed("the store is away\u{1b}[2J");
    view.update(NOW_MS + 5_000, Err(error));
    let lines = drawn(&mut view, 80, 16);
    assert!(lines[0].ends_with("22:13:20.000Z"), "{lines:#?}");
    assert_eq!(lines[1], "the store is away [2J");
    assert!(lines[3].starts_with("mail  90s"), "{lines:#?}");
}

#[test]
fn a_load_that_is_not_known_leaves_the_numbers_of_all_queues() {
    let mut view = view();
    let error = crate::command::CommandError::failed("429: too many\u{1b}[2J");
    let forecast = Some(("mail".to_owned(), Err(error)));
    let overview = OverviewView {
        queues: vec![queue("mail", 4, Some(91_000))],
        now_ms: STORE_MS,
        ..OverviewView::default()
    };
    let now_ms = NOW_MS + 60_000;
    view.update(now_ms, Ok(Sample { overview, forecast }));
    let lines = drawn_at(&mut view, now_ms, 80, 16);
    assert!(lines[0].ends_with("22:14:20.000Z"), "{lines:#?}");
    assert!(lines[1].starts_with("1 queue  "), "{lines:#?}");
    assert!(lines[3].starts_with("mail  91s"), "{lines:#?}");
    assert_eq!(lines[11], "mail: 429: too many [2J");
    drawn_at(&mut view, now_ms, 3, 16);
}

#[test]
fn no_number_is_cut_however_narrow_the_window_is() {
    for magnitude in [1, 10, 12_350, 9_876_543, usize::MAX / 8] {
        let name = "shop.a-long-name-of-a-queue";
        let mut queue = queue(name, magnitude + 4, Some(90_000));
        queue.ended = Some(magnitude as u64 + 3);
        queue.view = api::QueueView {
            scheduled: magnitude,
            leased: magnitude + 1,
            dead: magnitude + 2,
            rate: Some(12.5),
            ..queue.view
        };
        let mut view = View::new(Order::Ready, Duration::from_secs(2));
        let overview = OverviewView {
            queues: vec![queue],
            has_more: false,
            nodes: 271,
            now_ms: STORE_MS,
        };
        let step = ForecastStep {
            until_ms: NOW_MS,
            events: magnitude + 5,
        };
        let forecast = Some((name.to_owned(), Ok(vec![step])));
        view.update(NOW_MS, Ok(Sample { overview, forecast }));
        let words = view.rows().flatten().chain(view.summary());
        let words = words.chain([time(NOW_MS), (magnitude + 5).to_string()]);
        let numbers: Vec<String> = words.flat_map(|text| numbers(&text)).collect();
        let numbers: BTreeSet<String> = numbers.into_iter().collect();
        for width in (1..90).chain([120, 199]) {
            let lines = drawn(&mut view, width, 16);
            for number in lines.iter().flat_map(|line| self::numbers(line)) {
                assert!(numbers.contains(&number), "{width}: {number} in {lines:#?}");
            }
        }
        let wide = drawn(&mut view, 199, 16).concat();
        assert!(numbers.iter().all(|number| wide.contains(number)), "{wide}");
    }
}

fn numbers(text: &str) -> Vec<String> {
    let numbers = text.split(|it: char| !it.is_ascii_digit());
    numbers
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_picture_that_is_old_says_so_at_any_width() {
    let mut view = view();
    for (age_ms, expected) in [
        (0, None),
        (4_999, None),
        (5_000, Some("5s old")),
        (61_000, Some("61s old")),
    ] {
        for width in [8, 20, 40, 80] {
            let lines = drawn_at(&mut view, NOW_MS + age_ms, width, 16);
            let expected = expected.unwrap_or("duly top");
            assert!(
                lines[0].starts_with(expected),
                "{age_ms} {width}: {lines:#?}"
            );
        }
    }
    view.update(
        NOW_MS + 61_000,
        Ok(Sample {
            overview: OverviewView::default(),
            forecast: None,
        }),
    );
    let lines = drawn_at(&mut view, NOW_MS + 61_000, 80, 16);
    assert!(!lines[0].contains("old"), "{lines:#?}");
}
