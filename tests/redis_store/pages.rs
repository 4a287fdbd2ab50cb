//! Events of one push that share a page: nothing of it can be seen, whatever happens to one of them.

mod forgotten;
mod leaving;
mod orders;
mod peeked;
mod scheduled;
mod sizes;
mod swept;

use std::sync::Arc;
use std::time::Duration;

use duly::event::State;
use duly::prelude::*;
use duly::records::{Cause, Outcome};
use duly::store::RedisOptions;
use duly::store::operation::{
    AttemptOutcome, FailureReason, Fetch, PushOutcome, Reply, Settlement, StartMark, Stats, StoreOp,
};
use duly::time::When;

use crate::redis_store::kit::{Bare, ID, NODE, fresh, hex, until};
use crate::servers::{Redis, shared};

/// A store in which so many events lie in pages, in their order.
struct Paged {
    bare: Bare,
    ids: Vec<EventId>,
    base: String,
    server: &'static Redis,
}

impl Paged {
    async fn with(count: usize) -> Self {
        Self::due(count, When::Now).await
    }

    async fn due(count: usize, when: When) -> Self {
        Self::open(RedisOptions::new(), count, when).await
    }

    async fn open(options: RedisOptions, count: usize, when: When) -> Self {
        let server = shared();
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open_with(&url, options).await;
        let ids = bare.new_run(count);
        let events = ids.iter().map(|id| bare.plain(*id, when)).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
        let base = format!("{prefix}:{{letters:0}}:");
        let paged = Self {
            bare,
            ids,
            base,
            server,
        };
        let entries = paged.entries() + paged.scheduled_entries();
        assert_eq!(entries, count.div_ceil(64), "they are in pages");
        paged.is_sound().await;
        paged
    }

    fn entries(&self) -> usize {
        self.len("LLEN", "ready")
    }

    fn scheduled_entries(&self) -> usize {
        self.len("ZCARD", "delay")
    }

    fn len(&self, command: &str, part: &str) -> usize {
        let len = self.server.cli(&[command, &format!("{}{part}", self.base)]);
        len.parse().expect("a number")
    }

    async fn stats(&self) -> Stats {
        self.bare.typed(StoreOp::stats()).await.expect("stats")
    }

    async fn is_sound(&self) {
        assert_eq!(self.bare.store.audit_whole().await.unwrap(), [""; 0]);
    }

    async fn end(&self, id: EventId, request: u64, verdict: AttemptOutcome) -> bool {
        let settlement = Settlement {
            id,
            request,
            verdict,
            started_us: 1,
            fetched_us: 1,
        };
        let settle = StoreOp::settle(NODE, vec![settlement], StartMark::default());
        let stood = self.bare.typed(settle).await.expect("a settle");
        self.is_sound().await;
        stood == [true]
    }
}

fn failed() -> FailureReason {
    FailureReason {
        cause: Cause::Failed,
        error: None,
    }
}

#[tokio::test]
async fn an_event_that_is_cancelled_leaves_its_page_and_the_others_keep_their_order() {
    let paged = Paged::with(10).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    for at in [0, 4, 9] {
        let id = ids[at];
        bare.apply(StoreOp::Cancel { id }).await.expect("a cancel");
        assert_eq!(bare.state(id).await, State::Cancelled);
        paged.is_sound().await;
    }
    let left: Vec<_> = [1, 2, 3, 5, 6, 7, 8].map(|at| ids[at]).into();
    assert_eq!(bare.fetch(1, 100).await.unwrap(), left);
    paged.is_sound().await;
    assert_eq!(bare.ack(1, &left).await.unwrap(), [true; 7]);
    paged.is_sound().await;
}

#[tokio::test]
async fn an_ack_that_is_repeated_ends_nothing_else() {
    let paged = Paged::with(10).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    assert_eq!(&bare.fetch(1, 100).await.unwrap(), ids);
    for _ in 0..2 {
        assert_eq!(bare.ack(1, &ids[..3]).await.unwrap(), [true; 3]);
        paged.is_sound().await;
    }
    assert_eq!(
        bare.ack(2, &ids[3..5]).await.unwrap(),
        [false; 2],
        "another lease"
    );
    assert_eq!(bare.state(ids[3]).await, State::Leased);
    assert_eq!(bare.ack(1, &ids[3..]).await.unwrap(), [true; 7]);
    paged.is_sound().await;
    for id in ids {
        let records = bare.records(*id).await;
        let outcomes: Vec<_> = records.iter().map(|it| it.outcome).collect();
        assert_eq!(outcomes, [Outcome::Acked]);
    }
}

#[tokio::test]
async fn an_id_is_known_after_all_events_of_its_page_have_ended() {
    let paged = Paged::with(10).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    let again = async || {
        let events = ids.iter().map(|id| bare.plain(*id, When::Now)).collect();
        bare.typed(StoreOp::push(events)).await.expect("a push")
    };
    let are_known = |pushed: &[duly::store::operation::PushReport]| {
        let outcomes = pushed.iter().map(|it| &it.verdict);
        outcomes
            .into_iter()
            .all(|it| matches!(it, PushOutcome::Duplicate { .. }))
    };
    assert!(are_known(&again().await), "while they wait");
    bare.fetch(1, 100).await.expect("a fetch");
    assert!(are_known(&again().await), "while they are leased");
    bare.ack(1, ids).await.expect("acks");
    assert!(are_known(&again().await), "when they are over");
    for id in ids {
        assert_eq!(bare.state(*id).await, State::Done);
    }
    paged.is_sound().await;
}

#[tokio::test]
async fn a_page_is_leased_in_parts_where_there_is_no_room_for_all() {
    let paged = Paged::with(150).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    let mut seen = Vec::new();
    for (request, limit) in (1..).zip([1, 5, 70, 3, 40, 100]) {
        let fetched = bare.fetch(request, limit).await.expect("a fetch");
        paged.is_sound().await;
        assert_eq!(
            bare.fetch(request, limit).await.unwrap(),
            fetched,
            "as it was"
        );
        assert_eq!(
            bare.ack(request, &fetched).await.unwrap(),
            vec![true; fetched.len()]
        );
        paged.is_sound().await;
        seen.extend(fetched);
    }
    assert_eq!(&seen, ids);
    assert_eq!(paged.entries(), 0);
}

#[tokio::test]
async fn events_that_fail_leave_their_page_with_their_attempts() {
    let paged = Paged::with(6).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    bare.fetch(1, 100).await.expect("a fetch");
    let retry = AttemptOutcome::Retry(Duration::ZERO, failed());
    assert!(paged.end(ids[0], 1, retry).await);
    assert!(paged.end(ids[1], 1, AttemptOutcome::Bury(failed())).await);
    assert!(paged.end(ids[2], 1, AttemptOutcome::Release).await);
    assert!(
        paged
            .end(ids[3], 1, AttemptOutcome::Snooze(Duration::from_secs(60)))
            .await
    );
    assert!(paged.end(ids[4], 1, AttemptOutcome::Ack).await);
    assert!(
        !paged.end(ids[5], 2, AttemptOutcome::Ack).await,
        "another lease"
    );
    let states = [
        State::Ready,
        State::Dead,
        State::Ready,
        State::Scheduled,
        State::Done,
        State::Leased,
    ];
    for (id, state) in ids.iter().zip(states) {
        assert_eq!(bare.state(*id).await, state);
    }
    let fetch = Fetch {
        node: NODE,
        request: 2,
        limit: 100,
        ahead: Duration::ZERO,
        ahead_limit: 0,
        hold: None,
        starts: usize::MAX,
    };
    let fetched = bare.typed(StoreOp::fetch(fetch)).await.expect("a fetch");
    let attempts: Vec<_> = fetched
        .deliveries
        .iter()
        .map(|it| (it.id, it.attempt))
        .collect();
    assert_eq!(
        attempts,
        [(ids[2], 1), (ids[0], 2)],
        "what came back stands in front"
    );
    paged.is_sound().await;
}

#[tokio::test]
async fn the_events_of_a_silent_node_leave_their_pages_in_order() {
    let paged = Paged::with(100).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    bare.fetch(1, 100).await.expect("a fetch");
    bare.ack(1, &ids[..30]).await.expect("acks");
    let reap = |silent| StoreOp::Reap { silent, limit: 40 };
    let Reply::Reaped(seen) = bare.apply(reap(Vec::new())).await.unwrap() else {
        panic!("a reap is answered as one");
    };
    let mut silent = seen.holders;
    until("nothing is held any more", async || {
        let reaped = bare.apply(reap(std::mem::take(&mut silent))).await;
        let Ok(Reply::Reaped(reaped)) = reaped else {
            panic!("{reaped:?}");
        };
        paged.is_sound().await;
        !reaped.more
    })
    .await;
    for id in &ids[30..] {
        assert_eq!(bare.state(*id).await, State::Ready);
    }
    assert_eq!(
        bare.ack(1, &ids[..40]).await.unwrap()[..31],
        [[true; 30].as_slice(), &[false]].concat()
    );
    paged.is_sound().await;
}

#[tokio::test]
async fn leases_with_deadlines_are_given_to_events_alone() {
    let paged = Paged::with(64).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    let fetch = Fetch {
        node: NODE,
        request: 1,
        limit: 3,
        ahead: Duration::ZERO,
        ahead_limit: 0,
        hold: Some(Duration::from_millis(1)),
        starts: usize::MAX,
    };
    let fetched = bare.typed(StoreOp::fetch(fetch)).await.expect("a fetch");
    let leased: Vec<_> = fetched.deliveries.iter().map(|it| it.id).collect();
    assert_eq!(leased, ids[..3]);
    paged.is_sound().await;
    until("their leases are over", async || {
        let silent = Vec::new();
        let reaped = bare.apply(StoreOp::Reap { silent, limit: 40 }).await;
        reaped.expect("a reap");
        paged.stats().await.ready == 64
    })
    .await;
    paged.is_sound().await;
}

#[tokio::test]
async fn an_event_that_was_pushed_alone_is_known_when_its_whole_page_is_pushed() {
    let bare = Bare::open(&fresh(&shared().url()).0).await;
    let ids = bare.new_run(10);
    let mut alone = bare.plain(ids[4], When::Now);
    Arc::make_mut(&mut alone.envelope).attempts = 3; // it needs a place of its own
    bare.apply(StoreOp::Push(vec![alone]))
        .await
        .expect("a push");
    let events = ids.iter().map(|id| bare.plain(*id, When::Now)).collect();
    let pushed = bare.typed(StoreOp::push(events)).await.expect("a push");
    let known: Vec<_> = pushed
        .iter()
        .map(|it| matches!(it.verdict, PushOutcome::Duplicate(_)))
        .collect();
    let expected: Vec<_> = (0..10).map(|at| at == 4).collect();
    assert_eq!(known, expected);
    assert_eq!(bare.fetch(1, 100).await.unwrap().len(), 10);
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn parts_of_one_page_that_came_by_several_pushes_end_on_their_own() {
    let bare = Bare::open(&fresh(&shared().url()).0).await;
    let ids = bare.new_run(30);
    for some in [&ids[20..], &ids[..10], &ids[10..20]] {
        let events = some.iter().map(|id| bare.plain(*id, When::Now)).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
    }
    let in_order = [&ids[20..], &ids[..10], &ids[10..20]].concat();
    assert_eq!(bare.fetch(1, 25).await.unwrap(), in_order[..25]);
    assert_eq!(bare.ack(1, &in_order[..20]).await.unwrap(), [true; 20]);
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
    let bury = Settlement {
        id: in_order[20],
        request: 1,
        verdict: AttemptOutcome::Bury(failed()),
        started_us: 1,
        fetched_us: 1,
    };
    let settle = StoreOp::settle(NODE, vec![bury], StartMark::default());
    assert_eq!(bare.typed(settle).await.unwrap(), [true]);
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
    assert_eq!(bare.fetch(2, 25).await.unwrap(), in_order[25..]);
    for id in &in_order[..20] {
        assert_eq!(bare.state(*id).await, State::Done);
    }
}

#[tokio::test]
async fn events_that_are_pushed_after_others_of_their_page_were_leased_are_leased_too() {
    let bare = Bare::open(&fresh(&shared().url()).0).await;
    let ids = bare.new_run(30);
    for (request, some) in (1..).zip([&ids[20..], &ids[..10], &ids[10..20]]) {
        let events = some.iter().map(|id| bare.plain(*id, When::Now)).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
        assert_eq!(bare.fetch(request, 100).await.unwrap(), some);
        assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
    }
}

/// A call that failed midway may have left members of the delay set whose events do not wait there.
#[tokio::test]
async fn what_is_due_and_does_not_wait_is_not_moved() {
    let paged = Paged::with(70).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    bare.fetch(1, 6).await.expect("a fetch");
    bare.ack(1, &ids[..3]).await.expect("acks");
    let delay = format!("{}delay", paged.base);
    for id in &ids[..6] {
        let script = format!("{ID} return redis.call('ZADD', KEYS[1], 1, id)");
        paged.server.cli(&["EVAL", &script, "1", &delay, &hex(*id)]);
    }
    let (limit, calls) = (100, false);
    let moved = bare.apply(StoreOp::MoveDue { limit, calls }).await;
    assert!(
        matches!(&moved, Ok(Reply::Moved(moved)) if moved.moved == 0),
        "{moved:?}"
    );
    paged.is_sound().await;
    assert_eq!(bare.fetch(2, 100).await.unwrap(), ids[6..]);
    assert_eq!(bare.ack(1, &ids[3..6]).await.unwrap(), [true; 3]);
    paged.is_sound().await;
}
