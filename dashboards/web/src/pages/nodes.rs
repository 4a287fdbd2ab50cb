//! The nodes of the store.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use crate::app::{App, Frame};
use crate::error::{Result, html};
use crate::guard::Visit;
use crate::text::{self, Moment, count};

/// The most nodes, and queues of each, that are shown.
const NODES_MAX: usize = 200;
const QUEUES_MAX: usize = 20;

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPage {
    frame: Frame,
    rows: Vec<Row>,
    more: usize,
    load: Vec<Load>,
    durability: String,
}

struct Row {
    id: String,
    is_here: bool,
    is_alive: bool,
    heard: Moment,
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
    let now = text::now();
    let nodes = picture.nodes.iter().take(NODES_MAX).map(|node| {
        let queues = node
            .node
            .queues
            .iter()
            .filter(|queue| visit.user.sees(queue));
        let all = queues.clone().count();
        Row {
            id: node.node.id.to_string(),
            is_here: node.node.is_here,
            is_alive: node.is_alive,
            heard: Moment::new(node.heard, now),
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
    html(&NodesPage {
        rows: nodes.collect(),
        more: picture.nodes.len().saturating_sub(NODES_MAX),
        load,
        durability: format!("{:?}", app.bus.durability()).to_lowercase(),
        frame: app.frame(&visit, "nodes", "Nodes"),
    })
}
