//! Promises of events that have expired while nobody fetches, as their queue is paused or has no
//! consumer: from that moment on they are over for every operation.

use std::time::Duration;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, EventDraft, World, ms, retry, secs};
use duly::event::State;
use duly::records::{Cause, Outcome};
use duly::store::operation::{
    AttemptOutcome, BATCH_MAX, PeekBy, PushOutcome, SetAside, Stats, StoreOp,
};
use duly::{CancelOutcome, ChangeOutcome, ErrorKind, EventId, LatePolicy, Unique};

const TICK: Duration = Duration::from_micros(1);

impl World {
    /// Creates one event for each way to expire in five seconds, due before, then and later.
    fn expiring(&self) -> Vec<EventDraft> {
        let at = self.now() + secs(5);
        vec![
            self.event().expires(at),
            self.event().expires(at).when(secs(2)),
            self.event().expires(at).when(secs(60)),
            self.event().late(LatePolicy::Expire(secs(5) - TICK)),
            self.event()
                .late(LatePolicy::Expire(secs(2) - TICK))
                .when(secs(3)),
            self.event().expires(at).late(LatePolicy::Bury(secs(60))),
        ]
    }

    /// Lets them expire. To the microsecond: before it, they live.
    async fn let_expire(&self, ids: &[EventId]) {
        self.advance(secs(5) - TICK);
        let living = self.stats().await;
        assert_eq!(living.scheduled + living.ready, ids.len());
        self.advance(TICK);
    }

    async fn found(&self, by: PeekBy) -> Vec<EventId> {
        let (events, _) = self.peek_by(by, None, BATCH_MAX).await;
        events.into_iter().map(|event| event.id).collect()
    }
}

pub async fn what_has_expired_is_not_counted(harness: &dyn StoreHarness) {
    for is_moved in [false, true] {
        let world = World::new(harness).await;
        let drafts = world.expiring();
        let ids: Vec<_> = drafts.iter().map(EventDraft::id).collect();
        world.push_all(&drafts).await;
        if is_moved {
            world.move_due().await;
        }
        world.let_expire(&ids).await;
        assert_eq!(world.stats().await, Stats::default());
        assert_eq!(world.forecast(&[secs(0), secs(3_600)]).await, [0, 0]);
        let good = world.add(world.event().when(secs(1))).await;
        assert_eq!(world.forecast(&[secs(0), secs(3_600)]).await, [0, 1]);
        world.advance(secs(1));
        let due = world.now();
        assert_eq!(world.stats().await.oldest_ready, Some(due));
        assert_eq!(world.move_due().await, 1);
        let stats = world.stats().await;
        assert_eq!((stats.ready, stats.oldest_ready), (1, Some(world.now())));
        assert_eq!(world.take(A).await.id, good);
    }
}

pub async fn what_has_expired_is_over_and_on_record(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let drafts = world.expiring();
    let ids: Vec<_> = drafts.iter().map(EventDraft::id).collect();
    world.push_all(&drafts).await;
    world.let_expire(&ids).await;
    for id in &ids {
        assert_eq!(world.state(*id).await, Some(State::Expired), "{id}");
        let record = world.record(*id).await;
        assert_eq!((record.outcome, record.attempt), (Outcome::Expired, 0));
    }
    assert_eq!(world.fetch(A).await, []);
}

pub async fn what_has_expired_cannot_be_changed(harness: &dyn StoreHarness) {
    let late = ChangeOutcome::TooLate(State::Expired);
    for change in 0..4 {
        let world = World::new(harness).await;
        let drafts = world.expiring();
        let ids: Vec<_> = drafts.iter().map(EventDraft::id).collect();
        world.push_all(&drafts).await;
        world.let_expire(&ids).await;
        for id in ids {
            match change {
                0 => assert_eq!(
                    world.cancel(id).await,
                    CancelOutcome::TooLate(State::Expired),
                    "{id}"
                ),
                1 => assert_eq!(world.reschedule(id, secs(60)).await, late, "{id}"),
                2 => assert_eq!(world.update(id, "other").await, late, "{id}"),
                _ => assert_eq!(world.revive(&[id]).await, 0, "{id}"),
            }
        }
    }
}

pub async fn what_has_expired_holds_no_unique_key(harness: &dyn StoreHarness) {
    for on_taken in [Unique::Keep, Unique::Replace] {
        for is_moved in [false, true] {
            let world = World::new(harness).await;
            let unique =
                |(at, draft): (usize, EventDraft)| draft.unique(&format!("user:{at}"), on_taken);
            let before: Vec<_> = world.expiring().into_iter().enumerate().collect();
            let before: Vec<_> = before.into_iter().map(unique).collect();
            world.push_all(&before).await;
            if is_moved {
                world.move_due().await;
            }
            world.advance(secs(5));
            let mut after = vec![world.event(); before.len()];
            after.iter_mut().for_each(|draft| *draft = world.event());
            let after: Vec<_> = after.into_iter().enumerate().map(unique).collect();
            for pushed in world.push_all(&after).await {
                assert_eq!(pushed.verdict, PushOutcome::Accepted);
            }
            for (at, new) in after.iter().enumerate() {
                let found = world.found(PeekBy::Unique(format!("user:{at}"))).await;
                assert_eq!(found, [new.id()]);
            }
            for old in &before {
                assert_eq!(world.record(old.id()).await.outcome, Outcome::Expired);
            }
        }
    }
}

pub async fn what_has_expired_keeps_no_unique_key_from_a_dead_letter(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let unique = |draft: EventDraft| draft.unique("user:7", Unique::Keep);
    let dead = world.dead(unique(world.event())).await;
    let holder = unique(world.event().expires(world.now() + secs(5)));
    let holder = world.add(holder).await;
    world.advance(secs(5));
    assert_eq!(world.revive(&[dead]).await, 1);
    let next = world.push(&unique(world.event())).await;
    assert_eq!(next, PushOutcome::Duplicate(dead));
    assert_eq!(world.record(holder).await.outcome, Outcome::Expired);
}

/// A refused operation ends what has expired as well, in memory and in whatever is read at an opening.
pub async fn what_has_expired_at_a_refused_operation_stays_over(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let unique = |draft: EventDraft| draft.unique("user", Unique::Keep);
    let before = unique(world.event().expires(world.now() + secs(5)));
    world.push_all(std::slice::from_ref(&before)).await;
    world.advance(secs(5));
    let spans = vec![secs(1); BATCH_MAX + 1];
    let refused = StoreOp::Forecast { within: spans };
    assert_eq!(world.refused(refused).await, ErrorKind::Invalid);
    let after = unique(world.event());
    assert_eq!(world.push(&after).await, PushOutcome::Accepted);
    let recorded = world.record(before.id()).await;
    let Some(world) = world.reopened().await else {
        return;
    };
    assert_eq!(
        world.push(&unique(world.event())).await,
        PushOutcome::Duplicate(after.id())
    );
    let found = world.found(PeekBy::Unique("user".to_owned())).await;
    assert_eq!(found, [after.id()]);
    assert_eq!(world.records(before.id()).await, [recorded]);
}

pub async fn what_has_expired_is_not_found(harness: &dyn StoreHarness) {
    let ways = [
        PeekBy::All,
        PeekBy::Key("order:7".to_owned()),
        PeekBy::Unique("user:0".to_owned()),
    ];
    for by in ways {
        let world = World::new(harness).await;
        let drafts = world.expiring().into_iter().enumerate().map(|(at, draft)| {
            draft
                .key("order:7")
                .unique(&format!("user:{at}"), Unique::Keep)
        });
        let drafts: Vec<_> = drafts.collect();
        world.push_all(&drafts).await;
        assert!(!world.found(by.clone()).await.is_empty());
        world.advance(secs(5));
        assert_eq!(world.found(by).await, []);
    }
}

pub async fn what_is_too_late_is_dead_though_nobody_fetches(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let late = LatePolicy::Bury(secs(5) - TICK);
    let draft = world.event().late(late).unique("user:7", Unique::Keep);
    let id = world.add(draft).await;
    world.let_expire(&[id]).await;
    let counts = Stats {
        dead: 1,
        ..Stats::default()
    };
    assert_eq!(world.stats().await, counts);
    assert_eq!(world.state(id).await, Some(State::Dead));
    assert_eq!(world.read_dead(None, 10).await, [id]);
    let record = world.record(id).await;
    assert_eq!(
        (record.outcome, record.cause),
        (Outcome::Buried, Some(Cause::TooLate))
    );
    let next = world.event().unique("user:7", Unique::Keep);
    assert_eq!(world.push(&next).await, PushOutcome::Accepted);
    assert_eq!(world.revive(&[id]).await, 1);
    assert_eq!(world.state(id).await, Some(State::Ready), "due now");
}

/// Its attempt runs; only what waits expires.
pub async fn what_is_leased_expires_when_it_waits_again(harness: &dyn StoreHarness) {
    for back in 0..3 {
        let world = World::new(harness).await;
        let id = world
            .add(world.event().expires(world.now() + secs(5)))
            .await;
        let delivery = world.take(A).await;
        world.advance(secs(60));
        let leased = Stats {
            leased: 1,
            ..Stats::default()
        };
        assert_eq!(world.stats().await, leased);
        assert_eq!(world.state(id).await, Some(State::Leased));
        match back {
            0 => assert!(world.settle(A, &delivery, AttemptOutcome::Release).await),
            1 => assert!(world.settle(A, &delivery, retry(secs(60))).await),
            _ => assert_eq!(world.reap_node(A).await.ready, 1),
        }
        assert_eq!(world.stats().await, Stats::default());
        assert_eq!(world.state(id).await, Some(State::Expired));
    }
    let world = World::new(harness).await;
    let draft = world.event().expires(world.now() + secs(5));
    let id = world.add(draft).await;
    let delivery = world.take(A).await;
    world.advance(secs(60));
    world.stats().await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    assert_eq!(world.state(id).await, Some(State::Done));
}

pub async fn lateness_follows_a_new_due_time(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let late = LatePolicy::Expire(secs(1));
    let put_off = world.add(world.event().late(late)).await;
    let called = world.add(world.event().late(late).when(secs(60))).await;
    let _ = world.reschedule(put_off, secs(10)).await;
    let _ = world.reschedule(called, secs(0)).await;
    world.advance(secs(5));
    assert_eq!(world.state(put_off).await, Some(State::Scheduled));
    assert_eq!(world.state(called).await, Some(State::Expired));
    world.advance(secs(6));
    world.move_due().await;
    assert_eq!(world.state(put_off).await, Some(State::Ready));
    world.advance(TICK);
    assert_eq!(world.stats().await, Stats::default());
    assert_eq!(world.state(put_off).await, Some(State::Expired));
}

/// An operation does a bounded piece, and looks past the rest.
pub async fn however_much_has_expired_none_of_it_counts(harness: &dyn StoreHarness) {
    for many in [1, 1_700] {
        let world = World::new(harness).await;
        let at = world.now() + secs(5);
        let drafts: Vec<_> = (0..many)
            .map(|n| {
                let draft = world.event().expires(at).key("order:7");
                let draft = draft.unique(&format!("user:{n}"), Unique::Keep);
                draft.when(secs([0, 2, 60][n % 3]))
            })
            .collect();
        for drafts in drafts.chunks(BATCH_MAX) {
            world.push_all(drafts).await;
        }
        world.move_due().await;
        world.advance(secs(5));
        let stats = world.stats().await;
        let (last, mid) = (drafts[many - 1].id(), drafts[many / 2].id());
        assert_eq!((stats.scheduled, stats.ready), (0, 0), "of {many}");
        assert_eq!(world.state(last).await, Some(State::Expired));
        let cancelled = world.cancel(mid).await;
        assert_eq!(cancelled, CancelOutcome::TooLate(State::Expired));
        let again = world.event();
        let again = again.unique(&format!("user:{}", many - 1), Unique::Keep);
        assert_eq!(world.push(&again).await, PushOutcome::Accepted);
        for _ in 0..4 {
            assert_eq!(world.found(PeekBy::Key("order:7".into())).await, []);
            assert_eq!(world.forecast(&[secs(3_600)]).await[0], 0);
        }
        let left = world.stats().await;
        assert_eq!((left.scheduled, left.ready), (0, 1));
        assert_eq!(world.take(B).await.id, again.id());
    }
}

/// What an event that has expired had done is still known of it.
pub async fn a_push_of_what_has_expired_is_a_repeat(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event().expires(world.now() + ms(5));
    let id = world.add(draft.clone()).await;
    world.advance(ms(5));
    assert_eq!(world.push(&draft).await, PushOutcome::Duplicate(id));
    let other = draft.payload("other");
    assert_eq!(world.push(&other).await, PushOutcome::Conflict);
    let fetched = world.op(StoreOp::fetch(world.fetching(A, 10))).await;
    assert_eq!((fetched.deliveries, fetched.ready), (Vec::new(), 0));
}

pub async fn every_event_that_expires_is_told_once_whatever_ends_it(harness: &dyn StoreHarness) {
    const WAYS: usize = 12;
    for way in 0..WAYS {
        let world = World::new(harness).await;
        let mut drafts: Vec<_> = world.expiring();
        drafts.push(world.event().late(LatePolicy::Bury(secs(5) - TICK)));
        drafts.push(world.event().expires(world.now() + secs(5)));
        let keyed = |(at, draft): (usize, EventDraft)| draft.unique(&format!("{at}"), Unique::Keep);
        let drafts: Vec<_> = drafts.into_iter().enumerate().map(keyed).collect();
        world.push_all(&drafts).await;
        let all: Vec<_> = drafts.iter().map(EventDraft::id).collect();
        let mut set_aside = SetAside::default();
        if way % 2 == 0 {
            world.move_due().await;
        }
        world.advance(secs(5));
        for (at, id) in all.iter().enumerate() {
            match way {
                0 | 1 => drop(
                    world
                        .push(&world.event().unique(&format!("{at}"), Unique::Keep))
                        .await,
                ),
                2 | 3 => drop(world.cancel(*id).await),
                4 => drop(world.get(*id).await),
                5 => drop(world.reschedule(*id, secs(60)).await),
                6 => drop(world.update(*id, "other").await),
                7 => drop(world.stats().await),
                8 => drop(world.found(PeekBy::Unique(format!("{at}"))).await),
                9 => drop(world.forecast(&[secs(3_600)]).await),
                10 => drop(world.read_dead(None, 10).await),
                _ => {} // the move or the fetch below
            }
        }
        for request in 0..4 {
            if request == 2 {
                world.stats().await; // neither moves nor fetches look at what is not due
            }
            let aside = match (way + request) % 2 {
                0 => world.op(StoreOp::move_due(BATCH_MAX, false)).await.aside,
                _ => {
                    let fetch = world.fetching(A, BATCH_MAX);
                    world.op(StoreOp::fetch(fetch)).await.aside
                }
            };
            set_aside.expired += aside.expired;
            set_aside.late += aside.late;
        }
        let expected = SetAside {
            expired: all.len() - 1,
            late: 1,
        };
        assert_eq!(set_aside, expected, "ended in way {way}");
    }
}
