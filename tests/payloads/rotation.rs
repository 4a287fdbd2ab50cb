//! Another key for what waits already.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use duly::__server::replies::{self, ReplyStatus};
use duly::config::Settings;
use duly::prelude::*;
use duly::schedule::ScheduleOptions;
use duly::store::operation::StoreOp;
use duly::testing::Probe;
use futures_util::FutureExt;

use crate::faulty::{Fault, Faulty};
use crate::payloads::encrypted::{encrypting, key, ring};
use crate::payloads::stored;
use crate::world::{World, secs};

over_every_store! {
    everything_that_waits_is_under_the_new_key_afterwards,
    it_goes_on_where_it_ended,
    it_keeps_its_pace,
    what_a_handler_holds_is_passed_over_and_counted,
    what_does_not_open_is_told_and_left_alone,
    a_queue_that_encrypts_from_now_on_has_what_waits_encrypted,
    a_rotation_loses_nothing_of_what_duly_keeps_for_itself,
}

async fn everything_that_waits_is_under_the_new_key_afterwards(world: World) {
    let dies = Arc::new(AtomicBool::new(true));
    let is_it = Arc::clone(&dies);
    let probe = Probe::<u64>::answering(move |event, _cx| match event.payload {
        0..100 if is_it.load(Ordering::Relaxed) => Err(Failure::permanent("not yet")),
        _ => Ok(()),
    });
    let keys = ring(&["old"]);
    let (bus, queue) = encrypting(&world, &keys, &probe).await;
    queue.push_many(0..100, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    queue.push_many(100..400, secs(60)).await.unwrap();
    bus.pause("orders").await.unwrap();
    queue.push_many(400..500, secs(0)).await.unwrap();
    bus.settle().await;
    assert_eq!(
        bus.reencrypt("orders").count().await.unwrap().under("old"),
        500
    );

    keys.add("new", key("new")).unwrap();
    keys.choose("new").unwrap();
    let done = bus
        .reencrypt("orders")
        .run()
        .await
        .unwrap()
        .finished()
        .unwrap();
    assert_eq!((done.looked, done.rewritten, done.failed), (500, 500, 0));
    assert_eq!((done.current, done.passed_over, done.next), (0, 0, None));
    let counts = bus.reencrypt("orders").count().await.unwrap();
    assert_eq!((counts.under("old"), counts.under("new")), (0, 500));
    let again = bus.reencrypt("orders").run().await.unwrap();
    assert_eq!((again.rewritten, again.current), (0, 500));

    keys.remove("old").unwrap();
    dies.store(false, Ordering::Relaxed);
    let _ = bus
        .dead_letters()
        .revive_all()
        .await
        .unwrap()
        .finished()
        .unwrap();
    bus.resume("orders").await.unwrap();
    bus.advance(secs(100)).await;
    let mut seen = probe.payloads().split_off(100);
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..500));
    assert_eq!(bus.stats("orders").await.unwrap().dead, 0);
}

async fn it_goes_on_where_it_ended(world: World) {
    let keys = ring(&["old"]);
    let (bus, queue) = encrypting(&world, &keys, &Probe::<u64>::new()).await;
    queue.push_many(0..250, secs(60)).await.unwrap();
    keys.add("new", key("new")).unwrap();
    keys.choose("new").unwrap();
    let (mut after, mut rewritten, mut looked, mut runs) = (None, 0, 0, 0);
    loop {
        let part = bus
            .reencrypt("orders")
            .limit(40)
            .after(after)
            .run()
            .await
            .unwrap();
        assert!(part.looked <= 40);
        (rewritten, looked) = (rewritten + part.rewritten, looked + part.looked);
        runs += 1;
        after = part.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((rewritten, looked), (250, 250));
    assert!(runs >= 7, "{runs}");
}

async fn it_keeps_its_pace(world: World) {
    let keys = ring(&["old"]);
    let (bus, queue) = encrypting(&world, &keys, &Probe::<u64>::new()).await;
    queue.push_many(0..200, secs(3_600)).await.unwrap();
    keys.add("new", key("new")).unwrap();
    keys.choose("new").unwrap();
    let began = bus.clock().elapsed();
    let done = bus.reencrypt("orders").rate(100.0).run().await.unwrap();
    let took = bus.clock().elapsed() - began;
    assert_eq!(done.rewritten, 200);
    assert!((secs(1)..secs(3)).contains(&took), "{took:?}");
    assert!(bus.reencrypt("orders").rate(0.0).run().await.is_err());
}

async fn what_a_handler_holds_is_passed_over_and_counted(world: World) {
    let keys = ring(&["old"]);
    let probe = Probe::<u64>::taking(secs(20));
    let (bus, queue) = encrypting(&world, &keys, &probe).await;
    queue.push_many([1, 2], secs(0)).await.unwrap();
    queue.push(3, secs(60)).await.unwrap();
    bus.advance(secs(1)).await;
    keys.add("new", key("new")).unwrap();
    keys.choose("new").unwrap();
    let done = bus.reencrypt("orders").run().await.unwrap();
    assert_eq!((done.rewritten, done.passed_over), (1, 2));
    assert_eq!(
        bus.reencrypt("orders").count().await.unwrap().under("old"),
        2
    );
    bus.advance(secs(30)).await;
    assert_eq!(probe.count(), 2);
    assert_eq!(
        bus.reencrypt("orders").count().await.unwrap().under("old"),
        0
    );
}

async fn what_does_not_open_is_told_and_left_alone(world: World) {
    let keys = ring(&["lost"]);
    let (bus, queue) = encrypting(&world, &keys, &Probe::<u64>::new()).await;
    let lost = queue.push(1, secs(60)).await.unwrap().id();
    let before = stored(&queue, lost).await;
    keys.add("new", key("new")).unwrap();
    keys.choose("new").unwrap();
    keys.remove("lost").unwrap();
    let done = bus.reencrypt("orders").run().await.unwrap();
    assert_eq!((done.rewritten, done.failed), (0, 1));
    assert_eq!(done.failures[0].0, lost);
    assert!(
        done.failures[0].1.contains("key lost"),
        "{:?}",
        done.failures
    );
    assert_eq!(stored(&queue, lost).await, before);
}

async fn a_queue_that_encrypts_from_now_on_has_what_waits_encrypted(world: World) {
    let (_before, queue) = world.push_only::<u64>("orders").await;
    queue.push_many(0..10, secs(60)).await.unwrap();
    let probe = Probe::<u64>::new();
    let (bus, _) = encrypting(&world, &ring(&["k1"]), &probe).await;
    assert_eq!(bus.reencrypt("orders").count().await.unwrap().plain, 10);
    let done = bus.reencrypt("orders").run().await.unwrap();
    assert_eq!((done.rewritten, done.plain), (10, 0));
    assert_eq!(bus.reencrypt("orders").count().await.unwrap().plain, 0);
    bus.advance(secs(61)).await;
    assert_eq!(probe.count(), 10);
}

/// By the steps of the guide, where every queue encrypts: what lies beside its events is what an
/// operator did, a schedule that pushes into it, and a reply.
async fn a_rotation_loses_nothing_of_what_duly_keeps_for_itself(world: World) {
    for name in ["orders", "shop.orders"] {
        let keys = ring(&["old"]);
        let mut settings = Settings::default();
        settings.queue_defaults.encrypt = Some(true);
        let builder = world.builder().settings(settings).keys(keys.clone());
        let bus = world.start(builder.publish_only()).await;
        let queue = bus.queue_named::<u64>(name).unwrap();
        let called = replies::push(&queue, queue.event(7)).await.unwrap().id();
        let leased = queue.lease(1, secs(60)).send().await.unwrap();
        let stored = replies::store(&bus, leased[0].token(), b"8");
        stored.await.unwrap();
        let _ = leased[0].ack().await.unwrap();
        let waiting = queue.push(9, secs(86_400)).await.unwrap().id();
        bus.add_to_audit("ann", "deploy 17", name).await.unwrap();
        let often = ScheduleOptions::new(name, "every 1h").unwrap();
        let often = often.payload(&7).unwrap();
        bus.schedules().set(name, often).await.unwrap();

        keys.add("new", key("new")).unwrap();
        keys.choose("new").unwrap();
        let replied = replies::look_up(&queue, called).await.unwrap();
        assert_eq!(replied, ReplyStatus::Replied(b"8".to_vec()));
        bus.advance(secs(301)).await;
        for queue in bus.queues().await.unwrap() {
            let done = bus.reencrypt(queue.as_str()).run().await.unwrap();
            assert_eq!(done.finished().unwrap().failed, 0);
            let counts = bus.reencrypt(queue.as_str()).count().await.unwrap();
            assert_eq!(counts.under("old"), 0);
        }
        keys.remove("old").unwrap();

        assert!(stored_is(&queue, waiting, 9).await);
        let page = bus.audit(None, 10).await.unwrap();
        let lines = page.items.iter().filter(|line| line.action == "deploy 17");
        assert_eq!(lines.filter(|line| line.target == name).count(), 1);
        let schedule = bus.schedules().get(name).await.unwrap();
        assert!(schedule.is_some());
        let _ = replies::look_up(&queue, called).await.unwrap();
    }
}

async fn stored_is(queue: &Queue<u64>, id: EventId, value: u64) -> bool {
    let payload = stored(queue, id).await;
    queue.read_payload(id, &payload).unwrap() == value
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_made_meanwhile_is_never_overwritten() {
    let world = World::memory();
    let keys = ring(&["old"]);
    let probe = Probe::<u64>::new();
    let (bus, queue) = encrypting(&world, &keys, &probe).await;
    let id = queue.push(1, secs(60)).await.unwrap().id();
    keys.add("new", key("new")).unwrap();
    keys.choose("new").unwrap();

    // Between what it has read and what it writes, somebody updates the event.
    let way = Faulty::to(&world.store);
    let (theirs, mut updates) = (queue.clone(), 0);
    way.meets(move |_bucket, op| {
        if matches!(op, StoreOp::Rewrite(_)) && updates == 0 {
            updates += 1;
            let update = theirs.update(id, &2).now_or_never();
            let _ = update.expect("memory answers at once").unwrap();
        }
        Fault::None
    });
    let encrypts = QueueChoices {
        encrypt: Some(true),
        ..QueueChoices::default()
    };
    let builder = Bus::builder()
        .only_registered()
        .publish_only()
        .shared_store(way)
        .keys(keys.clone())
        .queue("orders", encrypts);
    let operator = world.start(builder).await;
    let done = operator.reencrypt("orders").run().await.unwrap();
    let done = done.finished().unwrap();
    assert_eq!((done.rewritten, done.passed_over), (0, 1));
    bus.advance(secs(61)).await;
    assert_eq!(probe.payloads(), [2]);
}
