//! A delayed job queue and event bus that delivers on time, can prove it, and can explain itself.
//!
//! A program pushes a value, now or for later; a handler in this program or another one receives it
//! when it is due, again and again until it succeeds. Under it lies a durable store, in front of
//! the handlers a lock-free ring.
//!
//! ```text
//!            push              move due           fetch              publish
//!  caller ---------> SCHEDULED ---------> READY ---------> LEASED ------------> ring
//!                      ^   |                ^                |                    |
//!                      |   | cancel         | reap           |                    v
//!                      |   `-> CANCELLED    `-- lease ran out                pool: handler
//!                      |                                                          |
//!                      |  retry after backoff                                     |
//!                      `------------------------------------ outcome <------------'
//!                                                            |    |
//!                                                        ack |    | bury
//!                                                            v    v
//!                                                          DONE  DEAD --- revive ---> READY
//!
//!  every outcome also writes one consumption record, which `records` reads
//! ```
//!
//! # A whole program
//!
//! ```no_run
//! use std::time::Duration;
//! use duly::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Unpaid {
//!     order: u64,
//! }
//!
//! #[delay_event(queue = "order-close", workers = 16, timeout = "30s", backoff = "exp(1s..10m)")]
//! async fn close_order(event: Event<Unpaid>) -> Result<(), Failure> {
//!     println!("closing order {}", event.payload.order);
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> duly::Result<()> {
//!     let bus = Bus::builder().start().await?; // finds every annotated handler
//!     let orders = bus.queue::<close_order>();
//!     orders.push(Unpaid { order: 7 }, Duration::from_secs(1800)).await?;
//!     tokio::signal::ctrl_c().await.ok();
//!     bus.shutdown(Duration::from_secs(30)).await
//! }
//! ```
//!
//! # Tour
//!
//! - Write a [`Handler`] and annotate it with [`delay_event`]; say how it failed with a [`Failure`].
//! - Start a [`Bus`]; get a [`Queue`] and push. The [`Receipt`] says what was reached.
//! - [`Queue::cancel`], [`Queue::reschedule`] and [`Queue::update`] tell the truth.
//! - [`Bus::records`] reads what happened in every attempt.
//! - [`Queue::lease`] pulls events instead of having a handler, also for [other
//!   programs](lease::LeaseToken).
//! - [`Queue::publish`] is the path without a store, [`Queue::call`] the one with a reply.
//! - Settings: [`config`]. A store of your own: [`store::Store`]. Tests without waiting: `testing`,
//!   with the feature of that name.
//!
//! [The guide](_docs::guide) goes from the first handler to operation. The other pages:
//! [what is promised](_docs::delivery) and [how that is kept](_docs::mechanisms),
//! [running it](_docs::operations),
//! [what recurs](_docs::schedules), [push and finish in your transaction](_docs::transactions),
//! [codecs, encryption and versions of payloads](_docs::payloads),
//! [what lies in the file](_docs::storage), [what is kept of every attempt](_docs::journal),
//! [what `tracing` and the log hear](_docs::tracing),
//! [what it tells while it runs](_docs::metrics), [board and alerts](_docs::dashboards),
//! [how it is built](_docs::architecture), [how it is proven](_docs::proof),
//! [what it costs](_docs::performance).
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `embedded` | yes | the store in an SQLite file, and journals in such files |
//! | `redis` | yes | the store in Redis, with Sentinel and Cluster |
//! | `prometheus` | yes | the exporter |
//! | `schedules` | yes | what recurs: cron expressions in time zones, and intervals |
//! | `tls` | | `rediss://` |
//! | `postgres` | | the journal in PostgreSQL |
//! | `msgpack` | | payloads as MessagePack |
//! | `opentelemetry` | | the trace that an event carries |
//! | `testing` | | the bus on a virtual clock |
//!
//! A URL of what is not compiled in is refused, and the error names the feature.
//!
//! SQLite is compiled into the program once: duly takes any `rusqlite` from 0.32 to 0.43, so that it
//! stands beside sqlx 0.8 and 0.9, sea-orm and diesel in one manifest.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
pub mod __internal;
#[doc(hidden)]
pub mod __outbox;
#[doc(hidden)]
pub mod __private;
#[doc(hidden)]
pub mod __server;
mod background;
mod backoff;
mod bus;
pub mod codec;
pub mod config;
mod core;
mod duration;
mod error;
pub mod event;
mod flow;
mod handler;
pub mod journal;
pub mod metrics;
mod outage;
mod panics;
mod record;
mod retry;
#[cfg(feature = "schedules")]
pub mod schedule;
#[cfg(feature = "embedded")]
mod sqlite;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
pub mod trace;

pub use bus::{
    ALL_OR_NONE_MAX, Bus, BusBuilder, EventBuilder, PUSH_MANY_MAX, Publisher, PushItem, PushMany,
    Queue, Receipt,
};
pub use core::op::{CancelOutcome, ChangeOutcome, Unique};
pub use error::{Error, ErrorKind, Result};
pub use event::delivered::Event;
pub use event::id::EventId;
pub use event::late::LatePolicy;
pub use event::queue::QueueName;
pub use handler::{
    Annotated, AnnotatedSchedule, Annotation, BlockingHandler, Context, Failure, FailureExt,
    Handler, OldPayload, State, StateRequirement, States, Upgrade, delay_event,
};
pub use retry::{ParseRetryError, RetryPolicy};

/// Administration of a running bus: depths of queues, waiting events, forecasts, payloads.
pub mod admin {
    pub use crate::bus::{
        AuditCursor, AuditFilter, AuditLine, ChangedPage, EVENTS_MAX, Erasure, ErasureCursor,
        ErasureReport, ErasureStep, EventAction, EventCursor, EventList, EventListCursor, Events,
        FORECAST_STEPS_MAX, ForecastStep, KeyCounts, NodeInfo, OutboxBacklog, PayloadCheck,
        PayloadReport, QueueLoad, QueueStats, Reencrypt, ReencryptReport, StoreCheck, StoreReport,
        StoredEvent, UndecodablePayload,
    };
    #[cfg(feature = "schedules")]
    pub use crate::bus::{Schedule, Schedules};
    pub use crate::store::{Damage, DamageKind};
}

/// Dead letters: events whose attempts are used up, and what can be done with them.
///
/// It starts with [`Bus::dead_letters`].
pub mod dead_letters {
    pub use crate::bus::{
        BulkResult, DeadLetter, DeadLetterCursor, DeadLetters, Edited, LastRecord,
    };
}

/// Explanations: why an event is where it is.
///
/// It starts with [`Bus::explain`].
pub mod explain {
    pub use crate::bus::{Attempts, Explanation, HolderStatus, Reason, Spread};
}

/// Leases: consumers that pull their events instead of having a handler.
///
/// It starts with [`Queue::lease`] and [`Bus::lease_from`].
pub mod lease {
    pub use crate::bus::lease::{
        EncodedPayload, EndResult, LEASE_MAX, LEASE_QUEUES_MAX, LEASE_WAIT_MAX, LeaseOutcome,
        LeaseRequest, LeaseStatus, LeaseToken, Leased,
    };
}

/// Records: one line of history for each attempt.
///
/// It starts with [`Bus::records`].
pub mod records {
    pub use crate::bus::{MinuteStatsQuery, RecordStream, Records, Replay, ReplayReport};
    pub use crate::record::{
        BY_BYTES_MAX, Cause, Cursor, ERROR_BYTES_MAX, Format, Lateness, MinuteQuery, MinuteStats,
        NodeId, Numbered, Order, Outcome, PAYLOAD_KEPT_MAX, Page, Query, Record, Stages, cut_error,
    };
}

/// Imports for most programs.
///
/// [`State`] is not here: beside axum's extractor of that name it is better written out.
/// [`Event`] and [`Context`] are here, since nearly every handler names them. They share their
/// names with `axum::response::sse::Event` and `anyhow::Context`; an import by name takes
/// precedence over these, and `duly::Event` and `duly::Context` are still at hand:
///
/// ```
/// # mod axum { pub mod sse { pub struct Event; } pub struct State<T>(pub T); }
/// use axum::{State, sse::Event};
/// use duly::prelude::*;
///
/// async fn close_order(event: duly::Event<u64>) -> Result<(), Failure> {
///     Ok(())
/// }
///
/// async fn page(State(orders): State<Queue<u64>>) -> Event {
///     Event
/// }
/// ```
pub mod prelude {
    #[doc(no_inline)]
    pub use serde::{Deserialize, Serialize};

    pub use crate::config::QueueChoices;
    #[doc(no_inline)]
    pub use crate::delay_event;
    pub use crate::records::Outcome;
    pub use crate::time::When;
    pub use crate::{
        BlockingHandler, Bus, CancelOutcome, ChangeOutcome, Context, Error, ErrorKind, Event,
        EventId, Failure, FailureExt, Handler, LatePolicy, Queue, Receipt, RetryPolicy, Unique,
    };
}

/// The guides, so that their code runs as tests and their links are checked.
///
/// `links.md` defines where their links lead in here; the definitions of a page itself, which come
/// later and so do not count, lead to the same in the repository. A test makes it of those, and
/// `pictures.md`, too.
pub mod _docs {
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/architecture.md")]
    pub mod architecture {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/dashboards.md")]
    pub mod dashboards {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/delivery.md")]
    pub mod delivery {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/guide.md")]
    pub mod guide {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/journal.md")]
    pub mod journal {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/mechanisms.md")]
    pub mod mechanisms {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/metrics.md")]
    pub mod metrics {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/operations.md")]
    pub mod operations {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/payloads.md")]
    pub mod payloads {}
    #[cfg_attr(doc, doc = include_str!("docs/pictures.md"))] // 60 KiB
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/performance.md")]
    pub mod performance {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/proof.md")]
    pub mod proof {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/schedules.md")]
    pub mod schedules {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/storage.md")]
    pub mod storage {}
    #[doc = include_str!("docs/links.md")]
    #[doc = include_str!("docs/tracing.md")]
    pub mod tracing {}
    #[doc = include_str!("docs/links.md")]
    // Its examples are tests of `duly-outbox`.
    #[cfg_attr(not(doctest), doc = include_str!("docs/transactions.md"))]
    pub mod transactions {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
