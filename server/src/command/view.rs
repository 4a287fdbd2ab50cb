//! The types that commands read from a source and show.

use std::ops::Deref;
use std::time::Duration;

use duly::event::State;
use duly::records::{Cause, NodeId, Outcome};
use duly::time::Timestamp;
use duly_server::api;
use serde::Serialize;

/// A queue.
pub(crate) type QueueView = api::NamedQueue;
/// How a number is shown that is not known.
const UNKNOWN: &str = "?";

/// Formats the number of events of a queue in some state.
pub(crate) fn events(queue: &QueueView, many: usize) -> String {
    match queue.uncounted {
        None => many.to_string(),
        Some(_) => UNKNOWN.to_owned(),
    }
}

/// Returns how many queues could not be counted, in words, if any.
pub(crate) fn uncounted(queues: &[QueueView]) -> Option<String> {
    match queues.iter().filter(|it| it.uncounted.is_some()).count() {
        0 => None,
        1 => Some("1 queue cannot be counted".to_owned()),
        many => Some(format!("{many} queues cannot be counted")),
    }
}

/// An event that is not over.
pub(crate) type EventView = InQueue<api::EventView>;
/// A dead letter.
pub(crate) type DeadView = InQueue<api::DeadView>;
/// A part of a list of events.
pub(crate) type EventListView = api::EventPage;
/// A record.
pub(crate) type RecordView = InQueue<api::RecordView>;

/// What is of a queue, with its name.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct InQueue<T> {
    pub(crate) queue: String,
    #[serde(flatten)]
    pub(crate) view: T,
}

impl<T> InQueue<T> {
    pub(crate) fn new(queue: impl Into<String>, view: T) -> Self {
        let queue = queue.into();
        Self { queue, view }
    }
}

impl<T> Deref for InQueue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.view
    }
}

/// Many queues at once.
#[derive(Debug, Default, Serialize)]
pub(crate) struct OverviewView {
    pub(crate) queues: Vec<QueueView>,
    /// Whether there are queues beyond the limit.
    pub(crate) has_more: bool,
    /// How many nodes have handlers for queues; clients over HTTP are none.
    pub(crate) nodes: usize,
    /// The store's time, by which events are ready, in milliseconds since the epoch.
    pub(crate) now_ms: u64,
}

/// A change of the settings of a queue; `Some(None)` removes a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueChange {
    pub(crate) paused: Option<bool>,
    pub(crate) rate: Option<Option<f64>>,
    pub(crate) workers: Option<Option<u16>>,
    pub(crate) buckets: Option<Option<u16>>,
}

/// A page, and where the next one begins.
#[derive(Debug)]
pub(crate) struct PageView<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<String>,
}

impl<T> PageView<T> {
    /// Returns the page, whose items are all of a queue.
    pub(crate) fn in_queue(self, queue: &str) -> PageView<InQueue<T>> {
        let items = self.items.into_iter();
        PageView {
            items: items.map(|item| InQueue::new(queue, item)).collect(),
            next: self.next,
        }
    }
}

/// A filter of events that are not over; an unset field matches everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    pub(crate) queue: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) unique: Option<String>,
    pub(crate) contains: Option<String>,
    pub(crate) state: Option<State>,
    /// Of the due time.
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
}

/// What is done to the events that match and wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BulkAction {
    /// Nothing: they are counted.
    Count,
    Cancel,
    RunNow,
    /// Due at a time.
    At(Timestamp),
}

/// A bounded part of a change of many events.
#[derive(Clone, Debug)]
pub(crate) struct EventBulk {
    pub(crate) action: BulkAction,
    /// What was pushed later is left alone; `None`: later than now.
    pub(crate) pushed_until_ms: Option<u64>,
    pub(crate) after: Option<String>,
    pub(crate) limit: usize,
}

/// A bounded part of an erasure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EraseStep<'a> {
    pub(crate) key: &'a str,
    pub(crate) queue: Option<&'a str>,
    pub(crate) cancel: bool,
    pub(crate) dry_run: bool,
    pub(crate) after: Option<&'a str>,
}

/// A bounded part of a replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayStep<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: Option<u32>,
    pub(crate) dry_run: bool,
    pub(crate) after: Option<&'a str>,
    pub(crate) limit: usize,
}

/// A filter of dead letters; an unset field matches everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadFilter {
    pub(crate) queue: Option<String>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) cause: Option<Cause>,
    pub(crate) error: Option<String>,
    pub(crate) node: Option<NodeId>,
    pub(crate) key: Option<String>,
}

/// A filter of records; an unset field matches everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordFilter {
    pub(crate) queue: Option<String>,
    pub(crate) id: Option<duly::EventId>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) cause: Option<Cause>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) key: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) node: Option<NodeId>,
    pub(crate) newest_first: bool,
}

/// An event, and its queue if that is given; a server needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventPath<'a> {
    pub(crate) id: duly::EventId,
    pub(crate) queue: Option<&'a str>,
}

/// A change of an event that waits.
#[derive(Clone, Debug)]
pub(crate) enum EventChange {
    /// Due after a delay from now.
    After(Duration),
    /// Due at a time.
    At(Timestamp),
    /// Another payload, of JSON.
    Payload(Box<serde_json::value::RawValue>),
}

/// What is done with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeadAction {
    /// They become ready, with all their attempts.
    Revive,
    /// They are removed for good.
    Drop,
}
