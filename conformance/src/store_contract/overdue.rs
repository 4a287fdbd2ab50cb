//! Promises of leases past their own deadline while nobody pulls: from that moment on they are over
//! for every operation that tells of events or changes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, EventDraft, World, secs};
use duly::event::{BucketKey, State};
use duly::records::Outcome;
use duly::store::Watcher;
use duly::store::operation::{BATCH_MAX, Fetch, PeekBy, PushOutcome, Stats, StoreOp};
use duly::{CancelOutcome, ChangeOutcome, EventId, LatePolicy, Unique};

const TICK: Duration = Duration::from_micros(1);

impl World {
    /// Leases what is ready for five seconds.
    async fn hold(&self, limit: usize) {
        let fetch = Fetch {
            hold: Some(secs(5)),
            ..self.fetching(A, limit)
        };
        assert!(!self.fetch_by(&fetch).await.is_empty());
    }

    /// One event whose lease is over, and that nobody has pulled since.
    async fn overdue(&self, draft: EventDraft) -> EventId {
        let id = self.add(draft).await;
        self.hold(1).await;
        self.advance(secs(5));
        id
    }

    /// So many of them.
    async fn overdue_many(
        &self,
        many: usize,
        draft: impl Fn(usize, EventDraft) -> EventDraft,
    ) -> Vec<EventId> {
        let drafts: Vec<_> = (0..many).map(|n| draft(n, self.event())).collect();
        for drafts in drafts.chunks(BATCH_MAX) {
            self.push_all(drafts).await;
        }
        while self.stats().await.leased < many {
            self.hold(BATCH_MAX).await;
        }
        self.advance(secs(6));
        drafts.iter().map(EventDraft::id).collect()
    }
}

pub async fn what_is_over_by_its_deadline_is_not_leased(harness: &dyn StoreHarness) {
    for way in 0..5 {
        let world = World::new(harness).await;
        let id = world.add(world.event().key("order:7")).await;
        world.hold(1).await;
        world.advance(secs(5) - TICK);
        assert_eq!(world.stats().await.leased, 1);
        world.advance(TICK);
        let (all, of_key) = (PeekBy::All, PeekBy::Key("order:7".to_owned()));
        match way {
            0 => {
                let counts = Stats {
                    ready: 1,
                    oldest_ready: Some(world.now()),
                    ..Stats::default()
                };
                assert_eq!(world.stats().await, counts);
            }
            1 => assert_eq!(world.state(id).await, Some(State::Ready)),
            2 | 3 => {
                let by = if way == 2 { all } else { of_key };
                let (found, _) = world.peek_by(by, None, 10).await;
                let found: Vec<_> = found.iter().map(|it| (it.id, it.state, it.tries)).collect();
                assert_eq!(found, [(id, State::Ready, 1)]);
            }
            // With it a puller looks for what is there.
            _ => assert_eq!(world.op(StoreOp::move_due(0, false)).await.ready, 1),
        }
        assert_eq!(world.record(id).await.outcome, Outcome::LeaseLost);
        let delivery = world.take(A).await;
        assert_eq!((delivery.id, delivery.attempt), (id, 2));
    }
}

pub async fn what_is_over_by_its_deadline_can_be_changed(harness: &dyn StoreHarness) {
    for change in 0..4 {
        let world = World::new(harness).await;
        let id = world.overdue(world.event()).await;
        let is_changed = |outcome| matches!(outcome, ChangeOutcome::ChangedAfterAttempt(_));
        match change {
            0 => {
                let cancelled = CancelOutcome::CancelledAfterAttempt;
                assert_eq!(world.cancel(id).await, cancelled);
            }
            1 => assert!(is_changed(world.reschedule(id, secs(60)).await)),
            2 => assert!(is_changed(world.update(id, "other").await)),
            _ => assert_eq!(world.forecast(&[secs(60)]).await, [0]),
        }
        assert_eq!(world.stats().await.leased, 0);
    }
}

pub async fn what_is_over_by_its_deadline_holds_nothing(harness: &dyn StoreHarness) {
    for (attempts, on_taken) in [
        (1, Unique::Keep),
        (1, Unique::Replace),
        (2, Unique::Keep),
        (2, Unique::Replace),
    ] {
        let world = World::new(harness).await;
        let draft = || world.event().attempts(attempts);
        let before = world.overdue(draft().unique("user:7", Unique::Keep)).await;
        // The others of its push are pushed once.
        let others = [draft(), draft().unique("user:7", on_taken), draft()];
        let pushed = world.push_all(&others).await;
        let expected = match (attempts, on_taken) {
            (1, _) => PushOutcome::Accepted, // that was its last attempt
            (_, Unique::Keep) => PushOutcome::Duplicate(before),
            _ => PushOutcome::Replaced(before),
        };
        let pushed: Vec<_> = pushed.into_iter().map(|it| it.verdict).collect();
        assert_eq!(
            pushed,
            [PushOutcome::Accepted, expected, PushOutcome::Accepted]
        );
        let dead = usize::from(attempts == 1);
        let stats = world.stats().await;
        assert_eq!((stats.ready, stats.leased, stats.dead), (3, 0, dead));
    }
}

pub async fn what_is_over_by_its_deadline_at_the_last_attempt_is_dead(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.overdue(world.event().attempts(1)).await;
    assert_eq!(world.read_dead(None, 10).await, [id]);
    let id = world.overdue(world.event().attempts(1)).await;
    assert_eq!(world.revive(&[id]).await, 1);
}

/// It expires when it waits again, which is then.
pub async fn what_is_over_by_its_deadline_may_have_expired(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let at = world.now() + secs(3);
    let id = world.overdue(world.event().expires(at)).await;
    assert_eq!(world.stats().await, Stats::default());
    assert_eq!(world.state(id).await, Some(State::Expired));
}

/// An operation does a bounded piece, and looks past the rest.
pub async fn however_many_leases_are_over_none_of_them_counts(harness: &dyn StoreHarness) {
    const MANY: usize = 1_700;
    let world = World::new(harness).await;
    let ids = world.overdue_many(MANY, |n, draft| {
        let draft = draft.attempts(if n % 10 == 0 { 1 } else { 3 });
        draft.unique(&format!("user:{n}"), Unique::Keep)
    });
    let ids = ids.await;
    let stats = world.stats().await;
    let counts = (stats.ready, stats.leased, stats.dead);
    assert_eq!(counts, (MANY - MANY / 10, 0, MANY / 10));
    let cancelled = CancelOutcome::CancelledAfterAttempt;
    assert_eq!(world.cancel(ids[MANY - 1]).await, cancelled);
    assert_eq!(world.state(ids[MANY - 2]).await, Some(State::Ready));
    let again = world.event().unique("user:1690", Unique::Keep);
    assert_eq!(
        world.push(&again).await,
        PushOutcome::Accepted,
        "it is dead"
    );
}

/// A page ends where the next one begins, so it must have all that is before that.
pub async fn however_many_leases_are_over_every_dead_letter_is_found(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let last = |n: usize| !n.is_multiple_of(3);
    let ids = world.overdue_many(1_700, |n, draft| {
        draft.attempts(if last(n) { 1 } else { 3 })
    });
    let ids = ids.await;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = world.op(StoreOp::read_dead(after, BATCH_MAX)).await;
        found.extend(page.letters.iter().map(|letter| letter.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let dead = ids.iter().enumerate().filter(|(n, _)| last(*n));
    let dead: Vec<_> = dead.map(|(_, id)| *id).collect();
    assert_eq!(found, dead);
    for revives in [true, false] {
        let world = World::new(harness).await;
        let ids = world
            .overdue_many(1_700, |_, draft| draft.attempts(1))
            .await;
        let some = &ids[1_600..];
        let changed = if revives {
            world.revive(some).await
        } else {
            world.drop_dead(some).await
        };
        assert_eq!(changed, some.len(), "revived: {revives}");
    }
}

/// They would wait, and be over at once.
pub async fn however_many_leases_are_over_what_has_expired_does_not_count(
    harness: &dyn StoreHarness,
) {
    for late in [false, true] {
        let world = World::new(harness).await;
        let at = world.now() + secs(3);
        let too_late = LatePolicy::Bury(secs(3));
        let expires = |_, draft: EventDraft| {
            if late {
                draft.late(too_late)
            } else {
                draft.expires(at)
            }
        };
        let ids = world.overdue_many(1_200, expires).await;
        let dead = if late { ids.len() } else { 0 };
        let counts = Stats {
            dead,
            ..Stats::default()
        };
        assert_eq!(world.stats().await, counts);
        assert_eq!(
            world.read_dead(None, BATCH_MAX).await.len(),
            dead.min(BATCH_MAX)
        );
    }
}

/// What was leased ahead of its time waits for that again.
pub async fn however_many_leases_are_over_what_is_to_come_is_forecast(harness: &dyn StoreHarness) {
    const MANY: usize = 1_200;
    let world = World::new(harness).await;
    let drafts: Vec<_> = (0..MANY).map(|_| world.event().when(secs(60))).collect();
    for drafts in drafts.chunks(BATCH_MAX) {
        world.push_all(drafts).await;
    }
    while world.stats().await.leased < MANY {
        let ahead = Fetch {
            hold: Some(secs(5)),
            ahead: secs(100),
            ahead_limit: BATCH_MAX,
            ..world.fetching(A, BATCH_MAX)
        };
        assert!(!world.fetch_by(&ahead).await.is_empty());
    }
    world.advance(secs(6));
    assert_eq!(world.stats().await.scheduled, MANY);
    assert_eq!(world.forecast(&[secs(10), secs(120)]).await, [0, MANY]);
}

/// A puller looks for what is there by a move of nothing, and others have to know what it has found.
pub async fn a_watcher_is_told_of_leases_that_are_over(harness: &dyn StoreHarness) {
    for way in 0..3 {
        let world = World::new(harness).await;
        let earlier = Arc::new(Earlier::default());
        let watcher: Arc<dyn Watcher> = Arc::clone(&earlier) as _;
        let watched = world.store().watch(Arc::downgrade(&watcher));
        watched.expect("there is room");
        world.overdue(world.event()).await;
        earlier.0.store(0, Ordering::SeqCst);
        let ready = match way {
            0 => world.op(StoreOp::move_due(0, false)).await.ready,
            1 => world.stats().await.ready,
            _ => world.reap(Vec::new(), 100).await.ready,
        };
        assert_eq!(
            (ready, earlier.0.load(Ordering::SeqCst) > 0),
            (1, true),
            "{way}"
        );
    }
}

#[derive(Default)]
struct Earlier(AtomicUsize);

impl Watcher for Earlier {
    fn earlier(&self, _: &BucketKey) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn called(&self, _: &BucketKey) {}
}

/// Whoever counts them by the reaps counts each one once.
pub async fn a_reap_tells_of_each_lease_that_was_over_before(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let drafts = [world.event(), world.event().attempts(1)];
    world.push_all(&drafts).await;
    world.hold(2).await;
    world.advance(secs(5));
    world.stats().await;
    let reaped = world.reap(Vec::new(), 100).await;
    assert_eq!((reaped.ready, reaped.dead), (1, 1));
    let reaped = world.reap(Vec::new(), 100).await;
    assert_eq!((reaped.ready, reaped.dead), (0, 0));
}
