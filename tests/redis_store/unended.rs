//! Leases past their deadline and events that have expired, which any operation ends first: where that
//! is broken, by which process it is done, and what it must not hold up.

use std::sync::Arc;
use std::time::Duration;

use duly::Unique;
use duly::admin::DamageKind;
use duly::event::State;
use duly::store::operation::{Fetch, NewEvent, PushOutcome, Reply, Stats, StoreOp};
use duly::store::{CheckTask, Durability, Store};
use duly::time::{Timestamp, When};
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use crate::lines::Lines;
use crate::redis_store::durable::with_replica;
use crate::redis_store::kit::{Bare, NODE, fresh, until};
use crate::redis_store::overwritten::{Overwritten, opened};
use crate::seen::Seen;
use crate::servers::shared;

const HOLD: Duration = Duration::from_millis(50);

impl Bare {
    /// An event that has, or is to have, this unique key.
    fn unique(&self, key: &str) -> NewEvent {
        let mut event = self.plain(self.new_id(), When::Now);
        Arc::make_mut(&mut event.envelope).unique = Some(key.to_owned());
        event
    }

    /// Leases what is ready, until that is over.
    async fn overdue(&self, request: u64) {
        let fetch = Fetch {
            node: NODE,
            request,
            limit: 1_000,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: Some(HOLD),
            starts: usize::MAX,
        };
        let fetched = self.typed(StoreOp::fetch(fetch)).await.expect("a fetch");
        assert!(!fetched.deliveries.is_empty());
        let over_us = self.store.now_us() + 2 * HOLD.as_micros() as u64;
        until("the leases are over", async || {
            self.store.now_us() > over_us
        })
        .await;
    }

    async fn stats(&self) -> Stats {
        self.typed(StoreOp::stats()).await.expect("counts")
    }
}

/// A key that is not ours fails what needs it, and nothing else.
async fn goes_on_beside(part: &str) {
    let (seen, _guard) = Seen::recording();
    let lines = Lines::default();
    // Where there is one subscriber only, another thread's lack of one decides for this one.
    let _second = Dispatch::new(NoSubscriber::default());
    let dispatch = Dispatch::new(Registry::default().with(lines.clone()));
    let _heard_here = tracing::dispatcher::set_default(&dispatch);
    let (server, prefix, bare) = opened().await;
    let held = bare.unique("user:7");
    let id = held.envelope.id;
    bare.apply(StoreOp::Push(vec![held])).await.expect("a push");
    bare.overdue(1).await;
    let others = (0..3).map(|_| bare.plain(bare.new_id(), When::After(Duration::from_millis(1))));
    let others: Vec<_> = others.collect();
    bare.apply(StoreOp::Push(others)).await.expect("a push");

    let broken = Overwritten::new(server, &prefix, part);
    let due_us = bare.store.now_us() + 2_000;
    until("they are due", async || bare.store.now_us() > due_us).await;
    for _ in 0..3 {
        let stats = bare.stats().await;
        assert_eq!((stats.ready, stats.leased, stats.dead), (3, 1, 0), "{part}");
    }
    let moved = bare.typed(StoreOp::move_due(10, false)).await;
    assert_eq!(moved.expect("a move").moved, 3, "{part}");
    let page = bare.typed(StoreOp::read_dead(None, 10)).await;
    assert!(page.expect("a page").letters.is_empty(), "{part}");
    if part != "lease" {
        assert_eq!(bare.state(id).await, State::Leased, "{part}"); // a look reads that key
    }
    if ["nodes", "held"].contains(&part) {
        let pushed = [bare.plain(bare.new_id(), When::Now), bare.unique("user:7")];
        let pushed = bare.typed(StoreOp::push(pushed.to_vec())).await;
        let verdicts = pushed.expect("a push").into_iter().map(|it| it.verdict);
        let expected = [PushOutcome::Accepted, PushOutcome::Duplicate(id)];
        assert_eq!(verdicts.collect::<Vec<_>>(), expected, "{part}");
    }
    if part != "lease" {
        let said = seen.value("duly_store_errors_total{kind=corrupt,op=reap}");
        assert!(
            (1.0..6.0).contains(&said),
            "{part}: {said}, and not at each call"
        );
    }
    let task = CheckTask::new(false);
    let found = bare
        .store
        .check_bucket(&bare.bucket, task)
        .await
        .expect("a check");
    let is_said = found.iter().any(|it| it.kind == DamageKind::Unreadable);
    assert!(is_said, "{part}: {found:?}");

    broken.put_right();
    let reap = StoreOp::reap(Vec::new(), 100);
    bare.typed(reap).await.expect("a reap");
    assert_eq!(bare.stats().await.leased, 0, "{part}");
    assert_eq!(bare.state(id).await, State::Ready, "{part}");
    if part != "lease" {
        // Whoever has ended it, so that what breaks next is said as well.
        let ended = async || {
            let lines = lines.all();
            bare.stats().await.leased == 0 && lines.iter().any(|it| it.contains("outage ended"))
        };
        until("the end is said", ended).await;
    }
}

mod beside {
    use crate::redis_store::overwritten::of_each;

    of_each!(goes_on_beside: lease, nodes, held, outbox, past);
}

/// What has expired is ended by each call as well.
#[tokio::test]
async fn counts_go_on_beside_what_has_expired_and_cannot_be_ended() {
    let (server, prefix, bare) = opened().await;
    let soon = Timestamp::from_micros_up(bare.store.now_us()) + HOLD;
    bare.push_with(|event| event.expires = Some(soon)).await;
    let broken = Overwritten::new(server, &prefix, "outbox");
    until("it has expired", async || {
        bare.store.now_us() > soon.as_micros() + 1_000
    })
    .await;
    assert_eq!(bare.stats().await.ready, 1, "it is there");
    let moved = bare.typed(StoreOp::move_due(10, false)).await;
    assert_eq!(moved.expect("a move").ready, 1);
    broken.put_right();
    let aside = bare.fetch(1, 10).await.expect("a fetch");
    assert_eq!(aside, [], "and never delivered");
}

/// A process that only asks has no consumers, so it never reaps.
#[tokio::test]
async fn what_one_process_has_taken_back_the_reap_of_another_tells() {
    let (url, _) = fresh(&shared().url());
    let (asking, reaping) = (Bare::open(&url).await, Bare::open(&url).await);
    for (attempts, request) in [(1, 1), (3, 2)] {
        asking.push_with(|event| event.attempts = attempts).await;
        asking.overdue(request).await;
        assert_eq!(asking.stats().await.leased, 0);
    }
    let taken = async |bare: &Bare| {
        let reaped = bare.typed(StoreOp::reap(Vec::new(), 100)).await;
        let reaped = reaped.expect("a reap");
        (reaped.ready, reaped.dead)
    };
    assert_eq!(taken(&reaping).await, (1, 1));
    assert_eq!(taken(&reaping).await, (0, 0));
    assert_eq!(taken(&asking).await, (0, 0));
}

/// Of a push that waits for replicas each piece is a call of its own.
#[tokio::test]
async fn a_durable_push_ends_leases_after_what_it_has_decided() {
    let (master, _replica) = with_replica().await;
    let bare = Bare::open(&fresh(&master.url()).0).await;
    let holder = bare.unique("user:7");
    let id = holder.envelope.id;
    bare.apply(StoreOp::Push(vec![holder]))
        .await
        .expect("a push");
    bare.overdue(1).await;
    let events = vec![
        bare.plain(bare.new_id(), When::Now),
        bare.unique("user:7"),
        bare.plain(bare.new_id(), When::Now),
    ];
    let mut taken = events.clone();
    taken[1].on_taken = Unique::Replace;
    for (events, expected) in [
        (events, PushOutcome::Duplicate(id)),
        (taken, PushOutcome::Replaced(id)),
    ] {
        let pushed = bare
            .store
            .push_durably(&bare.bucket, events, Durability::Replicated(1))
            .await;
        let Reply::Pushed(pushed) = pushed.expect("a push").reply else {
            panic!("a push replies verdicts")
        };
        assert_eq!(pushed[1].verdict, expected);
        assert_eq!(pushed.len(), 3);
    }
}

/// Of pages and of a crowd alike, a fetch knows before it leases what it needs.
#[tokio::test]
async fn a_fetch_of_single_events_needs_no_sizes_of_pages() {
    let (server, prefix, bare) = opened().await;
    let id = bare.new_id();
    let later = bare.plain(bare.new_id(), When::After(Duration::from_secs(60)));
    let events = vec![bare.plain(id, When::Now)];
    bare.apply(StoreOp::Push(events)).await.expect("a push");
    bare.apply(StoreOp::Push(vec![later]))
        .await
        .expect("a push");
    let broken = Overwritten::new(server, &prefix, "sizes");
    assert_eq!(bare.fetch(1, 10).await.expect("a fetch"), [id]);
    server.cli(&["DEL", &broken.key]);
}
