//! Letters are revived and dropped, by id and by what is asked for, at a pace, and on record.

use std::sync::atomic::Ordering;

use duly::event::BucketId;
use duly::prelude::*;
use duly::records::{Cause, Record};
use duly::testing::{Probe, TestBus};

use crate::dead_letters::kit::{graveyard, numbers, picky};
use crate::dead_letters::stopped::distant;
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_revived_letter_is_handled_and_who_did_it_is_on_record,
    a_dropped_letter_is_gone_and_who_did_it_is_on_record,
    only_what_is_asked_for_is_revived,
    only_what_is_asked_for_is_dropped,
    what_is_named_and_not_dead_is_passed_over,
    an_id_that_is_dead_in_two_queues_is_revived_in_both,
    a_dry_run_counts_and_shows_and_changes_nothing,
    a_rate_is_kept_for_drops_too,
    a_limit_revives_some_and_says_where_to_go_on,
    a_sweep_ends_though_what_it_revives_dies_again,
    what_dies_after_it_began_is_left_alone,
    what_is_named_is_changed_whenever_it_died,
    thousands_are_revived_in_batches,
}

async fn by_hand(bus: &TestBus, outcome: Outcome) -> Vec<Record> {
    let page = bus.records().outcome(outcome).limit(1_000).page().await;
    page.unwrap().items
}

async fn a_revived_letter_is_handled_and_who_did_it_is_on_record(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    let sweep = bus.dead_letters().by("ann").revive([ids[1]]).await.unwrap();
    assert_eq!((sweep.matched, sweep.done, sweep.passed_over), (1, 1, 0));
    assert!(sweep.stopped.is_none() && sweep.next.is_none());
    bus.advance(secs(1)).await;
    let outcomes = bus.outcomes(ids[1]).await.unwrap();
    let expected = [Outcome::Buried, Outcome::Revived, Outcome::Buried];
    assert_eq!(outcomes, expected, "it was tried once more");
    let records = by_hand(&bus, Outcome::Revived).await;
    let told: Vec<_> = records.iter().map(|it| (it.id, it.by.as_deref())).collect();
    assert_eq!(told, [(ids[1], Some("ann"))]);
    let again = bus.dead_letters().revive([ids[1]]).await.unwrap();
    assert_eq!(again.done, 1);
    assert_eq!(by_hand(&bus, Outcome::Revived).await.len(), 2);
}

async fn a_dropped_letter_is_gone_and_who_did_it_is_on_record(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    let sweep = bus.dead_letters().by("bob").drop([ids[1], ids[2]]).await;
    assert_eq!(sweep.unwrap().done, 2);
    let left = bus.dead_letters().queue("orders").page().await.unwrap();
    assert_eq!(left.items.len(), 3);
    let records = by_hand(&bus, Outcome::Dropped).await;
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|it| it.by.as_deref() == Some("bob")));
    let again = bus.dead_letters().revive([ids[1]]).await.unwrap();
    assert_eq!((again.done, again.passed_over), (0, 1));
}

async fn only_what_is_asked_for_is_revived(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    bus.pause("orders").await.unwrap();
    bus.pause("mails").await.unwrap();
    let asked = bus.dead_letters().queue("orders").cause(Cause::Panicked);
    let sweep = asked.by("ann").revive_all().await.unwrap();
    assert_eq!((sweep.matched, sweep.done), (2, 2));
    let revived = by_hand(&bus, Outcome::Revived).await;
    let mut revived: Vec<_> = revived.iter().map(|it| it.id).collect();
    revived.sort_unstable();
    assert_eq!(revived, [ids[1], ids[3]]);
    let since = bus.clock().start() + secs(5);
    let sweep = bus.dead_letters().queue("orders").since(since);
    assert_eq!(sweep.revive_all().await.unwrap().done, 1);
    let left = [0, 2, 10, 11, 12, 13, 14];
    assert_eq!(numbers(bus.dead_letters()).await, left);
    // An id that does not match the rest is passed over as well.
    let named = bus.dead_letters().key("customer:1").revive([ids[0]]).await;
    assert_eq!(named.unwrap().passed_over, 1);
    assert_eq!(numbers(bus.dead_letters()).await, left);
}

async fn only_what_is_asked_for_is_dropped(world: World) {
    let (bus, _queue, _ids) = graveyard(&world).await;
    let asked = bus.dead_letters().error("no order");
    assert_eq!(asked.drop_all().await.unwrap().done, 6);
    assert_eq!(numbers(bus.dead_letters()).await, [1, 3, 11, 13]);
    let sweep = bus.dead_letters().queue("others").drop_all().await.unwrap();
    assert_eq!(sweep.done, 0);
    assert_eq!(bus.dead_letters().drop_all().await.unwrap().done, 4);
}

async fn what_is_named_and_not_dead_is_passed_over(world: World) {
    let (bus, queue, ids) = graveyard(&world).await;
    let waiting = queue.push(100, secs(60)).await.unwrap().id();
    let done = queue.push(100, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let revived = bus.dead_letters().revive([ids[0]]).await.unwrap();
    assert_eq!(revived.done, 1);
    let named = [ids[0], ids[1], ids[1], waiting, done, queue.new_id()];
    // Revived meanwhile, and dead again by now or not: the first is looked at as it is.
    let sweep = bus.dead_letters().revive(named).await.unwrap();
    assert_eq!((sweep.done, sweep.passed_over), (1, 4));
    assert_eq!(queue.get(waiting).await.unwrap().unwrap().tries, 0);
    let nothing = bus.dead_letters().revive([]).await.unwrap();
    assert_eq!((nothing.done, nothing.passed_over), (0, 0));
}

async fn an_id_that_is_dead_in_two_queues_is_revived_in_both(world: World) {
    let (bus, orders, _ids) = graveyard(&world).await;
    let mails = bus.queue_named::<u64>("mails").unwrap();
    let id = EventId::from_parts(bus.now(), BucketId(0), 77);
    for queue in [&orders, &mails] {
        queue.event(2).id(id).push().await.unwrap();
    }
    bus.advance(secs(1)).await;
    let dry = bus.dead_letters().dry_run().revive([id]).await.unwrap();
    assert_eq!((dry.matched, dry.passed_over), (2, 0));
    let revived = bus.dead_letters().revive([id]).await.unwrap();
    assert_eq!((revived.done, revived.passed_over), (2, 0));
}

async fn a_dry_run_counts_and_shows_and_changes_nothing(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    let before = bus.records().limit(1_000).page().await.unwrap().items;
    let letters = || bus.dead_letters().dry_run().rate(0.001).by("ann");
    let sweep = letters().revive_all().await.unwrap();
    assert_eq!((sweep.matched, sweep.done, sweep.passed_over), (10, 0, 0));
    assert_eq!((sweep.first.len(), sweep.next), (10, None));
    let sweep = letters().error("no order").drop_all().await.unwrap();
    let first = sweep.first.iter().map(|letter| letter.error().unwrap());
    assert!(first.into_iter().all(|error| error.starts_with("no order")));
    assert_eq!((sweep.matched, sweep.first.len()), (6, 6));
    let named = [
        ids[0],
        EventId::from_parts(ids[0].created(), ids[0].bucket(), 1),
    ];
    let sweep = letters().drop(named).await.unwrap();
    assert_eq!((sweep.matched, sweep.done, sweep.passed_over), (1, 0, 1));
    let sweep = letters().limit(3).revive_all().await.unwrap();
    assert_eq!((sweep.matched, sweep.first.len()), (3, 3));
    bus.advance(secs(60)).await;
    assert_eq!(numbers(bus.dead_letters()).await.len(), 10);
    let after = bus.records().limit(1_000).page().await.unwrap().items;
    assert_eq!(after, before);
}

/// A queue of its own, whose events died and would now be handled.
async fn mended(world: &World, many: u64) -> (TestBus, Probe<u64>) {
    let (bus, queue) = world.serve(ORDERS.attempts(1), &picky()).await;
    queue
        .push_many((0..many).map(|_| 0), secs(0))
        .await
        .unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(bus.stats("orders").await.unwrap().dead as u64, many);
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));
    let probe = Probe::new();
    let (bus, _queue) = world.serve(ORDERS.attempts(1), &probe).await;
    (bus, probe)
}

/// Many letters, so only in memory: the pace is kept in front of every store.
#[tokio::test(start_paused = true)]
async fn a_rate_is_kept() {
    for (rate, many) in [(0.5, 4), (7.0, 30), (50.0, 200), (5_000.0, 20_000)] {
        let (bus, probe) = mended(&World::memory(), many).await;
        let began = bus.clock().elapsed();
        let sweep = bus.dead_letters().rate(rate).revive_all().await.unwrap();
        assert_eq!(sweep.done, many);
        bus.settle().await;
        assert_eq!(probe.count() as u64, many);
        let took = (bus.clock().elapsed() - began).as_secs_f64();
        let wanted = many as f64 / rate;
        assert!(
            took >= wanted * 0.9 - 1.0 / rate,
            "{rate}: {took} of {wanted}"
        );
        assert!(took <= wanted * 1.1 + 0.2, "{rate}: {took} of {wanted}");
        // In no span of a second are there many more than that.
        let times = probe.times();
        let most = (rate * 1.15).ceil() as usize + 1;
        let mut first = 0;
        for (at, time) in times.iter().enumerate() {
            while times[first] + secs(1) <= *time {
                first += 1;
            }
            assert!(at + 1 - first <= most.max(2), "{rate} at {time:?}");
        }
    }
}

async fn a_rate_is_kept_for_drops_too(world: World) {
    let (bus, _queue, _ids) = graveyard(&world).await;
    let began = bus.clock().elapsed();
    let sweep = bus.dead_letters().rate(2.0).drop_all().await.unwrap();
    assert_eq!(sweep.done, 10);
    let took = bus.clock().elapsed() - began;
    assert!((ms(4_400)..=ms(4_600)).contains(&took), "{took:?}");
}

async fn a_limit_revives_some_and_says_where_to_go_on(world: World) {
    let (bus, _queue, _ids) = graveyard(&world).await;
    bus.pause("orders").await.unwrap();
    bus.pause("mails").await.unwrap();
    let (mut done, mut after) = (Vec::new(), None);
    loop {
        let letters = bus.dead_letters().limit(4).after(after);
        let sweep = letters.revive_all().await.unwrap();
        done.push(sweep.done);
        after = sweep.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(done, [4, 4, 2]);
}

async fn a_sweep_ends_though_what_it_revives_dies_again(world: World) {
    let (bus, _queue, _ids) = graveyard(&world).await;
    let sweep = bus.dead_letters().rate(1.0).revive_all().await.unwrap();
    assert_eq!((sweep.done, sweep.passed_over), (10, 0));
    bus.advance(secs(1)).await;
    assert_eq!(by_hand(&bus, Outcome::Revived).await.len(), 10);
    assert_eq!(numbers(bus.dead_letters()).await.len(), 10, "dead again");
}

async fn what_dies_after_it_began_is_left_alone(world: World) {
    let (bus, queue) = world.serve(ORDERS.attempts(1), &picky()).await;
    let die = async |bucket: u16, many: usize| {
        for _ in 0..many {
            let id = queue.new_id();
            let id = EventId::from_parts(id.created(), BucketId(bucket), id.entropy());
            queue.event(0).id(id).push().await.unwrap();
        }
        bus.settle().await;
    };
    die(0, 4).await;
    die(1, 1).await;
    let sweeping = tokio::spawn(bus.dead_letters().rate(1.0).drop_all());
    bus.advance(ms(2_500)).await;
    die(1, 10).await;
    let sweep = sweeping.await.unwrap().unwrap();
    assert_eq!((sweep.done, sweep.matched), (5, 5));
    assert_eq!(bus.stats("orders").await.unwrap().dead, 10);
}

/// This process takes the store's time for earlier than it is, or a clock was ahead at their death.
async fn what_is_named_is_changed_whenever_it_died(world: World) {
    let (bus, _queue, way) = distant(&world).await;
    let dead = bus.dead_letters().limit(40).page().await.unwrap().items;
    let dead: Vec<_> = dead.iter().map(|letter| letter.id).collect();
    for (behind, dead) in [(secs(5), &dead[..20]), (secs(3_600), &dead[20..])] {
        let behind_us = u64::try_from(behind.as_micros()).unwrap();
        way.behind_us.store(behind_us, Ordering::Relaxed);
        let all = bus.dead_letters().drop_all().await.unwrap();
        assert_eq!((all.matched, all.done), (0, 0), "{behind:?}");
        let named = || dead[..10].iter().copied();
        let would = bus.dead_letters().dry_run().revive(named()).await.unwrap();
        assert_eq!(would.matched, 10, "{behind:?}");
        let revived = bus.dead_letters().revive(named()).await.unwrap();
        assert_eq!((revived.done, revived.passed_over), (10, 0), "{behind:?}");
        let named = dead[10..].iter().copied();
        let dropped = bus.dead_letters().drop(named).await.unwrap();
        assert_eq!((dropped.done, dropped.passed_over), (10, 0), "{behind:?}");
    }
    assert_eq!(bus.stats("orders").await.unwrap().dead, 160);
}

async fn thousands_are_revived_in_batches(world: World) {
    let (bus, queue) = world.serve(ORDERS.attempts(1).buckets(2), &picky()).await;
    queue
        .push_many((0..5_000).map(|_| 0), secs(0))
        .await
        .unwrap();
    bus.advance(secs(1)).await;
    bus.pause("orders").await.unwrap();
    let sweep = bus.dead_letters().by("ann").revive_all().await.unwrap();
    assert_eq!((sweep.matched, sweep.done), (5_000, 5_000));
    let stats = bus.stats("orders").await.unwrap();
    assert_eq!((stats.dead, stats.ready), (0, 5_000));
}
