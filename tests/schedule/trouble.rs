//! Schedules in trouble: a store that is away, clocks that differ, buckets that change, occurrences
//! that die.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::codec::{Key, KeyRing};
use duly::event::Occurrence;
use duly::prelude::*;
use duly::schedule::{MissedPolicy, OverlapPolicy, ScheduleOptions};
use duly::store::operation::{PeekBy, StoreOp};
use duly::store::{MemoryStore, Store};
use duly::testing::{TestBus, VirtualClock};
use duly::time::Timestamp;

use super::runs::{DAY, Seen, builder, bus, instants, options};
use crate::faulty::{Fault, Faulty};

const MINUTE: Duration = Duration::from_secs(60);

/// A store, and a way to it for a bus.
fn store() -> (Arc<VirtualClock>, Arc<dyn Store>) {
    let clock = Arc::new(VirtualClock::new());
    let near = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
    (clock, Arc::new(near))
}

/// How the occurrences of a schedule ended, by their instants.
async fn ends(bus: &Bus, name: &str) -> BTreeMap<Timestamp, Vec<Outcome>> {
    let (mut ends, mut after): (BTreeMap<_, Vec<_>>, _) = (BTreeMap::new(), None);
    loop {
        let page = bus.records().queue("report").key(name).limit(1_000);
        let page = page.after(after).page().await.unwrap();
        for record in page.items.into_iter().filter(|it| it.is_final()) {
            ends.entry(record.due).or_default().push(record.outcome);
        }
        after = page.next;
        if after.is_none() {
            return ends;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn over_a_store_that_is_away_for_three_instants_each_is_one_event_or_one_record() {
    for overlap in [
        OverlapPolicy::Allow,
        OverlapPolicy::Skip,
        OverlapPolicy::Wait,
    ] {
        for missed in [MissedPolicy::Skip, MissedPolicy::Once, MissedPolicy::All(9)] {
            let (clock, near) = store();
            let often = options("every 10m").missed(missed).overlap(overlap);
            let faulty = Faulty::to(&near);
            let seen = Seen::default();
            let bus = builder(&seen, &[("often", often.clone())]);
            let bus = bus.shared_store(Arc::clone(&faulty) as _);
            let bus = TestBus::start_on(Arc::clone(&clock), bus).await.unwrap();
            let began = bus.now();
            bus.advance(MINUTE * 35).await;
            faulty.meets(|_, _| Fault::Refused(ErrorKind::Unavailable));
            faulty.rolls_are(Fault::Refused(ErrorKind::Unavailable));
            bus.advance(MINUTE * 32).await;
            faulty.meets(|_, _| Fault::None);
            faulty.rolls_are(Fault::None);
            bus.advance(MINUTE * 60).await;
            let what = format!("{overlap}, {missed}");
            let until = bus.now();
            bus.advance(MINUTE).await;
            let ends = ends(&bus, "often").await;
            for instant in often.instants(began).take_while(|at| *at <= until) {
                let all = ends.get(&instant).map_or(&[][..], Vec::as_slice);
                assert_eq!(all.len(), 1, "{what}: {instant}: {all:?} of {ends:#?}");
            }
            let run = ends.values().filter(|all| all[0] == Outcome::Acked);
            let (run, seen) = (run.count(), seen.lock().unwrap().clone());
            assert_eq!(seen.len(), run, "{what}: none twice");
            // Twelve instants, of which three were missed; where occurrences do not overlap, none is
            // pushed ahead, and of those that are made up for one at a time is run, or passed over.
            let least = match (missed, overlap) {
                (MissedPolicy::Skip, _) => 9,
                (MissedPolicy::Once, OverlapPolicy::Allow) => 11,
                (MissedPolicy::Once, _) | (_, OverlapPolicy::Skip) => 10,
                _ => 12,
            };
            assert_eq!(run, least, "{what}: {ends:#?}");
        }
    }
}

/// Three nodes: one has the time of the store, one is five seconds ahead, one behind.
#[tokio::test(start_paused = true)]
async fn whichever_of_three_clocks_is_wrong_each_instant_is_one_event() {
    let (clock, near) = store();
    let seen = Seen::default();
    let policies = [
        OverlapPolicy::Allow,
        OverlapPolicy::Skip,
        OverlapPolicy::Wait,
    ];
    let names = ["allow", "skip", "wait"];
    let schedules: Vec<_> = names
        .iter()
        .zip(policies)
        .map(|(name, overlap)| (*name, options("every 10m").overlap(overlap)))
        .collect();
    let mut buses = Vec::new();
    for (ahead_us, behind_us) in [(0, 0), (5_000_000, 0), (0, 5_000_000)] {
        let faulty = Faulty::to(&near);
        faulty.ahead_us.store(ahead_us, Ordering::Relaxed);
        faulty.behind_us.store(behind_us, Ordering::Relaxed);
        let builder = builder(&seen, &schedules).shared_store(faulty as _);
        buses.push(
            TestBus::start_on(Arc::clone(&clock), builder)
                .await
                .unwrap(),
        );
    }
    // Instants before that are not those of the first declaration by any of the clocks.
    buses[0].advance(MINUTE).await;
    let began = buses[0].now();
    buses[0].advance(MINUTE * 360).await;
    let until = buses[0].now();
    buses[0].advance(MINUTE).await;
    for (name, options) in &schedules {
        let expected: Vec<_> = options
            .instants(began)
            .take_while(|at| *at <= until)
            .collect();
        let mut run = instants(&seen, name);
        run.retain(|at| *at > began && *at <= until);
        assert_eq!(run, expected, "{name}");
    }
    for (one, late) in seen.lock().unwrap().iter() {
        // A node that is behind the store by five seconds holds what it has until its own time.
        assert!(*late < Duration::from_secs(7), "{one:?}: {late:?}");
    }
}

/// The only node has a clock that is behind that of the store.
#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_behind_looks_at_what_is_due_once() {
    const LINKS_MAX: usize = 500;
    for overlap in [
        OverlapPolicy::Allow,
        OverlapPolicy::Skip,
        OverlapPolicy::Wait,
    ] {
        let (clock, near) = store();
        let seen = Seen::default();
        let faulty = Faulty::to(&near);
        faulty.behind_us.store(5_000_000, Ordering::Relaxed);
        let links = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&links);
        faulty.meets(move |bucket, op| {
            let is_link = bucket.queue.as_str() == "duly.schedules";
            if is_link && matches!(op, StoreOp::Push(_)) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            if counted.load(Ordering::Relaxed) > LINKS_MAX {
                return Fault::Hung; // else it would go on at this very moment
            }
            Fault::None
        });
        let often = [("often", options("every 10m").overlap(overlap))];
        let bus = builder(&seen, &often).shared_store(faulty as _);
        let bus = TestBus::start_on(Arc::clone(&clock), bus).await.unwrap();
        bus.advance(MINUTE).await;
        let began = bus.now();
        bus.advance(MINUTE * 180).await;
        let links = links.load(Ordering::Relaxed);
        assert!(links < 3 * 18, "{overlap}: {links} links for 18 instants");
        let mut instants = instants(&seen, "often");
        instants.retain(|at| *at > began);
        assert_eq!(instants.len(), 18, "{overlap}");
    }
}

#[tokio::test(start_paused = true)]
async fn buckets_that_change_between_two_looks_make_no_second_event() {
    // It pushes as before, or its schedules have just been given another queue.
    let first = fastrand::usize(..2);
    let stops = (first..12).step_by(2);
    for (stop, moves) in stops.flat_map(|stop| [(stop, false), (stop, true)]) {
        let (clock, near) = store();
        let seen = Seen::default();
        // Of eight buckets, some of these go to others than the first.
        let names = ["a", "b", "c", "d", "e", "f"];
        let often = names.map(|name| (name, options("every 10m")));
        let elsewhere = ScheduleOptions::new("elsewhere", "every 10m").unwrap();
        let build = |store: Arc<dyn Store>| builder(&seen, &[]).shared_store(store);
        let faulty = Faulty::to(&near);
        let bus = TestBus::start_on(Arc::clone(&clock), build(Arc::clone(&faulty) as _));
        let bus = bus.await.unwrap();
        for (name, options) in &often {
            let options = if moves { &elsewhere } else { options };
            bus.schedules().set(name, options.clone()).await.unwrap();
        }
        bus.advance(MINUTE * 20).await;
        if moves {
            for (name, options) in &often {
                bus.schedules().set(name, options.clone()).await.unwrap();
            }
        }
        // It dies after one of its next operations on links or occurrences.
        let done = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&done);
        faulty.meets(move |_, op| {
            if matches!(op, StoreOp::Push(_) | StoreOp::Settle { .. }) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            if counted.load(Ordering::Relaxed) > stop {
                return Fault::Hung;
            }
            Fault::None
        });
        while done.load(Ordering::Relaxed) <= stop {
            bus.advance(Duration::from_secs(1)).await;
        }
        drop(bus); // what it pushed is still to come
        let other = TestBus::start_on(Arc::clone(&clock), build(near));
        let other = other.await.unwrap();
        other.set_buckets("report", Some(1)).await.unwrap();
        let began = other.now();
        other.advance(MINUTE * 60).await;
        for (name, options) in &often {
            let ends = ends(&other, name).await;
            assert!(ends.len() > 5);
            for (instant, all) in &ends {
                assert_eq!(
                    all.len(),
                    1,
                    "{stop}, {moves}: {name} at {instant}: {all:?}"
                );
            }
            let mut after = options.instants(began).take(5);
            assert!(
                after.all(|at| ends.contains_key(&at)),
                "{stop}, {moves}: {name}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_an_encrypted_queue_neither_the_schedule_nor_its_occurrences_can_be_read() {
    let (clock, near) = store();
    let keys = KeyRing::new();
    keys.add("k1", Key::new([7; 32])).unwrap();
    keys.choose("k1").unwrap();
    let secret = ScheduleOptions::new("report", "every 1h").unwrap();
    let secret = secret.payload(&"resplendent quetzal").unwrap();
    let build = || Bus::builder().shared_store(Arc::clone(&near));
    let ran = Arc::new(AtomicUsize::new(0));
    let bus = build().keys(keys).register(told {}).state(Arc::clone(&ran));
    let bus = bus.schedule("secret", secret.clone());
    let bus = TestBus::start_on(Arc::clone(&clock), bus).await.unwrap();
    bus.advance(DAY).await;
    assert_eq!(ran.load(Ordering::Relaxed), 24);
    let shown = bus.schedules().get("secret").await.unwrap().unwrap();
    assert_eq!(shown.options, secret);
    // Somebody without a key learns that there is one, and not what it says.
    let blind = TestBus::start_on(Arc::clone(&clock), build().publish_only());
    let error = blind.await.unwrap().schedules().get("secret").await;
    let error = error.unwrap_err();
    assert!(!error.to_string().contains("quetzal"), "{error}");
    let (mut events, word) = (0, b"quetzal");
    for bucket in near.buckets().await.unwrap() {
        let peek = StoreOp::peek(PeekBy::All, None, 100);
        let page = peek.apply(&*near, &bucket).await.unwrap();
        for body in page.events.iter().filter_map(|event| event.body.as_ref()) {
            events += 1;
            let bytes = body.payload.as_bytes();
            assert!(
                !bytes.windows(word.len()).any(|it| it == word),
                "{bucket:?}"
            );
        }
    }
    assert!(events >= 2, "the link, and what is ahead");
}

#[delay_event(queue = "report", encrypt = true, register = false)]
async fn told(event: Event<String>, ran: duly::State<Arc<AtomicUsize>>) -> Result<(), Failure> {
    assert_eq!(event.payload, "resplendent quetzal");
    ran.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[delay_event(queue = "report", attempts = 1, register = false)]
async fn fails(event: Event<Occurrence>, seen: duly::State<Seen>) -> Result<(), Failure> {
    let late = event.lateness();
    seen.lock().unwrap().push((event.payload, late));
    Err(Failure::permanent("it cannot be done"))
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_that_died_holds_up_none_that_follow() {
    for overlap in [OverlapPolicy::Skip, OverlapPolicy::Wait] {
        let seen = Seen::default();
        let builder = Bus::builder().register(fails {}).state(Arc::clone(&seen));
        let builder = builder.schedule("fails", options("every 1h").overlap(overlap));
        let bus = TestBus::start(builder).await.unwrap();
        bus.advance(DAY).await;
        assert_eq!(instants(&seen, "fails").len(), 24, "{overlap}");
        let letters = bus.stats("report").await.unwrap().dead;
        assert_eq!(letters, 24, "{overlap}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_schedules_of_one_instant_are_each_on_time_whatever_they_overlap() {
    let (bus, seen) = bus(&[]).await;
    let policies = [
        OverlapPolicy::Allow,
        OverlapPolicy::Skip,
        OverlapPolicy::Wait,
    ];
    for number in 0..1_000 {
        let options = options("0 9 * * *").overlap(policies[number % 3]);
        let name = format!("s{number}");
        bus.schedules().set(&name, options).await.unwrap();
    }
    let expected: Vec<_> = options("0 9 * * *").instants(bus.now()).take(3).collect();
    bus.advance(DAY * 3).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3_000);
    let mut of: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    for (one, late) in seen.iter() {
        of.entry(&one.schedule).or_default().push(one.instant);
        assert_eq!(*late, Duration::ZERO, "{one:?}");
    }
    assert_eq!(of.len(), 1_000);
    assert!(of.values().all(|instants| *instants == expected));
}

#[delay_event(queue = "report", register = false)]
async fn takes_a_second(event: Event<Occurrence>, seen: duly::State<Seen>) -> Result<(), Failure> {
    let late = event.lateness();
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    seen.lock().unwrap().push((event.payload, late));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn occurrences_that_wait_catch_up_however_far_they_are_behind() {
    let (clock, near) = store();
    let seen = Seen::default();
    let often = options("every 4s").missed(MissedPolicy::All(1_000));
    let often = often.overlap(OverlapPolicy::Wait);
    let build = || {
        let builder = Bus::builder().register(takes_a_second {});
        let builder = builder.state(Arc::clone(&seen));
        builder.shared_store(Arc::clone(&near))
    };
    let bus = TestBus::start_on(Arc::clone(&clock), build())
        .await
        .unwrap();
    bus.schedules().set("often", often.clone()).await.unwrap();
    let began = bus.now();
    bus.advance(MINUTE).await;
    bus.shutdown(MINUTE).await.unwrap();
    tokio::time::advance(MINUTE).await;
    let bus = TestBus::start_on(Arc::clone(&clock), build())
        .await
        .unwrap();
    bus.advance(MINUTE * 2).await;
    let due = often.instants(began).take_while(|at| *at <= bus.now());
    let (due, run) = (due.count(), instants(&seen, "often").len());
    assert!(run + 2 >= due, "{run} of {due}");
}
