//! What a program does that others see is in the audit, and costs none of its actions anything.

use std::sync::Arc;

use duly::admin::{AuditLine, EventAction};
use duly::prelude::*;
use duly::schedule::ScheduleOptions;
use duly::store::operation::StoreOp;
use duly::testing::{Probe, TestBus};
use futures_util::FutureExt;

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, secs};

pub(super) const SHOP: &str = "shop.orders";

over_every_store! {
    what_a_program_does_that_others_see_has_one_line,
    a_program_that_pushes_and_reads_adds_no_line,
    what_one_program_does_after_another_has_a_line,
    a_line_is_there_when_the_bus_has_stopped,
}

async fn all(bus: &Bus) -> Vec<AuditLine> {
    let page = bus.audit(None, 1_000).await.unwrap();
    page.items.into_iter().rev().collect()
}

/// Returns what was done to what, the oldest line first.
pub(super) async fn lines(bus: &Bus) -> Vec<(String, String)> {
    let all = all(bus).await.into_iter();
    all.map(|line| (line.action, line.target)).collect()
}

/// Buries events, and returns their ids.
pub(super) async fn buried(queue: &Queue<u64>, many: usize) -> Vec<EventId> {
    queue.push_many(0..many as u64, When::Now).await.unwrap();
    let mut dead = Vec::new();
    while dead.len() < many {
        let leased = queue.lease(many, secs(60)).wait(secs(9));
        for leased in leased.send().await.unwrap() {
            dead.push(leased.id());
            let _ = leased.bury("refused").await.unwrap();
        }
    }
    dead
}

/// Does each action of a program that others see; each has to change something.
async fn each_action(
    bus: &Bus,
    queue: &Queue<u64>,
    wait: impl AsyncFn(),
) -> Vec<[&'static str; 2]> {
    let mut done = Vec::new();
    let mut did = async |action, target| {
        done.push([action, target]);
        wait().await;
    };
    bus.pause(SHOP).await.unwrap();
    did("queue paused", SHOP).await;
    bus.resume(SHOP).await.unwrap();
    did("queue resumed", SHOP).await;
    bus.set_rate(SHOP, Some(9.0)).await.unwrap();
    did("rate of queue set", SHOP).await;
    bus.set_workers_everywhere(SHOP, Some(2)).await.unwrap();
    did("workers of queue set", SHOP).await;
    bus.set_buckets(SHOP, Some(1)).await.unwrap();
    did("buckets of queue set", SHOP).await;
    let (schedules, name) = (bus.schedules(), "shop.nightly");
    let options = || ScheduleOptions::new(SHOP, "@yearly").unwrap();
    schedules.set(name, options()).await.unwrap();
    did("schedule set", "schedules/shop.nightly").await;
    // What changes nothing has no line.
    schedules.set(name, options()).await.unwrap();
    for _ in 0..2 {
        schedules.pause(name).await.unwrap();
    }
    did("schedule paused", "schedules/shop.nightly").await;
    for _ in 0..2 {
        schedules.resume(name).await.unwrap();
    }
    did("schedule resumed", "schedules/shop.nightly").await;
    assert!(schedules.remove(name).await.unwrap());
    assert!(!schedules.remove(name).await.unwrap());
    did("schedule removed", "schedules/shop.nightly").await;
    queue.push_many(0..3, secs(3_600)).await.unwrap();
    let events = bus.events().queue(SHOP);
    let later = EventAction::Reschedule(When::After(secs(7_200)));
    let page = events.clone().change_page(later).await.unwrap();
    assert!(page.changed >= 3, "{page:?}");
    did("events rescheduled", "shop.orders, events").await;
    let page = events.change_page(EventAction::Cancel).await.unwrap();
    assert!(page.changed >= 3, "{page:?}");
    did("events cancelled", "shop.orders, events").await;
    let dead = buried(queue, 2).await;
    let letters = || bus.dead_letters().queue(SHOP);
    assert_eq!(letters().dry_run().revive_all().await.unwrap().done, 0);
    assert_eq!(letters().revive([dead[0]]).await.unwrap().done, 1);
    did("dead letters revived", "shop.orders, dead letters").await;
    assert_eq!(letters().drop([dead[1]]).await.unwrap().done, 1);
    did("dead letters dropped", "shop.orders, dead letters").await;
    done
}

async fn what_a_program_does_that_others_see_has_one_line(world: World) {
    let (bus, queue) = world.push_only::<u64>(SHOP).await;
    // Who adds the lines does it once.
    let caller = bus.clone().with_own_audit();
    each_action(&caller, &queue, async || ()).await;
    assert_eq!(lines(&bus).await, []);
    let done = each_action(&bus, &queue, async || bus.advance(secs(1)).await).await;
    let done = done.map_to_owned();
    assert_eq!(lines(&bus).await, done);
    for line in all(&bus).await {
        let (program, _machine) = line.actor.split_once('@').unwrap();
        assert!(program.starts_with("bus"), "{}", line.actor);
    }
    // In the audit of its namespace, and again and again it is the same line.
    for rate in 1..9 {
        bus.set_rate(SHOP, Some(f64::from(rate))).await.unwrap();
        bus.set_workers_everywhere(SHOP, Some(rate as u16))
            .await
            .unwrap();
        bus.resume(SHOP).await.unwrap();
    }
    let page = bus.audit_of("shop", None, 100).await.unwrap();
    assert_eq!(page.items.len(), done.len());
    assert!(
        bus.audit_of("mail", None, 9)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    bus.advance(secs(600)).await;
    bus.set_rate(SHOP, Some(1.0)).await.unwrap();
    assert_eq!(lines(&bus).await.len(), done.len() + 1);
    // It is no queue of anybody.
    let queues = bus.queues().await.unwrap();
    assert!(
        !queues.iter().any(|queue| queue.contains("audit")),
        "{queues:?}"
    );
    let page = bus.stats_page(None, 100).await.unwrap();
    assert!(!page.items.iter().any(|(queue, _)| queue.contains("audit")));
    assert!(
        duly::QueueName::new("shop.duly.audit.programs")
            .unwrap()
            .is_own()
    );
}

trait MapToOwned {
    fn map_to_owned(self) -> Vec<(String, String)>;
}

impl MapToOwned for Vec<[&'static str; 2]> {
    fn map_to_owned(self) -> Vec<(String, String)> {
        let owned = self
            .into_iter()
            .map(|[action, target]| (action.into(), target.into()));
        owned.collect()
    }
}

async fn a_program_that_pushes_and_reads_adds_no_line(world: World) {
    let (bus, queue) = world.push_only::<u64>(SHOP).await;
    let id = queue.push(7, secs(3_600)).await.unwrap().id();
    let _ = queue.reschedule(id, secs(60)).await.unwrap();
    let _ = queue.cancel(id).await.unwrap();
    queue
        .event(7)
        .key("customer:7")
        .after(secs(9))
        .push()
        .await
        .unwrap();
    assert_eq!(queue.cancel_by_key("customer:7").await.unwrap().len(), 1);
    queue.push(7, When::Now).await.unwrap();
    for leased in queue.lease(1, secs(60)).wait(secs(9)).send().await.unwrap() {
        let _ = leased.ack().await.unwrap();
    }
    bus.explain(id).await.unwrap();
    bus.controls().await.unwrap();
    bus.schedules().page(None, 9).await.unwrap();
    assert!(bus.schedules().pause("nightly").await.is_err());
    assert!(bus.set_rate(SHOP, Some(0.0)).await.is_err());
    let revived = bus.dead_letters().revive_all().await.unwrap();
    assert_eq!(revived.finished().unwrap().done, 0);
    let events = bus.events().queue(SHOP);
    let _ = events.change_page(EventAction::Cancel).await.unwrap();
    assert_eq!(lines(&bus).await, []);
    bus.settle().await;
    let buckets = world.store.buckets().await.unwrap();
    assert!(
        buckets.iter().all(|bucket| &*bucket.queue == SHOP),
        "{buckets:?}"
    );
}

async fn what_one_program_does_after_another_has_a_line(world: World) {
    let (one, _queue) = world.push_only::<u64>(SHOP).await;
    let other = world.start(world.builder().publish_only()).await;
    for _ in 0..3 {
        one.pause(SHOP).await.unwrap();
        // By itself what is so already has no line.
        one.pause(SHOP).await.unwrap();
        assert_eq!(lines(&one).await.last().unwrap().0, "queue paused");
        one.advance(secs(1)).await;
        other.resume(SHOP).await.unwrap();
        other.resume(SHOP).await.unwrap();
        assert_eq!(lines(&other).await.last().unwrap().0, "queue resumed");
        one.advance(secs(1)).await;
    }
    assert_eq!(lines(&one).await.len(), 6);
}

async fn a_line_is_there_when_the_bus_has_stopped(world: World) {
    let (bus, queue) = world.push_only::<u64>(SHOP).await;
    bus.pause(SHOP).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));
    let world = world.restart();
    let (bus, _queue) = world.push_only::<u64>(SHOP).await;
    assert_eq!(
        lines(&bus).await,
        vec![["queue paused", SHOP]].map_to_owned()
    );
}

/// A bus whose way to the store meets a fault with each line.
pub(super) async fn with_lines_that_meet(fault: Fault) -> (World, Arc<Faulty>, TestBus) {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    lines_meet(&way, fault);
    let bus = Bus::builder()
        .only_registered()
        .shared_store(Arc::clone(&way) as _);
    let bus = world.start(bus.publish_only()).await;
    (world, way, bus)
}

fn lines_meet(way: &Faulty, fault: Fault) {
    way.meets(move |bucket, op| match op {
        StoreOp::Push(_) if bucket.queue.is_own() => fault,
        _ => Fault::None,
    });
}

#[tokio::test(start_paused = true)]
async fn a_line_that_hangs_holds_no_action_up_and_those_after_it_follow() {
    let (_world, way, bus) = with_lines_that_meet(Fault::Hung).await;
    let began = tokio::time::Instant::now();
    bus.pause(SHOP).await.unwrap();
    tokio::task::yield_now().await; // its line is on its way
    bus.set_rate(SHOP, Some(1.0)).await.unwrap();
    // More than may wait: the last ones are lost, and nothing else.
    for number in 0..100 {
        bus.set_rate(&format!("shop.{number}"), Some(1.0))
            .await
            .unwrap();
    }
    assert_eq!(began.elapsed(), secs(0));
    assert_eq!(lines(&bus).await, [], "a reader waits for a moment");
    lines_meet(&way, Fault::None);
    let mut found = Vec::new();
    while found.len() < 63 {
        found = lines(&bus).await;
    }
    assert_eq!(found.len(), 63, "the one that hung is given up");
    assert!(!found.iter().any(|(action, _)| action == "queue paused"));
    // Their actions are not known, and may have lines again.
    bus.pause(SHOP).await.unwrap();
    bus.set_rate("shop.99", Some(1.0)).await.unwrap();
    assert_eq!(lines(&bus).await.len(), 65);
}

#[tokio::test(start_paused = true)]
async fn a_bus_ends_though_its_lines_hang() {
    let (_world, _way, bus) = with_lines_that_meet(Fault::Hung).await;
    bus.pause(SHOP).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_action_is_done_whose_line_is_refused() {
    let (_world, way, bus) = with_lines_that_meet(Fault::Refused(ErrorKind::Full)).await;
    bus.set_rate(SHOP, Some(1.0)).await.unwrap();
    assert_eq!(lines(&bus).await, []);
    assert_eq!(bus.controls().await.unwrap()[SHOP].rate, Some(1.0));
    lines_meet(&way, Fault::None);
    bus.set_rate(SHOP, Some(1.0)).await.unwrap();
    assert_eq!(lines(&bus).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_action_that_fails_has_no_line_and_one_whose_caller_is_gone_has_one() {
    let (world, way, bus) = with_lines_that_meet(Fault::None).await;
    way.rolls_are(Fault::Refused(ErrorKind::Unavailable));
    bus.pause(SHOP).await.unwrap_err();
    way.rolls_are(Fault::None);
    let bus = Bus::builder().only_registered().dynamic_queues();
    let bus = bus.shared_store(Arc::clone(&way) as _).publish_only();
    let bus = world.start(bus).await;
    way.rolls_are(Fault::Held(secs(1)));
    assert!(bus.pause(SHOP).now_or_never().is_none());
    way.rolls_are(Fault::None);
    assert_eq!(
        lines(&bus).await,
        vec![["queue paused", SHOP]].map_to_owned()
    );

    let queue = bus.queue_named::<u64>("mail").unwrap();
    let _ = buried(&queue, 3).await;
    way.meets(|_, op| match op {
        StoreOp::Revive { .. } => Fault::Refused(ErrorKind::Unavailable),
        _ => Fault::None,
    });
    let letters = || bus.dead_letters().queue("mail").rate(0.001);
    let failed = letters().revive_all().await.unwrap();
    assert!(failed.stopped.is_some());
    assert_eq!(lines(&bus).await.len(), 1);
    way.meets(|_, _| Fault::None);
    assert!(letters().by("ann").revive_all().now_or_never().is_none());
    let lines = all(&bus).await;
    let is_of_ann = |line: &AuditLine| line.actor == "ann" && line.action == "dead letters revived";
    assert_eq!(lines.iter().filter(|line| is_of_ann(line)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_programs_do_is_bounded_and_pushes_no_line_of_a_person_out() {
    let world = World::memory();
    let (bus, _queue) = world.push_only::<u64>(SHOP).await;
    bus.add_to_audit("ann", "deploy", SHOP).await.unwrap();
    for round in 0..1_400 {
        let name = format!("shop.{}", round % 300);
        let options =
            ScheduleOptions::new(SHOP, &format!("{} {} * * *", round % 60, round / 60)).unwrap();
        bus.schedules().set(&name, options).await.unwrap();
        bus.settle().await;
    }
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = bus.audit_of("shop", before, 1_000).await.unwrap();
        all.extend(page.items);
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert!((1_002..=1_257).contains(&all.len()), "{}", all.len());
    assert_eq!(all.iter().filter(|line| line.actor == "ann").count(), 1);
}

/// A handler that pauses a queue.
struct Pauses;

impl Handler for Pauses {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, cx: &Context) -> Result<(), Failure> {
        cx.bus().pause("other").await?;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_does_has_a_line_and_what_the_bus_does_for_it_has_none() {
    let world = World::memory();
    let probe = Probe::<u64>::new();
    let builder = world.builder().register_as(ORDERS, Pauses);
    let builder = builder.register_as(duly::Annotation::new("nightly"), probe.clone());
    let nightly = ScheduleOptions::new("nightly", "* * * * *").unwrap();
    let bus = world.start(builder.schedule("nightly", nightly)).await;
    bus.queue_named::<u64>("orders")
        .unwrap()
        .push(7, When::Now)
        .await
        .unwrap();
    bus.advance(secs(300)).await;
    assert_eq!(
        lines(&bus).await,
        vec![["queue paused", "other"]].map_to_owned()
    );
}

#[tokio::test(start_paused = true)]
async fn who_erases_is_the_program_where_nobody_is_named() {
    let world = World::memory();
    let (bus, _queue) = world.push_only::<u64>(SHOP).await;
    bus.erase("customer:7").run().await.unwrap();
    assert!(all(&bus).await[0].actor.contains('@'));
}
