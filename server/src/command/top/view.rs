//! The view of `duly top`: the queues in an order, and the one that is selected.

use std::time::Duration;

use clap::ValueEnum;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::TableState;

use super::{Forecast, Sample};
use crate::command::error::Result;
use crate::command::output::age;
use crate::command::view::{OverviewView, QueueView, events, uncounted};

/// The names of the columns.
pub(super) const HEADS: [&str; 8] = [
    "QUEUE",
    "LATE",
    "SCHEDULED",
    "READY",
    "LEASED",
    "DEAD",
    "ENDED/MIN",
    "SETTINGS",
];
/// From when on it is said that what is shown is old, unless readings are further apart.
const OLD_MIN: Duration = Duration::from_secs(5);
/// How many rows a page key goes.
const PAGE: usize = 10;

/// The order of the queues; what is most comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// How long the oldest ready event waits
    Lateness,
    /// Ready events
    Ready,
    /// Scheduled events
    Scheduled,
    /// Dead letters
    Dead,
    /// The name
    Name,
}

impl Order {
    fn next(self) -> Self {
        match self {
            Self::Lateness => Self::Ready,
            Self::Ready => Self::Scheduled,
            Self::Scheduled => Self::Dead,
            Self::Dead => Self::Name,
            Self::Name => Self::Lateness,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Lateness => "lateness",
            Self::Ready => "ready",
            Self::Scheduled => "scheduled",
            Self::Dead => "dead",
            Self::Name => "name",
        }
    }
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct View {
    overview: OverviewView,
    read_ms: u64,
    forecast: Option<Forecast>,
    error: Option<String>,
    order: Order,
    /// The time between two readings.
    interval: Duration,
    pub(super) table: TableState,
}

impl View {
    pub(super) fn new(order: Order, interval: Duration) -> Self {
        Self {
            overview: OverviewView::default(),
            read_ms: 0,
            forecast: None,
            error: None,
            order,
            interval,
            table: TableState::new(),
        }
    }

    /// Takes what was read at `now_ms`. After an error the last sample stays.
    pub(super) fn update(&mut self, now_ms: u64, sample: Result<Sample>) {
        match sample {
            Ok(Sample { overview, forecast }) => {
                self.overview = overview;
                (self.forecast, self.error, self.read_ms) = (forecast, None, now_ms);
                self.arrange(self.selected());
            }
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    /// Sorts the queues; the selected one stays selected, wherever it goes.
    fn arrange(&mut self, selected: Option<String>) {
        let (order, now) = (self.order, self.overview.now_ms);
        let queues = &mut self.overview.queues;
        queues.sort_by(|a, b| a.queue.cmp(&b.queue));
        let weight = |queue: &QueueView| match order {
            Order::Lateness => late_ms(queue, now).unwrap_or(0),
            Order::Ready => queue.ready as u64,
            Order::Scheduled => queue.scheduled as u64,
            Order::Dead => queue.dead as u64,
            Order::Name => 0,
        };
        queues.sort_by_key(|queue| std::cmp::Reverse(weight(queue)));
        let place = selected.and_then(|name| queues.iter().position(|it| it.queue == name));
        let first = (!queues.is_empty()).then_some(0);
        self.table.select(place.or(first));
    }

    /// Handles a key; returns whether it ends the view.
    pub(super) fn quits(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        let last = self.overview.queues.len().saturating_sub(1);
        let at = self.table.selected().unwrap_or(0);
        let to = match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('s') => {
                self.order = self.order.next();
                self.arrange(self.selected());
                return false;
            }
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => at + 1,
            KeyCode::PageUp => at.saturating_sub(PAGE),
            KeyCode::PageDown => at + PAGE,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return false,
        };
        if !self.overview.queues.is_empty() {
            self.table.select(Some(to.min(last)));
        }
        false
    }

    pub(super) fn selected(&self) -> Option<String> {
        let queue = self.overview.queues.get(self.table.selected()?)?;
        Some(queue.queue.clone())
    }

    /// Returns what falls due in each minute of the next hour, or why that is not known, if the
    /// selected queue was asked.
    pub(super) fn forecast(&self) -> Option<&Forecast> {
        let selected = self.selected()?;
        self.forecast
            .as_ref()
            .filter(|(queue, _)| *queue == selected)
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    pub(super) fn read_ms(&self) -> u64 {
        self.read_ms
    }

    /// Returns how old what is shown is, if it should have been read again.
    pub(super) fn old(&self, now_ms: u64) -> Option<String> {
        let is = Duration::from_millis(now_ms.saturating_sub(self.read_ms));
        let is_old = is >= OLD_MIN.max(2 * self.interval);
        is_old.then(|| format!("{}s old", is.as_secs()))
    }

    /// Returns the numbers of all queues, each in words.
    pub(super) fn summary(&self) -> Vec<String> {
        let OverviewView {
            queues,
            has_more,
            nodes,
            ..
        } = &self.overview;
        let sum = |of: fn(&QueueView) -> usize| queues.iter().map(of).sum::<usize>();
        let more = if *has_more { "the first " } else { "" };
        let count = match queues.len() {
            1 => "1 queue".to_owned(),
            count => format!("{count} queues"),
        };
        let nodes = match nodes {
            1 => "1 node".to_owned(),
            nodes => format!("{nodes} nodes"),
        };
        // First, as the sums are without them.
        let mut words: Vec<_> = uncounted(queues).into_iter().collect();
        words.extend([
            format!("{more}{count}"),
            format!("{} scheduled", sum(|queue| queue.scheduled)),
            format!("{} ready", sum(|queue| queue.ready)),
            format!("{} leased", sum(|queue| queue.leased)),
            format!("{} dead", sum(|queue| queue.dead)),
            nodes,
        ]);
        words
    }

    /// Returns the cells of each queue, in the order of `HEADS`.
    pub(super) fn rows(&self) -> impl Iterator<Item = [String; HEADS.len()]> {
        self.overview.queues.iter().map(|queue| {
            let late = late_ms(queue, self.overview.now_ms).map(age);
            let rate = queue.rate.map(|rate| format!("{rate}/s"));
            let paused = queue.paused.then(|| "paused".to_owned());
            let settings: Vec<_> = paused.into_iter().chain(rate).collect();
            [
                queue.queue.clone(),
                late.unwrap_or_default(),
                events(queue, queue.scheduled),
                events(queue, queue.ready),
                events(queue, queue.leased),
                events(queue, queue.dead),
                queue
                    .ended
                    .map(|ended| ended.to_string())
                    .unwrap_or_default(),
                settings.join(" "),
            ]
        })
    }

    /// Returns whether each queue is late, in the order of the rows.
    pub(super) fn is_late(&self) -> impl Iterator<Item = bool> {
        let now = self.overview.now_ms;
        let late = move |queue: &QueueView| late_ms(queue, now).is_some_and(|ms| ms >= 1_000);
        self.overview.queues.iter().map(late)
    }
}

/// Returns how long the oldest ready event waits, by the store's time.
fn late_ms(queue: &QueueView, now_ms: u64) -> Option<u64> {
    queue
        .oldest_ready_ms
        .map(|since| now_ms.saturating_sub(since))
}

#[cfg(test)]
mod tests {
    use duly_server::api;

    use super::*;

    fn queue(name: &str, many: usize, uncounted: Option<&str>) -> QueueView {
        QueueView {
            queue: name.to_owned(),
            view: api::QueueView {
                exists: true,
                scheduled: many,
                ready: many,
                leased: many,
                dead: many,
                oldest_ready_ms: None,
                paused: false,
                rate: None,
                workers: None,
                buckets: None,
            },
            ended: None,
            uncounted: uncounted.map(str::to_owned),
        }
    }

    #[test]
    fn a_queue_that_is_not_counted_has_no_numbers_and_is_in_no_sum() {
        for (away, words) in [
            (vec![], "3 queues"),
            (vec!["a"], "1 queue cannot be counted"),
            (vec!["a", "z"], "2 queues cannot be counted"),
        ] {
            let is_away = |name: &str| away.contains(&name);
            let queues = ["a", "mail", "z"].map(|name| {
                let many = if is_away(name) { 0 } else { 7 };
                queue(name, many, is_away(name).then_some("away"))
            });
            let overview = OverviewView {
                queues: queues.to_vec(),
                ..OverviewView::default()
            };
            let mut view = View::new(Order::Name, Duration::from_secs(2));
            let forecast = None;
            view.update(1, Ok(Sample { overview, forecast }));
            let summary = view.summary();
            assert_eq!(summary[0], words);
            let sum = format!("{} ready", 7 * (3 - away.len()));
            assert!(summary.contains(&sum), "{summary:?}");
            for [name, _, numbers @ .., _, _] in view.rows() {
                let number = if is_away(&name) { "?" } else { "7" };
                assert!(numbers.iter().all(|it| it == number), "{name}: {numbers:?}");
            }
        }
    }
}
