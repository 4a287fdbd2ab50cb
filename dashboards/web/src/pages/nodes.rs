//! The nodes of the store.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use duly::QueueName;
use duly::time::Timestamp;

use crate::app::App;
use crate::error::{Result, html};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::picture::NodeNow;
use crate::text::{self, Moment, count, span};

/// The most nodes, and queues of each, that are shown.
const NODES_MAX: usize = 200;
const QUEUES_MAX: usize = 20;
/// From which difference on a clock is worth a word, and a warning.
const SKEW_SEEN: Duration = Duration::from_millis(100);
const SKEW_BAD: Duration = Duration::from_secs(1);

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPage {
    frame: Frame,
    rows: Vec<Row>,
    more: usize,
    load: Vec<Load>,
    durability: String,
    /// How far the store's clock is from this machine's.
    skew: String,
    skew_class: &'static str,
}

struct Row {
    id: String,
    /// The name of its machine; empty where it is unknown, or not for the visitor.
    host: String,
    is_here: bool,
    is_alive: bool,
    last_beat: Moment,
    queues: Vec<String>,
    more: String,
}

struct Load {
    queue: String,
    active: usize,
    workers: usize,
    queued: usize,
    ring: usize,
    is_busy: bool,
}

pub(crate) async fn page(State(app): State<Arc<App>>, visit: Visit) -> Result<Response> {
    let picture = app.sampler.picture().await;
    let now = app.bus.store_time();
    let sees = |queue: &&QueueName| visit.user.sees(queue);
    // Who sees some queues only learns of no process that serves none of them.
    let seen = picture.nodes.iter();
    let seen = seen.filter(|it| visit.user.sees_all() || it.node.queues.iter().any(|it| sees(&it)));
    let seen: Vec<&NodeNow> = seen.collect();
    let nodes = seen.iter().take(NODES_MAX).map(|node| {
        let queues = node.node.queues.iter().filter(sees);
        let all = queues.clone().count();
        let host = if visit.user.sees_hosts() {
            text::visible(&node.node.host)
        } else {
            String::new()
        };
        Row {
            id: node.node.id.to_string(),
            host,
            is_here: node.node.is_here,
            is_alive: node.is_alive,
            last_beat: Moment::new(node.last_beat, now),
            queues: queues.take(QUEUES_MAX).map(ToString::to_string).collect(),
            more: match all.saturating_sub(QUEUES_MAX) {
                0 => String::new(),
                more => format!("and {}", count(more, "other", "others")),
            },
        }
    });
    let load = app
        .bus
        .load()
        .into_iter()
        .filter(|load| visit.user.sees(&load.queue));
    let mut load: Vec<Load> = load
        .map(|load| Load {
            is_busy: load.is_busy(),
            queue: load.queue.to_string(),
            active: load.active,
            workers: load.workers,
            queued: load.queued,
            ring: load.ring,
        })
        .collect();
    load.sort_by_key(|load| !load.is_busy);
    load.truncate(NODES_MAX);
    let (skew, skew_class) = skew(now, text::now());
    html(&NodesPage {
        skew,
        skew_class,
        rows: nodes.collect(),
        more: seen.len().saturating_sub(NODES_MAX),
        load,
        durability: format!("{:?}", app.bus.durability()).to_lowercase(),
        frame: app.frame(&visit, "nodes", "Nodes"),
    })
}

/// Says how far the clock of the store is from this machine's, and how bad that is.
fn skew(store: Timestamp, here: Timestamp) -> (String, &'static str) {
    let (ahead, behind) = (store.since(here), here.since(store));
    let far = ahead.max(behind);
    if far < SKEW_SEEN {
        return ("that of this machine".to_owned(), "");
    }
    let way = if ahead > behind { "ahead of" } else { "behind" };
    let class = if far >= SKEW_BAD { "warn" } else { "" };
    (format!("{} {way} this machine", span(far)), class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skew_says_how_far_and_which_way() {
        let at = Timestamp::from_millis;
        let skew = |store: u64, here: u64| skew(at(1_000_000 + store), at(1_000_000 + here));
        assert_eq!(skew(9, 0), ("that of this machine".to_owned(), ""));
        assert_eq!(skew(140, 0), ("140ms ahead of this machine".to_owned(), ""));
        assert_eq!(
            skew(0, 90_000),
            ("1m 30s behind this machine".to_owned(), "warn")
        );
    }
}
