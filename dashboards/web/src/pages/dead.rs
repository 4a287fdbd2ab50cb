//! Dead letters: found by a filter, one by one or all of them.

use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use duly::dead_letters::{DeadLetterCursor, DeadLetters};
use duly::event::BucketId;
use duly::records::{Cause, NodeId};
use duly::time::Timestamp;
use duly::{Bus, EventId, QueueName};

use crate::access::{Role, User};
use crate::app::App;
use crate::error::{PageError, Result, html};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::pages::queue::name_of;
use crate::questions::in_time;
use crate::text::{self, Fields, Moment};

/// The rows of a page.
const ROWS: usize = 50;
/// How many queues are named in one question; the next page goes on with the rest.
const QUEUES_MAX: usize = 200;

/// A filter of dead letters, as it stands in a query.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadFilter {
    pub(crate) queue: Option<String>,
    pub(crate) cause: Option<Cause>,
    pub(crate) error: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) node: Option<NodeId>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
}

impl DeadFilter {
    pub(crate) fn read(fields: &Fields, visit: &Visit) -> Result<Self> {
        let owned = |name: &str| fields.get(name).map(str::to_owned);
        let queue = fields
            .get("queue")
            .map(|queue| name_of(visit, queue))
            .transpose()?;
        Ok(Self {
            queue: queue.map(|queue| queue.to_string()),
            cause: fields.get("cause").map(str::parse).transpose()?,
            error: owned("error"),
            key: owned("key"),
            node: text::node(fields)?,
            since: text::instant(fields, "since")?,
            until: text::instant(fields, "until")?,
        })
    }

    pub(crate) fn letters(&self, bus: &Bus) -> DeadLetters {
        let mut letters = bus.dead_letters();
        if let Some(queue) = &self.queue {
            letters = letters.queue(queue);
        }
        if let Some(cause) = self.cause {
            letters = letters.cause(cause);
        }
        if let Some(error) = &self.error {
            letters = letters.error(error);
        }
        if let Some(key) = &self.key {
            letters = letters.key(key);
        }
        if let Some(node) = self.node {
            letters = letters.node(node);
        }
        if let Some(since) = self.since {
            letters = letters.since(since);
        }
        if let Some(until) = self.until {
            letters = letters.until(until);
        }
        letters
    }

    /// The filter in words.
    pub(crate) fn words(&self, user: &User) -> String {
        let mut words = vec![user.queues_in_words(self.queue.as_deref())];
        words.extend(
            self.cause
                .map(|cause| format!("that failed by cause {cause}")),
        );
        words.extend(
            self.error
                .as_ref()
                .map(|it| format!("whose error has “{}”", text::shown(it, 80))),
        );
        words.extend(
            self.key
                .as_ref()
                .map(|it| format!("with key {}", text::shown(it, 80))),
        );
        words.extend(
            self.node
                .map(|it| format!("whose last attempt ran on node {it}")),
        );
        words.extend(self.since.map(|at| format!("dead since {at}")));
        words.extend(self.until.map(|at| format!("dead before {at}")));
        words.join(", ")
    }
}

#[derive(Template)]
#[template(path = "dead.html")]
struct DeadPage {
    frame: Frame,
    queue: String,
    cause: String,
    error: String,
    key: String,
    node: String,
    since: String,
    until: String,
    causes: Vec<&'static str>,
    rows: Vec<Row>,
    query: String,
    next: Option<String>,
    is_first: bool,
    sweeps: Vec<SweepRow>,
}

struct Row {
    id: String,
    queue: String,
    died: Option<Moment>,
    tries: u16,
    cause: String,
    error: String,
    /// Its payload is encrypted, and cannot be edited.
    is_hidden: bool,
}

/// A sweep that the visitor may see.
pub(crate) struct SweepRow {
    pub(crate) id: u64,
    pub(crate) what: String,
    pub(crate) user: String,
    pub(crate) done: String,
    pub(crate) status: String,
    pub(crate) is_over: bool,
    /// Whether the visitor may stop it.
    pub(crate) may_stop: bool,
}

/// Returns the sweeps of the queues that the visitor sees, the newest first.
pub(crate) fn sweep_rows(app: &App, visit: &Visit) -> Vec<SweepRow> {
    let sweeps = app.sweeps.list().into_iter();
    let sweeps = sweeps.filter(|sweep| sweep.extent.is_seen_by(&visit.user));
    let row = |sweep: Arc<crate::sweeps::Sweep>| SweepRow {
        id: sweep.id,
        what: sweep.what.clone(),
        user: sweep.owner.user.clone(),
        done: text::number(sweep.done()),
        status: sweep.status(),
        is_over: sweep.ended().is_some(),
        may_stop: sweep.owner.user == visit.user.name || visit.user.may(Role::Admin),
    };
    sweeps.map(row).collect()
}

/// Returns the place before all dead letters of a queue.
fn begin_of(queue: &QueueName) -> DeadLetterCursor {
    DeadLetterCursor {
        queue: queue.clone(),
        bucket: BucketId(0),
        id: EventId::from_bytes([0; 16]),
    }
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let _turn = app.reads.page(&visit.user, visit.is_live).await?;
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let filter = DeadFilter::read(&fields, &visit)?;
    let picture = app.sampler.picture().await;
    let after = fields
        .get("after")
        .map(str::parse::<DeadLetterCursor>)
        .transpose()?;
    let mut letters = filter.letters(&app.bus);
    let (mut is_asked, mut beyond) = (true, None);
    if filter.queue.is_none() && picture.is_whole {
        // Only the queues that have some are asked, a part of them where there are many.
        let queues = picture
            .queues
            .iter()
            .filter(|(_, queue)| queue.stats.dead > 0);
        let from = after.as_ref().map(|after| &after.queue);
        let mut queues = queues
            .map(|(name, _)| name)
            .filter(|name| visit.user.sees(name) && from.is_none_or(|from| *name >= from));
        is_asked = false;
        for name in queues.by_ref().take(QUEUES_MAX) {
            letters = letters.queue(name);
            is_asked = true;
        }
        beyond = queues.next().map(begin_of);
    } else if filter.queue.is_none() && !visit.user.sees_all() {
        return Err(PageError::invalid(
            "choose a queue; the others are still being counted",
        ));
    }
    let is_first = after.is_none();
    let (items, next) = if is_asked {
        let page = in_time(letters.after(after).limit(ROWS).page()).await?;
        (page.items, page.next.or(beyond))
    } else {
        (Vec::new(), None)
    };
    let now = app.bus.store_time();
    let rows = items.into_iter().map(|letter| Row {
        id: letter.id.to_string(),
        queue: letter.queue.to_string(),
        died: letter.died.map(|died| Moment::new(died, now)),
        tries: letter.tries,
        cause: letter
            .cause()
            .map(|cause| cause.as_str().replace('_', " "))
            .unwrap_or_default(),
        error: match (&letter.last, letter.error()) {
            (_, Some(error)) => text::shown(error, 300),
            (duly::dead_letters::LastRecord::Pruned, None) => "its record was pruned".to_owned(),
            _ => String::new(),
        },
        is_hidden: letter.payload_shown().starts_with("encrypted under key"),
    });
    html(&DeadPage {
        queue: fields.text("queue"),
        cause: fields.text("cause"),
        error: fields.text("error"),
        key: fields.text("key"),
        node: fields.text("node"),
        since: text::local(&fields, "since")?,
        until: text::local(&fields, "until")?,
        causes: Cause::ALL.map(Cause::as_str).to_vec(),
        rows: rows.collect(),
        query: fields.with(&[("after", "")]),
        next: next.map(|next| format!("?{}", fields.with(&[("after", &next.to_string())]))),
        is_first,
        sweeps: sweep_rows(&app, &visit),
        frame: app.frame(&visit, "dead", "Dead letters"),
    })
}
