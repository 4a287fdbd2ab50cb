//! The operations of a store: each is a file with its call, its arguments and its reply, and a script.
//!
//! [`operations!`] lists those that take one call; adding one adds a row.

mod admit;
mod cancel;
mod capacity;
pub(in crate::store::redis) mod check;
pub(in crate::store::redis) mod confirmed;
pub(in crate::store::redis) mod connections;
pub(in crate::store::redis) mod doubted;
mod expire;
mod extend;
mod fetch;
mod forecast;
mod heartbeat;
pub(super) mod in_parts;
mod listened;
mod look;
mod move_due;
pub(crate) mod outbox;
mod outboxes;
pub(in crate::store::redis) mod page;
mod peek;
pub(in crate::store::redis) mod push;
pub(crate) mod push_script;
mod read_dead;
mod reap;
mod reconcile;
pub(crate) mod record;
pub(crate) mod reply;
mod reschedule;
pub(crate) mod revive;
mod rewrite;
pub(in crate::store::redis) mod server_facts;
pub(crate) mod settle;
pub(in crate::store::redis) mod shared;
mod stats;
mod unheard;
pub(crate) mod update;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::push::Pushes;
use self::reply::{DecodedReply, check_repeat, is_changed};
use self::shared::Shared;
use crate::core::op::{
    AttemptOutcome, FailureReason, Reply, Response, Settlement, StartMark, StoreOp,
};
use crate::error::{Error, Result};
use crate::event::{BucketKey, EventId, QueueName};
use crate::metrics::found_damage;
use crate::panics;
use crate::record::{Cause, NodeId};
use crate::store::future::StoreFuture;
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::link::reads::read as read_again;
use crate::store::redis::link::script::Script;
use crate::store::redis::script::call::{Call, CallContext};
use crate::store::redis::script::reader::{ReplyReader, unreadable};

/// Lists all operations: those that take several calls, with the future that makes them, and those
/// that take one: of each the connection, its module with its scripts, and what `call` and `read` of
/// the module get of it. One that is left out does not compile.
macro_rules! operations {
    (
        others { $($other:ident [$($of_other:ident),*];)* }
        several($shared:ident, $pushes:ident, $bucket:ident) { $($several:pat => $calls:expr;)* }
        $($pattern:pat => $link:ident, $module:ident [$($script:ident),*], $given:expr;)*
    ) => {
        /// Returns the scripts on keys of a bucket.
        pub(in crate::store::redis) fn scripts() -> impl Iterator<Item = &'static Script> {
            let all = [$($(&$module::$script,)*)* $($(&$other::$of_other,)*)*];
            all.into_iter().map(|script| &**script)
        }

        /// Applies an operation, in as many calls as it takes.
        pub(in crate::store::redis) fn apply(
            $shared: Arc<Shared>,
            $pushes: Arc<Pushes>,
            $bucket: BucketKey,
            op: StoreOp,
        ) -> StoreFuture<Response> {
            match op {
                $($several => StoreFuture::new(async move { $calls.await }),)*
                op => StoreFuture::new(async move {
                    if op.only_reads() {
                        read_again(|| operate(&$shared, &$bucket, &op)).await
                    } else {
                        operate(&$shared, &$bucket, &op).await
                    }
                }),
            }
        }

        #[allow(unused_variables)]
        fn call(context: &CallContext<'_>, op: &StoreOp) -> Result<Call> {
            match op {
                $($pattern => $module::call(context, $given),)*
                $($several => Err(Error::invalid("the operation takes more than one call")),)*
            }
        }

        /// Decodes the reply of an operation that takes one call.
        #[allow(unused_variables)] // some replies do not depend on what was asked
        pub fn read(queue: &QueueName, op: &StoreOp, parts: ReplyReader) -> Result<DecodedReply> {
            match op {
                $($pattern => $module::read(queue, parts, $given),)*
                $($several => Err(unreadable("several calls")),)*
            }
        }

        #[allow(unused_variables)]
        fn link_of<'a>(shared: &'a Shared, bucket: &BucketKey, op: &StoreOp) -> &'a ManagedConnection {
            match op {
                $($pattern => connection!(shared, bucket, $link),)*
                $($several => shared.links.for_pushes(bucket),)*
            }
        }
    };
}

macro_rules! connection {
    ($shared:ident, $bucket:ident, own) => {
        $shared.links.for_pushes($bucket)
    };
    ($shared:ident, $bucket:ident, $link:ident) => {
        &$shared.links.$link
    };
}

operations! {
    others {
        push_script [PUSH, PUSH_PLAIN];
        settle [SETTLE];
        update [UPDATE, EDIT_AND_REVIVE];
        rewrite [REWRITE];
        revive [REVIVE, DROP];
        expire [EXPIRE, OVERDUE];
        outbox [OUTBOX, TRIM];
        check [CHECK];
    }
    several(shared, pushes, bucket) {
        StoreOp::Push(events) => push::push(&pushes, &shared, bucket, events);
        StoreOp::Settle { node, settlements, started } =>
            settle::settle(&shared, &bucket, node, &settlements, started, 0);
        StoreOp::Update { id, payload, by, dead_only } =>
            update::update(&shared, &bucket, id, &payload, by.as_deref(), dead_only);
        StoreOp::EditAndRevive(edit) => update::edit_and_revive(&shared, &bucket, &edit);
        StoreOp::Rewrite(rewritings) => rewrite::rewrite(&shared, &bucket, &rewritings);
        StoreOp::Revive { ids, by } =>
            revive::revive_or_drop(&shared, &bucket, &ids, by.as_deref(), true);
        StoreOp::Drop { ids, by } =>
            revive::revive_or_drop(&shared, &bucket, &ids, by.as_deref(), false);
    }
    StoreOp::MoveDue { limit, calls } => work, move_due [MOVE_DUE], (*limit, *calls);
    StoreOp::Fetch(fetch) => work, fetch [FETCH], fetch;
    StoreOp::Heartbeat { node, holds, started } => pulse, heartbeat [HEARTBEAT],
        (*node, *holds, *started);
    StoreOp::Reconcile { node, from, through, held, started, limit } => pulse, reconcile [RECONCILE],
        reconcile::Statement {
            node: *node, from: *from, through: *through, held, started: *started, limit: *limit
        };
    StoreOp::Extend { node, leases, hold } => own, extend [EXTEND], (*node, leases, *hold);
    StoreOp::Reap { silent, limit } => pulse, reap [REAP], (silent, *limit);
    StoreOp::Cancel { id } => own, cancel [CANCEL], *id;
    StoreOp::Reschedule { id, when } => own, reschedule [RESCHEDULE], (*id, *when);
    StoreOp::Get { id } => own, look [LOOK], *id;
    StoreOp::Peek { by, from, limit } => own, peek [PEEK, FIND], (by, from.as_ref(), *limit);
    StoreOp::ReadDead { after, limit } => own, read_dead [READ_DEAD], (*after, *limit);
    StoreOp::Stats => own, stats [STATS], ();
    StoreOp::Forecast { within } => own, forecast [FORECAST], within;
}

/// Executes an operation that takes one call.
pub(in crate::store::redis) async fn operate(
    shared: &Arc<Shared>,
    bucket: &BucketKey,
    op: &StoreOp,
) -> Result<Response> {
    let mut terms = shared.terms(bucket);
    if matches!(op, StoreOp::Fetch(_) | StoreOp::MoveDue { .. }) {
        shared.listen(bucket);
    }
    let link = link_of(shared, bucket, op);
    let calling = shared.call_unexpired(&mut terms, link, |terms| call(terms, op));
    let (parts, is_repeat) = calling.await?;
    let read = read(&bucket.queue, op, parts)?;
    if let Reply::Rescheduled(change) = &read.response.reply {
        check_repeat(is_repeat, is_changed(change))?;
    }
    shared.learn(&terms, read.response.now_us);
    if read.is_earlier {
        shared.tell(bucket);
    }
    if read.newer > 0 && !shared.met_newer.swap(true, Ordering::Relaxed) {
        panics::reported(|| {
            tracing::warn!(
                %bucket,
                events = read.newer,
                "skipped events of a newer version of duly"
            );
        });
    }
    if read.has_recorded {
        shared.outboxes.tell(bucket);
    }
    if let StoreOp::Fetch(fetch) = op
        && !read.damaged.is_empty()
    {
        let burying = bury(shared, bucket, fetch.node, fetch.request, read.damaged);
        in_parts::part(Box::pin(burying), true).await?; // the others are leased; rare, and large
    }
    Ok(read.response)
}

/// Buries leased events whose bytes are damaged, so that they are never delivered, and can be
/// inspected.
async fn bury(
    shared: &Shared,
    bucket: &BucketKey,
    node: NodeId,
    request: u64,
    damaged: Vec<(EventId, Error)>,
) -> Result<()> {
    let settlements = damaged.into_iter().map(|(id, error)| {
        panics::reported(
            || tracing::error!(%bucket, %id, %error, "damaged event moved to the dead letters"),
        );
        Settlement {
            id,
            request,
            verdict: AttemptOutcome::Bury(FailureReason {
                cause: Cause::Undecodable,
                error: Some(error.to_string()),
            }),
            started_us: 0,
            fetched_us: 0,
        }
    });
    let settlements: Vec<_> = settlements.collect();
    let none = StartMark::default();
    settle::settle(shared, bucket, node, &settlements, none, record::DAMAGED).await?;
    found_damage("fetch", settlements.len());
    Ok(())
}
