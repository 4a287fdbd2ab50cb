//! `duly event list`: events that are not over, found by key, queue, state, text and due time.

use std::num::NonZeroUsize;

use clap::Args;
use duly::admin::Events;
use duly::event::State;
use duly::time::Timestamp;
use duly::{Bus, QueueName};
use duly_server::api::ListedEvent;
use serde_json::json;

use super::error::Result;
use super::output::{Output, plain, time};
use super::source::{PAGE, Source};
use super::values;
use super::view::EventFilter;

/// The most requests for one list: each scans some ten thousand events.
const STEPS_MAX: usize = 1_000;

/// Filters; all must match.
#[derive(Args, Debug)]
pub(crate) struct FilterArguments {
    /// Those with this key
    #[arg(long, value_name = "KEY", conflicts_with = "unique")]
    key: Option<String>,
    /// The one that holds this unique key
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,
    /// Those with this text in key, headers or payload; not in encrypted ones
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Those of this queue
    #[arg(long, short, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Those in this state: scheduled, ready, leased or dead
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<State>,
    /// Those due at this time or later: 2026-01-31T12:00:00Z, or a duration ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    from: Option<Timestamp>,
    /// Those due before this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    to: Option<Timestamp>,
}

/// A list of what filters find.
#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    filter: FilterArguments,
    /// The most events
    #[arg(long, value_name = "N", default_value = "100")]
    limit: NonZeroUsize,
    /// Goes on where a list ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl EventFilter {
    /// Returns the query of a store.
    pub(super) fn events(&self, bus: &Bus) -> Events {
        let mut events = bus.events();
        if let Some(queue) = &self.queue {
            events = events.queue(queue);
        }
        if let Some(key) = &self.key {
            events = events.key(key);
        }
        if let Some(unique) = &self.unique {
            events = events.unique(unique);
        }
        if let Some(contains) = &self.contains {
            events = events.contains(contains);
        }
        if let Some(state) = self.state {
            events = events.state(state);
        }
        if let Some(since) = self.since {
            events = events.since(since);
        }
        if let Some(until) = self.until {
            events = events.until(until);
        }
        events
    }
}

fn state(word: &str) -> std::result::Result<State, String> {
    let open = [State::Scheduled, State::Ready, State::Leased, State::Dead];
    let found = open.into_iter().find(|state| state.as_str() == word);
    found.ok_or_else(|| format!("`{word}` is no state; write scheduled, ready, leased or dead"))
}

impl FilterArguments {
    /// Returns the queue, if one is given.
    pub(super) fn queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// Whether nothing selects events but perhaps a queue.
    pub(super) fn is_queue_alone(&self) -> bool {
        let texts = [&self.key, &self.unique, &self.contains];
        texts.iter().all(|it| it.is_none())
            && self.state.is_none()
            && self.from.is_none()
            && self.to.is_none()
    }

    /// What the audit says that was changed.
    pub(super) fn target(&self) -> String {
        let mut words = vec![self.queue().unwrap_or("every queue").to_owned()];
        let texts = [
            ("key", self.key.as_deref()),
            ("unique key", self.unique.as_deref()),
            ("containing", self.contains.as_deref()),
            ("state", self.state.map(State::as_str)),
        ];
        let texts = texts
            .into_iter()
            .filter_map(|(name, text)| Some((name, text?)));
        words.extend(texts.map(|(name, text)| format!("{name} {text}")));
        words.extend(self.from.map(|at| format!("due from {at}")));
        words.extend(self.to.map(|at| format!("due before {at}")));
        words.join(", ")
    }

    pub(super) fn filter(&self) -> EventFilter {
        EventFilter {
            queue: self.queue.as_ref().map(QueueName::to_string),
            key: self.key.clone(),
            unique: self.unique.clone(),
            contains: self.contains.clone(),
            state: self.state,
            since: self.from,
            until: self.to,
        }
    }
}

pub(super) async fn list<S: Source>(
    source: &S,
    output: Output,
    arguments: ListArguments,
) -> Result<()> {
    let (filter, limit) = (arguments.filter.filter(), arguments.limit.get());
    if let Some(queue) = &filter.queue {
        // One that does not exist is a mistake, and no empty list.
        source.queue(queue).await?;
    }
    let (mut events, mut next) = (Vec::new(), arguments.after);
    let (mut before, mut scanned) = (0, 0);
    for _ in 0..STEPS_MAX {
        let left = limit.saturating_sub(events.len()).clamp(1, PAGE);
        let part = source.events(&filter, next.as_deref(), left).await?;
        events.extend(part.items);
        (scanned, next) = (before + part.scanned, part.next);
        // The next part is of the same scan, unless this one's ended early.
        if part.partial {
            before = scanned;
        }
        // What is due earlier may be in a later scan, so that order ends here.
        if next.is_none() || events.len() >= limit || (part.partial && !events.is_empty()) {
            break;
        }
    }
    if output.json {
        return output.json(&json!({"items": events, "scanned": scanned, "next": next}));
    }
    let heads = ["ID", "QUEUE", "STATE", "DUE", "TRIES", "KEY"];
    output.table(&heads, &events.iter().map(row).collect::<Vec<_>>())?;
    match next {
        Some(next) => output.line(&format!(
            "... scanned {scanned}, and there may be more; go on with --after '{next}'"
        )),
        None => Ok(()),
    }
}

fn row(event: &ListedEvent) -> Vec<String> {
    vec![
        event.id.clone(),
        event.queue.clone(),
        event.state.clone(),
        time(event.due_ms),
        event.tries.to_string(),
        event.key.as_deref().map(plain).unwrap_or_default(),
    ]
}
