//! Each action that others see, whatever becomes of its calls to the store and whenever its caller is
//! gone: what it changed has a line of the audit, what it did not change has none, and no line is there
//! twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::admin::{EventAction, StoredEvent};
use duly::dead_letters::BulkResult;
use duly::prelude::*;
use duly::records::Record;
use duly::schedule::ScheduleOptions;
use duly::store::Store;
use duly::testing::TestBus;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join};
use tokio::time::timeout;

use super::futures::dropped::{POLLS_MAX, polled};
use super::futures::slow::Slow;
use super::program_audit::{SHOP, buried, lines, with_lines_that_meet};
use crate::faulty::{Fault, Faulty};
use crate::world::{World, ms, secs};

/// A schedule that goes on, and one that is paused.
const NIGHTLY: &str = "shop.nightly";
const PAUSED: &str = "shop.paused";

/// What an action is done with.
struct Stage {
    bus: Bus,
    queue: Queue<u64>,
    dead: EventId,
    ended: Vec<Record>,
}

type Action = fn(Stage) -> BoxFuture<'static, duly::Result<()>>;

macro_rules! actions {
    ($($line:literal: |$it:ident| $call:expr;)+) => {
        /// Each with its line.
        const ACTIONS: &[(&str, Action)] = &[$((
            $line,
            |$it| Box::pin(async move { $call.await.map(drop) }),
        )),+];
    };
}

fn nightly(when: &str) -> ScheduleOptions {
    ScheduleOptions::new(SHOP, when).unwrap()
}

fn later() -> EventAction {
    EventAction::Reschedule(When::After(secs(7_200)))
}

/// Ends a bulk operation with its error.
async fn finished(bulk: impl Future<Output = duly::Result<BulkResult>>) -> duly::Result<()> {
    bulk.await?.finished().map(drop)
}

actions! {
    "queue paused": |it| it.bus.pause(SHOP);
    "queue resumed": |it| it.bus.resume(PAUSED);
    "rate of queue set": |it| it.bus.set_rate(SHOP, Some(9.0));
    "workers of queue set": |it| it.bus.set_workers_everywhere(SHOP, Some(2));
    "buckets of queue set": |it| it.bus.set_buckets(SHOP, Some(3));
    "schedule set": |it| it.bus.schedules().set("shop.new", nightly("@yearly"));
    "schedule set": |it| it.bus.schedules().set(NIGHTLY, nightly("@weekly"));
    "schedule paused": |it| it.bus.schedules().pause(NIGHTLY);
    "schedule resumed": |it| it.bus.schedules().resume(PAUSED);
    "schedule removed": |it| it.bus.schedules().remove(NIGHTLY);
    "schedule run": |it| it.bus.schedules().run_now(NIGHTLY);
    "events rescheduled": |it| it.bus.events().queue(SHOP).change_page(later());
    "events rescheduled": |it| it.queue.events().change_page(later());
    "events cancelled": |it| it.bus.events().change_page(EventAction::Cancel);
    "events cancelled": |it| async {
        let queue = it.bus.queue_to_push::<u64>(SHOP)?.clone();
        queue.events().change_page(EventAction::Cancel).await
    };
    "dead letters revived": |it| finished(it.bus.dead_letters().queue(SHOP).revive_all());
    "dead letters revived": |it| finished(it.bus.dead_letters().revive([it.dead]));
    "dead letters revived": |it| async {
        let letters = it.bus.dead_letters().queue(SHOP).ids([it.dead]).page().await?;
        let was = letters.items[0].payload.clone();
        it.bus.dead_letters().edit_and_revive(it.dead, &was, &77_u64).await
    };
    "dead letters edited": |it| it.bus.dead_letters().edit(it.dead, &77_u64);
    "dead letters dropped": |it| finished(it.bus.dead_letters().queue(SHOP).drop_all());
    "records replayed": |it| async { it.bus.replay("again").push(&it.ended).await };
    "store repaired": |it| it.bus.check_store().queue(SHOP).repair().run();
}

/// A store on which each action has something to do, and a bus that does it.
struct Scene {
    /// Looks at the store by a way without faults.
    observer: TestBus,
    actor: TestBus,
    way: Arc<Faulty>,
    /// What there was before.
    before: String,
    ended: Vec<Record>,
    dead: EventId,
}

impl Scene {
    /// `many`: of all that an action may change many of.
    async fn new(many: usize, over: impl FnOnce(&Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        let world = World::memory();
        let (observer, queue) = world.push_only::<u64>(SHOP).await;
        let bus = observer.clone().with_own_audit();
        for number in 0..many as u64 {
            let event = queue.event(number).keep_payload(true).after(secs(60));
            let id = event.push().await.unwrap().id();
            let _ = queue.cancel(id).await.unwrap();
        }
        let ended = bus.records().queue(SHOP).page().await.unwrap().items;
        assert_eq!(ended.len(), many);
        let dead = buried(&queue, many).await[0];
        queue.push_many(0..many as u64, secs(3_600)).await.unwrap();
        for name in [NIGHTLY, PAUSED] {
            bus.schedules().set(name, nightly("@daily")).await.unwrap();
        }
        bus.schedules().pause(PAUSED).await.unwrap();
        bus.pause(PAUSED).await.unwrap();
        let way = Faulty::to(&world.store);
        let buckets = world.store.buckets().await.unwrap().into_iter();
        let damaged = buckets.filter(|bucket| &*bucket.queue == SHOP).take(many);
        way.damaged.lock().unwrap().extend(damaged);
        let builder = Bus::builder().only_registered().dynamic_queues();
        let store = over(&(Arc::clone(&way) as _));
        let actor = world
            .start(builder.shared_store(store).publish_only())
            .await;
        let mut scene = Self {
            observer,
            actor,
            way,
            before: String::new(),
            ended,
            dead,
        };
        scene.before = scene.state().await;
        scene
    }

    fn stage(&self, bus: Bus) -> Stage {
        Stage {
            queue: bus.queue_named(SHOP).unwrap(),
            bus,
            dead: self.dead,
            ended: self.ended.clone(),
        }
    }

    /// All that an action may change.
    async fn state(&self) -> String {
        let controls = self.observer.controls().await.unwrap();
        let schedules = self.observer.schedules().page(None, 100).await.unwrap();
        let schedules = { schedules.items.into_iter() }.map(|it| (it.name, it.options, it.paused));
        let schedules: Vec<_> = schedules.collect();
        let page = self.observer.events().queue(SHOP).limit(1_000).page();
        let event = |it: StoredEvent| {
            let payload = it.payload.map(|payload| payload.as_bytes().to_vec());
            (it.id, it.state, it.due, payload)
        };
        let events = page.await.unwrap().items.into_iter().map(event);
        let mut events: Vec<_> = events.collect();
        events.sort_unstable_by_key(|it| it.0);
        let damaged = self.way.damaged.lock().unwrap().clone();
        format!("{controls:?} {schedules:?} {events:?} {damaged:?}")
    }

    /// Returns whether anything was changed, and the lines about it, when all is done that goes on by
    /// itself.
    async fn result(&self) -> (bool, Vec<String>) {
        self.observer.advance(secs(9)).await;
        let lines = lines(&self.observer).await.into_iter();
        let lines = lines.map(|(action, _)| action).collect();
        (self.state().await != self.before, lines)
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_that_is_done_has_a_line_whenever_its_caller_is_gone() {
    for (line, run) in ACTIONS {
        for polls in 1.. {
            assert!(polls < POLLS_MAX, "{line} is never done");
            let scene = Scene::new(12, Slow::over).await;
            let stage = scene.stage(scene.actor.clone());
            let result = polled(run(stage), polls).await;
            let (is_changed, lines) = scene.result().await;
            let expected: &[&str] = if is_changed { &[line] } else { &[] };
            assert_eq!(lines, expected, "{line} after {polls} polls");
            if let Some(result) = result {
                result.unwrap();
                assert!(is_changed, "{line} changes nothing");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_that_is_done_has_a_line_whichever_of_its_calls_fails() {
    let faults = [Fault::Refused(ErrorKind::Unavailable), Fault::Lost];
    for (fault, many) in faults.iter().flat_map(|fault| [(*fault, 1), (*fault, 12)]) {
        for (line, run) in ACTIONS {
            for call in 0.. {
                assert!(call < POLLS_MAX, "{line} is never done");
                let scene = Scene::new(many, Arc::clone).await;
                let calls = Arc::<AtomicUsize>::default();
                let counted = Arc::clone(&calls);
                scene.way.meets(move |bucket, _| {
                    let is_line = bucket.queue.contains("audit");
                    if !is_line && counted.fetch_add(1, Ordering::Relaxed) == call {
                        return fault;
                    }
                    Fault::None
                });
                let result = run(scene.stage(scene.actor.clone())).await;
                scene.way.meets(|_, _| Fault::None);
                let (is_changed, lines) = scene.result().await;
                let what = format!("{line} of {many}, {fault:?} at call {call}: {result:?}");
                if is_changed {
                    assert_eq!(lines, [*line], "{what}");
                } else {
                    // What is in doubt has one as well.
                    let most = usize::from(fault == Fault::Lost);
                    assert!(lines.len() <= most, "{what}: {lines:?}");
                }
                if calls.load(Ordering::Relaxed) <= call {
                    assert!(result.is_ok() && is_changed, "{what}");
                    break;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_adds_the_lines_does_so_for_whatever_the_handle_returns() {
    for (line, run) in ACTIONS {
        let scene = Scene::new(2, Arc::clone).await;
        let caller = scene.actor.clone().with_own_audit();
        run(scene.stage(caller)).await.unwrap();
        assert_eq!(scene.result().await, (true, Vec::new()), "{line}");
    }
}

/// How somebody waits for lines.
const READERS: [&str; 5] = [
    "is gone at once",
    "is gone soon",
    "waits",
    "is one of two",
    "ends",
];

#[tokio::test(start_paused = true)]
async fn a_line_whose_reply_is_late_is_there_once_whoever_waits_for_it() {
    for (late, reader) in [1, 3, 9]
        .iter()
        .flat_map(|late| READERS.map(|it| (*late, it)))
    {
        for yields in [false, true] {
            let (world, _way, bus) = with_lines_that_meet(Fault::Held(secs(late))).await;
            bus.pause(SHOP).await.unwrap();
            bus.set_rate(SHOP, Some(1.0)).await.unwrap();
            if yields {
                tokio::task::yield_now().await; // the first line is on its way
            }
            match reader {
                "is gone at once" => drop(bus.audit(None, 9).now_or_never()),
                "is gone soon" => drop(timeout(ms(500), bus.audit(None, 9)).await),
                "waits" => drop(bus.audit(None, 9).await.unwrap()),
                "is one of two" => drop(join(bus.audit(None, 9), bus.audit(None, 9)).await),
                _ => bus.shutdown(Duration::ZERO).await.unwrap(),
            }
            let (observer, _queue) = world.push_only::<u64>("mail").await;
            observer.advance(secs(60)).await;
            let mut found = lines(&observer).await;
            let many = found.len();
            found.dedup();
            let what = format!("{late} s, {reader}, {yields}: {found:?}");
            assert_eq!(found.len(), many, "{what}");
            assert!(many == 2 || reader == "ends", "{what}");
        }
    }
}
